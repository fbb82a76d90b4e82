// What can be typed in a chat besides messages.
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/chat.h"

// ---- messages as JSON -------------------------------------------------------------------------

// The conversation as a list; NULL when it can't be had (said).
static json_t *messages_of(conversation *c)
{
    char *text = NULL;
    pm_status status = pm_chat_messages(c->chat, &text);
    json_t *list = status == PM_OK ? json_loads(text, JSON_ALLOW_NUL, NULL) : NULL;
    if (status == PM_OK && !list) status = error_memory("the conversation", 0);
    if (status != PM_OK) chat_failed(c, status);
    pm_free(text);
    return list;
}

static pm_status set_messages(pm_chat *chat, const json_t *list)
{
    char *text = json_dumps(list, 0);
    if (!text) return error_memory("the conversation", 0);
    pm_status status = pm_chat_set_messages(chat, text);
    free(text);
    return status;
}

static bool has_role(const json_t *message, const char *role)
{
    const char *found = json_string_value(json_object_get(message, "role"));
    return found && !strcmp(found, role);
}

// The index of the last message of the user, or -1.
static long last_user(const json_t *list)
{
    for (size_t k = json_array_size(list); k-- > 0;)
        if (has_role(json_array_get(list, k), "user")) return (long)k;
    return -1;
}

// ---- the commands -----------------------------------------------------------------------------

static void do_help(conversation *c, const char *rest);

static void do_regen(conversation *c, const char *rest)
{
    (void)rest;
    json_t *list = messages_of(c);
    long at = list ? last_user(list) : -1;
    json_decref(list);
    if (!list) return;
    if (at < 0) {
        say("nothing was asked yet");
        return;
    }
    pm_chat_truncate(c->chat, (size_t)at + 1);
    c->answer_next = true;
}

static void do_undo(conversation *c, const char *rest)
{
    (void)rest;
    json_t *list = messages_of(c);
    long at = list ? last_user(list) : -1;
    json_decref(list);
    if (!list) return;
    if (at < 0) {
        say("nothing was asked yet");
        return;
    }
    pm_chat_truncate(c->chat, (size_t)at);
    say("the last question and its answer are taken back (%zu messages are left)",
        pm_chat_n_messages(c->chat));
}

static void do_clear(conversation *c, const char *rest)
{
    (void)rest;
    json_t *list = messages_of(c);
    if (!list) return;
    bool system = has_role(json_array_get(list, 0), "system");
    json_decref(list);
    pm_chat_truncate(c->chat, system ? 1 : 0);
    say(system ? "a new conversation (the system message stays)" : "a new conversation");
}

static void do_system(conversation *c, const char *rest)
{
    json_t *list = messages_of(c);
    if (!list) return;
    const json_t *first = json_array_get(list, 0);
    if (!*rest) {
        if (has_role(first, "system"))
            say("system message: %s", json_string_value(json_object_get(first, "content")));
        else
            say("there is no system message (/system TEXT sets one)");
        json_decref(list);
        return;
    }
    json_t *content = json_of_bytes(rest, strlen(rest));
    json_t *message = json_pack("{s:s, s:o}", "role", "system", "content", content);
    if (has_role(first, "system"))
        json_array_set_new(list, 0, message);
    else
        json_array_insert_new(list, 0, message);
    pm_status status = set_messages(c->chat, list);
    json_decref(list);
    if (status != PM_OK)
        chat_failed(c, status);
    else
        say("the system message is set");
}

// A saved conversation says what it is: {"pumice_chat": 1, "messages": [...]}.
static const char saved_key[] = "pumice_chat";
enum { SAVED_VERSION = 1 };

static void do_save(conversation *c, const char *rest)
{
    json_t *list = messages_of(c);
    if (!list) return;
    json_t *all = json_pack("{s:i, s:s, s:o}", saved_key, SAVED_VERSION, "architecture",
                            pm_model_architecture(c->model.model), "messages", list);
    char *text = all ? json_dumps(all, JSON_INDENT(1)) : NULL;
    char *path = os_expand_home(rest);
    os_writer *w = NULL;
    pm_status status = text && path ? PM_OK : error_memory("the conversation", 0);
    if (status == PM_OK) status = os_writer_open(path, &w);
    if (status == PM_OK) status = os_writer_write(w, text, strlen(text));
    if (status == PM_OK) status = os_writer_write(w, "\n", 1);
    if (status == PM_OK) {
        status = os_writer_commit(w);
        w = NULL;
    }
    os_writer_abort(w);
    if (status != PM_OK)
        chat_failed(c, status);
    else
        say("saved: %s (%zu messages)", path, pm_chat_n_messages(c->chat));
    free(path);
    free(text);
    json_decref(all);
}

// A message has a role, and a content unless it calls tools.
static bool is_message(const json_t *m)
{
    const json_t *content = json_object_get(m, "content");
    return json_is_string(json_object_get(m, "role")) &&
           (json_is_string(content) || json_is_array(content) ||
            json_is_array(json_object_get(m, "tool_calls")));
}

// Reads a saved conversation's messages; they belong to *all.
static pm_status read_saved(const char *path, json_t **all, json_t **messages)
{
    char *text = NULL;
    size_t n = 0;
    pm_status status = read_input(path, &text, &n);
    if (status != PM_OK) return status;
    json_error_t where;
    *all = json_loadb(text, n, JSON_ALLOW_NUL, &where);
    free(text);
    if (!*all)
        return error_set(PM_ERROR_FILE, "%s: line %d: %s (not a saved conversation, or cut short)",
                         path, where.line, where.text);
    const json_t *version = json_object_get(*all, saved_key);
    if (!json_is_integer(version))
        return error_set(PM_ERROR_FILE, "%s: has no '%s' (not a conversation saved with /save)",
                         path, saved_key);
    if (json_integer_value(version) != SAVED_VERSION)
        return error_set(PM_ERROR_FILE, "%s: '%s' is %lld, known is %d", path, saved_key,
                         (long long)json_integer_value(version), SAVED_VERSION);
    *messages = json_object_get(*all, "messages");
    if (!json_is_array(*messages))
        return error_set(PM_ERROR_FILE, "%s: has no list 'messages'", path);
    size_t index;
    const json_t *message;
    json_array_foreach(*messages, index, message)
    {
        if (!is_message(message))
            return error_set(PM_ERROR_FILE, "%s: message %zu has no role or no content", path,
                             index + 1);
    }
    return PM_OK;
}

static void do_load(conversation *c, const char *rest)
{
    char *path = os_expand_home(rest);
    json_t *all = NULL, *messages = NULL;
    pm_status status = path ? read_saved(path, &all, &messages) : error_memory("a path", 0);
    if (status == PM_OK) status = error_in(set_messages(c->chat, messages), "%s", path);
    json_decref(all);
    if (status != PM_OK)
        chat_failed(c, status);
    else
        say("loaded: %s (%zu messages)", path, pm_chat_n_messages(c->chat));
    free(path);
}

static void do_stats(conversation *c, const char *rest)
{
    (void)rest;
    const pm_session *session = c->model.session;
    say("device: %s", pm_model_device_description(c->model.model));
    say("context: %d of %d tokens in the cache (%s), %zu messages", pm_session_n_past(session),
        pm_session_n_ctx(session), show_mib(pm_session_kv_bytes(session)),
        pm_chat_n_messages(c->chat));
    if (!c->timing) return;
    say("last prompt: %zu tokens reused, %zu new", pm_chat_n_reused(c->chat),
        pm_chat_n_new(c->chat));
    say("%s", c->timing);
}

// Options are read when a chat is made, so a changed one needs a new chat with the old messages.
static void set_thinking(conversation *c, const char *on, const char *off)
{
    pm_chat *fresh = NULL;
    char *messages = NULL;
    pm_status status = pm_chat_messages(c->chat, &messages);
    if (status == PM_OK) status = pm_options_set(c->args->options, off, NULL);
    if (status == PM_OK) status = pm_options_set(c->args->options, on, "true");
    if (status == PM_OK) status = pm_chat_create(c->model.session, c->args->options, &fresh);
    if (status == PM_OK) status = pm_chat_set_messages(fresh, messages);
    pm_free(messages);
    if (status != PM_OK) {
        pm_chat_destroy(fresh);
        chat_failed(c, status);
        return;
    }
    pm_chat_destroy(c->chat);
    c->chat = fresh;
    say("from the next message on: --%s", on);
}

static void do_think(conversation *c, const char *rest)
{
    (void)rest;
    set_thinking(c, "think", "no-think");
}

static void do_no_think(conversation *c, const char *rest)
{
    (void)rest;
    set_thinking(c, "no-think", "think");
}

static void do_quit(conversation *c, const char *rest)
{
    (void)rest;
    c->left = true;
}

typedef struct slash {
    const char *name;
    const char *value; // NULL: takes nothing; in brackets: may be left out
    const char *help;
    void (*run)(conversation *c, const char *rest);
} slash;

static const slash slashes[] = {
    {"help", NULL, "this list", do_help},
    {"regen", NULL, "another answer to the last question", do_regen},
    {"undo", NULL, "take back the last question and its answer", do_undo},
    {"clear", NULL, "a new conversation; the system message stays", do_clear},
    {"system", "[TEXT]", "show or set the system message", do_system},
    {"save", "FILE", "keep the conversation in a file", do_save},
    {"load", "FILE", "go on with a saved conversation", do_load},
    {"stats", NULL, "device, context, speed of the last answer", do_stats},
    {"think", NULL, "ask for reasoning where the template can", do_think},
    {"no_think", NULL, "ask for none", do_no_think},
    {"quit", NULL, "leave (so does Ctrl-D)", do_quit},
};
enum { N_SLASHES = sizeof slashes / sizeof slashes[0] };

static void do_help(conversation *c, const char *rest)
{
    (void)c;
    (void)rest;
    for (size_t k = 0; k < N_SLASHES; k++)
        say("/%-9s %-7s %s", slashes[k].name, slashes[k].value ? slashes[k].value : "",
            slashes[k].help);
    say("A message that starts with / is written with two. A backslash at the end of a line goes "
        "on "
        "with the next one; \"\"\" begins and ends a text of many lines.");
}

void chat_command(conversation *c, const char *line)
{
    size_t n = strcspn(line + 1, " \t\r\n");
    const char *rest = line + 1 + n;
    rest += strspn(rest, " \t\r\n");
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)n, line + 1);
    nearest near = {.word = name};
    for (size_t k = 0; k < N_SLASHES; k++) {
        const slash *s = &slashes[k];
        nearest_try(&near, s->name);
        if (strcmp(s->name, name) != 0) continue;
        if (!s->value && *rest) {
            chat_failed(c, error_set(PM_ERROR_USAGE, "/%s: takes nothing behind it", name));
        } else if (s->value && s->value[0] != '[' && !*rest) {
            chat_failed(c, error_set(PM_ERROR_USAGE, "/%s: needs a %s", name, s->value));
        } else {
            s->run(c, rest);
        }
        return;
    }
    chat_failed(c, error_set(PM_ERROR_USAGE,
                             "/%s: no such command (did you mean /%s? /help lists all; a message "
                             "that starts with / is written with two)",
                             name, near.best));
}
