#include "base/large.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIGITS = 4300 }; // as many as Python reads

static const char mark[] = LARGE_MARK;
enum { MARK_BYTES = sizeof mark - 1 };

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

// The mark's first character, as it stands or escaped.
static bool has_mark(const char *s, size_t n)
{
    for (size_t i = 0; i + 4 <= n; i++)
        if (memcmp(s + i, mark, 4) == 0) return true;
    for (size_t i = 0; i + 12 <= n; i++)
        if (s[i] == '\\' && !strncasecmp(s + i, "\\udbff\\udfff", 12)) return true;
    return false;
}

// Adds the text with something before and behind each large integer.
static bool wrap(const char *s, size_t n, const char *before, const char *behind, buf *out)
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
            buf_str(out, before);
            buf_add(out, s + i, end - i);
            buf_str(out, behind);
            any = true;
        } else {
            buf_add(out, s + i, end - i);
        }
    }
    return any;
}

bool large_hide(const char *s, size_t n, buf *out)
{
    if (has_mark(s, n)) {
        buf_add(out, s, n);
        return false;
    }
    return wrap(s, n, "\"" LARGE_MARK, "\"", out);
}

void large_round(const char *s, size_t n, buf *out)
{
    wrap(s, n, "", ".0", out);
}

void large_show(const char *s, size_t n, buf *out)
{
    for (size_t i = 0, end; i < n; i = end) {
        if (s[i] != '"') {
            for (end = i; end < n && s[end] != '"';) end++;
            buf_add(out, s + i, end - i);
            continue;
        }
        end = string_end(s, i, n);
        size_t digits = i + 1 + MARK_BYTES;
        bool whole = false, marked = end > digits + 1 && !memcmp(s + i + 1, mark, MARK_BYTES) &&
                                     number_end(s, digits, end, &whole) == end - 1 && whole;
        if (marked)
            buf_add(out, s + digits, end - 1 - digits);
        else
            buf_add(out, s + i, end - i);
    }
}
