// A made-up byte-level BPE vocabulary that obeys its own merges: 256 byte tokens, then one token
// per merge (two letters, then two such pairs), then control tokens.
#include "make/make.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum {
    N_BYTES = 256,
    N_LETTERS = 26,
    N_PAIRS = (N_LETTERS + 1) * N_LETTERS, // letter or space, then a letter
    N_PLAIN_PAIRS = N_LETTERS * N_LETTERS, // of them, those without the space: the first ones
    N_QUADS = N_PAIRS * N_PLAIN_PAIRS,
    N_CONTROL_FEW = 16,
    N_CONTROL_MANY = 256,
    MANY_TOKENS = 4096, // from here on N_CONTROL_MANY
};

// Places among the control tokens, as in Llama 3's and SmolLM3's vocabulary.
enum { AT_BOS = 0, AT_END = 1, AT_PAD = 4, AT_IM_START = 11, AT_IM_END = 12 };

static void add_code(buf *b, unsigned code)
{
    if (code < 0x80) {
        buf_char(b, (char)code);
        return;
    }
    buf_char(b, (char)(0xc0 | code >> 6));
    buf_char(b, (char)(0x80 | (code & 0x3f)));
}

static bool shows_itself(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

// Token i < 256 of GPT-2's order: first the bytes that show as themselves, then the others, as
// U+0100 onwards.
static void add_byte_token(buf *b, unsigned index)
{
    for (unsigned pass = 0, n = 0; pass < 2; pass++) {
        for (unsigned byte = 0, n_hidden = 0; byte < N_BYTES; byte++) {
            bool shown = shows_itself(byte);
            unsigned code = shown ? byte : 0x100 + n_hidden;
            if (!shown) n_hidden++;
            if (shown == (pass == 0) && n++ == index) {
                add_code(b, code);
                return;
            }
        }
    }
}

static void add_pair(buf *b, unsigned pair, const char *between)
{
    if (pair < N_PLAIN_PAIRS)
        buf_char(b, (char)('a' + pair / N_LETTERS));
    else
        add_code(b, 0x120); // the space
    buf_str(b, between);
    buf_char(b, (char)('a' + pair % N_LETTERS));
}

// The token of merge `rank`, or with `between` = " " the merge itself.
static void add_merge(buf *b, unsigned rank, const char *between)
{
    if (rank < N_PAIRS) {
        add_pair(b, rank, between);
        return;
    }
    // All pairs of pairs in a scattered order: the factor has no divisor in common with N_QUADS.
    uint64_t quad = (uint64_t)(rank - N_PAIRS) * 7919 % N_QUADS;
    add_pair(b, (unsigned)(quad / N_PLAIN_PAIRS), "");
    buf_str(b, between);
    add_pair(b, (unsigned)(quad % N_PLAIN_PAIRS), "");
}

static void add_control(buf *b, unsigned index)
{
    switch (index) {
    case AT_BOS: buf_str(b, "<|begin_of_text|>"); break;
    case AT_END: buf_str(b, "<|end_of_text|>"); break;
    case AT_PAD: buf_str(b, "<|finetune_right_pad_id|>"); break;
    case AT_IM_START: buf_str(b, "<|im_start|>"); break;
    case AT_IM_END: buf_str(b, "<|im_end|>"); break;
    default: buf_printf(b, "<|reserved_special_token_%u|>", index); break;
    }
}

pm_status make_vocab_new(uint32_t n_tokens, make_vocab *v)
{
    uint32_t n_control = n_tokens < MANY_TOKENS ? N_CONTROL_FEW : N_CONTROL_MANY;
    uint32_t least = N_BYTES + N_CONTROL_FEW, most = N_BYTES + N_PAIRS + N_QUADS + N_CONTROL_MANY;
    *v = (make_vocab){.n_tokens = n_tokens};
    if (n_tokens < least || n_tokens > most)
        return error_set(PM_ERROR_USAGE,
                         "a made-up vocabulary has %" PRIu32 " to %" PRIu32 " tokens, not %" PRIu32,
                         least, most, n_tokens);
    uint32_t n_merges = n_tokens - N_BYTES - n_control, first_control = n_tokens - n_control;
    buf text = {0};
    v->n_merges = n_merges;
    v->tokens = calloc(n_tokens, sizeof *v->tokens);
    v->merges = calloc((size_t)n_merges + 1, sizeof *v->merges);
    v->types = calloc(n_tokens, sizeof *v->types);
    if (!v->tokens || !v->merges || !v->types) goto no_memory;
    // Lengths first: the text moves while it grows.
    for (uint32_t i = 0; i < n_tokens; i++) {
        size_t begin = text.len;
        if (i < N_BYTES)
            add_byte_token(&text, i);
        else if (i < first_control)
            add_merge(&text, i - N_BYTES, "");
        else
            add_control(&text, i - first_control);
        v->tokens[i].len = text.len - begin;
        v->types[i] = i < first_control ? 1 : 3; // normal, control
    }
    for (uint32_t i = 0; i < n_merges; i++) {
        size_t begin = text.len;
        add_merge(&text, i, " ");
        v->merges[i].len = text.len - begin;
    }
    if (text.failed) goto no_memory;
    v->text = text.data;
    const char *at = v->text;
    for (uint32_t i = 0; i < n_tokens; at += v->tokens[i].len, i++) v->tokens[i].data = at;
    for (uint32_t i = 0; i < n_merges; at += v->merges[i].len, i++) v->merges[i].data = at;
    v->bos = first_control + AT_BOS;
    v->eos = first_control + AT_IM_END;
    v->pad = first_control + AT_PAD;
    return PM_OK;

no_memory:
    buf_free(&text);
    make_vocab_free(v);
    return error_memory("a vocabulary", n_tokens);
}

pm_status make_vocab_copy(const gguf *from, make_vocab *v)
{
    *v = (make_vocab){0};
    const gguf_value *tokens = gguf_find(from, "tokenizer.ggml.tokens");
    if (!tokens || tokens->type != GGUF_ARRAY || tokens->item_type != GGUF_STRING ||
        tokens->n_items == 0 || tokens->n_items > UINT32_MAX)
        return error_set(PM_ERROR_FILE, "%s: has no vocabulary (tokenizer.ggml.tokens)",
                         gguf_path(from));
    v->from = from;
    v->n_tokens = (uint32_t)tokens->n_items;
    return PM_OK;
}

void make_vocab_free(make_vocab *v)
{
    free(v->tokens);
    free(v->merges);
    free(v->types);
    free(v->text);
    *v = (make_vocab){0};
}
