// Small vocabularies under cmocka, and comparing ids with a list.
#ifndef TEST_TEXT_SMALL_H
#define TEST_TEXT_SMALL_H

#include "text/small_vocab.h"
#include "text/vectors.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define ENCODES(v, text, special, ...)                                                             \
    expect_ids(v, text, strlen(text), special, (const int32_t[]){__VA_ARGS__},                     \
               COUNT(((const int32_t[]){__VA_ARGS__})), __LINE__)

static inline void expect(const text_ids *found, const int32_t *ids, size_t n_ids, int line)
{
    bool same = found->n == n_ids && memcmp(found->ids, ids, n_ids * sizeof *ids) == 0;
    if (same) return;
    for (size_t i = 0; i < found->n; i++) print_error(" %d", found->ids[i]);
    fail_msg(" were found, line %d", line);
}

static inline void expect_ids(const text_vocab *v, const char *text, size_t n, bool special,
                              const int32_t *ids, size_t n_ids, int line)
{
    text_ids found = {0};
    assert_ok(text_encode(v, text, n, special, &found));
    expect(&found, ids, n_ids, line);
    text_ids_free(&found);
}

typedef struct small {
    gguf_bytes bytes;
    gguf *g;
    text_vocab *v;
} small;

static inline void open_small(small *s)
{
    assert_ok(gguf_bytes_open(&s->bytes, &s->g));
    assert_ok(text_vocab_load(s->g, NULL, &s->v));
}

static inline void close_small(small *s)
{
    text_vocab_free(s->v);
    gguf_close(s->g);
    gguf_bytes_free(&s->bytes);
}

#endif
