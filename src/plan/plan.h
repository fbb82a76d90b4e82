// The plan: a model as a short, flat, typed list of operations that every executor runs.
//
// plan_build (plan/build.h) makes it once per session from a model; it reads as the forward pass.
// What changes from token to token is data: the step block. An executor (exec/exec.h) sees only
// what is declared here, never the model or its file.
//
// Everything here is immutable after plan_build; any number of threads may read it.
#ifndef PUMICE_PLAN_PLAN_H
#define PUMICE_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "quant/quant.h"

enum {
    PLAN_NONE = -1,        // no tensor, no buffer
    PLAN_MAX_ROWS = 512,   // rows of a step
    PLAN_MATVEC_ROWS = 16, // up to here a plan is for matrix-vector products
    PLAN_N_TOP = 256,      // candidates that PICK reports
};

// ---- tensors: what is read only --------------------------------------------------------------

// A tensor of the model (its values come through exec_source), or a constant that the builder
// computed (its values are here). A vector is a tensor of one row.
typedef struct plan_tensor {
    const char *name;
    quant_type type;
    uint32_t rows, cols; // cols contiguous
    uint64_t row_bytes;
    int layer;           // PLAN_NONE outside layers
    bool vector;         // norm weights, biases, factors: executors keep them as f32
    const float *values; // constants only: [rows][cols] f32, owned by the plan_set
} plan_tensor;

// Rows [row, row + rows) of a matrix: fused QKV and gate-up tensors need nothing special.
typedef struct plan_weight {
    int tensor; // index into plan_set.tensors
    uint32_t row, rows;
} plan_weight;

// Elements [first, ...) of a vector tensor; tensor PLAN_NONE: absent.
typedef struct plan_vector {
    int tensor;
    uint32_t first;
} plan_vector;

// ---- buffers: what is written ----------------------------------------------------------------

// Handles; an executor keeps the memory. Row buffers hold one row per row of the step.
enum {
    PLAN_X,      // [rows][n_embd] f32: the residual stream; segments hand it over
    PLAN_X2,     // [rows][n_embd] f32: a second one (parallel residual)
    PLAN_XN,     // [rows][n_embd] f32: a normalized row
    PLAN_XQ,     // [rows][n_embd] q8: a normalized row for act=q8
    PLAN_QKV,    // [rows][(n_head + 2 n_head_kv) head_dim] f32: Q, K, V of a row side by side
    PLAN_ATT,    // [rows][n_head head_dim] f32: attention's result
    PLAN_ATTQ,   // the same in q8
    PLAN_T,      // [rows][n_embd] f32: a branch before its post-norm or its unfused add
    PLAN_FF,     // [rows][n_ff] f32: gate, then activated
    PLAN_UP,     // [rows][n_ff] f32: up, where it isn't fused
    PLAN_FFQ,    // [rows][n_ff] q8
    PLAN_LOGITS, // [marked rows][n_vocab] f32
    PLAN_PICK,   // [marked rows] plan_pick
    PLAN_KV,     // K of layer i is PLAN_KV + 2 i, V follows: [slot][head_kv][position][head_dim]
};

typedef struct plan_buf {
    const char *name;
    quant_type type; // F32; Q8_0 for q8 rows; the cache's type for K and V
    uint32_t width;  // values a row; 0: this plan does not use the buffer. PICK: words of plan_pick
    uint32_t rows;   // K, V: n_slots * n_head_kv * n_ctx rows of head_dim values
    uint64_t row_bytes;
    uint64_t bytes; // rows * row_bytes
    int layer;      // of K and V
} plan_buf;

// Columns [col, col + n) of every row of a row buffer.
typedef struct plan_view {
    int buf; // PLAN_NONE: absent
    uint32_t col, n;
} plan_view;

// ---- the step block: what changes per token ---------------------------------------------------

typedef struct plan_row {
    int32_t token;
    uint32_t pos;  // position in its sequence: RoPE angle and cache position
    uint32_t slot; // which sequence's cache
    uint32_t n_kv; // keys that exist for this row, itself included: positions [0, n_kv)
} plan_row;

// Rows of one slot come in rising positions. 9.2 KiB: fits a 16 KiB uniform buffer, whose layout it
// has (shaders/common.glsl).
typedef struct plan_step {
    uint32_t n_rows, n_logits, unused[2];
    plan_row rows[PLAN_MAX_ROWS];
    uint16_t logit_rows[PLAN_MAX_ROWS]; // the rows that want logits, ascending
} plan_step;

typedef struct plan_pick {
    int32_t id;                 // arg max; the lowest id among equals
    float max;                  // its logit
    float log_sum_exp;          // of all logits
    uint32_t finite;            // 1: no NaN, no infinity among them
    uint32_t n_top;             // min(PLAN_N_TOP, n_vocab)
    int32_t top_id[PLAN_N_TOP]; // largest first; equal logits: lowest id first
    float top_logit[PLAN_N_TOP];
} plan_pick;

// ---- operations -------------------------------------------------------------------------------

typedef enum plan_op_kind {
    PLAN_EMBED,
    PLAN_NORM,
    PLAN_LINEAR,
    PLAN_QUANTIZE,
    PLAN_ROPE_KV,
    PLAN_ATTEND,
    PLAN_ACTIVATE,
    PLAN_ADD,
    PLAN_LOGITS_OP,
    PLAN_PICK_OP,
    PLAN_N_OP_KINDS
} plan_op_kind;

typedef enum plan_act { PLAN_ACT_F32, PLAN_ACT_Q8 } plan_act;
typedef enum plan_norm { PLAN_NORM_RMS, PLAN_NORM_LAYER } plan_norm;
typedef enum plan_rope { PLAN_ROPE_NONE, PLAN_ROPE_INTERLEAVED, PLAN_ROPE_NEOX } plan_rope;
typedef enum plan_fn { PLAN_FN_NONE, PLAN_FN_SILU, PLAN_FN_GELU_TANH, PLAN_FN_GELU_ERF } plan_fn;

// out = table[token] * scale (+ positions[pos])
typedef struct plan_embed {
    plan_weight table;
    plan_weight positions; // tensor PLAN_NONE: none
    float scale;
    plan_view out;
} plan_embed;

// RMS:   out = x / sqrt(mean(x^2) + eps) * weight
// LAYER: out = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias
// then + residual, where there is one. out may be q8 (then without residual).
typedef struct plan_norm_op {
    plan_norm norm;
    float eps;
    plan_vector weight, bias;
    plan_view x, residual, out;
} plan_norm_op;

// y_i = W_i x, in this order: norm-in of x, product, + bias, then
//   gated:  out[0] = fn(y_0) * y_1
//   else:   out[i] = fn(y_i) + residual   (a residual only with one weight)
// x is f32 with act=f32, q8 with act=q8. residual and out may be the same view. Only with gated may
// out be q8. All weights have one format and x's width.
typedef struct plan_linear {
    uint32_t n_weights; // 1 to 3; 2 when gated
    plan_weight weight[3];
    plan_vector bias[3];
    plan_view x, out[3], residual;
    plan_vector norm_in; // RMSNorm of x with this weight and eps before the product; act=f32 only
    float norm_eps;
    plan_fn fn;
    bool gated;
} plan_linear;

typedef struct plan_quantize {
    plan_view x, out; // f32 to q8
} plan_quantize;

// Q and K: per-head RMSNorm (where there are weights), then rotation of the first n_rot dimensions;
// Q in place, K and V into the cache at the row's slot and position. Pair i of a head is dimensions
// (2i, 2i+1) interleaved, (i, i + n_rot/2) NEOX, turned by the angle whose cosine and sine are
// rope_table[pos][2i], rope_table[pos][2i + 1].
typedef struct plan_rope_kv {
    plan_view q, k, v;
    plan_vector q_norm, k_norm;
    float norm_eps;
    plan_rope rope;
    uint32_t n_rot;
    int table; // constant tensor [n_ctx][n_rot]; PLAN_NONE without rotation
    uint32_t n_head, n_head_kv, head_dim;
    int k_cache, v_cache; // buffers
} plan_rope_kv;

// For head h: softmax over the cached keys p that the row may see of scale * q.k[p], capped by
// softcap * tanh(s / softcap) where softcap > 0; out = sum of probability * v[p]. A row at
// position pos sees p in [max(0, n_kv - window), n_kv), window 0: all. Query head h reads
// key-value head h / (n_head / n_head_kv). out is f32, or q8.
typedef struct plan_attend {
    plan_view q, out;
    uint32_t n_head, n_head_kv, head_dim;
    float scale, softcap;
    uint32_t window;
    int k_cache, v_cache;
} plan_attend;

// out = fn(x), or fn(x) * up. out is f32 or q8.
typedef struct plan_activate {
    plan_fn fn;
    plan_view x, up, out;
} plan_activate;

typedef struct plan_add {
    plan_view a, b, out;
} plan_add;

// logits[i] = W x[row], row = step.logit_rows[i]; + bias; capped where softcap > 0. norm_in as in
// plan_linear.
typedef struct plan_logits {
    plan_weight weight;
    plan_vector bias;
    plan_view x;
    plan_vector norm_in;
    float norm_eps;
    float softcap;
} plan_logits;

typedef struct plan_op {
    plan_op_kind kind;
    int layer;         // PLAN_NONE before the first and after the last
    plan_act act;      // of LINEAR and LOGITS
    const char *label; // what it computes, in the field's terms: "attn_qkv"
    union {
        plan_embed embed;
        plan_norm_op norm;
        plan_linear linear;
        plan_quantize quantize;
        plan_rope_kv rope_kv;
        plan_attend attend;
        plan_activate activate;
        plan_add add;
        plan_logits logits; // PICK has no operands: it reads PLAN_LOGITS, writes PLAN_PICK
    } u;
} plan_op;

// The op list for up to max_rows rows.
typedef struct plan {
    uint32_t max_rows;
    uint32_t n_ops;
    const plan_op *ops;
} plan;

enum { PLAN_N_BUCKETS = 6 }; // 1, 2, 4, 8, 16 and n_batch rows

// All plans of a session with the tables that they share.
typedef struct plan_set {
    uint32_t n_tensors; // the model's tensors in the model's order, then the constants
    uint32_t n_model_tensors;
    const plan_tensor *tensors;
    uint32_t n_bufs;
    const plan_buf *bufs;
    plan buckets[PLAN_N_BUCKETS]; // ascending; those beyond n_batch are left out
    uint32_t n_buckets;
    uint32_t n_layer, n_embd, n_vocab, n_head, n_head_kv, head_dim;
    uint32_t n_ctx, n_slots, n_batch, n_logits; // n_logits: most marked rows of a step
    quant_type kv_type;
} plan_set;

// The smallest bucket that holds n_rows (1 <= n_rows <= n_batch).
const plan *plan_for_rows(const plan_set *set, uint32_t n_rows);
void plan_set_free(plan_set *set); // accepts NULL

// Index of the first op of a layer, and the op count of the layer (layer PLAN_NONE is not one).
void plan_layer_ops(const plan *p, int layer, uint32_t *first, uint32_t *count);

// What one run of an op reads and writes in memory, each operand once, and its arithmetic; for rows
// that all see n_kv keys. The figures behind barriers, GB/s and the roofline.
typedef struct plan_cost {
    uint64_t weight_bytes, kv_bytes, row_bytes; // row_bytes: activations in and out
    uint64_t flops;
} plan_cost;
plan_cost plan_op_cost(const plan_set *set, const plan_op *op, uint32_t n_rows, uint32_t n_logits,
                       uint32_t n_kv);

// What an op reads and writes: the base of barriers. Views of buffers (K and V: the whole buffer).
enum { PLAN_MAX_USES = 8 };
typedef struct plan_uses {
    uint32_t n_reads, n_writes;
    plan_view reads[PLAN_MAX_USES], writes[PLAN_MAX_USES];
} plan_uses;
void plan_op_uses(const plan_set *set, const plan_op *op, plan_uses *uses);
// Must op b wait for op a (read after write, write after read, write after write)?
bool plan_hazard(const plan_uses *a, const plan_uses *b);

// NULL where every operand lies where the op says, in a form that the op takes; else what doesn't.
// Executors rely on it and don't look again.
const char *plan_op_fault(const plan_set *set, const plan_op *op);

const char *plan_op_name(plan_op_kind kind); // "LINEAR"
// What one op computes from what, as plan_print shows it: "qkv[960] = (...) rms_norm x[576]".
void plan_print_operands(const plan_set *set, const plan_op *op, buf *out);
// One line per op, with shapes, format, bytes and flops, then the totals; as `info --plan` shows.
void plan_print(const plan_set *set, const plan *p, buf *out);

#endif
