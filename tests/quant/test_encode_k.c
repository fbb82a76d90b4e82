// The quality of the Q4_K and Q6_K encoders: their squared error against that of llama.cpp's
// reference quantizers (quantize_row_q4_K_ref, quantize_row_q6_K_ref) on the same made-up data.
#include "support/test.h"

#include <math.h>
#include <stdbool.h>

#include "quant/quant.h"

enum { N = 64 * 256 };

// About normal, exact on any machine: 12 uniform numbers of 16 bits, summed as integers.
static float normal(uint64_t *state)
{
    int sum = 0;
    for (int i = 0; i < 12; i++) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        sum += (int)(*state >> 48) - 32768;
    }
    return (float)sum / 65536.0f;
}

static float make_normal(uint64_t *state, size_t i)
{
    (void)i;
    return normal(state) * 0.03125f;
}

static float make_heavy(uint64_t *state, size_t i)
{
    (void)i;
    float x = normal(state);
    return x * x * x;
}

static float make_outliers(uint64_t *state, size_t i)
{
    float x = normal(state);
    return i % 97 == 13 ? x * 16 : x;
}

static float make_uneven(uint64_t *state, size_t i)
{
    return normal(state) * (float)(1 + i / 16 % 13);
}

static float make_positive(uint64_t *state, size_t i)
{
    (void)i;
    return fabsf(normal(state));
}

static float make_shifted(uint64_t *state, size_t i)
{
    return normal(state) + (float)(i / 32 % 5) - 2;
}

static float make_tiny(uint64_t *state, size_t i)
{
    (void)i;
    return normal(state) * 0x1p-12f;
}

// Squared errors of the reference, measured once with its C code over these N values.
static const struct {
    const char *name;
    float (*make)(uint64_t *state, size_t i);
    double q4_k, q6_k;
} cases[] = {
    {"normal", make_normal, 0.0780986, 0.00487991}, {"heavy", make_heavy, 1934.47, 140.273},
    {"outliers", make_outliers, 608.738, 61.4931},  {"uneven", make_uneven, 5645.09, 328.566},
    {"positive", make_positive, 28.2762, 5.0348},   {"shifted", make_shifted, 81.8333, 10.3235},
    {"tiny", make_tiny, 5.28759e-06, 1.51482e-06},
};

static void make(size_t c, float *x)
{
    uint64_t state = 1 + c;
    for (size_t i = 0; i < N; i++) x[i] = cases[c].make(&state, i);
}

static double squared_error(uint32_t type, const float *x)
{
    static float back[N];
    static unsigned char blocks[N];
    const quant_format *format = quant_format_of(type);
    format->encode(x, blocks, N);
    format->decode(blocks, back, N);
    double sum = 0;
    for (size_t i = 0; i < N; i++) sum += ((double)x[i] - back[i]) * ((double)x[i] - back[i]);
    return sum;
}

static void as_good_as_the_reference(void **state)
{
    (void)state;
    static float x[N];
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        make(c, x);
        double q4 = squared_error(QUANT_Q4_K, x), q6 = squared_error(QUANT_Q6_K, x);
        print_message("%-9s Q4_K %.4f of the reference's squared error, Q6_K %.4f\n", cases[c].name,
                      q4 / cases[c].q4_k, q6 / cases[c].q6_k);
        assert_true(q4 <= 1.02 * cases[c].q4_k);
        assert_true(q6 <= 1.02 * cases[c].q6_k);
    }
}

// Constant blocks come back up to the rounding of a half.
static void constants_come_back(void **state)
{
    (void)state;
    static const uint32_t types[] = {QUANT_Q4_K, QUANT_Q6_K};
    for (size_t t = 0; t < 2; t++) {
        const quant_format *format = quant_format_of(types[t]);
        float x[256], back[256];
        unsigned char blocks[256];
        static const float constants[] = {0, 1, -1, 0.25f, -0.25f};
        for (size_t c = 0; c < sizeof constants / sizeof constants[0]; c++) {
            for (size_t i = 0; i < 256; i++) x[i] = constants[c];
            format->encode(x, blocks, 256);
            format->decode(blocks, back, 256);
            for (size_t i = 0; i < 256; i++)
                assert_true(fabsf(back[i] - x[i]) <= fabsf(x[i]) * 0x1p-11f);
        }
    }
}

// A block's bytes depend on its own values only.
static void blocks_are_independent(void **state)
{
    (void)state;
    static const uint32_t types[] = {QUANT_Q4_K, QUANT_Q6_K};
    static float x[N];
    static unsigned char all[N], one[256];
    make(0, x);
    for (size_t t = 0; t < 2; t++) {
        const quant_format *format = quant_format_of(types[t]);
        size_t bytes = format->block_bytes;
        format->encode(x, all, N);
        for (size_t b = 0; b < N / 256; b++) {
            format->encode(x + 256 * b, one, 256);
            assert_memory_equal(one, all + bytes * b, bytes);
        }
    }
}

// Magnitudes at the ends of what halves hold: finite, and no farther off than 0 or the limit is.
static void extreme_magnitudes(void **state)
{
    (void)state;
    static const uint32_t types[] = {QUANT_Q4_K, QUANT_Q6_K};
    static const float magnitudes[] = {0x1p-149f, 0x1p-126f, 0x1p-40f, 0x1p-26f, 0x1p-24f,
                                       0x1p-14f,  0x1p20f,   0x1p60f,  0x1p127f};
    for (size_t t = 0; t < 2; t++) {
        const quant_format *format = quant_format_of(types[t]);
        for (size_t m = 0; m < sizeof magnitudes / sizeof magnitudes[0]; m++) {
            float x[256], back[256];
            unsigned char blocks[256];
            double error = 0, zero = 0;
            for (size_t i = 0; i < 256; i++) {
                x[i] = magnitudes[m] * ((float)(i * 37 % 256) / 128.0f - 1.0f);
                zero += (double)x[i] * x[i];
            }
            format->encode(x, blocks, 256);
            format->decode(blocks, back, 256);
            for (size_t i = 0; i < 256; i++) {
                assert_true(isfinite(back[i]));
                error += ((double)x[i] - back[i]) * ((double)x[i] - back[i]);
            }
            assert_true(error <= zero);
            if (magnitudes[m] >= 0x1p-14f && magnitudes[m] <= 0x1p20f)
                assert_true(error <= 0.01 * zero);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_good_as_the_reference),
        cmocka_unit_test(constants_come_back),
        cmocka_unit_test(blocks_are_independent),
        cmocka_unit_test(extreme_magnitudes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
