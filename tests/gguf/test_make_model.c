// The model generator: the published file's table line by line, and small models read back.
#include "support/test.h"

#include <inttypes.h>
#include <math.h>

#include "gguf/gguf.h"
#include "quant/quant.h"

static char *run(const char *arguments)
{
    char command[2048], *out, *err;
    snprintf(command, sizeof command, "'%s' %s", PUMICE_MAKE_MODEL, arguments);
    int rc = test_run(command, &out, &err);
    if (rc != 0) fail_msg("make_model %s: status %d: %s", arguments, rc, err);
    free(err);
    return out;
}

static gguf *make(const char *arguments)
{
    char line[1024], path[512];
    gguf *g;
    snprintf(path, sizeof path, "%s", test_temp("made.gguf"));
    snprintf(line, sizeof line, "%s -o '%s'", arguments, path);
    free(run(line));
    assert_ok(gguf_open(path, true, &g));
    return g;
}

// The next line of a text, cut off in place; NULL at its end.
static char *next_line(char **at)
{
    char *line = *at, *end;
    if (!line || !*line) return NULL;
    end = strchr(line, '\n');
    *at = end ? end + 1 : NULL;
    if (end) *end = 0;
    return line;
}

static bool begins(const char *text, const char *begin)
{
    return strncmp(text, begin, strlen(begin)) == 0;
}

// ---- the published SmolLM3-3B Q8_0 ------------------------------------------------------------

// `published` is the layout's line behind its indentation, `ours` make_model's behind "key ".
static void same_key(const char *published, const char *ours)
{
    char name[96], type[16], our_name[96], our_type[16];
    int at = 0, our_at = 0;
    assert_int_equal(sscanf(published, "%95s %15s %n", name, type, &at), 2);
    assert_int_equal(sscanf(ours, "%95s %15s %n", our_name, our_type, &our_at), 2);
    assert_string_equal(name, our_name);
    const char *value = published + at, *our_value = ours + our_at;
    if (!strcmp(type, "string")) {
        assert_string_equal(our_type, "string");
        // The layout's file has its own copy of the template.
        if (strcmp(name, "tokenizer.chat_template") != 0) assert_string_equal(value, our_value);
    } else if (!strcmp(type, "int32")) { // so it calls GGUF's type 4
        assert_string_equal(our_type, "u32");
        assert_string_equal(value, our_value);
    } else if (!strcmp(type, "float32")) {
        assert_string_equal(our_type, "f32");
        assert_true(strtof(value, NULL) == strtof(our_value, NULL));
    } else {
        assert_string_equal(type, "array");
        assert_string_equal(our_type, "array");
        char item_type[16];
        unsigned long n, our_n;
        assert_int_equal(sscanf(value, "(%lu)", &n), 1);
        assert_int_equal(sscanf(our_value, "%15s (%lu)", item_type, &our_n), 2);
        assert_int_equal(n, our_n);
        bool numbers = !strcmp(name, "tokenizer.ggml.token_type");
        assert_string_equal(item_type, numbers ? "i32" : "string");
        if (n < 16) assert_string_equal(strchr(value, '('), strchr(our_value, '('));
    }
}

static void the_published_file_line_by_line(void **state)
{
    (void)state;
    char arguments[1024];
    snprintf(arguments, sizeof arguments, "--smollm3-3b --table --vocab-from '%s'",
             test_data("vocab/smollm3.gguf"));
    char *out = run(arguments), *layout = test_read(test_data("smollm3-3b-q8_0.layout.md"), NULL);
    char *ours_at = out, *at = layout, *line;
    size_t n_keys = 0, n_tensors = 0;
    bool in_tensors = false;
    while ((line = next_line(&at))) {
        if (begins(line, "## Tensors")) in_tensors = true;
        if (!begins(line, "    ")) continue;
        line += 4;
        if (begins(line, "magic ") || begins(line, "gguf_version ") || begins(line, "type value"))
            continue;
        if (begins(line, "tensor_count ")) {
            assert_string_equal(line, "tensor_count 326");
        } else if (begins(line, "metadata_count ")) {
            assert_string_equal(line, "metadata_count 38");
        } else if (in_tensors) {
            const char *ours = next_line(&ours_at);
            assert_non_null(ours);
            assert_true(begins(ours, "tensor "));
            assert_string_equal(line, ours + strlen("tensor "));
            n_tensors++;
        } else {
            const char *ours = next_line(&ours_at);
            assert_non_null(ours);
            assert_true(begins(ours, "key "));
            same_key(line, ours + strlen("key "));
            n_keys++;
        }
    }
    assert_null(next_line(&ours_at));
    assert_int_equal(n_keys, 38);
    assert_int_equal(n_tensors, 326);
    free(out);
    free(layout);
}

// Without a vocabulary to copy: the same keys, types and tensors, other merges.
static void a_made_up_vocabulary_keeps_the_keys(void **state)
{
    (void)state;
    char arguments[1024];
    snprintf(arguments, sizeof arguments, "--smollm3-3b --table --vocab-from '%s'",
             test_data("vocab/smollm3.gguf"));
    char *copied = run(arguments), *made = run("--smollm3-3b --table");
    char *a_at = copied, *b_at = made, *a, *b;
    while ((a = next_line(&a_at))) {
        b = next_line(&b_at);
        assert_non_null(b);
        static const char *const differ[] = {"key tokenizer.ggml.merges array string (",
                                             "key tokenizer.chat_template string "};
        if (begins(a, differ[0]))
            assert_true(begins(b, differ[0]));
        else if (begins(a, differ[1]))
            assert_true(begins(b, differ[1]));
        else
            assert_string_equal(a, b);
    }
    assert_null(next_line(&b_at));
    free(copied);
    free(made);
}

// ---- small models -----------------------------------------------------------------------------

// What --table says and what the file holds, for every architecture.
static void tables_are_what_is_written(void **state)
{
    (void)state;
    static const char *const archs[] = {"llama",  "smollm3", "qwen2", "qwen3",  "gemma2",
                                        "gemma3", "phi3",    "gpt2",  "gptneox"};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        char arguments[512], table[600];
        snprintf(arguments, sizeof arguments,
                 "--arch %s --layers 3 --embd 96 --heads 4 --kv-heads 2 --head-dim 32 --ff 160 "
                 "--vocab 300 --ctx 64 --type Q5_1 --embd-type F16 --untied",
                 archs[i]);
        snprintf(table, sizeof table, "%s --table", arguments);
        char *out = run(table), *at = out, *line;
        gguf *g = make(arguments);
        size_t n_keys = 0, n_tensors = 0;
        while ((line = next_line(&at))) {
            char name[96], type[16];
            if (begins(line, "key ")) {
                assert_int_equal(sscanf(line, "key %95s %15s", name, type), 2);
                const gguf_value *v = gguf_value_at(g, n_keys++);
                assert_int_equal(v->key.len, strlen(name));
                assert_memory_equal(v->key.data, name, strlen(name));
                assert_int_equal(!strcmp(type, "u32"), v->type == GGUF_U32);
                assert_int_equal(!strcmp(type, "string"), v->type == GGUF_STRING);
                continue;
            }
            uint64_t cols, rows, offset;
            assert_int_equal(sscanf(line, "tensor %95s %" SCNu64 " %" SCNu64 " %15s %" SCNu64, name,
                                    &cols, &rows, type, &offset),
                             5);
            const gguf_tensor *t = gguf_tensor_at(g, n_tensors++);
            assert_string_equal(t->name, name);
            assert_int_equal(t->dims[0], cols);
            assert_int_equal(t->dims[1], rows);
            assert_string_equal(quant_type_name(t->type), type);
            assert_int_equal(t->offset, offset);
        }
        assert_int_equal(n_keys, gguf_n_values(g));
        assert_int_equal(n_tensors, gguf_n_tensors(g));
        assert_non_null(gguf_find_tensor(g, "output.weight"));
        assert_int_equal(gguf_find_tensor(g, "blk.2.ffn_up.weight")->type, QUANT_Q5_1);
        assert_int_equal(gguf_find_tensor(g, "token_embd.weight")->type, QUANT_F16);
        gguf_close(g);
        free(out);
    }
}

// Mean and deviation of a tensor's values; every one must be finite.
static void measure(const gguf *g, const char *name, double *mean, double *std)
{
    const gguf_tensor *t = gguf_find_tensor(g, name);
    assert_non_null(t);
    const quant_format *f = quant_format_of(t->type);
    assert_non_null(f);
    size_t n = (size_t)(t->dims[0] * t->dims[1]);
    float *values = malloc(n * sizeof *values);
    assert_non_null(values);
    f->decode(gguf_tensor_map(g, t), values, n);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(isfinite(values[i]));
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
    }
    *mean = sum / (double)n;
    *std = sqrt(squares / (double)n - *mean * *mean);
    free(values);
}

// All formats: finite, centred, and of the deviation that keeps activations alive.
static void weights_have_a_sane_spread(void **state)
{
    (void)state;
    for (size_t i = 0; quant_format_at(i); i++) {
        char arguments[256];
        double mean, std;
        snprintf(arguments, sizeof arguments, "--embd 256 --layers 1 --type %s",
                 quant_format_at(i)->name);
        gguf *g = make(arguments);
        measure(g, "blk.0.ffn_up.weight", &mean, &std); // 1 / sqrt(256) = 0.0625
        if (!(fabs(mean) < 0.01 && std > 0.05 && std < 0.08))
            fail_msg("%s: mean %g, deviation %g", quant_format_at(i)->name, mean, std);
        measure(g, "blk.0.attn_norm.weight", &mean, &std);
        assert_true(mean > 0.95 && mean < 1.05 && std < 0.1);
        gguf_close(g);
    }
}

static void the_seed_decides(void **state)
{
    (void)state;
    gguf *g = make("--seed 5");
    const gguf_tensor *t = gguf_find_tensor(g, "blk.0.attn_q.weight");
    char *first = malloc(t->bytes), *other = malloc(t->bytes);
    assert_non_null(first);
    assert_non_null(other);
    assert_ok(gguf_read(g, t, 0, first, t->bytes));
    gguf_close(g);
    g = make("--seed 5");
    t = gguf_find_tensor(g, "blk.0.attn_q.weight");
    assert_memory_equal(gguf_tensor_map(g, t), first, t->bytes);
    gguf_close(g);
    g = make("--seed 6");
    t = gguf_find_tensor(g, "blk.0.attn_q.weight");
    assert_ok(gguf_read(g, t, 0, other, t->bytes));
    assert_memory_not_equal(first, other, t->bytes);
    free(first);
    free(other);
    gguf_close(g);
}

static int compare_strings(const void *a, const void *b)
{
    const gguf_string *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int order = memcmp(x->data, y->data, n);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

// No token twice, and both halves of each merge, and the two together, are tokens.
static void made_up_vocabularies_obey_their_merges(void **state)
{
    (void)state;
    static const unsigned sizes[] = {272, 300, 4095, 4096, 40000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments,
                 "--embd 32 --heads 1 --layers 1 --type Q4_0 "
                 "--vocab %u",
                 sizes[s]);
        gguf *g = make(arguments);
        const gguf_value *tokens = gguf_find(g, "tokenizer.ggml.tokens");
        const gguf_value *merges = gguf_find(g, "tokenizer.ggml.merges");
        size_t n = (size_t)tokens->n_items;
        assert_int_equal(n, sizes[s]);
        gguf_string *sorted = calloc(n, sizeof *sorted);
        assert_non_null(sorted);
        for (size_t i = 0; i < n; i++) sorted[i] = gguf_item_string(g, tokens, i);
        qsort(sorted, n, sizeof *sorted, compare_strings);
        for (size_t i = 1; i < n; i++) assert_true(compare_strings(&sorted[i - 1], &sorted[i]) < 0);
        for (uint64_t i = 0; i < merges->n_items; i++) {
            gguf_string merge = gguf_item_string(g, merges, i);
            const char *space = memchr(merge.data, ' ', merge.len);
            assert_non_null(space);
            gguf_string left = {merge.data, (size_t)(space - merge.data)};
            gguf_string right = {space + 1, merge.len - left.len - 1};
            char both[32];
            memcpy(both, left.data, left.len);
            memcpy(both + left.len, right.data, right.len);
            gguf_string whole = {both, left.len + right.len};
            assert_non_null(bsearch(&left, sorted, n, sizeof *sorted, compare_strings));
            assert_non_null(bsearch(&right, sorted, n, sizeof *sorted, compare_strings));
            assert_non_null(bsearch(&whole, sorted, n, sizeof *sorted, compare_strings));
        }
        free(sorted);
        gguf_close(g);
    }
}

static void mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *message;
    } cases[] = {
        {"--type Q4_K -o x", "token_embd.weight: rows of 64 values don't go with type Q4_K"},
        {"--layers x -o x", "--layers x: must be a whole number up to 16777216"},
        {"--heads 0 -o x", "--heads 0: must be at least 1"},
        {"--vocab 20 -o x", "a made-up vocabulary has 272 to 475766 tokens, not 20"},
        {"--heads 3 --kv-heads 2 -o x", "--heads 3 is no multiple of --kv-heads 2"},
        {"--arch rwkv -o x", "--arch rwkv: unknown"},
        {"--type Q9 -o x", "--type Q9: unknown format"},
        {"--tied", "no output file (-o OUT.gguf)"},
        {"--seed", "--seed: unknown, or lacks its value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[1024], wanted[256], *err;
        snprintf(command, sizeof command, "'%s' %s", PUMICE_MAKE_MODEL, cases[i].arguments);
        assert_int_equal(test_run(command, NULL, &err), 2);
        snprintf(wanted, sizeof wanted, "make_model: %s\n", cases[i].message);
        assert_string_equal(err, wanted);
        free(err);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_file_line_by_line),
        cmocka_unit_test(a_made_up_vocabulary_keeps_the_keys),
        cmocka_unit_test(tables_are_what_is_written),
        cmocka_unit_test(weights_have_a_sane_spread),
        cmocka_unit_test(the_seed_decides),
        cmocka_unit_test(made_up_vocabularies_obey_their_merges),
        cmocka_unit_test(mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
