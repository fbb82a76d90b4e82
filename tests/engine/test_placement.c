// What fits on a GPU, computed before anything is loaded.
#include "support/test.h"

#include "base/rng.h"
#include "engine/placement.h"

// For any room that a GPU may have: what is chosen fits, one layer more would not.
static void r11_never_more_than_fits(void **state)
{
    (void)state;
    static const char *const files[] = {"golden/smollm3-deep.q8_0.gguf", "golden/gemma2.q8_0.gguf",
                                        "golden/llama-untied.f32.gguf"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        model *m;
        model_options open = {0};
        assert_ok(model_open(test_data(files[i]), &open, &m));
        plan_options session = {.n_ctx = 512, .n_slots = 1, .n_batch = 64, .kv_type = QUANT_F16};
        placement_need all = placement_needs(m, &session, 0);
        assert_true(all.total == all.weights + all.kv + all.buffers);
        assert_true(all.weights > 0 && all.kv > 0 && all.buffers > 0);
        for (uint32_t n = 1; n <= m->n_layer; n++) { // exactly enough, and one byte less
            uint64_t total = placement_needs(m, &session, m->n_layer - n).total;
            assert_int_equal(placement_layers_that_fit(m, &session, total), n);
            assert_int_equal(placement_layers_that_fit(m, &session, total - 1), n - 1);
        }
        for (uint64_t k = 0; k < 500; k++) {
            uint64_t room = rng_u64(11, k) % (all.total + all.total / 4);
            uint32_t n = placement_layers_that_fit(m, &session, room);
            if (n > 0) assert_true(placement_needs(m, &session, m->n_layer - n).total <= room);
            if (n < m->n_layer)
                assert_true(placement_needs(m, &session, m->n_layer - n - 1).total > room);
        }
        assert_int_equal(placement_layers_that_fit(m, &session, 0), 0);
        assert_int_equal(placement_layers_that_fit(m, &session, UINT64_MAX), m->n_layer);
        model_close(m);
    }
}

// "auto" with a number of layers: the word may end where its memory ends.
static void r11_layers_without_a_named_gpu(void **state)
{
    (void)state;
    model *m;
    model_options open = {0};
    assert_ok(model_open(test_data("golden/llama-tied.q8_0.gguf"), &open, &m));
    char *word = malloc(5);
    memcpy(word, "auto", 5);
    exec_gpu gpu = {0};
    placement_request r = {.device = word, .gpu_layers = 1, .params = {.gpu = &gpu}};
    r.session = (plan_options){.n_ctx = 64, .n_slots = 1, .n_batch = 64, .kv_type = QUANT_F16};
    placement p;
    pm_status status = placement_choose(m, &r, &p);
    if (status == PM_OK) assert_int_equal(p.n_parts, 2); // one layer on the machine's GPU
    if (status != PM_OK) assert_int_equal(status, PM_ERROR_DEVICE);
    assert_string_equal(p.selector, "");
    free(word);
    model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r11_never_more_than_fits),
        cmocka_unit_test(r11_layers_without_a_named_gpu),
    };
    return cmocka_run_group_tests_name("engine/placement", tests, NULL, NULL);
}
