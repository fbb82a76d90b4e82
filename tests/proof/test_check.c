// The check itself, on the reference against the reference: it passes, and it names every planted
// fault.
#include "support/test.h"

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
        // a random model's choices are too close to each other for the top-1 bound of 8 bits
        bool choices = form & 1 || result.top1 >= result.top1_bound;
        if (result.first_bad >= 0 || result.kl_mean > result.kl_bound || !choices)
            fail_msg("form %d: first bad %d, kl %g of %g, top-1 %g", form, result.first_bad,
                     result.kl_mean, result.kl_bound, result.top1);
        assert_true(result.compared > 0 && result.n_ops > 0 && result.n_logits == 24);
        if (form == 0) assert_true(result.kl_max == 0 && result.max_abs == 0 && result.top1 == 1);
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
        cmocka_unit_test(nonsense_faults_are_refused),
    };
    return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
