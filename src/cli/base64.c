// Bytes in JSON, where text can't hold them.
#include <stdlib.h>
#include <string.h>

#include "cli/base64.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const char *bytes, size_t n, buf *out)
{
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        unsigned a = (unsigned char)bytes[i], b = left > 1 ? (unsigned char)bytes[i + 1] : 0,
                 c = left > 2 ? (unsigned char)bytes[i + 2] : 0;
        unsigned word = a << 16 | b << 8 | c;
        char group[4] = {digits[word >> 18], digits[word >> 12 & 63],
                         left > 1 ? digits[word >> 6 & 63] : '=',
                         left > 2 ? digits[word & 63] : '='};
        buf_add(out, group, 4);
    }
}

bool base64_decode(const char *text, size_t n, buf *out)
{
    unsigned word = 0;
    size_t bits = 0;
    while (n && text[n - 1] == '=') n--;
    for (size_t i = 0; i < n; i++) {
        const char *at = text[i] ? strchr(digits, text[i]) : NULL;
        if (!at) return false;
        word = (word << 6 | (unsigned)(at - digits)) & 0xffffff;
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        buf_char(out, (char)(word >> bits & 0xff));
    }
    return bits < 6; // a lone digit holds no byte
}
