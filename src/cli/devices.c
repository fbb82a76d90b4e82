// pumice devices: what can run a model here.
#include <stdlib.h>

#include "cli/cli.h"

const cli_option devices_options[] = {
    {"json", 0, NULL, "everything as one JSON document"},
    {"measure", 0, NULL, "measure the read bandwidth of each"},
    {0},
};

// "limits" and "features": what there is, in one line each.
static void print_object(const char *title, const json_t *object)
{
    const char *key;
    json_t *value;
    bool any = false;
    json_object_foreach((json_t *)object, key, value)
    {
        if (json_is_false(value) || json_is_null(value)) continue;
        out_print(any ? ", %s" : "  %s: ", any ? key : title);
        if (!any) out_text(key);
        any = true;
        if (json_is_true(value)) continue;
        char *text = json_dumps(value, JSON_ENCODE_ANY);
        if (text) out_print(" %s", text);
        free(text);
    }
    if (any) out_text("\n");
}

static void print_device(const json_t *d)
{
    static const char *const texts[] = {"type", "driver", "driver_version", "api_version", "uuid"};
    out_print("%s: %s\n", text_in(d, "id", "?"), text_in(d, "name", "?"));
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        const char *text = text_in(d, texts[k], NULL);
        if (text && *text) out_print("  %s: %s\n", texts[k], text);
    }
    double memory = number_in(d, "memory_bytes", 0);
    if (memory > 0) out_print("  memory: %s\n", show_mib((uint64_t)memory));
    double bandwidth = number_in(d, "bandwidth_gbps", 0);
    if (bandwidth > 0) out_print("  measured read bandwidth: %.1f GB/s\n", bandwidth);
    const char *reason = text_in(d, "bandwidth_reason", NULL);
    if (reason) out_print("  read bandwidth: not known (%s)\n", reason);
    print_object("limits", json_object_get(d, "limits"));
    print_object("features", json_object_get(d, "features"));
}

pm_status run_devices(cli_args *args)
{
    char *text = NULL;
    pm_status status = PM_OK;
    if (args_has(args, "measure")) status = pm_options_set(args->options, "measure", "true");
    if (status == PM_OK) status = pm_devices(args->options, &text);
    if (status == PM_OK && args_has(args, "json")) {
        out_text(text);
        out_text("\n");
    } else if (status == PM_OK) {
        size_t index;
        const json_t *d;
        json_t *all = json_loads(text, 0, NULL);
        json_array_foreach(json_object_get(all, "devices"), index, d) print_device(d);
        json_decref(all);
    }
    pm_free(text);
    return status;
}
