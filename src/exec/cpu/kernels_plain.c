// Kernels in plain C, for every processor.
#include "exec/cpu/kernels.h"

#include <math.h>
#include <string.h>

// ---- vf: 16 floats ----------------------------------------------------------------------------

// Vectors of the compilers' own, of the size that every processor has: they become its instructions
// or plain loops.
typedef float v4 __attribute__((vector_size(16)));
typedef int32_t i4 __attribute__((vector_size(16)));

typedef struct vf {
    v4 v[4];
} vf;

// Statement `how` for each i of four: y.v[i] from a.v[i] and the like.
#define EACH(how)                                                                                  \
    vf y;                                                                                          \
    for (int i = 0; i < 4; i++) y.v[i] = (how);                                                    \
    return y

static inline v4 same4(float x)
{
    return (v4){x, x, x, x};
}

// a where the mask's bits are set, else b
static inline v4 choose(i4 mask, v4 a, v4 b)
{
    return (v4)(((i4)a & mask) | ((i4)b & ~mask));
}

// The nearest whole number, for |a| < 2^22; NaN stays NaN. Adding 1.5 * 2^23 leaves no bits for a
// fraction.
static inline v4 round4(v4 a)
{
    v4 big = same4(0x1.8p23f);
    return a + big - big;
}

// A whole number as an integer: it lies in the low bits of a + 1.5 * 2^23.
static inline i4 int4(v4 a)
{
    return (i4)(a + same4(0x1.8p23f)) - 0x4b400000;
}

static inline vf vf_load(const float *p)
{
    vf x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline void vf_store(float *p, vf x)
{
    memcpy(p, &x, sizeof x);
}

static inline vf vf_set1(float x)
{
    EACH(same4(x));
}

static inline vf vf_add(vf a, vf b)
{
    EACH(a.v[i] + b.v[i]);
}

static inline vf vf_sub(vf a, vf b)
{
    EACH(a.v[i] - b.v[i]);
}

static inline vf vf_mul(vf a, vf b)
{
    EACH(a.v[i] * b.v[i]);
}

static inline vf vf_div(vf a, vf b)
{
    EACH(a.v[i] / b.v[i]);
}

static inline vf vf_fma(vf a, vf b, vf c)
{
    EACH(a.v[i] * b.v[i] + c.v[i]);
}

static inline vf vf_min(vf a, vf b)
{
    EACH(choose(a.v[i] < b.v[i], a.v[i], b.v[i]));
}

static inline vf vf_max(vf a, vf b)
{
    EACH(choose(a.v[i] > b.v[i], a.v[i], b.v[i]));
}

static inline vf vf_abs(vf a)
{
    EACH((v4)((i4)a.v[i] & INT32_MAX));
}

static inline vf vf_copy_sign(vf a, vf sign) // a >= 0
{
    EACH((v4)((i4)a.v[i] | ((i4)sign.v[i] & INT32_MIN)));
}

static inline vf vf_floor(vf a)
{
    EACH(round4(a.v[i]) - choose(round4(a.v[i]) > a.v[i], same4(1), same4(0)));
}

static inline vf vf_round(vf a)
{
    EACH(round4(a.v[i]));
}

static inline vf vf_zero_below(vf x, float limit, vf z)
{
    EACH(choose(x.v[i] < same4(limit), same4(0), z.v[i]));
}

// 2^a for whole a in [-126, 127]; NaN gives any number
static inline vf vf_pow2(vf a)
{
    EACH((v4)((int4(a.v[i]) + 127) << 23));
}

// The lanes' sum, in a fixed order.
static inline float vf_sum(vf a)
{
    float v[CPU_LANES];
    vf_store(v, a);
    for (int n = CPU_LANES / 2; n > 0; n /= 2) {
        for (int i = 0; i < n; i++) v[i] += v[i + n];
    }
    return v[0];
}

static inline float vf_greatest(vf a)
{
    float v[CPU_LANES], most;
    vf_store(v, a);
    most = v[0];
    for (int i = 1; i < CPU_LANES; i++) most = v[i] > most ? v[i] : most;
    return most;
}

// Lane i: the sum of a[i].
static inline vf vf_sums(const vf a[CPU_LANES])
{
    float v[CPU_LANES];
    for (int i = 0; i < CPU_LANES; i++) v[i] = vf_sum(a[i]);
    return vf_load(v);
}

static inline vf vf_from_half(const uint8_t *p)
{
    uint16_t half[CPU_LANES];
    float v[CPU_LANES];
    memcpy(half, p, sizeof half);
    for (int i = 0; i < CPU_LANES; i++) v[i] = quant_f16_to_f32(half[i]);
    return vf_load(v);
}

static inline void vf_to_half(uint16_t *half, vf x)
{
    float v[CPU_LANES];
    vf_store(v, x);
    for (int i = 0; i < CPU_LANES; i++) half[i] = quant_f32_to_f16(v[i]);
}

static inline float half_rounded(float x)
{
    return quant_f16_to_f32(quant_f32_to_f16(x));
}

static inline vf vf_from_u8(const uint8_t *p)
{
    float v[CPU_LANES];
    for (int i = 0; i < CPU_LANES; i++) v[i] = (float)p[i];
    return vf_load(v);
}

static inline vf vf_from_i8(const int8_t *p)
{
    float v[CPU_LANES];
    for (int i = 0; i < CPU_LANES; i++) v[i] = (float)p[i];
    return vf_load(v);
}

static inline void vf_to_i8(int8_t *p, vf x)
{
    for (int i = 0; i < CPU_LANES; i++) p[i] = (int8_t)int4(x.v[i / 4])[i % 4];
}

// Byte t of each of 16 groups of four bytes.
static inline vf vf_from_quads(const uint8_t *p, int t)
{
    float v[CPU_LANES];
    for (int i = 0; i < CPU_LANES; i++) v[i] = (float)p[4 * i + t];
    return vf_load(v);
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
    for (uint32_t r = 0; r < n_rows; r++, acc += CPU_TILE_COLS) {
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

enum { ROWS_F32 = 4, REGISTER_BYTES = 16 };
#include "exec/cpu/kernels_body.h"

const cpu_kernels cpu_plain = CPU_KERNELS("plain", "plain C");
