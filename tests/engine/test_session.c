// Sessions on both executors: golden logits, splits, rewinding, segments, failures.
#include "support/test.h"

#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "engine/session.h"
#include "support/open.h"

static const char *const model_name = "llama-untied.f32";

typedef struct fixture {
    pm_options *options;
    pm_model *model;
    json_t *golden;
    int32_t *ids; // the golden prompt of 70 tokens
    size_t n;
    size_t n_vocab;
} fixture;

static const char *device; // of the running group

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->options = test_options("device", device, "act", "f32", "kv-type", "f32", NULL);
    f->model = test_golden(model_name, f->options);
    f->golden = test_golden_json(model_name);
    f->ids = test_prompt_ids(f->golden, 1, &f->n);
    f->n_vocab = (size_t)pm_model_n_vocab(f->model);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    pm_model_close(f->model);
    pm_options_destroy(f->options);
    json_decref(f->golden);
    free(f->ids);
    free(f);
    return 0;
}

// Logits of the last position after `n` ids in a fresh session; released with free.
static float *fresh_logits(const fixture *f, const int32_t *ids, size_t n)
{
    pm_session *s = test_session(f->model, f->options);
    assert_ok(pm_session_eval(s, ids, n, 0));
    float *logits = malloc(f->n_vocab * sizeof *logits);
    memcpy(logits, pm_session_logits(s, 0), f->n_vocab * sizeof *logits);
    pm_session_destroy(s);
    return logits;
}

static void same_bits(const float *a, const float *b, size_t n)
{
    assert_non_null(a);
    assert_non_null(b);
    assert_memory_equal(a, b, n * sizeof *a);
}

static void golden_logits_and_hidden_states(void **state)
{
    fixture *f = *state;
    const json_t *p = json_array_get(json_object_get(f->golden, "prompts"), 1);
    const json_t *expected = json_object_get(p, "last_logits");
    const json_t *hidden = json_object_get(p, "hidden_last");
    double limit = strcmp(device, "reference") ? 1e-3 : 1e-4; // golden/README.md's
    pm_session *s = test_session(f->model, f->options);
    assert_null(pm_session_logits(s, 0));
    pm_session_keep_hidden(s, 1);
    assert_ok(pm_session_eval(s, f->ids, f->n, 0));
    assert_int_equal(pm_session_n_past(s), f->n);
    assert_memory_equal(pm_session_tokens(s), f->ids, f->n * sizeof *f->ids);
    const float *logits = pm_session_logits(s, 0);
    assert_null(pm_session_logits(s, 1));
    for (size_t i = 0; i < f->n_vocab; i++) {
        assert_true(fabs((double)logits[i] - json_number_value(json_array_get(expected, i))) <
                    1e-4);
    }
    for (int layer = -1; layer < pm_model_n_layer(f->model); layer++) {
        const json_t *h = layer < 0
                              ? json_object_get(hidden, "embd")
                              : json_array_get(json_object_get(hidden, "layers"), (size_t)layer);
        const json_t *first = json_object_get(h, "first16");
        const float *x = pm_session_hidden(s, layer);
        assert_int_equal(json_array_size(first), 16);
        for (size_t i = 0; i < 16; i++) {
            assert_true(fabs((double)x[i] - json_number_value(json_array_get(first, i))) < limit);
        }
    }
    assert_null(pm_session_hidden(s, pm_model_n_layer(f->model)));
    assert_null(pm_session_hidden(s, -2));
    pm_session_destroy(s);
}

// Any --batch, any split over calls, all logits or the last ones: the same bits.
static void every_split_gives_the_same_bits(void **state)
{
    fixture *f = *state;
    pm_session *whole = test_session(f->model, f->options);
    assert_ok(pm_session_eval(whole, f->ids, f->n, 1));
    static const char *const batches[] = {"1", "2", "7", "16", "17", "69", "70", "512"};
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
        assert_ok(pm_options_set(f->options, "batch", batches[b]));
        pm_session *s = test_session(f->model, f->options);
        assert_ok(pm_session_eval(s, f->ids, f->n, 1));
        for (size_t i = 0; i < f->n; i++) {
            same_bits(pm_session_logits(s, i), pm_session_logits(whole, i), f->n_vocab);
        }
        assert_ok(pm_session_rewind(s, 0));
        assert_null(pm_session_logits(s, 0));
        for (size_t i = 0; i < f->n; i += 13) {
            size_t n = f->n - i < 13 ? f->n - i : 13;
            assert_ok(pm_session_eval(s, f->ids + i, n, 0));
            same_bits(pm_session_logits(s, 0), pm_session_logits(whole, i + n - 1), f->n_vocab);
            assert_null(pm_session_logits(s, 1));
        }
        pm_session_destroy(s);
    }
    assert_ok(pm_options_set(f->options, "batch", NULL));
    pm_session_destroy(whole);
}

static void r40_rewind_equals_a_fresh_run(void **state)
{
    fixture *f = *state;
    pm_session *s = test_session(f->model, f->options);
    assert_ok(pm_session_eval(s, f->ids, f->n, 0));
    int32_t other[20];
    for (int i = 0; i < 20; i++) other[i] = 100 + 3 * i;
    int32_t joined[30 + 20];
    memcpy(joined, f->ids, 30 * sizeof *joined);
    memcpy(joined + 30, other, sizeof other);
    assert_ok(pm_session_rewind(s, 30));
    assert_ok(pm_session_eval(s, other, 20, 0));
    float *fresh = fresh_logits(f, joined, 50);
    same_bits(pm_session_logits(s, 0), fresh, f->n_vocab);
    free(fresh);
    assert_int_equal(pm_session_rewind(s, 51), PM_ERROR_USAGE);
    assert_int_equal(pm_session_rewind(s, -1), PM_ERROR_USAGE);
    assert_int_equal(pm_session_n_past(s), 50);
    pm_session_destroy(s);
}

// The longest common prefix is kept, and at least one token is left to evaluate.
static void reuse_keeps_the_common_prefix(void **state)
{
    fixture *f = *state;
    model *m = NULL;
    char file[64];
    snprintf(file, sizeof file, "golden/%s.gguf", model_name);
    assert_ok(model_open(test_data(file), &(model_options){0}, &m));
    weights_part part = {
        .kind = &exec_reference, .params = {.n_threads = 1}, .end_layer = m->n_layer};
    weights *w = NULL;
    session *s = NULL;
    assert_ok(weights_load(m, &part, 1, &w));
    plan_options o = {.n_ctx = 128, .n_slots = 1, .n_batch = 64, .kv_type = QUANT_F32};
    assert_ok(session_open(w, &o, &s));
    assert_int_equal(session_reuse(s, f->ids, 10), 0);
    assert_ok(session_eval(s, f->ids, 10, false));
    assert_int_equal(session_reuse(s, f->ids, 20), 10);
    assert_int_equal(session_reuse(s, f->ids, 10), 9);
    assert_int_equal(session_n_past(s), 9);
    int32_t changed[12];
    memcpy(changed, f->ids, sizeof changed);
    changed[4]++;
    assert_int_equal(session_reuse(s, changed, 12), 4);
    assert_int_equal(session_n_past(s), 4);
    session_close(s);
    weights_unload(w);
    model_close(m);
}

// The layers in two and three parts: only residual rows cross, the bits stay.
static void segments_give_the_same_bits(void **state)
{
    (void)state;
    json_t *golden = test_golden_json("smollm3-tied.f32");
    size_t n;
    int32_t *ids = test_prompt_ids(golden, 0, &n);
    model *m = NULL;
    assert_ok(model_open(test_data("golden/smollm3-tied.f32.gguf"), &(model_options){0}, &m));
    weights_part one[] = {
        {.kind = &exec_reference, .params = {.n_threads = 1}, .end_layer = m->n_layer}};
    weights_part two[] = {{.kind = &exec_reference, .params = {.n_threads = 1}, .end_layer = 2},
                          {.kind = &exec_reference,
                           .params = {.n_threads = 1},
                           .first_layer = 2,
                           .end_layer = m->n_layer}};
    weights_part three[] = {
        {.kind = &exec_reference, .params = {.n_threads = 1}, .end_layer = 1},
        {.kind = &exec_reference, .params = {.n_threads = 1}, .first_layer = 1, .end_layer = 4},
        {.kind = &exec_reference,
         .params = {.n_threads = 1},
         .first_layer = 4,
         .end_layer = m->n_layer}};
    // the first layers on another executor: close, not equal
    weights_part mixed[] = {{.kind = &exec_cpu, .params = {.n_threads = 2}, .end_layer = 3},
                            {.kind = &exec_reference,
                             .params = {.n_threads = 1},
                             .first_layer = 3,
                             .end_layer = m->n_layer}};
    const weights_part *splits[] = {one, two, three, mixed};
    static const uint32_t n_parts[] = {1, 2, 3, 2};
    plan_options o = {.n_ctx = 64, .n_slots = 1, .n_batch = 8, .kv_type = QUANT_F16};
    weights *w[4];
    session *s[4];
    for (uint32_t i = 0; i < 4; i++) {
        assert_ok(weights_load(m, splits[i], n_parts[i], &w[i]));
        assert_ok(session_open(w[i], &o, &s[i]));
        session_keep_hidden(s[i], true);
        assert_ok(session_eval(s[i], ids, 20, false));
        assert_ok(session_eval(s[i], ids + 20, 1, false));
        const float *logits = session_logits(s[i], 0), *whole = session_logits(s[0], 0);
        for (uint32_t k = 0; splits[i] == mixed && k < m->n_vocab; k++) {
            assert_true(fabsf(logits[k] - whole[k]) < 1e-3f);
        }
        if (splits[i] == mixed) continue;
        same_bits(logits, whole, m->n_vocab);
        for (int layer = -1; layer < (int)m->n_layer; layer++) {
            same_bits(session_hidden(s[i], layer), session_hidden(s[0], layer), m->n_embd);
        }
    }
    for (uint32_t i = 0; i < 4; i++) {
        session_close(s[i]);
        weights_unload(w[i]);
    }
    model_close(m);
    free(ids);
    json_decref(golden);
}

static void wrong_use_changes_nothing(void **state)
{
    fixture *f = *state;
    assert_ok(pm_options_set(f->options, "ctx", "40"));
    pm_session *s = test_session(f->model, f->options);
    assert_int_equal(pm_session_n_ctx(s), 40);
    assert_ok(pm_session_eval(s, f->ids, 30, 0));
    assert_int_equal(pm_session_eval(s, f->ids, 11, 0), PM_ERROR_USAGE);
    assert_non_null(strstr(pm_last_error(), "11"));
    assert_non_null(strstr(pm_last_error(), "40"));
    int32_t bad[] = {3, (int32_t)f->n_vocab, -1};
    assert_int_equal(pm_session_eval(s, bad, 2, 0), PM_ERROR_USAGE);
    assert_int_equal(pm_session_eval(s, bad + 2, 1, 0), PM_ERROR_USAGE);
    assert_int_equal(pm_session_n_past(s), 30);
    assert_ok(pm_session_eval(s, f->ids + 30, 10, 0));
    float *fresh = fresh_logits(f, f->ids, 40);
    same_bits(pm_session_logits(s, 0), fresh, f->n_vocab);
    free(fresh);
    assert_ok(pm_session_eval(s, f->ids, 0, 0));
    assert_int_equal(pm_session_eval(s, f->ids, 1, 0), PM_ERROR_USAGE);
    pm_session_destroy(s);
    assert_ok(pm_options_set(f->options, "ctx", NULL));
}

static void interrupt_ends_an_eval(void **state)
{
    fixture *f = *state;
    pm_session *s = test_session(f->model, f->options);
    assert_ok(pm_session_eval(s, f->ids, 5, 0));
    pm_session_interrupt(s);
    assert_int_equal(pm_session_eval(s, f->ids + 5, 20, 0), PM_ERROR_RUN);
    assert_non_null(strstr(pm_last_error(), "interrupted"));
    assert_int_equal(pm_session_n_past(s), 5);
    assert_null(pm_session_logits(s, 0));
    assert_ok(pm_session_eval(s, f->ids + 5, 20, 0)); // it was cleared
    float *fresh = fresh_logits(f, f->ids, 25);
    same_bits(pm_session_logits(s, 0), fresh, f->n_vocab);
    free(fresh);
    pm_session_destroy(s);
}

static void *interrupt_soon(void *arg)
{
    usleep(20000);
    pm_session_interrupt(arg);
    return NULL;
}

static void interrupt_from_another_thread(void **state)
{
    fixture *f = *state;
    assert_ok(pm_options_set(f->options, "batch", "1"));
    assert_ok(pm_options_set(f->options, "ctx", "100000"));
    pm_session *s = test_session(f->model, f->options);
    enum { LONG = 100000 }; // minutes, unless it is interrupted
    int32_t *ids = malloc(LONG * sizeof *ids);
    for (int i = 0; i < LONG; i++) ids[i] = i % 400;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, s), 0);
    assert_int_equal(pm_session_eval(s, ids, LONG, 0), PM_ERROR_RUN);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pm_session_n_past(s), 0);
    free(ids);
    pm_session_destroy(s);
    assert_ok(pm_options_set(f->options, "batch", NULL));
    assert_ok(pm_options_set(f->options, "ctx", NULL));
}

// A copy of the model whose embedding of one token is NaN.
static const char *model_with_nan(int32_t token)
{
    size_t n;
    char name[64];
    snprintf(name, sizeof name, "golden/%s.gguf", model_name);
    char *file = test_read(test_data(name), &n);
    gguf *g = NULL;
    assert_ok(gguf_open_memory(file, n, &g));
    const gguf_tensor *t = gguf_find_tensor(g, "token_embd.weight");
    assert_int_equal(t->type, QUANT_F32);
    size_t at = (size_t)(gguf_data_offset(g, 0) + t->offset) + (size_t)token * t->dims[0] * 4;
    float nan = NAN;
    memcpy(file + at, &nan, sizeof nan);
    gguf_close(g);
    const char *path = test_temp("nan.gguf");
    test_write(path, file, n);
    free(file);
    return path;
}

static void r47_nan_names_the_position_and_is_dropped(void **state)
{
    fixture *f = *state;
    int32_t poison = 77;
    pm_model *m = NULL;
    assert_ok(pm_model_open(model_with_nan(poison), f->options, &m));
    pm_session *s = test_session(m, f->options);
    int32_t ids[12];
    memcpy(ids, f->ids, sizeof ids);
    for (int i = 0; i < 12; i++) assert_int_not_equal(ids[i], poison);
    assert_ok(pm_session_eval(s, ids, 6, 0));
    assert_int_equal(pm_session_eval(s, &poison, 1, 0), PM_ERROR_RUN);
    assert_non_null(strstr(pm_last_error(), "position 6"));
    assert_non_null(strstr(pm_last_error(), "NaN"));
    assert_int_equal(pm_session_n_past(s), 6);
    assert_null(pm_session_logits(s, 0));
    // the next request is right
    assert_ok(pm_session_eval(s, ids + 6, 6, 0));
    float *fresh = fresh_logits(f, ids, 12);
    same_bits(pm_session_logits(s, 0), fresh, f->n_vocab);
    free(fresh);
    pm_session_destroy(s);
    pm_model_close(m);
}

// The same in the middle of an answer: the error names the step, the answer so far stays, and so
// does what the cache held before it.
static void r47_nan_ends_a_generation(void **state)
{
    fixture *f = *state;
    const int32_t poison = 77;
    pm_model *m = NULL;
    assert_ok(pm_model_open(model_with_nan(poison), f->options, &m));
    pm_session *s = test_session(m, f->options);
    pm_options *o = pm_options_create();
    assert_ok(pm_options_set(o, "logit-bias", "77:1000")); // the first token that is drawn
    for (int warm = 0; warm < 2; warm++) {                 // greedy, and drawn from all logits
        assert_ok(pm_options_set(o, "temp", warm ? "1" : "0"));
        pm_generation *g = NULL;
        const char *text;
        size_t n;
        int done = 1;
        assert_ok(pm_generation_start(s, o, f->ids, 6, &g));
        assert_ok(pm_generation_next(g, &text, &n, &done));
        assert_false(done);
        assert_int_equal(pm_generation_next(g, &text, &n, &done), PM_ERROR_RUN);
        assert_non_null(strstr(pm_last_error(), "position 6"));
        assert_non_null(strstr(pm_last_error(), "NaN"));
        assert_int_equal(pm_session_n_past(s), 6);
        char *json = NULL;
        assert_ok(pm_generation_json(g, &json));
        json_t *all = json_loads(json, 0, NULL);
        assert_int_equal(json_array_size(json_object_get(all, "tokens")), 1);
        json_decref(all);
        pm_free(json);
        pm_generation_destroy(g);
    }
    // the next request is right
    assert_ok(pm_session_eval(s, f->ids + 6, 6, 0));
    float *fresh = fresh_logits(f, f->ids, 12);
    same_bits(pm_session_logits(s, 0), fresh, f->n_vocab);
    free(fresh);
    pm_options_destroy(o);
    pm_session_destroy(s);
    pm_model_close(m);
}

// The context is modest by default, and its bytes are what its parts add up to.
static void r13_context_and_its_bytes(void **state)
{
    fixture *f = *state;
    const json_t *config = json_object_get(f->golden, "config");
    uint64_t layers = (uint64_t)json_integer_value(json_object_get(config, "num_hidden_layers"));
    uint64_t heads = (uint64_t)json_integer_value(json_object_get(config, "num_key_value_heads"));
    uint64_t dim = (uint64_t)json_integer_value(json_object_get(config, "head_dim"));
    uint64_t trained =
        (uint64_t)json_integer_value(json_object_get(config, "max_position_embeddings"));
    const struct {
        const char *ctx, *type;
        uint64_t bytes;
    } cases[] = {{NULL, NULL, strcmp(device, "reference") ? 2 : 4},
                 {"max", "f16", 2},
                 {"1000", "f32", 4},
                 {"1", "f16", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ok(pm_options_set(f->options, "ctx", cases[i].ctx));
        assert_ok(pm_options_set(f->options, "kv-type", cases[i].type));
        pm_session *s = test_session(f->model, f->options);
        uint64_t n_ctx = trained < 4096 ? trained : 4096;
        if (cases[i].ctx && strcmp(cases[i].ctx, "max") != 0)
            n_ctx = strtoull(cases[i].ctx, NULL, 10);
        assert_int_equal(pm_session_n_ctx(s), n_ctx);
        assert_int_equal(pm_session_kv_bytes(s), 2 * layers * heads * dim * n_ctx * cases[i].bytes);
        pm_session_destroy(s);
    }
    assert_ok(pm_options_set(f->options, "ctx", NULL));
    // heads of 20 dimensions have no whole blocks of q8_0
    assert_ok(pm_options_set(f->options, "kv-type", "q8_0"));
    pm_session *s = NULL;
    assert_int_equal(pm_session_create(f->model, f->options, &s), PM_ERROR_USAGE);
    assert_null(s);
    assert_ok(pm_options_set(f->options, "kv-type", "f32"));
}

static void r33_without_mapping_the_same(void **state)
{
    fixture *f = *state;
    pm_options *o =
        test_options("device", device, "act", "f32", "kv-type", "f32", "no-mmap", "true", NULL);
    pm_model *m = test_golden(model_name, o);
    pm_session *s = test_session(m, o);
    assert_ok(pm_session_eval(s, f->ids, f->n, 0));
    float *fresh = fresh_logits(f, f->ids, f->n);
    same_bits(pm_session_logits(s, 0), fresh, f->n_vocab);
    free(fresh);
    pm_session_destroy(s);
    pm_model_close(m);
    pm_options_destroy(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_logits_and_hidden_states),
        cmocka_unit_test(every_split_gives_the_same_bits),
        cmocka_unit_test(r40_rewind_equals_a_fresh_run),
        cmocka_unit_test(reuse_keeps_the_common_prefix),
        cmocka_unit_test(segments_give_the_same_bits),
        cmocka_unit_test(wrong_use_changes_nothing),
        cmocka_unit_test(interrupt_ends_an_eval),
        cmocka_unit_test(interrupt_from_another_thread),
        cmocka_unit_test(r47_nan_names_the_position_and_is_dropped),
        cmocka_unit_test(r47_nan_ends_a_generation),
        cmocka_unit_test(r13_context_and_its_bytes),
        cmocka_unit_test(r33_without_mapping_the_same),
    };
    device = "reference";
    int failed = cmocka_run_group_tests_name("reference", tests, setup, teardown);
    device = "cpu";
    return failed + cmocka_run_group_tests_name("cpu", tests, setup, teardown);
}
