// Where text goes: answers to stdout, everything else to stderr.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/cli.h"

// A reader that has gone (`| head`) is no error worth a message; a full disk is.
static void check_stdout(bool fine)
{
    if (fine) return;
    if (errno != EPIPE && errno != EBADF)
        say("pumice: error: standard output: %s", strerror(errno));
    // Not exit(): nothing is to be flushed into a broken stream again.
    fflush(stderr);
    _Exit(PM_ERROR_RUN);
}

void out_bytes(const char *bytes, size_t n)
{
    if (n) check_stdout(fwrite(bytes, 1, n, stdout) == n);
}

void out_text(const char *text)
{
    out_bytes(text, strlen(text));
}

void out_print(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    check_stdout(vfprintf(stdout, format, list) >= 0);
    va_end(list);
}

void out_flush(void)
{
    check_stdout(fflush(stdout) == 0 && !ferror(stdout));
}

static int dump_part(const char *bytes, size_t n, void *arg)
{
    (void)arg;
    out_bytes(bytes, n);
    return 0;
}

void out_json(const json_t *value, size_t flags)
{
    // 17 digits give every double back; jansson's default, but said here because it matters.
    if (!value ||
        json_dump_callback(value, dump_part, NULL, flags | JSON_REAL_PRECISION(17)) != 0) {
        say("pumice: error: out of memory for the answer");
        _Exit(PM_ERROR_RUN);
    }
    out_text("\n");
}

void say_error(void)
{
    say("pumice: error: %s", pm_last_error());
}

void say_warning(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("pumice: warning: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
}

void say(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
}

void say_remark(const cli_args *args, const char *format, ...)
{
    if (args->quiet) return;
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
}

bool say_wanted(const cli_args *args)
{
    return !args->quiet && (args->verbose || os_is_terminal(2));
}

// The length of the well-formed UTF-8 character at `s`, 0 where there is none.
static size_t character_bytes(const unsigned char *s, size_t n)
{
    static const struct {
        unsigned char first, last, second_min, second_max, bytes;
    } forms[] = {
        {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    for (size_t k = 0; k < sizeof forms / sizeof forms[0]; k++) {
        if (s[0] < forms[k].first || s[0] > forms[k].last) continue;
        if (forms[k].bytes > n) return 0;
        if (forms[k].bytes > 1 && (s[1] < forms[k].second_min || s[1] > forms[k].second_max))
            return 0;
        for (size_t i = 2; i < forms[k].bytes; i++)
            if ((s[i] & 0xc0) != 0x80) return 0;
        return forms[k].bytes;
    }
    return 0;
}

void show_percent(double part, double start, int *shown)
{
    double seconds = os_seconds() - start;
    int percent = (int)(100 * part);
    if (percent == *shown || part <= 0) return;
    *shown = percent;
    fprintf(stderr, "\r%3d %%, %.0f s left\033[K", percent, seconds / part - seconds);
}

double number_in(const json_t *object, const char *key, double without)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : without;
}

const char *text_in(const json_t *object, const char *key, const char *without)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : without;
}

json_t *json_of_bytes(const char *bytes, size_t n)
{
    json_t *plain = json_stringn(bytes ? bytes : "", n);
    if (plain) return plain;
    buf clean = {0};
    for (size_t i = 0; bytes && i < n;) {
        size_t length = character_bytes((const unsigned char *)bytes + i, n - i);
        if (length)
            buf_add(&clean, bytes + i, length);
        else
            buf_str(&clean, "\xef\xbf\xbd");
        i += length ? length : 1;
    }
    if (!clean.failed) plain = json_stringn(clean.data, clean.len);
    buf_free(&clean);
    return plain;
}

static char *rotating(void)
{
    static char texts[4][40];
    static int next;
    next = (next + 1) % 4;
    return texts[next];
}

const char *show_mib(uint64_t bytes)
{
    char *text = rotating();
    double mib = (double)bytes / (1024.0 * 1024.0);
    snprintf(text, 40, mib < 10 ? "%.2f MiB" : "%.0f MiB", mib);
    return text;
}

const char *show_count(double n)
{
    char *text = rotating();
    if (n >= 1e9)
        snprintf(text, 40, "%.2f B", n / 1e9);
    else if (n >= 1e6)
        snprintf(text, 40, "%.1f M", n / 1e6);
    else
        snprintf(text, 40, "%.0f", n);
    return text;
}
