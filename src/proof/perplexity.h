// Perplexity of a text: e to the mean of -log p(token), over windows of a fixed size. Of each
// window the second half is scored, so that every scored token has at least half a window before
// it. With a second session: how far the two models of the text are apart.
#ifndef PUMICE_PROOF_PERPLEXITY_H
#define PUMICE_PROOF_PERPLEXITY_H

#include "engine/session.h"
#include "proof/divergence.h"

enum { PERPLEXITY_MIN_WINDOW = 3 }; // the smallest that scores a token

// Sums over the scored tokens of one session.
typedef struct perplexity_sums {
    double nll, nll_squares; // of -log p
} perplexity_sums;

typedef struct perplexity {
    // given
    session *tested;
    session *against;   // NULL: none
    const int32_t *ids; // [n_windows * n_ctx] at least; they outlive this
    uint32_t n_ctx;     // tokens of a window: at most what the sessions hold
    size_t n_windows;
    int32_t first; // replaces the first token of every window; -1: none does
    // results
    size_t n_done;   // windows
    uint64_t n_used; // tokens that were scored
    perplexity_sums sums, against_sums;
    divergence apart; // with `against`, which is what is expected
    int32_t *window;  // [n_ctx]
} perplexity;

// The tokens that a window of n_ctx scores: those behind the first of its second half.
uint32_t perplexity_scored(uint32_t n_ctx);
// Evaluates the next window (n_done < n_windows). After a failure it counts for nothing, and no
// further one may be asked for.
pm_status perplexity_next(perplexity *p);
void perplexity_free(perplexity *p); // what it allocated; accepts a zeroed one

typedef struct perplexity_value {
    double perplexity, error; // one standard error of the mean, carried through the exponential
    double mean_nll, nll_error;
} perplexity_value;
// NaN where nothing was scored; the errors are infinite with a single token.
perplexity_value perplexity_of(const perplexity_sums *sums, uint64_t n);

#endif
