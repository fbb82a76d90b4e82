// A whole model with planted faults, one place after the other: every allocation, every pipeline,
// every submission. Each ends with an error that names the device and its driver, leaves nothing
// behind (the sanitizers and the validation layer look), and the device that was lost stays lost.
#include "support/test.h"

#include "support/runner.h"
#include "support/vulkan_drivers.h"

#include <math.h>

// Two layers would do, but every kind of operation should be there: per-head norms, a window.
#define MODEL "golden/gemma3.q8_0.gguf"
enum { N_IDS = 20, N_STEPS = 3, MAX_FAULTS = 4000 };

static model *the_model;

static const void *source_map(void *arg, uint32_t tensor)
{
    const model *m = arg;
    return gguf_tensor_map(m->file, m->file_tensors[tensor]);
}

static pm_status source_read(void *arg, uint32_t tensor, uint64_t offset, void *dst, uint64_t n)
{
    const model *m = arg;
    return gguf_read(m->file, m->file_tensors[tensor], offset, dst, n);
}

// What a session does: a prompt, then tokens one by one, each with its logits read.
static pm_status generate(exec *e, const plan_set *set, float *logits)
{
    static plan_step step;
    pm_status status = PM_OK;
    uint32_t pos = 0;
    for (int i = 0; i <= N_STEPS && status == PM_OK; i++) {
        step.n_rows = i == 0 ? N_IDS : 1;
        step.n_logits = 1;
        step.logit_rows[0] = (uint16_t)(step.n_rows - 1);
        for (uint32_t r = 0; r < step.n_rows; r++, pos++)
            step.rows[r] =
                (plan_row){.token = (int32_t)(pos * 7 % 200), .pos = pos, .n_kv = pos + 1};
        const plan *p = plan_for_rows(set, step.n_rows);
        status = exec_vulkan.run(e, p, 0, p->n_ops, &step);
        if (status == PM_OK)
            status = exec_vulkan.read(e, PLAN_LOGITS, 0, logits, set->n_vocab * sizeof logits[0]);
    }
    return status;
}

// Everything from opening the device to the last token. The counters of the device: how many
// places there are.
typedef struct counts {
    int allocs, pipelines, submits;
} counts;

static pm_status whole_life(const exec_gpu *gpu, counts *n, float **logits)
{
    plan_options options = {.n_ctx = 64, .n_slots = 1, .n_batch = 32, .kv_type = QUANT_F16};
    plan_set *set = NULL;
    exec_weights *weights = NULL;
    exec *e = NULL;
    *n = (counts){0};
    assert_ok(plan_build(the_model, &options, &set));
    bool *wanted = malloc(the_model->n_tensors);
    *logits = calloc(set->n_vocab, sizeof **logits);
    assert_true(wanted && *logits);
    memset(wanted, true, the_model->n_tensors);
    exec_source source = {.arg = the_model, .map = source_map, .read = source_read};
    exec_params params = {.n_threads = 1, .gpu = gpu, .layout = set};
    pm_status status = exec_vulkan.load(&params, the_model->tensors, the_model->n_tensors, wanted,
                                        &source, &weights);
    if (status == PM_OK) status = exec_vulkan.open(weights, set, 0, the_model->n_layer, true, &e);
    if (status == PM_OK) status = generate(e, set, *logits);
    if (weights) {
        vk_device *d = weights->device;
        *n = (counts){atomic_load(&d->n_allocs), atomic_load(&d->n_pipelines_made),
                      atomic_load(&d->n_submits)};
        if (status != PM_OK && atomic_load(&d->lost)) { // sticky: nothing is tried any more
            char byte;
            int submits = atomic_load(&d->n_submits);
            assert_int_equal(vk_alive(d), PM_ERROR_DEVICE);
            if (e) {
                assert_int_equal(generate(e, set, *logits), PM_ERROR_DEVICE);
                assert_int_equal(exec_vulkan.read(e, PLAN_X, 0, &byte, 1), PM_ERROR_DEVICE);
            }
            assert_int_equal(atomic_load(&d->n_submits), submits);
            assert_non_null(strstr(error_message(), "lost"));
        }
    }
    if (e) exec_vulkan.close(e);
    exec_vulkan.unload(weights);
    plan_set_free(set);
    free(wanted);
    return status;
}

static char title[320];
static float *expected;
static counts healthy;

static void prepare(void)
{
    vulkan_driver_need();
    if (the_model) return;
    model_options options = {0};
    assert_ok(model_open(test_data(MODEL), &options, &the_model));
    vk_device *d = vulkan_open(NULL);
    memcpy(title, d->title, sizeof title);
    vk_device_close(d);
    assert_ok(whole_life(&(exec_gpu){.selector = "0", .disable = "mapped"}, &healthy, &expected));
    assert_true(healthy.allocs > 3 && healthy.pipelines > 5 && healthy.submits > N_STEPS);
}

// The fault at place n: the run ends with one line about the device, or something simpler took over
// and the answer is right.
static void one_fault(const char *what, exec_gpu gpu, int n, bool may_go_on)
{
    gpu.selector = "0";
    gpu.disable = "mapped";
    counts now;
    float *logits;
    pm_status status = whole_life(&gpu, &now, &logits);
    if (status == PM_OK && may_go_on) {
        uint32_t n_vocab = the_model->n_vocab;
        for (uint32_t i = 0; i < n_vocab; i++)
            if (!(fabsf(logits[i] - expected[i]) <= 1e-3f))
                fail_msg("%s %d: another answer without that one", what, n);
    } else {
        if (status != PM_ERROR_DEVICE) fail_msg("%s %d: status %d", what, n, (int)status);
        if (!strstr(error_message(), title) || strchr(error_message(), '\n'))
            fail_msg("%s %d: '%s' is not one line with '%s'", what, n, error_message(), title);
    }
    free(logits);
}

static void r12_any_allocation_fails(void **state)
{
    (void)state;
    prepare();
    for (int n = 1; n <= healthy.allocs; n++)
        one_fault("allocation", (exec_gpu){.fail_alloc = n}, n, false);
    print_message("%d allocations\n", healthy.allocs);
}

static void r19_any_pipeline_fails(void **state)
{
    (void)state;
    prepare();
    for (int n = 1; n <= healthy.pipelines; n++)
        one_fault("pipeline", (exec_gpu){.fail_pipeline = n}, n, true);
    print_message("%d pipelines\n", healthy.pipelines);
}

// Most submissions are copies while the model is loaded, each of these lives compiles its kernels
// (SwiftShader all of them anew): without --long the first ones, the last ones, and some between.
static int after(int n, int last)
{
    bool all = getenv("PUMICE_TEST_LONG") || n < 12 || n >= last - 12;
    return all || n + 11 > last - 12 ? n + 1 : n + 11;
}

static void r18_lost_at_any_submission(void **state)
{
    (void)state;
    prepare();
    for (int n = 1; n <= healthy.submits; n = after(n, healthy.submits))
        one_fault("submission", (exec_gpu){.lose_at_submit = n}, n, false);
    // The same with a submission cut into many.
    counts cut;
    float *logits;
    exec_gpu tiny = {.selector = "0", .disable = "mapped", .max_submit_ms = 1e-6};
    assert_ok(whole_life(&tiny, &cut, &logits));
    free(logits);
    assert_true(cut.submits > healthy.submits && cut.submits < MAX_FAULTS);
    for (int n = healthy.submits; n <= cut.submits; n += 31)
        one_fault("cut submission", (exec_gpu){.lose_at_submit = n, .max_submit_ms = 1e-6}, n,
                  false);
    print_message("%d submissions, %d when cut\n", healthy.submits, cut.submits);
}

static int release(void **state)
{
    (void)state;
    model_close(the_model);
    free(expected);
    return 0;
}

int main(void)
{
    vulkan_driver_use();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r12_any_allocation_fails),
        cmocka_unit_test(r19_any_pipeline_fails),
        cmocka_unit_test(r18_lost_at_any_submission),
    };
    return cmocka_run_group_tests_name("vulkan faults", tests, NULL, release);
}
