// info, logits, devices, bench and quantize: keys, numbers, files.
#include "cli/cli_test.h"

#include <math.h>
#include <stdbool.h>

static void info_in_json_and_text(void **state)
{
    (void)state;
    json_t *all = json_of("$P info '%s' --json", tiny());
    assert_int_equal(json_integer_value(key_of(all, "version")), 3);
    assert_string_equal(json_string_value(key_of(all, "architecture")), "smollm3");
    assert_true(json_is_true(key_of(all, "supported")));
    assert_int_equal(json_array_size(key_of(all, "tensors")), 47);
    assert_int_equal(json_object_size(key_of(all, "metadata")), 25);
    assert_string_equal(json_string_value(key_of(all, "pre_tokenizer")), "smaug-bpe");
    const json_t *tensor = json_array_get(key_of(all, "tensors"), 0);
    static const char *const keys[] = {"name", "type", "shape", "offset", "bytes"};
    for (size_t k = 0; k < 5; k++) key_of(tensor, keys[k]);
    key_of(all, "parameters");
    key_of(all, "unsupported_reason");
    bool ends = false;
    size_t index;
    const json_t *value;
    json_array_foreach(key_of(all, "end_tokens"), index, value)
    {
        const json_t *id = json_is_object(value) ? json_object_get(value, "id") : value;
        ends |= json_integer_value(id) == 428;
    }
    assert_true(ends);
    // 5 layers, 512 positions, K and V of 2 heads of 16 halves.
    const json_t *context = key_of(all, "context");
    assert_int_equal(json_integer_value(key_of(context, "n_ctx")), 512);
    assert_int_equal(json_integer_value(key_of(context, "kv_bytes")), 5 * 512 * 2 * 2 * 16 * 2);
    json_decref(all);
    json_t *smaller = json_of("$P info '%s' --json --ctx 100 --kv-type f32", tiny());
    context = key_of(smaller, "context");
    assert_int_equal(json_integer_value(key_of(context, "n_ctx")), 100);
    assert_int_equal(json_integer_value(key_of(context, "kv_bytes")), 5 * 100 * 2 * 2 * 16 * 4);
    json_decref(smaller);

    char *text = output_of("$P info '%s'", tiny());
    assert_non_null(strstr(text, "smollm3"));
    assert_non_null(strstr(text, "blk.4.ffn_down.weight"));
    assert_non_null(strstr(text, "tokenizer.chat_template"));
    char *full = output_of("$P info '%s' --full", tiny());
    assert_true(strlen(full) > strlen(text));
    free(text);
    free(full);
}

static void the_plan_is_printed(void **state)
{
    (void)state;
    char *one = output_of("$P info '%s' --plan", tiny());
    char *many = output_of("$P info '%s' --plan --rows 8", tiny());
    assert_true(count_lines(one) > 5 * 4);
    assert_string_not_equal(one, many);
    assert_refused(2, "--rows", "$P info '%s' --plan --rows 0", tiny());
    assert_refused(2, "--rows", "$P info '%s' --rows 8", tiny());
    free(one);
    free(many);
}

// A vocabulary without tensors is a well-formed file that can't run.
static void info_of_what_cannot_run(void **state)
{
    (void)state;
    json_t *all = json_of("$P info '%s' --json", test_data("vocab/ggml-vocab-gpt-2.gguf"));
    assert_int_equal(json_array_size(key_of(all, "tensors")), 0);
    json_decref(all);
}

static void logits_as_recorded(void **state)
{
    (void)state;
    json_t *golden = json_load_file(test_data("golden/smollm3-tied.q8_0.golden.json"), 0, NULL);
    const json_t *prompt = json_array_get(key_of(golden, "prompts"), 0);
    const json_t *ids = key_of(prompt, "ids"), *wanted = key_of(prompt, "last_logits");
    char *list = json_dumps(ids, JSON_COMPACT);
    size_t n = json_array_size(ids);
    json_t *all =
        json_of("$P logits '%s' --ids '%s' --json --device reference --hidden", tiny(), list);
    assert_string_equal(json_string_value(key_of(all, "device")), "reference");
    assert_int_equal(json_integer_value(key_of(all, "n_vocab")), 429);
    assert_int_equal(json_array_size(key_of(all, "positions")), 1);
    const json_t *last = json_array_get(key_of(all, "positions"), 0);
    assert_int_equal(json_integer_value(key_of(last, "pos")), n - 1);
    assert_true(json_equal(key_of(last, "id"), json_array_get(ids, n - 1)));
    const json_t *logits = key_of(last, "logits");
    assert_int_equal(json_array_size(logits), 429);
    for (size_t k = 0; k < 429; k++) {
        double d = json_number_value(json_array_get(logits, k)) -
                   json_number_value(json_array_get(wanted, k));
        assert_true(fabs(d) < 1e-4);
    }
    assert_int_equal(json_array_size(key_of(all, "hidden")), 6);
    const json_t *first = json_array_get(key_of(all, "hidden"), 0);
    assert_int_equal(json_integer_value(key_of(first, "layer")), -1);
    assert_int_equal(json_array_size(key_of(first, "values")), 64);

    json_t *split = json_of("$P logits '%s' --ids '%s' --json --device reference --all --batch 5",
                            tiny(), list);
    assert_int_equal(json_array_size(key_of(split, "positions")), n);
    assert_true(json_equal(json_array_get(key_of(split, "positions"), n - 1), last));
    json_decref(split);
    json_decref(all);
    char *text = output_of("$P logits '%s' --ids '%s'", tiny(), list);
    assert_int_equal(count_lines(text), 11);
    free(text);
    free(list);
    json_decref(golden);
}

static void devices_without_a_gpu(void **state)
{
    (void)state;
    json_t *all = json_of("$P devices --json");
    bool cpu = false;
    size_t index;
    const json_t *d;
    json_array_foreach(key_of(all, "devices"), index, d)
    {
        cpu |= !strcmp(json_string_value(key_of(d, "id")), "cpu");
        static const char *const keys[] = {"name", "type", "memory_bytes", "limits", "features"};
        for (size_t k = 0; k < 5; k++) key_of(d, keys[k]);
    }
    assert_true(cpu);
    json_decref(all);
    char *text = output_of("$P devices");
    assert_memory_equal(text, "cpu: ", 5);
    free(text);
}

static void bench_in_four_forms(void **state)
{
    (void)state;
    static const char options[] = "--prompt 16 --gen 4 --repeat 1 --device cpu";
    json_t *all = json_of("$P bench '%s' %s -o json", tiny(), options);
    static const char *const keys[] = {"device",  "driver", "model",  "threads",       "batch",
                                       "kv_type", "build",  "load_s", "peak_rss_bytes"};
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) key_of(all, keys[k]);
    assert_int_equal(json_array_size(key_of(all, "results")), 2);
    static const char *const fields[] = {"kind",     "n",      "depth",           "samples_tps",
                                         "mean_tps", "sd_tps", "bytes_per_token", "status"};
    const json_t *row = json_array_get(key_of(all, "results"), 0);
    for (size_t k = 0; k < sizeof fields / sizeof fields[0]; k++) key_of(row, fields[k]);
    json_decref(all);
    char *csv = output_of("$P bench '%s' %s -o csv -q", tiny(), options);
    assert_int_equal(count_lines(csv), 3);
    assert_memory_equal(csv, "kind,tokens,", 12);
    char *md = output_of("$P bench '%s' %s -o md -q", tiny(), options);
    assert_non_null(strstr(md, "| --- |"));
    char *table = output_of("$P bench '%s' %s -q", tiny(), options);
    assert_non_null(strstr(table, "tokens/s"));
    assert_refused(2, "pdf", "$P bench '%s' -o pdf", tiny());
    assert_refused(2, "prompt", "$P bench '%s' --prompt x", tiny());
    free(csv);
    free(md);
    free(table);
}

// A case that failed was not warmed up.
static void bench_of_what_fails(void **state)
{
    (void)state;
    size_t n;
    char *out, *err, *file = test_read(tiny(), &n);
    memset(file + n - 65536, 0xff, 65536); // scales that are NaN
    const char *path = test_temp("nan.gguf");
    test_write(path, file, n);
    free(file);
    static const char options[] = "--prompt 16 --gen 0 --repeat 1 --device cpu";
    assert_int_equal(pumice(&out, &err, "$P bench '%s' %s", path, options), 1);
    assert_non_null(strstr(out, "failed"));
    assert_null(strstr(out, "not steady"));
    free(out);
    free(err);
}

static void quantized_files_keep_their_metadata(void **state)
{
    (void)state;
    char in[1024], out[1024];
    snprintf(in, sizeof in, "%s", test_data("golden/smollm3-tied.f32.gguf"));
    snprintf(out, sizeof out, "%s", test_temp("small.gguf"));
    free(output_of("$P quantize '%s' '%s' q8_0", in, out));
    json_t *before = json_of("$P info '%s' --json --full", in);
    json_t *after = json_of("$P info '%s' --json --full", out);
    json_t *old = key_of(before, "metadata"), *new = key_of(after, "metadata");
    static const char *const changed[] = {"general.file_type", "general.quantization_version"};
    for (size_t k = 0; k < 2; k++) {
        json_object_del(old, changed[k]);
        json_object_del(new, changed[k]);
    }
    assert_true(json_equal(old, new));
    size_t index, n_q8 = 0;
    const json_t *tensor;
    json_array_foreach(key_of(after, "tensors"), index, tensor) n_q8 +=
        !strcmp(json_string_value(key_of(tensor, "type")), "Q8_0");
    assert_int_equal(n_q8, 36);
    free(output_of("$P ask '%s' hi -n 4", out));
    json_decref(before);
    json_decref(after);
    assert_refused(2, "q1_7", "$P quantize '%s' '%s' q1_7", in, test_temp("no.gguf"));
    assert_refused(3, "/nowhere", "$P quantize /nowhere/m.gguf '%s' q8_0", test_temp("no.gguf"));
    assert_refused(2, "", "$P quantize '%s' '%s' f16", out, out);
    assert_refused(1, "/nowhere", "$P quantize '%s' /nowhere/x.gguf q8_0", in);
    assert_refused(1, "Is a directory", "$P quantize '%s' '%s' q8_0", in, home_folder());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(info_in_json_and_text),
        cmocka_unit_test(the_plan_is_printed),
        cmocka_unit_test(info_of_what_cannot_run),
        cmocka_unit_test(logits_as_recorded),
        cmocka_unit_test(devices_without_a_gpu),
        cmocka_unit_test(bench_in_four_forms),
        cmocka_unit_test(bench_of_what_fails),
        cmocka_unit_test(quantized_files_keep_their_metadata),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
