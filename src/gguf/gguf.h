// GGUF files, versions 2 and 3: a bounds-checked reader and a writer.
//
// Everything a file says is checked against the file's size before it is used, and every refusal is
// PM_ERROR_FILE with one line that names the file, the key or tensor, what was found and what is
// allowed. An opened gguf is immutable: any number of threads may read it.
#ifndef PUMICE_GGUF_GGUF_H
#define PUMICE_GGUF_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct gguf gguf;

typedef enum gguf_type {
    GGUF_U8 = 0,
    GGUF_I8 = 1,
    GGUF_U16 = 2,
    GGUF_I16 = 3,
    GGUF_U32 = 4,
    GGUF_I32 = 5,
    GGUF_F32 = 6,
    GGUF_BOOL = 7,
    GGUF_STRING = 8,
    GGUF_ARRAY = 9,
    GGUF_U64 = 10,
    GGUF_I64 = 11,
    GGUF_F64 = 12,
} gguf_type;

// Not zero-terminated, may hold any bytes; points into the gguf.
typedef struct gguf_string {
    const char *data;
    size_t len;
} gguf_string;

typedef struct gguf_value {
    gguf_string key;
    gguf_type type;      // GGUF_ARRAY: then item_type and n_items
    gguf_type item_type; // nested arrays are walked by gguf_value_array only as a whole
    uint64_t n_items;    // 1 for scalars
} gguf_value;

enum { GGUF_MAX_DIMS = 4 };

typedef struct gguf_tensor {
    const char *name; // zero-terminated, valid UTF-8, unique in the model
    uint32_t type;    // GGUF's number; may be one that pumice doesn't decode
    uint32_t n_dims;
    uint64_t dims[GGUF_MAX_DIMS]; // dims[0] is contiguous ("cols"); 1 beyond n_dims
    uint64_t offset;              // in its file's tensor data, as the file says
    uint64_t bytes;
    uint32_t part; // which file of a split model
} gguf_tensor;

// ---- reading ----------------------------------------------------------------------------------

// `path` may be the first part of a split model (NAME-00001-of-000NN.gguf): its other parts are
// opened too. With map = false nothing is mapped, tensor data comes by gguf_read only.
pm_status gguf_open(const char *path, bool map, gguf **out);
// The same from memory (tests, fuzzing); `data` must outlive the gguf.
pm_status gguf_open_memory(const void *data, uint64_t n, gguf **out);
void gguf_close(gguf *g); // accepts NULL

const char *gguf_path(const gguf *g);
uint32_t gguf_version(const gguf *g);
uint32_t gguf_alignment(const gguf *g);
uint32_t gguf_n_parts(const gguf *g);
uint64_t gguf_file_bytes(const gguf *g);                 // all parts together
uint64_t gguf_data_offset(const gguf *g, uint32_t part); // where tensor data begins
const char *gguf_header_sha256(const gguf *g);           // hex, of everything before the data
size_t gguf_n_values(const gguf *g);
const gguf_value *gguf_value_at(const gguf *g, size_t index);
const gguf_value *gguf_find(const gguf *g, const char *key); // NULL: absent

// Scalars. Each converts between number types where nothing is lost, and fails with PM_ERROR_FILE
// (naming key, type and value) when the key has another type or the value does not fit. Absent:
// *out keeps what it held and PM_OK is returned, so that a default is written before the call.
pm_status gguf_get_u32(const gguf *g, const char *key, uint32_t *out);
pm_status gguf_get_u64(const gguf *g, const char *key, uint64_t *out);
pm_status gguf_get_i64(const gguf *g, const char *key, int64_t *out);
pm_status gguf_get_f32(const gguf *g, const char *key, float *out);
pm_status gguf_get_f64(const gguf *g, const char *key, double *out);
pm_status gguf_get_bool(const gguf *g, const char *key, bool *out);
pm_status gguf_get_string(const gguf *g, const char *key, gguf_string *out);

// Items of an array value (index < n_items), or the scalar itself at index 0. The caller has
// checked type or item_type: each asserts it.
gguf_string gguf_item_string(const gguf *g, const gguf_value *v, uint64_t index);
double gguf_item_number(const gguf *g, const gguf_value *v, uint64_t index); // any number, bool
int64_t gguf_item_int(const gguf *g, const gguf_value *v, uint64_t index);   // any integer, bool
// The raw bytes of a value as the file holds them (after its type), for copying it elsewhere.
void gguf_value_bytes(const gguf *g, const gguf_value *v, const void **data, uint64_t *n);

size_t gguf_n_tensors(const gguf *g);
const gguf_tensor *gguf_tensor_at(const gguf *g, size_t index);
const gguf_tensor *gguf_find_tensor(const gguf *g, const char *name); // NULL: absent

// The mapped bytes of a tensor, NULL when the file isn't mapped.
const void *gguf_tensor_map(const gguf *g, const gguf_tensor *t);
// Copies n bytes at `offset` within the tensor. Reads the file, mapped or not.
pm_status gguf_read(const gguf *g, const gguf_tensor *t, uint64_t offset, void *dst, uint64_t n);
// These bytes of the tensor won't be needed again soon (see os_file_drop, os_file_prefetch).
void gguf_drop(const gguf *g, const gguf_tensor *t, uint64_t offset, uint64_t n);
void gguf_prefetch(const gguf *g, const gguf_tensor *t, uint64_t offset, uint64_t n);

// ---- writing (version 3) ----------------------------------------------------------------------

// Keys in the order of their addition, then tensors in the order of their declaration, each padded
// to the alignment (32; general.alignment when that key was added before). The file appears under
// its name at commit. Errors stick: the first one is what commit returns.
typedef struct gguf_writer gguf_writer;

pm_status gguf_writer_open(const char *path, gguf_writer **out);
void gguf_put_u32(gguf_writer *w, const char *key, uint32_t value);
void gguf_put_i32(gguf_writer *w, const char *key, int32_t value);
void gguf_put_u64(gguf_writer *w, const char *key, uint64_t value);
void gguf_put_f32(gguf_writer *w, const char *key, float value);
void gguf_put_bool(gguf_writer *w, const char *key, bool value);
void gguf_put_string(gguf_writer *w, const char *key, const char *text, size_t n);
void gguf_put_strings(gguf_writer *w, const char *key, const gguf_string *texts, uint64_t n);
void gguf_put_i32s(gguf_writer *w, const char *key, const int32_t *values, uint64_t n);
void gguf_put_f32s(gguf_writer *w, const char *key, const float *values, uint64_t n);
// A value of another file, byte for byte.
void gguf_put_copy(gguf_writer *w, const gguf *from, const gguf_value *v);
// Declares a tensor; offset and bytes follow from type and dims.
void gguf_put_tensor(gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                     const uint64_t *dims);
// Ends the declarations; then data is appended in declaration order, in pieces of any size (the
// writer knows where each tensor ends and pads).
pm_status gguf_begin_data(gguf_writer *w);
pm_status gguf_put_data(gguf_writer *w, const void *data, uint64_t n);
pm_status gguf_writer_commit(gguf_writer *w); // frees w; fails when data is missing
void gguf_writer_abort(gguf_writer *w);       // accepts NULL; nothing is left behind

#endif
