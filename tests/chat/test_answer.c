// Answers taken apart: reasoning, text, calls of tools, however the text is cut into pieces.
#include "support/test.h"

#include "base/buf.h"
#include "chat/answer.h"

static const char tools_json[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"parameters\": "
    "{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}, \"days\": "
    "{\"type\": "
    "\"integer\"}}}}}, {\"name\": \"add\", \"parameters\": {\"properties\": {\"a\": {}, \"b\": "
    "{}}}}]";

static json_t *make_tools(void)
{
    json_t *list = json_loads(tools_json, 0, NULL), *tools = NULL;
    assert_non_null(list);
    assert_ok(tools_check(list, &tools));
    json_decref(list);
    return tools;
}

typedef struct expected {
    const char *in;
    bool thinking, with_tools;
    const char *reasoning, *text;
    const char *calls; // "name {arguments} name {arguments}", NULL: none
} expected;

static char *show_calls(const json_t *calls)
{
    buf out = {0};
    buf_str(&out, "");
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i), *f = json_object_get(call, "function");
        char *arguments = json_dumps(json_object_get(f, "arguments"), JSON_COMPACT);
        buf_printf(&out, "%s%s %s", i ? " " : "", json_string_value(json_object_get(f, "name")),
                   arguments);
        assert_string_equal(json_string_value(json_object_get(call, "type")), "function");
        assert_int_equal(strlen(json_string_value(json_object_get(call, "id"))), 9);
        free(arguments);
    }
    return out.data;
}

// What can be taken at each moment, joined, is what there is at the end.
static void take_all(answer *a, buf *text, buf *reasoning)
{
    const char *piece;
    size_t n;
    answer_part part;
    while (answer_take(a, &piece, &n, &part)) {
        assert_true(n > 0);
        if (part == ANSWER_REASONING) assert_int_equal(text->len, 0);
        buf_add(part == ANSWER_REASONING ? reasoning : text, piece, n);
    }
}

static void check_pieces(const expected *e, const json_t *tools, size_t piece)
{
    answer *a = NULL;
    answer_params params = {.thinking = e->thinking, .tools = e->with_tools ? tools : NULL};
    assert_ok(answer_open(&params, &a));
    buf text = {0}, reasoning = {0};
    buf_str(&text, "");
    buf_str(&reasoning, "");
    for (size_t at = 0, n = strlen(e->in); at < n; at += piece) {
        assert_ok(answer_add(a, e->in + at, n - at < piece ? n - at : piece));
        take_all(a, &text, &reasoning);
    }
    assert_ok(answer_end(a));
    take_all(a, &text, &reasoning);
    size_t n;
    char *calls = show_calls(answer_calls(a));
    if (strcmp(text.data, e->text) != 0 || strcmp(reasoning.data, e->reasoning) != 0 ||
        strcmp(calls, e->calls ? e->calls : "") != 0) {
        fail_msg("'%s' in pieces of %zu:\nreasoning '%s'\ntext '%s'\ncalls '%s'", e->in, piece,
                 reasoning.data, text.data, calls);
    }
    assert_string_equal(answer_text(a, &n), text.data);
    assert_string_equal(answer_reasoning(a, &n), reasoning.data);
    free(calls);
    buf_free(&text);
    buf_free(&reasoning);
    answer_close(a);
}

static void check(const expected *list, size_t n)
{
    json_t *tools = make_tools();
    for (size_t i = 0; i < n; i++) {
        for (size_t piece = 1; piece < 12; piece++) check_pieces(&list[i], tools, piece);
        check_pieces(&list[i], tools, 100000);
    }
    json_decref(tools);
}

static void reasoning(void **state)
{
    (void)state;
    static const expected list[] = {
        {"plain", false, false, "", "plain", NULL},
        {"<think>why</think>so", false, false, "why", "so", NULL},
        {"\n<think>\nwhy \n not\n</think>\n\nso\n", false, false, "why \n not", "so\n", NULL},
        {"<think>\n\n</think>\n\nso", false, false, "", "so", NULL},
        {"<think>cut", false, false, "cut", "", NULL},
        {"<think>cut </thi", false, false, "cut </thi", "", NULL},
        {"  <thin", false, false, "", "  <thin", NULL},
        // the template opened it: the model only closes
        {"why\n</think>\nso", true, false, "why", "so", NULL},
        {"<think>why</think>so", true, false, "why", "so", NULL},
        {"why", true, false, "why", "", NULL},
        {"</think>so", true, false, "", "so", NULL},
        {"", true, false, "", "", NULL},
    };
    check(list, sizeof list / sizeof *list);
}

// R41: a literal tag or marker in the middle of an answer does not cut it.
static void r41_markers_elsewhere_are_text(void **state)
{
    (void)state;
    static const expected list[] = {
        {"a <think> b </think> c", false, false, "", "a <think> b </think> c", NULL},
        {"so</think>x", false, false, "", "so</think>x", NULL},
        {"<think>a</think>b <think>c</think> d", false, false, "a", "b <think>c</think> d", NULL},
        {"<think>a <think> b</think>c", false, false, "a <think> b", "c", NULL},
        // without tools there are no calls
        {"<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>", false, false, "",
         "<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>", NULL},
        // no call of a tool that there is
        {"Write <tool_call> and </tool_call>.", false, true, "",
         "Write <tool_call> and </tool_call>.", NULL},
        {"<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call> ", false, true, "",
         "<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call> ", NULL},
        {"a <code>x = 1 + 2</code> b", false, true, "", "a <code>x = 1 + 2</code> b", NULL},
        {"{\"name\": \"Bob\", \"age\": 3}", false, true, "", "{\"name\": \"Bob\", \"age\": 3}",
         NULL},
        {"{\"city\": 1}", false, true, "", "{\"city\": 1}", NULL},
        {"<tool_call> [TOOL_CALLS] <code>", false, true, "", "<tool_call> [TOOL_CALLS] <code>",
         NULL},
        {"see {\"name\": \"add\", \"arguments\": {}}", false, true, "",
         "see {\"name\": \"add\", \"arguments\": {}}", NULL},
        // a marker that fails, then a call
        {"<tool_call>no <tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>", false, true,
         "", "<tool_call>no", "add {}"},
    };
    check(list, sizeof list / sizeof *list);
}

static void calls_in_every_form(void **state)
{
    (void)state;
    static const expected list[] = {
        // SmolLM3, Qwen
        {"<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n"
         "</tool_call>",
         false, true, "", "", "get_weather {\"city\":\"Paris\"}"},
        {"I look.\n<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": "
         "2}}</tool_call>\n"
         "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 3, \"b\": [4]}}</tool_call>\n",
         false, true, "", "I look.", "add {\"a\":1,\"b\":2} add {\"a\":3,\"b\":[4]}"},
        {"<think>must look</think>\n\n<tool_call>{\"name\": \"add\", \"arguments\": "
         "\"{\\\"a\\\": 1}\"}</tool_call> done",
         false, true, "must look", "done", "add {\"a\":1}"},
        {"<tool_call>{\"name\": \"add\"}", false, true, "", "", "add {}"}, // ended before its tag
        // SmolLM3 in Python
        {"<code>get_weather(\"Paris\", days=3)</code>", false, true, "", "",
         "get_weather {\"city\":\"Paris\",\"days\":3}"},
        {"Now:\n<code>\nx = add(a=-1.5, b=[True, None, {'k': \"v\\n\"}])\nprint(add(1, (2, 3)))  # "
         "two\n</code>",
         false, true, "",
         "Now:", "add {\"a\":-1.5,\"b\":[true,null,{\"k\":\"v\\n\"}]} add {\"a\":1,\"b\":[2,3]}"},
        // an integer beyond 64 bits is rounded; its digits in a string are not
        {"<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 18446744073709551616, \"b\": "
         "\"18446744073709551616\"}}</tool_call>",
         false, true, "", "", "add {\"a\":1.8446744073709552e19,\"b\":\"18446744073709551616\"}"},
        {"<tool_call>{\"name\": \"add\", \"arguments\": \"{\\\"a\\\": 18446744073709551616}\"}"
         "</tool_call>",
         false, true, "", "", "add {\"a\":1.8446744073709552e19}"},
        {"[TOOL_CALLS]add{\"a\": 18446744073709551616}", false, true, "", "",
         "add {\"a\":1.8446744073709552e19}"},
        {"<code>add(-18446744073709551616, '18446744073709551616')</code>", false, true, "", "",
         "add {\"a\":-1.8446744073709552e19,\"b\":\"18446744073709551616\"}"},
        {"<|python_tag|>add.call(a='18446744073709551616', b=18_446_744_073_709_551_616)", false,
         true, "", "", "add {\"a\":\"18446744073709551616\",\"b\":1.8446744073709552e19}"},
        // a marker in an argument
        {"<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": \"\\\"</tool_call>{\", \"b\": "
         "\"<think>\"}}</tool_call>so",
         false, true, "", "so", "add {\"a\":\"\\\"</tool_call>{\",\"b\":\"<think>\"}"},
        {"<tool_call>{\"name\": \"add</tool_call> no", false, true, "",
         "<tool_call>{\"name\": \"add</tool_call> no", NULL},
        {"<think><tool_call>{\"name\": \"add\"}</tool_call></think>\u00e9<tool_call>{\"name\": "
         "\"add\", \"arguments\": {\"a\": {\"b\": {\"c\": \"\u017c\"}}}}</tool_call>",
         false, true, "<tool_call>{\"name\": \"add\"}</tool_call>", "\u00e9",
         "add {\"a\":{\"b\":{\"c\":\"\u017c\"}}}"},
        // Llama 3.1
        {"{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Rome\"}}", false, true, "", "",
         "get_weather {\"city\":\"Rome\"}"},
        {"\n{\"type\": \"function\", \"name\": \"add\", \"parameters\": {}}; {\"name\": \"add\", "
         "\"parameters\": {\"a\": 2}}",
         false, true, "", "", "add {} add {\"a\":2}"},
        {"<|python_tag|>{\"name\": \"add\", \"parameters\": {\"a\": 1}}", false, true, "", "",
         "add {\"a\":1}"},
        {"<|python_tag|>get_weather.call(city=\"Rome\")", false, true, "", "",
         "get_weather {\"city\":\"Rome\"}"},
        // Mistral
        {"[TOOL_CALLS] [{\"name\": \"add\", \"arguments\": {\"a\": 1}, \"id\": \"abc123DEF\"}, "
         "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}]",
         false, true, "", "", "add {\"a\":1} get_weather {\"city\":\"Oslo\"}"},
        {"[TOOL_CALLS]add[ARGS]{\"a\": 1}[TOOL_CALLS]get_weather{\"city\": \"Oslo\"}", false, true,
         "", "", "add {\"a\":1} get_weather {\"city\":\"Oslo\"}"},
        {"[TOOL_CALLS]add[CALL_ID]abc123DEF[ARGS]{\"a\": 1}", false, true, "", "", "add {\"a\":1}"},
    };
    check(list, sizeof list / sizeof *list);
}

// Mistral's model gives ids itself; others are counted through the conversation.
static void ids_of_calls(void **state)
{
    (void)state;
    static const char text[] = "[{\"name\": \"add\", \"arguments\": {}, \"id\": \"abc123DEF\"}, "
                               "{\"name\": \"add\", \"arguments\": {}, \"id\": \"short\"}]";
    json_t *tools = make_tools(), *calls = json_array();
    assert_true(calls_read(CALL_LIST, text, strlen(text), tools, 7, calls));
    const char *first = json_string_value(json_object_get(json_array_get(calls, 0), "id"));
    const char *second = json_string_value(json_object_get(json_array_get(calls, 1), "id"));
    assert_string_equal(first, "abc123DEF");
    assert_string_equal(second, "call00008");
    json_decref(calls);
    json_decref(tools);
}

static void what_is_no_python_call(void **state)
{
    (void)state;
    static const char *const list[] = {
        "add",
        "add(",
        "add(1",
        "add(1 2)",
        "add(a=1, 2)",
        "add(a=1, a=1)",
        "add(1, 2, 3)",
        "add(x)",
        "add(1) + 1",
        "import os",
        "other(1)",
        "add('a)",
        "add(\"a\nb\")",
        "add(1, a=2)",
        "add(f(1))",
        "add([1, 2)",
        "add({1: 2})",
        "add('\\ud800')",
        "add('\\xZZ')",
        "add(0x10)",
        "print(add(1)",
        "add(1)) ",
        "x = y = add(1)",
        "add(1),",
        "# nothing",
        "",
    };
    json_t *tools = make_tools(), *calls = json_array();
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        if (calls_read(CALL_PYTHON, list[i], strlen(list[i]), tools, 0, calls)) {
            fail_msg("'%s' was taken for a call", list[i]);
        }
    }
    char deep[1000];
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    memcpy(deep, "add(", 4);
    assert_false(calls_read(CALL_PYTHON, deep, strlen(deep), tools, 0, calls));
    assert_int_equal(json_array_size(calls), 0);
    json_decref(calls);
    json_decref(tools);
}

static void lists_of_tools(void **state)
{
    (void)state;
    static const char *const wrong[] = {"{}",
                                        "[1]",
                                        "[{}]",
                                        "[{\"function\": {}}]",
                                        "[{\"name\": \"\"}]",
                                        "[{\"name\": \"a\"}, {\"function\": {\"name\": \"a\"}}]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        json_t *list = json_loads(wrong[i], 0, NULL), *out = NULL;
        assert_int_equal(tools_check(list, &out), PM_ERROR_USAGE);
        json_decref(list);
    }
    json_t *tools = make_tools();
    assert_int_equal(json_array_size(tools), 2);
    const json_t *second = json_array_get(tools, 1);
    assert_string_equal(json_string_value(json_object_get(second, "type")), "function");
    json_decref(tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasoning),
        cmocka_unit_test(r41_markers_elsewhere_are_text),
        cmocka_unit_test(calls_in_every_form),
        cmocka_unit_test(ids_of_calls),
        cmocka_unit_test(what_is_no_python_call),
        cmocka_unit_test(lists_of_tools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
