// The interactive chat in a real terminal (tmux): prompt, editing, history, Ctrl-C, the terminal's
// state afterwards. Skipped where there is no tmux.
#include "cli/cli_test.h"

#include <stdbool.h>
#include <unistd.h>

// A server of our own for each test, so that nobody's sessions are touched.
static char tmux[1200];

static char *sh(const char *format, ...)
{
    char command[8192], *out;
    va_list list;
    va_start(list, format);
    vsnprintf(command, sizeof command, format, list);
    va_end(list);
    test_run(command, &out, NULL);
    return out;
}

// Waits until the screen holds `text` that often; fails after half a minute.
static void await(const char *text, size_t times)
{
    char *screen = NULL;
    for (int k = 0; k < 300; k++) {
        free(screen);
        screen = sh("%s capture-pane -p -S -200 -J", tmux);
        size_t n = 0;
        for (const char *at = screen; (at = strstr(at, text)); at++) n++;
        if (n >= times) {
            free(screen);
            return;
        }
        usleep(100000);
    }
    fail_msg("'%s' (%zu times) did not appear on:\n%s", text, times, screen);
}

static void keys(const char *what)
{
    free(sh("%s send-keys %s", tmux, what));
}

static int start(void **state)
{
    (void)state;
    if (test_run("command -v tmux", NULL, NULL) != 0) return 0;
    // Each test has a server of its own: one that is being ended still answers on its socket.
    static int n_servers;
    char socket[32];
    snprintf(socket, sizeof socket, "tmux.%d", n_servers++);
    snprintf(tmux, sizeof tmux, "tmux -S '%s'", test_temp(socket));
    free(sh("env -u TMUX HOME='%s' LC_ALL=C.UTF-8 PS1='$ ' %s -f /dev/null new-session -d -x 120 "
            "-y 50 'exec sh'",
            home_folder(), tmux));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    if (tmux[0]) free(sh("%s kill-server", tmux));
    return 0;
}

// A shell that starts drops what was typed before its prompt.
static void await_shell(void)
{
    for (int k = 0; k < 300; k++) {
        char *screen = sh("%s capture-pane -p", tmux);
        bool ready = screen[strspn(screen, " \n")] != 0;
        free(screen);
        if (ready) return;
        usleep(100000);
    }
    fail_msg("no shell in the terminal");
}

static void begin(const char *options)
{
    if (!tmux[0]) {
        print_message("SKIPPED: no tmux\n");
        skip();
    }
    await_shell();
    free(sh("%s send-keys 'cd %s; stty -a >before; clear; %s chat %s %s' Enter", tmux,
            home_folder(), PUMICE_PROGRAM, tiny(), options));
    await("/help lists the commands", 1);
}

// The shell is back, with the program's exit status and the terminal as it was. What is typed here
// differs from what it prints.
static void left(int status)
{
    char wanted[32];
    snprintf(wanted, sizeof wanted, "status=%d", status);
    usleep(300000);
    keys("'echo status=$?' Enter");
    await(wanted, 1);
    keys("'stty -a >after; cmp before after && echo same_\"terminal\"' Enter");
    await("same_terminal", 1);
}

static void a_conversation(void **state)
{
    (void)state;
    begin("--temp 0 -n 4 --device reference");
    await("KV cache: ", 1);
    keys("'hellp' BSpace 'o' Enter");
    await("> hello", 1);
    keys("'/stats' Enter");
    await("last prompt: ", 1);
    keys("Up Up Enter"); // the history: hello again
    await("> hello", 2);
    keys("'/quit' Enter");
    left(0);
}

// A pasted text of several lines is one message; typed ones go on by \ or are fenced.
static void many_lines(void **state)
{
    (void)state;
    char kept[1100];
    snprintf(kept, sizeof kept, "%s/lines.chat", home_folder());
    begin("--temp 0 -n 4 --device reference");
    await("KV cache: ", 1);
    test_write(test_temp("pasted"), "first\n\tsecond\nthird", 19);
    free(sh("%s load-buffer '%s'", tmux, test_temp("pasted")));
    free(sh("%s paste-buffer -p", tmux));
    await("first\xe2\x90\xa4\xe2\x90\x89second\xe2\x90\xa4third", 1);
    keys("Enter");
    await("> ", 2);
    keys("'one\\' Enter");
    await(". ", 1);
    keys("'two' Enter");
    await("> ", 3);
    keys("'\"\"\"three' Enter 'four\"\"\"' Enter");
    await("> ", 4);
    keys("'/save lines.chat' Enter");
    await("saved: lines.chat (6 messages)", 1);
    keys("'/quit' Enter");
    left(0);
    char *text = test_read(kept, NULL);
    assert_non_null(strstr(text, "\"first\\n\\tsecond\\nthird\""));
    assert_non_null(strstr(text, "\"one\\ntwo\""));
    assert_non_null(strstr(text, "\"three\\nfour\""));
    free(text);
}

// The line that is edited follows the window's size.
static void another_size(void **state)
{
    (void)state;
    begin("--temp 0 -n 4 --device reference");
    await("KV cache: ", 1);
    keys("'a rather long line that takes more than forty columns on the screen'");
    await("columns on the screen", 1);
    free(sh("%s set-option -g window-size manual \\; resize-window -x 40 -y 30", tmux));
    usleep(500000);
    keys("C-a 'quite ' C-e ' now' Enter");
    await("> quite a rather long line that takes more than forty columns on the screen now", 1);
    free(sh("%s resize-window -x 120 -y 50", tmux)); // left() compares the size too
    keys("'/quit' Enter");
    left(0);
}

// Reasoning is dim, and not shown with --no-show-thinking.
static void reasoning_is_dim(void **state)
{
    (void)state;
    static const char grammar[] = "root ::= \"<think>why</think>so\"";
    char options[1300];
    test_write(test_temp("think.gbnf"), grammar, sizeof grammar - 1);
    snprintf(options, sizeof options, "--device cpu --temp 0 --grammar '%s'",
             test_temp("think.gbnf"));
    begin(options);
    await("KV cache: ", 1);
    keys("'q' Enter");
    await("so", 1);
    char *screen = sh("%s capture-pane -p -e", tmux);
    const char *why = strstr(screen, "\033[2mwhy");
    assert_non_null(why);
    const char *so = strstr(why, "so");
    assert_non_null(so);
    assert_true(strstr(why, "\033[0m") != NULL || strstr(why, "\033[22m") != NULL);
    assert_null(strstr(so, "\033[2m"));
    free(screen);
    keys("'/quit' Enter");
    left(0);
    keys("'clear' Enter");
    snprintf(options, sizeof options, "--no-show-thinking --device cpu --temp 0 --grammar '%s'",
             test_temp("think.gbnf"));
    begin(options);
    keys("'q' Enter");
    await("so", 1);
    screen = sh("%s capture-pane -p", tmux);
    assert_null(strstr(screen, "why"));
    free(screen);
    keys("'/quit' Enter");
    left(0);
}

// A call is run when the user says so, and not otherwise.
static void asks_before_a_call(void **state)
{
    (void)state;
    static const char tools[] = "[{\"name\": \"f\"}]";
    static const char grammar[] = "root ::= \"<tool_call>{\\\"name\\\": \\\"f\\\"}</tool_call>\"";
    static const char program[] = "#!/bin/sh\ncat >/dev/null; echo ran >>\"$0.log\"\n";
    char options[5000], run[1024], log[1100];
    snprintf(run, sizeof run, "%s", test_temp("tool.sh"));
    snprintf(log, sizeof log, "%s.log", run);
    test_write(test_temp("f.json"), tools, sizeof tools - 1);
    test_write(test_temp("f.gbnf"), grammar, sizeof grammar - 1);
    test_write(run, program, sizeof program - 1);
    chmod(run, 0700);
    remove(log);
    snprintf(options, sizeof options,
             "--device cpu --temp 0 --ctx 8192 --template '%s' --tools '%s' --grammar '%s' "
             "--tools-command '%s'",
             test_data("templates/smollm3.jinja"), test_temp("f.json"), test_temp("f.gbnf"), run);
    begin(options);
    await("KV cache: ", 1);
    keys("'q' Enter");
    await("run f {}? [y/N]", 1);
    keys("'n' Enter");
    await("run f {}? [y/N]", 2);
    assert_int_not_equal(access(log, F_OK), 0);
    keys("'y' Enter");
    await("run f {}? [y/N]", 3);
    assert_int_equal(access(log, F_OK), 0);
    keys("C-c"); // stops the asking and keeps the chat
    usleep(1200000);
    keys("C-c");
    usleep(1200000);
    keys("'/quit' Enter");
    left(0);
}

static void control_d_leaves(void **state)
{
    (void)state;
    begin("--device cpu");
    keys("C-d");
    left(0);
}

static void r49_interrupts(void **state)
{
    (void)state;
    begin("--device cpu");
    keys("'half a line' C-c"); // drops the line, stays
    await("Ctrl-C again", 1);
    usleep(1200000);
    keys("'/stats' Enter");
    await("device: ", 1);
    keys("C-c \\; run-shell 'sleep 0.3' \\; send-keys C-c"); // twice within a second
    left(130);
}

// The answer stops, the chat goes on: a long answer of the slow device.
static void an_answer_is_stopped(void **state)
{
    (void)state;
    begin("--device reference --temp 1 --seed 1 --ctx 16384 --logit-bias 428:-1000 --logit-bias "
          "426:-1000 --logit-bias "
          "425:-1000");
    keys("'go' Enter");
    usleep(300000);
    keys("C-c");
    await("(stopped)", 1);
    usleep(1200000);
    keys("'/quit' Enter");
    left(0);
}

static void ended_by_another_program(void **state)
{
    (void)state;
    begin("--device cpu");
    free(sh("pkill -TERM -P \"$(%s display-message -p '#{pane_pid}')\"", tmux));
    left(143);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_conversation, start, stop),
        cmocka_unit_test_setup_teardown(many_lines, start, stop),
        cmocka_unit_test_setup_teardown(another_size, start, stop),
        cmocka_unit_test_setup_teardown(reasoning_is_dim, start, stop),
        cmocka_unit_test_setup_teardown(asks_before_a_call, start, stop),
        cmocka_unit_test_setup_teardown(control_d_leaves, start, stop),
        cmocka_unit_test_setup_teardown(r49_interrupts, start, stop),
        cmocka_unit_test_setup_teardown(an_answer_is_stopped, start, stop),
        cmocka_unit_test_setup_teardown(ended_by_another_program, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
