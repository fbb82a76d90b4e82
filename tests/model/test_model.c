// What a model file must have and may not have: files are copied from a golden one with one change.
#include "support/test.h"

#include "model/model.h"

typedef struct change {
    const char *drop_key, *drop_tensor; // left out
    const char *key;                    // added or replaced:
    const char *text;                   // with this text,
    double number;                      // or this number
    const char *add_tensor;             // an F32 vector of 64 values
    const char *retype;                 // a tensor declared as IQ type `type`
    uint32_t type;
} change;

static bool same(gguf_string s, const char *text)
{
    return text && s.len == strlen(text) && !memcmp(s.data, text, s.len);
}

static void copy_values(const gguf *from, gguf_writer *w, const change *c)
{
    for (size_t i = 0; i < gguf_n_values(from); i++) {
        const gguf_value *v = gguf_value_at(from, i);
        if (!same(v->key, c->drop_key) && !same(v->key, c->key)) gguf_put_copy(w, from, v);
    }
    if (c->key && c->text)
        gguf_put_string(w, c->key, c->text, strlen(c->text));
    else if (c->key && c->number == (double)(uint32_t)c->number)
        gguf_put_u32(w, c->key, (uint32_t)c->number);
    else if (c->key)
        gguf_put_f32(w, c->key, (float)c->number);
}

static bool dropped(const gguf_tensor *t, const change *c)
{
    return c->drop_tensor && !strcmp(t->name, c->drop_tensor);
}

static uint32_t type_of(const gguf_tensor *t, const change *c)
{
    return c->retype && !strcmp(t->name, c->retype) ? c->type : t->type;
}

static const char *write_changed(const char *source, const change *c)
{
    static char data[1 << 20];
    const char *path = test_temp("changed.gguf");
    gguf *from;
    gguf_writer *w;
    uint64_t vector_n = 64;
    assert_ok(gguf_open(test_data(source), true, &from));
    assert_ok(gguf_writer_open(path, &w));
    copy_values(from, w, c);
    for (size_t i = 0; i < gguf_n_tensors(from); i++) {
        const gguf_tensor *t = gguf_tensor_at(from, i);
        if (!dropped(t, c)) gguf_put_tensor(w, t->name, type_of(t, c), t->n_dims, t->dims);
    }
    if (c->add_tensor) gguf_put_tensor(w, c->add_tensor, QUANT_F32, 1, &vector_n);
    assert_ok(gguf_begin_data(w));
    for (size_t i = 0; i < gguf_n_tensors(from); i++) {
        const gguf_tensor *t = gguf_tensor_at(from, i);
        if (dropped(t, c)) continue;
        uint64_t row, n = t->bytes;
        if (type_of(t, c) != t->type) {
            assert_true(quant_row_bytes(c->type, t->dims[0], &row));
            n = row * t->dims[1];
        }
        assert_true(n <= sizeof data);
        assert_ok(gguf_put_data(w, type_of(t, c) != t->type ? data : gguf_tensor_map(from, t), n));
    }
    if (c->add_tensor) assert_ok(gguf_put_data(w, data, 64 * sizeof(float)));
    assert_ok(gguf_writer_commit(w));
    gguf_close(from);
    return path;
}

// Opens the changed file: the status, and the message must hold both words.
static void expect(const char *source, change c, pm_status expected, const char *word,
                   const char *other)
{
    const char *path = write_changed(source, &c);
    model *m;
    model_options options = {0};
    pm_status status = model_open(path, &options, &m);
    if (status != expected)
        fail_msg("expected status %d with '%s', got %d: %s", expected, word ? word : "", status,
                 error_message());
    if (word && !strstr(error_message(), word)) fail_msg("no '%s' in: %s", word, error_message());
    if (other && !strstr(error_message(), other))
        fail_msg("no '%s' in: %s", other, error_message());
    model_close(m);
}

static const char llama[] = "golden/llama-rope3.f32.gguf";
static const char smollm3[] = "golden/smollm3-q4_k_m.gguf";

static void unchanged_copy_opens(void **state)
{
    (void)state;
    expect(llama, (change){0}, PM_OK, NULL, NULL);
}

// R32: number, name and the supported list.
static void r32_missing_format_is_named(void **state)
{
    (void)state;
    expect(smollm3, (change){.retype = "blk.1.ffn_up.weight", .type = 15}, PM_ERROR_FILE, "Q8_K",
           "Q4_K");
}

static void unknown_architecture_lists_the_known(void **state)
{
    (void)state;
    expect(llama, (change){.key = "general.architecture", .text = "mamba"}, PM_ERROR_FILE, "mamba",
           "smollm3");
    expect(llama, (change){.drop_key = "general.architecture"}, PM_ERROR_FILE,
           "general.architecture", NULL);
}

// R34's refusals; that known kinds are applied is what the golden models with scaling show.
static void r34_unknown_rope_scaling_is_refused(void **state)
{
    (void)state;
    expect(llama, (change){.key = "llama.rope.scaling.type", .text = "dynamic"}, PM_ERROR_FILE,
           "dynamic", "yarn");
    expect(llama, (change){.key = "llama.rope.scaling.type", .text = "longrope"}, PM_ERROR_FILE,
           "longrope", NULL);
}

static void mixture_of_experts_is_named(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "llama.expert_count",        "llama.expert_used_count",
        "llama.expert_shared_count", "llama.leading_dense_block_count",
        "llama.expert_gating_func",  "llama.expert_feed_forward_length"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        expect(llama, (change){.key = keys[i], .number = 8}, PM_ERROR_FILE, "mixture-of-experts",
               keys[i]);
        expect(llama, (change){.key = keys[i], .number = 0}, PM_OK, NULL, NULL);
    }
    // architectures that have experts in their name
    expect(llama, (change){.key = "general.architecture", .text = "qwen3moe"}, PM_ERROR_FILE,
           "qwen3moe", "supported");
}

// With the value that changes nothing a file runs, with any other it is refused by the key's name.
static void properties_that_change_results_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        double neutral, other;
    } keys[] = {{"logit_scale", 1, 0.5},
                {"residual_scale", 1, 0.25},
                {"embedding_scale", 1, 12},
                {"attention.clamp_kqv", 0, 8},
                {"attention.max_alibi_bias", 0, 8},
                {"attention.causal", 1, 0},
                {"attention.key_length_mla", 0, 192},
                {"attention.value_length_mla", 0, 128},
                {"attention.shared_kv_layers", 0, 2},
                {"attention.temperature_scale", 0, 0.1},
                {"rope.scaling.yarn_log_multiplier", 0, 0.1},
                {"nextn_predict_layers", 0, 1},
                {"attention.key_length_swa", 32, 64},
                {"attention.value_length_swa", 32, 64},
                {"rope.dimension_count_swa", 32, 16}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char key[64];
        snprintf(key, sizeof key, "llama.%s", keys[i].key);
        expect(llama, (change){.key = key, .number = keys[i].neutral}, PM_OK, NULL, NULL);
        expect(llama, (change){.key = key, .number = keys[i].other}, PM_ERROR_FILE, key,
               "supported");
        expect(llama, (change){.key = key, .text = "text"}, PM_ERROR_FILE, key, "'text'");
    }
    expect(llama, (change){.key = "llama.attention.sliding_window", .number = 16}, PM_ERROR_FILE,
           "sliding_window", NULL);
    expect(llama, (change){.key = "llama.rope.freq_base_swa", .number = 5000}, PM_ERROR_FILE,
           "freq_base_swa", "not supported");
    expect(llama, (change){.add_tensor = "blk.0.attn_sinks.weight"}, PM_ERROR_FILE, "attn_sinks",
           "llama");
}

// A property of the architecture that nobody here has heard of may change results: its name, its
// value and the list of those that are supported. What does not belong to it changes nothing.
static void unknown_properties_are_never_ignored(void **state)
{
    (void)state;
    expect(llama, (change){.key = "llama.rope.global.freq_base", .number = 1e6}, PM_ERROR_FILE,
           "'llama.rope.global.freq_base' is 1e+06", "rope.freq_base,");
    expect(llama, (change){.key = "llama.attention.novelty", .text = "on"}, PM_ERROR_FILE,
           "'llama.attention.novelty' is 'on'", "supported: block_count");
    expect(llama, (change){.key = "llama.swiglu_clamp", .number = 0}, PM_ERROR_FILE, "swiglu_clamp",
           NULL);
    expect(llama, (change){.key = "general.novelty", .text = "on"}, PM_OK, NULL, NULL);
    expect(llama, (change){.key = "llama2.novelty", .text = "on"}, PM_OK, NULL, NULL);
    expect(llama, (change){.key = "llama.tensor_data_layout", .text = "x"}, PM_OK, NULL, NULL);
    expect(llama, (change){.key = "llama.vocab_size", .number = 77}, PM_OK, NULL, NULL);
}

// R35: documented defaults; a missing tensor is not a cut file.
static void r35_defaults_and_missing_tensors(void **state)
{
    (void)state;
    expect(llama, (change){.drop_key = "llama.rope.dimension_count"}, PM_OK, NULL, NULL);
    expect(llama, (change){.drop_key = "llama.rope.freq_base"}, PM_OK, NULL, NULL);
    // heads = KV heads where the key is missing: the tensors' shapes then disagree
    expect(llama, (change){.drop_key = "llama.attention.head_count_kv"}, PM_ERROR_FILE,
           "blk.0.attn_k.weight", "expected");
    expect(llama, (change){.drop_tensor = "blk.2.ffn_up.weight"}, PM_ERROR_FILE,
           "tensor 'blk.2.ffn_up.weight' is missing", NULL);
    expect(llama, (change){.drop_key = "llama.block_count"}, PM_ERROR_FILE, "llama.block_count",
           "missing");
}

static void nonsense_numbers_are_refused(void **state)
{
    (void)state;
    expect(llama, (change){.key = "llama.block_count", .number = 0}, PM_ERROR_FILE, "block_count",
           "expected");
    expect(llama, (change){.key = "llama.block_count", .number = 4e9}, PM_ERROR_FILE, "block_count",
           NULL);
    expect(llama, (change){.key = "llama.block_count", .number = 5}, PM_ERROR_FILE, "blk.4.",
           "missing");
    expect(llama, (change){.key = "llama.attention.head_count_kv", .number = 3}, PM_ERROR_FILE,
           "key-value heads", NULL);
    expect(llama, (change){.key = "llama.rope.dimension_count", .number = 33}, PM_ERROR_FILE,
           "RoPE", NULL);
    expect(llama, (change){.key = "llama.rope.freq_base", .number = -1.5}, PM_ERROR_FILE,
           "positive", NULL);
    expect(llama, (change){.key = "llama.rope.freq_base", .text = "x"}, PM_ERROR_FILE, "freq_base",
           NULL);
    expect(llama, (change){.key = "llama.attention.value_length", .number = 16}, PM_ERROR_FILE,
           "not supported", NULL);
    expect(llama, (change){.key = "llama.embedding_length", .number = 32}, PM_ERROR_FILE,
           "expected", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unchanged_copy_opens),
        cmocka_unit_test(r32_missing_format_is_named),
        cmocka_unit_test(unknown_architecture_lists_the_known),
        cmocka_unit_test(r34_unknown_rope_scaling_is_refused),
        cmocka_unit_test(mixture_of_experts_is_named),
        cmocka_unit_test(properties_that_change_results_are_refused),
        cmocka_unit_test(unknown_properties_are_never_ignored),
        cmocka_unit_test(r35_defaults_and_missing_tensors),
        cmocka_unit_test(nonsense_numbers_are_refused),
    };
    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
