// One token's way through a model: the plan's operations one by one, with what each wrote.
#ifndef PUMICE_PROOF_TRACE_H
#define PUMICE_PROOF_TRACE_H

#include "engine/weights.h"
#include "plan/build.h"

enum { TRACE_FIRST = 6 };

// What an op wrote: n values of each of `rows` rows; the values are the last row's.
typedef struct trace_view {
    const char *name; // of the buffer, as the plan has it
    uint32_t rows, n;
    float first[TRACE_FIRST];
    uint32_t n_first;
    double length; // of the last row: square root of the sum of squares
} trace_view;

typedef struct trace_request {
    plan_options plan; // n_ctx holds all ids
    const int32_t *ids;
    uint32_t n_ids;
    int layer; // whose ops are shown one by one
    // Called in the plan's order for the last chunk of the ids: all ops outside layers and of
    // `layer`, and of other layers the last one.
    pm_status (*each)(void *arg, const plan_set *set, uint32_t index, const plan_op *op,
                      const trace_view *views, uint32_t n_views);
    void *arg;
    float *logits; // [n_vocab] of the last id, filled
} trace_request;

pm_status trace_run(const weights *w, const trace_request *r);

#endif
