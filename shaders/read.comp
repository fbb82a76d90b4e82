#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Reads a range once and keeps a sum, so that the reads can't be left out: read bandwidth.
// `own` 0: neighbouring invocations read neighbouring words, as cards like it; 1: each invocation
// reads words of its own in order, as drivers that compute on a CPU like it.
// grid: (workgroups), any number
#include "common.glsl"

layout(set = 0, binding = 0, std430) readonly buffer From { uvec4 from[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Sums { uint sums[]; };
layout(push_constant) uniform Push { push_read p; };

const uint AT_ONCE = 4u; // loads on their way

void main()
{
    uint n_readers = gl_NumWorkGroups.x * gl_WorkGroupSize.x, reader = gl_GlobalInvocationID.x;
    uint each = p.n / n_readers; // the host makes it a multiple of AT_ONCE
    uint at = p.own != 0u ? reader * each : reader, stride = p.own != 0u ? 1u : n_readers;
    uvec4 sum = uvec4(0u);
    for (uint i = 0u; i < each; i += AT_ONCE) {
        uvec4 x[AT_ONCE];
        [[unroll]] for (uint k = 0u; k < AT_ONCE; k++) x[k] = from[at + k * stride];
        [[unroll]] for (uint k = 0u; k < AT_ONCE; k++) sum += x[k];
        at += AT_ONCE * stride;
    }
    sums[reader] = sum.x + sum.y + sum.z + sum.w;
}
