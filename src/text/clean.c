// Bringing a text into the form that a tokenizer expects: valid UTF-8, and normal form C for the
// models whose tokenizer asks for it.
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "text/vocab.h"

static pm_status reserve_text(clean_buffer *work, size_t n)
{
    if (n <= work->cap) return PM_OK;
    free(work->text);
    work->text = malloc(n);
    work->cap = work->text ? n : 0;
    return work->text ? PM_OK : error_memory("a copy of the text", n);
}

static bool reserve_points(clean_buffer *work, size_t n)
{
    if (n <= work->points_cap) return true;
    size_t cap = n + n / 2 + 64;
    int32_t *points = realloc(work->points, cap * sizeof *points);
    if (!points) return false;
    work->points = points;
    work->points_cap = cap;
    return true;
}

// Combining marks in the order of their classes, equal ones as they stand. (utf8proc's own sorting
// is quadratic, and a run may be as long as the text.)
static bool sort_marks(int32_t *marks, size_t n)
{
    size_t first[257] = {0};
    int32_t *sorted = malloc(n * sizeof *sorted);
    if (!sorted) return false;
    for (size_t i = 0; i < n; i++) first[utf8proc_get_property(marks[i])->combining_class + 1]++;
    for (size_t k = 1; k < 257; k++) first[k] += first[k - 1];
    for (size_t i = 0; i < n; i++)
        sorted[first[utf8proc_get_property(marks[i])->combining_class]++] = marks[i];
    memcpy(marks, sorted, n * sizeof *marks);
    free(sorted);
    return true;
}

static bool order_marks(int32_t *points, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t end = i;
        bool sorted = true;
        for (int before = 0; end < n; end++) {
            int k = utf8proc_get_property(points[end])->combining_class;
            if (k == 0) break;
            if (k < before) sorted = false;
            before = k;
        }
        if (!sorted && !sort_marks(points + i, end - i)) return false;
        i = end + 1;
    }
    return true;
}

// Decomposes, orders and composes valid UTF-8 into work->points; false: no memory.
static bool normalize(const char *text, size_t n, clean_buffer *work, size_t *n_points)
{
    const utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    enum { LONGEST = 32 }; // more than any code point decomposes into
    size_t count = 0;
    for (size_t i = 0, length; i < n; i += length) {
        uint32_t c = text_utf8_next(text + i, n - i, &length);
        if (!reserve_points(work, count + LONGEST)) return false;
        int boundary = 0;
        utf8proc_ssize_t k = utf8proc_decompose_char((utf8proc_int32_t)c, work->points + count,
                                                     LONGEST, options, &boundary);
        if (k >= 1 && k <= LONGEST)
            count += (size_t)k;
        else
            work->points[count++] = (int32_t)c;
    }
    if (!order_marks(work->points, count)) return false;
    utf8proc_ssize_t k = utf8proc_normalize_utf32(work->points, (utf8proc_ssize_t)count, options);
    *n_points = k > 0 ? (size_t)k : 0;
    return true;
}

// Below U+0300 every text is in normal form C already.
static bool may_change(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] >= 0xcc) return true;
    return false;
}

// Decodes one code point for the tokenizer: as text_utf8_next, but overlong forms count as what
// they spell (C0 80 is U+0000). The programs whose token ids are taken as right do so; special
// tokens are matched before, on the bytes, so no marker can be smuggled in that way.
static uint32_t decode_next(const char *s, size_t n, size_t *len)
{
    const unsigned char *p = (const unsigned char *)s;
    size_t k = p[0] < 0xc0 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf8 ? 4 : 1;
    bool whole = k > 1 && k <= n;
    for (size_t i = 1; whole && i < k; i++) whole = (p[i] & 0xc0) == 0x80;
    if (!whole) return text_utf8_next(s, n, len);
    uint32_t c = p[0] & (0x7fu >> k);
    for (size_t i = 1; i < k; i++) c = c << 6 | (p[i] & 0x3fu);
    bool surrogate = c >= 0xd800 && c <= 0xdfff;
    *len = surrogate || c > 0x10ffff ? 1 : k;
    return *len == 1 ? 0xfffd : c;
}

static size_t replace_invalid(const char *text, size_t n, char *out)
{
    size_t at = 0;
    for (size_t i = 0, length; i < n; i += length)
        at += text_utf8_put(decode_next(text + i, n - i, &length), out + at);
    return at;
}

pm_status text_clean(const char *text, size_t n, bool nfc, clean_buffer *work, const char **out,
                     size_t *n_out)
{
    *out = text;
    *n_out = n;
    bool valid = text_utf8_valid(text, n);
    nfc = nfc && may_change(text, n);
    if (valid && !nfc) return PM_OK;
    pm_status status = PM_OK;
    if (!valid) {
        if ((status = reserve_text(work, 3 * n)) != PM_OK) return status;
        *n_out = replace_invalid(text, n, work->text);
        *out = work->text;
    }
    if (!nfc) return PM_OK;
    size_t n_points;
    if (!normalize(*out, *n_out, work, &n_points))
        return error_memory("normalizing the text", n * sizeof(int32_t));
    if ((status = reserve_text(work, 4 * n_points)) != PM_OK) return status;
    size_t at = 0;
    for (size_t i = 0; i < n_points; i++)
        at += text_utf8_put((uint32_t)work->points[i], work->text + at);
    *out = work->text;
    *n_out = at;
    return PM_OK;
}

void clean_buffer_free(clean_buffer *work)
{
    free(work->text);
    free(work->points);
    *work = (clean_buffer){0};
}
