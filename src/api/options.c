// Options: named values as text, checked against option_table when they are set.
#include "api/options.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "text/text.h"

enum { MAX_NAME = 32, MAX_ITEMS = 1000 };

typedef struct option_values {
    char **values;
    size_t n;
} option_values;

struct pm_options {
    option_values *of; // [n_option_rows]
};

pm_options *pm_options_create(void)
{
    pm_options *o = calloc(1, sizeof *o);
    if (o) o->of = calloc(n_option_rows, sizeof *o->of);
    if (o && o->of) return o;
    free(o);
    return NULL;
}

static void values_clear(option_values *v)
{
    for (size_t i = 0; i < v->n; i++) free(v->values[i]);
    free(v->values);
    *v = (option_values){0};
}

void pm_options_destroy(pm_options *o)
{
    if (!o) return;
    for (size_t i = 0; i < n_option_rows; i++) values_clear(&o->of[i]);
    free(o->of);
    free(o);
}

// ---- names ------------------------------------------------------------------------------------

static bool find_row(const char *name, size_t *index)
{
    for (size_t i = 0; i < n_option_rows; i++) {
        if (!strcmp(option_table[i].name, name)) {
            *index = i;
            return true;
        }
    }
    return false;
}

// Insertions, deletions and replacements that make b of a; both at most MAX_NAME bytes.
static size_t edit_distance(const char *a, const char *b)
{
    size_t n_b = strlen(b), row[MAX_NAME + 1];
    for (size_t j = 0; j <= n_b; j++) row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[n_b];
}

static pm_status unknown_option(const char *name)
{
    const char *nearest = NULL;
    size_t n = strlen(name), best = n <= MAX_NAME ? (n < 4 ? 2 : n / 2 + 1) : 0;
    for (size_t i = 0; n <= MAX_NAME && i < n_option_rows; i++) {
        size_t distance = edit_distance(name, option_table[i].name);
        if (distance < best) {
            best = distance;
            nearest = option_table[i].name;
        }
    }
    if (!nearest)
        return error_set(PM_ERROR_USAGE, "option '%.64s': there is none of that name", name);
    return error_set(PM_ERROR_USAGE, "option '%s': there is none of that name (did you mean '%s'?)",
                     name, nearest);
}

// ---- values -----------------------------------------------------------------------------------

static bool is_word_of(const char *words, const char *text, size_t n)
{
    while (words) {
        size_t length = strcspn(words, "|");
        if (length == n && !memcmp(words, text, n)) return true;
        words = words[length] ? words + length + 1 : NULL;
    }
    return false;
}

// Decimal digits with an optional minus; nothing else, at most 18 digits.
static bool parse_int(const char *text, size_t n, int64_t *out)
{
    bool negative = n > 0 && text[0] == '-';
    size_t i = negative ? 1 : 0;
    if (n - i < 1 || n - i > 18) return false;
    int64_t value = 0;
    for (; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        value = value * 10 + (text[i] - '0');
    }
    *out = negative ? -value : value;
    return true;
}

// A decimal number in the C locale, whatever the program's locale is: JSON's form, and ".5".
static bool parse_real(const char *text, size_t n, double *out)
{
    char digits[64];
    size_t skip = n > 0 && text[0] == '-';
    if (n <= skip || n + 2 > sizeof digits) return false;
    for (size_t i = skip; i < n; i++) {
        if (!strchr("0123456789.eE+-", text[i]) || !text[i]) return false;
    }
    size_t at = 0;
    if (skip) digits[at++] = '-';
    if (text[skip] == '.') digits[at++] = '0';
    memcpy(digits + at, text + skip, n - skip);
    json_t *number = json_loadb(digits, at + n - skip, JSON_DECODE_ANY, NULL);
    bool good = json_is_number(number);
    if (good) *out = json_number_value(number);
    json_decref(number);
    return good;
}

static bool in_range(const option_row *row, double x)
{
    return x >= row->lowest && x <= row->highest; // false for NaN
}

static bool list_item(const char *text, size_t index, int64_t *out)
{
    for (size_t i = 0; text; i++) {
        size_t n = strcspn(text, ",");
        if (i == index) return parse_int(text, n, out);
        text = text[n] ? text + n + 1 : NULL;
    }
    return false;
}

static bool list_is_good(const option_row *row, const char *text)
{
    size_t n_items = 1;
    for (const char *c = text; *c; c++) n_items += *c == ',';
    if (n_items > MAX_ITEMS) return false;
    for (size_t i = 0; i < n_items; i++) {
        int64_t value;
        if (!list_item(text, i, &value) || !in_range(row, (double)value)) return false;
    }
    return true;
}

static bool split_bias(const char *text, int64_t *id, double *bias)
{
    size_t n = strcspn(text, ":");
    return text[n] && parse_int(text, n, id) &&
           parse_real(text + n + 1, strlen(text + n + 1), bias);
}

static bool value_is_good(const option_row *row, const char *text)
{
    size_t n = strlen(text);
    int64_t whole;
    double real;
    switch (row->kind) {
    case OPTION_SWITCH: return !strcmp(text, "true") || !strcmp(text, "false");
    case OPTION_CHOICE: return is_word_of(row->words, text, n);
    case OPTION_INT:
        return is_word_of(row->words, text, n) ||
               (parse_int(text, n, &whole) && in_range(row, (double)whole));
    case OPTION_REAL: return parse_real(text, n, &real) && in_range(row, real);
    case OPTION_INT_LIST: return list_is_good(row, text);
    case OPTION_DEVICE:
        return is_word_of(row->words, text, n) ||
               (!strncmp(text, "vulkan:", 7) && n > 7 && n < 100 &&
                text[7] != '-'); // an index, a name, a UUID
    case OPTION_BIAS:
        return split_bias(text, &whole, &real) && whole >= 0 && whole <= INT32_MAX &&
               in_range(row, real);
    case OPTION_TEXT:
    case OPTION_PATH: return n > 0;
    }
    return false;
}

// "think" and "no-think" say the same thing: the later one counts.
static void clear_opposite(pm_options *o, const char *name)
{
    size_t other;
    if (!strcmp(name, "think") && find_row("no-think", &other)) values_clear(&o->of[other]);
    if (!strcmp(name, "no-think") && find_row("think", &other)) values_clear(&o->of[other]);
}

pm_status pm_options_set(pm_options *o, const char *name, const char *value)
{
    size_t index;
    if (!find_row(name, &index)) return unknown_option(name);
    const option_row *row = &option_table[index];
    option_values *v = &o->of[index];
    if (!value) {
        values_clear(v);
        return PM_OK;
    }
    if (row->kind == OPTION_TEXT && !text_utf8_valid(value, strlen(value))) {
        return error_set(PM_ERROR_USAGE, "option '%s': the value is not UTF-8", name);
    }
    if (!value_is_good(row, value)) {
        return error_set(PM_ERROR_USAGE, "option '%s': '%.200s' is not allowed (%s)", name, value,
                         row->range);
    }
    size_t bytes = strlen(value) + 1;
    char *copy = malloc(bytes);
    if (!copy) return error_memory("an option", bytes);
    memcpy(copy, value, bytes);
    if (!row->repeatable) values_clear(v);
    char **values = realloc(v->values, (v->n + 1) * sizeof *values);
    if (!values) {
        free(copy);
        return error_memory("an option", (v->n + 1) * sizeof *values);
    }
    v->values = values;
    v->values[v->n++] = copy;
    clear_opposite(o, name);
    return PM_OK;
}

const char *pm_options_get(const pm_options *o, const char *name)
{
    size_t index;
    if (!find_row(name, &index)) return NULL;
    if (!o || o->of[index].n == 0) return option_table[index].fallback;
    return o->of[index].values[o->of[index].n - 1];
}

int pm_options_is_set(const pm_options *o, const char *name)
{
    size_t index;
    return o && find_row(name, &index) && o->of[index].n > 0;
}

int pm_options_describe(size_t index, const char **name, const char **group, const char **value,
                        const char **range, const char **fallback, const char **help)
{
    if (index >= n_option_rows) return 0;
    const option_row *row = &option_table[index];
    if (name) *name = row->name;
    if (group) *group = row->group;
    if (value) *value = row->value;
    if (range) *range = row->range;
    if (fallback) *fallback = row->fallback;
    if (help) *help = row->help;
    return 1;
}

// ---- typed reading ----------------------------------------------------------------------------

static const char *known(const pm_options *o, const char *name)
{
    size_t index = 0;
    bool found = find_row(name, &index);
    assert(found);
    (void)found;
    return pm_options_get(o, name);
}

bool options_is_on(const pm_options *o, const char *name)
{
    return options_word(o, name, "true");
}

bool options_word(const pm_options *o, const char *name, const char *word)
{
    const char *text = known(o, name);
    return text && !strcmp(text, word);
}

int64_t options_int(const pm_options *o, const char *name, int64_t otherwise)
{
    const char *text = known(o, name);
    int64_t value;
    return text && parse_int(text, strlen(text), &value) ? value : otherwise;
}

double options_real(const pm_options *o, const char *name)
{
    const char *text = known(o, name);
    double value = 0;
    if (text) parse_real(text, strlen(text), &value);
    return value;
}

size_t options_n_values(const pm_options *o, const char *name)
{
    size_t index;
    return o && find_row(name, &index) ? o->of[index].n : 0;
}

const char *options_value(const pm_options *o, const char *name, size_t i)
{
    size_t index;
    if (!o || !find_row(name, &index) || i >= o->of[index].n) return NULL;
    return o->of[index].values[i];
}

bool options_list_item(const pm_options *o, const char *name, size_t index, int64_t *out)
{
    const char *text = known(o, name);
    return text && list_item(text, index, out);
}

void options_bias(const pm_options *o, const char *name, size_t index, int64_t *id, double *bias)
{
    const char *text = options_value(o, name, index);
    *id = 0;
    *bias = 0;
    if (text) split_bias(text, id, bias);
}
