// The model of `bench --suite`, made where it is missing.
#include <stdio.h>
#include <stdlib.h>

#include "api/handles.h"
#include "base/os.h"
#include "make/make.h"

// Part of the file's name and of general.name, so of the hash of its header: to be raised whenever
// the generator makes other bytes.
enum { SUITE_VERSION = 1, SMALL_VOCABULARY = 4096 };

struct pm_suite_model {
    char *path;
    char name[80];
    make_parts *parts;
    make_file *file; // NULL: the file was there
    bool there;
};

static make_shape shape_of(pm_suite_model *s, int64_t n_layer)
{
    make_shape shape = make_smollm3_3b();
    const char *small = "";
    char layers[24];
    if (n_layer > 0) {
        snprintf(layers, sizeof layers, ", %d of %d layers", (int)n_layer, (int)shape.n_layer);
        shape.n_layer = (uint32_t)n_layer;
        shape.n_vocab = SMALL_VOCABULARY;
        small = layers;
    }
    snprintf(s->name, sizeof s->name, "SmolLM3-3B's shape with made-up weights, suite %d%s",
             SUITE_VERSION, small);
    shape.name = s->name;
    return shape;
}

static pm_status path_of(pm_suite_model *s, const char *folder, int64_t n_layer)
{
    buf path = {0};
    buf_printf(&path, "%s/suite-%d", folder, SUITE_VERSION);
    if (n_layer > 0) buf_printf(&path, "-%d-layers", (int)n_layer);
    buf_str(&path, ".gguf");
    return buf_take(&path, &s->path, NULL);
}

// What can't be opened is no reason to stop: it is written anew.
static bool is_there(const pm_suite_model *s)
{
    gguf *g = NULL;
    if (!os_file_exists(s->path) || gguf_open(s->path, true, &g) != PM_OK) return false;
    bool there = make_file_is(g, s->parts);
    gguf_close(g);
    return there;
}

static pm_status need_room(const pm_suite_model *s, const char *folder)
{
    enum { MIB = 1 << 20, REST_MIB = 64 };
    uint64_t room = os_free_room(folder), need = s->parts->bytes + (uint64_t)REST_MIB * MIB;
    if (room >= need) return PM_OK;
    return error_set(PM_ERROR_RUN,
                     "%s: the standard model needs %.0f MiB, %.0f MiB are free (make room, or set "
                     "XDG_CACHE_HOME to a folder elsewhere)",
                     folder, (double)need / MIB, (double)room / MIB);
}

pm_status pm_suite_model_start(const char *folder, const pm_options *options, pm_suite_model **out)
{
    pm_suite_model *s = calloc(1, sizeof *s);
    if (!s) return error_memory("a model", sizeof *s);
    int64_t n_layer = options_int(options, "suite-layers", 0);
    make_shape shape = shape_of(s, n_layer);
    pm_status status = path_of(s, folder, n_layer);
    if (status == PM_OK) status = make_parts_new(&shape, NULL, &s->parts);
    if (status == PM_OK) status = os_make_directory(folder);
    if (status == PM_OK && !(s->there = is_there(s))) {
        status = need_room(s, folder);
        if (status == PM_OK) status = make_file_start(s->path, s->parts, &s->file);
    }
    if (status == PM_OK)
        *out = s;
    else
        pm_suite_model_destroy(s);
    return status;
}

pm_status pm_suite_model_next(pm_suite_model *s, int *done)
{
    if (!s->there) {
        bool all = false;
        pm_status status = make_file_next(s->file, &all);
        if (status != PM_OK) return status;
        s->there = all;
    }
    *done = s->there;
    return PM_OK;
}

double pm_suite_model_part(const pm_suite_model *s)
{
    return s->there ? 1 : make_file_part(s->file);
}

const char *pm_suite_model_path(const pm_suite_model *s)
{
    return s->path;
}

uint64_t pm_suite_model_bytes(const pm_suite_model *s)
{
    return s->parts->bytes;
}

void pm_suite_model_destroy(pm_suite_model *s)
{
    if (!s) return;
    make_file_close(s->file);
    make_parts_free(s->parts);
    free(s->path);
    free(s);
}
