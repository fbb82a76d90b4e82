// Sums and maxima over a workgroup, through shared memory: no subgroup operation, any power of two
// of invocations. Each call must be reached by the whole workgroup.
#ifndef PUMICE_REDUCE_GLSL
#define PUMICE_REDUCE_GLSL

#include "sync.glsl"

shared float reduce_buffer[1024];

float workgroup_sum(float x)
{
    uint tid = gl_LocalInvocationID.x;
    reduce_buffer[tid] = x;
    sync();
    for (uint n = gl_WorkGroupSize.x / 2u; n > 0u; n /= 2u) {
        if (tid < n) reduce_buffer[tid] += reduce_buffer[tid + n];
        sync();
    }
    float sum = reduce_buffer[0];
    sync();
    return sum;
}

float workgroup_max(float x)
{
    uint tid = gl_LocalInvocationID.x;
    reduce_buffer[tid] = x;
    sync();
    for (uint n = gl_WorkGroupSize.x / 2u; n > 0u; n /= 2u) {
        if (tid < n) reduce_buffer[tid] = max(reduce_buffer[tid], reduce_buffer[tid + n]);
        sync();
    }
    float m = reduce_buffer[0];
    sync();
    return m;
}

#endif
