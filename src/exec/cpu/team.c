#include "exec/cpu/team.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/os.h"

// About 50 microseconds: longer than the gap between two ops, shorter than a time slice.
enum { SPINS = 1000, MAX_THREADS = 1024 };

typedef struct worker {
    team *team;
    os_thread *thread;
    int member;
} worker;

struct team {
    int n;
    worker *workers; // of members 1 to n - 1
    void (*run)(void *arg, int member);
    void *arg;
    bool ending;
    os_mutex *mutex; // for those asleep at the barrier
    _Alignas(64) atomic_uint arrived;
    _Alignas(64) atomic_uint epoch; // counts barriers that were passed
    atomic_uint sleepers;
    _Alignas(64) atomic_uint next; // the first item that nobody has
};

void team_barrier(team *t)
{
    if (t->n == 1) {
        atomic_store_explicit(&t->next, 0, memory_order_relaxed);
        return;
    }
    unsigned epoch = atomic_load(&t->epoch);
    if (atomic_fetch_add(&t->arrived, 1) + 1 == (unsigned)t->n) {
        atomic_store(&t->arrived, 0);
        atomic_store(&t->next, 0);
        atomic_fetch_add(&t->epoch, 1);
        if (atomic_load(&t->sleepers) > 0) {
            os_mutex_lock(t->mutex);
            os_mutex_wake(t->mutex);
            os_mutex_unlock(t->mutex);
        }
        return;
    }
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load(&t->epoch) != epoch) return;
        os_cpu_relax();
    }
    // Whoever ends the barrier looks at `sleepers` after it has changed `epoch`; we look at `epoch`
    // after changing `sleepers`: one of us sees the other.
    os_mutex_lock(t->mutex);
    atomic_fetch_add(&t->sleepers, 1);
    while (atomic_load(&t->epoch) == epoch) os_mutex_wait(t->mutex);
    atomic_fetch_sub(&t->sleepers, 1);
    os_mutex_unlock(t->mutex);
}

bool team_next(team *t, uint32_t n, uint32_t grain, uint32_t *begin, uint32_t *end)
{
    // The plain look first keeps `next` from running past n by more than one grain per member.
    if (atomic_load_explicit(&t->next, memory_order_relaxed) >= n) return false;
    uint32_t first = atomic_fetch_add_explicit(&t->next, grain, memory_order_relaxed);
    if (first >= n) return false;
    *begin = first;
    *end = n - first < grain ? n : first + grain;
    return true;
}

static void work(void *p)
{
    worker *w = p;
    team *t = w->team;
    for (;;) {
        team_barrier(t); // a run begins
        if (t->ending) return;
        t->run(t->arg, w->member);
        team_barrier(t); // it has ended
    }
}

void team_run(team *t, void (*run)(void *arg, int member), void *arg)
{
    t->run = run;
    t->arg = arg;
    team_barrier(t);
    run(arg, 0);
    team_barrier(t);
}

pm_status team_create(int n_threads, team **out)
{
    *out = NULL;
    if (n_threads < 1) n_threads = 1;
    if (n_threads > MAX_THREADS) n_threads = MAX_THREADS;
    team *t = aligned_alloc(64, sizeof *t);
    if (!t) return error_memory("a team of threads", sizeof *t);
    *t = (team){.n = 1};
    t->mutex = os_mutex_create();
    t->workers = calloc((size_t)n_threads, sizeof *t->workers);
    pm_status status = PM_OK;
    if (!t->mutex || !t->workers) {
        status = error_memory("a team of threads", (uint64_t)n_threads * sizeof *t->workers);
        goto failed;
    }
    // The size is known to the barrier before the first worker gets there.
    t->n = n_threads;
    for (int i = 1; i < n_threads && status == PM_OK; i++) {
        worker *w = &t->workers[i];
        *w = (worker){.team = t, .member = i};
        status = os_thread_start(work, w, &w->thread);
    }
    if (status != PM_OK) goto failed;
    *out = t;
    return PM_OK;
failed:
    // Threads that started wait for members that will never come: their places are taken here.
    if (t->workers && t->n > 1) {
        t->ending = true;
        int missing = 0;
        for (int i = 1; i < t->n; i++) missing += !t->workers[i].thread;
        atomic_fetch_add(&t->arrived, (unsigned)missing);
    }
    team_destroy(t);
    return status;
}

void team_destroy(team *t)
{
    if (!t) return;
    if (t->n > 1) {
        t->ending = true;
        team_barrier(t);
        for (int i = 1; i < t->n; i++) os_thread_join(t->workers[i].thread);
    }
    os_mutex_destroy(t->mutex);
    free(t->workers);
    free(t);
}

int team_size(const team *t)
{
    return t->n;
}
