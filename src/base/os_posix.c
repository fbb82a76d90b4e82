#include "base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/buf.h"

// ---- files ------------------------------------------------------------------------------------

struct os_file {
    int fd;
    uint64_t size;
    void *map;
};

static pm_status open_failed(const char *path)
{
    if (errno == ENOENT) return error_set(PM_ERROR_FILE, "%s: no such file", path);
    return error_set(PM_ERROR_FILE, "%s: cannot be opened (%s)", path, strerror(errno));
}

pm_status os_file_open(const char *path, bool map, os_file **out)
{
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe is refused, not waited for
    if (fd < 0) return open_failed(path);
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return error_set(PM_ERROR_FILE, "%s: %s", path,
                         S_ISDIR(st.st_mode) ? "is a directory, not a file"
                                             : "is not a regular file");
    }
    os_file *f = calloc(1, sizeof *f);
    if (!f) {
        close(fd);
        return error_memory("a file handle", sizeof *f);
    }
    *f = (os_file){.fd = fd, .size = (uint64_t)st.st_size};
    if (map && f->size) {
        void *p = mmap(NULL, f->size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) {
            pm_status status = error_set(PM_ERROR_FILE, "%s: cannot be mapped: %s (try --no-mmap)",
                                         path, strerror(errno));
            os_file_close(f);
            return status;
        }
        f->map = p;
    }
    *out = f;
    return PM_OK;
}

void os_file_close(os_file *f)
{
    if (!f) return;
    if (f->map) munmap(f->map, f->size);
    close(f->fd);
    free(f);
}

uint64_t os_file_size(const os_file *f)
{
    return f->size;
}

const void *os_file_map(const os_file *f)
{
    return f->map;
}

pm_status os_file_read(os_file *f, uint64_t offset, void *dst, uint64_t n)
{
    char *to = dst;
    while (n > 0) {
        size_t part = n > (1u << 30) ? (1u << 30) : (size_t)n;
        ssize_t got = pread(f->fd, to, part, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return error_set(PM_ERROR_FILE, "reading failed: %s", strerror(errno));
        if (got == 0)
            return error_set(PM_ERROR_FILE, "the file ended at byte %" PRIu64 " while it was read",
                             offset);
        to += got;
        offset += (uint64_t)got;
        n -= (uint64_t)got;
    }
    return PM_OK;
}

// Shrinks [offset, offset + n) to whole pages.
static void advise(os_file *f, uint64_t offset, uint64_t n, int advice)
{
    if (!f->map || offset >= f->size) return;
    if (n > f->size - offset) n = f->size - offset;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t begin = (offset + page - 1) / page * page, end = (offset + n) / page * page;
    if (offset + n == f->size) end = offset + n;
    if (begin < end) madvise((char *)f->map + begin, end - begin, advice);
}

void os_file_drop(os_file *f, uint64_t offset, uint64_t n)
{
    advise(f, offset, n, MADV_DONTNEED);
}

void os_file_prefetch(os_file *f, uint64_t offset, uint64_t n)
{
    advise(f, offset, n, MADV_WILLNEED);
}

static _Thread_local sigjmp_buf *guard_target;
static struct sigaction guard_before; // what the program around us had for its own maps

static void on_bus_error(int signal_number, siginfo_t *info, void *context)
{
    if (guard_target) siglongjmp(*guard_target, 1);
    if (guard_before.sa_flags & SA_SIGINFO) {
        guard_before.sa_sigaction(signal_number, info, context);
    } else if (guard_before.sa_handler != SIG_DFL && guard_before.sa_handler != SIG_IGN) {
        guard_before.sa_handler(signal_number);
    } else {
        signal(signal_number, SIG_DFL);
        raise(signal_number);
    }
}

// Again where somebody has put another handler in the place since.
static void guard_install(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_NODEFER | SA_SIGINFO};
    struct sigaction now;
    pthread_mutex_lock(&lock);
    sigaction(SIGBUS, NULL, &now);
    if (!(now.sa_flags & SA_SIGINFO) || now.sa_sigaction != on_bus_error) {
        guard_before = now;
        sigaction(SIGBUS, &action, NULL);
    }
    pthread_mutex_unlock(&lock);
}

bool os_guard_mapped(void (*run)(void *arg), void *arg)
{
    guard_install();
    sigset_t bus, mask; // a blocked SIGBUS would end the process unseen
    sigemptyset(&bus);
    sigaddset(&bus, SIGBUS);
    pthread_sigmask(SIG_UNBLOCK, &bus, &mask);
    sigjmp_buf here;
    sigjmp_buf *volatile outer = guard_target;
    volatile bool whole = false;
    if (!sigsetjmp(here, 1)) {
        guard_target = &here;
        run(arg);
        whole = true;
    }
    guard_target = outer;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    return whole;
}

pm_status os_read_whole(const char *path, uint64_t max, char **data, size_t *n)
{
    bool standard_input = !strcmp(path, "-");
    int fd = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return open_failed(path);
    buf content = {0};
    pm_status status = PM_OK;
    char part[16384];
    for (;;) {
        ssize_t got = read(fd, part, sizeof part);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            status = error_set(PM_ERROR_FILE, "%s: cannot be read: %s",
                               standard_input ? "standard input" : path, strerror(errno));
            break;
        }
        if (got == 0) break;
        if (content.len + (size_t)got > max) {
            status =
                error_set(PM_ERROR_FILE, "%s: is longer than the %" PRIu64 " bytes allowed here",
                          standard_input ? "standard input" : path, max);
            break;
        }
        buf_add(&content, part, (size_t)got);
    }
    if (!standard_input) close(fd);
    if (status == PM_OK) return buf_take(&content, data, n);
    buf_free(&content);
    return status;
}

struct os_writer {
    FILE *file;
    char *path;   // as it was given
    char *target; // what links lead to
    char *part;   // NULL: the target itself is written, being no regular file
    uint64_t offset;
};

// Who may read the old file may read the new one, nobody else.
static FILE *create_file(const char *path, const struct stat *old)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return NULL;
    if (!old || fchmod(fd, old->st_mode & 07777) == 0) {
        FILE *file = fdopen(fd, "wb");
        if (file) return file;
    }
    int error = errno;
    close(fd);
    errno = error;
    return NULL;
}

pm_status os_writer_open(const char *path, os_writer **out)
{
    *out = NULL;
    struct stat old;
    os_writer *w = calloc(1, sizeof *w);
    bool exists = stat(path, &old) == 0, beside = !exists || S_ISREG(old.st_mode);
    size_t n = 0;
    if (w) {
        w->path = strdup(path);
        w->target = exists ? realpath(path, NULL) : NULL;
        if (!w->target) w->target = strdup(path);
        n = w->target ? strlen(w->target) + 32 : 0;
        if (n && beside) w->part = malloc(n);
    }
    if (!w || !w->path || !w->target || (beside && !w->part)) {
        os_writer_abort(w);
        return error_memory("a file name", strlen(path));
    }
    if (beside) {
        snprintf(w->part, n, "%s.part-%ld", w->target, (long)getpid());
        w->file = create_file(w->part, exists ? &old : NULL);
    } else {
        w->file = fopen(w->target, "wb");
    }
    if (!w->file) {
        pm_status status =
            error_set(PM_ERROR_RUN, "%s: cannot be written: %s", path, strerror(errno));
        os_writer_abort(w);
        return status;
    }
    setvbuf(w->file, NULL, _IOFBF, 1 << 20);
    *out = w;
    return PM_OK;
}

pm_status os_writer_write(os_writer *w, const void *data, uint64_t n)
{
    if (n && fwrite(data, 1, n, w->file) != n)
        return error_set(PM_ERROR_RUN, "%s: writing failed: %s", w->path, strerror(errno));
    w->offset += n;
    return PM_OK;
}

uint64_t os_writer_offset(const os_writer *w)
{
    return w->offset;
}

pm_status os_writer_commit(os_writer *w)
{
    int error = 0;
    if (fflush(w->file) != 0 || (w->part && fsync(fileno(w->file)) != 0)) error = errno;
    if (fclose(w->file) != 0 && !error) error = errno;
    w->file = NULL;
    if (!error && w->part && rename(w->part, w->target) != 0) error = errno;
    pm_status status = PM_OK;
    if (error) {
        status = error_set(PM_ERROR_RUN, "%s: writing failed: %s", w->path, strerror(error));
    } else {
        free(w->part); // nothing left for abort to remove
        w->part = NULL;
    }
    os_writer_abort(w);
    return status;
}

void os_writer_abort(os_writer *w)
{
    if (!w) return;
    if (w->file) fclose(w->file);
    if (w->part) unlink(w->part);
    free(w->path);
    free(w->target);
    free(w->part);
    free(w);
}

bool os_is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool os_file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

bool os_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

uint64_t os_free_room(const char *folder)
{
    struct statvfs s;
    return statvfs(folder, &s) == 0 ? (uint64_t)s.f_bavail * (uint64_t)s.f_frsize : UINT64_MAX;
}

pm_status os_make_directory(const char *path)
{
    if (!*path) return error_set(PM_ERROR_RUN, "the empty path is no folder");
    char *copy = strdup(path);
    if (!copy) return error_memory("a path", strlen(path));
    pm_status status = PM_OK;
    for (char *c = copy + 1; status == PM_OK; c++) {
        if (*c != '/' && *c != 0) continue;
        char end = *c;
        *c = 0;
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            status = error_set(PM_ERROR_RUN, "%s: cannot be created: %s", copy, strerror(errno));
        *c = end;
        if (end == 0) break;
    }
    free(copy);
    return status;
}

pm_status os_list_directory(const char *path, void (*visit)(void *arg, const char *name), void *arg)
{
    struct dirent **names;
    int n = scandir(path, &names, NULL, alphasort);
    if (n < 0 && (errno == ENOENT || errno == ENOTDIR)) return PM_OK;
    if (n < 0) return error_set(PM_ERROR_FILE, "%s: cannot be read: %s", path, strerror(errno));
    for (int i = 0; i < n; i++) {
        const char *name = names[i]->d_name;
        if (strcmp(name, ".") && strcmp(name, "..")) visit(arg, name);
        free(names[i]);
    }
    free(names);
    return PM_OK;
}

char *os_expand_home(const char *path)
{
    const char *home = getenv("HOME");
    if (path[0] != '~' || path[1] != '/' || !home) return strdup(path);
    size_t n = strlen(home) + strlen(path);
    char *full = malloc(n);
    if (full) snprintf(full, n, "%s%s", home, path + 1);
    return full;
}

// ---- time, memory, processors -----------------------------------------------------------------

static double clock_seconds(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double os_seconds(void)
{
    return clock_seconds(CLOCK_MONOTONIC);
}

double os_wall_seconds(void)
{
    return clock_seconds(CLOCK_REALTIME);
}

double os_local_seconds(void)
{
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    double seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    return localtime_r(&now.tv_sec, &local) ? seconds + (double)local.tm_gmtoff : seconds;
}

void os_sleep(double seconds)
{
    if (!(seconds > 0)) return;
    struct timespec rest = {.tv_sec = (time_t)seconds};
    rest.tv_nsec = (long)((seconds - (double)rest.tv_sec) * 1e9);
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR) continue;
}

uint64_t os_random_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed) return seed;
    return (uint64_t)(os_wall_seconds() * 1e6) ^ (uint64_t)getpid() << 40;
}

uint64_t os_peak_rss(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
    return (uint64_t)usage.ru_maxrss * 1024;
}

uint64_t os_physical_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

void *os_pages_alloc(uint64_t n, bool huge)
{
    if (n == 0 || n > SIZE_MAX / 2) return NULL;
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE
    if (huge) madvise(p, n, MADV_HUGEPAGE);
#else
    (void)huge;
#endif
    return p;
}

void os_pages_gather(void *p, uint64_t n, const atomic_bool *stop)
{
#ifdef MADV_HUGEPAGE
    enum { COLLAPSE = 25 }; // MADV_COLLAPSE of Linux 6.1; older headers don't name it
    const uintptr_t huge = UINT64_C(2) << 20, end = (uintptr_t)p + n;
    uintptr_t at = ((uintptr_t)p + huge - 1) / huge * huge;
    for (; at + huge <= end && !atomic_load(stop); at += huge) {
        if (madvise((void *)at, huge, COLLAPSE) == 0 || errno != EINVAL) continue;
        madvise((void *)at, end - at, MADV_HUGEPAGE); // an older system may do it by and by
        return;
    }
#else
    (void)p, (void)n, (void)stop;
#endif
}

void os_pages_free(void *p, uint64_t n)
{
    if (p) munmap(p, n);
}

// The first number of a small file under /sys; -1 where there is none.
static long read_number(const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f) return -1;
    long value = -1;
    if (fscanf(f, "%ld", &value) != 1) value = -1;
    fclose(f);
    return value;
}

// Cores that the container may use: its cgroup's quota over its period, rounded up. 0: no limit.
static int cgroup_quota(void)
{
    long quota = -1, period = -1;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r"); // version 2: "max 100000" or "200000 100000"
    if (f) {
        if (fscanf(f, "%ld %ld", &quota, &period) != 2) quota = -1;
        fclose(f);
    } else {
        quota = read_number("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
        period = read_number("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
    }
    if (quota <= 0 || period <= 0) return 0;
    return (int)((quota + period - 1) / period);
}

// Processors that are the first of their core.
static int physical_cores(void)
{
    int n = 0;
    for (int cpu = 0; cpu < 4096; cpu++) {
        char path[96];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 cpu);
        long first = read_number(path);
        if (first == cpu) n++;
        if (first < 0 && cpu >= sysconf(_SC_NPROCESSORS_CONF)) break;
    }
    return n;
}

// Processors that we may run on. The system refuses a set that is smaller than its own.
static int allowed_processors(void)
{
    for (int n = 1024; n <= 1 << 20; n *= 2) {
        size_t bytes = CPU_ALLOC_SIZE((size_t)n);
        cpu_set_t *set = CPU_ALLOC((size_t)n);
        if (!set) return 0;
        int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (count > 0) return count;
        if (errno != EINVAL) return 0;
    }
    return 0;
}

os_cpus os_cpu_counts(void)
{
    return (os_cpus){
        .affinity = allowed_processors(), .quota = cgroup_quota(), .physical = physical_cores()};
}

int os_default_threads(void)
{
    os_cpus counts = os_cpu_counts();
    int threads = counts.affinity > 0 ? counts.affinity : (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (threads < 1) threads = 1;
    if (counts.quota > 0 && counts.quota < threads) threads = counts.quota;
    if (counts.physical > 0 && counts.physical < threads) threads = counts.physical;
    return threads;
}

#if defined(__x86_64__)
static bool has_f16c(void) // not every compiler's __builtin_cpu_supports knows it
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}
#endif

os_cpu_features os_cpu_detect(void)
{
    os_cpu_features features = {0};
#if defined(__x86_64__)
    __builtin_cpu_init();
    features.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    features.avx512_vnni =
        features.avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vnni");
#endif
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(features.name, sizeof features.name, "%s", colon + 2);
        break;
    }
    if (f) fclose(f);
    if (!features.name[0]) snprintf(features.name, sizeof features.name, "CPU");
    return features;
}

// ---- threads ----------------------------------------------------------------------------------

struct os_thread {
    pthread_t id;
    void (*run)(void *arg);
    void *arg;
};

static void *thread_main(void *p)
{
    os_thread *t = p;
    t->run(t->arg);
    return NULL;
}

pm_status os_thread_start(void (*run)(void *arg), void *arg, os_thread **out)
{
    *out = NULL;
    os_thread *t = calloc(1, sizeof *t);
    if (!t) return error_memory("a thread", sizeof *t);
    t->run = run;
    t->arg = arg;
    // Signals are the main thread's: workers never run a handler for Ctrl-C.
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&t->id, NULL, thread_main, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        free(t);
        return error_set(PM_ERROR_RUN, "a thread cannot be started: %s", strerror(error));
    }
    *out = t;
    return PM_OK;
}

void os_thread_be_idle(void)
{
#ifdef __linux__
    enum { IDLE = 5 }; // SCHED_IDLE, which strict headers hide
    (void)sched_setscheduler(0, IDLE, &(struct sched_param){0}); // else it runs as others do
#endif
}

void os_thread_join(os_thread *t)
{
    if (!t) return;
    pthread_join(t->id, NULL);
    free(t);
}

struct os_mutex {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
};

os_mutex *os_mutex_create(void)
{
    os_mutex *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    pthread_mutex_init(&m->mutex, NULL);
    pthread_cond_init(&m->cond, NULL);
    return m;
}

void os_mutex_destroy(os_mutex *m)
{
    if (!m) return;
    pthread_cond_destroy(&m->cond);
    pthread_mutex_destroy(&m->mutex);
    free(m);
}

void os_mutex_lock(os_mutex *m)
{
    pthread_mutex_lock(&m->mutex);
}

void os_mutex_unlock(os_mutex *m)
{
    pthread_mutex_unlock(&m->mutex);
}

void os_mutex_wait(os_mutex *m)
{
    pthread_cond_wait(&m->cond, &m->mutex);
}

void os_mutex_wake(os_mutex *m)
{
    pthread_cond_broadcast(&m->cond);
}

void os_cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// ---- terminal and signals ---------------------------------------------------------------------

bool os_is_terminal(int fd)
{
    return isatty(fd) == 1;
}

int os_terminal_width(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return 80;
}

static volatile sig_atomic_t interrupts, continued, resized, ends_wait, end_asked;
static void (*volatile interrupt_run)(void *arg);
static void *volatile interrupt_arg;
static struct termios kept_terminal;
static volatile sig_atomic_t terminal_is_kept;
static const char *volatile terminal_undo[STDERR_FILENO + 1];

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupts = interrupts + 1;
    if (interrupt_run) interrupt_run(interrupt_arg);
}

void os_pipe_errors(void)
{
    signal(SIGPIPE, SIG_IGN);
}

void os_interrupts_catch(void)
{
    // No SA_RESTART: a read that waits for input returns, so that the prompt can react.
    struct sigaction action = {.sa_handler = on_interrupt}, before;
    // What is ignored (a script's job in the background) stays so.
    if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGINT, &action, NULL);
    os_pipe_errors();
}

void os_interrupts_release(void)
{
    struct sigaction now;
    if (sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == on_interrupt)
        signal(SIGINT, SIG_DFL);
}

void os_interrupts_call(void (*run)(void *arg), void *arg)
{
    interrupt_run = NULL;
    interrupt_arg = arg;
    interrupt_run = run;
}

int os_interrupts(void)
{
    return interrupts;
}

void os_interrupts_clear(void)
{
    interrupts = end_asked != 0;
}

// Inside a handler the signal waits until the handler has returned.
static void die_by(int signal_number)
{
    // In the background the terminal is another program's, and asking would stop us.
    if (terminal_is_kept && tcgetpgrp(STDIN_FILENO) == getpgrp())
        tcsetattr(STDIN_FILENO, TCSANOW, &kept_terminal);
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        const char *text = terminal_undo[fd];
        ssize_t written = text ? write(fd, text, strlen(text)) : 0;
        (void)written; // nothing can be done about it here
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void os_die_by_interrupt(void)
{
    die_by(end_asked ? end_asked : SIGINT);
}

bool os_end_asked(void)
{
    return end_asked != 0;
}

static void on_continue(int signal_number)
{
    (void)signal_number;
    continued = 1;
}

static void on_resize(int signal_number)
{
    (void)signal_number;
    resized = 1;
}

bool os_resized(void)
{
    bool was = resized != 0;
    resized = 0;
    return was;
}

bool os_continued(void)
{
    bool was = continued != 0;
    continued = 0;
    return was;
}

static void on_end(int signal_number)
{
    if (!ends_wait || end_asked || signal_number == SIGQUIT) {
        die_by(signal_number);
        return;
    }
    end_asked = signal_number;
    on_interrupt(signal_number);
}

static void catch_ends(void)
{
    static const int ends[] = {SIGTERM, SIGHUP, SIGQUIT};
    for (size_t k = 0; k < sizeof ends / sizeof ends[0]; k++) {
        struct sigaction action = {.sa_handler = on_end}, before;
        // What is ignored (nohup) stays so.
        if (sigaction(ends[k], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(ends[k], &action, NULL);
    }
}

void os_ends_wait(bool wait)
{
    ends_wait = wait;
    catch_ends();
}

void os_terminal_keep(void)
{
    if (tcgetattr(STDIN_FILENO, &kept_terminal) != 0) return;
    terminal_is_kept = 1;
    catch_ends();
    struct sigaction action = {.sa_handler = on_continue};
    sigaction(SIGCONT, &action, NULL);
    action.sa_handler = on_resize;
    sigaction(SIGWINCH, &action, NULL);
}

void os_terminal_undo(int fd, const char *text)
{
    if (text) catch_ends();
    terminal_undo[fd] = text;
}

void os_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
        // The lowest free number is this one. Read-only, so that writing fails as on a closed one.
        if (open("/dev/null", O_RDONLY) != fd) return;
    }
}

int os_read_byte(int fd)
{
    unsigned char byte;
    ssize_t got = read(fd, &byte, 1);
    if (got == 1) return byte;
    return got < 0 && errno == EINTR ? OS_READ_SIGNAL : OS_READ_END;
}

// ---- other programs ---------------------------------------------------------------------------

// Both ends close when another program starts.
static bool make_pipes(int to[2], int from[2])
{
    to[0] = to[1] = from[0] = from[1] = -1;
    return pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0;
}

static void close_pipe(int ends[2])
{
    for (int k = 0; k < 2; k++) {
        if (ends[k] >= 0) close(ends[k]);
        ends[k] = -1;
    }
}

static int spawn(const char *program, int in, int out, pid_t *pid)
{
    char *const words[] = {(char *)program, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE); // ignored here, which a program would inherit
    int error = posix_spawn_file_actions_init(&actions);
    if (error) return error;
    error = posix_spawnattr_init(&attributes);
    if (error) {
        posix_spawn_file_actions_destroy(&actions);
        return error;
    }
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    error = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (!error) error = posix_spawnp(pid, program, &actions, &attributes, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error;
}

// Writes the input and reads the output until that ends; false: interrupted, or too much of it.
static bool exchange(int *in, int out, const char *input, size_t n, size_t max, buf *output)
{
    fcntl(*in, F_SETFL, O_NONBLOCK);
    for (size_t written = 0;;) {
        if (written == n && *in >= 0) {
            close(*in);
            *in = -1;
        }
        struct pollfd fds[2] = {{.fd = out, .events = POLLIN}, {.fd = *in, .events = POLLOUT}};
        if (poll(fds, *in >= 0 ? 2 : 1, 200) < 0 && errno != EINTR) return false;
        if (interrupts > 0) return false;
        if (*in >= 0 && fds[1].revents) {
            ssize_t some = write(*in, input + written, n - written);
            // A program that does not read its input may still answer.
            written = some > 0 ? written + (size_t)some : errno == EAGAIN ? written : n;
        }
        if (!fds[0].revents) continue;
        char part[4096];
        ssize_t got = read(out, part, sizeof part);
        if (got == 0) return true;
        if (got < 0 && errno != EINTR) return false;
        if (got > 0) buf_add(output, part, (size_t)got);
        if (output->len > max) return false;
    }
}

// Waits for the program's end; one that was asked to end gets 2 seconds for it. False: somebody
// else has waited for it.
static bool wait_for(pid_t pid, bool asked, int *state)
{
    double last = os_seconds() + 2;
    for (;;) {
        pid_t got = waitpid(pid, state, asked ? WNOHANG : 0);
        if (got == pid) return true;
        if (got < 0 && errno != EINTR) return false;
        if (!asked) continue;
        if (os_seconds() > last) {
            kill(pid, SIGKILL);
            asked = false;
        }
        os_sleep(0.02);
    }
}

pm_status os_run_program(const char *program, const char *input, size_t n, size_t max,
                         char **output, size_t *n_output, int *exit_status)
{
    int to[2], from[2], state = 0;
    pid_t pid = 0;
    buf text = {0};
    int error = make_pipes(to, from) ? 0 : errno;
    if (!error) error = spawn(program, to[0], from[1], &pid);
    if (error) {
        close_pipe(to);
        close_pipe(from);
        return error_set(PM_ERROR_RUN, "%s: %s", program, strerror(error));
    }
    close(to[0]);
    close(from[1]);
    to[0] = from[1] = -1;
    bool whole = exchange(&to[1], from[0], input, n, max, &text);
    close_pipe(to);
    close_pipe(from);
    if (!whole) kill(pid, SIGTERM);
    bool waited = wait_for(pid, !whole, &state);
    if (!whole) {
        bool long_output = text.len > max;
        buf_free(&text);
        return long_output ? error_set(PM_ERROR_RUN, "%s: its output is longer than %zu bytes",
                                       program, max)
                           : error_set(PM_ERROR_RUN, "%s: was interrupted", program);
    }
    if (!waited) {
        buf_free(&text);
        return error_set(PM_ERROR_RUN, "%s: how it ended can't be known (SIGCHLD is ignored here)",
                         program);
    }
    *exit_status = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    return buf_take(&text, output, n_output);
}
