// What can be seen while a model runs: attention, logits and what filters leave of them, one
// token's way through every step.
#include "api/inspect.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proof/attention.h"
#include "proof/trace.h"

static pm_status need_weights(const pm_model *pm)
{
    if (pm->loaded) return PM_OK;
    return error_set(PM_ERROR_USAGE, "the model was opened with vocab-only: no weights");
}

// ---- attention --------------------------------------------------------------------------------

// More numbers than this nobody looks at, and their JSON would take gigabytes.
#define MOST_PROBABILITIES (UINT64_C(1) << 22)

typedef struct maps {
    json_t *list;
    uint32_t n;
} maps;

static pm_status take_map(void *arg, uint32_t layer, uint32_t head, const float *p)
{
    maps *m = arg;
    json_t *o = json_object(), *rows = json_array();
    bool good = true;
    for (uint32_t i = 0; i < m->n && good; i++)
        good = json_add(rows, inspect_floats(p + (size_t)i * m->n, i + (size_t)1));
    good = json_put(o, "p", rows) && good;
    good = json_put(o, "layer", json_size(layer)) && json_put(o, "head", json_size(head)) && good;
    good = json_add(m->list, o) && good;
    return good ? PM_OK : error_memory("attention", 0);
}

static pm_status not_too_many(const model *m, size_t n, int64_t layer, int64_t head)
{
    uint64_t layers = layer < 0 ? m->n_layer : 1, heads = head < 0 ? m->n_head : 1;
    if (n <= PLAN_MAX_ROWS && n * n * layers * heads <= MOST_PROBABILITIES) return PM_OK;
    return error_set(PM_ERROR_USAGE,
                     "attention of %zu tokens in %" PRIu64 " layers and %" PRIu64
                     " heads is too much to show (choose with --layer and --head, or take a "
                     "shorter text)",
                     n, layers, heads);
}

pm_status pm_inspect_attention(pm_model *pm, const pm_options *options, const int32_t *ids,
                               size_t n, char **json)
{
    int64_t layer = options_int(options, "layer", ATTENTION_ALL);
    int64_t head = options_int(options, "head", ATTENTION_ALL);
    attention_request r = {.ids = ids,
                           .n_ids = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX,
                           .layer = (int)layer,
                           .head = (int)head,
                           .each = take_map};
    pm_status status = need_weights(pm);
    if (status == PM_OK) status = not_too_many(pm->m, n, layer, head);
    if (status == PM_OK) status = params_plan(pm->m, pm->loaded, pm->device, options, &r.plan);
    if (status != PM_OK) return status;
    maps m = {.list = json_array(), .n = (uint32_t)n};
    r.arg = &m;
    status = attention_run(pm->loaded, &r);
    json_t *o = json_object();
    bool good = json_put(o, "maps", m.list);
    good = good && json_put(o, "device", json_word(pm->device)) &&
           json_put(o, "n_layer", json_size(pm->m->n_layer)) &&
           json_put(o, "n_head", json_size(pm->m->n_head)) &&
           json_put(o, "tokens", inspect_tokens(pm->m, ids, n));
    o = json_complete(o, good);
    if (status == PM_OK) return json_take(o, json);
    json_decref(o);
    return status;
}

// ---- logits and filters -----------------------------------------------------------------------

static double probability(const float *logits, double log_sum, int32_t id)
{
    return exp((double)logits[id] - log_sum);
}

static json_t *token_json(const model *m, const float *logits, double log_sum, int32_t id,
                          size_t rank)
{
    json_t *o = json_object();
    return json_complete(
        o, inspect_put_token(o, m, id) && json_put(o, "rank", json_size(rank)) &&
               json_put(o, "logit", json_finite((double)logits[id])) &&
               json_put(o, "probability", json_finite(probability(logits, log_sum, id))));
}

static json_t *top_json(const model *m, const float *logits, double log_sum, size_t n)
{
    if (n > m->n_vocab) n = m->n_vocab;
    int32_t *ids = malloc((n + 1) * sizeof *ids);
    json_t *list = ids ? json_array() : NULL;
    bool good = ids != NULL;
    if (ids) logits_top(logits, (int32_t)m->n_vocab, n, ids);
    for (size_t i = 0; i < n && good; i++)
        good = json_add(list, token_json(m, logits, log_sum, ids[i], i + 1));
    free(ids);
    return json_complete(list, good);
}

// 1: no token is more likely; equal ones by id.
static size_t rank_of(const float *logits, int32_t n_vocab, int32_t id)
{
    size_t rank = 1;
    for (int32_t i = 0; i < n_vocab; i++)
        rank += logits[i] > logits[id] || (logits[i] == logits[id] && i < id);
    return rank;
}

typedef struct stage {
    const char *name;
    bool on;
    double value;
} stage;

// Draws from what is left after the first filters only, told of the tokens before.
static pm_status survivors(const sampler_params *p, const int32_t *before, size_t n_before,
                           const float *logits, int32_t n_vocab, size_t *n, double *weight)
{
    sampler *s = NULL;
    const sampler_candidate *c;
    pm_status status = sampler_open(p, &s);
    for (size_t i = 0; i < n_before && status == PM_OK; i++) sampler_accept(s, before[i]);
    if (status == PM_OK) status = sampler_candidates(s, logits, n_vocab, &c, n);
    *weight = 0;
    for (size_t i = 0; i < *n && status == PM_OK; i++) *weight += c[i].weight;
    sampler_close(s);
    return status;
}

static json_t *stage_json(const stage *s, size_t kept, size_t cut, double mass)
{
    json_t *o = json_object();
    return json_complete(
        o, json_put(o, "filter", json_word(s->name)) &&
               json_put(o, "value", json_finite(s->value)) &&
               json_put(o, "on", json_boolean(s->on)) && json_put(o, "kept", json_size(kept)) &&
               json_put(o, "cut", json_size(cut)) && json_put(o, "kept_mass", json_finite(mass)));
}

// What each filter leaves: the sampler itself, with one filter more switched on each time.
static pm_status filters_json(const sampler_params *given, const int32_t *before, size_t n_before,
                              const float *logits, int32_t n_vocab, json_t **out)
{
    sampler_params p = *given;
    bool greedy = given->temp == 0;
    const stage stages[] = {
        {"temp", true, given->temp},
        {"top-k", !greedy && given->top_k > 0, (double)given->top_k},
        {"top-p", !greedy && given->top_p < 1, given->top_p},
        {"min-p", !greedy && given->min_p > 0, given->min_p},
    };
    p.top_k = 0;
    p.top_p = 1;
    p.min_p = 0;
    // Weights of one scale throughout; with temp-last the filters see those of temperature 1.
    p.temp_last = false;
    if (given->temp_last && !greedy) p.temp = 1;
    size_t kept = (size_t)n_vocab, last = kept;
    double all = 0, weight = 0;
    json_t *list = json_array();
    bool good = true;
    pm_status status = PM_OK;
    for (size_t i = 0; i < sizeof stages / sizeof *stages && status == PM_OK && good; i++) {
        if (i == 1) p.top_k = given->top_k;
        if (i == 2) p.top_p = given->top_p;
        if (i == 3) p.min_p = given->min_p;
        status = survivors(&p, before, n_before, logits, n_vocab, &kept, &weight);
        if (i == 0) all = weight;
        if (status == PM_OK)
            good = json_add(list, stage_json(&stages[i], kept, last - kept, weight / all));
        last = kept;
    }
    if (status == PM_OK && !good) status = error_memory("filters", 0);
    if (status == PM_OK)
        *out = list;
    else
        json_decref(list);
    return status;
}

typedef struct logits_view {
    const model *m;
    sampler_params sampler;
    const int32_t *ids;
    size_t n, top;
} logits_view;

static pm_status position_json(const logits_view *v, size_t pos, const float *logits, json_t **out)
{
    int32_t n_vocab = (int32_t)v->m->n_vocab;
    double log_sum = logits_log_sum(logits, n_vocab), entropy = 0;
    for (int32_t i = 0; i < n_vocab; i++) {
        double p = probability(logits, log_sum, i);
        if (p > 0) entropy -= p * ((double)logits[i] - log_sum);
    }
    json_t *filters = NULL;
    pm_status status = filters_json(&v->sampler, v->ids, pos + 1, logits, n_vocab, &filters);
    if (status != PM_OK) return status;
    int32_t next = pos + 1 < v->n ? v->ids[pos + 1] : -1;
    json_t *o = json_object();
    bool good = json_put(o, "filters", filters);
    good = good && json_put(o, "pos", json_size(pos)) && inspect_put_token(o, v->m, v->ids[pos]) &&
           json_put(o, "entropy", json_finite(entropy)) &&
           json_put(o, "next",
                    next < 0 ? json_null()
                             : token_json(v->m, logits, log_sum, next,
                                          rank_of(logits, n_vocab, next))) &&
           json_put(o, "top", top_json(v->m, logits, log_sum, v->top));
    *out = json_complete(o, good);
    return *out ? PM_OK : error_memory("logits", 0);
}

pm_status pm_inspect_logits(pm_model *pm, const pm_options *options, const int32_t *ids, size_t n,
                            char **json)
{
    pm_status status = need_weights(pm);
    if (status == PM_OK && n == 0) status = error_set(PM_ERROR_USAGE, "a text without a token");
    if (status != PM_OK) return status;
    logits_view v = {
        .m = pm->m, .ids = ids, .n = n, .top = (size_t)options_int(options, "top", 10)};
    sampler_bias *biases = NULL;
    plan_options how;
    session *s = NULL;
    status = params_plan(pm->m, pm->loaded, pm->device, options, &how);
    if (status == PM_OK) status = params_sampler(pm->m, options, &v.sampler, &biases);
    if (status == PM_OK) status = session_open(pm->loaded, &how, &s);
    json_t *o = json_object(), *list = json_array();
    bool good = true;
    // Token by token, so that no more than one row of logits is kept.
    for (size_t i = 0; i < n && status == PM_OK && good; i++) {
        json_t *position = NULL;
        status = session_eval(s, ids + i, 1, false);
        if (status == PM_OK) status = position_json(&v, i, session_logits(s, 0), &position);
        if (status == PM_OK) good = json_add(list, position);
    }
    good = json_put(o, "positions", list) && good;
    good = good && json_put(o, "device", json_word(pm->device)) &&
           json_put(o, "n_vocab", json_size(pm->m->n_vocab));
    o = json_complete(o, good);
    session_close(s);
    free(biases);
    if (status == PM_OK) return json_take(o, json);
    json_decref(o);
    return status;
}

// ---- trace ------------------------------------------------------------------------------------

static json_t *view_json(const trace_view *v)
{
    json_t *o = json_object(), *shape = json_array();
    bool good = json_add(shape, json_size(v->rows)) && json_add(shape, json_size(v->n));
    good = json_put(o, "shape", shape) && good;
    return json_complete(o, good && json_put(o, "name", json_word(v->name)) &&
                                json_put(o, "first", inspect_floats(v->first, v->n_first)) &&
                                json_put(o, "length", json_finite(v->length)));
}

static pm_status take_op(void *arg, const plan_set *set, uint32_t index, const plan_op *op,
                         const trace_view *views, uint32_t n_views)
{
    buf does = {0};
    plan_print_operands(set, op, &does);
    json_t *o = json_object(), *writes = json_array();
    bool good = !does.failed;
    for (uint32_t i = 0; i < n_views && good; i++) good = json_add(writes, view_json(&views[i]));
    good = json_put(o, "writes", writes) && good;
    good = good && json_put(o, "index", json_size(index)) &&
           json_put(o, "op", json_word(plan_op_name(op->kind))) &&
           json_put(o, "layer", json_integer(op->layer)) &&
           json_put(o, "label", json_word(op->label)) &&
           json_put(o, "does", json_text(does.data, does.len));
    buf_free(&does);
    good = json_add(arg, o) && good;
    return good ? PM_OK : error_memory("a trace", 0);
}

// The prompt as the model's template has it, and its ids; with `raw` the text itself.
static pm_status prompt_of(const pm_model *pm, const pm_options *o, const char *text, int raw,
                           text_ids *ids, json_t *out)
{
    const text_vocab *v = pm->m->vocab;
    if (!v) return error_set(PM_ERROR_FILE, "%s: has no vocabulary", gguf_path(pm->m->file));
    if (raw) {
        const text_specials *s = text_special_ids(v);
        pm_status status = PM_OK;
        if (s->add_bos && s->bos != TEXT_NO_TOKEN) status = text_ids_add(ids, s->bos);
        if (status == PM_OK) status = text_encode(v, text, strlen(text), false, ids);
        bool good =
            json_put(out, "template", json_null()) && json_put(out, "rendered", json_word(text));
        return status != PM_OK || good ? status : error_memory("a trace", 0);
    }
    conversation_params params = {.now = -1};
    if (pm_options_is_set(o, "template")) params.replacement = pm_options_get(o, "template");
    params.own_template.data = pm_model_template(pm, &params.own_template.len);
    conversation *c = NULL;
    bool thinking; // of no interest here
    char *rendered = NULL;
    size_t n = 0;
    pm_status status = conversation_open(v, &params, &c);
    if (status == PM_OK) status = conversation_add(c, "user", text, strlen(text));
    if (status == PM_OK) status = conversation_render(c, NULL, true, &rendered, &n);
    if (status == PM_OK) status = conversation_ids(c, NULL, true, ids, &thinking);
    if (status == PM_OK && !(json_put(out, "template", json_word(conversation_template_name(c))) &&
                             json_put(out, "rendered", json_text(rendered, n))))
        status = error_memory("a trace", 0);
    free(rendered);
    conversation_close(c);
    return status;
}

// Of every token the beginning of its row, as EMBED reads it.
static pm_status embedding_json(const model *m, const text_ids *ids, json_t **out)
{
    uint32_t n = m->n_embd, first = n < TRACE_FIRST ? n : TRACE_FIRST;
    float *row = malloc(n * sizeof *row);
    pm_status status = row ? PM_OK : error_memory("a row", n);
    json_t *list = json_array();
    bool good = true;
    for (size_t i = 0; i < ids->n && status == PM_OK && good; i++) {
        status = inspect_rows(m, m->embd, &ids->ids[i], 1, row);
        json_t *o = json_object();
        good = inspect_put_token(o, m, ids->ids[i]) &&
               json_put(o, "first", status == PM_OK ? inspect_floats(row, first) : json_null());
        good = json_add(list, o) && good;
    }
    free(row);
    *out = json_complete(list, good);
    return status != PM_OK || good ? status : error_memory("a trace", 0);
}

// Draws from the logits and puts what the draw saw.
static pm_status put_draw(const model *m, const pm_options *options, const text_ids *ids,
                          const float *logits, json_t *out)
{
    sampler_params params;
    sampler_bias *biases = NULL;
    sampler *s = NULL;
    buf words = {0};
    json_t *filters = NULL;
    int32_t id = 0, n_vocab = (int32_t)m->n_vocab;
    double log_sum = logits_log_sum(logits, n_vocab);
    pm_status status = params_sampler(m, options, &params, &biases);
    if (status == PM_OK) status = sampler_open(&params, &s);
    for (size_t i = 0; i < ids->n && status == PM_OK; i++) sampler_accept(s, ids->ids[i]);
    if (status == PM_OK) sampler_describe(s, &words);
    if (status == PM_OK)
        status = filters_json(&params, ids->ids, ids->n, logits, n_vocab, &filters);
    if (status == PM_OK) status = sampler_sample(s, logits, n_vocab, &id);
    if (status == PM_OK) {
        json_t *drawn = token_json(m, logits, log_sum, id, rank_of(logits, n_vocab, id));
        bool good = json_put(drawn, "cross_entropy", json_finite(log_sum - (double)logits[id]));
        size_t top = (size_t)options_int(options, "top", 10);
        good = json_put(out, "drawn", drawn) && good;
        good = json_put(out, "filters", json_incref(filters)) && good;
        if (!good || !json_put(out, "top", top_json(m, logits, log_sum, top)) ||
            !json_put(out, "sampler", json_text(words.data, words.len)))
            status = error_memory("a trace", 0);
    }
    json_decref(filters);
    buf_free(&words);
    sampler_close(s);
    free(biases);
    return status;
}

static pm_status put_steps(const pm_model *pm, const pm_options *options, const text_ids *ids,
                           json_t *out)
{
    json_t *ops = json_array();
    trace_request r = {.ids = ids->ids,
                       .n_ids = (uint32_t)ids->n,
                       .layer = (int)options_int(options, "layer", 0),
                       .each = take_op,
                       .arg = ops};
    pm_status status = params_plan(pm->m, pm->loaded, pm->device, options, &r.plan);
    if (status == PM_OK && ids->n >= r.plan.n_ctx)
        status = error_set(PM_ERROR_USAGE,
                           "a prompt of %zu tokens: the context holds %" PRIu32 " and needs room "
                           "for one more",
                           ids->n, r.plan.n_ctx);
    r.logits = malloc(pm->m->n_vocab * sizeof *r.logits);
    if (status == PM_OK && !r.logits) status = error_memory("logits", pm->m->n_vocab);
    if (status == PM_OK) status = trace_run(pm->loaded, &r);
    if (status == PM_OK) status = put_draw(pm->m, options, ids, r.logits, out);
    bool good = json_put(out, "ops", ops) && json_put(out, "layer", json_integer(r.layer));
    free(r.logits);
    return status != PM_OK || good ? status : error_memory("a trace", 0);
}

pm_status pm_inspect_trace(pm_model *pm, const pm_options *options, const char *prompt, int raw,
                           char **json)
{
    pm_status status = need_weights(pm);
    if (status != PM_OK) return status;
    text_ids ids = {0};
    json_t *o = json_object(), *embedding = NULL;
    status = prompt_of(pm, options, prompt, raw, &ids, o);
    if (status == PM_OK && ids.n == 0) status = error_set(PM_ERROR_USAGE, "an empty prompt");
    if (status == PM_OK) status = embedding_json(pm->m, &ids, &embedding);
    if (status == PM_OK) status = put_steps(pm, options, &ids, o);
    if (status == PM_OK) {
        bool good = json_put(o, "embedding", json_incref(embedding)) &&
                    json_put(o, "prompt", json_word(prompt)) &&
                    json_put(o, "device", json_word(pm->device)) &&
                    json_put(o, "description", json_word(pm->description)) &&
                    json_put(o, "n_layer", json_size(pm->m->n_layer)) &&
                    json_put(o, "n_embd", json_size(pm->m->n_embd)) &&
                    json_put(o, "n_vocab", json_size(pm->m->n_vocab)) &&
                    json_put(o, "tokens", inspect_tokens(pm->m, ids.ids, ids.n));
        if (!good) status = error_memory("a trace", 0);
    }
    json_decref(embedding);
    text_ids_free(&ids);
    if (status == PM_OK) return json_take(o, json);
    json_decref(o);
    return status;
}
