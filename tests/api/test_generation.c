// Generation on the reference executor: greedy golden texts, streaming, ends, log-probabilities.
#include "support/test.h"

#include <math.h>

#include "engine/generation.h"
#include "support/open.h"

static const char *const model_name = "smollm3-tied.f32";

typedef struct fixture {
    pm_options *options;
    pm_model *model;
    pm_session *session;
    json_t *golden;
    int32_t *ids; // the golden prompt of 33 tokens
    size_t n;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->options = test_options("device", "reference", NULL);
    f->model = test_golden(model_name, f->options);
    f->session = test_session(f->model, f->options);
    f->golden = test_golden_json(model_name);
    f->ids = test_prompt_ids(f->golden, 0, &f->n);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    pm_session_destroy(f->session);
    pm_model_close(f->model);
    pm_options_destroy(f->options);
    json_decref(f->golden);
    free(f->ids);
    free(f);
    return 0;
}

static pm_generation *start(fixture *f, const pm_options *o)
{
    pm_generation *g = NULL;
    assert_ok(pm_generation_start(f->session, o, f->ids, f->n, &g));
    return g;
}

static json_t *json_of(const pm_generation *g)
{
    char *text = NULL;
    assert_ok(pm_generation_json(g, &text));
    json_t *o = json_loads(text, JSON_ALLOW_NUL, NULL); // a token may be a zero byte
    assert_non_null(o);
    pm_free(text);
    return o;
}

static json_int_t number(const json_t *o, const char *key)
{
    assert_true(json_is_integer(json_object_get(o, key)));
    return json_integer_value(json_object_get(o, key));
}

// Runs with these options from an empty cache; *tokens (may be NULL) is released with free.
static char *run(fixture *f, const pm_options *o, const char *reason, int32_t **tokens, size_t *n)
{
    assert_ok(pm_session_rewind(f->session, 0));
    pm_generation *g = start(f, o);
    char *text = test_generate(g);
    assert_string_equal(pm_generation_finish_reason(g), reason);
    size_t n_text;
    const char *all = pm_generation_text(g, &n_text);
    assert_int_equal(n_text, strlen(text));
    assert_memory_equal(all, text, n_text);
    json_t *j = json_of(g);
    assert_string_equal(json_string_value(json_object_get(j, "text")), text);
    assert_string_equal(json_string_value(json_object_get(j, "finish_reason")), reason);
    if (tokens) *tokens = test_json_ids(json_object_get(j, "tokens"), n);
    json_decref(j);
    pm_generation_destroy(g);
    return text;
}

static void greedy_equals_the_golden_continuation(void **state)
{
    fixture *f = *state;
    pm_options *o = test_options("temp", "0", "max-tokens", "24", NULL);
    const json_t *p = json_array_get(json_object_get(f->golden, "prompts"), 0);
    const json_t *greedy = json_object_get(p, "greedy");
    size_t n_expected, n;
    int32_t *expected = test_json_ids(json_object_get(greedy, "ids"), &n_expected), *tokens;
    size_t end = 0; // the golden continuation does not stop at end tokens
    while (end < n_expected && !pm_token_is_end(f->model, expected[end])) end++;
    char *text = run(f, o, end < n_expected ? "stop" : "length", &tokens, &n);
    assert_int_equal(n, end);
    assert_true(n > 3);
    assert_memory_equal(tokens, expected, n * sizeof *tokens);
    char *decoded;
    size_t n_decoded;
    assert_ok(pm_detokenize(f->model, tokens, n, 0, &decoded, &n_decoded));
    json_t *valid = json_stringn(decoded, n_decoded);
    if (valid) assert_string_equal(text, decoded); // whole characters only: nothing was replaced
    json_decref(valid);
    pm_free(decoded);
    free(text);
    free(tokens);
    free(expected);
    pm_options_destroy(o);
}

static void lengths(void **state)
{
    fixture *f = *state;
    static const char *const most[] = {"0", "1", "5"};
    for (size_t i = 0; i < 3; i++) {
        pm_options *o = test_options("temp", "0", "max-tokens", most[i], NULL);
        int32_t *tokens;
        size_t n;
        char *text = run(f, o, "length", &tokens, &n);
        assert_int_equal(n, strtoul(most[i], NULL, 10));
        free(text);
        free(tokens);
        pm_options_destroy(o);
    }
}

// The context's last place is used; then the answer ends for its length.
static void full_context(void **state)
{
    fixture *f = *state;
    // no end token: all of them get a bias that keeps them away
    pm_options *o = test_options("device", "reference", "temp", "0", "ctx", "48", NULL);
    for (int32_t id = 0; id < pm_model_n_vocab(f->model); id++) {
        char bias[32];
        snprintf(bias, sizeof bias, "%d:-1000", id);
        if (pm_token_is_end(f->model, id)) assert_ok(pm_options_set(o, "logit-bias", bias));
    }
    pm_session *s = test_session(f->model, o);
    pm_generation *g = NULL;
    assert_ok(pm_generation_start(s, o, f->ids, f->n, &g));
    free(test_generate(g));
    assert_string_equal(pm_generation_finish_reason(g), "length");
    assert_int_equal(pm_session_n_past(s), 48);
    json_t *j = json_of(g);
    assert_int_equal(number(j, "completion_tokens"), 48 - (json_int_t)f->n + 1);
    json_decref(j);
    pm_generation_destroy(g);
    pm_session_destroy(s);
    pm_options_destroy(o);
}

static void prompts_that_do_not_fit(void **state)
{
    fixture *f = *state;
    pm_options *o = test_options("device", "reference", "ctx", "20", "max-tokens", "1", NULL);
    pm_session *s = test_session(f->model, o);
    pm_generation *g = NULL;
    assert_int_equal(pm_generation_start(s, o, f->ids, 0, &g), PM_ERROR_USAGE);
    assert_int_equal(pm_generation_start(s, o, f->ids, f->n, &g), PM_ERROR_USAGE);
    char both[2][16];
    snprintf(both[0], sizeof both[0], "%zu", f->n);
    assert_non_null(strstr(pm_last_error(), both[0]));
    assert_non_null(strstr(pm_last_error(), "20"));
    assert_null(g);
    assert_int_equal(pm_generation_start(s, o, f->ids, 21, &g), PM_ERROR_USAGE);
    assert_ok(pm_generation_start(s, o, f->ids, 20, &g)); // just fits
    free(test_generate(g));
    pm_generation_destroy(g);
    pm_session_destroy(s);
    pm_options_destroy(o);
}

static void stop_texts_cut_the_answer(void **state)
{
    fixture *f = *state;
    pm_options *o = test_options("temp", "0", "max-tokens", "24", NULL);
    char *whole = run(f, o, "length", NULL, NULL);
    size_t n = strlen(whole);
    assert_true(n > 12);
    for (size_t at = 0; at + 4 < n; at++) {
        char stop[5] = {0};
        memcpy(stop, whole + at, 4);
        if (pm_options_set(o, "stop", stop) != PM_OK) continue; // not whole characters
        size_t first = (size_t)(strstr(whole, stop) - whole);
        char *text = run(f, o, "stop", NULL, NULL);
        assert_int_equal(strlen(text), first);
        assert_memory_equal(text, whole, first);
        free(text);
        assert_ok(pm_options_set(o, "stop", NULL));
    }
    free(whole);
    pm_options_destroy(o);
}

static void r45_log_probabilities(void **state)
{
    fixture *f = *state;
    // penalties and temperature must not show in them
    pm_options *o = test_options("temp", "0.7", "repeat-penalty", "1.5", "seed", "1", "max-tokens",
                                 "6", "logprobs", "1000", NULL);
    assert_ok(pm_session_rewind(f->session, 0));
    pm_generation *g = start(f, o);
    free(test_generate(g));
    json_t *j = json_of(g);
    const json_t *list = json_object_get(j, "logprobs"), *tokens = json_object_get(j, "tokens");
    assert_true(json_array_size(tokens) > 0);
    assert_int_equal(json_array_size(list), json_array_size(tokens));
    pm_session *s = test_session(f->model, f->options);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i), *top = json_object_get(row, "top");
        json_int_t id = number(row, "id");
        assert_int_equal(id, json_integer_value(json_array_get(tokens, i)));
        assert_int_equal(json_array_size(top), pm_model_n_vocab(f->model));
        double sum = 0, before = INFINITY, own = NAN;
        for (size_t k = 0; k < json_array_size(top); k++) {
            const json_t *t = json_array_get(top, k);
            double p = json_number_value(json_object_get(t, "logprob"));
            assert_true(p <= before);
            before = p;
            sum += exp(p);
            if (number(t, "id") == id) own = p;
            assert_true(json_is_string(json_object_get(t, "text")));
        }
        assert_true(fabs(sum - 1) < 1e-4);
        assert_true(own == json_number_value(json_object_get(row, "logprob")));
        // the same from the logits themselves
        if (i == 0) {
            assert_ok(pm_session_eval(s, f->ids, f->n, 0));
        } else {
            int32_t last = (int32_t)json_integer_value(json_array_get(tokens, i - 1));
            assert_ok(pm_session_eval(s, &last, 1, 0));
        }
        const float *logits = pm_session_logits(s, 0);
        double z = 0;
        for (int32_t k = 0; k < pm_model_n_vocab(f->model); k++) z += exp((double)logits[k]);
        assert_true(fabs((double)logits[id] - log(z) - own) < 1e-9);
    }
    pm_session_destroy(s);
    json_decref(j);
    pm_generation_destroy(g);
    pm_options_destroy(o);
}

static void no_log_probabilities_unasked(void **state)
{
    fixture *f = *state;
    pm_options *o = test_options("max-tokens", "2", NULL);
    pm_generation *g = start(f, o);
    free(test_generate(g));
    json_t *j = json_of(g);
    assert_null(json_object_get(j, "logprobs"));
    json_decref(j);
    pm_generation_destroy(g);
    assert_ok(pm_options_set(o, "logprobs", "0"));
    g = start(f, o);
    free(test_generate(g));
    j = json_of(g);
    assert_int_equal(
        json_array_size(json_object_get(json_array_get(json_object_get(j, "logprobs"), 0), "top")),
        0);
    json_decref(j);
    pm_generation_destroy(g);
    pm_options_destroy(o);
}

// The same text alone, after another request, and on a cache that holds the prompt.
static void r46_requests_do_not_change_each_other(void **state)
{
    fixture *f = *state;
    pm_options *o = test_options("seed", "123", "max-tokens", "12", NULL);
    char *alone = run(f, o, "length", NULL, NULL);
    pm_generation *g = NULL;
    assert_ok(pm_generation_start(f->session, o, f->ids + 5, 7, &g));
    free(test_generate(g));
    pm_generation_destroy(g);
    for (int i = 0; i < 2; i++) {
        g = start(f, o);
        char *again = test_generate(g);
        assert_string_equal(again, alone);
        json_t *j = json_of(g);
        assert_int_equal(number(j, "prompt_tokens"), f->n);
        assert_int_equal(number(j, "cached_tokens"), i == 0 ? 0 : (json_int_t)f->n - 1);
        assert_int_equal(number(j, "seed"), 123);
        json_decref(j);
        pm_generation_destroy(g);
        free(again);
    }
    assert_ok(pm_options_set(o, "seed", "124"));
    char *other = run(f, o, "length", NULL, NULL);
    assert_string_not_equal(other, alone);
    free(other);
    free(alone);
    pm_options_destroy(o);
}

static void the_rate_never_counts_cached_tokens(void **state)
{
    fixture *f = *state;
    pm_options *o = test_options("max-tokens", "3", "temp", "0", NULL);
    free(run(f, o, "length", NULL, NULL));
    pm_generation *g = start(f, o);
    free(test_generate(g));
    json_t *j = json_of(g);
    const json_t *t = json_object_get(j, "timings");
    double seconds = json_number_value(json_object_get(t, "prompt_s"));
    double rate = json_number_value(json_object_get(t, "prompt_tps"));
    assert_true(seconds > 0);
    assert_true(fabs(rate * seconds - 1) < 1e-9); // one token was evaluated
    assert_true(json_number_value(json_object_get(t, "first_token_s")) >= seconds);
    static const char *const keys[] = {"load_s", "generate_s", "generate_tps"};
    for (size_t i = 0; i < 3; i++) assert_true(json_is_real(json_object_get(t, keys[i])));
    assert_string_equal(json_string_value(json_object_get(j, "device")), "reference");
    json_decref(j);
    pm_generation_destroy(g);
    pm_options_destroy(o);
}

static double n_evaluations(const pm_generation *g)
{
    json_t *j = json_of(g);
    const json_t *t = json_object_get(j, "timings");
    double n = json_number_value(json_object_get(t, "generate_s")) *
               json_number_value(json_object_get(t, "generate_tps"));
    json_decref(j);
    return n;
}

// Evaluations behind the first token count, also the one that shows that the text is at its end.
static void the_rate_counts_evaluations(void **state)
{
    fixture *f = *state;
    pm_options *o = test_options("temp", "0", "max-tokens", "5", NULL);
    pm_generation *g = start(f, o);
    free(test_generate(g));
    assert_true(fabs(n_evaluations(g) - 4) < 1e-6);
    pm_generation_destroy(g);
    const char *path = test_temp("steps.gbnf");
    test_write(path, "root ::= \"x\"", 12);
    assert_ok(pm_options_set(o, "grammar", path));
    g = start(f, o);
    free(test_generate(g));
    assert_string_equal(pm_generation_finish_reason(g), "stop");
    assert_true(fabs(n_evaluations(g) - 1) < 1e-6); // one token, then the end
    pm_generation_destroy(g);
    pm_options_destroy(o);
}

// What else uses the session ends a generation, instead of mixing two texts.
static void one_generation_at_a_time(void **state)
{
    fixture *f = *state;
    pm_options *o = test_options("temp", "0", "max-tokens", "6", NULL);
    const char *text;
    size_t n;
    int done;
    for (int way = 0; way < 4; way++) {
        pm_generation *old = start(f, o), *other = NULL;
        if (way != 3) assert_ok(pm_generation_next(old, &text, &n, &done));
        if (way == 0) assert_ok(pm_generation_start(f->session, o, f->ids, 9, &other));
        if (way == 1) assert_ok(pm_session_rewind(f->session, 4));
        if (way == 2) assert_ok(pm_session_eval(f->session, f->ids, 1, 0));
        if (way == 3) other = start(f, o); // before the first token
        assert_int_equal(pm_generation_next(old, &text, &n, &done), PM_ERROR_USAGE);
        assert_non_null(strstr(pm_last_error(), "its session was used"));
        if (way == 3) { // what comes of the other one is as if it was alone
            char *got = test_generate(other), *alone = run(f, o, "length", NULL, NULL);
            assert_string_equal(got, alone);
            free(got);
            free(alone);
        }
        pm_generation_destroy(old);
        pm_generation_destroy(other);
    }
    pm_options_destroy(o);
}

static void interrupts(void **state)
{
    fixture *f = *state;
    pm_options *o = test_options("temp", "0", "max-tokens", "20", NULL);
    char *whole = run(f, o, "length", NULL, NULL);
    // between tokens
    pm_generation *g = start(f, o);
    const char *text;
    size_t n, shown = 0;
    int done;
    for (int i = 0; i < 4; i++) {
        assert_ok(pm_generation_next(g, &text, &n, &done));
        shown += n;
    }
    pm_generation_stop(g);
    assert_ok(pm_generation_next(g, &text, &n, &done));
    assert_int_equal(done, 1);
    shown += n;
    assert_string_equal(pm_generation_finish_reason(g), "interrupted");
    assert_memory_equal(pm_generation_text(g, &n), whole, shown);
    assert_int_equal(n, shown);
    pm_generation_destroy(g);
    // while the prompt is evaluated
    assert_ok(pm_session_rewind(f->session, 0));
    g = start(f, o);
    pm_session_interrupt(f->session);
    assert_ok(pm_generation_next(g, &text, &n, &done));
    assert_int_equal(done, 1);
    assert_int_equal(n, 0);
    assert_string_equal(pm_generation_finish_reason(g), "interrupted");
    pm_generation_destroy(g);
    char *again = run(f, o, "length", NULL, NULL); // nothing of it stays
    assert_string_equal(again, whole);
    free(again);
    free(whole);
    pm_options_destroy(o);
}

static void unfinished_generations(void **state)
{
    fixture *f = *state;
    pm_options *o = test_options("max-tokens", "3", NULL);
    pm_generation_destroy(start(f, o));
    pm_generation *g = start(f, o);
    json_t *j = json_of(g); // before the first token
    assert_int_equal(number(j, "completion_tokens"), 0);
    assert_true(json_is_null(json_object_get(json_object_get(j, "timings"), "prompt_tps")));
    json_decref(j);
    free(test_generate(g));
    const char *text;
    size_t n;
    int done = 0;
    assert_ok(pm_generation_next(g, &text, &n, &done)); // after its end: nothing more
    assert_int_equal(done, 1);
    assert_int_equal(n, 0);
    pm_generation_destroy(g);
    pm_generation_destroy(NULL);
    assert_ok(pm_options_set(o, "logit-bias", "400000:1"));
    assert_int_equal(pm_generation_start(f->session, o, f->ids, f->n, &g), PM_ERROR_USAGE);
    pm_options_destroy(o);
}

// The file's own sampling defaults, which options replace.
static void sampling_keys_of_the_file(void **state)
{
    fixture *f = *state;
    gguf *g = NULL;
    gguf_writer *w = NULL;
    assert_ok(gguf_open(test_data("vocab/smollm2.gguf"), true, &g));
    const char *path = test_temp("sampling.gguf");
    assert_ok(gguf_writer_open(path, &w));
    for (size_t i = 0; i < gguf_n_values(g); i++) gguf_put_copy(w, g, gguf_value_at(g, i));
    gguf_put_f32(w, "general.sampling.temp", 0.25f);
    gguf_put_i32(w, "general.sampling.top_k", 7);
    gguf_put_f32(w, "general.sampling.penalty_repeat", 1.5f);
    gguf_put_i32(w, "general.sampling.penalty_last_n", -1);
    assert_ok(gguf_begin_data(w));
    assert_ok(gguf_writer_commit(w));
    gguf_close(g);
    pm_options *vocab_only = test_options("vocab-only", "true", NULL);
    pm_model *m = NULL;
    assert_ok(pm_model_open(path, vocab_only, &m));
    pm_sampler *s = NULL;
    assert_ok(pm_sampler_create(m, NULL, &s));
    static const char *const expected[] = {"temp 0.25", "top-k 7", "repeat-penalty 1.5",
                                           "repeat-last -1", "top-p 0.95"};
    for (size_t i = 0; i < 5; i++) assert_non_null(strstr(pm_sampler_describe(s), expected[i]));
    pm_sampler_destroy(s);
    pm_options *o = test_options("top-k", "3", "temp", "2", NULL);
    assert_ok(pm_sampler_create(m, o, &s));
    assert_non_null(strstr(pm_sampler_describe(s), "top-k 3"));
    assert_non_null(strstr(pm_sampler_describe(s), "temp 2"));
    assert_non_null(strstr(pm_sampler_describe(s), "repeat-penalty 1.5"));
    pm_sampler_destroy(s);
    // without a model: the defaults
    assert_ok(pm_sampler_create(NULL, NULL, &s));
    assert_non_null(strstr(pm_sampler_describe(s), "temp 0.8"));
    pm_sampler_destroy(s);
    // no weights, no session
    pm_session *none = NULL;
    assert_int_equal(pm_session_create(m, NULL, &none), PM_ERROR_USAGE);
    pm_model_close(m);
    pm_options_destroy(o);
    pm_options_destroy(vocab_only);
    (void)f;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_equals_the_golden_continuation),
        cmocka_unit_test(lengths),
        cmocka_unit_test(full_context),
        cmocka_unit_test(prompts_that_do_not_fit),
        cmocka_unit_test(stop_texts_cut_the_answer),
        cmocka_unit_test(r45_log_probabilities),
        cmocka_unit_test(no_log_probabilities_unasked),
        cmocka_unit_test(r46_requests_do_not_change_each_other),
        cmocka_unit_test(the_rate_never_counts_cached_tokens),
        cmocka_unit_test(the_rate_counts_evaluations),
        cmocka_unit_test(one_generation_at_a_time),
        cmocka_unit_test(interrupts),
        cmocka_unit_test(unfinished_generations),
        cmocka_unit_test(sampling_keys_of_the_file),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
