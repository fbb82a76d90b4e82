// Loading: the file is read a few hundred kilobytes at a time by all threads, and each piece goes
// to its place in the order of the kernels while it is still in the cache.
#include "exec/cpu/weights.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/size.h"
#include "exec/cpu/team.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { ALIGN = 64, PIECE_BYTES = 384 * 1024, GATHER_BYTES = 16 << 20 };

// ---- layout -----------------------------------------------------------------------------------

static uint64_t aligned(uint64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static bool plan_integers(cpu_weight *w, const cpu_repack *repack)
{
    w->form = CPU_INT;
    w->format = &repack->format;
    w->chunk_bytes = aligned(cpu_planes_of(w->format, CPU_CHUNK).end);
    uint64_t last = aligned(cpu_planes_of(w->format, w->cols % CPU_CHUNK).end);
    return size_mul(w->cols / CPU_CHUNK, w->chunk_bytes, &w->group_bytes) &&
           size_add(w->group_bytes, last, &w->group_bytes);
}

bool cpu_weight_plan(cpu_weight *w, quant_type type, uint32_t rows, uint32_t cols, uint64_t *bytes)
{
    *w = (cpu_weight){.quant = quant_format_of(type), .rows = rows, .cols = cols};
    const cpu_repack *repack = cpu_repack_of(type);
    if (!quant_row_bytes(type, cols, &w->row_bytes)) return false;
    if (repack) {
        if (!plan_integers(w, repack)) return false;
    } else if (type == QUANT_F32 || type == QUANT_F16 || type == QUANT_BF16) {
        w->form = type == QUANT_F32 ? CPU_F32 : type == QUANT_F16 ? CPU_F16 : CPU_BF16;
        if (!size_mul(w->row_bytes, CPU_LANES, &w->group_bytes)) return false;
    } else {
        return false;
    }
    uint64_t groups = ((uint64_t)rows + CPU_LANES - 1) / CPU_LANES;
    return size_mul(w->group_bytes, groups, bytes) && size_align(*bytes, ALIGN, bytes);
}

// Called with constants: the loops become vectors.
static inline void pack_high(const uint8_t *v, uint8_t *high, const int low_bits, const int bits)
{
    const int n = 64 * bits, mask = (1 << bits) - 1;
    for (int i = 0; i < n; i++) {
        int byte = 0;
        for (int part = 0; part < 8 / bits; part++) {
            byte |= (v[i + part * n] >> low_bits & mask) << part * bits;
        }
        high[i] = (uint8_t)byte;
    }
}

// 512 values to the planes of their block.
static void pack_block(const cpu_format *f, const uint8_t *v, uint8_t *low, uint8_t *high)
{
    if (f->low_bits == 4) {
        for (int i = 0; i < 256; i++) low[i] = (uint8_t)((v[i] & 15) | (v[i + 256] & 15) << 4);
    } else {
        for (int i = 0; i < 128; i++) {
            low[i] = (uint8_t)((v[i] & 3) | (v[i + 128] & 3) << 2 | (v[i + 256] & 3) << 4 |
                               (v[i + 384] & 3) << 6);
        }
    }
    switch (f->low_bits * 10 + f->high_bits) {
    case 41: pack_high(v, high, 4, 1); break;
    case 42: pack_high(v, high, 4, 2); break;
    case 21: pack_high(v, high, 2, 1); break;
    default: break; // no other widths are in the table
    }
}

// What one row (`lane`) has at `col` of a chunk; n: values of the block.
static void fill_scales(const cpu_format *f, const cpu_planes *at, uint8_t *chunk, uint32_t col,
                        uint32_t lane, uint32_t n, const cpu_block *block)
{
    uint32_t span = (col / f->span * CPU_LANES + lane) * 2;
    memcpy(chunk + at->d + span, &block->d, 2);
    if (f->has_min) memcpy(chunk + at->m + span, &block->m, 2);
    for (uint32_t s = 0; f->sub && s < n / f->sub; s++) {
        uint32_t to = (col / f->sub + s) * CPU_LANES + lane;
        chunk[at->sub + to] = block->sub[s];
        if (f->has_min && !f->sub_packed) chunk[at->sub_min + to] = block->sub_min[s];
    }
}

// 32 values of 16 rows, `stride` bytes apart, to [8 quads][16 rows][4].
static void interleave(const uint8_t *rows, size_t stride, uint8_t *out)
{
#ifdef __SSE2__
    for (size_t lane = 0; lane < CPU_LANES; lane += 4) {
        for (size_t half = 0; half < 2; half++) {
            const uint8_t *at = rows + lane * stride + 16 * half;
            __m128i r0 = _mm_loadu_si128((const void *)at);
            __m128i r1 = _mm_loadu_si128((const void *)(at + stride));
            __m128i r2 = _mm_loadu_si128((const void *)(at + 2 * stride));
            __m128i r3 = _mm_loadu_si128((const void *)(at + 3 * stride));
            __m128i low01 = _mm_unpacklo_epi32(r0, r1), high01 = _mm_unpackhi_epi32(r0, r1);
            __m128i low23 = _mm_unpacklo_epi32(r2, r3), high23 = _mm_unpackhi_epi32(r2, r3);
            uint8_t *to = out + half * (16 * CPU_LANES) + 4 * lane;
            _mm_storeu_si128((void *)to, _mm_unpacklo_epi64(low01, low23));
            _mm_storeu_si128((void *)(to + 64), _mm_unpackhi_epi64(low01, low23));
            _mm_storeu_si128((void *)(to + 128), _mm_unpacklo_epi64(high01, high23));
            _mm_storeu_si128((void *)(to + 192), _mm_unpackhi_epi64(high01, high23));
        }
    }
#else
    for (size_t lane = 0; lane < CPU_LANES; lane++)
        for (size_t quad = 0; quad < 8; quad++)
            memcpy(out + quad * (4 * CPU_LANES) + 4 * lane, rows + lane * stride + 4 * quad, 4);
#endif
}

static void fill_integers(cpu_weight *w, uint8_t *base, const uint8_t *rows, uint32_t n_rows)
{
    const cpu_format *f = w->format;
    const cpu_repack *repack = cpu_repack_of(f->type);
    uint32_t n = repack->block_values;
    cpu_block blocks[CPU_LANES]; // one of each row; rows behind the last are zeros
    uint8_t unpacked[CPU_BLOCK * CPU_LANES];
    memset(blocks, 0, sizeof blocks);
    for (uint32_t at = 0; at < w->cols; at += n) {
        uint32_t col = at % CPU_CHUNK, left = w->cols - (at - col);
        const cpu_planes planes = cpu_planes_of(f, left < CPU_CHUNK ? left : CPU_CHUNK);
        uint8_t *chunk = base + at / CPU_CHUNK * w->chunk_bytes;
        uint8_t *low = chunk + col * 2u * f->low_bits;
        uint8_t *high = chunk + planes.high + col * 2u * f->high_bits;
        const uint8_t *from = rows + (uint64_t)(at / n) * repack->block_bytes;
        for (uint32_t lane = 0; lane < n_rows; lane++) {
            repack->take(from + lane * w->row_bytes, &blocks[lane]);
            fill_scales(f, &planes, chunk, col, lane, n, &blocks[lane]);
        }
        for (uint32_t b = 0; b < n / CPU_BLOCK; b++) {
            uint8_t *v = f->low_bits == 8 ? low + b * 512u : unpacked;
            interleave(blocks[0].q + b * CPU_BLOCK, sizeof blocks[0], v);
            if (f->low_bits == 8) continue;
            pack_block(f, v, low + b * 64u * f->low_bits, high + b * 64u * f->high_bits);
        }
    }
}

void cpu_weight_fill(cpu_weight *w, uint32_t group, const uint8_t *rows, uint32_t n_rows)
{
    uint8_t *base = w->data + group * w->group_bytes;
    if (w->form == CPU_INT) {
        fill_integers(w, base, rows, n_rows);
        return;
    }
    size_t size = w->form == CPU_F32 ? 4 : 2;
    for (uint32_t lane = 0; lane < n_rows; lane++) {
        const uint8_t *row = rows + lane * w->row_bytes;
        uint8_t *to = base + lane * size;
        if (size == 4) {
            for (uint64_t k = 0; k < w->cols; k++) memcpy(to + k * 64, row + k * 4, 4);
        } else {
            for (uint64_t k = 0; k < w->cols; k++) memcpy(to + k * 32, row + k * 2, 2);
        }
    }
}

void cpu_weight_row(const cpu_kernels *k, const cpu_weight *w, uint32_t row, float *out,
                    float *memory)
{
    for (uint32_t col = 0; col < w->cols; col += CPU_CHUNK) {
        uint32_t n = w->cols - col < CPU_CHUNK ? w->cols - col : CPU_CHUNK;
        const float *panel = k->unpack_f32(w, row / CPU_LANES, col, n, memory);
        for (uint32_t i = 0; i < n; i++) out[col + i] = panel[i * CPU_LANES + row % CPU_LANES];
    }
}

// ---- loading ----------------------------------------------------------------------------------

// Groups of one tensor, or a whole vector.
typedef struct piece {
    uint32_t tensor, group, n_groups;
} piece;

typedef struct loader {
    exec_weights *w;
    const plan_tensor *tensors;
    const exec_source *source;
    team *team;
    piece *pieces;
    uint32_t n_pieces;
    uint8_t **staging; // one per member
    atomic_bool failed;
    os_mutex *mutex; // of the first failure:
    pm_status status;
    char message[1024];
} loader;

static pm_status load_vector(loader *l, const plan_tensor *t, uint32_t index, uint8_t *staging)
{
    const quant_format *format = quant_format_of(t->type);
    float *out = (float *)(uintptr_t)l->w->tensors[index].vector;
    for (uint32_t row = 0; row < t->rows; row++) {
        pm_status status =
            l->source->read(l->source->arg, index, row * t->row_bytes, staging, t->row_bytes);
        if (status != PM_OK) return status;
        format->decode(staging, out + (uint64_t)row * t->cols, t->cols);
    }
    return PM_OK;
}

static pm_status load_piece(loader *l, const piece *p, uint8_t *staging)
{
    const plan_tensor *t = &l->tensors[p->tensor];
    if (t->vector) return load_vector(l, t, p->tensor, staging);
    cpu_weight *w = &l->w->tensors[p->tensor].matrix;
    uint32_t first = p->group * CPU_LANES, n_rows = p->n_groups * CPU_LANES;
    if (n_rows > t->rows - first) n_rows = t->rows - first;
    uint64_t offset = first * t->row_bytes, bytes = n_rows * t->row_bytes;
    pm_status status = l->source->read(l->source->arg, p->tensor, offset, staging, bytes);
    if (status != PM_OK) return status;
    for (uint32_t row = 0; row < n_rows; row += CPU_LANES) {
        uint32_t n = n_rows - row < CPU_LANES ? n_rows - row : CPU_LANES;
        cpu_weight_fill(w, (first + row) / CPU_LANES, staging + row * t->row_bytes, n);
    }
    if (l->source->drop) l->source->drop(l->source->arg, p->tensor, offset, bytes);
    return PM_OK;
}

static void load_member(void *arg, int member)
{
    loader *l = arg;
    uint32_t begin, end;
    while (!l->failed && team_next(l->team, l->n_pieces, 1, &begin, &end)) {
        pm_status status = load_piece(l, &l->pieces[begin], l->staging[member]);
        if (status == PM_OK) continue;
        // The message is this thread's: it is carried to the caller's.
        os_mutex_lock(l->mutex);
        if (!l->failed) {
            l->status = status;
            snprintf(l->message, sizeof l->message, "%s", error_message());
        }
        l->failed = true;
        os_mutex_unlock(l->mutex);
    }
}

static uint32_t groups_of_piece(const plan_tensor *t)
{
    uint64_t n = PIECE_BYTES / (t->row_bytes * CPU_LANES);
    return n < 1 ? 1 : (uint32_t)n;
}

static bool is_loaded(const plan_tensor *t, bool wanted)
{
    return wanted && !t->values; // the plan's constants stay where they are
}

// Where everything lies; offsets are kept in the pointers' place until the memory is there.
static pm_status lay_out(exec_weights *w, const plan_tensor *tensors, const bool *wanted,
                         uint64_t *staging_bytes, uint32_t *n_pieces)
{
    uint64_t most = 0, pieces = 0;
    for (uint32_t i = 0; i < w->n_tensors; i++) {
        const plan_tensor *t = &tensors[i];
        cpu_tensor *c = &w->tensors[i];
        if (!is_loaded(t, wanted[i])) continue;
        if (!quant_format_of(t->type)) return quant_unsupported(t->type, t->name);
        uint64_t bytes = 0, at_once = t->row_bytes, row_bytes;
        bool ok = quant_row_bytes(t->type, t->cols, &row_bytes) && row_bytes == t->row_bytes &&
                  t->rows > 0 && t->cols > 0;
        if (t->vector) {
            c->n_values = (uint64_t)t->rows * t->cols;
            ok = ok && size_mul(c->n_values, sizeof(float), &bytes) &&
                 size_align(bytes, ALIGN, &bytes);
            pieces++;
        } else {
            ok = ok && cpu_weight_plan(&c->matrix, t->type, t->rows, t->cols, &bytes);
            uint32_t n = ok ? groups_of_piece(t) : 1;
            ok = ok && size_mul(t->row_bytes, (uint64_t)n * CPU_LANES, &at_once);
            pieces += (((uint64_t)t->rows + CPU_LANES - 1) / CPU_LANES + n - 1) / n;
        }
        if (!ok || !size_add(w->bytes, bytes, &w->bytes) || pieces > UINT32_MAX / 2) {
            return error_set(PM_ERROR_FILE, "%s: %" PRIu32 " rows of %" PRIu32 " values of %s",
                             t->name, t->rows, t->cols, quant_type_name(t->type));
        }
        if (at_once > most) most = at_once;
        c->loaded = true;
    }
    *staging_bytes = most;
    *n_pieces = (uint32_t)pieces;
    return PM_OK;
}

static void place(loader *l)
{
    uint64_t at = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->w->n_tensors; i++) {
        const plan_tensor *t = &l->tensors[i];
        cpu_tensor *c = &l->w->tensors[i];
        if (!c->loaded) continue;
        uint64_t bytes = 0;
        if (t->vector) {
            c->vector = (const float *)(const void *)(l->w->memory + at);
            bytes = c->n_values * sizeof(float);
            bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
            l->pieces[n++] = (piece){.tensor = i};
        } else {
            cpu_weight_plan(&c->matrix, t->type, t->rows, t->cols, &bytes);
            c->matrix.data = l->w->memory + at;
            uint32_t groups = (t->rows - 1) / CPU_LANES + 1, step = groups_of_piece(t);
            for (uint32_t g = 0; g < groups; g += step) {
                uint32_t now = groups - g < step ? groups - g : step;
                l->pieces[n++] = (piece){i, g, now};
            }
        }
        at += bytes;
    }
    l->n_pieces = n;
}

static pm_status choose_kernels(const char *isa, const cpu_kernels **out)
{
    const cpu_kernels *known[] = {
        &cpu_plain,
#if defined(__x86_64__)
        &cpu_avx2,
        &cpu_avx512,
#endif
    };
    os_cpu_features has = os_cpu_detect();
    bool automatic = !isa || !strcmp(isa, "auto");
    *out = NULL;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        bool able = true;
#if defined(__x86_64__)
        if (known[i] == &cpu_avx2) able = has.avx2;
        if (known[i] == &cpu_avx512) able = has.avx512_vnni;
#endif
        if (automatic ? able : !strcmp(isa, known[i]->name)) *out = known[i];
        if (*out == known[i] && !able)
            return error_set(PM_ERROR_USAGE, "%s: this processor does not have it (%s)", isa,
                             has.name);
    }
    if (*out) return PM_OK;
    return error_set(PM_ERROR_USAGE, "%s: no such instruction set (auto, plain, avx2, avx512)",
                     isa);
}

static pm_status load_all(loader *l, const bool *wanted)
{
    exec_weights *w = l->w;
    uint64_t staging_bytes = 0;
    uint32_t n_pieces = 0;
    pm_status status = lay_out(w, l->tensors, wanted, &staging_bytes, &n_pieces);
    if (status != PM_OK || n_pieces == 0) return status;
    w->memory = os_pages_alloc(w->bytes, false);
    if (!w->memory) return error_memory("the weights", w->bytes);
    l->pieces = calloc(n_pieces, sizeof *l->pieces);
    l->mutex = os_mutex_create();
    if (!l->pieces || !l->mutex) return error_memory("loading", n_pieces * sizeof *l->pieces);
    status = team_create(w->n_threads, &l->team);
    if (status != PM_OK) return status;
    l->staging = calloc((size_t)team_size(l->team), sizeof *l->staging);
    if (!l->staging) return error_memory("loading", 0);
    for (int i = 0; i < team_size(l->team); i++) {
        l->staging[i] = malloc(staging_bytes + 1); // never of 0 bytes
        if (!l->staging[i]) return error_memory("loading", staging_bytes);
    }
    place(l);
    team_run(l->team, load_member, l);
    if (l->status != PM_OK) return error_set(l->status, "%s", l->message);
    return PM_OK;
}

static void gather(void *arg)
{
    exec_weights *w = arg;
    os_thread_be_idle();
    os_pages_gather(w->memory, w->bytes, &w->stop_gathering);
}

static void stop_gathering(exec_weights *w)
{
    if (!w->gatherer) return;
    atomic_store(&w->stop_gathering, true);
    os_thread_join(w->gatherer);
    w->gatherer = NULL;
    atomic_store(&w->stop_gathering, false);
}

void cpu_settle(exec_weights *w)
{
    os_mutex_lock(w->settling);
    if (w->gatherer) {
        stop_gathering(w); // it may never get a core; what it has done already takes no time again
        os_pages_gather(w->memory, w->bytes, &w->stop_gathering);
    }
    os_mutex_unlock(w->settling);
}

pm_status cpu_load(const exec_params *params, const plan_tensor *tensors, uint32_t n,
                   const bool *wanted, const exec_source *source, exec_weights **out)
{
    *out = NULL;
    exec_weights *w = calloc(1, sizeof *w);
    if (!w) return error_memory("weights", sizeof *w);
    w->n_threads = params->n_threads < 1 ? 1 : params->n_threads;
    w->n_tensors = n;
    loader l = {.w = w, .tensors = tensors, .source = source};
    pm_status status = choose_kernels(params->isa, &w->kernels);
    if (status == PM_OK) {
        w->tensors = calloc(n ? n : 1, sizeof *w->tensors);
        w->settling = os_mutex_create();
        status = w->tensors && w->settling ? load_all(&l, wanted) : error_memory("weights", n);
    }
    for (int i = 0; l.staging && i < team_size(l.team); i++) free(l.staging[i]);
    free(l.staging);
    free(l.pieces);
    os_mutex_destroy(l.mutex);
    team_destroy(l.team);
    if (status != PM_OK) {
        cpu_unload(w);
        return status;
    }
    // Without the thread pages stay as they are: slower, not wrong.
    if (w->bytes >= GATHER_BYTES && os_thread_start(gather, w, &w->gatherer) != PM_OK)
        w->gatherer = NULL;
    snprintf(w->description, sizeof w->description, "%s, %d thread%s", w->kernels->label,
             w->n_threads, w->n_threads == 1 ? "" : "s");
    *out = w;
    return PM_OK;
}

void cpu_unload(exec_weights *w)
{
    if (!w) return;
    stop_gathering(w);
    os_mutex_destroy(w->settling);
    os_pages_free(w->memory, w->bytes);
    free(w->tensors);
    free(w);
}
