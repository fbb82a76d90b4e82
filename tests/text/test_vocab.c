// Loading vocabularies: what is refused, what gives a warning, which tokens end a text.
#include "text/small.h"

static void r36_unknown_pretokenizers(void **state)
{
    (void)state;
    small s = {0};
    add_byte_level(&s.bytes, "newest", NULL, NULL, 0);
    add_strings(&s.bytes, "tokenizer.ggml.merges", NULL, 0);
    assert_ok(gguf_bytes_open(&s.bytes, &s.g));
    assert_int_equal(text_vocab_load(s.g, NULL, &s.v), PM_ERROR_FILE);
    assert_non_null(strstr(error_message(), "'newest'"));
    assert_non_null(strstr(error_message(), "llama-bpe"));
    assert_non_null(strstr(error_message(), "laguna"));
    assert_int_equal(text_vocab_load(s.g, "newer", &s.v), PM_ERROR_USAGE);
    assert_non_null(strstr(error_message(), "'newer'"));
    assert_null(s.v);
    assert_ok(text_vocab_load(s.g, "qwen2", &s.v));
    assert_string_equal(text_pre_name(s.v), "qwen2");
    assert_int_equal(text_n_warnings(s.v), 1);
    assert_non_null(strstr(text_warning(s.v, 0), "'newest'"));
    close_small(&s);
}

// Which key is left out or wrong, and what the message must name.
static const struct {
    const char *what, *says;
} broken[] = {
    {"no model", "tokenizer.ggml.model"},
    {"other model", "'bert'"},
    {"model is a number", "tokenizer.ggml.model"},
    {"no tokens", "tokenizer.ggml.tokens"},
    {"tokens are numbers", "tokenizer.ggml.tokens"},
    {"0 tokens", "tokenizer.ggml.tokens"},
    {"too few types", "tokenizer.ggml.token_type"},
    {"types are texts", "tokenizer.ggml.token_type"},
    {"type 9", "tokenizer.ggml.token_type"},
    {"no merges", "tokenizer.ggml.merges"},
    {"merges are numbers", "tokenizer.ggml.merges"},
    {"bos is a text", "tokenizer.ggml.bos_token_id"},
    {"no scores", "tokenizer.ggml.scores"},
    {"too many scores", "tokenizer.ggml.scores"},
};

static void put_broken(gguf_bytes *b, const char *what)
{
    static const char *const tokens[] = {"a", "b", "ab"};
    static const char *const merges[] = {"a b"};
    const int32_t types[] = {1, strcmp(what, "type 9") == 0 ? 9 : 1, 1};
    const float scores[] = {0, 0, 0, 0};
#define IS(text) (strcmp(what, text) == 0)
    bool spm = IS("no scores") || IS("too many scores");
    if (IS("model is a number"))
        add_u32(b, "tokenizer.ggml.model", 7);
    else if (!IS("no model"))
        add_string(b, "tokenizer.ggml.model", IS("other model") ? "bert" : spm ? "llama" : "gpt2");
    add_string(b, "tokenizer.ggml.pre", "gpt-2");
    if (IS("tokens are numbers"))
        add_f32s(b, "tokenizer.ggml.tokens", scores, 3);
    else if (!IS("no tokens"))
        add_strings(b, "tokenizer.ggml.tokens", tokens, IS("0 tokens") ? 0 : 3);
    if (IS("types are texts"))
        add_strings(b, "tokenizer.ggml.token_type", tokens, 3);
    else
        add_i32s(b, "tokenizer.ggml.token_type", types, IS("too few types") ? 2 : 3);
    if (IS("merges are numbers"))
        add_i32s(b, "tokenizer.ggml.merges", types, 3);
    else if (!IS("no merges"))
        add_strings(b, "tokenizer.ggml.merges", merges, 1);
    if (IS("bos is a text")) add_string(b, "tokenizer.ggml.bos_token_id", "a");
    if (IS("too many scores")) add_f32s(b, "tokenizer.ggml.scores", scores, 4);
#undef IS
}

static void broken_vocabularies_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(broken); i++) {
        small s = {0};
        put_broken(&s.bytes, broken[i].what);
        assert_ok(gguf_bytes_open(&s.bytes, &s.g));
        if (text_vocab_load(s.g, NULL, &s.v) != PM_ERROR_FILE)
            fail_msg("%s: not refused", broken[i].what);
        if (!strstr(error_message(), broken[i].says))
            fail_msg("%s: '%s' does not name %s", broken[i].what, error_message(), broken[i].says);
        close_small(&s);
    }
    small s = {0};
    put_broken(&s.bytes, "nothing");
    open_small(&s);
    ENCODES(s.v, "ab", false, 2);
    ENCODES(s.v, "axb", false, 2); // no token for x: left out, as the models' tokenizers do
    close_small(&s);
}

static bool warns(const text_vocab *v, const char *of)
{
    for (size_t i = 0; i < text_n_warnings(v); i++)
        if (strstr(text_warning(v, i), of)) return true;
    return false;
}

static void odd_vocabularies_give_warnings(void **state)
{
    (void)state;
    static const char *const tokens[] = {"a", "b", "ab", "a", "", "<x>", "<x>", "cb"};
    static const int32_t types[] = {1, 1, 1, 1, 3, 3, 4, 3};
    // unknown parts, unknown result, no space, only a space, empty, a control token as the result
    static const char *const merges[] = {"q r", "b a", "ab", " ", "", "a  b", "a b", "c b"};
    small s = {0};
    gguf_bytes *b = &s.bytes;
    add_string(b, "tokenizer.ggml.model", "gpt2");
    add_string(b, "tokenizer.ggml.pre", "gpt-2");
    add_strings(b, "tokenizer.ggml.tokens", tokens, COUNT(tokens));
    add_i32s(b, "tokenizer.ggml.token_type", types, COUNT(types));
    add_strings(b, "tokenizer.ggml.merges", merges, COUNT(merges));
    add_u32(b, "tokenizer.ggml.eos_token_id", COUNT(tokens));
    add_u32(b, "tokenizer.ggml.padding_token_id", UINT32_MAX);
    add_bool(b, "tokenizer.ggml.add_bos_token", true);
    open_small(&s);
    assert_true(warns(s.v, "tokenizer.ggml.merges: 7 of 8"));
    assert_true(warns(s.v, "tokenizer.ggml.tokens: 2 tokens"));
    assert_true(warns(s.v, "tokenizer.ggml.eos_token_id is 8"));
    assert_true(warns(s.v, "tokenizer.ggml.padding_token_id is 4294967295"));
    assert_true(warns(s.v, "begin-of-text"));
    assert_int_equal(text_special_ids(s.v)->eos, TEXT_NO_TOKEN);
    assert_false(text_special_ids(s.v)->add_bos);
    assert_int_equal(text_find(s.v, "a", 1), 0);
    assert_int_equal(text_find(s.v, "zz", 2), TEXT_NO_TOKEN);
    ENCODES(s.v, "ab<x>a", true, 2, 5, 0);
    assert_int_equal(text_piece(s.v, 3, false).len, 1);
    close_small(&s);
}

static void ends_of_generation(void **state)
{
    (void)state;
    static const char *const more[] = {"<|end|>", "<|call|>", "<|return|>",
                                       "</s>",    "stop",     "<|fim_pad|>"};
    static const int32_t types[] = {3, 3, 3, 3, 3, 3};
    for (int with_return = 0; with_return < 2; with_return++) {
        small s = {0};
        const char *const names[] = {more[0], more[1], with_return ? more[2] : "x",
                                     more[3], more[4], more[5]};
        add_byte_level(&s.bytes, "gpt-2", names, types, COUNT(names));
        add_strings(&s.bytes, "tokenizer.ggml.merges", NULL, 0);
        add_u32(&s.bytes, "tokenizer.ggml.eot_token_id", 260);
        open_small(&s);
        size_t n;
        const int32_t *ends = text_end_tokens(s.v, &n);
        const int32_t with[] = {257, 258, 259, 260, 261}, without[] = {256, 257, 259, 260, 261};
        assert_int_equal(n, 5);
        assert_memory_equal(ends, with_return ? with : without, sizeof with);
        assert_true(text_is_end(s.v, 260));
        assert_false(text_is_end(s.v, 'a'));
        close_small(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r36_unknown_pretokenizers),
        cmocka_unit_test(broken_vocabularies_are_refused),
        cmocka_unit_test(odd_vocabularies_give_warnings),
        cmocka_unit_test(ends_of_generation),
    };
    return cmocka_run_group_tests_name("vocab", tests, NULL, NULL);
}
