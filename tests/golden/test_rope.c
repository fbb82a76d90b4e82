// R34: RoPE scalings and frequency factors are applied. Within the original window golden models
// show it, with what Hugging Face computed (phi4-longrope also beyond); the tables of cosines and
// sines are held against the scalings' published formulas at positions beyond it.
#include "support/test.h"

#include <math.h>

#include "plan/rope_table.h"
#include "support/golden.h"

static void r34_golden_models_with_scaling(void **state)
{
    (void)state;
    golden_only("llama-rope3,llama-linear,llama-yarn,qwen2-yarn,gemma3-linear,phi4-longrope");
    const golden_mode modes[] = {
        {.name = "reference",
         .kind = &exec_reference,
         .kv_type = QUANT_F32,
         .n_batch = 512,
         .limit = 1e-4},
        {.name = "cpu", .kind = &exec_cpu, .kv_type = QUANT_F32, .n_batch = 512, .limit = 1e-3}};
    golden_run(modes, 2);
}

typedef struct scaled {
    const char *file;
    double base;
    unsigned n_rot, original; // window
    double linear;            // positions are divided by this; 0: not linear
    double yarn;              // factor; 0: no YaRN
    const char *factors;      // tensor that divides the frequencies; NULL: none
    double magnitude;         // of cosine and sine; 0: 1 + ln(yarn) / 10
} scaled;

// "YaRN: Efficient Context Window Extension of Large Language Models", NTK-by-parts: dimensions
// that turn more than 32 times in the original window stay, below one turn they are interpolated.
static double yarn_share(const scaled *s, unsigned pair)
{
    double at[2], turns[2] = {32, 1};
    for (int k = 0; k < 2; k++)
        at[k] = s->n_rot * log(s->original / (turns[k] * 2 * acos(-1.0))) / (2 * log(s->base));
    double low = fmax(floor(at[0]), 0), high = fmin(ceil(at[1]), s->n_rot - 1.0);
    return fmin(fmax((pair - low) / fmax(high - low, 0.001), 0), 1);
}

static double frequency(const scaled *s, unsigned pair, const float *factors)
{
    double f = pow(s->base, -2.0 * pair / s->n_rot);
    if (s->linear != 0) f /= s->linear;
    if (factors) f /= (double)factors[pair];
    if (s->yarn != 0) {
        double share = yarn_share(s, pair);
        f = f * (1 - share) + f / s->yarn * share;
    }
    return f;
}

static void beyond_the_window(const scaled *s)
{
    enum { N_CTX = 2048 };
    char path[128];
    snprintf(path, sizeof path, "golden/%s.gguf", s->file);
    model *m = NULL;
    model_options options = {0};
    assert_ok(model_open(test_data(path), &options, &m));
    const float *factors = NULL;
    if (s->factors) factors = gguf_tensor_map(m->file, gguf_find_tensor(m->file, s->factors));
    float *table = NULL;
    assert_ok(plan_rope_table(m, N_CTX, false, &table));
    double magnitude = s->magnitude != 0 ? s->magnitude : 1 + 0.1 * log(s->yarn);
    const unsigned positions[] = {
        0, 1, s->original - 1, s->original, s->original + 1, 1000, 3 * s->original / 2, N_CTX - 1};
    for (size_t p = 0; p < sizeof positions / sizeof *positions; p++) {
        for (unsigned i = 0; i < s->n_rot / 2; i++) {
            const float *found = table + (size_t)positions[p] * s->n_rot + 2 * i;
            double angle = positions[p] * frequency(s, i, factors);
            double off = fmax(fabs((double)found[0] - magnitude * cos(angle)),
                              fabs((double)found[1] - magnitude * sin(angle)));
            if (!(off < 1e-5))
                fail_msg("%s: position %u, pair %u is off by %g", s->file, positions[p], i, off);
        }
    }
    free(table);
    model_close(m);
}

static void r34_positions_beyond_the_original_window(void **state)
{
    (void)state;
    const scaled all[] = {
        {.file = "llama-linear.f32",
         .base = 10000,
         .n_rot = 16,
         .original = 128,
         .linear = 4,
         .magnitude = 1},
        {.file = "gemma3-linear.f32",
         .base = 1e6,
         .n_rot = 16,
         .original = 128,
         .linear = 8,
         .magnitude = 1},
        {.file = "llama-rope3.f32",
         .base = 10000,
         .n_rot = 32,
         .original = 128,
         .factors = "rope_freqs.weight",
         .magnitude = 1},
        {.file = "llama-yarn.f32", .base = 10000, .n_rot = 32, .original = 512, .yarn = 8},
        {.file = "qwen2-yarn.f32", .base = 10000, .n_rot = 16, .original = 128, .yarn = 4},
        {.file = "phi4-longrope.f32",
         .base = 10000,
         .n_rot = 24,
         .original = 256,
         .factors = "rope_factors_long.weight",
         .magnitude = 1.118034},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) beyond_the_window(&all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r34_golden_models_with_scaling),
        cmocka_unit_test(r34_positions_beyond_the_original_window),
    };
    return cmocka_run_group_tests_name("rope", tests, NULL, NULL);
}
