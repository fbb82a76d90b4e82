// Inside the library: typed access to a pm_options set. Values were checked when they were set, so
// that reading them cannot fail. Every function accepts NULL: the defaults.
#ifndef PUMICE_API_OPTIONS_H
#define PUMICE_API_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef enum option_kind {
    OPTION_SWITCH,   // "true" or "false"
    OPTION_INT,      // lowest to highest, or one of `words`
    OPTION_REAL,     // lowest to highest
    OPTION_INT_LIST, // "512,2048": each lowest to highest
    OPTION_CHOICE,   // one of `words`
    OPTION_DEVICE,   // one of `words`, or vulkan:SELECTOR
    OPTION_BIAS,     // ID:BIAS, the bias lowest to highest
    OPTION_TEXT,     // valid UTF-8, not empty
    OPTION_PATH,     // the name of a file or folder: any bytes, not empty
} option_kind;

typedef struct option_row {
    const char *name, *group;
    option_kind kind;
    const char *value; // how help writes the value; NULL for a switch
    const char *words; // "auto|max": words that are accepted (beside numbers)
    double lowest, highest;
    const char *range;    // in words, with the meaning of 0 and of -1 where there is one
    const char *fallback; // the default as text; NULL: none, or it depends on the model (see help)
    bool repeatable;
    const char *help;
} option_row;

extern const option_row option_table[];
extern const size_t n_option_rows;

// `name` is one of the table's: asserted.
bool options_is_on(const pm_options *o, const char *name);
// The number, or `otherwise` where a word is set or nothing is.
int64_t options_int(const pm_options *o, const char *name, int64_t otherwise);
double options_real(const pm_options *o, const char *name);
// Is this word the option's value?
bool options_word(const pm_options *o, const char *name, const char *word);
size_t options_n_values(const pm_options *o, const char *name);
const char *options_value(const pm_options *o, const char *name, size_t index);
// Item `index` of a list of numbers; false past its end.
bool options_list_item(const pm_options *o, const char *name, size_t index, int64_t *out);
// ID and bias of value `index` of a bias option.
void options_bias(const pm_options *o, const char *name, size_t index, int64_t *id, double *bias);

#endif
