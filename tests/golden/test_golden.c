// The golden models on the executors of the CPU; tests/vulkan has the GPU's.
#include "support/test.h"

#include "base/os.h"
#include "support/golden.h"

static void reference_equals_golden(void **state)
{
    (void)state;
    const golden_mode modes[] = {
        {.name = "reference", .n_batch = 512, .limit = 1e-4, .hidden = true},
        {.name = "reference, unfused", .n_batch = 16, .no_fuse = true, .limit = 1e-4},
    };
    golden_mode with_kind[2];
    for (int i = 0; i < 2; i++) {
        with_kind[i] = modes[i];
        with_kind[i].kind = &exec_reference;
        with_kind[i].kv_type = QUANT_F32;
    }
    golden_run(with_kind, 2);
}

static void reference_forms_of_fast_executors(void **state)
{
    (void)state;
    const golden_mode modes[] = {
        {.name = "reference, act=q8, f16 cache",
         .kind = &exec_reference,
         .act = PLAN_ACT_Q8,
         .kv_type = QUANT_F16,
         .n_batch = 32},
        {.name = "reference, act=q8, q8_0 cache, unfused",
         .kind = &exec_reference,
         .act = PLAN_ACT_Q8,
         .kv_type = QUANT_Q8_0,
         .n_batch = 7,
         .no_fuse = true},
    };
    golden_run(modes, 2);
}

static void reference_batches(void **state)
{
    (void)state;
    golden_batches(&exec_reference, NULL);
}

static void cpu_batches_and_threads(void **state)
{
    (void)state;
    golden_batches(&exec_cpu, NULL);
}

// The executor's defaults, act=f32, the quantized cache, unfused; plain C and AVX2 as well as what
// this processor has best.
static void cpu_equals_golden(void **state)
{
    (void)state;
    const golden_mode modes[] = {
        {.name = "cpu, defaults", .act = PLAN_ACT_Q8, .kv_type = QUANT_F16, .n_batch = 512},
        {.name = "cpu, act=f32", .kv_type = QUANT_F32, .n_batch = 512, .limit = 1e-3},
        {.name = "cpu, small batches, unfused",
         .act = PLAN_ACT_Q8,
         .kv_type = QUANT_F16,
         .n_batch = 7,
         .no_fuse = true},
        {.name = "cpu, q8_0 cache", .act = PLAN_ACT_Q8, .kv_type = QUANT_Q8_0, .n_batch = 33},
        {.name = "cpu, AVX2", .isa = "avx2", .kv_type = QUANT_F32, .n_batch = 33, .limit = 1e-3},
        {.name = "cpu, plain C",
         .isa = "plain",
         .kv_type = QUANT_F32,
         .n_batch = 33,
         .limit = 1e-3},
        {.name = "cpu, plain C, defaults",
         .isa = "plain",
         .act = PLAN_ACT_Q8,
         .kv_type = QUANT_F16,
         .n_batch = 33},
    };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        golden_mode m = modes[i];
        m.kind = &exec_cpu;
        bool avx2 = m.isa && !strcmp(m.isa, "avx2");
        if (!avx2 || os_cpu_detect().avx2) golden_run(&m, 1);
    }
}

int main(void)
{
    // Sanitizers make it ten times slower: each kind of layer and of format once is enough there.
    if (SANITIZED)
        golden_only("smollm3-untied.q8_0,smollm3-q4_k_m,llama-mix,qwen3.q8_0,gemma3.q8_0,phi4.q8_0,"
                    "gpt2.f16,gptneox.q8_0");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_equals_golden),
        cmocka_unit_test(reference_forms_of_fast_executors),
        cmocka_unit_test(reference_batches),
        cmocka_unit_test(cpu_equals_golden),
        cmocka_unit_test(cpu_batches_and_threads),
    };
    return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}
