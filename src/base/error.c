#include "base/error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ERROR_BYTES = 1024 };

static _Thread_local char error_text[ERROR_BYTES];

// Text from a file or a user may hold anything; the message stays one printable line.
static void make_one_line(char *text)
{
    for (char *c = text; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = ' ';
    }
}

pm_status(error_set)(pm_status code, const char *format, ...)
{
    char text[ERROR_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    make_one_line(text);
    memcpy(error_text, text, sizeof error_text);
    return code;
}

pm_status error_in(pm_status code, const char *format, ...)
{
    if (code == PM_OK) return code;
    char context[ERROR_BYTES / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(context, sizeof context, format, args);
    va_end(args);
    return error_set(code, "%s: %s", context, error_text);
}

pm_status(error_memory)(const char *what, uint64_t bytes)
{
    return error_set(PM_ERROR_RUN, "out of memory for %s (%" PRIu64 " bytes)", what, bytes);
}

const char *error_message(void)
{
    return error_text;
}
