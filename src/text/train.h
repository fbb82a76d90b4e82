// Byte-pair training: a text to a vocabulary.
//
// The text is cut into pieces as gpt-2's pre-tokenizer does; each piece begins as bytes. Again and
// again the pair of neighbours that is most frequent over all pieces (among equals the one with the
// lowest ids) becomes a token, until there are enough. Merges and their order are those of Hugging
// Face tokenizers' BpeTrainer with a ByteLevel pre-tokenizer and its whole alphabet.
#ifndef PUMICE_TEXT_TRAIN_H
#define PUMICE_TEXT_TRAIN_H

#include "text/text.h"

typedef struct bpe_params {
    const char *const *specials; // control tokens: the first ids
    size_t n_specials;
    uint32_t n_vocab;   // most tokens; at least n_specials + 256
    uint64_t min_count; // pairs that are less frequent don't become tokens
} bpe_params;

typedef struct bpe_pair {
    int32_t left, right;
} bpe_pair;

typedef struct bpe_vocab {
    char **tokens; // [n_tokens], in the byte alphabet
    uint32_t n_tokens, cap_tokens;
    bpe_pair *merges; // in the order of their rank
    uint32_t n_merges, cap_merges;
    uint64_t n_pieces; // of the text, equal ones counted once
} bpe_vocab;

// `text` may hold anything; bytes that are not UTF-8 count as U+FFFD. PM_ERROR_USAGE: n_vocab is
// too small, a special is empty or given twice, the text is larger than 2 GiB.
pm_status bpe_train(const char *text, size_t n, const bpe_params *params, bpe_vocab *out);
void bpe_vocab_free(bpe_vocab *v);
// A GGUF file that holds the vocabulary alone.
pm_status bpe_vocab_write(const bpe_vocab *v, const bpe_params *params, const char *path);

#endif
