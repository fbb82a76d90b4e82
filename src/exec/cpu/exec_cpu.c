// The CPU executor: a session's memory, and the loop over the ops.
#include "exec/exec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/size.h"
#include "exec/cpu/cpu.h"

// ---- opening ----------------------------------------------------------------------------------

// Hands out aligned pieces of one block of memory. A first pass without memory (base NULL) finds
// out how much it takes.
typedef struct arena {
    uint8_t *base;
    uint64_t used;
    bool overflow;
} arena;

static void *carve(arena *a, uint64_t n, uint64_t size)
{
    uint64_t at = a->used, bytes;
    if (!size_mul(n, size, &bytes) || !size_add(a->used, bytes, &a->used) ||
        !size_align(a->used, 64, &a->used))
        a->overflow = true;
    return a->base && !a->overflow ? a->base + at : NULL;
}

static float *carve_floats(arena *a, uint64_t rows, uint64_t width)
{
    return carve(a, rows, width * sizeof(float));
}

static size_t q8_stride(uint32_t width)
{
    size_t bytes = width + width / CPU_BLOCK * sizeof(float) + width / 16 * sizeof(int32_t);
    return (bytes + 63) / 64 * 64;
}

static bool has_layer(uint32_t first_layer, uint32_t end_layer, bool outer, int layer)
{
    if (layer < 0) return outer;
    return (uint32_t)layer >= first_layer && (uint32_t)layer < end_layer;
}

// What the ops and buffers ask of the scratch memory.
typedef struct needs {
    uint32_t first_layer, end_layer;
    bool outer;
    uint32_t widest;   // row of a buffer or head
    uint32_t pairs;    // of attention
    uint32_t head_dim; // padded
    uint32_t rows;
} needs;

static void carve_scratch(arena *a, cpu_scratch *s, const needs *n)
{
    s->panel = carve(a, 1, sizeof *s->panel);
    s->floats = carve_floats(a, CPU_CHUNK, CPU_LANES);
    s->acc = carve_floats(a, CPU_TILE_ROWS, CPU_TILE_COLS);
    for (int i = 0; i < 2; i++) s->y[i] = carve_floats(a, CPU_TILE_ROWS, CPU_TILE_COLS);
    s->row = carve_floats(a, 1, n->widest);
    s->q = carve_floats(a, n->pairs, n->head_dim);
    s->out = carve_floats(a, n->pairs, n->head_dim);
    s->k = carve_floats(a, CPU_KEYS, n->head_dim);
    s->v = carve_floats(a, CPU_KEYS, n->head_dim);
    s->score = carve_floats(a, n->pairs, CPU_KEYS);
    s->greatest = carve_floats(a, n->pairs, 1);
    s->sum = carve_floats(a, n->pairs, 1);
    s->key_from = carve(a, n->pairs, sizeof *s->key_from);
    s->key_to = carve(a, n->pairs, sizeof *s->key_to);
}

static void carve_all(exec *e, arena *a, const needs *n)
{
    for (uint32_t i = 0; i < e->set->n_bufs; i++) {
        const plan_buf *b = &e->set->bufs[i];
        cpu_buffer *mine = &e->bufs[i];
        bool cache = i >= PLAN_KV;
        if (b->width == 0 ||
            (cache && !has_layer(n->first_layer, n->end_layer, n->outer, b->layer)))
            continue;
        mine->width = b->width;
        mine->q8 = !cache && b->type == QUANT_Q8_0;
        mine->stride = mine->q8 ? q8_stride(b->width) : b->row_bytes;
        mine->data = carve(a, b->rows, mine->stride);
    }
    for (int i = 0; i < team_size(e->team); i++) carve_scratch(a, &e->scratch[i], n);
    e->rows_width = cpu_padded(n->widest);
    e->rows = carve_floats(a, n->rows, e->rows_width);
    uint32_t q8_width = (n->widest + CPU_BLOCK - 1) / CPU_BLOCK * CPU_BLOCK;
    uint8_t *q8 = carve(a, n->rows, q8_stride(q8_width));
    if (q8) e->rows_q8 = cpu_q8_rows(q8, q8_width, q8_stride(q8_width));
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void look_at_plans(const plan_set *set, needs *n)
{
    for (uint32_t i = 0; i < set->n_buckets; i++) {
        for (uint32_t j = 0; j < set->buckets[i].n_ops; j++) {
            const plan_op *op = &set->buckets[i].ops[j];
            if (!exec_has_op(set, op, n->first_layer, n->end_layer, n->outer)) continue;
            if (op->kind == PLAN_ATTEND) {
                n->pairs = larger(n->pairs, cpu_attend_pairs(&op->u.attend));
                n->head_dim = larger(n->head_dim, cpu_padded(op->u.attend.head_dim));
            }
        }
    }
    for (uint32_t i = 0; i < set->n_bufs; i++) {
        if (i != PLAN_LOGITS && i != PLAN_PICK) n->widest = larger(n->widest, set->bufs[i].width);
    }
    n->rows = larger(set->n_batch, set->n_logits);
}

static void cpu_close(exec *e)
{
    if (!e) return;
    team_destroy(e->team);
    os_pages_free(e->memory, e->bytes);
    free(e->bufs);
    free(e->scratch);
    free(e);
}

static pm_status make_memory(exec *e, const needs *n)
{
    e->bufs = calloc(e->set->n_bufs, sizeof *e->bufs);
    e->scratch = calloc((size_t)team_size(e->team), sizeof *e->scratch);
    if (!e->bufs || !e->scratch) return error_memory("a session", e->set->n_bufs);
    arena a = {0};
    carve_all(e, &a, n);
    if (a.overflow || !(e->memory = os_pages_alloc(a.used, true)))
        return error_memory("the cache and buffers of a session", a.used);
    e->bytes = a.used;
    a = (arena){.base = e->memory};
    carve_all(e, &a, n);
    return PM_OK;
}

static pm_status cpu_open(exec_weights *w, const plan_set *set, uint32_t first_layer,
                          uint32_t end_layer, bool outer, exec **out)
{
    *out = NULL;
    needs n = {.first_layer = first_layer, .end_layer = end_layer, .outer = outer, .widest = 1024};
    look_at_plans(set, &n);
    exec *e = calloc(1, sizeof *e);
    if (!e) return error_memory("a session", sizeof *e);
    e->w = w;
    e->k = w->kernels;
    e->set = set;
    pm_status status = team_create(w->n_threads, &e->team);
    if (status == PM_OK) status = make_memory(e, &n);
    if (status != PM_OK) {
        cpu_close(e);
        return status;
    }
    *out = e;
    return PM_OK;
}

// ---- running ----------------------------------------------------------------------------------

static void run_op(exec *e, const plan_op *op, int member)
{
    switch (op->kind) {
    case PLAN_EMBED: cpu_embed(e, &op->u.embed, member); break;
    case PLAN_NORM: cpu_norm(e, &op->u.norm, member); break;
    case PLAN_LINEAR: cpu_linear(e, &op->u.linear, member); break;
    case PLAN_QUANTIZE: cpu_quantize(e, &op->u.quantize); break;
    case PLAN_ROPE_KV: cpu_rope_kv(e, &op->u.rope_kv, member); break;
    case PLAN_ATTEND: cpu_attend(e, &op->u.attend, member); break;
    case PLAN_ACTIVATE: cpu_activate(e, &op->u.activate, member); break;
    case PLAN_ADD: cpu_add(e, &op->u.add); break;
    case PLAN_LOGITS_OP: cpu_logits(e, &op->u.logits, member); break;
    case PLAN_PICK_OP: cpu_pick(e); break;
    case PLAN_N_OP_KINDS: break;
    }
}

static void run_member(void *arg, int member)
{
    exec *e = arg;
    for (uint32_t i = 0; i < e->n_ops; i++) {
        if (i > 0) team_barrier(e->team);
        run_op(e, &e->plan->ops[e->first_op + i], member);
    }
}

// A wrong step would write outside of buffers: better an error.
static pm_status check_step(const exec *e, const plan *p, const plan_step *step)
{
    uint32_t positions = e->set->n_ctx;
    if (step->n_rows > p->max_rows || step->n_rows > e->set->n_batch ||
        step->n_logits > e->set->n_logits)
        return error_set(PM_ERROR_RUN, "a step of %" PRIu32 " rows for a plan of %" PRIu32,
                         step->n_rows, p->max_rows);
    for (uint32_t i = 0; i < step->n_rows; i++) {
        const plan_row *r = &step->rows[i];
        if (r->pos >= positions || r->n_kv > positions || r->n_kv == 0 ||
            r->slot >= e->set->n_slots)
            return error_set(PM_ERROR_RUN,
                             "position %" PRIu32 " with %" PRIu32 " keys in slot %" PRIu32
                             " of a cache of %" PRIu32 " positions",
                             r->pos, r->n_kv, r->slot, positions);
    }
    for (uint32_t i = 0; i < step->n_logits; i++) {
        if (step->logit_rows[i] >= step->n_rows)
            return error_set(PM_ERROR_RUN, "logits of row %d of %" PRIu32, step->logit_rows[i],
                             step->n_rows);
    }
    return PM_OK;
}

static pm_status check_tokens(const exec *e, const plan_embed *op, const plan_step *step)
{
    for (uint32_t i = 0; i < step->n_rows; i++) {
        const plan_row *r = &step->rows[i];
        if (r->token < 0 || (uint32_t)r->token >= op->table.rows)
            return error_set(PM_ERROR_RUN, "token %" PRId32 " of %" PRIu32, r->token,
                             op->table.rows);
        if (op->positions.tensor != PLAN_NONE && r->pos >= op->positions.rows)
            return error_set(PM_ERROR_RUN, "position %" PRIu32 " of %" PRIu32, r->pos,
                             op->positions.rows);
    }
    (void)e;
    return PM_OK;
}

static pm_status cpu_run(exec *e, const plan *p, uint32_t first, uint32_t count,
                         const plan_step *step)
{
    pm_status status = check_step(e, p, step);
    if (!size_in_range(first, count, p->n_ops))
        status = error_set(PM_ERROR_RUN, "ops %" PRIu32 " to %" PRIu32 " of %" PRIu32, first,
                           first + count, p->n_ops);
    for (uint32_t i = 0; status == PM_OK && i < count; i++) {
        const plan_op *op = &p->ops[first + i];
        if (op->kind == PLAN_EMBED) status = check_tokens(e, &op->u.embed, step);
    }
    if (status != PM_OK || count == 0 || step->n_rows == 0) return status;
    e->plan = p;
    e->first_op = first;
    e->n_ops = count;
    e->step = step;
    team_run(e->team, run_member, e);
    return PM_OK;
}

// ---- reading and writing buffers --------------------------------------------------------------

// Row `row` of an 8-bit buffer in its stored form, blocks of Q8_0.
static void q8_to_blocks(const cpu_buffer *b, uint32_t row, uint8_t *blocks)
{
    cpu_q8 q = cpu_q8_moved(cpu_q8_rows(b->data, b->width, b->stride), row, 0);
    for (uint32_t i = 0; i < b->width / CPU_BLOCK; i++, blocks += QUANT_Q8_BYTES) {
        uint16_t half = quant_f32_to_f16(q.d[i]);
        memcpy(blocks, &half, sizeof half);
        memcpy(blocks + 2, q.q + i * CPU_BLOCK, CPU_BLOCK);
    }
}

static void q8_from_blocks(const cpu_buffer *b, uint32_t row, const uint8_t *blocks)
{
    cpu_q8 q = cpu_q8_moved(cpu_q8_rows(b->data, b->width, b->stride), row, 0);
    for (uint32_t i = 0; i < b->width / CPU_BLOCK; i++, blocks += QUANT_Q8_BYTES) {
        uint16_t half;
        memcpy(&half, blocks, sizeof half);
        q.d[i] = quant_f16_to_f32(half);
        memcpy(q.q + i * CPU_BLOCK, blocks + 2, CPU_BLOCK);
    }
    for (uint32_t i = 0; i < b->width / 16; i++) {
        q.sum[i] = 0;
        for (int j = 0; j < 16; j++) q.sum[i] += q.q[16 * i + (uint32_t)j];
    }
}

// Copies bytes of the stored form out of (dst) or into (src) an 8-bit buffer, row by row.
static void copy_q8(exec *e, int buffer, uint64_t offset, uint8_t *dst, const uint8_t *src,
                    uint64_t n)
{
    const cpu_buffer *b = &e->bufs[buffer];
    uint64_t row_bytes = e->set->bufs[buffer].row_bytes;
    uint8_t *blocks = (uint8_t *)e->rows; // wide enough: four bytes for each value
    for (uint64_t done = 0; done < n;) {
        uint32_t row = (uint32_t)((offset + done) / row_bytes);
        uint64_t at = (offset + done) % row_bytes;
        uint64_t now = n - done < row_bytes - at ? n - done : row_bytes - at;
        q8_to_blocks(b, row, blocks);
        if (dst) {
            memcpy(dst + done, blocks + at, now);
        } else {
            memcpy(blocks + at, src + done, now);
            q8_from_blocks(b, row, blocks);
        }
        done += now;
    }
}

static pm_status check_range(const exec *e, int buffer, uint64_t offset, uint64_t n)
{
    bool known = buffer >= 0 && (uint32_t)buffer < e->set->n_bufs && e->bufs[buffer].data;
    if (known && size_in_range(offset, n, e->set->bufs[buffer].bytes)) return PM_OK;
    return error_set(PM_ERROR_RUN, "bytes %" PRIu64 " + %" PRIu64 " of buffer %d: not there",
                     offset, n, buffer);
}

static pm_status cpu_read(exec *e, int buffer, uint64_t offset, void *dst, uint64_t n)
{
    pm_status status = check_range(e, buffer, offset, n);
    if (status != PM_OK) return status;
    if (e->bufs[buffer].q8) {
        copy_q8(e, buffer, offset, dst, NULL, n);
    } else {
        memcpy(dst, e->bufs[buffer].data + offset, n);
    }
    return PM_OK;
}

static pm_status cpu_write(exec *e, int buffer, uint64_t offset, const void *src, uint64_t n)
{
    pm_status status = check_range(e, buffer, offset, n);
    if (status != PM_OK) return status;
    if (e->bufs[buffer].q8) {
        copy_q8(e, buffer, offset, NULL, src, n);
    } else {
        memcpy(e->bufs[buffer].data + offset, src, n);
    }
    return PM_OK;
}

static uint64_t cpu_weight_bytes(const exec_weights *w)
{
    return w->bytes;
}

static const char *cpu_describe(const exec_weights *w)
{
    return w->description;
}

static bool cpu_prefers_q8(const exec_weights *w)
{
    (void)w;
    return true;
}

const exec_kind exec_cpu = {
    .name = "cpu",
    .load = cpu_load,
    .settle = cpu_settle,
    .unload = cpu_unload,
    .weight_bytes = cpu_weight_bytes,
    .describe = cpu_describe,
    .prefers_q8 = cpu_prefers_q8,
    .open = cpu_open,
    .close = cpu_close,
    .run = cpu_run,
    .read = cpu_read,
    .write = cpu_write,
};
