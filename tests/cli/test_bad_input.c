// Everything that can be wrong with what the program is given: one clear line, the right status.
#include "cli/cli_test.h"

static void no_such_file(void **state)
{
    (void)state;
    assert_refused(3, "/nowhere/m.gguf", "$P ask /nowhere/m.gguf hi");
    assert_refused(3, "m.gguf", "$P info m.gguf");
    assert_refused(3, "tools/quickstart", "$P info no-such-model");
    assert_refused(3, "/nowhere/m.gguf", "$P logits /nowhere/m.gguf --ids 1");
}

static void a_directory(void **state)
{
    (void)state;
    assert_refused(3, "directory", "$P info '%s'", home_folder());
    assert_refused(3, "directory", "$P ask '%s' hi", home_folder());
}

static void not_a_model(void **state)
{
    (void)state;
    static const char page[] = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>";
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\n"
                                  "oid sha256:0000000000000000000000000000000000000000000000000000"
                                  "000000000000\nsize 98362432\n";
    test_write(test_temp("page.gguf"), page, sizeof page - 1);
    test_write(test_temp("pointer.gguf"), pointer, sizeof pointer - 1);
    test_write(test_temp("empty.gguf"), "", 0);
    assert_refused(3, "page.gguf", "$P ask '%s' hi", test_temp("page.gguf"));
    assert_refused(3, "page.gguf", "$P info '%s'", test_temp("page.gguf"));
    assert_refused(3, "pointer.gguf", "$P ask '%s' hi", test_temp("pointer.gguf"));
    assert_refused(3, "empty.gguf", "$P ask '%s' hi", test_temp("empty.gguf"));
}

static void a_cut_file(void **state)
{
    (void)state;
    size_t n;
    char *whole = test_read(tiny(), &n);
    static const double parts[] = {0.0001, 0.01, 0.5, 0.999};
    for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
        test_write(test_temp("cut.gguf"), whole, (size_t)((double)n * parts[k]));
        assert_refused(3, "cut.gguf", "$P ask '%s' hi", test_temp("cut.gguf"));
        assert_refused(3, "cut.gguf", "$P ask '%s' hi --no-mmap", test_temp("cut.gguf"));
    }
    free(whole);
}

// A copy of the tiny model with some bytes changed at every place where `from` stands.
static void patched(const char *name, const char *from, const char *to)
{
    size_t n, length = strlen(from), found = 0;
    assert_int_equal(length, strlen(to));
    char *data = test_read(tiny(), &n);
    for (size_t at = 0; at + length <= n; at++) {
        if (memcmp(data + at, from, length) != 0) continue;
        memcpy(data + at, to, length);
        found++;
    }
    assert_true(found > 0);
    test_write(test_temp(name), data, n);
    free(data);
}

static void unknown_architecture_and_pre_tokenizer(void **state)
{
    (void)state;
    patched("arch.gguf", "smollm3", "smollm9");
    assert_refused(3, "smollm9", "$P ask '%s' hi", test_temp("arch.gguf"));
    json_t *info = json_of("$P info '%s' --json", test_temp("arch.gguf"));
    assert_string_equal(json_string_value(key_of(info, "architecture")), "smollm9");
    assert_true(json_is_false(key_of(info, "supported")));
    assert_non_null(strstr(json_string_value(key_of(info, "unsupported_reason")), "smollm9"));
    json_decref(info);
    patched("pre.gguf", "smaug-bpe", "smaug-xyz");
    assert_refused(3, "smaug-xyz", "$P ask '%s' hi", test_temp("pre.gguf"));
}

static void unknown_format(void **state)
{
    (void)state;
    // The type is the number behind the shape of a tensor: blk.0.attn_q.weight, 2 dimensions.
    size_t n;
    char *data = test_read(tiny(), &n);
    static const char tensor[] = "blk.0.attn_q.weight";
    char *at = memmem(data, n, tensor, sizeof tensor - 1);
    assert_non_null(at);
    at += sizeof tensor - 1 + 4 + 2 * 8;
    assert_int_equal(*at, 8); // Q8_0
    *at = 99;
    test_write(test_temp("format.gguf"), data, n);
    free(data);
    assert_refused(3, "99", "$P ask '%s' hi", test_temp("format.gguf"));
}

static void template_errors(void **state)
{
    (void)state;
    patched("parse.gguf", "{% endfor %}", "{% endxyz %}");
    assert_refused(3, "template", "$P ask '%s' hi", test_temp("parse.gguf"));
    static const char raises[] = "{{ raise_exception('no tools today') }}";
    test_write(test_temp("raise.jinja"), raises, sizeof raises - 1);
    assert_refused(1, "no tools today", "$P ask '%s' hi --template '%s'", tiny(),
                   test_temp("raise.jinja"));
    assert_refused(1, "no tools today", "printf '[]' | $P template --template '%s'",
                   test_temp("raise.jinja"));
    static const char broken[] = "{% if x %}";
    test_write(test_temp("broken.jinja"), broken, sizeof broken - 1);
    assert_refused(3, "", "printf '[]' | $P template --template '%s'", test_temp("broken.jinja"));
    assert_refused(3, "", "$P ask '%s' hi --template '%s'", tiny(), test_temp("broken.jinja"));
}

static void empty_prompts(void **state)
{
    (void)state;
    assert_refused(2, "empty", "$P ask '%s' ''", tiny());
    assert_refused(2, "empty", "$P ask '%s' ' \n'", tiny());
    assert_refused(2, "empty", "$P ask '%s' -p ''", tiny());
    assert_refused(2, "empty", "$P ask '%s' </dev/null", tiny());
    assert_refused(2, "empty", "$P ask '%s' <&-", tiny());
    assert_refused(2, "empty", "$P ask '%s' --raw ''", tiny());
    assert_refused(2, "empty", "$P ask '%s' -f /dev/null", tiny());
    assert_refused(2, "empty", "$P chat '%s' --prompt ''", tiny());
    assert_refused(2, "empty", "$P chat '%s' -q </dev/null", tiny());
    assert_refused(2, "empty", "$P chat '%s' -q <&-", tiny());
    assert_refused(2, "no id", "$P logits '%s' --ids ''", tiny());
}

// What would have no effect is refused rather than passed over.
static void r42_options_without_effect(void **state)
{
    (void)state;
    static const char *const list[][2] = {
        {"--logprobs 2", "--logprobs: goes with --json"},
        {"--special", "--special: goes with --raw"},
        {"--raw --think", "--think: needs the chat template"},
        {"--raw --no-think", "--no-think: needs the chat template"},
        {"--raw --template chatml", "--template: needs the chat template"},
        {"--raw --python-tools", "--python-tools: needs the chat template"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        assert_refused(2, list[i][1], "$P ask '%s' hi %s", tiny(), list[i][0]);
    assert_refused(2, "no MODEL goes with --jsonl", "$P template '%s' --jsonl /dev/null", tiny());
    free(output_of("$P ask '%s' hi -n 1 --logprobs -1 --no-special", tiny()));
}

static void texts_that_are_not_utf8(void **state)
{
    (void)state;
    assert_refused(2, "'stop': the value is not UTF-8", "$P ask '%s' hi --stop $(printf '\\377')",
                   tiny());
    const char *path = test_temp("\xff.gbnf");
    test_write(path, "root ::= \"yes\"", 14);
    char *answer = output_of("$P ask '%s' hi --grammar '%s'", tiny(), path);
    assert_string_equal(answer, "yes\n");
    free(answer);
}

// More than there is memory for: the message says what takes less.
static void contexts_that_are_too_large(void **state)
{
    (void)state;
    if (SANITIZED) skip(); // its own memory is past any limit
    assert_refused(1, "(try a smaller --ctx",
                   "ulimit -v 1000000; $P ask '%s' hi --device cpu -t 1 "
                   "--ctx 16777216 -q",
                   tiny());
}

static void prompts_given_twice(void **state)
{
    (void)state;
    assert_refused(2, "twice", "$P ask '%s' hi -p hi", tiny());
    assert_refused(2, "twice", "$P ask '%s' hi -m '%s'", tiny(), tiny());
    assert_refused(2, "both", "$P ask '%s' -p hi -f /dev/null", tiny());
    assert_refused(3, "/nowhere", "$P ask '%s' -f /nowhere", tiny());
}

// Both numbers are in the line: how long the prompt is, and what the context holds.
static void prompts_longer_than_the_context(void **state)
{
    (void)state;
    char *ids = output_of("yes 'a b c d' | head -n 40 | $P tokenize '%s' --ids", tiny());
    size_t n = 1;
    for (const char *at = ids; *at; at++) n += *at == ' ';
    free(ids);
    assert_true(n > 64);
    char number[32];
    snprintf(number, sizeof number, "%zu", n);
    assert_refused(2, number, "yes 'a b c d' | head -n 40 | $P ask '%s' --raw --ctx 64", tiny());
    assert_refused(2, "64", "yes 'a b c d' | head -n 40 | $P ask '%s' --raw --ctx 64", tiny());
    assert_refused(2, "64", "yes 'a b c d' | head -n 40 | $P ask '%s' --ctx 64", tiny());
    assert_refused(2, "4", "$P logits '%s' --ids 1,2,3,4,5 --ctx 4", tiny());
}

static void ids_that_are_none(void **state)
{
    (void)state;
    assert_refused(2, "99999", "$P logits '%s' --ids 1,99999", tiny());
    assert_refused(2, "1;2", "$P logits '%s' --ids '1;2'", tiny());
    assert_refused(2, "-1", "$P logits '%s' --ids=-1", tiny());
    assert_refused(2, "99999", "$P tokenize '%s' --decode 99999", tiny());
    assert_refused(2, "x", "$P tokenize '%s' --decode x", tiny());
    assert_refused(2, "--ids", "$P logits '%s'", tiny());
}

// A reader that goes away is no error worth a message.
static void stdout_closed(void **state)
{
    (void)state;
    static const char *const commands[][2] = {{"info", "--full"},
                                              {"tokenize", "hello"},
                                              {"ask", "hello -n 5 --temp 0"},
                                              {"logits", "--ids 1,2"}};
    char *err;
    for (size_t k = 0; k < sizeof commands / sizeof commands[0]; k++) {
        assert_int_equal(
            pumice(NULL, &err, "$P %s '%s' %s >&-", commands[k][0], tiny(), commands[k][1]), 1);
        assert_string_equal(err, "");
        free(err);
    }
    // More than a pipe holds. `head` takes the status of the pipe: ours goes through a file.
    pumice(NULL, &err,
           "{ $P logits '%s' --ids $(seq -s, 1 100) --all --json; echo $? >'%s'; } | "
           "head -c 1 >/dev/null",
           tiny(), test_temp("status"));
    assert_string_equal(err, "");
    char *status = test_read(test_temp("status"), NULL);
    assert_string_equal(status, "1\n");
    free(status);
    free(err);
}

static void a_full_disk_is_said(void **state)
{
    (void)state;
    char *err;
    FILE *full = fopen("/dev/full", "w");
    if (!full) skip();
    fclose(full);
    int status = pumice(NULL, &err, "$P info '%s' --json >/dev/full", tiny());
    assert_int_equal(status, 1);
    assert_int_equal(count_lines(err), 1);
    assert_non_null(strstr(err, "pumice: error: standard output"));
    free(err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_such_file),
        cmocka_unit_test(a_directory),
        cmocka_unit_test(not_a_model),
        cmocka_unit_test(a_cut_file),
        cmocka_unit_test(unknown_architecture_and_pre_tokenizer),
        cmocka_unit_test(unknown_format),
        cmocka_unit_test(template_errors),
        cmocka_unit_test(empty_prompts),
        cmocka_unit_test(r42_options_without_effect),
        cmocka_unit_test(texts_that_are_not_utf8),
        cmocka_unit_test(contexts_that_are_too_large),
        cmocka_unit_test(prompts_given_twice),
        cmocka_unit_test(prompts_longer_than_the_context),
        cmocka_unit_test(ids_that_are_none),
        cmocka_unit_test(stdout_closed),
        cmocka_unit_test(a_full_disk_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
