// Every golden model on the GPU executor, on each driver.
#include "support/test.h"

#include "support/golden.h"
#include "support/vulkan_drivers.h"

static const exec_gpu first_device = {.selector = "0"};
static const char *only; // files whose names begin so; NULL: all

static void run(golden_mode mode)
{
    vulkan_driver_need();
    mode.kind = &exec_vulkan;
    if (!mode.gpu) mode.gpu = &first_device;
    golden_run(&mode, 1);
}

static void act_f32(void **state)
{
    (void)state;
    run((golden_mode){
        .name = "vulkan, act=f32", .kv_type = QUANT_F32, .n_batch = 512, .limit = 1e-3});
}

static void defaults(void **state)
{
    (void)state;
    run((golden_mode){
        .name = "vulkan, act=q8", .act = PLAN_ACT_Q8, .kv_type = QUANT_F16, .n_batch = 512});
}

// Driver, layer and kernels are the same for every batch; what differs is how a prompt is cut.
static void any_batch_in_one_process(void **state)
{
    (void)state;
    static const uint32_t batches[] = {1, 2, 3, 7, 8, 9, 16, 17, 31, 32, 33, 64, 70};
    golden_only("smollm3-untied.q8_0,llama-untied.f32,qwen2.q8_0,mistral.q8_0");
    for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++) {
        char name[40];
        snprintf(name, sizeof name, "vulkan, batches of %u", batches[i]);
        run((golden_mode){
            .name = name, .kv_type = QUANT_F32, .n_batch = batches[i], .limit = 1e-3});
        if (i % 4 == 0)
            run((golden_mode){
                .name = name, .act = PLAN_ACT_Q8, .kv_type = QUANT_F16, .n_batch = batches[i]});
    }
    golden_only(only);
}

// SwiftShader compiles every kernel again for every file: what the modes above have shown of the
// formats is not repeated there.
static const char *some_files(void)
{
    const char *driver = getenv("PUMICE_TEST_DRIVER");
    bool slow = driver && !strcmp(driver, "swiftshader") && !getenv("PUMICE_TEST_LONG");
    return only || !slow ? only : "smollm3-deep.q8_0,llama-mix-k,gemma3.q8_0,qwen3.q8_0,gptneox";
}

static void small_batches(void **state)
{
    (void)state;
    golden_only(some_files());
    run((golden_mode){.name = "vulkan, batches of 7, unfused",
                      .kv_type = QUANT_F32,
                      .n_batch = 7,
                      .no_fuse = true,
                      .limit = 1e-3});
    golden_only(only);
}

static void quantized_cache(void **state)
{
    (void)state;
    golden_only(some_files());
    run((golden_mode){
        .name = "vulkan, q8_0 cache", .act = PLAN_ACT_Q8, .kv_type = QUANT_Q8_0, .n_batch = 33});
    golden_only(only);
}

int main(int argc, char **argv)
{
    vulkan_driver_use();
    if (argc > 1) only = argv[1]; // by hand: test_vulkan_golden llama,qwen2
    golden_only(only);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(act_f32),
        cmocka_unit_test(defaults),
        cmocka_unit_test(any_batch_in_one_process),
        cmocka_unit_test(small_batches),
        cmocka_unit_test(quantized_cache),
    };
    return cmocka_run_group_tests_name("vulkan golden", tests, NULL, NULL);
}
