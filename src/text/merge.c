#include "text/merge.h"

#include <stdlib.h>

bool heap_push(key_heap *h, uint64_t key)
{
    if (h->n == h->cap) {
        size_t cap = h->cap ? h->cap * 2 : 64;
        uint64_t *keys =
            cap <= SIZE_MAX / sizeof *keys ? realloc(h->keys, cap * sizeof *keys) : NULL;
        if (!keys) return false;
        h->keys = keys;
        h->cap = cap;
    }
    size_t i = h->n++;
    while (i > 0 && h->keys[(i - 1) / 2] > key) {
        h->keys[i] = h->keys[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h->keys[i] = key;
    return true;
}

uint64_t heap_pop(key_heap *h)
{
    uint64_t top = h->keys[0], last = h->keys[--h->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < h->n; i = child) {
        if (child + 1 < h->n && h->keys[child + 1] < h->keys[child]) child++;
        if (h->keys[child] >= last) break;
        h->keys[i] = h->keys[child];
    }
    h->keys[i] = last;
    return top;
}

void heap_free(key_heap *h)
{
    free(h->keys);
    *h = (key_heap){0};
}

bool merger_add(merger *m, uint32_t start, uint32_t n, int32_t id)
{
    if (m->n == m->cap) {
        size_t cap = m->cap ? m->cap * 2 : 64;
        symbol *symbols =
            cap <= SIZE_MAX / sizeof *symbols ? realloc(m->symbols, cap * sizeof *symbols) : NULL;
        if (!symbols) return false;
        m->symbols = symbols;
        m->cap = cap;
    }
    uint32_t i = (uint32_t)m->n++;
    m->symbols[i] = (symbol){.start = start,
                             .n = n,
                             .id = id,
                             .prev = i ? i - 1 : NO_SYMBOL,
                             .next = NO_SYMBOL,
                             .priority = NO_MERGE,
                             .joined = TEXT_NO_TOKEN};
    if (i) m->symbols[i - 1].next = i;
    return true;
}

// Works out what joining symbol i with its right neighbour would give.
static bool consider(merger *m, const text_vocab *v, const char *text, merge_rule *rule, uint32_t i)
{
    symbol *left = &m->symbols[i];
    left->priority = NO_MERGE;
    if (left->next == NO_SYMBOL) return true;
    if (!rule(v, text, left, &m->symbols[left->next], &left->priority, &left->joined)) {
        left->priority = NO_MERGE;
        return true;
    }
    return heap_push(&m->heap, (uint64_t)left->priority << 32 | i);
}

bool merger_run(merger *m, const text_vocab *v, const char *text, merge_rule *rule)
{
    m->heap.n = 0;
    for (uint32_t i = 0; i < m->n; i++)
        if (!consider(m, v, text, rule, i)) return false;
    while (m->heap.n > 0) {
        uint64_t key = heap_pop(&m->heap);
        uint32_t i = (uint32_t)key;
        symbol *left = &m->symbols[i];
        // A key whose pair has changed since it was pushed is stale.
        if (left->n == 0 || left->priority != key >> 32) continue;
        symbol *right = &m->symbols[left->next];
        left->n += right->n;
        left->id = left->joined;
        left->next = right->next;
        right->n = 0;
        if (left->next != NO_SYMBOL) m->symbols[left->next].prev = i;
        if (!consider(m, v, text, rule, i)) return false;
        if (left->prev != NO_SYMBOL && !consider(m, v, text, rule, left->prev)) return false;
    }
    return true;
}

void merger_free(merger *m)
{
    free(m->symbols);
    heap_free(&m->heap);
    *m = (merger){0};
}
