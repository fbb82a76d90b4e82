#version 450
#extension GL_GOOGLE_include_directive : require
// ACTIVATE: fn(x), or fn(x) * up; to f32, or to q8 a block of 32 an invocation. Grid: (columns or
// blocks / workgroup, rows).
#include "common.glsl"
#include "activation.glsl"
#include "q8.glsl"

layout(set = 0, binding = 0, std430) buffer X { float x[]; };
layout(set = 0, binding = 1, std430) readonly buffer Up { float up[]; };
layout(set = 0, binding = 2, std430) buffer Out { uint o[]; };
layout(push_constant) uniform Push { push_activate p; };

float value(uint r, uint i)
{
    float y = activation(p.fn, x[(r - p.x_first) * p.x_stride + p.x_col + i]);
    return p.has_up != 0u ? y * up[r * p.up_stride + p.up_col + i] : y;
}

void block(uint r, uint b)
{
    float values[32], amax = 0.0, inverse;
    for (uint i = 0u; i < 32u; i++) {
        values[i] = value(r, 32u * b + i);
        amax = amax_of(amax, values[i]);
    }
    uint at = r * q8_row_words(p.out_stride) + p.out_col / 4u;
    o[r * q8_row_words(p.out_stride) + p.out_stride / 4u + p.out_col / 32u + b] =
        floatBitsToUint(q8_scale(amax, inverse));
    for (uint i = 0u; i < 8u; i++)
        o[at + 8u * b + i] = q8_pack(vec4(values[4u * i], values[4u * i + 1u], values[4u * i + 2u],
                                          values[4u * i + 3u]),
                                     inverse);
}

void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i >= (p.out_q8 != 0u ? p.n / 32u : p.n)) return;
    uint end = min(p.first_row + p.n_rows, step_n_rows());
    for (uint r = p.first_row + gl_WorkGroupID.y; r < end; r += gl_NumWorkGroups.y) {
        if (p.out_q8 != 0u)
            block(r, i);
        else
            o[r * p.out_stride + p.out_col + i] = floatBitsToUint(value(r, i));
    }
}
