#include "exec/exec.h"

#include <math.h>
#include <string.h>

#include "base/os.h"

const exec_kind *exec_kind_named(const char *name)
{
    static const exec_kind *const kinds[] = {
        &exec_reference,
        &exec_cpu,
#ifdef PUMICE_VULKAN
        &exec_vulkan,
#endif
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(kinds[i]->name, name)) return kinds[i];
    return NULL;
}

static bool are_plausible(const double *seconds, uint32_t n, double waited)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!isfinite(seconds[i]) || seconds[i] < 0) return false;
        sum += seconds[i];
    }
    return n == 0 || (sum > 0 && sum <= 1.01 * waited); // two clocks never run quite alike
}

pm_status exec_run_timed(const exec_kind *kind, exec *e, const plan *p, uint32_t first,
                         uint32_t count, const plan_step *step, bool host, double *seconds,
                         bool *plausible)
{
    pm_status status = PM_OK;
    double start = os_seconds();
    *plausible = true;
    if (kind->run_timed && !host) {
        status = kind->run_timed(e, p, first, count, step, seconds);
        if (status == PM_OK) *plausible = are_plausible(seconds, count, os_seconds() - start);
        return status;
    }
    for (uint32_t i = 0; i < count && status == PM_OK; i++) {
        status = kind->run(e, p, first + i, 1, step);
        double now = os_seconds();
        seconds[i] = now - start;
        start = now;
    }
    return status;
}
