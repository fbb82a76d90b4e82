// What exec_open looks at: whether every operand of an op lies where the op says. A plan from the
// builder passes; one that does not is refused here instead of going wrong later.
#include "exec/cpu/cpu.h"

#include "base/size.h"

static pm_status refuse(const plan_op *op, const char *why)
{
    return error_set(PM_ERROR_FILE, "%s (%s): the CPU can't run this: %s", op->label,
                     plan_op_name(op->kind), why);
}

static bool is_row_buf(const plan_set *set, plan_view v)
{
    return v.buf >= 0 && v.buf < PLAN_KV && (uint32_t)v.buf < set->n_bufs && v.n > 0 &&
           size_in_range(v.col, v.n, set->bufs[v.buf].width);
}

static bool is_f32(const plan_set *set, plan_view v)
{
    return is_row_buf(set, v) && set->bufs[v.buf].type == QUANT_F32;
}

static bool is_q8(const plan_set *set, plan_view v)
{
    return is_row_buf(set, v) && set->bufs[v.buf].type == QUANT_Q8_0 && v.col % CPU_BLOCK == 0 &&
           v.n % CPU_BLOCK == 0 && set->bufs[v.buf].width % CPU_BLOCK == 0;
}

static bool is_rows(const plan_set *set, plan_view v)
{
    return is_f32(set, v) || is_q8(set, v);
}

static bool is_absent(plan_view v)
{
    return v.buf == PLAN_NONE;
}

// A matrix of the weights with these columns.
static bool is_matrix(const exec_weights *w, plan_weight m, uint32_t cols)
{
    if (m.tensor < 0 || (uint32_t)m.tensor >= w->n_tensors || m.rows == 0) return false;
    const cpu_tensor *t = &w->tensors[m.tensor];
    return t->loaded && t->matrix.data && t->matrix.cols == cols &&
           size_in_range(m.row, m.rows, t->matrix.rows);
}

// Absent, or n values of the weights or of a constant.
static bool is_vector(const exec_weights *w, const plan_set *set, plan_vector v, uint64_t n)
{
    if (v.tensor == PLAN_NONE) return true;
    if (v.tensor < 0 || (uint32_t)v.tensor >= set->n_tensors) return false;
    const plan_tensor *t = &set->tensors[v.tensor];
    if (t->values) return size_in_range(v.first, n, (uint64_t)t->rows * t->cols);
    if ((uint32_t)v.tensor >= w->n_tensors) return false;
    const cpu_tensor *c = &w->tensors[v.tensor];
    return c->loaded && c->vector && size_in_range(v.first, n, c->n_values);
}

static pm_status check_embed(const exec_weights *w, const plan_set *set, const plan_op *op)
{
    const plan_embed *o = &op->u.embed;
    if (!is_f32(set, o->out)) return refuse(op, "no f32 rows to write");
    if (!is_matrix(w, o->table, o->out.n)) return refuse(op, "the token table");
    if (o->positions.tensor != PLAN_NONE && !is_matrix(w, o->positions, o->out.n))
        return refuse(op, "the table of positions");
    return PM_OK;
}

static pm_status check_norm(const exec_weights *w, const plan_set *set, const plan_op *op)
{
    const plan_norm_op *o = &op->u.norm;
    bool rows = is_f32(set, o->x) && is_rows(set, o->out) && o->out.n == o->x.n &&
                (is_absent(o->residual) ||
                 (is_f32(set, o->residual) && o->residual.n == o->x.n && is_f32(set, o->out)));
    if (!rows) return refuse(op, "its rows");
    if (!is_vector(w, set, o->weight, o->x.n) || !is_vector(w, set, o->bias, o->x.n))
        return refuse(op, "its weight or bias");
    return PM_OK;
}

// The input of a product: rows of the form that `act` names, normalized only as f32.
static bool is_input(const exec_weights *w, const plan_set *set, const plan_op *op, plan_view x,
                     plan_vector norm_in)
{
    bool rows = op->act == PLAN_ACT_Q8 ? is_q8(set, x) : is_f32(set, x);
    bool normed = norm_in.tensor != PLAN_NONE;
    return rows && is_vector(w, set, norm_in, x.n) && !(normed && op->act == PLAN_ACT_Q8);
}

static pm_status check_linear(const exec_weights *w, const plan_set *set, const plan_op *op)
{
    const plan_linear *o = &op->u.linear;
    if (o->n_weights < 1 || o->n_weights > 3 || (o->gated && o->n_weights != 2))
        return refuse(op, "the number of its weights");
    if (!is_input(w, set, op, o->x, o->norm_in)) return refuse(op, "its input");
    for (uint32_t i = 0; i < o->n_weights; i++) {
        if (!is_matrix(w, o->weight[i], o->x.n)) return refuse(op, "a weight");
        const cpu_weight *m = &w->tensors[o->weight[i].tensor].matrix;
        if (m->quant != w->tensors[o->weight[0].tensor].matrix.quant)
            return refuse(op, "weights of different formats");
        if (!is_vector(w, set, o->bias[i], o->weight[i].rows)) return refuse(op, "a bias");
        if (o->gated && o->weight[i].rows != o->weight[0].rows)
            return refuse(op, "gate and up of different sizes");
        if (o->gated && i > 0) continue;
        if (!is_rows(set, o->out[i]) || o->out[i].n != o->weight[i].rows)
            return refuse(op, "its output");
    }
    if (is_absent(o->residual)) return PM_OK;
    if (o->gated || o->n_weights > 1 || !is_f32(set, o->residual) || !is_f32(set, o->out[0]) ||
        o->residual.n != o->out[0].n)
        return refuse(op, "its residual");
    return PM_OK;
}

static pm_status check_logits(const exec_weights *w, const plan_set *set, const plan_op *op)
{
    const plan_logits *o = &op->u.logits;
    plan_view out = {PLAN_LOGITS, 0, o->weight.rows};
    if (!is_input(w, set, op, o->x, o->norm_in)) return refuse(op, "its input");
    if (!is_matrix(w, o->weight, o->x.n)) return refuse(op, "its weight");
    if (!is_f32(set, out) || !is_vector(w, set, o->bias, o->weight.rows))
        return refuse(op, "its output or bias");
    return PM_OK;
}

static bool are_caches(const plan_set *set, int k, int v, uint32_t n_head_kv, uint32_t head_dim)
{
    uint64_t rows;
    if (!size_mul((uint64_t)set->n_slots * n_head_kv, set->n_ctx, &rows)) return false;
    for (int i = 0; i < 2; i++) {
        int cache = i ? v : k;
        if (cache < PLAN_KV || (uint32_t)cache >= set->n_bufs) return false;
        const plan_buf *b = &set->bufs[cache];
        bool form = b->type == QUANT_F32 || b->type == QUANT_F16 ||
                    (b->type == QUANT_Q8_0 && head_dim % CPU_BLOCK == 0);
        if (!form || b->width != head_dim || b->rows < rows) return false;
    }
    return true;
}

static bool are_heads(uint32_t n_head, uint32_t n_head_kv, uint32_t head_dim, plan_view q)
{
    return n_head_kv > 0 && head_dim > 0 && n_head % n_head_kv == 0 &&
           (uint64_t)n_head * head_dim == q.n;
}

static pm_status check_rope_kv(const exec_weights *w, const plan_set *set, const plan_op *op)
{
    const plan_rope_kv *o = &op->u.rope_kv;
    uint64_t n_kv = (uint64_t)o->n_head_kv * o->head_dim;
    if (!is_f32(set, o->q) || !is_f32(set, o->k) || !is_f32(set, o->v) || o->k.n != n_kv ||
        o->v.n != n_kv || !are_heads(o->n_head, o->n_head_kv, o->head_dim, o->q))
        return refuse(op, "the shape of its heads");
    if (!are_caches(set, o->k_cache, o->v_cache, o->n_head_kv, o->head_dim))
        return refuse(op, "its cache");
    if (!is_vector(w, set, o->q_norm, o->head_dim) || !is_vector(w, set, o->k_norm, o->head_dim))
        return refuse(op, "the norms of its heads");
    if (o->rope == PLAN_ROPE_NONE) return PM_OK;
    plan_vector table = {o->table, 0};
    if (o->table == PLAN_NONE || o->n_rot % 2 != 0 || o->n_rot > o->head_dim ||
        !is_vector(w, set, table, (uint64_t)set->n_ctx * o->n_rot))
        return refuse(op, "its rotation");
    return PM_OK;
}

static pm_status check_attend(const plan_set *set, const plan_op *op)
{
    const plan_attend *o = &op->u.attend;
    if (!is_f32(set, o->q) || !are_heads(o->n_head, o->n_head_kv, o->head_dim, o->q) ||
        !is_rows(set, o->out) || o->out.n != o->q.n)
        return refuse(op, "the shape of its heads");
    if (!are_caches(set, o->k_cache, o->v_cache, o->n_head_kv, o->head_dim))
        return refuse(op, "its cache");
    return PM_OK;
}

static pm_status check_rows(const plan_set *set, const plan_op *op)
{
    bool ok;
    if (op->kind == PLAN_QUANTIZE) {
        const plan_quantize *o = &op->u.quantize;
        ok = is_f32(set, o->x) && is_q8(set, o->out) && o->out.n == o->x.n;
    } else if (op->kind == PLAN_ACTIVATE) {
        const plan_activate *o = &op->u.activate;
        bool up = is_absent(o->up) || (is_f32(set, o->up) && o->up.n == o->x.n);
        ok = is_f32(set, o->x) && up && is_rows(set, o->out) && o->out.n == o->x.n;
    } else {
        const plan_add *o = &op->u.add;
        ok = is_f32(set, o->a) && is_f32(set, o->b) && is_f32(set, o->out) && o->a.n == o->b.n &&
             o->a.n == o->out.n;
    }
    return ok ? PM_OK : refuse(op, "its rows");
}

pm_status cpu_check_op(const exec_weights *w, const plan_set *set, const plan_op *op)
{
    switch (op->kind) {
    case PLAN_EMBED: return check_embed(w, set, op);
    case PLAN_NORM: return check_norm(w, set, op);
    case PLAN_LINEAR: return check_linear(w, set, op);
    case PLAN_ROPE_KV: return check_rope_kv(w, set, op);
    case PLAN_ATTEND: return check_attend(set, op);
    case PLAN_LOGITS_OP: return check_logits(w, set, op);
    case PLAN_QUANTIZE:
    case PLAN_ACTIVATE:
    case PLAN_ADD: return check_rows(set, op);
    case PLAN_PICK_OP: return PM_OK;
    case PLAN_N_OP_KINDS: break;
    }
    return refuse(op, "no such operation");
}
