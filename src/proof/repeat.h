// Does a device give the same bits every time? What differs between equal runs is most often a
// race.
#ifndef PUMICE_PROOF_REPEAT_H
#define PUMICE_PROOF_REPEAT_H

#include "engine/session.h"

typedef struct repeat_result {
    uint32_t runs, n_different; // runs whose logits are not those of the first one
    uint64_t hash;              // of all logits of the first run
    uint32_t first_run;         // the first that differs; 0: none
    uint32_t first_pos;         // ... and the first position where it does
} repeat_result;

// Evaluates the ids `runs` times from an empty cache, three quarters of them as a prompt, then one
// by one, and compares the logits of all positions bit by bit.
pm_status repeat_run(const weights *w, const plan_options *how, const int32_t *ids, uint32_t n_ids,
                     uint32_t runs, repeat_result *out);

#endif
