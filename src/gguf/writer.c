// Writing: declarations are collected in memory, the header goes out with gguf_begin_data, then
// tensor data streams through.
#include "gguf/internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

typedef struct declared {
    size_t name_at;         // in gguf_writer.names
    uint64_t offset, bytes; // in the data
} declared;

struct gguf_writer {
    os_writer *file;
    char *path;
    pm_status status; // the first failure, with its message
    char message[1024];
    uint32_t alignment;
    buf values, infos;
    uint64_t n_values;
    buf names;    // of keys, then of tensors, zero-terminated
    size_t *keys; // in names
    size_t cap_keys;
    declared *tensors;
    size_t n_tensors, cap_tensors;
    uint64_t data_end; // of the tensors declared so far, padded
    bool in_data;
    size_t current; // the tensor being filled
    uint64_t n_in_current;
};

static void writer_fail(gguf_writer *w, pm_status status)
{
    if (w->status != PM_OK || status == PM_OK) return;
    w->status = status;
    snprintf(w->message, sizeof w->message, "%s", error_message());
}

static pm_status writer_status(const gguf_writer *w)
{
    return w->status == PM_OK ? PM_OK : error_set(w->status, "%s", w->message);
}

pm_status gguf_writer_open(const char *path, gguf_writer **out)
{
    *out = NULL;
    gguf_writer *w = calloc(1, sizeof *w);
    size_t n = strlen(path) + 1;
    if (w) w->path = malloc(n);
    if (!w || !w->path) {
        gguf_writer_abort(w);
        return error_memory("a GGUF writer", sizeof *w + n);
    }
    memcpy(w->path, path, n);
    w->alignment = GGUF_ALIGNMENT;
    pm_status status = os_writer_open(path, &w->file);
    if (status != PM_OK)
        gguf_writer_abort(w);
    else
        *out = w;
    return status;
}

void gguf_writer_abort(gguf_writer *w)
{
    if (!w) return;
    os_writer_abort(w->file);
    buf_free(&w->values);
    buf_free(&w->infos);
    buf_free(&w->names);
    free(w->keys);
    free(w->tensors);
    free(w->path);
    free(w);
}

// ---- little-endian bytes ----------------------------------------------------------------------

static void add_uint(buf *b, uint64_t value, int n_bytes)
{
    char bytes[8];
    for (int i = 0; i < n_bytes; i++) bytes[i] = (char)(uint8_t)(value >> (8 * i));
    buf_add(b, bytes, (size_t)n_bytes);
}

static void add_string(buf *b, const char *text, size_t n)
{
    add_uint(b, n, 8);
    buf_add(b, text, n);
}

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// ---- keys -------------------------------------------------------------------------------------

// Writes key and type; false: the value must not be written.
static bool begin_value(gguf_writer *w, const char *key, size_t n_key, gguf_type type)
{
    if (w->status != PM_OK) return false;
    if (w->in_data || w->n_tensors) {
        writer_fail(w,
                    error_set(PM_ERROR_RUN, "%s: key '%s' comes after the tensors", w->path, key));
        return false;
    }
    if (n_key > GGUF_MAX_KEY || memchr(key, 0, n_key)) {
        writer_fail(w, error_set(PM_ERROR_RUN,
                                 "%s: a key has %zu bytes or a zero byte, allowed "
                                 "are %d bytes, none zero",
                                 w->path, n_key, GGUF_MAX_KEY));
        return false;
    }
    if (!gguf_grow((void **)&w->keys, (size_t)w->n_values, &w->cap_keys, sizeof *w->keys)) {
        writer_fail(w, error_memory("keys", w->n_values));
        return false;
    }
    w->keys[w->n_values++] = w->names.len;
    buf_add(&w->names, key, n_key);
    buf_char(&w->names, 0);
    add_string(&w->values, key, n_key);
    add_uint(&w->values, type, 4);
    return true;
}

static bool begin_array(gguf_writer *w, const char *key, gguf_type item_type, uint64_t n)
{
    if (!begin_value(w, key, strlen(key), GGUF_ARRAY)) return false;
    add_uint(&w->values, item_type, 4);
    add_uint(&w->values, n, 8);
    return true;
}

static void set_alignment(gguf_writer *w, uint32_t alignment)
{
    if (gguf_alignment_valid(alignment))
        w->alignment = alignment;
    else
        writer_fail(w, error_set(PM_ERROR_RUN,
                                 "%s: general.alignment is %" PRIu32 ", must be a multiple of 8",
                                 w->path, alignment));
}

static bool is_alignment(const char *key, size_t n)
{
    return n == strlen("general.alignment") && !memcmp(key, "general.alignment", n);
}

void gguf_put_u32(gguf_writer *w, const char *key, uint32_t value)
{
    if (!begin_value(w, key, strlen(key), GGUF_U32)) return;
    add_uint(&w->values, value, 4);
    if (is_alignment(key, strlen(key))) set_alignment(w, value);
}

void gguf_put_i32(gguf_writer *w, const char *key, int32_t value)
{
    if (begin_value(w, key, strlen(key), GGUF_I32)) add_uint(&w->values, (uint32_t)value, 4);
}

void gguf_put_u64(gguf_writer *w, const char *key, uint64_t value)
{
    if (begin_value(w, key, strlen(key), GGUF_U64)) add_uint(&w->values, value, 8);
}

void gguf_put_f32(gguf_writer *w, const char *key, float value)
{
    if (begin_value(w, key, strlen(key), GGUF_F32)) add_uint(&w->values, float_bits(value), 4);
}

void gguf_put_bool(gguf_writer *w, const char *key, bool value)
{
    if (begin_value(w, key, strlen(key), GGUF_BOOL)) add_uint(&w->values, value, 1);
}

void gguf_put_string(gguf_writer *w, const char *key, const char *text, size_t n)
{
    if (begin_value(w, key, strlen(key), GGUF_STRING)) add_string(&w->values, text, n);
}

void gguf_put_strings(gguf_writer *w, const char *key, const gguf_string *texts, uint64_t n)
{
    if (!begin_array(w, key, GGUF_STRING, n)) return;
    for (uint64_t i = 0; i < n; i++) add_string(&w->values, texts[i].data, texts[i].len);
}

void gguf_put_i32s(gguf_writer *w, const char *key, const int32_t *values, uint64_t n)
{
    if (!begin_array(w, key, GGUF_I32, n)) return;
    for (uint64_t i = 0; i < n; i++) add_uint(&w->values, (uint32_t)values[i], 4);
}

void gguf_put_f32s(gguf_writer *w, const char *key, const float *values, uint64_t n)
{
    if (!begin_array(w, key, GGUF_F32, n)) return;
    for (uint64_t i = 0; i < n; i++) add_uint(&w->values, float_bits(values[i]), 4);
}

void gguf_put_copy(gguf_writer *w, const gguf *from, const gguf_value *v)
{
    const void *data;
    uint64_t n;
    gguf_value_bytes(from, v, &data, &n);
    if (!begin_value(w, v->key.data, v->key.len, v->type)) return;
    buf_add(&w->values, data, (size_t)n);
    if (v->type == GGUF_U32 && is_alignment(v->key.data, v->key.len))
        set_alignment(w, load_u32(data));
}

// ---- tensors ----------------------------------------------------------------------------------

static pm_status declare(gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                         const uint64_t *dims)
{
    if (w->in_data)
        return error_set(PM_ERROR_RUN, "tensor '%s' is declared after the data began", name);
    if (!gguf_name_valid(name, strlen(name)))
        return error_set(PM_ERROR_RUN, "a tensor's name is not 1 to %d bytes of valid UTF-8",
                         GGUF_MAX_NAME);
    if (n_dims > GGUF_MAX_DIMS)
        return error_set(PM_ERROR_RUN, "tensor '%s' has %" PRIu32 " dimensions, allowed are %d",
                         name, n_dims, GGUF_MAX_DIMS);
    declared t = {.name_at = w->names.len, .offset = w->data_end};
    pm_status status = gguf_shape_bytes(name, type, n_dims, dims, &t.bytes);
    if (status != PM_OK) return status;
    if (!size_add(t.offset, t.bytes, &w->data_end) ||
        !size_align(w->data_end, w->alignment, &w->data_end))
        return error_set(PM_ERROR_RUN, "tensor '%s' makes the file larger than 2^64 bytes", name);
    if (!gguf_grow((void **)&w->tensors, w->n_tensors, &w->cap_tensors, sizeof *w->tensors))
        return error_memory("tensors", w->n_tensors);
    w->tensors[w->n_tensors++] = t;
    buf_add(&w->names, name, strlen(name) + 1);
    add_string(&w->infos, name, strlen(name));
    add_uint(&w->infos, n_dims, 4);
    for (uint32_t i = 0; i < n_dims; i++) add_uint(&w->infos, dims[i], 8);
    add_uint(&w->infos, type, 4);
    add_uint(&w->infos, t.offset, 8);
    return PM_OK;
}

void gguf_put_tensor(gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                     const uint64_t *dims)
{
    if (w->status == PM_OK)
        writer_fail(w, error_in(declare(w, name, type, n_dims, dims), "%s", w->path));
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// No name twice among n names.
static pm_status check_unique(const char **names, size_t n, const char *kind)
{
    qsort(names, n, sizeof *names, compare_text);
    for (size_t i = 1; i < n; i++) {
        if (!strcmp(names[i - 1], names[i]))
            return error_set(PM_ERROR_RUN, "%s '%s' is written twice", kind, names[i]);
    }
    return PM_OK;
}

static pm_status check_names(const gguf_writer *w)
{
    size_t n_keys = (size_t)w->n_values, most = n_keys > w->n_tensors ? n_keys : w->n_tensors;
    const char **names = calloc(most + 1, sizeof *names);
    if (!names) return error_memory("names", most);
    for (size_t i = 0; i < n_keys; i++) names[i] = w->names.data + w->keys[i];
    pm_status status = check_unique(names, n_keys, "key");
    for (size_t i = 0; i < w->n_tensors; i++) names[i] = w->names.data + w->tensors[i].name_at;
    if (status == PM_OK) status = check_unique(names, w->n_tensors, "tensor");
    free(names);
    return status;
}

// ---- data -------------------------------------------------------------------------------------

static pm_status pad(gguf_writer *w, uint64_t n)
{
    static const char zeros[64];
    while (n > 0) {
        uint64_t part = n < sizeof zeros ? n : sizeof zeros;
        pm_status status = os_writer_write(w->file, zeros, part);
        if (status != PM_OK) return status;
        n -= part;
    }
    return PM_OK;
}

static uint64_t padding(const gguf_writer *w, uint64_t n)
{
    return n % w->alignment ? w->alignment - n % w->alignment : 0;
}

pm_status gguf_begin_data(gguf_writer *w)
{
    assert(!w->in_data);
    if (w->values.failed || w->infos.failed || w->names.failed)
        writer_fail(w, error_memory("a GGUF header", w->values.len + w->infos.len));
    if (w->status == PM_OK) writer_fail(w, error_in(check_names(w), "%s", w->path));
    if (w->status != PM_OK) return writer_status(w);
    w->in_data = true;
    buf head = {0};
    buf_str(&head, "GGUF");
    add_uint(&head, 3, 4);
    add_uint(&head, w->n_tensors, 8);
    add_uint(&head, w->n_values, 8);
    pm_status status = head.failed ? error_memory("a GGUF header", 24) : PM_OK;
    if (status == PM_OK) status = os_writer_write(w->file, head.data, head.len);
    if (status == PM_OK) status = os_writer_write(w->file, w->values.data, w->values.len);
    if (status == PM_OK) status = os_writer_write(w->file, w->infos.data, w->infos.len);
    if (status == PM_OK) status = pad(w, padding(w, os_writer_offset(w->file)));
    buf_free(&head);
    buf_free(&w->values);
    buf_free(&w->infos);
    writer_fail(w, status);
    return writer_status(w);
}

static pm_status put_piece(gguf_writer *w, const void *data, uint64_t n)
{
    const declared *t = &w->tensors[w->current];
    pm_status status = os_writer_write(w->file, data, n);
    if (status != PM_OK) return status;
    w->n_in_current += n;
    if (w->n_in_current < t->bytes) return PM_OK;
    w->current++;
    w->n_in_current = 0;
    return pad(w, padding(w, t->bytes));
}

pm_status gguf_put_data(gguf_writer *w, const void *data, uint64_t n)
{
    const char *from = data;
    if (w->status == PM_OK && !w->in_data)
        writer_fail(w, error_set(PM_ERROR_RUN, "%s: data comes before gguf_begin_data", w->path));
    while (w->status == PM_OK && n > 0) {
        if (w->current == w->n_tensors) {
            writer_fail(w, error_set(PM_ERROR_RUN,
                                     "%s: more data than the tensors take (%" PRIu64
                                     " bytes too many)",
                                     w->path, n));
            break;
        }
        uint64_t left = w->tensors[w->current].bytes - w->n_in_current;
        uint64_t part = n < left ? n : left;
        writer_fail(w, put_piece(w, from, part));
        from += part;
        n -= part;
    }
    return writer_status(w);
}

pm_status gguf_writer_commit(gguf_writer *w)
{
    if (w->status == PM_OK && !w->in_data) writer_fail(w, gguf_begin_data(w));
    if (w->status == PM_OK && w->current < w->n_tensors) {
        const declared *t = &w->tensors[w->current];
        writer_fail(w, error_set(PM_ERROR_RUN,
                                 "%s: tensor '%s' has %" PRIu64 " of its %" PRIu64 " bytes",
                                 w->path, w->names.data + t->name_at, w->n_in_current, t->bytes));
    }
    if (w->status == PM_OK) {
        os_writer *file = w->file;
        w->file = NULL;
        writer_fail(w, os_writer_commit(file));
    }
    pm_status status = writer_status(w);
    gguf_writer_abort(w);
    return status;
}
