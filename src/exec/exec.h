// The contract of the executors: reference, cpu and vulkan run the same plan.
//
// Weights are loaded once per model and shared by its sessions; a session has a state: the buffers
// of its plan. Buffers are handles (plan.h) with byte ranges, never host pointers. An executor
// implements every op of the plan or refuses it in exec_open; there is no run-time "can you?".
#ifndef PUMICE_EXEC_EXEC_H
#define PUMICE_EXEC_EXEC_H

#include "plan/plan.h"

// Where the values of the model's tensors come from. Thread-safe.
typedef struct exec_source {
    void *arg;
    // The whole tensor in memory that lives as long as the weights; NULL when the file isn't
    // mapped.
    const void *(*map)(void *arg, uint32_t tensor);
    pm_status (*read)(void *arg, uint32_t tensor, uint64_t offset, void *dst, uint64_t n);
    // Bytes that the executor has copied and won't read again: they may leave memory.
    void (*drop)(void *arg, uint32_t tensor, uint64_t offset, uint64_t n);
} exec_source;

// What executors on a GPU are told beyond the plan. All zero: the defaults.
typedef struct exec_gpu {
    const char *selector;  // NULL: the best real GPU; else index, part of a name, or UUID
    const char *disable;   // features not to be used: "subgroup,int8-dot"; NULL: none
    const char *profile;   // as if the device were of this kind: "discrete"; NULL: what it is
    const char *cache_dir; // folder of the pipeline cache; NULL: none is kept
    bool debug_barriers;   // a full barrier after every dispatch
    bool minimum_limits;   // pretend that the device has the specification's minimum only
    uint64_t max_alloc;    // bytes of one allocation; 0: the device's
    uint64_t max_binding;  // bytes of one storage binding; 0: the device's
    double max_submit_ms;  // of one submission; 0: by device type
    bool prepare; // all kernels are made and tested when a state is opened, as users want it; else
                  // each is made when it is first used
    bool pick;    // the short list of PICK is preferred on a driver in the host's memory too
    int ahead;    // rows in work beyond the one that the host waits for; 0: by device
    const char *wrong_kernel; // faults for tests: this kernel computes something else,
    int fail_alloc;           // the n-th allocation fails,
    int fail_pipeline;        // the n-th pipeline can't be made,
    int lose_at_submit;       // the device is lost at the n-th submission,
    int skip_barrier;         // the n-th barrier is left out; 0: never
} exec_gpu;

typedef struct exec_params {
    int n_threads;   // of executors on the CPU
    const char *isa; // cpu: NULL or "auto" picks at run time; "plain", "avx2", "avx512" force one
    const exec_gpu *gpu;    // of executors on a GPU; NULL: the defaults
    const plan_set *layout; // a plan of this model, whose ops say which tensors are used together
                            // and in which order; NULL: not known. Needed only during load.
} exec_params;

// What an executor that decodes ahead has chosen.
typedef struct exec_choice {
    int32_t id;   // arg max of the row's logits, the lowest id among equals
    bool certain; // all logits were finite
} exec_choice;

typedef struct exec_weights exec_weights; // immutable, shared between threads
typedef struct exec exec;                 // one thread at a time

// Which ops a state runs: those of layers [first_layer, end_layer) and, with `outer`, those outside
// layers that adjoin them: the embedding where layer 0 is among them, what follows the layers where
// the last one is.
static inline bool exec_has_op(const plan_set *set, const plan_op *op, uint32_t first_layer,
                               uint32_t end_layer, bool outer)
{
    if (op->layer >= 0)
        return (uint32_t)op->layer >= first_layer && (uint32_t)op->layer < end_layer;
    if (!outer) return false;
    return op->kind == PLAN_EMBED ? first_layer == 0 : end_layer == set->n_layer;
}

// One row in the table of executors.
typedef struct exec_kind {
    const char *name; // "reference", "cpu"
    // Loads the tensors i with wanted[i] (of n) and keeps them. Failure leaves nothing behind.
    pm_status (*load)(const exec_params *params, const plan_tensor *tensors, uint32_t n,
                      const bool *wanted, const exec_source *source, exec_weights **out);
    // Optional. Finishes what goes on behind loading, in idle cores, to make running faster: before
    // speed is measured.
    void (*settle)(exec_weights *w);
    void (*unload)(exec_weights *w);
    uint64_t (*weight_bytes)(const exec_weights *w); // memory that they take, mapped pages aside
    const char *(*describe)(const exec_weights *w);  // variant in use: "AVX2, 2 threads"
    bool (*prefers_q8)(const exec_weights *w);       // is act=q8 what suits it?
    // Optional. Measures what the device reads from its memory, by reading far more than its caches
    // hold; needs up to 1 GiB beside the weights for a moment, less where there is less. NULL: the
    // device's memory is the host's (proof/bandwidth.h measures that).
    pm_status (*bandwidth)(exec_weights *w, double *bytes_per_second);
    // Optional. The i-th thing that users should see (a kernel that had to be replaced by a simpler
    // one); NULL past the last. Opening states can add to them; texts live as long as the weights.
    const char *(*warning)(const exec_weights *w, uint32_t i);

    // A session's state for the ops that exec_has_op says. Fails with PM_ERROR_FILE or
    // PM_ERROR_DEVICE where an op can't be run. The set outlives the state. Buffers start zeroed.
    pm_status (*open)(exec_weights *w, const plan_set *set, uint32_t first_layer,
                      uint32_t end_layer, bool outer, exec **out);
    void (*close)(exec *e);
    // Optional. What opening took, for people: "41 kernels, 41 of them made in 0.52 s".
    const char *(*prepared)(const exec *e);
    // Runs ops [first, first + count) of the plan for the step's rows; returns when results can be
    // read. n_rows of the step is at most p->max_rows.
    pm_status (*run)(exec *e, const plan *p, uint32_t first, uint32_t count, const plan_step *step);
    // Bytes [offset, offset + n) of a buffer. q8 rows and the cache in their stored form.
    pm_status (*read)(exec *e, int buffer, uint64_t offset, void *dst, uint64_t n);
    pm_status (*write)(exec *e, int buffer, uint64_t offset, const void *src, uint64_t n);

    // Optional: greedy decoding ahead of the host. ahead_begin takes a step of one row and runs ops
    // [first, first + count), which end with LOGITS, for it and then, without being asked, for the
    // row after: its token is the arg max of the logits, its position one further; and so on, for
    // n_steps rows in all. ahead_next waits for one row after the other and tells what its logits
    // chose. ahead_end, due after a begin whatever followed, waits for the rows that are still in
    // work and forgets them: what they wrote lies at positions behind the last row that was told,
    // where it is never read and will be written again. In between nothing else may be called for
    // this state but close.
    pm_status (*ahead_begin)(exec *e, const plan *p, uint32_t first, uint32_t count,
                             const plan_step *step, uint32_t n_steps);
    pm_status (*ahead_next)(exec *e, exec_choice *choice);
    void (*ahead_end)(exec *e);
    // Optional. Would ahead_begin do it for this state?
    bool (*can_ahead)(const exec *e);

    // Optional. Is the host so far away that whoever draws should take what PICK lists, where that
    // is enough, and leave all logits where they are?
    bool (*prefers_pick)(const exec *e);

    // Optional. As run; seconds[i] is what op first + i took by the device's own clock. Time stamps
    // are masked to their valid bits, differences taken modulo these bits (so that a counter that
    // wraps between them counts right) and multiplied by the period. An op whose stamps the device
    // did not write gets a negative time. NULL: the device has no clock (exec_run_timed then takes
    // the host's time); an executor whose device lacks one gives negative times.
    pm_status (*run_timed)(exec *e, const plan *p, uint32_t first, uint32_t count,
                           const plan_step *step, double *seconds);
    // Optional. How many dispatches run would record for these ops. NULL: it has no dispatches.
    uint32_t (*n_dispatches)(exec *e, const plan *p, uint32_t first, uint32_t count,
                             const plan_step *step);
    // Optional, for reports: appends which kernels run would take for op `index`, with their
    // variants: "linear_few(64,4,2)". NULL: there is nothing to choose from.
    pm_status (*kernels)(exec *e, const plan *p, uint32_t index, const plan_step *step, buf *out);
} exec_kind;

extern const exec_kind exec_reference; // exec/reference
extern const exec_kind exec_cpu;       // exec/cpu
extern const exec_kind exec_vulkan;    // exec/vulkan, where it is built (PUMICE_VULKAN)

// NULL when there is none of that name.
const exec_kind *exec_kind_named(const char *name);

// Runs ops [first, first + count) with the seconds of each: by run_timed where the executor has it,
// with `host` (or without run_timed) op by op by the host's clock. *plausible is false where the
// device's times cannot be right: one is negative or not finite, all are zero, or they are longer
// together than the host waited. The ops have run then all the same; whoever wants times runs the
// whole measurement again with `host` and says so.
pm_status exec_run_timed(const exec_kind *kind, exec *e, const plan *p, uint32_t first,
                         uint32_t count, const plan_step *step, bool host, double *seconds,
                         bool *plausible);

#endif
