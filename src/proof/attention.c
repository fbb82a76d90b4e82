#include "proof/attention.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "proof/side.h"

typedef struct viewer {
    const attention_request *r;
    side side;
    plan_step step;
    float *q;    // [n_ids][n_head * head_dim]
    float *keys; // [n_ids][head_dim] of one key-value head
    float *p;    // [n_ids][n_ids]
} viewer;

// The definition of ATTEND up to its probabilities (plan.h).
static void row_of_head(const viewer *v, const plan_attend *op, uint32_t row, uint32_t head)
{
    uint32_t d = op->head_dim, n_kv = row + 1, n = v->r->n_ids;
    uint32_t first = op->window && n_kv > op->window ? n_kv - op->window : 0;
    const float *q = v->q + (size_t)row * op->q.n + (size_t)head * d;
    float *p = v->p + (size_t)row * n;
    double max = -HUGE_VAL, sum = 0, cap = (double)op->softcap;
    for (uint32_t k = 0; k < n; k++) p[k] = 0;
    for (uint32_t k = first; k < n_kv; k++) {
        double s = 0;
        for (uint32_t i = 0; i < d; i++) s += (double)q[i] * (double)v->keys[(size_t)k * d + i];
        s *= (double)op->scale;
        if (cap > 0) s = cap * tanh(s / cap);
        p[k] = (float)s;
        max = fmax(max, s);
    }
    for (uint32_t k = first; k < n_kv; k++) sum += exp((double)p[k] - max);
    for (uint32_t k = first; k < n_kv; k++) p[k] = (float)(exp((double)p[k] - max) / sum);
}

static pm_status view_layer(viewer *v, const plan_op *op)
{
    const attention_request *r = v->r;
    const plan_attend *a = &op->u.attend;
    side *s = &v->side;
    uint32_t part = side_part(s, op), group = a->n_head / a->n_head_kv;
    pm_status status = side_read_rows(s, part, a->q.buf, 0, r->n_ids, a->q.col, a->q.n, v->q);
    for (uint32_t h = 0; h < a->n_head && status == PM_OK; h++) {
        if (r->head != ATTENTION_ALL && (uint32_t)r->head != h) continue;
        status = side_read_rows(s, part, a->k_cache, (uint64_t)(h / group) * s->set->n_ctx,
                                r->n_ids, 0, a->head_dim, v->keys);
        for (uint32_t i = 0; i < r->n_ids && status == PM_OK; i++) row_of_head(v, a, i, h);
        if (status == PM_OK) status = r->each(r->arg, (uint32_t)op->layer, h, v->p);
    }
    return status;
}

static pm_status run_layers(viewer *v)
{
    const plan *p = plan_for_rows(v->side.set, v->r->n_ids);
    uint32_t at = 0;
    pm_status status = PM_OK;
    for (uint32_t i = 0; i < p->n_ops && status == PM_OK; i++) {
        const plan_op *op = &p->ops[i];
        bool wanted = v->r->layer == ATTENTION_ALL || v->r->layer == op->layer;
        if (op->kind != PLAN_ATTEND || !wanted) continue;
        status = side_run_range(&v->side, p, at, i, &v->step);
        if (status == PM_OK) status = view_layer(v, op);
        at = i;
    }
    return status;
}

static pm_status check_request(const model *m, const attention_request *r)
{
    if (r->n_ids < 1 || r->n_ids > PLAN_MAX_ROWS)
        return error_set(PM_ERROR_USAGE, "attention of %" PRIu32 " tokens: 1 to %d are possible",
                         r->n_ids, PLAN_MAX_ROWS);
    if (r->layer != ATTENTION_ALL && (r->layer < 0 || (uint32_t)r->layer >= m->n_layer))
        return error_set(PM_ERROR_USAGE, "option 'layer': no layer %d (0 to %" PRIu32 ")", r->layer,
                         m->n_layer - 1);
    if (r->head != ATTENTION_ALL && (r->head < 0 || (uint32_t)r->head >= m->n_head))
        return error_set(PM_ERROR_USAGE, "option 'head': no head %d (0 to %" PRIu32 ")", r->head,
                         m->n_head - 1);
    for (uint32_t i = 0; i < r->n_ids; i++)
        if (r->ids[i] < 0 || (uint32_t)r->ids[i] >= m->n_vocab)
            return error_set(PM_ERROR_USAGE, "no token %d (0 to %" PRIu32 ")", r->ids[i],
                             m->n_vocab - 1);
    return PM_OK;
}

pm_status attention_run(const weights *w, const attention_request *r)
{
    pm_status status = check_request(w->m, r);
    if (status != PM_OK) return status;
    viewer *v = calloc(1, sizeof *v);
    if (!v) return error_memory("attention", sizeof *v);
    v->r = r;
    size_t n = r->n_ids, d = w->m->head_dim;
    plan_options how = r->plan;
    how.n_batch = r->n_ids;
    how.n_ctx = r->n_ids;
    how.n_logits = 1;
    v->step.n_rows = r->n_ids;
    for (uint32_t i = 0; i < r->n_ids; i++)
        v->step.rows[i] = (plan_row){.token = r->ids[i], .pos = i, .n_kv = i + 1};
    v->q = malloc((n * w->m->n_head * d + 1) * sizeof *v->q);
    v->keys = malloc((n * d + 1) * sizeof *v->keys);
    v->p = malloc((n * n + 1) * sizeof *v->p);
    if (!v->q || !v->keys || !v->p) status = error_memory("attention", n * n * sizeof *v->p);
    if (status == PM_OK) status = side_open(&v->side, w, &how);
    if (status == PM_OK) status = run_layers(v);
    side_close(&v->side);
    free(v->q);
    free(v->keys);
    free(v->p);
    free(v);
    return status;
}
