// Which file MODEL means.
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/cli.h"

// A variable that is set and not empty.
static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

// FOLDER/NAME, to be released with free; NULL when memory runs out.
static char *joined(const char *folder, const char *name, const char *suffix)
{
    buf path = {0};
    char *text = NULL;
    buf_printf(&path, "%s/%s%s", folder, name, suffix);
    if (buf_take(&path, &text, NULL) != PM_OK) return NULL;
    return text;
}

enum { N_FOLDERS = 2 };

// The model folders; NULL where HOME is not known.
static void model_folders(char *folders[N_FOLDERS])
{
    const char *home = environment("HOME"), *data = environment("XDG_DATA_HOME");
    folders[0] = home ? joined(home, ".agents/models", "") : NULL;
    folders[1] = data   ? joined(data, "pumice/models", "")
                 : home ? joined(home, ".local/share/pumice/models", "")
                        : NULL;
}

char *cache_folder(void)
{
    const char *home = environment("HOME"), *cache = environment("XDG_CACHE_HOME");
    // The XDG specification: a relative path is to be ignored.
    if (cache && *cache == '/') return joined(cache, "pumice", "");
    return home ? joined(home, ".cache/pumice", "") : NULL;
}

static void free_folders(char *folders[N_FOLDERS])
{
    for (int k = 0; k < N_FOLDERS; k++) free(folders[k]);
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

// Takes *path over when a file is there, else releases it.
static char *if_file(char *path)
{
    if (path && os_file_exists(path)) return path;
    free(path);
    return NULL;
}

// NAME or NAME.gguf in a model folder; NULL: in none.
static char *named_model(const char *name)
{
    char *folders[N_FOLDERS], *path = NULL;
    if (!*name || strchr(name, '/')) return NULL;
    model_folders(folders);
    for (int k = 0; k < N_FOLDERS && !path; k++) {
        if (!folders[k]) continue;
        path = if_file(joined(folders[k], name, ""));
        if (!path) path = if_file(joined(folders[k], name, ".gguf"));
    }
    free_folders(folders);
    return path;
}

bool model_exists(const char *word)
{
    char *named = named_model(word);
    bool found = named || os_file_exists(word);
    free(named);
    return found;
}

static pm_status copy(const char *text, char **out)
{
    *out = strdup(text);
    return *out ? PM_OK : error_memory("a path", strlen(text));
}

static pm_status given_model(const char *word, char **path)
{
    if (!*word) return error_set(PM_ERROR_USAGE, "MODEL is empty (give a file, or leave it out)");
    if (os_file_exists(word)) return copy(word, path);
    *path = named_model(word);
    if (*path) return PM_OK;
    if (os_is_directory(word))
        return error_set(PM_ERROR_FILE, "%s: is a directory, not a model file", word);
    if (strchr(word, '/')) return error_set(PM_ERROR_FILE, "%s: no such file", word);
    char *folders[N_FOLDERS];
    model_folders(folders);
    error_set(
        PM_ERROR_FILE,
        "%s: no such file, and no model of that name in %s or %s ('tools/quickstart' brings one)",
        word, folders[0] ? folders[0] : "~/.agents/models (HOME is not set)",
        folders[1] ? folders[1] : "~/.local/share/pumice/models (HOME is not set)");
    free_folders(folders);
    return PM_ERROR_FILE;
}

// The models of a folder; the later parts of a split file don't count.
typedef struct folder_models {
    char *first;
    size_t n;
} folder_models;

static bool is_later_part(const char *name)
{
    // NAME-00002-of-00005.gguf
    size_t n = strlen(name), tail = strlen("-00002-of-00005.gguf");
    if (n < tail) return false;
    const char *at = name + n - tail;
    if (at[0] != '-' || strncmp(at + 6, "-of-", 4) != 0) return false;
    if (strspn(at + 1, "0123456789") != 5 || strspn(at + 10, "0123456789") != 5) return false;
    return strncmp(at + 1, "00001", 5) != 0;
}

static void visit_model(void *arg, const char *name)
{
    folder_models *models = arg;
    if (!ends_with(name, ".gguf") || is_later_part(name)) return;
    if (models->n++ == 0) models->first = strdup(name);
}

// The only model of a folder, or NULL with the reason added to `looked`.
static char *only_model(const char *folder, buf *looked)
{
    folder_models models = {0};
    char *path = NULL;
    if (os_list_directory(folder, visit_model, &models) != PM_OK)
        buf_printf(looked, ", %s (cannot be read)", folder);
    else if (models.n == 0)
        buf_printf(looked, ", %s (no .gguf)", folder);
    else if (models.n > 1)
        buf_printf(looked, ", %s (%zu models: which?)", folder, models.n);
    else if (models.first)
        path = joined(folder, models.first, "");
    free(models.first);
    return path;
}

// default.gguf, the only model of the first folder, or of the second.
static char *model_in_folders(buf *looked)
{
    char *folders[N_FOLDERS], *path = NULL;
    model_folders(folders);
    if (folders[0]) {
        path = if_file(joined(folders[0], "default.gguf", ""));
        if (!path) buf_printf(looked, ", %s/default.gguf (missing)", folders[0]);
        if (!path) path = only_model(folders[0], looked);
    } else {
        buf_str(looked, ", ~/.agents/models (HOME is not set)");
    }
    if (!path && folders[1]) path = only_model(folders[1], looked);
    free_folders(folders);
    return path;
}

static pm_status default_model(char **path)
{
    const char *own = environment("PUMICE_MODEL"), *elelem = environment("ELELEM_GGUF_MODEL");
    if (own) return error_in(given_model(own, path), "PUMICE_MODEL");
    if (elelem) return error_in(given_model(elelem, path), "ELELEM_GGUF_MODEL");
    buf looked = {0};
    buf_str(&looked, "PUMICE_MODEL (not set), ELELEM_GGUF_MODEL (not set)");
    *path = model_in_folders(&looked);
    pm_status status = PM_OK;
    if (!*path)
        status = error_set(PM_ERROR_FILE,
                           "no MODEL given, looked at %s (name a file, or bring one with "
                           "'tools/quickstart')",
                           looked.failed ? "..." : looked.data);
    buf_free(&looked);
    return status;
}

pm_status model_path(const char *word, char **path)
{
    *path = NULL;
    return word ? given_model(word, path) : default_model(path);
}
