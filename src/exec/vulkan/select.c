// Which device: pure functions over a table of what the drivers report.
#include "exec/vulkan/vk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CANDIDATES = 64 };

bool vk_is_software(const vk_candidate *c)
{
    return c->type == VK_PHYSICAL_DEVICE_TYPE_CPU;
}

void vk_uuid_text(const uint8_t uuid[VK_UUID_SIZE], char text[37])
{
    char *out = text;
    for (uint32_t i = 0; i < VK_UUID_SIZE; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) *out++ = '-';
        out += snprintf(out, 3, "%02x", uuid[i]);
    }
}

const char *vk_type_name(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return "discrete";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return "integrated";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return "virtual";
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return "software";
    default: return "other";
    }
}

static int type_rank(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return 0;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return 1;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return 4;
    default: return 3;
    }
}

static bool is_zero(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i]) return false;
    return true;
}

static bool usable(const vk_candidate *c)
{
    return c->computes && c->api_version >= VK_API_VERSION_1_1;
}

// The same card through two drivers. What a driver lists twice are two cards, unless it says that
// they sit in the same slot of the same bus (one driver that is installed twice); then only the
// UUID tells the parts of a divided card from each other.
static bool same_card(const vk_candidate *a, const vk_candidate *b)
{
    if (vk_is_software(a) || vk_is_software(b)) return false;
    if (a->vendor_id != b->vendor_id || a->device_id != b->device_id) return false;
    bool uuids = !is_zero(a->uuid, VK_UUID_SIZE) && !is_zero(b->uuid, VK_UUID_SIZE);
    bool same_uuid = uuids && !memcmp(a->uuid, b->uuid, VK_UUID_SIZE);
    bool two_drivers = a->driver_id != b->driver_id;
    if (a->has_pci && b->has_pci)
        return !memcmp(a->pci, b->pci, sizeof a->pci) && (two_drivers || same_uuid);
    if (!two_drivers) return false;
    if (same_uuid) return true;
    return a->has_luid && b->has_luid && !is_zero(a->luid, VK_LUID_SIZE) &&
           !memcmp(a->luid, b->luid, VK_LUID_SIZE);
}

// Negative: a comes first. Only equal in everything that can be told apart: 0.
static int compare(const vk_candidate *a, const vk_candidate *b)
{
    int by_type = type_rank(a->type) - type_rank(b->type);
    if (by_type) return by_type;
    if (a->local_bytes != b->local_bytes) return a->local_bytes > b->local_bytes ? -1 : 1;
    if (a->translated != b->translated) return a->translated ? 1 : -1;
    for (int i = 0; i < 4; i++) // zeros where it isn't known
        if (a->pci[i] != b->pci[i]) return a->pci[i] < b->pci[i] ? -1 : 1;
    int by_uuid = memcmp(a->uuid, b->uuid, VK_UUID_SIZE);
    if (by_uuid) return by_uuid;
    int by_name = strcmp(a->name, b->name);
    if (by_name) return by_name;
    if (a->driver_id != b->driver_id) return a->driver_id < b->driver_id ? -1 : 1;
    return 0;
}

// Of several native drivers for one card: the maker's for NVIDIA, where Mesa's is the younger one;
// Mesa's for AMD, where the others are no longer developed; otherwise it doesn't matter.
static int driver_rank(uint32_t driver_id)
{
    switch (driver_id) {
    case VK_DRIVER_ID_NVIDIA_PROPRIETARY:
    case VK_DRIVER_ID_MESA_RADV: return 0;
    case VK_DRIVER_ID_AMD_OPEN_SOURCE: return 2;
    default: return 1;
    }
}

// Of two entries for one card: is `a` the one to use?
static bool preferred(const vk_candidate *a, const vk_candidate *b)
{
    if (a->translated != b->translated) return b->translated;
    int rank_a = driver_rank(a->driver_id), rank_b = driver_rank(b->driver_id);
    if (rank_a != rank_b) return rank_a < rank_b;
    return compare(a, b) <= 0;
}

uint32_t vk_rank(const vk_candidate *c, uint32_t n, uint32_t *order)
{
    uint32_t n_order = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool wanted = usable(&c[i]);
        for (uint32_t j = 0; j < n && wanted; j++) {
            if (j == i || !usable(&c[j]) || !same_card(&c[i], &c[j])) continue;
            bool mine = preferred(&c[i], &c[j]), theirs = preferred(&c[j], &c[i]);
            wanted = mine && (!theirs || i < j);
        }
        if (!wanted) continue;
        uint32_t at = n_order++;
        for (; at > 0 && compare(&c[i], &c[order[at - 1]]) < 0; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    return n_order;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool contains(const char *text, const char *part)
{
    for (; *text; text++) {
        size_t i = 0;
        while (part[i] && lower(text[i]) == lower(part[i])) i++;
        if (!part[i]) return true;
    }
    return false;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// 32 hexadecimal digits, with or without dashes.
static bool parse_uuid(const char *text, uint8_t uuid[VK_UUID_SIZE])
{
    int n = 0;
    for (; *text; text++) {
        if (*text == '-') continue;
        int digit = hex_digit(*text);
        if (digit < 0 || n == 2 * VK_UUID_SIZE) return false;
        if (n % 2 == 0)
            uuid[n / 2] = (uint8_t)(digit << 4);
        else
            uuid[n / 2] = (uint8_t)(uuid[n / 2] | digit);
        n++;
    }
    return n == 2 * VK_UUID_SIZE;
}

// "0000:01:00.0", or "01:00.0" in domain 0.
static bool parse_pci(const char *text, uint32_t pci[4])
{
    unsigned v[4];
    int used = 0;
    if (sscanf(text, "%8x:%2x:%2x.%1x%n", &v[0], &v[1], &v[2], &v[3], &used) != 4 || text[used]) {
        v[0] = 0;
        used = 0;
        if (sscanf(text, "%2x:%2x.%1x%n", &v[1], &v[2], &v[3], &used) != 3 || text[used])
            return false;
    }
    for (int i = 0; i < 4; i++) pci[i] = v[i];
    return true;
}

static pm_status nothing(const vk_candidate *c, const uint32_t *order, uint32_t n,
                         const char *selector)
{
    char list[700] = "";
    size_t at = 0;
    for (uint32_t i = 0; i < n && at + 1 < sizeof list; i++) {
        int more = snprintf(list + at, sizeof list - at, "%svulkan:%u %s (%s)", i ? ", " : "", i,
                            c[order[i]].name, vk_type_name(c[order[i]].type));
        at += more > 0 ? (size_t)more : 0;
    }
    if (n == 0)
        return error_set(PM_ERROR_DEVICE, "Vulkan: no device with Vulkan 1.1 and a compute queue");
    if (!selector) {
        return error_set(PM_ERROR_DEVICE,
                         "Vulkan: no GPU, only software drivers: %s (choose one by its number to "
                         "use it)",
                         list);
    }
    return error_set(PM_ERROR_DEVICE, "Vulkan: no device '%.100s'; there are: %s", selector, list);
}

static bool matches(const vk_candidate *c, const char *selector)
{
    uint8_t uuid[VK_UUID_SIZE];
    uint32_t pci[4];
    if (parse_uuid(selector, uuid))
        return !memcmp(c->uuid, uuid, VK_UUID_SIZE) && !is_zero(uuid, VK_UUID_SIZE);
    if (c->has_pci && parse_pci(selector, pci)) return !memcmp(c->pci, pci, sizeof pci);
    return contains(c->name, selector);
}

pm_status vk_select(const vk_candidate *c, uint32_t n, const char *selector, uint32_t *chosen)
{
    uint32_t order[MAX_CANDIDATES];
    if (n > MAX_CANDIDATES) n = MAX_CANDIDATES;
    uint32_t n_order = vk_rank(c, n, order);
    if (!selector || !selector[0]) {
        if (n_order == 0 || vk_is_software(&c[order[0]])) return nothing(c, order, n_order, NULL);
        *chosen = order[0];
        return PM_OK;
    }
    // A number past the last index may still be part of a name: "4090".
    if (strspn(selector, "0123456789") == strlen(selector) && strlen(selector) < 6) {
        unsigned long i = strtoul(selector, NULL, 10);
        if (i < n_order) {
            *chosen = order[i];
            return PM_OK;
        }
    }
    for (uint32_t i = 0; i < n_order; i++) {
        if (!matches(&c[order[i]], selector)) continue;
        *chosen = order[i];
        return PM_OK;
    }
    return nothing(c, order, n_order, selector);
}
