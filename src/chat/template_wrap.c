// The filter wordwrap, as Python's textwrap cuts lines.
#include <string.h>

#include "chat/template_internal.h"

typedef struct span {
    size_t from, to; // characters
} span;

typedef struct wrapper {
    trt *r;
    const tstr *s;
    int32_t *code; // of each of n characters
    size_t *at;    // its byte; at[n] is the end
    size_t n;
    size_t width;
    bool break_long, hyphens;
    span *chunks;
    size_t n_chunks;
} wrapper;

// ---- chunks: what is not cut unless it is longer than a line ---------------------------------

static bool is_blank(int32_t c)
{
    return c > 0 && c < 128 && strchr(" \t\n\v\f\r", c);
}

static bool is_letter(const wrapper *w, size_t i)
{
    return i < w->n && tchar_is_word(w->code[i]) && !tchar_is_decimal(w->code[i]);
}

// The end of a dash between two words ("--" or longer) at i; 0: there is none.
static size_t dash_end(const wrapper *w, size_t i)
{
    size_t end = i;
    if (i == 0 || w->code[i] != '-') return 0;
    int32_t c = w->code[i - 1];
    if (!tchar_is_word(c) && !(c > 0 && c < 128 && strchr("!\"'&.,?", c))) return 0;
    while (end < w->n && w->code[end] == '-') end++;
    return end >= i + 2 && end < w->n && tchar_is_word(w->code[end]) ? end : 0;
}

// A hyphen at i behind which a word may be cut: "ab-cd", "a-b-c".
static bool cuts_word(const wrapper *w, size_t i)
{
    if (w->code[i] != '-') return false;
    bool before = (i >= 2 && is_letter(w, i - 1) && is_letter(w, i - 2)) ||
                  (i >= 3 && is_letter(w, i - 1) && w->code[i - 2] == '-' && is_letter(w, i - 3));
    size_t next = i + 2 < w->n && w->code[i + 2] == '-' ? i + 3 : i + 2;
    return before && is_letter(w, i + 1) && is_letter(w, next);
}

static size_t chunk_end(const wrapper *w, size_t i)
{
    bool blank = is_blank(w->code[i]);
    size_t dash = w->hyphens && !blank ? dash_end(w, i) : 0;
    if (dash) return dash;
    for (i++; i < w->n && is_blank(w->code[i]) == blank; i++) {
        if (blank || !w->hyphens) continue;
        if (cuts_word(w, i)) return i + 1;
        if (dash_end(w, i)) return i;
    }
    return i;
}

static void split_chunks(wrapper *w)
{
    w->code = trt_array(w->r, w->s->n_chars + 1, sizeof *w->code);
    w->at = trt_array(w->r, w->s->n_chars + 1, sizeof *w->at);
    w->chunks = trt_array(w->r, w->s->n_chars + 1, sizeof *w->chunks);
    for (size_t i = 0, next; i < w->s->n && w->n < w->s->n_chars; i = next) {
        w->at[w->n] = i;
        w->code[w->n++] = tstr_decode(w->s, i, &next);
    }
    w->at[w->n] = w->s->n;
    for (size_t i = 0; i < w->n;) {
        size_t end = chunk_end(w, i);
        w->chunks[w->n_chunks++] = (span){i, end};
        i = end;
    }
    trt_step(w->r, w->n + w->n_chunks);
}

// ---- lines ------------------------------------------------------------------------------------

static bool is_space_only(const wrapper *w, span s)
{
    for (; s.from < s.to; s.from++)
        if (!tchar_is_space(w->code[s.from])) return false;
    return true;
}

// How much of a chunk that is longer than a line goes into the room that is left.
static size_t long_part(const wrapper *w, span chunk, size_t room)
{
    for (size_t hyphen = room; w->hyphens && hyphen-- > 1;) {
        if (w->code[chunk.from + hyphen] != '-') continue;
        for (size_t i = 0; i < hyphen; i++)
            if (w->code[chunk.from + i] != '-') return hyphen + 1;
        break;
    }
    return room;
}

static void wrap_lines(wrapper *w, tlist *lines)
{
    size_t before = lines->n;
    for (size_t k = 0; k < w->n_chunks;) {
        span *c = w->chunks;
        if (lines->n > before && is_space_only(w, c[k]) && ++k == w->n_chunks) return;
        size_t start = c[k].from, used = 0, n = 0;
        span last = {start, start};
        for (; k < w->n_chunks && used + c[k].to - c[k].from <= w->width; n++) {
            last = c[k++];
            used += last.to - last.from;
        }
        if (k < w->n_chunks && c[k].to - c[k].from > w->width && (w->break_long || n == 0)) {
            size_t part = w->break_long ? long_part(w, c[k], w->width - used) : c[k].to - c[k].from;
            last = (span){c[k].from, c[k].from + part};
            c[k].from += part;
            if (c[k].from == c[k].to) k++;
            n++;
        }
        if (n && is_space_only(w, last)) {
            last.to = last.from;
            n--;
        }
        if (n)
            tlist_push(w->r, lines, tval_str(tstr_part(w->r, w->s, w->at[start], w->at[last.to])));
        trt_step(w->r, 1);
    }
}

tval twordwrap(trt *r, tval self, const tval *a, const targs *all)
{
    (void)all;
    const tstr *s = tval_want_str(r, self, "wordwrap");
    bool has_end = a[2].kind != T_MISSING && a[2].kind != T_NONE;
    const tstr *end = has_end ? tval_want_str(r, a[2], "wordwrap") : tstr_c(r, "\n");
    int64_t width = a[0].kind == T_MISSING ? 79 : tval_to_int(r, a[0], "wordwrap");
    const tlist *paragraphs = tstr_lines(r, s, false);
    if (width <= 0 && paragraphs->n) trt_fail(r, "invalid width %" PRId64 " (must be > 0)", width);
    tbuf b;
    tbuf_start(&b, r);
    for (size_t i = 0; i < paragraphs->n; i++) {
        tlist *lines = tlist_new(r, 0);
        wrapper w = {.r = r,
                     .s = paragraphs->v[i].u.str,
                     .width = (size_t)width,
                     .break_long = a[1].kind == T_MISSING || tval_true(r, a[1]),
                     .hyphens = a[3].kind == T_MISSING || tval_true(r, a[3])};
        split_chunks(&w);
        wrap_lines(&w, lines);
        if (i) tbuf_str(&b, end);
        for (size_t k = 0; k < lines->n; k++) {
            if (k) tbuf_str(&b, end);
            tbuf_str(&b, lines->v[k].u.str);
        }
    }
    return tval_str(tbuf_take(&b));
}
