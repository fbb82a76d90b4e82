// Chat templates by themselves, and the clock that they see.
#include <string.h>

#include "api/handles.h"
#include "base/os.h"
#include "chat/template.h"

pm_status pm_template_render(const char *source, size_t n_source, const char *vars, double now,
                             char **text, size_t *n_text)
{
    json_t *values = NULL;
    if (tmpl_load_json(vars, strlen(vars), &values) != PM_OK)
        return error_in(PM_ERROR_USAGE, "the variables are no JSON object");
    if (!json_is_object(values)) {
        json_decref(values);
        return error_set(PM_ERROR_USAGE, "the variables are no JSON object: another kind of value");
    }
    tmpl *parsed = NULL;
    tmpl_output out = {0};
    pm_status status = tmpl_parse(source, n_source, &parsed);
    if (status == PM_OK) {
        double clock = now < 0 ? os_local_seconds() : now;
        status = tmpl_render(parsed, values, clock, NULL, NULL, &out);
    }
    if (status == PM_OK) {
        *text = out.text;
        if (n_text) *n_text = out.n;
        out.text = NULL;
        tmpl_output_free(&out);
    }
    tmpl_free(parsed);
    json_decref(values);
    return status;
}

// Days from 1970-01-01 to a date of the Gregorian calendar: years begin in March, so that the leap
// day comes last; 400 years have 146097 days.
static int64_t days_of(int64_t year, int month, int day)
{
    int64_t y = month > 2 ? year : year - 1;
    int64_t era = y / 400, of_era = y % 400; // year >= 0
    int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719468;
}

static bool digits(const char *text, int n, int lowest, int highest, int *out)
{
    *out = 0;
    for (int i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        *out = *out * 10 + (text[i] - '0');
    }
    return *out >= lowest && *out <= highest;
}

pm_status pm_parse_time(const char *text, double *now)
{
    static const char form[] = "2025-07-08T09:05:03";
    int year, month, day, hour, minute, second;
    bool good = strlen(text) == sizeof form - 1 && digits(text, 4, 1, 9999, &year) &&
                text[4] == '-' && digits(text + 5, 2, 1, 12, &month) && text[7] == '-' &&
                digits(text + 8, 2, 1, 31, &day) && (text[10] == 'T' || text[10] == ' ') &&
                digits(text + 11, 2, 0, 23, &hour) && text[13] == ':' &&
                digits(text + 14, 2, 0, 59, &minute) && text[16] == ':' &&
                digits(text + 17, 2, 0, 59, &second);
    if (good) { // a day that the month has
        int64_t next = month == 12 ? days_of(year + 1, 1, 1) : days_of(year, month + 1, 1);
        good = days_of(year, month, day) < next;
    }
    if (!good) {
        return error_set(PM_ERROR_USAGE, "'%.64s' is no time (the form is %s)", text, form);
    }
    *now = (double)(days_of(year, month, day) * 86400 + hour * 3600 + minute * 60 + second);
    return PM_OK;
}
