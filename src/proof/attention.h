// Attention probabilities of a text: what each token looks at, from the queries and keys that a
// device computes.
#ifndef PUMICE_PROOF_ATTENTION_H
#define PUMICE_PROOF_ATTENTION_H

#include "engine/weights.h"
#include "plan/build.h"

enum { ATTENTION_ALL = -1 };

typedef struct attention_request {
    plan_options plan;  // n_batch and n_ctx are those of the text
    const int32_t *ids; // evaluated in one step
    uint32_t n_ids;     // 1 to PLAN_MAX_ROWS
    int layer, head;    // ATTENTION_ALL: all of them
    // Called layer by layer, head by head. p: [n_ids][n_ids], row i holds what token i looks at;
    // each row sums to 1, what it must not see is 0. Valid during the call.
    pm_status (*each)(void *arg, uint32_t layer, uint32_t head, const float *p);
    void *arg;
} attention_request;

// PM_ERROR_USAGE: no such layer or head, too many tokens.
pm_status attention_run(const weights *w, const attention_request *r);

#endif
