#include "chat/conversation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/os.h"
#include "chat/template.h"

enum { NAME_BYTES = 256, MAX_TEMPLATE_BYTES = 1 << 24 };

struct conversation {
    const text_vocab *vocab;
    tmpl *template;
    char template_name[NAME_BYTES];
    conversation_think think;
    double now;
    json_t *messages;                             // a list of objects
    json_t *tools;                                // a list; NULL: none
    bool python;                                  // tools as functions of Python
    bool knows_tools, knows_python, writes_calls; // what the template's text mentions
};

// ---- the template -----------------------------------------------------------------------------

static bool mentions(const char *source, size_t n, const char *word)
{
    return memmem(source, n, word, strlen(word)) != NULL;
}

static pm_status parse_source(conversation *c, const char *source, size_t n)
{
    c->knows_tools = mentions(source, n, "tools");
    c->knows_python = mentions(source, n, "python_tools");
    c->writes_calls = mentions(source, n, "tool_calls");
    return tmpl_parse(source, n, &c->template);
}

static pm_status parse_replacement(conversation *c, const char *name)
{
    size_t n;
    const char *source = conversation_builtin(name, &n);
    snprintf(c->template_name, sizeof c->template_name, "%s", name);
    if (source) return parse_source(c, source, n);
    char *text = NULL;
    pm_status status = os_read_whole(name, MAX_TEMPLATE_BYTES, &text, &n);
    if (status != PM_OK) {
        buf names = {0};
        for (size_t i = 0; conversation_builtin_name(i); i++) {
            buf_printf(&names, "%s%s", i ? ", " : "", conversation_builtin_name(i));
        }
        status = error_set(status, "template '%s': no such file, and no built-in template (%s)",
                           name, names.data ? names.data : "");
        buf_free(&names);
        return status;
    }
    status = error_in(parse_source(c, text, n), "%s", name);
    free(text);
    return status;
}

static pm_status parse_template(conversation *c, const conversation_params *params)
{
    if (params->replacement) return parse_replacement(c, params->replacement);
    if (params->own_template.data) {
        snprintf(c->template_name, sizeof c->template_name, "the model's");
        return error_in(parse_source(c, params->own_template.data, params->own_template.len),
                        "the model's chat template");
    }
    const char *start = "<|im_start|>";
    bool chatml = text_find(c->vocab, start, strlen(start)) != TEXT_NO_TOKEN;
    const char *name = chatml ? "chatml" : "plain";
    size_t n = 0;
    const char *source = conversation_builtin(name, &n);
    snprintf(c->template_name, sizeof c->template_name, "%s (the file has none)", name);
    return parse_source(c, source, n);
}

pm_status conversation_open(const text_vocab *vocab, const conversation_params *params,
                            conversation **out)
{
    conversation *c = calloc(1, sizeof *c);
    if (!c) return error_memory("a conversation", sizeof *c);
    c->vocab = vocab;
    c->think = params->think;
    c->now = params->now;
    c->messages = json_array();
    pm_status status =
        c->messages ? parse_template(c, params) : error_memory("a conversation", sizeof *c);
    if (status == PM_OK) {
        *out = c;
    } else {
        conversation_close(c);
    }
    return status;
}

void conversation_close(conversation *c)
{
    if (!c) return;
    tmpl_free(c->template);
    json_decref(c->messages);
    json_decref(c->tools);
    free(c);
}

const char *conversation_template_name(const conversation *c)
{
    return c->template_name;
}

void conversation_set_think(conversation *c, conversation_think think)
{
    c->think = think;
}

// ---- messages ---------------------------------------------------------------------------------

static bool has_role(const json_t *message, const char *role)
{
    const char *text = json_string_value(json_object_get(message, "role"));
    return text && !strcmp(text, role);
}

static json_t *string_of(const char *bytes, size_t n)
{
    if (text_utf8_valid(bytes, n)) return json_stringn_nocheck(bytes, n);
    buf valid = {0};
    for (size_t i = 0, len; i < n; i += len) {
        char character[4];
        buf_add(&valid, character,
                text_utf8_put(text_utf8_next(bytes + i, n - i, &len), character));
    }
    json_t *text = valid.failed ? NULL : json_stringn_nocheck(valid.data, valid.len);
    buf_free(&valid);
    return text;
}

pm_status conversation_add(conversation *c, const char *role, const char *content, size_t n)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    bool known = false;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) known |= !strcmp(role, roles[i]);
    if (!known) {
        return error_set(PM_ERROR_USAGE,
                         "no role '%.40s' (system, user, assistant and tool are allowed)", role);
    }
    json_t *message = json_object();
    bool good = message && json_object_set_new(message, "role", json_string(role)) == 0 &&
                json_object_set_new(message, "content", string_of(content, n)) == 0;
    if (good && !strcmp(role, "system")) {
        good = has_role(json_array_get(c->messages, 0), "system")
                   ? json_array_set(c->messages, 0, message) == 0
                   : json_array_insert(c->messages, 0, message) == 0;
    } else if (good) {
        good = json_array_append(c->messages, message) == 0;
    }
    json_decref(message);
    return good ? PM_OK : error_memory("a message", n);
}

pm_status conversation_set(conversation *c, const char *json)
{
    json_error_t where;
    json_t *messages = json_loads(json, JSON_ALLOW_NUL, &where);
    if (!messages) {
        return error_set(PM_ERROR_USAGE, "messages: line %d: %s", where.line, where.text);
    }
    pm_status status = PM_OK;
    if (!json_is_array(messages)) {
        status = error_set(PM_ERROR_USAGE, "messages: a list is expected");
    }
    for (size_t i = 0; status == PM_OK && i < json_array_size(messages); i++) {
        if (!json_is_string(json_object_get(json_array_get(messages, i), "role"))) {
            status = error_set(PM_ERROR_USAGE, "messages: number %zu has no role", i + 1);
        }
    }
    if (status == PM_OK) {
        conversation_replace(c, messages);
    } else {
        json_decref(messages);
    }
    return status;
}

pm_status conversation_add_message(conversation *c, const json_t *message)
{
    if (!json_is_string(json_object_get(message, "role"))) {
        return error_set(PM_ERROR_USAGE, "a message has no role");
    }
    json_t *copy = json_deep_copy(message);
    if (copy && json_array_append_new(c->messages, copy) == 0) return PM_OK;
    return error_memory("a message", 0);
}

const json_t *conversation_messages(const conversation *c)
{
    return c->messages;
}

size_t conversation_n_messages(const conversation *c)
{
    return json_array_size(c->messages);
}

void conversation_truncate(conversation *c, size_t n_messages)
{
    for (size_t i = json_array_size(c->messages); i > n_messages; i--) {
        json_array_remove(c->messages, i - 1);
    }
}

void conversation_replace(conversation *c, json_t *messages)
{
    json_decref(c->messages);
    c->messages = messages;
}

size_t conversation_n_turns(const conversation *c)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(c->messages); i++)
        n += has_role(json_array_get(c->messages, i), "user");
    return n > 0 ? n : 1;
}

bool conversation_without(const conversation *c, size_t n_turns, json_t **messages,
                          size_t *n_dropped)
{
    size_t n = json_array_size(c->messages);
    size_t first = has_role(json_array_get(c->messages, 0), "system") ? 1 : 0;
    // What stands before the first user's message belongs to the first turn.
    size_t end = first, turns = 0;
    for (size_t i = first; i < n && n_turns > 0; i++) {
        if (!has_role(json_array_get(c->messages, i), "user")) continue;
        if (turns++ < n_turns) continue;
        end = i;
        break;
    }
    if (n_turns > 0 && end == first) return false;
    json_t *kept = json_array();
    for (size_t i = 0; i < n; i++) {
        if (i < first || i >= end) json_array_append(kept, json_array_get(c->messages, i));
    }
    if (json_array_size(kept) != n - (end - first)) { // out of memory
        json_decref(kept);
        return false;
    }
    *messages = kept;
    *n_dropped = end - first;
    return true;
}

// ---- tools ------------------------------------------------------------------------------------

pm_status conversation_set_tools(conversation *c, const json_t *tools, bool python)
{
    if (json_array_size(tools) && (python ? !c->knows_python : !c->knows_tools)) {
        return error_set(PM_ERROR_USAGE, "the chat template (%s) offers no tools%s",
                         c->template_name, python ? " in Python" : "");
    }
    json_decref(c->tools);
    c->tools = json_array_size(tools) ? json_deep_copy(tools) : NULL;
    c->python = python;
    return json_array_size(tools) && !c->tools ? error_memory("tools", 0) : PM_OK;
}

const json_t *conversation_tools(const conversation *c)
{
    return c->tools;
}

bool conversation_writes_calls(const conversation *c)
{
    return c->writes_calls;
}

static const json_t *calls_of(const conversation *c, size_t message)
{
    return json_object_get(json_array_get(c->messages, message), "tool_calls");
}

size_t conversation_n_calls(const conversation *c)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(c->messages); i++) n += json_array_size(calls_of(c, i));
    return n;
}

static bool has_result(const conversation *c, const char *id)
{
    for (size_t i = 0; i < json_array_size(c->messages); i++) {
        const json_t *of = json_object_get(json_array_get(c->messages, i), "tool_call_id");
        if (json_is_string(of) && !strcmp(json_string_value(of), id)) return true;
    }
    return false;
}

// The call with this id, or the first one without a result.
static const json_t *find_call(const conversation *c, const char *id)
{
    for (size_t i = 0; i < json_array_size(c->messages); i++) {
        const json_t *calls = calls_of(c, i);
        for (size_t k = 0; k < json_array_size(calls); k++) {
            const json_t *call = json_array_get(calls, k);
            const char *its = json_string_value(json_object_get(call, "id"));
            if (its && (id ? !strcmp(its, id) : !has_result(c, its))) return call;
        }
    }
    return NULL;
}

pm_status conversation_add_result(conversation *c, const char *id, const char *content, size_t n)
{
    const json_t *call = find_call(c, id);
    if (!call) {
        return id ? error_set(PM_ERROR_USAGE, "no call of a tool has the id '%.40s'", id)
                  : error_set(PM_ERROR_USAGE, "no call of a tool waits for a result");
    }
    json_t *message = json_pack("{s:s, s:O, s:O?, s:o}", "role", "tool", "tool_call_id",
                                json_object_get(call, "id"), "name",
                                json_object_get(json_object_get(call, "function"), "name"),
                                "content", string_of(content, n));
    if (message && json_array_append_new(c->messages, message) == 0) return PM_OK;
    return error_memory("a message", n);
}

// ---- rendering --------------------------------------------------------------------------------

static gguf_string special_text(const text_vocab *v, int32_t id)
{
    if (id == TEXT_NO_TOKEN) return (gguf_string){"", 0};
    return text_piece(v, id, true);
}

static bool set(json_t *vars, const char *name, json_t *value)
{
    return json_object_set_new(vars, name, value) == 0;
}

static json_t *variables(const conversation *c, const json_t *messages, bool generation_prompt)
{
    const text_specials *ids = text_special_ids(c->vocab);
    gguf_string bos = special_text(c->vocab, ids->bos), eos = special_text(c->vocab, ids->eos);
    json_t *vars = json_object();
    json_t *tools = c->tools && !c->python ? json_incref(c->tools) : json_null();
    bool good = set(vars, "messages", json_deep_copy(messages)) && set(vars, "tools", tools) &&
                set(vars, "documents", json_null()) &&
                set(vars, "add_generation_prompt", json_boolean(generation_prompt)) &&
                set(vars, "bos_token", string_of(bos.data, bos.len)) &&
                set(vars, "eos_token", string_of(eos.data, eos.len));
    if (good && c->python) good = set(vars, "python_tools", json_incref(c->tools));
    if (good && c->think != THINK_UNSET) {
        good = set(vars, "enable_thinking", json_boolean(c->think == THINK_ON)) &&
               set(vars, "thinking", json_boolean(c->think == THINK_ON));
    }
    if (good) return vars;
    json_decref(vars);
    return NULL;
}

static pm_status render(const conversation *c, const json_t *messages, bool generation_prompt,
                        tmpl_output *out)
{
    static const char *const trusted[] = {"bos_token", "eos_token", NULL};
    json_t *vars = variables(c, messages ? messages : c->messages, generation_prompt);
    if (!vars) return error_memory("a prompt", 0);
    double now = c->now < 0 ? os_local_seconds() : c->now;
    pm_status status = tmpl_render(c->template, vars, now, trusted, NULL, out);
    json_decref(vars);
    return status;
}

pm_status conversation_render(const conversation *c, const json_t *messages, bool generation_prompt,
                              char **text, size_t *n)
{
    tmpl_output out;
    pm_status status = render(c, messages, generation_prompt, &out);
    if (status != PM_OK) return status;
    *text = out.text;
    if (n) *n = out.n;
    out.text = NULL;
    tmpl_output_free(&out);
    return PM_OK;
}

static pm_status encode_runs(const conversation *c, const tmpl_output *o, text_ids *ids)
{
    text_span *spans = malloc((o->n_runs + 1) * sizeof *spans);
    if (!spans) return error_memory("a prompt", o->n_runs * sizeof *spans);
    size_t at = 0;
    for (size_t i = 0; i < o->n_runs; i++) {
        spans[i] = (text_span){o->text + at, o->runs[i].n, o->runs[i].literal};
        at += o->runs[i].n;
    }
    pm_status status = text_encode_spans(c->vocab, spans, o->n_runs, ids);
    free(spans);
    return status;
}

// Behind the last thing that a message brought, is a <think> open? A message's own text does not
// count, whatever it says.
static bool ends_thinking(const tmpl_output *o)
{
    static const char open[] = "<think>", close[] = "</think>";
    size_t start = o->n;
    for (size_t i = o->n_runs; i > 0 && o->runs[i - 1].literal; i--) start -= o->runs[i - 1].n;
    const char *text = o->text + start, *last = NULL;
    size_t n = o->n - start;
    for (const char *at = text; (at = memmem(at, n - (size_t)(at - text), open, sizeof open - 1));
         at++) {
        last = at;
    }
    return last && !memmem(last, n - (size_t)(last - text), close, sizeof close - 1);
}

pm_status conversation_ids(const conversation *c, const json_t *messages, bool generation_prompt,
                           text_ids *out, bool *thinking)
{
    tmpl_output rendered;
    pm_status status = render(c, messages, generation_prompt, &rendered);
    if (status != PM_OK) return status;
    text_ids ids = {0};
    status = encode_runs(c, &rendered, &ids);
    if (thinking) *thinking = ends_thinking(&rendered);
    tmpl_output_free(&rendered);
    const text_specials *special = text_special_ids(c->vocab);
    bool add = special->add_bos && special->bos != TEXT_NO_TOKEN &&
               (ids.n == 0 || ids.ids[0] != special->bos);
    if (status == PM_OK && add) status = text_ids_add(out, special->bos);
    for (size_t i = 0; status == PM_OK && i < ids.n; i++) status = text_ids_add(out, ids.ids[i]);
    text_ids_free(&ids);
    return status;
}
