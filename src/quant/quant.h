// The formats that weights are stored in: one table, a row per format.
//
// A tensor row is a whole number of blocks; a block holds `block_values` values in `block_bytes`
// bytes. Bytes are little-endian, as in the file.
#ifndef PUMICE_QUANT_QUANT_H
#define PUMICE_QUANT_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

// GGUF's type numbers.
typedef enum quant_type {
    QUANT_F32 = 0,
    QUANT_F16 = 1,
    QUANT_Q4_0 = 2,
    QUANT_Q4_1 = 3,
    QUANT_Q5_0 = 6,
    QUANT_Q5_1 = 7,
    QUANT_Q8_0 = 8,
    QUANT_Q2_K = 10,
    QUANT_Q3_K = 11,
    QUANT_Q4_K = 12,
    QUANT_Q5_K = 13,
    QUANT_Q6_K = 14,
    QUANT_IQ2_XXS = 16,
    QUANT_IQ2_XS = 17,
    QUANT_IQ3_XXS = 18,
    QUANT_IQ1_S = 19,
    QUANT_IQ4_NL = 20,
    QUANT_IQ3_S = 21,
    QUANT_IQ2_S = 22,
    QUANT_IQ4_XS = 23,
    QUANT_IQ1_M = 29,
    QUANT_BF16 = 30,
    QUANT_TQ1_0 = 34,
    QUANT_TQ2_0 = 35,
    QUANT_MXFP4 = 39,
} quant_type;

typedef struct quant_format {
    quant_type type;
    const char *name; // "Q8_0"
    uint32_t block_values;
    uint32_t block_bytes;
    // n values (a multiple of block_values) from or to blocks. `decode` gives the bits that the
    // format's definition gives in float arithmetic. Either is NULL where pumice has none.
    void (*decode)(const void *blocks, float *values, size_t n);
    void (*encode)(const float *values, void *blocks, size_t n);
} quant_format;

// NULL for a type number that isn't in the table (or is, without `decode`).
const quant_format *quant_format_of(uint32_t type);
// By name, any case ("q8_0"); NULL when unknown.
const quant_format *quant_format_named(const char *name);
// The table in order, for listings; NULL past its end.
const quant_format *quant_format_at(size_t index);
// The name that the GGUF specification gives a type number, also of formats that pumice doesn't
// decode (I8, Q8_1, ...); "unknown" beyond.
const char *quant_type_name(uint32_t type);
// Block size and bytes of any type of the specification, decodable or not; false when unknown.
bool quant_type_block(uint32_t type, uint32_t *block_values, uint32_t *block_bytes);
// Bytes of a row of n_cols values; false when n_cols is no whole number of blocks, or on overflow.
bool quant_row_bytes(uint32_t type, uint64_t n_cols, uint64_t *bytes);

// Records "WHERE: type N (NAME) is not supported; supported: F32, F16, ..." and returns
// PM_ERROR_FILE: what to say of a tensor that quant_format_of has no row for.
pm_status quant_unsupported(uint32_t type, const char *where);

// IEEE half and bfloat16 to and from float; rounding is to nearest even, NaN stays NaN.
float quant_f16_to_f32(uint16_t h);
uint16_t quant_f32_to_f16(float x);
float quant_bf16_to_f32(uint16_t h);
uint16_t quant_f32_to_bf16(float x);

// 8-bit activations (op form act=q8) are Q8_0 blocks, as Q8_0's `encode` makes them: per 32 values
// d = amax/127 stored as f16, q = round(x * (1/d)) half away from zero, with the d before rounding.
enum { QUANT_Q8_VALUES = 32, QUANT_Q8_BYTES = 34 };

#endif
