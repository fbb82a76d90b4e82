// Schemas that stand for others or hold together: $ref, anyOf, oneOf, allOf.
#include <stdlib.h>
#include <string.h>

#include "chat/schema_internal.h"

enum { MAX_JOINED = 10000 };

// ---- references ------------------------------------------------------------------------------

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

// The number of the rule for what is there.
static int reference(schema_writer *w, const char *ref, const schema_place *at, int depth)
{
    const json_t *known = json_object_get(w->refs, ref);
    if (known) return (int)json_integer_value(known);
    const json_t *schema = resolve(w->document, ref);
    if (!schema) {
        schema_wrong(w, at, "no such place in the schema:", ref);
        return 0;
    }
    // The rule has its number before it is made, so that it can name itself.
    int rule = w->n_rules++;
    json_object_set_new(w->refs, ref, json_integer(rule));
    schema_place there = {NULL, ref + (ref[1] == '/' ? 2 : 1)};
    buf e = {0};
    buf_printf(&e, "s%d", schema_rule(w, schema, &there, depth + 1));
    schema_put_rule(w, rule, &e);
    buf_free(&e);
    return rule;
}

static json_t *without(const json_t *schema, const char *key)
{
    json_t *rest = json_copy((json_t *)(uintptr_t)schema);
    json_object_del(rest, key);
    return rest;
}

// The schema that a reference stands for, with what stands beside it. New.
static json_t *resolved(schema_writer *w, const json_t *schema, const schema_place *at, int depth)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    if (!ref || w->status != PM_OK) return json_copy((json_t *)(uintptr_t)schema);
    const json_t *found = resolve(w->document, ref);
    if (!found) schema_wrong(w, at, "no such place in the schema:", ref);
    if (!json_is_true(found) && !json_is_object(found)) {
        schema_wrong(w, at, "a schema is expected (an object, or true) in", ref);
    }
    if (depth > SCHEMA_MAX_DEPTH) schema_wrong(w, at, "is nested too deeply", NULL);
    json_t *rest = without(schema, "$ref"), *there = json_is_true(found) ? json_object() : NULL;
    if (!there && w->status == PM_OK) there = resolved(w, found, at, depth + 1);
    const char *conflict = NULL;
    json_t *all = json_is_object(there) ? schema_merge(rest, there, &conflict) : json_object();
    if (conflict)
        schema_wrong(w, at, "can't be joined with the same keyword beside $ref:", conflict);
    json_decref(rest);
    json_decref(there);
    return all;
}

void schema_reference(schema_writer *w, const json_t *schema, const schema_place *at, int depth,
                      buf *out)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    json_t *rest = without(schema, "$ref");
    if (schema_restricts(rest)) {
        json_t *all = resolved(w, schema, at, depth);
        buf_printf(out, "s%d", schema_rule(w, all, at, depth + 1));
        json_decref(all);
    } else {
        buf_printf(out, "s%d", reference(w, ref ? ref : "", at, depth));
    }
    json_decref(rest);
}

// ---- schemas that hold together ---------------------------------------------------------------

// `rest`, which is resolved, and one of the schemas beside it. New.
static json_t *joined(schema_writer *w, const json_t *rest, const json_t *other, const char *name,
                      const schema_place *at, int depth)
{
    if (json_is_true(other)) return json_copy((json_t *)(uintptr_t)rest);
    if (!json_is_object(other)) {
        schema_wrong(w, at, "a schema is expected (an object, or true) in", name);
        return json_object();
    }
    if (++w->n_joined > MAX_JOINED) schema_wrong(w, at, "too many schemas to be joined in", name);
    json_t *right = resolved(w, other, at, depth);
    const char *conflict = NULL;
    json_t *all = schema_merge(rest, right, &conflict);
    if (conflict) {
        buf what = {0};
        buf_printf(&what, "not supported in %s, with another one beside it:", name);
        schema_wrong(w, at, what.failed ? "not supported:" : what.data, conflict);
        buf_free(&what);
    }
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
void schema_any_of(schema_writer *w, const json_t *schema, const char *name, const schema_place *at,
                   int depth, buf *out)
{
    const json_t *list = json_object_get(schema, name);
    schema_place here = {at, name};
    json_t *beside = without(schema, name), *rest = NULL;
    bool any = false;
    if (schema_restricts(beside)) rest = resolved(w, beside, at, depth);
    if (json_array_size(list) == 0) schema_wrong(w, at, "no list of schemas:", name);
    for (size_t i = 0; i < json_array_size(list) && w->status == PM_OK; i++) {
        json_t *one = json_array_get(list, i);
        json_t *both = rest ? joined(w, rest, one, name, at, depth) : json_incref(one);
        if (!rest || !is_impossible(both)) {
            int inner = schema_rule(w, both, &here, depth + 1);
            buf_printf(out, "%ss%d", any ? " | " : "", inner);
            any = true;
        }
        json_decref(both);
    }
    if (!any) schema_wrong(w, at, "no value has all that is asked for, in any part of", name);
    json_decref(beside);
    json_decref(rest);
}

void schema_all_of(schema_writer *w, const json_t *schema, const schema_place *at, int depth,
                   buf *out)
{
    json_t *list = json_object_get(schema, "allOf"), *beside = without(schema, "allOf");
    // One alone stays what it is: a reference may be to what is being made.
    if (json_array_size(list) == 1 && !schema_restricts(beside)) {
        buf_printf(out, "s%d", schema_rule(w, json_array_get(list, 0), at, depth + 1));
        json_decref(beside);
        return;
    }
    json_t *all = resolved(w, beside, at, depth);
    json_decref(beside);
    if (json_array_size(list) == 0) schema_wrong(w, at, "no list of schemas:", "allOf");
    for (size_t i = 0; i < json_array_size(list) && w->status == PM_OK; i++) {
        json_t *more = joined(w, all, json_array_get(list, i), "allOf", at, depth);
        json_decref(all);
        all = more;
    }
    if (is_impossible(all)) schema_wrong(w, at, "no value has all that is asked for, in", "allOf");
    if (w->status == PM_OK) buf_printf(out, "s%d", schema_rule(w, all, at, depth + 1));
    json_decref(all);
}
