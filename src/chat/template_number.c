// Numbers as Python has them: 64-bit integers that become larger ones where they overflow, floats.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "chat/template_internal.h"

// 478 limbs have the 4300 digits that Python shows at most; a ratio of such needs a few more.
enum { LIMB = 1000000000, LIMB_DIGITS = 9, MAX_LIMBS = 484 };

struct tbig {
    bool negative;
    size_t n;     // limbs, the highest not zero
    uint32_t d[]; // base 10^9, lowest first
};

// ---- large integers ---------------------------------------------------------------------------

static tbig *big_new(trt *r, size_t n)
{
    if (n > MAX_LIMBS) trt_fail(r, "an integer with more than 4300 digits");
    tbig *b = trt_alloc(r, sizeof *b + n * sizeof *b->d);
    b->n = n;
    return b;
}

static void trim(tbig *b)
{
    while (b->n && b->d[b->n - 1] == 0) b->n--;
}

static const tbig *to_big(trt *r, tval v)
{
    if (v.kind == T_BIG) return v.u.big;
    int64_t i = v.kind == T_BOOL ? v.u.b : v.u.i;
    uint64_t m = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    tbig *b = big_new(r, 3);
    b->negative = i < 0;
    for (size_t k = 0; k < 3; k++, m /= LIMB) b->d[k] = (uint32_t)(m % LIMB);
    trim(b);
    return b;
}

// The value as a T_INT where it fits.
static tval from_big(tbig *b)
{
    trim(b);
    uint64_t m = 0, limit = (uint64_t)INT64_MAX + (b->negative ? 1 : 0);
    for (size_t k = b->n; k-- > 0;) {
        if (m > (limit - b->d[k]) / LIMB) return (tval){T_BIG, {.big = b}};
        m = m * LIMB + b->d[k];
    }
    if (!b->negative) return tval_int((int64_t)m);
    return tval_int(m ? -(int64_t)(m - 1) - 1 : 0);
}

static int compare_size(const tbig *a, const tbig *b)
{
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    for (size_t k = a->n; k-- > 0;)
        if (a->d[k] != b->d[k]) return a->d[k] < b->d[k] ? -1 : 1;
    return 0;
}

static tbig *add_sizes(trt *r, const tbig *a, const tbig *b)
{
    size_t n = (a->n > b->n ? a->n : b->n) + 1;
    tbig *sum = big_new(r, n);
    uint32_t carry = 0;
    for (size_t k = 0; k < n; k++) {
        uint32_t v = carry + (k < a->n ? a->d[k] : 0) + (k < b->n ? b->d[k] : 0);
        carry = v >= LIMB;
        sum->d[k] = carry ? v - LIMB : v;
    }
    return sum;
}

// a - b, where a is not the smaller.
static tbig *sub_sizes(trt *r, const tbig *a, const tbig *b)
{
    tbig *rest = big_new(r, a->n);
    int64_t borrow = 0;
    for (size_t k = 0; k < a->n; k++) {
        int64_t v = (int64_t)a->d[k] - (k < b->n ? b->d[k] : 0) - borrow;
        borrow = v < 0;
        rest->d[k] = (uint32_t)(borrow ? v + LIMB : v);
    }
    trim(rest);
    return rest;
}

static tbig *big_add(trt *r, const tbig *a, const tbig *b, bool minus)
{
    bool b_negative = b->negative != minus;
    tbig *sum;
    if (a->negative == b_negative) {
        sum = add_sizes(r, a, b);
        sum->negative = a->negative;
    } else if (compare_size(a, b) >= 0) {
        sum = sub_sizes(r, a, b);
        sum->negative = a->negative;
    } else {
        sum = sub_sizes(r, b, a);
        sum->negative = b_negative;
    }
    trim(sum);
    return sum;
}

static tbig *big_mul(trt *r, const tbig *a, const tbig *b)
{
    tbig *product = big_new(r, a->n + b->n);
    product->negative = a->negative != b->negative;
    trt_step(r, a->n * b->n / 16);
    for (size_t i = 0; i < a->n; i++) {
        uint64_t carry = 0;
        for (size_t k = 0; k < b->n || carry; k++) {
            uint64_t v = product->d[i + k] + carry;
            if (k < b->n) v += (uint64_t)a->d[i] * b->d[k];
            product->d[i + k] = (uint32_t)(v % LIMB);
            carry = v / LIMB;
        }
    }
    trim(product);
    return product;
}

static tbig *times_small(trt *r, const tbig *a, uint32_t m)
{
    tbig *product = big_new(r, a->n + 1);
    uint64_t carry = 0;
    for (size_t k = 0; k <= a->n; k++) {
        uint64_t v = carry + (k < a->n ? (uint64_t)a->d[k] * m : 0);
        product->d[k] = (uint32_t)(v % LIMB);
        carry = v / LIMB;
    }
    trim(product);
    return product;
}

// Schoolbook division of the sizes; each quotient limb by bisection.
static void div_sizes(trt *r, const tbig *a, const tbig *b, tbig **quotient, tbig **rest)
{
    tbig *q = big_new(r, a->n), *left = big_new(r, 0);
    for (size_t k = a->n; k-- > 0;) {
        tbig *next = big_new(r, left->n + 1);
        memcpy(next->d + 1, left->d, left->n * sizeof *left->d);
        next->d[0] = a->d[k];
        trim(next);
        uint32_t low = 0, high = LIMB - 1;
        trt_step(r, b->n);
        while (low < high) {
            uint32_t mid = low + (high - low + 1) / 2;
            if (compare_size(times_small(r, b, mid), next) <= 0)
                low = mid;
            else
                high = mid - 1;
        }
        q->d[k] = low;
        left = sub_sizes(r, next, times_small(r, b, low));
    }
    trim(q);
    *quotient = q;
    *rest = left;
}

static tval big_divide(trt *r, const tbig *a, const tbig *b, bool want_rest)
{
    tbig *q, *rest;
    div_sizes(r, a, b, &q, &rest);
    bool negative = a->negative != b->negative;
    if (rest->n && negative) { // towards minus infinity
        tbig *unit = big_new(r, 1);
        unit->d[0] = 1;
        q = add_sizes(r, q, unit);
        rest = sub_sizes(r, b, rest);
    }
    q->negative = negative;
    rest->negative = b->negative;
    return from_big(want_rest ? rest : q);
}

static tval int_power(trt *r, tval base, int64_t exponent)
{
    tbig *result = big_new(r, 1);
    result->d[0] = 1;
    const tbig *square = to_big(r, base);
    for (; exponent; exponent >>= 1) {
        trt_step(r, 1);
        if (exponent & 1) result = big_mul(r, result, square);
        if (exponent > 1) square = big_mul(r, square, square);
    }
    return from_big(result);
}

tval tbig_parse(trt *r, const char *digits, size_t n, int base)
{
    bool negative = n && *digits == '-';
    size_t i = negative || (n && *digits == '+');
    tbig *b = big_new(r, 0);
    if (base == 10) {
        while (i < n && digits[i] == '0') i++;
        size_t limbs = (n - i + LIMB_DIGITS - 1) / LIMB_DIGITS;
        b = big_new(r, limbs);
        for (size_t k = limbs; k-- > 0;) {
            size_t take = (n - i) - k * LIMB_DIGITS;
            for (; take > 0; take--, i++) b->d[k] = b->d[k] * 10 + (uint32_t)(digits[i] - '0');
        }
    } else {
        for (; i < n; i++) {
            char c = digits[i];
            tbig *digit = big_new(r, 1);
            digit->d[0] = (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
            b = add_sizes(r, times_small(r, b, (uint32_t)base), digit);
            trim(b);
        }
    }
    b->negative = negative;
    return from_big(b);
}

void tbuf_big(tbuf *b, const tbig *v)
{
    if (v->negative) tbuf_text(b, "-");
    for (size_t k = v->n; k-- > 0;)
        tbuf_printf(b, k == v->n - 1 ? "%" PRIu32 : "%09" PRIu32, v->d[k]);
}

double tbig_to_double(const tbig *v)
{
    // Through text, because that rounds correctly.
    char text[MAX_LIMBS * LIMB_DIGITS + 2];
    size_t n = 0;
    if (v->negative) text[n++] = '-';
    for (size_t k = v->n; k-- > 0; n += LIMB_DIGITS)
        snprintf(text + n, LIMB_DIGITS + 1, "%09" PRIu32, v->d[k]);
    return strtod(text, NULL);
}

bool tbig_is_odd(const tbig *v)
{
    return v->n && v->d[0] % 2;
}

int tval_compare_int(tval a, tval b)
{
    if (a.kind == T_BIG && b.kind == T_BIG) {
        if (a.u.big->negative != b.u.big->negative) return a.u.big->negative ? -1 : 1;
        int order = compare_size(a.u.big, b.u.big);
        return a.u.big->negative ? -order : order;
    }
    if (a.kind == T_BIG) return a.u.big->negative ? -1 : 1;
    if (b.kind == T_BIG) return b.u.big->negative ? 1 : -1;
    int64_t x = a.kind == T_BOOL ? a.u.b : a.u.i, y = b.kind == T_BOOL ? b.u.b : b.u.i;
    return x < y ? -1 : x > y;
}

tval tval_from_double(trt *r, double f)
{
    if (fabs(f) < 9.2e18) return tval_int((int64_t)f);
    char text[DBL_MAX_10_EXP + 20];
    int n = snprintf(text, sizeof text, "%.0f", f);
    return tbig_parse(r, text, (size_t)n, 10);
}

// ---- arithmetic -------------------------------------------------------------------------------

static tval float_arith(trt *r, top op, double a, double b)
{
    switch (op) {
    case OP_ADD: return tval_float(a + b);
    case OP_SUB: return tval_float(a - b);
    case OP_MUL: return tval_float(a * b);
    case OP_DIV:
        if (b == 0) trt_fail(r, "float division by zero");
        return tval_float(a / b);
    case OP_POW: {
        if (a == 0 && b < 0) trt_fail(r, "0.0 cannot be raised to a negative power");
        if (a < 0 && b != floor(b)) trt_fail(r, "complex numbers are not supported");
        double p = pow(a, b);
        if (isinf(p) && !isinf(a) && !isinf(b)) trt_fail(r, "Numerical result out of range");
        return tval_float(p);
    }
    default: break;
    }
    if (b == 0) trt_fail(r, op == OP_MOD ? "float modulo" : "float floor division by zero");
    double rest = fmod(a, b), whole = (a - rest) / b;
    if (rest == 0) {
        rest = copysign(0, b);
    } else if ((b < 0) != (rest < 0)) {
        rest += b;
        whole -= 1;
    }
    if (op == OP_MOD) return tval_float(rest);
    double down = floor(whole);
    return tval_float(whole == 0 ? copysign(0, a / b) : whole - down > 0.5 ? down + 1 : down);
}

static bool is_small(tval v)
{
    return v.kind == T_BOOL || (v.kind == T_INT && v.u.i > INT32_MIN && v.u.i < INT32_MAX);
}

static bool is_zero(tval v)
{
    return (v.kind == T_BOOL && !v.u.b) || (v.kind == T_INT && v.u.i == 0);
}

static tval int_power_of(trt *r, tval a, tval b)
{
    if (b.kind == T_BIG || (b.kind == T_INT && b.u.i < 0)) {
        if (is_zero(a)) trt_fail(r, "0.0 cannot be raised to a negative power");
        return float_arith(r, OP_POW, tval_to_double(r, a), tval_to_double(r, b));
    }
    return int_power(r, a, b.kind == T_BOOL ? b.u.b : b.u.i);
}

static tval small_arith(top op, int64_t x, int64_t y)
{
    switch (op) {
    case OP_ADD: return tval_int(x + y);
    case OP_SUB: return tval_int(x - y);
    case OP_MUL: return tval_int(x * y);
    default: break;
    }
    int64_t rest = x % y, whole = x / y;
    if (rest && (rest < 0) != (y < 0)) {
        rest += y;
        whole--;
    }
    return tval_int(op == OP_MOD ? rest : whole);
}

// As large as a double holds without rounding.
static bool is_exact(tval v)
{
    const int64_t most = INT64_C(1) << 53;
    return v.kind == T_BOOL || (v.kind == T_INT && v.u.i >= -most && v.u.i <= most);
}

static double big_ratio(trt *r, const tbig *a, const tbig *b)
{
    // Limbs are added to `a` until the quotient has at least 28 digits. With one more digit that
    // says whether something is left, its text becomes the nearest double.
    size_t more = a->n < b->n + 4 ? b->n + 4 - a->n : 0;
    tbig *up = big_new(r, a->n + more), *q, *rest;
    memcpy(up->d + more, a->d, a->n * sizeof *a->d);
    trim(up);
    div_sizes(r, up, b, &q, &rest);
    char text[MAX_LIMBS * LIMB_DIGITS + 40];
    size_t n = 0;
    for (size_t k = q->n; k-- > 0; n += LIMB_DIGITS)
        snprintf(text + n, LIMB_DIGITS + 1, "%09" PRIu32, q->d[k]);
    snprintf(text + n, sizeof text - n, "%de-%zu", rest->n ? 1 : 0, more * LIMB_DIGITS + 1);
    double ratio = strtod(text, NULL);
    if (isinf(ratio)) trt_fail(r, "integer division result too large for a float");
    return a->negative != b->negative ? -ratio : ratio;
}

tval tval_arith(trt *r, top op, tval a, tval b)
{
    if (a.kind == T_FLOAT || b.kind == T_FLOAT)
        return float_arith(r, op, tval_to_double(r, a), tval_to_double(r, b));
    if (op == OP_POW) return int_power_of(r, a, b);
    if ((op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD) && is_zero(b))
        trt_fail(r, op == OP_DIV   ? "division by zero"
                    : op == OP_MOD ? "integer modulo by zero"
                                   : "integer division or modulo by zero");
    if (op == OP_DIV) {
        if (!is_exact(a) || !is_exact(b))
            return tval_float(big_ratio(r, to_big(r, a), to_big(r, b)));
        return tval_float(tval_to_double(r, a) / tval_to_double(r, b));
    }
    if (is_small(a) && is_small(b))
        return small_arith(op, a.kind == T_BOOL ? a.u.b : a.u.i, b.kind == T_BOOL ? b.u.b : b.u.i);
    const tbig *x = to_big(r, a), *y = to_big(r, b);
    if (op == OP_MUL) return from_big(big_mul(r, x, y));
    if (op == OP_ADD || op == OP_SUB) return from_big(big_add(r, x, y, op == OP_SUB));
    return big_divide(r, x, y, op == OP_MOD);
}

tval tval_negate(trt *r, tval v)
{
    if (v.kind == T_FLOAT) return tval_float(-v.u.f);
    if (!tval_is_number(v)) trt_fail(r, "bad operand type for unary -: '%s'", tval_type(v));
    return tval_arith(r, OP_SUB, tval_int(0), v);
}

// ---- from text --------------------------------------------------------------------------------

// Without white space around and underscores between digits; zero-terminated. NULL: misplaced ones.
static char *plain_number(trt *r, const tstr *s, size_t *n)
{
    s = tstr_strip(r, s, NULL, true, true);
    char *text = trt_alloc(r, s->n + 1);
    size_t k = 0;
    for (size_t i = 0; i < s->n; i++) {
        char c = s->s[i];
        bool between = i > 0 && i + 1 < s->n && s->s[i - 1] != '_' && s->s[i - 1] != '+' &&
                       s->s[i - 1] != '-' && s->s[i + 1] != '_';
        if (c == '_' && !between) return NULL;
        if (c != '_') text[k++] = c;
    }
    *n = k;
    return text;
}

tval tval_parse_int(trt *r, const tstr *s, int base)
{
    size_t n = 0;
    char *text = plain_number(r, s, &n);
    if (!text) return tval_missing();
    size_t sign = n && (text[0] == '-' || text[0] == '+'), i = sign;
    if (n - i > 2 && text[i] == '0') {
        char c = text[i + 1] | 0x20;
        int named = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
        if (named && (base == named || base == 0)) {
            base = named;
            i += 2;
        }
    }
    if (base == 0) base = 10;
    if (i >= n || base < 2 || base > 36) return tval_missing();
    for (size_t k = i; k < n; k++) {
        char c = text[k];
        int v = c >= '0' && c <= '9'                     ? c - '0'
                : (c | 0x20) >= 'a' && (c | 0x20) <= 'z' ? (c | 0x20) - 'a' + 10
                                                         : 99;
        if (v >= base) return tval_missing();
    }
    tval v = tbig_parse(r, text + i, n - i, base);
    return sign && text[0] == '-' ? tval_negate(r, v) : v;
}

tval tval_parse_float(trt *r, const tstr *s)
{
    size_t n = 0;
    char *text = plain_number(r, s, &n), *end;
    if (!text || n == 0 || memchr(text, 'x', n) || memchr(text, 'X', n) || memchr(text, '(', n) ||
        tchar_is_space(text[0]))
        return tval_missing();
    double f = strtod(text, &end);
    return end == text + n ? tval_float(f) : tval_missing();
}

// ---- rounding ---------------------------------------------------------------------------------

// Half to even; `more`: the number is a little larger (in size) than v.
static tval round_int(trt *r, tval v, int64_t digits, bool more)
{
    if (digits < -4000) return tval_int(0);
    if (tval_compare_int(v, tval_int(0)) < 0)
        return tval_negate(r, round_int(r, tval_negate(r, v), digits, more));
    tval unit = int_power(r, tval_int(10), -digits);
    tval rest = tval_arith(r, OP_MOD, v, unit), down = tval_arith(r, OP_SUB, v, rest);
    int half = tval_compare_int(tval_arith(r, OP_MUL, rest, tval_int(2)), unit);
    tval quotient = tval_arith(r, OP_FLOORDIV, down, unit);
    bool odd = quotient.kind == T_BIG ? tbig_is_odd(quotient.u.big) : quotient.u.i % 2 != 0;
    bool up = half > 0 || (half == 0 && (odd || more));
    return up ? tval_arith(r, OP_ADD, down, unit) : down;
}

tval tval_round(trt *r, tval v, int64_t digits)
{
    if (v.kind == T_FLOAT) {
        double f = v.u.f;
        if (!isfinite(f) || digits > 300) return v;
        if (digits < -308) return tval_float(copysign(0, f));
        if (digits < 0) {
            tval whole = round_int(r, tval_from_double(r, trunc(f)), digits, f != trunc(f));
            return tval_float(copysign(tval_to_double(r, whole), f));
        }
        // The decimal text of the exact value is rounded half to even, which is what is wanted.
        char text[DBL_MAX_10_EXP + 400];
        snprintf(text, sizeof text, "%.*f", (int)digits, f);
        return tval_float(strtod(text, NULL));
    }
    if (digits >= 0) return v.kind == T_BOOL ? tval_int(v.u.b) : v;
    return round_int(r, v, digits, false);
}
