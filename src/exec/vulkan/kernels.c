// What is known of the kernels on a device: which can't be used, which have passed the self-test;
// remarks for users.
#include "exec/vulkan/vk.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { MAX_BAD = 64, MAX_WARNINGS = 2 * MAX_BAD };

typedef struct bad_shader {
    const vk_shader *shader;
    char why[80];
} bad_shader;

struct vk_kernels {
    os_mutex *lock; // guards everything here
    bad_shader bad[MAX_BAD];
    uint32_t n_bad, n_told, n_warnings; // n_told: of the bad ones, those with a warning
    char *warnings[MAX_WARNINGS];
    uint64_t build;   // what this program's kernels are
    uint64_t *tested; // keys by their hashes
    size_t n_tested, cap_tested;
    bool changed; // since the file was read or written
};

// The file: the build, then the hashes of what passed in that build.
static void read_tested(vk_device *d)
{
    vk_kernels *k = d->kernels;
    size_t n = 0;
    char *data = vk_cache_read(d, "tested", &n);
    if (data && n >= sizeof k->build && n % sizeof *k->tested == 0 &&
        !memcmp(data, &k->build, sizeof k->build) && (k->tested = malloc(n)) != NULL) {
        k->n_tested = n / sizeof *k->tested - 1;
        k->cap_tested = k->n_tested + 1;
        memcpy(k->tested, data + sizeof k->build, k->n_tested * sizeof *k->tested);
    }
    free(data);
}

pm_status vk_kernels_create(vk_device *d)
{
    vk_kernels *k = calloc(1, sizeof *k);
    if (!k) return error_memory("the state of kernels", sizeof *k);
    d->kernels = k;
    if (!(k->lock = os_mutex_create())) return error_memory("a lock", 0);
    k->build = hash_bytes(vk_shaders_hash(), PUMICE_VERSION, strlen(PUMICE_VERSION));
    read_tested(d);
    return PM_OK;
}

void vk_kernels_destroy(vk_device *d)
{
    vk_kernels *k = d->kernels;
    if (!k) return;
    for (uint32_t i = 0; i < k->n_warnings; i++) free(k->warnings[i]);
    os_mutex_destroy(k->lock);
    free(k->tested);
    free(k);
    d->kernels = NULL;
}

// ---- kernels that passed the self-test --------------------------------------------------------

// All that a result can depend on, the driver and its device aside.
static uint64_t key_hash(const vk_device *d, const vk_pipeline_key *key)
{
    uint32_t size = d->features.subgroup_size ? d->limits.subgroup_size : 0;
    uint64_t h = hash_bytes(0, key->shader->name, strlen(key->shader->name));
    h = hash_bytes(h, key->spec, key->n_spec * sizeof key->spec[0]);
    return hash_bytes(h, &size, sizeof size);
}

static bool has_hash(const vk_kernels *k, uint64_t hash)
{
    for (size_t i = 0; i < k->n_tested; i++)
        if (k->tested[i] == hash) return true;
    return false;
}

bool vk_is_tested(vk_device *d, const vk_pipeline_key *key)
{
    os_mutex_lock(d->kernels->lock);
    bool tested = has_hash(d->kernels, key_hash(d, key));
    os_mutex_unlock(d->kernels->lock);
    return tested;
}

void vk_set_tested(vk_device *d, const vk_pipeline_key *key)
{
    vk_kernels *k = d->kernels;
    uint64_t hash = key_hash(d, key);
    os_mutex_lock(k->lock);
    if (!has_hash(k, hash)) {
        if (k->n_tested == k->cap_tested) {
            size_t cap = k->cap_tested ? 2 * k->cap_tested : 64;
            uint64_t *more = realloc(k->tested, cap * sizeof *more);
            if (more) {
                k->tested = more;
                k->cap_tested = cap;
            }
        }
        // Without memory it is tested once more.
        if (k->n_tested < k->cap_tested) k->tested[k->n_tested++] = hash;
        k->changed = true;
    }
    os_mutex_unlock(k->lock);
}

void vk_kernels_save(vk_device *d)
{
    vk_kernels *k = d->kernels;
    os_mutex_lock(k->lock);
    uint64_t *data = k->changed && d->cache_dir ? malloc((k->n_tested + 1) * sizeof *data) : NULL;
    if (data) {
        data[0] = k->build;
        memcpy(data + 1, k->tested, k->n_tested * sizeof *data);
        vk_cache_write(d, "tested", data, (k->n_tested + 1) * sizeof *data);
        k->changed = false;
    }
    os_mutex_unlock(k->lock);
    free(data);
}

// ---- kernels that can't be used ---------------------------------------------------------------

// Called with the lock held, as all of this.
static const bad_shader *find_bad(const vk_kernels *k, const vk_shader *shader)
{
    for (uint32_t i = 0; i < k->n_bad; i++)
        if (k->bad[i].shader == shader) return &k->bad[i];
    return NULL;
}

void vk_mark_bad(vk_device *d, const vk_shader *shader, const char *why)
{
    vk_kernels *k = d->kernels;
    os_mutex_lock(k->lock);
    if (k->n_bad < MAX_BAD && !find_bad(k, shader)) {
        bad_shader *bad = &k->bad[k->n_bad++];
        bad->shader = shader;
        snprintf(bad->why, sizeof bad->why, "%s", why);
    }
    os_mutex_unlock(k->lock);
}

bool vk_shader_is_bad(vk_device *d, const vk_shader *shader)
{
    os_mutex_lock(d->kernels->lock);
    bool is_bad = find_bad(d->kernels, shader) != NULL;
    os_mutex_unlock(d->kernels->lock);
    return is_bad;
}

uint32_t vk_n_bad(vk_device *d)
{
    os_mutex_lock(d->kernels->lock);
    uint32_t n = d->kernels->n_bad;
    os_mutex_unlock(d->kernels->lock);
    return n;
}

pm_status vk_bad_shader(vk_device *d, const vk_shader *shader)
{
    char why[sizeof((bad_shader *)0)->why];
    os_mutex_lock(d->kernels->lock);
    const bad_shader *bad = find_bad(d->kernels, shader);
    snprintf(why, sizeof why, "%s", bad ? bad->why : "cannot be used");
    os_mutex_unlock(d->kernels->lock);
    return error_set(PM_ERROR_DEVICE, "%s: kernel '%s' %s, and there is no simpler one", d->title,
                     shader->name, why);
}

// ---- remarks ----------------------------------------------------------------------------------

static void add_warning(vk_kernels *k, const char *format, ...) PRINTF_LIKE(2, 3);

static void add_warning(vk_kernels *k, const char *format, ...)
{
    char text[640];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (k->n_warnings < MAX_WARNINGS && (k->warnings[k->n_warnings] = strdup(text)) != NULL)
        k->n_warnings++;
}

void vk_warn_of_bad(vk_device *d)
{
    vk_kernels *k = d->kernels;
    os_mutex_lock(k->lock);
    for (; k->n_told < k->n_bad; k->n_told++)
        add_warning(k, "%s: kernel '%s' %s: a simpler one takes its place", d->title,
                    k->bad[k->n_told].shader->name, k->bad[k->n_told].why);
    os_mutex_unlock(k->lock);
}

const char *vk_warning(vk_device *d, uint32_t i)
{
    vk_kernels *k = d->kernels;
    os_mutex_lock(k->lock);
    const char *text = i < k->n_warnings ? k->warnings[i] : NULL;
    os_mutex_unlock(k->lock);
    return text;
}
