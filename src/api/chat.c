// A conversation on a session: each answer evaluates only what the cache does not hold yet.
#include "chat/conversation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/chat.h"
#include "base/os.h"
#include "chat/template.h"

enum { MAX_TOOLS_BYTES = 1 << 24 };

static pm_status copy_options(const pm_options *from, pm_options **out)
{
    pm_options *copy = pm_options_create();
    pm_status status = copy ? PM_OK : error_memory("options", 0);
    for (size_t i = 0; status == PM_OK && i < n_option_rows; i++) {
        const char *name = option_table[i].name;
        for (size_t j = 0; status == PM_OK && j < options_n_values(from, name); j++) {
            status = pm_options_set(copy, name, options_value(from, name, j));
        }
    }
    if (status == PM_OK) {
        *out = copy;
    } else {
        pm_options_destroy(copy);
    }
    return status;
}

static conversation_think think_of(const pm_options *o)
{
    if (pm_options_is_set(o, "think")) return options_is_on(o, "think") ? THINK_ON : THINK_OFF;
    if (pm_options_is_set(o, "no-think"))
        return options_is_on(o, "no-think") ? THINK_OFF : THINK_ON;
    return THINK_UNSET;
}

static pm_status set_tools(pm_chat *chat, const char *json, size_t n)
{
    json_t *list = NULL, *tools = NULL;
    if (pm_options_is_set(chat->options, "json-schema")) {
        return error_set(PM_ERROR_USAGE,
                         "options 'tools' and 'json-schema': an answer that follows "
                         "a schema calls no tools (leave one out)");
    }
    if (tmpl_load_json(json, n, &list) != PM_OK) return error_in(PM_ERROR_USAGE, "tools");
    pm_status status = tools_check(list, &tools);
    if (status == PM_OK) {
        bool python = options_is_on(chat->options, "python-tools");
        status = conversation_set_tools(chat->c, tools, python);
    }
    json_decref(tools);
    json_decref(list);
    return status;
}

static pm_status read_tools(pm_chat *chat, const char *path)
{
    char *text = NULL;
    size_t n;
    pm_status status = os_read_whole(path, MAX_TOOLS_BYTES, &text, &n);
    if (status == PM_OK) status = error_in(set_tools(chat, text, n), "%s", path);
    free(text);
    return status;
}

pm_status pm_chat_create(pm_session *ps, const pm_options *options, pm_chat **out)
{
    const model *m = ps->model->m;
    if (!m->vocab) return error_set(PM_ERROR_FILE, "%s: has no vocabulary", gguf_path(m->file));
    conversation_params params = {.think = think_of(options), .now = -1};
    if (pm_options_is_set(options, "template")) {
        params.replacement = pm_options_get(options, "template");
    }
    params.own_template.data = pm_model_template(ps->model, &params.own_template.len);
    pm_chat *chat = calloc(1, sizeof *chat);
    if (!chat) return error_memory("a chat", sizeof *chat);
    chat->session = ps;
    pm_status status = copy_options(options, &chat->options);
    if (status == PM_OK) status = conversation_open(m->vocab, &params, &chat->c);
    if (status == PM_OK) status = params_grammar(options, &chat->grammar);
    if (status == PM_OK && pm_options_is_set(options, "tools")) {
        status = read_tools(chat, pm_options_get(options, "tools"));
    }
    if (status == PM_OK) {
        *out = chat;
    } else {
        pm_chat_destroy(chat);
    }
    return status;
}

void pm_chat_destroy(pm_chat *chat)
{
    if (!chat) return;
    pm_generation_destroy(chat->reply);
    conversation_close(chat->c);
    grammar_free(chat->grammar);
    pm_options_destroy(chat->options);
    free(chat);
}

const char *pm_chat_template_name(const pm_chat *chat)
{
    return conversation_template_name(chat->c);
}

pm_status pm_chat_add(pm_chat *chat, const char *role, const char *content)
{
    return conversation_add(chat->c, role, content, strlen(content));
}

pm_status pm_chat_set_tools(pm_chat *chat, const char *json)
{
    return json ? set_tools(chat, json, strlen(json))
                : conversation_set_tools(chat->c, NULL, false);
}

pm_status pm_chat_add_tool_result(pm_chat *chat, const char *id, const char *content)
{
    return conversation_add_result(chat->c, id, content, strlen(content));
}

// How many messages the prompt leaves out. Where the conversation has become so short that its last
// turn would be among them, nothing is left out any more.
static size_t chat_n_out(pm_chat *chat)
{
    json_t *messages = NULL;
    size_t n_out = 0;
    if (!conversation_without(chat->c, chat->n_turns_out, &messages, &n_out))
        chat->n_turns_out = n_out = 0;
    json_decref(messages);
    return n_out;
}

void chat_leave_out(pm_chat *chat, size_t n_turns)
{
    chat->n_turns_out = n_turns;
    (void)chat_n_out(chat);
}

pm_status pm_chat_set_messages(pm_chat *chat, const char *json)
{
    pm_status status = conversation_set(chat->c, json);
    if (status == PM_OK) chat_leave_out(chat, 0);
    return status;
}

pm_status pm_chat_messages(const pm_chat *chat, char **json)
{
    return json_take(json_deep_copy(conversation_messages(chat->c)), json);
}

size_t pm_chat_n_messages(const pm_chat *chat)
{
    return conversation_n_messages(chat->c);
}

void pm_chat_truncate(pm_chat *chat, size_t n_messages)
{
    conversation_truncate(chat->c, n_messages);
    chat_leave_out(chat, chat->n_turns_out);
}

void pm_chat_set_thinking(pm_chat *chat, int on)
{
    conversation_set_think(chat->c, on ? THINK_ON : THINK_OFF);
}

pm_status pm_chat_render(pm_chat *chat, int generation_prompt, char **text, size_t *n)
{
    json_t *messages = NULL;
    size_t unused;
    if (!conversation_without(chat->c, chat->n_turns_out, &messages, &unused))
        return error_memory("a prompt", 0);
    pm_status status = conversation_render(chat->c, messages, generation_prompt != 0, text, n);
    json_decref(messages);
    return status;
}

// ---- answers ----------------------------------------------------------------------------------

// A prompt that fits, and what of the conversation is not in it.
typedef struct fitted {
    text_ids ids;
    bool thinking;
    size_t n_turns_out, n_out; // turns, and their messages
} fitted;

// The prompt without the oldest `n_turns` turns.
static pm_status ids_without(const pm_chat *chat, size_t n_turns, fitted *f)
{
    json_t *messages = NULL;
    text_ids_free(&f->ids);
    *f = (fitted){.n_turns_out = n_turns};
    if (!conversation_without(chat->c, n_turns, &messages, &f->n_out))
        return error_memory("a prompt", 0);
    pm_status status = conversation_ids(chat->c, messages, true, &f->ids, &f->thinking);
    json_decref(messages);
    return status;
}

// Where the prompt leaves no room for an answer the oldest turns are not in it, until a quarter of
// the context is free; where only the last turn is left it may fill more. What was left out once
// stays so: the cache then holds the beginning of the next prompt too.
static pm_status fit_prompt(const pm_chat *chat, fitted *f)
{
    size_t n_ctx = session_n_ctx(chat->session->s), few = n_ctx - n_ctx / 4;
    size_t low = chat->n_turns_out, high = conversation_n_turns(chat->c) - 1;
    pm_status status = ids_without(chat, low, f);
    if (status == PM_OK && f->ids.n < n_ctx) return PM_OK;
    // By halves: a conversation of years has many turns, and each one less is a shorter prompt.
    for (low += low < high; status == PM_OK && low < high;) {
        size_t middle = low + (high - low) / 2;
        status = ids_without(chat, middle, f);
        if (f->ids.n <= few)
            high = middle;
        else
            low = middle + 1;
    }
    if (status == PM_OK && f->n_turns_out != low) status = ids_without(chat, low, f);
    if (status != PM_OK || f->ids.n <= n_ctx) return status;
    return error_set(PM_ERROR_USAGE,
                     "the last message with its prompt has %zu tokens, the context holds %zu "
                     "(a larger one: --ctx N)",
                     f->ids.n, n_ctx);
}

pm_status pm_chat_generate(pm_chat *chat, size_t *n_dropped, pm_generation **out)
{
    if (conversation_n_messages(chat->c) == 0) {
        return error_set(PM_ERROR_USAGE, "the conversation is empty");
    }
    fitted f = {0};
    chat_reply how = {
        .parts = {.tools = conversation_tools(chat->c), .n_calls = conversation_n_calls(chat->c)},
        .seed_step = chat->n_answers,
        .grammar = chat->grammar};
    size_t n_out = chat_n_out(chat);
    pm_status status = fit_prompt(chat, &f);
    how.parts.thinking = f.thinking;
    if (status == PM_OK) {
        pm_generation *reply = NULL;
        status = start_generation(chat->session, chat->options, f.ids.ids, f.ids.n, &how, &reply);
        if (status == PM_OK) {
            pm_generation_destroy(chat->reply);
            chat->reply = reply;
            chat->n_answers++;
            chat->n_reused = generation_n_cached(reply->g);
            chat->n_new = f.ids.n - chat->n_reused;
            chat->n_turns_out = f.n_turns_out;
            if (n_dropped) *n_dropped = f.n_out - n_out;
            *out = reply;
        }
    }
    text_ids_free(&f.ids);
    return status;
}

// The answer as a message. Where the template does not write calls they stay in the content, as the
// model wrote them.
static json_t *message_of(const pm_chat *chat)
{
    const answer *a = chat->reply->answer;
    size_t n_text, n_raw, n_reasoning;
    const char *text = answer_text(a, &n_text), *raw = answer_raw(a, &n_raw);
    const char *reasoning = answer_reasoning(a, &n_reasoning);
    const json_t *calls = answer_calls(a);
    bool as_written = json_array_size(calls) > 0 && !conversation_writes_calls(chat->c);
    json_t *message = json_object();
    bool good =
        json_put(message, "role", json_word("assistant")) &&
        json_put(message, "content", as_written ? json_text(raw, n_raw) : json_text(text, n_text));
    if (good && n_reasoning > 0) {
        good = json_put(message, "reasoning_content", json_text(reasoning, n_reasoning));
    }
    if (good && json_array_size(calls) > 0) {
        good = json_put(message, "tool_calls", json_deep_copy(calls));
    }
    if (good) return message;
    json_decref(message);
    return NULL;
}

pm_status pm_chat_finish(pm_chat *chat)
{
    if (!chat->reply) return error_set(PM_ERROR_USAGE, "there is no answer to finish");
    json_t *message = message_of(chat);
    pm_status status =
        message ? conversation_add_message(chat->c, message) : error_memory("a message", 0);
    json_decref(message);
    if (status != PM_OK) return status;
    pm_generation_destroy(chat->reply);
    chat->reply = NULL;
    return PM_OK;
}

size_t pm_chat_n_reused(const pm_chat *chat)
{
    return chat->n_reused;
}

size_t pm_chat_n_new(const pm_chat *chat)
{
    return chat->n_new;
}
