// Tokens to nodes: expressions, by recursive descent in Jinja's order of precedence (loosest
// first): a if c else b; or; and; not; comparisons; + -; ~; * / // %; ** (to the left); unary - +;
// attributes, items and calls; filters and tests.
#include "chat/template_internal.h"

static tnode *unary(tparser *p, bool with_filter);

static tnode *binary(tparser *p, tnode_type type, top op, tnode *a, tnode *b)
{
    tnode *n = tparse_node(p, type);
    n->line = a->line;
    n->op = op;
    n->a = a;
    n->b = b;
    tparse_depth(p, n, a);
    tparse_depth(p, n, b);
    return n;
}

static tnode *single(tparser *p, tnode_type type, int line, tnode *a)
{
    tnode *n = tparse_node(p, type);
    n->line = line;
    n->a = a;
    tparse_depth(p, n, a);
    return n;
}

static tnode *constant(tparser *p, tval v)
{
    tnode *n = tparse_node(p, E_CONST);
    n->value = v;
    return n;
}

// ---- names, literals, parentheses -------------------------------------------------------------

static tnode *name(tparser *p)
{
    static const struct {
        const char *name;
        tkind kind;
        bool b;
    } fixed[] = {{"true", T_BOOL, true},   {"false", T_BOOL, false}, {"True", T_BOOL, true},
                 {"False", T_BOOL, false}, {"none", T_NONE, false},  {"None", T_NONE, false}};
    tnode *n;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        if (!tparse_is_name(p, fixed[i].name)) continue;
        n = constant(p, fixed[i].kind == T_NONE ? tval_none() : tval_bool(fixed[i].b));
        p->tok++;
        return n;
    }
    n = tparse_node(p, E_NAME);
    n->sym = tparse_symbol(p, p->tok->value.u.str);
    p->tok++;
    for (struct tmacro_use *m = p->macros; m; m = m->outer) {
        m->macro->uses_caller |= n->sym == SYM_CALLER;
        m->macro->uses_varargs |= n->sym == SYM_VARARGS;
        m->macro->uses_kwargs |= n->sym == SYM_KWARGS;
    }
    return n;
}

static tnode *list(tparser *p)
{
    tnode *n = tparse_node(p, E_LIST);
    tparse_expect_op(p, "[");
    while (!tparse_is_op(p, "]")) {
        if (n->n) tparse_expect_op(p, ",");
        if (tparse_is_op(p, "]")) break;
        tparse_push(p, n, texpr(p, true));
    }
    p->tok++;
    return n;
}

static tnode *dict(tparser *p)
{
    tnode *n = tparse_node(p, E_DICT);
    tparse_expect_op(p, "{");
    while (!tparse_is_op(p, "}")) {
        if (n->n) tparse_expect_op(p, ",");
        if (tparse_is_op(p, "}")) break;
        tparse_push(p, n, texpr(p, true));
        tparse_expect_op(p, ":");
        tparse_push(p, n, texpr(p, true));
    }
    p->tok++;
    return n;
}

tnode *texpr_primary(tparser *p)
{
    const ttoken *t = p->tok;
    if (t->type == TOK_NAME) return name(p);
    if (t->type == TOK_STRING) {
        tnode *n = constant(p, t->value);
        for (p->tok++; p->tok->type == TOK_STRING; p->tok++)
            n->value = tval_str(tstr_concat(p->r, n->value.u.str, p->tok->value.u.str));
        return n;
    }
    if (t->type == TOK_INTEGER || t->type == TOK_FLOAT) {
        tnode *n = constant(p, t->value);
        p->tok++;
        return n;
    }
    tparse_enter(p);
    tnode *n;
    if (tparse_skip_op(p, "(")) {
        n = texpr_tuple(p, true, NULL, true);
        tparse_expect_op(p, ")");
    } else if (tparse_is_op(p, "[")) {
        n = list(p);
    } else if (tparse_is_op(p, "{")) {
        n = dict(p);
    } else {
        tparse_fail(p, t->line, "unexpected '%s'", ttoken_describe(p->r, t));
    }
    tparse_leave(p);
    return n;
}

tnode *texpr_tuple(tparser *p, bool with_cond, const char *stop, bool in_parentheses)
{
    tnode *first = NULL, *tuple = NULL;
    for (;;) {
        bool end = p->tok->type == TOK_VAR_END || p->tok->type == TOK_BLOCK_END ||
                   tparse_is_op(p, ")") || (stop && tparse_is_name(p, stop));
        if (end) break;
        tnode *item = texpr(p, with_cond);
        if (!first) first = item;
        if (tuple) tparse_push(p, tuple, item);
        if (!tparse_is_op(p, ",")) break;
        if (!tuple) {
            tuple = tparse_node(p, E_TUPLE);
            tparse_push(p, tuple, first);
        }
        p->tok++;
    }
    if (tuple) return tuple;
    if (first) return first;
    if (!in_parentheses)
        tparse_fail(p, p->tok->line, "Expected an expression, got '%s'",
                    ttoken_describe(p->r, p->tok));
    return tparse_node(p, E_TUPLE);
}

// ---- calls, items, filters, tests -------------------------------------------------------------

static void push_node(tparser *p, tnode ***v, size_t n, tnode *item)
{
    if ((n & (n - 1)) == 0) *v = trt_grow(p->r, *v, n * sizeof **v, (n ? 2 * n : 1) * sizeof **v);
    (*v)[n] = item;
}

static void named_arg(tparser *p, tnode_args *a)
{
    size_t n = a->n_named;
    if ((n & (n - 1)) == 0)
        a->names =
            trt_grow(p->r, a->names, n * sizeof *a->names, (n ? 2 * n : 1) * sizeof *a->names);
    a->names[n] = p->tok->value;
    p->tok += 2;
    push_node(p, &a->named, n, texpr(p, true));
    a->n_named++;
}

// "( ... )"; owner's depth takes the arguments in.
static tnode_args *call_args(tparser *p, tnode *owner)
{
    tnode_args *a = trt_alloc(p->r, sizeof *a);
    int line = p->tok->line;
    bool ok = true, comma = false;
    tparse_enter(p);
    tparse_expect_op(p, "(");
    while (!tparse_is_op(p, ")")) {
        if (comma) {
            tparse_expect_op(p, ",");
            if (tparse_is_op(p, ")")) break;
        }
        comma = true;
        bool is_named =
            p->tok->type == TOK_NAME && p->tok[1].type == TOK_OP && strcmp(p->tok[1].op, "=") == 0;
        if (tparse_skip_op(p, "*")) {
            ok = ok && !a->star && !a->star_star;
            a->star = texpr(p, true);
            tparse_depth(p, owner, a->star);
        } else if (tparse_skip_op(p, "**")) {
            ok = ok && !a->star_star;
            a->star_star = texpr(p, true);
            tparse_depth(p, owner, a->star_star);
        } else if (is_named) {
            ok = ok && !a->star_star;
            named_arg(p, a);
            tparse_depth(p, owner, a->named[a->n_named - 1]);
        } else {
            ok = ok && !a->star && !a->star_star && !a->n_named;
            tnode *v = texpr(p, true);
            push_node(p, &a->v, a->n, v);
            a->n++;
            tparse_depth(p, owner, v);
        }
        if (!ok) tparse_fail(p, line, "invalid syntax for function call expression");
    }
    p->tok++;
    tparse_leave(p);
    return a;
}

// start:stop:step or a plain expression between brackets.
static tnode *subscript(tparser *p)
{
    tnode *start = NULL;
    if (!tparse_is_op(p, ":")) {
        start = texpr(p, true);
        if (!tparse_is_op(p, ":")) return start;
    }
    tnode *n = tparse_node(p, E_BOUNDS);
    p->tok++;
    n->a = start;
    bool end = tparse_is_op(p, "]") || tparse_is_op(p, ",");
    if (!end && !tparse_is_op(p, ":")) n->b = texpr(p, true);
    if (tparse_skip_op(p, ":") && !tparse_is_op(p, "]") && !tparse_is_op(p, ","))
        n->c = texpr(p, true);
    tparse_depth(p, n, n->a);
    tparse_depth(p, n, n->b);
    tparse_depth(p, n, n->c);
    return n;
}

static tnode *item(tparser *p, tnode *of)
{
    int line = p->tok->line;
    tparse_enter(p);
    tparse_expect_op(p, "[");
    tnode *key = NULL, *tuple = NULL;
    while (!tparse_is_op(p, "]")) {
        if (key) tparse_expect_op(p, ",");
        tnode *k = subscript(p);
        if (k->type == E_BOUNDS && (key || tparse_is_op(p, ",")))
            tparse_fail(p, line, "a slice can't be part of a tuple of keys");
        if (key && !tuple) {
            tuple = tparse_node(p, E_TUPLE);
            tparse_push(p, tuple, key);
        }
        if (tuple) tparse_push(p, tuple, k);
        key = k;
    }
    p->tok++;
    tparse_leave(p);
    if (!key) key = tparse_node(p, E_TUPLE); // nothing between the brackets is an empty tuple
    return binary(p, key->type == E_BOUNDS ? E_SLICE : E_GETITEM, OP_ADD, of, tuple ? tuple : key);
}

static tnode *call(tparser *p, tnode *of)
{
    tnode *n = single(p, E_CALL, p->tok->line, of);
    n->args = call_args(p, n);
    return n;
}

static tnode *postfix(tparser *p, tnode *n)
{
    for (;;) {
        if (tparse_is_op(p, "[")) {
            n = item(p, n);
        } else if (tparse_is_op(p, "(")) {
            n = call(p, n);
        } else if (tparse_skip_op(p, ".")) {
            if (p->tok->type != TOK_NAME && p->tok->type != TOK_INTEGER)
                tparse_fail(p, p->tok->line, "expected name or number");
            if (p->tok->type == TOK_NAME) {
                n = single(p, E_GETATTR, p->tok->line, n);
                n->value = p->tok->value;
            } else {
                n = binary(p, E_GETITEM, OP_ADD, n, constant(p, p->tok->value));
            }
            p->tok++;
        } else {
            return n;
        }
    }
}

// A name with dots, as filters and tests may have.
static const tstr *dotted_name(tparser *p)
{
    const tstr *s = tparse_expect_name(p);
    while (tparse_skip_op(p, ".")) {
        tbuf b;
        tbuf_start(&b, p->r);
        tbuf_str(&b, s);
        tbuf_text(&b, ".");
        tbuf_str(&b, tparse_expect_name(p));
        s = tbuf_take(&b);
    }
    return s;
}

tnode *texpr_filters(tparser *p, tnode *n, bool start_inline)
{
    while (start_inline || tparse_is_op(p, "|")) {
        if (!start_inline) p->tok++;
        start_inline = false;
        n = single(p, E_FILTER, p->tok->line, n);
        const tstr *filter = dotted_name(p);
        n->value = tval_str(filter);
        n->filter = tfilter_find(filter);
        if (!n->filter && !p->soft && !p->unknown) p->unknown = n;
        if (tparse_is_op(p, "(")) n->args = call_args(p, n);
    }
    return n;
}

static tnode *test(tparser *p, tnode *of)
{
    int line = p->tok->line;
    p->tok++; // is
    bool negated = tparse_skip_name(p, "not");
    tnode *n = single(p, E_TEST, line, of);
    const tstr *test_name = dotted_name(p);
    n->value = tval_str(test_name);
    n->test = ttest_find(test_name);
    if (!n->test && !p->soft && !p->unknown) p->unknown = n;
    ttoken_type t = p->tok->type;
    bool operand = t == TOK_NAME || t == TOK_STRING || t == TOK_INTEGER || t == TOK_FLOAT ||
                   tparse_is_op(p, "[") || tparse_is_op(p, "{");
    if (tparse_is_op(p, "(")) {
        n->args = call_args(p, n);
    } else if (operand && !tparse_is_name(p, "else") && !tparse_is_name(p, "or") &&
               !tparse_is_name(p, "and")) {
        if (tparse_is_name(p, "is"))
            tparse_fail(p, p->tok->line, "You cannot chain multiple tests with is");
        n->args = trt_alloc(p->r, sizeof *n->args);
        tnode *arg = postfix(p, texpr_primary(p));
        push_node(p, &n->args->v, 0, arg);
        n->args->n = 1;
        tparse_depth(p, n, arg);
    }
    return negated ? single(p, E_NOT, line, n) : n;
}

static tnode *filters_and_tests(tparser *p, tnode *n)
{
    for (;;) {
        if (tparse_is_op(p, "|"))
            n = texpr_filters(p, n, false);
        else if (tparse_is_name(p, "is"))
            n = test(p, n);
        else if (tparse_is_op(p, "("))
            n = call(p, n);
        else
            return n;
    }
}

// ---- operators --------------------------------------------------------------------------------

static tnode *unary(tparser *p, bool with_filter)
{
    tnode *n;
    int line = p->tok->line;
    if (tparse_is_op(p, "-") || tparse_is_op(p, "+")) {
        tnode_type type = tparse_is_op(p, "-") ? E_NEG : E_POS;
        tparse_enter(p);
        p->tok++;
        n = single(p, type, line, unary(p, false));
        tparse_leave(p);
    } else {
        n = texpr_primary(p);
    }
    n = postfix(p, n);
    return with_filter ? filters_and_tests(p, n) : n;
}

static tnode *power(tparser *p)
{
    tnode *n = unary(p, true);
    while (tparse_skip_op(p, "**")) n = binary(p, E_BINARY, OP_POW, n, unary(p, true));
    return n;
}

static tnode *product(tparser *p)
{
    static const struct {
        const char *text;
        top op;
    } ops[] = {{"*", OP_MUL}, {"/", OP_DIV}, {"//", OP_FLOORDIV}, {"%", OP_MOD}};
    tnode *n = power(p);
    for (size_t i = 0; i < 4; i++) {
        if (!tparse_skip_op(p, ops[i].text)) continue;
        n = binary(p, E_BINARY, ops[i].op, n, power(p));
        i = (size_t)-1; // look again from the first
    }
    return n;
}

static tnode *concat(tparser *p)
{
    tnode *n = product(p);
    if (!tparse_is_op(p, "~")) return n;
    tnode *all = tparse_node(p, E_CONCAT);
    tparse_push(p, all, n);
    while (tparse_skip_op(p, "~")) tparse_push(p, all, product(p));
    return all;
}

static tnode *sum(tparser *p)
{
    tnode *n = concat(p);
    for (;;) {
        if (tparse_skip_op(p, "+"))
            n = binary(p, E_BINARY, OP_ADD, n, concat(p));
        else if (tparse_skip_op(p, "-"))
            n = binary(p, E_BINARY, OP_SUB, n, concat(p));
        else
            return n;
    }
}

static bool compare_op(tparser *p, top *op)
{
    static const struct {
        const char *text;
        top op;
    } ops[] = {{"==", OP_EQ}, {"!=", OP_NE}, {"<", OP_LT},
               {"<=", OP_LE}, {">", OP_GT},  {">=", OP_GE}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (!tparse_skip_op(p, ops[i].text)) continue;
        *op = ops[i].op;
        return true;
    }
    if (tparse_skip_name(p, "in")) {
        *op = OP_IN;
        return true;
    }
    if (tparse_is_name(p, "not") && p->tok[1].type == TOK_NAME &&
        tstr_is(p->tok[1].value.u.str, "in")) {
        p->tok += 2;
        *op = OP_NOTIN;
        return true;
    }
    return false;
}

static tnode *comparison(tparser *p)
{
    tnode *n = sum(p), *all = NULL;
    top op;
    while (compare_op(p, &op)) {
        if (!all) all = single(p, E_COMPARE, n->line, n);
        tnode *operand = single(p, E_OPERAND, n->line, sum(p));
        operand->op = op;
        tparse_push(p, all, operand);
    }
    return all ? all : n;
}

static tnode *negation(tparser *p)
{
    int line = p->tok->line;
    if (!tparse_skip_name(p, "not")) return comparison(p);
    tparse_enter(p);
    tnode *n = single(p, E_NOT, line, negation(p));
    tparse_leave(p);
    return n;
}

static tnode *conjunction(tparser *p)
{
    tnode *n = negation(p);
    while (tparse_skip_name(p, "and")) n = binary(p, E_AND, OP_ADD, n, negation(p));
    return n;
}

static tnode *disjunction(tparser *p)
{
    tnode *n = conjunction(p);
    while (tparse_skip_name(p, "or")) n = binary(p, E_OR, OP_ADD, n, conjunction(p));
    return n;
}

tnode *texpr(tparser *p, bool with_cond)
{
    const tnode *unknown = p->unknown;
    tparse_enter(p);
    tnode *n = disjunction(p);
    while (with_cond && tparse_skip_name(p, "if")) {
        tnode *test_node = disjunction(p), *other = NULL;
        if (tparse_skip_name(p, "else")) other = texpr(p, true);
        n = binary(p, E_COND, OP_ADD, test_node, n);
        n->c = other;
        tparse_depth(p, n, other);
        p->unknown = unknown;
    }
    tparse_leave(p);
    return n;
}
