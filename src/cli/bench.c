// pumice bench: pm_bench's results as a table, Markdown, JSON or CSV.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/cli.h"

const cli_option bench_options[] = {
    {"model", 'm', "MODEL", "the model, instead of the first word"},
    {"output", 'o', "table|md|json|csv", "how the results are written (default table)"},
    {"json", 0, NULL, "the same as -o json"},
    {0},
};

// What a row shows, in this order.
typedef struct column {
    const char *key, *title; // no title: the end
    int digits;              // behind the point; -1: text
    int width;
} column;

static const column result_columns[] = {
    {"kind", "kind", -1, 10},
    {"n", "tokens", 0, 10},
    {"depth", "depth", 0, 10},
    {"mean_tps", "tokens/s", 2, 10},
    {"sd_tps", "+-", 2, 10},
    {"median_tps", "median", 2, 10},
    {"bytes_per_token", "bytes/token", 0, 11},
    {"gbps", "GB/s", 2, 10},
    {"percent_of_bandwidth", "% of bandwidth", 1, 14},
    {"percent_of_peak", "% of peak", 1, 10},
    {"first_token_s", "first token s", 4, 13},
    {"status", "status", -1, 10},
    {0},
};
static const column estimate_columns[] = {
    {"kind", "kind", -1, 10},
    {"n", "tokens", 0, 10},
    {"depth", "depth", 0, 10},
    {"bytes_per_token", "bytes/token", 0, 12},
    {"flops_per_token", "flops/token", 0, 12},
    {"ops_per_token", "dispatches/token", 2, 16},
    {"bound_tps", "tokens/s at most", 2, 16},
    {"gflops_at_bound", "GFLOP/s then", 2, 12},
    {0},
};
static const column op_columns[] = {
    {"kind", "kind", -1, 8},       {"n", "tokens", 0, 6},          {"depth", "depth", 0, 6},
    {"op", "op", -1, 8},           {"label", "label", -1, 14},     {"calls", "calls", 0, 7},
    {"seconds", "seconds", 6, 10}, {"percent_of_time", "%", 1, 5}, {"gbps", "GB/s", 2, 8},
    {"gflops", "GFLOP/s", 2, 8},   {"bound", "bound by", -1, 8},   {0},
};

// How a table is written: what stands before, between and behind cells, and whether they line up.
typedef struct style {
    const char *before, *between, *behind;
    bool padded, csv, md;
} style;
static const style table_form = {"", "  ", "\n", true, false, false};
static const style md_form = {"| ", " | ", " |\n", false, false, true};
static const style csv_form = {"", ",", "\n", false, true, false};

static const char *cell(const json_t *row, const column *c, char text[64])
{
    const json_t *value = json_object_get(row, c->key);
    if (json_is_string(value)) return json_string_value(value);
    if (!json_is_number(value)) return "";
    snprintf(text, 64, "%.*f", c->digits < 0 ? 0 : c->digits, json_number_value(value));
    return text;
}

// A line of cells; row NULL: the titles. The first column lines up on the left.
static void print_row(const column *columns, const json_t *row, const style *f)
{
    char text[64];
    out_text(f->before);
    for (const column *c = columns; c->title; c++) {
        const char *shown = row ? cell(row, c, text) : c->title;
        int width = f->padded ? c->width : 0;
        out_print("%s%*s", c > columns ? f->between : "", c > columns ? width : -width, shown);
    }
    out_text(f->behind);
}

static void print_titles(const column *columns, const style *f)
{
    print_row(columns, NULL, f);
    if (!f->md) return;
    out_text("|");
    for (const column *c = columns; c->title; c++) out_text(c > columns ? " ---: |" : " --- |");
    out_text("\n");
}

static void print_about(const json_t *all, const char *before)
{
    const json_t *model = json_object_get(all, "model"), *device = json_object_get(all, "device");
    const char *name = text_in(device, "name", NULL);
    const char *id = text_in(device, "id", "?");
    if (json_is_string(device)) id = json_string_value(device);
    out_print("%smodel: %s, %s, %s\n", before, text_in(model, "name", "?"),
              text_in(model, "type", "?"), show_mib((uint64_t)number_in(model, "bytes", 0)));
    out_print("%sdevice: %s%s%s, %.0f threads, batch %.0f, KV cache %s\n", before, id,
              name ? ", " : "", name ? name : "", number_in(all, "threads", 0),
              number_in(all, "batch", 0), text_in(all, "kv_type", "?"));
    const json_t *checked = json_object_get(all, "checked");
    const char *unchecked = text_in(all, "checked_reason", NULL); // what failed, or why none ran
    out_print("%sorder and tokens: --seed %.0f; %s\n", before, number_in(all, "seed", 0),
              json_is_true(checked)    ? "checked: the device passed a quick check in this run"
              : json_is_false(checked) ? "NOT CHECKED: the device failed the quick check"
              : unchecked              ? "NOT CHECKED: the quick check could not be run"
                                       : "not checked");
    if (json_object_get(all, "estimate_gbps")) {
        out_print("%sestimate for %.1f GB/s, nothing was run\n", before,
                  number_in(all, "estimate_gbps", 0));
        return;
    }
    const char *reason = text_in(all, "bandwidth_reason", NULL);
    if (reason)
        out_print("%sread bandwidth: not known (%s)\n", before, reason);
    else
        out_print("%sread bandwidth: %.1f GB/s\n", before, number_in(all, "bandwidth_gbps", 0));
    out_print("%sloaded in %.2f s; peak memory %s\n", before, number_in(all, "load_s", 0),
              show_mib((uint64_t)number_in(all, "peak_rss_bytes", 0)));
}

// What each profile holds as a whole, then the ops of all.
static void print_ops(const json_t *all, const style *f, bool quiet)
{
    size_t index;
    const json_t *p, *row;
    const char *before = f->md ? "- " : "";
    out_text("\n");
    double roof = number_in(all, "roof_gflops", 0);
    if (!f->csv && roof > 0)
        out_print("%sbest matrix product of a batch: %.2f GFLOP/s\n", before, roof);
    json_array_foreach(json_object_get(all, "profiles"), index, p)
    {
        const json_t *dispatches = json_object_get(p, "dispatches");
        const char *reason = text_in(p, "clock_reason", NULL);
        if (reason && !quiet) say_warning("times are the host's: %s", reason);
        if (f->csv) continue;
        out_print("%s%s, %.0f tokens at depth %.0f: %.4f s in its operations (%s's clock)", before,
                  text_in(p, "kind", "?"), number_in(p, "n", 0), number_in(p, "depth", 0),
                  number_in(p, "seconds", 0), text_in(p, "clock", "?"));
        if (json_is_integer(dispatches))
            out_print("; %.0f dispatches a step, at most %.0f a layer",
                      json_number_value(dispatches), number_in(p, "dispatches_a_layer", 0));
        out_text("\n");
    }
    if (!f->csv) out_text("\n");
    print_titles(op_columns, f);
    json_array_foreach(json_object_get(all, "ops"), index, row) print_row(op_columns, row, f);
}

// Those whose last warm-ups still differed: something else was going on.
static void print_unsteady(const json_t *all, const char *before)
{
    size_t index;
    const json_t *row;
    json_array_foreach(json_object_get(all, "results"), index, row)
    {
        if (strcmp(text_in(row, "status", ""), "ok") != 0) continue;
        if (!json_is_false(json_object_get(row, "steady"))) continue;
        out_print("%snot steady after %.0f warm-ups: %s, %.0f tokens at depth %.0f\n", before,
                  number_in(row, "warm_ups", 0), text_in(row, "kind", "?"), number_in(row, "n", 0),
                  number_in(row, "depth", 0));
    }
}

static void print_results(const json_t *all, const style *f, bool quiet)
{
    size_t index;
    const json_t *row;
    if (!f->csv) {
        print_about(all, f->md ? "- " : "");
        out_text("\n");
    }
    bool estimated = json_object_get(all, "estimate_gbps") != NULL;
    const column *columns = estimated ? estimate_columns : result_columns;
    print_titles(columns, f);
    json_array_foreach(json_object_get(all, "results"), index, row)
    {
        const char *reason = text_in(row, "reason", NULL);
        print_row(columns, row, f);
        if (reason && *reason) say_warning("%s", reason); // also with -q: the case failed
    }
    if (!f->csv) print_unsteady(all, f->md ? "- " : "");
    if (json_object_get(all, "ops")) print_ops(all, f, quiet);
}

// ---- the standard model -----------------------------------------------------------------------

static pm_status make_suite_model(cli_args *args, pm_suite_model *m)
{
    bool line = !args->quiet && os_is_terminal(2);
    double start = os_seconds();
    int done = 0, shown = -1;
    pm_status status = PM_OK;
    if (pm_suite_model_part(m) < 1 && !args->quiet)
        say("making the standard model (%s) in %s", show_mib(pm_suite_model_bytes(m)),
            pm_suite_model_path(m));
    os_interrupts_clear();
    os_interrupts_catch();
    while (status == PM_OK && !done && os_interrupts() == 0) {
        status = pm_suite_model_next(m, &done);
        if (line && status == PM_OK && !done) show_percent(pm_suite_model_part(m), start, &shown);
    }
    if (shown >= 0) fputs("\r\033[K", stderr);
    args->interrupted = !done && os_interrupts() > 0;
    os_interrupts_release();
    return status;
}

// --suite without a MODEL: where the standard model is, made where it is missing.
static pm_status suite_model(cli_args *args, char **path)
{
    const char *given = pm_options_get(args->options, "cache-dir");
    char *folder = given ? strdup(given) : cache_folder();
    if (!folder)
        return error_set(PM_ERROR_USAGE, "--suite: no folder for the standard model (HOME is not "
                                         "set: give --cache-dir FOLDER, or MODEL)");
    pm_suite_model *m = NULL;
    pm_status status = pm_suite_model_start(folder, args->options, &m);
    if (status == PM_OK) status = make_suite_model(args, m);
    if (status == PM_OK && !(*path = strdup(pm_suite_model_path(m))))
        status = error_memory("a path", 0);
    pm_suite_model_destroy(m);
    free(folder);
    return status;
}

static pm_status bench_model(cli_args *args, loaded *l)
{
    const char *word = args->n_words ? args->words[0] : NULL, *suite;
    suite = pm_options_get(args->options, "suite");
    if (word || args_get(args, "model") || !suite || strcmp(suite, "true") != 0)
        return loaded_model(args, word, l);
    char *path = NULL;
    pm_status status = suite_model(args, &path);
    if (status == PM_OK && !args->interrupted) status = loaded_model(args, path, l);
    free(path);
    return status;
}

pm_status run_bench(cli_args *args)
{
    const char *form = args_get(args, "output");
    if (args_has(args, "json")) form = "json";
    if (!form) form = "table";
    if (strcmp(form, "table") != 0 && strcmp(form, "md") != 0 && strcmp(form, "json") != 0 &&
        strcmp(form, "csv") != 0)
        return error_set(PM_ERROR_USAGE, "--output: '%s' is not one of table, md, json and csv",
                         form);
    loaded l = {0};
    char *text = NULL;
    pm_status status = bench_model(args, &l);
    if (args->interrupted) return status;
    if (status == PM_OK) status = pm_bench(l.model, args->options, &text);
    device_warnings(args, &l);
    if (text && !strcmp(form, "json")) {
        out_text(text);
        out_text("\n");
    } else if (text) {
        json_t *all = json_loads(text, 0, NULL);
        print_results(all,
                      !strcmp(form, "csv")  ? &csv_form
                      : !strcmp(form, "md") ? &md_form
                                            : &table_form,
                      args->quiet);
        json_decref(all);
    }
    pm_free(text);
    loaded_free(&l);
    return status;
}
