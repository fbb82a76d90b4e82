// Regular expressions (of ECMA 262, as JSON schemas have them) as expressions of a grammar.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "chat/schema_internal.h"
#include "text/text.h"

enum {
    MAX_RANGES = 256,
    MAX_NESTED = 64,
    MAX_COUNT = 1000,
    MAX_BYTES = 1 << 20, // of the expression
    LAST_CODE = 0x10FFFF
};

// Characters, as ranges; `others`: all but these.
typedef struct set {
    uint32_t low[MAX_RANGES], high[MAX_RANGES];
    int n;
    bool others;
} set;

typedef struct lengths {
    size_t least, most; // SIZE_MAX: no limit
} lengths;

// What a pattern of one alternative consists of: the lengths of its terms, if all but one are of
// one length, and that one is a repeated character.
typedef struct shape {
    int n_terms, flexible; // -1: none (yet)
    size_t fixed;          // length of all others
    lengths counts;        // of the flexible one
    bool good;
} shape;

typedef struct regex {
    const char *at;
    buf *out;
    size_t limit; // of its length
    const char *error;
    int nested;
    bool one_character; // the last atom was one
    int term;           // of the outermost sequence
    int adjusted;       // the term whose counts are replaced; -1: none
    lengths counts;
} regex;

static lengths alternatives(regex *x, bool outermost, shape *s);

static void fail(regex *x, const char *what)
{
    if (!x->error) x->error = what;
}

static bool goes_on(regex *x)
{
    if (x->out->len > x->limit) fail(x, "a pattern that is too long");
    return !x->error;
}

// ---- sets of characters -----------------------------------------------------------------------

static void add_range(regex *x, set *s, uint32_t low, uint32_t high)
{
    if (low > high) fail(x, "a range of characters is out of order");
    if (s->n == MAX_RANGES) fail(x, "too many ranges of characters");
    if (x->error) return;
    s->low[s->n] = low;
    s->high[s->n++] = high;
}

// \d \w \s; false: another letter.
static bool add_class(regex *x, set *s, char letter)
{
    static const uint32_t digits[] = {'0', '9', 0},
                          words[] = {'0', '9', 'A', 'Z', '_', '_', 'a', 'z', 0},
                          spaces[] = {9,      13,     ' ',    ' ',    0xA0,   0xA0,   0x1680,
                                      0x1680, 0x2000, 0x200A, 0x2028, 0x2029, 0x202F, 0x202F,
                                      0x205F, 0x205F, 0x3000, 0x3000, 0xFEFF, 0xFEFF, 0};
    const uint32_t *list = letter == 'd' || letter == 'D'   ? digits
                           : letter == 'w' || letter == 'W' ? words
                           : letter == 's' || letter == 'S' ? spaces
                                                            : NULL;
    if (!list) return false;
    bool others = letter < 'a';
    uint32_t from = 0;
    for (; *list; list += 2) {
        if (!others) add_range(x, s, list[0], list[1]);
        if (others && list[0] > from) add_range(x, s, from, list[0] - 1);
        from = list[1] + 1;
    }
    if (others) add_range(x, s, from, LAST_CODE);
    return true;
}

static bool contains(const set *s, uint32_t c)
{
    bool listed = false;
    for (int i = 0; i < s->n; i++) listed |= c >= s->low[i] && c <= s->high[i];
    return listed != s->others;
}

// The next range of characters from *from on that are in the set and may stand in a JSON string as
// they are.
static bool plain_range(const set *s, uint32_t *from, uint32_t *to)
{
    uint32_t low = *from < ' ' ? ' ' : *from, high;
    for (;;) {
        if (low == 0xD800) low = 0xE000;
        if (low > LAST_CODE) return false;
        // Where membership may change next.
        high = low == '"' || low == '\\' || low == 0x7f ? low : LAST_CODE;
        static const uint32_t stops[] = {'"', '\\', 0x7f, 0xD800};
        for (size_t i = 0; i < 4; i++)
            if (stops[i] > low && stops[i] - 1 < high) high = stops[i] - 1;
        for (int i = 0; i < s->n; i++) {
            if (s->low[i] > low && s->low[i] - 1 < high) high = s->low[i] - 1;
            if (s->high[i] >= low && s->high[i] < high) high = s->high[i];
        }
        if (low != '"' && low != '\\' && low != 0x7f && contains(s, low)) break;
        low = high + 1;
    }
    *from = low;
    *to = high;
    return true;
}

// The set as an expression. What has to be escaped in JSON is; of the control characters only those
// that are asked for.
static void put_set(regex *x, const set *s)
{
    size_t start = x->out->len;
    uint32_t to;
    for (uint32_t from = 0; !x->error && plain_range(s, &from, &to); from = to + 1)
        buf_printf(x->out, "%s\\U%08x-\\U%08x", x->out->len == start ? "( [" : "", from, to);
    if (x->out->len > start) buf_char(x->out, ']');
    for (uint32_t c = 0; c < 0x80; c++) {
        bool control = c < ' ' || c == 0x7f;
        if ((!control && c != '"' && c != '\\') || (control && s->others) || !contains(s, c))
            continue;
        buf_str(x->out, x->out->len == start ? "( " : " | ");
        if (control)
            buf_printf(x->out, "\"\\\\u%04x\"", c);
        else
            buf_printf(x->out, "\"\\\\\\%c\"", (char)c);
    }
    if (x->out->len == start)
        fail(x, "a class without characters");
    else
        buf_str(x->out, " )");
}

// ---- characters and escapes -------------------------------------------------------------------

static uint32_t hex(regex *x, int n)
{
    uint32_t code = 0;
    for (int i = 0; i < n; i++, x->at++) {
        char c = *x->at;
        int v = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (v < 0) {
            fail(x, "an escape without its digits");
            return 0;
        }
        code = code << 4 | (uint32_t)v;
    }
    return code;
}

static uint32_t unicode_escape(regex *x)
{
    if (*x->at == '{') {
        int n = 0;
        while (x->at[n + 1] && x->at[n + 1] != '}') n++;
        if (n < 1 || n > 6 || !x->at[n + 1]) {
            fail(x, "an escape without its digits");
            return 0;
        }
        x->at++;
        uint32_t code = hex(x, n);
        if (!x->error) x->at++;
        if (code > LAST_CODE) fail(x, "no such character");
        return code;
    }
    uint32_t code = hex(x, 4);
    if (code >= 0xD800 && code < 0xDC00 && x->at[0] == '\\' && x->at[1] == 'u') {
        const char *behind = x->at;
        x->at += 2;
        uint32_t low = hex(x, 4);
        if (low >= 0xDC00 && low < 0xE000) return 0x10000 + ((code - 0xD800) << 10) + low - 0xDC00;
        x->at = behind;
    }
    return code;
}

// Behind a backslash: a character, or a class that is added to the set (then *is_class).
static uint32_t escape(regex *x, set *s, bool *is_class)
{
    static const char from[] = "tnrvf0", to[] = "\t\n\r\v\f";
    char c = *x->at;
    *is_class = false;
    if (!c) {
        fail(x, "a backslash at the end");
        return 0;
    }
    x->at++;
    if (add_class(x, s, c)) {
        *is_class = true;
        return 0;
    }
    const char *simple = strchr(from, c);
    if (simple) return (uint8_t)to[simple - from];
    if (c == 'x') return hex(x, 2);
    if (c == 'u') return unicode_escape(x);
    bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (word) fail(x, c <= '9' ? "a reference to a group" : "an escape that is not supported");
    x->at--;
    size_t n;
    uint32_t code = text_utf8_next(x->at, strlen(x->at), &n);
    x->at += n;
    return code;
}

// `in_class`: between [ and ], where \b is a backspace.
static uint32_t character(regex *x, set *s, bool in_class, bool *is_class)
{
    *is_class = false;
    if (*x->at == '\\') {
        x->at++;
        if (in_class && *x->at == 'b') {
            x->at++;
            return '\b';
        }
        return escape(x, s, is_class);
    }
    size_t n;
    uint32_t code = text_utf8_next(x->at, strlen(x->at), &n);
    x->at += n;
    return code;
}

static void character_class(regex *x)
{
    set s = {0};
    if (*x->at == '^') {
        s.others = true;
        x->at++;
    }
    while (!x->error && *x->at && *x->at != ']') {
        bool low_class, high_class = false;
        uint32_t low = character(x, &s, true, &low_class), high = low;
        bool range = x->at[0] == '-' && x->at[1] && x->at[1] != ']';
        if (range && !low_class) {
            x->at++;
            high = character(x, &s, true, &high_class);
            if (high_class) add_range(x, &s, '-', '-');
        }
        if (!low_class) add_range(x, &s, low, high_class ? low : high);
    }
    if (*x->at == ']')
        x->at++;
    else
        fail(x, "a class without its end");
    if (!x->error) put_set(x, &s);
}

// ---- the expression ---------------------------------------------------------------------------

static lengths group(regex *x)
{
    lengths l = {0, 0};
    if (*x->at == '?') {
        const char *name =
            x->at[1] == '<' && x->at[2] != '=' && x->at[2] != '!' ? strchr(x->at, '>') : NULL;
        if (x->at[1] == ':')
            x->at += 2;
        else if (name)
            x->at = name + 1;
        else
            fail(x, "what looks ahead or behind is not supported");
    }
    if (++x->nested > MAX_NESTED) fail(x, "too many groups inside each other");
    if (x->error) return l;
    buf_str(x->out, "( ");
    l = alternatives(x, false, NULL);
    buf_str(x->out, " )");
    x->nested--;
    if (*x->at == ')')
        x->at++;
    else
        fail(x, "a group without its end");
    return l;
}

static lengths atom(regex *x)
{
    set s = {0};
    x->one_character = true;
    char c = *x->at;
    if (c == '(') {
        x->at++;
        lengths l = group(x);
        x->one_character = false;
        return l;
    }
    if (c == '[') {
        x->at++;
        character_class(x);
    } else if (c == '.') {
        x->at++;
        s = (set){
            .low = {'\n', '\r', 0x2028}, .high = {'\n', '\r', 0x2029}, .n = 3, .others = true};
        put_set(x, &s);
    } else if (strchr("*+?{", c)) {
        fail(x, "a count without what it counts");
    } else if (strchr("^$", c)) {
        fail(x, "^ and $ are supported at the ends of the pattern only");
    } else {
        bool is_class;
        uint32_t code = character(x, &s, false, &is_class);
        if (!is_class) add_range(x, &s, code, code);
        if (!x->error) put_set(x, &s);
    }
    return (lengths){1, 1};
}

static bool number(regex *x, size_t *n)
{
    const char *start = x->at;
    for (*n = 0; *x->at >= '0' && *x->at <= '9'; x->at++) {
        *n = *n * 10 + (size_t)(*x->at - '0');
        if (*n > MAX_COUNT) fail(x, "a count of more than 1000");
        if (x->error) return false;
    }
    return x->at > start;
}

static lengths counts(regex *x)
{
    lengths c = {1, 1};
    switch (*x->at) {
    case '*': c = (lengths){0, SIZE_MAX}; break;
    case '+': c = (lengths){1, SIZE_MAX}; break;
    case '?': c = (lengths){0, 1}; break;
    case '{':
        x->at++;
        if (!number(x, &c.least)) fail(x, "'{' without a count");
        c.most = c.least;
        if (*x->at == ',') {
            x->at++;
            if (!number(x, &c.most)) c.most = SIZE_MAX;
        }
        if (*x->at != '}' || c.least > c.most) fail(x, "'{' without a count");
        break;
    default: return c;
    }
    if (!x->error) x->at++;
    if (*x->at == '?') x->at++; // lazy: the same texts
    return c;
}

static size_t times(size_t a, size_t b)
{
    if (a == 0 || b == 0) return 0;
    return a > SIZE_MAX / 2 / b ? SIZE_MAX : a * b;
}

static size_t plus(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

static lengths sequence(regex *x, bool outermost, shape *s)
{
    lengths all = {0, 0};
    buf_str(x->out, "\"\"");
    while (goes_on(x) && *x->at && *x->at != '|' && *x->at != ')') {
        if (outermost && *x->at == '$' && (!x->at[1] || x->at[1] == '|')) break;
        buf_char(x->out, ' ');
        lengths one = atom(x), c = counts(x);
        if (x->error) break;
        bool one_character = x->one_character;
        if (outermost && x->term++ == x->adjusted) c = x->counts;
        schema_add_counts(x->out, c.least, c.most);
        lengths term = {times(one.least, c.least), times(one.most, c.most)};
        all = (lengths){plus(all.least, term.least), plus(all.most, term.most)};
        if (!s) continue;
        s->n_terms++;
        if (term.least == term.most) {
            s->fixed += term.least;
        } else if (one_character && s->flexible < 0) {
            s->flexible = s->n_terms - 1;
            s->counts = c;
        } else {
            s->good = false;
        }
    }
    return all;
}

static lengths alternatives(regex *x, bool outermost, shape *s)
{
    lengths all = {SIZE_MAX, 0};
    for (int n = 0; goes_on(x); n++) {
        bool from_start = outermost && *x->at == '^', to_end;
        if (from_start) x->at++;
        if (outermost && !from_start) buf_str(x->out, "char* ");
        if (n && s) s->good = false;
        lengths one = sequence(x, outermost, s);
        to_end = outermost && *x->at == '$';
        if (to_end) x->at++;
        if (outermost && !to_end) buf_str(x->out, " char*");
        if (outermost && (!from_start || !to_end)) {
            one.most = SIZE_MAX;
            if (s) s->good = false;
        }
        if (one.least < all.least) all.least = one.least;
        if (one.most > all.most) all.most = one.most;
        if (*x->at != '|') break;
        x->at++;
        buf_str(x->out, " | ");
    }
    return all;
}

const char *schema_pattern(const char *pattern, size_t least, size_t most, buf *out)
{
    size_t start = out->len;
    regex x = {.at = pattern, .out = out, .limit = start + MAX_BYTES, .adjusted = -1};
    shape s = {.flexible = -1, .good = true};
    buf_str(out, "\"\\\"\" ( ");
    lengths all = alternatives(&x, true, &s);
    if (*x.at == ')') fail(&x, "')' without its '('");
    if (!x.error && (all.least < least || all.most > most)) {
        // Where one repeated character makes the length, its counts are made narrower.
        if (all.least > most || all.most < least) return "no text has this pattern and this length";
        if (!s.good || s.flexible < 0)
            return "a pattern beside minLength or maxLength is supported only where one repeated "
                   "character makes its length";
        lengths c = s.counts;
        if (least > s.fixed && least - s.fixed > c.least) c.least = least - s.fixed;
        if (most != SIZE_MAX && most - s.fixed < c.most) c.most = most - s.fixed;
        out->len = start;
        x.at = pattern;
        x.term = 0;
        x.adjusted = s.flexible;
        x.counts = c;
        buf_str(out, "\"\\\"\" ( ");
        alternatives(&x, true, NULL);
    }
    buf_str(out, " ) \"\\\"\"");
    return x.error;
}

// ---- formats ----------------------------------------------------------------------------------

#define DATE                                                                                       \
    "\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|"   \
    "02-(?:0[1-9]|1\\d|2[0-8]))"
#define TIME                                                                                       \
    "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{3})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define HOST "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*"
#define BYTE "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"

const char *schema_format(const char *name)
{
    static const char *const list[][2] = {
        {"date", "^" DATE "$"},
        {"time", "^" TIME "$"},
        {"date-time", "^" DATE "T" TIME "$"},
        {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
        {"email", "^[A-Za-z0-9_]+(?:[.+-][A-Za-z0-9_]+)*@" HOST "$"},
        {"hostname", "^" HOST "$"},
        {"ipv4", "^" BYTE "(?:\\." BYTE "){3}$"},
        {"ipv6", "^(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}$"},
        {"uri", "^[a-z][a-z0-9+.-]*://" HOST "(?::\\d{1,4})?(?:/[A-Za-z0-9._~!$&'()*+,;=:@/-]*)?"
                "(?:\\?[A-Za-z0-9._~!$&'()*+,;=:@/?-]*)?$"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strcmp(name, list[i][0])) return list[i][1];
    return NULL;
}
