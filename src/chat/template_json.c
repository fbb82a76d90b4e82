// JSON with integers of any size: jansson reads the large ones as marked strings (base/large.h),
// and then each such string gets a first byte, 0xFF, that no decoded JSON string can have (see
// tval_from_json).
#include <string.h>

#include "base/buf.h"
#include "base/large.h"
#include "chat/template.h"

static json_t *unmark(json_t *v);

static void unmark_children(json_t *v)
{
    if (json_is_array(v)) {
        for (size_t i = 0; i < json_array_size(v); i++) {
            json_t *fresh = unmark(json_array_get(v, i));
            if (fresh) json_array_set_new(v, i, fresh);
        }
    } else if (json_is_object(v)) {
        for (void *i = json_object_iter(v); i; i = json_object_iter_next(v, i)) {
            json_t *fresh = unmark(json_object_iter_value(i));
            if (fresh) json_object_iter_set_new(v, i, fresh);
        }
    }
}

// The value that replaces a marked string; NULL for all others, whose children are done.
static json_t *unmark(json_t *v)
{
    if (!json_is_string(v)) {
        unmark_children(v);
        return NULL;
    }
    const char *s = json_string_value(v);
    if (strncmp(s, LARGE_MARK, strlen(LARGE_MARK)) != 0) return NULL;
    buf b = {0};
    buf_char(&b, '\xFF');
    buf_str(&b, s + strlen(LARGE_MARK));
    json_t *fresh = b.failed ? NULL : json_stringn_nocheck(b.data, b.len);
    buf_free(&b);
    return fresh;
}

pm_status tmpl_load_json(const char *text, size_t n, json_t **out)
{
    json_error_t error;
    buf marked = {0};
    pm_status status = PM_OK;
    bool any = large_hide(text, n, &marked);
    if (marked.failed) {
        status = error_memory("JSON", n);
        goto end;
    }
    json_t *v = json_loadb(marked.data ? marked.data : "", marked.len,
                           JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (!v) {
        status = error_set(PM_ERROR_FILE, "JSON line %d column %d: %s", error.line, error.column,
                           error.text);
        goto end;
    }
    json_t *fresh = any ? unmark(v) : NULL;
    if (fresh) {
        json_decref(v);
        v = fresh;
    }
    *out = v;
end:
    buf_free(&marked);
    return status;
}

json_t *tmpl_load_rounded(const char *s, size_t n)
{
    buf rounded = {0};
    large_round(s, n, &rounded);
    json_t *value = rounded.failed ? NULL
                                   : json_loadb(rounded.data ? rounded.data : "", rounded.len,
                                                JSON_DECODE_ANY, NULL);
    buf_free(&rounded);
    return value;
}
