// A prompt and its continuation, and what `ask --json` prints of it.
#include "engine/generation.h"

#include <stdlib.h>

#include "api/handles.h"

// The grammar that the text must follow: behind the reasoning, where the prompt has opened that.
static pm_status set_grammar(pm_generation *g, const pm_options *o, const chat_reply *reply,
                             generation_params *params)
{
    pm_status status = PM_OK;
    if (reply) {
        params->grammar = reply->grammar;
        params->grammar_after = reply->parts.thinking ? "</think>" : NULL;
    } else {
        status = params_grammar(o, &g->grammar);
        params->grammar = g->grammar;
    }
    if (status != PM_OK || !params->grammar) return status;
    return session_grammar_tokens(g->session, &params->grammar_tokens);
}

pm_status start_generation(pm_session *ps, const pm_options *o, const int32_t *prompt,
                           size_t n_prompt, const chat_reply *reply, pm_generation **out)
{
    const model *m = ps->model->m;
    if (!m->vocab) return error_set(PM_ERROR_FILE, "%s: has no vocabulary", gguf_path(m->file));
    generation_params params = {
        .max_tokens = options_int(o, "max-tokens", -1),
        .n_stops = options_n_values(o, "stop"),
        .n_logprobs = (int)options_int(o, "logprobs", -1),
        .markers = reply ? answer_markers(reply->parts.tools != NULL) : NULL,
    };
    sampler_bias *biases = NULL;
    const char **stops = calloc(params.n_stops + 1, sizeof *stops);
    pm_generation *g = calloc(1, sizeof *g);
    pm_status status = stops && g ? PM_OK : error_memory("a generation", sizeof *g);
    if (status == PM_OK) {
        g->session = ps;
        status = set_grammar(g, o, reply, &params);
    }
    if (status == PM_OK && reply) status = answer_open(&reply->parts, &g->answer);
    if (status == PM_OK) status = params_sampler(m, o, &params.sampler, &biases);
    if (status == PM_OK) {
        if (reply && options_int(o, "seed", -1) >= 0) params.sampler.seed += reply->seed_step;
        for (size_t i = 0; i < params.n_stops; i++) stops[i] = options_value(o, "stop", i);
        params.stops = stops;
        status = generation_open(ps->s, m->vocab, &params, prompt, n_prompt, &g->g);
    }
    free(stops);
    free(biases);
    if (status == PM_OK) {
        *out = g;
    } else {
        pm_generation_destroy(g);
    }
    return status;
}

pm_status pm_generation_start(pm_session *ps, const pm_options *options, const int32_t *prompt,
                              size_t n_prompt, pm_generation **out)
{
    return start_generation(ps, options, prompt, n_prompt, NULL, out);
}

void pm_generation_destroy(pm_generation *g)
{
    if (!g) return;
    generation_close(g->g);
    answer_close(g->answer);
    grammar_free(g->grammar);
    free(g);
}

// One part at a time: where a token ends the reasoning and begins the text, the text comes with the
// next call.
static pm_status next_part(pm_generation *g, const char **text, size_t *n, int *done)
{
    const char *piece = "";
    size_t n_piece = 0;
    bool ended = generation_ended(g->g) != GENERATION_RUNS;
    if (answer_take(g->answer, &piece, &n_piece, &g->part)) {
        *text = piece;
        *n = n_piece;
        *done = 0;
        return PM_OK;
    }
    pm_status status = PM_OK;
    if (!ended) {
        status = generation_next(g->g, &piece, &n_piece, &ended);
        if (status == PM_OK) status = answer_add(g->answer, piece, n_piece);
        if (status == PM_OK && ended) status = answer_end(g->answer);
        if (status != PM_OK) return status;
    }
    *text = "";
    *n = 0;
    bool more = answer_take(g->answer, text, n, &g->part);
    *done = ended && !more;
    return PM_OK;
}

pm_status pm_generation_next(pm_generation *g, const char **text, size_t *n, int *done)
{
    if (g->answer) return next_part(g, text, n, done);
    bool ended = false;
    pm_status status = generation_next(g->g, text, n, &ended);
    if (status == PM_OK) *done = ended;
    return status;
}

int pm_generation_part(const pm_generation *g)
{
    return g->part == ANSWER_REASONING ? PM_PART_REASONING : PM_PART_ANSWER;
}

// What the caller was shown and what was held back are one text from here on.
void pm_generation_stop(pm_generation *g)
{
    if (generation_ended(g->g) != GENERATION_RUNS) return;
    generation_stop(g->g);
    const char *piece;
    size_t n;
    bool ended;
    if (!g->answer || generation_next(g->g, &piece, &n, &ended) != PM_OK) return;
    if (answer_add(g->answer, piece, n) == PM_OK) answer_end(g->answer);
}

const char *pm_generation_text(const pm_generation *g, size_t *n)
{
    return g->answer ? answer_text(g->answer, n) : generation_text(g->g, n);
}

const char *pm_generation_reasoning(const pm_generation *g, size_t *n)
{
    if (g->answer) return answer_reasoning(g->answer, n);
    *n = 0;
    return "";
}

size_t pm_generation_n_tool_calls(const pm_generation *g)
{
    return g->answer ? json_array_size(answer_calls(g->answer)) : 0;
}

pm_status pm_generation_tool_calls(const pm_generation *g, char **json)
{
    return json_take(g->answer ? json_deep_copy(answer_calls(g->answer)) : json_array(), json);
}

const char *pm_generation_finish_reason(const pm_generation *g)
{
    switch (generation_ended(g->g)) {
    case GENERATION_STOP: return "stop";
    case GENERATION_LENGTH: return "length";
    case GENERATION_RUNS:
    case GENERATION_FAILED:
    case GENERATION_INTERRUPTED: break;
    }
    return "interrupted";
}

int pm_generation_follows_grammar(const pm_generation *g)
{
    return generation_follows_grammar(g->g);
}

// ---- JSON -------------------------------------------------------------------------------------

// Tokens a second; null where nothing was measured.
static json_t *rate(size_t n, double seconds)
{
    return n > 0 && seconds > 0 ? json_finite((double)n / seconds) : json_null();
}

static json_t *timings_json(const pm_generation *g)
{
    generation_times t = generation_timings(g->g);
    // Cached tokens were not evaluated.
    size_t n_prompt = generation_n_prompt(g->g) - generation_n_cached(g->g);
    json_t *o = json_object();
    bool good = json_put(o, "load_s", json_finite(g->session->model->load_seconds)) &&
                json_put(o, "prompt_s", json_finite(t.prompt_s)) &&
                json_put(o, "generate_s", json_finite(t.generate_s)) &&
                json_put(o, "prompt_tps", rate(n_prompt, t.prompt_s)) &&
                json_put(o, "generate_tps", rate(t.n_steps, t.generate_s)) &&
                json_put(o, "first_token_s", json_finite(t.first_token_s));
    if (good) return o;
    json_decref(o);
    return NULL;
}

static json_t *token_json(const pm_generation *g, const token_logprob *p)
{
    const text_vocab *v = g->session->model->m->vocab;
    gguf_string piece = {"", 0};
    if (p->id < text_n_vocab(v)) piece = text_piece(v, p->id, true);
    json_t *o = json_object();
    bool good = json_put(o, "id", json_integer(p->id)) &&
                json_put(o, "text", json_text(piece.data, piece.len)) &&
                json_put(o, "logprob", json_finite(p->logprob));
    if (good) return o;
    json_decref(o);
    return NULL;
}

static json_t *logprobs_json(const pm_generation *g, size_t n_tokens)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n_tokens; i++) {
        size_t n_top;
        const token_logprob *row = generation_logprobs(g->g, i, &n_top);
        if (!row) break;
        json_t *token = token_json(g, row), *top = json_array();
        for (size_t j = 0; j < n_top; j++) json_array_append_new(top, token_json(g, row + 1 + j));
        if (!json_put(token, "top", top)) {
            json_decref(token);
            json_decref(list);
            return NULL;
        }
        json_array_append_new(list, token);
    }
    return list;
}

pm_status pm_generation_json(const pm_generation *g, char **json)
{
    size_t n_text, n_tokens, n_top;
    const char *text = pm_generation_text(g, &n_text);
    const int32_t *ids = generation_tokens(g->g, &n_tokens);
    json_t *tokens = json_array(), *o = json_object();
    for (size_t i = 0; i < n_tokens; i++) json_array_append_new(tokens, json_integer(ids[i]));
    size_t n_prompt = generation_n_prompt(g->g), n_cached = generation_n_cached(g->g);
    bool good = json_put(o, "text", json_text(text, n_text)) &&
                json_put(o, "finish_reason", json_word(pm_generation_finish_reason(g))) &&
                json_put(o, "prompt_tokens", json_size(n_prompt)) &&
                json_put(o, "cached_tokens", json_size(n_cached)) &&
                json_put(o, "completion_tokens", json_size(n_tokens)) &&
                json_put(o, "tokens", tokens) &&
                json_put(o, "seed", json_size(sampler_seed(generation_sampler(g->g)))) &&
                json_put(o, "device", json_word(g->session->model->device)) &&
                json_put(o, "timings", timings_json(g));
    if (good && n_tokens > 0 && generation_logprobs(g->g, 0, &n_top)) {
        good = json_put(o, "logprobs", logprobs_json(g, n_tokens));
    }
    size_t n_reasoning;
    const char *reasoning = pm_generation_reasoning(g, &n_reasoning);
    if (good && n_reasoning > 0) {
        good = json_put(o, "reasoning", json_text(reasoning, n_reasoning));
    }
    if (good && pm_generation_n_tool_calls(g) > 0) {
        good = json_put(o, "tool_calls", json_deep_copy(answer_calls(g->answer)));
    }
    if (good) return json_take(o, json);
    json_decref(o);
    return error_memory("a JSON document", 0);
}
