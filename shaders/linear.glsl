// What the products share (matvec.comp, matmat.comp): bindings, loads of x, what follows a product.
#ifndef PUMICE_LINEAR_GLSL
#define PUMICE_LINEAR_GLSL

#include "activation.glsl"
#include "q8.glsl"
#include "quant.glsl"

// Rows of x and the norm's weight begin at 16 bytes and have no ragged end.
layout(constant_id = 5) const bool X_VEC4 = true;
layout(constant_id = 6) const bool X_Q8 = false;  // x is q8, decoded to floats (always with DOT)
layout(constant_id = 7) const bool OUT_Q8 = false;
// What a product has, known when the pipeline is made: drivers on a processor run both sides of
// every branch, and the loads in one that isn't taken cost as much as those in one that is.
layout(constant_id = 8) const uint FLAGS = 0u; // PUSH_...
layout(constant_id = 9) const bool HAS_NORM = true;
layout(constant_id = 10) const bool HAS_BIAS = true; // of some weight
layout(constant_id = 11) const bool HAS_SOFTCAP = true;

layout(set = 0, binding = 1, std430) readonly buffer X4 { vec4 x4[]; };
layout(set = 0, binding = 1, std430) readonly buffer X1 { float x1[]; };
layout(set = 0, binding = 1, std430) readonly buffer XQuants { uvec4 xq[]; };
layout(set = 0, binding = 2, std430) buffer Out { float o[]; };
layout(set = 0, binding = 2, std430) buffer OutWords { uint o_words[]; };
layout(set = 0, binding = 3, std430) readonly buffer Vectors { float vectors[]; }; // or residual
layout(set = 0, binding = 3, std430) readonly buffer Vectors4 { vec4 vectors4[]; };
layout(push_constant) uniform Push { push_linear p; };

#ifdef DOT
#if defined(FORMAT_Q8_0) || defined(FORMAT_IQ4_NL) || defined(FORMAT_IQ4_XS)
#define NO_MIN
#endif
// OpSDotKHR with operand PackedVectorFormat4x8Bit (0)
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018],
                  id = 4450) int dot_4x8(uint a, uint b, spirv_literal int format);

int dot16(uvec4 a, uvec4 b)
{
    return dot_4x8(a.x, b.x, 0) + dot_4x8(a.y, b.y, 0) + dot_4x8(a.z, b.z, 0) +
           dot_4x8(a.w, b.w, 0);
}
#endif

// Rows of out that this step has (of those that the dispatch is for).
uint n_out_rows()
{
    uint n = (FLAGS & PUSH_MARKED) != 0u ? step_n_logits() : step_n_rows();
    return n > p.first ? min(n - p.first, p.n) : 0u;
}

// Where x of row i of out begins, in words.
uint x_start(uint i)
{
    uint row = (FLAGS & PUSH_MARKED) != 0u ? step_logit_row(p.first + i) : p.first + i;
    return row * p.x_stride + p.x_col;
}

uvec4 load_x_quants(uint at, uint u)
{
    return xq[(at >> 2) + u];
}

float load_x_scale(uint at, uint u)
{
    return x1[at + p.x_scales + (u >> 1)];
}

// 16 values of x from column 16 u on; beyond the end: 0
void load_x(uint at, uint u, out vec4 x[4])
{
    if (X_Q8) {
        uvec4 q = load_x_quants(at, u);
        float scale = load_x_scale(at, u);
        [[unroll]] for (uint k = 0u; k < 4u; k++) x[k] = q8_unpack(q[k]) * scale;
    } else if (X_VEC4) {
        [[unroll]] for (uint k = 0u; k < 4u; k++) x[k] = x4[(at >> 2) + 4u * u + k];
    } else {
        [[unroll]] for (uint k = 0u; k < 16u; k++) {
            uint col = 16u * u + k;
            x[k >> 2][k & 3u] = mix(0.0, x1[at + min(col, p.cols - 1u)], col < p.cols);
        }
    }
}

// The value of one column, of q8 without its scale; beyond the end: 0
float load_x_value(uint at, uint col)
{
    uint c = min(col, p.cols - 1u);
    if (!X_Q8) return mix(0.0, x1[at + c], col < p.cols);
    uint word = floatBitsToUint(x1[at + (c >> 2)]);
    return float(int(word << (24u - 8u * (c & 3u))) >> 24);
}

void load_norm(uint u, out vec4 norm[4])
{
    if (X_VEC4) {
        [[unroll]] for (uint k = 0u; k < 4u; k++) norm[k] = vectors4[(p.norm >> 2) + 4u * u + k];
        return;
    }
    [[unroll]] for (uint k = 0u; k < 16u; k++) {
        uint col = 16u * u + k;
        norm[k >> 2][k & 3u] = vectors[p.norm + min(col, p.cols - 1u)]; // beyond: x is 0
    }
}

// Row `row` of weight `part`; beyond the end its last row, whose product nobody stores.
row_at weight_row(uint part, uint row)
{
    row = min(row, p.rows[part] - 1u);
    return row_at(p.quants[part] + row * p.quant_stride, p.scales[part] + row * p.scale_stride);
}

// Tiles of `rows` rows that the weights make; gated: of the first alone.
uint tiles_of(uint part, uint rows)
{
    return (p.rows[part] + rows - 1u) / rows;
}

uint n_tiles(uint rows)
{
    if ((FLAGS & PUSH_GATED) != 0u) return tiles_of(0u, rows);
    return tiles_of(0u, rows) + tiles_of(1u, rows) + tiles_of(2u, rows);
}

// The weight that tile t lies in, and the tile's first row there.
uint part_of_tile(uint t, uint rows, out uint begin)
{
    uint part = 0u, n0 = tiles_of(0u, rows), n1 = tiles_of(1u, rows);
    if ((FLAGS & PUSH_GATED) == 0u) part = uint(t >= n0) + uint(t >= n0 + n1);
    begin = (t - (part == 0u ? 0u : part == 1u ? n0 : n0 + n1)) * rows;
    return part;
}

// y, a product of row `row` of weight `part`, to the value of row i of out; up: gated.
float finish_value(uint part, uint row, uint i, float y, float up)
{
    if (HAS_BIAS && p.bias[part] != PUSH_NONE) y += vectors[p.bias[part] + row];
    y = activation(FLAGS & PUSH_FN, y);
    if ((FLAGS & PUSH_GATED) != 0u) {
        if (HAS_BIAS && p.bias[1] != PUSH_NONE) up += vectors[p.bias[1] + row];
        y *= up;
    }
    if (HAS_SOFTCAP) y = p.softcap * tanh_by_exp(y / p.softcap);
    uint at = i * p.residual_stride + p.residual_col + row;
    if ((FLAGS & PUSH_RESIDUAL) != 0u) y += vectors[at];
    if ((FLAGS & PUSH_IN_PLACE) != 0u) y += o[at];
    return y;
}

#endif
