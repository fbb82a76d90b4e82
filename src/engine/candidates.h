// Inside the sampler: lists of candidates, ordered by logit, equal ones by id.
#ifndef PUMICE_ENGINE_CANDIDATES_H
#define PUMICE_ENGINE_CANDIDATES_H

#include "engine/sampler.h"

// The largest logit; fails as logits_check.
pm_status candidates_scan(const float *logits, size_t n, float *max);
bool candidate_before(const sampler_candidate *a, const sampler_candidate *b);
void candidates_sort(sampler_candidate *c, size_t n);
// The k largest of n logits without NaN (1 <= k <= n), in order.
void candidates_top(const float *logits, size_t n, size_t k, sampler_candidate *out);

#endif
