// Upload, download and clear: straight into memory that the host sees, else through a ring of
// staging buffers. All of it is one caller at a time; the queue is free in between.
#include "exec/vulkan/vk.h"

#include <stdlib.h>
#include <string.h>

enum { N_SLOTS = 3, STAGING_BYTES = 8 << 20 };

// A command buffer with its fence; while `busy` the device may be working on it.
typedef struct slot {
    VkCommandBuffer commands;
    VkFence fence;
    vk_buffer staging; // created on first use
    bool busy;
} slot;

struct vk_transfer {
    os_mutex *lock;
    VkCommandPool pool;
    slot slots[N_SLOTS];
    vk_buffer readback; // created on first use
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

pm_status vk_transfer_create(vk_device *d)
{
    vk_transfer *t = calloc(1, sizeof *t);
    if (!t) return error_memory("transfers", sizeof *t);
    d->transfer = t;
    if (!(t->lock = os_mutex_create())) return error_memory("a lock", 0);
    VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags =
            VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT | VK_COMMAND_POOL_CREATE_TRANSIENT_BIT,
        .queueFamilyIndex = d->queue_family,
    };
    VkResult result = vkCreateCommandPool(d->device, &pool, NULL, &t->pool);
    if (result != VK_SUCCESS) return vk_fail(d, "a command pool", result);
    for (int i = 0; i < N_SLOTS; i++) {
        VkCommandBufferAllocateInfo commands = {
            .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
            .commandPool = t->pool,
            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
            .commandBufferCount = 1,
        };
        VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
        result = vkAllocateCommandBuffers(d->device, &commands, &t->slots[i].commands);
        if (result == VK_SUCCESS)
            result = vkCreateFence(d->device, &fence, NULL, &t->slots[i].fence);
        if (result != VK_SUCCESS) return vk_fail(d, "a command buffer", result);
    }
    return PM_OK;
}

void vk_transfer_destroy(vk_device *d)
{
    vk_transfer *t = d->transfer;
    if (!t) return;
    for (int i = 0; i < N_SLOTS; i++) {
        vk_buffer_destroy(d, &t->slots[i].staging);
        if (t->slots[i].fence) vkDestroyFence(d->device, t->slots[i].fence, NULL);
    }
    vk_buffer_destroy(d, &t->readback);
    if (t->pool) vkDestroyCommandPool(d->device, t->pool, NULL);
    os_mutex_destroy(t->lock);
    free(t);
    d->transfer = NULL;
}

// Waits until the device is done with a slot; a lost device is.
static pm_status slot_wait(vk_device *d, slot *s)
{
    if (!s->busy) return PM_OK;
    pm_status status = vk_fence_wait(d, s->fence, "a copy");
    if (status != PM_OK) return status;
    s->busy = false;
    VkResult result = vkResetFences(d->device, 1, &s->fence);
    return result == VK_SUCCESS ? PM_OK : vk_fail(d, "a fence", result);
}

static pm_status slots_wait(vk_device *d, pm_status status)
{
    for (int i = 0; i < N_SLOTS; i++) {
        pm_status waited = slot_wait(d, &d->transfer->slots[i]);
        if (status == PM_OK) status = waited;
    }
    return status;
}

static pm_status slot_begin(vk_device *d, slot *s)
{
    VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    VkResult result = vkBeginCommandBuffer(s->commands, &begin);
    return result == VK_SUCCESS ? PM_OK : vk_fail(d, "a command buffer", result);
}

static pm_status slot_submit(vk_device *d, slot *s)
{
    VkResult result = vkEndCommandBuffer(s->commands);
    if (result != VK_SUCCESS) return vk_fail(d, "a command buffer", result);
    VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &s->commands,
    };
    pm_status status = vk_queue_submit(d, &submit, s->fence);
    s->busy = status == PM_OK;
    return status;
}

static void before_copy(vk_device *d, VkCommandBuffer c)
{
    vk_barrier(d, c, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
               VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT,
               VK_PIPELINE_STAGE_TRANSFER_BIT,
               VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
}

static void after_write(vk_device *d, VkCommandBuffer c)
{
    vk_barrier(d, c, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
               VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
               VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT);
}

static pm_status upload_staged(vk_device *d, const vk_buffer *b, uint64_t offset, const char *src,
                               uint64_t n)
{
    vk_transfer *t = d->transfer;
    uint64_t chunk = least(STAGING_BYTES, d->limits.max_alloc);
    pm_status status = PM_OK;
    for (uint64_t at = 0, i = 0; at < n && status == PM_OK; i++) {
        slot *s = &t->slots[i % N_SLOTS];
        uint64_t part = least(chunk, n - at);
        status = slot_wait(d, s);
        if (status == PM_OK && !s->staging.buffer)
            status = vk_buffer_create(d, chunk, VK_MEMORY_STAGING, "a staging buffer", &s->staging);
        if (status != PM_OK) break;
        memcpy(s->staging.mapped, src + at, part);
        status = vk_flush(d, &s->staging, 0, part);
        if (status == PM_OK) status = slot_begin(d, s);
        if (status != PM_OK) break;
        before_copy(d, s->commands);
        VkBufferCopy region = {0, offset + at, part};
        vkCmdCopyBuffer(s->commands, s->staging.buffer, b->buffer, 1, &region);
        after_write(d, s->commands);
        status = slot_submit(d, s);
        at += part;
    }
    return slots_wait(d, status);
}

pm_status vk_upload(vk_device *d, const vk_buffer *b, uint64_t offset, const void *src, uint64_t n)
{
    if (n == 0) return PM_OK;
    pm_status status = vk_alive(d);
    if (status != PM_OK) return status;
    if (b->mapped) { // what the host wrote is visible to every later submission
        memcpy(b->mapped + offset, src, n);
        return vk_flush(d, b, offset, n);
    }
    os_mutex_lock(d->transfer->lock);
    status = upload_staged(d, b, offset, src, n);
    os_mutex_unlock(d->transfer->lock);
    return status;
}

// Memory that the host has mapped and cached is read in place, after the barrier.
static pm_status download_mapped(vk_device *d, const vk_buffer *b, uint64_t offset, char *dst,
                                 uint64_t n)
{
    slot *s = &d->transfer->slots[0];
    pm_status status = slot_begin(d, s);
    if (status != PM_OK) return status;
    vk_barrier(d, s->commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
               VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    status = slot_submit(d, s);
    if (status == PM_OK) status = slot_wait(d, s);
    if (status == PM_OK) status = vk_invalidate(d, b, offset, n);
    if (status == PM_OK) memcpy(dst, b->mapped + offset, n);
    return status;
}

static pm_status download_staged(vk_device *d, const vk_buffer *b, uint64_t offset, char *dst,
                                 uint64_t n)
{
    vk_transfer *t = d->transfer;
    slot *s = &t->slots[0];
    uint64_t chunk = least(STAGING_BYTES, d->limits.max_alloc);
    pm_status status = PM_OK;
    if (!t->readback.buffer)
        status = vk_buffer_create(d, chunk, VK_MEMORY_READBACK, "a read-back buffer", &t->readback);
    for (uint64_t at = 0; at < n && status == PM_OK;) {
        uint64_t part = least(chunk, n - at);
        status = slot_begin(d, s);
        if (status != PM_OK) break;
        before_copy(d, s->commands);
        VkBufferCopy region = {offset + at, 0, part};
        vkCmdCopyBuffer(s->commands, b->buffer, t->readback.buffer, 1, &region);
        vk_barrier(d, s->commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                   VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
        status = slot_submit(d, s);
        if (status == PM_OK) status = slot_wait(d, s);
        if (status == PM_OK) status = vk_invalidate(d, &t->readback, 0, part);
        if (status != PM_OK) break;
        memcpy(dst + at, t->readback.mapped, part);
        at += part;
    }
    return status;
}

pm_status vk_download(vk_device *d, const vk_buffer *b, uint64_t offset, void *dst, uint64_t n)
{
    if (n == 0) return PM_OK;
    pm_status status = vk_alive(d);
    if (status != PM_OK) return status;
    // Reading uncached memory, possibly across a bus, is far slower than a copy by the device.
    bool in_place = b->mapped && (b->flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
    os_mutex_lock(d->transfer->lock);
    status =
        in_place ? download_mapped(d, b, offset, dst, n) : download_staged(d, b, offset, dst, n);
    os_mutex_unlock(d->transfer->lock);
    return status;
}

pm_status vk_clear(vk_device *d, const vk_buffer *b)
{
    pm_status status = vk_alive(d);
    if (status != PM_OK) return status;
    os_mutex_lock(d->transfer->lock);
    slot *s = &d->transfer->slots[0];
    status = slot_begin(d, s);
    if (status == PM_OK) {
        before_copy(d, s->commands);
        vkCmdFillBuffer(s->commands, b->buffer, 0, VK_WHOLE_SIZE, 0);
        after_write(d, s->commands);
        status = slot_submit(d, s);
        if (status == PM_OK) status = slot_wait(d, s);
    }
    os_mutex_unlock(d->transfer->lock);
    return status;
}
