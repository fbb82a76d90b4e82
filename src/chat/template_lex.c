// Source to tokens, with Jinja's rules for white space (trim_blocks and lstrip_blocks on).
#include <stdlib.h>

#include "chat/template_internal.h"

typedef struct lexer {
    trt *r;
    const char *s; // n bytes, line ends made \n
    size_t n, at;
    int line;
    bool line_start; // the last match ended a line
    ttoken *tokens;
    size_t n_tokens, cap;
    char *brackets; // the closing ones that are due
    size_t n_brackets, cap_brackets;
} lexer;

static _Noreturn void fail_at(lexer *x, const char *what)
{
    x->r->line = x->line;
    trt_fail(x->r, "%s", what);
}

static ttoken *add(lexer *x, ttoken_type type)
{
    if (x->n_tokens == x->cap) {
        size_t cap = x->cap ? 2 * x->cap : 256;
        if (cap > SIZE_MAX / 2 / sizeof *x->tokens) fail_at(x, "the template is too long");
        x->tokens =
            trt_grow(x->r, x->tokens, x->n_tokens * sizeof *x->tokens, cap * sizeof *x->tokens);
        x->cap = cap;
    }
    ttoken *t = &x->tokens[x->n_tokens++];
    *t = (ttoken){.type = type, .line = x->line};
    return t;
}

static void skip(lexer *x, size_t to)
{
    for (size_t i = x->at; i < to; i++)
        if (x->s[i] == '\n') x->line++;
    if (to > x->at) x->line_start = x->s[to - 1] == '\n';
    x->at = to;
}

static tstr view(const lexer *x)
{
    return (tstr){.s = x->s, .n = x->n};
}

static size_t skip_space(const lexer *x, size_t i)
{
    tstr all = view(x);
    while (i < x->n) {
        size_t next;
        if (!tchar_is_space(tstr_decode(&all, i, &next))) break;
        i = next;
    }
    return i;
}

static bool starts(const lexer *x, size_t i, const char *text)
{
    size_t n = strlen(text);
    return x->n - i >= n && memcmp(x->s + i, text, n) == 0;
}

// Is there "TAG %}" at i, with its optional sign? Gives the end, with the white space that belongs
// to it (`trim`: a line end too).
static bool tag_end(const lexer *x, size_t i, const char *tag, bool plus, bool trim, size_t *end)
{
    i = skip_space(x, i);
    if (!starts(x, i, tag)) return false;
    i = skip_space(x, i + strlen(tag));
    if (starts(x, i, "-%}")) {
        *end = skip_space(x, i + 3);
        return true;
    }
    if (plus && starts(x, i, "+%}")) {
        *end = i + 3;
        return true;
    }
    if (!starts(x, i, "%}")) return false;
    *end = i + 2;
    if (trim && *end < x->n && x->s[*end] == '\n') ++*end;
    return true;
}

// The text before a tag: without trailing white space for "-", without the indentation of the
// tag's line unless "+" or a variable (`indent` false).
static void add_data(lexer *x, size_t end, char sign, bool indent)
{
    size_t from = x->at, to = end;
    tstr text = {.s = x->s + from, .n = end - from};
    if (sign == '-') {
        tstr stripped = *tstr_strip(x->r, &text, NULL, false, true);
        to = from + stripped.n;
    } else if (sign != '+' && indent) {
        size_t start = end;
        while (start > from && x->s[start - 1] != '\n') start--;
        if ((start > from || x->line_start) && skip_space(x, start) >= end) to = start;
    }
    if (to > from)
        add(x, TOK_DATA)->value = tval_str(tstr_new(x->r, x->s + from, to - from, LITERAL_ALL));
    skip(x, end);
}

static void raw_block(lexer *x)
{
    for (size_t i = x->at; i + 1 < x->n; i++) {
        if (x->s[i] != '{' || x->s[i + 1] != '%') continue;
        size_t end, after = i + 2;
        char sign = 0;
        if (after < x->n && (x->s[after] == '-' || x->s[after] == '+')) sign = x->s[after++];
        if (!tag_end(x, after, "endraw", true, true, &end)) continue;
        add_data(x, i, sign, true);
        skip(x, end);
        return;
    }
    fail_at(x, "Missing end of raw directive");
}

static void comment(lexer *x)
{
    for (size_t i = x->at; i + 1 < x->n; i++) {
        if (x->s[i] != '#' || x->s[i + 1] != '}') continue;
        size_t end = i + 2;
        if (i > x->at && x->s[i - 1] == '-')
            end = skip_space(x, end);
        else if (!(i > x->at && x->s[i - 1] == '+') && end < x->n && x->s[end] == '\n')
            end++;
        skip(x, end);
        return;
    }
    fail_at(x, "Missing end of comment tag");
}

// ---- inside a tag -----------------------------------------------------------------------------

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

// \xHH, \uHHHH, \UHHHHHHHH: gives the code point and the place behind.
static int32_t hex_escape(lexer *x, size_t i, size_t end, size_t digits, size_t *next)
{
    uint32_t code = 0;
    for (size_t k = 0; k < digits; k++) {
        int v = i + k < end ? hex_value(x->s[i + k]) : -1;
        if (v < 0) fail_at(x, "truncated \\x, \\u or \\U escape in a string");
        code = code << 4 | (uint32_t)v;
    }
    if (code > 0x10FFFF) fail_at(x, "illegal Unicode character in a string");
    *next = i + digits;
    return (int32_t)code;
}

// The content of a string literal [i, end), escapes resolved as Python does.
static tval unescape(lexer *x, size_t i, size_t end)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    tbuf b;
    tbuf_start(&b, x->r);
    while (i < end) {
        size_t run = i;
        while (run < end && x->s[run] != '\\') run++;
        tbuf_bytes(&b, x->s + i, run - i, true);
        if (run >= end) break;
        char c = x->s[run + 1]; // a backslash is never last: the lexer skipped pairs
        i = run + 2;
        const char *simple = c ? strchr(from, c) : NULL;
        if (c == '\n') continue;
        if (simple) {
            tbuf_bytes(&b, to + (simple - from), 1, true);
        } else if (c >= '0' && c <= '7') {
            int32_t code = c - '0';
            for (int k = 0; k < 2 && i < end && x->s[i] >= '0' && x->s[i] <= '7'; k++)
                code = code * 8 + (x->s[i++] - '0');
            tbuf_code(&b, code, true);
        } else if (c == 'x' || c == 'u' || c == 'U') {
            int32_t code = hex_escape(x, i, end, c == 'x' ? 2 : c == 'u' ? 4 : 8, &i);
            tbuf_code(&b, code, true);
        } else if (c == 'N') {
            fail_at(x, "\\N{...} in a string is not supported");
        } else {
            tbuf_bytes(&b, x->s + run, 1, true);
            i = run + 1;
        }
    }
    return tval_str(tbuf_take(&b));
}

static bool lex_string(lexer *x)
{
    char quote = x->s[x->at];
    size_t i = x->at + 1;
    while (i < x->n && x->s[i] != quote) i += x->s[i] == '\\' ? 2 : 1;
    if (i >= x->n) return false;
    ttoken *t = add(x, TOK_STRING);
    tval v = unescape(x, x->at + 1, i);
    t->value = v;
    skip(x, i + 1);
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// Digits with single underscores between them; gives their end.
static size_t digits(const lexer *x, size_t i)
{
    size_t start = i;
    while (i < x->n && (is_digit(x->s[i]) ||
                        (x->s[i] == '_' && i > start && i + 1 < x->n && is_digit(x->s[i + 1]))))
        i++;
    return i;
}

static bool float_end(const lexer *x, size_t *end)
{
    if (x->at > 0 && x->s[x->at - 1] == '.') return false;
    size_t i = digits(x, x->at);
    bool point = i + 1 < x->n && x->s[i] == '.' && is_digit(x->s[i + 1]);
    if (point) i = digits(x, i + 1);
    size_t e = i;
    if (e < x->n && (x->s[e] == 'e' || x->s[e] == 'E')) {
        e++;
        if (e < x->n && (x->s[e] == '+' || x->s[e] == '-')) e++;
        if (e < x->n && is_digit(x->s[e])) {
            *end = digits(x, e);
            return true;
        }
    }
    *end = i;
    return point;
}

static size_t base_digits(const lexer *x, size_t i, int base)
{
    size_t start = i;
    for (;;) {
        size_t k = i < x->n && x->s[i] == '_' ? i + 1 : i;
        int v = k < x->n ? hex_value(x->s[k]) : -1;
        if (v < 0 || v >= base) return i == start ? 0 : i;
        i = k + 1;
    }
}

static void lex_number(lexer *x)
{
    size_t end, from = x->at;
    bool real = float_end(x, &end);
    int base = 10;
    if (!real) {
        char c = x->s[x->at] == '0' && x->at + 1 < x->n ? x->s[x->at + 1] : 0;
        int b = c == 'x' || c == 'X' ? 16 : c == 'o' || c == 'O' ? 8 : c == 'b' || c == 'B' ? 2 : 0;
        size_t e = b ? base_digits(x, x->at + 2, b) : 0;
        if (e) {
            base = b;
            from += 2;
            end = e;
        } else {
            end = digits(x, x->at);
            if (x->s[x->at] == '0') // "007" is three tokens to Jinja; zeros only are one
                for (end = x->at; end < x->n && x->s[end] == '0';) end++;
        }
    }
    char *text = trt_alloc(x->r, end - from + 1);
    size_t n = 0;
    for (size_t i = from; i < end; i++)
        if (x->s[i] != '_') text[n++] = x->s[i];
    ttoken *t = add(x, real ? TOK_FLOAT : TOK_INTEGER);
    x->r->line = x->line;
    t->value = real ? tval_float(strtod(text, NULL)) : tbig_parse(x->r, text, n, base);
    skip(x, end);
}

static bool lex_name(lexer *x)
{
    tstr all = view(x);
    size_t i = x->at, next;
    while (i < x->n && tchar_is_word(tstr_decode(&all, i, &next))) i = next;
    if (i == x->at) return false;
    // Zero-terminated, because variables are looked up by it.
    char *text = trt_alloc(x->r, i - x->at + 1);
    memcpy(text, x->s + x->at, i - x->at);
    add(x, TOK_NAME)->value = tval_str(tstr_new(x->r, text, i - x->at, LITERAL_ALL));
    skip(x, i);
    return true;
}

static void bracket(lexer *x, char c)
{
    static const char open[] = "([{", close[] = ")]}";
    const char *o = strchr(open, c);
    if (o) {
        if (x->n_brackets == x->cap_brackets) {
            x->brackets = trt_grow(x->r, x->brackets, x->n_brackets, 2 * x->cap_brackets + 64);
            x->cap_brackets = 2 * x->cap_brackets + 64;
        }
        x->brackets[x->n_brackets++] = close[o - open];
    } else if (strchr(close, c)) {
        x->r->line = x->line;
        if (!x->n_brackets) trt_fail(x->r, "unexpected '%c'", c);
        char due = x->brackets[--x->n_brackets];
        if (due != c) trt_fail(x->r, "unexpected '%c', expected '%c'", c, due);
    }
}

static bool lex_operator(lexer *x)
{
    static const char *const ops[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                      "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                      ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (!starts(x, x->at, ops[i])) continue;
        if (!ops[i][1]) bracket(x, ops[i][0]);
        ttoken *t = add(x, TOK_OP);
        memcpy(t->op, ops[i], strlen(ops[i]));
        skip(x, x->at + strlen(ops[i]));
        return true;
    }
    return false;
}

static _Noreturn void fail_char(lexer *x)
{
    tstr all = view(x);
    size_t next;
    tstr_decode(&all, x->at, &next);
    x->r->line = x->line;
    trt_fail(x->r, "unexpected char '%.*s' at %zu", (int)(next - x->at), x->s + x->at, x->at);
}

// Is the end of the tag here? Gives the place behind it and its white space.
static bool at_end(const lexer *x, bool block, size_t *end)
{
    if (x->n_brackets) return false;
    const char *mark = block ? "%}" : "}}";
    if (starts(x, x->at, mark)) {
        *end = x->at + 2;
        if (block && *end < x->n && x->s[*end] == '\n') ++*end;
        return true;
    }
    if (block && starts(x, x->at, "+%}")) {
        *end = x->at + 3;
        return true;
    }
    if (x->s[x->at] == '-' && starts(x, x->at + 1, mark)) {
        *end = skip_space(x, x->at + 3);
        return true;
    }
    return false;
}

static void inside(lexer *x, bool block)
{
    add(x, block ? TOK_BLOCK_BEGIN : TOK_VAR_BEGIN);
    x->n_brackets = 0;
    for (;;) {
        skip(x, skip_space(x, x->at));
        if (x->at >= x->n) return; // the parser says what is missing
        size_t end;
        if (at_end(x, block, &end)) {
            add(x, block ? TOK_BLOCK_END : TOK_VAR_END);
            skip(x, end);
            return;
        }
        char c = x->s[x->at];
        if (is_digit(c)) {
            lex_number(x);
        } else if (c == '\'' || c == '"') {
            if (!lex_string(x)) fail_char(x);
        } else if (!lex_name(x) && !lex_operator(x)) {
            fail_char(x);
        }
    }
}

// ---- the whole source -------------------------------------------------------------------------

static void normalize(lexer *x, const char *source, size_t n)
{
    char *s = trt_alloc(x->r, n + 1);
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        if (source[i] == '\r') {
            s[k++] = '\n';
            if (i + 1 < n && source[i + 1] == '\n') i++;
        } else {
            s[k++] = source[i];
        }
    }
    if (k && s[k - 1] == '\n') k--; // one trailing line end is the file's, not the template's
    x->s = s;
    x->n = k;
}

ttoken *tlex(trt *r, const char *source, size_t n, size_t *n_tokens)
{
    lexer x = {.r = r, .line = 1, .line_start = true};
    normalize(&x, source, n);
    while (x.at < x.n) {
        size_t i = x.at;
        while (i + 1 < x.n && !(x.s[i] == '{' && strchr("%{#", x.s[i + 1]) && x.s[i + 1])) i++;
        if (i + 1 >= x.n) {
            x.line_start = true;
            add_data(&x, x.n, '+', false);
            break;
        }
        char what = x.s[i + 1];
        size_t after = i + 2, end;
        char sign = 0;
        if (after < x.n && (x.s[after] == '-' || x.s[after] == '+')) sign = x.s[after++];
        bool raw = what == '%' && tag_end(&x, after, "raw", false, false, &end);
        add_data(&x, i, sign, what != '{');
        skip(&x, raw ? end : after);
        if (raw)
            raw_block(&x);
        else if (what == '#')
            comment(&x);
        else
            inside(&x, what == '%');
    }
    add(&x, TOK_EOF);
    *n_tokens = x.n_tokens;
    return x.tokens;
}
