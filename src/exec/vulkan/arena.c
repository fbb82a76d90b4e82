#include "exec/vulkan/vk.h"

#include <stdlib.h>

#include "base/size.h"

size_t vk_arena_add(vk_arena *a, uint64_t bytes)
{
    if (a->n_items == a->cap) {
        size_t cap = a->cap ? 2 * a->cap : 64;
        struct vk_arena_item *items = realloc(a->items, cap * sizeof *items);
        if (!items) {
            a->failed = true;
            return 0;
        }
        a->items = items;
        a->cap = cap;
    }
    a->items[a->n_items] = (struct vk_arena_item){.bytes = bytes};
    return a->n_items++;
}

uint64_t vk_largest_range(const vk_device *d)
{
    uint64_t most =
        d->limits.max_alloc < d->limits.max_binding ? d->limits.max_alloc : d->limits.max_binding;
    return most / d->limits.storage_align * d->limits.storage_align;
}

// Gives every item its place, in order: a buffer is closed when the next item does not fit.
static void place(const vk_device *d, vk_arena *a, uint64_t *buffer_bytes, uint32_t *n_buffers)
{
    uint64_t used = 0;
    uint32_t n = 0;
    for (size_t i = 0; i < a->n_items; i++) {
        struct vk_arena_item *item = &a->items[i];
        uint64_t begin = 0;
        size_align(used, d->limits.storage_align, &begin);
        if (n == 0 || begin + item->bytes > d->limits.max_alloc) {
            n++;
            begin = 0;
        }
        item->buffer = n - 1;
        item->offset = begin;
        used = begin + item->bytes;
        if (buffer_bytes) buffer_bytes[n - 1] = used;
    }
    *n_buffers = n;
}

pm_status vk_arena_make(vk_device *d, vk_arena *a, const char *what)
{
    if (a->failed) return error_memory(what, a->n_items * sizeof *a->items);
    uint32_t n;
    place(d, a, NULL, &n);
    uint64_t *bytes = calloc(n + (size_t)1, sizeof *bytes);
    a->buffers = calloc(n + (size_t)1, sizeof *a->buffers);
    pm_status status = bytes && a->buffers ? PM_OK : error_memory(what, n);
    if (status == PM_OK) place(d, a, bytes, &n);
    for (uint32_t i = 0; status == PM_OK && i < n; i++) {
        uint64_t whole = 0;
        size_align(bytes[i], d->limits.storage_align, &whole);
        status = vk_buffer_create(d, whole, VK_MEMORY_DEVICE, what, &a->buffers[i]);
        if (status == PM_OK) a->n_buffers = i + 1;
    }
    free(bytes);
    return status;
}

vk_range vk_arena_range(const vk_arena *a, size_t item)
{
    const struct vk_arena_item *it = &a->items[item];
    return (vk_range){.buffer = &a->buffers[it->buffer], .offset = it->offset, .bytes = it->bytes};
}

void vk_arena_free(vk_device *d, vk_arena *a)
{
    for (uint32_t i = 0; i < a->n_buffers; i++) vk_buffer_destroy(d, &a->buffers[i]);
    free(a->buffers);
    free(a->items);
    *a = (vk_arena){0};
}
