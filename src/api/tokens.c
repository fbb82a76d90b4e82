// Text to ids and back; templates.
#include <string.h>

#include "api/handles.h"
#include "base/os.h"
#include "chat/template.h"

static pm_status need_vocab(const pm_model *pm)
{
    if (pm->m->vocab) return PM_OK;
    return error_set(PM_ERROR_FILE, "%s: has no vocabulary", gguf_path(pm->m->file));
}

static pm_status encode(const text_vocab *v, const char *text, size_t n_text, int flags,
                        text_ids *ids)
{
    const text_specials *s = text_special_ids(v);
    bool ends = (flags & PM_TOKENS_BOS) != 0;
    pm_status status = PM_OK;
    if (ends && s->add_bos && s->bos != TEXT_NO_TOKEN) status = text_ids_add(ids, s->bos);
    if (status == PM_OK) {
        status = text_encode(v, text, n_text, (flags & PM_TOKENS_SPECIAL) != 0, ids);
    }
    if (status == PM_OK && ends && s->add_eos && s->eos != TEXT_NO_TOKEN) {
        status = text_ids_add(ids, s->eos);
    }
    return status;
}

pm_status pm_tokenize(const pm_model *pm, const char *text, size_t n_text, int flags, int32_t *ids,
                      size_t cap, size_t *n)
{
    pm_status status = need_vocab(pm);
    if (status != PM_OK) return status;
    text_ids all = {0};
    status = encode(pm->m->vocab, text, n_text, flags, &all);
    if (status == PM_OK) {
        size_t copied = all.n < cap ? all.n : cap;
        if (copied) memcpy(ids, all.ids, copied * sizeof *ids);
        *n = all.n;
    }
    text_ids_free(&all);
    return status;
}

const char *pm_token_piece(const pm_model *pm, int32_t id, int special, size_t *n)
{
    const text_vocab *v = pm->m->vocab;
    if (!v || id < 0 || id >= text_n_vocab(v)) return NULL;
    gguf_string piece = text_piece(v, id, special != 0);
    *n = piece.len;
    return piece.data ? piece.data : "";
}

pm_status pm_detokenize(const pm_model *pm, const int32_t *ids, size_t n, int special, char **text,
                        size_t *n_text)
{
    pm_status status = need_vocab(pm);
    if (status != PM_OK) return status;
    const text_vocab *v = pm->m->vocab;
    buf out = {0};
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= text_n_vocab(v)) {
            buf_free(&out);
            return error_set(PM_ERROR_USAGE, "no token %d (0 to %d)", ids[i], text_n_vocab(v) - 1);
        }
        gguf_string piece = text_piece(v, ids[i], special != 0);
        buf_add(&out, piece.data, piece.len);
    }
    if (text_has_space_prefix(v) && out.len > 0 && out.data[0] == ' ') {
        memmove(out.data, out.data + 1, out.len);
        out.len--;
    }
    return buf_take(&out, text, n_text);
}

int pm_token_is_end(const pm_model *pm, int32_t id)
{
    return pm->m->vocab && text_is_end(pm->m->vocab, id);
}

int32_t pm_token_bos(const pm_model *pm)
{
    return pm->m->vocab ? text_special_ids(pm->m->vocab)->bos : TEXT_NO_TOKEN;
}

// ---- templates --------------------------------------------------------------------------------

pm_status pm_template_render(const char *source, size_t n_source, const char *vars, double now,
                             char **text, size_t *n_text)
{
    json_error_t where;
    json_t *values = json_loads(vars, JSON_ALLOW_NUL, &where);
    if (!json_is_object(values)) {
        json_decref(values);
        return error_set(PM_ERROR_USAGE, "the variables are no JSON object: line %d: %s",
                         values ? 1 : where.line, values ? "another kind of value" : where.text);
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
