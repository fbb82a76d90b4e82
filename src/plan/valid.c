// What executors rely on: every operand of an op lies where the op says, in the form that it says.
#include "plan/plan.h"

#include "base/size.h"

// ---- operands ---------------------------------------------------------------------------------

static bool is_absent(plan_view v)
{
    return v.buf == PLAN_NONE;
}

static bool is_rows(const plan_set *set, plan_view v, quant_type type, uint32_t n)
{
    if (v.buf < 0 || v.buf >= PLAN_LOGITS || (uint32_t)v.buf >= set->n_bufs) return false;
    const plan_buf *b = &set->bufs[v.buf];
    return b->type == type && v.n == n && n > 0 && size_in_range(v.col, n, b->width);
}

static bool is_f32(const plan_set *set, plan_view v, uint32_t n)
{
    return is_rows(set, v, QUANT_F32, n);
}

static bool is_q8(const plan_set *set, plan_view v, uint32_t n)
{
    return is_rows(set, v, QUANT_Q8_0, n) && v.col % QUANT_Q8_VALUES == 0 &&
           n % QUANT_Q8_VALUES == 0 && set->bufs[v.buf].width % QUANT_Q8_VALUES == 0;
}

static bool is_f32_or_q8(const plan_set *set, plan_view v, uint32_t n)
{
    return is_f32(set, v, n) || is_q8(set, v, n);
}

static bool is_f32_or_absent(const plan_set *set, plan_view v, uint32_t n)
{
    return is_absent(v) || is_f32(set, v, n);
}

static const plan_tensor *tensor_of(const plan_set *set, int tensor)
{
    return tensor >= 0 && (uint32_t)tensor < set->n_tensors ? &set->tensors[tensor] : NULL;
}

static bool is_matrix(const plan_set *set, plan_weight m, uint32_t cols)
{
    const plan_tensor *t = tensor_of(set, m.tensor);
    return t && !t->vector && !t->values && t->cols == cols && m.rows > 0 &&
           size_in_range(m.row, m.rows, t->rows);
}

static bool is_vector(const plan_set *set, plan_vector v, uint64_t n)
{
    const plan_tensor *t = tensor_of(set, v.tensor);
    return t && t->vector && t->rows == 1 && size_in_range(v.first, n, t->cols);
}

static bool is_vector_or_absent(const plan_set *set, plan_vector v, uint64_t n)
{
    return v.tensor == PLAN_NONE || is_vector(set, v, n);
}

static bool is_cache(const plan_set *set, int cache, uint32_t n_head_kv, uint32_t head_dim)
{
    uint64_t rows;
    if (cache < PLAN_KV || (uint32_t)cache >= set->n_bufs) return false;
    const plan_buf *b = &set->bufs[cache];
    bool form = b->type == QUANT_F32 || b->type == QUANT_F16 ||
                (b->type == QUANT_Q8_0 && head_dim % QUANT_Q8_VALUES == 0);
    return form && b->width == head_dim &&
           size_mul((uint64_t)set->n_slots * n_head_kv, set->n_ctx, &rows) && b->rows >= rows;
}

// The input of a product: rows of the form that `act` names, normalized only as f32.
static bool is_input(const plan_set *set, const plan_op *op, plan_view x, plan_vector norm_in)
{
    if (op->act == PLAN_ACT_Q8) return is_q8(set, x, x.n) && norm_in.tensor == PLAN_NONE;
    return is_f32(set, x, x.n) && is_vector_or_absent(set, norm_in, x.n);
}

// ---- operations -------------------------------------------------------------------------------

static const char *embed_fault(const plan_set *set, const plan_embed *o)
{
    uint32_t n = o->out.n;
    if (!is_f32(set, o->out, n)) return "its output";
    if (!is_matrix(set, o->table, n)) return "the token table";
    bool positions = is_matrix(set, o->positions, n) && o->positions.rows >= set->n_ctx;
    if (o->positions.tensor != PLAN_NONE && !positions) return "the table of positions";
    return NULL;
}

static const char *norm_fault(const plan_set *set, const plan_norm_op *o)
{
    uint32_t n = o->x.n;
    bool out = is_f32(set, o->out, n) || (is_q8(set, o->out, n) && is_absent(o->residual));
    if (!is_f32(set, o->x, n) || !out || !is_f32_or_absent(set, o->residual, n)) return "its rows";
    if (!is_vector(set, o->weight, n) || !is_vector_or_absent(set, o->bias, n))
        return "its weight or bias";
    return NULL;
}

static const char *linear_fault(const plan_set *set, const plan_op *op)
{
    const plan_linear *o = &op->u.linear;
    if (o->n_weights < 1 || o->n_weights > 3 || (o->gated && o->n_weights != 2))
        return "the number of its weights";
    if (!is_input(set, op, o->x, o->norm_in)) return "its input";
    for (uint32_t i = 0; i < o->n_weights; i++) {
        const plan_weight *w = &o->weight[i];
        if (!is_matrix(set, *w, o->x.n)) return "a weight";
        if (set->tensors[w->tensor].type != set->tensors[o->weight[0].tensor].type)
            return "weights of different formats";
        if (!is_vector_or_absent(set, o->bias[i], w->rows)) return "a bias";
        if (!o->gated && !is_f32(set, o->out[i], w->rows)) return "its output";
    }
    uint32_t n_out = o->weight[0].rows;
    if (o->gated && o->weight[1].rows != n_out) return "gate and up of different sizes";
    if (o->gated && !is_f32_or_q8(set, o->out[0], n_out)) return "its output";
    bool alone = !o->gated && o->n_weights == 1;
    if (!is_f32_or_absent(set, o->residual, n_out) || !(alone || is_absent(o->residual)))
        return "its residual";
    return NULL;
}

static const char *logits_fault(const plan_set *set, const plan_op *op)
{
    const plan_logits *o = &op->u.logits;
    if (!is_input(set, op, o->x, o->norm_in)) return "its input";
    if (!is_matrix(set, o->weight, o->x.n)) return "its weight";
    if (!is_vector_or_absent(set, o->bias, o->weight.rows)) return "its bias";
    if (set->n_bufs <= PLAN_LOGITS || set->bufs[PLAN_LOGITS].type != QUANT_F32 ||
        set->bufs[PLAN_LOGITS].width != o->weight.rows)
        return "its output";
    return o->softcap >= 0 ? NULL : "its cap";
}

static bool are_heads(uint32_t n_head, uint32_t n_head_kv, uint32_t head_dim)
{
    return n_head_kv > 0 && head_dim > 0 && n_head % n_head_kv == 0 &&
           (uint64_t)n_head * head_dim <= UINT32_MAX;
}

static const char *rope_kv_fault(const plan_set *set, const plan_rope_kv *o)
{
    if (!are_heads(o->n_head, o->n_head_kv, o->head_dim) ||
        !is_f32(set, o->q, o->n_head * o->head_dim) ||
        !is_f32(set, o->k, o->n_head_kv * o->head_dim) || !is_f32(set, o->v, o->k.n))
        return "the shape of its heads";
    if (!is_cache(set, o->k_cache, o->n_head_kv, o->head_dim) ||
        !is_cache(set, o->v_cache, o->n_head_kv, o->head_dim))
        return "its cache";
    if (!is_vector_or_absent(set, o->q_norm, o->head_dim) ||
        !is_vector_or_absent(set, o->k_norm, o->head_dim))
        return "the norms of its heads";
    const plan_tensor *table = tensor_of(set, o->table);
    if (o->rope == PLAN_ROPE_NONE)
        return o->table == PLAN_NONE && o->n_rot == 0 ? NULL : "its rotation";
    if (!table || !table->values || table->rows < set->n_ctx || table->cols != o->n_rot ||
        o->n_rot % 2 != 0 || o->n_rot > o->head_dim)
        return "its rotation";
    return NULL;
}

static const char *attend_fault(const plan_set *set, const plan_attend *o)
{
    if (!are_heads(o->n_head, o->n_head_kv, o->head_dim) ||
        !is_f32(set, o->q, o->n_head * o->head_dim) || !is_f32_or_q8(set, o->out, o->q.n))
        return "the shape of its heads";
    if (!is_cache(set, o->k_cache, o->n_head_kv, o->head_dim) ||
        !is_cache(set, o->v_cache, o->n_head_kv, o->head_dim))
        return "its cache";
    return o->softcap >= 0 ? NULL : "its cap";
}

static bool are_rows(const plan_set *set, const plan_op *op)
{
    const plan_quantize *q = &op->u.quantize;
    const plan_activate *a = &op->u.activate;
    const plan_add *add = &op->u.add;
    switch (op->kind) {
    case PLAN_QUANTIZE: return is_f32(set, q->x, q->x.n) && is_q8(set, q->out, q->x.n);
    case PLAN_ACTIVATE:
        return is_f32(set, a->x, a->x.n) && is_f32_or_absent(set, a->up, a->x.n) &&
               is_f32_or_q8(set, a->out, a->x.n);
    default:
        return is_f32(set, add->a, add->a.n) && is_f32(set, add->b, add->a.n) &&
               is_f32(set, add->out, add->a.n);
    }
}

const char *plan_op_fault(const plan_set *set, const plan_op *op)
{
    switch (op->kind) {
    case PLAN_EMBED: return embed_fault(set, &op->u.embed);
    case PLAN_NORM: return norm_fault(set, &op->u.norm);
    case PLAN_LINEAR: return linear_fault(set, op);
    case PLAN_ROPE_KV: return rope_kv_fault(set, &op->u.rope_kv);
    case PLAN_ATTEND: return attend_fault(set, &op->u.attend);
    case PLAN_LOGITS_OP: return logits_fault(set, op);
    case PLAN_QUANTIZE:
    case PLAN_ACTIVATE:
    case PLAN_ADD: return are_rows(set, op) ? NULL : "its rows";
    case PLAN_PICK_OP: return NULL;
    case PLAN_N_OP_KINDS: break;
    }
    return "no such operation";
}
