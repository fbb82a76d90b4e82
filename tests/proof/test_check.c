// The check itself, on the reference against the reference: it passes, and it names every planted
// fault.
#include "support/test.h"

#include <math.h>
#include <stdbool.h>

#include "proof/check.h"

typedef struct fixture {
    model *model;
    weights *weights;
} fixture;

static void open_model(fixture *f, const char *file)
{
    model_options options = {0};
    assert_ok(model_open(test_data(file), &options, &f->model));
    weights_part part = {.kind = &exec_reference, .end_layer = f->model->n_layer};
    assert_ok(weights_load(f->model, &part, 1, &f->weights));
}

static void close_model(fixture *f)
{
    weights_unload(f->weights);
    model_close(f->model);
}

static void run(const fixture *f, plan_act act, quant_type kv_type, const char *inject,
                check_result *result)
{
    int32_t ids[24];
    for (int i = 0; i < 24; i++) ids[i] = (i * 31 + 7) % (int)f->model->n_vocab;
    check_options options = {
        .plan = {.n_ctx = 64, .n_slots = 1, .n_batch = 32, .kv_type = kv_type, .act = act},
        .ids = ids,
        .n_ids = 24,
        .isolated = true,
        .lockstep = true,
        .inject = {.kind = PLAN_N_OP_KINDS}};
    if (inject) assert_ok(check_parse_inject(inject, &options.inject));
    assert_ok(check_run(f->weights, f->weights, &options, result));
}

static void the_same_executor_passes(void **state)
{
    (void)state;
    fixture f;
    open_model(&f, "golden/gemma3.q8_0.gguf");
    for (int form = 0; form < 4; form++) {
        check_result result;
        run(&f, form & 1 ? PLAN_ACT_Q8 : PLAN_ACT_F32, form & 2 ? QUANT_F16 : QUANT_F32, NULL,
            &result);
        const divergence_summary *l = &result.logits;
        if (!result.pass)
            fail_msg("form %d: first bad %d, kl %g of %g, top-1 %g", form, result.first_bad,
                     l->kl_mean, result.kl_bound, l->top1_judged);
        assert_true(result.compared > 0 && result.n_ops > 0 && result.n_logits == 24);
        if (form == 0) assert_true(l->kl_max == 0 && l->max_abs == 0 && l->top1 == 1);
        check_result_free(&result);
    }
    close_model(&f);
}

static void every_planted_fault_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *inject;
        plan_op_kind kind;
        int layer;
        plan_act act;
    } cases[] = {
        {"EMBED:-1", PLAN_EMBED, -1, PLAN_ACT_F32},
        {"NORM:2", PLAN_NORM, 2, PLAN_ACT_F32},
        {"NORM:2:1", PLAN_NORM, 2, PLAN_ACT_Q8},
        {"linear:0", PLAN_LINEAR, 0, PLAN_ACT_F32},
        {"LINEAR:6:3", PLAN_LINEAR, 6, PLAN_ACT_Q8},
        {"ROPE_KV:5", PLAN_ROPE_KV, 5, PLAN_ACT_F32},
        {"ATTEND:3", PLAN_ATTEND, 3, PLAN_ACT_Q8},
        {"LOGITS:-1", PLAN_LOGITS_OP, -1, PLAN_ACT_F32},
        {"PICK:-1", PLAN_PICK_OP, -1, PLAN_ACT_F32},
    };
    fixture f;
    open_model(&f, "golden/gemma3.q8_0.gguf");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_result result;
        run(&f, cases[i].act, QUANT_F16, cases[i].inject, &result);
        assert_false(result.pass);
        if (result.first_bad < 0) fail_msg("%s was not seen", cases[i].inject);
        const check_op *bad = &result.ops[result.first_bad];
        if (bad->kind != cases[i].kind || bad->layer != cases[i].layer)
            fail_msg("%s was seen as %s:%d", cases[i].inject, plan_op_name(bad->kind), bad->layer);
        // inputs are the reference's: nothing after the fault is blamed in its phase
        for (uint32_t j = 0; j < result.n_ops; j++)
            if (!result.ops[j].pass &&
                (result.ops[j].kind != bad->kind || result.ops[j].layer != bad->layer))
                fail_msg("%s: %s:%d is blamed too", cases[i].inject,
                         plan_op_name(result.ops[j].kind), result.ops[j].layer);
        check_result_free(&result);
    }
    close_model(&f);
}

// An executor that computes as the reference does, but leaves one value that is not finite behind.
static exec_kind spoiling;
static plan_op_kind spoiled_kind;
static float spoiled_with;
static uint32_t spoiled_vocab;

static pm_status run_and_spoil(exec *e, const plan *p, uint32_t first, uint32_t count,
                               const plan_step *step)
{
    for (uint32_t i = first; i < first + count; i++) {
        pm_status status = exec_reference.run(e, p, i, 1, step);
        if (status != PM_OK) return status;
        const plan_op *op = &p->ops[i];
        if (op->kind != spoiled_kind || op->layer > 0) continue;
        int buffer = PLAN_LOGITS;
        if (op->kind == PLAN_EMBED) buffer = op->u.embed.out.buf;
        if (op->kind == PLAN_LINEAR) buffer = op->u.linear.out[0].buf;
        if (op->kind == PLAN_ROPE_KV) buffer = op->u.rope_kv.q.buf;
        if (op->kind == PLAN_ATTEND) buffer = op->u.attend.out.buf;
        status = exec_reference.write(e, buffer, 0, &spoiled_with, sizeof spoiled_with);
        if (status != PM_OK) return status;
    }
    return PM_OK;
}

// Faults in the 8-bit result of the first NORM: of its values in steps of their block, and of the
// blocks' scales.
typedef enum rounding { ONE_STEP, MANY_STEPS, TWO_STEPS, ONE_SCALE, TRUNCATED } rounding;
static rounding fault;

static pm_status run_and_round(exec *e, const plan *p, uint32_t first, uint32_t count,
                               const plan_step *step)
{
    enum { BLOCK = 34 }; // a half, 32 signed bytes
    for (uint32_t i = first; i < first + count; i++) {
        pm_status status = exec_reference.run(e, p, i, 1, step);
        if (status != PM_OK) return status;
        if (p->ops[i].kind != PLAN_NORM || p->ops[i].layer != 1) continue;
        for (uint32_t r = 0; r < step->n_rows; r++) {
            uint8_t row[3 * BLOCK]; // 96 values
            assert_ok(exec_reference.read(e, PLAN_XQ, r * sizeof row, row, sizeof row));
            for (int b = 0; b < 3; b++) {
                int8_t *q = (int8_t *)row + b * BLOCK + 2;
                for (int k = 0; k < 32; k++) {
                    bool edge = q[k] >= 126 || q[k] <= -126; // the block's largest stays
                    int one = r == 0 && b == 1 && k == 5, some = k % 8 == 1;
                    if (fault == ONE_STEP) q[k] = (int8_t)(q[k] + (edge ? 0 : one));
                    if (fault == TWO_STEPS) q[k] = (int8_t)(q[k] + (edge ? 0 : 2 * one));
                    if (fault == MANY_STEPS) q[k] = (int8_t)(q[k] + (edge ? 0 : some));
                    if (fault == TRUNCATED && !edge && q[k])
                        q[k] = (int8_t)(q[k] - (q[k] > 0) * (k & 1));
                }
                if (fault == ONE_SCALE && b == 2) row[b * BLOCK] ^= 8; // a 128th or less of it
            }
            assert_ok(exec_reference.write(e, PLAN_XQ, r * sizeof row, row, sizeof row));
        }
    }
    return PM_OK;
}

// A single rounding step passes, and nothing beyond it: no two, no share of the values, no scale.
static void r64_rounding_and_scales_are_judged_apart(void **state)
{
    (void)state;
    fixture f;
    open_model(&f, "golden/llama-tied.q8_0.gguf");
    spoiling = exec_reference;
    spoiling.run = run_and_round;
    weights_part part = {.kind = &spoiling, .end_layer = f.model->n_layer};
    weights *tested;
    assert_ok(weights_load(f.model, &part, 1, &tested));
    int32_t ids[12] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
    for (fault = ONE_STEP; fault <= TRUNCATED; fault++) {
        check_options options = {.plan = {.n_ctx = 64,
                                          .n_slots = 1,
                                          .n_batch = 32,
                                          .kv_type = QUANT_F32,
                                          .act = PLAN_ACT_Q8},
                                 .ids = ids,
                                 .n_ids = 12,
                                 .isolated = true,
                                 .inject = {.kind = PLAN_N_OP_KINDS}};
        check_result result;
        assert_ok(check_run(tested, f.weights, &options, &result));
        if (result.pass != (fault == ONE_STEP)) fail_msg("fault %d: pass %d", fault, result.pass);
        if (fault != ONE_STEP) {
            const check_op *bad = &result.ops[result.first_bad];
            assert_int_equal(bad->kind, PLAN_NORM);
            assert_int_equal(bad->layer, 1);
            bool by_steps = fault == MANY_STEPS || fault == TRUNCATED;
            if (by_steps)
                assert_true(bad->steps > bad->steps_bound);
            else
                assert_true(bad->nmse > bad->bound);
        }
        check_result_free(&result);
    }
    weights_unload(tested);
    close_model(&f);
}

static void nan_never_passes(void **state)
{
    (void)state;
    fixture f;
    open_model(&f, "golden/llama-tied.q8_0.gguf");
    spoiling = exec_reference;
    spoiling.run = run_and_spoil;
    weights_part part = {.kind = &spoiling, .end_layer = f.model->n_layer};
    weights *tested;
    assert_ok(weights_load(f.model, &part, 1, &tested));
    static const plan_op_kind kinds[] = {PLAN_EMBED, PLAN_LINEAR, PLAN_ROPE_KV, PLAN_ATTEND,
                                         PLAN_LOGITS_OP};
    const float values[] = {NAN, INFINITY, -INFINITY};
    int32_t ids[12] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
    for (int i = 0; i < 30; i++) {
        spoiled_kind = kinds[i / 6];
        spoiled_with = values[i / 2 % 3];
        check_options options = {
            .plan = {.n_ctx = 64, .n_slots = 1, .n_batch = 32, .kv_type = QUANT_F32},
            .ids = ids,
            .n_ids = 12,
            .isolated = i % 2 == 0,
            .lockstep = i % 2 == 1,
            .inject = {.kind = PLAN_N_OP_KINDS}};
        check_result result;
        assert_ok(check_run(tested, f.weights, &options, &result));
        if (result.pass)
            fail_msg("%g in %s passes (%d)", (double)spoiled_with, plan_op_name(spoiled_kind), i);
        if (options.isolated) {
            assert_true(result.first_bad >= 0);
            assert_int_equal(result.ops[result.first_bad].kind, spoiled_kind);
            assert_int_equal(result.ops[result.first_bad].nonfinite, 1);
        }
        check_result_free(&result);
    }
    weights_unload(tested);
    close_model(&f);
}

static void r66_nothing_compared_is_no_pass(void **state)
{
    (void)state;
    fixture f;
    open_model(&f, "golden/llama-tied.q8_0.gguf");
    int32_t ids[4] = {1, 2, 3, 4};
    check_options options = {.plan = {.n_ctx = 64, .n_slots = 1, .n_batch = 8},
                             .ids = ids,
                             .n_ids = 4,
                             .inject = {.kind = PLAN_N_OP_KINDS}};
    check_result result;
    assert_ok(check_run(f.weights, f.weights, &options, &result));
    assert_false(result.pass);
    assert_int_equal(result.compared, 0);
    check_result_free(&result);
    options.isolated = options.lockstep = true; // as few tokens as there may be
    assert_ok(check_run(f.weights, f.weights, &options, &result));
    assert_true(result.pass && result.compared > 0);
    check_result_free(&result);
    close_model(&f);
}

// Layers on two executors, as with --gpu-layers.
static void a_model_in_two_parts(void **state)
{
    (void)state;
    fixture f;
    open_model(&f, "golden/smollm3-tied.q8_0.gguf");
    weights_part parts[] = {
        {.kind = &exec_cpu, .params = {.n_threads = 1}, .end_layer = 2},
        {.kind = &exec_reference, .first_layer = 2, .end_layer = f.model->n_layer}};
    weights *tested;
    assert_ok(weights_load(f.model, parts, 2, &tested));
    fixture two = {.model = f.model, .weights = tested};
    int32_t ids[12] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
    static const char *const faults[] = {NULL, "ATTEND:1", "ATTEND:2", "LOGITS:-1", "EMBED:-1"};
    for (size_t i = 0; i < 5; i++) {
        check_options options = {
            .plan = {.n_ctx = 64, .n_slots = 1, .n_batch = 4, .kv_type = QUANT_F16},
            .ids = ids,
            .n_ids = 12,
            .isolated = true,
            .lockstep = true,
            .inject = {.kind = PLAN_N_OP_KINDS}};
        if (faults[i]) assert_ok(check_parse_inject(faults[i], &options.inject));
        check_result result;
        assert_ok(check_run(two.weights, f.weights, &options, &result));
        assert_int_equal(result.pass, i == 0);
        if (i > 0) assert_int_equal(result.ops[result.first_bad].kind, options.inject.kind);
        check_result_free(&result);
    }
    weights_unload(tested);
    close_model(&f);
}

// By hand: p = (1/2, 1/2) and q = (1/4, 3/4) have KL(p || q) = ln 2 - ln 3 / 2.
static void r65_divergence_by_hand(void **state)
{
    (void)state;
    divergence d = {.margin = 0.5};
    const float p[] = {0, 0}, q[] = {0, 1.0986123F}, r[] = {3, 0};
    assert_ok(divergence_add(&d, p, q, 2)); // another choice, but p's are equal
    assert_ok(divergence_add(&d, r, r, 2));
    assert_ok(divergence_add(&d, r, q, 2)); // another choice with a margin of 3
    divergence_summary s = divergence_of(&d);
    assert_true(fabs(d.kl[1] - (log(2) - log(3) / 2)) < 1e-7);
    assert_true(d.kl[0] == 0 && s.kl_max == d.kl[2] && s.kl_p99 == d.kl[1]);
    assert_true(fabs(s.kl_mean - (d.kl[1] + d.kl[2]) / 3) < 1e-15);
    assert_true(fabs(s.top1 - 1.0 / 3) < 1e-15 && fabs(s.top1_judged - 2.0 / 3) < 1e-15);
    double m = s.kl_mean,
           squares = m * m + (d.kl[1] - m) * (d.kl[1] - m) + (d.kl[2] - m) * (d.kl[2] - m);
    assert_true(fabs(s.kl_error - sqrt(squares / 2 / 3)) < 1e-15);
    assert_true(s.max_abs == 3);
    assert_true(fabs(s.mean_abs - (1.0986123 + 3 + 1.0986123) / 6) < 1e-7);
    const float bad[] = {0, NAN};
    assert_ok(divergence_add(&d, p, bad, 2));
    s = divergence_of(&d);
    assert_true(d.nonfinite && isinf(s.kl_mean) && isinf(s.max_abs) && s.top1_judged == 0.5);
    divergence_free(&d);
}

// Logits of some rows are larger than they should be: of one row in all, or of every row.
static bool lean_everywhere;
static float lean_by;

static pm_status run_and_lean(exec *e, const plan *p, uint32_t first, uint32_t count,
                              const plan_step *step)
{
    pm_status status = exec_reference.run(e, p, first, count, step);
    if (status != PM_OK || p->ops[first + count - 1].kind != PLAN_LOGITS_OP) return status;
    float logits[1024];
    uint32_t n = spoiled_vocab;
    for (uint32_t r = 0; r < step->n_logits; r++) {
        if (!lean_everywhere && step->rows[step->logit_rows[r]].pos != 3) continue;
        assert_ok(
            exec_reference.read(e, PLAN_LOGITS, r * n * sizeof(float), logits, n * sizeof(float)));
        for (uint32_t i = 0; i < n; i++) logits[i] *= lean_by;
        assert_ok(
            exec_reference.write(e, PLAN_LOGITS, r * n * sizeof(float), logits, n * sizeof(float)));
    }
    return status;
}

// A mean that a single row lifts past its bound tells little: with 8 bits more tokens are asked
// for. It is no pass, and with 32 bits or with errors everywhere it is decided.
static void a_noisy_mean_is_undecided(void **state)
{
    (void)state;
    fixture f;
    open_model(&f, "golden/llama-tied.q8_0.gguf");
    spoiled_vocab = f.model->n_vocab;
    assert_true(spoiled_vocab <= 1024);
    spoiling = exec_reference;
    spoiling.run = run_and_lean;
    weights_part part = {.kind = &spoiling, .end_layer = f.model->n_layer};
    weights *tested;
    assert_ok(weights_load(f.model, &part, 1, &tested));
    int32_t ids[12];
    for (int i = 0; i < 12; i++) ids[i] = (i * 31 + 7) % (int)f.model->n_vocab;
    size_t undecided[2] = {0, 0}, failed[2] = {0, 0};
    for (int form = 0; form < 4; form++) {
        bool q8 = form & 1;
        lean_everywhere = form & 2;
        for (lean_by = 1; lean_by < 3; lean_by += 0.1F) {
            check_options options = {.plan = {.n_ctx = 12,
                                              .n_slots = 1,
                                              .n_batch = 12,
                                              .kv_type = QUANT_F32,
                                              .act = q8 ? PLAN_ACT_Q8 : PLAN_ACT_F32},
                                     .ids = ids,
                                     .n_ids = 12,
                                     .lockstep = true,
                                     .inject = {.kind = PLAN_N_OP_KINDS}};
            check_result r;
            assert_ok(check_run(tested, f.weights, &options, &r));
            const divergence_summary *l = &r.logits;
            assert_false(r.pass && r.undecided);
            if (r.undecided)
                assert_true(q8 && l->kl_mean > r.kl_bound &&
                            l->kl_mean - 2 * l->kl_error <= r.kl_bound);
            assert_true(r.pass == (l->kl_mean <= r.kl_bound && l->top1_judged >= r.top1_bound));
            if (q8) undecided[lean_everywhere] += r.undecided;
            if (q8) failed[lean_everywhere] += !r.pass && !r.undecided;
            check_result_free(&r);
        }
    }
    assert_true(undecided[0] > 0);                          // one row
    assert_true(failed[1] > 5 && failed[1] > undecided[1]); // every row
    weights_unload(tested);
    close_model(&f);
}

static void nonsense_faults_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",          "LINEAR", "LINEAR:",      "LINEAR:x",
                                      "LINEAR:1:", "FOO:1",  "LINEAR:1:2:3", "LINEAR:-2"};
    check_inject inject;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(check_parse_inject(bad[i], &inject), PM_ERROR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_executor_passes),
        cmocka_unit_test(every_planted_fault_is_named),
        cmocka_unit_test(r64_rounding_and_scales_are_judged_apart),
        cmocka_unit_test(nan_never_passes),
        cmocka_unit_test(r66_nothing_compared_is_no_pass),
        cmocka_unit_test(a_model_in_two_parts),
        cmocka_unit_test(r65_divergence_by_hand),
        cmocka_unit_test(a_noisy_mean_is_undecided),
        cmocka_unit_test(nonsense_faults_are_refused),
    };
    return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
