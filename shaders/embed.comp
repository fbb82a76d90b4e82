#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// EMBED: rows of a table, decoded and scaled, by token; or added, by position. The table may be a
// piece of a larger one: rows that lie in others are left to their dispatches. An invocation per
// load of a row; grid: (loads / workgroup, rows)
#include "common.glsl"
#include "quant.glsl"

layout(set = 0, binding = 1, std430) buffer Out { float o[]; };
layout(push_constant) uniform Push { push_embed p; };

void main()
{
    uint n_loads = (p.cols + 16u * UNITS - 1u) / (16u * UNITS), b = gl_GlobalInvocationID.x;
    if (b >= n_loads) return;
    for (uint r = gl_WorkGroupID.y; r < step_n_rows(); r += gl_NumWorkGroups.y) {
        uint row = (p.by_position != 0u ? step.rows[r].y : step.rows[r].x) - p.first_row;
        if (row >= p.n_rows) continue;
        raw w = load_raw(row_at(p.quants + row * p.quant_stride, p.scales + row * p.scale_stride),
                         b, n_loads);
        [[unroll]] for (uint h = 0u; h < UNITS; h++) {
            vec4 v[4];
#if defined(FLOATS)
            unit_values(w, v);
            vec2 dm = vec2(1, 0);
#else
            vec2 dm = unit_floats(w, h, v);
#endif
            uint col = 16u * (UNITS * b + h), at = r * p.out_stride + p.out_col + col;
            [[unroll]] for (uint k = 0u; k < 16u; k++) {
                if (col + k < p.cols) {
                    float y = (dm.x * v[k >> 2][k & 3u] + dm.y) * p.scale;
                    o[at + k] = mix(y, o[at + k] + y, p.add != 0u);
                }
            }
        }
    }
}
