// The commands that prove something, as programs on a GPU: what inspect shows is what the reference
// shows, and check, bench and perplexity say what ran.
#include "cli/cli_test.h"

#include <math.h>
#include <stdbool.h>

#include "proof/reproducer.h"
#include "support/vulkan_drivers.h"

// Both sides compute in 32 bits: what differs is rounding.
#define EXACT "--act f32 --kv-type f32 --seed 1 -q"

static bool on_swiftshader(void)
{
    const char *driver = getenv("PUMICE_TEST_DRIVER");
    return driver && !strcmp(driver, "swiftshader") && !getenv("PUMICE_TEST_LONG");
}

// The validation layer of the program that ran may have written to either stream.
static void assert_valid(const char *out, const char *err)
{
    static const char *const words[] = {"Validation", "VUID-", "SYNC-HAZARD", "UNASSIGNED-"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(out, words[i]) || strstr(err, words[i])) fail_msg("%s\n%s", out, err);
}

// A run with this status, its JSON released with json_decref.
#define json_with(wanted, ...)                                                                     \
    __extension__({                                                                                \
        char *with_out, *with_err;                                                                 \
        int with_status = pumice(&with_out, &with_err, __VA_ARGS__);                               \
        if (with_status != (wanted)) fail_msg("status %d: %s", with_status, with_err);             \
        assert_valid(with_out, with_err);                                                          \
        json_t *with_json = json_loads(with_out, 0, NULL);                                         \
        if (!with_json) fail_msg("no JSON: %.300s", with_out);                                     \
        free(with_out);                                                                            \
        free(with_err);                                                                            \
        with_json;                                                                                 \
    })

// ---- two documents ----------------------------------------------------------------------------

static size_t n_numbers;

static bool says_where(const char *key)
{
    return !strcmp(key, "device") || !strcmp(key, "description");
}

// The same but for rounding of numbers and for the device's name.
static void assert_alike(const json_t *a, const json_t *b, const char *where)
{
    if (json_is_number(a)) {
        double x = json_number_value(a), y = json_number_value(b);
        n_numbers++;
        if (!json_is_number(b) || !(fabs(x - y) <= 2e-4 * fmax(1, fabs(x))))
            fail_msg("%s: %.9g, expected %.9g", where, y, x);
    } else if (json_is_array(a)) {
        if (json_array_size(a) != json_array_size(b)) fail_msg("%s: another size", where);
        for (size_t i = 0; i < json_array_size(a); i++)
            assert_alike(json_array_get(a, i), json_array_get(b, i), where);
    } else if (json_is_object(a)) {
        const char *key;
        json_t *value;
        if (json_object_size(a) != json_object_size(b)) fail_msg("%s: other keys", where);
        json_object_foreach((json_t *)(uintptr_t)a, key, value)
        {
            if (!says_where(key)) assert_alike(value, key_of(b, key), key);
        }
    } else if (!json_equal(a, b)) {
        fail_msg("%s: %s, expected %s", where, json_string_value(b), json_string_value(a));
    }
}

// ---- inspect ----------------------------------------------------------------------------------

static void inspect_shows_what_the_reference_shows(void **state)
{
    (void)state;
    vulkan_driver_need();
    static const struct {
        const char *words;
        size_t numbers; // at least
    } views[] = {
        {"attention 'the cat sat on the mat' --act f32", 5 * 4 * 20},
        {"logits 'the cat sat' --top 5", 3 * 5 * 4},
        {"trace --prompt 'the cat' --raw --temp 0 --layer 2", 100},
    };
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) {
        json_t *expected = json_with(0, "$P inspect '%s' %s --device reference --json " EXACT,
                                     tiny(), views[i].words);
        json_t *found = json_with(0, "$P inspect '%s' %s --device vulkan:0 --json " EXACT, tiny(),
                                  views[i].words);
        n_numbers = 0;
        assert_alike(expected, found, views[i].words);
        if (n_numbers < views[i].numbers) fail_msg("%s: %zu numbers", views[i].words, n_numbers);
        json_decref(expected);
        json_decref(found);
    }
}

// ---- check ------------------------------------------------------------------------------------

static void check_reports_what_ran(void **state)
{
    (void)state;
    vulkan_driver_need();
    char report[1024];
    snprintf(report, sizeof report, "%s", test_temp("report.json"));
    json_t *all = json_with(0,
                            "$P check '%s' --device vulkan:0 --quick --repeat 5 --seed 3 --report "
                            "'%s' --json -q",
                            tiny(), report);
    assert_string_equal(json_string_value(key_of(all, "device")), "vulkan:0");
    const json_t *again = key_of(all, "repeat"), *op;
    assert_int_equal(json_integer_value(key_of(again, "runs")), 5);
    assert_int_equal(json_integer_value(key_of(again, "different")), 0);
    assert_true(json_is_null(key_of(all, "reproducer")));
    size_t i;
    json_array_foreach(key_of(all, "ops"), i, op)
    {
        const char *kernels = json_string_value(key_of(op, "kernels"));
        if (!kernels || !strchr(kernels, '(')) fail_msg("op %zu: no kernels", i);
    }
    json_decref(all);
    all = json_load_file(report, 0, NULL);
    assert_non_null(all);
    const json_t *device = key_of(all, "device");
    assert_string_equal(json_string_value(key_of(device, "id")), "vulkan:0");
    assert_true(json_is_string(key_of(device, "driver")));
    assert_true(json_object_size(key_of(device, "limits")) >= 5);
    assert_true(json_object_size(key_of(device, "features")) >= 3);
    json_decref(all);
}

static void a_fault_is_reproduced_without_the_model(void **state)
{
    (void)state;
    vulkan_driver_need();
    char report[1024];
    snprintf(report, sizeof report, "%s", test_temp("fault.json"));
    json_decref(json_with(5,
                          "$P check '%s' --device vulkan:0 --quick --ops --seed 3 --vk-disable "
                          "int8-dot --inject LINEAR:2:1 --report '%s' --json -q",
                          tiny(), report));
    json_t *all = json_with(0, "$P check --reproduce '%s' --json -q", report);
    assert_string_equal(json_string_value(key_of(all, "device")), "vulkan:0");
    assert_true(json_is_true(key_of(all, "pass")));
    assert_true(json_is_string(key_of(key_of(all, "op"), "kernels")));
    // What was switched off stays off.
    assert_non_null(strstr(json_string_value(key_of(all, "description")), "no int8"));
    json_decref(all);
    all = json_with(5, "$P check --reproduce '%s' --inject LINEAR:2:1 --json -q", report);
    assert_string_equal(json_string_value(key_of(key_of(all, "op"), "op")), "LINEAR");
    json_decref(all);
    all = json_with(0, "$P check --reproduce '%s' --device cpu --json -q", report);
    assert_string_equal(json_string_value(key_of(all, "device")), "cpu");
    json_decref(all);
}

// A layer that the cpu has is run again on the cpu, where the fault was.
static void a_layer_on_the_cpu_is_reproduced_there(void **state)
{
    (void)state;
    vulkan_driver_need();
    char report[1024];
    snprintf(report, sizeof report, "%s", test_temp("split.json"));
    json_decref(json_with(5,
                          "$P check '%s' --device vulkan:0 --gpu-layers 1 --quick --ops --inject "
                          "LINEAR:0 --report '%s' --json -q",
                          tiny(), report));
    json_t *all = json_load_file(report, 0, NULL);
    assert_true(json_is_true(key_of(all, "reproduced")));
    json_decref(all);
    all = json_with(0, "$P check --reproduce '%s' --json -q", report);
    assert_string_equal(json_string_value(key_of(all, "device")), "cpu");
    json_decref(all);
}

typedef struct sides {
    model *model;
    weights *reference, *tested;
    exec_gpu gpu;
    plan_options plan;
} sides;

// `wrong`: a kernel that computes something else; NULL: none.
static void open_sides(sides *s, const char *wrong)
{
    *s = (sides){.gpu = {.selector = "0", .wrong_kernel = wrong},
                 .plan = {.n_ctx = 24, .n_slots = 1, .n_batch = 16, .kv_type = QUANT_F32}};
    model_options how = {0};
    assert_ok(model_open(tiny(), &how, &s->model));
    weights_part part = {.kind = &exec_reference, .end_layer = s->model->n_layer};
    assert_ok(weights_load(s->model, &part, 1, &s->reference));
    part.kind = &exec_vulkan;
    part.params = (exec_params){.n_threads = 1, .gpu = &s->gpu};
    assert_ok(weights_load(s->model, &part, 1, &s->tested));
}

static void close_sides(sides *s)
{
    weights_unload(s->tested);
    weights_unload(s->reference);
    model_close(s->model);
}

static void check_sides(const sides *s, check_result *result)
{
    int32_t ids[12];
    for (int i = 0; i < 12; i++) ids[i] = (i * 31 + 7) % (int)s->model->n_vocab;
    check_options options = {.plan = s->plan,
                             .ids = ids,
                             .n_ids = 12,
                             .isolated = true,
                             .inject = {.kind = PLAN_N_OP_KINDS}};
    assert_ok(check_run(s->tested, s->reference, &options, result));
}

// Not a planted fault but a kernel that is wrong: the operation fails alone too, on that device
// only, and the kernel is named.
static void a_wrong_kernel_is_reproduced(void **state)
{
    (void)state;
    vulkan_driver_need();
    sides s;
    check_result result;
    char kernel[160];
    open_sides(&s, NULL);
    check_sides(&s, &result);
    assert_int_equal(result.first_bad, -1);
    const check_op *op = result.ops;
    while (op->kind != PLAN_LINEAR) op++;
    snprintf(kernel, sizeof kernel, "%.*s", (int)strcspn(op->kernels, "("), op->kernels);
    assert_true(strlen(kernel) > 3);
    check_result_free(&result);
    close_sides(&s);

    open_sides(&s, kernel);
    check_sides(&s, &result);
    assert_true(result.first_bad >= 0);
    const check_op *bad = &result.ops[result.first_bad];
    assert_non_null(strstr(bad->kernels, kernel));
    plan_set *set;
    reproducer r;
    reproducer_result again;
    assert_ok(plan_build(s.model, &s.plan, &set));
    reproducer_of(set, bad->n_rows, bad->first, bad->index, 1, &r);
    exec_params wrong = {.n_threads = 1, .gpu = &s.gpu};
    assert_ok(reproducer_run(&r, &exec_vulkan, &wrong, false, &again));
    assert_false(again.op.pass);
    assert_non_null(strstr(again.op.kernels, kernel));
    exec_gpu right_gpu = {.selector = "0"};
    exec_params right = {.n_threads = 1, .gpu = &right_gpu};
    assert_ok(reproducer_run(&r, &exec_vulkan, &right, false, &again));
    assert_true(again.op.pass);
    plan_set_free(set);
    check_result_free(&result);
    close_sides(&s);
}

// QUANTIZE is there only with 8-bit activations; every optional feature of the device is tried.
static void bisecting_tries_the_features(void **state)
{
    (void)state;
    vulkan_driver_need();
    if (on_swiftshader()) skip(); // compiles every kernel for each of them
    json_t *all = json_with(5,
                            "$P check '%s' --device vulkan:0 --act q8 --no-fuse --quick --ops "
                            "--inject QUANTIZE:2 --bisect --json -q",
                            tiny());
    const json_t *culprits = key_of(all, "culprits"), *one;
    assert_int_equal(json_array_size(culprits), 1);
    assert_string_equal(json_string_value(json_array_get(culprits, 0)), "8-bit activations");
    static const char *const wanted[] = {"subgroup",
                                         "int8-dot",
                                         "derived barriers",
                                         "limits beyond the minimum",
                                         "long submissions",
                                         "the cache's type",
                                         "ahead"};
    for (size_t k = 0; k < sizeof wanted / sizeof wanted[0]; k++) {
        bool tried = false;
        size_t i;
        json_array_foreach(key_of(all, "switched_off"), i, one)
        {
            bool this_one = !strcmp(json_string_value(key_of(one, "without")), wanted[k]);
            tried = tried || (this_one && json_is_boolean(key_of(one, "pass")));
        }
        if (!tried) fail_msg("%s was not tried", wanted[k]);
    }
    json_decref(all);
}

// ---- bench, perplexity ------------------------------------------------------------------------

static void r61_bench_has_the_devices_own_times(void **state)
{
    (void)state;
    vulkan_driver_need();
    json_t *all = json_with(0,
                            "$P bench '%s' --device vulkan:0 --prompt 24 --gen 4 --repeat 2 "
                            "--per-op --checked -o json -q",
                            tiny());
    const json_t *device = key_of(all, "device"), *o;
    assert_string_equal(json_string_value(key_of(device, "id")), "vulkan:0");
    assert_true(json_is_string(key_of(all, "driver")));
    assert_true(json_is_true(key_of(all, "checked")));
    double bandwidth = json_number_value(key_of(all, "bandwidth_gbps"));
    assert_true(bandwidth > 0);
    size_t i;
    json_array_foreach(key_of(all, "results"), i, o)
    {
        assert_string_equal(json_string_value(key_of(o, "status")), "ok");
        double part = json_number_value(key_of(o, "percent_of_bandwidth"));
        double gbps = json_number_value(key_of(o, "gbps"));
        assert_true(fabs(part - 100 * gbps / bandwidth) < 1e-6 * part);
    }
    json_array_foreach(key_of(all, "profiles"), i, o)
    {
        assert_string_equal(json_string_value(key_of(o, "clock")), "device");
        // A decoded token: at most 7 dispatches a layer with 32-bit activations (docs).
        assert_true(json_integer_value(key_of(o, "dispatches")) >= 5 * 4);
    }
    assert_int_equal(i, 2);
    double seconds = 0;
    json_array_foreach(key_of(all, "ops"), i, o)
    {
        seconds += json_number_value(key_of(o, "seconds"));
    }
    assert_true(i >= 10 && seconds > 0);
    json_decref(all);
}

static void perplexity_against_another_device(void **state)
{
    (void)state;
    vulkan_driver_need();
    static const char options[] = "--ctx 48 --windows 1 --json " EXACT;
    const char *text = test_source("tests/proof/alice.txt");
    json_t *alone =
        json_with(0, "$P perplexity '%s' -f '%s' --device reference %s", tiny(), text, options);
    json_t *all = json_with(0, "$P perplexity '%s' -f '%s' --device vulkan:0 --against cpu %s",
                            tiny(), text, options);
    double expected = json_number_value(key_of(alone, "perplexity"));
    assert_true(fabs(json_number_value(key_of(all, "perplexity")) / expected - 1) < 1e-4);
    const json_t *other = key_of(all, "against");
    assert_string_equal(json_string_value(key_of(all, "device")), "vulkan:0");
    assert_string_equal(json_string_value(key_of(other, "device")), "cpu");
    assert_true(json_number_value(key_of(other, "kl_max")) < 1e-6);
    assert_true(json_number_value(key_of(other, "top1_agreement")) == 1);
    json_decref(all);
    // The other way round: a GPU is what is compared with.
    all = json_with(0, "$P perplexity '%s' -f '%s' --device cpu --against vulkan:0 %s", tiny(),
                    text, options);
    other = key_of(all, "against");
    assert_string_equal(json_string_value(key_of(other, "device")), "vulkan:0");
    assert_true(json_number_value(key_of(other, "kl_max")) < 1e-6);
    json_decref(all);
    json_decref(alone);
}

int main(void)
{
    vulkan_driver_use();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inspect_shows_what_the_reference_shows),
        cmocka_unit_test(check_reports_what_ran),
        cmocka_unit_test(a_fault_is_reproduced_without_the_model),
        cmocka_unit_test(a_layer_on_the_cpu_is_reproduced_there),
        cmocka_unit_test(a_wrong_kernel_is_reproduced),
        cmocka_unit_test(bisecting_tries_the_features),
        cmocka_unit_test(r61_bench_has_the_devices_own_times),
        cmocka_unit_test(perplexity_against_another_device),
    };
    return cmocka_run_group_tests_name("vulkan proof", tests, NULL, NULL);
}
