// The ops that go over rows: EMBED, NORM, QUANTIZE, ACTIVATE, ADD, PICK.
#include "exec/cpu/cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void cpu_embed(exec *e, const plan_embed *op, int member)
{
    cpu_scratch *s = &e->scratch[member];
    const cpu_weight *table = cpu_matrix(e, op->table);
    uint32_t row, end;
    while (team_next(e->team, e->step->n_rows, 1, &row, &end)) {
        const plan_row *r = &e->step->rows[row];
        float *out = cpu_f32_at(e, op->out, row);
        cpu_weight_row(e->k, table, op->table.row + (uint32_t)r->token, out, s->floats);
        if (op->scale != 1) e->k->scale(out, op->out.n, op->scale);
        if (op->positions.tensor == PLAN_NONE) continue;
        cpu_weight_row(e->k, cpu_matrix(e, op->positions), op->positions.row + r->pos, s->row,
                       s->floats);
        e->k->add(out, s->row, out, op->out.n);
    }
}

void cpu_norm(exec *e, const plan_norm_op *op, int member)
{
    const float *weight = cpu_vector(e, op->weight, 0), *bias = cpu_vector(e, op->bias, 0);
    uint32_t row, end;
    while (team_next(e->team, e->step->n_rows, 1, &row, &end)) {
        const float *residual =
            op->residual.buf == PLAN_NONE ? NULL : cpu_f32_at(e, op->residual, row);
        bool q8 = e->bufs[op->out.buf].q8;
        float *out = q8 ? e->scratch[member].row : cpu_f32_at(e, op->out, row);
        e->k->norm(op, cpu_f32_at(e, op->x, row), weight, bias, residual, op->x.n, out);
        if (!q8) continue;
        cpu_q8 q = cpu_q8_at(e, op->out, row);
        e->k->quantize(out, op->x.n, q.q, q.d, q.sum);
    }
}

// A part of a row of n values, the part that item `item` is.
typedef struct part {
    uint32_t row, col, n;
} part;

enum { PART = 1024 }; // values; a multiple of a block

static uint32_t n_parts(const exec *e, uint32_t n)
{
    return e->step->n_rows * ((n + PART - 1) / PART);
}

static bool next_part(exec *e, uint32_t n, part *p)
{
    uint32_t each = (n + PART - 1) / PART, item, end;
    if (!team_next(e->team, n_parts(e, n), 1, &item, &end)) return false;
    *p = (part){item / each, item % each * PART, 0};
    p->n = n - p->col < PART ? n - p->col : PART;
    return true;
}

static plan_view part_of(plan_view v, const part *p)
{
    return (plan_view){v.buf, v.col + p->col, p->n};
}

void cpu_quantize(exec *e, const plan_quantize *op)
{
    part p;
    while (next_part(e, op->x.n, &p)) {
        cpu_q8 q = cpu_q8_at(e, part_of(op->out, &p), p.row);
        e->k->quantize(cpu_f32_at(e, part_of(op->x, &p), p.row), p.n, q.q, q.d, q.sum);
    }
}

void cpu_activate(exec *e, const plan_activate *op, int member)
{
    part p;
    while (next_part(e, op->x.n, &p)) {
        plan_view out = part_of(op->out, &p);
        bool q8 = e->bufs[out.buf].q8;
        float *y = q8 ? e->scratch[member].row : cpu_f32_at(e, out, p.row);
        // `out` may be `up`: the activated values are kept apart until they are multiplied.
        float *activated = e->scratch[member].row;
        e->k->activate(op->fn, cpu_f32_at(e, part_of(op->x, &p), p.row), activated, p.n);
        if (op->up.buf != PLAN_NONE) {
            e->k->multiply(activated, cpu_f32_at(e, part_of(op->up, &p), p.row), y, p.n);
        } else if (!q8) {
            memcpy(y, activated, p.n * sizeof *y);
        }
        if (!q8) continue;
        cpu_q8 q = cpu_q8_at(e, out, p.row);
        e->k->quantize(y, p.n, q.q, q.d, q.sum);
    }
}

void cpu_add(exec *e, const plan_add *op)
{
    part p;
    while (next_part(e, op->a.n, &p)) {
        e->k->add(cpu_f32_at(e, part_of(op->a, &p), p.row),
                  cpu_f32_at(e, part_of(op->b, &p), p.row),
                  cpu_f32_at(e, part_of(op->out, &p), p.row), p.n);
    }
}

// ---- PICK -------------------------------------------------------------------------------------

typedef struct candidate {
    float logit;
    int32_t id;
} candidate;

// Does a stand behind b: smaller, or equal with a greater id?
static bool behind(candidate a, candidate b)
{
    return a.logit < b.logit || (a.logit == b.logit && a.id > b.id);
}

static int best_first(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    return behind(*x, *y) ? 1 : behind(*y, *x) ? -1 : 0;
}

// heap[0], the last in rank of n, has changed: back to order.
static void sink(candidate *heap, uint32_t n)
{
    for (uint32_t at = 0;;) {
        uint32_t last = at, left = 2 * at + 1, right = left + 1;
        if (left < n && behind(heap[left], heap[last])) last = left;
        if (right < n && behind(heap[right], heap[last])) last = right;
        if (last == at) return;
        candidate swap = heap[at];
        heap[at] = heap[last];
        heap[last] = swap;
        at = last;
    }
}

static candidate candidate_at(const float *logits, uint32_t i)
{
    // NaN ranks last; such a row ends the run anyway
    return (candidate){isnan(logits[i]) ? -INFINITY : logits[i], (int32_t)i};
}

static void pick_row(const exec *e, const float *logits, uint32_t n, plan_pick *out)
{
    enum { STRIDE = 256 };
    candidate heap[PLAN_N_TOP];
    uint32_t n_top = n < PLAN_N_TOP ? n : PLAN_N_TOP;
    for (uint32_t i = 0; i < n_top; i++) heap[i] = candidate_at(logits, i);
    qsort(heap, n_top, sizeof *heap, best_first); // reversed, a sorted list is a heap
    for (uint32_t i = 0; i < n_top / 2; i++) {
        candidate swap = heap[i];
        heap[i] = heap[n_top - 1 - i];
        heap[n_top - 1 - i] = swap;
    }
    for (uint32_t begin = n_top; begin < n; begin += STRIDE) {
        uint32_t end = n - begin < STRIDE ? n : begin + STRIDE;
        if (!(e->k->greatest(logits + begin, end - begin) > heap[0].logit)) continue;
        for (uint32_t i = begin; i < end; i++) {
            if (!(logits[i] > heap[0].logit)) continue; // an equal one has a greater id
            heap[0] = candidate_at(logits, i);
            sink(heap, n_top);
        }
    }
    qsort(heap, n_top, sizeof *heap, best_first);
    uint32_t infinite = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        infinite |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    memset(out, 0, sizeof *out);
    out->id = heap[0].id;
    out->max = heap[0].logit;
    out->log_sum_exp = (float)((double)out->max + log(e->k->sum_exp(logits, n, out->max)));
    out->finite = !infinite;
    out->n_top = n_top;
    for (uint32_t i = 0; i < n_top; i++) {
        out->top_id[i] = heap[i].id;
        out->top_logit[i] = heap[i].logit;
    }
}

void cpu_pick(exec *e)
{
    plan_view logits = {PLAN_LOGITS, 0, e->set->bufs[PLAN_LOGITS].width};
    uint32_t row, end;
    while (team_next(e->team, e->step->n_logits, 1, &row, &end)) {
        plan_pick *out =
            (plan_pick *)(void *)(e->bufs[PLAN_PICK].data + row * e->bufs[PLAN_PICK].stride);
        pick_row(e, cpu_f32_at(e, logits, row), logits.n, out);
    }
}
