// How the program runs on a driver: the folder of compiled kernels, a device lost while it works.
#include "support/test.h"

#include "support/runner.h"
#include "support/vulkan_drivers.h"

#include <math.h>

#include "base/os.h"

static const char *model_path(void)
{
    return test_data("golden/llama-tied.f16.gguf");
}

// `pumice ask MODEL -p x` with more words and variables; returns the exit status.
static int ask(const char *variables, const char *words, char **out, char **err)
{
    char command[3000];
    snprintf(command, sizeof command,
             "%s '%s' ask '%s' --raw -p hello --max-tokens 3 --temp 0 --device vulkan:0 %s",
             variables, PUMICE_PROGRAM, model_path(), words);
    return test_run(command, out, err);
}

static int count_files(const char *folder)
{
    char command[1200], *out = NULL;
    snprintf(command, sizeof command, "ls '%s' | wc -l", folder);
    int n = test_run(command, &out, NULL) == 0 ? atoi(out) : -1;
    free(out);
    return n;
}

static void kernels_are_kept(void **state)
{
    (void)state;
    vulkan_driver_need();
    char cache[900], variables[1000], folder[1000], *first = NULL, *second = NULL;
    snprintf(cache, sizeof cache, "%s", test_temp("xdg"));
    snprintf(variables, sizeof variables, "XDG_CACHE_HOME='%s'", cache);
    snprintf(folder, sizeof folder, "%s/pumice", cache);
    assert_int_equal(ask(variables, "", &first, NULL), 0);
    int n = count_files(folder);
    assert_true(n > 0);
    assert_int_equal(ask(variables, "", &second, NULL), 0);
    assert_string_equal(first, second);
    assert_int_equal(count_files(folder), n); // none beside, none unfinished
    free(second);

    // What can't be written is no error, and nothing to speak of.
    char blocked[900], *err = NULL;
    snprintf(blocked, sizeof blocked, "%s", test_temp("not a folder"));
    test_write(blocked, "x", 1);
    snprintf(variables, sizeof variables, "XDG_CACHE_HOME='%s'", blocked);
    assert_int_equal(ask(variables, "", &second, &err), 0);
    assert_string_equal(first, second);
    assert_null(strstr(err, "pumice:"));
    free(first);
    free(second);
    free(err);
}

// The library by itself keeps nothing.
static void library_keeps_nothing(void **state)
{
    (void)state;
    vulkan_driver_need();
    char *home = getenv("HOME"), saved[1024], folder[1024];
    snprintf(saved, sizeof saved, "%s", home ? home : "");
    snprintf(folder, sizeof folder, "%s", test_temp("home"));
    assert_ok(os_make_directory(folder));
    setenv("HOME", folder, 1);
    pm_options *o = pm_options_create();
    assert_ok(pm_options_set(o, "device", "vulkan:0"));
    pm_model *m = NULL;
    pm_session *s = NULL;
    int32_t id = 1;
    assert_ok(pm_model_open(model_path(), o, &m));
    assert_ok(pm_session_create(m, o, &s));
    assert_ok(pm_session_eval(s, &id, 1, 0));
    pm_session_destroy(s);
    pm_model_close(m);
    pm_options_destroy(o);
    setenv("HOME", saved, 1);
    assert_int_equal(count_files(folder), 0);
}

// ---- lost -------------------------------------------------------------------------------------

// A recording that is cut behind every dispatch: one submission each.
static pm_status add_three_times(vk_device *d)
{
    char bytes[28] = {0};
    vk_buffer b = {0}, step = {0};
    vk_recording *r = NULL;
    pm_status status = vk_buffer_create(d, 64, VK_MEMORY_DEVICE, "a buffer", &b);
    if (status == PM_OK) status = vk_buffer_create(d, 16384, VK_MEMORY_SHARED, "the step", &step);
    if (status == PM_OK) status = vk_recording_begin(d, (vk_range){&step, 0, 16384}, false, &r);
    vk_range range = {&b, 0, 64};
    vk_dispatch add = {
        .label = "add",
        .key = {.shader = vk_shader_named("add"), .n_spec = 1, .spec = {32}},
        .bind = {{range, true, false}, {range, true, false}, {range, false, true}},
        .push = bytes,
        .push_bytes = sizeof bytes,
        .groups = {1, 1, 1},
    };
    for (int i = 0; i < 3 && status == PM_OK; i++) {
        status = vk_recording_may_cut(r, 10);
        if (status == PM_OK) status = vk_record(r, &add);
    }
    if (status == PM_OK) status = vk_recording_end(r);
    for (int i = 0; i < 6 && status == PM_OK; i++) status = vk_submit(r); // more than are kept
    for (int i = 0; i < 6 && status == PM_OK; i++) status = vk_wait(r);
    vk_recording_free(r);
    vk_buffer_destroy(d, &step);
    vk_buffer_destroy(d, &b);
    return status;
}

static void r18_lost_at_each_submission(void **state)
{
    (void)state;
    exec_gpu options = {.max_submit_ms = 5};
    vk_device *d = vulkan_open(&options);
    assert_ok(add_three_times(d));
    int n = atomic_load(&d->n_submits);
    assert_int_equal(n, 6 * 3);
    vk_device_close(d);
    for (options.lose_at_submit = 1; options.lose_at_submit <= n; options.lose_at_submit++) {
        d = vulkan_open(&options);
        assert_int_equal(add_three_times(d), PM_ERROR_DEVICE);
        assert_non_null(strstr(error_message(), d->title));
        assert_non_null(strstr(error_message(), "VK_ERROR_DEVICE_LOST"));
        assert_int_equal(atomic_load(&d->n_submits), options.lose_at_submit); // none after it
        assert_int_equal(add_three_times(d), PM_ERROR_DEVICE);
        assert_non_null(strstr(error_message(), "lost"));
        vk_device_close(d);
    }
}

// ---- kernels ----------------------------------------------------------------------------------

// A state for steps of up to n_batch rows: with 1, a sixth of the kernels.
static pm_status open_model(const char *file, const exec_gpu *gpu, uint32_t n_batch, plan_act act,
                            runner *r)
{
    plan_options options = {.n_ctx = 64,
                            .n_slots = 1,
                            .n_batch = n_batch,
                            .kv_type = act == PLAN_ACT_Q8 ? QUANT_F16 : QUANT_F32,
                            .act = act};
    exec_params params = {.n_threads = 2, .gpu = gpu};
    return runner_try(r, test_data(file), &exec_vulkan, &params, &options);
}

static const char *const one_model = "golden/llama-mix-legacy.gguf"; // five formats

enum { N_IDS = 20 };

// Logits of every row, in steps of all sizes that the state allows: [N_IDS][n_vocab].
static float *logits_of(runner *r)
{
    int32_t ids[N_IDS];
    for (int i = 0; i < N_IDS; i++) ids[i] = i * 7 + 3;
    size_t n_vocab = r->set->n_vocab;
    float *logits = malloc(N_IDS * n_vocab * sizeof *logits);
    assert_non_null(logits);
    static const uint32_t rows[] = {1, 2, 3, 5, 9, N_IDS};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        runner_reset(r);
        for (uint32_t at = 0; at < N_IDS; at += rows[i]) {
            uint32_t n = N_IDS - at < rows[i] ? N_IDS - at : rows[i];
            runner_eval(r, ids + at, n, logits + at * n_vocab, NULL);
        }
    }
    return logits;
}

// Another kernel rounds otherwise; a wrong one is far off.
static void about_the_same(const float *a, const float *b, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) < 1e-3f))
            fail_msg("%s: logit %zu is off by %g", what, i, (double)fabsf(a[i] - b[i]));
}

// Nothing is left to be made when the first token comes.
static void r22_all_kernels_before_the_first_token(void **state)
{
    (void)state;
    vulkan_driver_need();
    static const exec_gpu ways[] = {{.selector = "0", .prepare = true},
                                    {.selector = "0", .prepare = true, .minimum_limits = true},
                                    {.selector = "0", .prepare = true, .disable = "int8-dot"}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        runner r;
        assert_ok(open_model(one_model, &ways[i], N_IDS, PLAN_ACT_Q8, &r));
        int made = atomic_load(&r.weights->device->n_pipelines_made);
        assert_true(made > 10);
        print_message("  %s\n", exec_vulkan.prepared(r.exec));
        free(logits_of(&r));
        assert_int_equal(atomic_load(&r.weights->device->n_pipelines_made), made);
        assert_null(exec_vulkan.warning(r.weights, 0));
        runner_close(&r);
    }
}

// Any one pipeline can't be made: the same answer by a simpler kernel, with one warning that names
// it, or an error that does.
static void each_kernel_fails(uint32_t n_batch, int stride)
{
    exec_gpu gpu = {.selector = "0", .prepare = true, .pick = true};
    runner r;
    assert_ok(open_model(one_model, &gpu, n_batch, PLAN_ACT_F32, &r));
    int n = atomic_load(&r.weights->device->n_pipelines_made), n_replaced = 0, n_refused = 0;
    size_t n_logits = N_IDS * r.set->n_vocab;
    float *expected = logits_of(&r);
    runner_close(&r);
    for (gpu.fail_pipeline = 1; gpu.fail_pipeline <= n; gpu.fail_pipeline += stride) {
        pm_status status = open_model(one_model, &gpu, n_batch, PLAN_ACT_F32, &r);
        if (status == PM_OK) {
            const char *warning = exec_vulkan.warning(r.weights, 0);
            assert_non_null(warning);
            assert_non_null(strstr(warning, r.weights->device->title));
            assert_non_null(strstr(warning, "cannot be made: VK_ERROR_UNKNOWN"));
            assert_null(exec_vulkan.warning(r.weights, 1));
            float *got = logits_of(&r);
            about_the_same(got, expected, n_logits, warning);
            free(got);
            n_replaced++;
        } else {
            assert_int_equal(status, PM_ERROR_DEVICE);
            assert_non_null(strstr(error_message(), "kernel '"));
            assert_non_null(strstr(error_message(), "cannot be made: VK_ERROR_UNKNOWN"));
            n_refused++;
        }
        runner_close(&r);
    }
    print_message("  %d kernels: %d replaced, %d refused\n", n, n_replaced, n_refused);
    assert_true(n_replaced >= 2 && n_refused <= 8); // refused: one of norm, activate, embed, ...
    free(expected);
}

static void r19_each_kernel_fails(void **state)
{
    (void)state;
    vulkan_driver_need();
    each_kernel_fails(1, 1);
    each_kernel_fails(N_IDS, 11);
}

// ---- the self-test ----------------------------------------------------------------------------

// "41 kernels: 41 made in 0.52 s, 30 tests of them in 0.10 s"
static int n_tests(const runner *r)
{
    const char *at = strstr(exec_vulkan.prepared(r->exec), "s, ");
    assert_non_null(at);
    return atoi(at + 3);
}

static const char *const all_models[] = {"llama-mix-legacy", "llama-mix-k", "gemma3.q8_0",
                                         "gptneox.f32"};

static void r28_every_kernel_is_tested_once(void **state)
{
    (void)state;
    vulkan_driver_need();
    for (size_t i = 0; i < sizeof all_models / sizeof all_models[0]; i++) {
        char cache[1000], file[100];
        snprintf(cache, sizeof cache, "%s", test_temp("tested"));
        snprintf(file, sizeof file, "golden/%s.gguf", all_models[i]);
        if (!os_file_exists(test_data(file))) fail_msg("no %s", file);
        exec_gpu gpu = {.selector = "0", .prepare = true, .cache_dir = cache};
        // Many kernels are common to the models: each is tested with the first that needs it.
        runner r;
        assert_ok(open_model(file, &gpu, N_IDS, PLAN_ACT_Q8, &r));
        if (i == 0) assert_true(n_tests(&r) > 5);
        print_message("  %s: %s\n", all_models[i], exec_vulkan.prepared(r.exec));
        assert_null(exec_vulkan.warning(r.weights, 0));
        runner_close(&r);
        assert_ok(open_model(file, &gpu, N_IDS, PLAN_ACT_Q8, &r));
        assert_int_equal(n_tests(&r), 0);
        runner_close(&r);
    }
    // The file of another build, or one that somebody changed, counts for nothing.
    char command[1200], *path = NULL;
    snprintf(command, sizeof command, "ls %s/*.tested", test_temp("tested"));
    assert_int_equal(test_run(command, &path, NULL), 0);
    path[strcspn(path, "\n")] = 0;
    size_t n = 0;
    char *content = test_read(path, &n);
    content[n - 1] ^= 1;
    test_write(path, content, n);
    free(content);
    exec_gpu gpu = {.selector = "0", .prepare = true, .cache_dir = test_temp("tested")};
    runner r;
    assert_ok(open_model(one_model, &gpu, N_IDS, PLAN_ACT_Q8, &r));
    assert_true(n_tests(&r) > 5);
    runner_close(&r);
    free(path);
}

// Every kernel in use computes something else, one at a time: it is found out, and either a simpler
// one gives the answer or there is none.
static void r28_each_kernel_is_wrong(void **state)
{
    (void)state;
    vulkan_driver_need();
    exec_gpu gpu = {.selector = "0", .prepare = true, .pick = true};
    vk_keys keys = {0};
    runner r;
    assert_ok(open_model(one_model, &gpu, 1, PLAN_ACT_F32, &r));
    size_t n_logits = N_IDS * r.set->n_vocab;
    float *expected = logits_of(&r);
    assert_ok(vk_collect_keys(r.exec, (vk_layers){0, r.set->n_layer, true}, &keys));
    runner_close(&r);
    int n_replaced = 0, n_refused = 0;
    for (size_t i = 0; i < keys.n; i++) {
        gpu.wrong_kernel = keys.keys[i].shader->name;
        pm_status status = open_model(one_model, &gpu, 1, PLAN_ACT_F32, &r);
        if (status != PM_OK) {
            assert_int_equal(status, PM_ERROR_DEVICE);
            assert_non_null(strstr(error_message(), gpu.wrong_kernel));
            assert_non_null(strstr(error_message(), "gives wrong results"));
            n_refused++;
        } else {
            const char *warning = exec_vulkan.warning(r.weights, 0);
            if (!warning) fail_msg("'%s' is wrong, and nobody has seen it", gpu.wrong_kernel);
            assert_non_null(strstr(warning, gpu.wrong_kernel));
            assert_null(exec_vulkan.warning(r.weights, 1));
            float *got = logits_of(&r);
            about_the_same(got, expected, n_logits, gpu.wrong_kernel);
            free(got);
            n_replaced++;
        }
        runner_close(&r);
    }
    print_message("  %d replaced, %d refused\n", n_replaced, n_refused);
    assert_true(n_replaced > 0 && n_refused > 0); // both ways have been gone
    free(expected);
    free(keys.keys);
}

int main(void)
{
    vulkan_driver_use();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_are_kept),
        cmocka_unit_test(library_keeps_nothing),
        cmocka_unit_test(r18_lost_at_each_submission),
        cmocka_unit_test(r22_all_kernels_before_the_first_token),
        cmocka_unit_test(r19_each_kernel_fails),
        cmocka_unit_test(r28_every_kernel_is_tested_once),
        cmocka_unit_test(r28_each_kernel_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
