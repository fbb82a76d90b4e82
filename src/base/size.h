// Checked arithmetic: sizes, counts and offsets that come from a file or a user are multiplied and
// added through these only. Each returns false on overflow and leaves *out alone.
#ifndef PUMICE_BASE_SIZE_H
#define PUMICE_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

_Static_assert(sizeof(size_t) >= 8, "files have 64-bit sizes, and memory holds what they say");

static inline bool size_add(uint64_t a, uint64_t b, uint64_t *out)
{
    if (a > UINT64_MAX - b) return false;
    *out = a + b;
    return true;
}

static inline bool size_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    if (b != 0 && a > UINT64_MAX / b) return false;
    *out = a * b;
    return true;
}

// Rounds up to a multiple of `align`, which is not zero.
static inline bool size_align(uint64_t a, uint64_t align, uint64_t *out)
{
    uint64_t over = a % align;
    return size_add(a, over ? align - over : 0, out);
}

// Is [offset, offset + n) inside [0, total)? Never computes a sum.
static inline bool size_in_range(uint64_t offset, uint64_t n, uint64_t total)
{
    return offset <= total && n <= total - offset;
}

#endif
