// The formats that the integer kernels know: how a block of the file is taken apart. What the bytes
// of a block mean is told in src/quant; here only the integers are wanted, not their product with
// the scales.
#include "exec/cpu/weights.h"

#include <string.h>

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

// The curve of IQ4, moved by 128.
static const uint8_t iq4_levels[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                       129, 141, 153, 166, 181, 197, 217, 241};

// clang-format off
static const cpu_repack repacks[] = {
    {{.type = QUANT_Q8_0, .low_bits = 8, .zero = 128, .span = 32}, 32, 34, take_q8_0},
    {{.type = QUANT_Q4_0, .low_bits = 4, .zero = 8, .span = 32}, 32, 18, take_q4_0},
    {{.type = QUANT_Q4_1, .low_bits = 4, .span = 32, .has_min = true}, 32, 20, take_q4_1},
    {{.type = QUANT_Q5_0, .low_bits = 4, .high_bits = 1, .zero = 16, .span = 32}, 32, 22,
     take_q5_0},
    {{.type = QUANT_Q5_1, .low_bits = 4, .high_bits = 1, .span = 32, .has_min = true}, 32, 24,
     take_q5_1},
    {{.type = QUANT_IQ4_NL, .low_bits = 4, .zero = 128, .span = 32, .levels = iq4_levels}, 32, 18,
     take_q4_0},
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
      .sub_signed = true, .levels = iq4_levels}, 256, 136, take_iq4_xs},
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
