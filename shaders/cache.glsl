// Rows of the KV cache in its three types. A row is head_dim values: words of f32, of two halves,
// or a q8 row.
#ifndef PUMICE_CACHE_GLSL
#define PUMICE_CACHE_GLSL

#include "q8.glsl"

const uint CACHE_F32 = 0u, CACHE_F16 = 1u, CACHE_Q8 = 2u;

uint cache_row_words(uint type, uint n)
{
    return type == CACHE_F32 ? n : type == CACHE_F16 ? n / 2u : q8_row_words(n);
}

#endif
