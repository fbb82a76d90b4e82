// What a model, a user's file or a stranger's schema may bring into a chat, by the first byte: an
// answer in pieces, a grammar with a text, a JSON schema. Nothing may crash or take long, an answer
// loses no text, and what a schema's grammar completes is JSON.
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/large.h"
#include "base/rng.h"
#include "chat/answer.h"
#include "chat/schema.h"
#include "engine/stream.h"
#include "text/grammar.h"

static void try_answer(const char *text, size_t n, bool thinking, size_t piece)
{
    static const char list[] = "[{\"type\": \"function\", \"function\": {\"name\": \"f\", "
                               "\"parameters\": {\"properties\": {\"a\": {}, \"b\": {}}}}}]";
    json_t *tools = json_loads(list, 0, NULL);
    answer_params params = {.thinking = thinking, .tools = tools};
    answer *a = NULL;
    buf valid = {0};
    stream_append_valid(&valid, text, n);
    if (!tools || valid.failed || answer_open(&params, &a) != PM_OK) abort();
    const char *part;
    size_t n_part, taken = 0;
    answer_part kind;
    for (size_t at = 0; at < valid.len; at += piece) {
        size_t some = valid.len - at < piece ? valid.len - at : piece;
        if (answer_add(a, valid.data + at, some) != PM_OK) abort();
        while (answer_take(a, &part, &n_part, &kind)) taken += n_part;
    }
    if (answer_end(a) != PM_OK) abort();
    while (answer_take(a, &part, &n_part, &kind)) taken += n_part;
    size_t n_text, n_reasoning;
    answer_text(a, &n_text);
    answer_reasoning(a, &n_reasoning);
    if (taken != n_text + n_reasoning || taken > valid.len) abort();
    answer_close(a);
    buf_free(&valid);
    json_decref(tools);
}

static void try_grammar(const char *data, size_t n)
{
    const char *text = memchr(data, 0, n);
    size_t n_source = text ? (size_t)(text - data) : n;
    grammar *g = NULL;
    grammar_run *r = NULL;
    if (grammar_parse(data, n_source, &g) != PM_OK) return;
    if (grammar_run_open(g, NULL, &r) == PM_OK) {
        for (size_t i = n_source + 1; i < n && i < n_source + 300; i++) {
            if (grammar_accept_bytes(r, data + i, 1) != PM_OK) break;
        }
        grammar_complete(r);
    }
    grammar_run_close(r);
    grammar_free(g);
}

// Takes any byte that is allowed, as the seed has it, until the text is complete.
static void complete(const grammar *g, uint64_t seed)
{
    grammar_run *r = NULL;
    buf text = {0};
    if (grammar_run_open(g, NULL, &r) != PM_OK) return;
    for (uint64_t step = 0; step < 300 && !grammar_complete(r); step++) {
        int tries = 0;
        char byte = (char)rng_u64(seed, step);
        while (tries < 256 && grammar_accept_bytes(r, &byte, 1) != PM_OK) {
            byte++;
            tries++;
        }
        if (tries == 256) break;
        buf_char(&text, byte);
    }
    if (grammar_complete(r) && text.len) {
        buf rounded = {0};
        large_round(text.data, text.len, &rounded); // jansson refuses large integers
        json_t *value =
            json_loadb(rounded.data, rounded.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        if (!value) abort();
        json_decref(value);
        buf_free(&rounded);
    }
    buf_free(&text);
    grammar_run_close(r);
}

static void try_schema(const char *data, size_t n)
{
    buf source = {0};
    grammar *g = NULL;
    if (schema_grammar(data, n, &source) == PM_OK &&
        grammar_parse(source.data, source.len, &g) == PM_OK) {
        complete(g, n);
        grammar_free(g);
    }
    buf_free(&source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    const char *rest = (const char *)data + 1;
    size_t n = size - 1;
    switch (data[0] % 3) {
    case 0: try_answer(rest, n < 4096 ? n : 4096, data[0] & 4, (size_t)(data[0] / 16) + 1); break;
    case 1: try_grammar(rest, n); break;
    default: try_schema(rest, n); break;
    }
    return 0;
}
