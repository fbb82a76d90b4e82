// The table of architectures: adding one that is made of known operations is one row here and a
// golden test.
#include "model/model.h"

static const model_arch archs[] = {
    {
        .name = "llama",
        .examples = "Llama 1 to 3, Mistral, SmolLM, SmolLM2, TinyLlama, DeepSeek-R1 distills",
        .rope = PLAN_ROPE_INTERLEAVED,
        .fn = PLAN_FN_SILU,
        .gated = true,
    },
    {
        .name = "smollm3",
        .examples = "SmolLM3",
        .rope = PLAN_ROPE_INTERLEAVED,
        .fn = PLAN_FN_SILU,
        .gated = true,
        .nope_period = 4,
    },
    {
        .name = "qwen2",
        .examples = "Qwen 2, Qwen 2.5",
        .rope = PLAN_ROPE_NEOX,
        .fn = PLAN_FN_SILU,
        .gated = true,
    },
    {
        .name = "qwen3",
        .examples = "Qwen 3",
        .rope = PLAN_ROPE_NEOX,
        .fn = PLAN_FN_SILU,
        .gated = true,
        .qk_norm = true,
    },
    {
        .name = "gemma2",
        .examples = "Gemma 2",
        .rope = PLAN_ROPE_NEOX,
        .fn = PLAN_FN_GELU_TANH,
        .gated = true,
        .post_norms = true,
        .embed_scale = true,
        .window_period = 2,
        .window_phase = 1,
        .wide_layers = 46, // the 27B model: query_pre_attn_scalar is hidden size / heads
    },
    {
        .name = "gemma3",
        .examples = "Gemma 3 (text)",
        .rope = PLAN_ROPE_NEOX,
        .fn = PLAN_FN_GELU_TANH,
        .gated = true,
        .qk_norm = true,
        .post_norms = true,
        .embed_scale = true,
        .window_period = 6,
        .window_phase = 5,
        .wide_layers = 62, // the 27B model
        .local_rope = true,
    },
    {
        .name = "phi3",
        .examples = "Phi-3, Phi-3.5, Phi-4",
        .rope = PLAN_ROPE_NEOX,
        .fn = PLAN_FN_SILU,
        .gated = true,
        .window_period = MODEL_WINDOW_ALL,
        .longrope = true,
    },
    {
        .name = "gpt2",
        .examples = "GPT-2",
        .norm = PLAN_NORM_LAYER,
        .fn = PLAN_FN_GELU_TANH,
        .learned_positions = true,
    },
    {
        // Which GELU the file means is in no key: the models' own configuration says the exact one.
        .name = "gptneox",
        .examples = "GPT-NeoX, Pythia",
        .rope = PLAN_ROPE_NEOX,
        .norm = PLAN_NORM_LAYER,
        .fn = PLAN_FN_GELU_ERF,
        .parallel_residual = true,
    },
};

const model_arch *model_arch_at(size_t index)
{
    return index < sizeof archs / sizeof archs[0] ? &archs[index] : NULL;
}
