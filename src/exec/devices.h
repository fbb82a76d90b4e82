// The devices that executors on a GPU can use, for listing and for deciding what runs where.
// Without Vulkan in the build, or without a loader or a driver, there are none.
#ifndef PUMICE_EXEC_DEVICES_H
#define PUMICE_EXEC_DEVICES_H

#include "exec/exec.h"

typedef struct exec_device {
    char id[16];        // "vulkan:0": what the option "device" takes; 0 is the best
    char title[320];    // "NAME (DRIVER VERSION)"
    bool software;      // a driver that computes on the CPU: never chosen unasked
    uint64_t memory;    // bytes of the largest device-local heap
    uint64_t available; // of them now, less a margin; UINT64_MAX: unknown (software drivers' heaps
                        // are not true)
    uint64_t max_alloc, max_binding;
} exec_device;

// All devices, best first; *list is released with free, NULL when there are none. *why (may be
// NULL) then points to a static text: "no Vulkan loader". PM_ERROR_RUN when memory runs out.
pm_status exec_devices(const exec_gpu *options, exec_device **list, size_t *n, const char **why);

// The device that a selector means (see exec_gpu.selector; NULL: the best that is no software
// driver). PM_ERROR_DEVICE: none such; the message lists what exists.
pm_status exec_device_find(const exec_gpu *options, exec_device *out);

#endif
