// Reading a vocabulary from a GGUF file.
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "text/vocab.h"

#define KEY(name) "tokenizer.ggml." name

pm_status vocab_warn(text_vocab *v, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (char *c = line; *c; c++) // names from a file may hold anything
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = ' ';
    char **warnings = realloc(v->warnings, (v->n_warnings + 1) * sizeof *warnings);
    if (!warnings) return error_memory("a warning", 512);
    v->warnings = warnings;
    size_t n = strlen(line) + 1;
    char *copy = malloc(n);
    if (!copy) return error_memory("a warning", n);
    memcpy(copy, line, n);
    v->warnings[v->n_warnings++] = copy;
    return PM_OK;
}

// ---- arrays -----------------------------------------------------------------------------------

typedef enum array_kind { STRINGS, INTEGERS, NUMBERS } array_kind;

static bool is_kind(gguf_type type, array_kind kind)
{
    if (kind == STRINGS) return type == GGUF_STRING;
    if (type == GGUF_F32 || type == GGUF_F64) return kind == NUMBERS;
    return type != GGUF_STRING && type != GGUF_ARRAY;
}

// An array of the given kind; n: how many items it must have, 0 for any number. *out is NULL where
// the key is absent.
static pm_status find_array(const text_vocab *v, const char *key, array_kind kind, uint64_t n,
                            const gguf_value **out)
{
    static const char *const names[] = {"strings", "integers", "numbers"};
    *out = NULL;
    const gguf_value *value = gguf_find(v->g, key);
    if (!value) return PM_OK;
    if (value->type != GGUF_ARRAY || !is_kind(value->item_type, kind))
        return error_set(PM_ERROR_FILE, "%s: %s is not an array of %s", gguf_path(v->g), key,
                         names[kind]);
    if (n > 0 && value->n_items != n)
        return error_set(PM_ERROR_FILE,
                         "%s: %s has %" PRIu64 " items, but there are %" PRIu64 " tokens",
                         gguf_path(v->g), key, value->n_items, n);
    *out = value;
    return PM_OK;
}

static pm_status missing(const text_vocab *v, const char *key)
{
    return error_set(PM_ERROR_FILE,
                     "%s: the key %s is missing, so the file has no usable vocabulary",
                     gguf_path(v->g), key);
}

// ---- tokens -----------------------------------------------------------------------------------

static pm_status load_types(text_vocab *v)
{
    const gguf_value *types;
    pm_status status = find_array(v, KEY("token_type"), INTEGERS, (uint64_t)v->n_vocab, &types);
    if (status != PM_OK) return status;
    if (!types) {
        memset(v->types, TEXT_NORMAL, (size_t)v->n_vocab);
        return vocab_warn(v, KEY("token_type") " is missing: no token is taken as a control token");
    }
    for (int32_t i = 0; i < v->n_vocab; i++) {
        int64_t type = gguf_item_int(v->g, types, (uint64_t)i);
        if (type < TEXT_NORMAL || type > TEXT_BYTE)
            return error_set(PM_ERROR_FILE,
                             "%s: " KEY("token_type") " of token %" PRId32 " is %" PRId64
                                                      " (1 to 6)",
                             gguf_path(v->g), i, type);
        v->types[i] = (uint8_t)type;
    }
    return PM_OK;
}

// Orders scores as unsigned numbers, the highest first; what is no number comes last.
static uint32_t score_priority(float score)
{
    uint32_t bits;
    if (score != score) return NO_MERGE - 1;
    score += 0.0f; // -0 to 0
    memcpy(&bits, &score, sizeof bits);
    bits = bits >> 31 ? ~bits : bits | UINT32_C(0x80000000);
    return NO_MERGE - bits;
}

static pm_status load_scores(text_vocab *v)
{
    const gguf_value *scores;
    pm_status status = find_array(v, KEY("scores"), NUMBERS, (uint64_t)v->n_vocab, &scores);
    if (status != PM_OK) return status;
    if (!scores) return missing(v, KEY("scores"));
    v->priority = calloc((size_t)v->n_vocab, sizeof *v->priority);
    if (!v->priority) return error_memory("token scores", (uint64_t)v->n_vocab * 4);
    for (int32_t i = 0; i < v->n_vocab; i++)
        v->priority[i] = score_priority((float)gguf_item_number(v->g, scores, (uint64_t)i));
    return PM_OK;
}

static uint32_t table_slots(uint64_t n)
{
    uint32_t slots = 16;
    while (slots / 4 * 3 < n) slots *= 2;
    return slots;
}

static pm_status index_tokens(text_vocab *v)
{
    uint32_t n_slots = table_slots((uint64_t)v->n_vocab);
    v->slots = malloc(n_slots * sizeof *v->slots);
    if (!v->slots) return error_memory("the table of tokens", n_slots * sizeof *v->slots);
    for (uint32_t i = 0; i < n_slots; i++) v->slots[i] = (token_slot){0, TEXT_NO_TOKEN};
    v->slot_mask = n_slots - 1;
    int32_t n_same = 0, first_same = 0;
    for (int32_t i = 0; i < v->n_vocab; i++) {
        if (!vocab_insert(v, i) && n_same++ == 0) first_same = i;
        if (token_is_text(v, i) && v->tokens[i].len > v->max_token) v->max_token = v->tokens[i].len;
    }
    if (n_same == 0) return PM_OK;
    return vocab_warn(v,
                      KEY("tokens") ": %" PRId32 " tokens (first: %" PRId32 ") have the text of an "
                                    "earlier one and are never produced",
                      n_same, first_same);
}

// <0x00> to <0xFF>
static void find_byte_tokens(text_vocab *v)
{
    for (int b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        int32_t id = text_find(v, name, 6);
        v->byte_token[b] = id != TEXT_NO_TOKEN && v->types[id] == TEXT_BYTE ? id : TEXT_NO_TOKEN;
    }
}

static void find_alphabet_tokens(text_vocab *v)
{
    for (int b = 0; b < 256; b++) {
        char c[4];
        size_t n = text_utf8_put(alphabet_char((unsigned char)b), c);
        v->byte_token[b] = vocab_find_text(v, c, n);
    }
}

pm_status vocab_load_tokens(text_vocab *v)
{
    const gguf_value *tokens;
    pm_status status = find_array(v, KEY("tokens"), STRINGS, 0, &tokens);
    if (status != PM_OK) return status;
    if (!tokens) return missing(v, KEY("tokens"));
    if (tokens->n_items == 0 || tokens->n_items > INT32_MAX / 4)
        return error_set(PM_ERROR_FILE, "%s: " KEY("tokens") " has %" PRIu64 " tokens (1 to %d)",
                         gguf_path(v->g), tokens->n_items, INT32_MAX / 4);
    v->n_vocab = (int32_t)tokens->n_items;
    v->tokens = calloc((size_t)v->n_vocab, sizeof *v->tokens);
    v->types = calloc((size_t)v->n_vocab, 1);
    if (!v->tokens || !v->types)
        return error_memory("the vocabulary", (uint64_t)v->n_vocab * sizeof *v->tokens);
    for (int32_t i = 0; i < v->n_vocab; i++) {
        v->tokens[i] = gguf_item_string(v->g, tokens, (uint64_t)i);
        if (v->tokens[i].len > UINT32_MAX / 4)
            return error_set(PM_ERROR_FILE, "%s: " KEY("tokens") ": token %" PRId32 " is too long",
                             gguf_path(v->g), i);
    }
    if ((status = load_types(v)) != PM_OK) return status;
    if (v->spm && (status = load_scores(v)) != PM_OK) return status;
    if ((status = index_tokens(v)) != PM_OK) return status;
    if (v->spm || v->pre->raw)
        find_byte_tokens(v);
    else
        find_alphabet_tokens(v);
    return PM_OK;
}

// ---- merges -----------------------------------------------------------------------------------

// "LEFT RIGHT" with the first space that is not the first byte between them; false where one of
// the three is no token.
static bool parse_merge(const text_vocab *v, gguf_string text, buf *joined, merge_slot *out)
{
    const char *space = text.len > 1 ? memchr(text.data + 1, ' ', text.len - 1) : NULL;
    if (!space || text.len - 1 > v->max_token) return false;
    size_t n_left = (size_t)(space - text.data), n_right = text.len - n_left - 1;
    out->left = vocab_find_text(v, text.data, n_left);
    out->right = vocab_find_text(v, space + 1, n_right);
    if (out->left == TEXT_NO_TOKEN || out->right == TEXT_NO_TOKEN) return false;
    joined->len = 0;
    buf_add(joined, text.data, n_left);
    buf_add(joined, space + 1, n_right);
    if (joined->failed) return false;
    out->joined = vocab_find_text(v, joined->data, joined->len);
    return out->joined != TEXT_NO_TOKEN;
}

pm_status vocab_load_merges(text_vocab *v)
{
    const gguf_value *merges;
    pm_status status = find_array(v, KEY("merges"), STRINGS, 0, &merges);
    if (status != PM_OK) return status;
    if (!merges) return missing(v, KEY("merges"));
    if (merges->n_items > INT32_MAX / 4)
        return error_set(PM_ERROR_FILE, "%s: " KEY("merges") " has %" PRIu64 " items (at most %d)",
                         gguf_path(v->g), merges->n_items, INT32_MAX / 4);
    uint32_t n_slots = table_slots(merges->n_items);
    v->merges = malloc(n_slots * sizeof *v->merges);
    if (!v->merges) return error_memory("the table of merges", n_slots * sizeof *v->merges);
    for (uint32_t i = 0; i < n_slots; i++) v->merges[i].left = TEXT_NO_TOKEN;
    v->merge_mask = n_slots - 1;
    uint64_t n_bad = 0, first_bad = 0;
    buf joined = {0};
    for (uint64_t i = 0; i < merges->n_items; i++) {
        merge_slot merge = {.rank = (uint32_t)i};
        if (parse_merge(v, gguf_item_string(v->g, merges, i), &joined, &merge))
            vocab_insert_merge(v, &merge);
        else if (n_bad++ == 0)
            first_bad = i;
    }
    bool failed = joined.failed;
    buf_free(&joined);
    if (failed) return error_memory("reading merges", v->max_token);
    if (n_bad == 0) return PM_OK;
    return vocab_warn(v,
                      KEY("merges") ": %" PRIu64 " of %" PRIu64 " (first: %" PRIu64
                                    ") are not made "
                                    "of tokens and are ignored",
                      n_bad, merges->n_items, first_bad);
}

// ---- what tokens stand for --------------------------------------------------------------------

// Bytes of a token in the byte alphabet; a token with any other character stands for its text.
static size_t decode_alphabet(gguf_string t, char *out)
{
    size_t n = 0;
    for (size_t i = 0, len; i < t.len; i += len) {
        int byte = alphabet_byte(text_utf8_next(t.data + i, t.len - i, &len));
        if (byte < 0) {
            memcpy(out, t.data, t.len);
            return t.len;
        }
        out[n++] = (char)byte;
    }
    return n;
}

static size_t decode_marks(gguf_string t, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < t.len;) {
        if (t.len - i >= 3 && memcmp(t.data + i, "\xe2\x96\x81", 3) == 0) {
            out[n++] = ' ';
            i += 3;
        } else {
            out[n++] = t.data[i++];
        }
    }
    return n;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static size_t decode_byte(gguf_string t, char *out)
{
    if (t.len != 6 || memcmp(t.data, "<0x", 3) != 0 || t.data[5] != '>') return 0;
    int high = hex_digit(t.data[3]), low = hex_digit(t.data[4]);
    if (high < 0 || low < 0) return 0;
    out[0] = (char)(high * 16 + low);
    return 1;
}

// The bytes of token i at `out`; returns how many.
static size_t decode_token(const text_vocab *v, int32_t i, char *out)
{
    gguf_string t = v->tokens[i];
    switch (v->types[i]) {
    case TEXT_UNUSED: return 0;
    case TEXT_BYTE: return decode_byte(t, out);
    case TEXT_NORMAL:
        if (v->spm || v->pre->space_mark) return decode_marks(t, out);
        if (!v->pre->raw) return decode_alphabet(t, out);
        break;
    default: break;
    }
    if (t.len) memcpy(out, t.data, t.len);
    return t.len;
}

static pm_status decode_tokens(text_vocab *v)
{
    uint64_t total = 0;
    for (int32_t i = 0; i < v->n_vocab; i++) total += v->tokens[i].len;
    v->piece_at = calloc((size_t)v->n_vocab + 1, sizeof *v->piece_at);
    v->pieces = malloc(total + 1);
    if (!v->piece_at || !v->pieces) return error_memory("decoded tokens", total);
    size_t at = 0;
    for (int32_t i = 0; i < v->n_vocab; i++) {
        v->piece_at[i] = at;
        at += decode_token(v, i, v->pieces + at);
    }
    v->piece_at[v->n_vocab] = at;
    return PM_OK;
}

// ---- the whole --------------------------------------------------------------------------------

static pm_status choose_model(text_vocab *v)
{
    gguf_string model = {NULL, 0};
    pm_status status = gguf_get_string(v->g, KEY("model"), &model);
    if (status != PM_OK) return status;
    if (!model.data) return missing(v, KEY("model"));
    v->spm = model.len == 5 && memcmp(model.data, "llama", 5) == 0;
    if (v->spm || (model.len == 4 && memcmp(model.data, "gpt2", 4) == 0)) return PM_OK;
    return error_set(PM_ERROR_FILE,
                     "%s: " KEY("model") " '%.*s' is not supported (supported: gpt2, "
                                         "llama)",
                     gguf_path(v->g), (int)(model.len < 64 ? model.len : 64), model.data);
}

static pm_status unknown_pre(const text_vocab *v, pm_status code, const char *where,
                             const char *name, size_t n)
{
    buf names = {0};
    for (size_t i = 0; pretokenizer_name(i); i++) buf_printf(&names, " %s", pretokenizer_name(i));
    pm_status status =
        error_set(code, "%s: %s '%.*s' is not supported (supported:%s)", gguf_path(v->g), where,
                  (int)(n < 64 ? n : 64), name, names.data ? names.data : "");
    buf_free(&names);
    return status;
}

static pm_status choose_pre(text_vocab *v, const char *assume_pre)
{
    gguf_string name = {NULL, 0};
    pm_status status = gguf_get_string(v->g, KEY("pre"), &name);
    if (status != PM_OK) return status;
    if (name.data) v->pre = pretokenizer_find(name.data, name.len);
    if (v->pre) return PM_OK;
    if (name.data && !assume_pre)
        return unknown_pre(v, PM_ERROR_FILE, "the pre-tokenizer (" KEY("pre") ")", name.data,
                           name.len);
    const char *use = assume_pre ? assume_pre : "default";
    v->pre = pretokenizer_find(use, strlen(use));
    if (!v->pre)
        return unknown_pre(v, PM_ERROR_USAGE, "the pre-tokenizer to assume", use, strlen(use));
    if (!name.data)
        return vocab_warn(v, KEY("pre") " is missing: '%s' is used, token ids may be wrong", use);
    return vocab_warn(v, KEY("pre") " '%.*s' is not known: '%s' is used, token ids may be wrong",
                      (int)(name.len < 64 ? name.len : 64), name.data, use);
}

pm_status text_vocab_load(const gguf *g, const char *assume_pre, text_vocab **out)
{
    *out = NULL;
    text_vocab *v = calloc(1, sizeof *v);
    if (!v) return error_memory("the vocabulary", sizeof *v);
    v->g = g;
    pm_status status = choose_model(v);
    if (status == PM_OK && !v->spm) status = choose_pre(v, assume_pre);
    if (status == PM_OK) status = vocab_load_tokens(v);
    if (status == PM_OK && !v->spm) status = vocab_load_merges(v);
    if (status == PM_OK) status = vocab_load_specials(v);
    if (status == PM_OK) status = decode_tokens(v);
    if (status != PM_OK) {
        text_vocab_free(v);
        return status;
    }
    *out = v;
    return PM_OK;
}

void text_vocab_free(text_vocab *v)
{
    if (!v) return;
    free(v->tokens);
    free(v->types);
    free(v->priority);
    free(v->slots);
    free(v->merges);
    free(v->specials);
    free(v->marked);
    free(v->pieces);
    free(v->piece_at);
    free(v->ends);
    for (size_t i = 0; i < v->n_warnings; i++) free(v->warnings[i]);
    free(v->warnings);
    free(v);
}
