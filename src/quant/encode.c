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
