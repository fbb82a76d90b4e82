// Shaders that CMake embedded, pipelines by key, the cache file.
#include "exec/vulkan/vk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shader_table.h"

const vk_shader *vk_shader_named(const char *name)
{
    for (size_t i = 0; i < sizeof shader_table / sizeof shader_table[0]; i++)
        if (!strcmp(shader_table[i].name, name)) return &shader_table[i];
    return NULL;
}

// ---- the table of pipelines -------------------------------------------------------------------

typedef struct entry {
    vk_pipeline_key key; // shader NULL: free
    VkPipeline pipeline;
} entry;

struct vk_pipelines {
    os_mutex *lock; // guards the table
    entry *table;   // open addressing, n_slots a power of two, at most half full
    uint32_t n_slots, n_used;
    VkPipelineCache cache;
    _Atomic bool changed; // pipelines were made since the file was read or written
    size_t n_file;        // bytes of data in the file; 0: no good file is there
    char *path;           // NULL: no file is kept
};

static bool same_key(const vk_pipeline_key *a, const vk_pipeline_key *b)
{
    return a->shader == b->shader && a->n_spec == b->n_spec &&
           !memcmp(a->spec, b->spec, a->n_spec * sizeof a->spec[0]);
}

// FNV-1a
static uint64_t hash_bytes(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}
static const uint64_t hash_start = UINT64_C(0xcbf29ce484222325);

static uint64_t hash_key(const vk_pipeline_key *key)
{
    uint64_t h = hash_bytes(hash_start, key->shader->name, strlen(key->shader->name));
    return hash_bytes(h, key->spec, key->n_spec * sizeof key->spec[0]);
}

// The key's entry, or the free one where it belongs.
static entry *find(entry *table, uint32_t n_slots, const vk_pipeline_key *key)
{
    uint32_t i = (uint32_t)hash_key(key) & (n_slots - 1);
    while (table[i].key.shader && !same_key(&table[i].key, key)) i = (i + 1) & (n_slots - 1);
    return &table[i];
}

static bool grow(vk_pipelines *p)
{
    uint32_t n = p->n_slots ? 2 * p->n_slots : 64;
    entry *table = calloc(n, sizeof *table);
    if (!table) return false;
    for (uint32_t i = 0; i < p->n_slots; i++)
        if (p->table[i].key.shader) *find(table, n, &p->table[i].key) = p->table[i];
    free(p->table);
    p->table = table;
    p->n_slots = n;
    return true;
}

// ---- making one -------------------------------------------------------------------------------

static pm_status kernel_failed(vk_device *d, const vk_shader *shader, VkResult result)
{
    char what[120];
    snprintf(what, sizeof what, "kernel '%.80s' cannot be made", shader->name);
    return vk_fail(d, what, result);
}

static pm_status make(vk_device *d, const vk_pipeline_key *key, VkPipeline *out)
{
    const vk_shader *shader = key->shader;
    if (atomic_fetch_add(&d->n_pipelines_made, 1) + 1 == d->options.fail_pipeline)
        return kernel_failed(d, shader, VK_ERROR_UNKNOWN);
    uint32_t *words;
    size_t bytes;
    pm_status status = vk_specialize(key, &words, &bytes);
    if (status != PM_OK) return status;
    VkShaderModuleCreateInfo code = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = bytes,
        .pCode = words,
    };
    VkShaderModule module = VK_NULL_HANDLE;
    VkResult result = vkCreateShaderModule(d->device, &code, NULL, &module);
    free(words);
    if (result != VK_SUCCESS) return kernel_failed(d, shader, result);
    // Kernels count on the size of subgroups that they were specialized for.
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = d->limits.subgroup_size,
    };
    uint32_t workgroup = key->n_spec > 0 ? key->spec[0] : 0;
    bool full = d->features.subgroup_size && workgroup > 0 &&
                workgroup % d->limits.subgroup_size == 0 &&
                workgroup / d->limits.subgroup_size <= d->limits.max_subgroups;
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage =
            {
                .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .pNext = full ? &size : NULL,
                .flags = full ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = module,
                .pName = "main",
            },
        .layout = d->pipeline_layout,
    };
    VkPipeline pipeline = VK_NULL_HANDLE;
    result = vkCreateComputePipelines(d->device, d->pipelines->cache, 1, &info, NULL, &pipeline);
    vkDestroyShaderModule(d->device, module, NULL);
    if (result == VK_SUCCESS && !pipeline) result = VK_ERROR_UNKNOWN; // seen on mobile drivers
    if (result != VK_SUCCESS) {
        if (pipeline) vkDestroyPipeline(d->device, pipeline, NULL);
        return kernel_failed(d, shader, result);
    }
    atomic_store(&d->pipelines->changed, true);
    *out = pipeline;
    return PM_OK;
}

static VkPipeline look_up(vk_pipelines *p, const vk_pipeline_key *key)
{
    os_mutex_lock(p->lock);
    VkPipeline found = p->n_slots ? find(p->table, p->n_slots, key)->pipeline : VK_NULL_HANDLE;
    os_mutex_unlock(p->lock);
    return found;
}

pm_status vk_pipeline_get(vk_device *d, const vk_pipeline_key *key, VkPipeline *out)
{
    vk_pipelines *p = d->pipelines;
    *out = look_up(p, key);
    if (*out) return PM_OK;
    VkPipeline made = VK_NULL_HANDLE;
    pm_status status = vk_alive(d);
    if (status == PM_OK) status = make(d, key, &made);
    if (status != PM_OK) return status;
    // Another thread may have made the same one meanwhile: the first stays.
    os_mutex_lock(p->lock);
    bool room = 2 * (p->n_used + 1) <= p->n_slots || grow(p);
    entry *e = room ? find(p->table, p->n_slots, key) : NULL;
    if (e && !e->key.shader) {
        *e = (entry){*key, made};
        p->n_used++;
    }
    *out = e ? e->pipeline : VK_NULL_HANDLE;
    os_mutex_unlock(p->lock);
    if (*out != made) vkDestroyPipeline(d->device, made, NULL);
    return e ? PM_OK : error_memory("the table of pipelines", 0);
}

// ---- making many ------------------------------------------------------------------------------

enum { MAX_THREADS = 16, MESSAGE_BYTES = 1024 };

typedef struct job {
    vk_device *device;
    const vk_pipeline_key *keys;
    size_t n;
    _Atomic size_t next;
    os_mutex *lock; // guards what follows
    pm_status status;
    char message[MESSAGE_BYTES]; // messages are kept per thread, so it has to be carried over
} job;

static void work(void *arg)
{
    job *j = arg;
    size_t i;
    while ((i = atomic_fetch_add(&j->next, 1)) < j->n) {
        VkPipeline made;
        pm_status status = vk_pipeline_get(j->device, &j->keys[i], &made);
        if (status == PM_OK) continue;
        os_mutex_lock(j->lock);
        if (j->status == PM_OK) {
            j->status = status;
            snprintf(j->message, sizeof j->message, "%s", error_message());
        }
        os_mutex_unlock(j->lock);
        atomic_store(&j->next, j->n); // the others needn't go on
    }
}

pm_status vk_pipelines_make(vk_device *d, const vk_pipeline_key *keys, size_t n)
{
    job j = {.device = d, .keys = keys, .n = n};
    if (!(j.lock = os_mutex_create())) return error_memory("a lock", 0);
    os_thread *threads[MAX_THREADS] = {NULL};
    size_t n_threads = (size_t)os_default_threads();
    if (n_threads > MAX_THREADS) n_threads = MAX_THREADS;
    // This thread works too; those that can't be started aren't needed.
    for (size_t i = 1; i < n_threads && i < n; i++)
        if (os_thread_start(work, &j, &threads[i]) != PM_OK) break;
    work(&j);
    for (size_t i = 1; i < MAX_THREADS; i++) os_thread_join(threads[i]);
    os_mutex_destroy(j.lock);
    return j.status == PM_OK ? PM_OK : error_set(j.status, "%s", j.message);
}

// ---- the cache file ---------------------------------------------------------------------------

// What is written before the driver's data. Every field must be what this device would write.
typedef struct cache_header {
    char magic[8];
    uint32_t version, driver_version, vendor_id, device_id;
    uint8_t device_uuid[VK_UUID_SIZE], cache_uuid[VK_UUID_SIZE];
    uint64_t bytes, checksum; // of the data
} cache_header;
enum { CACHE_VERSION = 1, CACHE_MAX_BYTES = 256 << 20 };

static cache_header header_for(const vk_device *d, const char *data, size_t n)
{
    cache_header h = {
        .magic = "pumiceVK",
        .version = CACHE_VERSION,
        .driver_version = d->properties.driverVersion,
        .vendor_id = d->properties.vendorID,
        .device_id = d->properties.deviceID,
        .bytes = n,
        .checksum = hash_bytes(hash_start, data, n),
    };
    memcpy(h.device_uuid, d->probe.candidate.uuid, VK_UUID_SIZE);
    memcpy(h.cache_uuid, d->properties.pipelineCacheUUID, VK_UUID_SIZE);
    return h;
}

// The data in a cache file; NULL when the file is not exactly what this device wrote.
static const char *checked_data(const vk_device *d, const char *file, size_t n, size_t *n_data)
{
    if (n < sizeof(cache_header)) return NULL;
    const char *data = file + sizeof(cache_header);
    *n_data = n - sizeof(cache_header);
    cache_header want = header_for(d, data, *n_data);
    return memcmp(file, &want, sizeof want) == 0 ? data : NULL;
}

static char *cache_path(const vk_device *d)
{
    const char *folder = d->options.cache_dir;
    char uuid[37];
    vk_uuid_text(d->properties.pipelineCacheUUID, uuid);
    size_t n = strlen(folder) + 100;
    char *path = malloc(n);
    if (path) {
        snprintf(path, n, "%s/vulkan-%08x-%08x-%s.cache", folder, d->properties.vendorID,
                 d->properties.deviceID, uuid);
    }
    return path;
}

static VkResult create_cache(vk_device *d, const char *data, size_t n)
{
    VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
        .initialDataSize = n,
        .pInitialData = data,
    };
    VkResult result = vkCreatePipelineCache(d->device, &info, NULL, &d->pipelines->cache);
    if (result != VK_SUCCESS) d->pipelines->cache = VK_NULL_HANDLE;
    return result;
}

pm_status vk_pipelines_create(vk_device *d)
{
    vk_pipelines *p = calloc(1, sizeof *p);
    if (!p) return error_memory("the table of pipelines", sizeof *p);
    d->pipelines = p;
    if (!(p->lock = os_mutex_create())) return error_memory("a lock", 0);
    char *file = NULL;
    size_t n = 0, n_data = 0;
    const char *data = NULL;
    if (d->options.cache_dir && !(p->path = cache_path(d))) return error_memory("a path", 0);
    if (p->path && os_file_exists(p->path) &&
        os_read_whole(p->path, CACHE_MAX_BYTES, &file, &n) == PM_OK)
        data = checked_data(d, file, n, &n_data);
    if (data) p->n_file = n_data;
    atomic_store(&p->changed, !data); // a bad file is written anew
    VkResult result = create_cache(d, data, data ? n_data : 0);
    if (result != VK_SUCCESS && data) result = create_cache(d, NULL, 0);
    free(file);
    return result == VK_SUCCESS ? PM_OK : vk_fail(d, "a pipeline cache", result);
}

// An unwritable folder costs only time at the next start.
static pm_status write_file(const char *path, const char *folder, const cache_header *header,
                            const char *data, size_t n)
{
    os_writer *w = NULL;
    pm_status status = os_make_directory(folder);
    if (status == PM_OK) status = os_writer_open(path, &w);
    if (status != PM_OK) return status;
    status = os_writer_write(w, header, sizeof *header);
    if (status == PM_OK) status = os_writer_write(w, data, n);
    if (status == PM_OK) return os_writer_commit(w);
    os_writer_abort(w);
    return status;
}

void vk_pipelines_save(vk_device *d)
{
    vk_pipelines *p = d->pipelines;
    if (!p->path || !atomic_exchange(&p->changed, false) || atomic_load(&d->lost)) return;
    size_t n = 0;
    if (vkGetPipelineCacheData(d->device, p->cache, &n, NULL) != VK_SUCCESS || n == 0 ||
        n > CACHE_MAX_BYTES - sizeof(cache_header))
        return;
    // A good file is replaced by a fuller one. Some drivers add a bare header at every start.
    if (p->n_file > 0 && n <= p->n_file + sizeof(VkPipelineCacheHeaderVersionOne)) return;
    char *data = malloc(n), *folder = strdup(p->path);
    if (data && folder && vkGetPipelineCacheData(d->device, p->cache, &n, data) == VK_SUCCESS) {
        *strrchr(folder, '/') = 0;
        cache_header header = header_for(d, data, n);
        if (write_file(p->path, folder, &header, data, n) == PM_OK) p->n_file = n;
    }
    free(data);
    free(folder);
}

void vk_pipelines_destroy(vk_device *d)
{
    vk_pipelines *p = d->pipelines;
    if (!p) return;
    for (uint32_t i = 0; i < p->n_slots; i++)
        if (p->table[i].pipeline) vkDestroyPipeline(d->device, p->table[i].pipeline, NULL);
    if (p->cache) vkDestroyPipelineCache(d->device, p->cache, NULL);
    os_mutex_destroy(p->lock);
    free(p->table);
    free(p->path);
    free(p);
    d->pipelines = NULL;
}
