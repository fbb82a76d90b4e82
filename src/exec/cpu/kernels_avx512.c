// Kernels for AVX-512 with VNNI (Cascade Lake, Ice Lake, Zen 4 and later).
#include "exec/cpu/kernels.h"

#if defined(__AVX512VNNI__)

#include <immintrin.h>
#include <string.h>

// ---- vf: 16 floats in a register --------------------------------------------------------------

typedef __m512 vf;

static inline vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline void vf_store(float *p, vf x)
{
    _mm512_storeu_ps(p, x);
}

static inline vf vf_set1(float x)
{
    return _mm512_set1_ps(x);
}

static inline vf vf_add(vf x, vf y)
{
    return _mm512_add_ps(x, y);
}

static inline vf vf_sub(vf x, vf y)
{
    return _mm512_sub_ps(x, y);
}

static inline vf vf_mul(vf x, vf y)
{
    return _mm512_mul_ps(x, y);
}

static inline vf vf_div(vf x, vf y)
{
    return _mm512_div_ps(x, y);
}

static inline vf vf_fma(vf x, vf y, vf z)
{
    return _mm512_fmadd_ps(x, y, z);
}

static inline vf vf_min(vf x, vf y)
{
    return _mm512_min_ps(x, y);
}

static inline vf vf_max(vf x, vf y)
{
    return _mm512_max_ps(x, y);
}

static inline vf vf_abs(vf x)
{
    return _mm512_abs_ps(x);
}

static inline vf vf_copy_sign(vf x, vf y) // x >= 0
{
    return _mm512_or_ps(x, _mm512_and_ps(y, _mm512_set1_ps(-0.0f)));
}

static inline vf vf_floor(vf x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

static inline vf vf_round(vf x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline vf vf_zero_below(vf x, float limit, vf y)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(limit), _CMP_NLT_UQ), y);
}

// 2^x for whole x in [-126, 127]; NaN gives any number
static inline vf vf_pow2(vf x)
{
    __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(x), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23));
}

// The lanes' sum, in a fixed order.
static inline float vf_sum(vf x)
{
    __m256 y = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 z = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_add_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_add_ss(z, _mm_movehdup_ps(z)));
}

static inline float vf_greatest(vf x)
{
    __m256 y = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 z = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_max_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_max_ss(z, _mm_movehdup_ps(z)));
}

// Lane i: the sum of x[i], for eight of them.
static inline __m256 sums_8(const vf x[8])
{
    __m256 y[8];
    for (int i = 0; i < 8; i++) {
        y[i] = _mm256_add_ps(_mm512_castps512_ps256(x[i]), _mm512_extractf32x8_ps(x[i], 1));
    }
    __m256 low = _mm256_hadd_ps(_mm256_hadd_ps(y[0], y[1]), _mm256_hadd_ps(y[2], y[3]));
    __m256 high = _mm256_hadd_ps(_mm256_hadd_ps(y[4], y[5]), _mm256_hadd_ps(y[6], y[7]));
    return _mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20),
                         _mm256_permute2f128_ps(low, high, 0x31));
}

static inline vf vf_sums(const vf x[CPU_LANES])
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(sums_8(x)), sums_8(x + 8), 1);
}

static inline vf vf_from_half(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}

static inline void vf_to_half(uint16_t *half, vf x)
{
    _mm256_storeu_si256((void *)half, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

static inline float half_rounded(float x)
{
    __m128i half = _mm_cvtps_ph(_mm_set_ss(x), _MM_FROUND_TO_NEAREST_INT);
    return _mm_cvtss_f32(_mm_cvtph_ps(half));
}

static inline vf vf_from_u8(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p)));
}

static inline vf vf_from_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p)));
}

static inline void vf_to_i8(int8_t *p, vf x)
{
    _mm_storeu_si128((void *)p, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(x)));
}

// Byte t of each of 16 groups of four bytes.
static inline vf vf_from_quads(const uint8_t *p, int t)
{
    __m512i quads = _mm512_srli_epi32(_mm512_loadu_si512(p), (unsigned)(8 * t));
    return _mm512_cvtepi32_ps(_mm512_and_si512(quads, _mm512_set1_epi32(255)));
}

static inline void look_up(const uint8_t *levels, uint8_t *q, uint32_t n)
{
    __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)levels));
    for (uint32_t i = 0; i < n; i += 64) {
        _mm512_storeu_si512(q + i, _mm512_shuffle_epi8(table, _mm512_loadu_si512(q + i)));
    }
}

// ---- the integer product ----------------------------------------------------------------------

// Bytes ahead: the processor's own prefetching stops at the end of each page of 4096.
enum { ROWS_F32 = 8, ROWS_Q8 = 8, REGISTER_BYTES = 64, PREFETCH = 3072 };

static inline __m512i load_x(const int8_t *q)
{
    int32_t quad;
    memcpy(&quad, q, sizeof quad);
    return _mm512_set1_epi32(quad);
}

// A panel times `rows` rows of x.
static inline __attribute__((always_inline)) void dot_rows(const cpu_panel *p, cpu_q8 x, float *acc,
                                                           const int rows, const bool halves)
{
    const int n = halves ? 2 : 1;
    const uint8_t *w_at = p->q;
    __m512 sum[ROWS_Q8];
    for (int r = 0; r < rows; r++) sum[r] = _mm512_loadu_ps(acc + r * CPU_TILE_COLS);
    for (uint32_t s = 0; s < p->n_blocks * (uint32_t)n; s++) {
        uint32_t b = s / (uint32_t)n;
        const int8_t *q = x.q + s * (32u / (uint32_t)n);
        int total[ROWS_Q8];
        __m512i dot[ROWS_Q8];
        for (int r = 0; r < rows; r++) {
            const int32_t *at =
                (const int32_t *)(const void *)((const char *)x.sum + (size_t)r * x.stride);
            total[r] = halves ? at[s] : at[2 * b] + at[2 * b + 1];
            dot[r] = _mm512_set1_epi32(-p->zero * total[r]);
        }
        for (int quad = 0; quad < 8 / n; quad++, w_at += 64, q += 4) {
            __m512i w = _mm512_loadu_si512(w_at);
            if (rows < ROWS_Q8) _mm_prefetch((const char *)w_at + PREFETCH, _MM_HINT_T0);
            for (int r = 0; r < rows; r++) {
                dot[r] = _mm512_dpbusd_epi32(dot[r], w, load_x(q + (size_t)r * x.stride));
            }
        }
        __m512 scale = _mm512_loadu_ps(p->scale[s]);
        for (int r = 0; r < rows; r++) {
            float d;
            memcpy(&d, (const char *)(x.d + b) + (size_t)r * x.stride, sizeof d);
            __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(dot[r]), _mm512_set1_ps(d));
            sum[r] = _mm512_fmadd_ps(scaled, scale, sum[r]);
            if (!p->has_min) continue;
            __m512 part = _mm512_set1_ps((float)total[r] * d);
            sum[r] = _mm512_fmadd_ps(part, _mm512_loadu_ps(p->min[s]), sum[r]);
        }
    }
    for (int r = 0; r < rows; r++) _mm512_storeu_ps(acc + r * CPU_TILE_COLS, sum[r]);
}

static inline __attribute__((always_inline)) void dot_all(const cpu_panel *p, cpu_q8 x,
                                                          uint32_t n_rows, float *acc, bool halves)
{
    for (uint32_t rows; n_rows > 0; n_rows -= rows) {
        rows = n_rows >= 8 ? 8 : n_rows >= 4 ? 4 : n_rows >= 2 ? 2 : 1;
        if (rows == 8) dot_rows(p, x, acc, 8, halves);
        if (rows == 4) dot_rows(p, x, acc, 4, halves);
        if (rows == 2) dot_rows(p, x, acc, 2, halves);
        if (rows == 1) dot_rows(p, x, acc, 1, halves);
        x = cpu_q8_moved(x, rows, 0);
        acc += rows * CPU_TILE_COLS;
    }
}

static void dot_q8(const cpu_panel *p, cpu_q8 x, uint32_t n_rows, float *acc)
{
    if (p->halves) {
        dot_all(p, x, n_rows, acc, true);
    } else {
        dot_all(p, x, n_rows, acc, false);
    }
}

#include "exec/cpu/kernels_body.h"

const cpu_kernels cpu_avx512 = CPU_KERNELS("avx512", "AVX-512 VNNI");

#endif
