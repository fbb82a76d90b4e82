// The command line's words: which are options, which values, which neither.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const cli_option common_options[] = {
    {"verbose", 'v', NULL, "show seed, sampler, device, cache and timing"},
    {"quiet", 'q', NULL, "no remarks, only errors"},
    {"help", 'h', NULL, "this text"},
    {"help-debug", 0, NULL, "this text with the options for diagnosis"},
    {0},
};

// Short names of the library's options.
static const struct {
    char letter;
    const char *name;
} library_letters[] = {{'n', "max-tokens"}, {'s', "seed"}, {'t', "threads"}};

// ---- the nearest name -------------------------------------------------------------------------

enum { NEAREST_MAX = 63 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

// Insertions, deletions, substitutions and swaps of neighbours that turn a into b.
static size_t edits(const char *a, const char *b)
{
    size_t n = least(strlen(a), NEAREST_MAX), m = least(strlen(b), NEAREST_MAX);
    size_t rows[3][NEAREST_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++) last[j] = before[j] = j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t change = last[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = least(change, least(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[m];
}

void nearest_try(nearest *n, const char *candidate)
{
    size_t distance = edits(n->word, candidate);
    if (n->best && distance >= n->distance) return;
    n->best = candidate;
    n->distance = distance;
}

// ---- finding an option ------------------------------------------------------------------------

typedef struct found {
    const char *name;
    const char *value; // NULL: a switch
    bool library;      // goes to pm_options_set
    bool off;          // --no-NAME
} found;

static bool group_taken(const cli_command *command, const char *group)
{
    size_t n = strlen(group);
    for (const char *at = command->groups; at && *at; at += strcspn(at, " ")) {
        at += strspn(at, " ");
        if (!strncmp(at, group, n) && (at[n] == ' ' || at[n] == 0)) return true;
    }
    return false;
}

static bool find_exact(const cli_command *command, const char *name, char letter, found *f)
{
    const cli_option *lists[] = {command->options, common_options};
    for (size_t k = 0; k < 2; k++) {
        for (const cli_option *o = lists[k]; o && o->name; o++) {
            if (name ? strcmp(o->name, name) != 0 : o->letter != letter) continue;
            *f = (found){.name = o->name, .value = o->value};
            return true;
        }
    }
    if (!name) {
        for (size_t k = 0; k < sizeof library_letters / sizeof library_letters[0]; k++)
            if (library_letters[k].letter == letter) name = library_letters[k].name;
        if (!name) return false;
    }
    const char *known, *group, *value;
    for (size_t k = 0; pm_options_describe(k, &known, &group, &value, NULL, NULL, NULL); k++) {
        if (strcmp(known, name) != 0 || !group_taken(command, group)) continue;
        *f = (found){.name = known, .value = value, .library = true};
        return true;
    }
    return false;
}

// Every switch can be taken back with --no-NAME.
static bool find_option(const cli_command *command, const char *name, found *f)
{
    if (find_exact(command, name, 0, f)) return true;
    if (strncmp(name, "no-", 3) != 0 || !find_exact(command, name + 3, 0, f) || f->value)
        return false;
    f->off = true;
    return true;
}

static pm_status no_such_option(const cli_command *command, const char *name)
{
    nearest near = {.word = name};
    const cli_option *lists[] = {command->options, common_options};
    for (size_t k = 0; k < 2; k++)
        for (const cli_option *o = lists[k]; o && o->name; o++) nearest_try(&near, o->name);
    const char *known, *group;
    for (size_t k = 0; pm_options_describe(k, &known, &group, NULL, NULL, NULL, NULL); k++)
        if (group_taken(command, group)) nearest_try(&near, known);
    return error_set(PM_ERROR_USAGE, "--%s: '%s' has no such option (did you mean --%s?)", name,
                     command->name, near.best);
}

// Is the word exactly an option? Then it is not the value of the one before it.
static bool is_option(const cli_command *command, const char *word)
{
    found f;
    if (word[0] != '-') return false;
    if (word[1] == '-') return word[2] && find_option(command, word + 2, &f);
    return word[1] && !word[2] && find_exact(command, NULL, word[1], &f);
}

// ---- parsing ----------------------------------------------------------------------------------

static pm_status take(cli_args *args, const found *f, const char *shown, const char *value)
{
    if (f->value && !value)
        return error_set(PM_ERROR_USAGE, "%s: needs a value (%s)", shown, f->value);
    if (!f->value && value)
        return error_set(PM_ERROR_USAGE, "%s: takes no value, '%s' was given", shown, value);
    if (!f->value) value = f->off ? "false" : "true";
    if (f->library) return pm_options_set(args->options, f->name, value);

    bool on = !f->off;
    if (!strcmp(f->name, "verbose"))
        args->verbose = on;
    else if (!strcmp(f->name, "quiet"))
        args->quiet = on;
    else if (!strcmp(f->name, "help"))
        args->help = on;
    else if (!strcmp(f->name, "help-debug"))
        args->help = args->help_debug = on;
    else
        args->values[args->n_values++] = (struct cli_value){f->name, value};
    return PM_OK;
}

// "--name", "--name=value"; *used: the next word was its value.
static pm_status take_long(cli_args *args, const char *word, const char *next, bool *used)
{
    char name[64];
    const char *equals = strchr(word, '=');
    size_t n = equals ? (size_t)(equals - word) : strlen(word);
    if (n - 2 >= sizeof name)
        return error_set(PM_ERROR_USAGE, "%.40s...: '%s' has no such option", word,
                         args->command->name);
    memcpy(name, word + 2, n - 2);
    name[n - 2] = 0;

    found f;
    if (!find_option(args->command, name, &f)) return no_such_option(args->command, name);
    char shown[72];
    snprintf(shown, sizeof shown, "--%s", name);
    const char *value = equals ? equals + 1 : NULL;
    if (f.value && !value && next && !is_option(args->command, next)) {
        value = next;
        *used = true;
    }
    return take(args, &f, shown, value);
}

// "-v", "-n 5", "-n5", "-qn5".
static pm_status take_short(cli_args *args, const char *word, const char *next, bool *used)
{
    for (const char *letter = word + 1; *letter; letter++) {
        found f;
        char shown[3] = {'-', *letter, 0};
        if (!find_exact(args->command, NULL, *letter, &f))
            return error_set(PM_ERROR_USAGE, "%s: '%s' has no such option (see 'pumice %s --help')",
                             (*letter & 0x80) ? word : shown, args->command->name,
                             args->command->name);
        const char *value = NULL;
        if (f.value && letter[1]) {
            value = letter + 1;
        } else if (f.value && next && !is_option(args->command, next)) {
            value = next;
            *used = true;
        }
        pm_status status = take(args, &f, shown, value);
        if (status != PM_OK || f.value) return status;
    }
    return PM_OK;
}

// A word such as "-5" is a number, not an option.
static bool looks_like_number(const char *word)
{
    char *end;
    strtod(word, &end);
    return end != word && *end == 0;
}

pm_status args_parse(const cli_command *command, int argc, char **argv, cli_args *args)
{
    *args = (cli_args){.command = command, .options = pm_options_create()};
    args->values = calloc((size_t)argc + 1, sizeof *args->values);
    args->words = calloc((size_t)argc + 1, sizeof *args->words);
    if (!args->options || !args->values || !args->words)
        return error_memory("the options", (uint64_t)argc * sizeof *args->values);

    bool only_words = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        bool used = false;
        pm_status status = PM_OK;
        if (only_words || word[0] != '-' || word[1] == 0 || looks_like_number(word)) {
            args->words[args->n_words++] = word;
        } else if (!strcmp(word, "--")) {
            only_words = true;
        } else if (word[1] == '-') {
            status = take_long(args, word, next, &used);
        } else {
            status = take_short(args, word, next, &used);
        }
        if (status != PM_OK) return status;
        if (args->help) return PM_OK;
        i += used;
    }
    if (args->n_words > command->max_words)
        return error_set(PM_ERROR_USAGE,
                         "'%s': one word too many for 'pumice %s %s' (text with blanks needs "
                         "quotes)",
                         args->words[command->max_words], command->name, command->words);
    return PM_OK;
}

void args_free(cli_args *args)
{
    pm_options_destroy(args->options);
    free(args->values);
    free(args->words);
    *args = (cli_args){0};
}

const char *args_get(const cli_args *args, const char *name)
{
    for (size_t i = args->n_values; i-- > 0;)
        if (!strcmp(args->values[i].name, name)) return args->values[i].value;
    return NULL;
}

bool args_has(const cli_args *args, const char *name)
{
    const char *value = args_get(args, name);
    return value && !strcmp(value, "true");
}

const char *args_nth(const cli_args *args, const char *name, size_t index)
{
    for (size_t i = 0; i < args->n_values; i++)
        if (!strcmp(args->values[i].name, name) && index-- == 0) return args->values[i].value;
    return NULL;
}

pm_status args_count(const cli_args *args, const char *name, int64_t min, int64_t max,
                     int64_t fallback, int64_t *out)
{
    const char *text = args_get(args, name);
    char *end;
    *out = fallback;
    if (!text) return PM_OK;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < min || value > max)
        return error_set(PM_ERROR_USAGE,
                         "--%s: '%s' is not a whole number from %" PRId64 " to %" PRId64, name,
                         text, min, max);
    *out = value;
    return PM_OK;
}

// ---- help -------------------------------------------------------------------------------------

enum { HELP_INDENT = 30, HELP_WIDTH = 96 };

// Words, broken at the width, each following line indented.
static void help_wrapped(const char *text, size_t column, size_t indent)
{
    bool first = true;
    for (const char *at = text; *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        if (!first && column + 1 + n > HELP_WIDTH) {
            out_print("\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            out_text(" ");
            column++;
        }
        out_bytes(at, n);
        column += n;
        at += n;
        first = false;
    }
    out_text("\n");
}

static void help_option(char letter, const char *name, const char *value, const char *text)
{
    buf left = {0};
    if (letter)
        buf_printf(&left, "  -%c, --%s", letter, name);
    else
        buf_printf(&left, "      --%s", name);
    if (value) buf_printf(&left, " %s", value);
    if (left.failed) return;
    out_text(left.data);
    if (left.len + 2 > HELP_INDENT)
        out_print("\n%*s", HELP_INDENT, "");
    else
        out_print("%*s", (int)(HELP_INDENT - left.len), "");
    help_wrapped(text, HELP_INDENT, HELP_INDENT);
    buf_free(&left);
}

static char library_letter(const char *name)
{
    for (size_t k = 0; k < sizeof library_letters / sizeof library_letters[0]; k++)
        if (!strcmp(library_letters[k].name, name)) return library_letters[k].letter;
    return 0;
}

static void help_group(const char *wanted, const char *title)
{
    const char *name, *group, *value, *range, *fallback, *help;
    bool any = false;
    for (size_t k = 0; pm_options_describe(k, &name, &group, &value, &range, &fallback, &help);
         k++) {
        // vocab-only is set by the commands that need no weights.
        if (strcmp(group, wanted) != 0 || !strcmp(name, "vocab-only")) continue;
        if (!any) out_print("\n%s\n", title);
        any = true;
        buf text = {0};
        buf_str(&text, help);
        bool has_range = value && range && *range, has_default = value && fallback && *fallback;
        if (has_range) buf_printf(&text, " (%s", range);
        if (has_default) buf_printf(&text, "%sdefault %s", has_range ? "; " : " (", fallback);
        if (has_range || has_default) buf_str(&text, ")");
        if (!text.failed) help_option(library_letter(name), name, value, text.data);
        buf_free(&text);
    }
}

void help_command(const cli_command *command, bool debug)
{
    static const struct {
        const char *group, *title;
        bool debug;
    } groups[] = {
        {"generate", "Answers", false},
        {"sampler", "Sampling", false},
        {"bench", "Measuring", false},
        {"repeat", "Repeating", false},
        {"check", "Checking", false},
        {"perplexity", "Perplexity", false},
        {"against", "Comparing", false},
        {"inspect", "Showing", false},
        {"run", "Running", false},
        {"debug", "Diagnosis", true},
        {"suite", "Diagnosis of --suite", true},
    };
    out_print("Usage: pumice %s %s%s[options]\n\n", command->name, command->words,
              *command->words ? " " : "");
    help_wrapped(command->summary, 0, 0);
    if (command->details) {
        out_text("\n");
        help_wrapped(command->details, 0, 0);
    }
    out_text("\nOptions\n");
    const cli_option *lists[] = {command->options, common_options};
    for (size_t k = 0; k < 2; k++)
        for (const cli_option *o = lists[k]; o && o->name; o++)
            help_option(o->letter, o->name, o->value, o->help);
    for (size_t k = 0; k < sizeof groups / sizeof groups[0]; k++) {
        if (!group_taken(command, groups[k].group)) continue;
        if (debug || !groups[k].debug) help_group(groups[k].group, groups[k].title);
    }
}

void help_overview(const cli_command *commands, size_t n)
{
    out_print("pumice %s: language models from GGUF files\n\n"
              "Usage: pumice COMMAND [MODEL] [options]\n\nCommands\n",
              pm_version());
    for (size_t k = 0; k < n; k++) out_print("  %-10s %s\n", commands[k].name, commands[k].summary);
    out_text(
        "\nMODEL is a GGUF file, or the name of one in ~/.agents/models or "
        "~/.local/share/pumice/models.\nWithout it: PUMICE_MODEL, ELELEM_GGUF_MODEL, "
        "~/.agents/models/default.gguf, or the only file there.\n"
        "\n'pumice COMMAND --help' shows a command's options, 'pumice --version' the version.\n"
        "Exit status: 0 done, 1 failed, 2 wrong use, 3 the file, 4 the device, 5 a check "
        "failed, 130 interrupted.\n");
}
