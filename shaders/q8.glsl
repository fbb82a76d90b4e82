// 8-bit rows: activations of act=q8, and the q8_0 cache. On the device a row of n values is n/4
// words of quants, then n/32 scales as f32 (values that a half holds exactly), padded to 16 bytes.
#ifndef PUMICE_Q8_GLSL
#define PUMICE_Q8_GLSL

uint q8_row_words(uint n)
{
    return n / 4u + ((n / 32u + 3u) & ~3u);
}

// By bits: a compiler may assume that there is no NaN.
bool is_finite(float x)
{
    return (floatBitsToUint(x) & 0x7f800000u) != 0x7f800000u;
}

// A positive float to the bits of the nearest half, ties to even; by integers, because a driver may
// round otherwise or flush small ones.
uint half_bits(float x)
{
    uint sign = (floatBitsToUint(x) >> 16) & 0x8000u;
    uint bits = floatBitsToUint(x) & 0x7fffffffu;
    if (bits > 0x7f800000u) return sign | 0x7e00u;
    if (bits >= 0x477ff000u) return sign | 0x7c00u; // rounds past 65504
    if (bits < 0x38800000u)                         // a subnormal half: steps of 2^-24
        return sign | uint(roundEven(uintBitsToFloat(bits) * 16777216.0));
    bits += 0xfffu + ((bits >> 13) & 1u);
    return sign | ((bits >> 13) - 0x1c000u);
}

// Halves to floats by integers: subnormal ones must survive where subnormal floats are flushed.
// Without a branch: it is inlined everywhere, and SwiftShader's compiler drowns in branches.
vec4 half_values(uvec4 h)
{
    uvec4 a = h & 0x7fffu;
    uvec4 normal = (a << 13) + 0x38000000u; // exponent bias 15 to 127
    uvec4 special = mix(uvec4(0), uvec4(0x38000000u), greaterThanEqual(a, uvec4(0x7c00u)));
    uvec4 small = floatBitsToUint(vec4(ivec4(a)) * 5.9604644775390625e-8); // 2^-24
    return uintBitsToFloat(mix(normal + special, small, lessThan(a, uvec4(0x400u))) |
                           (h & 0x8000u) << 16);
}

float half_value(uint h)
{
    uint a = h & 0x7fffu;
    uint normal = (a << 13) + 0x38000000u, special = mix(0u, 0x38000000u, a >= 0x7c00u);
    uint small = floatBitsToUint(float(int(a)) * 5.9604644775390625e-8);
    return uintBitsToFloat(mix(normal + special, small, a < 0x400u) | (h & 0x8000u) << 16);
}

// Half away from zero.
int round_away(float x)
{
    float a = abs(x), t = floor(a);
    t += float(a - t >= 0.5);
    return int(mix(t, -t, x < 0.0));
}

// The scale of 32 values with this largest magnitude, and the factor that makes quants of them.
// Not finite: a scale that makes every result NaN.
float q8_scale(float amax, out float inverse)
{
    if (!is_finite(amax)) {
        inverse = 0.0;
        return uintBitsToFloat(0x7fc00000u);
    }
    float d = amax / 127.0;
    inverse = d > 0.0 ? 1.0 / d : 0.0;
    return half_value(half_bits(d));
}

uint q8_pack(vec4 v, float inverse)
{
    ivec4 q = clamp(ivec4(round_away(v.x * inverse), round_away(v.y * inverse),
                          round_away(v.z * inverse), round_away(v.w * inverse)),
                    -128, 127) & 0xff;
    return uint(q.x) | uint(q.y) << 8 | uint(q.z) << 16 | uint(q.w) << 24;
}

// The larger magnitude; infinity and then NaN win: bits of magnitudes are ordered as they are.
float amax_of(float amax, float x)
{
    return uintBitsToFloat(max(floatBitsToUint(amax), floatBitsToUint(x) & 0x7fffffffu));
}

// Four quants of a word as floats.
vec4 q8_unpack(uint word)
{
    uint u = word ^ 0x80808080u;
    return vec4(float(u & 0xffu), float((u >> 8) & 0xffu), float((u >> 16) & 0xffu),
                float(u >> 24)) -
           128.0;
}

#endif
