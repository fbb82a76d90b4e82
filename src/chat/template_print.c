// Values as text: Python's str and repr, JSON.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "chat/template_internal.h"

// ---- str and repr -----------------------------------------------------------------------------

// The shortest digits that read back as the same number, laid out as Python does.
void tbuf_float(tbuf *b, double f)
{
    if (!isfinite(f)) {
        tbuf_text(b, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    char text[40];
    // Fifteen digits always fit a normal number; a subnormal one may have fewer.
    for (int precision = fabs(f) < DBL_MIN ? 0 : 14; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, f);
        if (strtod(text, NULL) == f) break;
    }
    char digits[20];
    int n = 0, exponent = atoi(strchr(text, 'e') + 1);
    for (const char *p = text; *p != 'e'; p++)
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    while (n > 1 && digits[n - 1] == '0') n--;
    if (signbit(f)) tbuf_text(b, "-");
    if (exponent < -4 || exponent >= 16) {
        tbuf_bytes(b, digits, 1, false);
        if (n > 1) tbuf_printf(b, ".%.*s", n - 1, digits + 1);
        tbuf_printf(b, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    } else if (exponent < 0) {
        tbuf_printf(b, "0.%.*s%.*s", -exponent - 1, "0000", n, digits);
    } else {
        int whole = exponent + 1 < n ? exponent + 1 : n;
        tbuf_bytes(b, digits, (size_t)whole, false);
        tbuf_fill(b, '0', (size_t)(exponent + 1 - whole));
        tbuf_text(b, ".");
        if (n > whole)
            tbuf_bytes(b, digits + whole, (size_t)(n - whole), false);
        else
            tbuf_text(b, "0");
    }
}

static void repr_str(tbuf *b, const tstr *s)
{
    bool single = s->n && memchr(s->s, '\'', s->n), twice = s->n && memchr(s->s, '"', s->n);
    char quote = single && !twice ? '"' : '\'';
    tbuf_bytes(b, &quote, 1, false);
    for (size_t i = 0, next; i < s->n; i = next) {
        int32_t c = tstr_decode(s, i, &next);
        if (c == quote || c == '\\')
            tbuf_printf(b, "\\%c", (char)c);
        else if (c == '\n' || c == '\r' || c == '\t')
            tbuf_text(b, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        else if (tchar_is_printable(c))
            tbuf_bytes(b, s->s + i, next - i, false);
        else
            tbuf_printf(b,
                        c < 0x100     ? "\\x%02x"
                        : c < 0x10000 ? "\\u%04x"
                                      : "\\U%08x",
                        (unsigned)c);
    }
    tbuf_bytes(b, &quote, 1, false);
}

static void repr_bytes(tbuf *b, const tstr *s)
{
    bool single = s->n && memchr(s->s, '\'', s->n), twice = s->n && memchr(s->s, '"', s->n);
    char quote = single && !twice ? '"' : '\'';
    tbuf_printf(b, "b%c", quote);
    for (size_t i = 0; i < s->n; i++) {
        uint8_t c = (uint8_t)s->s[i];
        if (c == (uint8_t)quote || c == '\\')
            tbuf_printf(b, "\\%c", c);
        else if (c == '\n' || c == '\r' || c == '\t')
            tbuf_text(b, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        else
            tbuf_printf(b, c >= 32 && c < 127 ? "%c" : "\\x%02x", c);
    }
    tbuf_bytes(b, &quote, 1, false);
}

static void repr_items(tbuf *b, const char *open, const tlist *l, const char *close)
{
    tbuf_text(b, open);
    for (size_t i = 0; i < l->n; i++) {
        if (i) tbuf_text(b, ", ");
        tbuf_repr(b, l->v[i]);
    }
    tbuf_text(b, close);
}

static void repr_dict(tbuf *b, const tdict *d)
{
    tbuf_text(b, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i) tbuf_text(b, ", ");
        tbuf_repr(b, d->v[i].key);
        tbuf_text(b, ": ");
        tbuf_repr(b, d->v[i].value);
    }
    tbuf_text(b, "}");
}

static void repr_range(tbuf *b, const trange *g)
{
    tbuf_printf(b, "range(%" PRId64 ", %" PRId64, g->start, g->stop);
    if (g->step != 1) tbuf_printf(b, ", %" PRId64, g->step);
    tbuf_text(b, ")");
}

static void repr_object(tbuf *b, tval v)
{
    trt *r = b->r;
    switch (v.kind) {
    case T_NAMESPACE:
        tbuf_text(b, "<Namespace ");
        repr_dict(b, v.u.dict);
        tbuf_text(b, ">");
        break;
    case T_RANGE: repr_range(b, v.u.range); break;
    case T_VIEW:
        tbuf_printf(b, "%s([", tval_type(v));
        repr_items(b, "", tval_items(r, v), "])");
        break;
    case T_MACRO:
        tbuf_text(b, "<Macro ");
        if (v.u.macro->node->macro->name.kind == T_STRING)
            tbuf_repr(b, v.u.macro->node->macro->name);
        else
            tbuf_text(b, "anonymous");
        tbuf_text(b, ">");
        break;
    case T_LOOP: tbuf_printf(b, "<LoopContext %zu/%zu>", v.u.loop->at + 1, v.u.loop->n); break;
    case T_FUNCTION: tbuf_printf(b, "<function %s>", v.u.function->name); break;
    case T_METHOD:
        tbuf_printf(b, "<built-in method %s of %s object>", v.u.method->function->name,
                    tval_type(v.u.method->self));
        break;
    default: tbuf_printf(b, "<%s object>", tval_type(v)); break;
    }
}

void tbuf_repr(tbuf *b, tval v)
{
    trt *r = b->r;
    trt_step(r, 1);
    trt_enter(r);
    switch (v.kind) {
    case T_MISSING:
    case T_UNDEFINED: tbuf_text(b, "Undefined"); break;
    case T_NONE: tbuf_text(b, "None"); break;
    case T_BOOL: tbuf_text(b, v.u.b ? "True" : "False"); break;
    case T_INT: tbuf_printf(b, "%" PRId64, v.u.i); break;
    case T_BIG: tbuf_big(b, v.u.big); break;
    case T_FLOAT: tbuf_float(b, v.u.f); break;
    case T_STRING:
        if (v.u.str->markup) tbuf_text(b, "Markup(");
        repr_str(b, v.u.str);
        if (v.u.str->markup) tbuf_text(b, ")");
        break;
    case T_BYTES: repr_bytes(b, v.u.str); break;
    case T_LIST: repr_items(b, "[", v.u.list, "]"); break;
    case T_TUPLE: repr_items(b, "(", v.u.list, v.u.list->n == 1 ? ",)" : ")"); break;
    case T_DICT: repr_dict(b, v.u.dict); break;
    default: repr_object(b, v); break;
    }
    trt_exit(r);
}

void tbuf_value(tbuf *b, tval v)
{
    if (v.kind == T_STRING)
        tbuf_str(b, v.u.str);
    else if (v.kind != T_UNDEFINED)
        tbuf_repr(b, v);
}

const tstr *tval_to_str(trt *r, tval v)
{
    if (v.kind == T_STRING) return v.u.str;
    tbuf b;
    tbuf_start(&b, r);
    tbuf_value(&b, v);
    return tbuf_take(&b);
}

const tstr *tval_to_repr(trt *r, tval v)
{
    tbuf b;
    tbuf_start(&b, r);
    tbuf_repr(&b, v);
    return tbuf_take(&b);
}

// ---- JSON, as json.dumps ----------------------------------------------------------------------

typedef struct json_style {
    bool ascii, sort_keys;
    const tstr *indent; // NULL: one line
    const tstr *item_separator, *key_separator;
} json_style;

static void json_str(tbuf *b, const tstr *s, bool ascii)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    tbuf_text(b, "\"");
    for (size_t i = 0, next; i < s->n;) {
        // Plain stretches go over in one piece.
        for (next = i; next < s->n; next++) {
            uint8_t c = (uint8_t)s->s[next];
            if (c < 32 || c == '"' || c == '\\' || (ascii && c >= 127)) break;
        }
        tbuf_bytes(b, s->s + i, next - i, false);
        i = next;
        if (i >= s->n) break;
        int32_t c = tstr_decode(s, i, &next);
        const char *simple = c && c < 128 ? strchr(from, c) : NULL;
        if (simple)
            tbuf_printf(b, "\\%c", to[simple - from]);
        else if (c < 0x10000)
            tbuf_printf(b, "\\u%04x", (unsigned)c);
        else
            tbuf_printf(b, "\\u%04x\\u%04x", 0xD800 + (unsigned)((c - 0x10000) >> 10),
                        0xDC00 + (unsigned)((c - 0x10000) & 0x3FF));
        i = next;
    }
    tbuf_text(b, "\"");
}

static void json_float(tbuf *b, double f)
{
    if (isfinite(f))
        tbuf_float(b, f);
    else
        tbuf_text(b, isnan(f) ? "NaN" : f < 0 ? "-Infinity" : "Infinity");
}

static void json_line(tbuf *b, const json_style *style, int level)
{
    if (!style->indent) return;
    tbuf_text(b, "\n");
    for (int i = 0; i < level; i++) tbuf_bytes(b, style->indent->s, style->indent->n, false);
}

static void json_value(tbuf *b, tval v, const json_style *style, int level);

static void json_separator(tbuf *b, const tstr *s)
{
    tbuf_bytes(b, s->s, s->n, false);
}

static void json_list(tbuf *b, const tlist *l, const json_style *style, int level)
{
    tbuf_text(b, "[");
    for (size_t i = 0; i < l->n; i++) {
        if (i) json_separator(b, style->item_separator);
        json_line(b, style, level + 1);
        json_value(b, l->v[i], style, level + 1);
    }
    if (l->n) json_line(b, style, level);
    tbuf_text(b, "]");
}

static void json_key(tbuf *b, tval key, const json_style *style)
{
    if (key.kind == T_STRING) {
        json_str(b, key.u.str, style->ascii);
        return;
    }
    if (!tval_is_number(key) && key.kind != T_NONE)
        trt_fail(b->r, "keys must be str, int, float, bool or None, not %s", tval_type(key));
    tbuf_text(b, "\"");
    json_value(b, key, style, 0);
    tbuf_text(b, "\"");
}

static int by_key(trt *r, tval a, tval b)
{
    return tval_less(r, a, b, OP_LT) ? -1 : tval_less(r, b, a, OP_LT);
}

// A copy in order of the keys (insertion sort: stable, and such dictionaries are small).
static tdict *sorted(trt *r, const tdict *d)
{
    tdict *s = tdict_new(r, d->n);
    for (size_t i = 0; i < d->n; i++) {
        size_t k = s->n++;
        for (; k > 0 && by_key(r, d->v[i].key, s->v[k - 1].key) < 0; k--) s->v[k] = s->v[k - 1];
        s->v[k] = d->v[i];
    }
    return s;
}

static void json_dict(tbuf *b, const tdict *d, const json_style *style, int level)
{
    if (style->sort_keys) d = sorted(b->r, d);
    tbuf_text(b, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i) json_separator(b, style->item_separator);
        json_line(b, style, level + 1);
        json_key(b, d->v[i].key, style);
        json_separator(b, style->key_separator);
        json_value(b, d->v[i].value, style, level + 1);
    }
    if (d->n) json_line(b, style, level);
    tbuf_text(b, "}");
}

static void json_value(tbuf *b, tval v, const json_style *style, int level)
{
    trt_step(b->r, 1);
    trt_enter(b->r);
    switch (v.kind) {
    case T_NONE: tbuf_text(b, "null"); break;
    case T_BOOL: tbuf_text(b, v.u.b ? "true" : "false"); break;
    case T_INT: tbuf_printf(b, "%" PRId64, v.u.i); break;
    case T_BIG: tbuf_big(b, v.u.big); break;
    case T_FLOAT: json_float(b, v.u.f); break;
    case T_STRING: json_str(b, v.u.str, style->ascii); break;
    case T_LIST:
    case T_TUPLE: json_list(b, v.u.list, style, level); break;
    case T_DICT: json_dict(b, v.u.dict, style, level); break;
    default: trt_fail(b->r, "Object of type %s is not JSON serializable", tval_type(v));
    }
    trt_exit(b->r);
}

// tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)
tval tval_to_json(trt *r, tval self, const tval *a, const targs *all)
{
    (void)all;
    json_style style = {.ascii = tval_true(r, a[0]), .sort_keys = tval_true(r, a[3])};
    if (a[1].kind == T_STRING) {
        style.indent = a[1].u.str;
    } else if (a[1].kind != T_MISSING && a[1].kind != T_NONE) {
        int64_t width = tval_to_int(r, a[1], "tojson indent");
        tbuf indent;
        tbuf_start(&indent, r);
        tbuf_fill(&indent, ' ', width > 0 ? (size_t)width : 0);
        style.indent = tbuf_take(&indent);
    }
    style.item_separator = tstr_c(r, style.indent ? "," : ", ");
    style.key_separator = tstr_c(r, ": ");
    if (a[2].kind != T_MISSING && a[2].kind != T_NONE) {
        const tlist *l = tval_items(r, a[2]);
        if (l->n != 2) trt_fail(r, "tojson: separators must be a pair of strings");
        style.item_separator = tval_want_str(r, l->v[0], "tojson separators");
        style.key_separator = tval_want_str(r, l->v[1], "tojson separators");
    }
    tbuf b;
    tbuf_start(&b, r);
    json_value(&b, self, &style, 0);
    return tval_str(tbuf_take(&b));
}

// ---- pprint -----------------------------------------------------------------------------------

enum { PRETTY_WIDTH = 80 };

// repr where it fits into the line, else one item a line.
static void pretty(tbuf *b, tval v, size_t indent, size_t behind)
{
    trt *r = b->r;
    trt_step(r, 1);
    trt_enter(r);
    bool is_dict = v.kind == T_DICT, is_list = v.kind == T_LIST || v.kind == T_TUPLE;
    if (is_dict) v = tval_dict(sorted(r, v.u.dict));
    const tstr *flat = tval_to_repr(r, v);
    size_t n = is_dict ? v.u.dict->n : is_list ? v.u.list->n : 0;
    if (flat->n_chars + indent + behind <= PRETTY_WIDTH || n == 0) {
        tbuf_str(b, flat);
    } else {
        tbuf_text(b, is_dict ? "{" : v.kind == T_LIST ? "[" : "(");
        for (size_t i = 0; i < n; i++) {
            size_t at = indent + 1;
            if (i) {
                tbuf_text(b, ",\n");
                tbuf_fill(b, ' ', at);
            }
            if (is_dict) {
                const tstr *key = tval_to_repr(r, v.u.dict->v[i].key);
                tbuf_str(b, key);
                tbuf_text(b, ": ");
                at += key->n_chars + 2;
            }
            pretty(b, is_dict ? v.u.dict->v[i].value : v.u.list->v[i], at,
                   i + 1 < n ? 1 : behind + 1);
        }
        if (v.kind == T_TUPLE && n == 1) tbuf_text(b, ",");
        tbuf_text(b, is_dict ? "}" : v.kind == T_LIST ? "]" : ")");
    }
    trt_exit(r);
}

tval tval_pretty(trt *r, tval self, const tval *a, const targs *all)
{
    (void)a;
    (void)all;
    tbuf b;
    tbuf_start(&b, r);
    pretty(&b, self, 0, 0);
    return tval_str(tbuf_take(&b));
}
