// measure_open [--limit X] MODEL: how long does opening a model take, measured against copying its
// bytes? The yardstick is two threads that read the whole file from the page cache into memory
// fresh from malloc. Opening ends when the first token could be evaluated (model and session).
// Both are done in turns; the medians and their ratio are printed. Exit status 1 above the limit
// (default 1.5).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "pumice.h"

enum { N_ROUNDS = 5, N_COPIERS = 2 };

typedef struct copier {
    os_file *file;
    char *to;
    uint64_t offset, n;
    pm_status status;
} copier;

static void copy_part(void *arg)
{
    copier *c = arg;
    c->status = os_file_read(c->file, c->offset, c->to + c->offset, c->n);
}

static pm_status copy_seconds(const char *path, double *seconds)
{
    copier copiers[N_COPIERS] = {0};
    os_thread *threads[N_COPIERS] = {NULL};
    os_file *file = NULL;
    pm_status status = os_file_open(path, false, &file);
    if (status != PM_OK) return status;
    uint64_t n = os_file_size(file);
    double start = os_seconds();
    char *to = malloc(n);
    if (!to) status = error_set(PM_ERROR_RUN, "no memory for a copy of %s", path);
    for (uint64_t i = 0; i < N_COPIERS && status == PM_OK; i++) {
        uint64_t begin = n * i / N_COPIERS, end = n * (i + 1) / N_COPIERS;
        copiers[i] = (copier){.file = file, .to = to, .offset = begin, .n = end - begin};
        status = os_thread_start(copy_part, &copiers[i], &threads[i]);
    }
    for (int i = 0; i < N_COPIERS; i++) os_thread_join(threads[i]);
    *seconds = os_seconds() - start;
    for (int i = 0; i < N_COPIERS && status == PM_OK; i++)
        if (copiers[i].status != PM_OK)
            status = error_set(copiers[i].status, "%s: reading failed", path);
    free(to);
    os_file_close(file);
    return status;
}

static pm_status open_seconds(const char *path, const pm_options *options, double *seconds)
{
    pm_model *model = NULL;
    pm_session *session = NULL;
    double start = os_seconds();
    pm_status status = pm_model_open(path, options, &model);
    if (status == PM_OK) status = pm_session_create(model, options, &session);
    *seconds = os_seconds() - start;
    pm_session_destroy(session);
    pm_model_close(model);
    return status;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare);
    return values[n / 2];
}

static pm_status measure(const char *path, const pm_options *options, double *ratio)
{
    double copy[N_ROUNDS], open[N_ROUNDS], ignored;
    pm_status status = copy_seconds(path, &ignored); // brings the file into the page cache
    for (int i = 0; i < N_ROUNDS && status == PM_OK; i++) {
        status = copy_seconds(path, &copy[i]);
        if (status == PM_OK) status = open_seconds(path, options, &open[i]);
    }
    if (status != PM_OK) return status;
    double c = median(copy, N_ROUNDS), o = median(open, N_ROUNDS);
    *ratio = o / c;
    printf("copying with %d threads %.3f s, opening %.3f s: ratio %.2f\n", N_COPIERS, c, o, *ratio);
    return PM_OK;
}

int main(int argc, char **argv)
{
    double limit = 1.5, ratio = 0;
    if (argc == 4 && strcmp(argv[1], "--limit") == 0) limit = strtod(argv[2], NULL);
    if ((argc != 2 && argc != 4) || !(limit > 0)) {
        fprintf(stderr, "usage: measure_open [--limit X] MODEL\n");
        return PM_ERROR_USAGE;
    }
    pm_options *options = pm_options_create();
    pm_status status =
        options ? pm_options_set(options, "device", "cpu") : error_set(PM_ERROR_RUN, "no memory");
    if (status == PM_OK) status = measure(argv[argc - 1], options, &ratio);
    pm_options_destroy(options);
    if (status != PM_OK) {
        fprintf(stderr, "measure_open: error: %s\n", pm_last_error());
        return (int)status;
    }
    return ratio <= limit ? 0 : 1;
}
