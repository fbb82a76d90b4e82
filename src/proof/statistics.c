#include "proof/statistics.h"

#include <math.h>
#include <stdlib.h>

// Calls `each` with all values of the tensor, row by row.
static pm_status each_row(const model *m, uint32_t index,
                          void (*each)(tensor_statistics *, const float *, uint32_t),
                          tensor_statistics *s)
{
    const plan_tensor *t = &m->tensors[index];
    void *raw = malloc(t->row_bytes);
    float *values = malloc(t->cols * sizeof *values);
    pm_status status = raw && values ? PM_OK : error_memory("a row", t->row_bytes);
    for (uint32_t r = 0; r < t->rows && status == PM_OK; r++) {
        status = gguf_read(m->file, m->file_tensors[index], r * t->row_bytes, raw, t->row_bytes);
        if (status != PM_OK) break;
        quant_format_of(t->type)->decode(raw, values, t->cols);
        each(s, values, t->cols);
    }
    free(raw);
    free(values);
    return status;
}

// Welford's running mean; sd holds the sum of squared deviations meanwhile.
static void add_values(tensor_statistics *s, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        double v = (double)x[i];
        s->n++;
        if (!isfinite(v)) {
            s->n_nonfinite++;
            continue;
        }
        s->n_zero += v == 0;
        s->min = fmin(s->min, v);
        s->max = fmax(s->max, v);
        double before = v - s->mean;
        s->mean += before / (double)(s->n - s->n_nonfinite);
        s->sd += before * (v - s->mean);
    }
}

static void count_values(tensor_statistics *s, const float *x, uint32_t n)
{
    double width = (s->to - s->from) / STATISTICS_BINS;
    for (uint32_t i = 0; i < n; i++) {
        double v = (double)x[i];
        if (!isfinite(v)) continue;
        if (v < s->from) {
            s->below++;
        } else if (v > s->to) {
            s->above++;
        } else {
            int bin = width > 0 ? (int)((v - s->from) / width) : 0;
            s->bins[bin < STATISTICS_BINS ? bin : STATISTICS_BINS - 1]++;
        }
    }
}

pm_status statistics_of(const model *m, uint32_t index, tensor_statistics *out)
{
    *out = (tensor_statistics){.min = INFINITY, .max = -INFINITY};
    pm_status status = each_row(m, index, add_values, out);
    if (status != PM_OK) return status;
    uint64_t finite = out->n - out->n_nonfinite;
    out->sd = finite > 0 ? sqrt(out->sd / (double)finite) : 0;
    if (finite == 0) out->min = out->max = 0;
    out->from = fmax(out->min, out->mean - 4 * out->sd);
    out->to = fmin(out->max, out->mean + 4 * out->sd);
    return each_row(m, index, count_values, out);
}
