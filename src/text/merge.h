// What BPE and SentencePiece have in common: a row of symbols whose neighbours are joined, best
// pair first, leftmost among equals, until no pair is left that can be.
#ifndef PUMICE_TEXT_MERGE_H
#define PUMICE_TEXT_MERGE_H

#include "text/heap.h"
#include "text/vocab.h"

typedef struct symbol {
    uint32_t start, n;   // bytes of the text; n is 0 once it was joined to its left neighbour
    int32_t id;          // TEXT_NO_TOKEN: no token
    uint32_t prev, next; // indices, NO_SYMBOL at the ends
    uint32_t priority;   // of joining it with its right neighbour; NO_MERGE: impossible
    int32_t joined;      // the token that this gives
} symbol;

#define NO_SYMBOL UINT32_MAX

typedef struct merger {
    symbol *symbols;
    size_t n, cap;
    key_heap heap;
} merger;

// The priority (smaller is better, below NO_MERGE) of joining two neighbours and the token that
// results; false where no token does.
typedef bool merge_rule(const text_vocab *v, const char *text, const symbol *left,
                        const symbol *right, uint32_t *priority, int32_t *joined);

bool merger_add(merger *m, uint32_t start, uint32_t n, int32_t id); // false: no memory
// Joins what can be joined; afterwards the symbols with n > 0 are the result, in order.
bool merger_run(merger *m, const text_vocab *v, const char *text, merge_rule *rule);
void merger_free(merger *m);

#endif
