// The template language of chat templates: Jinja as transformers' environment has it (trim_blocks,
// lstrip_blocks, loop controls, sandbox, generation blocks, tojson, strftime_now, raise_exception).
//
// A parsed template is immutable: any number of threads may render it.
#ifndef PUMICE_CHAT_TEMPLATE_H
#define PUMICE_CHAT_TEMPLATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef struct tmpl tmpl;

// PM_ERROR_FILE when it can't be parsed: the message names line and construct.
pm_status tmpl_parse(const char *source, size_t n, tmpl **out);
void tmpl_free(tmpl *t); // accepts NULL

// The rendered text with, for each byte, whether the template's own literals made it: special
// tokens may be recognised there only. What came from a variable (a message's content above all) is
// not literal, whatever filters it went through.
typedef struct tmpl_output {
    char *text; // zero-terminated, n bytes
    size_t n;
    struct tmpl_run { // runs that cover text from start to end
        size_t n;
        bool literal;
    } *runs;
    size_t n_runs;
} tmpl_output;
void tmpl_output_free(tmpl_output *o);

// Limits, because a template comes from a stranger's file. Zero: the default.
typedef struct tmpl_limits {
    size_t max_steps;  // evaluated nodes; default 50 million
    size_t max_output; // bytes; default 64 MiB
    size_t max_memory; // bytes of values alive or not; default 400 MB
} tmpl_limits;

// Parses JSON text for `vars` (any value; a NUL in a string is allowed). Unlike json_loadb it takes
// integers beyond 64 bits, as Python does; only tmpl_render understands what becomes of them.
// PM_ERROR_FILE: no JSON; the message has the place. Release with json_decref.
pm_status tmpl_load_json(const char *text, size_t n, json_t **out);
// The same for everybody: integers beyond 64 bits become real numbers, which are near them. NULL:
// it is no JSON.
json_t *tmpl_load_rounded(const char *text, size_t n);

// `vars`: a JSON object whose members are the template's variables, in their order. `now`: the
// clock that strftime_now shows, seconds since 1970-01-01 as local time has it (a broken-down time
// without a zone). `trusted`: names of variables (bos_token, eos_token, ...) whose text counts as
// the template's own; NULL-terminated, may be NULL.
// PM_ERROR_RUN: the template raised an exception (the message is the exception's), failed, or went
// past a limit. *out is untouched then.
pm_status tmpl_render(const tmpl *t, const json_t *vars, double now, const char *const *trusted,
                      const tmpl_limits *limits, tmpl_output *out);

#endif
