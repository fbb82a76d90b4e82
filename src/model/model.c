#include "model/model_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

static pm_status no_such_arch(gguf_string name)
{
    buf list = {0};
    for (size_t i = 0; model_arch_at(i); i++)
        buf_printf(&list, "%s%s", i ? ", " : "", model_arch_at(i)->name);
    pm_status status =
        error_set(PM_ERROR_FILE, "architecture '%.*s' is not supported (supported: %s)",
                  (int)(name.len < 64 ? name.len : 64), name.data, list.data ? list.data : "");
    buf_free(&list);
    return status;
}

static pm_status find_arch(const gguf *g, const model_arch **out)
{
    gguf_string name = {0};
    pm_status status = gguf_get_string(g, "general.architecture", &name);
    if (status != PM_OK) return status;
    if (!name.data) return error_set(PM_ERROR_FILE, "key 'general.architecture' is missing");
    for (size_t i = 0; (*out = model_arch_at(i)) != NULL; i++) {
        if (strlen((*out)->name) == name.len && !memcmp((*out)->name, name.data, name.len))
            return PM_OK;
    }
    return no_such_arch(name);
}

// Fills everything but the vocabulary.
static pm_status read_network(model *m)
{
    pm_status status = find_arch(m->file, &m->arch);
    if (status == PM_OK) status = model_read_hparams(m);
    if (status != PM_OK) return status;
    m->layers = calloc(m->n_layer, sizeof *m->layers);
    if (!m->layers) return error_memory("the layer table", m->n_layer);
    status = model_read_layer_kinds(m);
    if (status == PM_OK) status = model_bind_tensors(m);
    return status;
}

static void release_network(model *m)
{
    free(m->layers);
    free(m->tensors);
    free(m->file_tensors);
}

pm_status model_supported(const gguf *g)
{
    model m = {.file = (gguf *)(uintptr_t)g}; // read only
    pm_status status = read_network(&m);
    release_network(&m);
    return status;
}

pm_status model_open(const char *path, const model_options *options, model **out)
{
    *out = NULL;
    model *m = calloc(1, sizeof *m);
    if (!m) return error_memory("a model", sizeof *m);
    pm_status status = gguf_open(path, !options->no_mmap, &m->file);
    if (status != PM_OK) goto failed;
    if (!options->vocab_only) {
        status = error_in(read_network(m), "%s", path);
        if (status != PM_OK) goto failed;
    }
    status = error_in(text_vocab_load(m->file, options->assume_pre, &m->vocab), "%s", path);
    if (status != PM_OK) goto failed;
    if (!options->vocab_only && (uint32_t)text_n_vocab(m->vocab) > m->n_vocab) {
        status = error_set(PM_ERROR_FILE, "%s: %d tokens in the vocabulary, but embeddings of %u",
                           path, text_n_vocab(m->vocab), m->n_vocab);
        goto failed;
    }
    *out = m;
    return PM_OK;
failed:
    model_close(m);
    return status;
}

void model_close(model *m)
{
    if (!m) return;
    text_vocab_free(m->vocab);
    release_network(m);
    gguf_close(m->file);
    free(m);
}
