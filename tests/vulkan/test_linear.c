// LINEAR, LOGITS and EMBED on a Vulkan driver against the reference's run of the same form.
#include "support/test.h"
#include "support/vulkan_drivers.h"
#include "vulkan/linear_case.h"

#include <math.h>

static const quant_type formats[] = {
    QUANT_F32,  QUANT_F16,  QUANT_BF16, QUANT_Q8_0,   QUANT_Q4_0,
    QUANT_Q4_1, QUANT_Q5_0, QUANT_Q5_1, QUANT_Q2_K,   QUANT_Q3_K,
    QUANT_Q4_K, QUANT_Q5_K, QUANT_Q6_K, QUANT_IQ4_NL, QUANT_IQ4_XS,
};
enum { N_FORMATS = sizeof formats / sizeof formats[0] };

static uint64_t seed = 1;

static void check(linear_case c)
{
    c.seed = seed++;
    exec_gpu gpu = c.gpu ? *c.gpu : (exec_gpu){0};
    if (!gpu.selector) gpu.selector = "0";
    c.gpu = &gpu;
    double nmse = linear_case_run(&c, NULL, NULL);
    double bound = c.act == PLAN_ACT_Q8 || c.q8_out ? 1e-5 : 1e-6;
    if (!(nmse <= bound))
        fail_msg("%s act=%s cols %u rows %u %u %u n %u gated %d bias %d norm %d q8_out %d residual "
                 "%d fn %d: NMSE %.2e",
                 quant_type_name(c.type), c.act == PLAN_ACT_Q8 ? "q8" : "f32", c.cols, c.rows[0],
                 c.rows[1], c.rows[2], c.n_rows, c.gated, c.bias, c.norm_in, c.q8_out, c.residual,
                 c.fn, nmse);
}

static uint32_t cols_for(quant_type type, uint32_t i)
{
    uint32_t block = quant_format_of(type)->block_values;
    static const uint32_t odd[] = {1, 37, 130, 300};
    return block == 1 ? odd[i % 4] : block == 32 ? 32 * (1 + 5 * (i % 4)) : 256 * (1 + i % 2);
}

static bool quantized(quant_type type)
{
    return quant_format_of(type)->block_values > 1;
}

static void every_format(const exec_gpu *gpu, uint32_t n_rows, plan_act first)
{
    for (uint32_t f = 0; f < N_FORMATS; f++) {
        for (int act = (int)first; act <= (quantized(formats[f]) ? PLAN_ACT_Q8 : 0); act++) {
            uint32_t i = f + n_rows;
            check((linear_case){.kind = PLAN_LINEAR,
                                .type = formats[f],
                                .act = (plan_act)act,
                                .cols = cols_for(formats[f], i),
                                .n_rows = n_rows,
                                .rows = {33 + f, 1 + f, 70},
                                .bias = i % 2,
                                .norm_in = act == PLAN_ACT_F32 && i % 3 == 0,
                                .gpu = gpu});
        }
    }
}

static void formats_on_one_row(void **state)
{
    (void)state;
    vulkan_driver_need();
    every_format(NULL, 1, PLAN_ACT_F32);
}

static void formats_on_many_rows(void **state)
{
    (void)state;
    vulkan_driver_need();
    every_format(NULL, 9, PLAN_ACT_F32);
}

static void formats_without_features(void **state)
{
    (void)state;
    vulkan_driver_need();
    every_format(&(exec_gpu){.disable = "int8-dot"}, 1, PLAN_ACT_Q8);
    every_format(&(exec_gpu){.disable = "subgroup"}, 2, PLAN_ACT_F32);
}

int main(void)
{
    vulkan_driver_use();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_on_one_row),
        cmocka_unit_test(formats_on_many_rows),
        cmocka_unit_test(formats_without_features),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
