// From logits to the next token: bias, penalties, temperature, top-k, typical-p, top-p,
// min-p, draw.
//
// The n-th draw of a seed is a pure function of both (base/rng.h), so that equal logits give equal
// texts. One thread at a time.
#ifndef PUMICE_ENGINE_SAMPLER_H
#define PUMICE_ENGINE_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

typedef struct sampler_bias {
    int32_t id;
    float bias;
} sampler_bias;

typedef struct sampler_params {
    const sampler_bias *biases; // copied by sampler_open
    size_t n_biases;
    double repeat_penalty;    // 1: off
    double presence_penalty;  // 0: off
    double frequency_penalty; // 0: off
    int64_t repeat_last;      // window of the penalties in tokens; 0: off, -1: all tokens
    double temp;              // 0: greedy
    int64_t top_k;            // 0: off
    double typical_p;         // 1: off
    double top_p;             // 1: off
    double min_p;             // 0: off
    bool temp_last;           // filters see untempered probabilities
    uint64_t seed;
} sampler_params;

typedef struct sampler sampler;

pm_status sampler_open(const sampler_params *params, sampler **out);
void sampler_close(sampler *s); // accepts NULL
uint64_t sampler_seed(const sampler *s);
bool sampler_is_greedy(const sampler *s); // does it take the largest logit?
// The effective order and values, one line.
void sampler_describe(const sampler *s, buf *out);

// Is every draw the most likely token of the logits as they are?
bool sampler_is_argmax(const sampler *s);

// A token of the text, the prompt's too. Running out of memory (a window of all tokens) is
// remembered, and sampler_sample fails.
void sampler_accept(sampler *s, int32_t id);
// Draws from logits [n_vocab]; does not accept. PM_ERROR_RUN: NaN or +infinity among them, or
// nothing finite.
pm_status sampler_sample(sampler *s, const float *logits, int32_t n_vocab, int32_t *id);
// Are the n_top largest logits of n_vocab enough to draw as from all of them? What bias and
// penalties lower makes room for others, so these must be among them too.
bool sampler_takes_top(const sampler *s, size_t n_top, size_t n_vocab);
// As sampler_sample, from the n_top largest logits: all finite, the largest first, equal ones by
// id. Draws the same token.
pm_status sampler_sample_top(sampler *s, const int32_t *ids, const float *logits, size_t n_top,
                             int32_t n_vocab, int32_t *id);
void sampler_reset(sampler *s); // empty window, draws from the seed again

// A token that a draw may take; `weight` is proportional to its probability.
typedef struct sampler_candidate {
    int32_t id;
    float logit; // after bias and penalties
    double weight;
} sampler_candidate;

// What the next draw would choose from (tests, inspection): valid until the next call.
pm_status sampler_candidates(sampler *s, const float *logits, int32_t n_vocab,
                             const sampler_candidate **candidates, size_t *n);

// ---- probabilities of raw logits --------------------------------------------------------------

// PM_ERROR_RUN ("token WHERE: ..." is the caller's context): NaN or +infinity, or nothing finite.
pm_status logits_check(const float *logits, int32_t n_vocab);
// log(sum(exp(logits))): a log-probability is logits[id] minus it.
double logits_log_sum(const float *logits, int32_t n_vocab);
// The n largest (n <= n_vocab), largest first, equal ones by id. `ids` has room for n.
void logits_top(const float *logits, int32_t n_vocab, size_t n, int32_t *ids);

#endif
