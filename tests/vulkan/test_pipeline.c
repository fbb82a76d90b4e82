// Pipelines by key, made on several threads, failing ones, the cache file.
#include "support/test.h"
#include "support/vulkan_drivers.h"

#include "base/os.h"

static vk_pipeline_key key_of(const char *name, uint32_t workgroup)
{
    vk_pipeline_key key = {.shader = vk_shader_named(name), .n_spec = 1, .spec = {workgroup}};
    assert_non_null(key.shader);
    return key;
}

static void made_once(void **state)
{
    (void)state;
    vk_device *d = vulkan_open(NULL);
    assert_null(vk_shader_named("no such shader"));
    vk_pipeline_key a = key_of("add", 32), b = key_of("add", 64);
    VkPipeline one, again, other;
    assert_ok(vk_pipeline_get(d, &a, &one));
    assert_ok(vk_pipeline_get(d, &b, &other));
    a.spec[5] = 77; // what lies behind n_spec is no part of a key
    assert_ok(vk_pipeline_get(d, &a, &again));
    assert_true(one == again);
    assert_true(one != other);
    assert_int_equal(atomic_load(&d->n_pipelines_made), 2);
    vk_device_close(d);
}

static void r22_on_several_threads(void **state)
{
    (void)state;
    enum { N = 40 };
    vk_device *d = vulkan_open(NULL);
    vk_pipeline_key keys[N];
    for (uint32_t i = 0; i < N; i++) keys[i] = key_of("add", 1 + i);
    vk_keys list = {keys, N, N};
    size_t n_made = 0;
    assert_ok(vk_pipelines_make(d, &list, &n_made));
    assert_int_equal(n_made, N);
    int made = atomic_load(&d->n_pipelines_made);
    assert_true(made >= N);
    VkPipeline pipelines[N];
    for (uint32_t i = 0; i < N; i++) {
        assert_ok(vk_pipeline_get(d, &keys[i], &pipelines[i]));
        for (uint32_t j = 0; j < i; j++) assert_true(pipelines[i] != pipelines[j]);
    }
    assert_ok(vk_pipelines_make(d, &list, &n_made));
    assert_int_equal(n_made, 0);
    assert_ok(vk_pipelines_make(d, &(vk_keys){0}, NULL));
    assert_int_equal(atomic_load(&d->n_pipelines_made), made);
    vk_device_close(d);
}

static void r19_failing(void **state)
{
    (void)state;
    enum { N = 6 };
    for (int n = 1; n <= N; n++) {
        vk_device *d = vulkan_open(&(exec_gpu){.fail_pipeline = n});
        vk_pipeline_key keys[N];
        for (uint32_t i = 0; i < N; i++) keys[i] = key_of("add", 8 * (i + 1));
        vk_keys list = {keys, N, N};
        assert_int_equal(vk_pipelines_make(d, &list, NULL), PM_ERROR_DEVICE);
        assert_non_null(strstr(error_message(), d->title));
        assert_non_null(strstr(error_message(), "kernel 'add'"));
        assert_true(vk_shader_is_bad(d, keys[0].shader));
        assert_int_equal(vk_n_bad(d), 1);
        assert_ok(vk_pipelines_make(d, &list, NULL)); // only that one failed
        vk_device_close(d);
    }
}

// ---- the cache file ---------------------------------------------------------------------------

static char *find_file(const char *folder)
{
    char command[1200], *out = NULL;
    snprintf(command, sizeof command, "ls %s/*", folder);
    if (test_run(command, &out, NULL) != 0) {
        free(out);
        return NULL;
    }
    out[strcspn(out, "\n")] = 0;
    return out;
}

static void open_make_save(const char *folder)
{
    vk_device *d = vulkan_open(&(exec_gpu){.cache_dir = folder});
    vk_pipeline_key key = key_of("add", 32);
    VkPipeline pipeline;
    assert_ok(vk_pipeline_get(d, &key, &pipeline));
    vk_pipelines_save(d);
    vk_device_close(d);
}

static void cache_file(void **state)
{
    (void)state;
    vulkan_driver_need();
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", test_temp("new/cache")); // is made with its parents
    open_make_save(folder);
    char *path = find_file(folder);
    assert_non_null(path);
    size_t n = 0;
    char *good = test_read(path, &n);
    assert_true(n > 32);

    // A good file stays. Whatever is wrong with one, the device opens and a good one is written.
    test_write(path, good, n);
    open_make_save(folder);
    size_t n_now = 0;
    char *now = test_read(path, &n_now);
    assert_int_equal(n_now, n);
    assert_memory_equal(now, good, n);
    free(now);
    for (size_t at = 0; at < n; at += at < 72 ? 5 : 1 + n / 6) {
        char *bad = malloc(n);
        memcpy(bad, good, n);
        bad[at] = (char)(bad[at] ^ 0x11); // the header: another version, driver, device, size, sum
        test_write(path, bad, n);
        open_make_save(folder);
        now = test_read(path, &n_now);
        assert_true(n_now != n || memcmp(now, bad, n) != 0);
        free(now);
        free(bad);
    }
    const size_t lengths[] = {0, 1, 40, n / 2, n - 1};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        test_write(path, good, lengths[i]);
        open_make_save(folder);
        free(test_read(path, &n_now));
        assert_true(n_now > lengths[i]);
    }
    char *longer = calloc(1, n + 10);
    memcpy(longer, good, n);
    test_write(path, longer, n + 10);
    open_make_save(folder);
    free(test_read(path, &n_now));
    assert_true(n_now != n + 10);
    free(longer);
    free(good);
    free(path);
}

static void unwritable_folder(void **state)
{
    (void)state;
    vulkan_driver_need();
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", test_temp("a file"));
    test_write(folder, "x", 1);
    open_make_save(folder); // there can be no folder of this name
    strncat(folder, "/below", sizeof folder - strlen(folder) - 1);
    open_make_save(folder);
}

int main(void)
{
    vulkan_driver_use();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_once),         cmocka_unit_test(r22_on_several_threads),
        cmocka_unit_test(r19_failing),       cmocka_unit_test(cache_file),
        cmocka_unit_test(unwritable_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
