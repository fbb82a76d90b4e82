// The reference executor: weights as the file has them, plain loops (ops.c), one thread.
#include "exec/reference/reference.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/size.h"

static void reference_unload(exec_weights *w)
{
    if (!w) return;
    for (uint32_t i = 0; i < w->n_tensors; i++) {
        if (w->owned) free(w->owned[i]);
        if (w->vectors) free(w->vectors[i]);
    }
    free((void *)(uintptr_t)w->tensors);
    free((void *)w->data);
    free(w->owned);
    free(w->vectors);
    free(w);
}

static pm_status load_vector(exec_weights *w, uint32_t i, const exec_source *source)
{
    const plan_tensor *t = &w->tensors[i];
    w->vectors[i] = malloc(t->cols * sizeof(float));
    void *raw = malloc(t->row_bytes);
    pm_status status = PM_OK;
    if (!w->vectors[i] || !raw) status = error_memory(t->name, t->row_bytes);
    if (status == PM_OK) status = source->read(source->arg, i, 0, raw, t->row_bytes);
    if (status == PM_OK) quant_format_of(t->type)->decode(raw, w->vectors[i], t->cols);
    free(raw);
    return status;
}

static pm_status load_tensor(exec_weights *w, uint32_t i, const exec_source *source)
{
    const plan_tensor *t = &w->tensors[i];
    if (t->vector) return load_vector(w, i, source);
    w->data[i] = source->map ? source->map(source->arg, i) : NULL;
    if (w->data[i]) return PM_OK;
    uint64_t bytes = t->rows * t->row_bytes;
    w->data[i] = w->owned[i] = malloc(bytes);
    if (!w->owned[i]) return error_memory(t->name, bytes);
    w->bytes += bytes;
    return source->read(source->arg, i, 0, w->owned[i], bytes);
}

static pm_status reference_load(const exec_params *params, const plan_tensor *tensors, uint32_t n,
                                const bool *wanted, const exec_source *source, exec_weights **out)
{
    (void)params;
    *out = NULL;
    exec_weights *w = calloc(1, sizeof *w);
    if (!w) return error_memory("weights", sizeof *w);
    w->n_tensors = n;
    plan_tensor *copy = malloc((n + (size_t)1) * sizeof *copy);
    w->tensors = copy;
    w->data = calloc(n + (size_t)1, sizeof *w->data);
    w->owned = calloc(n + (size_t)1, sizeof *w->owned);
    w->vectors = calloc(n + (size_t)1, sizeof *w->vectors);
    pm_status status = PM_OK;
    if (!copy || !w->data || !w->owned || !w->vectors) status = error_memory("weights", n);
    if (status == PM_OK) memcpy(copy, tensors, n * sizeof *copy);
    for (uint32_t i = 0; status == PM_OK && i < n; i++) {
        if (!wanted[i]) continue;
        if (!quant_format_of(tensors[i].type))
            status = quant_unsupported(tensors[i].type, tensors[i].name);
        if (status == PM_OK) status = load_tensor(w, i, source);
    }
    if (status == PM_OK)
        *out = w;
    else
        reference_unload(w);
    return status;
}

static uint64_t reference_weight_bytes(const exec_weights *w)
{
    return w->bytes;
}

static const char *reference_describe(const exec_weights *w)
{
    (void)w;
    return "plain loops in double precision, 1 thread";
}

static bool reference_prefers_q8(const exec_weights *w)
{
    (void)w;
    return false;
}

static void reference_close(exec *e)
{
    if (!e) return;
    for (uint32_t i = 0; e->bufs && i < e->set->n_bufs; i++) free(e->bufs[i]);
    free(e->bufs);
    free(e->x);
    free(e->y);
    free(e->w);
    free(e->scores);
    free(e->acc);
    free(e);
}

// The widest row that any op handles: of a buffer (logits have their own), of a weight matrix.
static uint64_t widest_row(const plan_set *set)
{
    uint64_t widest = 1;
    for (uint32_t i = 0; i < set->n_bufs; i++)
        if (i != PLAN_LOGITS && i != PLAN_PICK && set->bufs[i].width > widest)
            widest = set->bufs[i].width;
    for (uint32_t i = 0; i < set->n_tensors; i++)
        if (set->tensors[i].cols > widest) widest = set->tensors[i].cols;
    return widest;
}

static bool alloc_bufs(exec *e, uint32_t first_layer, uint32_t end_layer)
{
    for (uint32_t i = 0; i < e->set->n_bufs; i++) {
        const plan_buf *b = &e->set->bufs[i];
        bool ours =
            b->layer < 0 || ((uint32_t)b->layer >= first_layer && (uint32_t)b->layer < end_layer);
        if (!ours || b->bytes == 0) continue;
        e->bufs[i] = calloc(1, b->bytes);
        if (!e->bufs[i]) return false;
    }
    return true;
}

static pm_status reference_open(exec_weights *w, const plan_set *set, uint32_t first_layer,
                                uint32_t end_layer, bool outer, exec **out)
{
    (void)outer; // row buffers are few: every state has them all
    *out = NULL;
    exec *e = calloc(1, sizeof *e);
    if (!e) return error_memory("a session", sizeof *e);
    e->weights = w;
    e->set = set;
    uint64_t widest = widest_row(set), scratch = widest * set->n_batch;
    e->bufs = calloc(set->n_bufs, sizeof *e->bufs);
    e->x = calloc(scratch, sizeof *e->x);
    e->y = calloc(2 * scratch, sizeof *e->y); // gate and up one behind the other
    e->w = calloc(widest, sizeof *e->w);
    e->scores = calloc(set->n_ctx, sizeof *e->scores);
    e->acc = calloc(set->head_dim, sizeof *e->acc);
    bool ok = e->bufs && e->x && e->y && e->w && e->scores && e->acc;
    if (!ok || !alloc_bufs(e, first_layer, end_layer)) {
        reference_close(e);
        return error_memory("a session's buffers", scratch * sizeof(float));
    }
    *out = e;
    return PM_OK;
}

typedef struct run_args {
    exec *e;
    const plan_op *ops;
    uint32_t count;
} run_args;

static void run_ops(void *arg)
{
    run_args *a = arg;
    for (uint32_t i = 0; i < a->count; i++) reference_run_op(a->e, &a->ops[i]);
}

static pm_status reference_run(exec *e, const plan *p, uint32_t first, uint32_t count,
                               const plan_step *step)
{
    assert(first <= p->n_ops && count <= p->n_ops - first && step->n_rows <= p->max_rows);
    e->step = step;
    run_args args = {.e = e, .ops = p->ops + first, .count = count};
    if (os_guard_mapped(run_ops, &args)) return PM_OK;
    return error_set(PM_ERROR_FILE, "the model's file became shorter while it was in use");
}

static pm_status reference_read(exec *e, int buffer, uint64_t offset, void *dst, uint64_t n)
{
    assert(e->bufs[buffer] && size_in_range(offset, n, e->set->bufs[buffer].bytes));
    memcpy(dst, (const char *)e->bufs[buffer] + offset, n);
    return PM_OK;
}

static pm_status reference_write(exec *e, int buffer, uint64_t offset, const void *src, uint64_t n)
{
    assert(e->bufs[buffer] && size_in_range(offset, n, e->set->bufs[buffer].bytes));
    memcpy((char *)e->bufs[buffer] + offset, src, n);
    return PM_OK;
}

const exec_kind exec_reference = {.name = "reference",
                                  .load = reference_load,
                                  .unload = reference_unload,
                                  .weight_bytes = reference_weight_bytes,
                                  .describe = reference_describe,
                                  .prefers_q8 = reference_prefers_q8,
                                  .open = reference_open,
                                  .close = reference_close,
                                  .run = reference_run,
                                  .read = reference_read,
                                  .write = reference_write};
