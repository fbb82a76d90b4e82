// Byte-pair training: `pumice train-bpe`.
#include "text/train.h"

#include "api/handles.h"

pm_status pm_train_bpe(const char *text, size_t n, int32_t n_vocab, const char *const *specials,
                       size_t n_specials, uint64_t min_count, const char *out, size_t *n_tokens,
                       size_t *n_merges)
{
    bpe_params params = {.specials = specials,
                         .n_specials = n_specials,
                         .n_vocab = n_vocab < 0 ? 0 : (uint32_t)n_vocab,
                         .min_count = min_count};
    bpe_vocab v;
    pm_status status = bpe_train(text, n, &params, &v);
    if (status != PM_OK) return status;
    status = bpe_vocab_write(&v, &params, out);
    if (status == PM_OK && n_tokens) *n_tokens = v.n_tokens;
    if (status == PM_OK && n_merges) *n_merges = v.n_merges;
    bpe_vocab_free(&v);
    return status;
}
