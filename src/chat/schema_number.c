// Ranges of numbers as expressions of a grammar: digit by digit against the bounds' own digits.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/schema_internal.h"

enum { MAX_DIGITS = 16, TEXT_BYTES = 64 };

// A size (not below 0) as digits: whole part without leading zeros, fraction without trailing ones.
typedef struct decimal {
    char whole[TEXT_BYTES], fraction[TEXT_BYTES];
} decimal;

// The shortest digits that read back as the same number. False: too many of them.
static bool decimal_of(double v, decimal *d)
{
    char text[TEXT_BYTES], digits[TEXT_BYTES];
    int precision = 0;
    v = fabs(v); // -0.0 has a sign
    do snprintf(text, sizeof text, "%.*e", precision, v);
    while (strtod(text, NULL) != v && ++precision < 17);
    int exponent = atoi(strchr(text, 'e') + 1), n = 0;
    if (exponent >= MAX_DIGITS || exponent < -MAX_DIGITS) return false;
    for (const char *p = text; *p != 'e'; p++)
        if (*p != '.') digits[n++] = *p;
    while (n > 1 && digits[n - 1] == '0') n--;
    *d = (decimal){.whole = "0"};
    int k = 0;
    for (int i = 0; i <= exponent; i++) d->whole[i] = k < n ? digits[k++] : '0';
    size_t zeros = v > 0 && exponent < -1 ? (size_t)(-exponent - 1) : 0;
    memset(d->fraction, '0', zeros);
    if (v > 0 && k < n) memcpy(d->fraction + zeros, digits + k, (size_t)(n - k));
    return strlen(d->fraction) <= MAX_DIGITS;
}

static void any_digits(buf *out, size_t least, size_t most)
{
    if (most) buf_printf(out, " [0-9]{%zu,%zu}", least, most);
}

static void alternative(buf *out, size_t start)
{
    if (out->len > start) buf_str(out, " | ");
}

// ---- whole parts ------------------------------------------------------------------------------

static bool all_are(const char *digits, char c)
{
    return digits[strspn(digits, (const char[]){c, 0})] == 0;
}

// From `low` to `high`, both of as many digits.
static void same_length(buf *out, const char *low, const char *high)
{
    size_t same = 0, n = strlen(low);
    while (same < n && low[same] == high[same]) same++;
    if (same) buf_printf(out, "\"%.*s\" ", (int)same, low);
    if (same == n) return;
    low += same;
    high += same;
    n -= same + 1; // digits behind the first one that differs
    bool from_it = all_are(low + 1, '0'), to_it = all_are(high + 1, '9');
    int from = from_it ? low[0] : low[0] + 1, to = to_it ? high[0] : high[0] - 1;
    char nines[TEXT_BYTES] = "", zeros[TEXT_BYTES] = "";
    memset(nines, '9', n);
    memset(zeros, '0', n);
    buf_str(out, "( ");
    size_t start = out->len;
    if (from <= to) {
        buf_printf(out, "[%c-%c]", from, to);
        any_digits(out, n, n);
    }
    if (!from_it) {
        alternative(out, start);
        buf_printf(out, "\"%c\" ", low[0]);
        same_length(out, low + 1, nines);
    }
    if (!to_it) {
        alternative(out, start);
        buf_printf(out, "\"%c\" ", high[0]);
        same_length(out, zeros, high + 1);
    }
    buf_str(out, " )");
}

// Whole numbers from `low` to `high`, not below 0.
static void whole_range(buf *out, const char *low, const char *high)
{
    size_t n = strlen(low), m = strlen(high);
    char first[TEXT_BYTES] = "1", last[TEXT_BYTES] = "";
    if (n == m) {
        same_length(out, low, high);
        return;
    }
    memset(last, '9', n);
    same_length(out, low, last);
    if (n + 1 < m) {
        buf_str(out, " | [1-9]");
        any_digits(out, n, m - 2);
    }
    memset(first + 1, '0', m - 1);
    buf_str(out, " | ");
    same_length(out, first, high);
}

static void add_one(char *digits)
{
    size_t n = strlen(digits), i = n;
    while (i > 0 && digits[i - 1] == '9') digits[--i] = '0';
    if (i > 0) {
        digits[i - 1]++;
    } else {
        memmove(digits + 1, digits, n + 1);
        digits[0] = '1';
    }
}

static void less_one(char *digits) // of more than 0
{
    size_t n = strlen(digits), i = n;
    while (digits[i - 1] == '0') digits[--i] = '9';
    digits[i - 1]--;
    if (digits[0] == '0' && n > 1) memmove(digits, digits + 1, n);
}

static int compare(const char *a, const char *b) // whole parts
{
    size_t n = strlen(a), m = strlen(b);
    return n != m ? (n < m ? -1 : 1) : strcmp(a, b);
}

// ---- fractions --------------------------------------------------------------------------------

// Digits behind the point that make at least `low`, or more than it.
static void fraction_from(buf *out, const char *low, bool above)
{
    size_t n = strlen(low), start = out->len;
    for (size_t i = 0; i < n; i++) {
        if (low[i] == '9') continue;
        alternative(out, start);
        buf_printf(out, "\"%.*s\" [%c-9]", (int)i, low, low[i] + 1);
        any_digits(out, 0, MAX_DIGITS - i - 1);
    }
    if (n == MAX_DIGITS && above) return;
    alternative(out, start);
    buf_printf(out, "\"%s\"", low);
    if (above) {
        size_t left = MAX_DIGITS - n - 1, zeros = left < 3 ? left : 3;
        buf_printf(out, " \"0\"{0,%zu} [1-9]", zeros);
        any_digits(out, 0, left - zeros);
    } else {
        any_digits(out, n ? 0 : 1, MAX_DIGITS - n);
    }
}

// Digits behind the point that make at most `high` (of at least one digit), or less than it.
static void fraction_to(buf *out, const char *high, bool below)
{
    size_t n = strlen(high), start = out->len;
    for (size_t i = 0; i < n; i++) {
        if (high[i] > '0') {
            alternative(out, start);
            buf_printf(out, "\"%.*s\" [0-%c]", (int)i, high, high[i] - 1);
            any_digits(out, 0, MAX_DIGITS - i - 1);
        }
        if (i + 1 < n || !below) {
            alternative(out, start);
            buf_printf(out, "\"%.*s\"", (int)i + 1, high);
        }
    }
}

// Both bounds have the same whole part; `high` has digits.
static void fraction_between(buf *out, const char *low, const char *high, bool above, bool below)
{
    size_t same = 0, n = strlen(low);
    while (high[same] && (same < n ? low[same] : '0') == high[same]) same++;
    char from = same < n ? low[same] : '0', to = high[same];
    if (!to) {
        if (!strcmp(low, high) && !above && !below) buf_printf(out, "\"%s\"", high);
        return;
    }
    if (from > to) return;
    const char *rest = same < n ? low + same + 1 : "";
    buf_printf(out, "\"%.*s\" ( \"%c\" ( ", (int)same, high, from);
    fraction_from(out, rest, above);
    buf_str(out, *rest || above ? " )" : " | \"\" )");
    if (from + 1 < to) {
        buf_printf(out, " | [%c-%c]", from + 1, to - 1);
        any_digits(out, 0, MAX_DIGITS - same - 1);
    }
    if (high[same + 1]) {
        buf_printf(out, " | \"%c\" ( ", to);
        fraction_to(out, high + same + 1, below);
        buf_str(out, " | \"\" )");
    } else if (!below) {
        buf_printf(out, " | \"%c\"", to);
    }
    buf_str(out, " )");
}

// ---- sizes: numbers that are not below 0 ------------------------------------------------------

typedef struct size_range {
    decimal low, high;
    bool above_low, below_high;
} size_range;

static bool whole_sizes(const size_range *r, buf *out)
{
    decimal low = r->low, high = r->high;
    if (low.fraction[0] || r->above_low) add_one(low.whole);
    if (!high.fraction[0] && r->below_high) {
        if (!strcmp(high.whole, "0")) return false;
        less_one(high.whole);
    }
    if (compare(low.whole, high.whole) > 0) return false;
    whole_range(out, low.whole, high.whole);
    return true;
}

// With fractions: whole parts inside the range, with any; those of the bounds with theirs.
static bool real_sizes(const size_range *r, buf *out)
{
    const decimal *low = &r->low, *high = &r->high;
    size_t start = out->len;
    int order = compare(low->whole, high->whole);
    if (order > 0) return false;
    if (order == 0) {
        bool itself = !low->fraction[0] && !r->above_low && (high->fraction[0] || !r->below_high);
        if (itself) buf_printf(out, "\"%s\"", low->whole);
        buf part = {0};
        if (high->fraction[0])
            fraction_between(&part, low->fraction, high->fraction, r->above_low, r->below_high);
        if (part.len) {
            alternative(out, start);
            buf_printf(out, "\"%s.\" ( %s )", low->whole, part.data);
        }
        out->failed |= part.failed;
        buf_free(&part);
        return out->len > start;
    }
    if (!low->fraction[0] && !r->above_low) buf_printf(out, "\"%s\" | ", low->whole);
    buf_printf(out, "\"%s.\" ( ", low->whole);
    fraction_from(out, low->fraction, r->above_low);
    buf_str(out, " )");
    decimal from = *low, to = *high;
    add_one(from.whole);
    if (strcmp(from.whole, high->whole) != 0) {
        less_one(to.whole);
        buf_str(out, " | ( ");
        whole_range(out, from.whole, to.whole);
        buf_printf(out, " ) ( \".\" [0-9]{1,%d} )?", MAX_DIGITS);
    }
    if (high->fraction[0] || !r->below_high) buf_printf(out, " | \"%s\"", high->whole);
    if (high->fraction[0]) {
        buf_printf(out, " | \"%s.\" ( ", high->whole);
        fraction_to(out, high->fraction, r->below_high);
        buf_str(out, " )");
    }
    return true;
}

static bool sizes(double low, double high, bool above, bool below, bool whole, buf *out)
{
    static const decimal most = {.whole = "9999999999999999"};
    size_range r = {.above_low = above, .below_high = below};
    if (!decimal_of(low, &r.low)) return false;
    if (high >= 1e16) {
        r.high = most;
        r.below_high = false;
    } else if (!decimal_of(high, &r.high)) {
        return false;
    }
    return whole ? whole_sizes(&r, out) : real_sizes(&r, out);
}

bool schema_numbers(const number_range *range, buf *out)
{
    double low = range->has_low ? range->low : -INFINITY;
    double high = range->has_high ? range->high : INFINITY;
    bool above = range->above_low, below = range->below_high, any = false;
    buf part = {0};
    if (high > 0 || (high == 0 && !below)) { // 0 and more
        bool from = low >= 0;
        any = sizes(from ? low : 0, high, from && above, below, range->whole, &part);
        if (any) buf_str(out, part.data);
    }
    part.len = 0;
    if (low < 0) { // less than 0
        bool to = high < 0;
        bool some = sizes(to ? -high : 0, -low, !to || below, above, range->whole, &part);
        if (some) buf_printf(out, "%s\"-\" ( %s )", any ? " | " : "", part.data);
        any |= some;
    }
    out->failed |= part.failed;
    buf_free(&part);
    return any;
}
