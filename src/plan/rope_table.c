#include "plan/rope_table.h"

#include <math.h>
#include <stdlib.h>

#include "base/size.h"

static const double pi = 3.14159265358979323846;

// The pair whose wave makes `turns` turns over the original context (YaRN, Peng et al. 2023,
// section 3.2): d * ln(L / (2 pi turns)) / (2 ln base).
static double yarn_pair(const model_rope *r, double turns)
{
    return r->n_rot * log(r->n_ctx_orig / (2 * pi * turns)) / (2 * log(r->base));
}

// How much of pair i's frequency is interpolated: 0 for fast pairs, 1 for slow ones, a ramp
// between. The ramp's ends are whole pairs.
static double yarn_ramp(const model_rope *r, uint32_t i)
{
    double low = fmax(0, floor(yarn_pair(r, r->beta_fast)));
    double high = fmin(r->n_rot - 1, ceil(yarn_pair(r, r->beta_slow)));
    double width = fmax(high - low, 0.001);
    return fmin(1, fmax(0, (i - low) / width));
}

// Angle of pair i at position 1.
static double frequency(const model *m, bool local, uint32_t i, const float *factors)
{
    const model_rope *r = &m->rope;
    double f = pow(local ? r->base_local : r->base, -2.0 * i / r->n_rot);
    if (local) return f;
    if (factors) f /= factors[i];
    if (r->scaling == MODEL_SCALE_LINEAR) return f / r->factor;
    if (r->scaling != MODEL_SCALE_YARN) return f;
    double keep = r->ext_factor * (1 - yarn_ramp(r, i));
    return f / r->factor * (1 - keep) + f * keep;
}

// Cosine and sine are multiplied by it. YaRN's own part, 1 + 0.1 ln(factor), is in no key.
static double attention_factor(const model *m, bool local)
{
    const model_rope *r = &m->rope;
    if (local) return 1;
    double yarn = r->scaling == MODEL_SCALE_YARN && r->factor > 1 ? 1 + 0.1 * log(r->factor) : 1;
    return r->attn_factor * yarn;
}

// Divisors of the frequencies (Llama 3's, or Phi-3's short or long ones); NULL in *out: none.
// Which of Phi-3's apply follows from the size of the context, once for all positions, as the
// common engine has it.
static pm_status read_factors(const model *m, uint32_t n_ctx, float **out)
{
    *out = NULL;
    plan_vector v = m->rope_freqs;
    if (m->rope_short.tensor >= 0) v = n_ctx <= m->rope.n_ctx_orig ? m->rope_short : m->rope_long;
    if (v.tensor < 0) return PM_OK;
    const plan_tensor *t = &m->tensors[v.tensor];
    void *raw = malloc(t->row_bytes);
    float *factors = calloc(t->cols, sizeof *factors);
    pm_status status = raw && factors ? PM_OK : error_memory("RoPE factors", t->row_bytes);
    if (status == PM_OK)
        status = gguf_read(m->file, m->file_tensors[v.tensor], 0, raw, t->row_bytes);
    if (status == PM_OK) quant_format_of(t->type)->decode(raw, factors, t->cols);
    for (uint32_t i = 0; status == PM_OK && i < t->cols; i++) {
        if (!(factors[i] > 0) || !isfinite(factors[i]))
            status = error_set(PM_ERROR_FILE, "tensor '%s' holds a factor that is not positive: %g",
                               t->name, (double)factors[i]);
    }
    free(raw);
    if (status == PM_OK)
        *out = factors;
    else
        free(factors);
    return status;
}

pm_status plan_rope_table(const model *m, uint32_t n_ctx, bool local, float **values)
{
    uint32_t n_rot = m->rope.n_rot;
    uint64_t bytes;
    if (!size_mul((uint64_t)n_ctx * n_rot, sizeof(float), &bytes) || bytes > SIZE_MAX / 2)
        return error_set(PM_ERROR_USAGE, "a context of %u is too large", n_ctx);
    float *factors;
    pm_status status = read_factors(m, n_ctx, &factors);
    if (status != PM_OK) return status;
    float *table = malloc(bytes);
    if (!table) {
        free(factors);
        return error_memory("the RoPE table", bytes);
    }
    double scale = attention_factor(m, local);
    for (uint32_t i = 0; i < n_rot / 2; i++) {
        double f = frequency(m, local, i, factors);
        for (uint32_t pos = 0; pos < n_ctx; pos++) {
            table[(size_t)pos * n_rot + 2 * i] = (float)(cos(pos * f) * scale);
            table[(size_t)pos * n_rot + 2 * i + 1] = (float)(sin(pos * f) * scale);
        }
    }
    free(factors);
    *values = table;
    return PM_OK;
}
