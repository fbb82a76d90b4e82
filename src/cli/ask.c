// pumice ask: one question, one answer.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/cli.h"

const cli_option ask_options[] = {
    {"model", 'm', "MODEL", "the model, instead of the first word"},
    {"prompt", 'p', "TEXT", "the prompt, instead of the last word"},
    {"file", 'f', "FILE", "the prompt is in FILE (-: standard input)"},
    {"system", 0, "TEXT", "the system message"},
    {"raw", 0, NULL, "no chat template: the model continues PROMPT"},
    {"special", 0, NULL, "with --raw: control tokens named in PROMPT are recognised"},
    {"show-template", 0, NULL, "print the whole rendered prompt before the answer"},
    {"json", 0, NULL, "the answer as one JSON document"},
    SHOW_THINKING_OPTION,
    {0},
};

// The two words in all their spellings.
typedef struct question {
    const char *model; // NULL: -m or the default
    char *prompt;      // released with free
    size_t n;
} question;

static pm_status take_text(question *q, const char *text)
{
    q->n = strlen(text);
    q->prompt = malloc(q->n + 1);
    if (!q->prompt) return error_memory("the prompt", q->n);
    memcpy(q->prompt, text, q->n + 1);
    return PM_OK;
}

static pm_status take_file(question *q, const char *path, bool raw)
{
    pm_status status = read_input(path, &q->prompt, &q->n);
    // An editor's or echo's last line break is not part of a message.
    if (status == PM_OK && !raw && q->n && q->prompt[q->n - 1] == '\n') q->prompt[--q->n] = 0;
    return status;
}

static pm_status find_question(const cli_args *args, question *q)
{
    const char *text = args_get(args, "prompt"), *file = args_get(args, "file");
    bool raw = args_has(args, "raw"), given = text || file;
    int n = args->n_words;
    const char *word = NULL;
    if (text && file)
        return error_set(PM_ERROR_USAGE, "--prompt and --file: both give a prompt (leave one out)");
    if (n == 2) {
        q->model = args->words[0];
        word = args->words[1];
    } else if (n == 1) {
        bool is_model = given || (!args_get(args, "model") && model_exists(args->words[0]));
        *(is_model ? &q->model : &word) = args->words[0];
    }
    if (word && given)
        return error_set(PM_ERROR_USAGE, "'%s': the prompt is given twice (leave one out)", word);
    if (q->model && args_get(args, "model"))
        return error_set(PM_ERROR_USAGE,
                         "'%s': the model is given twice (leave out one of it and "
                         "--model)",
                         q->model);

    pm_status status;
    if (word)
        status = take_text(q, word);
    else if (text)
        status = take_text(q, text);
    else if (file)
        status = take_file(q, file, raw);
    else if (os_is_terminal(0))
        return error_set(PM_ERROR_USAGE, "no prompt (add it as a word, with -p TEXT or -f FILE, or "
                                         "pipe it in)");
    else
        status = take_file(q, "-", raw);
    if (status != PM_OK) return status;
    if (q->n == 0 || (!raw && strspn(q->prompt, " \t\r\n") == q->n))
        return error_set(PM_ERROR_USAGE, "the prompt is empty (add it as a word, with -p TEXT or "
                                         "-f FILE, or pipe it in)");
    if (!raw && memchr(q->prompt, 0, q->n))
        return error_set(PM_ERROR_USAGE, "the prompt holds a zero byte (text can't; with --raw it "
                                         "may)");
    return PM_OK;
}

// ELELEM_GGUF_MAX_TOKENS is the default of --max-tokens.
static pm_status default_max_tokens(const cli_args *args)
{
    const char *value = getenv("ELELEM_GGUF_MAX_TOKENS");
    if (!value || !*value || pm_options_is_set(args->options, "max-tokens")) return PM_OK;
    return error_in(pm_options_set(args->options, "max-tokens", value), "ELELEM_GGUF_MAX_TOKENS");
}

// What follows the prompt as it stands.
static pm_status start_raw(const cli_args *args, const loaded *l, const question *q,
                           pm_generation **generation)
{
    int flags = PM_TOKENS_BOS | (args_has(args, "special") ? PM_TOKENS_SPECIAL : 0);
    size_t n = 0;
    pm_status status = pm_tokenize(l->model, q->prompt, q->n, flags, NULL, 0, &n);
    int32_t *ids = status == PM_OK ? malloc((n + 1) * sizeof *ids) : NULL;
    if (status == PM_OK && !ids) status = error_memory("the prompt's tokens", n * sizeof *ids);
    if (status == PM_OK) status = pm_tokenize(l->model, q->prompt, q->n, flags, ids, n, &n);
    if (status == PM_OK)
        status = pm_generation_start(l->session, args->options, ids, n, generation);
    if (status == PM_OK && args_has(args, "show-template")) out_bytes(q->prompt, q->n);
    free(ids);
    return status;
}

static pm_status start_chat(const cli_args *args, const loaded *l, const question *q,
                            pm_chat **chat, pm_generation **generation)
{
    const char *system = args_get(args, "system");
    pm_status status = pm_chat_create(l->session, args->options, chat);
    if (status == PM_OK && say_wanted(args) && args->verbose)
        say("template: %s", pm_chat_template_name(*chat));
    if (status == PM_OK && system) status = pm_chat_add(*chat, "system", system);
    if (status == PM_OK) status = pm_chat_add(*chat, "user", q->prompt);
    if (status == PM_OK) status = pm_chat_generate(*chat, NULL, generation);
    if (status != PM_OK || !args_has(args, "show-template")) return status;
    char *text = NULL;
    size_t n = 0;
    status = pm_chat_render(*chat, 1, &text, &n);
    if (status == PM_OK) out_bytes(text, n);
    pm_free(text);
    return status;
}

static pm_status print_json(const pm_generation *generation)
{
    char *text = NULL;
    pm_status status = pm_generation_json(generation, &text);
    if (status != PM_OK) return status;
    out_text(text);
    out_text("\n");
    pm_free(text);
    return PM_OK;
}

// Calls of tools are part of the answer: one JSON document a line.
static pm_status print_calls(const pm_generation *generation)
{
    char *text = NULL;
    if (pm_generation_n_tool_calls(generation) == 0) return PM_OK;
    pm_status status = pm_generation_tool_calls(generation, &text);
    if (status != PM_OK) return status;
    json_t *calls = json_loads(text, JSON_ALLOW_NUL, NULL);
    pm_free(text);
    for (size_t i = 0; i < json_array_size(calls); i++)
        out_json(json_array_get(calls, i), JSON_COMPACT);
    json_decref(calls);
    return PM_OK;
}

// A limit can come before the grammar's text is whole, or before it has begun.
static void warn_of_grammar(const cli_args *args, const pm_generation *generation)
{
    if (args->quiet || strcmp(pm_generation_finish_reason(generation), "length") != 0) return;
    if (!pm_generation_follows_grammar(generation))
        say_warning("the answer does not follow the grammar: --max-tokens or the context ended it "
                    "before");
}

// What asks for a chat does not go with --raw, nor does anything else that would have no effect.
static pm_status check_ask(const cli_args *args, bool raw, bool json)
{
    static const char *const of_chats[] = {"tools", "python-tools", "template", "think",
                                           "no-think"};
    if (raw && args_get(args, "system"))
        return error_set(PM_ERROR_USAGE, "--system: needs the chat template that --raw leaves out");
    for (size_t i = 0; raw && i < sizeof of_chats / sizeof *of_chats; i++)
        if (pm_options_is_set(args->options, of_chats[i]))
            return error_set(PM_ERROR_USAGE, "--%s: needs the chat template that --raw leaves out",
                             of_chats[i]);
    if (!raw && args_has(args, "special"))
        return error_set(PM_ERROR_USAGE, "--special: goes with --raw");
    const char *logprobs = pm_options_get(args->options, "logprobs");
    if (!json && strcmp(logprobs, "-1") != 0)
        return error_set(PM_ERROR_USAGE, "--logprobs: goes with --json");
    if (json && args_has(args, "show-template"))
        return error_set(PM_ERROR_USAGE, "--show-template: does not go with --json");
    return PM_OK;
}

pm_status run_ask(cli_args *args)
{
    question q = {0};
    loaded l = {0};
    pm_chat *chat = NULL;
    pm_generation *generation = NULL;
    bool raw = args_has(args, "raw"), json = args_has(args, "json");
    stream s = {.show = !json, .reasoning = stream_reasoning(args)};

    pm_status status = check_ask(args, raw, json);
    if (status == PM_OK) status = default_max_tokens(args);
    if (status == PM_OK) status = find_question(args, &q);
    if (status == PM_OK) status = loaded_model(args, q.model, &l);
    if (status == PM_OK) status = loaded_session(args, &l);
    if (status != PM_OK) goto done;

    status = show_sampler(args, &l, "");
    if (status != PM_OK) goto done;
    stream_catch(l.session);
    status =
        raw ? start_raw(args, &l, &q, &generation) : start_chat(args, &l, &q, &chat, &generation);
    if (status == PM_OK) status = stream_run(&s, generation);
    if (generation && status == PM_OK) warn_of_grammar(args, generation);
    if (generation && json && status == PM_OK) status = print_json(generation);
    if (generation && !json && status == PM_OK) status = print_calls(generation);
    if (generation && status == PM_OK && say_wanted(args)) {
        char *timing = timing_of(generation);
        if (timing) say("%s", timing);
        free(timing);
    }

done:
    if (raw) pm_generation_destroy(generation); // a chat's belongs to the chat
    pm_chat_destroy(chat);
    stream_catch(NULL);
    loaded_free(&l);
    free(q.prompt);
    args->interrupted = s.interrupted;
    return status;
}
