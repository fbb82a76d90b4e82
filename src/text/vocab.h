// What a loaded vocabulary holds, for the files of this folder.
#ifndef PUMICE_TEXT_VOCAB_H
#define PUMICE_TEXT_VOCAB_H

#include "text/pretokenize.h"
#include "text/text.h"

// The priority of what can't be merged; smaller is better.
#define NO_MERGE UINT32_MAX

// Stored text -> id: open addressing, `mask + 1` slots, at most three quarters of them used.
typedef struct token_slot {
    uint32_t hash;
    int32_t id; // TEXT_NO_TOKEN: free
} token_slot;

// Two neighbouring tokens -> their rank (place in tokenizer.ggml.merges) and what they become.
typedef struct merge_slot {
    int32_t left, right; // left TEXT_NO_TOKEN: free
    uint32_t rank;
    int32_t joined;
} merge_slot;

// A text that is found in a prompt before anything else is done with it.
typedef struct special_text {
    const char *text;
    uint32_t n;
    int32_t id;
    uint32_t order;  // longest first, then lowest id
    bool everywhere; // user-defined: also where control tokens are not allowed
    bool eats_white; // white space behind it goes with it
} special_text;

struct text_vocab {
    const gguf *g; // the file, for loading only
    bool spm;
    const pretokenizer *pre; // NULL: SentencePiece

    int32_t n_vocab;
    gguf_string *tokens; // [n_vocab]
    uint8_t *types;      // [n_vocab], text_token_type
    uint32_t *priority;  // SentencePiece: [n_vocab], smaller for a higher score
    size_t max_token;    // bytes of the longest token that a text can be made into
    int32_t byte_token[256];

    token_slot *slots;
    uint32_t slot_mask;
    merge_slot *merges;
    uint32_t merge_mask;

    special_text *specials; // ascending by text
    size_t n_specials;
    uint32_t special_first[257]; // specials that begin with byte b: [b] to [b + 1]
    char *marked;                // texts of user-defined tokens with U+2581 for spaces

    char *pieces;     // what each token stands for, one after the other
    size_t *piece_at; // [n_vocab + 1]

    text_specials special_ids;
    bool add_space_prefix;
    int32_t *ends;
    size_t n_ends;

    char **warnings;
    size_t n_warnings;
};

// Can a text be made into this token by merging or by a whole-word look-up? Control tokens never:
// nothing that a user writes may become one.
static inline bool token_is_text(const text_vocab *v, int32_t id)
{
    return v->types[id] == TEXT_NORMAL || v->types[id] == TEXT_USER_DEFINED;
}

bool vocab_insert(text_vocab *v, int32_t id); // false: an earlier token has the same text
void vocab_insert_merge(text_vocab *v, const merge_slot *merge); // the first of a pair stays
// As text_find, but only what token_is_text allows.
int32_t vocab_find_text(const text_vocab *v, const char *text, size_t n);
const merge_slot *vocab_find_merge(const text_vocab *v, int32_t left, int32_t right); // or NULL
// The GPT-2 byte alphabet: the code point that stands for a byte, and back (-1: none).
uint32_t alphabet_char(unsigned char byte);
int alphabet_byte(uint32_t code_point);
// Appends to the vocabulary's warnings.
pm_status vocab_warn(text_vocab *v, const char *format, ...) PRINTF_LIKE(2, 3);

// Parts of loading, in this order (vocab_load.c, vocab_special.c).
pm_status vocab_load_tokens(text_vocab *v);
pm_status vocab_load_merges(text_vocab *v);
pm_status vocab_load_specials(text_vocab *v); // ids, end tokens, special texts

// A special token found in a text.
typedef struct special_hit {
    uint32_t at, n; // with the white space it eats
    int32_t id;
} special_hit;

// Where each stretch of a text ends, and whether control tokens are recognised in it.
typedef struct stretch {
    uint32_t end;
    bool literal;
} stretch;

// Finds the special tokens: longest first over the whole text. *hits ascend, release with free.
pm_status special_find(const text_vocab *v, const char *text, const stretch *stretches,
                       size_t n_stretches, special_hit **hits, size_t *n_hits);

// Valid UTF-8 (each byte that belongs to no sequence as U+FFFD) and, where asked for, normal form
// C; *out is `text` itself when nothing has to change, else *owned (grown as needed).
typedef struct clean_buffer {
    char *text;
    size_t cap;
    int32_t *points;
    size_t points_cap;
} clean_buffer;
pm_status text_clean(const char *text, size_t n, bool nfc, clean_buffer *work, const char **out,
                     size_t *n_out);
void clean_buffer_free(clean_buffer *work);

#endif
