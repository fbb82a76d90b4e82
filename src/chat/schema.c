#include "chat/schema.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "text/text.h"

enum { MAX_DEPTH = 128, MAX_BYTES = 1 << 23, MAX_COUNT = 100000 };

typedef struct writer {
    const json_t *document;
    buf *out;
    json_t *refs; // $ref -> number of its rule
    int n_rules;
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

// A value as it has to be written.
static void add_value(writer *w, buf *out, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    if (text) {
        add_literal(out, text);
    } else if (w->status == PM_OK) {
        w->status = error_memory("a schema", 0);
    }
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
    if (least > most) wrong(w, at, "maxLength is below minLength", NULL);
    if (least == 0 && most == SIZE_MAX) {
        buf_str(out, "string");
        return;
    }
    buf_str(out, "\"\\\"\" char");
    add_counts(out, least, most);
    buf_str(out, " \"\\\"\"");
}

static void one_type(writer *w, const json_t *schema, const char *type, const place *at, int depth,
                     buf *out)
{
    static const char *const simple[] = {"number", "integer", "boolean", "null"};
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
    for (size_t i = 0; i < sizeof simple / sizeof *simple; i++) {
        if (strcmp(type, simple[i]) != 0) continue;
        buf_str(out, type);
        return;
    }
    wrong(w, at, "no such type:", type);
}

static void types(writer *w, const json_t *schema, const place *at, int depth, buf *out)
{
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
    } else if (json_object_get(schema, "properties") ||
               json_object_get(schema, "additionalProperties")) {
        object(w, schema, at, depth, out);
    } else if (json_object_get(schema, "items") || json_object_get(schema, "prefixItems")) {
        array(w, schema, at, depth, out);
    } else if (json_object_get(schema, "minLength") || json_object_get(schema, "maxLength")) {
        string(w, schema, at, out);
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
                                          "pattern",
                                          "patternProperties",
                                          "propertyNames",
                                          "dependentRequired",
                                          "dependencies",
                                          "dependentSchemas",
                                          "contains",
                                          "minContains",
                                          "maxContains",
                                          "multipleOf",
                                          "minimum",
                                          "maximum",
                                          "minProperties",
                                          "maxProperties",
                                          "$dynamicRef",
                                          "$recursiveRef",
                                          "additionalItems",
                                          "exclusiveMinimum",
                                          "unevaluatedItems",
                                          "exclusiveMaximum",
                                          "unevaluatedProperties"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (json_object_get(schema, refused[i])) wrong(w, at, "not supported:", refused[i]);
    }
    if (json_is_true(json_object_get(schema, "uniqueItems"))) {
        wrong(w, at, "not supported:", "uniqueItems");
    }
}

static void any_of(writer *w, const json_t *list, const char *name, const place *at, int depth,
                   buf *out)
{
    place here = {at, name};
    if (json_array_size(list) == 0) wrong(w, at, "no list of schemas:", name);
    for (size_t i = 0; i < json_array_size(list); i++) {
        int inner = schema_rule(w, json_array_get(list, i), &here, depth + 1);
        buf_printf(out, "%ss%d", i ? " | " : "", inner);
    }
}

// What stands beside a reference or a choice would have to hold too.
static void refuse_beside(writer *w, const json_t *schema, const char *key, const place *at)
{
    static const char *const keys[] = {"$ref",       "const",       "enum",
                                       "anyOf",      "oneOf",       "allOf",
                                       "properties", "required",    "additionalProperties",
                                       "items",      "prefixItems", "minItems",
                                       "maxItems",   "minLength",   "maxLength"};
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
    static const char *const alone[] = {"$ref", "anyOf", "oneOf", "allOf"};
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
        if (json_object_get(schema, alone[i])) refuse_beside(w, schema, alone[i], at);
    }
    const json_t *found = json_object_get(schema, "$ref");
    if (found) {
        const char *ref = json_string_value(found);
        buf_printf(out, "s%d", reference(w, ref ? ref : "", at, depth));
    } else if ((found = json_object_get(schema, "const"))) {
        add_value(w, out, found);
    } else if ((found = json_object_get(schema, "enum"))) {
        if (json_array_size(found) == 0) wrong(w, at, "no list of values:", "enum");
        for (size_t i = 0; i < json_array_size(found); i++) {
            buf_str(out, i ? " | " : "");
            add_value(w, out, json_array_get(found, i));
        }
    } else if ((found = json_object_get(schema, "anyOf"))) {
        any_of(w, found, "anyOf", at, depth, out);
    } else if ((found = json_object_get(schema, "oneOf"))) {
        any_of(w, found, "oneOf", at, depth, out);
    } else if ((found = json_object_get(schema, "allOf"))) {
        if (json_array_size(found) != 1) wrong(w, at, "not supported with several:", "allOf");
        any_of(w, found, "allOf", at, depth, out);
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

pm_status schema_grammar(const json_t *schema, buf *out)
{
    writer w = {.document = schema, .out = out, .refs = json_object()};
    if (!w.refs) return error_memory("a schema", 0);
    place root = {NULL, NULL};
    buf_printf(out, "root ::= s%d\n", 0);
    schema_rule(&w, schema, &root, 0);
    buf_str(out, common_rules);
    json_decref(w.refs);
    if (w.status == PM_OK && out->failed) return error_memory("a schema", out->len);
    return w.status;
}
