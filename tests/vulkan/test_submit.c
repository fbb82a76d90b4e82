// Submissions that are cut so that none of them takes long: where, and that nothing else changes.
#include "support/test.h"

#include <math.h>

#include "base/rng.h"
#include "support/runner.h"
#include "support/vulkan_drivers.h"

// No submission is above the limit, unless it is a single op; and none is cut without need.
static void r16_never_above_the_limit(void **state)
{
    (void)state;
    uint64_t draws = 0;
    for (uint64_t run = 0; run < 2000; run++) {
        double limit = exp(8 * rng_double(run, draws++) - 2);
        vk_splitter s = {.limit_ms = limit, .pace = exp(4 * rng_double(run, draws++) - 2)};
        double spread = 10 * rng_double(run, draws++), filled = 0;
        uint32_t n_ops = 0;
        for (int i = 0; i < 200; i++) {
            double estimate = exp(spread * rng_double(run, draws++) - 4), ms = estimate * s.pace;
            bool cut = vk_split_before(&s, estimate);
            assert_true(!cut || n_ops > 0); // an empty submission helps nobody
            if (cut) assert_true(filled + ms > limit);
            filled = cut ? ms : filled + ms;
            n_ops = cut ? 1 : n_ops + 1;
            assert_true(filled <= limit * (1 + 1e-12) || n_ops == 1);
            uint32_t slices = vk_split_slices(&s, estimate);
            assert_true(slices >= 1 && slices <= PLAN_MAX_ROWS);
            assert_true(ms / slices <= limit * (1 + 1e-12) || slices == PLAN_MAX_ROWS);
            if (slices > 1) assert_true(ms / (slices - 1) >= limit);
        }
    }
}

static void r16_follows_what_was_measured(void **state)
{
    (void)state;
    assert_true(vk_pace_after(1, 10, 40) == 4); // a device that is slower: at once
    double pace = 4;
    for (int i = 0; i < 40; i++) {
        double next = vk_pace_after(pace, 10, 5);
        assert_true(next < pace && next > 0.5); // a faster one: step by step
        pace = next;
    }
    assert_true(pace < 0.51);
    assert_true(vk_pace_after(2, 0, 5) == 2);
    assert_true(vk_pace_after(2, 10, NAN) == 2);
    assert_true(vk_pace_after(1, 1, 1e30) == 1e3); // and back from there
    assert_true(vk_pace_after(1e3, 1, 0) < 1e3);
}

enum { N_PROMPT = 150, N_DECODE = 5 };

// A prompt in chunks of 150 and 64, then single tokens; returns how many submissions it took.
static int logits_of(const exec_gpu *gpu, const char *file, plan_act act, quant_type kv,
                     float **out)
{
    plan_options options = {.n_ctx = 256, .n_slots = 1, .n_batch = 200, .kv_type = kv, .act = act};
    exec_params params = {.n_threads = 2, .gpu = gpu};
    int32_t ids[N_PROMPT];
    for (int i = 0; i < N_PROMPT; i++) ids[i] = i * 13 % 310 + 3;
    runner r;
    runner_open(&r, test_data(file), &exec_vulkan, &params, &options);
    size_t n_vocab = r.set->n_vocab;
    float *logits = malloc((N_PROMPT + 64 + N_DECODE) * n_vocab * sizeof *logits);
    assert_non_null(logits);
    int before = atomic_load(&r.weights->device->n_submits);
    runner_eval(&r, ids, N_PROMPT, logits, NULL);
    runner_eval(&r, ids, 64, logits + N_PROMPT * n_vocab, NULL);
    for (int i = 0; i < N_DECODE; i++)
        runner_eval(&r, ids + i, 1, logits + (size_t)(N_PROMPT + 64 + i) * n_vocab, NULL);
    int n = atomic_load(&r.weights->device->n_submits) - before;
    runner_close(&r);
    *out = logits;
    return n;
}

static void same_bits_however_cut(const char *file, plan_act act, quant_type kv, size_t n_vocab)
{
    exec_gpu gpu = {.selector = "0"};
    float *whole, *cut;
    int n_whole = logits_of(&gpu, file, act, kv, &whole), last = n_whole;
    static const double limits[] = {1e-2, 1e-3, 1e-6};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        gpu.max_submit_ms = limits[i];
        int n = logits_of(&gpu, file, act, kv, &cut);
        print_message("  at most %g ms: %d submissions, %d without a limit\n", limits[i], n,
                      n_whole);
        assert_true(n >= last);
        last = n;
        for (size_t k = 0; k < (N_PROMPT + 64 + N_DECODE) * n_vocab; k++)
            if (memcmp(&whole[k], &cut[k], sizeof *cut) != 0)
                fail_msg("%s, at most %g ms: logit %zu is %g, not %g", file, limits[i], k,
                         (double)cut[k], (double)whole[k]);
        free(cut);
    }
    // The smallest limit: every op a submission, and long ones several.
    assert_true(last > 20 * n_whole);
    free(whole);
}

static uint32_t vocabulary(const char *file)
{
    model *m;
    model_options how = {0};
    assert_ok(model_open(test_data(file), &how, &m));
    uint32_t n = m->n_vocab;
    model_close(m);
    return n;
}

static void r17_cut_products_and_attention(void **state)
{
    (void)state;
    vulkan_driver_need();
    static const char *const files[] = {"golden/smollm3-tied.f32.gguf", "golden/gemma3.q8_0.gguf",
                                        "golden/qwen2.q8_0.gguf"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        same_bits_however_cut(files[i], PLAN_ACT_F32, QUANT_F32, vocabulary(files[i]));
        same_bits_however_cut(files[i], PLAN_ACT_Q8, QUANT_F16, vocabulary(files[i]));
    }
}

int main(void)
{
    vulkan_driver_use();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r16_never_above_the_limit),
        cmocka_unit_test(r16_follows_what_was_measured),
        cmocka_unit_test(r17_cut_products_and_attention),
    };
    return cmocka_run_group_tests_name("vulkan submit", tests, NULL, NULL);
}
