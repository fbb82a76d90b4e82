// The text of an answer while it grows: bytes of tokens go in, whole characters come out, and
// nothing that may still become a stop text. How the bytes were cut into tokens does not matter:
// the text is the same for every split.
#ifndef PUMICE_ENGINE_STREAM_H
#define PUMICE_ENGINE_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

typedef struct stream {
    char **stops; // valid UTF-8, not empty
    size_t n_stops;
    buf raw;        // bytes that are not whole characters yet
    buf text;       // whole characters; shown up to `shown`
    size_t checked; // text before this holds no stop text that ends there
    size_t shown;
    bool stopped; // a stop text was found; it was cut off
    bool ended;   // no more bytes come
} stream;

// Copies the stops.
pm_status stream_open(stream *s, const char *const *stops, size_t n_stops);
void stream_close(stream *s);

// Adds a token's bytes; afterwards the text from `shown` to stream_ready may be shown.
pm_status stream_add(stream *s, const char *bytes, size_t n);
// No more bytes come: everything may be shown.
pm_status stream_end(stream *s);
// How much of the text may be shown. The caller moves `shown` there.
size_t stream_ready(const stream *s);

// Appends bytes as valid UTF-8: what can't be decoded becomes U+FFFD.
void stream_append_valid(buf *out, const char *bytes, size_t n);

#endif
