// Expressions and calls.
#include <stdio.h>
#include <stdlib.h>

#include "chat/template_internal.h"

// ---- names ------------------------------------------------------------------------------------

tval trt_get(trt *r, uint32_t sym)
{
    for (const tscope *s = r->scope; s->parent; s = s->parent)
        for (uint32_t i = s->n; i-- > 0;)
            if (s->vars[i].sym == sym) return s->vars[i].value;
    return r->globals[sym];
}

void trt_set(trt *r, uint32_t sym, tval v)
{
    tscope *s = r->scope;
    if (!s->parent) {
        r->globals[sym] = v;
        return;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->vars[i].sym != sym) continue;
        s->vars[i].value = v;
        return;
    }
    if (s->n == s->cap) {
        uint32_t cap = s->cap ? 2 * s->cap : 4;
        s->vars = trt_grow(r, s->vars, s->n * sizeof *s->vars, cap * sizeof *s->vars);
        s->cap = cap;
    }
    s->vars[s->n++] = (tvar){sym, v};
}

// ---- calls ------------------------------------------------------------------------------------

enum { MAX_PARAMS = 8 };

// Puts the arguments where the function's parameter names say.
static void bind(trt *r, const tfunction *f, const targs *args, tval *out)
{
    size_t n_params = 0, n_named = 0;
    for (const char *p = f->params; *p; n_params++) {
        size_t n = strcspn(p, " ");
        out[n_params] = n_params < args->n ? args->v[n_params] : tval_missing();
        for (size_t i = 0; args->named && i < args->named->n; i++) {
            const tstr *name = args->named->v[i].key.u.str;
            if (name->n != n || memcmp(name->s, p, n) != 0) continue;
            if (n_params < args->n)
                trt_fail(r, "%s() got multiple values for argument '%.*s'", f->name, (int)n, p);
            out[n_params] = args->named->v[i].value;
            n_named++;
        }
        if (out[n_params].kind == T_MISSING && (int)n_params < f->required)
            trt_fail(r, "%s() missing required argument '%.*s'", f->name, (int)n, p);
        p += n;
        while (*p == ' ') p++;
    }
    if (args->n > n_params)
        trt_fail(r, "%s() takes at most %zu arguments (%zu given)", f->name, n_params, args->n);
    if (args->named && n_named < args->named->n)
        trt_fail(r, "%s() got an unexpected keyword argument", f->name);
}

tval trt_call_function(trt *r, const tfunction *f, tval self, const targs *args)
{
    tval a[MAX_PARAMS];
    trt_step(r, 1);
    if (f->params) bind(r, f, args, a);
    return f->call(r, self, a, args);
}

tval trt_call(trt *r, tval callee, const targs *args)
{
    trt_enter(r);
    tval v;
    switch (callee.kind) {
    case T_FUNCTION: v = trt_call_function(r, callee.u.function, tval_none(), args); break;
    case T_METHOD:
        v = trt_call_function(r, callee.u.method->function, callee.u.method->self, args);
        break;
    case T_MACRO: v = trt_call_macro(r, callee.u.macro, args); break;
    case T_LOOP: v = trt_call_loop(r, callee.u.loop, args); break;
    case T_BLOCK: v = trt_call_block(r, callee.u.block); break;
    case T_JOINER:
        v = callee.u.joiner->used ? callee.u.joiner->separator : tval_c(r, "");
        callee.u.joiner->used = true;
        break;
    case T_UNDEFINED: tval_fail_undefined(r, callee);
    default: trt_fail(r, "'%s' object is not callable", tval_type(callee));
    }
    trt_exit(r);
    return v;
}

static targs eval_args(trt *r, const tnode_args *a)
{
    targs out = {0};
    if (!a) return out;
    tlist *l = tlist_new(r, a->n);
    for (size_t i = 0; i < a->n; i++) tlist_push(r, l, trt_eval(r, a->v[i]));
    if (a->star) {
        const tlist *more = tval_items(r, trt_eval(r, a->star));
        for (size_t i = 0; i < more->n; i++) tlist_push(r, l, more->v[i]);
    }
    if (a->n_named || a->star_star) out.named = tdict_new(r, a->n_named);
    for (size_t i = 0; i < a->n_named; i++) {
        if (tdict_get(r, out.named, a->names[i])) trt_fail(r, "keyword argument repeated");
        tdict_set(r, out.named, a->names[i], trt_eval(r, a->named[i]));
    }
    if (a->star_star) {
        tval more = trt_eval(r, a->star_star);
        if (more.kind != T_DICT) trt_fail(r, "argument after ** must be a mapping");
        for (size_t i = 0; i < more.u.dict->n; i++) {
            if (more.u.dict->v[i].key.kind != T_STRING) trt_fail(r, "keywords must be strings");
            tdict_set(r, out.named, more.u.dict->v[i].key, more.u.dict->v[i].value);
        }
    }
    out.v = l->v;
    out.n = l->n;
    return out;
}

static tval eval_call(trt *r, const tnode *n)
{
    tval callee = trt_eval(r, n->a);
    targs args = eval_args(r, n->args);
    r->line = n->line;
    return trt_call(r, callee, &args);
}

static tval eval_filter(trt *r, const tnode *n)
{
    tval input = trt_eval(r, n->a);
    targs args = eval_args(r, n->args);
    r->line = n->line;
    if (!n->filter)
        trt_fail(r, "No filter named '%.*s' found.", (int)n->value.u.str->n, n->value.u.str->s);
    return trt_call_function(r, n->filter, input, &args);
}

static tval eval_test(trt *r, const tnode *n)
{
    tval v = trt_eval(r, n->a);
    targs args = eval_args(r, n->args);
    r->line = n->line;
    if (!n->test)
        trt_fail(r, "No test named '%.*s' found.", (int)n->value.u.str->n, n->value.u.str->s);
    return tval_bool(tval_test(r, n->test, v, &args));
}

// ---- the other expressions --------------------------------------------------------------------

static tval eval_items(trt *r, const tnode *n)
{
    tlist *l = tlist_new(r, n->n);
    for (size_t i = 0; i < n->n; i++) tlist_push(r, l, trt_eval(r, n->kids[i]));
    return n->type == E_LIST ? tval_list(l) : tval_tuple(l);
}

static tval eval_dict(trt *r, const tnode *n)
{
    tdict *d = tdict_new(r, n->n / 2);
    for (size_t i = 0; i + 1 < n->n; i += 2) {
        tval key = trt_eval(r, n->kids[i]);
        tdict_set(r, d, key, trt_eval(r, n->kids[i + 1]));
    }
    return tval_dict(d);
}

static tval eval_slice(trt *r, const tnode *n)
{
    tval object = trt_eval(r, n->a), bound[3];
    const tnode *const parts[] = {n->b->a, n->b->b, n->b->c};
    for (int i = 0; i < 3; i++) bound[i] = parts[i] ? trt_eval(r, parts[i]) : tval_missing();
    r->line = n->line;
    return tval_slice(r, object, bound[0], bound[1], bound[2]);
}

static tval eval_concat(trt *r, const tnode *n)
{
    const tlist *parts = eval_items(r, n).u.list;
    tbuf b;
    tbuf_start(&b, r);
    for (size_t i = 0; r->autoescape && i < parts->n; i++)
        b.markup |= parts->v[i].kind == T_STRING && parts->v[i].u.str->markup;
    for (size_t i = 0; i < parts->n; i++) {
        if (b.markup)
            tbuf_str(&b, tstr_escape(r, tval_to_str(r, parts->v[i])));
        else
            tbuf_value(&b, parts->v[i]);
    }
    return tval_str(tbuf_take(&b));
}

static tval eval_compare(trt *r, const tnode *n)
{
    tval left = trt_eval(r, n->a);
    for (size_t i = 0; i < n->n; i++) {
        tval right = trt_eval(r, n->kids[i]->a);
        r->line = n->line;
        if (!tval_compare(r, n->kids[i]->op, left, right)) return tval_bool(false);
        left = right;
    }
    return tval_bool(true);
}

static tval eval_cond(trt *r, const tnode *n)
{
    if (tval_true(r, trt_eval(r, n->a))) return trt_eval(r, n->b);
    if (n->c) return trt_eval(r, n->c);
    return tval_undefined(r, "the inline if-expression evaluated to false and no else section was "
                             "defined.");
}

static tval eval_name(trt *r, const tnode *n)
{
    tval v = trt_get(r, n->sym);
    return v.kind == T_MISSING ? tval_undefined_name(r, r->t->names[n->sym]) : v;
}

static tval eval_attr(trt *r, const tnode *n)
{
    tval object = trt_eval(r, n->a);
    r->line = n->line;
    return tval_attr(r, object, n->value);
}

static tval eval_two(trt *r, const tnode *n)
{
    tval a = trt_eval(r, n->a), b = trt_eval(r, n->b);
    r->line = n->line;
    return n->type == E_GETITEM ? tval_item(r, a, b) : tval_binary(r, n->op, a, b);
}

static tval eval_sign(trt *r, const tnode *n)
{
    tval v = trt_eval(r, n->a);
    if (v.kind == T_UNDEFINED) tval_fail_undefined(r, v);
    if (n->type == E_NEG) return tval_negate(r, v);
    if (!tval_is_number(v)) trt_fail(r, "bad operand type for unary +: '%s'", tval_type(v));
    return v.kind == T_BOOL ? tval_int(v.u.b) : v;
}

tval trt_eval(trt *r, const tnode *n)
{
    trt_step(r, 1);
    trt_enter(r);
    tval v = tval_none();
    switch (n->type) {
    case E_CONST: v = n->value; break;
    case E_NAME: v = eval_name(r, n); break;
    case E_LIST:
    case E_TUPLE: v = eval_items(r, n); break;
    case E_DICT: v = eval_dict(r, n); break;
    case E_GETATTR: v = eval_attr(r, n); break;
    case E_GETITEM:
    case E_BINARY: v = eval_two(r, n); break;
    case E_SLICE: v = eval_slice(r, n); break;
    case E_CALL: v = eval_call(r, n); break;
    case E_FILTER: v = eval_filter(r, n); break;
    case E_TEST: v = eval_test(r, n); break;
    case E_INPUT: v = r->input; break;
    case E_NOT: v = tval_bool(!tval_true(r, trt_eval(r, n->a))); break;
    case E_NEG:
    case E_POS: v = eval_sign(r, n); break;
    case E_AND:
        v = trt_eval(r, n->a);
        if (tval_true(r, v)) v = trt_eval(r, n->b);
        break;
    case E_OR:
        v = trt_eval(r, n->a);
        if (!tval_true(r, v)) v = trt_eval(r, n->b);
        break;
    case E_COND: v = eval_cond(r, n); break;
    case E_CONCAT: v = eval_concat(r, n); break;
    case E_COMPARE: v = eval_compare(r, n); break;
    default: break; // no expression: parts of one, and statements
    }
    trt_exit(r);
    return v;
}
