// chat without a terminal: every line of the input is a message or a command.
#include "cli/cli_test.h"

#include <unistd.h>

#include "base/buf.h"

#define OPTIONS "--temp 0 -n 6 --device reference"

// Writes the lines of a chat and runs it; "%s" of FILES stands for test_temp("files").
static int chat(const char *lines, const char *options, char **out, char **err)
{
    test_write(test_temp("lines"), lines, strlen(lines));
    return pumice(out, err, "$P chat '%s' " OPTIONS " %s <'%s'", tiny(), options,
                  test_temp("lines"));
}

// The document in a saved conversation: its second line.
static json_t *saved(const char *path)
{
    char *text = test_read(path, NULL), *line = strchr(text, '\n');
    json_t *all = line ? json_loads(line + 1, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, NULL) : NULL;
    free(text);
    if (!all) fail_msg("%s: nothing saved", path);
    json_t *messages = json_incref(key_of(all, "messages"));
    json_decref(all);
    return messages;
}

static const char *content(const json_t *messages, size_t index)
{
    return json_string_value(key_of(json_array_get(messages, index), "content"));
}

static void answers_and_nothing_else(void **state)
{
    (void)state;
    char *out, *err, *asked = output_of("$P ask '%s' hi " OPTIONS, tiny());
    assert_int_equal(chat("hi\n", "", &out, &err), 0);
    assert_string_equal(out, asked);
    assert_string_equal(err, "");
    free(out);
    free(err);
    assert_int_equal(chat("\n", "--prompt hi", &out, &err), 0);
    assert_string_equal(out, asked);
    free(out);
    free(err);
    assert_int_equal(chat("", "", &out, &err), 2); // nothing was asked
    assert_string_equal(out, "");
    free(out);
    free(err);
    free(asked);
}

// The second answer is that of a fresh start with the same conversation.
static void r50_turns_are_kept(void **state)
{
    (void)state;
    char lines[4096], path[1024], *out, *err;
    snprintf(path, sizeof path, "%s", test_temp("turns.json"));
    snprintf(lines, sizeof lines, "hi\nhow are you?\n/stats\n/save %s\n", path);
    assert_int_equal(chat(lines, "--system 'be kind'", &out, &err), 0);
    json_t *messages = saved(path);
    assert_int_equal(json_array_size(messages), 5);
    assert_string_equal(content(messages, 0), "be kind");
    assert_string_equal(content(messages, 1), "hi");
    assert_string_equal(content(messages, 3), "how are you?");
    // Of the second prompt, the first turn was in the cache.
    const char *reused = strstr(err, "last prompt: ");
    assert_non_null(reused);
    assert_true(atoi(reused + 13) > 20);
    json_decref(messages);

    char *fresh;
    snprintf(lines, sizeof lines, "/load %s\n/regen\n", path);
    assert_int_equal(chat(lines, "", &fresh, NULL), 0);
    size_t n = strlen(fresh);
    assert_true(n > 0 && strlen(out) > n);
    assert_string_equal(out + strlen(out) - n, fresh);
    free(fresh);
    free(out);
    free(err);
}

// A new answer leaves the old one as a branch; one that fails leaves everything as it was.
static void r50_branches(void **state)
{
    (void)state;
    char lines[4096], a[1024], b[1024], *out, *err;
    snprintf(a, sizeof a, "%s", test_temp("branch-a.json"));
    snprintf(b, sizeof b, "%s", test_temp("branch-b.json"));
    snprintf(lines, sizeof lines,
             "/branches\none\ntwo\n/undo\nthree\n/branches\n/branches 1\n/save %s\n/branches 7\n"
             "/branches 1\n/save %s\n/branches\n",
             a, b);
    assert_int_equal(chat(lines, "", &out, &err), 2); // the number that there is not
    assert_non_null(strstr(err, "there are no branches"));
    assert_non_null(strstr(err, "1: 4 messages, two"));
    assert_non_null(strstr(err, "/branches: no number '7' (1 to 1)"));
    json_t *m = saved(a);
    assert_int_equal(json_array_size(m), 4);
    assert_string_equal(content(m, 0), "one");
    assert_string_equal(content(m, 2), "two");
    json_decref(m);
    m = saved(b);
    assert_int_equal(json_array_size(m), 4);
    assert_string_equal(content(m, 2), "three");
    json_decref(m);
    free(out);
    free(err);
    // branches are kept with the conversation
    snprintf(lines, sizeof lines, "/load %s\n/branches 1\n/save %s\n", b, a);
    assert_int_equal(chat(lines, "", &out, &err), 0);
    m = saved(a);
    assert_string_equal(content(m, 2), "two");
    json_decref(m);
    free(out);
    free(err);
}

static void r50_regen_keeps_the_old_answer(void **state)
{
    (void)state;
    char lines[4096], path[1024], *out, *err;
    snprintf(path, sizeof path, "%s", test_temp("regen.json"));
    // by draws, so that the new answer is another one
    snprintf(lines, sizeof lines, "one\n/regen\n/branches\n/branches 1\n/save %s\n", path);
    assert_int_equal(chat(lines, "--temp 2 --seed 3", &out, &err), 0);
    assert_non_null(strstr(err, "1: 2 messages, one -> "));
    json_t *m = saved(path);
    const char *first = content(m, 1);
    assert_true(!strncmp(out, first, strlen(first)));
    json_decref(m);
    free(out);
    free(err);
    // the template lets the first answer pass and not the second
    static const char once[] = "{%- if clock is not defined and messages | length == 1 and "
                               "messages[0].content == 'fail' -%}{{ raise_exception('no') }}"
                               "{%- endif -%}{{ messages[0].content }}";
    static const char saved_chat[] =
        "{\"pumice_chat\": 1, \"messages\": [{\"role\": \"user\", \"content\": \"fail\"}, "
        "{\"role\": \"assistant\", \"content\": \"the old answer\"}]}";
    char template[1024], old[1024];
    snprintf(template, sizeof template, "%s", test_temp("once.jinja"));
    snprintf(old, sizeof old, "%s", test_temp("old.json"));
    test_write(template, once, sizeof once - 1);
    test_write(old, saved_chat, sizeof saved_chat - 1);
    snprintf(lines, sizeof lines, "/load %s\n/save %s\n/regen\n", old, path);
    char options[2200], session[1024];
    snprintf(session, sizeof session, "%s", test_temp("regen.session"));
    snprintf(options, sizeof options, "--template '%s' --session '%s'", template, session);
    assert_int_equal(chat(lines, options, &out, &err), 1);
    m = saved(session);
    assert_int_equal(json_array_size(m), 2);
    assert_string_equal(content(m, 1), "the old answer");
    json_decref(m);
    free(out);
    free(err);
}

// What was left is there again, text and cache.
static void r50_a_session_goes_on(void **state)
{
    (void)state;
    char path[1024], options[1100], *out, *err, *at_once;
    snprintf(path, sizeof path, "%s", test_temp("go on.session"));
    snprintf(options, sizeof options, "--session '%s'", path);
    assert_int_equal(chat("one\ntwo\n", options, &out, &err), 0);
    assert_string_equal(err, "");
    free(out);
    free(err);
    assert_int_equal(chat("three\n/stats\n", options, &out, &err), 0);
    assert_non_null(strstr(err, "loaded: "));
    const char *reused = strstr(err, "last prompt: ");
    assert_non_null(reused);
    assert_true(atoi(reused + 13) > 40);
    free(err);
    assert_int_equal(chat("one\ntwo\nthree\n", "", &at_once, NULL), 0);
    assert_string_equal(at_once + strlen(at_once) - strlen(out), out);
    free(at_once);
    free(out);
    json_t *m = saved(path);
    assert_int_equal(json_array_size(m), 6);
    json_decref(m);
    // a file that is something else is left alone
    test_write(path, "mine", 4);
    assert_int_equal(chat("one\n", options, &out, &err), 3);
    assert_string_equal(out, "");
    free(out);
    free(err);
    char *still = test_read(path, NULL);
    assert_string_equal(still, "mine");
    free(still);
}

// A signal that asks for the end, waiting for a message or in the middle of an answer: text and
// cache are kept, and the exit status is the signal's.
static void r50_a_signal_keeps_the_session(void **state)
{
    (void)state;
    static const char *const moments[][2] = {{"6", "[ -s \"$O\" ] && sleep 0.5"},
                                             {"400", "[ -s \"$O\" ]"}};
    for (size_t k = 0; k < 2; k++) {
        char path[1024], options[1100], *out, *err;
        snprintf(path, sizeof path, "%s", test_temp(k ? "cut.session" : "ended.session"));
        snprintf(options, sizeof options, "--session '%s'", path);
        int status =
            pumice(NULL, &err,
                   "O='%s.out'; rm -f \"$O\"; mkfifo '%s.in'; $P chat '%s' --temp 0 -n %s "
                   "--logit-bias 426:-1000 --device cpu --session '%s' <'%s.in' >\"$O\" & "
                   "pid=$!; exec 3>'%s.in'; echo one >&3; n=0; until { %s; } || [ $n -gt 300 "
                   "]; do sleep 0.1; n=$((n+1)); done; kill -TERM $pid; wait $pid",
                   path, path, tiny(), moments[k][0], path, path, path, moments[k][1]);
        if (status != 143) fail_msg("exit status %d: %s", status, err);
        free(err);
        json_t *m = saved(path);
        assert_int_equal(json_array_size(m), 2);
        json_decref(m);
        assert_int_equal(pumice(&out, &err,
                                "printf 'two\n' | $P chat '%s' --temp 0 -n 6 --device cpu %s",
                                tiny(), options),
                         0);
        const char *loaded = strstr(err, "(2 messages, ");
        assert_non_null(loaded);
        if (atoi(loaded + 13) < 20) fail_msg("the cache was not kept: %s", err);
        free(out);
        free(err);
    }
}

static void tools_are_run(void **state)
{
    (void)state;
    static const char tools[] = "[{\"name\": \"add\", \"parameters\": {\"properties\": {\"a\": "
                                "{}, \"b\": {}}}}]";
    // a call when asked, an answer behind the result
    static const char grammar[] = "root ::= \"<tool_call>{\\\"name\\\": \\\"add\\\", "
                                  "\\\"arguments\\\": {\\\"a\\\": 2}}</tool_call>\"\n";
    static const char program[] = "#!/bin/sh\ncat >\"$0.got\"\necho seven\nexit 3\n";
    char tool_file[1024], say[1024], run[1024], kept[1024], options[4400], lines[1100], *out, *err;
    snprintf(tool_file, sizeof tool_file, "%s", test_temp("tools.json"));
    snprintf(say, sizeof say, "%s", test_temp("say.gbnf"));
    snprintf(run, sizeof run, "%s", test_temp("run.sh"));
    snprintf(kept, sizeof kept, "%s", test_temp("tools.chat"));
    test_write(tool_file, tools, sizeof tools - 1);
    test_write(say, grammar, sizeof grammar - 1);
    test_write(run, program, sizeof program - 1);
    chmod(run, 0700);
    snprintf(options, sizeof options,
             "--tools '%s' --grammar '%s' --template '%s' --ctx 16384 -n 200 --device cpu "
             "--tools-command '%s'",
             tool_file, say, test_data("templates/smollm3.jinja"), run);
    // asking takes a terminal
    assert_int_equal(chat("one\n", options, &out, &err), 2);
    assert_non_null(strstr(err, "--yes-tools"));
    free(out);
    free(err);
    size_t n = strlen(options);
    snprintf(options + n, sizeof options - n, " --yes-tools");
    snprintf(lines, sizeof lines, "one\n/save %s\n", kept);
    assert_int_equal(chat(lines, options, &out, &err), 0);
    assert_non_null(strstr(err, "one after the other")); // this model calls for ever
    json_t *m = saved(kept);
    assert_int_equal(json_array_size(m), 1 + 2 * 32);
    assert_string_equal(content(m, 2), "seven\n(exit status 3)");
    assert_string_equal(json_string_value(json_object_get(json_array_get(m, 2), "tool_call_id")),
                        "call00000");
    json_decref(m);
    free(out);
    free(err);
    char got[1100], *request;
    snprintf(got, sizeof got, "%s.got", run);
    request = test_read(got, NULL);
    assert_string_equal(request, "{\"id\":\"call00031\",\"name\":\"add\",\"arguments\":{\"a\":2}}");
    free(request);
    // without a program the call is shown, and /tool gives the result
    options[strstr(options, "--tools-command") - options] = 0;
    snprintf(lines, sizeof lines, "one\n/tool seven\n/save %s\n", kept);
    assert_int_equal(chat(lines, options, &out, &err), 0);
    assert_int_equal(count_lines(out), 2);
    json_t *shown = json_loads(out, JSON_DISABLE_EOF_CHECK, NULL);
    assert_string_equal(json_string_value(key_of(shown, "id")), "call00000");
    json_decref(shown);
    m = saved(kept);
    assert_int_equal(json_array_size(m), 4);
    assert_string_equal(content(m, 2), "seven");
    json_decref(m);
    free(out);
    free(err);
}

static void r50_undo_clear_and_system(void **state)
{
    (void)state;
    char lines[4096], a[1024], b[1024], c[1024], *out, *err;
    snprintf(a, sizeof a, "%s", test_temp("a.json"));
    snprintf(b, sizeof b, "%s", test_temp("b.json"));
    snprintf(c, sizeof c, "%s", test_temp("c.json"));
    snprintf(lines, sizeof lines,
             "/system be brief\none\ntwo\n/undo\n/save %s\n/clear\n/save %s\n/undo\n/regen\n"
             "/system be long\n/system\nthree\n/save %s\n/quit\nnever\n",
             a, b, c);
    assert_int_equal(chat(lines, "", &out, &err), 0);
    json_t *m = saved(a);
    assert_int_equal(json_array_size(m), 3);
    assert_string_equal(content(m, 1), "one");
    json_decref(m);
    m = saved(b);
    assert_int_equal(json_array_size(m), 1);
    assert_string_equal(content(m, 0), "be brief");
    json_decref(m);
    m = saved(c);
    assert_int_equal(json_array_size(m), 3);
    assert_string_equal(content(m, 0), "be long");
    assert_string_equal(content(m, 1), "three");
    json_decref(m);
    assert_non_null(strstr(err, "system message: be long"));
    free(out);
    free(err);
}

static void r50_slashes_and_many_lines(void **state)
{
    (void)state;
    char lines[4096], path[1024], *out, *err;
    snprintf(path, sizeof path, "%s", test_temp("many.json"));
    snprintf(lines, sizeof lines,
             "//etc is a folder\nfirst\\\nsecond\n\"\"\"\nthird\n/quit\n\nfourth\"\"\"\n"
             "\"\"\"fifth\"\"\"\n/save %s\n",
             path);
    assert_int_equal(chat(lines, "", &out, &err), 0);
    json_t *m = saved(path);
    assert_int_equal(json_array_size(m), 8);
    assert_string_equal(content(m, 0), "/etc is a folder");
    assert_string_equal(content(m, 2), "first\nsecond");
    assert_string_equal(content(m, 4), "third\n/quit\n\nfourth");
    assert_string_equal(content(m, 6), "fifth");
    json_decref(m);
    free(out);
    free(err);
}

static void wrong_commands(void **state)
{
    (void)state;
    char *out, *err;
    assert_int_equal(chat("/regne\n/save\n/quit now\n/help\n", "", &out, &err), 2);
    assert_string_equal(out, "");
    assert_non_null(strstr(err, "pumice: error: /regne: no such command (did you mean /regen?"));
    assert_non_null(strstr(err, "pumice: error: /save: needs a FILE"));
    assert_non_null(strstr(err, "pumice: error: /quit: takes nothing"));
    static const char *const names[] = {"/help",   "/regen",    "/undo", "/branches", "/clear",
                                        "/system", "/save",     "/load", "/stats",    "/tool",
                                        "/think",  "/no_think", "/quit"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
        assert_non_null(strstr(err, names[k]));
    free(out);
    free(err);
}

// A file that is no conversation is refused, and the one at hand goes on.
static void broken_files_are_refused(void **state)
{
    (void)state;
    static const char *const broken[] = {
        "",
        "{\"pumice_chat\": 1, \"messages\": [{\"role\": \"us",
        "[]",
        "{\"messages\": []}",
        "{\"pumice_chat\": 99, \"messages\": []}",
        "{\"pumice_chat\": 1}",
        "{\"pumice_chat\": 1, \"messages\": [7]}",
        "{\"pumice_chat\": 1, \"messages\": [{\"role\": \"user\"}]}",
        "{\"pumice_chat\": 1, \"messages\": [{\"role\": \"user\", \"content\": 3}]}"};
    for (size_t k = 0; k < sizeof broken / sizeof broken[0]; k++) {
        char lines[4096], bad[1024], path[1024], *out, *err;
        snprintf(bad, sizeof bad, "%s", test_temp("bad.json"));
        snprintf(path, sizeof path, "%s", test_temp("kept.json"));
        test_write(bad, broken[k], strlen(broken[k]));
        remove(path);
        snprintf(lines, sizeof lines,
                 "/system stay\n/load %s\n/load /nowhere\n/save /nowhere/x\n"
                 "/save %s\n",
                 bad, path);
        int status = chat(lines, "", &out, &err);
        assert_true(status == 2 || status == 3);
        assert_int_equal(count_lines(err), 3 + 2); // the errors, the two commands that worked
        assert_non_null(strstr(err, "bad.json"));
        json_t *kept = saved(path);
        assert_int_equal(json_array_size(kept), 1);
        assert_string_equal(content(kept, 0), "stay");
        json_decref(kept);
        free(out);
        free(err);
    }
}

// A message that does not fit is refused with both numbers; the next one is answered.
static void a_message_that_is_too_long(void **state)
{
    (void)state;
    buf lines = {0};
    char *out, *err;
    for (int k = 0; k < 60; k++) buf_str(&lines, "a b c d e f ");
    buf_str(&lines, "\nhi\n");
    assert_int_equal(chat(lines.data, "--ctx 64", &out, &err), 2);
    assert_non_null(strstr(err, "64"));
    assert_int_equal(count_lines(err), 1);
    char *asked = output_of("$P ask '%s' hi " OPTIONS, tiny());
    assert_string_equal(out, asked);
    free(asked);
    free(out);
    free(err);
    buf_free(&lines);
}

// A full context drops the oldest turns and says so.
static void a_full_context(void **state)
{
    (void)state;
    buf lines = {0};
    char *out, *err;
    for (int k = 0; k < 12; k++) buf_str(&lines, "tell me more of this\n");
    assert_int_equal(chat(lines.data, "--ctx 128 --system kind", &out, &err), 0);
    assert_non_null(strstr(err, "pumice: warning: "));
    assert_non_null(strstr(err, "oldest"));
    free(out);
    free(err);
    assert_int_equal(chat(lines.data, "--ctx 128 --system kind -q", &out, &err), 0);
    assert_string_equal(err, "");
    free(out);
    free(err);
    buf_free(&lines);
}

// What the model no longer reads is in the file all the same, and the cache goes on to be of use.
static void r50_a_full_context_keeps_the_session(void **state)
{
    (void)state;
    char path[1024], options[1100], *out, *err;
    snprintf(path, sizeof path, "%s", test_temp("full.session"));
    snprintf(options, sizeof options, "--ctx 128 --session '%s'", path);
    assert_int_equal(chat("the first\nsecond\nthird\nfourth\nfifth\n", options, &out, &err), 0);
    assert_non_null(strstr(err, "oldest"));
    free(out);
    free(err);
    assert_int_equal(chat("sixth\n/stats\n", options, &out, &err), 0);
    const char *reused = strstr(err, "last prompt: ");
    assert_non_null(reused);
    assert_true(atoi(reused + 13) > 40);
    json_t *m = saved(path);
    assert_int_equal(json_array_size(m), 12);
    assert_string_equal(content(m, 0), "the first");
    json_decref(m);
    free(out);
    free(err);
}

// A conversation that was cleared is empty in its file, and a branch of it.
static void r50_a_cleared_session(void **state)
{
    (void)state;
    char path[1024], options[1100], *out, *err;
    snprintf(path, sizeof path, "%s", test_temp("cleared.session"));
    snprintf(options, sizeof options, "--session '%s'", path);
    assert_int_equal(chat("one\n", options, &out, &err), 0);
    free(out);
    free(err);
    assert_int_equal(chat("/clear\n", options, &out, &err), 0);
    json_t *m = saved(path);
    assert_int_equal(json_array_size(m), 0);
    json_decref(m);
    free(out);
    free(err);
    assert_int_equal(chat("/branches 1\n", options, &out, &err), 0);
    m = saved(path);
    assert_int_equal(json_array_size(m), 2);
    assert_string_equal(content(m, 0), "one");
    json_decref(m);
    free(out);
    free(err);
    // where nothing was said there is nothing to keep
    remove(path);
    assert_int_equal(chat("/undo\n", options, &out, &err), 0);
    assert_int_equal(access(path, F_OK), -1);
    free(out);
    free(err);
}

// A place where nothing can be kept is told of before anything is asked, and one that goes away
// once.
static void r50_a_session_that_cannot_be_kept(void **state)
{
    (void)state;
    char *out, *err;
    assert_refused(1, "--session: /no/folder/s",
                   "echo hi | $P chat '%s' " OPTIONS " --session /no/folder/s", tiny());
    assert_refused(1, "Is a directory", "echo hi | $P chat '%s' " OPTIONS " --session '%s'", tiny(),
                   home_folder());
    assert_refused(3, "not a regular file", // and nobody waits for its other end
                   "mkfifo '%s'; echo hi | timeout 30 $P chat '%s' " OPTIONS " --session '%s'",
                   test_temp("pipe"), tiny(), test_temp("pipe"));
    int status =
        pumice(&out, &err,
               "D='%s'; mkdir \"$D\"; { echo one; n=0; until [ -e \"$D/s\" ] || [ $n -gt "
               "300 ]; do sleep 0.1; n=$((n+1)); done; rm -r \"$D\"; echo two; echo three; "
               "} | $P chat '%s' " OPTIONS " --session \"$D/s\"",
               test_temp("goes away"), tiny());
    assert_int_equal(status, 1);
    assert_int_equal(count_lines(err), 1);
    assert_true(count_lines(out) >= 3);
    free(out);
    free(err);
}

static void r43_the_sampler_is_shown(void **state)
{
    (void)state;
    char *out, *err;
    assert_int_equal(chat("hi\n", "-v --seed 5", &out, &err), 0);
    assert_non_null(strstr(err, "sampler: "));
    assert_non_null(strstr(err, "; seed 5, and one more each answer\n"));
    free(out);
    free(err);
}

// Answers go on to differ behind /think, and what the last one took stays known.
static void r50_thinking_goes_on(void **state)
{
    (void)state;
    char lines[4096], a[1024], b[1024], *out, *err;
    snprintf(a, sizeof a, "%s", test_temp("thinks.json"));
    snprintf(b, sizeof b, "%s", test_temp("thinks again.json"));
    snprintf(lines, sizeof lines, "one\n/save %s\n/think\n/stats\n/regen\n/save %s\n", a, b);
    assert_int_equal(chat(lines, "--temp 2 --seed 3 --template chatml", &out, &err), 0);
    assert_non_null(strstr(err, "last prompt: 0 tokens reused, 19 new"));
    json_t *first = saved(a), *second = saved(b);
    assert_string_not_equal(content(first, 1), content(second, 1));
    json_decref(first);
    json_decref(second);
    free(out);
    free(err);
    // it does what the option does
    snprintf(lines, sizeof lines, "/no_think\none\n/stats\n");
    assert_int_equal(chat(lines, "", &out, &err), 0);
    char *option_out, *option_err, *new = strstr(err, "last prompt: ");
    assert_non_null(new);
    assert_int_equal(chat("one\n/stats\n", "--no-think", &option_out, &option_err), 0);
    assert_string_equal(option_out, out);
    assert_non_null(strstr(option_err, "last prompt: "));
    assert_int_equal(strncmp(strstr(option_err, "last prompt: "), new, strcspn(new, "\n")), 0);
    free(option_out);
    free(option_err);
    free(out);
    free(err);
}

static void a_zero_byte_is_refused(void **state)
{
    (void)state;
    char *out, *err, *asked = output_of("$P ask '%s' hi " OPTIONS, tiny());
    assert_int_equal(
        pumice(&out, &err,
               "printf 'hi\\0secret\\n\"\"\"a\\0\"\"\"\\nhi\\n' | $P chat '%s' " OPTIONS, tiny()),
        2);
    assert_string_equal(out, asked);
    assert_int_equal(count_lines(err), 2);
    assert_non_null(strstr(err, "zero byte"));
    free(asked);
    free(out);
    free(err);
}

// Only what was asked for is said.
static void quiet_commands(void **state)
{
    (void)state;
    char lines[4096], *out, *err;
    snprintf(lines, sizeof lines,
             "one\n/save %s\n/regen\n/undo\n/branches 1\n/think\n/system be kind\n/clear\n",
             test_temp("quiet.json"));
    assert_int_equal(chat(lines, "-q --temp 2 --seed 3", &out, &err), 0);
    assert_string_equal(err, "");
    free(out);
    free(err);
    assert_int_equal(chat("/system\n", "-q --system kind", &out, &err), 0);
    assert_string_equal(err, "system message: kind\n");
    free(out);
    free(err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_and_nothing_else),
        cmocka_unit_test(r50_turns_are_kept),
        cmocka_unit_test(r50_branches),
        cmocka_unit_test(r50_regen_keeps_the_old_answer),
        cmocka_unit_test(r50_a_session_goes_on),
        cmocka_unit_test(r50_a_signal_keeps_the_session),
        cmocka_unit_test(tools_are_run),
        cmocka_unit_test(r50_undo_clear_and_system),
        cmocka_unit_test(r50_slashes_and_many_lines),
        cmocka_unit_test(wrong_commands),
        cmocka_unit_test(broken_files_are_refused),
        cmocka_unit_test(a_message_that_is_too_long),
        cmocka_unit_test(a_full_context),
        cmocka_unit_test(r50_a_full_context_keeps_the_session),
        cmocka_unit_test(r50_a_cleared_session),
        cmocka_unit_test(r50_a_session_that_cannot_be_kept),
        cmocka_unit_test(r43_the_sampler_is_shown),
        cmocka_unit_test(r50_thinking_goes_on),
        cmocka_unit_test(a_zero_byte_is_refused),
        cmocka_unit_test(quiet_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
