// The devices that executors on a GPU can use, for listing and for deciding what runs where.
// Without Vulkan in the build, or without a loader or a driver, there are none.
#ifndef PUMICE_EXEC_DEVICES_H
#define PUMICE_EXEC_DEVICES_H

#include "exec/exec.h"

typedef struct exec_device_value {
    const char *name; // static
    uint64_t value;
} exec_device_value;

typedef struct exec_device_feature {
    const char *name; // for exec_gpu.disable; static
    bool found, used;
} exec_device_feature;

typedef struct exec_device_heap {
    uint64_t bytes;
    bool device_local;
} exec_device_heap;

typedef struct exec_device {
    char id[16];        // "vulkan:0": what the option "device" takes; 0 is the best
    char title[320];    // "NAME (DRIVER VERSION)"
    bool software;      // a driver that computes on the CPU: never chosen unasked
    uint64_t memory;    // bytes of the largest device-local heap
    uint64_t available; // of them now, less a margin; UINT64_MAX: unknown (software drivers' heaps
                        // are not true)
    uint64_t max_alloc, max_binding;

    // For `devices`.
    char name[256], driver[256], driver_version[256];
    const char *type; // "discrete", "integrated", "virtual", "software", "other"; static
    uint32_t vendor_id, device_id;
    char api_version[32]; // "1.3.230"
    char uuid[37];        // "6d657361-3232-..."
    char pci[20];         // "0000:01:00.0"; "" where the driver doesn't tell
    uint32_t n_heaps, n_limits, n_features;
    exec_device_heap heaps[16];
    exec_device_value limits[12]; // in use
    exec_device_feature features[12];
} exec_device;

// All devices, best first; *list is released with free, NULL when there are none. *why (may be
// NULL) then points to a static text: "no Vulkan loader". PM_ERROR_RUN when memory runs out,
// PM_ERROR_USAGE for options that no device can have. options may be NULL.
pm_status exec_devices(const exec_gpu *options, exec_device **list, size_t *n, const char **why);

// What a GPU has to hold for a tensor, and for a row of n values of a q8_0 cache: formats lie
// there in a layout of their own. Alignment is counted.
uint64_t exec_gpu_tensor_bytes(const plan_tensor *t);
uint64_t exec_gpu_q8_row_bytes(uint32_t n);

// The device that a selector means (see exec_gpu.selector; NULL: the best that is no software
// driver). PM_ERROR_DEVICE: none such; the message lists what exists.
pm_status exec_device_find(const exec_gpu *options, exec_device *out);

// What such a device reads from its memory (exec_kind.bandwidth), with nothing loaded.
pm_status exec_device_bandwidth(const exec_gpu *options, double *bytes_per_second);

#endif
