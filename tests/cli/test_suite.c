// pumice bench --suite without a model: the standard one is made, kept, and never trusted unseen.
#include "cli/cli_test.h"

#include <dirent.h>
#include <stdbool.h>

// Two kinds of measurement of a small standard model in seconds; every other part is the suite's.
#define SUITE                                                                                      \
    "$P bench --suite --suite-layers 1 --prompt 8 --gen 2 --depth 0 --repeat 2 --device cpu -o "   \
    "json"

static const char *folder(void)
{
    static char path[1100];
    snprintf(path, sizeof path, "%s/.cache/pumice", home_folder());
    return path;
}

static const char *made_file(void)
{
    static char path[1200];
    snprintf(path, sizeof path, "%s/suite-1-1-layers.gguf", folder());
    return path;
}

// The document, in a file of its own too; `said` (may be NULL): was the file made in this run?
static json_t *run_suite(const char *name, bool *said)
{
    char *out, *err;
    int status = pumice(&out, &err, SUITE);
    if (status != 0) fail_msg("status %d: %s", status, err);
    if (said) *said = strstr(err, "making the standard model") != NULL;
    if (name) test_write(test_temp(name), out, strlen(out));
    json_t *all = json_loads(out, 0, NULL);
    assert_non_null(all);
    free(out);
    free(err);
    return all;
}

// By sha256sum, not by us.
static void hash_of(const char *path, char hash[65])
{
    char command[1300], *out;
    snprintf(command, sizeof command, "sha256sum '%s'", path);
    assert_int_equal(test_run(command, &out, NULL), 0);
    snprintf(hash, 65, "%s", out);
    free(out);
}

static size_t files_in(const char *path)
{
    size_t n = 0;
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

static void r59_everyone_measures_the_same_bytes(void **state)
{
    (void)state;
    bool made;
    char hash[65];
    json_t *all = run_suite("a.json", &made), *again;
    assert_true(made);
    hash_of(made_file(), hash);
    // Whoever changes the generator raises SUITE_VERSION (src/api/suite.c), then this.
    assert_string_equal(hash, "6021129a3111efcfbf268fca4244ebb14c332ef099b7298de9b9516528898da3");
    assert_int_equal(files_in(folder()), 1); // nothing half-written beside it
    const json_t *model = key_of(all, "model");
    assert_string_equal(json_string_value(key_of(model, "name")),
                        "SmolLM3-3B's shape with made-up weights, suite 1, 1 of 36 layers");
    assert_string_equal(json_string_value(key_of(model, "type")), "Q8_0");
    assert_true(json_is_true(key_of(all, "checked"))); // part of the suite
    assert_int_equal(json_integer_value(key_of(all, "seed")), 1);
    assert_int_equal(json_array_size(key_of(all, "results")), 2);

    struct stat before, after;
    assert_int_equal(stat(made_file(), &before), 0);
    again = run_suite("b.json", &made);
    assert_false(made);
    assert_int_equal(stat(made_file(), &after), 0);
    assert_true(before.st_ino == after.st_ino);
    assert_true(json_equal(model, key_of(again, "model")));
    char *table = output_of("$P compare '%s' '%s'", test_temp("a.json"), test_temp("b.json"));
    assert_non_null(strstr(table, "generate"));
    free(table);
    json_decref(again);
    json_decref(all);
}

// Whatever lies under the file's name is looked at, and replaced where it is something else.
static void other_files_under_its_name_are_replaced(void **state)
{
    (void)state;
    char good[65], hash[65];
    free(output_of(SUITE " --estimate 100 -q"));
    hash_of(made_file(), good);
    size_t n, n_tiny;
    char *whole = test_read(made_file(), &n), *tiny_file = test_read(tiny(), &n_tiny);
    for (int k = 0; k < 4; k++) {
        if (k == 0) test_write(made_file(), whole, n - 1000); // cut short
        if (k == 1) test_write(made_file(), tiny_file, n_tiny);
        if (k == 2) test_write(made_file(), "<html>", 6);
        if (k == 3) { // one byte of the last row of the last tensor
            whole[n - 1] ^= 1;
            test_write(made_file(), whole, n);
        }
        char *out, *err; // --estimate measures nothing, but opens the model
        assert_int_equal(pumice(&out, &err, SUITE " --estimate 100"), 0);
        if (!strstr(err, "making the standard model")) fail_msg("case %d: used as it was", k);
        free(out);
        free(err);
        hash_of(made_file(), hash);
        assert_string_equal(hash, good);
    }
    free(whole);
    free(tiny_file);
}

static void where_it_can_not_be_made(void **state)
{
    (void)state;
    // /proc has no free room; a file is no folder.
    assert_refused(1, "are free", SUITE " --cache-dir /proc -q");
    assert_refused(1, "Not a directory", SUITE " --cache-dir '%s/x' -q", tiny());
    assert_refused(2, "HOME is not set", "unset HOME; " SUITE " -q");
    assert_refused(2, "suite-layers", "$P bench --suite --suite-layers 0 -q");
    assert_refused(2, "no such option", "$P chat --suite-layers 1 -q");
}

// With a model it is the model's run, and nothing is made.
static void a_model_of_ones_own(void **state)
{
    (void)state;
    json_t *all = json_of("export XDG_CACHE_HOME='%s'; $P bench '%s' --suite --prompt 8 --gen 2 "
                          "--depth 0 --repeat 1 --device cpu -o json -q",
                          test_temp("elsewhere"), tiny());
    assert_true(json_is_true(key_of(all, "checked")));
    assert_null(strstr(json_string_value(key_of(key_of(all, "model"), "name")), "suite"));
    assert_int_equal(files_in(test_temp("elsewhere/pumice")), 0);
    json_decref(all);
}

static void help_has_the_small_one_for_diagnosis_only(void **state)
{
    (void)state;
    char *plain = output_of("$P bench --help"), *debug = output_of("$P bench --help-debug");
    assert_null(strstr(plain, "suite-layers"));
    assert_non_null(strstr(debug, "suite-layers"));
    free(plain);
    free(debug);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r59_everyone_measures_the_same_bytes),
        cmocka_unit_test(other_files_under_its_name_are_replaced),
        cmocka_unit_test(where_it_can_not_be_made),
        cmocka_unit_test(a_model_of_ones_own),
        cmocka_unit_test(help_has_the_small_one_for_diagnosis_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
