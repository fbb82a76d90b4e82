#include "proof/perplexity.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sampler.h"

// The first position of a window whose logits count: it tells the token after it.
static uint32_t first_scored(uint32_t n_ctx)
{
    return n_ctx / 2;
}

uint32_t perplexity_scored(uint32_t n_ctx)
{
    return n_ctx - 1 - first_scored(n_ctx);
}

perplexity_value perplexity_of(const perplexity_sums *sums, uint64_t n)
{
    double mean = sums->nll / (double)n, variance = sums->nll_squares / (double)n - mean * mean;
    double error = n > 1 ? sqrt(fmax(variance, 0) / (double)(n - 1)) : (double)INFINITY;
    return (perplexity_value){
        .perplexity = exp(mean), .error = exp(mean) * error, .mean_nll = mean, .nll_error = error};
}

static void add(perplexity_sums *sums, const float *logits, uint32_t n_vocab, int32_t next)
{
    double nll = logits_log_sum(logits, (int32_t)n_vocab) - (double)logits[next];
    sums->nll += nll;
    sums->nll_squares += nll * nll;
}

// Appends tokens whose logits are not wanted.
static pm_status lead_in(session *s, const int32_t *ids, uint32_t n)
{
    session_rewind(s, 0);
    return n > 0 ? session_eval(s, ids, n, false) : PM_OK;
}

// Rows whose logits are kept at once: as many as the plan has room for, so that a large vocabulary
// doesn't need the memory of half a window.
static uint32_t rows_at_once(const perplexity *p)
{
    uint32_t n = session_plan(p->tested)->n_logits;
    if (p->against && session_plan(p->against)->n_logits < n)
        n = session_plan(p->against)->n_logits;
    return n;
}

// Positions [at, at + n) of the window: each tells the token after it.
static pm_status score(perplexity *p, uint32_t at, uint32_t n)
{
    uint32_t n_vocab = session_plan(p->tested)->n_vocab;
    pm_status status = session_eval(p->tested, p->window + at, n, true);
    if (status == PM_OK && p->against) status = session_eval(p->against, p->window + at, n, true);
    for (uint32_t i = 0; i < n && status == PM_OK; i++) {
        const float *found = session_logits(p->tested, i);
        add(&p->sums, found, n_vocab, p->window[at + i + 1]);
        if (!p->against) continue;
        const float *expected = session_logits(p->against, i);
        add(&p->against_sums, expected, n_vocab, p->window[at + i + 1]);
        status = divergence_add(&p->apart, expected, found, n_vocab);
    }
    return status;
}

pm_status perplexity_next(perplexity *p)
{
    assert(p->n_done < p->n_windows && p->n_ctx >= PERPLEXITY_MIN_WINDOW);
    if (!p->window) p->window = malloc(p->n_ctx * sizeof *p->window);
    if (!p->window) return error_memory("a window", p->n_ctx * sizeof *p->window);
    memcpy(p->window, p->ids + p->n_done * p->n_ctx, p->n_ctx * sizeof *p->window);
    if (p->first >= 0) p->window[0] = p->first;

    uint32_t at = first_scored(p->n_ctx), end = p->n_ctx - 1, most = rows_at_once(p);
    pm_status status = lead_in(p->tested, p->window, at);
    if (status == PM_OK && p->against) status = lead_in(p->against, p->window, at);
    while (at < end && status == PM_OK) {
        uint32_t n = end - at < most ? end - at : most;
        status = score(p, at, n);
        at += n;
    }
    if (status != PM_OK) return status;
    p->n_done++;
    p->n_used += perplexity_scored(p->n_ctx);
    return PM_OK;
}

void perplexity_free(perplexity *p)
{
    divergence_free(&p->apart);
    free(p->window);
    p->window = NULL;
}
