#include "proof/side.h"

#include <stdlib.h>

pm_status side_open(side *s, const weights *w, const plan_options *options)
{
    *s = (side){.w = w};
    pm_status status = plan_build(w->m, options, &s->set);
    for (uint32_t i = 0; i < w->n_parts && status == PM_OK; i++) {
        const weights_part *p = &w->parts[i];
        bool outer = i == 0 || i + 1 == w->n_parts;
        status =
            p->kind->open(p->loaded, s->set, p->first_layer, p->end_layer, outer, &s->states[i]);
    }
    if (status != PM_OK) side_close(s);
    return status;
}

void side_close(side *s)
{
    for (uint32_t i = 0; s->w && i < s->w->n_parts; i++)
        if (s->states[i]) s->w->parts[i].kind->close(s->states[i]);
    plan_set_free(s->set);
    *s = (side){0};
}

uint32_t side_part(const side *s, const plan_op *op)
{
    if (op->layer < 0) return op->kind == PLAN_EMBED ? 0 : s->w->n_parts - 1;
    for (uint32_t i = 0; i + 1 < s->w->n_parts; i++)
        if ((uint32_t)op->layer < s->w->parts[i].end_layer) return i;
    return s->w->n_parts - 1;
}

pm_status side_run(side *s, uint32_t part, const plan *p, uint32_t first, uint32_t count,
                   const plan_step *step)
{
    return s->w->parts[part].kind->run(s->states[part], p, first, count, step);
}

pm_status side_run_range(side *s, const plan *p, uint32_t first, uint32_t end,
                         const plan_step *step)
{
    pm_status status = PM_OK;
    while (first < end && status == PM_OK) {
        uint32_t part = side_part(s, &p->ops[first]), last = first;
        while (last < end && side_part(s, &p->ops[last]) == part) last++;
        status = side_run(s, part, p, first, last - first, step);
        if (status == PM_OK && last < p->n_ops && side_part(s, &p->ops[last]) != part)
            status = side_copy_rows(s, part, s, part + 1, PLAN_X, 0, step->n_rows);
        first = last;
    }
    return status;
}

// The bytes of values [col, col + n) of a row.
static void place(const plan_buf *b, uint64_t row, uint32_t col, uint32_t n, uint64_t *offset,
                  uint64_t *bytes)
{
    uint64_t before = 0;
    quant_row_bytes(b->type, col, &before);
    quant_row_bytes(b->type, n, bytes);
    *offset = row * b->row_bytes + before;
}

pm_status side_read(side *s, uint32_t part, int buffer, uint64_t row, uint32_t col, uint32_t n,
                    float *values)
{
    const plan_buf *b = &s->set->bufs[buffer];
    uint64_t offset, bytes;
    place(b, row, col, n, &offset, &bytes);
    void *raw = malloc(bytes);
    if (!raw) return error_memory("a row", bytes);
    pm_status status = s->w->parts[part].kind->read(s->states[part], buffer, offset, raw, bytes);
    if (status == PM_OK) quant_format_of(b->type)->decode(raw, values, n);
    free(raw);
    return status;
}

pm_status side_read_rows(side *s, uint32_t part, int buffer, uint64_t row, uint64_t rows,
                         uint32_t col, uint32_t n, float *values)
{
    const plan_buf *b = &s->set->bufs[buffer];
    uint64_t before, bytes;
    if (rows == 0) return PM_OK;
    place(b, 0, col, n, &before, &bytes);
    uint64_t all = (rows - 1) * b->row_bytes + bytes;
    char *raw = malloc(all);
    if (!raw) return error_memory("rows", all);
    pm_status status = s->w->parts[part].kind->read(s->states[part], buffer,
                                                    row * b->row_bytes + before, raw, all);
    for (uint64_t i = 0; i < rows && status == PM_OK; i++)
        quant_format_of(b->type)->decode(raw + i * b->row_bytes, values + i * n, n);
    free(raw);
    return status;
}

pm_status side_write(side *s, uint32_t part, int buffer, uint64_t row, uint32_t col, uint32_t n,
                     const float *values)
{
    const plan_buf *b = &s->set->bufs[buffer];
    uint64_t offset, bytes;
    place(b, row, col, n, &offset, &bytes);
    void *raw = malloc(bytes);
    if (!raw) return error_memory("a row", bytes);
    quant_format_of(b->type)->encode(values, raw, n);
    pm_status status = s->w->parts[part].kind->write(s->states[part], buffer, offset, raw, bytes);
    free(raw);
    return status;
}

pm_status side_copy_rows(side *from, uint32_t from_part, side *to, uint32_t to_part, int buffer,
                         uint64_t row, uint64_t rows)
{
    const plan_buf *b = &from->set->bufs[buffer];
    uint64_t offset = row * b->row_bytes, bytes = rows * b->row_bytes;
    void *raw = malloc(bytes);
    if (!raw) return error_memory("rows", bytes);
    pm_status status =
        from->w->parts[from_part].kind->read(from->states[from_part], buffer, offset, raw, bytes);
    if (status == PM_OK)
        status = to->w->parts[to_part].kind->write(to->states[to_part], buffer, offset, raw, bytes);
    free(raw);
    return status;
}
