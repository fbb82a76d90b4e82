// From a grammar's text to nodes.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text/grammar.h"

enum {
    MAX_NODES = 1 << 17,
    MAX_RULES = 1 << 13,
    MAX_NESTED = 200, // brackets
    MAX_RANGES = 512, // of a class
    MAX_PASSES = 512,
};

typedef struct parser {
    grammar *g;
    const char *at, *end;
    uint32_t line, nested;
    pm_status status;
} parser;

// A part of the graph: entered at `start`, left by the JUMP at `end`. Its nodes are all those from
// `first` on, so that it can be copied.
typedef struct fragment {
    uint32_t first, start, end;
} fragment;

typedef struct range {
    uint32_t low, high;
} range;

static pm_status wrong(parser *p, const char *what)
{
    if (p->status == PM_OK)
        p->status = error_set(PM_ERROR_USAGE, "line %" PRIu32 ": %s", p->line, what);
    return p->status;
}

// ---- nodes ------------------------------------------------------------------------------------

static bool grow(void **list, uint32_t *cap, uint32_t n, size_t size)
{
    if (n < *cap) return true;
    uint32_t more = *cap ? 2 * *cap : 64;
    void *bigger = realloc(*list, more * size);
    if (!bigger) return false;
    *list = bigger;
    *cap = more;
    return true;
}

static uint32_t add_node(parser *p, grammar_kind kind, uint32_t a, uint32_t b)
{
    grammar *g = p->g;
    if (p->status != PM_OK) return 0;
    if (g->n_nodes == MAX_NODES) {
        wrong(p, "the grammar is too large");
        return 0;
    }
    if (!grow((void **)&g->nodes, &g->cap_nodes, g->n_nodes, sizeof *g->nodes)) {
        p->status = error_memory("a grammar", g->n_nodes);
        return 0;
    }
    g->nodes[g->n_nodes] = (grammar_node){.kind = kind, .a = a, .b = b};
    return g->n_nodes++;
}

static void point(parser *p, uint32_t jump, uint32_t to)
{
    if (p->status == PM_OK) p->g->nodes[jump].a = to;
}

static uint32_t add_set(parser *p, unsigned low, unsigned high)
{
    grammar *g = p->g;
    uint64_t set[4] = {0};
    for (unsigned b = low; b <= high; b++) set[b / 64] |= UINT64_C(1) << b % 64;
    for (uint32_t i = g->n_sets; i-- > 0 && i + 64 > g->n_sets;) {
        if (!memcmp(g->sets[i], set, sizeof set)) return i;
    }
    if (!grow((void **)&g->sets, &g->cap_sets, g->n_sets, sizeof *g->sets)) {
        p->status = error_memory("a grammar", g->n_sets);
        return 0;
    }
    memcpy(g->sets[g->n_sets], set, sizeof set);
    return g->n_sets++;
}

// ---- fragments --------------------------------------------------------------------------------

static fragment empty(parser *p)
{
    uint32_t jump = add_node(p, GRAMMAR_JUMP, 0, 0);
    return (fragment){jump, jump, jump};
}

static fragment sequence(parser *p, fragment a, fragment b)
{
    point(p, a.end, b.start);
    return (fragment){a.first, a.start, b.end};
}

static fragment either(parser *p, fragment a, fragment b)
{
    uint32_t split = add_node(p, GRAMMAR_SPLIT, a.start, b.start);
    uint32_t end = add_node(p, GRAMMAR_JUMP, 0, 0);
    point(p, a.end, end);
    point(p, b.end, end);
    return (fragment){a.first, split, end};
}

// a as often as it likes, at least once with `once`.
static fragment repeated(parser *p, fragment a, bool once)
{
    uint32_t split = add_node(p, GRAMMAR_SPLIT, a.start, 0);
    uint32_t end = add_node(p, GRAMMAR_JUMP, 0, 0);
    if (p->status == PM_OK) p->g->nodes[split].b = end;
    point(p, a.end, split);
    return (fragment){a.first, once ? a.start : split, end};
}

static fragment optional(parser *p, fragment a)
{
    uint32_t split = add_node(p, GRAMMAR_SPLIT, a.start, a.end);
    return (fragment){a.first, split, a.end};
}

// The nodes [first, end) once more; links among them go to the copies.
static fragment copy(parser *p, fragment a, uint32_t end)
{
    uint32_t by = p->status == PM_OK ? p->g->n_nodes - a.first : 0;
    for (uint32_t i = a.first; i < end && p->status == PM_OK; i++) {
        grammar_node n = p->g->nodes[i];
        bool links_a = n.kind == GRAMMAR_JUMP || n.kind == GRAMMAR_SPLIT;
        bool links_b = n.kind != GRAMMAR_JUMP && n.kind != GRAMMAR_END;
        if (links_a && n.a >= a.first) n.a += by;
        if (links_b && n.b >= a.first) n.b += by;
        add_node(p, n.kind, n.a, n.b);
    }
    return (fragment){a.first + by, a.start + by, a.end + by};
}

// ---- characters -------------------------------------------------------------------------------

// One sequence of bytes from those of `low` to those of `high`, which differ so that each byte's
// range is independent of the others.
static fragment byte_sequence(parser *p, uint32_t low, uint32_t high)
{
    char a[4], b[4];
    size_t n = text_utf8_put(low, a);
    text_utf8_put(high, b);
    uint32_t first = p->g->n_nodes, at = 0, before = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t set = add_set(p, (unsigned char)a[i], (unsigned char)b[i]);
        at = add_node(p, GRAMMAR_BYTE, set, 0);
        if (i > 0 && p->status == PM_OK) p->g->nodes[before].b = at;
        before = at;
    }
    uint32_t end = add_node(p, GRAMMAR_JUMP, 0, 0);
    if (p->status == PM_OK) p->g->nodes[at].b = end;
    return (fragment){first, first, end};
}

// Splits [low, high] where the encoding changes its length or its independent bytes.
static void add_range(parser *p, uint32_t low, uint32_t high, fragment *all, bool *any)
{
    static const uint32_t last_of_length[] = {0x7f, 0x7ff, 0xffff};
    for (size_t i = 0; i < 3; i++) {
        uint32_t last = last_of_length[i];
        if (low > last || high <= last) continue;
        add_range(p, low, last, all, any);
        add_range(p, last + 1, high, all, any);
        return;
    }
    size_t length = low <= 0x7f ? 1 : low <= 0x7ff ? 2 : low <= 0xffff ? 3 : 4;
    for (size_t i = 1; i < length; i++) {
        uint32_t rest = (UINT32_C(1) << 6 * i) - 1;
        if ((low & ~rest) == (high & ~rest)) continue;
        if (low & rest) {
            add_range(p, low, low | rest, all, any);
            add_range(p, (low | rest) + 1, high, all, any);
            return;
        }
        if ((high & rest) != rest) {
            add_range(p, low, (high & ~rest) - 1, all, any);
            add_range(p, high & ~rest, high, all, any);
            return;
        }
    }
    fragment f = byte_sequence(p, low, high);
    *all = *any ? either(p, *all, f) : f;
    *any = true;
}

static int by_low(const void *a, const void *b)
{
    const range *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

// Ascending, without overlap.
static size_t merge(range *list, size_t n)
{
    qsort(list, n, sizeof *list, by_low);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (kept > 0 && list[i].low <= list[kept - 1].high + 1) {
            if (list[i].high > list[kept - 1].high) list[kept - 1].high = list[i].high;
        } else {
            list[kept++] = list[i];
        }
    }
    return kept;
}

// What is not in the list; it has room for one more.
static size_t invert(range *list, size_t n)
{
    uint32_t from = 0;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        range r = list[i];
        if (r.low > from) list[kept++] = (range){from, r.low - 1};
        from = r.high + 1;
    }
    if (from <= 0x10ffff) list[kept++] = (range){from, 0x10ffff};
    return kept;
}

// A character of a list; surrogates are none.
static fragment characters(parser *p, range *list, size_t n)
{
    fragment all = {0};
    bool any = false;
    uint32_t first = p->g->n_nodes;
    for (size_t i = 0; i < n && p->status == PM_OK; i++) {
        range r = list[i];
        if (r.low < 0xd800 && r.high > 0xdfff) {
            add_range(p, r.low, 0xd7ff, &all, &any);
            add_range(p, 0xe000, r.high, &all, &any);
            continue;
        }
        if (r.low >= 0xd800 && r.low <= 0xdfff) r.low = 0xe000;
        if (r.high >= 0xd800 && r.high <= 0xdfff) r.high = 0xd7ff;
        if (r.low <= r.high) add_range(p, r.low, r.high, &all, &any);
    }
    if (!any) wrong(p, "a class without a character");
    all.first = first;
    return all;
}

// ---- words of the language --------------------------------------------------------------------

static char peek(const parser *p)
{
    return p->at < p->end ? *p->at : 0;
}

static void skip(parser *p, bool lines)
{
    while (p->at < p->end) {
        char c = *p->at;
        if (c == '#') {
            while (p->at < p->end && *p->at != '\n') p->at++;
        } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
            p->line += c == '\n';
            p->at++;
        } else {
            return;
        }
    }
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static uint32_t rule_named(parser *p, const char *name, size_t n)
{
    grammar *g = p->g;
    for (uint32_t i = 0; i < g->n_rules; i++) {
        if (strlen(g->rules[i].name) == n && !memcmp(g->rules[i].name, name, n)) return i;
    }
    if (g->n_rules == MAX_RULES) {
        wrong(p, "too many rules");
        return 0;
    }
    char *own = strndup(name, n);
    if (!own || !grow((void **)&g->rules, &g->cap_rules, g->n_rules, sizeof *g->rules)) {
        free(own);
        p->status = error_memory("a grammar", n);
        return 0;
    }
    g->rules[g->n_rules] = (grammar_rule){.name = own, .used_at = p->line};
    return g->n_rules++;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static uint32_t hex(parser *p, int digits)
{
    uint32_t value = 0;
    for (int i = 0; i < digits; i++, p->at++) {
        int d = hex_value(peek(p));
        if (d < 0) {
            wrong(p, "an escape has too few hexadecimal digits");
            return 0;
        }
        value = value * 16 + (uint32_t)d;
    }
    if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) {
        wrong(p, "an escape is no character");
        return 0;
    }
    return value;
}

// One character of a literal or class.
static uint32_t character(parser *p)
{
    if (*p->at != '\\') {
        size_t n;
        uint32_t c = text_utf8_next(p->at, (size_t)(p->end - p->at), &n);
        if (c == 0xfffd && n == 1) wrong(p, "invalid UTF-8");
        p->at += n;
        return c;
    }
    p->at++;
    char c = peek(p);
    if (p->at < p->end) p->at++;
    switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'x': return hex(p, 2);
    case 'u': return hex(p, 4);
    case 'U': return hex(p, 8);
    default: break;
    }
    if (!c || !strchr("\\\"[]-^'/", c)) wrong(p, "an unknown escape behind \\");
    return (unsigned char)c;
}

static fragment literal(parser *p)
{
    fragment all = empty(p);
    p->at++;
    while (p->status == PM_OK && peek(p) != '"') {
        if (p->at == p->end || *p->at == '\n') {
            wrong(p, "a literal has no closing \"");
            break;
        }
        uint32_t c = character(p);
        if (p->status == PM_OK) all = sequence(p, all, byte_sequence(p, c, c));
    }
    p->at++;
    return all;
}

static fragment class_of(parser *p)
{
    range list[MAX_RANGES + 1];
    size_t n = 0;
    p->at++;
    bool negated = peek(p) == '^';
    if (negated) p->at++;
    while (p->status == PM_OK && peek(p) != ']') {
        if (p->at == p->end || *p->at == '\n') {
            wrong(p, "a class has no closing ]");
            break;
        }
        uint32_t low = character(p), high = low;
        if (peek(p) == '-' && p->at + 1 < p->end && p->at[1] != ']') {
            p->at++;
            high = character(p);
        }
        if (p->status == PM_OK && low > high) wrong(p, "a range goes backwards");
        if (p->status == PM_OK && n == MAX_RANGES) wrong(p, "a class is too large");
        if (p->status == PM_OK) list[n++] = (range){low, high};
    }
    p->at++;
    if (p->status != PM_OK) return empty(p);
    n = merge(list, n);
    if (negated) n = invert(list, n);
    return characters(p, list, n);
}

static fragment alternatives(parser *p, bool lines);

static fragment group(parser *p)
{
    p->at++;
    if (++p->nested > MAX_NESTED) {
        wrong(p, "brackets are nested too deeply");
        return empty(p);
    }
    fragment f = alternatives(p, true);
    p->nested--;
    if (p->status == PM_OK && peek(p) != ')') wrong(p, "a bracket is not closed");
    p->at++;
    return f;
}

static fragment call(parser *p)
{
    const char *name = p->at;
    while (p->at < p->end && is_name(*p->at)) p->at++;
    uint32_t rule = rule_named(p, name, (size_t)(p->at - name));
    uint32_t at = add_node(p, GRAMMAR_CALL, rule, 0), end = add_node(p, GRAMMAR_JUMP, 0, 0);
    if (p->status == PM_OK) p->g->nodes[at].b = end;
    return (fragment){at, at, end};
}

// ---- repetition -------------------------------------------------------------------------------

static bool number(parser *p, uint32_t *out)
{
    skip(p, false);
    if (peek(p) < '0' || peek(p) > '9') return false;
    for (*out = 0; peek(p) >= '0' && peek(p) <= '9'; p->at++) {
        *out = *out * 10 + (uint32_t)(*p->at - '0');
        if (*out > MAX_NODES) *out = MAX_NODES;
    }
    skip(p, false);
    return true;
}

// f{low,high}: copies one after the other, those behind `low` optional.
static fragment counted(parser *p, fragment f, uint32_t low, uint32_t high, bool endless)
{
    uint32_t end = p->g->n_nodes, n = endless ? (low > 0 ? low : 1) : high;
    if (n == 0) return empty(p);
    fragment all = {0};
    // From the last copy back, so that an optional one holds all that follow it. Links are set only
    // after the last copying: copies have none to each other.
    fragment *parts = calloc(n, sizeof *parts);
    if (!parts) {
        p->status = error_memory("a grammar", n);
        return f;
    }
    parts[0] = f;
    for (uint32_t i = 1; i < n && p->status == PM_OK; i++) parts[i] = copy(p, f, end);
    for (uint32_t i = n; i-- > 0 && p->status == PM_OK;) {
        fragment part = parts[i];
        bool last = i + 1 == n;
        if (last && endless) part = repeated(p, part, low > 0);
        all = last ? part : (fragment){part.first, part.start, all.end};
        if (!last) point(p, parts[i].end, parts[i + 1].start);
        if (!endless && i >= low) {
            parts[i] = optional(p, all);
            all = parts[i];
        } else {
            parts[i] = all;
        }
    }
    free(parts);
    all.first = f.first;
    return all;
}

static fragment braces(parser *p, fragment f)
{
    uint32_t low = 0, high = 0;
    bool endless = false;
    p->at++;
    bool good = number(p, &low);
    high = low;
    if (good && peek(p) == ',') {
        p->at++;
        endless = !number(p, &high);
    }
    if (!good || peek(p) != '}') {
        wrong(p, "{ needs a number, two, or a number and a comma");
    } else if (!endless && high < low) {
        wrong(p, "a repetition's second number is below its first");
    }
    p->at++;
    return p->status == PM_OK ? counted(p, f, low, high, endless) : f;
}

static fragment element(parser *p)
{
    char c = peek(p);
    fragment f = {0};
    if (c == '"') {
        f = literal(p);
    } else if (c == '[') {
        f = class_of(p);
    } else if (c == '(') {
        f = group(p);
    } else if (c == '.') {
        p->at++;
        range all = {0, 0x10ffff};
        f = characters(p, &all, 1);
    } else {
        f = call(p);
    }
    for (int marks = 0; p->status == PM_OK; marks++) {
        skip(p, p->nested > 0);
        c = peek(p);
        if (c != '*' && c != '+' && c != '?' && c != '{') break;
        if (marks == 8) wrong(p, "too many repetitions of one thing");
        if (c == '{') {
            f = braces(p, f);
            continue;
        }
        p->at++;
        if (c == '*') f = repeated(p, f, false);
        if (c == '+') f = repeated(p, f, true);
        if (c == '?') f = optional(p, f);
    }
    return f;
}

static fragment alternative(parser *p, bool lines)
{
    fragment all = empty(p);
    for (;;) {
        skip(p, lines);
        char c = peek(p);
        bool begins = is_name(c) || (c && strchr("\"[(.", c));
        if (!begins || p->status != PM_OK) return all;
        all = sequence(p, all, element(p));
    }
}

static fragment alternatives(parser *p, bool lines)
{
    uint32_t first = p->g->n_nodes;
    fragment all = alternative(p, lines);
    while (p->status == PM_OK && peek(p) == '|') {
        p->at++;
        skip(p, true);
        all = either(p, all, alternative(p, lines));
    }
    all.first = first;
    return all;
}

static void rule(parser *p)
{
    const char *name = p->at;
    while (p->at < p->end && is_name(*p->at)) p->at++;
    if (p->at == name) {
        wrong(p, "a rule's name is expected");
        return;
    }
    uint32_t index = rule_named(p, name, (size_t)(p->at - name));
    skip(p, false);
    if (p->status != PM_OK) return;
    if (p->end - p->at < 3 || memcmp(p->at, "::=", 3) != 0) {
        wrong(p, "::= is expected behind a rule's name");
        return;
    }
    p->at += 3;
    if (p->g->rules[index].line) {
        wrong(p, "a rule is defined twice");
        return;
    }
    uint32_t line = p->line;
    skip(p, true);
    fragment f = alternatives(p, false);
    uint32_t end = add_node(p, GRAMMAR_END, 0, 0);
    point(p, f.end, end);
    if (p->status == PM_OK && p->at < p->end && *p->at != '\n' && *p->at != '\r') {
        wrong(p, "something that begins nothing");
    }
    if (p->status != PM_OK) return;
    p->g->rules[index].start = f.start;
    p->g->rules[index].line = line ? line : 1;
}

// ---- what a whole grammar must be -------------------------------------------------------------

static uint32_t add_bytes(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - 1 - b || b == UINT32_MAX ? UINT32_MAX : a + b;
}

static bool improve(grammar *g, uint32_t i)
{
    grammar_node *n = &g->nodes[i];
    const grammar_node *all = g->nodes;
    uint32_t best = 0;
    switch (n->kind) {
    case GRAMMAR_END: break;
    case GRAMMAR_JUMP: best = all[n->a].shortest; break;
    case GRAMMAR_SPLIT:
        best = all[n->a].shortest < all[n->b].shortest ? all[n->a].shortest : all[n->b].shortest;
        break;
    case GRAMMAR_BYTE: best = add_bytes(1, all[n->b].shortest); break;
    case GRAMMAR_CALL:
        best = all[n->b].shortest == UINT32_MAX
                   ? UINT32_MAX
                   : add_bytes(all[g->rules[n->a].start].shortest, all[n->b].shortest);
        break;
    }
    if (best >= n->shortest) return false;
    n->shortest = best;
    return true;
}

// Passes in both directions, since rules may be defined in any order.
static pm_status find_shortest(grammar *g)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) g->nodes[i].shortest = UINT32_MAX;
    bool changed = true;
    for (int pass = 0; changed; pass++) {
        if (pass == MAX_PASSES) return error_set(PM_ERROR_USAGE, "the rules are nested too deeply");
        changed = false;
        for (uint32_t i = g->n_nodes; i-- > 0;) changed |= improve(g, i);
        for (uint32_t i = 0; i < g->n_nodes; i++) changed |= improve(g, i);
    }
    for (uint32_t i = 0; i < g->n_rules; i++) {
        const grammar_rule *r = &g->rules[i];
        if (g->nodes[r->start].shortest == UINT32_MAX) {
            return error_set(PM_ERROR_USAGE, "line %" PRIu32 ": rule '%s' has no end", r->line,
                             r->name);
        }
        g->rules[i].empty = g->nodes[r->start].shortest == 0;
    }
    return PM_OK;
}

// Does a rule come to itself before any byte? Marks: 0 new, 1 on the way, 2 done.
typedef struct search {
    grammar *g;
    uint8_t *rule_marks;
    uint32_t *seen; // [n_nodes] the rule that last looked at a node, plus one
    uint32_t *stack, n_stack, cap_stack;
    uint32_t depth;
} search;

static pm_status look_at_rule(search *s, uint32_t rule_index);

static bool push(search *s, uint32_t node, uint32_t rule_index)
{
    if (s->seen[node] == rule_index + 1) return true;
    s->seen[node] = rule_index + 1;
    if (!grow((void **)&s->stack, &s->cap_stack, s->n_stack, sizeof *s->stack)) return false;
    s->stack[s->n_stack++] = node;
    return true;
}

static pm_status look_at_rule(search *s, uint32_t rule_index)
{
    grammar *g = s->g;
    if (s->rule_marks[rule_index] == 2) return PM_OK;
    if (s->rule_marks[rule_index] == 1 || s->depth > 1000) {
        return error_set(PM_ERROR_USAGE,
                         s->depth > 1000 ? "line %" PRIu32 ": rule '%s' is nested too deeply"
                                         : "line %" PRIu32
                                           ": rule '%s' begins with itself (left recursion: "
                                           "write it with * or with itself at the end)",
                         g->rules[rule_index].line, g->rules[rule_index].name);
    }
    s->rule_marks[rule_index] = 1;
    s->depth++;
    uint32_t base = s->n_stack;
    pm_status status = PM_OK;
    bool good = push(s, g->rules[rule_index].start, rule_index);
    while (good && status == PM_OK && s->n_stack > base) {
        grammar_node n = g->nodes[s->stack[--s->n_stack]];
        if (n.kind == GRAMMAR_JUMP || n.kind == GRAMMAR_SPLIT) good = push(s, n.a, rule_index);
        if (good && n.kind == GRAMMAR_SPLIT) good = push(s, n.b, rule_index);
        if (n.kind != GRAMMAR_CALL) continue;
        status = look_at_rule(s, n.a);
        if (status == PM_OK && g->rules[n.a].empty) good = push(s, n.b, rule_index);
    }
    s->depth--;
    s->rule_marks[rule_index] = 2;
    return good ? status : error_memory("a grammar", s->n_stack);
}

static pm_status refuse_left_recursion(grammar *g)
{
    search s = {.g = g,
                .rule_marks = calloc(g->n_rules + 1, 1),
                .seen = calloc(g->n_nodes + 1, sizeof *s.seen)};
    pm_status status =
        s.rule_marks && s.seen ? PM_OK : error_memory("a grammar", g->n_nodes * sizeof *s.seen);
    for (uint32_t i = 0; i < g->n_rules && status == PM_OK; i++) status = look_at_rule(&s, i);
    free(s.rule_marks);
    free(s.seen);
    free(s.stack);
    return status;
}

static pm_status check_rules(grammar *g)
{
    bool root = false;
    for (uint32_t i = 0; i < g->n_rules; i++) {
        const grammar_rule *r = &g->rules[i];
        if (!r->line) {
            return error_set(PM_ERROR_USAGE, "line %" PRIu32 ": no rule '%.60s'", r->used_at,
                             r->name);
        }
        if (strcmp(r->name, "root") != 0) continue;
        root = true;
        g->root = i;
    }
    return root ? PM_OK : error_set(PM_ERROR_USAGE, "there is no rule 'root'");
}

pm_status grammar_parse(const char *source, size_t n, grammar **out)
{
    grammar *g = calloc(1, sizeof *g);
    if (!g) return error_memory("a grammar", sizeof *g);
    parser p = {.g = g, .at = source, .end = source + n, .line = 1};
    for (skip(&p, true); p.status == PM_OK && p.at < p.end; skip(&p, true)) rule(&p);
    pm_status status = p.status;
    if (status == PM_OK) status = check_rules(g);
    if (status == PM_OK) status = find_shortest(g);
    if (status == PM_OK) status = refuse_left_recursion(g);
    if (status == PM_OK) {
        *out = g;
    } else {
        grammar_free(g);
    }
    return status;
}

void grammar_free(grammar *g)
{
    if (!g) return;
    for (uint32_t i = 0; i < g->n_rules; i++) free(g->rules[i].name);
    free(g->rules);
    free(g->nodes);
    free(g->sets);
    free(g);
}

uint64_t grammar_shortest(const grammar *g)
{
    return g->nodes[g->rules[g->root].start].shortest;
}
