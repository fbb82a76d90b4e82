// Tokens to nodes: statements. Expressions are in template_expr.c.
#include <stdio.h>
#include <stdlib.h>

#include "chat/template_internal.h"

// ---- what both halves use ---------------------------------------------------------------------

void tparse_fail(tparser *p, int line, const char *format, ...)
{
    char text[700];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    p->r->line = line;
    trt_fail(p->r, "%s", text);
}

tnode *tparse_node(tparser *p, tnode_type type)
{
    tnode *n = trt_alloc(p->r, sizeof *n);
    n->type = type;
    n->line = p->tok->line;
    n->depth = 1;
    return n;
}

// Trees are evaluated by recursion, so their depth is bounded here.
void tparse_depth(tparser *p, tnode *n, const tnode *kid)
{
    if (kid && kid->depth >= n->depth) n->depth = kid->depth + 1;
    if (n->depth > TRT_MAX_TREE)
        tparse_fail(p, n->line, "the expression has more than %d levels", (int)TRT_MAX_TREE);
}

void tparse_push(tparser *p, tnode *n, tnode *kid)
{
    // Room grows by doubling, at the powers of two.
    if ((n->n & (n->n - 1)) == 0) {
        size_t cap = n->n ? 2 * n->n : 1;
        n->kids = trt_grow(p->r, n->kids, n->n * sizeof *n->kids, cap * sizeof *n->kids);
    }
    n->kids[n->n++] = kid;
    tparse_depth(p, n, kid);
}

void tparse_enter(tparser *p)
{
    if (++p->nesting > TRT_MAX_NESTING)
        tparse_fail(p, p->tok->line, "more than %d levels of nesting", (int)TRT_MAX_NESTING);
}

void tparse_leave(tparser *p)
{
    p->nesting--;
}

uint32_t tparse_symbol(tparser *p, const tstr *name)
{
    const tval *known = tdict_get(p->r, p->symbols, tval_str(name));
    if (known) return (uint32_t)known->u.i;
    uint32_t sym = (uint32_t)p->names->n;
    tlist_push(p->r, p->names, tval_str(name));
    tdict_set(p->r, p->symbols, tval_str(name), tval_int(sym));
    return sym;
}

bool tparse_is_op(const tparser *p, const char *op)
{
    return p->tok->type == TOK_OP && strcmp(p->tok->op, op) == 0;
}

bool tparse_is_name(const tparser *p, const char *name)
{
    return p->tok->type == TOK_NAME && tstr_is(p->tok->value.u.str, name);
}

bool tparse_skip_op(tparser *p, const char *op)
{
    if (!tparse_is_op(p, op)) return false;
    p->tok++;
    return true;
}

bool tparse_skip_name(tparser *p, const char *name)
{
    if (!tparse_is_name(p, name)) return false;
    p->tok++;
    return true;
}

const char *ttoken_describe(trt *r, const ttoken *t)
{
    switch (t->type) {
    case TOK_EOF: return "end of template";
    case TOK_DATA: return "template data / text";
    case TOK_VAR_BEGIN: return "begin of print statement";
    case TOK_VAR_END: return "end of print statement";
    case TOK_BLOCK_BEGIN: return "begin of statement block";
    case TOK_BLOCK_END: return "end of statement block";
    case TOK_STRING: return "string";
    case TOK_INTEGER: return "integer";
    case TOK_FLOAT: return "float";
    case TOK_OP: return t->op;
    case TOK_NAME: break;
    }
    const tstr *s = t->value.u.str;
    size_t n = s->n < 100 ? s->n : 100;
    char *text = trt_alloc(r, n + 1);
    memcpy(text, s->s, n);
    return text;
}

static _Noreturn void fail_expected(tparser *p, const char *what)
{
    if (p->tok->type == TOK_EOF)
        tparse_fail(p, p->tok->line, "unexpected end of template, expected '%s'.", what);
    tparse_fail(p, p->tok->line, "expected token '%s', got '%s'", what,
                ttoken_describe(p->r, p->tok));
}

void tparse_expect_op(tparser *p, const char *op)
{
    if (!tparse_skip_op(p, op)) fail_expected(p, op);
}

const tstr *tparse_expect_name(tparser *p)
{
    if (p->tok->type != TOK_NAME) fail_expected(p, "name");
    return (p->tok++)->value.u.str;
}

static void expect_keyword(tparser *p, const char *name)
{
    if (!tparse_skip_name(p, name)) fail_expected(p, name);
}

static void expect_type(tparser *p, ttoken_type type)
{
    ttoken wanted = {.type = type};
    if (p->tok->type != type) fail_expected(p, ttoken_describe(p->r, &wanted));
    p->tok++;
}

// ---- bodies -----------------------------------------------------------------------------------

static tnode *statement(tparser *p);

static bool is_end(const tparser *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (tparse_is_name(p, *ends)) return true;
    return false;
}

// "Encountered unknown tag 'x'. Jinja was looking for ...", in Jinja's words, which people know.
static _Noreturn void fail_tag(tparser *p, const char *tag)
{
    char text[500] = "Unexpected end of template.";
    size_t n = strlen(text);
    if (tag) n = (size_t)snprintf(text, sizeof text, "Encountered unknown tag '%s'.", tag);
    if (p->looking_for) {
        const char *lead = " Jinja was looking for the following tags:";
        for (const char *const *e = p->looking_for; *e && n < sizeof text; e++) {
            n += (size_t)snprintf(text + n, sizeof text - n, "%s '%s'", lead, *e);
            lead = " or";
        }
        if (n < sizeof text) n += (size_t)snprintf(text + n, sizeof text - n, ".");
    }
    if (p->open_tag && n < sizeof text)
        snprintf(text + n, sizeof text - n, " The innermost block that needs to be closed is '%s'.",
                 p->open_tag);
    tparse_fail(p, p->tok->line, "%s", text);
}

static _Noreturn void fail_unknown(tparser *p)
{
    const tstr *name = p->unknown->value.u.str;
    tparse_fail(p, p->unknown->line, "No %s named '%.*s'.",
                p->unknown->type == E_FILTER ? "filter" : "test", (int)name->n, name->s);
}

// Nodes up to one of the `ends` (NULL: the end of the template), which stays the current token.
static tnode *body(tparser *p, const char *const *ends)
{
    tnode *n = tparse_node(p, S_BRANCH);
    const char *const *outer = p->looking_for;
    p->looking_for = ends;
    tparse_enter(p);
    while (p->tok->type != TOK_EOF) {
        tnode *kid;
        if (p->tok->type == TOK_DATA) {
            kid = tparse_node(p, S_DATA);
            kid->value = (p->tok++)->value;
        } else if (p->tok->type == TOK_VAR_BEGIN) {
            p->tok++;
            kid = tparse_node(p, S_OUTPUT);
            kid->a = texpr_tuple(p, true, NULL, false);
            tparse_depth(p, kid, kid->a);
            expect_type(p, TOK_VAR_END);
        } else {
            expect_type(p, TOK_BLOCK_BEGIN);
            if (is_end(p, ends)) break;
            kid = statement(p);
            expect_type(p, TOK_BLOCK_END);
        }
        if (p->unknown) fail_unknown(p);
        tparse_push(p, n, kid);
    }
    if (ends && p->tok->type == TOK_EOF) fail_tag(p, NULL);
    tparse_leave(p);
    p->looking_for = outer;
    return n;
}

// The rest of a tag, then the nodes up to an end tag.
static tnode *block_body(tparser *p, const char *const *ends)
{
    tparse_skip_op(p, ":");
    expect_type(p, TOK_BLOCK_END);
    return body(p, ends);
}

// A body in a frame of its own: an unknown filter in it is an error again.
static tnode *framed_body(tparser *p, const char *const *ends)
{
    bool soft = p->soft;
    p->soft = false;
    tnode *n = block_body(p, ends);
    p->soft = soft;
    return n;
}

// What follows up to END becomes n's own kids; END is skipped.
static void take_body(tparser *p, tnode *n, const char *end)
{
    const char *const ends[] = {end, NULL};
    tnode *b = framed_body(p, ends);
    n->kids = b->kids;
    n->n = b->n;
    tparse_depth(p, n, b);
    p->tok++;
}

// ---- targets ----------------------------------------------------------------------------------

static void check_target(tparser *p, const tnode *n)
{
    if (n->type == E_NAME || n->type == E_NSREF) return;
    if (n->type == E_TUPLE) {
        for (size_t i = 0; i < n->n; i++) check_target(p, n->kids[i]);
        return;
    }
    tparse_fail(p, n->line,
                "can't assign to this expression (names, tuples of names and "
                "namespace attributes can be set)");
}

static tnode *target_item(tparser *p, bool with_namespace)
{
    if (with_namespace && p->tok->type == TOK_NAME && p->tok[1].type == TOK_OP &&
        strcmp(p->tok[1].op, ".") == 0) {
        tnode *n = tparse_node(p, E_NSREF);
        n->sym = tparse_symbol(p, (p->tok++)->value.u.str);
        p->tok++;
        n->value = tval_str(tparse_expect_name(p));
        return n;
    }
    return texpr_primary(p);
}

static tnode *target(tparser *p, const char *stop, bool with_namespace)
{
    tnode *tuple = NULL, *first = NULL;
    for (;;) {
        bool end = p->tok->type == TOK_BLOCK_END || tparse_is_op(p, ")") ||
                   (stop && tparse_is_name(p, stop));
        if (end && (tuple || !first)) break;
        tnode *item = target_item(p, with_namespace);
        if (!first) first = item;
        if (tuple) tparse_push(p, tuple, item);
        if (!tparse_is_op(p, ",")) break;
        if (!tuple) {
            tuple = tparse_node(p, E_TUPLE);
            tparse_push(p, tuple, first);
        }
        p->tok++;
    }
    if (!first)
        tparse_fail(p, p->tok->line, "Expected an expression, got '%s'",
                    ttoken_describe(p->r, p->tok));
    tnode *n = tuple ? tuple : first;
    check_target(p, n);
    return n;
}

// ---- statements -------------------------------------------------------------------------------

static tnode *parse_if(tparser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    static const char *const last[] = {"endif", NULL};
    tnode *n = tparse_node(p, S_IF);
    bool soft = p->soft;
    p->soft = true;
    for (;;) {
        tnode *test = texpr_tuple(p, false, NULL, false);
        tnode *branch = block_body(p, ends);
        branch->a = test;
        tparse_depth(p, branch, test);
        tparse_push(p, n, branch);
        if (tparse_skip_name(p, "elif")) continue;
        if (tparse_skip_name(p, "else")) tparse_push(p, n, block_body(p, last));
        p->tok++; // endif
        break;
    }
    p->soft = soft;
    return n;
}

static tnode *parse_for(tparser *p)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    static const char *const last[] = {"endfor", NULL};
    tnode *n = tparse_node(p, S_FOR);
    n->a = target(p, "in", false);
    expect_keyword(p, "in");
    n->b = texpr_tuple(p, false, "recursive", false);
    if (tparse_skip_name(p, "if")) n->c = texpr(p, true);
    n->flag = tparse_skip_name(p, "recursive");
    p->loops++;
    tnode *b = framed_body(p, ends);
    p->loops--;
    n->kids = b->kids;
    n->n = b->n;
    if (tparse_skip_name(p, "else")) n->other = framed_body(p, last);
    p->tok++; // endfor
    tparse_depth(p, n, b);
    tparse_depth(p, n, n->b);
    tparse_depth(p, n, n->c);
    tparse_depth(p, n, n->other);
    return n;
}

// The filters of "set x | f" and "filter f", over an E_INPUT.
static tnode *filters(tparser *p, bool start_inline)
{
    return texpr_filters(p, tparse_node(p, E_INPUT), start_inline);
}

static tnode *parse_set(tparser *p)
{
    tnode *n = tparse_node(p, S_SET);
    n->a = target(p, NULL, true);
    if (tparse_skip_op(p, "=")) {
        n->b = texpr_tuple(p, true, NULL, false);
    } else {
        n->type = S_SETBLOCK;
        n->b = filters(p, false);
        take_body(p, n, "endset");
    }
    tparse_depth(p, n, n->a);
    tparse_depth(p, n, n->b);
    return n;
}

static void signature(tparser *p, tsignature *m)
{
    tnode *params = tparse_node(p, E_LIST), *defaults = tparse_node(p, E_LIST);
    tparse_expect_op(p, "(");
    while (!tparse_is_op(p, ")")) {
        if (params->n) tparse_expect_op(p, ",");
        tnode *param = tparse_node(p, E_NAME);
        param->sym = tparse_symbol(p, tparse_expect_name(p));
        m->explicit_caller |= param->sym == SYM_CALLER;
        if (tparse_skip_op(p, "="))
            tparse_push(p, defaults, texpr(p, true));
        else if (defaults->n)
            tparse_fail(p, p->tok->line, "non-default argument follows default argument");
        tparse_push(p, params, param);
    }
    p->tok++;
    m->n_params = params->n;
    m->params = trt_array(p->r, params->n, sizeof *m->params);
    for (size_t i = 0; i < params->n; i++) m->params[i] = params->kids[i]->sym;
    m->defaults = defaults->kids;
    m->n_defaults = defaults->n;
}

// The body of a macro or call block: sees which of caller, varargs and kwargs it mentions.
static void macro_body(tparser *p, tnode *n, const char *end)
{
    struct tmacro_use use = {p->macros, n->macro};
    int loops = p->loops;
    p->loops = 0;
    p->macros = &use;
    take_body(p, n, end);
    p->macros = use.outer;
    p->loops = loops;
    tsignature *m = n->macro;
    for (size_t i = 0; i < m->n_params; i++) {
        if (m->params[i] == SYM_KWARGS) m->uses_kwargs = false;
        if (m->params[i] == SYM_VARARGS) m->uses_varargs = false;
    }
    // A parameter of that name is one like any other; only its default is asked for.
    for (size_t i = 0; m->uses_caller && i < m->n_params - m->n_defaults; i++)
        if (m->params[i] == SYM_CALLER)
            tparse_fail(p, n->line,
                        "When defining macros or call blocks the special \"caller\" argument must "
                        "be omitted or be given a default.");
    m->explicit_caller &= m->uses_caller;
    if (m->explicit_caller) m->uses_caller = false;
}

static tnode *parse_macro(tparser *p)
{
    tnode *n = tparse_node(p, S_MACRO);
    n->macro = trt_alloc(p->r, sizeof *n->macro);
    const tstr *name = tparse_expect_name(p);
    n->macro->name = tval_str(name);
    n->sym = tparse_symbol(p, name);
    signature(p, n->macro);
    macro_body(p, n, "endmacro");
    return n;
}

static tnode *parse_call(tparser *p)
{
    tnode *n = tparse_node(p, S_CALL);
    n->macro = trt_alloc(p->r, sizeof *n->macro);
    n->macro->name = tval_none();
    if (tparse_is_op(p, "(")) signature(p, n->macro);
    n->a = texpr(p, true);
    if (n->a->type != E_CALL) tparse_fail(p, n->line, "expected call");
    macro_body(p, n, "endcall");
    tparse_depth(p, n, n->a);
    return n;
}

static tnode *parse_filter(tparser *p)
{
    tnode *n = tparse_node(p, S_FILTER);
    n->b = filters(p, true);
    take_body(p, n, "endfilter");
    tparse_depth(p, n, n->b);
    return n;
}

static tnode *parse_with(tparser *p)
{
    tnode *n = tparse_node(p, S_WITH), *targets = tparse_node(p, E_LIST),
          *values = tparse_node(p, E_LIST);
    while (p->tok->type != TOK_BLOCK_END) {
        if (targets->n) tparse_expect_op(p, ",");
        tparse_push(p, targets, target(p, NULL, false));
        tparse_expect_op(p, "=");
        tparse_push(p, values, texpr(p, true));
    }
    n->a = targets;
    n->b = values;
    take_body(p, n, "endwith");
    tparse_depth(p, n, values);
    return n;
}

// transformers' generation block marks what the model wrote. It renders as its body, which is a
// macro's body called without arguments.
static tnode *parse_generation(tparser *p)
{
    tnode *n = tparse_node(p, S_WITH);
    n->a = n->b = tparse_node(p, E_LIST);
    n->macro = trt_alloc(p->r, sizeof *n->macro);
    n->macro->name = tval_none();
    macro_body(p, n, "endgeneration");
    return n;
}

static tnode *parse_autoescape(tparser *p)
{
    tnode *n = tparse_node(p, S_ESCAPE);
    n->a = texpr(p, true);
    take_body(p, n, "endautoescape");
    tparse_depth(p, n, n->a);
    return n;
}

static tnode *parse_block(tparser *p)
{
    tnode *n = tparse_node(p, S_BLOCK);
    const tstr *name = tparse_expect_name(p);
    n->value = tval_str(name);
    n->flag = tparse_skip_name(p, "scoped");
    tparse_skip_name(p, "required");
    int loops = p->loops;
    p->loops = 0;
    take_body(p, n, "endblock");
    p->loops = loops;
    if (p->tok->type == TOK_NAME && tstr_equal(p->tok->value.u.str, name)) p->tok++;
    for (size_t i = 0; i < p->n_blocks; i++)
        if (tstr_equal(p->blocks[i]->value.u.str, name))
            tparse_fail(p, n->line, "block '%.*s' defined twice", (int)name->n, name->s);
    if (p->n_blocks == p->cap_blocks) {
        p->cap_blocks = 2 * p->cap_blocks + 8;
        p->blocks = trt_grow(p->r, p->blocks, p->n_blocks * sizeof *p->blocks,
                             p->cap_blocks * sizeof *p->blocks);
    }
    p->blocks[p->n_blocks++] = n;
    return n;
}

static tnode *parse_print(tparser *p)
{
    tnode *n = tparse_node(p, S_WITH);
    n->type = S_BRANCH;
    while (p->tok->type != TOK_BLOCK_END) {
        if (n->n) tparse_expect_op(p, ",");
        tnode *out = tparse_node(p, S_OUTPUT);
        out->a = texpr(p, true);
        tparse_depth(p, out, out->a);
        tparse_push(p, n, out);
    }
    return n;
}

static tnode *parse_jump(tparser *p)
{
    bool is_break = tstr_is(p->tok[-1].value.u.str, "break");
    if (!p->loops)
        tparse_fail(p, p->tok->line, "'%s' outside of a loop", is_break ? "break" : "continue");
    return tparse_node(p, is_break ? S_BREAK : S_CONTINUE);
}

static tnode *parse_other_file(tparser *p)
{
    const tstr *tag = p->tok[-1].value.u.str;
    tparse_fail(p, p->tok->line, "'%.*s' is not supported: a chat template is one file",
                (int)tag->n, tag->s);
}

static tnode *statement(tparser *p)
{
    static const struct {
        const char *tag;
        tnode *(*parse)(tparser *p);
    } tags[] = {
        {"if", parse_if},
        {"for", parse_for},
        {"set", parse_set},
        {"macro", parse_macro},
        {"call", parse_call},
        {"filter", parse_filter},
        {"with", parse_with},
        {"generation", parse_generation},
        {"print", parse_print},
        {"autoescape", parse_autoescape},
        {"block", parse_block},
        {"break", parse_jump},
        {"continue", parse_jump},
        {"include", parse_other_file},
        {"import", parse_other_file},
        {"from", parse_other_file},
        {"extends", parse_other_file},
    };
    if (p->tok->type != TOK_NAME) tparse_fail(p, p->tok->line, "tag name expected");
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (!tparse_is_name(p, tags[i].tag)) continue;
        const char *outer = p->open_tag;
        p->open_tag = tags[i].tag;
        p->tok++;
        tnode *n = tags[i].parse(p);
        p->open_tag = outer;
        return n;
    }
    fail_tag(p, ttoken_describe(p->r, p->tok));
}

tnode *tparse(trt *r, const ttoken *tokens, tmpl *t)
{
    static const char *const fixed[N_FIXED_SYMS] = {
        [SYM_LOOP] = "loop",     [SYM_CALLER] = "caller", [SYM_VARARGS] = "varargs",
        [SYM_KWARGS] = "kwargs", [SYM_SELF] = "self",
    };
    tparser p = {.r = r, .tok = tokens};
    p.symbols = tdict_new(r, 64);
    p.names = tlist_new(r, 64);
    for (uint32_t i = 0; i < N_FIXED_SYMS; i++) tparse_symbol(&p, tstr_c(r, fixed[i]));
    tnode *n = body(&p, NULL);
    t->names = p.names->v;
    t->n_names = p.names->n;
    t->blocks = p.blocks;
    t->n_blocks = p.n_blocks;
    return n;
}
