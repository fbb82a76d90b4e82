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
                                .norm_in = act == PLAN_ACT_F32 && n_rows <= 16 && i % 3 == 0,
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

// Tiles of matrix by matrix: on some drivers only where there are no subgroup operations.
static void formats_in_tiles(void **state)
{
    (void)state;
    vulkan_driver_need();
    every_format(&(exec_gpu){.disable = "subgroup"}, 18, PLAN_ACT_F32);
    for (uint32_t f = 3; f < N_FORMATS; f += 3)
        check((linear_case){.kind = PLAN_LINEAR,
                            .type = formats[f],
                            .act = PLAN_ACT_Q8,
                            .cols = 256,
                            .n_rows = 33,
                            .rows = {40, 7},
                            .bias = true,
                            .gpu = &(exec_gpu){.disable = "subgroup,int8-dot"}});
}

static void r24_formats_without_features(void **state)
{
    (void)state;
    vulkan_driver_need();
    every_format(&(exec_gpu){.disable = "int8-dot"}, 1, PLAN_ACT_Q8);
    every_format(&(exec_gpu){.disable = "subgroup"}, 2, PLAN_ACT_F32);
}

// Kernels of the sizes that cards have, for one row, few and many.
static void formats_as_on_a_card(void **state)
{
    (void)state;
    vulkan_driver_need();
    static const exec_gpu discrete = {.profile = "discrete"},
                          integrated = {.profile = "integrated"};
    every_format(&discrete, 1, PLAN_ACT_F32);
    every_format(&discrete, 70, PLAN_ACT_F32);
    for (uint32_t f = 0; f < N_FORMATS; f += 4) {
        linear_case c = {.kind = PLAN_LINEAR,
                         .type = formats[f],
                         .cols = 256,
                         .n_rows = 5,
                         .rows = {200, 200},
                         .gated = true,
                         .fn = PLAN_FN_SILU,
                         .gpu = &discrete};
        check(c);
        c.gpu = &integrated;
        c.n_rows = 40;
        check(c);
    }
}

// ---- flags ------------------------------------------------------------------------------------

static const exec_gpu no_subgroup = {.disable = "subgroup"};

// The same op on the driver as it is, and without subgroup operations.
static void check_both(linear_case c)
{
    check(c);
    c.gpu = &no_subgroup;
    check(c);
}

static void gated_products(void **state)
{
    (void)state;
    vulkan_driver_need();
    static const plan_fn fns[] = {PLAN_FN_SILU, PLAN_FN_GELU_TANH, PLAN_FN_GELU_ERF};
    for (uint32_t i = 0; i < 3; i++) {
        linear_case c = {.kind = PLAN_LINEAR,
                         .type = i == 1 ? QUANT_Q4_K : QUANT_Q8_0,
                         .cols = 256,
                         .n_rows = 1 + 4 * i,
                         .rows = {96 + 32 * i, 96 + 32 * i},
                         .gated = true,
                         .fn = fns[i],
                         .bias = i == 2,
                         .norm_in = i != 1};
        check_both(c);
        c.q8_out = true;
        check_both(c);
        c.act = PLAN_ACT_Q8;
        c.norm_in = false;
        check(c);
        c.one_tensor = true; // row ranges of a fused tensor
        c.q8_out = false;
        check(c);
        c.one_tensor = false;
        c.no_layout = true; // the weights lie apart
        check(c);
        c.no_layout = false;
        c.n_rows = 17 + 20 * i; // in tiles
        check_both(c);
        c.q8_out = true;
        check_both(c);
        c.act = PLAN_ACT_F32;
        c.gpu = NULL;
        check_both(c);
    }
}

static void residuals(void **state)
{
    (void)state;
    vulkan_driver_need();
    for (int kind = IN_PLACE; kind <= ELSEWHERE; kind++) {
        linear_case c = {.kind = PLAN_LINEAR,
                         .type = QUANT_Q8_0,
                         .cols = 96,
                         .n_rows = 2,
                         .rows = {77},
                         .residual = (residual_kind)kind};
        check_both(c);
        c.bias = true;
        check_both(c);
        c.norm_in = true;
        c.fn = PLAN_FN_GELU_ERF;
        check(c);
        c.act = PLAN_ACT_Q8;
        c.norm_in = false;
        check(c);
    }
}

static void row_ranges(void **state)
{
    (void)state;
    vulkan_driver_need();
    linear_case c = {.kind = PLAN_LINEAR,
                     .type = QUANT_Q5_0,
                     .cols = 64,
                     .n_rows = 1,
                     .rows = {40, 9, 11},
                     .one_tensor = true,
                     .bias = true};
    check_both(c);
    c.no_layout = true;
    check(c);
    c.one_tensor = false;
    c.max_rows = 4; // a recording for more rows than the step has
    check(c);
}

// Both sides of the edges of tiles: weight rows and step rows.
static void edges(void **state)
{
    (void)state;
    vulkan_driver_need();
    check_both((linear_case){
        .kind = PLAN_LINEAR, .type = QUANT_F16, .cols = 77, .n_rows = 35, .rows = {31, 34, 65}});
    static const uint32_t rows[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129};
    static const uint32_t n[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 70};
    for (uint32_t i = 0; i < 14; i++)
        check((linear_case){.kind = PLAN_LINEAR,
                            .type = QUANT_Q8_0,
                            .act = i % 2 ? PLAN_ACT_Q8 : PLAN_ACT_F32,
                            .cols = 64,
                            .n_rows = 1,
                            .rows = {rows[i], rows[13 - i]}});
    for (uint32_t i = 0; i < 16; i++)
        check((linear_case){.kind = PLAN_LINEAR,
                            .type = QUANT_Q4_0,
                            .act = i % 2 ? PLAN_ACT_Q8 : PLAN_ACT_F32,
                            .cols = 96,
                            .n_rows = n[i],
                            .rows = {50},
                            .residual = i % 3 == 0 ? IN_PLACE : NO_RESIDUAL,
                            .gpu = n[i] > 16 ? &no_subgroup : NULL});
}

// ---- numbers ----------------------------------------------------------------------------------

static void r27_small_and_large_numbers(void **state)
{
    (void)state;
    vulkan_driver_need();
    for (uint32_t f = 0; f < N_FORMATS; f += 2)
        check((linear_case){.kind = PLAN_LINEAR,
                            .type = formats[f],
                            .act = quantized(formats[f]) ? PLAN_ACT_Q8 : PLAN_ACT_F32,
                            .cols = 256,
                            .n_rows = 1,
                            .rows = {33},
                            .tiny_scales = true,
                            .x_scale = f % 4 ? 1e4f : 3e-5f});
    check((linear_case){.kind = PLAN_LINEAR,
                        .type = QUANT_Q6_K,
                        .cols = 512,
                        .n_rows = 1,
                        .rows = {20},
                        .norm_in = true,
                        .x_scale = 1e4f});
}

static void nan_is_not_hidden(void **state)
{
    (void)state;
    vulkan_driver_need();
    for (int act = PLAN_ACT_F32; act <= PLAN_ACT_Q8; act++)
        for (int q8_out = 0; q8_out < 2; q8_out++)
            check_both((linear_case){.kind = PLAN_LINEAR,
                                     .type = QUANT_Q8_0,
                                     .act = (plan_act)act,
                                     .cols = 64,
                                     .n_rows = 3,
                                     .rows = {64, 64},
                                     .gated = true,
                                     .fn = PLAN_FN_SILU,
                                     .q8_out = q8_out == 1,
                                     .nan_in_x = true});
}

// ---- logits and embedding ---------------------------------------------------------------------

static void logits(void **state)
{
    (void)state;
    vulkan_driver_need();
    linear_case c = {.kind = PLAN_LOGITS_OP,
                     .type = QUANT_Q8_0,
                     .cols = 64,
                     .n_rows = 9,
                     .n_marked = 3,
                     .rows = {301},
                     .norm_in = true,
                     .bias = true,
                     .softcap = 3};
    check_both(c);
    c.n_marked = 9;
    c.softcap = 0;
    check_both(c);
    c.act = PLAN_ACT_Q8;
    c.norm_in = false;
    check_both(c);
    c.n_rows = c.n_marked = 1;
    check_both(c);
    c.n_rows = 40;
    c.n_marked = 33;
    check_both(c);
}

static void embeddings(void **state)
{
    (void)state;
    vulkan_driver_need();
    for (uint32_t f = 0; f < N_FORMATS; f++)
        check((linear_case){.kind = PLAN_EMBED,
                            .type = formats[f],
                            .cols = cols_for(formats[f], f),
                            .n_rows = 1 + f,
                            .rows = {100},
                            .tiny_scales = f % 3 == 1,
                            .bias = f % 2 == 1}); // learned positions
}

// ---- limits -----------------------------------------------------------------------------------

// Bindings and allocations of a few rows: tables, fused pairs and logits lie in many pieces.
static void r9_pieces(void **state)
{
    (void)state;
    vulkan_driver_need();
    static const exec_gpu tiny = {.max_binding = VK_MIN_MAX_BINDING, .max_alloc = VK_MIN_MAX_ALLOC};
    static const exec_gpu least = {.max_binding = VK_MIN_MAX_BINDING, .minimum_limits = true};
    linear_case c = {.kind = PLAN_LOGITS_OP,
                     .type = QUANT_F32,
                     .cols = 130,
                     .n_rows = 70,
                     .n_marked = 50,
                     .rows = {2000},
                     .bias = true,
                     .gpu = &tiny};
    check(c);
    c.gpu = &least;
    c.type = QUANT_Q8_0;
    c.cols = 256;
    c.n_rows = c.n_marked = 2;
    check(c);
    c.n_rows = c.n_marked = 30;
    check(c);
    c.kind = PLAN_EMBED;
    c.n_marked = 0;
    c.n_rows = 20;
    check(c);
    c = (linear_case){.kind = PLAN_LINEAR,
                      .type = QUANT_Q8_0,
                      .cols = 256,
                      .n_rows = 2,
                      .rows = {1100, 1100},
                      .gated = true,
                      .fn = PLAN_FN_SILU,
                      .gpu = &tiny};
    check(c);
    c.q8_out = true;
    c.rows[0] = c.rows[1] = 1120;
    check(c);
    c.gated = c.q8_out = false;
    c.rows[1] = 30;
    c.rows[2] = 400;
    c.bias = true;
    check(c);
}

static void r20_debug_barriers_change_nothing(void **state)
{
    (void)state;
    vulkan_driver_need();
    linear_case c = {.kind = PLAN_LINEAR,
                     .type = QUANT_Q4_K,
                     .cols = 256,
                     .n_rows = 5,
                     .rows = {40, 9, 11},
                     .bias = true,
                     .residual = NO_RESIDUAL,
                     .seed = 5};
    const exec_gpu plain = {.selector = "0"}, full = {.selector = "0", .debug_barriers = true};
    void *a = NULL, *b = NULL;
    uint64_t n = 0;
    c.gpu = &plain;
    linear_case_run(&c, &a, &n);
    c.gpu = &full;
    linear_case_run(&c, &b, &n);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
}

// Everything above together: no kernel of these operations that has not been compared. Those whose
// lanes have rows of their own are for one kind of device.
static void every_kernel_has_run(void **state)
{
    (void)state;
    vk_device *d = vulkan_open(NULL);
    bool lane_rows = d->profile->lane_rows;
    vk_device_close(d);
    static const char *const ours[] = {"mat", "embed"};
    int n = 0, missing = 0;
    const vk_shader *shader;
    for (size_t i = 0; (shader = vk_shader_at(i)) != NULL; i++) {
        if (strncmp(shader->name, ours[0], 3) != 0 && strncmp(shader->name, ours[1], 5) != 0)
            continue;
        if (!lane_rows && !strncmp(shader->name, "matrow", 6)) continue;
        n++;
        if (vk_shader_uses(shader) > 0) continue;
        missing++;
        print_message("  %s has not run\n", shader->name);
    }
    assert_true(n > 90);
    assert_int_equal(missing, 0);
}

int main(void)
{
    vulkan_driver_use();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_on_one_row),
        cmocka_unit_test(formats_on_many_rows),
        cmocka_unit_test(r24_formats_without_features),
        cmocka_unit_test(formats_in_tiles),
        cmocka_unit_test(formats_as_on_a_card),
        cmocka_unit_test(gated_products),
        cmocka_unit_test(residuals),
        cmocka_unit_test(row_ranges),
        cmocka_unit_test(edges),
        cmocka_unit_test(r27_small_and_large_numbers),
        cmocka_unit_test(nan_is_not_hidden),
        cmocka_unit_test(logits),
        cmocka_unit_test(embeddings),
        cmocka_unit_test(r9_pieces),
        cmocka_unit_test(r20_debug_barriers_change_nothing),
        cmocka_unit_test(r9_a_vocabulary_of_151936_rows),
        cmocka_unit_test(r9_a_tensor_of_148_mib),
        cmocka_unit_test(every_kernel_has_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
