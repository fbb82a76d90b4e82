// Decoders of plain numbers and of the formats with blocks of 32 values. The order of the float
// operations is part of each format's definition: other orders give other bits.
#include "quant/blocks.h"

#include "quant/quant.h"

float quant_f16_to_f32(uint16_t h)
{
    return half_to_float(h);
}

uint16_t quant_f32_to_f16(float x)
{
    uint32_t bits = bits_of_float(x), magnitude = bits & 0x7fffffffu;
    uint32_t sign = bits >> 16 & 0x8000u, h;
    if (magnitude > 0x7f800000u) {
        h = 0x7e00u | (magnitude >> 13 & 0x3ffu);
    } else if (magnitude >= 0x477ff000u) { // 65520 and more round to infinity
        h = 0x7c00u;
    } else if (magnitude >= 0x38800000u) { // 2^-14, the smallest normal half
        // A carry out of the mantissa runs into the exponent, as it should.
        uint32_t odd = magnitude >> 13 & 1;
        h = (magnitude - (112u << 23) + 0xfffu + odd) >> 13;
    } else if (magnitude > 0x33000000u) { // above 2^-25, half of the smallest subnormal
        // mantissa * 2^(exponent - 150) in units of 2^-24
        uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
        uint32_t shift = 126u - (magnitude >> 23); // 14 to 24
        uint32_t odd = mantissa >> shift & 1;
        h = (mantissa + (1u << (shift - 1)) - 1 + odd) >> shift;
    } else {
        h = 0;
    }
    return (uint16_t)(sign | h);
}

float quant_bf16_to_f32(uint16_t h)
{
    return float_of_bits((uint32_t)h << 16);
}

uint16_t quant_f32_to_bf16(float x)
{
    uint32_t bits = bits_of_float(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

void decode_f32(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i++) values[i] = float_of_bits(load_u32(p + 4 * i));
}

void decode_f16(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i++) values[i] = load_half(p + 2 * i);
}

void decode_bf16(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i++) values[i] = quant_bf16_to_f32(load_u16(p + 2 * i));
}

// Block: half d; 16 bytes, value j in the low and value j + 16 in the high half of byte j.
void decode_q4_0(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 32, p += 18) {
        float d = load_half(p);
        for (int j = 0; j < 16; j++) {
            int q = p[2 + j];
            values[i + (size_t)j] = d * (float)((q & 15) - 8);
            values[i + (size_t)j + 16] = d * (float)((q >> 4) - 8);
        }
    }
}

// Block: half d, half m; 16 bytes as in Q4_0.
void decode_q4_1(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 32, p += 20) {
        float d = load_half(p), m = load_half(p + 2);
        for (int j = 0; j < 16; j++) {
            int q = p[4 + j];
            values[i + (size_t)j] = d * (float)(q & 15) + m;
            values[i + (size_t)j + 16] = d * (float)(q >> 4) + m;
        }
    }
}

// Block: half d; 4 bytes, bit j the fifth bit of value j; 16 bytes as in Q4_0.
void decode_q5_0(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 32, p += 22) {
        float d = load_half(p);
        uint32_t high = load_u32(p + 2);
        for (int j = 0; j < 16; j++) {
            int q = p[6 + j];
            int low = (q & 15) | (int)(high >> j & 1) << 4;
            int up = q >> 4 | (int)(high >> (j + 16) & 1) << 4;
            values[i + (size_t)j] = d * (float)(low - 16);
            values[i + (size_t)j + 16] = d * (float)(up - 16);
        }
    }
}

// Block: half d, half m; then as Q5_0.
void decode_q5_1(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 32, p += 24) {
        float d = load_half(p), m = load_half(p + 2);
        uint32_t high = load_u32(p + 4);
        for (int j = 0; j < 16; j++) {
            int q = p[8 + j];
            int low = (q & 15) | (int)(high >> j & 1) << 4;
            int up = q >> 4 | (int)(high >> (j + 16) & 1) << 4;
            values[i + (size_t)j] = d * (float)low + m;
            values[i + (size_t)j + 16] = d * (float)up + m;
        }
    }
}

// Block: half d; 32 signed bytes.
void decode_q8_0(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 32, p += 34) {
        float d = load_half(p);
        for (size_t j = 0; j < 32; j++) values[i + j] = (float)(int8_t)p[2 + j] * d;
    }
}

const int8_t mxfp4_levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Block: 1 byte of exponent; 16 bytes as in Q4_0.
void decode_mxfp4(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 32, p += 17) {
        float d = mxfp4_scale(p[0]);
        for (size_t j = 0; j < 16; j++) {
            values[i + j] = d * (float)mxfp4_levels[p[1 + j] & 15];
            values[i + j + 16] = d * (float)mxfp4_levels[p[1 + j] >> 4];
        }
    }
}
