// Memory types and budgets on recorded tables; buffers and transfers on the drivers at hand.
#include "support/test.h"
#include "support/vulkan_drivers.h"

#include "base/rng.h"

// ---- recorded tables --------------------------------------------------------------------------

enum {
    L = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
    V = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
    C = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
    K = VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
    PROTECTED = VK_MEMORY_PROPERTY_PROTECTED_BIT,
    AMD_SLOW =
        VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD,
    END = 0x7fff,
};

typedef struct table {
    const char *what;
    struct {
        int flags, heap;
    } types[10];
    uint64_t heaps_mib[4];
    int device, shared, readback, staging; // expected types
    bool readback_coherent;
    int device_next; // the type after that one has no room
} table;

static const table tables[] = {
    {"NVIDIA, window of 256 MiB",
     {{0, 1}, {L, 0}, {V | C, 1}, {V | C | K, 1}, {L | V | C, 2}, {END, 0}},
     {8192, 24050, 246},
     1,
     4,
     3,
     2,
     true,
     4},
    {"NVIDIA, the whole card visible",
     {{0, 1}, {L, 0}, {V | C, 1}, {V | C | K, 1}, {L | V | C, 0}, {END, 0}},
     {24576, 48198},
     4,
     4,
     3,
     2,
     true,
     1},
    {"AMD, window of 256 MiB, with types that are slow for the device",
     {{L, 0},
      {V | C, 1},
      {L | V | C, 2},
      {V | C | K, 1},
      {L | AMD_SLOW, 0},
      {V | C | AMD_SLOW, 1},
      {L | V | C | AMD_SLOW, 2},
      {V | C | K | AMD_SLOW, 1},
      {END, 0}},
     {7920, 15907, 256},
     0,
     2,
     3,
     1,
     true,
     2},
    {"Intel, unified, one heap",
     {{L, 0}, {L | V | C, 0}, {L | V | C | K, 0}, {L | PROTECTED, 0}, {END, 0}},
     {23716},
     1,
     1,
     2,
     1,
     true,
     2},
    {"AMD, unified, two heaps",
     {{L, 1}, {V | C, 0}, {L | V | C, 1}, {V | C | K, 0}, {END, 0}},
     {5120, 10240},
     2,
     2,
     3,
     1,
     true,
     0},
    {"no host-cached type", {{L, 0}, {L | V | C, 0}, {END, 0}}, {4096}, 1, 1, 1, 1, true, 0},
    {"no type that is device-local and host-visible",
     {{L, 0}, {V | C, 1}, {V | C | K, 1}, {END, 0}},
     {4096, 16384},
     0,
     1,
     2,
     1,
     true,
     1},
    {"cached memory that isn't coherent",
     {{L, 0}, {L | V | C, 0}, {L | V | K, 0}, {END, 0}},
     {6144},
     1,
     1,
     2,
     1,
     false,
     2},
    {"a software driver: one type with everything",
     {{L | V | C | K, 0}, {END, 0}},
     {2048},
     0,
     0,
     0,
     0,
     true,
     -1},
};

static VkPhysicalDeviceMemoryProperties properties_of(const table *t)
{
    VkPhysicalDeviceMemoryProperties p = {0};
    for (; t->types[p.memoryTypeCount].flags != END; p.memoryTypeCount++) {
        uint32_t i = p.memoryTypeCount;
        p.memoryTypes[i].propertyFlags = (VkMemoryPropertyFlags)t->types[i].flags;
        p.memoryTypes[i].heapIndex = (uint32_t)t->types[i].heap;
    }
    for (; p.memoryHeapCount < 4 && t->heaps_mib[p.memoryHeapCount]; p.memoryHeapCount++)
        p.memoryHeaps[p.memoryHeapCount].size = t->heaps_mib[p.memoryHeapCount] << 20;
    return p;
}

static void r8_memory_types(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        const table *t = &tables[i];
        print_message("  %s\n", t->what);
        VkPhysicalDeviceMemoryProperties p = properties_of(t);
        bool coherent = false;
        assert_int_equal(vk_choose_memory_type(&p, UINT32_MAX, VK_MEMORY_DEVICE, &coherent),
                         t->device);
        assert_int_equal(vk_choose_memory_type(&p, ~(1u << t->device), VK_MEMORY_DEVICE, &coherent),
                         t->device_next);
        assert_int_equal(vk_choose_memory_type(&p, UINT32_MAX, VK_MEMORY_STAGING, &coherent),
                         t->staging);
        assert_int_equal(vk_choose_memory_type(&p, UINT32_MAX, VK_MEMORY_READBACK, &coherent),
                         t->readback);
        assert_int_equal(coherent, t->readback_coherent);
        assert_int_equal(vk_choose_memory_type(&p, UINT32_MAX, VK_MEMORY_SHARED, &coherent),
                         t->shared);
        assert_true(coherent);
        assert_int_equal(vk_choose_memory_type(&p, 0, VK_MEMORY_DEVICE, &coherent), -1);
        // Only what is allowed, and what must be, whatever is asked.
        for (uint32_t allowed = 0; allowed < 1u << p.memoryTypeCount; allowed++) {
            int got = vk_choose_memory_type(&p, allowed, VK_MEMORY_SHARED, &coherent);
            bool possible = false;
            for (uint32_t k = 0; k < p.memoryTypeCount; k++)
                possible =
                    possible || ((allowed >> k & 1) && (t->types[k].flags & (V | C)) == (V | C) &&
                                 !(t->types[k].flags & AMD_SLOW));
            assert_int_equal(got >= 0, possible);
            if (got >= 0) assert_true(allowed >> got & 1);
        }
    }
}

static void r10_room(void **state)
{
    (void)state;
    static const struct {
        uint64_t heap, budget, usage, own, room;
        bool known;
    } rows[] = {
        {8000, 6000, 1000, 77, 5000, true},
        {8000, 9000, 1000, 0, 7000, true}, // budget above the heap
        {8000, 6000, 7000, 0, 0, true},    // usage above the budget
        {8000, UINT64_MAX, UINT64_MAX, 0, 0, true},
        {8000, UINT64_MAX, 0, 0, 8000, true},
        {8000, 0, 123, 1000, 6000, false}, // no extension: an eighth is kept
        {8000, 0, 0, 7500, 0, false},
        {8000, 0, 0, UINT64_MAX, 0, false},
        {0, 0, 0, 0, 0, false},
        {UINT64_MAX, 0, 0, 0, UINT64_MAX - UINT64_MAX / 8, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool known = !rows[i].known;
        assert_int_equal(
            vk_heap_room(rows[i].heap, rows[i].budget, rows[i].usage, rows[i].own, &known),
            rows[i].room);
        assert_int_equal(known, rows[i].known);
    }
}

static void r15_atoms(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 80000; i += 4) {
        uint64_t atom = UINT64_C(1) << rng_u64(15, i) % 9;
        uint64_t total = 1 + rng_u64(15, i + 1) % 5000;
        uint64_t offset = rng_u64(15, i + 2) % total;
        uint64_t n = 1 + rng_u64(15, i + 3) % (total - offset);
        uint64_t o = offset, m = n;
        vk_atom_range(atom, total, &o, &m);
        assert_int_equal(o % atom, 0);
        assert_true(m % atom == 0 || o + m == total);
        assert_true(o <= offset && o + m >= offset + n && o + m <= total);
        assert_true(offset - o < atom && o + m - offset - n < atom);
    }
    uint64_t o = 10, m = UINT64_MAX;
    vk_atom_range(64, 1000, &o, &m);
    assert_int_equal(o, 0);
    assert_int_equal(m, 1000);
}

// ---- on a device ------------------------------------------------------------------------------

static void fill(unsigned char *bytes, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) bytes[i] = (unsigned char)rng_u64(seed, i);
}

static void round_trip(vk_device *d, vk_memory_kind kind, bool lie)
{
    // The largest goes around the ring of staging buffers more than once.
    static const size_t sizes[] = {1, 3, 17, 4096, (1 << 20) + 1, (28 << 20) + 5};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        size_t n = sizes[k], total = n + 64;
        unsigned char *in = malloc(total), *out = malloc(total);
        vk_buffer b;
        assert_ok(vk_buffer_create(d, total, kind, "a test buffer", &b));
        assert_int_equal(b.bytes, total);
        if (lie) b.coherent = false; // then ranges are flushed and invalidated
        assert_ok(vk_clear(d, &b));
        fill(in, n, k);
        size_t offset = k % 2 ? 37 : 0;
        assert_ok(vk_upload(d, &b, offset, in, n));
        memset(out, 0xee, total);
        assert_ok(vk_download(d, &b, 0, out, total));
        for (size_t i = 0; i < total; i++)
            if (i < offset || i >= offset + n) assert_int_equal(out[i], 0);
        assert_memory_equal(out + offset, in, n);
        assert_ok(vk_download(d, &b, offset + n / 2, out, n - n / 2));
        assert_memory_equal(out, in + n / 2, n - n / 2);
        vk_buffer_destroy(d, &b);
        vk_buffer_destroy(d, &b); // nothing left to destroy
        free(in);
        free(out);
    }
}

static void r21_transfers(void **state)
{
    (void)state;
    for (int mapped = 0; mapped < 2; mapped++) {
        vk_device *d = vulkan_open(&(exec_gpu){.disable = mapped ? NULL : "mapped"});
        round_trip(d, VK_MEMORY_DEVICE, false);
        round_trip(d, VK_MEMORY_DEVICE, true);
        round_trip(d, VK_MEMORY_SHARED, false);
        round_trip(d, VK_MEMORY_READBACK, true);
        vk_device_close(d);
    }
}

static void r9_limits(void **state)
{
    (void)state;
    vk_device *d = vulkan_open(&(exec_gpu){.max_alloc = 8 << 20, .disable = "mapped"});
    vk_buffer b;
    assert_ok(vk_buffer_create(d, 8 << 20, VK_MEMORY_DEVICE, "weights", &b));
    vk_buffer_destroy(d, &b);
    assert_int_equal(vk_buffer_create(d, (8 << 20) + 1, VK_MEMORY_DEVICE, "weights", &b),
                     PM_ERROR_DEVICE);
    assert_non_null(strstr(error_message(), d->title));
    assert_non_null(strstr(error_message(), "weights"));
    assert_non_null(strstr(error_message(), "8.0 MiB"));
    assert_null(b.buffer);
    vk_device_close(d);
}

static void r9_too_much(void **state)
{
    (void)state;
    vk_device *d = vulkan_open(NULL);
    bool known = true;
    assert_true(d->software); // on these drivers heap sizes are never a reason to refuse
    assert_true(vk_device_room(d, &known) == UINT64_MAX);
    assert_false(known);
    vk_buffer b;
    assert_int_equal(vk_buffer_create(d, d->limits.max_alloc + 1, VK_MEMORY_DEVICE, "x", &b),
                     PM_ERROR_DEVICE);
    vk_device_close(d);

    // As a card it has its heap, and a budget that is used up refuses with the numbers.
    d = vulkan_open(NULL);
    d->software = false;
    d->properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    uint64_t heap = d->memory.memoryHeaps[0].size;
    bool has_budget = d->features.memory_budget;
    d->features.memory_budget = false;
    atomic_store(&d->heap_used[0], heap - heap / 8 - (3 << 20));
    assert_int_equal(vk_device_room(d, &known), 3 << 20);
    assert_int_equal(vk_buffer_create(d, 4 << 20, VK_MEMORY_DEVICE, "the cache", &b),
                     PM_ERROR_DEVICE);
    assert_non_null(strstr(error_message(), "the cache: 4.0 MiB wanted, 3.0 MiB free"));
    assert_non_null(strstr(error_message(), d->title));
    assert_ok(vk_buffer_create(d, 2 << 20, VK_MEMORY_DEVICE, "the cache", &b));
    vk_buffer_destroy(d, &b);
    d->features.memory_budget = has_budget;
    vk_device_close(d);
}

// Buffers, a staged upload and a staged download.
static pm_status scenario(vk_device *d)
{
    static unsigned char data[100000];
    vk_buffer a = {0}, b = {0};
    fill(data, sizeof data, 5);
    pm_status status = vk_buffer_create(d, sizeof data, VK_MEMORY_DEVICE, "the first", &a);
    if (status == PM_OK)
        status = vk_buffer_create(d, sizeof data, VK_MEMORY_SHARED, "the second", &b);
    if (status == PM_OK) status = vk_upload(d, &a, 0, data, sizeof data);
    if (status == PM_OK) status = vk_clear(d, &b);
    if (status == PM_OK) status = vk_download(d, &a, 0, data, sizeof data);
    vk_buffer_destroy(d, &b);
    vk_buffer_destroy(d, &a);
    return status;
}

static void r12_failing_allocations(void **state)
{
    (void)state;
    int n = 1;
    for (;; n++) {
        vk_device *d = vulkan_open(&(exec_gpu){.fail_alloc = n, .disable = "mapped"});
        pm_status status = scenario(d);
        bool reached = atomic_load(&d->n_allocs) >= n;
        assert_int_equal(status, reached ? PM_ERROR_DEVICE : PM_OK);
        if (reached) {
            assert_non_null(strstr(error_message(), d->title));
            assert_ok(scenario(d)); // only that one failed
        }
        vk_device_close(d);
        if (!reached) break;
    }
    assert_true(n > 3);
}

static void r18_lost(void **state)
{
    (void)state;
    int n = 1;
    for (;; n++) {
        vk_device *d = vulkan_open(&(exec_gpu){.lose_at_submit = n, .disable = "mapped"});
        pm_status status = scenario(d);
        bool reached = atomic_load(&d->n_submits) >= n;
        assert_int_equal(status, reached ? PM_ERROR_DEVICE : PM_OK);
        if (reached) {
            assert_non_null(strstr(error_message(), d->title));
            int submits = atomic_load(&d->n_submits);
            assert_int_equal(scenario(d), PM_ERROR_DEVICE);
            assert_non_null(strstr(error_message(), "lost"));
            assert_int_equal(vk_alive(d), PM_ERROR_DEVICE);
            assert_int_equal(atomic_load(&d->n_submits), submits); // nothing is tried any more
        }
        vk_device_close(d);
        if (!reached) break;
    }
    assert_true(n > 2);
}

static void memory_is_counted(void **state)
{
    (void)state;
    vk_device *d = vulkan_open(NULL);
    uint64_t before = atomic_load(&d->bytes_used);
    vk_buffer b;
    assert_ok(vk_buffer_create(d, 1 << 20, VK_MEMORY_DEVICE, "x", &b));
    assert_true(atomic_load(&d->bytes_used) >= before + (1 << 20));
    vk_buffer_destroy(d, &b);
    assert_int_equal(atomic_load(&d->bytes_used), before);
    vk_device_close(d);
}

int main(void)
{
    vulkan_driver_use();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r8_memory_types),
        cmocka_unit_test(r10_room),
        cmocka_unit_test(r15_atoms),
        cmocka_unit_test(r21_transfers),
        cmocka_unit_test(r9_limits),
        cmocka_unit_test(r9_too_much),
        cmocka_unit_test(r12_failing_allocations),
        cmocka_unit_test(r18_lost),
        cmocka_unit_test(memory_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
