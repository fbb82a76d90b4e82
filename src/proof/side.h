// One side of a check: the states of a model's weights for one plan, addressed op by op.
#ifndef PUMICE_PROOF_SIDE_H
#define PUMICE_PROOF_SIDE_H

#include "engine/weights.h"
#include "plan/build.h"

typedef struct side {
    const weights *w;
    plan_set *set;
    exec *states[WEIGHTS_MAX_PARTS];
} side;

pm_status side_open(side *s, const weights *w, const plan_options *options);
void side_close(side *s); // accepts a zeroed one
// The part that runs an op: by its layer; before the layers the first, behind them the last.
uint32_t side_part(const side *s, const plan_op *op);

pm_status side_run(side *s, uint32_t part, const plan *p, uint32_t first, uint32_t count,
                   const plan_step *step);
// Runs ops [first, end) on the parts that own them, handing the residual stream over.
pm_status side_run_range(side *s, const plan *p, uint32_t first, uint32_t end,
                         const plan_step *step);
// Values of a buffer's row from `col` on as f32, decoded or encoded where it is not f32.
pm_status side_read(side *s, uint32_t part, int buffer, uint64_t row, uint32_t col, uint32_t n,
                    float *values);
// Rows [row, row + rows) of n values each from `col` on, in one transfer; values: [rows][n].
pm_status side_read_rows(side *s, uint32_t part, int buffer, uint64_t row, uint64_t rows,
                         uint32_t col, uint32_t n, float *values);
pm_status side_write(side *s, uint32_t part, int buffer, uint64_t row, uint32_t col, uint32_t n,
                     const float *values);
// Raw rows [row, row + rows) from one side to the other; both plans have the same buffers.
pm_status side_copy_rows(side *from, uint32_t from_part, side *to, uint32_t to_part, int buffer,
                         uint64_t row, uint64_t rows);

#endif
