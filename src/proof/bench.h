// How fast a session evaluates prompts and generates: times of repeated runs on seeded tokens.
#ifndef PUMICE_PROOF_BENCH_H
#define PUMICE_PROOF_BENCH_H

#include "engine/session.h"

typedef enum bench_kind { BENCH_PROMPT, BENCH_GENERATE } bench_kind;

typedef struct bench_case {
    bench_kind kind;
    uint32_t n;     // tokens that are measured
    uint32_t depth; // tokens in the cache before
    // results
    double *seconds; // [repeat], n_samples of them filled
    uint32_t n_samples, n_warm_ups;
    bool steady;       // the last two warm-ups differed by less than 5 %
    char failure[256]; // why there are fewer than asked for; "" when all went well
} bench_case;

typedef struct bench_params {
    uint32_t repeat;
    uint64_t seed; // of the tokens and of the order of the cases
    double pause_s;
} bench_params;

// Runs the cases: a warm-up each, until two successive runs differ by less than 5 % (at most 5),
// then in rounds of one sample per case, each round in an order of its own. A case that can't be
// run says so in `failure`, the others go on.
void bench_run(session *s, const bench_params *params, bench_case *cases, size_t n_cases);

// The two halves of one run of a case: an empty cache filled to its depth, then its tokens.
pm_status bench_fill(session *s, uint64_t seed, const bench_case *c);
pm_status bench_evaluate(session *s, uint64_t seed, const bench_case *c);

// What one token of the case costs on average, as the plan counts it: bytes read and written in
// memory, arithmetic, and operations (each is a dispatch at least on executors that have them).
typedef struct bench_cost {
    double bytes, flops, ops;
} bench_cost;
bench_cost bench_cost_per_token(const plan_set *plan, const bench_case *c);
uint64_t bench_bytes_per_token(const plan_set *plan, const bench_case *c);

typedef struct bench_statistics {
    double median, mean, sd; // sd of a sample of one is 0
} bench_statistics;
bench_statistics bench_statistics_of(const double *samples, size_t n);

#endif
