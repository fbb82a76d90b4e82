// --gpu-layers on a driver: the golden logits however the layers are divided, what crosses between
// the parts, and whether what placement counts with is what a device has to hold.
#include "support/test.h"

#include <math.h>

#include "engine/placement.h"
#include "engine/session.h"
#include "support/open.h"
#include "support/vulkan_drivers.h"

static const char *const names[] = {"smollm3-tied.f32", "llama-untied.q8_0", "gemma3.f32",
                                    "qwen2.q8_0", "gpt2.f32"};
enum { N_NAMES = sizeof names / sizeof names[0] };

// Largest difference of the last position's logits to the golden ones.
static double difference(pm_session *s, const json_t *golden, const int32_t *ids, size_t n)
{
    const json_t *prompt = json_array_get(json_object_get(golden, "prompts"), 0);
    const json_t *expected = json_object_get(prompt, "last_logits");
    double worst = 0;
    assert_ok(pm_session_eval(s, ids, n, 0));
    const float *logits = pm_session_logits(s, 0);
    for (size_t i = 0; i < json_array_size(expected); i++) {
        double d = fabs(json_number_value(json_array_get(expected, i)) - (double)logits[i]);
        if (!(d <= worst)) worst = d;
    }
    return worst;
}

static void golden_for_any_number_of_layers(void **state)
{
    (void)state;
    vulkan_driver_need();
    static const char *const counts[] = {"0", "1", "2", "all", "auto"};
    for (size_t i = 0; i < N_NAMES; i++) {
        json_t *golden = test_golden_json(names[i]);
        size_t n;
        int32_t *ids = test_prompt_ids(golden, 0, &n);
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
            pm_options *o = test_options("device", "vulkan:0", "gpu-layers", counts[k], "act",
                                         "f32", "kv-type", "f32", "ctx", "64", NULL);
            pm_model *m = test_golden(names[i], o);
            const char *what = pm_model_device_description(m);
            bool on_gpu = strstr(what, "vulkan (") != NULL, on_cpu = strstr(what, "cpu (") != NULL;
            assert_int_equal(on_gpu, k != 0);
            assert_int_equal(on_cpu, k < 3 && (k < 2 || pm_model_n_layer(m) > 2));
            pm_session *s = test_session(m, o);
            double d = difference(s, golden, ids, n);
            if (!(d <= 1e-3)) fail_msg("%s, %s layers: off by %g", names[i], counts[k], d);
            pm_session_destroy(s);
            pm_model_close(m);
            pm_options_destroy(o);
        }
        json_decref(golden);
        free(ids);
    }
}

// ---- what crosses -----------------------------------------------------------------------------

static uint64_t bytes_written, bytes_read, bytes_elsewhere;

static pm_status counted_read(exec *e, int buffer, uint64_t offset, void *dst, uint64_t n)
{
    *(buffer == PLAN_LOGITS ? &bytes_read : &bytes_elsewhere) += n;
    return exec_vulkan.read(e, buffer, offset, dst, n);
}

static pm_status counted_write(exec *e, int buffer, uint64_t offset, const void *src, uint64_t n)
{
    *(buffer == PLAN_X ? &bytes_written : &bytes_elsewhere) += n;
    return exec_vulkan.write(e, buffer, offset, src, n);
}

static const exec_gpu gpu = {.selector = "0"};

static void open_parts(const model *m, const exec_kind *kind, uint32_t n_gpu_layers, weights **w)
{
    exec_params params = {.n_threads = 2, .gpu = &gpu};
    weights_part parts[2] = {{.kind = &exec_cpu, .params = params}};
    uint32_t n = 0, first = m->n_layer - n_gpu_layers;
    if (first > 0) parts[n++].end_layer = first;
    parts[n++] = (weights_part){
        .kind = kind, .params = params, .first_layer = first, .end_layer = m->n_layer};
    assert_ok(weights_load(m, parts, n, w));
}

static void only_residual_rows_cross(void **state)
{
    (void)state;
    vulkan_driver_need();
    model *m;
    model_options how = {0};
    weights *w = NULL;
    session *s = NULL;
    assert_ok(model_open(test_data("golden/smollm3-tied.f32.gguf"), &how, &m));
    exec_kind counted = exec_vulkan;
    counted.read = counted_read;
    counted.write = counted_write;
    open_parts(m, &counted, 1, &w);
    plan_options options = {
        .n_ctx = 64, .n_slots = 1, .n_batch = 16, .n_logits = 1, .kv_type = QUANT_F32};
    assert_ok(session_open(w, &options, &s));
    int32_t ids[40];
    for (int i = 0; i < 40; i++) ids[i] = 3 * i + 1;
    assert_ok(session_eval(s, ids, 40, false));
    for (int i = 0; i < 5; i++) assert_ok(session_eval(s, ids + i, 1, false));
    assert_int_equal(bytes_written, 45 * m->n_embd * sizeof(float));
    assert_int_equal(bytes_read, 6 * m->n_vocab * sizeof(float)); // of six evals
    assert_int_equal(bytes_elsewhere, 0);
    session_close(s);
    weights_unload(w);
    model_close(m);
}

// ---- room -------------------------------------------------------------------------------------

// The bytes that a device has given, by its own account, are never more than what placement counted
// with before anything was loaded.
static void r11_never_more_than_planned(void **state)
{
    (void)state;
    vulkan_driver_need();
    static const plan_options ways[] = {
        {.n_ctx = 256, .n_slots = 1, .n_batch = 512, .kv_type = QUANT_F16, .act = PLAN_ACT_Q8},
        {.n_ctx = 4096, .n_slots = 1, .n_batch = 32, .n_logits = 1, .kv_type = QUANT_F32},
        {.n_ctx = 64, .n_slots = 1, .n_batch = 1, .n_logits = 1, .kv_type = QUANT_F16}};
    static const char *const files[] = {"smollm3-tied.f32", "llama-mix-k",    "llama-mix-legacy",
                                        "gemma3.q8_0",      "smollm3-q4_k_m", "phi4-longrope.f32",
                                        "llama-mix-iq4"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char file[100];
        snprintf(file, sizeof file, "golden/%s.gguf", files[i]);
        model *m;
        model_options how = {0};
        assert_ok(model_open(test_data(file), &how, &m));
        for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
            for (uint32_t n = 1; n <= m->n_layer; n++) {
                weights *w = NULL;
                session *s = NULL;
                uint64_t need = placement_needs(m, &ways[k], m->n_layer - n).total;
                open_parts(m, &exec_vulkan, n, &w);
                assert_ok(session_open(w, &ways[k], &s));
                const weights_part *last = &w->parts[w->n_parts - 1];
                uint64_t used = atomic_load(&last->loaded->device->bytes_used);
                if (used > need)
                    fail_msg("%s, way %zu, %u layers: %llu bytes are used, %llu were planned",
                             files[i], k, n, (unsigned long long)used, (unsigned long long)need);
                session_close(s);
                weights_unload(w);
            }
        }
        model_close(m);
    }
}

// What auto chooses for any room fits it, and one layer more would not.
static void r11_auto_fits(void **state)
{
    (void)state;
    model *m;
    model_options how = {0};
    assert_ok(model_open(test_data("golden/smollm3-deep.q8_0.gguf"), &how, &m));
    plan_options options = {.n_ctx = 512, .n_slots = 1, .n_batch = 64, .kv_type = QUANT_F16};
    uint64_t all = placement_needs(m, &options, 0).total;
    for (uint64_t room = 0; room <= all + all / 50; room += all / 50 + 1) {
        uint32_t n = placement_layers_that_fit(m, &options, room);
        assert_true(n <= m->n_layer);
        if (n > 0) assert_true(placement_needs(m, &options, m->n_layer - n).total <= room);
        if (n < m->n_layer)
            assert_true(placement_needs(m, &options, m->n_layer - n - 1).total > room);
    }
    assert_int_equal(placement_layers_that_fit(m, &options, all), m->n_layer);
    assert_int_equal(placement_layers_that_fit(m, &options, 0), 0);
    model_close(m);
}

int main(void)
{
    vulkan_driver_use();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_for_any_number_of_layers),
        cmocka_unit_test(only_residual_rows_cross),
        cmocka_unit_test(r11_never_more_than_planned),
        cmocka_unit_test(r11_auto_fits),
    };
    return cmocka_run_group_tests_name("vulkan layers", tests, NULL, NULL);
}
