// What can be seen in a model's file: embeddings and how near they are, statistics of weights.
#include "api/inspect.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proof/statistics.h"

json_t *inspect_floats(const float *values, size_t n)
{
    json_t *list = json_array();
    bool good = true;
    for (size_t i = 0; i < n && good; i++) good = json_add(list, json_finite((double)values[i]));
    return json_complete(list, good);
}

bool inspect_put_token(json_t *o, const model *m, int32_t id)
{
    gguf_string piece = {"", 0};
    if (m->vocab && id < text_n_vocab(m->vocab)) piece = text_piece(m->vocab, id, true);
    return json_put(o, "id", json_integer(id)) &&
           json_put(o, "text", json_text(piece.data ? piece.data : "", piece.len));
}

json_t *inspect_tokens(const model *m, const int32_t *ids, size_t n)
{
    json_t *list = json_array();
    bool good = true;
    for (size_t i = 0; i < n && good; i++) {
        json_t *o = json_object();
        good = inspect_put_token(o, m, ids[i]);
        good = json_add(list, o) && good;
    }
    return json_complete(list, good);
}

pm_status inspect_rows(const model *m, plan_weight w, const int32_t *rows, size_t n, float *out)
{
    const plan_tensor *t = &m->tensors[w.tensor];
    void *raw = malloc(t->row_bytes);
    if (!raw) return error_memory("a row", t->row_bytes);
    pm_status status = PM_OK;
    for (size_t i = 0; i < n && status == PM_OK; i++) {
        uint64_t row = w.row + (uint64_t)(uint32_t)rows[i];
        status =
            gguf_read(m->file, m->file_tensors[w.tensor], row * t->row_bytes, raw, t->row_bytes);
        if (status == PM_OK) quant_format_of(t->type)->decode(raw, out + i * t->cols, t->cols);
    }
    free(raw);
    return status;
}

// With vocab-only nobody has looked at the tensors: the file is opened once more. *own is closed by
// the caller.
static pm_status whole_model(const pm_model *pm, const pm_options *o, model **own,
                             const model **out)
{
    *own = NULL;
    *out = pm->m;
    if (pm->loaded) return PM_OK;
    model_options how = {.no_mmap = options_is_on(o, "no-mmap"),
                         .assume_pre = pm_options_get(o, "pre")};
    pm_status status = model_open(gguf_path(pm->m->file), &how, own);
    *out = *own;
    return status;
}

// ---- embeddings -------------------------------------------------------------------------------

typedef struct word {
    text_ids ids;
    float *vector; // [n_embd]: the token's row; of a word in several pieces their mean
    double length;
} word;

// A word as it stands in a text is most often the token with a space before it: the form of fewer
// tokens is taken, of equal ones that with the space.
static pm_status tokens_of_word(const text_vocab *v, const char *text, text_ids *out)
{
    text_ids bare = {0}, spaced = {0};
    buf with_space = {0};
    buf_char(&with_space, ' ');
    buf_str(&with_space, text);
    pm_status status = with_space.failed ? error_memory("a word", strlen(text)) : PM_OK;
    if (status == PM_OK) status = text_encode(v, text, strlen(text), false, &bare);
    if (status == PM_OK) status = text_encode(v, with_space.data, with_space.len, false, &spaced);
    buf_free(&with_space);
    bool take_spaced = spaced.n > 0 && spaced.n <= bare.n;
    text_ids_free(take_spaced ? &bare : &spaced);
    *out = take_spaced ? spaced : bare;
    if (status == PM_OK && out->n == 0)
        status = error_set(PM_ERROR_USAGE, "'%s': a word without a token", text);
    return status;
}

static pm_status embed_word(const model *m, const char *text, word *w)
{
    size_t n = m->n_embd;
    pm_status status = tokens_of_word(m->vocab, text, &w->ids);
    if (status != PM_OK) return status;
    float *rows = malloc(w->ids.n * n * sizeof *rows);
    w->vector = calloc(n, sizeof *w->vector);
    status = rows && w->vector ? inspect_rows(m, m->embd, w->ids.ids, w->ids.n, rows)
                               : error_memory("an embedding", w->ids.n * n * sizeof *rows);
    for (size_t i = 0; i < n && status == PM_OK; i++) {
        double sum = 0;
        for (size_t k = 0; k < w->ids.n; k++) sum += (double)rows[k * n + i];
        w->vector[i] = (float)(sum / (double)w->ids.n);
        w->length += (double)w->vector[i] * (double)w->vector[i];
    }
    w->length = sqrt(w->length);
    free(rows);
    return status;
}

static json_t *products(const word *words, size_t n, size_t n_embd, bool cosine)
{
    json_t *rows = json_array();
    bool good = true;
    for (size_t i = 0; i < n && good; i++) {
        json_t *row = json_array();
        for (size_t j = 0; j < n && good; j++) {
            double sum = 0;
            for (size_t k = 0; k < n_embd; k++)
                sum += (double)words[i].vector[k] * (double)words[j].vector[k];
            if (cosine) sum /= words[i].length * words[j].length;
            good = json_add(row, json_finite(sum));
        }
        good = json_add(rows, row) && good;
    }
    return json_complete(rows, good);
}

static json_t *words_json(const model *m, const char *const *texts, const word *words, size_t n,
                          size_t first)
{
    json_t *o = json_object(), *names = json_array(), *ids = json_array(), *pieces = json_array();
    json_t *vectors = json_array();
    bool good = true;
    for (size_t i = 0; i < n && good; i++) {
        const text_ids *own = &words[i].ids;
        good = json_add(names, json_word(texts[i])) &&
               json_add(ids, own->n == 1 ? json_integer(own->ids[0]) : json_null()) &&
               json_add(pieces, inspect_tokens(m, own->ids, own->n)) &&
               json_add(vectors, inspect_floats(words[i].vector, first));
    }
    good = json_put(o, "words", names) && good;
    good = json_put(o, "ids", ids) && good;
    good = json_put(o, "pieces", pieces) && good;
    good = json_put(o, "n_embd", json_size(m->n_embd)) && good;
    good = json_put(o, "vectors", vectors) && good;
    return json_complete(o, good && json_put(o, "dot", products(words, n, m->n_embd, false)) &&
                                json_put(o, "cosine", products(words, n, m->n_embd, true)));
}

pm_status pm_inspect_embedding(const pm_model *pm, const pm_options *options,
                               const char *const *words, size_t n, char **json)
{
    if (n == 0) return error_set(PM_ERROR_USAGE, "inspect embedding: needs a word at least");
    model *own;
    const model *m;
    pm_status status = whole_model(pm, options, &own, &m);
    if (status != PM_OK) return status;
    int64_t first = options_int(options, "first", 64);
    if (first == 0 || first > m->n_embd) first = m->n_embd;
    word *list = calloc(n, sizeof *list);
    if (!list) status = error_memory("words", n * sizeof *list);
    if (status == PM_OK && !m->vocab)
        status = error_set(PM_ERROR_FILE, "%s: has no vocabulary", gguf_path(m->file));
    for (size_t i = 0; i < n && status == PM_OK; i++) status = embed_word(m, words[i], &list[i]);
    if (status == PM_OK) status = json_take(words_json(m, words, list, n, (size_t)first), json);
    for (size_t i = 0; list && i < n; i++) {
        text_ids_free(&list[i].ids);
        free(list[i].vector);
    }
    free(list);
    model_close(own);
    return status;
}

// ---- weights ----------------------------------------------------------------------------------

static json_t *bins_json(const tensor_statistics *s)
{
    json_t *list = json_array();
    bool good = true;
    for (int i = 0; i < STATISTICS_BINS && good; i++) good = json_add(list, json_size(s->bins[i]));
    return json_complete(list, good);
}

static json_t *tensor_json(const plan_tensor *t, const tensor_statistics *s)
{
    json_t *o = json_object(), *shape = json_array(), *histogram = json_object();
    bool good = json_add(shape, json_size(t->rows)) && json_add(shape, json_size(t->cols));
    good = json_put(histogram, "from", json_finite(s->from)) &&
           json_put(histogram, "to", json_finite(s->to)) &&
           json_put(histogram, "bins", bins_json(s)) &&
           json_put(histogram, "below", json_size(s->below)) &&
           json_put(histogram, "above", json_size(s->above)) && good;
    good = json_put(o, "shape", shape) && good;
    good = json_put(o, "histogram", histogram) && good;
    return json_complete(
        o, good && json_put(o, "name", json_word(t->name)) &&
               json_put(o, "type", json_word(quant_type_name(t->type))) &&
               json_put(o, "n", json_size(s->n)) && json_put(o, "min", json_finite(s->min)) &&
               json_put(o, "max", json_finite(s->max)) &&
               json_put(o, "mean", json_finite(s->mean)) && json_put(o, "sd", json_finite(s->sd)) &&
               json_put(o, "zeros", json_size(s->n_zero)) &&
               json_put(o, "nonfinite", json_size(s->n_nonfinite)));
}

pm_status pm_inspect_weights(const pm_model *pm, const pm_options *options, const char *part,
                             char **json)
{
    model *own;
    const model *m;
    pm_status status = whole_model(pm, options, &own, &m);
    if (status != PM_OK) return status;
    json_t *o = json_object(), *list = json_array();
    bool good = true;
    for (uint32_t i = 0; i < m->n_tensors && status == PM_OK && good; i++) {
        const plan_tensor *t = &m->tensors[i];
        if (part && !strstr(t->name, part)) continue;
        tensor_statistics s;
        status = statistics_of(m, i, &s);
        if (status == PM_OK) good = json_add(list, tensor_json(t, &s));
    }
    if (status == PM_OK && good && json_array_size(list) == 0)
        status = error_set(PM_ERROR_USAGE, "no tensor's name holds '%s' (see pumice info)",
                           part ? part : "");
    good = json_put(o, "tensors", list) && good;
    o = json_complete(o, good);
    if (status == PM_OK)
        status = json_take(o, json);
    else
        json_decref(o);
    model_close(own);
    return status;
}
