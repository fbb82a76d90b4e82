// tokenize and template through the program, against recorded answers of independent ones.
#include "cli/cli_test.h"

// ---- lines ------------------------------------------------------------------------------------

// The next line of *at as JSON; NULL at the end.
static json_t *next_line(const char **at)
{
    if (!**at) return NULL;
    size_t n = strcspn(*at, "\n");
    json_error_t where;
    json_t *line = json_loadb(*at, n, JSON_ALLOW_NUL, &where);
    if (!line) fail_msg("%s in %.*s", where.text, (int)(n < 200 ? n : 200), *at);
    *at += n + ((*at)[n] == '\n');
    return line;
}

// Runs a command that answers lines, and holds each answer's `key` against that of the question.
static size_t compare_lines(const char *questions, const char *answers, const char *key,
                            const char *expected)
{
    size_t n = 0, compared = 0;
    char *data = test_read(questions, NULL);
    const char *q = data, *a = answers;
    for (json_t *question; (question = next_line(&q)); n++) {
        json_t *answer = next_line(&a);
        if (!answer) fail_msg("no answer to line %zu", n + 1);
        const json_t *wanted = json_object_get(question, expected);
        if (wanted && !json_equal(json_object_get(answer, key), wanted)) {
            char *found = json_dumps(answer, 0), *shown = json_dumps(question, 0);
            fail_msg("line %zu: %.500s\nfor %.500s", n + 1, found, shown);
        }
        compared += wanted != NULL;
        json_decref(answer);
        json_decref(question);
    }
    assert_int_equal(*a, 0);
    free(data);
    return compared;
}

// ---- tokenize ---------------------------------------------------------------------------------

static void ids_equal_the_models_own(void **state)
{
    (void)state;
    char vocab[1024], lines[1024];
    snprintf(vocab, sizeof vocab, "%s", test_data("vocab/smollm2.gguf"));
    snprintf(lines, sizeof lines, "%s", test_data("tokenizer/smollm2.jsonl"));
    char *answers = output_of("$P tokenize '%s' --special --jsonl '%s'", vocab, lines);
    assert_true(compare_lines(lines, answers, "ids", "ids") > 500);
    free(answers);
    answers = output_of("$P tokenize -m '%s' --special --jsonl - <'%s'", vocab, lines);
    assert_true(compare_lines(lines, answers, "ids", "ids") > 500);
    free(answers);
}

// Lines with nothing but ids are decoded.
static void decoding_equals_the_models_own(void **state)
{
    (void)state;
    char vocab[1024], lines[1024], questions[1024];
    snprintf(vocab, sizeof vocab, "%s", test_data("vocab/smollm2.gguf"));
    snprintf(lines, sizeof lines, "%s", test_data("tokenizer/detok/smollm2.jsonl"));
    snprintf(questions, sizeof questions, "%s", test_temp("ids.jsonl"));
    char *data = test_read(lines, NULL);
    FILE *f = fopen(questions, "w");
    assert_non_null(f);
    const char *at = data;
    for (json_t *line; (line = next_line(&at)); json_decref(line)) {
        json_t *question = json_pack("{s:O}", "ids", json_object_get(line, "ids"));
        json_dumpf(question, f, 0);
        fputc('\n', f);
        json_decref(question);
    }
    fclose(f);
    free(data);
    char *answers = output_of("$P tokenize '%s' --special --jsonl '%s'", vocab, questions);
    assert_int_equal(compare_lines(lines, answers, "bytes_b64", "bytes_b64"), 741);
    free(answers);
}

// One text at a time: the table, --ids and --json say the same, and --decode gives the text back.
static void one_text_in_all_forms(void **state)
{
    (void)state;
    char vocab[1024];
    snprintf(vocab, sizeof vocab, "%s", tiny());
    json_t *all = json_load_file(test_data("golden/tokenizers/smaug.tok.json"), 0, NULL);
    size_t index, n = 0;
    const json_t *c;
    json_array_foreach(key_of(all, "cases"), index, c)
    {
        const char *text = json_string_value(key_of(c, "text"));
        if (strchr(text, '\'') || json_is_true(json_object_get(c, "needs_nfc")) || index % 4)
            continue;
        char wanted[8192] = "", *at = wanted;
        size_t k;
        const json_t *id;
        json_array_foreach(key_of(c, "ids"), k, id) at +=
            snprintf(at, 16, k ? " %d" : "%d", (int)json_integer_value(id));
        char *ids = output_of("printf %%s '%s' | $P tokenize '%s' --ids --special", text, vocab);
        at[0] = '\n', at[1] = 0;
        assert_string_equal(ids, wanted);
        json_t *json = json_of("printf %%s '%s' | $P tokenize '%s' --json --special", text, vocab);
        assert_true(json_equal(key_of(json, "ids"), key_of(c, "ids")));
        assert_int_equal(json_array_size(key_of(json, "pieces")), k);
        json_decref(json);
        ids[strcspn(ids, "\n")] = 0;
        char *back = output_of("$P tokenize '%s' --special --decode '%s'", vocab, ids);
        assert_string_equal(back, text);
        free(back);
        free(ids);
        n++;
    }
    assert_true(n > 5);
    json_decref(all);
}

static void control_tokens_only_when_asked_for(void **state)
{
    (void)state;
    char vocab[1024];
    snprintf(vocab, sizeof vocab, "%s", tiny());
    char *special = output_of("$P tokenize '%s' --ids --special '<|im_end|>'", vocab);
    assert_string_equal(special, "428\n");
    char *plain = output_of("$P tokenize '%s' --ids '<|im_end|>'", vocab);
    assert_null(strstr(plain, "428"));
    char *hidden = output_of("$P tokenize '%s' --decode 428,64,428", vocab);
    assert_string_equal(hidden, "a");
    char *shown = output_of("$P tokenize '%s' --special --decode '428 64'", vocab);
    assert_string_equal(shown, "<|im_end|>a");
    free(special);
    free(plain);
    free(hidden);
    free(shown);
}

static void bos_is_added_when_the_file_asks(void **state)
{
    (void)state;
    char *without = output_of("$P tokenize '%s' --ids a", test_data("vocab/llama3.gguf"));
    char *with = output_of("$P tokenize '%s' --ids --bos a", test_data("vocab/llama3.gguf"));
    char wanted[64];
    snprintf(wanted, sizeof wanted, "128000 %s", without);
    assert_string_equal(with, wanted);
    free(with);
    with = output_of("$P tokenize '%s' --ids --bos a", tiny()); // add_bos_token false
    assert_string_equal(with, "64\n");
    free(without);
    free(with);
}

static void bytes_that_are_no_text(void **state)
{
    (void)state;
    char vocab[1024];
    snprintf(vocab, sizeof vocab, "%s", tiny());
    char *empty = output_of("$P tokenize '%s' --ids ''", vocab);
    assert_string_equal(empty, "\n");
    free(empty);
    static const char lines[] =
        "{\"text\":\"a\\u0000b\"}\nnonsense\n{}\n\n{\"ids\":[-7]}\n{\"bytes_b64\":\"YWI=\"}\n"
        "{\"bytes_b64\":\"!\"}\n{\"ids\":[]}\n";
    test_write(test_temp("mixed.jsonl"), lines, sizeof lines - 1);
    char *answers = output_of("$P tokenize '%s' --jsonl '%s'", vocab, test_temp("mixed.jsonl"));
    static const char *const keys[] = {"ids", "error", "error",    "error",
                                       "ids", "error", "bytes_b64"};
    const char *at = answers;
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        json_t *line = next_line(&at);
        if (!line || !json_object_get(line, keys[k])) fail_msg("answer %zu of %s", k, answers);
        json_decref(line);
    }
    assert_int_equal(*at, 0);
    free(answers);
}

// ---- template ---------------------------------------------------------------------------------

// The first `n` lines of a file, as a file.
static void head(const char *from, const char *to, size_t n)
{
    char *data = test_read(from, NULL), *at = data;
    for (; n > 0 && *at; n--) at += strcspn(at, "\n") + 1;
    test_write(to, data, (size_t)(at - data));
    free(data);
}

static void renderings_equal_jinjas(void **state)
{
    (void)state;
    char some[1024], folder[1024];
    snprintf(some, sizeof some, "%s", test_temp("some.jsonl"));
    snprintf(folder, sizeof folder, "%s", test_data("templates"));
    head(test_data("chat/renders_core.jsonl"), some, 40);
    char *answers = output_of("$P template --jsonl '%s' --template-dir '%s' --now "
                              "2025-07-08T09:05:03",
                              some, folder);
    assert_true(compare_lines(some, answers, "text", "expected") > 20);
    free(answers);
}

// One-line templates with all their variables, an integer beyond 64 bits among them.
static void single_features_by_the_program(void **state)
{
    (void)state;
    size_t n, n_vars;
    char *lines = test_read(test_data("chat/jinja_unit.jsonl"), &n);
    char *vars = test_read(test_data("chat/jinja_unit_vars.json"), &n_vars);
    assert_non_null(strstr(vars, "12345678901234567890"));
    *strrchr(vars, '}') = 0; // a line's own variables follow
    for (char *c = vars; (c = strchr(c, '\n')) != NULL;) *c = ' ';
    char path[1024];
    snprintf(path, sizeof path, "%s", test_temp("unit.jsonl"));
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    const char *at = lines;
    for (json_t *line; (line = next_line(&at)); json_decref(line)) {
        char *template = json_dumps(json_object_get(line, "template"), JSON_ENCODE_ANY);
        char *own = json_dumps(json_object_get(line, "vars"), 0);
        fprintf(f, "{\"template\":%s,\"vars\":%s%s%s}\n", template, vars, own ? "," : "",
                own ? own + 1 : "}");
        free(template);
        free(own);
    }
    fclose(f);
    char *answers = output_of("$P template --now 2025-07-08T09:05:03 --jsonl '%s'", path);
    assert_true(compare_lines(test_data("chat/jinja_unit.jsonl"), answers, "text", "expected") >
                400);
    const char *a = answers, *q = lines;
    for (json_t *line; (line = next_line(&q)); json_decref(line)) {
        json_t *answer = next_line(&a);
        assert_int_equal(json_object_get(line, "error") != NULL,
                         json_object_get(answer, "error") != NULL);
        json_decref(answer);
    }
    free(answers);
    free(lines);
    free(vars);
}

// What a template raises is the answer of its line; the exit status stays 0.
static void lines_that_fail(void **state)
{
    (void)state;
    static const char lines[] =
        "{\"template\":\"{{ raise_exception('no') }}\",\"messages\":[]}\n"
        "{\"template\":\"{% if %}\",\"messages\":[]}\nnot json\n{\"messages\":[]}\n"
        "{\"template\":\"{{ tools is none }} {{ x }}\",\"messages\":[],\"vars\":{\"x\":1.5}}\n"
        "{\"template\":\"{{ tools is defined }}\",\"id\":7}\n"
        "{\"template\":\"../secret\",\"messages\":[]}\n";
    test_write(test_temp("fail.jsonl"), lines, sizeof lines - 1);
    char *answers = output_of("$P template --jsonl '%s'", test_temp("fail.jsonl"));
    const char *at = answers;
    json_t *line = next_line(&at);
    assert_string_equal(json_string_value(key_of(line, "error")), "no");
    json_decref(line);
    for (int k = 0; k < 3; k++, json_decref(line)) key_of(line = next_line(&at), "error");
    line = next_line(&at);
    assert_string_equal(json_string_value(key_of(line, "text")), "True 1.5");
    json_decref(line);
    line = next_line(&at);
    assert_string_equal(json_string_value(key_of(line, "text")), "False");
    json_decref(line);
    free(answers);
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", test_data("templates"));
    answers = output_of("tail -n 1 '%s' | $P template --jsonl - --template-dir '%s'",
                        test_temp("fail.jsonl"), folder);
    assert_non_null(strstr(answers, "\"error\""));
    free(answers);
}

static void the_models_own_template(void **state)
{
    (void)state;
    char model[1024];
    snprintf(model, sizeof model, "%s", tiny());
    static const char messages[] = "[{\"role\":\"user\",\"content\":\"hi\"}]";
    test_write(test_temp("messages.json"), messages, sizeof messages - 1);
    char *text = output_of("$P template '%s' --messages '%s'", model, test_temp("messages.json"));
    assert_string_equal(text, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
    free(text);
    text = output_of("$P template -m '%s' --no-generation-prompt <'%s'", model,
                     test_temp("messages.json"));
    assert_string_equal(text, "<|im_start|>user\nhi<|im_end|>\n");
    free(text);
    static const char source[] = "{{ eos_token }}|{{ a }}|{{ b.c }}|{{ tools }}|"
                                 "{{ strftime_now('%d %H:%M') }}\n";
    test_write(test_temp("t.jinja"), source, sizeof source - 1);
    text = output_of("$P template '%s' --template '%s' --messages '%s' --set a=1 --set "
                     "'b={\"c\":\"x\"}' --now 2025-07-08T09:05:03",
                     model, test_temp("t.jinja"), test_temp("messages.json"));
    // Jinja drops one line break at the end of a template.
    assert_string_equal(text, "<|im_end|>|1|x|None|08 09:05");
    free(text);
    assert_refused(2, "NAME=JSON", "$P template '%s' --messages '%s' --set a", model,
                   test_temp("messages.json"));
    assert_refused(2, "--now", "$P template '%s' --messages '%s' --now yesterday", model,
                   test_temp("messages.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_equal_the_models_own),
        cmocka_unit_test(decoding_equals_the_models_own),
        cmocka_unit_test(one_text_in_all_forms),
        cmocka_unit_test(control_tokens_only_when_asked_for),
        cmocka_unit_test(bos_is_added_when_the_file_asks),
        cmocka_unit_test(bytes_that_are_no_text),
        cmocka_unit_test(renderings_equal_jinjas),
        cmocka_unit_test(single_features_by_the_program),
        cmocka_unit_test(lines_that_fail),
        cmocka_unit_test(the_models_own_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
