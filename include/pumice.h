// pumice: language models from GGUF files on Vulkan GPUs and on the CPU.
#ifndef PUMICE_H
#define PUMICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PM_API __attribute__((visibility("default")))
#else
#define PM_API
#endif

// What a call ended with. The numbers are also the exit statuses of the program.
typedef enum pm_status {
    PM_OK = 0,
    PM_ERROR_RUN = 1,    // failed while running: a template's raise_exception, NaN, I/O, memory
    PM_ERROR_USAGE = 2,  // wrong use: an option, a value, an empty or too long prompt
    PM_ERROR_FILE = 3,   // the file: missing, not GGUF, cut, or something in it is not supported
    PM_ERROR_DEVICE = 4, // the device asked for is missing, lost, or too small
    PM_ERROR_CHECK = 5,  // a check found a mismatch
} pm_status;

#ifdef __cplusplus
}
#endif
#endif
