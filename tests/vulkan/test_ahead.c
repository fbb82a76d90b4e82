// Decoding ahead of the host: the same tokens as one by one, whatever ends it. And draws from the
// short list that the device makes: the same tokens as from all logits.
#include "support/test.h"

#include <jansson.h>

#include "engine/sampler.h"
#include "engine/session.h"
#include "support/open.h"
#include "support/runner.h"
#include "support/vulkan_drivers.h"

// ---- the executor -----------------------------------------------------------------------------

static int32_t largest(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

static void open_golden(runner *r, const char *file, const exec_gpu *gpu, plan_act act)
{
    plan_options options = {
        .n_ctx = 128, .n_slots = 1, .n_batch = 32, .kv_type = QUANT_F16, .act = act};
    exec_params params = {.n_threads = 2, .gpu = gpu};
    runner_open(r, test_data(file), &exec_vulkan, &params, &options);
}

// Ops of one row, PICK aside.
static uint32_t n_ops_with_logits(const plan *p)
{
    uint32_t n = p->n_ops;
    while (p->ops[n - 1].kind == PLAN_PICK_OP) n--;
    return n;
}

static pm_status begin(runner *r, int32_t id, uint32_t n_steps)
{
    static plan_step step;
    step = (plan_step){.n_rows = 1, .n_logits = 1};
    step.rows[0] = (plan_row){id, r->n_past, 0, r->n_past + 1};
    const plan *p = plan_for_rows(r->set, 1);
    return exec_vulkan.ahead_begin(r->exec, p, 0, n_ops_with_logits(p), &step, n_steps);
}

// From a prompt of 50 tokens to the end of the context: across the border of a recording at 64
// keys.
static void same_ids_at_any_depth(const char *file, plan_act act)
{
    enum { N_PROMPT = 50, N = 128 - N_PROMPT };
    int32_t prompt[N_PROMPT], expected[N + 1];
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = i * 11 % 300 + 5;
    exec_gpu gpu = {.selector = "0"};
    runner r;
    open_golden(&r, file, &gpu, act);
    uint32_t n_vocab = r.set->n_vocab;
    float *logits = malloc((size_t)N_PROMPT * n_vocab * sizeof *logits);
    float *again = malloc((size_t)n_vocab * sizeof *again);
    assert_true(logits && again);
    runner_eval(&r, prompt, N_PROMPT, logits, NULL);
    expected[0] = largest(logits + (size_t)(N_PROMPT - 1) * n_vocab, n_vocab);
    for (int i = 0; i < N; i++) {
        runner_eval(&r, &expected[i], 1, logits, NULL);
        expected[i + 1] = largest(logits, n_vocab);
        if (i == 20) memcpy(again, logits, n_vocab * sizeof *again);
    }
    runner_close(&r);
    for (gpu.ahead = 0; gpu.ahead <= 3; gpu.ahead++) {
        open_golden(&r, file, &gpu, act);
        assert_true(exec_vulkan.can_ahead(r.exec));
        runner_eval(&r, prompt, N_PROMPT, logits, NULL);
        exec_choice choice;
        assert_ok(begin(&r, expected[0], N));
        for (int i = 0; i < N; i++) {
            assert_ok(exec_vulkan.ahead_next(r.exec, &choice));
            assert_true(choice.certain);
            assert_int_equal(choice.id, expected[i + 1]);
        }
        exec_vulkan.ahead_end(r.exec);
        // Ended in the middle, the cache is as if nobody had run ahead.
        assert_ok(begin(&r, expected[0], N));
        for (int i = 0; i < 20; i++) assert_ok(exec_vulkan.ahead_next(r.exec, &choice));
        exec_vulkan.ahead_end(r.exec);
        r.n_past = N_PROMPT + 20;
        runner_eval(&r, &expected[20], 1, logits, NULL);
        assert_memory_equal(logits, again, n_vocab * sizeof *again);
        assert_ok(begin(&r, 7, 5));
        runner_close(&r); // while something is in work
    }
    free(logits);
    free(again);
}

static void executor_f32(void **state)
{
    (void)state;
    vulkan_driver_need();
    same_ids_at_any_depth("golden/llama-tied.q8_0.gguf", PLAN_ACT_F32);
}

static void executor_q8(void **state)
{
    (void)state;
    vulkan_driver_need();
    same_ids_at_any_depth("golden/smollm3-q4_k_m.gguf", PLAN_ACT_Q8);
}

static void r18_lost_while_ahead(void **state)
{
    (void)state;
    vulkan_driver_need();
    exec_gpu gpu = {.selector = "0"};
    exec_choice choice;
    runner r;
    open_golden(&r, "golden/llama-tied.q8_0.gguf", &gpu, PLAN_ACT_F32);
    int before = atomic_load(&r.weights->device->n_submits);
    runner_close(&r);
    for (int n = 1; n <= 4; n++) {
        gpu.lose_at_submit = before + n;
        gpu.ahead = 2;
        open_golden(&r, "golden/llama-tied.q8_0.gguf", &gpu, PLAN_ACT_F32);
        pm_status status = begin(&r, 7, 20);
        while (status == PM_OK) status = exec_vulkan.ahead_next(r.exec, &choice);
        assert_int_equal(status, PM_ERROR_DEVICE);
        assert_non_null(strstr(error_message(), r.weights->device->title));
        exec_vulkan.ahead_end(r.exec);
        runner_close(&r);
    }
}

// ---- generations ------------------------------------------------------------------------------

// What a generation is, the times aside. Releases the options.
static char *generated(pm_session *s, const int32_t *ids, size_t n, pm_options *o)
{
    pm_generation *g = NULL;
    char *text = NULL;
    assert_ok(pm_generation_start(s, o, ids, n, &g));
    free(test_generate(g));
    assert_ok(pm_generation_json(g, &text));
    json_t *all = json_loads(text, JSON_ALLOW_NUL, NULL);
    assert_non_null(all);
    json_object_del(all, "timings");
    json_object_del(all, "seed");
    json_object_del(all, "cached_tokens"); // what the session held before
    pm_free(text);
    pm_generation_destroy(g);
    pm_options_destroy(o);
    text = json_dumps(all, JSON_SORT_KEYS);
    json_decref(all);
    return text;
}

static char *answer(pm_session *s, const int32_t *ids, size_t n, const char *stop,
                    const char *max_tokens, const char *more, const char *value)
{
    pm_options *o = test_options("temp", "0", "max-tokens", max_tokens, NULL);
    if (stop) assert_ok(pm_options_set(o, "stop", stop));
    if (more) assert_ok(pm_options_set(o, more, value));
    return generated(s, ids, n, o);
}

static char *draws(pm_session *s, const int32_t *ids, size_t n, const char *const way[6])
{
    pm_options *o = test_options("max-tokens", "30", "seed", "1", NULL);
    for (int i = 0; i < 6; i += 2) assert_ok(pm_options_set(o, way[i], way[i + 1]));
    return generated(s, ids, n, o);
}

static void generations_are_the_same(void **state)
{
    (void)state;
    vulkan_driver_need();
    static const char *const name = "smollm3-tied.f32";
    json_t *golden = test_golden_json(name);
    size_t n;
    int32_t *ids = test_prompt_ids(golden, 0, &n);
    pm_options *plain =
        test_options("device", "vulkan:0", "act", "f32", "ctx", "96", "vk-disable", "ahead", NULL);
    pm_options *ahead = test_options("device", "vulkan:0", "act", "f32", "ctx", "96", NULL);
    pm_model *m1 = test_golden(name, plain), *m2 = test_golden(name, ahead);
    pm_session *s1 = test_session(m1, plain), *s2 = test_session(m2, ahead);
    char *whole = answer(s1, ids, n, NULL, "40", NULL, NULL);
    json_t *all = json_loads(whole, JSON_ALLOW_NUL, NULL);
    const char *text = json_string_value(json_object_get(all, "text"));
    size_t length = json_string_length(json_object_get(all, "text"));
    assert_true(length > 12);
    char stop[32] = "zzz";
    for (size_t i = length / 2; i < length; i++) // a few letters out of the answer's middle
        if (text[i] > 0x20 && text[i + 1] > 0x20 && text[i] < 0x7f && text[i + 1] < 0x7f) {
            snprintf(stop, sizeof stop, "%.2s", text + i);
            break;
        }
    static const char *const counts[] = {"0", "1", "2", "3", "4", "17", "40", "-1"};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const char *const stops[] = {NULL, "zzz", stop};
        for (int k = 0; k < 3; k++) {
            char *a = answer(s1, ids, n, stops[k], counts[i], NULL, NULL);
            char *b = answer(s2, ids, n, stops[k], counts[i], NULL, NULL);
            assert_string_equal(a, b);
            free(a);
            free(b);
            assert_int_equal(pm_session_n_past(s1), pm_session_n_past(s2));
        }
    }
    // What needs all logits does not run ahead, and says the same.
    static const char *const words[][2] = {
        {"logprobs", "3"}, {"logit-bias", "5:-3"}, {"repeat-penalty", "1.3"}, {"top-k", "1"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char *a = answer(s1, ids, n, stop, "20", words[i][0], words[i][1]);
        char *b = answer(s2, ids, n, stop, "20", words[i][0], words[i][1]);
        assert_string_equal(a, b);
        free(a);
        free(b);
    }
    json_decref(all);
    free(whole);
    pm_session_destroy(s1);
    pm_session_destroy(s2);
    pm_model_close(m1);
    pm_model_close(m2);
    pm_options_destroy(plain);
    pm_options_destroy(ahead);
    json_decref(golden);
    free(ids);
}

// Stopped, interrupted and forgotten generations leave a session that goes on as any other.
static void ends_in_the_middle(void **state)
{
    (void)state;
    vulkan_driver_need();
    static const char *const name = "llama-tied.q8_0";
    json_t *golden = test_golden_json(name);
    size_t n, n_text;
    int32_t *ids = test_prompt_ids(golden, 0, &n);
    pm_options *o = test_options("device", "vulkan:0", "temp", "0", "max-tokens", "30", NULL);
    pm_model *m = test_golden(name, o);
    pm_session *s = test_session(m, o);
    char *expected = answer(s, ids, n, NULL, "30", NULL, NULL);
    for (int way = 0; way < 3; way++) {
        pm_generation *g = NULL;
        const char *text;
        int done = 0;
        assert_ok(pm_generation_start(s, o, ids, n, &g));
        for (int i = 0; i < 5; i++) assert_ok(pm_generation_next(g, &text, &n_text, &done));
        if (way == 0) pm_generation_stop(g);
        if (way == 1) {
            pm_session_interrupt(s);
            assert_ok(pm_generation_next(g, &text, &n_text, &done));
            assert_true(done);
        }
        if (way < 2) assert_string_equal(pm_generation_finish_reason(g), "interrupted");
        assert_int_equal(pm_session_n_past(s), n + 4);
        pm_generation_destroy(g);
        assert_ok(pm_session_rewind(s, 0));
        char *again = answer(s, ids, n, NULL, "30", NULL, NULL);
        assert_string_equal(again, expected);
        free(again);
    }
    free(expected);
    pm_session_destroy(s);
    pm_model_close(m);
    pm_options_destroy(o);
    json_decref(golden);
    free(ids);
}

// A chat that is saved in the middle of an answer: what was decoded ahead is given up, the answer
// goes on as it would have.
static void saved_in_the_middle(void **state)
{
    (void)state;
    vulkan_driver_need();
    pm_options *o = test_options("device", "vulkan:0", "temp", "0", "max-tokens", "12", NULL);
    pm_model *m = test_golden("llama-tied.q8_0", o);
    pm_session *s = test_session(m, o);
    char *answers[2];
    for (int saved = 0; saved < 2; saved++) {
        pm_chat *c = NULL;
        pm_generation *g = NULL;
        const char *text, *path = test_temp("middle.chat");
        size_t n;
        int done = 0;
        assert_ok(pm_session_rewind(s, 0));
        assert_ok(pm_chat_create(s, o, &c));
        assert_ok(pm_chat_add(c, "user", "a question"));
        assert_ok(pm_chat_generate(c, NULL, &g));
        for (int i = 0; i < 4; i++) assert_ok(pm_generation_next(g, &text, &n, &done));
        assert_false(done);
        if (saved) assert_ok(pm_chat_save(c, path, 1, NULL));
        while (!done) assert_ok(pm_generation_next(g, &text, &n, &done));
        assert_ok(pm_chat_finish(c));
        assert_ok(pm_chat_messages(c, &answers[saved]));
        if (saved) {
            pm_chat *loaded = NULL;
            assert_ok(pm_chat_create(s, o, &loaded));
            assert_ok(pm_chat_load(loaded, path, NULL));
            assert_string_equal(pm_last_error(), "");
            pm_chat_destroy(loaded);
        }
        pm_chat_destroy(c);
    }
    assert_string_equal(answers[0], answers[1]);
    pm_free(answers[0]);
    pm_free(answers[1]);
    pm_session_destroy(s);
    pm_model_close(m);
    pm_options_destroy(o);
}

// ---- the short list ---------------------------------------------------------------------------

static session *session_on(runner *r, const weights **w)
{
    static weights whole;
    whole = (weights){.m = r->model, .n_parts = 1};
    whole.parts[0] =
        (weights_part){.kind = &exec_vulkan, .end_layer = r->set->n_layer, .loaded = r->weights};
    plan_options options = {
        .n_ctx = 64, .n_slots = 1, .n_batch = 16, .kv_type = QUANT_F16, .act = PLAN_ACT_F32};
    session *s = NULL;
    assert_ok(session_open(&whole, &options, &s));
    *w = &whole;
    return s;
}

static void the_list_has_the_largest_logits(void **state)
{
    (void)state;
    vulkan_driver_need();
    static const int32_t ids[] = {5, 9, 300, 2, 77, 41};
    for (int on = 0; on < 2; on++) {
        exec_gpu gpu = {.selector = "0", .pick = on};
        runner r;
        const weights *w;
        open_golden(&r, "golden/smollm3-tied.f32.gguf", &gpu, PLAN_ACT_F32);
        session *s = session_on(&r, &w);
        const plan_pick *pick = NULL;
        assert_ok(session_eval_pick(s, ids, 6, &pick));
        if (!on) { // nearer to the host than a list could be
            assert_null(pick);
            assert_non_null(session_logits(s, 0));
        } else {
            assert_non_null(pick);
            assert_null(session_logits(s, 0));
            plan_pick kept = *pick;
            session_rewind(s, 0);
            assert_ok(session_eval(s, ids, 6, false)); // all logits, as ever
            const float *logits = session_logits(s, 0);
            assert_non_null(logits);
            int32_t top[PLAN_N_TOP];
            assert_int_equal(kept.n_top, PLAN_N_TOP);
            logits_top(logits, (int32_t)r.set->n_vocab, PLAN_N_TOP, top);
            for (int i = 0; i < PLAN_N_TOP; i++) {
                assert_int_equal(kept.top_id[i], top[i]);
                assert_true(kept.top_logit[i] == logits[top[i]]);
            }
        }
        session_close(s);
        runner_close(&r);
    }
}

// By every kind of draw, those that can't do with the list included.
static void draws_are_the_same(void **state)
{
    (void)state;
    vulkan_driver_need();
    static const char *const name = "smollm3-tied.f32";
    static const char rules[] = "root ::= [a-z ]+\n";
    const char *grammar = test_temp("rules.gbnf");
    test_write(grammar, rules, strlen(rules));
    const char *const ways[][6] = {
        {"temp", "0.8", "top-k", "40", "seed", "11"},
        {"temp", "1.5", "top-k", "190", "repeat-penalty", "1.3"},
        {"temp", "1.2", "top-k", "250", "presence-penalty", "0.5"}, // the list is too short
        {"temp", "2", "top-k", "0", "min-p", "0.02"},
        {"temp", "0", "repeat-penalty", "1.4", "logit-bias", "5:-3"},
        {"temp", "1", "typical-p", "0.9", "logit-bias", "7:4"},
        {"temp", "0.9", "grammar", grammar, "seed", "3"},
        {"temp", "0.9", "logprobs", "2", "seed", "4"},
    };
    json_t *golden = test_golden_json(name);
    size_t n;
    int32_t *ids = test_prompt_ids(golden, 0, &n);
    pm_options *plain = test_options("device", "vulkan:0", "act", "f32", "ctx", "96", NULL);
    pm_options *list =
        test_options("device", "vulkan:0", "act", "f32", "ctx", "96", "vk-pick", "true", NULL);
    pm_model *m1 = test_golden(name, plain), *m2 = test_golden(name, list);
    pm_session *s1 = test_session(m1, plain), *s2 = test_session(m2, list);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        char *a = draws(s1, ids, n, ways[i]), *b = draws(s2, ids, n, ways[i]);
        assert_string_equal(a, b);
        free(a);
        free(b);
    }
    pm_session_destroy(s1);
    pm_session_destroy(s2);
    pm_model_close(m1);
    pm_model_close(m2);
    pm_options_destroy(plain);
    pm_options_destroy(list);
    json_decref(golden);
    free(ids);
}

int main(void)
{
    vulkan_driver_use();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(executor_f32),
        cmocka_unit_test(executor_q8),
        cmocka_unit_test(r18_lost_while_ahead),
        cmocka_unit_test(generations_are_the_same),
        cmocka_unit_test(ends_in_the_middle),
        cmocka_unit_test(saved_in_the_middle),
        cmocka_unit_test(the_list_has_the_largest_logits),
        cmocka_unit_test(draws_are_the_same),
    };
    return cmocka_run_group_tests_name("vulkan ahead", tests, NULL, NULL);
}
