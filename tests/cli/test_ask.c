// ask: where the prompt comes from, what is printed where, what the JSON holds.
#include "cli/cli_test.h"

static void json_has_the_stable_keys(void **state)
{
    (void)state;
    json_t *all = json_of("$P ask '%s' hi --json --temp 0 -n 8 --logprobs 2 --device cpu", tiny());
    assert_true(json_is_string(key_of(all, "text")));
    assert_string_equal(json_string_value(key_of(all, "device")), "cpu");
    const char *reason = json_string_value(key_of(all, "finish_reason"));
    assert_true(!strcmp(reason, "stop") || !strcmp(reason, "length"));
    assert_true(json_integer_value(key_of(all, "prompt_tokens")) > 2);
    assert_int_equal(json_integer_value(key_of(all, "cached_tokens")), 0);
    json_int_t n = json_integer_value(key_of(all, "completion_tokens"));
    assert_true(n <= 8);
    assert_int_equal(json_array_size(key_of(all, "tokens")), n);
    assert_true(json_is_integer(key_of(all, "seed")));
    static const char *const times[] = {"load_s",     "prompt_s",     "generate_s",
                                        "prompt_tps", "generate_tps", "first_token_s"};
    for (size_t k = 0; k < 6; k++) key_of(key_of(all, "timings"), times[k]);
    size_t index;
    const json_t *one;
    assert_true(json_array_size(key_of(all, "logprobs")) > 0);
    json_array_foreach(key_of(all, "logprobs"), index, one)
    {
        assert_true(json_number_value(key_of(one, "logprob")) <= 0);
        assert_int_equal(json_array_size(key_of(one, "top")), 2);
        const json_t *first = json_array_get(key_of(one, "top"), 0);
        // Greedy: the chosen token is the most likely one.
        assert_true(json_equal(key_of(first, "id"), key_of(one, "id")));
        key_of(first, "text");
        key_of(first, "logprob");
    }
    json_decref(all);
}

// All ways to give the same prompt give the same answer, and the same seed the same text.
static void the_prompt_from_anywhere(void **state)
{
    (void)state;
    test_write(test_temp("prompt.txt"), "hello\n", 6);
    static const char options[] = "--temp 1 -s 7 -n 12 --device cpu";
    char *wanted = output_of("$P ask '%s' hello %s", tiny(), options);
    char *others[] = {
        output_of("$P ask hello -m '%s' %s", tiny(), options),
        output_of("$P ask -p hello '%s' %s", tiny(), options),
        output_of("$P ask %s -f '%s' --model='%s'", options, test_temp("prompt.txt"), tiny()),
        output_of("echo hello | $P ask '%s' %s", tiny(), options),
        output_of("PUMICE_MODEL='%s' $P ask hello %s", tiny(), options),
        output_of("echo hello | PUMICE_MODEL='%s' $P ask %s", tiny(), options),
    };
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        assert_string_equal(others[k], wanted);
        free(others[k]);
    }
    free(wanted);
}

static void stdout_holds_the_answer_only(void **state)
{
    (void)state;
    char *out, *err;
    assert_int_equal(pumice(&out, &err, "$P ask '%s' hi --temp 0 -n 8", tiny()), 0);
    assert_string_equal(err, "");
    assert_int_equal(out[strlen(out) - 1], '\n');
    json_t *all = json_of("$P ask '%s' hi --json --temp 0 -n 8", tiny());
    const char *text = json_string_value(key_of(all, "text"));
    assert_memory_equal(out, text, strlen(text));
    free(err);

    char *with, *without;
    assert_int_equal(pumice(&with, &err, "$P ask '%s' hi --temp 0 -n 8 -v -s 5", tiny()), 0);
    assert_string_equal(with, out);
    assert_non_null(strstr(err, "KV cache: "));
    assert_non_null(strstr(err, "for a context of 512"));
    assert_non_null(strstr(err, "seed 5"));
    assert_non_null(strstr(err, "temp"));
    // Known before it is taken: the line stands before the answer's.
    assert_true(strstr(err, "KV cache: ") < strstr(err, "tokens/s"));
    assert_int_equal(pumice(&without, NULL, "$P ask '%s' hi --temp 0 -n 8 -q", tiny()), 0);
    assert_string_equal(without, out);
    free(out);
    free(err);
    free(with);
    free(without);
    json_decref(all);
}

static void r48_no_escapes_without_a_terminal(void **state)
{
    (void)state;
    char *out, *err;
    pumice(&out, &err,
           "$P ask '%s' hi -v -n 4; $P info '%s'; echo hi | $P chat '%s' -v -n 4; "
           "$P devices; $P ask --help-debug",
           tiny(), tiny(), tiny());
    assert_null(strchr(out, '\x1b'));
    assert_null(strchr(err, '\x1b'));
    assert_null(strchr(err, '\r'));
    free(out);
    free(err);
}

static void the_template_and_what_follows(void **state)
{
    (void)state;
    char *answer = output_of("$P ask '%s' hi --temp 0 -n 8 --system 'be kind'", tiny());
    char *whole =
        output_of("$P ask '%s' hi --temp 0 -n 8 --system 'be kind' --show-template", tiny());
    char wanted[4096];
    snprintf(wanted, sizeof wanted,
             "<|im_start|>system\nbe kind<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
             "<|im_start|>assistant\n%s",
             answer);
    assert_string_equal(whole, wanted);
    // The same prompt, written out and not rendered.
    char *raw = output_of("$P ask '%s' --raw --special --temp 0 -n 8 -p '<|im_start|>system\nbe "
                          "kind<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>"
                          "assistant\n'",
                          tiny());
    assert_string_equal(raw, answer);
    free(raw);
    free(whole);
    free(answer);
}

static void lengths_and_stops(void **state)
{
    (void)state;
    json_t *none = json_of("$P ask '%s' hi --json --temp 0 -n 0", tiny());
    assert_int_equal(json_integer_value(key_of(none, "completion_tokens")), 0);
    assert_string_equal(json_string_value(key_of(none, "finish_reason")), "length");
    json_decref(none);
    json_t *few = json_of("ELELEM_GGUF_MAX_TOKENS=3 $P ask '%s' hi --raw --json --temp 0", tiny());
    assert_int_equal(json_integer_value(key_of(few, "completion_tokens")), 3);
    json_decref(few);
    few = json_of("ELELEM_GGUF_MAX_TOKENS=3 $P ask '%s' hi --raw --json --temp 0 -n 5", tiny());
    assert_int_equal(json_integer_value(key_of(few, "completion_tokens")), 5);
    const char *text = json_string_value(key_of(few, "text"));
    assert_true(strlen(text) > 0);
    assert_refused(2, "ELELEM_GGUF_MAX_TOKENS", "ELELEM_GGUF_MAX_TOKENS=x $P ask '%s' hi", tiny());
    json_decref(few);
}

// Reasoning that the template has opened and the limit cuts: there is no text of the grammar.
static void an_answer_that_misses_its_grammar(void **state)
{
    (void)state;
    char template[1024], grammar[1024], *out, *err;
    snprintf(template, sizeof template, "%s", test_temp("open.jinja"));
    snprintf(grammar, sizeof grammar, "%s", test_temp("yes.gbnf"));
    test_write(template, "q:<think>\n", 10);
    test_write(grammar, "root ::= \"yes\"", 14);
    const char *const form = "$P ask '%s' q --temp 0 -n 3 --grammar '%s' %s '%s'";
    assert_int_equal(pumice(&out, &err, form, tiny(), grammar, "--template", template), 0);
    assert_string_equal(out, "");
    assert_non_null(strstr(err, "does not follow the grammar"));
    free(out);
    free(err);
    assert_int_equal(pumice(&out, &err, form, tiny(), grammar, "--system", "s"), 0);
    assert_string_equal(out, "yes\n");
    assert_string_equal(err, "");
    free(out);
    free(err);
}

// Greedy text of the golden file: reference's own precision, token for token.
static void greedy_as_recorded(void **state)
{
    (void)state;
    char model[1024];
    snprintf(model, sizeof model, "%s", test_data("golden/smollm3-tied.f32.gguf"));
    json_t *golden = json_load_file(test_data("golden/smollm3-tied.f32.golden.json"), 0, NULL);
    const json_t *prompt = json_array_get(key_of(golden, "prompts"), 0);
    const json_t *wanted = key_of(key_of(prompt, "greedy"), "ids");
    test_write(test_temp("p.txt"), json_string_value(key_of(prompt, "text")),
               json_string_length(key_of(prompt, "text")));
    json_t *all = json_of("$P ask '%s' --raw --special -f '%s' --temp 0 -n 24 --json --device "
                          "reference",
                          model, test_temp("p.txt"));
    const json_t *found = key_of(all, "tokens");
    // The recorded continuation runs over end tokens; ours ends there.
    assert_true(json_array_size(found) > 0);
    for (size_t k = 0; k < json_array_size(found); k++)
        assert_true(json_equal(json_array_get(found, k), json_array_get(wanted, k)));
    json_decref(all);
    json_decref(golden);
}

// Ctrl-C while the answer comes: what came is printed, the process ends by the signal.
static void an_interrupt_keeps_what_came(void **state)
{
    (void)state;
    char path[1024], *err;
    size_t n;
    snprintf(path, sizeof path, "%s", test_temp("answer"));
    // The answer would take minutes. As text it is stopped once some of it is there; as JSON there
    // is nothing to see before the end.
    static const char *const forms[][2] = {
        {"", "until [ $(wc -c <\"$F\") -gt 10 ]; do sleep 0.1; done"}, {"--json", "sleep 3"}};
    for (size_t k = 0; k < 2; k++) {
        // `env` gives SIGINT back its effect, which shells take from programs in the background.
        int status = pumice(NULL, &err,
                            "F='%s'; env --default-signal=INT \"$P\" ask '%s' hi --raw --temp 1 -s "
                            "3 -q --device reference --ctx 16384 --logit-bias 428:-1000 "
                            "--logit-bias 426:-1000 %s >\"$F\" & pid=$!; %s; kill -INT $pid; "
                            "wait $pid",
                            path, tiny(), forms[k][0], forms[k][1]);
        assert_int_equal(status, 130);
        assert_null(strstr(err, "error"));
        free(err);
        char *out = test_read(path, &n);
        assert_true(n > 10);
        assert_int_equal(out[n - 1], '\n');
        free(out);
    }
    json_t *all = json_load_file(path, JSON_ALLOW_NUL, NULL);
    assert_non_null(all);
    assert_string_equal(json_string_value(key_of(all, "finish_reason")), "interrupted");
    json_decref(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_has_the_stable_keys),
        cmocka_unit_test(the_prompt_from_anywhere),
        cmocka_unit_test(stdout_holds_the_answer_only),
        cmocka_unit_test(r48_no_escapes_without_a_terminal),
        cmocka_unit_test(the_template_and_what_follows),
        cmocka_unit_test(lengths_and_stops),
        cmocka_unit_test(an_answer_that_misses_its_grammar),
        cmocka_unit_test(greedy_as_recorded),
        cmocka_unit_test(an_interrupt_keeps_what_came),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
