// Text to token ids and back: the model's own tokenizer, from the keys of its GGUF file.
//
// A vocabulary is immutable after loading: any number of threads may use it.
#ifndef PUMICE_TEXT_TEXT_H
#define PUMICE_TEXT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "gguf/gguf.h"

typedef struct text_vocab text_vocab;

// tokenizer.ggml.token_type
typedef enum text_token_type {
    TEXT_NORMAL = 1,
    TEXT_UNKNOWN = 2,
    TEXT_CONTROL = 3,
    TEXT_USER_DEFINED = 4,
    TEXT_UNUSED = 5,
    TEXT_BYTE = 6,
} text_token_type;

enum { TEXT_NO_TOKEN = -1 };

typedef struct text_specials { // TEXT_NO_TOKEN where the file has none
    int32_t bos, eos, eot, eom, unk, pad, sep;
    bool add_bos, add_eos;
} text_specials;

// Keeps pointers into `g`, which must outlive the vocabulary. PM_ERROR_FILE: no or a broken
// vocabulary, an unsupported tokenizer model or pre-tokenizer (named, with the supported list).
// `assume_pre`: NULL, or the pre-tokenizer to use where the file's is unknown.
pm_status text_vocab_load(const gguf *g, const char *assume_pre, text_vocab **out);
void text_vocab_free(text_vocab *v); // accepts NULL

int32_t text_n_vocab(const text_vocab *v);
const text_specials *text_special_ids(const text_vocab *v);
const char *text_pre_name(const text_vocab *v); // the pre-tokenizer in use; "" for SentencePiece
size_t text_n_warnings(const text_vocab *v);    // for example: an assumed pre-tokenizer
const char *text_warning(const text_vocab *v, size_t index);

// End-of-generation tokens: the eos, eot, eom keys and the well-known names; ascending.
const int32_t *text_end_tokens(const text_vocab *v, size_t *n);
bool text_is_end(const text_vocab *v, int32_t id);

text_token_type text_type(const text_vocab *v, int32_t id);
// The token's text as the file stores it (byte alphabet and all).
gguf_string text_stored(const text_vocab *v, int32_t id);
// TEXT_NO_TOKEN when no token is stored with this text.
int32_t text_find(const text_vocab *v, const char *stored, size_t n);

// A stretch of a prompt: in a literal one (a template's own text) control tokens are recognised, in
// others (what a user wrote) never; user-defined tokens are in both.
typedef struct text_span {
    const char *text;
    size_t n;
    bool literal;
} text_span;

// Growing list of ids; start from {0}, release with text_ids_free.
typedef struct text_ids {
    int32_t *ids;
    size_t n, cap;
} text_ids;
void text_ids_free(text_ids *ids);
pm_status text_ids_add(text_ids *ids, int32_t id);

// Appends the ids of the text. `special`: control tokens named in it are recognised. Nothing is
// added at its ends (see text_specials for what the file asks for). Invalid UTF-8: each byte that
// can't be decoded counts as U+FFFD. Time is linear in n (up to a logarithm), stack use bounded.
pm_status text_encode(const text_vocab *v, const char *text, size_t n, bool special, text_ids *out);
// The same for a prompt made of spans. Neighbouring spans are one text as far as merging goes
// (special tokens are matched inside the spans that allow them, never across a border).
pm_status text_encode_spans(const text_vocab *v, const text_span *spans, size_t n_spans,
                            text_ids *out);

// The bytes that a token stands for, as a pointer that lives as long as the vocabulary. Control and
// unknown tokens give their text with `special`, nothing without; unused tokens nothing. For
// SentencePiece the space mark is a space.
gguf_string text_piece(const text_vocab *v, int32_t id, bool special);

// Removes the one leading space that SentencePiece's add_space_prefix put before a whole text;
// false for vocabularies that put none.
bool text_has_space_prefix(const text_vocab *v);

// ---- UTF-8 ------------------------------------------------------------------------------------

// The longest prefix of s that ends between characters: how much of a growing text may be shown.
// An incomplete but still possible sequence at the end is held back; invalid bytes are not.
size_t text_utf8_whole(const char *s, size_t n);
// One code point from s (n > 0) and its length in *len; invalid bytes give U+FFFD, length 1.
uint32_t text_utf8_next(const char *s, size_t n, size_t *len);
// Writes 1 to 4 bytes.
size_t text_utf8_put(uint32_t code_point, char out[4]);
bool text_utf8_valid(const char *s, size_t n);

#endif
