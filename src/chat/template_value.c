// Values: making, comparing, iterating; lists and dictionaries.
#include <math.h>
#include <stdlib.h>

#include "chat/template_internal.h"

// ---- undefined --------------------------------------------------------------------------------

static tval undefined(trt *r, tundef u)
{
    tundef *p = trt_alloc(r, sizeof *p);
    *p = u;
    return (tval){T_UNDEFINED, {.undef = p}};
}

tval tval_undefined(trt *r, const char *hint)
{
    return undefined(r, (tundef){.hint = hint});
}

tval tval_undefined_name(trt *r, tval name)
{
    return undefined(r, (tundef){.name = name});
}

tval tval_no_attribute(trt *r, tval object, tval name)
{
    return undefined(r, (tundef){.has_object = true, .object = object, .name = name});
}

void tval_fail_undefined(trt *r, tval v)
{
    const tundef *u = v.u.undef;
    if (u->hint) trt_fail(r, "%s", u->hint);
    const tstr *name = tval_to_repr(r, u->name);
    int n = name->n < 300 ? (int)name->n : 300;
    if (!u->has_object) trt_fail(r, "%.*s is undefined", n, name->s);
    const char *object = tval_object_name(u->object);
    if (u->name.kind != T_STRING) trt_fail(r, "%s has no element %.*s", object, n, name->s);
    trt_fail(r, "'%s' has no attribute %.*s", object, n, name->s);
}

// ---- lists and dictionaries -------------------------------------------------------------------

tlist *tlist_new(trt *r, size_t cap)
{
    tlist *l = trt_alloc(r, sizeof *l);
    if (cap) l->v = trt_array(r, cap, sizeof *l->v);
    l->cap = cap;
    return l;
}

void tlist_push(trt *r, tlist *l, tval v)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 4;
        if (cap > r->max_bytes / sizeof *l->v) trt_fail(r, "a list with too many items");
        l->v = trt_grow(r, l->v, l->n * sizeof *l->v, cap * sizeof *l->v);
        l->cap = cap;
    }
    l->v[l->n++] = v;
}

tval tval_pair(trt *r, tval a, tval b)
{
    tlist *l = tlist_new(r, 2);
    tlist_push(r, l, a);
    tlist_push(r, l, b);
    return tval_tuple(l);
}

tval tval_iterator(trt *r, tlist *items, const char *type)
{
    titerator *i = trt_alloc(r, sizeof *i);
    *i = (titerator){.items = items, .type = type};
    return (tval){T_ITER, {.iter = i}};
}

enum { DICT_LINEAR = 8 }; // up to this many pairs are searched without an index

tdict *tdict_new(trt *r, size_t cap)
{
    tdict *d = trt_alloc(r, sizeof *d);
    if (cap) d->v = trt_array(r, cap, sizeof *d->v);
    d->cap = cap;
    return d;
}

static uint64_t mix(uint64_t h)
{
    h ^= h >> 33;
    h *= UINT64_C(0xff51afd7ed558ccd);
    return h ^ h >> 29;
}

// Equal values have equal hashes: 1, 1.0 and true.
static uint64_t hash(trt *r, tval v)
{
    uint64_t h = (uint64_t)v.kind;
    switch (v.kind) {
    case T_BOOL: return mix(v.u.b);
    case T_INT: return mix((uint64_t)v.u.i);
    case T_FLOAT:
        if (v.u.f == floor(v.u.f) && fabs(v.u.f) < 9e18) return mix((uint64_t)(int64_t)v.u.f);
        memcpy(&h, &v.u.f, sizeof h);
        return mix(h);
    case T_BIG: {
        double f = tbig_to_double(v.u.big); // a float of the same value is equal
        memcpy(&h, &f, sizeof h);
        return mix(h);
    }
    case T_STRING:
        h = 1469598103934665603u;
        trt_step(r, v.u.str->n / 16);
        for (size_t i = 0; i < v.u.str->n; i++) h = (h ^ (uint8_t)v.u.str->s[i]) * 1099511628211u;
        return mix(h);
    case T_TUPLE:
        trt_enter(r);
        for (size_t i = 0; i < v.u.list->n; i++) h = mix(h * 31 + hash(r, v.u.list->v[i]));
        trt_exit(r);
        return h;
    case T_LIST:
    case T_VIEW:
    case T_DICT: trt_fail(r, "unhashable type: '%s'", tval_type(v));
    case T_NONE:
    case T_UNDEFINED: return mix(h);
    default: return mix((uint64_t)(uintptr_t)v.u.p);
    }
}

static size_t slot_of(trt *r, const tdict *d, tval key)
{
    size_t mask = d->n_slots - 1, at = (size_t)hash(r, key) & mask;
    while (d->slots[at] && !tval_equal(r, d->v[d->slots[at] - 1].key, key)) {
        at = (at + 1) & mask;
        trt_step(r, 1);
    }
    return at;
}

static tpair *find_pair(trt *r, const tdict *d, tval key)
{
    if (d->slots) {
        uint32_t i = d->slots[slot_of(r, d, key)];
        return i ? &d->v[i - 1] : NULL;
    }
    if (key.kind != T_STRING) hash(r, key); // refuses what is no key
    trt_step(r, key.kind == T_STRING ? key.u.str->n / 64 : 0);
    for (size_t i = 0; i < d->n; i++) {
        if (key.kind == T_STRING
                ? d->v[i].key.kind == T_STRING && tstr_equal(d->v[i].key.u.str, key.u.str)
                : tval_equal(r, d->v[i].key, key))
            return &d->v[i];
    }
    return NULL;
}

const tval *tdict_get(trt *r, const tdict *d, tval key)
{
    tpair *p = find_pair(r, d, key);
    return p ? &p->value : NULL;
}

const tval *tdict_find(trt *r, const tdict *d, const char *key)
{
    tstr s = {.s = key, .n = strlen(key)};
    return d ? tdict_get(r, d, tval_str(&s)) : NULL;
}

static void index_dict(trt *r, tdict *d)
{
    d->n_slots = d->n_slots ? 2 * d->n_slots : 32;
    d->slots = trt_array(r, d->n_slots, sizeof *d->slots);
    for (size_t i = 0; i < d->n; i++) d->slots[slot_of(r, d, d->v[i].key)] = (uint32_t)(i + 1);
}

void tdict_set(trt *r, tdict *d, tval key, tval value)
{
    tpair *p = find_pair(r, d, key);
    if (p) {
        p->value = value;
        return;
    }
    if (!d->v || d->n == d->cap) {
        size_t cap = d->cap ? 2 * d->cap : 4;
        if (cap > r->max_bytes / sizeof *d->v || cap > UINT32_MAX / 2)
            trt_fail(r, "a dictionary with too many items");
        d->v = trt_grow(r, d->v, d->n * sizeof *d->v, cap * sizeof *d->v);
        d->cap = cap;
    }
    d->v[d->n++] = (tpair){key, value};
    if (d->slots && d->n * 2 <= d->n_slots)
        d->slots[slot_of(r, d, key)] = (uint32_t)d->n;
    else if (d->n > DICT_LINEAR)
        index_dict(r, d);
}

// ---- what a value is --------------------------------------------------------------------------

const char *tval_type(tval v)
{
    switch (v.kind) {
    case T_MISSING:
    case T_UNDEFINED: return "Undefined";
    case T_NONE: return "NoneType";
    case T_BOOL: return "bool";
    case T_INT:
    case T_BIG: return "int";
    case T_FLOAT: return "float";
    case T_STRING: return v.u.str->markup ? "Markup" : "str";
    case T_BYTES: return "bytes";
    case T_LIST: return "list";
    case T_TUPLE: return v.u.list->fields ? "_GroupTuple" : "tuple";
    case T_DICT: return "dict";
    case T_NAMESPACE: return "Namespace";
    case T_RANGE: return "range";
    case T_VIEW:
        return v.u.view->what == VIEW_KEYS     ? "dict_keys"
               : v.u.view->what == VIEW_VALUES ? "dict_values"
                                               : "dict_items";
    case T_ITER: return v.u.iter->type;
    case T_FUNCTION: return "function";
    case T_METHOD: return "builtin_function_or_method";
    case T_MACRO: return "Macro";
    case T_LOOP: return "LoopContext";
    case T_CYCLER: return "Cycler";
    case T_JOINER: return "Joiner";
    case T_SELF: return "TemplateReference";
    case T_BLOCK: return "BlockReference";
    }
    return "object";
}

const char *tval_object_name(tval v)
{
    switch (v.kind) {
    case T_NONE: return "None";
    case T_BOOL: return "bool object";
    case T_INT:
    case T_BIG: return "int object";
    case T_FLOAT: return "float object";
    case T_STRING: return v.u.str->markup ? "markupsafe.Markup object" : "str object";
    case T_LIST: return "list object";
    case T_TUPLE: return "tuple object";
    case T_DICT: return "dict object";
    case T_NAMESPACE: return "jinja2.utils.Namespace object";
    case T_RANGE: return "range object";
    case T_MACRO: return "jinja2.runtime.Macro object";
    case T_LOOP: return "jinja2.runtime.LoopContext object";
    case T_ITER: return "generator object";
    default: return tval_type(v);
    }
}

bool tval_is_number(tval v)
{
    return v.kind == T_BOOL || v.kind == T_INT || v.kind == T_BIG || v.kind == T_FLOAT;
}

bool tval_is_iterable(tval v)
{
    switch (v.kind) {
    case T_UNDEFINED:
    case T_STRING:
    case T_BYTES:
    case T_LIST:
    case T_TUPLE:
    case T_DICT:
    case T_RANGE:
    case T_VIEW:
    case T_ITER:
    case T_LOOP: return true;
    default: return false;
    }
}

bool tval_has_length(tval v)
{
    return tval_is_iterable(v) && v.kind != T_ITER;
}

size_t tval_length(trt *r, tval v)
{
    switch (v.kind) {
    case T_UNDEFINED: return 0;
    case T_STRING: return v.u.str->n_chars;
    case T_BYTES: return v.u.str->n;
    case T_LIST:
    case T_TUPLE: return v.u.list->n;
    case T_DICT: return v.u.dict->n;
    case T_RANGE: return v.u.range->n;
    case T_VIEW: return v.u.view->dict->n;
    case T_LOOP: return v.u.loop->n;
    default: trt_fail(r, "object of type '%s' has no len()", tval_type(v));
    }
}

bool tval_true(trt *r, tval v)
{
    switch (v.kind) {
    case T_MISSING:
    case T_UNDEFINED:
    case T_NONE: return false;
    case T_BOOL: return v.u.b;
    case T_INT: return v.u.i != 0;
    case T_FLOAT: return v.u.f != 0;
    case T_ITER: return true;
    default: return tval_has_length(v) ? tval_length(r, v) != 0 : true;
    }
}

double tval_to_double(trt *r, tval v)
{
    switch (v.kind) {
    case T_BOOL: return v.u.b;
    case T_INT: return (double)v.u.i;
    case T_BIG: return tbig_to_double(v.u.big);
    case T_FLOAT: return v.u.f;
    case T_UNDEFINED: tval_fail_undefined(r, v);
    default: trt_fail(r, "must be real number, not %s", tval_type(v));
    }
}

int64_t tval_to_int(trt *r, tval v, const char *what)
{
    if (v.kind == T_BOOL) return v.u.b;
    if (v.kind == T_INT) return v.u.i;
    if (v.kind == T_UNDEFINED) tval_fail_undefined(r, v);
    if (v.kind == T_BIG) trt_fail(r, "%s: the integer is too large", what);
    trt_fail(r, "%s: '%s' object cannot be interpreted as an integer", what, tval_type(v));
}

// ---- comparing --------------------------------------------------------------------------------

bool tval_same(tval a, tval b)
{
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case T_NONE: return true;
    case T_BOOL: return a.u.b == b.u.b;
    case T_INT: return a.u.i == b.u.i;
    case T_FLOAT: return a.u.f == b.u.f;
    case T_STRING: return a.u.str == b.u.str || tstr_equal(a.u.str, b.u.str);
    default: return a.u.p == b.u.p;
    }
}

static bool lists_equal(trt *r, const tlist *a, const tlist *b)
{
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++)
        if (!tval_equal(r, a->v[i], b->v[i])) return false;
    return true;
}

static bool dicts_equal(trt *r, const tdict *a, const tdict *b)
{
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        const tval *other = tdict_get(r, b, a->v[i].key);
        if (!other || !tval_equal(r, a->v[i].value, *other)) return false;
    }
    return true;
}

static bool numbers_equal(trt *r, tval a, tval b)
{
    if (a.kind == T_FLOAT || b.kind == T_FLOAT) return tval_to_double(r, a) == tval_to_double(r, b);
    return tval_compare_int(a, b) == 0;
}

bool tval_equal(trt *r, tval a, tval b)
{
    trt_step(r, 1);
    if (tval_is_number(a) && tval_is_number(b)) return numbers_equal(r, a, b);
    if (a.kind != b.kind) return false;
    bool equal;
    trt_enter(r);
    switch (a.kind) {
    case T_UNDEFINED:
    case T_NONE: equal = true; break;
    case T_STRING:
    case T_BYTES:
        trt_step(r, a.u.str->n / 64);
        equal = tstr_equal(a.u.str, b.u.str);
        break;
    case T_LIST:
    case T_TUPLE: equal = a.u.list == b.u.list || lists_equal(r, a.u.list, b.u.list); break;
    case T_DICT: equal = a.u.dict == b.u.dict || dicts_equal(r, a.u.dict, b.u.dict); break;
    case T_RANGE:
        equal = a.u.range->n == b.u.range->n &&
                (a.u.range->n == 0 || (a.u.range->start == b.u.range->start &&
                                       (a.u.range->n == 1 || a.u.range->step == b.u.range->step)));
        break;
    case T_METHOD:
        equal = a.u.method->function == b.u.method->function &&
                tval_same(a.u.method->self, b.u.method->self);
        break;
    default: equal = a.u.p == b.u.p; break;
    }
    trt_exit(r);
    return equal;
}

static bool holds(int order, top op)
{
    return op == OP_LT   ? order < 0
           : op == OP_LE ? order <= 0
           : op == OP_GT ? order > 0
                         : order >= 0;
}

static bool doubles_less(double a, double b, top op)
{
    return op == OP_LT ? a < b : op == OP_LE ? a <= b : op == OP_GT ? a > b : a >= b;
}

bool tval_less(trt *r, tval a, tval b, top op)
{
    static const char *const names[] = {
        [OP_LT] = "<", [OP_LE] = "<=", [OP_GT] = ">", [OP_GE] = ">="};
    trt_step(r, 1);
    if (a.kind == T_UNDEFINED) tval_fail_undefined(r, a);
    if (b.kind == T_UNDEFINED) tval_fail_undefined(r, b);
    if (tval_is_number(a) && tval_is_number(b)) {
        if (a.kind == T_FLOAT || b.kind == T_FLOAT)
            return doubles_less(tval_to_double(r, a), tval_to_double(r, b), op);
        return holds(tval_compare_int(a, b), op);
    }
    if (a.kind == T_STRING && b.kind == T_STRING) {
        trt_step(r, a.u.str->n / 64);
        return holds(tstr_compare(a.u.str, b.u.str), op);
    }
    if (a.kind == b.kind && (a.kind == T_LIST || a.kind == T_TUPLE)) {
        const tlist *x = a.u.list, *y = b.u.list;
        for (size_t i = 0; i < x->n && i < y->n; i++) {
            if (tval_equal(r, x->v[i], y->v[i])) continue;
            trt_enter(r);
            bool less = tval_less(r, x->v[i], y->v[i], op);
            trt_exit(r);
            return less;
        }
        return holds(x->n < y->n ? -1 : x->n > y->n, op);
    }
    trt_fail(r, "'%s' not supported between instances of '%s' and '%s'", names[op], tval_type(a),
             tval_type(b));
}

static bool range_has(const trange *g, tval v)
{
    if (v.kind == T_FLOAT && v.u.f == floor(v.u.f) && fabs(v.u.f) < 9e18)
        v = tval_int((int64_t)v.u.f);
    if (v.kind == T_BOOL) v = tval_int(v.u.b);
    if (v.kind != T_INT || g->n == 0) return false;
    int64_t last = g->start + (int64_t)(g->n - 1) * g->step;
    int64_t low = g->step > 0 ? g->start : last, high = g->step > 0 ? last : g->start;
    if (v.u.i < low || v.u.i > high) return false;
    uint64_t step = g->step > 0 ? (uint64_t)g->step : 0 - (uint64_t)g->step;
    return ((uint64_t)v.u.i - (uint64_t)low) % step == 0;
}

bool tval_contains(trt *r, tval container, tval v)
{
    switch (container.kind) {
    case T_STRING:
        if (v.kind != T_STRING)
            trt_fail(r, "'in <string>' requires string as left operand, not %s", tval_type(v));
        return tstr_find(r, container.u.str, v.u.str, 0) != SIZE_MAX;
    case T_DICT: return tdict_get(r, container.u.dict, v) != NULL;
    case T_RANGE: return range_has(container.u.range, v);
    default: break;
    }
    if (!tval_is_iterable(container) || container.kind == T_BYTES)
        trt_fail(r, "argument of type '%s' is not iterable", tval_type(container));
    if (container.kind == T_VIEW && container.u.view->what == VIEW_KEYS)
        return tdict_get(r, container.u.view->dict, v) != NULL;
    const tlist *items = tval_items(r, container);
    for (size_t i = 0; i < items->n; i++)
        if (tval_equal(r, items->v[i], v)) return true;
    return false;
}

// ---- iterating --------------------------------------------------------------------------------

// Python iterates over Markup as over str.
static tlist *characters(trt *r, const tstr *s)
{
    tlist *l = tlist_new(r, s->n_chars);
    s = tstr_markup(r, s, false);
    for (size_t i = 0, next; i < s->n; i = next) {
        tstr_decode(s, i, &next);
        tlist_push(r, l, tval_str(tstr_part(r, s, i, next)));
    }
    return l;
}

static tlist *pairs(trt *r, const tdict *d, tview_kind what)
{
    tlist *l = tlist_new(r, d->n);
    for (size_t i = 0; i < d->n; i++)
        tlist_push(r, l,
                   what == VIEW_KEYS     ? d->v[i].key
                   : what == VIEW_VALUES ? d->v[i].value
                                         : tval_pair(r, d->v[i].key, d->v[i].value));
    return l;
}

tlist *tval_items(trt *r, tval v)
{
    tlist *l;
    if (tval_has_length(v)) trt_step(r, tval_length(r, v) / 4);
    switch (v.kind) {
    case T_UNDEFINED: return tlist_new(r, 0);
    case T_LIST:
    case T_TUPLE: return v.u.list;
    case T_STRING: return characters(r, v.u.str);
    case T_BYTES:
        l = tlist_new(r, v.u.str->n);
        for (size_t i = 0; i < v.u.str->n; i++) tlist_push(r, l, tval_int((uint8_t)v.u.str->s[i]));
        return l;
    case T_DICT: return pairs(r, v.u.dict, VIEW_KEYS);
    case T_VIEW: return pairs(r, v.u.view->dict, v.u.view->what);
    case T_RANGE:
        l = tlist_new(r, v.u.range->n);
        for (size_t i = 0; i < v.u.range->n; i++)
            tlist_push(r, l, tval_int(v.u.range->start + (int64_t)i * v.u.range->step));
        return l;
    case T_ITER: {
        titerator *it = v.u.iter;
        if (it->at == 0) {
            it->at = it->items->n;
            return it->items;
        }
        l = tlist_new(r, it->items->n - it->at);
        while (it->at < it->items->n) tlist_push(r, l, it->items->v[it->at++]);
        return l;
    }
    default: trt_fail(r, "'%s' object is not iterable", tval_type(v));
    }
}

// ---- from JSON --------------------------------------------------------------------------------

static tval string_from_json(trt *r, const json_t *json, tliteral literal)
{
    const char *s = json_string_value(json);
    size_t n = json_string_length(json);
    // Integers beyond 64 bits: see tmpl_load_json.
    if (n > 1 && (uint8_t)s[0] == 0xFF) return tbig_parse(r, s + 1, n - 1, 10);
    return tval_str(tstr_new(r, s, n, literal));
}

tval tval_from_json(trt *r, const json_t *json, tliteral literal)
{
    trt_step(r, 1);
    trt_enter(r);
    tval v = tval_none();
    if (json_is_string(json)) {
        v = string_from_json(r, json, literal);
    } else if (json_is_integer(json)) {
        v = tval_int(json_integer_value(json));
    } else if (json_is_real(json)) {
        v = tval_float(json_real_value(json));
    } else if (json_is_boolean(json)) {
        v = tval_bool(json_is_true(json));
    } else if (json_is_array(json)) {
        size_t n = json_array_size(json);
        tlist *l = tlist_new(r, n);
        for (size_t i = 0; i < n; i++)
            tlist_push(r, l, tval_from_json(r, json_array_get(json, i), literal));
        v = tval_list(l);
    } else if (json_is_object(json)) {
        tdict *d = tdict_new(r, json_object_size(json));
        // The casts: jansson's iterators take no const, and change nothing.
        for (void *i = json_object_iter((json_t *)(uintptr_t)json); i;
             i = json_object_iter_next((json_t *)(uintptr_t)json, i)) {
            const char *key = json_object_iter_key(i);
            tdict_set(r, d, tval_str(tstr_new(r, key, strlen(key), literal)),
                      tval_from_json(r, json_object_iter_value(i), literal));
        }
        v = tval_dict(d);
    }
    trt_exit(r);
    return v;
}
