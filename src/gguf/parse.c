// The header of one GGUF file. Nothing is allocated on the word of a count: tables grow as items
// are really found, and a count that the rest of the file can't hold is refused first.
#include "gguf/internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "quant/quant.h"

enum { FIRST_READ = 1 << 20, MAX_DEPTH = 8 };
// Real headers have some MB; this only bounds what a hostile file makes us hold.
static const uint64_t max_header = UINT64_C(1) << 30;

typedef struct cursor {
    gguf *g;
    gguf_part *part;
    uint64_t at;
    // What is being read, for messages: "key 3 of 38 'general.name'".
    const char *kind;
    uint64_t index, count, name_at, n_name;
} cursor;

static pm_status fail(const cursor *c, const char *format, ...) PRINTF_LIKE(2, 3);
static pm_status fail(const cursor *c, const char *format, ...)
{
    char what[512];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (!c->kind) return error_set(PM_ERROR_FILE, "%s: %s", c->part->path, what);
    if (!c->n_name)
        return error_set(PM_ERROR_FILE, "%s: %s %" PRIu64 " of %" PRIu64 ": %s", c->part->path,
                         c->kind, c->index + 1, c->count, what);
    int n = c->n_name > 80 ? 80 : (int)c->n_name;
    return error_set(PM_ERROR_FILE, "%s: %s '%.*s%s': %s", c->part->path, c->kind, n,
                     (const char *)c->part->header + c->name_at, c->n_name > 80 ? "..." : "", what);
}

// ---- bytes ------------------------------------------------------------------------------------

// Makes the header's first `end` bytes (of a file that has them) available.
static pm_status load(cursor *c, uint64_t end)
{
    gguf_part *p = c->part;
    if (end <= p->n_header) return PM_OK;
    if (end > max_header)
        return fail(c, "the header is longer than %" PRIu64 " bytes, which is refused", max_header);
    uint64_t n = p->n_header ? 2 * p->n_header : FIRST_READ;
    if (n < end) n = end;
    if (n > p->size) n = p->size;
    uint8_t *heap = realloc(p->heap, n);
    if (!heap) return error_memory("a GGUF header", n);
    p->heap = heap;
    p->header = heap;
    pm_status status = os_file_read(p->file, p->n_header, heap + p->n_header, n - p->n_header);
    if (status != PM_OK) return error_in(status, "%s", p->path);
    p->n_header = n;
    return PM_OK;
}

// The next n bytes are there.
static pm_status need(cursor *c, uint64_t n)
{
    const gguf_part *p = c->part;
    if (!size_in_range(c->at, n, p->size))
        return fail(c,
                    "%" PRIu64 " bytes are needed at byte %" PRIu64 ", the file ends at %" PRIu64
                    ": the header is damaged or the file is cut short",
                    n, c->at, p->size);
    return load(c, c->at + n);
}

static pm_status read_u32(cursor *c, uint32_t *value)
{
    pm_status status = need(c, 4);
    if (status != PM_OK) return status;
    *value = load_u32(c->part->header + c->at);
    c->at += 4;
    return PM_OK;
}

static pm_status read_u64(cursor *c, uint64_t *value)
{
    pm_status status = need(c, 8);
    if (status != PM_OK) return status;
    *value = load_u64(c->part->header + c->at);
    c->at += 8;
    return PM_OK;
}

static pm_status skip_string(cursor *c)
{
    uint64_t n;
    const gguf_part *p = c->part;
    if (size_in_range(c->at, 8, p->n_header)) { // the usual case, quickly
        n = load_u64(p->header + c->at);
        if (size_in_range(c->at + 8, n, p->n_header)) {
            c->at += 8 + n;
            return PM_OK;
        }
    }
    pm_status status = read_u64(c, &n);
    if (status == PM_OK) status = need(c, n);
    if (status == PM_OK) c->at += n;
    return status;
}

// Skips a string of an array and remembers where it begins. Vocabularies have some 400,000.
static pm_status index_string(cursor *c)
{
    gguf_part *p = c->part;
    if (!gguf_grow((void **)&p->strings, p->n_strings, &p->cap_strings, sizeof *p->strings))
        return error_memory("the index of an array of strings", p->n_strings);
    p->strings[p->n_strings++] = c->at;
    return skip_string(c);
}

// Could the rest of the file hold n items of at least `least` bytes each?
static bool count_fits(const cursor *c, uint64_t n, uint64_t least)
{
    return n <= (c->part->size - c->at) / least;
}

bool gguf_grow(void **items, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) return true;
    size_t next = *cap ? *cap * 2 : 64;
    if (next > SIZE_MAX / 2 / size) return false;
    void *grown = realloc(*items, next * size);
    if (!grown) return false;
    *items = grown;
    *cap = next;
    return true;
}

// ---- what the file is -------------------------------------------------------------------------

// Things that end up under a model's name, and what to do about each.
static const struct {
    const char *begin, *says;
} mistaken[] = {
    {"<!doctype", "is an HTML page, not a model: the download fetched a web page instead"},
    {"<html", "is an HTML page, not a model: the download fetched a web page instead"},
    {"version https://git-lfs", "is a git-lfs pointer, not the model itself (run git lfs pull)"},
    {"lmgg", "is a model in the old GGML format, not GGUF (convert it again)"},
    {"fmgg", "is a model in the old GGMF format, not GGUF (convert it again)"},
    {"tjgg", "is a model in the old GGJT format, not GGUF (convert it again)"},
    {"pk\3\4", "is a zip archive or PyTorch checkpoint, not GGUF (convert it)"},
};

static bool begins_with(const uint8_t *data, uint64_t n, const char *lower)
{
    for (uint64_t i = 0; lower[i]; i++) {
        if (i >= n) return false;
        int c = data[i];
        if (c >= 'A' && c <= 'Z') c += 'a' - 'A';
        if (c != (unsigned char)lower[i]) return false;
    }
    return true;
}

static pm_status check_magic(cursor *c)
{
    const gguf_part *p = c->part;
    if (p->size == 0) return fail(c, "is empty");
    uint64_t n = p->size < 64 ? p->size : 64;
    pm_status status = load(c, n);
    if (status != PM_OK) return status;
    const uint8_t *d = p->header;
    uint64_t n_compared = n < 4 ? n : 4;
    if (memcmp(d, "GGUF", n_compared) != 0) {
        uint64_t skip = 0;
        while (skip < n && strchr(" \t\r\n", d[skip]) && d[skip]) skip++;
        for (size_t i = 0; i < sizeof mistaken / sizeof *mistaken; i++) {
            if (begins_with(d + skip, n - skip, mistaken[i].begin))
                return fail(c, "%s", mistaken[i].says);
        }
        if (n > 9 && d[8] == '{' && load_u64(d) < p->size)
            return fail(c, "looks like a safetensors file, not GGUF (convert it)");
        char hex[16] = "";
        for (uint64_t i = 0; i < n_compared; i++) sprintf(hex + 3 * i, " %02x", d[i]);
        return fail(c, "is not a GGUF file: it begins with the bytes%s, not with 'GGUF'", hex);
    }
    c->at = n_compared;
    return n < 4 ? need(c, 4 - n) : PM_OK;
}

static pm_status check_version(cursor *c)
{
    gguf_part *p = c->part;
    pm_status status = read_u32(c, &p->version);
    if (status != PM_OK) return status;
    if (p->version == 2 || p->version == 3) return PM_OK;
    if (p->version != 0 && (p->version & 0xffff) == 0)
        return fail(c, "is a big-endian GGUF file, which is not supported (convert it for a "
                       "little-endian machine)");
    return fail(c, "has GGUF version %" PRIu32 ", supported are 2 and 3%s", p->version,
                p->version == 1 ? " (convert the model again)" : "");
}

// ---- values -----------------------------------------------------------------------------------

static const struct {
    const char *name;
    uint32_t bytes;
} types[] = {
    [GGUF_U8] = {"u8", 1},       [GGUF_I8] = {"i8", 1},     [GGUF_U16] = {"u16", 2},
    [GGUF_I16] = {"i16", 2},     [GGUF_U32] = {"u32", 4},   [GGUF_I32] = {"i32", 4},
    [GGUF_F32] = {"f32", 4},     [GGUF_BOOL] = {"bool", 1}, [GGUF_STRING] = {"string", 0},
    [GGUF_ARRAY] = {"array", 0}, [GGUF_U64] = {"u64", 8},   [GGUF_I64] = {"i64", 8},
    [GGUF_F64] = {"f64", 8},
};

static bool type_known(uint32_t type)
{
    return type < sizeof types / sizeof *types;
}

uint32_t gguf_type_bytes(uint32_t type)
{
    return type_known(type) ? types[type].bytes : 0;
}

const char *gguf_type_name(uint32_t type)
{
    return type_known(type) ? types[type].name : "unknown";
}

static pm_status check_bools(cursor *c, uint64_t n)
{
    const uint8_t *d = c->part->header + c->at;
    for (uint64_t i = 0; i < n; i++) {
        if (d[i] > 1) return fail(c, "has a bool of value %d, allowed are 0 and 1", d[i]);
    }
    return PM_OK;
}

static pm_status skip_array(cursor *c, gguf_type *item_type, uint64_t *n_items, bool keep,
                            int depth);

// Skips n values of a type. `keep`: remembers where each string begins.
static pm_status skip_items(cursor *c, uint32_t type, uint64_t n, bool keep, int depth)
{
    gguf_part *p = c->part;
    uint64_t size = types[type].bytes;
    uint64_t least = type == GGUF_STRING ? 8 : type == GGUF_ARRAY ? 12 : size;
    if (!count_fits(c, n, least))
        return fail(c,
                    "claims %" PRIu64 " items of type %s, the file ends %" PRIu64
                    " bytes later: the header is damaged or the file is cut short",
                    n, types[type].name, p->size - c->at);
    if (size) {
        pm_status status = need(c, n * size);
        if (status == PM_OK && type == GGUF_BOOL) status = check_bools(c, n);
        if (status == PM_OK) c->at += n * size;
        return status;
    }
    for (uint64_t i = 0; i < n; i++) {
        gguf_type item_type;
        uint64_t n_items;
        pm_status status = type == GGUF_ARRAY
                               ? skip_array(c, &item_type, &n_items, false, depth + 1)
                           : keep ? index_string(c)
                                  : skip_string(c);
        if (status != PM_OK) return status;
    }
    return PM_OK;
}

static pm_status skip_array(cursor *c, gguf_type *item_type, uint64_t *n_items, bool keep,
                            int depth)
{
    if (depth > MAX_DEPTH)
        return fail(c, "has arrays nested more than %d deep, which is refused", MAX_DEPTH);
    uint32_t type;
    pm_status status = read_u32(c, &type);
    if (status == PM_OK) status = read_u64(c, n_items);
    if (status != PM_OK) return status;
    if (!type_known(type))
        return fail(c, "is an array of value type %" PRIu32 ", known are 0 to %d", type, GGUF_F64);
    *item_type = (gguf_type)type;
    return skip_items(c, type, *n_items, keep, depth);
}

static pm_status read_value(cursor *c)
{
    gguf_part *p = c->part;
    uint64_t n_key;
    pm_status status = read_u64(c, &n_key);
    if (status != PM_OK) return status;
    if (n_key > GGUF_MAX_KEY)
        return fail(c, "its name claims %" PRIu64 " bytes, allowed are %d", n_key, GGUF_MAX_KEY);
    status = need(c, n_key);
    if (status != PM_OK) return status;
    c->name_at = c->at;
    c->n_name = n_key;
    c->at += n_key;

    uint32_t type;
    status = read_u32(c, &type);
    if (status != PM_OK) return status;
    if (!type_known(type))
        return fail(c, "has value type %" PRIu32 ", known are 0 to %d", type, GGUF_F64);
    if (!gguf_grow((void **)&p->values, p->n_values, &p->cap_values, sizeof *p->values))
        return error_memory("the table of keys", p->n_values);
    value_entry *v = &p->values[p->n_values];
    *v = (value_entry){
        .value = {.key.len = (size_t)n_key, .type = (gguf_type)type, .n_items = 1},
        .key_at = c->name_at,
        .at = c->at,
        .first_string = p->n_strings,
    };
    v->value.item_type = v->value.type;
    if (type == GGUF_ARRAY)
        status = skip_array(c, &v->value.item_type, &v->value.n_items, true, 1);
    else
        status = skip_items(c, type, 1, false, 0);
    if (status != PM_OK) return status;
    v->bytes = c->at - v->at;
    p->n_values++;
    return PM_OK;
}

// ---- tensors ----------------------------------------------------------------------------------

bool gguf_alignment_valid(uint32_t alignment)
{
    return alignment != 0 && alignment % 8 == 0;
}

pm_status gguf_shape_bytes(const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                           uint64_t *bytes)
{
    uint32_t block_values, block_bytes;
    if (!quant_type_block(type, &block_values, &block_bytes)) { // then its size is unknown
        char where[GGUF_MAX_NAME + 16];
        snprintf(where, sizeof where, "tensor '%s'", name);
        return quant_unsupported(type, where);
    }
    uint64_t n_values = 1, total;
    for (uint32_t i = 0; i < n_dims; i++) {
        if (dims[i] == 0) return error_set(PM_ERROR_FILE, "tensor '%s' has a dimension of 0", name);
        if (!size_mul(n_values, dims[i], &n_values) || n_values > INT64_MAX)
            return error_set(PM_ERROR_FILE, "tensor '%s' has more than 2^63 values", name);
    }
    uint64_t cols = n_dims ? dims[0] : 1;
    if (cols % block_values)
        return error_set(PM_ERROR_FILE,
                         "tensor '%s' has rows of %" PRIu64
                         " values, type %s needs a multiple of %" PRIu32,
                         name, cols, quant_type_name(type), block_values);
    if (!size_mul(n_values / block_values, block_bytes, &total) || total > INT64_MAX)
        return error_set(PM_ERROR_FILE, "tensor '%s' has more than 2^63 bytes", name);
    *bytes = total;
    return PM_OK;
}

static pm_status read_name(cursor *c, tensor_entry *t)
{
    uint64_t n;
    pm_status status = read_u64(c, &n);
    if (status != PM_OK) return status;
    if (n == 0 || n > GGUF_MAX_NAME)
        return fail(c, "its name claims %" PRIu64 " bytes, allowed are 1 to %d", n, GGUF_MAX_NAME);
    status = need(c, n);
    if (status != PM_OK) return status;
    const char *name = (const char *)c->part->header + c->at;
    if (!gguf_name_valid(name, (size_t)n))
        return fail(c, "its name is not valid UTF-8 or holds a zero byte");
    t->name_at = c->g->names.len;
    buf_add(&c->g->names, name, (size_t)n);
    buf_char(&c->g->names, 0);
    if (c->g->names.failed) return error_memory("the names of tensors", n);
    c->name_at = c->at;
    c->n_name = n;
    c->at += n;
    return PM_OK;
}

static pm_status read_tensor(cursor *c, uint32_t part)
{
    gguf *g = c->g;
    tensor_entry t = {.tensor = {.part = part}};
    pm_status status = read_name(c, &t);
    if (status == PM_OK) status = read_u32(c, &t.tensor.n_dims);
    if (status != PM_OK) return status;
    if (t.tensor.n_dims > GGUF_MAX_DIMS)
        return fail(c, "has %" PRIu32 " dimensions, allowed are %d", t.tensor.n_dims,
                    GGUF_MAX_DIMS);
    for (uint32_t i = 0; i < GGUF_MAX_DIMS; i++) {
        t.tensor.dims[i] = 1;
        if (i < t.tensor.n_dims) status = read_u64(c, &t.tensor.dims[i]);
        if (status != PM_OK) return status;
    }
    status = read_u32(c, &t.tensor.type);
    if (status == PM_OK) status = read_u64(c, &t.tensor.offset);
    if (status != PM_OK) return status;
    status = gguf_shape_bytes(g->names.data + t.name_at, t.tensor.type, t.tensor.n_dims,
                              t.tensor.dims, &t.tensor.bytes);
    if (status != PM_OK) return error_in(status, "%s", c->part->path);
    if (!gguf_grow((void **)&g->tensors, g->n_tensors, &g->cap_tensors, sizeof *g->tensors))
        return error_memory("the table of tensors", g->n_tensors);
    g->tensors[g->n_tensors++] = t;
    return PM_OK;
}

// ---- a whole header ---------------------------------------------------------------------------

static int compare_keys(const gguf_string *a, const gguf_string *b)
{
    size_t n = a->len < b->len ? a->len : b->len;
    int order = n ? memcmp(a->data, b->data, n) : 0;
    if (order) return order;
    return (a->len > b->len) - (a->len < b->len);
}

static int compare_values(const void *a, const void *b)
{
    return compare_keys(&(*(const gguf_value *const *)a)->key,
                        &(*(const gguf_value *const *)b)->key);
}

const gguf_value *gguf_part_find(const gguf_part *p, const char *key)
{
    gguf_value wanted = {.key = {.data = key, .len = strlen(key)}};
    const gguf_value *w = &wanted;
    if (!p->n_values) return NULL;
    const gguf_value **found =
        bsearch(&w, p->by_key, p->n_values, sizeof *p->by_key, compare_values);
    return found ? *found : NULL;
}

// The header doesn't move any more: keys become pointers, sorted for look-up.
static pm_status index_values(gguf_part *p)
{
    p->by_key = calloc(p->n_values + 1, sizeof *p->by_key);
    if (!p->by_key) return error_memory("the index of keys", p->n_values);
    for (size_t i = 0; i < p->n_values; i++) {
        value_entry *v = &p->values[i];
        v->value.key.data = (const char *)p->header + v->key_at;
        p->by_key[i] = &v->value;
    }
    qsort(p->by_key, p->n_values, sizeof *p->by_key, compare_values);
    for (size_t i = 1; i < p->n_values; i++) {
        const gguf_string *key = &p->by_key[i]->key;
        if (compare_keys(&p->by_key[i - 1]->key, key) == 0)
            return error_set(PM_ERROR_FILE, "%s: key '%.*s' is there twice", p->path,
                             key->len > 80 ? 80 : (int)key->len, key->data);
    }
    return PM_OK;
}

static pm_status find_alignment(gguf_part *p)
{
    p->alignment = GGUF_ALIGNMENT;
    const gguf_value *v = gguf_part_find(p, "general.alignment");
    if (!v) return PM_OK;
    if (v->type != GGUF_U32)
        return error_set(PM_ERROR_FILE, "%s: key 'general.alignment' is of type %s, must be u32",
                         p->path, gguf_type_name(v->type));
    p->alignment = load_u32(p->header + ((const value_entry *)v)->at);
    if (gguf_alignment_valid(p->alignment)) return PM_OK;
    return error_set(PM_ERROR_FILE,
                     "%s: key 'general.alignment' is %" PRIu32 ", must be a multiple of 8", p->path,
                     p->alignment);
}

// Every tensor lies, aligned, inside the file.
static pm_status check_places(const gguf *g, const gguf_part *p, size_t first)
{
    uint64_t n_data = p->size > p->data_offset ? p->size - p->data_offset : 0;
    for (size_t i = first; i < g->n_tensors; i++) {
        const gguf_tensor *t = &g->tensors[i].tensor;
        const char *name = g->names.data + g->tensors[i].name_at;
        if (t->offset % p->alignment)
            return error_set(PM_ERROR_FILE,
                             "%s: tensor '%s' has offset %" PRIu64
                             ", which is no multiple of the alignment %" PRIu32,
                             p->path, name, t->offset, p->alignment);
        uint64_t end;
        if (!size_add(t->offset, t->bytes, &end) || !size_add(end, p->data_offset, &end))
            return error_set(PM_ERROR_FILE,
                             "%s: tensor '%s' has offset %" PRIu64 ", far past the end of the file",
                             p->path, name, t->offset);
        if (!size_in_range(t->offset, t->bytes, n_data))
            return error_set(PM_ERROR_FILE,
                             "%s: tensor '%s' ends at byte %" PRIu64
                             ", past the end of the file (%" PRIu64 "): the file is cut short",
                             p->path, name, end, p->size);
    }
    return PM_OK;
}

static pm_status read_counts(cursor *c, uint64_t *n_tensors, uint64_t *n_values)
{
    pm_status status = read_u64(c, n_tensors);
    if (status == PM_OK) status = read_u64(c, n_values);
    if (status != PM_OK) return status;
    // A key takes at least its length, type and one byte; a tensor length, dims, type, offset.
    if (!count_fits(c, *n_values, 13))
        return fail(c, "claims %" PRIu64 " keys, more than its %" PRIu64 " bytes can hold",
                    *n_values, c->part->size);
    if (!count_fits(c, *n_tensors, 24))
        return fail(c, "claims %" PRIu64 " tensors, more than its %" PRIu64 " bytes can hold",
                    *n_tensors, c->part->size);
    return PM_OK;
}

// The header ends: its padding is read too (the hash covers it), the rest given back.
static pm_status end_header(cursor *c)
{
    gguf_part *p = c->part;
    if (!size_align(c->at, p->alignment, &p->data_offset))
        return fail(c, "the alignment %" PRIu32 " is too large", p->alignment);
    uint64_t end = p->data_offset < p->size ? p->data_offset : p->size;
    pm_status status = load(c, end);
    if (status != PM_OK) return status;
    p->n_header = end;
    if (!p->heap) return PM_OK;
    uint8_t *heap = realloc(p->heap, end);
    if (heap) p->heap = heap;
    p->header = p->heap;
    return PM_OK;
}

pm_status gguf_parse(gguf *g, uint32_t index)
{
    gguf_part *p = &g->parts[index];
    cursor c = {.g = g, .part = p};
    size_t first = g->n_tensors;
    if (p->memory) {
        p->header = p->memory;
        p->n_header = p->size;
    }
    uint64_t n_tensors = 0, n_values = 0;
    pm_status status = check_magic(&c);
    if (status == PM_OK) status = check_version(&c);
    if (status == PM_OK) status = read_counts(&c, &n_tensors, &n_values);
    for (uint64_t i = 0; status == PM_OK && i < n_values; i++) {
        c = (cursor){.g = g, .part = p, .at = c.at, .kind = "key", .index = i, .count = n_values};
        status = read_value(&c);
    }
    for (uint64_t i = 0; status == PM_OK && i < n_tensors; i++) {
        c = (cursor){
            .g = g, .part = p, .at = c.at, .kind = "tensor", .index = i, .count = n_tensors};
        status = read_tensor(&c, index);
    }
    c.kind = NULL;
    // The alignment is known once keys can be found; padding is read by it; that may move the
    // header.
    if (status == PM_OK) status = index_values(p);
    if (status == PM_OK) status = find_alignment(p);
    if (status == PM_OK) status = end_header(&c);
    if (status != PM_OK) return status;
    for (size_t i = 0; i < p->n_values; i++)
        p->values[i].value.key.data = (const char *)p->header + p->values[i].key_at;
    return check_places(g, p, first);
}
