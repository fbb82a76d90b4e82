// The Vulkan executor: states, recordings kept by bucket, steps, reads and writes.
#include "exec/vulkan/vk.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

// A recording of ops [first, first + count) of a plan for steps within an extent.
struct vk_recorded {
    const plan *plan;
    uint32_t first, count;
    vk_extent extent;
    bool ahead;
    vk_recording *recording;
};

enum { MAX_RECORDED = 64, MIN_KV_BUCKET = 64 };

// ---- weights ----------------------------------------------------------------------------------

static void vulkan_unload(exec_weights *w)
{
    if (!w) return;
    if (w->device) vk_pipelines_save(w->device);
    vk_weights_unload(w);
    vk_device_close(w->device);
    free(w->tensors);
    free(w);
}

static pm_status vulkan_load(const exec_params *params, const plan_tensor *tensors, uint32_t n,
                             const bool *wanted, const exec_source *source, exec_weights **out)
{
    *out = NULL;
    exec_weights *w = calloc(1, sizeof *w);
    if (!w) return error_memory("weights", sizeof *w);
    w->n_tensors = n;
    w->tensors = malloc((n + (size_t)1) * sizeof *w->tensors);
    pm_status status = w->tensors ? PM_OK : error_memory("weights", n);
    if (status == PM_OK) memcpy(w->tensors, tensors, n * sizeof *tensors);
    static const exec_gpu defaults = {0};
    if (status == PM_OK) status = vk_device_open(params->gpu ? params->gpu : &defaults, &w->device);
    if (status == PM_OK)
        status = vk_weights_load(w->device, params, w->tensors, n, wanted, source, w);
    if (status != PM_OK) {
        vulkan_unload(w);
        return status;
    }
    snprintf(w->description, sizeof w->description, "%s, %s, %s", w->device->title,
             w->device->features.subgroup ? "subgroups" : "no subgroups",
             w->device->features.int8_dot ? "int8 dot product" : "no int8 dot product");
    *out = w;
    return PM_OK;
}

static uint64_t vulkan_weight_bytes(const exec_weights *w)
{
    return w->bytes;
}

static const char *vulkan_describe(const exec_weights *w)
{
    return w->description;
}

static const char *vulkan_warning(const exec_weights *w, uint32_t i)
{
    return vk_warning(w->device, i);
}

static bool vulkan_prefers_q8(const exec_weights *w)
{
    return w->device->profile->act_q8;
}

// ---- states -----------------------------------------------------------------------------------

void vk_forget_recordings(exec *e, uint32_t n)
{
    if (e->n_recorded + n <= MAX_RECORDED) return;
    assert(!e->ahead);
    for (uint32_t i = 0; i < e->n_recorded; i++) vk_recording_free(e->recorded[i].recording);
    e->n_recorded = 0;
}

static void vulkan_close(exec *e)
{
    if (!e) return;
    vk_ahead_end(e);
    if (e->recorded) vk_forget_recordings(e, MAX_RECORDED);
    free(e->recorded);
    for (uint32_t i = 0; e->bufs && i < e->set->n_bufs; i++) free(e->bufs[i].pieces);
    free(e->bufs);
    free(e->constants);
    vk_arena_free(e->device, &e->arena);
    vk_buffer_destroy(e->device, &e->step);
    vk_buffer_destroy(e->device, &e->ring);
    free(e);
}

// Rows of a buffer that stay together: a head of a slot in the cache, any row of the logits, and
// all rows of the others, which an op binds at once.
static uint32_t rows_together(const plan_set *set, int buffer)
{
    if (buffer >= PLAN_KV) return set->n_ctx;
    return buffer == PLAN_LOGITS || buffer == PLAN_PICK ? 1 : set->bufs[buffer].rows;
}

static uint64_t device_row_bytes(const plan_buf *b)
{
    return b->type == QUANT_Q8_0 ? 4 * (uint64_t)vk_q8_row_words(b->width) : b->row_bytes;
}

static pm_status cut_buffer(exec *e, int buffer)
{
    const plan_buf *b = &e->set->bufs[buffer];
    uint64_t most = vk_largest_range(e->device), row_bytes = device_row_bytes(b);
    uint32_t unit = rows_together(e->set, buffer);
    uint64_t unit_bytes = unit * row_bytes;
    if (unit_bytes > most)
        return error_set(PM_ERROR_DEVICE,
                         "%s: buffer '%s' of %llu bytes does not fit the %llu bytes of a binding "
                         "(try a smaller %s)",
                         e->device->title, b->name, (unsigned long long)unit_bytes,
                         (unsigned long long)most, buffer >= PLAN_KV ? "--ctx" : "--batch");
    uint32_t units = b->rows / unit;
    uint64_t per_piece = most / unit_bytes < units ? most / unit_bytes : units;
    vk_store *s = &e->bufs[buffer];
    s->row_bytes = row_bytes;
    s->rows_per_piece = (uint32_t)per_piece * unit;
    s->n_pieces = (b->rows + s->rows_per_piece - 1) / s->rows_per_piece;
    s->pieces = calloc(s->n_pieces, sizeof *s->pieces);
    if (!s->pieces) return error_memory("a session's buffers", s->n_pieces);
    for (uint32_t i = 0; i < s->n_pieces; i++) {
        uint32_t row = i * s->rows_per_piece;
        uint32_t rows = b->rows - row < s->rows_per_piece ? b->rows - row : s->rows_per_piece;
        // the item's number stands in for the range until the arena is made
        s->pieces[i].offset = vk_arena_add(&e->arena, rows * row_bytes);
    }
    return PM_OK;
}

static bool is_ours(const plan_buf *b, uint32_t first_layer, uint32_t end_layer)
{
    if (b->bytes == 0) return false;
    return b->layer < 0 || ((uint32_t)b->layer >= first_layer && (uint32_t)b->layer < end_layer);
}

static pm_status check_ops(const vk_device *d, const plan_set *set, uint32_t first_layer,
                           uint32_t end_layer, bool outer)
{
    for (uint32_t b = 0; b < set->n_buckets; b++) {
        const plan *p = &set->buckets[b];
        for (uint32_t i = 0; i < p->n_ops; i++) {
            bool ours = exec_has_op(set, &p->ops[i], first_layer, end_layer, outer);
            pm_status status = ours ? vk_check_op(d, set, &p->ops[i]) : PM_OK;
            if (status != PM_OK) return status;
        }
    }
    return PM_OK;
}

// Bytes of the per-head norm weights of all layers, [layer][Q, K][head_dim]; 0 where there are
// none.
static uint64_t head_norm_bytes(const plan_set *set)
{
    const plan *p = &set->buckets[0];
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == PLAN_ROPE_KV &&
            (p->ops[i].u.rope_kv.q_norm.tensor >= 0 || p->ops[i].u.rope_kv.k_norm.tensor >= 0))
            return (uint64_t)set->n_layer * 2 * set->head_dim * sizeof(float);
    return 0;
}

uint32_t vk_constant_of(const plan_set *set, int tensor)
{
    uint32_t n = 0, end = tensor < 0 ? set->n_tensors : (uint32_t)tensor;
    for (uint32_t i = 0; i < end; i++) n += set->tensors[i].values != NULL;
    return n;
}

static uint32_t n_constants(const plan_set *set)
{
    return vk_constant_of(set, PLAN_NONE) + 1; // the last has no angles
}

// The tensor of a constant; NULL for the last.
static const plan_tensor *constant_tensor(const plan_set *set, uint32_t constant)
{
    for (uint32_t i = 0; i < set->n_tensors; i++)
        if (set->tensors[i].values && constant-- == 0) return &set->tensors[i];
    return NULL;
}

static uint64_t angle_bytes(const plan_set *set, uint32_t constant)
{
    const plan_tensor *t = constant_tensor(set, constant);
    return t ? t->rows * t->row_bytes : 0;
}

static pm_status add_constants(exec *e)
{
    uint64_t norms = head_norm_bytes(e->set);
    for (uint32_t i = 0; i < n_constants(e->set); i++) {
        uint64_t bytes = angle_bytes(e->set, i) + norms;
        if (bytes > vk_largest_range(e->device))
            return error_set(PM_ERROR_DEVICE,
                             "%s: the table of rotations does not fit a binding (try a smaller "
                             "--ctx)",
                             e->device->title);
        vk_arena_add(&e->arena, bytes ? bytes : 16);
    }
    return PM_OK;
}

// The norm weights of this state's layers behind the angles of every table.
static pm_status copy_head_norms(exec *e, const plan_rope_kv *k, int layer)
{
    plan_vector vectors[] = {k->q_norm, k->k_norm};
    uint64_t bytes = k->head_dim * sizeof(float);
    float *values = malloc(bytes);
    pm_status status = values ? PM_OK : error_memory("head norms", bytes);
    for (int v = 0; v < 2 && status == PM_OK; v++) {
        if (vectors[v].tensor < 0) continue;
        vk_range from = vk_weight_vector(e->weights, vectors[v].tensor);
        status = vk_download(e->device, from.buffer, from.offset + vectors[v].first * sizeof(float),
                             values, bytes);
        for (uint32_t i = 0; i < n_constants(e->set) && status == PM_OK; i++) {
            uint64_t at = angle_bytes(e->set, i) + (2 * (uint64_t)layer + (uint64_t)v) * bytes;
            status = vk_upload(e->device, e->constants[i].buffer, e->constants[i].offset + at,
                               values, bytes);
        }
    }
    free(values);
    return status;
}

static pm_status fill_constants(exec *e, uint32_t first_layer, uint32_t end_layer)
{
    pm_status status = PM_OK;
    for (uint32_t i = 0; i + 1 < n_constants(e->set) && status == PM_OK; i++) {
        const plan_tensor *t = constant_tensor(e->set, i);
        status = vk_upload(e->device, e->constants[i].buffer, e->constants[i].offset, t->values,
                           angle_bytes(e->set, i));
    }
    const plan *p = &e->set->buckets[0];
    for (uint32_t i = 0; i < p->n_ops && status == PM_OK; i++) {
        const plan_op *op = &p->ops[i];
        if (op->kind != PLAN_ROPE_KV || (uint32_t)op->layer < first_layer ||
            (uint32_t)op->layer >= end_layer)
            continue;
        status = copy_head_norms(e, &op->u.rope_kv, op->layer);
    }
    return status;
}

// Announces everything to the arena, makes it, clears it, fills the constants.
static pm_status make_memory(exec *e, uint32_t first_layer, uint32_t end_layer)
{
    const plan_set *set = e->set;
    pm_status status = PM_OK;
    for (uint32_t i = 0; status == PM_OK && i < set->n_bufs; i++)
        if (is_ours(&set->bufs[i], first_layer, end_layer)) status = cut_buffer(e, (int)i);
    size_t first_constant = e->arena.n_items;
    if (status == PM_OK) status = add_constants(e);
    uint64_t scratch = vk_scratch_bytes(e->device, set);
    if (status != PM_OK) return status;
    size_t scratch_item = vk_arena_add(&e->arena, scratch ? scratch : 16);
    status = vk_arena_make(e->device, &e->arena, "a session's buffers");
    if (status != PM_OK) return status;

    for (uint32_t i = 0; i < e->arena.n_buffers && status == PM_OK; i++)
        status = vk_clear(e->device, &e->arena.buffers[i]);
    for (uint32_t i = 0; i < set->n_bufs; i++)
        for (uint32_t p = 0; p < e->bufs[i].n_pieces; p++)
            e->bufs[i].pieces[p] = vk_arena_range(&e->arena, e->bufs[i].pieces[p].offset);
    e->scratch = vk_arena_range(&e->arena, scratch_item);
    for (uint32_t i = 0; i < n_constants(set); i++)
        e->constants[i] = vk_arena_range(&e->arena, first_constant + i);
    return status == PM_OK ? fill_constants(e, first_layer, end_layer) : status;
}

pm_status vk_state_open(exec_weights *w, const plan_set *set, vk_layers layers, exec **out)
{
    *out = NULL;
    vk_device *d = w->device;
    pm_status status = check_ops(d, set, layers.first, layers.end, layers.outer);
    if (status != PM_OK) return status;
    exec *e = calloc(1, sizeof *e);
    if (!e) return error_memory("a session", sizeof *e);
    e->weights = w;
    e->device = d;
    e->set = set;
    e->bufs = calloc(set->n_bufs, sizeof *e->bufs);
    e->constants = calloc(n_constants(set), sizeof *e->constants);
    e->recorded = calloc(MAX_RECORDED, sizeof *e->recorded);
    if (!e->bufs || !e->constants || !e->recorded) status = error_memory("a session", set->n_bufs);
    if (status == PM_OK) status = make_memory(e, layers.first, layers.end);
    if (status == PM_OK)
        status = vk_buffer_create(d, sizeof(plan_step), VK_MEMORY_SHARED, "the step", &e->step);
    if (status == PM_OK)
        *out = e;
    else
        vulkan_close(e);
    return status;
}

static pm_status vulkan_open(exec_weights *w, const plan_set *set, uint32_t first_layer,
                             uint32_t end_layer, bool outer, exec **out)
{
    vk_layers layers = {first_layer, end_layer, outer};
    exec *e;
    *out = NULL;
    pm_status status = vk_state_open(w, set, layers, &e);
    if (status != PM_OK) return status;
    if (w->device->options.prepare) status = vk_prepare(e, layers);
    if (status == PM_OK)
        *out = e;
    else
        vulkan_close(e);
    return status;
}

static const char *vulkan_prepared(const exec *e)
{
    return e->prepared;
}

// ---- running ----------------------------------------------------------------------------------

static uint32_t kv_bucket(const plan_set *set, uint32_t n_kv)
{
    uint32_t bucket = MIN_KV_BUCKET;
    while (bucket < n_kv) bucket *= 2;
    return bucket < set->n_ctx ? bucket : set->n_ctx;
}

// Decode is recorded for its bucket's end and kept; a chunk of a prompt for what it is.
vk_extent vk_extent_of(const exec *e, const plan *p, const plan_step *step)
{
    vk_extent x = {.n_rows = step->n_rows, .n_logits = step->n_logits};
    for (uint32_t i = 0; i < step->n_rows; i++)
        if (step->rows[i].n_kv > x.n_kv) x.n_kv = step->rows[i].n_kv;
    x.n_kv = kv_bucket(e->set, x.n_kv);
    if (p->max_rows <= PLAN_MATVEC_ROWS) {
        x.n_rows = p->max_rows;
        if (x.n_logits)
            x.n_logits = p->max_rows < e->set->n_logits ? p->max_rows : e->set->n_logits;
    }
    return x;
}

static double estimated_ms(const exec *e, const plan_op *op, vk_extent x)
{
    // A slow GPU of today: 50 GB/s, 500 Gflop/s. Only says where long work may be cut.
    plan_cost c = plan_op_cost(e->set, op, x.n_rows, x.n_logits, x.n_kv);
    double bytes = (double)(c.weight_bytes + c.kv_bytes + c.row_bytes);
    return bytes / 50e6 + (double)c.flops / 500e6;
}

// Records the ops for an extent. end[i], where it is asked for: dispatches up to op first + i,
// itself included.
static pm_status make_recording(exec *e, const plan *p, uint32_t first, uint32_t count, vk_extent x,
                                bool ahead, uint32_t *end, vk_recording **out)
{
    vk_range step = {.buffer = &e->step, .offset = 0, .bytes = sizeof(plan_step)};
    vk_recording *r;
    pm_status status = vk_recording_begin(e->device, step, end != NULL, &r);
    if (status != PM_OK) return status;
    for (uint32_t i = 0; status == PM_OK && i < count; i++) {
        const plan_op *op = &p->ops[first + i];
        bool on_marked = op->kind == PLAN_LOGITS_OP || op->kind == PLAN_PICK_OP;
        if (!on_marked || x.n_logits > 0) {
            status = vk_recording_may_cut(r, estimated_ms(e, op, x));
            if (status == PM_OK) status = vk_emit_op(e, r, op, x);
        }
        if (end) end[i] = vk_recording_n_dispatches(r);
    }
    if (status == PM_OK && ahead) status = vk_emit_next(e, r);
    if (status == PM_OK) status = vk_recording_end(r);
    if (status == PM_OK)
        *out = r;
    else
        vk_recording_free(r);
    return status;
}

pm_status vk_kept_recording(exec *e, const plan *p, uint32_t first, uint32_t count, vk_extent x,
                            bool ahead, vk_recording **out)
{
    for (uint32_t i = 0; i < e->n_recorded; i++) {
        const struct vk_recorded *k = &e->recorded[i];
        if (k->plan == p && k->first == first && k->count == count && k->ahead == ahead &&
            !memcmp(&k->extent, &x, sizeof x)) {
            *out = k->recording;
            // While some are in work ahead of the host none is freed.
            if (e->ahead || !vk_recording_is_stale(*out)) return PM_OK;
            vk_recording_free(*out); // waits for it
            e->recorded[i] = e->recorded[--e->n_recorded];
            break;
        }
    }
    pm_status status = make_recording(e, p, first, count, x, ahead, NULL, out);
    if (status != PM_OK) return status;
    vk_forget_recordings(e, 1);
    e->recorded[e->n_recorded++] = (struct vk_recorded){p, first, count, x, ahead, *out};
    return PM_OK;
}

void vk_write_step(exec *e, const plan_step *step)
{
    // Only what this step uses: the uniform's other rows are never read.
    memcpy(e->step.mapped, step, offsetof(plan_step, rows) + step->n_rows * sizeof step->rows[0]);
    memcpy(e->step.mapped + offsetof(plan_step, logit_rows), step->logit_rows,
           step->n_logits * sizeof step->logit_rows[0]);
}

static pm_status vulkan_run(exec *e, const plan *p, uint32_t first, uint32_t count,
                            const plan_step *step)
{
    assert(!e->ahead && first <= p->n_ops && count <= p->n_ops - first &&
           step->n_rows <= p->max_rows);
    pm_status status = vk_alive(e->device);
    if (status != PM_OK || count == 0) return status;
    bool keep = p->max_rows <= PLAN_MATVEC_ROWS;
    vk_extent x = vk_extent_of(e, p, step);
    vk_recording *r;
    status = keep ? vk_kept_recording(e, p, first, count, x, false, &r)
                  : make_recording(e, p, first, count, x, false, NULL, &r);
    if (status != PM_OK) return status;
    vk_write_step(e, step);
    status = vk_submit(r);
    if (status == PM_OK) status = vk_wait(r);
    if (!keep) vk_recording_free(r);
    return status;
}

// ---- times and counts -------------------------------------------------------------------------

// An op's time is that of its dispatches; of an op without one (nothing is marked) it is 0.
static double seconds_of(const vk_recording *r, uint32_t begin, uint32_t end)
{
    double sum = 0;
    for (uint32_t i = begin; i < end; i++) {
        double seconds = vk_recording_seconds(r, i);
        if (seconds < 0) return -1;
        sum += seconds;
    }
    return sum;
}

static pm_status vulkan_run_timed(exec *e, const plan *p, uint32_t first, uint32_t count,
                                  const plan_step *step, double *seconds)
{
    assert(first <= p->n_ops && count <= p->n_ops - first && step->n_rows <= p->max_rows);
    pm_status status = vk_alive(e->device);
    if (status != PM_OK || count == 0) return status;
    uint32_t *end = calloc(count, sizeof *end);
    if (!end) return error_memory("a recording", count * sizeof *end);
    vk_recording *r = NULL;
    status = make_recording(e, p, first, count, vk_extent_of(e, p, step), false, end, &r);
    if (status == PM_OK) {
        vk_write_step(e, step);
        status = vk_submit(r);
    }
    if (status == PM_OK) status = vk_wait(r);
    for (uint32_t i = 0; status == PM_OK && i < count; i++)
        seconds[i] = seconds_of(r, i ? end[i - 1] : 0, end[i]);
    vk_recording_free(r);
    free(end);
    return status;
}

static uint32_t vulkan_n_dispatches(exec *e, const plan *p, uint32_t first, uint32_t count,
                                    const plan_step *step)
{
    vk_recording *r = NULL;
    if (count == 0 || vk_alive(e->device) != PM_OK ||
        make_recording(e, p, first, count, vk_extent_of(e, p, step), false, NULL, &r) != PM_OK)
        return 0;
    uint32_t n = vk_recording_n_dispatches(r);
    vk_recording_free(r);
    return n;
}

static pm_status vulkan_kernels(exec *e, const plan *p, uint32_t index, const plan_step *step,
                                buf *out)
{
    vk_keys keys = {0};
    vk_recording *r = NULL;
    pm_status status = vk_recording_of_keys(e->device, &keys, &r);
    if (status == PM_OK) status = vk_emit_op(e, r, &p->ops[index], vk_extent_of(e, p, step));
    vk_recording_free(r);
    for (size_t i = 0; i < keys.n && status == PM_OK; i++) {
        const vk_pipeline_key *key = &keys.keys[i];
        buf_printf(out, "%s%s(", i ? " + " : "", key->shader->name);
        for (uint32_t k = 0; k < key->n_spec; k++) buf_printf(out, k ? ",%u" : "%u", key->spec[k]);
        buf_str(out, ")");
    }
    free(keys.keys);
    return status;
}

// ---- reads and writes -------------------------------------------------------------------------

typedef pm_status (*copy_fn)(vk_device *d, const vk_buffer *b, uint64_t offset, void *host,
                             uint64_t n);

static pm_status copy_in(vk_device *d, const vk_buffer *b, uint64_t offset, void *host, uint64_t n)
{
    return vk_upload(d, b, offset, host, n);
}

// Walks the pieces that hold bytes [offset, offset + n) of a buffer's device layout.
static pm_status copy_device(exec *e, int buffer, uint64_t offset, char *host, uint64_t n,
                             copy_fn copy)
{
    const vk_store *s = &e->bufs[buffer];
    uint64_t piece_bytes = s->rows_per_piece * s->row_bytes;
    while (n > 0) {
        vk_range piece = s->pieces[offset / piece_bytes];
        uint64_t in_piece = offset % piece_bytes, part = piece_bytes - in_piece;
        if (part > n) part = n;
        pm_status status = copy(e->device, piece.buffer, piece.offset + in_piece, host, part);
        if (status != PM_OK) return status;
        offset += part;
        host += part;
        n -= part;
    }
    return PM_OK;
}

// Rows of q8: Q8_0 blocks outside, quants and then scales on the device.
static void blocks_of_row(const uint32_t *row, uint32_t n, uint8_t *blocks)
{
    const uint8_t *quants = (const uint8_t *)row;
    const float *scales = (const float *)(row + n / 4);
    for (uint32_t b = 0; b < n / QUANT_Q8_VALUES; b++) {
        uint16_t d = quant_f32_to_f16(scales[b]);
        memcpy(blocks + (size_t)b * QUANT_Q8_BYTES, &d, sizeof d);
        memcpy(blocks + (size_t)b * QUANT_Q8_BYTES + sizeof d, quants + (size_t)b * QUANT_Q8_VALUES,
               QUANT_Q8_VALUES);
    }
}

static void row_of_blocks(const uint8_t *blocks, uint32_t n, uint32_t *row)
{
    uint8_t *quants = (uint8_t *)row;
    float *scales = (float *)(row + n / 4);
    for (uint32_t b = 0; b < n / QUANT_Q8_VALUES; b++) {
        uint16_t d;
        memcpy(&d, blocks + (size_t)b * QUANT_Q8_BYTES, sizeof d);
        scales[b] = quant_f16_to_f32(d);
        memcpy(quants + (size_t)b * QUANT_Q8_VALUES, blocks + (size_t)b * QUANT_Q8_BYTES + sizeof d,
               QUANT_Q8_VALUES);
    }
}

// Row by row through both layouts; `write`: the part that is not written is read first.
static pm_status copy_q8(exec *e, int buffer, uint64_t offset, char *host, uint64_t n, bool write)
{
    const plan_buf *b = &e->set->bufs[buffer];
    uint64_t device_bytes = e->bufs[buffer].row_bytes;
    uint32_t *row = malloc(device_bytes);
    uint8_t *blocks = malloc(b->row_bytes);
    pm_status status = row && blocks ? PM_OK : error_memory("a row", device_bytes);
    while (status == PM_OK && n > 0) {
        uint64_t at = offset / b->row_bytes * device_bytes, in_row = offset % b->row_bytes;
        uint64_t part = b->row_bytes - in_row < n ? b->row_bytes - in_row : n;
        status = copy_device(e, buffer, at, (char *)row, device_bytes, vk_download);
        if (status != PM_OK) break;
        blocks_of_row(row, b->width, blocks);
        memcpy(write ? (char *)blocks + in_row : host, write ? host : (char *)blocks + in_row,
               part);
        if (write) {
            row_of_blocks(blocks, b->width, row);
            status = copy_device(e, buffer, at, (char *)row, device_bytes, copy_in);
        }
        offset += part;
        host += part;
        n -= part;
    }
    free(row);
    free(blocks);
    return status;
}

static pm_status copy_buffer(exec *e, int buffer, uint64_t offset, char *host, uint64_t n,
                             bool write)
{
    const plan_buf *b = &e->set->bufs[buffer];
    assert(!e->ahead && e->bufs[buffer].pieces && size_in_range(offset, n, b->bytes));
    (void)b;
    pm_status status = vk_alive(e->device);
    if (status != PM_OK) return status;
    if (b->type == QUANT_Q8_0) return copy_q8(e, buffer, offset, host, n, write);
    return copy_device(e, buffer, offset, host, n, write ? copy_in : vk_download);
}

static pm_status vulkan_read(exec *e, int buffer, uint64_t offset, void *dst, uint64_t n)
{
    return copy_buffer(e, buffer, offset, dst, n, false);
}

static pm_status vulkan_write(exec *e, int buffer, uint64_t offset, const void *src, uint64_t n)
{
    return copy_buffer(e, buffer, offset, (char *)(uintptr_t)src, n, true);
}

bool vk_prefers_pick(const exec *e)
{
    return e->device->features.pick && e->bufs[PLAN_PICK].pieces != NULL &&
           !vk_shader_is_bad(e->device, vk_shader_named("pick")); // then the host sees all logits
}

const exec_kind exec_vulkan = {.name = "vulkan",
                               .load = vulkan_load,
                               .unload = vulkan_unload,
                               .weight_bytes = vulkan_weight_bytes,
                               .describe = vulkan_describe,
                               .prefers_q8 = vulkan_prefers_q8,
                               .bandwidth = vk_bandwidth,
                               .warning = vulkan_warning,
                               .open = vulkan_open,
                               .close = vulkan_close,
                               .prepared = vulkan_prepared,
                               .run = vulkan_run,
                               .read = vulkan_read,
                               .write = vulkan_write,
                               .run_timed = vulkan_run_timed,
                               .n_dispatches = vulkan_n_dispatches,
                               .prefers_pick = vk_prefers_pick,
                               .kernels = vulkan_kernels,
                               .can_ahead = vk_can_ahead,
                               .ahead_begin = vk_ahead_begin,
                               .ahead_next = vk_ahead_next,
                               .ahead_end = vk_ahead_end};
