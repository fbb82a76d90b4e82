// Opening and closing a device, submissions, faults.
#include "exec/vulkan/vk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *vk_result_name(VkResult result)
{
    switch (result) {
    case VK_SUCCESS: return "VK_SUCCESS";
    case VK_NOT_READY: return "VK_NOT_READY";
    case VK_TIMEOUT: return "VK_TIMEOUT";
    case VK_INCOMPLETE: return "VK_INCOMPLETE";
    case VK_ERROR_OUT_OF_HOST_MEMORY: return "VK_ERROR_OUT_OF_HOST_MEMORY";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
    case VK_ERROR_INITIALIZATION_FAILED: return "VK_ERROR_INITIALIZATION_FAILED";
    case VK_ERROR_DEVICE_LOST: return "VK_ERROR_DEVICE_LOST";
    case VK_ERROR_MEMORY_MAP_FAILED: return "VK_ERROR_MEMORY_MAP_FAILED";
    case VK_ERROR_LAYER_NOT_PRESENT: return "VK_ERROR_LAYER_NOT_PRESENT";
    case VK_ERROR_EXTENSION_NOT_PRESENT: return "VK_ERROR_EXTENSION_NOT_PRESENT";
    case VK_ERROR_FEATURE_NOT_PRESENT: return "VK_ERROR_FEATURE_NOT_PRESENT";
    case VK_ERROR_INCOMPATIBLE_DRIVER: return "VK_ERROR_INCOMPATIBLE_DRIVER";
    case VK_ERROR_TOO_MANY_OBJECTS: return "VK_ERROR_TOO_MANY_OBJECTS";
    case VK_ERROR_FRAGMENTED_POOL: return "VK_ERROR_FRAGMENTED_POOL";
    case VK_ERROR_OUT_OF_POOL_MEMORY: return "VK_ERROR_OUT_OF_POOL_MEMORY";
    case VK_ERROR_UNKNOWN: return "VK_ERROR_UNKNOWN";
    default: return "an unknown error";
    }
}

pm_status vk_fail(vk_device *d, const char *what, VkResult result)
{
    if (result == VK_ERROR_DEVICE_LOST) atomic_store(&d->lost, true);
    return error_set(PM_ERROR_DEVICE, "%s: %s: %s", d->title, what, vk_result_name(result));
}

pm_status vk_alive(vk_device *d)
{
    if (!atomic_load(&d->lost)) return PM_OK;
    return error_set(PM_ERROR_DEVICE, "%s: the device was lost (start again)", d->title);
}

pm_status vk_queue_submit(vk_device *d, const VkSubmitInfo *submit, VkFence fence)
{
    pm_status status = vk_alive(d);
    if (status != PM_OK) return status;
    bool lose = atomic_fetch_add(&d->n_submits, 1) + 1 == d->options.lose_at_submit;
    os_mutex_lock(d->lock);
    VkResult result = VK_ERROR_DEVICE_LOST;
    if (!lose) result = vkQueueSubmit(d->queue, 1, submit, fence);
    // Callers free what earlier submissions use: a lost device runs nothing any more, one that
    // only had no memory might.
    if (result != VK_SUCCESS) vkDeviceWaitIdle(d->device);
    os_mutex_unlock(d->lock);
    return result == VK_SUCCESS ? PM_OK : vk_fail(d, "a submission", result);
}

pm_status vk_fence_wait(vk_device *d, VkFence fence, const char *what)
{
    pm_status status = vk_alive(d);
    if (status != PM_OK) return status;
    VkResult result = vkWaitForFences(d->device, 1, &fence, VK_TRUE, UINT64_MAX);
    return result == VK_SUCCESS ? PM_OK : vk_fail(d, what, result);
}

void vk_barrier(vk_device *d, VkCommandBuffer c, VkPipelineStageFlags src_stage,
                VkAccessFlags src_access, VkPipelineStageFlags dst_stage, VkAccessFlags dst_access)
{
    if (atomic_fetch_add(&d->n_barriers, 1) + 1 == d->options.skip_barrier) return;
    VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = src_access,
        .dstAccessMask = dst_access,
    };
    vkCmdPipelineBarrier(c, src_stage, dst_stage, 0, 1, &barrier, 0, NULL, 0, NULL);
}

static pm_status choose(vk_device *d)
{
    vk_probe *probes = NULL;
    vk_candidate *table = NULL;
    uint32_t n = 0, chosen = 0;
    pm_status status = vk_probe_all(d->instance, &probes, &n);
    if (status != PM_OK) goto done;
    table = calloc(n ? n : 1, sizeof *table);
    if (!table) {
        status = error_memory("the list of devices", n * sizeof *table);
        goto done;
    }
    for (uint32_t i = 0; i < n; i++) table[i] = probes[i].candidate;
    status = vk_select(table, n, d->options.selector, &chosen);
    if (status == PM_OK) d->probe = probes[chosen];
done:
    free(probes);
    free(table);
    return status;
}

static pm_status create_device(vk_device *d)
{
    const vk_features *f = &d->features;
    const char *extensions[4];
    uint32_t n = 0;
    VkPhysicalDeviceSubgroupSizeControlFeatures sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
        .subgroupSizeControl = VK_TRUE,
        .computeFullSubgroups = VK_TRUE,
    };
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
        .shaderIntegerDotProduct = VK_TRUE,
    };
    void *next = NULL;
    if (f->subgroup_size) {
        extensions[n++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
        next = &sizes;
    }
    if (f->int8_dot) {
        extensions[n++] = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
        dot.pNext = next;
        next = &dot;
    }
    if (f->memory_budget) extensions[n++] = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
    // The specification wants it enabled wherever it is there.
    if (d->probe.portability_subset) extensions[n++] = "VK_KHR_portability_subset";
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = d->queue_family,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = next,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        .enabledExtensionCount = n,
        .ppEnabledExtensionNames = extensions,
    };
    VkResult result = vkCreateDevice(d->physical, &info, NULL, &d->device);
    if (result != VK_SUCCESS) {
        d->device = VK_NULL_HANDLE;
        return vk_fail(d, "the device cannot be opened", result);
    }
    vkGetDeviceQueue(d->device, d->queue_family, 0, &d->queue);
    return PM_OK;
}

static pm_status create_layouts(vk_device *d)
{
    VkDescriptorSetLayoutBinding bindings[VK_N_STORAGE + 1];
    for (uint32_t i = 0; i <= VK_N_STORAGE; i++) {
        bindings[i] = (VkDescriptorSetLayoutBinding){
            .binding = i,
            .descriptorType = i < VK_N_STORAGE ? VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
                                               : VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER,
            .descriptorCount = 1,
            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        };
    }
    VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = VK_N_STORAGE + 1,
        .pBindings = bindings,
    };
    VkResult result = vkCreateDescriptorSetLayout(d->device, &set, NULL, &d->set_layout);
    if (result != VK_SUCCESS) return vk_fail(d, "a descriptor set layout", result);
    VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, VK_PUSH_BYTES};
    VkPipelineLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &d->set_layout,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &push,
    };
    result = vkCreatePipelineLayout(d->device, &layout, NULL, &d->pipeline_layout);
    return result == VK_SUCCESS ? PM_OK : vk_fail(d, "a pipeline layout", result);
}

static pm_status open_device(vk_device *d)
{
    pm_status status = vk_instance_create(&d->instance);
    if (status == PM_OK) status = choose(d);
    if (status != PM_OK) return status;
    const vk_probe *p = &d->probe;
    d->physical = p->physical;
    d->properties = p->properties;
    d->memory = p->memory;
    d->queue_family = p->queue_family;
    d->software = vk_is_software(&p->candidate);
    memcpy(d->title, p->title, sizeof d->title);
    status = vk_features_used(p, &d->options, &d->features);
    if (status == PM_OK) status = vk_limits_used(p, &d->options, &d->features, &d->limits);
    if (status == PM_OK) status = vk_profile_used(p, &d->options, &d->profile);
    if (status != PM_OK) return status;
    // Until something was measured a device is taken for slow: the first submission of one that is
    // must not outlast the system's patience.
    bool discrete = p->candidate.type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    atomic_store(&d->pace, !d->profile->watchdog ? 1.0 : discrete ? 2.0 : 8.0);
    if (!(d->lock = os_mutex_create())) return error_memory("a lock", 0);
    status = create_device(d);
    if (status == PM_OK) status = vk_kernels_create(d);
    if (status == PM_OK) status = create_layouts(d);
    if (status == PM_OK) status = vk_transfer_create(d);
    if (status == PM_OK) status = vk_pipelines_create(d);
    return status;
}

pm_status vk_device_open(const exec_gpu *options, vk_device **out)
{
    *out = NULL;
    vk_device *d = calloc(1, sizeof *d);
    if (!d) return error_memory("a device", sizeof *d);
    if (options) d->options = *options;
    const char *folder = d->options.cache_dir, *wrong = d->options.wrong_kernel;
    snprintf(d->wrong_kernel, sizeof d->wrong_kernel, "%s", wrong ? wrong : "");
    if (folder) d->cache_dir = strdup(folder);
    pm_status status =
        folder && !d->cache_dir ? error_memory("a path", strlen(folder)) : open_device(d);
    // The caller's texts may go away.
    d->options.selector = d->options.disable = NULL;
    d->options.cache_dir = d->options.wrong_kernel = NULL;
    if (status == PM_OK) {
        *out = d;
        return PM_OK;
    }
    vk_device_close(d);
    return status;
}

void vk_device_close(vk_device *d)
{
    if (!d) return;
    if (d->device) {
        vkDeviceWaitIdle(d->device); // a lost device answers at once
        vk_transfer_destroy(d);
        vk_pipelines_destroy(d);
        vk_kernels_destroy(d);
        if (d->pipeline_layout) vkDestroyPipelineLayout(d->device, d->pipeline_layout, NULL);
        if (d->set_layout) vkDestroyDescriptorSetLayout(d->device, d->set_layout, NULL);
        vkDestroyDevice(d->device, NULL);
    }
    vk_instance_destroy(d->instance);
    os_mutex_destroy(d->lock);
    free(d->cache_dir);
    free(d);
}
