// Where a benchmark's time goes: seconds, bytes and arithmetic of a case by op kind and label.
#ifndef PUMICE_PROOF_PROFILE_H
#define PUMICE_PROOF_PROFILE_H

#include "proof/bench.h"

typedef struct profile_row { // all ops of one kind and label
    plan_op_kind kind;
    const char *label;
    uint64_t calls, bytes, flops; // as plan_op_cost counts them
    double seconds;
} profile_row;

typedef struct profile {
    profile_row *rows; // most seconds first
    uint32_t n_rows, cap_rows;
    bool host_clock;             // op by op by the host's clock, not by the device's
    bool implausible;            // ... because the device's own times could not be right
    uint32_t dispatches;         // of the last step of the case; 0: the executor has none
    uint32_t dispatches_a_layer; // the most that one layer takes
} profile;

// Runs the case once with its ops timed. An op run alone pays for its own start and end, so that
// the host's times add up to a little more than the case takes without them.
pm_status profile_run(session *s, uint64_t seed, const bench_case *c, profile *out);
void profile_free(profile *p);

// Arithmetic a second that the executor reaches where it is not held up by memory: the best of its
// matrix products in a prompt of `n` tokens.
pm_status profile_roof(session *s, uint64_t seed, uint32_t n, double *flops_per_second);

// What holds an op: "memory" or "compute", the roof that asks for more time, or "latency" where it
// takes more than 4 times as long as both roofs ask for. NULL where the bandwidth is not known (0
// or NaN).
const char *profile_bound(const profile_row *row, double bytes_per_second, double flops_per_second);

#endif
