#include "cli/picture.h"

#include <math.h>
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/font.h"

#define MOST_POINTS (INT64_C(1) << 26)

pm_status picture_open(picture *p, int width, int height)
{
    int64_t n = (int64_t)width * height;
    if (width < 1 || height < 1 || n > MOST_POINTS)
        return error_set(PM_ERROR_USAGE,
                         "a picture of %d by %d points is too large (choose a layer, a head, fewer "
                         "words or tensors)",
                         width, height);
    *p = (picture){width, height, malloc((size_t)n * sizeof *p->points)};
    if (!p->points) return error_memory("a picture", (uint64_t)n * sizeof *p->points);
    memset(p->points, 255, (size_t)n * sizeof *p->points);
    return PM_OK;
}

void picture_free(picture *p)
{
    free(p->points);
    *p = (picture){0};
}

static void point(picture *p, int x, int y, colour c)
{
    if (x < 0 || y < 0 || x >= p->width || y >= p->height) return;
    p->points[(size_t)y * (size_t)p->width + (size_t)x] = c;
}

void picture_fill(picture *p, int x, int y, int width, int height, colour c)
{
    for (int j = y; j < y + height; j++)
        for (int i = x; i < x + width; i++) point(p, i, j, c);
}

void picture_frame(picture *p, int x, int y, int width, int height, colour c)
{
    picture_fill(p, x, y, width, 1, c);
    picture_fill(p, x, y + height - 1, width, 1, c);
    picture_fill(p, x, y, 1, height, c);
    picture_fill(p, x + width - 1, y, 1, height, c);
}

void picture_line(picture *p, double x0, double y0, double x1, double y1, colour c)
{
    int steps = (int)ceil(fmax(fabs(x1 - x0), fabs(y1 - y0)));
    for (int k = 0; k <= steps; k++) {
        double part = steps > 0 ? (double)k / steps : 0;
        point(p, (int)lround(x0 + part * (x1 - x0)), (int)lround(y0 + part * (y1 - y0)), c);
    }
}

// ---- letters ----------------------------------------------------------------------------------

// The next character's place in the font; the middle dot stands for a space that is to be seen.
static int next_letter(const char **text)
{
    const unsigned char *at = (const unsigned char *)*text;
    size_t n = 1;
    while ((at[n] & 0xc0) == 0x80) n++;
    *text += n;
    if (n == 2 && at[0] == 0xc2 && at[1] == 0xb7) return FONT_DOT - FONT_FIRST;
    if (n > 1 || at[0] < FONT_FIRST || at[0] > '~') return FONT_BOX - FONT_FIRST;
    return at[0] - FONT_FIRST;
}

int picture_text_width(const char *text)
{
    int n = 0;
    while (*text) {
        next_letter(&text);
        n++;
    }
    return n * PICTURE_LETTER;
}

void picture_text(picture *p, int x, int y, const char *text, colour c, bool upwards)
{
    for (int at = 0; *text; at += PICTURE_LETTER) {
        const unsigned char *rows = font[next_letter(&text)];
        for (int j = 0; j < FONT_HEIGHT; j++) {
            for (int i = 0; i < FONT_WIDTH; i++) {
                if (!(rows[j] >> (FONT_WIDTH - 1 - i) & 1)) continue;
                if (upwards)
                    point(p, x + j, y - at - i, c);
                else
                    point(p, x + at + i, y + j, c);
            }
        }
    }
}

// ---- PNG --------------------------------------------------------------------------------------

typedef struct png_target {
    os_writer *file;
    pm_status status;
    jmp_buf back;
} png_target;

static void png_bytes(png_structp png, png_bytep data, size_t n)
{
    png_target *t = png_get_io_ptr(png);
    if (t->status == PM_OK) t->status = os_writer_write(t->file, data, n);
}

static void png_flushed(png_structp png)
{
    (void)png;
}

static void png_failed(png_structp png, png_const_charp message)
{
    png_target *t = png_get_error_ptr(png);
    t->status = error_set(PM_ERROR_RUN, "PNG: %s", message);
    longjmp(t->back, 1);
}

static void png_warned(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void put_title(png_structp png, png_infop info, const char *title)
{
    char key[] = "Title", *copy = strdup(title);
    png_text text = {.compression = PNG_TEXT_COMPRESSION_NONE, .key = key, .text = copy};
    if (copy) png_set_text(png, info, &text, 1);
    free(copy);
}

static void write_png(const picture *p, const char *title, png_target *t)
{
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, t, png_failed, png_warned);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info) {
        t->status = error_memory("a PNG", 0);
    } else if (setjmp(t->back) == 0) {
        png_set_write_fn(png, t, png_bytes, png_flushed);
        png_set_IHDR(png, info, (png_uint_32)p->width, (png_uint_32)p->height, 8,
                     PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                     PNG_FILTER_TYPE_DEFAULT);
        put_title(png, info, title);
        png_write_info(png, info);
        for (int y = 0; y < p->height; y++)
            png_write_row(png, (png_const_bytep)(p->points + (size_t)y * (size_t)p->width));
        png_write_end(png, info);
    }
    png_destroy_write_struct(&png, &info);
}

pm_status picture_write(const picture *p, const char *path, const char *title)
{
    png_target t = {.status = PM_OK};
    pm_status status = os_writer_open(path, &t.file);
    if (status != PM_OK) return status;
    write_png(p, title, &t);
    if (t.status == PM_OK) return os_writer_commit(t.file);
    os_writer_abort(t.file);
    return t.status;
}

// ---- heat maps --------------------------------------------------------------------------------

static unsigned char between(int from, int to, double part)
{
    return (unsigned char)lround(from + part * (to - from));
}

colour heat_colour(double value, bool around_zero)
{
    static const colour white = {255, 255, 255}, red = {178, 24, 43}, blue = {33, 102, 172},
                        dark = {8, 48, 107};
    if (isnan(value)) return white;
    colour end = !around_zero ? dark : value < 0 ? blue : red;
    double part = fmin(fabs(value), 1);
    return (colour){between(white.r, end.r, part), between(white.g, end.g, part),
                    between(white.b, end.b, part)};
}

static int widest(const char *const *labels, size_t n)
{
    int most = 0;
    for (size_t i = 0; labels && i < n; i++) {
        int width = picture_text_width(labels[i]);
        if (width > most) most = width;
    }
    return most;
}

enum { GAP = 4, TITLE_LINE = PICTURE_TEXT_HEIGHT + GAP };

// Where the cells begin, beside the labels.
static void cells_at(const heat_map *m, int *x, int *y)
{
    *x = m->row_labels ? widest(m->row_labels, m->rows) + GAP : 0;
    *y = (m->title ? TITLE_LINE : 0) + (m->col_labels ? widest(m->col_labels, m->cols) + GAP : 0);
}

void heat_map_size(const heat_map *m, int *width, int *height)
{
    int x, y;
    cells_at(m, &x, &y);
    *width = x + (int)m->cols * m->cell_width;
    *height = y + (int)m->rows * m->cell_height;
    int title = m->title ? picture_text_width(m->title) : 0;
    if (title > *width) *width = title;
}

static void draw_cell(picture *p, int x, int y, const heat_map *m, double value)
{
    colour c = heat_colour(value / m->most, m->around_zero);
    picture_fill(p, x, y, m->cell_width, m->cell_height, c);
    if (!m->numbers || isnan(value)) return;
    char text[32];
    snprintf(text, sizeof text, m->numbers, value);
    bool dark = c.r + c.g + c.b < 380;
    colour ink = dark ? (colour){255, 255, 255} : picture_black;
    picture_text(p, x + (m->cell_width - picture_text_width(text)) / 2 + 1,
                 y + (m->cell_height - PICTURE_TEXT_HEIGHT) / 2, text, ink, false);
}

void heat_map_draw(picture *p, int x, int y, const heat_map *m)
{
    int left, top;
    cells_at(m, &left, &top);
    if (m->title) picture_text(p, x, y, m->title, picture_black, false);
    for (size_t j = 0; m->col_labels && j < m->cols; j++)
        picture_text(p, x + left + (int)j * m->cell_width + (m->cell_width - FONT_HEIGHT) / 2,
                     y + top - GAP, m->col_labels[j], picture_black, true);
    for (size_t i = 0; i < m->rows; i++) {
        int line = y + top + (int)i * m->cell_height;
        if (m->row_labels)
            picture_text(p, x + left - GAP - picture_text_width(m->row_labels[i]),
                         line + (m->cell_height - FONT_HEIGHT) / 2, m->row_labels[i], picture_black,
                         false);
        for (size_t j = 0; j < m->cols; j++)
            draw_cell(p, x + left + (int)j * m->cell_width, line, m, m->values[i * m->cols + j]);
    }
    picture_frame(p, x + left - 1, y + top - 1, (int)m->cols * m->cell_width + 2,
                  (int)m->rows * m->cell_height + 2, picture_grey);
}

bool picture_terminal(void)
{
    const char *no = getenv("NO_COLOR"), *depth = getenv("COLORTERM");
    if ((no && *no) || !depth || !os_is_terminal(1)) return false;
    return !strcmp(depth, "truecolor") || !strcmp(depth, "24bit");
}

// Characters, not bytes.
static int letters(const char *text)
{
    return picture_text_width(text) / PICTURE_LETTER;
}

void heat_map_show(const heat_map *m)
{
    int label = widest(m->row_labels, m->rows) / PICTURE_LETTER;
    if (m->title) out_print("%s\n", m->title);
    for (size_t i = 0; i < m->rows; i += 2) {
        const char *upper = m->row_labels ? m->row_labels[i] : "";
        const char *lower = m->row_labels && i + 1 < m->rows ? m->row_labels[i + 1] : "";
        out_print("%*s%s %*s%s ", label - letters(upper), "", upper, label - letters(lower), "",
                  lower);
        for (size_t j = 0; j < m->cols; j++) {
            colour c = heat_colour(m->values[i * m->cols + j] / m->most, m->around_zero);
            out_print("\x1b[38;2;%d;%d;%d", c.r, c.g, c.b);
            if (i + 1 < m->rows) {
                c = heat_colour(m->values[(i + 1) * m->cols + j] / m->most, m->around_zero);
                out_print(";48;2;%d;%d;%d", c.r, c.g, c.b);
            } else {
                out_text(";49");
            }
            out_text("m\xe2\x96\x80"); // the upper half block
        }
        out_text("\x1b[0m\n");
    }
}
