// pumice check and bench --per-op as programs: exit statuses, tables, JSON.
#include "cli/cli_test.h"

#include <stdbool.h>

static void a_check_that_passes(void **state)
{
    (void)state;
    char *text = output_of("$P check '%s' --device cpu --seed 7 -q", tiny());
    static const char *const parts[] = {"cpu (",  "against reference", "--seed 7", "bound",
                                        "ATTEND", "KL divergence",     "passed: "};
    for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++)
        if (!strstr(text, parts[k])) fail_msg("no '%s' in:\n%s", parts[k], text);
    char *every = output_of("$P check '%s' --device cpu --seed 7 --ops -v 2>'%s'", tiny(),
                            test_temp("remarks"));
    assert_null(strstr(every, "KL divergence"));
    assert_true(count_lines(every) > count_lines(text));
    free(every);
    free(text);

    json_t *all = json_of("$P check '%s' --device cpu --seed 7 --json -q", tiny());
    assert_true(json_is_true(key_of(all, "pass")));
    assert_string_equal(json_string_value(key_of(all, "device")), "cpu");
    assert_string_equal(json_string_value(key_of(all, "against")), "reference");
    assert_int_equal(json_integer_value(key_of(all, "seed")), 7);
    assert_true(json_is_null(key_of(all, "first_bad")));
    static const char *const keys[] = {"index", "op",    "layer",     "nmse", "max_abs",
                                       "bound", "phase", "nonfinite", "pass", "label"};
    const json_t *op = json_array_get(key_of(all, "ops"), 0);
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) key_of(op, keys[k]);
    static const char *const figures[] = {"max_abs", "mean_abs", "kl_mean",
                                          "kl_p99",  "kl_max",   "top1_agreement"};
    for (size_t k = 0; k < sizeof figures / sizeof figures[0]; k++)
        key_of(key_of(all, "logits"), figures[k]);
    json_decref(all);
}

static void a_planted_fault_ends_with_5(void **state)
{
    (void)state;
    static const char *const acts[] = {"f32", "q8"};
    for (size_t k = 0; k < 2; k++) {
        char *out, *err;
        int status = pumice(&out, &err, "$P check '%s' --device cpu --act %s --inject rope_kv:3 -q",
                            tiny(), acts[k]);
        assert_int_equal(status, 5);
        assert_non_null(strstr(out, "first bad operation: ROPE_KV, layer 3"));
        assert_non_null(strstr(out, "FAILED"));
        assert_memory_equal(err, "pumice: error: check: ROPE_KV of layer 3 (", 41);
        assert_int_equal(count_lines(err), 1);
        free(out);
        free(err);
        status = pumice(&out, &err, "$P check '%s' --act %s --inject=LOGITS:-1 --json -q", tiny(),
                        acts[k]);
        assert_int_equal(status, 5);
        json_t *all = json_loads(out, 0, NULL); // the result is there all the same
        assert_non_null(all);
        assert_true(json_is_false(key_of(all, "pass")));
        const json_t *bad = key_of(all, "first_bad");
        assert_string_equal(json_string_value(key_of(bad, "op")), "LOGITS");
        assert_int_equal(json_integer_value(key_of(bad, "layer")), -1);
        json_decref(all);
        free(out);
        free(err);
    }
}

static void checks_that_can_not_run(void **state)
{
    (void)state;
    assert_refused(4, "skipped", "$P check '%s' --device vulkan:4000 -q", tiny());
    assert_refused(2, "inject", "$P check '%s' --inject NOPE:1 -q", tiny());
    assert_refused(2, "inject", "$P check '%s' --inject ATTEND:77 -q", tiny());
    assert_refused(2, "tokens", "$P check '%s' --tokens 3 -q", tiny());
    assert_refused(2, "against", "$P check '%s' --against vulkan -q", tiny());
    assert_refused(2, "did you mean", "$P check '%s' --lokstep -q", tiny());
    assert_refused(3, "/nowhere", "$P check '%s' --text /nowhere/x -q", tiny());
    assert_refused(3, "/nowhere", "$P check /nowhere/m.gguf -q");
}

static void r67_equal_runs_have_one_hash(void **state)
{
    (void)state;
    json_t *all =
        json_of("$P check '%s' --device cpu --seed 7 --quick --repeat 10 --json -q", tiny());
    const json_t *again = key_of(all, "repeat");
    assert_int_equal(json_integer_value(key_of(again, "runs")), 10);
    assert_int_equal(json_integer_value(key_of(again, "different")), 0);
    assert_true(json_is_true(key_of(again, "pass")));
    assert_int_equal(json_integer_value(key_of(all, "tokens")), 12); // --quick
    // Other tokens have another hash: it is one of what was computed.
    json_t *other =
        json_of("$P check '%s' --device cpu --seed 8 --quick --repeat 2 --json -q", tiny());
    assert_string_not_equal(json_string_value(key_of(again, "hash")),
                            json_string_value(key_of(key_of(other, "repeat"), "hash")));
    json_decref(other);
    json_decref(all);
    char *text = output_of("$P check '%s' --device cpu --quick --repeat 3 -q", tiny());
    assert_non_null(strstr(text, "3 equal runs: the same logits to the bit"));
    free(text);
}

static void reports_hold_what_a_bug_needs(void **state)
{
    (void)state;
    const char *file = test_temp("report.json");
    char *out, *err;
    int status = pumice(&out, &err,
                        "$P check '%s' --device cpu --act f32 --quick --seed 9 --inject "
                        "LINEAR:2:1 --report '%s' -q",
                        tiny(), file);
    assert_int_equal(status, 5); // the verdict stays
    assert_non_null(strstr(out, "worst value: "));
    free(out);
    free(err);
    json_t *all = json_load_file(file, 0, NULL);
    assert_non_null(all);
    key_of(all, "pumice");
    assert_string_equal(json_string_value(key_of(key_of(all, "device"), "id")), "cpu");
    key_of(key_of(all, "device"), "features");
    const json_t *check = key_of(all, "check"), *bad = key_of(check, "first_bad");
    assert_int_equal(json_integer_value(key_of(check, "seed")), 9);
    key_of(check, "description"); // the kernels in use
    assert_string_equal(json_string_value(key_of(bad, "op")), "LINEAR");
    // The fault multiplies by 1.01: so does the value that is furthest apart.
    const json_t *worst = key_of(bad, "worst");
    double found = json_number_value(key_of(worst, "found"));
    double expected = json_number_value(key_of(worst, "expected"));
    assert_true(expected != 0 && found / expected > 1.0099 && found / expected < 1.0101);
    key_of(worst, "buffer");
    assert_true(json_integer_value(key_of(worst, "row")) >= 0);
    // One operation of each kind.
    size_t i, j;
    const json_t *op, *other;
    assert_true(json_array_size(key_of(check, "ops")) >= 5);
    json_array_foreach(key_of(check, "ops"), i, op)
    {
        json_array_foreach(key_of(check, "ops"), j, other)
        {
            if (i != j)
                assert_string_not_equal(json_string_value(key_of(op, "op")),
                                        json_string_value(key_of(other, "op")));
        }
    }
    json_decref(all);
}

// A report of a failed check says how its bad operation can be run again, by those who don't have
// the model.
static void reports_are_reproduced_without_the_model(void **state)
{
    (void)state;
    char *out, *err;
    char file[1024], good[1024];
    snprintf(file, sizeof file, "%s", test_temp("fault.json"));
    snprintf(good, sizeof good, "%s", test_temp("good.json"));
    int status = pumice(&out, &err,
                        "$P check '%s' --device cpu --no-fuse --seed 9 --inject attend:2 --report "
                        "'%s' -q",
                        tiny(), file);
    assert_int_equal(status, 5);
    free(out);
    free(err);
    json_t *report = json_load_file(file, 0, NULL);
    assert_true(json_is_true(key_of(report, "reproduced"))); // with the fault, in the same run
    const json_t *settings = key_of(key_of(report, "check"), "settings");
    assert_string_equal(json_string_value(key_of(settings, "no-fuse")), "true");
    json_decref(report);

    // Without the fault it passes, with it the same operation fails; no model is there to be found.
    char *text = output_of("$P check --reproduce '%s' -q", file);
    assert_non_null(strstr(text, "ATTEND, layer 2, attn"));
    assert_non_null(strstr(text, "seed 9"));
    assert_non_null(strstr(text, "passed: "));
    free(text);
    status = pumice(&out, &err, "$P check --reproduce '%s' --inject ATTEND:2 --json -q", file);
    assert_int_equal(status, 5);
    assert_memory_equal(err, "pumice: error: check: ATTEND of layer 2 (", 41);
    json_t *all = json_loads(out, 0, NULL);
    assert_true(json_is_false(key_of(all, "pass")));
    assert_true(json_is_true(key_of(all, "injected")));
    assert_string_equal(json_string_value(key_of(all, "device")), "cpu"); // the report's
    json_decref(all);
    free(out);
    free(err);
    text = output_of("$P check --reproduce '%s' --device reference --json -q", file);
    assert_non_null(strstr(text, "\"device\": \"reference\""));
    free(text);
    assert_refused(4, "skipped", "$P check --reproduce '%s' --device vulkan:4000 -q", file);
    assert_refused(2, "ATTEND:2:0", "$P check --reproduce '%s' --inject ATTEND:1 -q", file);
    assert_refused(2, "needs no MODEL", "$P check '%s' --reproduce '%s' -q", tiny(), file);

    // Nothing was wrong: there is nothing to run again.
    free(output_of("$P check '%s' --device cpu --quick --report '%s' -q", tiny(), good));
    assert_refused(3, "has no operation", "$P check --reproduce '%s' -q", good);
}

static void what_is_no_report_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "{}",
                                        "[]",
                                        "nonsense",
                                        "{\"check\": 1}",
                                        "{\"check\": {\"reproducer\": {\"form\": 2}}}",
                                        "{\"check\": {\"reproducer\": {\"form\": 1}}}"};
    char file[1024];
    snprintf(file, sizeof file, "%s", test_temp("foreign.json"));
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        test_write(file, texts[k], strlen(texts[k]));
        assert_refused(3, "foreign.json: ", "$P check --reproduce '%s' -q", file);
    }
    assert_refused(3, "/nowhere", "$P check --reproduce /nowhere/x -q");
    assert_refused(3, "not a report", "$P check --reproduce '%s' -q", tiny());
    // A good one that was cut in the middle, and one whose numbers were changed.
    char *out, *err;
    pumice(&out, &err, "$P check '%s' --device cpu --quick --inject NORM:1 --report '%s' -q",
           tiny(), file);
    free(out);
    free(err);
    size_t n;
    char *whole = test_read(file, &n);
    test_write(test_temp("cut.json"), whole, n / 2);
    assert_refused(3, "cut.json: not a report", "$P check --reproduce '%s' -q",
                   test_temp("cut.json"));
    char *cols = strstr(whole, "\"cols\": 64");
    assert_non_null(cols);
    cols[9] = '3';
    test_write(test_temp("cut.json"), whole, n);
    assert_refused(3, "don't go together", "$P check --reproduce '%s' -q", test_temp("cut.json"));
    free(whole);
}

// QUANTIZE is there only with 8-bit activations: without them the planted fault is gone.
static void bisecting_names_the_feature(void **state)
{
    (void)state;
    char *out, *err;
    int status = pumice(&out, &err,
                        "$P check '%s' --device cpu --act q8 --no-fuse --quick --ops --inject "
                        "QUANTIZE:2 --bisect --report '%s' --json -q",
                        tiny(), test_temp("bisected.json"));
    assert_int_equal(status, 5);
    assert_non_null(strstr(err, "QUANTIZE"));
    assert_non_null(strstr(err, "right without: 8-bit activations\n"));
    json_t *all = json_loads(out, 0, NULL);
    assert_non_null(all);
    assert_true(json_is_false(key_of(key_of(all, "baseline"), "pass")));
    assert_int_equal(json_array_size(key_of(all, "culprits")), 1);
    assert_true(json_array_size(key_of(all, "switched_off")) >= 4);
    json_decref(all);
    // The report has both: the check that failed, and what was tried.
    all = json_load_file(test_temp("bisected.json"), 0, NULL);
    assert_non_null(all);
    key_of(key_of(all, "check"), "first_bad");
    assert_true(json_is_true(key_of(all, "reproduced")));
    assert_int_equal(json_array_size(key_of(all, "culprits")), 1);
    assert_true(json_array_size(key_of(all, "switched_off")) >= 4);
    json_decref(all);
    free(out);
    free(err);
    // A fault that no switch takes away, and none at all.
    status = pumice(&out, &err,
                    "$P check '%s' --device cpu --quick --ops --inject ATTEND:1 "
                    "--bisect -q",
                    tiny());
    assert_int_equal(status, 5);
    assert_non_null(strstr(err, "whatever single feature"));
    assert_non_null(strstr(out, "without SIMD kernels"));
    free(out);
    free(err);
    char *text = output_of("$P check '%s' --device cpu --quick --ops --bisect -q", tiny());
    assert_non_null(strstr(text, "nothing to look for"));
    free(text);
}

static void bench_by_operation(void **state)
{
    (void)state;
    static const char options[] = "--per-op --prompt 24 --gen 3 --repeat 1 --device cpu -q";
    json_t *all = json_of("$P bench '%s' %s -o json", tiny(), options);
    static const char *const keys[] = {"op",    "label", "calls", "seconds", "gbps",
                                       "bytes", "flops", "bound", "gflops",  "percent_of_time"};
    size_t index;
    const json_t *row;
    double percent = 0, seconds = 0, whole = 0;
    json_int_t attend = 0, products = 0;
    json_array_foreach(key_of(all, "ops"), index, row)
    {
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) key_of(row, keys[k]);
        seconds += json_number_value(key_of(row, "seconds"));
        const char *op = json_string_value(key_of(row, "op"));
        if (strcmp(json_string_value(key_of(row, "kind")), "generate") != 0) continue;
        percent += json_number_value(key_of(row, "percent_of_time"));
        json_int_t calls = json_integer_value(key_of(row, "calls"));
        if (!strcmp(op, "ATTEND")) attend += calls;
        if (!strcmp(json_string_value(key_of(row, "label")), "ffn_down")) products += calls;
    }
    assert_int_equal(attend, 5 * 3); // 5 layers, 3 tokens
    assert_int_equal(products, 5 * 3);
    assert_true(percent > 99.99 && percent < 100.01);
    assert_int_equal(json_array_size(key_of(all, "profiles")), 2);
    json_array_foreach(key_of(all, "profiles"), index, row)
    {
        whole += json_number_value(key_of(row, "seconds"));
        assert_string_equal(json_string_value(key_of(row, "clock")), "host");
        assert_true(json_is_null(key_of(row, "dispatches"))); // the CPU has none
    }
    assert_true(whole > 0.9999 * seconds && whole < 1.0001 * seconds);
    json_decref(all);

    char *table = output_of("$P bench '%s' %s", tiny(), options);
    assert_non_null(strstr(table, "bound by"));
    assert_non_null(strstr(table, "ffn_down"));
    char *csv = output_of("$P bench '%s' %s -o csv", tiny(), options);
    assert_non_null(strstr(csv, "\n\nkind,tokens,depth,op,label,calls,seconds,"));
    free(output_of("$P bench '%s' %s -o md", tiny(), options));
    char *plain = output_of("$P bench '%s' --prompt 8 --gen 0 --repeat 1 -o csv -q", tiny());
    assert_int_equal(count_lines(plain), 2);
    free(plain);
    free(csv);
    free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_check_that_passes),
        cmocka_unit_test(a_planted_fault_ends_with_5),
        cmocka_unit_test(checks_that_can_not_run),
        cmocka_unit_test(r67_equal_runs_have_one_hash),
        cmocka_unit_test(reports_hold_what_a_bug_needs),
        cmocka_unit_test(reports_are_reproduced_without_the_model),
        cmocka_unit_test(what_is_no_report_is_refused),
        cmocka_unit_test(bisecting_names_the_feature),
        cmocka_unit_test(bench_by_operation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
