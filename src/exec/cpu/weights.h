// Weights of the CPU executor: loaded once, repacked for the kernels, shared by sessions.
#ifndef PUMICE_EXEC_CPU_WEIGHTS_H
#define PUMICE_EXEC_CPU_WEIGHTS_H

#include "base/os.h"
#include "exec/cpu/kernels.h"
#include "exec/exec.h"

// A tensor of the model as it lies in memory.
typedef struct cpu_tensor {
    bool loaded;
    const float *vector; // [rows * cols] of a vector; NULL of a matrix
    uint64_t n_values;   // of a vector
    cpu_weight matrix;
} cpu_tensor;

struct exec_weights {
    const cpu_kernels *kernels;
    int n_threads;
    char description[128];
    uint32_t n_tensors;
    cpu_tensor *tensors;
    uint8_t *memory; // everything
    uint64_t bytes;
    os_thread *gatherer; // makes huge pages of `memory` while cores are idle
    os_mutex *settling;  // held by who waits for it
    atomic_bool stop_gathering;
};

// One block of a file taken apart: the integers in the order of the row, and what scales them.
typedef struct cpu_block {
    uint8_t q[256];
    uint16_t d, m;
    uint8_t sub[16], sub_min[16];
} cpu_block;

typedef struct cpu_repack {
    cpu_format format;
    uint32_t block_values, block_bytes;
    void (*take)(const uint8_t *bytes, cpu_block *out);
} cpu_repack;

// How a format is repacked for the integer kernels; NULL: it is kept as floats. Every format of
// src/quant but the floats has a way.
const cpu_repack *cpu_repack_of(quant_type type);

// Lays out a matrix; false where sizes overflow or rows are no whole blocks. data stays NULL.
bool cpu_weight_plan(cpu_weight *w, quant_type type, uint32_t rows, uint32_t cols, uint64_t *bytes);
// Puts rows [16 group, ...) in the file's form in their place; n_rows at most 16.
void cpu_weight_fill(cpu_weight *w, uint32_t group, const uint8_t *rows, uint32_t n_rows);
// Row `row` as floats; memory: CPU_CHUNK * CPU_LANES floats.
void cpu_weight_row(const cpu_kernels *k, const cpu_weight *w, uint32_t row, float *out,
                    float *memory);

pm_status cpu_load(const exec_params *params, const plan_tensor *tensors, uint32_t n,
                   const bool *wanted, const exec_source *source, exec_weights **out);
void cpu_settle(exec_weights *w);
void cpu_unload(exec_weights *w);

#endif
