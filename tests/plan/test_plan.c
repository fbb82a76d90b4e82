// What follows from an op list: counts, costs, hazards, the printed form.
#include "support/test.h"

#include "model/model.h"
#include "plan/build.h"

// A plan with the model that it points into.
typedef struct fixture {
    model *model;
    plan_set *set;
} fixture;

static fixture build(const char *file, plan_act act, bool no_fuse)
{
    fixture f;
    model_options open_options = {0};
    plan_options options = {.n_ctx = 64,
                            .n_slots = 2,
                            .n_batch = 64,
                            .kv_type = QUANT_F16,
                            .act = act,
                            .no_fuse = no_fuse};
    assert_ok(model_open(test_data(file), &open_options, &f.model));
    assert_ok(plan_build(f.model, &options, &f.set));
    return f;
}

static void done(fixture *f)
{
    plan_set_free(f->set);
    model_close(f->model);
}

static uint32_t ops_in_layer(const fixture *f, uint32_t rows, int layer)
{
    uint32_t first, count;
    plan_layer_ops(plan_for_rows(f->set, rows), layer, &first, &count);
    return count;
}

// The target of the design: at most 7 dispatches a layer in decode, with what each property adds.
// ATTEND may be two dispatches on a GPU (split and merge), so one less here.
static void decode_needs_few_ops(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        plan_act act;
        uint32_t most;
    } cases[] = {
        {"golden/smollm3-tied.q8_0.gguf", PLAN_ACT_F32, 6},
        {"golden/llama-rope3.q8_0.gguf", PLAN_ACT_F32, 6},
        {"golden/qwen2.q8_0.gguf", PLAN_ACT_F32, 6},
        {"golden/qwen3.q8_0.gguf", PLAN_ACT_F32, 6},
        {"golden/phi4.q8_0.gguf", PLAN_ACT_F32, 6},
        {"golden/smollm3-tied.q8_0.gguf", PLAN_ACT_Q8, 8},
        {"golden/smollm3-q4_k_m.gguf", PLAN_ACT_F32, 7}, // V has another format
        {"golden/gemma3.q8_0.gguf", PLAN_ACT_F32, 8},    // post-norms
        {"golden/gpt2.q8_0.gguf", PLAN_ACT_F32, 8},      // LayerNorm
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture f = build(cases[i].file, cases[i].act, false);
        for (uint32_t layer = 0; layer < f.set->n_layer; layer++) {
            uint32_t n = ops_in_layer(&f, 1, (int)layer);
            if (n > cases[i].most) fail_msg("%s: %u ops in layer %u", cases[i].file, n, layer);
        }
        done(&f);
    }
}

static void rows_choose_the_bucket(void **state)
{
    (void)state;
    fixture f = build("golden/llama-tied.f32.gguf", PLAN_ACT_F32, false);
    static const uint32_t rows[] = {1, 2, 3, 8, 9, 16, 17, 64},
                          bucket[] = {1, 2, 4, 8, 16, 16, 64, 64};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(plan_for_rows(f.set, rows[i])->max_rows, bucket[i]);
    assert_null(plan_for_rows(f.set, 65));
    done(&f);
}

// The weights that one decode step reads are the file's matrices (a tied table counts once, its
// embedding row beside it).
static void costs_add_up(void **state)
{
    (void)state;
    fixture f = build("golden/smollm3-untied.q8_0.gguf", PLAN_ACT_F32, false);
    const plan *p = plan_for_rows(f.set, 1);
    uint64_t weights = 0, kv = 0, expected = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        plan_cost c = plan_op_cost(f.set, &p->ops[i], 1, 1, 40);
        weights += c.weight_bytes;
        kv += c.kv_bytes;
    }
    for (uint32_t i = 0; i < f.model->n_tensors; i++) {
        const plan_tensor *t = &f.model->tensors[i];
        if (t->vector) continue;
        bool table = !strcmp(t->name, "token_embd.weight");
        expected += table ? t->row_bytes : t->rows * t->row_bytes;
    }
    assert_int_equal(weights, expected);
    // 8 layers, one KV head of 32 halves: 40 keys and values read, one of each written
    assert_int_equal(kv, 8 * (2 * 40 + 2) * 32 * 2);
    done(&f);
}

static void cache_size_is_known_beforehand(void **state)
{
    (void)state;
    fixture f = build("golden/smollm3-untied.q8_0.gguf", PLAN_ACT_F32, false);
    uint64_t bytes, sum = 0;
    assert_true(plan_kv_bytes(f.model, 64, 2, QUANT_F16, &bytes));
    for (uint32_t i = PLAN_KV; i < f.set->n_bufs; i++) sum += f.set->bufs[i].bytes;
    assert_int_equal(bytes, sum);
    assert_int_equal(bytes, 8 * 2 * 2 * 64 * 32 * 2);
    assert_false(plan_kv_bytes(f.model, UINT32_MAX, UINT32_MAX, QUANT_F32, &bytes) &&
                 bytes < UINT64_C(1) << 60);
    done(&f);
}

// Every value that an op reads was written by an op before it, and the derived hazards see that.
static void every_read_follows_its_write(void **state)
{
    (void)state;
    for (int form = 0; form < 4; form++) {
        fixture f =
            build("golden/gemma3.q8_0.gguf", form & 1 ? PLAN_ACT_Q8 : PLAN_ACT_F32, form & 2);
        for (uint32_t rows = 1; rows <= 64; rows += 63) {
            const plan *p = plan_for_rows(f.set, rows);
            for (uint32_t i = 0; i < p->n_ops; i++) {
                plan_uses mine, before;
                plan_op_uses(f.set, &p->ops[i], &mine);
                for (uint32_t r = 0; r < mine.n_reads; r++) {
                    bool written = false;
                    plan_uses one = {.n_reads = 1, .reads = {mine.reads[r]}};
                    for (uint32_t j = 0; j <= i && !written; j++) {
                        if (j == i && p->ops[i].kind != PLAN_ROPE_KV) break;
                        plan_op_uses(f.set, &p->ops[j], &before);
                        written = plan_hazard(&before, &one);
                    }
                    if (!written) fail_msg("op %u reads what nobody wrote", i);
                }
            }
        }
        done(&f);
    }
}

static void hazards_are_all_three(void **state)
{
    (void)state;
    plan_view low = {PLAN_QKV, 0, 64}, high = {PLAN_QKV, 64, 64}, across = {PLAN_QKV, 60, 8};
    plan_uses reads_low = {.n_reads = 1, .reads = {low}},
              writes_low = {.n_writes = 1, .writes = {low}};
    plan_uses writes_high = {.n_writes = 1, .writes = {high}};
    plan_uses reads_across = {.n_reads = 1, .reads = {across}};
    assert_true(plan_hazard(&writes_low, &reads_low));
    assert_true(plan_hazard(&reads_low, &writes_low));
    assert_true(plan_hazard(&writes_low, &writes_low));
    assert_false(plan_hazard(&reads_low, &reads_low));
    assert_false(plan_hazard(&writes_low, &writes_high));
    assert_true(plan_hazard(&writes_low, &reads_across));
    assert_true(plan_hazard(&writes_high, &reads_across));
}

static void printed_form_names_everything(void **state)
{
    (void)state;
    fixture f = build("golden/smollm3-q4_k_m.gguf", PLAN_ACT_F32, false);
    buf out = {0};
    plan_print(f.set, plan_for_rows(f.set, 1), &out);
    assert_false(out.failed);
    assert_non_null(strstr(out.data, "blk.3.attn_q.weight Q4_K 256x256"));
    assert_non_null(strstr(out.data, "no rope"));
    assert_non_null(strstr(out.data, "silu_gated"));
    uint32_t lines = 0;
    for (const char *c = out.data; *c; c++) lines += *c == '\n';
    assert_int_equal(lines, plan_for_rows(f.set, 1)->n_ops + 3);
    buf_free(&out);
    done(&f);
}

static void q8_cache_needs_whole_blocks(void **state)
{
    (void)state;
    model *m;
    model_options open_options = {0};
    plan_options options = {.n_ctx = 64, .n_slots = 1, .n_batch = 8, .kv_type = QUANT_Q8_0};
    plan_set *set;
    assert_ok(model_open(test_data("golden/llama-untied.q8_0.gguf"), &open_options, &m));
    assert_int_equal(plan_build(m, &options, &set), PM_ERROR_USAGE);
    assert_null(set);
    assert_non_null(strstr(error_message(), "multiple of 32"));
    model_close(m);
}

// ---- operands ---------------------------------------------------------------------------------

typedef struct operand {
    plan_op_kind kind;
    enum { VIEW, WEIGHT, VECTOR, CACHE } form;
    size_t offset;
} operand;

#define AT(member) offsetof(plan_op, u.member)
static const operand operands[] = {
    {PLAN_EMBED, WEIGHT, AT(embed.table)},
    {PLAN_EMBED, WEIGHT, AT(embed.positions)},
    {PLAN_EMBED, VIEW, AT(embed.out)},
    {PLAN_NORM, VECTOR, AT(norm.weight)},
    {PLAN_NORM, VECTOR, AT(norm.bias)},
    {PLAN_NORM, VIEW, AT(norm.x)},
    {PLAN_NORM, VIEW, AT(norm.residual)},
    {PLAN_NORM, VIEW, AT(norm.out)},
    {PLAN_LINEAR, WEIGHT, AT(linear.weight[0])},
    {PLAN_LINEAR, VECTOR, AT(linear.bias[0])},
    {PLAN_LINEAR, VIEW, AT(linear.x)},
    {PLAN_LINEAR, VIEW, AT(linear.out[0])},
    {PLAN_LINEAR, VIEW, AT(linear.residual)},
    {PLAN_LINEAR, VECTOR, AT(linear.norm_in)},
    {PLAN_QUANTIZE, VIEW, AT(quantize.x)},
    {PLAN_QUANTIZE, VIEW, AT(quantize.out)},
    {PLAN_ROPE_KV, VIEW, AT(rope_kv.q)},
    {PLAN_ROPE_KV, VIEW, AT(rope_kv.k)},
    {PLAN_ROPE_KV, VIEW, AT(rope_kv.v)},
    {PLAN_ROPE_KV, VECTOR, AT(rope_kv.q_norm)},
    {PLAN_ROPE_KV, CACHE, AT(rope_kv.k_cache)},
    {PLAN_ROPE_KV, CACHE, AT(rope_kv.v_cache)},
    {PLAN_ATTEND, VIEW, AT(attend.q)},
    {PLAN_ATTEND, VIEW, AT(attend.out)},
    {PLAN_ATTEND, CACHE, AT(attend.k_cache)},
    {PLAN_ACTIVATE, VIEW, AT(activate.x)},
    {PLAN_ACTIVATE, VIEW, AT(activate.up)},
    {PLAN_ACTIVATE, VIEW, AT(activate.out)},
    {PLAN_ADD, VIEW, AT(add.a)},
    {PLAN_ADD, VIEW, AT(add.b)},
    {PLAN_ADD, VIEW, AT(add.out)},
    {PLAN_LOGITS_OP, WEIGHT, AT(logits.weight)},
    {PLAN_LOGITS_OP, VIEW, AT(logits.x)},
    {PLAN_LOGITS_OP, VECTOR, AT(logits.norm_in)},
};
enum { N_OPERANDS = sizeof operands / sizeof operands[0] };

// The operand in the way numbered `how` beside where it should be; false: no such way, or there is
// no operand.
static bool spoil(const plan_set *set, const operand *o, int how, plan_op *op)
{
    void *at = (char *)op + o->offset;
    plan_view *v = at;
    plan_weight *w = at;
    plan_vector *vector = at;
    int *index = at; // all forms begin with the number of a buffer or tensor
    if (*index < 0 || how > 4) return false;
    if (how == 0) *index = o->form == WEIGHT || o->form == VECTOR ? (int)set->n_tensors : 1000;
    if (how == 1) *index = -2;
    if (how < 2) return true;
    switch (o->form) {
    case VIEW:
        if (how == 2) v->col = set->bufs[v->buf].width - v->n + 1;
        if (how == 3) v->n++;
        if (how == 4) v->n--;
        return true;
    case WEIGHT:
        if (how == 2) w->row = set->tensors[w->tensor].rows - w->rows + 1;
        if (how == 3) w->rows = 0;
        if (how == 4) w->tensor = (int)set->n_tensors - 1; // a constant
        return true;
    case VECTOR:
        if (how == 2) vector->first = set->tensors[vector->tensor].cols;
        if (how == 3) vector->tensor = 0; // the token table
        return how < 4;
    case CACHE:
        if (how == 2) *index = PLAN_X;
        return how < 3;
    }
    return false;
}

static void wrong_operands_are_found(void **state)
{
    (void)state;
    static const char *const files[] = {"golden/smollm3-tied.q8_0.gguf", "golden/gpt2.f32.gguf",
                                        "golden/gemma3.q8_0.gguf", "golden/gptneox.f32.gguf"};
    bool met[N_OPERANDS] = {false};
    for (int k = 0; k < 32; k++) {
        fixture f = build(files[k / 8], k % 2 ? PLAN_ACT_Q8 : PLAN_ACT_F32, k / 2 % 2);
        const plan *p = &f.set->buckets[k / 4 % 2 ? f.set->n_buckets - 1 : 0];
        for (uint32_t i = 0; i < p->n_ops; i++) {
            assert_null(plan_op_fault(f.set, &p->ops[i]));
            for (size_t o = 0; o < N_OPERANDS; o++) {
                if (operands[o].kind != p->ops[i].kind) continue;
                plan_op op = p->ops[i];
                for (int how = 0; spoil(f.set, &operands[o], how, &op); how++, op = p->ops[i]) {
                    met[o] = true;
                    if (!plan_op_fault(f.set, &op))
                        fail_msg("%s of %s: operand %zu, way %d", op.label, files[k / 8], o, how);
                }
            }
        }
        done(&f);
    }
    for (size_t o = 0; o < N_OPERANDS; o++)
        if (!met[o]) fail_msg("no plan has operand %zu", o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_needs_few_ops),
        cmocka_unit_test(rows_choose_the_bucket),
        cmocka_unit_test(costs_add_up),
        cmocka_unit_test(cache_size_is_known_beforehand),
        cmocka_unit_test(every_read_follows_its_write),
        cmocka_unit_test(hazards_are_all_three),
        cmocka_unit_test(printed_form_names_everything),
        cmocka_unit_test(q8_cache_needs_whole_blocks),
        cmocka_unit_test(wrong_operands_are_found),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
