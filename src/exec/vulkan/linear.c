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

// ---- kernels ----------------------------------------------------------------------------------

// Which kernel a product runs on, with its specialization constants 0 to 4.
typedef struct kernel {
    const vk_shader *shader;
    uint32_t spec[5];
    uint32_t tile, n; // weight rows and step rows of a workgroup
} kernel;

static uint32_t power_below(uint32_t n)
{
    uint32_t p = 1;
    while (2 * p <= n) p *= 2;
    return p;
}

// "KERNEL_FORMAT[_dot][VARIANT]": the int8 dot product where it is wanted and there is such a one.
// Kernels that this device can't make or gets wrong are passed over; the last resort may be one.
static const vk_shader *shader_for(vk_device *d, const char *name, quant_type type, bool dot,
                                   const char *variant)
{
    char full[64];
    const vk_shader *shader = NULL;
    if (dot) {
        snprintf(full, sizeof full, "%s_%s_dot%s", name, vk_format_name(type), variant);
        shader = vk_shader_named(full);
    }
    if (shader && !vk_shader_is_bad(d, shader)) return shader;
    snprintf(full, sizeof full, "%s_%s%s", name, vk_format_name(type), variant);
    return vk_shader_named(full);
}

static bool wants_dot(const vk_device *d, const product *p)
{
    return p->act == PLAN_ACT_Q8 && d->features.int8_dot;
}

// Step rows that are computed at once: each costs registers.
static uint32_t rows_at_once(uint32_t n_rows)
{
    if (n_rows >= 8) return 8;
    return n_rows >= 3 ? 4 : n_rows;
}

static kernel matrow_kernel(vk_device *d, const product *p, quant_type type, uint32_t n_rows)
{
    uint32_t lanes = d->limits.subgroup_size, rows = power_below(d->profile->matvec_rows);
    if (p->l.gated && rows < 2) rows = 2;
    uint32_t n = rows_at_once(n_rows);
    // A workgroup is one subgroup: small tiles leave little over when two cores share them.
    return (kernel){.shader = shader_for(d, "matrow", type, wants_dot(d, p), ""),
                    .spec = {lanes, lanes, lanes, rows, n},
                    .tile = p->l.gated ? lanes * rows / 2 : lanes * rows,
                    .n = n};
}

static kernel matvec_kernel(vk_device *d, const product *p, quant_type type, uint32_t n_rows,
                            bool subgroup)
{
    uint32_t w = power_below(d->profile->matvec_invocations);
    uint32_t rows = power_below(d->profile->matvec_rows), n = rows_at_once(n_rows);
    uint32_t lanes = subgroup ? d->limits.subgroup_size : 16;
    while (w > d->limits.max_invocations) w /= 2;
    if (w < lanes) w = lanes; // never above the limit
    if (p->l.gated && rows < 2) rows = 2;
    return (kernel){.shader =
                        shader_for(d, "matvec", type, wants_dot(d, p), subgroup ? "" : "_shared"),
                    .spec = {w, w, lanes, rows, n},
                    .tile = p->l.gated ? w / lanes * rows / 2 : w / lanes * rows,
                    .n = n};
}

// Bytes of shared memory in matmat.comp.
static uint32_t matmat_shared(uint32_t rows, uint32_t cols, bool dot, bool q8_out)
{
    uint32_t of_column = dot ? 8 * 4 + 2 * 8 : 32 * 4;
    return (rows + 4 + cols + 4) * of_column + (q8_out ? rows / 2 * cols * 4 : 4);
}

// false: the device or the op is too small for it.
static bool matmat_kernel(vk_device *d, const product *p, quant_type type, uint32_t n_rows,
                          kernel *out)
{
    if (n_rows <= PLAN_MATVEC_ROWS || p->l.norm_in.tensor >= 0) return false;
    uint32_t rows = power_below(d->profile->matmat_rows), n = power_below(d->profile->matmat_cols);
    uint32_t least = p->q8_out ? 2 * QUANT_Q8_VALUES : 16; // gate and up rows of whole blocks
    if (rows < least) rows = least;
    const vk_shader *shader = shader_for(d, "matmat", type, wants_dot(d, p), "");
    bool dot = strstr(shader->name, "_dot") != NULL;
    while (rows / 4 * (n / 4) > d->limits.max_invocations ||
           matmat_shared(rows, n, dot, p->q8_out) > d->limits.max_shared) {
        uint32_t *larger = rows > n && rows > least ? &rows : &n;
        *larger /= 2;
        if (*larger < 16) return false;
    }
    uint32_t w = rows / 4 * (n / 4);
    *out = (kernel){
        .shader = shader, .spec = {w, w, rows, n, 0}, .tile = p->l.gated ? rows / 2 : rows, .n = n};
    return true;
}

// The fastest kernel for this product that is not known to be bad; each is simpler than the one
// before, the last one needs nothing beyond the specification's minimum.
static pm_status kernel_for(vk_device *d, const product *p, quant_type type, uint32_t n_rows,
                            kernel *out)
{
    kernel k = {0};
    bool subgroup = d->features.subgroup;
    if (d->profile->lane_rows && subgroup && d->limits.subgroup_size <= 16)
        k = matrow_kernel(d, p, type, n_rows);
    if ((!k.shader || vk_shader_is_bad(d, k.shader)) && !matmat_kernel(d, p, type, n_rows, &k))
        k.shader = NULL;
    if (subgroup && (!k.shader || vk_shader_is_bad(d, k.shader)))
        k = matvec_kernel(d, p, type, n_rows, true);
    if (!k.shader || vk_shader_is_bad(d, k.shader)) k = matvec_kernel(d, p, type, n_rows, false);
    if (vk_shader_is_bad(d, k.shader)) return vk_bad_shader(d, k.shader);
    if (p->q8_out && k.tile < QUANT_Q8_VALUES) k.tile = QUANT_Q8_VALUES;
    *out = k;
    return PM_OK;
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

// Specialization constants 5 to 7 (linear.glsl has them all)
static void specialize_views(const exec *e, const product *p, uint32_t cols, uint32_t norm,
                             uint32_t *spec)
{
    const plan_buf *x = &e->set->bufs[p->l.x.buf];
    spec[0] = cols % 16 == 0 && p->l.x.col % 4 == 0 && x->width % 4 == 0 &&
              (norm == PUSH_NONE || norm % 4 == 0);
    spec[1] = p->act == PLAN_ACT_Q8;
    spec[2] = p->q8_out;
}

static void move_range(vk_range *range, uint64_t bytes)
{
    range->offset += bytes;
    range->bytes -= bytes;
}

// The dispatch, or its step rows in slices where all at once would take too long. Ranges begin at a
// slice's first row: of 64 rows, so that they are aligned.
static pm_status emit_slices(vk_recording *r, vk_dispatch *dispatch, struct push_linear *push,
                             uint32_t rows_of_group, uint32_t flags)
{
    uint32_t n = push->n, slices = vk_recording_slices(r), first = push->first;
    uint32_t rows = ((n + slices - 1) / slices + 63) / 64 * 64;
    vk_range out = dispatch->bind[2].range, residual = dispatch->bind[3].range;
    pm_status status = PM_OK;
    if (slices == 1 || rows >= n) return vk_record(r, dispatch);
    for (uint32_t at = 0; at < n && status == PM_OK; at += rows) {
        push->first = first + at;
        push->n = n - at < rows ? n - at : rows;
        dispatch->groups[1] = (push->n + rows_of_group - 1) / rows_of_group;
        dispatch->bind[2].range = out;
        move_range(&dispatch->bind[2].range, 4 * (uint64_t)at * push->out_stride);
        dispatch->bind[3].range = residual;
        if (flags & PUSH_RESIDUAL)
            move_range(&dispatch->bind[3].range, 4 * (uint64_t)at * push->residual_stride);
        if (at > 0) status = vk_recording_cut(r);
        if (status == PM_OK) status = vk_record(r, dispatch);
    }
    return status;
}

// parts: at most MAX_TOGETHER, in one range. n_rows: the most rows of a step.
static pm_status emit_dispatch(exec *e, vk_recording *r, const product *p, const part *parts,
                               uint32_t n_parts, uint32_t n_rows)
{
    vk_device *d = e->device;
    const plan_tensor *t = &e->weights->tensors[p->l.weight[parts[0].weight].tensor];
    vk_planes row = vk_planes_of(t->type, t->cols);
    struct push_linear push = {
        .cols = t->cols,
        .quant_stride = (uint32_t)(row.quants / 4),
        .scale_stride = (uint32_t)row.scales,
        .out_stride = p->q8_out ? vk_q8_row_words(p->out_width) : p->out_width,
        .out_scales = p->out_width / 4,
        .residual_col = p->l.residual.col + parts[0].piece.row - p->l.weight[parts[0].weight].row,
        .first = p->first,
        .n = p->n,
        .eps = p->l.norm_eps,
        .softcap = p->softcap};
    if (p->l.residual.buf >= 0) push.residual_stride = row_words(e, p->l.residual.buf);
    place_input(e, p, &push);
    vk_range vectors;
    kernel k = {.tile = 1, .n = 1};
    pm_status status = place_vectors(e, p, parts, n_parts, &vectors, &push);
    if (status == PM_OK) status = kernel_for(d, p, t->type, n_rows, &k);
    if (status != PM_OK) return status;

    uint64_t tiles = 0;
    for (uint32_t i = 0; i < n_parts; i++) {
        uint32_t w = parts[i].weight;
        push.rows[i] = parts[i].piece.rows;
        push.quants[i] = parts[i].piece.quants / 4;
        push.scales[i] = parts[i].piece.scales;
        push.out_col[i] = p->l.out[w].col + parts[i].piece.row - p->l.weight[w].row;
        if (i == 0 || !p->l.gated) tiles += (push.rows[i] + k.tile - 1) / k.tile;
    }
    uint32_t flags = flags_of(p);
    vk_dispatch dispatch = {
        .label = p->label,
        .key = {.shader = k.shader, .n_spec = 12},
        .bind = {{.range = parts[0].piece.range, .reads = true},
                 {.range = rows_of(e, p->l.x.buf), .reads = true},
                 {.range = p->out, .reads = (flags & PUSH_IN_PLACE) != 0, .writes = true},
                 {.range = vectors, .reads = true}},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {tiles < d->limits.max_groups[0] ? (uint32_t)tiles : d->limits.max_groups[0],
                   (n_rows + k.n - 1) / k.n, 1},
    };
    if (flags & PUSH_RESIDUAL) dispatch.bind[3].range = rows_of(e, p->l.residual.buf);
    memcpy(dispatch.key.spec, k.spec, sizeof k.spec);
    specialize_views(e, p, t->cols, push.norm, dispatch.key.spec + 5);
    dispatch.key.spec[8] = flags;
    dispatch.key.spec[9] = push.norm != PUSH_NONE;
    for (uint32_t i = 0; i < MAX_TOGETHER; i++) dispatch.key.spec[10] |= push.bias[i] != PUSH_NONE;
    dispatch.key.spec[11] = p->softcap > 0;
    return emit_slices(r, &dispatch, &push, k.n, flags);
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
    *out = calloc(total + (size_t)1, sizeof **out);
    vk_piece *pieces = calloc(most + (size_t)1, sizeof *pieces);
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
        status = emit_dispatch(e, r, p, head, together, n_rows);
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
        status = emit_dispatch(e, r, p, pair, 2, extent.n_rows);
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
    const vk_shader *shader = vk_shader_named(name);
    if (vk_shader_is_bad(e->device, shader)) return vk_bad_shader(e->device, shader);
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
            .key = {.shader = shader, .n_spec = 1, .spec = {w}},
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
