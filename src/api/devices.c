// The devices that can run a model: `pumice devices --json`.
#include "api/handles.h"
#include "base/os.h"
#include "exec/devices.h"
#include "proof/bandwidth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static json_t *features_json(void)
{
    os_cpu_features f = os_cpu_detect();
    json_t *o = json_object();
    if (json_put(o, "avx2", json_boolean(f.avx2)) &&
        json_put(o, "avx512_vnni", json_boolean(f.avx512_vnni))) {
        return o;
    }
    json_decref(o);
    return NULL;
}

static json_t *limits_json(int n_threads)
{
    os_cpus cpus = os_cpu_counts();
    json_t *o = json_object();
    if (json_put(o, "threads", json_integer(n_threads)) &&
        json_put(o, "affinity", json_integer(cpus.affinity)) &&
        json_put(o, "quota", json_integer(cpus.quota)) &&
        json_put(o, "physical_cores", json_integer(cpus.physical))) {
        return o;
    }
    json_decref(o);
    return NULL;
}

static pm_status cpu_json(const pm_options *options, json_t **out)
{
    os_cpu_features f = os_cpu_detect();
    int n_threads = (int)options_int(options, "threads", os_default_threads());
    uint64_t memory = os_physical_memory();
    json_t *o = json_object();
    bool good = json_put(o, "id", json_word("cpu")) &&
                json_put(o, "name", json_word(f.name[0] ? f.name : "CPU")) &&
                json_put(o, "type", json_word("cpu")) && json_put(o, "vendor_id", json_null()) &&
                json_put(o, "device_id", json_null()) && json_put(o, "driver", json_null()) &&
                json_put(o, "driver_version", json_null()) &&
                json_put(o, "api_version", json_null()) && json_put(o, "uuid", json_null()) &&
                json_put(o, "memory_bytes", memory ? json_size(memory) : json_null()) &&
                json_put(o, "limits", limits_json(n_threads)) &&
                json_put(o, "features", features_json());
    if (good && options_is_on(options, "measure")) {
        double bytes_per_second = 0;
        pm_status status = bandwidth_measure(n_threads, &bytes_per_second);
        if (status != PM_OK) {
            json_decref(o);
            return status;
        }
        good = json_put(o, "bandwidth_gbps", json_finite(bytes_per_second * 1e-9));
    }
    if (!good) {
        json_decref(o);
        return error_memory("a JSON document", 0);
    }
    *out = o;
    return PM_OK;
}

// ---- GPUs -------------------------------------------------------------------------------------

static json_t *gpu_limits(const exec_device *d)
{
    json_t *o = json_object();
    for (uint32_t i = 0; i < d->n_limits; i++)
        if (!json_put(o, d->limits[i].name, json_size(d->limits[i].value))) break;
    return o;
}

static json_t *gpu_features(const exec_device *d, bool used)
{
    json_t *o = json_object();
    for (uint32_t i = 0; i < d->n_features; i++) {
        const exec_device_feature *f = &d->features[i];
        if (!json_put(o, f->name, json_boolean(used ? f->used : f->found))) break;
    }
    return o;
}

static json_t *gpu_heaps(const exec_device *d)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < d->n_heaps; i++) {
        json_t *o = json_object();
        if (!json_put(o, "bytes", json_size(d->heaps[i].bytes)) ||
            !json_put(o, "device_local", json_boolean(d->heaps[i].device_local)) ||
            json_array_append_new(list, o) != 0)
            break;
    }
    return list;
}

// NULL when memory runs out.
static json_t *gpu_json(const exec_device *d)
{
    json_t *o = json_object();
    bool known = d->available != UINT64_MAX;
    if (json_put(o, "id", json_word(d->id)) && json_put(o, "name", json_word(d->name)) &&
        json_put(o, "type", json_word(d->type)) &&
        json_put(o, "vendor_id", json_integer(d->vendor_id)) &&
        json_put(o, "device_id", json_integer(d->device_id)) &&
        json_put(o, "driver", json_word(d->driver)) &&
        json_put(o, "driver_version", json_word(d->driver_version)) &&
        json_put(o, "api_version", json_word(d->api_version)) &&
        json_put(o, "uuid", json_word(d->uuid)) &&
        json_put(o, "pci", d->pci[0] ? json_word(d->pci) : json_null()) &&
        json_put(o, "memory_bytes", json_size(d->memory)) &&
        json_put(o, "available_bytes", known ? json_size(d->available) : json_null()) &&
        json_put(o, "heaps", gpu_heaps(d)) && json_put(o, "limits", gpu_limits(d)) &&
        json_put(o, "features_found", gpu_features(d, false)) &&
        json_put(o, "features", gpu_features(d, true))) {
        return o;
    }
    json_decref(o);
    return NULL;
}

// A device that can't be measured says why; the others are measured all the same.
static bool put_bandwidth(json_t *o, const exec_gpu *options, size_t index)
{
    char selector[24];
    snprintf(selector, sizeof selector, "%zu", index);
    exec_gpu gpu = *options;
    gpu.selector = selector;
    double bytes_per_second = NAN;
    bool known = exec_device_bandwidth(&gpu, &bytes_per_second) == PM_OK;
    return json_put(o, "bandwidth_gbps", json_finite(bytes_per_second * 1e-9)) &&
           json_put(o, "bandwidth_reason", known ? json_null() : json_word(error_message()));
}

static pm_status add_gpus(const pm_options *options, json_t *list)
{
    exec_gpu gpu = params_gpu(options);
    exec_device *devices = NULL;
    size_t n = 0;
    pm_status status = exec_devices(&gpu, &devices, &n, NULL);
    for (size_t i = 0; i < n && status == PM_OK; i++) {
        json_t *o = gpu_json(&devices[i]);
        bool good = o && (!options_is_on(options, "measure") || put_bandwidth(o, &gpu, i));
        if (json_array_append_new(list, o) != 0 || !good)
            status = error_memory("a JSON document", 0);
    }
    free(devices);
    return status;
}

pm_status pm_devices(const pm_options *options, char **json)
{
    json_t *cpu = NULL, *list = json_array(), *o = json_object();
    pm_status status = add_gpus(options, list);
    if (status == PM_OK) status = cpu_json(options, &cpu);
    if (status == PM_OK && json_array_append_new(list, cpu) != 0)
        status = error_memory("a JSON document", 0);
    if (!json_put(o, "devices", list) && status == PM_OK)
        status = error_memory("a JSON document", 0);
    if (status == PM_OK) return json_take(o, json);
    json_decref(o);
    return status;
}
