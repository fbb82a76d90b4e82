// pumice inspect embedding and weights.
#include <stdlib.h>
#include <string.h>

#include "cli/inspect.h"

// ---- embedding --------------------------------------------------------------------------------

static pm_status ask_embedding(const cli_args *args, const pm_model *model, const char **words,
                               size_t n, char **json)
{
    return pm_inspect_embedding(model, args->options, words, n, json);
}

typedef struct embedding {
    labels words;
    size_t first;
    double *vectors, *cosine; // [words][first], [words][words]
} embedding;

static pm_status read_embedding(const json_t *all, embedding *e)
{
    const json_t *vectors = json_object_get(all, "vectors");
    *e = (embedding){.first = json_array_size(json_array_get(vectors, 0))};
    pm_status status = labels_of(json_object_get(all, "words"), &e->words);
    e->vectors = inspect_matrix(vectors, e->first);
    e->cosine = inspect_matrix(json_object_get(all, "cosine"), e->words.n);
    if (status == PM_OK && (!e->vectors || !e->cosine)) status = error_memory("embeddings", 0);
    return status;
}

static void free_embedding(embedding *e)
{
    labels_free(&e->words);
    free(e->vectors);
    free(e->cosine);
}

static heat_map vectors_map(const embedding *e, const char *title)
{
    return (heat_map){.rows = e->words.n,
                      .cols = e->first,
                      .values = e->vectors,
                      .most = inspect_largest(e->vectors, e->words.n * e->first),
                      .around_zero = true,
                      .title = title,
                      .row_labels = (const char *const *)e->words.texts,
                      .cell_width = 8,
                      .cell_height = 16};
}

static pm_status draw_embedding(const json_t *all, picture *p)
{
    embedding e;
    pm_status status = read_embedding(all, &e);
    char title[120];
    heat_map rows = vectors_map(&e, title);
    heat_map cosine = {.rows = e.words.n,
                       .cols = e.words.n,
                       .values = e.cosine,
                       .most = 1,
                       .around_zero = true,
                       .title = "cosine",
                       .row_labels = rows.row_labels,
                       .col_labels = rows.row_labels,
                       .cell_width = 34,
                       .cell_height = 16,
                       .numbers = "%.2f"};
    snprintf(title, sizeof title, "embedding: values 1 to %zu of %.0f, blue -%.3g, red +%.3g",
             e.first, number_of(all, "n_embd"), rows.most, rows.most);
    int width, height, width2, height2;
    heat_map_size(&rows, &width, &height);
    heat_map_size(&cosine, &width2, &height2);
    if (status == PM_OK)
        status = picture_open(p, (width > width2 ? width : width2) + 20, height + height2 + 40);
    if (status == PM_OK) {
        heat_map_draw(p, 10, 10, &rows);
        heat_map_draw(p, 10, height + 30, &cosine);
    }
    free_embedding(&e);
    return status;
}

static void print_products(const embedding *e, const json_t *all, const char *key)
{
    double *values = inspect_matrix(json_object_get(all, key), e->words.n);
    out_print("\n%s\n%16s", key, "");
    for (size_t j = 0; j < e->words.n; j++) out_print(" %12.12s", e->words.texts[j]);
    out_text("\n");
    for (size_t i = 0; values && i < e->words.n; i++) {
        out_print("%16.16s", e->words.texts[i]);
        for (size_t j = 0; j < e->words.n; j++) out_print(" %12.4f", values[i * e->words.n + j]);
        out_text("\n");
    }
    free(values);
}

static void print_embedding(const cli_args *args, const json_t *all)
{
    (void)args;
    embedding e;
    if (read_embedding(all, &e) != PM_OK) {
        free_embedding(&e);
        return;
    }
    const json_t *pieces = json_object_get(all, "pieces"), *list, *piece;
    size_t i, j;
    json_array_foreach(pieces, i, list)
    {
        out_print("%s:", e.words.texts[i]);
        json_array_foreach(list, j, piece)
        {
            out_text(" ");
            inspect_print_token(piece);
        }
        out_text("\n");
    }
    out_print("\nvalues 1 to %zu of %.0f\n", e.first, number_of(all, "n_embd"));
    if (picture_terminal()) {
        heat_map rows = vectors_map(&e, NULL);
        heat_map_show(&rows);
    } else {
        for (i = 0; i < e.words.n; i++) {
            out_print("%16.16s", e.words.texts[i]);
            for (j = 0; j < e.first; j++) out_print(" %+.3f", e.vectors[i * e.first + j]);
            out_text("\n");
        }
    }
    print_products(&e, all, "dot");
    print_products(&e, all, "cosine");
    free_embedding(&e);
}

const view view_embedding = {"embedding", false, ask_embedding, print_embedding, draw_embedding};

// ---- weights ----------------------------------------------------------------------------------

static pm_status ask_weights(const cli_args *args, const pm_model *model, const char **words,
                             size_t n, char **json)
{
    if (n > 1)
        return error_set(PM_ERROR_USAGE, "inspect weights: one part of tensors' names, not %zu", n);
    return pm_inspect_weights(model, args->options, n ? words[0] : NULL, json);
}

static double most_of(const json_t *bins)
{
    double most = 1;
    size_t i;
    const json_t *bin;
    json_array_foreach(bins, i, bin) most = fmax(most, json_number_value(bin));
    return most;
}

// One character a bin, in eighths of its height; what is not empty is seen.
static void print_bins(const json_t *bins)
{
    size_t i;
    const json_t *bin;
    double most = most_of(bins);
    json_array_foreach(bins, i, bin)
    {
        double n = json_number_value(bin);
        int eighths = (int)ceil(8 * n / most);
        char block[] = "\xe2\x96\x80";
        block[2] = (char)((unsigned char)block[2] + eighths);
        out_text(n > 0 ? block : " ");
    }
}

static void print_weights(const cli_args *args, const json_t *all)
{
    (void)args;
    size_t i;
    const json_t *t;
    json_array_foreach(json_object_get(all, "tensors"), i, t)
    {
        const json_t *shape = json_object_get(t, "shape"), *h = json_object_get(t, "histogram");
        out_print("%s  %s %.0fx%.0f\n  %.6g to %.6g, mean %.6g +- %.6g", text_of(t, "name"),
                  text_of(t, "type"), json_number_value(json_array_get(shape, 0)),
                  json_number_value(json_array_get(shape, 1)), number_of(t, "min"),
                  number_of(t, "max"), number_of(t, "mean"), number_of(t, "sd"));
        if (number_of(t, "zeros") > 0) out_print(", %.0f zeros", number_of(t, "zeros"));
        if (number_of(t, "nonfinite") > 0)
            out_print(", %.0f NOT FINITE", number_of(t, "nonfinite"));
        out_print("\n  %10.4g |", number_of(h, "from"));
        print_bins(json_object_get(h, "bins"));
        out_print("| %.4g", number_of(h, "to"));
        if (number_of(h, "below") + number_of(h, "above") > 0)
            out_print("  (%.0f below, %.0f above)", number_of(h, "below"), number_of(h, "above"));
        out_text("\n");
    }
}

enum { BAR = 5, PANEL_GAP = 16, BARS_HEIGHT = 80, PANEL_TEXT = 36, PER_ROW = 4 };

static void draw_tensor(picture *p, int x, int y, const json_t *t)
{
    const json_t *shape = json_object_get(t, "shape"), *h = json_object_get(t, "histogram");
    const json_t *bins = json_object_get(h, "bins"), *bin;
    char text[200];
    picture_text(p, x, y, text_of(t, "name"), picture_black, false);
    snprintf(text, sizeof text, "%s %.0fx%.0f", text_of(t, "type"),
             json_number_value(json_array_get(shape, 0)),
             json_number_value(json_array_get(shape, 1)));
    picture_text(p, x, y + 11, text, picture_black, false);
    snprintf(text, sizeof text, "mean %.3g +- %.3g", number_of(t, "mean"), number_of(t, "sd"));
    picture_text(p, x, y + 22, text, picture_black, false);
    int base = y + PANEL_TEXT + BARS_HEIGHT, width = (int)json_array_size(bins) * BAR;
    double most = most_of(bins);
    size_t i;
    json_array_foreach(bins, i, bin)
    {
        int height = (int)ceil(BARS_HEIGHT * json_number_value(bin) / most);
        picture_fill(p, x + (int)i * BAR, base - height, BAR - 1, height, heat_colour(-1, true));
    }
    picture_fill(p, x, base, width, 1, picture_black);
    snprintf(text, sizeof text, "%.3g", number_of(h, "from"));
    picture_text(p, x, base + 4, text, picture_black, false);
    snprintf(text, sizeof text, "%.3g", number_of(h, "to"));
    picture_text(p, x + width - picture_text_width(text), base + 4, text, picture_black, false);
}

static pm_status draw_weights(const json_t *all, picture *p)
{
    const json_t *tensors = json_object_get(all, "tensors"), *t;
    size_t n = json_array_size(tensors), i;
    size_t bins = json_array_size(
        json_object_get(json_object_get(json_array_get(tensors, 0), "histogram"), "bins"));
    int across = (int)(n < PER_ROW ? n : PER_ROW), down = (int)((n + PER_ROW - 1) / PER_ROW);
    int width = (int)bins * BAR + PANEL_GAP, height = PANEL_TEXT + BARS_HEIGHT + 12 + PANEL_GAP;
    pm_status status = picture_open(p, across * width + PANEL_GAP, down * height + PANEL_GAP);
    if (status != PM_OK) return status;
    json_array_foreach(tensors, i, t)
    {
        draw_tensor(p, PANEL_GAP + (int)(i % PER_ROW) * width,
                    PANEL_GAP + (int)(i / PER_ROW) * height, t);
    }
    return PM_OK;
}

const view view_weights = {"weights", false, ask_weights, print_weights, draw_weights};
