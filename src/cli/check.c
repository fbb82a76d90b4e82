// pumice check: pm_check's results as a table or JSON.
#include <math.h>
#include <string.h>

#include "cli/cli.h"

const cli_option check_options[] = {
    {"model", 'm', "MODEL", "the model, instead of the first word"},
    {"json", 0, NULL, "everything as one JSON document"},
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

static void print_op(const json_t *op, const char *count)
{
    out_print("%-9s %6s  %10.3g  %8.2g  %10.3g  %s  ", text_of(op, "op"), count,
              number_of(op, "nmse"), number_of(op, "bound"), number_of(op, "max_abs"),
              json_is_true(json_object_get(op, "pass")) ? "ok " : "BAD");
    print_place(op);
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
    out_print("KL divergence: mean %.3g (bound %.2g), 99 %% %.3g, max %.3g\n",
              number_of(l, "kl_mean"), number_of(b, "kl_mean"), number_of(l, "kl_p99"),
              number_of(l, "kl_max"));
    out_print("same choice: %.1f %%; %.1f %% (bound %.1f %%) where logits within %.2g are a tie\n",
              100 * number_of(l, "top1_agreement"), 100 * number_of(l, "top1_judged"),
              100 * number_of(b, "top1_judged"), number_of(b, "margin"));
}

static void print_verdict(const json_t *all)
{
    const json_t *bad = json_object_get(all, "first_bad"), *skip;
    size_t index;
    out_text("\n");
    json_array_foreach(json_object_get(all, "skipped"), index, skip)
        out_print("skipped: %s (%s)\n", text_of(skip, "what"), text_of(skip, "reason"));
    if (json_is_object(bad)) {
        out_print("first bad operation: %s, ", text_of(bad, "op"));
        print_place(bad);
        out_text("\n");
    }
    out_print("%s: %.0f values compared, %zu parts skipped\n",
              json_is_true(json_object_get(all, "pass")) ? "passed" : "FAILED",
              number_of(all, "compared_values"), json_array_size(json_object_get(all, "skipped")));
}

pm_status run_check(cli_args *args)
{
    loaded l = {0};
    char *text = NULL;
    pm_status status = loaded_model(args, args->n_words ? args->words[0] : NULL, &l);
    if (status == PM_ERROR_DEVICE) {
        status = error_in(status, "check: skipped");
    } else if (status == PM_OK) {
        status = pm_check(l.model, args->options, &text);
    }
    if (text && args_has(args, "json")) {
        out_text(text);
        out_text("\n");
    } else if (text) {
        json_t *all = json_loads(text, 0, NULL);
        print_about(all);
        print_ops(all, args->verbose);
        print_lockstep(all);
        print_verdict(all);
        json_decref(all);
    }
    pm_free(text);
    loaded_free(&l);
    return status;
}
