// Tensors larger than a binding of the drivers at hand (128 MiB): the vocabulary of SmolLM3 and
// Qwen, 151,936 rows, and a tensor of 148 MiB, cut into pieces; right, and silent under validation.
#include "support/vulkan_drivers.h"
#include "vulkan/linear_case.h"

static const exec_gpu first_device = {.selector = "0"};

static void check(linear_case c)
{
    vulkan_driver_need();
    c.gpu = &first_device;
    double nmse = linear_case_run(&c, NULL, NULL), bound = c.act == PLAN_ACT_Q8 ? 1e-5 : 1e-6;
    if (!(nmse <= bound)) fail_msg("%u x %u: NMSE %.2e", c.rows[0], c.cols, nmse);
}

// 151,936 rows of 960 in Q8_0 are 147.8 MiB; with the planes' padding more.
void r9_a_vocabulary_of_151936_rows(void **state)
{
    (void)state;
    linear_case c = {.kind = PLAN_LOGITS_OP,
                     .type = QUANT_Q8_0,
                     .cols = 960,
                     .n_rows = 2,
                     .n_marked = 1,
                     .rows = {151936},
                     .norm_in = true};
    check(c);
    c.norm_in = false;
    c.act = PLAN_ACT_Q8;
    check(c);
    c.kind = PLAN_EMBED; // rows out of both pieces
    c.act = PLAN_ACT_F32;
    c.n_rows = 40;
    c.n_marked = 0;
    check(c);
}

// A feed-forward matrix of F32, 148 MiB: 9,472 rows of 4,096.
void r9_a_tensor_of_148_mib(void **state)
{
    (void)state;
    check((linear_case){.kind = PLAN_LINEAR,
                        .type = QUANT_F32,
                        .cols = 4096,
                        .n_rows = 3,
                        .rows = {9472},
                        .bias = true,
                        .residual = IN_PLACE});
    check((linear_case){.kind = PLAN_LINEAR,
                        .type = QUANT_F16,
                        .cols = 8192,
                        .n_rows = 2,
                        .rows = {4736, 4736},
                        .gated = true,
                        .fn = PLAN_FN_SILU});
}
