// The tests ("x is y") and the global functions.
#include <math.h>

#include "chat/template_internal.h"

// ---- tests ------------------------------------------------------------------------------------

#define TEST(name) static bool name(trt *r, tval v, const tval *a)

TEST(is_defined)
{
    (void)r, (void)a;
    return v.kind != T_UNDEFINED;
}
TEST(is_undefined)
{
    (void)r, (void)a;
    return v.kind == T_UNDEFINED;
}
TEST(is_none)
{
    (void)r, (void)a;
    return v.kind == T_NONE;
}
TEST(is_boolean)
{
    (void)r, (void)a;
    return v.kind == T_BOOL;
}
TEST(is_true)
{
    (void)r, (void)a;
    return v.kind == T_BOOL && v.u.b;
}
TEST(is_false)
{
    (void)r, (void)a;
    return v.kind == T_BOOL && !v.u.b;
}
TEST(is_integer)
{
    (void)r, (void)a;
    return v.kind == T_INT || v.kind == T_BIG;
}
TEST(is_float)
{
    (void)r, (void)a;
    return v.kind == T_FLOAT;
}
TEST(is_number)
{
    (void)r, (void)a;
    return tval_is_number(v);
}
TEST(is_string)
{
    (void)r, (void)a;
    return v.kind == T_STRING;
}
TEST(is_mapping)
{
    (void)r, (void)a;
    return v.kind == T_DICT;
}
TEST(is_iterable)
{
    (void)r, (void)a;
    return tval_is_iterable(v);
}
TEST(is_sequence)
{
    (void)r, (void)a;
    return tval_has_length(v) && v.kind != T_VIEW && v.kind != T_LOOP;
}
TEST(is_callable)
{
    (void)r, (void)a;
    switch (v.kind) {
    case T_UNDEFINED:
    case T_FUNCTION:
    case T_METHOD:
    case T_MACRO:
    case T_LOOP:
    case T_JOINER:
    case T_BLOCK: return true;
    default: return false;
    }
}
TEST(is_escaped)
{
    (void)r, (void)a;
    return v.kind == T_STRING && v.u.str->markup;
}
TEST(is_sameas)
{
    (void)r;
    return tval_same(v, a[0]);
}

static bool case_test(trt *r, tval v, const char *method)
{
    tval s = tval_str(tval_to_str(r, v));
    targs none = {0};
    return trt_call_function(r, tmethod_find(s, tstr_c(r, method)), s, &none).u.b;
}
TEST(is_lower)
{
    (void)a;
    return case_test(r, v, "islower");
}
TEST(is_upper)
{
    (void)a;
    return case_test(r, v, "isupper");
}

static bool rest_is(trt *r, tval v, tval by, int64_t rest)
{
    return tval_equal(r, tval_binary(r, OP_MOD, v, by), tval_int(rest));
}
TEST(is_odd)
{
    (void)a;
    return rest_is(r, v, tval_int(2), 1);
}
TEST(is_even)
{
    (void)a;
    return rest_is(r, v, tval_int(2), 0);
}
TEST(is_divisibleby)
{
    return rest_is(r, v, a[0], 0);
}

// Names are looked up in a dictionary, so what is no key for one is an error.
static void want_hashable(trt *r, tval v)
{
    tdict_get(r, tdict_new(r, 0), v);
}
TEST(is_filter)
{
    (void)a;
    want_hashable(r, v);
    return v.kind == T_STRING && tfilter_find(v.u.str);
}
TEST(is_test)
{
    (void)a;
    want_hashable(r, v);
    return v.kind == T_STRING && ttest_find(v.u.str);
}
TEST(is_in)
{
    return tval_contains(r, a[0], v);
}
TEST(is_eq)
{
    return tval_equal(r, v, a[0]);
}
TEST(is_ne)
{
    return !tval_equal(r, v, a[0]);
}
TEST(is_lt)
{
    return tval_less(r, v, a[0], OP_LT);
}
TEST(is_le)
{
    return tval_less(r, v, a[0], OP_LE);
}
TEST(is_gt)
{
    return tval_less(r, v, a[0], OP_GT);
}
TEST(is_ge)
{
    return tval_less(r, v, a[0], OP_GE);
}

static const ttest tests[] = {
    {"defined", is_defined, 0},
    {"undefined", is_undefined, 0},
    {"none", is_none, 0},
    {"string", is_string, 0},
    {"mapping", is_mapping, 0},
    {"iterable", is_iterable, 0},
    {"sequence", is_sequence, 0},
    {"number", is_number, 0},
    {"integer", is_integer, 0},
    {"float", is_float, 0},
    {"boolean", is_boolean, 0},
    {"true", is_true, 0},
    {"false", is_false, 0},
    {"callable", is_callable, 0},
    {"sameas", is_sameas, 1},
    {"escaped", is_escaped, 0},
    {"lower", is_lower, 0},
    {"upper", is_upper, 0},
    {"odd", is_odd, 0},
    {"even", is_even, 0},
    {"divisibleby", is_divisibleby, 1},
    {"filter", is_filter, 0},
    {"test", is_test, 0},
    {"in", is_in, 1},
    {"eq", is_eq, 1},
    {"equalto", is_eq, 1},
    {"==", is_eq, 1},
    {"ne", is_ne, 1},
    {"!=", is_ne, 1},
    {"lt", is_lt, 1},
    {"lessthan", is_lt, 1},
    {"<", is_lt, 1},
    {"le", is_le, 1},
    {"<=", is_le, 1},
    {"gt", is_gt, 1},
    {"greaterthan", is_gt, 1},
    {">", is_gt, 1},
    {"ge", is_ge, 1},
    {">=", is_ge, 1},
};

const ttest *ttest_find(const tstr *name)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (tstr_is(name, tests[i].name)) return &tests[i];
    return NULL;
}

bool tval_test(trt *r, const ttest *t, tval v, const targs *args)
{
    if ((int)args->n != t->n_args)
        trt_fail(r, "test '%s' takes %d argument(s), %zu given", t->name, t->n_args, args->n);
    if (args->named && args->named->n) trt_fail(r, "test '%s' takes no keyword arguments", t->name);
    return t->call(r, v, args->v);
}

// ---- global functions -------------------------------------------------------------------------

#define GLOBAL(name) static tval name(trt *r, tval self, const tval *a, const targs *all)

GLOBAL(range)
{
    (void)self, (void)a;
    if (all->n < 1 || all->n > 3 || all->named) trt_fail(r, "range takes 1 to 3 arguments");
    trange *g = trt_alloc(r, sizeof *g);
    g->start = all->n > 1 ? tval_to_int(r, all->v[0], "range") : 0;
    g->stop = tval_to_int(r, all->v[all->n > 1], "range");
    g->step = all->n > 2 ? tval_to_int(r, all->v[2], "range") : 1;
    if (g->step == 0) trt_fail(r, "range() arg 3 must not be zero");
    uint64_t n = 0;
    if (g->step > 0 && g->stop > g->start)
        n = ((uint64_t)g->stop - (uint64_t)g->start - 1) / (uint64_t)g->step + 1;
    if (g->step < 0 && g->stop < g->start)
        n = ((uint64_t)g->start - (uint64_t)g->stop - 1) / (0 - (uint64_t)g->step) + 1;
    if (n > TRT_MAX_RANGE)
        trt_fail(r, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
                 (int)TRT_MAX_RANGE);
    g->n = (size_t)n;
    return (tval){T_RANGE, {.range = g}};
}

static tdict *new_dict(trt *r, const targs *all)
{
    if (all->n > 1) trt_fail(r, "dict expected at most 1 argument, got %zu", all->n);
    tdict *d = tdict_new(r, 0);
    if (all->n && all->v[0].kind == T_UNDEFINED) tval_fail_undefined(r, all->v[0]);
    if (all->n && all->v[0].kind == T_DICT) {
        for (size_t i = 0; i < all->v[0].u.dict->n; i++)
            tdict_set(r, d, all->v[0].u.dict->v[i].key, all->v[0].u.dict->v[i].value);
    } else if (all->n) {
        const tlist *items = tval_items(r, all->v[0]);
        for (size_t i = 0; i < items->n; i++) {
            const tlist *pair = tval_items(r, items->v[i]);
            if (pair->n != 2)
                trt_fail(r, "dictionary update sequence element #%zu has length %zu; 2 is required",
                         i, pair->n);
            tdict_set(r, d, pair->v[0], pair->v[1]);
        }
    }
    for (size_t i = 0; all->named && i < all->named->n; i++)
        tdict_set(r, d, all->named->v[i].key, all->named->v[i].value);
    return d;
}
GLOBAL(dict)
{
    (void)self, (void)a;
    return tval_dict(new_dict(r, all));
}
GLOBAL(namespace)
{
    (void)self, (void)a;
    return (tval){T_NAMESPACE, {.dict = new_dict(r, all)}};
}

GLOBAL(cycler)
{
    (void)self, (void)a;
    if (all->n == 0) trt_fail(r, "at least one item has to be provided");
    tcycler *c = trt_alloc(r, sizeof *c);
    c->items = tlist_new(r, all->n);
    for (size_t i = 0; i < all->n; i++) tlist_push(r, c->items, all->v[i]);
    return (tval){T_CYCLER, {.cycler = c}};
}

GLOBAL(cycler_next)
{
    (void)r, (void)a, (void)all;
    tcycler *c = self.u.cycler;
    tval v = c->items->v[c->at];
    c->at = (c->at + 1) % c->items->n;
    return v;
}
GLOBAL(cycler_reset)
{
    (void)r, (void)a, (void)all;
    self.u.cycler->at = 0;
    return tval_none();
}

tval tcycler_attr(trt *r, tval object, const tstr *name)
{
    static const tfunction methods[] = {{"next", cycler_next, "", 0},
                                        {"reset", cycler_reset, "", 0}};
    if (tstr_is(name, "current")) return object.u.cycler->items->v[object.u.cycler->at];
    for (size_t i = 0; i < 2; i++) {
        if (!tstr_is(name, methods[i].name)) continue;
        tmethod *m = trt_alloc(r, sizeof *m);
        *m = (tmethod){object, &methods[i]};
        return (tval){T_METHOD, {.method = m}};
    }
    return tval_missing();
}

GLOBAL(joiner)
{
    (void)self, (void)all;
    tjoiner *j = trt_alloc(r, sizeof *j);
    j->separator = a[0].kind == T_MISSING ? tval_c(r, ", ") : a[0];
    return (tval){T_JOINER, {.joiner = j}};
}

GLOBAL(lipsum)
{
    (void)self, (void)a, (void)all;
    trt_fail(r, "lipsum() is not supported: its text is random");
}

GLOBAL(raise_exception)
{
    (void)self, (void)all;
    trt_raise(r, tval_to_str(r, a[0]));
}

tval tglobal_find(trt *r, const tstr *name)
{
    static const tfunction globals[] = {
        {"range", range, NULL, 0},
        {"dict", dict, NULL, 0},
        {"namespace", namespace, NULL, 0},
        {"cycler", cycler, NULL, 0},
        {"joiner", joiner, "sep", 0},
        {"lipsum", lipsum, NULL, 0},
        {"raise_exception", raise_exception, "message", 1},
        {"strftime_now", tval_strftime, "format", 1},
    };
    (void)r;
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++)
        if (tstr_is(name, globals[i].name)) return (tval){T_FUNCTION, {.function = &globals[i]}};
    return tval_missing();
}
