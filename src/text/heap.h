// A binary heap of 64-bit keys, smallest first: (priority << 32 | position), so that among equal
// priorities the leftmost comes first.
#ifndef PUMICE_TEXT_HEAP_H
#define PUMICE_TEXT_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct key_heap {
    uint64_t *keys;
    size_t n, cap;
} key_heap;

bool heap_push(key_heap *h, uint64_t key); // false: no memory
uint64_t heap_pop(key_heap *h);            // h->n > 0
void heap_free(key_heap *h);

#endif
