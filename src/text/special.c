// Finding special tokens in a text: longest first over the whole text, then those with the lower
// id, then those farther left. (Not leftmost-longest: the two differ where special tokens overlap.)
#include <stdlib.h>
#include <string.h>

#include "text/heap.h"
#include "text/vocab.h"

typedef struct finder {
    const text_vocab *v;
    const char *text;
    const stretch *stretches;
    size_t n_stretches;
    uint32_t n;           // bytes of the text
    unsigned char *taken; // [n], NULL before the first candidate
    key_heap heap;        // order << 32 | position: the best still possible match at each position
    uint32_t *places;     // by order: where in v->specials
    special_hit *hits;
    size_t n_hits, cap_hits;
} finder;

// The longest special text at `at` that ends before `end` and takes no byte that is taken; -1:
// none.
static int64_t longest_at(const finder *f, uint32_t at, const stretch *within)
{
    const special_text *s = f->v->specials;
    unsigned char c = (unsigned char)f->text[at];
    uint32_t low = f->v->special_first[c], high = f->v->special_first[c + 1];
    int64_t best = -1;
    for (uint32_t n = 1; low < high; n++) {
        // All of [low, high) begin with these n bytes, the shortest comes first.
        if (f->taken && f->taken[at + n - 1]) break;
        if (s[low].n == n) {
            if (s[low].everywhere || within->literal) best = low;
            low++;
        }
        if (at + n >= within->end) break;
        c = (unsigned char)f->text[at + n];
        uint32_t from = low, to = high;
        while (from < to) { // the first whose next byte is not below c
            uint32_t middle = from + (to - from) / 2;
            if ((unsigned char)s[middle].text[n] < c)
                from = middle + 1;
            else
                to = middle;
        }
        low = from;
        to = high;
        while (from < to) { // the first whose next byte is above c
            uint32_t middle = from + (to - from) / 2;
            if ((unsigned char)s[middle].text[n] <= c)
                from = middle + 1;
            else
                to = middle;
        }
        high = from;
    }
    return best;
}

static bool push(finder *f, int64_t which, uint32_t at)
{
    return which < 0 || heap_push(&f->heap, (uint64_t)f->v->specials[which].order << 32 | at);
}

static bool collect(finder *f)
{
    uint32_t at = 0;
    for (size_t k = 0; k < f->n_stretches; k++)
        for (; at < f->stretches[k].end; at++)
            if (!push(f, longest_at(f, at, &f->stretches[k]), at)) return false;
    return true;
}

static const stretch *stretch_of(const finder *f, uint32_t at)
{
    size_t low = 0, high = f->n_stretches - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (f->stretches[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return &f->stretches[low];
}

static bool accept(finder *f, const special_text *s, uint32_t at)
{
    if (f->n_hits == f->cap_hits) {
        size_t cap = f->cap_hits ? 2 * f->cap_hits : 32;
        special_hit *hits = realloc(f->hits, cap * sizeof *hits);
        if (!hits) return false;
        f->hits = hits;
        f->cap_hits = cap;
    }
    uint32_t end = at + s->n;
    if (s->eats_white)
        while (end < f->n && !f->taken[end] &&
               (f->text[end] == ' ' || (f->text[end] >= '\t' && f->text[end] <= '\r')))
            end++;
    memset(f->taken + at, 1, end - at);
    f->hits[f->n_hits++] = (special_hit){at, end - at, s->id};
    return true;
}

static bool choose(finder *f)
{
    f->taken = calloc(f->n, 1);
    f->places = calloc(f->v->n_specials, sizeof *f->places);
    if (!f->taken || !f->places) return false;
    for (size_t i = 0; i < f->v->n_specials; i++) f->places[f->v->specials[i].order] = (uint32_t)i;
    while (f->heap.n > 0) {
        uint64_t key = heap_pop(&f->heap);
        uint32_t at = (uint32_t)key;
        const special_text *s = &f->v->specials[f->places[key >> 32]];
        if (f->taken[at]) continue;
        // What was taken before is no shorter, so it can't lie strictly inside.
        if (!f->taken[at + s->n - 1]) {
            if (!accept(f, s, at)) return false;
        } else if (!push(f, longest_at(f, at, stretch_of(f, at)), at)) {
            return false;
        }
    }
    return true;
}

static int by_place(const void *a, const void *b)
{
    const special_hit *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

pm_status special_find(const text_vocab *v, const char *text, const stretch *stretches,
                       size_t n_stretches, special_hit **hits, size_t *n_hits)
{
    *hits = NULL;
    *n_hits = 0;
    if (n_stretches == 0 || v->n_specials == 0) return PM_OK;
    finder f = {.v = v, .text = text, .stretches = stretches, .n_stretches = n_stretches};
    f.n = stretches[n_stretches - 1].end;
    bool ok = collect(&f) && (f.heap.n == 0 || choose(&f));
    free(f.taken);
    free(f.places);
    heap_free(&f.heap);
    if (!ok) {
        free(f.hits);
        return error_memory("finding special tokens", f.n);
    }
    if (f.n_hits > 0) qsort(f.hits, f.n_hits, sizeof *f.hits, by_place);
    *hits = f.hits;
    *n_hits = f.n_hits;
    return PM_OK;
}
