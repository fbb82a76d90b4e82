// The CPU executor: every op against the reference, with every instruction set that this machine
// has; what it refuses.
#include "support/test.h"

#include "base/error.h"
#include "base/os.h"
#include "support/op_tests.h"
#include "support/plan_fixture.h"

// Calls `test` for plain C and what the processor has beyond.
static void for_each_isa(void (*test)(const op_target *))
{
    os_cpu_features has = os_cpu_detect();
    const char *names[] = {"plain", has.avx2 ? "avx2" : NULL, has.avx512_vnni ? "avx512" : NULL};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        op_target target = {
            .kind = &exec_cpu, .isa = names[i], .n_thread_counts = 3, .thread_counts = {2, 1, 3}};
        if (names[i]) test(&target);
    }
}

#define EACH_ISA(name)                                                                             \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        for_each_isa(op_test_##name);                                                              \
    }

EACH_ISA(linear)
EACH_ISA(logits)
EACH_ISA(embed)
EACH_ISA(rows)
EACH_ISA(rope_kv)
EACH_ISA(attend)
EACH_ISA(masked)
EACH_ISA(pick)
EACH_ISA(fused_norm)
EACH_ISA(nan)

// ---- refusals ---------------------------------------------------------------------------------

static const plan_view no_view = {PLAN_NONE, 0, 0};
static const plan_vector no_vector = {PLAN_NONE, 0};

// A product of 32 columns into 20.
static void make_product(fixture *f)
{
    fixture_init(f, 1, 4);
    plan_op *op = fixture_op(f, PLAN_LINEAR, "attn_output");
    op->u.linear = (plan_linear){.n_weights = 1,
                                 .weight = {{fixture_matrix(f, QUANT_Q8_0, 20, 32), 0, 20}},
                                 .bias = {no_vector},
                                 .x = {PLAN_X, 0, 32},
                                 .out = {{PLAN_T, 0, 20}},
                                 .residual = no_view,
                                 .norm_in = no_vector};
    fixture_buf(f, PLAN_X, QUANT_F32, 32, 4, true);
    fixture_buf(f, PLAN_T, QUANT_F32, 20, 4, false);
    fixture_rows(f, 2, 1);
    fixture_ready(f);
}

static void refuses_wrong_steps(void **state)
{
    (void)state;
    fixture f;
    make_product(&f);
    fixture_exec x;
    fixture_load(&f, &(exec_params){.n_threads = 2}, &exec_cpu, &x);
    const plan *p = &f.set.buckets[0];
    assert_ok(exec_cpu.run(x.exec, p, 0, 1, &f.step));
    plan_step step = f.step;
    step.n_rows = 5;
    assert_int_equal(exec_cpu.run(x.exec, p, 0, 1, &step), PM_ERROR_RUN);
    step = f.step;
    step.rows[1].pos = f.set.n_ctx;
    assert_int_equal(exec_cpu.run(x.exec, p, 0, 1, &step), PM_ERROR_RUN);
    step = f.step;
    step.rows[1].slot = 1;
    assert_int_equal(exec_cpu.run(x.exec, p, 0, 1, &step), PM_ERROR_RUN);
    step = f.step;
    step.logit_rows[0] = 2;
    assert_int_equal(exec_cpu.run(x.exec, p, 0, 1, &step), PM_ERROR_RUN);
    assert_int_equal(exec_cpu.run(x.exec, p, 1, 1, &f.step), PM_ERROR_RUN);
    char bytes[16];
    assert_int_equal(exec_cpu.read(x.exec, PLAN_X, f.bufs[PLAN_X].bytes - 15, bytes, 16),
                     PM_ERROR_RUN);
    assert_int_equal(exec_cpu.write(x.exec, PLAN_XQ, 0, bytes, 1), PM_ERROR_RUN);
    fixture_unload(&x);
    fixture_free(&f);
}

static pm_status failing_read(void *arg, uint32_t tensor, uint64_t offset, void *dst, uint64_t n)
{
    (void)arg, (void)tensor;
    memset(dst, 0, n);
    if (offset < 100000) return PM_OK;
    return error_set(PM_ERROR_FILE, "the file ended at byte %d", (int)offset);
}

static void load_fails(const plan_tensor *t, const char *isa, pm_status status, const char *message)
{
    exec_params params = {.n_threads = 3, .isa = isa};
    exec_source source = {.read = failing_read};
    bool wanted = true;
    exec_weights *w = (exec_weights *)&params; // to be cleared
    assert_int_equal(exec_cpu.load(&params, t, 1, &wanted, &source, &w), status);
    assert_null(w);
    assert_non_null(strstr(error_message(), message));
}

// What goes wrong on a thread of the team arrives here.
static void refuses_to_load(void **state)
{
    (void)state;
    plan_tensor t = {.name = "output.weight", .type = QUANT_Q8_0, .rows = 10000, .cols = 64};
    t.row_bytes = 68;
    load_fails(&t, NULL, PM_ERROR_FILE, "the file ended at byte");
    load_fails(&t, "sse9", PM_ERROR_USAGE, "no such instruction set");
    t.type = (quant_type)99;
    load_fails(&t, NULL, PM_ERROR_FILE, "output.weight");
    t.type = QUANT_Q8_0;
    t.row_bytes = 64;
    load_fails(&t, NULL, PM_ERROR_FILE, "10000 rows of 64 values");
}

// 8-bit rows have another form inside: what goes in comes out, also in parts.
static void keeps_q8_rows(void **state)
{
    (void)state;
    fixture f;
    make_product(&f);
    fixture_buf(&f, PLAN_XQ, QUANT_Q8_0, 96, 4, true);
    fixture_exec x;
    fixture_load(&f, &(exec_params){.n_threads = 1}, &exec_cpu, &x);
    uint8_t out[4 * 102], *in = f.initial[PLAN_XQ];
    assert_ok(exec_cpu.write(x.exec, PLAN_XQ, 0, in, 5));
    assert_ok(exec_cpu.write(x.exec, PLAN_XQ, 5, in + 5, 200));
    assert_ok(exec_cpu.write(x.exec, PLAN_XQ, 205, in + 205, sizeof out - 205));
    assert_ok(exec_cpu.read(x.exec, PLAN_XQ, 0, out, sizeof out));
    assert_memory_equal(in, out, sizeof out);
    memset(out, 0, sizeof out);
    assert_ok(exec_cpu.read(x.exec, PLAN_XQ, 101, out, 105));
    assert_memory_equal(in + 101, out, 105);
    fixture_unload(&x);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),         cmocka_unit_test(test_logits),
        cmocka_unit_test(test_embed),          cmocka_unit_test(test_rows),
        cmocka_unit_test(test_rope_kv),        cmocka_unit_test(test_attend),
        cmocka_unit_test(test_masked),         cmocka_unit_test(test_pick),
        cmocka_unit_test(test_fused_norm),     cmocka_unit_test(test_nan),
        cmocka_unit_test(refuses_wrong_steps), cmocka_unit_test(refuses_to_load),
        cmocka_unit_test(keeps_q8_rows),
    };
    return cmocka_run_group_tests_name("exec/cpu", tests, NULL, NULL);
}
