// The inner loops of the CPU executor: one table of functions per instruction set.
//
// Weights lie in groups of 16 rows, value k of the 16 rows side by side, so that a vector lane is a
// row of the weight: no sum ever runs across lanes, and a result has the same bits for one row of
// activations as for many. Every function's result for a row depends on that row alone.
#ifndef PUMICE_EXEC_CPU_KERNELS_H
#define PUMICE_EXEC_CPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/plan.h"

enum {
    CPU_LANES = 16,     // rows of a group
    CPU_BLOCK = 32,     // values that share a scale of the activations
    CPU_CHUNK = 256,    // columns that are unpacked at a time; a multiple of every format's block
    CPU_KEYS = 64,      // keys that attention takes at a time, from position 0
    CPU_MAX_SUBS = 16,  // sub-blocks of 16 values in a chunk
    CPU_TILE_COLS = 32, // columns of a product's tile: two groups, one block of 8-bit output
};

// ---- weights ----------------------------------------------------------------------------------

// How a format's integers lie in memory. A group is chunks of CPU_CHUNK columns (the last may be
// shorter), one behind the other: a product reads one stream. A chunk is six planes (cpu_planes).
// A block of 32 columns of a group is 512 values v in the order [8 quads of columns][16 rows][4
// columns]; plane `low` holds low_bits of each (4 bits: byte i has values i and i + 256; 2 bits: i,
// i + 128, ...), `high` the bits above (1 bit: byte i has values i, i + 64, ...). d, m, sub and
// sub_min follow, 16 rows side by side. A weight is scale * (v - zero) + min, where
//   scale = d / 2^fraction * sub (without sub: 1), min = m, or -(m * sub_min), or absent.
// Where `levels` are, the value in the planes is an index and v the level: a few magnitudes with
// signs take the bits of their number, not of their size.
typedef struct cpu_format {
    quant_type type;
    uint8_t low_bits, high_bits;
    uint8_t zero;
    uint8_t fraction;
    uint16_t span; // values that share d and m
    uint8_t sub;   // values that share a sub-scale: 16, 32; 0: none
    bool wide;     // v above 127 occurs; then no sub-scale covers 16
    bool d_bfloat; // d is a bfloat16, not a half
    bool has_min;
    bool sub_packed;       // sub-scale and sub-minimum are the halves of one byte
    bool sub_signed;       // the sub-scale is a signed byte
    const uint8_t *levels; // [16]; NULL: the planes have v itself
} cpu_format;

// Where the planes of a chunk begin; low begins at 0.
typedef struct cpu_planes {
    uint32_t high, d, m, sub, sub_min, end;
} cpu_planes;

// Of a chunk of n columns.
static inline cpu_planes cpu_planes_of(const cpu_format *f, uint32_t n)
{
    uint32_t halves = n / f->span * 2 * CPU_LANES, subs = f->sub ? n / f->sub * CPU_LANES : 0;
    cpu_planes p = {.high = n * f->low_bits * 2u};
    p.d = p.high + n * f->high_bits * 2u;
    p.m = p.d + halves;
    p.sub = p.m + (f->has_min ? halves : 0);
    p.sub_min = p.sub + subs;
    p.end = p.sub_min + (f->has_min && !f->sub_packed ? subs : 0);
    return p;
}

typedef enum cpu_form {
    CPU_INT,  // chunks of cpu_format
    CPU_F32,  // [columns][16 rows] floats
    CPU_F16,  // the same in halves
    CPU_BF16, // the same in bfloat16
} cpu_form;

// A matrix in memory. data: [groups][group_bytes].
typedef struct cpu_weight {
    cpu_form form;
    const cpu_format *format; // of CPU_INT
    const quant_format *quant;
    uint32_t rows, cols;
    uint64_t row_bytes; // of the file's form
    uint64_t group_bytes;
    uint64_t chunk_bytes; // of CPU_INT, a whole chunk
    uint8_t *data;
} cpu_weight;

// A chunk of a group of CPU_INT, unpacked for dot_q8.
typedef struct cpu_panel {
    const uint8_t *q; // [n_blocks][8 quads][16 rows][4]
    uint32_t n_blocks;
    int zero;
    bool wide;    // values above 127 occur
    bool halves;  // a scale covers 16 values, not 32
    bool has_min; // then min is valid
    float scale[CPU_MAX_SUBS][CPU_LANES];
    float min[CPU_MAX_SUBS][CPU_LANES];
    uint8_t memory[CPU_CHUNK * CPU_LANES]; // where q points when the values had to be unpacked
} cpu_panel;

// 8-bit rows as the executor keeps them: values, per block of 32 the scale (a float that a half
// holds), per 16 values their sum. The row after is `stride` bytes further in each.
typedef struct cpu_q8 {
    int8_t *q;
    float *d;
    int32_t *sum;
    size_t stride;
} cpu_q8;

static inline cpu_q8 cpu_q8_moved(cpu_q8 x, uint32_t row, uint32_t col)
{
    size_t by = row * x.stride;
    x.q += by + col;
    x.d = (float *)(void *)((char *)x.d + by) + col / CPU_BLOCK;
    x.sum = (int32_t *)(void *)((char *)x.sum + by) + col / 16;
    return x;
}

typedef struct cpu_kernels {
    const char *name; // "plain", "avx2", "avx512": what --isa takes
    const char *label;

    // Columns [col, col + n) of a group; col a multiple of CPU_CHUNK, n at most CPU_CHUNK.
    void (*unpack)(const cpu_weight *w, uint32_t group, uint32_t col, uint32_t n, cpu_panel *p);
    // The same as floats [n][16], in `memory` or in place; of every form.
    const float *(*unpack_f32)(const cpu_weight *w, uint32_t group, uint32_t col, uint32_t n,
                               float *memory);

    // acc[row][lane] += sum over the panel's columns of weight[lane] * x[row]; rows of acc are
    // CPU_TILE_COLS floats apart
    void (*dot_q8)(const cpu_panel *p, cpu_q8 x, uint32_t n_rows, float *acc);
    // panel: [n][16]; x: rows `stride` floats apart
    void (*dot_f32)(const float *panel, uint32_t n, const float *x, size_t stride, uint32_t n_rows,
                    float *acc);

    // n values (a multiple of 32) to 8 bits; a NaN or an infinity makes its block's scale NaN.
    void (*quantize)(const float *x, uint32_t n, int8_t *q, float *d, int32_t *sum);
    void (*norm)(const plan_norm_op *op, const float *x, const float *weight, const float *bias,
                 const float *residual, uint32_t n, float *out);
    void (*activate)(plan_fn fn, const float *x, float *out, uint32_t n); // in place if out == x
    void (*multiply)(const float *a, const float *b, float *out, uint32_t n);
    void (*add)(const float *a, const float *b, float *out, uint32_t n);
    void (*soft_cap)(float *x, uint32_t n, float cap); // cap * tanh(x / cap)

    // Attention. Rows of k, v, q and out are padded with zeros to a multiple of 16.
    // score[j] = q . k[j] * scale for CPU_KEYS keys, n values each, rows n apart
    void (*scores)(const float *q, const float *k, uint32_t n, float scale, float *score);
    // score[j] = exp(score[j] - max) for CPU_KEYS scores; returns their sum
    float (*exp_keys)(float *score, float max);
    // out[row] += sum over j in [first, end) of p[row][j] * v[j]; p: CPU_KEYS apart, out, v: n
    void (*weigh)(const float *p, const float *v, uint32_t first, uint32_t end, uint32_t n,
                  uint32_t n_rows, float *out);
    void (*scale)(float *x, uint32_t n, float factor);
    void (*rotate)(plan_rope kind, float *x, const float *table, uint32_t n_rot);

    // n values from and to the stored form of a cache (F32, F16) or any format (decoding only).
    void (*from_half)(const uint16_t *half, float *out, uint32_t n);
    void (*to_half)(const float *x, uint16_t *half, uint32_t n);
    void (*from_i8)(const int8_t *q, float d, float *out); // 32 values

    // Of the logits: the greatest (NaN is ignored), and the sum of exp(x - max).
    float (*greatest)(const float *x, uint32_t n);
    double (*sum_exp)(const float *x, uint32_t n, float max);
} cpu_kernels;

extern const cpu_kernels cpu_plain;
extern const cpu_kernels cpu_avx2;   // on x86-64 only
extern const cpu_kernels cpu_avx512; // on x86-64 only

#endif
