// The vocabulary after loading: look-ups and what tokens stand for.
#include "text/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"

int32_t text_n_vocab(const text_vocab *v)
{
    return v->n_vocab;
}

const text_specials *text_special_ids(const text_vocab *v)
{
    return &v->special_ids;
}

const char *text_pre_name(const text_vocab *v)
{
    return v->pre ? v->pre->name : "";
}

size_t text_n_warnings(const text_vocab *v)
{
    return v->n_warnings;
}

const char *text_warning(const text_vocab *v, size_t index)
{
    return v->warnings[index];
}

const int32_t *text_end_tokens(const text_vocab *v, size_t *n)
{
    *n = v->n_ends;
    return v->ends;
}

bool text_is_end(const text_vocab *v, int32_t id)
{
    for (size_t i = 0; i < v->n_ends; i++)
        if (v->ends[i] == id) return true;
    return false;
}

static bool has(const text_vocab *v, int32_t id)
{
    return id >= 0 && id < v->n_vocab;
}

text_token_type text_type(const text_vocab *v, int32_t id)
{
    return has(v, id) ? (text_token_type)v->types[id] : TEXT_UNUSED;
}

gguf_string text_stored(const text_vocab *v, int32_t id)
{
    return has(v, id) ? v->tokens[id] : (gguf_string){"", 0};
}

gguf_string text_piece(const text_vocab *v, int32_t id, bool special)
{
    gguf_string none = {"", 0};
    if (!has(v, id)) return none;
    uint8_t type = v->types[id];
    if (!special && (type == TEXT_CONTROL || type == TEXT_UNKNOWN)) return none;
    size_t at = v->piece_at[id];
    return (gguf_string){v->pieces + at, v->piece_at[id + 1] - at};
}

bool text_has_space_prefix(const text_vocab *v)
{
    return v->add_space_prefix;
}

// ---- hash tables ------------------------------------------------------------------------------

static uint32_t hash_text(const char *s, size_t n)
{
    return (uint32_t)(hash_bytes(0, s, n) >> 32);
}

// The slot that holds this text, else the free one where it belongs.
static token_slot *find_slot(const text_vocab *v, const char *s, size_t n, uint32_t hash)
{
    for (uint32_t i = hash & v->slot_mask;; i = (i + 1) & v->slot_mask) {
        token_slot *slot = &v->slots[i];
        if (slot->id == TEXT_NO_TOKEN) return slot;
        const gguf_string *t = &v->tokens[slot->id];
        if (slot->hash == hash && t->len == n && memcmp(t->data, s, n) == 0) return slot;
    }
}

bool vocab_insert(text_vocab *v, int32_t id)
{
    const gguf_string *t = &v->tokens[id];
    uint32_t hash = hash_text(t->data, t->len);
    token_slot *slot = find_slot(v, t->data, t->len, hash);
    if (slot->id != TEXT_NO_TOKEN) return false;
    *slot = (token_slot){hash, id};
    return true;
}

int32_t text_find(const text_vocab *v, const char *stored, size_t n)
{
    return find_slot(v, stored, n, hash_text(stored, n))->id;
}

int32_t vocab_find_text(const text_vocab *v, const char *text, size_t n)
{
    if (n > v->max_token) return TEXT_NO_TOKEN;
    int32_t id = text_find(v, text, n);
    return id != TEXT_NO_TOKEN && token_is_text(v, id) ? id : TEXT_NO_TOKEN;
}

static merge_slot *find_merge_slot(const text_vocab *v, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    for (uint32_t i = (uint32_t)(rng_mix(pair) >> 32) & v->merge_mask;;
         i = (i + 1) & v->merge_mask) {
        merge_slot *slot = &v->merges[i];
        if (slot->left == TEXT_NO_TOKEN || (slot->left == left && slot->right == right))
            return slot;
    }
}

void vocab_insert_merge(text_vocab *v, const merge_slot *merge)
{
    merge_slot *slot = find_merge_slot(v, merge->left, merge->right);
    if (slot->left == TEXT_NO_TOKEN) *slot = *merge;
}

const merge_slot *vocab_find_merge(const text_vocab *v, int32_t left, int32_t right)
{
    const merge_slot *slot = find_merge_slot(v, left, right);
    return slot->left == TEXT_NO_TOKEN ? NULL : slot;
}

// ---- the byte alphabet ------------------------------------------------------------------------

static bool stands_for_itself(uint32_t c)
{
    return (c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xac) || (c >= 0xae && c <= 0xff);
}

// The 68 other bytes stand, in order, at U+0100 to U+0143.
uint32_t alphabet_char(unsigned char byte)
{
    if (stands_for_itself(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;
    return byte == 0xad ? 0x143 : 0x121u + (byte - 0x7fu);
}

int alphabet_byte(uint32_t c)
{
    if (stands_for_itself(c)) return (int)c;
    if (c >= 0x100 && c <= 0x120) return (int)(c - 0x100);
    if (c >= 0x121 && c <= 0x142) return (int)(c - 0x121 + 0x7f);
    return c == 0x143 ? 0xad : -1;
}
