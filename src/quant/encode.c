// Encoders of plain numbers and of the formats with blocks of 32 values, by the rules that gave
// existing files their bytes: the scale is rounded to a half only after it has been used. Values
// that are not finite give some valid block, never undefined behaviour.
#include "quant/blocks.h"

#include <math.h>

#include "quant/quant.h"

void encode_f32(const float *values, void *blocks, size_t n)
{
    uint8_t *p = blocks;
    for (size_t i = 0; i < n; i++) store_u32(p + 4 * i, bits_of_float(values[i]));
}

void encode_f16(const float *values, void *blocks, size_t n)
{
    uint8_t *p = blocks;
    for (size_t i = 0; i < n; i++) store_u16(p + 2 * i, quant_f32_to_f16(values[i]));
}

void encode_bf16(const float *values, void *blocks, size_t n)
{
    uint8_t *p = blocks;
    for (size_t i = 0; i < n; i++) store_u16(p + 2 * i, quant_f32_to_bf16(values[i]));
}

static float inverse(float d)
{
    return d != 0 ? 1 / d : 0;
}

// x cut to an integer inside [0, highest]; NaN gives 0.
static unsigned cut_clamped(float x, unsigned highest)
{
    if (!(x > 0)) return 0;
    return x < (float)highest ? (unsigned)x : highest;
}

static float greatest_magnitude(const float *x, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++) {
        if (fabsf(x[i]) > most) most = fabsf(x[i]);
    }
    return most;
}

// q: 32 values of 4 bits (bit 4 goes to *high), packed as byte j = value j and value j + 16.
static void store_nibbles(uint8_t *p, const unsigned q[32], uint32_t *high)
{
    *high = 0;
    for (int j = 0; j < 32; j++) *high |= (uint32_t)(q[j] >> 4 & 1) << j;
    for (int j = 0; j < 16; j++) p[j] = (uint8_t)((q[j] & 15) | (q[j + 16] & 15) << 4);
}

// The value of greatest magnitude, with its sign, falls on the lowest level, -levels / 2.
static uint16_t symmetric(const float x[32], unsigned levels, unsigned q[32])
{
    float most = 0, half = (float)(levels / 2);
    for (int j = 0; j < 32; j++) {
        if (fabsf(x[j]) > fabsf(most)) most = x[j];
    }
    float d = most / -half, id = inverse(d);
    for (int j = 0; j < 32; j++) q[j] = cut_clamped(x[j] * id + (half + 0.5f), levels - 1);
    return quant_f32_to_f16(d);
}

// The least value falls on level 0, the greatest on the highest. Returns d; *m is the least.
static uint16_t from_minimum(const float x[32], unsigned levels, unsigned q[32], uint16_t *m)
{
    float least = x[0], most = x[0];
    for (int j = 1; j < 32; j++) {
        if (x[j] < least) least = x[j];
        if (x[j] > most) most = x[j];
    }
    float d = (most - least) / (float)(levels - 1), id = inverse(d);
    for (int j = 0; j < 32; j++) q[j] = cut_clamped((x[j] - least) * id + 0.5f, levels - 1);
    *m = quant_f32_to_f16(least);
    return quant_f32_to_f16(d);
}

void encode_q4_0(const float *values, void *blocks, size_t n)
{
    uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 32, p += 18) {
        unsigned q[32];
        uint32_t high;
        store_u16(p, symmetric(values + i, 16, q));
        store_nibbles(p + 2, q, &high);
    }
}

void encode_q5_0(const float *values, void *blocks, size_t n)
{
    uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 32, p += 22) {
        unsigned q[32];
        uint32_t high;
        store_u16(p, symmetric(values + i, 32, q));
        store_nibbles(p + 6, q, &high);
        store_u32(p + 2, high);
    }
}

void encode_q4_1(const float *values, void *blocks, size_t n)
{
    uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 32, p += 20) {
        unsigned q[32];
        uint16_t m;
        uint32_t high;
        store_u16(p, from_minimum(values + i, 16, q, &m));
        store_u16(p + 2, m);
        store_nibbles(p + 4, q, &high);
    }
}

void encode_q5_1(const float *values, void *blocks, size_t n)
{
    uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 32, p += 24) {
        unsigned q[32];
        uint16_t m;
        uint32_t high;
        store_u16(p, from_minimum(values + i, 32, q, &m));
        store_u16(p + 2, m);
        store_nibbles(p + 8, q, &high);
        store_u32(p + 4, high);
    }
}

void encode_q8_0(const float *values, void *blocks, size_t n)
{
    uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 32, p += 34) {
        float d = greatest_magnitude(values + i, 32) / 127, id = inverse(d);
        store_u16(p, quant_f32_to_f16(d));
        for (size_t j = 0; j < 32; j++) {
            p[2 + j] = (uint8_t)(int8_t)round_clamped(values[i + j] * id, -127, 127);
        }
    }
}

// The exponent that puts the greatest magnitude on level 4 to 6 of 6; ties between levels go to the
// first in the table.
void encode_mxfp4(const float *values, void *blocks, size_t n)
{
    uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 32, p += 17) {
        float most = greatest_magnitude(values + i, 32);
        int e = most > 0 ? round_clamped(floorf(log2f(most)) + 125, 0, 254) : 0;
        float d = mxfp4_scale((uint8_t)e);
        unsigned q[32];
        uint32_t high;
        for (size_t j = 0; j < 32; j++) {
            float best = INFINITY;
            q[j] = 0;
            for (unsigned level = 0; level < 16; level++) {
                float error = fabsf(d * (float)mxfp4_levels[level] - values[i + j]);
                if (!(error < best)) continue;
                best = error;
                q[j] = level;
            }
        }
        p[0] = (uint8_t)e;
        store_nibbles(p + 1, q, &high);
    }
}

// 256 values to trits 0, 1, 2 with the greatest magnitude as scale. Returns the scale as a half.
static uint16_t ternary(const float x[256], uint8_t trit[256])
{
    float d = greatest_magnitude(x, 256), id = inverse(d);
    for (int j = 0; j < 256; j++) trit[j] = (uint8_t)(round_clamped(x[j] * id, -1, 1) + 1);
    return quant_f32_to_f16(d);
}

// `n_trits` runs of `n_bytes` values, the first run the highest digit, to bytes: the digits' number
// over 243 as a fraction of 256, rounded up.
static void pack_trits(const uint8_t *trit, int n_bytes, int n_trits, uint8_t *p)
{
    for (int j = 0; j < n_bytes; j++) {
        unsigned number = 0;
        for (int k = 0; k < 5; k++) number = number * 3 + (k < n_trits ? trit[k * n_bytes + j] : 0);
        p[j] = (uint8_t)((number * 256 + 242) / 243);
    }
}

void encode_tq1_0(const float *values, void *blocks, size_t n)
{
    uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 256, p += 54) {
        uint8_t trit[256];
        store_u16(p + 52, ternary(values + i, trit));
        pack_trits(trit, 32, 5, p);
        pack_trits(trit + 160, 16, 5, p + 32);
        pack_trits(trit + 240, 4, 4, p + 48);
    }
}

void encode_tq2_0(const float *values, void *blocks, size_t n)
{
    uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 256, p += 66) {
        uint8_t trit[256];
        store_u16(p + 64, ternary(values + i, trit));
        for (int b = 0; b < 64; b++) {
            const uint8_t *t = trit + 128 * (b / 32) + b % 32;
            p[b] = (uint8_t)(t[0] | t[32] << 2 | t[64] << 4 | t[96] << 6);
        }
    }
}
