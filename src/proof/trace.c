#include "proof/trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "proof/side.h"

typedef struct tracer {
    const trace_request *r;
    side side;
    plan_step step;
    float *row; // [widest]
} tracer;

// The last row that the op wrote: the cache's is the one at the last position, of its first head.
static pm_status read_view(tracer *t, uint32_t part, plan_view v, trace_view *out)
{
    const plan_set *set = t->side.set;
    const plan_buf *b = &set->bufs[v.buf];
    bool cache = v.buf >= PLAN_KV;
    uint32_t rows = v.buf == PLAN_LOGITS ? t->step.n_logits : t->step.n_rows;
    uint32_t n = cache ? set->head_dim : v.n, col = cache ? 0 : v.col;
    uint64_t row = cache ? t->step.rows[t->step.n_rows - 1].pos : rows - 1;
    *out = (trace_view){.name = b->name, .rows = rows, .n = n};
    if (rows == 0) return PM_OK;
    pm_status status = side_read(&t->side, part, v.buf, row, col, n, t->row);
    if (status != PM_OK) return status;
    for (uint32_t i = 0; i < n; i++) out->length += (double)t->row[i] * (double)t->row[i];
    out->length = sqrt(out->length);
    out->n_first = n < TRACE_FIRST ? n : TRACE_FIRST;
    for (uint32_t i = 0; i < out->n_first; i++) out->first[i] = t->row[i];
    return PM_OK;
}

static pm_status show_op(tracer *t, const plan *p, uint32_t index)
{
    const plan_op *op = &p->ops[index];
    uint32_t part = side_part(&t->side, op), n = 0;
    plan_uses uses;
    trace_view views[PLAN_MAX_USES];
    plan_op_uses(t->side.set, op, &uses);
    pm_status status = PM_OK;
    for (uint32_t i = 0; i < uses.n_writes && status == PM_OK; i++)
        status = read_view(t, part, uses.writes[i], &views[n++]);
    if (status == PM_OK) status = t->r->each(t->r->arg, t->side.set, index, op, views, n);
    return status;
}

static bool is_shown(const tracer *t, const plan *p, uint32_t i)
{
    int layer = p->ops[i].layer;
    if (layer < 0 || layer == t->r->layer) return true;
    return i + 1 < p->n_ops && p->ops[i + 1].layer != layer;
}

// Chunks before the last end with the layers; PICK is left out: the host draws from full logits.
static uint32_t end_of(const plan *p, const plan_set *set, bool last)
{
    uint32_t first, count, end = p->n_ops;
    plan_layer_ops(p, (int)set->n_layer - 1, &first, &count);
    while (end > 0 && p->ops[end - 1].kind == PLAN_PICK_OP) end--;
    return last ? end : first + count;
}

static pm_status run_chunk(tracer *t, uint32_t first, uint32_t n)
{
    bool last = first + n == t->r->n_ids;
    t->step.n_rows = n;
    t->step.n_logits = last ? 1 : 0;
    t->step.logit_rows[0] = (uint16_t)(n - 1);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t pos = first + i;
        t->step.rows[i] = (plan_row){.token = t->r->ids[pos], .pos = pos, .n_kv = pos + 1};
    }
    const plan *p = plan_for_rows(t->side.set, n);
    uint32_t at = 0, end = end_of(p, t->side.set, last);
    pm_status status = PM_OK;
    for (uint32_t i = 0; i < end && status == PM_OK; i++) {
        bool shown = last && is_shown(t, p, i);
        if (i + 1 < end && !shown) continue;
        status = side_run_range(&t->side, p, at, i + 1, &t->step);
        at = i + 1;
        if (status == PM_OK && shown) status = show_op(t, p, i);
    }
    return status;
}

pm_status trace_run(const weights *w, const trace_request *r)
{
    if (r->layer < 0 || (uint32_t)r->layer >= w->m->n_layer)
        return error_set(PM_ERROR_USAGE, "option 'layer': no layer %d (0 to %" PRIu32 ")", r->layer,
                         w->m->n_layer - 1);
    tracer *t = calloc(1, sizeof *t);
    if (!t) return error_memory("a trace", sizeof *t);
    t->r = r;
    plan_options how = r->plan;
    how.n_logits = 1;
    uint32_t widest = 0;
    pm_status status = side_open(&t->side, w, &how);
    for (uint32_t i = 0; status == PM_OK && i < t->side.set->n_bufs; i++)
        if (t->side.set->bufs[i].width > widest) widest = t->side.set->bufs[i].width;
    t->row = malloc((widest + (size_t)1) * sizeof *t->row);
    if (status == PM_OK && !t->row) status = error_memory("a row", widest);
    for (uint32_t at = 0; at < r->n_ids && status == PM_OK;) {
        uint32_t left = r->n_ids - at, n = left < how.n_batch ? left : how.n_batch;
        status = run_chunk(t, at, n);
        at += n;
    }
    if (status == PM_OK)
        status = side_read(&t->side, w->n_parts - 1, PLAN_LOGITS, 0, 0, w->m->n_vocab, r->logits);
    side_close(&t->side);
    free(t->row);
    free(t);
    return status;
}
