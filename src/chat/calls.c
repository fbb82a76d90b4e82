// Calls of tools as the models write them: JSON in several wrappings, and Python.
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/large.h"
#include "chat/answer.h"
#include "chat/python.h"
#include "chat/template.h"

// ---- the tools that there are -----------------------------------------------------------------

static const json_t *tool_named(const json_t *tools, const char *name)
{
    for (size_t i = 0; name && i < json_array_size(tools); i++) {
        const json_t *f = json_object_get(json_array_get(tools, i), "function");
        const char *known = json_string_value(json_object_get(f, "name"));
        if (known && !strcmp(known, name)) return f;
    }
    return NULL;
}

pm_status tools_check(const json_t *list, json_t **out)
{
    if (!json_is_array(list)) return error_set(PM_ERROR_USAGE, "tools: a JSON list is expected");
    json_t *tools = json_array();
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *tool = json_array_get(list, i), *function = json_object_get(tool, "function");
        bool bare = !function && json_is_object(tool);
        const json_t *name = json_object_get(bare ? tool : function, "name");
        if (!json_is_string(name) || !*json_string_value(name)) {
            json_decref(tools);
            return error_set(PM_ERROR_USAGE,
                             "tools: number %zu has no name (a function {\"name\", "
                             "\"description\", \"parameters\"} is expected)",
                             i + 1);
        }
        if (tool_named(tools, json_string_value(name))) {
            json_decref(tools);
            return error_set(PM_ERROR_USAGE, "tools: number %zu has the name of another one",
                             i + 1);
        }
        json_array_append_new(tools,
                              bare ? json_pack("{s:s, s:O}", "type", "function", "function", tool)
                                   : json_incref(tool));
    }
    if (json_array_size(tools) != json_array_size(list)) {
        json_decref(tools);
        return error_memory("tools", 0);
    }
    *out = tools;
    return PM_OK;
}

// ---- one call ---------------------------------------------------------------------------------

// Ids of nine letters and digits: what the strictest templates (Mistral's) ask for.
static json_t *id_of(const json_t *given, size_t index)
{
    const char *own = json_string_value(given);
    if (own && strlen(own) == 9) return json_string(own);
    char id[32];
    snprintf(id, sizeof id, "call%05zu", index % 100000);
    return json_string(id);
}

// Takes the reference to `arguments`; false where it is no call of a tool.
static bool add_call(json_t *calls, size_t first, const json_t *tools, const char *name,
                     json_t *arguments, const json_t *id)
{
    if (!tool_named(tools, name) || !json_is_object(arguments)) {
        json_decref(arguments);
        return false;
    }
    json_t *call =
        json_pack("{s:o, s:s, s:{s:s, s:o}}", "id", id_of(id, first + json_array_size(calls)),
                  "type", "function", "function", "name", name, "arguments", arguments);
    return call && json_array_append_new(calls, call) == 0;
}

// {"name", "arguments" or "parameters"}, maybe within "function"; arguments may be JSON in a
// string.
static bool add_object(json_t *calls, size_t first, const json_t *tools, const json_t *object)
{
    const json_t *inner = json_object_get(object, "function");
    if (!json_is_object(inner)) inner = object;
    const char *name = json_string_value(json_object_get(inner, "name"));
    json_t *found = json_object_get(inner, "arguments");
    if (!found) found = json_object_get(inner, "parameters");
    json_t *arguments = NULL;
    if (json_is_string(found)) {
        arguments = tmpl_load_rounded(json_string_value(found), json_string_length(found));
    } else {
        arguments = found && !json_is_null(found) ? json_incref(found) : json_object();
    }
    return add_call(calls, first, tools, name, arguments, json_object_get(object, "id"));
}

// Objects and lists of them, one after the other; blanks, commas and semicolons may stand between.
static bool add_values(json_t *calls, size_t first, const json_t *tools, const char *text, size_t n)
{
    static const char between[] = " \t\r\n,;";
    bool any = false;
    for (size_t at = 0;;) {
        while (at < n && strchr(between, text[at]) && text[at]) at++;
        if (at == n) return any;
        json_error_t where;
        json_t *value = json_loadb(text + at, n - at, JSON_DISABLE_EOF_CHECK, &where);
        if (!value || where.position <= 0) return false;
        at += (size_t)where.position;
        bool good = true;
        if (json_is_array(value)) {
            good = json_array_size(value) > 0;
            for (size_t i = 0; good && i < json_array_size(value); i++) {
                good = add_object(calls, first, tools, json_array_get(value, i));
            }
        } else {
            good = add_object(calls, first, tools, value);
        }
        json_decref(value);
        if (!good) return false;
        any = true;
    }
}

static bool add_json(json_t *calls, size_t first, const json_t *tools, const char *text, size_t n)
{
    buf rounded = {0};
    large_round(text, n, &rounded);
    bool good = !rounded.failed && add_values(calls, first, tools, rounded.data, rounded.len);
    buf_free(&rounded);
    return good;
}

// ---- Mistral ----------------------------------------------------------------------------------

static size_t find(const char *text, size_t n, const char *word)
{
    const char *at = n ? memmem(text, n, word, strlen(word)) : NULL;
    return at ? (size_t)(at - text) : n;
}

// NAME{...}, NAME[ARGS]{...} or NAME[CALL_ID]ID[ARGS]{...}.
static bool add_named(json_t *calls, size_t first, const json_t *tools, const char *text, size_t n)
{
    size_t brace = find(text, n, "{"), name_end = find(text, n, "[");
    if (brace == n) return false;
    if (name_end > brace) name_end = brace;
    while (name_end > 0 && strchr(" \t\r\n", text[name_end - 1])) name_end--;
    size_t start = 0;
    while (start < name_end && strchr(" \t\r\n", text[start])) start++;
    char *name = strndup(text + start, name_end - start);
    json_t *arguments = tmpl_load_rounded(text + brace, n - brace), *id = NULL;
    static const char mark[] = "[CALL_ID]";
    size_t at = find(text, brace, mark);
    if (at < brace) {
        at += sizeof mark - 1;
        id = json_stringn(text + at, find(text + at, brace - at, "["));
    }
    bool good = name && add_call(calls, first, tools, name, arguments, id);
    if (!name) json_decref(arguments);
    json_decref(id);
    free(name);
    return good;
}

static bool add_list(json_t *calls, size_t first, const json_t *tools, const char *text, size_t n)
{
    static const char mark[] = "[TOOL_CALLS]";
    for (;;) {
        size_t length = find(text, n, mark), white = 0;
        while (white < length && strchr(" \t\r\n", text[white])) white++;
        bool json = white < length && (text[white] == '[' || text[white] == '{');
        bool good = json ? add_json(calls, first, tools, text, length)
                         : add_named(calls, first, tools, text, length);
        if (!good) return false;
        if (length == n) return true;
        text += length + sizeof mark - 1;
        n -= length + sizeof mark - 1;
    }
}

// ---- Python -----------------------------------------------------------------------------------

// Arguments without a name go to the tool's parameters in their order.
static json_t *name_arguments(const json_t *tool, json_t *positional, json_t *named)
{
    const json_t *properties = json_object_get(json_object_get(tool, "parameters"), "properties");
    json_t *all = json_object();
    void *at = json_object_iter((json_t *)properties);
    bool good = all != NULL;
    for (size_t i = 0; good && i < json_array_size(positional); i++) {
        good = at &&
               json_object_set(all, json_object_iter_key(at), json_array_get(positional, i)) == 0;
        if (good) at = json_object_iter_next((json_t *)properties, at);
    }
    const char *key;
    json_t *value;
    json_object_foreach(named, key, value)
    {
        good = good && !json_object_get(all, key) && json_object_set(all, key, value) == 0;
    }
    if (good) return all;
    json_decref(all);
    return NULL;
}

static bool add_python(json_t *calls, size_t first, const json_t *tools, const char *text, size_t n)
{
    python_reader r;
    python_start(&r, text, n);
    bool any = false;
    for (;;) {
        python_call call = {0};
        switch (python_next(&r, &call)) {
        case PYTHON_END: return any;
        case PYTHON_NO_CALL: return false;
        case PYTHON_CALL: break;
        }
        const json_t *tool = tool_named(tools, call.name);
        json_t *arguments = tool ? name_arguments(tool, call.positional, call.named) : NULL;
        bool good = arguments && add_call(calls, first, tools, call.name, arguments, NULL);
        python_call_free(&call);
        if (!good) return false;
        any = true;
    }
}

// ---- all forms --------------------------------------------------------------------------------

bool calls_read(call_form form, const char *text, size_t n, const json_t *tools, size_t first,
                json_t *calls)
{
    json_t *found = json_array();
    bool good = false;
    switch (form) {
    case CALL_TAGGED:
    case CALL_BARE: good = add_json(found, first, tools, text, n); break;
    case CALL_PYTHON: good = add_python(found, first, tools, text, n); break;
    case CALL_LIST: good = add_list(found, first, tools, text, n); break;
    case CALL_LLAMA:
        good = add_json(found, first, tools, text, n);
        if (!good) {
            json_array_clear(found);
            good = add_python(found, first, tools, text, n);
        }
        break;
    }
    good = good && json_array_size(found) > 0 && json_array_extend(calls, found) == 0;
    json_decref(found);
    return good;
}
