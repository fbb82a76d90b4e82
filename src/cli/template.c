// pumice template: a conversation as a chat template renders it.
#include <stdlib.h>
#include <string.h>

#include "base/large.h"
#include "cli/cli.h"

const cli_option template_options[] = {
    {"model", 'm', "MODEL", "the model, instead of the first word"},
    {"messages", 0, "FILE", "the conversation, a JSON list (default -: standard input)"},
    {"tools", 0, "FILE", "the tools that the model may call, a JSON list"},
    {"set", 0, "NAME=JSON", "a further variable of the template (repeatable)"},
    {"no-generation-prompt", 0, NULL, "without the beginning of an answer"},
    {"template", 0, "FILE", "this template instead of the model's; no MODEL needed"},
    {"now", 0, "TIME", "the clock that templates see: 2025-07-08T09:05:03"},
    {"jsonl", 0, "FILE", "render each line of FILE (-: standard input)"},
    {"template-dir", 0, "DIR", "with --jsonl: a line names its template, a file in DIR"},
    {0},
};

// ---- JSON ---------------------------------------------------------------------------------------

// Integers of any size go through: marked strings in `out` (then *large becomes true), numbers
// again in encode().
static pm_status decode(const char *text, size_t n, json_t **out, bool *large, json_error_t *where)
{
    buf marked = {0};
    *large |= large_hide(text, n, &marked);
    *out = marked.failed ? NULL
                         : json_loadb(marked.data ? marked.data : "", marked.len,
                                      JSON_DECODE_ANY | JSON_ALLOW_NUL, where);
    pm_status status = marked.failed ? error_memory("JSON", n) : PM_OK;
    if (status == PM_OK && !*out) status = error_set(PM_ERROR_USAGE, "not JSON: %s", where->text);
    buf_free(&marked);
    return status;
}

static pm_status encode(const json_t *vars, bool large, char **text)
{
    buf out = {0};
    char *marked = json_dumps(vars, JSON_REAL_PRECISION(17));
    if (!marked) return error_memory("the variables", 0);
    if (!large) {
        *text = marked;
        return PM_OK;
    }
    large_show(marked, strlen(marked), &out);
    free(marked);
    return buf_take(&out, text, NULL);
}

// ---- many renderings --------------------------------------------------------------------------

typedef struct lines {
    const char *folder; // of --template-dir; NULL: a line holds its template
    double now;
} lines;

// The file NAME or NAME.jinja of the folder. A name is not a path: it comes from the data.
static pm_status read_named(const char *folder, const char *name, char **source, size_t *n)
{
    if (!*name || strchr(name, '/') || name[0] == '.')
        return error_set(PM_ERROR_FILE, "%s: is not the name of a template", name);
    buf path = {0};
    buf_printf(&path, "%s/%s", folder, name);
    if (path.failed) return error_memory("a path", strlen(name));
    pm_status status = read_input(path.data, source, n);
    if (status != PM_OK) {
        buf_str(&path, ".jinja");
        status =
            path.failed ? error_memory("a path", strlen(name)) : read_input(path.data, source, n);
    }
    buf_free(&path);
    return status;
}

// The variables of a line: messages, tools, documents, then all of `vars`.
static json_t *variables_of(const json_t *line)
{
    static const char *const names[] = {"messages", "tools", "documents"};
    bool conversation = json_object_get(line, "messages") != NULL;
    json_t *all = json_object();
    for (size_t k = 0; k < 3; k++) {
        json_t *value = json_object_get(line, names[k]);
        if (value)
            json_object_set(all, names[k], value);
        else if (conversation)
            json_object_set_new(all, names[k], json_null());
    }
    json_object_update(all, json_object_get(line, "vars"));
    return all;
}

static pm_status render_line(const lines *l, const json_t *line, bool large, json_t **answer)
{
    const json_t *name = json_object_get(line, "template");
    const json_t *vars = json_object_get(line, "vars");
    if (!json_is_object(line)) return error_set(PM_ERROR_USAGE, "the line is not a JSON object");
    if (!json_is_string(name)) return error_set(PM_ERROR_USAGE, "template: is missing");
    if (vars && !json_is_object(vars) && !json_is_null(vars))
        return error_set(PM_ERROR_USAGE, "vars: is not an object");

    char *source = NULL, *text = NULL;
    size_t n_source = json_string_length(name), n = 0;
    pm_status status = PM_OK;
    if (l->folder) status = read_named(l->folder, json_string_value(name), &source, &n_source);
    json_t *variables = variables_of(line);
    char *encoded = NULL;
    if (status == PM_OK) status = encode(variables, large, &encoded);
    if (status == PM_OK)
        status = pm_template_render(source ? source : json_string_value(name), n_source, encoded,
                                    l->now, &text, &n);
    if (status == PM_OK) *answer = json_pack("{s:o}", "text", json_of_bytes(text, n));
    pm_free(text);
    free(encoded);
    json_decref(variables);
    free(source);
    return status;
}

static pm_status answer_line(void *context, const char *text, size_t n)
{
    json_error_t where;
    json_t *line = NULL, *answer = NULL;
    bool large = false;
    pm_status status = decode(text, n, &line, &large, &where);
    if (status == PM_OK) status = render_line(context, line, large, &answer);
    if (status != PM_OK) {
        const char *message = pm_last_error();
        answer = json_pack("{s:o}", "error", json_of_bytes(message, strlen(message)));
    }
    out_json(answer, JSON_COMPACT);
    json_decref(answer);
    json_decref(line);
    return PM_OK;
}

// ---- one rendering ----------------------------------------------------------------------------

static pm_status read_json(const char *option, const char *path, json_t **out, bool *large)
{
    char *text = NULL;
    size_t n = 0;
    json_error_t where = {.line = 1, .text = "another kind of value"};
    pm_status status = read_input(path, &text, &n);
    if (status != PM_OK) return error_in(status, "--%s", option);
    status = decode(text, n, out, large, &where);
    free(text);
    if (status == PM_OK && !json_is_array(*out) && !json_is_object(*out)) {
        json_decref(*out);
        status = PM_ERROR_USAGE;
    }
    if (status == PM_ERROR_USAGE)
        return error_set(PM_ERROR_USAGE, "--%s: %s: line %d: %s (a JSON list is needed)", option,
                         path, where.line, where.text);
    return status;
}

static pm_status set_variable(json_t *vars, const char *assignment, bool *large)
{
    const char *equals = strchr(assignment, '=');
    json_error_t where;
    if (!equals || equals == assignment)
        return error_set(PM_ERROR_USAGE, "--set: '%s' is not NAME=JSON", assignment);
    json_t *value = NULL;
    if (decode(equals + 1, strlen(equals + 1), &value, large, &where) != PM_OK)
        return error_set(PM_ERROR_USAGE,
                         "--set: '%s' is not JSON (a text needs quotes: "
                         "NAME='\"text\"')",
                         equals + 1);
    json_object_setn_new(vars, assignment, (size_t)(equals - assignment), value);
    return PM_OK;
}

static pm_status own_variables(const cli_args *args, json_t *vars, bool *large)
{
    const char *tools = args_get(args, "tools"), *messages = args_get(args, "messages");
    json_t *value = NULL;
    pm_status status = read_json("messages", messages ? messages : "-", &value, large);
    if (status != PM_OK) return status;
    // A request as chat programs keep it holds its messages under that name.
    json_t *list = json_object_get(value, "messages");
    json_object_set(vars, "messages", list ? list : value);
    json_decref(value);
    value = json_null();
    if (tools) status = read_json("tools", tools, &value, large);
    if (status != PM_OK) return status;
    json_object_set_new(vars, "tools", value);
    json_object_set_new(vars, "documents", json_null());
    json_object_set_new(vars, "add_generation_prompt",
                        json_boolean(!args_has(args, "no-generation-prompt")));
    return PM_OK;
}

static void set_token(json_t *vars, const pm_model *model, const char *name, int32_t id)
{
    size_t n = 0;
    const char *text = id < 0 ? "" : pm_token_piece(model, id, 1, &n);
    json_object_set_new(vars, name, json_of_bytes(text, n));
}

static pm_status render_one(const cli_args *args, double now)
{
    const char *file = args_get(args, "template"), *named = args_get(args, "model");
    loaded l = {0};
    char *source = NULL, *encoded = NULL, *text = NULL;
    const char *used = NULL;
    size_t n_source = 0, n = 0;
    json_t *vars = json_object();
    bool large = false;
    pm_status status = own_variables(args, vars, &large);
    if (status == PM_OK && (!file || args->n_words || named))
        status = loaded_vocabulary(args, args->n_words ? args->words[0] : NULL, &l);
    if (status == PM_OK && l.model) {
        set_token(vars, l.model, "bos_token", pm_token_bos(l.model));
        set_token(vars, l.model, "eos_token", pm_token_eos(l.model));
        used = pm_model_template(l.model, &n_source);
    }
    if (status == PM_OK && file) {
        status = read_input(file, &source, &n_source);
        used = source;
    }
    if (status == PM_OK && !used)
        status = error_set(PM_ERROR_FILE, "%s: has no chat template (--template FILE gives one)",
                           l.path);
    for (size_t k = 0; status == PM_OK && args_nth(args, "set", k); k++)
        status = set_variable(vars, args_nth(args, "set", k), &large);
    if (status == PM_OK) status = encode(vars, large, &encoded);
    if (status == PM_OK) status = pm_template_render(used, n_source, encoded, now, &text, &n);
    if (status == PM_OK) out_bytes(text, n);
    pm_free(text);
    free(encoded);
    free(source);
    json_decref(vars);
    loaded_free(&l);
    return status;
}

pm_status run_template(cli_args *args)
{
    static const char *const alone[] = {"messages", "tools", "set",
                                        "template", "model", "no-generation-prompt"};
    const char *file = args_get(args, "jsonl"), *time = args_get(args, "now");
    lines l = {.folder = args_get(args, "template-dir"), .now = -1};
    if (time) {
        pm_status status = error_in(pm_parse_time(time, &l.now), "--now");
        if (status != PM_OK) return status;
    }
    if (l.folder && !file) return error_set(PM_ERROR_USAGE, "--template-dir: goes with --jsonl");
    if (!file) return render_one(args, l.now);
    for (size_t k = 0; k < sizeof alone / sizeof alone[0]; k++)
        if (args_get(args, alone[k]))
            return error_set(PM_ERROR_USAGE, "--%s: does not go with --jsonl", alone[k]);
    if (args->n_words > 0)
        return error_set(PM_ERROR_USAGE, "'%s': no MODEL goes with --jsonl", args->words[0]);
    return each_line(file, answer_line, &l);
}
