// pumice chat: the loop of messages and answers.
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/chat.h"

const cli_option chat_options[] = {
    {"model", 'm', "MODEL", "the model, instead of the first word"},
    {"system", 0, "TEXT", "the system message"},
    {"prompt", 'p', "TEXT", "the first message"},
    {"session", 0, "FILE",
     "go on with the conversation in FILE, where there is one, and keep it there in the end"},
    SHOW_THINKING_OPTION,
    {"tools-command", 0, "PROGRAM",
     "runs the calls of --tools: gets {\"id\", \"name\", \"arguments\"} on its standard input, its "
     "output is the result"},
    {"yes-tools", 0, NULL, "runs calls without asking"},
    {0},
};

void chat_failed(conversation *c, pm_status status)
{
    say_error();
    if (c->failed == PM_OK) c->failed = status;
}

// Streams one answer; false when it failed.
static bool answer_once(conversation *c, size_t *n_calls)
{
    size_t n_dropped = 0;
    stream s = {.show = true, .reasoning = stream_reasoning(c->args)};
    pm_generation *reply = NULL; // belongs to the chat, until it is finished
    os_interrupts_clear();
    pm_status status = pm_chat_generate(c->chat, &n_dropped, &reply);
    if (status == PM_OK && n_dropped && !c->args->quiet)
        say_warning("the context is full: the model no longer reads %zu of the oldest messages "
                    "(--session and /save keep them)",
                    n_dropped);
    if (status == PM_OK) status = stream_run(&s, reply);
    if (status == PM_OK) {
        free(c->timing);
        c->timing = timing_of(reply);
        *n_calls = pm_generation_n_tool_calls(reply);
        status = pm_chat_finish(c->chat);
    }
    if (status != PM_OK) {
        c->broken = status != PM_ERROR_USAGE;
        chat_failed(c, status);
        return false;
    }
    if (s.interrupted) say_remark(c->args, "(stopped)");
    if (c->timing && c->args->verbose) say_remark(c->args, "%s", c->timing);
    return true;
}

// An answer with what follows from it: calls are run and answered until there are none.
static bool answer(conversation *c)
{
    enum { MAX_ROUNDS = 32 };
    for (int round = 0; round < MAX_ROUNDS; round++) {
        size_t n_calls = 0;
        if (!answer_once(c, &n_calls)) return false;
        if (n_calls == 0 || !chat_run_calls(c)) return true;
    }
    if (!c->args->quiet)
        say_warning("%d calls one after the other: waiting for a message", MAX_ROUNDS);
    return true;
}

// Where an answer fails the conversation is as it was before.
static void send(conversation *c, const char *text)
{
    size_t before = pm_chat_n_messages(c->chat);
    pm_status status = pm_chat_add(c->chat, "user", text);
    if (status != PM_OK)
        chat_failed(c, status);
    else if (!answer(c))
        pm_chat_truncate(c->chat, before);
}

// The answer that a command asks for. Where it fails the conversation is as before, else an old
// answer becomes a branch.
static void answer_command(conversation *c)
{
    json_t *again = c->again, *before = again ? again : c->go_on;
    c->again = c->go_on = NULL;
    if (!answer(c))
        chat_set_messages(c, before);
    else if (again)
        chat_branches_keep(c, again);
    json_decref(before);
}

static bool is_blank(const char *text)
{
    return text[strspn(text, " \t\r\n")] == 0;
}

// The text is kept with every answer, the cache only in the end (also where a signal asks for the
// end): a crash costs no more than that. A file that can't be written is told of once.
static void keep_session(conversation *c, bool cache)
{
    const char *path = args_get(c->args, "session");
    bool empty = pm_chat_n_messages(c->chat) == 0 && json_array_size(c->branches) == 0;
    if (!path || (empty && !c->kept)) return;
    pm_status status = chat_save(c, path, cache);
    if (status != PM_OK && !c->not_kept) chat_failed(c, status);
    c->not_kept = status != PM_OK;
    if (status == PM_OK) c->kept = true;
}

// One message or command. A message that starts with a slash is written with two.
static void take(conversation *c, const char *text)
{
    if (is_blank(text)) return;
    c->spoken = true;
    if (text[0] != '/') {
        send(c, text);
    } else if (text[1] == '/') {
        send(c, text + 1);
    } else {
        chat_command(c, text);
        if (c->again || c->go_on) answer_command(c);
    }
    keep_session(c, false);
}

// Without a terminal an answer that fails ends the chat, unless only the message was too long.
static bool goes_on(const conversation *c, const chat_input *in)
{
    return !c->left && (chat_input_edits(in) || !c->broken);
}

static void loop(conversation *c, bool *interrupted)
{
    chat_input *in = c->in;
    while (goes_on(c, in)) {
        char *text = NULL;
        if (stream_leaves()) *interrupted = true;
        if (*interrupted) return;
        switch (chat_input_read(in, &text)) {
        case CHAT_MESSAGE: take(c, text); break;
        case CHAT_END: return;
        case CHAT_INTERRUPTED:
            if (!chat_input_edits(in) || stream_leaves()) *interrupted = true;
            if (*interrupted) return;
            say("(Ctrl-C again within a second, or /quit, leaves)");
            break;
        case CHAT_ZERO:
            c->spoken = true;
            chat_failed(c, error_set(PM_ERROR_USAGE, "a message holds a zero byte (text can't)"));
            break;
        case CHAT_FAILED: chat_failed(c, error_memory("the message", 0)); return;
        }
        free(text);
    }
}

// A place where nothing can be written shows before anything is loaded or asked.
static pm_status check_session(const char *path)
{
    os_file *old = NULL;
    os_writer *w = NULL;
    pm_status status = os_file_exists(path) ? os_file_open(path, false, &old) : PM_OK;
    os_file_close(old);
    if (status == PM_OK) status = os_writer_open(path, &w);
    os_writer_abort(w);
    return error_in(status, "--session");
}

static pm_status begin(conversation *c)
{
    const cli_args *args = c->args;
    const char *system = args_get(args, "system");
    const char *word = args->n_words ? args->words[0] : NULL;
    const char *kept = args_get(args, "session");
    pm_status status = kept ? check_session(kept) : PM_OK;
    if (status == PM_OK) status = loaded_model(args, word, &c->model);
    if (status == PM_OK) status = loaded_session(args, &c->model);
    if (status == PM_OK) status = show_sampler(args, &c->model, ", and one more each answer");
    if (status == PM_OK) status = pm_chat_create(c->model.session, args->options, &c->chat);
    if (status == PM_OK && kept && os_file_exists(kept)) {
        status = chat_load(c, kept);
        c->kept = status == PM_OK;
    }
    if (status == PM_OK && system) status = pm_chat_add(c->chat, "system", system);
    return status;
}

// Asking before each call takes somebody to ask.
static pm_status check_tools(const conversation *c)
{
    const cli_args *args = c->args;
    bool runs = args_get(args, "tools-command") != NULL;
    if (runs && !pm_options_is_set(args->options, "tools"))
        return error_set(PM_ERROR_USAGE, "--tools-command: needs the tools that the model may call "
                                         "(--tools FILE)");
    if (runs && !args_has(args, "yes-tools") && !chat_input_edits(c->in))
        return error_set(PM_ERROR_USAGE, "--tools-command: asks before each call, which needs a "
                                         "terminal (--yes-tools runs them without asking)");
    return PM_OK;
}

pm_status run_chat(cli_args *args)
{
    conversation c = {.args = args, .branches = json_array()};
    const char *first = args_get(args, "prompt");
    pm_status status = PM_OK;
    if (first && is_blank(first)) status = error_set(PM_ERROR_USAGE, "--prompt: is empty");
    if (status == PM_OK) status = begin(&c);
    if (status == PM_OK) status = chat_input_open(&c.in);
    if (status == PM_OK) status = check_tools(&c);
    if (status == PM_OK) {
        if (chat_input_edits(c.in) && say_wanted(args))
            say("template: %s; /help lists the commands, Ctrl-C stops an answer",
                pm_chat_template_name(c.chat));
        stream_catch(c.model.session);
        stream_leave_slowly(args_get(args, "session") != NULL);
        c.spoken = first != NULL;
        if (first) send(&c, first);
        loop(&c, &args->interrupted);
        if (!c.spoken && !args->interrupted && !chat_input_edits(c.in))
            chat_failed(&c,
                        error_set(PM_ERROR_USAGE, "standard input is closed or empty: no message "
                                                  "came (a message is a line)"));
        keep_session(&c, true);
        if (stream_leaves()) args->interrupted = true;
        stream_catch(NULL);
        // On a terminal failures were dealt with as they came; a script wants to know.
        if (!chat_input_edits(c.in)) status = c.failed;
        args->reported = true;
    }
    chat_input_close(c.in);
    json_decref(c.branches);
    pm_chat_destroy(c.chat);
    free(c.timing);
    loaded_free(&c.model);
    return status;
}
