// GGUF bytes put together by hand, right or wrong, without pumice's writer.
#ifndef TEST_GGUF_BUILD_H
#define TEST_GGUF_BUILD_H

#include "base/buf.h"
#include "gguf/gguf.h"

static inline void put_uint(buf *b, uint64_t value, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++) buf_char(b, (char)(unsigned char)(value >> (8 * i)));
}

static inline void put_text(buf *b, const char *text)
{
    put_uint(b, strlen(text), 8);
    buf_str(b, text);
}

static inline void put_head(buf *b, uint32_t version, uint64_t n_tensors, uint64_t n_values)
{
    buf_str(b, "GGUF");
    put_uint(b, version, 4);
    put_uint(b, n_tensors, 8);
    put_uint(b, n_values, 8);
}

static inline void put_key(buf *b, const char *key, uint32_t type)
{
    put_text(b, key);
    put_uint(b, type, 4);
}

static inline void put_info(buf *b, const char *name, uint32_t type, uint64_t cols, uint64_t rows,
                            uint64_t offset)
{
    put_text(b, name);
    put_uint(b, 2, 4);
    put_uint(b, cols, 8);
    put_uint(b, rows, 8);
    put_uint(b, type, 4);
    put_uint(b, offset, 8);
}

static inline void put_padding(buf *b, size_t align)
{
    while (b->len % align) buf_char(b, 0);
}

static inline void put_zeros(buf *b, size_t n)
{
    for (size_t i = 0; i < n; i++) buf_char(b, 0);
}

// A header with a value of every type, arrays of numbers, strings and arrays, and two tensors.
static inline void put_small(buf *b, uint32_t version)
{
    put_head(b, version, 2, 17);
    put_key(b, "a.u8", GGUF_U8), put_uint(b, 200, 1);
    put_key(b, "a.i8", GGUF_I8), put_uint(b, 0xfb, 1); // -5
    put_key(b, "a.u16", GGUF_U16), put_uint(b, 60000, 2);
    put_key(b, "a.i16", GGUF_I16), put_uint(b, 0xfc18, 2); // -1000
    put_key(b, "a.u32", GGUF_U32), put_uint(b, 4000000000u, 4);
    put_key(b, "a.i32", GGUF_I32), put_uint(b, 0xfffe7960u, 4); // -100000
    put_key(b, "a.u64", GGUF_U64), put_uint(b, UINT64_MAX, 8);
    put_key(b, "a.i64", GGUF_I64), put_uint(b, UINT64_MAX - 5000000000u + 1, 8);
    put_key(b, "a.f32", GGUF_F32), put_uint(b, 0x40490fdbu, 4);               // pi in f32
    put_key(b, "a.f64", GGUF_F64), put_uint(b, 0x400921fb54442d18u, 8);       // pi in f64
    put_key(b, "a.f64.whole", GGUF_F64), put_uint(b, 0x4008000000000000u, 8); // 3
    put_key(b, "a.bool", GGUF_BOOL), put_uint(b, 1, 1);
    put_key(b, "a.text", GGUF_STRING), put_text(b, "na\xc3\xafve");
    put_key(b, "b.i16s", GGUF_ARRAY), put_uint(b, GGUF_I16, 4), put_uint(b, 3, 8);
    put_uint(b, 1, 2), put_uint(b, 0xffff, 2), put_uint(b, 32767, 2);
    put_key(b, "b.texts", GGUF_ARRAY), put_uint(b, GGUF_STRING, 4), put_uint(b, 3, 8);
    put_text(b, "one"), put_text(b, ""), put_text(b, "three");
    put_key(b, "b.nested", GGUF_ARRAY), put_uint(b, GGUF_ARRAY, 4), put_uint(b, 2, 8);
    put_uint(b, GGUF_STRING, 4), put_uint(b, 1, 8), put_text(b, "in");
    put_uint(b, GGUF_BOOL, 4), put_uint(b, 2, 8), put_uint(b, 1, 1), put_uint(b, 0, 1);
    put_key(b, "b.empty", GGUF_ARRAY), put_uint(b, GGUF_STRING, 4), put_uint(b, 0, 8);
    put_info(b, "w", 0, 4, 2, 0);
    put_info(b, "q", 8, 32, 2, 32);
    put_padding(b, 32);
    for (int i = 0; i < 32 + 68; i++) buf_char(b, (char)i);
    put_padding(b, 32);
}

#endif
