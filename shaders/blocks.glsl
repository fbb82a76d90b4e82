// Outputs of a workgroup as q8: what it has put into `tile`, [n_chunk][TILE] (both of the including
// shader), becomes blocks.
#ifndef PUMICE_BLOCKS_GLSL
#define PUMICE_BLOCKS_GLSL

#include "sync.glsl"

// The tile's rows [0, tile_rows) as blocks: row `row` of the weight is its first.
void write_blocks(uint row, uint tile_rows, uint first, uint n_rows,
                  uint n_chunk)
{
    sync();
    uint n_blocks = min(tile_rows, p.rows[0] - row) / 32u;
    for (uint i = gl_LocalInvocationIndex; i < n_blocks * n_chunk; i += WORKGROUP) {
        uint n = i / n_blocks, b = i % n_blocks;
        if (first + n >= n_rows) continue;
        uint from = n * TILE + 32u * b, to = (first + n) * p.out_stride;
        uint col = p.out_col[0] + row + 32u * b;
        float amax = 0.0, inverse;
        for (uint k = 0u; k < 32u; k++) amax = amax_of(amax, tile[from + k]);
        o_words[to + p.out_scales + col / 32u] = floatBitsToUint(q8_scale(amax, inverse));
        for (uint k = 0u; k < 32u; k += 4u)
            o_words[to + (col + k) / 4u] =
                q8_pack(vec4(tile[from + k], tile[from + k + 1u], tile[from + k + 2u],
                             tile[from + k + 3u]),
                        inverse);
    }
    sync();
}

#endif
