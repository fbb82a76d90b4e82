#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Joins the parts of attend.comp: out = sum of e^(best_s - best) part_s / sum of e^(...) sum_s,
// to f32, or to q8 blocks of the row. One workgroup a head of a row. Grid: (n_head, rows).
#include "common.glsl"
#include "q8.glsl"

layout(set = 0, binding = 0, std430) readonly buffer Parts { float parts[]; };
layout(set = 0, binding = 1, std430) buffer Out { uint o[]; };
layout(push_constant) uniform Push { push_attend p; };

shared float result[1024]; // head_dim at most: checked by the host
shared float part_best[ATTEND_MAX_SPLITS], part_sum[ATTEND_MAX_SPLITS], weight[ATTEND_MAX_SPLITS];

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

// Each part's e^(best_s - best) to `weight`; returns the sum of all. parts[at] is the first part's.
float weigh(uint at, uint stride, uint n)
{
    uint tid = gl_LocalInvocationID.x, w = gl_WorkGroupSize.x;
    for (uint i = tid; i < n; i += w) {
        part_best[i] = parts[at + i * stride];
        part_sum[i] = parts[at + i * stride + 1u];
    }
    barrier();
    float best = -1e30, sum = 0.0;
    for (uint i = 0u; i < n; i++) best = max(best, part_best[i]);
    for (uint i = tid; i < n; i += w) weight[i] = exp(max(part_best[i] - best, -80.0));
    barrier();
    for (uint i = 0u; i < n; i++) sum += weight[i] * part_sum[i];
    return sum;
}

// One value of all parts, four loads on their way at once.
float join(uint at, uint stride, uint n)
{
    float acc = 0.0;
    for (uint s = 0u; s < n; s += 4u) {
        float x[4];
        [[unroll]] for (uint k = 0u; k < 4u; k++) x[k] = parts[at + min(s + k, n - 1u) * stride];
        [[unroll]] for (uint k = 0u; k < 4u; k++)
            if (s + k < n) acc += weight[s + k] * x[k];
    }
    return acc;
}

void main()
{
    uint h = gl_WorkGroupID.x;
    uint end = min(p.first_row + p.n_rows, step_n_rows());
    for (uint r = p.first_row + gl_WorkGroupID.y; r < end; r += gl_NumWorkGroups.y) {
        uint n_kv = step.rows[r].w;
        uint first = p.window != 0u && n_kv > p.window ? n_kv - p.window : 0u;
        uint s0 = first / p.split, s1 = (n_kv + p.split - 1u) / p.split;
        uint stride = p.head_dim + 4u, n = s1 - s0;
        uint at = (((r - p.first_row) * p.n_head + h) * p.n_splits + s0) * stride;
        float sum = weigh(at, stride, n);
        for (uint i = gl_LocalInvocationID.x; i < p.head_dim; i += gl_WorkGroupSize.x) {
            float acc = join(at + 4u + i, stride, n) / sum;
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
