// Operators on values: arithmetic, attributes, items, slices.
#include <stdlib.h>

#include "chat/template_internal.h"

// ---- arithmetic -------------------------------------------------------------------------------

static const char *const op_names[] = {
    [OP_ADD] = "+",       [OP_SUB] = "-", [OP_MUL] = "*",           [OP_DIV] = "/",
    [OP_FLOORDIV] = "//", [OP_MOD] = "%", [OP_POW] = "** or pow()",
};

static bool is_sequence(tval v)
{
    return v.kind == T_LIST || v.kind == T_TUPLE;
}

static tval concat_lists(trt *r, tval a, tval b)
{
    const tlist *x = a.u.list, *y = b.u.list;
    tlist *l = tlist_new(r, x->n + y->n);
    trt_step(r, (x->n + y->n) / 4);
    for (size_t i = 0; i < x->n; i++) tlist_push(r, l, x->v[i]);
    for (size_t i = 0; i < y->n; i++) tlist_push(r, l, y->v[i]);
    return a.kind == T_LIST ? tval_list(l) : tval_tuple(l);
}

static tval add(trt *r, tval a, tval b)
{
    if (a.kind == T_STRING) {
        if (b.kind == T_STRING) return tval_str(tstr_concat(r, a.u.str, b.u.str));
        trt_fail(r, "can only concatenate str (not \"%s\") to str", tval_type(b));
    }
    if (is_sequence(a)) {
        if (b.kind == a.kind) return concat_lists(r, a, b);
        trt_fail(r, "can only concatenate %s (not \"%s\") to %s", tval_type(a), tval_type(b),
                 tval_type(a));
    }
    trt_fail(r, "unsupported operand type(s) for +: '%s' and '%s'", tval_type(a), tval_type(b));
}

static tval repeat(trt *r, tval v, tval count)
{
    int64_t n = tval_to_int(r, count, "repetition");
    if (n < 0) n = 0;
    if (v.kind == T_STRING) {
        tbuf b;
        tbuf_start(&b, r);
        b.markup = v.u.str->markup;
        if (v.u.str->n == 0) n = 0;
        if (n && (size_t)n > b.max / v.u.str->n)
            trt_fail(r, "makes more text than the limit of %zu bytes", b.max);
        for (int64_t i = 0; i < n; i++) {
            trt_step(r, 1);
            tbuf_str(&b, v.u.str);
        }
        return tval_str(tbuf_take(&b));
    }
    const tlist *items = v.u.list;
    tlist *l = tlist_new(r, 0);
    if (items->n == 0) n = 0;
    if (n && (size_t)n > r->max_bytes / sizeof *l->v / items->n)
        trt_fail(r, "needs more memory than the limit of %zu bytes", r->max_bytes);
    for (int64_t i = 0; i < n; i++) {
        trt_step(r, 1 + items->n / 4);
        for (size_t k = 0; k < items->n; k++) tlist_push(r, l, items->v[k]);
    }
    return v.kind == T_LIST ? tval_list(l) : tval_tuple(l);
}

static bool is_integer(tval v)
{
    return v.kind == T_BOOL || v.kind == T_INT || v.kind == T_BIG;
}

tval tval_binary(trt *r, top op, tval a, tval b)
{
    if (tval_is_number(a) && tval_is_number(b)) return tval_arith(r, op, a, b);
    if (a.kind == T_STRING && op == OP_MOD) return tval_str(tstr_percent(r, a.u.str, b));
    if (a.kind == T_UNDEFINED) tval_fail_undefined(r, a);
    if (b.kind == T_UNDEFINED) tval_fail_undefined(r, b);
    if (op == OP_ADD) return add(r, a, b);
    if (op == OP_MUL) {
        if ((a.kind == T_STRING || is_sequence(a)) && is_integer(b)) return repeat(r, a, b);
        if ((b.kind == T_STRING || is_sequence(b)) && is_integer(a)) return repeat(r, b, a);
    }
    trt_fail(r, "unsupported operand type(s) for %s: '%s' and '%s'", op_names[op], tval_type(a),
             tval_type(b));
}

bool tval_compare(trt *r, top op, tval a, tval b)
{
    switch (op) {
    case OP_EQ: return tval_equal(r, a, b);
    case OP_NE: return !tval_equal(r, a, b);
    case OP_IN: return tval_contains(r, b, a);
    case OP_NOTIN: return !tval_contains(r, b, a);
    default: return tval_less(r, a, b, op);
    }
}

const tstr *tval_want_str(trt *r, tval v, const char *what)
{
    if (v.kind == T_STRING) return v.u.str;
    if (v.kind == T_UNDEFINED) tval_fail_undefined(r, v);
    trt_fail(r, "%s: expected a string, got '%s'", what, tval_type(v));
}

// ---- attributes and items ---------------------------------------------------------------------

static bool is_dunder(const tstr *s)
{
    return s->n >= 4 && memcmp(s->s, "__", 2) == 0 && memcmp(s->s + s->n - 2, "__", 2) == 0;
}

static tval refused(trt *r, tval object, const tstr *name)
{
    tbuf b;
    tbuf_start(&b, r);
    tbuf_text(&b, "access to attribute ");
    tbuf_repr(&b, tval_str(name));
    tbuf_printf(&b, " of '%s' object is unsafe.", tval_type(object));
    tbuf_bytes(&b, "", 1, false); // a C string
    return tval_undefined(r, tbuf_take(&b)->s);
}

static tval macro_attr(trt *r, const tmacro *m, const tstr *name)
{
    const tsignature *s = m->node->macro;
    if (tstr_is(name, "name")) return s->name;
    if (tstr_is(name, "catch_kwargs")) return tval_bool(s->uses_kwargs);
    if (tstr_is(name, "catch_varargs")) return tval_bool(s->uses_varargs);
    if (tstr_is(name, "caller")) return tval_bool(s->uses_caller || s->explicit_caller);
    if (!tstr_is(name, "arguments")) return tval_missing();
    tlist *l = tlist_new(r, s->n_params);
    for (size_t i = 0; i < s->n_params; i++) tlist_push(r, l, r->t->names[s->params[i]]);
    return tval_tuple(l);
}

static tval range_attr(const trange *g, const tstr *name)
{
    if (tstr_is(name, "start")) return tval_int(g->start);
    if (tstr_is(name, "stop")) return tval_int(g->stop);
    if (tstr_is(name, "step")) return tval_int(g->step);
    return tval_missing();
}

// What Python's getattr finds, before any item is looked for; T_MISSING where it finds nothing.
tval tval_own_attr(trt *r, tval object, const tstr *name)
{
    const tval *v;
    switch (object.kind) {
    case T_UNDEFINED:
        if (!is_dunder(name)) tval_fail_undefined(r, object);
        return tval_missing();
    case T_NAMESPACE:
        v = tdict_get(r, object.u.dict, tval_str(name));
        return v ? *v : tval_missing();
    case T_LOOP: return tloop_attr(r, object.u.loop, name);
    case T_CYCLER: return tcycler_attr(r, object, name);
    case T_MACRO: return macro_attr(r, object.u.macro, name);
    case T_RANGE: return range_attr(object.u.range, name);
    case T_SELF:
        for (size_t i = 0; i < r->t->n_blocks; i++)
            if (tstr_equal(r->t->blocks[i]->value.u.str, name))
                return (tval){T_BLOCK, {.block = r->t->blocks[i]}};
        return tval_missing();
    case T_TUPLE:
        for (size_t i = 0; object.u.list->fields && i < object.u.list->n; i++)
            if (tstr_is(name, object.u.list->fields[i])) return object.u.list->v[i];
        break;
    default: break;
    }
    if (tmethod_is_unsafe(object, name) ||
        (is_dunder(name) && object.kind != T_UNDEFINED &&
         (tstr_is(name, "__class__") || tstr_is(name, "__init__") || tstr_is(name, "__doc__") ||
          tstr_is(name, "__dir__"))))
        return refused(r, object, name);
    const tfunction *method = tmethod_find(object, name);
    if (!method) return tval_missing();
    tmethod *bound = trt_alloc(r, sizeof *bound);
    *bound = (tmethod){object, method};
    return (tval){T_METHOD, {.method = bound}};
}

tval tval_attr(trt *r, tval object, tval name)
{
    // The common case first: a message's key that is no method of dict.
    if (object.kind == T_DICT) {
        tval v = tval_own_attr(r, object, name.u.str);
        if (v.kind != T_MISSING) return v;
        const tval *item = tdict_get(r, object.u.dict, name);
        return item ? *item : tval_no_attribute(r, object, name);
    }
    tval v = tval_own_attr(r, object, name.u.str);
    return v.kind == T_MISSING ? tval_no_attribute(r, object, name) : v;
}

static bool hashable(tval v)
{
    if (v.kind == T_TUPLE) {
        for (size_t i = 0; i < v.u.list->n; i++)
            if (!hashable(v.u.list->v[i])) return false;
        return true;
    }
    return v.kind != T_LIST && v.kind != T_DICT;
}

// The item at an index; T_MISSING where there is none.
static tval at_index(trt *r, tval object, int64_t i)
{
    int64_t n = (int64_t)tval_length(r, object);
    if (i < 0) i += n;
    if (i < 0 || i >= n) return tval_missing();
    if (object.kind == T_RANGE) return tval_int(object.u.range->start + i * object.u.range->step);
    if (object.kind != T_STRING) return object.u.list->v[i];
    const tstr *s = object.u.str;
    size_t at = tstr_offset(s, (size_t)i), next;
    trt_step(r, s->n_chars == s->n ? 0 : at / 16);
    tstr_decode(s, at, &next);
    return tval_str(tstr_part(r, s, at, next));
}

tval tval_item(trt *r, tval object, tval key)
{
    tval v = tval_missing();
    switch (object.kind) {
    case T_UNDEFINED: tval_fail_undefined(r, object);
    case T_DICT: {
        const tval *item = hashable(key) ? tdict_get(r, object.u.dict, key) : NULL;
        if (item) return *item;
        break;
    }
    case T_STRING:
    case T_LIST:
    case T_TUPLE:
    case T_RANGE:
        if (key.kind == T_INT || key.kind == T_BOOL)
            v = at_index(r, object, key.kind == T_INT ? key.u.i : key.u.b);
        break;
    default: break;
    }
    if (v.kind == T_MISSING && key.kind == T_STRING) v = tval_own_attr(r, object, key.u.str);
    return v.kind == T_MISSING ? tval_no_attribute(r, object, key) : v;
}

tval tval_attr_path(trt *r, tval object, tval path, tval fallback)
{
    if (path.kind == T_NONE || path.kind == T_MISSING) return object;
    if (path.kind != T_STRING) {
        object = tval_item(r, object, path);
        return object.kind == T_UNDEFINED && fallback.kind != T_MISSING ? fallback : object;
    }
    const tstr *s = path.u.str;
    for (size_t i = 0;;) {
        const char *dot = i < s->n ? memchr(s->s + i, '.', s->n - i) : NULL;
        size_t end = dot ? (size_t)(dot - s->s) : s->n;
        const tstr *part = tstr_part(r, s, i, end);
        bool number = part->n > 0 && part->n < 10;
        for (size_t k = 0; k < part->n; k++) number &= part->s[k] >= '0' && part->s[k] <= '9';
        object = tval_item(r, object, number ? tval_parse_int(r, part, 10) : tval_str(part));
        if (object.kind == T_UNDEFINED && fallback.kind != T_MISSING) object = fallback;
        if (!dot) return object;
        i = end + 1;
    }
}

// ---- slices -----------------------------------------------------------------------------------

static int64_t bound(trt *r, tval v, int64_t n, int64_t absent, bool backwards)
{
    if (v.kind == T_MISSING || v.kind == T_NONE) return absent;
    int64_t i;
    if (v.kind == T_BIG)
        i = tval_compare_int(v, tval_int(0)) < 0 ? INT64_MIN / 2 : INT64_MAX / 2;
    else if (v.kind == T_INT || v.kind == T_BOOL)
        i = v.kind == T_INT ? v.u.i : v.u.b;
    else if (v.kind == T_UNDEFINED)
        tval_fail_undefined(r, v);
    else
        trt_fail(r, "slice indices must be integers or None or have an __index__ method");
    if (i < 0) {
        if (i < -n) return backwards ? -1 : 0;
        return i + n;
    }
    int64_t last = backwards ? n - 1 : n;
    return i > last ? last : i;
}

static size_t slice_count(int64_t start, int64_t stop, int64_t step)
{
    if (step == 0) return 0; // refused before
    if (step > 0) return stop > start ? (size_t)((stop - start - 1) / step + 1) : 0;
    return start > stop ? (size_t)((start - stop - 1) / -step + 1) : 0;
}

static tval slice_str(trt *r, const tstr *s, int64_t start, int64_t step, size_t count)
{
    trt_step(r, s->n / 16);
    if (count == 0) return tval_str(tstr_part(r, s, 0, 0));
    if (step == 1) {
        size_t from = tstr_offset(s, (size_t)start), to = tstr_offset(s, (size_t)start + count);
        return tval_str(tstr_part(r, s, from, to));
    }
    // Byte offsets of all characters, so that a step backwards is not a search.
    size_t *at = trt_array(r, s->n_chars + 1, sizeof *at), k = 0;
    for (size_t i = 0, next; i < s->n; i = next) {
        tstr_decode(s, i, &next);
        if (k < s->n_chars) at[k++] = i;
    }
    while (k <= s->n_chars) at[k++] = s->n;
    tbuf b;
    tbuf_start(&b, r);
    b.markup = s->markup;
    trt_step(r, count / 4);
    for (size_t i = 0; i < count; i++) {
        size_t c = (size_t)(start + (int64_t)i * step);
        tbuf_part(&b, s, at[c], at[c + 1]);
    }
    return tval_str(tbuf_take(&b));
}

static tval slice_range(trt *r, const trange *g, int64_t start, int64_t stop, int64_t step,
                        size_t count)
{
    trange *part = trt_alloc(r, sizeof *part);
    // Unsigned, because bounds that no item reaches may leave 64 bits.
    uint64_t first = (uint64_t)g->start, by = (uint64_t)g->step;
    *part = (trange){.start = (int64_t)(first + (uint64_t)start * by),
                     .stop = (int64_t)(first + (uint64_t)stop * by),
                     .step = (int64_t)(by * (uint64_t)step),
                     .n = count};
    return (tval){T_RANGE, {.range = part}};
}

tval tval_slice(trt *r, tval object, tval start_v, tval stop_v, tval step_v)
{
    if (object.kind == T_UNDEFINED) tval_fail_undefined(r, object);
    if (object.kind == T_DICT) trt_fail(r, "unhashable type: 'slice'");
    if (object.kind != T_STRING && object.kind != T_LIST && object.kind != T_TUPLE &&
        object.kind != T_RANGE)
        trt_fail(r, "'%s' object is not subscriptable", tval_type(object));
    int64_t step = 1, n = (int64_t)tval_length(r, object);
    if (step_v.kind != T_MISSING && step_v.kind != T_NONE)
        step = tval_to_int(r, step_v, "slice step");
    if (step == 0) trt_fail(r, "slice step cannot be zero");
    if (step > n + 1) step = n + 1; // the same items, and products that stay small
    if (step < -n - 1) step = -n - 1;
    int64_t start = bound(r, start_v, n, step > 0 ? 0 : n - 1, step < 0);
    int64_t stop = bound(r, stop_v, n, step > 0 ? n : -1, step < 0);
    size_t count = slice_count(start, stop, step);
    if (object.kind == T_STRING) return slice_str(r, object.u.str, start, step, count);
    if (object.kind == T_RANGE) return slice_range(r, object.u.range, start, stop, step, count);
    tlist *l = tlist_new(r, count);
    trt_step(r, count / 4);
    for (size_t i = 0; i < count; i++)
        tlist_push(r, l, object.u.list->v[start + (int64_t)i * step]);
    return object.kind == T_LIST ? tval_list(l) : tval_tuple(l);
}
