#include "engine/placement.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double mib(uint64_t bytes)
{
    return (double)bytes / (1024.0 * 1024.0);
}

// Does a GPU with layers [first_layer, ...) need tensor i? As weights_load decides it.
static bool is_needed(const model *m, uint32_t i, uint32_t first_layer)
{
    int layer = m->tensors[i].layer;
    if (layer >= 0) return (uint32_t)layer >= first_layer;
    bool before = (int)i == m->embd.tensor || (int)i == m->positions.tensor;
    return !before || first_layer == 0 || (int)i == m->output.tensor;
}

static uint64_t cache_bytes(const model *m, const plan_options *session)
{
    uint64_t bytes = 0;
    plan_kv_bytes(m, session->n_ctx, session->n_slots, session->kv_type, &bytes);
    if (session->kv_type == QUANT_Q8_0)
        bytes = bytes / (m->head_dim / QUANT_Q8_VALUES * QUANT_Q8_BYTES) *
                exec_gpu_q8_row_bytes(m->head_dim);
    return bytes;
}

// Row buffers, once in f32 and once in q8 (plan/build.c has the list), logits and picks, two tables
// of rotations with the weights of per-head norms behind them, partial results of attention.
static uint64_t buffer_bytes(const model *m, const plan_options *session)
{
    enum { SPLITS = 32, ALIGN = 512, MOST_BUFFERS = 32 };
    uint64_t n_att = (uint64_t)m->n_head * m->head_dim, n_kv = (uint64_t)m->n_head_kv * m->head_dim;
    uint64_t widths = 5 * (uint64_t)m->n_embd + 3 * n_att + 2 * n_kv + 3 * (uint64_t)m->n_ff;
    uint64_t n_batch = session->n_batch, n_logits = session->n_logits ? session->n_logits : n_batch;
    uint64_t logits = n_logits * (m->n_vocab * sizeof(float) + sizeof(plan_pick));
    uint64_t rotations =
        2 * (uint64_t)session->n_ctx * m->rope.n_rot + 3 * 2 * (uint64_t)m->n_layer * m->head_dim;
    uint64_t rows = PLAN_MATVEC_ROWS * SPLITS > n_batch ? PLAN_MATVEC_ROWS * SPLITS : n_batch;
    uint64_t parts = rows * m->n_head * (m->head_dim + 4) + n_batch * n_att;
    return sizeof(float) * (widths * n_batch + rotations + parts) + logits + sizeof(plan_step) +
           ALIGN * (MOST_BUFFERS + 2 * (uint64_t)m->n_layer);
}

placement_need placement_needs(const model *m, const plan_options *session, uint32_t first_layer)
{
    placement_need need = {0};
    for (uint32_t i = 0; i < m->n_tensors; i++)
        if (is_needed(m, i, first_layer)) need.weights += exec_gpu_tensor_bytes(&m->tensors[i]);
    need.kv = cache_bytes(m, session) / m->n_layer * (m->n_layer - first_layer);
    need.buffers = buffer_bytes(m, session);
    need.total = need.weights + need.kv + need.buffers;
    return need;
}

uint32_t placement_layers_that_fit(const model *m, const plan_options *session, uint64_t available)
{
    uint32_t n = m->n_layer;
    while (n > 0 && placement_needs(m, session, m->n_layer - n).total > available) n--;
    return n;
}

static void place_all(placement *p, const placement_request *r, const model *m,
                      const exec_kind *kind)
{
    p->parts[0] = (weights_part){.kind = kind, .params = r->params, .end_layer = m->n_layer};
    p->n_parts = 1;
    snprintf(p->device, sizeof p->device, "%s", kind->name);
}

static void place_on_gpu(placement *p, const placement_request *r, const model *m,
                         const exec_device *d, uint32_t n_layers)
{
    const exec_kind *gpu = exec_kind_named("vulkan");
    place_all(p, r, m, gpu);
    snprintf(p->device, sizeof p->device, "%s", d->id);
    uint32_t first = m->n_layer - n_layers;
    p->need = placement_needs(m, &r->session, first);
    p->parts[0].params.gpu = &p->gpu;
    if (first == 0) return;
    p->parts[1] = p->parts[0];
    p->parts[1].first_layer = first;
    p->parts[0] = (weights_part){.kind = &exec_cpu, .params = r->params, .end_layer = first};
    p->n_parts = 2;
    snprintf(p->note, sizeof p->note,
             "%" PRIu32 " of %" PRIu32 " layers on %s, the others on the cpu", n_layers, m->n_layer,
             d->title);
}

static pm_status too_small(const model *m, const exec_device *d, const placement_need *need,
                           uint32_t n_layers)
{
    return error_set(PM_ERROR_DEVICE,
                     "%s: %" PRIu32 " of %" PRIu32
                     " layers need %.0f MiB (weights %.0f, cache %.0f, buffers %.0f), %.0f MiB are "
                     "available (try --gpu-layers auto, a smaller --ctx or --batch)",
                     d->title, n_layers, m->n_layer, mib(need->total), mib(need->weights),
                     mib(need->kv), mib(need->buffers), mib(d->available));
}

// The device was asked for: what does not fit is refused, or left to the cpu where that was asked.
static pm_status place_on(placement *p, const placement_request *r, const model *m,
                          const exec_device *d)
{
    uint32_t fit = placement_layers_that_fit(m, &r->session, d->available), n = m->n_layer;
    if (r->gpu_layers >= 0 && r->gpu_layers < n) n = (uint32_t)r->gpu_layers;
    if (r->gpu_layers == PLACEMENT_AUTO) n = fit;
    placement_need need = placement_needs(m, &r->session, m->n_layer - n);
    if (n > fit) return too_small(m, d, &need, n);
    if (n == 0 && r->gpu_layers != 0) {
        need = placement_needs(m, &r->session, m->n_layer - 1);
        return too_small(m, d, &need, 1);
    }
    if (n == 0) {
        place_all(p, r, m, &exec_cpu);
        return PM_OK;
    }
    place_on_gpu(p, r, m, d, n);
    return PM_OK;
}

// The best real GPU that holds everything, else the cpu, with a word on why.
static pm_status place_auto(placement *p, const placement_request *r, const model *m)
{
    exec_device *list = NULL;
    size_t n = 0;
    const char *why = "";
    pm_status status = exec_devices(&p->gpu, &list, &n, &why);
    if (status != PM_OK) return status;
    place_all(p, r, m, &exec_cpu);
    bool real = false;
    for (size_t i = 0; i < n; i++) {
        if (list[i].software) continue;
        real = true;
        if (placement_layers_that_fit(m, &r->session, list[i].available) < m->n_layer) continue;
        snprintf(p->selector, sizeof p->selector, "%zu", i);
        p->gpu.selector = p->selector;
        place_on_gpu(p, r, m, &list[i], m->n_layer);
        free(list);
        return PM_OK;
    }
    if (real)
        snprintf(p->note, sizeof p->note,
                 "no GPU holds the whole model: running on the cpu (--device vulkan --gpu-layers "
                 "auto uses both)");
    else
        snprintf(p->note, sizeof p->note, "no GPU to use (%s): running on the cpu",
                 n > 0 ? "only software drivers" : why);
    free(list);
    return PM_OK;
}

pm_status placement_choose(const model *m, const placement_request *r, placement *out)
{
    *out = (placement){0};
    if (r->params.gpu) out->gpu = *r->params.gpu;
    if (!strcmp(r->device, "auto") && r->gpu_layers == PLACEMENT_AUTO) return place_auto(out, r, m);
    bool named = !strncmp(r->device, "vulkan", 6);
    if (!named && strcmp(r->device, "auto") != 0) {
        if (r->gpu_layers > 0 || r->gpu_layers == PLACEMENT_ALL)
            return error_set(PM_ERROR_USAGE, "--gpu-layers needs a GPU, but --device is %s",
                             r->device);
        place_all(out, r, m, exec_kind_named(r->device));
        return PM_OK;
    }
    if (r->gpu_layers == 0 && !named) {
        place_all(out, r, m, &exec_cpu);
        return PM_OK;
    }
    if (named && r->device[6] == ':') {
        snprintf(out->selector, sizeof out->selector, "%s", r->device + 7);
        out->gpu.selector = out->selector;
    }
    exec_device d;
    pm_status status = exec_device_find(&out->gpu, &d);
    return status == PM_OK ? place_on(out, r, m, &d) : status;
}
