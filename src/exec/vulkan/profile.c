// Limits and features in use, and what suits a kind of device: pure functions of a probe.
#include "exec/vulkan/vk.h"

#include <stdio.h>
#include <string.h>

// ---- features ---------------------------------------------------------------------------------

static const struct {
    const char *name; // for --vk-disable
    size_t offset;    // in vk_features
} feature_table[] = {
    {"subgroup", offsetof(vk_features, subgroup)},
    {"subgroup-size", offsetof(vk_features, subgroup_size)},
    {"int8-dot", offsetof(vk_features, int8_dot)},
    {"memory-budget", offsetof(vk_features, memory_budget)},
    {"timestamps", offsetof(vk_features, timestamps)},
    {"mapped", offsetof(vk_features, mapped)},
    {"ahead", offsetof(vk_features, ahead)},
    {"pick", offsetof(vk_features, pick)},
};
enum { N_FEATURES = sizeof feature_table / sizeof feature_table[0] };

const char *vk_feature_name(uint32_t i)
{
    return i < N_FEATURES ? feature_table[i].name : NULL;
}

static bool *feature_at(vk_features *f, uint32_t i)
{
    return (bool *)((char *)f + feature_table[i].offset);
}

bool vk_feature_value(const vk_features *f, uint32_t i)
{
    vk_features copy = *f;
    return i < N_FEATURES && *feature_at(&copy, i);
}

vk_features vk_features_found(const vk_probe *p)
{
    uint32_t size = p->subgroup_size;
    bool good_size = size >= 4 && size <= 128 && (size & (size - 1)) == 0;
    vk_features f = {
        .subgroup = p->subgroup && good_size,
        .subgroup_size = p->subgroup_size_control && p->full_subgroups &&
                         (p->subgroup_size_stages & VK_SHADER_STAGE_COMPUTE_BIT) &&
                         size >= p->subgroup_min && size <= p->subgroup_max,
        .int8_dot = p->int8_dot,
        .memory_budget = p->memory_budget,
        .timestamps = p->timestamp_bits > 0 && p->properties.limits.timestampPeriod > 0,
        .mapped = true,
        .ahead = true,
        .pick = true,
    };
    return f;
}

// ", NAME" behind what `list` holds, cut where it is full.
static void add_name(char *list, size_t size, const char *name)
{
    size_t at = strlen(list);
    snprintf(list + at, size - at, "%s%s", at ? ", " : "", name);
}

static pm_status unknown_feature(const char *name, size_t n)
{
    char known[200] = "all";
    for (uint32_t i = 0; i < N_FEATURES; i++) add_name(known, sizeof known, feature_table[i].name);
    return error_set(PM_ERROR_USAGE, "no Vulkan feature '%.*s' to disable (there are: %s)",
                     (int)(n < 60 ? n : 60), name, known);
}

pm_status vk_features_used(const vk_probe *p, const exec_gpu *options, vk_features *out)
{
    vk_features f = vk_features_found(p);
    if (options->minimum_limits) f.subgroup = f.int8_dot = false;
    // A software driver's logits lie in the host's memory already.
    if (vk_is_software(&p->candidate) && !options->pick) f.pick = false;
    const char *text = options->disable ? options->disable : "";
    while (*text) {
        size_t n = strcspn(text, ",");
        bool all = n == 3 && !strncmp(text, "all", n), found = n == 0 || all;
        for (uint32_t i = 0; i < N_FEATURES; i++) {
            const char *name = feature_table[i].name;
            if (!all && (strlen(name) != n || strncmp(text, name, n) != 0)) continue;
            *feature_at(&f, i) = false;
            found = true;
        }
        if (!found) return unknown_feature(text, n);
        text += n;
        if (*text == ',') text++;
    }
    f.subgroup_size = f.subgroup_size && f.subgroup;
    *out = f;
    return PM_OK;
}

// ---- limits -----------------------------------------------------------------------------------

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint32_t least32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// The specification's required limits: what every device has.
static void lower_to_minimum(vk_limits *l)
{
    l->max_binding = least(l->max_binding, UINT64_C(1) << 27);
    l->storage_align = 256;
    l->max_invocations = least32(l->max_invocations, 128);
    l->max_shared = least32(l->max_shared, 16384);
    l->subgroup_size = 0;
}

pm_status vk_limits_used(const vk_probe *p, const exec_gpu *options, const vk_features *features,
                         vk_limits *out)
{
    const VkPhysicalDeviceLimits *d = &p->properties.limits;
    if (options->max_alloc && options->max_alloc < VK_MIN_MAX_ALLOC)
        return error_set(PM_ERROR_USAGE, "max-alloc must be at least %d bytes", VK_MIN_MAX_ALLOC);
    if (options->max_binding && options->max_binding < VK_MIN_MAX_BINDING)
        return error_set(PM_ERROR_USAGE, "max-binding must be at least %d bytes",
                         VK_MIN_MAX_BINDING);
    vk_limits l = {
        .max_alloc = least(least(p->max_alloc, p->max_buffer), UINT64_C(1) << 30),
        .max_binding = d->maxStorageBufferRange,
        .storage_align = d->minStorageBufferOffsetAlignment,
        // A workgroup is a line of invocations.
        .max_invocations =
            least32(d->maxComputeWorkGroupInvocations, d->maxComputeWorkGroupSize[0]),
        .max_shared = d->maxComputeSharedMemorySize,
        .max_subgroups = features->subgroup_size ? p->max_subgroups : 0,
        .subgroup_size = features->subgroup ? p->subgroup_size : 0,
        .timestamp_ns = features->timestamps ? (double)d->timestampPeriod : 0,
        .timestamp_mask =
            p->timestamp_bits >= 64 ? UINT64_MAX : (UINT64_C(1) << p->timestamp_bits) - 1,
    };
    for (int i = 0; i < 3; i++) l.max_groups[i] = least32(d->maxComputeWorkGroupCount[i], 65535);
    if (l.storage_align < 16) l.storage_align = 16;
    if (l.max_binding > INT32_MAX) l.max_binding = INT32_MAX + UINT64_C(1); // in 32-bit words: safe
    if (options->minimum_limits) lower_to_minimum(&l);
    if (options->max_alloc) l.max_alloc = least(l.max_alloc, options->max_alloc);
    if (options->max_binding) l.max_binding = least(l.max_binding, options->max_binding);
    l.max_binding = least(l.max_binding, l.max_alloc) / l.storage_align * l.storage_align;
    *out = l;
    return PM_OK;
}

// ---- profiles ---------------------------------------------------------------------------------

enum { ANY = -1 };

// The first row that fits is taken. driver: VkDriverId; type: VkPhysicalDeviceType.
static const struct {
    int driver, type;
    vk_profile profile;
} profile_table[] = {
    // Measured on one core (Q8_0, 2048 x 2048): a lane with four rows of its own reads weights at
    // 2.2 to 2.4 GB/s with either act, a subgroup that shares rows at 1.2 (f32) and 2.0 (q8, int8
    // dot product); with 64 step rows 6 against 2 and 3 G multiply-adds a second. Eight rows win
    // nothing. Every barrier costs 7 us, so attention is split coarsely.
    {VK_DRIVER_ID_MESA_LLVMPIPE, ANY, {"lavapipe", 64, 4, 32, 32, 512, false, true, true}},
    // Measured: four rows a subgroup with the int8 dot product read 0.59 GB/s (eight rows 0.39),
    // without it 0.20; lanes with rows of their own 0.26 and 0.29, and 0.23 G multiply-adds a
    // second against 0.4 to 0.6 in tiles.
    {VK_DRIVER_ID_GOOGLE_SWIFTSHADER, ANY, {"swiftshader", 64, 4, 32, 32, 512, false, true, false}},
    // Any other software driver: like the two above, for want of figures.
    {ANY, VK_PHYSICAL_DEVICE_TYPE_CPU, {"software", 64, 4, 32, 32, 512, false, true, false}},
    // Not measured yet. Decode is bound by memory and by the number of dispatches: act=f32 needs
    // two fewer in each layer. 128 invocations are four subgroups of 32 or two of 64, two rows each
    // keep enough groups in flight for a large card; keys are split finely for the same reason.
    {ANY,
     VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
     {"discrete", 128, 2, 64, 64, 128, true, false, false}},
    // Not measured yet. Few cores that share the host's memory: more rows a group, coarser splits.
    {ANY,
     VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
     {"integrated", 64, 4, 64, 32, 256, true, false, false}},
    // What nothing is known about: what the specification's minimum can do.
    {ANY, ANY, {"default", 64, 2, 32, 32, 256, true, false, false}},
};

const vk_profile *vk_profile_for(const vk_probe *p)
{
    uint32_t i = 0;
    while ((profile_table[i].driver != ANY &&
            (uint32_t)profile_table[i].driver != p->candidate.driver_id) ||
           (profile_table[i].type != ANY &&
            (VkPhysicalDeviceType)profile_table[i].type != p->candidate.type))
        i++;
    return &profile_table[i].profile;
}

pm_status vk_profile_used(const vk_probe *p, const exec_gpu *options, const vk_profile **out)
{
    char known[200] = "";
    *out = vk_profile_for(p);
    if (!options->profile) return PM_OK;
    for (size_t i = 0; i < sizeof profile_table / sizeof profile_table[0]; i++) {
        *out = &profile_table[i].profile;
        if (!strcmp((*out)->name, options->profile)) return PM_OK;
        add_name(known, sizeof known, (*out)->name);
    }
    return error_set(PM_ERROR_USAGE, "no kind of device '%.40s' (there are: %s)", options->profile,
                     known);
}
