// What commands read: models, files, token ids, lines of JSON.
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/cli.h"

// The library keeps no files unless it is told where; the program has the usual folder.
static void default_cache_dir(const cli_args *args)
{
    if (pm_options_is_set(args->options, "cache-dir")) return;
    char *folder = cache_folder();
    // A folder whose name is no text, or none at all: compiled kernels are not kept.
    if (folder) (void)pm_options_set(args->options, "cache-dir", folder);
    free(folder);
}

static pm_status open_model(const cli_args *args, const char *word, loaded *l)
{
    const char *option = args_get(args, "model");
    pm_status status = model_path(option ? option : word, &l->path);
    default_cache_dir(args);
    if (status == PM_OK) status = pm_model_open(l->path, args->options, &l->model);
    if (status != PM_OK) return status;
    for (size_t k = 0; k < pm_model_n_warnings(l->model) && !args->quiet; k++)
        say_warning("%s", pm_model_warning(l->model, k));
    return PM_OK;
}

pm_status loaded_model(const cli_args *args, const char *word, loaded *l)
{
    pm_status status = open_model(args, word, l);
    if (status != PM_OK || !say_wanted(args)) return status;
    if (pm_model_device_note(l->model)[0]) say("%s", pm_model_device_note(l->model));
    say("%s: %s on %s, loaded in %.2f s", l->path, pm_model_architecture(l->model),
        pm_model_device_description(l->model), pm_model_load_seconds(l->model));
    return status;
}

pm_status loaded_vocabulary(const cli_args *args, const char *word, loaded *l)
{
    pm_status status = pm_options_set(args->options, "vocab-only", "true");
    return status == PM_OK ? open_model(args, word, l) : status;
}

void device_warnings(const cli_args *args, const loaded *l)
{
    const char *text;
    for (size_t k = 0; l->model && (text = pm_model_device_warning(l->model, k)) != NULL; k++)
        if (!args->quiet) say_warning("%s", text);
}

pm_status loaded_session(const cli_args *args, loaded *l)
{
    if (say_wanted(args)) {
        int32_t n_ctx;
        uint64_t kv_bytes;
        pm_status status = pm_session_size(l->model, args->options, &n_ctx, &kv_bytes);
        if (status != PM_OK) return status;
        say("KV cache: %s for a context of %d tokens", show_mib(kv_bytes), (int)n_ctx);
    }
    pm_status status = pm_session_create(l->model, args->options, &l->session);
    if (status != PM_OK) return status;
    device_warnings(args, l);
    const char *text = pm_session_prepared(l->session);
    if (args->verbose && !args->quiet && *text) say("%s", text);
    return PM_OK;
}

void loaded_free(loaded *l)
{
    pm_session_destroy(l->session);
    pm_model_close(l->model);
    free(l->path);
    *l = (loaded){0};
}

pm_status read_input(const char *path, char **data, size_t *n)
{
    return os_read_whole(path, UINT64_C(1) << 30, data, n);
}

pm_status parse_ids(const char *text, int32_t **ids, size_t *n)
{
    size_t cap = strlen(text) / 2 + 1, count = 0;
    int32_t *list = malloc(cap * sizeof *list);
    if (!list) return error_memory("the token ids", cap * sizeof *list);
    for (const char *at = text;;) {
        at += strspn(at, " \t\r\n,[]");
        if (!*at) break;
        char *end;
        errno = 0;
        long value = strtol(at, &end, 10);
        if (end == at || errno || value < 0 || value > INT32_MAX ||
            (*end && !strchr(" \t\r\n,]", *end))) {
            pm_status status = error_set(PM_ERROR_USAGE,
                                         "'%.*s' is not a token id (ids are whole "
                                         "numbers: 1,2,3)",
                                         (int)strcspn(at, " \t\r\n,[]"), at);
            free(list);
            return status;
        }
        list[count++] = (int32_t)value;
        at = end;
    }
    *ids = list;
    *n = count;
    return PM_OK;
}

pm_status each_line(const char *path, pm_status (*answer)(void *context, const char *, size_t),
                    void *context)
{
    char *data = NULL;
    size_t n = 0;
    pm_status status = read_input(path, &data, &n);
    for (size_t at = 0; status == PM_OK && at < n;) {
        const char *line = data + at, *end = memchr(line, '\n', n - at);
        size_t length = end ? (size_t)(end - line) : n - at;
        at += length + 1;
        while (length && isspace((unsigned char)line[length - 1])) length--;
        if (length) status = answer(context, line, length);
    }
    free(data);
    return status;
}
