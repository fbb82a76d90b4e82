// Grammars that say which texts may be generated, as a pushdown automaton over bytes.
//
// The language is a subset of GBNF (llama.cpp's): rules NAME ::= ALTERNATIVES, of which `root` is
// the text;
// "literals" and [classes], [^negated] too, with \n \r \t \\ \" \] \[ \- \^ \xHH \uHHHH \UHHHHHHHH;
// . for any character; (groups); x* x+ x? x{2} x{2,} x{2,5}; | between alternatives; # to the end
// of a line. A rule ends with its line, unless the line break is inside brackets or behind | or
// ::=. Rules must not begin with themselves (left recursion), and each must have an end.
//
// Everything is bounded, because grammars and schemas come from anywhere: nodes of a grammar, depth
// of its nesting while it runs, states, and steps for a token.
#ifndef PUMICE_TEXT_GRAMMAR_H
#define PUMICE_TEXT_GRAMMAR_H

#include "text/text.h"

typedef struct grammar grammar; // immutable

// PM_ERROR_USAGE: no grammar; the message has the line and what is wrong with it.
pm_status grammar_parse(const char *source, size_t n, grammar **out);
void grammar_free(grammar *g); // accepts NULL
// Bytes of the shortest text.
uint64_t grammar_shortest(const grammar *g);

// A vocabulary's tokens in the order of their bytes; immutable. The vocabulary outlives it.
typedef struct grammar_tokens grammar_tokens;
pm_status grammar_tokens_make(const text_vocab *v, grammar_tokens **out);
void grammar_tokens_free(grammar_tokens *t); // accepts NULL

// How far one text has come. Both arguments outlive it; `t` may be NULL for bytes alone.
typedef struct grammar_run grammar_run;
pm_status grammar_run_open(const grammar *g, const grammar_tokens *t, grammar_run **out);
void grammar_run_close(grammar_run *r); // accepts NULL

// Any number of tokens, for `n_left`.
#define GRAMMAR_NO_LIMIT UINT64_MAX

// May this token come next? End tokens may where the text is complete. `n_left`: tokens that may
// still come, this one included: where each byte has a token of its own, only such tokens are
// allowed behind which the text can be completed in time; a limit too small for that is not
// observed.
pm_status grammar_allows(grammar_run *r, int32_t id, uint64_t n_left, bool *allowed);
// The same for all tokens: bit id % 64 of word id / 64 of ceil(n_vocab / 64) words. Valid until the
// next call. *n: how many are set.
pm_status grammar_mask(grammar_run *r, uint64_t n_left, const uint64_t **bits, size_t *n);
// Goes on. PM_ERROR_RUN: what comes is not allowed; the run stays where it was.
pm_status grammar_accept(grammar_run *r, int32_t id);
pm_status grammar_accept_bytes(grammar_run *r, const char *bytes, size_t n);
bool grammar_complete(const grammar_run *r); // may the text end here?

// ---- inside: the compiled form (grammar_parse.c makes it, grammar_run.c runs it) --------------

typedef enum grammar_kind {
    GRAMMAR_END,   // of a rule
    GRAMMAR_JUMP,  // to a
    GRAMMAR_SPLIT, // to a and to b
    GRAMMAR_BYTE,  // a byte of set a, then b
    GRAMMAR_CALL,  // rule a, then b
} grammar_kind;

typedef struct grammar_node {
    grammar_kind kind;
    uint32_t a, b;
    uint32_t shortest; // bytes from here to the end of the rule, UINT32_MAX: no end
} grammar_node;

typedef struct grammar_rule {
    char *name;
    uint32_t start, line; // line 0: not defined (yet)
    uint32_t used_at;     // the line that first names it
    bool empty;           // may match nothing
} grammar_rule;

struct grammar {
    grammar_node *nodes;
    uint32_t n_nodes, cap_nodes;
    uint64_t (*sets)[4]; // bit b % 64 of word b / 64: byte b
    uint32_t n_sets, cap_sets;
    grammar_rule *rules;
    uint32_t n_rules, cap_rules;
    uint32_t root;
};

#endif
