// A model: the properties of its architecture (one table row), the numbers of its file, its tensors
// with checked shapes. Immutable after model_open; any number of threads may read it.
#ifndef PUMICE_MODEL_MODEL_H
#define PUMICE_MODEL_MODEL_H

#include "gguf/gguf.h"
#include "plan/plan.h"
#include "text/text.h"

// What differs between families and no key of the file says. A family that needs a behaviour no
// property describes is refused, never special-cased by name.
enum { MODEL_WINDOW_ALL = -1 }; // window_period: no layer is global

typedef struct model_arch {
    const char *name; // general.architecture
    const char *examples;
    plan_rope rope;
    plan_norm norm;
    plan_fn fn;
    bool gated;             // gate and up; else up alone
    bool qk_norm;           // RMSNorm of each head of Q and K: required
    bool post_norms;        // norms behind attention and feed-forward (Gemma)
    bool parallel_residual; // attention and feed-forward read the same x (unless the file says not)
    bool learned_positions;
    bool embed_scale;     // embedding times sqrt(n_embd)
    uint32_t nope_period; // every n-th layer is without RoPE; 0: all have it
    int window_period;    // with a window: every n-th layer is global; 0: no layer has a window
    int window_phase;     // layer i is global when i % period == phase
    uint32_t wide_layers; // with this layer count scores scale by sqrt(n_embd/n_head), not head_dim
    bool local_rope;      // windowed layers use their own base (10000) and no scaling
    bool longrope;        // short and long frequency factors
} model_arch;

const model_arch *model_arch_at(size_t index); // NULL past the end

typedef enum model_scaling { MODEL_SCALE_NONE, MODEL_SCALE_LINEAR, MODEL_SCALE_YARN } model_scaling;

typedef struct model_rope {
    double base, base_local;
    uint32_t n_rot;
    model_scaling scaling;
    double factor;                           // the context is stretched by it
    double attn_factor;                      // on cosine and sine; 0: none given
    double ext_factor, beta_fast, beta_slow; // YaRN
    uint32_t n_ctx_orig;
} model_rope;

typedef struct model_layer { // tensor indices; PLAN_NONE where absent
    plan_vector attn_norm, attn_norm_b, attn_post_norm, ffn_norm, ffn_norm_b, ffn_post_norm;
    plan_vector q_norm, k_norm;
    plan_weight q, k, v, o, gate, up, down;
    plan_vector q_b, k_b, v_b, o_b, gate_b, up_b, down_b;
    uint32_t window; // 0: global
    plan_rope rope;
    bool local_rope;
} model_layer;

typedef struct model {
    gguf *file;
    text_vocab *vocab; // NULL when the file has no usable one (see vocab_error)
    const model_arch *arch;
    uint32_t n_vocab, n_layer, n_embd, n_ff, n_head, n_head_kv, head_dim, n_ctx_train;
    float norm_eps, embed_scale, attn_scale, attn_softcap, logit_softcap;
    model_rope rope;
    bool parallel_residual;
    uint32_t n_tensors;
    plan_tensor *tensors;             // in the file's order
    const gguf_tensor **file_tensors; // the same order
    plan_weight embd, positions, output;
    plan_vector output_b, output_norm, output_norm_b;
    plan_vector rope_freqs, rope_short, rope_long;
    model_layer *layers; // [n_layer]
    uint64_t n_parameters;
} model;

typedef struct model_options {
    bool no_mmap;
    bool vocab_only;        // only file, arch (may be NULL) and vocab are filled
    const char *assume_pre; // see text_vocab_load
} model_options;

// PM_ERROR_FILE: anything about the file, see gguf_open; an unknown architecture, a property, a
// format or a RoPE scaling that changes results and that pumice lacks, by name.
pm_status model_open(const char *path, const model_options *options, model **out);
void model_close(model *m); // accepts NULL

// Would model_open accept this file? PM_OK, or the reason as the error. Reads no tensor data.
pm_status model_supported(const gguf *g);

#endif
