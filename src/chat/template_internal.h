// What the files of the template engine share. template_lex.c and template_parse.c turn a source
// into nodes, template_exec.c and template_eval.c run them, the rest are values and the library.
//
// Memory and errors: everything that one parse or one rendering makes lives in one arena (trt), and
// a failure leaves through one longjmp to the entry point in template.c, which alone cleans up. So
// no function here returns a status, none holds memory of its own, and an allocation never fails
// in its caller's eyes.
#ifndef PUMICE_CHAT_TEMPLATE_INTERNAL_H
#define PUMICE_CHAT_TEMPLATE_INTERNAL_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>

#include "chat/template.h"

// ---- values -----------------------------------------------------------------------------------

typedef enum tkind {
    T_MISSING, // no value at all (an argument not given); never seen by a template
    T_UNDEFINED,
    T_NONE,
    T_BOOL,
    T_INT,
    T_BIG, // an integer beyond 64 bits
    T_FLOAT,
    T_STRING,
    T_BYTES, // what str.encode gives; can only be shown
    T_LIST,
    T_TUPLE,
    T_DICT,
    T_NAMESPACE,
    T_RANGE,
    T_VIEW, // dict.keys(), .values(), .items()
    T_ITER, // generators and iterators: read once
    T_FUNCTION,
    T_METHOD,
    T_MACRO,
    T_LOOP,
    T_CYCLER,
    T_JOINER,
    T_SELF,  // `self`: the blocks by name
    T_BLOCK, // one of them
} tkind;

typedef struct tstr tstr;
typedef struct tbig tbig;
typedef struct tlist tlist;
typedef struct tdict tdict;
typedef struct trange trange;
typedef struct tview tview;
typedef struct titerator titerator;
typedef struct tundef tundef;
typedef struct tfunction tfunction;
typedef struct tmethod tmethod;
typedef struct tmacro tmacro;
typedef struct tloop tloop;
typedef struct tcycler tcycler;
typedef struct tjoiner tjoiner;
typedef struct tnode tnode;
typedef struct tscope tscope;
typedef struct trt trt;

typedef struct tval {
    tkind kind;
    union {
        bool b;
        int64_t i;
        double f;
        const tbig *big;
        const tstr *str; // T_STRING, T_BYTES
        tlist *list;     // T_LIST, T_TUPLE
        tdict *dict;     // T_DICT, T_NAMESPACE
        const trange *range;
        const tview *view;
        titerator *iter;
        const tundef *undef;
        const tfunction *function;
        const tmethod *method;
        const tmacro *macro;
        tloop *loop;
        tcycler *cycler;
        tjoiner *joiner;
        const tnode *block;
        const void *p;
    } u;
} tval;

// Which bytes of a string the template's own literals made.
typedef enum tliteral { LITERAL_NONE, LITERAL_ALL, LITERAL_MIXED } tliteral;

// Strings are UTF-8 and immutable; template-visible positions count code points.
struct tstr {
    const char *s; // n bytes, not terminated
    size_t n;
    size_t n_chars; // code points
    tliteral literal;
    bool markup;        // already escaped for HTML (`safe`, `escape`)
    const uint8_t *map; // LITERAL_MIXED: n times 0 or 1
};

struct tlist { // immutable once a template can see it
    tval *v;
    size_t n, cap;
    const char *const *fields; // a groupby result's attribute names, else NULL
};

typedef struct tpair {
    tval key, value;
} tpair;

struct tdict { // in order of insertion
    tpair *v;
    size_t n, cap;
    uint32_t *slots; // hash index: position + 1, 0 free; NULL while the dict is small
    size_t n_slots;
};

struct trange {
    int64_t start, stop, step;
    size_t n;
};

typedef enum tview_kind { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS } tview_kind;
struct tview {
    tview_kind what;
    tdict *dict;
};

struct titerator {
    tlist *items; // evaluated at once; reading consumes
    size_t at;
    const char *type; // Python's name of it
};

struct tundef {       // why it is undefined, told when it is used
    const char *hint; // or NULL
    bool has_object;
    tval object; // the object without that attribute or element
    tval name;
};

struct tcycler {
    tlist *items;
    size_t at;
};
struct tjoiner {
    tval separator;
    bool used;
};

// The arguments of one call.
typedef struct targs {
    tval *v;
    size_t n;
    tdict *named; // NULL: none
} targs;

typedef tval (*tcall)(trt *r, tval self, const tval *a, const targs *all);

// One filter, function or method: `params` names its parameters ("old new count"), which arrive in
// `a` in that order, T_MISSING where not given; the first `required` must be. NULL: takes what
// comes, in `all`.
struct tfunction {
    const char *name;
    tcall call;
    const char *params;
    int required;
};

struct tmethod {
    tval self;
    const tfunction *function;
};

typedef bool (*ttest_call)(trt *r, tval value, const tval *a);
typedef struct ttest {
    const char *name;
    ttest_call call;
    int n_args;
} ttest;

struct tmacro {
    const tnode *node; // S_MACRO, or S_CALL (its caller)
    tscope *scope;     // where it was defined
};

struct tloop {
    const tnode *node;
    tscope *outer; // for the recursive call
    const tval *items;
    const trange *range; // instead of items
    size_t n, at;        // at: index0
    int64_t depth0;
    tval changed;
};

// ---- nodes ------------------------------------------------------------------------------------

typedef enum tnode_type {
    E_CONST,    // value
    E_NAME,     // sym
    E_LIST,     // kids
    E_TUPLE,    // kids
    E_DICT,     // kids: key, value, key, ...
    E_GETATTR,  // a . value
    E_GETITEM,  // a [ b ]
    E_SLICE,    // a [ b.a : b.b : b.c ], b is an E_BOUNDS
    E_BOUNDS,   // a, b, c; each may be NULL
    E_CALL,     // a ( args )
    E_FILTER,   // a | function (args)
    E_TEST,     // a is test (args)
    E_INPUT,    // what a filter block or set block filters
    E_NOT,      // a
    E_NEG,      // a
    E_POS,      // a
    E_BINARY,   // a op b
    E_AND,      // a, b
    E_OR,       // a, b
    E_COND,     // b if a else c (may be NULL)
    E_CONCAT,   // kids
    E_COMPARE,  // a, kids: E_OPERAND
    E_OPERAND,  // op a
    E_NSREF,    // target only: sym . value
    S_DATA,     // value
    S_OUTPUT,   // a
    S_IF,       // kids: S_BRANCH
    S_BRANCH,   // a (NULL: else), kids
    S_FOR,      // for a in b if c; kids; other: S_BRANCH or NULL; flag: recursive
    S_SET,      // a = b
    S_SETBLOCK, // a = b (the filter over E_INPUT) of kids
    S_MACRO,    // macro, kids
    S_CALL,     // a: E_CALL; macro, kids
    S_FILTER,   // b: the filter over E_INPUT; kids
    S_WITH,     // kids of a = kids of b; kids. A generation block has a macro
    S_ESCAPE,   // autoescape a; kids
    S_BLOCK,    // value: name; kids; flag: scoped
    S_BREAK,
    S_CONTINUE,
} tnode_type;

typedef enum top {
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_FLOORDIV,
    OP_MOD,
    OP_POW,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_NOTIN,
} top;

typedef struct tnode_args {
    tnode **v;
    size_t n;
    tval *names; // of the keyword arguments
    tnode **named;
    size_t n_named;
    tnode *star, *star_star; // *a, **a
} tnode_args;

typedef struct tsignature {
    tval name;
    uint32_t *params; // symbols
    size_t n_params;
    tnode **defaults; // of the last n_defaults parameters
    size_t n_defaults;
    bool explicit_caller;
    bool uses_caller, uses_kwargs, uses_varargs;
} tsignature;

struct tnode {
    tnode_type type;
    top op;
    bool flag;
    int line;
    int depth; // of the tree below, bounded at parse time
    uint32_t sym;
    size_t n;
    tnode **kids;
    tnode *a, *b, *c, *other;
    tval value;
    tnode_args *args;
    tsignature *macro;
    uint32_t *hidden; // names that are undefined in this node's scope until it sets them
    uint32_t n_hidden;
    const tfunction *filter; // NULL: unknown, an error when it is reached
    const ttest *test;       // likewise
};

// Names are numbered when the template is parsed; these come first.
enum { SYM_LOOP, SYM_CALLER, SYM_VARARGS, SYM_KWARGS, SYM_SELF, N_FIXED_SYMS };

struct tmpl {
    struct tchunk *memory;
    tnode *body; // an S_BRANCH
    tval *names; // by symbol
    size_t n_names;
    tnode **blocks; // S_BLOCK, in order of the source
    size_t n_blocks;
};

// ---- one parse or one rendering ---------------------------------------------------------------

typedef struct tchunk {
    struct tchunk *next;
    size_t used, cap;
    max_align_t data[];
} tchunk;

typedef struct tvar {
    uint32_t sym;
    tval value;
} tvar;

// A scope of names. The outermost has its values by symbol in trt.globals instead.
struct tscope {
    tscope *parent;
    tvar *vars;
    uint32_t n, cap;
    bool captured; // a macro holds it: not to be used again by the loop's next turn
};

typedef struct tbuf tbuf;

struct trt {
    tchunk *memory;
    size_t n_bytes, max_bytes;
    size_t steps, max_steps;
    size_t max_output;
    int depth, macro_depth;
    int line;
    bool parsing;
    pm_status status;
    jmp_buf leave;

    const tmpl *t; // from here on: rendering only
    const json_t *vars;
    const char *const *trusted;
    double now;
    tval *globals; // by symbol; T_MISSING: not set
    tscope *scope;
    tbuf *out;
    tval input; // of E_INPUT
    bool autoescape;
    uint64_t random;
};

enum {
    TRT_MAX_NESTING = 200,  // of the source
    TRT_MAX_TREE = 1000,    // of nodes, which "a + a + a ..." makes deep without nesting
    TRT_MAX_DEPTH = 3000,   // of evaluation
    TRT_MAX_MACROS = 200,   // calls inside each other
    TRT_MAX_RANGE = 100000, // items of range(), as in Jinja's sandbox
};

// Both end the parse or rendering. trt_raise leaves the message as it is.
_Noreturn void trt_fail(trt *r, const char *format, ...) PRINTF_LIKE(2, 3);
_Noreturn void trt_raise(trt *r, const tstr *message);
_Noreturn void trt_fail_steps(trt *r);
_Noreturn void trt_fail_depth(trt *r);

void *trt_alloc(trt *r, size_t n); // zeroed
void *trt_array(trt *r, size_t n, size_t size);
// A block of `n` bytes as one of `want`: in place where it is the newest of the arena.
void *trt_grow(trt *r, void *p, size_t n, size_t want);

static inline void trt_step(trt *r, size_t n)
{
    if (n > r->max_steps - r->steps) trt_fail_steps(r);
    r->steps += n;
}
static inline void trt_enter(trt *r)
{
    if (++r->depth > TRT_MAX_DEPTH) trt_fail_depth(r);
}
static inline void trt_exit(trt *r)
{
    r->depth--;
}

// ---- template_value.c -------------------------------------------------------------------------

static inline tval tval_bool(bool b)
{
    return (tval){T_BOOL, {.b = b}};
}
static inline tval tval_int(int64_t i)
{
    return (tval){T_INT, {.i = i}};
}
static inline tval tval_float(double f)
{
    return (tval){T_FLOAT, {.f = f}};
}
static inline tval tval_str(const tstr *s)
{
    return (tval){T_STRING, {.str = s}};
}
static inline tval tval_none(void)
{
    return (tval){T_NONE, {.i = 0}};
}
static inline tval tval_missing(void)
{
    return (tval){T_MISSING, {.i = 0}};
}
static inline tval tval_list(tlist *l)
{
    return (tval){T_LIST, {.list = l}};
}
static inline tval tval_tuple(tlist *l)
{
    return (tval){T_TUPLE, {.list = l}};
}
static inline tval tval_dict(tdict *d)
{
    return (tval){T_DICT, {.dict = d}};
}
tval tval_undefined(trt *r, const char *hint);
tval tval_undefined_name(trt *r, tval name);
tval tval_no_attribute(trt *r, tval object, tval name);
_Noreturn void tval_fail_undefined(trt *r, tval v);
tval tval_pair(trt *r, tval a, tval b); // a tuple
tval tval_iterator(trt *r, tlist *items, const char *type);

tlist *tlist_new(trt *r, size_t cap);
void tlist_push(trt *r, tlist *l, tval v);
tdict *tdict_new(trt *r, size_t cap);
void tdict_set(trt *r, tdict *d, tval key, tval value);
const tval *tdict_get(trt *r, const tdict *d, tval key); // NULL: no such key
const tval *tdict_find(trt *r, const tdict *d, const char *key);

const char *tval_type(tval v);        // Python's name of the type
const char *tval_object_name(tval v); // as undefined's messages name it
bool tval_true(trt *r, tval v);
bool tval_same(tval a, tval b); // Python's `is`
bool tval_equal(trt *r, tval a, tval b);
bool tval_less(trt *r, tval a, tval b, top op); // OP_LT, LE, GT, GE
bool tval_contains(trt *r, tval container, tval v);
bool tval_is_number(tval v);
bool tval_is_iterable(tval v);
bool tval_has_length(tval v);
size_t tval_length(trt *r, tval v);
double tval_to_double(trt *r, tval v);
// A number that is whole (bool, int) as an integer; fails naming `what` otherwise.
int64_t tval_to_int(trt *r, tval v, const char *what);
// The items of anything iterable; consumes an iterator. Not to be changed: may be v's own.
tlist *tval_items(trt *r, tval v);

tval tval_from_json(trt *r, const json_t *json, tliteral literal);

// ---- template_string.c ------------------------------------------------------------------------

// Collects a string with its literal bytes.
struct tbuf {
    trt *r;
    char *s;
    size_t n, cap, max;
    tliteral literal;
    bool markup; // set by hand
    uint8_t *map;
};

void tbuf_start(tbuf *b, trt *r);
void tbuf_bytes(tbuf *b, const char *s, size_t n, bool literal);
void tbuf_text(tbuf *b, const char *s); // not literal
void tbuf_fill(tbuf *b, char c, size_t n);
void tbuf_printf(tbuf *b, const char *format, ...) PRINTF_LIKE(2, 3);
void tbuf_str(tbuf *b, const tstr *s);
void tbuf_part(tbuf *b, const tstr *s, size_t from, size_t to); // bytes
void tbuf_code(tbuf *b, int32_t code, bool literal);
void tbuf_value(tbuf *b, tval v); // str(v)
const tstr *tbuf_take(tbuf *b);

const tstr *tstr_new(trt *r, const char *s, size_t n, tliteral literal);
const tstr *tstr_c(trt *r, const char *s); // not literal
tval tval_c(trt *r, const char *s);
const tstr *tstr_part(trt *r, const tstr *s, size_t from, size_t to); // bytes
const tstr *tstr_markup(trt *r, const tstr *s, bool markup);
bool tstr_is(const tstr *s, const char *c);
int tstr_compare(const tstr *a, const tstr *b);
static inline bool tstr_equal(const tstr *a, const tstr *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->s, b->s, a->n) == 0);
}
static inline bool tstr_literal_at(const tstr *s, size_t i)
{
    return s->literal == LITERAL_ALL || (s->literal == LITERAL_MIXED && s->map[i]);
}
// Decodes one code point; steps over one byte of what is not UTF-8.
int32_t tstr_decode(const tstr *s, size_t at, size_t *next);
size_t tstr_offset(const tstr *s, size_t chars); // byte offset of a code point
size_t tstr_chars(const char *s, size_t n);      // code points in bytes
size_t tstr_find(trt *r, const tstr *s, const tstr *part, size_t from); // SIZE_MAX: none
size_t tstr_find_last(trt *r, const tstr *s, const tstr *part, size_t to);
const tstr *tstr_strip(trt *r, const tstr *s, const tstr *chars, bool left, bool right);
const tstr *tstr_replace(trt *r, const tstr *s, const tstr *old, const tstr *by, int64_t count);
tlist *tstr_lines(trt *r, const tstr *s, bool keep_ends);
const tstr *tstr_escape(trt *r, const tstr *s);                // HTML
const tstr *tstr_concat(trt *r, const tstr *a, const tstr *b); // with Markup's rules

bool tchar_is_space(int32_t code);
bool tchar_is_word(int32_t code);
bool tchar_is_printable(int32_t code);
bool tchar_is_alpha(int32_t code);
bool tchar_is_decimal(int32_t code);
typedef enum tcase { CASE_UPPER, CASE_LOWER, CASE_CAPITAL, CASE_TITLE, CASE_SWAP } tcase;
const tstr *tstr_case(trt *r, const tstr *s, tcase how);
const tstr *tstr_title_words(trt *r, const tstr *s); // the title filter, not str.title
bool tchar_is_upper(int32_t code);
bool tchar_is_lower(int32_t code);
// template_case.c: characters whose other case is more than one character; UTF-8 or NULL.
const char *tchar_special_upper(int32_t code);
const char *tchar_special_title(int32_t code);

// ---- template_print.c -------------------------------------------------------------------------

const tstr *tval_to_str(trt *r, tval v);  // str(v)
const tstr *tval_to_repr(trt *r, tval v); // repr(v)
void tbuf_repr(tbuf *b, tval v);
void tbuf_float(tbuf *b, double f);
tval tval_to_json(trt *r, tval self, const tval *a, const targs *all); // the filter
tval tval_pretty(trt *r, tval self, const tval *a, const targs *all);  // pprint

// ---- template_format.c ------------------------------------------------------------------------

const tstr *tstr_percent(trt *r, const tstr *format, tval arg);
const tstr *tstr_format(trt *r, const tstr *format, const targs *args);
tval tval_strftime(trt *r, tval self, const tval *a, const targs *all);

// ---- template_wrap.c --------------------------------------------------------------------------

tval twordwrap(trt *r, tval self, const tval *a, const targs *all); // the filter

// ---- template_number.c ------------------------------------------------------------------------

tval tval_arith(trt *r, top op, tval a, tval b); // both numbers
tval tval_negate(trt *r, tval v);
tval tbig_parse(trt *r, const char *digits, size_t n, int base); // small enough: a T_INT
void tbuf_big(tbuf *b, const tbig *v);
int tval_compare_int(tval a, tval b); // bool, int, big
double tbig_to_double(const tbig *v);
bool tbig_is_odd(const tbig *v);
tval tval_from_double(trt *r, double f); // a whole one as an integer
// int(text, base) and float(text); T_MISSING where Python raises ValueError.
tval tval_parse_int(trt *r, const tstr *s, int base);
tval tval_parse_float(trt *r, const tstr *s);
tval tval_round(trt *r, tval v, int64_t digits);

// ---- template_ops.c: operators on values ------------------------------------------------------

tval tval_binary(trt *r, top op, tval a, tval b);
bool tval_compare(trt *r, top op, tval a, tval b);
tval tval_attr(trt *r, tval object, tval name);            // a.name
tval tval_own_attr(trt *r, tval object, const tstr *name); // without items; T_MISSING: none
tval tval_item(trt *r, tval object, tval key);             // a[key]
tval tval_slice(trt *r, tval object, tval start, tval stop, tval step);
// "a.b.0" as filters take it: dotted text or an integer, none: the object itself. `fallback` (or
// T_MISSING) stands for what is undefined on the way.
tval tval_attr_path(trt *r, tval object, tval path, tval fallback);
const tstr *tval_want_str(trt *r, tval v, const char *what); // fails for other types

// ---- template_methods.c, template_split.c, template_filters.c, template_sequences.c,
// template_tests.c -----------

const tfunction *tmethod_find(tval object, const tstr *name);
extern const tfunction tsplit_methods[]; // those of str in template_split.c; name NULL ends
// A method that Python has and the sandbox refuses.
bool tmethod_is_unsafe(tval object, const tstr *name);
const tfunction *tfilter_find(const tstr *name);
extern const tfunction tsequence_filters[]; // the half in template_sequences.c; name NULL ends
const ttest *ttest_find(const tstr *name);
bool tval_test(trt *r, const ttest *t, tval v, const targs *args);
tval tglobal_find(trt *r, const tstr *name); // range, dict, ...; T_MISSING
tval tcycler_attr(trt *r, tval object, const tstr *name);

// ---- template_eval.c, template_exec.c ---------------------------------------------------------

tval trt_eval(trt *r, const tnode *n);
tval trt_call(trt *r, tval callee, const targs *args);
tval trt_call_function(trt *r, const tfunction *f, tval self, const targs *args);
tval trt_call_macro(trt *r, const tmacro *m, const targs *args);
tval trt_call_loop(trt *r, tloop *loop, const targs *args);
tval trt_call_block(trt *r, const tnode *block);
tval tloop_attr(trt *r, tloop *loop, const tstr *name);
void trt_emit(trt *r, tval v); // {{ v }}
void trt_set(trt *r, uint32_t sym, tval v);
tval trt_get(trt *r, uint32_t sym); // T_MISSING: unknown
void trt_run(trt *r, tnode *const *body, size_t n);

// ---- template_lex.c ---------------------------------------------------------------------------

typedef enum ttoken_type {
    TOK_EOF,
    TOK_DATA,
    TOK_VAR_BEGIN,
    TOK_VAR_END,
    TOK_BLOCK_BEGIN,
    TOK_BLOCK_END,
    TOK_NAME,
    TOK_STRING,
    TOK_INTEGER,
    TOK_FLOAT,
    TOK_OP, // value: the operator's text
} ttoken_type;

typedef struct ttoken {
    ttoken_type type;
    int line;
    tval value;
    char op[3];
} ttoken;

ttoken *tlex(trt *r, const char *source, size_t n, size_t *n_tokens);

// ---- template_scope.c -------------------------------------------------------------------------

void tscope_analyse(trt *r, tnode *body); // fills the nodes' `hidden`

// ---- template_parse.c, template_expr.c --------------------------------------------------------

typedef struct tparser {
    trt *r;
    const ttoken *tok; // current
    int nesting;
    int loops; // around this place, for break and continue
    // An unknown filter or test is an error at once, but inside an if (`soft`) or a conditional
    // expression only when it is reached.
    bool soft;
    const tnode *unknown;
    tdict *symbols;
    tlist *names;
    const char *open_tag;           // the innermost, for messages
    const char *const *looking_for; // the tags that may end it, NULL-terminated
    struct tmacro_use {             // innermost first
        struct tmacro_use *outer;
        tsignature *macro;
    } *macros;
    tnode **blocks;
    size_t n_blocks, cap_blocks;
} tparser;

tnode *tparse(trt *r, const ttoken *tokens, tmpl *t);
tnode *tparse_node(tparser *p, tnode_type type);
void tparse_depth(tparser *p, tnode *n, const tnode *kid);
void tparse_push(tparser *p, tnode *n, tnode *kid); // appends to kids
void tparse_enter(tparser *p);
void tparse_leave(tparser *p);
uint32_t tparse_symbol(tparser *p, const tstr *name);
bool tparse_is_op(const tparser *p, const char *op);
bool tparse_is_name(const tparser *p, const char *name);
bool tparse_skip_op(tparser *p, const char *op);
bool tparse_skip_name(tparser *p, const char *name);
void tparse_expect_op(tparser *p, const char *op);
const tstr *tparse_expect_name(tparser *p);
const char *ttoken_describe(trt *r, const ttoken *t);
_Noreturn void tparse_fail(tparser *p, int line, const char *format, ...) PRINTF_LIKE(3, 4);

tnode *texpr(tparser *p, bool with_cond);
// `stop`: a name that ends it ("in", "recursive"), or NULL.
tnode *texpr_tuple(tparser *p, bool with_cond, const char *stop, bool in_parentheses);
tnode *texpr_primary(tparser *p);
tnode *texpr_filters(tparser *p, tnode *input, bool start_inline);

#endif
