// Every golden model on the GPU executor, on each driver.
#include "support/test.h"

#include "support/golden.h"
#include "support/vulkan_drivers.h"

static const exec_gpu first_device = {.selector = "0"};

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

static void small_batches(void **state)
{
    (void)state;
    run((golden_mode){.name = "vulkan, batches of 7, unfused",
                      .kv_type = QUANT_F32,
                      .n_batch = 7,
                      .no_fuse = true,
                      .limit = 1e-3});
}

static void quantized_cache(void **state)
{
    (void)state;
    run((golden_mode){
        .name = "vulkan, q8_0 cache", .act = PLAN_ACT_Q8, .kv_type = QUANT_Q8_0, .n_batch = 33});
}

int main(void)
{
    vulkan_driver_use();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(act_f32),
        cmocka_unit_test(defaults),
        cmocka_unit_test(small_batches),
        cmocka_unit_test(quantized_cache),
    };
    return cmocka_run_group_tests_name("vulkan golden", tests, NULL, NULL);
}
