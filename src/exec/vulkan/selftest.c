// The self-test (R28): every kernel that a state uses computes a small operation of generated
// numbers, which the reference's plain loops compute too.
//
// An operation of the plan is made small: fewer rows and columns, generated weights and inputs, all
// that chooses the kernel as it is (formats, flags, size of heads, rows of the step). Both
// executors run it as they run any other.
#include "exec/vulkan/vk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum {
    MAX_TENSORS = 10,
    N_BUFS = PLAN_KV + 2,
    MAX_VIEWS = 12,
    COLS = 512, // the widest: two blocks of any format
    ROWS = 48,  // of a weight: more than one tile of some kernels
    STEP_ROWS = 40,
};

// Far above what rounding does on any driver, far below what a wrong result has.
static const double bound_f32 = 1e-5, bound_q8 = 1e-4;

// A plan of one small operation with its numbers.
typedef struct small {
    const plan_set *from; // the plan that it was taken from
    plan_set set;
    plan_op op;
    plan_tensor tensors[MAX_TENSORS];
    void *data[MAX_TENSORS];
    plan_buf bufs[N_BUFS];
    uint8_t *content[N_BUFS]; // before the run
    struct {
        plan_view from, to;
    } views[MAX_VIEWS];
    uint32_t n_views;
    plan_step step;
    uint64_t draws;
    bool failed; // out of memory
} small;

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// ---- numbers ----------------------------------------------------------------------------------

static double draw(small *s)
{
    return rng_double(28, s->draws++);
}

static float normal(small *s)
{
    return rng_normal(29, s->draws++);
}

// Random bits are every integer and every scale of a format; only of a usual size.
static void fill_block(small *s, const quant_format *format, uint8_t *block)
{
    float values[256];
    for (int tries = 0; tries < 10000; tries++) {
        for (uint32_t i = 0; i < format->block_bytes; i++)
            block[i] = (uint8_t)(rng_u64(28, s->draws++) >> 32);
        format->decode(block, values, format->block_values);
        double sum = 0;
        for (uint32_t i = 0; i < format->block_values; i++)
            sum += (double)values[i] * (double)values[i];
        sum = sqrt(sum / format->block_values);
        if (sum > 0.25 && sum < 4) return;
    }
    memset(block, 0, format->block_bytes); // no format needs so many
}

static void fill_rows(small *s, quant_type type, uint64_t n_values, uint8_t *to)
{
    const quant_format *format = quant_format_of(type);
    for (uint64_t i = 0; i < n_values; i += format->block_values, to += format->block_bytes) {
        float values[QUANT_Q8_VALUES];
        bool plain = format->encode && format->block_values <= QUANT_Q8_VALUES;
        for (uint32_t k = 0; plain && k < format->block_values; k++) values[k] = normal(s);
        if (plain)
            format->encode(values, to, format->block_values);
        else
            fill_block(s, format, to);
    }
}

// ---- tensors, buffers, views ------------------------------------------------------------------

static int add_tensor(small *s, plan_tensor t)
{
    int i = (int)s->set.n_tensors;
    quant_row_bytes(t.type, t.cols, &t.row_bytes);
    s->data[i] = malloc(t.rows * t.row_bytes);
    if (!s->data[i]) s->failed = true;
    s->tensors[i] = t;
    s->set.n_tensors++;
    return i;
}

static plan_weight add_weight(small *s, plan_weight from, uint32_t rows, uint32_t cols)
{
    if (from.tensor < 0) return from;
    plan_tensor t = {.name = "self-test",
                     .type = s->from->tensors[from.tensor].type,
                     .rows = rows,
                     .cols = cols,
                     .layer = PLAN_NONE};
    int i = add_tensor(s, t);
    if (!s->failed) fill_rows(s, t.type, (uint64_t)rows * cols, s->data[i]);
    return (plan_weight){i, 0, rows};
}

static plan_vector add_vector(small *s, plan_vector from, uint32_t n, float center)
{
    if (from.tensor < 0) return from;
    int i = add_tensor(s, (plan_tensor){.name = "self-test",
                                        .type = QUANT_F32,
                                        .rows = 1,
                                        .cols = n,
                                        .layer = PLAN_NONE,
                                        .vector = true});
    float *values = s->data[i];
    for (uint32_t k = 0; k < n && !s->failed; k++) values[k] = center + 0.3f * normal(s);
    return (plan_vector){i, 0};
}

static int add_angles(small *s, int from, uint32_t n_ctx, uint32_t n_rot)
{
    if (from < 0) return from;
    int i = add_tensor(s, (plan_tensor){.name = "self-test",
                                        .type = QUANT_F32,
                                        .rows = n_ctx,
                                        .cols = n_rot,
                                        .layer = PLAN_NONE});
    float *values = s->data[i];
    for (uint32_t k = 0; k + 1 < n_ctx * n_rot && !s->failed; k += 2) {
        double angle = draw(s) * 6.28;
        values[k] = (float)cos(angle);
        values[k + 1] = (float)sin(angle);
    }
    s->tensors[i].values = values;
    return i;
}

static plan_buf *buffer(small *s, int id)
{
    plan_buf *b = &s->bufs[id];
    b->name = "self-test";
    b->type = s->from->bufs[id].type;
    b->rows = s->set.n_batch;
    b->layer = PLAN_NONE;
    return b;
}

// n columns of the same buffer: the same ones for the same view, else behind the others.
static plan_view view(small *s, plan_view from, uint32_t n)
{
    if (from.buf < 0) return from;
    for (uint32_t i = 0; i < s->n_views; i++)
        if (s->views[i].from.buf == from.buf && s->views[i].from.col == from.col)
            return s->views[i].to;
    plan_buf *b = buffer(s, from.buf);
    plan_view to = {from.buf, b->width, n};
    b->width += n;
    s->views[s->n_views].from = from;
    s->views[s->n_views++].to = to;
    return to;
}

static int add_cache(small *s, int from, int which, uint32_t n_head_kv, uint32_t head_dim)
{
    plan_buf *b = &s->bufs[PLAN_KV + which];
    *b = (plan_buf){.name = "self-test",
                    .type = s->from->bufs[from].type,
                    .width = head_dim,
                    .rows = n_head_kv * s->set.n_ctx,
                    .layer = 0};
    return PLAN_KV + which;
}

// Columns with the same remainders, so that loads take the same way.
static uint32_t few_cols(uint32_t n)
{
    return n <= COLS ? n : COLS + n % 16;
}

static uint32_t few_rows(uint32_t n, bool blocks)
{
    return least(n, blocks ? 2 * QUANT_Q8_VALUES : ROWS);
}

// ---- operations made small --------------------------------------------------------------------

// x of a product; where its rows can't be read in fours, neither can these.
static plan_view product_input(small *s, plan_view from, uint32_t cols)
{
    bool fours = from.col % 4 == 0 && s->from->bufs[from.buf].width % 4 == 0;
    plan_view x = view(s, from, cols);
    if (!fours && cols % 4 == 0) s->bufs[from.buf].width++;
    return x;
}

static void make_linear(small *s, plan_linear *l)
{
    plan_linear from = *l;
    bool blocks = s->from->bufs[from.out[0].buf].type == QUANT_Q8_0;
    uint32_t cols = few_cols(s->from->tensors[from.weight[0].tensor].cols);
    l->x = product_input(s, from.x, cols);
    l->norm_in = add_vector(s, from.norm_in, cols, 1);
    for (uint32_t i = 0; i < from.n_weights; i++) {
        uint32_t rows = few_rows(from.weight[i].rows, blocks);
        l->weight[i] = add_weight(s, from.weight[i], rows, cols);
        l->bias[i] = add_vector(s, from.bias[i], rows, 0);
        if (i == 0 || !from.gated) l->out[i] = view(s, from.out[i], rows);
    }
    l->residual = view(s, from.residual, l->weight[0].rows);
}

static void make_logits(small *s, plan_logits *l)
{
    uint32_t rows = few_rows(l->weight.rows, false);
    uint32_t cols = few_cols(s->from->tensors[l->weight.tensor].cols);
    l->x = product_input(s, l->x, cols);
    l->weight = add_weight(s, l->weight, rows, cols);
    l->bias = add_vector(s, l->bias, rows, 0);
    l->norm_in = add_vector(s, l->norm_in, cols, 1);
    s->set.n_vocab = rows;
    buffer(s, PLAN_LOGITS)->width = rows;
}

// More logits than it lists, where the model has more.
static void make_pick(small *s)
{
    s->set.n_vocab = few_cols(s->from->n_vocab);
    buffer(s, PLAN_LOGITS)->width = s->set.n_vocab;
    buffer(s, PLAN_PICK)->width = s->from->bufs[PLAN_PICK].width;
}

static void make_embed(small *s, plan_embed *m)
{
    uint32_t cols = few_cols(m->out.n);
    m->table = add_weight(s, m->table, few_rows(m->table.rows, true), cols);
    m->positions = add_weight(s, m->positions, few_rows(m->positions.rows, true), cols);
    m->out = view(s, m->out, cols);
    if (m->positions.tensor >= 0) s->set.n_ctx = m->positions.rows;
}

static void make_norm(small *s, plan_norm_op *n)
{
    uint32_t cols = few_cols(n->x.n);
    n->weight = add_vector(s, n->weight, cols, 1);
    n->bias = add_vector(s, n->bias, cols, 0);
    n->x = view(s, n->x, cols);
    n->residual = view(s, n->residual, cols);
    n->out = view(s, n->out, cols);
}

// Two key-value heads with their query heads, where so few make whole blocks.
static void few_heads(small *s, uint32_t *n_head, uint32_t *n_head_kv, uint32_t head_dim)
{
    uint32_t group = *n_head / *n_head_kv, n = least(*n_head_kv, 2);
    if (n * group * head_dim % QUANT_Q8_VALUES == 0) {
        *n_head_kv = n;
        *n_head = n * group;
    }
    s->set.n_head = *n_head;
    s->set.n_head_kv = *n_head_kv;
    s->set.head_dim = head_dim;
}

static void make_rope_kv(small *s, plan_rope_kv *k)
{
    few_heads(s, &k->n_head, &k->n_head_kv, k->head_dim);
    k->q = view(s, k->q, k->n_head * k->head_dim);
    k->k = view(s, k->k, k->n_head_kv * k->head_dim);
    k->v = view(s, k->v, k->n_head_kv * k->head_dim);
    k->q_norm = add_vector(s, k->q_norm, k->head_dim, 1);
    k->k_norm = add_vector(s, k->k_norm, k->head_dim, 1);
    k->table = add_angles(s, k->table, s->set.n_ctx, k->n_rot);
    k->k_cache = add_cache(s, k->k_cache, 0, k->n_head_kv, k->head_dim);
    k->v_cache = add_cache(s, k->v_cache, 1, k->n_head_kv, k->head_dim);
}

static void make_attend(small *s, plan_attend *a)
{
    few_heads(s, &a->n_head, &a->n_head_kv, a->head_dim);
    a->q = view(s, a->q, a->n_head * a->head_dim);
    a->out = view(s, a->out, a->n_head * a->head_dim);
    a->k_cache = add_cache(s, a->k_cache, 0, a->n_head_kv, a->head_dim);
    a->v_cache = add_cache(s, a->v_cache, 1, a->n_head_kv, a->head_dim);
}

static void make_op(small *s)
{
    plan_op *op = &s->op;
    switch (op->kind) {
    case PLAN_EMBED: make_embed(s, &op->u.embed); break;
    case PLAN_NORM: make_norm(s, &op->u.norm); break;
    case PLAN_LINEAR: make_linear(s, &op->u.linear); break;
    case PLAN_QUANTIZE: {
        uint32_t n = few_cols(op->u.quantize.x.n);
        op->u.quantize.x = view(s, op->u.quantize.x, n);
        op->u.quantize.out = view(s, op->u.quantize.out, n);
        break;
    }
    case PLAN_ROPE_KV: make_rope_kv(s, &op->u.rope_kv); break;
    case PLAN_ATTEND: make_attend(s, &op->u.attend); break;
    case PLAN_ACTIVATE: {
        plan_activate *a = &op->u.activate;
        uint32_t n = few_cols(a->x.n);
        a->x = view(s, a->x, n);
        a->up = view(s, a->up, n);
        a->out = view(s, a->out, n);
        break;
    }
    case PLAN_ADD: {
        plan_add *a = &op->u.add;
        uint32_t n = few_cols(a->out.n);
        a->a = view(s, a->a, n);
        a->b = view(s, a->b, n);
        a->out = view(s, a->out, n);
        break;
    }
    case PLAN_LOGITS_OP: make_logits(s, &op->u.logits); break;
    case PLAN_PICK_OP: make_pick(s); break;
    case PLAN_N_OP_KINDS: break;
    }
}

// Rows at the last positions before `end`: they see many keys.
static void make_step(small *s, uint32_t n_rows, uint32_t end, bool one_logit)
{
    uint32_t first = end - n_rows;
    const plan_embed *m = &s->op.u.embed;
    uint32_t n_tokens = s->op.kind == PLAN_EMBED ? m->table.rows : 1;
    s->step = (plan_step){.n_rows = n_rows, .n_logits = one_logit ? 1 : n_rows};
    for (uint32_t i = 0; i < n_rows; i++) {
        s->step.rows[i] =
            (plan_row){(int32_t)((i * 29 + 7) % n_tokens), first + i, 0, first + i + 1};
        s->step.logit_rows[i] = (uint16_t)(one_logit ? n_rows - 1 : i);
    }
    if (s->step.n_logits > s->set.n_logits) s->step.n_logits = s->set.n_logits;
}

static void small_free(small *s)
{
    for (uint32_t i = 0; i < MAX_TENSORS; i++) free(s->data[i]);
    for (int i = 0; i < N_BUFS; i++) free(s->content[i]);
    free(s);
}

static pm_status small_make(const vk_device *d, const plan_set *set, const plan *p,
                            const plan_op *op, bool far, bool one_logit, small **out)
{
    small *s = calloc(1, sizeof *s);
    if (!s) return error_memory("the self-test", sizeof *s);
    uint32_t n_rows = p->max_rows > PLAN_MATVEC_ROWS ? least(p->max_rows, STEP_ROWS) : p->max_rows;
    s->from = set;
    s->op = *op;
    if (op->layer >= 0) s->op.layer = 0;
    // A context beyond one part of attention, where the model's is.
    uint32_t n_ctx = least(set->n_ctx, d->profile->attend_split + 100);
    n_rows = least(n_rows, n_ctx);
    s->set = (plan_set){.n_layer = 1,
                        .n_slots = 1,
                        .n_head = 1,
                        .n_head_kv = 1,
                        .head_dim = 4,
                        .n_vocab = 1,
                        .n_ctx = n_ctx,
                        .n_batch = p->max_rows > n_rows ? n_rows : p->max_rows,
                        .n_logits = least(set->n_logits, n_rows),
                        .kv_type = set->kv_type};
    make_op(s);
    // With `far` more keys than one part of attention has, else as many.
    uint32_t end = far ? s->set.n_ctx : least(s->set.n_ctx, d->profile->attend_split);
    n_rows = least(n_rows, end);
    make_step(s, n_rows, end, one_logit);
    s->set.tensors = s->tensors;
    s->set.n_model_tensors = s->set.n_tensors;
    s->set.bufs = s->bufs;
    s->set.n_bufs = N_BUFS;
    s->set.n_buckets = 1;
    s->set.buckets[0] = (plan){s->set.n_batch, 1, &s->op};
    for (int i = 0; i < N_BUFS && !s->failed; i++) {
        plan_buf *b = &s->bufs[i];
        if ((i == PLAN_LOGITS || i == PLAN_PICK) && b->width) b->rows = s->set.n_logits;
        if (b->width == 0) continue;
        quant_row_bytes(b->type, b->width, &b->row_bytes);
        b->bytes = b->rows * b->row_bytes;
        if (!(s->content[i] = malloc(b->bytes))) s->failed = true;
        if (!s->failed) fill_rows(s, b->type, (uint64_t)b->rows * b->width, s->content[i]);
    }
    if (s->failed) {
        small_free(s);
        return error_memory("the self-test", 0);
    }
    *out = s;
    return PM_OK;
}

// ---- running ----------------------------------------------------------------------------------

static pm_status source_read(void *arg, uint32_t tensor, uint64_t offset, void *dst, uint64_t n)
{
    const small *s = arg;
    memcpy(dst, (const char *)s->data[tensor] + offset, n);
    return PM_OK;
}

// Runs it in a state that holds it; the buffers afterwards go to out[N_BUFS].
static pm_status run_state(const exec_kind *kind, exec *e, const small *s, uint8_t **out)
{
    pm_status status = PM_OK;
    for (int i = 0; i < N_BUFS && status == PM_OK; i++)
        if (s->bufs[i].bytes) status = kind->write(e, i, 0, s->content[i], s->bufs[i].bytes);
    if (status == PM_OK) status = kind->run(e, &s->set.buckets[0], 0, 1, &s->step);
    for (int i = 0; i < N_BUFS && status == PM_OK; i++) {
        if (s->bufs[i].bytes == 0) continue;
        out[i] = malloc(s->bufs[i].bytes);
        status = out[i] ? kind->read(e, i, 0, out[i], s->bufs[i].bytes)
                        : error_memory("the self-test", s->bufs[i].bytes);
    }
    return status;
}

// `keys`: what it runs on.
static pm_status run_on_device(vk_device *d, small *s, const bool *wanted,
                               const exec_source *source, uint8_t **out, vk_keys *keys)
{
    exec_params one = {.n_threads = 1, .layout = &s->set}; // gate and up side by side
    exec_weights w = {.device = d, .n_tensors = s->set.n_tensors, .tensors = s->tensors};
    exec *e = NULL;
    vk_recording *r = NULL;
    pm_status status = vk_weights_load(d, &one, s->tensors, s->set.n_tensors, wanted, source, &w);
    if (status == PM_OK) status = vk_state_open(&w, &s->set, (vk_layers){0, 1, true}, &e);
    if (status == PM_OK) status = vk_recording_of_keys(d, keys, &r);
    if (status == PM_OK)
        status = vk_emit_op(e, r, &s->op, vk_extent_of(e, &s->set.buckets[0], &s->step));
    vk_recording_free(r);
    if (status == PM_OK) status = run_state(&exec_vulkan, e, s, out);
    exec_vulkan.close(e);
    vk_weights_unload(&w);
    return status;
}

static pm_status run_on_reference(small *s, const bool *wanted, const exec_source *source,
                                  uint8_t **out)
{
    exec_params one = {.n_threads = 1};
    exec_weights *w = NULL;
    exec *e = NULL;
    pm_status status = exec_reference.load(&one, s->tensors, s->set.n_tensors, wanted, source, &w);
    if (status == PM_OK) status = exec_reference.open(w, &s->set, 0, 1, true, &e);
    if (status == PM_OK) status = run_state(&exec_reference, e, s, out);
    if (e) exec_reference.close(e);
    if (w) exec_reference.unload(w);
    return status;
}

// Both pick from the same logits.
static bool picks_are_right(const small *s, const plan_pick *got, const plan_pick *expected)
{
    for (uint32_t i = 0; i < s->step.n_logits; i++) {
        const plan_pick *a = &got[i], *b = &expected[i];
        if (a->id != b->id || a->max != b->max || a->finite != b->finite || a->n_top != b->n_top ||
            memcmp(a->top_id, b->top_id, b->n_top * sizeof *a->top_id) != 0 ||
            memcmp(a->top_logit, b->top_logit, b->n_top * sizeof *a->top_logit) != 0 ||
            !(fabsf(a->log_sum_exp - b->log_sum_exp) < 1e-3f))
            return false;
    }
    return true;
}

// Squared difference over squared size of what the operation wrote; not finite counts as wrong.
static bool is_right(const small *s, uint8_t *const *got, uint8_t *const *expected)
{
    if (s->op.kind == PLAN_PICK_OP)
        return picks_are_right(s, (const void *)got[PLAN_PICK], (const void *)expected[PLAN_PICK]);
    bool q8 = s->op.act == PLAN_ACT_Q8;
    double error = 0, size = 0;
    for (int i = 0; i < N_BUFS; i++) {
        const plan_buf *b = &s->bufs[i];
        const quant_format *format = quant_format_of(b->type);
        uint32_t rows = i >= PLAN_KV       ? b->rows
                        : i == PLAN_LOGITS ? s->step.n_logits
                                           : s->step.n_rows;
        if (b->bytes == 0) continue;
        q8 = q8 || b->type == QUANT_Q8_0;
        uint64_t n = (uint64_t)rows * b->width;
        for (uint64_t at = 0; at < n; at += format->block_values) {
            uint64_t block = at / format->block_values * format->block_bytes;
            if (!memcmp(expected[i] + block, s->content[i] + block, format->block_bytes) &&
                !memcmp(got[i] + block, s->content[i] + block, format->block_bytes))
                continue;                                 // not written
            float a[QUANT_Q8_VALUES], c[QUANT_Q8_VALUES]; // buffers have no larger blocks
            format->decode(expected[i] + block, a, format->block_values);
            format->decode(got[i] + block, c, format->block_values);
            for (uint32_t k = 0; k < format->block_values; k++) {
                double difference = (double)a[k] - (double)c[k];
                error += difference * difference;
                size += (double)a[k] * (double)a[k];
            }
        }
    }
    return error <= (q8 ? bound_q8 : bound_f32) * size; // false for NaN
}

// Runs the small operation on both sides and remembers how its kernels did.
static pm_status test_small(vk_device *d, small *s, uint32_t *n_wrong)
{
    exec_source source = {.arg = s, .read = source_read};
    bool wanted[MAX_TENSORS];
    uint8_t *got[N_BUFS] = {NULL}, *expected[N_BUFS] = {NULL};
    vk_keys keys = {0};
    for (uint32_t i = 0; i < s->set.n_tensors; i++) wanted[i] = !s->tensors[i].values;
    pm_status status = run_on_device(d, s, wanted, &source, got, &keys);
    if (status == PM_OK) status = run_on_reference(s, wanted, &source, expected);
    if (status == PM_OK && is_right(s, got, expected)) {
        for (size_t i = 0; i < keys.n; i++) vk_set_tested(d, &keys.keys[i]);
    } else if (status == PM_OK) {
        // The first that no other operation has shown to be right.
        size_t i = 0;
        while (i + 1 < keys.n && vk_is_tested(d, &keys.keys[i])) i++;
        vk_mark_bad(d, keys.keys[i].shader, "gives wrong results (self-test)");
        ++*n_wrong;
    }
    for (int i = 0; i < N_BUFS; i++) {
        free(got[i]);
        free(expected[i]);
    }
    free(keys.keys);
    return status;
}

pm_status vk_self_test(vk_device *d, const plan_set *set, const plan *p, const plan_op *op,
                       vk_extent extent, uint32_t *n_wrong)
{
    small *s = NULL;
    bool far = extent.n_kv > d->profile->attend_split;
    pm_status status = small_make(d, set, p, op, far, extent.n_logits == 1, &s);
    if (status != PM_OK) return status;
    status = test_small(d, s, n_wrong);
    small_free(s);
    return status;
}

// ---- the choice of decoding ahead -------------------------------------------------------------

// What ahead_next says of the small LOGITS.
static pm_status choose_on_device(vk_device *d, small *s, const bool *wanted,
                                  const exec_source *source, exec_choice *choice)
{
    exec_params one = {.n_threads = 1, .layout = &s->set};
    exec_weights w = {.device = d, .n_tensors = s->set.n_tensors, .tensors = s->tensors};
    exec *e = NULL;
    int x = s->op.u.logits.x.buf;
    pm_status status = vk_weights_load(d, &one, s->tensors, s->set.n_tensors, wanted, source, &w);
    if (status == PM_OK) status = vk_state_open(&w, &s->set, (vk_layers){0, 1, true}, &e);
    if (status == PM_OK) status = exec_vulkan.write(e, x, 0, s->content[x], s->bufs[x].bytes);
    if (status == PM_OK) status = vk_ahead_begin(e, &s->set.buckets[0], 0, 1, &s->step, 1);
    if (status == PM_OK) status = vk_ahead_next(e, choice);
    exec_vulkan.close(e);
    vk_weights_unload(&w);
    return status;
}

// Is it the largest, rounding aside?
static bool is_largest(const float *logits, uint32_t n, exec_choice choice)
{
    if (!choice.certain || choice.id < 0 || (uint32_t)choice.id >= n) return false;
    float max = logits[0];
    for (uint32_t i = 1; i < n; i++) max = logits[i] > max ? logits[i] : max;
    return logits[choice.id] >= max - 1e-3f * fabsf(max);
}

pm_status vk_self_test_choice(vk_device *d, const plan_set *set, const plan_op *op,
                              const vk_pipeline_key *key, uint32_t *n_wrong)
{
    small *s = NULL;
    bool wanted[MAX_TENSORS];
    uint8_t *expected[N_BUFS] = {NULL};
    exec_choice choice = {0};
    pm_status status = small_make(d, set, &set->buckets[0], op, false, true, &s);
    if (status != PM_OK) return status;
    exec_source source = {.arg = s, .read = source_read};
    for (uint32_t i = 0; i < s->set.n_tensors; i++) wanted[i] = !s->tensors[i].values;
    status = choose_on_device(d, s, wanted, &source, &choice);
    if (status == PM_OK) status = run_on_reference(s, wanted, &source, expected);
    if (status == PM_OK) {
        const float *logits = (const void *)expected[PLAN_LOGITS];
        bool right = is_largest(logits, s->set.n_vocab, choice);
        if (right) vk_set_tested(d, key);
        if (!right) vk_mark_bad(d, key->shader, "gives wrong results (self-test)");
        *n_wrong += !right;
    }
    for (int i = 0; i < N_BUFS; i++) free(expected[i]);
    small_free(s);
    return status;
}
