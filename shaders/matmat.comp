#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// LINEAR and LOGITS for many rows: tiles of BM weight rows by BN step rows. 32 columns of both are
// decoded into shared memory, then every invocation adds to its 4 by 4 results. Grid: (tiles of
// weight rows, tiles of step rows). Gated: of every four rows of a tile two are the gate's, then two
// up's. Variants: FORMAT_..., DOT (8-bit x by the int8 dot product). No norm-in.
#ifdef DOT
#extension GL_EXT_spirv_intrinsics : require
#endif
#include "common.glsl"
#include "linear.glsl"

layout(constant_id = 1) const uint WORKGROUP = 64; // BM / 4 * BN / 4
layout(constant_id = 2) const uint BM = 32;
layout(constant_id = 3) const uint BN = 32;

const uint A_STRIDE = BM + 4u, B_STRIDE = BN + 4u; // of shared memory's banks
#ifdef DOT
const uint PLANES = 8u; // words of 32 columns
shared uint a[PLANES * A_STRIDE], b[PLANES * B_STRIDE];
shared vec2 a_scale[2 * A_STRIDE]; // (d, m) of each unit: value = d * quant + m
shared vec2 b_scale[2 * B_STRIDE]; // scale, scale * sum of the quants
#else
const uint PLANES = 32u;
shared float a[PLANES * A_STRIDE], b[PLANES * B_STRIDE];
#endif

// Gated and written as q8: [BN][TILE]
const uint TILE = BM / 2u;
shared float tile[OUT_Q8 ? TILE * BN : 1];

#include "blocks.glsl"

// Where row j of the tile is: of `part` from `begin` on, or interleaved gate and up.
row_at tile_row(uint j, uint part, uint begin)
{
    if ((FLAGS & PUSH_GATED) == 0u) return weight_row(part, begin + j);
    return weight_row(j >> 1 & 1u, begin + (j >> 2 << 1) + (j & 1u));
}

// Columns [32 c, 32 c + 32) of the tile's weight rows
void load_weights(uint c, uint part, uint begin)
{
    const uint per_row = 2u / UNITS; // loads
    uint n_loads = (p.cols + 16u * UNITS - 1u) / (16u * UNITS);
    for (uint i = gl_LocalInvocationIndex; i < BM * per_row; i += WORKGROUP) {
        uint j = i % BM, load = i / BM;
        raw w = load_raw(tile_row(j, part, begin), min(c * per_row + load, n_loads - 1u), n_loads);
        [[unroll]] for (uint h = 0u; h < UNITS; h++) {
            uint u = load * UNITS + h; // unit 0 or 1
#ifdef DOT
            uvec4 q = unit_quants(w, h);
            [[unroll]] for (uint k = 0u; k < 4u; k++) a[(4u * u + k) * A_STRIDE + j] = q[k];
            a_scale[u * A_STRIDE + j] = unit_scale(w, h);
#else
            vec4 v[4];
#ifdef FLOATS
            unit_values(w, v);
            vec2 dm = vec2(1, 0);
#else
            vec2 dm = unit_floats(w, h, v);
#endif
            [[unroll]] for (uint k = 0u; k < 16u; k++)
                a[(16u * u + k) * A_STRIDE + j] = dm.x * v[k >> 2][k & 3u] + dm.y;
#endif
        }
    }
}

// The same columns of the tile's rows of x
void load_rows(uint c, uint first, uint n_rows)
{
    for (uint i = gl_LocalInvocationIndex; i < 2u * BN; i += WORKGROUP) {
        uint n = i % BN, u = i / BN, at = x_start(min(first + n, n_rows - 1u));
#ifdef DOT
        uvec4 q = load_x_quants(at, 2u * c + u);
        float scale = load_x_scale(at, 2u * c + u);
        [[unroll]] for (uint k = 0u; k < 4u; k++) b[(4u * u + k) * B_STRIDE + n] = q[k];
        b_scale[u * B_STRIDE + n] = scale * vec2(1, float(dot16(uvec4(0x01010101u), q)));
#else
        vec4 x[4];
        if (16u * (2u * c + u) < p.cols)
            load_x(at, 2u * c + u, x);
        else
            x[0] = x[1] = x[2] = x[3] = vec4(0);
        [[unroll]] for (uint k = 0u; k < 16u; k++)
            b[(16u * u + k) * B_STRIDE + n] = x[k >> 2][k & 3u];
#endif
    }
}

// acc[r]: weight row m + r times step rows n to n + 3
void multiply(uint m, uint n, inout vec4 acc[4])
{
#ifdef DOT
    [[unroll]] for (uint u = 0u; u < 2u; u++) {
        ivec4 s[4];
        [[unroll]] for (uint r = 0u; r < 4u; r++) s[r] = ivec4(0);
        [[unroll]] for (uint k = 4u * u; k < 4u * u + 4u; k++) {
            uvec4 x = uvec4(b[k * B_STRIDE + n], b[k * B_STRIDE + n + 1u], b[k * B_STRIDE + n + 2u],
                            b[k * B_STRIDE + n + 3u]);
            [[unroll]] for (uint r = 0u; r < 4u; r++) {
                uint w = a[k * A_STRIDE + m + r];
                s[r] += ivec4(dot_4x8(w, x.x, 0), dot_4x8(w, x.y, 0), dot_4x8(w, x.z, 0),
                              dot_4x8(w, x.w, 0));
            }
        }
        vec4 scale, sum;
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            vec2 x = b_scale[u * B_STRIDE + n + i];
            scale[i] = x.x;
            sum[i] = x.y;
        }
        [[unroll]] for (uint r = 0u; r < 4u; r++) {
            vec2 dm = a_scale[u * A_STRIDE + m + r];
            acc[r] += dm.x * scale * vec4(s[r]) + dm.y * sum;
        }
    }
#else
    for (uint k = 0u; k < PLANES; k++) {
        vec4 x = vec4(b[k * B_STRIDE + n], b[k * B_STRIDE + n + 1u], b[k * B_STRIDE + n + 2u],
                      b[k * B_STRIDE + n + 3u]);
        [[unroll]] for (uint r = 0u; r < 4u; r++) acc[r] += a[k * A_STRIDE + m + r] * x;
    }
#endif
}

void finish(vec4 acc[4], uint m, uint n, uint part, uint begin, uint first, uint n_rows)
{
    bool gated = (FLAGS & PUSH_GATED) != 0u;
    uint row = gated ? m / 2u : m, n_out = gated ? 2u : 4u; // of the tile
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        for (uint i = 0u; i < 4u; i++) {
            if (r >= n_out || begin + row + r >= p.rows[part] || first + n + i >= n_rows) continue;
            float y = finish_value(part, begin + row + r, first + n + i, acc[r][i],
                                   acc[(r + 2u) & 3u][i]);
            if (OUT_Q8)
                tile[(n + i) * TILE + row + r] = y;
            else
                o[(first + n + i) * p.out_stride + p.out_col[part] + begin + row + r] = y;
        }
    }
}

void main()
{
    uint first = gl_WorkGroupID.y * BN, n_rows = n_out_rows();
    if (first >= n_rows) return;
    uint m = gl_LocalInvocationIndex % (BM / 4u) * 4u, n = gl_LocalInvocationIndex / (BM / 4u) * 4u;
    uint tile_rows = (FLAGS & PUSH_GATED) != 0u ? BM / 2u : BM;
    for (uint t = gl_WorkGroupID.x; t < n_tiles(tile_rows); t += gl_NumWorkGroups.x) {
        uint begin, part = part_of_tile(t, tile_rows, begin);
        vec4 acc[4] = vec4[](vec4(0), vec4(0), vec4(0), vec4(0));
        for (uint c = 0u; 32u * c < p.cols; c++) {
            load_weights(c, part, begin);
            load_rows(c, first, n_rows);
            barrier();
            multiply(m, n, acc);
            barrier();
        }
        finish(acc, m, n, part, begin, first, n_rows);
        if (OUT_Q8) write_blocks(begin, tile_rows, first, n_rows, BN);
    }
}
