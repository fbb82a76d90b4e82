// The methods that Python's types have, as far as the sandbox lets a template call them.
#include <math.h>
#include <stdlib.h>
#include <utf8proc.h>

#include "chat/template_internal.h"

#define METHOD(name) static tval name(trt *r, tval self, const tval *a, const targs *all)

static bool given(tval v)
{
    return v.kind != T_MISSING && v.kind != T_NONE;
}

// Strings that go into a Markup string are escaped first.
static const tstr *arg_str(trt *r, tval self, tval v, const char *what)
{
    const tstr *s = tval_want_str(r, v, what);
    return self.u.str->markup ? tstr_escape(r, s) : s;
}

// ---- case and white space ---------------------------------------------------------------------

METHOD(str_upper)
{
    (void)a, (void)all;
    return tval_str(tstr_case(r, self.u.str, CASE_UPPER));
}
METHOD(str_lower)
{
    (void)a, (void)all;
    return tval_str(tstr_case(r, self.u.str, CASE_LOWER));
}
METHOD(str_capitalize)
{
    (void)a, (void)all;
    return tval_str(tstr_case(r, self.u.str, CASE_CAPITAL));
}
METHOD(str_title)
{
    (void)a, (void)all;
    return tval_str(tstr_case(r, self.u.str, CASE_TITLE));
}
METHOD(str_swapcase)
{
    (void)a, (void)all;
    return tval_str(tstr_case(r, self.u.str, CASE_SWAP));
}

METHOD(str_casefold)
{
    (void)a, (void)all;
    const tstr *s = self.u.str;
    tbuf b;
    tbuf_start(&b, r);
    for (size_t i = 0, next; i < s->n; i = next) {
        utf8proc_int32_t folded[8];
        int class = 0;
        int32_t c = tstr_decode(s, i, &next);
        utf8proc_ssize_t n = utf8proc_decompose_char(c, folded, 8, UTF8PROC_CASEFOLD, &class);
        for (utf8proc_ssize_t k = 0; k < n && k < 8; k++)
            tbuf_code(&b, folded[k], tstr_literal_at(s, i));
    }
    return tval_str(tbuf_take(&b));
}

static tval strip(trt *r, tval self, const tval *a, bool left, bool right)
{
    const tstr *chars = given(a[0]) ? tval_want_str(r, a[0], "strip") : NULL;
    return tval_str(tstr_strip(r, self.u.str, chars, left, right));
}
METHOD(str_strip)
{
    (void)all;
    return strip(r, self, a, true, true);
}
METHOD(str_lstrip)
{
    (void)all;
    return strip(r, self, a, true, false);
}
METHOD(str_rstrip)
{
    (void)all;
    return strip(r, self, a, false, true);
}

// ---- searching --------------------------------------------------------------------------------

// Byte bounds of s[start:end], from optional arguments in characters. False: start lies behind.
static bool window(trt *r, const tstr *s, tval start, tval end, size_t *from, size_t *to)
{
    int64_t n = (int64_t)s->n_chars, i = 0, k = n;
    if (given(start)) i = tval_to_int(r, start, "start");
    if (given(end)) k = tval_to_int(r, end, "end");
    if (i < 0) i = i < -n ? 0 : i + n;
    if (k < 0) k = k < -n ? 0 : k + n;
    if (k > n) k = n;
    if (i > k) return false;
    *from = tstr_offset(s, (size_t)i);
    *to = tstr_offset(s, (size_t)k);
    return true;
}

static int64_t find(trt *r, tval self, const tval *a, bool last)
{
    const tstr *s = self.u.str, *part = tval_want_str(r, a[0], "find");
    size_t from, to;
    if (!window(r, s, a[1], a[2], &from, &to)) return -1;
    const tstr *within = tstr_part(r, s, from, to);
    size_t hit = last ? tstr_find_last(r, within, part, within->n) : tstr_find(r, within, part, 0);
    return hit == SIZE_MAX ? -1 : (int64_t)tstr_chars(s->s, from + hit);
}
METHOD(str_find)
{
    (void)all;
    return tval_int(find(r, self, a, false));
}
METHOD(str_rfind)
{
    (void)all;
    return tval_int(find(r, self, a, true));
}
static tval index_of(trt *r, int64_t at)
{
    if (at < 0) trt_fail(r, "substring not found");
    return tval_int(at);
}
METHOD(str_index)
{
    (void)all;
    return index_of(r, find(r, self, a, false));
}
METHOD(str_rindex)
{
    (void)all;
    return index_of(r, find(r, self, a, true));
}

METHOD(str_count)
{
    (void)all;
    const tstr *s = self.u.str, *part = tval_want_str(r, a[0], "count");
    size_t from, to;
    int64_t n = 0;
    if (!window(r, s, a[1], a[2], &from, &to)) return tval_int(0);
    s = tstr_part(r, s, from, to);
    if (part->n == 0) return tval_int((int64_t)s->n_chars + 1);
    for (size_t i = 0; (i = tstr_find(r, s, part, i)) != SIZE_MAX; i += part->n) {
        trt_step(r, 1);
        n++;
    }
    return tval_int(n);
}

static bool has_affix(trt *r, tval self, const tval *a, bool front)
{
    const tstr *s = self.u.str;
    size_t from, to;
    tlist one = {.v = (tval *)(uintptr_t)&a[0], .n = 1};
    const tlist *all = a[0].kind == T_TUPLE ? a[0].u.list : &one;
    if (!window(r, s, a[1], a[2], &from, &to)) return false;
    for (size_t i = 0; i < all->n; i++) {
        const tstr *part = tval_want_str(r, all->v[i], front ? "startswith" : "endswith");
        if (part->n > to - from) continue;
        const char *at = front ? s->s + from : s->s + to - part->n;
        if (part->n == 0 || memcmp(at, part->s, part->n) == 0) return true;
    }
    return false;
}
METHOD(str_startswith)
{
    (void)all;
    return tval_bool(has_affix(r, self, a, true));
}
METHOD(str_endswith)
{
    (void)all;
    return tval_bool(has_affix(r, self, a, false));
}

METHOD(str_removeprefix)
{
    (void)all;
    const tval args[3] = {a[0], tval_missing(), tval_missing()};
    if (!has_affix(r, self, args, true)) return self;
    return tval_str(tstr_part(r, self.u.str, a[0].u.str->n, self.u.str->n));
}
METHOD(str_removesuffix)
{
    (void)all;
    const tval args[3] = {a[0], tval_missing(), tval_missing()};
    if (!has_affix(r, self, args, false)) return self;
    return tval_str(tstr_part(r, self.u.str, 0, self.u.str->n - a[0].u.str->n));
}

METHOD(str_replace)
{
    (void)all;
    int64_t count = given(a[2]) ? tval_to_int(r, a[2], "replace") : -1;
    return tval_str(tstr_replace(r, self.u.str, tval_want_str(r, a[0], "replace"),
                                 arg_str(r, self, a[1], "replace"), count));
}

// ---- splitting and joining --------------------------------------------------------------------

static void push_part(trt *r, tlist *l, const tstr *s, size_t from, size_t to)
{
    tlist_push(r, l, tval_str(tstr_part(r, s, from, to)));
}

static void reverse(tlist *l)
{
    for (size_t i = 0; i < l->n / 2; i++) {
        tval v = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = v;
    }
}

// At white space, from the left.
static void split_words(trt *r, tlist *l, const tstr *s, int64_t most)
{
    size_t i = 0, next;
    for (;;) {
        while (i < s->n && tchar_is_space(tstr_decode(s, i, &next))) i = next;
        if (i >= s->n) return;
        if (most == 0) {
            push_part(r, l, s, i,
                      tstr_strip(r, tstr_part(r, s, i, s->n), NULL, false, true)->n + i);
            return;
        }
        size_t start = i;
        while (i < s->n && !tchar_is_space(tstr_decode(s, i, &next))) i = next;
        push_part(r, l, s, start, i);
        most--;
    }
}

static size_t before(const tstr *s, size_t at)
{
    do at--;
    while (at > 0 && ((uint8_t)s->s[at] & 0xC0) == 0x80);
    return at;
}

// At white space, from the right; the parts come last first.
static void rsplit_words(trt *r, tlist *l, const tstr *s, int64_t most)
{
    size_t end = s->n, next;
    for (;;) {
        while (end > 0 && tchar_is_space(tstr_decode(s, before(s, end), &next)))
            end = before(s, end);
        if (end == 0) return;
        if (most == 0) {
            const tstr *left = tstr_part(r, s, 0, end);
            tlist_push(r, l, tval_str(tstr_strip(r, left, NULL, true, false)));
            return;
        }
        size_t stop = end;
        while (end > 0 && !tchar_is_space(tstr_decode(s, before(s, end), &next)))
            end = before(s, end);
        push_part(r, l, s, end, stop);
        most--;
    }
}

static tval split(trt *r, tval self, const tval *a, bool from_right)
{
    const tstr *s = self.u.str;
    int64_t most = given(a[1]) ? tval_to_int(r, a[1], "split") : -1;
    tlist *l = tlist_new(r, 0);
    trt_step(r, s->n / 16);
    if (!given(a[0])) {
        if (from_right)
            rsplit_words(r, l, s, most);
        else
            split_words(r, l, s, most);
    } else {
        const tstr *separator = tval_want_str(r, a[0], "split");
        if (separator->n == 0) trt_fail(r, "empty separator");
        size_t at = from_right ? s->n : 0, hit;
        for (; most != 0; most--) {
            hit = from_right ? tstr_find_last(r, s, separator, at) : tstr_find(r, s, separator, at);
            if (hit == SIZE_MAX) break;
            trt_step(r, 1);
            push_part(r, l, s, from_right ? hit + separator->n : at, from_right ? at : hit);
            at = from_right ? hit : hit + separator->n;
        }
        push_part(r, l, s, from_right ? 0 : at, from_right ? at : s->n);
    }
    if (from_right) reverse(l);
    return tval_list(l);
}
METHOD(str_split)
{
    (void)all;
    return split(r, self, a, false);
}
METHOD(str_rsplit)
{
    (void)all;
    return split(r, self, a, true);
}

METHOD(str_splitlines)
{
    (void)all;
    return tval_list(tstr_lines(r, self.u.str, tval_true(r, a[0])));
}

static tval partition(trt *r, tval self, const tval *a, bool last)
{
    const tstr *s = self.u.str, *separator = tval_want_str(r, a[0], "partition");
    if (separator->n == 0) trt_fail(r, "empty separator");
    size_t hit = last ? tstr_find_last(r, s, separator, s->n) : tstr_find(r, s, separator, 0);
    tlist *l = tlist_new(r, 3);
    if (hit == SIZE_MAX) {
        if (!last) tlist_push(r, l, self);
        tlist_push(r, l, tval_c(r, ""));
        tlist_push(r, l, tval_c(r, ""));
        if (last) tlist_push(r, l, self);
    } else {
        push_part(r, l, s, 0, hit);
        push_part(r, l, s, hit, hit + separator->n);
        push_part(r, l, s, hit + separator->n, s->n);
    }
    return tval_tuple(l);
}
METHOD(str_partition)
{
    (void)all;
    return partition(r, self, a, false);
}
METHOD(str_rpartition)
{
    (void)all;
    return partition(r, self, a, true);
}

METHOD(str_join)
{
    (void)all;
    if (!tval_is_iterable(a[0])) trt_fail(r, "can only join an iterable");
    const tlist *items = tval_items(r, a[0]);
    tbuf b;
    tbuf_start(&b, r);
    b.markup = self.u.str->markup;
    for (size_t i = 0; i < items->n; i++) {
        if (items->v[i].kind != T_STRING)
            trt_fail(r, "sequence item %zu: expected str instance, %s found", i,
                     tval_type(items->v[i]));
        if (i) tbuf_str(&b, self.u.str);
        tbuf_str(&b, arg_str(r, self, items->v[i], "join"));
    }
    return tval_str(tbuf_take(&b));
}

// ---- padding ----------------------------------------------------------------------------------

static tval justify(trt *r, tval self, const tval *a, bool left, bool right)
{
    const tstr *s = self.u.str, *fill = given(a[1]) ? tval_want_str(r, a[1], "fill") : NULL;
    int64_t width = tval_to_int(r, a[0], "width");
    if (fill && fill->n_chars != 1)
        trt_fail(r, "The fill character must be exactly one character long");
    if (!fill) fill = tstr_c(r, " ");
    size_t gap = width > (int64_t)s->n_chars ? (size_t)width - s->n_chars : 0;
    // Python puts an odd blank to the left where the width is odd.
    size_t front = !left ? 0 : !right ? gap : gap / 2 + (gap & (size_t)width & 1);
    tbuf b;
    tbuf_start(&b, r);
    b.markup = s->markup;
    trt_step(r, gap);
    for (size_t i = 0; i < front; i++) tbuf_str(&b, fill);
    tbuf_str(&b, s);
    for (size_t i = front; i < gap; i++) tbuf_str(&b, fill);
    return tval_str(tbuf_take(&b));
}
METHOD(str_center)
{
    (void)all;
    return justify(r, self, a, true, true);
}
METHOD(str_ljust)
{
    (void)all;
    return justify(r, self, a, false, true);
}
METHOD(str_rjust)
{
    (void)all;
    return justify(r, self, a, true, false);
}

METHOD(str_zfill)
{
    (void)all;
    const tstr *s = self.u.str;
    int64_t width = tval_to_int(r, a[0], "zfill");
    size_t gap = width > (int64_t)s->n_chars ? (size_t)width - s->n_chars : 0;
    size_t sign = s->n && (s->s[0] == '-' || s->s[0] == '+');
    tbuf b;
    tbuf_start(&b, r);
    tbuf_part(&b, s, 0, sign);
    tbuf_fill(&b, '0', gap);
    tbuf_part(&b, s, sign, s->n);
    return tval_str(tbuf_take(&b));
}

METHOD(str_expandtabs)
{
    (void)all;
    const tstr *s = self.u.str;
    int64_t size = given(a[0]) ? tval_to_int(r, a[0], "expandtabs") : 8, column = 0;
    tbuf b;
    tbuf_start(&b, r);
    for (size_t i = 0, next; i < s->n; i = next) {
        int32_t c = tstr_decode(s, i, &next);
        if (c == '\t') {
            int64_t gap = size > 0 ? size - column % size : 0;
            tbuf_fill(&b, ' ', (size_t)gap);
            column += gap;
            continue;
        }
        tbuf_part(&b, s, i, next);
        column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    return tval_str(tbuf_take(&b));
}

// ---- the is... family -------------------------------------------------------------------------

static bool is_decimal(int32_t c)
{
    return utf8proc_category(c) == UTF8PROC_CATEGORY_ND;
}
static bool is_digit(int32_t c)
{
    return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
           (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
           (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C);
}
static bool is_numeric(int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO;
}
static bool is_alnum(int32_t c)
{
    return tchar_is_alpha(c) || is_numeric(c);
}
static bool is_ascii(int32_t c)
{
    return c < 128;
}

// Do all characters have it? `empty` is the answer for "".
static tval every(tval self, bool (*has)(int32_t), bool empty)
{
    const tstr *s = self.u.str;
    for (size_t i = 0, next; i < s->n; i = next)
        if (!has(tstr_decode(s, i, &next))) return tval_bool(false);
    return tval_bool(s->n ? true : empty);
}

#define EVERY(name, has, empty)                                                                    \
    METHOD(name)                                                                                   \
    {                                                                                              \
        (void)r, (void)a, (void)all;                                                               \
        return every(self, has, empty);                                                            \
    }
EVERY(str_isalnum, is_alnum, false)
EVERY(str_isalpha, tchar_is_alpha, false)
EVERY(str_isascii, is_ascii, true)
EVERY(str_isdecimal, is_decimal, false)
EVERY(str_isdigit, is_digit, false)
EVERY(str_isnumeric, is_numeric, false)
EVERY(str_isprintable, tchar_is_printable, true)
EVERY(str_isspace, tchar_is_space, false)

static tval one_case(const tstr *s, bool (*wanted)(int32_t), bool (*other)(int32_t))
{
    bool any = false;
    for (size_t i = 0, next; i < s->n; i = next) {
        int32_t c = tstr_decode(s, i, &next);
        if (other(c)) return tval_bool(false);
        any |= wanted(c);
    }
    return tval_bool(any);
}
METHOD(str_isupper)
{
    (void)r, (void)a, (void)all;
    return one_case(self.u.str, tchar_is_upper, tchar_is_lower);
}
METHOD(str_islower)
{
    (void)r, (void)a, (void)all;
    return one_case(self.u.str, tchar_is_lower, tchar_is_upper);
}

METHOD(str_istitle)
{
    (void)r, (void)a, (void)all;
    const tstr *s = self.u.str;
    bool in_word = false, any = false;
    for (size_t i = 0, next; i < s->n; i = next) {
        int32_t c = tstr_decode(s, i, &next);
        bool upper = tchar_is_upper(c), lower = tchar_is_lower(c);
        if ((upper && in_word) || (lower && !in_word)) return tval_bool(false);
        in_word = upper || lower;
        any |= in_word;
    }
    return tval_bool(any);
}

METHOD(str_isidentifier)
{
    (void)r, (void)a, (void)all;
    const tstr *s = self.u.str;
    for (size_t i = 0, next; i < s->n; i = next) {
        int32_t c = tstr_decode(s, i, &next);
        if (!tchar_is_word(c) || (i == 0 && c != '_' && !tchar_is_alpha(c)))
            return tval_bool(false);
    }
    return tval_bool(s->n > 0);
}

// ---- formatting, encoding ---------------------------------------------------------------------

METHOD(str_format)
{
    (void)a;
    return tval_str(tstr_format(r, self.u.str, all));
}

METHOD(str_format_map)
{
    (void)all;
    if (a[0].kind != T_DICT) trt_fail(r, "format_map() argument must be a mapping");
    targs args = {.named = a[0].u.dict};
    return tval_str(tstr_format(r, self.u.str, &args));
}

METHOD(str_encode)
{
    (void)all;
    if (given(a[0])) {
        const tstr *name = tstr_case(r, tval_want_str(r, a[0], "encode"), CASE_LOWER);
        if (!tstr_is(name, "utf-8") && !tstr_is(name, "utf8"))
            trt_fail(r, "encode: only utf-8 is supported");
    }
    return (tval){T_BYTES, {.str = self.u.str}};
}

// ---- dict, list, numbers ----------------------------------------------------------------------

METHOD(dict_get)
{
    (void)all;
    const tval *v = tdict_get(r, self.u.dict, a[0]);
    return v ? *v : a[1].kind == T_MISSING ? tval_none() : a[1];
}

static tval view(trt *r, tval self, tview_kind what)
{
    tview *v = trt_alloc(r, sizeof *v);
    *v = (tview){what, self.u.dict};
    return (tval){T_VIEW, {.view = v}};
}
METHOD(dict_keys)
{
    (void)a, (void)all;
    return view(r, self, VIEW_KEYS);
}
METHOD(dict_values)
{
    (void)a, (void)all;
    return view(r, self, VIEW_VALUES);
}
METHOD(dict_items)
{
    (void)a, (void)all;
    return view(r, self, VIEW_ITEMS);
}

METHOD(copy)
{
    (void)r, (void)a, (void)all;
    return self; // a template can't change either of the two
}

METHOD(list_count)
{
    (void)all;
    int64_t n = 0;
    for (size_t i = 0; i < self.u.list->n; i++) n += tval_equal(r, self.u.list->v[i], a[0]);
    return tval_int(n);
}

METHOD(list_index)
{
    (void)all;
    int64_t n = (int64_t)self.u.list->n, from = given(a[1]) ? tval_to_int(r, a[1], "index") : 0;
    int64_t to = given(a[2]) ? tval_to_int(r, a[2], "index") : n;
    if (from < 0) from = from < -n ? 0 : from + n;
    if (to < 0) to = to < -n ? 0 : to + n;
    for (int64_t i = from; i < to && i < n; i++)
        if (tval_equal(r, self.u.list->v[i], a[0])) return tval_int(i);
    trt_fail(r, "the value is not in the list");
}

METHOD(float_is_integer)
{
    (void)r, (void)a, (void)all;
    return tval_bool(self.u.f == floor(self.u.f) && isfinite(self.u.f));
}

METHOD(int_bit_length)
{
    (void)a, (void)all;
    int64_t i = tval_to_int(r, self, "bit_length"), n = 0;
    for (uint64_t m = i < 0 ? 0 - (uint64_t)i : (uint64_t)i; m; m >>= 1) n++;
    return tval_int(n);
}

// ---- the tables -------------------------------------------------------------------------------

static const tfunction str_methods[] = {
    {"strip", str_strip, "chars", 0},
    {"lstrip", str_lstrip, "chars", 0},
    {"rstrip", str_rstrip, "chars", 0},
    {"split", str_split, "sep maxsplit", 0},
    {"rsplit", str_rsplit, "sep maxsplit", 0},
    {"splitlines", str_splitlines, "keepends", 0},
    {"replace", str_replace, "old new count", 2},
    {"startswith", str_startswith, "prefix start end", 1},
    {"endswith", str_endswith, "suffix start end", 1},
    {"upper", str_upper, "", 0},
    {"lower", str_lower, "", 0},
    {"title", str_title, "", 0},
    {"capitalize", str_capitalize, "", 0},
    {"swapcase", str_swapcase, "", 0},
    {"casefold", str_casefold, "", 0},
    {"join", str_join, "iterable", 1},
    {"format", str_format, NULL, 0},
    {"format_map", str_format_map, "mapping", 1},
    {"find", str_find, "sub start end", 1},
    {"rfind", str_rfind, "sub start end", 1},
    {"index", str_index, "sub start end", 1},
    {"rindex", str_rindex, "sub start end", 1},
    {"count", str_count, "sub start end", 1},
    {"removeprefix", str_removeprefix, "prefix", 1},
    {"removesuffix", str_removesuffix, "suffix", 1},
    {"partition", str_partition, "sep", 1},
    {"rpartition", str_rpartition, "sep", 1},
    {"center", str_center, "width fillchar", 1},
    {"ljust", str_ljust, "width fillchar", 1},
    {"rjust", str_rjust, "width fillchar", 1},
    {"zfill", str_zfill, "width", 1},
    {"expandtabs", str_expandtabs, "tabsize", 0},
    {"encode", str_encode, "encoding errors", 0},
    {"isalnum", str_isalnum, "", 0},
    {"isalpha", str_isalpha, "", 0},
    {"isascii", str_isascii, "", 0},
    {"isdecimal", str_isdecimal, "", 0},
    {"isdigit", str_isdigit, "", 0},
    {"isidentifier", str_isidentifier, "", 0},
    {"islower", str_islower, "", 0},
    {"isnumeric", str_isnumeric, "", 0},
    {"isprintable", str_isprintable, "", 0},
    {"isspace", str_isspace, "", 0},
    {"istitle", str_istitle, "", 0},
    {"isupper", str_isupper, "", 0},
    {NULL, NULL, NULL, 0},
};
static const tfunction dict_methods[] = {
    {"get", dict_get, "key default", 1}, {"keys", dict_keys, "", 0}, {"values", dict_values, "", 0},
    {"items", dict_items, "", 0},        {"copy", copy, "", 0},      {NULL, NULL, NULL, 0},
};
static const tfunction list_methods[] = {
    {"count", list_count, "value", 1},
    {"index", list_index, "value start stop", 1},
    {"copy", copy, "", 0}, // lists only: see below
    {NULL, NULL, NULL, 0},
};
static const tfunction float_methods[] = {{"is_integer", float_is_integer, "", 0},
                                          {NULL, NULL, NULL, 0}};
static const tfunction int_methods[] = {{"bit_length", int_bit_length, "", 0},
                                        {NULL, NULL, NULL, 0}};

const tfunction *tmethod_find(tval object, const tstr *name)
{
    const tfunction *f = NULL;
    switch (object.kind) {
    case T_STRING: f = str_methods; break;
    case T_DICT: f = dict_methods; break;
    case T_LIST:
    case T_TUPLE: f = list_methods; break;
    case T_FLOAT: f = float_methods; break;
    case T_BOOL:
    case T_INT: f = int_methods; break;
    default: return NULL;
    }
    for (; f->name; f++)
        if (tstr_is(name, f->name)) return f->call == copy && object.kind == T_TUPLE ? NULL : f;
    return NULL;
}

bool tmethod_is_unsafe(tval object, const tstr *name)
{
    static const char *const list_names[] = {"append", "clear",  "pop",    "reverse", "insert",
                                             "sort",   "extend", "remove", NULL};
    static const char *const dict_names[] = {"clear",      "pop",    "popitem",
                                             "setdefault", "update", NULL};
    const char *const *names = object.kind == T_LIST   ? list_names
                               : object.kind == T_DICT ? dict_names
                                                       : NULL;
    for (; names && *names; names++)
        if (tstr_is(name, *names)) return true;
    return false;
}
