// Tests of single operations on random shapes, formats and flags, the same for every executor:
// each case is compared with the reference's run of the same op form, looked through for bytes
// that nobody should have written, and run again with other thread counts and row by row, which
// must not change a bit where the executor says so.
#ifndef TEST_SUPPORT_OP_TESTS_H
#define TEST_SUPPORT_OP_TESTS_H

#include "exec/exec.h"

typedef struct op_target {
    const exec_kind *kind;
    const char *isa;
    const exec_gpu *gpu;
    const char *(*format_name)(quant_type type); // NULL for a format that it lacks; NULL: has all
    bool rows_may_differ; // a row's last bits may depend on how many rows run with it
    unsigned every;       // takes every n-th random case only; 0: all
    int n_thread_counts;
    int thread_counts[4];
} op_target;

void op_test_linear(const op_target *t);
void op_test_logits(const op_target *t);
void op_test_embed(const op_target *t);
void op_test_rows(const op_target *t); // NORM, QUANTIZE, ACTIVATE, ADD
void op_test_rope_kv(const op_target *t);
void op_test_attend(const op_target *t);
// Rows that see few of the keys there are: the first tiles wholly masked, all masked but one, a
// sequence of length 1; what is masked holds NaN.
void op_test_masked(const op_target *t);
void op_test_pick(const op_target *t);
// A norm inside of a product gives the bits of a norm before it.
void op_test_fused_norm(const op_target *t);
// A NaN or an infinity in a row's input is seen in its result, and in no other row's.
void op_test_nan(const op_target *t);

#endif
