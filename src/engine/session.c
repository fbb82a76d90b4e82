#include "engine/session.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/size.h"
#include "engine/sampler.h"

// A part of the weights with this session's state for its layers.
typedef struct segment {
    const exec_kind *kind;
    exec *state;
    uint32_t first_layer;
} segment;

struct session {
    const weights *w;
    plan_set *plan;
    segment segments[WEIGHTS_MAX_PARTS];
    uint32_t n_segments;
    uint64_t kv_bytes;

    int32_t *tokens; // [n_ctx]
    uint32_t n_past;
    uint64_t n_changes; // of the tokens

    plan_step step;
    float *logits; // [cap_logits][n_vocab], the first n_logits valid
    size_t n_logits, cap_logits;
    float *residual; // [n_batch][n_embd]: rows that cross from one segment to the next
    float *hidden;   // [n_layer + 1][n_embd], NULL: not kept
    bool hidden_valid;

    bool wants_pick; // the running eval ends with PICK
    bool has_pick;   // it found finite logits only: nothing else is needed
    plan_pick pick;

    bool ahead;          // decodes ahead
    int32_t ahead_id;    // the token whose row is told next
    uint64_t ahead_left; // rows that will be told

    session_clock *clock; // NULL: ops are not timed
    double *op_seconds;   // [most ops of a plan] with a clock

    atomic_bool interrupt;
    bool interrupted;
};

static pm_status open_segments(session *s)
{
    const weights *w = s->w;
    for (uint32_t i = 0; i < w->n_parts; i++) {
        const weights_part *part = &w->parts[i];
        segment *seg = &s->segments[i];
        bool outer = i == 0 || i + 1 == w->n_parts;
        pm_status status = part->kind->open(part->loaded, s->plan, part->first_layer,
                                            part->end_layer, outer, &seg->state);
        if (status != PM_OK) return status;
        seg->kind = part->kind;
        seg->first_layer = part->first_layer;
        s->n_segments = i + 1;
    }
    return PM_OK;
}

static pm_status open_parts(session *s, const plan_options *options)
{
    pm_status status = plan_build(s->w->m, options, &s->plan);
    if (status != PM_OK) return status;
    uint64_t rows = (uint64_t)s->plan->n_batch * s->plan->n_embd;
    s->tokens = malloc((size_t)options->n_ctx * sizeof *s->tokens);
    if (s->w->n_parts > 1) s->residual = malloc((size_t)rows * sizeof *s->residual);
    if (!s->tokens || (s->w->n_parts > 1 && !s->residual)) {
        return error_memory("a session", rows * sizeof *s->residual);
    }
    return open_segments(s);
}

// What takes less memory, where that may be what is missing.
static const char *smaller_hint(pm_status status, const plan_options *options, const model *m)
{
    if (status != PM_ERROR_RUN) return "";
    return options->kv_type != QUANT_Q8_0 && m->head_dim % 32 == 0
               ? " (try a smaller --ctx, or --kv-type q8_0)"
               : " (try a smaller --ctx)";
}

pm_status session_open(const weights *w, const plan_options *options, session **out)
{
    assert(options->n_slots == 1);
    session *s = calloc(1, sizeof *s);
    if (!s) return error_memory("a session", sizeof *s);
    s->w = w;
    atomic_init(&s->interrupt, false);
    pm_status status = PM_OK;
    if (!plan_kv_bytes(w->m, options->n_ctx, 1, options->kv_type, &s->kv_bytes)) {
        status = error_set(PM_ERROR_USAGE, "a context of %" PRIu32 " tokens is too large",
                           options->n_ctx);
    } else {
        status = open_parts(s, options);
        status = error_in(status,
                          "a context of %" PRIu32 " tokens, %" PRIu64 " bytes of keys and values%s",
                          options->n_ctx, s->kv_bytes, smaller_hint(status, options, w->m));
    }
    if (status == PM_OK) {
        *out = s;
    } else {
        session_close(s);
    }
    return status;
}

void session_close(session *s)
{
    if (!s) return;
    session_ahead_end(s);
    for (uint32_t i = 0; i < s->n_segments; i++) s->segments[i].kind->close(s->segments[i].state);
    plan_set_free(s->plan);
    free(s->tokens);
    free(s->logits);
    free(s->residual);
    free(s->hidden);
    free(s->op_seconds);
    free(s);
}

const plan_set *session_plan(const session *s)
{
    return s->plan;
}

uint64_t session_kv_bytes(const session *s)
{
    return s->kv_bytes;
}

uint32_t session_n_ctx(const session *s)
{
    return s->plan->n_ctx;
}

uint32_t session_n_past(const session *s)
{
    return s->n_past;
}

const int32_t *session_tokens(const session *s)
{
    return s->tokens;
}

uint64_t session_changes(const session *s)
{
    return s->n_changes;
}

const char *session_prepared(const session *s)
{
    for (uint32_t i = 0; i < s->n_segments; i++)
        if (s->segments[i].kind->prepared)
            return s->segments[i].kind->prepared(s->segments[i].state);
    return "";
}

// ---- one step ---------------------------------------------------------------------------------

static pm_status run_timed(session *s, const segment *seg, const plan *p, uint32_t first,
                           uint32_t count)
{
    bool plausible;
    pm_status status = exec_run_timed(seg->kind, seg->state, p, first, count, &s->step,
                                      s->clock->host, s->op_seconds, &plausible);
    if (status != PM_OK) return status;
    if (!seg->kind->run_timed || s->clock->host) s->clock->used_host = true;
    if (!plausible) s->clock->implausible = true;
    for (uint32_t i = 0; i < count; i++)
        s->clock->op(s->clock->arg, &p->ops[first + i], &s->step, s->op_seconds[i]);
    return PM_OK;
}

typedef struct run_call {
    session *s;
    const segment *seg;
    const plan *p;
    uint32_t first, count;
    pm_status status;
} run_call;

static void run_guarded(void *arg)
{
    run_call *c = arg;
    if (c->s->clock) {
        c->status = run_timed(c->s, c->seg, c->p, c->first, c->count);
    } else {
        c->status = c->seg->kind->run(c->seg->state, c->p, c->first, c->count, &c->s->step);
    }
}

static pm_status run_ops(session *s, const segment *seg, const plan *p, uint32_t first,
                         uint32_t end)
{
    if (first >= end) return PM_OK;
    run_call call = {s, seg, p, first, end - first, PM_OK};
    if (os_guard_mapped(run_guarded, &call)) return call.status;
    return error_set(PM_ERROR_FILE, "%s: became shorter while it was in use",
                     gguf_path(s->w->m->file));
}

static uint32_t layer_start(const plan *p, uint32_t layer)
{
    uint32_t first, count;
    plan_layer_ops(p, (int)layer, &first, &count);
    return first;
}

// The op behind the last layer.
static uint32_t layers_end(const session *s, const plan *p)
{
    uint32_t first, count;
    plan_layer_ops(p, (int)s->plan->n_layer - 1, &first, &count);
    return first + count;
}

// Residual rows of the step from one segment to the next.
static pm_status hand_over(session *s, const segment *from, const segment *to)
{
    uint64_t bytes = s->step.n_rows * s->plan->bufs[PLAN_X].row_bytes;
    pm_status status = from->kind->read(from->state, PLAN_X, 0, s->residual, bytes);
    if (status != PM_OK) return status;
    return to->kind->write(to->state, PLAN_X, 0, s->residual, bytes);
}

static pm_status keep_residual(session *s, const segment *seg, int layer)
{
    uint64_t row_bytes = s->plan->bufs[PLAN_X].row_bytes;
    float *to = s->hidden + (size_t)(layer + 1) * s->plan->n_embd;
    return seg->kind->read(seg->state, PLAN_X, (s->step.n_rows - 1) * row_bytes, to,
                           s->plan->n_embd * sizeof *to);
}

// Ops [first, end) of a segment, stopping at each layer's border to keep the residual stream.
static pm_status run_watched(session *s, const segment *seg, const plan *p, uint32_t first,
                             uint32_t end)
{
    pm_status status = PM_OK;
    for (uint32_t layer = seg->first_layer; status == PM_OK && layer < s->plan->n_layer; layer++) {
        uint32_t from, count;
        plan_layer_ops(p, (int)layer, &from, &count);
        if (from >= end) break;
        if (layer == 0) {
            status = run_ops(s, seg, p, first, from);
            if (status == PM_OK) status = keep_residual(s, seg, -1);
        }
        if (status == PM_OK) status = run_ops(s, seg, p, from, from + count);
        if (status == PM_OK) status = keep_residual(s, seg, (int)layer);
        first = from + count;
    }
    return status == PM_OK ? run_ops(s, seg, p, first, end) : status;
}

// Where the step block ends: without rows that want logits with the layers, else with the logits,
// from which the host draws, or with PICK on executors far from it.
static uint32_t step_end(const session *s, const plan *p)
{
    if (s->step.n_logits == 0) return layers_end(s, p);
    uint32_t end = p->n_ops;
    while (!s->wants_pick && end > 0 && p->ops[end - 1].kind == PLAN_PICK_OP) end--;
    return end;
}

// Runs the step block through all segments.
static pm_status run_step(session *s, bool watch)
{
    const plan *p = plan_for_rows(s->plan, s->step.n_rows);
    uint32_t end = step_end(s, p);
    for (uint32_t i = 0; i < s->n_segments; i++) {
        const segment *seg = &s->segments[i];
        uint32_t first = i == 0 ? 0 : layer_start(p, seg->first_layer);
        uint32_t stop = i + 1 == s->n_segments ? end : layer_start(p, seg[1].first_layer);
        pm_status status = i > 0 ? hand_over(s, &seg[-1], seg) : PM_OK;
        if (status == PM_OK) {
            status = watch ? run_watched(s, seg, p, first, stop) : run_ops(s, seg, p, first, stop);
        }
        if (status != PM_OK) return status;
    }
    return PM_OK;
}

static pm_status read_logits(session *s, uint32_t first_pos)
{
    const segment *last = &s->segments[s->n_segments - 1];
    if (s->wants_pick && s->step.n_logits > 0) {
        pm_status status = last->kind->read(last->state, PLAN_PICK, 0, &s->pick, sizeof s->pick);
        s->has_pick = status == PM_OK && s->pick.finite;
        if (status != PM_OK || s->has_pick) return status;
    }
    uint64_t row_bytes = s->plan->bufs[PLAN_LOGITS].row_bytes;
    size_t n_vocab = s->plan->n_vocab;
    for (uint32_t i = 0; i < s->step.n_logits; i++) {
        float *to = s->logits + s->n_logits * n_vocab;
        pm_status status =
            last->kind->read(last->state, PLAN_LOGITS, i * row_bytes, to, n_vocab * sizeof *to);
        if (status == PM_OK) status = logits_check(to, (int32_t)n_vocab);
        if (status != PM_OK) {
            return error_in(status, "position %" PRIu32, first_pos + s->step.logit_rows[i]);
        }
        s->n_logits++;
    }
    return PM_OK;
}

// Tokens ids[0..n) at positions from n_past on; marks the rows that want logits.
static void fill_step(session *s, const int32_t *ids, uint32_t n, bool last, bool all)
{
    s->step.n_rows = n;
    s->step.n_logits = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t pos = s->n_past + i;
        s->step.rows[i] = (plan_row){.token = ids[i], .pos = pos, .slot = 0, .n_kv = pos + 1};
        if (all || (last && i + 1 == n)) s->step.logit_rows[s->step.n_logits++] = (uint16_t)i;
    }
}

// ---- eval -------------------------------------------------------------------------------------

static pm_status check_tokens(const session *s, const int32_t *ids, size_t n)
{
    if (n > s->plan->n_ctx - s->n_past) {
        return error_set(PM_ERROR_USAGE,
                         "%zu tokens do not fit: the context holds %" PRIu32 ", %" PRIu32
                         " are in use",
                         n, s->plan->n_ctx, s->n_past);
    }
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= s->plan->n_vocab) {
            return error_set(PM_ERROR_USAGE, "no token %d (0 to %" PRIu32 ")", ids[i],
                             s->plan->n_vocab - 1);
        }
    }
    return PM_OK;
}

static pm_status reserve_logits(session *s, size_t rows)
{
    if (rows <= s->cap_logits) return PM_OK;
    uint64_t bytes = 0;
    if (!size_mul(rows, (uint64_t)s->plan->n_vocab * sizeof *s->logits, &bytes) || bytes == 0 ||
        bytes > SIZE_MAX / 2) {
        return error_memory("logits", UINT64_MAX);
    }
    free(s->logits);
    s->cap_logits = 0;
    s->logits = malloc((size_t)bytes);
    if (!s->logits) return error_memory("logits", bytes);
    s->cap_logits = rows;
    return PM_OK;
}

static pm_status eval_chunks(session *s, const int32_t *ids, size_t n, bool all)
{
    // Logits of all rows: no more rows at once than the plan has room for.
    uint32_t most = s->plan->n_batch;
    if (all && s->plan->n_logits < most) most = s->plan->n_logits;
    for (size_t done = 0; done < n;) {
        if (atomic_exchange(&s->interrupt, false)) {
            s->interrupted = true;
            return error_set(PM_ERROR_RUN, "interrupted at position %" PRIu32, s->n_past);
        }
        uint32_t rows = n - done < most ? (uint32_t)(n - done) : most;
        bool last = done + rows == n;
        fill_step(s, ids + done, rows, last, all);
        pm_status status = run_step(s, last && s->hidden);
        if (status == PM_OK) status = read_logits(s, s->n_past);
        if (status != PM_OK) return status;
        memcpy(s->tokens + s->n_past, ids + done, rows * sizeof *ids);
        s->n_past += rows;
        done += rows;
    }
    return PM_OK;
}

pm_status session_eval(session *s, const int32_t *ids, size_t n, bool all)
{
    session_ahead_end(s);
    s->interrupted = false;
    s->has_pick = false;
    pm_status status = check_tokens(s, ids, n);
    if (status != PM_OK || n == 0) return status;
    s->n_changes++;
    s->n_logits = 0;
    s->hidden_valid = false;
    status = reserve_logits(s, all ? n : 1);
    uint32_t before = s->n_past;
    if (status == PM_OK) status = eval_chunks(s, ids, n, all);
    if (status != PM_OK) {
        // Rows behind n_past are never read, and are written again before they count.
        s->n_past = before;
        s->n_logits = 0;
        return status;
    }
    s->hidden_valid = s->hidden != NULL;
    return PM_OK;
}

pm_status session_eval_pick(session *s, const int32_t *ids, size_t n, const plan_pick **pick)
{
    const segment *last = &s->segments[s->n_segments - 1];
    s->wants_pick = last->kind->prefers_pick && last->kind->prefers_pick(last->state);
    pm_status status = session_eval(s, ids, n, false);
    s->wants_pick = false;
    *pick = status == PM_OK && s->has_pick ? &s->pick : NULL;
    return status;
}

// ---- ahead of the host ------------------------------------------------------------------------

pm_status session_ahead_begin(session *s, int32_t id, uint64_t most, bool *begun)
{
    const segment *seg = &s->segments[0];
    *begun = false;
    session_ahead_end(s);
    if (s->n_segments != 1 || !seg->kind->can_ahead || !seg->kind->can_ahead(seg->state) ||
        s->hidden || s->clock || most == 0)
        return PM_OK;
    pm_status status = check_tokens(s, &id, 1);
    if (status != PM_OK) return status;
    uint32_t room = s->plan->n_ctx - s->n_past;
    s->ahead_left = most < room ? most : room;
    s->ahead_id = id;
    s->interrupted = false;
    s->n_logits = 0;
    s->hidden_valid = false;
    fill_step(s, &id, 1, true, false);
    const plan *p = plan_for_rows(s->plan, 1);
    status =
        seg->kind->ahead_begin(seg->state, p, 0, step_end(s, p), &s->step, (uint32_t)s->ahead_left);
    *begun = s->ahead = status == PM_OK;
    return status;
}

pm_status session_ahead_next(session *s, int32_t *id, bool *certain)
{
    const segment *seg = &s->segments[0];
    exec_choice choice = {0};
    pm_status status = PM_OK;
    *certain = false;
    if (!s->ahead) return PM_OK; // something else was called for the session
    if (atomic_exchange(&s->interrupt, false)) {
        s->interrupted = true;
        status = error_set(PM_ERROR_RUN, "interrupted at position %" PRIu32, s->n_past);
    }
    if (status == PM_OK) status = seg->kind->ahead_next(seg->state, &choice);
    *certain = status == PM_OK && choice.certain;
    if (*certain) {
        s->tokens[s->n_past++] = s->ahead_id;
        s->n_changes++;
        *id = s->ahead_id = choice.id;
        s->ahead_left--;
    }
    if (!*certain || s->ahead_left == 0) session_ahead_end(s);
    return status;
}

void session_ahead_end(session *s)
{
    if (s->ahead) s->segments[0].kind->ahead_end(s->segments[0].state);
    s->ahead = false;
}

const float *session_logits(const session *s, size_t index)
{
    return index < s->n_logits ? s->logits + index * s->plan->n_vocab : NULL;
}

void session_rewind(session *s, uint32_t n_past)
{
    assert(n_past <= s->n_past);
    session_ahead_end(s);
    s->n_past = n_past;
    s->n_changes++;
    s->n_logits = 0;
    s->hidden_valid = false;
}

uint32_t session_reuse(session *s, const int32_t *prompt, size_t n)
{
    uint32_t kept = 0;
    while (kept < s->n_past && kept + 1 < n && s->tokens[kept] == prompt[kept]) kept++;
    session_rewind(s, kept);
    atomic_store(&s->interrupt, false); // it was meant for what ran before
    return kept;
}

// ---- the cache in a file ----------------------------------------------------------------------

static const segment *segment_of(const session *s, uint32_t layer)
{
    uint32_t i = s->n_segments - 1;
    while (i > 0 && s->segments[i].first_layer > layer) i--;
    return &s->segments[i];
}

uint64_t session_cache_bytes(const session *s, uint32_t n_tokens)
{
    const plan_buf *k = &s->plan->bufs[PLAN_KV];
    return n_tokens *
           (sizeof *s->tokens + 2 * (uint64_t)s->plan->n_layer * s->plan->n_head_kv * k->row_bytes);
}

// Moves rows of one head of K or V, one buffer at a time, through `rows`.
typedef pm_status (*move_rows)(const segment *seg, int buffer, uint64_t offset, void *rows,
                               uint64_t n, void *arg);

static pm_status each_head(session *s, uint32_t n_tokens, move_rows move, void *arg)
{
    uint64_t row_bytes = s->plan->bufs[PLAN_KV].row_bytes, n = n_tokens * row_bytes;
    if (n == 0) return PM_OK;
    void *rows = malloc((size_t)n);
    if (!rows) return error_memory("a part of the cache", n);
    pm_status status = PM_OK;
    for (uint32_t b = 0; b < 2 * s->plan->n_layer; b++) {
        for (uint32_t head = 0; head < s->plan->n_head_kv && status == PM_OK; head++) {
            uint64_t offset = (uint64_t)head * s->plan->n_ctx * row_bytes;
            status = move(segment_of(s, b / 2), PLAN_KV + (int)b, offset, rows, n, arg);
        }
    }
    free(rows);
    return status;
}

typedef struct file_end {
    pm_status (*take)(void *arg, const void *data, uint64_t n);
    pm_status (*give)(void *arg, void *data, uint64_t n);
    void *arg;
} file_end;

static pm_status rows_out(const segment *seg, int buffer, uint64_t offset, void *rows, uint64_t n,
                          void *arg)
{
    const file_end *file = arg;
    pm_status status = seg->kind->read(seg->state, buffer, offset, rows, n);
    return status == PM_OK ? file->take(file->arg, rows, n) : status;
}

static pm_status rows_in(const segment *seg, int buffer, uint64_t offset, void *rows, uint64_t n,
                         void *arg)
{
    const file_end *file = arg;
    pm_status status = file->give(file->arg, rows, n);
    return status == PM_OK ? seg->kind->write(seg->state, buffer, offset, rows, n) : status;
}

pm_status session_cache_save(session *s, pm_status (*take)(void *arg, const void *data, uint64_t n),
                             void *arg)
{
    file_end file = {.take = take, .arg = arg};
    session_ahead_end(s);
    pm_status status = take(arg, s->tokens, s->n_past * sizeof *s->tokens);
    return status == PM_OK ? each_head(s, s->n_past, rows_out, &file) : status;
}

pm_status session_cache_load(session *s, uint32_t n_tokens,
                             pm_status (*give)(void *arg, void *data, uint64_t n), void *arg)
{
    assert(n_tokens <= s->plan->n_ctx);
    file_end file = {.give = give, .arg = arg};
    session_rewind(s, 0);
    pm_status status = give(arg, s->tokens, n_tokens * sizeof *s->tokens);
    for (uint32_t i = 0; i < n_tokens && status == PM_OK; i++) {
        if (s->tokens[i] < 0 || (uint32_t)s->tokens[i] >= s->plan->n_vocab)
            status = error_set(PM_ERROR_FILE, "the cache has a token %d that there is not",
                               s->tokens[i]);
    }
    if (status == PM_OK) status = each_head(s, n_tokens, rows_in, &file);
    if (status == PM_OK) s->n_past = n_tokens;
    return status;
}

void session_cache_kind(const session *s, buf *out)
{
    const plan_set *p = s->plan;
    buf_printf(out, "%" PRIu32 " layers, %" PRIu32 " heads of %" PRIu32 ", type %d, act %d",
               p->n_layer, p->n_head_kv, p->head_dim, (int)p->kv_type, p->bufs[PLAN_XQ].width > 0);
    for (uint32_t i = 0; i < s->n_segments; i++)
        buf_printf(out, ", %s from %" PRIu32, s->segments[i].kind->name,
                   s->segments[i].first_layer);
}

void session_keep_hidden(session *s, bool keep)
{
    free(s->hidden);
    s->hidden = NULL;
    s->hidden_valid = false;
    if (keep) s->hidden = calloc((size_t)s->plan->n_layer + 1, s->plan->n_embd * sizeof(float));
}

const float *session_hidden(const session *s, int layer)
{
    if (!s->hidden_valid || layer < -1 || layer >= (int)s->plan->n_layer) return NULL;
    return s->hidden + (size_t)(layer + 1) * s->plan->n_embd;
}

pm_status session_time_ops(session *s, session_clock *clock)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < s->plan->n_buckets; i++)
        if (s->plan->buckets[i].n_ops > most) most = s->plan->buckets[i].n_ops;
    if (clock && !s->op_seconds) s->op_seconds = calloc(most + (size_t)1, sizeof *s->op_seconds);
    if (clock && !s->op_seconds) return error_memory("times of ops", most);
    s->clock = clock;
    return PM_OK;
}

uint32_t session_dispatches(const session *s, uint32_t *per_layer)
{
    *per_layer = 0;
    if (s->step.n_rows == 0) return 0;
    const plan *p = plan_for_rows(s->plan, s->step.n_rows);
    uint32_t sum = 0;
    for (uint32_t i = 0; i < s->n_segments; i++) {
        const segment *seg = &s->segments[i];
        if (!seg->kind->n_dispatches) continue;
        bool last = i + 1 == s->n_segments;
        uint32_t at = i == 0 ? 0 : layer_start(p, seg->first_layer);
        uint32_t end = last ? step_end(s, p) : layer_start(p, seg[1].first_layer);
        sum += seg->kind->n_dispatches(seg->state, p, at, end - at, &s->step);
        uint32_t end_layer = last ? s->plan->n_layer : seg[1].first_layer;
        for (uint32_t layer = seg->first_layer; layer < end_layer; layer++) {
            uint32_t first, count;
            plan_layer_ops(p, (int)layer, &first, &count);
            uint32_t n = seg->kind->n_dispatches(seg->state, p, first, count, &s->step);
            if (n > *per_layer) *per_layer = n;
        }
    }
    return sum;
}

void session_interrupt(session *s)
{
    atomic_store(&s->interrupt, true);
}

bool session_was_interrupted(const session *s)
{
    return s->interrupted;
}
