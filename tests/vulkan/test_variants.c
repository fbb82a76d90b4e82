// Whole models with less than the driver has: each optional feature off, all off, the
// specification's minimum, tiny allocations and bindings, submissions cut at every place, and a
// full barrier behind every dispatch, sizes of other kinds of devices.
#include "support/test.h"

#include <math.h>

#include "support/golden.h"
#include "support/vulkan_drivers.h"

// Legacy and k formats, windows and post-norms; --long: every file.
static const char *files(void)
{
    return getenv("PUMICE_TEST_LONG") ? NULL : "smollm3-untied.q8_0,llama-mix-k,gemma3.q8_0";
}

static void within_limits(const char *name, exec_gpu gpu, bool both)
{
    vulkan_driver_need();
    gpu.selector = "0";
    golden_only(files());
    const golden_mode modes[] = {
        {.name = name,
         .kind = &exec_vulkan,
         .gpu = &gpu,
         .kv_type = QUANT_F32,
         .n_batch = 33,
         .limit = 1e-3},
        {.name = name,
         .kind = &exec_vulkan,
         .gpu = &gpu,
         .act = PLAN_ACT_Q8,
         .kv_type = QUANT_F16,
         .n_batch = 512},
    };
    golden_run(modes, both ? 2 : 1);
}

static void r5_each_feature_off(void **state)
{
    (void)state;
    for (uint32_t i = 0; vk_feature_name(i); i++) {
        char name[80];
        snprintf(name, sizeof name, "without %s", vk_feature_name(i));
        bool arithmetic =
            !strncmp(vk_feature_name(i), "subgroup", 8) || !strcmp(vk_feature_name(i), "int8-dot");
        within_limits(name, (exec_gpu){.disable = vk_feature_name(i)}, arithmetic);
    }
}

static void r5_all_off(void **state)
{
    (void)state;
    within_limits("all features off", (exec_gpu){.disable = "all"}, true);
}

static void r23_minimum_limits(void **state)
{
    (void)state;
    within_limits("minimum limits", (exec_gpu){.minimum_limits = true}, true);
}

static void sizes_of_other_devices(void **state)
{
    (void)state;
    within_limits("as a card", (exec_gpu){.profile = "discrete"}, true);
    within_limits("as an integrated GPU", (exec_gpu){.profile = "integrated"}, false);
    within_limits("as an unknown device", (exec_gpu){.profile = "default"}, false);
}

static void r9_small_allocations(void **state)
{
    (void)state;
    within_limits("allocations of 1 MiB", (exec_gpu){.max_alloc = VK_MIN_MAX_ALLOC}, false);
    within_limits("bindings of 256 KiB",
                  (exec_gpu){.max_alloc = 8 << 20, .max_binding = VK_MIN_MAX_BINDING}, false);
}

// ---- the same bits ----------------------------------------------------------------------------

enum { N_IDS = 70 };

// Logits of a prompt in one chunk, then of single tokens; released with free.
static float *logits_of(const char *file, exec_gpu gpu, plan_act act, size_t *bytes)
{
    gpu.selector = "0";
    plan_options options = {
        .n_ctx = 128, .n_slots = 1, .n_batch = 64, .kv_type = QUANT_F16, .act = act};
    exec_params params = {.n_threads = 1, .gpu = &gpu};
    runner r;
    runner_open(&r, test_data(file), &exec_vulkan, &params, &options);
    int32_t ids[N_IDS];
    for (int i = 0; i < N_IDS; i++) ids[i] = (i * 37 + 11) % (int)r.set->n_vocab;
    *bytes = (size_t)N_IDS * r.set->n_vocab * sizeof(float);
    float *logits = malloc(*bytes);
    assert_non_null(logits);
    runner_eval(&r, ids, N_IDS - 3, logits, NULL);
    for (int i = N_IDS - 3; i < N_IDS; i++)
        runner_eval(&r, &ids[i], 1, logits + (size_t)i * r.set->n_vocab, NULL);
    runner_close(&r);
    return logits;
}

static void same_bits(exec_gpu gpu, const char *what)
{
    static const char *const names[] = {"golden/smollm3-untied.q8_0.gguf",
                                        "golden/llama-mix-k.gguf", "golden/gptneox.q8_0.gguf"};
    vulkan_driver_need();
    for (size_t i = 0; i < 2 * sizeof names / sizeof names[0]; i++) {
        plan_act act = i % 2 ? PLAN_ACT_Q8 : PLAN_ACT_F32;
        size_t n, n_again;
        float *plain = logits_of(names[i / 2], (exec_gpu){0}, act, &n);
        float *again = logits_of(names[i / 2], gpu, act, &n_again);
        assert_int_equal(n, n_again);
        for (size_t k = 0; k < n / sizeof *plain; k++) assert_true(isfinite(plain[k]));
        if (memcmp(plain, again, n) != 0) fail_msg("%s: other bits with %s", names[i / 2], what);
        free(plain);
        free(again);
    }
}

static void r20_debug_barriers(void **state)
{
    (void)state;
    same_bits((exec_gpu){.debug_barriers = true}, "a full barrier behind every dispatch");
}

static void r17_cut_submissions(void **state)
{
    (void)state;
    same_bits((exec_gpu){.max_submit_ms = 1e-6}, "a submission for every operation");
    same_bits((exec_gpu){.max_submit_ms = 0.05}, "short submissions");
}

int main(void)
{
    vulkan_driver_use();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r5_each_feature_off),    cmocka_unit_test(r5_all_off),
        cmocka_unit_test(r23_minimum_limits),     cmocka_unit_test(r9_small_allocations),
        cmocka_unit_test(sizes_of_other_devices), cmocka_unit_test(r20_debug_barriers),
        cmocka_unit_test(r17_cut_submissions),
    };
    return cmocka_run_group_tests_name("vulkan variants", tests, NULL, NULL);
}
