// Plans made by hand on random weights: one operation at a time on any executor, against the
// reference. Used by the op tests (support/op_tests.h).
#ifndef TEST_SUPPORT_PLAN_FIXTURE_H
#define TEST_SUPPORT_PLAN_FIXTURE_H

#include <stdbool.h>

#include "exec/exec.h"

enum { FIXTURE_MAX = 16, FIXTURE_BUFS = PLAN_KV + 2 };

typedef struct fixture {
    uint64_t seed, draws; // of its random numbers
    plan_tensor tensors[FIXTURE_MAX];
    void *data[FIXTURE_MAX]; // the tensors' bytes
    uint32_t n_tensors;
    plan_buf bufs[FIXTURE_BUFS];
    uint8_t *initial[FIXTURE_BUFS]; // what every run finds in the buffers
    plan_op ops[4];
    uint32_t n_ops;
    plan_set set; // valid after fixture_ready
    plan_step step;
} fixture;

// An executor with the fixture's weights.
typedef struct fixture_exec {
    const exec_kind *kind;
    exec_weights *weights;
    exec *exec;
} fixture_exec;

void fixture_init(fixture *f, uint64_t seed, uint32_t max_rows);
void fixture_free(fixture *f);

double fixture_draw(fixture *f);                                  // uniform in [0, 1)
uint32_t fixture_pick(fixture *f, uint32_t least, uint32_t most); // uniform, both included
float fixture_normal(fixture *f);                                 // about N(0, 1)

// Adds a tensor of random values; returns its index. Values are of about the size of 1 in every
// format. A vector's values lie around `center`.
int fixture_matrix(fixture *f, quant_type type, uint32_t rows, uint32_t cols);
plan_vector fixture_vector(fixture *f, uint32_t n, float center);
// A constant [rows][cols] of the plan: cosines and sines.
int fixture_rope_table(fixture *f, uint32_t rows, uint32_t cols);

// Adds a buffer with random content (NaN where `fill` is false, as in what is to be written).
void fixture_buf(fixture *f, int id, quant_type type, uint32_t width, uint32_t rows, bool fill);
// K and V of one layer, for n_slots sequences.
void fixture_caches(fixture *f, quant_type type, uint32_t n_slots, uint32_t n_head_kv,
                    uint32_t n_ctx, uint32_t head_dim);
plan_op *fixture_op(fixture *f, plan_op_kind kind, const char *label);
// Rows of random tokens below n_vocab, at random positions of random slots; all marked.
void fixture_rows(fixture *f, uint32_t n_rows, uint32_t n_vocab);
// Makes every key and value that no row sees NaN.
void fixture_hide_keys(fixture *f);
// To be called when everything was added.
void fixture_ready(fixture *f);

void fixture_load(fixture *f, const exec_params *params, const exec_kind *kind, fixture_exec *out);
void fixture_unload(fixture_exec *x);

// The content of all buffers, in their stored form.
typedef struct fixture_result {
    uint8_t *bufs[FIXTURE_BUFS];
} fixture_result;

// Starts from the initial content, runs all ops for the rows [first, first + n_rows) of the step,
// reads every buffer. Row r of the buffers is row first + r of the initial content. All rows of a
// part are marked; the whole step marks what it says.
void fixture_run(fixture *f, fixture_exec *x, uint32_t first, uint32_t n_rows, fixture_result *out);
void fixture_result_free(fixture_result *r);

// Fails the test unless `got` is what the ops make of the initial content: bytes that no op writes
// are untouched, what is written has a normalised squared error of at most `limit` to `expected`
// (PICK: ids and counts equal, numbers to 1e-5).
void fixture_compare(const fixture *f, const fixture_result *expected, const fixture_result *got,
                     double limit, const char *what);
// Fails unless row 0 of `one`, a run of row `row` alone, has the bits of row `row` of `all`.
void fixture_compare_row(const fixture *f, const fixture_result *all, const fixture_result *one,
                         uint32_t row, const char *what);
// Fails unless all bytes are equal.
void fixture_compare_bits(const fixture *f, const fixture_result *a, const fixture_result *b,
                          const char *what);

#endif
