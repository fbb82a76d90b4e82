// pumice inspect attention and logits.
#include <stdlib.h>
#include <string.h>

#include "cli/inspect.h"

// ---- the text ---------------------------------------------------------------------------------

static pm_status text_given(const cli_args *args, const char *what, const char **words, size_t n,
                            const char **text)
{
    const char *prompt = args_get(args, "prompt");
    if (n + (prompt ? 1 : 0) != 1)
        return error_set(PM_ERROR_USAGE,
                         "inspect %s: needs one text (quotes around it, or --prompt TEXT)", what);
    *text = prompt ? prompt : words[0];
    return PM_OK;
}

static pm_status ids_given(const cli_args *args, const char *what, const pm_model *model,
                           const char **words, size_t n, int32_t **ids, size_t *n_ids)
{
    const char *text = NULL;
    int flags = PM_TOKENS_BOS | (args_has(args, "special") ? PM_TOKENS_SPECIAL : 0);
    pm_status status = text_given(args, what, words, n, &text);
    if (status == PM_OK) status = pm_tokenize(model, text, strlen(text), flags, NULL, 0, n_ids);
    if (status != PM_OK) return status;
    if (*n_ids == 0) return error_set(PM_ERROR_USAGE, "inspect %s: a text without a token", what);
    *ids = malloc(*n_ids * sizeof **ids);
    if (!*ids) return error_memory("token ids", *n_ids * sizeof **ids);
    return pm_tokenize(model, text, strlen(text), flags, *ids, *n_ids, n_ids);
}

// The views hold the model as const; running it changes nothing in it that is seen.
typedef pm_status (*inspection)(pm_model *, const pm_options *, const int32_t *, size_t, char **);

static pm_status inspect_ids(const cli_args *args, const char *what, inspection run,
                             const pm_model *model, const char **words, size_t n, char **json)
{
    int32_t *ids = NULL;
    size_t n_ids = 0;
    pm_status status = ids_given(args, what, model, words, n, &ids, &n_ids);
    if (status == PM_OK) status = run((pm_model *)model, args->options, ids, n_ids, json);
    free(ids);
    return status;
}

// ---- attention --------------------------------------------------------------------------------

static pm_status ask_attention(const cli_args *args, const pm_model *model, const char **words,
                               size_t n, char **json)
{
    return inspect_ids(args, "attention", pm_inspect_attention, model, words, n, json);
}

enum { CELL = 9, MAP_GAP = 14 };

static heat_map map_of(const json_t *m, const labels *tokens, const double *values, char title[64])
{
    snprintf(title, 64, "layer %.0f, head %.0f", number_of(m, "layer"), number_of(m, "head"));
    return (heat_map){.rows = tokens->n,
                      .cols = tokens->n,
                      .values = values,
                      .most = 1,
                      .title = title,
                      .row_labels = (const char *const *)tokens->texts,
                      .col_labels = (const char *const *)tokens->texts,
                      .cell_width = CELL,
                      .cell_height = CELL};
}

// One layer a row, one head a column.
static pm_status draw_maps(const json_t *maps, const labels *tokens, picture *p)
{
    size_t n = json_array_size(maps), heads = 1, i;
    while (heads < n && number_of(json_array_get(maps, heads), "layer") ==
                            number_of(json_array_get(maps, 0), "layer"))
        heads++;
    char title[64];
    int width, height;
    heat_map m = map_of(json_array_get(maps, 0), tokens, NULL, title);
    heat_map_size(&m, &width, &height);
    width += MAP_GAP;
    height += MAP_GAP;
    int64_t all_width = (int64_t)heads * width, all_height = (int64_t)(n / heads) * height;
    if (all_width > 30000 || all_height > 60000) all_width = all_height = 30000; // refused
    pm_status status = picture_open(p, (int)all_width + MAP_GAP, (int)all_height + MAP_GAP);
    const json_t *map;
    json_array_foreach(maps, i, map)
    {
        if (status != PM_OK) break;
        double *values = inspect_matrix(json_object_get(map, "p"), tokens->n);
        if (!values) return error_memory("attention", 0);
        m = map_of(map, tokens, values, title);
        heat_map_draw(p, MAP_GAP + (int)(i % heads) * width, MAP_GAP + (int)(i / heads) * height,
                      &m);
        free(values);
    }
    return status;
}

static pm_status draw_attention(const json_t *all, picture *p)
{
    labels tokens;
    pm_status status = labels_of(json_object_get(all, "tokens"), &tokens);
    if (status == PM_OK) status = draw_maps(json_object_get(all, "maps"), &tokens, p);
    labels_free(&tokens);
    return status;
}

// Percent, row by row; less than half of one is a dot.
static void print_map(const labels *tokens, const double *values)
{
    for (size_t i = 0; i < tokens->n; i++) {
        out_print("%16.16s", tokens->texts[i]);
        for (size_t j = 0; j <= i; j++) {
            double percent = 100 * values[i * tokens->n + j];
            if (percent < 0.5)
                out_text("   .");
            else
                out_print(" %3.0f", percent);
        }
        out_text("\n");
    }
}

static void print_attention(const cli_args *args, const json_t *all)
{
    (void)args;
    labels tokens;
    size_t i;
    const json_t *map;
    bool colours = picture_terminal();
    if (labels_of(json_object_get(all, "tokens"), &tokens) == PM_OK) {
        json_array_foreach(json_object_get(all, "maps"), i, map)
        {
            double *values = inspect_matrix(json_object_get(map, "p"), tokens.n);
            if (!values) break;
            char title[64];
            heat_map m = map_of(map, &tokens, values, title);
            if (colours)
                heat_map_show(&m);
            else
                out_print("%s (percent)\n", title);
            if (!colours) print_map(&tokens, values);
            out_text("\n");
            free(values);
        }
    }
    labels_free(&tokens);
}

const view view_attention = {"attention", true, ask_attention, print_attention, draw_attention};

// ---- logits -----------------------------------------------------------------------------------

static pm_status ask_logits(const cli_args *args, const pm_model *model, const char **words,
                            size_t n, char **json)
{
    return inspect_ids(args, "logits", pm_inspect_logits, model, words, n, json);
}

static void print_logits(const cli_args *args, const json_t *all)
{
    (void)args;
    size_t i;
    const json_t *pos;
    json_array_foreach(json_object_get(all, "positions"), i, pos)
    {
        const json_t *next = json_object_get(pos, "next");
        out_print("position %.0f: ", number_of(pos, "pos"));
        inspect_print_token(pos);
        out_print("; entropy %.3f nats\n", number_of(pos, "entropy"));
        if (json_is_object(next)) {
            out_text("  followed by ");
            inspect_print_token(next);
            out_print(": rank %.0f, %.3f %%\n", number_of(next, "rank"),
                      100 * number_of(next, "probability"));
        }
        inspect_print_top(json_object_get(pos, "top"), "  ");
        inspect_print_filters(json_object_get(pos, "filters"), "  ");
        out_text("\n");
    }
}

const view view_logits = {"logits", true, ask_logits, print_logits, NULL};
