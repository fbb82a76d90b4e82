// measure_chat MODEL: what a chat costs beside the model's own work, as ratios.
//
//   rendering   a conversation of 100 turns by the model's template: at most 5 ms
//   turn        the second turn of a chat with a history of about 4,000 tokens against reading it
//               all again: its answer starts at least 20 times sooner
//   sampler     a token by the default options against evaluating one: at most 2 % of the time; a
//               grammar's mask is shown beside it
//
// Medians of 5. --only NAME measures one of them. Exit status 1 where one is past its limit.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/os.h"
#include "base/rng.h"

enum { N_ROUNDS = 5, N_TURNS = 100, N_HISTORY = 4000 };

typedef struct bench {
    pm_options *options;
    pm_model *model;
    pm_session *session;
    bool failed;
} bench;

static void check(pm_status status)
{
    if (status == PM_OK) return;
    fprintf(stderr, "measure_chat: error: %s\n", pm_last_error());
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *list)
{
    qsort(list, N_ROUNDS, sizeof *list, by_value);
    return list[N_ROUNDS / 2];
}

static void verdict(bench *b, bool good)
{
    printf(good ? "  ok\n" : "  PAST ITS LIMIT\n");
    fflush(stdout);
    b->failed |= !good;
}

static pm_chat *new_chat(const bench *b)
{
    pm_chat *chat = NULL;
    check(pm_chat_create(b->session, b->options, &chat));
    return chat;
}

static void add_turn(pm_chat *chat, int k)
{
    char text[400];
    snprintf(text, sizeof text,
             "Question %d: what did the ship's cook say on the %d. day of the voyage, and who was "
             "on deck to hear it when the wind came round to the north?",
             k, k * 7 % 31 + 1);
    check(pm_chat_add(chat, "user", text));
    snprintf(
        text, sizeof text,
        "On that day the cook said that %d barrels were left; the mate and %d of the crew were "
        "on deck. They wrote it into the log, and nobody spoke of it again until evening.",
        k, k % 9 + 2);
    check(pm_chat_add(chat, "assistant", text));
}

// ---- rendering --------------------------------------------------------------------------------

static void measure_rendering(bench *b)
{
    pm_chat *chat = new_chat(b);
    double seconds[N_ROUNDS];
    size_t n = 0;
    for (int k = 0; k < N_TURNS; k++) add_turn(chat, k);
    for (int i = -1; i < N_ROUNDS; i++) { // the first one warms up
        char *text = NULL;
        double start = os_seconds();
        check(pm_chat_render(chat, 1, &text, &n));
        if (i >= 0) seconds[i] = os_seconds() - start;
        pm_free(text);
    }
    double ms = 1e3 * median(seconds);
    printf("rendering: %d turns, %zu bytes: %.2f ms (limit 5)", N_TURNS, n, ms);
    verdict(b, ms < 5);
    pm_chat_destroy(chat);
}

// ---- the second turn --------------------------------------------------------------------------

// Time to the first token of an answer to what the conversation holds.
static double first_token(pm_chat *chat)
{
    pm_generation *g = NULL;
    const char *text;
    size_t n;
    int done;
    double start = os_seconds();
    check(pm_chat_generate(chat, NULL, &g));
    check(pm_generation_next(g, &text, &n, &done));
    double seconds = os_seconds() - start;
    pm_generation_stop(g);
    return seconds;
}

static void measure_turn(bench *b)
{
    pm_chat *chat = new_chat(b);
    double warm[N_ROUNDS];
    int k = 0;
    while (pm_session_n_past(b->session) < N_HISTORY) {
        for (int i = 0; i < 10; i++) add_turn(chat, k++);
        check(pm_chat_add(chat, "user", "Go on."));
        first_token(chat);
        check(pm_chat_finish(chat));
    }
    size_t n_history = pm_chat_n_messages(chat);
    for (int i = 0; i < N_ROUNDS; i++) {
        char text[80];
        snprintf(text, sizeof text, "And what is in the log of day %d?", i);
        check(pm_chat_add(chat, "user", text));
        warm[i] = first_token(chat);
        if (i + 1 < N_ROUNDS) pm_chat_truncate(chat, n_history);
    }
    size_t n_reused = pm_chat_n_reused(chat), n_new = pm_chat_n_new(chat);
    check(pm_session_rewind(b->session, 0));
    double cold = first_token(chat);
    double ratio = cold / median(warm);
    printf("turn: %zu tokens reused, %zu new: %.3f s; all anew: %.2f s: %.1f times (limit 20)",
           n_reused, n_new, median(warm), cold, ratio);
    verdict(b, ratio >= 20);
    pm_chat_destroy(chat);
}

// ---- the sampler ------------------------------------------------------------------------------

// Random logits in the shape of a model's: most far below the few that matter.
static float *make_logits(int32_t n)
{
    float *logits = malloc((size_t)n * sizeof *logits);
    if (!logits) check(error_memory("logits", (uint64_t)n * sizeof *logits));
    for (int32_t i = 0; i < n; i++) {
        double u = rng_double(1, (uint64_t)i), v = rng_double(2, (uint64_t)i);
        logits[i] = (float)(3 * sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v));
    }
    return logits;
}

static double sampler_seconds(const bench *b, const float *logits, int32_t n)
{
    enum { DRAWS = 50 };
    double seconds[N_ROUNDS];
    pm_sampler *s = NULL;
    int32_t id;
    check(pm_sampler_create(b->model, b->options, &s));
    for (int i = 0; i < N_ROUNDS; i++) {
        double start = os_seconds();
        for (int k = 0; k < DRAWS; k++) {
            check(pm_sampler_sample(s, logits, n, &id));
            pm_sampler_accept(s, id);
        }
        seconds[i] = (os_seconds() - start) / DRAWS;
    }
    pm_sampler_destroy(s);
    return median(seconds);
}

static double token_seconds(const bench *b)
{
    enum { TOKENS = 16 };
    double seconds[N_ROUNDS];
    int32_t id = 100;
    check(pm_session_rewind(b->session, 0));
    check(pm_session_eval(b->session, &id, 1, 0));
    for (int i = 0; i < N_ROUNDS; i++) {
        double start = os_seconds();
        for (int k = 0; k < TOKENS; k++) check(pm_session_eval(b->session, &id, 1, 0));
        seconds[i] = (os_seconds() - start) / TOKENS;
    }
    return median(seconds);
}

// The worst of common cases: inside a JSON string nearly every token is allowed. Made new each
// time.
static double mask_seconds(const bench *b)
{
    static const char source[] = "root ::= \"\\\"\" [^\"\\\\\\x00-\\x1f]* \"\\\"\"";
    double seconds[N_ROUNDS];
    grammar *g = NULL;
    const grammar_tokens *tokens = NULL;
    check(grammar_parse(source, sizeof source - 1, &g));
    check(session_grammar_tokens(b->session, &tokens));
    for (int i = 0; i < N_ROUNDS; i++) {
        grammar_run *r = NULL;
        const uint64_t *bits;
        size_t n;
        check(grammar_run_open(g, tokens, &r));
        check(grammar_accept_bytes(r, "\"", 1));
        double start = os_seconds();
        check(grammar_mask(r, GRAMMAR_NO_LIMIT, &bits, &n));
        seconds[i] = os_seconds() - start;
        grammar_run_close(r);
    }
    grammar_free(g);
    return median(seconds);
}

static void measure_sampler(bench *b)
{
    int32_t n = pm_model_n_vocab(b->model);
    float *logits = make_logits(n);
    double draw = sampler_seconds(b, logits, n), token = token_seconds(b);
    printf("sampler: vocabulary %" PRId32 ": %.3f ms of a token's %.2f ms: %.2f %% (limit 2)", n,
           1e3 * draw, 1e3 * token, 100 * draw / token);
    verdict(b, draw < 0.02 * token);
    printf("grammar: the first mask in a JSON string: %.2f ms\n", 1e3 * mask_seconds(b));
    free(logits);
}

int main(int argc, char **argv)
{
    const char *only = NULL, *path = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--only") && i + 1 < argc) {
            only = argv[++i];
        } else {
            path = argv[i];
        }
    }
    if (!path || path[0] == '-') {
        fprintf(stderr, "usage: measure_chat [--only rendering|turn|sampler] MODEL\n");
        return 2;
    }
    bench b = {.options = pm_options_create()};
    check(pm_options_set(b.options, "device", "cpu"));
    check(pm_options_set(b.options, "ctx", "8192"));
    check(pm_model_open(path, b.options, &b.model));
    check(pm_session_create(b.model, b.options, &b.session));
    if (!only || !strcmp(only, "rendering")) measure_rendering(&b);
    if (!only || !strcmp(only, "turn")) measure_turn(&b);
    if (!only || !strcmp(only, "sampler")) measure_sampler(&b);
    pm_session_destroy(b.session);
    pm_model_close(b.model);
    pm_options_destroy(b.options);
    return b.failed ? 1 : 0;
}
