#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef ONE_SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
// ATTEND: one workgroup takes N queries that share a key-value head (heads of its group, then rows)
// and a part of the keys, TILE at a time with an online softmax (Milakov and Gimelshein 2018): the
// largest score, the sum and the weighted values so far are rescaled when a larger score comes.
// Several parts leave partial results that attend_merge joins. Grid: (parts, heads of the cache
// piece, tiles of queries).
//
// For scores an invocation computes R keys of its own for all queries, for results four columns: so
// a key or a value is loaded once for N queries. Variant ONE_SUBGROUP, where a processor plays the device
// and each word that a lane loads costs the same: what all lanes need is loaded once, a word each,
// and handed around.
#include "common.glsl"
#include "activation.glsl"
#include "cache.glsl"
#include "sync.glsl"

layout(constant_id = 1) const uint CACHE_TYPE = CACHE_F16;
layout(constant_id = 2) const uint TILE = 64u; // keys at a time, a multiple of R * W
layout(constant_id = 3) const uint N = 1u;
layout(constant_id = 4) const uint HEAD_DIM = 64u;
layout(constant_id = 5) const uint R = 1u;
layout(constant_id = 6) const bool Q_VEC4 = true; // queries begin at 16 bytes
layout(constant_id = 7) const bool HAS_SOFTCAP = true;
layout(constant_id = 8) const bool DIRECT = true; // results, no parts
layout(constant_id = 9) const bool OUT_Q8 = false;
layout(set = 0, binding = 0, std430) readonly buffer Q { float q[]; };
layout(set = 0, binding = 0, std430) readonly buffer Q4 { vec4 q4[]; };
layout(set = 0, binding = 1, std430) readonly buffer K { uint k_cache[]; };
layout(set = 0, binding = 2, std430) readonly buffer V { uint v_cache[]; };
layout(set = 0, binding = 3, std430) buffer Out { float o[]; }; // f32 rows, or partial results
layout(set = 0, binding = 3, std430) buffer OutWords { uint o_words[]; }; // q8 rows
layout(push_constant) uniform Push { push_attend p; };

const uint W = gl_WorkGroupSize.x;
const uint FOURS = HEAD_DIM / 4u;
const float MASKED = -1e30;

shared uint query_at[N];           // where a query begins
shared uint key_first[N], key_end[N]; // the keys that it sees; none: it isn't there
shared float score[N * TILE];
shared float best[N], sum[N], rescale[N];
shared float total[N * HEAD_DIM]; // weighted values so far
shared float part[gl_WorkGroupSize.x];

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
    return q8_unpack(k_cache[at + i]) * uintBitsToFloat(k_cache[at + FOURS + i / 8u]);
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
    return q8_unpack(v_cache[at + i]) * uintBitsToFloat(v_cache[at + FOURS + i / 8u]);
}

vec4 query4(uint at)
{
    return Q_VEC4 ? q4[at / 4u] : vec4(q[at], q[at + 1u], q[at + 2u], q[at + 3u]);
}

// ---- the queries ------------------------------------------------------------------------------

// Query n of tile z: row and head of the model.
uint row_of(uint z, uint n)
{
    return p.first_row + (z * N + n) / p.group;
}

uint head_of(uint z, uint n, uint kv_head)
{
    return kv_head * p.group + (z * N + n) % p.group;
}

// Puts down where the tile's queries are and what they see of the keys [begin, end).
void place_queries(uint z, uint kv_head, uint slot, uint begin, uint end)
{
    uint row_end = min(p.first_row + p.n_rows, step_n_rows());
    for (uint n = gl_LocalInvocationID.x; n < N; n += W) {
        uint r = min(row_of(z, n), row_end - 1u), n_kv = step.rows[r].w;
        bool there = row_of(z, n) < row_end && step.rows[r].z == slot;
        uint first = p.window != 0u && n_kv > p.window ? n_kv - p.window : 0u;
        query_at[n] = r * p.q_stride + p.q_col + head_of(z, n, kv_head) * HEAD_DIM;
        key_first[n] = max(first, begin);
        key_end[n] = there ? min(n_kv, end) : 0u;
        best[n] = MASKED;
        sum[n] = 0.0;
    }
    for (uint i = gl_LocalInvocationID.x; i < N * HEAD_DIM; i += W) total[i] = 0.0;
    sync();
}

// ---- one tile of keys -------------------------------------------------------------------------

// score[n][k] of the keys [begin, end), at most TILE; MASKED where the query does not see the key.
void make_scores(uint cache_row, uint begin, uint end)
{
    uint lane = gl_LocalInvocationID.x;
#ifdef ONE_SUBGROUP
    const uint PER_LOAD = W / 4u; // queries whose four values one load of all lanes brings
    const uint LOADS = (N + PER_LOAD - 1u) / PER_LOAD;
    uint at[LOADS];
    [[unroll]] for (uint j = 0u; j < LOADS; j++)
        at[j] = query_at[min(j * PER_LOAD + lane / 4u, N - 1u)] + lane % 4u;
#else
    uint at[N];
    [[unroll]] for (uint n = 0u; n < N; n++) at[n] = query_at[n];
#endif
    for (uint k0 = begin; k0 < end; k0 += R * W) {
        float s[R * N];
        uint row[R];
        [[unroll]] for (uint j = 0u; j < R * N; j++) s[j] = 0.0;
        [[unroll]] for (uint r = 0u; r < R; r++)
            row[r] = cache_row + min(k0 + r * W + lane, end - 1u);
        for (uint i = 0u; i < FOURS; i++) {
            vec4 k[R];
            [[unroll]] for (uint r = 0u; r < R; r++) k[r] = key4(row[r], i);
#ifdef ONE_SUBGROUP
            float mine[LOADS];
            [[unroll]] for (uint j = 0u; j < LOADS; j++) mine[j] = q[at[j] + 4u * i];
#endif
            [[unroll]] for (uint n = 0u; n < N; n++) {
#ifdef ONE_SUBGROUP
                float from = mine[n / PER_LOAD];
                uint first = n % PER_LOAD * 4u;
                vec4 x = vec4(subgroupShuffle(from, first), subgroupShuffle(from, first + 1u),
                              subgroupShuffle(from, first + 2u), subgroupShuffle(from, first + 3u));
#else
                vec4 x = query4(at[n] + 4u * i);
#endif
                [[unroll]] for (uint r = 0u; r < R; r++) s[r * N + n] += dot(x, k[r]);
            }
        }
        [[unroll]] for (uint n = 0u; n < N; n++) {
            [[unroll]] for (uint r = 0u; r < R; r++) {
                uint key = k0 + r * W + lane;
                bool seen = key >= key_first[n] && key < key_end[n];
                score[n * TILE + key - begin] = seen ? s[r * N + n] : MASKED;
            }
        }
    }
    sync();
}

// The score of a product of query and key; it rises with it.
float scaled(float product)
{
    float s = product * p.scale;
    return HAS_SOFTCAP ? p.softcap * tanh_by_exp(s / p.softcap) : s;
}

float decay(float from, float to)
{
    float d = from - to;
    return d < -80.0 ? 0.0 : exp(d); // NaN stays
}

// Scores become exp(score - best); what was gathered before is rescaled to the new best. A team of
// invocations for each query, whose parts are put together in order.
void soften(uint n_keys)
{
    const uint TEAM = W > N ? W / N : 1u, TEAMS = W / TEAM;
    uint team = gl_LocalInvocationID.x / TEAM, member = gl_LocalInvocationID.x % TEAM;
    for (uint n0 = 0u; n0 < N; n0 += TEAMS) {
        uint n = n0 + team, at = min(n, N - 1u) * TILE, mate = gl_LocalInvocationID.x - member;
        float m = MASKED, l = 0.0;
        for (uint j = member; j < n_keys; j += TEAM) m = max(m, score[at + j]);
        part[gl_LocalInvocationID.x] = m;
        sync();
        for (uint j = 0u; j < TEAM; j++) m = max(m, part[mate + j]);
        float before = best[min(n, N - 1u)];
        m = m <= MASKED ? before : max(before, scaled(m));
        sync();
        if (n < N) {
            for (uint j = member; j < n_keys; j += TEAM) {
                float s = score[at + j], e = s <= MASKED ? 0.0 : decay(scaled(s), m);
                score[at + j] = e;
                l += e;
            }
        }
        part[gl_LocalInvocationID.x] = l;
        sync();
        if (n < N && member == 0u) {
            for (uint j = 1u; j < TEAM; j++) l += part[mate + j];
            float scale = before <= MASKED ? 0.0 : decay(before, m);
            best[n] = m;
            sum[n] = sum[n] * scale + l;
            rescale[n] = scale;
        }
        sync();
    }
}

void add_total(uint n, uint i, vec4 more)
{
    [[unroll]] for (uint c = 0u; c < 4u; c++) {
        uint at = n * HEAD_DIM + 4u * i + c;
        total[at] = total[at] * rescale[n] + more[c];
    }
}

// Nothing where the query doesn't see the key, whatever lies there: 0 times NaN would be NaN.
vec4 weighed(float weight, vec4 v)
{
    return mix(vec4(0.0), weight * v, notEqual(vec4(weight), vec4(0.0)));
}

// Adds the tile's weighted values. Where a row takes fewer invocations than there are, they share
// the queries.
void weigh(uint cache_row, uint n_keys)
{
    uint lane = gl_LocalInvocationID.x;
#ifdef ONE_SUBGROUP
    for (uint i0 = 0u; i0 < FOURS; i0 += W) {
        uint i = min(i0 + lane, FOURS - 1u);
        vec4 acc[N];
        [[unroll]] for (uint n = 0u; n < N; n++) acc[n] = vec4(0.0);
        for (uint j0 = 0u; j0 < n_keys; j0 += W) {
            float mine[N];
            [[unroll]] for (uint n = 0u; n < N; n++)
                mine[n] = score[n * TILE + min(j0 + lane, n_keys - 1u)];
            uint n_now = min(W, n_keys - j0);
            for (uint j = 0u; j < n_now; j++) {
                vec4 v = value4(cache_row + j0 + j, i);
                [[unroll]] for (uint n = 0u; n < N; n++) acc[n] += weighed(subgroupShuffle(mine[n], j), v);
            }
        }
        if (i0 + lane < FOURS) {
            [[unroll]] for (uint n = 0u; n < N; n++) add_total(n, i, acc[n]);
        }
    }
#else
    const uint GROUPS = W > FOURS ? W / FOURS : 1u, MINE = (N + GROUPS - 1u) / GROUPS;
    uint group = GROUPS > 1u ? lane / FOURS : 0u;
    for (uint i0 = 0u; i0 < FOURS; i0 += W) {
        uint i = GROUPS > 1u ? lane % FOURS : i0 + lane;
        if (i >= FOURS || group >= GROUPS) continue;
        vec4 acc[MINE];
        uint at[MINE];
        [[unroll]] for (uint k = 0u; k < MINE; k++) {
            acc[k] = vec4(0.0);
            at[k] = min(group + k * GROUPS, N - 1u) * TILE;
        }
        for (uint j = 0u; j < n_keys; j++) {
            vec4 v = value4(cache_row + j, i);
            [[unroll]] for (uint k = 0u; k < MINE; k++) acc[k] += weighed(score[at[k] + j], v);
        }
        [[unroll]] for (uint k = 0u; k < MINE; k++)
            if (group + k * GROUPS < N) add_total(group + k * GROUPS, i, acc[k]);
    }
#endif
    sync();
}

// ---- results ----------------------------------------------------------------------------------

// Blocks of the queries' heads, which begin at whole blocks.
void write_blocks(uint z, uint kv_head)
{
    const uint BLOCKS = HEAD_DIM / 32u;
    for (uint i = gl_LocalInvocationID.x; i < N * BLOCKS; i += W) {
        uint n = i / BLOCKS, b = i % BLOCKS, from = n * HEAD_DIM + 32u * b;
        if (key_end[n] <= key_first[n]) continue;
        uint at = row_of(z, n) * q8_row_words(p.out_stride);
        uint block = (p.out_col + head_of(z, n, kv_head) * HEAD_DIM) / 32u + b;
        float amax = 0.0, inverse;
        for (uint k = 0u; k < 32u; k++) amax = amax_of(amax, total[from + k] / sum[n]);
        o_words[at + p.out_stride / 4u + block] = floatBitsToUint(q8_scale(amax, inverse));
        for (uint k = 0u; k < 8u; k++) {
            uint j = from + 4u * k;
            o_words[at + 8u * block + k] = q8_pack(
                vec4(total[j], total[j + 1u], total[j + 2u], total[j + 3u]) / sum[n], inverse);
        }
    }
}

void write_result(uint z, uint kv_head)
{
    if (DIRECT && OUT_Q8) {
        write_blocks(z, kv_head);
        return;
    }
    for (uint i = gl_LocalInvocationID.x; i < N * HEAD_DIM; i += W) {
        uint n = i / HEAD_DIM, d = i % HEAD_DIM, r = row_of(z, n), h = head_of(z, n, kv_head);
        if (key_end[n] <= key_first[n]) continue; // nothing of this part is seen
        if (DIRECT) {
            o[(r - p.out_first) * p.out_stride + p.out_col + h * HEAD_DIM + d] = total[i] / sum[n];
            continue;
        }
        uint at = (((r - p.first_row) * p.n_head + h) * p.n_splits + gl_WorkGroupID.x) *
                  (HEAD_DIM + 4u);
        o[at + 4u + d] = total[i];
        if (d == 0u) {
            o[at] = best[n];
            o[at + 1u] = sum[n];
        }
    }
}

void run(uint z, uint piece_head)
{
    uint cache_head = p.first_head + piece_head, kv_head = cache_head % p.n_head_kv;
    uint begin = gl_WorkGroupID.x * p.split, end = begin + p.split;
    place_queries(z, kv_head, cache_head / p.n_head_kv, begin, end);
    uint first = end, last = begin;
    for (uint n = 0u; n < N; n++) {
        if (key_end[n] <= key_first[n]) continue;
        first = min(first, key_first[n]);
        last = max(last, key_end[n]);
    }
    uint row = piece_head * p.n_ctx;
    for (uint tile = first / TILE * TILE; tile < last; tile += TILE) {
        make_scores(row, tile, min(tile + TILE, last));
        soften(min(TILE, last - tile));
        weigh(row + tile, min(TILE, last - tile));
    }
    write_result(z, kv_head);
    sync();
}

void main()
{
    if (step_n_rows() <= p.first_row) return;
    uint n_rows = min(p.n_rows, step_n_rows() - p.first_row);
    for (uint z = gl_WorkGroupID.z; z * N < n_rows * p.group; z += gl_NumWorkGroups.z)
        run(z, gl_WorkGroupID.y);
}
