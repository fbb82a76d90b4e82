// The operations without matrices on random shapes, on each driver, as the device is and with less:
// no subgroups, the specification's minimum, small pieces.
#include "support/test.h"

#include "support/op_tests.h"
#include "support/vulkan_drivers.h"

static const exec_gpu ways[] = {
    {.selector = "0"},
    {.selector = "0", .disable = "all", .minimum_limits = true},
    {.selector = "0", .max_alloc = 1 << 22, .max_binding = 1 << 21, .debug_barriers = true},
};

static void each_way(void (*test)(const op_target *))
{
    vulkan_driver_need();
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        op_target target = {.kind = &exec_vulkan,
                            .gpu = &ways[i],
                            .rows_may_differ = true,
                            .n_thread_counts = 2,
                            .thread_counts = {1, 2}};
        test(&target);
    }
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
EACH_WAY(pick)

int main(void)
{
    vulkan_driver_use();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_rope_kv),
        cmocka_unit_test(test_attend),
        cmocka_unit_test(test_pick),
    };
    return cmocka_run_group_tests_name("vulkan ops", tests, NULL, NULL);
}
