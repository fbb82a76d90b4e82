// Is the validation layer awake? It must report a planted missing barrier; then its silence in the
// other tests means something.
#include "support/test.h"
#include "support/vulkan_drivers.h"

#include "base/os.h"

// In a process of its own, so that the messages don't count as this test's.
static int plant(const char *what)
{
    exec_gpu options = {.selector = "0", .disable = "mapped"};
    if (!strcmp(what, "barrier")) options.skip_barrier = 1;
    vk_device *d = NULL;
    vk_buffer b = {0}, step = {0};
    vk_recording *r = NULL;
    char bytes[128] = {0};
    pm_status status = vk_device_open(&options, &d);
    if (status != PM_OK) return 10;
    status = vk_buffer_create(d, 64, VK_MEMORY_DEVICE, "a buffer", &b);
    if (status == PM_OK) status = vk_buffer_create(d, 16384, VK_MEMORY_SHARED, "the step", &step);
    if (status == PM_OK) status = vk_recording_begin(d, (vk_range){&step, 0, 16384}, false, &r);
    vk_range range = {&b, 0, 64};
    vk_dispatch add = {
        .label = "add",
        .key = {.shader = vk_shader_named("add"), .n_spec = 1, .spec = {32}},
        .bind = {{range, true, false}, {range, true, false}, {range, false, true}},
        .push = bytes,
        .push_bytes = 28,
        .groups = {1, 1, 1},
    };
    for (int i = 0; i < 2 && status == PM_OK; i++) status = vk_record(r, &add);
    if (status == PM_OK) status = vk_recording_end(r);
    if (status == PM_OK) status = vk_submit(r);
    if (status == PM_OK) status = vk_wait(r);
    vk_recording_free(r);
    vk_buffer_destroy(d, &step);
    vk_buffer_destroy(d, &b);
    vk_device_close(d);
    return status == PM_OK ? 0 : 11;
}

static const char *program;

static void run_planted(const char *what, const char *expected)
{
    vulkan_driver_need();
    if (!vulkan_validation()[0]) {
        print_message("SKIPPED: no validation layer (tools/vulkan_env gets one)\n");
        skip();
    }
    char command[1100], *out = NULL, *err = NULL;
    snprintf(command, sizeof command, "'%s' %s", program, what);
    assert_int_equal(test_run(command, &out, &err), 0);
    bool reported = expected && (strstr(out, expected) || strstr(err, expected));
    bool silent = !strstr(out, "Validation") && !strstr(err, "Validation");
    free(out);
    free(err);
    assert_true(expected ? reported : silent);
}

static void silent_without_a_fault(void **state)
{
    (void)state;
    run_planted("nothing", NULL);
}

static void r21_missing_barrier(void **state)
{
    (void)state;
    run_planted("barrier", "SYNC-HAZARD");
}

int main(int argc, char **argv)
{
    vulkan_driver_use();
    if (argc > 1) return plant(argv[1]);
    program = argv[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silent_without_a_fault),
        cmocka_unit_test(r21_missing_barrier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
