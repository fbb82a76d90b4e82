// Conversations that were left: each is a list of messages, and any of them can be gone on with.
// The cache needs nothing for it: what two of them have in common is reused anyway.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/chat.h"

static bool begins_with(const json_t *list, const json_t *beginning)
{
    if (json_array_size(beginning) > json_array_size(list)) return false;
    for (size_t i = 0; i < json_array_size(beginning); i++)
        if (!json_equal(json_array_get(list, i), json_array_get(beginning, i))) return false;
    return true;
}

void chat_branches_keep(conversation *c, const json_t *messages)
{
    for (size_t i = json_array_size(c->branches); i-- > 0;) {
        const json_t *branch = json_array_get(c->branches, i);
        if (begins_with(branch, messages)) return;
        if (begins_with(messages, branch)) json_array_remove(c->branches, i);
    }
    json_array_append_new(c->branches, json_deep_copy(messages));
}

// The first words of a message on one line.
static void show_words(buf *out, const char *text)
{
    enum { MOST = 48 };
    size_t n = 0;
    for (; text && *text && n < MOST; text++) {
        unsigned char byte = (unsigned char)*text;
        buf_char(out, byte < ' ' ? ' ' : (char)byte);
        n += (byte & 0xc0) != 0x80; // characters, not bytes
    }
    for (; text && (*text & 0xc0) == 0x80; text++) buf_char(out, *text);
    if (text && *text) buf_str(out, "...");
}

static void show_branch(size_t number, const json_t *messages)
{
    buf line = {0};
    size_t n = json_array_size(messages), last = n;
    while (last > 0) {
        const char *role = text_in(json_array_get(messages, last - 1), "role", NULL);
        if (role && !strcmp(role, "user")) break;
        last--;
    }
    if (last > 0)
        show_words(&line, json_string_value(
                              json_object_get(json_array_get(messages, last - 1), "content")));
    if (last > 0 && last < n) {
        buf_str(&line, " -> ");
        show_words(&line, text_in(json_array_get(messages, n - 1), "content", NULL));
    }
    if (!line.failed) say("%zu: %zu messages, %s", number, n, line.data ? line.data : "");
    buf_free(&line);
}

void chat_branches_command(conversation *c, const char *rest)
{
    size_t n = json_array_size(c->branches);
    if (!*rest) {
        for (size_t i = 0; i < n; i++) show_branch(i + 1, json_array_get(c->branches, i));
        if (n == 0) say("there are no branches (/undo, /regen and /clear leave some)");
        return;
    }
    char *end;
    unsigned long number = strtoul(rest, &end, 10);
    if (*rest < '0' || *rest > '9' || *end || number < 1 || number > n) {
        chat_failed(c,
                    error_set(PM_ERROR_USAGE, "/branches: no number '%.20s' (1 to %zu)", rest, n));
        return;
    }
    json_t *chosen = json_incref(json_array_get(c->branches, number - 1)), *now = chat_messages(c);
    pm_status status = now ? chat_set_messages(c, chosen) : PM_ERROR_RUN;
    if (status == PM_OK) {
        json_array_remove(c->branches, number - 1);
        chat_branches_keep(c, now);
        say_remark(c->args, "going on with branch %lu (%zu messages)", number,
                   pm_chat_n_messages(c->chat));
    } else if (now) {
        chat_failed(c, status);
    }
    json_decref(now);
    json_decref(chosen);
}
