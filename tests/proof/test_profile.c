// Times of single ops: by an executor's own clock where it is plausible, else by the host's.
#include "support/test.h"

#include <math.h>
#include <stdbool.h>

#include "base/os.h"
#include "proof/profile.h"

// The reference with a clock of its own.
static exec_kind timed;
static double tick; // what its clock says of every op
static int n_timed, n_plain;

static pm_status run_timed(exec *e, const plan *p, uint32_t first, uint32_t count,
                           const plan_step *step, double *seconds)
{
    n_timed++;
    for (uint32_t i = 0; i < count; i++) seconds[i] = tick;
    pm_status status = exec_reference.run(e, p, first, count, step);
    os_sleep(0.002);
    return status;
}

static pm_status run_plain(exec *e, const plan *p, uint32_t first, uint32_t count,
                           const plan_step *step)
{
    n_plain++;
    return exec_reference.run(e, p, first, count, step);
}

// Two for an op in a layer, one for any other.
static uint32_t n_dispatches(exec *e, const plan *p, uint32_t first, uint32_t count,
                             const plan_step *step)
{
    (void)e, (void)step;
    uint32_t n = 0;
    for (uint32_t i = first; i < first + count; i++) n += p->ops[i].layer >= 0 ? 2 : 1;
    return n;
}

typedef struct fixture {
    model *model;
    weights *weights;
    session *session;
} fixture;

static void open_on(fixture *f, const exec_kind *kind)
{
    model_options how = {0};
    assert_ok(model_open(test_data("golden/llama-tied.q8_0.gguf"), &how, &f->model));
    weights_part part = {.kind = kind, .end_layer = f->model->n_layer};
    assert_ok(weights_load(f->model, &part, 1, &f->weights));
    plan_options options = {.n_ctx = 64, .n_slots = 1, .n_batch = 16, .kv_type = QUANT_F32};
    assert_ok(session_open(f->weights, &options, &f->session));
    n_timed = n_plain = 0;
}

static void close_all(fixture *f)
{
    session_close(f->session);
    weights_unload(f->weights);
    model_close(f->model);
}

static const bench_case three_tokens = {.kind = BENCH_GENERATE, .n = 3, .depth = 5};

static double sum_of(const profile *p)
{
    double sum = 0;
    for (uint32_t i = 0; i < p->n_rows; i++) sum += p->rows[i].seconds;
    return sum;
}

static uint64_t calls_of(const profile *p)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->n_rows; i++) n += p->rows[i].calls;
    return n;
}

static void the_host_takes_times_where_there_is_no_clock(void **state)
{
    (void)state;
    fixture f;
    profile p;
    open_on(&f, &exec_reference);
    double start = os_seconds();
    assert_ok(profile_run(f.session, 1, &three_tokens, &p));
    double waited = os_seconds() - start;
    assert_true(p.host_clock && !p.implausible);
    assert_true(sum_of(&p) > 0 && sum_of(&p) <= waited);
    assert_int_equal(p.dispatches, 0);
    const plan_set *set = session_plan(f.session);
    // all ops but PICK, whose work the host does, for each token; LOGITS every time
    assert_int_equal(calls_of(&p), 3 * (plan_for_rows(set, 1)->n_ops - 1));
    for (uint32_t i = 1; i < p.n_rows; i++) assert_true(p.rows[i - 1].seconds >= p.rows[i].seconds);
    for (uint32_t i = 0; i < p.n_rows; i++) assert_true(p.rows[i].bytes > 0);
    // the bytes of a step's ops are what the benchmark counts for a token
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p.n_rows; i++) bytes += p.rows[i].bytes;
    assert_int_equal(bytes, 3 * bench_bytes_per_token(set, &three_tokens));
    profile_free(&p);
    close_all(&f);
}

static void an_executors_own_clock_counts(void **state)
{
    (void)state;
    fixture f;
    profile p;
    tick = 1e-6;
    open_on(&f, &timed);
    assert_ok(profile_run(f.session, 1, &three_tokens, &p));
    assert_false(p.host_clock || p.implausible);
    assert_int_equal(n_timed, 3); // a token at once
    uint64_t n_ops = calls_of(&p);
    assert_true(fabs(sum_of(&p) - (double)n_ops * 1e-6) < 1e-12);
    uint32_t first, count;
    const plan *one = plan_for_rows(session_plan(f.session), 1);
    plan_layer_ops(one, 0, &first, &count);
    assert_int_equal(p.dispatches_a_layer, 2 * count);
    assert_int_equal(p.dispatches,
                     2 * count * f.model->n_layer + (one->n_ops - 1 - count * f.model->n_layer));
    profile_free(&p);
    close_all(&f);
}

// Zero, negative, not a number, longer than the host waited: taken again by the host, and said.
static void r61_a_clock_that_can_not_be_right_is_not_believed(void **state)
{
    (void)state;
    static const double wrong[] = {0, -1e-6, NAN, INFINITY, 10};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        fixture f;
        profile p;
        tick = wrong[i];
        open_on(&f, &timed);
        assert_ok(profile_run(f.session, 1, &three_tokens, &p));
        assert_true(p.host_clock && p.implausible);
        assert_true(sum_of(&p) > 0 && sum_of(&p) < 10);
        assert_int_equal(calls_of(&p), 3 * (plan_for_rows(session_plan(f.session), 1)->n_ops - 1));
        assert_true(n_plain > 0);
        profile_free(&p);
        close_all(&f);
    }
}

// After a profile the session runs as before.
static void times_leave_no_trace(void **state)
{
    (void)state;
    fixture f;
    profile p;
    tick = 1e-6;
    open_on(&f, &timed);
    static const int32_t ids[] = {1, 2, 3};
    assert_ok(session_eval(f.session, ids, 3, false));
    float *before = malloc(f.model->n_vocab * sizeof *before);
    assert_non_null(before);
    memcpy(before, session_logits(f.session, 0), f.model->n_vocab * sizeof *before);
    assert_ok(profile_run(f.session, 1, &three_tokens, &p));
    profile_free(&p);
    session_rewind(f.session, 0);
    n_timed = 0;
    assert_ok(session_eval(f.session, ids, 3, false));
    assert_memory_equal(before, session_logits(f.session, 0), f.model->n_vocab * sizeof *before);
    assert_int_equal(n_timed, 0);
    free(before);
    close_all(&f);
}

static void what_holds_an_op(void **state)
{
    (void)state;
    profile_row row = {.bytes = 1000, .flops = 1000, .seconds = 1};
    assert_string_equal(profile_bound(&row, 1000, 10000), "memory");
    assert_string_equal(profile_bound(&row, 10000, 1000), "compute");
    row.seconds = 5;
    assert_string_equal(profile_bound(&row, 1000, 1000), "latency");
}

int main(void)
{
    timed = exec_reference;
    timed.run = run_plain;
    timed.run_timed = run_timed;
    timed.n_dispatches = n_dispatches;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_takes_times_where_there_is_no_clock),
        cmocka_unit_test(an_executors_own_clock_counts),
        cmocka_unit_test(r61_a_clock_that_can_not_be_right_is_not_believed),
        cmocka_unit_test(times_leave_no_trace),
        cmocka_unit_test(what_holds_an_op),
    };
    return cmocka_run_group_tests_name("profile", tests, NULL, NULL);
}
