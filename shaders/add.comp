#version 450
#extension GL_GOOGLE_include_directive : require
// ADD: out = a + b, row by row; grid: (columns / workgroup, rows)
#include "common.glsl"

layout(set = 0, binding = 0, std430) readonly buffer A { float a[]; };
layout(set = 0, binding = 1, std430) readonly buffer B { float b[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Out { float o[]; };
layout(push_constant) uniform Push { push_add p; };

void main()
{
    uint col = gl_GlobalInvocationID.x;
    if (col >= p.n) return;
    for (uint r = gl_WorkGroupID.y; r < step_n_rows(); r += gl_NumWorkGroups.y)
        o[r * p.out_stride + p.out_col + col] =
            a[r * p.a_stride + p.a_col + col] + b[r * p.b_stride + p.b_col + col];
}
