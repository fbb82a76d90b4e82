// pumice inspect as a program: pictures held by size, colours and labels; text; colours in a
// terminal.
#include "cli/cli_test.h"

#include <math.h>
#include <png.h>
#include <stdbool.h>

typedef struct image {
    unsigned width, height;
    unsigned char *rgb;
} image;

static image read_png(const char *path)
{
    png_image png = {.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_file(&png, path)) fail_msg("%s: %s", path, png.message);
    png.format = PNG_FORMAT_RGB;
    image i = {png.width, png.height, malloc(PNG_IMAGE_SIZE(png))};
    assert_non_null(i.rgb);
    assert_true(png_image_finish_read(&png, NULL, i.rgb, 0, NULL));
    return i;
}

static const unsigned char *point(const image *i, size_t x, size_t y)
{
    assert_true(x < i->width && y < i->height);
    return i->rgb + 3 * (y * i->width + x);
}

// Are there dark points of letters in this part?
static size_t ink(const image *i, size_t x, size_t y, size_t width, size_t height)
{
    size_t n = 0;
    for (size_t b = y; b < y + height; b++)
        for (size_t a = x; a < x + width; a++) {
            const unsigned char *p = point(i, a, b);
            n += p[0] + p[1] + p[2] < 100;
        }
    return n;
}

static bool same_part(const image *i, size_t x, size_t y, size_t x2, size_t y2, size_t width,
                      size_t height)
{
    for (size_t b = 0; b < height; b++)
        if (memcmp(point(i, x, y + b), point(i, x2, y2 + b), 3 * width) != 0) return false;
    return true;
}

static void assert_colour(const image *i, size_t x, size_t y, double value, bool around_zero)
{
    // White to red (178, 24, 43) or blue (33, 102, 172); white to dark blue (8, 48, 107).
    static const int red[] = {178, 24, 43}, blue[] = {33, 102, 172}, dark[] = {8, 48, 107};
    const int *end = !around_zero ? dark : value < 0 ? blue : red;
    for (int k = 0; k < 3; k++) {
        double wanted = 255 + fmin(fabs(value), 1) * (end[k] - 255);
        if (fabs(point(i, x, y)[k] - wanted) > 1)
            fail_msg("point %zu, %zu: %d, not %.1f", x, y, point(i, x, y)[k], wanted);
    }
}

static double at(const json_t *rows, size_t i, size_t j)
{
    return json_number_value(json_array_get(json_array_get(rows, i), j));
}

// Layout: 10 points of margin, a title line of 11, rows of 16, columns of 8; labels on the left as
// wide as the longest word (6 a letter) and 4 more.
static void an_embedding_is_a_heat_map(void **state)
{
    (void)state;
    const char *file = test_temp("embedding.png");
    json_t *all =
        json_of("$P inspect '%s' embedding the of the --first 12 --json -o '%s' -q", tiny(), file);
    image i = read_png(file);
    const json_t *vectors = key_of(all, "vectors");
    double most = 0;
    for (size_t r = 0; r < 3; r++)
        for (size_t c = 0; c < 12; c++) most = fmax(most, fabs(at(vectors, r, c)));
    size_t left = 10 + 3 * 6 + 4, top = 10 + 11;
    assert_true(i.width >= left + 12 * 8);
    for (size_t r = 0; r < 3; r++)
        for (size_t c = 0; c < 12; c++)
            assert_colour(&i, left + 8 * c + 4, top + 16 * r + 8, at(vectors, r, c) / most, true);
    assert_true(ink(&i, 10, 10, 60, 7) > 50);                          // the title
    assert_true(ink(&i, 10, top, left - 14, 16) > 10);                 // labels:
    assert_true(same_part(&i, 10, top, 10, top + 32, left - 14, 16));  // "the" twice,
    assert_false(same_part(&i, 10, top, 10, top + 16, left - 14, 16)); // "of" is another
    // The matrix of cosines below: 34 by 16, with labels above it too.
    const json_t *cosine = key_of(all, "cosine");
    size_t height = 11 + 3 * 16, y0 = height + 30 + 11 + 3 * 6 + 4;
    assert_int_equal(i.height, height + (11 + 22 + 48) + 40);
    for (size_t r = 0; r < 3; r++)
        for (size_t c = 0; c < 3; c++)
            assert_colour(&i, left + 34 * c + 1, y0 + 16 * r + 1, at(cosine, r, c), true);
    assert_true(ink(&i, left, y0 - 22, 34 * 3, 20) > 20);
    json_decref(all);
    free(i.rgb);
}

static void attention_is_a_heat_map_for_each_head(void **state)
{
    (void)state;
    const char *file = test_temp("attention.png");
    json_t *all = json_of("$P inspect '%s' attention 'the of the' --json -o '%s' -q", tiny(), file);
    image i = read_png(file);
    const json_t *maps = key_of(all, "maps"), *tokens = key_of(all, "tokens"), *token, *map;
    size_t n = json_array_size(tokens), k, longest = 0;
    json_array_foreach(tokens, k, token)
    {
        size_t length = json_string_length(key_of(token, "text"));
        if (length > longest) longest = length;
    }
    size_t heads = (size_t)json_integer_value(key_of(all, "n_head"));
    size_t layers = (size_t)json_integer_value(key_of(all, "n_layer"));
    assert_int_equal(json_array_size(maps), heads * layers);
    size_t label = longest * 6 + 4, cells = label + 9 * n, title = strlen("layer 0, head 0") * 6;
    size_t width = (cells > title ? cells : title) + 14, height = 11 + cells + 14;
    assert_int_equal(i.width, heads * width + 14);
    assert_int_equal(i.height, layers * height + 14);
    json_array_foreach(maps, k, map)
    {
        size_t x = 14 + (k % heads) * width, y = 14 + (k / heads) * height;
        assert_true(ink(&i, x, y, title, 7) > 50);
        assert_true(ink(&i, x, y + 11 + label, label - 4, 9) > 3);
        for (size_t r = 0; r < n; r++)
            for (size_t c = 0; c < n; c++)
                assert_colour(&i, x + label + 9 * c + 4, y + 11 + label + 9 * r + 4,
                              c <= r ? at(key_of(map, "p"), r, c) : 0, false);
    }
    json_decref(all);
    free(i.rgb);

    char *text = output_of("$P inspect '%s' attention 'the of the' --layer 1 --head 0 -q", tiny());
    assert_non_null(strstr(text, "layer 1, head 0"));
    assert_non_null(strstr(text, "\xc2\xb7"
                                 "of"));     // a space that is seen
    assert_non_null(strstr(text, " 100\n")); // the first token sees itself alone
    assert_int_equal(count_lines(text), 1 + n + 1);
    assert_null(strstr(text, "\x1b"));
    free(text);
}

static void weights_have_histograms(void **state)
{
    (void)state;
    const char *file = test_temp("weights.png");
    json_t *all =
        json_of("$P inspect -m '%s' weights blk.0.ffn_up --json -o '%s' -q", tiny(), file);
    image i = read_png(file);
    const json_t *t = json_array_get(key_of(all, "tensors"), 0);
    const json_t *bins = key_of(key_of(t, "histogram"), "bins");
    size_t n = json_array_size(bins);
    assert_int_equal(i.width, n * 5 + 16 + 16);
    assert_int_equal(i.height, 36 + 80 + 12 + 16 + 16);
    double most = 0;
    for (size_t k = 0; k < n; k++) most = fmax(most, json_number_value(json_array_get(bins, k)));
    for (size_t k = 0; k < n; k++) {
        size_t high = (size_t)ceil(80 * json_number_value(json_array_get(bins, k)) / most),
               seen = 0;
        while (seen < 80 && point(&i, 16 + 5 * k + 1, 16 + 36 + 79 - seen)[0] == 33) seen++;
        assert_int_equal(seen, high);
    }
    assert_true(ink(&i, 16, 16, 19 * 6, 7) > 100); // blk.0.ffn_up.weight
    json_decref(all);
    free(i.rgb);
    char *text = output_of("$P inspect '%s' weights blk.0.ffn_up -q", tiny());
    assert_non_null(strstr(text, "blk.0.ffn_up.weight  Q8_0 160x64\n"));
    assert_non_null(strstr(text, "+-"));
    assert_non_null(strstr(text, "\xe2\x96\x88")); // the fullest bin is a full block
    free(text);
}

static void logits_and_trace_as_text(void **state)
{
    (void)state;
    char *text = output_of("$P inspect '%s' logits 'the of' --top 3 -q --device cpu", tiny());
    assert_non_null(strstr(text, "position 0: "));
    assert_non_null(strstr(text, "followed by "));
    assert_non_null(strstr(text, "top-k  40"));
    free(text);
    text = output_of("$P inspect '%s' trace --prompt 'the of' --raw --layer 2 --seed 3 -q", tiny());
    static const char *const parts[] = {
        "1. The prompt\n", "2. Pieces and ids\n", "attn_qkv",           "3. Embedding rows",
        "ROPE_KV",         "cross entropy",       "layer  0: x length", "temp   0.8",
        "seed 3"};
    for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++)
        if (!strstr(text, parts[k])) fail_msg("no '%s' in:\n%s", parts[k], text);
    char *again = output_of("$P inspect '%s' trace 'the of' --raw --layer 2 --seed 3 -q", tiny());
    assert_string_equal(text, again);
    free(again);
    again = output_of("$P inspect '%s' trace -p 'the of' --markdown --seed 3 -q", tiny());
    assert_memory_equal(again, "# How a prompt becomes", 22);
    assert_non_null(strstr(again, "\n## 2. The template\n"));
    size_t fences = 0;
    for (const char *f = again; (f = strstr(f, "```\n")); f++) fences++;
    assert_true(fences >= 10 && fences % 2 == 0);
    free(again);
    free(text);
}

static void colours_only_where_they_are_wanted(void **state)
{
    (void)state;
    if (test_run("command -v script", NULL, NULL) != 0) {
        fprintf(stderr, "SKIPPED: no program script\n");
        skip();
    }
    static const char command[] = "script -qec \"$P inspect '%s' embedding the of --first 8 -q\" "
                                  "/dev/null";
    char format[300];
    snprintf(format, sizeof format, "COLORTERM=truecolor %s", command);
    char *text = output_of(format, tiny());
    assert_non_null(strstr(text, "\x1b[38;2;"));
    assert_non_null(strstr(text, "\xe2\x96\x80\x1b[0m"));
    free(text);
    snprintf(format, sizeof format, "NO_COLOR=1 COLORTERM=truecolor %s", command);
    text = output_of(format, tiny());
    assert_null(strstr(text, "\x1b[38"));
    free(text);
    text = output_of("COLORTERM=truecolor $P inspect '%s' embedding the of -q", tiny());
    assert_null(strstr(text, "\x1b[38"));
    free(text);
}

static void wrong_use(void **state)
{
    (void)state;
    assert_refused(2, "embedding", "$P inspect");
    assert_refused(2, "embedding", "$P inspect '%s'", tiny());
    assert_refused(2, "embedding", "$P inspect '%s' embeding the", tiny());
    assert_refused(2, "word", "$P inspect '%s' embedding", tiny());
    assert_refused(2, "text", "$P inspect '%s' attention", tiny());
    assert_refused(2, "one text", "$P inspect '%s' attention the of", tiny());
    assert_refused(2, "layer", "$P inspect '%s' attention the --layer 50", tiny());
    assert_refused(2, "head", "$P inspect '%s' attention the --head 50", tiny());
    assert_refused(2, "no picture", "$P inspect '%s' trace -p the -o x.png", tiny());
    assert_refused(2, "nothing.like.this", "$P inspect '%s' weights nothing.like.this", tiny());
    assert_refused(3, "nowhere", "$P inspect /nowhere/x.gguf weights");
    assert_refused(1, "nowhere", "$P inspect '%s' embedding the -o /nowhere/x.png", tiny());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_embedding_is_a_heat_map),
        cmocka_unit_test(attention_is_a_heat_map_for_each_head),
        cmocka_unit_test(weights_have_histograms),
        cmocka_unit_test(logits_and_trace_as_text),
        cmocka_unit_test(colours_only_where_they_are_wanted),
        cmocka_unit_test(wrong_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
