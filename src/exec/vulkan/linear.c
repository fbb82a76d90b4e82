// LINEAR, LOGITS and EMBED as dispatches.
//
// A dispatch binds the weights' range, x, out, and one of vectors (norm-in weight, biases) or a
// residual that is not out itself. An op whose weights lie in several ranges is several dispatches.
#include "exec/vulkan/weights.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "push.h"

enum { MAX_TOGETHER = 3 };

// A LINEAR or LOGITS op as a list of products.
typedef struct product {
    const char *label;
    plan_linear l; // LOGITS: without out
    plan_act act;
    float softcap;
    bool marked;    // rows are the step's marked rows
    vk_range out;   // bound for all weights
    uint32_t first; // row of the step (marked row) that is row 0 of `out`
    uint32_t n;     // rows of out
    bool q8_out;
    uint32_t out_width;
} product;

// A piece of one of the product's weights.
typedef struct part {
    uint32_t weight; // 0, 1, 2
    vk_piece piece;
} part;

// ---- views ------------------------------------------------------------------------------------

static vk_range rows_of(const exec *e, int buffer)
{
    return e->bufs[buffer].pieces[0]; // row buffers are whole
}

static bool is_q8(const exec *e, int buffer)
{
    return e->set->bufs[buffer].type == QUANT_Q8_0;
}

static bool same_range(vk_range a, vk_range b)
{
    return a.buffer == b.buffer && a.offset == b.offset;
}

// Words from a row's begin to the next.
static uint32_t row_words(const exec *e, int buffer)
{
    return (uint32_t)(e->bufs[buffer].row_bytes / 4);
}

// ---- shaders ----------------------------------------------------------------------------------

static const vk_shader *shader_for(const vk_device *d, const char *kernel, quant_type type,
                                   bool dot)
{
    char name[64];
    bool variants = strcmp(kernel, "matrow") != 0;
    snprintf(name, sizeof name, "%s_%s%s%s", kernel, vk_format_name(type), dot ? "_dot" : "",
             d->features.subgroup || !variants ? "" : "_shared");
    return vk_shader_named(name);
}

static uint32_t power_below(uint32_t n)
{
    uint32_t p = 1;
    while (2 * p <= n) p *= 2;
    return p;
}

// A kernel and its specialization constants 1 to 4.
typedef struct shape {
    const char *kernel;
    uint32_t workgroup, lanes, rows, n;
    uint32_t tile; // weight rows of a workgroup
} shape;

static shape shape_of(const vk_device *d, uint32_t n_rows, bool gated)
{
    const vk_profile *profile = d->profile;
    shape s = {.kernel = "matvec",
               .workgroup = power_below(profile->matvec_invocations),
               .lanes = d->features.subgroup ? d->limits.subgroup_size : 16,
               .rows = power_below(profile->matvec_rows),
               .n = n_rows >= 8   ? 8
                    : n_rows >= 3 ? 4
                                  : n_rows};
    bool lane_rows = profile->lane_rows && d->features.subgroup && s.lanes <= 16;
    if (lane_rows) {
        s.kernel = "matrow";
        s.workgroup = s.lanes; // small tiles: little is left over when two cores share them
    }
    while (s.workgroup > d->limits.max_invocations) s.workgroup /= 2;
    if (s.workgroup < s.lanes) s.workgroup = s.lanes; // a subgroup is never larger than that limit
    if (gated && s.rows < 2) s.rows = 2;
    s.tile = lane_rows ? s.workgroup * s.rows : s.workgroup / s.lanes * s.rows;
    if (gated) s.tile /= 2;
    return s;
}

// ---- one dispatch -----------------------------------------------------------------------------

// Adds a vector to a range that covers all of an op's.
static bool cover(vk_range *all, vk_range v)
{
    if (!all->buffer) {
        *all = v;
        return true;
    }
    if (all->buffer != v.buffer) return false;
    uint64_t end = all->offset + all->bytes, v_end = v.offset + v.bytes;
    if (v.offset < all->offset) all->offset = v.offset;
    all->bytes = (v_end > end ? v_end : end) - all->offset;
    return true;
}

static uint32_t place_in(const exec *e, vk_range all, plan_vector v)
{
    vk_range range = vk_weight_vector(e->weights, v.tensor);
    return (uint32_t)((range.offset - all.offset) / sizeof(float)) + v.first;
}

// Where the biases and the norm-in weight lie; PUSH_NONE: absent.
static pm_status place_vectors(const exec *e, const product *p, const part *parts, uint32_t n_parts,
                               vk_range *all, struct push_linear *push)
{
    *all = (vk_range){0};
    bool together = true;
    for (uint32_t i = 0; i < n_parts; i++) {
        plan_vector bias = p->l.bias[parts[i].weight];
        if (bias.tensor >= 0)
            together = together && cover(all, vk_weight_vector(e->weights, bias.tensor));
    }
    if (p->l.norm_in.tensor >= 0)
        together = together && cover(all, vk_weight_vector(e->weights, p->l.norm_in.tensor));
    if (!together || all->bytes > e->device->limits.max_binding)
        return error_set(PM_ERROR_DEVICE, "%s: the vectors of '%s' don't fit one binding",
                         e->device->title, p->label);
    for (uint32_t i = 0; i < MAX_TOGETHER; i++) push->bias[i] = PUSH_NONE;
    for (uint32_t i = 0; i < n_parts; i++) {
        uint32_t w = parts[i].weight;
        if (p->l.bias[w].tensor < 0) continue;
        push->bias[i] = place_in(e, *all, p->l.bias[w]) + parts[i].piece.row - p->l.weight[w].row;
    }
    push->norm = p->l.norm_in.tensor < 0 ? PUSH_NONE : place_in(e, *all, p->l.norm_in);
    return PM_OK;
}

static void place_input(const exec *e, const product *p, struct push_linear *push)
{
    uint32_t width = e->set->bufs[p->l.x.buf].width, col = p->l.x.col;
    push->x_stride = row_words(e, p->l.x.buf);
    push->x_col = p->act == PLAN_ACT_Q8 ? col / 4 : col;
    push->x_scales = width / 4 + col / QUANT_Q8_VALUES - col / 4; // from x_col on; may wrap
}

static uint32_t flags_of(const product *p)
{
    uint32_t flags = (uint32_t)p->l.fn;
    if (p->l.gated) flags |= PUSH_GATED;
    if (p->marked) flags |= PUSH_MARKED;
    if (p->l.residual.buf >= 0)
        flags |= p->l.residual.buf == p->l.out[0].buf ? PUSH_IN_PLACE : PUSH_RESIDUAL;
    return flags;
}

// Specialization constants 5 to 7 (linear.glsl)
static void specialize_views(const exec *e, const product *p, uint32_t cols, uint32_t *spec)
{
    const plan_buf *x = &e->set->bufs[p->l.x.buf];
    spec[0] = cols % 16 == 0 && p->l.x.col % 4 == 0 && x->width % 4 == 0;
    spec[1] = p->act == PLAN_ACT_Q8;
    spec[2] = p->q8_out;
}

// parts: at most MAX_TOGETHER, in one range. n_rows: the most rows of a step.
static pm_status emit_matvec(exec *e, vk_recording *r, const product *p, const part *parts,
                             uint32_t n_parts, uint32_t n_rows)
{
    const vk_device *d = e->device;
    const plan_tensor *t = &e->weights->tensors[p->l.weight[parts[0].weight].tensor];
    vk_planes row = vk_planes_of(t->type, t->cols);
    struct push_linear push = {
        .cols = t->cols,
        .quant_stride = (uint32_t)(row.quants / 4),
        .scale_stride = (uint32_t)row.scales,
        .out_stride = p->q8_out ? vk_q8_row_words(p->out_width) : p->out_width,
        .out_scales = p->out_width / 4,
        .residual_col = p->l.residual.col + parts[0].piece.row - p->l.weight[parts[0].weight].row,
        .flags = flags_of(p),
        .first = p->first,
        .n = p->n,
        .eps = p->l.norm_eps,
        .softcap = p->softcap};
    if (p->l.residual.buf >= 0) push.residual_stride = row_words(e, p->l.residual.buf);
    place_input(e, p, &push);
    vk_range vectors;
    pm_status status = place_vectors(e, p, parts, n_parts, &vectors, &push);
    if (status != PM_OK) return status;

    shape s = shape_of(d, n_rows, p->l.gated);
    uint32_t tile = p->q8_out && s.tile < QUANT_Q8_VALUES ? QUANT_Q8_VALUES : s.tile;
    uint64_t tiles = 0;
    for (uint32_t i = 0; i < n_parts; i++) {
        uint32_t w = parts[i].weight;
        push.rows[i] = parts[i].piece.rows;
        push.quants[i] = parts[i].piece.quants / 4;
        push.scales[i] = parts[i].piece.scales;
        push.out_col[i] = p->l.out[w].col + parts[i].piece.row - p->l.weight[w].row;
        if (i == 0 || !p->l.gated) tiles += (push.rows[i] + tile - 1) / tile;
    }
    bool dot =
        p->act == PLAN_ACT_Q8 && d->features.int8_dot && shader_for(d, s.kernel, t->type, true);
    bool in_place = (push.flags & PUSH_IN_PLACE) != 0;
    vk_dispatch dispatch = {
        .label = p->label,
        .key = {.shader = shader_for(d, s.kernel, t->type, dot),
                .n_spec = 8,
                .spec = {s.workgroup, s.workgroup, s.lanes, s.rows, s.n}},
        .bind = {{.range = parts[0].piece.range, .reads = true},
                 {.range = rows_of(e, p->l.x.buf), .reads = true},
                 {.range = p->out, .reads = in_place, .writes = true},
                 {.range = vectors, .reads = true}},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {tiles < d->limits.max_groups[0] ? (uint32_t)tiles : d->limits.max_groups[0],
                   (n_rows + s.n - 1) / s.n, 1},
    };
    if (push.flags & PUSH_RESIDUAL) dispatch.bind[3].range = rows_of(e, p->l.residual.buf);
    specialize_views(e, p, t->cols, dispatch.key.spec + 5);
    return vk_record(r, &dispatch);
}

// ---- an op ------------------------------------------------------------------------------------

// The pieces of weights [first, first + n) of the product, weight by weight.
static pm_status pieces_of(const exec *e, const product *p, uint32_t first, uint32_t n, part **out,
                           uint32_t *n_out)
{
    uint32_t counts[MAX_TOGETHER], total = 0, most = 0;
    for (uint32_t i = 0; i < n; i++) {
        counts[i] = vk_weight_pieces(e->weights, p->l.weight[first + i], NULL, 0);
        total += counts[i];
        if (counts[i] > most) most = counts[i];
    }
    *n_out = total;
    *out = calloc(total, sizeof **out);
    vk_piece *pieces = calloc(most, sizeof *pieces);
    if (!*out || !pieces) {
        free(pieces);
        return error_memory("a recording", total * sizeof **out);
    }
    part *to = *out;
    for (uint32_t i = 0; i < n; i++) {
        vk_weight_pieces(e->weights, p->l.weight[first + i], pieces, most);
        for (uint32_t k = 0; k < counts[i]; k++) *to++ = (part){first + i, pieces[k]};
    }
    free(pieces);
    return PM_OK;
}

static pm_status emit_parts(exec *e, vk_recording *r, product *p, uint32_t n_rows)
{
    part *parts = NULL;
    uint32_t n = 0;
    pm_status status = pieces_of(e, p, 0, p->l.n_weights, &parts, &n);
    for (uint32_t i = 0; status == PM_OK && i < n;) {
        const part *head = &parts[i];
        uint32_t together = 1;
        // a residual's column is that of the first part: then one by one
        while (i + together < n && together < MAX_TOGETHER && p->l.residual.buf < 0 &&
               same_range(head->piece.range, head[together].piece.range) &&
               (p->marked || p->l.out[head[together].weight].buf == p->l.out[head->weight].buf))
            together++;
        if (!p->marked) {
            int buffer = p->l.out[head->weight].buf;
            p->out = rows_of(e, buffer);
            p->out_width = e->set->bufs[buffer].width;
        }
        status = emit_matvec(e, r, p, head, together, n_rows);
        i += together;
    }
    free(parts);
    return status;
}

// Both weights cut at the same rows and side by side; q8 blocks whole.
static bool pairs_up(const part *parts, uint32_t n, const product *p)
{
    if (n % 2) return false;
    const part *gate = parts, *up = parts + n / 2;
    for (uint32_t i = 0; i < n / 2; i++) {
        uint32_t from = gate[i].piece.row - p->l.weight[0].row;
        if (gate[i].weight != 0 || up[i].weight != 1 ||
            !same_range(gate[i].piece.range, up[i].piece.range) ||
            gate[i].piece.rows != up[i].piece.rows || (p->q8_out && from % QUANT_Q8_VALUES != 0))
            return false;
    }
    return true;
}

// gate and up that lie apart: the unfused form, through the buffers that it has.
static pm_status emit_gated_apart(exec *e, vk_recording *r, const plan_op *op, vk_extent extent)
{
    const plan_linear *l = &op->u.linear;
    uint32_t n = l->weight[0].rows;
    if (e->set->bufs[PLAN_FF].width < n || e->set->bufs[PLAN_UP].width < n)
        return error_set(PM_ERROR_DEVICE, "%s: the weights of '%s' don't fit one binding",
                         e->device->title, op->label);
    plan_op apart = *op, activate = {.kind = PLAN_ACTIVATE, .layer = op->layer, .label = op->label};
    plan_view gate = {PLAN_FF, 0, n}, up = {PLAN_UP, 0, n};
    apart.u.linear.gated = false;
    apart.u.linear.fn = PLAN_FN_NONE;
    apart.u.linear.out[0] = gate;
    apart.u.linear.out[1] = up;
    activate.u.activate = (plan_activate){.fn = l->fn, .x = gate, .up = up, .out = l->out[0]};
    pm_status status = vk_emit_linear(e, r, &apart, extent);
    return status == PM_OK ? vk_emit_op(e, r, &activate, extent) : status;
}

static pm_status emit_gated(exec *e, vk_recording *r, const plan_op *op, product *p,
                            vk_extent extent)
{
    part *parts = NULL;
    uint32_t n = 0;
    pm_status status = pieces_of(e, p, 0, 2, &parts, &n);
    if (status == PM_OK && !pairs_up(parts, n, p)) {
        free(parts);
        return emit_gated_apart(e, r, op, extent);
    }
    int buffer = p->l.out[0].buf;
    p->out = rows_of(e, buffer);
    p->out_width = e->set->bufs[buffer].width;
    for (uint32_t i = 0; status == PM_OK && i < n / 2; i++) {
        part pair[] = {parts[i], parts[n / 2 + i]};
        status = emit_matvec(e, r, p, pair, 2, extent.n_rows);
    }
    free(parts);
    return status;
}

static bool has_vectors(const plan_linear *l)
{
    for (uint32_t i = 0; i < l->n_weights; i++)
        if (l->bias[i].tensor >= 0) return true;
    return l->norm_in.tensor >= 0;
}

pm_status vk_emit_linear(exec *e, vk_recording *r, const plan_op *op, vk_extent extent)
{
    product p = {.label = op->label,
                 .l = op->u.linear,
                 .act = op->act,
                 .n = extent.n_rows,
                 .q8_out = is_q8(e, op->u.linear.out[0].buf)};
    if (p.l.gated) return emit_gated(e, r, op, &p, extent);
    plan_view residual = p.l.residual, out = p.l.out[0];
    bool elsewhere = residual.buf >= 0 && residual.buf != out.buf;
    if (!elsewhere || !has_vectors(&p.l)) return emit_parts(e, r, &p, extent.n_rows);
    // A residual elsewhere and vectors would need a fifth binding.
    p.l.residual.buf = PLAN_NONE;
    pm_status status = emit_parts(e, r, &p, extent.n_rows);
    plan_op add = {.kind = PLAN_ADD, .layer = op->layer, .label = op->label};
    add.u.add = (plan_add){.a = out, .b = residual, .out = out};
    return status == PM_OK ? vk_emit_op(e, r, &add, extent) : status;
}

pm_status vk_emit_logits(exec *e, vk_recording *r, const plan_op *op, vk_extent extent)
{
    const plan_logits *g = &op->u.logits;
    const vk_store *logits = &e->bufs[PLAN_LOGITS];
    product p = {.label = op->label,
                 .l = {.n_weights = 1,
                       .weight = {g->weight},
                       .bias = {g->bias},
                       .x = g->x,
                       .out = {{.buf = PLAN_LOGITS, .n = g->weight.rows}},
                       .residual = {.buf = PLAN_NONE},
                       .norm_in = g->norm_in,
                       .norm_eps = g->norm_eps},
                 .act = op->act,
                 .softcap = g->softcap,
                 .marked = true,
                 .out_width = e->set->n_vocab};
    pm_status status = PM_OK;
    for (uint32_t i = 0; status == PM_OK && i < logits->n_pieces; i++) {
        p.first = i * logits->rows_per_piece;
        if (p.first >= extent.n_logits) break;
        uint32_t left = extent.n_logits - p.first;
        p.n = left < logits->rows_per_piece ? left : logits->rows_per_piece;
        p.out = logits->pieces[i];
        status = emit_parts(e, r, &p, p.n);
    }
    return status;
}

// ---- embedding --------------------------------------------------------------------------------

static pm_status emit_rows(exec *e, vk_recording *r, const plan_op *op, plan_weight table,
                           bool by_position, vk_extent extent)
{
    const plan_embed *m = &op->u.embed;
    const plan_tensor *t = &e->weights->tensors[table.tensor];
    vk_planes row = vk_planes_of(t->type, t->cols);
    char name[64];
    snprintf(name, sizeof name, "embed_%s", vk_format_name(t->type));
    uint32_t n = vk_weight_pieces(e->weights, table, NULL, 0), w = 64;
    vk_piece *pieces = calloc(n, sizeof *pieces);
    if (!pieces) return error_memory("a recording", n * sizeof *pieces);
    vk_weight_pieces(e->weights, table, pieces, n);
    pm_status status = PM_OK;
    for (uint32_t i = 0; status == PM_OK && i < n; i++) {
        struct push_embed push = {.cols = t->cols,
                                  .quants = pieces[i].quants / 4,
                                  .scales = pieces[i].scales,
                                  .quant_stride = (uint32_t)(row.quants / 4),
                                  .scale_stride = (uint32_t)row.scales,
                                  .first_row = pieces[i].row - table.row,
                                  .n_rows = pieces[i].rows,
                                  .out_col = m->out.col,
                                  .out_stride = e->set->bufs[m->out.buf].width,
                                  .by_position = by_position,
                                  .add = by_position,
                                  .scale = by_position ? 1 : m->scale};
        uint32_t loads = (t->cols + 15) / 16; // at most: a load is one unit or two
        vk_dispatch dispatch = {
            .label = op->label,
            .key = {.shader = vk_shader_named(name), .n_spec = 1, .spec = {w}},
            .bind = {{.range = pieces[i].range, .reads = true},
                     {.range = rows_of(e, m->out.buf), .reads = by_position, .writes = true}},
            .push = &push,
            .push_bytes = sizeof push,
            .groups = {(loads + w - 1) / w, extent.n_rows, 1},
        };
        status = vk_record(r, &dispatch);
    }
    free(pieces);
    return status;
}

pm_status vk_emit_embed(exec *e, vk_recording *r, const plan_op *op, vk_extent extent)
{
    const plan_embed *m = &op->u.embed;
    pm_status status = emit_rows(e, r, op, m->table, false, extent);
    if (status == PM_OK && m->positions.tensor >= 0)
        status = emit_rows(e, r, op, m->positions, true, extent);
    return status;
}
