// Strings: UTF-8 with a record of which bytes came from the template's own literals.
#include <stdarg.h>
#include <stdio.h>
#include <utf8proc.h>

#include "chat/template_internal.h"

// ---- collecting -------------------------------------------------------------------------------

void tbuf_start(tbuf *b, trt *r)
{
    *b = (tbuf){.r = r, .max = r->max_output};
}

static void make_room(tbuf *b, size_t n)
{
    if (n > b->max - b->n) trt_fail(b->r, "makes more text than the limit of %zu bytes", b->max);
    trt_step(b->r, 1 + n / 64);
    if (b->n + n <= b->cap) return;
    size_t cap = b->cap < 32 ? 64 : 2 * b->cap;
    while (cap < b->n + n) cap *= 2;
    b->s = trt_grow(b->r, b->s, b->n, cap);
    if (b->map) b->map = trt_grow(b->r, b->map, b->n, cap);
    b->cap = cap;
}

// The map is made when the first byte of the other sort comes.
static void make_map(tbuf *b)
{
    b->map = trt_alloc(b->r, b->cap);
    memset(b->map, b->literal == LITERAL_ALL, b->n);
    b->literal = LITERAL_MIXED;
}

void tbuf_bytes(tbuf *b, const char *s, size_t n, bool literal)
{
    if (!n) return;
    make_room(b, n);
    tliteral sort = literal ? LITERAL_ALL : LITERAL_NONE;
    if (b->n == 0)
        b->literal = sort;
    else if (b->literal != sort && b->literal != LITERAL_MIXED)
        make_map(b);
    if (b->literal == LITERAL_MIXED) memset(b->map + b->n, literal, n);
    memcpy(b->s + b->n, s, n);
    b->n += n;
}

void tbuf_text(tbuf *b, const char *s)
{
    tbuf_bytes(b, s, strlen(s), false);
}

void tbuf_fill(tbuf *b, char c, size_t n)
{
    char block[64];
    memset(block, c, sizeof block);
    while (n) {
        size_t part = n < sizeof block ? n : sizeof block;
        tbuf_bytes(b, block, part, false);
        n -= part;
    }
}

void tbuf_printf(tbuf *b, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    trt_step(b->r, 4);
    tbuf_text(b, text);
}

void tbuf_part(tbuf *b, const tstr *s, size_t from, size_t to)
{
    if (s->literal != LITERAL_MIXED) {
        tbuf_bytes(b, s->s + from, to - from, s->literal == LITERAL_ALL);
        return;
    }
    while (from < to) {
        size_t end = from;
        while (end < to && s->map[end] == s->map[from]) end++;
        tbuf_bytes(b, s->s + from, end - from, s->map[from]);
        from = end;
    }
}

void tbuf_str(tbuf *b, const tstr *s)
{
    tbuf_part(b, s, 0, s->n);
}

void tbuf_code(tbuf *b, int32_t code, bool literal)
{
    utf8proc_uint8_t bytes[4];
    if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) code = 0xFFFD;
    tbuf_bytes(b, (const char *)bytes, (size_t)utf8proc_encode_char(code, bytes), literal);
}

const tstr *tbuf_take(tbuf *b)
{
    tstr *s = trt_alloc(b->r, sizeof *s);
    *s = (tstr){.s = b->n ? b->s : "",
                .n = b->n,
                .n_chars = tstr_chars(b->s, b->n),
                .literal = b->literal,
                .markup = b->markup,
                .map = b->literal == LITERAL_MIXED ? b->map : NULL};
    return s;
}

// ---- making -----------------------------------------------------------------------------------

size_t tstr_chars(const char *s, size_t n)
{
    size_t chars = 0;
    for (size_t i = 0; i < n; i++) chars += ((uint8_t)s[i] & 0xC0) != 0x80;
    return chars;
}

const tstr *tstr_new(trt *r, const char *s, size_t n, tliteral literal)
{
    tstr *p = trt_alloc(r, sizeof *p);
    *p = (tstr){.s = s, .n = n, .n_chars = tstr_chars(s, n), .literal = literal};
    return p;
}

const tstr *tstr_c(trt *r, const char *s)
{
    return tstr_new(r, s, strlen(s), LITERAL_NONE);
}

tval tval_c(trt *r, const char *s)
{
    return tval_str(tstr_c(r, s));
}

const tstr *tstr_part(trt *r, const tstr *s, size_t from, size_t to)
{
    if (from == 0 && to == s->n) return s;
    trt_step(r, (to - from) / 64);
    tstr *p = trt_alloc(r, sizeof *p);
    *p = *s;
    p->s = s->s + from;
    p->n = to - from;
    p->n_chars = s->n_chars == s->n ? p->n : tstr_chars(p->s, p->n);
    if (s->literal == LITERAL_MIXED) p->map = s->map + from;
    return p;
}

const tstr *tstr_markup(trt *r, const tstr *s, bool markup)
{
    if (s->markup == markup) return s;
    tstr *p = trt_alloc(r, sizeof *p);
    *p = *s;
    p->markup = markup;
    return p;
}

bool tstr_is(const tstr *s, const char *c)
{
    size_t n = strlen(c);
    return s->n == n && memcmp(s->s, c, n) == 0;
}

int tstr_compare(const tstr *a, const tstr *b)
{
    size_t n = a->n < b->n ? a->n : b->n;
    int order = n ? memcmp(a->s, b->s, n) : 0;
    return order ? order : a->n < b->n ? -1 : a->n > b->n;
}

// ---- positions and searching ------------------------------------------------------------------

int32_t tstr_decode(const tstr *s, size_t at, size_t *next)
{
    if ((uint8_t)s->s[at] < 0x80) {
        *next = at + 1;
        return s->s[at];
    }
    utf8proc_int32_t code;
    size_t left = s->n - at < 4 ? s->n - at : 4;
    utf8proc_ssize_t n =
        utf8proc_iterate((const utf8proc_uint8_t *)s->s + at, (utf8proc_ssize_t)left, &code);
    *next = at + (n > 0 ? (size_t)n : 1);
    return n > 0 ? code : 0xFFFD;
}

size_t tstr_offset(const tstr *s, size_t chars)
{
    if (chars >= s->n_chars) return s->n;
    if (s->n_chars == s->n) return chars;
    size_t i = 0;
    for (size_t seen = 0; i < s->n; i++) {
        if (((uint8_t)s->s[i] & 0xC0) == 0x80) continue;
        if (seen++ == chars) break;
    }
    return i;
}

size_t tstr_find(trt *r, const tstr *s, const tstr *part, size_t from)
{
    if (part->n == 0) return from;
    if (part->n > s->n) return SIZE_MAX;
    trt_step(r, (s->n - from) / 64);
    for (size_t last = s->n - part->n; from <= last;) {
        const char *hit = memchr(s->s + from, part->s[0], last - from + 1);
        if (!hit) break;
        from = (size_t)(hit - s->s);
        if (memcmp(hit, part->s, part->n) == 0) return from;
        trt_step(r, 1 + part->n / 64);
        from++;
    }
    return SIZE_MAX;
}

size_t tstr_find_last(trt *r, const tstr *s, const tstr *part, size_t to)
{
    if (part->n > to) return SIZE_MAX;
    for (size_t i = to - part->n + 1; i-- > 0;) {
        trt_step(r, (i & 7) == 0 ? 1 + part->n / 16 : 0);
        if (part->n == 0 || memcmp(s->s + i, part->s, part->n) == 0) return i;
    }
    return SIZE_MAX;
}

bool tchar_is_space(int32_t c)
{
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

static bool in_set(const tstr *set, int32_t code)
{
    if (!set) return tchar_is_space(code);
    for (size_t i = 0, next; i < set->n; i = next)
        if (tstr_decode(set, i, &next) == code) return true;
    return false;
}

const tstr *tstr_strip(trt *r, const tstr *s, const tstr *chars, bool left, bool right)
{
    size_t from = 0, to = s->n, next;
    while (left && from < to && in_set(chars, tstr_decode(s, from, &next))) {
        from = next;
        trt_step(r, chars ? chars->n / 16 : 0);
    }
    while (right && to > from) {
        size_t at = to - 1;
        while (at > from && ((uint8_t)s->s[at] & 0xC0) == 0x80) at--;
        if (!in_set(chars, tstr_decode(s, at, &next))) break;
        to = at;
        trt_step(r, chars ? chars->n / 16 : 0);
    }
    trt_step(r, (s->n - (to - from)) / 4);
    return tstr_part(r, s, from, to);
}

const tstr *tstr_replace(trt *r, const tstr *s, const tstr *old, const tstr *by, int64_t count)
{
    tbuf b;
    tbuf_start(&b, r);
    b.markup = s->markup;
    size_t at = 0;
    if (old->n == 0) { // between all characters
        for (size_t next; count != 0; at = next, count--) {
            tbuf_str(&b, by);
            trt_step(r, 1);
            if (at >= s->n) break;
            tstr_decode(s, at, &next);
            tbuf_part(&b, s, at, next);
        }
    } else {
        while (count != 0) {
            size_t hit = tstr_find(r, s, old, at);
            if (hit == SIZE_MAX) break;
            tbuf_part(&b, s, at, hit);
            tbuf_str(&b, by);
            at = hit + old->n;
            count--;
        }
        if (at == 0) return s;
    }
    if (at < s->n) tbuf_part(&b, s, at, s->n);
    return tbuf_take(&b);
}

static bool is_line_end(int32_t c)
{
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

tlist *tstr_lines(trt *r, const tstr *s, bool keep_ends)
{
    tlist *l = tlist_new(r, 0);
    trt_step(r, s->n / 8);
    for (size_t start = 0; start < s->n;) {
        size_t at = start, next = start;
        bool ended = false;
        while (at < s->n) {
            int32_t c = tstr_decode(s, at, &next);
            ended = is_line_end(c);
            if (ended && c == '\r' && next < s->n && s->s[next] == '\n') next++;
            if (ended) break;
            at = next;
        }
        size_t end = ended ? next : s->n;
        tlist_push(r, l, tval_str(tstr_part(r, s, start, keep_ends ? end : at)));
        start = end;
    }
    return l;
}

const tstr *tstr_escape(trt *r, const tstr *s)
{
    if (s->markup) return s;
    tbuf b;
    tbuf_start(&b, r);
    b.markup = true;
    for (size_t i = 0; i < s->n; i++) {
        const char *to = NULL;
        switch (s->s[i]) {
        case '&': to = "&amp;"; break;
        case '<': to = "&lt;"; break;
        case '>': to = "&gt;"; break;
        case '"': to = "&#34;"; break;
        case '\'': to = "&#39;"; break;
        default: tbuf_bytes(&b, s->s + i, 1, tstr_literal_at(s, i)); continue;
        }
        tbuf_bytes(&b, to, strlen(to), tstr_literal_at(s, i));
    }
    return tbuf_take(&b);
}

const tstr *tstr_concat(trt *r, const tstr *a, const tstr *b)
{
    if (a->markup || b->markup) {
        a = tstr_escape(r, a);
        b = tstr_escape(r, b);
    }
    tbuf out;
    tbuf_start(&out, r);
    out.markup = a->markup;
    tbuf_str(&out, a);
    tbuf_str(&out, b);
    return tbuf_take(&out);
}

// ---- characters -------------------------------------------------------------------------------

bool tchar_is_alpha(int32_t c)
{
    if (c < 128) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    utf8proc_category_t k = utf8proc_category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool tchar_is_word(int32_t c)
{
    if (c == '_' || (c >= '0' && c <= '9') || tchar_is_alpha(c)) return true;
    if (c < 128) return false;
    utf8proc_category_t k = utf8proc_category(c);
    return k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO;
}

bool tchar_is_decimal(int32_t c)
{
    return c < 128 ? c >= '0' && c <= '9' : utf8proc_category(c) == UTF8PROC_CATEGORY_ND;
}

bool tchar_is_printable(int32_t c)
{
    if (c < 128) return c >= 32 && c < 127;
    utf8proc_category_t k = utf8proc_category(c);
    return k != UTF8PROC_CATEGORY_CN && k < UTF8PROC_CATEGORY_ZS;
}

bool tchar_is_upper(int32_t c)
{
    return c < 128 ? c >= 'A' && c <= 'Z' : utf8proc_isupper(c) != 0;
}

bool tchar_is_lower(int32_t c)
{
    return c < 128 ? c >= 'a' && c <= 'z' : utf8proc_islower(c) != 0;
}

static bool is_cased(int32_t c)
{
    return tchar_is_upper(c) || tchar_is_lower(c) ||
           (c >= 128 && utf8proc_category(c) == UTF8PROC_CATEGORY_LT);
}

// ---- case -------------------------------------------------------------------------------------

// A sigma at the end of a word is written differently; the word is looked at from `from` on.
static bool is_final_sigma(const tstr *s, size_t from, size_t at, size_t next)
{
    bool before = false, after = false;
    size_t step;
    for (size_t i = at; i > from && !before;) {
        do i--;
        while (i > from && ((uint8_t)s->s[i] & 0xC0) == 0x80);
        int32_t c = tstr_decode(s, i, &step);
        before = is_cased(c);
        if (!before && tchar_is_alpha(c)) break;
        if (!before && c < 128 && c != '\'' && c != '.' && c != ':') break;
    }
    for (size_t i = next; before && i < s->n && !after; i = step) {
        int32_t c = tstr_decode(s, i, &step);
        after = is_cased(c);
        if (!after && (c < 128 || tchar_is_alpha(c)) && c != '\'' && c != '.' && c != ':') break;
    }
    return before && !after;
}

static void add_lower(tbuf *b, const tstr *s, size_t from, size_t at, size_t next, int32_t c)
{
    bool literal = tstr_literal_at(s, at);
    if (c == 0x130) // capital I with a dot: the one character with a longer lower case
        tbuf_bytes(b, "i\xCC\x87", 3, literal);
    else if (c == 0x3A3)
        tbuf_code(b, is_final_sigma(s, from, at, next) ? 0x3C2 : 0x3C3, literal);
    else
        tbuf_code(b, utf8proc_tolower(c), literal);
}

static void add_upper(tbuf *b, bool literal, int32_t c, bool title)
{
    const char *special = title ? tchar_special_title(c) : tchar_special_upper(c);
    if (special)
        tbuf_bytes(b, special, strlen(special), literal);
    else
        tbuf_code(b, title ? utf8proc_totitle(c) : utf8proc_toupper(c), literal);
}

const tstr *tstr_case(trt *r, const tstr *s, tcase how)
{
    tbuf b;
    tbuf_start(&b, r);
    b.markup = s->markup;
    bool in_word = false;
    trt_step(r, s->n / 4);
    for (size_t i = 0, next; i < s->n; i = next) {
        int32_t c = tstr_decode(s, i, &next);
        bool literal = tstr_literal_at(s, i);
        bool up = how == CASE_UPPER || (how == CASE_CAPITAL && i == 0) ||
                  (how == CASE_TITLE && !in_word) || (how == CASE_SWAP && tchar_is_lower(c));
        bool stay = (how == CASE_SWAP && !is_cased(c)) || (c == 0xFFFD && s->s[i] != '\xEF');
        if (stay)
            tbuf_part(&b, s, i, next);
        else if (up)
            add_upper(&b, literal, c, how == CASE_CAPITAL || how == CASE_TITLE);
        else
            add_lower(&b, s, 0, i, next, c);
        in_word = is_cased(c);
    }
    return tbuf_take(&b);
}

const tstr *tstr_title_words(trt *r, const tstr *s)
{
    tbuf b;
    tbuf_start(&b, r);
    b.markup = s->markup;
    bool start = true;
    size_t rest = 0; // of the word, behind its first character
    trt_step(r, s->n / 4);
    for (size_t i = 0, next; i < s->n; i = next) {
        int32_t c = tstr_decode(s, i, &next);
        bool gap = tchar_is_space(c) || (c < 128 && c && strchr("-({[<", c));
        if (gap)
            tbuf_part(&b, s, i, next);
        else if (start)
            add_upper(&b, tstr_literal_at(s, i), c, false);
        else
            add_lower(&b, s, rest, i, next, c);
        if (start) rest = next;
        start = gap;
    }
    return tbuf_take(&b);
}
