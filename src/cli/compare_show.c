// compare's page and picture.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/compare.h"

static double most_of_row(const comparison *c, const compare_row *row)
{
    double most = 0;
    for (size_t f = 0; f < c->n_files; f++)
        if (row->cells[f].there) most = fmax(most, row->cells[f].median + row->cells[f].sd);
    return most > 0 ? most : 1;
}

// ---- HTML -------------------------------------------------------------------------------------

static void escaped(buf *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '<': buf_str(out, "&lt;"); break;
        case '>': buf_str(out, "&gt;"); break;
        case '&': buf_str(out, "&amp;"); break;
        case '"': buf_str(out, "&quot;"); break;
        default: buf_char(out, *text);
        }
    }
}

static void html_files(const comparison *c, buf *out)
{
    buf_str(out, "<table><tr><th></th><th>file</th><th>device</th><th>driver</th><th>model</th>"
                 "<th>checked</th></tr>\n");
    for (size_t f = 0; f < c->n_files; f++) {
        const json_t *all = c->files[f];
        colour k = compare_colour(f);
        const char *texts[] = {
            c->names[f], compare_device(c, f), json_string_value(json_object_get(all, "driver")),
            json_string_value(json_object_get(json_object_get(all, "model"), "name")),
            json_is_true(json_object_get(all, "checked")) ? "checked" : "not checked"};
        buf_printf(out, "<tr><td style=\"background:#%02x%02x%02x\">&nbsp;%c&nbsp;</td>", k.r, k.g,
                   k.b, (int)('A' + f));
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
            buf_str(out, "<td>");
            escaped(out, texts[i] ? texts[i] : "");
            buf_str(out, "</td>");
        }
        buf_str(out, "</tr>\n");
    }
    buf_str(out, "</table>\n");
}

enum { HTML_BAR = 18, HTML_WIDTH = 420 };

static void html_bars(const comparison *c, const compare_row *row, buf *out)
{
    double most = most_of_row(c, row);
    buf_printf(out, "<svg width=\"%d\" height=\"%d\" role=\"img\">", HTML_WIDTH + 190,
               (int)c->n_files * (HTML_BAR + 4));
    for (size_t f = 0; f < c->n_files; f++) {
        const compare_cell *x = &row->cells[f];
        colour k = compare_colour(f);
        int y = (int)f * (HTML_BAR + 4);
        double width = x->there ? HTML_WIDTH * x->median / most : 0;
        double spread = x->there ? HTML_WIDTH * x->sd / most : 0;
        buf_printf(out,
                   "<rect x=\"20\" y=\"%d\" width=\"%.1f\" height=\"%d\" "
                   "fill=\"#%02x%02x%02x\"/><line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" "
                   "stroke=\"#000\" stroke-width=\"2\"/><text x=\"4\" y=\"%d\">%c</text>",
                   y, width, HTML_BAR, k.r, k.g, k.b, 20 + width - spread, 20 + width + spread,
                   y + HTML_BAR / 2, y + HTML_BAR / 2, y + 14, (int)('A' + f));
        if (x->there)
            buf_printf(out, "<text x=\"%.1f\" y=\"%d\">%.2f (%.3f%s%s)</text>", 26 + width + spread,
                       y + 14, x->median, x->ratio, *x->noise ? ", " : "", x->noise);
        else
            buf_printf(out, "<text x=\"24\" y=\"%d\">no result</text>", y + 14);
    }
    buf_str(out, "</svg>\n");
}

pm_status compare_html(const comparison *c, const char *path)
{
    buf out = {0};
    buf_str(&out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>pumice "
                  "compare</title>\n<style>body{font:15px sans-serif;margin:2em}table{border-"
                  "collapse:collapse}td,th{border:1px solid #999;padding:3px 8px;text-align:left}"
                  "</style></head><body>\n<h1>pumice compare</h1>\n");
    if (json_object_size(c->differ) > 0) {
        char *text = json_dumps(c->differ, 0);
        buf_str(&out, "<p><b>These results are of unlike runs:</b> ");
        escaped(&out, text ? text : "");
        buf_str(&out, "</p>\n");
        free(text);
    }
    html_files(c, &out);
    for (size_t r = 0; r < c->n_rows; r++) {
        const compare_row *row = &c->rows[r];
        buf_str(&out, "<h2>");
        escaped(&out, row->kind);
        buf_printf(&out, ", %d tokens at depth %d (tokens/s)</h2>\n", row->n, row->depth);
        html_bars(c, row, &out);
    }
    buf_str(&out, "<p>Black lines: a deviation to both sides. In brackets the ratio to the first "
                  "result, and whether the difference is more than noise.</p></body></html>\n");
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

// ---- PNG: bars --------------------------------------------------------------------------------

enum {
    MARGIN = 16,
    BAR = 12,
    BARS_WIDTH = 400,
    LEFT = MARGIN + 12,
    ROOF_WIDTH = 460,
    ROOF_HEIGHT = 320,
    ROOF_LEFT = 60
};

static int bars_height(const comparison *c)
{
    return (int)c->n_rows * (18 + (int)c->n_files * (BAR + 3) + 8);
}

static void draw_bars(picture *p, int y, const comparison *c)
{
    char text[120];
    for (size_t r = 0; r < c->n_rows; r++) {
        const compare_row *row = &c->rows[r];
        double most = most_of_row(c, row);
        snprintf(text, sizeof text, "%.20s, %d tokens at depth %d", row->kind, row->n, row->depth);
        picture_text(p, LEFT, y + 4, text, picture_black, false);
        y += 18;
        for (size_t f = 0; f < c->n_files; f++, y += BAR + 3) {
            const compare_cell *x = &row->cells[f];
            char letter[2] = {(char)('A' + f), 0};
            picture_text(p, MARGIN, y + 3, letter, picture_black, false);
            if (!x->there) continue;
            int width = (int)lround(BARS_WIDTH * x->median / most);
            int spread = (int)lround(BARS_WIDTH * x->sd / most);
            picture_fill(p, LEFT, y, width, BAR, compare_colour(f));
            picture_fill(p, LEFT + width - spread, y + BAR / 2, 2 * spread + 1, 1, picture_black);
            snprintf(text, sizeof text, "%.2f (%.3f%s%s)", x->median, x->ratio,
                     *x->noise ? ", " : "", x->noise);
            picture_text(p, LEFT + width + spread + 6, y + 3, text, picture_black, false);
        }
        y += 8;
    }
}

// ---- PNG: roofline ----------------------------------------------------------------------------

static double number_in(const json_t *o, const char *key)
{
    const json_t *value = json_object_get(o, key);
    return json_is_number(value) ? json_number_value(value) : 0;
}

static bool has_roof(const json_t *file)
{
    return number_in(file, "roof_gflops") > 0 && number_in(file, "bandwidth_gbps") > 0 &&
           json_array_size(json_object_get(file, "ops")) > 0;
}

// Both axes are logarithmic: 2^-4 to 2^12 flops a byte, the given powers of two GFLOP/s.
typedef struct axes {
    int x, y;
    double low, high;
} axes;

static double place_x(const axes *a, double intensity)
{
    double part = (log2(intensity) + 4) / 16;
    return a->x + ROOF_LEFT + fmin(fmax(part, 0), 1) * ROOF_WIDTH;
}

static double place_y(const axes *a, double gflops)
{
    double part = (log2(gflops) - a->low) / (a->high - a->low);
    return a->y + ROOF_HEIGHT - fmin(fmax(part, 0), 1) * ROOF_HEIGHT;
}

static void draw_axes(picture *p, const axes *a)
{
    char text[40];
    picture_text(p, a->x, a->y - 14, "roofline: GFLOP/s over flops per byte, a point an operation",
                 picture_black, false);
    picture_frame(p, a->x + ROOF_LEFT, a->y, ROOF_WIDTH + 1, ROOF_HEIGHT + 1, picture_grey);
    for (int e = -4; e <= 12; e += 2) {
        int x = (int)place_x(a, exp2(e));
        snprintf(text, sizeof text, "%.4g", exp2(e));
        picture_text(p, x - picture_text_width(text) / 2, a->y + ROOF_HEIGHT + 5, text,
                     picture_black, false);
    }
    for (int e = (int)a->low; e <= (int)a->high; e += 2) {
        snprintf(text, sizeof text, "%.4g", exp2(e));
        picture_text(p, a->x + ROOF_LEFT - 6 - picture_text_width(text),
                     (int)place_y(a, exp2(e)) - 3, text, picture_black, false);
    }
}

static void draw_file(picture *p, const axes *a, const json_t *file, colour k)
{
    double roof = number_in(file, "roof_gflops"), gbps = number_in(file, "bandwidth_gbps");
    double before_x = 0, before_y = 0;
    for (int i = 0; i <= 64; i++) {
        double intensity = exp2(-4 + i / 4.0);
        double x = place_x(a, intensity), y = place_y(a, fmin(roof, gbps * intensity));
        if (i) picture_line(p, before_x, before_y, x, y, k);
        before_x = x;
        before_y = y;
    }
    size_t i;
    const json_t *op;
    json_array_foreach(json_object_get(file, "ops"), i, op)
    {
        double flops = number_in(op, "flops"), bytes = number_in(op, "bytes");
        double gflops = number_in(op, "gflops");
        if (flops <= 0 || bytes <= 0 || gflops <= 0) continue;
        picture_fill(p, (int)place_x(a, flops / bytes) - 2, (int)place_y(a, gflops) - 2, 5, 5, k);
    }
}

static void draw_roof(picture *p, int y, const comparison *c)
{
    axes a = {.x = MARGIN, .y = y, .low = -4, .high = 4};
    for (size_t f = 0; f < c->n_files; f++) {
        if (!has_roof(c->files[f])) continue;
        a.high = fmax(a.high, 2 * ceil(log2(number_in(c->files[f], "roof_gflops")) / 2 + 0.5));
    }
    draw_axes(p, &a);
    for (size_t f = 0; f < c->n_files; f++)
        if (has_roof(c->files[f])) draw_file(p, &a, c->files[f], compare_colour(f));
}

static void draw_legend(picture *p, const comparison *c)
{
    char text[160];
    picture_text(p, MARGIN, MARGIN, "pumice compare: tokens/s (ratio to A, difference)",
                 picture_black, false);
    for (size_t f = 0; f < c->n_files; f++) {
        int y = MARGIN + 16 + (int)f * 14;
        bool checked = json_is_true(json_object_get(c->files[f], "checked"));
        picture_fill(p, MARGIN, y, 10, 10, compare_colour(f));
        snprintf(text, sizeof text, "%c  %.90s, %s", (int)('A' + f), compare_device(c, f),
                 checked ? "checked" : "not checked");
        picture_text(p, MARGIN + 16, y + 1, text, picture_black, false);
    }
}

pm_status compare_png(const comparison *c, const char *path)
{
    bool roof = false;
    for (size_t f = 0; f < c->n_files; f++) roof = roof || has_roof(c->files[f]);
    int top = MARGIN + 16 + (int)c->n_files * 14 + 10, bars = bars_height(c);
    int height = top + bars + MARGIN + (roof ? ROOF_HEIGHT + 50 : 0);
    picture p = {0};
    pm_status status = picture_open(&p, LEFT + BARS_WIDTH + 220, height);
    if (status == PM_OK) {
        draw_legend(&p, c);
        draw_bars(&p, top, c);
        if (roof) draw_roof(&p, top + bars + 24, c);
        status = picture_write(&p, path, "pumice compare");
    }
    picture_free(&p);
    return status;
}
