// What `bench -o json` prints.
#include "proof/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/os.h"
#include "proof/bandwidth.h"
#include "proof/profile.h"

enum { BENCH_SCHEMA = 1 }; // docs/bench.schema.json

// ---- what ran ---------------------------------------------------------------------------------

// The format that most bytes of the model are in.
static const char *main_type(const model *m)
{
    uint64_t most = 0;
    uint32_t best = 0;
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        uint64_t sum = 0;
        for (uint32_t j = 0; j < m->n_tensors; j++) {
            if (m->file_tensors[j]->type == m->file_tensors[i]->type) {
                sum += m->file_tensors[j]->bytes;
            }
        }
        if (sum <= most) continue;
        most = sum;
        best = m->file_tensors[i]->type;
    }
    return quant_type_name(best);
}

static json_t *model_json(const pm_model *pm)
{
    const gguf *g = pm->m->file;
    gguf_string name = {NULL, 0};
    if (gguf_get_string(g, "general.name", &name) != PM_OK || !name.data) {
        const char *path = gguf_path(g), *slash = strrchr(path, '/');
        name.data = slash ? slash + 1 : path;
        name.len = strlen(name.data);
    }
    json_t *o = json_object();
    bool good = json_put(o, "name", json_text(name.data, name.len)) &&
                json_put(o, "sha256", json_word(gguf_header_sha256(g))) &&
                json_put(o, "type", json_word(main_type(pm->m))) &&
                json_put(o, "bytes", json_size(pm->weight_bytes)) &&
                json_put(o, "parameters", json_size(pm->m->n_parameters));
    if (good) return o;
    json_decref(o);
    return NULL;
}

// What `devices` says of the device that ran, with the kernel variants in use.
static pm_status device_json(const pm_model *pm, const pm_options *options, json_t **out)
{
    char *text = NULL;
    pm_status status = pm_devices(options, &text);
    if (status != PM_OK) return status;
    json_t *all = json_loads(text, 0, NULL), *found = NULL, *d;
    size_t i;
    bool gpu = strncmp(pm->device, "vulkan", 6) == 0;
    json_array_foreach(json_object_get(all, "devices"), i, d)
    {
        const char *id = json_string_value(json_object_get(d, "id"));
        if (id && !strcmp(id, gpu ? pm->device : "cpu")) found = d;
    }
    json_t *o = found ? json_copy(found) : json_object();
    bool good = json_put(o, "id", json_word(pm->device)) &&
                json_put(o, "description", json_word(pm->description));
    json_decref(all);
    free(text);
    if (good) {
        *out = o;
        return PM_OK;
    }
    json_decref(o);
    return error_memory("a JSON document", 0);
}

static json_t *build_json(void)
{
    json_t *o = json_object();
#ifdef NDEBUG
    const char *kind = "release";
#else
    const char *kind = "debug";
#endif
    bool good = json_put(o, "version", json_word(PUMICE_VERSION)) &&
                json_put(o, "kind", json_word(kind)) &&
#ifdef __VERSION__
                json_put(o, "compiler", json_word(__VERSION__));
#else
                json_put(o, "compiler", json_null());
#endif
    if (good) return o;
    json_decref(o);
    return NULL;
}

// ---- results ----------------------------------------------------------------------------------

static const char *kind_name(const bench_case *c)
{
    return c->kind == BENCH_PROMPT ? "prompt" : "generate";
}

static bool put_case(json_t *o, const bench_case *c)
{
    return json_put(o, "kind", json_word(kind_name(c))) && json_put(o, "n", json_size(c->n)) &&
           json_put(o, "depth", json_size(c->depth));
}

static json_t *case_json(const plan_set *set, const bench_case *c, double bandwidth, double peak)
{
    bool good = !c->failure[0];
    json_t *samples = json_array(), *o = json_object();
    double rates[1000];
    for (uint32_t i = 0; i < c->n_samples; i++) {
        rates[i] = (double)c->n / c->seconds[i];
        json_array_append_new(samples, json_finite(rates[i]));
    }
    bench_statistics r = bench_statistics_of(rates, c->n_samples);
    bench_statistics s = bench_statistics_of(c->seconds, c->n_samples);
    uint64_t bytes = bench_bytes_per_token(set, c);
    double gbps = r.median * (double)bytes * 1e-9;
    bool prompt = c->kind == BENCH_PROMPT;
    bool put = put_case(o, c) && json_put(o, "samples_tps", samples) &&
               json_put(o, "median_tps", good ? json_finite(r.median) : json_null()) &&
               json_put(o, "mean_tps", good ? json_finite(r.mean) : json_null()) &&
               json_put(o, "sd_tps", good ? json_finite(r.sd) : json_null()) &&
               json_put(o, "first_token_s", good && prompt ? json_finite(s.median) : json_null()) &&
               json_put(o, "warm_ups", json_size(c->n_warm_ups)) &&
               json_put(o, "steady", json_boolean(c->steady)) &&
               json_put(o, "bytes_per_token", json_size(bytes)) &&
               json_put(o, "gbps", good ? json_finite(gbps) : json_null()) &&
               json_put(o, "percent_of_bandwidth",
                        good ? json_finite(100 * gbps * 1e9 / bandwidth) : json_null()) &&
               json_put(o, "percent_of_peak",
                        good && peak > 0 ? json_finite(100 * gbps / peak) : json_null()) &&
               json_put(o, "status", json_word(good ? "ok" : "failed")) &&
               json_put(o, "reason", good ? json_null() : json_word(c->failure));
    if (put) return o;
    json_decref(o);
    return NULL;
}

static json_t *results_json(const plan_set *set, const bench_case *cases, size_t n,
                            double bandwidth, double peak)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        if (json_array_append_new(list, case_json(set, &cases[i], bandwidth, peak)) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

// ---- running ----------------------------------------------------------------------------------

typedef struct bench {
    bench_case *cases;
    size_t n;
    bench_params params;
    profile *profiles; // [n] with per-op, else NULL
    double flops_per_second, peak_gbps;
    int checked; // did a check of the device pass in this run? -1: none ran
    char check_failure[256];
    pm_status check_status; // of a check that did not pass
    uint64_t rss;           // at most, of loading and measuring: a check needs the weights again
} bench;

static void bench_free(bench *b)
{
    for (size_t i = 0; i < b->n; i++) {
        free(b->cases[i].seconds);
        if (b->profiles) profile_free(&b->profiles[i]);
    }
    free(b->cases);
    free(b->profiles);
}

static pm_status add_case(bench *b, bench_kind kind, int64_t n, int64_t depth)
{
    if (n == 0) return PM_OK;
    bench_case *more = realloc(b->cases, (b->n + 1) * sizeof *more);
    if (!more) return error_memory("a benchmark", (b->n + 1) * sizeof *more);
    b->cases = more;
    bench_case c = {.kind = kind, .n = (uint32_t)n, .depth = (uint32_t)depth};
    c.seconds = malloc(b->params.repeat * sizeof *c.seconds);
    if (!c.seconds) return error_memory("a benchmark", b->params.repeat * sizeof *c.seconds);
    b->cases[b->n++] = c;
    return PM_OK;
}

// With --suite a list that was not given is the suite's.
static bool list_item(const pm_options *o, const char *name, const int64_t *suite, size_t n_suite,
                      size_t index, int64_t *out)
{
    if (!options_is_on(o, "suite") || pm_options_is_set(o, name))
        return options_list_item(o, name, index, out);
    if (index >= n_suite) return false;
    *out = suite[index];
    return true;
}

static pm_status add_cases(bench *b, const pm_options *o)
{
    static const int64_t prompts[] = {512}, gens[] = {128}, depths[] = {0, 4096};
    pm_status status = PM_OK;
    int64_t depth, n;
    for (size_t d = 0; list_item(o, "depth", depths, 2, d, &depth); d++) {
        for (size_t i = 0; status == PM_OK && list_item(o, "prompt", prompts, 1, i, &n); i++) {
            status = add_case(b, BENCH_PROMPT, n, depth);
        }
        for (size_t i = 0; status == PM_OK && list_item(o, "gen", gens, 1, i, &n); i++) {
            status = add_case(b, BENCH_GENERATE, n, depth);
        }
    }
    if (status == PM_OK && b->n == 0) {
        status = error_set(PM_ERROR_USAGE, "nothing to measure: options 'prompt' and 'gen' are 0");
    }
    return status;
}

enum { ROOF_ROWS = 64 }; // with so many rows a matrix product isn't held up by memory any more

// The context that the largest case needs, where the option leaves it open.
static uint32_t largest_context(const model *m, const bench *b, bool per_op)
{
    uint32_t most = !per_op ? 1 : m->n_ctx_train < ROOF_ROWS ? m->n_ctx_train : ROOF_ROWS;
    for (size_t i = 0; i < b->n; i++) {
        uint32_t need = b->cases[i].depth + b->cases[i].n;
        if (need > most) most = need;
    }
    return most;
}

// ---- ops --------------------------------------------------------------------------------------

// Runs every case that works once more with its ops timed.
static pm_status take_profiles(session *s, bench *b)
{
    b->profiles = calloc(b->n, sizeof *b->profiles);
    if (!b->profiles) return error_memory("times of ops", b->n * sizeof *b->profiles);
    uint32_t n_roof = session_n_ctx(s) < ROOF_ROWS ? session_n_ctx(s) : ROOF_ROWS;
    pm_status status = profile_roof(s, b->params.seed, n_roof, &b->flops_per_second);
    for (size_t i = 0; i < b->n && status == PM_OK; i++) {
        if (b->cases[i].failure[0]) continue;
        status = profile_run(s, b->params.seed, &b->cases[i], &b->profiles[i]);
    }
    return status;
}

static double seconds_of(const profile *p)
{
    double seconds = 0;
    for (uint32_t i = 0; i < p->n_rows; i++) seconds += p->rows[i].seconds;
    return seconds;
}

static json_t *op_json(const bench *b, size_t index, const profile_row *row, double bandwidth)
{
    const bench_case *c = &b->cases[index];
    double percent = 100 * row->seconds / seconds_of(&b->profiles[index]);
    json_t *o = json_object();
    bool timed = row->seconds > 0;
    double gbps = (double)row->bytes * 1e-9 / row->seconds;
    double gflops = (double)row->flops * 1e-9 / row->seconds;
    bool good = put_case(o, c) && json_put(o, "op", json_word(plan_op_name(row->kind))) &&
                json_put(o, "label", json_word(row->label)) &&
                json_put(o, "calls", json_size(row->calls)) &&
                json_put(o, "seconds", json_finite(row->seconds)) &&
                json_put(o, "percent_of_time", json_finite(percent)) &&
                json_put(o, "bytes", json_size(row->bytes)) &&
                json_put(o, "flops", json_size(row->flops)) &&
                json_put(o, "gbps", timed ? json_finite(gbps) : json_null()) &&
                json_put(o, "gflops", timed ? json_finite(gflops) : json_null()) &&
                json_put(o, "bound", json_word(profile_bound(row, bandwidth, b->flops_per_second)));
    if (good) return o;
    json_decref(o);
    return NULL;
}

static json_t *profile_json(const bench_case *c, const profile *p)
{
    bool any = p->dispatches > 0;
    json_t *o = json_object();
    bool good =
        put_case(o, c) && json_put(o, "seconds", json_finite(seconds_of(p))) &&
        json_put(o, "clock", json_word(p->host_clock ? "host" : "device")) &&
        json_put(o, "clock_reason",
                 json_word(p->implausible ? "the device's times could not be right" : NULL)) &&
        json_put(o, "dispatches", any ? json_size(p->dispatches) : json_null()) &&
        json_put(o, "dispatches_a_layer", any ? json_size(p->dispatches_a_layer) : json_null());
    if (good) return o;
    json_decref(o);
    return NULL;
}

static bool put_profiles(json_t *o, const bench *b, double bandwidth)
{
    json_t *profiles = json_array(), *ops = json_array();
    bool good = true;
    for (size_t i = 0; i < b->n && good; i++) {
        const profile *p = &b->profiles[i];
        if (p->n_rows == 0) continue;
        good = json_array_append_new(profiles, profile_json(&b->cases[i], p)) == 0;
        for (uint32_t k = 0; k < p->n_rows && good; k++)
            good = json_array_append_new(ops, op_json(b, i, &p->rows[k], bandwidth)) == 0;
    }
    double gflops = b->flops_per_second * 1e-9;
    good = json_put(o, "roof_gflops", gflops > 0 ? json_finite(gflops) : json_null()) && good;
    good = json_put(o, "profiles", profiles) && good;
    return json_put(o, "ops", ops) && good;
}

static json_t *checked_json(const bench *b)
{
    return b->checked < 0 ? json_null() : json_boolean(b->checked);
}

// What stands at the beginning of every document.
static pm_status begin(const pm_model *pm, const plan_set *set, const pm_options *options,
                       const bench *b, json_t **out)
{
    json_t *device = NULL, *o = json_object();
    pm_status status = device_json(pm, options, &device);
    if (status != PM_OK) {
        json_decref(o);
        return status;
    }
    const char *driver = json_string_value(json_object_get(device, "driver"));
    const char *version = json_string_value(json_object_get(device, "driver_version"));
    char text[520] = "";
    if (driver) snprintf(text, sizeof text, "%s %s", driver, version ? version : "");
    bool good = json_put(o, "device", device);
    good = good && json_put(o, "schema", json_integer(BENCH_SCHEMA)) &&
           json_put(o, "driver", driver ? json_word(text) : json_null()) &&
           json_put(o, "model", model_json(pm)) &&
           json_put(o, "threads", json_integer(pm->n_threads)) &&
           json_put(o, "batch", json_size(set->n_batch)) &&
           json_put(o, "n_ctx", json_size(set->n_ctx)) &&
           json_put(o, "kv_type", json_word(params_kv_name(set->kv_type))) &&
           json_put(o, "build", build_json()) && json_put(o, "seed", json_size(b->params.seed)) &&
           json_put(o, "checked", checked_json(b)) &&
           json_put(o, "checked_reason",
                    b->check_failure[0] ? json_word(b->check_failure) : json_null()) &&
           json_put(o, "peak_gbps", b->peak_gbps > 0 ? json_finite(b->peak_gbps) : json_null());
    if (good) {
        *out = o;
        return PM_OK;
    }
    json_decref(o);
    return error_memory("a JSON document", 0);
}

static pm_status report(const pm_model *pm, const plan_set *set, const pm_options *options,
                        const bench *b, char **json)
{
    double bandwidth = NAN; // a roof that can't be measured takes nothing from the speeds below it
    char reason[512] = "";
    if (bandwidth_measure_device(pm->loaded, pm->n_threads, &bandwidth) != PM_OK)
        snprintf(reason, sizeof reason, "%s", error_message());
    json_t *o = NULL;
    pm_status status = begin(pm, set, options, b, &o);
    if (status != PM_OK) return status;
    bool good =
        json_put(o, "bandwidth_gbps", json_finite(bandwidth * 1e-9)) &&
        json_put(o, "bandwidth_reason", reason[0] ? json_word(reason) : json_null()) &&
        json_put(o, "load_s", json_finite(pm->load_seconds)) &&
        json_put(o, "peak_rss_bytes", b->rss ? json_size(b->rss) : json_null()) &&
        json_put(o, "results", results_json(set, b->cases, b->n, bandwidth, b->peak_gbps)) &&
        (!b->profiles || put_profiles(o, b, bandwidth));
    if (good) return json_take(o, json);
    json_decref(o);
    return error_memory("a JSON document", 0);
}

// ---- estimating -------------------------------------------------------------------------------

static json_t *estimate_json(const plan_set *set, const bench_case *c, double gbps)
{
    bench_cost cost = bench_cost_per_token(set, c);
    json_t *o = json_object();
    bool good = put_case(o, c) && json_put(o, "status", json_word("estimated")) &&
                json_put(o, "reason", json_null()) && json_put(o, "samples_tps", json_array()) &&
                json_put(o, "bytes_per_token", json_finite(cost.bytes)) &&
                json_put(o, "flops_per_token", json_finite(cost.flops)) &&
                json_put(o, "ops_per_token", json_finite(cost.ops)) &&
                json_put(o, "bound_tps", json_finite(gbps * 1e9 / cost.bytes)) &&
                json_put(o, "gflops_at_bound", json_finite(cost.flops * gbps / cost.bytes));
    if (good) return o;
    json_decref(o);
    return NULL;
}

// The roofline from the plan alone: what memory of this bandwidth allows at most.
static pm_status estimate(const pm_model *pm, const pm_options *options, const plan_options *how,
                          const bench *b, char **json)
{
    double gbps = options_real(options, "estimate");
    plan_set *set = NULL;
    json_t *o = NULL, *list = json_array();
    pm_status status = plan_build(pm->m, how, &set);
    if (status == PM_OK) status = begin(pm, set, options, b, &o);
    bool good = status == PM_OK;
    for (size_t i = 0; i < b->n && good; i++)
        good = json_array_append_new(list, estimate_json(set, &b->cases[i], gbps)) == 0;
    if (status == PM_OK) {
        good = json_put(o, "estimate_gbps", json_finite(gbps)) && good;
        good = json_put(o, "results", json_incref(list)) && good;
        status = good ? json_take(o, json) : error_memory("a JSON document", 0);
    }
    json_decref(list);
    plan_set_free(set);
    return status;
}

// ---- all --------------------------------------------------------------------------------------

static pm_status first_failure(const bench *b)
{
    size_t n = 0, first = 0;
    for (size_t i = b->n; i-- > 0;) {
        if (!b->cases[i].failure[0]) continue;
        n++;
        first = i;
    }
    if (n == 0) return PM_OK;
    return error_set(PM_ERROR_RUN, "bench: %zu of %zu configurations failed; the first: %s", n,
                     b->n, b->cases[first].failure);
}

static pm_status measure(pm_model *pm, const pm_options *options, const plan_options *how, bench *b)
{
    session *s = NULL;
    pm_status status = session_open(pm->loaded, how, &s);
    if (status == PM_OK) {
        weights_settle(pm->loaded);
        bench_run(s, &b->params, b->cases, b->n);
        if (options_is_on(options, "per-op")) status = take_profiles(s, b);
    }
    session_close(s);
    b->rss = os_peak_rss();
    return status;
}

// In the same run, but after it: what a check holds in memory is not the model's.
static void check_device(pm_model *pm, const pm_options *options, bench *b)
{
    bool suite = options_is_on(options, "suite"), passed = false;
    if (!options_is_on(options, "checked") && !(suite && !pm_options_is_set(options, "checked")))
        return;
    pm_status status = check_quickly(pm, options, &passed);
    if (status == PM_OK) b->checked = passed;
    if (passed) return;
    snprintf(b->check_failure, sizeof b->check_failure, "%s", error_message());
    b->check_status = status == PM_OK ? PM_ERROR_CHECK : status;
}

static pm_status run_cases(pm_model *pm, const pm_options *options, const plan_options *how,
                           bench *b, char **json)
{
    plan_set *set = NULL;
    pm_status status = measure(pm, options, how, b);
    if (status == PM_OK) status = plan_build(pm->m, how, &set);
    if (status == PM_OK) check_device(pm, options, b);
    if (status == PM_OK) status = report(pm, set, options, b, json);
    plan_set_free(set);
    if (status == PM_OK) status = first_failure(b);
    if (status == PM_OK && b->check_status != PM_OK)
        status = error_set(b->check_status, "bench: the device %s: %s",
                           b->check_status == PM_ERROR_CHECK ? "failed the quick check"
                                                             : "could not be checked",
                           b->check_failure);
    return status;
}

pm_status pm_bench(pm_model *pm, const pm_options *options, char **json)
{
    if (!pm->loaded) {
        return error_set(PM_ERROR_USAGE, "the model was opened with vocab-only: no weights");
    }
    bool suite = options_is_on(options, "suite");
    int64_t seed = options_int(options, "seed", suite ? 1 : -1);
    bench b = {.params = {.repeat = (uint32_t)options_int(options, "repeat", 5),
                          .seed = seed >= 0 ? (uint64_t)seed : os_random_seed() >> 11,
                          .pause_s = options_real(options, "pause")},
               .peak_gbps = options_real(options, "peak-gbps"),
               .checked = -1};
    plan_options how;
    pm_status status = add_cases(&b, options);
    if (status == PM_OK) status = params_plan(pm->m, pm->loaded, pm->device, options, &how);
    if (status == PM_OK && !pm_options_is_set(options, "ctx"))
        how.n_ctx = largest_context(pm->m, &b, options_is_on(options, "per-op"));
    if (status == PM_OK && options_real(options, "estimate") > 0)
        status = estimate(pm, options, &how, &b, json);
    else if (status == PM_OK)
        status = run_cases(pm, options, &how, &b, json);
    bench_free(&b);
    return status;
}
