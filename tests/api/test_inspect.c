// What pm_inspect_* say, against values of independent programs and against what executors write.
#include "support/test.h"

#include <math.h>
#include <stdbool.h>

#include "base/buf.h"
#include "support/open.h"
#include "support/runner.h"

static json_t *parsed(char *text)
{
    json_t *all = json_loads(text, JSON_ALLOW_NUL, NULL);
    assert_non_null(all);
    pm_free(text);
    return all;
}

static const json_t *key(const json_t *o, const char *name)
{
    const json_t *value = json_object_get(o, name);
    if (!value) fail_msg("no key '%s'", name);
    return value;
}

static double number(const json_t *o, const char *name)
{
    assert_true(json_is_number(key(o, name)));
    return json_number_value(key(o, name));
}

static double item(const json_t *list, size_t index)
{
    assert_true(json_is_number(json_array_get(list, index)));
    return json_number_value(json_array_get(list, index));
}

static void near(double found, double expected, double most, const char *what)
{
    if (!(fabs(found - expected) <= most))
        fail_msg("%s: %.9g, expected %.9g (+- %g)", what, found, expected, most);
}

// ---- embedding --------------------------------------------------------------------------------

// The row of a token in the file, which holds plain floats.
static void file_row(const char *path, int32_t id, uint32_t n, float *out)
{
    gguf *g = NULL;
    assert_ok(gguf_open(path, true, &g));
    const gguf_tensor *t = gguf_find_tensor(g, "token_embd.weight");
    assert_non_null(t);
    assert_int_equal(t->type, 0);
    assert_ok(gguf_read(g, t, (uint64_t)id * n * sizeof *out, out, n * sizeof *out));
    gguf_close(g);
}

static void embeddings_are_the_files_rows(void **state)
{
    (void)state;
    static const char *const words[] = {"the", "of", "the"};
    pm_options *o = test_options("vocab-only", "true", "first", "0", NULL);
    pm_model *pm = test_golden("llama-tied.f32", o);
    char *text = NULL;
    assert_ok(pm_inspect_embedding(pm, o, words, 3, &text));
    json_t *all = parsed(text);
    enum { N = 96 };
    float rows[3][N];
    assert_int_equal(json_array_size(key(all, "words")), 3);
    for (size_t i = 0; i < 3; i++) {
        int32_t id = (int32_t)item(key(all, "ids"), i);
        size_t n;
        const char *piece = pm_token_piece(pm, id, 0, &n);
        assert_int_equal(n, strlen(words[i]) + 1); // the form with the space
        assert_memory_equal(piece + 1, words[i], n - 1);
        file_row(test_data("golden/llama-tied.f32.gguf"), id, N, rows[i]);
        const json_t *vector = json_array_get(key(all, "vectors"), i);
        assert_int_equal(json_array_size(vector), N);
        for (size_t k = 0; k < N; k++) near(item(vector, k), (double)rows[i][k], 0, "value");
    }
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; j < 3; j++) {
            double dot = 0, a = 0, b = 0;
            for (size_t k = 0; k < N; k++) {
                dot += (double)rows[i][k] * (double)rows[j][k];
                a += (double)rows[i][k] * (double)rows[i][k];
                b += (double)rows[j][k] * (double)rows[j][k];
            }
            near(item(json_array_get(key(all, "dot"), i), j), dot, 1e-9, "dot");
            near(item(json_array_get(key(all, "cosine"), i), j), dot / sqrt(a * b), 1e-9, "cosine");
        }
    }
    json_decref(all);
    // A word in several pieces has their mean, and no id of its own.
    static const char *const longer[] = {"xylophonist"};
    pm_options_set(o, "first", "4");
    assert_ok(pm_inspect_embedding(pm, o, longer, 1, &text));
    all = parsed(text);
    assert_true(json_is_null(json_array_get(key(all, "ids"), 0)));
    const json_t *pieces = json_array_get(key(all, "pieces"), 0);
    size_t n = json_array_size(pieces);
    assert_true(n > 1);
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        file_row(test_data("golden/llama-tied.f32.gguf"),
                 (int32_t)number(json_array_get(pieces, i), "id"), N, rows[0]);
        sum += (double)rows[0][2];
    }
    const json_t *vector = json_array_get(key(all, "vectors"), 0);
    assert_int_equal(json_array_size(vector), 4);
    near(item(vector, 2), sum / (double)n, 1e-7, "mean of the pieces");
    json_decref(all);
    assert_int_equal(pm_inspect_embedding(pm, o, longer, 0, &text), PM_ERROR_USAGE);
    static const char *const nothing[] = {""};
    pm_status status = pm_inspect_embedding(pm, o, nothing, 1, &text);
    if (status == PM_OK)
        pm_free(text); // " " is a token of this vocabulary
    else
        assert_int_equal(status, PM_ERROR_USAGE);
    pm_model_close(pm);
    pm_options_destroy(o);
}

// ---- weights ----------------------------------------------------------------------------------

static void weights_are_counted(void **state)
{
    (void)state;
    pm_options *o = test_options("vocab-only", "true", NULL);
    pm_model *pm = test_golden("llama-tied.f32", o);
    char *text = NULL;
    assert_ok(pm_inspect_weights(pm, o, "blk.1.ffn_up", &text));
    json_t *all = parsed(text);
    assert_int_equal(json_array_size(key(all, "tensors")), 1);
    const json_t *t = json_array_get(key(all, "tensors"), 0), *h = key(t, "histogram");
    gguf *g = NULL;
    assert_ok(gguf_open(test_data("golden/llama-tied.f32.gguf"), true, &g));
    const gguf_tensor *tensor = gguf_find_tensor(g, "blk.1.ffn_up.weight");
    const float *x = gguf_tensor_map(g, tensor);
    size_t n = tensor->bytes / sizeof *x;
    double min = INFINITY, max = -INFINITY, mean = 0, variance = 0;
    for (size_t i = 0; i < n; i++) {
        min = fmin(min, (double)x[i]);
        max = fmax(max, (double)x[i]);
        mean += (double)x[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++)
        variance += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)n;
    near(number(t, "n"), (double)n, 0, "n");
    near(number(t, "min"), min, 0, "min");
    near(number(t, "max"), max, 0, "max");
    near(number(t, "mean"), mean, 1e-9, "mean");
    near(number(t, "sd"), sqrt(variance), 1e-9, "sd");
    near(number(h, "from"), fmax(min, mean - 4 * sqrt(variance)), 1e-9, "from");
    near(number(h, "to"), fmin(max, mean + 4 * sqrt(variance)), 1e-9, "to");
    size_t n_bins = json_array_size(key(h, "bins"));
    double width = (number(h, "to") - number(h, "from")) / (double)n_bins, sum = 0;
    for (size_t b = 0; b < n_bins; b++) {
        double expected = 0, found = item(key(h, "bins"), b);
        for (size_t i = 0; i < n; i++) {
            double at = ((double)x[i] - number(h, "from")) / width;
            expected += at >= (double)b && at < (double)b + 1;
        }
        near(found, expected, b + 1 == n_bins ? 1 : 0, "bin"); // the last one holds its end
        sum += found;
    }
    near(sum + number(h, "below") + number(h, "above"), (double)n, 0, "all values");
    gguf_close(g);
    json_decref(all);
    assert_int_equal(pm_inspect_weights(pm, o, "no such name", &text), PM_ERROR_USAGE);
    pm_model_close(pm);
    pm_options_destroy(o);

    // Every format of a mixed file.
    o = test_options("vocab-only", "true", NULL);
    pm = test_golden("llama-mix-k", o);
    assert_ok(pm_inspect_weights(pm, o, NULL, &text));
    all = parsed(text);
    assert_true(json_array_size(key(all, "tensors")) > 30);
    size_t i;
    json_array_foreach(key(all, "tensors"), i, t)
    {
        assert_true(number(t, "min") <= number(t, "mean"));
        assert_true(number(t, "mean") <= number(t, "max"));
        near(number(t, "nonfinite"), 0, 0, "nonfinite");
    }
    json_decref(all);
    pm_model_close(pm);
    pm_options_destroy(o);
}

// ---- attention --------------------------------------------------------------------------------

static json_t *attention(const char *name, const int32_t *ids, size_t n, const pm_options *o)
{
    pm_model *pm = test_golden(name, o);
    char *text = NULL;
    assert_ok(pm_inspect_attention(pm, o, ids, n, &text));
    pm_model_close(pm);
    return parsed(text);
}

// What an executor writes as attention's result is the probabilities times the values.
static void is_what_attend_weighs(const char *name, const json_t *all, const int32_t *ids,
                                  uint32_t n)
{
    char file[100];
    snprintf(file, sizeof file, "golden/%s.gguf", name);
    plan_options how = {.n_ctx = 128, .n_slots = 1, .n_batch = 128, .kv_type = QUANT_F32};
    exec_params params = {.n_threads = 1};
    runner r;
    runner_open(&r, test_data(file), exec_kind_named("reference"), &params, &how);
    static plan_step step;
    step.n_rows = n;
    for (uint32_t i = 0; i < n; i++)
        step.rows[i] = (plan_row){.token = ids[i], .pos = i, .n_kv = i + 1};
    const plan *p = plan_for_rows(r.set, n);
    size_t map = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        if (p->ops[i].kind == PLAN_PICK_OP || p->ops[i].kind == PLAN_LOGITS_OP) break;
        assert_ok(r.kind->run(r.exec, p, i, 1, &step));
        if (p->ops[i].kind != PLAN_ATTEND) continue;
        const plan_attend *a = &p->ops[i].u.attend;
        uint32_t d = a->head_dim, group = a->n_head / a->n_head_kv;
        for (uint32_t h = 0; h < a->n_head; h++, map++) {
            const json_t *m = json_array_get(key(all, "maps"), map);
            near(number(m, "layer"), p->ops[i].layer, 0, "layer");
            near(number(m, "head"), h, 0, "head");
            for (uint32_t row = 0; row < n; row += 7) {
                const json_t *line = json_array_get(key(m, "p"), row);
                assert_int_equal(json_array_size(line), row + 1);
                double sum = 0, out[256] = {0};
                float v[256], found[256];
                for (uint32_t k = 0; k <= row; k++) {
                    uint64_t at = (uint64_t)(h / group) * r.set->n_ctx + k;
                    assert_ok(
                        r.kind->read(r.exec, a->v_cache, at * d * sizeof *v, v, d * sizeof *v));
                    assert_true(item(line, k) >= 0);
                    if (a->window && k + a->window <= row) near(item(line, k), 0, 0, "hidden");
                    sum += item(line, k);
                    for (uint32_t x = 0; x < d; x++) out[x] += item(line, k) * (double)v[x];
                }
                near(sum, 1, 1e-5, "sum of a row");
                uint64_t from = row * r.set->bufs[PLAN_ATT].row_bytes + h * d * sizeof *found;
                assert_ok(r.kind->read(r.exec, PLAN_ATT, from, found, d * sizeof *found));
                for (uint32_t x = 0; x < d; x++) near((double)found[x], out[x], 2e-5, "result");
            }
        }
    }
    assert_int_equal(json_array_size(key(all, "maps")), map);
    runner_close(&r);
}

static void attention_is_what_attend_weighs(void **state)
{
    (void)state;
    // Grouped heads; windows and one head of keys; a soft cap; layers without RoPE.
    static const char *const names[] = {"llama-tied.f32", "gemma3.f32", "gemma2-small.f32",
                                        "smollm3-tied.f32"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        pm_options *o = test_options("device", "reference", NULL);
        json_t *golden = test_golden_json(names[k]);
        size_t n;
        int32_t *ids = test_prompt_ids(golden, 0, &n);
        json_t *all = attention(names[k], ids, n, o);
        assert_int_equal(json_array_size(key(all, "tokens")), n);
        is_what_attend_weighs(names[k], all, ids, (uint32_t)n);
        json_decref(all);
        free(ids);
        json_decref(golden);
        pm_options_destroy(o);
    }
}

static void attention_on_another_device_is_the_same(void **state)
{
    (void)state;
    json_t *golden = test_golden_json("llama-tied.f32");
    size_t n;
    int32_t *ids = test_prompt_ids(golden, 0, &n);
    pm_options *a = test_options("device", "reference", "layer", "2", "head", "3", NULL);
    pm_options *b = test_options("device", "cpu", "act", "f32", "kv-type", "f32", "layer", "2",
                                 "head", "3", NULL);
    json_t *ref = attention("llama-tied.f32", ids, n, a),
           *cpu = attention("llama-tied.f32", ids, n, b);
    assert_int_equal(json_array_size(key(ref, "maps")), 1);
    assert_int_equal(json_array_size(key(cpu, "maps")), 1);
    const json_t *p = key(json_array_get(key(ref, "maps"), 0), "p");
    const json_t *q = key(json_array_get(key(cpu, "maps"), 0), "p");
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++)
            near(item(json_array_get(q, i), j), item(json_array_get(p, i), j), 1e-5, "p");
    json_decref(ref);
    json_decref(cpu);
    pm_options_set(a, "layer", "99");
    pm_model *pm = test_golden("llama-tied.f32", a);
    char *text = NULL;
    assert_int_equal(pm_inspect_attention(pm, a, ids, n, &text), PM_ERROR_USAGE);
    assert_non_null(strstr(pm_last_error(), "99"));
    pm_options_set(a, "layer", "0");
    assert_int_equal(pm_inspect_attention(pm, a, ids, 0, &text), PM_ERROR_USAGE);
    ids[0] = 1 << 20;
    assert_int_equal(pm_inspect_attention(pm, a, ids, n, &text), PM_ERROR_USAGE);
    pm_model_close(pm);
    pm_options_destroy(a);
    pm_options_destroy(b);
    free(ids);
    json_decref(golden);
}

// ---- logits -----------------------------------------------------------------------------------

static void logits_are_the_golden_ones(void **state)
{
    (void)state;
    pm_options *o = test_options("device", "reference", "top", "5", "temp", "0", NULL);
    json_t *golden = test_golden_json("qwen2.f32");
    const json_t *prompt = json_array_get(key(golden, "prompts"), 0);
    size_t n, n_ids;
    int32_t *ids = test_prompt_ids(golden, 0, &n_ids);
    pm_model *pm = test_golden("qwen2.f32", o);
    char *text = NULL;
    assert_ok(pm_inspect_logits(pm, o, ids, n_ids, &text));
    json_t *all = parsed(text);
    assert_int_equal(json_array_size(key(all, "positions")), n_ids);
    const json_t *expected;
    double nll = 0;
    json_array_foreach(key(prompt, "positions"), n, expected)
    {
        const json_t *found = json_array_get(key(all, "positions"), n), *top = key(found, "top");
        assert_int_equal(json_array_size(top), 5);
        for (size_t k = 0; k < 5; k++) {
            const json_t *t = json_array_get(top, k);
            double logit = item(key(expected, "top5_logits"), k);
            near(number(t, "id"), item(key(expected, "top5_ids"), k), 0, "id");
            near(number(t, "rank"), (double)k + 1, 0, "rank");
            near(number(t, "logit"), logit, 1e-4, "logit");
            near(number(t, "probability"), exp(logit - number(expected, "logsumexp")), 1e-5,
                 "probability");
        }
        const json_t *next = key(found, "next");
        if (n + 1 < n_ids) {
            near(number(next, "id"), ids[n + 1], 0, "next");
            assert_true(number(next, "rank") >= 1);
            nll -= log(number(next, "probability"));
        } else {
            assert_true(json_is_null(next));
        }
        assert_true(number(found, "entropy") >= 0);
        const json_t *greedy = json_array_get(key(found, "filters"), 0);
        near(number(greedy, "kept"), 1, 0, "greedy keeps one");
    }
    near(nll / (double)(n_ids - 1), number(prompt, "mean_nll"), 1e-3, "mean nll");
    json_decref(all);
    free(ids);
    pm_model_close(pm);
    pm_options_destroy(o);
    json_decref(golden);
}

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

// The filters by their definitions, on all tokens sorted.
static void filters_cut_what_they_say(void **state)
{
    (void)state;
    const double temp = 1.7, top_p = 0.8, min_p = 0.3;
    enum { TOP_K = 30 };
    pm_options *o = test_options("device", "reference", "temp", "1.7", "top-k", "30", "top-p",
                                 "0.8", "min-p", "0.3", NULL);
    pm_model *pm = test_golden("llama-tied.f32", o);
    pm_session *session = test_session(pm, o);
    int32_t ids[] = {49, 330, 223, 47}, n_vocab = pm_model_n_vocab(pm);
    assert_ok(pm_session_eval(session, ids, 4, 0));
    const float *logits = pm_session_logits(session, 0);
    double *p = malloc((size_t)n_vocab * sizeof *p), all = 0, sum = 0;
    assert_non_null(p);
    for (int32_t i = 0; i < n_vocab; i++) p[i] = exp((double)logits[i] / temp);
    qsort(p, (size_t)n_vocab, sizeof *p, descending);
    for (int32_t i = 0; i < n_vocab; i++) all += p[i];
    double kept[4] = {n_vocab, TOP_K, 0, 0}, mass[4] = {1, 0, 0, 0};
    for (int i = 0; i < TOP_K; i++) mass[1] += p[i] / all;
    for (int i = 0; i < TOP_K && sum < top_p * mass[1]; i++) {
        sum += p[i] / all;
        kept[2]++;
        mass[2] += p[i] / all;
        if (p[i] < min_p * p[0]) continue;
        kept[3]++;
        mass[3] += p[i] / all;
    }
    assert_true(kept[2] < TOP_K && kept[3] < kept[2]);
    char *text = NULL;
    assert_ok(pm_inspect_logits(pm, o, ids, 4, &text));
    json_t *view = parsed(text);
    const json_t *filters = key(json_array_get(key(view, "positions"), 3), "filters");
    assert_int_equal(json_array_size(filters), 4);
    double before = n_vocab;
    for (size_t k = 0; k < 4; k++) {
        const json_t *f = json_array_get(filters, k);
        near(number(f, "kept"), kept[k], 0, "kept");
        near(number(f, "cut"), before - kept[k], 0, "cut");
        near(number(f, "kept_mass"), mass[k], 1e-9, "mass");
        before = kept[k];
    }
    free(p);
    json_decref(view);
    pm_session_destroy(session);
    pm_model_close(pm);
    pm_options_destroy(o);
}

// ---- trace ------------------------------------------------------------------------------------

static void compare_values(const json_t *view, const json_t *golden, const char *what)
{
    size_t i, n = json_array_size(key(view, "first"));
    assert_true(n > 0);
    for (i = 0; i < n; i++)
        near(item(key(view, "first"), i), item(key(golden, "first16"), i), 2e-4, what);
    near(number(view, "length"), number(golden, "l2"), 2e-3, what);
}

// Behind every layer the residual stream is what Hugging Face transformers computed.
static void traces_are_the_golden_values(void **state)
{
    (void)state;
    static const char *const names[] = {"llama-tied.f32", "gemma3.f32", "smollm3-tied.f32"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        pm_options *o =
            test_options("device", "reference", "layer", "1", "seed", "5", "batch", "16", NULL);
        json_t *golden = test_golden_json(names[k]);
        const json_t *prompt = json_array_get(key(golden, "prompts"), 0);
        const json_t *hidden = key(prompt, "hidden_last"), *op, *token;
        pm_model *pm = test_golden(names[k], o);
        char *text = NULL;
        assert_ok(pm_inspect_trace(pm, o, json_string_value(key(prompt, "text")), 1, &text));
        json_t *all = parsed(text);
        size_t i, n_ids, shown = 0;
        int32_t *ids = test_prompt_ids(golden, 0, &n_ids);
        assert_int_equal(json_array_size(key(all, "tokens")), n_ids);
        json_array_foreach(key(all, "tokens"), i, token) near(number(token, "id"), ids[i], 0, "id");
        int n_layer = (int)number(all, "n_layer");
        json_array_foreach(key(all, "ops"), i, op)
        {
            int layer = (int)number(op, "layer");
            const json_t *next = json_array_get(key(all, "ops"), i + 1);
            const json_t *view = json_array_get(key(op, "writes"), 0);
            if (!strcmp(json_string_value(key(op, "op")), "EMBED"))
                compare_values(view, key(hidden, "embd"), "embedding");
            shown += layer == 1;
            bool last = layer >= 0 && (!next || (int)number(next, "layer") != layer);
            if (last)
                compare_values(view, json_array_get(key(hidden, "layers"), (size_t)layer), "layer");
        }
        // The ops of the chosen layer are all there, with the plan's names and labels.
        char *plan_text = NULL;
        assert_ok(pm_model_plan(pm, o, 1, &plan_text));
        assert_true(shown >= 6);
        json_array_foreach(key(all, "ops"), i, op)
        {
            if ((int)number(op, "layer") != 1) continue;
            assert_non_null(strstr(plan_text, json_string_value(key(op, "does"))));
            assert_non_null(strstr(plan_text, json_string_value(key(op, "label"))));
        }
        pm_free(plan_text);
        assert_true(n_layer >= 4);
        const json_t *drawn = key(all, "drawn");
        near(number(drawn, "cross_entropy"), -log(number(drawn, "probability")), 1e-9, "entropy");
        // It is the token that a generation with the same options draws first.
        pm_session *session = test_session(pm, o);
        pm_generation *g = NULL;
        pm_options_set(o, "max-tokens", "1");
        assert_ok(pm_generation_start(session, o, ids, n_ids, &g));
        char *said = test_generate(g), *about = NULL;
        assert_ok(pm_generation_json(g, &about));
        json_t *answer = parsed(about);
        near(number(drawn, "id"), item(key(answer, "tokens"), 0), 0, "drawn");
        json_decref(answer);
        free(said);
        pm_generation_destroy(g);
        pm_session_destroy(session);
        json_decref(all);
        free(ids);
        pm_model_close(pm);
        json_decref(golden);
        pm_options_destroy(o);
    }
}

static void traces_begin_with_the_template(void **state)
{
    (void)state;
    pm_options *o = test_options("device", "cpu", "seed", "1", NULL);
    pm_model *pm = test_golden("llama-tied.q8_0", o);
    pm_session *session = test_session(pm, o);
    pm_chat *chat = NULL;
    assert_ok(pm_chat_create(session, o, &chat));
    assert_ok(pm_chat_add(chat, "user", "Hello?"));
    char *rendered = NULL, *text = NULL;
    size_t n;
    assert_ok(pm_chat_render(chat, 1, &rendered, &n));
    assert_ok(pm_inspect_trace(pm, o, "Hello?", 0, &text));
    json_t *all = parsed(text);
    assert_string_equal(json_string_value(key(all, "rendered")), rendered);
    assert_string_equal(json_string_value(key(all, "template")), pm_chat_template_name(chat));
    assert_string_equal(json_string_value(key(all, "device")), "cpu");
    assert_non_null(json_string_value(key(all, "sampler")));
    pm_generation *g = NULL;
    assert_ok(pm_chat_generate(chat, NULL, &g));
    assert_int_equal(pm_chat_n_new(chat), json_array_size(key(all, "tokens")));
    json_decref(all);
    pm_options_set(o, "layer", "77");
    assert_int_equal(pm_inspect_trace(pm, o, "Hello?", 0, &text), PM_ERROR_USAGE);
    pm_options_set(o, "layer", "0");
    pm_options_set(o, "ctx", "2");
    assert_int_equal(pm_inspect_trace(pm, o, "Hello?", 1, &text), PM_ERROR_USAGE);
    pm_free(rendered);
    pm_chat_destroy(chat);
    pm_session_destroy(session);
    pm_model_close(pm);
    pm_options_destroy(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embeddings_are_the_files_rows),
        cmocka_unit_test(weights_are_counted),
        cmocka_unit_test(attention_is_what_attend_weighs),
        cmocka_unit_test(attention_on_another_device_is_the_same),
        cmocka_unit_test(logits_are_the_golden_ones),
        cmocka_unit_test(filters_cut_what_they_say),
        cmocka_unit_test(traces_are_the_golden_values),
        cmocka_unit_test(traces_begin_with_the_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
