// Filters on single values; those on sequences are in template_sequences.c.
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "chat/template_internal.h"

#define FILTER(name) static tval name(trt *r, tval self, const tval *a, const targs *all)

static bool given(tval v)
{
    return v.kind != T_MISSING && v.kind != T_NONE;
}

// ---- one line each ----------------------------------------------------------------------------

FILTER(upper)
{
    (void)a, (void)all;
    return tval_str(tstr_case(r, tval_to_str(r, self), CASE_UPPER));
}
FILTER(lower)
{
    (void)a, (void)all;
    return tval_str(tstr_case(r, tval_to_str(r, self), CASE_LOWER));
}
FILTER(capitalize)
{
    (void)a, (void)all;
    return tval_str(tstr_case(r, tval_to_str(r, self), CASE_CAPITAL));
}
FILTER(title)
{
    (void)a, (void)all;
    return tval_str(tstr_title_words(r, tval_to_str(r, self)));
}
FILTER(string)
{
    (void)a, (void)all;
    return tval_str(tval_to_str(r, self));
}
FILTER(safe)
{
    (void)a, (void)all;
    return tval_str(tstr_markup(r, tval_to_str(r, self), true));
}
FILTER(escape)
{
    (void)a, (void)all;
    return tval_str(tstr_escape(r, tval_to_str(r, self)));
}
FILTER(forceescape)
{
    (void)a, (void)all;
    return tval_str(tstr_escape(r, tstr_markup(r, tval_to_str(r, self), false)));
}
FILTER(trim)
{
    (void)all;
    const tstr *chars = given(a[0]) ? tval_want_str(r, a[0], "trim") : NULL;
    return tval_str(tstr_strip(r, tval_to_str(r, self), chars, true, true));
}
FILTER(length)
{
    (void)a, (void)all;
    return tval_int((int64_t)tval_length(r, self));
}
FILTER(default_value)
{
    (void)all;
    bool replace = self.kind == T_UNDEFINED || (tval_true(r, a[1]) && !tval_true(r, self));
    return !replace ? self : a[0].kind == T_MISSING ? tval_c(r, "") : a[0];
}
FILTER(attribute)
{
    (void)all;
    tval v = tval_own_attr(r, self, tval_want_str(r, a[0], "attr"));
    return v.kind == T_MISSING ? tval_no_attribute(r, self, a[0]) : v;
}

FILTER(format)
{
    (void)a;
    if (all->n && all->named)
        trt_fail(r, "can't handle positional and keyword arguments at the same time");
    tlist *l = tlist_new(r, all->n);
    for (size_t i = 0; i < all->n; i++) tlist_push(r, l, all->v[i]);
    return tval_str(
        tstr_percent(r, tval_to_str(r, self), all->named ? tval_dict(all->named) : tval_tuple(l)));
}

FILTER(replace)
{
    (void)all;
    const tstr *s = tval_to_str(r, self), *old = tval_to_str(r, a[0]), *by = tval_to_str(r, a[1]);
    if (!r->autoescape) s = tstr_markup(r, s, false);
    if (r->autoescape && (old->markup || (by->markup && !s->markup))) s = tstr_escape(r, s);
    if (s->markup) by = tstr_escape(r, by);
    return tval_str(
        tstr_replace(r, s, old, by, given(a[2]) ? tval_to_int(r, a[2], "replace") : -1));
}

FILTER(center)
{
    (void)all;
    const tstr *s = tval_to_str(r, self), *name = tstr_c(r, "center");
    tval width = a[0].kind == T_MISSING ? tval_int(80) : a[0];
    targs args = {.v = &width, .n = 1};
    return trt_call_function(r, tmethod_find(tval_str(s), name), tval_str(s), &args);
}

// ---- numbers ----------------------------------------------------------------------------------

FILTER(absolute)
{
    (void)a, (void)all;
    if (!tval_is_number(self)) trt_fail(r, "bad operand type for abs(): '%s'", tval_type(self));
    if (self.kind == T_FLOAT) return tval_float(fabs(self.u.f));
    if (self.kind == T_BOOL) return tval_int(self.u.b);
    return tval_compare_int(self, tval_int(0)) < 0 ? tval_negate(r, self) : self;
}

FILTER(integer)
{
    (void)all;
    tval other = a[0].kind == T_MISSING ? tval_int(0) : a[0];
    if (self.kind == T_UNDEFINED) tval_fail_undefined(r, self);
    if (self.kind == T_STRING) {
        int64_t base = a[1].kind == T_MISSING ? 10 : tval_to_int(r, a[1], "int base");
        tval v = tval_parse_int(r, self.u.str, base < 0 || base > 36 ? -1 : (int)base);
        if (v.kind != T_MISSING) return v;
        v = tval_parse_float(r, self.u.str);
        return v.kind == T_FLOAT && isfinite(v.u.f) ? tval_from_double(r, trunc(v.u.f)) : other;
    }
    if (self.kind == T_BOOL) return tval_int(self.u.b);
    if (self.kind == T_INT || self.kind == T_BIG) return self;
    if (self.kind != T_FLOAT || isnan(self.u.f)) return other;
    if (isinf(self.u.f)) trt_fail(r, "cannot convert float infinity to integer");
    return tval_from_double(r, trunc(self.u.f));
}

FILTER(real)
{
    (void)all;
    if (self.kind == T_UNDEFINED) tval_fail_undefined(r, self);
    tval v = self.kind == T_STRING  ? tval_parse_float(r, self.u.str)
             : tval_is_number(self) ? tval_float(tval_to_double(r, self))
                                    : tval_missing();
    if (v.kind != T_MISSING) return v;
    return a[0].kind == T_MISSING ? tval_float(0) : a[0];
}

FILTER(round_filter)
{
    (void)all;
    int64_t precision = a[0].kind == T_MISSING ? 0 : tval_to_int(r, a[0], "round precision");
    const tstr *method = a[1].kind == T_MISSING ? NULL : tval_want_str(r, a[1], "round method");
    if (self.kind == T_UNDEFINED) tval_fail_undefined(r, self);
    if (!tval_is_number(self))
        trt_fail(r, "type %s doesn't define __round__ method", tval_type(self));
    if (!method || tstr_is(method, "common")) return tval_round(r, self, precision);
    bool up = tstr_is(method, "ceil");
    if (!up && !tstr_is(method, "floor")) trt_fail(r, "method must be common, ceil or floor");
    double unit = pow(10, (double)precision), v = tval_to_double(r, self) * unit;
    return tval_float(((up ? ceil(v) : floor(v)) + 0.0) / unit); // an integer in between: no -0.0
}

FILTER(filesizeformat)
{
    (void)all;
    static const char *const binary_names[] = {"KiB", "MiB", "GiB", "TiB",
                                               "PiB", "EiB", "ZiB", "YiB"};
    static const char *const names[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    bool binary = tval_true(r, a[0]);
    tval v = self.kind == T_STRING ? tval_parse_float(r, self.u.str) : self;
    double bytes = v.kind == T_MISSING ? 0 : tval_to_double(r, v), base = binary ? 1024 : 1000;
    tbuf b;
    tbuf_start(&b, r);
    if (v.kind == T_MISSING) trt_fail(r, "could not convert string to float");
    if (bytes == 1) {
        tbuf_text(&b, "1 Byte");
    } else if (bytes < base) {
        tbuf_printf(&b, "%.0f Bytes", trunc(bytes));
    } else {
        double unit = base * base;
        size_t i = 0;
        for (; i < 7 && bytes >= unit; i++) unit *= base;
        tbuf_printf(&b, "%.1f %s", base * bytes / unit, (binary ? binary_names : names)[i]);
    }
    return tval_str(tbuf_take(&b));
}

// ---- lines and words --------------------------------------------------------------------------

// indent(width=4, first=False, blank=False)
FILTER(indent)
{
    (void)all;
    const tstr *s = tval_want_str(r, self, "indent"), *by;
    bool first = tval_true(r, a[1]), blank = tval_true(r, a[2]);
    if (a[0].kind == T_STRING) {
        by = a[0].u.str;
    } else {
        int64_t width = a[0].kind == T_MISSING ? 4 : tval_to_int(r, a[0], "indent");
        tbuf blanks;
        tbuf_start(&blanks, r);
        tbuf_fill(&blanks, ' ', width > 0 ? (size_t)width : 0);
        by = tbuf_take(&blanks);
    }
    // A line end more, so that a last empty line counts.
    const tlist *lines =
        tstr_lines(r, tstr_concat(r, s, tstr_new(r, "\n", 1, LITERAL_NONE)), false);
    tbuf b;
    tbuf_start(&b, r);
    b.markup = s->markup;
    for (size_t i = 0; i < lines->n; i++) {
        const tstr *line = lines->v[i].u.str;
        if (i) tbuf_text(&b, "\n");
        if (i == 0 ? first : blank || line->n) tbuf_str(&b, by);
        tbuf_str(&b, line);
    }
    return tval_str(tbuf_take(&b));
}

// truncate(length=255, killwords=False, end='...', leeway=5)
FILTER(truncate)
{
    (void)all;
    int64_t n = a[0].kind == T_MISSING ? 255 : tval_to_int(r, a[0], "truncate");
    const tstr *end =
        a[2].kind == T_MISSING ? tstr_c(r, "...") : tval_want_str(r, a[2], "truncate");
    int64_t leeway = given(a[3]) ? tval_to_int(r, a[3], "truncate") : 5;
    if (n < (int64_t)end->n_chars)
        trt_fail(r, "expected length >= %zu, got %" PRId64, end->n_chars, n);
    if (leeway < 0) trt_fail(r, "expected leeway >= 0, got %" PRId64, leeway);
    int64_t have = (int64_t)tval_length(r, self);
    if (have <= n || have - n <= leeway) return self;
    const tstr *s = tval_want_str(r, self, "truncate");
    const tstr *head = tstr_part(r, s, 0, tstr_offset(s, (size_t)n - end->n_chars));
    if (!tval_true(r, a[1])) {
        size_t blank = tstr_find_last(r, head, tstr_c(r, " "), head->n);
        if (blank != SIZE_MAX) head = tstr_part(r, head, 0, blank);
    }
    return tval_str(tstr_concat(r, head, end));
}

FILTER(wordcount)
{
    (void)a, (void)all;
    const tstr *s = tval_to_str(r, self);
    int64_t n = 0;
    bool inside = false;
    trt_step(r, s->n / 4);
    for (size_t i = 0, next; i < s->n; i = next) {
        bool word = tchar_is_word(tstr_decode(s, i, &next));
        n += word && !inside;
        inside = word;
    }
    return tval_int(n);
}

static bool is_blank(char c)
{
    return c && strchr(" \t\n\v\f\r", c);
}

// ---- HTML and URLs ----------------------------------------------------------------------------

static void put_quoted(tbuf *b, const tstr *s, bool query)
{
    for (size_t i = 0; i < s->n; i++) {
        unsigned char c = (unsigned char)s->s[i];
        if ((c < 128 && isalnum(c)) || (c && strchr("_.-~", c)) || (c == '/' && !query))
            tbuf_part(b, s, i, i + 1);
        else if (c == ' ' && query)
            tbuf_text(b, "+");
        else
            tbuf_printf(b, "%%%02X", c);
    }
}

FILTER(urlencode)
{
    (void)a, (void)all;
    tbuf b;
    tbuf_start(&b, r);
    if (self.kind == T_STRING || !tval_is_iterable(self)) {
        put_quoted(&b, tval_to_str(r, self), false);
        return tval_str(tbuf_take(&b));
    }
    tview v = {VIEW_ITEMS, self.kind == T_DICT ? self.u.dict : NULL};
    const tlist *items = tval_items(r, self.kind == T_DICT ? (tval){T_VIEW, {.view = &v}} : self);
    for (size_t i = 0; i < items->n; i++) {
        const tlist *pair = tval_items(r, items->v[i]);
        if (pair->n != 2) trt_fail(r, "urlencode needs pairs");
        if (i) tbuf_text(&b, "&");
        put_quoted(&b, tval_to_str(r, pair->v[0]), true);
        tbuf_text(&b, "=");
        put_quoted(&b, tval_to_str(r, pair->v[1]), true);
    }
    return tval_str(tbuf_take(&b));
}

FILTER(xmlattr)
{
    (void)all;
    if (self.kind != T_DICT) trt_fail(r, "xmlattr needs a mapping, not %s", tval_type(self));
    bool space = a[0].kind == T_MISSING || tval_true(r, a[0]);
    tbuf b;
    tbuf_start(&b, r);
    for (size_t i = 0; i < self.u.dict->n; i++) {
        const tpair *p = &self.u.dict->v[i];
        if (!given(p->value) || p->value.kind == T_UNDEFINED) continue;
        const tstr *key = tval_want_str(r, p->key, "xmlattr");
        for (size_t k = 0; k < key->n; k++)
            if (is_blank(key->s[k]) || (key->s[k] && strchr("/>=", key->s[k])))
                trt_fail(r, "Invalid character in attribute name: '%.*s'", (int)key->n, key->s);
        if (b.n || space) tbuf_text(&b, " ");
        tbuf_str(&b, tstr_escape(r, key));
        tbuf_text(&b, "=\"");
        tbuf_str(&b, tstr_escape(r, tval_to_str(r, p->value)));
        tbuf_text(&b, "\"");
    }
    b.markup = r->autoescape;
    return tval_str(tbuf_take(&b));
}

// Text without what lies between OPEN and CLOSE.
static const tstr *without(trt *r, const tstr *s, const char *open, const char *close)
{
    const tstr *from = tstr_c(r, open), *to = tstr_c(r, close);
    tbuf b;
    tbuf_start(&b, r);
    size_t at = 0;
    for (;;) {
        size_t start = tstr_find(r, s, from, at);
        size_t end = start == SIZE_MAX ? SIZE_MAX : tstr_find(r, s, to, start);
        if (end == SIZE_MAX) break;
        tbuf_part(&b, s, at, start);
        at = end + to->n;
    }
    tbuf_part(&b, s, at, s->n);
    return tbuf_take(&b);
}

static size_t put_entity(tbuf *b, const tstr *s, size_t i)
{
    static const struct {
        const char *name, *text;
    } entities[] = {{"&amp;", "&"},   {"&lt;", "<"},   {"&gt;", ">"},
                    {"&quot;", "\""}, {"&apos;", "'"}, {"&nbsp;", "\xC2\xA0"}};
    for (size_t k = 0; k < sizeof entities / sizeof *entities; k++) {
        size_t n = strlen(entities[k].name);
        if (s->n - i < n || memcmp(s->s + i, entities[k].name, n) != 0) continue;
        tbuf_text(b, entities[k].text);
        return i + n;
    }
    if (i + 3 < s->n && s->s[i + 1] == '#') {
        bool hex = (s->s[i + 2] | 0x20) == 'x';
        size_t k = i + 2 + hex, start = k;
        int32_t code = 0;
        for (; k < s->n &&
               (hex ? isxdigit((unsigned char)s->s[k]) : isdigit((unsigned char)s->s[k])) &&
               code < 0x110000;
             k++) {
            int c = tolower((unsigned char)s->s[k]);
            code = code * (hex ? 16 : 10) + (c <= '9' ? c - '0' : c - 'a' + 10);
        }
        if (k > start) {
            tbuf_code(b, code, false);
            return k + (k < s->n && s->s[k] == ';');
        }
    }
    tbuf_part(b, s, i, i + 1);
    return i + 1;
}

FILTER(striptags)
{
    (void)a, (void)all;
    const tstr *s = without(r, tval_to_str(r, self), "<!--", "-->");
    s = without(r, s, "<", ">");
    tbuf b;
    tbuf_start(&b, r);
    bool gap = false;
    for (size_t i = 0, next; i < s->n; i = next) {
        if (tchar_is_space(tstr_decode(s, i, &next))) {
            gap = true;
            continue;
        }
        if (gap && b.n) tbuf_text(&b, " ");
        gap = false;
        if (s->s[i] == '&')
            next = put_entity(&b, s, i);
        else
            tbuf_part(&b, s, i, next);
    }
    return tval_str(tbuf_take(&b));
}

// ---- the table --------------------------------------------------------------------------------

static const tfunction filters[] = {
    {"tojson", tval_to_json, "ensure_ascii indent separators sort_keys", 0},
    {"trim", trim, "chars", 0},
    {"length", length, "", 0},
    {"count", length, "", 0},
    {"string", string, "", 0},
    {"upper", upper, "", 0},
    {"lower", lower, "", 0},
    {"title", title, "", 0},
    {"capitalize", capitalize, "", 0},
    {"default", default_value, "default_value boolean", 0},
    {"d", default_value, "default_value boolean", 0},
    {"replace", replace, "old new count", 2},
    {"indent", indent, "width first blank", 0},
    {"int", integer, "default base", 0},
    {"float", real, "default", 0},
    {"abs", absolute, "", 0},
    {"round", round_filter, "precision method", 0},
    {"safe", safe, "", 0},
    {"escape", escape, "", 0},
    {"e", escape, "", 0},
    {"forceescape", forceescape, "", 0},
    {"attr", attribute, "name", 1},
    {"center", center, "width", 0},
    {"format", format, NULL, 0},
    {"filesizeformat", filesizeformat, "binary", 0},
    {"pprint", tval_pretty, "", 0},
    {"striptags", striptags, "", 0},
    {"truncate", truncate, "length killwords end leeway", 0},
    {"urlencode", urlencode, "", 0},
    {"wordcount", wordcount, "", 0},
    {"wordwrap", twordwrap, "width break_long_words wrapstring break_on_hyphens", 0},
    {"xmlattr", xmlattr, "autospace", 0},
    {NULL, NULL, NULL, 0},
};

const tfunction *tfilter_find(const tstr *name)
{
    const tfunction *const tables[] = {filters, tsequence_filters};
    for (size_t i = 0; i < 2; i++)
        for (const tfunction *f = tables[i]; f->name; f++)
            if (tstr_is(name, f->name)) return f;
    return NULL;
}
