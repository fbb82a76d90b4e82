// Decoders of the IQ formats: 4-bit values on a curve (IQ4), and vectors of four or eight values
// from codebooks (IQ1, IQ2, IQ3).
#include "quant/blocks.h"
#include "quant/iq_tables.h"

// The bits of x from bit `shift` up that `mask` selects.
static unsigned field(unsigned x, int shift, unsigned mask)
{
    return x >> shift & mask;
}

static const int8_t iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

// Block: half d; 16 bytes as in Q4_0.
void decode_iq4_nl(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 32, p += 18) {
        float d = load_half(p);
        for (size_t j = 0; j < 16; j++) {
            values[i + j] = d * (float)iq4_levels[p[2 + j] & 15];
            values[i + j + 16] = d * (float)iq4_levels[p[2 + j] >> 4];
        }
    }
}

// Block: half d; 16 bits, the high two bits of the scales of 8 sub-blocks of 32; 4 bytes, their low
// four bits; 128 bytes, each sub-block as in IQ4_NL.
void decode_iq4_xs(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 256, p += 136) {
        float d = load_half(p);
        int scales_high = load_u16(p + 2);
        for (int s = 0; s < 8; s++) {
            int low = p[4 + s / 2] >> 4 * (s % 2) & 15, high = scales_high >> 2 * s & 3;
            float ds = d * (float)((low | high << 4) - 32);
            const uint8_t *q = p + 8 + 16 * s;
            float *out = values + i + 32 * s;
            for (int j = 0; j < 16; j++) {
                out[j] = ds * (float)iq4_levels[q[j] & 15];
                out[j + 16] = ds * (float)iq4_levels[q[j] >> 4];
            }
        }
    }
}

// Eight values of a ternary vector, moved by delta.
static void iq1_vector(float scale, unsigned index, float delta, float *out)
{
    unsigned packed = iq1_grid[index];
    const float levels[4] = {scale * (-1 + delta), scale * delta, scale * (1 + delta), 0};
    for (int j = 0; j < 8; j++) out[j] = levels[field(packed, 2 * j, 3)]; // no table has a 3
}

// Block: half d; 32 bytes, the low eight bits of the indices of 32 vectors; 8 times 16 bits for
// four vectors each: their high three bits, a 3-bit scale, the sign of delta.
void decode_iq1_s(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 256, p += 50) {
        float d = load_half(p);
        for (int v = 0; v < 32; v++) {
            unsigned high = load_u16(p + 34 + 2 * (v / 4));
            float scale = d * (float)(2 * field(high, 12, 7) + 1);
            float delta = high & 0x8000 ? -0.125f : 0.125f;
            unsigned index = p[2 + v] | field(high, 3 * (v % 4), 7) << 8;
            iq1_vector(scale, index, delta, values + i + 8 * v);
        }
    }
}

// Block: 32 bytes as in IQ1_S; 16 bytes, four bits for each vector: its high three bits and the
// sign of delta; four times 16 bits: four 3-bit scales, each of two vectors, and a quarter of the
// half d.
void decode_iq1_m(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 256, p += 56) {
        unsigned scales[4], d_bits = 0;
        for (int k = 0; k < 4; k++) {
            scales[k] = load_u16(p + 48 + 2 * k);
            d_bits |= (scales[k] >> 12) << 4 * k;
        }
        float d = half_to_float((uint16_t)d_bits);
        for (int v = 0; v < 32; v++) {
            unsigned high = field(p[32 + v / 2], 4 * (v % 2), 15);
            float scale = d * (float)(2 * field(scales[v / 8], 3 * (v / 2 % 4), 7) + 1);
            float delta = high & 8 ? -0.125f : 0.125f;
            iq1_vector(scale, p[v] | (high & 7) << 8, delta, values + i + 8 * v);
        }
    }
}

// Bit j turns the sign: no branch, since nobody could foretell it.
static float signed_by(float x, unsigned signs, int j)
{
    return float_of_bits(bits_of_float(x) ^ (signs >> j & 1) << 31);
}

// Eight values of a vector of packed 2-bit levels.
static void iq2_vector(float scale, unsigned packed, unsigned signs, float *out)
{
    const float levels[4] = {scale * 8, scale * 25, scale * 43, 0}; // no table has a 3
    for (int j = 0; j < 8; j++) out[j] = signed_by(levels[field(packed, 2 * j, 3)], signs, j);
}

static float iq2_scale(float d, unsigned s)
{
    return d * (0.5f + (float)s) * 0.25f;
}

// Block: half d; for each 32 values 4 bytes, indices of four vectors, and 32 bits: 7 sign bits for
// each vector and a 4-bit scale.
void decode_iq2_xxs(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 256, p += 66) {
        float d = load_half(p);
        for (int v = 0; v < 32; v++) {
            const uint8_t *group = p + 2 + 8 * (v / 4);
            uint32_t rest = load_u32(group + 4);
            unsigned signs = iq_even_signs(field(rest, 7 * (v % 4), 127));
            iq2_vector(iq2_scale(d, rest >> 28), iq2_xxs_grid[group[v % 4]], signs,
                       values + i + 8 * v);
        }
    }
}

// Block: half d; 16 bits for each of 32 vectors: 9 bits of index, 7 sign bits; 8 bytes, a 4-bit
// scale for every two vectors.
void decode_iq2_xs(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 256, p += 74) {
        float d = load_half(p);
        for (int v = 0; v < 32; v++) {
            unsigned q = load_u16(p + 2 + 2 * v);
            unsigned scale = field(p[66 + v / 4], 4 * (v / 2 % 2), 15);
            iq2_vector(iq2_scale(d, scale), iq2_xs_grid[q & 511], iq_even_signs(q >> 9),
                       values + i + 8 * v);
        }
    }
}

// Block: half d; 32 bytes, the low eight bits of the indices of 32 vectors; 32 bytes of signs; 8
// bytes, the high two bits of the indices; 8 bytes of scales as in IQ2_XS.
void decode_iq2_s(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 256, p += 82) {
        float d = load_half(p);
        for (int v = 0; v < 32; v++) {
            unsigned index = p[2 + v] | field(p[66 + v / 4], 2 * (v % 4), 3) << 8;
            unsigned scale = field(p[74 + v / 4], 4 * (v / 2 % 2), 15);
            iq2_vector(iq2_scale(d, scale), iq2_s_grid[index], p[34 + v], values + i + 8 * v);
        }
    }
}

// Four values of a vector of packed levels of 3 bits.
static void iq3_vector(const float levels[8], unsigned packed, unsigned signs, float *out)
{
    for (int j = 0; j < 4; j++) out[j] = signed_by(levels[field(packed, 4 * j, 7)], signs, j);
}

// Block: half d; 64 bytes, indices of 64 vectors of four; for each 32 values 32 bits: 7 sign bits
// for every two vectors and a 4-bit scale.
void decode_iq3_xxs(const void *blocks, float *values, size_t n)
{
    static const float unscaled[8] = {4, 12, 20, 28, 36, 44, 52, 62};
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 256, p += 98) {
        float d = load_half(p);
        for (int g = 0; g < 8; g++) {
            uint32_t rest = load_u32(p + 66 + 4 * g);
            float scale = d * (0.5f + (float)(rest >> 28)) * 0.5f, levels[8];
            for (int k = 0; k < 8; k++) levels[k] = scale * unscaled[k];
            for (int v = 0; v < 8; v++) {
                unsigned signs = iq_even_signs(field(rest, 7 * (v / 2), 127)) >> 4 * (v % 2);
                iq3_vector(levels, iq3_xxs_grid[p[2 + 8 * g + v]], signs,
                           values + i + 32 * g + 4 * v);
            }
        }
    }
}

// Block: half d; 64 bytes, the low eight bits of the indices of 64 vectors of four; 8 bytes, their
// ninth bits; 32 bytes of signs; 4 bytes, a 4-bit scale for every eight vectors.
void decode_iq3_s(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 256, p += 110) {
        float d = load_half(p);
        for (int g = 0; g < 8; g++) {
            float scale = d * (float)(1 + 2 * field(p[106 + g / 2], 4 * (g % 2), 15)), levels[8];
            for (int k = 0; k < 8; k++) levels[k] = scale * (float)(2 * k + 1);
            for (int v = 0; v < 8; v++) {
                unsigned index = p[2 + 8 * g + v] | field(p[66 + g], v, 1) << 8;
                unsigned signs = field(p[74 + 4 * g + v / 2], 4 * (v % 2), 15);
                iq3_vector(levels, iq3_s_grid[index], signs, values + i + 32 * g + 4 * v);
            }
        }
    }
}
