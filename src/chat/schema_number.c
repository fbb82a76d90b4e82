// Ranges of numbers as expressions of a grammar: digit by digit against the bounds' own digits.
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/large.h"
#include "chat/schema_internal.h"

enum { MAX_DIGITS = 16, TEXT_BYTES = 64 };
static const int64_t MOST = 9999999999999999; // of MAX_DIGITS digits
static const double BEYOND = 1e16;            // the first double that is more

// ---- bounds -----------------------------------------------------------------------------------

// Integers beyond 64 bits come as marked strings (base/large.h); as doubles they are near enough,
// being far beyond MOST.
static const char *large_digits(const json_t *v)
{
    const char *text = json_string_value(v);
    return text && !strncmp(text, LARGE_MARK, strlen(LARGE_MARK)) ? text + strlen(LARGE_MARK)
                                                                  : NULL;
}

bool schema_is_number(const json_t *v)
{
    return json_is_number(v) || large_digits(v);
}

static double double_of(const json_t *v)
{
    const char *digits = large_digits(v);
    return digits ? strtod(digits, NULL) : json_number_value(v);
}

// The sign of a - b.
static int compare_double(const json_t *a, double b)
{
    double v = double_of(a);
    // From 2^53 on doubles are whole, and not every integer is one.
    if (json_is_integer(a) && fabs(b) >= 0x1p53 && fabs(b) < 0x1p63) {
        json_int_t i = json_integer_value(a), k = (json_int_t)b;
        return (i > k) - (i < k);
    }
    return (v > b) - (v < b);
}

int schema_compare(const json_t *a, const json_t *b)
{
    json_int_t i = json_integer_value(a), k = json_integer_value(b);
    if (json_is_integer(a) && json_is_integer(b)) return (i > k) - (i < k);
    return json_is_integer(b) ? -compare_double(b, double_of(a)) : compare_double(a, double_of(b));
}

// The first double inside the bound, whether that is read as a double or exactly: a text beyond it
// is outside for who reads it as a double, too (100.4999999999999999 is 100.5 there).
static double inside(const json_t *bound, bool low, bool open)
{
    double v = double_of(bound), on = low ? INFINITY : -INFINITY;
    if (open) v = nextafter(v, on);
    int order = compare_double(bound, v);
    return (low ? order > 0 : order < 0) ? nextafter(v, on) : v;
}

// The first integer inside the bound, or one beyond MOST.
static int64_t whole_inside(const json_t *bound, bool low, bool open)
{
    int64_t step = low ? 1 : -1;
    if (json_is_integer(bound)) {
        json_int_t i = json_integer_value(bound);
        if (i > MOST || i < -MOST) return i > 0 ? MOST + 1 : -MOST - 1;
        return i + (open ? step : 0);
    }
    double v = double_of(bound), near = low ? ceil(v) : floor(v);
    if (fabs(near) >= BEYOND) return near > 0 ? MOST + 1 : -MOST - 1;
    return (int64_t)near + (open && near == v ? step : 0);
}

// A size (not below 0) as digits: whole part without leading zeros, fraction without trailing ones.
typedef struct decimal {
    char whole[TEXT_BYTES], fraction[TEXT_BYTES];
} decimal;

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

static void cut_fraction(decimal *d, bool up)
{
    if (strlen(d->fraction) > MAX_DIGITS) {
        d->fraction[MAX_DIGITS] = 0;
        if (up) add_one(d->fraction);
        if (strlen(d->fraction) > MAX_DIGITS) {
            d->fraction[0] = 0;
            add_one(d->whole);
        }
    }
    size_t n = strlen(d->fraction);
    while (n && d->fraction[n - 1] == '0') d->fraction[--n] = 0;
}

// The shortest digits that read back as the same number; where there are too many behind the point,
// the nearest of MAX_DIGITS not below it (`up`) or not above it. `v` is below 1e16.
static decimal decimal_of(double v, bool up)
{
    char text[TEXT_BYTES], digits[TEXT_BYTES];
    decimal d = {.whole = "0"};
    int precision = 0;
    do snprintf(text, sizeof text, "%.*e", precision, v);
    while (strtod(text, NULL) != v && ++precision < 17);
    int exponent = atoi(strchr(text, 'e') + 1), n = 0;
    if (exponent < -MAX_DIGITS) { // less than one in the last digit
        if (up && v > 0) snprintf(d.fraction, sizeof d.fraction, "%0*d", MAX_DIGITS, 1);
        return d;
    }
    for (const char *p = text; *p != 'e'; p++)
        if (*p != '.') digits[n++] = *p;
    int k = 0;
    for (int i = 0; i <= exponent; i++) d.whole[i] = k < n ? digits[k++] : '0';
    size_t zeros = exponent < -1 ? (size_t)(-exponent - 1) : 0;
    memset(d.fraction, '0', zeros);
    if (k < n) memcpy(d.fraction + zeros, digits + k, (size_t)(n - k));
    cut_fraction(&d, up);
    return d;
}

// ---- digits -----------------------------------------------------------------------------------

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

// Digits behind the point that make at least `low`; at most `left` of them, as many as `low` has or
// more.
static void fraction_from(buf *out, const char *low, size_t left)
{
    size_t n = strlen(low), start = out->len;
    for (size_t i = 0; i < n; i++) {
        if (low[i] == '9') continue;
        alternative(out, start);
        buf_printf(out, "\"%.*s\" [%c-9]", (int)i, low, low[i] + 1);
        any_digits(out, 0, left - i - 1);
    }
    alternative(out, start);
    buf_printf(out, "\"%s\"", low);
    any_digits(out, n ? 0 : 1, left - n);
}

// Digits behind the point that make at most `high` (of at least one digit).
static void fraction_to(buf *out, const char *high, size_t left)
{
    size_t n = strlen(high), start = out->len;
    for (size_t i = 0; i < n; i++) {
        alternative(out, start);
        if (high[i] > '0') {
            buf_printf(out, "\"%.*s\" [0-%c]", (int)i, high, high[i] - 1);
            any_digits(out, 0, left - i - 1);
            buf_str(out, " | ");
        }
        buf_printf(out, "\"%.*s\"", (int)i + 1, high);
    }
}

// Both bounds have the same whole part; `high` has digits.
static void fraction_between(buf *out, const char *low, const char *high)
{
    size_t same = 0, n = strlen(low);
    while (high[same] && (same < n ? low[same] : '0') == high[same]) same++;
    char from = same < n ? low[same] : '0', to = high[same];
    if (!to) {
        if (!strcmp(low, high)) buf_printf(out, "\"%s\"", high);
        return;
    }
    if (from > to) return;
    const char *rest = same < n ? low + same + 1 : "";
    size_t left = MAX_DIGITS - same - 1;
    if (n && same >= n) buf_printf(out, "\"%s\" | ", low); // `high` goes on from there
    buf_printf(out, "\"%.*s\" ( \"%c\"", (int)same, high, from);
    if (*rest) {
        buf_str(out, " ( ");
        fraction_from(out, rest, left);
        buf_str(out, " )");
    } else {
        any_digits(out, 0, left);
    }
    if (from + 1 < to) {
        buf_printf(out, " | [%c-%c]", from + 1, to - 1);
        any_digits(out, 0, left);
    }
    buf_printf(out, " | \"%c\"", to);
    if (high[same + 1]) {
        buf_str(out, " ( ");
        fraction_to(out, high + same + 1, left);
        buf_str(out, " | \"\" )");
    }
    buf_str(out, " )");
}

// ---- sizes: numbers that are not below 0 ------------------------------------------------------

static void whole_sizes(int64_t low, int64_t high, buf *out)
{
    char from[TEXT_BYTES], to[TEXT_BYTES];
    snprintf(from, sizeof from, "%" PRId64, low);
    snprintf(to, sizeof to, "%" PRId64, high);
    whole_range(out, from, to);
}

// Both bounds have the same whole part.
static void same_whole(const decimal *low, const decimal *high, buf *out)
{
    size_t start = out->len;
    if (!low->fraction[0]) buf_printf(out, "\"%s\"", low->whole);
    buf part = {0};
    if (high->fraction[0]) fraction_between(&part, low->fraction, high->fraction);
    if (part.len) {
        alternative(out, start);
        buf_printf(out, "\"%s.\" ( %s )", low->whole, part.data);
    }
    out->failed |= part.failed;
    buf_free(&part);
}

// With fractions: whole parts inside the range, with any; those of the bounds with theirs.
static void real_sizes(double from, double to, buf *out)
{
    if (from >= BEYOND || from > to) return;
    decimal low = decimal_of(from, true), high = {.whole = "9999999999999999"};
    if (to < BEYOND) high = decimal_of(to, false);
    int order = compare(low.whole, high.whole);
    if (order == 0) same_whole(&low, &high, out);
    if (order >= 0) return;
    if (!low.fraction[0]) buf_printf(out, "\"%s\" | ", low.whole);
    buf_printf(out, "\"%s.\" ( ", low.whole);
    fraction_from(out, low.fraction, MAX_DIGITS);
    buf_str(out, " )");
    add_one(low.whole);
    buf_printf(out, " | \"%s\"", high.whole);
    if (high.fraction[0]) {
        buf_printf(out, " | \"%s.\" ( ", high.whole);
        fraction_to(out, high.fraction, MAX_DIGITS);
        buf_str(out, " )");
    }
    if (strcmp(low.whole, high.whole) != 0) {
        less_one(high.whole);
        buf_str(out, " | ( ");
        whole_range(out, low.whole, high.whole);
        buf_printf(out, " ) ( \".\" [0-9]{1,%d} )?", MAX_DIGITS);
    }
}

// ---- ranges -----------------------------------------------------------------------------------

static void whole_numbers(const number_range *r, buf *at_least_0, buf *below_0)
{
    int64_t low = r->low ? whole_inside(r->low, true, r->above_low) : -MOST;
    int64_t high = r->high ? whole_inside(r->high, false, r->below_high) : MOST;
    if (low < -MOST) low = -MOST;
    if (high > MOST) high = MOST;
    if (low > high) return;
    if (high >= 0) whole_sizes(low > 0 ? low : 0, high, at_least_0);
    if (low < 0) whole_sizes(high < 0 ? -high : 1, -low, below_0);
}

static void real_numbers(const number_range *r, buf *at_least_0, buf *below_0)
{
    double low = r->low ? inside(r->low, true, r->above_low) : -INFINITY;
    double high = r->high ? inside(r->high, false, r->below_high) : INFINITY;
    // Minus nothing is not written, and as a bound is nothing.
    if (high >= 0) real_sizes(low > 0 ? low : 0, high > 0 ? high : 0, at_least_0);
    if (low < 0) real_sizes(high < 0 ? -high : DBL_TRUE_MIN, -low, below_0);
}

bool schema_numbers(const number_range *range, buf *out)
{
    buf at_least_0 = {0}, below_0 = {0};
    (range->whole ? whole_numbers : real_numbers)(range, &at_least_0, &below_0);
    bool any = at_least_0.len || below_0.len;
    if (at_least_0.len) buf_str(out, at_least_0.data);
    if (at_least_0.len && below_0.len) buf_str(out, " | ");
    if (below_0.len) buf_printf(out, "\"-\" ( %s )", below_0.data);
    out->failed |= at_least_0.failed || below_0.failed;
    buf_free(&at_least_0);
    buf_free(&below_0);
    return any;
}
