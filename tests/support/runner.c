#include "support/runner.h"

#include "support/test.h"

static const void *source_map(void *arg, uint32_t tensor)
{
    const model *m = arg;
    return gguf_tensor_map(m->file, m->file_tensors[tensor]);
}

static pm_status source_read(void *arg, uint32_t tensor, uint64_t offset, void *dst, uint64_t n)
{
    const model *m = arg;
    return gguf_read(m->file, m->file_tensors[tensor], offset, dst, n);
}

static void source_drop(void *arg, uint32_t tensor, uint64_t offset, uint64_t n)
{
    const model *m = arg;
    gguf_drop(m->file, m->file_tensors[tensor], offset, n);
}

pm_status runner_try(runner *r, const char *path, const exec_kind *kind, const exec_params *params,
                     const plan_options *options)
{
    *r = (runner){.kind = kind};
    model_options open_options = {0};
    assert_ok(model_open(path, &open_options, &r->model));
    assert_ok(plan_build(r->model, options, &r->set));
    uint32_t n = r->model->n_tensors;
    bool *wanted = malloc(n * sizeof *wanted);
    assert_non_null(wanted);
    for (uint32_t i = 0; i < n; i++) wanted[i] = true;
    exec_source source = {
        .arg = r->model, .map = source_map, .read = source_read, .drop = source_drop};
    exec_params as_a_session = *params; // which tells what lies together
    if (!as_a_session.layout) as_a_session.layout = r->set;
    pm_status status =
        kind->load(&as_a_session, r->model->tensors, n, wanted, &source, &r->weights);
    free(wanted);
    if (status != PM_OK) return status;
    return kind->open(r->weights, r->set, 0, r->model->n_layer, true, &r->exec);
}

void runner_open(runner *r, const char *path, const exec_kind *kind, const exec_params *params,
                 const plan_options *options)
{
    assert_ok(runner_try(r, path, kind, params, options));
}

void runner_close(runner *r)
{
    if (r->exec) r->kind->close(r->exec);
    if (r->weights) r->kind->unload(r->weights);
    plan_set_free(r->set);
    model_close(r->model);
    *r = (runner){0};
}

void runner_reset(runner *r)
{
    r->n_past = 0;
}

// Runs the step; with `hidden` layer by layer, the last row's residual stream read between.
static void run_step(runner *r, const plan_step *step, float *hidden)
{
    const plan *p = plan_for_rows(r->set, step->n_rows);
    uint32_t end = p->n_ops - 1, first = 0; // without PICK
    if (hidden) {
        for (uint32_t layer = 0; layer <= r->set->n_layer; layer++) {
            uint32_t next, count;
            if (layer < r->set->n_layer)
                plan_layer_ops(p, (int)layer, &next, &count);
            else
                next = end - (p->ops[end - 1].u.logits.norm_in.tensor >= 0 ? 1 : 2);
            assert_ok(r->kind->run(r->exec, p, first, next - first, step));
            first = next;
            uint64_t bytes = r->set->bufs[PLAN_X].row_bytes;
            assert_ok(r->kind->read(r->exec, PLAN_X, (step->n_rows - 1) * bytes,
                                    hidden + layer * r->set->n_embd, bytes));
        }
    }
    assert_ok(r->kind->run(r->exec, p, first, end - first, step));
}

void runner_eval(runner *r, const int32_t *ids, uint32_t n, float *logits, float *hidden)
{
    static plan_step step;
    for (uint32_t done = 0; done < n; done += step.n_rows) {
        step.n_rows = n - done < r->set->n_batch ? n - done : r->set->n_batch;
        step.n_logits = logits ? step.n_rows : 0;
        for (uint32_t i = 0; i < step.n_rows; i++) {
            uint32_t pos = r->n_past + i;
            step.rows[i] = (plan_row){.token = ids[done + i], .pos = pos, .n_kv = pos + 1};
            step.logit_rows[i] = (uint16_t)i;
        }
        run_step(r, &step, done + step.n_rows == n ? hidden : NULL);
        r->n_past += step.n_rows;
        uint64_t bytes = r->set->bufs[PLAN_LOGITS].row_bytes;
        if (logits)
            assert_ok(r->kind->read(r->exec, PLAN_LOGITS, 0,
                                    logits + (size_t)done * r->set->n_vocab, step.n_rows * bytes));
    }
}
