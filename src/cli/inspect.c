// pumice inspect: finds the view, asks the library, writes text, JSON or a picture.
#include "cli/inspect.h"

#include <stdlib.h>
#include <string.h>

const cli_option inspect_options[] = {
    {"model", 'm', "MODEL", "the model, instead of the first word"},
    {"output", 'o', "FILE.png", "a picture (embedding, attention, weights)"},
    {"json", 0, NULL, "all numbers, as one JSON document"},
    {"prompt", 'p', "TEXT", "the text, instead of a word"},
    {"raw", 0, NULL, "trace: the text itself, without the model's template"},
    {"special", 0, NULL, "attention, logits: control tokens named in the text are recognised"},
    {"markdown", 0, NULL, "trace: as Markdown"},
    {0},
};

static const view *const views[] = {&view_embedding, &view_attention, &view_logits, &view_weights,
                                    &view_trace};
enum { N_VIEWS = sizeof views / sizeof views[0] };

// ---- helpers of the views ---------------------------------------------------------------------

double *inspect_matrix(const json_t *rows, size_t cols)
{
    size_t n = json_array_size(rows), i, j;
    double *values = malloc((n * cols + 1) * sizeof *values);
    if (!values) return NULL;
    for (i = 0; i < n * cols; i++) values[i] = (double)NAN;
    const json_t *row, *value;
    json_array_foreach(rows, i, row)
    {
        json_array_foreach(row, j, value)
        {
            if (j < cols && json_is_number(value)) values[i * cols + j] = json_number_value(value);
        }
    }
    return values;
}

double inspect_largest(const double *values, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++) most = fmax(most, fabs(values[i])); // fmax skips NAN
    return most > 0 ? most : 1;
}

static void label(const char *text, buf *out)
{
    for (; *text; text++) {
        if (*text == ' ')
            buf_str(out, "\xc2\xb7");
        else if (*text == '\n')
            buf_str(out, "\\n");
        else if (*text == '\t')
            buf_str(out, "\\t");
        else if ((unsigned char)*text < 32 || *text == 127)
            buf_char(out, '?'); // nothing that a terminal acts on
        else
            buf_char(out, *text);
    }
}

pm_status labels_of(const json_t *items, labels *out)
{
    size_t n = json_array_size(items), i;
    const json_t *item;
    *out = (labels){calloc(n + 1, sizeof *out->texts), n};
    if (!out->texts) return error_memory("labels", n);
    json_array_foreach(items, i, item)
    {
        buf text = {0};
        buf_str(&text, "");
        label(json_is_string(item) ? json_string_value(item) : text_of(item, "text"), &text);
        pm_status status = buf_take(&text, &out->texts[i], NULL);
        if (status != PM_OK) return status;
    }
    return PM_OK;
}

void labels_free(labels *l)
{
    for (size_t i = 0; l->texts && i < l->n; i++) free(l->texts[i]);
    free(l->texts);
    *l = (labels){0};
}

void inspect_print_token(const json_t *token)
{
    buf text = {0};
    label(text_of(token, "text"), &text);
    out_print("%.0f '%s'", number_of(token, "id"), text.data ? text.data : "");
    buf_free(&text);
}

void inspect_print_top(const json_t *top, const char *indent)
{
    size_t i;
    const json_t *token;
    json_array_foreach(top, i, token)
    {
        out_print("%s%4.0f  %10.4f  %7.3f %%  ", indent, number_of(token, "rank"),
                  number_of(token, "logit"), 100 * number_of(token, "probability"));
        inspect_print_token(token);
        out_text("\n");
    }
}

void inspect_print_filters(const json_t *filters, const char *indent)
{
    size_t i;
    const json_t *f;
    json_array_foreach(filters, i, f)
    {
        out_print("%s%-6s ", indent, text_of(f, "filter"));
        if (!json_is_true(json_object_get(f, "on"))) {
            out_text("off\n");
            continue;
        }
        out_print("%-6g cuts %6.0f, leaves %6.0f with %7.3f %%\n", number_of(f, "value"),
                  number_of(f, "cut"), number_of(f, "kept"), 100 * number_of(f, "kept_mass"));
    }
}

// ---- the command ------------------------------------------------------------------------------

static const view *find_view(const char *name)
{
    for (size_t k = 0; k < N_VIEWS; k++)
        if (!strcmp(views[k]->name, name)) return views[k];
    return NULL;
}

// WHAT is the first word, or the second behind MODEL.
static pm_status find_words(const cli_args *args, const view **v, const char **model, int *first)
{
    for (int k = 0; k < 2 && k < args->n_words; k++) {
        *v = find_view(args->words[k]);
        if (!*v) continue;
        *model = k ? args->words[0] : NULL;
        *first = k + 1;
        return PM_OK;
    }
    return error_set(PM_ERROR_USAGE,
                     "inspect: say what: embedding, attention, logits, weights or trace (pumice "
                     "inspect [MODEL] embedding breakfast lunch)");
}

static pm_status write_picture(const view *v, const json_t *all, const char *path)
{
    picture p = {0};
    char title[64];
    snprintf(title, sizeof title, "pumice inspect %s", v->name);
    pm_status status = v->draw(all, &p);
    if (status == PM_OK) status = picture_write(&p, path, title);
    picture_free(&p);
    return status;
}

static pm_status show(const cli_args *args, const view *v, const char *text)
{
    const char *path = args_get(args, "output");
    json_t *all = json_loads(text, JSON_ALLOW_NUL, NULL);
    if (!all) return error_memory("the answer", strlen(text));
    pm_status status = path ? write_picture(v, all, path) : PM_OK;
    if (status == PM_OK && args_has(args, "json"))
        out_print("%s\n", text);
    else if (status == PM_OK && !path)
        v->print(args, all);
    json_decref(all);
    return status;
}

pm_status run_inspect(cli_args *args)
{
    const view *v = NULL;
    const char *word = NULL;
    int first = 0;
    pm_status status = find_words(args, &v, &word, &first);
    if (status != PM_OK) return status;
    if (args_get(args, "output") && !v->draw)
        return error_set(PM_ERROR_USAGE, "--output: there is no picture of %s", v->name);
    loaded l = {0};
    char *text = NULL;
    status = v->runs ? loaded_model(args, word, &l) : loaded_vocabulary(args, word, &l);
    if (status == PM_OK)
        status = v->ask(args, l.model, args->words + first, (size_t)(args->n_words - first), &text);
    if (status == PM_OK) status = show(args, v, text);
    pm_free(text);
    loaded_free(&l);
    return status;
}
