// JSON with integers of any size. jansson refuses those beyond 64 bits, so they go through it as
// strings behind a mark that the text does not contain; then each such string gets a first byte,
// 0xFF, that no decoded JSON string can have (see tval_from_json).
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "chat/template.h"

enum { MARK_BYTES = 24, MAX_DIGITS = 4300 };

static bool is_large(const char *digits, size_t n)
{
    char text[32];
    if (n < 19) return false;
    if (n >= sizeof text) return true;
    memcpy(text, digits, n);
    text[n] = 0;
    errno = 0;
    strtoll(text, NULL, 10);
    return errno == ERANGE;
}

// The end of the number at i; *whole: it has neither fraction nor exponent.
static size_t number_end(const char *s, size_t i, size_t n, bool *whole)
{
    *whole = true;
    for (size_t start = i; i < n; i++) {
        if (isdigit((unsigned char)s[i]) || (i == start && s[i] == '-')) continue;
        if (!s[i] || !strchr(".eE+-", s[i])) break;
        *whole = false;
    }
    return i;
}

static size_t string_end(const char *s, size_t i, size_t n)
{
    for (i++; i < n && s[i] != '"'; i++)
        if (s[i] == '\\') i++;
    return i < n ? i + 1 : n;
}

// Copies the text with its large integers as marked strings; false: it has none.
static bool mark_large(const char *s, size_t n, const char *mark, buf *out)
{
    bool any = false;
    for (size_t i = 0, end; i < n; i = end) {
        bool whole = false;
        if (s[i] == '"') {
            end = string_end(s, i, n);
        } else if (s[i] == '-' || isdigit((unsigned char)s[i])) {
            end = number_end(s, i, n, &whole);
        } else {
            for (end = i;
                 end < n && s[end] != '"' && s[end] != '-' && !isdigit((unsigned char)s[end]);)
                end++;
        }
        // Digits only, so that what is no JSON number stays what it is and is refused.
        bool digits =
            whole && end - i <= MAX_DIGITS && s[end - 1] != '-' && s[i + (s[i] == '-')] != '0';
        if (digits && is_large(s + i, end - i)) {
            buf_printf(out, "\"%s", mark);
            buf_add(out, s + i, end - i);
            buf_char(out, '"');
            any = true;
        } else {
            buf_add(out, s + i, end - i);
        }
    }
    return any;
}

static json_t *unmark(json_t *v, const char *mark);

static void unmark_children(json_t *v, const char *mark)
{
    if (json_is_array(v)) {
        for (size_t i = 0; i < json_array_size(v); i++) {
            json_t *fresh = unmark(json_array_get(v, i), mark);
            if (fresh) json_array_set_new(v, i, fresh);
        }
    } else if (json_is_object(v)) {
        for (void *i = json_object_iter(v); i; i = json_object_iter_next(v, i)) {
            json_t *fresh = unmark(json_object_iter_value(i), mark);
            if (fresh) json_object_iter_set_new(v, i, fresh);
        }
    }
}

// The value that replaces a marked string; NULL for all others, whose children are done.
static json_t *unmark(json_t *v, const char *mark)
{
    if (!json_is_string(v)) {
        unmark_children(v, mark);
        return NULL;
    }
    const char *s = json_string_value(v);
    if (strncmp(s, mark, strlen(mark)) != 0) return NULL;
    buf b = {0};
    buf_char(&b, '\xFF');
    buf_str(&b, s + strlen(mark));
    json_t *fresh = b.failed ? NULL : json_stringn_nocheck(b.data, b.len);
    buf_free(&b);
    return fresh;
}

static bool contains(const char *s, size_t n, const char *mark)
{
    size_t m = strlen(mark);
    for (size_t i = 0; i + m <= n; i++)
        if (memcmp(s + i, mark, m) == 0) return true;
    return false;
}

pm_status tmpl_load_json(const char *text, size_t n, json_t **out)
{
    char mark[MARK_BYTES] = "integer-0:";
    json_error_t error;
    buf marked = {0};
    pm_status status = PM_OK;
    for (unsigned i = 1; contains(text, n, mark); i++)
        snprintf(mark, sizeof mark, "integer-%u:", i);
    bool any = mark_large(text, n, mark, &marked);
    if (marked.failed) {
        status = error_memory("JSON", n);
        goto end;
    }
    json_t *v = json_loadb(marked.data ? marked.data : "", marked.len,
                           JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (!v) {
        status = error_set(PM_ERROR_FILE, "JSON line %d column %d: %s", error.line, error.column,
                           error.text);
        goto end;
    }
    json_t *fresh = any ? unmark(v, mark) : NULL;
    if (fresh) {
        json_decref(v);
        v = fresh;
    }
    *out = v;
end:
    buf_free(&marked);
    return status;
}
