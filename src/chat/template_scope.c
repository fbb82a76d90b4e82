// Which names a scope hides before it sets them. Jinja decides for each scope, when it compiles a
// template, what a name means in it: a name that the scope sets, and neither reads nor sets in only
// one branch of an if before that, is undefined in scopes inside until then, even where the
// template was given a variable of that name:
//     {% for x in y %}{{ a }}{% endfor %}{% set a = 1 %}      prints nothing
// This pass over the finished tree finds those names, for each node with a scope.
#include "chat/template_internal.h"

typedef struct frame {
    trt *r;
    const struct frame *parent; // NULL: a name not found here is looked up among the variables
    tdict *refs;                // by symbol: is it hidden?
    tdict *stores;
} frame;

static void walk(frame *f, tnode *n);
static void walk_kids(frame *f, const tnode *n);

static bool known(const frame *f, uint32_t sym)
{
    for (; f; f = f->parent)
        if (tdict_get(f->r, f->refs, tval_int(sym))) return true;
    return false;
}

static void load(frame *f, uint32_t sym)
{
    if (!known(f, sym)) tdict_set(f->r, f->refs, tval_int(sym), tval_bool(false));
}

static void declare(frame *f, uint32_t sym)
{
    tdict_set(f->r, f->refs, tval_int(sym), tval_bool(false));
}

static void store(frame *f, uint32_t sym)
{
    if (!tdict_get(f->r, f->refs, tval_int(sym)))
        tdict_set(f->r, f->refs, tval_int(sym), tval_bool(!known(f->parent, sym)));
    tdict_set(f->r, f->stores, tval_int(sym), tval_none());
}

static void targets(frame *f, const tnode *n, bool as_parameter)
{
    if (n->type == E_NSREF)
        load(f, n->sym);
    else if (n->type == E_NAME && as_parameter)
        declare(f, n->sym);
    else if (n->type == E_NAME)
        store(f, n->sym);
    for (size_t i = 0; i < n->n; i++) targets(f, n->kids[i], as_parameter);
}

static frame inner(const frame *parent, trt *r)
{
    return (frame){r, parent, tdict_new(r, 0), tdict_new(r, 0)};
}

// The frame is complete: its node takes the hidden names.
static void finish(const frame *f, tnode *n)
{
    n->hidden = trt_array(f->r, f->refs->n, sizeof *n->hidden);
    for (size_t i = 0; i < f->refs->n; i++)
        if (f->refs->v[i].value.u.b) n->hidden[n->n_hidden++] = (uint32_t)f->refs->v[i].key.u.i;
}

// ---- the scopes inside ------------------------------------------------------------------------
// They are looked at when the scope around them is complete: what it sets later counts too.

static void inside(const frame *f, tnode *n);

static void inside_kids(const frame *f, const tnode *n)
{
    for (size_t i = 0; i < n->n; i++) inside(f, n->kids[i]);
}

static void signature(frame *f, const tsignature *m)
{
    for (size_t i = 0; i < m->n_params; i++) declare(f, m->params[i]);
    for (size_t i = 0; i < m->n_defaults; i++) walk(f, m->defaults[i]);
    if (m->uses_caller) declare(f, SYM_CALLER);
    if (m->uses_kwargs) declare(f, SYM_KWARGS);
    if (m->uses_varargs) declare(f, SYM_VARARGS);
}

static void inside(const frame *f, tnode *n)
{
    trt *r = f->r;
    frame own = inner(n->type == S_BLOCK && !n->flag ? NULL : f, r);
    switch (n->type) {
    case S_IF:
    case S_BRANCH: inside_kids(f, n); return;
    case S_FOR:
        targets(&own, n->a, true);
        declare(&own, SYM_LOOP);
        if (n->other) {
            frame other = inner(f, r);
            walk_kids(&other, n->other);
            finish(&other, n->other);
            inside_kids(&other, n->other);
        }
        break;
    case S_SETBLOCK: targets(&own, n->a, false); break;
    case S_MACRO:
    case S_CALL: signature(&own, n->macro); break;
    case S_WITH:
        targets(&own, n->a, true);
        if (n->macro) signature(&own, n->macro);
        break;
    case S_FILTER:
    case S_ESCAPE:
    case S_BLOCK: break;
    default: return; // no scope, none inside
    }
    walk_kids(&own, n);
    finish(&own, n);
    inside_kids(&own, n);
}

// ---- one scope, in order of the source --------------------------------------------------------

static void walk_args(frame *f, const tnode_args *a)
{
    if (!a) return;
    for (size_t i = 0; i < a->n; i++) walk(f, a->v[i]);
    for (size_t i = 0; i < a->n_named; i++) walk(f, a->named[i]);
    if (a->star) walk(f, a->star);
    if (a->star_star) walk(f, a->star_star);
}

static void walk_kids(frame *f, const tnode *n)
{
    for (size_t i = 0; i < n->n; i++) walk(f, n->kids[i]);
}

// What only some branches set keeps the meaning that it had outside.
static void walk_if(frame *f, const tnode *n)
{
    tdict *before = f->stores;
    f->stores = tdict_new(f->r, 0);
    for (size_t i = 0; i < n->n; i++) {
        if (n->kids[i]->a) walk(f, n->kids[i]->a);
        walk_kids(f, n->kids[i]);
    }
    tdict *here = f->stores;
    f->stores = before;
    for (size_t i = 0; i < here->n; i++) {
        if (!tdict_get(f->r, before, here->v[i].key)) declare(f, (uint32_t)here->v[i].key.u.i);
        tdict_set(f->r, before, here->v[i].key, tval_none());
    }
}

static void walk(frame *f, tnode *n)
{
    switch (n->type) {
    case E_NAME: load(f, n->sym); return;
    case S_IF: walk_if(f, n); return;
    case S_FOR: walk(f, n->b); return;
    case S_SET:
        walk(f, n->b);
        targets(f, n->a, false);
        return;
    case S_SETBLOCK: targets(f, n->a, false); return;
    case S_MACRO: store(f, n->sym); return;
    case S_CALL: walk(f, n->a); return;
    case S_FILTER: walk(f, n->b); return;
    case S_WITH: walk(f, n->b); return;
    case S_ESCAPE:
    case S_BLOCK: return;
    default: break;
    }
    if (n->a) walk(f, n->a);
    if (n->b) walk(f, n->b);
    if (n->c) walk(f, n->c);
    walk_args(f, n->args);
    walk_kids(f, n);
}

void tscope_analyse(trt *r, tnode *body)
{
    frame root = inner(NULL, r);
    walk_kids(&root, body);
    finish(&root, body);
    inside_kids(&root, body);
}
