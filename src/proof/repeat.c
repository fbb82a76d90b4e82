#include "proof/repeat.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

static uint64_t hash_row(uint64_t hash, const float *row, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &row[i], sizeof bits);
        hash = rng_mix(hash ^ bits);
    }
    return hash;
}

// hashes: [n_ids], of the logits of each position together with those before it.
static pm_status run_once(session *s, const int32_t *ids, uint32_t n_ids, uint64_t *hashes)
{
    uint32_t prompt = n_ids - n_ids / 4, n_vocab = session_plan(s)->n_vocab;
    uint64_t hash = 0;
    session_rewind(s, 0);
    for (uint32_t at = 0; at < n_ids;) {
        uint32_t n = at == 0 ? prompt : 1;
        pm_status status = session_eval(s, ids + at, n, true);
        if (status != PM_OK) return status;
        for (uint32_t i = 0; i < n; i++)
            hashes[at + i] = hash = hash_row(hash, session_logits(s, i), n_vocab);
        at += n;
    }
    return PM_OK;
}

pm_status repeat_run(const weights *w, const plan_options *how, const int32_t *ids, uint32_t n_ids,
                     uint32_t runs, repeat_result *out)
{
    *out = (repeat_result){.runs = runs};
    session *s = NULL;
    uint64_t *first = calloc(n_ids, sizeof *first), *other = calloc(n_ids, sizeof *other);
    pm_status status = first && other ? PM_OK : error_memory("hashes", n_ids * sizeof *first);
    if (status == PM_OK) status = session_open(w, how, &s);
    for (uint32_t r = 0; r < runs && status == PM_OK; r++) {
        status = run_once(s, ids, n_ids, r ? other : first);
        uint32_t pos = 0;
        while (r && pos < n_ids && first[pos] == other[pos]) pos++;
        if (status != PM_OK || r == 0 || pos == n_ids) continue;
        if (out->n_different++ == 0) {
            out->first_run = r;
            out->first_pos = pos;
        }
    }
    if (status == PM_OK) out->hash = first[n_ids - 1];
    session_close(s);
    free(first);
    free(other);
    return status;
}
