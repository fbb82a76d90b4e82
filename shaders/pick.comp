#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// PICK: one workgroup a marked row. The largest logits are found by radix selection, a byte of the
// key a pass: the key is the logit in an order that integers have, then the id from the lowest up,
// so that equal logits keep the lowest ids. Then a bitonic sort of the selected ones.
#include "common.glsl"
#include "q8.glsl"
#include "reduce.glsl"

layout(set = 0, binding = 0, std430) readonly buffer Logits { float logits[]; };
layout(set = 0, binding = 1, std430) buffer Picks { uint picks[]; };
layout(push_constant) uniform Push { push_pick p; };

const uint N_TOP = 256u, HEADER = 5u, PICK_WORDS = HEADER + 2u * N_TOP;

shared uint histogram[256];
shared uint top_key[N_TOP], top_id[N_TOP];
shared uint n_selected, chosen_byte, n_chosen, n_left, not_finite;

bool is_nan(uint bits)
{
    return (bits & 0x7fffffffu) > 0x7f800000u;
}

// Larger float: larger unsigned key. Both zeros are equal.
uint key_of(float x)
{
    uint bits = floatBitsToUint(x);
    if (bits == 0x80000000u) bits = 0u;
    return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}

// Logits first, first + w, ... of a row, on their way at once; behind the end the last.
void load_four(uint base, uint first, out float x[4])
{
    uint w = gl_WorkGroupSize.x, last = p.n_vocab - 1u;
    [[unroll]] for (uint k = 0u; k < 4u; k++) x[k] = logits[base + min(first + k * w, last)];
}

// Of the candidates that match (mask, prefix), how is byte `shift` spread? Then the byte in which
// the n_left-th largest lies, and how many have it.
void choose_byte(uint base, uint key_prefix, uint key_mask, uint id_prefix, uint id_mask,
                 bool of_id, uint shift)
{
    uint tid = gl_LocalInvocationID.x, w = gl_WorkGroupSize.x;
    for (uint i = tid; i < 256u; i += w) histogram[i] = 0u;
    barrier();
    for (uint first = tid; first < p.n_vocab; first += 4u * w) {
        float x[4];
        load_four(base, first, x);
        [[unroll]] for (uint k = 0u; k < 4u; k++) {
            uint i = first + k * w, key = key_of(x[k]), id = ~i;
            if (key_mask == 0u && !is_finite(x[k])) not_finite = 1u;
            if (i < p.n_vocab && !is_nan(floatBitsToUint(x[k])) &&
                (key & key_mask) == key_prefix && (id & id_mask) == id_prefix)
                atomicAdd(histogram[((of_id ? id : key) >> shift) & 0xffu], 1u);
        }
    }
    barrier();
    if (tid == 0u) {
        uint byte = 255u, left = n_left;
        while (byte > 0u && histogram[byte] < left) left -= histogram[byte--];
        chosen_byte = byte;
        n_chosen = histogram[byte];
        n_left = left;
    }
    barrier();
}

void sort_top()
{
    uint tid = gl_LocalInvocationID.x, w = gl_WorkGroupSize.x;
    for (uint size = 2u; size <= N_TOP; size *= 2u) {
        for (uint stride = size / 2u; stride > 0u; stride /= 2u) {
            for (uint i = tid; i < N_TOP; i += w) {
                uint j = i ^ stride;
                if (j <= i) continue;
                bool larger = top_key[j] > top_key[i] ||
                              (top_key[j] == top_key[i] && top_id[j] < top_id[i]);
                if (larger == ((i & size) == 0u)) {
                    uint k = top_key[i], id = top_id[i];
                    top_key[i] = top_key[j];
                    top_id[i] = top_id[j];
                    top_key[j] = k;
                    top_id[j] = id;
                }
            }
            barrier();
        }
    }
}

void pick_row(uint row)
{
    uint tid = gl_LocalInvocationID.x, w = gl_WorkGroupSize.x;
    uint base = row * p.n_vocab, n_top = min(N_TOP, p.n_vocab);
    if (tid == 0u) {
        n_left = n_top;
        n_selected = 0u;
        not_finite = 0u;
    }
    for (uint i = tid; i < N_TOP; i += w) {
        top_key[i] = 0u;
        top_id[i] = 0xffffffffu;
    }
    barrier();

    uint key_prefix = 0u, key_mask = 0u, id_prefix = 0u, id_mask = 0u;
    for (int shift = 24; shift >= 0; shift -= 8) {
        choose_byte(base, key_prefix, key_mask, 0u, 0u, false, uint(shift));
        key_prefix |= chosen_byte << uint(shift);
        key_mask |= 0xffu << uint(shift);
    }
    // Where all that are equal to the last one are wanted, as nearly always, no id decides.
    bool some_of_equals = n_chosen != n_left;
    for (int shift = 24; some_of_equals && shift >= 0; shift -= 8) {
        choose_byte(base, key_prefix, key_mask, id_prefix, id_mask, true, uint(shift));
        id_prefix |= chosen_byte << uint(shift);
        id_mask |= 0xffu << uint(shift);
    }
    for (uint first = tid; first < p.n_vocab; first += 4u * w) {
        float x[4];
        load_four(base, first, x);
        [[unroll]] for (uint k = 0u; k < 4u; k++) {
            uint i = first + k * w, key = key_of(x[k]);
            bool below = key < key_prefix || (key == key_prefix && ~i < id_prefix);
            if (i >= p.n_vocab || below || is_nan(floatBitsToUint(x[k]))) continue;
            uint at = atomicAdd(n_selected, 1u);
            if (at >= N_TOP) continue;
            top_key[at] = key;
            top_id[at] = i;
        }
    }
    barrier();
    sort_top();

    uint out_at = row * PICK_WORDS;
    float best = logits[base + min(top_id[0], p.n_vocab - 1u)], sum = 0.0;
    for (uint first = tid; first < p.n_vocab; first += 4u * w) {
        float x[4];
        load_four(base, first, x);
        [[unroll]] for (uint k = 0u; k < 4u; k++)
            sum += mix(0.0, exp(max(x[k] - best, -80.0)), first + k * w < p.n_vocab);
    }
    sum = workgroup_sum(sum);
    for (uint i = tid; i < n_top; i += w) {
        bool there = top_id[i] < p.n_vocab;
        picks[out_at + HEADER + i] = there ? top_id[i] : 0u;
        picks[out_at + HEADER + N_TOP + i] =
            there ? floatBitsToUint(logits[base + top_id[i]]) : 0u;
    }
    if (tid == 0u) {
        picks[out_at] = top_id[0] < p.n_vocab ? top_id[0] : 0u;
        picks[out_at + 1u] = floatBitsToUint(best);
        picks[out_at + 2u] = floatBitsToUint(best + log(sum));
        picks[out_at + 3u] = not_finite == 0u ? 1u : 0u;
        picks[out_at + 4u] = min(n_selected, n_top);
    }
}

void main()
{
    for (uint i = gl_WorkGroupID.x; i < p.n_rows && p.first_row + i < step_n_logits();
         i += gl_NumWorkGroups.x) {
        pick_row(i);
        barrier();
    }
}
