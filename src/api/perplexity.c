// Perplexity of a text, window by window; what `perplexity --json` prints.
#include "proof/perplexity.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/os.h"

enum { DEFAULT_WINDOW = 512 };

struct pm_perplexity {
    const pm_model *model;
    pm_model *beside;    // the model on the other device, where that needs weights of its own
    const char *against; // that device; NULL: none
    plan_options plan;
    perplexity run;
    text_ids ids;
    double seconds;
};

// ---- starting ---------------------------------------------------------------------------------

// As the common tool: BOS where the vocabulary adds one, never EOS; control tokens named in the
// text are text.
static pm_status tokens_of(const pm_model *pm, const char *text, size_t n_text, text_ids *ids,
                           int32_t *first)
{
    const text_vocab *v = pm->m->vocab;
    if (!v) return error_set(PM_ERROR_FILE, "%s: has no vocabulary", gguf_path(pm->m->file));
    const text_specials *s = text_special_ids(v);
    *first = s->add_bos ? s->bos : TEXT_NO_TOKEN;
    pm_status status = *first != TEXT_NO_TOKEN ? text_ids_add(ids, *first) : PM_OK;
    return status == PM_OK ? text_encode(v, text, n_text, false, ids) : status;
}

static pm_status choose_windows(pm_perplexity *p, const pm_options *o)
{
    uint32_t n_ctx = p->plan.n_ctx;
    if (n_ctx < PERPLEXITY_MIN_WINDOW)
        return error_set(PM_ERROR_USAGE,
                         "option 'ctx': windows of %" PRIu32 " tokens score none "
                         "(at least %d)",
                         n_ctx, PERPLEXITY_MIN_WINDOW);
    size_t all = p->ids.n / n_ctx;
    if (all == 0)
        return error_set(PM_ERROR_USAGE,
                         "the text has %zu tokens, a window takes %" PRIu32 " (a longer text, or a "
                         "smaller ctx)",
                         p->ids.n, n_ctx);
    size_t wanted = (size_t)options_int(o, "windows", 0);
    p->run.n_windows = wanted > 0 && wanted < all ? wanted : all;
    p->run.n_ctx = n_ctx;
    p->run.ids = p->ids.ids;
    return PM_OK;
}

static pm_status choose_plan(const pm_model *pm, const pm_options *o, plan_options *how)
{
    pm_status status = params_plan(pm->m, pm->loaded, pm->device, o, how);
    if (status == PM_OK && !pm_options_is_set(o, "ctx") && how->n_ctx > DEFAULT_WINDOW)
        how->n_ctx = DEFAULT_WINDOW;
    return status;
}

// The other side computes as exactly as its device can.
static pm_status open_against(pm_perplexity *p, const pm_options *o)
{
    const pm_model *pm = p->model;
    const char *device = pm_options_get(o, "against");
    if (!device) return PM_OK;
    const pm_model *other = pm;
    if (strcmp(device, pm->device) != 0 || pm->loaded->n_parts != 1) {
        pm_status status = model_load_beside(pm, o, device, &p->beside);
        if (status != PM_OK) return error_in(status, "option 'against'");
        other = p->beside;
    }
    p->against = other->device;
    plan_options exact;
    pm_status status = params_plan(other->m, other->loaded, other->device, o, &exact);
    exact.n_ctx = p->plan.n_ctx;
    exact.act = PLAN_ACT_F32;
    exact.kv_type = QUANT_F32;
    return status == PM_OK ? session_open(other->loaded, &exact, &p->run.against) : status;
}

pm_status pm_perplexity_start(pm_model *pm, const pm_options *options, const char *text,
                              size_t n_text, pm_perplexity **out)
{
    if (!pm->loaded)
        return error_set(PM_ERROR_USAGE, "the model was opened with vocab-only: no weights");
    pm_perplexity *p = calloc(1, sizeof *p);
    if (!p) return error_memory("a perplexity", sizeof *p);
    p->model = pm;
    pm_status status = tokens_of(pm, text, n_text, &p->ids, &p->run.first);
    if (status == PM_OK) status = choose_plan(pm, options, &p->plan);
    if (status == PM_OK) status = choose_windows(p, options);
    if (status == PM_OK) status = session_open(pm->loaded, &p->plan, &p->run.tested);
    if (status == PM_OK) status = open_against(p, options);
    if (status == PM_OK) {
        *out = p;
    } else {
        pm_perplexity_destroy(p);
    }
    return status;
}

void pm_perplexity_destroy(pm_perplexity *p)
{
    if (!p) return;
    perplexity_free(&p->run);
    session_close(p->run.tested);
    session_close(p->run.against);
    model_unload_beside(p->beside);
    text_ids_free(&p->ids);
    free(p);
}

// ---- running ----------------------------------------------------------------------------------

size_t pm_perplexity_n_windows(const pm_perplexity *p)
{
    return p->run.n_windows;
}

size_t pm_perplexity_n_done(const pm_perplexity *p)
{
    return p->run.n_done;
}

pm_status pm_perplexity_next(pm_perplexity *p)
{
    if (p->run.n_done == p->run.n_windows)
        return error_set(PM_ERROR_USAGE, "all %zu windows are done", p->run.n_windows);
    double start = os_seconds();
    pm_status status = perplexity_next(&p->run);
    p->seconds += os_seconds() - start;
    return status == PM_OK ? PM_OK : error_in(status, "window %zu", p->run.n_done + 1);
}

double pm_perplexity_value(const pm_perplexity *p, double *error)
{
    perplexity_value v = perplexity_of(&p->run.sums, p->run.n_used);
    if (error) *error = v.error;
    return v.perplexity;
}

// ---- the result as JSON -----------------------------------------------------------------------

static bool put_value(json_t *o, const perplexity_sums *sums, uint64_t n)
{
    perplexity_value v = perplexity_of(sums, n);
    return json_put(o, "perplexity", json_finite(v.perplexity)) &&
           json_put(o, "error", json_finite(v.error)) &&
           json_put(o, "mean_nll", json_finite(v.mean_nll)) &&
           json_put(o, "nll_error", json_finite(v.nll_error));
}

static json_t *against_json(pm_perplexity *p)
{
    if (!p->against) return json_null();
    divergence_summary s = divergence_of(&p->run.apart);
    json_t *o = json_object();
    if (json_put(o, "device", json_word(p->against)) && json_put(o, "act", json_word("f32")) &&
        json_put(o, "kv_type", json_word("f32")) &&
        put_value(o, &p->run.against_sums, p->run.n_used) &&
        json_put(o, "kl_mean", json_finite(s.kl_mean)) &&
        json_put(o, "kl_error", json_finite(s.kl_error)) &&
        json_put(o, "kl_p99", json_finite(s.kl_p99)) &&
        json_put(o, "kl_max", json_finite(s.kl_max)) &&
        json_put(o, "top1_agreement", json_finite(s.top1)) &&
        json_put(o, "max_abs", json_finite(s.max_abs)) &&
        json_put(o, "mean_abs", json_finite(s.mean_abs)))
        return o;
    json_decref(o);
    return NULL;
}

pm_status pm_perplexity_json(pm_perplexity *p, char **json)
{
    const perplexity *run = &p->run;
    json_t *o = json_object();
    bool good =
        json_put(o, "device", json_word(p->model->device)) &&
        json_put(o, "description", json_word(p->model->description)) &&
        json_put(o, "n_ctx", json_size(run->n_ctx)) &&
        json_put(o, "batch", json_size(p->plan.n_batch)) &&
        json_put(o, "kv_type", json_word(params_kv_name(p->plan.kv_type))) &&
        json_put(o, "act", json_word(p->plan.act == PLAN_ACT_Q8 ? "q8" : "f32")) &&
        json_put(o, "bos", json_boolean(run->first >= 0)) &&
        json_put(o, "tokens", json_size(p->ids.n)) &&
        json_put(o, "windows", json_size(run->n_done)) &&
        json_put(o, "scored", json_size(run->n_used)) && put_value(o, &run->sums, run->n_used) &&
        json_put(o, "seconds", json_finite(p->seconds)) && json_put(o, "against", against_json(p));
    if (good) return json_take(o, json);
    json_decref(o);
    return error_memory("a JSON document", 0);
}
