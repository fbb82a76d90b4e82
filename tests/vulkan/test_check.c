// `check` on the GPU executor: golden models pass, every planted fault is named.
#include "support/test.h"

#include "proof/check.h"
#include "support/vulkan_drivers.h"

static const exec_gpu first_device = {.selector = "0"};

typedef struct sides {
    model *model;
    weights *tested, *reference;
    plan_act act;
    quant_type kv_type;
} sides;

static void open_sides(sides *s, const char *file, plan_act act, quant_type kv_type)
{
    vulkan_driver_need();
    char path[128];
    snprintf(path, sizeof path, "golden/%s.gguf", file);
    *s = (sides){.act = act, .kv_type = kv_type};
    model_options options = {0};
    assert_ok(model_open(test_data(path), &options, &s->model));
    weights_part part = {.kind = &exec_reference, .end_layer = s->model->n_layer};
    assert_ok(weights_load(s->model, &part, 1, &s->reference));
    part = (weights_part){.kind = &exec_vulkan,
                          .params = {.n_threads = 1, .gpu = &first_device},
                          .end_layer = s->model->n_layer};
    assert_ok(weights_load(s->model, &part, 1, &s->tested));
}

static void close_sides(sides *s)
{
    weights_unload(s->tested);
    weights_unload(s->reference);
    model_close(s->model);
}

static void run(const sides *s, const char *inject, bool lockstep, check_result *result)
{
    enum { N = 40 };
    int32_t ids[N];
    for (int i = 0; i < N; i++) ids[i] = (i * 31 + 7) % (int)s->model->n_vocab;
    check_options options = {
        .plan = {.n_ctx = 64, .n_slots = 1, .n_batch = 32, .kv_type = s->kv_type, .act = s->act},
        .ids = ids,
        .n_ids = N,
        .isolated = true,
        .lockstep = lockstep,
        .inject = {.kind = PLAN_N_OP_KINDS}};
    if (inject) assert_ok(check_parse_inject(inject, &options.inject));
    assert_ok(check_run(s->tested, s->reference, &options, result));
}

// SwiftShader compiles every kernel for every file anew: some of the files tell what it can add.
static size_t n_files_here(size_t all, size_t some)
{
    const char *driver = getenv("PUMICE_TEST_DRIVER");
    return driver && !strcmp(driver, "swiftshader") && !getenv("PUMICE_TEST_LONG") ? some : all;
}

// One model of each kind of layer, every format of the mixed files, both precisions.
static void r65_golden_models_pass(void **state)
{
    (void)state;
    static const char *const files[] = {"smollm3-untied.q8_0", "llama-mix-k",   "gemma3.q8_0",
                                        "llama-mix-legacy",    "llama-mix-iq4", "qwen2.q8_0",
                                        "qwen3.q8_0",          "phi4.q8_0",     "gpt2.f16",
                                        "gptneox.q8_0",        "mistral.q8_0"};
    size_t n = n_files_here(sizeof files / sizeof files[0], 3);
    for (size_t i = 0; i < 2 * n; i++) {
        sides s;
        open_sides(&s, files[i / 2], i % 2 ? PLAN_ACT_Q8 : PLAN_ACT_F32,
                   i % 2 ? QUANT_F16 : QUANT_F32);
        check_result result;
        run(&s, NULL, true, &result);
        if (result.first_bad >= 0) {
            const check_op *bad = &result.ops[result.first_bad];
            fail_msg("%s, %s: %s (%s) of layer %d, %s: NMSE %g, bound %g", files[i / 2],
                     i % 2 ? "q8" : "f32", plan_op_name(bad->kind), bad->label, bad->layer,
                     bad->phase, bad->nmse, bad->bound);
        }
        if (!result.pass)
            fail_msg("%s, %s: kl %g of %g, top-1 %g", files[i / 2], i % 2 ? "q8" : "f32",
                     result.logits.kl_mean, result.kl_bound, result.logits.top1_judged);
        assert_true(result.compared > 0 && result.n_ops > 0);
        check_result_free(&result);
        close_sides(&s);
    }
}

static void faults_are_named(const char *file, plan_act act, const char *const *cases, size_t n)
{
    sides s;
    open_sides(&s, file, act, QUANT_F16);
    for (size_t i = 0; i < n; i++) {
        check_result result;
        check_inject planted;
        assert_ok(check_parse_inject(cases[i], &planted));
        run(&s, cases[i], false, &result);
        assert_false(result.pass);
        if (result.first_bad < 0) fail_msg("%s was not seen", cases[i]);
        const check_op *bad = &result.ops[result.first_bad];
        if (bad->kind != planted.kind || bad->layer != planted.layer)
            fail_msg("%s was seen as %s:%d", cases[i], plan_op_name(bad->kind), bad->layer);
        check_result_free(&result);
    }
    close_sides(&s);
}

static void every_planted_fault_is_named(void **state)
{
    (void)state;
    // gemma3 has norms behind its products; gpt2's positions, LayerNorm and biases; QUANTIZE and
    // ACTIVATE, ADD are in plans with 8-bit activations, GELU and parallel residuals.
    static const char *const gemma[] = {"EMBED:-1", "NORM:2",    "LINEAR:6:3", "ROPE_KV:5",
                                        "ATTEND:3", "LOGITS:-1", "PICK:-1"};
    static const char *const gemma_q8[] = {"NORM:2:1", "LINEAR:0", "ATTEND:3", "LOGITS:-1"};
    faults_are_named("gemma3.q8_0", PLAN_ACT_F32, gemma, sizeof gemma / sizeof gemma[0]);
    faults_are_named("gemma3.q8_0", PLAN_ACT_Q8, gemma_q8, sizeof gemma_q8 / sizeof gemma_q8[0]);
}

// Whatever kinds of operation the plans of all families have: each once.
static void every_kind_of_operation_is_named(void **state)
{
    (void)state;
    static const char *const files[] = {"smollm3-untied.q8_0", "gpt2.q8_0", "gptneox.q8_0",
                                        "phi4.q8_0", "gemma3.q8_0"};
    bool seen[PLAN_N_OP_KINDS] = {false};
    size_t n_files = n_files_here(sizeof files / sizeof files[0], 2);
    for (size_t i = 0; i < 2 * n_files; i++) {
        plan_act act = i % 2 ? PLAN_ACT_Q8 : PLAN_ACT_F32;
        sides s;
        open_sides(&s, files[i / 2], act, QUANT_F16);
        check_result all;
        run(&s, NULL, false, &all);
        char texts[PLAN_N_OP_KINDS][48];
        const char *cases[PLAN_N_OP_KINDS];
        size_t n = 0;
        for (uint32_t k = 0; k < all.n_ops; k++) {
            const check_op *op = &all.ops[k];
            if (seen[op->kind]) continue;
            seen[op->kind] = true;
            snprintf(texts[n], sizeof texts[n], "%s:%d", plan_op_name(op->kind), op->layer);
            cases[n] = texts[n];
            n++;
        }
        check_result_free(&all);
        close_sides(&s);
        if (n > 0) faults_are_named(files[i / 2], act, cases, n);
    }
    for (int kind = 0; kind < PLAN_N_OP_KINDS; kind++)
        if (!seen[kind]) print_message("no plan has %s\n", plan_op_name((plan_op_kind)kind));
}

int main(void)
{
    vulkan_driver_use();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r65_golden_models_pass),
        cmocka_unit_test(every_planted_fault_is_named),
        cmocka_unit_test(every_kind_of_operation_is_named),
    };
    return cmocka_run_group_tests_name("vulkan check", tests, NULL, NULL);
}
