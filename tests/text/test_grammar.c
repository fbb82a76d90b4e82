// Grammars: what they accept, what is no grammar, which tokens may come, texts that end in time.
#include "support/test.h"

#include <jansson.h>
#include <stdbool.h>
#include <time.h>

#include "base/os.h"
#include "base/rng.h"
#include "chat/schema.h"
#include "text/grammar.h"

static grammar *parse(const char *source)
{
    grammar *g = NULL;
    if (grammar_parse(source, strlen(source), &g) != PM_OK) {
        fail_msg("'%s': %s", source, error_message());
    }
    return g;
}

// Is the whole text one of the grammar's?
static bool accepts(const grammar *g, const char *text, size_t n)
{
    grammar_run *r = NULL;
    assert_ok(grammar_run_open(g, NULL, &r));
    bool good = true;
    for (size_t i = 0; i < n && good; i++) good = grammar_accept_bytes(r, text + i, 1) == PM_OK;
    good = good && grammar_complete(r);
    grammar_run_close(r);
    return good;
}

// ---- what a grammar accepts -------------------------------------------------------------------

static void texts_of_grammars(void **state)
{
    (void)state;
    static const struct {
        const char *source, *yes[6], *no[6];
    } list[] = {
        {"root ::= \"ab\"", {"ab"}, {"", "a", "abc", "ba"}},
        {"root ::= \"a\" | \"b\"", {"a", "b"}, {"", "ab"}},
        {"root ::= \"a\"*", {"", "a", "aaaa"}, {"b", "ab"}},
        {"root ::= \"a\"+ \"b\"?", {"a", "ab", "aaab"}, {"", "b", "abb"}},
        {"root ::= (\"a\" \"b\" | \"c\")*", {"", "ab", "cab", "abc"}, {"a", "ba"}},
        {"root ::= \"a\"{2}", {"aa"}, {"a", "aaa"}},
        {"root ::= \"a\"{2,}", {"aa", "aaaaa"}, {"a", ""}},
        {"root ::= \"a\"{0,2}", {"", "a", "aa"}, {"aaa"}},
        {"root ::= \"a\"{1,3} \"b\"", {"ab", "aab", "aaab"}, {"b", "aaaab"}},
        {"root ::= (\"a\" | \"b\"{2}){2}", {"aa", "abb", "bba", "bbbb"}, {"ab", "bb", "aaa"}},
        {"root ::= \"a\"{0} \"b\"", {"b"}, {"ab"}},
        {"root ::= [a-c]+ [^x\\n]", {"aq", "abcz", "a\xc3\xa9"}, {"ax", "a\n", "a", "a\xc3"}},
        {"root ::= [\\]\\-^]+", {"]-^"}, {"a", "\\"}},
        {"root ::= .", {"a", "\n", "\xc3\xa9", "\xf0\x9f\x98\x80"}, {"", "ab", "\xc3", "\xff"}},
        {"root ::= [\xc3\xa0-\xc3\xbf]", {"\xc3\xa9"}, {"\xc3\x9f", "e", "\xc3"}},
        {"root ::= [\\u0800-\\U00010fff]",
         {"\xe0\xa0\x80", "\xed\x9f\xbf", "\xf0\x90\xbf\xbf"},
         {"\xdf\xbf", "\xed\xa0\x80", "\xf0\x91\x80\x80"}},
        {"root ::= \"\\x41\\u00e9\\n\\\"\\\\\"", {"A\xc3\xa9\n\"\\"}, {"A"}},
        {"root ::= expr\nexpr ::= term (\"+\" term)*\nterm ::= [0-9]+ | \"(\" expr \")\"\n",
         {"1", "1+2", "(1+(2))+30"},
         {"", "1+", "(1", "1)", "()"}},
        {"# a list\nroot ::= item # one\n   \nitem ::=\n  \"a\" |\n  \"b\" (\n \"c\"\n )\n",
         {"a", "bc"},
         {"b", "ab"}},
        {"root ::= a* b\na ::= \"x\" | \"\"\nb ::= \"y\"", {"y", "xxy"}, {"x", "yx"}},
        {"root ::= (\"a\"*)* \"b\"", {"b", "aab"}, {"a"}},
        {"root ::= \"(\" root \")\" | \"\"", {"", "()", "(())"}, {"(", ")", "()()"}},
        {"root ::= \"\"", {""}, {"a"}},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        grammar *g = parse(list[i].source);
        for (size_t k = 0; k < 6 && list[i].yes[k]; k++) {
            if (!accepts(g, list[i].yes[k], strlen(list[i].yes[k]))) {
                fail_msg("'%s' does not accept '%s'", list[i].source, list[i].yes[k]);
            }
        }
        for (size_t k = 0; k < 6 && list[i].no[k]; k++) {
            if (accepts(g, list[i].no[k], strlen(list[i].no[k]))) {
                fail_msg("'%s' accepts '%s'", list[i].source, list[i].no[k]);
            }
        }
        grammar_free(g);
    }
}

// Every character of a class, and none else, whatever the borders of its encodings.
static void classes_against_a_slow_one(void **state)
{
    (void)state;
    static const uint32_t edges[] = {0,       1,       0x7f,    0x80,    0x81,   0x7ff,
                                     0x800,   0xfff,   0x1000,  0xd7ff,  0xe000, 0xffff,
                                     0x10000, 0x3ffff, 0x40000, 0x10ffff};
    enum { N = sizeof edges / sizeof *edges };
    for (size_t a = 0; a < N; a++) {
        for (size_t b = a; b < N; b++) {
            char source[64];
            snprintf(source, sizeof source, "root ::= [\\U%08x-\\U%08x]", (unsigned)edges[a],
                     (unsigned)edges[b]);
            grammar *g = parse(source);
            for (size_t c = 0; c < N; c++) {
                char text[4];
                size_t n = text_utf8_put(edges[c], text);
                assert_int_equal(accepts(g, text, n), c >= a && c <= b);
            }
            grammar_free(g);
        }
    }
}

static void what_is_no_grammar(void **state)
{
    (void)state;
    static const char *const list[][2] = {
        {"", "no rule 'root'"},
        {"start ::= \"a\"", "no rule 'root'"},
        {"root ::= \"a\"\nroot ::= \"b\"", "line 2: a rule is defined twice"},
        {"root ::= item", "line 1: no rule 'item'"},
        {"root = \"a\"", "line 1: ::= is expected"},
        {"root ::= \"a", "line 1: a literal has no closing"},
        {"root ::= [a", "line 1: a class has no closing"},
        {"root ::= []", "a class without a character"},
        {"root ::= [z-a]", "a range goes backwards"},
        {"root ::= (\"a\"", "a bracket is not closed"},
        {"root ::= \"a\" )", "something that begins nothing"},
        {"root ::= * \"a\"", "something that begins nothing"},
        {"root ::= \"a\"{3,2}", "second number is below"},
        {"root ::= \"a\"{x}", "{ needs a number"},
        {"root ::= \"\\q\"", "an unknown escape"},
        {"root ::= \"\\x4\"", "too few hexadecimal digits"},
        {"root ::= \"\\ud800\"", "no character"},
        {"root ::= \"\xff\"", "invalid UTF-8"},
        {"\n\nroot ::= root \"a\" | \"a\"", "line 3: rule 'root' begins with itself"},
        {"root ::= a\na ::= \"\" b\nb ::= c? a | \"x\"\nc ::= \"c\"", "begins with itself"},
        {"root ::= \"a\" root", "rule 'root' has no end"},
        {"root ::= \"a\"{100000}{100000}", "too large"},
        {"root ::= [^\\x00-\\U0010ffff]", "a class without a character"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        grammar *g = NULL;
        assert_int_equal(grammar_parse(list[i][0], strlen(list[i][0]), &g), PM_ERROR_USAGE);
        if (!strstr(error_message(), list[i][1])) {
            fail_msg("'%s': %s", list[i][0], error_message());
        }
    }
    char deep[2000] = "root ::= ";
    memset(deep + 9, '(', 1000);
    grammar *g = NULL;
    assert_int_equal(grammar_parse(deep, strlen(deep), &g), PM_ERROR_USAGE);
}

// ---- tokens -----------------------------------------------------------------------------------

typedef struct fixture {
    gguf *file;
    text_vocab *v;
    grammar_tokens *t;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    *state = f;
    FILE *there = fopen(test_data("vocab/smollm2.gguf"), "rb");
    if (!there) return 0;
    fclose(there);
    assert_ok(gguf_open(test_data("vocab/smollm2.gguf"), true, &f->file));
    assert_ok(text_vocab_load(f->file, NULL, &f->v));
    assert_ok(grammar_tokens_make(f->v, &f->t));
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    grammar_tokens_free(f->t);
    text_vocab_free(f->v);
    gguf_close(f->file);
    free(f);
    return 0;
}

static bool bit(const uint64_t *bits, int32_t id)
{
    return bits[id / 64] >> id % 64 & 1;
}

static const char arithmetic[] =
    "root ::= sum\nsum ::= term (\" + \" term)*\n"
    "term ::= [0-9]{1,4} | \"(\" sum \")\" | [a-z\xc3\xa0-\xc3\xbf]+\n";

// The mask holds exactly the tokens that each by itself may come; along a random text.
static void masks_against_single_tokens(void **state)
{
    const fixture *f = *state;
    if (!f->t) skip();
    grammar *g = parse(arithmetic);
    for (uint64_t seed = 0; seed < 4; seed++) {
        grammar_run *r = NULL;
        assert_ok(grammar_run_open(g, f->t, &r));
        for (uint64_t step = 0; step < 12; step++) {
            const uint64_t *bits;
            size_t n, counted = 0;
            uint64_t limit = step < 6 ? GRAMMAR_NO_LIMIT : 14 - step;
            assert_ok(grammar_mask(r, limit, &bits, &n));
            int32_t chosen = -1;
            uint64_t best = 0;
            for (int32_t id = 0; id < text_n_vocab(f->v); id++) {
                bool allowed;
                counted += bit(bits, id);
                if (id % 7 == 0 || bit(bits, id)) { // all that are set, a part of the others
                    assert_ok(grammar_allows(r, id, limit, &allowed));
                    if (allowed != bit(bits, id))
                        fail_msg("token %d is %d in the mask", id, !allowed);
                }
                uint64_t draw = rng_u64(seed * 100 + step, (uint64_t)id);
                if (!bit(bits, id) || text_is_end(f->v, id) || draw < best) continue;
                chosen = id;
                best = draw;
            }
            assert_int_equal(counted, n);
            if (chosen < 0) break;
            assert_ok(grammar_accept(r, chosen));
        }
        grammar_run_close(r);
    }
    grammar_free(g);
}

// Draws tokens at random until the text ends; it must do so within `limit` tokens.
static char *random_text(const fixture *f, const grammar *g, uint64_t seed, uint64_t limit)
{
    grammar_run *r = NULL;
    buf text = {0};
    buf_str(&text, "");
    assert_ok(grammar_run_open(g, f->t, &r));
    for (uint64_t left = limit;; left--) {
        const uint64_t *bits;
        size_t n;
        if (left == 0) {
            assert_true(grammar_complete(r));
            break;
        }
        assert_ok(grammar_mask(r, left, &bits, &n));
        if (n == 0) {
            assert_true(grammar_complete(r));
            break;
        }
        size_t skip_n = (size_t)(rng_double(seed, left) * (double)n);
        int32_t id = 0;
        for (;; id++) {
            if (bit(bits, id) && skip_n-- == 0) break;
        }
        if (text_is_end(f->v, id)) break;
        assert_ok(grammar_accept(r, id));
        gguf_string piece = text_piece(f->v, id, false);
        buf_add(&text, piece.data, piece.len);
    }
    grammar_run_close(r);
    return text.data;
}

static grammar *from_schema(const char *schema)
{
    buf source = {0};
    if (schema_grammar(schema, strlen(schema), &source) != PM_OK)
        fail_msg("%s: %s", schema, error_message());
    grammar *g = NULL;
    if (grammar_parse(source.data, source.len, &g) != PM_OK) {
        fail_msg("%s: %s\n%s", schema, error_message(), source.data);
    }
    buf_free(&source);
    return g;
}

static const char person[] =
    "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", \"maxLength\": 12}, "
    "\"age\": {\"type\": \"integer\"}, \"tags\": {\"type\": \"array\", \"items\": {\"enum\": "
    "[\"a\", \"b\", 3, null]}, \"minItems\": 1, \"maxItems\": 3}, \"more\": {\"anyOf\": "
    "[{\"type\": "
    "\"boolean\"}, {\"$ref\": \"#\"}]}}, \"required\": [\"name\", \"tags\"], "
    "\"additionalProperties\": false}";

static void check_person(const json_t *p)
{
    assert_true(json_is_object(p));
    assert_true(json_is_string(json_object_get(p, "name")));
    const json_t *age = json_object_get(p, "age"), *tags = json_object_get(p, "tags");
    assert_true(!age || json_is_integer(age));
    assert_true(json_array_size(tags) >= 1 && json_array_size(tags) <= 3);
    const json_t *more = json_object_get(p, "more");
    assert_int_equal(json_object_size(p), 2 + (age != NULL) + (more != NULL));
    if (more && !json_is_boolean(more)) check_person(more);
}

// Whatever is drawn, the text is complete JSON in the end: also where the limit ends it.
static void random_texts_always_parse(void **state)
{
    const fixture *f = *state;
    if (!f->t) skip();
    grammar *g = from_schema(person), *any = from_schema("true");
    for (uint64_t seed = 0; seed < 60; seed++) {
        uint64_t limit = grammar_shortest(g) + seed % 40;
        char *text = random_text(f, g, seed, limit);
        json_t *value = json_loads(text, 0, NULL);
        if (!value) fail_msg("no JSON: %s", text);
        check_person(value);
        json_decref(value);
        free(text);
        text = random_text(f, any, seed, 1 + seed);
        value = json_loads(text, JSON_DECODE_ANY, NULL);
        if (!value) fail_msg("no JSON: %s", text);
        json_decref(value);
        free(text);
    }
    grammar_free(any);
    grammar_free(g);
}

// ---- schemas ----------------------------------------------------------------------------------

static void texts_of_schemas(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *yes[5], *no[6];
    } list[] = {
        {"{\"type\": \"integer\"}", {"0", "-12", "123"}, {"01", "1.5", "\"1\"", "", "--1"}},
        {"{\"type\": \"number\"}", {"0", "-1.5", "1e5", "2.25E-3"}, {"1.", ".5", "1e", "1e999"}},
        {"{\"type\": \"boolean\"}", {"true", "false"}, {"True", "null"}},
        {"{\"type\": [\"string\", \"null\"]}",
         {"\"\"", "\"a\\n\\u00e9\"", "null"},
         {"\"a", "\"\\ud800\"", "\"\\u0000\"", "\"\n\"", "\"\\x\""}},
        {"{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}",
         {"\"ab\"", "\"\\n\\n\"", "\"\xc3\xa9\xc3\xa9\xc3\xa9\""},
         {"\"a\"", "\"abcd\""}},
        {"{\"enum\": [\"red\", 1, {\"a\": [true]}]}",
         {"\"red\"", "1", "{\"a\":[true]}"},
         {"red", "2"}},
        {"{\"const\": \"q\\\"\\\\\"}", {"\"q\\\"\\\\\""}, {"\"q\""}},
        {"{\"type\": \"array\"}", {"[]", "[1, \"a\", [null]]", "[\n  1]"}, {"[1,]", "[", "[,]"}},
        {"{\"type\": \"array\", \"items\": {\"type\": \"integer\"}, \"minItems\": 2}",
         {"[1,2]", "[1, 2, 3]"},
         {"[]", "[1]", "[1, true]"}},
        {"{\"type\": \"array\", \"maxItems\": 0}", {"[]"}, {"[1]"}},
        {"{\"prefixItems\": [{\"type\": \"integer\"}, {\"type\": \"string\"}]}",
         {"[1, \"a\"]"},
         {"[1]", "[\"a\", 1]", "[1, \"a\", 2]"}},
        {"{\"type\": \"object\"}", {"{}", "{\"a\": {\"b\": 1}}"}, {"{\"a\"}", "{a: 1}"}},
        {"{\"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {}}, \"required\": [\"a\"]}",
         {"{\"a\": 1}", "{\"a\":1,\"b\":\"x\"}"},
         {"{}", "{\"b\": 1}", "{\"b\":1,\"a\":1}", "{\"a\": 1, \"c\": 2}", "{\"a\":1,}"}},
        {"{\"properties\": {\"a\": {}, \"b\": {}}}",
         {"{}", "{\"a\": 1}", "{\"b\": 1}", "{\"a\": 1, \"b\": 2}"},
         {"{\"b\": 1, \"a\": 1}", "{, \"b\": 1}"}},
        {"{\"properties\": {\"ab\": {\"type\": \"null\"}, \"ac\": {}}, \"additionalProperties\": "
         "{\"type\": \"integer\"}}",
         {"{\"x\": 1}", "{\"ab\": null, \"a\": 1}", "{\"abc\": 1, \"\": 2}", "{\"ac\": 0}"},
         {"{\"x\": null}", "{\"x\": 1, \"ab\": 1}", "{\"ad\": \"\"}", "{\"\\u0061b\": 1}"}},
        {"{\"additionalProperties\": {\"type\": \"boolean\"}}",
         {"{}", "{\"a\": true, \"b\": false}"},
         {"{\"a\": 1}"}},
        {"{\"$ref\": \"#/$defs/list\", \"$defs\": {\"list\": {\"type\": \"array\", \"items\": "
         "{\"$ref\": \"#/$defs/list\"}}}}",
         {"[]", "[[], [[]]]"},
         {"[1]", "{}"}},
        {"{\"allOf\": [{\"type\": \"null\"}]}", {"null"}, {"1"}},
        {"{\"type\": \"integer\", \"minimum\": 1, \"maximum\": 120}",
         {"1", "9", "10", "99", "120"},
         {"0", "-1", "121", "1000", "01", "1.5"}},
        {"{\"type\": \"integer\", \"exclusiveMinimum\": -5, \"exclusiveMaximum\": 5}",
         {"-4", "-1", "0", "4"},
         {"-5", "5", "-0", "10"}},
        {"{\"type\": \"number\", \"minimum\": 0, \"maximum\": 1}",
         {"0", "0.5", "1", "0.05"},
         {"1.1", "-0.1", "2", "1.01", "1e0"}},
        {"{\"type\": \"number\", \"minimum\": -0.0, \"maximum\": 2.5}",
         {"0", "2.5", "1.75"},
         {"-1", "3"}},
        {"{\"type\": \"number\", \"minimum\": 0, \"exclusiveMinimum\": true}",
         {"0.1", "7", "12.5", "0.001"},
         {"0", "0.0", "-1"}},
        {"{\"type\": \"string\", \"pattern\": \"^[A-Z]{2}-\\\\d+$\"}",
         {"\"AB-1\"", "\"ZZ-007\""},
         {"\"AB-\"", "\"ab-1\"", "\"AB-1x\"", "\"xAB-1\""}},
        {"{\"pattern\": \"b+\"}", {"\"b\"", "\"abba\"", "\"\\nb\""}, {"\"\"", "\"aca\"", "1"}},
        {"{\"pattern\": \"^(?:cat|dogs?)$|^x\"}",
         {"\"cat\"", "\"dog\"", "\"dogs\"", "\"xyz\""},
         {"\"cats\"", "\"ax\""}},
        {"{\"pattern\": \"^[^a-z]\\\\w?.$\"}",
         {"\"A_b\"", "\"\\\"1\\\\\"", "\"\u00e9!\""},
         {"\"ab\"", "\"A\"", "\"A\\nb\"", "\"A\\n\""}},
        {"{\"pattern\": \"^\\\\s[\\\"\\\\\\\\]\\\\u00e9$\"}",
         {"\" \\\"\u00e9\"", "\"\\u0009\\\\\u00e9\""},
         {"\"x\\\"\u00e9\""}},
        {"{\"pattern\": \"^[a-z][a-z0-9]*$\", \"minLength\": 2, \"maxLength\": 4}",
         {"\"ab\"", "\"a123\""},
         {"\"a\"", "\"a1234\"", "\"1a\""}},
        {"{\"type\": \"string\", \"format\": \"date\"}",
         {"\"2024-12-31\"", "\"1999-02-28\""},
         {"\"2024-13-01\"", "\"2024-02-30\"", "\"2024-04-31\"", "\"24-01-01\""}},
        {"{\"format\": \"date-time\", \"type\": \"string\"}",
         {"\"2024-12-31T23:59:59Z\"", "\"2024-01-01T00:00:00.500+01:30\""},
         {"\"2024-12-31\"", "\"2024-12-31T24:00:00Z\""}},
        {"{\"type\": \"string\", \"format\": \"no-such\"}", {"\"x\""}, {"1"}},
        {"{\"type\": \"integer\", \"anyOf\": [{\"minimum\": 10}, {\"maximum\": 0}, {\"type\": "
         "\"string\"}]}",
         {"10", "0", "-7"},
         {"5", "\"a\"", "1.5"}},
        {"{\"type\": \"string\", \"enum\": [\"a\", 1, null]}", {"\"a\""}, {"1", "null"}},
        {"{\"enum\": [12345678901234567890, [-98765432109876543210], 1]}",
         {"12345678901234567890", "[-98765432109876543210]", "1"},
         {"12345678901234567168", "1.2345678901234567e19"}},
        {"{\"type\": \"integer\", \"const\": 12345678901234567890}",
         {"12345678901234567890"},
         {"1"}},
        {"{\"type\": \"integer\", \"minimum\": 0, \"maximum\": 18446744073709551615}",
         {"0", "18", "9999999999999999"},
         {"-1"}},
        {"{\"allOf\": [{\"maximum\": 18446744073709551615}, {\"maximum\": 9007199254740993, "
         "\"type\": "
         "\"integer\"}, {\"maximum\": 9007199254740994}]}",
         {"9007199254740993"},
         {"9007199254740994", "9999999999999999"}},
        {"{\"enum\": [\"\U0010FFFFinteger:12\"]}", {"\"\U0010FFFFinteger:12\""}, {"12"}},
        {"{\"pattern\": \"^[\\\\ud83d\\\\ude00][\\\\ud83d\\\\u0041]$\"}",
         {"\"\U0001F600A\""},
         {"\"\U0001F600\"", "\"\U0001F600B\"", "\"A\""}},
        {"{\"allOf\": [{\"enum\": [1, \"a\", 0.5, {\"x\": 1, \"y\": 2}]}, {\"enum\": [{\"y\": 2, "
         "\"x\": "
         "1}, 2, \"a\", 0.5]}]}",
         {"\"a\"", "0.5", "{\"x\":1,\"y\":2}"},
         {"1", "2", "{\"y\":2,\"x\":1}"}},
        {"{\"enum\": [0.1, 1.5e30]}", {"0.1", "1.5e30"}, {"0.10000000000000001"}},
        {"{\"allOf\": [{\"$ref\": \"#/$defs/a\"}, {\"properties\": {\"y\": {\"maximum\": 5}, "
         "\"z\": {\"type\": \"null\"}}, \"required\": [\"z\"]}], \"$defs\": {\"a\": {\"type\": "
         "\"object\", \"properties\": {\"x\": {\"type\": \"boolean\"}, \"y\": {\"type\": "
         "\"integer\", \"minimum\": 3}}, \"required\": [\"x\"]}}}",
         {"{\"x\": true, \"y\": 4, \"z\": null}", "{\"x\": true, \"z\": null}"},
         {"{\"x\": true}", "{\"x\": true, \"y\": 2, \"z\": null}",
          "{\"x\": true, \"y\": 6, \"z\": null}", "{\"z\": null}"}},
        {"{\"$ref\": \"#/$defs/n\", \"maximum\": 3, \"$defs\": {\"n\": {\"type\": \"integer\", "
         "\"minimum\": 2}}}",
         {"2", "3"},
         {"1", "4"}},
        {"{\"$ref\": \"#/$defs/n\", \"$defs\": {\"n\": {\"type\": \"object\", \"properties\": "
         "{\"c\": {\"title\": \"C\", \"allOf\": [{\"$ref\": \"#/$defs/n\"}]}}}}}",
         {"{}", "{\"c\": {\"c\": {}}}"},
         {"{\"c\": 1}"}},
        {"{\"$ref\": \"#/$defs/n\", \"$defs\": {\"n\": {\"properties\": {\"c\": {\"x-a\": 1, "
         "\"$ref\": "
         "\"#/$defs/n\"}}}}}",
         {"{}", "{\"c\": {\"c\": {}}}"},
         {"{\"c\": 1}"}},
        {"{\"allOf\": [{\"x-a\": 1, \"minimum\": 1}, {\"x-a\": 2, \"type\": \"integer\"}]}",
         {"1"},
         {"0", "1.5"}},
        {"{\"exclusiveMinimum\": 5}", {"6", "5.5"}, {"5", "4", "\"a\""}},
        {"{\"$ref\": \"#/$defs/p\", \"items\": true, \"$defs\": {\"p\": {\"prefixItems\": "
         "[{\"const\": "
         "1}]}}}",
         {"[1]", "[1, \"a\"]"},
         {"[2]", "[]"}},
        {"{\"title\": \"t\", \"description\": \"d\", \"type\": \"null\", \"default\": 1}",
         {"null"},
         {"1"}},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        grammar *g = from_schema(list[i].schema);
        for (size_t k = 0; k < 5 && list[i].yes[k]; k++) {
            if (!accepts(g, list[i].yes[k], strlen(list[i].yes[k]))) {
                fail_msg("'%s' does not accept '%s'", list[i].schema, list[i].yes[k]);
            }
        }
        for (size_t k = 0; k < 6 && list[i].no[k]; k++) {
            if (accepts(g, list[i].no[k], strlen(list[i].no[k]))) {
                fail_msg("'%s' accepts '%s'", list[i].schema, list[i].no[k]);
            }
        }
        grammar_free(g);
    }
}

// ---- numbers ----------------------------------------------------------------------------------

typedef struct range {
    const char *low, *high; // NULL: none
    bool above, below, whole;
} range;

static bool beyond(int order, bool high, bool open)
{
    return high ? order > 0 || (open && !order) : order < 0 || (open && !order);
}

// Is the number of the text inside, for who reads integers exactly, and where there may be others
// for who reads all as doubles, too?
static bool is_inside(const range *r, const char *text)
{
    size_t n = strlen(text);
    if (text[n - 1] == '.' || (r->whole && strchr(text, '.'))) return false;
    for (int high = 0; high < 2; high++) {
        const char *bound = high ? r->high : r->low;
        if (!bound) continue;
        bool digits = !strchr(text, '.') && !strpbrk(bound, ".e"),
             open = high ? r->below : r->above;
        long long i = strtoll(text, NULL, 10), k = strtoll(bound, NULL, 10);
        double v = strtod(text, NULL), w = strtod(bound, NULL);
        if (digits && beyond((i > k) - (i < k), high, open)) return false;
        if (!(digits && r->whole) && beyond((v > w) - (v < w), high, open)) return false;
    }
    return true;
}

// Of a list of numbers of the range. NULL: none is in it.
static grammar *of_range(const range *r)
{
    char schema[200];
    size_t n = (size_t)snprintf(schema, sizeof schema, "{\"items\": {\"type\": \"%s\"",
                                r->whole ? "integer" : "number");
    if (r->low)
        n += (size_t)snprintf(schema + n, sizeof schema - n, ", \"%s\": %s",
                              r->above ? "exclusiveMinimum" : "minimum", r->low);
    if (r->high)
        n += (size_t)snprintf(schema + n, sizeof schema - n, ", \"%s\": %s",
                              r->below ? "exclusiveMaximum" : "maximum", r->high);
    n += (size_t)snprintf(schema + n, sizeof schema - n, "}}");
    buf source = {0};
    grammar *g = NULL;
    if (schema_grammar(schema, n, &source) == PM_OK)
        assert_ok(grammar_parse(source.data, source.len, &g));
    buf_free(&source);
    return g;
}

static void check_range(const range *r, const char *const *texts, size_t n)
{
    // One run for all: what is not accepted leaves it where it was.
    grammar *g = of_range(r);
    grammar_run *run = NULL;
    if (g) {
        assert_ok(grammar_run_open(g, NULL, &run));
        assert_ok(grammar_accept_bytes(run, "[", 1));
    }
    for (size_t i = 0; i < n; i++) {
        char item[64];
        size_t length = strlen(texts[i]), digits = 0;
        snprintf(item, sizeof item, "%s,", texts[i]);
        bool found = g && grammar_accept_bytes(run, item, length + 1) == PM_OK;
        bool inside = is_inside(r, texts[i]);
        for (const char *c = texts[i]; *c; c++) digits += *c >= '0' && *c <= '9';
        // What is inside may be left out where it goes on with zeros behind a closed bound's own
        // digits, or has more digits than every double.
        bool zeros = strchr(texts[i], '.') && texts[i][length - 1] == '0';
        bool optional = !r->whole && (zeros || digits > 15);
        if (found ? !inside : inside && !optional)
            fail_msg("%s %c%s..%s%c: '%s' is %s", r->whole ? "integer" : "number",
                     r->above ? ']' : '[', r->low ? r->low : "", r->high ? r->high : "",
                     r->below ? '[' : ']', texts[i], found ? "accepted" : "not accepted");
    }
    grammar_run_close(run);
    grammar_free(g);
}

// Each text of a list is accepted exactly where its number is inside.
static void ranges_of_numbers(void **state)
{
    (void)state;
    static const char *const bounds[] = {"-120", "-100.5", "-1",    "-0.05", "0",   "0.001",
                                         "0.5",  "1.5",    "10.05", "100",   "1e16"};
    enum { N = sizeof bounds / sizeof *bounds };
    static const char *const texts[] = {
        "-123456", "-120",   "-119.9", "-101",   "-100.5",
        "-100.51", "-100.4", "-100",   "-10",    "-9.99",
        "-9.991",  "-9.98",  "-9",     "-1.01",  "-1",
        "-0.99",   "-0.25",  "-0.251", "-0.2",   "-0.05",
        "-0.04",   "-0.001", "0",      "0.0009", "0.001",
        "0.0011",  "0.04",   "0.05",   "0.051",  "0.1",
        "0.5",     "0.49",   "0.50",   "0.51",   "0.9",
        "0.95",    "0.951",  "0.96",   "1",      "1.0",
        "1.001",   "1.4",    "1.5",    "1.51",   "2",
        "8.99",    "9",      "9.5",    "10",     "10.04",
        "10.05",   "10.050", "10.06",  "11",     "99",
        "99.9",    "99.89",  "99.91",  "100",    "101",
        "999",     "123455", "123456", "123457", "1234567890123456"};
    for (int low = -1; low < N; low++)
        for (int high = low < 0 ? -1 : low; high < N; high++)
            for (int how = 0; how < 8; how++) {
                const range r = {low < 0 ? NULL : bounds[low], high < 0 ? NULL : bounds[high],
                                 how & 1, how & 2, how & 4};
                check_range(&r, texts, sizeof texts / sizeof *texts);
            }
}

// Bounds that doubles only just hold, or don't: what is written is never outside.
static void bounds_of_many_digits(void **state)
{
    (void)state;
    static const char *const bounds[] = {"-9007199254740995",
                                         "-100.49999999999999",
                                         "-0.0",
                                         "0",
                                         "1e-300",
                                         "0.12345678901234567",
                                         "0.30000000000000004",
                                         "0.4",
                                         "0.49999999999999994",
                                         "0.5",
                                         "0.9999999999999999",
                                         "1",
                                         "100.5",
                                         "999999999999999.9",
                                         "9007199254740993",
                                         "9007199254740995",
                                         "9999999999999999",
                                         "12345678901234567890"};
    enum { N = sizeof bounds / sizeof *bounds };
    static const char *const texts[] = {"-9007199254740996",
                                        "-9007199254740995",
                                        "-9007199254740994",
                                        "-100.4999999999999999",
                                        "-100.5",
                                        "-100.4999999",
                                        "0",
                                        "0.",
                                        "0.0",
                                        "0.0000000000000001",
                                        "0.00001",
                                        "0.1234567890123456",
                                        "0.1234567890123457",
                                        "0.12345678901234567",
                                        "0.3000000000000000",
                                        "0.3000000000000001",
                                        "0.3",
                                        "0.4",
                                        "0.4999999999999999",
                                        "0.49999999999999999",
                                        "0.4999999999",
                                        "0.5",
                                        "0.99999",
                                        "0.9999999999999999",
                                        "1",
                                        "1.0000000000000001",
                                        "1.5",
                                        "100.4999999999999999",
                                        "100.4999",
                                        "100.5000000000000001",
                                        "100.50001",
                                        "999999999999999.9",
                                        "999999999999999",
                                        "1000000000000000",
                                        "9007199254740992",
                                        "9007199254740993",
                                        "9007199254740993.0",
                                        "9007199254740994",
                                        "9007199254740995",
                                        "9007199254740996",
                                        "9999999999999998",
                                        "9999999999999999"};
    for (int low = -1; low < N; low++)
        for (int high = low < 0 ? -1 : low; high < N && high < low + 3; high++)
            for (int how = 0; how < 8; how++) {
                const range r = {low < 0 ? NULL : bounds[low], high < 0 ? NULL : bounds[high],
                                 how & 1, how & 2, how & 4};
                check_range(&r, texts, sizeof texts / sizeof *texts);
            }
}

static void what_is_no_schema(void **state)
{
    (void)state;
    static const char *const list[][2] = {
        {"1", "a schema is expected"},
        {"false", "a schema is expected"},
        {"{\"type\": \"text\"}", "schema #: no such type: 'text'"},
        {"{\"type\": \"string\", \"pattern\": \"(?=a)b\"}", "ahead or behind is not supported"},
        {"{\"properties\": {\"a\": {\"multipleOf\": 2}}}",
         "schema #/properties/a: not supported: 'multipleOf'"},
        {"{\"type\": \"integer\", \"minimum\": 2, \"maximum\": 1}", "no number"},
        {"{\"type\": \"integer\", \"minimum\": 1.2, \"maximum\": 1.8}", "no number"},
        {"{\"type\": \"number\", \"minimum\": 12345678901234567890}", "of at most 16 digits"},
        {"{\"type\": \"number\", \"minimum\": 1e-20, \"maximum\": 2e-20}", "of at most 16 digits"},
        {"{\"minimum\": \"1\"}", "no number: 'minimum'"},
        {"{\"pattern\": \"a(\"}", "a group without its end, in pattern 'a('"},
        {"{\"pattern\": \"a)\"}", "')' without its '('"},
        {"{\"pattern\": \"[a\"}", "a class without its end"},
        {"{\"pattern\": \"[b-a]\"}", "out of order"},
        {"{\"pattern\": \"*a\"}", "a count without what it counts"},
        {"{\"pattern\": \"a{2,1}\"}", "without a count"},
        {"{\"pattern\": \"(a)\\\\1\"}", "a reference to a group"},
        {"{\"pattern\": \"\\\\bword\"}", "an escape that is not supported"},
        {"{\"pattern\": \"a\\\\\"}", "a backslash at the end"},
        {"{\"pattern\": \"a(^b)\"}", "at the ends of the pattern only"},
        {"{\"pattern\": \"^(a|bb)+$\", \"maxLength\": 5}", "beside minLength or maxLength"},
        {"{\"pattern\": \"^ab$\", \"maxLength\": 1}", "this pattern and this length"},
        {"{\"type\": \"string\", \"allOf\": [{\"pattern\": \"a\"}, {\"pattern\": \"b\"}]}",
         "not supported in allOf, with another one beside it: 'pattern'"},
        {"{\"type\": \"string\", \"enum\": [1]}", "no value of the list has the type"},
        {"{\"type\": \"string\", \"anyOf\": [{\"type\": \"null\"}]}", "in any part of 'anyOf'"},
        {"{\"allOf\": [{\"type\": \"string\"}, {\"type\": \"null\"}]}", "no value has all"},
        {"{\"type\": \"array\", \"uniqueItems\": true}", "'uniqueItems'"},
        {"{\"$ref\": \"#/nowhere\"}", "no such place in the schema: '#/nowhere'"},
        {"{\"$ref\": \"http://x\"}", "no such place"},
        {"{\"$ref\": \"#/x\", \"minimum\": 1, \"x\": 5}", "a schema is expected"},
        {"{\"$ref\": \"#/x\", \"minimum\": 1, \"x\": false}", "a schema is expected"},
        {"{\"$ref\": \"#/$defs/p\", \"items\": {\"type\": \"null\"}, \"$defs\": {\"p\": "
         "{\"prefixItems\": [{\"const\": 1}]}}}",
         "can't be joined with the same keyword beside $ref: 'items'"},
        {"{\"allOf\": [{\"items\": false}, {\"prefixItems\": [true]}]}", "'items'"},
        {"{\"allOf\": [{\"prefixItems\": [true], \"items\": false}, {\"items\": {\"const\": 1}}]}",
         "'items'"},
        {"{\"allOf\": [{\"prefixItems\": [true]}, {\"prefixItems\": [{\"const\": 1}]}]}",
         "'prefixItems'"},
        {"{\"type\": [\"null\", \"null\", \"null\", \"null\", \"null\", \"null\", \"null\", "
         "\"null\"]}",
         "more types than there are"},
        {"{\"enum\": []}", "no list of values"},
        {"{\"anyOf\": []}", "no list of schemas"},
        {"{\"enum\": [1], \"minimum\": 1}", "not supported beside enum: 'minimum'"},
        {"{\"anyOf\": [{}], \"required\": [\"a\"]}", "not among the properties: 'a'"},
        {"{\"properties\": {}, \"required\": [\"a\"]}", "not among the properties: 'a'"},
        {"{\"type\": \"string\", \"minLength\": -1}", "no whole number"},
        {"{\"type\": \"string\", \"minLength\": 3, \"maxLength\": 2}", "maxLength is below"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        buf source = {0};
        if (schema_grammar(list[i][0], strlen(list[i][0]), &source) != PM_ERROR_USAGE)
            fail_msg("%s is taken", list[i][0]);
        if (!strstr(error_message(), list[i][1])) fail_msg("%s: %s", list[i][0], error_message());
        buf_free(&source);
    }
    char long_pattern[30000] = "{\"pattern\": \"";
    memset(long_pattern + strlen(long_pattern), '.', 20000);
    strcat(long_pattern, "\"}");
    buf long_source = {0};
    assert_int_equal(schema_grammar(long_pattern, strlen(long_pattern), &long_source),
                     PM_ERROR_USAGE);
    assert_non_null(strstr(error_message(), "too long"));
    buf_free(&long_source);
    // a schema that only ever goes on by itself
    static const char endless[] = "{\"$ref\": \"#\"}";
    buf source = {0};
    grammar *g = NULL;
    assert_ok(schema_grammar(endless, strlen(endless), &source));
    assert_int_equal(grammar_parse(source.data, source.len, &g), PM_ERROR_USAGE);
    buf_free(&source);
}

// ---- bounds -----------------------------------------------------------------------------------

// Grammars that have exponentially many ways to read a text, or endless ones: an answer or an error
// comes soon, in bounded memory.
static void hostile_grammars(void **state)
{
    const fixture *f = *state;
    if (!f->t) skip();
    static const char *const list[] = {
        "root ::= s s s s s s s s\ns ::= (\"x\" | \"x\" s \"x\")*",
        "root ::= (((.*)*)*)*",
        "root ::= ([a-z]{0,30}){0,300}",
        "root ::= ([a-z]{0,300}){0,300}",
        "root ::= \"x\" root root | [^()] root | \"\"",
        "root ::= a | b\na ::= \"x\" a \"x\" | \"\"\nb ::= \"x\" b b | \"\"",
        "root ::= [a-z ]* [a-z ]* [a-z ]* [a-z ]* [a-z ]* [a-z ]* (root \"1\")?",
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        clock_t start = clock(); // other work on the machine does not count
        grammar *g = NULL;
        grammar_run *r = NULL;
        pm_status status = grammar_parse(list[i], strlen(list[i]), &g);
        if (status == PM_OK) status = grammar_run_open(g, f->t, &r);
        for (int step = 0; step < 40 && status == PM_OK; step++) {
            const uint64_t *bits;
            size_t n;
            status = grammar_mask(r, GRAMMAR_NO_LIMIT, &bits, &n);
            if (status == PM_OK && n == 0) break;
            if (status == PM_OK) status = grammar_accept_bytes(r, "x", 1);
        }
        grammar_run_close(r);
        grammar_free(g);
        assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 60);
    }
    assert_true(os_peak_rss() < UINT64_C(1) << 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_of_grammars),
        cmocka_unit_test(classes_against_a_slow_one),
        cmocka_unit_test(what_is_no_grammar),
        cmocka_unit_test_setup_teardown(masks_against_single_tokens, setup, teardown),
        cmocka_unit_test_setup_teardown(random_texts_always_parse, setup, teardown),
        cmocka_unit_test(texts_of_schemas),
        cmocka_unit_test(what_is_no_schema),
        cmocka_unit_test(ranges_of_numbers),
        cmocka_unit_test(bounds_of_many_digits),
        cmocka_unit_test_setup_teardown(hostile_grammars, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
