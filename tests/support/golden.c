#include "support/golden.h"

#include "support/test.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>

enum { MAX_FILES = 128 };

static char names[MAX_FILES][96];
static int n_names;
static const char *only;

void golden_only(const char *words)
{
    only = words;
}

static bool is_wanted(const char *name)
{
    for (const char *w = only; w; w = strchr(w, ',') ? strchr(w, ',') + 1 : NULL)
        if (!strncmp(name, w, strcspn(w, ","))) return true;
    return !only;
}

static void list_golden(void)
{
    DIR *dir = opendir(test_data("golden"));
    assert_non_null(dir);
    for (struct dirent *d; (d = readdir(dir)) != NULL;) {
        char *end = strstr(d->d_name, ".golden.json");
        if (!end) continue;
        assert_true(n_names < MAX_FILES);
        snprintf(names[n_names++], sizeof names[0], "%.*s", (int)(end - d->d_name), d->d_name);
    }
    closedir(dir);
    assert_true(n_names >= 46);
}

static int32_t *ids_of(const json_t *list, uint32_t *n)
{
    *n = (uint32_t)json_array_size(list);
    int32_t *ids = malloc((*n + 1) * sizeof *ids);
    assert_non_null(ids);
    for (uint32_t i = 0; i < *n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return ids;
}

static double number(const json_t *list, size_t i)
{
    return json_number_value(json_array_get(list, i));
}

static double default_limit(const char *name, const json_t *golden, quant_type kv_type)
{
    const char *precision = json_string_value(json_object_get(golden, "precision"));
    if (kv_type == QUANT_Q8_0) precision = "quantized";
    if (!strcmp(precision, "F32")) return 2e-2;
    if (!strcmp(precision, "F16")) return 5e-2;
    if (!strcmp(precision, "BF16")) return 2e-1;
    return !strcmp(name, "smollm3-q4_k_m") ? 0.9 : 0.7; // the data's README has the exception
}

static double worse(double a, double b)
{
    return !(b <= a) ? b : a; // NaN is the worst
}

// Largest difference to the golden logits: the last position whole, the top 5 of every position.
static double compare_logits(const json_t *prompt, const float *logits, uint32_t n,
                             uint32_t n_vocab)
{
    double worst = 0;
    const json_t *last = json_object_get(prompt, "last_logits");
    assert_int_equal(json_array_size(last), n_vocab);
    for (uint32_t i = 0; i < n_vocab; i++)
        worst = worse(worst, fabs(number(last, i) - (double)logits[(size_t)(n - 1) * n_vocab + i]));
    const json_t *positions = json_object_get(prompt, "positions");
    assert_int_equal(json_array_size(positions), n);
    for (uint32_t p = 0; p < n; p++) {
        const json_t *at = json_array_get(positions, p);
        const float *row = logits + (size_t)p * n_vocab;
        for (size_t i = 0; i < 5; i++) {
            size_t id = (size_t)number(json_object_get(at, "top5_ids"), i);
            worst =
                worse(worst, fabs(number(json_object_get(at, "top5_logits"), i) - (double)row[id]));
        }
        double sum = 0;
        for (uint32_t i = 0; i < n_vocab; i++) sum += exp((double)row[i]);
        double lse = json_number_value(json_object_get(at, "logsumexp"));
        worst = worse(worst, fabs(lse - log(sum)));
    }
    return worst;
}

// Relative to the state's size: `first16` values and the norm.
static double compare_state(const json_t *state, const float *values, uint32_t n)
{
    double l2 = json_number_value(json_object_get(state, "l2")), sum = 0, worst = 0;
    for (uint32_t i = 0; i < n; i++) sum += (double)values[i] * (double)values[i];
    worst = fabs(sqrt(sum) - l2) / l2;
    const json_t *first = json_object_get(state, "first16");
    for (size_t i = 0; i < json_array_size(first); i++)
        worst = worse(worst, fabs(number(first, i) - (double)values[i]) / (l2 / sqrt(n)));
    return worst;
}

static double compare_hidden(const json_t *prompt, const float *hidden, const model *m)
{
    const json_t *last = json_object_get(prompt, "hidden_last");
    double worst = compare_state(json_object_get(last, "embd"), hidden, m->n_embd);
    const json_t *layers = json_object_get(last, "layers");
    assert_int_equal(json_array_size(layers), m->n_layer);
    for (uint32_t i = 0; i < m->n_layer; i++)
        worst = worse(worst, compare_state(json_array_get(layers, i),
                                           hidden + (size_t)(i + 1) * m->n_embd, m->n_embd));
    return worst;
}

// Teacher-forced: the golden ids are fed, the arg max is compared where the margin allows.
static void compare_greedy(runner *r, const json_t *prompt, float *logits, const float *last,
                           double limit, const char *what)
{
    const json_t *greedy = json_object_get(prompt, "greedy");
    uint32_t n, n_vocab = r->set->n_vocab;
    int32_t *ids = ids_of(json_object_get(greedy, "ids"), &n);
    for (uint32_t step = 0; step < n; step++) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < n_vocab; i++)
            if (last[i] > last[best]) best = i;
        double margin = number(json_object_get(greedy, "margin"), step);
        if (margin > 2 * limit && (int32_t)best != ids[step])
            fail_msg("%s: greedy step %u gave %u, expected %d", what, step, best, ids[step]);
        runner_eval(r, &ids[step], 1, logits, NULL);
        last = logits;
    }
    free(ids);
}

static double run_prompt(runner *r, const json_t *prompt, const golden_mode *mo, double limit,
                         const char *name)
{
    uint32_t n, n_vocab = r->set->n_vocab;
    int32_t *ids = ids_of(json_object_get(prompt, "ids"), &n);
    float *logits = malloc((size_t)n * n_vocab * sizeof *logits);
    float *hidden = malloc((size_t)(r->set->n_layer + 1) * r->set->n_embd * sizeof *hidden);
    assert_true(logits && hidden);
    char what[256];
    snprintf(what, sizeof what, "%s, %s, %s", name, mo->name,
             json_string_value(json_object_get(prompt, "name")));

    runner_reset(r);
    runner_eval(r, ids, n, logits, mo->hidden ? hidden : NULL);
    double worst = compare_logits(prompt, logits, n, n_vocab);
    if (!(worst <= limit)) fail_msg("%s: logits differ by %g, limit %g", what, worst, limit);
    if (mo->hidden) {
        double state = compare_hidden(prompt, hidden, r->model);
        if (!(state <= 1e-4)) fail_msg("%s: hidden states differ by %g of their rms", what, state);
    }
    compare_greedy(r, prompt, logits, logits + (size_t)(n - 1) * n_vocab, limit, what);
    free(hidden);
    free(logits);
    free(ids);
    return worst;
}

static double run_prompts(const char *name, const json_t *prompts, const golden_mode *mo,
                          double limit, uint32_t n_ctx)
{
    if (!prompts) return 0;
    char file[128];
    snprintf(file, sizeof file, "golden/%s.gguf", name);
    plan_options options = {.n_ctx = n_ctx,
                            .n_slots = 1,
                            .n_batch = mo->n_batch,
                            .kv_type = mo->kv_type,
                            .act = mo->act,
                            .no_fuse = mo->no_fuse};
    exec_params params = {.n_threads = 2, .isa = mo->isa, .gpu = mo->gpu};
    runner r;
    runner_open(&r, test_data(file), mo->kind, &params, &options);
    double worst = 0;
    for (size_t i = 0; i < json_array_size(prompts); i++)
        worst = worse(worst, run_prompt(&r, json_array_get(prompts, i), mo, limit, name));
    runner_close(&r);
    return worst;
}

static bool head_allows_q8(const char *name)
{
    char file[128];
    snprintf(file, sizeof file, "golden/%.90s.gguf", name);
    model *m;
    model_options options = {0};
    assert_ok(model_open(test_data(file), &options, &m));
    bool allows = m->head_dim % QUANT_Q8_VALUES == 0;
    model_close(m);
    return allows;
}

static void run_mode(const golden_mode *mo)
{
    double worst = 0;
    int n_run = 0;
    for (int i = 0; i < n_names; i++) {
        if (!is_wanted(names[i])) continue;
        char file[128];
        snprintf(file, sizeof file, "golden/%.90s.golden.json", names[i]);
        json_error_t error;
        json_t *golden = json_load_file(test_data(file), 0, &error);
        assert_non_null(golden);
        if (mo->kv_type != QUANT_Q8_0 || head_allows_q8(names[i])) {
            double limit = mo->limit > 0 ? mo->limit : default_limit(names[i], golden, mo->kv_type);
            // 256 positions hold the short prompts: what phi4-longrope's short factors want.
            // Learned positions may be fewer.
            bool gpt2 = !strcmp(json_string_value(json_object_get(golden, "arch")), "gpt2");
            double w = run_prompts(names[i], json_object_get(golden, "prompts"), mo, limit,
                                   gpt2 ? 128 : 256);
            w = worse(
                w, run_prompts(names[i], json_object_get(golden, "prompts_long"), mo, limit, 512));
            worst = worse(worst, mo->limit > 0 ? w : w / limit);
            n_run++;
        }
        json_decref(golden);
    }
    assert_true(n_run > 0);
    print_message("%s: %d files, worst %s %.3g\n", mo->name, n_run,
                  mo->limit > 0 ? "difference" : "share of the limit", worst);
}

void golden_run(const golden_mode *modes, size_t n)
{
    if (n_names == 0) list_golden();
    for (size_t i = 0; i < n; i++) run_mode(&modes[i]);
}

// One row's result must not depend on what it is computed with.
static void same_bits_for_any_batch(const exec_kind *kind, const exec_gpu *gpu, plan_act act,
                                    quant_type kv_type, const char *name)
{
    static const uint32_t batches[] = {1, 2, 3, 7, 8, 9, 16, 17, 31, 32, 33, 64, 70};
    enum { N = 70 };
    char file[128];
    snprintf(file, sizeof file, "golden/%.90s.gguf", name);
    float *first = NULL;
    for (size_t b = 0; b < sizeof batches / sizeof batches[0]; b++) {
        plan_options options = {
            .n_ctx = 128, .n_slots = 1, .n_batch = batches[b], .kv_type = kv_type, .act = act};
        exec_params params = {.n_threads = 1 + (int)b % 3, .gpu = gpu};
        runner r;
        runner_open(&r, test_data(file), kind, &params, &options);
        int32_t ids[N];
        for (int i = 0; i < N; i++) ids[i] = (i * 37 + 11) % (int)r.set->n_vocab;
        size_t bytes = (size_t)N * r.set->n_vocab * sizeof(float);
        float *logits = malloc(bytes);
        assert_non_null(logits);
        runner_eval(&r, ids, N, logits, NULL);
        runner_close(&r);
        if (first && memcmp(first, logits, bytes) != 0)
            fail_msg("%s: other bits with a batch of %u", name, batches[b]);
        if (first)
            free(logits);
        else
            first = logits;
    }
    free(first);
}

void golden_batches(const exec_kind *kind, const exec_gpu *gpu)
{
    static const char *const files[] = {"smollm3-untied.q8_0", "smollm3-q4_k_m", "qwen2.q8_0",
                                        "llama-mix-legacy",    "llama-mix-k",    "gemma3.q8_0",
                                        "llama-tied.f16",      "gptneox.f32"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (!is_wanted(files[i])) continue;
        same_bits_for_any_batch(kind, gpu, PLAN_ACT_F32, QUANT_F32, files[i]);
        same_bits_for_any_batch(kind, gpu, PLAN_ACT_Q8, QUANT_F16, files[i]);
    }
}
