// Pre-tokenizers: how a text is cut into pieces before byte-pair merging.
//
// The models' files name regular expressions. Here each distinct one is a short table of
// alternatives over character classes (pretokenize_table.c), matched by hand-written steps in
// linear time (pretokenize.c). Several expressions are applied one after the other, each to the
// pieces of the one before; what lies between matches is a piece too.
#ifndef PUMICE_TEXT_PRETOKENIZE_H
#define PUMICE_TEXT_PRETOKENIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

// Properties of a code point, as bits.
enum {
    CH_LU = 1 << 0,
    CH_LL = 1 << 1,
    CH_LT = 1 << 2,
    CH_LM = 1 << 3,
    CH_LO = 1 << 4,
    CH_M = 1 << 5,
    CH_ND = 1 << 6,
    CH_NL = 1 << 7,
    CH_NO = 1 << 8,
    CH_P = 1 << 9,
    CH_S = 1 << 10,
    CH_PC = 1 << 11,          // also CH_P
    CH_WHITE = 1 << 12,       // White_Space
    CH_CRLF = 1 << 13,        // carriage return, line feed
    CH_LF = 1 << 14,          // line feed
    CH_SPACE = 1 << 15,       // U+0020
    CH_DIGIT = 1 << 16,       // 0-9
    CH_ASCII_ALPHA = 1 << 17, // A-Z a-z
    CH_ASCII_PUNCT = 1 << 18, // the 32 of ispunct
    CH_GRAVE = 1 << 19,       // U+0060
    CH_SLASH = 1 << 20,
    CH_HAN = 1 << 21, // the script
    CH_L = CH_LU | CH_LL | CH_LT | CH_LM | CH_LO,
    CH_N = CH_ND | CH_NL | CH_NO,
};

typedef struct code_range {
    uint32_t first, last;
} code_range;

// A character class: has one of the properties `any` and none of `except`, or lies in a range
// (ascending); the whole is then turned around by `negated`.
typedef struct char_class {
    uint32_t any, except;
    const code_range *ranges;
    size_t n_ranges;
    bool negated;
} char_class;

typedef enum alternative_kind {
    ALT_RUN,         // lead{lead_min,1} run{min,max} tail{0,tail_max}
    ALT_CONTRACTION, // 's 't 're 've 'm 'll 'd
    ALT_CASED,       // lead? run* run2+ contraction?  or  lead? run+ run2* contraction?
    ALT_WORDS,       // lead? (L M* ( ' ' L M*)*)+
    ALT_TO_NEWLINE,  // \s*[\r\n]+ (which is also what \s*[\r\n] matches)
    ALT_WHITE_TAIL,  // \s+(?!\S)
    ALT_WHITE_END,   // \s+$
    ALT_WHITE_CHUNK, // \s{512}(?!\S) | \s{256}(?!\S) | ... \s{4}(?!\S) | \s{1,2}(?!\S) | \s
    ALT_DIGIT_GROUP, // run{1,3} so that the rest of the run is whole groups of three
    ALT_DIGIT_SPLIT, // matches nothing, but cuts where whole groups of three remain
    ALT_INDENT,      // [\t\n] | four spaces | two spaces
    ALT_SENTINEL,    // <sentinel:[0-9]+>
    ALT_IMAGE_CODE,  // IMGIMG[A-I]{1,4}Z
} alternative_kind;

typedef enum contraction {
    NO_CONTRACTION,
    LOWER_CONTRACTION, // 's
    ANY_CONTRACTION,   // 's 'S
    FOLD_CONTRACTION,  // and 's with U+017F, which folds to s
} contraction;

typedef struct alternative {
    alternative_kind kind;
    char_class lead, run, run2, tail;
    uint32_t lead_min, lead_max; // lead_max 0: no lead
    uint32_t min, max;           // of run; max 0: no limit
    uint32_t tail_max;           // 0: no tail
    contraction contraction;
    bool at_word_end; // ALT_DIGIT_GROUP: only where the run ends at a word boundary
} alternative;

typedef struct pattern { // alternatives in order of preference
    const alternative *alternatives;
    size_t n;
} pattern;

enum { MAX_PATTERNS = 6 };

typedef struct pretokenizer {
    const char *name;
    const pattern *const *patterns; // NULL-terminated
    bool whole_words; // a piece that is a token is not merged (llama.cpp: ignore_merges)
    bool add_bos;     // unless the file says otherwise
    bool nfc;         // text is brought to normal form C first
    bool raw;         // tokens are UTF-8 text, not the byte alphabet
    bool space_mark;  // spaces are U+2581 in the vocabulary
} pretokenizer;

const pretokenizer *pretokenizer_find(const char *name, size_t n); // NULL: not supported
// All names, for messages; NULL beyond the last.
const char *pretokenizer_name(size_t index);

typedef struct character {
    uint32_t code_point, bits;
} character;

// Work space and result; start from {0}, may be used again.
typedef struct pieces {
    character *chars;
    uint32_t *ends, *other; // ends: where pieces end, in bytes
    size_t n, cap;
} pieces;

// `text` is valid UTF-8 of n < 2^31 bytes.
pm_status pretokenize(const pretokenizer *p, const char *text, size_t n, pieces *out);
void pieces_free(pieces *p);

uint32_t char_bits(uint32_t code_point);

#endif
