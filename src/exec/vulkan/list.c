#include "exec/vulkan/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/vulkan/vk.h"

// Room in the heap for weights, before anything of ours lies there.
static uint64_t available(const vk_probe *p)
{
    bool coherent, known;
    int type = vk_choose_memory_type(&p->memory, UINT32_MAX, VK_MEMORY_DEVICE, &coherent);
    if (type < 0 || vk_is_software(&p->candidate)) return UINT64_MAX;
    uint32_t heap = p->memory.memoryTypes[type].heapIndex;
    uint64_t budget = 0, usage = 0;
    if (p->memory_budget) {
        VkPhysicalDeviceMemoryBudgetPropertiesEXT budgets = {
            .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
        VkPhysicalDeviceMemoryProperties2 all = {
            .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, .pNext = &budgets};
        vkGetPhysicalDeviceMemoryProperties2(p->physical, &all);
        budget = budgets.heapBudget[heap];
        usage = budgets.heapUsage[heap];
    }
    return vk_heap_room(p->memory.memoryHeaps[heap].size, budget, usage, 0, &known);
}

static void describe(const vk_probe *p, uint32_t rank, exec_device *d)
{
    *d = (exec_device){.software = vk_is_software(&p->candidate),
                       .memory = p->candidate.local_bytes,
                       .available = available(p),
                       .max_alloc = p->max_alloc,
                       .max_binding = p->properties.limits.maxStorageBufferRange};
    snprintf(d->id, sizeof d->id, "vulkan:%u", rank);
    memcpy(d->title, p->title, sizeof d->title);
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
    (void)options;
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
        free(*list);
        *list = NULL;
        goto done;
    }
    *n = vk_rank(candidates, n_probes, order);
    for (uint32_t i = 0; i < *n; i++) describe(&probes[order[i]], i, &(*list)[i]);
done:
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
    uint32_t n, chosen = 0, *order = NULL;
    pm_status status = probe(&instance, &probes, &candidates, &n);
    if (status == PM_OK)
        status = vk_select(candidates, n, options ? options->selector : NULL, &chosen);
    if (status == PM_OK && !(order = calloc(n, sizeof *order)))
        status = error_memory("the list of devices", n);
    if (status == PM_OK) {
        uint32_t n_ranked = vk_rank(candidates, n, order), rank = 0;
        while (rank < n_ranked && order[rank] != chosen) rank++;
        describe(&probes[chosen], rank, out);
    }
    free(order);
    free(candidates);
    free(probes);
    vk_instance_destroy(instance);
    return status;
}
