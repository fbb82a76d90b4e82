#version 450
#extension GL_GOOGLE_include_directive : require
// Joins the parts of attend.comp: out = sum of e^(best_s - best) part_s / sum of e^(...) sum_s,
// to f32, or to q8 blocks of the row. One workgroup a head of a row. Grid: (n_head, rows).
#include "common.glsl"
#include "q8.glsl"

layout(set = 0, binding = 0, std430) readonly buffer Parts { float parts[]; };
layout(set = 0, binding = 1, std430) buffer Out { uint o[]; };
layout(push_constant) uniform Push { push_attend p; };

shared float result[1024]; // head_dim at most: checked by the host

// This head's blocks of the row.
void store_q8(uint h, uint r)
{
    uint at = r * q8_row_words(p.out_stride), block0 = (p.out_col + h * p.head_dim) / 32u;
    for (uint b = gl_LocalInvocationID.x; b < p.head_dim / 32u; b += gl_WorkGroupSize.x) {
        float amax = 0.0, inverse;
        for (uint i = 0u; i < 32u; i++) amax = amax_of(amax, result[32u * b + i]);
        o[at + p.out_stride / 4u + block0 + b] = floatBitsToUint(q8_scale(amax, inverse));
        for (uint i = 0u; i < 8u; i++) {
            uint j = 32u * b + 4u * i;
            o[at + 8u * (block0 + b) + i] =
                q8_pack(vec4(result[j], result[j + 1u], result[j + 2u], result[j + 3u]), inverse);
        }
    }
}

void main()
{
    uint h = gl_WorkGroupID.x;
    uint end = min(p.first_row + p.n_rows, step_n_rows());
    for (uint r = p.first_row + gl_WorkGroupID.y; r < end; r += gl_NumWorkGroups.y) {
        uint n_kv = step.rows[r].w;
        uint first = p.window != 0u && n_kv > p.window ? n_kv - p.window : 0u;
        uint s0 = first / p.split, s1 = (n_kv + p.split - 1u) / p.split;
        uint stride = p.head_dim + 4u, base = ((r - p.first_row) * p.n_head + h) * p.n_splits * stride;
        float best = -1e30, sum = 0.0;
        for (uint s = s0; s < s1; s++) best = max(best, parts[base + s * stride]);
        for (uint s = s0; s < s1; s++)
            sum += exp(max(parts[base + s * stride] - best, -80.0)) * parts[base + s * stride + 1u];
        for (uint i = gl_LocalInvocationID.x; i < p.head_dim; i += gl_WorkGroupSize.x) {
            float acc = 0.0;
            for (uint s = s0; s < s1; s++)
                acc += exp(max(parts[base + s * stride] - best, -80.0)) *
                       parts[base + s * stride + 4u + i];
            acc /= sum;
            if (p.out_q8 != 0u)
                result[i] = acc;
            else
                o[(r - p.out_first) * p.out_stride + p.out_col + h * p.head_dim + i] =
                    floatBitsToUint(acc);
        }
        barrier();
        if (p.out_q8 != 0u) store_q8(h, r);
        barrier();
    }
}
