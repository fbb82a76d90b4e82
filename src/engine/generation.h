// A prompt and its continuation, token by token. The session and what it was made of outlive it.
// What else evaluates, rewinds or begins a generation on the session ends this one.
#ifndef PUMICE_ENGINE_GENERATION_H
#define PUMICE_ENGINE_GENERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/sampler.h"
#include "engine/session.h"
#include "text/grammar.h"

typedef struct generation_params {
    int64_t max_tokens; // -1: until an end token or the context is full; 0: nothing
    const char *const *stops;
    size_t n_stops;
    int n_logprobs; // -1: none, 0: of the chosen token
    // Texts of control tokens that are part of the answer's text, where others leave no trace;
    // NULL-terminated, may be NULL. Read by generation_open only.
    const char *const *markers;
    // The text is one of this grammar; NULL: any. It outlives the generation, with the vocabulary's
    // tokens. `grammar_after`: from behind this text on (and the white space that comes with it),
    // before which no end token is drawn; NULL: from the start.
    const grammar *grammar;
    const grammar_tokens *grammar_tokens;
    const char *grammar_after;
    sampler_params sampler;
} generation_params;

typedef enum generation_end {
    GENERATION_RUNS,
    GENERATION_STOP,        // an end token or a stop text
    GENERATION_LENGTH,      // max_tokens, or the context is full
    GENERATION_INTERRUPTED, // generation_stop, or session_interrupt
    GENERATION_FAILED,
} generation_end;

typedef struct token_logprob {
    int32_t id;
    double logprob; // of the raw logits
} token_logprob;

// Seconds on the monotonic clock's scale; 0 while not known.
typedef struct generation_times {
    double prompt_s;      // evaluating what the cache did not hold
    double generate_s;    // from the first token to the end
    size_t n_steps;       // evaluations in generate_s: one for each token but the last, and one
                          // more where an end token was drawn
    double first_token_s; // from the start to the first token
} generation_times;

typedef struct generation generation;

// PM_ERROR_USAGE: an empty prompt, or one longer than the context.
pm_status generation_open(session *s, const text_vocab *vocab, const generation_params *params,
                          const int32_t *prompt, size_t n_prompt, generation **out);
void generation_close(generation *g); // accepts NULL

// As pm_generation_next, PM_ERROR_USAGE where the session was used for something else too. The
// first call evaluates the prompt and draws the first token, each later one evaluates the token
// before and draws the next.
pm_status generation_next(generation *g, const char **text, size_t *n, bool *done);
void generation_stop(generation *g);

generation_end generation_ended(const generation *g);
// Is the text so far a whole one of the grammar? Without a grammar it is.
bool generation_follows_grammar(const generation *g);
const char *generation_text(const generation *g, size_t *n);      // as shown so far
const int32_t *generation_tokens(const generation *g, size_t *n); // without the end token
size_t generation_n_prompt(const generation *g);
size_t generation_n_cached(const generation *g); // of the prompt, in the cache from before
const sampler *generation_sampler(const generation *g);
generation_times generation_timings(const generation *g);
// Of generated token `index`: its own, then the n most likely ones. NULL without logprobs.
const token_logprob *generation_logprobs(const generation *g, size_t index, size_t *n_top);

#endif
