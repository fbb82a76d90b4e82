// Finds every tensor that the architecture needs, with its shape checked, and refuses what is left
// over: a tensor that nothing reads means a computation that pumice doesn't know.
#include "model/model_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct binder {
    model *m;
    bool *used; // [n_tensors]
    pm_status status;
    int layer; // PLAN_NONE outside layers
} binder;

static const plan_vector no_vector = {.tensor = PLAN_NONE};
static const plan_weight no_weight = {.tensor = PLAN_NONE};

static int find(binder *b, const char *suffix, char name[96])
{
    if (b->layer >= 0)
        snprintf(name, 96, "blk.%d.%s", b->layer, suffix);
    else
        snprintf(name, 96, "%s", suffix);
    for (uint32_t i = 0; i < b->m->n_tensors; i++) {
        if (strcmp(b->m->tensors[i].name, name) != 0) continue;
        b->used[i] = true;
        b->m->tensors[i].layer = b->layer;
        return (int)i;
    }
    return PLAN_NONE;
}

static void refuse(binder *b, const char *format, const char *name)
{
    if (b->status == PM_OK) b->status = error_set(PM_ERROR_FILE, format, name);
}

// Formats are judged here, where the tensor's name is known.
static void check_type(binder *b, int tensor)
{
    const plan_tensor *t = &b->m->tensors[tensor];
    char where[128];
    snprintf(where, sizeof where, "tensor '%s'", t->name);
    if (b->status == PM_OK && !quant_format_of(t->type))
        b->status = quant_unsupported(t->type, where);
}

static plan_weight matrix(binder *b, const char *suffix, bool required, uint32_t rows,
                          uint32_t cols)
{
    char name[96];
    int i = find(b, suffix, name);
    if (i < 0) {
        if (required) refuse(b, "tensor '%s' is missing", name);
        return no_weight;
    }
    const plan_tensor *t = &b->m->tensors[i];
    if (b->status == PM_OK && (t->cols != cols || (rows && t->rows != rows)))
        b->status =
            error_set(PM_ERROR_FILE,
                      "tensor '%s' is %" PRIu32 " x %" PRIu32 ", expected %" PRIu32 " x %" PRIu32,
                      name, t->cols, t->rows, cols, rows ? rows : t->rows);
    check_type(b, i);
    return (plan_weight){.tensor = i, .row = 0, .rows = t->rows};
}

static plan_vector vector(binder *b, const char *suffix, bool required, uint32_t n)
{
    char name[96];
    int i = find(b, suffix, name);
    if (i < 0) {
        if (required) refuse(b, "tensor '%s' is missing", name);
        return no_vector;
    }
    plan_tensor *t = &b->m->tensors[i];
    if (b->status == PM_OK && (t->cols != n || t->rows != 1))
        b->status = error_set(PM_ERROR_FILE,
                              "tensor '%s' has %" PRIu32 " x %" PRIu32 " values, expected %" PRIu32,
                              name, t->cols, t->rows, n);
    check_type(b, i);
    t->vector = true;
    return (plan_vector){.tensor = i};
}

static plan_weight rows_of(plan_weight w, uint32_t row, uint32_t rows)
{
    return (plan_weight){.tensor = w.tensor, .row = w.row + row, .rows = rows};
}

static plan_vector part_of(plan_vector v, uint32_t first)
{
    return (plan_vector){.tensor = v.tensor, .first = v.first + first};
}

// Q, K and V, each its own tensor or all in one.
static void bind_qkv(binder *b, model_layer *l)
{
    const model *m = b->m;
    uint32_t n_q = m->n_head * m->head_dim, n_kv = m->n_head_kv * m->head_dim;
    plan_weight fused = matrix(b, "attn_qkv.weight", false, n_q + 2 * n_kv, m->n_embd);
    if (fused.tensor >= 0) {
        l->q = rows_of(fused, 0, n_q);
        l->k = rows_of(fused, n_q, n_kv);
        l->v = rows_of(fused, n_q + n_kv, n_kv);
        plan_vector bias = vector(b, "attn_qkv.bias", false, n_q + 2 * n_kv);
        l->q_b = bias;
        l->k_b = part_of(bias, n_q);
        l->v_b = part_of(bias, n_q + n_kv);
        return;
    }
    l->q = matrix(b, "attn_q.weight", true, n_q, m->n_embd);
    l->k = matrix(b, "attn_k.weight", true, n_kv, m->n_embd);
    l->v = matrix(b, "attn_v.weight", true, n_kv, m->n_embd);
    l->q_b = vector(b, "attn_q.bias", false, n_q);
    l->k_b = vector(b, "attn_k.bias", false, n_kv);
    l->v_b = vector(b, "attn_v.bias", false, n_kv);
}

static void bind_ffn(binder *b, model_layer *l)
{
    const model *m = b->m;
    l->gate = no_weight;
    l->gate_b = no_vector;
    l->down = matrix(b, "ffn_down.weight", true, m->n_embd, m->n_ff);
    l->down_b = vector(b, "ffn_down.bias", false, m->n_embd);
    char name[96];
    if (m->arch->gated && find(b, "ffn_gate.weight", name) < 0) { // gate and up in one tensor
        plan_weight both = matrix(b, "ffn_up.weight", true, 2 * m->n_ff, m->n_embd);
        plan_vector bias = vector(b, "ffn_up.bias", false, 2 * m->n_ff);
        l->gate = rows_of(both, 0, m->n_ff);
        l->up = rows_of(both, m->n_ff, m->n_ff);
        l->gate_b = bias;
        l->up_b = part_of(bias, m->n_ff);
        return;
    }
    if (m->arch->gated) {
        l->gate = matrix(b, "ffn_gate.weight", true, m->n_ff, m->n_embd);
        l->gate_b = vector(b, "ffn_gate.bias", false, m->n_ff);
    }
    l->up = matrix(b, "ffn_up.weight", true, m->n_ff, m->n_embd);
    l->up_b = vector(b, "ffn_up.bias", false, m->n_ff);
}

static void bind_layer(binder *b, model_layer *l)
{
    const model *m = b->m;
    const model_arch *a = m->arch;
    bool layer_norm = a->norm == PLAN_NORM_LAYER;
    l->attn_norm = vector(b, "attn_norm.weight", true, m->n_embd);
    l->attn_norm_b = vector(b, "attn_norm.bias", layer_norm, m->n_embd);
    bind_qkv(b, l);
    l->q_norm = a->qk_norm ? vector(b, "attn_q_norm.weight", true, m->head_dim) : no_vector;
    l->k_norm = a->qk_norm ? vector(b, "attn_k_norm.weight", true, m->head_dim) : no_vector;
    l->o = matrix(b, "attn_output.weight", true, m->n_embd, m->n_head * m->head_dim);
    l->o_b = vector(b, "attn_output.bias", false, m->n_embd);
    l->ffn_norm = vector(b, "ffn_norm.weight", true, m->n_embd);
    l->ffn_norm_b = vector(b, "ffn_norm.bias", layer_norm, m->n_embd);
    l->attn_post_norm = l->ffn_post_norm = no_vector;
    if (a->post_norms) {
        l->attn_post_norm = vector(b, "post_attention_norm.weight", true, m->n_embd);
        l->ffn_post_norm = vector(b, "post_ffw_norm.weight", true, m->n_embd);
    }
    bind_ffn(b, l);
}

static void bind_outer(binder *b)
{
    model *m = b->m;
    b->layer = PLAN_NONE;
    m->embd = matrix(b, "token_embd.weight", true, 0, m->n_embd);
    m->n_vocab = m->embd.tensor >= 0 ? m->tensors[m->embd.tensor].rows : 0;
    m->positions = no_weight;
    if (m->arch->learned_positions)
        m->positions = matrix(b, "position_embd.weight", true, m->n_ctx_train, m->n_embd);
    m->output_norm = vector(b, "output_norm.weight", true, m->n_embd);
    m->output_norm_b = vector(b, "output_norm.bias", m->arch->norm == PLAN_NORM_LAYER, m->n_embd);
    m->output = matrix(b, "output.weight", false, m->n_vocab, m->n_embd);
    if (m->output.tensor < 0) m->output = m->embd; // tied
    m->output_b = vector(b, "output.bias", false, m->n_vocab);
    bool rotates = m->arch->rope != PLAN_ROPE_NONE;
    uint32_t n_pairs = m->rope.n_rot / 2;
    m->rope_freqs = rotates ? vector(b, "rope_freqs.weight", false, n_pairs) : no_vector;
    m->rope_short = m->rope_long = no_vector;
    if (m->arch->longrope) {
        m->rope_short = vector(b, "rope_factors_short.weight", false, n_pairs);
        m->rope_long = vector(b, "rope_factors_long.weight", m->rope_short.tensor >= 0, n_pairs);
    }
}

// Frequencies that old converters wrote and that follow from the keys.
static bool is_redundant(const char *name)
{
    size_t n = strlen(name);
    const char *end = "rot_embd.weight";
    return n > strlen(end) && !strcmp(name + n - strlen(end), end);
}

static void refuse_left_over(binder *b)
{
    for (uint32_t i = 0; i < b->m->n_tensors && b->status == PM_OK; i++) {
        const char *name = b->m->tensors[i].name;
        if (!b->used[i] && !is_redundant(name))
            b->status = error_set(PM_ERROR_FILE,
                                  "tensor '%s' has no place in architecture '%s': the model "
                                  "computes something that is not supported",
                                  name, b->m->arch->name);
    }
}

static void count_parameters(model *m)
{
    for (uint32_t i = 0; i < m->n_tensors; i++)
        m->n_parameters += (uint64_t)m->tensors[i].rows * m->tensors[i].cols;
}

// The file's tensor table in the plan's terms: rows x cols.
static pm_status list_tensors(model *m)
{
    size_t n = gguf_n_tensors(m->file);
    m->tensors = calloc(n + 1, sizeof *m->tensors);
    m->file_tensors = calloc(n + 1, sizeof *m->file_tensors);
    if (!m->tensors || !m->file_tensors) return error_memory("the tensor table", n);
    for (size_t i = 0; i < n; i++) {
        const gguf_tensor *t = gguf_tensor_at(m->file, i);
        uint64_t rows = t->dims[1] * t->dims[2] * t->dims[3]; // gguf_open checked the product
        uint64_t row_bytes = 0;
        if (t->dims[0] > INT32_MAX || rows > INT32_MAX || t->dims[0] == 0 || rows == 0)
            return error_set(PM_ERROR_FILE, "tensor '%s' has a dimension out of range", t->name);
        if (!quant_row_bytes(t->type, t->dims[0], &row_bytes))
            return error_set(PM_ERROR_FILE,
                             "tensor '%s' (%s) has rows of %" PRIu64
                             " values, which are no whole blocks",
                             t->name, quant_type_name(t->type), t->dims[0]);
        m->file_tensors[i] = t;
        m->tensors[i] = (plan_tensor){.name = t->name,
                                      .type = (quant_type)t->type,
                                      .rows = (uint32_t)rows,
                                      .cols = (uint32_t)t->dims[0],
                                      .row_bytes = row_bytes,
                                      .layer = PLAN_NONE};
    }
    m->n_tensors = (uint32_t)n;
    return PM_OK;
}

pm_status model_bind_tensors(model *m)
{
    pm_status status = list_tensors(m);
    if (status != PM_OK) return status;
    binder b = {.m = m, .used = calloc(m->n_tensors + 1, sizeof(bool)), .layer = PLAN_NONE};
    if (!b.used) return error_memory("the tensor table", m->n_tensors);
    bind_outer(&b);
    for (uint32_t i = 0; i < m->n_layer && b.status == PM_OK; i++) {
        b.layer = (int)i;
        bind_layer(&b, &m->layers[i]);
    }
    refuse_left_over(&b);
    count_parameters(m);
    free(b.used);
    return b.status;
}
