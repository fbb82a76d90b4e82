// The order of a benchmark's runs, seen by an executor that keeps a record; and its statistics.
#include "support/test.h"

#include <stdbool.h>

#include "proof/bench.h"

// ---- an executor that writes down what it ran -------------------------------------------------

static exec_kind recording;
static uint32_t ran[1000];
static int32_t first_token[1000];
static size_t n_ran;

static pm_status run_and_record(exec *e, const plan *p, uint32_t first, uint32_t count,
                                const plan_step *step)
{
    if (first == 0 && n_ran < 1000) {
        ran[n_ran] = step->n_rows;
        first_token[n_ran++] = step->rows[0].token;
    }
    return exec_reference.run(e, p, first, count, step);
}

enum { N_CASES = 4, REPEAT = 6 };

static void bench_with(uint64_t seed, bench_case cases[N_CASES])
{
    static const uint32_t sizes[N_CASES] = {3, 5, 7, 40};
    static double seconds[N_CASES][REPEAT];
    model *m;
    weights *w;
    session *s;
    model_options how = {0};
    recording = exec_reference;
    recording.run = run_and_record;
    recording.run_timed = NULL;
    assert_ok(model_open(test_data("golden/llama-tied.f32.gguf"), &how, &m));
    weights_part part = {.kind = &recording, .params = {.n_threads = 1}, .end_layer = m->n_layer};
    assert_ok(weights_load(m, &part, 1, &w));
    // The last case does not fit the context.
    plan_options with = {.n_ctx = 32, .n_slots = 1, .n_batch = 32, .kv_type = QUANT_F32};
    assert_ok(session_open(w, &with, &s));
    for (int i = 0; i < N_CASES; i++)
        cases[i] = (bench_case){.kind = BENCH_PROMPT, .n = sizes[i], .seconds = seconds[i]};
    bench_params params = {.repeat = REPEAT, .seed = seed};
    n_ran = 0;
    bench_run(s, &params, cases, N_CASES);
    session_close(s);
    weights_unload(w);
    model_close(m);
}

static size_t warm_ups(const bench_case *cases)
{
    size_t n = 0;
    for (int i = 0; i < N_CASES; i++) n += cases[i].n_warm_ups;
    return n;
}

static void r58_rounds_are_shuffled_by_the_seed(void **state)
{
    (void)state;
    bench_case cases[N_CASES];
    uint32_t before[REPEAT * 3];
    bench_with(5, cases);
    size_t start = warm_ups(cases);
    assert_int_equal(n_ran, start + 3 * (size_t)REPEAT);
    bool moved = false;
    for (size_t round = 0; round < REPEAT; round++) {
        const uint32_t *now = ran + start + 3 * round;
        assert_int_equal(now[0] + now[1] + now[2], 3 + 5 + 7); // each once
        assert_true(now[0] != now[1] && now[1] != now[2] && now[0] != now[2]);
        moved = moved || memcmp(now, ran + start, 3 * sizeof *now) != 0;
        memcpy(before + 3 * round, now, 3 * sizeof *now);
    }
    assert_true(moved); // not the same order in every round
    // Tokens vary from sample to sample of a case.
    for (size_t i = start; i < n_ran; i++)
        for (size_t j = start; j < i; j++)
            assert_true(ran[i] != ran[j] || first_token[i] != first_token[j]);

    bench_with(5, cases); // the same seed: the same order
    assert_memory_equal(before, ran + warm_ups(cases), sizeof before);
    bench_with(6, cases);
    assert_true(memcmp(before, ran + warm_ups(cases), sizeof before) != 0);
}

static void one_that_fails_does_not_end_the_others(void **state)
{
    (void)state;
    bench_case cases[N_CASES];
    bench_with(1, cases);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cases[i].n_samples, REPEAT);
        assert_string_equal(cases[i].failure, "");
        assert_true(cases[i].steady ? cases[i].n_warm_ups >= 2 : cases[i].n_warm_ups == 5);
    }
    assert_int_equal(cases[3].n_samples, 0);
    assert_non_null(strstr(cases[3].failure, "32")); // the context's size
}

static void statistics(void **state)
{
    (void)state;
    static const double odd[] = {5, 1, 3}, even[] = {4, 1, 2, 9};
    bench_statistics r = bench_statistics_of(odd, 3);
    assert_true(r.median == 3 && r.mean == 3 && r.sd == 2);
    r = bench_statistics_of(even, 4);
    assert_true(r.median == 3 && r.mean == 4);
    r = bench_statistics_of(odd, 1);
    assert_true(r.median == 5 && r.sd == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r58_rounds_are_shuffled_by_the_seed),
        cmocka_unit_test(one_that_fails_does_not_end_the_others),
        cmocka_unit_test(statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
