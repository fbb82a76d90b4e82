// A growable byte string. Running out of memory is remembered (`failed`), later additions do
// nothing, so that a caller checks once, at the end. Start from {0}; free with buf_free.
#ifndef PUMICE_BASE_BUF_H
#define PUMICE_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef struct buf {
    char *data; // len bytes and a terminating zero; NULL while nothing was added
    size_t len;
    size_t cap;
    bool failed;
} buf;

void buf_add(buf *b, const void *bytes, size_t n);
void buf_str(buf *b, const char *text);
void buf_char(buf *b, char c);
void buf_printf(buf *b, const char *format, ...) PRINTF_LIKE(2, 3);
void buf_free(buf *b);

// Hands the zero-terminated string over (to be released with free) and empties the buffer. Fails
// where memory ran out. *n may be NULL.
pm_status buf_take(buf *b, char **text, size_t *n);

#endif
