// The operations without matrices as dispatches: NORM, ROPE_KV, ATTEND, ACTIVATE, ADD, PICK.
#include "exec/vulkan/vk.h"

#include <assert.h>
#include <inttypes.h>

#include "push.h"

enum { MAX_HEAD_DIM = 1024 };

// ---- ranges -----------------------------------------------------------------------------------

static vk_range rows_of(const exec *e, int buffer)
{
    return e->bufs[buffer].pieces[0]; // row buffers are whole
}

static vk_range range_of(const exec *e, plan_view v)
{
    return v.buf < 0 ? (vk_range){0} : rows_of(e, v.buf);
}

static uint32_t stride_of(const exec *e, plan_view v)
{
    return v.buf < 0 ? 0 : e->set->bufs[v.buf].width;
}

static bool is_q8(const exec *e, plan_view v)
{
    return e->set->bufs[v.buf].type == QUANT_Q8_0;
}

static uint32_t at_most(uint64_t n, uint32_t limit)
{
    return n < limit ? (uint32_t)n : limit;
}

// The largest power of two up to `want` and the device's limit.
static uint32_t workgroup(const vk_device *d, uint32_t want)
{
    uint32_t n = 1;
    while (2 * n <= want && 2 * n <= d->limits.max_invocations && 2 * n <= 1024) n *= 2;
    return n;
}

// Workgroups of one subgroup, whose invocations need no barrier: what suits a driver on a
// processor.
static bool one_subgroup(const vk_device *d)
{
    uint32_t lanes = d->limits.subgroup_size;
    return d->profile->lane_rows && d->features.subgroup && lanes >= 4 && lanes <= 16;
}

static uint32_t rows_groups(const exec *e, uint32_t n_rows, int axis)
{
    return at_most(n_rows, e->device->limits.max_groups[axis]);
}

static pm_status no_shader(const exec *e, const char *name)
{
    return error_set(PM_ERROR_DEVICE, "%s: no shader '%s' in this build", e->device->title, name);
}

static pm_status set_shader(const exec *e, vk_dispatch *dispatch, const char *name)
{
    const vk_shader *shader = dispatch->key.shader = vk_shader_named(name);
    if (!shader) return no_shader(e, name);
    return vk_shader_is_bad(e->device, shader) ? vk_bad_shader(e->device, shader) : PM_OK;
}

// ---- row by row -------------------------------------------------------------------------------

// One range that holds both vectors, and where each begins in it, in words.
static bool cover(vk_range a, vk_range b, vk_range *both, uint32_t *at_a, uint32_t *at_b)
{
    if (!b.buffer) b = a;
    if (a.buffer != b.buffer) return false;
    uint64_t begin = a.offset < b.offset ? a.offset : b.offset;
    uint64_t end_a = a.offset + a.bytes, end_b = b.offset + b.bytes;
    *both = (vk_range){a.buffer, begin, (end_a > end_b ? end_a : end_b) - begin};
    *at_a = (uint32_t)((a.offset - begin) / 4);
    *at_b = (uint32_t)((b.offset - begin) / 4);
    return true;
}

static pm_status emit_norm(exec *e, vk_recording *r, const plan_op *op, vk_extent extent)
{
    const plan_norm_op *n = &op->u.norm;
    vk_range weight = vk_weight_vector(e->weights, n->weight.tensor), vectors;
    vk_range bias =
        n->bias.tensor < 0 ? (vk_range){0} : vk_weight_vector(e->weights, n->bias.tensor);
    struct push_norm push = {.n = n->x.n,
                             .x_col = n->x.col,
                             .x_stride = stride_of(e, n->x),
                             .residual_col = n->residual.col,
                             .residual_stride = stride_of(e, n->residual),
                             .out_col = n->out.col,
                             .out_stride = stride_of(e, n->out),
                             .eps = n->eps};
    if (!cover(weight, bias, &vectors, &push.weight, &push.bias) ||
        vectors.bytes > e->device->limits.max_binding)
        return error_set(PM_ERROR_DEVICE, "%s: the vectors of a norm lie too far apart",
                         e->device->title);
    push.weight += n->weight.first;
    bool one = one_subgroup(e->device);
    push.bias += bias.buffer ? n->bias.first : 0;
    vk_dispatch d = {
        .label = op->label,
        .key = {.n_spec = 5,
                .spec = {one ? e->device->limits.subgroup_size : workgroup(e->device, 256),
                         n->norm == PLAN_NORM_LAYER, bias.buffer != NULL, n->residual.buf >= 0,
                         is_q8(e, n->out)}},
        .bind = {{.range = range_of(e, n->x), .reads = true},
                 {.range = vectors, .reads = true},
                 {.range = range_of(e, n->residual), .reads = true},
                 {.range = range_of(e, n->out), .writes = true}},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {rows_groups(e, extent.n_rows, 0), 1, 1},
    };
    pm_status status = set_shader(e, &d, one ? "norm_one" : "norm");
    return status == PM_OK ? vk_record(r, &d) : status;
}

static pm_status emit_activate(exec *e, vk_recording *r, const plan_op *op, plan_activate a,
                               vk_extent extent)
{
    struct push_activate push = {.n = a.x.n,
                                 .fn = a.fn,
                                 .has_up = a.up.buf >= 0,
                                 .out_q8 = is_q8(e, a.out),
                                 .n_rows = extent.n_rows,
                                 .x_col = a.x.col,
                                 .x_stride = stride_of(e, a.x),
                                 .up_col = a.up.col,
                                 .up_stride = stride_of(e, a.up),
                                 .out_col = a.out.col,
                                 .out_stride = stride_of(e, a.out)};
    uint32_t w = workgroup(e->device, 64), items = push.out_q8 ? push.n / 32 : push.n;
    vk_dispatch d = {
        .label = op->label,
        .key = {.n_spec = 1, .spec = {w}},
        .bind = {{.range = range_of(e, a.x), .reads = true},
                 {.range = range_of(e, a.up), .reads = true},
                 {.range = range_of(e, a.out), .writes = true}},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {(items + w - 1) / w, rows_groups(e, extent.n_rows, 1), 1},
    };
    pm_status status = set_shader(e, &d, "activate");
    return status == PM_OK ? vk_record(r, &d) : status;
}

// q8 blocks of f32 rows that lie in no buffer of the plan: rows [first_row, first_row + n_rows).
static pm_status emit_blocks(exec *e, vk_recording *r, const plan_op *op, vk_range from,
                             plan_view out, uint32_t first_row, uint32_t n_rows)
{
    struct push_activate push = {.n = out.n,
                                 .fn = PLAN_FN_NONE,
                                 .out_q8 = 1,
                                 .first_row = first_row,
                                 .n_rows = n_rows,
                                 .x_first = first_row,
                                 .x_stride = out.n,
                                 .out_col = out.col,
                                 .out_stride = stride_of(e, out)};
    uint32_t w = workgroup(e->device, 64);
    vk_dispatch d = {
        .label = op->label,
        .key = {.n_spec = 1, .spec = {w}},
        .bind = {{.range = from, .reads = true},
                 {.reads = true},
                 {.range = range_of(e, out), .writes = true}},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {(push.n / 32 + w - 1) / w, rows_groups(e, n_rows, 1), 1},
    };
    pm_status status = set_shader(e, &d, "activate");
    return status == PM_OK ? vk_record(r, &d) : status;
}

static pm_status emit_add(exec *e, vk_recording *r, const plan_op *op, vk_extent extent)
{
    const plan_add *a = &op->u.add;
    struct push_add push = {.n = a->out.n,
                            .a_col = a->a.col,
                            .a_stride = stride_of(e, a->a),
                            .b_col = a->b.col,
                            .b_stride = stride_of(e, a->b),
                            .out_col = a->out.col,
                            .out_stride = stride_of(e, a->out)};
    uint32_t w = workgroup(e->device, 64);
    vk_dispatch d = {
        .label = op->label,
        .key = {.n_spec = 1, .spec = {w}},
        .bind = {{.range = range_of(e, a->a), .reads = true},
                 {.range = range_of(e, a->b), .reads = true},
                 {.range = range_of(e, a->out), .writes = true}},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {(push.n + w - 1) / w, rows_groups(e, extent.n_rows, 1), 1},
    };
    pm_status status = set_shader(e, &d, "add");
    return status == PM_OK ? vk_record(r, &d) : status;
}

// ---- attention --------------------------------------------------------------------------------

static uint32_t cache_type(const plan_set *set, int cache)
{
    quant_type type = set->bufs[cache].type;
    return type == QUANT_F32 ? 0 : type == QUANT_F16 ? 1 : 2; // cache.glsl
}

// The heads (of all slots) in piece i of a cache.
static void heads_of_piece(const exec *e, int cache, uint32_t i, uint32_t *first, uint32_t *n)
{
    const vk_store *s = &e->bufs[cache];
    uint32_t rows = e->set->bufs[cache].rows, begin = i * s->rows_per_piece;
    *first = begin / e->set->n_ctx;
    *n = (rows - begin < s->rows_per_piece ? rows - begin : s->rows_per_piece) / e->set->n_ctx;
}

static pm_status emit_rope_kv(exec *e, vk_recording *r, const plan_op *op, vk_extent extent)
{
    const plan_rope_kv *k = &op->u.rope_kv;
    const plan_set *set = e->set;
    bool one = one_subgroup(e->device);
    uint32_t constant = vk_constant_of(set, k->table);
    uint32_t angles = k->table < 0 ? 0 : set->tensors[k->table].rows * set->tensors[k->table].cols;
    uint32_t norms = angles + 2 * (uint32_t)op->layer * k->head_dim;
    struct push_rope_kv push = {.stride = set->bufs[k->q.buf].width,
                                .q_col = k->q.col,
                                .k_col = k->k.col,
                                .v_col = k->v.col,
                                .n_head = k->n_head,
                                .n_head_kv = k->n_head_kv,
                                .head_dim = k->head_dim,
                                .n_ctx = set->n_ctx,
                                .n_rot = k->rope == PLAN_ROPE_NONE ? 0 : k->n_rot,
                                .neox = k->rope == PLAN_ROPE_NEOX,
                                .q_norm = k->q_norm.tensor < 0 ? UINT32_MAX : norms,
                                .k_norm = k->k_norm.tensor < 0 ? UINT32_MAX : norms + k->head_dim,
                                .eps = k->norm_eps};
    vk_dispatch d = {
        .label = op->label,
        .key = {.n_spec = 3,
                .spec = {one ? e->device->limits.subgroup_size : workgroup(e->device, 64),
                         cache_type(set, k->k_cache),
                         k->q_norm.tensor >= 0 || k->k_norm.tensor >= 0}},
        .bind = {{.range = range_of(e, k->q), .reads = true, .writes = true},
                 {.range = e->constants[constant], .reads = true},
                 {.writes = true},
                 {.writes = true}},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {k->n_head + 2 * k->n_head_kv, rows_groups(e, extent.n_rows, 1), 1},
    };
    pm_status status = set_shader(e, &d, one ? "rope_kv_one" : "rope_kv");
    for (uint32_t i = 0; status == PM_OK && i < e->bufs[k->k_cache].n_pieces; i++) {
        heads_of_piece(e, k->k_cache, i, &push.first_head, &push.n_heads);
        push.write_q = i == 0;
        d.bind[2].range = e->bufs[k->k_cache].pieces[i];
        d.bind[3].range = e->bufs[k->v_cache].pieces[i];
        status = vk_record(r, &d);
    }
    return status;
}

// How attention is cut: keys and queries (heads of a group, then rows) of a workgroup, so that
// results and scores fit the shared memory; keys a part.
typedef struct attend_shape {
    bool one;              // the variant: a workgroup is one subgroup
    uint32_t w, lane_keys; // invocations, and keys that one computes at once
    uint32_t tile, queries;
    uint32_t split, n_splits;
} attend_shape;

enum { ATTEND_QUERIES = 8, ATTEND_TILE = 128 };

static uint32_t attend_shared(uint32_t queries, uint32_t head_dim, uint32_t w)
{
    return 4 * (queries * (ATTEND_TILE + head_dim + 6) + w);
}

static attend_shape shape_of(const vk_device *d, const plan_attend *a, vk_extent extent)
{
    attend_shape s = {.one = one_subgroup(d), .tile = ATTEND_TILE};
    s.w = s.one ? d->limits.subgroup_size : workgroup(d, 64);
    s.lane_keys = s.one ? 4 : 2;
    s.queries = at_most((uint64_t)extent.n_rows * (a->n_head / a->n_head_kv), ATTEND_QUERIES);
    while (s.queries > 1 && attend_shared(s.queries, a->head_dim, s.w) > d->limits.max_shared)
        s.queries = (s.queries + 1) / 2;
    // Few rows leave most of a device idle: their keys are spread. Many rows need no parts.
    bool few = extent.n_rows <= PLAN_MATVEC_ROWS;
    uint32_t tiles = (extent.n_kv + s.tile - 1) / s.tile, tiles_per_part = tiles;
    if (few) {
        tiles_per_part = (d->profile->attend_split + s.tile - 1) / s.tile;
        if (tiles > tiles_per_part * ATTEND_MAX_SPLITS)
            tiles_per_part = (tiles + ATTEND_MAX_SPLITS - 1) / ATTEND_MAX_SPLITS;
    }
    s.split = tiles_per_part * s.tile;
    s.n_splits = (extent.n_kv + s.split - 1) / s.split;
    return s;
}

// Scratch of attention: partial results of some rows, then (where q8 blocks cross heads) their f32
// rows. As many rows at a time as one binding holds.
typedef struct attend_scratch {
    uint64_t part_bytes, row_bytes; // of one row; 0: none are needed
    uint32_t rows;
    uint64_t parts, total; // bytes; `parts` ends where a binding may begin
} attend_scratch;

static attend_scratch scratch_of(const vk_device *d, const plan_attend *a, attend_shape shape,
                                 uint32_t n_rows)
{
    uint64_t align = d->limits.storage_align, room = vk_largest_range(d) - align;
    attend_scratch s = {.rows = n_rows};
    if (shape.n_splits > 1)
        s.part_bytes = 4 * (uint64_t)a->n_head * shape.n_splits * (a->head_dim + 4);
    if (a->head_dim % QUANT_Q8_VALUES) s.row_bytes = 4 * (uint64_t)a->n_head * a->head_dim;
    uint64_t bytes = s.part_bytes + s.row_bytes;
    if (bytes && room / bytes < n_rows) s.rows = (uint32_t)(room / bytes);
    s.parts = (s.rows * s.part_bytes + align - 1) / align * align;
    s.total = s.parts + s.rows * s.row_bytes;
    return s;
}

uint64_t vk_scratch_bytes(const vk_device *d, const plan_set *set)
{
    uint64_t most = 0;
    const plan *p = &set->buckets[0];
    for (uint32_t i = 0; i < p->n_ops; i++) {
        if (p->ops[i].kind != PLAN_ATTEND) continue;
        const plan_attend *a = &p->ops[i].u.attend;
        // Fewer keys can make more parts: a bucket's end is 2^n keys, n_ctx may be just above.
        for (uint64_t n_kv = 1, last = 0; last < set->n_ctx; last = n_kv, n_kv *= 2) {
            vk_extent few = {.n_rows = PLAN_MATVEC_ROWS, .n_kv = at_most(n_kv, set->n_ctx)};
            vk_extent many = {.n_rows = set->n_batch, .n_kv = few.n_kv};
            uint64_t decode = scratch_of(d, a, shape_of(d, a, few), few.n_rows).total;
            uint64_t prefill = scratch_of(d, a, shape_of(d, a, many), many.n_rows).total;
            if (decode > most) most = decode;
            if (prefill > most) most = prefill;
        }
    }
    return most;
}

// One op being recorded.
typedef struct attention {
    const plan_op *op;
    const plan_attend *a;
    attend_shape shape;
    attend_scratch scratch;
    bool direct;          // no parts
    bool by_rows;         // results go through f32 rows in the scratch to q8 blocks of the output
    vk_range parts, rows; // of the scratch
    struct push_attend push;
} attention;

// All heads of rows [push.first_row, + n_rows): the results, or parts of them.
static pm_status emit_heads(exec *e, vk_recording *r, attention *t, vk_range to)
{
    const plan_attend *a = t->a;
    vk_dispatch d = {
        .label = t->op->label,
        .key = {.n_spec = 10,
                .spec = {t->shape.w, cache_type(e->set, a->k_cache), t->shape.tile,
                         t->shape.queries, a->head_dim, t->shape.lane_keys,
                         a->q.col % 4 == 0 && t->push.q_stride % 4 == 0, a->softcap > 0, t->direct,
                         t->push.out_q8 != 0}},
        .bind = {{.range = range_of(e, a->q), .reads = true},
                 {.reads = true},
                 {.reads = true},
                 {.range = to, .writes = true}},
        .push = &t->push,
        .push_bytes = sizeof t->push,
    };
    pm_status status = set_shader(e, &d, t->shape.one ? "attend_one" : "attend");
    uint64_t tiles =
        ((uint64_t)t->push.n_rows * t->push.group + t->shape.queries - 1) / t->shape.queries;
    for (uint32_t i = 0; status == PM_OK && i < e->bufs[a->k_cache].n_pieces; i++) {
        uint32_t n_heads;
        heads_of_piece(e, a->k_cache, i, &t->push.first_head, &n_heads);
        d.bind[1].range = e->bufs[a->k_cache].pieces[i];
        d.bind[2].range = e->bufs[a->v_cache].pieces[i];
        d.groups[0] = t->shape.n_splits;
        d.groups[1] = n_heads;
        d.groups[2] = at_most(tiles, e->device->limits.max_groups[2]);
        status = vk_record(r, &d);
    }
    return status;
}

// The parts of the same rows joined.
static pm_status emit_merge(exec *e, vk_recording *r, attention *t, vk_range to)
{
    vk_dispatch d = {
        .label = t->op->label,
        .key = {.n_spec = 1, .spec = {workgroup(e->device, 64)}},
        .bind = {{.range = t->parts, .reads = true}, {.range = to, .writes = true}},
        .push = &t->push,
        .push_bytes = sizeof t->push,
        .groups = {t->a->n_head, rows_groups(e, t->push.n_rows, 1), 1},
    };
    pm_status status = set_shader(e, &d, "attend_merge");
    return status == PM_OK ? vk_record(r, &d) : status;
}

static pm_status emit_some_rows(exec *e, vk_recording *r, attention *t)
{
    vk_range to = t->by_rows ? t->rows : range_of(e, t->a->out);
    if (t->by_rows) t->push.out_first = t->push.first_row;
    pm_status status = emit_heads(e, r, t, t->direct ? to : t->parts);
    if (status == PM_OK && !t->direct) status = emit_merge(e, r, t, to);
    if (status != PM_OK || !t->by_rows) return status;
    return emit_blocks(e, r, t->op, t->rows, t->a->out, t->push.first_row, t->push.n_rows);
}

static pm_status emit_attend(exec *e, vk_recording *r, const plan_op *op, vk_extent extent)
{
    const plan_attend *a = &op->u.attend;
    attention t = {.op = op, .a = a, .shape = shape_of(e->device, a, extent)};
    t.scratch = scratch_of(e->device, a, t.shape, extent.n_rows);
    t.direct = t.shape.n_splits == 1;
    t.by_rows = is_q8(e, a->out) && a->head_dim % QUANT_Q8_VALUES != 0;
    t.parts = (vk_range){e->scratch.buffer, e->scratch.offset, t.scratch.parts};
    t.rows = (vk_range){e->scratch.buffer, e->scratch.offset + t.scratch.parts,
                        t.scratch.total - t.scratch.parts};
    t.push = (struct push_attend){.q_col = a->q.col,
                                  .q_stride = stride_of(e, a->q),
                                  .out_col = t.by_rows ? 0 : a->out.col,
                                  .out_stride = t.by_rows ? a->out.n : stride_of(e, a->out),
                                  .out_q8 = is_q8(e, a->out) && !t.by_rows,
                                  .n_head = a->n_head,
                                  .n_head_kv = a->n_head_kv,
                                  .group = a->n_head / a->n_head_kv,
                                  .head_dim = a->head_dim,
                                  .n_ctx = e->set->n_ctx,
                                  .window = a->window,
                                  .n_splits = t.shape.n_splits,
                                  .split = t.shape.split,

                                  .scale = a->scale,
                                  .softcap = a->softcap};
    // An op that is too long by itself: rows in slices, each a submission.
    uint32_t slices = vk_recording_slices(r), slice = (extent.n_rows + slices - 1) / slices;
    if (slice < t.scratch.rows) t.scratch.rows = slice;
    pm_status status = PM_OK;
    for (uint32_t row = 0; row < extent.n_rows && status == PM_OK; row += t.scratch.rows) {
        t.push.first_row = row;
        t.push.n_rows = at_most(extent.n_rows - row, t.scratch.rows);
        if (row > 0 && slices > 1) status = vk_recording_cut(r);
        if (status == PM_OK) status = emit_some_rows(e, r, &t);
    }
    return status;
}

// ---- pick -------------------------------------------------------------------------------------

static pm_status emit_pick(exec *e, vk_recording *r, const plan_op *op)
{
    const vk_store *logits = &e->bufs[PLAN_LOGITS], *picks = &e->bufs[PLAN_PICK];
    struct push_pick push = {.n_vocab = e->set->n_vocab};
    vk_dispatch d = {
        .label = op->label,
        // one workgroup a row: as wide as a card has them, on a processor no wider than the list
        .key = {.n_spec = 1,
                .spec = {workgroup(e->device, e->device->profile->watchdog ? 1024 : 256)}},
        .bind = {{.reads = true}, {.writes = true}},
        .push = &push,
        .push_bytes = sizeof push,
    };
    pm_status status = set_shader(e, &d, "pick");
    assert(picks->n_pieces == 1); // 2 KiB a row
    for (uint32_t i = 0; status == PM_OK && i < logits->n_pieces; i++) {
        uint32_t left = e->set->n_logits - i * logits->rows_per_piece;
        push.first_row = i * logits->rows_per_piece;
        push.n_rows = left < logits->rows_per_piece ? left : logits->rows_per_piece;
        d.bind[0].range = logits->pieces[i];
        d.bind[1].range = picks->pieces[0];
        d.groups[0] = rows_groups(e, push.n_rows, 0);
        d.groups[1] = d.groups[2] = 1;
        status = vk_record(r, &d);
    }
    return status;
}

// ---- all --------------------------------------------------------------------------------------

pm_status vk_emit_op(exec *e, vk_recording *r, const plan_op *op, vk_extent extent)
{
    switch (op->kind) {
    case PLAN_EMBED: return vk_emit_embed(e, r, op, extent);
    case PLAN_NORM: return emit_norm(e, r, op, extent);
    case PLAN_LINEAR: return vk_emit_linear(e, r, op, extent);
    case PLAN_QUANTIZE: {
        plan_activate copy = {
            .x = op->u.quantize.x, .up = {.buf = PLAN_NONE}, .out = op->u.quantize.out};
        return emit_activate(e, r, op, copy, extent);
    }
    case PLAN_ROPE_KV: return emit_rope_kv(e, r, op, extent);
    case PLAN_ATTEND: return emit_attend(e, r, op, extent);
    case PLAN_ACTIVATE: return emit_activate(e, r, op, op->u.activate, extent);
    case PLAN_ADD: return emit_add(e, r, op, extent);
    case PLAN_LOGITS_OP: return vk_emit_logits(e, r, op, extent);
    case PLAN_PICK_OP: return emit_pick(e, r, op);
    case PLAN_N_OP_KINDS: break;
    }
    return PM_OK;
}

pm_status vk_check_op(const vk_device *d, const plan_set *set, const plan_op *op)
{
    if (op->kind == PLAN_ROPE_KV || op->kind == PLAN_ATTEND) {
        uint32_t n = op->kind == PLAN_ATTEND ? op->u.attend.head_dim : op->u.rope_kv.head_dim;
        if (op->kind == PLAN_ATTEND) {
            vk_extent one = {.n_rows = 1, .n_kv = set->n_ctx};
            attend_shape shape = shape_of(d, &op->u.attend, one);
            if (scratch_of(d, &op->u.attend, shape, 1).rows == 0)
                return error_set(PM_ERROR_DEVICE,
                                 "%s: a binding does not hold one row of attention's parts (try a "
                                 "smaller --ctx)",
                                 d->title);
        }
        if (n > MAX_HEAD_DIM || n % 4 != 0)
            return error_set(PM_ERROR_DEVICE,
                             "%s: heads of %" PRIu32
                             " dimensions can't be run (a multiple of 4 up to %d can)",
                             d->title, n, MAX_HEAD_DIM);
        return PM_OK;
    }
    return PM_OK;
}
