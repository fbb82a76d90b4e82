// Two schemas that both have to hold, as one.
#include <stdlib.h>
#include <string.h>

#include "chat/schema_internal.h"

// The types of both; an integer is a number.
static json_t *both_types(const json_t *a, const json_t *b)
{
    static const char *const names[] = {"string", "integer", "number", "boolean",
                                        "null",   "object",  "array"};
    json_t *list = json_array();
    bool number = schema_has_type(a, "number") && schema_has_type(b, "number");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (number && !strcmp(names[i], "integer")) continue;
        if (schema_has_type(a, names[i]) && schema_has_type(b, names[i]))
            json_array_append_new(list, json_string(names[i]));
    }
    return list;
}

// The values of `a` that are among those of `b`.
static json_t *both_values(const json_t *a, const json_t *b)
{
    json_t *known = json_object(), *list = json_array();
    for (size_t i = 0; i < json_array_size(b) + json_array_size(a); i++) {
        bool of_b = i < json_array_size(b);
        json_t *value = of_b ? json_array_get(b, i) : json_array_get(a, i - json_array_size(b));
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_SORT_KEYS);
        if (text && of_b) json_object_set_new(known, text, json_true());
        if (text && !of_b && json_object_get(known, text)) json_array_append(list, value);
        free(text);
    }
    json_decref(known);
    return list;
}

static json_t *both_names(const json_t *a, const json_t *b)
{
    json_t *list = json_copy((json_t *)(uintptr_t)a);
    json_array_extend(list, (json_t *)(uintptr_t)b);
    return list;
}

static json_t *all_of(json_t *a, json_t *b)
{
    return json_pack("{s:[O,O]}", "allOf", a, b);
}

static json_t *both_properties(json_t *a, json_t *b)
{
    json_t *all = json_copy(a), *value;
    const char *key;
    json_object_foreach(b, key, value)
    {
        json_t *known = json_object_get(a, key);
        if (!known)
            json_object_set(all, key, value);
        else if (!json_equal(known, value))
            json_object_set_new(all, key, all_of(known, value));
    }
    return all;
}

// A keyword that both have, with other values. NULL: they can't be joined.
static json_t *both(const char *key, json_t *a, json_t *b)
{
    static const char *const lower[] = {"minimum", "exclusiveMinimum", "minLength", "minItems"};
    static const char *const upper[] = {"maximum", "exclusiveMaximum", "maxLength", "maxItems"};
    for (size_t i = 0; i < 4; i++) {
        bool low = !strcmp(key, lower[i]), high = !strcmp(key, upper[i]);
        if ((!low && !high) || !schema_is_number(a) || !schema_is_number(b)) continue;
        bool more = schema_compare(a, b) > 0;
        return json_incref(more == low ? a : b);
    }
    if (!strcmp(key, "type")) return both_types(a, b);
    if (!strcmp(key, "enum")) return both_values(a, b);
    if (!strcmp(key, "required")) return both_names(a, b);
    if (!strcmp(key, "properties")) return both_properties(a, b);
    if (!strcmp(key, "items") || !strcmp(key, "additionalProperties")) {
        if (json_is_false(a) || json_is_false(b)) return json_false();
        return all_of(a, b);
    }
    return NULL;
}

// Further properties that `a` restricts must not be listed in `b`.
static bool closes(const json_t *a, const json_t *b)
{
    const json_t *extra = json_object_get(a, "additionalProperties");
    if (!extra || json_is_true(extra)) return false;
    const char *key;
    json_t *unused;
    json_object_foreach(json_object_get(b, "properties"), key, unused)
    {
        if (!json_object_get(json_object_get(a, "properties"), key)) return true;
    }
    return false;
}

// Items that `a` restricts, without a list before them, would have to hold for the listed ones of
// `b`.
static bool reaches_prefix(const json_t *a, const json_t *b)
{
    const json_t *items = json_object_get(a, "items");
    return items && !json_is_true(items) && !json_object_get(a, "prefixItems") &&
           json_object_get(b, "prefixItems");
}

json_t *schema_merge(const json_t *a, const json_t *b, const char **conflict)
{
    json_t *all = json_copy((json_t *)(uintptr_t)a), *value;
    const char *key;
    *conflict = closes(a, b) || closes(b, a)                   ? "additionalProperties"
                : reaches_prefix(a, b) || reaches_prefix(b, a) ? "items"
                                                               : NULL;
    json_object_foreach((json_t *)(uintptr_t)b, key, value)
    {
        json_t *known = json_object_get(all, key);
        if (!known) {
            json_object_set(all, key, value);
            continue;
        }
        if (schema_keyword(key) == SCHEMA_UNKNOWN || json_equal(known, value)) continue;
        json_t *joined = both(key, known, value);
        if (joined)
            json_object_set_new(all, key, joined);
        else if (!*conflict)
            *conflict = key;
    }
    return all;
}
