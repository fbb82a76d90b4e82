// pumice quantize: a file with its matrices in another format.
#include <stdlib.h>

#include "base/os.h"
#include "cli/cli.h"

static pm_status run_pieces(cli_args *args, pm_quantization *q)
{
    bool line = !args->quiet && os_is_terminal(2);
    double start = os_seconds();
    int done = 0, shown = -1;
    pm_status status = PM_OK;
    os_interrupts_clear();
    os_interrupts_catch();
    while (status == PM_OK && !done && os_interrupts() == 0) {
        status = pm_quantization_next(q, &done);
        if (line && status == PM_OK) show_percent(pm_quantization_part(q), start, &shown);
    }
    if (shown >= 0) fputs("\r\033[K", stderr);
    args->interrupted = !done && os_interrupts() > 0;
    return status;
}

pm_status run_quantize(cli_args *args)
{
    char *in = NULL;
    pm_quantization *q = NULL;
    if (args->n_words < 3)
        return error_set(PM_ERROR_USAGE, "quantize needs IN, OUT and TYPE (pumice quantize "
                                         "big.gguf small.gguf q8_0)");
    pm_status status = model_path(args->words[0], &in);
    if (status == PM_OK)
        status = pm_quantization_start(in, args->words[1], args->words[2], args->options, &q);
    if (status == PM_OK) status = run_pieces(args, q);
    if (status == PM_OK && !args->interrupted && !args->quiet) {
        if (*pm_last_error()) say_warning("%s", pm_last_error());
        if (say_wanted(args)) say("%s: written", args->words[1]);
    }
    pm_quantization_destroy(q);
    free(in);
    return status;
}
