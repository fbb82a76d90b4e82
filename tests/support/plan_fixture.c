#include "support/plan_fixture.h"

#include <math.h>

#include "base/rng.h"
#include "support/test.h"

void fixture_init(fixture *f, uint64_t seed, uint32_t max_rows)
{
    *f = (fixture){.seed = seed};
    f->set.n_batch = f->set.n_logits = max_rows;
    f->set.n_ctx = f->set.n_slots = 1;
    f->set.n_layer = 1;
}

void fixture_free(fixture *f)
{
    for (uint32_t i = 0; i < f->n_tensors; i++) free(f->data[i]);
    for (int i = 0; i < FIXTURE_BUFS; i++) free(f->initial[i]);
}

// ---- random content ---------------------------------------------------------------------------

double fixture_draw(fixture *f)
{
    return rng_double(f->seed, f->draws++);
}

uint32_t fixture_pick(fixture *f, uint32_t least, uint32_t most)
{
    return least + (uint32_t)(fixture_draw(f) * (most - least + 1.0));
}

float fixture_normal(fixture *f)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += fixture_draw(f);
    return (float)sum;
}

// A block of random bytes whose values are neither huge nor tiny.
static void random_block(fixture *f, const quant_format *format, uint8_t *block)
{
    float values[256];
    for (int tries = 0; tries < 100000; tries++) {
        for (uint32_t i = 0; i < format->block_bytes; i++)
            block[i] = (uint8_t)fixture_pick(f, 0, 255);
        format->decode(block, values, format->block_values);
        double sum = 0;
        for (uint32_t i = 0; i < format->block_values; i++)
            sum += (double)values[i] * (double)values[i];
        double rms = sqrt(sum / format->block_values);
        if (rms > 0.25 && rms < 4) return;
    }
    fail_msg("no random block of %s", format->name);
}

static void random_row(fixture *f, const quant_format *format, uint32_t cols, uint8_t *row)
{
    for (uint32_t i = 0; i < cols; i += format->block_values, row += format->block_bytes) {
        // Random bits make every integer and every scale of a format; a few encoded blocks are what
        // files have.
        if (format->block_values > 1 && (!format->encode || fixture_draw(f) < 0.7)) {
            random_block(f, format, row);
            continue;
        }
        float values[256];
        for (uint32_t j = 0; j < format->block_values; j++) values[j] = fixture_normal(f);
        format->encode(values, row, format->block_values);
    }
}

static int add_tensor(fixture *f, plan_tensor t)
{
    assert_true(f->n_tensors < FIXTURE_MAX);
    assert_true(quant_row_bytes(t.type, t.cols, &t.row_bytes));
    f->data[f->n_tensors] = calloc(t.rows, t.row_bytes);
    assert_non_null(f->data[f->n_tensors]);
    f->tensors[f->n_tensors] = t;
    return (int)f->n_tensors++;
}

int fixture_matrix(fixture *f, quant_type type, uint32_t rows, uint32_t cols)
{
    int i =
        add_tensor(f, (plan_tensor){.name = "matrix", .type = type, .rows = rows, .cols = cols});
    uint8_t *row = f->data[i];
    for (uint32_t r = 0; r < rows; r++, row += f->tensors[i].row_bytes)
        random_row(f, quant_format_of(type), cols, row);
    return i;
}

plan_vector fixture_vector(fixture *f, uint32_t n, float center)
{
    int i = add_tensor(
        f, (plan_tensor){
               .name = "vector", .type = QUANT_F32, .rows = 1, .cols = n + 3, .vector = true});
    float *values = f->data[i];
    for (uint32_t k = 0; k < n + 3; k++) values[k] = center + 0.3f * fixture_normal(f);
    return (plan_vector){i, 3};
}

int fixture_rope_table(fixture *f, uint32_t rows, uint32_t cols)
{
    int i = add_tensor(f, (plan_tensor){.name = "table", .rows = rows, .cols = cols});
    float *values = f->data[i];
    for (uint32_t k = 0; k < rows * cols; k += 2) {
        double angle = fixture_draw(f) * 6.28;
        values[k] = (float)cos(angle);
        values[k + 1] = (float)sin(angle);
    }
    f->tensors[i].values = values;
    return i;
}

// Rows of NaN: what an op does not write shows.
static void fill_nan(const plan_buf *b, uint8_t *bytes)
{
    if (b->type == QUANT_F32) {
        for (uint64_t i = 0; i < b->bytes / 4; i++) memcpy(bytes + 4 * i, &(float){NAN}, 4);
        return;
    }
    memset(bytes, 77, b->bytes);
    uint64_t block = b->type == QUANT_F16 ? 2 : QUANT_Q8_BYTES;
    for (uint64_t i = 0; i < b->bytes; i += block) memcpy(bytes + i, &(uint16_t){0x7e00}, 2);
}

void fixture_buf(fixture *f, int id, quant_type type, uint32_t width, uint32_t rows, bool fill)
{
    plan_buf *b = &f->bufs[id];
    *b = (plan_buf){.name = "buffer", .type = type, .width = width, .rows = rows, .layer = -1};
    if (id >= PLAN_KV) b->layer = 0;
    assert_true(quant_row_bytes(type, width, &b->row_bytes));
    b->bytes = b->row_bytes * rows;
    f->initial[id] = malloc(b->bytes);
    assert_non_null(f->initial[id]);
    fill_nan(b, f->initial[id]);
    float *values = malloc(width * sizeof *values);
    assert_non_null(values);
    for (uint32_t r = 0; fill && r < rows; r++) {
        for (uint32_t i = 0; i < width; i++) values[i] = fixture_normal(f);
        quant_format_of(type)->encode(values, f->initial[id] + r * b->row_bytes, width);
    }
    free(values);
}

void fixture_caches(fixture *f, quant_type type, uint32_t n_slots, uint32_t n_head_kv,
                    uint32_t n_ctx, uint32_t head_dim)
{
    f->set.n_slots = n_slots;
    f->set.n_head_kv = n_head_kv;
    f->set.n_ctx = n_ctx;
    f->set.head_dim = head_dim;
    for (int i = 0; i < 2; i++)
        fixture_buf(f, PLAN_KV + i, type, head_dim, n_slots * n_head_kv * n_ctx, true);
}

void fixture_hide_keys(fixture *f)
{
    for (int i = PLAN_KV; i < PLAN_KV + 2; i++) {
        for (uint32_t row = 0; row < f->bufs[i].rows; row++) {
            uint32_t slot = row / f->set.n_ctx / f->set.n_head_kv, pos = row % f->set.n_ctx;
            bool seen = false;
            for (uint32_t r = 0; r < f->step.n_rows; r++)
                seen = seen || (f->step.rows[r].slot == slot && f->step.rows[r].n_kv > pos);
            plan_buf one = f->bufs[i];
            one.bytes = one.row_bytes;
            if (!seen) fill_nan(&one, f->initial[i] + row * one.row_bytes);
        }
    }
}

plan_op *fixture_op(fixture *f, plan_op_kind kind, const char *label)
{
    assert_true(f->n_ops < 4);
    plan_op *op = &f->ops[f->n_ops++];
    *op = (plan_op){.kind = kind, .label = label};
    return op;
}

void fixture_rows(fixture *f, uint32_t n_rows, uint32_t n_vocab)
{
    f->step = (plan_step){.n_rows = n_rows, .n_logits = n_rows};
    uint32_t slot = 0, pos = 0;
    for (uint32_t i = 0; i < n_rows; i++) {
        // A row follows the one before it, or another sequence goes on somewhere else.
        uint32_t left = f->set.n_ctx - pos;
        if (i == 0 || left < 2 || fixture_draw(f) < 0.1) {
            slot = i == 0 ? fixture_pick(f, 0, f->set.n_slots - 1) : slot + 1;
            slot %= f->set.n_slots;
            pos = fixture_pick(f, 0, f->set.n_ctx - 1);
        } else {
            pos++;
        }
        f->step.rows[i] = (plan_row){(int32_t)fixture_pick(f, 0, n_vocab - 1), pos, slot, pos + 1};
        f->step.logit_rows[i] = (uint16_t)i;
    }
}

void fixture_ready(fixture *f)
{
    f->set.tensors = f->tensors;
    f->set.n_tensors = f->set.n_model_tensors = f->n_tensors;
    f->set.bufs = f->bufs;
    f->set.n_bufs = FIXTURE_BUFS;
    f->set.n_buckets = 1;
    f->set.buckets[0] = (plan){f->set.n_batch, f->n_ops, f->ops};
    for (uint32_t i = 0; i < f->n_ops; i++) {
        const char *fault = plan_op_fault(&f->set, &f->ops[i]);
        if (fault) fail_msg("%s: %s", f->ops[i].label, fault);
    }
}

// ---- running ----------------------------------------------------------------------------------

static pm_status source_read(void *arg, uint32_t tensor, uint64_t offset, void *dst, uint64_t n)
{
    const fixture *f = arg;
    memcpy(dst, (const char *)f->data[tensor] + offset, n);
    return PM_OK;
}

void fixture_load(fixture *f, const exec_params *params, const exec_kind *kind, fixture_exec *out)
{
    exec_source source = {.arg = f, .read = source_read};
    bool wanted[FIXTURE_MAX];
    for (uint32_t i = 0; i < f->n_tensors; i++) wanted[i] = !f->tensors[i].values;
    *out = (fixture_exec){.kind = kind};
    assert_ok(kind->load(params, f->tensors, f->n_tensors, wanted, &source, &out->weights));
    assert_ok(kind->open(out->weights, &f->set, 0, 1, true, &out->exec));
}

void fixture_unload(fixture_exec *x)
{
    x->kind->close(x->exec);
    x->kind->unload(x->weights);
}

void fixture_run(fixture *f, fixture_exec *x, uint32_t first, uint32_t n_rows, fixture_result *out)
{
    *out = (fixture_result){0};
    plan_step step = {.n_rows = n_rows, .n_logits = n_rows};
    for (uint32_t i = 0; i < n_rows; i++) step.rows[i] = f->step.rows[first + i];
    for (uint32_t i = 0; i < n_rows; i++) step.logit_rows[i] = (uint16_t)i;
    if (n_rows == f->step.n_rows) step = f->step;
    for (int i = 0; i < FIXTURE_BUFS; i++) {
        const plan_buf *b = &f->bufs[i];
        if (b->bytes == 0) continue;
        assert_ok(x->kind->write(x->exec, i, 0, f->initial[i], b->bytes));
        uint64_t skipped = first * b->row_bytes;
        if (i < PLAN_KV && skipped > 0)
            assert_ok(x->kind->write(x->exec, i, 0, f->initial[i] + skipped, b->bytes - skipped));
    }
    assert_ok(x->kind->run(x->exec, &f->set.buckets[0], 0, f->n_ops, &step));
    for (int i = 0; i < FIXTURE_BUFS; i++) {
        const plan_buf *b = &f->bufs[i];
        if (b->bytes == 0) continue;
        out->bufs[i] = malloc(b->bytes);
        assert_non_null(out->bufs[i]);
        assert_ok(x->kind->read(x->exec, i, 0, out->bufs[i], b->bytes));
    }
}

void fixture_result_free(fixture_result *r)
{
    for (int i = 0; i < FIXTURE_BUFS; i++) free(r->bufs[i]);
}

// ---- comparing --------------------------------------------------------------------------------

// Do the ops write value `col` of row `row` of a buffer?
static bool is_written(const fixture *f, int id, uint32_t row, uint32_t col)
{
    for (uint32_t i = 0; i < f->n_ops; i++) {
        plan_uses uses;
        plan_op_uses(&f->set, &f->ops[i], &uses);
        for (uint32_t w = 0; w < uses.n_writes; w++) {
            plan_view v = uses.writes[w];
            if (v.buf != id || col < v.col || col - v.col >= v.n) continue;
            if (id == PLAN_LOGITS || id == PLAN_PICK) return row < f->step.n_logits;
            if (id < PLAN_KV) return row < f->step.n_rows;
            for (uint32_t r = 0; r < f->step.n_rows; r++) {
                const plan_row *at = &f->step.rows[r];
                uint32_t begin = at->slot * f->set.n_head_kv * f->set.n_ctx + at->pos;
                if (row >= begin && row < begin + f->set.n_head_kv * f->set.n_ctx &&
                    (row - begin) % f->set.n_ctx == 0)
                    return true;
            }
        }
    }
    return false;
}

static void compare_picks(const plan_pick *a, const plan_pick *b, uint32_t row, const char *what)
{
    bool same = a->id == b->id && a->max == b->max && a->finite == b->finite &&
                a->n_top == b->n_top &&
                !memcmp(a->top_id, b->top_id, a->n_top * sizeof *a->top_id) &&
                !memcmp(a->top_logit, b->top_logit, a->n_top * sizeof *a->top_logit) &&
                fabs((double)a->log_sum_exp - (double)b->log_sum_exp) <=
                    1e-5 * fabs((double)a->log_sum_exp);
    if (!same) fail_msg("%s: other candidates in row %u", what, row);
}

// Squared error over squared size of what was written into one buffer.
static double buffer_error(const fixture *f, int id, const uint8_t *expected, const uint8_t *got,
                           const char *what)
{
    const plan_buf *b = &f->bufs[id];
    const quant_format *format = quant_format_of(b->type);
    float a[8192], c[8192];
    assert_true(b->width <= 8192);
    double error = 0, size = 0;
    for (uint32_t row = 0; row < b->rows; row++) {
        format->decode(expected + row * b->row_bytes, a, b->width);
        format->decode(got + row * b->row_bytes, c, b->width);
        for (uint32_t col = 0; col < b->width; col++) {
            uint64_t block = col / format->block_values * format->block_bytes;
            const uint8_t *before = f->initial[id] + row * b->row_bytes + block;
            if (is_written(f, id, row, col)) {
                error += ((double)a[col] - (double)c[col]) * ((double)a[col] - (double)c[col]);
                size += (double)a[col] * (double)a[col];
            } else if (memcmp(before, got + row * b->row_bytes + block, format->block_bytes) != 0) {
                fail_msg("%s: buffer %d, row %u, value %u: written, but no op does", what, id, row,
                         col);
            }
        }
    }
    return error == 0 ? 0 : error / size;
}

void fixture_compare(const fixture *f, const fixture_result *expected, const fixture_result *got,
                     double limit, const char *what)
{
    for (int i = 0; i < FIXTURE_BUFS; i++) {
        if (f->bufs[i].bytes == 0) continue;
        if (i == PLAN_PICK) {
            for (uint32_t r = 0; r < f->step.n_logits; r++)
                compare_picks((const plan_pick *)(const void *)expected->bufs[i] + r,
                              (const plan_pick *)(const void *)got->bufs[i] + r, r, what);
            continue;
        }
        double error = buffer_error(f, i, expected->bufs[i], got->bufs[i], what);
        if (!(error <= limit)) fail_msg("%s: buffer %d: error %g, limit %g", what, i, error, limit);
    }
}

void fixture_compare_row(const fixture *f, const fixture_result *all, const fixture_result *one,
                         uint32_t row, const char *what)
{
    for (int i = 0; i < PLAN_KV; i++) {
        const plan_buf *b = &f->bufs[i];
        if (b->bytes == 0) continue;
        if (memcmp(all->bufs[i] + row * b->row_bytes, one->bufs[i], b->row_bytes) != 0)
            fail_msg("%s: buffer %d: row %u has other bits when it runs alone", what, i, row);
    }
}

void fixture_compare_bits(const fixture *f, const fixture_result *a, const fixture_result *b,
                          const char *what)
{
    for (int i = 0; i < FIXTURE_BUFS; i++) {
        if (f->bufs[i].bytes && memcmp(a->bufs[i], b->bufs[i], f->bufs[i].bytes) != 0)
            fail_msg("%s: buffer %d has other bits", what, i);
    }
}
