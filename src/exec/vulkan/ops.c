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
    dispatch->key.shader = vk_shader_named(name);
    return dispatch->key.shader ? PM_OK : no_shader(e, name);
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
                             .layer_norm = n->norm == PLAN_NORM_LAYER,
                             .out_q8 = is_q8(e, n->out),
                             .has_residual = n->residual.buf >= 0,
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
    push.bias = bias.buffer ? push.bias + n->bias.first : UINT32_MAX;
    vk_dispatch d = {
        .label = op->label,
        .key = {.n_spec = 1, .spec = {workgroup(e->device, 256)}},
        .bind = {{.range = range_of(e, n->x), .reads = true},
                 {.range = vectors, .reads = true},
                 {.range = range_of(e, n->residual), .reads = true},
                 {.range = range_of(e, n->out), .writes = true}},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {rows_groups(e, extent.n_rows, 0), 1, 1},
    };
    pm_status status = set_shader(e, &d, "norm");
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
        .key = {.n_spec = 2, .spec = {workgroup(e->device, 64), cache_type(set, k->k_cache)}},
        .bind = {{.range = range_of(e, k->q), .reads = true, .writes = true},
                 {.range = e->constants[constant], .reads = true},
                 {.writes = true},
                 {.writes = true}},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {k->n_head + 2 * k->n_head_kv, rows_groups(e, extent.n_rows, 1), 1},
    };
    pm_status status = set_shader(e, &d, "rope_kv");
    for (uint32_t i = 0; status == PM_OK && i < e->bufs[k->k_cache].n_pieces; i++) {
        heads_of_piece(e, k->k_cache, i, &push.first_head, &push.n_heads);
        push.write_q = i == 0;
        d.bind[2].range = e->bufs[k->k_cache].pieces[i];
        d.bind[3].range = e->bufs[k->v_cache].pieces[i];
        status = vk_record(r, &d);
    }
    return status;
}

// How attention is cut: keys a tile and query heads a workgroup, so that queries, results and
// scores fit the shared memory; keys a part.
typedef struct attend_shape {
    uint32_t w, tile, heads, split, n_splits;
} attend_shape;

enum { MAX_SPLITS = 32 };

static attend_shape shape_of(const vk_device *d, const plan_attend *a, vk_extent extent)
{
    attend_shape s = {.w = workgroup(d, 64), .tile = 64};
    uint32_t group = a->n_head / a->n_head_kv;
    for (s.heads = group; s.heads > 1; s.heads--) {
        uint64_t words = (uint64_t)s.heads * (2 * a->head_dim + s.tile + 3) + 4 * s.w;
        if (group % s.heads == 0 && 4 * words <= d->limits.max_shared) break;
    }
    // Few rows leave most of a device idle: their keys are spread. Many rows need no parts.
    bool few = extent.n_rows <= PLAN_MATVEC_ROWS;
    uint32_t tiles = (extent.n_kv + s.tile - 1) / s.tile, tiles_per_part = tiles;
    if (few) {
        tiles_per_part = (d->profile->attend_split + s.tile - 1) / s.tile;
        if (tiles > tiles_per_part * MAX_SPLITS)
            tiles_per_part = (tiles + MAX_SPLITS - 1) / MAX_SPLITS;
    }
    s.split = tiles_per_part * s.tile;
    s.n_splits = (extent.n_kv + s.split - 1) / s.split;
    return s;
}

// Scratch of attention: partial results of some rows, then (where q8 blocks cross heads) their f32
// rows. As many rows at a time as one binding holds.
typedef struct attend_scratch {
    uint64_t part_bytes, row_bytes; // of one row; row_bytes 0: no f32 rows
    uint32_t rows;
    uint64_t parts, total; // bytes; `parts` ends where a binding may begin
} attend_scratch;

static attend_scratch scratch_of(const vk_device *d, const plan_attend *a, attend_shape shape,
                                 uint32_t n_rows)
{
    uint64_t align = d->limits.storage_align, room = vk_largest_range(d) - align;
    attend_scratch s = {.part_bytes = 4 * (uint64_t)a->n_head * shape.n_splits * (a->head_dim + 4)};
    if (a->head_dim % QUANT_Q8_VALUES) s.row_bytes = 4 * (uint64_t)a->n_head * a->head_dim;
    uint64_t most = room / (s.part_bytes + s.row_bytes);
    s.rows = most < n_rows ? (uint32_t)most : n_rows;
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
        vk_extent few = {.n_rows = PLAN_MATVEC_ROWS, .n_kv = set->n_ctx};
        vk_extent many = {.n_rows = set->n_batch, .n_kv = set->n_ctx};
        uint64_t decode = scratch_of(d, a, shape_of(d, a, few), few.n_rows).total;
        uint64_t prefill = scratch_of(d, a, shape_of(d, a, many), many.n_rows).total;
        if (decode > most) most = decode;
        if (prefill > most) most = prefill;
    }
    return most;
}

// The parts of rows [push->first_row, + n_rows) joined.
static pm_status emit_merge(exec *e, vk_recording *r, const plan_op *op, struct push_attend push,
                            attend_scratch s)
{
    const plan_attend *a = &op->u.attend;
    // Blocks that cross heads are made in a second pass, from f32 rows behind the parts.
    bool two_passes = is_q8(e, a->out) && s.row_bytes > 0;
    vk_range parts = {e->scratch.buffer, e->scratch.offset, s.parts}, to = range_of(e, a->out);
    push.out_q8 = is_q8(e, a->out) && !two_passes;
    if (two_passes) {
        to = (vk_range){e->scratch.buffer, e->scratch.offset + s.parts, s.total - s.parts};
        push.out_first = push.first_row;
        push.out_col = 0;
        push.out_stride = a->out.n;
    }
    vk_dispatch d = {
        .label = op->label,
        .key = {.n_spec = 1, .spec = {workgroup(e->device, 64)}},
        .bind = {{.range = parts, .reads = true}, {.range = to, .writes = true}},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {a->n_head, rows_groups(e, push.n_rows, 1), 1},
    };
    pm_status status = set_shader(e, &d, "attend_merge");
    if (status == PM_OK) status = vk_record(r, &d);
    if (status != PM_OK || !two_passes) return status;
    return emit_blocks(e, r, op, to, a->out, push.first_row, push.n_rows);
}

// All heads of rows [push->first_row, + n_rows): the result, or parts of it.
static pm_status emit_heads(exec *e, vk_recording *r, const plan_op *op, struct push_attend push,
                            attend_shape shape, vk_range to)
{
    const plan_attend *a = &op->u.attend;
    vk_dispatch d = {
        .label = op->label,
        .key = {.n_spec = 5,
                .spec = {shape.w, cache_type(e->set, a->k_cache), shape.tile, shape.heads,
                         a->head_dim}},
        .bind = {{.range = range_of(e, a->q), .reads = true},
                 {.reads = true},
                 {.reads = true},
                 {.range = to, .writes = true}},
        .push = &push,
        .push_bytes = sizeof push,
    };
    pm_status status = set_shader(e, &d, "attend");
    for (uint32_t i = 0; status == PM_OK && i < e->bufs[a->k_cache].n_pieces; i++) {
        uint32_t n_heads;
        heads_of_piece(e, a->k_cache, i, &push.first_head, &n_heads);
        d.bind[1].range = e->bufs[a->k_cache].pieces[i];
        d.bind[2].range = e->bufs[a->v_cache].pieces[i];
        d.groups[0] = shape.n_splits;
        d.groups[1] = n_heads * (push.group / shape.heads);
        d.groups[2] = rows_groups(e, push.n_rows, 2);
        status = vk_record(r, &d);
    }
    return status;
}

static pm_status emit_attend(exec *e, vk_recording *r, const plan_op *op, vk_extent extent)
{
    const plan_attend *a = &op->u.attend;
    attend_shape shape = shape_of(e->device, a, extent);
    bool direct = shape.n_splits == 1 && !is_q8(e, a->out);
    attend_scratch s = scratch_of(e->device, a, shape, extent.n_rows);
    if (direct) s.rows = extent.n_rows;
    vk_range to =
        direct ? range_of(e, a->out) : (vk_range){e->scratch.buffer, e->scratch.offset, s.parts};
    struct push_attend push = {.q_col = a->q.col,
                               .q_stride = stride_of(e, a->q),
                               .out_col = a->out.col,
                               .out_stride = stride_of(e, a->out),
                               .n_head = a->n_head,
                               .n_head_kv = a->n_head_kv,
                               .group = a->n_head / a->n_head_kv,
                               .head_dim = a->head_dim,
                               .n_ctx = e->set->n_ctx,
                               .window = a->window,
                               .n_splits = shape.n_splits,
                               .split = shape.split,
                               .direct = direct,
                               .scale = a->scale,
                               .softcap = a->softcap};
    pm_status status = PM_OK;
    for (uint32_t row = 0; row < extent.n_rows && status == PM_OK; row += s.rows) {
        push.first_row = row;
        push.n_rows = extent.n_rows - row < s.rows ? extent.n_rows - row : s.rows;
        status = emit_heads(e, r, op, push, shape, to);
        if (status == PM_OK && !direct) status = emit_merge(e, r, op, push, s);
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
        .key = {.n_spec = 1, .spec = {workgroup(e->device, 256)}},
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
