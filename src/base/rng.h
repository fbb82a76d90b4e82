// Counter-based random numbers: the n-th draw of a seed is a pure function of both, so that any
// executor, thread or split gets the same ones. The mixer is SplitMix64's finalizer (Steele, Lea,
// Flood 2014).
#ifndef PUMICE_BASE_RNG_H
#define PUMICE_BASE_RNG_H

#include <stdint.h>

static inline uint64_t rng_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline uint64_t rng_u64(uint64_t seed, uint64_t n)
{
    return rng_mix(rng_mix(seed + 0x9e3779b97f4a7c15u) + (n + 1) * 0x9e3779b97f4a7c15u);
}

// Uniform in [0, 1), 53 bits.
static inline double rng_double(uint64_t seed, uint64_t n)
{
    return (double)(rng_u64(seed, n) >> 11) * 0x1p-53;
}

// About normal, mean 0 and deviation 1: the sum of twelve uniform draws, less 6.
static inline float rng_normal(uint64_t seed, uint64_t n)
{
    double sum = -6;
    for (uint64_t i = 0; i < 12; i++) sum += rng_double(seed, 12 * n + i);
    return (float)sum;
}

#endif
