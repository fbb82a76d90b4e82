// Running a grammar: sets of configurations as states, made as they are met and kept with their
// transitions, so that a vocabulary is mostly walked by look-ups.
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "text/grammar.h"

enum {
    MAX_CONFIGS = 4096,   // of one state
    MAX_POOL = 1 << 20,   // configurations of all states
    MAX_STATES = 1 << 14, // 1 KiB each
    MAX_FRAMES = 1 << 18,
    MAX_DEPTH = 1000, // calls inside each other; a branch that goes deeper is not taken
    MAX_MASKS = 256,
    MAX_STEPS = 10000000, // closing and looking up, for one token
    NO_STATE = -1,
    DEAD = -2,
};

// A place to return to. Equal ones are one, so that states can be compared by their numbers.
typedef struct frame {
    uint32_t node, parent; // frame 0 is the bottom: behind the root
    uint32_t depth, shortest;
} frame;

// At `node`, a GRAMMAR_BYTE, with the calls of `frame`.
typedef struct config {
    uint32_t node, frame;
} config;

typedef struct state {
    uint32_t first, n; // in the pool, ascending
    bool complete;
    uint32_t shortest; // bytes to the end of the text
    int32_t next[256]; // NO_STATE: not known yet
    uint64_t *mask;    // NULL: not made, or dropped
    size_t n_mask;
    uint32_t mask_needs; // the longest way to the end behind any token of the mask
} state;

struct grammar_tokens {
    const text_vocab *v;
    uint32_t n;
    int32_t *ids;      // [n] in the order of their bytes
    uint16_t *common;  // [n] bytes in common with the one before
    const char **text; // [n]
    uint16_t *length;  // [n]
    bool every_byte;   // each byte that texts are likely to need is a token
};

struct grammar_run {
    const grammar *g;
    const grammar_tokens *t;
    frame *frames;
    uint32_t n_frames, *frame_slots;
    config *pool;
    uint32_t n_pool;
    state **states;
    uint32_t n_states;
    int32_t *state_slots;
    uint32_t n_masks;
    int32_t at; // the state now
    uint64_t steps;
    // closing a set
    config *set, *stack;
    uint32_t n_set, n_stack;
    uint32_t *marks, mark; // open addressing of what was met
    config *seen;
    uint32_t n_seen;
    bool complete;
    uint64_t *limited; // the mask with a limit
};

enum { FRAME_SLOTS = 2 * MAX_FRAMES, STATE_SLOTS = 2 * MAX_STATES, SEEN_SLOTS = 8 * MAX_CONFIGS };

// ---- tokens -----------------------------------------------------------------------------------

typedef struct entry {
    const char *text;
    size_t n;
    int32_t id;
} entry;

static int by_bytes(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    size_t n = x->n < y->n ? x->n : y->n;
    int order = memcmp(x->text, y->text, n);
    if (order) return order;
    if (x->n != y->n) return x->n < y->n ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static void fill_tokens(grammar_tokens *t, const entry *list)
{
    bool single[256] = {false};
    for (uint32_t i = 0; i < t->n; i++) {
        const entry *e = &list[i];
        size_t common = 0;
        while (i > 0 && common < e->n && common < list[i - 1].n &&
               e->text[common] == list[i - 1].text[common])
            common++;
        t->ids[i] = e->id;
        t->text[i] = e->text;
        t->length[i] = (uint16_t)e->n;
        t->common[i] = (uint16_t)common;
        if (e->n == 1) single[(unsigned char)e->text[0]] = true;
    }
    t->every_byte = true;
    for (unsigned b = 0; b < 256; b++) {
        // Some vocabularies have no token for control characters and the planes 4 to 15.
        bool used = b == '\t' || b == '\n' || b == '\r' || (b >= ' ' && b < 0x7f) ||
                    (b >= 0x80 && b < 0xc0) || (b > 0xc1 && b <= 0xf0);
        if (used && !single[b]) t->every_byte = false;
    }
}

pm_status grammar_tokens_make(const text_vocab *v, grammar_tokens **out)
{
    size_t n_vocab = (size_t)text_n_vocab(v);
    grammar_tokens *t = calloc(1, sizeof *t);
    entry *list = calloc(n_vocab + 1, sizeof *list);
    if (t && list) {
        t->v = v;
        for (int32_t id = 0; id < text_n_vocab(v); id++) {
            gguf_string piece = text_piece(v, id, false);
            if (piece.len == 0 || piece.len > UINT16_MAX || text_is_end(v, id)) continue;
            list[t->n++] = (entry){piece.data, piece.len, id};
        }
        qsort(list, t->n, sizeof *list, by_bytes);
        t->ids = calloc(t->n + 1, sizeof *t->ids);
        t->common = calloc(t->n + 1, sizeof *t->common);
        t->text = calloc(t->n + 1, sizeof *t->text);
        t->length = calloc(t->n + 1, sizeof *t->length);
    }
    bool good = t && list && t->ids && t->common && t->text && t->length;
    if (good) {
        fill_tokens(t, list);
        *out = t;
    } else {
        grammar_tokens_free(t);
    }
    free(list);
    return good ? PM_OK : error_memory("a grammar's tokens", n_vocab * sizeof *list);
}

void grammar_tokens_free(grammar_tokens *t)
{
    if (!t) return;
    free(t->ids);
    free(t->common);
    free(t->text);
    free(t->length);
    free(t);
}

// ---- frames and states ------------------------------------------------------------------------

static pm_status too_much(void)
{
    return error_set(PM_ERROR_RUN, "the grammar is too ambiguous: a token takes too many steps");
}

static uint32_t add_bytes(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - 1 - b ? UINT32_MAX - 1 : a + b;
}

// The frame's number; false: there are too many.
static bool frame_of(grammar_run *r, uint32_t node, uint32_t parent, uint32_t *out)
{
    uint64_t key = (uint64_t)node << 32 | parent;
    uint32_t at = (uint32_t)rng_mix(key) & (FRAME_SLOTS - 1);
    for (; r->frame_slots[at]; at = (at + 1) & (FRAME_SLOTS - 1)) {
        const frame *f = &r->frames[r->frame_slots[at]];
        if (f->node != node || f->parent != parent) continue;
        *out = r->frame_slots[at];
        return true;
    }
    if (r->n_frames == MAX_FRAMES) return false;
    const frame *p = &r->frames[parent];
    r->frames[r->n_frames] =
        (frame){node, parent, p->depth + 1, add_bytes(r->g->nodes[node].shortest, p->shortest)};
    r->frame_slots[at] = r->n_frames;
    *out = r->n_frames++;
    return true;
}

static bool was_seen(grammar_run *r, config c)
{
    uint32_t at = (uint32_t)rng_mix((uint64_t)c.node << 32 | c.frame) & (SEEN_SLOTS - 1);
    for (; r->marks[at] == r->mark; at = (at + 1) & (SEEN_SLOTS - 1)) {
        if (r->seen[at].node == c.node && r->seen[at].frame == c.frame) return true;
    }
    r->marks[at] = r->mark;
    r->seen[at] = c;
    r->n_seen++;
    return false;
}

static void begin_set(grammar_run *r)
{
    if (++r->mark == 0) { // the marks of 2^32 sets ago
        memset(r->marks, 0, SEEN_SLOTS * sizeof *r->marks);
        r->mark = 1;
    }
    r->n_set = r->n_stack = r->n_seen = 0;
    r->complete = false;
}

static bool push(grammar_run *r, uint32_t node, uint32_t frame_number)
{
    config c = {node, frame_number};
    if (was_seen(r, c)) return true;
    if (r->n_seen >= SEEN_SLOTS / 2 || r->n_stack == SEEN_SLOTS) return false;
    r->stack[r->n_stack++] = c;
    return true;
}

// Where does this node lead but to the end of its rule? Then a call there needs no way back.
static uint32_t behind_jumps(const grammar *g, uint32_t node)
{
    while (g->nodes[node].kind == GRAMMAR_JUMP) node = g->nodes[node].a;
    return node;
}

static bool push_call(grammar_run *r, const grammar_node *n, uint32_t frame_number)
{
    uint32_t start = r->g->rules[n->a].start, back = behind_jumps(r->g, n->b);
    if (r->g->nodes[back].kind == GRAMMAR_END) return push(r, start, frame_number);
    if (r->frames[frame_number].depth >= MAX_DEPTH) return true;
    uint32_t inner;
    return frame_of(r, back, frame_number, &inner) && push(r, start, inner);
}

// Adds what can be reached from here without a byte; false: too much.
static bool close_from(grammar_run *r, uint32_t node, uint32_t frame_number)
{
    bool good = push(r, node, frame_number);
    while (good && r->n_stack > 0) {
        config c = r->stack[--r->n_stack];
        const grammar_node *n = &r->g->nodes[c.node];
        if (++r->steps > MAX_STEPS) return false;
        switch (n->kind) {
        case GRAMMAR_JUMP: good = push(r, n->a, c.frame); break;
        case GRAMMAR_SPLIT: good = push(r, n->a, c.frame) && push(r, n->b, c.frame); break;
        case GRAMMAR_CALL: good = push_call(r, n, c.frame); break;
        case GRAMMAR_BYTE:
            if (r->n_set == MAX_CONFIGS) return false;
            r->set[r->n_set++] = c;
            break;
        case GRAMMAR_END:
            if (c.frame == 0) {
                r->complete = true;
            } else {
                const frame *f = &r->frames[c.frame];
                good = push(r, f->node, f->parent);
            }
            break;
        }
    }
    return good;
}

static int by_place(const void *a, const void *b)
{
    const config *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return (x->frame > y->frame) - (x->frame < y->frame);
}

static uint32_t shortest_of(const grammar_run *r)
{
    uint32_t best = r->complete ? 0 : UINT32_MAX;
    for (uint32_t i = 0; i < r->n_set; i++) {
        config c = r->set[i];
        uint32_t way = add_bytes(r->g->nodes[c.node].shortest, r->frames[c.frame].shortest);
        if (way < best) best = way;
    }
    return best;
}

// The number of the set that was closed, in *out; false: too much.
static bool state_of(grammar_run *r, int32_t *out)
{
    if (r->n_set == 0 && !r->complete) {
        *out = DEAD;
        return true;
    }
    qsort(r->set, r->n_set, sizeof *r->set, by_place);
    uint64_t hash = r->complete;
    for (uint32_t i = 0; i < r->n_set; i++)
        hash = rng_mix(hash ^ ((uint64_t)r->set[i].node << 32 | r->set[i].frame)) + i;
    uint32_t at = (uint32_t)rng_mix(hash) & (STATE_SLOTS - 1);
    for (; r->state_slots[at] != NO_STATE; at = (at + 1) & (STATE_SLOTS - 1)) {
        const state *s = r->states[r->state_slots[at]];
        if (s->n != r->n_set || s->complete != r->complete) continue;
        if (r->n_set && memcmp(r->pool + s->first, r->set, r->n_set * sizeof *r->set)) continue;
        *out = r->state_slots[at];
        return true;
    }
    if (r->n_states == MAX_STATES || r->n_pool + r->n_set > MAX_POOL) return false;
    state *s = malloc(sizeof *s);
    if (!s) return false;
    *s = (state){.first = r->n_pool, .n = r->n_set, .complete = r->complete};
    s->shortest = shortest_of(r);
    for (int b = 0; b < 256; b++) s->next[b] = NO_STATE;
    memcpy(r->pool + r->n_pool, r->set, r->n_set * sizeof *r->set);
    r->n_pool += r->n_set;
    r->states[r->n_states] = s;
    r->state_slots[at] = (int32_t)r->n_states;
    *out = (int32_t)r->n_states++;
    return true;
}

static bool make_next(grammar_run *r, int32_t from, unsigned char byte, int32_t *out)
{
    const state *s = r->states[from];
    begin_set(r);
    for (uint32_t i = 0; i < s->n; i++) {
        config c = r->pool[s->first + i];
        const grammar_node *n = &r->g->nodes[c.node];
        bool fits = r->g->sets[n->a][byte / 64] >> byte % 64 & 1;
        if (fits && !close_from(r, n->b, c.frame)) return false;
    }
    if (!state_of(r, out)) return false;
    r->states[from]->next[byte] = *out;
    return true;
}

static inline bool next_state(grammar_run *r, int32_t from, unsigned char byte, int32_t *out)
{
    *out = r->states[from]->next[byte];
    return *out != NO_STATE || make_next(r, from, byte, out);
}

// ---- opening, and starting anew with the state at hand ----------------------------------------

static void drop_masks(grammar_run *r)
{
    for (uint32_t i = 0; i < r->n_states; i++) {
        free(r->states[i]->mask);
        r->states[i]->mask = NULL;
    }
    r->n_masks = 0;
}

static void drop_states(grammar_run *r)
{
    drop_masks(r);
    for (uint32_t i = 0; i < r->n_states; i++) free(r->states[i]);
    for (uint32_t i = 0; i < STATE_SLOTS; i++) r->state_slots[i] = NO_STATE;
    r->n_states = r->n_pool = 0;
}

// A frame of before, in the new table.
static bool keep_frame(grammar_run *r, const frame *old, uint32_t number, uint32_t *out)
{
    uint32_t chain[MAX_DEPTH + 1], n = 0;
    for (; number != 0; number = old[number].parent) chain[n++] = number;
    *out = 0;
    while (n > 0) {
        if (!frame_of(r, old[chain[--n]].node, *out, out)) return false;
    }
    return true;
}

// Everything but the state at hand is forgotten where the tables are half full.
static pm_status tidy(grammar_run *r)
{
    bool full =
        r->n_states > MAX_STATES / 2 || r->n_pool > MAX_POOL / 2 || r->n_frames > MAX_FRAMES / 2;
    if (!full) return PM_OK;
    const state *now = r->states[r->at];
    uint32_t n = now->n;
    bool complete = now->complete;
    config *configs = malloc((n + 1) * sizeof *configs);
    frame *old = malloc(r->n_frames * sizeof *old);
    bool good = configs && old;
    if (good) {
        memcpy(configs, r->pool + now->first, n * sizeof *configs);
        memcpy(old, r->frames, r->n_frames * sizeof *old);
        drop_states(r);
        memset(r->frame_slots, 0, FRAME_SLOTS * sizeof *r->frame_slots);
        r->n_frames = 1;
        begin_set(r);
        r->complete = complete;
        for (uint32_t i = 0; i < n && good; i++) {
            r->set[r->n_set].node = configs[i].node;
            good = keep_frame(r, old, configs[i].frame, &r->set[r->n_set].frame);
            r->n_set++;
        }
        good = good && state_of(r, &r->at);
    }
    free(configs);
    free(old);
    return good ? PM_OK : error_memory("a grammar", MAX_POOL);
}

static bool reserve(grammar_run *r)
{
    r->frames = calloc(MAX_FRAMES, sizeof *r->frames);
    r->frame_slots = calloc(FRAME_SLOTS, sizeof *r->frame_slots);
    r->pool = malloc(MAX_POOL * sizeof *r->pool);
    r->states = calloc(MAX_STATES, sizeof(state *));
    r->state_slots = malloc(STATE_SLOTS * sizeof *r->state_slots);
    r->set = malloc(MAX_CONFIGS * sizeof *r->set);
    r->stack = malloc(SEEN_SLOTS * sizeof *r->stack);
    r->marks = calloc(SEEN_SLOTS, sizeof *r->marks);
    r->seen = malloc(SEEN_SLOTS * sizeof *r->seen);
    size_t words = r->t ? ((size_t)text_n_vocab(r->t->v) + 63) / 64 : 0;
    r->limited = calloc(words + 1, sizeof *r->limited);
    return r->frames && r->frame_slots && r->pool && r->states && r->state_slots && r->set &&
           r->stack && r->marks && r->seen && r->limited;
}

pm_status grammar_run_open(const grammar *g, const grammar_tokens *t, grammar_run **out)
{
    grammar_run *r = calloc(1, sizeof *r);
    if (!r) return error_memory("a grammar", sizeof *r);
    r->g = g;
    r->t = t;
    if (!reserve(r)) {
        grammar_run_close(r);
        return error_memory("a grammar", MAX_POOL * sizeof *r->pool);
    }
    drop_states(r);
    r->n_frames = 1; // the bottom
    begin_set(r);
    if (!close_from(r, g->rules[g->root].start, 0) || !state_of(r, &r->at)) {
        grammar_run_close(r);
        return too_much();
    }
    assert(r->at >= 0); // a grammar that was parsed has a text
    *out = r;
    return PM_OK;
}

void grammar_run_close(grammar_run *r)
{
    if (!r) return;
    if (r->state_slots) drop_states(r);
    free(r->frames);
    free(r->frame_slots);
    free(r->pool);
    free(r->states);
    free(r->state_slots);
    free(r->set);
    free(r->stack);
    free(r->marks);
    free(r->seen);
    free(r->limited);
    free(r);
}

// ---- going on ---------------------------------------------------------------------------------

static pm_status walk(grammar_run *r, const char *bytes, size_t n, int32_t *out)
{
    *out = r->at;
    for (size_t i = 0; i < n && *out != DEAD; i++) {
        if (!next_state(r, *out, (unsigned char)bytes[i], out)) return too_much();
    }
    return PM_OK;
}

pm_status grammar_accept_bytes(grammar_run *r, const char *bytes, size_t n)
{
    int32_t to;
    r->steps = 0;
    pm_status status = tidy(r);
    if (status == PM_OK) status = walk(r, bytes, n, &to);
    if (status != PM_OK) return status;
    if (to == DEAD) return error_set(PM_ERROR_RUN, "the grammar does not allow this text");
    r->at = to;
    return PM_OK;
}

pm_status grammar_accept(grammar_run *r, int32_t id)
{
    if (text_is_end(r->t->v, id)) {
        if (grammar_complete(r)) return PM_OK;
        return error_set(PM_ERROR_RUN, "the grammar does not allow the text to end here");
    }
    gguf_string piece = {NULL, 0};
    if (id >= 0 && id < text_n_vocab(r->t->v)) piece = text_piece(r->t->v, id, false);
    if (piece.len == 0) return error_set(PM_ERROR_RUN, "token %" PRId32 " is no text", id);
    return grammar_accept_bytes(r, piece.data, piece.len);
}

bool grammar_complete(const grammar_run *r)
{
    return r->states[r->at]->complete;
}

// The longest way to the end that a token may leave open.
static uint32_t room(const grammar_run *r, uint64_t n_left)
{
    bool kept = r->t->every_byte && r->states[r->at]->shortest <= n_left && n_left > 0;
    return kept && n_left - 1 < UINT32_MAX ? (uint32_t)(n_left - 1) : UINT32_MAX;
}

pm_status grammar_allows(grammar_run *r, int32_t id, uint64_t n_left, bool *allowed)
{
    *allowed = false;
    if (text_is_end(r->t->v, id)) {
        *allowed = grammar_complete(r);
        return PM_OK;
    }
    gguf_string piece = {NULL, 0};
    if (id >= 0 && id < text_n_vocab(r->t->v)) piece = text_piece(r->t->v, id, false);
    if (piece.len == 0) return PM_OK;
    int32_t to;
    r->steps = 0;
    pm_status status = tidy(r);
    if (status == PM_OK) status = walk(r, piece.data, piece.len, &to);
    if (status == PM_OK) *allowed = to != DEAD && r->states[to]->shortest <= room(r, n_left);
    return status;
}

// Sets the bits of all tokens that lead somewhere from where the way to the end is at most `most`.
static pm_status mark_tokens(grammar_run *r, uint32_t most, uint64_t *bits, size_t *n,
                             uint32_t *needs)
{
    const grammar_tokens *t = r->t;
    int32_t *path = malloc((UINT16_MAX + 1) * sizeof *path); // the state behind each byte
    if (!path) return error_memory("a grammar", UINT16_MAX * sizeof *path);
    bool good = true;
    uint32_t dead_at = UINT32_MAX; // bytes of the last token up to the first that is not allowed
    path[0] = r->at;
    for (uint32_t i = 0; i < t->n; i++) {
        uint32_t at = t->common[i];
        if (dead_at <= at) continue;
        dead_at = UINT32_MAX;
        for (; at < t->length[i]; at++) {
            int32_t to;
            good = next_state(r, path[at], (unsigned char)t->text[i][at], &to);
            if (!good || to == DEAD) {
                dead_at = at + 1;
                break;
            }
            path[at + 1] = to;
        }
        if (!good || ++r->steps > MAX_STEPS) break;
        if (dead_at != UINT32_MAX) continue;
        const state *s = r->states[path[at]];
        if (s->shortest > *needs) *needs = s->shortest;
        if (s->shortest > most) continue;
        bits[t->ids[i] / 64] |= UINT64_C(1) << t->ids[i] % 64;
        ++*n;
    }
    free(path);
    return good && r->steps <= MAX_STEPS ? PM_OK : too_much();
}

static void mark_ends(const grammar_run *r, uint64_t *bits, size_t *n)
{
    size_t n_ends;
    const int32_t *ends = text_end_tokens(r->t->v, &n_ends);
    if (!grammar_complete(r)) return;
    for (size_t i = 0; i < n_ends; i++) bits[ends[i] / 64] |= UINT64_C(1) << ends[i] % 64;
    *n += n_ends;
}

pm_status grammar_mask(grammar_run *r, uint64_t n_left, const uint64_t **bits, size_t *n)
{
    size_t words = ((size_t)text_n_vocab(r->t->v) + 63) / 64;
    r->steps = 0;
    pm_status status = tidy(r);
    if (status != PM_OK) return status;
    uint32_t most = room(r, n_left);
    state *s = r->states[r->at];
    if (!s->mask) {
        if (r->n_masks >= MAX_MASKS) drop_masks(r);
        uint64_t *mask = calloc(words + 1, sizeof *mask);
        if (!mask) return error_memory("a grammar", words * sizeof *mask);
        size_t count = 0;
        s->mask_needs = 0;
        status = mark_tokens(r, UINT32_MAX, mask, &count, &s->mask_needs);
        if (status != PM_OK) {
            free(mask);
            return status;
        }
        mark_ends(r, mask, &count);
        s->mask = mask;
        s->n_mask = count;
        r->n_masks++;
    }
    if (s->mask_needs <= most) {
        *bits = s->mask;
        *n = s->n_mask;
        return PM_OK;
    }
    memset(r->limited, 0, words * sizeof *r->limited);
    *n = 0;
    uint32_t needs = 0;
    status = mark_tokens(r, most, r->limited, n, &needs);
    mark_ends(r, r->limited, n);
    *bits = r->limited;
    return status;
}
