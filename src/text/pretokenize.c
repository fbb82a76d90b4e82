#include "text/pretokenize.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "text/text.h"

// ---- character classes ------------------------------------------------------------------------

static bool in_ranges(const code_range *ranges, size_t n, uint32_t c)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].last < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && ranges[low].first <= c;
}

// Unicode's White_Space. U+001C to U+001F, U+180E, U+200B and U+FEFF are not in it.
static bool is_white(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

// Script=Han of Unicode 15.1; utf8proc doesn't know scripts.
static bool is_han(uint32_t c)
{
    static const code_range han[] = {
        {0x2e80, 0x2e99},   {0x2e9b, 0x2ef3},   {0x2f00, 0x2fd5},   {0x3005, 0x3005},
        {0x3007, 0x3007},   {0x3021, 0x3029},   {0x3038, 0x303b},   {0x3400, 0x4dbf},
        {0x4e00, 0x9fff},   {0xf900, 0xfa6d},   {0xfa70, 0xfad9},   {0x16fe2, 0x16fe3},
        {0x16ff0, 0x16ff1}, {0x20000, 0x2a6df}, {0x2a700, 0x2b739}, {0x2b740, 0x2b81d},
        {0x2b820, 0x2cea1}, {0x2ceb0, 0x2ebe0}, {0x2ebf0, 0x2ee5d}, {0x2f800, 0x2fa1d},
        {0x30000, 0x3134a}, {0x31350, 0x323af}};
    return c >= 0x2e80 && in_ranges(han, sizeof han / sizeof han[0], c);
}

static uint32_t category_bits(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU: return CH_LU;
    case UTF8PROC_CATEGORY_LL: return CH_LL;
    case UTF8PROC_CATEGORY_LT: return CH_LT;
    case UTF8PROC_CATEGORY_LM: return CH_LM;
    case UTF8PROC_CATEGORY_LO: return CH_LO;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return CH_M;
    case UTF8PROC_CATEGORY_ND: return CH_ND;
    case UTF8PROC_CATEGORY_NL: return CH_NL;
    case UTF8PROC_CATEGORY_NO: return CH_NO;
    case UTF8PROC_CATEGORY_PC: return CH_P | CH_PC;
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: return CH_P;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO: return CH_S;
    default: return 0;
    }
}

uint32_t char_bits(uint32_t c)
{
    uint32_t bits = category_bits(c);
    if (is_white(c)) bits |= CH_WHITE;
    if (is_han(c)) bits |= CH_HAN;
    if (c >= 0x80) return bits;
    if (c == '\r' || c == '\n') bits |= CH_CRLF;
    if (c == '\n') bits |= CH_LF;
    if (c == ' ') bits |= CH_SPACE;
    if (c == '/') bits |= CH_SLASH;
    if (c == '`') bits |= CH_GRAVE;
    if (bits & CH_ND) bits |= CH_DIGIT;
    if (bits & CH_L) bits |= CH_ASCII_ALPHA;
    if (bits & (CH_P | CH_S)) bits |= CH_ASCII_PUNCT;
    return bits;
}

static bool in_class(const char_class *k, const character *c)
{
    bool in = (c->bits & k->any) && !(c->bits & k->except);
    if (!in && k->n_ranges) in = in_ranges(k->ranges, k->n_ranges, c->code_point);
    return in != k->negated;
}

// ---- matching one alternative -----------------------------------------------------------------

// A run of characters of one class that was measured once: matchers that look ahead to its end at
// each of its characters would take quadratic time otherwise.
typedef struct known_run {
    size_t first, end; // end of the run that `first` lies in; first > end: none known
} known_run;

typedef struct walker {
    const character *c;
    size_t end; // of the piece that is being cut
    known_run white, digits;
    size_t newline_end; // behind the last line break of the white run; 0: none
} walker;

// A match is the number of characters; 0: none; SPLIT: cut here, but nothing is matched.
#define SPLIT SIZE_MAX

static size_t white_end(walker *w, size_t at)
{
    if (at >= w->white.first && at < w->white.end) return w->white.end;
    size_t i = at;
    w->newline_end = 0;
    for (; i < w->end && (w->c[i].bits & CH_WHITE); i++)
        if (w->c[i].bits & CH_CRLF) w->newline_end = i + 1;
    w->white = (known_run){at, i};
    return i;
}

static size_t digits_end(walker *w, const char_class *digit, size_t at)
{
    if (at >= w->digits.first && at < w->digits.end) return w->digits.end;
    size_t i = at;
    while (i < w->end && in_class(digit, &w->c[i])) i++;
    w->digits = (known_run){at, i};
    return i;
}

static size_t run_end(const walker *w, const char_class *k, size_t at, uint32_t max)
{
    size_t end = max && w->end - at > max ? at + max : w->end;
    while (at < end && in_class(k, &w->c[at])) at++;
    return at;
}

static size_t match_run(const walker *w, const alternative *a, size_t at)
{
    bool lead = a->lead_max && in_class(&a->lead, &w->c[at]);
    for (size_t from = at + lead;; from = at) {
        if (from - at >= a->lead_min) {
            size_t end = run_end(w, &a->run, from, a->max);
            if (end - from >= a->min) {
                if (a->tail_max)
                    end = run_end(w, &a->tail, end, a->tail_max == UINT32_MAX ? 0 : a->tail_max);
                return end - at;
            }
        }
        if (from == at) return 0;
    }
}

static uint32_t folded(const walker *w, size_t at, contraction how)
{
    if (at >= w->end) return 0;
    uint32_t c = w->c[at].code_point;
    if (how == FOLD_CONTRACTION && c == 0x17f) return 's';
    return how != LOWER_CONTRACTION && c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

static size_t match_contraction(const walker *w, contraction how, size_t at)
{
    if (how == NO_CONTRACTION || at >= w->end || w->c[at].code_point != '\'') return 0;
    uint32_t x = folded(w, at + 1, how), y = folded(w, at + 2, how);
    if (x == 's' || x == 't' || x == 'm' || x == 'd') return 2;
    if ((x == 'r' && y == 'e') || (x == 'v' && y == 'e') || (x == 'l' && y == 'l')) return 3;
    return 0;
}

// run*run2+ from `from`: the longest run that leaves at least one character of run2. The end, or
// `from` where nothing matches.
static size_t cased_end(const walker *w, const alternative *a, size_t from)
{
    size_t split = run_end(w, &a->run, from, 0);
    if (split == w->end || !in_class(&a->run2, &w->c[split])) {
        while (split > from && !in_class(&a->run2, &w->c[split - 1])) split--;
        if (split == from) return from;
        split--;
    }
    return run_end(w, &a->run2, split, 0);
}

static size_t match_cased(const walker *w, const alternative *a, size_t at)
{
    bool lead = a->lead_max && in_class(&a->lead, &w->c[at]);
    // First form with and without the lead, then the second form likewise.
    for (int form = 0; form < 2; form++) {
        for (size_t from = at + lead;; from = at) {
            size_t end;
            if (form == 0) {
                end = cased_end(w, a, from);
            } else {
                end = run_end(w, &a->run, from, 0);
                if (end > from) end = run_end(w, &a->run2, end, 0);
            }
            if (end > from) return end + match_contraction(w, a->contraction, end) - at;
            if (from == at) break;
        }
    }
    return 0;
}

static size_t match_words(const walker *w, const alternative *a, size_t at)
{
    bool lead = a->lead_max && in_class(&a->lead, &w->c[at]);
    for (size_t from = at + lead;; from = at) {
        size_t end = from;
        for (size_t i = from; i < w->end; i++) {
            uint32_t bits = w->c[i].bits;
            if ((bits & CH_L) || ((bits & CH_M) && end == i && end > from))
                end = i + 1;
            else if (!((bits & CH_SPACE) && end == i && end > from))
                break;
        }
        if (end > from) return end - at;
        if (from == at) return 0;
    }
}

static size_t match_white_chunk(walker *w, size_t at)
{
    size_t end = white_end(w, at), n = end - at;
    for (size_t k = 512; k >= 1; k /= 2)
        if (n > k || (n == k && end == w->end)) return k;
    return n > 0;
}

static bool at_word_boundary(const walker *w, size_t at)
{
    return at == w->end || !(w->c[at].bits & (CH_L | CH_M | CH_ND | CH_NL | CH_PC));
}

static size_t match_text(const walker *w, size_t at, const char *text)
{
    size_t n = strlen(text);
    if (w->end - at < n) return 0;
    for (size_t i = 0; i < n; i++)
        if (w->c[at + i].code_point != (unsigned char)text[i]) return 0;
    return n;
}

static size_t match_sentinel(const walker *w, size_t at)
{
    size_t n = match_text(w, at, "<sentinel:");
    if (n == 0) return 0;
    const char_class digit = {.any = CH_DIGIT};
    size_t end = run_end(w, &digit, at + n, 0);
    return end > at + n && match_text(w, end, ">") ? end + 1 - at : 0;
}

static size_t match_image_code(const walker *w, size_t at)
{
    size_t n = match_text(w, at, "IMGIMG"), i = at + n;
    if (n == 0) return 0;
    while (i < w->end && i < at + n + 4 && w->c[i].code_point >= 'A' && w->c[i].code_point <= 'I')
        i++;
    return i > at + n && match_text(w, i, "Z") ? i + 1 - at : 0;
}

static size_t match_digits(walker *w, const alternative *a, size_t at)
{
    size_t end = digits_end(w, &a->run, at), rest = end - at;
    if (a->kind == ALT_DIGIT_SPLIT) return rest >= 3 && rest % 3 == 0 ? SPLIT : 0;
    if (rest == 0 || (a->at_word_end && !at_word_boundary(w, end))) return 0;
    return rest % 3 ? rest % 3 : 3;
}

static size_t match(walker *w, const alternative *a, size_t at)
{
    size_t end;
    switch (a->kind) {
    case ALT_RUN: return match_run(w, a, at);
    case ALT_CONTRACTION: return match_contraction(w, a->contraction, at);
    case ALT_CASED: return match_cased(w, a, at);
    case ALT_WORDS: return match_words(w, a, at);
    case ALT_TO_NEWLINE: white_end(w, at); return w->newline_end > at ? w->newline_end - at : 0;
    case ALT_WHITE_TAIL:
        end = white_end(w, at);
        if (end == at) return 0;
        return end == w->end ? end - at : end - at - 1;
    case ALT_WHITE_END: end = white_end(w, at); return end == w->end ? end - at : 0;
    case ALT_WHITE_CHUNK: return match_white_chunk(w, at);
    case ALT_DIGIT_GROUP:
    case ALT_DIGIT_SPLIT: return match_digits(w, a, at);
    case ALT_INDENT:
        if (w->c[at].code_point == '\t' || w->c[at].code_point == '\n') return 1;
        return match_text(w, at, "    ") ? 4 : match_text(w, at, "  ");
    case ALT_SENTINEL: return match_sentinel(w, at);
    case ALT_IMAGE_CODE: return match_image_code(w, at);
    }
    return 0;
}

// ---- cutting a text ---------------------------------------------------------------------------

// Cuts the pieces that end at ends[0..n) (in characters) by one pattern into `out`; returns how
// many there are then.
static size_t cut(const pattern *p, const character *c, const uint32_t *ends, size_t n,
                  uint32_t *out)
{
    size_t n_out = 0, start = 0;
    for (size_t k = 0; k < n; start = ends[k++]) {
        walker w = {.c = c, .end = ends[k], .white = {1, 0}, .digits = {1, 0}};
        size_t gap = start; // what no match has taken begins here
        for (size_t at = start; at < w.end;) {
            size_t length = 0;
            for (size_t i = 0; i < p->n && length == 0; i++)
                length = match(&w, &p->alternatives[i], at);
            if (length > 0 && at > gap) out[n_out++] = (uint32_t)at;
            if (length > 0) gap = at;
            if (length == 0 || length == SPLIT) {
                at++;
                continue;
            }
            gap = at += length;
            out[n_out++] = (uint32_t)at;
        }
        if (gap < w.end) out[n_out++] = (uint32_t)w.end;
    }
    return n_out;
}

static pm_status reserve(pieces *p, size_t n)
{
    if (n <= p->cap) return PM_OK;
    pieces_free(p);
    p->chars = calloc(n, sizeof *p->chars);
    p->ends = calloc(n, sizeof *p->ends);
    p->other = calloc(n, sizeof *p->other);
    if (!p->chars || !p->ends || !p->other) {
        pieces_free(p);
        return error_memory("cutting a text into pieces", n * 16);
    }
    p->cap = n;
    return PM_OK;
}

pm_status pretokenize(const pretokenizer *p, const char *text, size_t n, pieces *out)
{
    pm_status status = reserve(out, n);
    if (status != PM_OK) return status;
    size_t n_chars = 0;
    for (size_t i = 0, length; i < n; i += length) {
        uint32_t c = text_utf8_next(text + i, n - i, &length);
        out->chars[n_chars++] = (character){c, char_bits(c)};
    }
    out->n = n > 0;
    if (n > 0) out->ends[0] = (uint32_t)n_chars;
    for (const pattern *const *each = p->patterns; *each; each++) {
        out->n = cut(*each, out->chars, out->ends, out->n, out->other);
        uint32_t *swap = out->ends;
        out->ends = out->other;
        out->other = swap;
    }
    // From characters to bytes.
    size_t at = 0;
    uint32_t bytes = 0;
    for (size_t k = 0; k < out->n; k++) {
        for (; at < out->ends[k]; at++) {
            uint32_t c = out->chars[at].code_point;
            bytes += c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        }
        out->ends[k] = bytes;
    }
    return PM_OK;
}

void pieces_free(pieces *p)
{
    free(p->chars);
    free(p->ends);
    free(p->other);
    *p = (pieces){0};
}
