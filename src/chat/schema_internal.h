// What the files of the schema compiler share: parts of a schema as parts of a grammar.
#ifndef PUMICE_CHAT_SCHEMA_INTERNAL_H
#define PUMICE_CHAT_SCHEMA_INTERNAL_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"

enum { SCHEMA_MAX_DEPTH = 128 };

typedef struct schema_writer {
    const json_t *document;
    buf *out;
    json_t *refs; // $ref -> number of its rule
    int n_rules;
    bool large;   // the document has integers as marked strings (base/large.h)
    int n_joined; // schemas that hold together, bounded because they may multiply
    pm_status status;
} schema_writer;

// The way from the root to a schema.
typedef struct schema_place {
    const struct schema_place *up;
    const char *name;
} schema_place;

// ---- schema.c ---------------------------------------------------------------------------------

// The first error stays: what is wrong at the place, and with which word.
void schema_wrong(schema_writer *w, const schema_place *at, const char *what, const char *word);
// Appends a value as a literal.
void schema_add_value(schema_writer *w, buf *out, const json_t *value);
// Expressions are made beside, rules are put out whole.
void schema_put_rule(schema_writer *w, int rule, const buf *expression);
// Makes a rule for the schema: its number.
int schema_rule(schema_writer *w, const json_t *schema, const schema_place *at, int depth);

// ---- schema_keyword.c -------------------------------------------------------------------------

typedef enum schema_kind {
    SCHEMA_UNKNOWN, // or one that says nothing about a value
    SCHEMA_OBJECT,  // these four say something about one type
    SCHEMA_ARRAY,
    SCHEMA_STRING,
    SCHEMA_NUMBER,
    SCHEMA_VALUES, // const and enum
    SCHEMA_OTHER,
    SCHEMA_REFUSED, // it may forbid a value, and is not understood
} schema_kind;

schema_kind schema_keyword(const char *key);
// Does it have a keyword that says what a value must be?
bool schema_restricts(const json_t *schema);
// Is this type among them (a name or a list of names)? An integer is a number, too.
bool schema_has_type(const json_t *types, const char *name);
// Appends how often what stands before comes; SIZE_MAX: no limit.
void schema_add_counts(buf *out, size_t least, size_t most);

// ---- schema_object.c, schema_join.c: one form of a schema as an expression --------------------

void schema_object(schema_writer *w, const json_t *schema, const schema_place *at, int depth,
                   buf *out);
void schema_reference(schema_writer *w, const json_t *schema, const schema_place *at, int depth,
                      buf *out);
// `name`: anyOf or oneOf.
void schema_any_of(schema_writer *w, const json_t *schema, const char *name, const schema_place *at,
                   int depth, buf *out);
void schema_all_of(schema_writer *w, const json_t *schema, const schema_place *at, int depth,
                   buf *out);

// ---- schema_merge.c ---------------------------------------------------------------------------

// The schema of what both accept, to be released. *conflict: a keyword that both have and that
// can't be joined, or NULL.
json_t *schema_merge(const json_t *a, const json_t *b, const char **conflict);

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

#endif
