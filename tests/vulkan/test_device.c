#include "support/test.h"
#include "support/vulkan_drivers.h"

static void opens(void **state)
{
    (void)state;
    vk_device *d = vulkan_open(NULL);
    print_message("%s\n", d->title);
    assert_true(strlen(d->title) > 8);
    vk_device_close(d);
}

int main(void)
{
    vulkan_driver_use();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
