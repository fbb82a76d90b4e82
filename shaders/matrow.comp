#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
// LINEAR and LOGITS where a processor plays the device: every word that a lane loads costs the same,
// whoever else loads it. So a lane computes R weight rows of its own for N step rows; x is loaded
// once for all lanes of the subgroup, a word each, and handed around. Grid: (tiles of weight rows,
// chunks of N step rows). Gated: the first half of a lane's rows are the gate's, the second half
// up's. Any act and any reduction is a float's here. A subgroup has at most 16 lanes.
#include "common.glsl"
#include "linear.glsl"

layout(constant_id = 1) const uint WORKGROUP = 32;
layout(constant_id = 2) const uint LANES = 8;
layout(constant_id = 3) const uint R = 2;
layout(constant_id = 4) const uint N = 1;

// Gated and written as q8: what the workgroup has computed, [N][TILE]
const uint TILE = R * WORKGROUP / 2u > 32u ? R * WORKGROUP / 2u : 32u;
shared float tile[OUT_Q8 ? TILE * N : 1];

#include "blocks.glsl"

float acc[R * N];
float squares[N]; // of the lane's columns

void add_products(row_at at[R], uint x_at[N])
{
    const uint words = 16u / LANES; // of a unit, a lane
    uint n_loads = (p.cols + 16u * UNITS - 1u) / (16u * UNITS), lane = gl_SubgroupInvocationID;
    [[unroll]] for (uint k = 0u; k < R * N; k++) acc[k] = 0.0;
    [[unroll]] for (uint n = 0u; n < N; n++) squares[n] = 0.0;
    for (uint b = 0u; b < n_loads; b++) {
        raw w[R];
        [[unroll]] for (uint r = 0u; r < R; r++) w[r] = load_raw(at[r], b, n_loads);
        [[unroll]] for (uint h = 0u; h < UNITS; h++) {
            uint u = b * UNITS + h, col = 16u * u + lane;
            float x[N * (16u / LANES)];
            [[unroll]] for (uint n = 0u; n < N; n++) {
                float scale = X_Q8 ? load_x_scale(x_at[n], u) : 1.0;
                [[unroll]] for (uint j = 0u; j < words; j++)
                    x[n * words + j] = load_x_value(x_at[n], col + j * LANES) * scale;
            }
            if (HAS_NORM) {
                [[unroll]] for (uint j = 0u; j < words; j++) {
                    float norm = vectors[p.norm + min(col + j * LANES, p.cols - 1u)];
                    [[unroll]] for (uint n = 0u; n < N; n++) {
                        squares[n] += x[n * words + j] * x[n * words + j];
                        x[n * words + j] *= norm;
                    }
                }
            }
            vec4 v[R * 4];
            vec2 dm[R];
            [[unroll]] for (uint r = 0u; r < R; r++) {
                vec4 values[4];
#ifdef FLOATS
                unit_values(w[r], values);
#else
                dm[r] = unit_floats(w[r], h, values);
#endif
                [[unroll]] for (uint k = 0u; k < 4u; k++) v[4u * r + k] = values[k];
            }
            [[unroll]] for (uint n = 0u; n < N; n++) {
                float s[R], sum = 0.0;
                [[unroll]] for (uint r = 0u; r < R; r++) s[r] = 0.0;
                [[unroll]] for (uint k = 0u; k < 16u; k++) {
                    float value = subgroupShuffle(x[n * words + k / LANES], k % LANES);
#ifndef FLOATS
                    sum += value;
#endif
                    [[unroll]] for (uint r = 0u; r < R; r++)
                        s[r] += v[4u * r + (k >> 2)][k & 3u] * value;
                }
                [[unroll]] for (uint r = 0u; r < R; r++) {
#ifdef FLOATS
                    acc[r * N + n] += s[r];
#else
                    acc[r * N + n] += dm[r].x * s[r] + dm[r].y * sum;
#endif
                }
            }
        }
    }
}

float sum_at(uint k)
{
    float s = 0.0; // no indexing of registers by a variable
    [[unroll]] for (uint j = 0u; j < R * N; j++) s = mix(s, acc[j], j == k);
    return s;
}

// The lane's outputs: rows row + r * LANES of weight `part` for r < n_out, step rows from `first`.
void finish(uint part, uint row, uint n_out, uint tile_row, uint first, uint n_rows)
{
    if (HAS_NORM) {
        [[unroll]] for (uint n = 0u; n < N; n++) {
            float scale = 1.0 / sqrt(subgroupAdd(squares[n]) / float(p.cols) + p.eps);
            [[unroll]] for (uint r = 0u; r < R; r++) acc[r * N + n] *= scale;
        }
    }
    for (uint k = 0u; k < n_out * N; k++) {
        uint r = k / N, n = k % N, out_row = row + r * LANES;
        if (out_row >= p.rows[part] || first + n >= n_rows) continue;
        float y = finish_value(part, out_row, first + n, sum_at(k), sum_at(k + n_out * N));
        if (OUT_Q8)
            tile[n * TILE + tile_row + r * LANES] = y;
        else
            o[(first + n) * p.out_stride + p.out_col[part] + out_row] = y;
    }
}

void main()
{
    uint first = gl_WorkGroupID.y * N, n_rows = n_out_rows();
    if (first >= n_rows) return;
    uint x_at[N];
    [[unroll]] for (uint n = 0u; n < N; n++) x_at[n] = x_start(min(first + n, n_rows - 1u));

    bool gated = (FLAGS & PUSH_GATED) != 0u;
    uint n_out = gated ? R / 2u : R, pass_rows = n_out * WORKGROUP;
    uint tile_rows = OUT_Q8 ? max(pass_rows, 32u) : pass_rows;
    for (uint t = gl_WorkGroupID.x; t < n_tiles(tile_rows); t += gl_NumWorkGroups.x) {
        uint begin, part = part_of_tile(t, tile_rows, begin);
        for (uint pass = 0u; pass < tile_rows; pass += pass_rows) {
            uint in_tile = pass + gl_SubgroupID * n_out * LANES + gl_SubgroupInvocationID;
            row_at at[R];
            [[unroll]] for (uint r = 0u; r < R; r++)
                at[r] = weight_row(r < n_out ? part : 1u,
                                   begin + in_tile + (r < n_out ? r : r - n_out) * LANES);
            add_products(at, x_at);
            finish(part, begin + in_tile, n_out, in_tile, first, n_rows);
        }
        if (OUT_Q8) write_blocks(begin, tile_rows, first, n_rows, N);
    }
}
