// The parts of make_model: shapes and tensors, keys, vocabularies, weights.
#ifndef TOOLS_MAKE_MODEL_H
#define TOOLS_MAKE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gguf/gguf.h"

// ---- shape.c: which tensors a model has -------------------------------------------------------

typedef struct arch_row arch_row;

typedef struct arch {
    const char *name, *pre;      // its name in GGUF; a pre-tokenizer that goes with it
    const char *eps_key;         // behind "ARCH."
    float eps, freq_base;        // freq_base 0: no rotation
    bool has_kv_heads;           // false: as many as heads
    const arch_row *top, *layer; // tensors outside of and in each layer, in the file's order
} arch;

typedef struct shape {
    const arch *arch;
    uint32_t n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab, n_ctx;
    uint32_t type, embd_type; // of matrices; of token table and output
    bool tied;                // no output.weight
    bool published;           // the published SmolLM3-3B Q8_0: also its descriptive keys
    uint64_t seed;
} shape;

typedef enum fill {
    FILL_EMBD,   // token table, output, positions
    FILL_MATRIX, // std 1 / sqrt(cols): keeps the size of a normed row
    FILL_OUT,    // writes to the residual row: less, the more layers there are
    FILL_NORM,   // near 1
    FILL_BIAS,   // near 0
} fill;

typedef struct tensor_spec {
    char name[64];
    uint32_t type, n_dims;
    uint64_t dims[2];
    fill fill;
    uint64_t offset, bytes; // in the data, as the writer places it
} tensor_spec;

const arch *arch_named(const char *name); // NULL: unknown
const arch *arch_at(size_t index);        // NULL past the end
// To be released with free.
pm_status shape_tensors(const shape *s, tensor_spec **tensors, size_t *n);

// ---- vocab.c ----------------------------------------------------------------------------------

// A tokenizer: copied from another file, or made up (byte-level BPE).
typedef struct vocab {
    const gguf *from; // not NULL: its tokenizer.* keys, and nothing below
    uint32_t n_tokens;
    gguf_string *tokens, *merges;
    int32_t *types;
    uint64_t n_merges;
    uint32_t bos, eos, pad;
    char *text; // what the strings point into
} vocab;

// n_tokens from 272 to about 475,000.
pm_status vocab_make(uint32_t n_tokens, vocab *v);
pm_status vocab_copy(const gguf *from, vocab *v);
void vocab_free(vocab *v);

// ---- keys.c -----------------------------------------------------------------------------------

typedef struct key {
    char name[96];
    gguf_type type, item_type;
    const char *text;
    uint32_t number;
    float real;
    const gguf_string *strings;
    const int32_t *ints;
    uint64_t n; // items of an array
    const gguf *from;
    const gguf_value *copy; // not NULL: this value of `from`
} key;

enum { MAX_KEYS = 96 };

typedef struct key_list {
    key keys[MAX_KEYS];
    size_t n;
    bool full; // more would have been needed
} key_list;

void keys_build(key_list *list, const shape *s, const vocab *v);
void keys_write(const key_list *list, gguf_writer *w);
void keys_print(const key_list *list); // a line each: name, type, value

// ---- weights.c --------------------------------------------------------------------------------

// Fills rows [first, first + n) of tensor number `index`. The same for any division into rows.
typedef struct weights weights;
pm_status weights_create(const shape *s, const tensor_spec *t, size_t index, weights **out);
void weights_rows(weights *w, uint64_t first, uint64_t n, void *dst);
void weights_destroy(weights *w); // accepts NULL

#endif
