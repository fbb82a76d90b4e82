// Does a device compute what the reference computes? Isolated: every op gets the reference's
// inputs, so the first wrong op is named. Lockstep: both run on their own, so that drift, logits
// and choices are seen.
#ifndef PUMICE_PROOF_CHECK_H
#define PUMICE_PROOF_CHECK_H

#include "engine/weights.h"
#include "plan/build.h"
#include "proof/divergence.h"

// A fault to plant: the output of the N-th op of a kind in a layer (PLAN_NONE: outside layers) is
// multiplied by 1.01, PICK's id is raised by 1. kind PLAN_N_OP_KINDS: none.
typedef struct check_inject {
    plan_op_kind kind;
    int layer;
    uint32_t index;
} check_inject;

typedef struct check_options {
    plan_options plan;  // of the tested session; n_slots 1
    const int32_t *ids; // tokens that both sides get
    uint32_t n_ids;     // at least 4, at most plan.n_ctx
    bool isolated, lockstep;
    check_inject inject;
} check_options;

// The value of an op's result that is furthest from the reference's.
typedef struct check_value {
    const char *name; // of its buffer
    int buffer;
    uint64_t row;
    uint32_t col;
    double expected, found, apart;
} check_value;

// One op of one phase.
typedef struct check_op {
    const char *phase;      // "prefill", "decode", "batch of 2"
    uint32_t n_rows, first; // rows of its step, position of the first
    uint32_t index;         // in that phase's plan
    const char *executor;   // that ran it on the tested side: of a split model's layers the cpu too
    plan_op_kind kind;
    const char *label;
    int layer;
    char kernels[160]; // that the tested device runs; "": it has none to tell apart
    uint64_t compared, nonfinite;
    double nmse, max_abs, bound; // nmse: of 8-bit results without single rounding steps
    check_value worst;
    uint64_t steps, steps_bound; // 8-bit values that are one rounding step apart
    bool pass;
} check_op;

typedef struct check_layer { // lockstep: the residual stream behind a layer, NMSE to the reference
    int layer;
    double nmse;
} check_layer;

typedef struct check_skip { // a part of the check that these options leave no room for
    const char *what, *why;
} check_skip;
enum { CHECK_MAX_SKIPS = 4 };

typedef struct check_result {
    bool pass; // false where nothing was compared, too
    uint64_t compared;
    check_op *ops;
    uint32_t n_ops;
    int first_bad; // index into ops; -1: none
    double op_bound_f32, op_bound_q8;
    check_layer *layers;
    uint32_t n_layers;
    uint32_t n_logits; // compared rows of logits; 0: no lockstep
    divergence_summary logits;
    double kl_bound, top1_bound, margin;
    bool logits_pass;
    // Nothing is wrong but the mean divergence, which 8 bits make large and noisy, and it is past
    // its bound by less than two standard errors: more tokens tell.
    bool undecided;
    check_skip skipped[CHECK_MAX_SKIPS];
    uint32_t n_skipped;
} check_result;

// Runs the check on loaded weights against `reference`: weights of the same model in one part, of
// any executor that is trusted. PM_OK: it ran (the result says whether it passed).
// PM_ERROR_USAGE: there is no such op to plant a fault in. The result is released with
// check_result_free.
pm_status check_run(const weights *tested, const weights *reference, const check_options *options,
                    check_result *result);
void check_result_free(check_result *result);

// The only op of a plan on two sides that are open, each in one part, on the inputs that the
// reference's side holds. `injected`: with the fault that check_inject plants.
struct side;
pm_status check_single(const struct side *tested, const struct side *reference, const char *phase,
                       const plan_step *step, bool injected, check_op *out);

// "OP:LAYER[:N]", names as plan_op_name has them. PM_ERROR_USAGE.
pm_status check_parse_inject(const char *text, check_inject *out);

#endif
