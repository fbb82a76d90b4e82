// The one operation that a report of a failed check carries, run again without its model.
#include "proof/reproducer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "api/handles.h"
#include "base/os.h"
#include "exec/devices.h"

// ---- what to run, and where -------------------------------------------------------------------

// Options that the report was made with, unless the caller says otherwise: what was switched off
// then stays off.
static pm_status take_settings(const json_t *settings, pm_options *o)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)settings, name, value)
    {
        const char *text = json_string_value(value);
        if (!check_keeps_option(name) || !text)
            return error_set(PM_ERROR_FILE, "the report's settings: '%.40s' can't be read", name);
        if (pm_options_is_set(o, name)) continue;
        if (pm_options_set(o, name, text) != PM_OK) return error_in(PM_ERROR_FILE, "the report");
    }
    return PM_OK;
}

typedef struct target {
    const exec_kind *kind;
    char id[32], selector[128];
    exec_gpu gpu;
} target;

static pm_status choose_target(const pm_options *o, const char *device, target *t)
{
    *t = (target){.gpu = params_gpu(o)};
    if (strncmp(device, "vulkan", 6) != 0) {
        t->kind = exec_kind_named(device);
        snprintf(t->id, sizeof t->id, "%s", device);
        return PM_OK;
    }
    if (device[6] == ':') {
        snprintf(t->selector, sizeof t->selector, "%s", device + 7);
        t->gpu.selector = t->selector;
    }
    exec_device found;
    pm_status status = exec_device_find(&t->gpu, &found);
    if (status != PM_OK) return status;
    t->kind = exec_kind_named("vulkan");
    snprintf(t->id, sizeof t->id, "%s", found.id);
    return PM_OK;
}

// The option device, else where the operation ran.
static pm_status device_of(const json_t *report, pm_options *o, const char **device)
{
    if (pm_options_is_set(o, "device") && !options_word(o, "device", "auto")) {
        *device = pm_options_get(o, "device");
        return PM_OK;
    }
    const json_t *one = json_object_get(json_object_get(report, "check"), "reproducer");
    const char *id = json_string_value(json_object_get(one, "device"));
    // Through the options, which know what a device's name may be.
    if (!id || !strcmp(id, "auto") || pm_options_set(o, "device", id) != PM_OK)
        return error_set(PM_ERROR_FILE, "the report: no device that can be read");
    *device = pm_options_get(o, "device");
    return PM_OK;
}

// The fault to plant must be in this operation, or it would be in none.
static pm_status choose_injection(const pm_options *o, const reproducer *r, bool *injected)
{
    const char *text = pm_options_get(o, "inject");
    check_inject inject;
    *injected = text != NULL;
    if (!text) return PM_OK;
    pm_status status = check_parse_inject(text, &inject);
    if (status != PM_OK) return status;
    if (inject.kind == r->op.kind && inject.layer == r->layer && inject.index == r->nth)
        return PM_OK;
    return error_set(PM_ERROR_USAGE, "--inject %s: the report's operation is %s:%d:%" PRIu32, text,
                     plan_op_name(r->op.kind), r->layer, r->nth);
}

// ---- the result -------------------------------------------------------------------------------

static pm_status result_json(const reproducer *r, const target *t, const reproducer_result *result,
                             bool injected, char **json)
{
    json_t *o = json_object();
    bool good = json_put(o, "pass", json_boolean(result->op.pass)) &&
                json_put(o, "device", json_word(t->id)) &&
                json_put(o, "description", json_word(result->description)) &&
                json_put(o, "against", json_word("reference")) &&
                json_put(o, "seed", json_size(r->seed)) &&
                json_put(o, "rows", json_size(r->n_rows)) &&
                json_put(o, "injected", json_boolean(injected)) &&
                json_put(o, "op", check_op_json(&result->op));
    if (good) return json_take(o, json);
    json_decref(o);
    return error_memory("a JSON document", 0);
}

static pm_status run(const json_t *report, pm_options *o, const reproducer *r, char **json)
{
    const char *device = NULL;
    bool injected = false;
    target t;
    reproducer_result result;
    pm_status status = choose_injection(o, r, &injected);
    if (status == PM_OK) status = device_of(report, o, &device);
    if (status == PM_OK) status = choose_target(o, device, &t);
    if (status != PM_OK) return status;
    exec_params params = {.n_threads = (int)options_int(o, "threads", os_default_threads()),
                          .isa = pm_options_get(o, "isa"),
                          .gpu = &t.gpu};
    status = reproducer_run(r, t.kind, &params, injected, &result);
    if (status == PM_OK) status = result_json(r, &t, &result, injected, json);
    return status == PM_OK && !result.op.pass ? check_bad_op(&result.op) : status;
}

pm_status pm_reproduce(const char *report, size_t n, const pm_options *options, char **json)
{
    json_error_t where;
    json_t *all = json_loadb(report, n, 0, &where);
    if (!all) return error_set(PM_ERROR_FILE, "not a report: %s", where.text);
    const json_t *found = json_object_get(json_object_get(all, "check"), "reproducer");
    pm_options *o = NULL;
    reproducer r;
    const json_t *settings = json_object_get(json_object_get(all, "check"), "settings");
    pm_status status = PM_OK;
    if (!found)
        status = error_set(PM_ERROR_FILE, "not a report of 'pumice check --report'");
    else if (json_is_null(found))
        status = error_set(PM_ERROR_FILE, "the report has no operation to reproduce: each of them "
                                          "passed alone");
    else
        status = reproducer_parse(found, &r);
    if (status == PM_OK) status = check_copy_options(options, &o);
    if (status == PM_OK) status = take_settings(settings, o);
    if (status == PM_OK) status = run(all, o, &r, json);
    pm_options_destroy(o);
    json_decref(all);
    return status;
}
