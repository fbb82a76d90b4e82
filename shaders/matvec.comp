#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// LINEAR and LOGITS for few rows: y = W x, each weight read once for N rows of x.
//
// A lane team (a subgroup, or LANES invocations that reduce through shared memory) computes R weight
// rows for N step rows: its lanes share the columns, a load of 16 or 32 at a time. Grid: (tiles of
// weight rows, chunks of N step rows). Gated: the first half of the R rows are the gate's, the
// second half up's. Variants: FORMAT_..., SUBGROUP, DOT (8-bit x by the int8 dot product).
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#ifdef DOT
#extension GL_EXT_spirv_intrinsics : require
#endif
#include "common.glsl"
#include "linear.glsl"

layout(constant_id = 1) const uint WORKGROUP = 64;
layout(constant_id = 2) const uint LANES = 8; // of a team without SUBGROUP
layout(constant_id = 3) const uint R = 4;
layout(constant_id = 4) const uint N = 1;

#ifdef SUBGROUP
#define LANE  gl_SubgroupInvocationID
#define TEAM  gl_SubgroupID
// Where a driver can't be asked for a size, gl_SubgroupSize may be more than the lanes there are.
#define N_LANES (WORKGROUP / gl_NumSubgroups)
#define N_TEAMS gl_NumSubgroups
#else
#define LANE  (gl_LocalInvocationIndex % LANES)
#define TEAM  (gl_LocalInvocationIndex / LANES)
#define N_LANES LANES
#define N_TEAMS (WORKGROUP / LANES)
const uint ROUND = 8; // sums that are reduced between two barriers
shared float partial[ROUND * WORKGROUP];
shared float sums[WORKGROUP / LANES * (R + 1) * N];
#endif

// Gated and written as q8: what the workgroup has computed, [N][TILE]. Lanes are 4 or more.
const uint TILE = R * WORKGROUP / 8u > 32u ? R * WORKGROUP / 8u : 32u;
shared float tile[OUT_Q8 ? TILE * N : 1];

#include "blocks.glsl"

float acc[(R + 1) * N]; // partial sums [R][N] of a lane, then of x^2: [N]

void add_products(row_at at[R], uint x_at[N])
{
    uint n_loads = (p.cols + 16u * UNITS - 1u) / (16u * UNITS);
    [[unroll]] for (uint k = 0u; k < (R + 1u) * N; k++) acc[k] = 0.0;
    for (uint b = LANE; b < n_loads; b += N_LANES) {
        raw w[R];
        [[unroll]] for (uint r = 0u; r < R; r++) w[r] = load_raw(at[r], b, n_loads);
        [[unroll]] for (uint h = 0u; h < UNITS; h++) {
            uint u = b * UNITS + h;
#ifdef DOT
            uvec4 q[R];
            [[unroll]] for (uint r = 0u; r < R; r++) q[r] = unit_quants(w[r], h);
            [[unroll]] for (uint n = 0u; n < N; n++) {
                uvec4 x = load_x_quants(x_at[n], u);
                float scale = load_x_scale(x_at[n], u);
#ifdef NO_MIN
                float sum = 0.0;
#else
                float sum = float(dot16(uvec4(0x01010101u), x));
#endif
                [[unroll]] for (uint r = 0u; r < R; r++) {
                    vec2 dm = unit_scale(w[r], h);
                    acc[r * N + n] += scale * (dm.x * float(dot16(q[r], x)) + dm.y * sum);
                }
            }
#else
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
            vec4 norm[4];
            if (HAS_NORM) load_norm(u, norm);
            [[unroll]] for (uint n = 0u; n < N; n++) {
                vec4 x[4];
                load_x(x_at[n], u, x);
                if (HAS_NORM) {
                    acc[R * N + n] +=
                        dot(x[0], x[0]) + dot(x[1], x[1]) + dot(x[2], x[2]) + dot(x[3], x[3]);
                    [[unroll]] for (uint k = 0u; k < 4u; k++) x[k] *= norm[k];
                }
#ifndef FLOATS
                vec4 four = (x[0] + x[1]) + (x[2] + x[3]);
                float sum = (four.x + four.y) + (four.z + four.w);
#endif
                [[unroll]] for (uint r = 0u; r < R; r++) {
                    vec4 y = v[4u * r] * x[0] + v[4u * r + 1u] * x[1] + v[4u * r + 2u] * x[2] +
                             v[4u * r + 3u] * x[3];
                    float s = (y.x + y.y) + (y.z + y.w);
#ifdef FLOATS
                    acc[r * N + n] += s;
#else
                    acc[r * N + n] += dm[r].x * s + dm[r].y * sum;
#endif
                }
            }
#endif
        }
    }
}

// Sums acc over the lanes of each team: every lane has the sums in acc (SUBGROUP), or they are in
// `sums`.
void reduce()
{
#ifdef SUBGROUP
    [[unroll]] for (uint k = 0u; k < R * N; k++) acc[k] = subgroupAdd(acc[k]);
    if (HAS_NORM) {
        [[unroll]] for (uint n = 0u; n < N; n++) acc[R * N + n] = subgroupAdd(acc[R * N + n]);
    }
#else
    const uint n_sums = (R + 1u) * N;
    [[unroll]] for (uint first = 0u; first < n_sums; first += ROUND) {
        [[unroll]] for (uint j = 0u; j < ROUND && first + j < n_sums; j++)
            partial[j * WORKGROUP + gl_LocalInvocationIndex] = acc[first + j];
        barrier();
        uint n = min(ROUND, n_sums - first);
        for (uint i = gl_LocalInvocationIndex; i < n * N_TEAMS; i += WORKGROUP) {
            uint team = i / n, from = i % n * WORKGROUP + team * LANES;
            float s = 0.0;
            for (uint l = 0u; l < LANES; l++) s += partial[from + l];
            sums[team * n_sums + first + i % n] = s;
        }
        barrier();
    }
#endif
}

float sum_at(uint k)
{
#ifdef SUBGROUP
    float s = 0.0; // no indexing of registers by a variable
    [[unroll]] for (uint j = 0u; j < (R + 1u) * N; j++) s = mix(s, acc[j], j == k);
    return s;
#else
    return sums[TEAM * (R + 1u) * N + k];
#endif
}

// The team's outputs: row `row` + r of weight `part` for r < n_out, and the N step rows from `first`.
void finish(uint part, uint row, uint n_out, uint tile_row, uint first, uint n_rows)
{
    for (uint k = LANE; k < n_out * N; k += N_LANES) {
        uint r = k / N, n = k % N;
        if (row + r >= p.rows[part] || first + n >= n_rows) continue;
        float scale = 1.0;
        if (HAS_NORM)
            scale = 1.0 / sqrt(sum_at(R * N + n) / float(p.cols) + p.eps);
        float up = 0.0;
        if ((FLAGS & PUSH_GATED) != 0u) up = sum_at(k + n_out * N) * scale;
        float y = finish_value(part, row + r, first + n, sum_at(k) * scale, up);
        if (OUT_Q8)
            tile[n * TILE + tile_row + r] = y;
        else
            o[(first + n) * p.out_stride + p.out_col[part] + row + r] = y;
    }
}

void main()
{
    uint first = gl_WorkGroupID.y * N, n_rows = n_out_rows();
    if (first >= n_rows) return;
    uint x_at[N];
    [[unroll]] for (uint n = 0u; n < N; n++) x_at[n] = x_start(min(first + n, n_rows - 1u));

    bool gated = (FLAGS & PUSH_GATED) != 0u;
    uint n_out = gated ? R / 2u : R;     // rows of a team
    uint pass_rows = n_out * N_TEAMS;    // of a workgroup
    uint tile_rows = OUT_Q8 ? max(pass_rows, 32u) : pass_rows;
    for (uint t = gl_WorkGroupID.x; t < n_tiles(tile_rows); t += gl_NumWorkGroups.x) {
        uint begin, part = part_of_tile(t, tile_rows, begin);
        for (uint pass = 0u; pass < tile_rows; pass += pass_rows) {
            uint row = begin + pass + TEAM * n_out;
            row_at at[R];
            [[unroll]] for (uint r = 0u; r < R; r++)
                at[r] = weight_row(r < n_out ? part : 1u, r < n_out ? row + r : row + r - n_out);
            add_products(at, x_at);
            reduce();
            finish(part, row, n_out, pass + TEAM * n_out, first, n_rows);
        }
        if (OUT_Q8) write_blocks(begin, tile_rows, first, n_rows, N);
    }
}
