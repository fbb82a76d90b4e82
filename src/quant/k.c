// Decoders of the K formats: blocks of 256 values in sub-blocks of 16 or 32 with scales of a few
// bits, which one or two halves per block scale in turn. TQ1_0 and TQ2_0, ternary, are here too.
#include "quant/blocks.h"
#include "quant/k.h"

void k_scale_min(const uint8_t *packed, uint8_t scale[8], uint8_t min[8])
{
    for (int j = 0; j < 4; j++) {
        scale[j] = packed[j] & 63;
        min[j] = packed[4 + j] & 63;
        scale[4 + j] = (uint8_t)((packed[8 + j] & 15) | (packed[j] >> 6) << 4);
        min[4 + j] = (uint8_t)(packed[8 + j] >> 4 | (packed[4 + j] >> 6) << 4);
    }
}

void k_pack_scale_min(const uint8_t scale[8], const uint8_t min[8], uint8_t *packed)
{
    for (int j = 0; j < 4; j++) {
        packed[j] = (uint8_t)(scale[j] | (scale[4 + j] >> 4) << 6);
        packed[4 + j] = (uint8_t)(min[j] | (min[4 + j] >> 4) << 6);
        packed[8 + j] = (uint8_t)((scale[4 + j] & 15) | (min[4 + j] & 15) << 4);
    }
}

// Block: half d, half dmin, 12 bytes of scales; 128 bytes: 32 bytes hold sub-blocks 2g (low half)
// and 2g + 1 (high half).
void decode_q4_k(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 256, p += 144) {
        float d = load_half(p), dmin = load_half(p + 2);
        uint8_t scale[8], min[8];
        k_scale_min(p + 4, scale, min);
        const uint8_t *q = p + 16;
        float *out = values + i;
        for (int g = 0; g < 4; g++, q += 32, out += 64) {
            float d0 = d * (float)scale[2 * g], m0 = dmin * (float)min[2 * g];
            float d1 = d * (float)scale[2 * g + 1], m1 = dmin * (float)min[2 * g + 1];
            for (int j = 0; j < 32; j++) {
                out[j] = d0 * (float)(q[j] & 15) - m0;
                out[32 + j] = d1 * (float)(q[j] >> 4) - m1;
            }
        }
    }
}

// Block: 128 bytes of low four bits, 64 bytes of high two bits, 16 signed scales (one per 16
// values), half d. Each half of the block takes 64 low and 32 high bytes, as four runs of 32.
void decode_q6_k(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 256, p += 210) {
        float d = load_half(p + 208);
        float scale[16];
        for (int s = 0; s < 16; s++) scale[s] = d * (float)(int8_t)p[192 + s];
        for (int half = 0; half < 2; half++) {
            const uint8_t *low = p + 64 * half, *high = p + 128 + 32 * half;
            const float *s = scale + 8 * half;
            float *out = values + i + 128 * half;
            for (int j = 0; j < 32; j++) {
                int h = high[j], k = j / 16;
                out[j] = s[k] * (float)(((low[j] & 15) | (h & 3) << 4) - 32);
                out[32 + j] = s[2 + k] * (float)(((low[32 + j] & 15) | (h >> 2 & 3) << 4) - 32);
                out[64 + j] = s[4 + k] * (float)((low[j] >> 4 | (h >> 4 & 3) << 4) - 32);
                out[96 + j] = s[6 + k] * (float)((low[32 + j] >> 4 | h >> 6 << 4) - 32);
            }
        }
    }
}

// Block: 16 bytes, the scale (low half) and minimum (high half) of 16 values each; 64 bytes; half
// d, half dmin. 32 bytes hold four runs of 32 values, two bits each.
void decode_q2_k(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 256, p += 84) {
        float d = load_half(p + 80), dmin = load_half(p + 82);
        for (int run = 0; run < 8; run++) {
            const uint8_t *q = p + 16 + 32 * (run / 4);
            float *out = values + i + 32 * run;
            for (int j = 0; j < 32; j++) {
                int s = p[2 * run + j / 16];
                float scale = d * (float)(s & 15), min = dmin * (float)(s >> 4);
                out[j] = scale * (float)(q[j] >> 2 * (run % 4) & 3) - min;
            }
        }
    }
}

// 12 bytes to 16 scales: 8 bytes with the low four bits of s and s + 8, then 4 bytes with the high
// two bits of s, s + 4, s + 8 and s + 12.
static void q3_scales(const uint8_t *packed, float d, float scale[16])
{
    for (int s = 0; s < 16; s++) {
        int low = packed[s % 8] >> 4 * (s / 8) & 15;
        int high = packed[8 + s % 4] >> 2 * (s / 4) & 3;
        scale[s] = d * (float)((low | high << 4) - 32);
    }
}

// Block: 32 bytes, bit r of byte j the third bit of value j of run r; 64 bytes as in Q2_K; 12 bytes
// of scales; half d. Values go from -4 (third bit clear) to 3.
void decode_q3_k(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 256, p += 110) {
        float scale[16];
        q3_scales(p + 96, load_half(p + 108), scale);
        for (int run = 0; run < 8; run++) {
            const uint8_t *q = p + 32 + 32 * (run / 4);
            float *out = values + i + 32 * run;
            for (int j = 0; j < 32; j++) {
                int low = q[j] >> 2 * (run % 4) & 3, high = p[j] >> run & 1;
                out[j] = scale[2 * run + j / 16] * (float)((low | high << 2) - 4);
            }
        }
    }
}

// Block: half d, half dmin, 12 bytes of scales; 32 bytes, bit s of byte j the fifth bit of value j
// of sub-block s; 128 bytes as in Q4_K.
void decode_q5_k(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 256, p += 176) {
        float d = load_half(p), dmin = load_half(p + 2);
        uint8_t scale[8], min[8];
        k_scale_min(p + 4, scale, min);
        for (int s = 0; s < 8; s++) {
            const uint8_t *high = p + 16, *low = p + 48 + 32 * (s / 2);
            float ds = d * (float)scale[s], ms = dmin * (float)min[s];
            float *out = values + i + 32 * s;
            for (int j = 0; j < 32; j++) {
                int q = (low[j] >> 4 * (s % 2) & 15) | (high[j] >> s & 1) << 4;
                out[j] = ds * (float)q - ms;
            }
        }
    }
}

// Block: 32 + 16 bytes of five trits, 4 bytes of four, half d. A byte is a fraction of 256 whose
// ternary digits are the values + 1: multiplied by three, the next digit is what leaves the byte.
// Digit k of the bytes of one group is a run of values.
void decode_tq1_0(const void *blocks, float *values, size_t n)
{
    static const struct {
        uint8_t first, n_bytes, n_trits;
    } groups[3] = {{0, 32, 5}, {32, 16, 5}, {48, 4, 4}};
    const uint8_t *p = blocks;
    float *out = values;
    for (size_t i = 0; i < n; i += 256, p += 54) {
        float d = load_half(p + 52);
        for (int g = 0; g < 3; g++) {
            unsigned power = 1;
            for (int k = 0; k < groups[g].n_trits; k++, power *= 3) {
                for (int j = 0; j < groups[g].n_bytes; j++) {
                    unsigned rest = p[groups[g].first + j] * power & 255;
                    *out++ = d * (float)((int)(rest * 3 >> 8) - 1);
                }
            }
        }
    }
}

// Block: 64 bytes, two bits a value as in Q2_K; half d. Values go from -1 to 2.
void decode_tq2_0(const void *blocks, float *values, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 256, p += 66) {
        float d = load_half(p + 64);
        for (int run = 0; run < 8; run++) {
            const uint8_t *q = p + 32 * (run / 4);
            for (int j = 0; j < 32; j++) {
                values[i + (size_t)(32 * run + j)] = d * (float)((q[j] >> 2 * (run % 4) & 3) - 1);
            }
        }
    }
}
