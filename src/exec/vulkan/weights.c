// The model's tensors in device memory. Matrices that an op uses together share a range, so that
// one dispatch binds them; what is larger than a binding is cut by rows. Vectors lie as f32 in an
// arena of their own. Tensors are read, repacked and uploaded a few MB at a time.
#include "exec/vulkan/weights.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/vulkan/list.h"

enum { MAX_TOGETHER = 3, CHUNK_BYTES = 2 << 20, MAX_LOADERS = 8 };

// Matrices of one format and width in common ranges: piece i holds rows [i * rows_per_piece, ...)
// of each, all quants of a member, then its scales, then the next member.
typedef struct group {
    uint32_t n, members[MAX_TOGETHER]; // tensors
    uint32_t rows_per_piece, n_pieces;
    size_t first_item; // of the arena
} group;

struct vk_tensors {
    const plan_tensor *tensors;
    group *groups; // [at most n_tensors]
    uint32_t n_groups;
    int32_t *group_of;    // [n_tensors]; -1: not loaded, or a vector
    size_t *vector_items; // [n_tensors]; SIZE_MAX: none
    vk_arena matrices, vectors;
};

// ---- which matrices go together ---------------------------------------------------------------

static void add_group(struct vk_tensors *s, const uint32_t *members, uint32_t n)
{
    if (n == 0) return;
    group *g = &s->groups[s->n_groups];
    *g = (group){.n = n};
    for (uint32_t i = 0; i < n; i++) {
        g->members[i] = members[i];
        s->group_of[members[i]] = (int32_t)s->n_groups;
    }
    s->n_groups++;
}

// The op's matrices that have no place yet.
static void group_op(struct vk_tensors *s, const plan_op *op, const bool *wanted)
{
    uint32_t members[MAX_TOGETHER], n = 0, n_weights = 1;
    const plan_weight *weights;
    switch (op->kind) {
    case PLAN_LINEAR:
        weights = op->u.linear.weight;
        n_weights = op->u.linear.n_weights;
        break;
    case PLAN_LOGITS_OP: weights = &op->u.logits.weight; break;
    case PLAN_EMBED: weights = &op->u.embed.table; break;
    default: return;
    }
    for (uint32_t i = 0; i < n_weights; i++) {
        uint32_t t = (uint32_t)weights[i].tensor;
        bool seen = n > 0 && members[n - 1] == t;
        if (wanted[t] && s->group_of[t] < 0 && !seen) members[n++] = t;
    }
    add_group(s, members, n);
}

static void make_groups(struct vk_tensors *s, uint32_t n, const bool *wanted,
                        const plan_set *layout)
{
    for (uint32_t b = 0; layout && b < layout->n_buckets; b++)
        for (uint32_t i = 0; i < layout->buckets[b].n_ops; i++)
            group_op(s, &layout->buckets[b].ops[i], wanted);
    for (uint32_t t = 0; t < n; t++)
        if (wanted[t] && !s->tensors[t].vector && s->group_of[t] < 0) add_group(s, &t, 1);
}

// ---- where they lie ---------------------------------------------------------------------------

static uint64_t align_words(uint64_t words)
{
    return (words + 3) / 4 * 4;
}

// Rows of a member in piece i.
static uint32_t rows_in(const struct vk_tensors *s, const group *g, uint32_t member, uint32_t i)
{
    uint32_t all = s->tensors[g->members[member]].rows;
    uint64_t begin = (uint64_t)i * g->rows_per_piece;
    if (begin >= all) return 0;
    return all - begin < g->rows_per_piece ? all - (uint32_t)begin : g->rows_per_piece;
}

// Words of a member with this many rows; *scales: where its scales begin.
static uint64_t member_words(vk_planes row, uint32_t rows, uint64_t *scales)
{
    *scales = row.quants * rows;
    return *scales + align_words(row.scales * rows);
}

static vk_planes planes_of(const struct vk_tensors *s, uint32_t tensor)
{
    return vk_planes_of(s->tensors[tensor].type, s->tensors[tensor].cols);
}

// Where the planes of a member begin in piece i, in words; returns the words of the piece when
// member is g->n.
static uint64_t place_in_piece(const struct vk_tensors *s, const group *g, uint32_t i,
                               uint32_t member, uint64_t *quants, uint64_t *scales)
{
    uint64_t at = 0, offset = 0;
    for (uint32_t m = 0; m < g->n; m++) {
        uint64_t words = member_words(planes_of(s, g->members[m]), rows_in(s, g, m, i), &offset);
        if (m == member) {
            *quants = at;
            *scales = at + offset;
        }
        at += words;
    }
    return at;
}

static uint64_t piece_bytes(const struct vk_tensors *s, const group *g, uint32_t i)
{
    return 4 * place_in_piece(s, g, i, g->n, NULL, NULL);
}

// Takes every member but the first out into groups of their own.
static void split_group(struct vk_tensors *s, uint32_t index)
{
    group *g = &s->groups[index];
    for (uint32_t m = 1; m < g->n; m++) add_group(s, &g->members[m], 1);
    g->n = 1;
}

static pm_status cut_group(struct vk_tensors *s, const vk_device *d, uint32_t index)
{
    group *g = &s->groups[index];
    uint64_t most = vk_largest_range(d);
    bool equal = true, alike = true;
    uint32_t rows = 1; // the most of a member: every tensor has some
    const plan_tensor *first = &s->tensors[g->members[0]];
    for (uint32_t m = 0; m < g->n; m++) {
        const plan_tensor *t = &s->tensors[g->members[m]];
        equal = equal && t->rows == first->rows;
        alike = alike && t->type == first->type && t->cols == first->cols;
        if (t->rows > rows) rows = t->rows;
    }
    g->rows_per_piece = rows;
    if (alike && piece_bytes(s, g, 0) <= most) {
        g->n_pieces = 1;
    } else if (g->n > 1 && !(equal && alike)) {
        split_group(s, index);
        return cut_group(s, d, index);
    } else {
        // 16 bytes a member: what aligning its planes may take
        vk_planes row = planes_of(s, g->members[0]);
        uint64_t row_bytes = 4 * (row.quants + row.scales) * g->n;
        uint64_t fit = most > 32 * g->n ? (most - 32 * g->n) / row_bytes : 0;
        if (fit >= 32) fit = fit / 32 * 32; // blocks of q8 rows that the rows become stay whole
        if (fit == 0)
            return error_set(PM_ERROR_DEVICE,
                             "%s: a row of tensor '%s' (%llu bytes) does not fit the %llu bytes of "
                             "a binding",
                             d->title, first->name, (unsigned long long)row_bytes,
                             (unsigned long long)most);
        g->rows_per_piece = fit < rows ? (uint32_t)fit : rows;
        g->n_pieces = (rows + g->rows_per_piece - 1) / g->rows_per_piece;
    }
    g->first_item = s->matrices.n_items;
    for (uint32_t i = 0; i < g->n_pieces; i++) {
        uint64_t bytes = piece_bytes(s, g, i);
        assert(bytes <= most);
        vk_arena_add(&s->matrices, bytes);
    }
    return PM_OK;
}

static pm_status check_formats(const plan_tensor *tensors, uint32_t n, const bool *wanted)
{
    for (uint32_t t = 0; t < n; t++) {
        if (!wanted[t] || tensors[t].vector || vk_format_name(tensors[t].type)) continue;
        char known[200] = "";
        size_t at = 0;
        for (size_t i = 0; vk_format_at(i) && at < sizeof known; i++)
            at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "",
                                   vk_format_at(i));
        return error_set(PM_ERROR_FILE,
                         "tensor '%s': Vulkan does not run the format %s (it runs %s); use "
                         "--device cpu",
                         tensors[t].name, quant_type_name(tensors[t].type), known);
    }
    return PM_OK;
}

static pm_status make_arenas(struct vk_tensors *s, vk_device *d, uint32_t n, const bool *wanted)
{
    pm_status status = PM_OK;
    // groups that are split append to the list
    for (uint32_t i = 0; status == PM_OK && i < s->n_groups; i++) status = cut_group(s, d, i);
    for (uint32_t t = 0; status == PM_OK && t < n; t++) {
        s->vector_items[t] = SIZE_MAX;
        if (!wanted[t] || !s->tensors[t].vector) continue;
        uint64_t bytes = sizeof(float) * (uint64_t)s->tensors[t].rows * s->tensors[t].cols;
        if (bytes > vk_largest_range(d))
            return error_set(PM_ERROR_DEVICE, "%s: tensor '%s' does not fit a binding", d->title,
                             s->tensors[t].name);
        s->vector_items[t] = vk_arena_add(&s->vectors, bytes);
    }
    if (status == PM_OK) status = vk_arena_make(d, &s->matrices, "the weights");
    if (status == PM_OK) status = vk_arena_make(d, &s->vectors, "the norms and biases");
    return status;
}

// ---- reading, repacking, uploading ------------------------------------------------------------

// Work for the loaders: rows of a member in a piece, taken in turns.
typedef struct load_job {
    vk_device *device;
    struct vk_tensors *s;
    const exec_source *source;
    os_mutex *lock;
    uint32_t group, piece, member, row; // next, under `lock`
    bool done;                          // nothing left, or failed
    pm_status status;
    char message[1024];
} load_job;

typedef struct load_part {
    uint32_t tensor, row, rows; // rows of the tensor
    uint64_t quants, scales;    // their places in `range`, in words
    vk_range range;
} load_part;

static uint32_t rows_of_chunk(const plan_tensor *t)
{
    uint64_t rows = CHUNK_BYTES / (t->row_bytes ? t->row_bytes : 1);
    return rows < 1 ? 1 : rows > UINT32_MAX ? UINT32_MAX : (uint32_t)rows;
}

static bool next_part(load_job *j, load_part *part)
{
    struct vk_tensors *s = j->s;
    while (j->group < s->n_groups) {
        const group *g = &s->groups[j->group];
        uint32_t rows = rows_in(s, g, j->member, j->piece);
        if (j->row < rows) {
            uint32_t tensor = g->members[j->member], most = rows_of_chunk(&s->tensors[tensor]);
            vk_planes row = planes_of(s, tensor);
            *part = (load_part){.tensor = tensor,
                                .row = j->piece * g->rows_per_piece + j->row,
                                .rows = rows - j->row < most ? rows - j->row : most,
                                .range = vk_arena_range(&s->matrices, g->first_item + j->piece)};
            place_in_piece(s, g, j->piece, j->member, &part->quants, &part->scales);
            part->quants += row.quants * j->row;
            part->scales += row.scales * j->row;
            j->row += part->rows;
            return true;
        }
        j->row = 0;
        if (++j->member < g->n) continue;
        j->member = 0;
        if (++j->piece < g->n_pieces) continue;
        j->piece = 0;
        j->group++;
    }
    return false;
}

typedef struct load_buffers {
    uint8_t *file;
    uint32_t *quants, *scales;
    uint64_t file_bytes, quant_words, scale_words;
} load_buffers;

static pm_status grow(void **p, uint64_t *have, uint64_t want, size_t each)
{
    if (*have >= want) return PM_OK;
    free(*p);
    *have = 0;
    *p = malloc(want * each);
    if (!*p) return error_memory("loading weights", want * each);
    *have = want;
    return PM_OK;
}

static pm_status load_rows(load_job *j, const load_part *part, load_buffers *b)
{
    const plan_tensor *t = &j->s->tensors[part->tensor];
    vk_planes row = planes_of(j->s, part->tensor);
    uint64_t offset = part->row * t->row_bytes, bytes = part->rows * t->row_bytes;
    pm_status status = grow((void **)&b->file, &b->file_bytes, bytes, 1);
    if (status == PM_OK)
        status = grow((void **)&b->quants, &b->quant_words, part->rows * row.quants, 4);
    if (status == PM_OK)
        status = grow((void **)&b->scales, &b->scale_words, part->rows * row.scales + 1, 4);
    if (status == PM_OK)
        status = j->source->read(j->source->arg, part->tensor, offset, b->file, bytes);
    if (status != PM_OK) return status;
    if (j->source->drop) j->source->drop(j->source->arg, part->tensor, offset, bytes);
    for (uint32_t i = 0; i < part->rows; i++)
        vk_repack_row(t->type, b->file + i * t->row_bytes, t->cols, b->quants + i * row.quants,
                      b->scales + i * row.scales);
    status = vk_upload(j->device, part->range.buffer, part->range.offset + 4 * part->quants,
                       b->quants, 4 * part->rows * row.quants);
    if (status == PM_OK && row.scales > 0)
        status = vk_upload(j->device, part->range.buffer, part->range.offset + 4 * part->scales,
                           b->scales, 4 * part->rows * row.scales);
    return status;
}

// A loader thread: errors are per thread, so the first one's message is kept.
static void run_loader(void *arg)
{
    load_job *j = arg;
    load_buffers buffers = {0};
    for (;;) {
        load_part part;
        os_mutex_lock(j->lock);
        bool more = !j->done && next_part(j, &part);
        if (!more) j->done = true;
        os_mutex_unlock(j->lock);
        if (!more) break;
        pm_status status = load_rows(j, &part, &buffers);
        if (status == PM_OK) continue;
        os_mutex_lock(j->lock);
        if (j->status == PM_OK) {
            j->status = status;
            strncpy(j->message, error_message(), sizeof j->message - 1);
        }
        j->done = true;
        os_mutex_unlock(j->lock);
    }
    free(buffers.file);
    free(buffers.quants);
    free(buffers.scales);
}

static pm_status load_matrices(vk_device *d, struct vk_tensors *s, const exec_source *source,
                               int n_threads)
{
    load_job *j = calloc(1, sizeof *j);
    os_mutex *lock = os_mutex_create();
    if (!j || !lock) {
        free(j);
        os_mutex_destroy(lock);
        return error_memory("loading weights", sizeof *j);
    }
    *j = (load_job){.device = d, .s = s, .source = source, .lock = lock};
    os_thread *threads[MAX_LOADERS] = {0};
    for (int i = 1; i < n_threads && i < MAX_LOADERS; i++)
        if (os_thread_start(run_loader, j, &threads[i]) != PM_OK) threads[i] = NULL;
    run_loader(j);
    for (int i = 1; i < MAX_LOADERS; i++) os_thread_join(threads[i]);
    pm_status status = j->status;
    if (status != PM_OK) error_set(status, "%s", j->message);
    os_mutex_destroy(lock);
    free(j);
    return status;
}

static pm_status load_vector(vk_device *d, struct vk_tensors *s, uint32_t tensor,
                             const exec_source *source)
{
    const plan_tensor *t = &s->tensors[tensor];
    uint64_t bytes = t->rows * t->row_bytes, n = (uint64_t)t->rows * t->cols;
    void *raw = malloc(bytes);
    float *values = malloc(n * sizeof *values);
    pm_status status = raw && values ? PM_OK : error_memory("loading weights", bytes);
    if (status == PM_OK) status = source->read(source->arg, tensor, 0, raw, bytes);
    if (status == PM_OK) {
        quant_format_of(t->type)->decode(raw, values, n);
        vk_range range = vk_arena_range(&s->vectors, s->vector_items[tensor]);
        status = vk_upload(d, range.buffer, range.offset, values, n * sizeof *values);
    }
    if (status == PM_OK && source->drop) source->drop(source->arg, tensor, 0, bytes);
    free(values);
    free(raw);
    return status;
}

// ---- the interface ----------------------------------------------------------------------------

pm_status vk_weights_load(vk_device *d, const exec_params *params, const plan_tensor *tensors,
                          uint32_t n, const bool *wanted, const exec_source *source,
                          exec_weights *w)
{
    pm_status status = check_formats(tensors, n, wanted);
    if (status != PM_OK) return status;
    struct vk_tensors *s = calloc(1, sizeof *s);
    if (!s) return error_memory("weights", sizeof *s);
    w->store = s;
    s->tensors = tensors;
    s->groups = calloc(n + (size_t)1, sizeof *s->groups);
    s->group_of = malloc((n + (size_t)1) * sizeof *s->group_of);
    s->vector_items = calloc(n + (size_t)1, sizeof *s->vector_items);
    if (!s->groups || !s->group_of || !s->vector_items) return error_memory("weights", n);
    for (uint32_t t = 0; t < n; t++) s->group_of[t] = -1;
    make_groups(s, n, wanted, params->layout);
    status = make_arenas(s, d, n, wanted);
    if (status == PM_OK) status = load_matrices(d, s, source, params->n_threads);
    for (uint32_t t = 0; status == PM_OK && t < n; t++)
        if (s->vector_items[t] != SIZE_MAX) status = load_vector(d, s, t, source);
    for (uint32_t i = 0; i < s->matrices.n_buffers; i++) w->bytes += s->matrices.buffers[i].bytes;
    for (uint32_t i = 0; i < s->vectors.n_buffers; i++) w->bytes += s->vectors.buffers[i].bytes;
    return status;
}

void vk_weights_unload(exec_weights *w)
{
    struct vk_tensors *s = w->store;
    if (!s) return;
    vk_arena_free(w->device, &s->matrices);
    vk_arena_free(w->device, &s->vectors);
    free(s->groups);
    free(s->group_of);
    free(s->vector_items);
    free(s);
    w->store = NULL;
}

uint32_t vk_weight_pieces(const exec_weights *w, plan_weight weight, vk_piece *pieces, uint32_t max)
{
    const struct vk_tensors *s = w->store;
    uint32_t tensor = (uint32_t)weight.tensor, n = 0;
    assert(s->group_of[tensor] >= 0 && weight.rows > 0);
    const group *g = &s->groups[s->group_of[tensor]];
    uint32_t member = 0;
    while (g->members[member] != tensor) member++;
    vk_planes row = planes_of(s, tensor);
    uint32_t end = weight.row + weight.rows;
    for (uint32_t i = weight.row / g->rows_per_piece; i <= (end - 1) / g->rows_per_piece;
         i++, n++) {
        if (n >= max) continue;
        uint32_t begin = i * g->rows_per_piece, piece_end = begin + rows_in(s, g, member, i);
        uint32_t from = weight.row > begin ? weight.row : begin;
        uint64_t quants = 0, scales = 0;
        place_in_piece(s, g, i, member, &quants, &scales);
        quants += row.quants * (from - begin);
        scales += row.scales * (from - begin);
        pieces[n] = (vk_piece){.range = vk_arena_range(&s->matrices, g->first_item + i),
                               .row = from,
                               .rows = (end < piece_end ? end : piece_end) - from,
                               .quants = (uint32_t)quants,
                               .scales = (uint32_t)scales};
    }
    return n;
}

vk_range vk_weight_vector(const exec_weights *w, int tensor)
{
    const struct vk_tensors *s = w->store;
    assert(s->vector_items[tensor] != SIZE_MAX);
    return vk_arena_range(&s->vectors, s->vector_items[tensor]);
}

uint64_t vk_tensor_bytes(const plan_tensor *t)
{
    enum { ALIGN = 512 }; // more than any device's storage_align
    if (t->vector) return sizeof(float) * (uint64_t)t->rows * t->cols + ALIGN;
    if (!vk_format_name(t->type)) return t->rows * t->row_bytes; // loading will refuse it
    uint64_t scales;
    return 4 * member_words(vk_planes_of(t->type, t->cols), t->rows, &scales) + ALIGN;
}
