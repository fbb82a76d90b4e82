#include "support/test.h"

#include <inttypes.h>
#include <math.h>

#include "base/os.h"
#include "build.h"

typedef struct fact {
    const char *file;
    size_t n_values, n_tensors;
    uint64_t data_offset;
    const char *sha256, *last;
    uint32_t type, n_dims;
    uint64_t cols, offset, bytes, n_tokens;
    const char *last_token;
    uint64_t n_merges;
    uint32_t n_ctx;
} fact;

static const fact facts[] = {
#include "facts.h"
};

enum { N_FACTS = sizeof facts / sizeof *facts };

static bool same_text(gguf_string a, const char *text)
{
    return a.len == strlen(text) && !memcmp(a.data, text, a.len);
}

static void check_file(const fact *f, bool map)
{
    gguf *g;
    assert_ok(gguf_open(test_data(f->file), map, &g));
    assert_int_equal(gguf_version(g), 3);
    assert_int_equal(gguf_alignment(g), 32);
    assert_int_equal(gguf_n_parts(g), 1);
    assert_int_equal(gguf_n_values(g), f->n_values);
    assert_int_equal(gguf_n_tensors(g), f->n_tensors);
    assert_int_equal(gguf_data_offset(g, 0), f->data_offset);
    assert_string_equal(gguf_header_sha256(g), f->sha256);
    if (f->last) {
        const gguf_tensor *t = gguf_find_tensor(g, f->last);
        assert_ptr_equal(t, gguf_tensor_at(g, f->n_tensors - 1));
        assert_string_equal(t->name, f->last);
        assert_int_equal(t->type, f->type);
        assert_int_equal(t->n_dims, f->n_dims);
        assert_int_equal(t->dims[0], f->cols);
        assert_int_equal(t->dims[3], 1);
        assert_int_equal(t->offset, f->offset);
        assert_int_equal(t->bytes, f->bytes);
    }
    const gguf_value *tokens = gguf_find(g, "tokenizer.ggml.tokens");
    assert_non_null(tokens);
    assert_int_equal(tokens->n_items, f->n_tokens);
    assert_true(same_text(gguf_item_string(g, tokens, f->n_tokens - 1), f->last_token));
    const gguf_value *merges = gguf_find(g, "tokenizer.ggml.merges");
    assert_int_equal(merges ? merges->n_items : 0, f->n_merges);
    gguf_string arch = {0};
    char key[64];
    uint32_t n_ctx = 0;
    assert_ok(gguf_get_string(g, "general.architecture", &arch));
    snprintf(key, sizeof key, "%.*s.context_length", (int)arch.len, arch.data);
    assert_ok(gguf_get_u32(g, key, &n_ctx));
    assert_int_equal(n_ctx, f->n_ctx);
    gguf_close(g);
}

static void every_reference_file_opens(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FACTS; i++) check_file(&facts[i], i % 2 == 0);
}

// The folders hold no .gguf that the table lacks.
static void count_gguf(void *arg, const char *name)
{
    size_t n = strlen(name);
    if (n > 5 && !strcmp(name + n - 5, ".gguf")) ++*(size_t *)arg;
}

static void the_table_names_every_file(void **state)
{
    (void)state;
    size_t n = 0;
    assert_ok(os_list_directory(test_data("golden"), count_gguf, &n));
    assert_ok(os_list_directory(test_data("vocab"), count_gguf, &n));
    assert_int_equal(n, N_FACTS);
}

static void a_vocabulary_by_index(void **state)
{
    (void)state;
    gguf *g;
    assert_ok(gguf_open(test_data("vocab/smollm3.gguf"), true, &g));
    const gguf_value *tokens = gguf_find(g, "tokenizer.ggml.tokens");
    const gguf_value *merges = gguf_find(g, "tokenizer.ggml.merges");
    const gguf_value *kinds = gguf_find(g, "tokenizer.ggml.token_type");
    assert_true(same_text(gguf_item_string(g, tokens, 0), "!"));
    assert_true(same_text(gguf_item_string(g, tokens, 1000), "indow"));
    assert_true(same_text(gguf_item_string(g, tokens, 127999), "\xc3\xa9\xc4\xb6\xc2\xa6"));
    assert_true(same_text(gguf_item_string(g, merges, 0), "\xc4\xa0 \xc4\xa0"));
    assert_true(same_text(gguf_item_string(g, merges, 1000), "\xc4\xa0"
                                                             "els e"));
    assert_true(same_text(gguf_item_string(g, merges, 280146), "\xc3\xa9\xc4\xb6 \xc2\xa6"));
    assert_int_equal(kinds->type, GGUF_ARRAY);
    assert_int_equal(kinds->item_type, GGUF_I32);
    assert_int_equal(gguf_item_int(g, kinds, 127999), 1);
    assert_int_equal(gguf_item_int(g, kinds, 128255), 3);
    gguf_close(g);
}

static void a_golden_model(void **state)
{
    (void)state;
    static const unsigned char first[16] = {0x6f, 0x19, 0xdc, 0xcb, 0x62, 0xee, 0x81, 0x35,
                                            0xf0, 0x06, 0x4d, 0xd5, 0xe0, 0xf4, 0x89, 0x3d};
    gguf *g;
    assert_ok(gguf_open(test_data("golden/smollm3-untied.q8_0.gguf"), true, &g));
    uint32_t n_head = 0, n_head_kv = 0, bos = 0;
    float eps = 0, base = 0;
    bool add_bos = true;
    assert_ok(gguf_get_u32(g, "smollm3.attention.head_count", &n_head));
    assert_ok(gguf_get_u32(g, "smollm3.attention.head_count_kv", &n_head_kv));
    assert_ok(gguf_get_f32(g, "smollm3.attention.layer_norm_rms_epsilon", &eps));
    assert_ok(gguf_get_f32(g, "smollm3.rope.freq_base", &base));
    assert_ok(gguf_get_u32(g, "tokenizer.ggml.bos_token_id", &bos));
    assert_ok(gguf_get_bool(g, "tokenizer.ggml.add_bos_token", &add_bos));
    assert_int_equal(n_head, 4);
    assert_int_equal(n_head_kv, 1);
    assert_true(eps == 1e-6f);
    assert_true(base == 10000.0f);
    assert_int_equal(bos, 425);
    assert_false(add_bos);

    const gguf_tensor *t = gguf_find_tensor(g, "token_embd.weight");
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->dims[0], 64);
    assert_int_equal(t->dims[1], 429);
    assert_int_equal(t->bytes, 29172);
    t = gguf_find_tensor(g, "blk.1.attn_k.weight");
    assert_int_equal(t->offset, 80000);
    t = gguf_find_tensor(g, "blk.2.ffn_down.weight");
    assert_int_equal(t->bytes, 6528);
    assert_memory_equal(gguf_tensor_map(g, t), first, sizeof first);
    assert_null(gguf_find_tensor(g, "blk.2.ffn_down"));
    assert_null(gguf_find(g, "smollm3.attention"));
    gguf_close(g);
}

// R33, the reader's part: the same bytes with and without mapping.
static void r33_mapped_and_read_bytes_are_the_same(void **state)
{
    (void)state;
    gguf *mapped, *plain;
    const char *path = test_data("golden/llama-mix-k.gguf");
    assert_ok(gguf_open(path, true, &mapped));
    assert_ok(gguf_open(path, false, &plain));
    assert_string_equal(gguf_header_sha256(mapped), gguf_header_sha256(plain));
    size_t n_tensors = gguf_n_tensors(mapped);
    assert_int_equal(n_tensors, 39);
    for (size_t i = 0; i < n_tensors; i++) {
        const gguf_tensor *t = gguf_tensor_at(plain, i);
        assert_null(gguf_tensor_map(plain, t));
        char *a = malloc(t->bytes), *b = malloc(t->bytes);
        assert_non_null(a);
        assert_non_null(b);
        assert_ok(gguf_read(plain, t, 0, a, t->bytes));
        const gguf_tensor *m = gguf_tensor_at(mapped, i);
        gguf_prefetch(mapped, m, 0, UINT64_MAX);
        assert_memory_equal(gguf_tensor_map(mapped, m), a, t->bytes);
        gguf_drop(mapped, m, 0, UINT64_MAX);
        uint64_t half = t->bytes / 2;
        assert_ok(gguf_read(mapped, m, half, b, t->bytes - half));
        assert_memory_equal(b, a + half, t->bytes - half);
        free(a);
        free(b);
    }
    gguf_close(mapped);
    gguf_close(plain);
}

// The file is cut behind our back: reading says so; the header's strings stay readable.
static void r33_a_file_that_shrinks_is_an_error(void **state)
{
    (void)state;
    buf b = {0};
    put_small(&b, 3);
    char *path = strdup(test_temp("shrinks.gguf"));
    test_write(path, b.data, b.len);
    gguf *g;
    assert_ok(gguf_open(path, true, &g));
    test_write(path, b.data, 30);
    char bytes[68];
    const gguf_tensor *t = gguf_find_tensor(g, "q");
    assert_int_equal(gguf_read(g, t, 0, bytes, sizeof bytes), PM_ERROR_FILE);
    assert_non_null(strstr(error_message(), "shrinks.gguf: tensor 'q': the file ended"));
    gguf_string text = {0};
    assert_ok(gguf_get_string(g, "a.text", &text));
    assert_true(same_text(text, "na\xc3\xafve"));
    assert_int_equal(strlen(gguf_header_sha256(g)), 64);
    gguf_close(g);
    buf_free(&b);
    free(path);
}

static gguf *open_small(buf *b, uint32_t version)
{
    gguf *g;
    put_small(b, version);
    assert_false(b->failed);
    assert_ok(gguf_open_memory(b->data, b->len, &g));
    return g;
}

static void every_value_type(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        buf b = {0};
        gguf *g = open_small(&b, version);
        assert_int_equal(gguf_version(g), version);
        assert_int_equal(gguf_n_values(g), 17);
        static const struct {
            const char *key;
            double value;
        } numbers[] = {{"a.u8", 200},          {"a.i8", -5},
                       {"a.u16", 60000},       {"a.i16", -1000},
                       {"a.u32", 4000000000u}, {"a.i32", -100000},
                       {"a.i64", -5000000000}, {"a.f32", 0x1.921fb6p+1},
                       {"a.bool", 1},          {"a.f64", 0x1.921fb54442d18p+1}};
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            const gguf_value *v = gguf_find(g, numbers[i].key);
            assert_int_equal(v->n_items, 1);
            assert_int_equal(v->type, v->item_type);
            assert_true(gguf_item_number(g, v, 0) == numbers[i].value);
        }
        assert_true(gguf_item_number(g, gguf_find(g, "a.u64"), 0) == 0x1p64);
        assert_int_equal(gguf_item_int(g, gguf_find(g, "a.i8"), 0), -5);

        const gguf_value *v = gguf_find(g, "b.i16s");
        assert_int_equal(v->n_items, 3);
        assert_int_equal(gguf_item_int(g, v, 1), -1);
        assert_int_equal(gguf_item_int(g, v, 2), 32767);
        v = gguf_find(g, "b.texts");
        assert_true(same_text(gguf_item_string(g, v, 0), "one"));
        assert_true(same_text(gguf_item_string(g, v, 1), ""));
        assert_true(same_text(gguf_item_string(g, v, 2), "three"));
        v = gguf_find(g, "b.nested");
        assert_int_equal(v->item_type, GGUF_ARRAY);
        assert_int_equal(v->n_items, 2);
        const void *bytes;
        uint64_t n;
        gguf_value_bytes(g, v, &bytes, &n);
        assert_int_equal(n, 4 + 8 + (4 + 8 + 8 + 2) + (4 + 8 + 2));
        assert_int_equal(gguf_find(g, "b.empty")->n_items, 0);

        const gguf_tensor *t = gguf_find_tensor(g, "q");
        assert_int_equal(t->bytes, 68);
        unsigned char two[2];
        assert_ok(gguf_read(g, t, 66, two, 2));
        assert_int_equal(two[0], 32 + 66);
        assert_memory_equal((const char *)gguf_tensor_map(g, t) + 66, two, 2);
        assert_int_equal(gguf_read(g, t, 67, two, 2), PM_ERROR_FILE);
        gguf_close(g);
        buf_free(&b);
    }
}

static void getters_convert_what_fits(void **state)
{
    (void)state;
    buf b = {0};
    gguf *g = open_small(&b, 3);
    uint32_t u32 = 7;
    uint64_t u64 = 7;
    int64_t i64 = 7;
    float f32 = 7;
    double f64 = 7;
    bool flag = false;
    gguf_string text = {.data = "default", .len = 7};

    assert_ok(gguf_get_u32(g, "absent", &u32));
    assert_ok(gguf_get_u64(g, "absent", &u64));
    assert_ok(gguf_get_i64(g, "absent", &i64));
    assert_ok(gguf_get_f32(g, "absent", &f32));
    assert_ok(gguf_get_f64(g, "absent", &f64));
    assert_ok(gguf_get_bool(g, "absent", &flag));
    assert_ok(gguf_get_string(g, "absent", &text));
    assert_true(u32 == 7 && u64 == 7 && i64 == 7 && f32 == 7 && f64 == 7 && !flag && text.len == 7);

    assert_ok(gguf_get_u32(g, "a.u8", &u32));
    assert_int_equal(u32, 200);
    assert_ok(gguf_get_u32(g, "a.f64.whole", &u32));
    assert_int_equal(u32, 3);
    assert_ok(gguf_get_u64(g, "a.u64", &u64));
    assert_true(u64 == UINT64_MAX);
    assert_ok(gguf_get_i64(g, "a.i64", &i64));
    assert_true(i64 == -5000000000);
    assert_ok(gguf_get_i64(g, "a.u32", &i64));
    assert_true(i64 == 4000000000);
    assert_ok(gguf_get_f32(g, "a.i16", &f32));
    assert_true(f32 == -1000);
    assert_ok(gguf_get_f32(g, "a.f64.whole", &f32));
    assert_true(f32 == 3);
    assert_ok(gguf_get_f64(g, "a.f32", &f64));
    assert_true(f64 == 0x1.921fb6p+1);
    assert_ok(gguf_get_bool(g, "a.bool", &flag));
    assert_true(flag);
    gguf_close(g);
    buf_free(&b);
}

static void expect_message(pm_status status, const char *wanted)
{
    assert_int_equal(status, PM_ERROR_FILE);
    if (strcmp(error_message(), wanted) != 0)
        fail_msg("message: %s\nexpected: %s", error_message(), wanted);
}

static void getters_refuse_what_does_not_fit(void **state)
{
    (void)state;
    buf b = {0};
    gguf *g = open_small(&b, 3);
    uint32_t u32 = 7;
    uint64_t u64 = 7;
    int64_t i64 = 7;
    float f32 = 7;
    double f64 = 7;
    bool flag = false;
    gguf_string text = {.data = "default", .len = 7};
    expect_message(gguf_get_u32(g, "a.u64", &u32),
                   "(memory): key 'a.u64' is 18446744073709551615 (u64), must be a whole number "
                   "from 0 to 4294967295");
    expect_message(gguf_get_u32(g, "a.i8", &u32),
                   "(memory): key 'a.i8' is -5 (i8), must be a whole number from 0 to 4294967295");
    expect_message(gguf_get_u64(g, "a.i64", &u64),
                   "(memory): key 'a.i64' is -5000000000 (i64), must be a whole number from 0 to "
                   "18446744073709551615");
    expect_message(gguf_get_i64(g, "a.u64", &i64),
                   "(memory): key 'a.u64' is 18446744073709551615 (u64), must be a whole number "
                   "from -2^63 to 2^63 - 1");
    expect_message(gguf_get_u32(g, "a.f32", &u32),
                   "(memory): key 'a.f32' is 3.1415927410125732 (f32), must be a whole number from "
                   "0 to 4294967295");
    expect_message(gguf_get_f32(g, "a.f64", &f32),
                   "(memory): key 'a.f64' is 3.1415926535897931 (f64), must be a number that an "
                   "f32 holds exactly");
    expect_message(gguf_get_f64(g, "a.u64", &f64),
                   "(memory): key 'a.u64' is 18446744073709551615 (u64), must be a number that an "
                   "f64 holds exactly");
    expect_message(gguf_get_u32(g, "a.text", &u32),
                   "(memory): key 'a.text' is of type string, must be a number");
    expect_message(gguf_get_u32(g, "a.bool", &u32),
                   "(memory): key 'a.bool' is of type bool, must be a number");
    expect_message(gguf_get_u32(g, "b.i16s", &u32),
                   "(memory): key 'b.i16s' is of type array, must be a number");
    expect_message(gguf_get_bool(g, "a.u8", &flag),
                   "(memory): key 'a.u8' is of type u8, must be bool");
    expect_message(gguf_get_string(g, "b.texts", &text),
                   "(memory): key 'b.texts' is of type array, must be a string");
    assert_true(u32 == 7 && u64 == 7 && i64 == 7 && f32 == 7 && f64 == 7 && !flag && text.len == 7);
    gguf_close(g);
    buf_free(&b);
}

// A float key's extremes through each getter.
static void float_extremes(void **state)
{
    (void)state;
    static const struct {
        uint64_t bits;
        bool f32, u64, i64;
    } cases[] = {
        {0x7ff0000000000000u, true, false, false},  // infinity
        {0x7fefffffffffffffu, false, false, false}, // the largest f64
        {0x43f0000000000000u, true, false, false},  // 2^64
        {0x43e0000000000000u, true, true, false},   // 2^63
        {0xc3e0000000000000u, true, false, true},   // -2^63
        {0x8000000000000000u, true, true, true},    // -0
        {0x3fe0000000000000u, true, false, false},  // 0.5
        {0x7ff8000000000000u, true, false, false},  // NaN
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        buf b = {0};
        put_head(&b, 3, 0, 1);
        put_key(&b, "x", GGUF_F64), put_uint(&b, cases[i].bits, 8);
        gguf *g;
        assert_ok(gguf_open_memory(b.data, b.len, &g));
        float f32;
        double f64;
        uint64_t u64;
        int64_t i64;
        assert_ok(gguf_get_f64(g, "x", &f64));
        assert_int_equal(gguf_get_f32(g, "x", &f32) == PM_OK, cases[i].f32);
        assert_int_equal(gguf_get_u64(g, "x", &u64) == PM_OK, cases[i].u64);
        assert_int_equal(gguf_get_i64(g, "x", &i64) == PM_OK, cases[i].i64);
        gguf_close(g);
        buf_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reference_file_opens),
        cmocka_unit_test(the_table_names_every_file),
        cmocka_unit_test(a_vocabulary_by_index),
        cmocka_unit_test(a_golden_model),
        cmocka_unit_test(r33_mapped_and_read_bytes_are_the_same),
        cmocka_unit_test(r33_a_file_that_shrinks_is_an_error),
        cmocka_unit_test(every_value_type),
        cmocka_unit_test(getters_convert_what_fits),
        cmocka_unit_test(getters_refuse_what_does_not_fit),
        cmocka_unit_test(float_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
