// The choice of a device, on tables of what the drivers of ten kinds of machines report.
#include "support/test.h"
#include "support/vulkan_drivers.h"

#define GIB        (UINT64_C(1) << 30)
#define DISCRETE   VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU
#define INTEGRATED VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU
#define VIRTUAL    VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU
#define SOFTWARE   VK_PHYSICAL_DEVICE_TYPE_CPU
#define OTHER      VK_PHYSICAL_DEVICE_TYPE_OTHER
#define V1_0       VK_API_VERSION_1_0
#define V1_1       VK_API_VERSION_1_1
#define V1_3       VK_API_VERSION_1_3

#define USABLE     .computes = true
#define PCI(b)     .has_pci = true, .pci = {0, b, 0, 0}
#define UUID(a, b) .uuid = {a, b, 0x5c, 0x11, 0, 9}
#define LLVMPIPE                                                                                   \
    {                                                                                              \
        .name = "llvmpipe (LLVM 15.0.6, 256 bits)", .type = SOFTWARE, .vendor_id = 0x10005,        \
        .driver_id = VK_DRIVER_ID_MESA_LLVMPIPE, .api_version = V1_3, .local_bytes = 2 * GIB,      \
        .uuid = "mesa22.3.6", USABLE                                                               \
    }

enum { MAX_DEVICES = 6 };
typedef struct machine {
    const char *what;
    uint32_t n;
    vk_candidate devices[MAX_DEVICES];
    uint32_t n_ranked, ranked[MAX_DEVICES]; // the expected order
    int best;                               // -1: none by default
} machine;

static const machine machines[] = {
    {"a laptop with Intel and NVIDIA",
     3,
     {{.name = "Intel(R) UHD Graphics (TGL GT1)",
       .type = INTEGRATED,
       .vendor_id = 0x8086,
       .device_id = 0x9a60,
       .driver_id = VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA,
       .api_version = V1_3,
       UUID(1, 1),
       PCI(0),
       .local_bytes = 23 * GIB,
       USABLE},
      {.name = "NVIDIA GeForce RTX 3050 Laptop GPU",
       .type = DISCRETE,
       .vendor_id = 0x10de,
       .device_id = 0x25a2,
       .driver_id = VK_DRIVER_ID_NVIDIA_PROPRIETARY,
       .api_version = V1_3,
       UUID(2, 1),
       PCI(1),
       .local_bytes = 4 * GIB,
       USABLE},
      LLVMPIPE},
     3,
     {1, 0, 2},
     1},
    {"two equal cards and a larger one",
     3,
     {{.name = "NVIDIA GeForce RTX 3090",
       .type = DISCRETE,
       .vendor_id = 0x10de,
       .device_id = 0x2204,
       .driver_id = VK_DRIVER_ID_NVIDIA_PROPRIETARY,
       .api_version = V1_3,
       UUID(9, 1),
       PCI(0x41),
       .local_bytes = 24 * GIB,
       USABLE},
      {.name = "NVIDIA GeForce RTX 3090",
       .type = DISCRETE,
       .vendor_id = 0x10de,
       .device_id = 0x2204,
       .driver_id = VK_DRIVER_ID_NVIDIA_PROPRIETARY,
       .api_version = V1_3,
       UUID(3, 1),
       PCI(0x21),
       .local_bytes = 24 * GIB,
       USABLE},
      {.name = "NVIDIA RTX A6000",
       .type = DISCRETE,
       .vendor_id = 0x10de,
       .device_id = 0x2230,
       .driver_id = VK_DRIVER_ID_NVIDIA_PROPRIETARY,
       .api_version = V1_3,
       UUID(5, 1),
       PCI(0x61),
       .local_bytes = 48 * GIB,
       USABLE}},
     3,
     {2, 1, 0},
     2},
    {"one AMD card with Mesa's and AMD's driver",
     2,
     {{.name = "AMD Radeon RX 6800 XT",
       .type = DISCRETE,
       .vendor_id = 0x1002,
       .device_id = 0x73bf,
       .driver_id = VK_DRIVER_ID_AMD_OPEN_SOURCE,
       .api_version = V1_3,
       UUID(0, 3),
       PCI(3),
       .local_bytes = 16 * GIB,
       USABLE},
      {.name = "AMD Radeon RX 6800 XT (RADV NAVI21)",
       .type = DISCRETE,
       .vendor_id = 0x1002,
       .device_id = 0x73bf,
       .driver_id = VK_DRIVER_ID_MESA_RADV,
       .api_version = V1_3,
       UUID(0, 3),
       PCI(3),
       .local_bytes = 16 * GIB,
       USABLE}},
     1,
     {1},
     1},
    {"Windows: the card also through Direct3D 12, known by its LUID",
     3,
     {{.name = "Microsoft Direct3D12 (NVIDIA GeForce RTX 4070)",
       .type = DISCRETE,
       .vendor_id = 0x10de,
       .device_id = 0x2786,
       .driver_id = VK_DRIVER_ID_MESA_DOZEN,
       .api_version = V1_1,
       UUID(77, 7),
       .luid = {0x51, 0xc3},
       .has_luid = true,
       .local_bytes = 12 * GIB,
       .translated = true,
       USABLE},
      {.name = "NVIDIA GeForce RTX 4070",
       .type = DISCRETE,
       .vendor_id = 0x10de,
       .device_id = 0x2786,
       .driver_id = VK_DRIVER_ID_NVIDIA_PROPRIETARY,
       .api_version = V1_3,
       UUID(4, 2),
       PCI(1),
       .luid = {0x51, 0xc3},
       .has_luid = true,
       .local_bytes = 12 * GIB,
       USABLE},
      {.name = "Microsoft Direct3D12 (Microsoft Basic Render Driver)",
       .type = SOFTWARE,
       .vendor_id = 0x1414,
       .device_id = 0x8c,
       .driver_id = VK_DRIVER_ID_MESA_DOZEN,
       .api_version = V1_1,
       .translated = true,
       USABLE}},
     2,
     {1, 2},
     1},
    {"the same card by UUID alone, the translation listed first and with more memory",
     2,
     {{.name = "Apple M2 Pro",
       .type = INTEGRATED,
       .vendor_id = 0x106b,
       .device_id = 0x1a020209,
       .driver_id = VK_DRIVER_ID_MOLTENVK,
       .api_version = V1_1,
       UUID(8, 8),
       .local_bytes = 21 * GIB,
       .translated = true,
       USABLE},
      {.name = "Apple M2 Pro (G14S)",
       .type = INTEGRATED,
       .vendor_id = 0x106b,
       .device_id = 0x1a020209,
       .driver_id = 26,
       .api_version = V1_3,
       UUID(8, 8),
       .local_bytes = 16 * GIB,
       USABLE}},
     1,
     {1},
     1},
    {"UUIDs of zeros merge nothing",
     2,
     {{.name = "Card",
       .type = DISCRETE,
       .vendor_id = 1,
       .device_id = 2,
       .driver_id = 100,
       .api_version = V1_1,
       .local_bytes = 8 * GIB,
       USABLE},
      {.name = "Card",
       .type = DISCRETE,
       .vendor_id = 1,
       .device_id = 2,
       .driver_id = 101,
       .api_version = V1_1,
       .local_bytes = 8 * GIB,
       USABLE}},
     2,
     {0, 1},
     0},
    {"a virtual machine: virtual before other kinds, software last",
     4,
     {LLVMPIPE,
      {.name = "Something",
       .type = OTHER,
       .vendor_id = 7,
       .driver_id = 200,
       .api_version = V1_1,
       .local_bytes = 64 * GIB,
       USABLE},
      {.name = "Virtio-GPU Venus (AMD Radeon Graphics)",
       .type = VIRTUAL,
       .vendor_id = 0x1002,
       .device_id = 0x1638,
       .driver_id = VK_DRIVER_ID_MESA_VENUS,
       .api_version = V1_3,
       UUID(6, 6),
       .local_bytes = 4 * GIB,
       USABLE},
      {.name = "SwiftShader Device (Subzero)",
       .type = SOFTWARE,
       .vendor_id = 0x1ae0,
       .device_id = 0xc0de,
       .driver_id = VK_DRIVER_ID_GOOGLE_SWIFTSHADER,
       .api_version = V1_3,
       .uuid = "SwiftShaderUUID",
       .local_bytes = 4 * GIB,
       USABLE}},
     4,
     {2, 1, 3, 0},
     2},
    {"only software drivers: none is taken unasked", 1, {LLVMPIPE}, 1, {0}, -1},
    {"an old card with Vulkan 1.0 and a device that can't compute",
     3,
     {{.name = "Old card",
       .type = DISCRETE,
       .vendor_id = 1,
       .api_version = V1_0,
       .local_bytes = 8 * GIB,
       USABLE},
      {.name = "Display only",
       .type = DISCRETE,
       .vendor_id = 2,
       .api_version = V1_3,
       .local_bytes = 8 * GIB},
      {.name = "V3D 7.1.7",
       .type = INTEGRATED,
       .vendor_id = 0x14e4,
       .device_id = 0x55701c33,
       .driver_id = VK_DRIVER_ID_MESA_V3DV,
       .api_version = V1_1,
       UUID(7, 1),
       .local_bytes = 4 * GIB,
       USABLE}},
     1,
     {2},
     2},
    {"a card in two parts: one bus address, one driver, two UUIDs",
     2,
     {{.name = "NVIDIA A100 MIG 3g.20gb",
       .type = DISCRETE,
       .vendor_id = 0x10de,
       .device_id = 0x20b0,
       .driver_id = VK_DRIVER_ID_NVIDIA_PROPRIETARY,
       .api_version = V1_3,
       UUID(0x20, 2),
       PCI(7),
       .local_bytes = 20 * GIB,
       USABLE},
      {.name = "NVIDIA A100 MIG 3g.20gb",
       .type = DISCRETE,
       .vendor_id = 0x10de,
       .device_id = 0x20b0,
       .driver_id = VK_DRIVER_ID_NVIDIA_PROPRIETARY,
       .api_version = V1_3,
       UUID(0x20, 1),
       PCI(7),
       .local_bytes = 20 * GIB,
       USABLE}},
     2,
     {1, 0},
     1},
    {"two equal cards whose driver gives both one UUID",
     2,
     {{.name = "Clone",
       .type = DISCRETE,
       .vendor_id = 5,
       .device_id = 5,
       .driver_id = 9,
       .api_version = V1_1,
       UUID(1, 2),
       PCI(5),
       .local_bytes = GIB,
       USABLE},
      {.name = "Clone",
       .type = DISCRETE,
       .vendor_id = 5,
       .device_id = 5,
       .driver_id = 9,
       .api_version = V1_1,
       UUID(1, 2),
       PCI(6),
       .local_bytes = GIB,
       USABLE}},
     2,
     {0, 1},
     0},
};
enum { N_MACHINES = sizeof machines / sizeof machines[0] };

static void r1_r2_order_and_duplicates(void **state)
{
    (void)state;
    for (size_t m = 0; m < N_MACHINES; m++) {
        const machine *it = &machines[m];
        uint32_t order[MAX_DEVICES], chosen = 99;
        print_message("  %s\n", it->what);
        assert_int_equal(vk_rank(it->devices, it->n, order), it->n_ranked);
        for (uint32_t i = 0; i < it->n_ranked; i++) assert_int_equal(order[i], it->ranked[i]);
        pm_status status = vk_select(it->devices, it->n, NULL, &chosen);
        if (it->best < 0) {
            assert_int_equal(status, PM_ERROR_DEVICE);
            assert_non_null(strstr(error_message(), it->devices[0].name));
        } else {
            assert_ok(status);
            assert_int_equal(chosen, it->best);
        }
    }
}

// Every machine with its devices in other orders: the same devices in the same ranks.
static void r3_enumeration_order(void **state)
{
    (void)state;
    for (size_t m = 0; m < N_MACHINES; m++) {
        const machine *it = &machines[m];
        for (uint32_t turn = 0; turn < 2 * it->n; turn++) {
            vk_candidate turned[MAX_DEVICES];
            for (uint32_t i = 0; i < it->n; i++) {
                uint32_t from = (i + turn) % it->n;
                turned[i] = it->devices[turn < it->n ? from : it->n - 1 - from];
            }
            uint32_t order[MAX_DEVICES];
            assert_int_equal(vk_rank(turned, it->n, order), it->n_ranked);
            for (uint32_t i = 0; i < it->n_ranked; i++) {
                const vk_candidate *got = &turned[order[i]];
                const vk_candidate *expected = &it->devices[it->ranked[i]];
                assert_string_equal(got->name, expected->name);
                assert_memory_equal(got->uuid, expected->uuid, sizeof got->uuid);
                assert_memory_equal(got->pci, expected->pci, sizeof got->pci);
                assert_int_equal(got->driver_id, expected->driver_id);
            }
        }
    }
}

static int pick(const machine *it, const char *selector)
{
    uint32_t chosen = 99;
    pm_status status = vk_select(it->devices, it->n, selector, &chosen);
    if (status == PM_OK) return (int)chosen;
    assert_int_equal(status, PM_ERROR_DEVICE);
    return -1;
}

static void r3_selectors(void **state)
{
    (void)state;
    const machine *two = &machines[1], *laptop = &machines[0], *windows = &machines[3];
    assert_int_equal(pick(two, "0"), 2); // an index counts the ranking
    assert_int_equal(pick(two, "1"), 1);
    assert_int_equal(pick(two, "2"), 0);
    assert_int_equal(pick(two, "3"), 1); // no index any more: part of "3090"
    assert_int_equal(pick(two, "3090"), 1);
    assert_int_equal(pick(two, "rtx a6000"), 2);
    assert_int_equal(pick(two, "0000:41:00.0"), 0);
    assert_int_equal(pick(two, "41:00.0"), 0);
    assert_int_equal(pick(two, "0001:41:00.0"), -1);
    assert_int_equal(pick(laptop, "INTEL"), 0);
    assert_int_equal(pick(laptop, "llvmpipe"), 2); // software: by its name,
    assert_int_equal(pick(laptop, "2"), 2);        // its number
    assert_int_equal(pick(laptop, "6d657361-3232-2e33-2e36-000000000000"), 2); // or its UUID
    assert_int_equal(pick(laptop, "6D65736132322E332E36000000000000"), 2);
    assert_int_equal(pick(laptop, "00000000-0000-0000-0000-000000000000"), -1);
    assert_int_equal(pick(windows, "4070"), 1); // a second entry of a card can't be had
    assert_int_equal(pick(&machines[5], "00000000-0000-0000-0000-000000000000"), -1);

    assert_int_equal(pick(laptop, "Radeon"), -1);
    const char *message = error_message();
    assert_non_null(strstr(message, "'Radeon'"));
    assert_non_null(strstr(message, "vulkan:0 NVIDIA GeForce RTX 3050"));
    assert_non_null(strstr(message, "vulkan:1 Intel(R) UHD"));
    assert_non_null(strstr(message, "vulkan:2 llvmpipe"));

    uint32_t chosen = 99;
    assert_int_equal(vk_select(NULL, 0, NULL, &chosen), PM_ERROR_DEVICE);
    assert_int_equal(vk_select(NULL, 0, "0", &chosen), PM_ERROR_DEVICE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r1_r2_order_and_duplicates),
        cmocka_unit_test(r3_enumeration_order),
        cmocka_unit_test(r3_selectors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
