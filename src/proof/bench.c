#include "proof/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/rng.h"

enum { MAX_WARM_UPS = 5 };

// A token anywhere in the vocabulary: the n-th of the seed.
static int32_t token_of(const session *s, uint64_t seed, uint64_t n)
{
    return (int32_t)(rng_u64(seed, n) % session_plan(s)->n_vocab);
}

static pm_status eval_tokens(session *s, uint64_t seed, uint64_t first, uint32_t n)
{
    if (n == 0) return PM_OK;
    int32_t *ids = malloc(n * sizeof *ids);
    if (!ids) return error_memory("a benchmark", n * sizeof *ids);
    for (uint32_t i = 0; i < n; i++) ids[i] = token_of(s, seed, first + i);
    const plan_pick *pick; // what a sampler needs has to be there, no more
    pm_status status = session_eval_pick(s, ids, n, &pick);
    free(ids);
    return status;
}

pm_status bench_fill(session *s, uint64_t seed, const bench_case *c)
{
    session_rewind(s, 0);
    return eval_tokens(s, seed, 0, c->depth);
}

pm_status bench_evaluate(session *s, uint64_t seed, const bench_case *c)
{
    if (c->kind == BENCH_PROMPT) return eval_tokens(s, seed, c->depth, c->n);
    pm_status status = PM_OK;
    for (uint32_t i = 0; i < c->n && status == PM_OK; i++)
        status = eval_tokens(s, seed, c->depth + i, 1);
    return status;
}

static pm_status run_once(session *s, uint64_t seed, const bench_case *c, double *seconds)
{
    pm_status status = bench_fill(s, seed, c);
    double start = os_seconds();
    if (status == PM_OK) status = bench_evaluate(s, seed, c);
    *seconds = os_seconds() - start;
    return status;
}

static void fail(bench_case *c)
{
    snprintf(c->failure, sizeof c->failure, "%s", error_message());
}

static void warm_up(session *s, const bench_params *params, bench_case *c)
{
    double before = 0, seconds = 0;
    for (int i = 0; i < MAX_WARM_UPS; i++) {
        if (run_once(s, rng_u64(params->seed, (uint64_t)i), c, &seconds) != PM_OK) {
            fail(c);
            return;
        }
        c->n_warm_ups++;
        c->steady = i > 0 && fabs(seconds - before) < 0.05 * before;
        if (c->steady) return;
        before = seconds;
    }
}

static void shuffle(size_t *order, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) order[i] = i;
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)(rng_u64(seed, i) % i), t = order[i - 1];
        order[i - 1] = order[j];
        order[j] = t;
    }
}

void bench_run(session *s, const bench_params *params, bench_case *cases, size_t n_cases)
{
    size_t *order = malloc((n_cases + 1) * sizeof *order);
    for (size_t i = 0; i < n_cases; i++) {
        if (!order) {
            error_memory("a benchmark", n_cases);
            fail(&cases[i]);
        } else {
            warm_up(s, params, &cases[i]);
        }
    }
    for (uint32_t round = 0; order && round < params->repeat; round++) {
        shuffle(order, n_cases, params->seed + round);
        for (size_t i = 0; i < n_cases; i++) {
            bench_case *c = &cases[order[i]];
            if (c->failure[0]) continue;
            os_sleep(params->pause_s);
            uint64_t seed = rng_u64(params->seed, 1000 + round * (uint64_t)n_cases + order[i]);
            if (run_once(s, seed, c, &c->seconds[c->n_samples]) == PM_OK) {
                c->n_samples++;
            } else {
                fail(c);
            }
        }
    }
    free(order);
    session_rewind(s, 0);
}

// ---- figures ----------------------------------------------------------------------------------

static void add_step(const plan_set *set, uint32_t n_rows, uint32_t n_logits, uint32_t n_kv,
                     bench_cost *sum)
{
    const plan *p = plan_for_rows(set, n_rows);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        if (p->ops[i].kind == PLAN_PICK_OP) continue;
        if (p->ops[i].kind == PLAN_LOGITS_OP && n_logits == 0) continue;
        plan_cost cost = plan_op_cost(set, &p->ops[i], n_rows, n_logits, n_kv);
        sum->bytes += (double)(cost.weight_bytes + cost.kv_bytes + cost.row_bytes);
        sum->flops += (double)cost.flops;
        sum->ops++;
    }
}

bench_cost bench_cost_per_token(const plan_set *set, const bench_case *c)
{
    bench_cost sum = {0, 0, 0};
    if (c->n == 0) return sum;
    if (c->kind == BENCH_GENERATE) {
        add_step(set, 1, 1, c->depth + (c->n + 1) / 2, &sum);
        return sum;
    }
    for (uint32_t done = 0; done < c->n;) {
        uint32_t rows = c->n - done < set->n_batch ? c->n - done : set->n_batch;
        bool last = done + rows == c->n;
        add_step(set, rows, last ? 1 : 0, c->depth + done + (rows + 1) / 2, &sum);
        done += rows;
    }
    return (bench_cost){sum.bytes / c->n, sum.flops / c->n, sum.ops / c->n};
}

uint64_t bench_bytes_per_token(const plan_set *set, const bench_case *c)
{
    return (uint64_t)bench_cost_per_token(set, c).bytes;
}

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

bench_statistics bench_statistics_of(const double *samples, size_t n)
{
    bench_statistics r = {0, 0, 0};
    if (n == 0) return r;
    for (size_t i = 0; i < n; i++) r.mean += samples[i] / (double)n;
    for (size_t i = 0; i < n; i++) r.sd += (samples[i] - r.mean) * (samples[i] - r.mean);
    r.sd = n > 1 ? sqrt(r.sd / (double)(n - 1)) : 0;
    double *sorted = malloc(n * sizeof *sorted);
    if (!sorted) {
        r.median = r.mean;
        return r;
    }
    memcpy(sorted, samples, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, ascending);
    r.median = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    free(sorted);
    return r;
}
