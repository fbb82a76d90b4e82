// What the commands share. Each command is one file with a `run_NAME`; main.c holds their table.
#ifndef PUMICE_CLI_CLI_H
#define PUMICE_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "pumice.h"

// ---- commands and their arguments -------------------------------------------------------------

// An option that is the command line's own; what concerns the library is described by
// pm_options_describe and handed on unread, so that ranges and defaults live in one place.
typedef struct cli_option {
    const char *name;  // "show-template"; NULL ends a list
    char letter;       // 'p' for -p; 0: none
    const char *value; // how help writes its value; NULL: a switch
    const char *help;
} cli_option;

typedef struct cli_args cli_args;

typedef struct cli_command {
    const char *name;
    const char *words;   // "[MODEL] PROMPT", as the usage line has it
    const char *summary; // one line
    const char *details; // paragraphs for --help; may be NULL
    int max_words;
    const cli_option *options; // may be NULL
    const char *groups;        // the library's options it takes: "run sampler"
    pm_status (*run)(cli_args *args);
} cli_command;

// The parsed command line. Texts point into argv.
struct cli_args {
    const cli_command *command;
    pm_options *options;
    struct cli_value {
        const char *name, *value; // "true" or "false" for a switch
    } *values;                    // the command's own options in the order given
    size_t n_values;
    const char **words; // what is not an option
    int n_words;
    bool verbose, quiet, help, help_debug;
    // Set by a command: it was ended by Ctrl-C; its failure was already shown.
    bool interrupted, reported;
};

pm_status args_parse(const cli_command *command, int argc, char **argv, cli_args *args);
void args_free(cli_args *args);
const char *args_get(const cli_args *args, const char *name); // the last value; NULL: not given
bool args_has(const cli_args *args, const char *name);        // a switch that is on
// The `index`-th value of a repeatable option; NULL past the end.
const char *args_nth(const cli_args *args, const char *name, size_t index);
pm_status args_count(const cli_args *args, const char *name, int64_t min, int64_t max,
                     int64_t fallback, int64_t *out);

// The candidate that takes the fewest edits to become `word`: feed all, then read `best`.
typedef struct nearest {
    const char *word, *best;
    size_t distance;
} nearest;
void nearest_try(nearest *n, const char *candidate);

void help_overview(const cli_command *commands, size_t n);
void help_command(const cli_command *command, bool debug);

pm_status run_ask(cli_args *args);
pm_status run_bench(cli_args *args);
pm_status run_check(cli_args *args);
pm_status run_chat(cli_args *args);
pm_status run_compare(cli_args *args);
pm_status run_devices(cli_args *args);
pm_status run_info(cli_args *args);
pm_status run_inspect(cli_args *args);
pm_status run_logits(cli_args *args);
pm_status run_perplexity(cli_args *args);
pm_status run_quantize(cli_args *args);
pm_status run_template(cli_args *args);
pm_status run_tokenize(cli_args *args);
pm_status run_train_bpe(cli_args *args);

extern const cli_option ask_options[], bench_options[], chat_options[], check_options[],
    compare_options[], devices_options[], info_options[], inspect_options[], logits_options[],
    perplexity_options[], template_options[], tokenize_options[], train_bpe_options[];

// ---- output -----------------------------------------------------------------------------------

// Answers, to stdout. Where it can't be written the process ends with status 1, without a message
// when the reader has gone.
void out_bytes(const char *bytes, size_t n);
void out_text(const char *text);
void out_print(const char *format, ...) PRINTF_LIKE(1, 2);
void out_flush(void);
// One JSON document and a line break; ends the process where memory runs out.
void out_json(const json_t *value, size_t flags);

// Remarks, to stderr.
void say_error(void); // the library's last message
void say_warning(const char *format, ...) PRINTF_LIKE(1, 2);
void say(const char *format, ...) PRINTF_LIKE(1, 2); // no prefix, adds the line break
// What nobody asked for, and -q leaves out: that something was done as it was to be.
void say_remark(const cli_args *args, const char *format, ...) PRINTF_LIKE(2, 3);
// Are remarks about the run (device, cache, timing) wanted? On a terminal and with -v, not with -q.
bool say_wanted(const cli_args *args);

// One line on a terminal, written again when another percent is done; *shown is -1 at first.
void show_percent(double part, double start, int *shown);

// What is wanted of a JSON object, or `without` where there is no such number or text (numbers that
// are not finite are null). The text lives as long as the object.
double number_in(const json_t *object, const char *key, double without);
const char *text_in(const json_t *object, const char *key, const char *without);
// A JSON string of bytes that need not be UTF-8: what is not becomes U+FFFD.
json_t *json_of_bytes(const char *bytes, size_t n);
// "3.1 GB", "12.5 MiB" into one of a few static buffers.
const char *show_mib(uint64_t bytes);
const char *show_count(double n); // "135 M", "3.08 B"

// ---- models and input -------------------------------------------------------------------------

// The file that MODEL means: a path, a name in a model folder, or with NULL the default.
pm_status model_path(const char *word, char **path);
// Does `word` mean a model that is there?
bool model_exists(const char *word);
// Where what is only a cache lies; made on first use. Released with free; NULL: HOME is not known.
char *cache_folder(void);

// A model with its session; release with loaded_free, whatever loaded_* returned.
typedef struct loaded {
    char *path;
    pm_model *model;
    pm_session *session;
} loaded;
// Resolves -m or `word`, opens, shows warnings and the device.
pm_status loaded_model(const cli_args *args, const char *word, loaded *l);
// The same for the vocabulary alone.
pm_status loaded_vocabulary(const cli_args *args, const char *word, loaded *l);
// Shows the size of the cache, then makes it.
pm_status loaded_session(const cli_args *args, loaded *l);
// Shows what came up on the device while sessions were made.
void device_warnings(const cli_args *args, const loaded *l);
void loaded_free(loaded *l);

// A file for reading in whole ("-": stdin), with a limit that no honest input reaches.
pm_status read_input(const char *path, char **data, size_t *n);
// "1,2,3" or "1 2 3", in brackets or not.
pm_status parse_ids(const char *text, int32_t **ids, size_t *n);
// Calls `answer` with each line of a file that holds more than blanks.
pm_status each_line(const char *path, pm_status (*answer)(void *context, const char *, size_t),
                    void *context);

// ---- running a generation ---------------------------------------------------------------------

// Where reasoning goes: dim on a terminal, nowhere otherwise; --show-thinking and
// --no-show-thinking decide.
typedef enum show_reasoning { REASONING_HIDDEN, REASONING_PLAIN, REASONING_DIM } show_reasoning;

typedef struct stream {
    bool show; // write the text to stdout as it comes
    show_reasoning reasoning;
    bool ends_line;   // the last byte written was a line break (or nothing was written)
    bool interrupted; // by Ctrl-C
} stream;
// Draws the seed where none is given, so that it is known what answers are drawn with; with -v says
// order, values and seed, and `more` behind them.
pm_status show_sampler(const cli_args *args, const loaded *l, const char *more);
// Draws until the end. The text so far stays valid in the generation, also after a failure.
pm_status stream_run(stream *s, pm_generation *generation);
// What the option says of reasoning, and the row of tables for it.
show_reasoning stream_reasoning(const cli_args *args);
#define SHOW_THINKING_OPTION                                                                       \
    {                                                                                              \
        "show-thinking", 0, NULL, "write the model's reasoning too (default: on a terminal, dim)"  \
    }
// From here on Ctrl-C stops the running generation of this session; a second one within a second
// ends the process. NULL: no session, only the second part.
void stream_catch(pm_session *session);
// With `slowly` the second one does not end the process: stream_leaves() says that it came, so that
// something can be kept first; so does a signal that asks the process to end. The next one ends it.
void stream_leave_slowly(bool slowly);
bool stream_leaves(void);
// Counts, times and rates in one line, to be released with free; NULL when memory runs out.
char *timing_of(const pm_generation *generation);

#endif
