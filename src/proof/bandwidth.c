#include "proof/bandwidth.h"

#include <stdlib.h>
#include <string.h>

#include "base/os.h"

enum { MAX_THREADS = 512, N_PASSES = 7, LANES = 8 };
#define TOTAL_BYTES (UINT64_C(256) << 20)

typedef struct reader {
    const uint64_t *from;
    size_t n;
    uint64_t sum; // kept, so that the reads can't be left out
    os_thread *thread;
} reader;

static void read_all(void *arg)
{
    reader *r = arg;
    uint64_t lane[LANES] = {0};
    for (size_t i = 0; i + LANES <= r->n; i += LANES) {
        for (int j = 0; j < LANES; j++) lane[j] += r->from[i + (size_t)j];
    }
    for (int j = 0; j < LANES; j++) r->sum += lane[j];
}

static pm_status pass(reader *readers, int n, double *seconds)
{
    double start = os_seconds();
    pm_status status = PM_OK;
    for (int i = 1; i < n && status == PM_OK; i++) {
        status = os_thread_start(read_all, &readers[i], &readers[i].thread);
    }
    read_all(&readers[0]);
    for (int i = 1; i < n; i++) {
        os_thread_join(readers[i].thread);
        readers[i].thread = NULL;
    }
    *seconds = os_seconds() - start;
    return status;
}

pm_status bandwidth_measure(int n_threads, double *bytes_per_second)
{
    int n = n_threads < 1 ? 1 : n_threads > MAX_THREADS ? MAX_THREADS : n_threads;
    uint64_t *memory = os_pages_alloc(TOTAL_BYTES, true);
    reader *readers = calloc((size_t)n, sizeof *readers);
    pm_status status = PM_OK;
    if (!memory || !readers) {
        status = error_memory("measuring the bandwidth", TOTAL_BYTES);
        goto done;
    }
    memset(memory, 1, TOTAL_BYTES); // pages that were never written may all be the same one
    size_t each = TOTAL_BYTES / sizeof *memory / (size_t)n;
    for (int i = 0; i < n; i++) readers[i] = (reader){.from = memory + each * (size_t)i, .n = each};
    double best = 0;
    for (int i = 0; i < N_PASSES && status == PM_OK; i++) {
        double seconds = 0;
        status = pass(readers, n, &seconds);
        double rate = (double)(each * (size_t)n * sizeof *memory) / seconds;
        if (status == PM_OK && rate > best) best = rate;
    }
    if (status == PM_OK) *bytes_per_second = best;
done:
    free(readers);
    if (memory) os_pages_free(memory, TOTAL_BYTES);
    return status;
}

pm_status bandwidth_measure_device(const weights *w, int n_threads, double *bytes_per_second)
{
    for (uint32_t i = 0; i < w->n_parts; i++) {
        const weights_part *part = &w->parts[i];
        if (part->kind->bandwidth) return part->kind->bandwidth(part->loaded, bytes_per_second);
    }
    return bandwidth_measure(n_threads, bytes_per_second);
}
