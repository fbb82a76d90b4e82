#include "text/train.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/rng.h"
#include "text/vocab.h"

enum { N_BYTES = 256 };

// A list of words' indices.
typedef struct places {
    uint32_t *words;
    uint32_t n, cap;
} places;

// A piece of the text: its symbols, and how often it stands there.
typedef struct word {
    const char *text;
    uint32_t n_text;
    int32_t *symbols;
    uint32_t n;
    int64_t count;
} word;

// Two neighbouring tokens, with their number in all words.
typedef struct pair {
    int32_t left, right; // left TEXT_NO_TOKEN: a free place
    int64_t count;
    places fresh; // words where it came to be since it was last queued
} pair;

// A pair waiting for its turn. Its count may be out of date: then it is queued again.
typedef struct candidate {
    int64_t count;
    int32_t left, right;
    places at;
} candidate;

typedef struct trainer {
    const bpe_params *params;
    bpe_vocab *v;
    word *words;
    uint32_t n_words;
    uint32_t *word_slots; // index + 1; 0: free
    uint32_t word_mask;
    pair *pairs; // open addressing
    uint32_t n_pairs, pair_mask;
    candidate *heap;
    size_t n_heap, cap_heap;
    int32_t *token_slots; // id + 1 by text; 0: free
    uint32_t token_mask;
    bpe_pair *touched; // pairs that came to be in this merge
    size_t n_touched, cap_touched;
} trainer;

// ---- small containers -------------------------------------------------------------------------

static bool grow(void **list, size_t n, size_t *cap, size_t each)
{
    if (n < *cap) return true;
    size_t more = *cap ? 2 * *cap : 64;
    void *larger = realloc(*list, more * each);
    if (!larger) return false;
    *list = larger;
    *cap = more;
    return true;
}

static bool places_add(places *p, uint32_t w)
{
    if (p->n && p->words[p->n - 1] == w) return true;
    if (p->n == p->cap) {
        uint32_t cap = p->cap ? 2 * p->cap : 2;
        uint32_t *more = realloc(p->words, cap * sizeof *more);
        if (!more) return false;
        p->words = more;
        p->cap = cap;
    }
    p->words[p->n++] = w;
    return true;
}

static uint32_t hash_text(const char *text, size_t n)
{
    return (uint32_t)hash_bytes(0, text, n);
}

// ---- pairs ------------------------------------------------------------------------------------

static pair *pair_place(pair *pairs, uint32_t mask, int32_t left, int32_t right)
{
    uint64_t both = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint32_t at = (uint32_t)rng_mix(both) & mask;
    while (pairs[at].left != TEXT_NO_TOKEN && (pairs[at].left != left || pairs[at].right != right))
        at = (at + 1) & mask;
    return &pairs[at];
}

static pair *new_pairs(uint32_t n)
{
    pair *pairs = calloc(n, sizeof *pairs);
    for (uint32_t i = 0; pairs && i < n; i++) pairs[i].left = TEXT_NO_TOKEN;
    return pairs;
}

// The pair's record, a new one where there is none; NULL: no memory.
static pair *find_pair(trainer *t, int32_t left, int32_t right)
{
    if (!t->pairs || t->n_pairs >= (t->pair_mask + 1) / 4 * 3) {
        uint32_t n = t->pairs ? 2 * (t->pair_mask + 1) : 1 << 12;
        pair *pairs = new_pairs(n);
        if (!pairs) return NULL;
        for (uint32_t i = 0; t->pairs && i <= t->pair_mask; i++) {
            const pair *p = &t->pairs[i];
            if (p->left != TEXT_NO_TOKEN) *pair_place(pairs, n - 1, p->left, p->right) = *p;
        }
        free(t->pairs);
        t->pairs = pairs;
        t->pair_mask = n - 1;
    }
    pair *p = pair_place(t->pairs, t->pair_mask, left, right);
    if (p->left == TEXT_NO_TOKEN) {
        *p = (pair){.left = left, .right = right};
        t->n_pairs++;
    }
    return p;
}

// The pair's number in word `w` changes.
static bool count_pair(trainer *t, int32_t left, int32_t right, uint32_t w, int change)
{
    pair *p = find_pair(t, left, right);
    if (!p) return false;
    p->count += change * t->words[w].count;
    if (change < 0) return true;
    if (p->fresh.n == 0) {
        if (!grow((void **)&t->touched, t->n_touched, &t->cap_touched, sizeof *t->touched))
            return false;
        t->touched[t->n_touched++] = (bpe_pair){left, right};
    }
    return places_add(&p->fresh, w);
}

// ---- the queue: a heap with the most frequent pair on top --------------------------------------

static bool before(const candidate *a, const candidate *b)
{
    if (a->count != b->count) return a->count > b->count;
    if (a->left != b->left) return a->left < b->left;
    return a->right < b->right;
}

static bool heap_push(trainer *t, candidate c)
{
    if (!grow((void **)&t->heap, t->n_heap, &t->cap_heap, sizeof *t->heap)) return false;
    size_t at = t->n_heap++;
    for (; at > 0 && before(&c, &t->heap[(at - 1) / 2]); at = (at - 1) / 2)
        t->heap[at] = t->heap[(at - 1) / 2];
    t->heap[at] = c;
    return true;
}

static candidate heap_pop(trainer *t)
{
    candidate top = t->heap[0], last = t->heap[--t->n_heap];
    size_t at = 0;
    for (size_t child = 1; child < t->n_heap; child = 2 * at + 1) {
        if (child + 1 < t->n_heap && before(&t->heap[child + 1], &t->heap[child])) child++;
        if (!before(&t->heap[child], &last)) break;
        t->heap[at] = t->heap[child];
        at = child;
    }
    if (t->n_heap) t->heap[at] = last;
    return top;
}

// Pairs that came to be get into the queue with the words where they did.
static bool queue_touched(trainer *t)
{
    for (size_t i = 0; i < t->n_touched; i++) {
        pair *p = pair_place(t->pairs, t->pair_mask, t->touched[i].left, t->touched[i].right);
        places at = p->fresh;
        p->fresh = (places){0};
        candidate c = {p->count, p->left, p->right, at};
        if (p->count > 0 && heap_push(t, c)) continue;
        free(at.words);
        if (p->count > 0) return false;
    }
    t->n_touched = 0;
    return true;
}

// ---- tokens -----------------------------------------------------------------------------------

static int32_t *token_place(trainer *t, const char *text)
{
    uint32_t at = hash_text(text, strlen(text)) & t->token_mask;
    while (t->token_slots[at] && strcmp(t->v->tokens[t->token_slots[at] - 1], text) != 0)
        at = (at + 1) & t->token_mask;
    return &t->token_slots[at];
}

// Takes the text. There are no more tokens than n_vocab.
static int32_t add_token(trainer *t, char *text)
{
    int32_t id = (int32_t)t->v->n_tokens;
    assert(t->v->n_tokens < t->v->cap_tokens);
    t->v->tokens[t->v->n_tokens++] = text;
    *token_place(t, text) = id + 1;
    return id;
}

static char *joined_text(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    char *text = malloc(n + m + 1);
    if (!text) return NULL;
    memcpy(text, a, n);
    memcpy(text + n, b, m + 1);
    return text;
}

// The token that a pair becomes: another pair may have made the same text already.
static int32_t join(trainer *t, int32_t left, int32_t right)
{
    char *text = joined_text(t->v->tokens[left], t->v->tokens[right]);
    if (!text) return TEXT_NO_TOKEN;
    int32_t known = *token_place(t, text);
    if (!known) return add_token(t, text);
    free(text);
    return known - 1;
}

static int by_code_point(const void *a, const void *b)
{
    uint32_t x = alphabet_char(*(const unsigned char *)a);
    uint32_t y = alphabet_char(*(const unsigned char *)b);
    return (x > y) - (x < y);
}

static pm_status first_tokens(trainer *t, int32_t byte_ids[N_BYTES])
{
    const bpe_params *p = t->params;
    for (size_t i = 0; i < p->n_specials; i++) {
        if (!*p->specials[i] || *token_place(t, p->specials[i]))
            return error_set(PM_ERROR_USAGE, "special token '%s': empty, or given twice",
                             p->specials[i]);
        char *text = joined_text(p->specials[i], "");
        if (!text) return error_memory("a token", 0);
        add_token(t, text);
    }
    unsigned char bytes[N_BYTES];
    for (int i = 0; i < N_BYTES; i++) bytes[i] = (unsigned char)i;
    qsort(bytes, N_BYTES, 1, by_code_point);
    for (int i = 0; i < N_BYTES; i++) {
        char text[5] = "";
        text[text_utf8_put(alphabet_char(bytes[i]), text)] = 0;
        if (*token_place(t, text))
            return error_set(PM_ERROR_USAGE, "special token '%s': is a letter of the alphabet",
                             text);
        char *copy = joined_text(text, "");
        if (!copy) return error_memory("a token", 0);
        byte_ids[bytes[i]] = add_token(t, copy);
    }
    return PM_OK;
}

// ---- words ------------------------------------------------------------------------------------

static bool count_word(trainer *t, const char *text, uint32_t n)
{
    uint32_t at = hash_text(text, n) & t->word_mask;
    for (; t->word_slots[at]; at = (at + 1) & t->word_mask) {
        word *w = &t->words[t->word_slots[at] - 1];
        if (w->n_text != n || memcmp(w->text, text, n) != 0) continue;
        w->count++;
        return true;
    }
    t->words[t->n_words] = (word){.text = text, .n_text = n, .count = 1};
    t->word_slots[at] = ++t->n_words;
    return true;
}

static pm_status collect_words(trainer *t, const char *text, size_t n)
{
    const pretokenizer *pre = pretokenizer_find("gpt-2", 5);
    pieces found = {0};
    pm_status status = pretokenize(pre, text, n, &found);
    uint32_t slots = 16;
    while (slots / 2 < found.n) slots *= 2;
    if (status == PM_OK) {
        t->words = calloc(found.n + 1, sizeof *t->words);
        t->word_slots = calloc(slots, sizeof *t->word_slots);
        t->word_mask = slots - 1;
        if (!t->words || !t->word_slots) status = error_memory("words", found.n * sizeof(word));
    }
    uint32_t from = 0;
    for (size_t i = 0; i < found.n && status == PM_OK; i++) {
        if (found.ends[i] > from) count_word(t, text + from, found.ends[i] - from);
        from = found.ends[i];
    }
    pieces_free(&found);
    return status;
}

static pm_status split_words(trainer *t, const int32_t byte_ids[N_BYTES])
{
    for (uint32_t w = 0; w < t->n_words; w++) {
        word *x = &t->words[w];
        x->symbols = malloc((x->n_text + 1) * sizeof *x->symbols); // never of 0 bytes
        if (!x->symbols) return error_memory("a word", x->n_text * sizeof *x->symbols);
        x->n = x->n_text;
        for (uint32_t i = 0; i < x->n; i++) x->symbols[i] = byte_ids[(unsigned char)x->text[i]];
        for (uint32_t i = 0; i + 1 < x->n; i++)
            if (!count_pair(t, x->symbols[i], x->symbols[i + 1], w, 1))
                return error_memory("pairs", t->n_pairs);
    }
    return queue_touched(t) ? PM_OK : error_memory("pairs", t->n_pairs);
}

// Every occurrence of the pair becomes `joined`; the neighbours' pairs are counted anew.
static bool merge_word(trainer *t, uint32_t w, int32_t left, int32_t right, int32_t joined)
{
    word *x = &t->words[w];
    bool good = true;
    for (uint32_t i = 0; i + 1 < x->n && good; i++) {
        if (x->symbols[i] != left || x->symbols[i + 1] != right) continue;
        if (i > 0)
            good = count_pair(t, x->symbols[i - 1], left, w, -1) &&
                   count_pair(t, x->symbols[i - 1], joined, w, 1);
        x->symbols[i] = joined;
        memmove(x->symbols + i + 1, x->symbols + i + 2, (x->n - i - 2) * sizeof *x->symbols);
        x->n--;
        if (i + 1 < x->n && good)
            good = count_pair(t, right, x->symbols[i + 1], w, -1) &&
                   count_pair(t, joined, x->symbols[i + 1], w, 1);
    }
    return good;
}

static bool add_merge(bpe_vocab *v, int32_t left, int32_t right)
{
    size_t cap = v->cap_merges;
    if (!grow((void **)&v->merges, v->n_merges, &cap, sizeof *v->merges)) return false;
    v->cap_merges = (uint32_t)cap;
    v->merges[v->n_merges++] = (bpe_pair){left, right};
    return true;
}

static pm_status merge_all(trainer *t)
{
    uint64_t least = t->params->min_count > 1 ? t->params->min_count : 1;
    bool good = true;
    while (good && t->n_heap && t->v->n_tokens < t->params->n_vocab) {
        candidate top = heap_pop(t);
        int64_t now = pair_place(t->pairs, t->pair_mask, top.left, top.right)->count;
        if (top.count != now) {
            top.count = now;
            good = heap_push(t, top);
            if (!good) free(top.at.words);
            continue;
        }
        int32_t joined = TEXT_NO_TOKEN;
        bool enough = top.count > 0 && (uint64_t)top.count >= least;
        if (enough) {
            joined = join(t, top.left, top.right);
            good = joined != TEXT_NO_TOKEN && add_merge(t->v, top.left, top.right);
        }
        for (uint32_t i = 0; i < top.at.n && good && enough; i++)
            good = merge_word(t, top.at.words[i], top.left, top.right, joined);
        free(top.at.words);
        if (!enough) break;
        if (good) good = queue_touched(t);
    }
    return good ? PM_OK : error_memory("byte-pair training", t->n_pairs * sizeof(pair));
}

// ---- all --------------------------------------------------------------------------------------

static pm_status prepare(trainer *t)
{
    const bpe_params *p = t->params;
    if (p->n_vocab < p->n_specials + N_BYTES || p->n_vocab > INT32_MAX / 4)
        return error_set(PM_ERROR_USAGE,
                         "a vocabulary of %" PRIu32 " tokens: at least %zu are needed (256 bytes "
                         "and the special ones), at most %d",
                         p->n_vocab, p->n_specials + N_BYTES, INT32_MAX / 4);
    uint32_t slots = 1024;
    while (slots / 2 < p->n_vocab) slots *= 2;
    t->token_mask = slots - 1;
    t->token_slots = calloc(slots, sizeof *t->token_slots);
    t->v->tokens = calloc(p->n_vocab, sizeof *t->v->tokens);
    t->v->cap_tokens = p->n_vocab;
    if (!t->token_slots || !t->v->tokens) return error_memory("a vocabulary", p->n_vocab);
    return PM_OK;
}

static void release(trainer *t)
{
    for (uint32_t i = 0; i < t->n_words; i++) free(t->words[i].symbols);
    for (uint32_t i = 0; t->pairs && i <= t->pair_mask; i++) free(t->pairs[i].fresh.words);
    for (size_t i = 0; i < t->n_heap; i++) free(t->heap[i].at.words);
    free(t->words);
    free(t->word_slots);
    free(t->pairs);
    free(t->heap);
    free(t->token_slots);
    free(t->touched);
}

pm_status bpe_train(const char *text, size_t n, const bpe_params *params, bpe_vocab *out)
{
    *out = (bpe_vocab){0};
    trainer t = {.params = params, .v = out};
    clean_buffer work = {0};
    const char *clean = text;
    int32_t byte_ids[N_BYTES];
    pm_status status = prepare(&t);
    if (status == PM_OK && n > INT32_MAX / 3)
        status = error_set(PM_ERROR_USAGE, "a text of %zu bytes is too large (at most %d)", n,
                           INT32_MAX / 3);
    if (status == PM_OK) status = first_tokens(&t, byte_ids);
    if (status == PM_OK) status = text_clean(text, n, false, &work, &clean, &n);
    if (status == PM_OK) status = collect_words(&t, clean, n);
    if (status == PM_OK) status = split_words(&t, byte_ids);
    if (status == PM_OK) status = merge_all(&t);
    out->n_pieces = t.n_words;
    release(&t);
    clean_buffer_free(&work);
    if (status != PM_OK) bpe_vocab_free(out);
    return status;
}

void bpe_vocab_free(bpe_vocab *v)
{
    for (uint32_t i = 0; i < v->n_tokens; i++) free(v->tokens[i]);
    free(v->tokens);
    free(v->merges);
    *v = (bpe_vocab){0};
}

// ---- the file ---------------------------------------------------------------------------------

static void put_tokens(gguf_writer *w, const bpe_vocab *v, size_t n_specials, gguf_string *texts,
                       int32_t *types)
{
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        texts[i] = (gguf_string){v->tokens[i], strlen(v->tokens[i])};
        types[i] = i < n_specials ? TEXT_CONTROL : TEXT_NORMAL;
    }
    gguf_put_strings(w, "tokenizer.ggml.tokens", texts, v->n_tokens);
    gguf_put_i32s(w, "tokenizer.ggml.token_type", types, v->n_tokens);
}

static pm_status put_merges(gguf_writer *w, const bpe_vocab *v)
{
    gguf_string *texts = calloc(v->n_merges + (size_t)1, sizeof *texts);
    buf all = {0};
    for (uint32_t i = 0; i < v->n_merges; i++) {
        buf_str(&all, v->tokens[v->merges[i].left]);
        buf_char(&all, ' ');
        buf_str(&all, v->tokens[v->merges[i].right]);
    }
    pm_status status = texts && !all.failed ? PM_OK : error_memory("merges", v->n_merges);
    size_t at = 0;
    for (uint32_t i = 0; i < v->n_merges && status == PM_OK; i++) {
        size_t n = strlen(v->tokens[v->merges[i].left]) + 1 + strlen(v->tokens[v->merges[i].right]);
        texts[i] = (gguf_string){all.data + at, n};
        at += n;
    }
    if (status == PM_OK) gguf_put_strings(w, "tokenizer.ggml.merges", texts, v->n_merges);
    free(texts);
    buf_free(&all);
    return status;
}

pm_status bpe_vocab_write(const bpe_vocab *v, const bpe_params *params, const char *path)
{
    gguf_writer *w = NULL;
    gguf_string *texts = calloc(v->n_tokens, sizeof *texts);
    int32_t *types = calloc(v->n_tokens, sizeof *types);
    pm_status status =
        texts && types ? gguf_writer_open(path, &w) : error_memory("a vocabulary", v->n_tokens);
    if (status == PM_OK) {
        static const char name[] = "byte-pair vocabulary";
        gguf_put_string(w, "general.architecture", "gpt2", 4);
        gguf_put_string(w, "general.name", name, sizeof name - 1);
        gguf_put_string(w, "tokenizer.ggml.model", "gpt2", 4);
        gguf_put_string(w, "tokenizer.ggml.pre", "gpt-2", 5);
        put_tokens(w, v, params->n_specials, texts, types);
        status = put_merges(w, v);
        if (params->n_specials) gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 0);
        gguf_put_bool(w, "tokenizer.ggml.add_bos_token", false);
    }
    if (status == PM_OK) status = gguf_begin_data(w);
    if (status == PM_OK)
        status = gguf_writer_commit(w);
    else
        gguf_writer_abort(w);
    free(texts);
    free(types);
    return status;
}
