// The devices that can run a model: `pumice devices --json`.
#include "api/handles.h"
#include "base/os.h"
#include "proof/bandwidth.h"

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

pm_status pm_devices(const pm_options *options, char **json)
{
    json_t *cpu = NULL;
    pm_status status = cpu_json(options, &cpu);
    if (status != PM_OK) return status;
    json_t *list = json_array(), *o = json_object();
    bool good = json_array_append_new(list, cpu) == 0;
    good = json_put(o, "devices", list) && good;
    if (good) return json_take(o, json);
    json_decref(o);
    return error_memory("a JSON document", 0);
}
