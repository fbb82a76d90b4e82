// LINEAR and LOGITS: products with weights. An item of work is a strip of 32 output columns, for
// all rows of the step: its weights are read from memory once.
#include "exec/cpu/cpu.h"

#include <string.h>

// The rows that a product takes.
typedef struct inputs {
    bool q8;
    const float *x; // rows `stride` floats apart
    size_t stride;
    cpu_q8 q;
    uint32_t n_rows;
} inputs;

// ---- one tile ---------------------------------------------------------------------------------

// acc[row][lane] += product of the group's 16 weight rows with rows [first, first + n) of x.
static void multiply_group(const exec *e, cpu_scratch *s, const cpu_weight *w, uint32_t group,
                           const inputs *in, uint32_t first, uint32_t n, float *acc)
{
    for (uint32_t col = 0; col < w->cols; col += CPU_CHUNK) {
        uint32_t cols = w->cols - col < CPU_CHUNK ? w->cols - col : CPU_CHUNK;
        if (in->q8) {
            e->k->unpack(w, group, col, cols, s->panel);
            e->k->dot_q8(s->panel, cpu_q8_moved(in->q, first, col), n, acc);
        } else {
            const float *panel = e->k->unpack_f32(w, group, col, cols, s->floats);
            e->k->dot_f32(panel, cols, in->x + first * in->stride + col, in->stride, n, acc);
        }
    }
}

// y[row][i] = product of weight row `weight_row + i`, i < n_cols, with rows [first, first + n) of
// x. Weight rows may begin anywhere in a group; whole groups are summed in their place.
static void multiply_tile(const exec *e, cpu_scratch *s, const cpu_weight *w, uint32_t weight_row,
                          uint32_t n_cols, const inputs *in, uint32_t first, uint32_t n, float *y)
{
    size_t tile_bytes = (size_t)n * CPU_TILE_COLS * sizeof *y;
    memset(y, 0, tile_bytes);
    for (uint32_t done = 0; done < n_cols;) {
        uint32_t group = (weight_row + done) / CPU_LANES, lane = (weight_row + done) % CPU_LANES;
        uint32_t now = n_cols - done < CPU_LANES - lane ? n_cols - done : CPU_LANES - lane;
        if (now == CPU_LANES) {
            multiply_group(e, s, w, group, in, first, n, y + done);
        } else {
            memset(s->acc, 0, tile_bytes);
            multiply_group(e, s, w, group, in, first, n, s->acc);
            for (uint32_t r = 0; r < n; r++) {
                memcpy(y + r * CPU_TILE_COLS + done, s->acc + r * CPU_TILE_COLS + lane,
                       now * sizeof *y);
            }
        }
        done += now;
    }
}

// ---- inputs -----------------------------------------------------------------------------------

static void dequantize(const exec *e, cpu_q8 q, uint32_t n, float *out)
{
    for (uint32_t b = 0; b < n / CPU_BLOCK; b++) {
        e->k->from_i8(q.q + b * CPU_BLOCK, q.d[b], out + b * CPU_BLOCK);
    }
}

// What is written to e->rows: x normalized, or as floats, or only moved.
static void make_row(exec *e, plan_view x, uint32_t row, const plan_norm_op *norm,
                     const float *weight, bool q8, uint32_t to)
{
    float *out = e->rows + to * e->rows_width;
    if (norm) {
        e->k->norm(norm, cpu_f32_at(e, x, row), weight, NULL, NULL, x.n, out);
    } else if (!e->bufs[x.buf].q8) {
        memcpy(out, cpu_f32_at(e, x, row), x.n * sizeof *out);
    } else if (!q8) {
        dequantize(e, cpu_q8_at(e, x, row), x.n, out);
    } else {
        cpu_q8 from = cpu_q8_at(e, x, row), dst = cpu_q8_moved(e->rows_q8, to, 0);
        memcpy(dst.q, from.q, x.n);
        memcpy(dst.d, from.d, x.n / CPU_BLOCK * sizeof *dst.d);
        memcpy(dst.sum, from.sum, x.n / 16 * sizeof *dst.sum);
    }
}

// rows: which rows of x, NULL: [0, n_rows). Where they can't be taken as they lie, the team makes
// them first.
static inputs prepare(exec *e, plan_view x, const uint16_t *rows, uint32_t n_rows,
                      plan_vector norm_in, float eps, const cpu_weight *w)
{
    bool gathered = false;
    for (uint32_t i = 1; rows && i < n_rows; i++) gathered |= rows[i] != rows[0] + i;
    bool stored_q8 = e->bufs[x.buf].q8, q8 = stored_q8 && w->form == CPU_INT;
    uint32_t first = rows ? rows[0] : 0;
    inputs in = {.q8 = q8, .n_rows = n_rows};
    if (norm_in.tensor == PLAN_NONE && stored_q8 == q8 && !gathered) {
        if (q8) {
            in.q = cpu_q8_at(e, x, first);
        } else {
            in.x = cpu_f32_at(e, x, first);
            in.stride = e->bufs[x.buf].stride / sizeof(float);
        }
        return in;
    }
    plan_norm_op norm = {.norm = PLAN_NORM_RMS, .eps = eps};
    bool normed = norm_in.tensor != PLAN_NONE;
    uint32_t begin, end;
    while (team_next(e->team, n_rows, 1, &begin, &end)) {
        make_row(e, x, rows ? rows[begin] : begin, normed ? &norm : NULL, cpu_vector(e, norm_in, 0),
                 q8, begin);
    }
    team_barrier(e->team);
    in.x = e->rows;
    in.stride = e->rows_width;
    in.q = e->rows_q8;
    return in;
}

// Few enough that members end together, many enough that handing out costs nothing.
static uint32_t grain_of(const exec *e, uint32_t n_items)
{
    uint32_t grain = n_items / ((uint32_t)team_size(e->team) * 32);
    return grain < 1 ? 1 : grain;
}

// ---- LINEAR -----------------------------------------------------------------------------------

static uint32_t strips(uint32_t n_cols)
{
    return (n_cols + CPU_TILE_COLS - 1) / CPU_TILE_COLS;
}

// y: the finished product of row `row`, n columns from `col` on, of weight i.
static void finish_linear(exec *e, const plan_linear *op, uint32_t i, uint32_t row, uint32_t col,
                          uint32_t n, float *y, float *y1)
{
    const float *bias = cpu_vector(e, op->bias[i], col);
    if (bias) e->k->add(y, bias, y, n);
    if (op->gated) {
        const float *bias1 = cpu_vector(e, op->bias[1], col);
        if (bias1) e->k->add(y1, bias1, y1, n);
    }
    if (op->fn != PLAN_FN_NONE) e->k->activate(op->fn, y, y, n);
    if (op->gated) e->k->multiply(y, y1, y, n);
    plan_view out = op->out[i];
    out.col += col;
    if (op->residual.buf != PLAN_NONE) {
        plan_view residual = op->residual;
        residual.col += col;
        e->k->add(y, cpu_f32_at(e, residual, row), y, n);
    }
    if (e->bufs[out.buf].q8) {
        cpu_q8 q = cpu_q8_at(e, out, row);
        e->k->quantize(y, n, q.q, q.d, q.sum);
    } else {
        memcpy(cpu_f32_at(e, out, row), y, n * sizeof *y);
    }
}

static void linear_strip(exec *e, cpu_scratch *s, const plan_linear *op, const inputs *in,
                         uint32_t i, uint32_t strip)
{
    uint32_t col = strip * CPU_TILE_COLS, n_cols = op->weight[i].rows - col;
    if (n_cols > CPU_TILE_COLS) n_cols = CPU_TILE_COLS;
    for (uint32_t first = 0; first < in->n_rows; first += CPU_TILE_ROWS) {
        uint32_t n = in->n_rows - first < CPU_TILE_ROWS ? in->n_rows - first : CPU_TILE_ROWS;
        for (uint32_t j = 0; j < (op->gated ? 2u : 1u); j++) {
            plan_weight w = op->weight[i + j];
            multiply_tile(e, s, cpu_matrix(e, w), w.row + col, n_cols, in, first, n, s->y[j]);
        }
        for (uint32_t r = 0; r < n; r++) {
            finish_linear(e, op, i, first + r, col, n_cols, s->y[0] + r * CPU_TILE_COLS,
                          s->y[1] + r * CPU_TILE_COLS);
        }
    }
}

void cpu_linear(exec *e, const plan_linear *op, int member)
{
    inputs in = prepare(e, op->x, NULL, e->step->n_rows, op->norm_in, op->norm_eps,
                        cpu_matrix(e, op->weight[0]));
    uint32_t n_products = op->gated ? 1 : op->n_weights, total = 0, begin, end;
    for (uint32_t i = 0; i < n_products; i++) total += strips(op->weight[i].rows);
    while (team_next(e->team, total, grain_of(e, total), &begin, &end)) {
        for (uint32_t item = begin; item < end; item++) {
            uint32_t i = 0, strip = item;
            while (strip >= strips(op->weight[i].rows)) strip -= strips(op->weight[i++].rows);
            linear_strip(e, &e->scratch[member], op, &in, i, strip);
        }
    }
}

// ---- LOGITS -----------------------------------------------------------------------------------

static void logits_strip(exec *e, cpu_scratch *s, const plan_logits *op, const inputs *in,
                         uint32_t strip)
{
    plan_view out = {PLAN_LOGITS, strip * CPU_TILE_COLS, 0};
    uint32_t n_cols = op->weight.rows - out.col;
    if (n_cols > CPU_TILE_COLS) n_cols = CPU_TILE_COLS;
    const float *bias = cpu_vector(e, op->bias, out.col);
    for (uint32_t first = 0; first < in->n_rows; first += CPU_TILE_ROWS) {
        uint32_t n = in->n_rows - first < CPU_TILE_ROWS ? in->n_rows - first : CPU_TILE_ROWS;
        multiply_tile(e, s, cpu_matrix(e, op->weight), op->weight.row + out.col, n_cols, in, first,
                      n, s->y[0]);
        for (uint32_t r = 0; r < n; r++) {
            float *y = s->y[0] + r * CPU_TILE_COLS;
            if (bias) e->k->add(y, bias, y, n_cols);
            if (op->softcap > 0) e->k->soft_cap(y, n_cols, op->softcap);
            memcpy(cpu_f32_at(e, out, first + r), y, n_cols * sizeof *y);
        }
    }
}

void cpu_logits(exec *e, const plan_logits *op, int member)
{
    if (e->step->n_logits == 0) return;
    inputs in = prepare(e, op->x, e->step->logit_rows, e->step->n_logits, op->norm_in, op->norm_eps,
                        cpu_matrix(e, op->weight));
    uint32_t total = strips(op->weight.rows), begin, end;
    while (team_next(e->team, total, grain_of(e, total), &begin, &end)) {
        for (uint32_t strip = begin; strip < end; strip++) {
            logits_strip(e, &e->scratch[member], op, &in, strip);
        }
    }
}
