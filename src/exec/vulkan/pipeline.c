// Shaders that CMake embedded, pipelines by key, the cache file.
#include "exec/vulkan/vk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#include "shader_table.h"

static _Atomic uint32_t shader_uses[sizeof shader_table / sizeof shader_table[0]];

uint32_t vk_shader_uses(const vk_shader *shader)
{
    return atomic_load(&shader_uses[shader - shader_table]);
}

const vk_shader *vk_shader_named(const char *name)
{
    for (size_t i = 0; i < sizeof shader_table / sizeof shader_table[0]; i++)
        if (!strcmp(shader_table[i].name, name)) return &shader_table[i];
    return NULL;
}

const vk_shader *vk_shader_at(size_t i)
{
    return i < sizeof shader_table / sizeof shader_table[0] ? &shader_table[i] : NULL;
}

uint64_t vk_shaders_hash(void)
{
    uint64_t h = 0;
    for (size_t i = 0; i < sizeof shader_table / sizeof shader_table[0]; i++)
        h = hash_bytes(h, shader_table[i].code, shader_table[i].bytes);
    return h;
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
};

static bool same_key(const vk_pipeline_key *a, const vk_pipeline_key *b)
{
    return a->shader == b->shader && a->n_spec == b->n_spec &&
           !memcmp(a->spec, b->spec, a->n_spec * sizeof a->spec[0]);
}

static uint64_t hash_key(const vk_pipeline_key *key)
{
    uint64_t h = hash_bytes(0, key->shader->name, strlen(key->shader->name));
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
    char what[120], why[80];
    snprintf(why, sizeof why, "cannot be made: %s", vk_result_name(result));
    if (result != VK_ERROR_DEVICE_LOST) vk_mark_bad(d, shader, why);
    snprintf(what, sizeof what, "kernel '%.80s' cannot be made", shader->name);
    return vk_fail(d, what, result);
}

// For tests of the self-test: right instructions for another computation. Sums become differences,
// products sums, "greater" becomes "less" (of unsigned numbers: loops that count down end at once).
static void spoil(uint32_t *code, size_t n_words)
{
    enum { HEADER = 5, F_ADD = 129, F_SUB = 131, F_MUL = 133, U_GREATER = 172, U_LESS = 176 };
    for (size_t i = HEADER; i < n_words; i += code[i] >> 16) {
        uint32_t op = code[i] & 0xffff, other = op;
        if (op == F_ADD) other = F_SUB;
        if (op == F_MUL) other = F_ADD;
        if (op == U_GREATER) other = U_LESS;
        code[i] = (code[i] & 0xffff0000u) | other;
    }
}

// Does the module declare the capability GroupNonUniform? Capabilities come first. Variants _one
// count on subgroups too, with a barrier that needs no capability.
static bool has_subgroups(const vk_shader *shader)
{
    enum { HEADER = 5, OP_CAPABILITY = 17, GROUP_NON_UNIFORM = 61 };
    const uint32_t *code = shader->code;
    for (size_t i = HEADER; (code[i] & 0xffff) == OP_CAPABILITY; i += code[i] >> 16)
        if (code[i + 1] == GROUP_NON_UNIFORM) return true;
    return strstr(shader->name, "_one") != NULL;
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
    if (!strcmp(d->wrong_kernel, shader->name)) spoil(words, bytes / sizeof *words);
    VkShaderModuleCreateInfo code = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = bytes,
        .pCode = words,
    };
    VkShaderModule module = VK_NULL_HANDLE;
    VkResult result = vkCreateShaderModule(d->device, &code, NULL, &module);
    free(words);
    if (result != VK_SUCCESS) return kernel_failed(d, shader, result);
    // Kernels count on the size of subgroups that they were specialized for. Those without subgroup
    // operations leave it to the driver, which may know of one that spills fewer registers.
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = d->limits.subgroup_size,
    };
    uint32_t workgroup = key->n_spec > 0 ? key->spec[0] : 0;
    bool full = d->features.subgroup_size && has_subgroups(shader) && workgroup > 0 &&
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
    atomic_fetch_add(&shader_uses[shader - shader_table], 1);
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

pm_status vk_keys_add(vk_keys *list, const vk_pipeline_key *key)
{
    for (size_t i = 0; i < list->n; i++)
        if (same_key(&list->keys[i], key)) return PM_OK;
    if (list->n == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 32;
        vk_pipeline_key *more = realloc(list->keys, cap * sizeof *more);
        if (!more) return error_memory("a list of kernels", cap * sizeof *more);
        list->keys = more;
        list->cap = cap;
    }
    list->keys[list->n++] = *key;
    return PM_OK;
}

typedef struct job {
    vk_device *device;
    const vk_pipeline_key *keys;
    size_t n;
    _Atomic size_t next, n_made;
    os_mutex *lock; // guards what follows
    pm_status status;
    char message[MESSAGE_BYTES]; // messages are kept per thread, so it has to be carried over
} job;

static void work(void *arg)
{
    job *j = arg;
    size_t i;
    while ((i = atomic_fetch_add(&j->next, 1)) < j->n) {
        if (look_up(j->device->pipelines, &j->keys[i])) continue;
        VkPipeline made;
        pm_status status = vk_pipeline_get(j->device, &j->keys[i], &made);
        if (status == PM_OK) atomic_fetch_add(&j->n_made, 1);
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

pm_status vk_pipelines_make(vk_device *d, const vk_keys *list, size_t *n_made)
{
    size_t n = list->n;
    job j = {.device = d, .keys = list->keys, .n = n};
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
    if (n_made) *n_made = atomic_load(&j.n_made);
    return j.status == PM_OK ? PM_OK : error_set(j.status, "%s", j.message);
}

// ---- the cache file ---------------------------------------------------------------------------

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
    size_t n = 0;
    char *data = vk_cache_read(d, "cache", &n);
    if (data) p->n_file = n;
    atomic_store(&p->changed, !data); // a bad file is written anew
    VkResult result = create_cache(d, data, n);
    if (result != VK_SUCCESS && data) result = create_cache(d, NULL, 0);
    free(data);
    return result == VK_SUCCESS ? PM_OK : vk_fail(d, "a pipeline cache", result);
}

void vk_pipelines_save(vk_device *d)
{
    vk_pipelines *p = d->pipelines;
    if (!p || !d->cache_dir || !atomic_exchange(&p->changed, false) || atomic_load(&d->lost))
        return;
    size_t n = 0;
    if (vkGetPipelineCacheData(d->device, p->cache, &n, NULL) != VK_SUCCESS || n == 0) return;
    // A good file is replaced by a fuller one. Some drivers add a bare header at every start.
    if (p->n_file > 0 && n <= p->n_file + sizeof(VkPipelineCacheHeaderVersionOne)) return;
    char *data = malloc(n);
    if (data && vkGetPipelineCacheData(d->device, p->cache, &n, data) == VK_SUCCESS &&
        vk_cache_write(d, "cache", data, n))
        p->n_file = n;
    free(data);
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
    free(p);
    d->pipelines = NULL;
}
