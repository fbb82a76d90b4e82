#include "chat/schema.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/large.h"
#include "chat/schema_internal.h"

enum { MAX_BYTES = 1 << 23, MAX_COUNT = 100000, MAX_TYPES = 7 };

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

static void show_place(const schema_place *at, buf *out)
{
    if (!at) return;
    show_place(at->up, out);
    if (at->name) buf_printf(out, "/%.60s", at->name);
}

void schema_wrong(schema_writer *w, const schema_place *at, const char *what, const char *word)
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

void schema_add_value(schema_writer *w, buf *out, const json_t *value)
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

void schema_put_rule(schema_writer *w, int rule, const buf *expression)
{
    if (w->status != PM_OK) return;
    if (expression->failed || w->out->failed) {
        w->status = error_memory("a schema", w->out->len);
        return;
    }
    buf_printf(w->out, "s%d ::= %s\n", rule, expression->data ? expression->data : "\"\"");
    if (w->out->len > MAX_BYTES) w->status = error_set(PM_ERROR_USAGE, "the schema is too large");
}

// A whole number of the schema, or `otherwise`.
static size_t count_of(schema_writer *w, const json_t *schema, const char *key,
                       const schema_place *at, size_t otherwise)
{
    const json_t *value = json_object_get(schema, key);
    if (!value) return otherwise;
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 0 || n > MAX_COUNT) {
        schema_wrong(w, at, "no whole number from 0 to 100000:", key);
        return otherwise;
    }
    return (size_t)n;
}

// ---- arrays, strings, the rest ----------------------------------------------------------------

static void array(schema_writer *w, const json_t *schema, const schema_place *at, int depth,
                  buf *out)
{
    const json_t *prefix = json_object_get(schema, "prefixItems");
    const json_t *items = json_object_get(schema, "items");
    size_t n = json_array_size(prefix), least = count_of(w, schema, "minItems", at, 0);
    size_t most = count_of(w, schema, "maxItems", at, SIZE_MAX);
    if (prefix && n == 0) schema_wrong(w, at, "no list of schemas:", "prefixItems");
    if (least > most) schema_wrong(w, at, "maxItems is below minItems", NULL);
    if (n > 0 && (least > n || most < n)) {
        schema_wrong(w, at, "minItems or maxItems with other numbers than prefixItems", NULL);
    }
    buf_str(out, "\"[\" ws ");
    for (size_t i = 0; i < n; i++) {
        schema_place here = {at, "prefixItems"};
        int item = schema_rule(w, json_array_get(prefix, i), &here, depth + 1);
        buf_printf(out, "%ss%d ", i ? "\",\" ws " : "", item);
    }
    schema_place here = {at, "items"};
    bool more = n == 0 || (items && !json_is_false(items));
    if (more && !json_is_false(items) && most > n) {
        char name[32] = "value";
        if (items) snprintf(name, sizeof name, "s%d", schema_rule(w, items, &here, depth + 1));
        if (n > 0) {
            buf_printf(out, "( \",\" ws %s )", name);
            schema_add_counts(out, 0, most == SIZE_MAX ? most : most - n);
        } else {
            buf_printf(out, "( %s ( \",\" ws %s )", name, name);
            schema_add_counts(out, least > 0 ? least - 1 : 0, most == SIZE_MAX ? most : most - 1);
            buf_str(out, least > 0 ? " )" : " )?");
        }
    } else if (n == 0 && least > 0) {
        schema_wrong(w, at, "minItems of a list that must be empty", NULL);
    }
    buf_str(out, " ws \"]\"");
}

static void string(schema_writer *w, const json_t *schema, const schema_place *at, buf *out)
{
    size_t least = count_of(w, schema, "minLength", at, 0);
    size_t most = count_of(w, schema, "maxLength", at, SIZE_MAX);
    const json_t *found = json_object_get(schema, "pattern");
    const char *pattern = json_string_value(found);
    if (least > most) schema_wrong(w, at, "maxLength is below minLength", NULL);
    if (found && !pattern) schema_wrong(w, at, "no text:", "pattern");
    bool free_length = least == 0 && most == SIZE_MAX;
    // A format beside other keywords is passed over, as one that is not known.
    const char *format = json_string_value(json_object_get(schema, "format"));
    if (!found && free_length && format) pattern = schema_format(format);
    if (pattern) {
        const char *why = schema_pattern(pattern, least, most, out);
        if (why) {
            buf what = {0};
            buf_printf(&what, "%s, in pattern", why);
            schema_wrong(w, at, what.failed ? "not supported:" : what.data, pattern);
            buf_free(&what);
        }
    } else if (free_length) {
        buf_str(out, "string");
    } else {
        buf_str(out, "\"\\\"\" char");
        schema_add_counts(out, least, most);
        buf_str(out, " \"\\\"\"");
    }
}

// One bound: the keyword without or with "exclusive" (of draft 4, where that is true or false,
// too).
static const json_t *bound_of(schema_writer *w, const json_t *schema, bool low,
                              const schema_place *at, bool *excluded)
{
    const char *name = low ? "minimum" : "maximum";
    const char *other = low ? "exclusiveMinimum" : "exclusiveMaximum";
    const json_t *closed = json_object_get(schema, name), *open = json_object_get(schema, other);
    bool is_number = schema_is_number(open);
    if (closed && !schema_is_number(closed)) schema_wrong(w, at, "no number:", name);
    if (open && !is_number && !json_is_boolean(open)) schema_wrong(w, at, "no number:", other);
    if (w->status != PM_OK) return NULL;
    *excluded = json_is_true(open);
    if (!is_number) return closed;
    int order = closed ? schema_compare(open, closed) : 0;
    *excluded = order == 0 || (order > 0) == low;
    return *excluded ? open : closed;
}

static void number(schema_writer *w, const json_t *schema, const char *type, const schema_place *at,
                   buf *out)
{
    number_range r = {.whole = !strcmp(type, "integer")};
    r.low = bound_of(w, schema, true, at, &r.above_low);
    r.high = bound_of(w, schema, false, at, &r.below_high);
    if (!r.low && !r.high)
        buf_str(out, type);
    else if (w->status == PM_OK && !schema_numbers(&r, out))
        schema_wrong(w, at, "no number of at most 16 digits is in the range", NULL);
}

static void one_type(schema_writer *w, const json_t *schema, const char *type,
                     const schema_place *at, int depth, buf *out)
{
    if (!strcmp(type, "object"))
        schema_object(w, schema, at, depth, out);
    else if (!strcmp(type, "array"))
        array(w, schema, at, depth, out);
    else if (!strcmp(type, "string"))
        string(w, schema, at, out);
    else if (!strcmp(type, "number") || !strcmp(type, "integer"))
        number(w, schema, type, at, out);
    else if (!strcmp(type, "boolean") || !strcmp(type, "null"))
        buf_str(out, type);
    else
        schema_wrong(w, at, "no such type:", type);
}

// Without a type, keywords for one type make it that type.
static const char *type_by_keywords(const json_t *schema)
{
    static const char *const names[] = {[SCHEMA_OBJECT] = "object",
                                        [SCHEMA_ARRAY] = "array",
                                        [SCHEMA_STRING] = "string",
                                        [SCHEMA_NUMBER] = "number"};
    schema_kind first = SCHEMA_VALUES;
    const char *key;
    json_t *unused;
    json_object_foreach((json_t *)(uintptr_t)schema, key, unused)
    {
        schema_kind kind = schema_keyword(key);
        if (kind >= SCHEMA_OBJECT && kind < first) first = kind;
    }
    return first < SCHEMA_VALUES ? names[first] : NULL;
}

static void types(schema_writer *w, const json_t *schema, const schema_place *at, int depth,
                  buf *out)
{
    const json_t *type = json_object_get(schema, "type");
    const char *name = type ? json_string_value(type) : type_by_keywords(schema);
    if (name) {
        one_type(w, schema, name, at, depth, out);
    } else if (json_array_size(type) > 0) {
        for (size_t i = 0; i < json_array_size(type); i++) {
            name = json_string_value(json_array_get(type, i));
            buf_str(out, i ? " | " : "");
            one_type(w, schema, name ? name : "", at, depth, out);
        }
    } else if (type) {
        schema_wrong(w, at, "no name of a type:", "type");
    } else {
        buf_str(out, "value");
    }
}

// ---- schemas ----------------------------------------------------------------------------------

static void check_keywords(schema_writer *w, const json_t *schema, const schema_place *at)
{
    const char *key;
    json_t *unused;
    json_object_foreach((json_t *)(uintptr_t)schema, key, unused)
    {
        if (schema_keyword(key) == SCHEMA_REFUSED) schema_wrong(w, at, "not supported:", key);
    }
    if (json_is_true(json_object_get(schema, "uniqueItems")))
        schema_wrong(w, at, "not supported:", "uniqueItems");
    if (json_array_size(json_object_get(schema, "type")) > MAX_TYPES)
        schema_wrong(w, at, "more types than there are:", "type");
}

static bool has_its_type(const schema_writer *w, const json_t *schema, const json_t *value)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "object",   [JSON_ARRAY] = "array", [JSON_STRING] = "string",
        [JSON_INTEGER] = "integer", [JSON_REAL] = "number", [JSON_TRUE] = "boolean",
        [JSON_FALSE] = "boolean",   [JSON_NULL] = "null"};
    const json_t *type = json_object_get(schema, "type");
    bool whole =
        json_is_integer(value) || (w->large && schema_is_number(value) && !json_is_real(value));
    return !type || schema_has_type(type, whole ? "integer" : names[json_typeof(value)]);
}

static void values(schema_writer *w, const json_t *schema, const json_t *list,
                   const schema_place *at, buf *out)
{
    bool any = false;
    if (json_array_size(list) == 0) schema_wrong(w, at, "no list of values:", "enum");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        if (!has_its_type(w, schema, value)) continue;
        buf_str(out, any ? " | " : "");
        schema_add_value(w, out, value);
        any = true;
    }
    if (!any) schema_wrong(w, at, "no value of the list has the type:", "enum");
}

// What stands beside given values would have to hold too.
static void refuse_beside(schema_writer *w, const json_t *schema, const char *given,
                          const schema_place *at)
{
    const char *key;
    json_t *unused;
    json_object_foreach((json_t *)(uintptr_t)schema, key, unused)
    {
        schema_kind kind = schema_keyword(key);
        if (kind < SCHEMA_OBJECT || kind > SCHEMA_VALUES || !strcmp(key, given)) continue;
        buf what = {0};
        buf_printf(&what, "not supported beside %s:", given);
        schema_wrong(w, at, what.failed ? "not supported:" : what.data, key);
        buf_free(&what);
    }
}

static void expression(schema_writer *w, const json_t *schema, const schema_place *at, int depth,
                       buf *out)
{
    const json_t *found;
    if (json_object_get(schema, "allOf")) {
        schema_all_of(w, schema, at, depth, out);
    } else if (json_object_get(schema, "anyOf")) {
        schema_any_of(w, schema, "anyOf", at, depth, out);
    } else if (json_object_get(schema, "oneOf")) {
        schema_any_of(w, schema, "oneOf", at, depth, out);
    } else if (json_object_get(schema, "$ref")) {
        schema_reference(w, schema, at, depth, out);
    } else if ((found = json_object_get(schema, "const"))) {
        refuse_beside(w, schema, "const", at);
        if (!has_its_type(w, schema, found)) schema_wrong(w, at, "has not its type:", "const");
        schema_add_value(w, out, found);
    } else if ((found = json_object_get(schema, "enum"))) {
        refuse_beside(w, schema, "enum", at);
        values(w, schema, found, at, out);
    } else {
        types(w, schema, at, depth, out);
    }
}

int schema_rule(schema_writer *w, const json_t *schema, const schema_place *at, int depth)
{
    if (depth > SCHEMA_MAX_DEPTH) schema_wrong(w, at, "is nested too deeply", NULL);
    if (w->status != PM_OK) return 0;
    int rule = w->n_rules++;
    buf e = {0};
    if (json_is_true(schema)) {
        buf_str(&e, "value");
    } else if (!json_is_object(schema)) {
        schema_wrong(w, at, "a schema is expected (an object, or true)", NULL);
    } else {
        check_keywords(w, schema, at);
        if (w->status == PM_OK) expression(w, schema, at, depth, &e);
    }
    if (w->status == PM_OK) schema_put_rule(w, rule, &e);
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
    schema_writer w = {.out = out};
    pm_status status = load(text, n, &schema, &w.large);
    if (status != PM_OK) return status;
    w.document = schema;
    w.refs = json_object();
    if (!w.refs) {
        json_decref(schema);
        return error_memory("a schema", 0);
    }
    schema_place root = {NULL, NULL};
    buf_printf(out, "root ::= s%d\n", 0);
    schema_rule(&w, schema, &root, 0);
    buf_str(out, common_rules);
    json_decref(w.refs);
    json_decref(schema);
    if (w.status == PM_OK && out->failed) return error_memory("a schema", out->len);
    return w.status;
}
