// Rewriting a model in another format: values, metadata byte for byte, what stays as it is.
#include "support/test.h"

#include "gguf/gguf.h"
#include "quant/quant.h"
#include "support/open.h"

static gguf *open_file(const char *path)
{
    gguf *g = NULL;
    assert_ok(gguf_open(path, true, &g));
    return g;
}

static bool is_key(const gguf_value *v, const char *name)
{
    return v->key.len == strlen(name) && !memcmp(v->key.data, name, v->key.len);
}

// All keys but the two that name the format have the same order and the same bytes.
static void same_metadata(const gguf *a, const gguf *b)
{
    size_t j = 0;
    for (size_t i = 0; i < gguf_n_values(a); i++, j++) {
        const gguf_value *x = gguf_value_at(a, i), *y = gguf_value_at(b, j);
        assert_int_equal(x->key.len, y->key.len);
        assert_memory_equal(x->key.data, y->key.data, x->key.len);
        if (is_key(x, "general.file_type") || is_key(x, "general.quantization_version")) continue;
        assert_int_equal(x->type, y->type);
        const void *p, *q;
        uint64_t n, m;
        gguf_value_bytes(a, x, &p, &n);
        gguf_value_bytes(b, y, &q, &m);
        assert_int_equal(n, m);
        assert_memory_equal(p, q, n);
    }
    for (; j < gguf_n_values(b); j++) {
        const gguf_value *y = gguf_value_at(b, j);
        assert_true(is_key(y, "general.file_type") || is_key(y, "general.quantization_version"));
    }
}

static float *decoded(const gguf *g, const gguf_tensor *t, size_t *n)
{
    *n = (size_t)(t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3]);
    float *values = malloc(*n * sizeof *values);
    quant_format_of(t->type)->decode(gguf_tensor_map(g, t), values, *n);
    return values;
}

// The golden F32 and Q8_0 files of a model hold the same weights; an independent program made both.
static void f32_to_q8_0_equals_the_golden_file(void **state)
{
    (void)state;
    const char *out = test_temp("q8.gguf");
    assert_ok(pm_quantize(test_data("golden/llama-tied.f32.gguf"), out, "q8_0", NULL));
    assert_string_equal(pm_last_error(), "");
    gguf *in = open_file(test_data("golden/llama-tied.f32.gguf")), *made = open_file(out);
    gguf *golden = open_file(test_data("golden/llama-tied.q8_0.gguf"));
    same_metadata(in, made);
    uint32_t file_type = 0, version = 0;
    assert_ok(gguf_get_u32(made, "general.file_type", &file_type));
    assert_ok(gguf_get_u32(made, "general.quantization_version", &version));
    assert_int_equal(file_type, 7);
    assert_int_equal(version, 2);
    assert_int_equal(gguf_n_tensors(made), gguf_n_tensors(golden));
    for (size_t i = 0; i < gguf_n_tensors(golden); i++) {
        const gguf_tensor *t = gguf_tensor_at(golden, i);
        const gguf_tensor *u = gguf_find_tensor(made, t->name);
        assert_int_equal(u->type, t->type);
        assert_int_equal(u->bytes, t->bytes);
        assert_memory_equal(gguf_tensor_map(made, u), gguf_tensor_map(golden, t), t->bytes);
    }
    gguf_close(in);
    gguf_close(made);
    gguf_close(golden);
}

// Q8_0 holds what it decodes to, so that a way through F32 and back gives the same bytes.
static void round_trips(void **state)
{
    (void)state;
    static const char *const steps[] = {"f32", "q8_0", "F16", "Q8_0"};
    const char *from = test_data("golden/llama-tied.q8_0.gguf");
    char kept[1024];
    snprintf(kept, sizeof kept, "%s", from);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char name[32];
        snprintf(name, sizeof name, "step%zu.gguf", i);
        char out[1024];
        snprintf(out, sizeof out, "%s", test_temp(name));
        pm_options *o = test_options("threads", i % 2 ? "3" : "1", NULL);
        assert_ok(pm_quantize(kept, out, steps[i], o));
        pm_options_destroy(o);
        gguf *a = open_file(kept), *b = open_file(out);
        same_metadata(a, b);
        for (size_t k = 0; k < gguf_n_tensors(a); k++) {
            const gguf_tensor *t = gguf_tensor_at(a, k), *u = gguf_tensor_at(b, k);
            assert_string_equal(t->name, u->name);
            size_t n, m;
            float *x = decoded(a, t, &n), *y = decoded(b, u, &m);
            assert_int_equal(n, m);
            if (i == 0) assert_memory_equal(x, y, n * sizeof *x);
            if (t->dims[1] == 1) assert_int_equal(u->type, QUANT_F32); // norms
            free(x);
            free(y);
        }
        gguf_close(a);
        gguf_close(b);
        snprintf(kept, sizeof kept, "%s", out);
    }
    gguf *golden = open_file(from), *back = open_file(test_temp("step1.gguf"));
    for (size_t i = 0; i < gguf_n_tensors(golden); i++) {
        const gguf_tensor *t = gguf_tensor_at(golden, i), *u = gguf_tensor_at(back, i);
        assert_int_equal(t->bytes, u->bytes);
        // scales may differ where a block's largest value isn't the one that made it
        size_t n, m;
        float *x = decoded(golden, t, &n), *y = decoded(back, u, &m);
        for (size_t k = 0; k < n; k++) assert_true(x[k] - y[k] < 1e-3f && y[k] - x[k] < 1e-3f);
        free(x);
        free(y);
    }
    gguf_close(golden);
    gguf_close(back);
}

static void rows_without_whole_blocks_become_f16(void **state)
{
    (void)state;
    const char *path = test_temp("odd.gguf"), *out = test_temp("odd-q4.gguf");
    gguf_writer *w = NULL;
    assert_ok(gguf_writer_open(path, &w));
    gguf_put_string(w, "general.architecture", "llama", 5);
    uint64_t odd[2] = {50, 4}, even[2] = {64, 2}, norm[1] = {50};
    gguf_put_tensor(w, "odd.weight", QUANT_F32, 2, odd);
    gguf_put_tensor(w, "even.weight", QUANT_F32, 2, even);
    gguf_put_tensor(w, "attn_norm.weight", QUANT_F32, 2, even); // a norm by its name
    gguf_put_tensor(w, "one.weight", QUANT_F32, 1, norm);
    float values[200];
    for (int i = 0; i < 200; i++) values[i] = (float)i / 16;
    assert_ok(gguf_begin_data(w));
    assert_ok(gguf_put_data(w, values, 200 * 4));
    assert_ok(gguf_put_data(w, values, 128 * 4));
    assert_ok(gguf_put_data(w, values, 128 * 4));
    assert_ok(gguf_put_data(w, values, 50 * 4));
    assert_ok(gguf_writer_commit(w));
    assert_ok(pm_quantize(path, out, "q4_0", NULL));
    assert_non_null(strstr(pm_last_error(), "blocks of 32): 1 matrices"));
    gguf *g = open_file(out);
    static const quant_type expected[] = {QUANT_F16, QUANT_Q4_0, QUANT_F32, QUANT_F32};
    for (size_t i = 0; i < 4; i++) assert_int_equal(gguf_tensor_at(g, i)->type, expected[i]);
    size_t n;
    float *x = decoded(g, gguf_tensor_at(g, 0), &n);
    assert_int_equal(n, 200);
    assert_memory_equal(x, values, sizeof values); // sixteenths are exact in F16
    free(x);
    uint32_t file_type = 99;
    assert_ok(gguf_get_u32(g, "general.file_type", &file_type));
    assert_int_equal(file_type, 2);
    gguf_close(g);
}

// One tensor of `cols` by `rows` values, and a norm in F16 as few files have it.
static void write_matrix(const char *path, const float *values, uint64_t cols, uint64_t rows)
{
    static const uint16_t ones[4] = {0x3c00, 0x3c00, 0x3c00, 0x3c00};
    gguf_writer *w = NULL;
    assert_ok(gguf_writer_open(path, &w));
    gguf_put_string(w, "general.architecture", "llama", 5);
    uint64_t dims[2] = {cols, rows}, norm[1] = {4};
    gguf_put_tensor(w, "matrix.weight", QUANT_F32, 2, dims);
    gguf_put_tensor(w, "attn_norm.weight", QUANT_F16, 1, norm);
    assert_ok(gguf_begin_data(w));
    assert_ok(gguf_put_data(w, values, cols * rows * sizeof *values));
    assert_ok(gguf_put_data(w, ones, sizeof ones));
    assert_ok(gguf_writer_commit(w));
}

// What the Python package gguf makes of the same values, byte for byte, whatever the threads.
static void bytes_of_an_independent_quantizer(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        uint32_t file_type;
    } types[] = {{"F16", 1},  {"BF16", 32}, {"Q8_0", 7},   {"Q4_0", 2},   {"Q4_1", 3},
                 {"Q5_0", 8}, {"Q5_1", 9},  {"MXFP4", 38}, {"TQ1_0", 36}, {"TQ2_0", 37}};
    size_t n_values, n;
    char *values = test_read(test_data("golden/quants/quantize_input.f32"), &n_values);
    char in[1024]; // test_temp's own buffers are used again and again
    snprintf(in, sizeof in, "%s", test_temp("input.gguf"));
    write_matrix(in, (const float *)(const void *)values, 256, n_values / 4 / 256);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char name[64], threads[8];
        snprintf(name, sizeof name, "golden/quants/%s.quantized.bin", types[i].type);
        snprintf(threads, sizeof threads, "%zu", 1 + i % 5);
        char *expected = test_read(test_data(name), &n);
        pm_options *o = test_options("threads", threads, NULL);
        assert_ok(pm_quantize(in, test_temp("result.gguf"), types[i].type, o));
        gguf *g = open_file(test_temp("result.gguf"));
        const gguf_tensor *t = gguf_tensor_at(g, 0), *norm = gguf_tensor_at(g, 1);
        assert_int_equal(t->bytes, n);
        assert_memory_equal(gguf_tensor_map(g, t), expected, n);
        assert_int_equal(norm->type, QUANT_F32);
        static const float ones[4] = {1, 1, 1, 1};
        assert_memory_equal(gguf_tensor_map(g, norm), ones, sizeof ones);
        uint32_t file_type = 0;
        assert_ok(gguf_get_u32(g, "general.file_type", &file_type));
        assert_int_equal(file_type, types[i].file_type);
        gguf_close(g);
        pm_options_destroy(o);
        free(expected);
    }
    free(values);
}

// Files of all formats that occur, each matrix in another: to every type, loaded and run.
static void mixed_files_to_every_type(void **state)
{
    (void)state;
    static const char *const files[] = {"llama-mix-legacy", "llama-mix-k", "llama-mix-iq4",
                                        "smollm3-q4_k_m"};
    static const char *const types[] = {"f32",  "f16",  "bf16", "q8_0", "q4_0",
                                        "q4_1", "q5_0", "q5_1", "q4_k", "q6_k"};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        char in[1024];
        snprintf(in, sizeof in, "%s%s.gguf", test_data("golden/"), files[f]);
        gguf *a = open_file(in);
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            const char *out = test_temp("mixed.gguf");
            assert_ok(pm_quantize(in, out, types[i], NULL));
            assert_string_equal(pm_last_error(), "");
            const quant_format *to = quant_format_named(types[i]);
            gguf *b = open_file(out);
            same_metadata(a, b);
            for (size_t k = 0; k < gguf_n_tensors(b); k++) {
                const gguf_tensor *t = gguf_tensor_at(b, k);
                quant_type type = t->n_dims == 1 ? QUANT_F32 : to->type;
                assert_int_equal(t->type, type);
                size_t n, m;
                float *x = decoded(a, gguf_tensor_at(a, k), &n), *y = decoded(b, t, &m);
                assert_int_equal(n, m);
                if (type == QUANT_F32) assert_memory_equal(x, y, n * sizeof *x);
                free(x);
                free(y);
            }
            gguf_close(b);
            pm_options *o = test_options("device", "cpu", NULL);
            pm_model *model = NULL;
            assert_ok(pm_model_open(out, o, &model));
            pm_session *session = test_session(model, o);
            static const int32_t ids[3] = {5, 6, 7};
            assert_ok(pm_session_eval(session, ids, 3, 0));
            pm_session_destroy(session);
            pm_model_close(model);
            pm_options_destroy(o);
        }
        gguf_close(a);
    }
}

// Rows that are no whole number of blocks of 256 get blocks of 32, as the common quantizer does.
static void the_next_format_that_fits(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        uint64_t cols;
        quant_type expected;
    } cases[] = {{"q4_k", 576, QUANT_Q5_0}, {"q6_k", 576, QUANT_Q8_0}, {"q4_k", 512, QUANT_Q4_K},
                 {"q6_k", 50, QUANT_F16},   {"q4_k", 50, QUANT_F16},   {"tq2_0", 64, QUANT_F16}};
    float values[576 * 2];
    for (int i = 0; i < 576 * 2; i++) values[i] = (float)(i % 37) / 37;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_matrix(test_temp("rows.gguf"), values, cases[i].cols, 2);
        assert_ok(pm_quantize(test_temp("rows.gguf"), test_temp("fits.gguf"), cases[i].type, NULL));
        bool fits = quant_format_named(cases[i].type)->type == cases[i].expected;
        assert_int_equal(*pm_last_error() == 0, fits);
        gguf *g = open_file(test_temp("fits.gguf"));
        assert_int_equal(gguf_tensor_at(g, 0)->type, cases[i].expected);
        gguf_close(g);
    }
}

static void in_pieces(void **state)
{
    (void)state;
    const char *in = test_data("golden/llama-mix-k.gguf");
    const char *out = test_temp("pieces.gguf"), *whole = test_temp("whole.gguf");
    pm_quantization *q = NULL;
    assert_ok(pm_quantization_start(in, out, "q8_0", NULL, &q));
    int done = 0;
    double before = 0;
    assert_true(pm_quantization_part(q) == 0);
    for (int i = 0; i < 5; i++) assert_ok(pm_quantization_next(q, &done));
    assert_int_equal(done, 0);
    assert_true(pm_quantization_part(q) > 0 && pm_quantization_part(q) < 1);
    pm_quantization_destroy(q); // nothing is there
    assert_null(fopen(out, "rb"));

    assert_ok(pm_quantization_start(in, out, "q8_0", NULL, &q));
    while (!done) {
        assert_null(fopen(out, "rb"));
        assert_ok(pm_quantization_next(q, &done));
        assert_true(pm_quantization_part(q) >= before);
        before = pm_quantization_part(q);
    }
    assert_true(before == 1);
    assert_int_equal(pm_quantization_next(q, &done), PM_ERROR_USAGE);
    pm_quantization_destroy(q);
    pm_quantization_destroy(NULL);
    assert_ok(pm_quantize(in, whole, "q8_0", NULL));
    size_t n, m;
    char *a = test_read(out, &n), *b = test_read(whole, &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
}

static void refusals(void **state)
{
    (void)state;
    size_t n;
    char *bytes = test_read(test_data("golden/llama-tied.q8_0.gguf"), &n);
    const char *in = test_temp("in.gguf"), *out = test_temp("never.gguf");
    test_write(in, bytes, n);
    assert_int_equal(pm_quantize(in, in, "f16", NULL), PM_ERROR_USAGE);
    assert_int_equal(pm_quantize(in, out, "q2_k", NULL), PM_ERROR_USAGE); // no encoder
    assert_non_null(strstr(pm_last_error(), "Q8_0"));
    assert_int_equal(pm_quantize(in, out, "q9", NULL), PM_ERROR_USAGE);
    assert_int_equal(pm_quantize(test_temp("missing.gguf"), out, "f16", NULL), PM_ERROR_FILE);
    test_write(test_temp("cut.gguf"), bytes, n - 100);
    assert_int_equal(pm_quantize(test_temp("cut.gguf"), out, "f16", NULL), PM_ERROR_FILE);
    FILE *f = fopen(out, "rb");
    assert_null(f); // nothing is left behind
    char *same = test_read(in, &n);
    assert_memory_equal(same, bytes, n);
    free(same);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_to_q8_0_equals_the_golden_file),
        cmocka_unit_test(round_trips),
        cmocka_unit_test(rows_without_whole_blocks_become_f16),
        cmocka_unit_test(bytes_of_an_independent_quantizer),
        cmocka_unit_test(mixed_files_to_every_type),
        cmocka_unit_test(the_next_format_that_fits),
        cmocka_unit_test(in_pieces),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
