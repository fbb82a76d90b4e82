// Equal runs of an executor with a race are told from those of one without.
#include "proof/repeat.h"

#include "support/test.h"

static exec_kind racing;
static uint32_t n_logits_run, bad_run;

// The reference, but in one run one logit of the last position has another last bit.
static pm_status run_with_race(exec *e, const plan *p, uint32_t first, uint32_t count,
                               const plan_step *step)
{
    pm_status status = exec_reference.run(e, p, first, count, step);
    if (status != PM_OK || step->n_logits == 0 || step->rows[0].pos != 11) return status;
    if (n_logits_run++ != bad_run) return PM_OK;
    uint32_t bits;
    status = exec_reference.read(e, PLAN_LOGITS, 40, &bits, sizeof bits);
    bits ^= 1;
    if (status == PM_OK) status = exec_reference.write(e, PLAN_LOGITS, 40, &bits, sizeof bits);
    return status;
}

static void r67_a_race_is_seen(void **state)
{
    (void)state;
    model *m = NULL;
    model_options options = {0};
    assert_ok(model_open(test_data("golden/llama-tied.q8_0.gguf"), &options, &m));
    racing = exec_reference;
    racing.run = run_with_race;
    weights_part part = {.kind = &racing, .end_layer = m->n_layer};
    weights *w = NULL;
    assert_ok(weights_load(m, &part, 1, &w));
    plan_options how = {.n_ctx = 32, .n_slots = 1, .n_batch = 16, .kv_type = QUANT_F32};
    int32_t ids[12] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
    repeat_result r;
    n_logits_run = 0;
    bad_run = 1000; // never
    assert_ok(repeat_run(w, &how, ids, 12, 10, &r));
    assert_int_equal(r.runs, 10);
    assert_int_equal(r.n_different, 0);
    uint64_t hash = r.hash;
    n_logits_run = 0;
    bad_run = 6;
    assert_ok(repeat_run(w, &how, ids, 12, 10, &r));
    assert_int_equal(r.n_different, 1);
    assert_int_equal(r.first_run, 6);
    assert_int_equal(r.first_pos, 11);
    assert_true(r.hash == hash);
    n_logits_run = 0;
    bad_run = 0; // then all others differ from the first
    assert_ok(repeat_run(w, &how, ids, 12, 4, &r));
    assert_int_equal(r.n_different, 3);
    assert_true(r.hash != hash);
    weights_unload(w);
    model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r67_a_race_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
