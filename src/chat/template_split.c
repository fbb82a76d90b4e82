// The methods of str that search, replace, split and join; the others are in template_methods.c.
#include "chat/template_internal.h"

#define METHOD(name) static tval name(trt *r, tval self, const tval *a, const targs *all)

static bool given(tval v)
{
    return v.kind != T_MISSING && v.kind != T_NONE;
}

// Strings that go into a Markup string are escaped first.
static const tstr *arg_str(trt *r, tval self, tval v, const char *what)
{
    const tstr *s = tval_want_str(r, v, what);
    return self.u.str->markup ? tstr_escape(r, s) : s;
}

// ---- searching --------------------------------------------------------------------------------

// Byte bounds of s[start:end], from optional arguments in characters. False: start lies behind.
static bool window(trt *r, const tstr *s, tval start, tval end, size_t *from, size_t *to)
{
    int64_t n = (int64_t)s->n_chars, i = 0, k = n;
    if (given(start)) i = tval_to_int(r, start, "start");
    if (given(end)) k = tval_to_int(r, end, "end");
    if (i < 0) i = i < -n ? 0 : i + n;
    if (k < 0) k = k < -n ? 0 : k + n;
    if (k > n) k = n;
    if (i > k) return false;
    *from = tstr_offset(s, (size_t)i);
    *to = tstr_offset(s, (size_t)k);
    return true;
}

static int64_t find(trt *r, tval self, const tval *a, bool last)
{
    const tstr *s = self.u.str, *part = tval_want_str(r, a[0], "find");
    size_t from, to;
    if (!window(r, s, a[1], a[2], &from, &to)) return -1;
    const tstr *within = tstr_part(r, s, from, to);
    size_t hit = last ? tstr_find_last(r, within, part, within->n) : tstr_find(r, within, part, 0);
    return hit == SIZE_MAX ? -1 : (int64_t)tstr_chars(s->s, from + hit);
}
METHOD(str_find)
{
    (void)all;
    return tval_int(find(r, self, a, false));
}
METHOD(str_rfind)
{
    (void)all;
    return tval_int(find(r, self, a, true));
}
static tval index_of(trt *r, int64_t at)
{
    if (at < 0) trt_fail(r, "substring not found");
    return tval_int(at);
}
METHOD(str_index)
{
    (void)all;
    return index_of(r, find(r, self, a, false));
}
METHOD(str_rindex)
{
    (void)all;
    return index_of(r, find(r, self, a, true));
}

METHOD(str_count)
{
    (void)all;
    const tstr *s = self.u.str, *part = tval_want_str(r, a[0], "count");
    size_t from, to;
    int64_t n = 0;
    if (!window(r, s, a[1], a[2], &from, &to)) return tval_int(0);
    s = tstr_part(r, s, from, to);
    if (part->n == 0) return tval_int((int64_t)s->n_chars + 1);
    for (size_t i = 0; (i = tstr_find(r, s, part, i)) != SIZE_MAX; i += part->n) {
        trt_step(r, 1);
        n++;
    }
    return tval_int(n);
}

static bool has_affix(trt *r, tval self, const tval *a, bool front)
{
    const tstr *s = self.u.str;
    size_t from, to;
    tlist one = {.v = (tval *)(uintptr_t)&a[0], .n = 1};
    const tlist *all = a[0].kind == T_TUPLE ? a[0].u.list : &one;
    if (!window(r, s, a[1], a[2], &from, &to)) return false;
    for (size_t i = 0; i < all->n; i++) {
        const tstr *part = tval_want_str(r, all->v[i], front ? "startswith" : "endswith");
        if (part->n > to - from) continue;
        const char *at = front ? s->s + from : s->s + to - part->n;
        if (part->n == 0 || memcmp(at, part->s, part->n) == 0) return true;
    }
    return false;
}
METHOD(str_startswith)
{
    (void)all;
    return tval_bool(has_affix(r, self, a, true));
}
METHOD(str_endswith)
{
    (void)all;
    return tval_bool(has_affix(r, self, a, false));
}

METHOD(str_removeprefix)
{
    (void)all;
    const tval args[3] = {a[0], tval_missing(), tval_missing()};
    if (!has_affix(r, self, args, true)) return self;
    return tval_str(tstr_part(r, self.u.str, a[0].u.str->n, self.u.str->n));
}
METHOD(str_removesuffix)
{
    (void)all;
    const tval args[3] = {a[0], tval_missing(), tval_missing()};
    if (!has_affix(r, self, args, false)) return self;
    return tval_str(tstr_part(r, self.u.str, 0, self.u.str->n - a[0].u.str->n));
}

METHOD(str_replace)
{
    (void)all;
    int64_t count = given(a[2]) ? tval_to_int(r, a[2], "replace") : -1;
    return tval_str(tstr_replace(r, self.u.str, tval_want_str(r, a[0], "replace"),
                                 arg_str(r, self, a[1], "replace"), count));
}

// ---- splitting and joining --------------------------------------------------------------------

static void push_part(trt *r, tlist *l, const tstr *s, size_t from, size_t to)
{
    tlist_push(r, l, tval_str(tstr_part(r, s, from, to)));
}

static void reverse(tlist *l)
{
    for (size_t i = 0; i < l->n / 2; i++) {
        tval v = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = v;
    }
}

// At white space, from the left.
static void split_words(trt *r, tlist *l, const tstr *s, int64_t most)
{
    size_t i = 0, next;
    for (;;) {
        while (i < s->n && tchar_is_space(tstr_decode(s, i, &next))) i = next;
        if (i >= s->n) return;
        if (most == 0) { // the rest as it is
            push_part(r, l, s, i, s->n);
            return;
        }
        size_t start = i;
        while (i < s->n && !tchar_is_space(tstr_decode(s, i, &next))) i = next;
        push_part(r, l, s, start, i);
        most--;
    }
}

static size_t before(const tstr *s, size_t at)
{
    do at--;
    while (at > 0 && ((uint8_t)s->s[at] & 0xC0) == 0x80);
    return at;
}

// At white space, from the right; the parts come last first.
static void rsplit_words(trt *r, tlist *l, const tstr *s, int64_t most)
{
    size_t end = s->n, next;
    for (;;) {
        while (end > 0 && tchar_is_space(tstr_decode(s, before(s, end), &next)))
            end = before(s, end);
        if (end == 0) return;
        if (most == 0) {
            push_part(r, l, s, 0, end);
            return;
        }
        size_t stop = end;
        while (end > 0 && !tchar_is_space(tstr_decode(s, before(s, end), &next)))
            end = before(s, end);
        push_part(r, l, s, end, stop);
        most--;
    }
}

static tval split(trt *r, tval self, const tval *a, bool from_right)
{
    const tstr *s = self.u.str;
    int64_t most = given(a[1]) ? tval_to_int(r, a[1], "split") : -1;
    tlist *l = tlist_new(r, 0);
    trt_step(r, s->n / 16);
    if (!given(a[0])) {
        if (from_right)
            rsplit_words(r, l, s, most);
        else
            split_words(r, l, s, most);
    } else {
        const tstr *separator = tval_want_str(r, a[0], "split");
        if (separator->n == 0) trt_fail(r, "empty separator");
        size_t at = from_right ? s->n : 0, hit;
        for (; most != 0; most--) {
            hit = from_right ? tstr_find_last(r, s, separator, at) : tstr_find(r, s, separator, at);
            if (hit == SIZE_MAX) break;
            trt_step(r, 1);
            push_part(r, l, s, from_right ? hit + separator->n : at, from_right ? at : hit);
            at = from_right ? hit : hit + separator->n;
        }
        push_part(r, l, s, from_right ? 0 : at, from_right ? at : s->n);
    }
    if (from_right) reverse(l);
    return tval_list(l);
}
METHOD(str_split)
{
    (void)all;
    return split(r, self, a, false);
}
METHOD(str_rsplit)
{
    (void)all;
    return split(r, self, a, true);
}

METHOD(str_splitlines)
{
    (void)all;
    return tval_list(tstr_lines(r, self.u.str, tval_true(r, a[0])));
}

static tval partition(trt *r, tval self, const tval *a, bool last)
{
    const tstr *s = self.u.str, *separator = tval_want_str(r, a[0], "partition");
    if (separator->n == 0) trt_fail(r, "empty separator");
    size_t hit = last ? tstr_find_last(r, s, separator, s->n) : tstr_find(r, s, separator, 0);
    tlist *l = tlist_new(r, 3);
    if (hit == SIZE_MAX) {
        if (!last) tlist_push(r, l, self);
        push_part(r, l, s, 0, 0);
        push_part(r, l, s, 0, 0);
        if (last) tlist_push(r, l, self);
    } else {
        push_part(r, l, s, 0, hit);
        push_part(r, l, s, hit, hit + separator->n);
        push_part(r, l, s, hit + separator->n, s->n);
    }
    return tval_tuple(l);
}
METHOD(str_partition)
{
    (void)all;
    return partition(r, self, a, false);
}
METHOD(str_rpartition)
{
    (void)all;
    return partition(r, self, a, true);
}

METHOD(str_join)
{
    (void)all;
    if (!tval_is_iterable(a[0])) trt_fail(r, "can only join an iterable");
    const tlist *items = tval_items(r, a[0]);
    tbuf b;
    tbuf_start(&b, r);
    b.markup = self.u.str->markup;
    for (size_t i = 0; i < items->n; i++) {
        const tstr *item = b.markup ? tval_to_str(r, items->v[i]) : NULL;
        if (!item && items->v[i].kind != T_STRING)
            trt_fail(r, "sequence item %zu: expected str instance, %s found", i,
                     tval_type(items->v[i]));
        if (i) tbuf_str(&b, self.u.str);
        tbuf_str(&b, item ? tstr_escape(r, item) : items->v[i].u.str);
    }
    return tval_str(tbuf_take(&b));
}

// ---- the table --------------------------------------------------------------------------------

const tfunction tsplit_methods[] = {
    {"split", str_split, "sep maxsplit", 0},
    {"rsplit", str_rsplit, "sep maxsplit", 0},
    {"splitlines", str_splitlines, "keepends", 0},
    {"replace", str_replace, "old new count", 2},
    {"startswith", str_startswith, "prefix start end", 1},
    {"endswith", str_endswith, "suffix start end", 1},
    {"join", str_join, "iterable", 1},
    {"find", str_find, "sub start end", 1},
    {"rfind", str_rfind, "sub start end", 1},
    {"index", str_index, "sub start end", 1},
    {"rindex", str_rindex, "sub start end", 1},
    {"count", str_count, "sub start end", 1},
    {"removeprefix", str_removeprefix, "prefix", 1},
    {"removesuffix", str_removesuffix, "suffix", 1},
    {"partition", str_partition, "sep", 1},
    {"rpartition", str_rpartition, "sep", 1},
    {NULL, NULL, NULL, 0},
};
