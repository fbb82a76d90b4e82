// One LINEAR, LOGITS or EMBED op with random weights, run by the Vulkan executor and by the
// reference on the same bytes.
#ifndef TEST_VULKAN_LINEAR_CASE_H
#define TEST_VULKAN_LINEAR_CASE_H

#include "exec/exec.h"
#include "support/test.h"

typedef enum residual_kind { NO_RESIDUAL, IN_PLACE, ELSEWHERE } residual_kind;

typedef struct linear_case {
    plan_op_kind kind; // LINEAR when 0 is not wanted otherwise: set it
    quant_type type;
    plan_act act;
    uint32_t cols, n_rows, max_rows; // max_rows 0: n_rows
    uint32_t rows[3];                // of each weight, 0: absent
    bool gated, bias, norm_in, q8_out, no_layout;
    bool one_tensor; // weights are row ranges of one tensor
    residual_kind residual;
    plan_fn fn;
    float softcap, x_scale; // x_scale 0: 1
    uint32_t n_marked;      // LOGITS; 0: n_rows
    bool tiny_scales;       // halves near the smallest
    bool nan_in_x;          // one value of the first row is NaN
    const exec_gpu *gpu;
    uint64_t seed;
} linear_case;

// Runs the case and compares: everything outside the op's output must be untouched, everything
// inside near the reference. Returns the NMSE; with `result`, the Vulkan executor's output buffer
// (released with free) and its size.
double linear_case_run(const linear_case *c, void **result, uint64_t *n);

// linear_large.c
void r9_a_vocabulary_of_151936_rows(void **state);
void r9_a_tensor_of_148_mib(void **state);

#endif
