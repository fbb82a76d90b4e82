// Between the files of exec/reference only.
#ifndef PUMICE_EXEC_REFERENCE_H
#define PUMICE_EXEC_REFERENCE_H

#include "exec/exec.h"

struct exec_weights {
    const plan_tensor *tensors; // a copy
    uint32_t n_tensors;
    const void **data; // [n_tensors] as the file has it; NULL: not wanted
    void **owned;      // [n_tensors] what of it is our own copy
    float **vectors;   // [n_tensors] vectors as f32
    uint64_t bytes;
};

struct exec {
    exec_weights *weights;
    const plan_set *set;
    void **bufs;           // [n_bufs]; NULL: not in this state
    float *x, *y;          // scratch: [n_batch][widest row], y twice that
    float *w;              // scratch: one row
    double *scores, *acc;  // scratch: [n_ctx], [head_dim]
    const plan_step *step; // of the run in progress
};

// Runs one op. The definition of what every executor computes.
void reference_run_op(exec *e, const plan_op *op);

#endif
