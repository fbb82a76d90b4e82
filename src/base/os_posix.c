// Time, memory, processors, threads.
#include "base/os.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

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
