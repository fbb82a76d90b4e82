// What `check --json` prints.
#include "api/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/os.h"
#include "base/rng.h"
#include "proof/repeat.h"
#include "proof/reproducer.h"

// ---- what both sides evaluate -----------------------------------------------------------------

enum { MIN_TOKENS = 4, QUICK_TOKENS = 12, DEFAULT_TOKENS = 64, MOST_DOUBLINGS = 2 };
#define MAX_TEXT (UINT64_C(64) << 20)

typedef struct tokens {
    int32_t *ids;
    size_t n;
    bool from_text;
    uint64_t seed;
    uint32_t doublings; // times that there were too few to decide
} tokens;

// BOS first where the vocabulary adds one: some models (Gemma) rely on it so much that without it
// they are far outside what they were trained for, and rounding decides what they say.
static pm_status random_tokens(const model *m, uint64_t seed, size_t n, tokens *t)
{
    t->ids = malloc(n * sizeof *t->ids);
    if (!t->ids) return error_memory("tokens", n * sizeof *t->ids);
    for (size_t i = 0; i < n; i++) t->ids[i] = (int32_t)(rng_u64(seed, i) % m->n_vocab);
    const text_specials *specials = m->vocab ? text_special_ids(m->vocab) : NULL;
    if (specials && specials->add_bos && specials->bos != TEXT_NO_TOKEN) t->ids[0] = specials->bos;
    t->n = n;
    t->seed = seed;
    return PM_OK;
}

// At most n tokens from the beginning of a file.
static pm_status tokens_of_text(const pm_model *pm, const char *path, size_t n, tokens *t)
{
    char *text = NULL;
    size_t n_text = 0, n_all = 0;
    pm_status status = os_read_whole(path, MAX_TEXT, &text, &n_text);
    if (status != PM_OK) return status;
    t->from_text = true;
    t->ids = malloc(n * sizeof *t->ids);
    status = t->ids ? pm_tokenize(pm, text, n_text, PM_TOKENS_BOS, t->ids, n, &n_all)
                    : error_memory("tokens", n * sizeof *t->ids);
    t->n = n_all < n ? n_all : n;
    free(text);
    if (status == PM_OK && t->n < MIN_TOKENS) {
        status = error_set(PM_ERROR_USAGE, "%s: gives %zu tokens (%d are needed at least)", path,
                           t->n, MIN_TOKENS);
    }
    return status;
}

static pm_status choose_tokens(const pm_model *pm, const pm_options *o, tokens *t)
{
    size_t n = options_is_on(o, "quick") ? QUICK_TOKENS : DEFAULT_TOKENS;
    if (pm_options_is_set(o, "tokens")) n = (size_t)options_int(o, "tokens", DEFAULT_TOKENS);
    const char *path = pm_options_get(o, "text");
    if (path) return tokens_of_text(pm, path, n, t);
    int64_t seed = options_int(o, "seed", -1);
    return random_tokens(pm->m, seed >= 0 ? (uint64_t)seed : os_random_seed() >> 11, n, t);
}

// Twice as many random tokens, which begin with the same ones; false: there are to be no more.
static bool more_tokens(const pm_model *pm, const pm_options *o, tokens *t, pm_status *status)
{
    bool given = pm_options_is_set(o, "tokens") || pm_options_is_set(o, "ctx") || t->from_text;
    if (given || t->doublings == MOST_DOUBLINGS || 2 * t->n > pm->m->n_ctx_train) return false;
    free(t->ids);
    t->ids = NULL;
    t->doublings++;
    *status = random_tokens(pm->m, t->seed, 2 * t->n, t);
    return *status == PM_OK;
}

// The session's plan on this device, with a context of just the tokens where the option leaves it
// open.
static pm_status choose_plan(const pm_model *pm, const pm_options *o, const tokens *t,
                             plan_options *how)
{
    pm_status status = params_plan(pm->m, pm->loaded, pm->device, o, how);
    if (status != PM_OK) return status;
    uint32_t most = how->n_ctx;
    if (!pm_options_is_set(o, "ctx")) {
        how->n_ctx = (uint32_t)t->n;
        most = pm->m->positions.tensor == PLAN_NONE ? UINT32_MAX : pm->m->positions.rows;
    }
    if (t->n > most) {
        return error_set(PM_ERROR_USAGE, "%zu tokens do not fit: the context holds %" PRIu32, t->n,
                         most);
    }
    if (how->n_logits > t->n) how->n_logits = (uint32_t)t->n;
    return PM_OK;
}

// ---- the result as JSON -----------------------------------------------------------------------

// The document, unless a member was missing.
static json_t *complete(json_t *o, bool good)
{
    if (good) return o;
    json_decref(o);
    return NULL;
}

static json_t *value_json(const check_value *v)
{
    json_t *o = json_object();
    return complete(o, json_put(o, "buffer", json_word(v->name)) &&
                           json_put(o, "row", json_size(v->row)) &&
                           json_put(o, "col", json_size(v->col)) &&
                           json_put(o, "expected", json_finite(v->expected)) &&
                           json_put(o, "found", json_finite(v->found)));
}

json_t *check_op_json(const check_op *op)
{
    json_t *o = json_object();
    return complete(
        o, json_put(o, "index", json_size(op->index)) &&
               json_put(o, "op", json_word(plan_op_name(op->kind))) &&
               json_put(o, "label", json_word(op->label)) &&
               json_put(o, "layer", json_integer(op->layer)) &&
               json_put(o, "phase", json_word(op->phase)) &&
               json_put(o, "rows", json_size(op->n_rows)) &&
               json_put(o, "kernels", op->kernels[0] ? json_word(op->kernels) : json_null()) &&
               json_put(o, "compared", json_size(op->compared)) &&
               json_put(o, "nmse", json_finite(op->nmse)) &&
               json_put(o, "max_abs", json_finite(op->max_abs)) &&
               json_put(o, "bound", json_finite(op->bound)) &&
               json_put(o, "worst", value_json(&op->worst)) &&
               json_put(o, "steps", json_size(op->steps)) &&
               json_put(o, "steps_bound", json_size(op->steps_bound)) &&
               json_put(o, "nonfinite", json_size(op->nonfinite)) &&
               json_put(o, "pass", json_boolean(op->pass)));
}

static json_t *ops_json(const check_result *r)
{
    json_t *list = json_array();
    bool good = true;
    for (uint32_t i = 0; i < r->n_ops && good; i++)
        good = json_array_append_new(list, check_op_json(&r->ops[i])) == 0;
    return complete(list, good);
}

static json_t *layers_json(const check_result *r)
{
    json_t *list = json_array();
    bool good = true;
    for (uint32_t i = 0; i < r->n_layers && good; i++) {
        json_t *o = json_object();
        good = json_put(o, "layer", json_integer(r->layers[i].layer)) &&
               json_put(o, "nmse", json_finite(r->layers[i].nmse));
        good = json_array_append_new(list, o) == 0 && good;
    }
    return complete(list, good);
}

static json_t *logits_json(const check_result *r)
{
    if (r->n_logits == 0) return json_null();
    const divergence_summary *d = &r->logits;
    json_t *o = json_object();
    return complete(o, json_put(o, "rows", json_size(r->n_logits)) &&
                           json_put(o, "max_abs", json_finite(d->max_abs)) &&
                           json_put(o, "mean_abs", json_finite(d->mean_abs)) &&
                           json_put(o, "kl_mean", json_finite(d->kl_mean)) &&
                           json_put(o, "kl_error", json_finite(d->kl_error)) &&
                           json_put(o, "kl_p99", json_finite(d->kl_p99)) &&
                           json_put(o, "kl_max", json_finite(d->kl_max)) &&
                           json_put(o, "top1_agreement", json_finite(d->top1)) &&
                           json_put(o, "top1_judged", json_finite(d->top1_judged)) &&
                           json_put(o, "pass", json_boolean(r->logits_pass)));
}

static json_t *bounds_json(const check_result *r)
{
    json_t *o = json_object();
    return complete(o, json_put(o, "nmse_f32", json_finite(r->op_bound_f32)) &&
                           json_put(o, "nmse_q8", json_finite(r->op_bound_q8)) &&
                           json_put(o, "kl_mean", json_finite(r->kl_bound)) &&
                           json_put(o, "top1_judged", json_finite(r->top1_bound)) &&
                           json_put(o, "margin", json_finite(r->margin)));
}

static json_t *skipped_json(const check_result *r)
{
    json_t *list = json_array();
    bool good = true;
    for (uint32_t i = 0; i < r->n_skipped && good; i++) {
        json_t *o = json_object();
        good = json_put(o, "what", json_word(r->skipped[i].what)) &&
               json_put(o, "reason", json_word(r->skipped[i].why));
        good = json_array_append_new(list, o) == 0 && good;
    }
    return complete(list, good);
}

// The formats of the model's matrices: all of them took part.
static json_t *types_json(const model *m)
{
    json_t *list = json_array();
    bool good = true;
    for (uint32_t i = 0; i < m->n_tensors && good; i++) {
        bool is_new = !m->tensors[i].vector;
        for (uint32_t j = 0; j < i && is_new; j++)
            is_new = m->tensors[j].vector || m->tensors[j].type != m->tensors[i].type;
        if (is_new)
            good = json_array_append_new(list, json_word(quant_type_name(m->tensors[i].type))) == 0;
    }
    return complete(list, good);
}

static json_t *first_bad_json(const check_result *r)
{
    return r->first_bad < 0 ? json_null() : check_op_json(&r->ops[r->first_bad]);
}

// null where the tokens were evaluated once only.
static json_t *repeat_json(const repeat_result *r)
{
    if (r->runs < 2) return json_null();
    char hash[20];
    snprintf(hash, sizeof hash, "%016" PRIx64, r->hash);
    bool same = r->n_different == 0;
    json_t *o = json_object();
    return complete(o, json_put(o, "runs", json_size(r->runs)) &&
                           json_put(o, "different", json_size(r->n_different)) &&
                           json_put(o, "hash", json_word(hash)) &&
                           json_put(o, "first_run", same ? json_null() : json_size(r->first_run)) &&
                           json_put(o, "first_pos", same ? json_null() : json_size(r->first_pos)) &&
                           json_put(o, "pass", json_boolean(same)));
}

bool check_keeps_option(const char *name)
{
    for (size_t i = 0; i < n_option_rows; i++)
        if (!strcmp(option_table[i].name, name))
            return !strcmp(option_table[i].group, "debug") && strcmp(name, "cache-dir") != 0;
    return false;
}

static json_t *settings_json(const pm_options *o)
{
    json_t *all = json_object();
    bool good = true;
    for (size_t i = 0; i < n_option_rows && good; i++) {
        const char *name = option_table[i].name;
        if (check_keeps_option(name) && pm_options_is_set(o, name))
            good = json_put(all, name, json_word(pm_options_get(o, name)));
    }
    return complete(all, good);
}

// The first bad operation by itself, for those who don't have the model; null where there is none.
static pm_status reproducer_of_first_bad(const pm_model *pm, const plan_options *how,
                                         const tokens *t, const check_result *r, json_t **out)
{
    *out = json_null();
    if (r->first_bad < 0) return PM_OK;
    const check_op *op = &r->ops[r->first_bad];
    plan_set *set = NULL;
    reproducer one;
    pm_status status = plan_build(pm->m, how, &set);
    if (status != PM_OK) return status;
    reproducer_of(set, op->n_rows, op->first, op->index, t->seed, &one);
    *out = reproducer_json(&one);
    plan_set_free(set);
    bool on_gpu = !strcmp(op->executor, "vulkan");
    bool good = json_put(*out, "device", json_word(on_gpu ? pm->device : op->executor));
    return good ? PM_OK : error_memory("a JSON document", 0);
}

static pm_status report(const pm_model *pm, const pm_options *options, const char *against,
                        const plan_options *how, const tokens *t, const check_result *r,
                        const repeat_result *again, char **json)
{
    json_t *single = NULL;
    pm_status status = reproducer_of_first_bad(pm, how, t, r, &single);
    if (status != PM_OK) return status;
    json_t *o = json_object();
    bool good =
        json_put(o, "reproducer", single) && json_put(o, "settings", settings_json(options)) &&
        json_put(o, "pass", json_boolean(r->pass && again->n_different == 0)) &&
        json_put(o, "device", json_word(pm->device)) &&
        json_put(o, "description", json_word(pm->description)) &&
        json_put(o, "against", json_word(against)) &&
        json_put(o, "seed", t->from_text ? json_null() : json_size(t->seed)) &&
        json_put(o, "tokens", json_size(t->n)) &&
        json_put(o, "doublings", json_size(t->doublings)) &&
        json_put(o, "n_ctx", json_size(how->n_ctx)) &&
        json_put(o, "batch", json_size(how->n_batch)) &&
        json_put(o, "kv_type", json_word(params_kv_name(how->kv_type))) &&
        json_put(o, "act", json_word(how->act == PLAN_ACT_Q8 ? "q8" : "f32")) &&
        json_put(o, "types", types_json(pm->m)) &&
        json_put(o, "compared_values", json_size(r->compared)) && json_put(o, "ops", ops_json(r)) &&
        json_put(o, "layers", layers_json(r)) && json_put(o, "logits", logits_json(r)) &&
        json_put(o, "bounds", bounds_json(r)) && json_put(o, "skipped", skipped_json(r)) &&
        json_put(o, "repeat", repeat_json(again)) && json_put(o, "first_bad", first_bad_json(r));
    if (good) return json_take(o, json);
    json_decref(o);
    return error_memory("a JSON document", 0);
}

// ---- the result as a status -------------------------------------------------------------------

pm_status check_bad_op(const check_op *op)
{
    char layer[32] = "outside layers";
    if (op->layer >= 0) snprintf(layer, sizeof layer, "of layer %d", op->layer);
    if (op->kind == PLAN_PICK_OP && op->nonfinite > 0)
        return error_set(PM_ERROR_CHECK, "check: %s %s (%s, %s): another choice",
                         plan_op_name(op->kind), layer, op->label, op->phase);
    if (op->nonfinite > 0)
        return error_set(PM_ERROR_CHECK,
                         "check: %s %s (%s, %s): %" PRIu64 " of %" PRIu64 " values are not finite",
                         plan_op_name(op->kind), layer, op->label, op->phase, op->nonfinite,
                         op->compared);
    if (op->nmse <= op->bound)
        return error_set(PM_ERROR_CHECK,
                         "check: %s %s (%s, %s): %" PRIu64
                         " values are a rounding step apart, more than %" PRIu64,
                         plan_op_name(op->kind), layer, op->label, op->phase, op->steps,
                         op->steps_bound);
    return error_set(PM_ERROR_CHECK, "check: %s %s (%s, %s): NMSE %.3g above %.3g",
                     plan_op_name(op->kind), layer, op->label, op->phase, op->nmse, op->bound);
}

static pm_status verdict(const check_result *r, const repeat_result *again)
{
    const divergence_summary *d = &r->logits;
    if (r->pass && again->n_different > 0)
        return error_set(PM_ERROR_CHECK,
                         "check: probable race: %" PRIu32 " of %" PRIu32
                         " equal runs gave other logits than the first (run %" PRIu32
                         ", from position %" PRIu32 " on)",
                         again->n_different, again->runs, again->first_run, again->first_pos);
    if (r->pass) return PM_OK;
    if (r->compared == 0) return error_set(PM_ERROR_CHECK, "check: nothing was compared");
    if (r->first_bad >= 0) return check_bad_op(&r->ops[r->first_bad]);
    if (!(d->kl_mean <= r->kl_bound))
        return error_set(PM_ERROR_CHECK, "check: logits: mean KL divergence %.3g above %.3g",
                         d->kl_mean, r->kl_bound);
    if (d->top1_judged < r->top1_bound)
        return error_set(PM_ERROR_CHECK,
                         "check: logits: %.1f %% of the choices agree, less than %.1f %%",
                         100 * d->top1_judged, 100 * r->top1_bound);
    return error_set(PM_ERROR_CHECK, "check: layers: values that are not finite");
}

// ---- running ----------------------------------------------------------------------------------

// What is compared with: only what is plain enough to be believed.
static pm_status choose_against(const pm_options *o, const char **device)
{
    const char *given = pm_options_get(o, "against");
    *device = given ? given : "reference";
    if (!strcmp(*device, "reference") || !strcmp(*device, "cpu")) return PM_OK;
    return error_set(PM_ERROR_USAGE, "option 'against': check compares with reference or cpu");
}

// The other side: the model's weights once more, where the device's can't serve.
static pm_status load_against(const pm_model *pm, const pm_options *o, const char *device,
                              weights **own, const weights **out)
{
    const exec_kind *kind = exec_kind_named(device);
    const weights *loaded = pm->loaded;
    *out = loaded;
    if (loaded->n_parts == 1 && loaded->parts[0].kind == kind) return PM_OK;
    weights_part all = {
        .kind = kind,
        .params = {.n_threads = pm->n_threads, .isa = pm_options_get(o, "isa")},
        .first_layer = 0,
        .end_layer = pm->m->n_layer,
    };
    pm_status status = weights_load(pm->m, &all, 1, own);
    *out = *own;
    return status;
}

pm_status pm_check(pm_model *pm, const pm_options *options, char **json)
{
    if (!pm->loaded) {
        return error_set(PM_ERROR_USAGE, "the model was opened with vocab-only: no weights");
    }
    tokens t = {0};
    check_options how = {.inject = {.kind = PLAN_N_OP_KINDS}};
    bool ops = options_is_on(options, "ops"), lockstep = options_is_on(options, "lockstep");
    how.isolated = ops || !lockstep;
    how.lockstep = lockstep || !ops;
    const char *inject = pm_options_get(options, "inject");
    weights *own = NULL;
    const weights *against = NULL;
    const char *device = NULL;
    check_result result = {0};
    repeat_result again = {0};
    uint32_t runs = (uint32_t)options_int(options, "repeat", 1);
    pm_status status = inject ? check_parse_inject(inject, &how.inject) : PM_OK;
    if (status == PM_OK) status = choose_against(options, &device);
    if (status == PM_OK) status = choose_tokens(pm, options, &t);
    if (status == PM_OK) status = load_against(pm, options, device, &own, &against);
    for (bool again_with_more = true; status == PM_OK && again_with_more;) {
        check_result_free(&result);
        status = choose_plan(pm, options, &t, &how.plan);
        how.ids = t.ids;
        how.n_ids = (uint32_t)t.n;
        if (status == PM_OK) status = check_run(pm->loaded, against, &how, &result);
        again_with_more =
            status == PM_OK && result.undecided && more_tokens(pm, options, &t, &status);
    }
    if (status != PM_OK) {
        check_result_free(&result);
    } else {
        if (runs > 1) status = repeat_run(pm->loaded, &how.plan, t.ids, how.n_ids, runs, &again);
        if (status == PM_OK)
            status = report(pm, options, device, &how.plan, &t, &result, &again, json);
        if (status == PM_OK) status = verdict(&result, &again);
        check_result_free(&result);
    }
    weights_unload(own);
    free(t.ids);
    return status;
}

// A copy of the options of these groups that were set.
static pm_status copy_groups(const pm_options *from, const char *groups, pm_options **out)
{
    pm_options *copy = pm_options_create();
    pm_status status = copy ? PM_OK : error_memory("options", 0);
    for (size_t i = 0; i < n_option_rows && status == PM_OK; i++) {
        const option_row *row = &option_table[i];
        if (!strstr(groups, row->group) || !pm_options_is_set(from, row->name)) continue;
        status = pm_options_set(copy, row->name, pm_options_get(from, row->name));
    }
    if (status == PM_OK)
        *out = copy;
    else
        pm_options_destroy(copy);
    return status;
}

pm_status check_copy_options(const pm_options *o, pm_options **out)
{
    return copy_groups(o, "run debug check against repeat", out);
}

pm_status check_quickly(pm_model *pm, const pm_options *o, bool *passed)
{
    *passed = false;
    pm_options *quick = NULL;
    char *json = NULL;
    pm_status status = copy_groups(o, "run debug", &quick);
    const char *inject = pm_options_get(o, "inject"); // so that tests see a check that fails
    if (status == PM_OK && inject) status = pm_options_set(quick, "inject", inject);
    if (status == PM_OK) status = pm_options_set(quick, "ctx", NULL); // just its own tokens
    if (status == PM_OK) status = pm_options_set(quick, "quick", "true");
    if (status == PM_OK) status = pm_check(pm, quick, &json);
    *passed = status == PM_OK;
    pm_free(json);
    pm_options_destroy(quick);
    return status == PM_ERROR_CHECK ? PM_OK : status;
}
