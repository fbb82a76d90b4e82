// Greedy decoding that does not wait for the host: the device chooses, writes the next row into the
// step and goes on with the recording that is queued already. The host follows through a ring.
#include "exec/vulkan/vk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "push.h"

// The ring is [RING_SIZE][4] words: id, position, finite. The row at a position writes its place of
// position % RING_SIZE.
enum { RING_SIZE = 16, RING_BYTES = RING_SIZE * 16, MAX_AHEAD = 3 };

struct vk_ahead {
    const plan *plan;
    uint32_t first, count;
    plan_step step;                     // its row is the next one to be queued
    uint32_t n_steps;                   // rows still to be queued
    uint32_t told;                      // position of the next row to be told
    vk_recording *queue[MAX_AHEAD + 1]; // in work, the oldest first
    uint32_t n_queued, most;
};

bool vk_can_ahead(const exec *e)
{
    vk_device *d = e->device;
    return d->features.ahead && e->bufs[PLAN_LOGITS].pieces != NULL &&
           !vk_shader_is_bad(d, vk_shader_named("next")); // then the host chooses
}

pm_status vk_emit_next(exec *e, vk_recording *r)
{
    vk_device *d = e->device;
    const vk_shader *shader = vk_shader_named("next");
    if (vk_shader_is_bad(d, shader)) return vk_bad_shader(d, shader);
    struct push_next push = {.n_vocab = e->set->n_vocab, .ring_size = RING_SIZE};
    uint32_t w = 1;
    while (2 * w <= 1024 && 2 * w <= d->limits.max_invocations) w *= 2;
    vk_range ring = {.buffer = &e->ring, .bytes = RING_BYTES};
    vk_dispatch dispatch = {
        .label = "next",
        .key = {.shader = shader, .n_spec = 1, .spec = {w}},
        .bind = {{.range = e->bufs[PLAN_LOGITS].pieces[0], .reads = true},
                 {.range = {.buffer = &e->step, .bytes = sizeof(plan_step)},
                  .reads = true,
                  .writes = true},
                 {.range = ring, .writes = true}},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {1, 1, 1},
    };
    return vk_record(r, &dispatch);
}

// Queues the row of a->step; behind it the device has the next one.
static pm_status queue_row(exec *e)
{
    struct vk_ahead *a = e->ahead;
    vk_recording *r;
    vk_extent x = vk_extent_of(e, a->plan, &a->step);
    pm_status status = vk_kept_recording(e, a->plan, a->first, a->count, x, true, &r);
    if (status == PM_OK) status = vk_submit(r);
    if (status != PM_OK) return status;
    a->queue[a->n_queued++] = r;
    a->n_steps--;
    a->step.rows[0].pos++;
    a->step.rows[0].n_kv++;
    return PM_OK;
}

static pm_status fill_queue(exec *e)
{
    struct vk_ahead *a = e->ahead;
    pm_status status = PM_OK;
    while (status == PM_OK && a->n_steps > 0 && a->n_queued < a->most) status = queue_row(e);
    return status;
}

pm_status vk_ahead_begin(exec *e, const plan *p, uint32_t first, uint32_t count,
                         const plan_step *step, uint32_t n_steps)
{
    vk_device *d = e->device;
    assert(!e->ahead && step->n_rows == 1 && step->n_logits == 1 && n_steps > 0);
    pm_status status = vk_alive(d);
    if (status != PM_OK) return status;
    struct vk_ahead *a = calloc(1, sizeof *a);
    if (!a) return error_memory("decoding ahead", sizeof *a);
    *a = (struct vk_ahead){
        .plan = p, .first = first, .count = count, .n_steps = n_steps, .told = step->rows[0].pos};
    memcpy(&a->step, step, offsetof(plan_step, rows) + sizeof step->rows[0]);
    a->step.logit_rows[0] = 0;
    // What a software driver computes in vain at the end costs the host's own time.
    uint32_t beyond = d->software ? 0 : 1;
    if (d->options.ahead > 0) beyond = (uint32_t)d->options.ahead;
    a->most = 1 + (beyond < MAX_AHEAD ? beyond : MAX_AHEAD);
    vk_forget_recordings(e, VK_KV_BUCKETS); // so that none has to go while it is in work
    e->ahead = a;
    // Kept recordings hold it: it stays as long as they do.
    if (!e->ring.buffer)
        status =
            vk_buffer_create(d, RING_BYTES, VK_MEMORY_READBACK, "the ring of tokens", &e->ring);
    if (status == PM_OK) vk_write_step(e, &a->step);
    if (status == PM_OK) status = fill_queue(e);
    if (status != PM_OK) vk_ahead_end(e);
    return status;
}

pm_status vk_ahead_next(exec *e, exec_choice *choice)
{
    struct vk_ahead *a = e->ahead;
    assert(a && a->n_queued > 0);
    pm_status status = vk_wait(a->queue[0]);
    a->n_queued--;
    memmove(a->queue, a->queue + 1, a->n_queued * sizeof *a->queue);
    if (status == PM_OK) status = fill_queue(e);
    if (status == PM_OK) status = vk_invalidate(e->device, &e->ring, 0, RING_BYTES);
    if (status != PM_OK) return status;
    uint32_t row[4];
    memcpy(row, e->ring.mapped + a->told % RING_SIZE * sizeof row, sizeof row);
    assert(row[1] == a->told && row[0] < e->set->n_vocab);
    *choice = (exec_choice){.id = (int32_t)row[0], .certain = row[2] != 0};
    a->told++;
    return PM_OK;
}

void vk_ahead_end(exec *e)
{
    struct vk_ahead *a = e->ahead;
    if (!a) return;
    for (uint32_t i = 0; i < a->n_queued; i++)
        if (!atomic_load(&e->device->lost)) (void)vk_wait(a->queue[i]);
    e->ahead = NULL;
    free(a);
}
