#include "chat/template.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "chat/template_internal.h"

enum { CHUNK_BYTES = 64 << 10, MAX_SOURCE = 16 << 20, MAX_TREE_BYTES = 256 << 20 };

// ---- the arena --------------------------------------------------------------------------------

static void free_chunks(tchunk *c)
{
    while (c) {
        tchunk *next = c->next;
        free(c);
        c = next;
    }
}

static size_t round_up(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

void *trt_alloc(trt *r, size_t n)
{
    if (n > r->max_bytes)
        trt_fail(r, "needs more memory than the limit of %zu bytes", r->max_bytes);
    n = round_up(n ? n : 1);
    tchunk *c = r->memory;
    if (!c || c->cap - c->used < n) {
        size_t cap = n > CHUNK_BYTES ? n : CHUNK_BYTES;
        if (cap > r->max_bytes - r->n_bytes)
            trt_fail(r, "needs more memory than the limit of %zu bytes", r->max_bytes);
        c = calloc(1, sizeof *c + cap);
        if (!c) trt_fail(r, "out of memory");
        r->n_bytes += cap;
        c->cap = cap;
        // A large block of its own goes behind the chunk that still has room.
        if (r->memory && cap == n && n > CHUNK_BYTES / 4) {
            c->used = n;
            c->next = r->memory->next;
            r->memory->next = c;
            return c->data;
        }
        c->next = r->memory;
        r->memory = c;
    }
    void *p = (char *)c->data + c->used;
    c->used += n;
    return p;
}

void *trt_array(trt *r, size_t n, size_t size)
{
    if (size && n > r->max_bytes / size)
        trt_fail(r, "needs more memory than the limit of %zu bytes", r->max_bytes);
    return trt_alloc(r, n * size);
}

void *trt_grow(trt *r, void *p, size_t n, size_t want)
{
    tchunk *c = r->memory;
    size_t have = round_up(n ? n : 1);
    if (p && c && want <= r->max_bytes && (char *)p + have == (char *)c->data + c->used) {
        size_t more = round_up(want) - have;
        if (more <= c->cap - c->used) {
            c->used += more;
            return p;
        }
    }
    void *fresh = trt_alloc(r, want);
    if (p && n) memcpy(fresh, p, n);
    return fresh;
}

// ---- leaving with an error --------------------------------------------------------------------

void trt_fail(trt *r, const char *format, ...)
{
    char text[900];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    r->status =
        error_set(r->parsing ? PM_ERROR_FILE : PM_ERROR_RUN, "template line %d: %s", r->line, text);
    longjmp(r->leave, 1);
}

void trt_raise(trt *r, const tstr *message)
{
    size_t n = message->n < 4096 ? message->n : 4096;
    r->status = error_set(PM_ERROR_RUN, "%.*s", (int)n, n ? message->s : "");
    longjmp(r->leave, 1);
}

void trt_fail_steps(trt *r)
{
    trt_fail(r, "takes more than the limit of %zu steps", r->max_steps);
}

void trt_fail_depth(trt *r)
{
    trt_fail(r, "maximum recursion depth exceeded");
}

// ---- parsing ----------------------------------------------------------------------------------

// Everything that can leave by longjmp, apart from the function that calls setjmp.
static void parse_all(trt *r, const char *source, size_t n, tmpl *t)
{
    size_t n_tokens;
    const ttoken *tokens = tlex(r, source, n, &n_tokens);
    t->body = tparse(r, tokens, t);
    tscope_analyse(r, t->body);
}

pm_status tmpl_parse(const char *source, size_t n, tmpl **out)
{
    if (n > MAX_SOURCE)
        return error_set(PM_ERROR_FILE, "template line 1: the template has %zu bytes (at most %d)",
                         n, (int)MAX_SOURCE);
    tmpl *t = calloc(1, sizeof *t);
    trt *r = calloc(1, sizeof *r);
    pm_status status;
    if (!t || !r) {
        status = error_memory("a template", sizeof *t + sizeof *r);
        goto end;
    }
    r->max_bytes = MAX_TREE_BYTES;
    r->max_steps = SIZE_MAX;
    r->max_output = SIZE_MAX;
    r->line = 1;
    r->parsing = true;
    if (setjmp(r->leave) == 0) {
        parse_all(r, source, n, t);
        r->status = PM_OK;
    }
    status = r->status;
    t->memory = r->memory;
    if (status == PM_OK) {
        *out = t;
        t = NULL;
    }
end:
    free(r);
    tmpl_free(t);
    return status;
}

void tmpl_free(tmpl *t)
{
    if (!t) return;
    free_chunks(t->memory);
    free(t);
}

// ---- rendering --------------------------------------------------------------------------------

static bool is_trusted(const trt *r, const char *name)
{
    for (const char *const *t = r->trusted; t && *t; t++)
        if (strcmp(*t, name) == 0) return true;
    return false;
}

// Only the names that the template mentions are looked up and converted.
static void fill_globals(trt *r)
{
    const tmpl *t = r->t;
    r->globals = trt_array(r, t->n_names, sizeof *r->globals);
    for (size_t i = 0; i < t->n_names; i++) {
        const tstr *name = t->names[i].u.str; // zero-terminated by the parser
        const json_t *v = r->vars ? json_object_get(r->vars, name->s) : NULL;
        if (v)
            r->globals[i] =
                tval_from_json(r, v, is_trusted(r, name->s) ? LITERAL_ALL : LITERAL_NONE);
        else
            r->globals[i] = tglobal_find(r, name);
    }
    for (uint32_t i = 0; i < t->body->n_hidden; i++)
        r->globals[t->body->hidden[i]] = tval_missing();
    if (r->globals[SYM_SELF].kind == T_MISSING) r->globals[SYM_SELF] = (tval){T_SELF, {.i = 0}};
}

static void render_all(trt *r, tbuf *out)
{
    tbuf_start(out, r);
    out->max = r->max_output;
    fill_globals(r);
    r->scope = trt_alloc(r, sizeof *r->scope);
    r->out = out;
    trt_run(r, r->t->body->kids, r->t->body->n);
}

// The collected text leaves the arena, its literal bytes become runs.
static pm_status hand_over(const tbuf *b, tmpl_output *out)
{
    buf runs = {0};
    tmpl_output o = {0};
    for (size_t i = 0; i < b->n;) {
        struct tmpl_run run = {0, b->literal == LITERAL_ALL};
        if (b->literal == LITERAL_MIXED) {
            run.literal = b->map[i];
            while (i + run.n < b->n && b->map[i + run.n] == b->map[i]) run.n++;
        } else {
            run.n = b->n;
        }
        buf_add(&runs, &run, sizeof run);
        o.n_runs++;
        i += run.n;
    }
    o.n = b->n;
    o.text = malloc(b->n + 1);
    if (!o.text || runs.failed) {
        free(o.text);
        buf_free(&runs);
        return error_memory("a rendered template", b->n);
    }
    if (b->n) memcpy(o.text, b->s, b->n);
    o.text[b->n] = 0;
    o.runs = (void *)runs.data;
    *out = o;
    return PM_OK;
}

pm_status tmpl_render(const tmpl *t, const json_t *vars, double now, const char *const *trusted,
                      const tmpl_limits *limits, tmpl_output *out)
{
    trt *r = calloc(1, sizeof *r);
    if (!r) return error_memory("a rendering", sizeof *r);
    tbuf text = {0};
    r->max_bytes = limits && limits->max_memory ? limits->max_memory : (size_t)400 * 1000 * 1000;
    r->max_steps = limits && limits->max_steps ? limits->max_steps : 50 * 1000 * 1000;
    r->max_output = limits && limits->max_output ? limits->max_output : (size_t)64 << 20;
    r->t = t;
    r->vars = json_is_object(vars) ? vars : NULL;
    r->now = now;
    r->trusted = trusted;
    r->line = 1;
    if (setjmp(r->leave) == 0) {
        render_all(r, &text);
        r->status = hand_over(&text, out);
    }
    pm_status status = r->status;
    free_chunks(r->memory);
    free(r);
    return status;
}

void tmpl_output_free(tmpl_output *o)
{
    if (!o) return;
    free(o->text);
    free(o->runs);
    *o = (tmpl_output){0};
}
