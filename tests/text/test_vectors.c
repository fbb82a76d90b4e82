// Token ids, pieces and decodings against values from independent tokenizers (shared data).
#include "text/vectors.h"

#include "text/pretokenize.h"

typedef struct run {
    const text_vocab *v;
    const char *name;
    size_t n_checked, n_wrong;
} run;

static void check_encode(run *r, const json_t *line, const json_t *ids, bool special)
{
    size_t n;
    char *text = line_bytes(line, "text", "bytes_b64", &n);
    assert_non_null(text);
    text_ids found = {0};
    assert_ok(text_encode(r->v, text, n, special, &found));
    char what[256];
    snprintf(what, sizeof what, "%s, input %d, special %d: %.100s", r->name,
             (int)json_integer_value(json_object_get(line, "id")), special, text);
    r->n_checked++;
    if (!same_ids(&found, ids, what)) r->n_wrong++;
    text_ids_free(&found);
    free(text);
}

static void check_line(void *arg, json_t *line)
{
    if (json_object_get(line, "skip")) return;
    const json_t *ids = json_object_get(line, "ids"), *plain = json_object_get(line, "ids_plain");
    // The file marks the token as control where the model's own tokenizer does not (README.md).
    if (!json_object_get(line, "ids_llamacpp") && json_object_get(line, "ids_plain_llamacpp"))
        plain = json_object_get(line, "ids_plain_llamacpp");
    check_encode(arg, line, ids, true);
    check_encode(arg, line, plain ? plain : ids, false);
}

static const struct {
    const char *vocab, *lines;
} vocabularies[] = {
    {"llama3", "llama3"},
    {"smollm3", "smollm3"},
    {"qwen3", "qwen3"},
    {"smollm2", "smollm2"},
    {"ggml-vocab-gpt-2", "gpt-2"},
    {"ggml-vocab-starcoder", "starcoder"},
    {"ggml-vocab-refact", "refact"},
    {"ggml-vocab-mpt", "mpt"},
    {"ggml-vocab-falcon", "falcon"},
    {"ggml-vocab-deepseek-coder", "deepseek-coder"},
    {"ggml-vocab-deepseek-llm", "deepseek-llm"},
    {"gemma3", "gemma3"},
    {"mistral-spm", "mistral-spm"},
    {"ggml-vocab-llama-spm", "llama-spm"},
    {"ggml-vocab-phi-3", "phi-3"},
};

static vocabulary open_data(const char *name)
{
    char file[128];
    snprintf(file, sizeof file, "vocab/%s.gguf", name);
    return open_vocabulary(test_data(file), NULL);
}

static void r36_ids_of_every_vocabulary(void **state)
{
    (void)state;
    size_t n_wrong = 0;
    for (size_t i = 0; i < sizeof vocabularies / sizeof vocabularies[0]; i++) {
        vocabulary x = open_data(vocabularies[i].vocab);
        assert_int_equal(text_n_warnings(x.v), 0);
        run r = {.v = x.v, .name = vocabularies[i].lines};
        char file[128];
        snprintf(file, sizeof file, "tokenizer/%s.jsonl", vocabularies[i].lines);
        each_line(test_data(file), check_line, &r);
        assert_true(r.n_checked >= 1000);
        if (r.n_wrong) print_error("%s: %zu of %zu wrong\n", r.name, r.n_wrong, r.n_checked);
        n_wrong += r.n_wrong;
        close_vocabulary(&x);
    }
    assert_int_equal(n_wrong, 0);
}

// GPT-2's vocabulary under the pre-tokenizer `default`: its file has the name taken out.
static void r36_default_is_assumed_with_a_warning(void **state)
{
    (void)state;
    gguf *from;
    assert_ok(gguf_open(test_data("vocab/ggml-vocab-gpt-2.gguf"), true, &from));
    const char *path = test_temp("no-pre.gguf");
    gguf_writer *w;
    assert_ok(gguf_writer_open(path, &w));
    for (size_t i = 0; i < gguf_n_values(from); i++) {
        const gguf_value *value = gguf_value_at(from, i);
        if (value->key.len != 18 || memcmp(value->key.data, "tokenizer.ggml.pre", 18) != 0)
            gguf_put_copy(w, from, value);
    }
    assert_ok(gguf_begin_data(w));
    assert_ok(gguf_writer_commit(w));
    gguf_close(from);
    vocabulary x = open_vocabulary(path, NULL);
    assert_string_equal(text_pre_name(x.v), "default");
    assert_int_equal(text_n_warnings(x.v), 1);
    assert_non_null(strstr(text_warning(x.v, 0), "tokenizer.ggml.pre"));
    run r = {.v = x.v, .name = "gpt-2.pre-default"};
    each_line(test_data("tokenizer/gpt-2.pre-default.jsonl"), check_line, &r);
    assert_true(r.n_checked >= 1000);
    assert_int_equal(r.n_wrong, 0);
    close_vocabulary(&x);
}

static void check_unreachable(void *arg, json_t *line)
{
    run *r = arg;
    const json_t *text = json_object_get(line, "text");
    text_ids found = {0};
    assert_ok(text_encode(r->v, json_string_value(text), json_string_length(text), true, &found));
    r->n_checked++;
    if (found.n != 1 || found.ids[0] != json_integer_value(json_object_get(line, "id")))
        r->n_wrong++;
    text_ids_free(&found);
}

// A token that its own text gives although no merges lead to it, where that text is one piece.
static void r36_whole_words(void **state)
{
    (void)state;
    static const char *const names[] = {"llama3", "smollm3"};
    for (int i = 0; i < 2; i++) {
        vocabulary x = open_data(names[i]);
        run r = {.v = x.v, .name = names[i]};
        each_line(test_data("tokenizer/llama3.unreachable.jsonl"), check_unreachable, &r);
        assert_int_equal(r.n_checked, 588);
        assert_int_equal(r.n_wrong, 0);
        close_vocabulary(&x);
    }
}

static void check_pieces(void *arg, json_t *line)
{
    run *r = arg;
    const json_t *text = json_object_get(line, "text");
    const char *name;
    json_t *expected;
    pieces found = {0};
    json_object_foreach(json_object_get(line, "pieces"), name, expected)
    {
        const pretokenizer *p = pretokenizer_find(name, strlen(name));
        if (!p) fail_msg("%s is not known", name);
        assert_ok(pretokenize(p, json_string_value(text), json_string_length(text), &found));
        bool same = found.n == json_array_size(expected);
        uint32_t start = 0;
        for (size_t i = 0; same && i < found.n; start = found.ends[i++])
            same = found.ends[i] - start == json_integer_value(json_array_get(expected, i));
        r->n_checked++;
        if (same) continue;
        r->n_wrong++;
        print_error("%s, input %d:", name, (int)json_integer_value(json_object_get(line, "id")));
        start = 0;
        for (size_t i = 0; i < found.n && i < 30; start = found.ends[i++])
            print_error(" %u", found.ends[i] - start);
        print_error("\n");
    }
    pieces_free(&found);
}

static void r36_pieces(void **state)
{
    (void)state;
    run r = {0};
    each_line(test_data("tokenizer/pretokenize.jsonl"), check_pieces, &r);
    assert_true(r.n_checked >= 6000);
    assert_int_equal(r.n_wrong, 0);
}

static void check_decode(void *arg, json_t *line)
{
    run *r = arg;
    const json_t *list = json_object_get(line, "ids");
    text_ids ids = {0};
    for (size_t i = 0; i < json_array_size(list); i++)
        assert_ok(text_ids_add(&ids, (int32_t)json_integer_value(json_array_get(list, i))));
    size_t n_all, n_plain, n;
    char *all = line_bytes(line, "", "bytes_b64", &n_all);
    char *plain = line_bytes(line, "", "nospecial_b64", &n_plain);
    assert_non_null(all);
    char *found = decode(r->v, ids.ids, ids.n, true, &n);
    bool same = n == n_all && memcmp(found, all, n) == 0;
    free(found);
    found = decode(r->v, ids.ids, ids.n, false, &n);
    const char *want = plain ? plain : all;
    if (!plain) n_plain = n_all;
    same = same && n == n_plain && memcmp(found, want, n) == 0;
    free(found);
    r->n_checked++;
    if (!same) {
        r->n_wrong++;
        char *dump = json_dumps(line, 0);
        print_error("%s: %.300s\n", r->name, dump);
        free(dump);
    }
    free(all);
    free(plain);
    text_ids_free(&ids);
}

static void r37_decoding(void **state)
{
    (void)state;
    static const char *const names[][2] = {{"llama3", "llama3"},
                                           {"smollm3", "smollm3"},
                                           {"qwen3", "qwen3"},
                                           {"smollm2", "smollm2"},
                                           {"ggml-vocab-gpt-2", "gpt-2"},
                                           {"gemma3", "gemma3"},
                                           {"mistral-spm", "mistral-spm"},
                                           {"ggml-vocab-llama-spm", "llama-spm"},
                                           {"ggml-vocab-phi-3", "phi-3"}};
    size_t n_wrong = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        vocabulary x = open_data(names[i][0]);
        run r = {.v = x.v, .name = names[i][1]};
        char file[128];
        snprintf(file, sizeof file, "tokenizer/detok/%s.jsonl", names[i][1]);
        each_line(test_data(file), check_decode, &r);
        assert_int_equal(r.n_checked, 741);
        if (r.n_wrong) print_error("%s: %zu wrong\n", r.name, r.n_wrong);
        n_wrong += r.n_wrong;
        close_vocabulary(&x);
    }
    assert_int_equal(n_wrong, 0);
}

static void check_case(run *r, const json_t *line, const char *text_key)
{
    const json_t *text = json_object_get(line, text_key);
    text_ids found = {0};
    assert_ok(text_encode(r->v, json_string_value(text), json_string_length(text), true, &found));
    char what[256];
    snprintf(what, sizeof what, "%s: %.100s", r->name, json_string_value(text));
    r->n_checked++;
    if (!same_ids(&found, json_object_get(line, "ids"), what)) r->n_wrong++;
    const json_t *decoded = json_object_get(line, "decoded");
    if (decoded) {
        size_t n;
        char *bytes = decode(r->v, found.ids, found.n, true, &n);
        size_t skip = text_has_space_prefix(r->v) && n > 0 && bytes[0] == ' ';
        if (n - skip != json_string_length(decoded) ||
            memcmp(bytes + skip, json_string_value(decoded), n - skip) != 0) {
            r->n_wrong++;
            print_error("%s: decoded '%s', expected '%s'\n", what, bytes + skip,
                        json_string_value(decoded));
        }
        free(bytes);
    }
    text_ids_free(&found);
}

static void r36_golden_tokenizers(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"smollm3-tied.q8_0", "smaug"}, {"llama-linear.f32", "llama3"},
        {"qwen2.q8_0", "qwen2"},        {"llama-tied.q8_0", "smollm"},
        {"gpt2.q8_0", "gpt2"},          {"mistral.q8_0", "spm-llama"},
        {"gemma3.q8_0", "spm-gemma"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char file[128];
        snprintf(file, sizeof file, "golden/%s.gguf", names[i][0]);
        vocabulary x = open_vocabulary(test_data(file), NULL);
        snprintf(file, sizeof file, "golden/tokenizers/%s.tok.json", names[i][1]);
        json_error_t error;
        json_t *all = json_load_file(test_data(file), 0, &error);
        assert_non_null(all);
        run r = {.v = x.v, .name = names[i][1]};
        size_t k;
        json_t *line;
        json_array_foreach(json_object_get(all, "cases"), k, line) check_case(&r, line, "text");
        json_array_foreach(json_object_get(all, "chat"), k, line) check_case(&r, line, "rendered");
        assert_true(r.n_checked > 50);
        assert_int_equal(r.n_wrong, 0);
        json_decref(all);
        close_vocabulary(&x);
    }
}

static void check_prompt(void *arg, json_t *line)
{
    run *r = arg;
    const char *vocab = json_string_value(json_object_get(line, "vocab"));
    if (strcmp(vocab, r->name) == 0) check_case(r, line, "text");
}

// Whole prompts as chat templates render them.
static void r36_rendered_prompts(void **state)
{
    (void)state;
    static const char *const names[] = {"llama3", "smollm3", "smollm2", "qwen3", "gemma3"};
    size_t n_lines = 0, n_checked = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        vocabulary x = open_data(names[i]);
        run r = {.v = x.v, .name = names[i]};
        n_lines = each_line(test_data("chat/prompt_ids.jsonl"), check_prompt, &r);
        assert_int_equal(r.n_wrong, 0);
        n_checked += r.n_checked;
        close_vocabulary(&x);
    }
    assert_true(n_checked > 0);
    assert_int_equal(n_checked, n_lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r36_pieces),
        cmocka_unit_test(r36_ids_of_every_vocabulary),
        cmocka_unit_test(r36_default_is_assumed_with_a_warning),
        cmocka_unit_test(r36_whole_words),
        cmocka_unit_test(r36_golden_tokenizers),
        cmocka_unit_test(r36_rendered_prompts),
        cmocka_unit_test(r37_decoding),
    };
    return cmocka_run_group_tests_name("vectors", tests, NULL, NULL);
}
