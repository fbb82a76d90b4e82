// The writer, read back; and split models, which are written here too.
#include "support/test.h"

#include <inttypes.h>

#include "base/os.h"
#include "build.h"

// Every byte of the written file, against the format's definition put together by hand.
static void the_exact_bytes(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", test_temp("exact.gguf"));
    gguf_writer *w;
    assert_ok(gguf_writer_open(path, &w));
    gguf_put_u32(w, "general.alignment", 64);
    gguf_put_i32(w, "i32", -2);
    gguf_put_u64(w, "u64", UINT64_MAX - 1);
    gguf_put_f32(w, "f32", -0.5f);
    gguf_put_bool(w, "bool", true);
    gguf_put_string(w, "text", "a\0b", 3);
    const gguf_string texts[] = {{"x", 1}, {"", 0}, {"yz", 2}};
    gguf_put_strings(w, "texts", texts, 3);
    const int32_t i32s[] = {1, -1};
    gguf_put_i32s(w, "i32s", i32s, 2);
    const float f32s[] = {1.0f, 2.0f, 4.0f};
    gguf_put_f32s(w, "f32s", f32s, 3);
    const uint64_t w_dims[] = {3}, q_dims[] = {32, 2, 1};
    gguf_put_tensor(w, "w", 0, 1, w_dims);
    gguf_put_tensor(w, "q", 8, 3, q_dims);
    assert_ok(gguf_begin_data(w));
    char data[12 + 68];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (char)(i + 1);
    assert_ok(gguf_put_data(w, data, 5)); // pieces across the tensors' border
    assert_ok(gguf_put_data(w, data + 5, 50));
    assert_ok(gguf_put_data(w, data + 55, sizeof data - 55));
    assert_false(os_file_exists(path));
    assert_ok(gguf_writer_commit(w));

    buf b = {0};
    put_head(&b, 3, 2, 9);
    put_key(&b, "general.alignment", GGUF_U32), put_uint(&b, 64, 4);
    put_key(&b, "i32", GGUF_I32), put_uint(&b, 0xfffffffeu, 4);
    put_key(&b, "u64", GGUF_U64), put_uint(&b, UINT64_MAX - 1, 8);
    put_key(&b, "f32", GGUF_F32), put_uint(&b, 0xbf000000u, 4);
    put_key(&b, "bool", GGUF_BOOL), put_uint(&b, 1, 1);
    put_key(&b, "text", GGUF_STRING), put_uint(&b, 3, 8), buf_add(&b, "a\0b", 3);
    put_key(&b, "texts", GGUF_ARRAY), put_uint(&b, GGUF_STRING, 4), put_uint(&b, 3, 8);
    put_text(&b, "x"), put_text(&b, ""), put_text(&b, "yz");
    put_key(&b, "i32s", GGUF_ARRAY), put_uint(&b, GGUF_I32, 4), put_uint(&b, 2, 8);
    put_uint(&b, 1, 4), put_uint(&b, 0xffffffffu, 4);
    put_key(&b, "f32s", GGUF_ARRAY), put_uint(&b, GGUF_F32, 4), put_uint(&b, 3, 8);
    put_uint(&b, 0x3f800000u, 4), put_uint(&b, 0x40000000u, 4), put_uint(&b, 0x40800000u, 4);
    put_text(&b, "w"), put_uint(&b, 1, 4), put_uint(&b, 3, 8), put_uint(&b, 0, 4);
    put_uint(&b, 0, 8);
    put_text(&b, "q"), put_uint(&b, 3, 4), put_uint(&b, 32, 8), put_uint(&b, 2, 8);
    put_uint(&b, 1, 8), put_uint(&b, 8, 4), put_uint(&b, 64, 8);
    put_padding(&b, 64);
    buf_add(&b, data, 12), put_padding(&b, 64);
    buf_add(&b, data + 12, 68), put_padding(&b, 64);
    size_t n;
    char *written = test_read(path, &n);
    assert_int_equal(n, b.len);
    assert_memory_equal(written, b.data, n);
    free(written);
    buf_free(&b);
}

static void copy_model(const gguf *from, const char *path)
{
    gguf_writer *w;
    assert_ok(gguf_writer_open(path, &w));
    for (size_t i = 0; i < gguf_n_values(from); i++) gguf_put_copy(w, from, gguf_value_at(from, i));
    for (size_t i = 0; i < gguf_n_tensors(from); i++) {
        const gguf_tensor *t = gguf_tensor_at(from, i);
        gguf_put_tensor(w, t->name, t->type, t->n_dims, t->dims);
    }
    assert_ok(gguf_begin_data(w));
    for (size_t i = 0; i < gguf_n_tensors(from); i++) {
        const gguf_tensor *t = gguf_tensor_at(from, i);
        assert_ok(gguf_put_data(w, gguf_tensor_map(from, t), t->bytes));
    }
    assert_ok(gguf_writer_commit(w));
}

// The reference files were written by other programs in the same layout: a copy is the same file.
static void copies_are_identical(void **state)
{
    (void)state;
    static const char *const names[] = {"golden/llama-mix-k.gguf", "golden/gpt2.f16.gguf",
                                        "golden/gemma3.q8_0.gguf", "golden/llama-mix-iq4.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        gguf *g;
        char path[512];
        size_t n, n_copy;
        snprintf(path, sizeof path, "%s", test_temp("copy.gguf"));
        assert_ok(gguf_open(test_data(names[i]), true, &g));
        copy_model(g, path);
        gguf_close(g);
        char *original = test_read(test_data(names[i]), &n), *copy = test_read(path, &n_copy);
        assert_int_equal(n, n_copy);
        assert_memory_equal(original, copy, n);
        free(original);
        free(copy);
    }
}

static void every_value_type_is_copied(void **state)
{
    (void)state;
    buf b = {0};
    put_small(&b, 3);
    gguf *g;
    char path[512];
    snprintf(path, sizeof path, "%s", test_temp("small.gguf"));
    assert_ok(gguf_open_memory(b.data, b.len, &g));
    copy_model(g, path);
    gguf_close(g);
    size_t n;
    char *copy = test_read(path, &n);
    assert_int_equal(n, b.len);
    assert_memory_equal(copy, b.data, n);
    free(copy);
    buf_free(&b);
}

static size_t n_files;

static void count_file(void *arg, const char *name)
{
    (void)arg;
    if (!strncmp(name, "broken.gguf", 11)) n_files++;
}

typedef void write_step(gguf_writer *w);

static const uint64_t one_dim[] = {8};
static const char some_bytes[64];

static void key_twice(gguf_writer *w)
{
    gguf_put_bool(w, "k", true);
    gguf_put_bool(w, "k", false);
}

static void tensor_twice(gguf_writer *w)
{
    gguf_put_tensor(w, "w", 0, 1, one_dim);
    gguf_put_tensor(w, "w", 0, 1, one_dim);
}

static void key_after_tensor(gguf_writer *w)
{
    gguf_put_tensor(w, "w", 0, 1, one_dim);
    gguf_put_bool(w, "k", true);
}

static void odd_row(gguf_writer *w)
{
    gguf_put_tensor(w, "w", 8, 1, one_dim);
}

static void odd_alignment(gguf_writer *w)
{
    gguf_put_u32(w, "general.alignment", 12);
}

static void bad_name(gguf_writer *w)
{
    gguf_put_tensor(w, "\xff", 0, 1, one_dim);
}

static void data_missing(gguf_writer *w)
{
    gguf_put_tensor(w, "w", 0, 1, one_dim);
    assert_ok(gguf_begin_data(w));
    assert_ok(gguf_put_data(w, some_bytes, 31));
}

static void too_much_data(gguf_writer *w)
{
    gguf_put_tensor(w, "w", 0, 1, one_dim);
    assert_ok(gguf_begin_data(w));
    assert_int_equal(gguf_put_data(w, some_bytes, 33), PM_ERROR_RUN);
    // The first failure sticks.
    assert_int_equal(gguf_put_data(w, some_bytes, 1000), PM_ERROR_RUN);
}

static void data_too_early(gguf_writer *w)
{
    gguf_put_tensor(w, "w", 0, 1, one_dim);
    assert_int_equal(gguf_put_data(w, some_bytes, 32), PM_ERROR_RUN);
}

static void mistakes_leave_nothing_behind(void **state)
{
    (void)state;
    static const struct {
        write_step *step;
        const char *message;
    } cases[] = {
        {key_twice, "key 'k' is written twice"},
        {tensor_twice, "tensor 'w' is written twice"},
        {key_after_tensor, "key 'k' comes after the tensors"},
        {odd_row, "tensor 'w' has rows of 8 values, type Q8_0 needs a multiple of 32"},
        {odd_alignment, "general.alignment is 12, must be a multiple of 8"},
        {bad_name, "a tensor's name is not 1 to 255 bytes of valid UTF-8"},
        {data_missing, "tensor 'w' has 31 of its 32 bytes"},
        {too_much_data, "more data than the tensors take (1 bytes too many)"},
        {data_too_early, "data comes before gguf_begin_data"},
    };
    char path[512], wanted[1024];
    snprintf(path, sizeof path, "%s", test_temp("broken.gguf"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_writer *w;
        assert_ok(gguf_writer_open(path, &w));
        cases[i].step(w);
        assert_int_not_equal(gguf_writer_commit(w), PM_OK);
        snprintf(wanted, sizeof wanted, "%s: %s", path, cases[i].message);
        assert_string_equal(error_message(), wanted);
    }
    gguf_writer *w;
    assert_ok(gguf_writer_open(path, &w));
    gguf_writer_abort(w);
    gguf_writer_abort(NULL);
    assert_ok(os_list_directory(test_temp(""), count_file, NULL));
    assert_int_equal(n_files, 0);
}

// ---- split models -----------------------------------------------------------------------------

typedef struct part_spec {
    uint64_t no, count, n_tensors;
    const char *tensor;
    unsigned char fill;
} part_spec;

static void write_part(const char *path, const part_spec *spec)
{
    buf b = {0};
    put_head(&b, 3, 1, spec->no == 0 ? 4 : 3);
    put_key(&b, "split.no", GGUF_U16), put_uint(&b, spec->no, 2);
    put_key(&b, "split.count", GGUF_U16), put_uint(&b, spec->count, 2);
    put_key(&b, "split.tensors.count", GGUF_I32), put_uint(&b, spec->n_tensors, 4);
    if (spec->no == 0) put_key(&b, "general.name", GGUF_STRING), put_text(&b, "split");
    put_info(&b, spec->tensor, 0, 4, 2, 0);
    put_padding(&b, 32);
    for (int i = 0; i < 32; i++) buf_char(&b, (char)spec->fill);
    test_write(path, b.data, b.len);
    buf_free(&b);
}

static void part_path(char *path, size_t n, const char *name, int no, int count)
{
    char file[64];
    snprintf(file, sizeof file, "%s-%05d-of-%05d.gguf", name, no + 1, count);
    snprintf(path, n, "%s", test_temp(file));
}

static void write_split(const char *name, const part_spec parts[3])
{
    for (int i = 0; i < 3; i++) {
        char path[512];
        part_path(path, sizeof path, name, i, 3);
        write_part(path, &parts[i]);
    }
}

static const part_spec good[3] = {{0, 3, 3, "a", 1}, {1, 3, 3, "b", 2}, {2, 3, 3, "c", 3}};

static void a_split_model_opens(void **state)
{
    (void)state;
    write_split("good", good);
    char path[512];
    part_path(path, sizeof path, "good", 0, 3);
    for (int map = 0; map <= 1; map++) {
        gguf *g;
        assert_ok(gguf_open(path, map, &g));
        assert_int_equal(gguf_n_parts(g), 3);
        assert_int_equal(gguf_n_tensors(g), 3);
        assert_int_equal(gguf_n_values(g), 4);
        size_t n_all = 0;
        for (int i = 0; i < 3; i++) {
            char part[512];
            size_t n;
            part_path(part, sizeof part, "good", i, 3);
            free(test_read(part, &n));
            n_all += n;
            const gguf_tensor *t = gguf_find_tensor(g, good[i].tensor);
            assert_int_equal(t->part, i);
            assert_int_equal(gguf_data_offset(g, t->part), n - 32);
            unsigned char byte = 0;
            assert_ok(gguf_read(g, t, 31, &byte, 1));
            assert_int_equal(byte, good[i].fill);
            const unsigned char *mapped = gguf_tensor_map(g, t);
            assert_int_equal(mapped != NULL, map);
            if (mapped) assert_int_equal(mapped[0], good[i].fill);
        }
        assert_int_equal(gguf_file_bytes(g), n_all);
        gguf_close(g);
    }
}

// Opens NAME's part `no`; `wanted` is the message with "%s" for the folder.
static void split_refused(const char *name, int no, const char *begin, const char *rest)
{
    char path[512];
    gguf *g;
    part_path(path, sizeof path, name, no, 3);
    assert_int_equal(gguf_open(path, true, &g), PM_ERROR_FILE);
    assert_null(g);
    const char *message = error_message();
    if (strncmp(message, begin, strlen(begin)) || !strstr(message, rest))
        fail_msg("message:  %s\nexpected: %s ... %s", message, begin, rest);
}

static void split_mistakes(void **state)
{
    (void)state;
    part_spec parts[3];
    write_split("good", good);
    split_refused("good", 1, "/",
                  "good-00002-of-00003.gguf: is part 2 of 3 (open the first one, "
                  "whose name ends in -00001-of-00003.gguf)");
    char path[512];
    write_split("gap", good);
    part_path(path, sizeof path, "gap", 2, 3);
    assert_int_equal(remove(path), 0);
    split_refused("gap", 0, "part 3 of 3: ", "gap-00003-of-00003.gguf: no such file");

    memcpy(parts, good, sizeof parts);
    parts[1].no = 2;
    write_split("mixed", parts);
    split_refused("mixed", 0,
                  "part 2 of 3: ", "key 'split.no' is 2, expected 1: the parts are mixed up");
    memcpy(parts, good, sizeof parts);
    parts[2].count = 4;
    write_split("count", parts);
    split_refused("count", 0, "part 3 of 3: ", "key 'split.count' is 4, the first part says 3");
    memcpy(parts, good, sizeof parts);
    parts[0].n_tensors = 4;
    write_split("lost", parts);
    split_refused("lost", 0, "/",
                  "key 'split.tensors.count' is 4, the parts together have 3 tensors");
    memcpy(parts, good, sizeof parts);
    parts[2].tensor = "a";
    write_split("double", parts);
    split_refused("double", 0, "/", "tensor 'a' is there twice");
    memcpy(parts, good, sizeof parts);
    parts[0].count = 5;
    write_split("name", parts);
    split_refused("name", 0, "/",
                  "is the first of 5 parts, but its name does not end in "
                  "-00001-of-00005.gguf, so the others can't be found");
    memcpy(parts, good, sizeof parts);
    parts[0].no = 3;
    write_split("beyond", parts);
    split_refused("beyond", 0, "/", "key 'split.no' is 3, the parts go from 0 to 2");

    size_t n;
    part_path(path, sizeof path, "good", 0, 3);
    char *data = test_read(path, &n);
    gguf *g;
    assert_int_equal(gguf_open_memory(data, n, &g), PM_ERROR_FILE);
    assert_string_equal(error_message(), "(memory): is one part of 3: a split model can't be "
                                         "opened from memory");
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exact_bytes),
        cmocka_unit_test(copies_are_identical),
        cmocka_unit_test(every_value_type_is_copied),
        cmocka_unit_test(mistakes_leave_nothing_behind),
        cmocka_unit_test(a_split_model_opens),
        cmocka_unit_test(split_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
