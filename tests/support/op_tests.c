#include "support/op_tests.h"

#include <inttypes.h>
#include <math.h>

#include "support/plan_fixture.h"
#include "support/test.h"

enum { MOST_ROWS = 300 };

// Both sides of every tile: 4 and 8 rows of registers, 16 rows of attention, 128 rows of a product.
static const uint32_t row_counts[] = {1,  2,  3,  4,  5,  7,   8,   9,   15, 16,
                                      17, 31, 33, 64, 70, 127, 128, 129, 260};
enum { N_ROW_COUNTS = sizeof row_counts / sizeof row_counts[0] };

static uint32_t some_rows(fixture *f)
{
    // mostly few: large ones take long on the reference
    uint32_t i = fixture_pick(f, 0, N_ROW_COUNTS - 1);
    return fixture_draw(f) < 0.6 ? row_counts[i % 11] : row_counts[i];
}

static bool maybe(fixture *f)
{
    return fixture_draw(f) < 0.5;
}

static const plan_view no_view = {PLAN_NONE, 0, 0};
static const plan_vector no_vector = {PLAN_NONE, 0};

// A buffer of `rows` rows with a view of n values somewhere in it.
static plan_view view_in(fixture *f, int id, quant_type type, uint32_t n, uint32_t rows, bool fill)
{
    uint32_t unit = type == QUANT_Q8_0 ? QUANT_Q8_VALUES : 1;
    uint32_t before = fixture_pick(f, 0, 2) * unit, after = fixture_pick(f, 0, 2) * unit;
    fixture_buf(f, id, type, before + n + after, rows, fill);
    return (plan_view){id, before, n};
}

static void run_case(fixture *f, const op_target *t, double limit, const char *text)
{
    char what[256];
    snprintf(what, sizeof what, "%s, %u rows (seed %" PRIu64 ", %s)", text, f->step.n_rows, f->seed,
             t->isa ? t->isa : t->kind->name);
    fixture_ready(f);
    fixture_exec x;
    fixture_result expected, first, again;
    fixture_load(f, &(exec_params){.n_threads = 1}, &exec_reference, &x);
    fixture_run(f, &x, 0, f->step.n_rows, &expected);
    fixture_unload(&x);
    for (int i = 0; i < t->n_thread_counts; i++) {
        fixture_load(
            f,
            &(exec_params){
                .n_threads = t->thread_counts[i], .isa = t->isa, .gpu = t->gpu, .layout = &f->set},
            t->kind, &x);
        fixture_run(f, &x, 0, f->step.n_rows, i == 0 ? &first : &again);
        if (i == 0) {
            fixture_compare(f, &expected, &first, limit, what);
            bool all = f->step.n_logits == f->step.n_rows;
            uint32_t rows[] = {0, f->step.n_rows / 2, f->step.n_rows - 1};
            for (int r = 0; all && !t->rows_may_differ && r < 3; r++) {
                fixture_run(f, &x, rows[r], 1, &again);
                fixture_compare_row(f, &first, &again, rows[r], what);
                fixture_result_free(&again);
            }
            if (t->gpu) {
                fixture_run(f, &x, 0, f->step.n_rows, &again);
                fixture_compare_bits(f, &first, &again, what);
                fixture_result_free(&again);
            }
        } else {
            fixture_compare_bits(f, &first, &again, what);
            fixture_result_free(&again);
        }
        fixture_unload(&x);
    }
    fixture_result_free(&first);
    fixture_result_free(&expected);
}

static bool has_format(const op_target *t, quant_type type)
{
    return !t->format_name || t->format_name(type);
}

static double limit_of(bool q8)
{
    return q8 ? 1e-5 : 1e-6;
}

static const char *const fn_names[] = {"no function", "silu", "gelu tanh", "gelu erf"};

static plan_fn some_fn(fixture *f)
{
    return (plan_fn)fixture_pick(f, PLAN_FN_NONE, PLAN_FN_GELU_ERF);
}

// ---- LINEAR and LOGITS ------------------------------------------------------------------------

// Columns that a format and an op form allow.
static uint32_t some_cols(fixture *f, const quant_format *format, plan_act act)
{
    uint32_t unit = format->block_values;
    if (act == PLAN_ACT_Q8 && unit < QUANT_Q8_VALUES) unit = QUANT_Q8_VALUES;
    uint32_t most = 640 / unit;
    return unit * fixture_pick(f, 1, most < 3 ? 3 : most);
}

static plan_weight some_weight(fixture *f, quant_type type, uint32_t rows, uint32_t cols)
{
    uint32_t before = maybe(f) ? 0 : fixture_pick(f, 1, 20), after = fixture_pick(f, 0, 5);
    return (plan_weight){fixture_matrix(f, type, before + rows + after, cols), before, rows};
}

static unsigned step_of(const op_target *t)
{
    return t->every ? t->every : 1;
}

static void linear_case(const op_target *t, const quant_format *format, plan_act act, uint64_t seed)
{
    fixture f;
    fixture_init(&f, seed, MOST_ROWS);
    uint32_t cols = some_cols(&f, format, act), n_rows = some_rows(&f), rows = n_rows + 1;
    plan_op *op = fixture_op(&f, PLAN_LINEAR, "linear");
    op->act = act;
    plan_linear *l = &op->u.linear;
    *l = (plan_linear){.residual = no_view, .norm_in = no_vector, .norm_eps = 1e-5f};
    l->x = view_in(&f, PLAN_XN, act == PLAN_ACT_Q8 ? QUANT_Q8_0 : QUANT_F32, cols, rows, true);
    l->fn = some_fn(&f);
    l->gated = fixture_draw(&f) < 0.35;
    l->n_weights = l->gated ? 2 : fixture_pick(&f, 1, 3);
    if (act == PLAN_ACT_F32 && maybe(&f)) l->norm_in = fixture_vector(&f, cols, 1);
    uint32_t n_out = fixture_pick(&f, 1, 100);
    bool q8_out = l->gated && maybe(&f);
    if (q8_out) n_out = (n_out + 31) / 32 * 32;
    for (uint32_t i = 0; i < l->n_weights; i++) {
        uint32_t n = l->gated ? n_out : fixture_pick(&f, 1, 100);
        l->weight[i] = some_weight(&f, format->type, n, cols);
        l->bias[i] = maybe(&f) ? fixture_vector(&f, n, 0) : no_vector;
        if (l->gated && i > 0) continue;
        static const int outs[] = {PLAN_FF, PLAN_UP, PLAN_T};
        l->out[i] = view_in(&f, outs[i], q8_out ? QUANT_Q8_0 : QUANT_F32, n, rows, false);
    }
    if (!l->gated && l->n_weights == 1 && maybe(&f)) {
        bool in_place = maybe(&f);
        l->residual = view_in(&f, PLAN_X, QUANT_F32, l->weight[0].rows, rows, true);
        if (in_place) {
            l->out[0] = l->residual;
            free(f.initial[PLAN_FF]); // nothing is written there
            f.initial[PLAN_FF] = NULL;
            f.bufs[PLAN_FF] = (plan_buf){0};
        }
    }
    fixture_rows(&f, n_rows, 1);
    char text[160];
    snprintf(text, sizeof text, "LINEAR of %s %ux%u, act=%s, %u weights%s, %s%s%s", format->name,
             l->weight[0].rows, cols, act == PLAN_ACT_Q8 ? "q8" : "f32", l->n_weights,
             l->gated ? " gated" : "", fn_names[l->fn], q8_out ? ", q8 out" : "",
             l->norm_in.tensor >= 0 ? ", norm in" : "");
    run_case(&f, t, limit_of(act == PLAN_ACT_Q8 || q8_out), text);
    fixture_free(&f);
}

void op_test_linear(const op_target *t)
{
    enum { CASES = 8 };
    uint64_t seed = 1000;
    const quant_format *format;
    size_t n = 0;
    for (; (format = quant_format_at(n)) != NULL; n++) {
        for (int i = 0; i < CASES; i++, seed += 2) {
            if (!has_format(t, format->type)) continue;
            linear_case(t, format, PLAN_ACT_F32, seed);
            linear_case(t, format, PLAN_ACT_Q8, seed + 1);
        }
    }
    assert_true(n > 0);
}

void op_test_logits(const op_target *t)
{
    static const quant_type types[] = {QUANT_F32,  QUANT_F16,  QUANT_Q8_0,
                                       QUANT_Q4_K, QUANT_Q6_K, QUANT_IQ3_S};
    for (uint64_t seed = 2000; seed < 2048; seed++) {
        if (!has_format(t, types[seed % 6])) continue;
        fixture f;
        fixture_init(&f, seed, MOST_ROWS);
        const quant_format *format = quant_format_of(types[seed % 6]);
        plan_op *op = fixture_op(&f, PLAN_LOGITS_OP, "output");
        op->act = maybe(&f) ? PLAN_ACT_Q8 : PLAN_ACT_F32;
        bool q8 = op->act == PLAN_ACT_Q8;
        uint32_t cols = some_cols(&f, format, op->act), n_rows = some_rows(&f);
        uint32_t n_vocab = fixture_pick(&f, 1, 200);
        plan_logits *l = &op->u.logits;
        *l = (plan_logits){.bias = no_vector, .norm_in = no_vector, .norm_eps = 1e-6f};
        l->x = view_in(&f, PLAN_X, q8 ? QUANT_Q8_0 : QUANT_F32, cols, n_rows, true);
        l->weight = some_weight(&f, format->type, n_vocab, cols);
        if (maybe(&f)) l->bias = fixture_vector(&f, n_vocab, 0);
        if (!q8 && maybe(&f)) l->norm_in = fixture_vector(&f, cols, 1);
        if (maybe(&f)) l->softcap = 30;
        fixture_buf(&f, PLAN_LOGITS, QUANT_F32, n_vocab, n_rows, false);
        f.set.n_vocab = n_vocab;
        fixture_rows(&f, n_rows, 1);
        if (maybe(&f)) { // only some rows are marked
            f.step.n_logits = 0;
            for (uint32_t r = 0; r < n_rows; r++)
                if (maybe(&f) || r + 1 == n_rows)
                    f.step.logit_rows[f.step.n_logits++] = (uint16_t)r;
        }
        char text[160];
        snprintf(text, sizeof text, "LOGITS of %s %ux%u, act=%s, %u marked%s%s", format->name,
                 n_vocab, cols, q8 ? "q8" : "f32", f.step.n_logits,
                 l->softcap > 0 ? ", capped" : "", l->norm_in.tensor >= 0 ? ", norm in" : "");
        run_case(&f, t, limit_of(q8), text);
        fixture_free(&f);
    }
}

// ---- rows -------------------------------------------------------------------------------------

void op_test_embed(const op_target *t)
{
    const quant_format *format;
    for (size_t i = 0; (format = quant_format_at(i)) != NULL; i++) {
        if (!has_format(t, format->type)) continue;
        fixture f;
        fixture_init(&f, 3000 + i, MOST_ROWS);
        uint32_t cols = some_cols(&f, format, PLAN_ACT_F32), n_rows = some_rows(&f);
        plan_embed *e = &fixture_op(&f, PLAN_EMBED, "embed")->u.embed;
        *e = (plan_embed){.positions = {PLAN_NONE, 0, 0}, .scale = maybe(&f) ? 1 : 3.5f};
        e->table = some_weight(&f, format->type, 40, cols);
        f.set.n_ctx = 50;
        if (maybe(&f)) e->positions = some_weight(&f, format->type, 50, cols);
        e->out = view_in(&f, PLAN_X, QUANT_F32, cols, n_rows, false);
        fixture_rows(&f, n_rows, 40);
        char text[160];
        snprintf(text, sizeof text, "EMBED of %s, %u columns%s", format->name, cols,
                 e->positions.tensor >= 0 ? ", positions" : "");
        run_case(&f, t, 1e-12, text);
        fixture_free(&f);
    }
}

static void norm_case(const op_target *t, uint64_t seed)
{
    fixture f;
    fixture_init(&f, seed, MOST_ROWS);
    bool layer = maybe(&f), q8 = maybe(&f), in_place = !q8 && maybe(&f);
    uint32_t n = q8 ? 32 * fixture_pick(&f, 1, 20) : fixture_pick(&f, 1, 700);
    uint32_t n_rows = some_rows(&f);
    plan_norm_op *o = &fixture_op(&f, PLAN_NORM, "norm")->u.norm;
    *o = (plan_norm_op){.norm = layer ? PLAN_NORM_LAYER : PLAN_NORM_RMS,
                        .eps = 1e-5f,
                        .weight = fixture_vector(&f, n, 1),
                        .bias = no_vector,
                        .residual = no_view};
    if (layer && maybe(&f)) o->bias = fixture_vector(&f, n, 0);
    o->x = view_in(&f, PLAN_X, QUANT_F32, n, n_rows, true);
    o->out = in_place ? o->x : view_in(&f, PLAN_XN, q8 ? QUANT_Q8_0 : QUANT_F32, n, n_rows, false);
    if (!q8 && maybe(&f)) o->residual = view_in(&f, PLAN_X2, QUANT_F32, n, n_rows, true);
    fixture_rows(&f, n_rows, 1);
    char text[160];
    snprintf(text, sizeof text, "NORM of %u values%s%s%s", n, layer ? ", layer" : "",
             q8 ? ", q8 out" : "", o->residual.buf >= 0 ? ", residual" : "");
    // one value alone has variance 0 and a mean of itself: nothing to compare in proportion
    run_case(&f, t, limit_of(q8), text);
    fixture_free(&f);
}

static void activate_case(const op_target *t, uint64_t seed)
{
    fixture f;
    fixture_init(&f, seed, MOST_ROWS);
    bool q8 = maybe(&f);
    uint32_t n = q8 ? 32 * fixture_pick(&f, 1, 80) : fixture_pick(&f, 1, 2500);
    uint32_t n_rows = fixture_pick(&f, 1, 9);
    plan_activate *o = &fixture_op(&f, PLAN_ACTIVATE, "activate")->u.activate;
    *o = (plan_activate){.fn = some_fn(&f), .up = no_view};
    o->x = view_in(&f, PLAN_FF, QUANT_F32, n, n_rows, true);
    if (maybe(&f)) o->up = view_in(&f, PLAN_UP, QUANT_F32, n, n_rows, true);
    uint32_t where = q8 ? 2 : fixture_pick(&f, 0, 2);
    if (where == 0) o->out = o->x;
    if (where == 1) o->out = o->up.buf >= 0 ? o->up : o->x;
    if (where == 2) o->out = view_in(&f, PLAN_T, q8 ? QUANT_Q8_0 : QUANT_F32, n, n_rows, false);
    fixture_rows(&f, n_rows, 1);
    char text[160];
    snprintf(text, sizeof text, "ACTIVATE of %u values, %s%s%s", n, fn_names[o->fn],
             o->up.buf >= 0 ? ", up" : "", q8 ? ", q8 out" : "");
    run_case(&f, t, limit_of(q8), text);
    fixture_free(&f);
}

static void quantize_case(const op_target *t, uint64_t seed)
{
    fixture f;
    fixture_init(&f, seed, MOST_ROWS);
    uint32_t n = 32 * fixture_pick(&f, 1, 80), n_rows = fixture_pick(&f, 1, 9);
    plan_quantize *o = &fixture_op(&f, PLAN_QUANTIZE, "quantize")->u.quantize;
    o->x = view_in(&f, PLAN_XN, QUANT_F32, n, n_rows, true);
    o->out = view_in(&f, PLAN_XQ, QUANT_Q8_0, n, n_rows, false);
    // Halves between two integers, blocks of zeros and of tiny values.
    float *x = (float *)(void *)f.initial[PLAN_XN];
    for (uint64_t i = 0; i < f.bufs[PLAN_XN].bytes / 4; i++) {
        double kind = rint(x[i] * 3);
        if (seed % 3 == 0) x[i] = (float)kind * 0.5f;
        if (seed % 3 == 1 && i / 96 % 4 == 0) x[i] *= i / 96 % 8 == 0 ? 0.0f : 1e-7f;
    }
    fixture_rows(&f, n_rows, 1);
    // A GPU may divide with an error of 2.5 units in the last place: an edge falls to the other
    // side.
    run_case(&f, t, t->rows_may_differ ? 1e-6 : 0, "QUANTIZE");
    fixture_free(&f);
}

static void add_case(const op_target *t, uint64_t seed)
{
    fixture f;
    fixture_init(&f, seed, MOST_ROWS);
    uint32_t n = fixture_pick(&f, 1, 2500), n_rows = fixture_pick(&f, 1, 9);
    plan_add *o = &fixture_op(&f, PLAN_ADD, "add")->u.add;
    o->a = view_in(&f, PLAN_X, QUANT_F32, n, n_rows, true);
    o->b = view_in(&f, PLAN_T, QUANT_F32, n, n_rows, true);
    o->out = seed % 3 == 0 ? o->a : o->b;
    if (seed % 3 == 2) o->out = view_in(&f, PLAN_XN, QUANT_F32, n, n_rows, false);
    fixture_rows(&f, n_rows, 1);
    run_case(&f, t, 0, "ADD");
    fixture_free(&f);
}

void op_test_rows(const op_target *t)
{
    for (uint64_t seed = 4000; seed < 4040; seed += step_of(t)) norm_case(t, seed);
    for (uint64_t seed = 4100; seed < 4160; seed += step_of(t)) activate_case(t, seed);
    for (uint64_t seed = 4200; seed < 4230; seed += step_of(t)) quantize_case(t, seed);
    for (uint64_t seed = 4300; seed < 4312; seed += step_of(t)) add_case(t, seed);
}

// ---- attention --------------------------------------------------------------------------------

typedef struct heads {
    uint32_t n_head, n_head_kv, head_dim, n_ctx;
    quant_type type; // of the cache
    const char *type_name;
} heads;

static heads some_heads(fixture *f, uint32_t most_ctx)
{
    static const uint32_t dims[] = {4, 16, 20, 32, 48, 64, 80, 96, 128};
    static const uint32_t groups[] = {1, 1, 2, 3, 4, 7, 8, 70};
    static const quant_type types[] = {QUANT_F32, QUANT_F16, QUANT_Q8_0};
    heads h = {.head_dim = dims[fixture_pick(f, 0, 8)], .type = types[fixture_pick(f, 0, 2)]};
    if (h.type == QUANT_Q8_0) h.head_dim = h.head_dim / 32 * 32 + (h.head_dim < 32 ? 32 : 0);
    h.n_head_kv = fixture_pick(f, 1, 3);
    h.n_head = h.n_head_kv * groups[fixture_pick(f, 0, h.head_dim > 32 ? 6 : 7)];
    h.n_ctx = fixture_pick(f, 1, most_ctx);
    h.type_name = quant_type_name(h.type);
    return h;
}

static void rope_case(const op_target *t, uint64_t seed)
{
    fixture f;
    fixture_init(&f, seed, MOST_ROWS);
    heads h = some_heads(&f, 60);
    uint32_t n_rows = some_rows(&f), n_slots = fixture_pick(&f, 1, 3);
    if (n_rows > h.n_ctx * n_slots) n_rows = h.n_ctx * n_slots;
    uint32_t n_q = h.n_head * h.head_dim, n_kv = h.n_head_kv * h.head_dim;
    plan_rope_kv *o = &fixture_op(&f, PLAN_ROPE_KV, "rope")->u.rope_kv;
    *o = (plan_rope_kv){.q_norm = no_vector,
                        .k_norm = no_vector,
                        .norm_eps = 1e-6f,
                        .rope = (plan_rope)fixture_pick(&f, PLAN_ROPE_NONE, PLAN_ROPE_NEOX),
                        .table = PLAN_NONE,
                        .n_head = h.n_head,
                        .n_head_kv = h.n_head_kv,
                        .head_dim = h.head_dim,
                        .k_cache = PLAN_KV,
                        .v_cache = PLAN_KV + 1};
    fixture_buf(&f, PLAN_QKV, QUANT_F32, n_q + 2 * n_kv, n_rows, true);
    o->q = (plan_view){PLAN_QKV, 0, n_q};
    o->k = (plan_view){PLAN_QKV, n_q, n_kv};
    o->v = (plan_view){PLAN_QKV, n_q + n_kv, n_kv};
    if (o->rope != PLAN_ROPE_NONE) {
        o->n_rot = maybe(&f) ? h.head_dim : 2 * fixture_pick(&f, 1, h.head_dim / 2);
        o->table = fixture_rope_table(&f, h.n_ctx, o->n_rot);
    }
    if (maybe(&f)) o->q_norm = fixture_vector(&f, h.head_dim, 1);
    if (maybe(&f)) o->k_norm = fixture_vector(&f, h.head_dim, 1);
    fixture_caches(&f, h.type, n_slots, h.n_head_kv, h.n_ctx, h.head_dim);
    fixture_rows(&f, n_rows, 1);
    // No two rows may write the same place: slot by slot, position by position.
    for (uint32_t i = 0; i < n_rows; i++) {
        f.step.rows[i].slot = i / h.n_ctx;
        f.step.rows[i].pos = i % h.n_ctx;
    }
    char text[160];
    snprintf(text, sizeof text, "ROPE_KV %s, %u+%u heads of %u, %u turned, kind %d", h.type_name,
             h.n_head, h.n_head_kv, h.head_dim, o->n_rot, (int)o->rope);
    run_case(&f, t, limit_of(h.type != QUANT_F32), text);
    fixture_free(&f);
}

void op_test_rope_kv(const op_target *t)
{
    for (uint64_t seed = 5000; seed < 5060; seed += step_of(t)) rope_case(t, seed);
}

static void attend_case(const op_target *t, uint64_t seed)
{
    fixture f;
    fixture_init(&f, seed, MOST_ROWS);
    heads h = some_heads(&f, seed % 4 == 0 ? 60 : 300);
    uint32_t n_rows = some_rows(&f), n = h.n_head * h.head_dim;
    plan_attend *o = &fixture_op(&f, PLAN_ATTEND, "attend")->u.attend;
    *o = (plan_attend){.n_head = h.n_head,
                       .n_head_kv = h.n_head_kv,
                       .head_dim = h.head_dim,
                       .scale = 1 / sqrtf((float)h.head_dim),
                       .softcap = maybe(&f) ? 0 : 5,
                       .window = maybe(&f) ? 0 : fixture_pick(&f, 1, 150),
                       .k_cache = PLAN_KV,
                       .v_cache = PLAN_KV + 1};
    bool q8 = n % QUANT_Q8_VALUES == 0 && maybe(&f);
    o->q = view_in(&f, PLAN_QKV, QUANT_F32, n, n_rows, true);
    o->out = view_in(&f, PLAN_ATT, q8 ? QUANT_Q8_0 : QUANT_F32, n, n_rows, false);
    fixture_caches(&f, h.type, fixture_pick(&f, 1, 3), h.n_head_kv, h.n_ctx, h.head_dim);
    fixture_rows(&f, n_rows, 1);
    fixture_hide_keys(&f);
    char text[200];
    snprintf(text, sizeof text, "ATTEND %s, %u/%u heads of %u, context %u, window %u%s%s",
             h.type_name, h.n_head, h.n_head_kv, h.head_dim, h.n_ctx, o->window,
             o->softcap > 0 ? ", capped" : "", q8 ? ", q8 out" : "");
    run_case(&f, t, limit_of(q8), text);
    fixture_free(&f);
}

void op_test_attend(const op_target *t)
{
    for (uint64_t seed = 6000; seed < 6080; seed += step_of(t)) attend_case(t, seed);
}

// n_kv keys, of which a window leaves some; limit and shape as in attend_case.
static void masked_case(const op_target *t, uint32_t n_kv, uint32_t window, uint32_t n_rows,
                        quant_type type)
{
    fixture f;
    fixture_init(&f, 6500 + n_kv + window, MOST_ROWS);
    enum { HEADS = 4, KV_HEADS = 2, DIM = 32, CTX = 1100 };
    plan_attend *o = &fixture_op(&f, PLAN_ATTEND, "attend")->u.attend;
    *o = (plan_attend){.n_head = HEADS,
                       .n_head_kv = KV_HEADS,
                       .head_dim = DIM,
                       .scale = 0.2f,
                       .window = window,
                       .k_cache = PLAN_KV,
                       .v_cache = PLAN_KV + 1};
    o->q = view_in(&f, PLAN_QKV, QUANT_F32, HEADS * DIM, n_rows, true);
    o->out = view_in(&f, PLAN_ATT, QUANT_F32, HEADS * DIM, n_rows, false);
    fixture_caches(&f, type, 1, KV_HEADS, CTX, DIM);
    fixture_rows(&f, n_rows, 1);
    for (uint32_t i = 0; i < n_rows; i++)
        f.step.rows[i] = (plan_row){.pos = n_kv - n_rows + i, .n_kv = n_kv - n_rows + i + 1};
    fixture_hide_keys(&f);
    // A window hides keys at the front too.
    uint32_t first_pos = f.step.rows[0].pos, seen_from = 0;
    if (window > 0 && first_pos + 1 > window) seen_from = first_pos + 1 - window;
    for (int b = PLAN_KV; b < PLAN_KV + 2; b++)
        for (uint32_t h = 0; h < KV_HEADS; h++)
            memset(f.initial[b] + (uint64_t)h * CTX * f.bufs[b].row_bytes, 0xff,
                   seen_from * f.bufs[b].row_bytes); // NaN in f32 and f16
    char text[160];
    snprintf(text, sizeof text, "ATTEND %s, %u keys, window %u", quant_type_name(type), n_kv,
             window);
    run_case(&f, t, limit_of(false), text);
    fixture_free(&f);
}

void op_test_masked(const op_target *t)
{
    static const struct {
        uint32_t n_kv, window, n_rows;
    } cases[] = {
        {1, 0, 1},     {1, 1, 1},     {2, 1, 1},      {65, 1, 1},     {1100, 1, 1},
        {1100, 1, 20}, {1100, 16, 1}, {1100, 16, 33}, {700, 100, 70}, {513, 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        masked_case(t, cases[i].n_kv, cases[i].window, cases[i].n_rows, QUANT_F32);
        masked_case(t, cases[i].n_kv, cases[i].window, cases[i].n_rows, QUANT_F16);
    }
}

// ---- PICK -------------------------------------------------------------------------------------

void op_test_pick(const op_target *t)
{
    static const uint32_t sizes[] = {1, 7, 255, 256, 257, 300, 513, 2000, 4000};
    for (uint64_t seed = 7000; seed < 7036; seed += step_of(t)) {
        fixture f;
        fixture_init(&f, seed, MOST_ROWS);
        uint32_t n = sizes[seed % 9], n_rows = fixture_pick(&f, 1, 5);
        f.set.n_vocab = n;
        fixture_op(&f, PLAN_PICK_OP, "pick");
        fixture_buf(&f, PLAN_LOGITS, QUANT_F32, n, n_rows, true);
        fixture_buf(&f, PLAN_PICK, QUANT_F32, sizeof(plan_pick) / 4, n_rows, false);
        float *x = (float *)(void *)f.initial[PLAN_LOGITS];
        for (uint32_t i = 0; i < n * n_rows; i++)
            if (seed % 2) x[i] = rintf(x[i] * 4) / 4; // many that are equal
        fixture_rows(&f, n_rows, 1);
        run_case(&f, t, 0, "PICK");
        fixture_free(&f);
    }
}

// ---- bits and NaN -----------------------------------------------------------------------------

void op_test_fused_norm(const op_target *t)
{
    enum { COLS = 288, OUT = 50, ROWS = 9 };
    fixture_result results[2];
    fixture f[2];
    for (int separate = 0; separate < 2; separate++) {
        fixture *at = &f[separate];
        fixture_init(at, 8000, MOST_ROWS);
        plan_vector weight = fixture_vector(at, COLS, 1);
        plan_weight w = some_weight(at, QUANT_Q8_0, OUT, COLS);
        fixture_buf(at, PLAN_X, QUANT_F32, COLS, ROWS, true);
        fixture_buf(at, PLAN_XN, QUANT_F32, COLS, ROWS, false);
        fixture_buf(at, PLAN_T, QUANT_F32, OUT, ROWS, false);
        plan_view x = {PLAN_X, 0, COLS}, xn = {PLAN_XN, 0, COLS};
        if (separate)
            fixture_op(at, PLAN_NORM, "norm")->u.norm = (plan_norm_op){.eps = 1e-5f,
                                                                       .weight = weight,
                                                                       .bias = no_vector,
                                                                       .x = x,
                                                                       .residual = no_view,
                                                                       .out = xn};
        fixture_op(at, PLAN_LINEAR, "linear")->u.linear =
            (plan_linear){.n_weights = 1,
                          .weight = {w},
                          .bias = {no_vector},
                          .x = separate ? xn : x,
                          .out = {{PLAN_T, 0, OUT}},
                          .residual = no_view,
                          .norm_in = separate ? no_vector : weight,
                          .norm_eps = 1e-5f};
        fixture_rows(at, ROWS, 1);
        fixture_ready(at);
        fixture_exec e;
        fixture_load(
            at,
            &(exec_params){
                .n_threads = t->thread_counts[0], .isa = t->isa, .gpu = t->gpu, .layout = &at->set},
            t->kind, &e);
        fixture_run(at, &e, 0, ROWS, &results[separate]);
        fixture_unload(&e);
    }
    assert_memory_equal(results[0].bufs[PLAN_T], results[1].bufs[PLAN_T], f[0].bufs[PLAN_T].bytes);
    for (int i = 0; i < 2; i++) {
        fixture_result_free(&results[i]);
        fixture_free(&f[i]);
    }
}

static bool has_nan(const fixture *f, const fixture_result *r, int id, uint32_t row)
{
    const plan_buf *b = &f->bufs[id];
    float values[4096];
    quant_format_of(b->type)->decode(r->bufs[id] + row * b->row_bytes, values, b->width);
    for (uint32_t i = 0; i < b->width; i++)
        if (!isfinite(values[i])) return true;
    return false;
}

// x (PLAN_X, f32) -> op -> `out`: one poisoned row of five.
static void nan_case(fixture *f, const op_target *t, int out, float poison, const char *what)
{
    enum { ROWS = 5, BAD = 2 };
    fixture_rows(f, ROWS, 1);
    fixture_ready(f);
    fixture_exec e;
    fixture_result clean, bad;
    fixture_load(f, &(exec_params){.n_threads = 2, .isa = t->isa, .gpu = t->gpu, .layout = &f->set},
                 t->kind, &e);
    fixture_run(f, &e, 0, ROWS, &clean);
    ((float *)(void *)f->initial[PLAN_X])[BAD * f->bufs[PLAN_X].width + 37] = poison;
    fixture_run(f, &e, 0, ROWS, &bad);
    fixture_unload(&e);
    for (uint32_t row = 0; row < ROWS; row++) {
        bool same = !memcmp(clean.bufs[out] + row * f->bufs[out].row_bytes,
                            bad.bufs[out] + row * f->bufs[out].row_bytes, f->bufs[out].row_bytes);
        if (row == BAD && !has_nan(f, &bad, out, row)) fail_msg("%s: a NaN was lost", what);
        if (row != BAD && !same) fail_msg("%s: a NaN got into row %u", what, row);
    }
    fixture_result_free(&clean);
    fixture_result_free(&bad);
    fixture_free(f);
}

static void nan_in_product(const op_target *t, quant_type type, bool q8, float poison)
{
    fixture f;
    fixture_init(&f, 9000 + (uint64_t)type, MOST_ROWS);
    fixture_buf(&f, PLAN_X, QUANT_F32, 256, 5, true);
    fixture_buf(&f, PLAN_XQ, QUANT_Q8_0, 256, 5, false);
    fixture_buf(&f, PLAN_T, QUANT_F32, 40, 5, false);
    plan_view x = {PLAN_X, 0, 256}, xq = {PLAN_XQ, 0, 256};
    plan_weight w = some_weight(&f, type, 40, 256);
    if (q8)
        fixture_op(&f, PLAN_QUANTIZE, "quantize")->u.quantize = (plan_quantize){.x = x, .out = xq};
    plan_op *op = fixture_op(&f, PLAN_LINEAR, "linear");
    op->act = q8 ? PLAN_ACT_Q8 : PLAN_ACT_F32;
    op->u.linear = (plan_linear){.n_weights = 1,
                                 .weight = {w},
                                 .bias = {no_vector},
                                 .x = q8 ? xq : x,
                                 .out = {{PLAN_T, 0, 40}},
                                 .residual = no_view,
                                 .norm_in = no_vector};
    nan_case(&f, t, PLAN_T, poison, quant_type_name(type));
}

static void nan_in_rows(const op_target *t, int kind, quant_type out_type, float poison)
{
    fixture f;
    fixture_init(&f, 9100, MOST_ROWS);
    fixture_buf(&f, PLAN_X, QUANT_F32, 64, 5, true);
    fixture_buf(&f, PLAN_T, out_type, 64, 5, false);
    plan_view x = {PLAN_X, 0, 64}, out = {PLAN_T, 0, 64};
    plan_vector weight = fixture_vector(&f, 64, 1);
    plan_op *op = fixture_op(&f, kind < 2 ? PLAN_NORM : PLAN_ACTIVATE, "rows");
    if (kind < 2)
        op->u.norm = (plan_norm_op){.norm = (plan_norm)kind,
                                    .eps = 1e-5f,
                                    .weight = weight,
                                    .bias = no_vector,
                                    .x = x,
                                    .residual = no_view,
                                    .out = out};
    else
        op->u.activate = (plan_activate){(plan_fn)(kind - 2), x, no_view, out};
    char what[64];
    snprintf(what, sizeof what, "rows, kind %d", kind);
    nan_case(&f, t, PLAN_T, poison, what);
}

static void nan_in_query(const op_target *t)
{
    fixture f;
    fixture_init(&f, 9200, MOST_ROWS);
    fixture_caches(&f, QUANT_F32, 1, 2, 100, 32);
    fixture_buf(&f, PLAN_X, QUANT_F32, 128, 5, true);
    fixture_buf(&f, PLAN_ATT, QUANT_F32, 128, 5, false);
    fixture_op(&f, PLAN_ATTEND, "attend")->u.attend = (plan_attend){.q = {PLAN_X, 0, 128},
                                                                    .out = {PLAN_ATT, 0, 128},
                                                                    .n_head = 4,
                                                                    .n_head_kv = 2,
                                                                    .head_dim = 32,
                                                                    .scale = 1,
                                                                    .softcap = 20,
                                                                    .k_cache = PLAN_KV,
                                                                    .v_cache = PLAN_KV + 1};
    nan_case(&f, t, PLAN_ATT, NAN, "attention");
}

void op_test_nan(const op_target *t)
{
    const quant_format *format;
    for (size_t i = 0; (format = quant_format_at(i)) != NULL; i++) {
        for (int q8 = 0; q8 < 2 && has_format(t, format->type); q8++) {
            nan_in_product(t, format->type, q8, NAN);
            nan_in_product(t, format->type, q8, INFINITY);
        }
    }
    for (int kind = 0; kind < 6; kind++) {
        nan_in_rows(t, kind, QUANT_F32, NAN);
        nan_in_rows(t, kind, QUANT_Q8_0, NAN);
        nan_in_rows(t, kind, QUANT_Q8_0, INFINITY);
    }
    nan_in_query(t);
}
