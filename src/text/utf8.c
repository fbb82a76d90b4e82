#include "text/text.h"

// Length of the sequence that this first byte announces; 0 where it can't begin one.
static size_t announced(unsigned char c)
{
    if (c < 0x80) return 1;
    if (c >= 0xc2 && c <= 0xdf) return 2;
    if (c >= 0xe0 && c <= 0xef) return 3;
    if (c >= 0xf0 && c <= 0xf4) return 4;
    return 0;
}

// May `c` follow at index `at` of a sequence that begins with `first`? (Unicode, table 3-7: no
// overlong forms, no surrogates, nothing above U+10FFFF.)
static bool may_follow(unsigned char first, size_t at, unsigned char c)
{
    if (at == 1) {
        if (first == 0xe0) return c >= 0xa0 && c <= 0xbf;
        if (first == 0xed) return c >= 0x80 && c <= 0x9f;
        if (first == 0xf0) return c >= 0x90 && c <= 0xbf;
        if (first == 0xf4) return c >= 0x80 && c <= 0x8f;
    }
    return c >= 0x80 && c <= 0xbf;
}

uint32_t text_utf8_next(const char *s, size_t n, size_t *len)
{
    const unsigned char *p = (const unsigned char *)s;
    size_t k = announced(p[0]);
    *len = 1;
    if (k == 1) return p[0];
    if (k == 0 || k > n) return 0xfffd;
    uint32_t code_point = p[0] & (0xffu >> (k + 1));
    for (size_t i = 1; i < k; i++) {
        if (!may_follow(p[0], i, p[i])) return 0xfffd;
        code_point = code_point << 6 | (p[i] & 0x3fu);
    }
    *len = k;
    return code_point;
}

size_t text_utf8_put(uint32_t code_point, char out[4])
{
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    size_t k = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    for (size_t i = k - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code_point & 0x3f));
        code_point >>= 6;
    }
    out[0] = (char)((0xf00u >> k & 0xf0u) | code_point);
    return k;
}

bool text_utf8_valid(const char *s, size_t n)
{
    for (size_t i = 0, len; i < n; i += len) {
        if ((unsigned char)s[i] < 0x80) {
            len = 1;
            continue;
        }
        text_utf8_next(s + i, n - i, &len);
        if (len == 1) return false;
    }
    return true;
}

size_t text_utf8_whole(const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    // Only a sequence that begins in the last three bytes can be incomplete.
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        const unsigned char *first = p + n - back;
        size_t k = announced(*first);
        if (k == 0) continue;
        if (k <= back) return n;
        for (size_t i = 1; i < back; i++)
            if (!may_follow(*first, i, first[i])) return n;
        return n - back;
    }
    return n;
}
