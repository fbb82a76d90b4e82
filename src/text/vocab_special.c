// Loading, second part: the ids that have a role, end-of-generation tokens, and the texts that are
// recognised in a prompt before anything else.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text/vocab.h"

#define KEY(name) "tokenizer.ggml." name

// ---- ids --------------------------------------------------------------------------------------

// An id outside the vocabulary is no id; some files say "none" that way.
static pm_status load_id(text_vocab *v, const char *key, int32_t *id)
{
    if (!gguf_find(v->g, key)) return PM_OK;
    int64_t value = 0;
    pm_status status = gguf_get_i64(v->g, key, &value);
    if (status != PM_OK) return status;
    if (value >= 0 && value < v->n_vocab) {
        *id = (int32_t)value;
        return PM_OK;
    }
    *id = TEXT_NO_TOKEN;
    return vocab_warn(v, "%s is %" PRId64 ", but the vocabulary ends at %" PRId32 ": it is ignored",
                      key, value, v->n_vocab - 1);
}

static pm_status load_ids(text_vocab *v)
{
    text_specials *s = &v->special_ids;
    *s = (text_specials){TEXT_NO_TOKEN, TEXT_NO_TOKEN, TEXT_NO_TOKEN, TEXT_NO_TOKEN, TEXT_NO_TOKEN,
                         TEXT_NO_TOKEN, TEXT_NO_TOKEN, false,         false};
    if (v->spm && v->n_vocab > 2) { // SentencePiece's own numbers
        s->unk = 0;
        s->bos = 1;
        s->eos = 2;
    }
    s->add_bos = v->spm || v->pre->add_bos;
    v->add_space_prefix = v->spm;
    const struct {
        const char *key;
        int32_t *id;
    } ids[] = {
        {KEY("bos_token_id"), &s->bos},       {KEY("eos_token_id"), &s->eos},
        {KEY("eot_token_id"), &s->eot},       {KEY("eom_token_id"), &s->eom},
        {KEY("unknown_token_id"), &s->unk},   {KEY("padding_token_id"), &s->pad},
        {KEY("seperator_token_id"), &s->sep}, // spelled so
    };
    pm_status status = PM_OK;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0] && status == PM_OK; i++)
        status = load_id(v, ids[i].key, ids[i].id);
    if (status == PM_OK) status = gguf_get_bool(v->g, KEY("add_bos_token"), &s->add_bos);
    if (status == PM_OK) status = gguf_get_bool(v->g, KEY("add_eos_token"), &s->add_eos);
    bool prefix = v->add_space_prefix;
    if (status == PM_OK) status = gguf_get_bool(v->g, KEY("add_space_prefix"), &prefix);
    v->add_space_prefix = prefix && v->spm;
    if (status == PM_OK && s->add_bos && s->bos == TEXT_NO_TOKEN) {
        s->add_bos = false;
        status = vocab_warn(v, "a begin-of-text token is to be added, but the file names none");
    }
    if (status == PM_OK && s->add_eos && s->eos == TEXT_NO_TOKEN) {
        s->add_eos = false;
        status = vocab_warn(v, "an end-of-text token is to be added, but the file names none");
    }
    return status;
}

// ---- ends of generation -----------------------------------------------------------------------

static int ascending_ids(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void add_end(text_vocab *v, int32_t id)
{
    if (id != TEXT_NO_TOKEN && !text_is_end(v, id)) v->ends[v->n_ends++] = id;
}

// The keys and the names that models use, and the fill-in-the-middle tokens after which nothing
// sensible follows (padding, repository, file separator).
static pm_status load_ends(text_vocab *v)
{
    static const char *const names[] = {
        "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>",
        "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
        "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
        "<|flush|>", "<|calls|>", "<\uff5cend\u2581of\u2581sentence\uff5c>",
        // fill-in-the-middle
        "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]", "<|fim_repo|>", "<|repo_name|>",
        "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>"};
    static const char *const keys[] = {KEY("fim_pad_token_id"), KEY("fim_rep_token_id"),
                                       KEY("fim_sep_token_id")};
    enum { N_NAMES = sizeof names / sizeof names[0], N_KEYS = sizeof keys / sizeof keys[0] };
    v->ends = calloc(N_NAMES + N_KEYS + 3, sizeof *v->ends);
    if (!v->ends) return error_memory("end tokens", sizeof names);
    add_end(v, v->special_ids.eos);
    add_end(v, v->special_ids.eot);
    add_end(v, v->special_ids.eom);
    for (int i = 0; i < N_NAMES; i++) add_end(v, text_find(v, names[i], strlen(names[i])));
    for (int i = 0; i < N_KEYS; i++) {
        int32_t id = TEXT_NO_TOKEN;
        pm_status status = load_id(v, keys[i], &id);
        if (status != PM_OK) return status;
        add_end(v, id);
    }
    // Where <|return|> and <|call|> end an answer, <|end|> only ends one of its messages.
    int32_t end = text_find(v, "<|end|>", 7);
    if (text_find(v, "<|return|>", 10) != TEXT_NO_TOKEN &&
        text_find(v, "<|call|>", 8) != TEXT_NO_TOKEN && end != TEXT_NO_TOKEN &&
        end != v->special_ids.eos && end != v->special_ids.eot && end != v->special_ids.eom)
        for (size_t i = 0; i < v->n_ends; i++)
            if (v->ends[i] == end) v->ends[i] = v->ends[--v->n_ends];
    qsort(v->ends, v->n_ends, sizeof *v->ends, ascending_ids);
    return PM_OK;
}

// ---- special texts ----------------------------------------------------------------------------

static int longest_first(const void *a, const void *b)
{
    const special_text *x = a, *y = b;
    if (x->n != y->n) return x->n < y->n ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static int by_text(const void *a, const void *b)
{
    const special_text *x = a, *y = b;
    int c = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    if (c != 0) return c;
    return (x->n > y->n) - (x->n < y->n);
}

// Phi-3's tokenizer drops white space behind its special tokens; no key says so but the name.
static pm_status is_phi3(const text_vocab *v, bool *yes)
{
    gguf_string name = {"", 0};
    pm_status status = gguf_get_string(v->g, "general.name", &name);
    char lower[128];
    size_t n = name.len < sizeof lower ? name.len : sizeof lower - 1;
    for (size_t i = 0; i < n; i++) {
        char c = name.data[i];
        lower[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
        if (c == 0) lower[i] = ' ';
    }
    lower[n] = 0;
    *yes = strstr(lower, "phi-3") || strstr(lower, "phi3");
    return status;
}

static bool same_text(gguf_string t, const char *text)
{
    return t.len == strlen(text) && memcmp(t.data, text, t.len) == 0;
}

static bool is_special(const text_vocab *v, int32_t id)
{
    uint8_t type = v->types[id];
    return v->tokens[id].len > 0 && // and not a repetition of an earlier token's text
           (type == TEXT_CONTROL || type == TEXT_UNKNOWN || type == TEXT_USER_DEFINED) &&
           text_find(v, v->tokens[id].data, v->tokens[id].len) == id;
}

// SentencePiece matches user-defined tokens after spaces have become U+2581, files hold them with
// spaces. So their marked form is one of their texts too.
static size_t mark_spaces(gguf_string t, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < t.len; i++) {
        if (t.data[i] == ' ') {
            memcpy(out + n, "\xe2\x96\x81", 3);
            n += 3;
        } else {
            out[n++] = t.data[i];
        }
    }
    return n;
}

static pm_status collect_specials(text_vocab *v)
{
    size_t n = 0, n_marked = 0;
    for (int32_t i = 0; i < v->n_vocab; i++) {
        if (!is_special(v, i)) continue;
        n++;
        if (v->spm && v->types[i] == TEXT_USER_DEFINED) n_marked += v->tokens[i].len * 3;
    }
    v->specials = calloc(2 * n + 1, sizeof *v->specials);
    v->marked = malloc(n_marked + 1);
    if (!v->specials || !v->marked) return error_memory("special tokens", n * sizeof *v->specials);
    bool phi3;
    pm_status status = is_phi3(v, &phi3);
    if (status != PM_OK) return status;
    char *at = v->marked;
    for (int32_t i = 0; i < v->n_vocab; i++) {
        if (!is_special(v, i)) continue;
        gguf_string t = v->tokens[i];
        special_text *s = &v->specials[v->n_specials++];
        *s = (special_text){.text = t.data, .n = (uint32_t)t.len, .id = i};
        s->everywhere = v->types[i] == TEXT_USER_DEFINED;
        s->eats_white = phi3 && !same_text(t, "<unk>") && !same_text(t, "<s>") &&
                        !same_text(t, "<|endoftext|>");
        if (!v->spm || !s->everywhere || !memchr(t.data, ' ', t.len)) continue;
        size_t length = mark_spaces(t, at);
        if (text_find(v, at, length) == TEXT_NO_TOKEN) {
            v->specials[v->n_specials] = *s;
            v->specials[v->n_specials].text = at;
            v->specials[v->n_specials++].n = (uint32_t)length;
        }
        at += length;
    }
    return PM_OK;
}

pm_status vocab_load_specials(text_vocab *v)
{
    pm_status status = load_ids(v);
    if (status == PM_OK) status = load_ends(v);
    if (status == PM_OK) status = collect_specials(v);
    if (status != PM_OK) return status;
    qsort(v->specials, v->n_specials, sizeof *v->specials, longest_first);
    for (size_t i = 0; i < v->n_specials; i++) v->specials[i].order = (uint32_t)i;
    qsort(v->specials, v->n_specials, sizeof *v->specials, by_text);
    size_t at = 0;
    for (unsigned b = 0; b <= 256; b++) {
        while (at < v->n_specials && (unsigned char)v->specials[at].text[0] < b) at++;
        v->special_first[b] = (uint32_t)at;
    }
    return PM_OK;
}
