// A conversation that is saved with its cache on the GPU goes on as if it had never been left.
#include "support/test.h"

#include "support/open.h"
#include "support/vulkan_drivers.h"

static char *turn(pm_chat *chat, const char *text)
{
    pm_generation *g = NULL;
    assert_ok(pm_chat_add(chat, "user", text));
    assert_ok(pm_chat_generate(chat, NULL, &g));
    char *answer = test_generate(g);
    assert_ok(pm_chat_finish(chat));
    return answer;
}

static void save_and_load(const char *kv_type)
{
    vulkan_driver_need();
    const char *path = test_temp("gpu.chat");
    pm_options *o = test_options("device", "vulkan:0", "temp", "0", "max-tokens", "6", "kv-type",
                                 kv_type, NULL);
    pm_model *model = test_golden("llama-tied.q8_0", o);
    pm_session *s = test_session(model, o), *fresh = test_session(model, o);
    pm_chat *a = NULL, *b = NULL;
    assert_ok(pm_chat_create(s, o, &a));
    assert_ok(pm_chat_create(fresh, o, &b));
    free(turn(a, "one"));
    assert_ok(pm_chat_save(a, path, 1, NULL));
    assert_ok(pm_chat_load(b, path, NULL));
    assert_string_equal(pm_last_error(), "");
    assert_int_equal(pm_session_n_past(fresh), pm_session_n_past(s));
    char *wanted = turn(a, "two"), *got = turn(b, "two");
    assert_string_equal(got, wanted);
    assert_int_equal(pm_chat_n_reused(b), pm_chat_n_reused(a));
    assert_true(pm_chat_n_reused(b) > 0);
    free(wanted);
    free(got);
    pm_chat_destroy(a);
    pm_chat_destroy(b);
    pm_session_destroy(s);
    pm_session_destroy(fresh);
    pm_model_close(model);
    pm_options_destroy(o);
}

static void r50_halves(void **state)
{
    (void)state;
    save_and_load("f16");
}

static void r50_floats(void **state)
{
    (void)state;
    save_and_load("f32");
}

int main(void)
{
    vulkan_driver_use();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r50_halves),
        cmocka_unit_test(r50_floats),
    };
    return cmocka_run_group_tests_name("vulkan chat", tests, NULL, NULL);
}
