// An answer on its way to the reader, and the ways to stop it.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/cli.h"

// Read by the signal handler; one program, one running answer.
static pm_session *volatile interrupt_session;
static volatile double last_interrupt;
static volatile bool leave_slowly, leaves;

static void on_interrupt(void *arg)
{
    (void)arg;
    double now = os_seconds();
    if (last_interrupt > 0 && now - last_interrupt < 1.0) {
        if (!leave_slowly || leaves) os_die_by_interrupt();
        leaves = true;
    }
    last_interrupt = now;
    pm_session *session = interrupt_session;
    if (session) pm_session_interrupt(session);
}

void stream_catch(pm_session *session)
{
    interrupt_session = session;
    os_interrupts_clear();
    os_interrupts_call(on_interrupt, NULL);
    os_interrupts_catch();
}

pm_status show_sampler(const cli_args *args, const loaded *l, const char *more)
{
    char seed[32];
    const char *given = pm_options_get(args->options, "seed");
    pm_status status = PM_OK;
    if (!given || !strcmp(given, "random")) {
        snprintf(seed, sizeof seed, "%" PRIu64, os_random_seed() >> 11); // 53 bits
        status = pm_options_set(args->options, "seed", seed);
    }
    if (status != PM_OK || !args->verbose || args->quiet) return status;
    pm_sampler *sampler = NULL;
    status = pm_sampler_create(l->model, args->options, &sampler);
    if (status != PM_OK) return status;
    say("sampler: %s%s", pm_sampler_describe(sampler), more);
    pm_sampler_destroy(sampler);
    return PM_OK;
}

show_reasoning stream_reasoning(const cli_args *args)
{
    const char *no_color = getenv("NO_COLOR");
    bool terminal = os_is_terminal(1), plain = no_color && *no_color;
    bool wanted = args_get(args, "show-thinking") ? args_has(args, "show-thinking") : terminal;
    if (!wanted) return REASONING_HIDDEN;
    return terminal && !plain ? REASONING_DIM : REASONING_PLAIN;
}

static void dim(bool on)
{
    static const char off[] = "\033[22m";
    if (on) os_terminal_undo(1, off);
    out_text(on ? "\033[2m" : off);
    if (!on) os_terminal_undo(1, NULL);
}

// Reasoning is dim from its first piece to its last one, and a blank line parts it from the answer.
static void switch_part(stream *s, int from, int to)
{
    if (from == to || s->reasoning == REASONING_HIDDEN) return;
    if (to == PM_PART_REASONING) {
        if (s->reasoning == REASONING_DIM) dim(true);
    } else {
        if (s->reasoning == REASONING_DIM) dim(false);
        out_text(s->ends_line ? "\n" : "\n\n");
        s->ends_line = true;
    }
}

static void show_piece(stream *s, const char *text, size_t n, int part, int *before)
{
    if (!s->show || (part == PM_PART_REASONING && s->reasoning == REASONING_HIDDEN)) return;
    switch_part(s, *before, part);
    *before = part;
    s->ends_line = text[n - 1] == '\n';
    out_bytes(text, n);
    out_flush();
}

pm_status stream_run(stream *s, pm_generation *generation)
{
    pm_status status = PM_OK;
    int done = 0, part = PM_PART_ANSWER;
    s->ends_line = true;
    while (!done && status == PM_OK && os_interrupts() == 0) {
        const char *text;
        size_t n;
        status = pm_generation_next(generation, &text, &n, &done);
        if (status == PM_OK && n > 0) show_piece(s, text, n, pm_generation_part(generation), &part);
    }
    s->interrupted = os_interrupts() > 0;
    bool gone = os_end_asked(); // maybe with the terminal
    if (s->interrupted) {
        pm_generation_stop(generation);
        status = PM_OK; // an evaluation that was stopped is no failure
    }
    if (!s->show || gone) return status;
    if (part == PM_PART_REASONING && s->reasoning == REASONING_DIM) dim(false);
    if (!s->ends_line) out_text("\n");
    out_flush();
    return status;
}

void stream_leave_slowly(bool slowly)
{
    leave_slowly = slowly;
    os_ends_wait(slowly);
}

bool stream_leaves(void)
{
    return leaves || os_end_asked();
}

char *timing_of(const pm_generation *generation)
{
    char *text = NULL, *line = NULL;
    buf out = {0};
    if (pm_generation_json(generation, &text) != PM_OK) return NULL;
    json_t *all = json_loads(text, 0, NULL);
    const json_t *timings = json_object_get(all, "timings");
    buf_printf(&out,
               "prompt: %.0f tokens, %.0f of them cached, %.2f s (%.1f tokens/s); answer: %.0f "
               "tokens, %.2f s (%.1f tokens/s); first token after %.2f s; ended by: %s",
               number_in(all, "prompt_tokens", 0), number_in(all, "cached_tokens", 0),
               number_in(timings, "prompt_s", 0), number_in(timings, "prompt_tps", 0),
               number_in(all, "completion_tokens", 0), number_in(timings, "generate_s", 0),
               number_in(timings, "generate_tps", 0), number_in(timings, "first_token_s", 0),
               pm_generation_finish_reason(generation));
    json_decref(all);
    pm_free(text);
    return buf_take(&out, &line, NULL) == PM_OK ? line : NULL;
}
