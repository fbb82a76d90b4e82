// pumice train-bpe: a text to a vocabulary that `tokenize` reads.
#include <stdlib.h>

#include "cli/cli.h"

const cli_option train_bpe_options[] = {
    {"vocab", 0, "N", "how many tokens, special ones and the 256 bytes included (is needed)"},
    {"output", 'o', "FILE", "the vocabulary, a GGUF file (is needed)"},
    {"special", 0, "TEXT", "a control token (repeatable; default <|endoftext|>)"},
    {"min-count", 0, "N", "pairs less frequent than this don't become tokens (default 1)"},
    {0},
};

static pm_status train(const cli_args *args, const char *text, size_t n)
{
    static const char *const one[] = {"<|endoftext|>"};
    const char **specials = calloc(args->n_values + 1, sizeof *specials);
    if (!specials) return error_memory("special tokens", args->n_values);
    size_t n_specials = 0, n_tokens = 0, n_merges = 0;
    while ((specials[n_specials] = args_nth(args, "special", n_specials))) n_specials++;
    int64_t n_vocab = 0, least = 1;
    pm_status status = args_count(args, "vocab", 1, INT32_MAX, 0, &n_vocab);
    if (status == PM_OK) status = args_count(args, "min-count", 1, INT32_MAX, 1, &least);
    if (status == PM_OK)
        status = pm_train_bpe(text, n, (int32_t)n_vocab, n_specials ? specials : one,
                              n_specials ? n_specials : 1, (uint64_t)least,
                              args_get(args, "output"), &n_tokens, &n_merges);
    free(specials);
    if (status != PM_OK || args->quiet) return status;
    if (n_tokens < (size_t)n_vocab)
        say_warning("the text gives %zu tokens only, no pair is left", n_tokens);
    if (say_wanted(args))
        say("%s: %zu tokens, %zu merges", args_get(args, "output"), n_tokens, n_merges);
    return PM_OK;
}

pm_status run_train_bpe(cli_args *args)
{
    if (args->n_words != 1 || !args_get(args, "vocab") || !args_get(args, "output"))
        return error_set(PM_ERROR_USAGE, "train-bpe needs TEXT, --vocab and -o (pumice train-bpe "
                                         "book.txt --vocab 1000 -o book.gguf)");
    char *text = NULL;
    size_t n = 0;
    pm_status status = read_input(args->words[0], &text, &n);
    if (status == PM_OK) status = train(args, text, n);
    free(text);
    return status;
}
