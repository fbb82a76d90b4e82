#include "support/test.h"

#include <jansson.h>
#include <time.h>

#include "base/os.h"
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

// The same for people who have the repository alone.
static void renderings_kept_here(void **state)
{
    (void)state;
    check_renderings(test_source("tests/chat/data/renders.jsonl"),
                     test_source("tests/chat/data/templates"), 40);
    check_units(test_source("tests/chat/data/unit.jsonl"),
                test_source("tests/chat/data/unit_vars.json"), 120);
}

// What random templates have shown to differ once; expected values by Jinja2 3.1.6, Python 3.11.
static void once_unlike_jinja(void **state)
{
    (void)state;
    check_units(test_source("tests/chat/data/unit_more.jsonl"),
                test_source("tests/chat/data/unit_vars.json"), 24);
}

// ---- literal and other text -------------------------------------------------------------------

static tmpl *parse(const char *source)
{
    tmpl *t = NULL;
    assert_ok(tmpl_parse(source, strlen(source), &t));
    return t;
}

static json_t *vars_of(const char *json)
{
    return load_json(json, strlen(json));
}

// Renders and gives the text with everything that is not literal in <...>.
static char *marked(const char *source, const char *json, const char *const *trusted)
{
    tmpl *t = parse(source);
    json_t *vars = vars_of(json);
    tmpl_output o = {0};
    assert_ok(tmpl_render(t, vars, 0, trusted, NULL, &o));
    char *text = calloc(1, o.n + 2 * o.n_runs + 1), *to = text;
    size_t at = 0;
    for (size_t i = 0; i < o.n_runs; i++) {
        assert_true(o.runs[i].n > 0 && o.runs[i].n <= o.n - at);
        if (!o.runs[i].literal) *to++ = '<';
        memcpy(to, o.text + at, o.runs[i].n);
        to += o.runs[i].n;
        at += o.runs[i].n;
        if (!o.runs[i].literal) *to++ = '>';
    }
    assert_int_equal(at, o.n);
    tmpl_output_free(&o);
    json_decref(vars);
    tmpl_free(t);
    return text;
}

static void literal_text_is_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *source, *expected;
    } cases[] = {
        {"[A]{{ c }}[B]", "[A]<Hi[X]>[B]"},
        {"{{ '[A]' + c + '[B]' }}", "[A]<Hi[X]>[B]"},
        {"{{ '[A]' ~ c ~ '[B]' }}", "[A]<Hi[X]>[B]"},
        {"{{ c | upper }}{{ ('a' ~ c) | upper }}", "<HI[X]>A<HI[X]>"},
        {"{{ ('  [A]' ~ c ~ '[B]  ') | trim }}", "[A]<Hi[X]>[B]"},
        {"{{ ('[A]' ~ c)[1:5] }}", "A]<Hi>"},
        {"{{ ('ab' ~ c)[::-1] }}", "<]X[iH>ba"},
        {"{{ ('a-' ~ c).replace('-', '[B]') }}", "a[B]<Hi[X]>"},
        {"{{ c.replace('Hi', '[B]') }}", "[B]<[X]>"},
        {"{{ '[A]'.replace('A', c) }}", "[<Hi[X]>]"},
        {"{{ [c, 'b'] | join('[S]') }}", "<Hi[X]>[S]b"},
        {"{{ '[S]'.join([c, c]) }}", "<Hi[X]>[S]<Hi[X]>"},
        {"{{ (c ~ '[S]' ~ c).split('[S]')[1] }}", "<Hi[X]>"},
        {"{{ (c ~ '[S]b').split('[S]')[1] }}", "b"},
        {"{{ '[%s]' % c }}{{ '[{}]'.format(c) }}", "[<Hi[X]>][<Hi[X]>]"},
        {"{{ m | tojson }}", "<{\"k\": \"[X]\"}>"},
        {"{{ m }}{{ m.k }}", "<{'k': '[X]'}[X]>"},
        {"{% set x %}[A]{{ c }}{% endset %}{{ x }}", "[A]<Hi[X]>"},
        {"{% macro f(a) %}[A]{{ a }}{% endmacro %}{{ f(c) }}{{ f('b') }}", "[A]<Hi[X]>[A]b"},
        {"{% filter lower %}[A]{{ c }}{% endfilter %}", "[a]<hi[x]>"},
        {"{% for x in c %}{{ x }}.{% endfor %}", "<H>.<i>.<[>.<X>.<]>."},
        {"{{ c | indent(2, true) }}", "<  Hi[X]>"},
        {"{{ ('<' ~ c) | e }}", "&lt;<Hi[X]>"},
        {"{{ b }}{{ c }}", "[BOS]<Hi[X]>"},
        {"{{ b + c }}{{ other }}", "[BOS]<Hi[X][OTHER]>"},
        {"{{ c if true else '' }}{{ {'x': '[L]'}.x }}{{ ['[L]', c][0] }}", "<Hi[X]>[L][L]"},
        {"{{ (c | string | list | join) }}", "<Hi[X]>"},
        {"{{ c | default('[D]') }}{{ nothing | default('[D]') }}", "<Hi[X]>[D]"},
        {"{{ ('a\n' ~ c) | indent(1) }}", "a<\n Hi[X]>"},
        {"{{ c | truncate(2, true, '', 0) }}{{ 'x' | center(3) }}", "<Hi >x< >"},
    };
    const char *const trusted[] = {"b", NULL};
    const char *vars = "{\"c\": \"Hi[X]\", \"m\": {\"k\": \"[X]\"}, \"b\": \"[BOS]\", "
                       "\"other\": \"[OTHER]\"}";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *found = marked(cases[i].source, vars, trusted);
        if (strcmp(found, cases[i].expected) != 0)
            fail_msg("%s: expected %s, found %s", cases[i].source, cases[i].expected, found);
        free(found);
    }
}

// ---- errors and limits ------------------------------------------------------------------------

static void expect_failure(const char *source, const tmpl_limits *limits, pm_status status,
                           const char *message)
{
    tmpl *t = NULL;
    tmpl_output o = {0};
    json_t *vars = vars_of("{\"s\": \"text\", \"n\": 3}");
    pm_status found = tmpl_parse(source, strlen(source), &t);
    if (found == PM_OK) found = tmpl_render(t, vars, 0, NULL, limits, &o);
    if (found != status || !strstr(error_message(), message))
        fail_msg("%.200s: expected status %d and '%s', found %d and '%s'", source, (int)status,
                 message, (int)found, error_message());
    assert_null(o.text);
    tmpl_free(t);
    json_decref(vars);
}

static void errors_name_the_line(void **state)
{
    (void)state;
    static const struct {
        pm_status status;
        const char *source, *message;
    } cases[] = {
        {PM_ERROR_FILE, "a\nb {% if s %}\nc", "template line 3: Unexpected end of template."},
        {PM_ERROR_FILE, "a\n\n{% frobnicate %}", "line 3: Encountered unknown tag 'frobnicate'."},
        {PM_ERROR_FILE, "\n{{ s | nofilter }}", "template line 2: No filter named 'nofilter'."},
        {PM_ERROR_FILE, "{{ s is notest }}", "template line 1: No test named 'notest'."},
        {PM_ERROR_FILE, "{% include 'x' %}", "template line 1: 'include' is not supported"},
        {PM_ERROR_FILE, "x\n{% import 'x' as y %}", "template line 2: 'import' is not supported"},
        {PM_ERROR_FILE, "{% extends 'x' %}", "template line 1: 'extends' is not supported"},
        {PM_ERROR_FILE, "{{ (1, }}", "template line 1: unexpected '}', expected ')'"},
        {PM_ERROR_FILE, "\n\n{{ 'abc }}", "template line 3: unexpected char"},
        {PM_ERROR_FILE, "{% break %}", "template line 1: 'break' outside of a loop"},
        {PM_ERROR_FILE, "{# x", "template line 1: Missing end of comment tag"},
        {PM_ERROR_FILE, "{% raw %}x", "template line 1: Missing end of raw directive"},
        {PM_ERROR_FILE, "{{ \"\\x4\" }}", "template line 1: truncated"},
        {PM_ERROR_FILE, "{% set 1 = 2 %}", "template line 1: can't assign"},
        {PM_ERROR_FILE, "{% block a %}{% endblock %}{% block a %}{% endblock %}", "defined twice"},
        {PM_ERROR_RUN, "a\n{{ none.x.y }}", "template line 2: 'None' has no attribute 'x'"},
        {PM_ERROR_RUN, "{% if n %}\n{{ s | nofilter }}{% endif %}",
         "template line 2: No filter named 'nofilter' found."},
        {PM_ERROR_RUN, "{{ [].append(1) }}", "access to attribute 'append' of 'list' object"},
        {PM_ERROR_RUN, "{{ 1 // 0 }}", "division or modulo by zero"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_failure(cases[i].source, NULL, cases[i].status, cases[i].message);
    tmpl *t = parse("\n{{ raise_exception('all of it: ' ~ 5) }}");
    tmpl_output o = {0};
    assert_int_equal(tmpl_render(t, NULL, 0, NULL, NULL, &o), PM_ERROR_RUN);
    assert_string_equal(error_message(), "all of it: 5");
    tmpl_free(t);
}

// What a stranger's template may try: each ends within 5 seconds, all in less than 500 MB.
static void hostile_templates_end_soon(void **state)
{
    (void)state;
    static const char *const list[] = {
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% for i in range(100000) %}{% for j in range(100000) %}{{ j }}{% endfor %}{% endfor %}",
        "{% for i in range(100000) %}{% set s = 'x' * 1000000 %}{{ s | length }}{% endfor %}",
        "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}"
        "{% endfor %}{{ ns.s }}",
        "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}"
        "{% endfor %}{{ ns.l | length }}",
        "{% set l = range(100000) | list %}{% for i in range(100000) %}"
        "{{ (l | reverse | sort | unique | list) | length }}{% endfor %}",
        "{% set s = 'ab' * 500000 %}{% for i in range(100000) %}"
        "{{ s | replace('a', 'bbbb') | length }}{% endfor %}",
        "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ s.split('a') | length }}"
        "{% endfor %}",
        "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% if 'b' in s %}{% endif %}"
        "{% endfor %}",
        "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ (s | upper | trim)[-1] }}"
        "{% endfor %}",
        "{% set l = range(100000) | list %}{% for i in range(100000) %}"
        "{{ l | tojson(indent=2) | length }}{% endfor %}",
        "{% set ns = namespace(d={}) %}{% for i in range(100000) %}"
        "{% set ns.d = {'a': ns.d, 'b': ns.d} %}{% endfor %}{{ ns.d | string | length }}",
        "{% set a = 9 ** 4000 %}{% for i in range(100000) %}{{ (a * a) % 7 }}{% endfor %}",
        "{% set l = range(100000) | list %}{% for i in range(100000) %}{{ l == l[:] }}{{ -5 in l }}"
        "{% endfor %}",
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        tmpl *t = NULL;
        tmpl_output o = {0};
        json_t *vars = json_object();
        clock_t start = clock();
        assert_ok(tmpl_parse(list[i], strlen(list[i]), &t));
        if (tmpl_render(t, vars, 0, NULL, NULL, &o) == PM_OK) tmpl_output_free(&o);
        double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        if (!SANITIZED && seconds > 5) fail_msg("%.1f s for %s", seconds, list[i]);
        tmpl_free(t);
        json_decref(vars);
    }
    if (!SANITIZED && os_peak_rss() > 500000000) {
        fail_msg("%.0f MB", (double)os_peak_rss() / 1e6);
    }
}

static void limits_end_what_would_not(void **state)
{
    (void)state;
    const tmpl_limits steps = {.max_steps = 100000}, output = {.max_output = 5000},
                      memory = {.max_memory = 3000000};
    const char *loop = "{% for i in range(100000) %}{% for j in range(100000) %}"
                       "{% endfor %}{% endfor %}";
    expect_failure(loop, &steps, PM_ERROR_RUN, "limit of 100000 steps");
    expect_failure(loop, NULL, PM_ERROR_RUN, "limit of 50000000 steps");
    expect_failure("{% for i in range(9999) %}text{% endfor %}", &output, PM_ERROR_RUN,
                   "limit of 5000 bytes");
    expect_failure("{{ 'ab' * 100000000000 }}", NULL, PM_ERROR_RUN, "limit of 67108864 bytes");
    expect_failure("{% set ns = namespace(l=[1]) %}{% for i in range(90) %}"
                   "{% set ns.l = ns.l + ns.l %}{% endfor %}",
                   &memory, PM_ERROR_RUN, "limit of 3000000 bytes");
    expect_failure("{{ [1] * 100000000000 }}", NULL, PM_ERROR_RUN, "limit of 400000000 bytes");
    expect_failure("{{ range(100001) }}", NULL, PM_ERROR_RUN, "Range too big");
    expect_failure("{{ 10 ** 10000 }}", NULL, PM_ERROR_RUN, "4300 digits");
    expect_failure("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", NULL, PM_ERROR_RUN,
                   "maximum recursion depth exceeded");
    expect_failure("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", NULL, PM_ERROR_RUN,
                   "maximum recursion depth exceeded");
    expect_failure("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}", NULL, PM_ERROR_RUN,
                   "maximum recursion depth exceeded");
    expect_failure("{% block a %}{{ self.a() }}{% endblock %}", NULL, PM_ERROR_RUN,
                   "maximum recursion depth exceeded");
}

// `n` times `open`, `middle`, `n` times `close`.
static char *nested(const char *open, const char *middle, const char *close, size_t n)
{
    size_t size = n * (strlen(open) + strlen(close)) + strlen(middle) + 1;
    char *text = calloc(1, size), *to = text;
    for (size_t i = 0; i < n; i++) to += sprintf(to, "%s", open);
    to += sprintf(to, "%s", middle);
    for (size_t i = 0; i < n; i++) to += sprintf(to, "%s", close);
    return text;
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *before, *open, *middle, *close, *after;
    } cases[] = {
        {"{{ ", "(", "1", ")", " }}"},
        {"{{ ", "[", "1", "]", " }}"},
        {"{{ ", "{1: ", "1", "}", " }}"},
        {"{{ ", "not ", "1", "", " }}"},
        {"{{ ", "- ", "1", "", " }}"},
        {"{{ ", "f(", "1", ")", " }}"},
        {"{{ ", "a[", "1", "]", " }}"},
        {"{{ ", "1 if 1 else ", "1", "", " }}"},
        {"{{ ", "1 + ", "1", "", " }}"},
        {"{{ ", "", "a", ".a", " }}"},
        {"{{ ", "", "a", " | trim", " }}"},
        {"{{ ", "1 ~ (", "1", ")", " }}"},
        {"", "{% if 1 %}", "", "{% endif %}", ""},
        {"", "{% for x in y %}", "", "{% endfor %}", ""},
        {"", "{% macro f() %}", "", "{% endmacro %}", ""},
        {"", "{% set x %}", "", "{% endset %}", ""},
        {"{% set ", "(", "a", ",)", " = 1 %}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *body = nested(cases[i].open, cases[i].middle, cases[i].close, 100000);
        size_t size = strlen(body) + 32;
        char *source = malloc(size);
        snprintf(source, size, "%s%s%s", cases[i].before, body, cases[i].after);
        expect_failure(source, NULL, PM_ERROR_FILE, "levels");
        free(source);
        free(body);
    }
    // What people write is far from the limit.
    char *sum = nested("s + ", "s", "", 500), *source = malloc(strlen(sum) + 32);
    sprintf(source, "{{ %s }}", sum);
    tmpl *t = parse(source);
    json_t *vars = vars_of("{\"s\": \"ab\"}");
    tmpl_output o = {0};
    assert_ok(tmpl_render(t, vars, 0, NULL, NULL, &o));
    assert_int_equal(o.n, 1002);
    tmpl_output_free(&o);
    json_decref(vars);
    tmpl_free(t);
    free(source);
    free(sum);
}

// ---- JSON with large integers -----------------------------------------------------------------

static void large_integers_survive(void **state)
{
    (void)state;
    char *found = marked("{{ a }} {{ b | tojson }} {{ a + 1 }} {{ c }} {{ d }}",
                         "{\"a\": 12345678901234567890, \"b\": [-98765432109876543210, \"1\", "
                         "\"99999999999999999999\", 1e25, 9223372036854775807], "
                         "\"c\": \"integer-0:1\", \"d\": -9223372036854775808}",
                         NULL);
    // Digits are no literal text; the blanks between are.
    assert_string_equal(found, "<12345678901234567890> <[-98765432109876543210, \"1\", "
                               "\"99999999999999999999\", 1e+25, 9223372036854775807]> "
                               "<12345678901234567891> <integer-0:1> <-9223372036854775808>");
    free(found);
    json_t *v = NULL;
    static const char *const bad[] = {
        "",      "{",   "[1,]",      "-",           "012345678901234567890123",
        "[1 2]", "1-2", "{\"a\" 1}", "\"\\ud800\"", "nul"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (tmpl_load_json(bad[i], strlen(bad[i]), &v) != PM_ERROR_FILE)
            fail_msg("'%s' was taken for JSON", bad[i]);
    v = tmpl_load_rounded("[9223372036854775808]", 21);
    assert_true(json_real_value(json_array_get(v, 0)) == 0x1p63);
    json_decref(v);
    assert_null(tmpl_load_rounded("", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renderings_kept_here),      cmocka_unit_test(once_unlike_jinja),
        cmocka_unit_test(single_features),           cmocka_unit_test(r39_core_templates),
        cmocka_unit_test(r39_extra_templates),       cmocka_unit_test(literal_text_is_told_apart),
        cmocka_unit_test(errors_name_the_line),      cmocka_unit_test(hostile_templates_end_soon),
        cmocka_unit_test(limits_end_what_would_not), cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(large_integers_survive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
