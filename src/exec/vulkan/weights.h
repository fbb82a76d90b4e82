// Between weights.c, repack.c and linear.c: how a matrix lies in device memory.
#ifndef PUMICE_EXEC_VULKAN_WEIGHTS_H
#define PUMICE_EXEC_VULKAN_WEIGHTS_H

#include "exec/vulkan/vk.h"

// The format's name in the names of shaders ("q8_0"); NULL: no shader decodes it.
const char *vk_format_name(quant_type type);
// The i-th format that shaders decode, as users know it; NULL past the last.
const char *vk_format_at(size_t index);

// Words that a row takes in each of the two planes (shaders/quant.glsl).
typedef struct vk_planes {
    uint64_t quants; // a multiple of 4
    uint64_t scales;
} vk_planes;
vk_planes vk_planes_of(quant_type type, uint32_t cols);
void vk_repack_row(quant_type type, const void *row, uint32_t cols, uint32_t *quants,
                   uint32_t *scales);

#endif
