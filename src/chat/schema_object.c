// Objects of a schema: their members in the order of the properties, then others.
#include <stdlib.h>
#include <string.h>

#include "chat/schema_internal.h"
#include "text/text.h"

// Keys that are none of `names`, without escapes, from character `from` on; all begin alike up to
// there.
static int other_keys(schema_writer *w, const char **names, size_t n, size_t from,
                      const schema_place *at)
{
    int rule = w->n_rules++;
    buf e = {0}, class = {0};
    bool ends = false;
    buf_str(&class, "[^\\\"\\\\\\x00-\\x1f\\x7f");
    for (size_t i = 0; i < n && w->status == PM_OK;) {
        const char *rest = names[i] + from;
        if (!*rest) {
            ends = true;
            i++;
            continue;
        }
        size_t length, group = i;
        uint32_t c = text_utf8_next(rest, strlen(rest), &length);
        while (group < n && !strncmp(names[group] + from, rest, length)) group++;
        if (from > 1000) schema_wrong(w, at, "a property's name is too long", NULL);
        int inner = other_keys(w, names + i, group - i, from + length, at);
        buf_printf(&e, "\"\\U%08x\" s%d | ", (unsigned)c, inner);
        buf_printf(&class, "\\U%08x", (unsigned)c);
        i = group;
    }
    buf_printf(&e, "%s] plain*", class.failed ? "" : class.data);
    if (!ends) buf_str(&e, " | \"\"");
    schema_put_rule(w, rule, &e);
    buf_free(&class);
    buf_free(&e);
    return rule;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// The rule of a member that is not listed, or -1 where there must be none.
static int extra_member(schema_writer *w, const json_t *schema, const schema_place *at, int depth)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *extra = json_object_get(schema, "additionalProperties");
    if (json_is_false(extra) || (!extra && properties)) return -1;
    schema_place below = {at, "additionalProperties"};
    int value = extra && !json_is_true(extra) ? schema_rule(w, extra, &below, depth + 1) : -1;
    const char **names = calloc(json_object_size(properties) + 1, sizeof *names);
    if (!names) {
        w->status = error_memory("a schema", 0);
        return -1;
    }
    size_t n = 0;
    const char *key;
    json_t *unused;
    json_object_foreach((json_t *)properties, key, unused) names[n++] = key;
    qsort(names, n, sizeof *names, by_text);
    int rule = w->n_rules++;
    buf e = {0};
    if (n > 0) {
        buf_printf(&e, "\"\\\"\" s%d \"\\\"\"", other_keys(w, names, n, 0, at));
    } else {
        buf_str(&e, "string");
    }
    buf_str(&e, " \":\" ws ");
    if (value >= 0) {
        buf_printf(&e, "s%d", value);
    } else {
        buf_str(&e, "value");
    }
    schema_put_rule(w, rule, &e);
    buf_free(&e);
    free(names);
    return rule;
}

// The names that are required, as a set. New.
static json_t *required_names(schema_writer *w, const json_t *schema, const schema_place *at)
{
    const json_t *list = json_object_get(schema, "required");
    const json_t *properties = json_object_get(schema, "properties");
    json_t *names = json_object();
    if (list && !json_is_array(list)) schema_wrong(w, at, "no list:", "required");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (!name || !json_object_get(properties, name))
            schema_wrong(w, at,
                         "a required property is not among the properties:", name ? name : "");
        else if (json_object_set_new(names, name, json_true()) != 0 && w->status == PM_OK)
            w->status = error_memory("a schema", 0);
    }
    return names;
}

// From property k on there are two rules: with and without a member before. What is not required
// may be left out.
static void put_members(schema_writer *w, const json_t *properties, const json_t *required,
                        const int *values, int first, int extra)
{
    const char *key;
    json_t *unused;
    int k = 0;
    buf e = {0};
    json_object_foreach((json_t *)properties, key, unused)
    {
        json_t *name = json_string(key);
        for (int started = 0; started < 2; started++) {
            e.len = 0;
            buf_str(&e, started ? "\",\" ws " : "");
            schema_add_value(w, &e, name);
            buf_printf(&e, " \":\" ws s%d s%d", values[k], first + 2 * (k + 1) + 1);
            if (!json_object_get(required, key))
                buf_printf(&e, " | s%d", first + 2 * (k + 1) + started);
            schema_put_rule(w, first + 2 * k + started, &e);
        }
        json_decref(name);
        k++;
    }
    for (int started = 0; started < 2; started++) {
        e.len = 0;
        buf_str(&e, "\"\"");
        if (extra >= 0 && started) buf_printf(&e, " ( \",\" ws s%d )*", extra);
        if (extra >= 0 && !started) buf_printf(&e, " ( s%d ( \",\" ws s%d )* )?", extra, extra);
        schema_put_rule(w, first + 2 * k + started, &e);
    }
    buf_free(&e);
}

void schema_object(schema_writer *w, const json_t *schema, const schema_place *at, int depth,
                   buf *out)
{
    const json_t *properties = json_object_get(schema, "properties");
    if (properties && !json_is_object(properties)) schema_wrong(w, at, "no object:", "properties");
    size_t n = json_object_size(properties);
    int *values = calloc(n + 1, sizeof *values), k = 0;
    if (!values) {
        w->status = error_memory("a schema", n * sizeof *values);
        return;
    }
    json_t *required = required_names(w, schema, at);
    schema_place here = {at, "properties"};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)properties, key, value)
    {
        schema_place below = {&here, key};
        values[k++] = schema_rule(w, value, &below, depth + 1);
    }
    int extra = extra_member(w, schema, at, depth);
    int first = w->n_rules;
    w->n_rules += 2 * (k + 1);
    put_members(w, properties, required, values, first, extra);
    buf_printf(out, "\"{\" ws s%d ws \"}\"", first);
    json_decref(required);
    free(values);
}
