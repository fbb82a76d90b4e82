// Calls of tools: shown, or run by a program after asking.
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/chat.h"

enum { MAX_RESULT = 1 << 20 };

static const json_t *member(const json_t *call, const char *key)
{
    const json_t *function = json_object_get(call, "function");
    return json_object_get(function, key);
}

// What the program is given: {"id", "name", "arguments"}.
static char *request_of(const json_t *call)
{
    json_t *request = json_pack("{s:O, s:O, s:O}", "id", json_object_get(call, "id"), "name",
                                member(call, "name"), "arguments", member(call, "arguments"));
    char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
    json_decref(request);
    return text;
}

static bool allowed(conversation *c, const json_t *call)
{
    char *arguments = json_dumps(member(call, "arguments"), 0);
    buf question = {0};
    buf_printf(&question, "run %s %s? [y/N] ", json_string_value(member(call, "name")),
               arguments ? arguments : "");
    free(arguments);
    bool yes = args_has(c->args, "yes-tools");
    if (yes && say_wanted(c->args) && !question.failed)
        say("%.*s", (int)question.len - 9, question.data); // without "? [y/N] "
    else if (!yes)
        yes = !question.failed && chat_input_confirm(c->in, question.data);
    buf_free(&question);
    return yes;
}

static pm_status run(const char *program, const json_t *call, buf *result)
{
    char *request = request_of(call), *output = NULL;
    size_t n = 0;
    int exit_status = 0;
    if (!request) return error_memory("a call", 0);
    pm_status status =
        os_run_program(program, request, strlen(request), MAX_RESULT, &output, &n, &exit_status);
    free(request);
    if (status != PM_OK) return status;
    if (n > 0 && output[n - 1] == '\n') n--;
    if (memchr(output, 0, n)) n = strlen(output); // messages are text
    buf_add(result, output, n);
    if (exit_status) buf_printf(result, "%s(exit status %d)", n ? "\n" : "", exit_status);
    free(output);
    return result->failed ? error_memory("a result", n) : PM_OK;
}

// The result of one call is added whatever happens; false: the model is not to go on by itself.
static bool answer_call(conversation *c, const char *program, const json_t *call)
{
    buf result = {0};
    bool goes_on = true;
    if (!allowed(c, call)) {
        buf_str(&result, "The user did not allow this call.");
        goes_on = os_interrupts() == 0; // Ctrl-C instead of an answer
    } else {
        pm_status status = run(program, call, &result);
        if (status != PM_OK) {
            chat_failed(c, status);
            buf_free(&result);
            buf_printf(&result, "error: %s", pm_last_error());
            goes_on = false;
        }
    }
    const char *id = text_in(call, "id", NULL);
    pm_status status = result.failed
                           ? error_memory("a result", 0)
                           : pm_chat_add_tool_result(c->chat, id, result.data ? result.data : "");
    buf_free(&result);
    if (status != PM_OK) chat_failed(c, status);
    return status == PM_OK && goes_on;
}

static json_t *last_calls(conversation *c)
{
    json_t *messages = chat_messages(c);
    json_t *calls =
        json_object_get(json_array_get(messages, json_array_size(messages) - 1), "tool_calls");
    json_incref(calls);
    json_decref(messages);
    return calls;
}

bool chat_run_calls(conversation *c)
{
    const char *program = args_get(c->args, "tools-command");
    json_t *calls = last_calls(c);
    bool goes_on = json_array_size(calls) > 0;
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i);
        if (program)
            goes_on = answer_call(c, program, call) && goes_on;
        else
            out_json(call, JSON_COMPACT);
    }
    if (!program && json_array_size(calls) > 0) {
        out_flush();
        if (say_wanted(c->args)) say("(/tool RESULT gives what the tool answered)");
    }
    json_decref(calls);
    return program && goes_on;
}

// Does a call of the conversation still wait for its result?
static bool waiting(conversation *c)
{
    json_t *messages = chat_messages(c);
    size_t n_calls = 0, n_results = 0, index;
    const json_t *message;
    json_array_foreach(messages, index, message)
    {
        n_calls += json_array_size(json_object_get(message, "tool_calls"));
        n_results += json_object_get(message, "tool_call_id") != NULL;
    }
    json_decref(messages);
    return n_results < n_calls;
}

void chat_tool_command(conversation *c, const char *rest)
{
    json_t *before = chat_messages(c);
    if (!before) return;
    pm_status status = pm_chat_add_tool_result(c->chat, NULL, rest);
    if (status != PM_OK) chat_failed(c, status);
    if (status == PM_OK && !waiting(c))
        c->go_on = before;
    else
        json_decref(before);
}
