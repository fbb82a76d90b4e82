// The formats that the integer kernels know: how a block of the file is taken apart. What the bytes
// of a block mean is told in src/quant; here only the integers are wanted, not their product with
// the scales.
#include "exec/cpu/weights.h"

#include <string.h>

#include "quant/iq_tables.h"

static uint16_t half_at(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

// Byte j holds value j in its low and value j + n in its high half.
static void nibbles(const uint8_t *p, uint8_t *q, int n)
{
    for (int j = 0; j < n; j++) {
        q[j] = p[j] & 15;
        q[j + n] = p[j] >> 4;
    }
}

// Bit j of four bytes becomes bit 4 of value j.
static void fifth_bits(const uint8_t *p, uint8_t *q)
{
    for (int j = 0; j < 32; j++) q[j] = (uint8_t)(q[j] | (p[j / 8] >> j % 8 & 1) << 4);
}

static void take_q8_0(const uint8_t *p, cpu_block *out)
{
    out->d = half_at(p);
    for (int j = 0; j < 32; j++) out->q[j] = p[2 + j] ^ 0x80;
}

static void take_q4_0(const uint8_t *p, cpu_block *out) // IQ4_NL too
{
    out->d = half_at(p);
    nibbles(p + 2, out->q, 16);
}

static void take_q4_1(const uint8_t *p, cpu_block *out)
{
    out->d = half_at(p);
    out->m = half_at(p + 2);
    nibbles(p + 4, out->q, 16);
}

static void take_q5_0(const uint8_t *p, cpu_block *out)
{
    out->d = half_at(p);
    nibbles(p + 6, out->q, 16);
    fifth_bits(p + 2, out->q);
}

static void take_q5_1(const uint8_t *p, cpu_block *out)
{
    out->d = half_at(p);
    out->m = half_at(p + 2);
    nibbles(p + 8, out->q, 16);
    fifth_bits(p + 4, out->q);
}

// 12 bytes: 8 scales and 8 minima of 6 bits.
static void take_k_scales(const uint8_t *p, cpu_block *out)
{
    for (int j = 0; j < 4; j++) {
        out->sub[j] = p[j] & 63;
        out->sub_min[j] = p[4 + j] & 63;
        out->sub[4 + j] = (uint8_t)((p[8 + j] & 15) | (p[j] >> 6) << 4);
        out->sub_min[4 + j] = (uint8_t)(p[8 + j] >> 4 | (p[4 + j] >> 6) << 4);
    }
}

static void take_q4_k(const uint8_t *p, cpu_block *out)
{
    out->d = half_at(p);
    out->m = half_at(p + 2);
    take_k_scales(p + 4, out);
    for (int g = 0; g < 4; g++) nibbles(p + 16 + 32 * g, out->q + 64 * g, 32);
}

static void take_q5_k(const uint8_t *p, cpu_block *out)
{
    out->d = half_at(p);
    out->m = half_at(p + 2);
    take_k_scales(p + 4, out);
    for (int g = 0; g < 4; g++) nibbles(p + 48 + 32 * g, out->q + 64 * g, 32);
    for (int i = 0; i < 256; i++) { // bit s of byte j: value j of sub-block s
        int high = p[16 + i % 32] >> i / 32 & 1;
        out->q[i] = (uint8_t)(out->q[i] | high << 4);
    }
}

static void take_q6_k(const uint8_t *p, cpu_block *out)
{
    out->d = half_at(p + 208);
    memcpy(out->sub, p + 192, 16);
    for (int half = 0; half < 2; half++) {
        uint8_t *q = out->q + 128 * half;
        nibbles(p + 64 * half, q, 64);
        for (int i = 0; i < 128; i++) {
            int high = p[128 + 32 * half + i % 32] >> i / 32 * 2 & 3;
            q[i] = (uint8_t)(q[i] | high << 4);
        }
    }
}

// 64 bytes of two bits: each half of the block takes 32 of them, as four runs of 32.
static void take_two_bits(const uint8_t *p, cpu_block *out)
{
    for (int i = 0; i < 256; i++) {
        out->q[i] = p[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
    }
}

static void take_q2_k(const uint8_t *p, cpu_block *out)
{
    memcpy(out->sub, p, 16);
    take_two_bits(p + 16, out);
    out->d = half_at(p + 80);
    out->m = half_at(p + 82);
}

static void take_tq2_0(const uint8_t *p, cpu_block *out)
{
    take_two_bits(p, out);
    out->d = half_at(p + 64);
}

// Bytes that hold the digits of a number in base three as a fraction of 256; the first digit is the
// highest. Runs of n values, one digit each.
static void take_trits(const uint8_t *p, int n, int n_digits, uint8_t *q)
{
    for (int k = 0; k < n_digits; k++) {
        static const uint8_t power[5] = {1, 3, 9, 27, 81};
        for (int j = 0; j < n; j++) {
            unsigned rest = (uint8_t)(p[j] * power[k]);
            q[k * n + j] = (uint8_t)(rest * 3 >> 8);
        }
    }
}

static void take_tq1_0(const uint8_t *p, cpu_block *out)
{
    take_trits(p, 32, 5, out->q);
    take_trits(p + 32, 16, 5, out->q + 160);
    take_trits(p + 48, 4, 4, out->q + 240);
    out->d = half_at(p + 52);
}

// The third bit of value i is bit i / 32 of byte i % 32; clear means minus four.
static void take_q3_k(const uint8_t *p, cpu_block *out)
{
    take_two_bits(p + 32, out);
    for (int i = 0; i < 256; i++) {
        int high = p[i % 32] >> i / 32 & 1;
        out->q[i] = (uint8_t)(out->q[i] | high << 2);
    }
    const uint8_t *s = p + 96; // 16 scales of 6 bits, moved by 32
    for (int j = 0; j < 16; j++) {
        int low = s[j % 8] >> j / 8 * 4 & 15, high = s[8 + j % 4] >> j / 4 * 2 & 3;
        out->sub[j] = (uint8_t)((low | high << 4) - 32);
    }
    out->d = half_at(p + 108);
}

static void take_iq4_xs(const uint8_t *p, cpu_block *out)
{
    out->d = half_at(p);
    unsigned high = half_at(p + 2);
    for (int s = 0; s < 8; s++) {
        unsigned low = (unsigned)p[4 + s / 2] >> s % 2 * 4 & 15u;
        out->sub[s] = (uint8_t)((low | (high >> 2 * s & 3) << 4) - 32);
        nibbles(p + 8 + 16 * s, out->q + 32 * s, 16);
    }
}

// The floats of MXFP4's scales are powers of two, 2^-128 to 2^127: bfloat16 has them all, below
// 2^-126 as subnormals.
static void take_mxfp4(const uint8_t *p, cpu_block *out)
{
    out->d = (uint16_t)(p[0] < 2 ? 0x20 << p[0] : (p[0] - 1) << 7);
    nibbles(p + 1, out->q, 16);
}

// ---- codebooks --------------------------------------------------------------------------------

static uint32_t word_at(const uint8_t *p)
{
    return half_at(p) | (uint32_t)half_at(p + 2) << 16;
}

// Eight values of a byte each, the first in the lowest.
static void put_eight(uint8_t *q, uint64_t bytes)
{
    for (int j = 0; j < 8; j++) q[j] = (uint8_t)(bytes >> 8 * j);
}

// Bit j of eight to bit 0 of byte j.
static uint64_t spread_bits(unsigned bits)
{
    uint64_t x = (bits & 15) | (uint64_t)(bits >> 4) << 32;
    x = (x | x << 14) & 0x0003000300030003;
    return (x | x << 7) & 0x0101010101010101;
}

// Field j of eight of two bits to byte j.
static uint64_t spread_pairs(unsigned packed)
{
    uint64_t x = (packed & 255) | (uint64_t)(packed >> 8) << 32;
    x = (x | x << 12) & 0x000f000f000f000f;
    return (x | x << 6) & 0x0303030303030303;
}

// Digit j of four to byte j.
static uint64_t spread_digits(unsigned packed)
{
    uint32_t x = (packed & 255) | (packed >> 8) << 16;
    return (x | x << 4) & 0x0f0f0f0f;
}

// A vector of IQ1: the third bit of its indices tells which way it is moved.
static void put_iq1(uint8_t *q, unsigned index, bool minus)
{
    put_eight(q, spread_pairs(iq1_grid[index]) | (minus ? 0x0404040404040404 : 0));
}

// A vector of IQ2: the third bit is the sign.
static void put_iq2(uint8_t *q, unsigned packed, unsigned signs)
{
    put_eight(q, spread_pairs(packed) | spread_bits(signs) << 2);
}

// Two vectors of IQ3: the fourth bit is the sign.
static void put_iq3(uint8_t *q, unsigned first, unsigned second, unsigned signs)
{
    put_eight(q, spread_digits(first) | spread_digits(second) << 32 | spread_bits(signs) << 3);
}

// Every sub-scale of the codebooks is odd: 2 s + 1 of an s of `bits` bits.
static uint8_t odd_scale(unsigned x, int shift, int bits)
{
    return (uint8_t)(2 * (x >> shift & ((1u << bits) - 1)) + 1);
}

static void take_iq1_s(const uint8_t *p, cpu_block *out)
{
    out->d = half_at(p);
    for (int s = 0; s < 8; s++) {
        unsigned high = half_at(p + 34 + 2 * s);
        out->sub[s] = odd_scale(high, 12, 3);
        for (int v = 0; v < 4; v++) {
            unsigned index = p[2 + 4 * s + v] | (high >> 3 * v & 7) << 8;
            put_iq1(out->q + 32 * s + 8 * v, index, high >> 15);
        }
    }
}

static void take_iq1_m(const uint8_t *p, cpu_block *out)
{
    unsigned d = 0;
    for (int k = 0; k < 4; k++) {
        unsigned scales = half_at(p + 48 + 2 * k);
        d |= (scales >> 12) << 4 * k;
        for (int s = 0; s < 4; s++) out->sub[4 * k + s] = odd_scale(scales, 3 * s, 3);
    }
    out->d = (uint16_t)d;
    for (int v = 0; v < 32; v++) {
        unsigned high = (unsigned)p[32 + v / 2] >> 4 * (v % 2) & 15;
        put_iq1(out->q + 8 * v, p[v] | (high & 7) << 8, high >> 3);
    }
}

static void take_iq2_xxs(const uint8_t *p, cpu_block *out)
{
    out->d = half_at(p);
    for (int s = 0; s < 8; s++) {
        const uint8_t *group = p + 2 + 8 * s;
        uint32_t rest = word_at(group + 4);
        out->sub[s] = odd_scale(rest, 28, 4);
        for (int v = 0; v < 4; v++) {
            put_iq2(out->q + 32 * s + 8 * v, iq2_xxs_grid[group[v]],
                    iq_even_signs(rest >> 7 * v & 127));
        }
    }
}

static void take_iq2_xs(const uint8_t *p, cpu_block *out)
{
    out->d = half_at(p);
    for (int s = 0; s < 16; s++) out->sub[s] = odd_scale(p[66 + s / 2], 4 * (s % 2), 4);
    for (int v = 0; v < 32; v++) {
        unsigned q = half_at(p + 2 + 2 * v);
        put_iq2(out->q + 8 * v, iq2_xs_grid[q & 511], iq_even_signs(q >> 9));
    }
}

static void take_iq2_s(const uint8_t *p, cpu_block *out)
{
    out->d = half_at(p);
    for (int s = 0; s < 16; s++) out->sub[s] = odd_scale(p[74 + s / 2], 4 * (s % 2), 4);
    for (int v = 0; v < 32; v++) {
        unsigned index = p[2 + v] | ((unsigned)p[66 + v / 4] >> 2 * (v % 4) & 3) << 8;
        put_iq2(out->q + 8 * v, iq2_s_grid[index], p[34 + v]);
    }
}

static void take_iq3_xxs(const uint8_t *p, cpu_block *out)
{
    out->d = half_at(p);
    for (int s = 0; s < 8; s++) {
        const uint8_t *q = p + 2 + 8 * s;
        uint32_t rest = word_at(p + 66 + 4 * s);
        out->sub[s] = odd_scale(rest, 28, 4);
        for (int v = 0; v < 4; v++) {
            put_iq3(out->q + 32 * s + 8 * v, iq3_xxs_grid[q[2 * v]], iq3_xxs_grid[q[2 * v + 1]],
                    iq_even_signs(rest >> 7 * v & 127));
        }
    }
}

static void take_iq3_s(const uint8_t *p, cpu_block *out)
{
    out->d = half_at(p);
    for (int s = 0; s < 8; s++) {
        const uint8_t *q = p + 2 + 8 * s;
        unsigned high = p[66 + s];
        out->sub[s] = odd_scale(p[106 + s / 2], 4 * (s % 2), 4);
        for (int v = 0; v < 4; v++) {
            unsigned first = q[2 * v] | (high >> 2 * v & 1) << 8;
            unsigned second = q[2 * v + 1] | (high >> (2 * v + 1) & 1) << 8;
            put_iq3(out->q + 32 * s + 8 * v, iq3_s_grid[first], iq3_s_grid[second],
                    p[74 + 4 * s + v]);
        }
    }
}

// ---- levels -----------------------------------------------------------------------------------

// What the indices stand for, moved by the format's `zero`.
//
// The curve of IQ4.
static const uint8_t iq4_levels[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                       129, 141, 153, 166, 181, 197, 217, 241};
// MXFP4: twice 0, 0.5, 1, 1.5, 2, 3, 4, 6 and the negatives.
static const uint8_t mxfp4_levels[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
// IQ1, in eighths: -1, 0, 1 moved up and down by one eighth. No codebook of IQ1 and IQ2 has a 3.
static const uint8_t iq1_levels[16] = {2, 10, 18, 9, 0, 8, 16, 9};
// IQ2: 8, 25, 43 and the negatives.
static const uint8_t iq2_levels[16] = {51, 68, 86, 43, 35, 18, 0, 43};
// IQ3_XXS: half of 4, 12, 20, 28, 36, 44, 52, 62 and the negatives.
static const uint8_t iq3_xxs_levels[16] = {33, 37, 41, 45, 49, 53, 57, 62,
                                           29, 25, 21, 17, 13, 9,  5,  0};
// IQ3_S: 1, 3, ..., 15 and the negatives.
static const uint8_t iq3_s_levels[16] = {16, 18, 20, 22, 24, 26, 28, 30, 14, 12, 10, 8, 6, 4, 2, 0};

// clang-format off
static const cpu_repack repacks[] = {
    {{.type = QUANT_Q8_0, .low_bits = 8, .zero = 128, .span = 32, .wide = true}, 32, 34, take_q8_0},
    {{.type = QUANT_Q4_0, .low_bits = 4, .zero = 8, .span = 32}, 32, 18, take_q4_0},
    {{.type = QUANT_Q4_1, .low_bits = 4, .span = 32, .has_min = true}, 32, 20, take_q4_1},
    {{.type = QUANT_Q5_0, .low_bits = 4, .high_bits = 1, .zero = 16, .span = 32}, 32, 22,
     take_q5_0},
    {{.type = QUANT_Q5_1, .low_bits = 4, .high_bits = 1, .span = 32, .has_min = true}, 32, 24,
     take_q5_1},
    {{.type = QUANT_IQ4_NL, .low_bits = 4, .zero = 128, .span = 32, .wide = true,
      .levels = iq4_levels}, 32, 18, take_q4_0},
    {{.type = QUANT_MXFP4, .low_bits = 4, .zero = 12, .span = 32, .d_bfloat = true,
      .levels = mxfp4_levels}, 32, 17, take_mxfp4},
    {{.type = QUANT_Q2_K, .low_bits = 2, .span = 256, .sub = 16, .has_min = true,
      .sub_packed = true}, 256, 84, take_q2_k},
    {{.type = QUANT_Q3_K, .low_bits = 2, .high_bits = 1, .zero = 4, .span = 256, .sub = 16,
      .sub_signed = true}, 256, 110, take_q3_k},
    {{.type = QUANT_Q4_K, .low_bits = 4, .span = 256, .sub = 32, .has_min = true}, 256, 144,
     take_q4_k},
    {{.type = QUANT_Q5_K, .low_bits = 4, .high_bits = 1, .span = 256, .sub = 32, .has_min = true},
     256, 176, take_q5_k},
    {{.type = QUANT_Q6_K, .low_bits = 4, .high_bits = 2, .zero = 32, .span = 256, .sub = 16,
      .sub_signed = true}, 256, 210, take_q6_k},
    {{.type = QUANT_IQ4_XS, .low_bits = 4, .zero = 128, .span = 256, .sub = 32,
      .sub_signed = true, .wide = true, .levels = iq4_levels}, 256, 136, take_iq4_xs},
    {{.type = QUANT_IQ1_S, .low_bits = 2, .high_bits = 1, .zero = 9, .fraction = 3, .span = 256,
      .sub = 32, .levels = iq1_levels}, 256, 50, take_iq1_s},
    {{.type = QUANT_IQ1_M, .low_bits = 2, .high_bits = 1, .zero = 9, .fraction = 3, .span = 256,
      .sub = 16, .levels = iq1_levels}, 256, 56, take_iq1_m},
    {{.type = QUANT_IQ2_XXS, .low_bits = 2, .high_bits = 1, .zero = 43, .fraction = 3, .span = 256,
      .sub = 32, .levels = iq2_levels}, 256, 66, take_iq2_xxs},
    {{.type = QUANT_IQ2_XS, .low_bits = 2, .high_bits = 1, .zero = 43, .fraction = 3, .span = 256,
      .sub = 16, .levels = iq2_levels}, 256, 74, take_iq2_xs},
    {{.type = QUANT_IQ2_S, .low_bits = 2, .high_bits = 1, .zero = 43, .fraction = 3, .span = 256,
      .sub = 16, .levels = iq2_levels}, 256, 82, take_iq2_s},
    {{.type = QUANT_IQ3_XXS, .low_bits = 4, .zero = 31, .fraction = 1, .span = 256, .sub = 32,
      .levels = iq3_xxs_levels}, 256, 98, take_iq3_xxs},
    {{.type = QUANT_IQ3_S, .low_bits = 4, .zero = 15, .span = 256, .sub = 32,
      .levels = iq3_s_levels}, 256, 110, take_iq3_s},
    {{.type = QUANT_TQ1_0, .low_bits = 2, .zero = 1, .span = 256}, 256, 54, take_tq1_0},
    {{.type = QUANT_TQ2_0, .low_bits = 2, .zero = 1, .span = 256}, 256, 66, take_tq2_0},
};
// clang-format on

const cpu_repack *cpu_repack_of(quant_type type)
{
    for (size_t i = 0; i < sizeof repacks / sizeof repacks[0]; i++) {
        if (repacks[i].format.type == type) return &repacks[i];
    }
    return NULL;
}
