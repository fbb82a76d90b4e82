// One operation by itself, with made-up weights and inputs: what a report of a failed check
// carries, so that others can look for the fault without the model.
#ifndef PUMICE_PROOF_REPRODUCER_H
#define PUMICE_PROOF_REPRODUCER_H

#include <jansson.h>

#include "exec/exec.h"
#include "proof/check.h"

enum { REPRODUCER_TENSORS = 8, REPRODUCER_BUFS = PLAN_KV + 2, REPRODUCER_NAME = 64 };

typedef struct reproducer {
    plan_op op; // refers to the tensors below and to one layer's cache; layer 0 or PLAN_NONE
    char label[REPRODUCER_NAME];
    int layer;    // where it stood in the model's plan,
    uint32_t nth; // and which one of its kind there
    plan_tensor tensors[REPRODUCER_TENSORS];
    char names[REPRODUCER_TENSORS][REPRODUCER_NAME];
    bool is_table[REPRODUCER_TENSORS]; // a constant table of rotations
    uint32_t n_tensors;
    quant_type buf_types[PLAN_LOGITS]; // of row buffers
    uint32_t buf_widths[PLAN_LOGITS];  // 0: not in use
    uint32_t n_embd, n_vocab, n_head, n_head_kv, head_dim, n_ctx, n_batch, n_logits;
    quant_type kv_type;
    uint32_t n_rows, first; // rows of the step, position of the first
    uint64_t seed;          // of weights and inputs
} reproducer;

// What buffers outside the rows it has.
static inline bool reproducer_has_logits(const reproducer *r)
{
    return r->op.kind == PLAN_LOGITS_OP || r->op.kind == PLAN_PICK_OP;
}
static inline bool reproducer_has_cache(const reproducer *r)
{
    return r->op.kind == PLAN_ROPE_KV || r->op.kind == PLAN_ATTEND;
}

// Of op `index` of the set's plan for n_rows rows, the first of which is at position `first`.
void reproducer_of(const plan_set *set, uint32_t n_rows, uint32_t first, uint32_t index,
                   uint64_t seed, reproducer *out);

const char *reproducer_buffer_name(int buffer); // of a row buffer
// NULL when memory runs out.
json_t *reproducer_json(const reproducer *r);
// PM_ERROR_FILE: not what reproducer_json makes; the message says what is wrong. What is read holds
// every invariant that executors rely on.
pm_status reproducer_parse(const json_t *json, reproducer *out);
pm_status reproducer_valid(const reproducer *r); // the last part of reproducer_parse

typedef struct reproducer_result {
    check_op op;
    char worst_buffer[REPRODUCER_NAME];
    char description[512]; // of the device
} reproducer_result;

// Runs it on a device and on the reference. PM_OK: it ran (result->op.pass says how). `injected`:
// the device's result gets the fault that check plants.
pm_status reproducer_run(const reproducer *r, const exec_kind *kind, const exec_params *params,
                         bool injected, reproducer_result *result);

#endif
