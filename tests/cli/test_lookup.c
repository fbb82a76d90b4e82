// Which file MODEL means, and where the program looks without one.
#include "cli/cli_test.h"

// Makes folders with copies of the tiny model; `root` is what HOME is set to.
static void shell(const char *format, ...)
{
    char command[4096];
    va_list list;
    va_start(list, format);
    vsnprintf(command, sizeof command, format, list);
    va_end(list);
    assert_int_equal(test_run(command, NULL, NULL), 0);
}

static const char *fresh_home(const char *name)
{
    const char *root = test_temp(name);
    shell("mkdir -p '%s/.agents/models' '%s/.local/share/pumice/models'", root, root);
    return root;
}

// The file that was opened, as the first line of `info` names it.
static void assert_opens(const char *wanted, const char *setting)
{
    char *out = output_of("%s $P info", setting);
    out[strcspn(out, "\n")] = 0;
    assert_string_equal(out, wanted);
    free(out);
}

static void nothing_to_be_found(void **state)
{
    (void)state;
    const char *root = fresh_home("none");
    assert_refused(3, "PUMICE_MODEL", "HOME='%s' $P info", root);
    assert_refused(3, "ELELEM_GGUF_MODEL", "HOME='%s' $P info", root);
    assert_refused(3, ".agents/models/default.gguf", "HOME='%s' $P info", root);
    assert_refused(3, ".local/share/pumice/models", "HOME='%s' $P info", root);
    assert_refused(3, "tools/quickstart", "HOME='%s' $P info", root);
    assert_refused(3, "tools/quickstart", "unset HOME; $P info");
    assert_refused(3, "tools/quickstart", "HOME='%s' $P ask hi", root);
}

static void order_of_the_places(void **state)
{
    (void)state;
    char root[1024], setting[4096], wanted[2048];
    snprintf(root, sizeof root, "%s", fresh_home("order"));
    snprintf(setting, sizeof setting, "HOME='%s'", root);

    shell("cp '%s' '%s/.local/share/pumice/models/data.gguf'", tiny(), root);
    snprintf(wanted, sizeof wanted, "%s/.local/share/pumice/models/data.gguf", root);
    assert_opens(wanted, setting);

    shell("cp '%s' '%s/.agents/models/only.gguf'; touch '%s/.agents/models/notes.txt'", tiny(),
          root, root);
    snprintf(wanted, sizeof wanted, "%s/.agents/models/only.gguf", root);
    assert_opens(wanted, setting);

    // Two of them: which? The next place decides, or nothing does.
    shell("cp '%s' '%s/.agents/models/second.gguf'", tiny(), root);
    snprintf(wanted, sizeof wanted, "%s/.local/share/pumice/models/data.gguf", root);
    assert_opens(wanted, setting);
    shell("rm '%s/.local/share/pumice/models/data.gguf'", root);
    assert_refused(3, "2 models", "%s $P info", setting);

    shell("cp '%s' '%s/.agents/models/default.gguf'", tiny(), root);
    snprintf(wanted, sizeof wanted, "%s/.agents/models/default.gguf", root);
    assert_opens(wanted, setting);

    snprintf(setting, sizeof setting, "HOME='%s' ELELEM_GGUF_MODEL='%s'", root, tiny());
    assert_opens(tiny(), setting);
    snprintf(setting, sizeof setting, "HOME='%s' ELELEM_GGUF_MODEL=/nowhere PUMICE_MODEL='%s'",
             root, tiny());
    assert_opens(tiny(), setting);
    // A variable that leads nowhere is an error, not a reason to look further.
    assert_refused(3, "PUMICE_MODEL", "HOME='%s' PUMICE_MODEL=/nowhere $P info", root);
}

static void names_in_the_folders(void **state)
{
    (void)state;
    char root[1024], wanted[2048], setting[4096];
    snprintf(root, sizeof root, "%s", fresh_home("names"));
    shell("cp '%s' '%s/.agents/models/small one.gguf'", tiny(), root);
    snprintf(wanted, sizeof wanted, "%s/.agents/models/small one.gguf", root);
    snprintf(setting, sizeof setting, "HOME='%s' PUMICE_MODEL='small one'", root);
    assert_opens(wanted, setting);
    snprintf(setting, sizeof setting, "HOME='%s' PUMICE_MODEL='small one.gguf'", root);
    assert_opens(wanted, setting);
    char *ids = output_of("HOME='%s' $P tokenize 'small one' hello --ids", root);
    free(ids);
    assert_refused(3, "other", "HOME='%s' $P info other", root);

    snprintf(root, sizeof root, "%s", test_temp("elsewhere"));
    shell("mkdir -p '%s/pumice/models'; cp '%s' '%s/pumice/models/x.gguf'", root, tiny(), root);
    snprintf(wanted, sizeof wanted, "%s/pumice/models/x.gguf", root);
    snprintf(setting, sizeof setting, "XDG_DATA_HOME='%s'", root);
    assert_opens(wanted, setting);
    snprintf(setting, sizeof setting, "XDG_DATA_HOME='%s' PUMICE_MODEL=x", root);
    assert_opens(wanted, setting);
}

// The parts of a split model are one model.
static void split_models_count_once(void **state)
{
    (void)state;
    char root[1024];
    snprintf(root, sizeof root, "%s", fresh_home("split"));
    shell("cd '%s/.agents/models' && cp '%s' big-00001-of-00002.gguf && touch "
          "big-00002-of-00002.gguf",
          root, tiny());
    char *out, *err;
    // Whatever the file says of itself: it was the one that was chosen.
    pumice(&out, &err, "HOME='%s' $P info", root);
    assert_null(strstr(err, "which?"));
    free(out);
    free(err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_to_be_found),
        cmocka_unit_test(order_of_the_places),
        cmocka_unit_test(names_in_the_folders),
        cmocka_unit_test(split_models_count_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
