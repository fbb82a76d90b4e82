// The kernels that are written once and compiled for each instruction set. The including file
// defines before: the type vf, 16 floats, with the functions vf_…; dot_q8; look_up; ROWS_F32, how
// many rows of activations fit its registers; and REGISTER_BYTES, how large one of these is.
//
// vf_min(a, b) and vf_max(a, b) give b where either is NaN: the order of their arguments below is
// what keeps a NaN alive.

#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

// ---- partial vectors --------------------------------------------------------------------------

INLINE vf load_part(const float *x, uint32_t n)
{
    float part[CPU_LANES] = {0};
    memcpy(part, x, n * sizeof *x);
    return vf_load(part);
}

INLINE void store_part(float *out, vf x, uint32_t n)
{
    float part[CPU_LANES];
    vf_store(part, x);
    memcpy(out, part, n * sizeof *out);
}

// x[i, i + 16), cut at n, the rest zeros
INLINE vf load_at(const float *x, uint32_t i, uint32_t n)
{
    return n - i >= CPU_LANES ? vf_load(x + i) : load_part(x + i, n - i);
}

INLINE void store_at(float *out, vf x, uint32_t i, uint32_t n)
{
    if (n - i >= CPU_LANES) {
        vf_store(out + i, x);
    } else {
        store_part(out + i, x, n - i);
    }
}

// ---- elementary functions ---------------------------------------------------------------------

// e^x to 2 units in the last place; 0 below -87.3, no more than e^88.3 above; NaN stays NaN.
INLINE vf vf_exp(vf x)
{
    vf y = vf_max(vf_set1(-87.3f), vf_min(vf_set1(88.3f), x));
    vf n = vf_round(vf_mul(y, vf_set1(1.44269504f)));
    vf r = vf_fma(n, vf_set1(-0.693359375f), y); // ln 2 in two parts
    r = vf_fma(n, vf_set1(2.12194440e-4f), r);
    vf p = vf_set1(1.9875691500e-4f);
    p = vf_fma(p, r, vf_set1(1.3981999507e-3f));
    p = vf_fma(p, r, vf_set1(8.3334519073e-3f));
    p = vf_fma(p, r, vf_set1(4.1665795894e-2f));
    p = vf_fma(p, r, vf_set1(1.6666665459e-1f));
    p = vf_fma(p, r, vf_set1(5.0000001201e-1f));
    p = vf_add(vf_fma(vf_mul(p, r), r, r), vf_set1(1.0f));
    return vf_zero_below(x, -87.3f, vf_mul(p, vf_pow2(n)));
}

// x / (1 + e^-u); 0 where e^-u would be too large for a float
INLINE vf gated_by(vf x, vf u)
{
    vf e = vf_exp(vf_sub(vf_set1(0.0f), u));
    return vf_zero_below(u, -88.0f, vf_div(x, vf_add(vf_set1(1.0f), e)));
}

// x/2 (1 + tanh(c (x + 0.044715 x^3))), c = sqrt(2/pi), is x / (1 + e^(-2c (x + 0.044715 x^3)))
INLINE vf gelu_tanh(vf x)
{
    vf cubic = vf_fma(vf_mul(vf_mul(x, x), vf_set1(0.044715f)), x, x);
    return gated_by(x, vf_mul(cubic, vf_set1(1.5957691216f)));
}

// ---- unpacking weights ------------------------------------------------------------------------

// A register's worth of bytes, as words, so that shifts are vector operations: what crosses a
// byte's border is masked away. Not larger: compilers take greater vectors apart through memory.
typedef uint32_t words __attribute__((vector_size(REGISTER_BYTES)));

// Bytes [at, ...) of the 64 that hold values [64 k, 64 k + 64) of a block's 512 in fields of `bits`
// bits: byte i of the plane has values i, i + 512 / (8 / bits), ..., the first in its lowest bits.
INLINE words field_of(const uint8_t *plane, const int bits, const int k, const int at)
{
    words v;
    const int n = bits; // pieces of 64 bytes in the plane
    const uint32_t shift = (uint32_t)(k / n * bits);
    const uint32_t mask = ((1u << bits) - 1) * 0x01010101u;
    memcpy(&v, plane + k % n * 64 + at, sizeof v);
    return v >> shift & mask;
}

INLINE void join_64(const uint8_t *low, const uint8_t *high, uint8_t *out, const int low_bits,
                    const int high_bits, const int k)
{
    for (int at = 0; at < 64; at += REGISTER_BYTES) {
        words v = field_of(low, low_bits, k, at);
        if (high_bits) v |= field_of(high, high_bits, k, at) << (uint32_t)low_bits;
        memcpy(out + 64 * k + at, &v, sizeof v);
    }
}

// Not a loop: each shift is to be a constant.
INLINE void join_planes(const uint8_t *low, const uint8_t *high, uint8_t *out, const int low_bits,
                        const int high_bits)
{
    join_64(low, high, out, low_bits, high_bits, 0);
    join_64(low, high, out, low_bits, high_bits, 1);
    join_64(low, high, out, low_bits, high_bits, 2);
    join_64(low, high, out, low_bits, high_bits, 3);
    join_64(low, high, out, low_bits, high_bits, 4);
    join_64(low, high, out, low_bits, high_bits, 5);
    join_64(low, high, out, low_bits, high_bits, 6);
    join_64(low, high, out, low_bits, high_bits, 7);
}

// One block: 512 values of up to 7 bits.
INLINE void spread_block(const cpu_format *f, const uint8_t *low, const uint8_t *high, uint8_t *out)
{
    switch (f->low_bits * 10 + f->high_bits) {
    case 40: join_planes(low, high, out, 4, 0); break;
    case 41: join_planes(low, high, out, 4, 1); break;
    case 42: join_planes(low, high, out, 4, 2); break;
    case 20: join_planes(low, high, out, 2, 0); break;
    case 21: join_planes(low, high, out, 2, 1); break;
    default: break; // no other widths are in the table
    }
    if (f->levels) look_up(f->levels, out, 512);
}

INLINE vf scale_at(const cpu_format *f, const uint8_t *p)
{
    if (!f->d_bfloat) return vf_from_half(p);
    uint16_t upper[CPU_LANES];
    float d[CPU_LANES];
    memcpy(upper, p, sizeof upper);
    for (int i = 0; i < CPU_LANES; i++) {
        uint32_t bits = (uint32_t)upper[i] << 16;
        memcpy(&d[i], &bits, sizeof bits);
    }
    return vf_load(d);
}

// base: the chunk
static void unpack_scales(const cpu_format *f, const cpu_planes *at, const uint8_t *base,
                          uint32_t n, cpu_panel *p)
{
    uint32_t sub = f->sub ? f->sub : CPU_BLOCK;
    // A power of two loses nothing in a float; in the half d it would.
    const vf part = vf_set1(1.0f / (float)(1 << f->fraction));
    for (uint32_t i = 0; i < n / sub; i++) {
        uint32_t span = i * sub / f->span * 2 * CPU_LANES;
        vf d = vf_mul(scale_at(f, base + at->d + span), part);
        vf m = f->has_min ? vf_from_half(base + at->m + span) : vf_set1(0.0f);
        const uint8_t *scale = base + at->sub + i * CPU_LANES;
        if (f->sub_packed) {
            uint8_t low[CPU_LANES], high[CPU_LANES];
            for (int j = 0; j < CPU_LANES; j++) {
                low[j] = scale[j] & 15;
                high[j] = scale[j] >> 4;
            }
            d = vf_mul(d, vf_from_u8(low));
            m = vf_sub(vf_set1(0.0f), vf_mul(m, vf_from_u8(high)));
        } else if (f->sub) {
            d = vf_mul(d, f->sub_signed ? vf_from_i8((const int8_t *)scale) : vf_from_u8(scale));
            if (f->has_min) {
                vf min = vf_from_u8(base + at->sub_min + i * CPU_LANES);
                m = vf_sub(vf_set1(0.0f), vf_mul(m, min));
            }
        }
        vf_store(p->scale[i], d);
        vf_store(p->min[i], m);
    }
}

static void unpack(const cpu_weight *w, uint32_t group, uint32_t col, uint32_t n, cpu_panel *p)
{
    enum { BLOCK_VALUES = CPU_BLOCK * CPU_LANES };
    const cpu_format *f = w->format;
    const cpu_planes at = cpu_planes_of(f, n);
    const uint8_t *base = w->data + group * w->group_bytes + col / CPU_CHUNK * w->chunk_bytes;
    p->n_blocks = n / CPU_BLOCK;
    p->zero = f->zero;
    p->wide = f->wide;
    p->halves = f->sub == 16;
    p->has_min = f->has_min;
    p->q = base;
    if (f->low_bits != 8) {
        p->q = p->memory;
        uint32_t share = at.end / p->n_blocks;
        for (uint32_t b = 0; b < p->n_blocks; b++) {
            // The next chunk, spread over the work on this one.
            for (uint32_t i = 0; i < share; i += 64) {
                __builtin_prefetch(base + at.end + b * share + i);
            }
            spread_block(f, base + b * 64u * f->low_bits, base + at.high + b * 64u * f->high_bits,
                         p->memory + b * BLOCK_VALUES);
        }
    }
    if (f->sub || f->has_min || f->span != CPU_BLOCK) {
        unpack_scales(f, &at, base, n, p);
        return;
    }
    for (uint32_t b = 0; b < p->n_blocks; b++) {
        vf_store(p->scale[b], scale_at(f, base + at.d + b * 2 * CPU_LANES));
    }
}

static const float *unpack_f32(const cpu_weight *w, uint32_t group, uint32_t col, uint32_t n,
                               float *memory)
{
    const uint8_t *base = w->data + group * w->group_bytes;
    uint64_t first = (uint64_t)col * CPU_LANES;
    if (w->form == CPU_F32) return (const float *)(const void *)base + first;
    if (w->form == CPU_F16) {
        for (uint32_t k = 0; k < n; k++) {
            vf_store(memory + k * CPU_LANES, vf_from_half(base + 2 * (first + k * CPU_LANES)));
        }
        return memory;
    }
    if (w->form == CPU_BF16) {
        for (uint32_t i = 0; i < n * CPU_LANES; i++) {
            uint16_t half;
            memcpy(&half, base + 2 * (first + i), sizeof half);
            uint32_t bits = (uint32_t)half << 16;
            memcpy(&memory[i], &bits, sizeof bits);
        }
        return memory;
    }
    cpu_panel p;
    unpack(w, group, col, n, &p);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t s = p.halves ? k / 16 : k / CPU_BLOCK;
        vf v = vf_from_quads(p.q + k / 4 * (4 * CPU_LANES), (int)(k % 4));
        v = vf_mul(vf_load(p.scale[s]), vf_sub(v, vf_set1((float)p.zero)));
        if (p.has_min) v = vf_add(v, vf_load(p.min[s]));
        vf_store(memory + k * CPU_LANES, v);
    }
    return memory;
}

// ---- products in floats -----------------------------------------------------------------------

// Blocks of 32 columns are summed by themselves first: shorter sums, and they overlap in time.
INLINE void dot_f32_rows(const float *panel, uint32_t n, const float *x, size_t stride, float *acc,
                         const int rows)
{
    for (uint32_t begin = 0; begin < n; begin += CPU_BLOCK) {
        uint32_t end = n - begin < CPU_BLOCK ? n : begin + CPU_BLOCK;
        vf sum[ROWS_F32];
        for (int r = 0; r < rows; r++) sum[r] = vf_set1(0.0f);
        for (uint32_t k = begin; k < end; k++) {
            vf w = vf_load(panel + k * CPU_LANES);
            for (int r = 0; r < rows; r++) {
                sum[r] = vf_fma(w, vf_set1(x[(size_t)r * stride + k]), sum[r]);
            }
        }
        for (int r = 0; r < rows; r++) {
            float *to = acc + r * CPU_TILE_COLS;
            vf_store(to, vf_add(vf_load(to), sum[r]));
        }
    }
}

static void dot_f32(const float *panel, uint32_t n, const float *x, size_t stride, uint32_t n_rows,
                    float *acc)
{
    enum { FEW = ROWS_F32 / 2 };
    for (uint32_t rows; n_rows > 0; n_rows -= rows) {
        rows = n_rows >= ROWS_F32 ? ROWS_F32 : n_rows >= FEW ? FEW : 1;
        if (rows == ROWS_F32) dot_f32_rows(panel, n, x, stride, acc, ROWS_F32);
        if (rows == FEW) dot_f32_rows(panel, n, x, stride, acc, FEW);
        if (rows == 1 && FEW != 1) dot_f32_rows(panel, n, x, stride, acc, 1);
        x += rows * stride;
        acc += rows * CPU_TILE_COLS;
    }
}

// ---- rows -------------------------------------------------------------------------------------

// floor(t + 1/2) for t >= 0, without the rounding of that sum
INLINE vf round_half_up(vf t)
{
    vf whole = vf_floor(t), rest = vf_sub(t, whole);
    return vf_add(whole, vf_floor(vf_add(rest, rest)));
}

static void quantize(const float *x, uint32_t n, int8_t *q, float *d, int32_t *sum)
{
    for (uint32_t b = 0; b < n / CPU_BLOCK; b++, x += CPU_BLOCK, q += CPU_BLOCK) {
        vf half[2] = {vf_load(x), vf_load(x + CPU_LANES)};
        float most = vf_greatest(vf_max(vf_abs(half[0]), vf_abs(half[1])));
        // 0, or NaN where any value is NaN or infinite
        vf zero = vf_set1(0.0f);
        float poison = vf_sum(vf_fma(half[0], zero, vf_mul(half[1], zero)));
        float scale = most / 127, inverse = scale != 0 ? 1 / scale : 0;
        for (int i = 0; i < 2; i++) {
            vf t = vf_min(vf_mul(vf_abs(half[i]), vf_set1(inverse)), vf_set1(127.0f));
            vf whole = vf_copy_sign(round_half_up(t), half[i]);
            vf_to_i8(q + i * CPU_LANES, whole);
            sum[2 * b + (uint32_t)i] = (int32_t)vf_sum(whole);
        }
        d[b] = half_rounded(scale + poison);
    }
}

static void norm(const plan_norm_op *op, const float *x, const float *weight, const float *bias,
                 const float *residual, uint32_t n, float *out)
{
    float mean = 0;
    if (op->norm == PLAN_NORM_LAYER) {
        vf sum = vf_set1(0.0f);
        for (uint32_t i = 0; i < n; i += CPU_LANES) sum = vf_add(sum, load_at(x, i, n));
        mean = vf_sum(sum) / (float)n;
    }
    vf squares = vf_set1(0.0f), m = vf_set1(mean);
    for (uint32_t i = 0; i < n; i += CPU_LANES) {
        vf v = vf_sub(load_at(x, i, n), m);
        if (n - i < CPU_LANES) { // what is missing of the last vector counts as nothing
            float part[CPU_LANES];
            vf_store(part, v);
            v = load_part(part, n - i);
        }
        squares = vf_fma(v, v, squares);
    }
    vf factor = vf_set1(1.0f / sqrtf(vf_sum(squares) / (float)n + op->eps));
    for (uint32_t i = 0; i < n; i += CPU_LANES) {
        vf v = vf_mul(vf_sub(load_at(x, i, n), m), factor);
        if (weight) v = vf_mul(v, load_at(weight, i, n));
        if (bias) v = vf_add(v, load_at(bias, i, n));
        if (residual) v = vf_add(v, load_at(residual, i, n));
        store_at(out, v, i, n);
    }
}

static void activate(plan_fn fn, const float *x, float *out, uint32_t n)
{
    if (fn == PLAN_FN_GELU_ERF) {
        for (uint32_t i = 0; i < n; i++) out[i] = 0.5f * x[i] * (1 + erff(x[i] * 0.70710678f));
        return;
    }
    for (uint32_t i = 0; i < n; i += CPU_LANES) {
        vf v = load_at(x, i, n);
        if (fn == PLAN_FN_SILU) v = gated_by(v, v);
        if (fn == PLAN_FN_GELU_TANH) v = gelu_tanh(v);
        store_at(out, v, i, n);
    }
}

static void multiply(const float *a, const float *b, float *out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += CPU_LANES) {
        store_at(out, vf_mul(load_at(a, i, n), load_at(b, i, n)), i, n);
    }
}

static void add(const float *a, const float *b, float *out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += CPU_LANES) {
        store_at(out, vf_add(load_at(a, i, n), load_at(b, i, n)), i, n);
    }
}

static void scale(float *x, uint32_t n, float factor)
{
    for (uint32_t i = 0; i < n; i += CPU_LANES) {
        store_at(x, vf_mul(load_at(x, i, n), vf_set1(factor)), i, n);
    }
}

// tanh(t) = (1 - e^(-2|t|)) / (1 + e^(-2|t|)) with t's sign
static void soft_cap(float *x, uint32_t n, float cap)
{
    vf one = vf_set1(1.0f), inverse = vf_set1(1.0f / cap);
    for (uint32_t i = 0; i < n; i += CPU_LANES) {
        vf t = vf_mul(load_at(x, i, n), inverse);
        vf e = vf_exp(vf_mul(vf_abs(t), vf_set1(-2.0f)));
        vf y = vf_copy_sign(vf_div(vf_sub(one, e), vf_add(one, e)), t);
        store_at(x, vf_mul(y, vf_set1(cap)), i, n);
    }
}

// ---- attention --------------------------------------------------------------------------------

static void scores(const float *q, const float *k, uint32_t n, float factor, float *score)
{
    enum { FEW = 4 }; // keys that share a load of q
    for (int j = 0; j < CPU_KEYS; j += CPU_LANES) {
        vf sum[CPU_LANES];
        for (int lane = 0; lane < CPU_LANES; lane += FEW, k += FEW * n) {
            vf s[FEW];
            for (int i = 0; i < FEW; i++) s[i] = vf_set1(0.0f);
            for (uint32_t c = 0; c < n; c += CPU_LANES) {
                vf value = vf_load(q + c);
                for (uint32_t i = 0; i < FEW; i++) {
                    s[i] = vf_fma(value, vf_load(k + i * n + c), s[i]);
                }
            }
            for (int i = 0; i < FEW; i++) sum[lane + i] = s[i];
        }
        vf_store(score + j, vf_mul(vf_sums(sum), vf_set1(factor)));
    }
}

static float exp_keys(float *score, float max)
{
    vf sum = vf_set1(0.0f), m = vf_set1(max);
    for (int j = 0; j < CPU_KEYS; j += CPU_LANES) {
        vf e = vf_exp(vf_sub(vf_load(score + j), m));
        vf_store(score + j, e);
        sum = vf_add(sum, e);
    }
    return vf_sum(sum);
}

// A tile of `rows` rows and `parts` vectors: enough sums at a time that none waits for itself.
INLINE void weigh_tile(const float *p, const float *v, uint32_t first, uint32_t end, uint32_t n,
                       float *out, const int rows, const int parts)
{
    vf sum[4];
    for (int r = 0; r < rows; r++) {
        for (int i = 0; i < parts; i++) {
            sum[r * parts + i] = vf_load(out + (uint32_t)r * n + i * CPU_LANES);
        }
    }
    for (uint32_t j = first; j < end; j++) {
        for (int r = 0; r < rows; r++) {
            vf weight = vf_set1(p[(uint32_t)r * CPU_KEYS + j]);
            for (int i = 0; i < parts; i++) {
                vf value = vf_load(v + j * n + i * CPU_LANES);
                sum[r * parts + i] = vf_fma(weight, value, sum[r * parts + i]);
            }
        }
    }
    for (int r = 0; r < rows; r++) {
        for (int i = 0; i < parts; i++) {
            vf_store(out + (uint32_t)r * n + i * CPU_LANES, sum[r * parts + i]);
        }
    }
}

static void weigh(const float *p, const float *v, uint32_t first, uint32_t end, uint32_t n,
                  uint32_t n_rows, float *out)
{
    for (uint32_t rows; n_rows > 0; n_rows -= rows) {
        rows = n_rows >= 4 ? 4 : 1;
        uint32_t parts, left = n / CPU_LANES;
        for (uint32_t c = 0; left > 0; c += parts * CPU_LANES, left -= parts) {
            parts = rows == 4 || left < 4 ? 1 : 4;
            if (rows == 4) weigh_tile(p, v + c, first, end, n, out + c, 4, 1);
            if (rows == 1 && parts == 4) weigh_tile(p, v + c, first, end, n, out + c, 1, 4);
            if (rows == 1 && parts == 1) weigh_tile(p, v + c, first, end, n, out + c, 1, 1);
        }
        p += rows * CPU_KEYS;
        out += rows * n;
    }
}

// table: cosine and sine of each pair's angle
static void rotate(plan_rope kind, float *x, const float *table, uint32_t n_rot)
{
    if (kind == PLAN_ROPE_INTERLEAVED) {
        for (uint32_t i = 0; i < n_rot; i += 2) {
            float a = x[i], b = x[i + 1];
            x[i] = a * table[i] - b * table[i + 1];
            x[i + 1] = a * table[i + 1] + b * table[i];
        }
    } else if (kind == PLAN_ROPE_NEOX) {
        uint32_t half = n_rot / 2;
        for (uint32_t i = 0; i < half; i++) {
            float a = x[i], b = x[i + half];
            x[i] = a * table[2 * i] - b * table[2 * i + 1];
            x[i + half] = a * table[2 * i + 1] + b * table[2 * i];
        }
    }
}

// ---- stored forms and logits ------------------------------------------------------------------

static void from_half(const uint16_t *half, float *out, uint32_t n)
{
    uint32_t i = 0;
    for (; n - i >= CPU_LANES; i += CPU_LANES) {
        vf_store(out + i, vf_from_half((const uint8_t *)(half + i)));
    }
    for (; i < n; i++) out[i] = quant_f16_to_f32(half[i]);
}

static void to_half(const float *x, uint16_t *half, uint32_t n)
{
    uint32_t i = 0;
    for (; n - i >= CPU_LANES; i += CPU_LANES) vf_to_half(half + i, vf_load(x + i));
    for (; i < n; i++) half[i] = quant_f32_to_f16(x[i]);
}

static void from_i8(const int8_t *q, float d, float *out)
{
    vf_store(out, vf_mul(vf_from_i8(q), vf_set1(d)));
    vf_store(out + CPU_LANES, vf_mul(vf_from_i8(q + CPU_LANES), vf_set1(d)));
}

static float greatest(const float *x, uint32_t n)
{
    vf most = vf_set1(-INFINITY);
    uint32_t i = 0;
    for (; n - i >= CPU_LANES; i += CPU_LANES) most = vf_max(vf_load(x + i), most);
    float max = vf_greatest(most);
    for (; i < n; i++) max = x[i] > max ? x[i] : max;
    return max;
}

static double sum_exp(const float *x, uint32_t n, float max)
{
    enum { SLICE = 4096 };
    double total = 0;
    for (uint32_t begin = 0; begin < n; begin += SLICE) {
        uint32_t end = n - begin < SLICE ? n : begin + SLICE;
        vf sum = vf_set1(0.0f), m = vf_set1(max);
        uint32_t i = begin;
        for (; end - i >= CPU_LANES; i += CPU_LANES) {
            sum = vf_add(sum, vf_exp(vf_sub(vf_load(x + i), m)));
        }
        total += (double)vf_sum(sum);
        for (; i < end; i++) total += exp((double)(x[i] - max));
    }
    return total;
}

#define CPU_KERNELS(isa, text)                                                                     \
    {                                                                                              \
        .name = (isa), .label = (text), .unpack = unpack, .unpack_f32 = unpack_f32,                \
        .dot_q8 = dot_q8, .dot_f32 = dot_f32, .quantize = quantize, .norm = norm,                  \
        .activate = activate, .multiply = multiply, .add = add, .soft_cap = soft_cap,              \
        .scores = scores, .exp_keys = exp_keys, .weigh = weigh, .scale = scale, .rotate = rotate,  \
        .from_half = from_half, .to_half = to_half, .from_i8 = from_i8, .greatest = greatest,      \
        .sum_exp = sum_exp                                                                         \
    }
