#include "support/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/large.h"
#include "base/os.h"
#include "base/size.h"

static void sizes_never_wrap(void **state)
{
    (void)state;
    uint64_t out = 7;
    assert_false(size_add(UINT64_MAX, 1, &out));
    assert_false(size_mul(UINT64_C(1) << 33, UINT64_C(1) << 31, &out));
    assert_false(size_align(UINT64_MAX - 2, 32, &out));
    assert_int_equal(out, 7);
    assert_true(size_mul(UINT64_C(1) << 32, (UINT64_C(1) << 32) - 1, &out));
    assert_true(size_align(33, 32, &out));
    assert_int_equal(out, 64);
    assert_true(size_in_range(4, 6, 10));
    assert_false(size_in_range(4, 7, 10));
    assert_false(size_in_range(UINT64_MAX, 2, 10));
}

static void errors_are_one_line(void **state)
{
    (void)state;
    assert_int_equal(error_set(PM_ERROR_FILE, "a\nb %d", 3), PM_ERROR_FILE);
    assert_string_equal(error_message(), "a b 3");
    assert_int_equal(error_in(PM_ERROR_FILE, "m.gguf"), PM_ERROR_FILE);
    assert_string_equal(error_message(), "m.gguf: a b 3");
    assert_int_equal(error_in(PM_OK, "x"), PM_OK);
    assert_string_equal(error_message(), "m.gguf: a b 3");
}

static void buffers_grow(void **state)
{
    (void)state;
    buf b = {0};
    for (int i = 0; i < 1000; i++) buf_printf(&b, "%d,", i);
    char *text;
    size_t n;
    assert_ok(buf_take(&b, &text, &n));
    assert_int_equal(n, 3890);
    assert_memory_equal(text + n - 4, "999,", 5);
    free(text);
    buf_add(&b, "x", SIZE_MAX / 2);
    assert_int_equal(buf_take(&b, &text, &n), PM_ERROR_RUN);
}

// Integers of more than 64 bits become marked strings and come back; all else stays as it is.
static void large_integers_are_hidden(void **state)
{
    (void)state;
#define M LARGE_MARK
    static const struct {
        const char *text, *hidden, *rounded; // NULL: as it was
    } list[] = {
        {"", NULL, NULL},
        {"[1, -9223372036854775808, 9223372036854775807, 1e400, \"99999999999999999999\"]", NULL,
         NULL},
        {"9223372036854775808", "\"" M "9223372036854775808\"", "9223372036854775808.0"},
        {"[-9223372036854775809,{\"a\\\"1\":99999999999999999999}]",
         "[\"" M "-9223372036854775809\",{\"a\\\"1\":\"" M "99999999999999999999\"}]",
         "[-9223372036854775809.0,{\"a\\\"1\":99999999999999999999.0}]"},
        {"99999999999999999999.5 99999999999999999999e1 -", NULL, NULL},
        {"099999999999999999999", NULL, NULL}, // no JSON, and stays none
        {"[\"a 99999999999999999999", NULL, NULL},
        // the mark itself, as it stands and escaped: nothing is hidden
        {"[\"" M "1\", 99999999999999999999]", NULL, "[\"" M "1\", 99999999999999999999.0]"},
        {"[\"\\uDBFF\\udfffinteger:1\", 99999999999999999999]", NULL,
         "[\"\\uDBFF\\udfffinteger:1\", 99999999999999999999.0]"},
    };
#undef M
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const char *text = list[i].text;
        buf hidden = {0}, shown = {0}, rounded = {0};
        buf_str(&hidden, "");
        buf_str(&rounded, "");
        bool any = large_hide(text, strlen(text), &hidden);
        assert_int_equal(any, list[i].hidden != NULL);
        assert_string_equal(hidden.data, any ? list[i].hidden : text);
        if (any) large_show(hidden.data, hidden.len, &shown);
        if (any) assert_string_equal(shown.data, text);
        large_round(text, strlen(text), &rounded);
        assert_string_equal(rounded.data, list[i].rounded ? list[i].rounded : text);
        buf_free(&hidden);
        buf_free(&shown);
        buf_free(&rounded);
    }
}

static void writer_leaves_nothing_behind(void **state)
{
    (void)state;
    const char *path = test_temp("w.bin");
    os_writer *w;
    assert_ok(os_writer_open(path, &w));
    assert_ok(os_writer_write(w, "abc", 3));
    assert_false(os_file_exists(path));
    os_writer_abort(w);
    assert_ok(os_writer_open(path, &w));
    assert_ok(os_writer_write(w, "defg", 4));
    assert_ok(os_writer_commit(w));
    size_t n;
    char *data = test_read(path, &n);
    assert_string_equal(data, "defg");
    free(data);
    char command[1200];
    snprintf(command, sizeof command, "ls %s*", path);
    char *out;
    assert_int_equal(test_run(command, &out, NULL), 0);
    assert_int_equal(strlen(out), strlen(path) + 1);
    free(out);
}

static void write_file(const char *path, const char *text)
{
    os_writer *w;
    assert_ok(os_writer_open(path, &w));
    assert_ok(os_writer_write(w, text, strlen(text)));
    assert_ok(os_writer_commit(w));
}

static void assert_content(const char *path, const char *text)
{
    char *data = test_read(path, NULL);
    assert_string_equal(data, text);
    free(data);
}

// A private file stays private, a link stays a link, and what is no file is not replaced by one.
static void writer_keeps_what_a_file_is(void **state)
{
    (void)state;
    char file[1024], link[1024];
    struct stat st;
    snprintf(file, sizeof file, "%s", test_temp("private"));
    snprintf(link, sizeof link, "%s", test_temp("link"));
    test_write(file, "old", 3);
    assert_int_equal(chmod(file, 0600), 0);
    write_file(file, "new");
    assert_content(file, "new");
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(symlink(file, link), 0);
    write_file(link, "newer");
    assert_content(file, "newer");
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));

    const char *pipe_path = test_temp("pipe");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    int reader = open(pipe_path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    write_file(pipe_path, "through");
    char got[16] = "";
    assert_int_equal(read(reader, got, sizeof got), 7);
    assert_string_equal(got, "through");
    close(reader);
    assert_int_equal(lstat(pipe_path, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));

    os_writer *w;
    assert_int_equal(os_writer_open("/", &w), PM_ERROR_RUN);
    assert_null(w);
    assert_int_equal(os_make_directory(""), PM_ERROR_RUN);
}

static void touch_last_byte(void *arg)
{
    const os_file *f = arg;
    volatile const char *map = os_file_map(f);
    (void)map[os_file_size(f) - 1];
}

static void a_shrinking_file_is_noticed(void **state)
{
    (void)state;
    const char *path = test_temp("shrink.bin");
    static char zeros[1 << 16];
    test_write(path, zeros, sizeof zeros);
    os_file *f;
    assert_ok(os_file_open(path, true, &f));
    assert_true(os_guard_mapped(touch_last_byte, f));
    test_write(path, zeros, 10);
    assert_false(os_guard_mapped(touch_last_byte, f));
    char data[16];
    assert_int_equal(os_file_read(f, 0, data, 16), PM_ERROR_FILE);
    os_file_close(f);
    assert_int_equal(os_file_open("/", true, &f), PM_ERROR_FILE);
    assert_non_null(strstr(error_message(), "directory"));
}

static volatile sig_atomic_t n_foreign;
static sigjmp_buf foreign_target;

static void foreign_handler(int signal_number)
{
    (void)signal_number;
    n_foreign++;
    siglongjmp(foreign_target, 1);
}

// The guard works where the signal is blocked or the program has taken its place, and what is not
// ours goes to the program's own handler.
static void r33_the_guard_is_a_guest(void **state)
{
    (void)state;
    const char *path = test_temp("guest.bin");
    static char zeros[1 << 16];
    test_write(path, zeros, sizeof zeros);
    os_file *f;
    assert_ok(os_file_open(path, true, &f));
    test_write(path, zeros, 10);
    sigset_t all, before, now;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool whole = os_guard_mapped(touch_last_byte, f);
    pthread_sigmask(SIG_SETMASK, &before, &now);
    assert_false(whole);
    assert_true(sigismember(&now, SIGBUS)); // blocked again
    struct sigaction mine = {.sa_handler = foreign_handler}, old;
    sigaction(SIGBUS, &mine, &old);
    assert_false(os_guard_mapped(touch_last_byte, f));
    assert_int_equal(n_foreign, 0);
    if (!sigsetjmp(foreign_target, 1)) touch_last_byte(f);
    assert_int_equal(n_foreign, 1);
    sigaction(SIGBUS, &old, NULL);
    os_file_close(f);
}

// A program that neither reads nor ends when it is asked to is ended.
static void a_stubborn_program_is_ended(void **state)
{
    (void)state;
    static const char script[] = "#!/bin/sh\ntrap '' TERM PIPE\nwhile :; do echo x; done 2>&-\n";
    const char *path = test_temp("stubborn");
    test_write(path, script, strlen(script));
    assert_int_equal(chmod(path, 0700), 0);
    char *output;
    size_t n;
    int exit_status;
    assert_int_equal(os_run_program(path, "", 0, 1000, &output, &n, &exit_status), PM_ERROR_RUN);
    assert_non_null(strstr(error_message(), "longer than 1000 bytes"));
}

static void thread_body(void *arg)
{
    *(int *)arg = 42;
}

static void r60_default_threads(void **state)
{
    (void)state;
    int value = 0;
    os_thread *t;
    assert_ok(os_thread_start(thread_body, &value, &t));
    os_thread_join(t);
    assert_int_equal(value, 42);
    os_cpus counts = os_cpu_counts();
    assert_true(counts.affinity >= 1);
    assert_in_range(os_default_threads(), 1, counts.affinity);
}

// Gathering changes where bytes lie, never what they are; a set flag ends it at once.
static void pages_keep_what_they_hold(void **state)
{
    (void)state;
    size_t n = (9u << 20) + 123; // whole huge pages with a rest on both sides
    uint8_t *p = os_pages_alloc(n, false);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++) assert_int_equal(p[i], 0);
    for (size_t i = 0; i < n; i++) p[i] = (uint8_t)(i * 7 + (i >> 12));
    atomic_bool stop = true;
    os_pages_gather(p, n, &stop);
    atomic_store(&stop, false);
    os_pages_gather(p, n, &stop);
    os_pages_gather(p, n, &stop);
    size_t changed = 0;
    for (size_t i = 0; i < n; i++) changed += p[i] != (uint8_t)(i * 7 + (i >> 12));
    assert_int_equal(changed, 0);
    os_pages_free(p, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_never_wrap),
        cmocka_unit_test(errors_are_one_line),
        cmocka_unit_test(buffers_grow),
        cmocka_unit_test(large_integers_are_hidden),
        cmocka_unit_test(writer_leaves_nothing_behind),
        cmocka_unit_test(writer_keeps_what_a_file_is),
        cmocka_unit_test(a_shrinking_file_is_noticed),
        cmocka_unit_test(r33_the_guard_is_a_guest),
        cmocka_unit_test(a_stubborn_program_is_ended),
        cmocka_unit_test(pages_keep_what_they_hold),
        cmocka_unit_test(r60_default_threads),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
