// Files beside each other in the cache folder, one set for a device and its driver. What is read is
// exactly what this device wrote, or nothing.
#include "exec/vulkan/vk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

// What is written before the data. Every field must be what this device would write.
typedef struct cache_header {
    char magic[8];
    uint32_t version, driver_version, vendor_id, device_id;
    uint8_t device_uuid[VK_UUID_SIZE], cache_uuid[VK_UUID_SIZE];
    uint64_t bytes, checksum; // of the data
} cache_header;
enum { CACHE_VERSION = 1, CACHE_MAX_BYTES = 256 << 20 };

static cache_header header_for(const vk_device *d, const char *data, size_t n)
{
    cache_header h = {
        .magic = "pumiceVK",
        .version = CACHE_VERSION,
        .driver_version = d->properties.driverVersion,
        .vendor_id = d->properties.vendorID,
        .device_id = d->properties.deviceID,
        .bytes = n,
        .checksum = hash_bytes(0, data, n),
    };
    memcpy(h.device_uuid, d->probe.candidate.uuid, VK_UUID_SIZE);
    memcpy(h.cache_uuid, d->properties.pipelineCacheUUID, VK_UUID_SIZE);
    return h;
}

static char *cache_path(const vk_device *d, const char *what)
{
    char uuid[37];
    vk_uuid_text(d->properties.pipelineCacheUUID, uuid);
    size_t n = strlen(d->cache_dir) + strlen(what) + 100;
    char *path = malloc(n);
    if (path)
        snprintf(path, n, "%s/vulkan-%08x-%08x-%s.%s", d->cache_dir, d->properties.vendorID,
                 d->properties.deviceID, uuid, what);
    return path;
}

char *vk_cache_read(const vk_device *d, const char *what, size_t *n)
{
    char *path = d->cache_dir ? cache_path(d, what) : NULL, *file = NULL, *data = NULL;
    size_t n_file = 0;
    *n = 0;
    if (path && os_file_exists(path) &&
        os_read_whole(path, CACHE_MAX_BYTES, &file, &n_file) == PM_OK &&
        n_file >= sizeof(cache_header)) {
        const char *content = file + sizeof(cache_header);
        size_t n_data = n_file - sizeof(cache_header);
        cache_header want = header_for(d, content, n_data);
        if (!memcmp(file, &want, sizeof want) && (data = malloc(n_data + 1)) != NULL) {
            memcpy(data, content, n_data);
            *n = n_data;
        }
    }
    free(file);
    free(path);
    return data;
}

// An unwritable folder costs only time at the next start.
bool vk_cache_write(const vk_device *d, const char *what, const void *data, size_t n)
{
    char *path =
        d->cache_dir && n <= CACHE_MAX_BYTES - sizeof(cache_header) ? cache_path(d, what) : NULL;
    if (!path) return false;
    cache_header header = header_for(d, data, n);
    os_writer *w = NULL;
    pm_status status = os_make_directory(d->cache_dir);
    if (status == PM_OK) status = os_writer_open(path, &w);
    if (status == PM_OK) status = os_writer_write(w, &header, sizeof header);
    if (status == PM_OK) status = os_writer_write(w, data, n);
    if (status == PM_OK) {
        status = os_writer_commit(w);
    } else {
        os_writer_abort(w);
    }
    free(path);
    return status == PM_OK;
}
