// compare's page: what ran, the drawing, all numbers.
#include <math.h>
#include <stdlib.h>

#include "base/os.h"
#include "cli/compare.h"

static void put_cells(buf *out, const char *tag, const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        buf_printf(out, "<%s>", tag);
        compare_escaped(out, texts[i] ? texts[i] : "");
        buf_printf(out, "</%s>", tag);
    }
    buf_str(out, "</tr>\n");
}

static const char *shown(char text[40], double x, int digits)
{
    if (isnan(x)) return "";
    snprintf(text, 40, "%.*f", digits, x);
    return text;
}

static void put_files(const comparison *c, buf *out)
{
    static const char *const titles[] = {"",      "file",    "device",  "driver",
                                         "model", "type",    "checked", "threads",
                                         "GB/s",  "GFLOP/s", "version"};
    buf_str(out, "<table><tr>");
    put_cells(out, "th", titles, sizeof titles / sizeof titles[0]);
    for (size_t f = 0; f < c->n_files; f++) {
        const json_t *all = c->files[f], *model = json_object_get(all, "model");
        colour k = compare_colour(f);
        char threads[40], gbps[40], gflops[40];
        const char *texts[] = {c->names[f],
                               compare_device(c, f),
                               text_in(all, "driver", NULL),
                               text_in(model, "name", NULL),
                               text_in(model, "type", NULL),
                               json_is_true(json_object_get(all, "checked")) ? "checked"
                                                                             : "not checked",
                               shown(threads, number_in(all, "threads", NAN), 0),
                               shown(gbps, number_in(all, "bandwidth_gbps", NAN), 1),
                               shown(gflops, number_in(all, "roof_gflops", NAN), 1),
                               text_in(json_object_get(all, "build"), "version", NULL)};
        buf_printf(out, "<tr><td style=\"border-left:12px solid #%02x%02x%02x\">%c</td>", k.r, k.g,
                   k.b, (int)('A' + f));
        put_cells(out, "td", texts, sizeof texts / sizeof texts[0]);
    }
    buf_str(out, "</table>\n");
}

static void put_results(const comparison *c, buf *out)
{
    static const char *const titles[] = {"run",        "result",  "tokens/s",
                                         "±",          "samples", "ratio",
                                         "difference", "GB/s",    "% of measured bandwidth"};
    buf_str(out, "<table><tr>");
    put_cells(out, "th", titles, sizeof titles / sizeof titles[0]);
    for (size_t r = 0; r < c->n_rows; r++) {
        const compare_row *row = &c->rows[r];
        for (size_t f = 0; f < c->n_files; f++) {
            const compare_cell *x = &row->cells[f];
            double bandwidth = number_in(c->files[f], "bandwidth_gbps", NAN);
            char run[80], median[40], sd[40], ratio[40], gbps[40], part[40], n[40];
            char letter[2] = {(char)('A' + f), 0};
            snprintf(run, sizeof run, "%.20s %d at %d", row->kind, row->n, row->depth);
            const char *texts[] = {run,
                                   letter,
                                   x->there ? shown(median, x->median, 2) : "no result",
                                   x->there ? shown(sd, x->sd, 2) : "",
                                   x->there ? shown(n, (double)x->samples, 0) : "",
                                   x->there ? shown(ratio, x->ratio, 3) : "",
                                   x->there ? x->noise : "",
                                   x->there ? shown(gbps, x->gbps, 2) : "",
                                   x->there ? shown(part, 100 * x->gbps / bandwidth, 1) : ""};
            buf_str(out, "<tr>");
            put_cells(out, "td", texts, sizeof texts / sizeof texts[0]);
        }
    }
    buf_str(out, "</table>\n");
}

pm_status compare_html(const comparison *c, const char *path)
{
    buf out = {0};
    buf_str(&out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>pumice "
                  "compare</title>\n<style>body{font:15px sans-serif;margin:2em}table{border-"
                  "collapse:collapse;margin:1em 0}td,th{border:1px solid #999;padding:3px 8px;text-"
                  "align:left}svg{max-width:100%;height:auto}</style></head><body>\n"
                  "<h1>pumice compare</h1>\n");
    if (json_object_size(c->differ) > 0) {
        char *text = json_dumps(c->differ, 0);
        buf_str(&out, "<p><b>These results are of unlike runs:</b> ");
        compare_escaped(&out, text ? text : "");
        buf_str(&out, "</p>\n");
        free(text);
    }
    put_files(c, &out);
    compare_svg(c, &out);
    buf_str(&out, "<p>Black lines: a deviation to both sides. In brackets the ratio to the first "
                  "result, and whether the difference is more than noise.</p>\n");
    put_results(c, &out);
    buf_str(&out, "</body></html>\n");
    os_writer *file = NULL;
    pm_status status = out.failed ? error_memory("a page", 0) : os_writer_open(path, &file);
    if (status == PM_OK) status = os_writer_write(file, out.data, out.len);
    if (status == PM_OK)
        status = os_writer_commit(file);
    else
        os_writer_abort(file);
    buf_free(&out);
    return status;
}
