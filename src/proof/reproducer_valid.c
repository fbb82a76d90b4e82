// What executors rely on, and plan/build.c sees to: a report comes from somewhere else.
#include "proof/reproducer.h"

#include "base/size.h"

#define MOST_BYTES (UINT64_C(8) << 30) // of weights and buffers together

// ---- operands ---------------------------------------------------------------------------------

static bool is_float(quant_type type)
{
    return type == QUANT_F32 || type == QUANT_F16 || type == QUANT_BF16;
}

static bool view_is(const reproducer *r, plan_view v, quant_type type, uint32_t n)
{
    if (v.buf < 0 || v.buf >= PLAN_LOGITS) return false;
    uint32_t width = r->buf_widths[v.buf];
    return r->buf_types[v.buf] == type && v.n == n && v.n <= width && v.col <= width - v.n &&
           (type != QUANT_Q8_0 || (v.col % QUANT_Q8_VALUES == 0 && v.n % QUANT_Q8_VALUES == 0));
}

static bool floats(const reproducer *r, plan_view v, uint32_t n)
{
    return view_is(r, v, QUANT_F32, n);
}

static bool floats_or_none(const reproducer *r, plan_view v, uint32_t n)
{
    return v.buf == PLAN_NONE || floats(r, v, n);
}

static bool floats_or_q8(const reproducer *r, plan_view v, uint32_t n)
{
    return floats(r, v, n) || view_is(r, v, QUANT_Q8_0, n);
}

static bool vector_is(const reproducer *r, plan_vector v, uint32_t n)
{
    if (v.tensor < 0) return false;
    const plan_tensor *t = &r->tensors[v.tensor];
    return t->vector && !r->is_table[v.tensor] && is_float(t->type) && t->rows == 1 &&
           n <= t->cols && v.first <= t->cols - n;
}

static bool vector_or_none(const reproducer *r, plan_vector v, uint32_t n)
{
    return v.tensor == PLAN_NONE || vector_is(r, v, n);
}

static bool matrix_is(const reproducer *r, plan_weight w, uint32_t cols)
{
    if (w.tensor < 0) return false;
    const plan_tensor *t = &r->tensors[w.tensor];
    return !t->vector && !r->is_table[w.tensor] && t->cols == cols && w.rows >= 1 &&
           w.rows <= t->rows && w.row <= t->rows - w.rows;
}

// x is what a product with these activations reads; a norm goes into it with f32 only.
static bool product_input(const reproducer *r, plan_view x, plan_vector norm_in, quant_type type)
{
    if (r->op.act == PLAN_ACT_Q8)
        return view_is(r, x, QUANT_Q8_0, x.n) && norm_in.tensor == PLAN_NONE && !is_float(type);
    return floats(r, x, x.n) && vector_or_none(r, norm_in, x.n);
}

// ---- operations -------------------------------------------------------------------------------

static bool embed_valid(const reproducer *r, const plan_embed *e)
{
    uint32_t n = e->out.n;
    if (!floats(r, e->out, n) || !matrix_is(r, e->table, n) || e->table.tensor != 0) return false;
    if (e->table.row != 0 || e->table.rows != r->tensors[0].rows) return false;
    return e->positions.tensor == PLAN_NONE ||
           (matrix_is(r, e->positions, n) && e->positions.row == 0 &&
            r->first + r->n_rows <= e->positions.rows);
}

static bool norm_valid(const reproducer *r, const plan_norm_op *o)
{
    uint32_t n = o->x.n;
    bool q8 = view_is(r, o->out, QUANT_Q8_0, n);
    return floats(r, o->x, n) && vector_is(r, o->weight, n) && vector_or_none(r, o->bias, n) &&
           (q8 ? o->residual.buf == PLAN_NONE : floats(r, o->out, n)) &&
           floats_or_none(r, o->residual, n);
}

static bool linear_valid(const reproducer *r, const plan_linear *l)
{
    if (l->n_weights < 1 || l->n_weights > 3 || (l->gated && l->n_weights != 2)) return false;
    for (uint32_t i = 0; i < l->n_weights; i++) {
        if (!matrix_is(r, l->weight[i], l->x.n) ||
            !vector_or_none(r, l->bias[i], l->weight[i].rows))
            return false;
        if (r->tensors[l->weight[i].tensor].type != r->tensors[l->weight[0].tensor].type)
            return false;
        if (!l->gated && !floats(r, l->out[i], l->weight[i].rows)) return false;
    }
    if (!product_input(r, l->x, l->norm_in, r->tensors[l->weight[0].tensor].type)) return false;
    if (l->gated &&
        (l->weight[0].rows != l->weight[1].rows || !floats_or_q8(r, l->out[0], l->weight[0].rows)))
        return false;
    return l->residual.buf == PLAN_NONE ||
           (l->n_weights == 1 && floats(r, l->residual, l->weight[0].rows));
}

static bool rope_valid(const reproducer *r, const plan_rope_kv *o)
{
    uint32_t n_kv = r->n_head_kv * r->head_dim;
    if (!floats(r, o->q, r->n_head * r->head_dim) || !floats(r, o->k, n_kv) ||
        !floats(r, o->v, n_kv) || !vector_or_none(r, o->q_norm, r->head_dim) ||
        !vector_or_none(r, o->k_norm, r->head_dim))
        return false;
    if (o->rope == PLAN_ROPE_NONE) return o->table == PLAN_NONE && o->n_rot == 0;
    if (o->table < 0 || !r->is_table[o->table]) return false;
    const plan_tensor *t = &r->tensors[o->table];
    return t->type == QUANT_F32 && t->rows == r->n_ctx && t->cols == o->n_rot && o->n_rot >= 2 &&
           o->n_rot % 2 == 0 && o->n_rot <= r->head_dim;
}

static bool attend_valid(const reproducer *r, const plan_attend *o)
{
    uint32_t n = r->n_head * r->head_dim;
    return floats(r, o->q, n) && floats_or_q8(r, o->out, n) && o->softcap >= 0;
}

static bool logits_valid(const reproducer *r, const plan_logits *o)
{
    return matrix_is(r, o->weight, o->x.n) && o->weight.rows == r->n_vocab &&
           vector_or_none(r, o->bias, r->n_vocab) && o->softcap >= 0 &&
           product_input(r, o->x, o->norm_in, r->tensors[o->weight.tensor].type);
}

static bool op_valid(const reproducer *r)
{
    const plan_op *op = &r->op;
    const plan_activate *a = &op->u.activate;
    const plan_add *add = &op->u.add;
    switch (op->kind) {
    case PLAN_EMBED: return embed_valid(r, &op->u.embed);
    case PLAN_NORM: return norm_valid(r, &op->u.norm);
    case PLAN_LINEAR: return linear_valid(r, &op->u.linear);
    case PLAN_QUANTIZE:
        return floats(r, op->u.quantize.x, op->u.quantize.x.n) &&
               view_is(r, op->u.quantize.out, QUANT_Q8_0, op->u.quantize.x.n);
    case PLAN_ROPE_KV: return rope_valid(r, &op->u.rope_kv);
    case PLAN_ATTEND: return attend_valid(r, &op->u.attend);
    case PLAN_ACTIVATE:
        return floats(r, a->x, a->x.n) && floats_or_none(r, a->up, a->x.n) &&
               floats_or_q8(r, a->out, a->x.n);
    case PLAN_ADD:
        return floats(r, add->a, add->a.n) && floats(r, add->b, add->a.n) &&
               floats(r, add->out, add->a.n);
    case PLAN_LOGITS_OP: return logits_valid(r, &op->u.logits);
    case PLAN_PICK_OP: return true;
    case PLAN_N_OP_KINDS: break;
    }
    return false;
}

// ---- sizes ------------------------------------------------------------------------------------

static bool add_product(uint64_t *sum, uint64_t rows, uint64_t row_bytes)
{
    uint64_t bytes;
    return size_mul(rows, row_bytes, &bytes) && size_add(*sum, bytes, sum) && *sum <= MOST_BYTES;
}

static bool fits(const reproducer *r)
{
    uint64_t sum = 0, row = 0;
    bool good = true;
    for (uint32_t i = 0; i < r->n_tensors && good; i++)
        good = add_product(&sum, r->tensors[i].rows, r->tensors[i].row_bytes);
    for (int i = 0; i < PLAN_LOGITS && good; i++)
        good = quant_row_bytes((uint32_t)r->buf_types[i], r->buf_widths[i], &row) &&
               add_product(&sum, r->n_batch, row);
    uint64_t kv_rows = (uint64_t)r->n_head_kv * r->n_ctx;
    if (reproducer_has_cache(r))
        good = good && kv_rows <= UINT32_MAX &&
               quant_row_bytes((uint32_t)r->kv_type, r->head_dim, &row) &&
               add_product(&sum, 2 * kv_rows, row);
    if (reproducer_has_logits(r))
        good = good && add_product(&sum, r->n_logits, (uint64_t)r->n_vocab * sizeof(float));
    return good;
}

pm_status reproducer_valid(const reproducer *r)
{
    const char *why = NULL;
    bool cache_type =
        r->kv_type == QUANT_F32 || r->kv_type == QUANT_F16 || r->kv_type == QUANT_Q8_0;
    if (r->n_rows > r->n_batch || r->n_logits > r->n_rows)
        why = "more rows than a batch";
    else if (r->first + r->n_rows > r->n_ctx)
        why = "rows behind the end of the context";
    else if (r->n_head % r->n_head_kv != 0 || !cache_type)
        why = "heads or cache that no model has";
    else if (!fits(r))
        why = "larger than 8 GiB, or rows that are no whole number of blocks";
    else if (!op_valid(r))
        why = "operands that don't go together";
    if (!why) return PM_OK;
    return error_set(PM_ERROR_FILE, "the operation to reproduce: %s", why);
}
