// An operation by itself: every one of every plan survives its way through JSON and runs alone, a
// planted fault and a wrong executor are seen, and what is not a reproducer is refused.
#include "support/test.h"

#include <stdbool.h>

#include "plan/build.h"
#include "proof/reproducer.h"

enum { N_CTX = 24, N_ROWS = 9 };

static const exec_params params = {.n_threads = 1};
static model *opened; // by plan_of

static plan_set *plan_of(const char *file, plan_act act, bool no_fuse, quant_type kv_type)
{
    char path[128];
    plan_set *set;
    model_options how = {0};
    plan_options options = {.n_ctx = N_CTX,
                            .n_slots = 1,
                            .n_batch = 32,
                            .n_logits = N_ROWS,
                            .kv_type = kv_type,
                            .act = act,
                            .no_fuse = no_fuse};
    snprintf(path, sizeof path, "golden/%s.gguf", file);
    assert_ok(model_open(test_data(path), &how, &opened));
    assert_ok(plan_build(opened, &options, &set));
    return set;
}

static void close_plan(plan_set *set)
{
    plan_set_free(set);
    model_close(opened);
    opened = NULL;
}

// Through JSON and back: the same document again.
static void travel(const reproducer *r, reproducer *out)
{
    json_t *json = reproducer_json(r);
    assert_non_null(json);
    char *text = json_dumps(json, 0);
    json_t *read = json_loads(text, 0, NULL);
    assert_ok(reproducer_parse(read, out));
    json_t *again = reproducer_json(out);
    assert_true(json_equal(json, again));
    json_decref(json);
    json_decref(read);
    json_decref(again);
    free(text);
}

static void every_operation(const char *file, plan_act act, bool no_fuse, quant_type kv_type,
                            bool *seen)
{
    plan_set *set = plan_of(file, act, no_fuse, kv_type);
    for (int form = 0; form < 2; form++) {
        uint32_t rows = form ? 1 : N_ROWS, first = form ? 13 : 0;
        const plan *p = plan_for_rows(set, rows);
        for (uint32_t i = 0; i < p->n_ops; i++) {
            reproducer made, r;
            reproducer_result good, bad;
            reproducer_of(set, rows, first, i, 7, &made);
            travel(&made, &r); // what is read owes the model nothing
            const char *name = plan_op_name(r.op.kind);
            assert_ok(reproducer_run(&r, &exec_cpu, &params, false, &good));
            if (!good.op.pass || good.op.compared == 0)
                fail_msg("%s, op %u (%s %s), %u rows: NMSE %g, bound %g, %lu not finite", file, i,
                         name, r.label, rows, good.op.nmse, good.op.bound,
                         (unsigned long)good.op.nonfinite);
            assert_ok(reproducer_run(&r, &exec_cpu, &params, true, &bad));
            if (bad.op.pass) fail_msg("%s, op %u (%s): a planted fault passes", file, i, name);
            seen[r.op.kind] = true;
        }
    }
    close_plan(set);
}

static void every_operation_of_every_family(void **state)
{
    (void)state;
    static const char *const files[] = {"smollm3-tied.q8_0", "llama-mix-k", "llama-mix-iq4",
                                        "gemma2.q8_0",       "qwen3.q8_0",  "phi4.q8_0",
                                        "gpt2.f16",          "gptneox.f32", "llama-yarn.f32"};
    bool seen[PLAN_N_OP_KINDS] = {false};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        every_operation(files[i], PLAN_ACT_F32, false, QUANT_F16, seen);
        every_operation(files[i], PLAN_ACT_Q8, false, QUANT_F32, seen);
        every_operation(files[i], PLAN_ACT_Q8, true, QUANT_F16, seen);
    }
    for (int k = 0; k < PLAN_N_OP_KINDS; k++)
        if (!seen[k]) fail_msg("%s was in no plan", plan_op_name((plan_op_kind)k));
}

// A product with a matrix of every format that can be decoded: weights of all can be made up.
static void every_format(void **state)
{
    (void)state;
    plan_set *set = plan_of("llama-mix-k", PLAN_ACT_F32, false, QUANT_F32);
    const plan *p = plan_for_rows(set, 1);
    uint32_t index = 0, n = 0;
    while (p->ops[index].kind != PLAN_LINEAR || p->ops[index].u.linear.n_weights != 1) index++;
    reproducer r;
    reproducer_of(set, 1, 3, index, 11, &r);
    r.buf_widths[r.op.u.linear.x.buf] = r.op.u.linear.x.n = r.tensors[0].cols = 512;
    for (size_t i = 0; quant_format_at(i); i++) {
        const quant_format *f = quant_format_at(i);
        reproducer_result result;
        r.tensors[0].type = f->type;
        assert_true(quant_row_bytes((uint32_t)f->type, 512, &r.tensors[0].row_bytes));
        if (reproducer_run(&r, &exec_cpu, &params, false, &result) != PM_OK)
            fail_msg("%s: %s", f->name, error_message());
        if (!result.op.pass) fail_msg("%s: NMSE %g", f->name, result.op.nmse);
        n++;
    }
    assert_true(n >= 25);
    close_plan(set);
}

// ---- a device that is wrong -------------------------------------------------------------------

static exec_kind wrong_device;

// Products of one row lose their last value.
static pm_status run_wrongly(exec *e, const plan *p, uint32_t first, uint32_t count,
                             const plan_step *step)
{
    pm_status status = exec_cpu.run(e, p, first, count, step);
    const plan_op *op = &p->ops[first];
    if (status != PM_OK || op->kind != PLAN_LINEAR || step->n_rows != 1 || op->u.linear.gated)
        return status;
    plan_view out = op->u.linear.out[0];
    uint64_t at = (out.col + out.n - 1) * sizeof(float);
    return exec_cpu.write(e, out.buf, at, &(float){0}, sizeof(float));
}

// Where the fault is it is found, with the place of the value; elsewhere it is not.
static void a_wrong_device_is_reproduced(void **state)
{
    (void)state;
    wrong_device = exec_cpu;
    wrong_device.run = run_wrongly;
    plan_set *set = plan_of("smollm3-tied.q8_0", PLAN_ACT_Q8, false, QUANT_F16);
    size_t n_wrong = 0, n_right = 0;
    for (int form = 0; form < 2; form++) {
        uint32_t rows = form ? 1 : N_ROWS;
        const plan *p = plan_for_rows(set, rows);
        for (uint32_t i = 0; i < p->n_ops; i++) {
            reproducer r;
            reproducer_result result;
            const plan_op *op = &p->ops[i];
            reproducer_of(set, rows, 4, i, 5, &r);
            assert_ok(reproducer_run(&r, &wrong_device, &params, false, &result));
            bool wrong = rows == 1 && op->kind == PLAN_LINEAR && !op->u.linear.gated;
            assert_true(result.op.pass == !wrong);
            *(wrong ? &n_wrong : &n_right) += 1;
            if (!wrong) continue;
            plan_view out = op->u.linear.out[0];
            assert_int_equal(result.op.worst.col, out.col + out.n - 1);
            assert_string_equal(result.op.worst.name, set->bufs[out.buf].name);
            assert_true(result.op.worst.found == 0 && result.op.worst.expected != 0);
        }
    }
    assert_true(n_wrong >= 10 && n_right >= 20);
    close_plan(set);
}

// ---- what is not a reproducer -----------------------------------------------------------------

// Small enough to be run in a test.
static bool is_small(const reproducer *r)
{
    uint64_t bytes = (uint64_t)r->n_vocab * r->n_logits * 4 +
                     2 * (uint64_t)r->n_head_kv * r->n_ctx * r->head_dim * 4;
    for (uint32_t i = 0; i < r->n_tensors; i++)
        bytes += (uint64_t)r->tensors[i].rows * r->tensors[i].row_bytes;
    for (int i = 0; i < PLAN_LOGITS; i++) bytes += (uint64_t)r->buf_widths[i] * r->n_batch * 4;
    return bytes < 4 << 20;
}

static size_t n_tried, n_refused;

// Refused in one line that says what is wrong, or as good as any other: then it runs.
static void try_document(const json_t *document)
{
    reproducer r;
    reproducer_result result;
    n_tried++;
    pm_status status = reproducer_parse(document, &r);
    if (status == PM_ERROR_FILE) {
        n_refused++;
        assert_memory_equal(error_message(), "the operation to reproduce: ", 28);
        return;
    }
    assert_int_equal(status, PM_OK);
    if (!is_small(&r)) return;
    status = reproducer_run(&r, &exec_cpu, &params, false, &result);
    if (status != PM_OK) assert_true(*error_message() != 0);
}

// Every value of the document in turn is taken away or replaced by others, at any depth.
static void try_changes(json_t *document, json_t *within)
{
    static const char *const others[] = {"null",   "-1",       "0",          "1",   "31",   "33",
                                         "4096",   "1e9",      "2147483647", "0.5", "1e99", "\"x\"",
                                         "\"q8\"", "\"Q4_K\"", "[]",         "{}",  "true"};
    enum { N_OTHERS = sizeof others / sizeof others[0] };
    size_t n = json_is_array(within) ? json_array_size(within) : json_object_size(within);
    void *at = json_object_iter(within);
    for (size_t i = 0; i < n; i++) {
        bool list = json_is_array(within);
        const char *key = list ? NULL : json_object_iter_key(at);
        json_t *value = json_incref(list ? json_array_get(within, i) : json_object_iter_value(at));
        for (size_t k = 0; k < N_OTHERS; k++) {
            json_t *other = json_loads(others[k], JSON_DECODE_ANY, NULL);
            assert_non_null(other);
            if (list)
                json_array_set_new(within, i, other);
            else
                json_object_set_new(within, key, other);
            try_document(document);
        }
        if (list)
            json_array_set(within, i, value);
        else
            json_object_set(within, key, value);
        if (json_is_array(value) || json_is_object(value)) try_changes(document, value);
        json_decref(value);
        if (!list) at = json_object_iter_next(within, at);
    }
}

// A tensor that no operand names, and buffers that executors would take for something else: each
// once wrote past its memory.
static void what_is_added_is_refused(void **state)
{
    (void)state;
    static const char *const tensors[] = {
        "{'name': 't', 'what': 'rotations', 'type': 'Q4_0', 'rows': 1000, 'cols': 4096}",
        "{'name': 't', 'what': 'rotations', 'type': 'F32', 'rows': 1000, 'cols': 33}",
        "{'name': 't', 'what': 'rotations', 'type': 'F32', 'rows': 10, 'cols': 32}",
        "{'name': 't', 'what': 'matrix', 'type': 'Q4_K', 'rows': 10, 'cols': 256}",
    };
    plan_set *set = plan_of("smollm3-tied.q8_0", PLAN_ACT_F32, false, QUANT_F16);
    const plan *p = plan_for_rows(set, 1);
    uint32_t gated = 0;
    while (p->ops[gated].kind != PLAN_LINEAR || !p->ops[gated].u.linear.gated) gated++;
    reproducer r;
    reproducer_of(set, 1, 0, gated, 3, &r);
    json_t *json = reproducer_json(&r), *list = json_object_get(json, "tensors");
    size_t n = json_array_size(list);
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        char text[160];
        snprintf(text, sizeof text, "%s", tensors[i]);
        for (char *c = text; *c; c++)
            if (*c == '\'') *c = '"';
        assert_int_equal(json_array_append_new(list, json_loads(text, 0, NULL)), 0);
        assert_int_equal(reproducer_parse(json, &r), PM_ERROR_FILE);
        json_array_remove(list, n);
        assert_ok(reproducer_parse(json, &r));
    }
    json_t *ff = json_object_get(json_object_get(json, "buffers"), "ff");
    json_object_set_new(ff, "type", json_string("Q8_0"));
    assert_int_equal(reproducer_parse(json, &r), PM_ERROR_FILE);
    assert_non_null(strstr(error_message(), "ff"));
    json_decref(json);
    close_plan(set);
}

static void changed_documents_are_refused_or_run(void **state)
{
    (void)state;
    plan_set *set = plan_of("smollm3-tied.q8_0", PLAN_ACT_Q8, false, QUANT_F16);
    bool seen[PLAN_N_OP_KINDS] = {false};
    const plan *p = plan_for_rows(set, N_ROWS);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        if (seen[p->ops[i].kind]) continue;
        seen[p->ops[i].kind] = true;
        reproducer r;
        reproducer_of(set, N_ROWS, 0, i, 3, &r);
        json_t *json = reproducer_json(&r);
        try_changes(json, json);
        assert_ok(reproducer_parse(json, &r)); // all changes were taken back
        json_decref(json);
    }
    if (n_refused < n_tried / 2) fail_msg("%zu of %zu were refused", n_refused, n_tried);
    json_t *empty = json_object(), *list = json_array();
    try_document(empty);
    try_document(list);
    try_document(NULL);
    json_decref(empty);
    json_decref(list);
    close_plan(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_of_every_family),
        cmocka_unit_test(every_format),
        cmocka_unit_test(a_wrong_device_is_reproduced),
        cmocka_unit_test(what_is_added_is_refused),
        cmocka_unit_test(changed_documents_are_refused_or_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
