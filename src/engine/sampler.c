#include "engine/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "engine/candidates.h"

// How often a token is in the window.
typedef struct count {
    int32_t id;
    uint32_t n; // 0: a free place
} count;

struct sampler {
    sampler_params p;
    sampler_bias *biases;
    int32_t *window; // the tokens that count for penalties; a ring when repeat_last > 0
    size_t n_window, cap_window, next;
    count *counts; // open addressing, a power of two with at most half of it in use
    size_t n_counts;
    bool out_of_memory;
    uint64_t n_draws;
    float *adjusted; // [cap] logits with bias and penalties
    sampler_candidate *candidates;
    size_t cap;
};

pm_status sampler_open(const sampler_params *params, sampler **out)
{
    sampler *s = calloc(1, sizeof *s);
    if (!s) return error_memory("a sampler", sizeof *s);
    s->p = *params;
    s->p.biases = NULL;
    if (params->n_biases) {
        size_t bytes = params->n_biases * sizeof *s->biases;
        s->biases = malloc(bytes);
        if (!s->biases) {
            free(s);
            return error_memory("a sampler", bytes);
        }
        memcpy(s->biases, params->biases, bytes);
    }
    *out = s;
    return PM_OK;
}

void sampler_close(sampler *s)
{
    if (!s) return;
    free(s->biases);
    free(s->window);
    free(s->counts);
    free(s->adjusted);
    free(s->candidates);
    free(s);
}

uint64_t sampler_seed(const sampler *s)
{
    return s->p.seed;
}

bool sampler_is_greedy(const sampler *s)
{
    return s->p.temp == 0;
}

static bool penalties_on(const sampler *s)
{
    const sampler_params *p = &s->p;
    return p->repeat_last != 0 &&
           (p->repeat_penalty != 1 || p->presence_penalty != 0 || p->frequency_penalty != 0);
}

bool sampler_is_argmax(const sampler *s)
{
    return s->p.temp == 0 && s->p.n_biases == 0 && !penalties_on(s);
}

void sampler_describe(const sampler *s, buf *out)
{
    const sampler_params *p = &s->p;
    if (p->n_biases) buf_printf(out, "logit-bias (%zu tokens) -> ", p->n_biases);
    buf_printf(out,
               "repeat-penalty %g, presence-penalty %g, frequency-penalty %g (repeat-last %lld%s)",
               p->repeat_penalty, p->presence_penalty, p->frequency_penalty,
               (long long)p->repeat_last, penalties_on(s) ? "" : ", off");
    if (p->temp == 0) {
        buf_str(out, " -> temp 0: the most likely token");
    } else {
        if (!p->temp_last) buf_printf(out, " -> temp %g", p->temp);
        buf_printf(out, " -> top-k %lld", (long long)p->top_k);
        if (p->typical_p < 1) buf_printf(out, " -> typical-p %g", p->typical_p);
        buf_printf(out, " -> top-p %g -> min-p %g", p->top_p, p->min_p);
        if (p->temp_last) buf_printf(out, " -> temp %g", p->temp);
        buf_str(out, " -> draw");
    }
    buf_printf(out, "; seed %llu", (unsigned long long)p->seed);
}

// ---- the window of the penalties --------------------------------------------------------------

static count *count_place(count *counts, size_t n, int32_t id)
{
    size_t at = (size_t)rng_mix((uint64_t)(uint32_t)id) & (n - 1);
    while (counts[at].n && counts[at].id != id) at = (at + 1) & (n - 1);
    return &counts[at];
}

// The counts of all tokens in the window, made anew: windows are short, and a draw costs more.
static bool count_window(sampler *s)
{
    size_t n = 64;
    while (n < 2 * s->n_window) n *= 2;
    if (n > s->n_counts) {
        count *counts = realloc(s->counts, n * sizeof *counts);
        if (!counts) return false;
        s->counts = counts;
        s->n_counts = n;
    }
    memset(s->counts, 0, s->n_counts * sizeof *s->counts);
    for (size_t i = 0; i < s->n_window; i++) {
        count *c = count_place(s->counts, s->n_counts, s->window[i]);
        c->id = s->window[i];
        c->n++;
    }
    return true;
}

void sampler_accept(sampler *s, int32_t id)
{
    if (!penalties_on(s)) return;
    size_t most = s->p.repeat_last < 0 ? SIZE_MAX : (size_t)s->p.repeat_last;
    if (s->n_window < most) {
        if (s->n_window == s->cap_window) {
            size_t cap = s->cap_window ? 2 * s->cap_window : 64;
            int32_t *window = realloc(s->window, cap * sizeof *window);
            if (!window) {
                s->out_of_memory = true;
                return;
            }
            s->window = window;
            s->cap_window = cap;
        }
        s->window[s->n_window++] = id;
    } else {
        s->window[s->next] = id;
        s->next = (s->next + 1) % most;
    }
}

void sampler_reset(sampler *s)
{
    s->n_window = s->next = 0;
    s->n_draws = 0;
    s->out_of_memory = false;
}

// ---- one draw ---------------------------------------------------------------------------------

static pm_status reserve(sampler *s, size_t n)
{
    if (s->cap >= n) return PM_OK;
    free(s->adjusted);
    free(s->candidates);
    s->cap = 0;
    s->adjusted = malloc(n * sizeof *s->adjusted);
    s->candidates = malloc(n * sizeof *s->candidates);
    if (!s->adjusted || !s->candidates) {
        free(s->adjusted);
        free(s->candidates);
        s->adjusted = NULL;
        s->candidates = NULL;
        return error_memory("the sampler", n * sizeof *s->candidates);
    }
    s->cap = n;
    return PM_OK;
}

static void penalize(const sampler *s, float *logits, int32_t n_vocab)
{
    for (size_t i = 0; i < s->n_counts; i++) {
        count c = s->counts[i];
        if (c.n == 0 || c.id < 0 || c.id >= n_vocab) continue;
        double x = (double)logits[c.id];
        x = x > 0 ? x / s->p.repeat_penalty : x * s->p.repeat_penalty;
        x -= s->p.presence_penalty + c.n * s->p.frequency_penalty;
        logits[c.id] = (float)x;
    }
}

// *on: penalties apply to the next draw, and their window is counted.
static pm_status begin_penalties(sampler *s, bool *on)
{
    *on = penalties_on(s) && s->n_window > 0;
    if (!s->out_of_memory && (!*on || count_window(s))) return PM_OK;
    return error_memory("the window of the penalties", s->n_window * sizeof *s->window);
}

// Bias and penalties on what s->adjusted holds.
static pm_status apply(const sampler *s, bool penalties, int32_t n_vocab)
{
    for (size_t i = 0; i < s->p.n_biases; i++) {
        int32_t id = s->biases[i].id;
        if (id < 0 || id >= n_vocab) {
            return error_set(PM_ERROR_USAGE, "option 'logit-bias': no token %d (0 to %d)", id,
                             n_vocab - 1);
        }
        s->adjusted[id] += s->biases[i].bias;
    }
    if (penalties) penalize(s, s->adjusted, n_vocab);
    return PM_OK;
}

// *logits becomes the adjusted ones where something adjusts them.
static pm_status adjust(sampler *s, const float **logits, int32_t n_vocab)
{
    bool penalties;
    pm_status status = begin_penalties(s, &penalties);
    if (status != PM_OK || (!penalties && s->p.n_biases == 0)) return status;
    memcpy(s->adjusted, *logits, (size_t)n_vocab * sizeof **logits);
    *logits = s->adjusted;
    return apply(s, penalties, n_vocab);
}

// weight = exp((logit - max) / temp): the most likely token has 1.
static void set_weights(sampler_candidate *c, size_t n, double max, double temp)
{
    for (size_t i = 0; i < n; i++) c[i].weight = exp(((double)c[i].logit - max) / temp);
}

static double total_weight(const sampler_candidate *c, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += c[i].weight;
    return sum;
}

// Moves what comes before the pivot to the front; returns how many.
static size_t partition(sampler_candidate *c, size_t n, sampler_candidate pivot)
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        if (!candidate_before(&c[i], &pivot)) continue;
        sampler_candidate t = c[i];
        c[i] = c[m];
        c[m++] = t;
    }
    return m;
}

// The shortest prefix, in order, whose weights reach `target` goes to the front; returns its
// length. Of a long list only the part around the border is sorted.
static size_t nucleus(sampler_candidate *c, size_t n, double target)
{
    size_t first = 0;
    while (n - first > 64) {
        // median of three as pivot; they differ, because ids do
        sampler_candidate a = c[first], b = c[first + (n - first) / 2], d = c[n - 1];
        sampler_candidate pivot = candidate_before(&a, &b) ? (candidate_before(&b, &d)   ? b
                                                              : candidate_before(&a, &d) ? d
                                                                                         : a)
                                                           : (candidate_before(&a, &d)   ? a
                                                              : candidate_before(&b, &d) ? d
                                                                                         : b);
        size_t m = partition(c + first, n - first, pivot);
        double mass = total_weight(c + first, m);
        if (mass >= target) {
            n = first + m;
        } else {
            target -= mass;
            first += m;
        }
    }
    candidates_sort(c + first, n - first);
    double sum = 0;
    for (size_t i = first; i < n; i++) {
        sum += c[i].weight;
        if (sum >= target) return i + 1;
    }
    return n;
}

// The tokens whose surprise is nearest to the expected one, the entropy, until they reach
// `typical_p`. They take the place of the logit for nucleus(), then it is put back.
static size_t typical(sampler_candidate *c, size_t n, const float *logits, double typical_p)
{
    double total = total_weight(c, n), entropy = 0;
    for (size_t i = 0; i < n; i++) {
        double p = c[i].weight / total;
        if (p > 0) entropy -= p * log(p);
    }
    for (size_t i = 0; i < n; i++) {
        double p = c[i].weight / total;
        c[i].logit = p > 0 ? (float)-fabs(-log(p) - entropy) : -INFINITY;
    }
    n = nucleus(c, n, typical_p * total);
    for (size_t i = 0; i < n; i++) c[i].logit = logits[c[i].id];
    return n;
}

// The candidates of top-k, in order; without it all, by id.
static size_t list_candidates(sampler *s, const float *logits, size_t n_vocab)
{
    size_t n = 0;
    if (s->p.top_k > 0 && (uint64_t)s->p.top_k < n_vocab) {
        n = (size_t)s->p.top_k;
        candidates_top(logits, n_vocab, n, s->candidates);
        return n;
    }
    for (size_t i = 0; i < n_vocab; i++)
        if (logits[i] > -INFINITY)
            s->candidates[n++] = (sampler_candidate){(int32_t)i, logits[i], 0};
    return n;
}

// What stays of the n candidates after typical-p, top-p and min-p. `logits` has theirs.
static size_t filter(sampler *s, const float *logits, size_t n, double max)
{
    const sampler_params *p = &s->p;
    sampler_candidate *c = s->candidates;
    set_weights(c, n, max, p->temp_last ? 1 : p->temp);
    if (p->typical_p < 1) n = typical(c, n, logits, p->typical_p);
    if (p->top_p < 1) n = nucleus(c, n, p->top_p * total_weight(c, n));
    if (p->min_p > 0) {
        size_t kept = 0;
        double most = 0; // typical-p may have left out the most likely one
        for (size_t i = 0; i < n; i++) most = c[i].weight > most ? c[i].weight : most;
        for (size_t i = 0; i < n; i++) {
            if (c[i].weight >= p->min_p * most) c[kept++] = c[i];
        }
        n = kept;
    }
    if (p->temp_last) set_weights(c, n, max, p->temp);
    return n;
}

pm_status sampler_candidates(sampler *s, const float *logits, int32_t n_vocab,
                             const sampler_candidate **candidates, size_t *n)
{
    if (n_vocab < 1) return error_set(PM_ERROR_USAGE, "there are no logits to draw from");
    pm_status status = reserve(s, (size_t)n_vocab);
    if (status == PM_OK) status = adjust(s, &logits, n_vocab);
    float max = 0;
    if (status == PM_OK) status = candidates_scan(logits, (size_t)n_vocab, &max);
    if (status != PM_OK) return status;
    if (s->p.temp == 0) {
        int32_t id = 0;
        while (logits[id] != max) id++;
        s->candidates[0] = (sampler_candidate){id, max, 1};
        *n = 1;
    } else {
        *n = filter(s, logits, list_candidates(s, logits, (size_t)n_vocab), (double)max);
    }
    if (*n == 0) return error_set(PM_ERROR_RUN, "no token is left to draw from");
    *candidates = s->candidates;
    return PM_OK;
}

// The next draw of the seed, among n candidates.
static int32_t draw(sampler *s, const sampler_candidate *c, size_t n)
{
    double rest = rng_double(s->p.seed, s->n_draws) * total_weight(c, n);
    s->n_draws++;
    size_t i = 0;
    while (i + 1 < n && rest >= c[i].weight) rest -= c[i++].weight;
    return c[i].id;
}

pm_status sampler_sample(sampler *s, const float *logits, int32_t n_vocab, int32_t *id)
{
    const sampler_candidate *c = NULL;
    size_t n = 0;
    pm_status status = sampler_candidates(s, logits, n_vocab, &c, &n);
    if (status == PM_OK) *id = draw(s, c, n);
    return status;
}

// ---- from the largest ones alone --------------------------------------------------------------

// How many tokens bias and penalties may lower; SIZE_MAX: they may raise some.
static size_t n_lowered(const sampler *s)
{
    const sampler_params *p = &s->p;
    for (size_t i = 0; i < p->n_biases; i++)
        if (s->biases[i].bias > 0) return SIZE_MAX;
    if (!penalties_on(s)) return p->n_biases;
    bool lower = p->repeat_penalty >= 1 && p->presence_penalty >= 0 && p->frequency_penalty >= 0;
    return lower ? p->n_biases + s->n_window : SIZE_MAX;
}

bool sampler_takes_top(const sampler *s, size_t n_top, size_t n_vocab)
{
    const sampler_params *p = &s->p;
    bool cuts = p->temp == 0 || (p->top_k > 0 && (uint64_t)p->top_k < n_vocab);
    uint64_t k = p->temp == 0 ? 1 : (uint64_t)p->top_k;
    size_t lowered = n_lowered(s);
    return cuts && lowered <= n_top && k <= n_top - lowered;
}

// The listed logits in s->adjusted, bias and penalties applied. What isn't listed is never read.
static pm_status adjust_top(sampler *s, const int32_t *ids, const float *logits, size_t n_top,
                            int32_t n_vocab)
{
    bool penalties = false;
    pm_status status = reserve(s, (size_t)n_vocab);
    if (status == PM_OK) status = begin_penalties(s, &penalties);
    if (status != PM_OK) return status;
    for (size_t i = 0; i < s->p.n_biases; i++) {
        int32_t id = s->biases[i].id;
        if (id >= 0 && id < n_vocab) s->adjusted[id] = 0;
    }
    for (size_t i = 0; penalties && i < s->n_counts; i++) {
        count c = s->counts[i];
        if (c.n && c.id >= 0 && c.id < n_vocab) s->adjusted[c.id] = 0;
    }
    for (size_t i = 0; i < n_top; i++) s->adjusted[ids[i]] = logits[i];
    return apply(s, penalties, n_vocab);
}

pm_status sampler_sample_top(sampler *s, const int32_t *ids, const float *logits, size_t n_top,
                             int32_t n_vocab, int32_t *id)
{
    pm_status status = adjust_top(s, ids, logits, n_top, n_vocab);
    if (status != PM_OK) return status;
    sampler_candidate *c = s->candidates;
    for (size_t i = 0; i < n_top; i++) c[i] = (sampler_candidate){ids[i], s->adjusted[ids[i]], 1};
    candidates_sort(c, n_top);
    size_t n = s->p.temp == 0 ? 1 : (size_t)s->p.top_k;
    if (n > n_top) n = n_top;
    if (s->p.temp != 0) n = filter(s, s->adjusted, n, (double)c[0].logit);
    if (n == 0) return error_set(PM_ERROR_RUN, "no token is left to draw from");
    *id = draw(s, c, n);
    return PM_OK;
}
