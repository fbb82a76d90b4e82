// Kernels for AVX2 with FMA and F16C.
#include "exec/cpu/kernels.h"

#if defined(__AVX2__)

#include <immintrin.h>
#include <string.h>

// ---- vf: 16 floats in two registers -----------------------------------------------------------

typedef struct vf {
    __m256 a, b; // lanes 0-7, 8-15
} vf;

static inline vf vf_load(const float *p)
{
    return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

static inline void vf_store(float *p, vf x)
{
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}

static inline vf vf_set1(float x)
{
    return (vf){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}

static inline vf vf_add(vf x, vf y)
{
    return (vf){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}

static inline vf vf_sub(vf x, vf y)
{
    return (vf){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}

static inline vf vf_mul(vf x, vf y)
{
    return (vf){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}

static inline vf vf_div(vf x, vf y)
{
    return (vf){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}

static inline vf vf_fma(vf x, vf y, vf z)
{
    return (vf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}

static inline vf vf_min(vf x, vf y)
{
    return (vf){_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}

static inline vf vf_max(vf x, vf y)
{
    return (vf){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}

static inline vf vf_abs(vf x)
{
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (vf){_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}

static inline vf vf_copy_sign(vf x, vf y) // x >= 0
{
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (vf){_mm256_or_ps(x.a, _mm256_and_ps(sign, y.a)),
                _mm256_or_ps(x.b, _mm256_and_ps(sign, y.b))};
}

static inline vf vf_floor(vf x)
{
    return (vf){_mm256_floor_ps(x.a), _mm256_floor_ps(x.b)};
}

static inline vf vf_round(vf x)
{
    return (vf){_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}

static inline vf vf_zero_below(vf x, float limit, vf y)
{
    __m256 l = _mm256_set1_ps(limit);
    return (vf){_mm256_andnot_ps(_mm256_cmp_ps(x.a, l, _CMP_LT_OQ), y.a),
                _mm256_andnot_ps(_mm256_cmp_ps(x.b, l, _CMP_LT_OQ), y.b)};
}

static inline __m256 pow2_8(__m256 x)
{
    __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(x), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}

// 2^x for whole x in [-126, 127]; NaN gives any number
static inline vf vf_pow2(vf x)
{
    return (vf){pow2_8(x.a), pow2_8(x.b)};
}

static inline float sum_8(__m256 x)
{
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}

// The lanes' sum, in a fixed order.
static inline float vf_sum(vf x)
{
    return sum_8(_mm256_add_ps(x.a, x.b));
}

static inline float vf_greatest(vf x)
{
    __m256 y = _mm256_max_ps(x.a, x.b);
    __m128 z = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_max_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_max_ss(z, _mm_movehdup_ps(z)));
}

// Lane i: the sum of x[i], for eight of them.
static inline __m256 sums_8(const vf x[8])
{
    __m256 y[8];
    for (int i = 0; i < 8; i++) y[i] = _mm256_add_ps(x[i].a, x[i].b);
    __m256 low = _mm256_hadd_ps(_mm256_hadd_ps(y[0], y[1]), _mm256_hadd_ps(y[2], y[3]));
    __m256 high = _mm256_hadd_ps(_mm256_hadd_ps(y[4], y[5]), _mm256_hadd_ps(y[6], y[7]));
    return _mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20),
                         _mm256_permute2f128_ps(low, high, 0x31));
}

static inline vf vf_sums(const vf x[CPU_LANES])
{
    return (vf){sums_8(x), sums_8(x + 8)};
}

static inline vf vf_from_half(const uint8_t *p)
{
    return (vf){_mm256_cvtph_ps(_mm_loadu_si128((const void *)p)),
                _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p + 16)))};
}

static inline void vf_to_half(uint16_t *half, vf x)
{
    _mm_storeu_si128((void *)half, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((void *)(half + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}

static inline float half_rounded(float x)
{
    __m128i half = _mm_cvtps_ph(_mm_set_ss(x), _MM_FROUND_TO_NEAREST_INT);
    return _mm_cvtss_f32(_mm_cvtph_ps(half));
}

static inline vf vf_from_u8(const uint8_t *p)
{
    __m128i q = _mm_loadu_si128((const void *)p);
    return (vf){_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(q)),
                _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(q, 8)))};
}

static inline vf vf_from_i8(const int8_t *p)
{
    __m128i q = _mm_loadu_si128((const void *)p);
    return (vf){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)),
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(q, 8)))};
}

static inline void vf_to_i8(int8_t *p, vf x)
{
    __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b));
    words = _mm256_permute4x64_epi64(words, 0xd8);
    __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((void *)p, bytes);
}

// Byte t of each of 16 groups of four bytes.
static inline vf vf_from_quads(const uint8_t *p, int t)
{
    __m256i low = _mm256_loadu_si256((const void *)p);
    __m256i high = _mm256_loadu_si256((const void *)(p + 32));
    __m256i byte = _mm256_set1_epi32(255);
    low = _mm256_and_si256(_mm256_srli_epi32(low, 8 * t), byte);
    high = _mm256_and_si256(_mm256_srli_epi32(high, 8 * t), byte);
    return (vf){_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)};
}

static inline void look_up(const uint8_t *levels, uint8_t *q, uint32_t n)
{
    __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)levels));
    for (uint32_t i = 0; i < n; i += 32) {
        __m256i index = _mm256_loadu_si256((const void *)(q + i));
        _mm256_storeu_si256((void *)(q + i), _mm256_shuffle_epi8(table, index));
    }
}

// ---- the integer product ----------------------------------------------------------------------

enum { ROWS_F32 = 4, ROWS_Q8 = 4, REGISTER_BYTES = 32 };

static inline __m256i load_x(const int8_t *q)
{
    int32_t quad;
    memcpy(&quad, q, sizeof quad);
    return _mm256_set1_epi32(quad);
}

// Adds w·x over four columns to each of eight lanes. `wide`: bytes of w above 127 would overflow
// the 16-bit sums of maddubs, so w is taken as a signed byte (w - 128), whose sign moves to x.
static inline __attribute__((always_inline)) __m256i dot_quad(__m256i dot, __m256i w, __m256i w_abs,
                                                              __m256i x, bool wide)
{
    __m256i pairs =
        wide ? _mm256_maddubs_epi16(w_abs, _mm256_sign_epi8(x, w)) : _mm256_maddubs_epi16(w, x);
    return _mm256_add_epi32(dot, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

// Lanes [8 side, 8 side + 8) of a panel times `rows` rows of x.
static inline __attribute__((always_inline)) void
dot_rows(const cpu_panel *p, cpu_q8 x, int side, float *acc, const int rows, bool wide, bool halves)
{
    const int n = halves ? 2 : 1, zero = wide ? p->zero - 128 : p->zero;
    const uint8_t *w_at = p->q + 32 * side;
    __m256 sum[ROWS_Q8];
    for (int r = 0; r < rows; r++) sum[r] = _mm256_loadu_ps(acc + r * CPU_TILE_COLS);
    for (uint32_t s = 0; s < p->n_blocks * (uint32_t)n; s++) {
        uint32_t b = s / (uint32_t)n;
        const int8_t *q = x.q + s * (32u / (uint32_t)n);
        int total[ROWS_Q8];
        __m256i dot[ROWS_Q8];
        for (int r = 0; r < rows; r++) {
            const int32_t *at =
                (const int32_t *)(const void *)((const char *)x.sum + (size_t)r * x.stride);
            total[r] = halves ? at[s] : at[2 * b] + at[2 * b + 1];
            dot[r] = _mm256_set1_epi32(-zero * total[r]);
        }
        for (int quad = 0; quad < 8 / n; quad++, w_at += 64, q += 4) {
            __m256i w = _mm256_loadu_si256((const void *)w_at), w_abs = w;
            if (wide) {
                w = _mm256_xor_si256(w, _mm256_set1_epi8(-128));
                w_abs = _mm256_abs_epi8(w);
            }
            for (int r = 0; r < rows; r++) {
                dot[r] = dot_quad(dot[r], w, w_abs, load_x(q + (size_t)r * x.stride), wide);
            }
        }
        __m256 scale = _mm256_loadu_ps(p->scale[s] + 8 * side);
        for (int r = 0; r < rows; r++) {
            float d;
            memcpy(&d, (const char *)(x.d + b) + (size_t)r * x.stride, sizeof d);
            __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(dot[r]), _mm256_set1_ps(d));
            sum[r] = _mm256_fmadd_ps(scaled, scale, sum[r]);
            if (!p->has_min) continue;
            __m256 part = _mm256_set1_ps((float)total[r] * d);
            sum[r] = _mm256_fmadd_ps(part, _mm256_loadu_ps(p->min[s] + 8 * side), sum[r]);
        }
    }
    for (int r = 0; r < rows; r++) _mm256_storeu_ps(acc + r * CPU_TILE_COLS, sum[r]);
}

static inline __attribute__((always_inline)) void
dot_all(const cpu_panel *p, cpu_q8 x, uint32_t n_rows, float *acc, bool wide, bool halves)
{
    for (uint32_t rows; n_rows > 0; n_rows -= rows) {
        rows = n_rows >= 4 ? 4 : n_rows >= 2 ? 2 : 1;
        for (int side = 0; side < 2; side++) {
            if (rows == 4) dot_rows(p, x, side, acc + 8 * side, 4, wide, halves);
            if (rows == 2) dot_rows(p, x, side, acc + 8 * side, 2, wide, halves);
            if (rows == 1) dot_rows(p, x, side, acc + 8 * side, 1, wide, halves);
        }
        x = cpu_q8_moved(x, rows, 0);
        acc += rows * CPU_TILE_COLS;
    }
}

static void dot_q8(const cpu_panel *p, cpu_q8 x, uint32_t n_rows, float *acc)
{
    if (p->wide) {
        dot_all(p, x, n_rows, acc, true, false);
    } else if (p->halves) {
        dot_all(p, x, n_rows, acc, false, true);
    } else {
        dot_all(p, x, n_rows, acc, false, false);
    }
}

#include "exec/cpu/kernels_body.h"

const cpu_kernels cpu_avx2 = CPU_KERNELS("avx2", "AVX2");

#endif
