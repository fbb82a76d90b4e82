#include "engine/generation.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "engine/stream.h"

struct generation {
    session *s;
    const text_vocab *vocab;
    sampler *sampler;
    stream text;
    generation_end end;
    int64_t max_tokens;
    int32_t n_vocab;

    int32_t *prompt;
    size_t n_prompt, n_cached;
    text_ids tokens;
    text_ids markers; // control tokens whose text counts
    uint64_t changes; // of the session, when this generation last used it

    grammar_run *grammar;      // NULL: any text
    const char *grammar_after; // NULL: the grammar holds; else only behind this text
    float *masked;             // [n_vocab] logits of what the grammar allows
    text_ids ends;             // end tokens: not before the grammar has begun

    size_t n_top;            // beside the chosen token
    token_logprob *logprobs; // [tokens][1 + n_top]; NULL: none are wanted
    int32_t *top_ids;        // [n_top]
    size_t cap_logprobs;
    bool want_logprobs;

    enum { AHEAD_UNTRIED, AHEAD_RUNS, AHEAD_OFF } ahead;
    bool takes_pick;       // never needs all logits at once, unless the sampler does
    const plan_pick *pick; // the next token is drawn from this list; NULL: from logits
    bool chosen;           // the next token is known without logits
    int32_t choice;

    double started, first_token;
    generation_times times;
};

static pm_status check_prompt(const session *s, size_t n_prompt)
{
    if (n_prompt == 0) return error_set(PM_ERROR_USAGE, "the prompt is empty");
    if (n_prompt > session_n_ctx(s)) {
        return error_set(PM_ERROR_USAGE,
                         "the prompt has %zu tokens, the context holds %" PRIu32
                         " (a larger one: --ctx N)",
                         n_prompt, session_n_ctx(s));
    }
    return PM_OK;
}

static pm_status find_markers(generation *g, const char *const *markers)
{
    pm_status status = PM_OK;
    for (; status == PM_OK && markers && *markers; markers++) {
        int32_t id = text_find(g->vocab, *markers, strlen(*markers));
        if (id != TEXT_NO_TOKEN && text_type(g->vocab, id) == TEXT_CONTROL) {
            status = text_ids_add(&g->markers, id);
        }
    }
    return status;
}

static pm_status begin_grammar(generation *g, const generation_params *params)
{
    g->grammar_after = params->grammar_after;
    g->masked = malloc((size_t)g->n_vocab * sizeof *g->masked);
    if (!g->masked) return error_memory("a grammar", (uint64_t)g->n_vocab * sizeof *g->masked);
    pm_status status = PM_OK;
    for (int32_t id = 0; id < g->n_vocab && status == PM_OK; id++)
        if (text_is_end(g->vocab, id)) status = text_ids_add(&g->ends, id);
    if (status != PM_OK) return status;
    return grammar_run_open(params->grammar, params->grammar_tokens, &g->grammar);
}

pm_status generation_open(session *s, const text_vocab *vocab, const generation_params *params,
                          const int32_t *prompt, size_t n_prompt, generation **out)
{
    pm_status status = check_prompt(s, n_prompt);
    if (status != PM_OK) return status;
    generation *g = calloc(1, sizeof *g);
    if (!g) return error_memory("a generation", sizeof *g);
    g->started = os_seconds();
    g->s = s;
    g->vocab = vocab;
    g->n_vocab = (int32_t)session_plan(s)->n_vocab;
    g->max_tokens = params->max_tokens;
    g->n_prompt = n_prompt;
    g->want_logprobs = params->n_logprobs >= 0;
    g->n_top = params->n_logprobs > 0 ? (size_t)params->n_logprobs : 0;
    if (g->n_top > (size_t)g->n_vocab) g->n_top = (size_t)g->n_vocab;
    g->prompt = malloc(n_prompt * sizeof *prompt);
    g->top_ids = malloc((g->n_top + 1) * sizeof *g->top_ids);
    if (!g->prompt || !g->top_ids) {
        status = error_memory("a generation", n_prompt * sizeof *prompt);
    }
    if (status == PM_OK) status = sampler_open(&params->sampler, &g->sampler);
    if (status == PM_OK) status = stream_open(&g->text, params->stops, params->n_stops);
    if (status == PM_OK) status = find_markers(g, params->markers);
    if (status == PM_OK && params->grammar) status = begin_grammar(g, params);
    if (status != PM_OK) {
        generation_close(g);
        return status;
    }
    // Log-probabilities and grammars want all logits; so does whatever is not the most likely
    // token.
    g->takes_pick = !g->want_logprobs && !g->grammar;
    if (!g->takes_pick || !sampler_is_argmax(g->sampler)) g->ahead = AHEAD_OFF;
    memcpy(g->prompt, prompt, n_prompt * sizeof *prompt);
    for (size_t i = 0; i < n_prompt; i++) sampler_accept(g->sampler, prompt[i]);
    g->n_cached = session_reuse(s, prompt, n_prompt);
    g->changes = session_changes(s);
    *out = g;
    return PM_OK;
}

// Somebody else has used the session.
static bool is_stale(const generation *g)
{
    return session_changes(g->s) != g->changes;
}

// What was computed beyond the last token is dropped; not another generation's.
static void end_ahead(generation *g)
{
    if (g->ahead == AHEAD_RUNS && !is_stale(g)) session_ahead_end(g->s);
    g->ahead = AHEAD_OFF;
}

void generation_close(generation *g)
{
    if (!g) return;
    end_ahead(g);
    text_ids_free(&g->markers);
    text_ids_free(&g->ends);
    grammar_run_close(g->grammar);
    free(g->masked);
    sampler_close(g->sampler);
    stream_close(&g->text);
    text_ids_free(&g->tokens);
    free(g->prompt);
    free(g->logprobs);
    free(g->top_ids);
    free(g);
}

// ---- one token --------------------------------------------------------------------------------

static pm_status keep_logprobs(generation *g, const float *logits, int32_t id)
{
    size_t width = 1 + g->n_top, at = g->tokens.n - 1;
    if (at == g->cap_logprobs) {
        size_t cap = at ? 2 * at : 64;
        token_logprob *more = realloc(g->logprobs, cap * width * sizeof *more);
        if (!more) return error_memory("log-probabilities", cap * width * sizeof *more);
        g->logprobs = more;
        g->cap_logprobs = cap;
    }
    token_logprob *row = g->logprobs + at * width;
    double log_sum = logits_log_sum(logits, g->n_vocab);
    row[0] = (token_logprob){id, (double)logits[id] - log_sum};
    logits_top(logits, g->n_vocab, g->n_top, g->top_ids);
    for (size_t i = 0; i < g->n_top; i++) {
        int32_t other = g->top_ids[i];
        row[1 + i] = (token_logprob){other, (double)logits[other] - log_sum};
    }
    return PM_OK;
}

// Evaluates the last token where the device decodes ahead of the host: then g->chosen.
static pm_status follow(generation *g, int32_t last)
{
    pm_status status = PM_OK;
    bool runs = true, certain = false;
    if (g->ahead == AHEAD_UNTRIED) {
        uint64_t most =
            g->max_tokens < 0 ? UINT64_MAX : (uint64_t)g->max_tokens - (uint64_t)g->tokens.n;
        status = session_ahead_begin(g->s, last, most, &runs);
        g->ahead = status == PM_OK && runs ? AHEAD_RUNS : AHEAD_OFF;
    }
    if (status != PM_OK || !runs) return status;
    status = session_ahead_next(g->s, &g->choice, &certain);
    g->chosen = certain;
    if (!certain) g->ahead = AHEAD_OFF;
    return status;
}

// As the sampler needs it: all logits, or the largest ones alone.
static pm_status evaluate(generation *g, const int32_t *ids, size_t n)
{
    if (g->takes_pick && sampler_takes_top(g->sampler, PLAN_N_TOP, (size_t)g->n_vocab))
        return session_eval_pick(g->s, ids, n, &g->pick);
    return session_eval(g->s, ids, n, false);
}

static pm_status evaluate_last(generation *g)
{
    int32_t last = g->tokens.ids[g->tokens.n - 1];
    pm_status status = g->ahead == AHEAD_OFF ? PM_OK : follow(g, last);
    if (status == PM_OK && !g->chosen) status = evaluate(g, &last, 1);
    if (status == PM_OK) g->times.n_steps++;
    return status;
}

// Brings the session to where the next token can be drawn: the prompt's rest, or the last token.
static pm_status advance(generation *g)
{
    g->chosen = false;
    g->pick = NULL;
    if (g->tokens.n > 0) return evaluate_last(g);
    double before = os_seconds();
    pm_status status = evaluate(g, g->prompt + g->n_cached, g->n_prompt - g->n_cached);
    g->times.prompt_s = os_seconds() - before;
    return status;
}

static pm_status finish(generation *g, generation_end end)
{
    g->end = end;
    end_ahead(g);
    if (g->first_token > 0) g->times.generate_s = os_seconds() - g->first_token;
    return stream_end(&g->text);
}

// What a token adds to the text. A vocabulary smaller than the model's output has no text for the
// ids behind it.
static gguf_string piece_of(const generation *g, int32_t id)
{
    if (id >= text_n_vocab(g->vocab)) return (gguf_string){NULL, 0};
    bool marker = false;
    for (size_t i = 0; i < g->markers.n; i++) marker |= g->markers.ids[i] == id;
    return text_piece(g->vocab, id, marker);
}

// Tokens that may still come, the next one included.
static uint64_t n_left(const generation *g)
{
    uint64_t left = (uint64_t)(session_n_ctx(g->s) - session_n_past(g->s)) + 1;
    uint64_t asked = g->max_tokens < 0 ? left : (uint64_t)g->max_tokens - g->tokens.n;
    return asked < left ? asked : left;
}

// Draws among the tokens that the grammar allows; *complete: there is none, and none is needed.
static pm_status pick_allowed(generation *g, const float *logits, int32_t *id, bool *complete)
{
    pm_status status = PM_OK;
    if (sampler_is_greedy(g->sampler)) { // mostly the best token is allowed: no need for the others
        bool allowed = false;
        status = sampler_sample(g->sampler, logits, g->n_vocab, id);
        if (status == PM_OK) status = grammar_allows(g->grammar, *id, n_left(g), &allowed);
        if (status != PM_OK || allowed) return status;
    }
    const uint64_t *bits;
    size_t n;
    status = grammar_mask(g->grammar, n_left(g), &bits, &n);
    if (status != PM_OK) return status;
    *complete = n == 0 && grammar_complete(g->grammar);
    if (*complete) return PM_OK;
    if (n == 0) return error_set(PM_ERROR_RUN, "no token goes on with what the grammar wants");
    int32_t known = text_n_vocab(g->vocab) < g->n_vocab ? text_n_vocab(g->vocab) : g->n_vocab;
    for (int32_t i = 0; i < g->n_vocab; i++) g->masked[i] = -INFINITY;
    for (int32_t i = 0; i < known; i += 64) {
        uint64_t word = bits[i / 64];
        for (int32_t k = i; word; k++, word >>= 1) {
            if ((word & 1) && k < known) g->masked[k] = logits[k];
        }
    }
    return sampler_sample(g->sampler, g->masked, g->n_vocab, id);
}

// Draws what comes before the text of the grammar: nothing ends the answer there.
static pm_status pick_before(generation *g, const float *logits, int32_t *id)
{
    memcpy(g->masked, logits, (size_t)g->n_vocab * sizeof *logits);
    for (size_t i = 0; i < g->ends.n; i++) g->masked[g->ends.ids[i]] = -INFINITY;
    return sampler_sample(g->sampler, g->masked, g->n_vocab, id);
}

static pm_status pick(generation *g, const float *logits, int32_t *id, bool *complete)
{
    const plan_pick *top = g->pick;
    if (top)
        return sampler_sample_top(g->sampler, top->top_id, top->top_logit, top->n_top, g->n_vocab,
                                  id);
    if (g->grammar_after) return pick_before(g, logits, id);
    if (g->grammar) return pick_allowed(g, logits, id, complete);
    return sampler_sample(g->sampler, logits, g->n_vocab, id);
}

// Takes the grammar one token on, or begins with it where the text before it has ended.
static pm_status follow_grammar(generation *g, int32_t id)
{
    if (!g->grammar) return PM_OK;
    if (!g->grammar_after) return grammar_accept(g->grammar, id);
    const char *at = g->text.text.len ? strstr(g->text.text.data, g->grammar_after) : NULL;
    if (!at) return PM_OK;
    at += strlen(g->grammar_after);
    at += strspn(at, " \t\r\n");
    g->grammar_after = NULL;
    return grammar_accept_bytes(g->grammar, at, strlen(at));
}

// Draws a token and adds its text; sets g->end where it ends the answer.
static pm_status draw(generation *g)
{
    const float *logits = session_logits(g->s, 0);
    int32_t id = g->choice;
    bool complete = false;
    pm_status status = PM_OK;
    if (!g->chosen) status = pick(g, logits, &id, &complete);
    if (status != PM_OK) return error_in(status, "position %" PRIu32, session_n_past(g->s));
    if (g->first_token == 0) {
        g->first_token = os_seconds();
        g->times.first_token_s = g->first_token - g->started;
    }
    if (complete || text_is_end(g->vocab, id)) return finish(g, GENERATION_STOP);
    sampler_accept(g->sampler, id);
    status = text_ids_add(&g->tokens, id);
    if (status == PM_OK && g->want_logprobs) status = keep_logprobs(g, logits, id);
    if (status != PM_OK) return status;
    gguf_string piece = piece_of(g, id);
    status = stream_add(&g->text, piece.data, piece.len);
    if (status == PM_OK) status = follow_grammar(g, id);
    if (status != PM_OK) return status;
    if (g->text.stopped) return finish(g, GENERATION_STOP);
    bool most = g->max_tokens >= 0 && (int64_t)g->tokens.n >= g->max_tokens;
    if (most || session_n_past(g->s) == session_n_ctx(g->s)) return finish(g, GENERATION_LENGTH);
    return PM_OK;
}

pm_status generation_next(generation *g, const char **text, size_t *n, bool *done)
{
    pm_status status = PM_OK;
    if (g->end == GENERATION_RUNS && is_stale(g)) {
        status = error_set(PM_ERROR_USAGE, "the generation can't go on: its session was used for "
                                           "something else since");
    } else if (g->end == GENERATION_RUNS) {
        status = advance(g);
        g->changes = session_changes(g->s);
        if (status != PM_OK && session_was_interrupted(g->s)) {
            status = finish(g, GENERATION_INTERRUPTED);
        } else if (status == PM_OK) {
            status = g->max_tokens == 0 ? finish(g, GENERATION_LENGTH) : draw(g);
        }
    }
    if (status != PM_OK) {
        end_ahead(g);
        g->end = GENERATION_FAILED;
        return status;
    }
    size_t ready = stream_ready(&g->text);
    *text = g->text.text.data ? g->text.text.data + g->text.shown : "";
    *n = ready - g->text.shown;
    *done = g->end != GENERATION_RUNS;
    g->text.shown = ready;
    return PM_OK;
}

void generation_stop(generation *g)
{
    if (g->end != GENERATION_RUNS) return;
    if (finish(g, GENERATION_INTERRUPTED) != PM_OK) g->end = GENERATION_FAILED;
}

// ---- what became of it ------------------------------------------------------------------------

generation_end generation_ended(const generation *g)
{
    return g->end;
}

bool generation_follows_grammar(const generation *g)
{
    if (!g->grammar) return true;
    return !g->grammar_after && !g->text.stopped && grammar_complete(g->grammar);
}

const char *generation_text(const generation *g, size_t *n)
{
    *n = g->text.shown;
    return g->text.text.data ? g->text.text.data : "";
}

const int32_t *generation_tokens(const generation *g, size_t *n)
{
    *n = g->tokens.n;
    return g->tokens.ids;
}

size_t generation_n_prompt(const generation *g)
{
    return g->n_prompt;
}

size_t generation_n_cached(const generation *g)
{
    return g->n_cached;
}

const sampler *generation_sampler(const generation *g)
{
    return g->sampler;
}

generation_times generation_timings(const generation *g)
{
    generation_times t = g->times;
    if (g->end == GENERATION_RUNS && g->first_token > 0) {
        t.generate_s = os_seconds() - g->first_token;
    }
    return t;
}

const token_logprob *generation_logprobs(const generation *g, size_t index, size_t *n_top)
{
    *n_top = g->n_top;
    if (!g->logprobs || index >= g->tokens.n) return NULL;
    return g->logprobs + index * (1 + g->n_top);
}
