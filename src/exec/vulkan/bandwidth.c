// What the device reads from its memory at most: the roof that decode is held against.
#include "exec/vulkan/vk.h"

#include "push.h"

enum { N_PASSES = 5, WORKGROUP = 64, AT_ONCE = 4, VALUE_BYTES = 16, MAX_GROUPS = 8192 };

// More than any cache holds; a driver that computes on the CPU needs longer for it.
static uint64_t wanted_bytes(vk_device *d)
{
    bool known;
    uint64_t bytes = d->software ? UINT64_C(256) << 20 : UINT64_C(1) << 30;
    uint64_t room = vk_device_room(d, &known) / 2;
    return bytes < room ? bytes : room;
}

typedef struct reading {
    vk_device *device;
    vk_arena memory; // the last item takes the sums
    vk_buffer step;  // every shader has one bound
    uint32_t n_ranges, n_groups, workgroup;
    uint64_t range_bytes; // a whole number of rounds of all readers
} reading;

static pm_status allocate(reading *r)
{
    vk_device *d = r->device;
    uint64_t most = vk_largest_range(d), bytes = wanted_bytes(d);
    if (most > bytes) most = bytes;
    r->workgroup = d->limits.max_invocations < WORKGROUP ? d->limits.max_invocations : WORKGROUP;
    uint64_t group_bytes = (uint64_t)r->workgroup * AT_ONCE * VALUE_BYTES; // of one round
    r->n_groups = d->limits.max_groups[0] < MAX_GROUPS ? d->limits.max_groups[0] : MAX_GROUPS;
    // Many rounds for every reader, so that their beginnings and ends don't matter.
    while (r->n_groups > 1 && 16 * r->n_groups * group_bytes > most) r->n_groups /= 2;
    uint64_t round_bytes = r->n_groups * group_bytes;
    r->range_bytes = most / round_bytes * round_bytes;
    if (r->range_bytes == 0)
        return error_set(PM_ERROR_DEVICE, "%s: no memory to measure its bandwidth with", d->title);
    r->n_ranges = (uint32_t)(bytes / r->range_bytes);
    for (uint32_t i = 0; i < r->n_ranges; i++) vk_arena_add(&r->memory, r->range_bytes);
    vk_arena_add(&r->memory, (uint64_t)r->n_groups * r->workgroup * sizeof(uint32_t));
    pm_status status = vk_arena_make(d, &r->memory, "measuring the bandwidth");
    // Pages that were never written may all be the same one.
    for (uint32_t i = 0; status == PM_OK && i < r->memory.n_buffers; i++)
        status = vk_clear(d, &r->memory.buffers[i]);
    if (status == PM_OK)
        status = vk_buffer_create(d, sizeof(plan_step), VK_MEMORY_SHARED, "the step", &r->step);
    return status;
}

static pm_status record(const reading *r, bool own, vk_recording *recording)
{
    struct push_read push = {.n = (uint32_t)(r->range_bytes / VALUE_BYTES), .own = own};
    pm_status status = PM_OK;
    for (uint32_t i = 0; status == PM_OK && i < r->n_ranges; i++) {
        vk_dispatch dispatch = {
            .label = "read",
            .key = {.shader = vk_shader_named("read"), .n_spec = 1, .spec = {r->workgroup}},
            .bind = {{.range = vk_arena_range(&r->memory, i), .reads = true},
                     // all write the same sums: one range is read after the other
                     {.range = vk_arena_range(&r->memory, r->n_ranges), .writes = true}},
            .push = &push,
            .push_bytes = sizeof push,
            .groups = {r->n_groups, 1, 1},
        };
        status = vk_record(recording, &dispatch);
    }
    return status == PM_OK ? vk_recording_end(recording) : status;
}

// By the device's clock where it has one, else by the host's.
static pm_status pass(const reading *r, vk_recording *recording, double *seconds)
{
    double start = os_seconds();
    pm_status status = vk_submit(recording);
    if (status == PM_OK) status = vk_wait(recording);
    *seconds = os_seconds() - start;
    double sum = 0;
    for (uint32_t i = 0; i < r->n_ranges; i++) {
        double s = vk_recording_seconds(recording, i);
        if (s <= 0) return status;
        sum += s;
    }
    if (sum < *seconds) *seconds = sum;
    return status;
}

// The better of both ways to read; the first pass warms up.
static pm_status measure(const reading *r, bool own, double *best)
{
    vk_recording *recording = NULL;
    pm_status status =
        vk_recording_begin(r->device, (vk_range){&r->step, 0, sizeof(plan_step)}, true, &recording);
    if (status == PM_OK) status = record(r, own, recording);
    for (int i = 0; status == PM_OK && i <= N_PASSES; i++) {
        double seconds = 0;
        status = pass(r, recording, &seconds);
        double rate = (double)(r->n_ranges * r->range_bytes) / seconds;
        if (status == PM_OK && i > 0 && rate > *best) *best = rate;
    }
    vk_recording_free(recording);
    return status;
}

pm_status vk_bandwidth(exec_weights *w, double *bytes_per_second)
{
    reading r = {.device = w->device};
    double best = 0;
    pm_status status = allocate(&r);
    if (status == PM_OK) status = measure(&r, false, &best);
    if (status == PM_OK) status = measure(&r, true, &best);
    vk_buffer_destroy(r.device, &r.step);
    vk_arena_free(r.device, &r.memory);
    if (status == PM_OK) *bytes_per_second = best;
    return status;
}
