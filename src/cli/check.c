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

static void print_about(const json_t *all)
{
    const json_t *seed = json_object_get(all, "seed");
    out_print("%s against %s\n", text_in(all, "description", ""), text_in(all, "against", ""));
    if (json_is_integer(seed))
        out_print("%.0f random tokens of --seed %" JSON_INTEGER_FORMAT,
                  number_in(all, "tokens", INFINITY), json_integer_value(seed));
    else
        out_print("%.0f tokens of the text", number_in(all, "tokens", INFINITY));
    if (number_in(all, "doublings", INFINITY) > 0)
        out_print(" (%.0f did not decide)", number_in(all, "tokens", INFINITY) /
                                                pow(2, number_in(all, "doublings", INFINITY)));
    out_print("; batch %.0f, KV cache %s, activations %s, formats",
              number_in(all, "batch", INFINITY), text_in(all, "kv_type", ""),
              text_in(all, "act", ""));
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
    double layer = number_in(op, "layer", INFINITY);
    if (layer >= 0)
        out_print("layer %.0f, ", layer);
    else
        out_text("outside layers, ");
    out_print("%s, %s", text_in(op, "label", ""), text_in(op, "phase", ""));
}

static void print_kernels(const json_t *op)
{
    const char *kernels = text_in(op, "kernels", "");
    if (*kernels) out_print("\n  kernels: %s", kernels);
}

static void print_op(const json_t *op, const char *count)
{
    out_print("%-9s %6s  %10.3g  %8.2g  %10.3g  %s  ", text_in(op, "op", ""), count,
              number_in(op, "nmse", INFINITY), number_in(op, "bound", INFINITY),
              number_in(op, "max_abs", INFINITY),
              json_is_true(json_object_get(op, "pass")) ? "ok " : "BAD");
    print_place(op);
    if (number_in(op, "steps", INFINITY) > 0)
        out_print(", %.0f values a rounding step apart (bound %.0f)",
                  number_in(op, "steps", INFINITY), number_in(op, "steps_bound", INFINITY));
    if (number_in(op, "nonfinite", INFINITY) > 0)
        out_print(", %.0f values that are not finite or not the same",
                  number_in(op, "nonfinite", INFINITY));
    out_text("\n");
}

// How near an op is to its bound; what failed is past all that did not.
static double badness(const json_t *op)
{
    double part = number_in(op, "nmse", INFINITY) / number_in(op, "bound", INFINITY);
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
            if (strcmp(text_in(op, "op", ""), text_in(other, "op", "")) != 0) continue;
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
        snprintf(text, sizeof text, "%.0f", number_in(op, "index", INFINITY));
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
        out_print("%s%.2g", index % 10 ? " " : "\n  ", number_in(layer, "nmse", INFINITY));
    out_print("\nlogits, %.0f rows: difference at most %.3g, mean %.3g\n",
              number_in(l, "rows", INFINITY), number_in(l, "max_abs", INFINITY),
              number_in(l, "mean_abs", INFINITY));
    out_print("KL divergence: mean %.3g +- %.2g (bound %.2g), 99 %% %.3g, max %.3g\n",
              number_in(l, "kl_mean", INFINITY), number_in(l, "kl_error", INFINITY),
              number_in(b, "kl_mean", INFINITY), number_in(l, "kl_p99", INFINITY),
              number_in(l, "kl_max", INFINITY));
    out_print("same choice: %.1f %%; %.1f %% (bound %.1f %%) where logits within %.2g are a tie\n",
              100 * number_in(l, "top1_agreement", INFINITY),
              100 * number_in(l, "top1_judged", INFINITY),
              100 * number_in(b, "top1_judged", INFINITY), number_in(b, "margin", INFINITY));
}

static void print_verdict(const json_t *all)
{
    const json_t *bad = json_object_get(all, "first_bad"), *skip;
    size_t index;
    out_text("\n");
    const json_t *again = json_object_get(all, "repeat");
    if (json_is_object(again))
        out_print("%.0f equal runs: %s (hash %s)\n", number_in(again, "runs", INFINITY),
                  json_is_true(json_object_get(again, "pass")) ? "the same logits to the bit"
                                                               : "NOT the same: a probable race",
                  text_in(again, "hash", ""));
    json_array_foreach(json_object_get(all, "skipped"), index, skip)
        out_print("skipped: %s (%s)\n", text_in(skip, "what", ""), text_in(skip, "reason", ""));
    if (json_is_object(bad)) {
        const json_t *worst = json_object_get(bad, "worst");
        out_print("first bad operation: %s, ", text_in(bad, "op", ""));
        print_place(bad);
        print_kernels(bad);
        out_print("\n  worst value: %s, row %.0f, column %.0f: %.9g, expected %.9g\n",
                  text_in(worst, "buffer", ""), number_in(worst, "row", INFINITY),
                  number_in(worst, "col", INFINITY), number_in(worst, "found", INFINITY),
                  number_in(worst, "expected", INFINITY));
    }
    out_print("%s: %.0f values compared, %zu parts skipped\n",
              json_is_true(json_object_get(all, "pass")) ? "passed" : "FAILED",
              number_in(all, "compared_values", INFINITY),
              json_array_size(json_object_get(all, "skipped")));
}

static void print_bisection(const json_t *all)
{
    size_t i;
    const json_t *o, *pass;
    json_array_foreach(json_object_get(all, "switched_off"), i, o)
    {
        pass = json_object_get(o, "pass");
        out_print("without %-28s %s\n", text_in(o, "without", ""),
                  json_is_true(pass)    ? "passes"
                  : json_is_false(pass) ? "fails too"
                                        : "can't be run");
        if (json_is_null(pass)) out_print("        %s\n", text_in(o, "reason", ""));
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
            if (strcmp(text_in(op, "op", ""), text_in(other, "op", "")) != 0) continue;
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
        if (!strcmp(text_in(d, "id", ""), cpu ? "cpu" : id)) found = json_incref(d);
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
    if (pm_options_set(args->options, "device", text_in(one, "device", "")) != PM_OK) {
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
    json_object_set_new(o, "device", device_of(args, text_in(check, "device", "")));
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
    out_print("%s against %s\n%s, ", text_in(all, "description", ""), text_in(all, "against", ""),
              text_in(op, "op", ""));
    print_place(op);
    out_print(", %.0f rows, made-up weights and inputs of seed %" JSON_INTEGER_FORMAT "%s\n",
              number_in(all, "rows", INFINITY), json_integer_value(json_object_get(all, "seed")),
              json_is_true(json_object_get(all, "injected")) ? ", with a planted fault" : "");
    const char *kernels = text_in(op, "kernels", "");
    if (*kernels) out_print("kernels: %s\n", kernels);
    out_print("NMSE %.3g (bound %.2g), %.0f values that are not finite or not the same\n",
              number_in(op, "nmse", INFINITY), number_in(op, "bound", INFINITY),
              number_in(op, "nonfinite", INFINITY));
    out_print("worst value: %s, row %.0f, column %.0f: %.9g, expected %.9g\n",
              text_in(worst, "buffer", ""), number_in(worst, "row", INFINITY),
              number_in(worst, "col", INFINITY), number_in(worst, "found", INFINITY),
              number_in(worst, "expected", INFINITY));
    out_print("%s: %.0f values compared\n", pass ? "passed" : "FAILED, reproduced",
              number_in(op, "compared", INFINITY));
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
