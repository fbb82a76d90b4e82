#include "exec/vulkan/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/vulkan/vk.h"

// Room in the heap for weights, before anything of ours lies there.
static uint64_t available(const vk_probe *p, const vk_features *features)
{
    bool coherent, known;
    int type = vk_choose_memory_type(&p->memory, UINT32_MAX, VK_MEMORY_DEVICE, &coherent);
    if (type < 0 || vk_is_software(&p->candidate)) return UINT64_MAX;
    return vk_room_now(p->physical, features->memory_budget, p->memory.memoryTypes[type].heapIndex,
                       p->memory.memoryHeaps, 0, &known);
}

static void add_limit(exec_device *d, const char *name, uint64_t value)
{
    d->limits[d->n_limits++] = (exec_device_value){name, value};
}

static void describe_limits(const vk_probe *p, const vk_limits *l, exec_device *d)
{
    add_limit(d, "max_alloc", l->max_alloc);
    add_limit(d, "max_binding", l->max_binding);
    add_limit(d, "storage_align", l->storage_align);
    add_limit(d, "max_groups", l->max_groups[0]);
    add_limit(d, "max_invocations", l->max_invocations);
    add_limit(d, "max_shared_memory", l->max_shared);
    add_limit(d, "push_constant_bytes", VK_PUSH_BYTES);
    add_limit(d, "subgroup_size", l->subgroup_size);
    add_limit(d, "subgroup_size_min", p->subgroup_min);
    add_limit(d, "subgroup_size_max", p->subgroup_max);
}

static pm_status describe(const vk_probe *p, const exec_gpu *options, uint32_t rank, exec_device *d)
{
    const vk_candidate *c = &p->candidate;
    vk_features found = vk_features_found(p), used;
    vk_limits limits;
    pm_status status = vk_features_used(p, options, &used);
    if (status == PM_OK) status = vk_limits_used(p, options, &used, &limits);
    if (status != PM_OK) return status;
    *d = (exec_device){
        .software = vk_is_software(c),
        .memory = c->local_bytes,
        .available = available(p, &used),
        .max_alloc = limits.max_alloc,
        .max_binding = limits.max_binding,
        .type = vk_type_name(c->type),
        .vendor_id = c->vendor_id,
        .device_id = c->device_id,
        .n_heaps = p->memory.memoryHeapCount,
    };
    snprintf(d->id, sizeof d->id, "vulkan:%u", rank);
    memcpy(d->title, p->title, sizeof d->title);
    memcpy(d->name, c->name, sizeof d->name);
    memcpy(d->driver, p->driver, sizeof d->driver);
    memcpy(d->driver_version, p->driver_version, sizeof d->driver_version);
    snprintf(d->api_version, sizeof d->api_version, "%u.%u.%u",
             VK_API_VERSION_MAJOR(c->api_version), VK_API_VERSION_MINOR(c->api_version),
             VK_API_VERSION_PATCH(c->api_version));
    vk_uuid_text(c->uuid, d->uuid);
    if (c->has_pci)
        snprintf(d->pci, sizeof d->pci, "%04x:%02x:%02x.%x", c->pci[0] & 0xffff, c->pci[1] & 0xff,
                 c->pci[2] & 0xff, c->pci[3] & 0xf);
    for (uint32_t i = 0; i < d->n_heaps; i++) {
        const VkMemoryHeap *heap = &p->memory.memoryHeaps[i];
        d->heaps[i] =
            (exec_device_heap){heap->size, (heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0};
    }
    describe_limits(p, &limits, d);
    for (uint32_t i = 0; vk_feature_name(i); i++)
        d->features[d->n_features++] = (exec_device_feature){
            vk_feature_name(i), vk_feature_value(&found, i), vk_feature_value(&used, i)};
    return PM_OK;
}

// The probes of an instance with their candidates; all three are released by the caller.
static pm_status probe(VkInstance *instance, vk_probe **probes, vk_candidate **candidates,
                       uint32_t *n)
{
    *instance = VK_NULL_HANDLE;
    *probes = NULL;
    *candidates = NULL;
    *n = 0;
    pm_status status = vk_instance_create(instance);
    if (status == PM_OK) status = vk_probe_all(*instance, probes, n);
    if (status != PM_OK) return status;
    *candidates = calloc(*n + (size_t)1, sizeof **candidates);
    if (!*candidates) return error_memory("the list of devices", *n);
    for (uint32_t i = 0; i < *n; i++) (*candidates)[i] = (*probes)[i].candidate;
    return PM_OK;
}

pm_status vk_list(const exec_gpu *options, exec_device **list, size_t *n, const char **why)
{
    const exec_gpu defaults = {0};
    VkInstance instance;
    vk_probe *probes;
    vk_candidate *candidates;
    uint32_t n_probes, *order = NULL;
    if (why) *why = "no Vulkan device";
    pm_status status = probe(&instance, &probes, &candidates, &n_probes);
    if (status == PM_ERROR_DEVICE) { // no loader, no driver: there are none
        if (why) *why = "no Vulkan loader or driver";
        status = PM_OK;
        goto done;
    }
    if (status != PM_OK) goto done;
    order = calloc(n_probes + (size_t)1, sizeof *order);
    *list = calloc(n_probes + (size_t)1, sizeof **list);
    if (!order || !*list) {
        status = error_memory("the list of devices", n_probes);
        goto done;
    }
    *n = vk_rank(candidates, n_probes, order);
    for (uint32_t i = 0; i < *n && status == PM_OK; i++)
        status = describe(&probes[order[i]], options ? options : &defaults, i, &(*list)[i]);
done:
    if (status != PM_OK || *n == 0) {
        free(*list);
        *list = NULL;
        *n = 0;
    }
    free(order);
    free(candidates);
    free(probes);
    vk_instance_destroy(instance);
    return status;
}

pm_status vk_find(const exec_gpu *options, exec_device *out)
{
    VkInstance instance;
    vk_probe *probes;
    vk_candidate *candidates;
    const exec_gpu defaults = {0};
    uint32_t n, chosen = 0, *order = NULL;
    if (!options) options = &defaults;
    pm_status status = probe(&instance, &probes, &candidates, &n);
    if (status == PM_OK) status = vk_select(candidates, n, options->selector, &chosen);
    if (status == PM_OK && !(order = calloc(n, sizeof *order)))
        status = error_memory("the list of devices", n);
    if (status == PM_OK) {
        uint32_t n_ranked = vk_rank(candidates, n, order), rank = 0;
        while (rank < n_ranked && order[rank] != chosen) rank++;
        status = describe(&probes[chosen], options, rank, out);
    }
    free(order);
    free(candidates);
    free(probes);
    vk_instance_destroy(instance);
    return status;
}
