// libFuzzer target over the GGUF reader: opens the bytes and reads every value and tensor.
// Seeds: corpus_gguf/ (headers of real files, cut down by make_corpus_gguf.py).
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gguf/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static volatile double kept;

static void read_value(const gguf *g, const gguf_value *v)
{
    double sum = 0;
    if (gguf_find(g, "general.name") == v) sum += 1;
    const void *bytes;
    uint64_t n;
    gguf_value_bytes(g, v, &bytes, &n);
    for (uint64_t i = 0; i < n; i++) sum += ((const uint8_t *)bytes)[i];
    for (uint64_t i = 0; i < v->n_items && v->item_type != GGUF_ARRAY; i++) {
        if (v->item_type == GGUF_STRING) {
            gguf_string text = gguf_item_string(g, v, i);
            for (size_t k = 0; k < text.len; k++) sum += text.data[k];
        } else {
            sum += gguf_item_number(g, v, i);
            if (v->item_type != GGUF_F32 && v->item_type != GGUF_F64)
                sum += (double)gguf_item_int(g, v, i);
        }
    }
    kept = sum;
}

// Keys are looked up by text, so one without a zero byte in it.
static void get_value(const gguf *g, const gguf_value *v)
{
    char *key = malloc(v->key.len + 1);
    if (!key) return;
    memcpy(key, v->key.data, v->key.len);
    key[v->key.len] = 0;
    uint32_t u32 = 0;
    uint64_t u64 = 0;
    int64_t i64 = 0;
    float f32 = 0;
    double f64 = 0;
    bool flag = false;
    gguf_string text = {0};
    int failed = gguf_get_u32(g, key, &u32) != PM_OK;
    failed += gguf_get_u64(g, key, &u64) != PM_OK;
    failed += gguf_get_i64(g, key, &i64) != PM_OK;
    failed += gguf_get_f32(g, key, &f32) != PM_OK;
    failed += gguf_get_f64(g, key, &f64) != PM_OK;
    failed += gguf_get_bool(g, key, &flag) != PM_OK;
    failed += gguf_get_string(g, key, &text) != PM_OK;
    // A key is a number, a bool, a string or an array: at least two kinds of getter refuse it.
    if (strlen(key) == v->key.len && failed < 2) abort();
    free(key);
}

static void read_tensor(const gguf *g, const gguf_tensor *t)
{
    const uint8_t *data = gguf_tensor_map(g, t);
    double sum = 0;
    for (uint64_t i = 0; i < t->bytes; i++) sum += data[i];
    uint8_t last;
    if (gguf_read(g, t, t->bytes - 1, &last, 1) != PM_OK || last != data[t->bytes - 1]) abort();
    if (gguf_find_tensor(g, t->name) != t) abort();
    kept = sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    gguf *g;
    if (gguf_open_memory(data, n, &g) != PM_OK) return 0;
    for (size_t i = 0; i < gguf_n_values(g); i++) {
        read_value(g, gguf_value_at(g, i));
        get_value(g, gguf_value_at(g, i));
    }
    for (size_t i = 0; i < gguf_n_tensors(g); i++) read_tensor(g, gguf_tensor_at(g, i));
    if (strlen(gguf_header_sha256(g)) != 64) abort();
    gguf_close(g);
    return 0;
}
