// Every golden model on any executor, within the limits of the data's README. The files are found
// by listing the folder, so a new one is tested as soon as it lies there.
#ifndef TEST_SUPPORT_GOLDEN_H
#define TEST_SUPPORT_GOLDEN_H

#include "support/runner.h"

// A way to run that has limits of its own.
typedef struct golden_mode {
    const char *name;
    const exec_kind *kind;
    const char *isa;     // of the cpu executor; NULL: the best
    const exec_gpu *gpu; // of the vulkan executor
    plan_act act;
    quant_type kv_type;
    uint32_t n_batch;
    bool no_fuse;
    double limit; // of a logit's difference; 0: the one of the file's precision (an executor's
                  // defaults)
    bool hidden;  // hidden states too
} golden_mode;

// Runs every golden file in each mode; fails the running test where one is out of its limits.
void golden_run(const golden_mode *modes, size_t n);
// Only files whose name begins with one of the words ("llama,qwen2"); NULL: all.
void golden_only(const char *words);

// One row's result must not depend on what it is computed with: the same bits for many batch sizes
// and thread counts.
void golden_batches(const exec_kind *kind, const exec_gpu *gpu);

#endif
