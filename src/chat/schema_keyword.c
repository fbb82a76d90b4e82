// The keywords of JSON schemas.
#include <stdint.h>
#include <string.h>

#include "chat/schema_internal.h"

schema_kind schema_keyword(const char *key)
{
    static const struct {
        schema_kind kind;
        const char *names[20];
    } list[] = {
        {SCHEMA_OBJECT, {"properties", "additionalProperties", "required"}},
        {SCHEMA_ARRAY, {"items", "prefixItems", "minItems", "maxItems"}},
        {SCHEMA_STRING, {"minLength", "maxLength", "pattern"}},
        {SCHEMA_NUMBER, {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}},
        {SCHEMA_VALUES, {"const", "enum"}},
        {SCHEMA_OTHER, {"type", "format", "$ref", "anyOf", "oneOf", "allOf", "uniqueItems"}},
        {SCHEMA_REFUSED,
         {"not",
          "if",
          "then",
          "else",
          "patternProperties",
          "propertyNames",
          "dependentRequired",
          "dependencies",
          "dependentSchemas",
          "contains",
          "minContains",
          "maxContains",
          "multipleOf",
          "minProperties",
          "maxProperties",
          "$dynamicRef",
          "$recursiveRef",
          "additionalItems",
          "unevaluatedItems",
          "unevaluatedProperties"}},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        for (size_t k = 0; k < 20 && list[i].names[k]; k++)
            if (!strcmp(list[i].names[k], key)) return list[i].kind;
    return SCHEMA_UNKNOWN;
}

bool schema_restricts(const json_t *schema)
{
    const char *key;
    json_t *unused;
    json_object_foreach((json_t *)(uintptr_t)schema, key, unused)
    {
        if (schema_keyword(key) != SCHEMA_UNKNOWN) return true;
    }
    return false;
}

bool schema_has_type(const json_t *types, const char *name)
{
    bool list = json_is_array(types), whole = !strcmp(name, "integer");
    for (size_t i = 0; i < (list ? json_array_size(types) : 1); i++) {
        const char *one = json_string_value(list ? json_array_get(types, i) : types);
        if (one && (!strcmp(one, name) || (whole && !strcmp(one, "number")))) return true;
    }
    return false;
}

void schema_add_counts(buf *out, size_t least, size_t most)
{
    if (least == 1 && most == 1) return;
    if (most == SIZE_MAX)
        buf_printf(out, "{%zu,}", least);
    else
        buf_printf(out, "{%zu,%zu}", least, most);
}
