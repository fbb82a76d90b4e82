// What each operation computes, in plain loops: the definition that the other executors are held
// against. Sums are made in double precision, so their order hardly matters; a row's result never
// depends on which rows are computed with it.
#include "exec/reference/reference.h"

#include <math.h>

// ---- rows of buffers, weights, vectors --------------------------------------------------------

static char *value_at(const exec *e, int buffer, uint32_t row, uint32_t col)
{
    const plan_buf *b = &e->set->bufs[buffer];
    uint64_t offset = 0;
    quant_row_bytes(b->type, col, &offset);
    return (char *)e->bufs[buffer] + row * b->row_bytes + offset;
}

// n values of a buffer's row from `col` on, as f32; q8 rows and the cache are decoded and encoded.
static void load(const exec *e, int buffer, uint32_t row, uint32_t col, uint32_t n, float *out)
{
    quant_format_of(e->set->bufs[buffer].type)->decode(value_at(e, buffer, row, col), out, n);
}

static void store(const exec *e, int buffer, uint32_t row, uint32_t col, uint32_t n,
                  const float *values)
{
    quant_format_of(e->set->bufs[buffer].type)->encode(values, value_at(e, buffer, row, col), n);
}

static void load_view(const exec *e, plan_view v, uint32_t row, float *out)
{
    load(e, v.buf, row, v.col, v.n, out);
}

static void store_view(const exec *e, plan_view v, uint32_t row, const float *values)
{
    store(e, v.buf, row, v.col, v.n, values);
}

static const float *vector(const exec *e, plan_vector v)
{
    return v.tensor < 0 ? NULL : e->weights->vectors[v.tensor] + v.first;
}

static void weight_row(const exec *e, plan_weight w, uint32_t row, float *out)
{
    const plan_tensor *t = &e->weights->tensors[w.tensor];
    const char *data = e->weights->data[w.tensor];
    quant_format_of(t->type)->decode(data + (w.row + row) * t->row_bytes, out, t->cols);
}

static double dot(const float *a, const float *b, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

// ---- embedding and norms ----------------------------------------------------------------------

static void run_embed(exec *e, const plan_embed *op)
{
    for (uint32_t r = 0; r < e->step->n_rows; r++) {
        const plan_row *row = &e->step->rows[r];
        weight_row(e, op->table, (uint32_t)row->token, e->x);
        for (uint32_t i = 0; i < op->out.n; i++) e->x[i] *= op->scale;
        if (op->positions.tensor >= 0) {
            weight_row(e, op->positions, row->pos, e->w);
            for (uint32_t i = 0; i < op->out.n; i++) e->x[i] += e->w[i];
        }
        store_view(e, op->out, r, e->x);
    }
}

// x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich 2019), in place
static void rms_norm(float *x, uint32_t n, const float *weight, float eps)
{
    double scale = 1 / sqrt(dot(x, x, n) / n + (double)eps);
    for (uint32_t i = 0; i < n; i++) x[i] = (float)((double)x[i] * scale * (double)weight[i]);
}

// (x - mean) / sqrt(variance + eps) * weight + bias (Ba et al. 2016), in place
static void layer_norm(float *x, uint32_t n, const float *weight, const float *bias, float eps)
{
    double mean = 0, variance = 0;
    for (uint32_t i = 0; i < n; i++) mean += (double)x[i];
    mean /= n;
    for (uint32_t i = 0; i < n; i++) variance += ((double)x[i] - mean) * ((double)x[i] - mean);
    double scale = 1 / sqrt(variance / n + (double)eps);
    for (uint32_t i = 0; i < n; i++) {
        double y = ((double)x[i] - mean) * scale * (double)weight[i];
        x[i] = (float)(bias ? y + (double)bias[i] : y);
    }
}

static void run_norm(exec *e, const plan_norm_op *op)
{
    for (uint32_t r = 0; r < e->step->n_rows; r++) {
        load_view(e, op->x, r, e->x);
        if (op->norm == PLAN_NORM_RMS)
            rms_norm(e->x, op->x.n, vector(e, op->weight), op->eps);
        else
            layer_norm(e->x, op->x.n, vector(e, op->weight), vector(e, op->bias), op->eps);
        if (op->residual.buf >= 0) {
            load_view(e, op->residual, r, e->y);
            for (uint32_t i = 0; i < op->x.n; i++) e->x[i] += e->y[i];
        }
        store_view(e, op->out, r, e->x);
    }
}

// ---- products ---------------------------------------------------------------------------------

static double activation(plan_fn fn, double x)
{
    switch (fn) {
    case PLAN_FN_SILU: return x / (1 + exp(-x));
    case PLAN_FN_GELU_TANH: // the approximation of Hendrycks and Gimpel 2016; sqrt(2 / pi)
        return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case PLAN_FN_GELU_ERF: // 1 / sqrt(2)
        return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
    case PLAN_FN_NONE: break;
    }
    return x;
}

// A product's input row, normalized on the way where the op says so.
static void load_input(const exec *e, plan_view x, uint32_t row, plan_vector norm_in, float eps,
                       float *to)
{
    load_view(e, x, row, to);
    if (norm_in.tensor >= 0) rms_norm(to, x.n, vector(e, norm_in), eps);
}

// to: [n][rows] = W x_r + bias, for the n rows x_r in e->x: [n][cols]
static void product(exec *e, plan_weight w, plan_vector bias, uint32_t n, float *to)
{
    uint32_t cols = e->weights->tensors[w.tensor].cols;
    const float *b = vector(e, bias);
    for (uint32_t i = 0; i < w.rows; i++) {
        weight_row(e, w, i, e->w);
        for (uint32_t r = 0; r < n; r++) {
            double y = dot(e->w, e->x + (size_t)r * cols, cols);
            to[(size_t)r * w.rows + i] = (float)(b ? y + (double)b[i] : y);
        }
    }
}

// out[0] = fn(W_0 x) * (W_1 x)
static void run_gated(exec *e, const plan_linear *op)
{
    uint32_t n = e->step->n_rows, rows = op->weight[0].rows;
    float *gate = e->y, *up = e->y + (size_t)n * rows;
    product(e, op->weight[0], op->bias[0], n, gate);
    product(e, op->weight[1], op->bias[1], n, up);
    for (size_t i = 0; i < (size_t)n * rows; i++)
        gate[i] = (float)(activation(op->fn, (double)gate[i]) * (double)up[i]);
    for (uint32_t r = 0; r < n; r++) store_view(e, op->out[0], r, gate + (size_t)r * rows);
}

static void run_linear(exec *e, const plan_linear *op)
{
    uint32_t n = e->step->n_rows;
    for (uint32_t r = 0; r < n; r++)
        load_input(e, op->x, r, op->norm_in, op->norm_eps, e->x + (size_t)r * op->x.n);
    if (op->gated) {
        run_gated(e, op);
        return;
    }
    for (uint32_t w = 0; w < op->n_weights; w++) {
        uint32_t rows = op->weight[w].rows;
        product(e, op->weight[w], op->bias[w], n, e->y);
        for (uint32_t r = 0; r < n; r++) {
            float *y = e->y + (size_t)r * rows;
            for (uint32_t i = 0; i < rows; i++) y[i] = (float)activation(op->fn, (double)y[i]);
            if (op->residual.buf >= 0) {
                load_view(e, op->residual, r, e->w);
                for (uint32_t i = 0; i < rows; i++) y[i] += e->w[i];
            }
            store_view(e, op->out[w], r, y);
        }
    }
}

static void run_quantize(exec *e, const plan_quantize *op)
{
    for (uint32_t r = 0; r < e->step->n_rows; r++) {
        load_view(e, op->x, r, e->x);
        store_view(e, op->out, r, e->x);
    }
}

// ---- attention --------------------------------------------------------------------------------

// Turns the pairs of a head by the angles of a position (Su et al. 2021).
static void rotate(float *x, const plan_rope_kv *op, const float *cos_sin)
{
    for (uint32_t i = 0; i < op->n_rot / 2; i++) {
        uint32_t a = op->rope == PLAN_ROPE_NEOX ? i : 2 * i;
        uint32_t b = op->rope == PLAN_ROPE_NEOX ? i + op->n_rot / 2 : 2 * i + 1;
        double c = (double)cos_sin[2 * i], s = (double)cos_sin[2 * i + 1];
        double xa = (double)x[a], xb = (double)x[b];
        x[a] = (float)(xa * c - xb * s);
        x[b] = (float)(xa * s + xb * c);
    }
}

// Row of the cache: [slot][head_kv][position]
static uint32_t cache_row(const plan_set *set, uint32_t slot, uint32_t head, uint32_t pos)
{
    return (slot * set->n_head_kv + head) * set->n_ctx + pos;
}

// Head h of Q or K of row r into e->x: normalized, rotated.
static void prepare_head(exec *e, const plan_rope_kv *op, uint32_t r, plan_view v, uint32_t h,
                         plan_vector norm)
{
    uint32_t d = op->head_dim;
    load(e, v.buf, r, v.col + h * d, d, e->x);
    if (norm.tensor >= 0) rms_norm(e->x, d, vector(e, norm), op->norm_eps);
    if (op->rope == PLAN_ROPE_NONE) return;
    const plan_tensor *table = &e->set->tensors[op->table];
    rotate(e->x, op, table->values + (size_t)e->step->rows[r].pos * op->n_rot);
}

static void run_rope_kv(exec *e, const plan_rope_kv *op)
{
    uint32_t d = op->head_dim;
    for (uint32_t r = 0; r < e->step->n_rows; r++) {
        const plan_row *row = &e->step->rows[r];
        for (uint32_t h = 0; h < op->n_head; h++) {
            prepare_head(e, op, r, op->q, h, op->q_norm);
            store(e, op->q.buf, r, op->q.col + h * d, d, e->x);
        }
        for (uint32_t h = 0; h < op->n_head_kv; h++) {
            uint32_t at = cache_row(e->set, row->slot, h, row->pos);
            prepare_head(e, op, r, op->k, h, op->k_norm);
            store(e, op->k_cache, at, 0, d, e->x);
            load(e, op->v.buf, r, op->v.col + h * d, d, e->x);
            store(e, op->v_cache, at, 0, d, e->x);
        }
    }
}

// softmax(scale q k^T) v for one head of one row (Vaswani et al. 2017); out: [head_dim]
static void attend_head(exec *e, const plan_attend *op, const plan_row *row, uint32_t head_kv,
                        const float *q, float *out)
{
    uint32_t d = op->head_dim;
    uint32_t first = op->window && row->n_kv > op->window ? row->n_kv - op->window : 0;
    double max = -HUGE_VAL, sum = 0;
    for (uint32_t p = first; p < row->n_kv; p++) {
        load(e, op->k_cache, cache_row(e->set, row->slot, head_kv, p), 0, d, e->w);
        double s = dot(q, e->w, d) * (double)op->scale, cap = (double)op->softcap;
        if (cap > 0) s = cap * tanh(s / cap);
        e->scores[p] = s;
        if (s > max) max = s;
    }
    for (uint32_t p = first; p < row->n_kv; p++) {
        e->scores[p] = exp(e->scores[p] - max);
        sum += e->scores[p];
    }
    for (uint32_t i = 0; i < d; i++) e->acc[i] = 0;
    for (uint32_t p = first; p < row->n_kv; p++) {
        load(e, op->v_cache, cache_row(e->set, row->slot, head_kv, p), 0, d, e->w);
        for (uint32_t i = 0; i < d; i++) e->acc[i] += e->scores[p] * (double)e->w[i];
    }
    for (uint32_t i = 0; i < d; i++) out[i] = (float)(e->acc[i] / sum);
}

static void run_attend(exec *e, const plan_attend *op)
{
    uint32_t group = op->n_head / op->n_head_kv;
    for (uint32_t r = 0; r < e->step->n_rows; r++) {
        load_view(e, op->q, r, e->x);
        for (uint32_t h = 0; h < op->n_head; h++)
            attend_head(e, op, &e->step->rows[r], h / group, e->x + h * op->head_dim,
                        e->y + h * op->head_dim);
        store_view(e, op->out, r, e->y);
    }
}

// ---- the rest ---------------------------------------------------------------------------------

static void run_activate(exec *e, const plan_activate *op)
{
    for (uint32_t r = 0; r < e->step->n_rows; r++) {
        load_view(e, op->x, r, e->x);
        if (op->up.buf >= 0) load_view(e, op->up, r, e->y);
        for (uint32_t i = 0; i < op->x.n; i++) {
            double y = activation(op->fn, (double)e->x[i]);
            e->x[i] = (float)(op->up.buf >= 0 ? y * (double)e->y[i] : y);
        }
        store_view(e, op->out, r, e->x);
    }
}

static void run_add(exec *e, const plan_add *op)
{
    for (uint32_t r = 0; r < e->step->n_rows; r++) {
        load_view(e, op->a, r, e->x);
        load_view(e, op->b, r, e->y);
        for (uint32_t i = 0; i < op->a.n; i++) e->x[i] += e->y[i];
        store_view(e, op->out, r, e->x);
    }
}

static void run_logits(exec *e, const plan_logits *op)
{
    uint32_t n = e->step->n_logits;
    float *logits = e->bufs[PLAN_LOGITS];
    for (uint32_t i = 0; i < n; i++)
        load_input(e, op->x, e->step->logit_rows[i], op->norm_in, op->norm_eps,
                   e->x + (size_t)i * op->x.n);
    product(e, op->weight, op->bias, n, logits);
    double cap = (double)op->softcap;
    for (size_t i = 0; cap > 0 && i < (size_t)n * op->weight.rows; i++)
        logits[i] = (float)(cap * tanh((double)logits[i] / cap));
}

// Inserts a logit into the candidates, which are sorted: larger first, then the lower id first.
static void keep_top(plan_pick *pick, uint32_t capacity, int32_t id, float logit)
{
    if (pick->n_top == capacity && !(logit > pick->top_logit[capacity - 1])) return;
    uint32_t at = pick->n_top < capacity ? pick->n_top++ : capacity - 1;
    for (; at > 0 && logit > pick->top_logit[at - 1]; at--) {
        pick->top_logit[at] = pick->top_logit[at - 1];
        pick->top_id[at] = pick->top_id[at - 1];
    }
    pick->top_logit[at] = logit;
    pick->top_id[at] = id;
}

static void run_pick(exec *e)
{
    uint32_t n_vocab = e->set->n_vocab;
    uint32_t capacity = n_vocab < PLAN_N_TOP ? n_vocab : PLAN_N_TOP;
    for (uint32_t i = 0; i < e->step->n_logits; i++) {
        const float *logits = (const float *)e->bufs[PLAN_LOGITS] + (size_t)i * n_vocab;
        plan_pick *pick = (plan_pick *)e->bufs[PLAN_PICK] + i;
        *pick = (plan_pick){.finite = 1};
        for (uint32_t v = 0; v < n_vocab; v++) {
            if (!isfinite(logits[v])) pick->finite = 0;
            if (!isnan(logits[v])) keep_top(pick, capacity, (int32_t)v, logits[v]);
        }
        pick->id = pick->top_id[0];
        pick->max = pick->top_logit[0];
        double sum = 0;
        for (uint32_t v = 0; v < n_vocab; v++) sum += exp((double)logits[v] - (double)pick->max);
        pick->log_sum_exp = (float)((double)pick->max + log(sum));
    }
}

void reference_run_op(exec *e, const plan_op *op)
{
    switch (op->kind) {
    case PLAN_EMBED: run_embed(e, &op->u.embed); break;
    case PLAN_NORM: run_norm(e, &op->u.norm); break;
    case PLAN_LINEAR: run_linear(e, &op->u.linear); break;
    case PLAN_QUANTIZE: run_quantize(e, &op->u.quantize); break;
    case PLAN_ROPE_KV: run_rope_kv(e, &op->u.rope_kv); break;
    case PLAN_ATTEND: run_attend(e, &op->u.attend); break;
    case PLAN_ACTIVATE: run_activate(e, &op->u.activate); break;
    case PLAN_ADD: run_add(e, &op->u.add); break;
    case PLAN_LOGITS_OP: run_logits(e, &op->u.logits); break;
    case PLAN_PICK_OP: run_pick(e); break;
    case PLAN_N_OP_KINDS: break;
    }
}
