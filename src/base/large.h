// Integers beyond 64 bits in JSON text, for a parser that refuses them (jansson does): each becomes
// a string, its digits behind a mark that no text has.
#ifndef PUMICE_BASE_LARGE_H
#define PUMICE_BASE_LARGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

// Begins with U+10FFFF, which is no character.
#define LARGE_MARK "\xF4\x8F\xBF\xBFinteger:"

// Adds the text to `out` with its large integers as marked strings. False: it has none, or the mark
// itself (then the text is as it was, and a parser refuses what is too large for it).
bool large_hide(const char *json, size_t n, buf *out);
// The reverse, of compact or any other JSON text whose strings hold UTF-8 unescaped.
void large_show(const char *json, size_t n, buf *out);

// Adds the text to `out` with its large integers as real numbers, which are near them.
void large_round(const char *json, size_t n, buf *out);

#endif
