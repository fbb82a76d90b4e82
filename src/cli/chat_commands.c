// What can be typed in a chat besides messages.
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/chat.h"

// ---- messages as JSON -------------------------------------------------------------------------

json_t *chat_messages(conversation *c)
{
    char *text = NULL;
    pm_status status = pm_chat_messages(c->chat, &text);
    json_t *list = status == PM_OK ? json_loads(text, JSON_ALLOW_NUL, NULL) : NULL;
    if (status == PM_OK && !list) status = error_memory("the conversation", 0);
    if (status != PM_OK) chat_failed(c, status);
    pm_free(text);
    return list;
}

pm_status chat_set_messages(conversation *c, const json_t *list)
{
    char *text = json_dumps(list, 0);
    if (!text) return error_memory("the conversation", 0);
    pm_status status = pm_chat_set_messages(c->chat, text);
    free(text);
    return status;
}

static bool has_role(const json_t *message, const char *role)
{
    const char *found = text_in(message, "role", NULL);
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
    json_t *list = chat_messages(c);
    long at = list ? last_user(list) : -1;
    if (list && at < 0) say("nothing was asked yet");
    if (at < 0) {
        json_decref(list);
        return;
    }
    pm_chat_truncate(c->chat, (size_t)at + 1);
    c->again = list;
}

static void do_undo(conversation *c, const char *rest)
{
    (void)rest;
    json_t *list = chat_messages(c);
    long at = list ? last_user(list) : -1;
    if (list && at < 0) say("nothing was asked yet");
    if (at >= 0) {
        chat_branches_keep(c, list);
        pm_chat_truncate(c->chat, (size_t)at);
        say_remark(
            c->args,
            "the last question and its answer are taken back (%zu messages are left; /branches "
            "has them)",
            pm_chat_n_messages(c->chat));
    }
    json_decref(list);
}

static void do_clear(conversation *c, const char *rest)
{
    (void)rest;
    json_t *list = chat_messages(c);
    if (!list) return;
    bool system = has_role(json_array_get(list, 0), "system");
    if (json_array_size(list) > system) chat_branches_keep(c, list);
    json_decref(list);
    pm_chat_truncate(c->chat, system ? 1 : 0);
    say_remark(c->args, "a new conversation%s", system ? " (the system message stays)" : "");
}

static void do_system(conversation *c, const char *rest)
{
    json_t *list = chat_messages(c);
    if (!list) return;
    const json_t *first = json_array_get(list, 0);
    if (!*rest) {
        if (has_role(first, "system"))
            say("system message: %s", text_in(first, "content", ""));
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
    pm_status status = chat_set_messages(c, list);
    json_decref(list);
    if (status != PM_OK)
        chat_failed(c, status);
    else
        say_remark(c->args, "the system message is set");
}

static void do_save(conversation *c, const char *rest)
{
    char *path = os_expand_home(rest);
    pm_status status = path ? chat_save(c, path, true) : error_memory("a path", 0);
    if (status != PM_OK)
        chat_failed(c, status);
    else
        say_remark(c->args, "saved: %s (%zu messages)", path, pm_chat_n_messages(c->chat));
    free(path);
}

static void do_load(conversation *c, const char *rest)
{
    char *path = os_expand_home(rest);
    json_t *before = chat_messages(c);
    pm_status status = path && before ? chat_load(c, path) : error_memory("a path", 0);
    if (status != PM_OK) {
        chat_failed(c, status);
    } else {
        bool system = has_role(json_array_get(before, 0), "system");
        if (json_array_size(before) > system) chat_branches_keep(c, before);
    }
    json_decref(before);
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

static void do_think(conversation *c, const char *rest)
{
    (void)rest;
    pm_chat_set_thinking(c->chat, 1);
    say_remark(c->args, "from the next message on: --think");
}

static void do_no_think(conversation *c, const char *rest)
{
    (void)rest;
    pm_chat_set_thinking(c->chat, 0);
    say_remark(c->args, "from the next message on: --no-think");
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
    {"branches", "[N]", "list what /undo, /regen and /clear left; go on with number N",
     chat_branches_command},
    {"clear", NULL, "a new conversation; the system message stays", do_clear},
    {"system", "[TEXT]", "show or set the system message", do_system},
    {"save", "FILE", "keep the conversation in a file", do_save},
    {"load", "FILE", "go on with a saved conversation", do_load},
    {"stats", NULL, "device, context, speed of the last answer", do_stats},
    {"tool", "RESULT", "what the called tool gave", chat_tool_command},
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
        say("/%-9s %-8s %s", slashes[k].name, slashes[k].value ? slashes[k].value : "",
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
