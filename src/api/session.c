// Sessions, sampling, generation.
#include "engine/session.h"

#include <inttypes.h>
#include <stdlib.h>

#include "api/handles.h"

pm_status pm_session_create(pm_model *pm, const pm_options *options, pm_session **out)
{
    if (!pm->loaded) {
        return error_set(PM_ERROR_USAGE, "the model was opened with vocab-only: no weights");
    }
    plan_options how;
    pm_status status = params_plan(pm->m, pm->loaded, pm->device, options, &how);
    if (status != PM_OK) return status;
    pm_session *ps = calloc(1, sizeof *ps);
    if (!ps) return error_memory("a session", sizeof *ps);
    ps->model = pm;
    status = session_open(pm->loaded, &how, &ps->s);
    if (status == PM_OK) {
        *out = ps;
    } else {
        free(ps);
    }
    return status;
}

pm_status pm_session_size(const pm_model *pm, const pm_options *options, int32_t *n_ctx,
                          uint64_t *kv_bytes)
{
    if (!pm->loaded) {
        return error_set(PM_ERROR_USAGE, "the model was opened with vocab-only: no weights");
    }
    plan_options how;
    pm_status status = params_plan(pm->m, pm->loaded, pm->device, options, &how);
    if (status != PM_OK) return status;
    uint64_t bytes;
    if (!plan_kv_bytes(pm->m, how.n_ctx, how.n_slots, how.kv_type, &bytes)) {
        return error_set(PM_ERROR_RUN, "the KV cache of a context of %" PRIu32 " has no size",
                         how.n_ctx);
    }
    *n_ctx = (int32_t)how.n_ctx;
    *kv_bytes = bytes;
    return PM_OK;
}

void pm_session_destroy(pm_session *ps)
{
    if (!ps) return;
    session_close(ps->s);
    grammar_tokens_free(ps->tokens);
    free(ps);
}

const char *pm_session_prepared(const pm_session *ps)
{
    return session_prepared(ps->s);
}

int32_t pm_session_n_ctx(const pm_session *ps)
{
    return (int32_t)session_n_ctx(ps->s);
}

int32_t pm_session_n_past(const pm_session *ps)
{
    return (int32_t)session_n_past(ps->s);
}

uint64_t pm_session_kv_bytes(const pm_session *ps)
{
    return session_kv_bytes(ps->s);
}

const int32_t *pm_session_tokens(const pm_session *ps)
{
    return session_tokens(ps->s);
}

pm_status pm_session_eval(pm_session *ps, const int32_t *ids, size_t n, int all)
{
    return session_eval(ps->s, ids, n, all != 0);
}

const float *pm_session_logits(const pm_session *ps, size_t index)
{
    return session_logits(ps->s, index);
}

pm_status pm_session_rewind(pm_session *ps, int32_t n_past)
{
    if (n_past < 0 || (uint32_t)n_past > session_n_past(ps->s)) {
        return error_set(PM_ERROR_USAGE, "the session can't go to position %d (0 to %d)", n_past,
                         pm_session_n_past(ps));
    }
    session_rewind(ps->s, (uint32_t)n_past);
    return PM_OK;
}

void pm_session_keep_hidden(pm_session *ps, int keep)
{
    session_keep_hidden(ps->s, keep != 0);
}

const float *pm_session_hidden(const pm_session *ps, int layer)
{
    return session_hidden(ps->s, layer);
}

void pm_session_interrupt(pm_session *ps)
{
    session_interrupt(ps->s);
}

// ---- sampling ---------------------------------------------------------------------------------

pm_status pm_sampler_create(const pm_model *pm, const pm_options *options, pm_sampler **out)
{
    sampler_params params;
    sampler_bias *biases;
    pm_status status = params_sampler(pm ? pm->m : NULL, options, &params, &biases);
    if (status != PM_OK) return status;
    pm_sampler *s = calloc(1, sizeof *s);
    status = s ? sampler_open(&params, &s->s) : error_memory("a sampler", sizeof *s);
    free(biases);
    if (status == PM_OK) {
        sampler_describe(s->s, &s->description);
        if (s->description.failed) status = error_memory("a sampler", sizeof *s);
    }
    if (status == PM_OK) {
        *out = s;
    } else {
        pm_sampler_destroy(s);
    }
    return status;
}

void pm_sampler_destroy(pm_sampler *s)
{
    if (!s) return;
    sampler_close(s->s);
    buf_free(&s->description);
    free(s);
}

uint64_t pm_sampler_seed(const pm_sampler *s)
{
    return sampler_seed(s->s);
}

const char *pm_sampler_describe(const pm_sampler *s)
{
    return s->description.data;
}

void pm_sampler_accept(pm_sampler *s, int32_t id)
{
    sampler_accept(s->s, id);
}

pm_status pm_sampler_sample(pm_sampler *s, const float *logits, int32_t n_vocab, int32_t *id)
{
    return sampler_sample(s->s, logits, n_vocab, id);
}

void pm_sampler_reset(pm_sampler *s)
{
    sampler_reset(s->s);
}
