#include "support/test.h"
#include "support/vulkan_drivers.h"

#include "base/os.h"

enum { PATH_BYTES = 1024 };

static char reason[PATH_BYTES]; // why the driver can't be had; "": it can
static char layer[64];

// "NAME=FILE;..." in PUMICE_VK_DRIVERS
static bool from_environment(const char *name, char *path)
{
    const char *text = getenv("PUMICE_VK_DRIVERS");
    size_t n_name = strlen(name);
    while (text && *text) {
        size_t n = strcspn(text, ";");
        if (n > n_name && text[n_name] == '=' && !strncmp(text, name, n_name)) {
            snprintf(path, PATH_BYTES, "%.*s", (int)(n - n_name - 1), text + n_name + 1);
            return true;
        }
        text += n + (text[n] == ';');
    }
    return false;
}

static bool first_file(const char *const *files, char *path)
{
    for (; *files; files++) {
        snprintf(path, PATH_BYTES, "%s", *files);
        if (os_file_exists(path)) return true;
    }
    return false;
}

static bool find_driver(const char *name, char *path)
{
    if (from_environment(name, path)) return os_file_exists(path);
    static const char *const lavapipe[] = {
        "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json",
        "/usr/share/vulkan/icd.d/lvp_icd.aarch64.json",
        "/usr/share/vulkan/icd.d/lvp_icd.json",
        NULL,
    };
    if (!strcmp(name, "lavapipe") || !strcmp(name, "lavapipe-128") || !strcmp(name, "lavapipe-512"))
        return first_file(lavapipe, path);
    snprintf(path, PATH_BYTES, "%s/%s/icd.json", test_source("build/vulkan"), name);
    return os_file_exists(path);
}

// The newer layer finds more; on a second driver the distribution's has its turn.
static void use_validation(const char *driver)
{
    static const char *const distribution[] = {
        "/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json",
        "/etc/vulkan/explicit_layer.d/VkLayer_khronos_validation.json",
        NULL,
    };
    const char *wanted = getenv("PUMICE_TEST_VALIDATION"); // "off", "newer", "distribution"
    char path[PATH_BYTES];
    bool has_old = first_file(distribution, path);
    const char *folder = test_source("build/vulkan/layers");
    bool has_new = os_file_exists(test_source("build/vulkan/layers/VkLayer_newer.json"));
    if ((wanted && !strcmp(wanted, "off")) || (!has_old && !has_new)) return;
    bool newer = has_new && (!has_old || strcmp(driver, "swiftshader") != 0);
    if (wanted && has_new && !strcmp(wanted, "newer")) newer = true;
    if (wanted && has_old && !strcmp(wanted, "distribution")) newer = false;
    setenv("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation", 1);
    if (newer) {
        setenv("VK_LAYER_PATH", folder, 1);
        setenv("VK_LAYER_VALIDATE_SYNC", "1", 1);
        setenv("VK_LAYER_SYNCVAL_SHADER_ACCESSES_HEURISTIC", "1", 1);
    } else {
        setenv("VK_LAYER_ENABLES",
               "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT:"
               "VALIDATION_CHECK_ENABLE_SYNCHRONIZATION_VALIDATION_QUEUE_SUBMIT",
               1);
    }
    snprintf(layer, sizeof layer, "%s", newer ? "newer" : "distribution");
}

// What drivers keep for themselves is found through their own variables, or suppressed by their
// name. What a test forgets to destroy on a device is reported by the validation layer.
#if SANITIZED
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libvk_swiftshader\nleak:libvulkan_lvp\nleak:libLLVM\nleak:libVkLayer\n"
           "leak:libvulkan.so\n";
}
#endif

// One instance stays to the end, so that drivers and layers are loaded once: the newer layer takes
// a thread-specific key each time that it is loaded, and aborts when there are no more (1024).
// Under the address sanitizer their names would be gone too.
static void keep_drivers_loaded(void)
{
    static VkInstance kept;
    if (vk_instance_create(&kept) != PM_OK) kept = VK_NULL_HANDLE;
}

void vulkan_driver_use(void)
{
    const char *name = getenv("PUMICE_TEST_DRIVER");
    char path[PATH_BYTES];
    if (!name) return;
    if (!find_driver(name, path)) {
        snprintf(reason, sizeof reason, "no Vulkan driver %s (tools/vulkan_env gets it)", name);
        return;
    }
    setenv("VK_ICD_FILENAMES", path, 1);
    setenv("VK_DRIVER_FILES", path, 1);
    // Mesa's width in bits makes subgroups of 4, 8 or 16.
    if (!strcmp(name, "lavapipe-128")) setenv("LP_NATIVE_VECTOR_WIDTH", "128", 1);
    if (!strcmp(name, "lavapipe-512")) setenv("LP_NATIVE_VECTOR_WIDTH", "512", 1);
    setenv("MESA_SHADER_CACHE_DIR", test_source("build/vulkan/mesa-cache"), 0);
    setenv("LP_NUM_THREADS", "0", 0); // the shapes are tiny: threads cost more than they bring
    use_validation(name);
    printf("driver %s, %s\n", name, layer[0] ? layer : "no validation layer");
    fflush(stdout);
    keep_drivers_loaded();
}

void vulkan_driver_need(void)
{
    if (!reason[0]) return;
    print_message("SKIPPED: %s\n", reason);
    skip();
}

vk_device *vulkan_open(const exec_gpu *options)
{
    vulkan_driver_need();
    exec_gpu o = options ? *options : (exec_gpu){0};
    if (!o.selector) o.selector = "0";
    vk_device *d = NULL;
    assert_ok(vk_device_open(&o, &d));
    return d;
}

const char *vulkan_validation(void)
{
    return layer;
}
