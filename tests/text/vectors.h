// Reading the files of expected values: lines of JSON with texts, base64 bytes and id lists.
#ifndef TEST_TEXT_VECTORS_H
#define TEST_TEXT_VECTORS_H

#include "support/test.h"

#include <jansson.h>

#include "text/text.h"

// A vocabulary with the file that it points into.
typedef struct vocabulary {
    gguf *g;
    text_vocab *v;
} vocabulary;

static inline vocabulary open_vocabulary(const char *path, const char *assume_pre)
{
    vocabulary out;
    assert_ok(gguf_open(path, true, &out.g));
    assert_ok(text_vocab_load(out.g, assume_pre, &out.v));
    return out;
}

static inline void close_vocabulary(vocabulary *x)
{
    text_vocab_free(x->v);
    gguf_close(x->g);
}

// Calls `check` with each line of a file; returns how many there were.
static inline size_t each_line(const char *path, void (*check)(void *arg, json_t *line), void *arg)
{
    size_t n, lines = 0;
    char *data = test_read(path, &n);
    for (char *at = data, *end; at < data + n; at = end + 1) {
        end = memchr(at, '\n', (size_t)(data + n - at));
        if (!end) end = data + n;
        if (end == at) continue;
        json_error_t error;
        json_t *line = json_loadb(at, (size_t)(end - at), JSON_ALLOW_NUL, &error);
        if (!line) fail_msg("%s: line %zu: %s", path, lines + 1, error.text);
        check(arg, line);
        json_decref(line);
        lines++;
    }
    free(data);
    return lines;
}

static inline int base64_value(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

// The bytes of the field KEY (a string) or KEY_b64; NULL where there is neither. Release with free.
static inline char *line_bytes(const json_t *line, const char *key, const char *key_b64, size_t *n)
{
    *n = 0;
    const json_t *text = json_object_get(line, key);
    if (text) {
        *n = json_string_length(text);
        char *out = malloc(*n + 1);
        assert_non_null(out);
        memcpy(out, json_string_value(text), *n + 1);
        return out;
    }
    const json_t *coded = json_object_get(line, key_b64);
    if (!coded) return NULL;
    const char *s = json_string_value(coded);
    char *out = malloc(strlen(s) + 1);
    assert_non_null(out);
    uint32_t bits = 0;
    int have = 0;
    for (*n = 0; base64_value(*s) >= 0; s++) {
        bits = bits << 6 | (uint32_t)base64_value(*s);
        if ((have += 6) >= 8) out[(*n)++] = (char)(bits >> (have -= 8));
    }
    out[*n] = 0;
    return out;
}

// Compares ids with a JSON list; on a difference prints both and returns false.
static inline bool same_ids(const text_ids *ids, const json_t *expected, const char *what)
{
    bool same = json_array_size(expected) == ids->n;
    for (size_t i = 0; same && i < ids->n; i++)
        same = json_integer_value(json_array_get(expected, i)) == ids->ids[i];
    if (same) return true;
    print_error("%s\n  found   ", what);
    for (size_t i = 0; i < ids->n && i < 40; i++) print_error(" %d", ids->ids[i]);
    print_error("\n  expected");
    for (size_t i = 0; i < json_array_size(expected) && i < 40; i++)
        print_error(" %d", (int)json_integer_value(json_array_get(expected, i)));
    print_error("\n");
    return false;
}

// Bytes of a list of ids; release with free.
static inline char *decode(const text_vocab *v, const int32_t *ids, size_t n_ids, bool special,
                           size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < n_ids; i++) *n += text_piece(v, ids[i], special).len;
    char *out = malloc(*n + 1);
    assert_non_null(out);
    size_t at = 0;
    for (size_t i = 0; i < n_ids; i++) {
        gguf_string piece = text_piece(v, ids[i], special);
        memcpy(out + at, piece.data, piece.len);
        at += piece.len;
    }
    out[at] = 0;
    return out;
}

#endif
