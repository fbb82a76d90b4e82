// What every shader shares: the step block, as plan_step in plan/plan.h lays it out.
#ifndef PUMICE_COMMON_GLSL
#define PUMICE_COMMON_GLSL

#include "push.h"

layout(local_size_x_id = 0) in; // specialization constant 0: invocations of a workgroup

layout(set = 0, binding = 4, std140) uniform Step {
    uvec4 head;           // n_rows, n_logits
    uvec4 rows[512];      // token, position, slot, n_kv
    uvec4 logit_rows[64]; // eight 16-bit row numbers in each
} step;

uint step_n_rows()
{
    return step.head.x;
}

uint step_n_logits()
{
    return step.head.y;
}

// The row of marked row i.
uint step_logit_row(uint i)
{
    uint word = step.logit_rows[i >> 3][(i >> 1) & 3u];
    return (i & 1u) == 0u ? word & 0xffffu : word >> 16;
}

#endif
