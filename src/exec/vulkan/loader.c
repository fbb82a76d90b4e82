// The loader library, instances, and what the drivers tell about each device.
#define VOLK_IMPLEMENTATION
#include "exec/vulkan/vk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// volk's function pointers are the process's: they are loaded once, from the first instance, and
// serve every instance and device, because those that the loader hands out dispatch by handle.
// This flag keeps two threads from loading at once.
static atomic_flag loading = ATOMIC_FLAG_INIT;

static bool has_extension(const VkExtensionProperties *list, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(list[i].extensionName, name)) return true;
    return false;
}

static bool has_portability_enumeration(void)
{
    uint32_t n = 0;
    VkExtensionProperties *list = NULL;
    bool has = false;
    if (vkEnumerateInstanceExtensionProperties(NULL, &n, NULL) == VK_SUCCESS && n > 0 &&
        (list = calloc(n, sizeof *list)) != NULL &&
        vkEnumerateInstanceExtensionProperties(NULL, &n, list) >= VK_SUCCESS) {
        has = has_extension(list, n, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
    }
    free(list);
    return has;
}

static pm_status create_instance(VkInstance *out)
{
    if (!vkCreateInstance && volkInitialize() != VK_SUCCESS) {
        return error_set(PM_ERROR_DEVICE,
                         "Vulkan: no loader library on this machine (install libvulkan1, or use "
                         "--device cpu)");
    }
    if (volkGetInstanceVersion() < VK_API_VERSION_1_1) {
        return error_set(PM_ERROR_DEVICE,
                         "Vulkan: the loader library is for Vulkan 1.0, 1.1 is needed");
    }
    const char *extension = VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME;
    bool portability = has_portability_enumeration();
    VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "pumice",
        .pEngineName = "pumice",
        .apiVersion = VK_API_VERSION_1_1,
    };
    VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .flags = portability ? VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR : 0,
        .pApplicationInfo = &application,
        .enabledExtensionCount = portability ? 1 : 0,
        .ppEnabledExtensionNames = &extension,
    };
    VkResult result = vkCreateInstance(&info, NULL, out);
    if (result != VK_SUCCESS) {
        *out = VK_NULL_HANDLE;
        return error_set(PM_ERROR_DEVICE, "Vulkan: no instance: %s%s", vk_result_name(result),
                         result == VK_ERROR_INCOMPATIBLE_DRIVER ? " (no driver is installed)" : "");
    }
    if (volkGetLoadedInstance() == VK_NULL_HANDLE) volkLoadInstance(*out);
    return PM_OK;
}

pm_status vk_instance_create(VkInstance *out)
{
    *out = VK_NULL_HANDLE;
    while (atomic_flag_test_and_set(&loading)) os_cpu_relax();
    pm_status status = create_instance(out);
    atomic_flag_clear(&loading);
    return status;
}

void vk_instance_destroy(VkInstance instance)
{
    if (instance) vkDestroyInstance(instance, NULL);
}

// A compute family; one that doesn't draw where there is one, so that a desktop stays responsive.
static bool find_queue_family(VkPhysicalDevice physical, vk_probe *p)
{
    VkQueueFamilyProperties families[32];
    uint32_t n = sizeof families / sizeof families[0];
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &n, families);
    int best = -1;
    for (uint32_t i = 0; i < n; i++) {
        if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) || families[i].queueCount == 0)
            continue;
        bool draws = (families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT) != 0;
        if (best >= 0 && draws) continue;
        if (best >= 0 && !(families[best].queueFlags & VK_QUEUE_GRAPHICS_BIT)) continue;
        best = (int)i;
    }
    if (best < 0) return false;
    p->queue_family = (uint32_t)best;
    p->timestamp_bits = families[best].timestampValidBits;
    return true;
}

static bool is_translation(uint32_t driver_id)
{
    return driver_id == VK_DRIVER_ID_MOLTENVK || driver_id == VK_DRIVER_ID_MESA_DOZEN;
}

// NVIDIA and Intel's driver for Windows pack their versions in their own ways.
static void version_text(const VkPhysicalDeviceProperties *p, uint32_t driver_id, char *text,
                         size_t n)
{
    uint32_t v = p->driverVersion;
    if (driver_id == VK_DRIVER_ID_NVIDIA_PROPRIETARY)
        snprintf(text, n, "%u.%u.%u", v >> 22, (v >> 14) & 0xff, (v >> 6) & 0xff);
    else if (driver_id == VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS)
        snprintf(text, n, "%u.%u", v >> 14, v & 0x3fff);
    else
        snprintf(text, n, "%u.%u.%u", VK_API_VERSION_MAJOR(v), VK_API_VERSION_MINOR(v),
                 VK_API_VERSION_PATCH(v));
}

// A property or feature struct is linked in only where the device knows it.
#define CHAIN(head, item)                                                                          \
    do {                                                                                           \
        (item)->pNext = (head)->pNext;                                                             \
        (head)->pNext = (item);                                                                    \
    } while (0)

static void probe_properties(const VkExtensionProperties *ext, uint32_t n_ext, vk_probe *p)
{
    VkPhysicalDeviceMaintenance3Properties allocation = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
    VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
    VkPhysicalDeviceSubgroupProperties subgroup = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
    VkPhysicalDeviceDriverProperties driver = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
    VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT};
    VkPhysicalDeviceSubgroupSizeControlProperties sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
    VkPhysicalDeviceShaderIntegerDotProductProperties dot = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES};
    VkPhysicalDeviceMaintenance4Properties buffers = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES};
    VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    bool has_driver = has_extension(ext, n_ext, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME);
    CHAIN(&all, &allocation);
    CHAIN(&all, &id);
    CHAIN(&all, &subgroup);
    p->candidate.has_pci = has_extension(ext, n_ext, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);
    if (has_driver) CHAIN(&all, &driver);
    if (p->candidate.has_pci) CHAIN(&all, &pci);
    if (p->subgroup_size_control) CHAIN(&all, &sizes);
    if (p->int8_dot) CHAIN(&all, &dot);
    if (has_extension(ext, n_ext, VK_KHR_MAINTENANCE_4_EXTENSION_NAME)) CHAIN(&all, &buffers);
    vkGetPhysicalDeviceProperties2(p->physical, &all);

    vk_candidate *c = &p->candidate;
    memcpy(c->uuid, id.deviceUUID, VK_UUID_SIZE);
    memcpy(c->luid, id.deviceLUID, VK_LUID_SIZE);
    c->has_luid = id.deviceLUIDValid;
    c->driver_id = has_driver ? (uint32_t)driver.driverID : 0;
    memcpy(c->pci, (uint32_t[4]){pci.pciDomain, pci.pciBus, pci.pciDevice, pci.pciFunction},
           sizeof c->pci);
    snprintf(p->driver, sizeof p->driver, "%s", has_driver ? driver.driverName : "");
    if (has_driver && driver.driverInfo[0])
        snprintf(p->driver_version, sizeof p->driver_version, "%s", driver.driverInfo);
    else
        version_text(&p->properties, c->driver_id, p->driver_version, sizeof p->driver_version);
    p->max_alloc = allocation.maxMemoryAllocationSize;
    p->max_buffer = buffers.maxBufferSize ? buffers.maxBufferSize : p->max_alloc;
    p->subgroup_size = p->subgroup_min = p->subgroup_max = subgroup.subgroupSize;
    if (p->subgroup_size_control) {
        p->subgroup_min = sizes.minSubgroupSize;
        p->subgroup_max = sizes.maxSubgroupSize;
        p->subgroup_size_stages = sizes.requiredSubgroupSizeStages;
        p->max_subgroups = sizes.maxComputeWorkgroupSubgroups;
    }
    VkSubgroupFeatureFlags needed = VK_SUBGROUP_FEATURE_BASIC_BIT |
                                    VK_SUBGROUP_FEATURE_ARITHMETIC_BIT |
                                    VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    p->subgroup = (subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
                  (subgroup.supportedOperations & needed) == needed;
    p->int8_dot_fast = dot.integerDotProduct4x8BitPackedSignedAccelerated;
}

static void probe_features(const VkExtensionProperties *ext, uint32_t n_ext, vk_probe *p)
{
    VkPhysicalDeviceSubgroupSizeControlFeatures sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
    VkPhysicalDeviceFeatures2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    if (has_extension(ext, n_ext, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME)) CHAIN(&all, &sizes);
    if (has_extension(ext, n_ext, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME))
        CHAIN(&all, &dot);
    vkGetPhysicalDeviceFeatures2(p->physical, &all);
    p->subgroup_size_control = sizes.subgroupSizeControl;
    p->full_subgroups = sizes.computeFullSubgroups;
    p->int8_dot = dot.shaderIntegerDotProduct;
    p->memory_budget = has_extension(ext, n_ext, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    p->portability_subset = has_extension(ext, n_ext, "VK_KHR_portability_subset");
}

static pm_status probe_one(VkPhysicalDevice physical, vk_probe *p)
{
    p->physical = physical;
    vkGetPhysicalDeviceProperties(physical, &p->properties);
    vkGetPhysicalDeviceMemoryProperties(physical, &p->memory);
    vk_candidate *c = &p->candidate;
    snprintf(c->name, sizeof c->name, "%s", p->properties.deviceName);
    c->type = p->properties.deviceType;
    c->vendor_id = p->properties.vendorID;
    c->device_id = p->properties.deviceID;
    c->api_version = p->properties.apiVersion;
    c->computes = find_queue_family(physical, p);
    for (uint32_t i = 0; i < p->memory.memoryHeapCount; i++) {
        const VkMemoryHeap *heap = &p->memory.memoryHeaps[i];
        if ((heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) && heap->size > c->local_bytes)
            c->local_bytes = heap->size;
    }
    version_text(&p->properties, 0, p->driver_version, sizeof p->driver_version);
    if (c->api_version >= VK_API_VERSION_1_1) { // the queries below came with 1.1
        uint32_t n = 0;
        if (vkEnumerateDeviceExtensionProperties(physical, NULL, &n, NULL) < VK_SUCCESS) n = 0;
        VkExtensionProperties *ext = calloc(n ? n : 1, sizeof *ext);
        if (!ext) return error_memory("a list of extensions", n * sizeof *ext);
        if (vkEnumerateDeviceExtensionProperties(physical, NULL, &n, ext) < VK_SUCCESS) n = 0;
        probe_features(ext, n, p);
        probe_properties(ext, n, p);
        c->translated = is_translation(c->driver_id);
        free(ext);
    }
    snprintf(p->title, sizeof p->title, "%.150s (%.60s%s%.100s)", c->name,
             p->driver[0] ? p->driver : "driver", " ", p->driver_version);
    return PM_OK;
}

pm_status vk_probe_all(VkInstance instance, vk_probe **out, uint32_t *n_out)
{
    VkPhysicalDevice physical[64];
    uint32_t n = sizeof physical / sizeof physical[0];
    *out = NULL;
    *n_out = 0;
    VkResult result = vkEnumeratePhysicalDevices(instance, &n, physical);
    if (result < VK_SUCCESS) {
        return error_set(PM_ERROR_DEVICE, "Vulkan: no list of devices: %s", vk_result_name(result));
    }
    vk_probe *probes = calloc(n ? n : 1, sizeof *probes);
    if (!probes) return error_memory("the list of devices", n * sizeof *probes);
    for (uint32_t i = 0; i < n; i++) {
        pm_status status = probe_one(physical[i], &probes[i]);
        if (status != PM_OK) {
            free(probes);
            return status;
        }
    }
    *out = probes;
    *n_out = n;
    return PM_OK;
}
