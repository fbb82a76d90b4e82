// The sampler against a slow one that sorts everything, and the distribution of its draws.
#include "support/test.h"

#include <math.h>

#include "base/rng.h"
#include "engine/sampler.h"

enum { MAX_VOCAB = 5000 };

static const sampler_params plain = {.repeat_penalty = 1,
                                     .repeat_last = 64,
                                     .temp = 1,
                                     .top_k = 0,
                                     .typical_p = 1,
                                     .top_p = 1,
                                     .min_p = 0,
                                     .seed = 1};

static sampler *make(const sampler_params *p)
{
    sampler *s = NULL;
    assert_ok(sampler_open(p, &s));
    return s;
}

static void random_logits(uint64_t seed, float *logits, int32_t n, double spread)
{
    for (int32_t i = 0; i < n; i++) {
        double u = rng_double(seed, (uint64_t)i), v = rng_double(seed + 1, (uint64_t)i);
        logits[i] = (float)(spread * sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v));
        if (rng_u64(seed, (uint64_t)i) % 16 == 0) logits[i] = rintf(logits[i]); // equal ones
    }
}

// ---- the slow sampler -------------------------------------------------------------------------

typedef struct entry {
    int32_t id;
    double logit, p;
    float oddness; // how far its surprise is from the entropy
} entry;

static int by_logit(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static void softmax(entry *e, size_t n, double temp)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += e[i].p = exp((e[i].logit - e[0].logit) / temp);
    for (size_t i = 0; i < n; i++) e[i].p /= sum;
}

static int by_oddness(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->oddness < y->oddness || x->oddness > y->oddness) return x->oddness < y->oddness ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static size_t slow_typical(double typical_p, entry *e, size_t n)
{
    double entropy = 0, sum = 0;
    for (size_t i = 0; i < n; i++) entropy -= e[i].p > 0 ? e[i].p * log(e[i].p) : 0;
    for (size_t i = 0; i < n; i++) e[i].oddness = (float)fabs(log(e[i].p) + entropy);
    qsort(e, n, sizeof *e, by_oddness);
    size_t kept = 0;
    while (kept < n && (kept == 0 || sum < typical_p)) sum += e[kept++].p;
    qsort(e, kept, sizeof *e, by_logit);
    return kept;
}

// The definition of the stages, in their order; returns how many stay, with probabilities.
static size_t slow(const sampler_params *p, const int32_t *window, size_t n_window,
                   const float *logits, int32_t n_vocab, entry *e)
{
    size_t n = (size_t)n_vocab;
    for (int32_t i = 0; i < n_vocab; i++) e[i] = (entry){i, (double)logits[i], 0, 0};
    for (int32_t i = 0; i < n_vocab; i++) {
        size_t times = 0;
        for (size_t w = 0; w < n_window; w++) times += window[w] == i;
        if (times == 0) continue;
        e[i].logit =
            e[i].logit > 0 ? e[i].logit / p->repeat_penalty : e[i].logit * p->repeat_penalty;
        e[i].logit -= p->presence_penalty + (double)times * p->frequency_penalty;
        e[i].logit = (double)(float)e[i].logit;
    }
    qsort(e, n, sizeof *e, by_logit);
    if (p->temp == 0) return 1;
    double filter_temp = p->temp_last ? 1 : p->temp;
    if (p->top_k > 0 && (size_t)p->top_k < n) n = (size_t)p->top_k;
    softmax(e, n, filter_temp);
    if (p->typical_p < 1) n = slow_typical(p->typical_p, e, n);
    double sum = 0, left = 0;
    for (size_t i = 0; i < n; i++) left += e[i].p;
    for (size_t i = 0; p->top_p < 1 && i < n; i++) {
        sum += e[i].p;
        if (sum >= p->top_p * left) n = i + 1;
    }
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) kept += e[i].p >= p->min_p * e[0].p;
    softmax(e, kept, p->temp);
    return kept;
}

static int by_id(const void *a, const void *b)
{
    return ((const entry *)a)->id < ((const entry *)b)->id ? -1 : 1;
}

static void compare(const sampler_params *p, const int32_t *window, size_t n_window,
                    const float *logits, int32_t n_vocab)
{
    static entry expected[MAX_VOCAB], found[MAX_VOCAB];
    size_t n_expected = slow(p, window, n_window, logits, n_vocab, expected), n;
    sampler *s = make(p);
    for (size_t i = 0; i < n_window; i++) sampler_accept(s, window[i]);
    const sampler_candidate *c;
    assert_ok(sampler_candidates(s, logits, n_vocab, &c, &n));
    if (n != n_expected) fail_msg("%zu candidates, expected %zu", n, n_expected);
    double total = 0;
    for (size_t i = 0; i < n; i++) total += c[i].weight;
    for (size_t i = 0; i < n; i++) found[i] = (entry){c[i].id, 0, c[i].weight / total, 0};
    qsort(expected, n, sizeof *expected, by_id);
    qsort(found, n, sizeof *found, by_id);
    if (p->temp == 0) expected[0].p = 1;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(found[i].id, expected[i].id);
        if (fabs(found[i].p - expected[i].p) > 1e-9) {
            fail_msg("token %d: %g, expected %g", found[i].id, found[i].p, expected[i].p);
        }
    }
    sampler_close(s);
}

// ---- tests ------------------------------------------------------------------------------------

static void stages_equal_the_slow_ones(void **state)
{
    (void)state;
    static float logits[MAX_VOCAB];
    static const int32_t sizes[] = {1, 2, 63, 64, 65, 300, 4999};
    static const int64_t top_ks[] = {0, 1, 2, 40, 64, 100000};
    static const double top_ps[] = {1, 0.95, 0.5, 0};
    static const double min_ps[] = {0, 0.05, 1};
    static const double temps[] = {0, 0.01, 0.8, 1, 100};
    uint64_t seed = 7;
    for (size_t v = 0; v < sizeof sizes / sizeof *sizes; v++) {
        for (int combination = 0; combination < 6 * 4 * 3 * 5 * 2; combination++) {
            if (sizes[v] > 1000 && combination % 7) continue;
            sampler_params p = plain;
            p.top_k = top_ks[combination % 6];
            p.top_p = top_ps[combination / 6 % 4];
            p.min_p = min_ps[combination / 24 % 3];
            p.temp = temps[combination / 72 % 5];
            p.temp_last = combination / 360 != 0;
            random_logits(++seed, logits, sizes[v], 3);
            compare(&p, NULL, 0, logits, sizes[v]);
        }
    }
}

static void typical_p_equals_the_slow_one(void **state)
{
    (void)state;
    static float logits[MAX_VOCAB];
    static const int32_t sizes[] = {1, 2, 64, 65, 300, 4999};
    static const double typical_ps[] = {0, 0.1, 0.5, 0.95, 0.999};
    for (uint64_t k = 0; k < 6 * 5 * 2 * 2 * 2; k++) {
        sampler_params p = plain;
        p.typical_p = typical_ps[k / 6 % 5];
        p.top_k = k / 30 % 2 ? 40 : 0;
        p.top_p = k / 60 % 2 ? 0.8 : 1;
        p.min_p = k / 60 % 2 ? 0.2 : 0;
        p.temp = k / 120 % 2 ? 0.7 : 2;
        random_logits(k + 1000, logits, sizes[k % 6], 3);
        compare(&p, NULL, 0, logits, sizes[k % 6]);
    }
}

static void penalties_equal_the_slow_ones(void **state)
{
    (void)state;
    static float logits[MAX_VOCAB];
    int32_t window[64];
    for (uint64_t round = 0; round < 200; round++) {
        sampler_params p = plain;
        p.repeat_penalty = 0.5 + 2 * rng_double(round, 1);
        p.presence_penalty = 4 * rng_double(round, 2) - 2;
        p.frequency_penalty = 4 * rng_double(round, 3) - 2;
        p.top_k = round % 2 ? 20 : 0;
        size_t n_window = (size_t)(rng_u64(round, 4) % 65);
        for (size_t i = 0; i < n_window; i++) window[i] = (int32_t)(rng_u64(round, 5 + i) % 50);
        random_logits(round, logits, 100, 3);
        compare(&p, window, n_window, logits, 100);
    }
}

// The sign of the logit decides, not whether the penalty is "on": both move down.
static void repeat_penalty_goes_by_the_sign(void **state)
{
    (void)state;
    sampler_params p = plain;
    p.repeat_penalty = 2;
    const float logits[4] = {4, 3, -1, -1.5f};
    sampler *s = make(&p);
    sampler_accept(s, 0);
    sampler_accept(s, 2);
    const sampler_candidate *c;
    size_t n;
    assert_ok(sampler_candidates(s, logits, 4, &c, &n));
    assert_int_equal(n, 4);
    const float expected[4] = {2, 3, -2, -1.5f};
    for (size_t i = 0; i < n; i++) assert_true(c[i].logit == expected[c[i].id]);
    sampler_close(s);
}

// The last n accepted tokens count, whoever wrote them; 0: none; -1: all.
static void r44_window_counts_the_last_tokens(void **state)
{
    (void)state;
    static const int64_t lasts[] = {0, 1, 2, 64, -1};
    float logits[200] = {0};
    for (size_t l = 0; l < sizeof lasts / sizeof *lasts; l++) {
        sampler_params p = plain;
        p.presence_penalty = 1;
        p.repeat_last = lasts[l];
        sampler *s = make(&p);
        for (int32_t id = 0; id < 150; id++) sampler_accept(s, id);
        const sampler_candidate *c;
        size_t n;
        assert_ok(sampler_candidates(s, logits, 200, &c, &n));
        assert_int_equal(n, 200);
        int64_t in_window = lasts[l] < 0 || lasts[l] > 150 ? 150 : lasts[l];
        for (size_t i = 0; i < n; i++) {
            bool penalized = c[i].id < 150 && c[i].id >= 150 - in_window;
            assert_true(c[i].logit == (penalized ? -1.0f : 0.0f));
        }
        sampler_reset(s);
        assert_ok(sampler_candidates(s, logits, 200, &c, &n));
        for (size_t i = 0; i < n; i++) assert_true(c[i].logit == 0.0f);
        sampler_close(s);
    }
}

static void biases(void **state)
{
    (void)state;
    const sampler_bias list[] = {{1, 5}, {0, -2}};
    sampler_params p = plain;
    p.biases = list;
    p.n_biases = 2;
    p.temp = 0;
    const float logits[3] = {3, 0, 2};
    sampler *s = make(&p);
    int32_t id;
    assert_ok(sampler_sample(s, logits, 3, &id));
    assert_int_equal(id, 1);
    assert_int_equal(sampler_sample(s, logits, 1, &id), PM_ERROR_USAGE);
    sampler_close(s);
}

static void greedy_takes_the_lowest_id_among_equals(void **state)
{
    (void)state;
    sampler_params p = plain;
    p.temp = 0;
    float logits[100] = {0};
    logits[70] = logits[40] = logits[90] = 2;
    sampler *s = make(&p);
    int32_t id;
    assert_ok(sampler_sample(s, logits, 100, &id));
    assert_int_equal(id, 40);
    sampler_close(s);
}

static void refuses_what_is_no_number(void **state)
{
    (void)state;
    static const float bad[] = {NAN, -NAN, INFINITY};
    static const double temps[] = {0, 1};
    float logits[50];
    for (size_t t = 0; t < 2; t++) {
        sampler_params p = plain;
        p.temp = temps[t];
        p.top_k = 5;
        sampler *s = make(&p);
        int32_t id = -7;
        for (size_t b = 0; b < 3; b++) {
            for (size_t at = 0; at < 50; at++) {
                random_logits(3, logits, 50, 1);
                logits[at] = bad[b];
                char where[32];
                snprintf(where, sizeof where, "token %zu ", at);
                assert_int_equal(sampler_sample(s, logits, 50, &id), PM_ERROR_RUN);
                assert_non_null(strstr(pm_last_error(), where));
            }
        }
        for (size_t i = 0; i < 50; i++) logits[i] = -INFINITY;
        assert_int_equal(sampler_sample(s, logits, 50, &id), PM_ERROR_RUN);
        assert_int_equal(id, -7);
        logits[33] = -5; // one finite logit is enough; the others are never drawn
        for (int i = 0; i < 20; i++) {
            assert_ok(sampler_sample(s, logits, 50, &id));
            assert_int_equal(id, 33);
        }
        sampler_close(s);
    }
}

// 20,000 draws against the slow probabilities: chi-square below its 1 - 1e-6 quantile.
static void draws_follow_the_probabilities(void **state)
{
    (void)state;
    enum { N = 12, DRAWS = 20000 };
    static const sampler_params cases[] = {
        {.repeat_penalty = 1, .temp = 1, .typical_p = 1, .top_p = 1, .seed = 11},
        {.repeat_penalty = 1, .temp = 0.5, .top_k = 5, .typical_p = 1, .top_p = 1, .seed = 12},
        {.repeat_penalty = 1, .temp = 2, .typical_p = 1, .top_p = 0.8, .seed = 13},
        {.repeat_penalty = 1, .temp = 1, .typical_p = 0.7, .top_p = 1, .seed = 15},
        {.repeat_penalty = 1,
         .temp = 2,
         .typical_p = 1,
         .top_p = 0.9,
         .min_p = 0.2,
         .temp_last = true,
         .seed = 14}};
    float logits[N];
    random_logits(99, logits, N, 1);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        entry e[N];
        size_t n = slow(&cases[k], NULL, 0, logits, N, e);
        size_t seen[N] = {0};
        sampler *s = make(&cases[k]);
        for (int i = 0; i < DRAWS; i++) {
            int32_t id;
            assert_ok(sampler_sample(s, logits, N, &id));
            seen[id]++;
        }
        sampler_close(s);
        double chi = 0;
        size_t total = 0;
        for (size_t i = 0; i < n; i++) {
            double expected = e[i].p * DRAWS, d = (double)seen[e[i].id] - expected;
            chi += d * d / expected;
            total += seen[e[i].id];
        }
        assert_int_equal(total, DRAWS); // nothing outside the filters
        assert_true(n >= 2);
        // Wilson and Hilferty: z = 4.75 is a probability of 1e-6
        double f = (double)(n - 1), q = 1 - 2 / (9 * f) + 4.75 * sqrt(2 / (9 * f));
        if (chi > f * q * q * q) fail_msg("case %zu: chi-square %g with %g freedoms", k, chi, f);
    }
}

static void same_seed_same_draws(void **state)
{
    (void)state;
    float logits[300];
    sampler_params p = plain;
    p.seed = 5;
    sampler *a = make(&p), *b = make(&p);
    p.seed = 6;
    sampler *other = make(&p);
    int32_t first[50], id;
    int differ = 0;
    for (int i = 0; i < 50; i++) {
        random_logits((uint64_t)i, logits, 300, 1);
        assert_ok(sampler_sample(a, logits, 300, &first[i]));
        assert_ok(sampler_sample(b, logits, 300, &id));
        assert_int_equal(id, first[i]);
        assert_ok(sampler_sample(other, logits, 300, &id));
        differ += id != first[i];
    }
    assert_true(differ > 25);
    sampler_reset(a);
    for (int i = 0; i < 50; i++) {
        random_logits((uint64_t)i, logits, 300, 1);
        assert_ok(sampler_sample(a, logits, 300, &id));
        assert_int_equal(id, first[i]);
    }
    sampler_close(a);
    sampler_close(b);
    sampler_close(other);
}

// Draws from the largest logits alone, as from all of them: penalties and bias lower so many of the
// listed ones that just enough are left.
static void the_largest_are_enough(void **state)
{
    (void)state;
    enum { N = 1000, N_TOP = 256 };
    static float logits[N], top_logits[N_TOP];
    static int32_t top[N_TOP];
    int drawn = 0;
    for (uint64_t round = 0; round < 400; round++) {
        sampler_bias biases[8];
        sampler_params p = plain;
        random_logits(round, logits, N, 3);
        logits_top(logits, N, N_TOP, top);
        for (int i = 0; i < N_TOP; i++) top_logits[i] = logits[top[i]];
        p.seed = round;
        p.temp = round % 5 == 0 ? 0 : 0.3 + 2 * rng_double(round, 1);
        p.temp_last = round % 3 == 0;
        p.typical_p = round % 7 == 0 ? 0.8 : 1;
        p.top_p = round % 2 ? 0.9 : 1;
        p.min_p = round % 4 ? 0 : 0.01;
        p.repeat_penalty = round % 6 ? 1 + 3 * rng_double(round, 2) : 1;
        p.presence_penalty = 3 * rng_double(round, 3);
        p.frequency_penalty = rng_double(round, 4);
        p.n_biases = (size_t)(round % 9);
        p.biases = biases;
        for (size_t i = 0; i < p.n_biases; i++)
            biases[i] = (sampler_bias){top[2 * i], -20 * (float)rng_double(round, 10 + i)};
        size_t n_window = (size_t)(rng_u64(round, 5) % 65);
        p.top_k = N_TOP - (int64_t)(n_window + p.n_biases); // the most that is possible
        sampler *all = make(&p), *few = make(&p);
        for (size_t i = 0; i < n_window; i++) { // the largest ones
            sampler_accept(all, top[i]);
            sampler_accept(few, top[i]);
        }
        assert_true(sampler_takes_top(few, N_TOP, N));
        for (int i = 0; i < 20; i++) {
            int32_t a, b;
            assert_ok(sampler_sample(all, logits, N, &a));
            assert_ok(sampler_sample_top(few, top, top_logits, N_TOP, N, &b));
            assert_int_equal(a, b);
            drawn += a != top[0];
        }
        sampler_close(all);
        sampler_close(few);
    }
    assert_true(drawn > 2000);
}

static bool takes_256(sampler_params p, size_t n_window)
{
    sampler *s = make(&p);
    for (size_t i = 0; i < n_window; i++) sampler_accept(s, (int32_t)i);
    bool takes = sampler_takes_top(s, 256, 1000);
    sampler_close(s);
    return takes;
}

static void the_largest_are_not_enough(void **state)
{
    (void)state;
    sampler_bias lower = {3, -1}, raise = {3, 1};
    sampler_params p = plain;
    assert_false(takes_256(p, 0)); // top-k is off
    p.top_k = 1000;
    assert_false(takes_256(p, 0));
    p.top_k = 257;
    assert_false(takes_256(p, 0));
    p.top_k = 256;
    assert_true(takes_256(p, 64)); // no penalty: the window does not matter
    p.presence_penalty = 1;
    assert_true(takes_256(p, 0));
    assert_false(takes_256(p, 1));
    p.top_k = 192;
    assert_true(takes_256(p, 64));
    p.n_biases = 1;
    p.biases = &lower;
    assert_false(takes_256(p, 64));
    p.biases = &raise;
    p.top_k = 5;
    assert_false(takes_256(p, 0));
    p.n_biases = 0;
    p.presence_penalty = -1;
    assert_false(takes_256(p, 1));
    p.presence_penalty = 0;
    p.repeat_penalty = 0.9;
    assert_false(takes_256(p, 1));
    p = plain;
    p.temp = 0;
    assert_true(takes_256(p, 0));
}

static void r43_describes_order_and_values(void **state)
{
    (void)state;
    sampler_params p = plain;
    p.temp = 0.7;
    p.top_k = 12;
    p.seed = 4711;
    sampler *s = make(&p);
    buf text = {0};
    sampler_describe(s, &text);
    const char *at = text.data;
    static const char *const order[] = {"repeat-penalty 1", "temp 0.7", "top-k 12", "top-p 1",
                                        "min-p 0",          "draw",     "seed 4711"};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        at = strstr(at, order[i]);
        assert_non_null(at);
    }
    buf_free(&text);
    sampler_close(s);
}

static void r45_log_probabilities_sum_to_one(void **state)
{
    (void)state;
    static float logits[MAX_VOCAB];
    random_logits(21, logits, MAX_VOCAB, 4);
    double log_sum = logits_log_sum(logits, MAX_VOCAB), sum = 0;
    for (int32_t i = 0; i < MAX_VOCAB; i++) sum += exp((double)logits[i] - log_sum);
    assert_true(fabs(sum - 1) < 1e-9);
    static entry e[MAX_VOCAB];
    for (int32_t i = 0; i < MAX_VOCAB; i++) e[i] = (entry){i, (double)logits[i], 0, 0};
    qsort(e, MAX_VOCAB, sizeof *e, by_logit);
    static int32_t top[MAX_VOCAB];
    static const size_t counts[] = {0, 1, 63, 64, 65, 200, MAX_VOCAB};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        logits_top(logits, MAX_VOCAB, counts[k], top);
        for (size_t i = 0; i < counts[k]; i++) assert_int_equal(top[i], e[i].id);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_equal_the_slow_ones),
        cmocka_unit_test(typical_p_equals_the_slow_one),
        cmocka_unit_test(penalties_equal_the_slow_ones),
        cmocka_unit_test(repeat_penalty_goes_by_the_sign),
        cmocka_unit_test(r44_window_counts_the_last_tokens),
        cmocka_unit_test(biases),
        cmocka_unit_test(greedy_takes_the_lowest_id_among_equals),
        cmocka_unit_test(refuses_what_is_no_number),
        cmocka_unit_test(draws_follow_the_probabilities),
        cmocka_unit_test(same_seed_same_draws),
        cmocka_unit_test(the_largest_are_enough),
        cmocka_unit_test(the_largest_are_not_enough),
        cmocka_unit_test(r43_describes_order_and_values),
        cmocka_unit_test(r45_log_probabilities_sum_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
