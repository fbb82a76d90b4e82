// exec/devices.h for Vulkan.
#ifndef PUMICE_EXEC_VULKAN_LIST_H
#define PUMICE_EXEC_VULKAN_LIST_H

#include "exec/devices.h"

pm_status vk_list(const exec_gpu *options, exec_device **list, size_t *n, const char **why);
uint64_t vk_tensor_bytes(const plan_tensor *t); // weights.c
pm_status vk_find(const exec_gpu *options, exec_device *out);

#endif
