// Byte-pair training against what Hugging Face tokenizers' trainer made of the same text
// (tools/record_bpe.py; the files say which version).
#include "text/train.h"

#include "support/test.h"

static const char *const one_special[] = {"<|endoftext|>"};

static char *corpus(size_t *n)
{
    return test_read(test_source("tests/text/data/bpe.txt"), n);
}

// "# version", the number of tokens, then a merge a line.
static void merges_are_those_of_hugging_face(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {300, 400, 2000}; // 2000: until no pair is left
    size_t n;
    char *text = corpus(&n);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        char name[64];
        snprintf(name, sizeof name, "%s%u%s", "data/bpe.", sizes[k], ".merges");
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", test_source("tests/text"), name);
        char *expected = test_read(path, NULL);
        bpe_params params = {.specials = one_special, .n_specials = 1, .n_vocab = sizes[k]};
        bpe_vocab v;
        assert_ok(bpe_train(text, n, &params, &v));
        char *line = strtok(expected, "\n");
        assert_memory_equal(line, "# tokenizers ", 13);
        line = strtok(NULL, "\n");
        assert_int_equal(v.n_tokens, strtoul(line, NULL, 10));
        uint32_t i = 0;
        for (; (line = strtok(NULL, "\n")); i++) {
            char found[256];
            assert_true(i < v.n_merges);
            snprintf(found, sizeof found, "%s %s", v.tokens[v.merges[i].left],
                     v.tokens[v.merges[i].right]);
            if (strcmp(found, line) != 0) fail_msg("merge %u: '%s', not '%s'", i, found, line);
        }
        assert_int_equal(v.n_merges, i);
        assert_true(i >= 40);
        bpe_vocab_free(&v);
        free(expected);
    }
    free(text);
}

// Written, loaded, used: every text comes back, and the training text is cut into fewer tokens.
static void a_trained_vocabulary_tokenizes(void **state)
{
    (void)state;
    size_t n, n_tokens = 0, n_merges = 0;
    char *text = corpus(&n);
    const char *path = test_temp("trained.gguf");
    assert_ok(pm_train_bpe(text, n, 500, one_special, 1, 1, path, &n_tokens, &n_merges));
    assert_int_equal(n_tokens, 500);
    assert_int_equal(n_merges, 500 - 257);
    gguf *g = NULL;
    text_vocab *v = NULL;
    assert_ok(gguf_open(path, true, &g));
    assert_ok(text_vocab_load(g, NULL, &v));
    assert_int_equal(text_n_vocab(v), 500);
    assert_int_equal(text_n_warnings(v), 0);
    assert_int_equal(text_special_ids(v)->eos, 0);
    assert_int_equal(text_type(v, 0), TEXT_CONTROL);
    text_ids ids = {0};
    assert_ok(text_encode(v, text, n, false, &ids));
    assert_true(ids.n < n * 6 / 10);
    char *back = malloc(n + 1), *to = back;
    assert_non_null(back);
    for (size_t i = 0; i < ids.n; i++) {
        gguf_string piece = text_piece(v, ids.ids[i], false);
        assert_true((size_t)(to - back) + piece.len <= n);
        memcpy(to, piece.data, piece.len);
        to += piece.len;
    }
    assert_int_equal(to - back, n);
    assert_memory_equal(back, text, n);
    // " lighthouse" is frequent: one token.
    text_ids word = {0};
    assert_ok(text_encode(v, " lighthouse", 11, false, &word));
    assert_int_equal(word.n, 1);
    text_ids_free(&word);
    text_ids_free(&ids);
    text_vocab_free(v);
    gguf_close(g);
    free(back);
    free(text);
}

static void limits(void **state)
{
    (void)state;
    bpe_vocab v;
    bpe_params p = {.specials = one_special, .n_specials = 1, .n_vocab = 256};
    assert_int_equal(bpe_train("abab", 4, &p, &v), PM_ERROR_USAGE);
    p.n_vocab = 257;
    assert_ok(bpe_train("abab", 4, &p, &v));
    assert_int_equal(v.n_merges, 0);
    bpe_vocab_free(&v);
    p.n_vocab = 1000;
    assert_ok(bpe_train("", 0, &p, &v)); // nothing to learn
    assert_int_equal(v.n_tokens, 257);
    bpe_vocab_free(&v);
    assert_ok(bpe_train("\xff\xfe broken \xc3", 11, &p, &v));
    assert_true(v.n_tokens > 257);
    bpe_vocab_free(&v);
    // A frequency below the limit is left out.
    p.min_count = 3;
    assert_ok(bpe_train("abab cd cd", 10, &p, &v));
    assert_int_equal(v.n_merges, 0);
    bpe_vocab_free(&v);
    p.min_count = 2;
    assert_ok(bpe_train("abab cd cd", 10, &p, &v));
    assert_true(v.n_merges >= 2);
    bpe_vocab_free(&v);
    static const char *const twice[] = {"<a>", "<a>"}, *const empty[] = {""};
    p.specials = twice;
    p.n_specials = 2;
    assert_int_equal(bpe_train("ab", 2, &p, &v), PM_ERROR_USAGE);
    p.specials = empty;
    p.n_specials = 1;
    assert_int_equal(bpe_train("ab", 2, &p, &v), PM_ERROR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_are_those_of_hugging_face),
        cmocka_unit_test(a_trained_vocabulary_tokenizes),
        cmocka_unit_test(limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
