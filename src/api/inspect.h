// Inside src/api: what the parts of inspection share.
#ifndef PUMICE_API_INSPECT_H
#define PUMICE_API_INSPECT_H

#include "api/handles.h"

// The document, unless a member was missing: then NULL, and the rest is released.
static inline json_t *json_complete(json_t *o, bool good)
{
    if (good) return o;
    json_decref(o);
    return NULL;
}

// Appends; false when memory ran out (value NULL too). Takes the reference.
static inline bool json_add(json_t *array, json_t *value)
{
    return json_array_append_new(array, value) == 0;
}

json_t *inspect_floats(const float *values, size_t n);
// "id" and "text" of a token.
bool inspect_put_token(json_t *o, const model *m, int32_t id);
// [{id, text}].
json_t *inspect_tokens(const model *m, const int32_t *ids, size_t n);
// Decodes rows of a matrix: [n][cols].
pm_status inspect_rows(const model *m, plan_weight w, const int32_t *rows, size_t n, float *out);

#endif
