// What the values of a tensor look like: range, mean, deviation, histogram.
#ifndef PUMICE_PROOF_STATISTICS_H
#define PUMICE_PROOF_STATISTICS_H

#include "model/model.h"

enum { STATISTICS_BINS = 40 };

typedef struct tensor_statistics {
    uint64_t n, n_nonfinite, n_zero;
    double min, max, mean, sd; // of the finite values
    // Equal bins from `from` to `to`: mean - 4 sd to mean + 4 sd, no further than min and max. What
    // lies outside is counted apart.
    double from, to;
    uint64_t bins[STATISTICS_BINS], below, above;
} tensor_statistics;

// Reads the tensor `index` of the model's file twice, a few rows at a time.
pm_status statistics_of(const model *m, uint32_t index, tensor_statistics *out);

#endif
