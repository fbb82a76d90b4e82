#include "proof/profile.h"

#include <stdlib.h>
#include <string.h>

typedef struct recorder {
    const plan_set *set;
    profile *p;
    double best; // flops a second of a matrix product
    bool failed; // out of memory
} recorder;

static profile_row *row_of(recorder *r, const plan_op *op)
{
    profile *p = r->p;
    for (uint32_t i = 0; i < p->n_rows; i++)
        if (p->rows[i].kind == op->kind && !strcmp(p->rows[i].label, op->label)) return &p->rows[i];
    if (p->n_rows == p->cap_rows) {
        uint32_t cap = p->cap_rows ? 2 * p->cap_rows : 16;
        profile_row *more = realloc(p->rows, cap * sizeof *more);
        if (!more) return NULL;
        p->rows = more;
        p->cap_rows = cap;
    }
    p->rows[p->n_rows] = (profile_row){.kind = op->kind, .label = op->label};
    return &p->rows[p->n_rows++];
}

static void record(void *arg, const plan_op *op, const plan_step *step, double seconds)
{
    recorder *r = arg;
    profile_row *row = row_of(r, op);
    if (!row) {
        r->failed = true;
        return;
    }
    if (step->n_rows == 0) return;
    uint64_t n_kv = 0;
    for (uint32_t i = 0; i < step->n_rows; i++) n_kv += step->rows[i].n_kv;
    n_kv /= step->n_rows;
    plan_cost cost = plan_op_cost(r->set, op, step->n_rows, step->n_logits, (uint32_t)n_kv);
    row->calls++;
    row->bytes += cost.weight_bytes + cost.kv_bytes + cost.row_bytes;
    row->flops += cost.flops;
    row->seconds += seconds;
    double rate = seconds > 0 ? (double)cost.flops / seconds : 0;
    if (op->kind == PLAN_LINEAR && rate > r->best) r->best = rate;
}

static pm_status run(session *s, uint64_t seed, const bench_case *c, bool host, profile *out,
                     double *best)
{
    *out = (profile){0};
    recorder r = {.set = session_plan(s), .p = out};
    session_clock clock = {.op = record, .arg = &r, .host = host};
    pm_status status = bench_fill(s, seed, c);
    if (status == PM_OK) status = session_time_ops(s, &clock);
    if (status == PM_OK) status = bench_evaluate(s, seed, c);
    session_time_ops(s, NULL);
    if (status == PM_OK && r.failed) status = error_memory("times of ops", out->cap_rows);
    out->host_clock = clock.used_host;
    out->implausible = clock.implausible;
    *best = r.best;
    if (status != PM_OK) profile_free(out);
    return status;
}

static pm_status run_plausibly(session *s, uint64_t seed, const bench_case *c, profile *out,
                               double *best)
{
    pm_status status = run(s, seed, c, false, out, best);
    if (status != PM_OK || !out->implausible) return status;
    profile_free(out);
    status = run(s, seed, c, true, out, best);
    out->implausible = true;
    return status;
}

static int longest_first(const void *a, const void *b)
{
    double x = ((const profile_row *)a)->seconds, y = ((const profile_row *)b)->seconds;
    return (x < y) - (x > y);
}

pm_status profile_run(session *s, uint64_t seed, const bench_case *c, profile *out)
{
    double best;
    pm_status status = run_plausibly(s, seed, c, out, &best);
    if (status != PM_OK) return status;
    out->dispatches = session_dispatches(s, &out->dispatches_a_layer);
    qsort(out->rows, out->n_rows, sizeof *out->rows, longest_first);
    return PM_OK;
}

void profile_free(profile *p)
{
    free(p->rows);
    *p = (profile){0};
}

pm_status profile_roof(session *s, uint64_t seed, uint32_t n, double *flops_per_second)
{
    bench_case c = {.kind = BENCH_PROMPT, .n = n};
    profile p;
    pm_status status = run_plausibly(s, seed, &c, &p, flops_per_second);
    if (status == PM_OK) profile_free(&p);
    return status;
}

const char *profile_bound(const profile_row *row, double bytes_per_second, double flops_per_second)
{
    if (!(bytes_per_second > 0)) return NULL;
    double memory = (double)row->bytes / bytes_per_second;
    double compute = (double)row->flops / flops_per_second;
    double roof = memory > compute ? memory : compute;
    if (row->seconds > 4 * roof) return "latency";
    return memory >= compute ? "memory" : "compute";
}
