#include "vulkan/linear_case.h"

#include <math.h>

enum { N_BUFS = PLAN_KV, MAX_TENSORS = 8, GAP = 4 };

// The op's world: tensors, buffers, a plan of one op.
typedef struct world {
    plan_tensor tensors[MAX_TENSORS];
    void *data[MAX_TENSORS];
    uint32_t n_tensors;
    plan_buf bufs[N_BUFS];
    plan_op op;
    plan_set set;
    plan_step step;
    uint64_t random;
} world;

static uint64_t next(world *w)
{
    w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t x = w->random;
    x ^= x >> 33;
    return x * UINT64_C(0xff51afd7ed558ccd) >> 11;
}

static float uniform(world *w) // (-1, 1)
{
    return (float)((double)next(w) / (double)(UINT64_C(1) << 53) * 2 - 1);
}

// ---- tensors ----------------------------------------------------------------------------------

static pm_status read_tensor(void *arg, uint32_t t, uint64_t offset, void *dst, uint64_t n)
{
    memcpy(dst, (const char *)((world *)arg)->data[t] + offset, n);
    return PM_OK;
}

static void put_half(uint8_t *at, float x)
{
    uint16_t h = quant_f32_to_f16(x);
    at[0] = (uint8_t)(h & 255);
    at[1] = (uint8_t)(h >> 8);
}

// Where a block of a quantized format has its halves.
static int half_places(quant_type type, int places[2])
{
    switch (type) {
    case QUANT_Q2_K: places[0] = 80, places[1] = 82; return 2;
    case QUANT_Q3_K: places[0] = 108; return 1;
    case QUANT_Q6_K: places[0] = 208; return 1;
    case QUANT_Q4_1:
    case QUANT_Q5_1:
    case QUANT_Q4_K:
    case QUANT_Q5_K: places[0] = 0, places[1] = 2; return 2;
    default: places[0] = 0; return 1;
    }
}

static void fill_matrix(world *w, const plan_tensor *t, uint8_t *data, bool tiny)
{
    const quant_format *f = quant_format_of(t->type);
    uint64_t n_blocks = t->rows * t->row_bytes / f->block_bytes;
    if (f->block_values == 1) {
        for (uint64_t i = 0; i < n_blocks; i++) {
            float x = uniform(w) * (tiny ? 6e-5f : 0.05f);
            f->encode(&x, data + i * f->block_bytes, 1);
        }
        return;
    }
    int places[2], n_places = half_places(t->type, places);
    for (uint64_t i = 0; i < n_blocks; i++) {
        uint8_t *block = data + i * f->block_bytes;
        for (uint32_t k = 0; k < f->block_bytes; k++) block[k] = (uint8_t)(next(w) & 255);
        for (int p = 0; p < n_places; p++)
            put_half(block + places[p], uniform(w) * (tiny ? 3e-7f : 0.01f));
    }
}

static int add_tensor(world *w, quant_type type, uint32_t rows, uint32_t cols, bool vector,
                      bool tiny)
{
    plan_tensor *t = &w->tensors[w->n_tensors];
    *t = (plan_tensor){.name = vector ? "vector" : "matrix",
                       .type = type,
                       .rows = rows,
                       .cols = cols,
                       .layer = PLAN_NONE,
                       .vector = vector};
    assert_true(quant_row_bytes(type, cols, &t->row_bytes));
    uint8_t *data = malloc(rows * t->row_bytes);
    assert_non_null(data);
    w->data[w->n_tensors] = data;
    if (vector)
        for (uint32_t i = 0; i < cols; i++) ((float *)data)[i] = 1 + 0.5f * uniform(w);
    else
        fill_matrix(w, t, data, tiny);
    return (int)w->n_tensors++;
}

// ---- buffers and the op -----------------------------------------------------------------------

static void set_buf(world *w, int buffer, quant_type type, uint32_t width, uint32_t rows)
{
    plan_buf *b = &w->bufs[buffer];
    *b = (plan_buf){
        .name = "buffer", .type = type, .width = width, .rows = rows, .layer = PLAN_NONE};
    assert_true(quant_row_bytes(type, width, &b->row_bytes));
    b->bytes = b->row_bytes * rows;
}

static void make_weights(world *w, const linear_case *c, plan_linear *l)
{
    uint32_t all = c->rows[0] + c->rows[1] + c->rows[2], row = 3;
    int together =
        c->one_tensor ? add_tensor(w, c->type, all + 5, c->cols, false, c->tiny_scales) : PLAN_NONE;
    for (uint32_t i = 0; i < 3 && c->rows[i]; i++) {
        int t = together >= 0 ? together
                              : add_tensor(w, c->type, c->rows[i], c->cols, false, c->tiny_scales);
        l->weight[i] = (plan_weight){t, together >= 0 ? row : 0, c->rows[i]};
        row += c->rows[i];
        l->n_weights = i + 1;
    }
    for (uint32_t i = 0; i < 3; i++) {
        l->bias[i] = (plan_vector){PLAN_NONE, 0};
        if (c->bias && i < l->n_weights)
            l->bias[i] = (plan_vector){add_tensor(w, QUANT_F32, 1, c->rows[i] + 2, true, false), 2};
    }
    l->norm_in = (plan_vector){PLAN_NONE, 0};
    if (c->norm_in)
        l->norm_in = (plan_vector){add_tensor(w, QUANT_F32, 1, c->cols, true, false), 0};
    l->norm_eps = 1e-5f;
}

static void make_linear(world *w, const linear_case *c)
{
    uint32_t rows = w->set.buckets[0].max_rows + 1, width = GAP;
    plan_linear *l = &w->op.u.linear;
    make_weights(w, c, l);
    bool q8 = c->act == PLAN_ACT_Q8;
    // odd widths for floats: no row but the first begins at 16 bytes
    set_buf(w, q8 ? PLAN_XQ : PLAN_X, q8 ? QUANT_Q8_0 : QUANT_F32, q8 ? c->cols : c->cols + GAP,
            rows);
    l->x = q8 ? (plan_view){PLAN_XQ, 0, c->cols} : (plan_view){PLAN_X, GAP, c->cols};
    l->fn = c->fn;
    l->gated = c->gated;
    l->residual = (plan_view){.buf = PLAN_NONE};
    int out = c->q8_out ? PLAN_FFQ : PLAN_QKV;
    for (uint32_t i = 0; i < l->n_weights && (i == 0 || !c->gated); i++) {
        l->out[i] = (plan_view){out, c->q8_out ? 0 : width, c->rows[i]};
        width += c->rows[i] + GAP;
    }
    set_buf(w, out, c->q8_out ? QUANT_Q8_0 : QUANT_F32, c->q8_out ? c->rows[0] : width, rows);
    if (c->gated) { // what the unfused form needs
        set_buf(w, PLAN_FF, QUANT_F32, c->rows[0], rows);
        set_buf(w, PLAN_UP, QUANT_F32, c->rows[0], rows);
    }
    if (c->residual == IN_PLACE) l->residual = l->out[0];
    if (c->residual == ELSEWHERE) {
        set_buf(w, PLAN_T, QUANT_F32, c->rows[0] + GAP, rows);
        l->residual = (plan_view){PLAN_T, 1, c->rows[0]};
    }
}

static void make_logits(world *w, const linear_case *c)
{
    uint32_t rows = w->set.buckets[0].max_rows + 1;
    plan_linear l = {0};
    make_weights(w, c, &l);
    bool q8 = c->act == PLAN_ACT_Q8;
    set_buf(w, q8 ? PLAN_XQ : PLAN_X, q8 ? QUANT_Q8_0 : QUANT_F32, c->cols, rows);
    set_buf(w, PLAN_LOGITS, QUANT_F32, c->rows[0], w->set.n_logits);
    set_buf(w, PLAN_PICK, QUANT_F32, sizeof(plan_pick) / 4, w->set.n_logits);
    w->op.u.logits = (plan_logits){.weight = l.weight[0],
                                   .bias = l.bias[0],
                                   .x = {q8 ? PLAN_XQ : PLAN_X, 0, c->cols},
                                   .norm_in = l.norm_in,
                                   .norm_eps = l.norm_eps,
                                   .softcap = c->softcap};
}

static void make_embed(world *w, const linear_case *c)
{
    set_buf(w, PLAN_X, QUANT_F32, c->cols + GAP, w->set.buckets[0].max_rows + 1);
    int table = add_tensor(w, c->type, c->rows[0], c->cols, false, c->tiny_scales);
    plan_weight positions = {PLAN_NONE, 0, 0};
    if (c->bias)
        positions = (plan_weight){add_tensor(w, QUANT_F16, 600, c->cols, false, false), 0, 600};
    w->op.u.embed = (plan_embed){.table = {table, 0, c->rows[0]},
                                 .positions = positions,
                                 .scale = 1.5f,
                                 .out = {PLAN_X, GAP, c->cols}};
}

static void make_step(world *w, const linear_case *c)
{
    w->step.n_rows = c->n_rows;
    for (uint32_t r = 0; r < c->n_rows; r++)
        w->step.rows[r] = (plan_row){
            .token = (int32_t)(next(w) % c->rows[0]), .pos = (uint32_t)(next(w) % 600), .n_kv = 1};
    // the last ones, so that their numbers differ from their places
    uint32_t n = c->kind == PLAN_LOGITS_OP ? w->set.n_logits : 0;
    w->step.n_logits = n;
    for (uint32_t i = 0; i < n; i++) w->step.logit_rows[i] = (uint16_t)(c->n_rows - n + i);
}

static void make_world(world *w, const linear_case *c)
{
    *w = (world){.random = c->seed * 77 + 1};
    uint32_t max_rows = c->max_rows ? c->max_rows : c->n_rows;
    w->op = (plan_op){.kind = c->kind, .layer = PLAN_NONE, .act = c->act, .label = "test"};
    w->set = (plan_set){.tensors = w->tensors,
                        .n_bufs = N_BUFS,
                        .bufs = w->bufs,
                        .n_buckets = 1,
                        .n_vocab = c->rows[0],
                        .n_head = 1,
                        .n_head_kv = 1,
                        .head_dim = 32,
                        .n_ctx = 64,
                        .n_slots = 1,
                        .n_batch = max_rows,
                        .n_logits = c->n_marked ? c->n_marked : c->n_rows,
                        .kv_type = QUANT_F32};
    w->set.buckets[0] = (plan){.max_rows = max_rows, .n_ops = 1, .ops = &w->op};
    if (c->kind == PLAN_LINEAR) make_linear(w, c);
    if (c->kind == PLAN_LOGITS_OP) make_logits(w, c);
    if (c->kind == PLAN_EMBED) make_embed(w, c);
    w->set.n_tensors = w->set.n_model_tensors = w->n_tensors;
    make_step(w, c);
}

// ---- running ----------------------------------------------------------------------------------

static plan_view output(const world *w, uint32_t i)
{
    if (w->op.kind == PLAN_EMBED) return w->op.u.embed.out;
    if (w->op.kind == PLAN_LOGITS_OP) return (plan_view){PLAN_LOGITS, 0, w->set.n_vocab};
    return w->op.u.linear.out[i];
}

// First contents of a buffer: random values in what the op reads, NaN everywhere else.
static void *contents(world *w, int buffer, const linear_case *c)
{
    const plan_buf *b = &w->bufs[buffer];
    uint64_t n = (uint64_t)b->rows * b->width;
    float *values = malloc(n * sizeof *values);
    void *raw = malloc(b->bytes);
    assert_true(values && raw);
    bool is_x = (buffer == PLAN_X && c->kind != PLAN_EMBED) || buffer == PLAN_XQ;
    bool read = is_x || buffer == PLAN_T || (c->residual == IN_PLACE && buffer == PLAN_QKV);
    float scale = is_x && c->x_scale != 0 ? c->x_scale : 1;
    for (uint64_t i = 0; i < n; i++) values[i] = read ? scale * uniform(w) : (float)NAN;
    if (is_x && c->nan_in_x) values[b->width / 2 + 4] = (float)NAN;
    quant_format_of(b->type)->encode(values, raw, n);
    if (b->type == QUANT_Q8_0 && (!read || c->nan_in_x)) // its encoder hides NaN
        for (uint64_t k = 0; k < (read ? 1 : n / 32); k++) put_half((uint8_t *)raw + 34 * k, NAN);
    free(values);
    return raw;
}

// The buffer of the op's output after a run; a copy.
static void *run_on(world *w, const linear_case *c, const exec_kind *kind, void **before)
{
    exec_params params = {.n_threads = 2, .gpu = c->gpu, .layout = c->no_layout ? NULL : &w->set};
    exec_source source = {.arg = w, .read = read_tensor};
    bool wanted[MAX_TENSORS];
    for (uint32_t i = 0; i < MAX_TENSORS; i++) wanted[i] = true;
    exec_weights *weights = NULL;
    exec *e = NULL;
    assert_ok(kind->load(&params, w->tensors, w->n_tensors, wanted, &source, &weights));
    assert_ok(kind->open(weights, &w->set, 0, 0, true, &e));
    for (int b = 0; b < N_BUFS; b++)
        if (w->bufs[b].bytes > 0 && b != PLAN_PICK)
            assert_ok(kind->write(e, b, 0, before[b], w->bufs[b].bytes));
    assert_ok(kind->run(e, &w->set.buckets[0], 0, 1, &w->step));
    int out = output(w, 0).buf;
    void *after = malloc(w->bufs[out].bytes);
    assert_non_null(after);
    assert_ok(kind->read(e, out, 0, after, w->bufs[out].bytes));
    kind->close(e);
    kind->unload(weights);
    return after;
}

// Is column `col` of row `row` of the output buffer what the op writes?
static bool is_output(const world *w, uint32_t row, uint32_t col)
{
    uint32_t n_rows = w->op.kind == PLAN_LOGITS_OP ? w->step.n_logits : w->step.n_rows;
    if (row >= n_rows) return false;
    uint32_t n = w->op.kind == PLAN_LINEAR && !w->op.u.linear.gated ? w->op.u.linear.n_weights : 1;
    for (uint32_t i = 0; i < n; i++) {
        plan_view v = output(w, i);
        if (col >= v.col && col - v.col < v.n) return true;
    }
    return false;
}

static double compare(const world *w, const linear_case *c, const void *got, const void *want,
                      const void *before)
{
    const plan_buf *b = &w->bufs[output(w, 0).buf];
    const quant_format *f = quant_format_of(b->type);
    uint64_t n = (uint64_t)b->rows * b->width;
    float *g = malloc(n * sizeof *g), *r = malloc(n * sizeof *r);
    assert_true(g && r);
    f->decode(got, g, n);
    f->decode(want, r, n);
    double error = 0, power = 0;
    for (uint32_t row = 0; row < b->rows; row++) {
        for (uint32_t col = 0; col < b->width; col++) {
            size_t i = (size_t)row * b->width + col;
            if (!is_output(w, row, col)) {
                uint64_t at = i / f->block_values * f->block_bytes;
                if (memcmp((const char *)got + at, (const char *)before + at, f->block_bytes) != 0)
                    fail_msg("row %u, column %u is not the op's to write", row, col);
                continue;
            }
            if (c->nan_in_x && row == 0) {
                if (!isnan(g[i])) fail_msg("a NaN in x is hidden in column %u", col);
                continue;
            }
            error += ((double)g[i] - (double)r[i]) * ((double)g[i] - (double)r[i]);
            power += (double)r[i] * (double)r[i];
        }
    }
    free(g);
    free(r);
    return power > 0 ? error / power : error;
}

double linear_case_run(const linear_case *c, void **result, uint64_t *n)
{
    world *w = malloc(sizeof *w);
    assert_non_null(w);
    make_world(w, c);
    void *before[N_BUFS] = {0};
    for (int b = 0; b < N_BUFS; b++)
        if (w->bufs[b].bytes > 0) before[b] = contents(w, b, c);
    void *want = run_on(w, c, &exec_reference, before);
    void *got = run_on(w, c, &exec_vulkan, before);
    int out = output(w, 0).buf;
    double nmse = compare(w, c, got, want, before[out]);
    if (result) {
        *result = got;
        *n = w->bufs[out].bytes;
    } else {
        free(got);
    }
    free(want);
    for (int b = 0; b < N_BUFS; b++) free(before[b]);
    for (uint32_t t = 0; t < w->n_tensors; t++) free(w->data[t]);
    free(w);
    return nmse;
}
