// Inside the CPU executor: a session's state, and the ops.
//
// Every member of the team walks the op list; inside an op, work is handed out in items (team.h).
// An item's result never depends on how the work was cut.
#ifndef PUMICE_EXEC_CPU_CPU_H
#define PUMICE_EXEC_CPU_CPU_H

#include "exec/cpu/team.h"
#include "exec/cpu/weights.h"

enum {
    CPU_TILE_ROWS = 128,   // rows of activations of a product's tile
    CPU_ATTEND_HEADS = 64, // about how many pairs (row, query head) attention takes at a time
    CPU_ATTEND_ROWS = 16,  // at most so many rows
};

// q8 rows have a form of their own inside (cpu_q8): values, scales, sums; read and write convert.
typedef struct cpu_buffer {
    uint8_t *data; // NULL: not used here
    bool q8;
    uint32_t width;
    size_t stride; // bytes from row to row
} cpu_buffer;

// Of one member of the team. Rows of head_dim values are padded to a multiple of 16.
typedef struct cpu_scratch {
    cpu_panel *panel;
    float *floats;               // [CPU_CHUNK * CPU_LANES]
    float *acc;                  // [CPU_TILE_ROWS][CPU_TILE_COLS]
    float *y[2];                 // [CPU_TILE_ROWS][CPU_TILE_COLS]
    float *row;                  // as wide as the widest buffer
    float *q, *out;              // [pairs][head_dim]
    float *k, *v;                // [CPU_KEYS][head_dim]
    float *score;                // [pairs][CPU_KEYS]
    float *greatest, *sum;       // [pairs]
    uint32_t *key_from, *key_to; // [pairs]
} cpu_scratch;

// Consecutive rows of a step that are of one slot.
typedef struct cpu_rows {
    uint32_t first, n;
} cpu_rows;

struct exec {
    exec_weights *w;
    const cpu_kernels *k;
    const plan_set *set;
    team *team;
    cpu_buffer *bufs;
    cpu_scratch *scratch;
    float *rows;    // [n_batch][rows_width]: inputs of products that had to be made first
    cpu_q8 rows_q8; // the same, as 8-bit rows
    size_t rows_width;
    uint32_t max_pairs; // of attention
    uint8_t *memory;    // all of the above
    uint64_t bytes;
    // of the run that is in progress
    const plan *plan;
    uint32_t first_op, n_ops;
    const plan_step *step;
};

static inline uint32_t cpu_padded(uint32_t n)
{
    return (n + CPU_LANES - 1) / CPU_LANES * CPU_LANES;
}

static inline float *cpu_f32_at(const exec *e, plan_view v, uint32_t row)
{
    const cpu_buffer *b = &e->bufs[v.buf];
    return (float *)(void *)(b->data + row * b->stride) + v.col;
}

// 8-bit rows of a buffer's width at `base`.
static inline cpu_q8 cpu_q8_rows(uint8_t *base, uint32_t width, size_t stride)
{
    float *d = (float *)(void *)(base + width);
    return (cpu_q8){(int8_t *)base, d, (int32_t *)(void *)(d + width / CPU_BLOCK), stride};
}

static inline cpu_q8 cpu_q8_at(const exec *e, plan_view v, uint32_t row)
{
    const cpu_buffer *b = &e->bufs[v.buf];
    return cpu_q8_moved(cpu_q8_rows(b->data, b->width, b->stride), row, v.col);
}

// Elements [at, ...) of a vector; NULL when it is absent.
static inline const float *cpu_vector(const exec *e, plan_vector v, uint64_t at)
{
    if (v.tensor == PLAN_NONE) return NULL;
    const plan_tensor *t = &e->set->tensors[v.tensor];
    return (t->values ? t->values : e->w->tensors[v.tensor].vector) + v.first + at;
}

static inline const cpu_weight *cpu_matrix(const exec *e, plan_weight w)
{
    return &e->w->tensors[w.tensor].matrix;
}

// Pairs of a row and a query head that an ATTEND takes at once, at most.
uint32_t cpu_attend_pairs(const plan_attend *op);

void cpu_linear(exec *e, const plan_linear *op, int member);
void cpu_logits(exec *e, const plan_logits *op, int member);
void cpu_attend(exec *e, const plan_attend *op, int member);
void cpu_rope_kv(exec *e, const plan_rope_kv *op, int member);
void cpu_embed(exec *e, const plan_embed *op, int member);
void cpu_norm(exec *e, const plan_norm_op *op, int member);
void cpu_quantize(exec *e, const plan_quantize *op);
void cpu_activate(exec *e, const plan_activate *op, int member);
void cpu_add(exec *e, const plan_add *op);
void cpu_pick(exec *e);

#endif
