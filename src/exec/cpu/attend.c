// ATTEND and ROPE_KV: what reads and writes the cache.
//
// Attention takes keys in blocks of 64 from position 0 and keeps a running maximum and sum (online
// softmax). Which blocks a row takes, and so each of its bits, depends on the row alone.
#include "exec/cpu/cpu.h"

#include <math.h>
#include <string.h>

// Row `row` of a cache buffer, in its stored form.
static uint8_t *cache_row(const exec *e, int cache, uint64_t row)
{
    return e->bufs[cache].data + row * e->set->bufs[cache].row_bytes;
}

// First row of a head of a slot: [slot][head_kv][position].
static uint64_t cache_begin(const exec *e, uint32_t slot, uint32_t n_head_kv, uint32_t head)
{
    return ((uint64_t)slot * n_head_kv + head) * e->set->n_ctx;
}

static void load_row(const exec *e, quant_type type, const uint8_t *from, uint32_t n, float *out)
{
    if (type == QUANT_F32) {
        memcpy(out, from, n * sizeof *out);
    } else if (type == QUANT_F16) {
        e->k->from_half((const uint16_t *)(const void *)from, out, n);
    } else {
        for (uint32_t i = 0; i < n; i += CPU_BLOCK, from += QUANT_Q8_BYTES) {
            uint16_t half;
            memcpy(&half, from, sizeof half);
            e->k->from_i8((const int8_t *)from + 2, quant_f16_to_f32(half), out + i);
        }
    }
}

static void store_row(const exec *e, quant_type type, const float *x, uint32_t n, uint8_t *to)
{
    if (type == QUANT_F32) {
        memcpy(to, x, n * sizeof *x);
    } else if (type == QUANT_F16) {
        e->k->to_half(x, (uint16_t *)(void *)to, n);
    } else {
        for (uint32_t i = 0; i < n; i += CPU_BLOCK, to += QUANT_Q8_BYTES) {
            float d;
            int32_t sum[2];
            e->k->quantize(x + i, CPU_BLOCK, (int8_t *)to + 2, &d, sum);
            uint16_t half = quant_f32_to_f16(d);
            memcpy(to, &half, sizeof half);
        }
    }
}

// ---- ROPE_KV ----------------------------------------------------------------------------------

static void rope_head(const exec *e, const plan_rope_kv *op, const float *norm_weight, uint32_t pos,
                      float *x)
{
    plan_norm_op norm = {.norm = PLAN_NORM_RMS, .eps = op->norm_eps};
    if (norm_weight) e->k->norm(&norm, x, norm_weight, NULL, NULL, op->head_dim, x);
    if (op->rope == PLAN_ROPE_NONE || op->table == PLAN_NONE) return;
    const float *table = cpu_vector(e, (plan_vector){op->table, 0}, (uint64_t)pos * op->n_rot);
    e->k->rotate(op->rope, x, table, op->n_rot);
}

void cpu_rope_kv(exec *e, const plan_rope_kv *op, int member)
{
    uint32_t heads = op->n_head + op->n_head_kv, total = e->step->n_rows * heads;
    uint32_t grain = e->step->n_rows > 1 ? heads : (heads + 1) / 2, begin, end;
    const float *q_norm = cpu_vector(e, op->q_norm, 0), *k_norm = cpu_vector(e, op->k_norm, 0);
    quant_type k_type = e->set->bufs[op->k_cache].type, v_type = e->set->bufs[op->v_cache].type;
    float *k = e->scratch[member].row;
    while (team_next(e->team, total, grain, &begin, &end)) {
        for (uint32_t item = begin; item < end; item++) {
            uint32_t row = item / heads, head = item % heads;
            const plan_row *r = &e->step->rows[row];
            if (head < op->n_head) {
                float *q = cpu_f32_at(e, op->q, row) + head * op->head_dim;
                rope_head(e, op, q_norm, r->pos, q);
                continue;
            }
            head -= op->n_head;
            uint64_t to = cache_begin(e, r->slot, op->n_head_kv, head) + r->pos;
            memcpy(k, cpu_f32_at(e, op->k, row) + head * op->head_dim, op->head_dim * sizeof *k);
            rope_head(e, op, k_norm, r->pos, k);
            store_row(e, k_type, k, op->head_dim, cache_row(e, op->k_cache, to));
            store_row(e, v_type, cpu_f32_at(e, op->v, row) + head * op->head_dim, op->head_dim,
                      cache_row(e, op->v_cache, to));
        }
    }
}

// ---- ATTEND -----------------------------------------------------------------------------------

// Rows [first, first + n) of one slot with query heads [head, head + n_heads) of one key-value
// head. A pair is a row and one of these heads; rows of n_dim floats in the scratch.
typedef struct task {
    const plan_attend *op;
    cpu_rows rows;
    uint32_t head_kv, head, n_heads;
    uint32_t n_pairs, n_dim;
} task;

static uint32_t rows_at_once(const plan_attend *op)
{
    uint32_t n = CPU_ATTEND_HEADS / (op->n_head / op->n_head_kv);
    return n < 1 ? 1 : n > CPU_ATTEND_ROWS ? CPU_ATTEND_ROWS : n;
}

uint32_t cpu_attend_pairs(const plan_attend *op)
{
    return rows_at_once(op) * (op->n_head / op->n_head_kv);
}

static uint32_t first_key(const plan_attend *op, const plan_row *r)
{
    return op->window > 0 && r->n_kv > op->window ? r->n_kv - op->window : 0;
}

static void load_keys(const exec *e, int cache, uint64_t first, uint32_t n, uint32_t head_dim,
                      uint32_t n_dim, float *out)
{
    for (uint32_t j = 0; j < n; j++) {
        load_row(e, e->set->bufs[cache].type, cache_row(e, cache, first + j), head_dim,
                 out + j * n_dim);
    }
    // Keys that nobody sees: whatever the cache holds there must not get in.
    memset(out + n * n_dim, 0, (size_t)(CPU_KEYS - n) * n_dim * sizeof *out);
}

// Scores of a pair with keys [block, block + CPU_KEYS) become weights; what is summed so far is
// brought to the new maximum.
static void weigh_keys(const exec *e, cpu_scratch *s, const task *t, uint32_t pair, uint32_t block)
{
    const plan_row *r = &e->step->rows[t->rows.first + pair / t->n_heads];
    uint32_t from = first_key(t->op, r), to = r->n_kv;
    from = from > block ? from - block : 0;
    to = to > block ? to - block : 0;
    if (to > CPU_KEYS) to = CPU_KEYS;
    s->key_from[pair] = from;
    s->key_to[pair] = from < to ? to : from;
    if (from >= to) return;
    float *score = s->score + (size_t)pair * CPU_KEYS;
    e->k->scores(s->q + (size_t)pair * t->n_dim, s->k, t->n_dim, t->op->scale, score);
    if (t->op->softcap > 0) e->k->soft_cap(score, CPU_KEYS, t->op->softcap);
    for (uint32_t j = 0; j < from; j++) score[j] = -INFINITY;
    for (uint32_t j = to; j < CPU_KEYS; j++) score[j] = -INFINITY;
    float before = s->greatest[pair], now = e->k->greatest(score, CPU_KEYS);
    if (now < before) now = before;
    float sum = e->k->exp_keys(score, now);
    if (now > before) {
        float factor = expf(before - now);
        s->sum[pair] *= factor;
        e->k->scale(s->out + (size_t)pair * t->n_dim, t->n_dim, factor);
    }
    s->sum[pair] += sum;
    s->greatest[pair] = now;
}

// Adds the weighted values; neighbours that see the same keys go together.
static void add_values(const exec *e, cpu_scratch *s, const task *t)
{
    for (uint32_t pair = 0; pair < t->n_pairs;) {
        uint32_t from = s->key_from[pair], to = s->key_to[pair], n = 1;
        while (pair + n < t->n_pairs && s->key_from[pair + n] == from && s->key_to[pair + n] == to)
            n++;
        if (from < to) {
            e->k->weigh(s->score + (size_t)pair * CPU_KEYS, s->v, from, to, t->n_dim, n,
                        s->out + (size_t)pair * t->n_dim);
        }
        pair += n;
    }
}

static void attend_task(exec *e, cpu_scratch *s, const task *t)
{
    const plan_attend *op = t->op;
    uint32_t dim = op->head_dim, n_dim = t->n_dim, from = UINT32_MAX, to = 0;
    for (uint32_t pair = 0; pair < t->n_pairs; pair++) {
        uint32_t row = t->rows.first + pair / t->n_heads, head = t->head + pair % t->n_heads;
        const plan_row *r = &e->step->rows[row];
        if (first_key(op, r) < from) from = first_key(op, r);
        if (r->n_kv > to) to = r->n_kv;
        float *q = s->q + (size_t)pair * n_dim;
        memcpy(q, cpu_f32_at(e, op->q, row) + head * dim, dim * sizeof *q);
        memset(q + dim, 0, (n_dim - dim) * sizeof *q);
        s->greatest[pair] = -INFINITY;
        s->sum[pair] = 0;
    }
    memset(s->out, 0, (size_t)t->n_pairs * n_dim * sizeof *s->out);
    uint32_t slot = e->step->rows[t->rows.first].slot;
    uint64_t begin = cache_begin(e, slot, op->n_head_kv, t->head_kv);
    for (uint32_t block = from / CPU_KEYS * CPU_KEYS; block < to; block += CPU_KEYS) {
        uint32_t n = to - block < CPU_KEYS ? to - block : CPU_KEYS;
        load_keys(e, op->k_cache, begin + block, n, dim, n_dim, s->k);
        load_keys(e, op->v_cache, begin + block, n, dim, n_dim, s->v);
        for (uint32_t pair = 0; pair < t->n_pairs; pair++) weigh_keys(e, s, t, pair, block);
        add_values(e, s, t);
    }
}

// The result of pair (row, head): into out, or, where 8-bit blocks cross heads, into e->rows.
static void finish_pair(exec *e, cpu_scratch *s, const task *t, uint32_t pair)
{
    const plan_attend *op = t->op;
    uint32_t row = t->rows.first + pair / t->n_heads, head = t->head + pair % t->n_heads;
    float *y = s->out + (size_t)pair * t->n_dim;
    e->k->scale(y, t->n_dim, 1 / s->sum[pair]);
    plan_view out = op->out;
    out.col += head * op->head_dim;
    if (!e->bufs[out.buf].q8) {
        memcpy(cpu_f32_at(e, out, row), y, op->head_dim * sizeof *y);
    } else if (op->head_dim % CPU_BLOCK == 0) {
        cpu_q8 q = cpu_q8_at(e, out, row);
        e->k->quantize(y, op->head_dim, q.q, q.d, q.sum);
    } else {
        memcpy(e->rows + row * e->rows_width + head * op->head_dim, y, op->head_dim * sizeof *y);
    }
}

// The next rows of one slot after row `first`, at most `most`.
static cpu_rows same_slot(const plan_step *step, uint32_t first, uint32_t most)
{
    cpu_rows rows = {first, 1};
    while (rows.n < most && first + rows.n < step->n_rows &&
           step->rows[first + rows.n].slot == step->rows[first].slot)
        rows.n++;
    return rows;
}

void cpu_attend(exec *e, const plan_attend *op, int member)
{
    uint32_t group = op->n_head / op->n_head_kv, most = rows_at_once(op), n_blocks = 0;
    for (uint32_t row = 0; row < e->step->n_rows; n_blocks++) {
        row += same_slot(e->step, row, most).n;
    }
    // Where there are too few tasks for the team, each query head is one of its own.
    uint32_t tasks = n_blocks * op->n_head_kv, threads = (uint32_t)team_size(e->team), begin, end;
    bool split = group > 1 && tasks % threads != 0 && tasks < 4 * threads;
    uint32_t parts = split ? group : 1;
    uint32_t row = 0, at = 0; // the block of rows that `row` begins
    while (team_next(e->team, tasks * parts, 1, &begin, &end)) {
        uint32_t block = begin / (op->n_head_kv * parts), rest = begin % (op->n_head_kv * parts);
        for (; at < block; at++) row += same_slot(e->step, row, most).n;
        task t = {.op = op, .rows = same_slot(e->step, row, most), .head_kv = rest / parts};
        t.n_heads = group / parts;
        t.head = t.head_kv * group + rest % parts * t.n_heads;
        t.n_pairs = t.rows.n * t.n_heads;
        t.n_dim = cpu_padded(op->head_dim);
        attend_task(e, &e->scratch[member], &t);
        for (uint32_t pair = 0; pair < t.n_pairs; pair++) {
            finish_pair(e, &e->scratch[member], &t, pair);
        }
    }
    if (!e->bufs[op->out.buf].q8 || op->head_dim % CPU_BLOCK == 0) return;
    team_barrier(e->team);
    while (team_next(e->team, e->step->n_rows, 1, &begin, &end)) {
        cpu_q8 q = cpu_q8_at(e, op->out, begin);
        e->k->quantize(e->rows + begin * e->rows_width, op->out.n, q.q, q.d, q.sum);
    }
}
