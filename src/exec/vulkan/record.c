// Dispatches into command buffers. Which barriers are needed follows from what the dispatches bind;
// nobody writes one by hand.
#include "exec/vulkan/vk.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SETS_PER_POOL = 256, MAX_PENDING = 64, MAX_RUNS = 4 };

// A range that dispatches since the last barrier have touched.
typedef struct pending {
    vk_range range;
    bool written;
} pending;

struct vk_recording {
    vk_device *device;
    vk_range step;
    VkCommandPool pool;
    VkCommandBuffer *buffers; // one per submission
    uint32_t n_buffers;
    VkDescriptorPool *sets;
    uint32_t n_sets, sets_left;
    pending touched[MAX_PENDING];
    uint32_t n_touched;
    vk_splitter splitter;
    uint32_t slices;                // that the op being recorded is to be cut into
    double estimate_ms, longest_ms; // of all ops; of one submission. Without the pace
    double submitted;               // when the last run was, by os_seconds; 0: it was not alone
    bool timed;
    VkQueryPool queries; // [n_dispatches + 1] where timed
    uint32_t n_dispatches, cap;
    const char **labels;
    VkFence fences[MAX_RUNS]; // a ring: runs submitted, not waited for
    uint64_t n_submitted, n_waited;
    vk_keys *keys; // where only these are wanted: there is no command buffer
};

enum { MAX_TIMED = 8192 };

static double limit_ms(const vk_device *d);

// ---- command buffers --------------------------------------------------------------------------

static VkCommandBuffer current(const vk_recording *r)
{
    return r->buffers[r->n_buffers - 1];
}

// What came before in the queue (also uploads and host writes) is visible from here on.
static void barrier(vk_recording *r, VkPipelineStageFlags from, VkAccessFlags wrote,
                    VkPipelineStageFlags to, VkAccessFlags uses)
{
    VkMemoryBarrier memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = wrote, .dstAccessMask = uses};
    vkCmdPipelineBarrier(current(r), from, to, 0, 1, &memory, 0, NULL, 0, NULL);
}

static const VkAccessFlags shader_access =
    VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_UNIFORM_READ_BIT;

static pm_status begin_buffer(vk_recording *r)
{
    VkCommandBuffer *more = realloc(r->buffers, (r->n_buffers + (size_t)1) * sizeof *more);
    if (!more) return error_memory("a recording", r->n_buffers * sizeof *more);
    r->buffers = more;
    VkCommandBufferAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                            .commandPool = r->pool,
                                            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                            .commandBufferCount = 1};
    VkResult result =
        vkAllocateCommandBuffers(r->device->device, &allocate, &r->buffers[r->n_buffers]);
    if (result != VK_SUCCESS) return vk_fail(r->device, "vkAllocateCommandBuffers", result);
    r->n_buffers++;
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    result = vkBeginCommandBuffer(current(r), &begin);
    if (result != VK_SUCCESS) return vk_fail(r->device, "vkBeginCommandBuffer", result);
    barrier(r, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
            VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
            VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, shader_access);
    r->n_touched = 0;
    return PM_OK;
}

static pm_status end_buffer(vk_recording *r)
{
    barrier(r, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
            VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    VkResult result = vkEndCommandBuffer(current(r));
    return result == VK_SUCCESS ? PM_OK : vk_fail(r->device, "vkEndCommandBuffer", result);
}

pm_status vk_recording_begin(vk_device *d, vk_range step, bool timed, vk_recording **out)
{
    *out = NULL;
    vk_recording *r = calloc(1, sizeof *r);
    if (!r) return error_memory("a recording", sizeof *r);
    r->device = d;
    r->step = step;
    r->slices = 1;
    r->splitter = (vk_splitter){.limit_ms = limit_ms(d), .pace = atomic_load(&d->pace)};
    r->timed = timed && d->features.timestamps;
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .queueFamilyIndex = d->queue_family};
    pm_status status = PM_OK;
    VkResult result = vkCreateCommandPool(d->device, &pool, NULL, &r->pool);
    if (result != VK_SUCCESS) status = vk_fail(d, "vkCreateCommandPool", result);
    VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    for (int i = 0; status == PM_OK && i < MAX_RUNS; i++) {
        result = vkCreateFence(d->device, &fence, NULL, &r->fences[i]);
        if (result != VK_SUCCESS) status = vk_fail(d, "vkCreateFence", result);
    }
    if (status == PM_OK && r->timed) {
        VkQueryPoolCreateInfo queries = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                         .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                         .queryCount = MAX_TIMED + 1};
        result = vkCreateQueryPool(d->device, &queries, NULL, &r->queries);
        if (result != VK_SUCCESS) status = vk_fail(d, "vkCreateQueryPool", result);
    }
    if (status == PM_OK) status = begin_buffer(r);
    if (status == PM_OK && r->timed) {
        vkCmdResetQueryPool(current(r), r->queries, 0, MAX_TIMED + 1);
        vkCmdWriteTimestamp(current(r), VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, r->queries, 0);
    }
    if (status == PM_OK)
        *out = r;
    else
        vk_recording_free(r);
    return status;
}

pm_status vk_recording_of_keys(vk_device *d, vk_keys *keys, vk_recording **out)
{
    vk_recording *r = calloc(1, sizeof *r);
    if (!r) return error_memory("a recording", sizeof *r);
    r->device = d;
    r->slices = 1;
    r->keys = keys;
    *out = r;
    return PM_OK;
}

void vk_recording_free(vk_recording *r)
{
    if (!r) return;
    VkDevice device = r->device->device;
    // A lost device runs nothing, and its error is the one to be shown.
    while (r->n_waited < r->n_submitted && !atomic_load(&r->device->lost) && vk_wait(r) == PM_OK)
        continue;
    if (r->queries) vkDestroyQueryPool(device, r->queries, NULL);
    for (int i = 0; i < MAX_RUNS; i++)
        if (r->fences[i]) vkDestroyFence(device, r->fences[i], NULL);
    for (uint32_t i = 0; i < r->n_sets; i++) vkDestroyDescriptorPool(device, r->sets[i], NULL);
    if (r->pool) vkDestroyCommandPool(device, r->pool, NULL);
    free(r->sets);
    free(r->buffers);
    free((void *)r->labels);
    free(r);
}

// ---- descriptors ------------------------------------------------------------------------------

static pm_status more_sets(vk_recording *r)
{
    VkDescriptorPool *more = realloc(r->sets, (r->n_sets + (size_t)1) * sizeof *more);
    if (!more) return error_memory("a recording", r->n_sets * sizeof *more);
    r->sets = more;
    VkDescriptorPoolSize sizes[] = {
        {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, SETS_PER_POOL * VK_N_STORAGE},
        {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, SETS_PER_POOL},
    };
    VkDescriptorPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                       .maxSets = SETS_PER_POOL,
                                       .poolSizeCount = 2,
                                       .pPoolSizes = sizes};
    VkResult result = vkCreateDescriptorPool(r->device->device, &info, NULL, &r->sets[r->n_sets]);
    if (result != VK_SUCCESS) return vk_fail(r->device, "vkCreateDescriptorPool", result);
    r->n_sets++;
    r->sets_left = SETS_PER_POOL;
    return PM_OK;
}

// A set with the dispatch's ranges; what a shader does not use holds the step's buffer.
static pm_status bind(vk_recording *r, const vk_dispatch *dispatch)
{
    vk_device *d = r->device;
    if (r->sets_left == 0) {
        pm_status status = more_sets(r);
        if (status != PM_OK) return status;
    }
    VkDescriptorSetAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                            .descriptorPool = r->sets[r->n_sets - 1],
                                            .descriptorSetCount = 1,
                                            .pSetLayouts = &d->set_layout};
    VkDescriptorSet set;
    VkResult result = vkAllocateDescriptorSets(d->device, &allocate, &set);
    if (result != VK_SUCCESS) return vk_fail(d, "vkAllocateDescriptorSets", result);
    r->sets_left--;

    VkDescriptorBufferInfo infos[VK_N_STORAGE + 1];
    VkWriteDescriptorSet writes[VK_N_STORAGE + 1];
    for (uint32_t i = 0; i <= VK_N_STORAGE; i++) {
        vk_range range = i < VK_N_STORAGE ? dispatch->bind[i].range : r->step;
        if (!range.buffer) range = r->step;
        assert(range.bytes <= d->limits.max_binding);
        infos[i] = (VkDescriptorBufferInfo){range.buffer->buffer, range.offset, range.bytes};
        writes[i] = (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                           .dstSet = set,
                                           .dstBinding = i,
                                           .descriptorCount = 1,
                                           .descriptorType =
                                               i < VK_N_STORAGE ? VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
                                                                : VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER,
                                           .pBufferInfo = &infos[i]};
    }
    vkUpdateDescriptorSets(d->device, VK_N_STORAGE + 1, writes, 0, NULL);
    vkCmdBindDescriptorSets(current(r), VK_PIPELINE_BIND_POINT_COMPUTE, d->pipeline_layout, 0, 1,
                            &set, 0, NULL);
    return PM_OK;
}

// ---- barriers ---------------------------------------------------------------------------------

static bool overlap(vk_range a, vk_range b)
{
    return a.buffer == b.buffer && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

// Read after write, write after read, write after write.
static bool needs_barrier(const vk_recording *r, const vk_dispatch *dispatch)
{
    for (uint32_t i = 0; i < VK_N_STORAGE; i++) {
        const vk_binding *b = &dispatch->bind[i];
        if (!b->range.buffer) continue;
        // every dispatch reads the step
        if (b->writes && r->n_touched > 0 && overlap(b->range, r->step)) return true;
        for (uint32_t j = 0; j < r->n_touched; j++)
            if ((b->writes || r->touched[j].written) && overlap(b->range, r->touched[j].range))
                return true;
    }
    return r->n_touched + VK_N_STORAGE > MAX_PENDING;
}

static void order_after_earlier(vk_recording *r, const vk_dispatch *dispatch)
{
    vk_device *d = r->device;
    if (d->options.debug_barriers) {
        barrier(r, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT,
                VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT);
        r->n_touched = 0;
    } else if (needs_barrier(r, dispatch)) {
        int n = atomic_fetch_add(&d->n_barriers, 1) + 1;
        if (n != d->options.skip_barrier)
            barrier(r, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                    VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, shader_access);
        r->n_touched = 0;
    }
    for (uint32_t i = 0; i < VK_N_STORAGE; i++)
        if (dispatch->bind[i].range.buffer)
            r->touched[r->n_touched++] =
                (pending){dispatch->bind[i].range, dispatch->bind[i].writes};
}

// ---- cuts -------------------------------------------------------------------------------------

bool vk_split_before(vk_splitter *s, double estimated_ms)
{
    double ms = estimated_ms * s->pace;
    bool cut = s->filled_ms > 0 && s->filled_ms + ms > s->limit_ms;
    s->filled_ms = cut ? ms : s->filled_ms + ms;
    return cut;
}

uint32_t vk_split_slices(const vk_splitter *s, double estimated_ms)
{
    double n = ceil(estimated_ms * s->pace / s->limit_ms);
    return n > PLAN_MAX_ROWS ? PLAN_MAX_ROWS : n > 1 ? (uint32_t)n : 1;
}

double vk_pace_after(double pace, double estimated_ms, double measured_ms)
{
    double now = estimated_ms > 0 ? measured_ms / estimated_ms : pace;
    if (!isfinite(now)) return pace;
    now = fmin(fmax(now, 1e-3), 1e3);
    return now > pace ? now : 0.75 * pace + 0.25 * now;
}

static double limit_ms(const vk_device *d)
{
    if (d->options.max_submit_ms > 0) return d->options.max_submit_ms;
    return d->profile->watchdog ? 150 : 1e9;
}

pm_status vk_recording_cut(vk_recording *r)
{
    if (r->keys) return PM_OK;
    pm_status status = end_buffer(r);
    return status == PM_OK ? begin_buffer(r) : status;
}

pm_status vk_recording_may_cut(vk_recording *r, double estimated_ms)
{
    r->slices = 1;
    if (r->keys) return PM_OK;
    r->slices = vk_split_slices(&r->splitter, estimated_ms);
    bool cut = vk_split_before(&r->splitter, estimated_ms);
    r->estimate_ms += estimated_ms;
    double filled = r->splitter.filled_ms / r->splitter.pace / r->slices;
    if (filled > r->longest_ms) r->longest_ms = filled;
    if (r->slices > 1) r->splitter.filled_ms /= r->slices; // what the last slice leaves
    return cut ? vk_recording_cut(r) : PM_OK;
}

uint32_t vk_recording_slices(const vk_recording *r)
{
    return r->slices;
}

uint32_t vk_recording_n_submissions(const vk_recording *r)
{
    return r->n_buffers;
}

bool vk_recording_is_stale(const vk_recording *r)
{
    double pace = atomic_load(&r->device->pace);
    return pace > 1.5 * r->splitter.pace && r->longest_ms * pace > limit_ms(r->device);
}

// What a run that had the queue for itself has taken; short ones say more about the queue.
static void take_time(vk_recording *r)
{
    double ms = 1e3 * (os_seconds() - r->submitted);
    if (r->submitted == 0 || r->estimate_ms < 1 || r->n_submitted != r->n_waited) return;
    double pace = atomic_load(&r->device->pace);
    atomic_store(&r->device->pace, vk_pace_after(pace, r->estimate_ms, ms));
}

// ---- recording --------------------------------------------------------------------------------

static pm_status remember(vk_recording *r, const char *label)
{
    if (r->n_dispatches == r->cap) {
        uint32_t cap = r->cap ? 2 * r->cap : 256;
        const char **more = realloc((void *)r->labels, cap * sizeof *more);
        if (!more) return error_memory("a recording", cap * sizeof *more);
        r->labels = more;
        r->cap = cap;
    }
    r->labels[r->n_dispatches++] = label;
    return PM_OK;
}

pm_status vk_record(vk_recording *r, const vk_dispatch *dispatch)
{
    vk_device *d = r->device;
    assert(dispatch->push_bytes <= VK_PUSH_BYTES);
    for (int i = 0; i < 3; i++)
        assert(dispatch->groups[i] > 0 && dispatch->groups[i] <= d->limits.max_groups[i]);
    if (r->keys) return vk_keys_add(r->keys, &dispatch->key);
    VkPipeline pipeline;
    pm_status status = vk_pipeline_get(d, &dispatch->key, &pipeline);
    if (status == PM_OK) status = remember(r, dispatch->label);
    if (status != PM_OK) return status;
    order_after_earlier(r, dispatch);
    vkCmdBindPipeline(current(r), VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    status = bind(r, dispatch);
    if (status != PM_OK) return status;
    if (dispatch->push_bytes)
        vkCmdPushConstants(current(r), d->pipeline_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                           dispatch->push_bytes, dispatch->push);
    vkCmdDispatch(current(r), dispatch->groups[0], dispatch->groups[1], dispatch->groups[2]);
    if (r->timed && r->n_dispatches <= MAX_TIMED)
        vkCmdWriteTimestamp(current(r), VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, r->queries,
                            r->n_dispatches);
    return PM_OK;
}

pm_status vk_recording_end(vk_recording *r)
{
    return end_buffer(r);
}

uint32_t vk_recording_n_dispatches(const vk_recording *r)
{
    return r->n_dispatches;
}

const char *vk_recording_label(const vk_recording *r, uint32_t i)
{
    return r->labels[i];
}

// ---- running ----------------------------------------------------------------------------------

// The last submission signals the fence; the queue runs them in this order.
pm_status vk_submit(vk_recording *r)
{
    pm_status status = PM_OK;
    if (r->n_submitted - r->n_waited == MAX_RUNS) status = vk_wait(r);
    VkFence fence = r->fences[r->n_submitted % MAX_RUNS];
    for (uint32_t i = 0; i < r->n_buffers && status == PM_OK; i++) {
        VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                             .commandBufferCount = 1,
                             .pCommandBuffers = &r->buffers[i]};
        status = vk_queue_submit(r->device, &info, i + 1 == r->n_buffers ? fence : VK_NULL_HANDLE);
    }
    bool alone = r->n_submitted == r->n_waited;
    if (status == PM_OK) r->n_submitted++;
    r->submitted = alone ? os_seconds() : 0;
    return status;
}

pm_status vk_wait(vk_recording *r)
{
    vk_device *d = r->device;
    if (r->n_waited == r->n_submitted) return PM_OK;
    VkFence fence = r->fences[r->n_waited % MAX_RUNS];
    r->n_waited++; // also after a failure: it won't be waited for again
    pm_status status = vk_fence_wait(d, fence, "a step");
    if (status != PM_OK) return status;
    take_time(r);
    VkResult result = vkResetFences(d->device, 1, &fence);
    return result == VK_SUCCESS ? PM_OK : vk_fail(d, "a fence", result);
}

double vk_recording_seconds(const vk_recording *r, uint32_t i)
{
    const vk_device *d = r->device;
    if (!r->timed || i >= r->n_dispatches || i >= MAX_TIMED) return -1;
    uint64_t ticks[2];
    VkResult result = vkGetQueryPoolResults(d->device, r->queries, i, 2, sizeof ticks, ticks,
                                            sizeof ticks[0], VK_QUERY_RESULT_64_BIT);
    if (result != VK_SUCCESS) return -1;
    uint64_t elapsed = (ticks[1] - ticks[0]) & d->limits.timestamp_mask; // right across a wrap
    return (double)elapsed * d->limits.timestamp_ns * 1e-9;
}
