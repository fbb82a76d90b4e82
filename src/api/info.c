// What a file says of itself, without reading tensor data: `pumice info --json`.
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/size.h"

enum { SHORT_ARRAY = 8 }; // items of an array that is longer are shown, with its length

// ---- metadata ---------------------------------------------------------------------------------

static json_t *item_json(const gguf *g, const gguf_value *v, gguf_type type, uint64_t index)
{
    switch (type) {
    case GGUF_STRING: {
        gguf_string s = gguf_item_string(g, v, index);
        return json_text(s.data, s.len);
    }
    case GGUF_BOOL: return json_boolean(gguf_item_int(g, v, index));
    case GGUF_F32:
    case GGUF_F64: return json_finite(gguf_item_number(g, v, index));
    case GGUF_U64: {
        double number = gguf_item_number(g, v, index);
        if (number >= 0x1p63) return json_real(number);
        return json_integer(gguf_item_int(g, v, index));
    }
    case GGUF_ARRAY: return json_null();
    case GGUF_U8:
    case GGUF_I8:
    case GGUF_U16:
    case GGUF_I16:
    case GGUF_U32:
    case GGUF_I32:
    case GGUF_I64: break;
    }
    return json_integer(gguf_item_int(g, v, index));
}

static json_t *items_json(const gguf *g, const gguf_value *v, uint64_t n)
{
    json_t *list = json_array();
    for (uint64_t i = 0; i < n; i++) {
        if (json_array_append_new(list, item_json(g, v, v->item_type, i)) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

// A long array, and one of arrays: {"n_items": N, "first": [...]}.
static json_t *value_json(const gguf *g, const gguf_value *v, bool full)
{
    if (v->type != GGUF_ARRAY) return item_json(g, v, v->type, 0);
    bool nested = v->item_type == GGUF_ARRAY;
    if (!nested && (full || v->n_items <= SHORT_ARRAY)) return items_json(g, v, v->n_items);
    json_t *o = json_object();
    uint64_t shown = nested ? 0 : SHORT_ARRAY;
    if (json_put(o, "n_items", json_size(v->n_items)) &&
        json_put(o, "first", items_json(g, v, shown))) {
        return o;
    }
    json_decref(o);
    return NULL;
}

static json_t *metadata_json(const gguf *g, bool full)
{
    json_t *o = json_object();
    for (size_t i = 0; i < gguf_n_values(g); i++) {
        const gguf_value *v = gguf_value_at(g, i);
        buf key = {0};
        buf_add(&key, v->key.data, v->key.len);
        // Keys are JSON text too: what isn't UTF-8 is replaced.
        json_t *name = key.failed ? NULL : json_text(key.data, key.len);
        bool good = name && json_put(o, json_string_value(name), value_json(g, v, full));
        json_decref(name);
        buf_free(&key);
        if (good) continue;
        json_decref(o);
        return NULL;
    }
    return o;
}

// ---- tensors ----------------------------------------------------------------------------------

static json_t *tensor_json(const gguf_tensor *t)
{
    json_t *shape = json_array(), *o = json_object();
    for (uint32_t d = 0; d < t->n_dims; d++) json_array_append_new(shape, json_size(t->dims[d]));
    bool good = json_put(o, "name", json_word(t->name)) &&
                json_put(o, "type", json_word(quant_type_name(t->type))) &&
                json_put(o, "shape", shape) && json_put(o, "offset", json_size(t->offset)) &&
                json_put(o, "bytes", json_size(t->bytes)) &&
                json_put(o, "part", json_size(t->part));
    if (good) return o;
    json_decref(o);
    return NULL;
}

static json_t *tensors_json(const gguf *g)
{
    json_t *list = json_array();
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        if (json_array_append_new(list, tensor_json(gguf_tensor_at(g, i))) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

// Values in all tensors; the reader has checked that each tensor's bytes can be counted.
static uint64_t n_parameters(const gguf *g)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const gguf_tensor *t = gguf_tensor_at(g, i);
        uint64_t n = 1;
        bool good = true;
        for (uint32_t d = 0; d < t->n_dims; d++) good = good && size_mul(n, t->dims[d], &n);
        if (!good || !size_add(sum, n, &sum)) return UINT64_MAX;
    }
    return sum;
}

// ---- what pumice makes of it ------------------------------------------------------------------

// The ids, or with `texts` what the file stores for them.
static json_t *end_tokens_json(const text_vocab *v, bool texts)
{
    json_t *list = json_array();
    size_t n = 0;
    const int32_t *ids = v ? text_end_tokens(v, &n) : NULL;
    for (size_t i = 0; i < n; i++) {
        gguf_string text = text_stored(v, ids[i]);
        json_t *token = texts ? json_text(text.data, text.len) : json_integer(ids[i]);
        if (json_array_append_new(list, token) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *context_json(const model *m, const pm_options *o, pm_status *status)
{
    if (!m) return json_null();
    plan_options how;
    uint64_t bytes = 0;
    const char *device = pm_options_get(o, "device");
    *status = params_plan(m, NULL, device, o, &how);
    if (*status != PM_OK) return NULL;
    bool known = plan_kv_bytes(m, how.n_ctx, 1, how.kv_type, &bytes);
    json_t *c = json_object();
    bool good = json_put(c, "n_ctx", json_size(how.n_ctx)) &&
                json_put(c, "kv_bytes", known ? json_size(bytes) : json_null()) &&
                json_put(c, "kv_type", json_word(params_kv_name(how.kv_type))) &&
                json_put(c, "n_ctx_train", json_size(m->n_ctx_train));
    if (good) return c;
    json_decref(c);
    return NULL;
}

typedef struct opened {
    model *m;          // NULL: not supported
    gguf *file;        // its own where m is NULL
    text_vocab *vocab; // its own where m is NULL; may be NULL
    const gguf *g;
    const text_vocab *v;
    char *reason; // why not
} opened;

static void opened_close(opened *f)
{
    text_vocab_free(f->vocab);
    gguf_close(f->file);
    model_close(f->m);
    free(f->reason);
}

// A model where pumice supports the file, else the bare file with the reason.
static pm_status open_any(const char *path, const pm_options *options, opened *f)
{
    model_options how = {.assume_pre = pm_options_get(options, "pre")};
    pm_status status = model_open(path, &how, &f->m);
    if (status == PM_OK) {
        f->g = f->m->file;
        f->v = f->m->vocab;
        return PM_OK;
    }
    if (status != PM_ERROR_FILE) return status;
    buf reason = {0};
    buf_str(&reason, error_message());
    status = gguf_open(path, true, &f->file);
    if (status == PM_OK) status = buf_take(&reason, &f->reason, NULL);
    buf_free(&reason);
    if (status != PM_OK) return status;
    f->g = f->file;
    if (text_vocab_load(f->file, how.assume_pre, &f->vocab) == PM_OK) f->v = f->vocab;
    return PM_OK;
}

static const char *pre_tokenizer(const text_vocab *v)
{
    return v ? text_pre_name(v) : NULL;
}

static bool add_header(json_t *o, const opened *f)
{
    const gguf *g = f->g;
    uint64_t n = n_parameters(g);
    gguf_string arch = {"", 0};
    if (gguf_get_string(g, "general.architecture", &arch) != PM_OK) arch = (gguf_string){"", 0};
    return json_put(o, "path", json_word(gguf_path(g))) &&
           json_put(o, "version", json_size(gguf_version(g))) &&
           json_put(o, "alignment", json_size(gguf_alignment(g))) &&
           json_put(o, "parts", json_size(gguf_n_parts(g))) &&
           json_put(o, "file_bytes", json_size(gguf_file_bytes(g))) &&
           json_put(o, "data_offset", json_size(gguf_data_offset(g, 0))) &&
           json_put(o, "header_sha256", json_word(gguf_header_sha256(g))) &&
           json_put(o, "architecture", arch.len ? json_text(arch.data, arch.len) : json_null()) &&
           json_put(o, "parameters", n < UINT64_MAX ? json_size(n) : json_null()) &&
           json_put(o, "supported", json_boolean(f->m != NULL)) &&
           json_put(o, "unsupported_reason", json_word(f->reason)) &&
           json_put(o, "end_tokens", end_tokens_json(f->v, false)) &&
           json_put(o, "end_token_texts", end_tokens_json(f->v, true)) &&
           json_put(o, "pre_tokenizer", json_word(pre_tokenizer(f->v))) &&
           json_put(o, "chat_template",
                    json_boolean(gguf_find(g, "tokenizer.chat_template") != NULL));
}

pm_status pm_info(const char *path, const pm_options *options, int full, char **json)
{
    opened f = {0};
    pm_status status = open_any(path, options, &f);
    json_t *o = json_object();
    if (status == PM_OK && !add_header(o, &f)) status = error_memory("a JSON document", 0);
    if (status == PM_OK) {
        json_t *context = context_json(f.m, options, &status);
        if (status == PM_OK && !(json_put(o, "context", context) &&
                                 json_put(o, "metadata", metadata_json(f.g, full != 0)) &&
                                 json_put(o, "tensors", tensors_json(f.g)))) {
            status = error_memory("a JSON document", 0);
        }
    }
    if (status == PM_OK) {
        status = json_take(o, json);
    } else {
        json_decref(o);
    }
    opened_close(&f);
    return status;
}
