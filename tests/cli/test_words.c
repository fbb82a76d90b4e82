// The command line itself: help, versions, options and their values, exit statuses.
#include "cli/cli_test.h"

#include <stdbool.h>

static const char *const names[] = {"chat",    "ask",       "info",   "tokenize", "template",
                                    "logits",  "devices",   "bench",  "quantize", "check",
                                    "inspect", "train-bpe", "compare"};
enum { N_NAMES = sizeof names / sizeof names[0] };

static void help_works_without_a_model(void **state)
{
    (void)state;
    char *overview = output_of("$P"), *same = output_of("$P --help"), *shorter = output_of("$P -h");
    assert_string_equal(overview, same);
    assert_string_equal(overview, shorter);
    for (size_t k = 0; k < N_NAMES; k++) {
        assert_non_null(strstr(overview, names[k]));
        char *help = output_of("$P %s --help", names[k]);
        char usage[64];
        snprintf(usage, sizeof usage, "Usage: pumice %s", names[k]);
        assert_non_null(strstr(help, usage));
        assert_non_null(strstr(help, "--verbose"));
        assert_null(strstr(help, "\x1b"));
        char *again = output_of("$P help %s", names[k]);
        assert_string_equal(help, again);
        free(again);
        free(help);
    }
    free(overview);
    free(same);
    free(shorter);
}

static void one_blank_each(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at++) {
        bool blank = *at == ' ' || *at == '\n';
        if (blank && to > text && to[-1] == ' ') continue;
        *to++ = blank ? ' ' : *at;
    }
    *to = 0;
}

static void help_shows_ranges_and_hides_diagnosis(void **state)
{
    (void)state;
    char *help = output_of("$P ask --help"), *debug = output_of("$P ask --help-debug");
    const char *name, *group;
    for (size_t k = 0; pm_options_describe(k, &name, &group, NULL, NULL, NULL, NULL); k++) {
        char option[80];
        snprintf(option, sizeof option, "--%s ", name);
        if (!strcmp(group, "sampler")) assert_non_null(strstr(help, option));
        if (!strcmp(group, "debug")) {
            snprintf(option, sizeof option, "--%s", name);
            assert_null(strstr(help, option));
            assert_non_null(strstr(debug, option));
        }
    }
    assert_non_null(strstr(help, "-n, --max-tokens"));
    for (const char *line = help; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 100);
    // Whatever the line breaks are, the words stand there as the table has them.
    one_blank_each(help);
    const char *range, *text;
    for (size_t k = 0; pm_options_describe(k, &name, &group, NULL, &range, NULL, &text); k++) {
        if (strcmp(group, "sampler") != 0) continue;
        assert_non_null(strstr(help, text));
        assert_true(!range || !strcmp(range, "true or false") || strstr(help, range));
    }
    free(help);
    free(debug);
}

static void version_is_the_librarys(void **state)
{
    (void)state;
    char *text = output_of("$P --version"), wanted[64];
    snprintf(wanted, sizeof wanted, "pumice %s\n", pm_version());
    assert_string_equal(text, wanted);
    free(text);
}

static void unknown_words_name_the_nearest(void **state)
{
    (void)state;
    assert_refused(2, "pumice tokenize", "$P tokenise x");
    assert_refused(2, "pumice chat", "$P caht");
    assert_refused(2, "--help", "$P --hlep");
    assert_refused(2, "--temp", "$P ask --tmep 1 hi");
    assert_refused(2, "--max-tokens", "$P ask --max-token=5 hi");
    assert_refused(2, "--json", "$P devices --jsn");
    assert_refused(2, "-x", "$P ask -x hi");
    assert_refused(2, "--temp", "$P devices --temp 1");
}

static void values_out_of_range_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "--temp x",      "--temp -1",   "--temp nan",         "--temp 1e9",
        "--temp=",       "--top-p 1.5", "--top-p -0.1",       "--min-p 2",
        "--top-k -2",    "--top-k 1.5", "--repeat-penalty 0", "--seed -5",
        "--ctx 0",       "--ctx -1",    "--ctx 10x",          "--batch 0",
        "--batch 513",   "--threads 0", "--threads -1",       "--max-tokens -2",
        "--kv-type f15", "--act q9",    "--device gpu",       "-n x",
        "-t 0",          "-s 1.5",      "--gpu-layers -1",    "--top-k 99999999999999999999"};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++)
        assert_refused(2, "", "$P ask '%s' hi %s", tiny(), wrong[k]);
    assert_refused(2, "temp", "$P ask '%s' hi --temp x", tiny());
}

static void switches_and_values_in_all_spellings(void **state)
{
    (void)state;
    assert_refused(2, "needs a value", "$P ask '%s' hi --temp", tiny());
    assert_refused(2, "needs a value", "$P ask '%s' hi --temp --json", tiny());
    assert_refused(2, "takes no value", "$P ask '%s' hi --json=yes", tiny());
    char *a = output_of("$P tokenize '%s' --ids -- --ids", tiny());
    char *b = output_of("printf -- --ids | $P tokenize '%s' --ids", tiny());
    assert_string_equal(a, b);
    free(b);
    b = output_of("$P tokenize --ids -m '%s' -- --ids", tiny());
    assert_string_equal(a, b);
    free(b);
    b = output_of("$P tokenize --json --no-json --ids --model='%s' -- --ids", tiny());
    assert_string_equal(a, b);
    free(b);
    free(a);
    // A number may begin with a minus and is no option.
    a = output_of("$P tokenize '%s' --ids -12.5", tiny());
    b = output_of("printf -- -12.5 | $P tokenize '%s' --ids", tiny());
    assert_string_equal(a, b);
    free(a);
    free(b);
}

static void too_many_words(void **state)
{
    (void)state;
    assert_refused(2, "three", "$P ask one two three");
    assert_refused(2, "needs", "$P quantize one");
    assert_refused(2, "one", "$P devices one");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_works_without_a_model),
        cmocka_unit_test(help_shows_ranges_and_hides_diagnosis),
        cmocka_unit_test(version_is_the_librarys),
        cmocka_unit_test(unknown_words_name_the_nearest),
        cmocka_unit_test(values_out_of_range_are_refused),
        cmocka_unit_test(switches_and_values_in_all_spellings),
        cmocka_unit_test(too_many_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
