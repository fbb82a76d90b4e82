// What gguf.c, parse.c and value.c share: an opened file's parts and their indexes.
#ifndef PUMICE_GGUF_INTERNAL_H
#define PUMICE_GGUF_INTERNAL_H

#include "gguf/gguf.h"

#include "base/buf.h"
#include "base/os.h"

enum { GGUF_ALIGNMENT = 32, GGUF_MAX_KEY = 65535, GGUF_MAX_NAME = 255 };

// A value and where its bytes lie in its part's header. `value` comes first: the pointers that
// callers hold are pointers to the whole.
typedef struct value_entry {
    gguf_value value;
    uint64_t key_at;     // of the key's first character
    uint64_t at, bytes;  // the value, behind its type
    size_t first_string; // an array of strings: its first place in part.strings
} value_entry;

typedef struct tensor_entry { // `tensor` first, as above
    gguf_tensor tensor;
    size_t name_at; // in gguf.names
} tensor_entry;

// One file. Its header lies on the heap, also when the file is mapped: the strings that callers
// hold survive a file that shrinks.
typedef struct gguf_part {
    char *path;
    os_file *file;         // NULL: opened from memory
    const uint8_t *memory; // all bytes when from memory
    uint64_t size;
    uint8_t *heap;         // the header, when from a file
    const uint8_t *header; // `heap` or `memory`
    uint64_t n_header;     // bytes of it that are there
    uint32_t version, alignment;
    uint64_t data_offset;
    value_entry *values;
    size_t n_values, cap_values;
    const gguf_value **by_key; // sorted
    uint64_t *strings;         // where each string of each array of strings begins (its length)
    size_t n_strings, cap_strings;
} gguf_part;

typedef struct header_hash {
    os_mutex *lock;
    char hex[65]; // empty until asked for
} header_hash;

struct gguf {
    gguf_part *parts;
    uint32_t n_parts;
    tensor_entry *tensors; // of all parts
    size_t n_tensors, cap_tensors;
    const gguf_tensor **by_name; // sorted
    buf names;
    header_hash *hash;
};

// parse.c: reads the header of parts[index] (whose file, memory and size are set), appends its
// tensors to g and leaves values and strings in the part. Checks everything that concerns this
// part alone.
pm_status gguf_parse(gguf *g, uint32_t index);

// Bytes of a tensor of this type and shape, at most INT64_MAX; the message speaks of "tensor NAME".
pm_status gguf_shape_bytes(const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                           uint64_t *bytes);
// Valid UTF-8 without zero bytes, 1 to GGUF_MAX_NAME long: what a tensor may be called.
bool gguf_name_valid(const char *name, size_t n);
// A multiple of 8, as the specification asks.
bool gguf_alignment_valid(uint32_t alignment);
// Bytes of one item; 0 for strings and arrays, whose size varies, and for unknown types.
uint32_t gguf_type_bytes(uint32_t type);
const char *gguf_type_name(uint32_t type); // "u32", "array", ...
// A value of the part by key; NULL: absent.
const gguf_value *gguf_part_find(const gguf_part *p, const char *key);
// gguf_get_u64 for any part.
pm_status gguf_part_u64(const gguf_part *p, const char *key, uint64_t *out);

// Makes room for one more item of `size` bytes behind n; false: out of memory.
bool gguf_grow(void **items, size_t n, size_t *cap, size_t size);

// Little-endian, from any address.
static inline uint16_t load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t load_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t load_u64(const uint8_t *p)
{
    return load_u32(p) | (uint64_t)load_u32(p + 4) << 32;
}

#endif
