// libFuzzer target over the tokenizer. The first byte chooses a pre-tokenizer and whether special
// tokens are recognised, the rest is the text. A vocabulary that has every byte must give the text
// back (invalid bytes as U+FFFD: so only valid texts are compared).
#include <stdlib.h>

#include "../text/small_vocab.h"
#include "text/pretokenize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

// The vocabulary points into `bytes`.
static text_vocab *load(const char *pre, gguf_bytes *bytes)
{
    static const char *const more[] = {"<|a|>", "<|ab|>", "|>b", "  ",     "he",
                                       "hel",   "ll",     "12",  "<|end|>"};
    static const int32_t types[] = {3, 3, 4, 4, 1, 1, 1, 1, 3};
    static const char *const merges[] = {"h e", "he l", "l l", "1 2"};
    gguf *g;
    text_vocab *v;
    add_byte_level(bytes, pre, more, types, sizeof more / sizeof more[0]);
    add_strings(bytes, "tokenizer.ggml.merges", merges, sizeof merges / sizeof merges[0]);
    if (gguf_bytes_open(bytes, &g) != PM_OK || text_vocab_load(g, NULL, &v) != PM_OK) abort();
    return v;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    enum { MOST = 128 }; // kept from run to run, one for each pre-tokenizer met
    static text_vocab *vocabs[MOST];
    static gguf_bytes files[MOST];
    if (n == 0) return 0;
    size_t n_names = 0;
    while (pretokenizer_name(n_names)) n_names++;
    size_t which = data[0] / 2 % (n_names < MOST ? n_names : MOST);
    const char *name = pretokenizer_name(which);
    const pretokenizer *pre = pretokenizer_find(name, strlen(name));
    // Raw vocabularies have no tokens for these bytes; NFC changes texts.
    if (pre->raw || pre->nfc) return 0;
    if (!vocabs[which]) vocabs[which] = load(name, &files[which]);
    const text_vocab *v = vocabs[which];
    const char *text = (const char *)data + 1;
    n--;
    text_ids ids = {0};
    if (text_encode(v, text, n, data[0] & 1, &ids) != PM_OK) abort();
    size_t at = 0;
    bool valid = text_utf8_valid(text, n);
    for (size_t i = 0; i < ids.n; i++) {
        gguf_string piece = text_piece(v, ids.ids[i], true);
        if (valid && (piece.len > n - at || memcmp(piece.data, text + at, piece.len) != 0)) abort();
        at += piece.len;
    }
    if (valid && at != n) abort();
    if (text_utf8_whole(text, n) > n) abort();
    text_ids_free(&ids);
    return 0;
}
