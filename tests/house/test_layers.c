// Every #include of src/ against the layers: downwards only, and the operating system in one place.
#include "support/test.h"

#include <dirent.h>
#include <stdbool.h>
#include <sys/stat.h>

// ---- the rules --------------------------------------------------------------------------------

// A folder may include itself and what lies in a lower layer, of which `sees` may leave only a
// part. The libraries are what its files may take beside ISO C.
static const struct folder {
    const char *name;
    int layer;
    const char *sees;      // NULL: every lower layer
    const char *libraries; // beginnings of headers; NULL: none
} folders[] = {
    {"base", 0, NULL, NULL},
    {"gguf", 1, NULL, "nettle/sha2.h nettle/version.h utf8proc.h"},
    {"quant", 1, NULL, NULL},
    {"text", 1, NULL, "utf8proc.h"},
    {"chat", 2, NULL, "jansson.h utf8proc.h"},
    {"make", 2, NULL, NULL},
    {"model", 2, NULL, NULL},
    {"plan", 3, NULL, NULL},
    {"exec", 4, "plan/plan.h quant base", "immintrin.h emmintrin.h arm_neon.h volk.h"},
    {"engine", 5, NULL, NULL},
    {"proof", 5, NULL, "jansson.h"},
    {"api", 6, NULL, "jansson.h"},
    {"cli", 7, "base", "jansson.h histedit.h png.h"},
    {"server", 7, "base api", "jansson.h"},
};
enum { N_FOLDERS = sizeof folders / sizeof folders[0] };

static const char iso_c[] =
    " assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h iso646.h limits.h locale.h "
    "math.h setjmp.h signal.h stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h "
    "stdlib.h stdnoreturn.h string.h tgmath.h time.h uchar.h wchar.h wctype.h ";

// What builds on a neighbour: a vocabulary comes from a file, a model is described in the plan's
// words for tensors (executors may know those, but never a model).
static bool is_exception(const char *from, const char *header)
{
    static const char *const pairs[][2] = {
        {"text", "gguf/"}, {"gguf", "quant/"}, {"proof", "engine/"}, {"model", "plan/plan.h"}};
    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++)
        if (!strcmp(pairs[k][0], from) && !strncmp(header, pairs[k][1], strlen(pairs[k][1])))
            return true;
    return false;
}

static const struct folder *find(const char *name, size_t n)
{
    for (size_t k = 0; k < N_FOLDERS; k++)
        if (strlen(folders[k].name) == n && !strncmp(folders[k].name, name, n)) return &folders[k];
    return NULL;
}

static bool listed(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; at && (at = strstr(at, word)); at++)
        if ((at == list || at[-1] == ' ') && (at[n] == 0 || at[n] == ' ')) return true;
    return false;
}

// Why a file of `from` may not have this include; NULL: it may.
static const char *objection(const struct folder *from, const char *file, const char *header,
                             bool quoted)
{
    if (strstr(header, "..")) return "goes up by ../";
    if (!quoted) {
        if (listed(iso_c, header) || listed(from->libraries, header)) return NULL;
        if (!strncmp(file, "base/os_posix", 13)) return NULL;
        return "is a system header or a library that this folder has no business with";
    }
    if (!strcmp(header, "pumice.h")) return NULL;
    // What C and GLSL share, and the table of the shaders that CMake makes.
    if (!strncmp(file, "exec/vulkan/", 12) &&
        (!strcmp(header, "push.h") || !strcmp(header, "shader_table.h")))
        return NULL;
    const char *slash = strchr(header, '/');
    if (!slash) return "is not written from src";
    const struct folder *to = find(header, (size_t)(slash - header));
    if (!to) return "is of no known folder";
    if (to == from) return NULL;
    if (from->sees && !listed(from->sees, to->name) && !listed(from->sees, header))
        return "is out of this folder's sight";
    if (to->layer < from->layer || is_exception(from->name, header)) return NULL;
    return "is not below";
}

// ---- the files --------------------------------------------------------------------------------

typedef struct survey {
    size_t n_files, n_includes, n_wrong;
} survey;

static void look_at_line(const struct folder *from, const char *file, const char *line, survey *s)
{
    line += strspn(line, " \t");
    if (*line++ != '#') return;
    line += strspn(line, " \t");
    if (strncmp(line, "include", 7) != 0) return;
    line += 7 + strspn(line + 7, " \t");
    bool quoted = *line == '"';
    size_t n = strcspn(line + 1, quoted ? "\"" : ">");
    char header[256];
    snprintf(header, sizeof header, "%.*s", (int)n, line + 1);
    s->n_includes++;
    const char *why = objection(from, file, header, quoted);
    if (!why) return;
    print_error("src/%s: %s %s\n", file, header, why);
    s->n_wrong++;
}

static void look_at_file(const struct folder *from, const char *file, survey *s)
{
    char path[2048];
    snprintf(path, sizeof path, "%s/%s", test_source("src"), file);
    char *text = test_read(path, NULL);
    for (char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        bool last = line[n] == 0;
        line[n] = 0;
        look_at_line(from, file, line, s);
        line += n + !last;
    }
    free(text);
    s->n_files++;
}

static void look_at_folder(const struct folder *from, const char *folder, survey *s)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", test_source("src"), folder);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.') continue;
        char name[512], full[2048];
        snprintf(name, sizeof name, "%s%s%s", folder, *folder ? "/" : "", e->d_name);
        snprintf(full, sizeof full, "%s/%s", test_source("src"), name);
        struct stat st;
        assert_int_equal(stat(full, &st), 0);
        const char *end = strrchr(name, '.');
        if (S_ISDIR(st.st_mode)) {
            const struct folder *own = from ? from : find(e->d_name, strlen(e->d_name));
            if (!own) fail_msg("src/%s: is of no known layer", name);
            look_at_folder(own, name, s);
        } else if (from && end && (!strcmp(end, ".c") || !strcmp(end, ".h"))) {
            look_at_file(from, name, s);
        }
    }
    closedir(dir);
}

static void includes_go_downwards(void **state)
{
    (void)state;
    survey s = {0};
    look_at_folder(NULL, "", &s);
    assert_true(s.n_files > 20 && s.n_includes > 100);
    assert_int_equal(s.n_wrong, 0);
}

// The rules themselves: what they must refuse.
static void the_rules_refuse(void **state)
{
    (void)state;
    static const struct {
        const char *file, *header;
        bool quoted;
    } wrong[] = {{"exec/cpu/x.c", "model/model.h", true}, {"exec/cpu/x.c", "gguf/gguf.h", true},
                 {"base/x.c", "gguf/gguf.h", true},       {"cli/x.c", "engine/session.h", true},
                 {"gguf/x.c", "../base/buf.h", true},     {"gguf/x.c", "buf.h", true},
                 {"gguf/x.c", "unistd.h", false},         {"base/x.c", "sys/mman.h", false},
                 {"engine/x.c", "api/options.h", true},   {"text/x.c", "jansson.h", false},
                 {"cli/x.c", "sys/ioctl.h", false},       {"plan/x.c", "exec/exec.h", true},
                 {"exec/x.c", "plan/build.h", true},      {"model/x.c", "plan/build.h", true}};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        const struct folder *from = find(wrong[k].file, strcspn(wrong[k].file, "/"));
        assert_non_null(objection(from, wrong[k].file, wrong[k].header, wrong[k].quoted));
    }
    assert_null(objection(find("base", 4), "base/os_posix.c", "sys/mman.h", false));
    assert_null(objection(find("exec", 4), "exec/cpu/x.c", "plan/plan.h", true));
    assert_null(objection(find("cli", 3), "cli/x.c", "pumice.h", true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(includes_go_downwards),
        cmocka_unit_test(the_rules_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
