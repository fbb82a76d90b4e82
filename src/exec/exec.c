#include "exec/exec.h"

#include <string.h>

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
