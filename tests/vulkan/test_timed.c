// Times and counts of dispatches: what bench --per-op shows, on each driver.
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "base/os.h"
#include "support/runner.h"
#include "support/vulkan_drivers.h"

static const int32_t ids[] = {5, 17, 3, 9,  20, 4,  8,  30, 2,  11,
                              6, 7,  1, 12, 13, 14, 15, 16, 18, 19};
enum { N_IDS = sizeof ids / sizeof ids[0] };

static void open_deep(runner *r, const exec_gpu *gpu)
{
    vulkan_driver_need();
    plan_options options = {.n_ctx = 64, .n_batch = 32, .n_slots = 1, .kv_type = QUANT_F16};
    runner_open(r, test_data("golden/smollm3-deep.q8_0.gguf"), &exec_vulkan,
                &(exec_params){.n_threads = 1, .gpu = gpu}, &options);
}

// A step of the last n ids, whose last one is marked.
static plan_step step_of(uint32_t n)
{
    plan_step step = {.n_rows = n, .n_logits = 1};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t pos = N_IDS - n + i;
        step.rows[i] = (plan_row){ids[pos], pos, 0, pos + 1};
    }
    step.logit_rows[0] = (uint16_t)(n - 1);
    return step;
}

static void at_most_seven_dispatches_a_layer(void **state)
{
    (void)state;
    static const exec_gpu gpu = {.selector = "0"};
    runner r;
    open_deep(&r, &gpu);
    plan_step step = step_of(1);
    const plan *p = plan_for_rows(r.set, 1);
    uint32_t sum = 0;
    for (uint32_t layer = 0; layer < r.set->n_layer; layer++) {
        uint32_t first, count;
        plan_layer_ops(p, (int)layer, &first, &count);
        uint32_t n = exec_vulkan.n_dispatches(r.exec, p, first, count, &step);
        assert_in_range(n, 1, 7);
        sum += n;
    }
    uint32_t all = exec_vulkan.n_dispatches(r.exec, p, 0, p->n_ops, &step);
    assert_in_range(all, sum + 2, sum + 4); // the embedding, logits and what they need
    runner_close(&r);
}

// Every op gets a time, together no more than the host waited, and the results are those of run.
static void times_are_of_the_same_run(void **state)
{
    (void)state;
    static const exec_gpu gpu = {.selector = "0"};
    runner r;
    open_deep(&r, &gpu);
    size_t n_vocab = r.set->n_vocab, bytes = n_vocab * sizeof(float);
    float *expected = malloc(bytes), *got = malloc(bytes);
    assert_true(expected && got);
    runner_eval(&r, ids, N_IDS, NULL, NULL);
    for (uint32_t n = 1; n <= N_IDS; n += N_IDS - 1) { // a product of vectors, one of matrices
        plan_step step = step_of(n);
        const plan *p = plan_for_rows(r.set, n);
        double seconds[256], sum = 0;
        assert_true(p->n_ops <= 256);
        assert_ok(exec_vulkan.run(r.exec, p, 0, p->n_ops, &step));
        assert_ok(exec_vulkan.read(r.exec, PLAN_LOGITS, 0, expected, bytes));
        memset(got, 0, bytes);
        assert_ok(exec_vulkan.write(r.exec, PLAN_LOGITS, 0, got, bytes));
        double start = os_seconds();
        assert_ok(exec_vulkan.run_timed(r.exec, p, 0, p->n_ops, &step, seconds));
        double waited = os_seconds() - start;
        assert_ok(exec_vulkan.read(r.exec, PLAN_LOGITS, 0, got, bytes));
        assert_memory_equal(got, expected, bytes);
        for (uint32_t i = 0; i < p->n_ops; i++) {
            assert_true(seconds[i] > 0 && isfinite(seconds[i]));
            sum += seconds[i];
        }
        assert_true(sum <= 1.01 * waited);
    }
    free(expected);
    free(got);
    runner_close(&r);
}

// A device without time stamps says so; exec_run_timed's caller then takes the host's clock.
static void no_clock_gives_no_times(void **state)
{
    (void)state;
    static const exec_gpu gpu = {.selector = "0", .disable = "timestamps"};
    runner r;
    open_deep(&r, &gpu);
    plan_step step = step_of(1);
    const plan *p = plan_for_rows(r.set, 1);
    double seconds[256];
    bool plausible;
    assert_ok(
        exec_run_timed(&exec_vulkan, r.exec, p, 0, p->n_ops, &step, false, seconds, &plausible));
    assert_false(plausible);
    for (uint32_t i = 0; i < p->n_ops; i++) assert_true(seconds[i] < 0);
    assert_ok(
        exec_run_timed(&exec_vulkan, r.exec, p, 0, p->n_ops, &step, true, seconds, &plausible));
    assert_true(plausible);
    runner_close(&r);
}

int main(void)
{
    vulkan_driver_use();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_most_seven_dispatches_a_layer),
        cmocka_unit_test(times_are_of_the_same_run),
        cmocka_unit_test(no_clock_gives_no_times),
    };
    return cmocka_run_group_tests_name("vulkan times", tests, NULL, NULL);
}
