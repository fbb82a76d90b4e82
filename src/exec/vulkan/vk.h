// Between the files of exec/vulkan only: device, memory, pipelines, recording.
//
//   loader.c    the loader library, instances, what the drivers tell about each device
//   select.c    which device: pure functions over a table of what the drivers report
//   profile.c   limits and features in use, the device-profile table: pure functions too
//   device.c    opening and closing, submissions, faults
//   memory.c    memory types (pure), room, buffers
//   transfer.c  upload, download, clear
//   specialize.c  shader code for one set of constants
//   pipeline.c  shaders that CMake embedded, pipelines, the cache file
//   cache.c     files in the cache folder
//   kernels.c   which kernels can't be used, which are tested; remarks for users
//   arena.c     many ranges in few allocations
//   record.c    dispatches into command buffers: descriptors, derived barriers, timestamps
//   weights.c   the model's tensors, repacked into planes in arenas
//   linear.c    LINEAR, LOGITS, EMBED, QUANTIZE as dispatches
//   ops.c       the other operations as dispatches
//   prepare.c   all kernels of a state: made, tested, replaced by simpler ones
//   ahead.c     greedy decoding that does not wait for the host
//   bandwidth.c  what the device reads a second
//   selftest.c  one small operation on the device and on the reference
//   vulkan.c    the executor: states, recordings by bucket, steps, reads and writes
#ifndef PUMICE_EXEC_VULKAN_VK_H
#define PUMICE_EXEC_VULKAN_VK_H

#include <stdatomic.h>
#include <volk.h>

#include "base/os.h"
#include "exec/exec.h"

// ---- what the drivers tell --------------------------------------------------------------------

// One physical device in the table that the choice is made from.
typedef struct vk_candidate {
    char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
    VkPhysicalDeviceType type;
    uint32_t vendor_id, device_id;
    uint32_t driver_id;   // VkDriverId; 0: not told
    uint32_t api_version; // Vulkan 1.0 devices can't be used
    uint8_t uuid[VK_UUID_SIZE];
    uint8_t luid[VK_LUID_SIZE];
    bool has_luid, has_pci;
    uint32_t pci[4];      // domain, bus, device, function
    uint64_t local_bytes; // largest device-local heap
    bool translated;      // the driver speaks to another API underneath
    bool computes;        // has a compute queue
} vk_candidate;

// The devices that can be used, best first, without second entries of the same card: their numbers
// in `c` go to order[n]; returns how many. The result does not depend on the order in `c`.
uint32_t vk_rank(const vk_candidate *c, uint32_t n, uint32_t *order);
// NULL: the first that is no software driver. Else an index into that ranking, a UUID, a PCI
// address ("0000:01:00.0" or "01:00.0"), or a part of the name in any case. PM_ERROR_DEVICE lists
// what exists.
pm_status vk_select(const vk_candidate *c, uint32_t n, const char *selector, uint32_t *chosen);
bool vk_is_software(const vk_candidate *c);
const char *vk_type_name(VkPhysicalDeviceType type); // "discrete", ...
void vk_uuid_text(const uint8_t uuid[VK_UUID_SIZE], char text[37]);

// All about one physical device that is asked before it is opened.
typedef struct vk_probe {
    VkPhysicalDevice physical;
    vk_candidate candidate;
    VkPhysicalDeviceProperties properties;
    VkPhysicalDeviceMemoryProperties memory;
    char driver[VK_MAX_DRIVER_NAME_SIZE];         // "llvmpipe"
    char driver_version[VK_MAX_DRIVER_INFO_SIZE]; // "Mesa 22.3.6 (LLVM 15.0.6)", else "1.2.3"
    char title[320];                              // "NAME (DRIVER VERSION)"
    uint64_t max_alloc, max_buffer;
    uint32_t queue_family, timestamp_bits;
    uint32_t subgroup_size, subgroup_min, subgroup_max;
    uint32_t subgroup_size_stages; // stages where the size can be asked for
    uint32_t max_subgroups;        // of a workgroup, where the size is asked for
    bool subgroup;                 // arithmetic and shuffle in compute
    bool subgroup_size_control, full_subgroups;
    bool int8_dot, int8_dot_fast;
    bool memory_budget, portability_subset;
} vk_probe;

// PM_ERROR_DEVICE when there is no loader or no usable instance.
pm_status vk_instance_create(VkInstance *out);
void vk_instance_destroy(VkInstance instance); // accepts NULL
// All physical devices of an instance; release with free. None is no error.
pm_status vk_probe_all(VkInstance instance, vk_probe **out, uint32_t *n);

// ---- device -----------------------------------------------------------------------------------

// Everything that decides a grid, a binding or an allocation. With `minimum_limits` the
// specification's required minimum.
typedef struct vk_limits {
    uint64_t max_alloc;       // bytes of one buffer and its VkDeviceMemory: also at most 1 GiB
    uint64_t max_binding;     // bytes of one storage buffer binding
    uint64_t storage_align;   // of a storage binding's offset; at least 16
    uint32_t max_groups[3];   // at most 65,535 each
    uint32_t max_invocations; // of a workgroup
    uint32_t max_shared;      // bytes of a workgroup
    uint32_t max_subgroups;   // of a workgroup whose subgroup size is asked for; 0: no limit
    uint32_t subgroup_size;   // 0: no subgroup operations
    double timestamp_ns;      // of one tick; 0: no timestamps
    uint64_t timestamp_mask;  // valid bits
} vk_limits;

// Optional features in use: present, wanted, and not switched off.
typedef struct vk_features {
    bool subgroup;      // arithmetic and shuffle in compute
    bool subgroup_size; // VK_EXT_subgroup_size_control: workgroups are made of full subgroups
    bool int8_dot;      // VK_KHR_shader_integer_dot_product
    bool memory_budget; // VK_EXT_memory_budget
    bool timestamps;
    bool mapped; // device memory is written by the host where it can be
    bool ahead;  // greedy decoding does not wait for the host
    bool pick;   // whoever draws takes what PICK lists, where that is enough
} vk_features;

// Found on the device; then what of it is used. PM_ERROR_USAGE for an unknown name in
// options->disable ("all" is one).
vk_features vk_features_found(const vk_probe *p);
pm_status vk_features_used(const vk_probe *p, const exec_gpu *options, vk_features *out);
// PM_ERROR_USAGE when max_alloc or max_binding is below its floor.
enum { VK_MIN_MAX_ALLOC = 1 << 20, VK_MIN_MAX_BINDING = 1 << 18 };
pm_status vk_limits_used(const vk_probe *p, const exec_gpu *options, const vk_features *features,
                         vk_limits *out);
// The i-th feature by its name for --vk-disable; NULL past the last.
const char *vk_feature_name(uint32_t i);
bool vk_feature_value(const vk_features *f, uint32_t i);

// What suits a kind of device; one row of the table in device.c.
typedef struct vk_profile {
    const char *name;
    uint32_t matvec_invocations;       // of a workgroup of the mat-vec
    uint32_t matvec_rows;              // weight rows that one subgroup computes at once
    uint32_t matmat_rows, matmat_cols; // tile: weight rows, step rows
    uint32_t attend_split;             // keys that one workgroup of decode attention takes
    bool watchdog;                     // keep submissions short
    bool act_q8;                       // 8-bit activations are the default
    bool lane_rows;                    // a lane computes rows of its own (matrow.comp)
} vk_profile;

const vk_profile *vk_profile_for(const vk_probe *p);
// The one that the options name, else that. PM_ERROR_USAGE: there is none of that name.
pm_status vk_profile_used(const vk_probe *p, const exec_gpu *options, const vk_profile **out);

typedef struct vk_pipelines vk_pipelines;
typedef struct vk_transfer vk_transfer;
typedef struct vk_kernels vk_kernels;

// Shared by the weights and states that use it; all but the marked fields are constant.
typedef struct vk_device {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue; // guarded by `lock`
    uint32_t queue_family;
    VkPhysicalDeviceProperties properties;
    VkPhysicalDeviceMemoryProperties memory;
    vk_probe probe;
    char title[320]; // "NAME (DRIVER VERSION)": begins every message about the device
    bool software;   // its memory is the host's, its heap sizes mean nothing
    vk_limits limits;
    vk_features features;
    const vk_profile *profile;
    exec_gpu options; // texts not kept
    char *cache_dir;  // NULL: no files are kept
    char wrong_kernel[64];
    os_mutex *lock;
    _Atomic double pace; // of submissions: measured over estimated time
    _Atomic bool lost;   // sticky
    _Atomic int n_allocs, n_pipelines_made, n_submits, n_barriers; // for injected faults
    _Atomic uint64_t bytes_used, heap_used[VK_MAX_MEMORY_HEAPS];
    vk_transfer *transfer; // staging buffers and their commands
    vk_pipelines *pipelines;
    vk_kernels *kernels; // what is known of them
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout pipeline_layout;
} vk_device;

pm_status vk_device_open(const exec_gpu *options, vk_device **out);
void vk_device_close(vk_device *d); // accepts NULL

// PM_ERROR_DEVICE "TITLE: WHAT: VK_ERROR_..."; a lost device is remembered.
pm_status vk_fail(vk_device *d, const char *what, VkResult result);
const char *vk_result_name(VkResult result);
// PM_ERROR_DEVICE once the device is lost, else PM_OK.
pm_status vk_alive(vk_device *d);
// vkQueueSubmit under the lock: counted, refused once the device is lost, lost where a test wants
// it. All submissions go through here. After a failure the device is idle.
pm_status vk_queue_submit(vk_device *d, const VkSubmitInfo *submit, VkFence fence);
pm_status vk_fence_wait(vk_device *d, VkFence fence, const char *what);
// A memory barrier; left out where a test wants that one missing.
void vk_barrier(vk_device *d, VkCommandBuffer c, VkPipelineStageFlags src_stage,
                VkAccessFlags src_access, VkPipelineStageFlags dst_stage, VkAccessFlags dst_access);

// ---- memory -----------------------------------------------------------------------------------

typedef enum vk_memory_kind {
    VK_MEMORY_DEVICE,   // fast for the device
    VK_MEMORY_SHARED,   // written by the host, read by the device, coherent (steps)
    VK_MEMORY_READBACK, // written by the device, read by the host, cached where possible
    VK_MEMORY_STAGING,  // written by the host, copied from by the device
} vk_memory_kind;

// The memory type for a kind among those allowed; -1: none. *coherent: no flush needed. Asked again
// without the type that it gave, it gives the next best.
int vk_choose_memory_type(const VkPhysicalDeviceMemoryProperties *memory, uint32_t allowed,
                          vk_memory_kind kind, bool *coherent);

// What can still be allocated in a heap. Saturates: a budget above the heap is the heap, usage
// above the budget leaves nothing. Without the extension (budget 0) the own use is subtracted, an
// eighth is kept for others, and *known is false.
uint64_t vk_heap_room(uint64_t heap_bytes, uint64_t budget, uint64_t usage, uint64_t own,
                      bool *known);
// The same from what the driver tells now; `own`: bytes of ours in that heap.
uint64_t vk_room_now(VkPhysicalDevice physical, bool has_budget, uint32_t heap,
                     const VkMemoryHeap *heaps, uint64_t own, bool *known);
// The same for the heap that VK_MEMORY_DEVICE buffers come from, now. UINT64_MAX on a software
// driver: its heap sizes mean nothing.
uint64_t vk_device_room(vk_device *d, bool *known);

// One VkBuffer with an allocation of its own: arenas, not single tensors.
typedef struct vk_buffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint64_t bytes;
    char *mapped; // NULL: the host doesn't write or read it directly
    bool coherent;
    VkMemoryPropertyFlags flags; // of its memory type
    uint32_t heap;
    uint64_t allocated; // bytes of the allocation
} vk_buffer;

// PM_ERROR_DEVICE when there is no memory (the message has the numbers). `what` names it there.
// The content is undefined.
pm_status vk_buffer_create(vk_device *d, uint64_t bytes, vk_memory_kind kind, const char *what,
                           vk_buffer *out);
void vk_buffer_destroy(vk_device *d, vk_buffer *b); // accepts a zeroed one

// [*offset, *offset + *n) widened to multiples of `atom` inside an allocation of `total` bytes.
void vk_atom_range(uint64_t atom, uint64_t total, uint64_t *offset, uint64_t *n);
// After the host has written, before it reads mapped memory; nothing to do where it is coherent.
pm_status vk_flush(vk_device *d, const vk_buffer *b, uint64_t offset, uint64_t n);
pm_status vk_invalidate(vk_device *d, const vk_buffer *b, uint64_t offset, uint64_t n);

// A range of a buffer, as a dispatch binds it.
typedef struct vk_range {
    const vk_buffer *buffer; // NULL: nothing
    uint64_t offset, bytes;  // offset is a multiple of storage_align
} vk_range;

// Copies to and from device memory, through staging where it isn't mapped; return when done. The
// device must not be using that range. Downloads always contain the device-to-host barrier.
// Thread-safe.
pm_status vk_upload(vk_device *d, const vk_buffer *b, uint64_t offset, const void *src, uint64_t n);
pm_status vk_download(vk_device *d, const vk_buffer *b, uint64_t offset, void *dst, uint64_t n);
pm_status vk_clear(vk_device *d, const vk_buffer *b); // fills with zeros

pm_status vk_transfer_create(vk_device *d); // by device_open
void vk_transfer_destroy(vk_device *d);

// ---- pipelines --------------------------------------------------------------------------------

// Every shader has the same interface: storage buffers at bindings 0 to 3, the step at binding 4
// as a uniform buffer, 128 bytes of push constants, specialization constants from id 0 on.
enum { VK_N_STORAGE = 4, VK_PUSH_BYTES = 128, VK_MAX_SPEC = 12 };

// A shader's name is its file's, with its variant: "matvec_q8_0_q8" (cmake/shaders.cmake).
typedef struct vk_shader {
    const char *name;
    const uint32_t *code;
    size_t bytes;
} vk_shader;
const vk_shader *vk_shader_named(const char *name); // NULL: none such
const vk_shader *vk_shader_at(size_t i);            // NULL past the last
uint64_t vk_shaders_hash(void);                     // of all code
// How many pipelines this process has made of it: tests want to have met every kernel.
uint32_t vk_shader_uses(const vk_shader *shader);

typedef struct vk_pipeline_key {
    const vk_shader *shader;
    uint32_t n_spec;
    uint32_t spec[VK_MAX_SPEC]; // by convention spec[0] is the workgroup's size
} vk_pipeline_key;

// The shader's code with the key's values as plain constants; release with free. Not left to the
// driver: SwiftShader folds none, and needs minutes and gigabytes for what takes half a second.
pm_status vk_specialize(const vk_pipeline_key *key, uint32_t **code, size_t *bytes);

// The pipeline, made on first use and kept by the device. Thread-safe. PM_ERROR_DEVICE names the
// kernel, which is then not to be chosen any more (vk_shader_is_bad).
pm_status vk_pipeline_get(vk_device *d, const vk_pipeline_key *key, VkPipeline *out);

// A list of keys, none twice. Zeroed: empty; `keys` is released with free.
typedef struct vk_keys {
    vk_pipeline_key *keys;
    size_t n, cap;
} vk_keys;
pm_status vk_keys_add(vk_keys *list, const vk_pipeline_key *key);
// Makes those of a list that aren't there yet, on several threads; *n_made (may be NULL): how many.
pm_status vk_pipelines_make(vk_device *d, const vk_keys *list, size_t *n_made);

// The cache file: read at device_open where it is this device's, whole and unchanged; written
// (beside and renamed) by this when pipelines were made since. That it can't be written is no
// error.
void vk_pipelines_save(vk_device *d);

pm_status vk_pipelines_create(vk_device *d); // by device_open
void vk_pipelines_destroy(vk_device *d);

// ---- files in the cache folder (cache.c) ------------------------------------------------------

// What this device with this driver wrote, whole and unchanged, to be released with free; else
// NULL. what: "cache", the name's end.
char *vk_cache_read(const vk_device *d, const char *what, size_t *n);
// Written beside and renamed. false: it could not be, which is no error.
bool vk_cache_write(const vk_device *d, const char *what, const void *data, size_t n);

// ---- what is known of kernels (kernels.c) ------------------------------------------------------

// Kernels that this device can't make, or that its self-test found wrong: whoever chooses takes a
// simpler one, or fails with vk_bad_shader's message. Thread-safe, all of these.
void vk_mark_bad(vk_device *d, const vk_shader *shader, const char *why);
bool vk_shader_is_bad(vk_device *d, const vk_shader *shader);
uint32_t vk_n_bad(vk_device *d);
pm_status vk_bad_shader(vk_device *d, const vk_shader *shader);

// Kernels that the self-test found right, now or in an earlier run of this build (a file beside the
// pipeline cache says so).
bool vk_is_tested(vk_device *d, const vk_pipeline_key *key);
void vk_set_tested(vk_device *d, const vk_pipeline_key *key);
void vk_kernels_save(vk_device *d);

// One warning for each bad kernel that there is none of yet: others have taken their places.
void vk_warn_of_bad(vk_device *d);
// What users should see of a device, in the order it came up; NULL past the last. A text stays as
// long as the device.
const char *vk_warning(vk_device *d, uint32_t i);

pm_status vk_kernels_create(vk_device *d); // by device_open
void vk_kernels_destroy(vk_device *d);

// ---- recording --------------------------------------------------------------------------------

typedef struct vk_binding {
    vk_range range; // buffer NULL: not bound (a small dummy is)
    bool reads, writes;
} vk_binding;

typedef struct vk_dispatch {
    const char *label; // for timestamps and messages
    vk_pipeline_key key;
    vk_binding bind[VK_N_STORAGE];
    const void *push;
    uint32_t push_bytes;
    uint32_t groups[3];
} vk_dispatch;

// Cuts a list of ops into submissions of at most limit_ms by estimates, which `pace` corrects:
// measured over estimated time. Pure functions.
typedef struct vk_splitter {
    double limit_ms, pace, filled_ms;
} vk_splitter;
// Must the submission end before this op? Then the next one begins with it.
bool vk_split_before(vk_splitter *s, double estimated_ms);
// Slices of this op that keep the limit.
uint32_t vk_split_slices(const vk_splitter *s, double estimated_ms);
// The pace after a run of which both times are known: moves towards what was measured, upwards at
// once.
double vk_pace_after(double pace, double estimated_ms, double measured_ms);

// A list of dispatches recorded once and submitted any number of times. Barriers follow from the
// bindings: before a dispatch that overlaps what earlier ones wrote (or that writes what they
// read) since the last barrier.
typedef struct vk_recording vk_recording;

// step: the range of the step block, bound to every dispatch. `timed`: timestamps around every
// dispatch where the device has them.
pm_status vk_recording_begin(vk_device *d, vk_range step, bool timed, vk_recording **out);
pm_status vk_record(vk_recording *r, const vk_dispatch *dispatch);
// Before an op: where its estimate makes the submission too long, another one begins here (R16).
pm_status vk_recording_may_cut(vk_recording *r, double estimated_ms);
// An op that is too long by itself is to be recorded in so many slices, each behind a
// vk_recording_cut (R17); 1: it is not.
uint32_t vk_recording_slices(const vk_recording *r);
pm_status vk_recording_cut(vk_recording *r);
uint32_t vk_recording_n_submissions(const vk_recording *r);
// Has the device turned out to be so much slower since it was recorded that it would be cut
// otherwise now?
bool vk_recording_is_stale(const vk_recording *r);
pm_status vk_recording_end(vk_recording *r);
// One that only collects the keys of what is recorded, without doubles; can't be submitted.
pm_status vk_recording_of_keys(vk_device *d, vk_keys *keys, vk_recording **out);
void vk_recording_free(vk_recording *r); // accepts NULL; not while it runs
uint32_t vk_recording_n_dispatches(const vk_recording *r);

// Submits and returns. Results in mapped memory are visible to the host after the wait.
// A recording may be submitted again before the last run was waited for; each wait is for the
// oldest run not waited for yet.
pm_status vk_submit(vk_recording *r);
pm_status vk_wait(vk_recording *r);
// Seconds of dispatch i in the last run, by timestamps; negative: not known.
double vk_recording_seconds(const vk_recording *r, uint32_t i);
const char *vk_recording_label(const vk_recording *r, uint32_t i);

// ---- arenas -----------------------------------------------------------------------------------

// Many ranges in few allocations: first every size is announced, then the memory is made, none of
// it larger than the device allows.
typedef struct vk_arena {
    struct vk_arena_item {
        uint64_t bytes, offset;
        uint32_t buffer;
    } *items;
    size_t n_items, cap;
    vk_buffer *buffers;
    uint32_t n_buffers;
    bool failed; // out of memory on the host
} vk_arena;
// Returns the item's number. bytes: at most vk_largest_range.
size_t vk_arena_add(vk_arena *a, uint64_t bytes);
pm_status vk_arena_make(vk_device *d, vk_arena *a, const char *what);
vk_range vk_arena_range(const vk_arena *a, size_t item);
void vk_arena_free(vk_device *d, vk_arena *a);
// What one binding of one allocation can hold.
uint64_t vk_largest_range(const vk_device *d);

// ---- weights ----------------------------------------------------------------------------------

// Rows [row, row + rows) of a matrix in device memory. All of a piece lies in `range`, which a
// dispatch binds; neighbours that an op uses together share one range. Offsets are in 32-bit words
// from the range's start.
typedef struct vk_piece {
    vk_range range;
    uint32_t row, rows;      // of the tensor
    uint32_t quants, scales; // planes, see shaders/quant.glsl
} vk_piece;

struct exec_weights {
    vk_device *device;
    uint32_t n_tensors;
    plan_tensor *tensors;     // a copy
    struct vk_tensors *store; // weights.c
    char description[512];
    uint64_t bytes;
};

pm_status vk_weights_load(vk_device *d, const exec_params *params, const plan_tensor *tensors,
                          uint32_t n, const bool *wanted, const exec_source *source,
                          exec_weights *w);
void vk_weights_unload(exec_weights *w);
// The pieces that hold rows of a plan_weight, in rising order of rows; at most `max` are written,
// the number of all is returned.
uint32_t vk_weight_pieces(const exec_weights *w, plan_weight weight, vk_piece *pieces,
                          uint32_t max);
// A vector tensor as f32; the range begins with its element 0. All vectors lie in one arena, in the
// model's order: those of an op can be bound as one range.
vk_range vk_weight_vector(const exec_weights *w, int tensor);

// ---- executor state ---------------------------------------------------------------------------

// A plan buffer in device memory, whole or cut into pieces of rows_per_piece of its rows (logits
// by row, K and V by slot and head).
typedef struct vk_store {
    uint32_t n_pieces, rows_per_piece;
    uint64_t row_bytes; // on the device: of q8 rows more than the plan's
    vk_range *pieces;   // n_pieces; NULL: not in this state
} vk_store;

// Rows of q8 (activations and the q8_0 cache) have a layout of their own on the device, of whole
// words: n/4 words of quants, then n/32 scales as f32, padded to 16 bytes (shaders/q8.glsl).
// exec.read and exec.write speak of Q8_0 blocks, as the plan does.
static inline uint32_t vk_q8_row_words(uint32_t n)
{
    return n / 4 + (n / QUANT_Q8_VALUES + 3) / 4 * 4;
}

struct exec {
    exec_weights *weights;
    vk_device *device;
    const plan_set *set;
    vk_store *bufs;      // [n_bufs]
    vk_arena arena;      // behind bufs, scratch and constants
    vk_range scratch;    // partial results of attention and pick
    vk_range *constants; // rotation tables (vk_constant_of says which); the last one, of the layers
                         // without rotation, has no angles. Behind each lie the weights of the
                         // per-head norms: Q and K of layer 0, of layer 1, ...
    vk_buffer step;      // the plan_step, shared memory
    struct vk_recorded *recorded; // kept recordings
    uint32_t n_recorded;
    char prepared[160];     // what opening it took, for people
    struct vk_ahead *ahead; // NULL: does not decode ahead
    vk_buffer ring;         // where the host follows it; made on first use
};

// The number of a constant tensor in exec.constants; of PLAN_NONE: the last one's.
uint32_t vk_constant_of(const plan_set *set, int tensor);

// What an op is recorded for: the most rows, marked rows and keys of a step that will run it.
typedef struct vk_extent {
    uint32_t n_rows, n_logits, n_kv;
} vk_extent;

// Records one op as dispatches. linear.c and ops.c.
pm_status vk_emit_linear(exec *e, vk_recording *r, const plan_op *op, vk_extent extent);
pm_status vk_emit_logits(exec *e, vk_recording *r, const plan_op *op, vk_extent extent);
pm_status vk_emit_embed(exec *e, vk_recording *r, const plan_op *op, vk_extent extent);
pm_status vk_emit_op(exec *e, vk_recording *r, const plan_op *op, vk_extent extent); // any op
// The ops that a state runs, as exec_has_op says.
typedef struct vk_layers {
    uint32_t first, end;
    bool outer;
} vk_layers;
// Makes and tests all kernels that the state can need (R22, R28). Those that can't be made or are
// wrong give way to simpler ones, with a warning; PM_ERROR_DEVICE where there is no simpler one
// (R19).
pm_status vk_prepare(exec *e, vk_layers layers);
pm_status vk_collect_keys(exec *e, vk_layers layers, vk_keys *keys); // what it would make
// Runs a small form of an op, on the kernels that it runs on in steps of this extent, against the
// reference. Kernels that are right are remembered as tested; else one is marked bad and counted.
pm_status vk_self_test(vk_device *d, const plan_set *set, const plan *p, const plan_op *op,
                       vk_extent extent, uint32_t *n_wrong);
// The same for the choice of decoding ahead, behind a small form of the plan's LOGITS.
pm_status vk_self_test_choice(vk_device *d, const plan_set *set, const plan_op *logits,
                              const vk_pipeline_key *key, uint32_t *n_wrong);
// A state without kernels yet; vulkan.c.
pm_status vk_state_open(exec_weights *w, const plan_set *set, vk_layers layers, exec **out);
vk_extent vk_extent_of(const exec *e, const plan *p, const plan_step *step);
pm_status vk_bandwidth(exec_weights *w, double *bytes_per_second); // exec_kind.bandwidth
bool vk_prefers_pick(const exec *e);
// Decoding ahead of the host (ahead.c).
bool vk_can_ahead(const exec *e);
pm_status vk_ahead_begin(exec *e, const plan *p, uint32_t first, uint32_t count,
                         const plan_step *step, uint32_t n_steps);
pm_status vk_ahead_next(exec *e, exec_choice *choice);
void vk_ahead_end(exec *e);
// The last dispatch of such a recording: chooses, and makes the next row of the step.
pm_status vk_emit_next(exec *e, vk_recording *r);
// The kept recording of ops for steps of this extent, made where there is none yet; vulkan.c.
// `ahead`: with vk_emit_next behind it.
pm_status vk_kept_recording(exec *e, const plan *p, uint32_t first, uint32_t count, vk_extent x,
                            bool ahead, vk_recording **out);
// Frees kept recordings where there is no room for n more: at most VK_KV_BUCKETS for one row.
enum { VK_KV_BUCKETS = 32 };
void vk_forget_recordings(exec *e, uint32_t n);
void vk_write_step(exec *e, const plan_step *step);
// Bytes of scratch that the ops of a set want at most.
uint64_t vk_scratch_bytes(const vk_device *d, const plan_set *set);
// Refuses what can't be run (formats, shapes) before anything is allocated.
pm_status vk_check_op(const vk_device *d, const plan_set *set, const plan_op *op);

#endif
