// Chats on the reference executor: what is reused, what is dropped, what is taken back.
#include "support/test.h"

#include "support/open.h"

static const char *const model_name = "llama-tied.f32";

typedef struct fixture {
    pm_options *options;
    pm_model *model;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->options = test_options("device", "reference", "temp", "0", "max-tokens", "12", NULL);
    f->model = test_golden(model_name, f->options);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    pm_model_close(f->model);
    pm_options_destroy(f->options);
    free(f);
    return 0;
}

static pm_chat *open_chat(pm_session *s, const pm_options *o)
{
    pm_chat *c = NULL;
    assert_ok(pm_chat_create(s, o, &c));
    return c;
}

// One turn; the answer, released with free.
static char *turn(pm_chat *c, const char *text, size_t *n_dropped)
{
    pm_generation *g = NULL;
    if (text) assert_ok(pm_chat_add(c, "user", text));
    assert_ok(pm_chat_generate(c, n_dropped, &g));
    char *answer = test_generate(g);
    assert_ok(pm_chat_finish(c));
    return answer;
}

static void r40_second_turn_reads_only_new_tokens(void **state)
{
    fixture *f = *state;
    pm_session *s = test_session(f->model, f->options), *fresh = test_session(f->model, f->options);
    pm_chat *c = open_chat(s, f->options);
    assert_string_equal(pm_chat_template_name(c), "the model's");
    free(turn(c, "the first question", NULL));
    assert_int_equal(pm_chat_n_reused(c), 0);
    size_t held = (size_t)pm_session_n_past(s);
    assert_true(held > 0 && pm_chat_n_new(c) > 0);
    char *answer = turn(c, "and another one", NULL);
    size_t n_prompt = pm_chat_n_reused(c) + pm_chat_n_new(c);
    // Everything that the cache held was of use, but for an answer whose tokens are not those that
    // its text is made of.
    assert_true(pm_chat_n_reused(c) > held / 2 && pm_chat_n_reused(c) <= held);
    assert_true(pm_chat_n_new(c) < n_prompt);
    // a fresh start with the same messages gives the same answer
    char *messages = NULL;
    assert_ok(pm_chat_messages(c, &messages));
    pm_chat *again = open_chat(fresh, f->options);
    assert_ok(pm_chat_set_messages(again, messages));
    assert_int_equal(pm_chat_n_messages(again), 4);
    pm_chat_truncate(again, 3);
    char *same = turn(again, NULL, NULL);
    assert_string_equal(same, answer);
    assert_int_equal(pm_chat_n_reused(again), 0);
    assert_int_equal(pm_chat_n_new(again), n_prompt);
    assert_int_equal(pm_session_n_past(fresh), pm_session_n_past(s));
    assert_memory_equal(pm_session_tokens(fresh), pm_session_tokens(s),
                        (size_t)pm_session_n_past(s) * sizeof(int32_t));
    free(same);
    free(answer);
    pm_free(messages);
    pm_chat_destroy(again);
    pm_chat_destroy(c);
    pm_session_destroy(fresh);
    pm_session_destroy(s);
}

static void r40_regenerate_reuses_the_prompt(void **state)
{
    fixture *f = *state;
    pm_session *s = test_session(f->model, f->options);
    pm_chat *c = open_chat(s, f->options);
    char *answer = turn(c, "a question", NULL);
    size_t n_prompt = pm_chat_n_new(c);
    pm_chat_truncate(c, pm_chat_n_messages(c) - 1);
    char *again = turn(c, NULL, NULL);
    assert_string_equal(again, answer);
    assert_int_equal(pm_chat_n_reused(c), n_prompt - 1);
    assert_int_equal(pm_chat_n_new(c), 1);
    free(again);
    free(answer);
    pm_chat_destroy(c);
    pm_session_destroy(s);
}

// With a seed the whole chat can be repeated, and an answer that is asked for again is another.
static void seeds_of_a_chat(void **state)
{
    fixture *f = *state;
    pm_options *o = test_options("device", "reference", "temp", "1.5", "top-k", "0", "top-p", "1",
                                 "min-p", "0", "seed", "5", "max-tokens", "12", NULL);
    char *answers[2][2];
    for (int round = 0; round < 2; round++) {
        pm_session *s = test_session(f->model, o);
        pm_chat *c = open_chat(s, o);
        answers[round][0] = turn(c, "a question", NULL);
        pm_chat_truncate(c, 1);
        answers[round][1] = turn(c, NULL, NULL);
        pm_chat_destroy(c);
        pm_session_destroy(s);
    }
    assert_string_equal(answers[0][0], answers[1][0]);
    assert_string_equal(answers[0][1], answers[1][1]);
    assert_string_not_equal(answers[0][0], answers[0][1]);
    for (int i = 0; i < 4; i++) free(answers[i / 2][i % 2]);
    pm_options_destroy(o);
}

// Turns until the context is full: the oldest ones leave the prompt, the system message stays, a
// quarter of the context is free afterwards.
static void a_full_context_drops_the_oldest_turns(void **state)
{
    fixture *f = *state;
    assert_ok(pm_options_set(f->options, "ctx", "160"));
    pm_session *s = test_session(f->model, f->options);
    pm_chat *c = open_chat(s, f->options);
    assert_ok(pm_chat_add(c, "system", "be brief"));
    size_t n_drops = 0, n_dropped = 0, n_before = 1;
    for (int i = 0; i < 12; i++) {
        char text[32];
        snprintf(text, sizeof text, "question number %d.", i);
        size_t dropped = 99;
        free(turn(c, text, &dropped));
        assert_int_equal(dropped % 2, 0); // whole turns
        n_before += 2;                    // the conversation keeps what its prompt drops
        assert_int_equal(pm_chat_n_messages(c), n_before);
        size_t n_prompt = pm_chat_n_reused(c) + pm_chat_n_new(c);
        assert_true(n_prompt < 160);
        if (dropped) assert_true(n_prompt <= 160 - 160 / 4);
        n_drops += dropped > 0;
        n_dropped += dropped;
        char *messages = NULL, *prompt = NULL;
        size_t n_text = 0;
        assert_ok(pm_chat_render(c, 0, &prompt, &n_text));
        for (int k = 0; k <= i; k++) {
            char asked[32];
            snprintf(asked, sizeof asked, "question number %d.", k);
            assert_true((memmem(prompt, n_text, asked, strlen(asked)) != NULL) ==
                        (2 * (size_t)k >= n_dropped));
        }
        pm_free(prompt);
        assert_ok(pm_chat_messages(c, &messages));
        json_t *list = json_loads(messages, JSON_ALLOW_NUL, NULL);
        assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "content")),
                            "be brief");
        assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "role")),
                            "user");
        size_t last = json_array_size(list) - 2;
        assert_string_equal(
            json_string_value(json_object_get(json_array_get(list, last), "content")), text);
        json_decref(list);
        pm_free(messages);
    }
    assert_true(n_drops >= 2);
    // one message that is longer than the context: refused, nothing is lost
    char endless[2000];
    memset(endless, 'x', sizeof endless - 1);
    endless[sizeof endless - 1] = 0;
    size_t n = pm_chat_n_messages(c);
    assert_ok(pm_chat_add(c, "user", endless));
    pm_generation *g = NULL;
    assert_int_equal(pm_chat_generate(c, NULL, &g), PM_ERROR_USAGE);
    assert_non_null(strstr(pm_last_error(), "160"));
    assert_int_equal(pm_chat_n_messages(c), n + 1);
    pm_chat_truncate(c, n);
    free(turn(c, "short again", NULL));
    pm_chat_destroy(c);
    pm_session_destroy(s);
    assert_ok(pm_options_set(f->options, "ctx", NULL));
}

static void what_goes_wrong(void **state)
{
    fixture *f = *state;
    pm_session *s = test_session(f->model, f->options);
    pm_chat *c = open_chat(s, f->options);
    pm_generation *g = NULL;
    assert_int_equal(pm_chat_generate(c, NULL, &g), PM_ERROR_USAGE); // no message
    assert_int_equal(pm_chat_finish(c), PM_ERROR_USAGE);             // no answer
    assert_int_equal(pm_chat_add(c, "nobody", "x"), PM_ERROR_USAGE);
    assert_int_equal(pm_chat_set_messages(c, "nonsense"), PM_ERROR_USAGE);
    pm_chat_destroy(c);
    const char *raises = test_temp("raises.jinja");
    static const char source[] = "{{ raise_exception('not like this') }}";
    test_write(raises, source, strlen(source));
    assert_ok(pm_options_set(f->options, "template", raises));
    c = open_chat(s, f->options);
    assert_string_equal(pm_chat_template_name(c), raises);
    assert_ok(pm_chat_add(c, "user", "x"));
    assert_int_equal(pm_chat_generate(c, NULL, &g), PM_ERROR_RUN);
    assert_non_null(strstr(pm_last_error(), "not like this"));
    assert_int_equal(pm_chat_n_messages(c), 1);
    pm_chat_destroy(c);
    assert_ok(pm_options_set(f->options, "template", "no/such/file"));
    assert_int_equal(pm_chat_create(s, f->options, &c), PM_ERROR_FILE);
    assert_ok(pm_options_set(f->options, "template", NULL));
    pm_chat_destroy(NULL);
    pm_session_destroy(s);
}

// An answer that was interrupted is part of the conversation as far as it was shown.
static void interrupted_answers_stay(void **state)
{
    fixture *f = *state;
    pm_session *s = test_session(f->model, f->options);
    pm_chat *c = open_chat(s, f->options);
    pm_generation *g = NULL;
    const char *text;
    size_t n;
    int done;
    assert_ok(pm_chat_add(c, "user", "a question"));
    assert_ok(pm_chat_generate(c, NULL, &g));
    for (int i = 0; i < 3; i++) assert_ok(pm_generation_next(g, &text, &n, &done));
    pm_generation_stop(g);
    text = pm_generation_text(g, &n);
    char *shown = malloc(n + 1);
    memcpy(shown, text, n + 1);
    assert_ok(pm_chat_finish(c));
    char *messages = NULL;
    assert_ok(pm_chat_messages(c, &messages));
    json_t *list = json_loads(messages, JSON_ALLOW_NUL, NULL);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "content")),
                        shown);
    json_decref(list);
    pm_free(messages);
    free(shown);
    pm_chat_destroy(c);
    pm_session_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r40_second_turn_reads_only_new_tokens),
        cmocka_unit_test(r40_regenerate_reuses_the_prompt),
        cmocka_unit_test(seeds_of_a_chat),
        cmocka_unit_test(a_full_context_drops_the_oldest_turns),
        cmocka_unit_test(what_goes_wrong),
        cmocka_unit_test(interrupted_answers_stay),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
