// Statements: text, loops, macros, scopes.
#include <stdio.h>
#include <stdlib.h>

#include "chat/template_internal.h"

typedef enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } flow;

static flow run(trt *r, tnode *const *body, size_t n);

// ---- scopes and captured text -----------------------------------------------------------------

// Empties the scope, but for the names that its node hides.
static void clear_scope(trt *r, tscope *s, const tnode *n)
{
    s->n = 0;
    if (n->n_hidden > s->cap) {
        s->vars = trt_array(r, n->n_hidden + 4, sizeof *s->vars);
        s->cap = n->n_hidden + 4;
    }
    for (uint32_t i = 0; i < n->n_hidden; i++)
        s->vars[s->n++] = (tvar){n->hidden[i], tval_missing()};
}

static tscope *new_scope(trt *r, tscope *parent, const tnode *n)
{
    tscope *s = trt_alloc(r, sizeof *s);
    s->parent = parent;
    clear_scope(r, s, n);
    return s;
}

static flow run_in_scope(trt *r, tscope *parent, const tnode *n)
{
    tscope *outer = r->scope;
    r->scope = new_scope(r, parent, n);
    flow f = run(r, n->kids, n->n);
    r->scope = outer;
    return f;
}

// What the body prints, as a value.
static flow capture(trt *r, tscope *scope, const tnode *n, tval *value)
{
    tbuf text, *out = r->out;
    tscope *outer = r->scope;
    tbuf_start(&text, r);
    r->out = &text;
    r->scope = scope;
    flow f = run(r, n->kids, n->n);
    r->scope = outer;
    r->out = out;
    text.markup = r->autoescape;
    *value = tval_str(tbuf_take(&text));
    return f;
}

void trt_emit(trt *r, tval v)
{
    if (r->autoescape)
        tbuf_str(r->out, tstr_escape(r, tval_to_str(r, v)));
    else
        tbuf_value(r->out, v);
}

// ---- assignment -------------------------------------------------------------------------------

static void assign(trt *r, const tnode *target, tval v);

static void unpack(trt *r, const tnode *target, tval v)
{
    if (!tval_is_iterable(v)) trt_fail(r, "cannot unpack non-iterable %s object", tval_type(v));
    const tlist *items = tval_items(r, v);
    if (items->n > target->n) trt_fail(r, "too many values to unpack (expected %zu)", target->n);
    if (items->n < target->n)
        trt_fail(r, "not enough values to unpack (expected %zu, got %zu)", target->n, items->n);
    for (size_t i = 0; i < target->n; i++) assign(r, target->kids[i], items->v[i]);
}

static void assign(trt *r, const tnode *target, tval v)
{
    if (target->type == E_NAME) {
        trt_set(r, target->sym, v);
    } else if (target->type == E_NSREF) {
        tval ns = trt_get(r, target->sym);
        if (ns.kind != T_NAMESPACE) trt_fail(r, "cannot assign attribute on non-namespace object");
        tdict_set(r, ns.u.dict, target->value, v);
    } else {
        unpack(r, target, v);
    }
}

// ---- loops ------------------------------------------------------------------------------------

// The items that pass the loop's condition.
static tlist *filtered(trt *r, const tnode *n, tscope *outer, tval iterable)
{
    const tlist *all = tval_items(r, iterable);
    tlist *kept = tlist_new(r, 0);
    tscope *before = r->scope;
    r->scope = new_scope(r, outer, n);
    for (size_t i = 0; i < all->n; i++) {
        assign(r, n->a, all->v[i]);
        if (!tval_true(r, trt_eval(r, n->c))) continue;
        // What was unpacked is a tuple from here on (loop.nextitem shows it).
        bool unpacked = n->a->type == E_TUPLE && all->v[i].kind != T_TUPLE;
        tlist_push(r, kept, unpacked ? tval_tuple(tval_items(r, all->v[i])) : all->v[i]);
    }
    r->scope = before;
    return kept;
}

static tval item_at(const tloop *loop, size_t i)
{
    if (loop->items) return loop->items[i];
    if (!loop->range) return tval_missing();
    return tval_int(loop->range->start + (int64_t)i * loop->range->step);
}

static flow run_loop(trt *r, const tnode *n, tval iterable, tscope *outer, int64_t depth0)
{
    tloop *loop = trt_alloc(r, sizeof *loop);
    *loop = (tloop){.node = n, .outer = outer, .depth0 = depth0, .changed = tval_missing()};
    if (iterable.kind == T_RANGE && !n->c) {
        loop->range = iterable.u.range;
        loop->n = loop->range->n;
    } else {
        const tlist *l = n->c ? filtered(r, n, outer, iterable) : tval_items(r, iterable);
        loop->items = l->v;
        loop->n = l->n;
    }
    tscope *before = r->scope, *scope = new_scope(r, outer, n);
    flow f = FLOW_NEXT;
    bool completed = false; // a turn that break or continue cut does not count, as in Jinja
    for (; loop->at < loop->n && f != FLOW_BREAK; loop->at++) {
        if (scope->captured) scope = new_scope(r, outer, n);
        clear_scope(r, scope, n);
        r->scope = scope;
        assign(r, n->a, item_at(loop, loop->at));
        trt_set(r, SYM_LOOP, (tval){T_LOOP, {.loop = loop}});
        trt_step(r, 1);
        f = run(r, n->kids, n->n);
        completed |= f == FLOW_NEXT;
    }
    r->scope = before;
    if (!completed && n->other) return run_in_scope(r, outer, n->other);
    return FLOW_NEXT;
}

tval trt_call_loop(trt *r, tloop *loop, const targs *args)
{
    if (!loop->node->flag)
        trt_fail(r, "The loop must have the 'recursive' marker to be called recursively.");
    if (args->n != 1) trt_fail(r, "loop() takes one argument");
    tbuf text, *out = r->out;
    tbuf_start(&text, r);
    r->out = &text;
    run_loop(r, loop->node, args->v[0], loop->outer, loop->depth0 + 1);
    r->out = out;
    text.markup = r->autoescape;
    return tval_str(tbuf_take(&text));
}

// loop.cycle(...) and loop.changed(...)
static tval loop_cycle(trt *r, tval self, const tval *a, const targs *all)
{
    (void)a;
    if (all->n == 0) trt_fail(r, "no items for cycling given");
    return all->v[self.u.loop->at % all->n];
}

static tval loop_changed(trt *r, tval self, const tval *a, const targs *all)
{
    (void)a;
    tlist *l = tlist_new(r, all->n);
    for (size_t i = 0; i < all->n; i++) tlist_push(r, l, all->v[i]);
    tval now = tval_tuple(l);
    bool changed = !tval_equal(r, self.u.loop->changed, now);
    self.u.loop->changed = now;
    return tval_bool(changed);
}

tval tloop_attr(trt *r, tloop *loop, const tstr *name)
{
    static const tfunction methods[] = {{"cycle", loop_cycle, NULL, 0},
                                        {"changed", loop_changed, NULL, 0}};
    int64_t at = (int64_t)loop->at, n = (int64_t)loop->n;
    if (tstr_is(name, "index")) return tval_int(at + 1);
    if (tstr_is(name, "index0")) return tval_int(at);
    if (tstr_is(name, "first")) return tval_bool(at == 0);
    if (tstr_is(name, "last")) return tval_bool(at + 1 >= n);
    if (tstr_is(name, "length")) return tval_int(n);
    if (tstr_is(name, "revindex")) return tval_int(n - at);
    if (tstr_is(name, "revindex0")) return tval_int(n - at - 1);
    if (tstr_is(name, "depth")) return tval_int(loop->depth0 + 1);
    if (tstr_is(name, "depth0")) return tval_int(loop->depth0);
    if (tstr_is(name, "previtem"))
        return at > 0 ? item_at(loop, loop->at - 1)
                      : tval_undefined(r, "there is no previous item");
    if (tstr_is(name, "nextitem"))
        return at + 1 < n ? item_at(loop, loop->at + 1)
                          : tval_undefined(r, "there is no next item");
    for (size_t i = 0; i < 2; i++) {
        if (!tstr_is(name, methods[i].name)) continue;
        tmethod *m = trt_alloc(r, sizeof *m);
        *m = (tmethod){{T_LOOP, {.loop = loop}}, &methods[i]};
        return (tval){T_METHOD, {.method = m}};
    }
    return tval_missing();
}

// ---- macros -----------------------------------------------------------------------------------

static tval new_macro(trt *r, const tnode *n)
{
    tmacro *m = trt_alloc(r, sizeof *m);
    *m = (tmacro){n, r->scope};
    for (tscope *s = r->scope; s && !s->captured; s = s->parent) s->captured = true;
    return (tval){T_MACRO, {.macro = m}};
}

static const char *macro_name(trt *r, const tsignature *s)
{
    tbuf b;
    tbuf_start(&b, r);
    tbuf_repr(&b, s->name);
    tbuf_bytes(&b, "", 1, false); // a C string
    return tbuf_take(&b)->s;
}

// A parameter that was not given: its default, evaluated here and now, or undefined.
static tval default_of(trt *r, const tsignature *s, size_t i)
{
    size_t first = s->n_params - s->n_defaults;
    if (i >= first) return trt_eval(r, s->defaults[i - first]);
    tbuf b;
    tbuf_start(&b, r);
    tbuf_text(&b, "parameter ");
    tbuf_repr(&b, r->t->names[s->params[i]]);
    tbuf_text(&b, " was not provided");
    tbuf_bytes(&b, "", 1, false); // a C string
    return tval_undefined(r, tbuf_take(&b)->s);
}

// Binds the arguments in the macro's fresh scope, as Jinja does: named ones that fit no parameter
// and surplus positional ones only where the body mentions kwargs and varargs.
static void bind_macro(trt *r, const tsignature *s, const targs *args)
{
    size_t n_named = args->named ? args->named->n : 0;
    tdict *rest = tdict_new(r, n_named);
    for (size_t i = 0; i < n_named; i++)
        tdict_set(r, rest, args->named->v[i].key, args->named->v[i].value);
    size_t used = 0;
    for (size_t i = 0; i < s->n_params; i++) {
        const tval *named = tdict_get(r, rest, r->t->names[s->params[i]]);
        if (i >= args->n && named) used++;
        trt_set(r, s->params[i], i < args->n ? args->v[i] : named ? *named : default_of(r, s, i));
    }
    const tval *caller = tdict_find(r, rest, "caller");
    if (s->uses_caller) {
        if (caller) used++;
        trt_set(r, SYM_CALLER, caller ? *caller : tval_undefined(r, "No caller defined"));
    }
    if (s->uses_kwargs || used < n_named) {
        tdict *unused = tdict_new(r, 0);
        for (size_t i = 0; i < n_named; i++) {
            bool taken = s->uses_caller && tstr_is(rest->v[i].key.u.str, "caller");
            for (size_t k = args->n; k < s->n_params; k++)
                taken |= tval_same(r->t->names[s->params[k]], rest->v[i].key);
            if (!taken) tdict_set(r, unused, rest->v[i].key, rest->v[i].value);
        }
        if (s->uses_kwargs)
            trt_set(r, SYM_KWARGS, tval_dict(unused));
        else if (unused->n)
            trt_fail(r, "macro %s takes no keyword argument '%.*s'", macro_name(r, s),
                     (int)unused->v[0].key.u.str->n, unused->v[0].key.u.str->s);
    }
    if (s->uses_varargs) {
        tlist *more = tlist_new(r, 0);
        for (size_t i = s->n_params; i < args->n; i++) tlist_push(r, more, args->v[i]);
        trt_set(r, SYM_VARARGS, tval_tuple(more));
    } else if (args->n > s->n_params) {
        trt_fail(r, "macro %s takes not more than %zu argument(s)", macro_name(r, s), s->n_params);
    }
}

tval trt_call_macro(trt *r, const tmacro *m, const targs *args)
{
    if (++r->macro_depth > TRT_MAX_MACROS) trt_fail_depth(r);
    tscope *outer = r->scope, *scope = new_scope(r, m->scope, m->node);
    r->scope = scope;
    bind_macro(r, m->node->macro, args);
    r->scope = outer;
    tval v;
    capture(r, scope, m->node, &v);
    r->macro_depth--;
    return v;
}

static void run_call_block(trt *r, const tnode *n)
{
    // The call's own node with one argument more: the block, as `caller`.
    const tnode *call = n->a;
    size_t n_named = call->args->n_named;
    tnode caller = {.type = E_CONST, .value = new_macro(r, n)};
    tnode_args args = *call->args;
    args.names = trt_array(r, n_named + 1, sizeof *args.names);
    args.named = trt_array(r, n_named + 1, sizeof *args.named);
    for (size_t i = 0; i < n_named; i++) {
        args.names[i] = call->args->names[i];
        args.named[i] = call->args->named[i];
    }
    args.names[n_named] = r->t->names[SYM_CALLER];
    args.named[n_named] = &caller;
    args.n_named++;
    tnode with_caller = *call;
    with_caller.args = &args;
    trt_emit(r, trt_eval(r, &with_caller));
}

// ---- the other statements ---------------------------------------------------------------------

static flow run_if(trt *r, const tnode *n)
{
    for (size_t i = 0; i < n->n; i++) {
        const tnode *branch = n->kids[i];
        r->line = branch->line;
        if (!branch->a || tval_true(r, trt_eval(r, branch->a)))
            return run(r, branch->kids, branch->n);
    }
    return FLOW_NEXT;
}

static flow run_with(trt *r, const tnode *n)
{
    tscope *outer = r->scope, *scope = new_scope(r, outer, n);
    for (size_t i = 0; i < n->a->n; i++) {
        tval v = trt_eval(r, n->b->kids[i]);
        r->scope = scope;
        assign(r, n->a->kids[i], v);
        r->scope = outer;
    }
    r->scope = scope;
    if (n->macro) bind_macro(r, n->macro, &(targs){0}); // a generation block
    flow f = run(r, n->kids, n->n);
    r->scope = outer;
    return f;
}

static flow run_escape(trt *r, const tnode *n)
{
    bool before = r->autoescape;
    r->autoescape = tval_true(r, trt_eval(r, n->a));
    flow f = run_in_scope(r, r->scope, n);
    r->autoescape = before;
    return f;
}

// Blocks see the outermost scope only, unless `scoped`.
static tscope *block_parent(trt *r, const tnode *n)
{
    tscope *s = r->scope;
    while (s->parent && !n->flag) s = s->parent;
    return s;
}

tval trt_call_block(trt *r, const tnode *block)
{
    if (++r->macro_depth > TRT_MAX_MACROS) trt_fail_depth(r);
    tval v;
    capture(r, new_scope(r, block_parent(r, block), block), block, &v);
    r->macro_depth--;
    return v;
}

// set and filter blocks; what a break leaves behind is dropped.
static flow run_captured(trt *r, const tnode *n)
{
    tval text;
    flow f = capture(r, new_scope(r, r->scope, n), n, &text);
    if (f != FLOW_NEXT) return f;
    r->input = text;
    text = trt_eval(r, n->b);
    if (n->type == S_SETBLOCK) {
        assign(r, n->a, text);
        return FLOW_NEXT;
    }
    // Jinja joins what a filter block gives with the text around it, as it is.
    if (text.kind != T_STRING) trt_fail(r, "expected str instance, %s found", tval_type(text));
    tbuf_str(r->out, text.u.str);
    return FLOW_NEXT;
}

static flow run_one(trt *r, const tnode *n)
{
    switch (n->type) {
    case S_DATA: tbuf_str(r->out, n->value.u.str); break;
    case S_OUTPUT: trt_emit(r, trt_eval(r, n->a)); break;
    case S_IF: return run_if(r, n);
    case S_FOR: return run_loop(r, n, trt_eval(r, n->b), r->scope, 0);
    case S_SET: assign(r, n->a, trt_eval(r, n->b)); break;
    case S_SETBLOCK:
    case S_FILTER: return run_captured(r, n);
    case S_MACRO: trt_set(r, n->sym, new_macro(r, n)); break;
    case S_CALL: run_call_block(r, n); break;
    case S_WITH: return run_with(r, n);
    case S_ESCAPE: return run_escape(r, n);
    case S_BLOCK: run_in_scope(r, block_parent(r, n), n); break;
    case S_BRANCH: return run(r, n->kids, n->n);
    case S_BREAK: return FLOW_BREAK;
    case S_CONTINUE: return FLOW_CONTINUE;
    default: break; // expressions are no statements
    }
    return FLOW_NEXT;
}

static flow run(trt *r, tnode *const *body, size_t n)
{
    trt_enter(r);
    flow f = FLOW_NEXT;
    for (size_t i = 0; i < n && f == FLOW_NEXT; i++) {
        trt_step(r, 1);
        r->line = body[i]->line;
        f = run_one(r, body[i]);
    }
    trt_exit(r);
    return f;
}

void trt_run(trt *r, tnode *const *body, size_t n)
{
    run(r, body, n);
}
