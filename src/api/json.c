#include "api/handles.h"

#include <string.h>

#include "engine/stream.h"

json_t *json_finite(double x)
{
    json_t *number = json_real(x); // NULL for what is not finite
    return number ? number : json_null();
}

json_t *json_text(const char *bytes, size_t n)
{
    buf valid = {0};
    stream_append_valid(&valid, bytes, n);
    json_t *text = valid.failed ? NULL : json_stringn_nocheck(n ? valid.data : "", valid.len);
    buf_free(&valid);
    return text;
}

json_t *json_word(const char *text)
{
    return text ? json_text(text, strlen(text)) : json_null();
}

json_t *json_size(uint64_t n)
{
    return n <= INT64_MAX ? json_integer((json_int_t)n) : json_real((double)n);
}

bool json_put(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new_nocheck(object, key, value) == 0;
}

pm_status json_take(json_t *document, char **text)
{
    char *dumped = document ? json_dumps(document, JSON_ENCODE_ANY | JSON_INDENT(1)) : NULL;
    json_decref(document);
    if (!dumped) return error_memory("a JSON document", 0);
    *text = dumped;
    return PM_OK;
}
