// The table of options: every number at both ends of its range, what is refused, names.
#include "support/test.h"

#include "api/options.h"

static pm_status set(pm_options *o, const char *name, const char *value)
{
    return pm_options_set(o, name, value);
}

static void number_text(double x, char out[32])
{
    snprintf(out, 32, "%.17g", x);
}

// Every number's range is written in its help, its ends are accepted, what lies beyond is refused.
static void r42_both_ends(void **state)
{
    (void)state;
    pm_options *o = pm_options_create();
    int n_numbers = 0;
    for (size_t i = 0; i < n_option_rows; i++) {
        const option_row *row = &option_table[i];
        if (row->kind != OPTION_INT && row->kind != OPTION_REAL && row->kind != OPTION_INT_LIST) {
            continue;
        }
        n_numbers++;
        double step = row->kind == OPTION_REAL ? 0.001 : 1;
        char low[32], high[32], below[32], above[32];
        snprintf(low, sizeof low, "%.10g", row->lowest);
        snprintf(high, sizeof high, "%.17g", row->highest);
        number_text(row->lowest - step, below);
        number_text(row->highest + step, above);
        assert_non_null(strstr(row->range, low));
        assert_non_null(strstr(row->range, high));
        assert_ok(set(o, row->name, low));
        assert_string_equal(pm_options_get(o, row->name), low);
        assert_ok(set(o, row->name, high));
        assert_string_equal(pm_options_get(o, row->name), high);
        assert_int_equal(set(o, row->name, below), PM_ERROR_USAGE);
        assert_int_equal(set(o, row->name, above), PM_ERROR_USAGE);
        assert_non_null(strstr(pm_last_error(), row->range));
        // the range says what 0 and -1 mean, and that is what happens
        bool zero = row->lowest <= 0 && row->highest >= 0;
        bool minus = row->lowest <= -1;
        assert_int_equal(set(o, row->name, "0"), zero ? PM_OK : PM_ERROR_USAGE);
        assert_int_equal(set(o, row->name, "-1"), minus ? PM_OK : PM_ERROR_USAGE);
        assert_non_null(strstr(row->range, zero ? "0" : "0 and -1 are refused"));
        if (zero && !minus) assert_non_null(strstr(row->range, "-1 is refused"));
        // a refused value leaves the one before
        assert_ok(set(o, row->name, high));
        assert_int_equal(set(o, row->name, "x"), PM_ERROR_USAGE);
        assert_string_equal(pm_options_get(o, row->name), high);
    }
    assert_true(n_numbers > 15);
    pm_options_destroy(o);
}

static void r42_no_other_numbers(void **state)
{
    (void)state;
    static const char *const bad[] = {"",         " ",
                                      "nan",      "NaN",
                                      "inf",      "-inf",
                                      "infinity", "1x",
                                      "1 ",       " 1",
                                      "+1",       "0x10",
                                      "1e",       "1.5.2",
                                      "1e999",    "--1",
                                      "1,2,",     ",1",
                                      "null",     "true",
                                      "1_000",    "9999999999999999999999",
                                      "\xc3\xbc"};
    pm_options *o = pm_options_create();
    for (size_t i = 0; i < n_option_rows; i++) {
        const option_row *row = &option_table[i];
        if (row->kind != OPTION_INT && row->kind != OPTION_REAL && row->kind != OPTION_INT_LIST) {
            continue;
        }
        for (size_t j = 0; j < sizeof bad / sizeof *bad; j++) {
            if (set(o, row->name, bad[j]) != PM_ERROR_USAGE) {
                fail_msg("%s accepts '%s'", row->name, bad[j]);
            }
        }
        assert_false(pm_options_is_set(o, row->name));
    }
    assert_int_equal(set(o, "top-k", "1.5"), PM_ERROR_USAGE);
    assert_int_equal(set(o, "top-k", "1e1"), PM_ERROR_USAGE);
    pm_options_destroy(o);
}

static void reals(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } good[] = {{".5", 0.5}, {"0.25", 0.25}, {"1", 1}, {"1e-3", 0.001}, {"-.5", -0.5}};
    pm_options *o = pm_options_create();
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_ok(set(o, "presence-penalty", good[i].text));
        assert_true(options_real(o, "presence-penalty") == good[i].value);
    }
    pm_options_destroy(o);
}

// A fallback is a value that could be set; help is complete.
static void table_is_sound(void **state)
{
    (void)state;
    static const char *const groups[] = {"run",     "sampler",    "generate", "bench",
                                         "check",   "perplexity", "against",  "repeat",
                                         "inspect", "suite",      "debug"};
    const char *name, *group, *value, *range, *fallback, *help;
    size_t n = 0;
    for (; pm_options_describe(n, &name, &group, &value, &range, &fallback, &help); n++) {
        pm_options *o = pm_options_create();
        bool known = false;
        for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
            known |= !strcmp(group, groups[i]);
        assert_true(known);
        assert_true(strlen(name) > 0 && strlen(range) > 0 && strlen(help) > 0);
        assert_int_equal(value == NULL, option_table[n].kind == OPTION_SWITCH);
        if (fallback) {
            assert_ok(set(o, name, fallback));
            assert_string_equal(pm_options_get(NULL, name), fallback);
        }
        for (size_t i = 0; i < n; i++) assert_string_not_equal(option_table[i].name, name);
        pm_options_destroy(o);
    }
    assert_int_equal(n, n_option_rows);
    assert_int_equal(pm_options_describe(n, NULL, NULL, NULL, NULL, NULL, NULL), 0);
}

// The defaults that the command line promises.
static void defaults(void **state)
{
    (void)state;
    static const char *const expected[][2] = {
        {"device", "auto"},    {"gpu-layers", "auto"},    {"batch", "512"},
        {"act", "auto"},       {"temp", "0.8"},           {"top-k", "40"},
        {"top-p", "0.95"},     {"min-p", "0.05"},         {"repeat-penalty", "1"},
        {"repeat-last", "64"}, {"prompt", "512"},         {"gen", "128"},
        {"depth", "0"},        {"presence-penalty", "0"}, {"frequency-penalty", "0"}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_string_equal(pm_options_get(NULL, expected[i][0]), expected[i][1]);
    }
    assert_null(pm_options_get(NULL, "no-such-option"));
}

static void words_and_devices(void **state)
{
    (void)state;
    pm_options *o = pm_options_create();
    static const char *const good[][2] = {
        {"device", "auto"},   {"device", "cpu"},         {"device", "reference"},
        {"device", "vulkan"}, {"device", "vulkan:3"},    {"ctx", "max"},
        {"threads", "auto"},  {"gpu-layers", "all"},     {"gpu-layers", "7"},
        {"kv-type", "q8_0"},  {"seed", "random"},        {"prompt", "512,2048"},
        {"no-mmap", "true"},  {"logit-bias", "17:-2.5"}, {"stop", "a stop"}};
    static const char *const bad[][2] = {{"device", "vulkan:"},
                                         {"device", "vulkan:-1"},
                                         {"device", "gpu"},
                                         {"device", ""},
                                         {"device", "auto|cpu"},
                                         {"ctx", "min"},
                                         {"ctx", ""},
                                         {"kv-type", "q4_0"},
                                         {"no-mmap", "yes"},
                                         {"no-mmap", ""},
                                         {"stop", ""},
                                         {"stop", "\xff"},
                                         {"logit-bias", "17"},
                                         {"logit-bias", ":1"},
                                         {"logit-bias", "1:"},
                                         {"logit-bias", "1:1001"},
                                         {"logit-bias", "-1:1"},
                                         {"prompt", "512,,1"}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_ok(set(o, good[i][0], good[i][1]));
        assert_string_equal(pm_options_get(o, good[i][0]), good[i][1]);
        assert_true(pm_options_is_set(o, good[i][0]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (set(o, bad[i][0], bad[i][1]) != PM_ERROR_USAGE) {
            fail_msg("%s accepts '%s'", bad[i][0], bad[i][1]);
        }
    }
    int64_t item;
    assert_true(options_list_item(o, "prompt", 1, &item));
    assert_int_equal(item, 2048);
    assert_false(options_list_item(o, "prompt", 2, &item));
    pm_options_destroy(o);
}

static void repeatable_options_collect(void **state)
{
    (void)state;
    pm_options *o = pm_options_create();
    assert_ok(set(o, "stop", "one"));
    assert_ok(set(o, "stop", "two"));
    assert_int_equal(options_n_values(o, "stop"), 2);
    assert_string_equal(options_value(o, "stop", 0), "one");
    assert_string_equal(options_value(o, "stop", 1), "two");
    assert_ok(set(o, "stop", NULL));
    assert_false(pm_options_is_set(o, "stop"));
    assert_ok(set(o, "temp", "1"));
    assert_ok(set(o, "temp", "2"));
    assert_int_equal(options_n_values(o, "temp"), 1);
    assert_string_equal(pm_options_get(o, "temp"), "2");
    assert_ok(set(o, "temp", NULL));
    assert_string_equal(pm_options_get(o, "temp"), "0.8");
    assert_ok(set(o, "think", "true"));
    assert_ok(set(o, "no-think", "true"));
    assert_false(pm_options_is_set(o, "think"));
    pm_options_destroy(o);
    pm_options_destroy(NULL);
}

// A text that is not UTF-8 is refused for that; the name of a file may be any bytes.
static void texts_and_paths(void **state)
{
    (void)state;
    pm_options *o = pm_options_create();
    assert_int_equal(set(o, "stop", "\xff"), PM_ERROR_USAGE);
    assert_non_null(strstr(pm_last_error(), "not UTF-8"));
    assert_int_equal(set(o, "stop", ""), PM_ERROR_USAGE);
    static const char *const paths[] = {"template", "grammar", "json-schema",
                                        "tools",    "text",    "cache-dir"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_ok(set(o, paths[i], "/tmp/\xff.x"));
        assert_int_equal(set(o, paths[i], ""), PM_ERROR_USAGE);
    }
    pm_options_destroy(o);
}

static void nearest_name(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {{"tmp", "'temp'"},
                                           {"top_k", "'top-k'"},
                                           {"thread", "'threads'"},
                                           {"repeatpenalty", "'repeat-penalty'"},
                                           {"maxtokens", "'max-tokens'"},
                                           {"devcie", "'device'"}};
    pm_options *o = pm_options_create();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(set(o, wrong[i][0], "1"), PM_ERROR_USAGE);
        if (!strstr(pm_last_error(), wrong[i][1])) fail_msg("%s", pm_last_error());
    }
    assert_int_equal(set(o, "quite-something-else", "1"), PM_ERROR_USAGE);
    assert_null(strstr(pm_last_error(), "did you mean"));
    char endless[5000];
    memset(endless, 'a', sizeof endless - 1);
    endless[sizeof endless - 1] = 0;
    assert_int_equal(set(o, endless, "1"), PM_ERROR_USAGE);
    assert_int_equal(set(o, "temp", endless), PM_ERROR_USAGE);
    pm_options_destroy(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r42_both_ends),
        cmocka_unit_test(r42_no_other_numbers),
        cmocka_unit_test(reals),
        cmocka_unit_test(table_is_sound),
        cmocka_unit_test(defaults),
        cmocka_unit_test(words_and_devices),
        cmocka_unit_test(repeatable_options_collect),
        cmocka_unit_test(texts_and_paths),
        cmocka_unit_test(nearest_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
