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
    b.markup = s->markup;
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
    b.markup = s->markup;
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

static bool is_digit(int32_t c)
{
    return tchar_is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
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
static tval every(trt *r, tval self, bool (*has)(int32_t), bool empty)
{
    const tstr *s = self.u.str;
    trt_step(r, s->n / 4);
    for (size_t i = 0, next; i < s->n; i = next)
        if (!has(tstr_decode(s, i, &next))) return tval_bool(false);
    return tval_bool(s->n ? true : empty);
}

#define EVERY(name, has, empty)                                                                    \
    METHOD(name)                                                                                   \
    {                                                                                              \
        (void)a, (void)all;                                                                        \
        return every(r, self, has, empty);                                                         \
    }
EVERY(str_isalnum, is_alnum, false)
EVERY(str_isalpha, tchar_is_alpha, false)
EVERY(str_isascii, is_ascii, true)
EVERY(str_isdecimal, tchar_is_decimal, false)
EVERY(str_isdigit, is_digit, false)
EVERY(str_isnumeric, is_numeric, false)
EVERY(str_isprintable, tchar_is_printable, true)
EVERY(str_isspace, tchar_is_space, false)

static tval one_case(trt *r, const tstr *s, bool (*wanted)(int32_t), bool (*other)(int32_t))
{
    bool any = false;
    trt_step(r, s->n / 4);
    for (size_t i = 0, next; i < s->n; i = next) {
        int32_t c = tstr_decode(s, i, &next);
        if (other(c)) return tval_bool(false);
        any |= wanted(c);
    }
    return tval_bool(any);
}
METHOD(str_isupper)
{
    (void)a, (void)all;
    return one_case(r, self.u.str, tchar_is_upper, tchar_is_lower);
}
METHOD(str_islower)
{
    (void)a, (void)all;
    return one_case(r, self.u.str, tchar_is_lower, tchar_is_upper);
}

METHOD(str_istitle)
{
    (void)a, (void)all;
    const tstr *s = self.u.str;
    trt_step(r, s->n / 4);
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
    (void)a, (void)all;
    const tstr *s = self.u.str;
    trt_step(r, s->n / 4);
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
    {"upper", str_upper, "", 0},
    {"lower", str_lower, "", 0},
    {"title", str_title, "", 0},
    {"capitalize", str_capitalize, "", 0},
    {"swapcase", str_swapcase, "", 0},
    {"casefold", str_casefold, "", 0},
    {"format", str_format, NULL, 0},
    {"format_map", str_format_map, "mapping", 1},
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
    const tfunction *f;
    for (f = tsplit_methods; object.kind == T_STRING && f->name; f++)
        if (tstr_is(name, f->name)) return f;
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
