// What info, devices, bench and plan say, and the small functions around tokens and time.
#include "support/test.h"

#include <math.h>

#include "gguf/gguf.h"
#include "proof/bench.h"
#include "support/open.h"

static json_t *parse(char *text)
{
    json_t *o = json_loads(text, JSON_ALLOW_NUL, NULL);
    assert_non_null(o);
    pm_free(text);
    return o;
}

static json_t *info_of(const char *path, const pm_options *o, int full)
{
    char *text = NULL;
    assert_ok(pm_info(path, o, full, &text));
    return parse(text);
}

static json_int_t whole(const json_t *o, const char *key)
{
    assert_true(json_is_integer(json_object_get(o, key)));
    return json_integer_value(json_object_get(o, key));
}

static const char *word(const json_t *o, const char *key)
{
    assert_true(json_is_string(json_object_get(o, key)));
    return json_string_value(json_object_get(o, key));
}

static void r31_a_golden_model(void **state)
{
    (void)state;
    json_t *o = info_of(test_data("golden/llama-tied.q8_0.gguf"), NULL, 0);
    assert_int_equal(whole(o, "version"), 3);
    assert_string_equal(word(o, "architecture"), "llama");
    assert_true(json_is_true(json_object_get(o, "supported")));
    assert_true(json_is_null(json_object_get(o, "unsupported_reason")));
    assert_string_equal(word(o, "pre_tokenizer"), "smollm");
    const json_t *ends = json_object_get(o, "end_tokens"); // <|endoftext|> and <|im_end|>
    assert_int_equal(json_array_size(ends), 2);
    assert_int_equal(json_integer_value(json_array_get(ends, 0)), 0);
    assert_int_equal(json_integer_value(json_array_get(ends, 1)), 2);
    const json_t *context = json_object_get(o, "context");
    assert_int_equal(whole(context, "n_ctx"), 512);
    assert_int_equal(whole(context, "kv_bytes"), 2 * 4 * 512 * 2 * 16 * 2);
    // the table: every tensor, and the parameters are the sum of their shapes
    const json_t *tensors = json_object_get(o, "tensors"), *t;
    json_int_t sum = 0;
    size_t i, k;
    json_array_foreach(tensors, i, t)
    {
        json_int_t n = 1;
        const json_t *d;
        json_array_foreach(json_object_get(t, "shape"), k, d) n *= json_integer_value(d);
        sum += n;
        assert_true(whole(t, "bytes") > 0 && whole(t, "offset") % 32 == 0);
        bool matrix = json_array_size(json_object_get(t, "shape")) == 2;
        assert_string_equal(word(t, "type"), matrix ? "Q8_0" : "F32");
    }
    assert_int_equal(whole(o, "parameters"), sum);
    assert_int_equal(i, 1 + 1 + 4 * 9);
    // long arrays are shortened unless `full`
    const json_t *metadata = json_object_get(o, "metadata");
    const json_t *tokens = json_object_get(metadata, "tokenizer.ggml.tokens");
    assert_int_equal(whole(tokens, "n_items"), 426);
    assert_string_equal(word(metadata, "general.architecture"), "llama");
    assert_true(json_is_false(json_object_get(metadata, "tokenizer.ggml.add_bos_token")));
    json_decref(o);
    o = info_of(test_data("golden/llama-tied.q8_0.gguf"), NULL, 1);
    tokens = json_object_get(json_object_get(o, "metadata"), "tokenizer.ggml.tokens");
    assert_int_equal(json_array_size(tokens), 426);
    json_decref(o);
    pm_options *ctx = test_options("ctx", "100", "kv-type", "f32", NULL);
    o = info_of(test_data("golden/llama-tied.q8_0.gguf"), ctx, 0);
    assert_int_equal(whole(json_object_get(o, "context"), "n_ctx"), 100);
    assert_int_equal(whole(json_object_get(o, "context"), "kv_bytes"), 2 * 4 * 100 * 2 * 16 * 4);
    json_decref(o);
    pm_options_destroy(ctx);
}

static void an_unknown_architecture(void **state)
{
    (void)state;
    const char *path = test_temp("unknown.gguf");
    gguf_writer *w = NULL;
    assert_ok(gguf_writer_open(path, &w));
    gguf_put_string(w, "general.architecture", "quux", 4);
    gguf_put_string(w, "bad \xff key", "bad \xff value", 11);
    gguf_put_u64(w, "large", UINT64_MAX);
    gguf_put_f32(w, "not.a.number", NAN);
    gguf_put_f32(w, "tenth", 0.1f);
    uint64_t dims[2] = {32, 3};
    float values[96] = {0};
    gguf_put_tensor(w, "some.weight", 0, 2, dims);
    assert_ok(gguf_begin_data(w));
    assert_ok(gguf_put_data(w, values, sizeof values));
    assert_ok(gguf_writer_commit(w));
    json_t *o = info_of(path, NULL, 0);
    assert_true(json_is_false(json_object_get(o, "supported")));
    assert_non_null(strstr(word(o, "unsupported_reason"), "quux"));
    assert_string_equal(word(o, "architecture"), "quux");
    assert_int_equal(whole(o, "parameters"), 96);
    assert_true(json_is_null(json_object_get(o, "context")));
    assert_true(json_is_null(json_object_get(o, "pre_tokenizer")));
    assert_int_equal(json_array_size(json_object_get(o, "end_tokens")), 0);
    const json_t *m = json_object_get(o, "metadata");
    assert_true(json_is_null(json_object_get(m, "not.a.number")));
    assert_true(json_real_value(json_object_get(m, "tenth")) == (double)0.1f); // unrounded
    assert_true(json_number_value(json_object_get(m, "large")) == 0x1p64);
    json_decref(o);
    pm_model *m2 = NULL;
    assert_int_equal(pm_model_open(path, NULL, &m2), PM_ERROR_FILE);
}

static void files_that_are_none(void **state)
{
    (void)state;
    char *text = NULL;
    const char *html = test_temp("page.gguf");
    test_write(html, "<!DOCTYPE html><html></html>", 28);
    assert_int_equal(pm_info(html, NULL, 0, &text), PM_ERROR_FILE);
    assert_int_equal(pm_info(test_temp("missing.gguf"), NULL, 0, &text), PM_ERROR_FILE);
    assert_int_equal(pm_info("/", NULL, 0, &text), PM_ERROR_FILE);
    assert_null(text);
    // tokens only: well-formed, no model
    json_t *o = info_of(test_data("vocab/smollm3.gguf"), NULL, 0);
    assert_string_equal(word(o, "pre_tokenizer"), "smaug-bpe");
    assert_true(json_is_false(json_object_get(o, "supported")));
    json_decref(o);
}

// Vulkan devices, where there are any, come before it.
static const json_t *cpu_of(const json_t *document)
{
    const json_t *list = json_object_get(document, "devices");
    assert_true(json_array_size(list) >= 1);
    return json_array_get(list, json_array_size(list) - 1);
}

static void devices(void **state)
{
    (void)state;
    char *text = NULL;
    assert_ok(pm_devices(NULL, &text));
    json_t *o = parse(text);
    const json_t *cpu = cpu_of(o);
    assert_string_equal(word(cpu, "id"), "cpu");
    assert_string_equal(word(cpu, "type"), "cpu");
    assert_true(strlen(word(cpu, "name")) > 0);
    assert_true(whole(cpu, "memory_bytes") > 0);
    assert_true(whole(json_object_get(cpu, "limits"), "threads") >= 1);
    assert_null(json_object_get(cpu, "bandwidth_gbps"));
    json_decref(o);
    pm_options *measure = test_options("measure", "true", "threads", "1", NULL);
    assert_ok(pm_devices(measure, &text));
    o = parse(text);
    cpu = cpu_of(o);
    assert_true(json_number_value(json_object_get(cpu, "bandwidth_gbps")) > 0);
    json_decref(o);
    pm_options_destroy(measure);
}

static void devices_that_are_not_there(void **state)
{
    (void)state;
    static const char *const names[] = {"vulkan:7", "vulkan:no such card"};
    pm_options *o = pm_options_create();
    pm_model *m = NULL;
    for (size_t i = 0; i < 2; i++) {
        assert_ok(pm_options_set(o, "device", names[i]));
        assert_int_equal(pm_model_open(test_data("golden/llama-tied.f32.gguf"), o, &m),
                         PM_ERROR_DEVICE);
        assert_non_null(strstr(pm_last_error(), "Vulkan"));
    }
    assert_ok(pm_options_set(o, "device", "reference"));
    assert_ok(pm_options_set(o, "gpu-layers", "1"));
    assert_int_equal(pm_model_open(test_data("golden/llama-tied.f32.gguf"), o, &m), PM_ERROR_USAGE);
    assert_null(m);
    pm_options_destroy(o);
}

static void plans(void **state)
{
    (void)state;
    pm_options *o = test_options("device", "reference", "vocab-only", "false", NULL);
    pm_model *m = test_golden("llama-tied.f32", o);
    char *one = NULL, *many = NULL, *unfused = NULL;
    assert_ok(pm_model_plan(m, o, 1, &one));
    assert_ok(pm_model_plan(m, o, 512, &many));
    assert_ok(pm_options_set(o, "no-fuse", "true"));
    assert_ok(pm_model_plan(m, o, 1, &unfused));
    assert_non_null(strstr(one, "ATTEND"));
    assert_non_null(strstr(many, "ATTEND"));
    assert_true(strlen(unfused) > strlen(one));
    char *none = NULL;
    assert_int_equal(pm_model_plan(m, o, 0, &none), PM_ERROR_USAGE);
    assert_int_equal(pm_model_plan(m, o, 513, &none), PM_ERROR_USAGE);
    pm_free(one);
    pm_free(many);
    pm_free(unfused);
    pm_model_close(m);
    pm_options_destroy(o);
}

// ---- bench ------------------------------------------------------------------------------------

static void statistics(void **state)
{
    (void)state;
    static const double odd[] = {5, 1, 3}, even[] = {1, 2, 4, 9}, one[] = {7};
    bench_statistics s = bench_statistics_of(odd, 3);
    assert_true(s.median == 3 && fabs(s.mean - 3) < 1e-12 && fabs(s.sd - 2) < 1e-12);
    s = bench_statistics_of(even, 4);
    assert_true(s.median == 3 && fabs(s.mean - 4) < 1e-12 && fabs(s.sd - sqrt(38.0 / 3)) < 1e-12);
    s = bench_statistics_of(one, 1);
    assert_true(s.median == 7 && s.mean == 7 && s.sd == 0);
}

static void r59_bench(void **state)
{
    (void)state;
    pm_options *o = test_options("device", "reference", "prompt", "8,16", "gen", "4", "depth",
                                 "0,8", "repeat", "3", "seed", "1", "threads", "1", NULL);
    pm_model *m = test_golden("llama-tied.f32", o);
    char *text = NULL;
    assert_ok(pm_bench(m, o, &text));
    json_t *b = parse(text);
    const json_t *results = json_object_get(b, "results"), *r;
    assert_int_equal(json_array_size(results), 6);
    size_t i;
    json_array_foreach(results, i, r)
    {
        bool prompt = i % 3 < 2;
        assert_string_equal(word(r, "kind"), prompt ? "prompt" : "generate");
        assert_int_equal(whole(r, "n"), prompt ? (i % 3 ? 16 : 8) : 4);
        assert_int_equal(whole(r, "depth"), i < 3 ? 0 : 8);
        assert_string_equal(word(r, "status"), "ok");
        const json_t *samples = json_object_get(r, "samples_tps");
        assert_int_equal(json_array_size(samples), 3);
        double sum = 0;
        for (size_t k = 0; k < 3; k++) sum += json_number_value(json_array_get(samples, k));
        double mean = json_number_value(json_object_get(r, "mean_tps"));
        assert_true(fabs(mean - sum / 3) < 1e-9 * sum);
        assert_true(whole(r, "bytes_per_token") > 0);
        double gbps = json_number_value(json_object_get(r, "gbps"));
        double median = json_number_value(json_object_get(r, "median_tps"));
        assert_true(fabs(gbps - median * (double)whole(r, "bytes_per_token") * 1e-9) < 1e-9 * gbps);
        assert_int_equal(json_is_real(json_object_get(r, "first_token_s")), prompt);
    }
    // a generated token reads all weights: those of the file, once
    r = json_array_get(results, 2);
    assert_true(whole(r, "bytes_per_token") > 1200000 && whole(r, "bytes_per_token") < 1600000);
    const json_t *id = json_object_get(b, "model");
    assert_string_equal(word(id, "name"), "llama-tied");
    assert_string_equal(word(id, "type"), "F32");
    assert_int_equal(strlen(word(id, "sha256")), 64);
    assert_int_equal(whole(id, "parameters"), 324384);
    assert_string_equal(word(json_object_get(b, "device"), "id"), "reference");
    assert_int_equal(whole(b, "threads"), 1);
    assert_true(whole(b, "peak_rss_bytes") > 0);
    assert_true(json_number_value(json_object_get(b, "bandwidth_gbps")) > 0);
    json_decref(b);
    // what does not fit fails, the rest goes on
    assert_ok(pm_options_set(o, "ctx", "10"));
    assert_ok(pm_options_set(o, "depth", "0"));
    assert_int_equal(pm_bench(m, o, &text), PM_ERROR_RUN);
    assert_non_null(strstr(pm_last_error(), "1 of 3 configurations failed"));
    b = parse(text);
    results = json_object_get(b, "results");
    assert_string_equal(word(json_array_get(results, 0), "status"), "ok");
    r = json_array_get(results, 1);
    assert_string_equal(word(r, "status"), "failed");
    assert_non_null(strstr(word(r, "reason"), "16"));
    assert_true(json_is_null(json_object_get(r, "median_tps")));
    json_decref(b);
    assert_ok(pm_options_set(o, "prompt", "0"));
    assert_ok(pm_options_set(o, "gen", "0"));
    assert_int_equal(pm_bench(m, o, &text), PM_ERROR_USAGE);
    pm_model_close(m);
    pm_options_destroy(o);
}

// ---- tokens, time, templates ------------------------------------------------------------------

static void tokens(void **state)
{
    (void)state;
    pm_options *o = test_options("vocab-only", "true", NULL);
    pm_model *m = NULL;
    assert_ok(pm_model_open(test_data("vocab/llama3.gguf"), o, &m));
    assert_int_equal(pm_model_n_vocab(m), 128256);
    assert_int_equal(pm_token_bos(m), 128000);
    int32_t ids[8];
    size_t n;
    static const char text[] = "Hello<|eot_id|>";
    assert_ok(pm_tokenize(m, text, strlen(text), PM_TOKENS_SPECIAL | PM_TOKENS_BOS, ids, 8, &n));
    assert_int_equal(n, 3);
    assert_int_equal(ids[0], 128000);
    assert_int_equal(ids[2], 128009);
    assert_true(pm_token_is_end(m, 128009) && !pm_token_is_end(m, ids[1]));
    size_t plain;
    assert_ok(pm_tokenize(m, text, strlen(text), 0, NULL, 0, &plain)); // only the count
    assert_true(plain > 3);
    char *back;
    assert_ok(pm_detokenize(m, ids, 3, 1, &back, &n));
    assert_string_equal(back, "<|begin_of_text|>Hello<|eot_id|>");
    pm_free(back);
    assert_ok(pm_detokenize(m, ids, 3, 0, &back, &n));
    assert_string_equal(back, "Hello");
    pm_free(back);
    ids[0] = 128256;
    assert_int_equal(pm_detokenize(m, ids, 1, 0, &back, &n), PM_ERROR_USAGE);
    assert_null(pm_token_piece(m, 128256, 1, &n));
    assert_null(pm_token_piece(m, -1, 1, &n));
    assert_non_null(pm_token_piece(m, 128009, 0, &n));
    assert_int_equal(n, 0);
    pm_model_close(m);
    pm_options_destroy(o);
}

// Every function that takes a model, on one without weights: what needs them says so.
static void a_model_without_weights(void **state)
{
    (void)state;
    pm_options *o = test_options("vocab-only", "true", "first", "2", NULL);
    pm_model *m = NULL;
    assert_ok(pm_model_open(test_data("golden/llama-tied.q8_0.gguf"), o, &m));
    assert_int_equal(pm_model_n_warnings(m), 0);
    assert_null(pm_model_warning(m, 0));
    assert_null(pm_model_device_warning(m, 0));
    assert_non_null(pm_model_architecture(m));
    assert_non_null(pm_model_device(m));
    assert_non_null(pm_model_device_description(m));
    assert_non_null(pm_model_device_note(m));
    assert_true(pm_model_n_vocab(m) > 0 && pm_model_load_seconds(m) >= 0);
    assert_true(pm_model_n_layer(m) >= 0 && pm_model_n_embd(m) >= 0);
    assert_true(pm_model_n_ctx_train(m) >= 0);
    assert_int_equal(pm_model_weight_bytes(m), 0);
    assert_true(pm_token_eos(m) >= 0);
    size_t n;
    (void)pm_model_template(m, &n);
    pm_sampler *sampler = NULL;
    assert_ok(pm_sampler_create(m, o, &sampler));
    pm_sampler_destroy(sampler);
    char *text = NULL;
    assert_ok(pm_model_plan(m, o, 1, &text));
    pm_free(text);
    static const char *const words[] = {"a"};
    assert_ok(pm_inspect_embedding(m, o, words, 1, &text));
    pm_free(text);
    assert_ok(pm_inspect_weights(m, o, "output_norm", &text));
    pm_free(text);

    const int32_t ids[] = {1, 2, 3, 4};
    int32_t n_ctx;
    uint64_t kv_bytes;
    pm_session *none = NULL;
    pm_perplexity *run = NULL;
    const pm_status refused[] = {
        pm_session_create(m, o, &none),
        pm_session_size(m, o, &n_ctx, &kv_bytes),
        pm_inspect_attention(m, o, ids, 4, &text),
        pm_inspect_logits(m, o, ids, 4, &text),
        pm_inspect_trace(m, o, "a", 1, &text),
        pm_bench(m, o, &text),
        pm_check(m, o, &text),
        pm_check_bisect(m, o, &text),
        pm_perplexity_start(m, o, "a b c", 5, &run),
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_int_equal(refused[i], PM_ERROR_USAGE);
    assert_non_null(strstr(pm_last_error(), "vocab-only"));
    pm_model_close(m);
    pm_options_destroy(o);
}

static void times(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double now;
    } good[] = {{"1970-01-01T00:00:00", 0},          {"2025-07-08T09:05:03", 1751965503},
                {"2000-02-29T23:59:59", 951868799},  {"2024-02-29 12:00:00", 1709208000},
                {"2100-03-01T00:00:00", 4107542400}, {"1969-12-31T23:59:59", -1}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        double now = 0.5;
        assert_ok(pm_parse_time(good[i].text, &now));
        assert_true(now == good[i].now);
    }
    static const char *const bad[] = {"",
                                      "2025-07-08",
                                      "2025-07-08T09:05",
                                      "2025-13-08T09:05:03",
                                      "2025-02-29T09:05:03",
                                      "2025-00-01T09:05:03",
                                      "2025-07-08T24:05:03",
                                      "2025-07-08T09:60:03",
                                      "2025-07-08T09:05:03Z",
                                      "2025/07/08T09:05:03",
                                      "-025-07-08T09:05:03"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double now = 0.5;
        assert_int_equal(pm_parse_time(bad[i], &now), PM_ERROR_USAGE);
        assert_true(now == 0.5);
    }
    char *text;
    static const char source[] = "{{ strftime_now('%Y-%m-%d %H:%M') }} {{ x }}";
    assert_ok(pm_template_render(source, strlen(source), "{\"x\": 1}", 1751965503, &text, NULL));
    assert_string_equal(text, "2025-07-08 09:05 1");
    pm_free(text);
    assert_int_equal(pm_template_render(source, strlen(source), "[]", 0, &text, NULL),
                     PM_ERROR_USAGE);
    assert_int_equal(pm_template_render(source, strlen(source), "{", 0, &text, NULL),
                     PM_ERROR_USAGE);
    assert_int_equal(pm_template_render("{%", 2, "{}", 0, &text, NULL), PM_ERROR_FILE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r31_a_golden_model),
        cmocka_unit_test(an_unknown_architecture),
        cmocka_unit_test(files_that_are_none),
        cmocka_unit_test(devices),
        cmocka_unit_test(devices_that_are_not_there),
        cmocka_unit_test(plans),
        cmocka_unit_test(statistics),
        cmocka_unit_test(r59_bench),
        cmocka_unit_test(tokens),
        cmocka_unit_test(a_model_without_weights),
        cmocka_unit_test(times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
