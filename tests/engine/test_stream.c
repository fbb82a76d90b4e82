// The growing text of an answer: whole characters, stop texts, the same for every split.
#include "support/test.h"

#include "engine/stream.h"

// Feeds the pieces, checks that what is shown only grows, returns all that was shown.
static char *feed(const char *text, size_t n, const size_t *cuts, size_t n_cuts,
                  const char *const *stops, size_t n_stops, bool *stopped)
{
    stream s;
    assert_ok(stream_open(&s, stops, n_stops));
    buf shown = {0};
    size_t at = 0;
    for (size_t i = 0; i <= n_cuts; i++) {
        size_t end = i < n_cuts ? cuts[i] : n;
        assert_ok(stream_add(&s, text + at, end - at));
        at = end;
        size_t ready = stream_ready(&s);
        assert_true(ready >= s.shown);
        if (ready > s.shown) buf_add(&shown, s.text.data + s.shown, ready - s.shown);
        s.shown = ready;
    }
    assert_ok(stream_end(&s));
    size_t ready = stream_ready(&s);
    assert_true(ready >= s.shown);
    if (ready > s.shown) buf_add(&shown, s.text.data + s.shown, ready - s.shown);
    *stopped = s.stopped;
    stream_close(&s);
    buf_add(&shown, "", 0);
    assert_false(shown.failed);
    return shown.data;
}

typedef struct example {
    const char *text, *expected;
    const char *stops[3];
    bool stopped;
} example;

static const example examples[] = {
    {"Hello world", "Hello world", {NULL}, false},
    {"Hello world", "Hello", {" w"}, true},
    {"Hello world", "", {"H"}, true},
    {"aaab", "a", {"aab"}, true},
    {"abababc", "ab", {"ababc"}, true},
    {"no stop her", "no stop her", {"here"}, false},
    {"one\n\ntwo\n\n", "one", {"\n\n"}, true},
    // the stop text that is complete first counts: "b" ends before "abc" does
    {"xabcy", "xa", {"abc", "b"}, true},
    // of two that end together, the longer one
    {"xabcy", "x", {"c", "abc"}, true},
    {"h\xc3\xa9llo w\xc3\xb6rld", "h\xc3\xa9llo w", {"\xc3\xb6r"}, true},
    // what can't be decoded is one U+FFFD a byte, also at the end
    {"a\xff"
     "b",
     "a\xef\xbf\xbd"
     "b",
     {NULL},
     false},
    {"a\xf0\x9f\x98", "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", {NULL}, false},
    {"\xf0\x9f\x98\x80!", "\xf0\x9f\x98\x80!", {NULL}, false},
    {"\xc3stop", "\xef\xbf\xbd", {"stop"}, true},
    {"", "", {"x"}, false},
};

static void every_split_gives_the_same_text(void **state)
{
    (void)state;
    for (size_t e = 0; e < sizeof examples / sizeof *examples; e++) {
        const example *x = &examples[e];
        size_t n = strlen(x->text), n_stops = 0;
        while (n_stops < 3 && x->stops[n_stops]) n_stops++;
        assert_true(n < 16);
        for (unsigned mask = 0; mask < 1u << (n ? n - 1 : 0); mask++) {
            size_t cuts[16], n_cuts = 0;
            for (size_t i = 0; i + 1 < n; i++) {
                if (mask >> i & 1) cuts[n_cuts++] = i + 1;
            }
            bool stopped;
            char *shown = feed(x->text, n, cuts, n_cuts, x->stops, n_stops, &stopped);
            if (strcmp(shown, x->expected) != 0 || stopped != x->stopped) {
                fail_msg("example %zu, split %x: '%s', expected '%s'", e, mask, shown, x->expected);
            }
            free(shown);
        }
    }
}

// Nothing is held back longer than it must be.
static void holds_back_only_what_may_become_a_stop(void **state)
{
    (void)state;
    const char *stops[] = {"END"};
    stream s;
    assert_ok(stream_open(&s, stops, 1));
    assert_ok(stream_add(&s, "the E", 5));
    assert_int_equal(stream_ready(&s), 4);
    s.shown = 4;
    assert_ok(stream_add(&s, "N", 1));
    assert_int_equal(stream_ready(&s), 4);
    assert_ok(stream_add(&s, "Ex", 2));
    assert_int_equal(stream_ready(&s), 8);
    s.shown = 8;
    assert_ok(stream_add(&s, "\xe2\x82", 2));
    assert_int_equal(stream_ready(&s), 8);
    assert_ok(stream_add(&s, "\xac", 1));
    assert_int_equal(stream_ready(&s), 11);
    stream_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split_gives_the_same_text),
        cmocka_unit_test(holds_back_only_what_may_become_a_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
