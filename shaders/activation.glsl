// Activation functions, from exp of clamped arguments only (plan_fn in plan/plan.h).
#ifndef PUMICE_ACTIVATION_GLSL
#define PUMICE_ACTIVATION_GLSL

const uint FN_NONE = 0u, FN_SILU = 1u, FN_GELU_TANH = 2u, FN_GELU_ERF = 3u;

// exp never overflows: beyond 80 the results below have long reached their limits.
float safe_exp(float x)
{
    return exp(clamp(x, -80.0, 80.0));
}

// (e^2x - 1) / (e^2x + 1); for small x, where that would cancel, its series
float tanh_by_exp(float x)
{
    if ((floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u) return x; // NaN stays
    if (abs(x) < 0.05) {
        float x2 = x * x;
        return x * (1.0 + x2 * (-1.0 / 3.0 + x2 * (2.0 / 15.0)));
    }
    return 1.0 - 2.0 / (safe_exp(2.0 * x) + 1.0);
}

// Abramowitz and Stegun 7.1.26: absolute error below 1.5e-7
float erf_by_exp(float x)
{
    float a = abs(x), t = 1.0 / (1.0 + 0.3275911 * a);
    float p = t * (0.254829592 +
                   t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    float y = 1.0 - p * safe_exp(-a * a);
    return x < 0.0 ? -y : y;
}

float activation(uint fn, float x)
{
    if (fn == FN_SILU) return x / (1.0 + safe_exp(-x));
    if (fn == FN_GELU_TANH)
        return 0.5 * x * (1.0 + tanh_by_exp(0.7978845608 * (x + 0.044715 * x * x * x)));
    if (fn == FN_GELU_ERF) return 0.5 * x * (1.0 + erf_by_exp(x * 0.7071067812));
    return x;
}

#endif
