// What the tests of the program share: runs of it in a home of their own.
#ifndef TEST_CLI_CLI_TEST_H
#define TEST_CLI_CLI_TEST_H

#include "support/test.h"

#include <jansson.h>
#include <sys/stat.h>

// The tiny model that most tests run: SmolLM3's architecture, a context of 512 tokens.
#define TINY "golden/smollm3-tied.q8_0.gguf"

static inline const char *tiny(void)
{
    static char path[1024]; // test_data's own buffers are used again and again
    snprintf(path, sizeof path, "%s", test_data(TINY));
    return path;
}

static inline const char *home_folder(void)
{
    static char path[1024];
    if (!path[0]) {
        snprintf(path, sizeof path, "%s", test_temp("home"));
        mkdir(path, 0700);
    }
    return path;
}

// Runs "pumice ..." in a shell, with variables and redirections in `format`: %s of PUMICE stands
// for the program. HOME is an empty folder, and no variable names a model.
static inline int pumice(char **out, char **err, const char *format, ...)
{
    static const char clean[] =
        "unset PUMICE_MODEL ELELEM_GGUF_MODEL ELELEM_GGUF_MAX_TOKENS NO_COLOR XDG_DATA_HOME "
        "XDG_STATE_HOME XDG_CACHE_HOME; P='" PUMICE_PROGRAM "'; ";
    char *command = malloc(65536);
    assert_non_null(command);
    int n = snprintf(command, 65536, "%s export HOME='%s'; ", clean, home_folder());
    va_list list;
    va_start(list, format);
    n += vsnprintf(command + n, 65536 - (size_t)n, format, list);
    va_end(list);
    assert_true(n < 65536);
    int status = test_run(command, out, err);
    free(command);
    return status;
}

static inline size_t count_lines(const char *text)
{
    size_t n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

// The command ends with `status`, nothing on stdout, one error line that holds `part`.
#define assert_refused(status, part, ...)                                                          \
    do {                                                                                           \
        char *refused_out, *refused_err;                                                           \
        int refused = pumice(&refused_out, &refused_err, __VA_ARGS__);                             \
        if (refused != (status) || *refused_out || count_lines(refused_err) != 1 ||                \
            strncmp(refused_err, "pumice: error: ", 15) != 0 || !strstr(refused_err, part))        \
            fail_msg("status %d for %d, wanted '%s'\nstdout: %s\nstderr: %s", refused, (status),   \
                     (part), refused_out, refused_err);                                            \
        free(refused_out);                                                                         \
        free(refused_err);                                                                         \
    } while (0)

// The stdout of a command that succeeds, to be released with free.
#define output_of(...)                                                                             \
    __extension__({                                                                                \
        char *succeeded_out, *succeeded_err;                                                       \
        int succeeded = pumice(&succeeded_out, &succeeded_err, __VA_ARGS__);                       \
        if (succeeded != 0) fail_msg("status %d: %s", succeeded, succeeded_err);                   \
        free(succeeded_err);                                                                       \
        succeeded_out;                                                                             \
    })

// One JSON document, to be released with json_decref.
#define json_of(...)                                                                               \
    __extension__({                                                                                \
        char *json_source = output_of(__VA_ARGS__);                                                \
        json_error_t json_where;                                                                   \
        json_t *json_value = json_loads(json_source, JSON_ALLOW_NUL, &json_where);                 \
        if (!json_value) fail_msg("%s in: %.300s", json_where.text, json_source);                  \
        free(json_source);                                                                         \
        json_value;                                                                                \
    })

static inline json_t *key_of(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (!value) fail_msg("no key '%s'", key);
    return value;
}

#endif
