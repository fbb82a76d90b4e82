#include "exec/devices.h"

#ifdef PUMICE_VULKAN
#include "exec/vulkan/list.h"
#endif

pm_status exec_devices(const exec_gpu *options, exec_device **list, size_t *n, const char **why)
{
    *list = NULL;
    *n = 0;
    if (why) *why = "no Vulkan in this build";
#ifdef PUMICE_VULKAN
    return vk_list(options, list, n, why);
#else
    (void)options;
    return PM_OK;
#endif
}

pm_status exec_device_find(const exec_gpu *options, exec_device *out)
{
#ifdef PUMICE_VULKAN
    return vk_find(options, out);
#else
    (void)options;
    *out = (exec_device){.id = ""};
    return error_set(PM_ERROR_DEVICE, "no Vulkan device support in this build");
#endif
}

pm_status exec_device_bandwidth(const exec_gpu *options, double *bytes_per_second)
{
    const exec_kind *kind = exec_kind_named("vulkan");
    if (!kind) return error_set(PM_ERROR_DEVICE, "no Vulkan device support in this build");
    exec_params params = {.gpu = options};
    plan_tensor none;
    bool wanted = false;
    exec_weights *empty = NULL;
    pm_status status = kind->load(&params, &none, 0, &wanted, NULL, &empty);
    if (status == PM_OK) status = kind->bandwidth(empty, bytes_per_second);
    kind->unload(empty);
    return status;
}

uint64_t exec_gpu_tensor_bytes(const plan_tensor *t)
{
#ifdef PUMICE_VULKAN
    return vk_tensor_bytes(t);
#else
    return t->rows * t->row_bytes;
#endif
}

uint64_t exec_gpu_q8_row_bytes(uint32_t n)
{
    return n + ((uint64_t)n / 32 + 3) / 4 * 16; // quants, then scales as f32
}
