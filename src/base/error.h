// One error convention for all layers: whatever can fail returns a pm_status and leaves one message
// in a per-thread record. A message is one line, "WHERE: WHAT (HOW TO GO ON)", and shows what was
// found and what was expected.
#ifndef PUMICE_BASE_ERROR_H
#define PUMICE_BASE_ERROR_H

#include "pumice.h"

#if defined(__GNUC__)
#define PRINTF_LIKE(text, args) __attribute__((format(printf, text, args)))
#else
#define PRINTF_LIKE(text, args)
#endif

// Records the message (cut at 1023 bytes, line breaks shown as blanks) and returns `code`:
//     return error_set(PM_ERROR_FILE, "%s: cut at byte %" PRIu64, path, at);
pm_status error_set(pm_status code, const char *format, ...) PRINTF_LIKE(2, 3);

// Puts "CONTEXT: " before the recorded message and returns `code` unchanged; does nothing for
// PM_OK. For callers that know the file or option a lower layer does not:
//     return error_in(gguf_read(...), "%s", path);
pm_status error_in(pm_status code, const char *format, ...) PRINTF_LIKE(2, 3);

// error_set(PM_ERROR_RUN, "out of memory ...").
pm_status error_memory(const char *what, uint64_t bytes);

#ifdef __clang_analyzer__
// What the analyzer can't see from here: these return the code they are given, never PM_OK instead.
#define error_set(code, ...)     (error_set((code), __VA_ARGS__), (code))
#define error_memory(what, size) (error_memory((what), (size)), PM_ERROR_RUN)
#endif

// The thread's last recorded message, "" before the first one. Valid until the thread's next
// failure.
const char *error_message(void);

#endif
