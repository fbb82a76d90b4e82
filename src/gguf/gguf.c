// Opening: one file or the parts of a split model; and what an opened one tells.
#include "gguf/internal.h"

#include <assert.h>
#include <inttypes.h>
#include <nettle/sha2.h>
#include <nettle/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/size.h"

bool gguf_name_valid(const char *name, size_t n)
{
    if (n == 0 || n > GGUF_MAX_NAME || memchr(name, 0, n)) return false;
    const utf8proc_uint8_t *text = (const utf8proc_uint8_t *)name;
    for (size_t at = 0; at < n;) {
        utf8proc_int32_t code;
        utf8proc_ssize_t step = utf8proc_iterate(text + at, (utf8proc_ssize_t)(n - at), &code);
        if (step <= 0) return false;
        at += (size_t)step;
    }
    return true;
}

// ---- one file or several ----------------------------------------------------------------------

static char *copy_text(const char *text, size_t n)
{
    char *copy = malloc(n + 1);
    if (!copy) return NULL;
    memcpy(copy, text, n);
    copy[n] = 0;
    return copy;
}

static pm_status open_part(gguf *g, uint32_t index, const char *path, bool map)
{
    gguf_part *p = &g->parts[index];
    p->path = copy_text(path, strlen(path));
    if (!p->path) return error_memory("a path", strlen(path));
    pm_status status = os_file_open(path, map, &p->file);
    if (status != PM_OK) return status;
    p->size = os_file_size(p->file);
    return gguf_parse(g, index);
}

typedef struct split {
    uint64_t no, count, n_tensors;
    bool has_no, has_count, has_tensors;
} split;

static pm_status read_split(const gguf_part *p, split *s)
{
    *s = (split){
        .has_no = gguf_part_find(p, "split.no") != NULL,
        .has_count = gguf_part_find(p, "split.count") != NULL,
        .has_tensors = gguf_part_find(p, "split.tensors.count") != NULL,
    };
    pm_status status = gguf_part_u64(p, "split.no", &s->no);
    if (status == PM_OK) status = gguf_part_u64(p, "split.count", &s->count);
    if (status == PM_OK) status = gguf_part_u64(p, "split.tensors.count", &s->n_tensors);
    return status;
}

enum { SUFFIX_BYTES = 20, MAX_PARTS = 65535 }; // "-00001-of-00003.gguf"

static void make_suffix(char *suffix, uint64_t no, uint64_t count)
{
    snprintf(suffix, SUFFIX_BYTES + 1, "-%05u-of-%05u.gguf", (unsigned)((no + 1) % 100000),
             (unsigned)(count % 100000));
}

static pm_status check_first(const gguf_part *p, const split *s)
{
    if (s->count > MAX_PARTS)
        return error_set(PM_ERROR_FILE, "%s: key 'split.count' is %" PRIu64 ", allowed are %d",
                         p->path, s->count, MAX_PARTS);
    if (!s->has_no)
        return error_set(PM_ERROR_FILE,
                         "%s: key 'split.no' is missing in a file of %" PRIu64 " parts", p->path,
                         s->count);
    if (s->no >= s->count)
        return error_set(PM_ERROR_FILE,
                         "%s: key 'split.no' is %" PRIu64 ", the parts go from 0 to %" PRIu64,
                         p->path, s->no, s->count - 1);
    if (p->memory)
        return error_set(PM_ERROR_FILE,
                         "%s: is one part of %" PRIu64
                         ": a split model can't be opened from memory",
                         p->path, s->count);
    char first[SUFFIX_BYTES + 1], own[SUFFIX_BYTES + 1];
    make_suffix(first, 0, s->count);
    make_suffix(own, s->no, s->count);
    if (s->no != 0)
        return error_set(PM_ERROR_FILE,
                         "%s: is part %" PRIu64 " of %" PRIu64
                         " (open the first one, whose name ends in %s)",
                         p->path, s->no + 1, s->count, first);
    size_t n = strlen(p->path);
    if (n < SUFFIX_BYTES || strcmp(p->path + n - SUFFIX_BYTES, own) != 0)
        return error_set(PM_ERROR_FILE,
                         "%s: is the first of %" PRIu64
                         " parts, but its name does not end in %s, so the others can't be found",
                         p->path, s->count, own);
    return PM_OK;
}

static pm_status check_part(const gguf_part *p, uint64_t no, uint64_t count)
{
    split s;
    pm_status status = read_split(p, &s);
    if (status != PM_OK) return status;
    if (!s.has_no || !s.has_count)
        return error_set(PM_ERROR_FILE, "%s: key '%s' is missing in part %" PRIu64 " of %" PRIu64,
                         p->path, s.has_no ? "split.count" : "split.no", no + 1, count);
    if (s.no != no)
        return error_set(PM_ERROR_FILE,
                         "%s: key 'split.no' is %" PRIu64 ", expected %" PRIu64
                         ": the parts are mixed up",
                         p->path, s.no, no);
    if (s.count != count)
        return error_set(PM_ERROR_FILE,
                         "%s: key 'split.count' is %" PRIu64 ", the first part says %" PRIu64,
                         p->path, s.count, count);
    return PM_OK;
}

static pm_status open_others(gguf *g, bool map)
{
    split s;
    pm_status status = read_split(&g->parts[0], &s);
    if (status != PM_OK) return status;
    if (s.has_count && s.count > 1) {
        status = check_first(&g->parts[0], &s);
        if (status != PM_OK) return status;
        gguf_part *parts = realloc(g->parts, s.count * sizeof *parts);
        if (!parts) return error_memory("the parts of a model", s.count * sizeof *parts);
        g->parts = parts;
        memset(parts + 1, 0, (s.count - 1) * sizeof *parts);
        char *path = copy_text(parts[0].path, strlen(parts[0].path));
        if (!path) return error_memory("a path", strlen(parts[0].path));
        for (uint32_t i = 1; status == PM_OK && i < s.count; i++) {
            make_suffix(path + strlen(path) - SUFFIX_BYTES, i, s.count);
            g->n_parts = i + 1;
            status = open_part(g, i, path, map);
            if (status == PM_OK) status = check_part(&g->parts[i], i, s.count);
            status = error_in(status, "part %" PRIu32 " of %" PRIu64, i + 1, s.count);
        }
        free(path);
    }
    if (status == PM_OK && s.has_tensors && s.n_tensors != g->n_tensors)
        status =
            error_set(PM_ERROR_FILE, "%s: key 'split.tensors.count' is %" PRIu64 ", %s %zu tensors",
                      g->parts[0].path, s.n_tensors,
                      g->n_parts > 1 ? "the parts together have" : "the file has", g->n_tensors);
    return status;
}

// ---- tensors of all parts ---------------------------------------------------------------------

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const gguf_tensor *const *)a)->name, (*(const gguf_tensor *const *)b)->name);
}

static int compare_places(const void *a, const void *b)
{
    const gguf_tensor *x = *(const gguf_tensor *const *)a, *y = *(const gguf_tensor *const *)b;
    if (x->part != y->part) return x->part < y->part ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static pm_status index_tensors(gguf *g)
{
    size_t n = g->n_tensors;
    g->by_name = calloc(n + 1, sizeof *g->by_name);
    if (!g->by_name) return error_memory("the index of tensors", n);
    for (size_t i = 0; i < n; i++) {
        g->tensors[i].tensor.name = g->names.data + g->tensors[i].name_at;
        g->by_name[i] = &g->tensors[i].tensor;
    }
    qsort(g->by_name, n, sizeof *g->by_name, compare_places);
    for (size_t i = 1; i < n; i++) {
        const gguf_tensor *a = g->by_name[i - 1], *b = g->by_name[i];
        if (a->part == b->part && b->offset - a->offset < a->bytes)
            return error_set(PM_ERROR_FILE,
                             "%s: tensors '%s' and '%s' overlap (offset %" PRIu64 ", %" PRIu64
                             " bytes; offset %" PRIu64 ")",
                             g->parts[a->part].path, a->name, b->name, a->offset, a->bytes,
                             b->offset);
    }
    qsort(g->by_name, n, sizeof *g->by_name, compare_names);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(g->by_name[i - 1]->name, g->by_name[i]->name) == 0)
            return error_set(PM_ERROR_FILE, "%s: tensor '%s' is there twice",
                             g->parts[g->by_name[i]->part].path, g->by_name[i]->name);
    }
    return PM_OK;
}

static gguf *gguf_create(void)
{
    gguf *g = calloc(1, sizeof *g);
    if (!g) return NULL;
    g->n_parts = 1;
    g->parts = calloc(1, sizeof *g->parts);
    g->hash = calloc(1, sizeof *g->hash);
    if (g->hash) g->hash->lock = os_mutex_create();
    if (g->parts && g->hash && g->hash->lock) return g;
    gguf_close(g);
    return NULL;
}

pm_status gguf_open(const char *path, bool map, gguf **out)
{
    *out = NULL;
    gguf *g = gguf_create();
    if (!g) return error_memory("a GGUF file", sizeof *g);
    pm_status status = open_part(g, 0, path, map);
    if (status == PM_OK) status = open_others(g, map);
    if (status == PM_OK) status = index_tensors(g);
    if (status == PM_OK)
        *out = g;
    else
        gguf_close(g);
    return status;
}

pm_status gguf_open_memory(const void *data, uint64_t n, gguf **out)
{
    *out = NULL;
    gguf *g = gguf_create();
    if (!g) return error_memory("a GGUF file", sizeof *g);
    gguf_part *p = &g->parts[0];
    p->memory = data ? data : (const uint8_t *)"";
    p->size = n;
    p->path = copy_text("(memory)", 8);
    pm_status status = p->path ? gguf_parse(g, 0) : error_memory("a path", 8);
    if (status == PM_OK) status = open_others(g, false);
    if (status == PM_OK) status = index_tensors(g);
    if (status == PM_OK)
        *out = g;
    else
        gguf_close(g);
    return status;
}

void gguf_close(gguf *g)
{
    if (!g) return;
    for (uint32_t i = 0; g->parts && i < g->n_parts; i++) {
        gguf_part *p = &g->parts[i];
        os_file_close(p->file);
        free(p->path);
        free(p->heap);
        free(p->values);
        free(p->by_key);
        free(p->strings);
    }
    free(g->parts);
    free(g->tensors);
    free(g->by_name);
    buf_free(&g->names);
    if (g->hash && g->hash->lock) os_mutex_destroy(g->hash->lock);
    free(g->hash);
    free(g);
}

// ---- what it tells ----------------------------------------------------------------------------

const char *gguf_path(const gguf *g)
{
    return g->parts[0].path;
}

uint32_t gguf_version(const gguf *g)
{
    return g->parts[0].version;
}

uint32_t gguf_alignment(const gguf *g)
{
    return g->parts[0].alignment;
}

uint32_t gguf_n_parts(const gguf *g)
{
    return g->n_parts;
}

uint64_t gguf_file_bytes(const gguf *g)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < g->n_parts; i++) total += g->parts[i].size;
    return total;
}

uint64_t gguf_data_offset(const gguf *g, uint32_t part)
{
    assert(part < g->n_parts);
    return g->parts[part].data_offset;
}

const char *gguf_header_sha256(const gguf *g)
{
    header_hash *hash = g->hash;
    os_mutex_lock(hash->lock);
    if (!hash->hex[0]) {
        struct sha256_ctx context;
        uint8_t digest[SHA256_DIGEST_SIZE];
        sha256_init(&context);
        for (uint32_t i = 0; i < g->n_parts; i++)
            sha256_update(&context, g->parts[i].n_header, g->parts[i].header);
#if NETTLE_VERSION_MAJOR >= 4
        sha256_digest(&context, digest);
#else
        sha256_digest(&context, sizeof digest, digest);
#endif
        for (size_t i = 0; i < sizeof digest; i++) sprintf(hash->hex + 2 * i, "%02x", digest[i]);
    }
    os_mutex_unlock(hash->lock);
    return hash->hex;
}

size_t gguf_n_tensors(const gguf *g)
{
    return g->n_tensors;
}

const gguf_tensor *gguf_tensor_at(const gguf *g, size_t index)
{
    assert(index < g->n_tensors);
    return &g->tensors[index].tensor;
}

const gguf_tensor *gguf_find_tensor(const gguf *g, const char *name)
{
    gguf_tensor wanted = {.name = name};
    const gguf_tensor *w = &wanted;
    if (!g->n_tensors) return NULL;
    const gguf_tensor **found =
        bsearch(&w, g->by_name, g->n_tensors, sizeof *g->by_name, compare_names);
    return found ? *found : NULL;
}

const void *gguf_tensor_map(const gguf *g, const gguf_tensor *t)
{
    const gguf_part *p = &g->parts[t->part];
    const uint8_t *base = p->memory ? p->memory : os_file_map(p->file);
    return base ? base + p->data_offset + t->offset : NULL;
}

pm_status gguf_read(const gguf *g, const gguf_tensor *t, uint64_t offset, void *dst, uint64_t n)
{
    const gguf_part *p = &g->parts[t->part];
    if (!size_in_range(offset, n, t->bytes))
        return error_set(PM_ERROR_FILE,
                         "%s: tensor '%s': %" PRIu64 " bytes at %" PRIu64
                         " were asked for, it has %" PRIu64,
                         p->path, t->name, n, offset, t->bytes);
    uint64_t at = p->data_offset + t->offset + offset; // inside the file: checked at opening
    if (!p->memory)
        return error_in(os_file_read(p->file, at, dst, n), "%s: tensor '%s'", p->path, t->name);
    if (n) memcpy(dst, p->memory + at, n);
    return PM_OK;
}

// [offset, offset + n) of a tensor, clamped to it, as a range of its file.
static os_file *file_range(const gguf *g, const gguf_tensor *t, uint64_t *offset, uint64_t *n)
{
    const gguf_part *p = &g->parts[t->part];
    if (p->memory || *offset >= t->bytes) return NULL;
    if (*n > t->bytes - *offset) *n = t->bytes - *offset;
    *offset += p->data_offset + t->offset;
    return p->file;
}

void gguf_drop(const gguf *g, const gguf_tensor *t, uint64_t offset, uint64_t n)
{
    os_file *file = file_range(g, t, &offset, &n);
    if (file) os_file_drop(file, offset, n);
}

void gguf_prefetch(const gguf *g, const gguf_tensor *t, uint64_t offset, uint64_t n)
{
    os_file *file = file_range(g, t, &offset, &n);
    if (file) os_file_prefetch(file, offset, n);
}
