// What the host tells a dispatch, declared once for C and GLSL. At most 128 bytes each; everything
// counts 32-bit words or values. Read by exec/vulkan as C, by the shaders as GLSL.
#ifndef PUMICE_PUSH_H
#define PUMICE_PUSH_H

#ifndef VULKAN // C; the shader compiler defines it
#include <stdint.h>
#define uint uint32_t
#endif

// A product of up to 3 weights with rows of x (matvec.comp, matmat.comp). Strides count words.
struct push_linear {
    uint cols;
    uint quant_stride, scale_stride; // of a weight row: 16 bytes, words
    uint rows[3];                    // of each weight; 0: absent
    uint quants[3], scales[3];       // where they begin in the weights' range: 16 bytes, words
    uint bias[3], norm;              // in the vectors' range; PUSH_NONE: absent
    uint out_col[3], out_stride, out_scales; // out_scales: of a q8 row, from the row's begin
    uint x_col, x_stride, x_scales;          // in words; x_scales: of a q8 row, from x_col on
    uint residual_col, residual_stride;
    uint first; // row of the step (or marked row) of the first row of out
    uint n;     // rows of out
    float eps, softcap;
};
#define PUSH_NONE 0xffffffffu
// Flags of a product, a specialization constant (linear.glsl)
#define PUSH_FN       3u  // plan_fn
#define PUSH_GATED    4u  // fn(first weight) * second
#define PUSH_MARKED   8u  // the step's marked rows
#define PUSH_RESIDUAL 16u // + what binding 3 holds
#define PUSH_IN_PLACE 32u // + what out held

// Rows [first_row, first_row + n_rows) of a table.
struct push_embed {
    uint cols;
    uint quants, scales, quant_stride, scale_stride;
    uint first_row, n_rows;
    uint out_col, out_stride;
    uint by_position, add;
    float scale;
};

// out = a + b for n columns from ..._col on; ..._stride values lie between rows.
struct push_add {
    uint n;
    uint a_col, a_stride;
    uint b_col, b_stride;
    uint out_col, out_stride;
};

// n values of 16 bytes, by readers that each take words of their own or every so many-th.
struct push_read {
    uint n, own;
};

#ifdef VULKAN
const uint NONE = 0xffffffffu; // a missing offset; UINT32_MAX in C
#endif

struct push_norm {
    uint n;
    uint x_col, x_stride;
    uint residual_col, residual_stride;
    uint out_col, out_stride;
    uint weight, bias; // words in the vectors' range
    float eps;
};

// Rows [first_row, first_row + n_rows) of the step; those of x count from x_first on.
struct push_activate {
    uint n, fn, has_up, out_q8;
    uint first_row, n_rows, x_first;
    uint x_col, x_stride;
    uint up_col, up_stride;
    uint out_col, out_stride;
};

// Heads [first_head, first_head + n_heads) of [slot][head_kv] lie in the bound pieces.
struct push_rope_kv {
    uint stride, q_col, k_col, v_col;
    uint n_head, n_head_kv, head_dim, n_ctx;
    uint n_rot, neox;
    uint q_norm, k_norm; // words in the table's range; NONE: no norm
    float eps;
    uint first_head, n_heads, write_q;
};

#define ATTEND_MAX_SPLITS 32 // parts of a row's keys; engine/placement.c plans for it
struct push_attend {
    uint q_col, q_stride;
    uint out_col, out_stride;
    uint n_head, n_head_kv, group, head_dim, n_ctx; // group: n_head / n_head_kv
    uint first_head;                                // of the bound pieces
    uint window, n_splits, split;                   // split: keys of a part, a multiple of the tile
    uint out_q8;    // the result: blocks of heads that are whole blocks
    uint out_first; // rows of an f32 result count from it
    uint first_row,
        n_rows; // the step's rows that this dispatch takes; partial results count from 0
    float scale, softcap;
};

// Marked rows [first_row, first_row + n_rows) have their logits in the bound piece.
struct push_pick {
    uint n_vocab, first_row, n_rows;
};

// The row after a greedy one (next.comp).
struct push_next {
    uint n_vocab, ring_size;
};

#ifndef VULKAN
#undef uint
#endif
#endif
