// How far two sets of logits are apart, over many rows of them.
#ifndef PUMICE_PROOF_DIVERGENCE_H
#define PUMICE_PROOF_DIVERGENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef struct divergence {
    double margin; // given: what two logits may differ by and still be a tie
    double *kl;    // [n], KL(expected || found) of each row; infinite where a value is not finite
    uint32_t n, cap, n_same, n_judged;
    uint64_t n_values;
    double max_abs, sum_abs;
    bool nonfinite;
} divergence;

// Adds a row of n logits. PM_ERROR_RUN: out of memory.
pm_status divergence_add(divergence *d, const float *expected, const float *found, uint32_t n);

// Infinite where a value was not finite; d->kl is sorted by this.
typedef struct divergence_summary {
    double max_abs, mean_abs; // of logits
    double kl_mean, kl_p99, kl_max;
    double kl_error;    // one standard error of the mean; infinite with a single row
    double top1;        // rows with the same most likely token
    double top1_judged; // the same, changes between logits within `margin` not counted
} divergence_summary;
divergence_summary divergence_of(divergence *d);
void divergence_free(divergence *d);

#endif
