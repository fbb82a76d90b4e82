// Opening and describing models.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/os.h"
#include "engine/placement.h"

const char *pm_version(void)
{
    return PUMICE_VERSION;
}

const char *pm_last_error(void)
{
    return error_message();
}

void pm_free(void *text)
{
    free(text);
}

// ---- warnings ---------------------------------------------------------------------------------

static pm_status add_warning(pm_model *pm, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char **more = realloc(pm->warnings, (pm->n_warnings + 1) * sizeof *more);
    if (!more) return error_memory("a warning", bytes);
    pm->warnings = more;
    char *copy = malloc(bytes);
    if (!copy) return error_memory("a warning", bytes);
    memcpy(copy, text, bytes);
    pm->warnings[pm->n_warnings++] = copy;
    return PM_OK;
}

static pm_status collect_warnings(pm_model *pm, const pm_options *options)
{
    const struct model *m = pm->m;
    pm_status status = PM_OK;
    for (size_t i = 0; m->vocab && status == PM_OK && i < text_n_warnings(m->vocab); i++) {
        status = add_warning(pm, text_warning(m->vocab, i));
    }
    int64_t n_ctx = options_int(options, "ctx", 0);
    if (status == PM_OK && pm->loaded && n_ctx > m->n_ctx_train) {
        char text[160];
        snprintf(text, sizeof text,
                 "a context of %" PRId64 " tokens is longer than the %" PRIu32
                 " that the model was trained for",
                 n_ctx, m->n_ctx_train);
        status = add_warning(pm, text);
    }
    return status;
}

// ---- opening ----------------------------------------------------------------------------------

// The plan says which tensors are used together; it is needed during loading only.
static pm_status load_parts(pm_model *pm, placement *p, const plan_options *wanted)
{
    plan_options small = *wanted;
    small.n_batch = small.n_logits = 1;
    small.n_ctx = 1;
    plan_set *layout;
    pm_status status = plan_build(pm->m, &small, &layout);
    if (status != PM_OK) return status;
    for (uint32_t i = 0; i < p->n_parts; i++) p->parts[i].params.layout = layout;
    status = weights_load(pm->m, p->parts, p->n_parts, &pm->loaded);
    plan_set_free(layout);
    return status;
}

// "cpu (AVX2, 2 threads)", with several parts joined by " + ".
static void describe(pm_model *pm)
{
    size_t at = 0;
    for (uint32_t i = 0; i < pm->loaded->n_parts && at < sizeof pm->description; i++) {
        const weights_part *part = &pm->loaded->parts[i];
        int n = snprintf(pm->description + at, sizeof pm->description - at, "%s%s (%s)",
                         i ? " + " : "", part->kind->name, part->kind->describe(part->loaded));
        at += n > 0 ? (size_t)n : 0;
    }
}

static int64_t gpu_layers_of(const pm_options *options)
{
    if (options_word(options, "gpu-layers", "all")) return PLACEMENT_ALL;
    if (options_word(options, "gpu-layers", "auto")) return PLACEMENT_AUTO;
    return options_int(options, "gpu-layers", PLACEMENT_AUTO);
}

static pm_status load(pm_model *pm, const pm_options *options, const char *device,
                      int64_t gpu_layers)
{
    exec_gpu gpu = params_gpu(options);
    placement_request request = {.device = device, .gpu_layers = gpu_layers};
    pm->n_threads = (int)options_int(options, "threads", os_default_threads());
    request.params = (exec_params){
        .n_threads = pm->n_threads, .isa = pm_options_get(options, "isa"), .gpu = &gpu};
    pm_status status = params_plan(pm->m, NULL, request.device, options, &request.session);
    if (status != PM_OK) return status;
    placement p;
    status = placement_choose(pm->m, &request, &p);
    if (status == PM_OK) status = load_parts(pm, &p, &request.session);
    if (status != PM_OK) return status;
    snprintf(pm->device, sizeof pm->device, "%s", p.device);
    snprintf(pm->note, sizeof pm->note, "%s", p.note);
    describe(pm);
    return PM_OK;
}

pm_status pm_model_open(const char *path, const pm_options *options, pm_model **out)
{
    double start = os_seconds();
    pm_model *pm = calloc(1, sizeof *pm);
    if (!pm) return error_memory("a model", sizeof *pm);
    model_options how = {
        .no_mmap = options_is_on(options, "no-mmap"),
        .vocab_only = options_is_on(options, "vocab-only"),
        .assume_pre = pm_options_get(options, "pre"),
    };
    pm_status status = model_open(path, &how, &pm->m);
    if (status == PM_OK && !how.vocab_only)
        status = load(pm, options, pm_options_get(options, "device"), gpu_layers_of(options));
    if (status == PM_OK) status = collect_warnings(pm, options);
    if (status != PM_OK) {
        pm_model_close(pm);
        return status;
    }
    for (uint32_t i = 0; pm->loaded && i < pm->m->n_tensors; i++) {
        pm->weight_bytes += pm->m->file_tensors[i]->bytes;
    }
    pm->load_seconds = os_seconds() - start;
    *out = pm;
    return PM_OK;
}

pm_status model_load_beside(const pm_model *pm, const pm_options *options, const char *device,
                            pm_model **out)
{
    pm_model *other = calloc(1, sizeof *other);
    if (!other) return error_memory("a model", sizeof *other);
    other->m = pm->m;
    other->weight_bytes = pm->weight_bytes;
    pm_status status = load(other, options, device, PLACEMENT_AUTO);
    if (status == PM_OK) {
        *out = other;
    } else {
        model_unload_beside(other);
    }
    return status;
}

void model_unload_beside(pm_model *other)
{
    if (!other) return;
    weights_unload(other->loaded);
    free(other);
}

void pm_model_close(pm_model *pm)
{
    if (!pm) return;
    weights_unload(pm->loaded);
    model_close(pm->m);
    for (size_t i = 0; i < pm->n_warnings; i++) free(pm->warnings[i]);
    free(pm->warnings);
    free(pm);
}

// ---- describing -------------------------------------------------------------------------------

size_t pm_model_n_warnings(const pm_model *pm)
{
    return pm->n_warnings;
}

const char *pm_model_warning(const pm_model *pm, size_t index)
{
    return index < pm->n_warnings ? pm->warnings[index] : NULL;
}

const char *pm_model_architecture(const pm_model *pm)
{
    return pm->m->arch ? pm->m->arch->name : "";
}

const char *pm_model_device(const pm_model *pm)
{
    return pm->device;
}

const char *pm_model_device_note(const pm_model *pm)
{
    return pm->note;
}

const char *pm_model_device_description(const pm_model *pm)
{
    return pm->description;
}

const char *pm_model_device_warning(const pm_model *pm, size_t index)
{
    return pm->loaded ? weights_warning(pm->loaded, index) : NULL;
}

int32_t pm_model_n_vocab(const pm_model *pm)
{
    if (pm->loaded) return (int32_t)pm->m->n_vocab;
    return pm->m->vocab ? text_n_vocab(pm->m->vocab) : 0;
}

int32_t pm_model_n_layer(const pm_model *pm)
{
    return (int32_t)pm->m->n_layer;
}

int32_t pm_model_n_embd(const pm_model *pm)
{
    return (int32_t)pm->m->n_embd;
}

int32_t pm_model_n_ctx_train(const pm_model *pm)
{
    return (int32_t)pm->m->n_ctx_train;
}

double pm_model_load_seconds(const pm_model *pm)
{
    return pm->load_seconds;
}

uint64_t pm_model_weight_bytes(const pm_model *pm)
{
    return pm->weight_bytes;
}

const char *pm_model_template(const pm_model *pm, size_t *n)
{
    gguf_string source = {NULL, 0};
    if (gguf_get_string(pm->m->file, "tokenizer.chat_template", &source) != PM_OK) return NULL;
    if (n) *n = source.len;
    return source.data;
}

// ---- plan -------------------------------------------------------------------------------------

static pm_status print_plan(const model *m, const pm_options *options, int n_rows, char **text)
{
    plan_options how;
    pm_status status = params_plan(m, NULL, pm_options_get(options, "device"), options, &how);
    if (status != PM_OK) return status;
    if (n_rows < 1 || (uint32_t)n_rows > how.n_batch) {
        return error_set(PM_ERROR_USAGE, "a step of %d rows is not possible (1 to %" PRIu32 ")",
                         n_rows, how.n_batch);
    }
    plan_set *set = NULL;
    status = plan_build(m, &how, &set);
    if (status != PM_OK) return status;
    buf out = {0};
    plan_print(set, plan_for_rows(set, (uint32_t)n_rows), &out);
    plan_set_free(set);
    return buf_take(&out, text, NULL);
}

pm_status pm_model_plan(const pm_model *pm, const pm_options *options, int n_rows, char **text)
{
    if (pm->loaded) return print_plan(pm->m, options, n_rows, text);
    // With vocab-only nobody has looked at the tensors yet.
    model_options how = {.no_mmap = options_is_on(options, "no-mmap"),
                         .assume_pre = pm_options_get(options, "pre")};
    model *whole = NULL;
    pm_status status = model_open(gguf_path(pm->m->file), &how, &whole);
    if (status == PM_OK) status = print_plan(whole, options, n_rows, text);
    model_close(whole);
    return status;
}
