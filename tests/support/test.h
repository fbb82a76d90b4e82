// What every test includes: cmocka with the headers it needs, and where the data lies.
#ifndef TEST_SUPPORT_TEST_H
#define TEST_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pumice.h"

// Is this a build with the address sanitizer?
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

// assert_ok(call) shows the library's message when the call fails.
const char *error_message(void);
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        pm_status assert_ok_status = (call);                                                       \
        if (assert_ok_status != PM_OK)                                                             \
            fail_msg("%s: status %d: %s", #call, (int)assert_ok_status, error_message());          \
    } while (0)

// The folder of reference data (PUMICE_TEST_DATA, else ../shared/data beside the repository) with
// `name` appended; a pointer into one of several rotating static buffers. Skips the running test,
// with the reason, where the folder is missing.
const char *test_data(const char *name);

// A file of the repository: PUMICE_SOURCE_DIR is set by CMake.
#define test_source(name) PUMICE_SOURCE_DIR "/" name

// A fresh folder for the running program, removed at exit; the name of a file in it.
const char *test_temp(const char *name);

// The whole file, zero-terminated, released with free; fails the test when it can't be read.
char *test_read(const char *path, size_t *n);
void test_write(const char *path, const void *data, size_t n);

// Runs a shell command with stdin from /dev/null unless the command redirects it. Returns its exit
// status (128 + signal when killed). *out and *err (each may be NULL) are released with free.
int test_run(const char *command, char **out, char **err);

#endif
