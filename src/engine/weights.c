#include "engine/weights.h"

#include <assert.h>
#include <stdlib.h>

#include "base/os.h"

// ---- where values come from: the model's file -------------------------------------------------

static const void *source_map(void *arg, uint32_t tensor)
{
    const model *m = arg;
    return gguf_tensor_map(m->file, m->file_tensors[tensor]);
}

static pm_status source_read(void *arg, uint32_t tensor, uint64_t offset, void *dst, uint64_t n)
{
    const model *m = arg;
    return gguf_read(m->file, m->file_tensors[tensor], offset, dst, n);
}

static void source_drop(void *arg, uint32_t tensor, uint64_t offset, uint64_t n)
{
    const model *m = arg;
    gguf_drop(m->file, m->file_tensors[tensor], offset, n);
}

// ---- loading ----------------------------------------------------------------------------------

// Which tensors a part needs: those of its layers; before the layers the embedding, behind them
// everything else that belongs to no layer.
static void mark_wanted(const model *m, const weights_part *part, bool first, bool last,
                        bool *wanted)
{
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        int layer = m->tensors[i].layer;
        if (layer != PLAN_NONE) {
            wanted[i] = (uint32_t)layer >= part->first_layer && (uint32_t)layer < part->end_layer;
            continue;
        }
        bool before = (int)i == m->embd.tensor || (int)i == m->positions.tensor;
        bool behind = !before || (int)i == m->output.tensor;
        wanted[i] = (first && before) || (last && behind);
    }
}

typedef struct load_call {
    const weights *w;
    weights_part *part;
    const bool *wanted;
    pm_status status;
} load_call;

static void load_part(void *arg)
{
    load_call *c = arg;
    c->status = c->part->kind->load(&c->part->params, c->w->m->tensors, c->w->m->n_tensors,
                                    c->wanted, &c->w->source, &c->part->loaded);
}

pm_status weights_load(const model *m, const weights_part *parts, uint32_t n_parts, weights **out)
{
    assert(n_parts >= 1 && n_parts <= WEIGHTS_MAX_PARTS);
    assert(parts[0].first_layer == 0 && parts[n_parts - 1].end_layer == m->n_layer);
    pm_status status = PM_OK;
    bool *wanted = calloc(m->n_tensors, sizeof *wanted);
    weights *w = calloc(1, sizeof *w);
    if (!w || !wanted) {
        status = error_memory("weights", m->n_tensors);
        goto done;
    }
    w->m = m;
    // The source's functions only read the model; the contract's argument isn't const.
    union {
        const model *from;
        void *to;
    } arg = {.from = m};
    w->source = (exec_source){arg.to, source_map, source_read, source_drop};
    for (uint32_t i = 0; i < n_parts && status == PM_OK; i++) {
        assert(i == 0 || parts[i].first_layer == parts[i - 1].end_layer);
        w->parts[i] = parts[i];
        w->n_parts = i + 1;
        mark_wanted(m, &parts[i], i == 0, i + 1 == n_parts, wanted);
        load_call call = {w, &w->parts[i], wanted, PM_OK};
        status = os_guard_mapped(load_part, &call)
                     ? call.status
                     : error_set(PM_ERROR_FILE, "%s: became shorter while it was read",
                                 gguf_path(m->file));
    }
done:
    free(wanted);
    if (status == PM_OK) {
        *out = w;
    } else {
        weights_unload(w);
    }
    return status;
}

void weights_settle(weights *w)
{
    for (uint32_t i = 0; i < w->n_parts; i++) {
        if (w->parts[i].kind->settle) w->parts[i].kind->settle(w->parts[i].loaded);
    }
}

void weights_unload(weights *w)
{
    if (!w) return;
    for (uint32_t i = 0; i < w->n_parts; i++) {
        if (w->parts[i].loaded) w->parts[i].kind->unload(w->parts[i].loaded);
    }
    free(w);
}

const char *weights_warning(const weights *w, size_t index)
{
    for (uint32_t i = 0; i < w->n_parts; i++) {
        const weights_part *part = &w->parts[i];
        const char *text = "";
        for (uint32_t k = 0; part->kind->warning && text; k++) {
            text = part->kind->warning(part->loaded, k);
            if (text && index-- == 0) return text;
        }
    }
    return NULL;
}
