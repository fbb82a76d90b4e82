// Encoders of Q4_K and Q6_K: a search for the block of least squared error. First each sub-block is
// fitted alone, with scales of any value, from several starts. Then scales of a few bits are chosen
// by the error that they give, and the halves that scale them are fitted to the whole block, in
// turn until that gains nothing. All of it is deterministic: sums are taken in a fixed order.
//
// A block is scaled to a greatest magnitude of 1 first, so nothing over- or underflows. NaN counts
// as 0, infinity as the greatest float.
#include "quant/blocks.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "quant/k.h"
#include "quant/quant.h"

enum {
    LANES = 8,    // independent partial sums, which compilers turn into vectors
    N_REFITS = 3, // rounds of choosing scales and fitting what scales them
};

static float sum_lanes(const float lane[LANES])
{
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) +
           ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

// x: [256] divided by its greatest magnitude, which is returned; 0 where all of it is smaller than
// anything that the format can hold.
static float normalize(const float *values, float x[256])
{
    float most = 0;
    for (int i = 0; i < 256; i++) {
        float v = values[i] == values[i] ? values[i] : 0;
        x[i] = v > FLT_MAX ? FLT_MAX : v < -FLT_MAX ? -FLT_MAX : v;
        if (fabsf(x[i]) > most) most = fabsf(x[i]);
    }
    if (most < 0x1p-26f) return 0;
    for (int i = 0; i < 256; i++) x[i] /= most;
    return most;
}

// d in the block's unit to the half that stands for it, finite. The first d is rounded away from
// zero: a smaller one, with scales at their limit, could not reach the values.
static uint16_t scale_half(float d, float unit, bool away)
{
    float real = d * unit;
    if (real > 65504) real = 65504;
    if (real < -65504) real = -65504;
    uint16_t h = quant_f32_to_f16(real);
    if (away && fabsf(half_to_float(h)) < fabsf(real)) h++;
    return h;
}

// Q4_K: value = a * q - b with q from 0 to 15, a = d * scale, b = dmin * min, per 32 values.
typedef struct line {
    float a, b;
} line;

typedef struct sums {
    float q, qq, qx, x;
    float error;
} sums;

// The nearest levels for a line: their squared error and the sums that a fit needs.
static sums line_sums(const float x[32], line l)
{
    float inverse = l.a > FLT_MIN ? 1 / l.a : 0;
    float q_sum[LANES] = {0}, qq[LANES] = {0}, qx[LANES] = {0}, x_sum[LANES] = {0};
    float error[LANES] = {0};
    for (int i = 0; i < 32; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            float v = x[i + k], t = (v + l.b) * inverse + 0.5f;
            t = t > 0 ? t : 0;
            t = t < 15.5f ? t : 15.5f;
            float q = (float)(int)t, e = v + l.b - l.a * q;
            q_sum[k] += q;
            qq[k] += q * q;
            qx[k] += q * v;
            x_sum[k] += v;
            error[k] += e * e;
        }
    }
    return (sums){sum_lanes(q_sum), sum_lanes(qq), sum_lanes(qx), sum_lanes(x_sum),
                  sum_lanes(error)};
}

// The least-squares line for given levels, with a and b not negative.
static line fit_line(const sums *s)
{
    float determinant = 32 * s->qq - s->q * s->q;
    line l = {0, 0};
    if (determinant > 0) {
        l.a = (32 * s->qx - s->q * s->x) / determinant;
        l.b = (s->q * s->qx - s->qq * s->x) / determinant;
    }
    if (l.b < 0 || determinant <= 0) {
        l.b = 0;
        l.a = s->qq > 0 ? s->qx / s->qq : 0;
    }
    if (l.a < 0) l.a = 0;
    return l;
}

static line best_line(const float x[32])
{
    float least = 0, most = x[0];
    for (int i = 0; i < 32; i++) {
        if (x[i] < least) least = x[i];
        if (x[i] > most) most = x[i];
    }
    line best = {0, -least};
    float best_error = line_sums(x, best).error;
    if (most <= least) return best;
    // Starts with 12 to 16 steps over the range: fewer cut the ends, more waste levels.
    for (int start = 0; start < 9; start++) {
        line l = {(most - least) / (12 + 0.5f * (float)start), -least};
        for (int round = 0; round < 3; round++) {
            sums s = line_sums(x, l);
            if (s.error < best_error) {
                best_error = s.error;
                best = l;
            }
            l = fit_line(&s);
        }
    }
    return best;
}

typedef struct block4 {
    uint16_t d_half, dmin_half;
    float d, dmin; // in the block's unit
    uint8_t scale[8], min[8];
    float error;
} block4;

static void choose_4(const float x[32], line wanted, block4 *b, int s)
{
    float inverse_d = b->d > FLT_MIN ? 1 / b->d : 0,
          inverse_m = b->dmin > FLT_MIN ? 1 / b->dmin : 0;
    int middle = round_clamped(wanted.a * inverse_d, 0, 63);
    float best = INFINITY;
    for (int scale = middle - 1; scale <= middle + 1; scale++) {
        if (scale < 0 || scale > 63) continue;
        float a = b->d * (float)scale, offset = wanted.b;
        int tried = -1;
        for (int round = 0; round < 3; round++) {
            int min = round_clamped(offset * inverse_m, 0, 63);
            if (min == tried) break;
            tried = min;
            sums now = line_sums(x, (line){a, b->dmin * (float)min});
            if (now.error < best) {
                best = now.error;
                b->scale[s] = (uint8_t)scale;
                b->min[s] = (uint8_t)min;
            }
            offset = (a * now.q - now.x) / 32; // the best b for these levels
        }
    }
    b->error += best;
}

static void choose_all_4(const float x[256], const line wanted[8], float unit, block4 *b)
{
    b->d = half_to_float(b->d_half) / unit;
    b->dmin = half_to_float(b->dmin_half) / unit;
    b->error = 0;
    for (int s = 0; s < 8; s++) choose_4(x + 32 * s, wanted[s], b, s);
}

// d and dmin that fit the block best with its scales, minima and levels; false when there is none.
static bool refit_4(const float x[256], float unit, block4 *b)
{
    double uu = 0, uv = 0, vv = 0, xu = 0, xv = 0;
    for (int s = 0; s < 8; s++) {
        double scale = b->scale[s], min = b->min[s];
        sums now = line_sums(x + 32 * s, (line){b->d * (float)scale, b->dmin * (float)min});
        uu += scale * scale * (double)now.qq;
        uv += scale * min * (double)now.q;
        vv += min * min * 32;
        xu += scale * (double)now.qx;
        xv += min * (double)now.x;
    }
    // x = d u - dmin v
    double determinant = uu * vv - uv * uv, d = 0, dmin = 0;
    if (determinant > 1e-9 * uu * vv) {
        d = (xu * vv - xv * uv) / determinant;
        dmin = (xu * uv - xv * uu) / determinant;
    } else if (uu > 0) {
        d = xu / uu;
    } else if (vv > 0) {
        dmin = -xv / vv;
    }
    if (d < 0 || dmin < 0) return false;
    b->d_half = scale_half((float)d, unit, false);
    b->dmin_half = scale_half((float)dmin, unit, false);
    return true;
}

static block4 best_block_4(const float x[256], float unit)
{
    line wanted[8];
    float most_a = 0, most_b = 0;
    for (int s = 0; s < 8; s++) {
        wanted[s] = best_line(x + 32 * s);
        if (wanted[s].a > most_a) most_a = wanted[s].a;
        if (wanted[s].b > most_b) most_b = wanted[s].b;
    }
    block4 best = {.error = INFINITY}, now = best;
    now.d_half = scale_half(most_a / 63, unit, true);
    now.dmin_half = scale_half(most_b / 63, unit, true);
    for (int round = 0; round < N_REFITS; round++) {
        choose_all_4(x, wanted, unit, &now);
        if (!(now.error < best.error)) break;
        best = now;
        if (!refit_4(x, unit, &now)) break;
    }
    return best;
}

static void store_q4_k(const float x[256], const block4 *b, uint8_t *p)
{
    store_u16(p, b->d_half);
    store_u16(p + 2, b->dmin_half);
    k_pack_scale_min(b->scale, b->min, p + 4);
    uint8_t q[256];
    for (int i = 0; i < 256; i++) {
        float a = b->d * (float)b->scale[i / 32], offset = b->dmin * (float)b->min[i / 32];
        q[i] = (uint8_t)round_clamped(a > FLT_MIN ? (x[i] + offset) / a : 0, 0, 15);
    }
    for (int i = 0; i < 128; i++) {
        const uint8_t *pair = q + 64 * (i / 32) + i % 32;
        p[16 + i] = (uint8_t)(pair[0] | pair[32] << 4);
    }
}

void encode_q4_k(const float *values, void *blocks, size_t n)
{
    uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 256, p += 144) {
        float x[256], unit = normalize(values + i, x);
        if (unit > 0) {
            block4 b = best_block_4(x, unit);
            store_q4_k(x, &b, p);
        } else {
            memset(p, 0, 144);
        }
    }
}

// Q6_K: value = a * q with q from -32 to 31, a = d * scale, per 16 values.
typedef struct sums6 {
    float qq, qx;
    float error;
} sums6;

static sums6 scale_sums(const float x[16], float a)
{
    float inverse = fabsf(a) > FLT_MIN ? 1 / a : 0;
    float qq[LANES] = {0}, qx[LANES] = {0}, error[LANES] = {0};
    for (int i = 0; i < 16; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            float v = x[i + k], t = v * inverse + 32.5f;
            t = t > 0 ? t : 0;
            t = t < 63.5f ? t : 63.5f;
            float q = (float)((int)t - 32), e = v - a * q;
            qq[k] += q * q;
            qx[k] += q * v;
            error[k] += e * e;
        }
    }
    return (sums6){sum_lanes(qq), sum_lanes(qx), sum_lanes(error)};
}

static float best_scale(const float x[16])
{
    float most = 0, best = 0, best_error = INFINITY;
    for (int i = 0; i < 16; i++) {
        if (fabsf(x[i]) > fabsf(most)) most = x[i];
    }
    if (most == 0) return 0;
    // Where the greatest value lies: first on the levels' ends, which are exact for plain data.
    static const float starts[] = {-32, 31, -31, 30, -30, 29, -33, 32};
    for (size_t start = 0; start < sizeof starts / sizeof starts[0]; start++) {
        float a = most / starts[start];
        for (int round = 0; round < 2; round++) {
            sums6 s = scale_sums(x, a);
            if (s.error < best_error) {
                best_error = s.error;
                best = a;
            }
            if (!(s.qq > 0)) break;
            a = s.qx / s.qq;
        }
    }
    return best;
}

typedef struct block6 {
    uint16_t d_half;
    float d; // in the block's unit
    int8_t scale[16];
    float error;
} block6;

static void choose_6(const float x[16], float wanted, block6 *b, int s)
{
    float inverse = fabsf(b->d) > FLT_MIN ? 1 / b->d : 0, best = INFINITY;
    int middle = round_clamped(wanted * inverse, -128, 127);
    for (int scale = middle - 1; scale <= middle + 1; scale++) {
        if (scale < -128 || scale > 127) continue;
        float error = scale_sums(x, b->d * (float)scale).error;
        if (!(error < best)) continue;
        best = error;
        b->scale[s] = (int8_t)scale;
    }
    b->error += best;
}

// Chooses the scales for d_half, then gives the d that fits the block best with them.
static float choose_all_6(const float x[256], const float wanted[16], float unit, block6 *b)
{
    double uu = 0, xu = 0;
    b->d = half_to_float(b->d_half) / unit;
    b->error = 0;
    for (int s = 0; s < 16; s++) {
        choose_6(x + 16 * s, wanted[s], b, s);
        sums6 now = scale_sums(x + 16 * s, b->d * (float)b->scale[s]);
        uu += (double)b->scale[s] * (double)b->scale[s] * (double)now.qq;
        xu += (double)b->scale[s] * (double)now.qx;
    }
    return uu > 0 ? (float)(xu / uu) : 0;
}

static block6 best_block_6(const float x[256], float unit)
{
    float wanted[16], most = 0;
    for (int s = 0; s < 16; s++) {
        wanted[s] = best_scale(x + 16 * s);
        if (fabsf(wanted[s]) > fabsf(most)) most = wanted[s];
    }
    block6 best = {.error = INFINITY}, now = best;
    float d = most / -128;
    for (int round = 0; round < N_REFITS && d != 0; round++) {
        now.d_half = scale_half(d, unit, round == 0);
        d = choose_all_6(x, wanted, unit, &now);
        if (!(now.error < best.error)) break;
        best = now;
    }
    return best;
}

static void store_q6_k(const float x[256], const block6 *b, uint8_t *p)
{
    uint8_t q[256];
    for (int i = 0; i < 256; i++) {
        float a = b->d * (float)b->scale[i / 16];
        q[i] = (uint8_t)(round_clamped(fabsf(a) > FLT_MIN ? x[i] / a : 0, -32, 31) + 32);
    }
    for (int half = 0; half < 2; half++) {
        const uint8_t *h = q + 128 * half;
        for (int j = 0; j < 64; j++) {
            p[64 * half + j] = (uint8_t)((h[j] & 15) | (h[64 + j] & 15) << 4);
        }
        for (int j = 0; j < 32; j++) {
            p[128 + 32 * half + j] = (uint8_t)(h[j] >> 4 | (h[32 + j] >> 4) << 2 |
                                               (h[64 + j] >> 4) << 4 | (h[96 + j] >> 4) << 6);
        }
    }
    for (int s = 0; s < 16; s++) p[192 + s] = (uint8_t)b->scale[s];
    store_u16(p + 208, b->d_half);
}

void encode_q6_k(const float *values, void *blocks, size_t n)
{
    uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += 256, p += 210) {
        float x[256], unit = normalize(values + i, x);
        if (unit > 0) {
            block6 b = best_block_6(x, unit);
            store_q6_k(x, &b, p);
        } else {
            memset(p, 0, 210);
        }
    }
}
