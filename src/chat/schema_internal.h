// What the files of the schema compiler share: parts of a schema as parts of a grammar.
#ifndef PUMICE_CHAT_SCHEMA_INTERNAL_H
#define PUMICE_CHAT_SCHEMA_INTERNAL_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"

// ---- schema_number.c --------------------------------------------------------------------------

// Numbers of a schema, also those that jansson can't hold (base/large.h).
bool schema_is_number(const json_t *v);
// The sign of a - b, without rounding.
int schema_compare(const json_t *a, const json_t *b);

// The bounds of a number; NULL: none.
typedef struct number_range {
    const json_t *low, *high;
    bool above_low, below_high; // the bound itself is not in the range
    bool whole;
} number_range;

// Appends an expression for the numbers of the range, without exponents. False: there are none.
bool schema_numbers(const number_range *range, buf *out);

// ---- schema_pattern.c -------------------------------------------------------------------------

// Appends an expression for JSON strings (with their quotes) that a regular expression of ECMA 262
// matches; with lengths (in characters; SIZE_MAX: no limit) only where they can be had. NULL: done;
// else what is wrong with it.
const char *schema_pattern(const char *pattern, size_t least, size_t most, buf *out);
// The pattern of a format ("date-time"); NULL: none that is known.
const char *schema_format(const char *name);

// ---- schema_merge.c ---------------------------------------------------------------------------

// Does it have a keyword that says what a value must be?
bool schema_restricts(const json_t *schema);
// The schema of what both accept, to be released. *conflict: a keyword that both have and that
// can't be joined, or NULL.
json_t *schema_merge(const json_t *a, const json_t *b, const char **conflict);

#endif
