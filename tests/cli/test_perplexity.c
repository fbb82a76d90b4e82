// pumice perplexity as a program: text and JSON, progress, exit statuses.
#include "cli/cli_test.h"

static const char *chapter(void)
{
    return test_source("tests/proof/alice.txt");
}

static void text_and_json(void **state)
{
    (void)state;
    static const char options[] = "--ctx 64 --windows 2 --device cpu";
    char *out, *err;
    assert_int_equal(
        pumice(&out, &err, "$P perplexity '%s' -f '%s' %s -q", tiny(), chapter(), options), 0);
    double value, error;
    assert_int_equal(sscanf(out,
                            "perplexity %lf ± %lf\n62 tokens scored in 2 windows of 64, on cpu",
                            &value, &error),
                     2);
    assert_string_equal(err, ""); // no progress: not a terminal
    assert_int_equal(count_lines(out), 2);
    free(out);
    free(err);

    json_t *all = json_of("$P perplexity '%s' -f '%s' %s --json -q", tiny(), chapter(), options);
    static const char *const keys[] = {"device", "description", "n_ctx",   "batch",     "kv_type",
                                       "act",    "bos",         "tokens",  "windows",   "scored",
                                       "error",  "mean_nll",    "seconds", "nll_error", "against"};
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) key_of(all, keys[k]);
    double exact = json_number_value(key_of(all, "perplexity"));
    assert_true(value > exact - 1e-3 && value < exact + 1e-3);
    json_decref(all);
    // the same from the standard input
    json_t *piped =
        json_of("$P perplexity '%s' -f - %s --json -q < '%s'", tiny(), options, chapter());
    assert_true(json_number_value(key_of(piped, "perplexity")) == exact);
    json_decref(piped);
}

static void progress_with_the_time_left(void **state)
{
    (void)state;
    char *out, *err;
    assert_int_equal(pumice(&out, &err, "$P perplexity -m '%s' -f '%s' --ctx 32 --windows 3 -v",
                            tiny(), chapter()),
                     0);
    assert_non_null(strstr(err, "window 1 of 3, perplexity "));
    assert_non_null(strstr(err, "window 3 of 3, perplexity "));
    assert_non_null(strstr(err, " left\n"));
    assert_null(strchr(err, '\r'));
    free(out);
    free(err);
}

static void another_device(void **state)
{
    (void)state;
    static const char options[] = "--ctx 48 --windows 1 --device cpu --against reference -q";
    char *text = output_of("$P perplexity '%s' -f '%s' %s", tiny(), chapter(), options);
    assert_non_null(strstr(text, "\nagainst reference, activations f32, KV cache f32: "));
    assert_non_null(strstr(text, "KL divergence: mean "));
    assert_non_null(strstr(text, "same choice: "));
    free(text);
    json_t *all = json_of("$P perplexity '%s' -f '%s' %s --json", tiny(), chapter(), options);
    static const char *const keys[] = {"device",   "perplexity", "error",  "kl_mean",
                                       "kl_error", "kl_p99",     "kl_max", "top1_agreement",
                                       "max_abs",  "mean_abs"};
    const json_t *other = key_of(all, "against");
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) key_of(other, keys[k]);
    json_decref(all);
}

static void refusals(void **state)
{
    (void)state;
    assert_refused(2, "-f", "$P perplexity '%s' -q", tiny());
    assert_refused(3, "/nowhere", "$P perplexity '%s' -f /nowhere/x -q", tiny());
    assert_refused(3, "/nowhere", "$P perplexity /nowhere/m.gguf -f '%s' -q", chapter());
    assert_refused(2, "tokens", "echo few | $P perplexity '%s' -f - -q", tiny());
    assert_refused(2, "windows", "$P perplexity '%s' -f '%s' --windows 0 -q", tiny(), chapter());
    assert_refused(2, "at least 3", "$P perplexity '%s' -f '%s' --ctx 2 -q", tiny(), chapter());
    assert_refused(2, "against", "$P perplexity '%s' -f '%s' --against gpu -q", tiny(), chapter());
    assert_refused(4, "against", "$P perplexity '%s' -f '%s' --against vulkan:4000 -q", tiny(),
                   chapter());
    assert_refused(2, "did you mean", "$P perplexity '%s' -f '%s' --agianst cpu -q", tiny(),
                   chapter());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_json),
        cmocka_unit_test(progress_with_the_time_left),
        cmocka_unit_test(another_device),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
