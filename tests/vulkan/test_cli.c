// The program on a driver: exit statuses, what it says about the device.
#include "cli/cli_test.h"

#include "support/vulkan_drivers.h"

// Nothing that the validation layer would say may hide in what a test reads.
static int on_driver(char **out, char **err, const char *arguments, const char *rest)
{
    vulkan_driver_need();
    int status = pumice(out, err, "$P %s '%s' %s", arguments, tiny(), rest);
    static const char *const marks[] = {"Validation", "VUID-", "SYNC-HAZARD", "UNASSIGNED-"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (strstr(*out, marks[i]) || strstr(*err, marks[i]))
            fail_msg("%s %s:\n%s\n%s", arguments, rest, *out, *err);
    return status;
}

static void expect(int wanted, const char *part, const char *arguments, const char *rest)
{
    char *out, *err;
    int status = on_driver(&out, &err, arguments, rest);
    if (status != wanted || (part && !strstr(out, part) && !strstr(err, part)))
        fail_msg("%s %s: status %d, wanted %d and '%s'\nstdout: %.2000s\nstderr: %.2000s",
                 arguments, rest, status, wanted, part ? part : "", out, err);
    free(out);
    free(err);
}

static void check_ends_with_0_or_5(void **state)
{
    (void)state;
    expect(0, "passed: ", "check", "--device vulkan:0 --tokens 12 --seed 7 -q");
    static const char *const acts[] = {"f32", "q8"};
    for (int i = 0; i < 2; i++) {
        char rest[128];
        snprintf(rest, sizeof rest,
                 "--device vulkan:0 --tokens 12 --act %s --inject rope_kv:3 --ops -q", acts[i]);
        expect(5, "first bad operation: ROPE_KV, layer 3", "check", rest);
    }
}

static void r3_a_wrong_name_ends_with_4(void **state)
{
    (void)state;
    vulkan_driver_need();
    char name[40];
    vk_device *d = vulkan_open(NULL);
    snprintf(name, sizeof name, "%.8s", d->properties.deviceName);
    vk_device_close(d);
    expect(4, name, "ask", "-n 1 -p hi --raw --device vulkan:9");
    expect(4, name, "ask", "-n 1 -p hi --raw --device 'vulkan:no such card'");
    expect(4, name, "ask", "-n 1 -p hi --raw --device vulkan"); // a software driver is not chosen
    expect(4, "skipped", "check", "--device vulkan:9 -q");
    expect(2, "feature 'nonsense'", "ask",
           "-n 1 -p hi --raw --device vulkan:0 --vk-disable nonsense");
    expect(2, "max-alloc", "ask", "-n 1 -p hi --raw --device vulkan:0 --max-alloc 10");
}

// The same answer whatever part of the model runs there, with what the options leave of the device.
static void r11_layers_on_the_device(void **state)
{
    (void)state;
    static const char *const rests[] = {
        "--device vulkan:0 --gpu-layers all",
        "--device vulkan:0 --gpu-layers 2",
        "--device vulkan:0 --gpu-layers auto",
        "--device vulkan:0 --vk-disable all",
        "--device vulkan:0 --vk-limits minimum",
        "--device vulkan:0 --max-alloc 1048576 --max-binding 262144 --batch 64",
        "--device vulkan:0 --vk-debug-barriers --max-submit 1",
        "--device vulkan:0 --no-fuse --batch 3",
    };
    static const char ask[] = "ask --raw --temp 0 --act f32 --kv-type f32 -n 12 -p 'The word'";
    char *expected, *err;
    assert_int_equal(on_driver(&expected, &err, ask, "--device reference -q"), 0);
    free(err);
    for (size_t i = 0; i < sizeof rests / sizeof rests[0]; i++) {
        char *out;
        int status = on_driver(&out, &err, ask, rests[i]);
        if (status != 0) fail_msg("%s: status %d: %s", rests[i], status, err);
        if (strcmp(out, expected) != 0)
            fail_msg("%s: '%s', the reference says '%s'", rests[i], out, expected);
        free(out);
        free(err);
    }
    free(expected);
}

static void r25_verbose_names_device_and_variants(void **state)
{
    (void)state;
    expect(0, "int8 dot product", "ask", "--raw --temp 0 -n 1 -p hi -v --device vulkan:0");
    expect(0, "no subgroups", "ask",
           "--raw --temp 0 -n 1 -p hi -v --device vulkan:0 --vk-disable subgroup");
}

int main(void)
{
    vulkan_driver_use();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_ends_with_0_or_5),
        cmocka_unit_test(r3_a_wrong_name_ends_with_4),
        cmocka_unit_test(r11_layers_on_the_device),
        cmocka_unit_test(r25_verbose_names_device_and_variants),
    };
    return cmocka_run_group_tests_name("vulkan cli", tests, NULL, NULL);
}
