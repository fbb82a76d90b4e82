// Rewrites a model with its matrices in another format: `pumice quantize`.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/os.h"
#include "base/size.h"

enum {
    CHUNK_VALUES = 1 << 22, // values in memory at once, at least one row
    COPY_BYTES = 1 << 22,
    MAX_THREADS = 512,
    QUANTIZATION_VERSION = 2, // of ggml's formats
};

// general.file_type of a file whose matrices are in one format.
static const struct {
    quant_type type;
    uint32_t file_type;
} file_types[] = {
    {QUANT_F32, 0},    {QUANT_F16, 1},    {QUANT_Q4_0, 2},    {QUANT_Q4_1, 3},    {QUANT_Q8_0, 7},
    {QUANT_Q5_0, 8},   {QUANT_Q5_1, 9},   {QUANT_Q2_K, 10},   {QUANT_Q3_K, 11},   {QUANT_Q4_K, 14},
    {QUANT_Q5_K, 16},  {QUANT_Q6_K, 18},  {QUANT_IQ4_NL, 25}, {QUANT_IQ4_XS, 30}, {QUANT_BF16, 32},
    {QUANT_TQ1_0, 36}, {QUANT_TQ2_0, 37}, {QUANT_MXFP4, 38},
};

// Room for one piece of a tensor: rows of the source, their values, rows of the result.
typedef struct buffers {
    uint8_t *source, *result;
    float *values;
    uint64_t source_bytes, result_bytes, values_bytes; // allocated
} buffers;

typedef struct pm_quantization rewrite;
struct pm_quantization {
    gguf *in;
    gguf_writer *out;
    char *path; // of the result
    const quant_format *to;
    int n_threads;
    uint32_t n_fallbacks; // matrices whose rows are no whole number of blocks
    buffers b;
    size_t tensor;      // in work
    uint64_t row;       // of it, or the byte where it is copied: what comes next
    uint64_t read, all; // bytes of the source's tensors
    bool committed;
};

// ---- which tensors ----------------------------------------------------------------------------

// Tables that are added or multiplied value by value, not matrices of a product.
static bool is_matrix(const gguf_tensor *t)
{
    static const char *const others[] = {"norm", "position_embd", "token_types", "rope_", "bias"};
    if (t->n_dims < 2 || t->dims[1] == 1 || t->bytes == 0) return false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strstr(t->name, others[i])) return false;
    }
    return true;
}

// For rows that are no whole number of the format's blocks: what the common quantizer takes, a
// little more precise and in blocks of 32, and where that doesn't fit either, F16.
static const quant_format *stand_in(const quant_format *to, uint64_t cols)
{
    quant_type type = to->type == QUANT_Q4_K   ? QUANT_Q5_0
                      : to->type == QUANT_Q6_K ? QUANT_Q8_0
                                               : QUANT_F16;
    const quant_format *f = quant_format_of(type);
    return cols % f->block_values == 0 ? f : quant_format_of(QUANT_F16);
}

// The format that a tensor gets: NULL where it stays as it is. Norms and biases are F32 in any
// file.
static const quant_format *target(const rewrite *r, const gguf_tensor *t, bool *fallback)
{
    *fallback = false;
    if (!is_matrix(t)) {
        bool half = t->type == QUANT_F16 || t->type == QUANT_BF16;
        return half && t->dims[1] == 1 ? quant_format_of(QUANT_F32) : NULL;
    }
    if (t->type == (uint32_t)r->to->type) return NULL;
    if (t->dims[0] % r->to->block_values == 0) return r->to;
    *fallback = true;
    const quant_format *other = stand_in(r->to, t->dims[0]);
    return t->type == (uint32_t)other->type ? NULL : other;
}

// ---- one tensor -------------------------------------------------------------------------------

// A stretch of rows that one thread converts.
typedef struct piece {
    const quant_format *from, *to;
    const uint8_t *source;
    float *values;
    uint8_t *result;
    size_t n; // values
    os_thread *thread;
} piece;

static void convert(void *arg)
{
    piece *p = arg;
    p->from->decode(p->source, p->values, p->n);
    p->to->encode(p->values, p->result, p->n);
}

// Part i of n of the rows.
static piece part_of(const quant_format *from, const quant_format *to, const buffers *b,
                     uint64_t rows, uint64_t cols, uint64_t i, uint64_t n)
{
    size_t first = (size_t)(rows * i / n * cols), end = (size_t)(rows * (i + 1) / n * cols);
    return (piece){.from = from,
                   .to = to,
                   .source = b->source + first / from->block_values * from->block_bytes,
                   .values = b->values + first,
                   .result = b->result + first / to->block_values * to->block_bytes,
                   .n = end - first};
}

static pm_status convert_rows(const rewrite *r, const quant_format *from, const quant_format *to,
                              const buffers *b, uint64_t rows, uint64_t cols)
{
    piece others[MAX_THREADS] = {0};
    uint64_t n = (uint64_t)r->n_threads < rows ? (uint64_t)r->n_threads : rows;
    pm_status status = PM_OK;
    for (uint64_t i = 1; i < n && status == PM_OK; i++) {
        others[i] = part_of(from, to, b, rows, cols, i, n);
        status = os_thread_start(convert, &others[i], &others[i].thread);
    }
    if (n > 0 && status == PM_OK) {
        piece own = part_of(from, to, b, rows, cols, 0, n);
        convert(&own);
    }
    for (uint64_t i = 1; i < n; i++) os_thread_join(others[i].thread);
    return status;
}

static bool reserve(void *buffer, uint64_t *have, uint64_t bytes)
{
    void **at = buffer;
    if (bytes <= *have) return true;
    free(*at);
    *have = 0;
    *at = bytes <= SIZE_MAX ? malloc((size_t)bytes) : NULL;
    if (*at) *have = bytes;
    return *at != NULL;
}

// The next rows of a tensor in another format.
static pm_status convert_piece(rewrite *r, const gguf_tensor *t, const quant_format *to)
{
    const quant_format *from = quant_format_of(t->type);
    if (!from) return quant_unsupported(t->type, t->name);
    uint64_t cols = t->dims[0], rows = t->dims[1] * t->dims[2] * t->dims[3];
    uint64_t n = CHUNK_VALUES / cols ? CHUNK_VALUES / cols : 1;
    if (n > rows - r->row) n = rows - r->row;
    uint64_t from_row, to_row, values = 0;
    if (!quant_row_bytes(from->type, cols, &from_row) ||
        !quant_row_bytes(to->type, cols, &to_row) || !size_mul(n * cols, sizeof(float), &values) ||
        values == 0 || from_row == 0 || to_row == 0) {
        return error_set(PM_ERROR_FILE, "tensor '%s': rows of %" PRIu64 " values are not possible",
                         t->name, cols);
    }
    buffers *b = &r->b;
    if (!reserve(&b->source, &b->source_bytes, n * from_row) ||
        !reserve(&b->result, &b->result_bytes, n * to_row) ||
        !reserve(&b->values, &b->values_bytes, values))
        return error_memory("quantizing", values);
    pm_status status = gguf_read(r->in, t, r->row * from_row, b->source, n * from_row);
    if (status == PM_OK) status = convert_rows(r, from, to, b, n, cols);
    if (status == PM_OK) status = gguf_put_data(r->out, b->result, n * to_row);
    r->row += n;
    r->read += n * from_row;
    if (r->row == rows) r->tensor++, r->row = 0;
    return status;
}

static pm_status copy_piece(rewrite *r, const gguf_tensor *t)
{
    buffers *b = &r->b;
    uint64_t n = t->bytes - r->row < COPY_BYTES ? t->bytes - r->row : COPY_BYTES;
    if (!reserve(&b->source, &b->source_bytes, n)) return error_memory("copying a tensor", n);
    pm_status status = gguf_read(r->in, t, r->row, b->source, n);
    if (status == PM_OK) status = gguf_put_data(r->out, b->source, n);
    r->row += n;
    r->read += n;
    if (r->row == t->bytes) r->tensor++, r->row = 0;
    return status;
}

// ---- the file ---------------------------------------------------------------------------------

static bool key_is(const gguf_value *v, const char *name)
{
    return v->key.len == strlen(name) && !memcmp(v->key.data, name, v->key.len);
}

static bool key_starts(const gguf_value *v, const char *start)
{
    return v->key.len >= strlen(start) && !memcmp(v->key.data, start, strlen(start));
}

// Every key as it is, but the two that name the format; a split model becomes one file.
static void put_metadata(rewrite *r, uint32_t file_type)
{
    static const char type_key[] = "general.file_type";
    static const char version_key[] = "general.quantization_version";
    bool has_type = false, has_version = false;
    for (size_t i = 0; i < gguf_n_values(r->in); i++) {
        const gguf_value *v = gguf_value_at(r->in, i);
        if (key_is(v, type_key)) {
            gguf_put_u32(r->out, type_key, file_type);
            has_type = true;
        } else if (key_is(v, version_key)) {
            gguf_put_u32(r->out, version_key, QUANTIZATION_VERSION);
            has_version = true;
        } else if (gguf_n_parts(r->in) == 1 || !key_starts(v, "split.")) {
            gguf_put_copy(r->out, r->in, v);
        }
    }
    if (!has_type) gguf_put_u32(r->out, type_key, file_type);
    if (!has_version) gguf_put_u32(r->out, version_key, QUANTIZATION_VERSION);
}

static pm_status declare_tensors(rewrite *r)
{
    bool fallback;
    for (size_t i = 0; i < gguf_n_tensors(r->in); i++) {
        const gguf_tensor *t = gguf_tensor_at(r->in, i);
        const quant_format *to = target(r, t, &fallback);
        gguf_put_tensor(r->out, t->name, to ? (uint32_t)to->type : t->type, t->n_dims, t->dims);
        r->n_fallbacks += fallback;
        r->all += t->bytes;
    }
    return gguf_begin_data(r->out);
}

static pm_status find_format(const char *type, const quant_format **to, uint32_t *file_type)
{
    const quant_format *f = quant_format_named(type);
    for (size_t i = 0; f && f->encode && i < sizeof file_types / sizeof *file_types; i++) {
        if (file_types[i].type != f->type) continue;
        *to = f;
        *file_type = file_types[i].file_type;
        return PM_OK;
    }
    buf names = {0};
    for (size_t i = 0; quant_format_at(i); i++) {
        if (!quant_format_at(i)->encode) continue;
        buf_printf(&names, "%s%s", names.len ? ", " : "", quant_format_at(i)->name);
    }
    pm_status status =
        error_set(PM_ERROR_USAGE, "type '%.32s' can't be written (%s)", type, names.data);
    buf_free(&names);
    return status;
}

pm_status pm_quantization_start(const char *in, const char *out, const char *type,
                                const pm_options *options, pm_quantization **result)
{
    rewrite *r = calloc(1, sizeof *r);
    if (!r) return error_memory("a quantization", sizeof *r);
    r->n_threads = (int)options_int(options, "threads", os_default_threads());
    uint32_t file_type = 0;
    pm_status status = find_format(type, &r->to, &file_type);
    if (status == PM_OK && os_same_file(in, out))
        status = error_set(PM_ERROR_USAGE, "%s: the result can't replace its own source", out);
    if (status == PM_OK && !(r->path = strdup(out))) status = error_memory("a path", strlen(out));
    if (status == PM_OK) status = gguf_open(in, !options_is_on(options, "no-mmap"), &r->in);
    if (status == PM_OK) status = gguf_writer_open(out, &r->out);
    if (status == PM_OK) {
        put_metadata(r, file_type);
        status = declare_tensors(r);
    }
    if (status == PM_OK) {
        *result = r;
    } else {
        pm_quantization_destroy(r);
    }
    return status;
}

void pm_quantization_destroy(pm_quantization *r)
{
    if (!r) return;
    gguf_writer_abort(r->out);
    gguf_close(r->in);
    free(r->b.source);
    free(r->b.result);
    free(r->b.values);
    free(r->path);
    free(r);
}

double pm_quantization_part(const pm_quantization *r)
{
    if (r->committed) return 1;
    return r->all ? (double)r->read / (double)r->all : 0;
}

static pm_status commit(rewrite *r)
{
    gguf_writer *out = r->out;
    r->out = NULL;
    pm_status status = gguf_writer_commit(out);
    r->committed = status == PM_OK;
    if (status != PM_OK) return status;
    if (r->n_fallbacks == 0) return error_set(PM_OK, "%s", "");
    return error_set(
        PM_OK,
        "%s: not %s but the next larger format that fits their rows (no whole number of "
        "blocks of %" PRIu32 "): %" PRIu32 " matrices",
        r->path, r->to->name, r->to->block_values, r->n_fallbacks);
}

pm_status pm_quantization_next(pm_quantization *r, int *done)
{
    if (!r->out) return error_set(PM_ERROR_USAGE, "the file is written, or could not be");
    if (r->tensor == gguf_n_tensors(r->in)) {
        *done = 1;
        return commit(r);
    }
    bool fallback;
    const gguf_tensor *t = gguf_tensor_at(r->in, r->tensor);
    const quant_format *to = target(r, t, &fallback);
    *done = 0;
    return to ? convert_piece(r, t, to) : copy_piece(r, t);
}

pm_status pm_quantize(const char *in, const char *out, const char *type, const pm_options *options)
{
    rewrite *r = NULL;
    int done = 0;
    pm_status status = pm_quantization_start(in, out, type, options, &r);
    while (status == PM_OK && !done) status = pm_quantization_next(r, &done);
    pm_quantization_destroy(r);
    return status;
}
