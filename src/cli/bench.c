// pumice bench: pm_bench's results as a table, Markdown, JSON or CSV.
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

const cli_option bench_options[] = {
    {"model", 'm', "MODEL", "the model, instead of the first word"},
    {"output", 'o', "table|md|json|csv", "how the results are written (default table)"},
    {"json", 0, NULL, "the same as -o json"},
    {0},
};

// What a row shows, in this order.
static const struct column {
    const char *key, *title;
    int digits; // behind the point; -1: text
} columns[] = {
    {"kind", "kind", -1},
    {"n", "tokens", 0},
    {"depth", "depth", 0},
    {"mean_tps", "tokens/s", 2},
    {"sd_tps", "+-", 2},
    {"median_tps", "median", 2},
    {"bytes_per_token", "bytes/token", 0},
    {"gbps", "GB/s", 2},
    {"percent_of_bandwidth", "% of bandwidth", 1},
    {"status", "status", -1},
};
enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

static const char *cell(const json_t *row, size_t k, char text[64])
{
    const json_t *value = json_object_get(row, columns[k].key);
    if (json_is_string(value)) return json_string_value(value);
    if (!json_is_number(value)) return "";
    snprintf(text, 64, "%.*f", columns[k].digits < 0 ? 0 : columns[k].digits,
             json_number_value(value));
    return text;
}

// A line of cells: {begin, between, end} and whether cells are padded. NULL: the titles.
static void print_row(const json_t *row, const char *const marks[3], bool padded)
{
    char text[64];
    out_text(marks[0]);
    for (size_t k = 0; k < N_COLUMNS; k++) {
        const char *shown = row ? cell(row, k, text) : columns[k].title;
        int width = !padded                              ? 0
                    : (int)strlen(columns[k].title) > 10 ? (int)strlen(columns[k].title)
                                                         : 10;
        out_print("%s%*s", k ? marks[1] : "", k || !padded ? width : -width, shown);
    }
    out_text(marks[2]);
}

static void print_about(const json_t *all, const char *before)
{
    const json_t *model = json_object_get(all, "model"), *device = json_object_get(all, "device");
    const char *name = json_string_value(json_object_get(device, "name"));
    const char *id = json_string_value(json_object_get(device, "id"));
    if (json_is_string(device)) id = json_string_value(device);
    const char *file = json_string_value(json_object_get(model, "name"));
    const char *type = json_string_value(json_object_get(model, "type"));
    const char *kv = json_string_value(json_object_get(all, "kv_type"));
    out_print("%smodel: %s, %s, %s\n", before, file ? file : "?", type ? type : "?",
              show_mib((uint64_t)json_number_value(json_object_get(model, "bytes"))));
    out_print("%sdevice: %s%s%s, %.0f threads, batch %.0f, KV cache %s\n", before, id ? id : "?",
              name ? ", " : "", name ? name : "",
              json_number_value(json_object_get(all, "threads")),
              json_number_value(json_object_get(all, "batch")), kv ? kv : "?");
    out_print("%sread bandwidth: %.1f GB/s; loaded in %.2f s; peak memory %s\n", before,
              json_number_value(json_object_get(all, "bandwidth_gbps")),
              json_number_value(json_object_get(all, "load_s")),
              show_mib((uint64_t)json_number_value(json_object_get(all, "peak_rss_bytes"))));
}

static void print_results(const json_t *all, const char *form)
{
    static const char *const table[] = {"", "  ", "\n"}, *const md[] = {"| ", " | ", " |\n"},
                             *const csv[] = {"", ",", "\n"};
    bool is_csv = !strcmp(form, "csv"), is_md = !strcmp(form, "md");
    const char *const *marks = is_csv ? csv : is_md ? md : table;
    size_t index;
    const json_t *row;
    if (!is_csv) {
        print_about(all, is_md ? "- " : "");
        out_text("\n");
    }
    print_row(NULL, marks, !is_csv && !is_md);
    if (is_md) {
        out_text("|");
        for (size_t k = 0; k < N_COLUMNS; k++) out_text(k ? " ---: |" : " --- |");
        out_text("\n");
    }
    json_array_foreach(json_object_get(all, "results"), index, row)
    {
        const char *reason = json_string_value(json_object_get(row, "reason"));
        print_row(row, marks, !is_csv && !is_md);
        if (reason && *reason) say_warning("%s", reason);
    }
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
    pm_status status = loaded_model(args, args->n_words ? args->words[0] : NULL, &l);
    if (status == PM_OK) status = pm_bench(l.model, args->options, &text);
    if (status == PM_OK && !strcmp(form, "json")) {
        out_text(text);
        out_text("\n");
    } else if (status == PM_OK) {
        json_t *all = json_loads(text, 0, NULL);
        print_results(all, form);
        json_decref(all);
    }
    pm_free(text);
    loaded_free(&l);
    return status;
}
