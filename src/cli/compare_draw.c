// compare's bars and roofline, drawn once for both: points of a picture, or SVG in a page.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/compare.h"

// ---- a canvas ---------------------------------------------------------------------------------

typedef struct canvas {
    picture *png; // one of the two is NULL
    buf *svg;
} canvas;

static const colour light = {225, 225, 225};

void compare_escaped(buf *out, const char *text)
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

static void put_fill(const canvas *c, int x, int y, int width, int height, colour k)
{
    if (c->png)
        picture_fill(c->png, x, y, width, height, k);
    else
        buf_printf(c->svg,
                   "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#%02x%02x%02x\"/>\n",
                   x, y, width, height, k.r, k.g, k.b);
}

static void put_line(const canvas *c, double x0, double y0, double x1, double y1, colour k)
{
    if (c->png)
        picture_line(c->png, x0, y0, x1, y1, k);
    else
        buf_printf(c->svg,
                   "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
                   "stroke=\"#%02x%02x%02x\"/>\n",
                   x0, y0, x1, y1, k.r, k.g, k.b);
}

// x, y: the upper left corner.
static void put_text(const canvas *c, int x, int y, const char *text)
{
    if (c->png) {
        picture_text(c->png, x, y, text, picture_black, false);
        return;
    }
    buf_printf(c->svg, "<text x=\"%d\" y=\"%d\">", x, y + PICTURE_TEXT_HEIGHT);
    compare_escaped(c->svg, text);
    buf_str(c->svg, "</text>\n");
}

// Marks differ in shape too, for those who see no colours: square, circle, triangle, diamond.
enum { MARK = 9, N_MARKS = 4 };
static const unsigned char mark_shapes[N_MARKS][MARK - 2] = {
    {0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f},
    {0x1c, 0x3e, 0x7f, 0x7f, 0x7f, 0x3e, 0x1c},
    {0x08, 0x08, 0x1c, 0x1c, 0x3e, 0x3e, 0x7f},
    {0x08, 0x1c, 0x3e, 0x7f, 0x3e, 0x1c, 0x08},
};

static bool mark_has(size_t shape, int i, int j)
{
    return i >= 0 && j >= 0 && i < MARK - 2 && j < MARK - 2 && (mark_shapes[shape][j] >> i & 1);
}

// With a white border, so that marks over each other are told apart.
static void draw_mark(picture *p, int x, int y, size_t shape, colour k)
{
    static const colour white = {255, 255, 255};
    for (int j = -1; j < MARK - 1; j++) {
        for (int i = -1; i < MARK - 1; i++) {
            bool near = false;
            for (int n = 0; n < 9; n++)
                near = near || mark_has(shape, i + n % 3 - 1, j + n / 3 - 1);
            int at_x = x - MARK / 2 + 1 + i, at_y = y - MARK / 2 + 1 + j;
            if (near) picture_fill(p, at_x, at_y, 1, 1, mark_has(shape, i, j) ? k : white);
        }
    }
}

static void put_mark(const canvas *c, double x, double y, size_t file, const char *what)
{
    static const char *const paths[N_MARKS] = {"M-4-4H4V4H-4Z",
                                               "M-4 0A4 4 0 1 1 4 0A4 4 0 1 1-4 0Z", "M0-5L5 4H-5Z",
                                               "M0-5L5 0L0 5L-5 0Z"};
    colour k = compare_colour(file);
    if (c->png) {
        draw_mark(c->png, (int)lround(x), (int)lround(y), file % N_MARKS, k);
        return;
    }
    buf_printf(c->svg,
               "<path transform=\"translate(%.1f %.1f)\" d=\"%s\" fill=\"#%02x%02x%02x\" "
               "stroke=\"#fff\"><title>",
               x, y, paths[file % N_MARKS], k.r, k.g, k.b);
    compare_escaped(c->svg, what);
    buf_str(c->svg, "</title></path>\n");
}

// ---- legend and bars --------------------------------------------------------------------------

enum {
    MARGIN = 16,
    LINE = 14,
    BAR = 12,
    BARS_WIDTH = 400,
    LEFT = MARGIN + 12,
    WIDTH = LEFT + BARS_WIDTH + 220,
    ROOF_WIDTH = 500,
    ROOF_HEIGHT = 320,
    ROOF_LEFT = 60
};

static void draw_legend(const canvas *v, const comparison *c)
{
    char text[200];
    const json_t *model = json_object_get(c->files[0], "model");
    put_text(v, MARGIN, MARGIN, "pumice compare: tokens/s (ratio to A, difference)");
    snprintf(text, sizeof text, "%.60s, %.10s, batch %.0f, KV cache %.10s",
             text_in(model, "name", "?"), text_in(model, "type", "?"),
             number_in(c->files[0], "batch", 0), text_in(c->files[0], "kv_type", "?"));
    put_text(v, MARGIN, MARGIN + LINE, json_object_size(c->differ) ? "of UNLIKE runs" : text);
    for (size_t f = 0; f < c->n_files; f++) {
        int y = MARGIN + 2 * LINE + 2 + (int)f * LINE;
        bool checked = json_is_true(json_object_get(c->files[f], "checked"));
        put_mark(v, MARGIN + 5, y + 4, f, "");
        snprintf(text, sizeof text, "%c  %.80s, %s", (int)('A' + f), compare_device(c, f),
                 checked ? "checked" : "not checked");
        put_text(v, MARGIN + 16, y + 1, text);
    }
}

static double most_of_row(const comparison *c, const compare_row *row)
{
    double most = 0;
    for (size_t f = 0; f < c->n_files; f++)
        if (row->cells[f].there) most = fmax(most, row->cells[f].median + row->cells[f].sd);
    return most > 0 ? most : 1;
}

static void draw_bar(const canvas *v, int y, size_t file, const compare_cell *x, double most)
{
    char text[120], letter[2] = {(char)('A' + file), 0};
    put_text(v, MARGIN, y + 3, letter);
    if (!x->there) {
        put_text(v, LEFT, y + 3, "no result");
        return;
    }
    int width = (int)lround(BARS_WIDTH * x->median / most);
    int spread = (int)lround(BARS_WIDTH * x->sd / most);
    put_fill(v, LEFT, y, width, BAR, compare_colour(file));
    put_fill(v, LEFT + width - spread, y + BAR / 2, 2 * spread + 1, 1, picture_black);
    snprintf(text, sizeof text, "%.2f (%.3f%s%s)", x->median, x->ratio, *x->noise ? ", " : "",
             x->noise);
    put_text(v, LEFT + width + spread + 6, y + 3, text);
}

static void draw_bars(const canvas *v, int y, const comparison *c)
{
    char text[120];
    for (size_t r = 0; r < c->n_rows; r++) {
        const compare_row *row = &c->rows[r];
        snprintf(text, sizeof text, "%.20s, %d tokens at depth %d", row->kind, row->n, row->depth);
        put_text(v, LEFT, y + 4, text);
        y += 18;
        for (size_t f = 0; f < c->n_files; f++, y += BAR + 3)
            draw_bar(v, y, f, &row->cells[f], most_of_row(c, row));
        y += 8;
    }
}

// ---- roofline ---------------------------------------------------------------------------------

static bool has_roof(const json_t *file)
{
    return number_in(file, "roof_gflops", 0) > 0 && number_in(file, "bandwidth_gbps", 0) > 0 &&
           json_array_size(json_object_get(file, "ops")) > 0;
}

// Both axes are logarithmic, in whole powers of ten: flops a byte, GFLOP/s.
typedef struct axes {
    int x, y;
    double left, right, low, high;
} axes;

static double place_x(const axes *a, double intensity)
{
    double part = (log10(intensity) - a->left) / (a->right - a->left);
    return a->x + ROOF_LEFT + fmin(fmax(part, 0), 1) * ROOF_WIDTH;
}

static double place_y(const axes *a, double gflops)
{
    double part = (log10(gflops) - a->low) / (a->high - a->low);
    return a->y + ROOF_HEIGHT - fmin(fmax(part, 0), 1) * ROOF_HEIGHT;
}

// Is it an operation that does arithmetic?
static bool op_point(const json_t *op, double *intensity, double *gflops)
{
    double flops = number_in(op, "flops", 0), bytes = number_in(op, "bytes", 0);
    *gflops = number_in(op, "gflops", 0);
    *intensity = bytes > 0 ? flops / bytes : 0;
    return *intensity > 0 && *gflops > 0;
}

static void widen(axes *a, double intensity, double gflops)
{
    a->left = fmax(fmin(a->left, floor(log10(intensity))), -3);
    a->right = fmin(fmax(a->right, ceil(log10(intensity))), 5);
    a->low = fmax(fmin(a->low, floor(log10(gflops))), -4);
    a->high = fmin(fmax(a->high, ceil(log10(gflops) + 0.05)), 7);
}

static void fit_axes(axes *a, const comparison *c)
{
    size_t i;
    const json_t *op;
    double intensity, gflops;
    for (size_t f = 0; f < c->n_files; f++) {
        const json_t *file = c->files[f];
        if (!has_roof(file)) continue;
        double roof = number_in(file, "roof_gflops", 0);
        widen(a, roof / number_in(file, "bandwidth_gbps", 0), roof);
        json_array_foreach(json_object_get(file, "ops"), i, op)
        {
            if (op_point(op, &intensity, &gflops)) widen(a, intensity, gflops);
        }
    }
}

static void draw_axes(const canvas *v, const axes *a)
{
    char text[40];
    int x0 = a->x + ROOF_LEFT, x1 = x0 + ROOF_WIDTH, y1 = a->y + ROOF_HEIGHT;
    put_text(v, a->x, a->y - 16,
             "roofline: GFLOP/s of each operation under what memory and "
             "arithmetic allow");
    for (int e = (int)a->left; e <= (int)a->right; e++) {
        int x = (int)place_x(a, pow(10, e));
        put_line(v, x, a->y, x, y1, light);
        snprintf(text, sizeof text, "%.4g", pow(10, e));
        put_text(v, x - picture_text_width(text) / 2, y1 + 8, text);
    }
    for (int e = (int)a->low; e <= (int)a->high; e++) {
        int y = (int)place_y(a, pow(10, e));
        put_line(v, x0, y, x1, y, light);
        snprintf(text, sizeof text, "%.4g", pow(10, e));
        put_text(v, x0 - 6 - picture_text_width(text), y - 3, text);
    }
    put_line(v, x0, a->y, x0, y1, picture_grey);
    put_line(v, x0, y1, x1, y1, picture_grey);
    put_text(v, x0 + ROOF_WIDTH / 2 - 42, y1 + 22, "flops per byte");
}

static void draw_roof(const canvas *v, const axes *a, const json_t *file, size_t f, int *label_y)
{
    char text[80];
    double roof = number_in(file, "roof_gflops", 0), gbps = number_in(file, "bandwidth_gbps", 0);
    double from = fmax(pow(10, a->left), pow(10, a->low) / gbps), ridge = roof / gbps;
    double x = place_x(a, ridge), y = place_y(a, roof), end = a->x + ROOF_LEFT + ROOF_WIDTH;
    colour k = compare_colour(f);
    put_line(v, place_x(a, from), place_y(a, gbps * from), x, y, k);
    put_line(v, x, y, end, y, k);
    // Beside its end; pushed down where another one's text is.
    *label_y = (int)fmax(*label_y + 10, y - 3);
    snprintf(text, sizeof text, "%c %.3g", (int)('A' + f), roof);
    put_text(v, (int)end + 5, *label_y, text);
}

static void draw_points(const canvas *v, const axes *a, const json_t *file, size_t f)
{
    size_t i;
    const json_t *op;
    double intensity, gflops;
    char text[200];
    json_array_foreach(json_object_get(file, "ops"), i, op)
    {
        if (!op_point(op, &intensity, &gflops)) continue;
        snprintf(text, sizeof text, "%c: %.20s %.40s, %.20s at depth %.0f: %.3g GFLOP/s",
                 (int)('A' + f), text_in(op, "op", "?"), text_in(op, "label", "?"),
                 text_in(op, "kind", "?"), number_in(op, "depth", 0), gflops);
        put_mark(v, place_x(a, intensity), place_y(a, gflops), f, text);
    }
}

// Highest roof first, so that texts are pushed down only.
static size_t next_roof(const comparison *c, bool *drawn)
{
    size_t best = c->n_files;
    for (size_t f = 0; f < c->n_files; f++) {
        if (drawn[f] || !has_roof(c->files[f])) continue;
        if (best == c->n_files ||
            number_in(c->files[f], "roof_gflops", 0) > number_in(c->files[best], "roof_gflops", 0))
            best = f;
    }
    if (best < c->n_files) drawn[best] = true;
    return best;
}

static void draw_roofline(const canvas *v, int y, const comparison *c)
{
    axes a = {.x = MARGIN, .y = y, .left = -1, .right = 2, .low = 0, .high = 1};
    bool drawn[COMPARE_MAX_FILES] = {false};
    int label_y = -100;
    fit_axes(&a, c);
    draw_axes(v, &a);
    for (size_t f; (f = next_roof(c, drawn)) < c->n_files;)
        draw_roof(v, &a, c->files[f], f, &label_y);
    for (size_t f = 0; f < c->n_files; f++)
        if (has_roof(c->files[f])) draw_points(v, &a, c->files[f], f);
}

// ---- all --------------------------------------------------------------------------------------

typedef struct layout {
    int bars, roof, height; // roof 0: there is none
} layout;

static layout layout_of(const comparison *c)
{
    layout l = {.bars = MARGIN + 2 * LINE + 2 + (int)c->n_files * LINE + 10};
    l.height = l.bars + (int)c->n_rows * (18 + (int)c->n_files * (BAR + 3) + 8) + MARGIN;
    for (size_t f = 0; f < c->n_files; f++)
        if (has_roof(c->files[f]) && !l.roof) l.roof = l.height + 8;
    if (l.roof) l.height = l.roof + ROOF_HEIGHT + 42;
    return l;
}

static void draw_all(const canvas *v, const comparison *c, const layout *l)
{
    draw_legend(v, c);
    draw_bars(v, l->bars, c);
    if (l->roof) draw_roofline(v, l->roof, c);
}

void compare_svg(const comparison *c, buf *out)
{
    layout l = layout_of(c);
    canvas v = {.svg = out};
    buf_printf(out,
               "<svg width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\" "
               "style=\"font:10px monospace\">\n",
               WIDTH * 3 / 2, l.height * 3 / 2, WIDTH, l.height);
    draw_all(&v, c, &l);
    buf_str(out, "</svg>\n");
}

pm_status compare_png(const comparison *c, const char *path)
{
    layout l = layout_of(c);
    picture p = {0};
    canvas v = {.png = &p};
    pm_status status = picture_open(&p, WIDTH, l.height);
    if (status == PM_OK) {
        draw_all(&v, c, &l);
        status = picture_write(&p, path, "pumice compare");
    }
    picture_free(&p);
    return status;
}
