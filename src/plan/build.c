// The forward pass of every family, as a list of operations.
//
// emit_layer and emit_all are the model on one page; the rest of the file makes the tables that the
// operations refer to. Fused and unfused forms come from the same lines: what is fused is decided
// where an operation is emitted, never searched for afterwards.
#include "plan/build.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "plan/rope_table.h"

enum { OPS_OUTSIDE_LAYERS = 6, MAX_OPS_PER_LAYER = 24 };

typedef struct builder {
    const model *m;
    const plan_options *o;
    plan_set *set;
    plan_op *ops; // of the bucket being emitted
    uint32_t n_ops;
    int layer;
    bool matvec;            // few rows: norms go into the products
    int table, table_local; // rotation tables, PLAN_NONE: none
} builder;

static const plan_view no_view = {.buf = PLAN_NONE};
static const plan_vector no_vec = {.tensor = PLAN_NONE};

static plan_view whole(const builder *b, int buffer)
{
    return (plan_view){.buf = buffer, .col = 0, .n = b->set->bufs[buffer].width};
}

static plan_op *add(builder *b, plan_op_kind kind, const char *label)
{
    plan_op *op = &b->ops[b->n_ops++];
    *op = (plan_op){.kind = kind, .layer = b->layer, .label = label};
    return op;
}

// ---- one operation each -----------------------------------------------------------------------

static void emit_norm(builder *b, const char *label, plan_vector weight, plan_vector bias,
                      plan_view x, plan_view residual, plan_view out)
{
    add(b, PLAN_NORM, label)->u.norm = (plan_norm_op){.norm = b->m->arch->norm,
                                                      .eps = b->m->norm_eps,
                                                      .weight = weight,
                                                      .bias = bias,
                                                      .x = x,
                                                      .residual = residual,
                                                      .out = out};
}

static void emit_add(builder *b, const char *label, plan_view a, plan_view c, plan_view out)
{
    add(b, PLAN_ADD, label)->u.add = (plan_add){.a = a, .b = c, .out = out};
}

static void emit_quantize(builder *b, const char *label, plan_view x, plan_view out)
{
    add(b, PLAN_QUANTIZE, label)->u.quantize = (plan_quantize){.x = x, .out = out};
}

// Do these products, which share their input, run on 8-bit activations? Weights kept as floats gain
// nothing from them and would lose precision.
static bool q8(const builder *b, const plan_weight *weights, uint32_t n)
{
    if (b->o->act != PLAN_ACT_Q8) return false;
    for (uint32_t i = 0; i < n; i++) {
        const plan_tensor *t = &b->set->tensors[weights[i].tensor];
        bool is_float = t->type == QUANT_F32 || t->type == QUANT_F16 || t->type == QUANT_BF16;
        if (is_float || t->cols % QUANT_Q8_VALUES != 0) return false;
    }
    return true;
}

// What products read: a norm that they compute themselves, or rows that a norm has written.
typedef struct input {
    plan_view x;
    plan_vector norm_in;
    plan_act act;
} input;

// x -> norm -> input of the products with these n weights.
static input emit_norm_input(builder *b, const char *label, plan_vector weight, plan_vector bias,
                             plan_view x, const plan_weight *weights, uint32_t n)
{
    bool eight = q8(b, weights, n);
    if (b->matvec && !b->o->no_fuse && !eight && b->m->arch->norm == PLAN_NORM_RMS)
        return (input){.x = x, .norm_in = weight, .act = PLAN_ACT_F32};
    plan_view xn = whole(b, PLAN_XN), xq = whole(b, PLAN_XQ);
    bool direct = eight && !b->o->no_fuse;
    emit_norm(b, label, weight, bias, x, no_view, direct ? xq : xn);
    if (eight && !direct) emit_quantize(b, label, xn, xq);
    return (input){
        .x = eight ? xq : xn, .norm_in = no_vec, .act = eight ? PLAN_ACT_Q8 : PLAN_ACT_F32};
}

// Up to three products of one input: one operation for each run of weights of the same format.
static void emit_products(builder *b, const char *label, input in, uint32_t n,
                          const plan_weight *weights, const plan_vector *biases,
                          const plan_view *outs)
{
    for (uint32_t i = 0; i < n;) {
        plan_op *op = add(b, PLAN_LINEAR, label);
        op->act = in.act;
        plan_linear *l = &op->u.linear;
        *l = (plan_linear){
            .x = in.x, .residual = no_view, .norm_in = in.norm_in, .norm_eps = b->m->norm_eps};
        quant_type type = b->set->tensors[weights[i].tensor].type;
        do {
            l->weight[l->n_weights] = weights[i];
            l->bias[l->n_weights] = biases[i];
            l->out[l->n_weights] = outs[i];
            l->n_weights++;
            i++;
        } while (i < n && !b->o->no_fuse && b->set->tensors[weights[i].tensor].type == type);
    }
}

// out = W x + bias + residual (no residual: residual.buf is PLAN_NONE).
static void emit_projection(builder *b, const char *label, input in, plan_weight w,
                            plan_vector bias, plan_view residual, plan_view out)
{
    bool fused = !b->o->no_fuse || residual.buf < 0;
    plan_view y = fused ? out : whole(b, PLAN_T);
    emit_products(b, label, in, 1, &w, &bias, &y);
    if (fused)
        b->ops[b->n_ops - 1].u.linear.residual = residual;
    else
        emit_add(b, label, y, residual, out);
}

// Rows in `f32` that an operation wants to write as an input of products: q8 directly where the
// products read that.
static plan_view direct_output(const builder *b, int f32, int eight, const plan_weight *reader)
{
    return whole(b, q8(b, reader, 1) && !b->o->no_fuse ? eight : f32);
}

static input as_input(builder *b, const char *label, int f32, int eight, const plan_weight *reader)
{
    bool use_q8 = q8(b, reader, 1);
    if (use_q8 && b->o->no_fuse) emit_quantize(b, label, whole(b, f32), whole(b, eight));
    return (input){.x = whole(b, use_q8 ? eight : f32),
                   .norm_in = no_vec,
                   .act = use_q8 ? PLAN_ACT_Q8 : PLAN_ACT_F32};
}

// ---- the forward pass -------------------------------------------------------------------------

// x: [n_rows, n_embd] -> attention's branch in PLAN_ATT: [n_rows, n_head * head_dim]
static input emit_attention(builder *b, const model_layer *l, plan_view x)
{
    const model *m = b->m;
    uint32_t n_q = m->n_head * m->head_dim, n_kv = m->n_head_kv * m->head_dim;
    plan_view q = {PLAN_QKV, 0, n_q}, k = {PLAN_QKV, n_q, n_kv}, v = {PLAN_QKV, n_q + n_kv, n_kv};
    int k_cache = PLAN_KV + 2 * b->layer, v_cache = k_cache + 1;
    plan_weight qkv[] = {l->q, l->k, l->v};

    input in = emit_norm_input(b, "attn_norm", l->attn_norm, l->attn_norm_b, x, qkv, 3);
    emit_products(b, "attn_qkv", in, 3, qkv, (plan_vector[]){l->q_b, l->k_b, l->v_b},
                  (plan_view[]){q, k, v});
    add(b, PLAN_ROPE_KV, "attn_rope")->u.rope_kv =
        (plan_rope_kv){.q = q,
                       .k = k,
                       .v = v,
                       .q_norm = l->q_norm,
                       .k_norm = l->k_norm,
                       .norm_eps = m->norm_eps,
                       .rope = l->rope,
                       .n_rot = l->rope == PLAN_ROPE_NONE ? 0 : m->rope.n_rot,
                       .table = l->rope == PLAN_ROPE_NONE ? PLAN_NONE
                                : l->local_rope           ? b->table_local
                                                          : b->table,
                       .n_head = m->n_head,
                       .n_head_kv = m->n_head_kv,
                       .head_dim = m->head_dim,
                       .k_cache = k_cache,
                       .v_cache = v_cache};
    add(b, PLAN_ATTEND, "attn")->u.attend =
        (plan_attend){.q = q,
                      .out = direct_output(b, PLAN_ATT, PLAN_ATTQ, &l->o),
                      .n_head = m->n_head,
                      .n_head_kv = m->n_head_kv,
                      .head_dim = m->head_dim,
                      .scale = m->attn_scale,
                      .softcap = m->attn_softcap,
                      .window = l->window,
                      .k_cache = k_cache,
                      .v_cache = v_cache};
    return as_input(b, "attn", PLAN_ATT, PLAN_ATTQ, &l->o);
}

// x: [n_rows, n_embd] -> the activated rows: [n_rows, n_ff]
static input emit_feed_forward(builder *b, const model_layer *l, plan_view x)
{
    const model *m = b->m;
    plan_weight w[] = {l->up, l->gate};
    input in =
        emit_norm_input(b, "ffn_norm", l->ffn_norm, l->ffn_norm_b, x, w, m->arch->gated ? 2 : 1);
    plan_view ff = whole(b, PLAN_FF), out = direct_output(b, PLAN_FF, PLAN_FFQ, &l->down);
    if (m->arch->gated) {
        plan_weight gate_up[] = {l->gate, l->up};
        plan_vector bias[] = {l->gate_b, l->up_b};
        plan_view up = whole(b, PLAN_UP);
        bool one_format =
            b->set->tensors[l->gate.tensor].type == b->set->tensors[l->up.tensor].type;
        if (one_format && !b->o->no_fuse) {
            emit_products(b, "ffn_gate_up", in, 2, gate_up, bias, (plan_view[]){out, no_view});
            b->ops[b->n_ops - 1].u.linear.gated = true;
            b->ops[b->n_ops - 1].u.linear.fn = m->arch->fn;
        } else {
            emit_products(b, "ffn_gate_up", in, 2, gate_up, bias, (plan_view[]){ff, up});
            add(b, PLAN_ACTIVATE, "ffn_act")->u.activate =
                (plan_activate){.fn = m->arch->fn, .x = ff, .up = up, .out = out};
        }
    } else {
        emit_products(b, "ffn_up", in, 1, &l->up, &l->up_b, &ff);
        if (!b->o->no_fuse && out.buf == PLAN_FF)
            b->ops[b->n_ops - 1].u.linear.fn = m->arch->fn;
        else
            add(b, PLAN_ACTIVATE, "ffn_act")->u.activate =
                (plan_activate){.fn = m->arch->fn, .x = ff, .up = no_view, .out = out};
    }
    return as_input(b, "ffn_act", PLAN_FF, PLAN_FFQ, &l->down);
}

// Adds a branch's projection to the residual stream: out = residual + [post-norm](W in + bias).
static void emit_branch_end(builder *b, const char *label, input in, plan_weight w,
                            plan_vector bias, plan_vector post_norm, plan_view residual,
                            plan_view out)
{
    if (post_norm.tensor < 0) {
        emit_projection(b, label, in, w, bias, residual, out);
        return;
    }
    plan_view t = whole(b, PLAN_T);
    emit_projection(b, label, in, w, bias, no_view, t);
    emit_norm(b, label, post_norm, no_vec, t, b->o->no_fuse ? no_view : residual,
              b->o->no_fuse ? t : out);
    if (b->o->no_fuse) emit_add(b, label, t, residual, out);
}

// The residual stream is in PLAN_X before and after: [n_rows, n_embd].
static void emit_layer(builder *b, const model_layer *l)
{
    plan_view x = whole(b, PLAN_X), x2 = whole(b, PLAN_X2);
    if (b->m->parallel_residual) {
        // x + attention(norm x) + feed_forward(norm' x): both read the same x
        input att = emit_attention(b, l, x);
        emit_branch_end(b, "attn_output", att, l->o, l->o_b, l->attn_post_norm, x, x2);
        input ff = emit_feed_forward(b, l, x);
        emit_branch_end(b, "ffn_down", ff, l->down, l->down_b, l->ffn_post_norm, x2, x);
        return;
    }
    input att = emit_attention(b, l, x);
    emit_branch_end(b, "attn_output", att, l->o, l->o_b, l->attn_post_norm, x, x);
    input ff = emit_feed_forward(b, l, x);
    emit_branch_end(b, "ffn_down", ff, l->down, l->down_b, l->ffn_post_norm, x, x);
}

static void emit_all(builder *b)
{
    const model *m = b->m;
    b->layer = PLAN_NONE;
    add(b, PLAN_EMBED, "token_embd")->u.embed = (plan_embed){.table = m->embd,
                                                             .positions = m->positions,
                                                             .scale = m->embed_scale,
                                                             .out = whole(b, PLAN_X)};
    for (b->layer = 0; b->layer < (int)m->n_layer; b->layer++) emit_layer(b, &m->layers[b->layer]);

    b->layer = PLAN_NONE;
    input in = emit_norm_input(b, "output_norm", m->output_norm, m->output_norm_b, whole(b, PLAN_X),
                               &m->output, 1);
    plan_op *logits = add(b, PLAN_LOGITS_OP, "output");
    logits->act = in.act;
    logits->u.logits = (plan_logits){.weight = m->output,
                                     .bias = m->output_b,
                                     .x = in.x,
                                     .norm_in = in.norm_in,
                                     .norm_eps = m->norm_eps,
                                     .softcap = m->logit_softcap};
    add(b, PLAN_PICK_OP, "pick");
}

// ---- tables -----------------------------------------------------------------------------------

static bool fill_buf(plan_buf *out, const char *name, quant_type type, uint32_t width,
                     uint64_t rows, int layer)
{
    *out = (plan_buf){.name = name, .type = type, .width = width, .layer = layer};
    if (rows > UINT32_MAX) return false;
    out->rows = (uint32_t)rows;
    return width == 0 || (quant_row_bytes(type, width, &out->row_bytes) &&
                          size_mul(out->row_bytes, rows, &out->bytes));
}

static uint32_t q8_width(const plan_options *o, uint32_t width)
{
    return o->act == PLAN_ACT_Q8 && width % QUANT_Q8_VALUES == 0 ? width : 0;
}

static pm_status make_bufs(builder *b)
{
    const model *m = b->m;
    const plan_options *o = b->o;
    plan_set *set = b->set;
    set->n_bufs = PLAN_KV + 2 * m->n_layer;
    plan_buf *bufs = calloc(set->n_bufs, sizeof *bufs);
    if (!bufs) return error_memory("the plan", set->n_bufs);
    set->bufs = bufs;
    uint32_t n_att = m->n_head * m->head_dim, n_kv = m->n_head_kv * m->head_dim;
    bool t = o->no_fuse || m->arch->post_norms;
    const struct {
        int id;
        const char *name;
        quant_type type;
        uint32_t width;
    } rows[] = {
        {PLAN_X, "x", QUANT_F32, m->n_embd},
        {PLAN_X2, "x2", QUANT_F32, m->parallel_residual ? m->n_embd : 0},
        {PLAN_XN, "xn", QUANT_F32, m->n_embd},
        {PLAN_XQ, "xq", QUANT_Q8_0, q8_width(o, m->n_embd)},
        {PLAN_QKV, "qkv", QUANT_F32, n_att + 2 * n_kv},
        {PLAN_ATT, "att", QUANT_F32, n_att},
        {PLAN_ATTQ, "attq", QUANT_Q8_0, q8_width(o, n_att)},
        {PLAN_T, "t", QUANT_F32, t ? m->n_embd : 0},
        {PLAN_FF, "ff", QUANT_F32, m->n_ff},
        {PLAN_UP, "up", QUANT_F32, m->arch->gated ? m->n_ff : 0},
        {PLAN_FFQ, "ffq", QUANT_Q8_0, q8_width(o, m->n_ff)},
        {PLAN_LOGITS, "logits", QUANT_F32, m->n_vocab},
        {PLAN_PICK, "pick", QUANT_F32, sizeof(plan_pick) / sizeof(float)},
    };
    bool fits = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        fits = fits && fill_buf(&bufs[rows[i].id], rows[i].name, rows[i].type, rows[i].width,
                                rows[i].id < PLAN_LOGITS ? set->n_batch : set->n_logits, PLAN_NONE);
    uint64_t kv_rows = 0;
    fits = fits && size_mul((uint64_t)o->n_slots * m->n_head_kv, o->n_ctx, &kv_rows);
    for (uint32_t i = 0; fits && i < m->n_layer; i++)
        fits =
            fill_buf(&bufs[PLAN_KV + 2 * i], "k_cache", o->kv_type, m->head_dim, kv_rows, (int)i) &&
            fill_buf(&bufs[PLAN_KV + 2 * i + 1], "v_cache", o->kv_type, m->head_dim, kv_rows,
                     (int)i);
    return fits ? PM_OK : error_set(PM_ERROR_USAGE, "a context of %u is too large", o->n_ctx);
}

static pm_status make_tensors(builder *b)
{
    const model *m = b->m;
    plan_set *set = b->set;
    plan_tensor *tensors = calloc(m->n_tensors + 2, sizeof *tensors);
    if (!tensors) return error_memory("the plan", m->n_tensors);
    memcpy(tensors, m->tensors, m->n_tensors * sizeof *tensors);
    set->tensors = tensors;
    set->n_tensors = set->n_model_tensors = m->n_tensors;
    b->table = b->table_local = PLAN_NONE;

    bool local = false, global = false;
    for (uint32_t i = 0; i < m->n_layer; i++) {
        if (m->layers[i].rope == PLAN_ROPE_NONE) continue;
        local = local || m->layers[i].local_rope;
        global = global || !m->layers[i].local_rope;
    }
    for (int pass = 0; pass < 2; pass++) {
        if (!(pass ? local : global)) continue;
        float *values;
        pm_status status = plan_rope_table(m, b->o->n_ctx, pass == 1, &values);
        if (status != PM_OK) return status;
        tensors[set->n_tensors] = (plan_tensor){.name = pass ? "rope_table_local" : "rope_table",
                                                .type = QUANT_F32,
                                                .rows = b->o->n_ctx,
                                                .cols = m->rope.n_rot,
                                                .row_bytes = m->rope.n_rot * sizeof(float),
                                                .layer = PLAN_NONE,
                                                .values = values};
        *(pass ? &b->table_local : &b->table) = (int)set->n_tensors++;
    }
    return PM_OK;
}

static pm_status make_bucket(builder *b, uint32_t max_rows)
{
    uint32_t most = b->m->n_layer * MAX_OPS_PER_LAYER + OPS_OUTSIDE_LAYERS;
    b->ops = calloc(most, sizeof *b->ops);
    if (!b->ops) return error_memory("the plan", most);
    b->n_ops = 0;
    b->matvec = max_rows <= PLAN_MATVEC_ROWS;
    emit_all(b);
    assert(b->n_ops <= most);
    b->set->buckets[b->set->n_buckets++] =
        (plan){.max_rows = max_rows, .n_ops = b->n_ops, .ops = b->ops};
    return PM_OK;
}

static pm_status check_options(const model *m, const plan_options *o)
{
    assert(o->n_batch >= 1 && o->n_batch <= PLAN_MAX_ROWS && o->n_slots >= 1 && o->n_ctx >= 1);
    if (o->kv_type == QUANT_Q8_0 && m->head_dim % QUANT_Q8_VALUES != 0)
        return error_set(PM_ERROR_USAGE,
                         "--kv-type q8_0 needs a head size that is a multiple of 32, but the "
                         "model's is %u (use f16)",
                         m->head_dim);
    if (m->positions.tensor >= 0 && o->n_ctx > m->positions.rows)
        return error_set(PM_ERROR_USAGE, "--ctx %u is more than the model's %u learned positions",
                         o->n_ctx, m->positions.rows);
    return PM_OK;
}

static pm_status check_ops(const plan_set *set)
{
    for (uint32_t b = 0; b < set->n_buckets; b++) {
        for (uint32_t i = 0; i < set->buckets[b].n_ops; i++) {
            const plan_op *op = &set->buckets[b].ops[i];
            const char *fault = plan_op_fault(set, op);
            if (fault)
                return error_set(PM_ERROR_FILE, "%s (%s) of the model's plan can't be run: %s",
                                 op->label, plan_op_name(op->kind), fault);
        }
    }
    return PM_OK;
}

pm_status plan_build(const model *m, const plan_options *options, plan_set **out)
{
    *out = NULL;
    pm_status status = check_options(m, options);
    if (status != PM_OK) return status;
    plan_set *set = calloc(1, sizeof *set);
    if (!set) return error_memory("the plan", sizeof *set);
    *set = (plan_set){.n_layer = m->n_layer,
                      .n_embd = m->n_embd,
                      .n_vocab = m->n_vocab,
                      .n_head = m->n_head,
                      .n_head_kv = m->n_head_kv,
                      .head_dim = m->head_dim,
                      .n_ctx = options->n_ctx,
                      .n_slots = options->n_slots,
                      .n_batch = options->n_batch,
                      .n_logits = options->n_logits ? options->n_logits : options->n_batch,
                      .kv_type = options->kv_type};
    builder b = {.m = m, .o = options, .set = set};
    status = make_tensors(&b);
    if (status == PM_OK) status = make_bufs(&b);
    for (uint32_t rows = 1; status == PM_OK && rows <= PLAN_MATVEC_ROWS; rows *= 2) {
        status = make_bucket(&b, rows < options->n_batch ? rows : options->n_batch);
        if (rows >= options->n_batch) break;
    }
    if (status == PM_OK && options->n_batch > PLAN_MATVEC_ROWS)
        status = make_bucket(&b, options->n_batch);
    if (status == PM_OK) status = check_ops(set);
    if (status == PM_OK)
        *out = set;
    else
        plan_set_free(set);
    return status;
}

bool plan_kv_bytes(const model *m, uint32_t n_ctx, uint32_t n_slots, quant_type kv_type,
                   uint64_t *bytes)
{
    uint64_t row, total;
    if (!quant_row_bytes(kv_type, m->head_dim, &row)) return false;
    if (!size_mul(row, (uint64_t)n_ctx * n_slots, &total)) return false;
    if (!size_mul(total, 2 * (uint64_t)m->n_head_kv * m->n_layer, &total)) return false;
    *bytes = total;
    return true;
}
