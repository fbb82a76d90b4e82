#include "chat/python.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "chat/template.h"
#include "text/text.h"

enum { MAX_DEPTH = 64, MAX_NUMBER = 64 };

void python_start(python_reader *r, const char *text, size_t n)
{
    r->at = text;
    r->end = text + n;
}

void python_call_free(python_call *call)
{
    free(call->name);
    json_decref(call->positional);
    json_decref(call->named);
    *call = (python_call){0};
}

// ---- characters -------------------------------------------------------------------------------

static char peek(const python_reader *r)
{
    return r->at < r->end ? *r->at : 0;
}

// White space, line breaks, comments; `more` characters count as white space too.
static void skip_white(python_reader *r, const char *more)
{
    for (;;) {
        char c = peek(r);
        if (c == '#') {
            while (r->at < r->end && *r->at != '\n') r->at++;
        } else if (c && (strchr(" \t\r\n", c) || strchr(more, c))) {
            r->at++;
        } else {
            return;
        }
    }
}

static bool take(python_reader *r, char c)
{
    skip_white(r, "");
    if (peek(r) != c) return false;
    r->at++;
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// A name with its length; dots (and hyphens, which some tools have) inside where `dots`.
static size_t name_length(const python_reader *r, bool dots)
{
    const char *at = r->at;
    if (at == r->end || !is_letter(*at)) return 0;
    while (at < r->end && (is_letter(*at) || is_digit(*at) || (dots && (*at == '.' || *at == '-'))))
        at++;
    return (size_t)(at - r->at);
}

static bool take_word(python_reader *r, const char *word)
{
    size_t n = name_length(r, false);
    if (n != strlen(word) || memcmp(r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

// ---- literals ---------------------------------------------------------------------------------

static json_t *value(python_reader *r, int depth);

// \xHH, \uHHHH, \UHHHHHHHH; false where digits are missing.
static bool code_point(python_reader *r, int digits, buf *out)
{
    uint32_t c = 0;
    for (int i = 0; i < digits; i++, r->at++) {
        char d = peek(r);
        const char *hex = "0123456789abcdef", *at = d ? strchr(hex, d | 0x20) : NULL;
        if (!at || (d >= 'P' && d <= 'Y')) return false;
        c = c * 16 + (uint32_t)(at - hex);
    }
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return false;
    char bytes[4];
    buf_add(out, bytes, text_utf8_put(c, bytes));
    return true;
}

static bool escape(python_reader *r, buf *out)
{
    static const char from[] = "ntr\\'\"abfv0", to[] = "\n\t\r\\'\"\a\b\f\v";
    char c = peek(r);
    if (!c) return false;
    r->at++;
    if (c == '\n') return true; // a line that goes on
    if (c == 'x') return code_point(r, 2, out);
    if (c == 'u') return code_point(r, 4, out);
    if (c == 'U') return code_point(r, 8, out);
    const char *at = strchr(from, c);
    if (at) {
        buf_char(out, c == '0' ? 0 : to[at - from]);
    } else { // Python keeps the backslash of what is no escape
        buf_char(out, '\\');
        buf_char(out, c);
    }
    return true;
}

static json_t *string(python_reader *r)
{
    char quote = *r->at;
    bool triple = r->end - r->at >= 3 && r->at[1] == quote && r->at[2] == quote;
    r->at += triple ? 3 : 1;
    buf text = {0};
    bool closed = false, good = true;
    while (good && !closed && r->at < r->end) {
        char c = *r->at;
        bool ends = c == quote &&
                    (!triple || (r->end - r->at >= 3 && r->at[1] == quote && r->at[2] == quote));
        if (ends) {
            r->at += triple ? 3 : 1;
            closed = true;
        } else if (c == '\\') {
            r->at++;
            good = escape(r, &text);
        } else {
            good = triple || c != '\n';
            buf_char(&text, c);
            r->at++;
        }
    }
    json_t *out = NULL;
    if (good && closed && !text.failed) out = json_stringn(text.data ? text.data : "", text.len);
    buf_free(&text);
    return out;
}

// A number as JSON has it, with Python's underscores.
static json_t *number(python_reader *r)
{
    char text[MAX_NUMBER + 1];
    size_t n = 0;
    bool minus = peek(r) == '-';
    if (minus || peek(r) == '+') r->at++;
    if (minus) text[n++] = '-';
    while (n < MAX_NUMBER && peek(r) && strchr("0123456789.eE+-_", peek(r))) {
        if (*r->at != '_') text[n++] = *r->at;
        r->at++;
    }
    if (n > 0 && text[n - 1] == '.' && n < MAX_NUMBER) text[n++] = '0';
    text[n] = 0;
    return tmpl_load_rounded(text, n);
}

static json_t *sequence(python_reader *r, char close, int depth)
{
    json_t *list = json_array();
    while (list && !take(r, close)) {
        json_t *item = value(r, depth + 1);
        skip_white(r, "");
        if (json_array_append_new(list, item) != 0 || (!take(r, ',') && peek(r) != close)) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *dictionary(python_reader *r, int depth)
{
    json_t *object = json_object();
    while (object && !take(r, '}')) {
        json_t *key = value(r, depth + 1), *item = NULL;
        if (json_is_string(key) && take(r, ':')) item = value(r, depth + 1);
        bool good = item && strlen(json_string_value(key)) == json_string_length(key) &&
                    json_object_set(object, json_string_value(key), item) == 0;
        json_decref(key);
        json_decref(item);
        skip_white(r, "");
        if (!good || (!take(r, ',') && peek(r) != '}')) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *value(python_reader *r, int depth)
{
    if (depth > MAX_DEPTH) return NULL;
    skip_white(r, "");
    char c = peek(r);
    if (c == '"' || c == '\'') return string(r);
    if (c == '-' || c == '+' || c == '.' || is_digit(c)) return number(r);
    if (take(r, '[')) return sequence(r, ']', depth);
    if (take(r, '(')) return sequence(r, ')', depth);
    if (take(r, '{')) return dictionary(r, depth);
    if (take_word(r, "True") || take_word(r, "true")) return json_true();
    if (take_word(r, "False") || take_word(r, "false")) return json_false();
    if (take_word(r, "None") || take_word(r, "null")) return json_null();
    return NULL;
}

// ---- calls ------------------------------------------------------------------------------------

// "key=", but not "key==".
static bool take_key(python_reader *r, char **key)
{
    python_reader start = *r;
    size_t n = name_length(r, false);
    r->at += n;
    if (n > 0 && take(r, '=') && peek(r) != '=') {
        *key = strndup(start.at, n);
        return *key != NULL;
    }
    *r = start;
    return false;
}

static bool arguments(python_reader *r, python_call *call)
{
    call->positional = json_array();
    call->named = json_object();
    while (!take(r, ')')) {
        char *key = NULL;
        skip_white(r, "");
        bool named = take_key(r, &key);
        json_t *item = value(r, 0);
        bool good = item != NULL;
        if (good && named) {
            good =
                !json_object_get(call->named, key) && json_object_set(call->named, key, item) == 0;
        } else if (good) {
            good = json_object_size(call->named) == 0 &&
                   json_array_append(call->positional, item) == 0;
        }
        json_decref(item);
        free(key);
        skip_white(r, "");
        if (!good || (!take(r, ',') && peek(r) != ')')) return false;
    }
    return true;
}

python_found python_next(python_reader *r, python_call *call)
{
    static const char behind[] = ".call";
    skip_white(r, ";");
    if (r->at == r->end) return PYTHON_END;
    char *variable = NULL;
    take_key(r, &variable); // x = ...
    free(variable);
    skip_white(r, "");
    python_reader start = *r;
    bool printed = take_word(r, "print") && take(r, '(');
    if (!printed) *r = start;
    skip_white(r, "");
    size_t n = name_length(r, true);
    if (n > sizeof behind - 1 &&
        !memcmp(r->at + n - (sizeof behind - 1), behind, sizeof behind - 1))
        call->name = strndup(r->at, n - (sizeof behind - 1));
    else
        call->name = n ? strndup(r->at, n) : NULL;
    r->at += n;
    bool good = call->name && take(r, '(') && arguments(r, call);
    if (good && printed) good = take(r, ')');
    if (good) return PYTHON_CALL;
    python_call_free(call);
    return PYTHON_NO_CALL;
}
