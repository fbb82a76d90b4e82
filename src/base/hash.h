// Hashes for tables and for data that may be damaged, not for data that somebody forges.
#ifndef PUMICE_BASE_HASH_H
#define PUMICE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/rng.h"

// Of bytes that are there at once; h: a start, or the hash of what comes before.
static inline uint64_t hash_bytes(uint64_t h, const void *data, size_t n)
{
    const unsigned char *bytes = (const unsigned char *)data;
    uint64_t word;
    h ^= n;
    for (; n >= sizeof word; n -= sizeof word, bytes += sizeof word) {
        memcpy(&word, bytes, sizeof word);
        h = rng_mix(h ^ word);
    }
    word = 0;
    if (n) memcpy(&word, bytes, n);
    return rng_mix(h ^ word);
}

// Of bytes that come in pieces, however they are cut: four lanes of multiply and rotate, fast
// enough to check hundreds of megabytes while they are read.
typedef struct hash64 {
    uint64_t lanes[4];
    uint64_t n; // bytes so far
    unsigned char rest[32];
} hash64;

static inline void hash64_start(hash64 *h)
{
    *h = (hash64){.lanes = {1, 2, 3, 4}};
}

static inline void hash64_block(hash64 *h, const unsigned char *bytes)
{
    for (int i = 0; i < 4; i++) {
        uint64_t word;
        memcpy(&word, bytes + 8 * i, sizeof word);
        uint64_t x = (h->lanes[i] ^ word) * 0x9e3779b97f4a7c15u;
        h->lanes[i] = (x << 29 | x >> 35) * 0xbf58476d1ce4e5b9u;
    }
}

static inline void hash64_add(hash64 *h, const void *data, size_t n)
{
    const unsigned char *bytes = (const unsigned char *)data;
    size_t held = h->n % 32;
    h->n += n;
    if (held) {
        size_t some = n < 32 - held ? n : 32 - held;
        memcpy(h->rest + held, bytes, some);
        if (held + some < 32) return;
        hash64_block(h, h->rest);
        bytes += some;
        n -= some;
    }
    for (; n >= 32; bytes += 32, n -= 32) hash64_block(h, bytes);
    if (n) memcpy(h->rest, bytes, n);
}

static inline uint64_t hash64_end(const hash64 *h)
{
    hash64 last = *h;
    size_t held = last.n % 32;
    memset(last.rest + held, 0, 32 - held);
    hash64_block(&last, last.rest);
    uint64_t out = last.n;
    for (int i = 0; i < 4; i++) out = rng_mix(out ^ last.lanes[i]);
    return out;
}

#endif
