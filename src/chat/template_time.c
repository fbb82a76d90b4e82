// strftime in the C locale, on a clock that has no zone.
#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "chat/template_internal.h"

typedef struct moment {
    int64_t year;
    int month, day, hour, minute, second, weekday, yearday; // month and yearday from 1, Sunday 0
    int microsecond;
} moment;

static moment moment_of(double now)
{
    if (!(fabs(now) < 2e11)) now = 0; // no number, or beyond the years that have names
    double whole = floor(now);
    int64_t s = (int64_t)whole, days = s / 86400, rest = s % 86400;
    if (rest < 0) {
        rest += 86400;
        days--;
    }
    moment m = {
        .hour = (int)(rest / 3600), .minute = (int)(rest / 60 % 60), .second = (int)(rest % 60)};
    m.microsecond = (int)((now - whole) * 1e6);
    m.weekday = (int)(((days + 4) % 7 + 7) % 7);
    // Days since 0000-03-01, in eras of 400 years.
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t doe = z - era * 146097, yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
    m.day = (int)(doy - (153 * mp + 2) / 5 + 1);
    m.month = (int)(mp < 10 ? mp + 3 : mp - 9);
    m.year = yoe + era * 400 + (m.month <= 2);
    bool leap = (m.year % 4 == 0 && m.year % 100 != 0) || m.year % 400 == 0;
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    m.yearday = before[m.month - 1] + m.day + (leap && m.month > 2);
    return m;
}

static void put_padded(tbuf *b, int64_t v, int width, char pad_char, char flag)
{
    char text[32];
    if (flag == '_') pad_char = ' ';
    if (flag == '0') pad_char = '0';
    snprintf(text, sizeof text, "%" PRId64, v);
    size_t n = strlen(text);
    if (flag != '-' && (size_t)width > n) tbuf_fill(b, pad_char, (size_t)width - n);
    tbuf_text(b, text);
}

// ISO 8601: the week's number and the year that it belongs to.
static int iso_week(const moment *m, int64_t *year)
{
    int weekday = (m->weekday + 6) % 7; // Monday 0
    int week = (m->yearday - 1 - weekday + 10) / 7;
    *year = m->year;
    if (week < 1) {
        int64_t y = --*year;
        bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
        return (m->yearday - 1 + 365 + leap - weekday + 10) / 7;
    }
    bool leap = (m->year % 4 == 0 && m->year % 100 != 0) || m->year % 400 == 0;
    if (week == 53 && m->yearday - 1 - weekday + 3 >= 365 + leap) {
        ++*year;
        return 1;
    }
    return week;
}

static void put_time(tbuf *b, const moment *m, const char *format, size_t n);

static bool put_number_of(tbuf *b, const moment *m, char c, char flag)
{
    int hour12 = m->hour % 12 ? m->hour % 12 : 12;
    int64_t iso_year;
    int week = iso_week(m, &iso_year);
    switch (c) {
    case 'd': put_padded(b, m->day, 2, '0', flag); return true;
    case 'e': put_padded(b, m->day, 2, ' ', flag); return true;
    case 'H': put_padded(b, m->hour, 2, '0', flag); return true;
    case 'k': put_padded(b, m->hour, 2, ' ', flag); return true;
    case 'I': put_padded(b, hour12, 2, '0', flag); return true;
    case 'l': put_padded(b, hour12, 2, ' ', flag); return true;
    case 'j': put_padded(b, m->yearday, 3, '0', flag); return true;
    case 'm': put_padded(b, m->month, 2, '0', flag); return true;
    case 'M': put_padded(b, m->minute, 2, '0', flag); return true;
    case 'S': put_padded(b, m->second, 2, '0', flag); return true;
    case 'f': put_padded(b, m->microsecond, 6, '0', 0); return true;
    case 'y': put_padded(b, (m->year % 100 + 100) % 100, 2, '0', flag); return true;
    case 'Y': put_padded(b, m->year, 1, '0', flag); return true;
    case 'C': put_padded(b, m->year / 100, 2, '0', flag); return true;
    case 'u': put_padded(b, m->weekday ? m->weekday : 7, 1, '0', flag); return true;
    case 'w': put_padded(b, m->weekday, 1, '0', flag); return true;
    case 'U': put_padded(b, (m->yearday + 6 - m->weekday) / 7, 2, '0', flag); return true;
    case 'W': put_padded(b, (m->yearday + 6 - (m->weekday + 6) % 7) / 7, 2, '0', flag); return true;
    case 'V': put_padded(b, week, 2, '0', flag); return true;
    case 'G': put_padded(b, iso_year, 1, '0', flag); return true;
    case 'g': put_padded(b, (iso_year % 100 + 100) % 100, 2, '0', flag); return true;
    default: return false;
    }
}

static void put_name(tbuf *b, const char *name, size_t n, char flag)
{
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        if (flag == '^' || flag == '#') c = (char)toupper((unsigned char)c);
        tbuf_bytes(b, &c, 1, false);
    }
}

static bool put_name_of(tbuf *b, const moment *m, char c, char flag)
{
    static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                       "Thursday", "Friday", "Saturday"};
    static const char *const months[] = {"January",   "February", "March",    "April",
                                         "May",       "June",     "July",     "August",
                                         "September", "October",  "November", "December"};
    const char *day = days[m->weekday], *month = months[m->month - 1];
    switch (c) {
    case 'a': put_name(b, day, 3, flag); return true;
    case 'A': put_name(b, day, strlen(day), flag); return true;
    case 'b':
    case 'h': put_name(b, month, 3, flag); return true;
    case 'B': put_name(b, month, strlen(month), flag); return true;
    case 'p':
        tbuf_text(b, flag == '#' ? (m->hour < 12 ? "am" : "pm") : m->hour < 12 ? "AM" : "PM");
        return true;
    case 'P': tbuf_text(b, m->hour < 12 ? "am" : "pm"); return true;
    case 'n': tbuf_text(b, "\n"); return true;
    case 't': tbuf_text(b, "\t"); return true;
    case 'z':
    case 'Z': return true; // the clock has no zone
    case '%': tbuf_text(b, "%"); return true;
    default: return false;
    }
}

static bool put_combination(tbuf *b, const moment *m, char c)
{
    static const struct {
        char c;
        const char *format;
    } all[] = {{'c', "%a %b %e %H:%M:%S %Y"},
               {'D', "%m/%d/%y"},
               {'F', "%Y-%m-%d"},
               {'r', "%I:%M:%S %p"},
               {'R', "%H:%M"},
               {'T', "%H:%M:%S"},
               {'x', "%m/%d/%y"},
               {'X', "%H:%M:%S"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].c != c) continue;
        put_time(b, m, all[i].format, strlen(all[i].format));
        return true;
    }
    return false;
}

static void put_time(tbuf *b, const moment *m, const char *format, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t start = i;
        char flag = 0;
        if (format[i] == '%' && i + 1 < n) {
            i++;
            if (format[i] && strchr("-_0^#", format[i]) && i + 1 < n) flag = format[i++];
            char c = format[i];
            if (put_number_of(b, m, c, flag) || put_name_of(b, m, c, flag) ||
                put_combination(b, m, c))
                continue;
        }
        tbuf_bytes(b, format + start, i + 1 - start, false);
    }
}

tval tval_strftime(trt *r, tval self, const tval *a, const targs *all)
{
    (void)self;
    (void)all;
    const tstr *format = tval_want_str(r, a[0], "strftime_now");
    moment m = moment_of(r->now);
    tbuf b;
    tbuf_start(&b, r);
    trt_step(r, format->n);
    put_time(&b, &m, format->s, format->n);
    return tval_str(tbuf_take(&b));
}
