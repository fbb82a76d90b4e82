// Options to the parameters of the layers below.
#include "api/handles.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"

enum { DEFAULT_CTX = 4096 };

pm_status params_n_ctx(const model *m, const pm_options *o, uint32_t *n_ctx)
{
    uint32_t trained = m->n_ctx_train;
    if (options_word(o, "ctx", "max")) {
        *n_ctx = trained;
    } else {
        int64_t n = options_int(o, "ctx", trained < DEFAULT_CTX ? trained : DEFAULT_CTX);
        *n_ctx = (uint32_t)n;
    }
    if (m->positions.tensor != PLAN_NONE && *n_ctx > m->positions.rows) {
        return error_set(PM_ERROR_USAGE,
                         "option 'ctx': %" PRIu32 " is too much, the model has only %" PRIu32
                         " positions",
                         *n_ctx, m->positions.rows);
    }
    return PM_OK;
}

exec_gpu params_gpu(const pm_options *o)
{
    return (exec_gpu){
        .disable = pm_options_get(o, "vk-disable"),
        .debug_barriers = options_is_on(o, "vk-debug-barriers"),
        .profile = options_word(o, "vk-profile", "auto") ? NULL : pm_options_get(o, "vk-profile"),
        .pick = options_is_on(o, "vk-pick"),
        .minimum_limits = options_word(o, "vk-limits", "minimum"),
        .max_alloc = (uint64_t)options_int(o, "max-alloc", 0),
        .max_binding = (uint64_t)options_int(o, "max-binding", 0),
        .max_submit_ms = options_real(o, "max-submit"),
        .cache_dir = pm_options_get(o, "cache-dir"),
        .prepare = true,
    };
}

// Act=q8 is the default where the executor that runs the last layers says so.
static plan_act default_act(const weights *loaded, const char *device)
{
    if (!loaded) return strcmp(device, "reference") != 0 ? PLAN_ACT_Q8 : PLAN_ACT_F32;
    const weights_part *last = &loaded->parts[loaded->n_parts - 1];
    return last->kind->prefers_q8(last->loaded) ? PLAN_ACT_Q8 : PLAN_ACT_F32;
}

pm_status params_plan(const model *m, const weights *loaded, const char *device,
                      const pm_options *o, plan_options *out)
{
    bool reference = !strcmp(device, "reference");
    plan_options p = {.n_slots = 1};
    pm_status status = params_n_ctx(m, o, &p.n_ctx);
    if (status != PM_OK) return status;
    p.n_batch = (uint32_t)options_int(o, "batch", 512);
    p.kv_type = reference ? QUANT_F32 : QUANT_F16;
    if (options_word(o, "kv-type", "f32")) p.kv_type = QUANT_F32;
    if (options_word(o, "kv-type", "f16")) p.kv_type = QUANT_F16;
    if (options_word(o, "kv-type", "q8_0")) p.kv_type = QUANT_Q8_0;
    if (p.kv_type == QUANT_Q8_0 && m->head_dim % 32 != 0) {
        return error_set(PM_ERROR_USAGE,
                         "option 'kv-type': q8_0 needs a head size that is a multiple of 32, the "
                         "model's is %" PRIu32,
                         m->head_dim);
    }
    p.act = default_act(loaded, device);
    if (options_word(o, "act", "f32")) p.act = PLAN_ACT_F32;
    if (options_word(o, "act", "q8")) p.act = PLAN_ACT_Q8;
    p.no_fuse = options_is_on(o, "no-fuse");
    // Rows that want logits at once: what fits 64 MiB, at least one.
    uint64_t rows = (UINT64_C(64) << 20) / (m->n_vocab * sizeof(float));
    p.n_logits = rows < 1 ? 1 : rows > p.n_batch ? p.n_batch : (uint32_t)rows;
    *out = p;
    return PM_OK;
}

const char *params_kv_name(quant_type kv_type)
{
    return kv_type == QUANT_F32 ? "f32" : kv_type == QUANT_F16 ? "f16" : "q8_0";
}

// ---- sampler ----------------------------------------------------------------------------------

// Options that a key of the file gives a default to, with where the value goes.
typedef struct file_default {
    const char *option, *key;
} file_default;

static const file_default real_defaults[] = {
    {"temp", "general.sampling.temp"},
    {"top-p", "general.sampling.top_p"},
    {"min-p", "general.sampling.min_p"},
    {"repeat-penalty", "general.sampling.penalty_repeat"},
};
static const file_default int_defaults[] = {
    {"top-k", "general.sampling.top_k"},
    {"repeat-last", "general.sampling.penalty_last_n"},
};

static const option_row *row_named(const char *name)
{
    for (size_t i = 0; i < n_option_rows; i++) {
        if (!strcmp(option_table[i].name, name)) return &option_table[i];
    }
    return NULL;
}

// A value of the file outside the option's range is refused like one of the user.
static pm_status in_range(const char *option, const char *key, double value)
{
    const option_row *row = row_named(option);
    if (value >= row->lowest && value <= row->highest) return PM_OK;
    return error_set(PM_ERROR_FILE, "key '%s': %g is not allowed (%s; option '%s' replaces it)",
                     key, value, row->range, option);
}

static pm_status real_of(const model *m, const pm_options *o, const char *option, double *out)
{
    *out = options_real(o, option);
    if (!m || pm_options_is_set(o, option)) return PM_OK;
    for (size_t i = 0; i < sizeof real_defaults / sizeof *real_defaults; i++) {
        if (strcmp(real_defaults[i].option, option) != 0) continue;
        const char *key = real_defaults[i].key;
        if (!gguf_find(m->file, key)) return PM_OK;
        pm_status status = gguf_get_f64(m->file, key, out);
        return status == PM_OK ? in_range(option, key, *out) : status;
    }
    return PM_OK;
}

static pm_status int_of(const model *m, const pm_options *o, const char *option, int64_t *out)
{
    *out = options_int(o, option, 0);
    if (!m || pm_options_is_set(o, option)) return PM_OK;
    for (size_t i = 0; i < sizeof int_defaults / sizeof *int_defaults; i++) {
        if (strcmp(int_defaults[i].option, option) != 0) continue;
        const char *key = int_defaults[i].key;
        if (!gguf_find(m->file, key)) return PM_OK;
        pm_status status = gguf_get_i64(m->file, key, out);
        // Other programs write -1 for "all tokens" where 0 says the same here.
        if (status == PM_OK && !strcmp(option, "top-k") && *out == -1) *out = 0;
        return status == PM_OK ? in_range(option, key, (double)*out) : status;
    }
    return PM_OK;
}

static pm_status read_biases(const model *m, const pm_options *o, sampler_params *out,
                             sampler_bias **biases)
{
    size_t n = options_n_values(o, "logit-bias");
    *biases = calloc(n + 1, sizeof **biases);
    if (!*biases) return error_memory("logit biases", n * sizeof **biases);
    for (size_t i = 0; i < n; i++) {
        int64_t id;
        double bias;
        options_bias(o, "logit-bias", i, &id, &bias);
        if (m && m->n_vocab > 0 && id >= m->n_vocab) {
            return error_set(PM_ERROR_USAGE,
                             "option 'logit-bias': no token %" PRId64 " (0 to %" PRIu32 ")", id,
                             m->n_vocab - 1);
        }
        (*biases)[i] = (sampler_bias){(int32_t)id, (float)bias};
    }
    out->biases = *biases;
    out->n_biases = n;
    return PM_OK;
}

pm_status params_sampler(const model *m, const pm_options *o, sampler_params *out,
                         sampler_bias **biases)
{
    sampler_params p = {0};
    *biases = NULL;
    pm_status status = real_of(m, o, "repeat-penalty", &p.repeat_penalty);
    if (status == PM_OK) status = real_of(m, o, "presence-penalty", &p.presence_penalty);
    if (status == PM_OK) status = real_of(m, o, "frequency-penalty", &p.frequency_penalty);
    if (status == PM_OK) status = int_of(m, o, "repeat-last", &p.repeat_last);
    if (status == PM_OK) status = real_of(m, o, "temp", &p.temp);
    if (status == PM_OK) status = int_of(m, o, "top-k", &p.top_k);
    if (status == PM_OK) status = real_of(m, o, "typical-p", &p.typical_p);
    if (status == PM_OK) status = real_of(m, o, "top-p", &p.top_p);
    if (status == PM_OK) status = real_of(m, o, "min-p", &p.min_p);
    if (status == PM_OK) status = read_biases(m, o, &p, biases);
    p.temp_last = options_is_on(o, "temp-last");
    // 53 bits: a number that every JSON reader keeps exactly, so that a run can be repeated.
    int64_t seed = options_int(o, "seed", -1);
    p.seed = seed >= 0 ? (uint64_t)seed : os_random_seed() >> 11;
    if (status == PM_OK) {
        *out = p;
    } else {
        free(*biases);
        *biases = NULL;
    }
    return status;
}
