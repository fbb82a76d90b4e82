#include "chat/schema.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/large.h"
#include "chat/schema_internal.h"
#include "text/text.h"

enum { MAX_DEPTH = 128, MAX_BYTES = 1 << 23, MAX_COUNT = 100000, MAX_JOINED = 10000 };

typedef struct writer {
    const json_t *document;
    buf *out;
    json_t *refs; // $ref -> number of its rule
    int n_rules;
    bool large;   // the document has integers as marked strings (base/large.h)
    int n_joined; // schemas that hold together, bounded because they may multiply
    pm_status status;
} writer;

// What every grammar ends with. Numbers, escapes and white space are such that any parser of JSON
// takes the text, and that a model can't go on with blanks for ever.
static const char common_rules[] =
    "ws ::= ( \" \" | \"\\n\" [ \\t]{0,20} )?\n"
    "plain ::= [^\\\"\\\\\\x00-\\x1f\\x7f]\n"
    "hex ::= [0-9a-fA-F]\n"
    "unit ::= [1-9a-cA-CefEF] hex{3} | [dD] [0-7] hex{2} | \"0\" [1-9a-fA-F] hex{2} | "
    "\"00\" [1-9a-fA-F] hex | \"000\" [1-9a-fA-F]\n"
    "char ::= plain | \"\\\\\" ( [\\\"\\\\/bfnrt] | \"u\" unit )\n"
    "string ::= \"\\\"\" char* \"\\\"\"\n"
    "integer ::= \"-\"? ( \"0\" | [1-9] [0-9]{0,15} )\n"
    "number ::= integer ( \".\" [0-9]{1,16} )? ( [eE] [-+]? [0-9]{1,2} )?\n"
    "boolean ::= \"true\" | \"false\"\n"
    "null ::= \"null\"\n"
    "value ::= object | array | string | number | boolean | null\n"
    "member ::= string \":\" ws value\n"
    "object ::= \"{\" ws ( member ( \",\" ws member )* )? ws \"}\"\n"
    "array ::= \"[\" ws ( value ( \",\" ws value )* )? ws \"]\"\n";

// ---- errors, with the place in the schema -----------------------------------------------------

// The way from the root to a schema.
typedef struct place {
    const struct place *up;
    const char *name;
} place;

static void show_place(const place *at, buf *out)
{
    if (!at) return;
    show_place(at->up, out);
    if (at->name) buf_printf(out, "/%.60s", at->name);
}

static void wrong(writer *w, const place *at, const char *what, const char *word)
{
    if (w->status != PM_OK) return;
    buf path = {0};
    buf_str(&path, "schema #");
    show_place(at, &path);
    w->status = error_set(PM_ERROR_USAGE, "%s: %s%s%s%s", path.data ? path.data : "schema", what,
                          word ? " '" : "", word ? word : "", word ? "'" : "");
    buf_free(&path);
}

// ---- literals ---------------------------------------------------------------------------------

static void add_literal(buf *out, const char *text)
{
    buf_char(out, '"');
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            buf_printf(out, "\\%c", c);
        } else if (c < ' ' || c == 0x7f) {
            buf_printf(out, "\\x%02x", c);
        } else {
            buf_char(out, (char)c);
        }
    }
    buf_char(out, '"');
}

// A value as it has to be written, with as few digits as give its numbers back.
static char *text_of(const json_t *value)
{
    const size_t flags = JSON_ENCODE_ANY | JSON_COMPACT;
    for (size_t digits = 15; digits < 17; digits++) {
        char *text = json_dumps(value, flags | JSON_REAL_PRECISION(digits));
        json_t *back = text ? json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
        bool same = back && json_equal(back, value);
        json_decref(back);
        if (same) return text;
        free(text);
    }
    return json_dumps(value, flags | JSON_REAL_PRECISION(17));
}

static void add_value(writer *w, buf *out, const json_t *value)
{
    char *text = text_of(value);
    buf shown = {0};
    if (text && w->large) {
        large_show(text, strlen(text), &shown);
        out->failed |= shown.failed;
        add_literal(out, shown.failed ? "" : shown.data);
    } else if (text) {
        add_literal(out, text);
    } else if (w->status == PM_OK) {
        w->status = error_memory("a schema", 0);
    }
    buf_free(&shown);
    free(text);
}

static int new_rule(writer *w)
{
    return w->n_rules++;
}

// Expressions are made beside, rules are put out whole.
static void put_rule(writer *w, int rule, const buf *expression)
{
    if (expression->failed || w->out->failed) {
        w->status = error_memory("a schema", w->out->len);
        return;
    }
    buf_printf(w->out, "s%d ::= %s\n", rule, expression->data ? expression->data : "\"\"");
    if (w->out->len > MAX_BYTES && w->status == PM_OK) {
        w->status = error_set(PM_ERROR_USAGE, "the schema is too large");
    }
}

static int schema_rule(writer *w, const json_t *schema, const place *at, int depth);

// A whole number of the schema, or `otherwise`.
static size_t count_of(writer *w, const json_t *schema, const char *key, const place *at,
                       size_t otherwise)
{
    const json_t *value = json_object_get(schema, key);
    if (!value) return otherwise;
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 0 || n > MAX_COUNT) {
        wrong(w, at, "no whole number from 0 to 100000:", key);
        return otherwise;
    }
    return (size_t)n;
}

static void add_counts(buf *out, size_t least, size_t most)
{
    if (most == SIZE_MAX) {
        buf_printf(out, "{%zu,}", least);
    } else {
        buf_printf(out, "{%zu,%zu}", least, most);
    }
}

// ---- objects ----------------------------------------------------------------------------------

// Keys that are none of `names`, without escapes, from character `from` on; all begin alike up to
// there.
static int other_keys(writer *w, const char **names, size_t n, size_t from, const place *at)
{
    int rule = new_rule(w);
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
        if (from > 1000) wrong(w, at, "a property's name is too long", NULL);
        int inner = other_keys(w, names + i, group - i, from + length, at);
        buf_printf(&e, "\"\\U%08x\" s%d | ", (unsigned)c, inner);
        buf_printf(&class, "\\U%08x", (unsigned)c);
        i = group;
    }
    buf_printf(&e, "%s] plain*", class.failed ? "" : class.data);
    if (!ends) buf_str(&e, " | \"\"");
    put_rule(w, rule, &e);
    buf_free(&class);
    buf_free(&e);
    return rule;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// The rule of a member that is not listed, or -1 where there must be none.
static int extra_member(writer *w, const json_t *schema, const place *at, int depth)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *extra = json_object_get(schema, "additionalProperties");
    if (json_is_false(extra) || (!extra && properties)) return -1;
    place below = {at, "additionalProperties"};
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
    int rule = new_rule(w);
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
    put_rule(w, rule, &e);
    buf_free(&e);
    free(names);
    return rule;
}

static bool is_required(const json_t *schema, const char *key)
{
    const json_t *list = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name && !strcmp(name, key)) return true;
    }
    return false;
}

static void check_required(writer *w, const json_t *schema, const place *at)
{
    const json_t *list = json_object_get(schema, "required");
    const json_t *properties = json_object_get(schema, "properties");
    if (list && !json_is_array(list)) wrong(w, at, "no list:", "required");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (!name || !json_object_get(properties, name)) {
            wrong(w, at, "a required property is not among the properties:", name ? name : "");
        }
    }
}

// From property k on there are two rules: with and without a member before. What is not required
// may be left out.
static void put_members(writer *w, const json_t *schema, const int *values, int first, int extra)
{
    const char *key;
    json_t *unused;
    int k = 0;
    buf e = {0};
    json_object_foreach(json_object_get(schema, "properties"), key, unused)
    {
        json_t *name = json_string(key);
        for (int started = 0; started < 2; started++) {
            e.len = 0;
            buf_str(&e, started ? "\",\" ws " : "");
            add_value(w, &e, name);
            buf_printf(&e, " \":\" ws s%d s%d", values[k], first + 2 * (k + 1) + 1);
            if (!is_required(schema, key)) buf_printf(&e, " | s%d", first + 2 * (k + 1) + started);
            put_rule(w, first + 2 * k + started, &e);
        }
        json_decref(name);
        k++;
    }
    for (int started = 0; started < 2; started++) {
        e.len = 0;
        buf_str(&e, "\"\"");
        if (extra >= 0 && started) buf_printf(&e, " ( \",\" ws s%d )*", extra);
        if (extra >= 0 && !started) buf_printf(&e, " ( s%d ( \",\" ws s%d )* )?", extra, extra);
        put_rule(w, first + 2 * k + started, &e);
    }
    buf_free(&e);
}

static void object(writer *w, const json_t *schema, const place *at, int depth, buf *out)
{
    const json_t *properties = json_object_get(schema, "properties");
    if (properties && !json_is_object(properties)) wrong(w, at, "no object:", "properties");
    check_required(w, schema, at);
    size_t n = json_object_size(properties);
    int *values = calloc(n + 1, sizeof *values), k = 0;
    if (!values) {
        w->status = error_memory("a schema", n * sizeof *values);
        return;
    }
    place here = {at, "properties"};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)properties, key, value)
    {
        place below = {&here, key};
        values[k++] = schema_rule(w, value, &below, depth + 1);
    }
    int extra = extra_member(w, schema, at, depth);
    int first = w->n_rules;
    w->n_rules += 2 * (k + 1);
    put_members(w, schema, values, first, extra);
    buf_printf(out, "\"{\" ws s%d ws \"}\"", first);
    free(values);
}

// ---- arrays, strings, the rest ----------------------------------------------------------------

static void array(writer *w, const json_t *schema, const place *at, int depth, buf *out)
{
    const json_t *prefix = json_object_get(schema, "prefixItems");
    const json_t *items = json_object_get(schema, "items");
    size_t n = json_array_size(prefix), least = count_of(w, schema, "minItems", at, 0);
    size_t most = count_of(w, schema, "maxItems", at, SIZE_MAX);
    if (prefix && n == 0) wrong(w, at, "no list of schemas:", "prefixItems");
    if (least > most) wrong(w, at, "maxItems is below minItems", NULL);
    if (n > 0 && (least > n || most < n)) {
        wrong(w, at, "minItems or maxItems with other numbers than prefixItems", NULL);
    }
    buf_str(out, "\"[\" ws ");
    for (size_t i = 0; i < n; i++) {
        place here = {at, "prefixItems"};
        int item = schema_rule(w, json_array_get(prefix, i), &here, depth + 1);
        buf_printf(out, "%ss%d ", i ? "\",\" ws " : "", item);
    }
    place here = {at, "items"};
    bool more = n == 0 || (items && !json_is_false(items));
    if (more && !json_is_false(items) && most > n) {
        char name[32] = "value";
        if (items) snprintf(name, sizeof name, "s%d", schema_rule(w, items, &here, depth + 1));
        if (n > 0) {
            buf_printf(out, "( \",\" ws %s )", name);
            add_counts(out, 0, most == SIZE_MAX ? most : most - n);
        } else {
            buf_printf(out, "( %s ( \",\" ws %s )", name, name);
            add_counts(out, least > 0 ? least - 1 : 0, most == SIZE_MAX ? most : most - 1);
            buf_str(out, least > 0 ? " )" : " )?");
        }
    } else if (n == 0 && least > 0) {
        wrong(w, at, "minItems of a list that must be empty", NULL);
    }
    buf_str(out, " ws \"]\"");
}

static void string(writer *w, const json_t *schema, const place *at, buf *out)
{
    size_t least = count_of(w, schema, "minLength", at, 0);
    size_t most = count_of(w, schema, "maxLength", at, SIZE_MAX);
    const json_t *found = json_object_get(schema, "pattern");
    const char *pattern = json_string_value(found);
    if (least > most) wrong(w, at, "maxLength is below minLength", NULL);
    if (found && !pattern) wrong(w, at, "no text:", "pattern");
    bool free_length = least == 0 && most == SIZE_MAX;
    // A format beside other keywords is passed over, as one that is not known.
    const char *format = json_string_value(json_object_get(schema, "format"));
    if (!found && free_length && format) pattern = schema_format(format);
    if (pattern) {
        const char *why = schema_pattern(pattern, least, most, out);
        if (why) {
            buf what = {0};
            buf_printf(&what, "%s, in pattern", why);
            wrong(w, at, what.failed ? "not supported:" : what.data, pattern);
            buf_free(&what);
        }
    } else if (free_length) {
        buf_str(out, "string");
    } else {
        buf_str(out, "\"\\\"\" char");
        add_counts(out, least, most);
        buf_str(out, " \"\\\"\"");
    }
}

// One bound: the keyword without or with "exclusive" (of draft 4, where that is true or false,
// too).
static const json_t *bound_of(writer *w, const json_t *schema, bool low, const place *at,
                              bool *excluded)
{
    const char *name = low ? "minimum" : "maximum";
    const char *other = low ? "exclusiveMinimum" : "exclusiveMaximum";
    const json_t *closed = json_object_get(schema, name), *open = json_object_get(schema, other);
    bool is_number = schema_is_number(open);
    if (closed && !schema_is_number(closed)) wrong(w, at, "no number:", name);
    if (open && !is_number && !json_is_boolean(open)) wrong(w, at, "no number:", other);
    if (w->status != PM_OK) return NULL;
    *excluded = json_is_true(open);
    if (!is_number) return closed;
    int order = closed ? schema_compare(open, closed) : 0;
    *excluded = order == 0 || (order > 0) == low;
    return *excluded ? open : closed;
}

static void number(writer *w, const json_t *schema, const char *type, const place *at, buf *out)
{
    number_range r = {.whole = !strcmp(type, "integer")};
    r.low = bound_of(w, schema, true, at, &r.above_low);
    r.high = bound_of(w, schema, false, at, &r.below_high);
    if (!r.low && !r.high)
        buf_str(out, type);
    else if (w->status == PM_OK && !schema_numbers(&r, out))
        wrong(w, at, "no number of at most 16 digits is in the range", NULL);
}

static void one_type(writer *w, const json_t *schema, const char *type, const place *at, int depth,
                     buf *out)
{
    static const char *const simple[] = {"boolean", "null"};
    if (!strcmp(type, "object")) {
        object(w, schema, at, depth, out);
        return;
    }
    if (!strcmp(type, "array")) {
        array(w, schema, at, depth, out);
        return;
    }
    if (!strcmp(type, "string")) {
        string(w, schema, at, out);
        return;
    }
    if (!strcmp(type, "number") || !strcmp(type, "integer")) {
        number(w, schema, type, at, out);
        return;
    }
    for (size_t i = 0; i < sizeof simple / sizeof *simple; i++) {
        if (strcmp(type, simple[i]) != 0) continue;
        buf_str(out, type);
        return;
    }
    wrong(w, at, "no such type:", type);
}

static bool has_any(const json_t *schema, const char *const *keys)
{
    for (; *keys; keys++)
        if (json_object_get(schema, *keys)) return true;
    return false;
}

// Without a type, keywords for one type make it that type.
static void types(writer *w, const json_t *schema, const place *at, int depth, buf *out)
{
    static const char *const of_objects[] = {"properties", "additionalProperties", "required",
                                             NULL};
    static const char *const of_arrays[] = {"items", "prefixItems", "minItems", "maxItems", NULL};
    static const char *const of_strings[] = {"minLength", "maxLength", "pattern", NULL};
    static const char *const of_numbers[] = {"minimum", "maximum", "exclusiveMinimum",
                                             "exclusiveMaximum", NULL};
    const json_t *type = json_object_get(schema, "type");
    if (json_is_string(type)) {
        one_type(w, schema, json_string_value(type), at, depth, out);
    } else if (json_is_array(type) && json_array_size(type) > 0) {
        for (size_t i = 0; i < json_array_size(type); i++) {
            const char *name = json_string_value(json_array_get(type, i));
            buf_str(out, i ? " | " : "");
            one_type(w, schema, name ? name : "", at, depth, out);
        }
    } else if (type) {
        wrong(w, at, "no name of a type:", "type");
    } else if (has_any(schema, of_objects)) {
        object(w, schema, at, depth, out);
    } else if (has_any(schema, of_arrays)) {
        array(w, schema, at, depth, out);
    } else if (has_any(schema, of_strings)) {
        string(w, schema, at, out);
    } else if (has_any(schema, of_numbers)) {
        number(w, schema, "number", at, out);
    } else {
        buf_str(out, "value");
    }
}

// ---- schemas ----------------------------------------------------------------------------------

// "#/$defs/name" in the document.
static const json_t *resolve(const json_t *document, const char *ref)
{
    if (*ref++ != '#') return NULL;
    const json_t *at = document;
    while (at && *ref == '/') {
        char name[256];
        size_t n = 0;
        for (ref++; *ref && *ref != '/'; ref++) {
            char c = *ref;
            if (c == '~' && (ref[1] == '0' || ref[1] == '1')) c = *++ref == '0' ? '~' : '/';
            if (n + 1 == sizeof name) return NULL;
            name[n++] = c;
        }
        name[n] = 0;
        if (json_is_array(at)) {
            char *end;
            unsigned long index = strtoul(name, &end, 10);
            at = n && !*end ? json_array_get(at, index) : NULL;
        } else {
            at = json_object_get(at, name);
        }
    }
    return *ref ? NULL : at;
}

static int reference(writer *w, const char *ref, const place *at, int depth)
{
    const json_t *known = json_object_get(w->refs, ref);
    if (known) return (int)json_integer_value(known);
    const json_t *schema = resolve(w->document, ref);
    if (!schema) {
        wrong(w, at, "no such place in the schema:", ref);
        return 0;
    }
    // The rule has its number before it is made, so that it can name itself.
    int rule = new_rule(w);
    json_object_set_new(w->refs, ref, json_integer(rule));
    place there = {NULL, ref + (ref[1] == '/' ? 2 : 1)};
    buf e = {0};
    buf_printf(&e, "s%d", schema_rule(w, schema, &there, depth + 1));
    put_rule(w, rule, &e);
    buf_free(&e);
    return rule;
}

// Keywords that forbid values and are not understood.
static void refuse_unknown(writer *w, const json_t *schema, const place *at)
{
    static const char *const refused[] = {"not",
                                          "if",
                                          "then",
                                          "else",
                                          "patternProperties",
                                          "propertyNames",
                                          "dependentRequired",
                                          "dependencies",
                                          "dependentSchemas",
                                          "contains",
                                          "minContains",
                                          "maxContains",
                                          "multipleOf",
                                          "minProperties",
                                          "maxProperties",
                                          "$dynamicRef",
                                          "$recursiveRef",
                                          "additionalItems",
                                          "unevaluatedItems",
                                          "unevaluatedProperties"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (json_object_get(schema, refused[i])) wrong(w, at, "not supported:", refused[i]);
    }
    if (json_is_true(json_object_get(schema, "uniqueItems"))) {
        wrong(w, at, "not supported:", "uniqueItems");
    }
}

static json_t *without(const json_t *schema, const char *key)
{
    json_t *rest = json_copy((json_t *)(uintptr_t)schema);
    json_object_del(rest, key);
    return rest;
}

// The schema that a reference stands for, with what stands beside it. New.
static json_t *resolved(writer *w, const json_t *schema, const place *at, int depth)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    if (!ref || w->status != PM_OK) return json_copy((json_t *)(uintptr_t)schema);
    const json_t *found = resolve(w->document, ref);
    if (!found) wrong(w, at, "no such place in the schema:", ref);
    if (!json_is_true(found) && !json_is_object(found)) {
        wrong(w, at, "a schema is expected (an object, or true) in", ref);
    }
    if (depth > MAX_DEPTH) wrong(w, at, "is nested too deeply", NULL);
    json_t *rest = without(schema, "$ref"), *there = json_is_true(found) ? json_object() : NULL;
    if (!there && w->status == PM_OK) there = resolved(w, found, at, depth + 1);
    const char *conflict = NULL;
    json_t *all = json_is_object(there) ? schema_merge(rest, there, &conflict) : json_object();
    if (conflict) wrong(w, at, "can't be joined with the same keyword beside $ref:", conflict);
    json_decref(rest);
    json_decref(there);
    return all;
}

// `rest` and one of the schemas beside it. New.
static json_t *joined(writer *w, const json_t *rest, const json_t *other, const char *name,
                      const place *at, int depth)
{
    if (json_is_true(other)) return json_copy((json_t *)(uintptr_t)rest);
    if (!json_is_object(other)) {
        wrong(w, at, "a schema is expected (an object, or true) in", name);
        return json_object();
    }
    if (++w->n_joined > MAX_JOINED) wrong(w, at, "too many schemas to be joined in", name);
    json_t *left = resolved(w, rest, at, depth), *right = resolved(w, other, at, depth);
    const char *conflict = NULL;
    json_t *all = schema_merge(left, right, &conflict);
    if (conflict) {
        buf what = {0};
        buf_printf(&what, "not supported in %s, with another one beside it:", name);
        wrong(w, at, what.failed ? "not supported:" : what.data, conflict);
        buf_free(&what);
    }
    json_decref(left);
    json_decref(right);
    return all;
}

// Nothing has no type, and none of the values.
static bool is_impossible(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type"), *list = json_object_get(schema, "enum");
    return (json_is_array(type) && !json_array_size(type)) ||
           (json_is_array(list) && !json_array_size(list));
}

// Each alternative has to hold with what stands beside them all.
static void any_of(writer *w, const json_t *schema, const char *name, const place *at, int depth,
                   buf *out)
{
    const json_t *list = json_object_get(schema, name);
    place here = {at, name};
    json_t *rest = without(schema, name);
    bool beside = schema_restricts(rest), any = false;
    if (json_array_size(list) == 0) wrong(w, at, "no list of schemas:", name);
    for (size_t i = 0; i < json_array_size(list) && w->status == PM_OK; i++) {
        json_t *one = json_array_get(list, i);
        json_t *both = beside ? joined(w, rest, one, name, at, depth) : json_incref(one);
        if (!beside || !is_impossible(both)) {
            int inner = schema_rule(w, both, &here, depth + 1);
            buf_printf(out, "%ss%d", any ? " | " : "", inner);
            any = true;
        }
        json_decref(both);
    }
    if (!any) wrong(w, at, "no value has all that is asked for, in any part of", name);
    json_decref(rest);
}

static void all_of(writer *w, const json_t *schema, const place *at, int depth, buf *out)
{
    json_t *list = json_object_get(schema, "allOf"), *all = without(schema, "allOf");
    // One alone stays what it is: a reference may be to what is being made.
    if (json_array_size(list) == 1 && !schema_restricts(all)) {
        buf_printf(out, "s%d", schema_rule(w, json_array_get(list, 0), at, depth + 1));
        json_decref(all);
        return;
    }
    if (json_array_size(list) == 0) wrong(w, at, "no list of schemas:", "allOf");
    for (size_t i = 0; i < json_array_size(list) && w->status == PM_OK; i++) {
        json_t *more = joined(w, all, json_array_get(list, i), "allOf", at, depth);
        json_decref(all);
        all = more;
    }
    if (is_impossible(all)) wrong(w, at, "no value has all that is asked for, in", "allOf");
    if (w->status == PM_OK) buf_printf(out, "s%d", schema_rule(w, all, at, depth + 1));
    json_decref(all);
}

static bool has_its_type(const writer *w, const json_t *schema, const json_t *value)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "object",   [JSON_ARRAY] = "array", [JSON_STRING] = "string",
        [JSON_INTEGER] = "integer", [JSON_REAL] = "number", [JSON_TRUE] = "boolean",
        [JSON_FALSE] = "boolean",   [JSON_NULL] = "null"};
    const json_t *type = json_object_get(schema, "type");
    bool whole =
        json_is_integer(value) || (w->large && schema_is_number(value) && !json_is_real(value));
    const char *name = whole ? "integer" : names[json_typeof(value)];
    bool fits = !type;
    for (size_t i = 0; i < (json_is_array(type) ? json_array_size(type) : 1); i++) {
        const char *one = json_string_value(json_is_array(type) ? json_array_get(type, i) : type);
        fits |= one && !strcmp(one, name);
        fits |= one && whole && !strcmp(one, "number");
    }
    return fits;
}

static void values(writer *w, const json_t *schema, const json_t *list, const place *at, buf *out)
{
    bool any = false;
    if (json_array_size(list) == 0) wrong(w, at, "no list of values:", "enum");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        if (!has_its_type(w, schema, value)) continue;
        buf_str(out, any ? " | " : "");
        add_value(w, out, value);
        any = true;
    }
    if (!any) wrong(w, at, "no value of the list has the type:", "enum");
}

// What stands beside given values would have to hold too.
static void refuse_beside(writer *w, const json_t *schema, const char *key, const place *at)
{
    static const char *const keys[] = {
        "const",           "enum",        "properties", "required", "additionalProperties",
        "items",           "prefixItems", "minItems",   "maxItems", "minLength",
        "maxLength",       "pattern",     "minimum",    "maximum",  "exclusiveMinimum",
        "exclusiveMaximum"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!strcmp(keys[i], key) || !json_object_get(schema, keys[i])) continue;
        buf what = {0};
        buf_printf(&what, "not supported beside %s:", key);
        wrong(w, at, what.failed ? "not supported:" : what.data, keys[i]);
        buf_free(&what);
    }
}

static void expression(writer *w, const json_t *schema, const place *at, int depth, buf *out)
{
    const json_t *found;
    if (json_object_get(schema, "allOf")) {
        all_of(w, schema, at, depth, out);
    } else if (json_object_get(schema, "anyOf")) {
        any_of(w, schema, "anyOf", at, depth, out);
    } else if (json_object_get(schema, "oneOf")) {
        any_of(w, schema, "oneOf", at, depth, out);
    } else if ((found = json_object_get(schema, "$ref"))) {
        json_t *rest = without(schema, "$ref");
        if (schema_restricts(rest)) {
            json_t *all = resolved(w, schema, at, depth);
            buf_printf(out, "s%d", schema_rule(w, all, at, depth + 1));
            json_decref(all);
        } else {
            const char *ref = json_string_value(found);
            buf_printf(out, "s%d", reference(w, ref ? ref : "", at, depth));
        }
        json_decref(rest);
    } else if ((found = json_object_get(schema, "const"))) {
        refuse_beside(w, schema, "const", at);
        if (!has_its_type(w, schema, found)) wrong(w, at, "has not its type:", "const");
        add_value(w, out, found);
    } else if ((found = json_object_get(schema, "enum"))) {
        refuse_beside(w, schema, "enum", at);
        values(w, schema, found, at, out);
    } else {
        types(w, schema, at, depth, out);
    }
}

// The number of a rule for this schema.
static int schema_rule(writer *w, const json_t *schema, const place *at, int depth)
{
    if (depth > MAX_DEPTH) wrong(w, at, "is nested too deeply", NULL);
    if (w->status != PM_OK) return 0;
    int rule = new_rule(w);
    buf e = {0};
    if (json_is_true(schema)) {
        buf_str(&e, "value");
    } else if (!json_is_object(schema)) {
        wrong(w, at, "a schema is expected (an object, or true)", NULL);
    } else {
        refuse_unknown(w, schema, at);
        expression(w, schema, at, depth, &e);
    }
    if (w->status == PM_OK) put_rule(w, rule, &e);
    buf_free(&e);
    return rule;
}

static pm_status load(const char *text, size_t n, json_t **schema, bool *large)
{
    json_error_t where;
    buf plain = {0};
    *schema = NULL;
    *large = large_hide(text, n, &plain);
    pm_status status = plain.failed ? error_memory("a schema", n) : PM_OK;
    if (status == PM_OK) {
        *schema = json_loadb(plain.data ? plain.data : "", plain.len, JSON_DECODE_ANY, &where);
        if (!*schema) status = error_set(PM_ERROR_USAGE, "line %d: %s", where.line, where.text);
    }
    buf_free(&plain);
    return status;
}

pm_status schema_grammar(const char *text, size_t n, buf *out)
{
    json_t *schema;
    writer w = {.out = out};
    pm_status status = load(text, n, &schema, &w.large);
    if (status != PM_OK) return status;
    w.document = schema;
    w.refs = json_object();
    if (!w.refs) {
        json_decref(schema);
        return error_memory("a schema", 0);
    }
    place root = {NULL, NULL};
    buf_printf(out, "root ::= s%d\n", 0);
    schema_rule(&w, schema, &root, 0);
    buf_str(out, common_rules);
    json_decref(w.refs);
    json_decref(schema);
    if (w.status == PM_OK && out->failed) return error_memory("a schema", out->len);
    return w.status;
}
