// pumice check: pm_check's results as a table or JSON.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/cli.h"

const cli_option check_options[] = {
    {"model", 'm', "MODEL", "the model, instead of the first word"},
    {"json", 0, NULL, "everything as one JSON document"},
    {"report", 0, "FILE",
     "writes what a bug report needs: device, build, bounds, worst operations"},
    {"reproduce", 0, "FILE",
     "runs the bad operation of such a report again, without its model: status 5 where it is wrong "
     "here too"},
    {"bisect", 0, NULL, "where it fails: which feature, switched off, makes it pass?"},
    {0},
};

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

// Not finite numbers are null.
static double number_of(const json_t *o, const char *key)
{
    const json_t *value = json_object_get(o, key);
    return json_is_number(value) ? json_number_value(value) : (double)INFINITY;
}

static void print_about(const json_t *all)
{
    const json_t *seed = json_object_get(all, "seed");
    out_print("%s against %s\n", text_of(all, "description"), text_of(all, "against"));
    if (json_is_integer(seed))
        out_print("%.0f random tokens of --seed %" JSON_INTEGER_FORMAT, number_of(all, "tokens"),
                  json_integer_value(seed));
    else
        out_print("%.0f tokens of the text", number_of(all, "tokens"));
    if (number_of(all, "doublings") > 0)
        out_print(" (%.0f did not decide)",
                  number_of(all, "tokens") / pow(2, number_of(all, "doublings")));
    out_print("; batch %.0f, KV cache %s, activations %s, formats", number_of(all, "batch"),
              text_of(all, "kv_type"), text_of(all, "act"));
    size_t index;
    const json_t *value;
    json_array_foreach(json_object_get(all, "types"), index, value)
        out_print("%s %s", index ? "," : "", json_string_value(value));
    out_text("\n");
}

// ---- operations -------------------------------------------------------------------------------

// "layer 3, attn_qkv, prefill".
static void print_place(const json_t *op)
{
    double layer = number_of(op, "layer");
    if (layer >= 0)
        out_print("layer %.0f, ", layer);
    else
        out_text("outside layers, ");
    out_print("%s, %s", text_of(op, "label"), text_of(op, "phase"));
}

static void print_kernels(const json_t *op)
{
    const char *kernels = text_of(op, "kernels");
    if (*kernels) out_print("\n  kernels: %s", kernels);
}

static void print_op(const json_t *op, const char *count)
{
    out_print("%-9s %6s  %10.3g  %8.2g  %10.3g  %s  ", text_of(op, "op"), count,
              number_of(op, "nmse"), number_of(op, "bound"), number_of(op, "max_abs"),
              json_is_true(json_object_get(op, "pass")) ? "ok " : "BAD");
    print_place(op);
    if (number_of(op, "steps") > 0)
        out_print(", %.0f values a rounding step apart (bound %.0f)", number_of(op, "steps"),
                  number_of(op, "steps_bound"));
    if (number_of(op, "nonfinite") > 0)
        out_print(", %.0f values that are not finite or not the same", number_of(op, "nonfinite"));
    out_text("\n");
}

// How near an op is to its bound; what failed is past all that did not.
static double badness(const json_t *op)
{
    double part = number_of(op, "nmse") / number_of(op, "bound");
    return json_is_true(json_object_get(op, "pass")) ? part : 1e300;
}

// The worst op of each kind, in the order in which kinds first run.
static void print_kinds(const json_t *ops)
{
    size_t i, j;
    const json_t *op, *other;
    json_array_foreach(ops, i, op)
    {
        const json_t *worst = op;
        int n = 0;
        bool first = true;
        json_array_foreach(ops, j, other)
        {
            if (strcmp(text_of(op, "op"), text_of(other, "op")) != 0) continue;
            if (j < i) first = false;
            n++;
            if (badness(other) > badness(worst)) worst = other;
        }
        char count[16];
        snprintf(count, sizeof count, "%d", n);
        if (first) print_op(worst, count);
    }
}

static void print_ops(const json_t *all, bool every)
{
    const json_t *ops = json_object_get(all, "ops"), *op;
    size_t index;
    if (json_array_size(ops) == 0) return;
    out_text("\nEach operation on the reference's inputs");
    out_text(every ? "\n" : ", the worst of each kind\n");
    out_print("%-9s %6s  %10s  %8s  %10s\n", "op", every ? "index" : "ops", "NMSE", "bound",
              "max diff");
    if (!every) {
        print_kinds(ops);
        return;
    }
    json_array_foreach(ops, index, op)
    {
        char text[16];
        snprintf(text, sizeof text, "%.0f", number_of(op, "index"));
        print_op(op, text);
    }
}

// ---- whole runs -------------------------------------------------------------------------------

static void print_lockstep(const json_t *all)
{
    const json_t *l = json_object_get(all, "logits"), *b = json_object_get(all, "bounds"), *layer;
    size_t index;
    if (!json_is_object(l)) return;
    out_text("\nBoth on their own; the reference with act=f32 and an f32 cache\n"
             "NMSE of the residual stream behind each layer:");
    json_array_foreach(json_object_get(all, "layers"), index, layer)
        out_print("%s%.2g", index % 10 ? " " : "\n  ", number_of(layer, "nmse"));
    out_print("\nlogits, %.0f rows: difference at most %.3g, mean %.3g\n", number_of(l, "rows"),
              number_of(l, "max_abs"), number_of(l, "mean_abs"));
    out_print("KL divergence: mean %.3g +- %.2g (bound %.2g), 99 %% %.3g, max %.3g\n",
              number_of(l, "kl_mean"), number_of(l, "kl_error"), number_of(b, "kl_mean"),
              number_of(l, "kl_p99"), number_of(l, "kl_max"));
    out_print("same choice: %.1f %%; %.1f %% (bound %.1f %%) where logits within %.2g are a tie\n",
              100 * number_of(l, "top1_agreement"), 100 * number_of(l, "top1_judged"),
              100 * number_of(b, "top1_judged"), number_of(b, "margin"));
}

static void print_verdict(const json_t *all)
{
    const json_t *bad = json_object_get(all, "first_bad"), *skip;
    size_t index;
    out_text("\n");
    const json_t *again = json_object_get(all, "repeat");
    if (json_is_object(again))
        out_print("%.0f equal runs: %s (hash %s)\n", number_of(again, "runs"),
                  json_is_true(json_object_get(again, "pass")) ? "the same logits to the bit"
                                                               : "NOT the same: a probable race",
                  text_of(again, "hash"));
    json_array_foreach(json_object_get(all, "skipped"), index, skip)
        out_print("skipped: %s (%s)\n", text_of(skip, "what"), text_of(skip, "reason"));
    if (json_is_object(bad)) {
        const json_t *worst = json_object_get(bad, "worst");
        out_print("first bad operation: %s, ", text_of(bad, "op"));
        print_place(bad);
        print_kernels(bad);
        out_print("\n  worst value: %s, row %.0f, column %.0f: %.9g, expected %.9g\n",
                  text_of(worst, "buffer"), number_of(worst, "row"), number_of(worst, "col"),
                  number_of(worst, "found"), number_of(worst, "expected"));
    }
    out_print("%s: %.0f values compared, %zu parts skipped\n",
              json_is_true(json_object_get(all, "pass")) ? "passed" : "FAILED",
              number_of(all, "compared_values"), json_array_size(json_object_get(all, "skipped")));
}

static void print_bisection(const json_t *all)
{
    size_t i;
    const json_t *o, *pass;
    json_array_foreach(json_object_get(all, "switched_off"), i, o)
    {
        pass = json_object_get(o, "pass");
        out_print("without %-28s %s\n", text_of(o, "without"),
                  json_is_true(pass)    ? "passes"
                  : json_is_false(pass) ? "fails too"
                                        : "can't be run");
        if (json_is_null(pass)) out_print("        %s\n", text_of(o, "reason"));
    }
    if (json_array_size(json_object_get(all, "switched_off")) == 0)
        out_text("passed: there is nothing to look for\n");
}

static void print_check(const cli_args *args, const json_t *all)
{
    print_about(all);
    print_ops(all, args->verbose);
    print_lockstep(all);
    print_verdict(all);
}

// ---- reports ----------------------------------------------------------------------------------

// Of the operations the worst of each kind; all else as --json has it.
static json_t *worst_ops(const json_t *ops)
{
    json_t *list = json_array(), *op, *other;
    size_t i, j;
    json_array_foreach(ops, i, op)
    {
        bool worst = true;
        json_array_foreach(ops, j, other)
        {
            if (strcmp(text_of(op, "op"), text_of(other, "op")) != 0) continue;
            if (badness(other) > badness(op) || (badness(other) == badness(op) && j < i))
                worst = false;
        }
        if (worst) json_array_append(list, op);
    }
    return list;
}

// The device as `devices --json` has it: driver, limits, features.
static json_t *device_of(const cli_args *args, const char *id)
{
    char *text = NULL;
    if (pm_devices(args->options, &text) != PM_OK) return json_null();
    json_t *all = json_loads(text, 0, NULL), *d, *found = NULL;
    size_t i;
    json_array_foreach(json_object_get(all, "devices"), i, d)
    {
        bool cpu = strncmp(id, "vulkan", 6) != 0;
        if (!strcmp(text_of(d, "id"), cpu ? "cpu" : id)) found = json_incref(d);
    }
    json_decref(all);
    pm_free(text);
    return found ? found : json_null();
}

static pm_status write_text(const char *path, const char *text)
{
    os_writer *file = NULL;
    pm_status status = os_writer_open(path, &file);
    if (status == PM_OK) status = os_writer_write(file, text, strlen(text));
    if (status == PM_OK) status = os_writer_write(file, "\n", 1);
    if (status == PM_OK) return os_writer_commit(file);
    os_writer_abort(file);
    return status;
}

// Does the report's own operation fail without the model, too? null: it can't be run.
static json_t *reproduced(const cli_args *args, const json_t *report)
{
    char *text = json_dumps(report, 0), *json = NULL;
    // Where it was found, whatever the options would choose for a whole model.
    const json_t *one = json_object_get(json_object_get(report, "check"), "reproducer");
    if (pm_options_set(args->options, "device", text_of(one, "device")) != PM_OK) {
        free(text);
        return json_null();
    }
    pm_status status = text ? pm_reproduce(text, strlen(text), args->options, &json) : PM_ERROR_RUN;
    pm_free(json);
    free(text);
    return status == PM_OK || status == PM_ERROR_CHECK ? json_boolean(status == PM_ERROR_CHECK)
                                                       : json_null();
}

// `result`: of pm_check or of pm_check_bisect, which holds the former.
static pm_status write_report(const cli_args *args, const char *path, const json_t *result)
{
    const json_t *within = json_object_get(result, "check");
    json_t *check = json_copy((json_t *)(uintptr_t)(within ? within : result)), *o = json_object();
    json_object_set_new(o, "pumice", json_string(pm_version()));
    json_object_set_new(o, "device", device_of(args, text_of(check, "device")));
    json_object_set_new(check, "ops", worst_ops(json_object_get(check, "ops")));
    json_object_set_new(o, "check", check);
    if (json_is_object(json_object_get(check, "reproducer")))
        json_object_set_new(o, "reproduced", reproduced(args, o));
    if (within) {
        static const char *const keys[] = {"switched_off", "culprits"};
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
            json_object_set(o, keys[k], json_object_get(result, keys[k]));
    }
    char *report = json_dumps(o, JSON_INDENT(1));
    json_decref(o);
    pm_status status = report ? write_text(path, report) : error_memory("a report", 0);
    free(report);
    return status;
}

// ---- one operation of a report ----------------------------------------------------------------

static void print_reproduction(const json_t *all)
{
    const json_t *op = json_object_get(all, "op"), *worst = json_object_get(op, "worst");
    bool pass = json_is_true(json_object_get(all, "pass"));
    out_print("%s against %s\n%s, ", text_of(all, "description"), text_of(all, "against"),
              text_of(op, "op"));
    print_place(op);
    out_print(", %.0f rows, made-up weights and inputs of seed %" JSON_INTEGER_FORMAT "%s\n",
              number_of(all, "rows"), json_integer_value(json_object_get(all, "seed")),
              json_is_true(json_object_get(all, "injected")) ? ", with a planted fault" : "");
    const char *kernels = text_of(op, "kernels");
    if (*kernels) out_print("kernels: %s\n", kernels);
    out_print("NMSE %.3g (bound %.2g), %.0f values that are not finite or not the same\n",
              number_of(op, "nmse"), number_of(op, "bound"), number_of(op, "nonfinite"));
    out_print("worst value: %s, row %.0f, column %.0f: %.9g, expected %.9g\n",
              text_of(worst, "buffer"), number_of(worst, "row"), number_of(worst, "col"),
              number_of(worst, "found"), number_of(worst, "expected"));
    out_print("%s: %.0f values compared\n", pass ? "passed" : "FAILED, reproduced",
              number_of(op, "compared"));
}

static pm_status reproduce(cli_args *args, const char *path)
{
    if (args->n_words || args_get(args, "model") || args_has(args, "bisect") ||
        args_get(args, "report"))
        return error_set(PM_ERROR_USAGE, "--reproduce needs no MODEL, and goes with neither "
                                         "--bisect nor --report");
    char *report = NULL, *text = NULL;
    size_t n = 0;
    pm_status status = read_input(path, &report, &n);
    if (status == PM_OK) {
        status = pm_reproduce(report, n, args->options, &text);
        if (status == PM_ERROR_FILE) status = error_in(status, "%s", path);
        if (status == PM_ERROR_DEVICE) status = error_in(status, "check: skipped");
    }
    free(report);
    if (text && args_has(args, "json")) {
        out_text(text);
        out_text("\n");
    } else if (text) {
        json_t *all = json_loads(text, 0, NULL);
        print_reproduction(all);
        json_decref(all);
    }
    pm_free(text);
    return status;
}

// ---- the command ------------------------------------------------------------------------------

static void show_result(const cli_args *args, const char *text, const json_t *result)
{
    if (args_has(args, "json")) {
        out_text(text);
        out_text("\n");
    } else if (args_has(args, "bisect")) {
        const json_t *check = json_object_get(result, "check");
        if (json_is_object(check)) print_check(args, check);
        print_bisection(result);
    } else {
        print_check(args, result);
    }
}

pm_status run_check(cli_args *args)
{
    const char *report = args_get(args, "report"), *again = args_get(args, "reproduce");
    if (again) return reproduce(args, again);
    loaded l = {0};
    char *text = NULL;
    pm_status status = loaded_model(args, args->n_words ? args->words[0] : NULL, &l);
    if (status == PM_ERROR_DEVICE) {
        status = error_in(status, "check: skipped");
    } else if (status == PM_OK) {
        status = args_has(args, "bisect") ? pm_check_bisect(l.model, args->options, &text)
                                          : pm_check(l.model, args->options, &text);
        device_warnings(args, &l);
    }
    loaded_free(&l);
    json_t *result = text ? json_loads(text, 0, NULL) : NULL;
    char *verdict = strdup(pm_last_error());
    if (result && report) {
        pm_status written = write_report(args, report, result);
        if (written != PM_OK)
            status = written;
        else if (verdict)
            status = error_set(status, "%s", verdict);
    }
    free(verdict);
    if (result) show_result(args, text, result);
    json_decref(result);
    pm_free(text);
    return status;
}
