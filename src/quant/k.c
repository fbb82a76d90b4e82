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
