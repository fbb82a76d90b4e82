// R29, R30, R35: what the reader refuses, and how it says so. Nothing here may crash.
#include "support/test.h"

#include <inttypes.h>

#include "base/os.h"
#include "build.h"

static void check_refused(pm_status status, gguf *const *g, const char *wanted)
{
    assert_int_equal(status, PM_ERROR_FILE);
    assert_null(*g);
    if (strcmp(error_message(), wanted) != 0)
        fail_msg("message:  %s\nexpected: %s", error_message(), wanted);
}

// Opens the bytes from memory, which must fail with this message; frees them.
static void refused(buf *b, const char *wanted)
{
    gguf *g;
    assert_false(b->failed);
    check_refused(gguf_open_memory(b->data, b->len, &g), &g, wanted);
    buf_free(b);
}

static void refused_text(const char *text, size_t n, const char *wanted)
{
    buf b = {0};
    buf_add(&b, text, n);
    refused(&b, wanted);
}

#define REFUSED_TEXT(text, wanted) refused_text(text, sizeof(text) - 1, "(memory): " wanted)

static void other_things_under_a_models_name(void **state)
{
    (void)state;
    REFUSED_TEXT("", "is empty");
    REFUSED_TEXT("<!DOCTYPE html><html>",
                 "is an HTML page, not a model: the download fetched a web page instead");
    REFUSED_TEXT("\n <HTML lang=en>",
                 "is an HTML page, not a model: the download fetched a web page instead");
    REFUSED_TEXT("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n",
                 "is a git-lfs pointer, not the model itself (run git lfs pull)");
    REFUSED_TEXT("tjgg\3\0\0\0\0\0",
                 "is a model in the old GGJT format, not GGUF (convert it again)");
    REFUSED_TEXT("lmgg\0\0\0\0", "is a model in the old GGML format, not GGUF (convert it again)");
    REFUSED_TEXT("PK\3\4abcdefgh", "is a zip archive or PyTorch checkpoint, not GGUF (convert it)");
    REFUSED_TEXT("\4\0\0\0\0\0\0\0{\"a\"}", "looks like a safetensors file, not GGUF (convert it)");
    REFUSED_TEXT("Hello, world", "is not a GGUF file: it begins with the bytes 48 65 6c 6c, not "
                                 "with 'GGUF'");
    REFUSED_TEXT("x", "is not a GGUF file: it begins with the bytes 78, not with 'GGUF'");
    REFUSED_TEXT("GG", "2 bytes are needed at byte 2, the file ends at 2: the header is damaged or "
                       "the file is cut short");
    REFUSED_TEXT("GGUF", "4 bytes are needed at byte 4, the file ends at 4: the header is damaged "
                         "or the file is cut short");
    REFUSED_TEXT("GGUF\1\0\0\0\0\0\0\0\0\0\0\0",
                 "has GGUF version 1, supported are 2 and 3 (convert the model again)");
    REFUSED_TEXT("GGUF\4\0\0\0\0\0\0\0\0\0\0\0", "has GGUF version 4, supported are 2 and 3");
    REFUSED_TEXT("GGUF\0\0\0\0\0\0\0\0\0\0\0\0", "has GGUF version 0, supported are 2 and 3");
    REFUSED_TEXT("GGUF\0\0\0\3\0\0\0\0\0\0\0\1",
                 "is a big-endian GGUF file, which is not supported (convert it for a "
                 "little-endian machine)");
}

static void paths(void **state)
{
    (void)state;
    char path[512], wanted[1024];
    gguf *g;
    snprintf(path, sizeof path, "%s", test_temp("absent.gguf"));
    snprintf(wanted, sizeof wanted, "%s: no such file", path);
    check_refused(gguf_open(path, true, &g), &g, wanted);
    snprintf(path, sizeof path, "%s", test_temp("folder.gguf"));
    assert_ok(os_make_directory(path));
    snprintf(wanted, sizeof wanted, "%s: is a directory, not a file", path);
    check_refused(gguf_open(path, true, &g), &g, wanted);
    snprintf(path, sizeof path, "%s", test_temp("empty.gguf"));
    test_write(path, "", 0);
    snprintf(wanted, sizeof wanted, "%s: is empty", path);
    check_refused(gguf_open(path, true, &g), &g, wanted);
    check_refused(gguf_open(path, false, &g), &g, wanted);
}

// R29: counts and lengths that no file can hold, refused before anything is allocated for them.
static void r29_huge_claims(void **state)
{
    (void)state;
    const uint64_t huge = UINT64_C(1) << 60;
    buf b = {0};
    put_head(&b, 3, 0, huge);
    put_zeros(&b, 100);
    refused(&b, "(memory): claims 1152921504606846976 keys, more than its 124 bytes can hold");
    put_head(&b, 3, UINT64_MAX, 0);
    put_zeros(&b, 100);
    refused(&b, "(memory): claims 18446744073709551615 tensors, more than its 124 bytes can hold");
    put_head(&b, 3, 0, 1), put_uint(&b, huge, 8);
    put_zeros(&b, 100);
    refused(&b, "(memory): key 1 of 1: its name claims 1152921504606846976 bytes, allowed are "
                "65535");
    put_head(&b, 3, 0, 1), put_uint(&b, 1000, 8);
    put_zeros(&b, 100);
    refused(&b, "(memory): key 1 of 1: 1000 bytes are needed at byte 32, the file ends at 132: the "
                "header is damaged or the file is cut short");
    put_head(&b, 3, 0, 1), put_key(&b, "text", GGUF_STRING), put_uint(&b, UINT64_MAX, 8);
    refused(&b, "(memory): key 'text': 18446744073709551615 bytes are needed at byte 48, the file "
                "ends at 48: the header is damaged or the file is cut short");
    static const struct {
        uint32_t type;
        const char *name;
    } items[] = {{GGUF_U8, "u8"},         {GGUF_F32, "f32"},     {GGUF_I64, "i64"},
                 {GGUF_STRING, "string"}, {GGUF_ARRAY, "array"}, {GGUF_BOOL, "bool"}};
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        char wanted[256];
        put_head(&b, 3, 0, 1), put_key(&b, "list", GGUF_ARRAY);
        put_uint(&b, items[i].type, 4), put_uint(&b, huge + 1, 8);
        put_zeros(&b, 64);
        snprintf(wanted, sizeof wanted,
                 "(memory): key 'list': claims 1152921504606846977 items of type %s, the file ends "
                 "64 bytes later: the header is damaged or the file is cut short",
                 items[i].name);
        refused(&b, wanted);
    }
}

static void r30_values_are_named(void **state)
{
    (void)state;
    buf b = {0};
    put_head(&b, 3, 0, 1), put_key(&b, "strange", 13), put_zeros(&b, 64);
    refused(&b, "(memory): key 'strange': has value type 13, known are 0 to 12");
    put_head(&b, 3, 0, 1), put_key(&b, "strange", GGUF_ARRAY);
    put_uint(&b, 99, 4), put_uint(&b, 0, 8);
    refused(&b, "(memory): key 'strange': is an array of value type 99, known are 0 to 12");
    put_head(&b, 3, 0, 1), put_key(&b, "flag", GGUF_BOOL), put_uint(&b, 7, 1);
    refused(&b, "(memory): key 'flag': has a bool of value 7, allowed are 0 and 1");
    put_head(&b, 3, 0, 2);
    put_key(&b, "twice", GGUF_U8), put_uint(&b, 1, 1);
    put_key(&b, "twice", GGUF_U8), put_uint(&b, 1, 1);
    refused(&b, "(memory): key 'twice' is there twice");
    put_head(&b, 3, 0, 1), put_key(&b, "deep", GGUF_ARRAY);
    for (int i = 0; i < 100; i++) put_uint(&b, GGUF_ARRAY, 4), put_uint(&b, 1, 8);
    refused(&b, "(memory): key 'deep': has arrays nested more than 8 deep, which is refused");
    static const uint32_t alignments[] = {0, 1, 4, 33};
    for (size_t i = 0; i < 4; i++) {
        char wanted[128];
        put_head(&b, 3, 0, 1);
        put_key(&b, "general.alignment", GGUF_U32), put_uint(&b, alignments[i], 4);
        snprintf(wanted, sizeof wanted,
                 "(memory): key 'general.alignment' is %u, must be a multiple of 8", alignments[i]);
        refused(&b, wanted);
    }
    put_head(&b, 3, 0, 1), put_key(&b, "general.alignment", GGUF_U64), put_uint(&b, 32, 8);
    refused(&b, "(memory): key 'general.alignment' is of type u64, must be u32");
}

// One tensor w with this description and n bytes of data behind the header.
static buf one_tensor(const char *name, uint32_t type, uint64_t cols, uint64_t rows,
                      uint64_t offset, size_t n)
{
    buf b = {0};
    put_head(&b, 3, 1, 0);
    put_info(&b, name, type, cols, rows, offset);
    put_padding(&b, 32);
    put_zeros(&b, n);
    return b;
}

static void r30_tensors_are_named(void **state)
{
    (void)state;
    buf b = one_tensor("w", 0, 8, 4, 0, 128);
    gguf *g;
    assert_ok(gguf_open_memory(b.data, b.len, &g)); // the one that the others are variations of
    assert_int_equal(gguf_find_tensor(g, "w")->bytes, 128);
    gguf_close(g);
    buf_free(&b);

    b = one_tensor("", 0, 8, 4, 0, 128);
    refused(&b, "(memory): tensor 1 of 1: its name claims 0 bytes, allowed are 1 to 255");
    b = one_tensor("w\xff", 0, 8, 4, 0, 128);
    refused(&b, "(memory): tensor 1 of 1: its name is not valid UTF-8 or holds a zero byte");
    b = one_tensor("w\xed\xa0\x80", 0, 8, 4, 0, 128); // a surrogate
    refused(&b, "(memory): tensor 1 of 1: its name is not valid UTF-8 or holds a zero byte");
    b = one_tensor("wxyz", 0, 8, 4, 0, 128);
    b.data[24 + 8 + 1] = 0;
    refused(&b, "(memory): tensor 1 of 1: its name is not valid UTF-8 or holds a zero byte");
    b = one_tensor("w", 0, 8, 0, 0, 128);
    refused(&b, "(memory): tensor 'w' has a dimension of 0");
    b = one_tensor("w", 0, UINT64_C(1) << 32, UINT64_C(1) << 32, 0, 128);
    refused(&b, "(memory): tensor 'w' has more than 2^63 values");
    b = one_tensor("w", 0, UINT64_C(1) << 31, UINT64_C(1) << 31, 0, 128);
    refused(&b, "(memory): tensor 'w' has more than 2^63 bytes");
    b = one_tensor("w", 8, 33, 4, 0, 1280);
    refused(&b, "(memory): tensor 'w' has rows of 33 values, type Q8_0 needs a multiple of 32");
    b = one_tensor("w", 12, 128, 2, 0, 144); // Q4_K: half a block per row
    refused(&b, "(memory): tensor 'w' has rows of 128 values, type Q4_K needs a multiple of 256");
    b = one_tensor("w", 0, 8, 4, 8, 136);
    refused(&b, "(memory): tensor 'w' has offset 8, which is no multiple of the alignment 32");
    b = one_tensor("w", 0, 8, 4, UINT64_MAX - 31, 128);
    refused(&b, "(memory): tensor 'w' has offset 18446744073709551584, far past the end of the "
                "file");
    b = one_tensor("w", 0, 8, 4, 0, 128);
    b.data[24 + 9] = 5; // n_dims
    refused(&b, "(memory): tensor 'w': has 5 dimensions, allowed are 4");
    put_head(&b, 3, 2, 0);
    put_info(&b, "w", 0, 8, 1, 0), put_info(&b, "w", 0, 8, 1, 32);
    put_padding(&b, 32), put_zeros(&b, 64);
    refused(&b, "(memory): tensor 'w' is there twice");
    put_head(&b, 3, 2, 0);
    put_info(&b, "b", 0, 8, 2, 32), put_info(&b, "a", 0, 8, 2, 0);
    put_padding(&b, 32), put_zeros(&b, 96);
    refused(&b, "(memory): tensors 'a' and 'b' overlap (offset 0, 64 bytes; offset 32)");
}

// R32's reader part: known types open, also undecodable ones; unknown ones are named by number.
static void r32_tensor_types(void **state)
{
    (void)state;
    buf b = one_tensor("w", 27, 2, 2, 0, 32); // I64
    gguf *g;
    assert_ok(gguf_open_memory(b.data, b.len, &g));
    assert_int_equal(gguf_find_tensor(g, "w")->type, 27);
    assert_int_equal(gguf_find_tensor(g, "w")->bytes, 32);
    gguf_close(g);
    buf_free(&b);
    static const char begin[] = "(memory): tensor 'w': type 4242 (unknown) is not supported; "
                                "supported: F32, F16, BF16, Q8_0, ";
    b = one_tensor("w", 4242, 2, 2, 0, 32);
    assert_int_equal(gguf_open_memory(b.data, b.len, &g), PM_ERROR_FILE);
    assert_memory_equal(error_message(), begin, sizeof begin - 1);
    buf_free(&b);
}

// R35: a cut file says so, with the tensor, where it should end, and the file's size.
static void r35_a_cut_file_is_told_apart(void **state)
{
    (void)state;
    buf b = one_tensor("w", 0, 8, 4, 0, 127);
    refused(&b, "(memory): tensor 'w' ends at byte 224, past the end of the file (223): the file "
                "is cut short");
    b = one_tensor("w", 0, 8, 4, 0, 0);
    b.len -= 7; // in the header's padding
    refused(&b, "(memory): tensor 'w' ends at byte 224, past the end of the file (89): the file is "
                "cut short");
    size_t n;
    char *data = test_read(test_data("golden/llama-mix-k.gguf"), &n);
    char wanted[1024], path[512];
    snprintf(path, sizeof path, "%s", test_temp("cut.gguf"));
    test_write(path, data, 100000);
    gguf *g;
    snprintf(wanted, sizeof wanted,
             "%s: tensor 'blk.0.attn_k.weight' ends at byte 101088, past the end of the file "
             "(100000): the file is cut short",
             path);
    check_refused(gguf_open(path, true, &g), &g, wanted);
    test_write(path, data, 3000);
    assert_int_equal(gguf_open(path, false, &g), PM_ERROR_FILE);
    assert_non_null(strstr(error_message(), "the header is damaged or the file is cut short"));
    free(data);
}

// Reads everything that an opened file offers.
static void walk(const gguf *g)
{
    double sum = 0;
    for (size_t i = 0; i < gguf_n_values(g); i++) {
        const gguf_value *v = gguf_value_at(g, i);
        for (uint64_t k = 0; k < v->n_items; k++) {
            if (v->item_type == GGUF_ARRAY) break;
            if (v->item_type != GGUF_STRING) {
                sum += gguf_item_number(g, v, k);
                continue;
            }
            gguf_string text = gguf_item_string(g, v, k);
            for (size_t c = 0; c < text.len; c++) sum += text.data[c];
        }
    }
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const gguf_tensor *t = gguf_tensor_at(g, i);
        const char *data = gguf_tensor_map(g, t);
        for (uint64_t k = 0; k < t->bytes; k++) sum += data[k];
        assert_ptr_equal(gguf_find_tensor(g, t->name), t);
    }
    volatile double kept = sum;
    (void)kept;
}

static size_t open_and_walk(const char *data, size_t n)
{
    // A block of exactly n bytes: the sanitizer sees one byte too far.
    char *exact = malloc(n ? n : 1);
    assert_non_null(exact);
    if (n) memcpy(exact, data, n);
    gguf *g;
    pm_status status = gguf_open_memory(exact, n, &g);
    if (status == PM_OK) {
        walk(g);
        assert_int_equal(strlen(gguf_header_sha256(g)), 64);
    } else {
        assert_int_equal(status, PM_ERROR_FILE);
        assert_null(g);
        assert_memory_equal(error_message(), "(memory): ", 10);
    }
    gguf_close(g);
    free(exact);
    return status == PM_OK;
}

static void r29_every_truncation(void **state)
{
    (void)state;
    buf b = {0};
    put_small(&b, 3);
    size_t data_end =
        b.len - 128 + 32 + 68; // the last tensor: 68 bytes at offset 32; padded to 128
    for (size_t n = 0; n < b.len; n++) assert_int_equal(open_and_walk(b.data, n), n >= data_end);
    buf_free(&b);
}

static void r29_every_flipped_byte(void **state)
{
    (void)state;
    static const unsigned char flips[] = {0x01, 0x02, 0x10, 0x80, 0xff};
    buf b = {0};
    put_small(&b, 3);
    size_t n_open = 0;
    for (size_t i = 0; i < b.len; i++) {
        for (size_t k = 0; k < sizeof flips; k++) {
            b.data[i] = (char)(b.data[i] ^ flips[k]);
            n_open += open_and_walk(b.data, b.len);
            b.data[i] = (char)(b.data[i] ^ flips[k]);
        }
    }
    // Flips inside values, names and data leave a valid file; both kinds must occur.
    assert_true(n_open > 500 && n_open < b.len * sizeof flips - 500);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_things_under_a_models_name),
        cmocka_unit_test(paths),
        cmocka_unit_test(r29_huge_claims),
        cmocka_unit_test(r30_values_are_named),
        cmocka_unit_test(r30_tensors_are_named),
        cmocka_unit_test(r32_tensor_types),
        cmocka_unit_test(r35_a_cut_file_is_told_apart),
        cmocka_unit_test(r29_every_truncation),
        cmocka_unit_test(r29_every_flipped_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
