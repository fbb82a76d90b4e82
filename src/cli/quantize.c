// pumice quantize: a file with its matrices in another format.
#include <stdlib.h>

#include "cli/cli.h"

pm_status run_quantize(cli_args *args)
{
    char *in = NULL;
    if (args->n_words < 3)
        return error_set(PM_ERROR_USAGE, "quantize needs IN, OUT and TYPE (pumice quantize "
                                         "big.gguf small.gguf q8_0)");
    pm_status status = model_path(args->words[0], &in);
    if (status == PM_OK) status = pm_quantize(in, args->words[1], args->words[2], args->options);
    if (status == PM_OK && say_wanted(args)) say("%s: written", args->words[1]);
    free(in);
    return status;
}
