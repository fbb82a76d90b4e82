// pm_check: golden models pass, every planted fault is named, nothing passes that is not a number.
#include "support/test.h"

#include <dirent.h>
#include <math.h>
#include <stdbool.h>

#include "support/open.h"

typedef struct outcome {
    pm_status status;
    json_t *json; // NULL: none was given
} outcome;

static outcome check_file(const char *path, const pm_options *o)
{
    outcome r = {0};
    pm_model *model = NULL;
    char *text = NULL;
    r.status = pm_model_open(path, o, &model);
    if (r.status != PM_OK) return r;
    r.status = pm_check(model, o, &text);
    if (text) {
        r.json = json_loads(text, 0, NULL);
        assert_non_null(r.json);
        assert_true(json_is_boolean(json_object_get(r.json, "pass")));
        assert_int_equal(json_is_true(json_object_get(r.json, "pass")), r.status == PM_OK);
    }
    pm_free(text);
    pm_model_close(model);
    return r;
}

static outcome check_golden(const char *name, const pm_options *o)
{
    char file[128];
    snprintf(file, sizeof file, "golden/%.90s.gguf", name);
    return check_file(test_data(file), o);
}

static const json_t *key(const json_t *o, const char *name)
{
    const json_t *value = json_object_get(o, name);
    if (!value) fail_msg("no key '%s'", name);
    return value;
}

static double number(const json_t *o, const char *name)
{
    assert_true(json_is_number(key(o, name)));
    return json_number_value(key(o, name));
}

static const char *word(const json_t *o, const char *name)
{
    assert_true(json_is_string(key(o, name)));
    return json_string_value(key(o, name));
}

// ---- passing ----------------------------------------------------------------------------------

enum { MAX_FILES = 128 };
static char names[MAX_FILES][96];
static int n_names;

static int list_golden(void **state)
{
    (void)state;
    DIR *dir = opendir(test_data("golden"));
    if (!dir) return -1;
    for (struct dirent *d; (d = readdir(dir)) != NULL;) {
        char *end = strstr(d->d_name, ".gguf");
        if (end && n_names < MAX_FILES)
            snprintf(names[n_names++], sizeof names[0], "%.*s", (int)(end - d->d_name), d->d_name);
    }
    closedir(dir);
    return 0;
}

static void all_pass(const pm_options *o, bool q8_cache)
{
    assert_true(n_names >= 46);
    int n_run = 0;
    for (int i = 0; i < n_names; i++) {
        outcome r = check_golden(names[i], o);
        bool no_such_cache = q8_cache && r.status == PM_ERROR_USAGE;
        if (r.status != PM_OK && !no_such_cache)
            fail_msg("%s: status %d: %s", names[i], (int)r.status, pm_last_error());
        if (r.json) {
            assert_true(number(r.json, "compared_values") > 1000);
            n_run++;
        }
        json_decref(r.json);
    }
    assert_true(n_run >= (q8_cache ? 10 : 46));
}

static void r63_golden_models_pass_on_cpu(void **state)
{
    (void)state;
    pm_options *o = test_options("device", "cpu", "seed", "5", "tokens", "24", NULL);
    all_pass(o, false);
    assert_ok(pm_options_set(o, "kv-type", "q8_0"));
    all_pass(o, true);
    assert_ok(pm_options_set(o, "kv-type", "f32"));
    assert_ok(pm_options_set(o, "act", "f32"));
    all_pass(o, false);
    pm_options_destroy(o);
}

static void unfused_plans_and_other_sides_pass(void **state)
{
    (void)state;
    static const char *const models[] = {"gemma3.q8_0", "gpt2.f16", "phi4.q8_0", "smollm3-q4_k_m"};
    for (size_t i = 0; i < 4; i++) {
        pm_options *o = test_options("device", "cpu", "seed", "5", "no-fuse", "true", NULL);
        outcome r = check_golden(models[i], o);
        if (r.status != PM_OK) fail_msg("%s: %s", models[i], pm_last_error());
        json_decref(r.json);
        assert_ok(pm_options_set(o, "against", "cpu"));
        r = check_golden(models[i], o);
        assert_int_equal(r.status, PM_OK);
        assert_string_equal(word(r.json, "against"), "cpu");
        json_decref(r.json);
        assert_ok(pm_options_set(o, "device", "reference"));
        r = check_golden(models[i], o);
        if (r.status != PM_OK) fail_msg("%s: %s", models[i], pm_last_error());
        assert_string_equal(word(r.json, "device"), "reference");
        assert_string_equal(word(r.json, "act"), "f32");
        json_decref(r.json);
        pm_options_destroy(o);
    }
}

// ---- faults -----------------------------------------------------------------------------------

static bool is_same_op(const json_t *a, const json_t *b)
{
    return !strcmp(word(a, "op"), word(b, "op")) && number(a, "layer") == number(b, "layer");
}

static bool same_words(const json_t *a, const json_t *b)
{
    return !strcmp(word(a, "op"), word(b, "op")) && !strcmp(word(a, "label"), word(b, "label"));
}

// The N of OP:LAYER:N of an op of the prefill.
static int index_of(const json_t *ops, size_t at)
{
    int n = 0;
    for (size_t i = 0; i < at; i++) {
        const json_t *op = json_array_get(ops, i);
        if (!strcmp(word(op, "phase"), "prefill") && is_same_op(op, json_array_get(ops, at))) n++;
    }
    return n;
}

// Plants a fault in one op of every kind and label of this plan. Sets seen[] for the kinds.
static void plant_all(const char *model, const char *act, const char *no_fuse, const char *kinds[],
                      bool *seen)
{
    pm_options *o = test_options("device", "cpu", "seed", "5", "tokens", "12", "act", act,
                                 "no-fuse", no_fuse, "ops", "true", NULL);
    outcome clean = check_golden(model, o);
    if (clean.status != PM_OK) fail_msg("%s: %s", model, pm_last_error());
    const json_t *ops = key(clean.json, "ops");
    const json_t *done[64];
    int n_done = 0;
    for (size_t i = 0; i < json_array_size(ops); i++) {
        const json_t *op = json_array_get(ops, i);
        bool again = strcmp(word(op, "phase"), "prefill") != 0;
        for (int k = 0; k < n_done; k++) again |= same_words(done[k], op);
        // the last layer's, to see that layers are told apart
        const json_t *last = op;
        size_t at = i;
        for (size_t j = i; !again && j < json_array_size(ops); j++) {
            const json_t *other = json_array_get(ops, j);
            if (strcmp(word(other, "phase"), "prefill") != 0) break;
            if (!same_words(other, op)) continue;
            last = other;
            at = j;
        }
        if (again) continue;
        assert_true(n_done < 64);
        done[n_done++] = op;
        for (int k = 0; kinds[k]; k++) seen[k] |= !strcmp(kinds[k], word(op, "op"));

        char fault[64];
        snprintf(fault, sizeof fault, "%s:%.0f:%d", word(last, "op"), number(last, "layer"),
                 index_of(ops, at));
        assert_ok(pm_options_set(o, "inject", fault));
        outcome r = check_golden(model, o);
        if (r.status != PM_ERROR_CHECK)
            fail_msg("%s, act=%s: %s ended with %d", model, act, fault, (int)r.status);
        assert_non_null(strstr(pm_last_error(), word(last, "op")));
        assert_non_null(strstr(pm_last_error(), word(last, "label")));
        if (!is_same_op(key(r.json, "first_bad"), last) ||
            number(key(r.json, "first_bad"), "index") != number(last, "index"))
            fail_msg("%s, act=%s: %s: %s", model, act, fault, pm_last_error());
        json_decref(r.json);
    }
    json_decref(clean.json);
    pm_options_destroy(o);
}

static void every_kind_of_fault_is_named(void **state)
{
    (void)state;
    const char *kinds[] = {"EMBED",    "NORM", "LINEAR", "QUANTIZE", "ROPE_KV", "ATTEND",
                           "ACTIVATE", "ADD",  "LOGITS", "PICK",     NULL};
    bool seen[2][10] = {{false}};
    plant_all("gemma3.q8_0", "f32", "true", kinds, seen[0]);
    plant_all("gpt2.q8_0", "f32", "true", kinds, seen[0]);
    plant_all("llama-mix-k", "f32", "false", kinds, seen[0]);
    plant_all("gemma3.q8_0", "q8", "true", kinds, seen[1]);
    plant_all("gpt2.q8_0", "q8", "true", kinds, seen[1]);
    plant_all("llama-mix-k", "q8", "false", kinds, seen[1]);
    for (int k = 0; kinds[k]; k++) {
        if (!seen[1][k]) fail_msg("act=q8 has no %s here", kinds[k]);
        if (!seen[0][k] && strcmp(kinds[k], "QUANTIZE") != 0)
            fail_msg("act=f32 has no %s here", kinds[k]);
    }
}

static void faults_where_nothing_runs_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"FOO:1",      "ATTEND",     "ATTEND:4",
                                      "QUANTIZE:0", "ATTEND:0:1", "ATTEND:-1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pm_options *o = test_options("device", "cpu", "act", "f32", "inject", bad[i], NULL);
        outcome r = check_golden("llama-tied.q8_0", o);
        if (r.status != PM_ERROR_USAGE || r.json) fail_msg("%s: status %d", bad[i], (int)r.status);
        pm_options_destroy(o);
    }
    // a whole run ends with the logits
    pm_options *o = test_options("device", "cpu", "lockstep", "true", "inject", "PICK:-1", NULL);
    assert_int_equal(check_golden("llama-tied.q8_0", o).status, PM_ERROR_USAGE);
    pm_options_destroy(o);
}

// ---- not a number -----------------------------------------------------------------------------

// Weights that are not numbers make both sides alike, and still no pass.
static void nan_on_both_sides_never_passes(void **state)
{
    (void)state;
    size_t n;
    char *data = test_read(test_data("golden/llama-tied.f32.gguf"), &n);
    const char *path = test_temp("nan.gguf");
    for (size_t at = n - 4096; at + 4 <= n - 2048; at += 4) memcpy(data + at, "\0\0\xc0\x7f", 4);
    test_write(path, data, n);
    free(data);
    static const char *const parts[] = {"ops", "lockstep"};
    for (size_t i = 0; i < 2; i++) {
        pm_options *o = test_options("device", "cpu", parts[i], "true", "tokens", "8", NULL);
        outcome r = check_file(path, o);
        assert_int_equal(r.status, PM_ERROR_CHECK);
        assert_non_null(r.json);
        if (i == 0) {
            assert_true(number(key(r.json, "first_bad"), "nonfinite") > 0);
            assert_non_null(strstr(pm_last_error(), "not finite"));
        } else {
            assert_true(json_is_null(key(key(r.json, "logits"), "kl_mean")));
        }
        json_decref(r.json);
        pm_options_destroy(o);
    }
}

// ---- what is reported -------------------------------------------------------------------------

static void r64_seed_types_and_bounds_are_reported(void **state)
{
    (void)state;
    pm_options *o = test_options("device", "cpu", NULL);
    outcome r = check_golden("llama-mix-k", o);
    assert_int_equal(r.status, PM_OK);
    char seed[32];
    assert_true(json_is_integer(key(r.json, "seed")));
    snprintf(seed, sizeof seed, "%lld", (long long)json_integer_value(key(r.json, "seed")));
    static const char *const types[] = {"Q4_K", "Q2_K", "Q3_K", "Q5_K", "Q6_K"};
    for (size_t k = 0; k < 5; k++) {
        bool found = false;
        for (size_t i = 0; i < json_array_size(key(r.json, "types")); i++)
            found |= !strcmp(json_string_value(json_array_get(key(r.json, "types"), i)), types[k]);
        if (!found) fail_msg("%s is not named", types[k]);
    }
    const json_t *ops = key(r.json, "ops");
    double compared = 0;
    bool one_row = false, many_rows = false;
    for (size_t i = 0; i < json_array_size(ops); i++) {
        const json_t *op = json_array_get(ops, i);
        double bound = number(op, "bound");
        bool product = !strcmp(word(op, "op"), "LINEAR") || !strcmp(word(op, "op"), "LOGITS");
        assert_true(bound == (product ? 1e-5 : 1e-6)); // act=q8; 8-bit results are held to no less
        assert_true(number(op, "steps") <= number(op, "steps_bound"));
        assert_true(number(op, "nmse") <= bound && number(op, "nonfinite") == 0);
        number(op, "max_abs");
        number(op, "index");
        number(op, "layer");
        assert_true(json_is_true(key(op, "pass")));
        compared += number(op, "compared");
        one_row |= !strcmp(word(op, "phase"), "decode");
        many_rows |= !strcmp(word(op, "phase"), "prefill");
    }
    assert_true(one_row && many_rows);
    const json_t *logits = key(r.json, "logits");
    assert_true(number(r.json, "compared_values") > compared && compared > 1000);
    assert_true(json_is_null(key(r.json, "first_bad")));

    // the printed seed gives the same run again
    assert_ok(pm_options_set(o, "seed", seed));
    outcome again = check_golden("llama-mix-k", o);
    assert_true(json_equal(ops, key(again.json, "ops")));
    assert_true(json_equal(logits, key(again.json, "logits")));
    json_decref(again.json);
    json_decref(r.json);
    pm_options_destroy(o);
}

static void r65_whole_runs_report_divergence_and_choices(void **state)
{
    (void)state;
    pm_options *o = test_options("device", "cpu", "seed", "3", "lockstep", "true", NULL);
    outcome r = check_golden("smollm3-q4_0", o);
    assert_int_equal(r.status, PM_OK);
    const json_t *l = key(r.json, "logits"), *b = key(r.json, "bounds");
    assert_int_equal(json_array_size(key(r.json, "ops")), 0);
    assert_int_equal(json_array_size(key(r.json, "layers")), 4);
    assert_true(number(l, "rows") == 64);
    assert_true(number(l, "kl_mean") > 0 && number(l, "kl_mean") <= number(b, "kl_mean"));
    assert_true(number(l, "kl_mean") <= number(l, "kl_max"));
    assert_true(number(l, "kl_p99") <= number(l, "kl_max"));
    assert_true(number(l, "mean_abs") <= number(l, "max_abs"));
    assert_true(number(l, "top1_agreement") <= number(l, "top1_judged"));
    assert_true(number(l, "top1_judged") >= number(b, "top1_judged"));
    json_decref(r.json);
    // only the other half
    assert_ok(pm_options_set(o, "lockstep", "false"));
    assert_ok(pm_options_set(o, "ops", "true"));
    r = check_golden("smollm3-q4_0", o);
    assert_true(json_is_null(key(r.json, "logits")));
    assert_int_equal(json_array_size(key(r.json, "layers")), 0);
    assert_true(json_array_size(key(r.json, "ops")) > 0);
    json_decref(r.json);
    pm_options_destroy(o);
}

static void r66_what_is_left_out_is_counted(void **state)
{
    (void)state;
    pm_options *o = test_options("device", "cpu", "batch", "1", NULL);
    outcome r = check_golden("llama-tied.q8_0", o);
    assert_int_equal(r.status, PM_OK);
    assert_int_equal(json_array_size(key(r.json, "skipped")), 1);
    const json_t *skip = json_array_get(key(r.json, "skipped"), 0);
    assert_string_equal(word(skip, "what"), "batch of 2");
    assert_true(strlen(word(skip, "reason")) > 0);
    json_decref(r.json);
    pm_options_destroy(o);
}

static void tokens_of_a_text(void **state)
{
    (void)state;
    const char *path = test_temp("text.txt");
    static const char text[] = "The quick brown fox jumps over the lazy dog, again and again.\n";
    test_write(path, text, sizeof text - 1);
    pm_options *o = test_options("device", "cpu", "text", path, "tokens", "10", NULL);
    outcome r = check_golden("llama-tied.q8_0", o);
    assert_int_equal(r.status, PM_OK);
    assert_true(json_is_null(key(r.json, "seed")));
    assert_true(number(r.json, "tokens") == 10);
    json_decref(r.json);
    assert_ok(pm_options_set(o, "ctx", "9"));
    assert_int_equal(check_golden("llama-tied.q8_0", o).status, PM_ERROR_USAGE);
    test_write(path, "a", 1);
    assert_int_equal(check_golden("llama-tied.q8_0", o).status, PM_ERROR_USAGE);
    assert_ok(pm_options_set(o, "text", "/nowhere/text"));
    assert_int_equal(check_golden("llama-tied.q8_0", o).status, PM_ERROR_FILE);
    pm_options_destroy(o);
}

static void what_can_not_be_checked(void **state)
{
    (void)state;
    pm_options *o = test_options("vocab-only", "true", NULL);
    assert_int_equal(check_golden("llama-tied.q8_0", o).status, PM_ERROR_USAGE);
    pm_options_destroy(o);
    // learned positions end
    o = test_options("device", "cpu", "tokens", "100000", NULL);
    assert_int_equal(check_golden("gpt2.q8_0", o).status, PM_ERROR_USAGE);
    static const char *const bad[][2] = {{"tokens", "3"}, {"tokens", "-1"}, {"against", "gpu"}};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pm_options_set(o, bad[i][0], bad[i][1]), PM_ERROR_USAGE);
    pm_options_destroy(o);
    // a GPU is what is checked, never what is believed
    o = test_options("device", "cpu", "against", "vulkan", NULL);
    assert_int_equal(check_golden("llama-tied.q8_0", o).status, PM_ERROR_USAGE);
    pm_options_destroy(o);
}

// bench says "checked" of a speed only where the device passed a check in the same run.
static void a_speed_is_checked_only_where_the_check_passed(void **state)
{
    (void)state;
    pm_options *o = test_options("device", "cpu", "prompt", "4", "gen", "0", "repeat", "1",
                                 "checked", "true", NULL);
    pm_model *pm = test_golden("llama-tied.q8_0", o);
    char *text = NULL;
    assert_ok(pm_bench(pm, o, &text));
    json_t *all = json_loads(text, 0, NULL);
    assert_true(json_is_true(json_object_get(all, "checked")));
    assert_true(json_is_null(json_object_get(all, "checked_reason")));
    json_decref(all);
    pm_free(text);
    text = NULL;
    assert_ok(pm_options_set(o, "inject", "ATTEND:1"));
    assert_int_equal(pm_bench(pm, o, &text), PM_ERROR_CHECK);
    assert_non_null(strstr(pm_last_error(), "ATTEND of layer 1"));
    all = json_loads(text, 0, NULL); // measured all the same
    assert_true(json_is_false(json_object_get(all, "checked")));
    assert_non_null(strstr(json_string_value(json_object_get(all, "checked_reason")), "ATTEND"));
    const json_t *first = json_array_get(json_object_get(all, "results"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "status")), "ok");
    json_decref(all);
    pm_free(text);
    // a check that could not be run is none, and the reason says why
    text = NULL;
    assert_ok(pm_options_set(o, "inject", "NOPE:1"));
    assert_int_equal(pm_bench(pm, o, &text), PM_ERROR_USAGE);
    all = json_loads(text, 0, NULL);
    assert_true(json_is_null(json_object_get(all, "checked")));
    assert_true(json_is_string(json_object_get(all, "checked_reason")));
    json_decref(all);
    pm_free(text);
    pm_model_close(pm);
    pm_options_destroy(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r63_golden_models_pass_on_cpu),
        cmocka_unit_test(unfused_plans_and_other_sides_pass),
        cmocka_unit_test(every_kind_of_fault_is_named),
        cmocka_unit_test(faults_where_nothing_runs_are_refused),
        cmocka_unit_test(nan_on_both_sides_never_passes),
        cmocka_unit_test(r64_seed_types_and_bounds_are_reported),
        cmocka_unit_test(r65_whole_runs_report_divergence_and_choices),
        cmocka_unit_test(r66_what_is_left_out_is_counted),
        cmocka_unit_test(tokens_of_a_text),
        cmocka_unit_test(what_can_not_be_checked),
        cmocka_unit_test(a_speed_is_checked_only_where_the_check_passed),
    };
    return cmocka_run_group_tests_name("check", tests, list_golden, NULL);
}
