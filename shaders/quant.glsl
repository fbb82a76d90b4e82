// How weights lie in device memory, and their decoding. exec/vulkan/weights.c writes what this
// reads. A variant is compiled with FORMAT_... defined.
//
// Two planes per matrix, rows padded to 16 bytes in the first: quants at the format's own width, and
// scales as the format packs them (two halves a word). Values come in units of 16 along a row,
// UNITS of them from one load. Words of a row, n_b blocks of 32 values, n_s of 256:
//   F32            16 per unit
//   F16, BF16      8 per unit
//   Q8_0           4 per unit                                     scales: half per block
//   4 bits         4 per block: byte i of word k holds value 4k + i, and 16 + 4k + i above it
//   5 bits         then n_b words, bit 8i + 4h + k: the fifth bit of value 16h + 4k + i
//   Q6_K           then 2 n_b words, word h, bits 8i + 2k: the high two of value 16h + 4k + i
//   Q2_K, Q3_K     2 n_b words, as those; Q3_K: then n_b words as of 5 bits
// scales: Q4_0, Q5_0, IQ4_NL as Q8_0; Q4_1, Q5_1: (d, m) a word per block; per 256 values: Q2_K
// (d, dmin), 4 words; Q3_K 3 words, d; Q4_K and Q5_K (d, dmin), 3 words; Q6_K 4 words, d; IQ4_XS
// (d, high bits), 1 word.
#ifndef PUMICE_QUANT_GLSL
#define PUMICE_QUANT_GLSL

#include "q8.glsl" // half_value

#if defined(FORMAT_F32) || defined(FORMAT_F16) || defined(FORMAT_BF16)
#define FLOATS // plain numbers: no quants
#endif
#if defined(FLOATS) || defined(FORMAT_Q8_0)
#define UNITS 1u
#else
#define UNITS 2u
#endif
#if defined(FORMAT_Q8_0) || defined(FORMAT_IQ4_NL) || defined(FORMAT_IQ4_XS)
#define SIGNED_QUANTS // bytes are -128 to 127, else 0 to 63
#endif
#if defined(FORMAT_Q5_0) || defined(FORMAT_Q5_1) || defined(FORMAT_Q5_K)
#define FIFTH_BITS
#endif

layout(set = 0, binding = 0, std430) readonly buffer Weights4 { uvec4 w4[]; };
layout(set = 0, binding = 0, std430) readonly buffer Weights { uint w1[]; };

// The half of number i among halves two a word, from word `at` on.
float half_at(uint at, uint i)
{
    uint word = w1[at + (i >> 1)];
    return half_value(word >> (16u * (i & 1u)) & 0xffffu);
}

uint byte_of(uint word, uint i)
{
    return word >> (8u * i) & 0xffu;
}

// What one load brings: UNITS units of a row.
struct raw {
#if defined(FORMAT_F32)
    uvec4 q[4];
#elif defined(FLOATS)
    uvec4 q[2];
#else
    uvec4 q;
    uvec2 high;
    vec4 dm; // value = d * quant + m: (d, m) of unit 0, of unit 1
#endif
};

// Where a row begins: its quants (in uvec4) and its scales (in words).
struct row_at {
    uint quants, scales;
};

#if defined(FLOATS)

raw load_raw(row_at row, uint b, uint n_b)
{
    raw w;
#if defined(FORMAT_F32)
    [[unroll]] for (uint k = 0u; k < 4u; k++) w.q[k] = w4[row.quants + 4u * b + k];
#else
    w.q[0] = w4[row.quants + 2u * b];
    w.q[1] = w4[row.quants + 2u * b + 1u];
#endif
    return w;
}

void unit_values(raw w, out vec4 v[4])
{
#if defined(FORMAT_F32)
    [[unroll]] for (uint k = 0u; k < 4u; k++) v[k] = uintBitsToFloat(w.q[k]);
#else
    [[unroll]] for (uint k = 0u; k < 4u; k++) {
        uint a = w.q[k >> 1][2u * (k & 1u)], c = w.q[k >> 1][2u * (k & 1u) + 1u];
#if defined(FORMAT_F16)
        v[k] = half_values(uvec4(a & 0xffffu, a >> 16, c & 0xffffu, c >> 16));
#else
        v[k] = uintBitsToFloat(uvec4(a << 16, a & 0xffff0000u, c << 16, c & 0xffff0000u));
#endif
    }
#endif
}

#else // quants

// Scale and minimum of sub-block s (of 32 values): 12 bytes of 6-bit numbers as in quant/k.h.
#if defined(FORMAT_Q4_K) || defined(FORMAT_Q5_K)
vec4 k_scale_min(uvec4 word, uint s)
{
    float d = half_value(word.x & 0xffffu), dmin = half_value(word.x >> 16);
    uint i = s & 3u, y = byte_of(word.y, i), z = byte_of(word.z, i), rest = byte_of(word.w, i);
    uint scale = mix((rest & 15u) | y >> 6 << 4, y & 63u, s < 4u);
    uint low = mix(rest >> 4 | z >> 6 << 4, z & 63u, s < 4u);
    return vec4(d * float(int(scale)), -dmin * float(int(low)), 0, 0);
}
#endif

// (d, m) of the units of block b
vec4 scales_of(row_at row, uint b)
{
    uint at = row.scales;
#if defined(FORMAT_Q8_0)
    return vec4(half_at(at, b >> 1), 0, 0, 0); // b counts units
#elif defined(FORMAT_Q4_0) || defined(FORMAT_Q5_0) || defined(FORMAT_IQ4_NL)
    float d = half_at(at, b);
#if defined(FORMAT_Q4_0)
    float m = -8.0 * d;
#elif defined(FORMAT_Q5_0)
    float m = -16.0 * d;
#else
    float m = 0.0;
#endif
    return vec4(d, m, d, m);
#elif defined(FORMAT_Q4_1) || defined(FORMAT_Q5_1)
    uint word = w1[at + b];
    return vec2(half_value(word & 0xffffu), half_value(word >> 16)).xyxy;
#elif defined(FORMAT_Q4_K) || defined(FORMAT_Q5_K)
    return k_scale_min(w4[(at >> 2) + (b >> 3)], b & 7u).xyxy;
#elif defined(FORMAT_IQ4_XS)
    at += 2u * (b >> 3);
    uint word = w1[at], s = b & 7u;
    uint low = w1[at + 1u] >> (4u * s) & 15u, high = word >> (16u + 2u * s) & 3u;
    float d = half_value(word & 0xffffu) * float(int(low | high << 4) - 32);
    return vec4(d, 0, d, 0);
#elif defined(FORMAT_Q2_K)
    at += 5u * (b >> 3);
    float d = half_value(w1[at] & 0xffffu), dmin = half_value(w1[at] >> 16);
    uint s = 2u * (b & 7u), two = w1[at + 1u + (s >> 2)] >> (8u * (s & 3u));
    ivec4 n = ivec4(uvec4(two, two >> 4, two >> 8, two >> 12) & 15u);
    return vec4(n) * vec4(d, -dmin, d, -dmin);
#elif defined(FORMAT_Q3_K)
    uvec4 word = w4[(at >> 2) + (b >> 3)];
    float d = half_value(word.w);
    uint s = 2u * (b & 7u);
    uint low = word[s >> 2 & 1u] >> (8u * (s & 3u) + 4u * (s >> 3)); // two scales, 8 bits apart
    uint high = word.z >> (8u * (s & 3u) + 2u * (s >> 2));
    vec2 scale = vec2(ivec2((low & 15u) | (high & 3u) << 4,
                            (low >> 8 & 15u) | (high >> 8 & 3u) << 4) - 32) * d;
    return vec4(scale.x, -4.0 * scale.x, scale.y, -4.0 * scale.y);
#elif defined(FORMAT_Q6_K)
    at += 5u * (b >> 3);
    float d = half_value(w1[at + 4u]);
    uint s = 2u * (b & 7u);
    int two = int(w1[at + (s >> 2)] >> (8u * (s & 3u)));
    vec2 scale = vec2(two << 24 >> 24, two << 16 >> 24) * d;
    return vec4(scale.x, -32.0 * scale.x, scale.y, -32.0 * scale.y);
#endif
}

raw load_raw(row_at row, uint b, uint n_b)
{
    raw w;
    w.dm = scales_of(row, b);
    w.high = uvec2(0);
    uint words = 4u * row.quants;
#if defined(FORMAT_Q2_K) || defined(FORMAT_Q3_K)
    w.q = uvec4(w1[words + 2u * b], w1[words + 2u * b + 1u], 0, 0);
#if defined(FORMAT_Q3_K)
    w.high.x = w1[words + 2u * n_b + b];
#endif
#else
    w.q = w4[row.quants + b];
#if defined(FIFTH_BITS)
    w.high.x = w1[words + 4u * n_b + b];
#elif defined(FORMAT_Q6_K)
    w.high = uvec2(w1[words + 4u * n_b + 2u * b], w1[words + 4u * n_b + 2u * b + 1u]);
#endif
#endif
    return w;
}

#if defined(FORMAT_IQ4_NL) || defined(FORMAT_IQ4_XS)
// Four 4-bit indices, one in each byte, to the levels of IQ4 as signed bytes.
uint iq4_levels(uint four)
{
    uint packed = 0u;
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint at = four >> (8u * i);
        // -127 -104 -83 -65 | -49 -35 -22 -10 | 1 13 25 38 | 53 69 89 113
        uint low = mix(0xf6eaddcfu, 0xbfad9881u, (at & 4u) == 0u);
        uint up = mix(0x71594535u, 0x26190d01u, (at & 4u) == 0u);
        packed |= byte_of(mix(up, low, (at & 8u) == 0u), at & 3u) << (8u * i);
    }
    return packed;
}
#endif

// The bytes of unit h: word k holds values 4k to 4k + 3.
uvec4 unit_quants(raw w, uint h)
{
#if defined(FORMAT_Q8_0)
    return w.q;
#elif defined(FORMAT_Q2_K) || defined(FORMAT_Q3_K)
    uvec4 q = uvec4(w.q[h], w.q[h] >> 2, w.q[h] >> 4, w.q[h] >> 6) & 0x03030303u;
#if defined(FORMAT_Q3_K)
    uint third = w.high.x >> (4u * h);
    q |= (uvec4(third, third >> 1, third >> 2, third >> 3) & 0x01010101u) << 2;
#endif
    return q;
#else
    uvec4 q = w.q >> (4u * h) & 0x0f0f0f0fu;
#if defined(FIFTH_BITS)
    uint fifth = w.high.x >> (4u * h);
    q |= (uvec4(fifth, fifth >> 1, fifth >> 2, fifth >> 3) & 0x01010101u) << 4;
#elif defined(FORMAT_Q6_K)
    q |= (uvec4(w.high[h], w.high[h] >> 2, w.high[h] >> 4, w.high[h] >> 6) & 0x03030303u) << 4;
#elif defined(FORMAT_IQ4_NL) || defined(FORMAT_IQ4_XS)
    q = uvec4(iq4_levels(q.x), iq4_levels(q.y), iq4_levels(q.z), iq4_levels(q.w));
#endif
    return q;
#endif
}

vec2 unit_scale(raw w, uint h)
{
    return mix(w.dm.zw, w.dm.xy, bvec2(h == 0u));
}

// Unsigned bytes as floats. Signed ones are moved up by 128, which the caller takes off through m.
vec4 bytes_to_floats(uint q)
{
    return vec4(ivec4(q & 0xffu, q >> 8 & 0xffu, q >> 16 & 0xffu, q >> 24));
}

// values of unit h = d * v + m
vec2 unit_floats(raw w, uint h, out vec4 v[4])
{
    uvec4 q = unit_quants(w, h);
    vec2 dm = unit_scale(w, h);
#if defined(SIGNED_QUANTS)
    q ^= 0x80808080u;
    dm.y -= 128.0 * dm.x;
#endif
    [[unroll]] for (uint k = 0u; k < 4u; k++) v[k] = bytes_to_floats(q[k]);
    return dm;
}

#endif
#endif
