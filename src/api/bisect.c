// Which feature of a device makes the difference between right and wrong: `check --bisect`.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"

// A way to run with one feature less.
typedef struct feature {
    char name[64]; // "fusion", "subgroup"
    const char *option;
    char value[256];
} feature;

enum { MAX_FEATURES = 32 };

typedef struct bisect {
    const pm_options *options;
    const char *path;
    feature list[MAX_FEATURES];
    size_t n;
} bisect;

static void add(bisect *b, const char *name, const char *option, const char *value)
{
    if (b->n == MAX_FEATURES) return;
    feature *f = &b->list[b->n++];
    snprintf(f->name, sizeof f->name, "%s", name);
    snprintf(f->value, sizeof f->value, "%s", value);
    f->option = option;
}

// Optional features that the device uses now; what is off already stays off.
static pm_status add_gpu_features(bisect *b, const char *device)
{
    char *text = NULL;
    pm_status status = pm_devices(b->options, &text);
    if (status != PM_OK) return status;
    json_t *all = json_loads(text, 0, NULL), *d, *used;
    const char *off = pm_options_get(b->options, "vk-disable"), *name;
    size_t i;
    json_array_foreach(json_object_get(all, "devices"), i, d)
    {
        const char *id = json_string_value(json_object_get(d, "id"));
        if (!id || strcmp(id, device) != 0) continue;
        json_object_foreach(json_object_get(d, "features"), name, used)
        {
            char value[256];
            snprintf(value, sizeof value, "%s%s%s", off ? off : "", off ? "," : "", name);
            if (json_is_true(used)) add(b, name, "vk-disable", value);
        }
    }
    json_decref(all);
    free(text);
    return PM_OK;
}

static pm_status find_features(bisect *b, const pm_model *pm)
{
    const pm_options *o = b->options;
    plan_options how;
    bool gpu = !strncmp(pm->device, "vulkan", 6);
    pm_status status = params_plan(pm->m, pm->loaded, pm->device, o, &how);
    if (status == PM_OK && gpu) status = add_gpu_features(b, pm->device);
    if (status != PM_OK) return status;
    if (!how.no_fuse) add(b, "fusion", "no-fuse", "true");
    if (how.act == PLAN_ACT_Q8) add(b, "8-bit activations", "act", "f32");
    if (how.kv_type != QUANT_F32) add(b, "the cache's type", "kv-type", "f32");
    if (how.n_batch > 1) add(b, "batches", "batch", "1");
    if (gpu) {
        add(b, "derived barriers", "vk-debug-barriers", "true");
        add(b, "limits beyond the minimum", "vk-limits", "minimum");
        add(b, "long submissions", "max-submit", "1");
    } else {
        add(b, "SIMD kernels", "isa", "plain");
        add(b, "threads", "threads", "1");
    }
    return PM_OK;
}

// One check of the model on its device with these options. *json is NULL where it could not run.
static pm_status check_with(const char *path, const pm_options *o, json_t **json)
{
    pm_model *pm = NULL;
    char *text = NULL;
    *json = NULL;
    pm_status status = pm_model_open(path, o, &pm);
    if (status == PM_OK) status = pm_check(pm, o, &text);
    if (text) *json = json_loads(text, 0, NULL);
    pm_free(text);
    pm_model_close(pm);
    return status;
}

// Without the feature. A fault that was to be planted in an operation which that plan does not have
// is not there either.
static pm_status check_without(const bisect *b, const feature *f, json_t **json)
{
    pm_options *o = NULL;
    pm_status status = check_copy_options(b->options, &o);
    if (status == PM_OK) status = pm_options_set(o, f->option, f->value);
    if (status == PM_OK) {
        status = check_with(b->path, o, json);
        if (status == PM_ERROR_USAGE && pm_options_is_set(o, "inject")) {
            pm_options_set(o, "inject", NULL);
            status = check_with(b->path, o, json);
        }
    }
    pm_options_destroy(o);
    return status;
}

static json_t *outcome(const char *name, pm_status status, const json_t *result)
{
    bool ran = status == PM_OK || status == PM_ERROR_CHECK;
    json_t *bad = json_object_get(result, "first_bad"), *o = json_object();
    bool good = json_put(o, "without", json_word(name)) &&
                json_put(o, "pass", ran ? json_boolean(status == PM_OK) : json_null()) &&
                json_put(o, "reason", status == PM_OK ? json_null() : json_word(error_message())) &&
                json_put(o, "first_bad", bad ? json_incref(bad) : json_null());
    if (good) return o;
    json_decref(o);
    return NULL;
}

static const char *first_bad_label(const json_t *result, char text[120])
{
    const json_t *bad = json_object_get(result, "first_bad");
    const char *op = json_string_value(json_object_get(bad, "op"));
    const char *label = json_string_value(json_object_get(bad, "label"));
    snprintf(text, 120, "%s %s of layer %d", op ? op : "no single operation", label ? label : "",
             op ? (int)json_integer_value(json_object_get(bad, "layer")) : -1);
    return text;
}

static pm_status run_all(bisect *b, json_t *list, json_t *culprits)
{
    for (size_t i = 0; i < b->n; i++) {
        json_t *result = NULL;
        pm_status status = check_without(b, &b->list[i], &result);
        bool good = json_array_append_new(list, outcome(b->list[i].name, status, result)) == 0;
        if (status == PM_OK)
            good = json_array_append_new(culprits, json_word(b->list[i].name)) == 0 && good;
        json_decref(result);
        if (!good) return error_memory("a bisection", 0);
    }
    return PM_OK;
}

static pm_status conclude(const json_t *culprits, const json_t *baseline)
{
    char bad[120];
    buf names = {0};
    size_t i;
    const json_t *name;
    json_array_foreach(culprits, i, name)
        buf_printf(&names, "%s%s", i ? ", " : "", json_string_value(name));
    pm_status status =
        names.len ? error_set(PM_ERROR_CHECK, "check: %s is wrong; right without: %s",
                              first_bad_label(baseline, bad), names.data)
                  : error_set(PM_ERROR_CHECK,
                              "check: %s is wrong, whatever single feature is switched off",
                              first_bad_label(baseline, bad));
    buf_free(&names);
    return status;
}

pm_status pm_check_bisect(pm_model *pm, const pm_options *options, char **json)
{
    if (!pm->loaded) {
        return error_set(PM_ERROR_USAGE, "the model was opened with vocab-only: no weights");
    }
    bisect *b = calloc(1, sizeof *b);
    if (!b) return error_memory("a bisection", sizeof *b);
    *b = (bisect){.options = options, .path = gguf_path(pm->m->file)};
    json_t *baseline = NULL, *list = json_array(), *culprits = json_array(), *o = json_object();
    char *text = NULL;
    pm_status status = pm_check(pm, options, &text), wrong = status;
    if (text) baseline = json_loads(text, 0, NULL);
    bool good = json_put(o, "baseline", outcome("nothing", status, baseline));
    if (status == PM_ERROR_CHECK) {
        status = find_features(b, pm);
        if (status == PM_OK) status = run_all(b, list, culprits);
    }
    good = json_put(o, "check", baseline ? json_incref(baseline) : json_null()) && good;
    good = json_put(o, "switched_off", json_incref(list)) && good;
    good = json_put(o, "culprits", json_incref(culprits)) && good;
    if (status == PM_OK)
        status = good ? json_take(o, json) : error_memory("a bisection", 0);
    else
        json_decref(o);
    if (status == PM_OK && wrong == PM_ERROR_CHECK) status = conclude(culprits, baseline);
    json_decref(list);
    json_decref(culprits);
    json_decref(baseline);
    pm_free(text);
    free(b);
    return status;
}
