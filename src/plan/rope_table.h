// Cosines and sines of every position, computed once in double precision: no executor and no shader
// evaluates a trigonometric function.
#ifndef PUMICE_PLAN_ROPE_TABLE_H
#define PUMICE_PLAN_ROPE_TABLE_H

#include "model/model.h"

// values: [n_ctx][n_rot], at [pos][2i] the cosine and [pos][2i + 1] the sine of pair i's angle at
// that position, both times the model's attention factor; released with free. `local`: the table of
// windowed layers with a base of their own, without scaling (Gemma 3).
pm_status plan_rope_table(const model *m, uint32_t n_ctx, bool local, float **values);

#endif
