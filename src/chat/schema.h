// JSON schemas as grammars: every text of the grammar is JSON that the schema accepts.
//
// Understood: type (one or several), enum, const, anyOf, oneOf (as anyOf), allOf, $ref inside the
// document, properties (in their order), required, additionalProperties, items, prefixItems,
// minItems, maxItems, minLength, maxLength, pattern, common formats, minimum, maximum and their
// exclusive forms; true. What stands beside $ref, anyOf, oneOf and allOf is joined with them. Other
// keywords that restrict a value are refused by name; what only describes it is passed over.
// Properties beyond those that are listed are written only where additionalProperties says so
// itself. Numbers have at most 16 digits before and after the point; those of a range are inside it
// also when they are read as doubles; a bound that is no integer is what it is as a double.
#ifndef PUMICE_CHAT_SCHEMA_H
#define PUMICE_CHAT_SCHEMA_H

#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

// Appends the grammar (text/grammar.h) of the schema, whose JSON text it takes. PM_ERROR_USAGE: the
// message has the place in the schema and what is wrong there.
pm_status schema_grammar(const char *text, size_t n, buf *out);

#endif
