// pumice compare: bench's results of several runs or machines side by side.
#include "cli/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const cli_option compare_options[] = {
    {"json", 0, NULL, "everything as one JSON document"},
    {"force", 0, NULL, "compares what is unlike, too, and says how it differs"},
    {"html", 0, "FILE", "a page of its own with tables and bars"},
    {"png", 0, "FILE", "a picture: bars, and a roofline where bench ran with --per-op"},
    {0},
};

enum { SCHEMA = 1 };

colour compare_colour(size_t file)
{
    static const colour list[] = {{0, 114, 178},   {230, 159, 0},  {0, 158, 115},  {213, 94, 0},
                                  {204, 121, 167}, {86, 180, 233}, {240, 228, 66}, {0, 0, 0}};
    return list[file % (sizeof list / sizeof list[0])];
}

const char *compare_device(const comparison *c, size_t file)
{
    const json_t *device = json_object_get(c->files[file], "device");
    return text_in(device, "name", "?");
}

// ---- reading ----------------------------------------------------------------------------------

static pm_status load(comparison *c, const char *path)
{
    char *text = NULL;
    size_t n = 0;
    pm_status status = read_input(path, &text, &n);
    if (status != PM_OK) return status;
    json_error_t where;
    json_t *all = json_loadb(text, n, 0, &where);
    free(text);
    if (!all) return error_set(PM_ERROR_FILE, "%s: not JSON: %s", path, where.text);
    c->names[c->n_files] = path;
    c->files[c->n_files++] = all;
    const json_t *schema = json_object_get(all, "schema");
    if (!json_is_integer(schema) || !json_is_array(json_object_get(all, "results")))
        return error_set(PM_ERROR_FILE, "%s: not what 'pumice bench -o json' prints", path);
    if (json_integer_value(schema) != SCHEMA)
        return error_set(PM_ERROR_FILE, "%s: of schema %d, this program knows %d", path,
                         (int)json_integer_value(schema), SCHEMA);
    return PM_OK;
}

// What must be alike, or the numbers say nothing about the devices.
static pm_status find_differences(comparison *c)
{
    static const struct {
        const char *name, *in, *key;
    } alike[] = {{"model", "model", "sha256"},
                 {"type", "model", "type"},
                 {"batch", NULL, "batch"},
                 {"kv_type", NULL, "kv_type"}};
    c->differ = json_object();
    for (size_t k = 0; k < sizeof alike / sizeof alike[0]; k++) {
        json_t *values = json_array();
        bool same = true;
        for (size_t f = 0; f < c->n_files; f++) {
            const json_t *o = c->files[f];
            if (alike[k].in) o = json_object_get(o, alike[k].in);
            json_t *value = json_object_get(o, alike[k].key);
            json_array_append_new(values, value ? json_deep_copy(value) : json_null());
            same = same && json_equal(json_array_get(values, 0), json_array_get(values, f));
        }
        if (same)
            json_decref(values);
        else
            json_object_set_new(c->differ, alike[k].name, values);
    }
    return c->differ ? PM_OK : error_memory("a comparison", 0);
}

static char *differences(const comparison *c)
{
    buf text = {0};
    const char *what;
    json_t *values, *value;
    size_t f;
    json_object_foreach(c->differ, what, values)
    {
        buf_printf(&text, "%s%s (", text.len ? "; " : "", what);
        json_array_foreach(values, f, value)
        {
            char *shown = json_dumps(value, JSON_ENCODE_ANY);
            buf_printf(&text, "%s%.18s", f ? ", " : "", shown ? shown : "?");
            free(shown);
        }
        buf_str(&text, ")");
    }
    return text.failed ? NULL : text.data;
}

static compare_row *row_of(comparison *c, const json_t *result)
{
    const char *kind = text_in(result, "kind", NULL);
    double n = number_in(result, "n", NAN), depth = number_in(result, "depth", NAN);
    if (!kind || !(n >= 0 && n < 1e9) || !(depth >= 0 && depth < 1e9)) return NULL;
    for (size_t r = 0; r < c->n_rows; r++) {
        compare_row *row = &c->rows[r];
        if (!strcmp(row->kind, kind) && row->n == (int)n && row->depth == (int)depth) return row;
    }
    if (c->n_rows == COMPARE_MAX_ROWS) return NULL;
    c->rows[c->n_rows] = (compare_row){.kind = kind, .n = (int)n, .depth = (int)depth};
    return &c->rows[c->n_rows++];
}

static void collect_rows(comparison *c)
{
    for (size_t f = 0; f < c->n_files; f++) {
        size_t i;
        const json_t *result;
        json_array_foreach(json_object_get(c->files[f], "results"), i, result)
        {
            compare_row *row = row_of(c, result);
            const char *status = text_in(result, "status", NULL);
            double median = number_in(result, "median_tps", NAN);
            if (!row || !status || strcmp(status, "ok") != 0 || !(median > 0)) continue;
            double sd = number_in(result, "sd_tps", NAN);
            row->cells[f] =
                (compare_cell){.there = true,
                               .median = median,
                               .sd = isnan(sd) ? 0 : sd,
                               .gbps = number_in(result, "gbps", NAN),
                               .samples = json_array_size(json_object_get(result, "samples_tps"))};
        }
    }
}

// A difference counts where it is more than twice the deviation of a difference of two samples.
static const char *noise_of(const compare_cell *base, const compare_cell *x)
{
    if (base->samples < 2 || x->samples < 2) return "one sample";
    double spread = 2 * sqrt(base->sd * base->sd + x->sd * x->sd);
    if (fabs(x->median - base->median) <= spread) return "none";
    return x->median > base->median ? "faster" : "slower";
}

static void compare_cells(comparison *c)
{
    for (size_t r = 0; r < c->n_rows; r++) {
        compare_cell *base = NULL;
        for (size_t f = 0; f < c->n_files; f++) {
            compare_cell *x = &c->rows[r].cells[f];
            if (!x->there) continue;
            if (!base) base = x;
            x->ratio = x->median / base->median;
            x->noise = x == base ? "" : noise_of(base, x);
        }
    }
}

// ---- writing ----------------------------------------------------------------------------------

static void print_files(const comparison *c)
{
    for (size_t f = 0; f < c->n_files; f++) {
        const json_t *all = c->files[f], *model = json_object_get(all, "model");
        const char *driver = text_in(all, "driver", NULL);
        out_print("%c  %s: %s%s%s; %s, %.0f threads; %s\n", (int)('A' + f), c->names[f],
                  compare_device(c, f), driver ? ", " : "", driver ? driver : "",
                  text_in(model, "name", "?"), number_in(all, "threads", NAN),
                  json_is_true(json_object_get(all, "checked")) ? "checked" : "not checked");
    }
}

static void print_table(const comparison *c)
{
    print_files(c);
    out_print("\n%-9s %7s %7s", "kind", "tokens", "depth");
    for (size_t f = 0; f < c->n_files; f++)
        out_print("  %12c tokens/s  ratio  difference", (int)('A' + f));
    out_text("\n");
    for (size_t r = 0; r < c->n_rows; r++) {
        const compare_row *row = &c->rows[r];
        out_print("%-9s %7d %7d", row->kind, row->n, row->depth);
        for (size_t f = 0; f < c->n_files; f++) {
            const compare_cell *x = &row->cells[f];
            if (x->there)
                out_print("  %10.2f +- %7.2f %6.3f  %-10s", x->median, x->sd, x->ratio, x->noise);
            else
                out_print("  %10s    %7s %6s  %-10s", "-", "", "", "");
        }
        out_text("\n");
    }
}

static void print_json(const comparison *c)
{
    json_t *o = json_object(), *files = json_array(), *rows = json_array();
    for (size_t f = 0; f < c->n_files; f++) {
        json_t *file = json_object();
        json_object_set_new(file, "file", json_of_bytes(c->names[f], strlen(c->names[f])));
        json_object_set_new(file, "device", json_string(compare_device(c, f)));
        json_object_set(file, "checked", json_object_get(c->files[f], "checked"));
        json_array_append_new(files, file);
    }
    for (size_t r = 0; r < c->n_rows; r++) {
        const compare_row *row = &c->rows[r];
        json_t *item = json_object(), *cells = json_array();
        json_object_set_new(item, "kind", json_string(row->kind));
        json_object_set_new(item, "n", json_integer(row->n));
        json_object_set_new(item, "depth", json_integer(row->depth));
        for (size_t f = 0; f < c->n_files; f++) {
            const compare_cell *x = &row->cells[f];
            json_t *cell = json_object();
            json_object_set_new(cell, "median_tps", x->there ? json_real(x->median) : json_null());
            json_object_set_new(cell, "sd_tps", x->there ? json_real(x->sd) : json_null());
            json_object_set_new(cell, "ratio", x->there ? json_real(x->ratio) : json_null());
            json_object_set_new(cell, "difference", x->noise ? json_string(x->noise) : json_null());
            json_array_append_new(cells, cell);
        }
        json_object_set_new(item, "values", cells);
        json_array_append_new(rows, item);
    }
    json_object_set_new(o, "files", files);
    json_object_set(o, "differ", c->differ);
    json_object_set_new(o, "results", rows);
    out_json(o, JSON_INDENT(1));
    json_decref(o);
}

static pm_status load_all(const cli_args *args, comparison *c)
{
    if (args->n_words < 2 || args->n_words > COMPARE_MAX_FILES)
        return error_set(PM_ERROR_USAGE,
                         "compare needs 2 to %d files (pumice compare a.json b.json)",
                         COMPARE_MAX_FILES);
    pm_status status = PM_OK;
    for (int i = 0; i < args->n_words && status == PM_OK; i++) status = load(c, args->words[i]);
    if (status == PM_OK) status = find_differences(c);
    if (status != PM_OK || json_object_size(c->differ) == 0) return status;
    char *text = differences(c);
    if (!args_has(args, "force"))
        status = error_set(PM_ERROR_USAGE, "compare: unlike: %s (--force compares all the same)",
                           text ? text : "");
    else if (!args->quiet)
        say_warning("unlike: %s", text ? text : "");
    free(text);
    return status;
}

pm_status run_compare(cli_args *args)
{
    comparison *c = calloc(1, sizeof *c);
    if (!c) return error_memory("a comparison", sizeof *c);
    const char *html = args_get(args, "html"), *png = args_get(args, "png");
    pm_status status = load_all(args, c);
    if (status == PM_OK) {
        collect_rows(c);
        compare_cells(c);
        if (c->n_rows == 0) status = error_set(PM_ERROR_FILE, "compare: no results in these files");
    }
    if (status == PM_OK && html) status = compare_html(c, html);
    if (status == PM_OK && png) status = compare_png(c, png);
    if (status == PM_OK && args_has(args, "json"))
        print_json(c);
    else if (status == PM_OK)
        print_table(c);
    for (size_t f = 0; f < c->n_files; f++) json_decref(c->files[f]);
    json_decref(c->differ);
    free(c);
    return status;
}
