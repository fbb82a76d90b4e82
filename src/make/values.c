// Random weights, a pure function of seed, tensor and place. Formats with an encoder get encoded
// values of a bell shape; Q8_0, where the gigabytes are, is written directly; of the others every
// bit pattern is valid, so blocks are random bytes whose scales are set for the wanted spread.
#include "make/make.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "quant/quant.h"

struct make_values {
    const make_tensor *t;
    const quant_format *format;
    uint64_t seed, blocks_per_row;
    float mean, std;
    uint16_t scale; // half bits: of the blocks of a format without an encoder
    float *row;     // of values to be encoded
};

// Where a block's half-precision scales lie, and their factors: those of minimums are such that the
// mean is about 0 with random quants (Q2_K: 7.5 * 1.5 = 7.5 * f; Q5_K: 31.5 * 15.5 = 31.5 * f).
static const struct {
    uint32_t type, n;
    uint32_t at[2];
    float factor[2];
} scales[] = {
    {QUANT_Q2_K, 2, {80, 82}, {1, 1.5f}}, {QUANT_Q3_K, 1, {108}, {1}},
    {QUANT_Q5_K, 2, {0, 2}, {1, 15.5f}},  {QUANT_IQ4_NL, 1, {0}, {1}},
    {QUANT_IQ4_XS, 1, {0}, {1}},          {QUANT_IQ1_S, 1, {0}, {1}},
    {QUANT_IQ2_XXS, 1, {0}, {1}},         {QUANT_IQ2_XS, 1, {0}, {1}},
    {QUANT_IQ2_S, 1, {0}, {1}},           {QUANT_IQ3_XXS, 1, {0}, {1}},
    {QUANT_IQ3_S, 1, {0}, {1}},
};

static void store_half(uint8_t *at, uint16_t half)
{
    at[0] = (uint8_t)half;
    at[1] = (uint8_t)(half >> 8);
}

// false: a format that isn't known here.
static bool set_scale(uint32_t type, uint8_t *block, uint16_t half)
{
    if (type == QUANT_IQ1_M) { // four bits at the top of each of four 16-bit words
        for (int i = 0; i < 4; i++) {
            uint8_t *high = block + 48 + 2 * i + 1;
            *high = (uint8_t)((*high & 0x0f) | (half >> 4 * i & 15) << 4);
        }
        return true;
    }
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        if (scales[i].type != type) continue;
        for (uint32_t k = 0; k < scales[i].n; k++) {
            float scale = quant_f16_to_f32(half) * scales[i].factor[k];
            store_half(block + scales[i].at[k], quant_f32_to_f16(scale));
        }
        return true;
    }
    return false;
}

static void random_bytes(uint64_t seed, uint64_t block, uint8_t *dst, size_t n)
{
    // 64 draws of 8 bytes are more than any block takes.
    for (size_t i = 0; i < n; i += 8) {
        uint64_t draw = rng_u64(seed, block * 64 + i / 8);
        memcpy(dst + i, &draw, n - i < 8 ? n - i : 8);
    }
}

// About normal with deviation 1: four 16-bit draws; var of one is 1/12.
static float bell(uint64_t draw)
{
    float sum = 0;
    for (int i = 0; i < 4; i++) sum += (float)(draw >> 16 * i & 0xffff) * 0x1p-16f;
    return (sum - 2.0f) * 1.7320508f;
}

// 32 quants, each the sum of two draws of 0 to 126, less 126: a triangle of deviation 51.8; the
// scale varies by a quarter up and down.
static void q8_block(uint64_t seed, uint64_t block, float std, uint8_t *dst)
{
    uint8_t draws[64];
    random_bytes(seed, block, draws, sizeof draws);
    float vary = 0.75f + (float)(rng_u64(seed, block * 64 + 63) >> 40) * 0x1p-25f;
    store_half(dst, quant_f32_to_f16(std / 51.8f * vary));
    for (int i = 0; i < 32; i++) {
        int sum = ((draws[i] * 127 + 64) >> 8) + ((draws[i + 32] * 127 + 64) >> 8); // mean 126
        dst[2 + i] = (uint8_t)(int8_t)(sum - 126);
    }
}

// The scale that gives random blocks of the format the wanted deviation: from that of 256 blocks
// with scale 1.
static pm_status measure_scale(make_values *w)
{
    uint8_t block[512];
    float values[256];
    double sum = 0;
    const quant_format *f = w->format;
    for (uint64_t i = 0; i < 256; i++) {
        random_bytes(w->seed, i, block, f->block_bytes);
        if (!set_scale(f->type, block, 0x3c00))
            return error_set(PM_ERROR_USAGE, "type %s can't be made: no encoder and no scale known",
                             f->name);
        f->decode(block, values, f->block_values);
        for (uint32_t k = 0; k < f->block_values; k++) sum += (double)values[k] * (double)values[k];
    }
    double std = sqrt(sum / (256.0 * f->block_values));
    w->scale = quant_f32_to_f16((float)(w->std / std));
    return PM_OK;
}

pm_status make_values_open(uint64_t seed, const make_tensor *t, uint32_t n_layer, make_values **out)
{
    *out = NULL;
    make_values *w = calloc(1, sizeof *w);
    float *row = malloc((size_t)t->dims[0] * sizeof *row);
    if (!w || !row) {
        free(w);
        free(row);
        return error_memory("a row", t->dims[0] * sizeof *row);
    }
    *w = (make_values){.t = t, .format = quant_format_of(t->type), .row = row};
    if (!w->format || t->dims[0] % w->format->block_values) {
        quant_unsupported(t->type, t->name);
        make_values_close(w);
        return PM_ERROR_FILE;
    }
    pm_status status = PM_OK;
    w->seed = seed;
    w->blocks_per_row = t->dims[0] / w->format->block_values;
    double cols = (double)t->dims[0];
    w->mean = t->fill == MAKE_FILL_NORM ? 1.0f : 0.0f;
    switch (t->fill) {
    case MAKE_FILL_EMBD: w->std = (float)(2 / sqrt(cols)); break; // logits of deviation 2
    case MAKE_FILL_MATRIX: w->std = (float)(1 / sqrt(cols)); break;
    case MAKE_FILL_OUT: w->std = (float)(1 / sqrt(cols * 2 * n_layer)); break;
    case MAKE_FILL_NORM: w->std = 0.05f; break;
    case MAKE_FILL_BIAS: w->std = 0.02f; break;
    }
    if (!w->format->encode) status = measure_scale(w);
    if (status == PM_OK)
        *out = w;
    else
        make_values_close(w);
    return status;
}

void make_values_close(make_values *w)
{
    if (!w) return;
    free(w->row);
    free(w);
}

void make_values_rows(make_values *w, uint64_t first, uint64_t n, void *dst)
{
    const quant_format *f = w->format;
    uint64_t cols = w->t->dims[0];
    uint8_t *to = dst;
    for (uint64_t row = first; row < first + n; row++) {
        if (f->encode && f->type != QUANT_Q8_0) {
            for (uint64_t i = 0; i < cols; i++)
                w->row[i] = w->mean + w->std * bell(rng_u64(w->seed, row * cols + i));
            f->encode(w->row, to, (size_t)cols);
            to += w->blocks_per_row * f->block_bytes;
            continue;
        }
        for (uint64_t i = 0; i < w->blocks_per_row; i++, to += f->block_bytes) {
            uint64_t block = row * w->blocks_per_row + i;
            if (f->type == QUANT_Q8_0) {
                q8_block(w->seed, block, w->std, to);
            } else {
                random_bytes(w->seed, block, to, f->block_bytes);
                set_scale(f->type, to, w->scale);
            }
        }
    }
}
