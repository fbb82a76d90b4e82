// The table, names and sizes, half and bfloat16 conversion, and what encoders do with odd input.
#include "support/test.h"

#include <math.h>
#include <stdbool.h>

#include "quant/quant.h"

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// A half's value by the definition of IEEE 754, for finite ones.
static float half_value(unsigned h)
{
    int exponent = (int)(h >> 10 & 31), mantissa = (int)(h & 1023);
    float x =
        exponent ? ldexpf((float)(1024 + mantissa), exponent - 25) : ldexpf((float)mantissa, -24);
    return h & 0x8000 ? -x : x;
}

static void every_half_to_float_and_back(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        float x = quant_f16_to_f32((uint16_t)h);
        unsigned back = quant_f32_to_f16(x);
        if ((h & 0x7fff) > 0x7c00) {
            assert_true(isnan(x));
            assert_int_equal(back, h | 0x200); // made quiet, else unchanged
        } else if ((h & 0x7fff) == 0x7c00) {
            assert_true(isinf(x) && !signbit(x) == !(h & 0x8000));
            assert_int_equal(back, h);
        } else {
            assert_int_equal(bits_of(x), bits_of(half_value(h)));
            assert_int_equal(back, h);
        }
    }
}

// Between each two neighbours: the middle goes to the even one, everything else to the nearer.
static void float_to_half_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (unsigned sign = 0; sign <= 0x8000; sign += 0x8000) {
        for (unsigned h = 0; h < 0x7c00; h++) {
            double low = half_value(h), high = h == 0x7bff ? 65536 : half_value(h + 1);
            float middle = (float)((low + high) / 2), direction = sign ? -1.0f : 1.0f;
            unsigned even = h & 1 ? h + 1 : h;
            assert_int_equal(quant_f32_to_f16(direction * middle), sign | even);
            assert_int_equal(quant_f32_to_f16(direction * nextafterf(middle, 0)), sign | h);
            assert_int_equal(quant_f32_to_f16(direction * nextafterf(middle, INFINITY)),
                             sign | (h + 1));
        }
    }
}

static void float_to_half_at_the_ends(void **state)
{
    (void)state;
    assert_int_equal(quant_f32_to_f16(0.0f), 0);
    assert_int_equal(quant_f32_to_f16(-0.0f), 0x8000);
    assert_int_equal(quant_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(quant_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(quant_f32_to_f16(-3.4e38f), 0xfc00);
    assert_int_equal(quant_f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(quant_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(quant_f32_to_f16(of_bits(1)), 0);
    assert_int_equal(quant_f32_to_f16(of_bits(0x80000001u)), 0x8000);
    static const uint32_t nans[] = {0x7f800001u, 0x7fc00000u, 0xff800001u, 0xffffffffu};
    for (size_t i = 0; i < sizeof nans / sizeof nans[0]; i++) {
        unsigned h = quant_f32_to_f16(of_bits(nans[i])), b = quant_f32_to_bf16(of_bits(nans[i]));
        assert_true((h & 0x7fff) > 0x7c00 && (h & 0x8000) == (nans[i] >> 16 & 0x8000));
        assert_true((b & 0x7fff) > 0x7f80);
    }
}

static void bfloat16(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float x = quant_bf16_to_f32((uint16_t)h);
        assert_int_equal(bits_of(x), h << 16);
        bool nan = (h & 0x7fff) > 0x7f80;
        assert_int_equal(quant_f32_to_bf16(x), nan ? h | 0x40 : h);
        if (nan || (h & 0x7fff) == 0x7f80) continue;
        // halfway to the next, and one bit to either side of it
        assert_int_equal(quant_f32_to_bf16(of_bits(h << 16 | 0x7fff)), h);
        assert_int_equal(quant_f32_to_bf16(of_bits(h << 16 | 0x8000)), h + (h & 1));
        assert_int_equal(quant_f32_to_bf16(of_bits(h << 16 | 0x8001)), h + 1);
    }
}

// Numbers, names, block values and block bytes as the GGUF specification has them.
static const struct {
    uint32_t type;
    const char *name;
    uint32_t values, bytes;
    bool decodes;
} specified[] = {
    {0, "F32", 1, 4, true},         {1, "F16", 1, 2, true},         {2, "Q4_0", 32, 18, true},
    {3, "Q4_1", 32, 20, true},      {6, "Q5_0", 32, 22, true},      {7, "Q5_1", 32, 24, true},
    {8, "Q8_0", 32, 34, true},      {9, "Q8_1", 32, 36, false},     {10, "Q2_K", 256, 84, true},
    {11, "Q3_K", 256, 110, true},   {12, "Q4_K", 256, 144, true},   {13, "Q5_K", 256, 176, true},
    {14, "Q6_K", 256, 210, true},   {15, "Q8_K", 256, 292, false},  {16, "IQ2_XXS", 256, 66, true},
    {17, "IQ2_XS", 256, 74, true},  {18, "IQ3_XXS", 256, 98, true}, {19, "IQ1_S", 256, 50, true},
    {20, "IQ4_NL", 32, 18, true},   {21, "IQ3_S", 256, 110, true},  {22, "IQ2_S", 256, 82, true},
    {23, "IQ4_XS", 256, 136, true}, {24, "I8", 1, 1, false},        {25, "I16", 1, 2, false},
    {26, "I32", 1, 4, false},       {27, "I64", 1, 8, false},       {28, "F64", 1, 8, false},
    {29, "IQ1_M", 256, 56, true},   {30, "BF16", 1, 2, true},       {34, "TQ1_0", 256, 54, true},
    {35, "TQ2_0", 256, 66, true},   {39, "MXFP4", 32, 17, true},    {40, "NVFP4", 64, 36, false},
    {41, "Q1_0", 128, 18, false},
};

static void types_of_the_specification(void **state)
{
    (void)state;
    size_t n_decode = 0;
    for (size_t i = 0; i < sizeof specified / sizeof specified[0]; i++) {
        uint32_t values = 0, bytes = 0, type = specified[i].type;
        assert_string_equal(quant_type_name(type), specified[i].name);
        assert_true(quant_type_block(type, &values, &bytes));
        assert_int_equal(values, specified[i].values);
        assert_int_equal(bytes, specified[i].bytes);
        const quant_format *format = quant_format_of(type);
        assert_int_equal(format != NULL, specified[i].decodes);
        assert_ptr_equal(quant_format_named(specified[i].name), format);
        if (!format) continue;
        n_decode++;
        assert_int_equal(format->type, type);
        assert_non_null(format->decode);
        assert_int_equal(format->block_values, values);
        assert_int_equal(format->block_bytes, bytes);
    }
    size_t n_table = 0;
    while (quant_format_at(n_table)) n_table++;
    assert_int_equal(n_table, n_decode);
}

static void removed_and_unknown_types(void **state)
{
    (void)state;
    static const uint32_t removed[] = {4, 5, 31, 32, 33, 36, 37, 38};
    uint32_t values, bytes;
    uint64_t row;
    for (size_t i = 0; i < sizeof removed / sizeof removed[0]; i++) {
        assert_string_not_equal(quant_type_name(removed[i]), "unknown");
        assert_false(quant_type_block(removed[i], &values, &bytes));
        assert_false(quant_row_bytes(removed[i], 256, &row));
        assert_null(quant_format_of(removed[i]));
    }
    static const uint32_t unknown[] = {42, 99, 1000, 0x7fffffff, 0x80000000u, 0xffffffffu};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        assert_string_equal(quant_type_name(unknown[i]), "unknown");
        assert_false(quant_type_block(unknown[i], &values, &bytes));
        assert_false(quant_row_bytes(unknown[i], 0, &row));
        assert_null(quant_format_of(unknown[i]));
    }
}

static void formats_by_name(void **state)
{
    (void)state;
    assert_ptr_equal(quant_format_named("q8_0"), quant_format_of(QUANT_Q8_0));
    assert_ptr_equal(quant_format_named("Iq2_xXs"), quant_format_of(QUANT_IQ2_XXS));
    static const char *const wrong[] = {"", "q8", "q8_00", "q8_0 ", "Q4_2", "I32", "unknown"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_null(quant_format_named(wrong[i]));
}

static void row_bytes(void **state)
{
    (void)state;
    uint64_t bytes = 7;
    assert_true(quant_row_bytes(QUANT_Q4_K, 512, &bytes));
    assert_int_equal(bytes, 288);
    assert_true(quant_row_bytes(QUANT_Q4_K, 0, &bytes));
    assert_int_equal(bytes, 0);
    assert_true(quant_row_bytes(27, 3, &bytes)); // I64
    assert_int_equal(bytes, 24);
    assert_false(quant_row_bytes(QUANT_Q4_K, 128, &bytes));
    assert_false(quant_row_bytes(QUANT_Q8_0, 33, &bytes));
    // Q8_0 takes more bytes than values: the greatest row that fits, and one block more
    uint64_t blocks = UINT64_MAX / 34;
    assert_true(quant_row_bytes(QUANT_Q8_0, blocks * 32, &bytes));
    assert_int_equal(bytes, blocks * 34);
    assert_false(quant_row_bytes(QUANT_Q8_0, (blocks + 1) * 32, &bytes));
    assert_true(quant_row_bytes(QUANT_F32, UINT64_MAX / 4, &bytes));
    assert_false(quant_row_bytes(QUANT_F32, UINT64_MAX / 4 + 1, &bytes));
    assert_int_equal(bytes, UINT64_MAX / 4 * 4); // left alone by the failure
}

static void r32_unsupported_type_lists_the_supported(void **state)
{
    (void)state;
    assert_int_equal(quant_unsupported(9, "model.gguf: blk.0.attn_q.weight"), PM_ERROR_FILE);
    const char *start = "model.gguf: blk.0.attn_q.weight: type 9 (Q8_1) is not supported; "
                        "supported: F32, F16, ";
    assert_int_equal(strncmp(error_message(), start, strlen(start)), 0);
    for (size_t i = 0; quant_format_at(i); i++) {
        char listed[32];
        snprintf(listed, sizeof listed, " %s%s", quant_format_at(i)->name,
                 quant_format_at(i + 1) ? "," : "");
        assert_non_null(strstr(error_message(), listed));
    }
    assert_int_equal(quant_unsupported(4000000000u, "x"), PM_ERROR_FILE);
    assert_non_null(strstr(error_message(), "x: type 4000000000 (unknown) is not supported"));
}

// No encoder may do anything undefined (the sanitizers look), whatever the values; ordinary values
// beside a block of odd ones are not touched by it.
static void encoders_take_any_floats(void **state)
{
    (void)state;
    static const uint32_t odd[] = {
        0,           0x80000000u, 1,           0x007fffffu, 0x00800000u, 0x33800000u,
        0x7f7fffffu, 0xff7fffffu, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00000u,
        0x3f800000u, 0x477fe000u, 0x4f000000u, 0xcf000000u,
    };
    enum { N_ODD = sizeof odd / sizeof odd[0] };
    for (size_t f = 0; quant_format_at(f); f++) {
        const quant_format *format = quant_format_at(f);
        if (!format->encode) continue;
        float values[512], back[512];
        unsigned char blocks[512 * 4];
        for (size_t a = 0; a < N_ODD; a++) {
            for (size_t b = 0; b < N_ODD; b++) {
                for (size_t i = 0; i < 256; i++) {
                    values[i] = of_bits(i % 3 ? odd[a] : odd[b]);
                    values[256 + i] = (float)i / 128.0f - 1.0f;
                }
                format->encode(values, blocks, 512);
                format->decode(blocks, back, 512);
                for (size_t i = 256; i < 512; i++) assert_true(fabsf(back[i] - values[i]) <= 0.5f);
            }
        }
    }
}

// Every byte pattern is a block: no index may leave a codebook (the sanitizers look), and nothing
// is read or written beyond the n values.
static void decoders_take_any_bytes(void **state)
{
    (void)state;
    enum { N_VALUES = 64 * 256 };
    for (size_t f = 0; quant_format_at(f); f++) {
        const quant_format *format = quant_format_at(f);
        uint64_t n_bytes, random = 1 + f;
        assert_true(quant_row_bytes((uint32_t)format->type, N_VALUES, &n_bytes));
        unsigned char *blocks = malloc((size_t)n_bytes);
        float *values = malloc(N_VALUES * sizeof *values);
        assert_true(blocks && values);
        for (size_t i = 0; i < n_bytes; i++) {
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            blocks[i] = (unsigned char)(random >> 56);
        }
        format->decode(blocks, values, N_VALUES);
        // all ones: the greatest index of every codebook
        memset(blocks, 0xff, (size_t)n_bytes);
        format->decode(blocks, values, N_VALUES);
        format->decode(blocks, values, 0);
        free(blocks);
        free(values);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_to_float_and_back),
        cmocka_unit_test(float_to_half_rounds_to_nearest_even),
        cmocka_unit_test(float_to_half_at_the_ends),
        cmocka_unit_test(bfloat16),
        cmocka_unit_test(types_of_the_specification),
        cmocka_unit_test(removed_and_unknown_types),
        cmocka_unit_test(formats_by_name),
        cmocka_unit_test(row_bytes),
        cmocka_unit_test(r32_unsupported_type_lists_the_supported),
        cmocka_unit_test(decoders_take_any_bytes),
        cmocka_unit_test(encoders_take_any_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
