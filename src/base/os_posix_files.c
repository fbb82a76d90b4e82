// Files and folders.
#include "base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buf.h"

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
