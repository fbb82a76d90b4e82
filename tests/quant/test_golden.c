// Decoders and encoders against golden/quants: every type of index.json, bit for bit. Its files
// were made by gguf.quants, not by pumice.
#include "support/test.h"

#include <jansson.h>
#include <stdbool.h>

#include "quant/quant.h"

// The folders with an index: the reference data, and a little of it in the repository.
static void path_in(bool whole, const char *name, char path[1024])
{
    if (whole) {
        char inside[256];
        snprintf(inside, sizeof inside, "golden/quants/%s", name);
        snprintf(path, 1024, "%s", test_data(inside));
    } else {
        snprintf(path, 1024, "%s/%s", test_source("tests/quant/data"), name);
    }
}

static json_t *read_index(bool whole)
{
    char path[1024];
    path_in(whole, "index.json", path);
    json_error_t error;
    json_t *index = json_load_file(path, 0, &error);
    if (!index) fail_msg("%s: %s", path, error.text);
    return index;
}

// The bytes of a file from the entry's offset, if it has one. Released with free.
static char *read_golden(bool whole, json_t *entry, const char *key, size_t *n)
{
    char path[1024], offset_key[32];
    path_in(whole, json_string_value(json_object_get(entry, key)), path);
    char *data = test_read(path, n);
    snprintf(offset_key, sizeof offset_key, "%s_offset", key);
    size_t offset = (size_t)json_integer_value(json_object_get(entry, offset_key));
    assert_true(offset <= *n);
    *n -= offset;
    memmove(data, data + offset, *n);
    return data;
}

static uint64_t number(json_t *entry, const char *key)
{
    json_t *value = json_object_get(entry, key);
    assert_true(json_is_integer(value));
    return (uint64_t)json_integer_value(value);
}

static const quant_format *entry_format(json_t *entry)
{
    const char *name = json_string_value(json_object_get(entry, "type"));
    const quant_format *format = quant_format_of((uint32_t)number(entry, "ggml_type"));
    if (!format) fail_msg("%s is not in the table", name);
    assert_string_equal(format->name, name);
    assert_ptr_equal(format, quant_format_named(name));
    return format;
}

// Guard words behind the output must survive.
static void decode_exactly(const quant_format *format, const char *blocks, const char *expected,
                           size_t n)
{
    float *values = malloc((n + 4) * sizeof *values);
    assert_non_null(values);
    memset(values, 0x5a, (n + 4) * sizeof *values);
    format->decode(blocks, values, n);
    for (size_t i = 0; i < n; i++) {
        uint32_t want, have;
        memcpy(&want, expected + 4 * i, 4);
        memcpy(&have, values + i, 4);
        if (want != have)
            fail_msg("%s: value %zu is %08x, not %08x", format->name, i, (unsigned)have,
                     (unsigned)want);
    }
    for (size_t i = 0; i < 16; i++) assert_int_equal(((unsigned char *)(values + n))[i], 0x5a);
    free(values);
}

static void decode_every_type(bool whole)
{
    json_t *index = read_index(whole), *entry;
    size_t i;
    json_array_foreach(json_object_get(index, "dequantize"), i, entry)
    {
        const quant_format *format = entry_format(entry);
        size_t n = (size_t)number(entry, "n_values"), n_blocks, n_floats;
        assert_int_equal(format->block_values, number(entry, "block_values"));
        assert_int_equal(format->block_bytes, number(entry, "block_bytes"));
        char *blocks = read_golden(whole, entry, "in", &n_blocks);
        char *expected = read_golden(whole, entry, "out", &n_floats);
        uint64_t bytes;
        assert_true(quant_row_bytes((uint32_t)format->type, n, &bytes));
        assert_int_equal(bytes, number(entry, "bytes"));
        assert_true(n_blocks >= bytes && n_floats >= 4 * n);
        decode_exactly(format, blocks, expected, n);
        // from an odd address, and one block alone
        char *moved = malloc(n_blocks + 1);
        assert_non_null(moved);
        memcpy(moved + 1, blocks, n_blocks);
        decode_exactly(format, moved + 1, expected, n);
        decode_exactly(format, moved + 1, expected, format->block_values);
        free(moved);
        free(blocks);
        free(expected);
    }
    assert_true(i >= 24);
    json_decref(index);
}

static void encode_every_type(bool whole)
{
    json_t *index = read_index(whole), *entry;
    size_t i;
    json_array_foreach(json_object_get(index, "quantize"), i, entry)
    {
        const quant_format *format = entry_format(entry);
        if (!format->encode) fail_msg("%s has no encoder", format->name);
        size_t n_in, n_all, n_out = (size_t)number(entry, "bytes");
        size_t n = (size_t)(number(entry, "rows") * number(entry, "cols"));
        char *in = read_golden(whole, entry, "in", &n_in),
             *out = read_golden(whole, entry, "out", &n_all);
        assert_true(n_in >= 4 * n && n_all >= n_out);
        unsigned char *blocks = malloc(n_out + 16);
        assert_non_null(blocks);
        memset(blocks, 0x5a, n_out + 16);
        format->encode((const float *)(const void *)in, blocks, n);
        for (size_t j = 0; j < n_out; j++) {
            if (blocks[j] != (unsigned char)out[j])
                fail_msg("%s: byte %zu is %02x, not %02x", format->name, j, blocks[j],
                         (unsigned char)out[j]);
        }
        for (size_t j = 0; j < 16; j++) assert_int_equal(blocks[n_out + j], 0x5a);
        free(blocks);
        free(in);
        free(out);
    }
    assert_true(i >= 10);
    json_decref(index);
}

static void decode_reference(void **state)
{
    (void)state;
    decode_every_type(true);
}

static void decode_samples(void **state)
{
    (void)state;
    decode_every_type(false);
}

static void encode_reference(void **state)
{
    (void)state;
    encode_every_type(true);
}

static void encode_samples(void **state)
{
    (void)state;
    encode_every_type(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_samples),
        cmocka_unit_test(encode_samples),
        cmocka_unit_test(decode_reference),
        cmocka_unit_test(encode_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
