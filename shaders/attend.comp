#version 450
#extension GL_GOOGLE_include_directive : require
// ATTEND: one workgroup takes one row, some query heads that share a key-value head, and a part of
// the keys, TILE at a time with an online softmax (Milakov and Gimelshein 2018): the largest score,
// the sum and the weighted values so far are rescaled when a larger score comes. Several parts leave
// partial results that attend_merge joins. Grid: (parts, head groups of the cache piece, rows).
#include "common.glsl"
#include "activation.glsl"
#include "cache.glsl"

layout(constant_id = 1) const uint CACHE_TYPE = CACHE_F16;
layout(constant_id = 2) const uint TILE = 64u;    // keys at a time
layout(constant_id = 3) const uint HEADS = 1u;    // query heads of a workgroup
layout(constant_id = 4) const uint HEAD_DIM = 64u;
layout(set = 0, binding = 0, std430) readonly buffer Q { float q[]; };
layout(set = 0, binding = 1, std430) readonly buffer K { uint k_cache[]; };
layout(set = 0, binding = 2, std430) readonly buffer V { uint v_cache[]; };
layout(set = 0, binding = 3, std430) buffer Out { float o[]; }; // f32 rows, or partial results
layout(push_constant) uniform Push { push_attend p; };

const uint W = gl_WorkGroupSize.x;
const float MASKED = -1e30;

shared float query[HEADS * HEAD_DIM];
shared float score[HEADS * TILE];
shared float best[HEADS], sum[HEADS], rescale[HEADS];
shared float total[HEADS * HEAD_DIM]; // weighted values so far
shared float part[gl_WorkGroupSize.x * 4];

// Four values of a cache row, from value 4 i on. A constant type: the others fold away.
vec4 key4(uint row, uint i)
{
    if (CACHE_TYPE == CACHE_F32) {
        uint at = row * HEAD_DIM + 4u * i;
        return vec4(uintBitsToFloat(k_cache[at]), uintBitsToFloat(k_cache[at + 1u]),
                    uintBitsToFloat(k_cache[at + 2u]), uintBitsToFloat(k_cache[at + 3u]));
    }
    if (CACHE_TYPE == CACHE_F16) {
        uint at = row * (HEAD_DIM / 2u) + 2u * i;
        return vec4(unpackHalf2x16(k_cache[at]), unpackHalf2x16(k_cache[at + 1u]));
    }
    uint at = row * q8_row_words(HEAD_DIM);
    return q8_unpack(k_cache[at + i]) *
           uintBitsToFloat(k_cache[at + HEAD_DIM / 4u + i / 8u]);
}

vec4 value4(uint row, uint i)
{
    if (CACHE_TYPE == CACHE_F32) {
        uint at = row * HEAD_DIM + 4u * i;
        return vec4(uintBitsToFloat(v_cache[at]), uintBitsToFloat(v_cache[at + 1u]),
                    uintBitsToFloat(v_cache[at + 2u]), uintBitsToFloat(v_cache[at + 3u]));
    }
    if (CACHE_TYPE == CACHE_F16) {
        uint at = row * (HEAD_DIM / 2u) + 2u * i;
        return vec4(unpackHalf2x16(v_cache[at]), unpackHalf2x16(v_cache[at + 1u]));
    }
    uint at = row * q8_row_words(HEAD_DIM);
    return q8_unpack(v_cache[at + i]) *
           uintBitsToFloat(v_cache[at + HEAD_DIM / 4u + i / 8u]);
}

// score[h][k] for the keys [first, end) of the stretch; the rest is masked.
void make_scores(uint cache_row, uint first, uint end, uint begin)
{
    uint tid = gl_LocalInvocationID.x;
    for (uint j = tid; j < TILE; j += W) {
        uint key = begin + j;
        bool seen = key >= first && key < end;
        for (uint h = 0u; h < HEADS; h++) {
            float s = MASKED;
            if (seen) {
                vec4 acc = vec4(0.0);
                for (uint i = 0u; i < HEAD_DIM / 4u; i++) {
                    uint at = h * HEAD_DIM + 4u * i;
                    acc += vec4(query[at], query[at + 1u], query[at + 2u], query[at + 3u]) *
                           key4(cache_row + key, i);
                }
                s = (acc.x + acc.y + acc.z + acc.w) * p.scale;
                if (p.softcap > 0.0) s = p.softcap * tanh_by_exp(s / p.softcap);
            }
            score[h * TILE + j] = s;
        }
    }
    barrier();
}

// Scores become exp(score - best); what was gathered before is rescaled to the new best. One
// invocation a head: the order is always the same.
void soften()
{
    for (uint h = gl_LocalInvocationID.x; h < HEADS; h += W) {
        float before = best[h], m = before, l = 0.0;
        for (uint j = 0u; j < TILE; j++) m = max(m, score[h * TILE + j]);
        for (uint j = 0u; j < TILE; j++) {
            float s = score[h * TILE + j], e = s <= MASKED ? 0.0 : exp(max(s - m, -80.0));
            score[h * TILE + j] = e;
            l += e;
        }
        float scale = before <= MASKED ? 0.0 : exp(max(before - m, -80.0));
        best[h] = m;
        sum[h] = sum[h] * scale + l;
        rescale[h] = scale;
    }
    barrier();
}

// Adds the tile's weighted values of head h: invocations share the keys, their parts are added in
// order.
void weigh(uint h, uint cache_row, uint n_keys)
{
    const uint LANES = HEAD_DIM / 4u; // invocations that cover a row
    uint tid = gl_LocalInvocationID.x;
    uint n_parts = max(W / LANES, 1u);
    for (uint lane0 = 0u; lane0 < LANES; lane0 += W) {
        uint lane = lane0 + tid % min(LANES, W), share = tid / LANES;
        vec4 acc = vec4(0.0);
        if (lane < LANES && share < n_parts)
            for (uint j = share; j < n_keys; j += n_parts)
                acc += score[h * TILE + j] * value4(cache_row + j, lane);
        part[4u * tid] = acc.x;
        part[4u * tid + 1u] = acc.y;
        part[4u * tid + 2u] = acc.z;
        part[4u * tid + 3u] = acc.w;
        barrier();
        if (lane < LANES && share == 0u) {
            for (uint s = 1u; s < n_parts; s++) {
                uint at = 4u * (tid + s * LANES);
                acc += vec4(part[at], part[at + 1u], part[at + 2u], part[at + 3u]);
            }
            for (uint i = 0u; i < 4u; i++) {
                uint at = h * HEAD_DIM + 4u * lane + i;
                total[at] = total[at] * rescale[h] + acc[i];
            }
        }
        barrier();
    }
}

void write_result(uint r, uint h0)
{
    for (uint i = gl_LocalInvocationID.x; i < HEADS * HEAD_DIM; i += W) {
        uint h = i / HEAD_DIM, d = i % HEAD_DIM;
        if (p.direct != 0u) {
            o[r * p.out_stride + p.out_col + (h0 + h) * HEAD_DIM + d] = total[i] / sum[h];
            continue;
        }
        uint at = (((r - p.first_row) * p.n_head + h0 + h) * p.n_splits + gl_WorkGroupID.x) * (HEAD_DIM + 4u);
        o[at + 4u + d] = total[i];
        if (d == 0u) {
            o[at] = best[h];
            o[at + 1u] = sum[h];
        }
    }
}

void run(uint r, uint piece_head, uint h0)
{
    uint tid = gl_LocalInvocationID.x, n_kv = step.rows[r].w;
    uint first = p.window != 0u && n_kv > p.window ? n_kv - p.window : 0u;
    uint begin = gl_WorkGroupID.x * p.split, end = min(begin + p.split, n_kv);
    if (begin >= end || end <= first) return; // nothing of this part is seen
    begin = max(begin, first / TILE * TILE);

    for (uint i = tid; i < HEADS * HEAD_DIM; i += W) {
        query[i] = q[r * p.q_stride + p.q_col + h0 * HEAD_DIM + i];
        total[i] = 0.0;
    }
    for (uint h = tid; h < HEADS; h += W) {
        best[h] = MASKED;
        sum[h] = 0.0;
    }
    barrier();
    uint row = piece_head * p.n_ctx;
    for (uint tile = begin; tile < end; tile += TILE) {
        make_scores(row, first, end, tile);
        soften();
        for (uint h = 0u; h < HEADS; h++) weigh(h, row + tile, min(TILE, end - tile));
    }
    write_result(r, h0);
}

void main()
{
    uint groups_per_kv = p.group / HEADS;
    uint piece_head = gl_WorkGroupID.y / groups_per_kv;
    uint cache_head = p.first_head + piece_head, slot = cache_head / p.n_head_kv;
    uint h0 = (cache_head % p.n_head_kv) * p.group + gl_WorkGroupID.y % groups_per_kv * HEADS;
    uint row_end = min(p.first_row + p.n_rows, step_n_rows());
    for (uint r = p.first_row + gl_WorkGroupID.z; r < row_end; r += gl_NumWorkGroups.z) {
        if (step.rows[r].z == slot) run(r, piece_head, h0);
        barrier();
    }
}
