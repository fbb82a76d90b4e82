// Runs token ids through a golden model on any executor: what the golden tests share.
#ifndef TEST_SUPPORT_RUNNER_H
#define TEST_SUPPORT_RUNNER_H

#include <stdbool.h>

#include "exec/exec.h"
#include "model/model.h"
#include "plan/build.h"

typedef struct runner {
    model *model;
    plan_set *set;
    const exec_kind *kind;
    exec_weights *weights;
    exec *exec;
    uint32_t n_past;
} runner;

// Opens the model with an executor of kind; fails the running test when that can't be done.
void runner_open(runner *r, const char *path, const exec_kind *kind, const exec_params *params,
                 const plan_options *options);
// The same; a status where the executor fails. What was opened is released with runner_close.
pm_status runner_try(runner *r, const char *path, const exec_kind *kind, const exec_params *params,
                     const plan_options *options);
void runner_close(runner *r);
void runner_reset(runner *r); // position 0 again
// Appends n ids in chunks of at most n_batch. logits: [n][n_vocab] or NULL. hidden: [n_layer +
// 1][n_embd] of the last id, or NULL.
void runner_eval(runner *r, const int32_t *ids, uint32_t n, float *logits, float *hidden);

#endif
