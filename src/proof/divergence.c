#include "proof/divergence.h"

#include <math.h>
#include <stdlib.h>

static bool all_finite(const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

static double kl_divergence(const float *expected, const float *found, uint32_t n)
{
    double me = -INFINITY, mf = -INFINITY, se = 0, sf = 0, kl = 0;
    for (uint32_t i = 0; i < n; i++) {
        me = fmax(me, (double)expected[i]);
        mf = fmax(mf, (double)found[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        se += exp((double)expected[i] - me);
        sf += exp((double)found[i] - mf);
    }
    for (uint32_t i = 0; i < n; i++) {
        double lp = (double)expected[i] - me - log(se), lq = (double)found[i] - mf - log(sf);
        kl += exp(lp) * (lp - lq);
    }
    return fmax(kl, 0);
}

static uint32_t largest(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

pm_status divergence_add(divergence *d, const float *expected, const float *found, uint32_t n)
{
    if (d->n == d->cap) {
        uint32_t cap = d->cap ? 2 * d->cap : 64;
        double *more = realloc(d->kl, cap * sizeof *more);
        if (!more) return error_memory("divergences", cap * sizeof *more);
        d->kl = more;
        d->cap = cap;
    }
    d->n_values += n;
    if (!all_finite(expected, n) || !all_finite(found, n)) {
        d->nonfinite = true;
        d->kl[d->n++] = INFINITY;
        return PM_OK;
    }
    for (uint32_t i = 0; i < n; i++) {
        double apart = fabs((double)expected[i] - (double)found[i]);
        d->max_abs = fmax(d->max_abs, apart);
        d->sum_abs += apart;
    }
    d->kl[d->n++] = kl_divergence(expected, found, n);
    uint32_t e = largest(expected, n), f = largest(found, n);
    bool same = e == f;
    d->n_same += same;
    d->n_judged += same || (double)expected[e] - (double)expected[f] <= d->margin;
    return PM_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

divergence_summary divergence_of(divergence *d)
{
    divergence_summary s = {0};
    if (d->n == 0) return s;
    qsort(d->kl, d->n, sizeof *d->kl, by_value);
    for (uint32_t i = 0; i < d->n; i++) s.kl_mean += d->kl[i] / d->n;
    for (uint32_t i = 0; i < d->n; i++)
        s.kl_error += (d->kl[i] - s.kl_mean) * (d->kl[i] - s.kl_mean);
    bool known = d->n > 1 && isfinite(s.kl_mean);
    s.kl_error = known ? sqrt(s.kl_error / (d->n - 1) / d->n) : INFINITY;
    s.kl_p99 = d->kl[(uint32_t)((d->n - 1) * 0.99)];
    s.kl_max = d->kl[d->n - 1];
    s.max_abs = d->nonfinite ? INFINITY : d->max_abs;
    s.mean_abs = d->nonfinite ? INFINITY : d->sum_abs / (double)d->n_values;
    s.top1 = (double)d->n_same / d->n;
    s.top1_judged = (double)d->n_judged / d->n;
    return s;
}

void divergence_free(divergence *d)
{
    free(d->kl);
    *d = (divergence){0};
}
