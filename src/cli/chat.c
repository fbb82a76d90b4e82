// pumice chat: the loop of messages and answers.
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/chat.h"

const cli_option chat_options[] = {
    {"model", 'm', "MODEL", "the model, instead of the first word"},
    {"system", 0, "TEXT", "the system message"},
    {"prompt", 'p', "TEXT", "the first message"},
    {0},
};

void chat_failed(conversation *c, pm_status status)
{
    say_error();
    if (c->failed == PM_OK) c->failed = status;
}

// Streams one answer; false when it failed.
static bool answer(conversation *c)
{
    size_t n_dropped = 0;
    stream s = {.show = true};
    pm_generation *reply = NULL; // belongs to the chat, until it is finished
    os_interrupts_clear();
    pm_status status = pm_chat_generate(c->chat, &n_dropped, &reply);
    if (status == PM_OK && n_dropped)
        say_warning("the context is full: the oldest %zu messages were dropped from it", n_dropped);
    if (status == PM_OK) status = stream_run(&s, reply);
    if (status == PM_OK) {
        free(c->timing);
        c->timing = timing_of(reply);
        status = pm_chat_finish(c->chat);
    }
    if (status != PM_OK) {
        c->broken = status != PM_ERROR_USAGE;
        chat_failed(c, status);
        return false;
    }
    if (s.interrupted && !c->args->quiet) say("(stopped)");
    if (c->timing && c->args->verbose && !c->args->quiet) say("%s", c->timing);
    return true;
}

// Where an answer fails the message is taken back: the conversation is as it was before.
static void send(conversation *c, const char *text)
{
    pm_status status = pm_chat_add(c->chat, "user", text);
    if (status != PM_OK)
        chat_failed(c, status);
    else if (!answer(c))
        pm_chat_truncate(c->chat, pm_chat_n_messages(c->chat) - 1);
}

static bool is_blank(const char *text)
{
    return text[strspn(text, " \t\r\n")] == 0;
}

// One message or command. A message that starts with a slash is written with two.
static void take(conversation *c, const char *text)
{
    if (is_blank(text)) return;
    if (text[0] != '/') {
        send(c, text);
    } else if (text[1] == '/') {
        send(c, text + 1);
    } else {
        chat_command(c, text);
        if (c->answer_next) answer(c);
        c->answer_next = false;
    }
}

// Without a terminal an answer that fails ends the chat, unless only the message was too long.
static bool goes_on(const conversation *c, const chat_input *in)
{
    return !c->left && (chat_input_edits(in) || !c->broken);
}

static void loop(conversation *c, chat_input *in, bool *interrupted)
{
    while (goes_on(c, in)) {
        char *text = NULL;
        switch (chat_input_read(in, &text)) {
        case CHAT_MESSAGE: take(c, text); break;
        case CHAT_END: return;
        case CHAT_INTERRUPTED:
            if (!chat_input_edits(in)) *interrupted = true;
            if (*interrupted) return;
            say("(Ctrl-C again within a second, or /quit, leaves)");
            break;
        case CHAT_FAILED: chat_failed(c, error_memory("the message", 0)); return;
        }
        free(text);
    }
}

static pm_status begin(conversation *c)
{
    const cli_args *args = c->args;
    const char *system = args_get(args, "system");
    const char *word = args->n_words ? args->words[0] : NULL;
    pm_status status = loaded_model(args, word, &c->model);
    if (status == PM_OK) status = loaded_session(args, &c->model);
    if (status == PM_OK) status = pm_chat_create(c->model.session, args->options, &c->chat);
    if (status == PM_OK && system) status = pm_chat_add(c->chat, "system", system);
    return status;
}

pm_status run_chat(cli_args *args)
{
    conversation c = {.args = args};
    chat_input *in = NULL;
    const char *first = args_get(args, "prompt");
    pm_status status = PM_OK;
    if (first && is_blank(first)) status = error_set(PM_ERROR_USAGE, "--prompt: is empty");
    if (status == PM_OK) status = begin(&c);
    if (status == PM_OK) status = chat_input_open(&in);
    if (status == PM_OK) {
        if (chat_input_edits(in) && say_wanted(args))
            say("template: %s; /help lists the commands, Ctrl-C stops an answer",
                pm_chat_template_name(c.chat));
        stream_catch(c.model.session);
        if (first) send(&c, first);
        loop(&c, in, &args->interrupted);
        stream_catch(NULL);
        // On a terminal failures were dealt with as they came; a script wants to know.
        if (!chat_input_edits(in)) status = c.failed;
        args->reported = true;
    }
    chat_input_close(in);
    pm_chat_destroy(c.chat);
    free(c.timing);
    loaded_free(&c.model);
    return status;
}
