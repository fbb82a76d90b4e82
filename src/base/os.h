// Everything that is the operating system's: no other file includes a system header. The files
// os_posix*.c implement it.
#ifndef PUMICE_BASE_OS_H
#define PUMICE_BASE_OS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

// ---- files ------------------------------------------------------------------------------------

// A file opened for reading, whole or in parts. `map` is its mapped content, or NULL when it was
// opened without mapping (then os_file_read is the way). Thread-safe after opening.
typedef struct os_file os_file;

// Fails with PM_ERROR_FILE: missing, a directory, unreadable.
pm_status os_file_open(const char *path, bool map, os_file **out);
void os_file_close(os_file *f); // accepts NULL
uint64_t os_file_size(const os_file *f);
const void *os_file_map(const os_file *f);
// Reads exactly n bytes at `offset`; PM_ERROR_FILE when the file has become shorter.
pm_status os_file_read(os_file *f, uint64_t offset, void *dst, uint64_t n);
// Tells the system that these bytes of the map won't be needed soon: they stop counting as ours.
void os_file_drop(os_file *f, uint64_t offset, uint64_t n);
// Asks for these bytes to be read ahead.
void os_file_prefetch(os_file *f, uint64_t offset, uint64_t n);

// While `run(arg)` executes, a mapped file that shrinks under us (SIGBUS) makes this return false
// instead of ending the process. Used by loaders around their reads of mapped bytes; `run` must
// hold no lock. Nests per thread.
bool os_guard_mapped(void (*run)(void *arg), void *arg);

// The whole content of a small file ("-": standard input), at most `max` bytes, zero-terminated;
// release with free.
pm_status os_read_whole(const char *path, uint64_t max, char **data, size_t *n);

// A file that appears under its name only when it is complete: written beside (PATH.part-PID),
// renamed by commit. Any failure, and abort, removes it. One that replaces another has its
// permissions; links stay, and what they lead to is replaced. What is no regular file (a pipe, a
// terminal) is written itself.
typedef struct os_writer os_writer;
pm_status os_writer_open(const char *path, os_writer **out);
pm_status os_writer_write(os_writer *w, const void *data, uint64_t n);
uint64_t os_writer_offset(const os_writer *w); // bytes written so far
pm_status os_writer_commit(os_writer *w);      // frees w in any case
void os_writer_abort(os_writer *w);            // accepts NULL

bool os_is_directory(const char *path);
bool os_file_exists(const char *path);
bool os_same_file(const char *a, const char *b); // both exist and are one, links included
// Bytes that we may write there; UINT64_MAX where unknown.
uint64_t os_free_room(const char *folder);
// Creates the folder and its parents.
pm_status os_make_directory(const char *path);
// Calls `visit` with each name in a folder (without . and ..), sorted; missing folder: none.
pm_status os_list_directory(const char *path, void (*visit)(void *arg, const char *name),
                            void *arg);
// "$HOME/..." for "~/..."; a copy to be released with free, NULL when memory runs out.
char *os_expand_home(const char *path);

// ---- time, memory, processors -----------------------------------------------------------------

double os_seconds(void);       // monotonic clock
double os_wall_seconds(void);  // since 1970-01-01 UTC
double os_local_seconds(void); // the same of what clocks on the wall show here
void os_sleep(double seconds);
uint64_t os_random_seed(void);     // from the system's entropy
uint64_t os_peak_rss(void);        // bytes; 0 where unknown
uint64_t os_physical_memory(void); // bytes; 0 where unknown

// Zeroed pages; NULL when there is no memory. `huge`: huge ones where the system has them. Reading
// them is faster, but their first use can take many times longer (a virtual machine may have to
// fetch all of one from its host): what is wanted soon takes ordinary ones and gathers them later.
void *os_pages_alloc(uint64_t n, bool huge);
void os_pages_free(void *p, uint64_t n);
// Copies ordinary pages into huge ones in the same place while others use them; ends when it is
// done, when *stop is set (checked every few milliseconds) or where the system can't.
void os_pages_gather(void *p, uint64_t n, const atomic_bool *stop);

// What R60 asks for: threads = min(affinity, container quota, physical cores). 0: unknown.
typedef struct os_cpus {
    int affinity, quota, physical;
} os_cpus;
os_cpus os_cpu_counts(void);
int os_default_threads(void);

typedef struct os_cpu_features {
    bool avx2; // with fma and f16c
    bool avx512_vnni;
    char name[64];
} os_cpu_features;
os_cpu_features os_cpu_detect(void);

// ---- threads ----------------------------------------------------------------------------------

typedef struct os_thread os_thread;
pm_status os_thread_start(void (*run)(void *arg), void *arg, os_thread **out);
void os_thread_join(os_thread *t); // frees t; accepts NULL
// The calling thread runs from now on only where a core has nothing else to do (if the system can).
void os_thread_be_idle(void);

typedef struct os_mutex os_mutex; // a mutex with its condition
os_mutex *os_mutex_create(void);  // NULL when there is no memory
void os_mutex_destroy(os_mutex *m);
void os_mutex_lock(os_mutex *m);
void os_mutex_unlock(os_mutex *m);
void os_mutex_wait(os_mutex *m); // releases, sleeps until a wake, holds it again; may wake early
void os_mutex_wake(os_mutex *m); // all that wait

void os_cpu_relax(void); // one spin of a busy loop

// ---- terminal and signals (the command line only) ---------------------------------------------

bool os_is_terminal(int fd);
int os_terminal_width(void); // 80 where unknown
// After this, interrupts (Ctrl-C) are counted instead of ending the process, a broken pipe is an
// error of the write instead of a signal.
void os_interrupts_catch(void);
void os_interrupts_release(void); // they end the process again
void os_pipe_errors(void);        // only the second half
int os_interrupts(void);          // how many so far
void os_interrupts_clear(void);
// `run(arg)` is called inside the signal handler with each interrupt: it may do what such code may.
void os_interrupts_call(void (*run)(void *arg), void *arg);
// While `wait`, a signal that asks the process to end (SIGTERM, SIGHUP) counts as an interrupt, and
// os_end_asked says so from then on; the second one ends it at once.
void os_ends_wait(bool wait);
bool os_end_asked(void);
// Ends the process as if the interrupt had not been caught (exit status 130), or by the signal that
// asked for it (143). Also from a handler.
void os_die_by_interrupt(void);
// Gives a closed stdin, stdout or stderr a descriptor that reads as empty and can't be written, so
// that no file opened later takes its number.
void os_standard_streams(void);
// Remembers how the terminal of stdin is set: an end by a signal puts it back.
void os_terminal_keep(void);
// What a signal that ends the process writes to stdout (1) or stderr (2) first, because the
// terminal is in a state that only this undoes; NULL: nothing. The text must stay.
void os_terminal_undo(int fd, const char *text);
// Was the process stopped and continued since the last call?
bool os_continued(void);
// Has the terminal (of os_terminal_keep) another size since the last call?
bool os_resized(void);
enum { OS_READ_END = -1, OS_READ_SIGNAL = -2 };
// One byte, 0 to 255, or why there is none.
int os_read_byte(int fd);

// ---- other programs ---------------------------------------------------------------------------

// Runs a program (found by PATH, without arguments or a shell) with `input` as its standard input
// and gives what it wrote to its standard output, zero-terminated, released with free. An interrupt
// ends it. PM_ERROR_RUN: it can't be run, was interrupted, or wrote more than `max` bytes.
pm_status os_run_program(const char *program, const char *input, size_t n, size_t max,
                         char **output, size_t *n_output, int *exit_status);

#endif
