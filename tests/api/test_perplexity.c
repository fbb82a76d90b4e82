// pm_perplexity_*: windows as llama-perplexity cuts them, values that golden models say, a second
// device beside the first.
#include "support/test.h"

#include <math.h>
#include <stdbool.h>

#include "support/open.h"

static const char *chapter(size_t *n)
{
    static char *text;
    static size_t length;
    if (!text) text = test_read(test_source("tests/proof/alice.txt"), &length);
    *n = length;
    return text;
}

static double number(const json_t *o, const char *name)
{
    const json_t *value = json_object_get(o, name);
    if (!json_is_number(value)) fail_msg("no number '%s'", name);
    return json_number_value(value);
}

static json_t *finish(pm_perplexity *run)
{
    size_t n = pm_perplexity_n_windows(run);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(pm_perplexity_n_done(run), i);
        assert_ok(pm_perplexity_next(run));
    }
    assert_int_equal(pm_perplexity_n_done(run), n);
    char *text = NULL;
    assert_ok(pm_perplexity_json(run, &text));
    json_t *all = json_loads(text, 0, NULL);
    assert_non_null(all);
    double error;
    assert_true(pm_perplexity_value(run, &error) == number(all, "perplexity"));
    pm_free(text);
    pm_perplexity_destroy(run);
    return all;
}

static json_t *run_text(pm_model *model, const pm_options *o, const char *text, size_t n)
{
    pm_perplexity *run = NULL;
    assert_ok(pm_perplexity_start(model, o, text, n, &run));
    assert_true(isnan(pm_perplexity_value(run, NULL)));
    return finish(run);
}

// ---- values -----------------------------------------------------------------------------------

static double nll(const float *logits, int32_t n_vocab, int32_t id)
{
    double sum = 0;
    for (int32_t i = 0; i < n_vocab; i++) sum += exp((double)logits[i] - (double)logits[id]);
    return log(sum);
}

// One window of 33 tokens scores 16, one of 17 the 8 before, and so on: together they are the
// prompt's tokens, whose mean Hugging Face computed. What is left is the first one behind the
// beginning.
static void mean_of_a_golden_prompt(const char *name)
{
    pm_options *o = test_options("device", "reference", "windows", "1", NULL);
    pm_model *model = test_golden(name, o);
    json_t *golden = test_golden_json(name);
    const json_t *prompt = json_array_get(json_object_get(golden, "prompts"), 0);
    const char *text = json_string_value(json_object_get(prompt, "text"));
    size_t n;
    int32_t *ids = test_prompt_ids(golden, 0, &n);
    assert_int_equal(n, 33);
    double sum = 0;
    for (unsigned size = 33; size >= 3; size = (size + 1) / 2) {
        char ctx[16];
        snprintf(ctx, sizeof ctx, "%u", size);
        assert_ok(pm_options_set(o, "ctx", ctx));
        json_t *all = run_text(model, o, text, strlen(text));
        assert_int_equal(number(all, "scored"), size / 2);
        assert_int_equal(number(all, "windows"), 1);
        assert_int_equal(number(all, "tokens"), 33);
        sum += number(all, "mean_nll") * number(all, "scored");
        json_decref(all);
    }
    pm_session *session = test_session(model, o);
    assert_ok(pm_session_eval(session, ids, 1, 0));
    sum += nll(pm_session_logits(session, 0), pm_model_n_vocab(model), ids[1]);
    double expected = number(prompt, "mean_nll"); // rounded to 6 digits
    if (fabs(sum / 32 - expected) > 2e-5) fail_msg("%s: %.8f, not %.8f", name, sum / 32, expected);
    pm_session_destroy(session);
    free(ids);
    json_decref(golden);
    pm_model_close(model);
    pm_options_destroy(o);
}

static void golden_prompts(void **state)
{
    (void)state;
    mean_of_a_golden_prompt("llama-tied.f32");
    mean_of_a_golden_prompt("qwen3.f32");
    mean_of_a_golden_prompt("mistral.f32"); // SentencePiece: the text gets BOS
    mean_of_a_golden_prompt("gemma2-small.f32");
}

typedef struct sums {
    double nll, squares;
    size_t n;
} sums;

// The same windows by hand: the second half of each, BOS in front of each where `bos` says so.
static sums by_hand(pm_model *model, const pm_options *o, size_t n_ctx, size_t n_windows, bool bos)
{
    size_t n_text, n_ids;
    const char *text = chapter(&n_text);
    assert_ok(pm_tokenize(model, text, n_text, bos ? PM_TOKENS_BOS : 0, NULL, 0, &n_ids));
    int32_t *ids = malloc(n_ids * sizeof *ids), n_vocab = pm_model_n_vocab(model);
    assert_ok(pm_tokenize(model, text, n_text, bos ? PM_TOKENS_BOS : 0, ids, n_ids, &n_ids));
    pm_session *session = test_session(model, o);
    sums s = {0};
    for (size_t w = 0; w < n_windows; w++) {
        int32_t *window = ids + w * n_ctx;
        if (bos) window[0] = pm_token_bos(model);
        assert_ok(pm_session_rewind(session, 0));
        assert_ok(pm_session_eval(session, window, n_ctx, 1));
        for (size_t i = n_ctx / 2; i + 1 < n_ctx; i++) {
            double x = nll(pm_session_logits(session, i), n_vocab, window[i + 1]);
            s.nll += x;
            s.squares += x * x;
            s.n++;
        }
    }
    pm_session_destroy(session);
    free(ids);
    return s;
}

static void windows_of(const char *name, const char *ctx, bool bos)
{
    enum { N_WINDOWS = 3 };
    pm_options *o = test_options("device", "cpu", "windows", "3", "ctx", ctx, "batch", "17", NULL);
    pm_model *model = test_golden(name, o);
    size_t n_text, n_ctx = (size_t)atoi(ctx);
    const char *text = chapter(&n_text);
    json_t *all = run_text(model, o, text, n_text);
    assert_int_equal(number(all, "windows"), N_WINDOWS);
    assert_int_equal(number(all, "n_ctx"), n_ctx);
    assert_int_equal(json_is_true(json_object_get(all, "bos")), bos);
    sums s = by_hand(model, o, n_ctx, N_WINDOWS, bos);
    assert_int_equal(number(all, "scored"), s.n);
    double mean = s.nll / (double)s.n;
    double error = sqrt((s.squares / (double)s.n - mean * mean) / (double)(s.n - 1));
    // equal rows give equal logits, whatever they are computed with
    assert_true(fabs(number(all, "mean_nll") - mean) < 1e-9);
    assert_true(fabs(number(all, "nll_error") - error) < 1e-9);
    assert_true(fabs(number(all, "perplexity") - exp(mean)) < 1e-9 * exp(mean));
    assert_true(fabs(number(all, "error") - exp(mean) * error) < 1e-9 * exp(mean));
    assert_true(json_is_null(json_object_get(all, "against")));
    json_decref(all);
    pm_model_close(model);
    pm_options_destroy(o);
}

static void windows_by_hand(void **state)
{
    (void)state;
    windows_of("smollm3-tied.q8_0", "64", false);
    windows_of("llama-mix-k", "101", false);
    windows_of("gemma3.q8_0", "50", true);
}

// Without options: windows of 512 tokens, all that are whole.
static void windows_without_options(void **state)
{
    (void)state;
    pm_options *o = test_options("device", "cpu", NULL);
    pm_model *model = test_golden("smollm3-tied.q8_0", o);
    size_t n_text;
    const char *text = chapter(&n_text);
    pm_perplexity *run = NULL;
    assert_ok(pm_perplexity_start(model, o, text, n_text, &run));
    size_t n_ids;
    assert_ok(pm_tokenize(model, text, n_text, 0, NULL, 0, &n_ids));
    assert_int_equal(pm_perplexity_n_windows(run), n_ids / 512);
    pm_perplexity_destroy(run);
    pm_model_close(model);
    pm_options_destroy(o);
}

// ---- two devices ------------------------------------------------------------------------------

static json_t *against(const char *device, const char *act, const char *kv, const char *other)
{
    pm_options *o = test_options("device", device, "windows", "2", "ctx", "64", "act", act,
                                 "kv-type", kv, "against", other, NULL);
    pm_model *model = test_golden("smollm3-tied.q8_0", o);
    size_t n_text;
    const char *text = chapter(&n_text);
    json_t *all = run_text(model, o, text, n_text);
    pm_model_close(model);
    pm_options_destroy(o);
    return all;
}

static void a_device_against_itself(void **state)
{
    (void)state;
    json_t *all = against("reference", "f32", "f32", "reference");
    const json_t *other = json_object_get(all, "against");
    assert_string_equal(json_string_value(json_object_get(other, "device")), "reference");
    assert_true(number(other, "perplexity") == number(all, "perplexity"));
    assert_true(number(other, "error") == number(all, "error"));
    assert_true(number(other, "kl_max") == 0);
    assert_true(number(other, "max_abs") == 0);
    assert_true(number(other, "top1_agreement") == 1);
    json_decref(all);
}

static void the_cpu_against_the_reference(void **state)
{
    (void)state;
    json_t *exact = against("cpu", "f32", "f32", "reference");
    const json_t *other = json_object_get(exact, "against");
    assert_true(number(other, "kl_max") < 1e-7);
    assert_true(number(other, "max_abs") < 1e-3);
    json_t *rounded = against("cpu", "q8", "f16", "reference");
    const json_t *apart = json_object_get(rounded, "against");
    // 8-bit activations: off, by little, and more than sums in another order
    assert_true(number(apart, "kl_mean") > 10 * number(other, "kl_mean"));
    assert_true(number(apart, "kl_mean") < 2e-2);
    assert_true(number(apart, "kl_mean") <= number(apart, "kl_p99"));
    assert_true(number(apart, "kl_p99") <= number(apart, "kl_max"));
    assert_true(number(apart, "kl_error") > 0);
    assert_true(number(apart, "top1_agreement") > 0.8);
    // the other side is the same in both
    assert_true(number(apart, "perplexity") == number(other, "perplexity"));
    json_decref(exact);
    json_decref(rounded);
}

// ---- what can't be done -----------------------------------------------------------------------

static void refuse(pm_model *model, const pm_options *o, const char *text, const char *part)
{
    pm_perplexity *run = NULL;
    assert_int_equal(pm_perplexity_start(model, o, text, strlen(text), &run), PM_ERROR_USAGE);
    assert_null(run);
    if (!strstr(pm_last_error(), part)) fail_msg("no '%s' in '%s'", part, pm_last_error());
}

static void refusals(void **state)
{
    (void)state;
    pm_options *o = test_options("device", "cpu", "ctx", "16", NULL);
    pm_model *model = test_golden("smollm3-tied.q8_0", o);
    refuse(model, o, "a few words", "a window takes 16");
    refuse(model, o, "", "has 0 tokens");
    assert_ok(pm_options_set(o, "ctx", "2"));
    refuse(model, o, "some more words than two", "at least 3");
    assert_ok(pm_options_set(o, "ctx", "3"));
    pm_perplexity *run = NULL;
    static const char text[] = "some words of a text";
    assert_ok(pm_perplexity_start(model, o, text, strlen(text), &run));
    while (pm_perplexity_n_done(run) < pm_perplexity_n_windows(run))
        assert_ok(pm_perplexity_next(run));
    assert_int_equal(pm_perplexity_next(run), PM_ERROR_USAGE);
    pm_perplexity_destroy(run);
    pm_perplexity_destroy(NULL);
    assert_ok(pm_options_set(o, "against", "vulkan:4000"));
    assert_int_equal(pm_perplexity_start(model, o, text, strlen(text), &run), PM_ERROR_DEVICE);
    assert_non_null(strstr(pm_last_error(), "against"));
    pm_model_close(model);

    assert_ok(pm_options_set(o, "vocab-only", "true"));
    model = test_golden("smollm3-tied.q8_0", o);
    refuse(model, o, text, "vocab-only");
    pm_model_close(model);
    pm_options_destroy(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_prompts),
        cmocka_unit_test(windows_by_hand),
        cmocka_unit_test(windows_without_options),
        cmocka_unit_test(a_device_against_itself),
        cmocka_unit_test(the_cpu_against_the_reference),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
