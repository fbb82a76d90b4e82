#include "engine/stream.h"

#include <stdlib.h>
#include <string.h>

#include "text/text.h"

pm_status stream_open(stream *s, const char *const *stops, size_t n_stops)
{
    *s = (stream){0};
    if (n_stops == 0) return PM_OK;
    s->stops = calloc(n_stops, sizeof *s->stops);
    if (!s->stops) return error_memory("stop texts", n_stops * sizeof *s->stops);
    for (; s->n_stops < n_stops; s->n_stops++) {
        const char *stop = stops[s->n_stops];
        size_t bytes = strlen(stop) + 1;
        char *copy = malloc(bytes);
        if (!copy) {
            stream_close(s);
            return error_memory("stop texts", bytes);
        }
        memcpy(copy, stop, bytes);
        s->stops[s->n_stops] = copy;
    }
    return PM_OK;
}

void stream_close(stream *s)
{
    for (size_t i = 0; i < s->n_stops; i++) free(s->stops[i]);
    free(s->stops);
    buf_free(&s->raw);
    buf_free(&s->text);
    *s = (stream){0};
}

void stream_append_valid(buf *out, const char *bytes, size_t n)
{
    if (n == 0) return;
    size_t start = 0, len;
    for (size_t i = 0; i < n; i += len) {
        uint32_t c = text_utf8_next(bytes + i, n - i, &len);
        if (c != 0xfffd || len != 1) continue;
        buf_add(out, bytes + start, i - start);
        buf_add(out, "\xef\xbf\xbd", 3);
        start = i + len;
    }
    buf_add(out, bytes + start, n - start);
}

// The stop text that is complete first ends the answer; of those that end at the same byte, the
// longest. So the result does not depend on where tokens end.
static void find_stop(stream *s)
{
    for (size_t end = s->checked + 1; end <= s->text.len && !s->stopped; end++) {
        size_t longest = 0;
        for (size_t i = 0; i < s->n_stops; i++) {
            size_t n = strlen(s->stops[i]);
            if (n <= end && n > longest && !memcmp(s->text.data + end - n, s->stops[i], n)) {
                longest = n;
            }
        }
        if (longest == 0) continue;
        s->text.len = end - longest;
        s->text.data[s->text.len] = 0;
        s->stopped = true;
    }
    s->checked = s->text.len;
}

static pm_status take_raw(stream *s, size_t n)
{
    if (s->stopped) return PM_OK;
    stream_append_valid(&s->text, s->raw.data, n);
    if (s->text.failed) return error_memory("an answer", s->text.len);
    if (s->raw.len > n) memmove(s->raw.data, s->raw.data + n, s->raw.len - n);
    s->raw.len -= n;
    find_stop(s);
    return PM_OK;
}

pm_status stream_add(stream *s, const char *bytes, size_t n)
{
    if (s->stopped) return PM_OK;
    buf_add(&s->raw, bytes, n);
    if (s->raw.failed) return error_memory("an answer", s->raw.len);
    return take_raw(s, s->raw.len ? text_utf8_whole(s->raw.data, s->raw.len) : 0);
}

pm_status stream_end(stream *s)
{
    s->ended = true;
    return take_raw(s, s->raw.len);
}

size_t stream_ready(const stream *s)
{
    if (s->stopped || s->ended) return s->text.len;
    // Hold back the longest end of the text that begins a stop text.
    size_t hold = 0;
    for (size_t i = 0; i < s->n_stops; i++) {
        size_t n = strlen(s->stops[i]) - 1;
        if (n > s->text.len - s->shown) n = s->text.len - s->shown;
        for (; n > hold; n--) {
            if (!memcmp(s->text.data + s->text.len - n, s->stops[i], n)) hold = n;
        }
    }
    return s->text.len - hold;
}
