#include "support/test.h"

#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"

enum { PATH_BYTES = 1024, N_PATHS = 8 };

static char *rotating_path(void)
{
    static char paths[N_PATHS][PATH_BYTES];
    static int next;
    next = (next + 1) % N_PATHS;
    return paths[next];
}

const char *test_data(const char *name)
{
    const char *root = getenv("PUMICE_TEST_DATA");
    if (!root) root = PUMICE_SOURCE_DIR "/../shared/data";
    if (!os_is_directory(root)) {
        print_message("SKIPPED: no reference data in %s (set PUMICE_TEST_DATA)\n", root);
        skip();
    }
    char *path = rotating_path();
    snprintf(path, PATH_BYTES, "%s/%s", root, name);
    return path;
}

static char temp_root[PATH_BYTES];

static void remove_temp(void)
{
    char command[PATH_BYTES + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", temp_root);
    if (system(command) != 0) fprintf(stderr, "cannot remove %s\n", temp_root);
}

const char *test_temp(const char *name)
{
    if (!temp_root[0]) {
        const char *base = getenv("TMPDIR");
        snprintf(temp_root, sizeof temp_root, "%s/pumice-test-XXXXXX", base ? base : "/tmp");
        if (!mkdtemp(temp_root)) fail_msg("no temporary folder");
        atexit(remove_temp);
    }
    char *path = rotating_path();
    int n = snprintf(path, PATH_BYTES, "%s/%s", temp_root, name);
    assert_true(n < PATH_BYTES);
    return path;
}

char *test_read(const char *path, size_t *n)
{
    char *data = NULL;
    assert_ok(os_read_whole(path, UINT64_C(1) << 32, &data, n));
    return data;
}

void test_write(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static char *take_file(const char *path)
{
    return test_read(path, NULL);
}

int test_run(const char *command, char **out, char **err)
{
    char out_path[PATH_BYTES], err_path[PATH_BYTES];
    snprintf(out_path, sizeof out_path, "%s", test_temp("run.out"));
    snprintf(err_path, sizeof err_path, "%s", test_temp("run.err"));
    size_t n = strlen(command) + 2 * PATH_BYTES + 64;
    char *line = malloc(n);
    assert_non_null(line);
    snprintf(line, n, "{ %s\n} </dev/null >'%s' 2>'%s'", command, out_path, err_path);
    int status = system(line);
    free(line);
    if (out) *out = take_file(out_path);
    if (err) *err = take_file(err_path);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
