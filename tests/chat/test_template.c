#include "support/test.h"

#include <jansson.h>

#include "chat/template.h"

static const double clock_of_data = 1751965503; // 2025-07-08 09:05:03

// ---- the recorded renderings ------------------------------------------------------------------

typedef struct tally {
    int lines, wrong;
    char first[6000]; // the first line that is wrong
} tally;

// The variables of a line: messages, tools and documents as transformers passes them, and the rest.
static json_t *line_vars(const json_t *line, const json_t *base)
{
    json_t *vars = base ? json_copy((json_t *)(uintptr_t)base) : json_object();
    const json_t *messages = json_object_get(line, "messages");
    if (messages) {
        const char *const names[] = {"messages", "tools", "documents"};
        for (int i = 0; i < 3; i++) {
            json_t *v = json_object_get(line, names[i]);
            json_object_set_new(vars, names[i], v ? json_incref(v) : json_null());
        }
    }
    json_t *more = json_object_get(line, "vars");
    if (more) json_object_update(vars, more);
    return vars;
}

static void note(tally *t, const char *name, const char *id, const char *expected,
                 const char *found)
{
    if (t->wrong++ == 0)
        snprintf(t->first, sizeof t->first, "%s %s\nexpected: %.2000s\nfound:    %.2000s", name, id,
                 expected, found);
}

static void check_line(tally *t, const tmpl *parsed, pm_status parse_status, const json_t *line,
                       const json_t *base, const char *name)
{
    char id[80];
    const char *conversation = json_string_value(json_object_get(line, "conv"));
    snprintf(id, sizeof id, "%s%d", conversation ? conversation : "line ",
             (int)json_integer_value(json_object_get(line, "id")));
    const char *expected = json_string_value(json_object_get(line, "expected"));
    const char *error = json_string_value(json_object_get(line, "error"));
    const char *type = json_string_value(json_object_get(line, "error_type"));
    json_t *vars = line_vars(line, base);
    tmpl_output out = {0};
    pm_status status = parse_status;
    if (status == PM_OK) status = tmpl_render(parsed, vars, clock_of_data, NULL, NULL, &out);
    t->lines++;
    if (status != PM_OK) {
        const char *message = error_message();
        if (expected)
            note(t, name, id, expected, message);
        else if (strcmp(type, "TemplateError") == 0 && strcmp(message, error) != 0)
            note(t, name, id, error, message);
    } else if (!expected) {
        note(t, name, id, error, out.text);
    } else if (json_string_length(json_object_get(line, "expected")) != out.n ||
               memcmp(expected, out.text, out.n) != 0) {
        note(t, name, id, expected, out.text);
    }
    tmpl_output_free(&out);
    json_decref(vars);
}

static json_t *load_json(const char *text, size_t n)
{
    json_t *v = NULL;
    assert_ok(tmpl_load_json(text, n, &v));
    return v;
}

// Calls `line` for each line of a file of JSON objects.
static void each_line(const char *path, void (*visit)(tally *, const json_t *), tally *t)
{
    size_t n;
    char *text = test_read(path, &n);
    for (char *at = text, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        json_t *line = load_json(at, (size_t)(end - at));
        visit(t, line);
        json_decref(line);
    }
    free(text);
}

// Templates are parsed once; the lines of one template stand together.
static char current_name[100];
static tmpl *current;
static const char *templates_folder;

static void visit_rendering(tally *t, const json_t *line)
{
    const char *name = json_string_value(json_object_get(line, "template"));
    if (!current || strcmp(name, current_name) != 0) {
        char path[1200];
        size_t n;
        snprintf(path, sizeof path, "%s/%s.jinja", templates_folder, name);
        char *source = test_read(path, &n);
        tmpl_free(current);
        current = NULL;
        assert_ok(tmpl_parse(source, n, &current));
        free(source);
        snprintf(current_name, sizeof current_name, "%s", name);
    }
    check_line(t, current, PM_OK, line, NULL, name);
}

static void check_renderings(const char *lines, const char *folder, int at_least)
{
    static tally t;
    t = (tally){0};
    templates_folder = folder;
    each_line(lines, visit_rendering, &t);
    tmpl_free(current);
    current = NULL;
    printf("%s: %d lines, %d wrong\n", lines, t.lines, t.wrong);
    if (t.wrong) fail_msg("%d of %d lines differ, the first: %s", t.wrong, t.lines, t.first);
    assert_true(t.lines >= at_least);
}

static void r39_core_templates(void **state)
{
    (void)state;
    check_renderings(test_data("chat/renders_core.jsonl"), test_data("templates"), 1600);
}

static void r39_extra_templates(void **state)
{
    (void)state;
    check_renderings(test_data("chat/renders_extra.jsonl"), test_data("templates"), 800);
}

static json_t *unit_vars;

static void visit_unit(tally *t, const json_t *line)
{
    const char *source = json_string_value(json_object_get(line, "template"));
    tmpl *parsed = NULL;
    pm_status status =
        tmpl_parse(source, json_string_length(json_object_get(line, "template")), &parsed);
    check_line(t, parsed, status, line, unit_vars, source);
    tmpl_free(parsed);
}

static void check_units(const char *lines, const char *vars, int at_least)
{
    static tally t;
    size_t n;
    char *text = test_read(vars, &n);
    unit_vars = load_json(text, n);
    free(text);
    t = (tally){0};
    each_line(lines, visit_unit, &t);
    json_decref(unit_vars);
    printf("%s: %d lines, %d wrong\n", lines, t.lines, t.wrong);
    if (t.wrong) fail_msg("%d of %d lines differ, the first: %s", t.wrong, t.lines, t.first);
    assert_true(t.lines >= at_least);
}

static void single_features(void **state)
{
    (void)state;
    check_units(test_data("chat/jinja_unit.jsonl"), test_data("chat/jinja_unit_vars.json"), 480);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_features),
        cmocka_unit_test(r39_core_templates),
        cmocka_unit_test(r39_extra_templates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
