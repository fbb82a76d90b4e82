// Filters on sequences. Those that are generators in Jinja give an iterator, which is always true,
// has no length and can be read once.
#include "chat/template_internal.h"

#define FILTER(name) static tval name(trt *r, tval self, const tval *a, const targs *all)

static bool given(tval v)
{
    return v.kind != T_MISSING && v.kind != T_NONE;
}

static tval generator(trt *r, tlist *l)
{
    return tval_iterator(r, l, "generator");
}

// ---- keys and sorting -------------------------------------------------------------------------

static tval ignore_case(trt *r, tval v, bool case_sensitive)
{
    if (case_sensitive || v.kind != T_STRING) return v;
    return tval_str(tstr_case(r, v.u.str, CASE_LOWER));
}

static tval key_of(trt *r, tval item, tval attribute, tval fallback, bool case_sensitive)
{
    return ignore_case(r, tval_attr_path(r, item, attribute, fallback), case_sensitive);
}

// "a,b": the values of several attributes, as a list.
static tval keys_of(trt *r, tval item, tval attributes, bool case_sensitive)
{
    tlist *l = tlist_new(r, 1);
    if (attributes.kind != T_STRING) {
        tlist_push(r, l, key_of(r, item, attributes, tval_missing(), case_sensitive));
        return tval_list(l);
    }
    const tstr *s = attributes.u.str;
    for (size_t i = 0;;) {
        const char *comma = i < s->n ? memchr(s->s + i, ',', s->n - i) : NULL;
        size_t end = comma ? (size_t)(comma - s->s) : s->n;
        tval part = tval_str(tstr_part(r, s, i, end));
        tlist_push(r, l, key_of(r, item, part, tval_missing(), case_sensitive));
        if (!comma) return tval_list(l);
        i = end + 1;
    }
}

typedef struct entry {
    tval key, item;
} entry;

// Stable merge sort of v[0..n), as Python's: `reverse` keeps equal items in their order.
static void merge_sort(trt *r, entry *v, entry *scratch, size_t n, bool reverse)
{
    if (n < 2) return;
    size_t half = n / 2, i = 0, k = half;
    merge_sort(r, v, scratch, half, reverse);
    merge_sort(r, v + half, scratch, n - half, reverse);
    memcpy(scratch, v, n * sizeof *v);
    for (size_t at = 0; at < n; at++) {
        bool right =
            i >= half || (k < n && (reverse ? tval_less(r, scratch[i].key, scratch[k].key, OP_LT)
                                            : tval_less(r, scratch[k].key, scratch[i].key, OP_LT)));
        v[at] = right ? scratch[k++] : scratch[i++];
    }
}

static entry *sorted(trt *r, const tlist *items, const tval *keys, bool reverse)
{
    entry *v = trt_array(r, items->n, sizeof *v);
    for (size_t i = 0; i < items->n; i++) v[i] = (entry){keys[i], items->v[i]};
    merge_sort(r, v, trt_array(r, items->n, sizeof *v), items->n, reverse);
    return v;
}

// sort(reverse=False, case_sensitive=False, attribute=None)
FILTER(sort)
{
    (void)all;
    const tlist *items = tval_items(r, self);
    tval *keys = trt_array(r, items->n, sizeof *keys);
    for (size_t i = 0; i < items->n; i++)
        keys[i] = keys_of(r, items->v[i], a[2], tval_true(r, a[1]));
    const entry *v = sorted(r, items, keys, tval_true(r, a[0]));
    tlist *l = tlist_new(r, items->n);
    for (size_t i = 0; i < items->n; i++) tlist_push(r, l, v[i].item);
    return tval_list(l);
}

// dictsort(case_sensitive=False, by='key', reverse=False)
FILTER(dictsort)
{
    (void)all;
    bool by_value = a[1].kind == T_STRING && tstr_is(a[1].u.str, "value");
    if (a[1].kind != T_MISSING && !by_value &&
        !(a[1].kind == T_STRING && tstr_is(a[1].u.str, "key")))
        trt_fail(r, "You can only sort by either \"key\" or \"value\"");
    if (self.kind == T_UNDEFINED) tval_fail_undefined(r, self);
    if (self.kind != T_DICT) trt_fail(r, "'%s' object has no attribute 'items'", tval_type(self));
    tview view = {VIEW_ITEMS, self.u.dict};
    const tlist *items = tval_items(r, (tval){T_VIEW, {.view = &view}});
    tval *keys = trt_array(r, items->n, sizeof *keys);
    for (size_t i = 0; i < items->n; i++)
        keys[i] = ignore_case(r, items->v[i].u.list->v[by_value], tval_true(r, a[0]));
    const entry *v = sorted(r, items, keys, tval_true(r, a[2]));
    tlist *l = tlist_new(r, items->n);
    for (size_t i = 0; i < items->n; i++) tlist_push(r, l, v[i].item);
    return tval_list(l);
}

// groupby(attribute, default=None, case_sensitive=False)
FILTER(groupby)
{
    (void)all;
    static const char *const fields[] = {"grouper", "list"};
    bool case_sensitive = tval_true(r, a[2]);
    tval fallback = given(a[1]) ? a[1] : tval_missing();
    const tlist *items = tval_items(r, self);
    tval *keys = trt_array(r, items->n, sizeof *keys);
    for (size_t i = 0; i < items->n; i++)
        keys[i] = key_of(r, items->v[i], a[0], fallback, case_sensitive);
    const entry *v = sorted(r, items, keys, false);
    tlist *groups = tlist_new(r, 0), *group = NULL;
    for (size_t i = 0; i < items->n; i++) {
        if (!group || !tval_equal(r, v[i].key, v[i - 1].key)) {
            group = tlist_new(r, 0);
            tval key = tval_attr_path(r, v[i].item, a[0], fallback);
            tval pair = tval_pair(r, case_sensitive ? v[i].key : key, tval_list(group));
            pair.u.list->fields = fields;
            tlist_push(r, groups, pair);
        }
        tlist_push(r, group, v[i].item);
    }
    return tval_list(groups);
}

// unique(case_sensitive=False, attribute=None)
FILTER(unique)
{
    (void)all;
    const tlist *items = tval_items(r, self);
    tdict *seen = tdict_new(r, 0);
    tlist *l = tlist_new(r, 0);
    for (size_t i = 0; i < items->n; i++) {
        tval key = key_of(r, items->v[i], a[1], tval_missing(), tval_true(r, a[0]));
        if (tdict_get(r, seen, key)) continue;
        tdict_set(r, seen, key, tval_none());
        tlist_push(r, l, items->v[i]);
    }
    return generator(r, l);
}

static tval extreme(trt *r, tval self, const tval *a, top op)
{
    const tlist *items = tval_items(r, self);
    if (items->n == 0) return tval_undefined(r, "No aggregated item, sequence was empty.");
    bool case_sensitive = tval_true(r, a[0]);
    tval best = items->v[0], best_key = key_of(r, best, a[1], tval_missing(), case_sensitive);
    for (size_t i = 1; i < items->n; i++) {
        tval key = key_of(r, items->v[i], a[1], tval_missing(), case_sensitive);
        if (!tval_less(r, key, best_key, op)) continue;
        best = items->v[i];
        best_key = key;
    }
    return best;
}
FILTER(minimum)
{
    (void)all;
    return extreme(r, self, a, OP_LT);
}
FILTER(maximum)
{
    (void)all;
    return extreme(r, self, a, OP_GT);
}

// ---- one by one -------------------------------------------------------------------------------

// sum(attribute=None, start=0)
FILTER(sum)
{
    (void)all;
    tval total = a[1].kind == T_MISSING ? tval_int(0) : a[1];
    if (total.kind == T_STRING) trt_fail(r, "sum() can't sum strings [use ''.join(seq) instead]");
    const tlist *items = tval_items(r, self);
    for (size_t i = 0; i < items->n; i++)
        total = tval_binary(r, OP_ADD, total, tval_attr_path(r, items->v[i], a[0], tval_missing()));
    return total;
}

// join(d='', attribute=None)
FILTER(join)
{
    (void)all;
    const tstr *separator = a[0].kind == T_MISSING ? tstr_c(r, "") : tval_to_str(r, a[0]);
    const tlist *items = tval_items(r, self);
    tbuf b;
    tbuf_start(&b, r);
    bool markup = r->autoescape && separator->markup;
    for (size_t i = 0; r->autoescape && i < items->n; i++)
        markup |= items->v[i].kind == T_STRING && items->v[i].u.str->markup;
    for (size_t i = 0; i < items->n; i++) {
        tval v = tval_attr_path(r, items->v[i], a[1], tval_missing());
        trt_step(r, 1);
        if (i) tbuf_str(&b, markup ? tstr_escape(r, separator) : separator);
        if (markup)
            tbuf_str(&b, tstr_escape(r, tval_to_str(r, v)));
        else
            tbuf_value(&b, v);
    }
    b.markup = markup;
    return tval_str(tbuf_take(&b));
}

FILTER(first)
{
    (void)a, (void)all;
    if (self.kind == T_ITER && self.u.iter->at < self.u.iter->items->n)
        return self.u.iter->items->v[self.u.iter->at++];
    const tlist *items = tval_items(r, self);
    return items->n ? items->v[0] : tval_undefined(r, "No first item, sequence was empty.");
}

static void want_reversible(trt *r, tval v)
{
    if (!tval_has_length(v)) trt_fail(r, "'%s' object is not reversible", tval_type(v));
}
FILTER(last)
{
    (void)a, (void)all;
    want_reversible(r, self);
    const tlist *items = tval_items(r, self);
    return items->n ? items->v[items->n - 1]
                    : tval_undefined(r, "No last item, sequence was empty.");
}

FILTER(list)
{
    (void)a, (void)all;
    return tval_list(tval_items(r, self));
}

FILTER(reverse)
{
    (void)a, (void)all;
    if (self.kind == T_STRING)
        return tval_slice(r, self, tval_missing(), tval_missing(), tval_int(-1));
    const tlist *items = tval_items(r, self);
    tlist *l = tlist_new(r, items->n);
    for (size_t i = items->n; i-- > 0;) tlist_push(r, l, items->v[i]);
    return self.kind == T_ITER ? tval_list(l) : tval_iterator(r, l, "list_reverseiterator");
}

FILTER(items)
{
    (void)a, (void)all;
    if (self.kind == T_UNDEFINED) return generator(r, tlist_new(r, 0));
    if (self.kind != T_DICT) trt_fail(r, "Can only get item pairs from a mapping.");
    tview view = {VIEW_ITEMS, self.u.dict};
    return generator(r, tval_items(r, (tval){T_VIEW, {.view = &view}}));
}

FILTER(random_item)
{
    (void)a, (void)all;
    want_reversible(r, self);
    const tlist *items = tval_items(r, self);
    if (items->n == 0) return tval_undefined(r, "No random item, sequence was empty.");
    r->random = r->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return items->v[(r->random >> 33) % items->n];
}

// batch(linecount, fill_with=None)
FILTER(batch)
{
    (void)all;
    int64_t size = tval_to_int(r, a[0], "batch");
    const tlist *items = tval_items(r, self);
    tlist *out = tlist_new(r, 0), *row = NULL;
    for (size_t i = 0; i < items->n; i++) {
        if (!row || (int64_t)row->n == size) {
            row = tlist_new(r, 0);
            tlist_push(r, out, tval_list(row));
        }
        tlist_push(r, row, items->v[i]);
    }
    for (; row && given(a[1]) && (int64_t)row->n < size; trt_step(r, 1)) tlist_push(r, row, a[1]);
    return generator(r, out);
}

// slice(slices, fill_with=None)
FILTER(slice)
{
    (void)all;
    int64_t slices = tval_to_int(r, a[0], "slice");
    const tlist *items = tval_items(r, self);
    tlist *out = tlist_new(r, 0);
    if (slices == 0) trt_fail(r, "integer division or modulo by zero");
    size_t at = 0;
    for (int64_t i = 0; i < slices; i++) {
        bool longer = i < (int64_t)items->n % slices;
        size_t n = items->n / (size_t)slices + longer;
        tlist *part = tlist_new(r, n);
        trt_step(r, 1);
        for (size_t k = 0; k < n; k++) tlist_push(r, part, items->v[at++]);
        if (given(a[1]) && !longer) tlist_push(r, part, a[1]);
        tlist_push(r, out, tval_list(part));
    }
    return generator(r, out);
}

// ---- map, select ------------------------------------------------------------------------------

static targs rest(const targs *all, size_t n)
{
    return (targs){.v = all->v + n, .n = all->n - n, .named = all->named};
}

FILTER(map)
{
    (void)a;
    tlist *l = tlist_new(r, 0);
    if (!tval_true(r, self)) return generator(r, l);
    const tlist *items = tval_items(r, self);
    const tval *attribute = tdict_find(r, all->named, "attribute");
    const tval *fallback = tdict_find(r, all->named, "default");
    if (all->n == 0 && attribute) {
        for (size_t i = 0; i < all->named->n; i++)
            if (!tstr_is(all->named->v[i].key.u.str, "attribute") &&
                !tstr_is(all->named->v[i].key.u.str, "default"))
                trt_fail(r, "Unexpected keyword argument in map");
        for (size_t i = 0; i < items->n; i++)
            tlist_push(r, l,
                       tval_attr_path(r, items->v[i], *attribute,
                                      fallback && given(*fallback) ? *fallback : tval_missing()));
        return generator(r, l);
    }
    if (all->n == 0) trt_fail(r, "map requires a filter argument");
    const tstr *name = tval_want_str(r, all->v[0], "map");
    const tfunction *f = tfilter_find(name);
    if (!f) trt_fail(r, "No filter named '%.*s'.", (int)name->n, name->s);
    targs args = rest(all, 1);
    trt_enter(r);
    for (size_t i = 0; i < items->n; i++)
        tlist_push(r, l, trt_call_function(r, f, items->v[i], &args));
    trt_exit(r);
    return generator(r, l);
}

// Keeps the items for which a test (or else truth), of an attribute or of the item, is `wanted`.
static tval choose(trt *r, tval self, const targs *all, bool by_attribute, bool wanted)
{
    tlist *l = tlist_new(r, 0);
    if (!tval_true(r, self)) return generator(r, l);
    const tlist *items = tval_items(r, self);
    size_t used = by_attribute;
    if (all->n < used) trt_fail(r, "Missing parameter for attribute name");
    const ttest *test = NULL;
    if (all->n > used) {
        const tstr *name = tval_want_str(r, all->v[used], "select");
        test = ttest_find(name);
        if (!test) trt_fail(r, "No test named '%.*s'.", (int)name->n, name->s);
        used++;
    }
    targs args = rest(all, used);
    for (size_t i = 0; i < items->n; i++) {
        tval v = items->v[i];
        trt_step(r, 1);
        if (by_attribute) v = tval_attr_path(r, v, all->v[0], tval_missing());
        bool yes = test ? tval_test(r, test, v, &args) : tval_true(r, v);
        if (yes == wanted) tlist_push(r, l, items->v[i]);
    }
    return generator(r, l);
}
FILTER(select_items)
{
    (void)a;
    return choose(r, self, all, false, true);
}
FILTER(reject)
{
    (void)a;
    return choose(r, self, all, false, false);
}
FILTER(selectattr)
{
    (void)a;
    return choose(r, self, all, true, true);
}
FILTER(rejectattr)
{
    (void)a;
    return choose(r, self, all, true, false);
}

const tfunction tsequence_filters[] = {
    {"join", join, "d attribute", 0},
    {"list", list, "", 0},
    {"first", first, "", 0},
    {"last", last, "", 0},
    {"map", map, NULL, 0},
    {"select", select_items, NULL, 0},
    {"reject", reject, NULL, 0},
    {"selectattr", selectattr, NULL, 0},
    {"rejectattr", rejectattr, NULL, 0},
    {"items", items, "", 0},
    {"dictsort", dictsort, "case_sensitive by reverse", 0},
    {"sort", sort, "reverse case_sensitive attribute", 0},
    {"reverse", reverse, "", 0},
    {"unique", unique, "case_sensitive attribute", 0},
    {"groupby", groupby, "attribute default case_sensitive", 1},
    {"min", minimum, "case_sensitive attribute", 0},
    {"max", maximum, "case_sensitive attribute", 0},
    {"sum", sum, "attribute start", 0},
    {"batch", batch, "linecount fill_with", 1},
    {"slice", slice, "slices fill_with", 1},
    {"random", random_item, "", 0},
    {NULL, NULL, NULL, 0},
};
