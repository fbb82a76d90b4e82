#include "proof/check.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proof/side.h"

// Bounds by what the op computes with; the worst values seen on SmolLM2 and Qwen2.5-Coder stand in
// docs/check.md. They are never loosened to pass.
static const double bound_f32 = 1e-6, bound_q8 = 1e-5;

typedef struct checker {
    const check_options *o;
    check_result *result;
    side dev;
    side ref; // isolated: the same op forms and cache type
    side f32; // lockstep: act=f32, f32 cache
    plan_step step;
    uint32_t cap_ops;
    float *a, *b; // [widest]
    uint32_t widest;
} checker;

// ---- comparing --------------------------------------------------------------------------------

enum { Q8_BLOCK = 32 };

typedef struct tally {
    uint64_t compared, nonfinite;
    double error, norm, max_abs; // error: of 8-bit values what no rounding step explains
    uint64_t eight_bits, steps;  // values in 8 bits; of them those that are one step apart
    int buffer;                  // where what is compared lies, from `row` and `col` on
    uint64_t row;
    uint32_t col;
    check_value worst; // the value that is furthest apart; one that is not finite before all
} tally;

static void keep_worst(tally *t, uint32_t index, double expected, double found, double apart)
{
    bool first = t->compared == 0, bad = !isfinite(apart), had_bad = !isfinite(t->worst.apart);
    if (!first && (had_bad || (!bad && apart <= t->worst.apart))) return;
    t->worst = (check_value){.buffer = t->buffer,
                             .row = t->row,
                             .col = t->col + index,
                             .expected = expected,
                             .found = found,
                             .apart = apart};
}

// Values that an op rounded to 8 bits are two things at once: what it computed, and to which side
// each value was rounded. A value near the border between two steps may fall to either side for no
// fault of anybody; how far it is then moved is known: one step of its block. So a step is taken
// off the difference and counted, and what remains is held to the bound of 32-bit results: a scale
// that is off moves all values of its block by less than a step and stays in full.
static void compare_block(tally *t, const float *expected, const float *found, uint32_t n,
                          uint32_t at, bool eight_bits)
{
    double largest = 0;
    for (uint32_t i = 0; i < n; i++) largest = fmax(largest, fabs((double)expected[i]));
    double step = largest / 127; // the largest value of a block is 127 steps
    for (uint32_t i = 0; i < n; i++) {
        double e = (double)expected[i], f = (double)found[i], apart = fabs(e - f);
        keep_worst(t, at + i, e, f, apart);
        t->compared++;
        t->eight_bits += eight_bits;
        if (!isfinite(f) || !isfinite(e)) {
            t->nonfinite++;
            continue;
        }
        t->norm += e * e;
        t->max_abs = fmax(t->max_abs, apart);
        if (eight_bits && apart > step / 2 && step > 0) {
            t->steps++;
            apart = fabs(apart - step);
        }
        t->error += apart * apart;
    }
}

static void compare(tally *t, const float *expected, const float *found, uint32_t n,
                    bool eight_bits)
{
    for (uint32_t i = 0; i < n; i += Q8_BLOCK)
        compare_block(t, expected + i, found + i, n - i < Q8_BLOCK ? n - i : Q8_BLOCK, i,
                      eight_bits);
}

// How many of an op's values may be a step apart. An error of a thousandth (the bound on NMSE is
// its square) in values of a tenth of their block's largest, as most are, moves them by a hundredth
// of a step; two more where few values are compared. Truncation instead of rounding moves half.
static uint64_t steps_bound(uint64_t n)
{
    return n > 0 ? n / 100 + 2 : 0;
}

// Normalised mean squared error; a floor of 1e-20 a value covers references of zeros.
static double nmse(const tally *t)
{
    return t->compared ? t->error / (t->norm + 1e-20 * (double)t->compared) : INFINITY;
}

// ---- views ------------------------------------------------------------------------------------

// Calls `each` for every piece of rows that a view of this step covers: row buffers row by row,
// caches the rows written at the step's positions, logits the marked rows.
typedef pm_status (*view_fn)(checker *c, int buffer, uint64_t row, uint32_t col, uint32_t n,
                             void *arg);

static pm_status each_row(checker *c, plan_view v, view_fn each, void *arg)
{
    const plan_set *set = c->dev.set;
    pm_status status = PM_OK;
    uint32_t rows = v.buf == PLAN_LOGITS ? c->step.n_logits : c->step.n_rows;
    if (v.buf < PLAN_KV) {
        for (uint32_t r = 0; r < rows && status == PM_OK; r++)
            status = each(c, v.buf, r, v.col, v.n, arg);
        return status;
    }
    for (uint32_t r = 0; r < c->step.n_rows && status == PM_OK; r++) {
        for (uint32_t h = 0; h < set->n_head_kv && status == PM_OK; h++) {
            uint64_t row = (uint64_t)h * set->n_ctx + c->step.rows[r].pos;
            status = each(c, v.buf, row, 0, set->head_dim, arg);
        }
    }
    return status;
}

typedef struct both_sides {
    uint32_t part; // of the tested device
    tally *t;
    side *expected;
} both_sides;

static pm_status compare_row(checker *c, int buffer, uint64_t row, uint32_t col, uint32_t n,
                             void *arg)
{
    both_sides *s = arg;
    pm_status status = side_read(s->expected, 0, buffer, row, col, n, c->a);
    if (status == PM_OK) status = side_read(&c->dev, s->part, buffer, row, col, n, c->b);
    s->t->buffer = buffer;
    s->t->row = row;
    s->t->col = col;
    if (status == PM_OK) compare(s->t, c->a, c->b, n, c->dev.set->bufs[buffer].type == QUANT_Q8_0);
    return status;
}

static pm_status spoil_row(checker *c, int buffer, uint64_t row, uint32_t col, uint32_t n,
                           void *arg)
{
    uint32_t part = *(uint32_t *)arg;
    quant_type type = c->dev.set->bufs[buffer].type;
    for (uint32_t i = 0; i < n; i++) c->a[i] = type == QUANT_Q8_0 ? 1e4f : NAN;
    return side_write(&c->dev, part, buffer, row, col, n, c->a);
}

static pm_status scale_row(checker *c, int buffer, uint64_t row, uint32_t col, uint32_t n,
                           void *arg)
{
    uint32_t part = *(uint32_t *)arg;
    pm_status status = side_read(&c->dev, part, buffer, row, col, n, c->a);
    for (uint32_t i = 0; i < n; i++) c->a[i] *= 1.01f;
    if (status == PM_OK) status = side_write(&c->dev, part, buffer, row, col, n, c->a);
    return status;
}

static pm_status each_view(checker *c, const plan_view *views, uint32_t n, view_fn each, void *arg)
{
    pm_status status = PM_OK;
    for (uint32_t i = 0; i < n && status == PM_OK; i++) {
        if (views[i].buf == PLAN_PICK) continue; // records, not values: compared apart
        status = each_row(c, views[i], each, arg);
    }
    return status;
}

// ---- picks ------------------------------------------------------------------------------------

static pm_status read_pick(side *s, uint32_t part, uint32_t row, plan_pick *pick)
{
    return s->w->parts[part].kind->read(s->states[part], PLAN_PICK, row * sizeof *pick, pick,
                                        sizeof *pick);
}

// Ids must be the same: both sides picked from the same logits.
static pm_status compare_picks(checker *c, uint32_t part, tally *t)
{
    for (uint32_t r = 0; r < c->step.n_logits; r++) {
        plan_pick expected, found;
        pm_status status = read_pick(&c->ref, 0, r, &expected);
        if (status == PM_OK) status = read_pick(&c->dev, part, r, &found);
        if (status != PM_OK) return status;
        float e[] = {expected.max, expected.log_sum_exp}, f[] = {found.max, found.log_sum_exp};
        compare(t, e, f, 2, false);
        compare(t, expected.top_logit, found.top_logit, expected.n_top, false);
        bool same = expected.id == found.id && expected.n_top == found.n_top &&
                    expected.finite == found.finite &&
                    !memcmp(expected.top_id, found.top_id, expected.n_top * sizeof(int32_t));
        if (!same) t->nonfinite++; // whatever its values: not the same pick
    }
    return PM_OK;
}

static pm_status inject_pick(checker *c, uint32_t part)
{
    for (uint32_t r = 0; r < c->step.n_logits; r++) {
        plan_pick pick;
        pm_status status = read_pick(&c->dev, part, r, &pick);
        pick.id++;
        if (status == PM_OK)
            status = c->dev.w->parts[part].kind->write(c->dev.states[part], PLAN_PICK,
                                                       r * sizeof pick, &pick, sizeof pick);
        if (status != PM_OK) return status;
    }
    return PM_OK;
}

// Where there are tokens enough, five of them make a step of their own.
static bool has_batch_of_5(const check_options *o)
{
    return o->n_ids >= 16 && o->plan.n_batch >= 5;
}

// Rows of the first step: the others are left for the steps behind it.
static uint32_t chunk_rows(const check_options *o)
{
    uint32_t rows = o->n_ids - (has_batch_of_5(o) ? 8 : 3);
    return rows < o->plan.n_batch ? rows : o->plan.n_batch;
}

// ---- planted faults ---------------------------------------------------------------------------

static bool is_injected(const checker *c, const plan *p, uint32_t index)
{
    const check_inject *inject = &c->o->inject;
    const plan_op *op = &p->ops[index];
    if (op->kind != inject->kind || op->layer != inject->layer) return false;
    uint32_t before = 0;
    for (uint32_t i = 0; i < index; i++)
        if (p->ops[i].kind == op->kind && p->ops[i].layer == op->layer) before++;
    return before == inject->index;
}

// A fault that is in no plan would pass unseen.
static pm_status need_injected(const checker *c)
{
    const check_options *o = c->o;
    if (o->inject.kind == PLAN_N_OP_KINDS) return PM_OK;
    uint32_t rows[] = {chunk_rows(o), 1, o->plan.n_batch < 2 ? 1 : 2, has_batch_of_5(o) ? 5 : 1};
    bool runs = o->isolated || o->inject.kind != PLAN_PICK_OP; // lockstep ends with the logits
    for (int i = 0; i < 4 && runs; i++) {
        const plan *p = plan_for_rows(c->dev.set, rows[i]);
        for (uint32_t j = 0; j < p->n_ops; j++)
            if (is_injected(c, p, j)) return PM_OK;
    }
    return error_set(PM_ERROR_USAGE,
                     "--inject: no op %s of index %" PRIu32 " in layer %d runs here (see info "
                     "--plan)",
                     plan_op_name(o->inject.kind), o->inject.index, o->inject.layer);
}

static pm_status inject(checker *c, const plan_op *op, uint32_t part)
{
    plan_uses uses;
    plan_op_uses(c->dev.set, op, &uses);
    if (op->kind == PLAN_PICK_OP) return inject_pick(c, part);
    return each_view(c, uses.writes, uses.n_writes, scale_row, &part);
}

// ---- isolated ---------------------------------------------------------------------------------

// The tested device gets what the op reads: row buffers whole, caches up to the last key.
static pm_status give_inputs(checker *c, side *to, uint32_t part, const plan_uses *uses)
{
    const plan_set *set = c->ref.set;
    uint32_t last = c->step.rows[c->step.n_rows - 1].n_kv;
    pm_status status = PM_OK;
    for (uint32_t i = 0; i < uses->n_reads && status == PM_OK; i++) {
        int buffer = uses->reads[i].buf;
        uint32_t rows = buffer == PLAN_LOGITS ? c->step.n_logits : c->step.n_rows;
        if (buffer < PLAN_KV) status = side_copy_rows(&c->ref, 0, to, part, buffer, 0, rows);
        for (uint32_t h = 0; buffer >= PLAN_KV && h < set->n_head_kv && status == PM_OK; h++)
            status = side_copy_rows(&c->ref, 0, to, part, buffer, (uint64_t)h * set->n_ctx, last);
    }
    return status;
}

static bool also_read(const plan_uses *uses, plan_view v)
{
    for (uint32_t i = 0; i < uses->n_reads; i++)
        if (uses->reads[i].buf == v.buf) return true;
    return false;
}

// Outputs hold garbage before the op runs: what it does not write is seen.
static pm_status spoil_outputs(checker *c, uint32_t part, const plan_uses *uses)
{
    pm_status status = PM_OK;
    for (uint32_t i = 0; i < uses->n_writes && status == PM_OK; i++)
        if (uses->writes[i].buf != PLAN_PICK && !also_read(uses, uses->writes[i]))
            status = each_row(c, uses->writes[i], spoil_row, &part);
    return status;
}

static double bound_of(const plan_op *op)
{
    bool product = op->kind == PLAN_LINEAR || op->kind == PLAN_LOGITS_OP;
    return product && op->act == PLAN_ACT_Q8 ? bound_q8 : bound_f32;
}

static check_op *new_op(checker *c)
{
    check_result *r = c->result;
    if (r->n_ops == c->cap_ops) {
        uint32_t cap = c->cap_ops ? 2 * c->cap_ops : 256;
        check_op *more = realloc(r->ops, cap * sizeof *more);
        if (!more) return NULL;
        r->ops = more;
        c->cap_ops = cap;
    }
    return &r->ops[r->n_ops++];
}

static void note_kernels(checker *c, uint32_t part, const plan *p, uint32_t index, check_op *out)
{
    const exec_kind *kind = c->dev.w->parts[part].kind;
    buf names = {0};
    if (kind->kernels && kind->kernels(c->dev.states[part], p, index, &c->step, &names) == PM_OK &&
        names.data && !names.failed)
        snprintf(out->kernels, sizeof out->kernels, "%s", names.data);
    buf_free(&names);
}

static pm_status check_one(checker *c, const char *phase, const plan *ref_plan,
                           const plan *dev_plan, uint32_t index)
{
    const plan_op *op = &ref_plan->ops[index];
    uint32_t part = side_part(&c->dev, op);
    plan_uses uses;
    plan_op_uses(c->ref.set, op, &uses);
    pm_status status = give_inputs(c, &c->dev, part, &uses);
    if (status == PM_OK) status = spoil_outputs(c, part, &uses);
    if (status == PM_OK) status = side_run(&c->dev, part, dev_plan, index, 1, &c->step);
    if (status == PM_OK) status = side_run(&c->ref, 0, ref_plan, index, 1, &c->step);
    if (status == PM_OK && is_injected(c, dev_plan, index)) status = inject(c, op, part);
    tally t = {0};
    both_sides sides = {.part = part, .t = &t, .expected = &c->ref};
    if (status == PM_OK && op->kind == PLAN_PICK_OP) status = compare_picks(c, part, &t);
    if (status == PM_OK) status = each_view(c, uses.writes, uses.n_writes, compare_row, &sides);
    if (status != PM_OK) return status;

    check_op *out = new_op(c);
    if (!out) return error_memory("the results", c->cap_ops);
    *out = (check_op){.phase = phase,
                      .n_rows = c->step.n_rows,
                      .first = c->step.rows[0].pos,
                      .executor = c->dev.w->parts[part].kind->name,
                      .index = index,
                      .kind = op->kind,
                      .label = op->label,
                      .layer = op->layer,
                      .compared = t.compared,
                      .nonfinite = t.nonfinite,
                      .nmse = nmse(&t),
                      .max_abs = t.max_abs,
                      .worst = t.worst,
                      .bound = bound_of(op),
                      .steps = t.steps,
                      .steps_bound = steps_bound(t.eight_bits)};
    note_kernels(c, part, dev_plan, index, out);
    out->worst.name = c->ref.set->bufs[t.worst.buffer].name;
    out->pass = t.compared > 0 && t.nonfinite == 0 && out->nmse <= out->bound &&
                out->steps <= out->steps_bound;
    c->result->compared += t.compared;
    if (!out->pass && c->result->first_bad < 0) c->result->first_bad = (int)c->result->n_ops - 1;
    return PM_OK;
}

static void make_step(checker *c, uint32_t first, uint32_t n)
{
    c->step.n_rows = c->step.n_logits = n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t pos = first + i;
        c->step.rows[i] = (plan_row){.token = c->o->ids[pos], .pos = pos, .n_kv = pos + 1};
        c->step.logit_rows[i] = (uint16_t)i;
    }
    if (c->step.n_logits > c->dev.set->n_logits) {
        c->step.n_logits = c->dev.set->n_logits;
        for (uint32_t i = 0; i < c->step.n_logits; i++)
            c->step.logit_rows[i] = (uint16_t)(n - c->step.n_logits + i);
    }
}

static pm_status check_phase(checker *c, const char *phase, uint32_t first, uint32_t n)
{
    make_step(c, first, n);
    const plan *ref_plan = plan_for_rows(c->ref.set, n), *dev_plan = plan_for_rows(c->dev.set, n);
    pm_status status = PM_OK;
    for (uint32_t i = 0; i < ref_plan->n_ops && status == PM_OK; i++)
        status = check_one(c, phase, ref_plan, dev_plan, i);
    return status;
}

// A chunk of a prompt, a token after it, and two and five tokens at once.
static pm_status check_isolated(checker *c)
{
    uint32_t chunk = chunk_rows(c->o);
    pm_status status = check_phase(c, "prefill", 0, chunk);
    if (status == PM_OK) status = check_phase(c, "decode", chunk, 1);
    if (c->o->plan.n_batch < 2) {
        c->result->skipped[c->result->n_skipped++] =
            (check_skip){"batch of 2", "the batch size is 1"};
    } else if (status == PM_OK) {
        status = check_phase(c, "batch of 2", chunk + 1, 2);
    }
    if (status == PM_OK && has_batch_of_5(c->o))
        status = check_phase(c, "batch of 5", chunk + 3, 5);
    return status;
}

// ---- lockstep ---------------------------------------------------------------------------------

static uint32_t first_op_behind(const plan *p, int layer)
{
    uint32_t first, count;
    plan_layer_ops(p, layer, &first, &count);
    return first + count;
}

static pm_status run_dev_range(checker *c, const plan *p, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        if (!is_injected(c, p, i)) continue;
        pm_status status = side_run_range(&c->dev, p, first, i + 1, &c->step);
        if (status == PM_OK) status = inject(c, &p->ops[i], side_part(&c->dev, &p->ops[i]));
        if (status != PM_OK) return status;
        first = i + 1;
    }
    return side_run_range(&c->dev, p, first, end, &c->step);
}

// Layer by layer on both sides; where the layers' results are wanted they are compared.
static pm_status run_layers(checker *c, tally *drift)
{
    const plan *ref_plan = plan_for_rows(c->f32.set, c->step.n_rows);
    const plan *dev_plan = plan_for_rows(c->dev.set, c->step.n_rows);
    uint32_t ref_at = 0, dev_at = 0;
    pm_status status = PM_OK;
    for (int layer = 0; layer < (int)c->dev.set->n_layer && status == PM_OK; layer++) {
        uint32_t ref_end = first_op_behind(ref_plan, layer);
        uint32_t dev_end = first_op_behind(dev_plan, layer);
        status = side_run_range(&c->f32, ref_plan, ref_at, ref_end, &c->step);
        if (status == PM_OK) status = run_dev_range(c, dev_plan, dev_at, dev_end);
        ref_at = ref_end;
        dev_at = dev_end;
        uint32_t part = side_part(&c->dev, &dev_plan->ops[dev_end - 1]);
        both_sides sides = {.part = part, .t = &drift[layer], .expected = &c->f32};
        plan_view x = {.buf = PLAN_X, .col = 0, .n = c->dev.set->n_embd};
        if (status == PM_OK) status = each_row(c, x, compare_row, &sides);
    }
    if (status == PM_OK)
        status = side_run_range(&c->f32, ref_plan, ref_at, ref_plan->n_ops - 1, &c->step);
    if (status == PM_OK) status = run_dev_range(c, dev_plan, dev_at, dev_plan->n_ops - 1);
    return status;
}

static pm_status compare_logits(checker *c, divergence *d)
{
    uint32_t n = c->dev.set->n_vocab, part = c->dev.w->n_parts - 1;
    for (uint32_t r = 0; r < c->step.n_logits; r++) {
        pm_status status = side_read(&c->f32, 0, PLAN_LOGITS, r, 0, n, c->a);
        if (status == PM_OK) status = side_read(&c->dev, part, PLAN_LOGITS, r, 0, n, c->b);
        if (status == PM_OK) status = divergence_add(d, c->a, c->b, n);
        if (status != PM_OK) return status;
    }
    return PM_OK;
}

static bool uses_q8(const plan_set *set)
{
    const plan *p = &set->buckets[0];
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].act == PLAN_ACT_Q8) return true;
    return false;
}

static void judge_logits(checker *c, divergence *d, bool nonfinite)
{
    check_result *r = c->result;
    r->logits = divergence_of(d);
    r->n_logits = d->n;
    r->compared += d->n_values;
    double mean = r->logits.kl_mean, error = r->logits.kl_error;
    bool rest = d->n > 0 && !d->nonfinite && !nonfinite && r->logits.top1_judged >= r->top1_bound;
    bool eight_bits = r->top1_bound < 1;
    r->logits_pass = rest && mean <= r->kl_bound;
    r->undecided = rest && eight_bits && mean > r->kl_bound && mean - 2 * error <= r->kl_bound;
}

// What logits may be apart, from what computes them. A choice counts as changed where its margin
// was wider than golden comparisons allow logits to be off (1e-3, with an f16 cache 2e-2), with 8
// bits wider than what the bound on the divergence stands for: KL is about half the variance of
// what logits change by.
static void set_bounds(checker *c)
{
    check_result *r = c->result;
    quant_type kv = c->o->plan.kv_type;
    bool q8 = uses_q8(c->dev.set), eight_bits = q8 || kv == QUANT_Q8_0;
    r->op_bound_f32 = bound_f32;
    r->op_bound_q8 = bound_q8;
    r->kl_bound = (q8 ? 2e-2 : 1e-5) + (kv == QUANT_Q8_0 ? 5e-3 : 0);
    r->top1_bound = eight_bits ? 0.9 : 1;
    r->margin = eight_bits ? sqrt(2 * r->kl_bound) : kv == QUANT_F16 ? 2e-2 : 1e-3;
}

// Prefill of all but a few tokens, then token by token; the reference with act=f32 and an f32
// cache.
static pm_status check_lockstep(checker *c)
{
    const check_options *o = c->o;
    uint32_t n_layer = c->dev.set->n_layer, decode = o->n_ids / 4 < 8 ? o->n_ids / 4 : 8;
    tally *drift = calloc(n_layer, sizeof *drift);
    c->result->layers = calloc(n_layer, sizeof *c->result->layers);
    divergence d = {.margin = c->result->margin};
    pm_status status = drift && c->result->layers ? PM_OK : error_memory("results", n_layer);
    for (uint32_t at = 0; at < o->n_ids && status == PM_OK; at += c->step.n_rows) {
        uint32_t left = o->n_ids - decode, n = at < left ? left - at : 1;
        make_step(c, at, n < o->plan.n_batch ? n : o->plan.n_batch);
        status = run_layers(c, drift);
        if (status == PM_OK) status = compare_logits(c, &d);
    }
    bool nonfinite = false;
    for (uint32_t i = 0; i < n_layer && status == PM_OK; i++) {
        bool bad = drift[i].nonfinite > 0;
        nonfinite = nonfinite || bad;
        c->result->layers[i] =
            (check_layer){.layer = (int)i, .nmse = bad ? INFINITY : nmse(&drift[i])};
    }
    c->result->n_layers = status == PM_OK ? n_layer : 0;
    if (status == PM_OK) judge_logits(c, &d, nonfinite);
    free(drift);
    divergence_free(&d);
    return status;
}

// ---- all --------------------------------------------------------------------------------------

static pm_status find_widest(checker *c)
{
    for (uint32_t i = 0; i < c->dev.set->n_bufs; i++)
        if (c->dev.set->bufs[i].width > c->widest) c->widest = c->dev.set->bufs[i].width;
    c->a = malloc((c->widest + (size_t)1) * sizeof *c->a);
    c->b = malloc((c->widest + (size_t)1) * sizeof *c->b);
    return c->a && c->b ? PM_OK : error_memory("a row", c->widest);
}

pm_status check_run(const weights *tested, const weights *reference, const check_options *options,
                    check_result *result)
{
    *result = (check_result){.first_bad = -1};
    checker c = {.o = options, .result = result};
    plan_options f32 = options->plan;
    f32.act = PLAN_ACT_F32;
    f32.kv_type = QUANT_F32;
    pm_status status = side_open(&c.dev, tested, &options->plan);
    if (status == PM_OK && options->isolated) status = side_open(&c.ref, reference, &options->plan);
    if (status == PM_OK && options->lockstep) status = side_open(&c.f32, reference, &f32);
    if (status == PM_OK) status = find_widest(&c);
    if (status == PM_OK) status = need_injected(&c);
    if (status == PM_OK) set_bounds(&c);
    if (status == PM_OK && options->isolated) status = check_isolated(&c);
    if (status == PM_OK && options->lockstep) status = check_lockstep(&c);
    side_close(&c.dev);
    side_close(&c.ref);
    side_close(&c.f32);
    free(c.a);
    free(c.b);
    if (status != PM_OK) {
        check_result_free(result);
        return status;
    }
    result->undecided = result->undecided && result->first_bad < 0;
    result->pass = result->compared > 0 && result->first_bad < 0 &&
                   (!options->lockstep || result->logits_pass);
    return PM_OK;
}

pm_status check_single(const side *tested, const side *reference, const char *phase,
                       const plan_step *step, bool injected, check_op *out)
{
    const plan *p = &tested->set->buckets[0];
    check_options o = {.inject = {.kind = PLAN_N_OP_KINDS}};
    if (injected) o.inject = (check_inject){.kind = p->ops[0].kind, .layer = p->ops[0].layer};
    check_result result = {.first_bad = -1};
    checker c = {.o = &o, .result = &result, .dev = *tested, .ref = *reference, .step = *step};
    pm_status status = find_widest(&c);
    if (status == PM_OK) status = check_one(&c, phase, p, p, 0);
    if (status == PM_OK) *out = result.ops[0];
    check_result_free(&result);
    free(c.a);
    free(c.b);
    return status;
}

void check_result_free(check_result *result)
{
    free(result->ops);
    free(result->layers);
    *result = (check_result){.first_bad = -1};
}

static bool same_name(const char *a, const char *b)
{
    while (*a && toupper((unsigned char)*a) == toupper((unsigned char)*b)) a++, b++;
    return *a == *b;
}

pm_status check_parse_inject(const char *text, check_inject *out)
{
    char name[32] = "";
    int layer = 0, index = 0, used = 0;
    bool parsed = (sscanf(text, "%31[A-Za-z_]:%d:%d%n", name, &layer, &index, &used) == 3 ||
                   (index = 0, sscanf(text, "%31[A-Za-z_]:%d%n", name, &layer, &used) == 2)) &&
                  text[used] == 0 && layer >= PLAN_NONE && index >= 0;
    for (int k = 0; parsed && k < PLAN_N_OP_KINDS; k++) {
        if (!same_name(name, plan_op_name((plan_op_kind)k))) continue;
        *out = (check_inject){(plan_op_kind)k, layer, (uint32_t)index};
        return PM_OK;
    }
    return error_set(PM_ERROR_USAGE,
                     "--inject %s: expected OP:LAYER[:N], for example LINEAR:3:1 or PICK:-1", text);
}
