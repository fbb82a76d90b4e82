#include "proof/reproducer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/size.h"
#include "make/make.h"
#include "proof/side.h"

#define MOST_BYTES (UINT64_C(8) << 30) // of weights and buffers together, where others name them

// ---- from a plan ------------------------------------------------------------------------------

// The tensor's number here; added where it is new.
static void keep_tensor(reproducer *r, const plan_set *set, int *tensor)
{
    if (*tensor < 0) return;
    const plan_tensor *t = &set->tensors[*tensor];
    for (uint32_t i = 0; i < r->n_tensors; i++) {
        if (strcmp(r->names[i], t->name) != 0) continue;
        *tensor = (int)i;
        return;
    }
    uint32_t at = r->n_tensors++;
    r->tensors[at] = *t;
    r->tensors[at].layer = t->layer < 0 ? PLAN_NONE : 0;
    r->is_table[at] = t->values != NULL;
    snprintf(r->names[at], sizeof r->names[at], "%s", t->name);
    *tensor = (int)at;
}

static void keep_linear(reproducer *r, const plan_set *set)
{
    plan_linear *l = &r->op.u.linear;
    for (uint32_t i = 0; i < 3; i++) {
        if (i >= l->n_weights) {
            l->weight[i] = (plan_weight){.tensor = PLAN_NONE};
            l->bias[i] = (plan_vector){.tensor = PLAN_NONE};
        }
        if (i >= (l->gated ? 1 : l->n_weights)) l->out[i] = (plan_view){.buf = PLAN_NONE};
        keep_tensor(r, set, &l->weight[i].tensor);
        keep_tensor(r, set, &l->bias[i].tensor);
    }
    keep_tensor(r, set, &l->norm_in.tensor);
}

static void keep_tensors(reproducer *r, const plan_set *set)
{
    plan_op *op = &r->op;
    switch (op->kind) {
    case PLAN_EMBED:
        keep_tensor(r, set, &op->u.embed.table.tensor);
        keep_tensor(r, set, &op->u.embed.positions.tensor);
        break;
    case PLAN_NORM:
        keep_tensor(r, set, &op->u.norm.weight.tensor);
        keep_tensor(r, set, &op->u.norm.bias.tensor);
        break;
    case PLAN_LINEAR: keep_linear(r, set); break;
    case PLAN_ROPE_KV:
        keep_tensor(r, set, &op->u.rope_kv.q_norm.tensor);
        keep_tensor(r, set, &op->u.rope_kv.k_norm.tensor);
        keep_tensor(r, set, &op->u.rope_kv.table);
        op->u.rope_kv.k_cache = PLAN_KV;
        op->u.rope_kv.v_cache = PLAN_KV + 1;
        break;
    case PLAN_ATTEND:
        op->u.attend.k_cache = PLAN_KV;
        op->u.attend.v_cache = PLAN_KV + 1;
        break;
    case PLAN_LOGITS_OP:
        keep_tensor(r, set, &op->u.logits.weight.tensor);
        keep_tensor(r, set, &op->u.logits.bias.tensor);
        keep_tensor(r, set, &op->u.logits.norm_in.tensor);
        break;
    default: break;
    }
}

static void keep_buffer(reproducer *r, const plan_set *set, int id)
{
    if (id >= PLAN_LOGITS) return; // follow from the rest
    r->buf_types[id] = set->bufs[id].type;
    r->buf_widths[id] = set->bufs[id].width;
}

static void keep_buffers(reproducer *r, const plan_set *set, const plan_uses *uses)
{
    for (uint32_t i = 0; i < uses->n_reads; i++) keep_buffer(r, set, uses->reads[i].buf);
    for (uint32_t i = 0; i < uses->n_writes; i++) keep_buffer(r, set, uses->writes[i].buf);
}

void reproducer_of(const plan_set *set, uint32_t n_rows, uint32_t first, uint32_t index,
                   uint64_t seed, reproducer *out)
{
    const plan *p = plan_for_rows(set, n_rows);
    const plan_op *op = &p->ops[index];
    *out = (reproducer){.op = *op,
                        .layer = op->layer,
                        .n_embd = set->n_embd,
                        .n_vocab = set->n_vocab,
                        .n_head = set->n_head,
                        .n_head_kv = set->n_head_kv,
                        .head_dim = set->head_dim,
                        .n_ctx = set->n_ctx,
                        .n_batch = p->max_rows,
                        .n_logits = n_rows < set->n_logits ? n_rows : set->n_logits,
                        .kv_type = set->kv_type,
                        .n_rows = n_rows,
                        .first = first,
                        .seed = seed};
    for (uint32_t i = 0; i < index; i++)
        out->nth += p->ops[i].kind == op->kind && p->ops[i].layer == op->layer;
    snprintf(out->label, sizeof out->label, "%s", op->label);
    plan_uses uses;
    plan_op_uses(set, op, &uses);
    keep_buffers(out, set, &uses);
    keep_tensors(out, set);
    out->op.layer = op->layer < 0 ? PLAN_NONE : 0;
}

// ---- made-up contents -------------------------------------------------------------------------

typedef struct contents {
    plan_tensor tensors[REPRODUCER_TENSORS];
    void *data[REPRODUCER_TENSORS];
    plan_buf bufs[REPRODUCER_BUFS];
    plan_op op;
    plan_set set;
} contents;

static void free_contents(contents *c)
{
    for (int i = 0; i < REPRODUCER_TENSORS; i++) free(c->data[i]);
}

static make_fill fill_of(const reproducer *r, int tensor)
{
    const plan_op *op = &r->op;
    bool bias = false;
    switch (op->kind) {
    case PLAN_EMBED: return MAKE_FILL_EMBD;
    case PLAN_NORM: bias = tensor == op->u.norm.bias.tensor; break;
    case PLAN_LINEAR:
        for (int i = 0; i < 3; i++) bias = bias || tensor == op->u.linear.bias[i].tensor;
        break;
    case PLAN_LOGITS_OP: bias = tensor == op->u.logits.bias.tensor; break;
    default: break;
    }
    if (bias) return MAKE_FILL_BIAS;
    return r->tensors[tensor].vector ? MAKE_FILL_NORM : MAKE_FILL_MATRIX;
}

// Cosine and sine of angles as positions have them with the usual base.
static void fill_table(float *to, uint32_t rows, uint32_t cols)
{
    for (uint32_t pos = 0; pos < rows; pos++) {
        for (uint32_t i = 0; i < cols; i += 2, to += 2) {
            double angle = pos * pow(10000, -(double)i / cols);
            to[0] = (float)cos(angle);
            to[1] = (float)sin(angle);
        }
    }
}

static pm_status fill_tensor(const reproducer *r, contents *c, uint32_t i)
{
    plan_tensor *t = &c->tensors[i];
    c->data[i] = malloc((size_t)(t->rows * t->row_bytes));
    if (!c->data[i]) return error_memory("weights", t->rows * t->row_bytes);
    if (r->is_table[i]) {
        fill_table(c->data[i], t->rows, t->cols);
        t->values = c->data[i];
        return PM_OK;
    }
    make_tensor made = {.type = (uint32_t)t->type,
                        .n_dims = 2,
                        .dims = {t->cols, t->rows},
                        .fill = fill_of(r, (int)i),
                        .bytes = t->rows * t->row_bytes};
    make_values *values = NULL;
    pm_status status = make_values_open(rng_u64(r->seed, i), &made, 1, &values);
    if (status == PM_OK) make_values_rows(values, 0, t->rows, c->data[i]);
    make_values_close(values);
    return status;
}

static void place_buf(contents *c, int id, const char *name, quant_type type, uint32_t width,
                      uint32_t rows)
{
    plan_buf *b = &c->bufs[id];
    *b = (plan_buf){.name = name, .type = type, .width = width, .rows = rows, .layer = PLAN_NONE};
    if (id >= PLAN_KV) b->layer = 0;
    quant_row_bytes(type, width, &b->row_bytes);
    b->bytes = b->row_bytes * rows;
}

static void place_bufs(const reproducer *r, contents *c)
{
    for (int i = 0; i < PLAN_LOGITS; i++)
        place_buf(c, i, reproducer_buffer_name(i), r->buf_types[i], r->buf_widths[i], r->n_batch);
    bool logits = reproducer_has_logits(r), cache = reproducer_has_cache(r);
    uint32_t kv_rows = cache ? r->n_head_kv * r->n_ctx : 0;
    place_buf(c, PLAN_LOGITS, "logits", QUANT_F32, logits ? r->n_vocab : 0, r->n_logits);
    place_buf(c, PLAN_PICK, "pick", QUANT_F32, sizeof(plan_pick) / sizeof(float), r->n_logits);
    place_buf(c, PLAN_KV, "k_cache", r->kv_type, cache ? r->head_dim : 0, kv_rows);
    place_buf(c, PLAN_KV + 1, "v_cache", r->kv_type, cache ? r->head_dim : 0, kv_rows);
}

// All but the values of tensors and buffers.
static void describe(const reproducer *r, contents *c)
{
    static const float some[] = {0}; // tables are known by having values
    *c = (contents){.op = r->op};
    memcpy(c->tensors, r->tensors, sizeof c->tensors);
    for (uint32_t i = 0; i < r->n_tensors; i++) {
        c->tensors[i].name = r->names[i];
        c->tensors[i].values = r->is_table[i] ? some : NULL;
    }
    c->op.label = r->label;
    place_bufs(r, c);
    c->set = (plan_set){.n_tensors = r->n_tensors,
                        .n_model_tensors = r->n_tensors,
                        .tensors = c->tensors,
                        .n_bufs = REPRODUCER_BUFS,
                        .bufs = c->bufs,
                        .buckets = {{r->n_batch, 1, &c->op}},
                        .n_buckets = 1,
                        .n_layer = 1,
                        .n_embd = r->n_embd,
                        .n_vocab = r->n_vocab,
                        .n_head = r->n_head,
                        .n_head_kv = r->n_head_kv,
                        .head_dim = r->head_dim,
                        .n_ctx = r->n_ctx,
                        .n_slots = 1,
                        .n_batch = r->n_batch,
                        .n_logits = r->n_logits,
                        .kv_type = r->kv_type};
}

static pm_status make_contents(const reproducer *r, contents *c)
{
    pm_status status = PM_OK;
    describe(r, c);
    for (uint32_t i = 0; i < r->n_tensors && status == PM_OK; i++) status = fill_tensor(r, c, i);
    return status;
}

// ---- what comes from somewhere else -----------------------------------------------------------

static bool add_product(uint64_t *sum, uint64_t rows, uint64_t row_bytes)
{
    uint64_t bytes;
    return size_mul(rows, row_bytes, &bytes) && size_add(*sum, bytes, sum) && *sum <= MOST_BYTES;
}

static bool fits(const reproducer *r)
{
    uint64_t sum = 0, row = 0;
    bool good = true;
    for (uint32_t i = 0; i < r->n_tensors && good; i++)
        good = add_product(&sum, r->tensors[i].rows, r->tensors[i].row_bytes);
    for (int i = 0; i < PLAN_LOGITS && good; i++)
        good = quant_row_bytes((uint32_t)r->buf_types[i], r->buf_widths[i], &row) &&
               add_product(&sum, r->n_batch, row);
    uint64_t kv_rows = (uint64_t)r->n_head_kv * r->n_ctx;
    if (reproducer_has_cache(r))
        good = good && kv_rows <= UINT32_MAX &&
               quant_row_bytes((uint32_t)r->kv_type, r->head_dim, &row) &&
               add_product(&sum, 2 * kv_rows, row);
    if (reproducer_has_logits(r))
        good = good && add_product(&sum, r->n_logits, (uint64_t)r->n_vocab * sizeof(float));
    return good;
}

pm_status reproducer_valid(const reproducer *r)
{
    const char *why = NULL, *fault = NULL;
    if (r->n_rows > r->n_batch || r->n_logits > r->n_rows)
        why = "more rows than a batch";
    else if (r->first + r->n_rows > r->n_ctx)
        why = "rows behind the end of the context";
    else if (!fits(r))
        why = "larger than 8 GiB, or rows that are no whole number of blocks";
    if (!why) {
        contents c;
        describe(r, &c);
        fault = plan_op_fault(&c.set, &c.op);
    }
    if (fault) why = "operands that don't go together: ";
    if (!why) return PM_OK;
    return error_set(PM_ERROR_FILE, "the operation to reproduce: %s%s", why, fault ? fault : "");
}

// Rows [row, row + rows) of a buffer.
static pm_status fill_rows(const reproducer *r, side *s, int id, uint64_t row, uint64_t rows)
{
    uint32_t width = s->set->bufs[id].width;
    float *values = malloc((width + (size_t)1) * sizeof *values);
    if (!values) return error_memory("a row", width * sizeof *values);
    pm_status status = PM_OK;
    uint64_t seed = rng_u64(r->seed, REPRODUCER_TENSORS + (uint64_t)id);
    for (uint64_t i = row; i < row + rows && status == PM_OK; i++) {
        for (uint32_t k = 0; k < width; k++) values[k] = rng_normal(seed, i * width + k);
        status = side_write(s, 0, id, i, 0, width, values);
    }
    free(values);
    return status;
}

// What the op reads; of caches the positions before the step and, for ATTEND, its own.
static pm_status fill_inputs(const reproducer *r, side *s)
{
    pm_status status = PM_OK;
    plan_uses uses;
    plan_op_uses(s->set, &s->set->buckets[0].ops[0], &uses);
    for (uint32_t i = 0; i < uses.n_reads && status == PM_OK; i++) {
        int id = uses.reads[i].buf;
        if (id < PLAN_KV) {
            status = fill_rows(r, s, id, 0, id == PLAN_LOGITS ? r->n_logits : r->n_rows);
            continue;
        }
        for (uint32_t h = 0; h < r->n_head_kv && status == PM_OK; h++)
            status = fill_rows(r, s, id, (uint64_t)h * r->n_ctx, r->first + r->n_rows);
    }
    return status;
}

static void make_step(const reproducer *r, plan_step *step)
{
    *step = (plan_step){.n_rows = r->n_rows, .n_logits = r->n_logits};
    uint32_t n_tokens = r->op.kind == PLAN_EMBED ? r->op.u.embed.table.rows : r->n_vocab;
    for (uint32_t i = 0; i < r->n_rows; i++) {
        uint32_t pos = r->first + i;
        step->rows[i] = (plan_row){
            .token = (int32_t)(rng_u64(~r->seed, i) % n_tokens), .pos = pos, .n_kv = pos + 1};
    }
    for (uint32_t i = 0; i < r->n_logits; i++)
        step->logit_rows[i] = (uint16_t)(r->n_rows - r->n_logits + i);
}

// ---- running ----------------------------------------------------------------------------------

static pm_status read_data(void *arg, uint32_t tensor, uint64_t offset, void *dst, uint64_t n)
{
    const contents *c = arg;
    memcpy(dst, (const char *)c->data[tensor] + offset, (size_t)n);
    return PM_OK;
}

// A side whose plan is the contents': weights hold no model.
static pm_status open_side(contents *c, const exec_kind *kind, const exec_params *params,
                           weights *w, side *s)
{
    exec_params with = *params;
    with.layout = &c->set;
    bool wanted[REPRODUCER_TENSORS];
    for (uint32_t i = 0; i < REPRODUCER_TENSORS; i++) wanted[i] = !c->tensors[i].values;
    *w = (weights){.source = {.arg = c, .read = read_data}, .n_parts = 1};
    w->parts[0] = (weights_part){.kind = kind, .params = with, .end_layer = 1};
    *s = (side){.w = w, .set = &c->set};
    pm_status status =
        kind->load(&with, c->tensors, c->set.n_tensors, wanted, &w->source, &w->parts[0].loaded);
    if (status == PM_OK)
        status = kind->open(w->parts[0].loaded, &c->set, 0, 1, true, &s->states[0]);
    return status;
}

static void close_side(weights *w, side *s)
{
    const exec_kind *kind = w->parts[0].kind;
    if (s->states[0]) kind->close(s->states[0]);
    if (w->parts[0].loaded) kind->unload(w->parts[0].loaded);
}

static const char *phase_of(const reproducer *r)
{
    return r->n_rows == 1 ? "one row" : "several rows";
}

pm_status reproducer_run(const reproducer *r, const exec_kind *kind, const exec_params *params,
                         bool injected, reproducer_result *result)
{
    contents *c = calloc(1, sizeof *c);
    plan_step *step = malloc(sizeof *step);
    weights tested_weights = {0}, reference_weights = {0};
    side tested = {0}, reference = {0};
    *result = (reproducer_result){0};
    pm_status status = c && step ? PM_OK : error_memory("an operation", sizeof *c);
    if (status == PM_OK) status = make_contents(r, c);
    if (status == PM_OK) status = open_side(c, kind, params, &tested_weights, &tested);
    if (status == PM_OK) {
        snprintf(result->description, sizeof result->description, "%s (%s)", kind->name,
                 kind->describe(tested_weights.parts[0].loaded));
        exec_params plain = {.n_threads = params->n_threads};
        status = open_side(c, &exec_reference, &plain, &reference_weights, &reference);
    }
    if (status == PM_OK) status = fill_inputs(r, &reference);
    if (status == PM_OK) {
        make_step(r, step);
        status = check_single(&tested, &reference, phase_of(r), step, injected, &result->op);
    }
    if (status == PM_OK) {
        result->op.layer = r->layer;
        result->op.label = r->label;
        snprintf(result->worst_buffer, sizeof result->worst_buffer, "%s", result->op.worst.name);
        result->op.worst.name = result->worst_buffer;
    }
    if (tested_weights.n_parts) close_side(&tested_weights, &tested);
    if (reference_weights.n_parts) close_side(&reference_weights, &reference);
    if (c) free_contents(c);
    free(c);
    free(step);
    return status;
}
