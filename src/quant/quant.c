// The table of formats and the names and block sizes of everything that GGUF numbers.
#include "quant/quant.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/size.h"
#include "quant/blocks.h"

// clang-format off
static const quant_format formats[] = {
    {QUANT_F32,      "F32",        1,   4, decode_f32,     encode_f32},
    {QUANT_F16,      "F16",        1,   2, decode_f16,     encode_f16},
    {QUANT_BF16,     "BF16",       1,   2, decode_bf16,    encode_bf16},
    {QUANT_Q8_0,     "Q8_0",      32,  34, decode_q8_0,    encode_q8_0},
    {QUANT_Q4_0,     "Q4_0",      32,  18, decode_q4_0,    encode_q4_0},
    {QUANT_Q4_1,     "Q4_1",      32,  20, decode_q4_1,    encode_q4_1},
    {QUANT_Q5_0,     "Q5_0",      32,  22, decode_q5_0,    encode_q5_0},
    {QUANT_Q5_1,     "Q5_1",      32,  24, decode_q5_1,    encode_q5_1},
    {QUANT_Q2_K,     "Q2_K",     256,  84, decode_q2_k,    NULL},
    {QUANT_Q3_K,     "Q3_K",     256, 110, decode_q3_k,    NULL},
    {QUANT_Q4_K,     "Q4_K",     256, 144, decode_q4_k,    encode_q4_k},
    {QUANT_Q5_K,     "Q5_K",     256, 176, decode_q5_k,    NULL},
    {QUANT_Q6_K,     "Q6_K",     256, 210, decode_q6_k,    encode_q6_k},
    {QUANT_IQ4_NL,   "IQ4_NL",    32,  18, decode_iq4_nl,  NULL},
    {QUANT_IQ4_XS,   "IQ4_XS",   256, 136, decode_iq4_xs,  NULL},
    {QUANT_MXFP4,    "MXFP4",     32,  17, decode_mxfp4,   encode_mxfp4},
    {QUANT_IQ1_S,    "IQ1_S",    256,  50, decode_iq1_s,   NULL},
    {QUANT_IQ1_M,    "IQ1_M",    256,  56, decode_iq1_m,   NULL},
    {QUANT_IQ2_XXS,  "IQ2_XXS",  256,  66, decode_iq2_xxs, NULL},
    {QUANT_IQ2_XS,   "IQ2_XS",   256,  74, decode_iq2_xs,  NULL},
    {QUANT_IQ2_S,    "IQ2_S",    256,  82, decode_iq2_s,   NULL},
    {QUANT_IQ3_XXS,  "IQ3_XXS",  256,  98, decode_iq3_xxs, NULL},
    {QUANT_IQ3_S,    "IQ3_S",    256, 110, decode_iq3_s,   NULL},
    {QUANT_TQ1_0,    "TQ1_0",    256,  54, decode_tq1_0,   encode_tq1_0},
    {QUANT_TQ2_0,    "TQ2_0",    256,  66, decode_tq2_0,   encode_tq2_0},
};

// Numbered by the specification, but no model that pumice runs keeps weights so. Formats without a
// block size were removed from GGUF; their names are for messages.
static const struct {
    uint32_t type;
    const char *name;
    uint32_t block_values, block_bytes;
} others[] = {
    { 4, "Q4_2",         0,   0},
    { 5, "Q4_3",         0,   0},
    { 9, "Q8_1",        32,  36},
    {15, "Q8_K",       256, 292},
    {24, "I8",           1,   1},
    {25, "I16",          1,   2},
    {26, "I32",          1,   4},
    {27, "I64",          1,   8},
    {28, "F64",          1,   8},
    {31, "Q4_0_4_4",     0,   0},
    {32, "Q4_0_4_8",     0,   0},
    {33, "Q4_0_8_8",     0,   0},
    {36, "IQ4_NL_4_4",   0,   0},
    {37, "IQ4_NL_4_8",   0,   0},
    {38, "IQ4_NL_8_8",   0,   0},
    {40, "NVFP4",       64,  36},
    {41, "Q1_0",       128,  18},
};
// clang-format on

enum {
    N_FORMATS = sizeof formats / sizeof formats[0],
    N_OTHERS = sizeof others / sizeof others[0]
};

const quant_format *quant_format_of(uint32_t type)
{
    for (size_t i = 0; i < N_FORMATS; i++) {
        if ((uint32_t)formats[i].type == type) return &formats[i];
    }
    return NULL;
}

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

const quant_format *quant_format_named(const char *name)
{
    for (size_t i = 0; i < N_FORMATS; i++) {
        const char *a = formats[i].name, *b = name;
        while (*a && lower(*a) == lower(*b)) a++, b++;
        if (!*a && !*b) return &formats[i];
    }
    return NULL;
}

const quant_format *quant_format_at(size_t index)
{
    return index < N_FORMATS ? &formats[index] : NULL;
}

const char *quant_type_name(uint32_t type)
{
    const quant_format *format = quant_format_of(type);
    if (format) return format->name;
    for (size_t i = 0; i < N_OTHERS; i++) {
        if (others[i].type == type) return others[i].name;
    }
    return "unknown";
}

bool quant_type_block(uint32_t type, uint32_t *block_values, uint32_t *block_bytes)
{
    const quant_format *format = quant_format_of(type);
    if (format) {
        *block_values = format->block_values;
        *block_bytes = format->block_bytes;
        return true;
    }
    for (size_t i = 0; i < N_OTHERS; i++) {
        if (others[i].type != type || others[i].block_values == 0) continue;
        *block_values = others[i].block_values;
        *block_bytes = others[i].block_bytes;
        return true;
    }
    return false;
}

bool quant_row_bytes(uint32_t type, uint64_t n_cols, uint64_t *bytes)
{
    uint32_t block_values, block_bytes;
    if (!quant_type_block(type, &block_values, &block_bytes)) return false;
    if (n_cols % block_values != 0) return false;
    return size_mul(n_cols / block_values, block_bytes, bytes);
}

pm_status quant_unsupported(uint32_t type, const char *where)
{
    char list[512];
    size_t used = 0;
    for (size_t i = 0; i < N_FORMATS; i++) {
        int n = snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", formats[i].name);
        if (n < 0 || (size_t)n >= sizeof list - used) break;
        used += (size_t)n;
    }
    return error_set(PM_ERROR_FILE, "%s: type %" PRIu32 " (%s) is not supported; supported: %s",
                     where, type, quant_type_name(type), list);
}
