// All kernels that a state can need: made before its first step, tested, and replaced by simpler
// ones of the same device where one can't be made or is wrong.
#include "exec/vulkan/vk.h"

#include <stdio.h>
#include <stdlib.h>

// What opening has done so far.
typedef struct work {
    exec *e;
    vk_layers layers;
    size_t n_kernels, n_made;
    uint32_t n_tests;
    double make_s, test_s;
} work;

typedef pm_status (*visit_fn)(work *w, const plan *p, const plan_op *op, vk_extent extent,
                              void *arg);

// Calls `visit` with every op and every extent of steps that chooses kernels of its own: the rows
// of each plan, few and many logits, a context that fits one part of attention or does not. PICK is
// left out where sessions don't run it.
static pm_status each_use(work *w, visit_fn visit, void *arg)
{
    const plan_set *set = w->e->set;
    pm_status status = PM_OK;
    for (uint32_t b = 0; b < set->n_buckets; b++) {
        const plan *p = &set->buckets[b];
        uint32_t n_rows = p->max_rows, most = n_rows < set->n_logits ? n_rows : set->n_logits;
        vk_extent small = {n_rows, n_rows > PLAN_MATVEC_ROWS ? 1 : most, 1};
        vk_extent large = {n_rows, most, set->n_ctx};
        for (uint32_t i = 0; i < p->n_ops && status == PM_OK; i++) {
            const plan_op *op = &p->ops[i];
            if ((op->kind == PLAN_PICK_OP && !vk_prefers_pick(w->e)) ||
                !exec_has_op(set, op, w->layers.first, w->layers.end, w->layers.outer))
                continue;
            if (op->kind == PLAN_LOGITS_OP || op->kind == PLAN_ATTEND)
                status = visit(w, p, op, small, arg);
            if (status == PM_OK) status = visit(w, p, op, large, arg);
        }
    }
    return status;
}

// Does a state with these layers see a whole model, so that it can decode ahead?
static bool runs_ahead(const work *w)
{
    return w->layers.outer && w->layers.first == 0 && w->layers.end == w->e->set->n_layer &&
           vk_can_ahead(w->e);
}

static pm_status collect_use(work *w, const plan *p, const plan_op *op, vk_extent extent, void *arg)
{
    (void)p;
    return vk_emit_op(w->e, arg, op, extent);
}

// The keys of everything.
static pm_status collect(work *w, vk_keys *keys)
{
    vk_recording *r = NULL;
    pm_status status = vk_recording_of_keys(w->e->device, keys, &r);
    if (status == PM_OK) status = each_use(w, collect_use, r);
    if (status == PM_OK && runs_ahead(w)) status = vk_emit_next(w->e, r);
    vk_recording_free(r);
    w->n_kernels = keys->n;
    return status;
}

pm_status vk_collect_keys(exec *e, vk_layers layers, vk_keys *keys)
{
    work w = {.e = e, .layers = layers};
    return collect(&w, keys);
}

static pm_status test_use(work *w, const plan *p, const plan_op *op, vk_extent extent, void *arg)
{
    vk_device *d = w->e->device;
    uint32_t *n_wrong = arg;
    vk_keys keys = {0};
    vk_recording *r = NULL;
    bool tested = true;
    if (*n_wrong > 0) return PM_OK; // others will be chosen, those are tested then
    pm_status status = vk_recording_of_keys(d, &keys, &r);
    if (status == PM_OK) status = vk_emit_op(w->e, r, op, extent);
    vk_recording_free(r);
    for (size_t i = 0; i < keys.n; i++) tested = tested && vk_is_tested(d, &keys.keys[i]);
    free(keys.keys);
    if (status != PM_OK || tested) return status;
    w->n_tests++;
    return vk_self_test(d, w->e->set, p, op, extent, n_wrong);
}

static pm_status test_choice(work *w, uint32_t *n_wrong)
{
    vk_device *d = w->e->device;
    const plan *p = &w->e->set->buckets[0];
    const plan_op *op = &p->ops[p->n_ops - 1];
    vk_keys keys = {0};
    vk_recording *r = NULL;
    if (*n_wrong > 0 || !runs_ahead(w)) return PM_OK;
    while (op > p->ops && op->kind != PLAN_LOGITS_OP) op--;
    pm_status status = vk_recording_of_keys(d, &keys, &r);
    if (status == PM_OK) status = vk_emit_next(w->e, r);
    vk_recording_free(r);
    if (status == PM_OK && op->kind == PLAN_LOGITS_OP && !vk_is_tested(d, &keys.keys[0])) {
        w->n_tests++;
        status = vk_self_test_choice(d, w->e->set, op, &keys.keys[0], n_wrong);
    }
    free(keys.keys);
    return status;
}

// One round: what can't be made or is wrong is marked, and the next round chooses without it.
// Fails where nothing is left to choose from.
static pm_status make_and_test(work *w, bool *again)
{
    vk_device *d = w->e->device;
    vk_keys keys = {0};
    size_t n_made = 0;
    uint32_t n_bad = vk_n_bad(d), n_wrong = 0;
    double start = os_seconds();
    pm_status status = collect(w, &keys);
    if (status == PM_OK) {
        status = vk_pipelines_make(d, &keys, &n_made);
        *again = vk_n_bad(d) > n_bad;
        if (*again && !atomic_load(&d->lost)) status = PM_OK;
    }
    free(keys.keys);
    double made = os_seconds();
    if (status == PM_OK && !*again) {
        status = each_use(w, test_use, &n_wrong);
        if (status == PM_OK) status = test_choice(w, &n_wrong);
        *again = n_wrong > 0;
    }
    w->n_made += n_made;
    w->make_s += made - start;
    w->test_s += os_seconds() - made;
    return status;
}

pm_status vk_prepare(exec *e, vk_layers layers)
{
    work w = {.e = e, .layers = layers};
    bool again = true;
    pm_status status = PM_OK;
    while (again && status == PM_OK) {
        again = false;
        status = make_and_test(&w, &again);
    }
    if (status != PM_OK) return status;
    vk_warn_of_bad(e->device);
    snprintf(e->prepared, sizeof e->prepared,
             "%zu kernels: %zu made in %.2f s, %u tests of them in %.2f s", w.n_kernels, w.n_made,
             w.make_s, w.n_tests, w.test_s);
    vk_pipelines_save(e->device);
    vk_kernels_save(e->device);
    return PM_OK;
}
