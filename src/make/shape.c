// The tensors of each architecture, as tables, in the order in which converters and quantizers
// leave them: by name.
#include "make/make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "quant/quant.h"

typedef enum width { W_NONE, W_EMBD, W_Q, W_KV, W_QKV, W_HEAD, W_FF, W_2FF, W_VOCAB, W_CTX } width;

struct make_arch_row {
    const char *name;
    make_fill fill;
    width cols, rows; // rows W_NONE: one dimension
    bool untied_only;
};

// clang-format off
static const make_arch_row top_plain[] = {
    {"output.weight",      MAKE_FILL_EMBD, W_EMBD, W_VOCAB, true},
    {"output_norm.weight", MAKE_FILL_NORM, W_EMBD, W_NONE,  false},
    {"token_embd.weight",  MAKE_FILL_EMBD, W_EMBD, W_VOCAB, false},
    {0},
};

static const make_arch_row top_biased[] = {
    {"output.weight",        MAKE_FILL_EMBD, W_EMBD, W_VOCAB, true},
    {"output_norm.bias",     MAKE_FILL_BIAS, W_EMBD, W_NONE,  false},
    {"output_norm.weight",   MAKE_FILL_NORM, W_EMBD, W_NONE,  false},
    {"token_embd.weight",    MAKE_FILL_EMBD, W_EMBD, W_VOCAB, false},
    {0},
};

static const make_arch_row top_gpt2[] = {
    {"output.weight",        MAKE_FILL_EMBD, W_EMBD, W_VOCAB, true},
    {"output_norm.bias",     MAKE_FILL_BIAS, W_EMBD, W_NONE,  false},
    {"output_norm.weight",   MAKE_FILL_NORM, W_EMBD, W_NONE,  false},
    {"position_embd.weight", MAKE_FILL_BIAS, W_EMBD, W_CTX,   false},
    {"token_embd.weight",    MAKE_FILL_EMBD, W_EMBD, W_VOCAB, false},
    {0},
};

static const make_arch_row layer_llama[] = { // smollm3 too
    {"attn_k.weight",      MAKE_FILL_MATRIX, W_EMBD, W_KV,   false},
    {"attn_norm.weight",   MAKE_FILL_NORM,   W_EMBD, W_NONE, false},
    {"attn_output.weight", MAKE_FILL_OUT,    W_Q,    W_EMBD, false},
    {"attn_q.weight",      MAKE_FILL_MATRIX, W_EMBD, W_Q,    false},
    {"attn_v.weight",      MAKE_FILL_MATRIX, W_EMBD, W_KV,   false},
    {"ffn_down.weight",    MAKE_FILL_OUT,    W_FF,   W_EMBD, false},
    {"ffn_gate.weight",    MAKE_FILL_MATRIX, W_EMBD, W_FF,   false},
    {"ffn_norm.weight",    MAKE_FILL_NORM,   W_EMBD, W_NONE, false},
    {"ffn_up.weight",      MAKE_FILL_MATRIX, W_EMBD, W_FF,   false},
    {0},
};

static const make_arch_row layer_qwen2[] = {
    {"attn_k.bias",        MAKE_FILL_BIAS,   W_KV,   W_NONE, false},
    {"attn_k.weight",      MAKE_FILL_MATRIX, W_EMBD, W_KV,   false},
    {"attn_norm.weight",   MAKE_FILL_NORM,   W_EMBD, W_NONE, false},
    {"attn_output.weight", MAKE_FILL_OUT,    W_Q,    W_EMBD, false},
    {"attn_q.bias",        MAKE_FILL_BIAS,   W_Q,    W_NONE, false},
    {"attn_q.weight",      MAKE_FILL_MATRIX, W_EMBD, W_Q,    false},
    {"attn_v.bias",        MAKE_FILL_BIAS,   W_KV,   W_NONE, false},
    {"attn_v.weight",      MAKE_FILL_MATRIX, W_EMBD, W_KV,   false},
    {"ffn_down.weight",    MAKE_FILL_OUT,    W_FF,   W_EMBD, false},
    {"ffn_gate.weight",    MAKE_FILL_MATRIX, W_EMBD, W_FF,   false},
    {"ffn_norm.weight",    MAKE_FILL_NORM,   W_EMBD, W_NONE, false},
    {"ffn_up.weight",      MAKE_FILL_MATRIX, W_EMBD, W_FF,   false},
    {0},
};

static const make_arch_row layer_qwen3[] = {
    {"attn_k.weight",      MAKE_FILL_MATRIX, W_EMBD, W_KV,   false},
    {"attn_k_norm.weight", MAKE_FILL_NORM,   W_HEAD, W_NONE, false},
    {"attn_norm.weight",   MAKE_FILL_NORM,   W_EMBD, W_NONE, false},
    {"attn_output.weight", MAKE_FILL_OUT,    W_Q,    W_EMBD, false},
    {"attn_q.weight",      MAKE_FILL_MATRIX, W_EMBD, W_Q,    false},
    {"attn_q_norm.weight", MAKE_FILL_NORM,   W_HEAD, W_NONE, false},
    {"attn_v.weight",      MAKE_FILL_MATRIX, W_EMBD, W_KV,   false},
    {"ffn_down.weight",    MAKE_FILL_OUT,    W_FF,   W_EMBD, false},
    {"ffn_gate.weight",    MAKE_FILL_MATRIX, W_EMBD, W_FF,   false},
    {"ffn_norm.weight",    MAKE_FILL_NORM,   W_EMBD, W_NONE, false},
    {"ffn_up.weight",      MAKE_FILL_MATRIX, W_EMBD, W_FF,   false},
    {0},
};

static const make_arch_row layer_gemma2[] = {
    {"attn_k.weight",              MAKE_FILL_MATRIX, W_EMBD, W_KV,   false},
    {"attn_norm.weight",           MAKE_FILL_NORM,   W_EMBD, W_NONE, false},
    {"attn_output.weight",         MAKE_FILL_OUT,    W_Q,    W_EMBD, false},
    {"attn_q.weight",              MAKE_FILL_MATRIX, W_EMBD, W_Q,    false},
    {"attn_v.weight",              MAKE_FILL_MATRIX, W_EMBD, W_KV,   false},
    {"ffn_down.weight",            MAKE_FILL_OUT,    W_FF,   W_EMBD, false},
    {"ffn_gate.weight",            MAKE_FILL_MATRIX, W_EMBD, W_FF,   false},
    {"ffn_norm.weight",            MAKE_FILL_NORM,   W_EMBD, W_NONE, false},
    {"ffn_up.weight",              MAKE_FILL_MATRIX, W_EMBD, W_FF,   false},
    {"post_attention_norm.weight", MAKE_FILL_NORM,   W_EMBD, W_NONE, false},
    {"post_ffw_norm.weight",       MAKE_FILL_NORM,   W_EMBD, W_NONE, false},
    {0},
};

static const make_arch_row layer_gemma3[] = {
    {"attn_k.weight",              MAKE_FILL_MATRIX, W_EMBD, W_KV,   false},
    {"attn_k_norm.weight",         MAKE_FILL_NORM,   W_HEAD, W_NONE, false},
    {"attn_norm.weight",           MAKE_FILL_NORM,   W_EMBD, W_NONE, false},
    {"attn_output.weight",         MAKE_FILL_OUT,    W_Q,    W_EMBD, false},
    {"attn_q.weight",              MAKE_FILL_MATRIX, W_EMBD, W_Q,    false},
    {"attn_q_norm.weight",         MAKE_FILL_NORM,   W_HEAD, W_NONE, false},
    {"attn_v.weight",              MAKE_FILL_MATRIX, W_EMBD, W_KV,   false},
    {"ffn_down.weight",            MAKE_FILL_OUT,    W_FF,   W_EMBD, false},
    {"ffn_gate.weight",            MAKE_FILL_MATRIX, W_EMBD, W_FF,   false},
    {"ffn_norm.weight",            MAKE_FILL_NORM,   W_EMBD, W_NONE, false},
    {"ffn_up.weight",              MAKE_FILL_MATRIX, W_EMBD, W_FF,   false},
    {"post_attention_norm.weight", MAKE_FILL_NORM,   W_EMBD, W_NONE, false},
    {"post_ffw_norm.weight",       MAKE_FILL_NORM,   W_EMBD, W_NONE, false},
    {0},
};

static const make_arch_row layer_phi3[] = {
    {"attn_norm.weight",   MAKE_FILL_NORM,   W_EMBD, W_NONE, false},
    {"attn_output.weight", MAKE_FILL_OUT,    W_Q,    W_EMBD, false},
    {"attn_qkv.weight",    MAKE_FILL_MATRIX, W_EMBD, W_QKV,  false},
    {"ffn_down.weight",    MAKE_FILL_OUT,    W_FF,   W_EMBD, false},
    {"ffn_norm.weight",    MAKE_FILL_NORM,   W_EMBD, W_NONE, false},
    {"ffn_up.weight",      MAKE_FILL_MATRIX, W_EMBD, W_2FF,  false},
    {0},
};

static const make_arch_row layer_gpt[] = { // gpt2 and gptneox
    {"attn_norm.bias",     MAKE_FILL_BIAS,   W_EMBD, W_NONE, false},
    {"attn_norm.weight",   MAKE_FILL_NORM,   W_EMBD, W_NONE, false},
    {"attn_output.bias",   MAKE_FILL_BIAS,   W_EMBD, W_NONE, false},
    {"attn_output.weight", MAKE_FILL_OUT,    W_Q,    W_EMBD, false},
    {"attn_qkv.bias",      MAKE_FILL_BIAS,   W_QKV,  W_NONE, false},
    {"attn_qkv.weight",    MAKE_FILL_MATRIX, W_EMBD, W_QKV,  false},
    {"ffn_down.bias",      MAKE_FILL_BIAS,   W_EMBD, W_NONE, false},
    {"ffn_down.weight",    MAKE_FILL_OUT,    W_FF,   W_EMBD, false},
    {"ffn_norm.bias",      MAKE_FILL_BIAS,   W_EMBD, W_NONE, false},
    {"ffn_norm.weight",    MAKE_FILL_NORM,   W_EMBD, W_NONE, false},
    {"ffn_up.bias",        MAKE_FILL_BIAS,   W_FF,   W_NONE, false},
    {"ffn_up.weight",      MAKE_FILL_MATRIX, W_EMBD, W_FF,   false},
    {0},
};

static const char rms_eps[] = "attention.layer_norm_rms_epsilon";
static const char layer_eps[] = "attention.layer_norm_epsilon";

static const make_arch archs[] = {
    {"llama",   "llama-bpe", rms_eps,   1e-5f, 500000.0f,  true,  top_plain,  layer_llama},
    {"smollm3", "smaug-bpe", rms_eps,   1e-6f, 5000000.0f, true,  top_plain,  layer_llama},
    {"qwen2",   "qwen2",     rms_eps,   1e-6f, 1000000.0f, true,  top_plain,  layer_qwen2},
    {"qwen3",   "qwen2",     rms_eps,   1e-6f, 1000000.0f, true,  top_plain,  layer_qwen3},
    {"gemma2",  "gpt-2",     rms_eps,   1e-6f, 10000.0f,   true,  top_plain,  layer_gemma2},
    {"gemma3",  "gpt-2",     rms_eps,   1e-6f, 1000000.0f, true,  top_plain,  layer_gemma3},
    {"phi3",    "gpt-2",     rms_eps,   1e-5f, 10000.0f,   true,  top_plain,  layer_phi3},
    {"gpt2",    "gpt-2",     layer_eps, 1e-5f, 0.0f,       false, top_gpt2,   layer_gpt},
    {"gptneox", "gpt-2",     layer_eps, 1e-5f, 10000.0f,   false, top_biased, layer_gpt},
};
// clang-format on

const make_arch *make_arch_at(size_t index)
{
    return index < sizeof archs / sizeof *archs ? &archs[index] : NULL;
}

const make_arch *make_arch_named(const char *name)
{
    for (size_t i = 0; make_arch_at(i); i++) {
        if (!strcmp(archs[i].name, name)) return &archs[i];
    }
    return NULL;
}

static uint64_t width_of(const make_shape *s, width w)
{
    uint64_t q = (uint64_t)s->n_head * s->head_dim, kv = (uint64_t)s->n_head_kv * s->head_dim;
    switch (w) {
    case W_NONE: return 1;
    case W_EMBD: return s->n_embd;
    case W_Q: return q;
    case W_KV: return kv;
    case W_QKV: return q + 2 * kv;
    case W_HEAD: return s->head_dim;
    case W_FF: return s->n_ff;
    case W_2FF: return 2 * (uint64_t)s->n_ff;
    case W_VOCAB: return s->n_vocab;
    case W_CTX: return s->n_ctx;
    }
    return 0;
}

static pm_status place_tensor(const make_shape *s, const make_arch_row *row, long layer,
                              uint64_t *end, make_tensor *t)
{
    bool small = row->fill == MAKE_FILL_NORM || row->fill == MAKE_FILL_BIAS;
    *t = (make_tensor){
        .type = small                         ? QUANT_F32
                : row->fill == MAKE_FILL_EMBD ? s->embd_type
                                              : s->type,
        .n_dims = row->rows == W_NONE ? 1 : 2,
        .dims = {width_of(s, row->cols), width_of(s, row->rows)},
        .fill = row->fill,
        .offset = *end,
    };
    if (layer < 0)
        snprintf(t->name, sizeof t->name, "%s", row->name);
    else
        snprintf(t->name, sizeof t->name, "blk.%ld.%s", layer, row->name);
    uint64_t row_bytes, bytes;
    if (!quant_row_bytes(t->type, t->dims[0], &row_bytes))
        return error_set(PM_ERROR_USAGE, "%s: rows of %llu values don't go with type %s", t->name,
                         (unsigned long long)t->dims[0], quant_type_name(t->type));
    if (!size_mul(row_bytes, t->dims[1], &bytes) || !size_add(*end, bytes, end) ||
        !size_align(*end, 32, end))
        return error_set(PM_ERROR_USAGE, "%s: is too large", t->name);
    t->bytes = bytes;
    return PM_OK;
}

static size_t count_rows(const make_arch_row *rows)
{
    size_t n = 0;
    while (rows[n].name) n++;
    return n;
}

make_shape make_smollm3_3b(void)
{
    return (make_shape){.arch = make_arch_named("smollm3"),
                        .n_layer = 36,
                        .n_embd = 2048,
                        .n_head = 16,
                        .n_head_kv = 4,
                        .head_dim = 128,
                        .n_ff = 11008,
                        .n_vocab = 128256,
                        .n_ctx = 65536,
                        .type = QUANT_Q8_0,
                        .embd_type = QUANT_Q8_0,
                        .tied = true,
                        .seed = 1};
}

pm_status make_tensors(const make_shape *s, make_tensor **tensors, size_t *n)
{
    size_t most = count_rows(s->arch->top) + s->n_layer * count_rows(s->arch->layer);
    make_tensor *all = calloc(most + 1, sizeof *all);
    *tensors = NULL;
    *n = 0;
    if (!all) return error_memory("the tensor table", most * sizeof *all);
    uint64_t end = 0;
    size_t used = 0;
    pm_status status = PM_OK;
    for (const make_arch_row *row = s->arch->top; status == PM_OK && row->name; row++) {
        if (!row->untied_only || !s->tied) status = place_tensor(s, row, -1, &end, &all[used++]);
    }
    for (long layer = 0; status == PM_OK && layer < (long)s->n_layer; layer++) {
        for (const make_arch_row *row = s->arch->layer; status == PM_OK && row->name; row++)
            status = place_tensor(s, row, layer, &end, &all[used++]);
    }
    if (status != PM_OK) {
        free(all);
        return status;
    }
    *tensors = all;
    *n = used;
    return PM_OK;
}
