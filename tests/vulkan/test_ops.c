// The operations on random shapes, on each driver, as the device is and with less: no subgroups,
// the specification's minimum, small pieces, sizes of other kinds of devices. Those with matrices,
// in every format, form and flag, only with --long: test_linear.c has a choice of them.
#include "support/test.h"

#include "base/os.h"
#include "exec/vulkan/weights.h"
#include "support/op_tests.h"
#include "support/vulkan_drivers.h"

static const exec_gpu ways[] = {
    {.selector = "0"},
    {.selector = "0", .disable = "all", .minimum_limits = true},
    {.selector = "0", .max_alloc = 1 << 22, .max_binding = 1 << 21, .debug_barriers = true},
    {.selector = "0", .profile = "discrete"}, // what a card runs
};

// What the random models of CI would only come across by chance: one feature missing.
static const exec_gpu more_ways[] = {
    {.selector = "0", .disable = "subgroup"}, {.selector = "0", .disable = "subgroup-size"},
    {.selector = "0", .disable = "int8-dot"}, {.selector = "0", .disable = "mapped"},
    {.selector = "0", .disable = "all"},      {.selector = "0", .profile = "integrated"},
    {.selector = "0", .profile = "default"},
};

static bool long_run(void)
{
    return getenv("PUMICE_TEST_LONG") != NULL;
}

// The full product takes many minutes: it says how far it is.
static void one_way(void (*test)(const op_target *), const exec_gpu *way, unsigned every)
{
    double start = os_seconds();
    op_target target = {.kind = &exec_vulkan,
                        .gpu = way,
                        .format_name = vk_format_name,
                        .rows_may_differ = true,
                        .every = long_run() ? 0 : every,
                        .n_thread_counts = 1,
                        .thread_counts = {1}};
    test(&target);
    if (long_run())
        print_message("%s%s%s: %.0f s\n", way->profile ? "a card's sizes: " : "",
                      way->profile   ? way->profile
                      : way->disable ? way->disable
                                     : "-",
                      way->minimum_limits ? ", minimum"
                      : way->max_alloc    ? ", small pieces"
                                          : "",
                      os_seconds() - start);
}

// The newer lavapipe takes five times as long for a kernel.
static bool slow_driver(void)
{
    const char *driver = getenv("PUMICE_TEST_DRIVER");
    return driver && !strcmp(driver, "lavapipe-newer");
}

// Most of a random case's time goes into compiling its kernels: without --long each way takes some
// of them, in steps that meet all sizes and flags.
static void each_way(void (*test)(const op_target *))
{
    vulkan_driver_need();
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (!slow_driver() || long_run() || i % 3 == 0)
            one_way(test, &ways[i], i == 0 && !slow_driver() ? 3 : 7);
    }
    for (size_t i = 0; long_run() && i < sizeof more_ways / sizeof more_ways[0]; i++)
        one_way(test, &more_ways[i], 0);
}

#define EACH_WAY(name)                                                                             \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        each_way(op_test_##name);                                                                  \
    }

EACH_WAY(rows)
EACH_WAY(rope_kv)
EACH_WAY(attend)
EACH_WAY(masked)
EACH_WAY(pick)
EACH_WAY(nan)
EACH_WAY(linear)
EACH_WAY(logits)
EACH_WAY(embed)

static void r26_masked_rows(void **state)
{
    test_masked(state);
}

// The kernels of the operations above (of products: test_linear.c), all of them that this driver's
// kind of device has.
static void every_kernel_has_run(void **state)
{
    (void)state;
    vk_device *d = vulkan_open(NULL);
    static const char *const others[] = {"mat", "embed", "next", "read"};
    const vk_shader *shader;
    for (size_t i = 0; (shader = vk_shader_at(i)) != NULL; i++) {
        bool ours = !strstr(shader->name, "_one") || d->profile->lane_rows;
        for (size_t k = 0; k < sizeof others / sizeof others[0]; k++)
            ours = ours && strncmp(shader->name, others[k], strlen(others[k])) != 0;
        if (ours && vk_shader_uses(shader) == 0) fail_msg("'%s' has not run", shader->name);
    }
    vk_device_close(d);
}

int main(void)
{
    vulkan_driver_use();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_rope_kv),
        cmocka_unit_test(test_attend),
        cmocka_unit_test(test_pick),
        cmocka_unit_test(r26_masked_rows),
        cmocka_unit_test(test_nan),
        cmocka_unit_test(every_kernel_has_run),
    };
    const struct CMUnitTest products[] = {
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_embed),
    };
    int failed = cmocka_run_group_tests_name("vulkan ops", tests, NULL, NULL);
    if (long_run()) failed += cmocka_run_group_tests_name("vulkan products", products, NULL, NULL);
    return failed;
}
