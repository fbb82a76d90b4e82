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
    assert_non_null(strstr(pm_last_error(), "1 matrices are F16"));
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
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
