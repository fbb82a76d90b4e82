// A reproducer as JSON and back: one table of fields for each kind of operation.
#include "proof/reproducer.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FORM = 1 };

typedef enum field_kind {
    FIELD_U32,
    FIELD_REAL, // float
    FIELD_BOOL,
    FIELD_WORD, // an enum: index into `words`
    FIELD_VIEW,
    FIELD_WEIGHT,
    FIELD_VECTOR,
    FIELD_TENSOR, // a plain number of a tensor
} field_kind;

typedef struct field {
    const char *name; // NULL ends a list
    field_kind kind;
    size_t offset;            // in plan_op
    const char *const *words; // NULL ends the list
} field;

static const char *const acts[] = {"f32", "q8", NULL};
static const char *const norms[] = {"rms", "layer", NULL};
static const char *const ropes[] = {"none", "interleaved", "neox", NULL};
static const char *const functions[] = {"none", "silu", "gelu_tanh", "gelu_erf", NULL};

#define AT(member) offsetof(plan_op, u.member)

static const field embed_fields[] = {
    {"table", FIELD_WEIGHT, AT(embed.table), NULL},
    {"positions", FIELD_WEIGHT, AT(embed.positions), NULL},
    {"scale", FIELD_REAL, AT(embed.scale), NULL},
    {"out", FIELD_VIEW, AT(embed.out), NULL},
    {0},
};
static const field norm_fields[] = {
    {"norm", FIELD_WORD, AT(norm.norm), norms},
    {"eps", FIELD_REAL, AT(norm.eps), NULL},
    {"weight", FIELD_VECTOR, AT(norm.weight), NULL},
    {"bias", FIELD_VECTOR, AT(norm.bias), NULL},
    {"x", FIELD_VIEW, AT(norm.x), NULL},
    {"residual", FIELD_VIEW, AT(norm.residual), NULL},
    {"out", FIELD_VIEW, AT(norm.out), NULL},
    {0},
};
static const field linear_fields[] = {
    {"n_weights", FIELD_U32, AT(linear.n_weights), NULL},
    {"weight_0", FIELD_WEIGHT, AT(linear.weight[0]), NULL},
    {"weight_1", FIELD_WEIGHT, AT(linear.weight[1]), NULL},
    {"weight_2", FIELD_WEIGHT, AT(linear.weight[2]), NULL},
    {"bias_0", FIELD_VECTOR, AT(linear.bias[0]), NULL},
    {"bias_1", FIELD_VECTOR, AT(linear.bias[1]), NULL},
    {"bias_2", FIELD_VECTOR, AT(linear.bias[2]), NULL},
    {"x", FIELD_VIEW, AT(linear.x), NULL},
    {"out_0", FIELD_VIEW, AT(linear.out[0]), NULL},
    {"out_1", FIELD_VIEW, AT(linear.out[1]), NULL},
    {"out_2", FIELD_VIEW, AT(linear.out[2]), NULL},
    {"residual", FIELD_VIEW, AT(linear.residual), NULL},
    {"norm_in", FIELD_VECTOR, AT(linear.norm_in), NULL},
    {"norm_eps", FIELD_REAL, AT(linear.norm_eps), NULL},
    {"fn", FIELD_WORD, AT(linear.fn), functions},
    {"gated", FIELD_BOOL, AT(linear.gated), NULL},
    {0},
};
static const field quantize_fields[] = {
    {"x", FIELD_VIEW, AT(quantize.x), NULL},
    {"out", FIELD_VIEW, AT(quantize.out), NULL},
    {0},
};
static const field rope_kv_fields[] = {
    {"q", FIELD_VIEW, AT(rope_kv.q), NULL},
    {"k", FIELD_VIEW, AT(rope_kv.k), NULL},
    {"v", FIELD_VIEW, AT(rope_kv.v), NULL},
    {"q_norm", FIELD_VECTOR, AT(rope_kv.q_norm), NULL},
    {"k_norm", FIELD_VECTOR, AT(rope_kv.k_norm), NULL},
    {"norm_eps", FIELD_REAL, AT(rope_kv.norm_eps), NULL},
    {"rope", FIELD_WORD, AT(rope_kv.rope), ropes},
    {"n_rot", FIELD_U32, AT(rope_kv.n_rot), NULL},
    {"table", FIELD_TENSOR, AT(rope_kv.table), NULL},
    {0},
};
static const field attend_fields[] = {
    {"q", FIELD_VIEW, AT(attend.q), NULL},
    {"out", FIELD_VIEW, AT(attend.out), NULL},
    {"scale", FIELD_REAL, AT(attend.scale), NULL},
    {"softcap", FIELD_REAL, AT(attend.softcap), NULL},
    {"window", FIELD_U32, AT(attend.window), NULL},
    {0},
};
static const field activate_fields[] = {
    {"fn", FIELD_WORD, AT(activate.fn), functions},
    {"x", FIELD_VIEW, AT(activate.x), NULL},
    {"up", FIELD_VIEW, AT(activate.up), NULL},
    {"out", FIELD_VIEW, AT(activate.out), NULL},
    {0},
};
static const field add_fields[] = {
    {"a", FIELD_VIEW, AT(add.a), NULL},
    {"b", FIELD_VIEW, AT(add.b), NULL},
    {"out", FIELD_VIEW, AT(add.out), NULL},
    {0},
};
static const field logits_fields[] = {
    {"weight", FIELD_WEIGHT, AT(logits.weight), NULL},
    {"bias", FIELD_VECTOR, AT(logits.bias), NULL},
    {"x", FIELD_VIEW, AT(logits.x), NULL},
    {"norm_in", FIELD_VECTOR, AT(logits.norm_in), NULL},
    {"norm_eps", FIELD_REAL, AT(logits.norm_eps), NULL},
    {"softcap", FIELD_REAL, AT(logits.softcap), NULL},
    {0},
};
static const field pick_fields[] = {{0}};

static const field *const fields_of[PLAN_N_OP_KINDS] = {
    [PLAN_EMBED] = embed_fields,       [PLAN_NORM] = norm_fields,
    [PLAN_LINEAR] = linear_fields,     [PLAN_QUANTIZE] = quantize_fields,
    [PLAN_ROPE_KV] = rope_kv_fields,   [PLAN_ATTEND] = attend_fields,
    [PLAN_ACTIVATE] = activate_fields, [PLAN_ADD] = add_fields,
    [PLAN_LOGITS_OP] = logits_fields,  [PLAN_PICK_OP] = pick_fields,
};

// Numbers beside the fields of the operation.
static const struct {
    const char *name;
    size_t offset;
    uint32_t least, most;
} numbers[] = {
    {"nth", offsetof(reproducer, nth), 0, 1u << 20},
    {"n_embd", offsetof(reproducer, n_embd), 1, 1u << 20},
    {"n_vocab", offsetof(reproducer, n_vocab), 1, 1u << 22},
    {"n_head", offsetof(reproducer, n_head), 1, 1u << 12},
    {"n_head_kv", offsetof(reproducer, n_head_kv), 1, 1u << 12},
    {"head_dim", offsetof(reproducer, head_dim), 1, 1u << 14},
    {"n_ctx", offsetof(reproducer, n_ctx), 1, 1u << 24},
    {"n_batch", offsetof(reproducer, n_batch), 1, PLAN_MAX_ROWS},
    {"n_logits", offsetof(reproducer, n_logits), 1, PLAN_MAX_ROWS},
    {"rows", offsetof(reproducer, n_rows), 1, PLAN_MAX_ROWS},
    {"first", offsetof(reproducer, first), 0, 1u << 24},
};
enum { N_NUMBERS = sizeof numbers / sizeof numbers[0] };

static const char *const buffer_names[PLAN_LOGITS] = {
    [PLAN_X] = "x",     [PLAN_X2] = "x2",   [PLAN_XN] = "xn",     [PLAN_XQ] = "xq",
    [PLAN_QKV] = "qkv", [PLAN_ATT] = "att", [PLAN_ATTQ] = "attq", [PLAN_T] = "t",
    [PLAN_FF] = "ff",   [PLAN_UP] = "up",   [PLAN_FFQ] = "ffq",
};

const char *reproducer_buffer_name(int buffer)
{
    return buffer_names[buffer];
}

// ---- writing ----------------------------------------------------------------------------------

static json_t *field_json(const plan_op *op, const field *f)
{
    const char *at = (const char *)op + f->offset;
    switch (f->kind) {
    case FIELD_U32: {
        uint32_t n;
        memcpy(&n, at, sizeof n);
        return json_integer(n);
    }
    case FIELD_REAL: {
        float x;
        memcpy(&x, at, sizeof x);
        return json_real((double)x);
    }
    case FIELD_BOOL: {
        bool b;
        memcpy(&b, at, sizeof b);
        return json_boolean(b);
    }
    case FIELD_WORD: {
        int i;
        memcpy(&i, at, sizeof i);
        return json_string(f->words[i]);
    }
    case FIELD_TENSOR: {
        int i;
        memcpy(&i, at, sizeof i);
        return i < 0 ? json_null() : json_integer(i);
    }
    case FIELD_VIEW: {
        plan_view v;
        memcpy(&v, at, sizeof v);
        if (v.buf < 0) return json_null();
        return json_pack("{s:s, s:I, s:I}", "buffer", buffer_names[v.buf], "col", (json_int_t)v.col,
                         "n", (json_int_t)v.n);
    }
    case FIELD_WEIGHT: {
        plan_weight w;
        memcpy(&w, at, sizeof w);
        if (w.tensor < 0) return json_null();
        return json_pack("{s:i, s:I, s:I}", "tensor", w.tensor, "row", (json_int_t)w.row, "rows",
                         (json_int_t)w.rows);
    }
    case FIELD_VECTOR: {
        plan_vector v;
        memcpy(&v, at, sizeof v);
        if (v.tensor < 0) return json_null();
        return json_pack("{s:i, s:I}", "tensor", v.tensor, "first", (json_int_t)v.first);
    }
    }
    return NULL;
}

static json_t *tensors_json(const reproducer *r)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < r->n_tensors; i++) {
        const plan_tensor *t = &r->tensors[i];
        const char *what = r->is_table[i] ? "rotations" : t->vector ? "vector" : "matrix";
        json_t *o = json_pack("{s:s, s:s, s:s, s:I, s:I}", "name", r->names[i], "what", what,
                              "type", quant_type_name((uint32_t)t->type), "rows",
                              (json_int_t)t->rows, "cols", (json_int_t)t->cols);
        if (json_array_append_new(list, o) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *buffers_json(const reproducer *r)
{
    json_t *all = json_object();
    for (int i = 0; i < PLAN_LOGITS; i++) {
        if (r->buf_widths[i] == 0) continue;
        json_t *o = json_pack("{s:s, s:I}", "type", quant_type_name((uint32_t)r->buf_types[i]),
                              "width", (json_int_t)r->buf_widths[i]);
        if (json_object_set_new(all, buffer_names[i], o) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

json_t *reproducer_json(const reproducer *r)
{
    json_t *o = json_object(), *operands = json_object();
    bool good = json_object_set_new(o, "form", json_integer(FORM)) == 0 &&
                json_object_set_new(o, "op", json_string(plan_op_name(r->op.kind))) == 0 &&
                json_object_set_new(o, "label", json_string(r->label)) == 0 &&
                json_object_set_new(o, "layer", json_integer(r->layer)) == 0 &&
                json_object_set_new(o, "act", json_string(acts[r->op.act])) == 0 &&
                json_object_set_new(o, "kv_type",
                                    json_string(quant_type_name((uint32_t)r->kv_type))) == 0 &&
                json_object_set_new(o, "seed", json_integer((json_int_t)r->seed)) == 0;
    for (size_t i = 0; i < N_NUMBERS && good; i++) {
        uint32_t n;
        memcpy(&n, (const char *)r + numbers[i].offset, sizeof n);
        good = json_object_set_new(o, numbers[i].name, json_integer(n)) == 0;
    }
    for (const field *f = fields_of[r->op.kind]; f->name && good; f++)
        good = json_object_set_new(operands, f->name, field_json(&r->op, f)) == 0;
    good = json_object_set_new(o, "operands", operands) == 0 && good;
    good = good && json_object_set_new(o, "tensors", tensors_json(r)) == 0 &&
           json_object_set_new(o, "buffers", buffers_json(r)) == 0;
    if (good) return o;
    json_decref(o);
    return NULL;
}

// ---- reading ----------------------------------------------------------------------------------

// "the report's operation: WHAT: WHY", where nothing was said yet.
static pm_status wrong(const char *what, const char *why)
{
    return error_set(PM_ERROR_FILE, "the operation to reproduce: %s: %s", what, why);
}

static bool number_in(const json_t *o, const char *key, uint32_t least, uint32_t most,
                      uint32_t *out)
{
    const json_t *value = json_object_get(o, key);
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < (json_int_t)least || n > (json_int_t)most) return false;
    *out = (uint32_t)n;
    return true;
}

static int word_in(const json_t *value, const char *const *words)
{
    const char *text = json_string_value(value);
    for (int i = 0; text && words[i]; i++)
        if (!strcmp(words[i], text)) return i;
    return -1;
}

static bool read_view(const json_t *value, plan_view *v)
{
    *v = (plan_view){.buf = PLAN_NONE};
    if (json_is_null(value)) return true;
    const char *name = json_string_value(json_object_get(value, "buffer"));
    for (int i = 0; name && i < PLAN_LOGITS; i++)
        if (!strcmp(buffer_names[i], name)) v->buf = i;
    return v->buf >= 0 && number_in(value, "col", 0, INT_MAX, &v->col) &&
           number_in(value, "n", 1, INT_MAX, &v->n);
}

// Is it the number of a tensor?
static bool read_tensor(const reproducer *r, const json_t *value, const char *key, int *tensor)
{
    uint32_t n = 0;
    if (r->n_tensors == 0 || !number_in(value, key, 0, r->n_tensors - 1, &n)) return false;
    *tensor = (int)n;
    return true;
}

static bool read_field(const json_t *value, const field *f, reproducer *r)
{
    char *at = (char *)&r->op + f->offset;
    switch (f->kind) {
    case FIELD_U32: {
        json_int_t n = json_integer_value(value);
        if (!json_is_integer(value) || n < 0 || n > INT_MAX) return false;
        memcpy(at, &(uint32_t){(uint32_t)n}, sizeof(uint32_t));
        return true;
    }
    case FIELD_REAL: {
        float x = (float)json_number_value(value);
        if (!json_is_number(value) || !isfinite(x)) return false;
        memcpy(at, &x, sizeof x);
        return true;
    }
    case FIELD_BOOL:
        memcpy(at, &(bool){json_is_true(value)}, sizeof(bool));
        return json_is_boolean(value);
    case FIELD_WORD: {
        int i = word_in(value, f->words);
        memcpy(at, &i, sizeof i);
        return i >= 0;
    }
    case FIELD_TENSOR: {
        json_int_t n = json_is_integer(value) ? json_integer_value(value) : PLAN_NONE;
        memcpy(at, &(int){(int)n}, sizeof(int));
        return json_is_null(value) || (n >= 0 && n < (json_int_t)r->n_tensors);
    }
    case FIELD_VIEW: {
        plan_view v;
        bool good = read_view(value, &v);
        memcpy(at, &v, sizeof v);
        return good;
    }
    case FIELD_WEIGHT: {
        plan_weight w = {.tensor = PLAN_NONE};
        bool good = json_is_null(value) || (read_tensor(r, value, "tensor", &w.tensor) &&
                                            number_in(value, "row", 0, INT_MAX, &w.row) &&
                                            number_in(value, "rows", 1, INT_MAX, &w.rows));
        memcpy(at, &w, sizeof w);
        return good;
    }
    case FIELD_VECTOR: {
        plan_vector v = {.tensor = PLAN_NONE};
        bool good = json_is_null(value) || (read_tensor(r, value, "tensor", &v.tensor) &&
                                            number_in(value, "first", 0, INT_MAX, &v.first));
        memcpy(at, &v, sizeof v);
        return good;
    }
    }
    return false;
}

static bool read_type(const json_t *value, quant_type *type)
{
    const char *name = json_string_value(value);
    const quant_format *f = name ? quant_format_named(name) : NULL;
    if (!f || !f->decode) return false;
    *type = f->type;
    return true;
}

static pm_status read_tensors(const json_t *list, reproducer *r)
{
    static const char *const kinds[] = {"matrix", "vector", "rotations", NULL};
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n > REPRODUCER_TENSORS) return wrong("tensors", "no list of them");
    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(list, i);
        plan_tensor *t = &r->tensors[i];
        const char *name = json_string_value(json_object_get(o, "name"));
        int what = word_in(json_object_get(o, "what"), kinds);
        bool good = name && strlen(name) < REPRODUCER_NAME && what >= 0 &&
                    read_type(json_object_get(o, "type"), &t->type) &&
                    number_in(o, "rows", 1, INT_MAX, &t->rows) &&
                    number_in(o, "cols", 1, INT_MAX, &t->cols) &&
                    quant_row_bytes((uint32_t)t->type, t->cols, &t->row_bytes);
        // rotations are pairs of floats, whatever reads them
        good = good && (what != 2 || (t->type == QUANT_F32 && t->cols % 2 == 0));
        if (!good) return wrong("tensors", "one that can't be read");
        snprintf(r->names[i], REPRODUCER_NAME, "%s", name);
        t->vector = what == 1;
        r->is_table[i] = what == 2;
        t->layer = r->layer < 0 ? PLAN_NONE : 0;
    }
    r->n_tensors = (uint32_t)n;
    return PM_OK;
}

static pm_status read_buffers(const json_t *all, reproducer *r)
{
    if (!json_is_object(all)) return wrong("buffers", "not there");
    for (int i = 0; i < PLAN_LOGITS; i++) {
        const json_t *o = json_object_get(all, buffer_names[i]);
        uint64_t bytes;
        if (!o) continue;
        // Executors know which buffers are q8, also those that no operand names.
        bool q8 = i == PLAN_XQ || i == PLAN_ATTQ || i == PLAN_FFQ;
        if (!read_type(json_object_get(o, "type"), &r->buf_types[i]) ||
            r->buf_types[i] != (q8 ? QUANT_Q8_0 : QUANT_F32) ||
            !number_in(o, "width", 1, 1u << 22, &r->buf_widths[i]) ||
            !quant_row_bytes((uint32_t)r->buf_types[i], r->buf_widths[i], &bytes))
            return wrong(buffer_names[i], "can't be read");
    }
    return PM_OK;
}

// What tells one operation from another.
static pm_status read_head(const json_t *json, reproducer *r)
{
    const json_t *form = json_object_get(json, "form"), *layer = json_object_get(json, "layer");
    const json_t *seed = json_object_get(json, "seed");
    const char *op = json_string_value(json_object_get(json, "op"));
    const char *label = json_string_value(json_object_get(json, "label"));
    if (!json_is_integer(form)) return wrong("form", "not there");
    if (json_integer_value(form) != FORM)
        return wrong("form", "not what this version of pumice reads");
    if (!op || !label || strlen(label) >= REPRODUCER_NAME) return wrong("op", "can't be read");
    r->op.kind = PLAN_N_OP_KINDS;
    for (int k = 0; k < PLAN_N_OP_KINDS; k++)
        if (!strcmp(plan_op_name((plan_op_kind)k), op)) r->op.kind = (plan_op_kind)k;
    if (r->op.kind == PLAN_N_OP_KINDS) return wrong("op", "no such operation");
    json_int_t at = json_integer_value(layer);
    if (!json_is_integer(layer) || at < PLAN_NONE || at > 1 << 20)
        return wrong("layer", "can't be read");
    if (!json_is_integer(seed) || json_integer_value(seed) < 0)
        return wrong("seed", "can't be read");
    r->layer = (int)at;
    r->op.layer = r->layer < 0 ? PLAN_NONE : 0;
    r->seed = (uint64_t)json_integer_value(seed);
    snprintf(r->label, sizeof r->label, "%s", label);
    int act = word_in(json_object_get(json, "act"), acts);
    if (act < 0) return wrong("act", "can't be read");
    r->op.act = (plan_act)act;
    return read_type(json_object_get(json, "kv_type"), &r->kv_type)
               ? PM_OK
               : wrong("kv_type", "can't be read");
}

// Does every tensor belong to an operand? Whatever it is would be made and loaded.
static bool all_are_named(const reproducer *r)
{
    bool named[REPRODUCER_TENSORS] = {false};
    for (const field *f = fields_of[r->op.kind]; f->name; f++) {
        const char *at = (const char *)&r->op + f->offset;
        // all three kinds begin with the tensor's number
        bool refers = f->kind == FIELD_TENSOR || f->kind == FIELD_WEIGHT || f->kind == FIELD_VECTOR;
        int tensor = PLAN_NONE;
        if (refers) memcpy(&tensor, at, sizeof tensor);
        if (tensor >= 0) named[tensor] = true;
    }
    for (uint32_t i = 0; i < r->n_tensors; i++)
        if (!named[i]) return false;
    return true;
}

// What operands say again of the model's heads, and the only caches that there are.
static void complete_op(reproducer *r)
{
    if (r->op.kind == PLAN_ROPE_KV) {
        plan_rope_kv *o = &r->op.u.rope_kv;
        o->n_head = r->n_head;
        o->n_head_kv = r->n_head_kv;
        o->head_dim = r->head_dim;
        o->k_cache = PLAN_KV;
        o->v_cache = PLAN_KV + 1;
    } else if (r->op.kind == PLAN_ATTEND) {
        plan_attend *o = &r->op.u.attend;
        o->n_head = r->n_head;
        o->n_head_kv = r->n_head_kv;
        o->head_dim = r->head_dim;
        o->k_cache = PLAN_KV;
        o->v_cache = PLAN_KV + 1;
    }
}

pm_status reproducer_parse(const json_t *json, reproducer *out)
{
    reproducer r = {0};
    if (!json_is_object(json)) return wrong("form", "not there");
    pm_status status = read_head(json, &r);
    for (size_t i = 0; i < N_NUMBERS && status == PM_OK; i++) {
        uint32_t n = 0;
        if (!number_in(json, numbers[i].name, numbers[i].least, numbers[i].most, &n))
            status = wrong(numbers[i].name, "can't be read, or out of range");
        memcpy((char *)&r + numbers[i].offset, &n, sizeof n);
    }
    if (status == PM_OK) status = read_tensors(json_object_get(json, "tensors"), &r);
    if (status == PM_OK) status = read_buffers(json_object_get(json, "buffers"), &r);
    const json_t *operands = json_object_get(json, "operands");
    const field *f = status == PM_OK ? fields_of[r.op.kind] : pick_fields;
    for (; f->name && status == PM_OK; f++)
        if (!read_field(json_object_get(operands, f->name), f, &r))
            status = wrong(f->name, "can't be read");
    complete_op(&r);
    if (status == PM_OK && !all_are_named(&r)) status = wrong("tensors", "one that nothing names");
    if (status == PM_OK) status = reproducer_valid(&r);
    if (status == PM_OK) *out = r;
    return status;
}
