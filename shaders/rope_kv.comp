#version 450
#extension GL_GOOGLE_include_directive : require
#ifdef ONE_SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#endif
// ROPE_KV: one workgroup a head of Q, K or V of a row: per-head norm, rotation, then back in place
// (Q) or into the cache. Grid: (n_head + 2 n_head_kv, rows). Caches come in pieces of whole heads
// of a slot; a dispatch writes the heads of its piece.
#include "common.glsl"
#include "cache.glsl"
#include "reduce.glsl"

layout(constant_id = 1) const uint CACHE_TYPE = CACHE_F16;
layout(constant_id = 2) const bool HAS_NORMS = true; // of Q or K
layout(set = 0, binding = 0, std430) buffer Qkv { float qkv[]; };
layout(set = 0, binding = 1, std430) readonly buffer Table { float table[]; }; // angles, then norms
layout(set = 0, binding = 2, std430) buffer K { uint k_cache[]; };
layout(set = 0, binding = 3, std430) buffer V { uint v_cache[]; };
layout(push_constant) uniform Push { push_rope_kv p; };

shared float head[1024]; // at most: checked by the host

void normalize(uint weight)
{
    float squares = 0.0;
    for (uint i = gl_LocalInvocationID.x; i < p.head_dim; i += gl_WorkGroupSize.x)
        squares += head[i] * head[i];
    float scale = 1.0 / sqrt(workgroup_sum(squares) / float(p.head_dim) + p.eps);
    for (uint i = gl_LocalInvocationID.x; i < p.head_dim; i += gl_WorkGroupSize.x)
        head[i] = head[i] * scale * table[weight + i];
    sync();
}

void rotate(uint pos)
{
    for (uint i = gl_LocalInvocationID.x; i < p.n_rot / 2u; i += gl_WorkGroupSize.x) {
        uint a = p.neox != 0u ? i : 2u * i, b = p.neox != 0u ? i + p.n_rot / 2u : 2u * i + 1u;
        float c = table[pos * p.n_rot + 2u * i], s = table[pos * p.n_rot + 2u * i + 1u];
        float xa = head[a], xb = head[b];
        head[a] = xa * c - xb * s;
        head[b] = xa * s + xb * c;
    }
    sync();
}

uint pack_word(uint i)
{
    if (CACHE_TYPE == CACHE_F32) return floatBitsToUint(head[i]);
    return half_bits(head[2u * i]) | half_bits(head[2u * i + 1u]) << 16;
}

// Word i of a q8 row; the scales lie behind the quants.
void store_q8_block(uint at, uint b, bool is_v)
{
    float amax = 0.0, inverse;
    for (uint i = 0u; i < 32u; i++) amax = amax_of(amax, head[32u * b + i]);
    uint d = floatBitsToUint(q8_scale(amax, inverse));
    if (is_v)
        v_cache[at + p.head_dim / 4u + b] = d;
    else
        k_cache[at + p.head_dim / 4u + b] = d;
    for (uint i = 0u; i < 8u; i++) {
        uint j = 32u * b + 4u * i;
        uint word = q8_pack(vec4(head[j], head[j + 1u], head[j + 2u], head[j + 3u]), inverse);
        if (is_v)
            v_cache[at + 8u * b + i] = word;
        else
            k_cache[at + 8u * b + i] = word;
    }
}

void store_cache(uint cache_head, uint pos, bool is_v)
{
    uint words = cache_row_words(CACHE_TYPE, p.head_dim);
    uint at = (cache_head * p.n_ctx + pos) * words;
    if (CACHE_TYPE == CACHE_Q8) {
        for (uint b = gl_LocalInvocationID.x; b < p.head_dim / 32u; b += gl_WorkGroupSize.x)
            store_q8_block(at, b, is_v);
        return;
    }
    for (uint i = gl_LocalInvocationID.x; i < words; i += gl_WorkGroupSize.x) {
        if (is_v)
            v_cache[at + i] = pack_word(i);
        else
            k_cache[at + i] = pack_word(i);
    }
}

void run(uint h, uint r)
{
    uint pos = step.rows[r].y, slot = step.rows[r].z;
    bool is_q = h < p.n_head, is_v = h >= p.n_head + p.n_head_kv;
    uint local = is_q ? h : is_v ? h - p.n_head - p.n_head_kv : h - p.n_head;
    uint col = (is_q ? p.q_col : is_v ? p.v_col : p.k_col) + local * p.head_dim;
    // the head's place in the cache piece; beyond it: another dispatch's
    uint cache_head = slot * p.n_head_kv + local - p.first_head;
    if (is_q ? p.write_q == 0u : cache_head >= p.n_heads) return;

    uint at = r * p.stride + col;
    for (uint i = gl_LocalInvocationID.x; i < p.head_dim; i += gl_WorkGroupSize.x)
        head[i] = qkv[at + i];
    sync();
    if (!is_v) {
        uint weight = is_q ? p.q_norm : p.k_norm;
        if (HAS_NORMS && weight != NONE) normalize(weight);
        if (p.n_rot != 0u) rotate(pos);
    }
    if (!is_q) {
        store_cache(cache_head, pos, is_v);
        return;
    }
    for (uint i = gl_LocalInvocationID.x; i < p.head_dim; i += gl_WorkGroupSize.x)
        qkv[at + i] = head[i];
}

void main()
{
    for (uint r = gl_WorkGroupID.y; r < step_n_rows(); r += gl_NumWorkGroups.y) {
        run(gl_WorkGroupID.x, r);
        sync();
    }
}
