#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// The row after a greedy one, made on the device so that it needs no host: its token is the arg max
// of the only logits (the lowest id among equals), its position is one further. Each choice also
// goes to a ring that the host reads when it gets there. One workgroup.
#include "common.glsl"
#include "q8.glsl"

layout(set = 0, binding = 0, std430) readonly buffer Logits { float logits[]; };
layout(set = 0, binding = 1, std430) buffer NextStep { uvec4 next[]; }; // what Step shows
layout(set = 0, binding = 2, std430) writeonly buffer Ring { uvec4 ring[]; };
layout(push_constant) uniform Push { push_next p; };

shared uint best_key[1024], best_id[1024];
shared uint not_finite;

// Larger float: larger unsigned key; both zeros are equal. NaN loses against everything.
uint key_of(float x)
{
    uint bits = floatBitsToUint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0u;
    if (bits == 0x80000000u) bits = 0u;
    return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}

bool comes_before(uint key, uint id, uint other_key, uint other_id)
{
    return key > other_key || (key == other_key && id < other_id);
}

void main()
{
    uint tid = gl_LocalInvocationID.x, w = gl_WorkGroupSize.x, last = p.n_vocab - 1u;
    if (tid == 0u) not_finite = 0u;
    barrier();
    uint key = 0u, id = min(tid, last);
    for (uint first = tid; first < p.n_vocab; first += 4u * w) {
        float x[4]; // four loads on their way at once
        [[unroll]] for (uint k = 0u; k < 4u; k++) x[k] = logits[min(first + k * w, last)];
        [[unroll]] for (uint k = 0u; k < 4u; k++) {
            uint i = min(first + k * w, last), key_i = key_of(x[k]);
            if (!is_finite(x[k])) not_finite = 1u;
            if (comes_before(key_i, i, key, id)) {
                key = key_i;
                id = i;
            }
        }
    }
    best_key[tid] = key;
    best_id[tid] = id;
    barrier();
    for (uint n = w / 2u; n > 0u; n /= 2u) {
        if (tid < n && comes_before(best_key[tid + n], best_id[tid + n], best_key[tid], best_id[tid])) {
            best_key[tid] = best_key[tid + n];
            best_id[tid] = best_id[tid + n];
        }
        barrier();
    }
    if (tid == 0u) {
        uvec4 row = next[1]; // token, position, slot, n_kv
        ring[row.y % p.ring_size] = uvec4(best_id[0], row.y, not_finite == 0u ? 1u : 0u, 0u);
        next[1] = uvec4(best_id[0], row.y + 1u, row.z, row.w + 1u);
    }
}
