// Vocabularies small enough to write down, as GGUF bytes put together by hand, right or wrong. Used
// by tests and by the fuzz target, so nothing of cmocka here.
#ifndef TEST_TEXT_SMALL_VOCAB_H
#define TEST_TEXT_SMALL_VOCAB_H

#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "gguf/gguf.h"
#include "text/text.h"

typedef struct gguf_bytes {
    buf values;
    uint64_t n_values;
    buf file; // after gguf_bytes_open
} gguf_bytes;

static inline void add_uint(buf *b, uint64_t value, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++) buf_char(b, (char)(unsigned char)(value >> (8 * i)));
}

static inline void add_text(buf *b, const char *text, size_t n)
{
    add_uint(b, n, 8);
    buf_add(b, text, n);
}

static inline void add_key(gguf_bytes *b, const char *key, gguf_type type)
{
    add_text(&b->values, key, strlen(key));
    add_uint(&b->values, type, 4);
    b->n_values++;
}

static inline void add_string(gguf_bytes *b, const char *key, const char *text)
{
    add_key(b, key, GGUF_STRING);
    add_text(&b->values, text, strlen(text));
}

static inline void add_u32(gguf_bytes *b, const char *key, uint32_t value)
{
    add_key(b, key, GGUF_U32);
    add_uint(&b->values, value, 4);
}

static inline void add_bool(gguf_bytes *b, const char *key, bool value)
{
    add_key(b, key, GGUF_BOOL);
    add_uint(&b->values, value, 1);
}

// The items follow, added to b->values by the caller.
static inline void add_array(gguf_bytes *b, const char *key, gguf_type item_type, uint64_t n)
{
    add_key(b, key, GGUF_ARRAY);
    add_uint(&b->values, item_type, 4);
    add_uint(&b->values, n, 8);
}

static inline void add_strings(gguf_bytes *b, const char *key, const char *const *texts, size_t n)
{
    add_array(b, key, GGUF_STRING, n);
    for (size_t i = 0; i < n; i++) add_text(&b->values, texts[i], strlen(texts[i]));
}

static inline void add_i32s(gguf_bytes *b, const char *key, const int32_t *items, size_t n)
{
    add_array(b, key, GGUF_I32, n);
    for (size_t i = 0; i < n; i++) add_uint(&b->values, (uint32_t)items[i], 4);
}

static inline void add_f32s(gguf_bytes *b, const char *key, const float *items, size_t n)
{
    add_array(b, key, GGUF_F32, n);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &items[i], 4);
        add_uint(&b->values, bits, 4);
    }
}

static inline pm_status gguf_bytes_open(gguf_bytes *b, gguf **out)
{
    buf_str(&b->file, "GGUF");
    add_uint(&b->file, 3, 4);
    add_uint(&b->file, 0, 8);
    add_uint(&b->file, b->n_values, 8);
    buf_add(&b->file, b->values.data, b->values.len);
    while (b->file.len % 32) buf_char(&b->file, 0);
    return gguf_open_memory(b->file.data, b->file.len, out);
}

static inline void gguf_bytes_free(gguf_bytes *b)
{
    buf_free(&b->values);
    buf_free(&b->file);
}

// A byte-level vocabulary: the 256 letters of the byte alphabet in the order of their bytes, then
// `more` tokens of the given types. Their merges are the caller's.
static inline void add_byte_level(gguf_bytes *b, const char *pre, const char *const *more,
                                  const int32_t *types, size_t n_more)
{
    add_string(b, "tokenizer.ggml.model", "gpt2");
    if (pre) add_string(b, "tokenizer.ggml.pre", pre);
    add_array(b, "tokenizer.ggml.tokens", GGUF_STRING, 256 + n_more);
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; byte++) {
        bool itself = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
        char text[4];
        size_t n = text_utf8_put(itself ? byte : next++, text);
        add_text(&b->values, text, n);
    }
    for (size_t i = 0; i < n_more; i++) add_text(&b->values, more[i], strlen(more[i]));
    add_array(b, "tokenizer.ggml.token_type", GGUF_I32, 256 + n_more);
    for (size_t i = 0; i < 256; i++) add_uint(&b->values, TEXT_NORMAL, 4);
    for (size_t i = 0; i < n_more; i++) add_uint(&b->values, (uint32_t)types[i], 4);
}

#endif
