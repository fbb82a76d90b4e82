// Python's two ways to format: the % operator and str.format.
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "chat/template_internal.h"

enum { MAX_WIDTH = 1 << 20, MAX_PRECISION = 300 };

// ---- laying out one number or string ----------------------------------------------------------

typedef struct spec {
    const tstr *fill; // one character, or NULL: blank
    char align;       // < > ^ =, 0: by type
    char sign;        // + - or blank, 0
    bool alternate;   // #
    bool zero;        // pad with zeros
    char group;       // , or _, 0
    int64_t width;
    int64_t precision; // -1: none
    char type;         // 0: by type
} spec;

// Pads `body`, whose first n_sign bytes are its sign (and base prefix).
static void pad(tbuf *b, const tstr *body, size_t n_sign, const spec *s, char align)
{
    size_t width = (size_t)s->width, gap = width > body->n_chars ? width - body->n_chars : 0;
    size_t left = align == '>' ? gap : align == '^' ? gap / 2 : 0;
    bool inside = align == '=';
    if (inside) tbuf_part(b, body, 0, n_sign);
    size_t before = inside ? gap : left;
    for (size_t i = 0; i < before; i++) {
        if (s->fill)
            tbuf_str(b, s->fill);
        else
            tbuf_fill(b, s->zero && inside ? '0' : ' ', 1);
    }
    tbuf_part(b, body, inside ? n_sign : 0, body->n);
    for (size_t i = before; i < gap; i++) {
        if (s->fill)
            tbuf_str(b, s->fill);
        else
            tbuf_fill(b, ' ', 1);
    }
}

static const tstr *big_digits(trt *r, tval v, int base, bool upper)
{
    tlist *digits = tlist_new(r, 64); // lowest first
    if (tval_compare_int(v, tval_int(0)) < 0) v = tval_negate(r, v);
    for (; v.kind == T_BIG || v.u.i; trt_step(r, 1)) {
        tlist_push(r, digits, tval_arith(r, OP_MOD, v, tval_int(base)));
        v = tval_arith(r, OP_FLOORDIV, v, tval_int(base));
    }
    tbuf b;
    tbuf_start(&b, r);
    for (size_t i = digits->n; i-- > 0;)
        tbuf_bytes(&b, (upper ? "0123456789ABCDEF" : "0123456789abcdef") + digits->v[i].u.i, 1,
                   false);
    return tbuf_take(&b);
}

// The digits of an integer's size in a base that is 2, 8, 10 or 16.
static const tstr *int_digits(trt *r, tval v, int base, bool upper)
{
    tbuf b;
    tbuf_start(&b, r);
    if (base == 10) {
        const tstr *s = tval_to_str(r, v.kind == T_BOOL ? tval_int(v.u.b) : v);
        return s->s[0] == '-' ? tstr_part(r, s, 1, s->n) : s;
    }
    if (v.kind == T_BIG) return big_digits(r, v, base, upper);
    int64_t i = v.kind == T_BOOL ? v.u.b : v.u.i;
    uint64_t m = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    char text[65];
    size_t at = sizeof text;
    do text[--at] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[m % (unsigned)base];
    while (m /= (unsigned)base);
    tbuf_bytes(&b, text + at, sizeof text - at, false);
    return tbuf_take(&b);
}

static bool is_negative(tval v)
{
    return v.kind == T_INT ? v.u.i < 0 : v.kind == T_BIG && tval_compare_int(v, tval_int(0)) < 0;
}

// Separators between groups of digits in the whole part.
static const tstr *grouped(trt *r, const tstr *digits, char separator, size_t size)
{
    size_t whole = 0;
    while (whole < digits->n && isalnum((unsigned char)digits->s[whole])) whole++;
    tbuf b;
    tbuf_start(&b, r);
    for (size_t i = 0; i < whole; i++) {
        if (i && (whole - i) % size == 0) tbuf_bytes(&b, &separator, 1, false);
        tbuf_bytes(&b, digits->s + i, 1, false);
    }
    tbuf_part(&b, digits, whole, digits->n);
    return tbuf_take(&b);
}

// Zeros that fill the width are grouped too.
static const tstr *filled_groups(trt *r, const tstr *digits, const spec *s, size_t size,
                                 bool has_sign)
{
    const tstr *out = grouped(r, digits, s->group, size), *zero = tstr_c(r, "0");
    while (s->zero && !s->align && out->n + has_sign < (size_t)s->width) {
        trt_step(r, 1 + digits->n / 8);
        digits = tstr_concat(r, zero, digits);
        out = grouped(r, digits, s->group, size);
    }
    return out;
}

static void put_number(tbuf *b, const tstr *digits, bool negative, const char *prefix,
                       const spec *s, size_t group_size)
{
    trt *r = b->r;
    bool has_sign = negative || s->sign == '+' || s->sign == ' ';
    if (s->group) digits = filled_groups(r, digits, s, group_size, has_sign);
    tbuf body;
    tbuf_start(&body, r);
    if (negative)
        tbuf_text(&body, "-");
    else if (s->sign == '+' || s->sign == ' ')
        tbuf_bytes(&body, &s->sign, 1, false);
    if (s->alternate) tbuf_text(&body, prefix);
    size_t n_sign = body.n;
    tbuf_str(&body, digits);
    pad(b, tbuf_take(&body), n_sign, s, s->align ? s->align : s->zero ? '=' : '>');
}

static void put_int(tbuf *b, tval v, const spec *s)
{
    char type = s->type ? s->type : 'd';
    int base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
    const char *prefix = type == 'x'   ? "0x"
                         : type == 'X' ? "0X"
                         : type == 'o' ? "0o"
                         : type == 'b' ? "0b"
                                       : "";
    put_number(b, int_digits(b->r, v, base, type == 'X'), is_negative(v), prefix, s,
               base == 10 ? 3 : 4);
}

static const tstr *float_digits(trt *r, double f, const spec *s)
{
    tbuf b;
    tbuf_start(&b, r);
    char type = s->type;
    if (type == 0 && s->precision < 0) {
        tbuf_float(&b, fabs(f));
        return tbuf_take(&b);
    }
    int precision = s->precision < 0 ? 6 : (int)s->precision;
    bool percent = type == '%', general = type == 0;
    if (percent) {
        f *= 100;
        type = 'f';
    }
    if (general || type == 'n') type = 'g';
    char format[16], text[800];
    snprintf(format, sizeof format, "%%%s.*%c", s->alternate ? "#" : "", type);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof text, format, precision, fabs(f));
#pragma GCC diagnostic pop
    tbuf_text(&b, text);
    if (general && isfinite(f) && !strpbrk(text, ".e")) tbuf_text(&b, ".0");
    if (percent) tbuf_text(&b, "%");
    return tbuf_take(&b);
}

static void put_float(tbuf *b, double f, const spec *s)
{
    if (s->precision > MAX_PRECISION) trt_fail(b->r, "precision too large");
    put_number(b, float_digits(b->r, f, s), signbit(f) && !isnan(f), "", s, 3);
}

static void put_str(tbuf *b, const tstr *v, const spec *s, char align)
{
    if (s->precision >= 0) v = tstr_part(b->r, v, 0, tstr_offset(v, (size_t)s->precision));
    pad(b, v, 0, s, align);
}

static bool is_float_type(char c)
{
    return c && strchr("eEfFgG%", c);
}

// What is not ASCII as escapes.
static const tstr *ascii_only(trt *r, const tstr *s)
{
    tbuf b;
    tbuf_start(&b, r);
    for (size_t i = 0, next; i < s->n; i = next) {
        int32_t c = tstr_decode(s, i, &next);
        if (c < 128)
            tbuf_part(&b, s, i, next);
        else
            tbuf_printf(&b,
                        c < 0x100     ? "\\x%02x"
                        : c < 0x10000 ? "\\u%04x"
                                      : "\\U%08x",
                        (unsigned)c);
    }
    return tbuf_take(&b);
}

// ---- the % operator ---------------------------------------------------------------------------

typedef struct percent {
    trt *r;
    const tstr *format;
    size_t at;
    const tlist *args; // positional
    size_t next;
    tval mapping; // for %(name)s
} percent;

static tval next_arg(percent *p)
{
    if (p->next >= p->args->n) trt_fail(p->r, "not enough arguments for format string");
    return p->args->v[p->next++];
}

static int64_t percent_number(percent *p)
{
    const tstr *f = p->format;
    if (p->at < f->n && f->s[p->at] == '*') {
        p->at++;
        return tval_to_int(p->r, next_arg(p), "* wants int");
    }
    int64_t n = 0;
    for (; p->at < f->n && isdigit((unsigned char)f->s[p->at]); p->at++)
        if (n <= MAX_WIDTH) n = n * 10 + (f->s[p->at] - '0');
    return n;
}

// The mapping key after "%(", or T_MISSING.
static tval percent_key(percent *p)
{
    const tstr *f = p->format;
    if (p->at >= f->n || f->s[p->at] != '(') return tval_missing();
    size_t start = ++p->at, depth = 1;
    for (; p->at < f->n; p->at++) {
        if (f->s[p->at] == '(') depth++;
        if (f->s[p->at] == ')' && --depth == 0) break;
    }
    if (p->at >= f->n) trt_fail(p->r, "incomplete format key");
    return tval_str(tstr_part(p->r, f, start, p->at++));
}

static spec percent_spec(percent *p, bool *left)
{
    spec s = {.precision = -1};
    const tstr *f = p->format;
    for (; p->at < f->n && f->s[p->at] && strchr("-+ #0", f->s[p->at]); p->at++) {
        char c = f->s[p->at];
        if (c == '-') *left = true;
        if (c == '+' || (c == ' ' && !s.sign)) s.sign = c;
        if (c == '#') s.alternate = true;
        if (c == '0') s.zero = true;
    }
    s.width = percent_number(p);
    if (s.width < 0) {
        *left = true;
        s.width = -s.width;
    }
    if (p->at < f->n && f->s[p->at] == '.') {
        p->at++;
        s.precision = percent_number(p);
        if (s.precision < 0) s.precision = 0;
    }
    if (s.width > MAX_WIDTH || s.precision > MAX_WIDTH) trt_fail(p->r, "width too big");
    while (p->at < f->n && f->s[p->at] && strchr("hlL", f->s[p->at])) p->at++;
    return s;
}

static void percent_int(tbuf *b, tval v, spec *s, char type)
{
    trt *r = b->r;
    if (v.kind == T_FLOAT && strchr("diu", type)) {
        if (!isfinite(v.u.f))
            trt_fail(r, "cannot convert float %s to integer", isnan(v.u.f) ? "NaN" : "infinity");
        v = tval_from_double(r, v.u.f);
    }
    if (v.kind != T_INT && v.kind != T_BOOL && v.kind != T_BIG)
        trt_fail(r, "%%%c format: %s is required, not %s", type,
                 strchr("diu", type) ? "a real number" : "an integer", tval_type(v));
    s->type = strchr("iu", type) ? 'd' : type;
    const tstr *digits = int_digits(r, v,
                                    type == 'o'            ? 8
                                    : (type | 0x20) == 'x' ? 16
                                                           : 10,
                                    type == 'X');
    if (s->precision > (int64_t)digits->n) {
        tbuf longer;
        tbuf_start(&longer, r);
        tbuf_fill(&longer, '0', (size_t)s->precision - digits->n);
        tbuf_str(&longer, digits);
        digits = tbuf_take(&longer);
    }
    const char *prefix = type == 'o' ? "0o" : type == 'x' ? "0x" : type == 'X' ? "0X" : "";
    put_number(b, digits, is_negative(v), prefix, s, 3);
}

static void percent_item(tbuf *b, tval v, spec *s, bool left, char type)
{
    trt *r = b->r;
    if (left) {
        s->align = '<';
        s->zero = false;
    }
    if (type == 's' || type == 'r' || type == 'a') {
        const tstr *text = type == 's' ? tval_to_str(r, v) : tval_to_repr(r, v);
        if (type == 'a') text = ascii_only(r, text);
        s->zero = false;
        put_str(b, text, s, left ? '<' : '>');
    } else if (type == 'c') {
        tbuf c;
        tbuf_start(&c, r);
        if (v.kind == T_STRING && v.u.str->n_chars == 1)
            tbuf_str(&c, v.u.str);
        else if (v.kind == T_BOOL || (v.kind == T_INT && v.u.i >= 0 && v.u.i <= 0x10FFFF))
            tbuf_code(&c, v.kind == T_BOOL ? v.u.b : (int32_t)v.u.i, false);
        else
            trt_fail(r, "%%c requires int or char");
        s->zero = false;
        put_str(b, tbuf_take(&c), s, left ? '<' : '>');
    } else if (strchr("diuoxX", type)) {
        percent_int(b, v, s, type);
    } else if (strchr("eEfFgG", type)) {
        s->type = type;
        put_float(b, tval_to_double(r, v), s);
    } else {
        trt_fail(r, "unsupported format character '%c' (0x%x)", type, (unsigned)type);
    }
}

const tstr *tstr_percent(trt *r, const tstr *format, tval arg)
{
    tlist *one = tlist_new(r, 1);
    tlist_push(r, one, arg);
    percent p = {
        .r = r, .format = format, .args = arg.kind == T_TUPLE ? arg.u.list : one, .mapping = arg};
    bool mapped = false;
    tbuf b;
    tbuf_start(&b, r);
    b.markup = format->markup;
    while (p.at < format->n) {
        const char *hit = memchr(format->s + p.at, '%', format->n - p.at);
        size_t end = hit ? (size_t)(hit - format->s) : format->n;
        tbuf_part(&b, format, p.at, end);
        if (!hit) break;
        trt_step(r, 1);
        p.at = end + 1;
        tval key = percent_key(&p);
        bool left = false;
        spec s = percent_spec(&p, &left);
        if (p.at >= format->n) trt_fail(r, "incomplete format");
        char type = format->s[p.at++];
        if (type == '%' && p.at - end == 2) {
            tbuf_part(&b, format, p.at - 1, p.at);
            continue;
        }
        tval v;
        if (key.kind == T_STRING) {
            if (p.mapping.kind != T_DICT) trt_fail(r, "format requires a mapping");
            const tval *item = tdict_get(r, p.mapping.u.dict, key);
            if (!item) trt_fail(r, "no item '%.*s' to format", (int)key.u.str->n, key.u.str->s);
            v = *item;
            mapped = true;
        } else {
            v = next_arg(&p);
        }
        if (format->markup && v.kind == T_STRING) v = tval_str(tstr_escape(r, v.u.str));
        percent_item(&b, v, &s, left, type);
    }
    // What can be subscripted may stay unused.
    bool whole = arg.kind == T_DICT || arg.kind == T_LIST || arg.kind == T_RANGE ||
                 arg.kind == T_UNDEFINED || arg.kind == T_BYTES;
    if (!mapped && !whole && p.next < p.args->n)
        trt_fail(r, "not all arguments converted during string formatting");
    return tbuf_take(&b);
}

// ---- str.format -------------------------------------------------------------------------------

typedef struct braces {
    trt *r;
    const targs *args;
    size_t automatic; // the next unnumbered field
} braces;

static spec format_spec(trt *r, const tstr *t)
{
    spec s = {.precision = -1};
    size_t i = 0, next = 0;
    if (t->n) tstr_decode(t, 0, &next);
    if (next && next < t->n && strchr("<>^=", t->s[next])) {
        s.fill = tstr_part(r, t, 0, next);
        s.align = t->s[next];
        i = next + 1;
    } else if (t->n && t->s[0] && strchr("<>^=", t->s[0])) {
        s.align = t->s[i++];
    }
    if (i < t->n && t->s[i] && strchr("+- ", t->s[i])) s.sign = t->s[i++];
    if (i < t->n && t->s[i] == '#') {
        s.alternate = true;
        i++;
    }
    if (i < t->n && t->s[i] == '0') {
        s.zero = true;
        i++;
    }
    for (; i < t->n && isdigit((unsigned char)t->s[i]) && s.width <= MAX_WIDTH; i++)
        s.width = s.width * 10 + (t->s[i] - '0');
    if (i < t->n && (t->s[i] == ',' || t->s[i] == '_')) s.group = t->s[i++];
    if (i < t->n && t->s[i] == '.') {
        s.precision = 0;
        for (i++; i < t->n && isdigit((unsigned char)t->s[i]) && s.precision <= MAX_WIDTH; i++)
            s.precision = s.precision * 10 + (t->s[i] - '0');
    }
    if (i < t->n) s.type = t->s[i++];
    if (i < t->n || s.width > MAX_WIDTH || s.precision > MAX_WIDTH)
        trt_fail(r, "Invalid format specifier");
    return s;
}

static void format_value(tbuf *b, tval v, const tstr *text)
{
    trt *r = b->r;
    if (text->n == 0) {
        tbuf_value(b, v);
        return;
    }
    spec s = format_spec(r, text);
    if (s.zero && s.align && s.align != '=' && !s.fill) s.fill = tstr_c(r, "0");
    if (v.kind == T_STRING) {
        if (s.type && s.type != 's')
            trt_fail(r, "Unknown format code '%c' for object of type 'str'", s.type);
        if (s.sign || s.group || s.alternate || s.align == '=')
            trt_fail(r, "only fill, alignment, width and precision are allowed for a string");
        if (s.zero && !s.fill) s.fill = tstr_c(r, "0");
        put_str(b, tval_to_str(r, v), &s, s.align ? s.align : '<');
    } else if (v.kind == T_FLOAT || (tval_is_number(v) && is_float_type(s.type))) {
        if (s.type && !is_float_type(s.type) && s.type != 'n')
            trt_fail(r, "Unknown format code '%c' for object of type 'float'", s.type);
        put_float(b, tval_to_double(r, v), &s);
    } else if (tval_is_number(v)) {
        if (s.type && !strchr("bcdoxXn", s.type))
            trt_fail(r, "Unknown format code '%c' for object of type 'int'", s.type);
        if (s.precision >= 0) trt_fail(r, "Precision not allowed in integer format specifier");
        if (s.type == 'c') {
            tbuf c;
            tbuf_start(&c, r);
            tbuf_code(&c, (int32_t)(tval_to_int(r, v, "%c") & 0x1FFFFF), false);
            put_str(b, tbuf_take(&c), &s, s.align ? s.align : '<');
        } else {
            put_int(b, v, &s);
        }
    } else {
        trt_fail(r, "unsupported format string passed to %s.__format__", tval_type(v));
    }
}

static bool all_digits(const tstr *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (!isdigit((unsigned char)s->s[i])) return false;
    return s->n > 0 && s->n < 10;
}

// "name.attr[key]" of a field.
static tval field_value(braces *f, const tstr *name)
{
    trt *r = f->r;
    size_t i = 0;
    while (i < name->n && name->s[i] != '.' && name->s[i] != '[') i++;
    const tstr *first = tstr_part(r, name, 0, i);
    tval v;
    if (first->n == 0 || all_digits(first)) {
        size_t index = first->n ? (size_t)tval_parse_int(r, first, 10).u.i : f->automatic++;
        if (index >= f->args->n)
            trt_fail(r, "Replacement index %zu out of range for positional args tuple", index);
        v = f->args->v[index];
    } else {
        const tval *named = f->args->named ? tdict_get(r, f->args->named, tval_str(first)) : NULL;
        if (!named) trt_fail(r, "'%.*s'", (int)first->n, first->s);
        v = *named;
    }
    while (i < name->n) {
        bool item = name->s[i] == '[';
        size_t start = ++i;
        while (i < name->n && (item ? name->s[i] != ']' : name->s[i] != '.' && name->s[i] != '['))
            i++;
        const tstr *key = tstr_part(r, name, start, i);
        if (item && i++ >= name->n) trt_fail(r, "Missing ']' in format string");
        if (key->n == 0) trt_fail(r, "Empty attribute in format string");
        v = item ? tval_item(r, v, all_digits(key) ? tval_parse_int(r, key, 10) : tval_str(key))
                 : tval_attr(r, v, tval_str(key));
    }
    return v;
}

static const tstr *format_text(braces *f, const tstr *t, int level);

// The field [start, end) between two braces.
static void put_field(tbuf *b, braces *f, const tstr *t, size_t start, size_t end, int level)
{
    trt *r = f->r;
    size_t name_end = start, brackets = 0;
    while (name_end < end && (brackets || (t->s[name_end] != '!' && t->s[name_end] != ':'))) {
        if (t->s[name_end] == '[') brackets = 1;
        if (t->s[name_end] == ']') brackets = 0;
        name_end++;
    }
    tval v = field_value(f, tstr_part(r, t, start, name_end));
    size_t i = name_end;
    if (i < end && t->s[i] == '!') {
        char how = i + 1 < end ? t->s[i + 1] : 0;
        if (how != 's' && how != 'r' && how != 'a')
            trt_fail(r, "Unknown conversion specifier in format string");
        const tstr *shown = how == 's' ? tval_to_str(r, v) : tval_to_repr(r, v);
        v = tval_str(how == 'a' ? ascii_only(r, shown) : shown);
        i += 2;
    }
    const tstr *text = tstr_c(r, "");
    if (i < end) {
        if (t->s[i] != ':') trt_fail(r, "expected ':' after conversion specifier");
        text = format_text(f, tstr_part(r, t, i + 1, end), level + 1);
    }
    if (!t->markup || (v.kind == T_STRING && v.u.str->markup)) {
        format_value(b, v, text);
        return;
    }
    tbuf plain;
    tbuf_start(&plain, r);
    format_value(&plain, v, text);
    tbuf_str(b, tstr_escape(r, tbuf_take(&plain)));
}

static const tstr *format_text(braces *f, const tstr *t, int level)
{
    trt *r = f->r;
    if (level > 2) trt_fail(r, "Max string recursion exceeded");
    tbuf b;
    tbuf_start(&b, r);
    b.markup = t->markup;
    for (size_t i = 0; i < t->n;) {
        char c = t->s[i];
        if (c != '{' && c != '}') {
            size_t end = i;
            while (end < t->n && t->s[end] != '{' && t->s[end] != '}') end++;
            tbuf_part(&b, t, i, end);
            i = end;
            continue;
        }
        trt_step(r, 1);
        if (i + 1 < t->n && t->s[i + 1] == c) {
            tbuf_part(&b, t, i, i + 1);
            i += 2;
            continue;
        }
        if (c == '}') trt_fail(r, "Single '}' encountered in format string");
        size_t depth = 1, end = i + 1;
        for (; end < t->n; end++) {
            if (t->s[end] == '{') depth++;
            if (t->s[end] == '}' && --depth == 0) break;
        }
        if (end >= t->n) trt_fail(r, "expected '}' before end of string");
        put_field(&b, f, t, i + 1, end, level);
        i = end + 1;
    }
    return tbuf_take(&b);
}

const tstr *tstr_format(trt *r, const tstr *format, const targs *args)
{
    braces f = {.r = r, .args = args};
    return format_text(&f, format, 1);
}
