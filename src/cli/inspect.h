// What the views of `pumice inspect` share.
#ifndef PUMICE_CLI_INSPECT_H
#define PUMICE_CLI_INSPECT_H

#include <math.h>

#include "cli/picture.h"

// One thing that can be looked at. `words` are those behind its name.
typedef struct view {
    const char *name;
    bool runs; // needs the weights on a device
    pm_status (*ask)(const cli_args *args, const pm_model *model, const char **words, size_t n,
                     char **json);
    void (*print)(const cli_args *args, const json_t *all);
    pm_status (*draw)(const json_t *all, picture *p); // NULL: there is no picture of it
} view;

extern const view view_embedding, view_weights, view_attention, view_logits, view_trace;

static inline double number_of(const json_t *o, const char *key)
{
    const json_t *value = json_object_get(o, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static inline const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

// Numbers of a list of lists, row after row; rows shorter than `cols` are filled with NAN. Released
// with free; NULL when memory runs out.
double *inspect_matrix(const json_t *rows, size_t cols);
double inspect_largest(const double *values, size_t n); // of the absolute values; never 0

// How tokens are written as labels: spaces as a middle dot, line breaks as \n. `items` are texts,
// or objects with "text".
typedef struct labels {
    char **texts;
    size_t n;
} labels;
pm_status labels_of(const json_t *items, labels *out);
void labels_free(labels *l);

// "pos 3, id 12: '·the'" begins like this: the quoted label of a token's object.
void inspect_print_token(const json_t *token);
// The most likely tokens and the filters, as logits and trace show them.
void inspect_print_top(const json_t *top, const char *indent);
void inspect_print_filters(const json_t *filters, const char *indent);

#endif
