// Memory types, what room there is, buffers.
#include "exec/vulkan/vk.h"

#include <inttypes.h>
#include <string.h>

#include "base/size.h"

// ---- choices: pure functions ------------------------------------------------------------------

enum {
    LOCAL = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
    VISIBLE = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
    COHERENT = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
    CACHED = VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
    // Memory that is protected, not there until it is used, or slow for the device.
    UNWANTED = VK_MEMORY_PROPERTY_PROTECTED_BIT | VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT |
               VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD |
               VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD | VK_MEMORY_PROPERTY_RDMA_CAPABLE_BIT_NV,
};

// What each kind must have, and what it would like, the most important first; `avoid` bits count as
// wishes for their absence.
static const struct {
    VkMemoryPropertyFlags must;
    struct {
        VkMemoryPropertyFlags bit;
        bool wanted;
    } wish[3];
} kind_table[] = {
    // Mapped only where that is the same large heap: see below. Uncached, because the host only
    // writes it.
    [VK_MEMORY_DEVICE] = {0, {{LOCAL, true}, {VISIBLE, true}, {CACHED, false}}},
    [VK_MEMORY_SHARED] = {VISIBLE | COHERENT, {{LOCAL, true}, {CACHED, false}, {0, false}}},
    [VK_MEMORY_READBACK] = {VISIBLE, {{CACHED, true}, {COHERENT, true}, {LOCAL, false}}},
    [VK_MEMORY_STAGING] = {VISIBLE, {{LOCAL, false}, {COHERENT, true}, {CACHED, false}}},
};

static uint32_t score(const VkPhysicalDeviceMemoryProperties *memory, uint32_t type,
                      vk_memory_kind kind)
{
    VkMemoryPropertyFlags flags = memory->memoryTypes[type].propertyFlags;
    uint32_t points = 0;
    for (int i = 0; i < 3; i++)
        if (((flags & kind_table[kind].wish[i].bit) != 0) == kind_table[kind].wish[i].wanted)
            points |= 4u >> i;
    return points;
}

int vk_choose_memory_type(const VkPhysicalDeviceMemoryProperties *memory, uint32_t allowed,
                          vk_memory_kind kind, bool *coherent)
{
    int best = -1;
    for (uint32_t i = 0; i < memory->memoryTypeCount; i++) {
        VkMemoryPropertyFlags flags = memory->memoryTypes[i].propertyFlags;
        VkMemoryPropertyFlags must = kind_table[kind].must;
        if (!(allowed >> i & 1) || (flags & must) != must || (flags & UNWANTED)) continue;
        if (best < 0) {
            best = (int)i;
            continue;
        }
        VkMemoryPropertyFlags best_flags = memory->memoryTypes[best].propertyFlags;
        uint64_t size = memory->memoryHeaps[memory->memoryTypes[i].heapIndex].size;
        uint64_t best_size = memory->memoryHeaps[memory->memoryTypes[best].heapIndex].size;
        // Weights go to the largest device-local heap: a window of 256 MiB onto the card's memory
        // is a heap of its own, and not the place for them.
        if (kind == VK_MEMORY_DEVICE && (flags & LOCAL) == (best_flags & LOCAL) &&
            size != best_size) {
            if (size > best_size) best = (int)i;
        } else if (score(memory, i, kind) > score(memory, (uint32_t)best, kind)) {
            best = (int)i; // equal ones: drivers list the faster type first
        }
    }
    if (best >= 0) *coherent = (memory->memoryTypes[best].propertyFlags & COHERENT) != 0;
    return best;
}

uint64_t vk_heap_room(uint64_t heap_bytes, uint64_t budget, uint64_t usage, uint64_t own,
                      bool *known)
{
    *known = budget > 0;
    uint64_t limit = *known ? budget : heap_bytes - heap_bytes / 8;
    if (limit > heap_bytes) limit = heap_bytes;
    uint64_t used = *known ? usage : own;
    return limit > used ? limit - used : 0;
}

void vk_atom_range(uint64_t atom, uint64_t total, uint64_t *offset, uint64_t *n)
{
    uint64_t begin = *offset / atom * atom, end = 0;
    if (!size_add(*offset, *n, &end) || !size_align(end, atom, &end) || end > total) end = total;
    *offset = begin;
    *n = end - begin;
}

// ---- room -------------------------------------------------------------------------------------

uint64_t vk_room_now(VkPhysicalDevice physical, bool has_budget, uint32_t heap,
                     const VkMemoryHeap *heaps, uint64_t own, bool *known)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budgets = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 all = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, .pNext = &budgets};
    if (has_budget) vkGetPhysicalDeviceMemoryProperties2(physical, &all);
    return vk_heap_room(heaps[heap].size, budgets.heapBudget[heap], budgets.heapUsage[heap], own,
                        known);
}

static uint64_t heap_room(vk_device *d, uint32_t heap, bool *known)
{
    *known = false;
    if (d->software) return UINT64_MAX;
    return vk_room_now(d->physical, d->features.memory_budget, heap, d->memory.memoryHeaps,
                       atomic_load(&d->heap_used[heap]), known);
}

uint64_t vk_device_room(vk_device *d, bool *known)
{
    bool coherent;
    int type = vk_choose_memory_type(&d->memory, UINT32_MAX, VK_MEMORY_DEVICE, &coherent);
    *known = false;
    return type < 0 ? 0 : heap_room(d, d->memory.memoryTypes[type].heapIndex, known);
}

// ---- buffers ----------------------------------------------------------------------------------

#define MIB(bytes) ((double)(bytes) / 1048576)

static pm_status out_of_memory(vk_device *d, const char *what, uint64_t bytes, uint64_t room,
                               bool known)
{
    if (room == UINT64_MAX) {
        return error_set(PM_ERROR_DEVICE, "%s: no memory for %s (%.1f MiB)", d->title, what,
                         MIB(bytes));
    }
    return error_set(PM_ERROR_DEVICE,
                     "%s: no memory for %s: %.1f MiB wanted, %.1f MiB free%s (fewer layers on the "
                     "device: --gpu-layers N, or a smaller --ctx)",
                     d->title, what, MIB(bytes), MIB(room), known ? "" : " by estimate");
}

// Allocates from the best type that has room. On a device that shares the host's memory any type
// will do; a card's buffers stay in its own memory.
static pm_status allocate(vk_device *d, const VkMemoryRequirements *need, vk_memory_kind kind,
                          const char *what, vk_buffer *b)
{
    uint32_t allowed = need->memoryTypeBits;
    bool shares_memory =
        d->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU || d->software;
    uint64_t most_room = 0;
    bool known = false, any = false;
    for (;;) {
        int type = vk_choose_memory_type(&d->memory, allowed, kind, &b->coherent);
        if (type < 0) break;
        allowed &= ~(UINT32_C(1) << type);
        VkMemoryPropertyFlags flags = d->memory.memoryTypes[type].propertyFlags;
        if (any && kind == VK_MEMORY_DEVICE && !(flags & LOCAL) && !shares_memory) break;
        any = true;
        uint32_t heap = d->memory.memoryTypes[type].heapIndex;
        bool heap_known;
        uint64_t room = heap_room(d, heap, &heap_known);
        if (room >= most_room) {
            most_room = room;
            known = heap_known;
        }
        if (need->size > room) continue;
        VkMemoryAllocateInfo info = {
            .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
            .allocationSize = need->size,
            .memoryTypeIndex = (uint32_t)type,
        };
        VkResult result = vkAllocateMemory(d->device, &info, NULL, &b->memory);
        if (result == VK_SUCCESS) {
            b->flags = flags;
            b->heap = heap;
            b->allocated = need->size;
            atomic_fetch_add(&d->bytes_used, need->size);
            atomic_fetch_add(&d->heap_used[heap], need->size);
            return PM_OK;
        }
        b->memory = VK_NULL_HANDLE;
        if (result != VK_ERROR_OUT_OF_DEVICE_MEMORY && result != VK_ERROR_OUT_OF_HOST_MEMORY)
            return vk_fail(d, what, result);
    }
    return out_of_memory(d, what, need->size, most_room, known);
}

static pm_status create_buffer(vk_device *d, uint64_t bytes, vk_memory_kind kind, const char *what,
                               vk_buffer *b)
{
    VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = bytes,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT |
                 VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT,
        .sharingMode = VK_SHARING_MODE_EXCLUSIVE,
    };
    VkResult result = vkCreateBuffer(d->device, &info, NULL, &b->buffer);
    if (result != VK_SUCCESS) {
        b->buffer = VK_NULL_HANDLE;
        return vk_fail(d, what, result);
    }
    VkMemoryRequirements need;
    vkGetBufferMemoryRequirements(d->device, b->buffer, &need);
    pm_status status = allocate(d, &need, kind, what, b);
    if (status != PM_OK) return status;
    result = vkBindBufferMemory(d->device, b->buffer, b->memory, 0);
    if (result != VK_SUCCESS) return vk_fail(d, what, result);
    bool map = (b->flags & VISIBLE) && (kind != VK_MEMORY_DEVICE || d->features.mapped);
    if (!map) return PM_OK;
    void *mapped = NULL;
    result = vkMapMemory(d->device, b->memory, 0, VK_WHOLE_SIZE, 0, &mapped);
    if (result != VK_SUCCESS) return vk_fail(d, what, result);
    b->mapped = mapped;
    return PM_OK;
}

pm_status vk_buffer_create(vk_device *d, uint64_t bytes, vk_memory_kind kind, const char *what,
                           vk_buffer *out)
{
    memset(out, 0, sizeof *out);
    pm_status status = vk_alive(d);
    if (status != PM_OK) return status;
    if (atomic_fetch_add(&d->n_allocs, 1) + 1 == d->options.fail_alloc)
        return vk_fail(d, what, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    if (bytes > d->limits.max_alloc) {
        return error_set(PM_ERROR_DEVICE,
                         "%s: %s needs %.1f MiB in one buffer, %.1f MiB are possible", d->title,
                         what, MIB(bytes), MIB(d->limits.max_alloc));
    }
    out->bytes = bytes;
    uint64_t size = bytes < 16 ? 16 : (bytes + 3) / 4 * 4; // fills count words
    status = create_buffer(d, size, kind, what, out);
    if (status != PM_OK) vk_buffer_destroy(d, out);
    return status;
}

void vk_buffer_destroy(vk_device *d, vk_buffer *b)
{
    if (b->mapped) vkUnmapMemory(d->device, b->memory);
    if (b->buffer) vkDestroyBuffer(d->device, b->buffer, NULL);
    if (b->memory) {
        vkFreeMemory(d->device, b->memory, NULL);
        atomic_fetch_sub(&d->bytes_used, b->allocated);
        atomic_fetch_sub(&d->heap_used[b->heap], b->allocated);
    }
    memset(b, 0, sizeof *b);
}

static VkMappedMemoryRange mapped_range(const vk_device *d, const vk_buffer *b, uint64_t offset,
                                        uint64_t n)
{
    vk_atom_range(d->properties.limits.nonCoherentAtomSize, b->allocated, &offset, &n);
    return (VkMappedMemoryRange){
        .sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE,
        .memory = b->memory,
        .offset = offset,
        .size = n,
    };
}

pm_status vk_flush(vk_device *d, const vk_buffer *b, uint64_t offset, uint64_t n)
{
    if (b->coherent || n == 0) return PM_OK;
    VkMappedMemoryRange range = mapped_range(d, b, offset, n);
    VkResult result = vkFlushMappedMemoryRanges(d->device, 1, &range);
    return result == VK_SUCCESS ? PM_OK : vk_fail(d, "flushing written memory", result);
}

pm_status vk_invalidate(vk_device *d, const vk_buffer *b, uint64_t offset, uint64_t n)
{
    if (b->coherent || n == 0) return PM_OK;
    VkMappedMemoryRange range = mapped_range(d, b, offset, n);
    VkResult result = vkInvalidateMappedMemoryRanges(d->device, 1, &range);
    return result == VK_SUCCESS ? PM_OK : vk_fail(d, "reading mapped memory", result);
}
