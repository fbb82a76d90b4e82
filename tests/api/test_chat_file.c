// Conversations in files: with their cache, checked to the last byte, bound to their model.
#include "support/test.h"

#include "support/open.h"

static const char *const model_name = "llama-tied.q8_0";

typedef struct talk {
    pm_options *options;
    pm_model *model;
    pm_session *session;
    pm_chat *chat;
} talk;

static talk begin(const char *model, const char *device, const char *kv_type)
{
    talk t = {.options = test_options("device", device, "temp", "0", "max-tokens", "12", "kv-type",
                                      kv_type, NULL)};
    t.model = test_golden(model, t.options);
    t.session = test_session(t.model, t.options);
    assert_ok(pm_chat_create(t.session, t.options, &t.chat));
    return t;
}

static void end(talk *t)
{
    pm_chat_destroy(t->chat);
    pm_session_destroy(t->session);
    pm_model_close(t->model);
    pm_options_destroy(t->options);
}

static char *turn(talk *t, const char *text)
{
    pm_generation *g = NULL;
    assert_ok(pm_chat_add(t->chat, "user", text));
    assert_ok(pm_chat_generate(t->chat, NULL, &g));
    char *answer = test_generate(g);
    assert_ok(pm_chat_finish(t->chat));
    return answer;
}

static char *messages(const talk *t)
{
    char *json = NULL;
    assert_ok(pm_chat_messages(t->chat, &json));
    return json;
}

// R50: save then load gives the same next answer at temperature 0, and reads nothing again.
static void r50_save_and_load(void **state)
{
    (void)state;
    static const char *const ways[][2] = {{"reference", "f32"}, {"cpu", "f16"}, {"cpu", "f32"}};
    for (size_t i = 0; i < 3; i++) {
        const char *path = test_temp("kept.chat");
        talk a = begin(model_name, ways[i][0], ways[i][1]);
        assert_ok(pm_chat_add(a.chat, "system", "be brief"));
        free(turn(&a, "a first question"));
        free(turn(&a, "a second one"));
        assert_ok(pm_chat_save(a.chat, path, 1, "{\"mine\": [1, null]}"));
        int32_t n_past = pm_session_n_past(a.session);
        char *kept = messages(&a), *wanted = turn(&a, "and a third");
        size_t n_reused = pm_chat_n_reused(a.chat), n_new = pm_chat_n_new(a.chat);

        talk b = begin(model_name, ways[i][0], ways[i][1]);
        char *extra = NULL;
        assert_ok(pm_chat_load(b.chat, path, &extra));
        assert_string_equal(pm_last_error(), "");
        json_t *own = json_loads(extra, 0, NULL),
               *same = json_loads("{\"mine\": [1, null]}", 0, NULL);
        assert_true(json_equal(own, same));
        json_decref(own);
        json_decref(same);
        char *loaded = messages(&b);
        assert_string_equal(loaded, kept);
        assert_int_equal(pm_session_n_past(b.session), n_past);
        char *got = turn(&b, "and a third");
        assert_string_equal(got, wanted);
        assert_int_equal(pm_chat_n_reused(b.chat), n_reused);
        assert_int_equal(pm_chat_n_new(b.chat), n_new);
        assert_true(n_new < n_reused);
        free(got);
        pm_free(loaded);
        pm_free(extra);
        end(&b);
        free(wanted);
        pm_free(kept);
        end(&a);
    }
}

// A talk with something in it, that a refused file must not touch.
static void refuse(talk *t, const char *path)
{
    char *before = messages(t), *extra = NULL;
    int32_t n_past = pm_session_n_past(t->session);
    if (pm_chat_load(t->chat, path, &extra) != PM_ERROR_FILE) fail_msg("%s was taken", path);
    char *after = messages(t);
    assert_string_equal(after, before);
    assert_int_equal(pm_session_n_past(t->session), n_past);
    assert_null(extra);
    pm_free(before);
    pm_free(after);
}

// Cut anywhere, any byte changed, longer: refused, and nothing is lost.
static void r50_damaged_files(void **state)
{
    (void)state;
    char path[1024], bad[1024];
    snprintf(path, sizeof path, "%s", test_temp("whole.chat"));
    snprintf(bad, sizeof bad, "%s", test_temp("bad.chat"));
    talk t = begin(model_name, "cpu", "f16");
    free(turn(&t, "a question"));
    assert_ok(pm_chat_save(t.chat, path, 1, NULL));
    size_t n;
    char *data = test_read(path, &n);
    for (size_t k = 0; k < 60; k++) {
        size_t at = k < 20 ? k * 7 : n - 1 - (k - 20) * (n / 41);
        test_write(bad, data, at);
        refuse(&t, bad);
        data[at] = (char)(data[at] ^ 1 << k % 7);
        test_write(bad, data, n);
        refuse(&t, bad);
        data[at] = (char)(data[at] ^ 1 << k % 7);
    }
    char *longer = malloc(n + 1);
    memcpy(longer, data, n);
    longer[n] = '\n';
    test_write(bad, longer, n + 1);
    refuse(&t, bad);
    refuse(&t, "/no/such/file");
    refuse(&t, test_temp("."));
    test_write(bad, data, n);
    assert_ok(pm_chat_load(t.chat, bad, NULL));
    free(longer);
    free(data);
    end(&t);
}

static void r50_a_foreign_file(void **state)
{
    (void)state;
    const char *path = test_temp("foreign.chat");
    // other weights, then only other metadata and formats
    static const char *const others[] = {"llama-untied.q8_0", "llama-tied.f16"};
    talk t = begin(model_name, "cpu", "f16");
    free(turn(&t, "a question"));
    assert_ok(pm_chat_save(t.chat, path, 1, NULL));
    for (size_t i = 0; i < 2; i++) {
        talk other = begin(others[i], "cpu", "f16");
        free(turn(&other, "something else"));
        refuse(&other, path);
        assert_non_null(strstr(pm_last_error(), "another model"));
        end(&other);
    }
    end(&t);
}

// A cache of other settings is left out with a remark; without one there is nothing to say.
static void other_settings_and_no_cache(void **state)
{
    (void)state;
    const char *path = test_temp("settings.chat");
    talk a = begin(model_name, "cpu", "f16"), b = begin(model_name, "cpu", "f32"),
         c = begin(model_name, "reference", "f16");
    free(turn(&a, "a question"));
    char *kept = messages(&a);
    assert_ok(pm_chat_save(a.chat, path, 1, NULL));
    talk *others[] = {&b, &c};
    for (size_t i = 0; i < 2; i++) {
        assert_ok(pm_chat_load(others[i]->chat, path, NULL));
        assert_non_null(strstr(pm_last_error(), "read again"));
        char *loaded = messages(others[i]);
        assert_string_equal(loaded, kept);
        assert_int_equal(pm_session_n_past(others[i]->session), 0);
        pm_free(loaded);
    }
    assert_ok(pm_chat_save(a.chat, path, 0, NULL));
    assert_ok(pm_chat_load(b.chat, path, NULL));
    assert_string_equal(pm_last_error(), "");
    // what version 1 saved
    static const char old[] = "{\n \"pumice_chat\": 1,\n \"messages\": [{\"role\": \"user\", "
                              "\"content\": \"old\"}]\n}\n";
    test_write(path, old, sizeof old - 1);
    assert_ok(pm_chat_load(b.chat, path, NULL));
    assert_int_equal(pm_chat_n_messages(b.chat), 1);
    // a folder that is not there: nothing is written
    assert_int_equal(pm_chat_save(a.chat, "/no/such/folder/x", 1, NULL), PM_ERROR_RUN);
    assert_int_equal(pm_chat_save(a.chat, path, 1, "{"), PM_ERROR_USAGE);
    assert_ok(pm_chat_load(b.chat, path, NULL));
    pm_free(kept);
    end(&a);
    end(&b);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r50_save_and_load),
        cmocka_unit_test(r50_damaged_files),
        cmocka_unit_test(r50_a_foreign_file),
        cmocka_unit_test(other_settings_and_no_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
