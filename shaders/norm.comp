#version 450
#extension GL_GOOGLE_include_directive : require
#ifdef ONE_SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#endif
// NORM: RMSNorm or LayerNorm of a row, + residual; to f32 or q8. One workgroup a row.
#include "common.glsl"
#include "q8.glsl"
#include "reduce.glsl"

layout(set = 0, binding = 0, std430) buffer X { float x[]; };        // may be `out` too
layout(set = 0, binding = 1, std430) readonly buffer V { float v[]; }; // weight and bias
layout(set = 0, binding = 2, std430) readonly buffer R { float residual[]; };
layout(set = 0, binding = 3, std430) buffer Out { uint o[]; };
layout(push_constant) uniform Push { push_norm p; };
layout(constant_id = 1) const bool LAYER_NORM = true;
layout(constant_id = 2) const bool HAS_BIAS = true;
layout(constant_id = 3) const bool HAS_RESIDUAL = true;
layout(constant_id = 4) const bool OUT_Q8 = false;

float mean, scale;

float value(uint x_at, uint residual_at, uint i)
{
    float y = (x[x_at + i] - mean) * scale * v[p.weight + i];
    if (HAS_BIAS) y += v[p.bias + i];
    if (HAS_RESIDUAL) y += residual[residual_at + i];
    return y;
}

void norm_row(uint r)
{
    uint tid = gl_LocalInvocationID.x, w = gl_WorkGroupSize.x;
    uint x_at = r * p.x_stride + p.x_col, residual_at = r * p.residual_stride + p.residual_col;
    mean = 0.0;
    if (LAYER_NORM) {
        float sum = 0.0;
        for (uint i = tid; i < p.n; i += w) sum += x[x_at + i];
        mean = workgroup_sum(sum) / float(p.n);
    }
    float squares = 0.0;
    for (uint i = tid; i < p.n; i += w) {
        float d = x[x_at + i] - mean;
        squares += d * d;
    }
    scale = 1.0 / sqrt(workgroup_sum(squares) / float(p.n) + p.eps);

    if (!OUT_Q8) {
        // rows of `out` may be those of x: each value is written by the one that reads it
        uint o_at = r * p.out_stride + p.out_col;
        for (uint i = tid; i < p.n; i += w)
            o[o_at + i] = floatBitsToUint(value(x_at, residual_at, i));
        return;
    }
    uint o_at = r * q8_row_words(p.out_stride) + p.out_col / 4u;
    uint d_at = r * q8_row_words(p.out_stride) + p.out_stride / 4u + p.out_col / 32u;
    for (uint b = tid; b < p.n / 32u; b += w) {
        float amax = 0.0, inverse;
        for (uint i = 0u; i < 32u; i++) amax = amax_of(amax, value(x_at, residual_at, 32u * b + i));
        o[d_at + b] = floatBitsToUint(q8_scale(amax, inverse));
        for (uint i = 0u; i < 8u; i++) {
            uint at = 32u * b + 4u * i;
            o[o_at + 8u * b + i] =
                q8_pack(vec4(value(x_at, residual_at, at), value(x_at, residual_at, at + 1u),
                             value(x_at, residual_at, at + 2u), value(x_at, residual_at, at + 3u)),
                        inverse);
        }
    }
}

void main()
{
    for (uint r = gl_WorkGroupID.x; r < step_n_rows(); r += gl_NumWorkGroups.x) {
        norm_row(r);
        sync();
    }
}
