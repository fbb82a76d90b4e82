// Kernels in plain C, for every processor.
#include "exec/cpu/kernels.h"

#include <math.h>
#include <string.h>

// ---- vf: 16 floats ----------------------------------------------------------------------------

typedef struct vf {
    float v[CPU_LANES];
} vf;

#define EACH_LANE(expression)                                                                      \
    vf y;                                                                                          \
    for (int i = 0; i < CPU_LANES; i++) y.v[i] = (expression);                                     \
    return y

static inline vf vf_load(const float *p)
{
    EACH_LANE(p[i]);
}

static inline void vf_store(float *p, vf x)
{
    memcpy(p, x.v, sizeof x.v);
}

static inline vf vf_set1(float x)
{
    EACH_LANE(x);
}

static inline vf vf_add(vf a, vf b)
{
    EACH_LANE(a.v[i] + b.v[i]);
}

static inline vf vf_sub(vf a, vf b)
{
    EACH_LANE(a.v[i] - b.v[i]);
}

static inline vf vf_mul(vf a, vf b)
{
    EACH_LANE(a.v[i] * b.v[i]);
}

static inline vf vf_div(vf a, vf b)
{
    EACH_LANE(a.v[i] / b.v[i]);
}

static inline vf vf_fma(vf a, vf b, vf c)
{
    EACH_LANE(a.v[i] * b.v[i] + c.v[i]);
}

static inline vf vf_min(vf a, vf b)
{
    EACH_LANE(a.v[i] < b.v[i] ? a.v[i] : b.v[i]);
}

static inline vf vf_max(vf a, vf b)
{
    EACH_LANE(a.v[i] > b.v[i] ? a.v[i] : b.v[i]);
}

static inline vf vf_abs(vf a)
{
    EACH_LANE(fabsf(a.v[i]));
}

static inline vf vf_copy_sign(vf a, vf sign)
{
    EACH_LANE(copysignf(a.v[i], sign.v[i]));
}

static inline vf vf_floor(vf a)
{
    EACH_LANE(floorf(a.v[i]));
}

static inline vf vf_round(vf a)
{
    EACH_LANE(floorf(a.v[i] + 0.5f));
}

static inline vf vf_zero_below(vf x, float limit, vf y)
{
    for (int i = 0; i < CPU_LANES; i++) y.v[i] = x.v[i] < limit ? 0 : y.v[i];
    return y;
}

// 2^a for whole a in [-126, 127]; NaN gives any number
static inline vf vf_pow2(vf a)
{
    vf y;
    for (int i = 0; i < CPU_LANES; i++) {
        int exponent = a.v[i] > -127 && a.v[i] < 128 ? (int)a.v[i] : 0;
        uint32_t bits = (uint32_t)(exponent + 127) << 23;
        memcpy(&y.v[i], &bits, sizeof bits);
    }
    return y;
}

// The lanes' sum, in a fixed order.
static inline float vf_sum(vf a)
{
    for (int n = CPU_LANES / 2; n > 0; n /= 2) {
        for (int i = 0; i < n; i++) a.v[i] += a.v[i + n];
    }
    return a.v[0];
}

static inline float vf_greatest(vf a)
{
    float most = a.v[0];
    for (int i = 1; i < CPU_LANES; i++) most = a.v[i] > most ? a.v[i] : most;
    return most;
}

// Lane i: the sum of a[i].
static inline vf vf_sums(const vf a[CPU_LANES])
{
    EACH_LANE(vf_sum(a[i]));
}

static inline vf vf_from_half(const uint8_t *p)
{
    uint16_t half[CPU_LANES];
    memcpy(half, p, sizeof half);
    EACH_LANE(quant_f16_to_f32(half[i]));
}

static inline void vf_to_half(uint16_t *half, vf x)
{
    for (int i = 0; i < CPU_LANES; i++) half[i] = quant_f32_to_f16(x.v[i]);
}

static inline float half_rounded(float x)
{
    return quant_f16_to_f32(quant_f32_to_f16(x));
}

static inline vf vf_from_u8(const uint8_t *p)
{
    EACH_LANE((float)p[i]);
}

static inline vf vf_from_i8(const int8_t *p)
{
    EACH_LANE((float)p[i]);
}

static inline void vf_to_i8(int8_t *p, vf x)
{
    for (int i = 0; i < CPU_LANES; i++) p[i] = (int8_t)x.v[i];
}

// Byte t of each of 16 groups of four bytes.
static inline vf vf_from_quads(const uint8_t *p, int t)
{
    EACH_LANE((float)p[4 * i + t]);
}

static inline void look_up(const uint8_t *levels, uint8_t *q, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) q[i] = levels[q[i]];
}

// ---- the integer product ----------------------------------------------------------------------

// quads: how many groups of four columns from q on
static void dot_quads(const uint8_t *w, const int8_t *q, int quads, int32_t dot[CPU_LANES])
{
    for (; quads > 0; quads--, w += 4 * CPU_LANES, q += 4) {
        for (int i = 0; i < CPU_LANES; i++) {
            dot[i] +=
                w[4 * i] * q[0] + w[4 * i + 1] * q[1] + w[4 * i + 2] * q[2] + w[4 * i + 3] * q[3];
        }
    }
}

static void dot_q8(const cpu_panel *p, cpu_q8 x, uint32_t n_rows, float *acc)
{
    int n = p->halves ? 2 : 1; // scales a block
    for (uint32_t r = 0; r < n_rows; r++, acc += CPU_LANES) {
        const int8_t *q = (const int8_t *)((const char *)x.q + r * x.stride);
        const float *d = (const float *)(const void *)((const char *)x.d + r * x.stride);
        const int32_t *sum = (const int32_t *)(const void *)((const char *)x.sum + r * x.stride);
        for (uint32_t s = 0; s < p->n_blocks * (uint32_t)n; s++) {
            uint32_t b = s / (uint32_t)n;
            int total = n == 2 ? sum[s] : sum[2 * b] + sum[2 * b + 1];
            int32_t dot[CPU_LANES];
            for (int i = 0; i < CPU_LANES; i++) dot[i] = -p->zero * total;
            dot_quads(p->q + s * (512u / (uint32_t)n), q + s * (32u / (uint32_t)n), 8 / n, dot);
            for (int i = 0; i < CPU_LANES; i++) acc[i] += (float)dot[i] * d[b] * p->scale[s][i];
            if (!p->has_min) continue;
            float scaled = (float)total * d[b];
            for (int i = 0; i < CPU_LANES; i++) acc[i] += scaled * p->min[s][i];
        }
    }
}

enum { ROWS_F32 = 4, ROWS_WEIGH = 2 };
#include "exec/cpu/kernels_body.h"

const cpu_kernels cpu_plain = CPU_KERNELS("plain", "plain C");
