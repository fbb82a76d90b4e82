// Repacked weights of the CPU executor: they are the decoder's values bit for bit, in every format
// and with every instruction set, and the integer products take the greatest of them.
#include "support/test.h"

#include <math.h>

#include "base/os.h"
#include "exec/cpu/weights.h"

enum { ROWS = 37, MOST_COLS = 768, MOST_X_ROWS = 13 };

static uint64_t state;

static uint32_t draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

static size_t kernels_here(const cpu_kernels *out[3])
{
    size_t n = 0;
    out[n++] = &cpu_plain;
#if defined(__x86_64__)
    os_cpu_features has = os_cpu_detect();
    if (has.avx2) out[n++] = &cpu_avx2;
    if (has.avx512_vnni) out[n++] = &cpu_avx512;
#endif
    return n;
}

typedef struct matrix {
    const quant_format *format;
    cpu_weight w;
    uint8_t *file; // the rows as a file has them
    float *values; // [rows][cols], decoded
} matrix;

// Any bytes, or all bytes the same: the ends of every index, sub-scale and sign. The first byte
// counts: MXFP4's exponents are all there.
static void random_bytes(uint8_t *block, uint32_t n, uint32_t count)
{
    static const uint8_t ends[] = {0x00, 0xff, 0x77, 0x88, 0x7f, 0x80, 0x55, 0xaa};
    bool same = draw() % 8 == 0;
    uint8_t byte = ends[draw() % 8];
    for (uint32_t i = 0; i < n; i++) block[i] = same ? byte : (uint8_t)draw();
    block[0] = (uint8_t)count;
}

static double greatest(const float *values, uint32_t n)
{
    double most = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!isfinite(values[i])) return INFINITY;
        if ((double)fabsf(values[i]) > most) most = (double)fabsf(values[i]);
    }
    return most;
}

// The same, but of values that a product can hold.
static void moderate_bytes(const quant_format *format, uint8_t *block)
{
    float values[256];
    double most;
    do {
        random_bytes(block, format->block_bytes, draw());
        format->decode(block, values, format->block_values);
        most = greatest(values, format->block_values);
    } while (most < 1e-2 || most > 1e3);
}

static void make(matrix *m, const quant_format *format, uint32_t cols, bool moderate)
{
    *m = (matrix){.format = format};
    uint64_t bytes = 0, row_bytes;
    assert_true(cpu_weight_plan(&m->w, format->type, ROWS, cols, &bytes));
    assert_true(quant_row_bytes(format->type, cols, &row_bytes));
    m->file = malloc(ROWS * row_bytes);
    m->values = malloc(ROWS * cols * sizeof *m->values);
    m->w.data = calloc(1, bytes);
    assert_true(m->file && m->values && m->w.data);
    uint32_t size = format->block_bytes, n = (uint32_t)(ROWS * row_bytes / size);
    for (uint32_t i = 0; i < n; i++) {
        if (moderate) {
            moderate_bytes(format, m->file + i * size);
        } else {
            random_bytes(m->file + i * size, size, i);
        }
    }
    for (uint32_t row = 0; row < ROWS; row++)
        format->decode(m->file + row * row_bytes, m->values + row * cols, cols);
    for (uint32_t row = 0; row < ROWS; row += CPU_LANES) {
        uint32_t left = ROWS - row;
        cpu_weight_fill(&m->w, row / CPU_LANES, m->file + row * row_bytes,
                        left < CPU_LANES ? left : CPU_LANES);
    }
}

static void drop(matrix *m)
{
    free(m->file);
    free(m->values);
    free(m->w.data);
}

// A NaN is any NaN; where a minimum is added, a zero is any zero.
static bool same_bits(float a, float b, bool any_zero)
{
    uint32_t a_bits, b_bits;
    memcpy(&a_bits, &a, sizeof a);
    memcpy(&b_bits, &b, sizeof b);
    if (a_bits == b_bits) return true;
    return (isnan(a) && isnan(b)) || (any_zero && a == 0 && b == 0);
}

static void compare_rows(const matrix *m, const cpu_kernels *k)
{
    static float memory[CPU_CHUNK * CPU_LANES], out[MOST_COLS];
    bool any_zero = m->w.form == CPU_INT && m->w.format->has_min;
    for (uint32_t row = 0; row < ROWS; row++) {
        cpu_weight_row(k, &m->w, row, out, memory);
        const float *expected = m->values + row * m->w.cols;
        for (uint32_t i = 0; i < m->w.cols; i++) {
            if (same_bits(out[i], expected[i], any_zero)) continue;
            fail_msg("%s, %s: value %u of row %u is %a, not %a", m->format->name, k->name, i, row,
                     (double)out[i], (double)expected[i]);
        }
    }
}

static void gives_the_decoders_values(void **arg)
{
    (void)arg;
    const cpu_kernels *kernels[3];
    size_t n = kernels_here(kernels);
    const quant_format *format;
    for (size_t i = 0; (format = quant_format_at(i)) != NULL; i++) {
        uint32_t unit = format->block_values > 32 ? format->block_values : 32;
        const uint32_t columns[] = {unit, 256, 256 + unit, 3 * 256 - (unit < 256 ? unit : 0)};
        for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++) {
            matrix m;
            make(&m, format, columns[c], false);
            for (size_t j = 0; j < n; j++) compare_rows(&m, kernels[j]);
            drop(&m);
        }
    }
}

// Activations, [row][values, scales, sums]: 127 with the signs of weights in turn, so that nothing
// cancels and every sum on the way is as great as it can be; and random ones.
typedef struct activations {
    uint8_t bytes[MOST_X_ROWS * MOST_COLS * 2];
    cpu_q8 x;
} activations;

static int8_t some_activation(const matrix *m, uint32_t row, uint32_t col)
{
    if (row % 3 == 2) return (int8_t)((int)(draw() % 255) - 127);
    if (row == 0) return 127;
    return m->values[row * 2 % ROWS * m->w.cols + col] < 0 ? -127 : 127;
}

static void make_activations(activations *a, const matrix *m)
{
    uint32_t cols = m->w.cols;
    a->x = (cpu_q8){.q = (int8_t *)a->bytes,
                    .d = (float *)(void *)(a->bytes + cols),
                    .sum = (int32_t *)(void *)(a->bytes + cols + cols / 8),
                    .stride = MOST_COLS * 2};
    for (uint32_t r = 0; r < MOST_X_ROWS; r++) {
        cpu_q8 row = cpu_q8_moved(a->x, r, 0);
        memset(row.sum, 0, cols / 16 * sizeof *row.sum);
        for (uint32_t i = 0; i < cols; i++) {
            row.q[i] = some_activation(m, r, i);
            row.sum[i / 16] += row.q[i];
        }
        for (uint32_t b = 0; b < cols / CPU_BLOCK; b++) row.d[b] = 0.25f * (float)(1 + b % 3);
    }
}

static void compare_products(const matrix *m, const cpu_kernels *k, const activations *a,
                             uint32_t group, uint32_t n)
{
    static cpu_panel panel;
    float acc[MOST_X_ROWS * CPU_TILE_COLS] = {0};
    uint32_t cols = m->w.cols;
    for (uint32_t col = 0; col < cols; col += CPU_CHUNK) {
        k->unpack(&m->w, group, col, cols - col < CPU_CHUNK ? cols - col : CPU_CHUNK, &panel);
        k->dot_q8(&panel, cpu_q8_moved(a->x, 0, col), n, acc);
    }
    for (uint32_t r = 0; r < n; r++) {
        cpu_q8 x = cpu_q8_moved(a->x, r, 0);
        for (uint32_t lane = 0; lane < CPU_LANES && group * CPU_LANES + lane < ROWS; lane++) {
            const float *w = m->values + (group * CPU_LANES + lane) * cols;
            double sum = 0, size = 0;
            for (uint32_t i = 0; i < cols; i++) {
                double part = (double)w[i] * x.q[i] * (double)x.d[i / CPU_BLOCK];
                sum += part;
                size += fabs(part);
            }
            double is = (double)acc[r * CPU_TILE_COLS + lane];
            if (fabs(is - sum) <= 1e-4 * size) continue;
            fail_msg("%s, %s: row %u of %u, lane %u: %g, not %g", m->format->name, k->name, r, n,
                     lane, is, sum);
        }
    }
}

static void multiplies_the_greatest(void **arg)
{
    (void)arg;
    static activations a;
    const cpu_kernels *kernels[3];
    size_t n = kernels_here(kernels);
    const quant_format *format;
    for (size_t i = 0; (format = quant_format_at(i)) != NULL; i++) {
        if (format->block_values == 1) continue; // floats are not multiplied with integers
        uint32_t unit = format->block_values;
        const uint32_t columns[] = {unit, 512 + (unit < 256 ? 3 * unit : 0)};
        for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++) {
            matrix m;
            make(&m, format, columns[c], true);
            make_activations(&a, &m);
            static const uint32_t n_rows[] = {1, 2, 3, 4, 8, 13};
            for (size_t j = 0; j < n * 6; j++) {
                for (uint32_t group = 0; group < 3; group++)
                    compare_products(&m, kernels[j / 6], &a, group, n_rows[j % 6]);
            }
            drop(&m);
        }
    }
}

// What `weight_bytes` tells is what is planned here: a codebook takes the bits of its levels, not
// those of the file.
static void codebooks_stay_small(void **arg)
{
    (void)arg;
    static const struct {
        quant_type type;
        double bits; // of a value, its sub-scale and d, in chunks of whole cache lines
    } formats[] = {
        {QUANT_MXFP4, 4.5},    {QUANT_IQ1_S, 3.375}, {QUANT_IQ1_M, 3.625},   {QUANT_IQ2_XXS, 3.375},
        {QUANT_IQ2_XS, 3.625}, {QUANT_IQ2_S, 3.625}, {QUANT_IQ3_XXS, 4.375}, {QUANT_IQ3_S, 4.375},
    };
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        cpu_weight w;
        uint64_t bytes = 0;
        assert_true(cpu_weight_plan(&w, formats[i].type, 1024, 4096, &bytes));
        assert_int_equal(bytes, (uint64_t)(formats[i].bits * 1024 * 4096 / 8));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_decoders_values),
        cmocka_unit_test(multiplies_the_greatest),
        cmocka_unit_test(codebooks_stay_small),
    };
    return cmocka_run_group_tests_name("exec/weights", tests, NULL, NULL);
}
