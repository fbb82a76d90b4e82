#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool buf_reserve(buf *b, size_t more)
{
    if (b->failed || more > SIZE_MAX / 4 - b->len) {
        b->failed = true;
        return false;
    }
    size_t need = b->len + more + 1;
    if (need <= b->cap) return true;
    size_t cap = b->cap * 2 > need ? b->cap * 2 : need + 32;
    char *data = realloc(b->data, cap);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

void buf_add(buf *b, const void *bytes, size_t n)
{
    if (!buf_reserve(b, n)) return;
    if (n) memcpy(b->data + b->len, bytes, n);
    b->len += n;
    b->data[b->len] = 0;
}

void buf_str(buf *b, const char *text)
{
    buf_add(b, text, strlen(text));
}

void buf_char(buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_printf(buf *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || !buf_reserve(b, (size_t)n)) {
        b->failed = true;
        return;
    }
    va_start(args, format);
    vsnprintf(b->data + b->len, (size_t)n + 1, format, args);
    va_end(args);
    b->len += (size_t)n;
}

void buf_free(buf *b)
{
    free(b->data);
    *b = (buf){0};
}

pm_status buf_take(buf *b, char **text, size_t *n)
{
    buf_add(b, "", 0); // even an empty result is a string
    if (b->failed) {
        size_t len = b->len;
        buf_free(b);
        return error_memory("a text", len);
    }
    *text = b->data;
    if (n) *n = b->len;
    *b = (buf){0};
    return PM_OK;
}
