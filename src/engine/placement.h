// Which layers run where, decided before anything is loaded, from what each device has to hold.
#ifndef PUMICE_ENGINE_PLACEMENT_H
#define PUMICE_ENGINE_PLACEMENT_H

#include "engine/weights.h"
#include "exec/devices.h"
#include "plan/build.h"

enum { PLACEMENT_AUTO = -1, PLACEMENT_ALL = -2 };

typedef struct placement_request {
    const char *device;   // "auto", "reference", "cpu", "vulkan", "vulkan:SELECTOR"
    int64_t gpu_layers;   // PLACEMENT_AUTO, PLACEMENT_ALL, or how many of the last layers
    exec_params params;   // params.gpu holds the options of a GPU; its selector is set here
    plan_options session; // what a session will need beside the weights
} placement_request;

// What a GPU has to hold for the last n layers.
typedef struct placement_need {
    uint64_t weights, kv, buffers, total;
} placement_need;

typedef struct placement {
    weights_part parts[2];
    uint32_t n_parts;
    exec_gpu gpu;        // what params.gpu of a part points to: the placement must not move
    char selector[128];  // what gpu.selector points to
    char device[32];     // the id of where most of the work runs
    char note[512];      // what a user should know of the choice; "": nothing
    placement_need need; // on the GPU; zeroed without one
} placement;

// Without a selector: the best real GPU that holds the whole model, else the cpu (auto); the best
// real GPU (vulkan). PM_ERROR_DEVICE: the device asked for is missing, or what was asked of it does
// not fit (the message has the numbers). PM_ERROR_USAGE: GPU layers on a device without a GPU.
pm_status placement_choose(const model *m, const placement_request *request, placement *out);

// Layers [first_layer, n_layer), the logits, and with first_layer 0 the embedding.
placement_need placement_needs(const model *m, const plan_options *session, uint32_t first_layer);
// The most last layers whose need is at most `available`.
uint32_t placement_layers_that_fit(const model *m, const plan_options *session, uint64_t available);

#endif
