// Models of any shape with random weights: their text is noise; size, speed and file are those of
// real ones. The same shape and seed give the same bytes everywhere.
#ifndef PUMICE_MAKE_MAKE_H
#define PUMICE_MAKE_MAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gguf/gguf.h"

// ---- shape.c: which tensors a model has -------------------------------------------------------

typedef struct make_arch_row make_arch_row;

typedef struct make_arch {
    const char *name, *pre;           // its name in GGUF; a pre-tokenizer that goes with it
    const char *eps_key;              // behind "ARCH."
    float eps, freq_base;             // freq_base 0: no rotation
    bool has_kv_heads;                // false: as many as heads
    const make_arch_row *top, *layer; // tensors outside of and in each layer, in the file's order
} make_arch;

typedef struct make_shape {
    const make_arch *arch;
    uint32_t n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab, n_ctx;
    uint32_t type, embd_type; // of matrices; of token table and output
    bool tied;                // no output.weight
    bool published;           // the published SmolLM3-3B Q8_0: also its descriptive keys
    const char *name;         // general.name of what is not published; NULL: "random"
    uint64_t seed;
} make_shape;

typedef enum make_fill {
    MAKE_FILL_EMBD,   // token table, output, positions
    MAKE_FILL_MATRIX, // std 1 / sqrt(cols): keeps the size of a normed row
    MAKE_FILL_OUT,    // writes to the residual row: less, the more layers there are
    MAKE_FILL_NORM,   // near 1
    MAKE_FILL_BIAS,   // near 0
} make_fill;

typedef struct make_tensor {
    char name[64];
    uint32_t type, n_dims;
    uint64_t dims[2];
    make_fill fill;
    uint64_t offset, bytes; // in the data, as the writer places it
} make_tensor;

const make_arch *make_arch_named(const char *name); // NULL: unknown
const make_arch *make_arch_at(size_t index);        // NULL past the end
make_shape make_smollm3_3b(void); // Q8_0, without what only the published file says of itself
// To be released with free.
pm_status make_tensors(const make_shape *s, make_tensor **tensors, size_t *n);

// ---- vocab.c ----------------------------------------------------------------------------------

// A tokenizer: copied from another file, or made up (byte-level BPE).
typedef struct make_vocab {
    const gguf *from; // not NULL: its tokenizer.* keys, and nothing below
    uint32_t n_tokens;
    gguf_string *tokens, *merges;
    int32_t *types;
    uint64_t n_merges;
    uint32_t bos, eos, pad;
    char *text; // what the strings point into
} make_vocab;

// n_tokens from 272 to about 475,000.
pm_status make_vocab_new(uint32_t n_tokens, make_vocab *v);
pm_status make_vocab_copy(const gguf *from, make_vocab *v);
void make_vocab_free(make_vocab *v);

// ---- keys.c -----------------------------------------------------------------------------------

typedef struct make_key {
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
} make_key;

enum { MAKE_MAX_KEYS = 96 };

typedef struct make_keys {
    make_key keys[MAKE_MAX_KEYS];
    size_t n;
    bool full; // more would have been needed
} make_keys;

void make_keys_build(make_keys *list, const make_shape *s, const make_vocab *v);
void make_keys_write(const make_keys *list, gguf_writer *w);

// ---- values.c ---------------------------------------------------------------------------------

// Fills rows [first, first + n) of a tensor. A pure function of seed and place: the same for any
// division into rows. n_layer: of the whole model, for what MAKE_FILL_OUT asks for.
typedef struct make_values make_values;
pm_status make_values_open(uint64_t seed, const make_tensor *t, uint32_t n_layer,
                           make_values **out);
void make_values_rows(make_values *w, uint64_t first, uint64_t n, void *dst);
void make_values_close(make_values *w); // accepts NULL

// ---- file.c -----------------------------------------------------------------------------------

// Everything that a file is made of.
typedef struct make_parts {
    make_shape shape;
    make_vocab vocab;
    make_keys keys;
    make_tensor *tensors;
    size_t n_tensors;
    uint64_t bytes; // of the tensors' data
} make_parts;

// `from` (NULL: a made-up vocabulary of shape->n_vocab tokens) outlives the parts.
pm_status make_parts_new(const make_shape *shape, const gguf *from, make_parts **out);
void make_parts_free(make_parts *p); // accepts NULL

// Writes them in pieces: start, then next until *done, which is when the file is there. Closing an
// unfinished one leaves nothing behind.
typedef struct make_file make_file;
pm_status make_file_start(const char *path, const make_parts *parts, make_file **out);
pm_status make_file_next(make_file *f, bool *done);
double make_file_part(const make_file *f); // done, from 0 to 1
void make_file_close(make_file *f);        // accepts NULL

// Is it the file that these parts make? Looks at all keys and tensors, and in the data at the first
// and the last row of every tensor.
bool make_file_is(const gguf *g, const make_parts *parts);

#endif
