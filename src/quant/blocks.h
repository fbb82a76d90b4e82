// Inside src/quant: how the bytes of a block are read and written, and the functions that the table
// in quant.c names. All of them take n values, a multiple of the format's block.
#ifndef PUMICE_QUANT_BLOCKS_H
#define PUMICE_QUANT_BLOCKS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// Little-endian loads and stores at any address; compilers make one instruction of each.
static inline uint16_t load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t load_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline void store_u16(uint8_t *p, uint16_t x)
{
    p[0] = (uint8_t)(x & 0xff);
    p[1] = (uint8_t)(x >> 8);
}

static inline void store_u32(uint8_t *p, uint32_t x)
{
    store_u16(p, (uint16_t)(x & 0xffff));
    store_u16(p + 2, (uint16_t)(x >> 16));
}

// The half's bits to the float of the same value. A signalling NaN becomes quiet, as in hardware.
// All cases are computed and masks select one: no branch, so that loops over halves become vectors.
static inline float half_to_float(uint16_t h)
{
    int32_t rest = h & 0x7fff;
    uint32_t normal = ((uint32_t)rest << 13) + (112u << 23); // exponent bias 15 to 127
    // zero and subnormals: rest * 2^-24 is exact and never a subnormal float
    uint32_t small = bits_of_float((float)rest * 0x1p-24f);
    uint32_t is_small = 0u - (rest < 0x400), is_special = 0u - (rest >= 0x7c00);
    uint32_t is_nan = 0u - (rest > 0x7c00);
    uint32_t magnitude = (small & is_small) | (normal & ~is_small);
    magnitude += (112u << 23) & is_special; // exponent 255: infinity and NaN
    magnitude |= 0x400000u & is_nan;
    return float_of_bits((uint32_t)(h & 0x8000) << 16 | magnitude);
}

static inline float load_half(const uint8_t *p)
{
    return half_to_float(load_u16(p));
}

// x to the nearest integer, halves away from zero, inside [lowest, highest]; NaN gives 0.
static inline int round_clamped(float x, int lowest, int highest)
{
    if (x >= (float)highest) return highest;
    if (x <= (float)lowest) return lowest;
    if (!(x == x)) return 0;
    // |x| is small here, so adding a half is exact but for 0.49999997, which must not become 1.
    int whole = (int)x;
    float rest = x - (float)whole;
    return whole + (rest >= 0.5f) - (rest <= -0.5f);
}

// MXFP4's 4-bit floats (1 sign, 2 exponent, 1 mantissa bit), doubled to be integers, and the half
// of its 8-bit exponent (2^(e - 127)), so that a value is scale * level.
extern const int8_t mxfp4_levels[16];
static inline float mxfp4_scale(uint8_t e)
{
    return float_of_bits(e < 2 ? 0x200000u << e : (uint32_t)(e - 1) << 23);
}

// basic.c: plain numbers and the formats with blocks of 32
void decode_f32(const void *blocks, float *values, size_t n);
void decode_f16(const void *blocks, float *values, size_t n);
void decode_bf16(const void *blocks, float *values, size_t n);
void decode_q4_0(const void *blocks, float *values, size_t n);
void decode_q4_1(const void *blocks, float *values, size_t n);
void decode_q5_0(const void *blocks, float *values, size_t n);
void decode_q5_1(const void *blocks, float *values, size_t n);
void decode_q8_0(const void *blocks, float *values, size_t n);
void decode_mxfp4(const void *blocks, float *values, size_t n);

// k.c: blocks of 256 with scales of their own
void decode_q2_k(const void *blocks, float *values, size_t n);
void decode_q3_k(const void *blocks, float *values, size_t n);
void decode_q4_k(const void *blocks, float *values, size_t n);
void decode_q5_k(const void *blocks, float *values, size_t n);
void decode_q6_k(const void *blocks, float *values, size_t n);
void decode_tq1_0(const void *blocks, float *values, size_t n);
void decode_tq2_0(const void *blocks, float *values, size_t n);

// iq.c: codebooks
void decode_iq4_nl(const void *blocks, float *values, size_t n);
void decode_iq4_xs(const void *blocks, float *values, size_t n);
void decode_iq1_s(const void *blocks, float *values, size_t n);
void decode_iq1_m(const void *blocks, float *values, size_t n);
void decode_iq2_xxs(const void *blocks, float *values, size_t n);
void decode_iq2_xs(const void *blocks, float *values, size_t n);
void decode_iq2_s(const void *blocks, float *values, size_t n);
void decode_iq3_xxs(const void *blocks, float *values, size_t n);
void decode_iq3_s(const void *blocks, float *values, size_t n);

// encode.c and encode_k.c
void encode_f32(const float *values, void *blocks, size_t n);
void encode_f16(const float *values, void *blocks, size_t n);
void encode_bf16(const float *values, void *blocks, size_t n);
void encode_q4_0(const float *values, void *blocks, size_t n);
void encode_q4_1(const float *values, void *blocks, size_t n);
void encode_q5_0(const float *values, void *blocks, size_t n);
void encode_q5_1(const float *values, void *blocks, size_t n);
void encode_q8_0(const float *values, void *blocks, size_t n);
void encode_mxfp4(const float *values, void *blocks, size_t n);
void encode_tq1_0(const float *values, void *blocks, size_t n);
void encode_tq2_0(const float *values, void *blocks, size_t n);
void encode_q4_k(const float *values, void *blocks, size_t n);
void encode_q6_k(const float *values, void *blocks, size_t n);

#endif
