// What the host tells a dispatch, declared once for C and GLSL. At most 128 bytes each; everything
// counts 32-bit words or values. Read by exec/vulkan as C, by the shaders as GLSL.
#ifndef PUMICE_PUSH_H
#define PUMICE_PUSH_H

#ifndef VULKAN // C; the shader compiler defines it
#include <stdint.h>
#define uint uint32_t
#endif

// out = a + b for n columns from ..._col on; ..._stride values lie between rows.
struct push_add {
    uint n;
    uint a_col, a_stride;
    uint b_col, b_stride;
    uint out_col, out_stride;
};

#ifndef VULKAN
#undef uint
#endif
#endif
