// A made-up model as a file: written piece by piece, and recognised.
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "make/make.h"
#include "quant/quant.h"

// ---- parts ------------------------------------------------------------------------------------

static pm_status choose_vocab(make_parts *p, const gguf *from)
{
    if (!from) return make_vocab_new(p->shape.n_vocab, &p->vocab);
    pm_status status = make_vocab_copy(from, &p->vocab);
    if (status == PM_OK && p->shape.published && p->vocab.n_tokens != p->shape.n_vocab)
        return error_set(PM_ERROR_USAGE, "%s: has %u tokens, this model needs %u", gguf_path(from),
                         (unsigned)p->vocab.n_tokens, (unsigned)p->shape.n_vocab);
    p->shape.n_vocab = p->vocab.n_tokens;
    return status;
}

pm_status make_parts_new(const make_shape *shape, const gguf *from, make_parts **out)
{
    make_parts *p = calloc(1, sizeof *p);
    if (!p) return error_memory("a model", sizeof *p);
    p->shape = *shape;
    pm_status status = choose_vocab(p, from);
    if (status == PM_OK) status = make_tensors(&p->shape, &p->tensors, &p->n_tensors);
    if (status == PM_OK) {
        make_keys_build(&p->keys, &p->shape, &p->vocab);
        if (p->keys.full)
            status = error_set(PM_ERROR_FILE, "%s: has too many tokenizer keys", gguf_path(from));
    }
    if (status != PM_OK) {
        make_parts_free(p);
        return status;
    }
    for (size_t i = 0; i < p->n_tensors; i++) p->bytes += p->tensors[i].bytes;
    *out = p;
    return PM_OK;
}

void make_parts_free(make_parts *p)
{
    if (!p) return;
    make_vocab_free(&p->vocab);
    free(p->tensors);
    free(p);
}

static pm_status open_values(const make_parts *p, size_t index, make_values **out)
{
    return make_values_open(rng_u64(p->shape.seed, index), &p->tensors[index], p->shape.n_layer,
                            out);
}

// ---- writing ----------------------------------------------------------------------------------

enum { PIECE_BYTES = 4 << 20 };

struct make_file {
    const make_parts *parts;
    gguf_writer *writer; // NULL: committed, or failed
    make_values *values; // of `tensor`; NULL: not begun
    size_t tensor;
    uint64_t row, written; // rows of the tensor, bytes of all
    uint8_t *piece;
    uint64_t piece_bytes;
};

pm_status make_file_start(const char *path, const make_parts *parts, make_file **out)
{
    make_file *f = calloc(1, sizeof *f);
    if (!f) return error_memory("a file", sizeof *f);
    f->parts = parts;
    pm_status status = gguf_writer_open(path, &f->writer);
    if (status == PM_OK) {
        make_keys_write(&parts->keys, f->writer);
        for (const make_tensor *t = parts->tensors; t < parts->tensors + parts->n_tensors; t++)
            gguf_put_tensor(f->writer, t->name, t->type, t->n_dims, t->dims);
        status = gguf_begin_data(f->writer);
    }
    if (status == PM_OK)
        *out = f;
    else
        make_file_close(f);
    return status;
}

static pm_status write_rows(make_file *f, const make_tensor *t)
{
    uint64_t row_bytes = t->bytes / t->dims[1];
    uint64_t n = row_bytes < PIECE_BYTES ? PIECE_BYTES / row_bytes : 1;
    if (n > t->dims[1] - f->row) n = t->dims[1] - f->row;
    if (n * row_bytes > f->piece_bytes) {
        uint8_t *more = realloc(f->piece, (size_t)(n * row_bytes));
        if (!more) return error_memory("weights", n * row_bytes);
        f->piece = more;
        f->piece_bytes = n * row_bytes;
    }
    make_values_rows(f->values, f->row, n, f->piece);
    f->row += n;
    f->written += n * row_bytes;
    return gguf_put_data(f->writer, f->piece, n * row_bytes);
}

pm_status make_file_next(make_file *f, bool *done)
{
    *done = f->tensor == f->parts->n_tensors;
    if (*done) {
        gguf_writer *w = f->writer;
        f->writer = NULL;
        return w ? gguf_writer_commit(w) : PM_OK;
    }
    const make_tensor *t = &f->parts->tensors[f->tensor];
    pm_status status = f->values ? PM_OK : open_values(f->parts, f->tensor, &f->values);
    if (status == PM_OK) status = write_rows(f, t);
    if (status == PM_OK && f->row == t->dims[1]) {
        make_values_close(f->values);
        f->values = NULL;
        f->row = 0;
        f->tensor++;
    }
    return status;
}

double make_file_part(const make_file *f)
{
    return f->parts->bytes ? (double)f->written / (double)f->parts->bytes : 1;
}

void make_file_close(make_file *f)
{
    if (!f) return;
    gguf_writer_abort(f->writer);
    make_values_close(f->values);
    free(f->piece);
    free(f);
}

// ---- recognising ------------------------------------------------------------------------------

static bool same_text(gguf_string a, const char *data, size_t n)
{
    return a.len == n && !memcmp(a.data, data, n);
}

static bool same_array(const gguf *g, const gguf_value *v, const make_key *k)
{
    if (v->item_type != k->item_type || v->n_items != k->n) return false;
    for (uint64_t i = 0; i < k->n; i++) {
        if (k->strings) {
            if (!same_text(gguf_item_string(g, v, i), k->strings[i].data, k->strings[i].len))
                return false;
        } else if (gguf_item_int(g, v, i) != k->ints[i]) {
            return false;
        }
    }
    return true;
}

static bool same_copy(const gguf *g, const gguf_value *v, const make_key *k)
{
    const void *a, *b;
    uint64_t n_a, n_b;
    gguf_value_bytes(g, v, &a, &n_a);
    gguf_value_bytes(k->from, k->copy, &b, &n_b);
    return n_a == n_b && !memcmp(a, b, n_a);
}

static bool same_value(const gguf *g, const gguf_value *v, const make_key *k)
{
    if (!same_text(v->key, k->name, strlen(k->name)) || v->type != k->type) return false;
    if (k->copy) return same_copy(g, v, k);
    switch (k->type) {
    case GGUF_ARRAY: return same_array(g, v, k);
    case GGUF_STRING: return same_text(gguf_item_string(g, v, 0), k->text, strlen(k->text));
    case GGUF_F32: return gguf_item_number(g, v, 0) == (double)k->real;
    default: return gguf_item_number(g, v, 0) == (double)k->number;
    }
}

static bool same_rows(const gguf *g, const gguf_tensor *t, make_values *values, uint64_t row,
                      uint64_t row_bytes, uint8_t *made, uint8_t *found)
{
    make_values_rows(values, row, 1, made);
    return gguf_read(g, t, row * row_bytes, found, row_bytes) == PM_OK &&
           !memcmp(made, found, (size_t)row_bytes);
}

static bool same_tensor(const gguf *g, const make_parts *p, size_t index)
{
    const make_tensor *want = &p->tensors[index];
    const gguf_tensor *t = gguf_tensor_at(g, index);
    if (strcmp(t->name, want->name) != 0 || t->type != want->type || t->n_dims != want->n_dims ||
        t->dims[0] != want->dims[0] || t->dims[1] != want->dims[1] || t->offset != want->offset)
        return false;
    uint64_t row_bytes = want->bytes / want->dims[1];
    uint8_t *rows = malloc((size_t)row_bytes * 2);
    make_values *values = NULL;
    bool same = rows && open_values(p, index, &values) == PM_OK &&
                same_rows(g, t, values, 0, row_bytes, rows, rows + row_bytes) &&
                same_rows(g, t, values, want->dims[1] - 1, row_bytes, rows, rows + row_bytes);
    make_values_close(values);
    free(rows);
    return same;
}

bool make_file_is(const gguf *g, const make_parts *parts)
{
    if (gguf_n_values(g) != parts->keys.n || gguf_n_tensors(g) != parts->n_tensors) return false;
    for (size_t i = 0; i < parts->keys.n; i++)
        if (!same_value(g, gguf_value_at(g, i), &parts->keys.keys[i])) return false;
    for (size_t i = 0; i < parts->n_tensors; i++)
        if (!same_tensor(g, parts, i)) return false;
    return true;
}
