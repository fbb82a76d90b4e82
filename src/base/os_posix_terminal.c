// The terminal, signals, other programs.
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/buf.h"

// ---- terminal and signals ---------------------------------------------------------------------

bool os_is_terminal(int fd)
{
    return isatty(fd) == 1;
}

int os_terminal_width(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return 80;
}

static volatile sig_atomic_t interrupts, continued, resized, ends_wait, end_asked;
static void (*volatile interrupt_run)(void *arg);
static void *volatile interrupt_arg;
static struct termios kept_terminal;
static volatile sig_atomic_t terminal_is_kept;
static const char *volatile terminal_undo[STDERR_FILENO + 1];

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupts = interrupts + 1;
    if (interrupt_run) interrupt_run(interrupt_arg);
}

void os_pipe_errors(void)
{
    signal(SIGPIPE, SIG_IGN);
}

void os_interrupts_catch(void)
{
    // No SA_RESTART: a read that waits for input returns, so that the prompt can react.
    struct sigaction action = {.sa_handler = on_interrupt}, before;
    // What is ignored (a script's job in the background) stays so.
    if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGINT, &action, NULL);
    os_pipe_errors();
}

void os_interrupts_release(void)
{
    struct sigaction now;
    if (sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == on_interrupt)
        signal(SIGINT, SIG_DFL);
}

void os_interrupts_call(void (*run)(void *arg), void *arg)
{
    interrupt_run = NULL;
    interrupt_arg = arg;
    interrupt_run = run;
}

int os_interrupts(void)
{
    return interrupts;
}

void os_interrupts_clear(void)
{
    interrupts = end_asked != 0;
}

// Inside a handler the signal waits until the handler has returned.
static void die_by(int signal_number)
{
    // In the background the terminal is another program's, and asking would stop us.
    if (terminal_is_kept && tcgetpgrp(STDIN_FILENO) == getpgrp())
        tcsetattr(STDIN_FILENO, TCSANOW, &kept_terminal);
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        const char *text = terminal_undo[fd];
        ssize_t written = text ? write(fd, text, strlen(text)) : 0;
        (void)written; // nothing can be done about it here
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void os_die_by_interrupt(void)
{
    die_by(end_asked ? end_asked : SIGINT);
}

bool os_end_asked(void)
{
    return end_asked != 0;
}

static void on_continue(int signal_number)
{
    (void)signal_number;
    continued = 1;
}

static void on_resize(int signal_number)
{
    (void)signal_number;
    resized = 1;
}

bool os_resized(void)
{
    bool was = resized != 0;
    resized = 0;
    return was;
}

bool os_continued(void)
{
    bool was = continued != 0;
    continued = 0;
    return was;
}

static void on_end(int signal_number)
{
    if (!ends_wait || end_asked || signal_number == SIGQUIT) {
        die_by(signal_number);
        return;
    }
    end_asked = signal_number;
    on_interrupt(signal_number);
}

static void catch_ends(void)
{
    static const int ends[] = {SIGTERM, SIGHUP, SIGQUIT};
    for (size_t k = 0; k < sizeof ends / sizeof ends[0]; k++) {
        struct sigaction action = {.sa_handler = on_end}, before;
        // What is ignored (nohup) stays so.
        if (sigaction(ends[k], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(ends[k], &action, NULL);
    }
}

void os_ends_wait(bool wait)
{
    ends_wait = wait;
    catch_ends();
}

void os_terminal_keep(void)
{
    if (tcgetattr(STDIN_FILENO, &kept_terminal) != 0) return;
    terminal_is_kept = 1;
    catch_ends();
    struct sigaction action = {.sa_handler = on_continue};
    sigaction(SIGCONT, &action, NULL);
    action.sa_handler = on_resize;
    sigaction(SIGWINCH, &action, NULL);
}

void os_terminal_undo(int fd, const char *text)
{
    if (text) catch_ends();
    terminal_undo[fd] = text;
}

void os_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
        // The lowest free number is this one. Read-only, so that writing fails as on a closed one.
        if (open("/dev/null", O_RDONLY) != fd) return;
    }
}

int os_read_byte(int fd)
{
    unsigned char byte;
    ssize_t got = read(fd, &byte, 1);
    if (got == 1) return byte;
    return got < 0 && errno == EINTR ? OS_READ_SIGNAL : OS_READ_END;
}

// ---- other programs ---------------------------------------------------------------------------

// Both ends close when another program starts.
static bool make_pipes(int to[2], int from[2])
{
    to[0] = to[1] = from[0] = from[1] = -1;
    return pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0;
}

static void close_pipe(int ends[2])
{
    for (int k = 0; k < 2; k++) {
        if (ends[k] >= 0) close(ends[k]);
        ends[k] = -1;
    }
}

static int spawn(const char *program, int in, int out, pid_t *pid)
{
    char *const words[] = {(char *)program, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE); // ignored here, which a program would inherit
    int error = posix_spawn_file_actions_init(&actions);
    if (error) return error;
    error = posix_spawnattr_init(&attributes);
    if (error) {
        posix_spawn_file_actions_destroy(&actions);
        return error;
    }
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    error = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (!error) error = posix_spawnp(pid, program, &actions, &attributes, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error;
}

// Writes the input and reads the output until that ends; false: interrupted, or too much of it.
static bool exchange(int *in, int out, const char *input, size_t n, size_t max, buf *output)
{
    fcntl(*in, F_SETFL, O_NONBLOCK);
    for (size_t written = 0;;) {
        if (written == n && *in >= 0) {
            close(*in);
            *in = -1;
        }
        struct pollfd fds[2] = {{.fd = out, .events = POLLIN}, {.fd = *in, .events = POLLOUT}};
        if (poll(fds, *in >= 0 ? 2 : 1, 200) < 0 && errno != EINTR) return false;
        if (os_interrupts() > 0) return false;
        if (*in >= 0 && fds[1].revents) {
            ssize_t some = write(*in, input + written, n - written);
            // A program that does not read its input may still answer.
            written = some > 0 ? written + (size_t)some : errno == EAGAIN ? written : n;
        }
        if (!fds[0].revents) continue;
        char part[4096];
        ssize_t got = read(out, part, sizeof part);
        if (got == 0) return true;
        if (got < 0 && errno != EINTR) return false;
        if (got > 0) buf_add(output, part, (size_t)got);
        if (output->len > max) return false;
    }
}

// Waits for the program's end; one that was asked to end gets 2 seconds for it. False: somebody
// else has waited for it.
static bool wait_for(pid_t pid, bool asked, int *state)
{
    double last = os_seconds() + 2;
    for (;;) {
        pid_t got = waitpid(pid, state, asked ? WNOHANG : 0);
        if (got == pid) return true;
        if (got < 0 && errno != EINTR) return false;
        if (!asked) continue;
        if (os_seconds() > last) {
            kill(pid, SIGKILL);
            asked = false;
        }
        os_sleep(0.02);
    }
}

pm_status os_run_program(const char *program, const char *input, size_t n, size_t max,
                         char **output, size_t *n_output, int *exit_status)
{
    int to[2], from[2], state = 0;
    pid_t pid = 0;
    buf text = {0};
    int error = make_pipes(to, from) ? 0 : errno;
    if (!error) error = spawn(program, to[0], from[1], &pid);
    if (error) {
        close_pipe(to);
        close_pipe(from);
        return error_set(PM_ERROR_RUN, "%s: %s", program, strerror(error));
    }
    close(to[0]);
    close(from[1]);
    to[0] = from[1] = -1;
    bool whole = exchange(&to[1], from[0], input, n, max, &text);
    close_pipe(to);
    close_pipe(from);
    if (!whole) kill(pid, SIGTERM);
    bool waited = wait_for(pid, !whole, &state);
    if (!whole) {
        bool long_output = text.len > max;
        buf_free(&text);
        return long_output ? error_set(PM_ERROR_RUN, "%s: its output is longer than %zu bytes",
                                       program, max)
                           : error_set(PM_ERROR_RUN, "%s: was interrupted", program);
    }
    if (!waited) {
        buf_free(&text);
        return error_set(PM_ERROR_RUN, "%s: how it ended can't be known (SIGCHLD is ignored here)",
                         program);
    }
    *exit_status = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    return buf_take(&text, output, n_output);
}
