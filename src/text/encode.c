// Text to ids: special tokens first, then what lies between them, fragment by fragment.
#include <stdlib.h>
#include <string.h>

#include "text/merge.h"

static const size_t MAX_TEXT = UINT32_C(1) << 29; // bytes; positions and symbols fit 32 bits

typedef struct encoder {
    const text_vocab *v;
    text_ids *out;
    clean_buffer clean;
    pieces pieces;
    merger merger;
    char *copy; // a fragment with its spaces as U+2581, or a word in the byte alphabet
    size_t copy_cap;
} encoder;

void text_ids_free(text_ids *ids)
{
    free(ids->ids);
    *ids = (text_ids){0};
}

pm_status text_ids_add(text_ids *ids, int32_t id)
{
    if (ids->n == ids->cap) {
        size_t cap = ids->cap ? ids->cap * 2 : 64;
        int32_t *grown =
            cap <= SIZE_MAX / sizeof *grown ? realloc(ids->ids, cap * sizeof *grown) : NULL;
        if (!grown) return error_memory("token ids", cap * sizeof *grown);
        ids->ids = grown;
        ids->cap = cap;
    }
    ids->ids[ids->n++] = id;
    return PM_OK;
}

static pm_status no_memory(size_t n)
{
    return error_memory("merging a text", n * sizeof(symbol));
}

// ---- from symbols to ids ----------------------------------------------------------------------

static bool bpe_rule(const text_vocab *v, const char *text, const symbol *left, const symbol *right,
                     uint32_t *priority, int32_t *joined)
{
    (void)text;
    if (left->id == TEXT_NO_TOKEN || right->id == TEXT_NO_TOKEN) return false;
    const merge_slot *merge = vocab_find_merge(v, left->id, right->id);
    if (!merge) return false;
    *priority = merge->rank;
    *joined = merge->joined;
    return true;
}

static bool spm_rule(const text_vocab *v, const char *text, const symbol *left, const symbol *right,
                     uint32_t *priority, int32_t *joined)
{
    *joined = vocab_find_text(v, text + left->start, (size_t)left->n + right->n);
    if (*joined == TEXT_NO_TOKEN) return false;
    *priority = v->priority[*joined];
    return true;
}

// One symbol a character.
static pm_status add_characters(encoder *e, const char *text, size_t n)
{
    e->merger.n = 0;
    for (size_t i = 0, length; i < n; i += length) {
        text_utf8_next(text + i, n - i, &length);
        int32_t id = vocab_find_text(e->v, text + i, length);
        if (!merger_add(&e->merger, (uint32_t)i, (uint32_t)length, id)) return no_memory(n);
    }
    return PM_OK;
}

// Merges the symbols and appends their ids. What is no token is spelled in byte tokens; a byte
// without one gives the unknown token, once for a symbol, where the vocabulary has one.
static pm_status emit_merged(encoder *e, const char *text, size_t n, merge_rule *rule)
{
    if (!merger_run(&e->merger, e->v, text, rule)) return no_memory(n);
    pm_status status = PM_OK;
    for (size_t i = 0; i < e->merger.n && status == PM_OK; i++) {
        const symbol *s = &e->merger.symbols[i];
        if (s->n == 0) continue;
        if (s->id != TEXT_NO_TOKEN) {
            status = text_ids_add(e->out, s->id);
            continue;
        }
        bool unknown = false;
        for (uint32_t k = 0; k < s->n && status == PM_OK; k++) {
            int32_t id = e->v->byte_token[(unsigned char)text[s->start + k]];
            if (id != TEXT_NO_TOKEN)
                status = text_ids_add(e->out, id);
            else
                unknown = true;
        }
        if (unknown && e->v->special_ids.unk != TEXT_NO_TOKEN && status == PM_OK)
            status = text_ids_add(e->out, e->v->special_ids.unk);
    }
    return status;
}

// ---- pieces of byte-pair vocabularies ---------------------------------------------------------

static pm_status reserve_copy(encoder *e, size_t n)
{
    if (n <= e->copy_cap) return PM_OK;
    free(e->copy);
    e->copy = malloc(n);
    e->copy_cap = e->copy ? n : 0;
    return e->copy ? PM_OK : error_memory("a copy of the text", n);
}

// The token that is the whole piece, in the byte alphabet unless the vocabulary is raw.
static pm_status whole_word(encoder *e, const char *piece, size_t n, int32_t *id)
{
    *id = TEXT_NO_TOKEN;
    if (n > e->v->max_token) return PM_OK;
    if (e->v->pre->raw) {
        *id = vocab_find_text(e->v, piece, n);
        return PM_OK;
    }
    pm_status status = reserve_copy(e, 2 * n);
    if (status != PM_OK) return status;
    size_t length = 0;
    for (size_t i = 0; i < n; i++)
        length += text_utf8_put(alphabet_char((unsigned char)piece[i]), e->copy + length);
    *id = vocab_find_text(e->v, e->copy, length);
    return PM_OK;
}

static pm_status encode_piece(encoder *e, const char *piece, size_t n)
{
    const text_vocab *v = e->v;
    if (v->pre->whole_words) {
        int32_t id;
        pm_status status = whole_word(e, piece, n, &id);
        if (status != PM_OK) return status;
        if (id != TEXT_NO_TOKEN) return text_ids_add(e->out, id);
    }
    if (v->pre->raw) {
        pm_status status = add_characters(e, piece, n);
        return status == PM_OK ? emit_merged(e, piece, n, bpe_rule) : status;
    }
    // A byte that the vocabulary lacks is left out, as the models' own tokenizers do.
    e->merger.n = 0;
    for (size_t i = 0; i < n; i++) {
        // NOLINTNEXTLINE(clang-analyzer-core.uninitialized.ArraySubscript): it lost `piece`
        int32_t id = v->byte_token[(unsigned char)piece[i]];
        if (id != TEXT_NO_TOKEN && !merger_add(&e->merger, (uint32_t)i, 1, id)) return no_memory(n);
    }
    return emit_merged(e, piece, n, bpe_rule);
}

// ---- fragments --------------------------------------------------------------------------------

// Spaces as U+2581, with one more before the text where `prefix` says so.
static pm_status mark_spaces(encoder *e, bool prefix, const char **text, size_t *n)
{
    pm_status status = reserve_copy(e, 3 * (*n + 1));
    if (status != PM_OK) return status;
    static const char mark[] = "\xe2\x96\x81";
    size_t at = 0;
    if (prefix) {
        memcpy(e->copy, mark, 3);
        at = 3;
    }
    for (size_t i = 0; i < *n; i++) {
        if ((*text)[i] == ' ') {
            memcpy(e->copy + at, mark, 3);
            at += 3;
        } else {
            e->copy[at++] = (*text)[i];
        }
    }
    *text = e->copy;
    *n = at;
    return PM_OK;
}

// A stretch of text between special tokens or ends of the text.
static pm_status encode_fragment(encoder *e, const char *text, size_t n)
{
    if (n == 0) return PM_OK;
    const text_vocab *v = e->v;
    pm_status status = text_clean(text, n, !v->spm && v->pre->nfc, &e->clean, &text, &n);
    if (status != PM_OK) return status;
    if (v->spm) {
        if ((status = mark_spaces(e, v->add_space_prefix, &text, &n)) != PM_OK) return status;
        status = add_characters(e, text, n);
        return status == PM_OK ? emit_merged(e, text, n, spm_rule) : status;
    }
    if (v->pre->space_mark && (status = mark_spaces(e, false, &text, &n)) != PM_OK) return status;
    status = pretokenize(v->pre, text, n, &e->pieces);
    uint32_t start = 0;
    for (size_t i = 0; status == PM_OK && i < e->pieces.n; start = e->pieces.ends[i++])
        status = encode_piece(e, text + start, e->pieces.ends[i] - start);
    return status;
}

static pm_status encode(const text_vocab *v, const char *text, const stretch *stretches, size_t n,
                        text_ids *out)
{
    special_hit *hits;
    size_t n_hits, n_before = out->n;
    pm_status status = special_find(v, text, stretches, n, &hits, &n_hits);
    if (status != PM_OK) return status;
    encoder e = {.v = v, .out = out};
    size_t at = 0;
    for (size_t i = 0; i < n_hits && status == PM_OK; i++) {
        status = encode_fragment(&e, text + at, hits[i].at - at);
        if (status == PM_OK) status = text_ids_add(out, hits[i].id);
        at = (size_t)hits[i].at + hits[i].n;
    }
    if (status == PM_OK && n > 0)
        status = encode_fragment(&e, text + at, stretches[n - 1].end - at);
    if (status != PM_OK) out->n = n_before;
    clean_buffer_free(&e.clean);
    pieces_free(&e.pieces);
    merger_free(&e.merger);
    free(e.copy);
    free(hits);
    return status;
}

static pm_status too_long(size_t n)
{
    return error_set(PM_ERROR_USAGE, "the text has %zu bytes (at most %zu)", n, MAX_TEXT);
}

pm_status text_encode(const text_vocab *v, const char *text, size_t n, bool special, text_ids *out)
{
    if (n > MAX_TEXT) return too_long(n);
    stretch whole = {(uint32_t)n, special};
    return encode(v, text, &whole, n > 0, out);
}

pm_status text_encode_spans(const text_vocab *v, const text_span *spans, size_t n_spans,
                            text_ids *out)
{
    size_t total = 0;
    for (size_t i = 0; i < n_spans; i++) {
        if (spans[i].n > MAX_TEXT - total) return too_long(spans[i].n);
        total += spans[i].n;
    }
    if (total == 0) return PM_OK;
    char *text = malloc(total);
    stretch *stretches =
        n_spans <= SIZE_MAX / sizeof *stretches ? malloc(n_spans * sizeof *stretches) : NULL;
    if (!text || !stretches) {
        free(text);
        free(stretches);
        return error_memory("a prompt", total);
    }
    size_t at = 0, n = 0;
    for (size_t i = 0; i < n_spans; i++) {
        if (spans[i].n == 0) continue;
        memcpy(text + at, spans[i].text, spans[i].n);
        at += spans[i].n;
        stretches[n++] = (stretch){(uint32_t)at, spans[i].literal};
    }
    pm_status status = encode(v, text, stretches, n, out);
    free(text);
    free(stretches);
    return status;
}
