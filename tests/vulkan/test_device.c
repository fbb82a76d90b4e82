// Opening devices: features, limits, names, faults, several at once; the list of devices.
#include "support/test.h"
#include "support/vulkan_drivers.h"

#include <jansson.h>

#include "base/os.h"
#include "exec/devices.h"

static void r7_title(void **state)
{
    (void)state;
    vk_device *d = vulkan_open(NULL);
    print_message("  %s\n", d->title);
    assert_non_null(strstr(d->title, d->properties.deviceName));
    assert_non_null(strstr(d->title, d->probe.driver_version));
    assert_true(strlen(d->probe.driver_version) > 0);
    assert_int_equal(vk_fail(d, "a thing", VK_ERROR_TOO_MANY_OBJECTS), PM_ERROR_DEVICE);
    assert_non_null(strstr(error_message(), d->title));
    assert_non_null(strstr(error_message(), "a thing: VK_ERROR_TOO_MANY_OBJECTS"));
    assert_ok(vk_alive(d));
    assert_int_equal(vk_fail(d, "a thing", VK_ERROR_DEVICE_LOST), PM_ERROR_DEVICE);
    assert_int_equal(vk_alive(d), PM_ERROR_DEVICE);
    assert_non_null(strstr(error_message(), d->title));
    vk_device_close(d);
    vk_device_close(NULL);
}

// A device with nothing beyond Vulkan 1.1, and what the specification asks of it.
static vk_probe plain_device(void)
{
    vk_probe p = {.candidate = {.type = VK_PHYSICAL_DEVICE_TYPE_OTHER, .driver_id = 9999},
                  .max_alloc = 1 << 30,
                  .max_buffer = 1 << 30,
                  .subgroup_size = 1};
    VkPhysicalDeviceLimits *l = &p.properties.limits;
    l->maxStorageBufferRange = 1 << 27;
    l->minStorageBufferOffsetAlignment = 256;
    l->maxComputeWorkGroupInvocations = 128;
    l->maxComputeSharedMemorySize = 16384;
    for (int i = 0; i < 3; i++) {
        l->maxComputeWorkGroupCount[i] = 65535;
        l->maxComputeWorkGroupSize[i] = i < 2 ? 128 : 64;
    }
    return p;
}

static void r6_plain_device(void **state)
{
    (void)state;
    vk_probe p = plain_device();
    vk_features f;
    vk_limits l, minimum;
    assert_ok(vk_features_used(&p, &(exec_gpu){0}, &f));
    assert_false(f.subgroup || f.subgroup_size || f.int8_dot || f.memory_budget || f.timestamps);
    assert_ok(vk_limits_used(&p, &(exec_gpu){0}, &f, &l));
    assert_int_equal(l.subgroup_size, 0);
    assert_true(l.timestamp_ns == 0);
    assert_string_equal(vk_profile_for(&p)->name, "default");
    assert_true(vk_profile_for(&p)->matvec_invocations <= 128);
    const vk_profile *profile = NULL;
    assert_ok(vk_profile_used(&p, &(exec_gpu){0}, &profile));
    assert_string_equal(profile->name, "default");
    assert_ok(vk_profile_used(&p, &(exec_gpu){.profile = "discrete"}, &profile));
    assert_string_equal(profile->name, "discrete");
    assert_int_equal(vk_profile_used(&p, &(exec_gpu){.profile = "card"}, &profile), PM_ERROR_USAGE);
    assert_non_null(strstr(error_message(), "integrated"));
    // A device that says more is held to the same by minimum_limits.
    vk_probe big = p;
    big.subgroup = big.int8_dot = true;
    big.subgroup_size = 32;
    big.max_alloc = big.max_buffer = UINT64_C(1) << 40;
    big.properties.limits.maxStorageBufferRange = UINT32_MAX;
    big.properties.limits.minStorageBufferOffsetAlignment = 4;
    big.properties.limits.maxComputeWorkGroupInvocations = 1024;
    big.properties.limits.maxComputeSharedMemorySize = 1 << 16;
    big.properties.limits.maxComputeWorkGroupSize[0] = 1024;
    for (int i = 0; i < 3; i++) big.properties.limits.maxComputeWorkGroupCount[i] = INT32_MAX;
    exec_gpu options = {.minimum_limits = true};
    assert_ok(vk_features_used(&big, &options, &f));
    assert_false(f.subgroup || f.int8_dot);
    assert_ok(vk_limits_used(&big, &options, &f, &minimum));
    assert_int_equal(minimum.max_alloc, l.max_alloc);
    assert_int_equal(minimum.max_binding, l.max_binding);
    assert_int_equal(minimum.storage_align, l.storage_align);
    assert_memory_equal(minimum.max_groups, l.max_groups, sizeof l.max_groups);
    assert_int_equal(minimum.max_invocations, l.max_invocations);
    assert_int_equal(minimum.max_shared, l.max_shared);
    assert_int_equal(minimum.subgroup_size, l.subgroup_size);
    // Without: as much as it has, within what kernels count with.
    assert_ok(vk_features_used(&big, &(exec_gpu){0}, &f));
    assert_ok(vk_limits_used(&big, &(exec_gpu){0}, &f, &l));
    assert_true(f.subgroup && f.int8_dot);
    assert_int_equal(l.subgroup_size, 32);
    assert_int_equal(l.max_alloc, 1 << 30);
    assert_int_equal(l.max_binding, 1 << 30);
    assert_int_equal(l.storage_align, 16);
    assert_int_equal(l.max_groups[2], 65535);
    assert_int_equal(l.max_invocations, 1024);
    // A subgroup size that kernels don't know is none.
    static const uint32_t sizes[] = {0, 1, 2, 3, 4, 8, 16, 24, 32, 64, 128, 256};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t s = sizes[i];
        big.subgroup_size = s;
        assert_int_equal(vk_features_found(&big).subgroup,
                         s == 4 || s == 8 || s == 16 || s == 32 || s == 64 || s == 128);
    }
}

static void max_alloc_and_binding(void **state)
{
    (void)state;
    vk_probe p = plain_device();
    vk_features f = {0};
    vk_limits l;
    assert_ok(vk_limits_used(&p, &(exec_gpu){.max_alloc = 8 << 20}, &f, &l));
    assert_int_equal(l.max_alloc, 8 << 20);
    assert_int_equal(l.max_binding, 8 << 20); // a binding lies in one allocation
    assert_ok(vk_limits_used(&p, &(exec_gpu){.max_binding = (1 << 20) + 100}, &f, &l));
    assert_int_equal(l.max_alloc, 1 << 30);
    assert_int_equal(l.max_binding, 1 << 20); // a multiple of the alignment
    assert_ok(vk_limits_used(&p, &(exec_gpu){.max_alloc = UINT64_MAX, .max_binding = UINT64_MAX},
                             &f, &l));
    assert_int_equal(l.max_alloc, 1 << 30);
    assert_int_equal(l.max_binding, 1 << 27);
    assert_int_equal(vk_limits_used(&p, &(exec_gpu){.max_alloc = VK_MIN_MAX_ALLOC - 1}, &f, &l),
                     PM_ERROR_USAGE);
    assert_int_equal(vk_limits_used(&p, &(exec_gpu){.max_binding = 1}, &f, &l), PM_ERROR_USAGE);
}

// Every feature off alone and all off: the device opens, and nothing of it is used.
static void r5_features_off(void **state)
{
    (void)state;
    vk_device *d = vulkan_open(NULL);
    assert_false(d->features.pick); // logits lie in the host's memory already
    vk_device_close(d);
    d = vulkan_open(&(exec_gpu){.pick = true});
    vk_features found = vk_features_found(&d->probe);
    assert_true(found.subgroup && found.int8_dot && found.timestamps); // of both drivers
    assert_memory_equal(&d->features, &found, sizeof found);
    vk_device_close(d);
    for (uint32_t i = 0; vk_feature_name(i); i++) {
        d = vulkan_open(&(exec_gpu){.disable = vk_feature_name(i), .pick = true});
        for (uint32_t k = 0; vk_feature_name(k); k++) {
            bool off = k == i || (!strcmp(vk_feature_name(i), "subgroup") &&
                                  !strcmp(vk_feature_name(k), "subgroup-size"));
            assert_int_equal(vk_feature_value(&d->features, k),
                             vk_feature_value(&found, k) && !off);
        }
        vk_device_close(d);
    }
    d = vulkan_open(&(exec_gpu){.disable = "all", .pick = true});
    for (uint32_t k = 0; vk_feature_name(k); k++) assert_false(vk_feature_value(&d->features, k));
    assert_int_equal(d->limits.subgroup_size, 0);
    assert_true(d->limits.timestamp_ns == 0);
    vk_device_close(d);
    d = vulkan_open(&(exec_gpu){.disable = "timestamps,int8-dot"});
    assert_false(d->features.timestamps || d->features.int8_dot);
    assert_true(d->features.subgroup);
    vk_device_close(d);
    static const char *const wrong[] = {"sub", "subgroups", "int8-dot,x", "ALL"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        exec_gpu options = {.selector = "0", .disable = wrong[i]};
        assert_int_equal(vk_device_open(&options, &d), PM_ERROR_USAGE);
        assert_null(d);
        assert_non_null(strstr(error_message(), "int8-dot"));
    }
}

static void r3_by_name(void **state)
{
    (void)state;
    vk_device *d = vulkan_open(NULL);
    char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE], uuid[37];
    snprintf(name, sizeof name, "%.8s", d->properties.deviceName);
    vk_uuid_text(d->probe.candidate.uuid, uuid);
    vk_device_close(d);
    vk_device_close(vulkan_open(&(exec_gpu){.selector = name}));
    vk_device_close(vulkan_open(&(exec_gpu){.selector = uuid}));
    exec_gpu wrong = {.selector = "no such card"};
    assert_int_equal(vk_device_open(&wrong, &d), PM_ERROR_DEVICE);
    assert_non_null(strstr(error_message(), name));
    // A software driver is never chosen unasked.
    assert_int_equal(vk_device_open(NULL, &d), PM_ERROR_DEVICE);
    assert_non_null(strstr(error_message(), name));
}

static void open_and_copy(void *arg)
{
    pm_status *status = arg;
    exec_gpu options = {.selector = "0", .disable = "mapped"};
    vk_device *d = NULL;
    vk_buffer b = {0};
    unsigned char in[1000] = {1, 2, 3}, out[1000] = {0};
    *status = vk_device_open(&options, &d);
    if (*status != PM_OK) return;
    *status = vk_buffer_create(d, sizeof in, VK_MEMORY_DEVICE, "x", &b);
    if (*status == PM_OK) *status = vk_upload(d, &b, 0, in, sizeof in);
    if (*status == PM_OK) *status = vk_download(d, &b, 0, out, sizeof out);
    if (*status == PM_OK && memcmp(in, out, sizeof in) != 0) *status = PM_ERROR_RUN;
    vk_buffer_destroy(d, &b);
    vk_device_close(d);
}

static void several_at_once(void **state)
{
    (void)state;
    vulkan_driver_need();
    enum { N = 4 };
    os_thread *threads[N];
    pm_status statuses[N];
    for (int i = 0; i < N; i++)
        assert_ok(os_thread_start(open_and_copy, &statuses[i], &threads[i]));
    for (int i = 0; i < N; i++) os_thread_join(threads[i]);
    for (int i = 0; i < N; i++) assert_int_equal(statuses[i], PM_OK);
}

// ---- lists ------------------------------------------------------------------------------------

static void r4_list(void **state)
{
    (void)state;
    vulkan_driver_need();
    exec_device *list = NULL, found;
    size_t n = 0;
    assert_ok(exec_devices(NULL, &list, &n, NULL));
    assert_int_equal(n, 1);
    assert_string_equal(list[0].id, "vulkan:0");
    assert_string_equal(list[0].type, "software");
    assert_true(list[0].software);
    assert_true(list[0].available == UINT64_MAX);
    assert_true(strlen(list[0].name) > 0 && strlen(list[0].driver_version) > 0);
    exec_gpu options = {.selector = list[0].uuid};
    assert_ok(exec_device_find(&options, &found));
    assert_string_equal(found.title, list[0].title);
    free(list);

    char *text = NULL;
    assert_ok(pm_devices(NULL, &text));
    json_t *document = json_loads(text, 0, NULL);
    pm_free(text);
    const json_t *gpu = json_array_get(json_object_get(document, "devices"), 0);
    assert_string_equal(json_string_value(json_object_get(gpu, "id")), "vulkan:0");
    assert_string_equal(json_string_value(json_object_get(gpu, "type")), "software");
    assert_true(json_is_true(json_object_get(json_object_get(gpu, "features"), "subgroup")));
    assert_true(json_integer_value(
                    json_object_get(json_object_get(gpu, "limits"), "max_binding")) >= 1 << 27);
    assert_int_equal(json_array_size(json_object_get(document, "devices")), 2);
    json_decref(document);
}

// The read bandwidth, also where a binding holds little; what can't be allocated is an error.
static void bandwidth_of_the_device(void **state)
{
    (void)state;
    vulkan_driver_need();
    exec_gpu options = {.selector = "0"};
    double whole = 0, pieces = 0, none = 0;
    assert_ok(exec_device_bandwidth(&options, &whole));
    options.max_binding = options.max_alloc = 8 << 20;
    assert_ok(exec_device_bandwidth(&options, &pieces));
    // Wrong by a factor of 1000 in bytes or seconds would be seen; a busy machine is none.
    assert_true(whole > 1e7 && whole < 1e13);
    assert_true(pieces > 1e7 && pieces < 1e13);
    options.fail_alloc = 1;
    assert_int_equal(exec_device_bandwidth(&options, &none), PM_ERROR_DEVICE);
    assert_non_null(strstr(error_message(), "bandwidth"));
    assert_true(none == 0);
}

static void no_driver(void **state)
{
    (void)state;
    char *icd = getenv("VK_DRIVER_FILES"), saved[1024];
    if (!icd) {
        print_message("SKIPPED: no driver was chosen by PUMICE_TEST_DRIVER\n");
        skip();
    }
    snprintf(saved, sizeof saved, "%s", icd);
    setenv("VK_DRIVER_FILES", "/nonexistent.json", 1);
    setenv("VK_ICD_FILENAMES", "/nonexistent.json", 1);
    exec_device *list = NULL;
    size_t n = 9;
    const char *why = NULL;
    char *text = NULL;
    vk_device *d = NULL;
    pm_status listed = exec_devices(NULL, &list, &n, &why);
    pm_status printed = pm_devices(NULL, &text);
    exec_gpu options = {.selector = "0"};
    pm_status opened = vk_device_open(&options, &d);
    setenv("VK_DRIVER_FILES", saved, 1);
    setenv("VK_ICD_FILENAMES", saved, 1);
    assert_int_equal(listed, PM_OK);
    assert_int_equal(n, 0);
    assert_null(list);
    assert_non_null(strstr(why, "driver"));
    assert_int_equal(printed, PM_OK);
    pm_free(text);
    assert_int_equal(opened, PM_ERROR_DEVICE);
    assert_null(d);
}

int main(void)
{
    vulkan_driver_use();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r7_title),
        cmocka_unit_test(r6_plain_device),
        cmocka_unit_test(max_alloc_and_binding),
        cmocka_unit_test(r5_features_off),
        cmocka_unit_test(r3_by_name),
        cmocka_unit_test(several_at_once),
        cmocka_unit_test(r4_list),
        cmocka_unit_test(bandwidth_of_the_device),
        cmocka_unit_test(no_driver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
