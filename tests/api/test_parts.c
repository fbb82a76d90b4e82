// What answers consist of, from a model's first token to its message: reasoning, calls of tools,
// text of a grammar. Grammars make the model say what is to be recognised.
#include "support/test.h"

#include <math.h>
#include <stdbool.h>

#include "support/open.h"

typedef struct fixture {
    pm_options *options;
    pm_model *model;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->options = test_options("device", "cpu", "temp", "0", "ctx", "4096", NULL);
    f->model = test_golden("smollm3-tied.q8_0", f->options);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    pm_model_close(f->model);
    pm_options_destroy(f->options);
    free(f);
    return 0;
}

static const char *file_with(const char *name, const char *text)
{
    const char *path = test_temp(name);
    test_write(path, text, strlen(text));
    return path;
}

// Options of one chat: a template of the collection (NULL: the model's), what the model is to say.
static pm_options *chat_options(const char *template, const char *grammar)
{
    pm_options *o = test_options("device", "cpu", "temp", "0", "ctx", "4096", NULL);
    char name[64];
    snprintf(name, sizeof name, "templates/%s.jinja", template ? template : "");
    if (template) assert_ok(pm_options_set(o, "template", test_data(name)));
    if (grammar) assert_ok(pm_options_set(o, "grammar", file_with("say.gbnf", grammar)));
    return o;
}

typedef struct talk {
    pm_options *options;
    pm_session *session;
    pm_chat *chat;
} talk;

static talk begin(const fixture *f, pm_options *o)
{
    talk t = {.options = o, .session = test_session(f->model, o)};
    assert_ok(pm_chat_create(t.session, o, &t.chat));
    return t;
}

static void end(talk *t)
{
    pm_chat_destroy(t->chat);
    pm_session_destroy(t->session);
    pm_options_destroy(t->options);
}

typedef struct parts {
    char text[4096], reasoning[4096];
    json_t *json;     // pm_generation_json
    json_t *messages; // afterwards
} parts;

static parts answer(talk *t)
{
    parts p = {0};
    pm_generation *g = NULL;
    assert_ok(pm_chat_generate(t->chat, NULL, &g));
    int done = 0;
    while (!done) {
        const char *piece;
        size_t n;
        assert_ok(pm_generation_next(g, &piece, &n, &done));
        bool reasoning = n > 0 && pm_generation_part(g) == PM_PART_REASONING;
        strncat(reasoning ? p.reasoning : p.text, piece, n);
    }
    size_t n;
    assert_string_equal(pm_generation_text(g, &n), p.text);
    assert_string_equal(pm_generation_reasoning(g, &n), p.reasoning);
    char *json = NULL;
    assert_ok(pm_generation_json(g, &json));
    p.json = json_loads(json, JSON_ALLOW_NUL, NULL);
    pm_free(json);
    assert_ok(pm_chat_finish(t->chat));
    assert_ok(pm_chat_messages(t->chat, &json));
    p.messages = json_loads(json, JSON_ALLOW_NUL, NULL);
    pm_free(json);
    return p;
}

static void drop(parts *p)
{
    json_decref(p->json);
    json_decref(p->messages);
}

static const char *last(const parts *p, const char *key)
{
    const json_t *m = json_array_get(p->messages, json_array_size(p->messages) - 1);
    return json_string_value(json_object_get(m, key));
}

static char *rendered(talk *t)
{
    char *text = NULL;
    assert_ok(pm_chat_render(t->chat, 1, &text, NULL));
    return text;
}

// ---- reasoning --------------------------------------------------------------------------------

static void reasoning_is_apart(void **state)
{
    const fixture *f = *state;
    static const char *const templates[] = {"smollm3", "qwen3", NULL};
    for (size_t i = 0; i < 3; i++) {
        talk t = begin(
            f, chat_options(templates[i], "root ::= \"<think>\\nwhy\\n</think>\\n\\nso it is\""));
        assert_ok(pm_chat_add(t.chat, "user", "q"));
        parts p = answer(&t);
        assert_string_equal(p.reasoning, "why");
        assert_string_equal(p.text, "so it is");
        assert_string_equal(json_string_value(json_object_get(p.json, "text")), "so it is");
        assert_string_equal(json_string_value(json_object_get(p.json, "reasoning")), "why");
        assert_null(json_object_get(p.json, "tool_calls"));
        assert_string_equal(json_string_value(json_object_get(p.json, "finish_reason")), "stop");
        assert_string_equal(last(&p, "content"), "so it is");
        assert_string_equal(last(&p, "reasoning_content"), "why");
        drop(&p);
        // the next turn goes on with it
        assert_ok(pm_chat_add(t.chat, "user", "and?"));
        p = answer(&t);
        assert_string_equal(p.text, "so it is");
        drop(&p);
        end(&t);
    }
}

// What --think and --no-think change in the prompt, as the templates have it.
static void thinking_on_and_off(void **state)
{
    const fixture *f = *state;
    static const struct {
        const char *template, *option, *part, *other;
    } list[] = {
        {"smollm3", "think", "Reasoning Mode: /think", "<think>\n\n</think>\n"},
        {"smollm3", "no-think", "assistant\n<think>\n\n</think>\n", "Reasoning Mode: /think"},
        {"qwen3", "no-think", "assistant\n<think>\n\n</think>\n\n", "/think\""},
        {"deepseek-v3.1", "think", "<think>", "</think>"},
        {"deepseek-v3.1", "no-think", "</think>", "<think>\n"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        pm_options *o = chat_options(list[i].template, NULL);
        assert_ok(pm_options_set(o, list[i].option, "true"));
        talk t = begin(f, o);
        assert_ok(pm_chat_add(t.chat, "user", "q"));
        char *text = rendered(&t);
        if (!strstr(text, list[i].part) || strstr(text, list[i].other)) {
            fail_msg("%s --%s: %s", list[i].template, list[i].option, text);
        }
        pm_free(text);
        end(&t);
    }
}

// The template opens the <think>: until the model closes it, all is reasoning.
static void an_opened_think(void **state)
{
    const fixture *f = *state;
    pm_options *o = chat_options(NULL, NULL);
    assert_ok(pm_options_set(o, "template",
                             file_with("open.jinja", "{{ messages[-1].content }}:<think>\n")));
    assert_ok(pm_options_set(o, "max-tokens", "8"));
    talk t = begin(f, o);
    assert_ok(pm_chat_add(t.chat, "user", "q"));
    parts p = answer(&t);
    assert_string_equal(p.text, "");
    assert_string_equal(json_string_value(json_object_get(p.json, "text")), "");
    assert_true(p.reasoning[0] != 0);
    drop(&p);
    end(&t);
}

// However much the model wants to end inside the reasoning: the grammar's text is still to come.
static void no_end_before_the_grammar(void **state)
{
    const fixture *f = *state;
    pm_options *o = chat_options(NULL, "root ::= \"yes\"");
    assert_ok(pm_options_set(o, "template",
                             file_with("open.jinja", "{{ messages[-1].content }}:<think>\n")));
    assert_ok(pm_options_set(o, "max-tokens", "8"));
    for (int32_t id = 0; id < pm_model_n_vocab(f->model); id++) {
        char bias[32];
        snprintf(bias, sizeof bias, "%d:1000", id);
        if (pm_token_is_end(f->model, id)) assert_ok(pm_options_set(o, "logit-bias", bias));
    }
    talk t = begin(f, o);
    assert_ok(pm_chat_add(t.chat, "user", "q"));
    pm_generation *g = NULL;
    assert_ok(pm_chat_generate(t.chat, NULL, &g));
    free(test_generate(g));
    assert_string_equal(pm_generation_finish_reason(g), "length"); // not "stop", with no text
    assert_int_equal(pm_generation_follows_grammar(g), 0);
    end(&t);
    o = chat_options(NULL, "root ::= \"yes\"");
    t = begin(f, o);
    assert_ok(pm_chat_add(t.chat, "user", "q"));
    assert_ok(pm_chat_generate(t.chat, NULL, &g));
    free(test_generate(g));
    assert_int_equal(pm_generation_follows_grammar(g), 1);
    end(&t);
}

// A user who writes the markers changes nothing, wherever the text lands in the prompt.
static void a_users_markers_are_text(void **state)
{
    const fixture *f = *state;
    pm_options *o = chat_options(NULL, NULL);
    assert_ok(pm_options_set(o, "template",
                             file_with("last.jinja", "{{ 'a' ~ messages[-1].content | trim }}")));
    assert_ok(pm_options_set(o, "max-tokens", "8"));
    talk t = begin(f, o);
    assert_ok(pm_chat_add(t.chat, "user", "q <think>"));
    parts p = answer(&t);
    assert_string_equal(p.reasoning, "");
    assert_true(p.text[0] != 0);
    assert_null(json_object_get(p.json, "reasoning"));
    drop(&p);
    end(&t);
}

// ---- tools ------------------------------------------------------------------------------------

static const char tools[] = "[{\"name\": \"get_weather\", \"description\": \"of a city\", "
                            "\"parameters\": {\"type\": \"object\", \"properties\": {\"city\": "
                            "{\"type\": \"string\"}}}}]";

static const char call_grammar[] =
    "root ::= \"<tool_call>\\n{\\\"name\\\": \\\"get_weather\\\", \\\"arguments\\\": "
    "{\\\"city\\\": \\\"Oslo\\\"}}\\n</tool_call>\"";

static void check_call(const json_t *calls, const char *id)
{
    assert_int_equal(json_array_size(calls), 1);
    const json_t *call = json_array_get(calls, 0), *function = json_object_get(call, "function");
    assert_string_equal(json_string_value(json_object_get(call, "id")), id);
    assert_string_equal(json_string_value(json_object_get(function, "name")), "get_weather");
    const json_t *arguments = json_object_get(function, "arguments");
    assert_string_equal(json_string_value(json_object_get(arguments, "city")), "Oslo");
}

static bool in_order(const char *text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n && text; i++) text = strstr(text, words[i]);
    return text != NULL;
}

static void calls_and_their_results(void **state)
{
    const fixture *f = *state;
    static const char *const templates[] = {"smollm3", "qwen3", "qwen2.5"};
    for (size_t i = 0; i < 3; i++) {
        pm_options *o = chat_options(templates[i], call_grammar);
        assert_ok(pm_options_set(o, "tools", file_with("tools.json", tools)));
        talk t = begin(f, o);
        assert_ok(pm_chat_add(t.chat, "user", "How is the weather in Oslo?"));
        char *prompt = rendered(&t);
        assert_non_null(strstr(prompt, "of a city"));
        pm_free(prompt);
        parts p = answer(&t);
        assert_string_equal(p.text, "");
        check_call(json_object_get(p.json, "tool_calls"), "call00000");
        assert_int_equal(pm_chat_add_tool_result(t.chat, "call00009", "x"), PM_ERROR_USAGE);
        assert_ok(pm_chat_add_tool_result(t.chat, "call00000", "-3 degrees"));
        assert_int_equal(pm_chat_add_tool_result(t.chat, NULL, "x"), PM_ERROR_USAGE);
        drop(&p);
        // call and result are in the prompt, whether the template writes calls or not
        prompt = rendered(&t);
        const char *const order[] = {
            "in Oslo?", "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": ", "-3 degrees"};
        assert_true(in_order(prompt, order, 3));
        pm_free(prompt);
        p = answer(&t);
        check_call(json_object_get(p.json, "tool_calls"), "call00001");
        drop(&p);
        end(&t);
    }
}

static void tools_as_functions_of_python(void **state)
{
    const fixture *f = *state;
    pm_options *o = chat_options("smollm3", "root ::= \"<code>get_weather('Oslo')</code>\"");
    assert_ok(pm_options_set(o, "tools", file_with("tools.json", tools)));
    assert_ok(pm_options_set(o, "python-tools", "true"));
    talk t = begin(f, o);
    assert_ok(pm_chat_add(t.chat, "user", "q"));
    char *prompt = rendered(&t);
    assert_non_null(strstr(prompt, "between '<code>' and '</code>' tags"));
    pm_free(prompt);
    parts p = answer(&t);
    check_call(json_object_get(p.json, "tool_calls"), "call00000");
    drop(&p);
    end(&t);
}

static void tools_that_are_refused(void **state)
{
    const fixture *f = *state;
    static const struct {
        const char *template, *tools, *part;
    } list[] = {
        {"smollm2", tools, "offers no tools"},
        {"smollm3", "[", "tools.json: tools: JSON line 1"},
        {"smollm3", "{}", "a JSON list is expected"},
        {"smollm3", "[{\"description\": \"x\"}]", "number 1 has no name"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        pm_options *o = chat_options(list[i].template, NULL);
        assert_ok(pm_options_set(o, "tools", file_with("tools.json", list[i].tools)));
        pm_session *s = test_session(f->model, o);
        pm_chat *c = NULL;
        assert_int_equal(pm_chat_create(s, o, &c), PM_ERROR_USAGE);
        assert_non_null(strstr(pm_last_error(), list[i].part));
        assert_ok(pm_options_set(o, "tools", "/no/such/file"));
        assert_int_equal(pm_chat_create(s, o, &c), PM_ERROR_FILE);
        pm_session_destroy(s);
        pm_options_destroy(o);
    }
}

// A schema's answer calls nothing, so that the two don't go together; in either order.
static void tools_beside_a_schema(void **state)
{
    const fixture *f = *state;
    static const char list[] = "[{\"name\": \"f\", \"parameters\": {}}]";
    pm_options *o = chat_options("qwen3", NULL);
    assert_ok(pm_options_set(o, "json-schema", file_with("any.json", "{}")));
    talk t = begin(f, o);
    assert_int_equal(pm_chat_set_tools(t.chat, list), PM_ERROR_USAGE);
    assert_non_null(strstr(pm_last_error(), "json-schema"));
    assert_ok(pm_chat_set_tools(t.chat, NULL));
    pm_chat *c = NULL;
    assert_ok(pm_options_set(o, "tools", file_with("tools.json", list)));
    assert_int_equal(pm_chat_create(t.session, o, &c), PM_ERROR_USAGE);
    end(&t);
}

// ---- grammars ---------------------------------------------------------------------------------

static const char schema[] =
    "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\"}, \"size\": "
    "{\"type\": "
    "\"number\"}, \"next\": {\"$ref\": \"#\"}}, \"required\": [\"name\", \"size\"]}";

static void check_schema(const json_t *v)
{
    assert_true(json_is_string(json_object_get(v, "name")));
    assert_true(json_is_number(json_object_get(v, "size")));
    const json_t *next = json_object_get(v, "next");
    if (next) check_schema(next);
}

// However wild the draws, and wherever max-tokens ends the text: it parses.
static void constrained_answers_always_parse(void **state)
{
    const fixture *f = *state;
    size_t n_long = 0;
    for (int seed = 0; seed < 12; seed++) {
        char number[32], limit[32];
        snprintf(number, sizeof number, "%d", seed);
        snprintf(limit, sizeof limit, "%d", 24 + 17 * seed);
        pm_options *o =
            test_options("device", "cpu", "temp", seed % 3 ? "2" : "0", "top-k", "0", "top-p", "1",
                         "min-p", "0", "seed", number, "max-tokens", limit, NULL);
        assert_ok(pm_options_set(o, "json-schema", file_with("schema.json", schema)));
        talk t = begin(f, o);
        assert_ok(pm_chat_add(t.chat, "user", "q"));
        parts p = answer(&t);
        json_t *value = json_loads(p.text, 0, NULL);
        if (!value) fail_msg("no JSON: %s", p.text);
        check_schema(value);
        n_long += strlen(p.text) > 40;
        json_decref(value);
        drop(&p);
        end(&t);
    }
    assert_true(n_long > 0);
}

// Of the tokens that a grammar allows, the most likely one; checked with the raw logits.
static void a_greedy_pick_under_a_grammar(void **state)
{
    const fixture *f = *state;
    pm_options *o = test_options("device", "cpu", "temp", "0", "max-tokens", "1", NULL);
    assert_ok(pm_options_set(o, "grammar", file_with("class.gbnf", "root ::= [b-y]+")));
    pm_session *s = test_session(f->model, o);
    const int32_t prompt[] = {10, 20, 30};
    pm_generation *g = NULL;
    assert_ok(pm_generation_start(s, o, prompt, 3, &g));
    char *text = test_generate(g);
    assert_ok(pm_session_rewind(s, 0));
    assert_ok(pm_session_eval(s, prompt, 3, 0));
    const float *logits = pm_session_logits(s, 0);
    int32_t best = -1;
    for (int32_t id = 0; id < pm_model_n_vocab(f->model); id++) {
        size_t n;
        const char *piece = pm_token_piece(f->model, id, 0, &n);
        bool allowed = n > 0;
        for (size_t k = 0; k < n; k++) allowed = allowed && piece[k] >= 'b' && piece[k] <= 'y';
        if (allowed && (best < 0 || logits[id] > logits[best])) best = id;
    }
    size_t n;
    const char *piece = pm_token_piece(f->model, best, 0, &n);
    assert_int_equal(strlen(text), n);
    assert_memory_equal(text, piece, n);
    free(text);
    pm_generation_destroy(g);
    pm_session_destroy(s);
    pm_options_destroy(o);
}

static void grammars_that_are_refused(void **state)
{
    const fixture *f = *state;
    const int32_t prompt[] = {1};
    pm_session *s = test_session(f->model, f->options);
    pm_generation *g = NULL;
    pm_options *o = test_options("device", "cpu", NULL);
    assert_ok(pm_options_set(o, "grammar", file_with("bad.gbnf", "\nroot ::= [")));
    assert_int_equal(pm_generation_start(s, o, prompt, 1, &g), PM_ERROR_USAGE);
    assert_non_null(strstr(pm_last_error(), "bad.gbnf: line 2: "));
    assert_ok(pm_options_set(o, "json-schema", "also.json"));
    assert_int_equal(pm_generation_start(s, o, prompt, 1, &g), PM_ERROR_USAGE);
    assert_ok(pm_options_set(o, "grammar", NULL));
    assert_int_equal(pm_generation_start(s, o, prompt, 1, &g), PM_ERROR_FILE);
    assert_ok(pm_options_set(o, "json-schema", file_with("bad.json", "{\"type\": 3}")));
    assert_int_equal(pm_generation_start(s, o, prompt, 1, &g), PM_ERROR_USAGE);
    assert_non_null(strstr(pm_last_error(), "bad.json: schema #"));
    pm_options_destroy(o);
    pm_session_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasoning_is_apart),
        cmocka_unit_test(thinking_on_and_off),
        cmocka_unit_test(an_opened_think),
        cmocka_unit_test(no_end_before_the_grammar),
        cmocka_unit_test(a_users_markers_are_text),
        cmocka_unit_test(calls_and_their_results),
        cmocka_unit_test(tools_as_functions_of_python),
        cmocka_unit_test(tools_that_are_refused),
        cmocka_unit_test(tools_beside_a_schema),
        cmocka_unit_test(constrained_answers_always_parse),
        cmocka_unit_test(a_greedy_pick_under_a_grammar),
        cmocka_unit_test(grammars_that_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
