// The numbers of a model, from the keys of its file. Whatever would change results and is not
// understood is refused here, by name.
#include "model/model_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

static const char *key_of(const model *m, const char *name, char out[128])
{
    snprintf(out, 128, "%s.%s", m->arch->name, name);
    return out;
}

static pm_status get_u32(const model *m, const char *name, uint32_t *out)
{
    char key[128];
    return gguf_get_u32(m->file, key_of(m, name, key), out);
}

static pm_status get_f64(const model *m, const char *name, double *out)
{
    char key[128];
    pm_status status = gguf_get_f64(m->file, key_of(m, name, key), out);
    if (status == PM_OK && !isfinite(*out))
        return error_set(PM_ERROR_FILE, "key '%s' is not finite", key);
    return status;
}

static bool has(const model *m, const char *name)
{
    char key[128];
    return gguf_find(m->file, key_of(m, name, key)) != NULL;
}

// A count that must be there (required) and lie in [1, max].
static pm_status get_count(const model *m, const char *name, bool required, uint32_t max,
                           uint32_t *out)
{
    if (required && !has(m, name))
        return error_set(PM_ERROR_FILE, "key '%s.%s' is missing", m->arch->name, name);
    pm_status status = get_u32(m, name, out);
    if (status == PM_OK && (*out < 1 || *out > max))
        status = error_set(PM_ERROR_FILE, "key '%s.%s' is %" PRIu32 ", expected 1 to %" PRIu32,
                           m->arch->name, name, *out, max);
    return status;
}

// Keys that are read below, and those that say nothing about the computation of logits.
static const char *const known_keys[] = {
    "block_count", "context_length", "embedding_length", "feed_forward_length",
    "use_parallel_residual", "attn_logit_softcapping", "final_logit_softcapping",
    "attention.head_count", "attention.head_count_kv", "attention.key_length",
    "attention.value_length", "attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon",
    "attention.scale", "attention.sliding_window", "attention.sliding_window_pattern",
    "rope.dimension_count", "rope.freq_base", "rope.freq_base_swa", "rope.scale_linear",
    "rope.scaling.type", "rope.scaling.factor", "rope.scaling.attn_factor",
    "rope.scaling.original_context_length", "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_ext_factor", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow",
    // not of the computation
    "vocab_size",               // the embedding's rows say it
    "tensor_data_layout",       // a remark of the converter
    "rope.scaling.finetuned",   // how it was trained
    "pooling_type",             // of embeddings for search
    "classifier.output_labels", // of classifiers
};

// Keys of computations that no plan here has, with the value that means nothing: other values are
// refused, and so is every key that is neither here nor above.
static const struct {
    const char *name;
    double neutral;
    bool experts;
} neutral_keys[] = {
    {"expert_count", 0, true},
    {"expert_used_count", 0, true},
    {"expert_shared_count", 0, true},
    {"expert_group_count", 0, true},
    {"expert_group_used_count", 0, true},
    {"expert_feed_forward_length", 0, true},
    {"expert_shared_feed_forward_length", 0, true},
    {"expert_gating_func", 0, true},
    {"expert_weights_norm", 0, true},
    {"expert_weights_scale", 0, true},
    {"leading_dense_block_count", 0, true},
    {"interleave_moe_layer_step", 0, true},
    {"moe_every_n_layers", 0, true},
    {"logit_scale", 1, false},
    {"residual_scale", 1, false},
    {"embedding_scale", 1, false},
    {"attention.clamp_kqv", 0, false},
    {"attention.max_alibi_bias", 0, false},
    {"attention.causal", 1, false},
    {"attention.key_length_mla", 0, false},
    {"attention.value_length_mla", 0, false},
    {"attention.shared_kv_layers", 0, false},
    {"attention.temperature_scale", 0, false},
    {"rope.scaling.yarn_log_multiplier", 0, false},
    {"nextn_predict_layers", 0, false},
};

// Keys for windowed layers that mean nothing while they say what another key says of all layers.
static const struct {
    const char *name, *of_all;
} twin_keys[] = {
    {"attention.key_length_swa", "attention.key_length"},
    {"attention.value_length_swa", "attention.value_length"},
    {"rope.dimension_count_swa", "rope.dimension_count"},
};

static bool is_number(const gguf_value *v)
{
    return v->type != GGUF_STRING && v->type != GGUF_ARRAY;
}

// "llama.logit_scale is 0.5", "is 'text'", "is a list".
static void show_value(const model *m, const gguf_value *v, char out[160])
{
    gguf_string text = {0};
    int n = (int)(v->key.len < 80 ? v->key.len : 80);
    if (is_number(v)) {
        snprintf(out, 160, "'%.*s' is %g", n, v->key.data, gguf_item_number(m->file, v, 0));
    } else if (v->type == GGUF_STRING) {
        char key[96];
        snprintf(key, sizeof key, "%.*s", n, v->key.data);
        if (gguf_get_string(m->file, key, &text) != PM_OK) text = (gguf_string){"", 0};
        snprintf(out, 160, "'%s' is '%.*s'", key, (int)(text.len < 40 ? text.len : 40), text.data);
    } else {
        snprintf(out, 160, "'%.*s' is a list", n, v->key.data);
    }
}

static pm_status unknown_key(const char *shown)
{
    buf list = {0};
    for (size_t i = 0; i < sizeof known_keys / sizeof *known_keys; i++)
        buf_printf(&list, "%s%s", i ? ", " : "", known_keys[i]);
    pm_status status = error_set(PM_ERROR_FILE,
                                 "%s: this property is not known, it may change results "
                                 "(supported: %s)",
                                 shown, list.failed ? "" : list.data);
    buf_free(&list);
    return status;
}

static pm_status judge_neutral(const model *m, const gguf_value *v, size_t i)
{
    char shown[160];
    if (is_number(v) && gguf_item_number(m->file, v, 0) == neutral_keys[i].neutral) return PM_OK;
    show_value(m, v, shown);
    if (neutral_keys[i].experts)
        return error_set(PM_ERROR_FILE, "%s: mixture-of-experts models are not supported yet",
                         shown);
    return error_set(PM_ERROR_FILE,
                     "%s: this property changes results and is not supported (only %g is)", shown,
                     neutral_keys[i].neutral);
}

static pm_status judge_twin(const model *m, const gguf_value *v, size_t i)
{
    char key[128], shown[160];
    const gguf_value *other = gguf_find(m->file, key_of(m, twin_keys[i].of_all, key));
    if (other && is_number(v) && is_number(other) &&
        gguf_item_number(m->file, v, 0) == gguf_item_number(m->file, other, 0))
        return PM_OK;
    show_value(m, v, shown);
    return error_set(PM_ERROR_FILE,
                     "%s: layers that differ in it are not supported (only the value of '%s' is)",
                     shown, key);
}

static bool same_text(const char *a, size_t n, const char *b)
{
    return strlen(b) == n && !memcmp(a, b, n);
}

// name: the key without the architecture in front.
static pm_status judge_key(const model *m, const gguf_value *v, const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof known_keys / sizeof *known_keys; i++)
        if (same_text(name, n, known_keys[i])) return PM_OK;
    for (size_t i = 0; i < sizeof neutral_keys / sizeof *neutral_keys; i++)
        if (same_text(name, n, neutral_keys[i].name)) return judge_neutral(m, v, i);
    for (size_t i = 0; i < sizeof twin_keys / sizeof *twin_keys; i++)
        if (same_text(name, n, twin_keys[i].name)) return judge_twin(m, v, i);
    char shown[160];
    show_value(m, v, shown);
    return unknown_key(shown);
}

// Experts first: of a file that has them, that is what its user should read.
static pm_status refuse_unknown_properties(const model *m)
{
    size_t n_arch = strlen(m->arch->name);
    for (size_t i = 0; i < sizeof neutral_keys / sizeof *neutral_keys; i++) {
        char key[128];
        const gguf_value *v = gguf_find(m->file, key_of(m, neutral_keys[i].name, key));
        pm_status status = v ? judge_neutral(m, v, i) : PM_OK;
        if (status != PM_OK) return status;
    }
    for (size_t i = 0; i < gguf_n_values(m->file); i++) {
        const gguf_value *v = gguf_value_at(m->file, i);
        if (v->key.len <= n_arch || memcmp(v->key.data, m->arch->name, n_arch) != 0 ||
            v->key.data[n_arch] != '.')
            continue;
        pm_status status = judge_key(m, v, v->key.data + n_arch + 1, v->key.len - n_arch - 1);
        if (status != PM_OK) return status;
    }
    return PM_OK;
}

static pm_status read_sizes(model *m)
{
    enum { MAX_LAYERS = 1024, MAX_HEADS = 1024, MAX_WIDTH = 1 << 20, MAX_CTX = 1 << 28 };
    pm_status status = get_count(m, "block_count", true, MAX_LAYERS, &m->n_layer);
    if (status == PM_OK) status = get_count(m, "embedding_length", true, MAX_WIDTH, &m->n_embd);
    if (status == PM_OK) status = get_count(m, "feed_forward_length", true, MAX_WIDTH, &m->n_ff);
    if (status == PM_OK) status = get_count(m, "attention.head_count", true, MAX_HEADS, &m->n_head);
    m->n_head_kv = m->n_head;
    if (status == PM_OK)
        status = get_count(m, "attention.head_count_kv", false, MAX_HEADS, &m->n_head_kv);
    if (status == PM_OK) status = get_count(m, "context_length", true, MAX_CTX, &m->n_ctx_train);
    if (status != PM_OK) return status;

    if (m->n_head % m->n_head_kv != 0)
        return error_set(PM_ERROR_FILE, "%" PRIu32 " heads can't share %" PRIu32 " key-value heads",
                         m->n_head, m->n_head_kv);
    m->head_dim = m->n_embd / m->n_head;
    if (!has(m, "attention.key_length") && m->n_embd % m->n_head != 0)
        return error_set(PM_ERROR_FILE,
                         "%" PRIu32 " heads don't divide the embedding length %" PRIu32, m->n_head,
                         m->n_embd);
    status = get_count(m, "attention.key_length", false, 1 << 14, &m->head_dim);
    uint32_t value_length = m->head_dim;
    if (status == PM_OK)
        status = get_count(m, "attention.value_length", false, 1 << 14, &value_length);
    if (status == PM_OK && value_length != m->head_dim)
        return error_set(PM_ERROR_FILE,
                         "values of %" PRIu32 " dimensions beside keys of %" PRIu32
                         " are not supported",
                         value_length, m->head_dim);
    return status;
}

static pm_status read_scales(model *m)
{
    double eps = 1e-5, attn_softcap = 0, logit_softcap = 0, scale = 0;
    const char *eps_key = m->arch->norm == PLAN_NORM_RMS ? "attention.layer_norm_rms_epsilon"
                                                         : "attention.layer_norm_epsilon";
    pm_status status = get_f64(m, eps_key, &eps);
    if (status == PM_OK) status = get_f64(m, "attn_logit_softcapping", &attn_softcap);
    if (status == PM_OK) status = get_f64(m, "final_logit_softcapping", &logit_softcap);
    if (status == PM_OK) status = get_f64(m, "attention.scale", &scale);
    if (status != PM_OK) return status;
    if (eps < 0 || eps > 1)
        return error_set(PM_ERROR_FILE, "key '%s.%s' is %g, expected 0 to 1", m->arch->name,
                         eps_key, eps);
    uint32_t divisor = m->n_layer == m->arch->wide_layers ? m->n_embd / m->n_head : m->head_dim;
    m->norm_eps = (float)eps;
    m->attn_scale = (float)(scale != 0 ? scale : 1.0 / sqrt(divisor));
    m->attn_softcap = (float)attn_softcap;
    m->logit_softcap = (float)logit_softcap;
    m->embed_scale = m->arch->embed_scale ? (float)sqrt(m->n_embd) : 1.0f;
    m->parallel_residual = m->arch->parallel_residual;
    char key[128];
    return gguf_get_bool(m->file, key_of(m, "use_parallel_residual", key), &m->parallel_residual);
}

static pm_status read_scaling_type(model *m)
{
    char key[128];
    gguf_string type = {0};
    pm_status status = gguf_get_string(m->file, key_of(m, "rope.scaling.type", key), &type);
    if (status != PM_OK) return status;
    model_rope *r = &m->rope;
    static const struct {
        const char *name;
        model_scaling scaling;
    } known[] = {{"none", MODEL_SCALE_NONE},
                 {"linear", MODEL_SCALE_LINEAR},
                 {"yarn", MODEL_SCALE_YARN},
                 {"longrope", MODEL_SCALE_NONE}};
    if (!type.data) { // a factor alone has always meant linear
        r->scaling = r->factor != 1 ? MODEL_SCALE_LINEAR : MODEL_SCALE_NONE;
        return PM_OK;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (type.len != strlen(known[i].name) || memcmp(type.data, known[i].name, type.len) != 0)
            continue;
        if (!strcmp(known[i].name, "longrope") && !m->arch->longrope) break;
        r->scaling = known[i].scaling;
        return PM_OK;
    }
    return error_set(PM_ERROR_FILE,
                     "RoPE scaling '%.*s' ('%s') is not supported (supported: none, linear, yarn, "
                     "longrope in phi3)",
                     (int)(type.len < 64 ? type.len : 64), type.data, key);
}

static pm_status read_rope(model *m)
{
    model_rope *r = &m->rope;
    *r = (model_rope){.base = 10000,
                      .base_local = 10000,
                      .n_rot = m->head_dim,
                      .factor = 1,
                      .attn_factor = 1,
                      .ext_factor = 1,
                      .beta_fast = 32,
                      .beta_slow = 1,
                      .n_ctx_orig = m->n_ctx_train};
    if (m->arch->rope == PLAN_ROPE_NONE) return PM_OK;
    pm_status status = get_f64(m, "rope.freq_base", &r->base);
    if (status == PM_OK) status = get_f64(m, "rope.freq_base_swa", &r->base_local);
    if (status == PM_OK) status = get_u32(m, "rope.dimension_count", &r->n_rot);
    if (status == PM_OK) status = get_f64(m, "rope.scale_linear", &r->factor);
    if (status == PM_OK) status = get_f64(m, "rope.scaling.factor", &r->factor);
    if (status == PM_OK) status = get_f64(m, "rope.scaling.attn_factor", &r->attn_factor);
    if (status == PM_OK) status = get_f64(m, "rope.scaling.yarn_attn_factor", &r->attn_factor);
    if (status == PM_OK) status = get_f64(m, "rope.scaling.yarn_ext_factor", &r->ext_factor);
    if (status == PM_OK) status = get_f64(m, "rope.scaling.yarn_beta_fast", &r->beta_fast);
    if (status == PM_OK) status = get_f64(m, "rope.scaling.yarn_beta_slow", &r->beta_slow);
    if (status == PM_OK)
        status = get_u32(m, "rope.scaling.original_context_length", &r->n_ctx_orig);
    if (status == PM_OK) status = read_scaling_type(m);
    if (status != PM_OK) return status;
    if (r->base_local != r->base && has(m, "rope.freq_base_swa") && !m->arch->local_rope)
        return error_set(
            PM_ERROR_FILE,
            "'%s.rope.freq_base_swa' is %g beside a base of %g: windowed layers with a "
            "base of their own are not supported in this architecture",
            m->arch->name, r->base_local, r->base);
    if (r->factor == 0) r->factor = 1; // how some converters write "none"
    if (r->n_ctx_orig == 0) r->n_ctx_orig = m->n_ctx_train;
    if (r->n_rot < 2 || r->n_rot % 2 != 0 || r->n_rot > m->head_dim)
        return error_set(PM_ERROR_FILE,
                         "RoPE on %" PRIu32 " of %" PRIu32
                         " dimensions is not possible (expected an even number from 2 on)",
                         r->n_rot, m->head_dim);
    if (r->base <= 0 || r->base_local <= 0 || r->factor <= 0 || r->beta_fast <= 0 ||
        r->beta_slow <= 0)
        return error_set(PM_ERROR_FILE, "RoPE base, factor and betas must be positive");
    return PM_OK;
}

// Which layers see a window only: the family's pattern, unless the file has its own.
static bool is_global(const model *m, const gguf_value *pattern, uint32_t layer)
{
    int period = m->arch->window_period, phase = m->arch->window_phase;
    if (pattern && pattern->type == GGUF_ARRAY)
        return gguf_item_number(m->file, pattern, layer) == 0; // true: windowed
    if (pattern) {
        period = (int)gguf_item_int(m->file, pattern, 0);
        phase = period - 1;
    }
    return period > 0 && (int)layer % period == phase;
}

static pm_status read_windows(model *m)
{
    uint32_t window = 0;
    pm_status status = get_u32(m, "attention.sliding_window", &window);
    if (status != PM_OK || window == 0) return status;
    if (m->arch->window_period == 0) {
        if (window >= m->n_ctx_train) return PM_OK;
        return error_set(PM_ERROR_FILE,
                         "'%s.attention.sliding_window' is %" PRIu32
                         ": which layers it belongs to is not known for this architecture",
                         m->arch->name, window);
    }
    char key[128];
    const gguf_value *pattern =
        gguf_find(m->file, key_of(m, "attention.sliding_window_pattern", key));
    bool is_array = pattern && pattern->type == GGUF_ARRAY;
    if (pattern) {
        gguf_type type = is_array ? pattern->item_type : pattern->type;
        bool number =
            type != GGUF_STRING && type != GGUF_ARRAY && type != GGUF_F32 && type != GGUF_F64;
        if (!number || (is_array && pattern->n_items < m->n_layer) ||
            (!is_array &&
             (gguf_item_int(m->file, pattern, 0) < 1 || gguf_item_int(m->file, pattern, 0) > 1024)))
            return error_set(PM_ERROR_FILE,
                             "key '%s' is no period and no list of %" PRIu32 " layers", key,
                             m->n_layer);
    }
    for (uint32_t i = 0; i < m->n_layer; i++)
        if (!is_global(m, pattern, i)) m->layers[i].window = window;
    return PM_OK;
}

pm_status model_read_hparams(model *m)
{
    pm_status status = refuse_unknown_properties(m);
    if (status == PM_OK) status = read_sizes(m);
    if (status == PM_OK) status = read_scales(m);
    if (status == PM_OK) status = read_rope(m);
    return status;
}

pm_status model_read_layer_kinds(model *m)
{
    pm_status status = read_windows(m);
    if (status != PM_OK) return status;
    for (uint32_t i = 0; i < m->n_layer; i++) {
        model_layer *l = &m->layers[i];
        bool nope = m->arch->nope_period && (i + 1) % m->arch->nope_period == 0;
        l->rope = nope ? PLAN_ROPE_NONE : m->arch->rope;
        l->local_rope = m->arch->local_rope && l->window;
    }
    return PM_OK;
}
