// Which Vulkan driver a test program runs on. CTest runs every program of tests/vulkan once for
// each driver, named by PUMICE_TEST_DRIVER ("lavapipe", "swiftshader", ...).
#ifndef TEST_SUPPORT_VULKAN_DRIVERS_H
#define TEST_SUPPORT_VULKAN_DRIVERS_H

#include "exec/vulkan/vk.h"

// To be called first in main(), before anything loads Vulkan: sets up the environment for the
// driver that PUMICE_TEST_DRIVER names, and the validation layer. Where a driver's manifest lies:
// in PUMICE_VK_DRIVERS ("lavapipe=FILE;swiftshader=FILE"), else in the usual places, else where
// tools/vulkan_env put it. Without PUMICE_TEST_DRIVER the environment stays as it is.
void vulkan_driver_use(void);

// Is that driver there? Else skips the running test with the reason.
void vulkan_driver_need(void);

// Opens the only device of the driver; skips the running test where there is none, fails it where
// it cannot be opened. options may be NULL.
vk_device *vulkan_open(const exec_gpu *options);

// Is a validation layer watching? "" when not, else which one.
const char *vulkan_validation(void);

#endif
