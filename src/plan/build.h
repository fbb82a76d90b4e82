// From a model to its plan: the forward pass of every family.
#ifndef PUMICE_PLAN_BUILD_H
#define PUMICE_PLAN_BUILD_H

#include "model/model.h"
#include "plan/plan.h"

typedef struct plan_options {
    uint32_t n_ctx;     // positions of a slot
    uint32_t n_slots;   // sequences
    uint32_t n_batch;   // most rows of a step, 1 to PLAN_MAX_ROWS
    uint32_t n_logits;  // most marked rows of a step; 0: n_batch
    quant_type kv_type; // F32, F16, Q8_0
    plan_act act;       // Q8: for weights in integer formats whose width is a multiple of 32
    bool no_fuse;       // one simple op each: what fused ops are proven against
} plan_options;

// The model outlives the set. PM_ERROR_USAGE: an option that this model can't have (a q8_0 cache
// with a head size that is no multiple of 32).
pm_status plan_build(const model *m, const plan_options *options, plan_set **out);

// Bytes of the caches that such a plan has, without building it; false on overflow.
bool plan_kv_bytes(const model *m, uint32_t n_ctx, uint32_t n_slots, quant_type kv_type,
                   uint64_t *bytes);

#endif
