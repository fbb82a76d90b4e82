// pumice perplexity: how well a model foretells a text.
#include <math.h>
#include <stdlib.h>

#include "base/os.h"
#include "cli/cli.h"

const cli_option perplexity_options[] = {
    {"model", 'm', "MODEL", "the model, instead of the first word"},
    {"file", 'f', "FILE", "the text (-: the standard input)"},
    {"json", 0, NULL, "everything as one JSON document"},
    {0},
};

// ---- progress ---------------------------------------------------------------------------------

typedef struct progress {
    const pm_perplexity *run;
    bool line;  // on a terminal: one line that is written again and again
    bool lines; // -v elsewhere: a line for each window
    double start;
} progress;

static void show_left(char *text, size_t n, double seconds)
{
    if (seconds < 100)
        snprintf(text, n, "%.0f s", seconds);
    else if (seconds < 6000)
        snprintf(text, n, "%.0f min", seconds / 60);
    else
        snprintf(text, n, "%.1f h", seconds / 3600);
}

static void show_progress(const progress *p)
{
    char left[32];
    size_t done = pm_perplexity_n_done(p->run), all = pm_perplexity_n_windows(p->run);
    if (!p->line && !p->lines) return;
    if (done == 0) {
        if (p->line) fprintf(stderr, "window 1 of %zu", all);
        return;
    }
    double each = (os_seconds() - p->start) / (double)done;
    show_left(left, sizeof left, each * (double)(all - done));
    fprintf(stderr, "%swindow %zu of %zu, perplexity %.4f, %s left%s", p->line ? "\r" : "", done,
            all, pm_perplexity_value(p->run, NULL), left, p->line ? "\033[K" : "\n");
}

static pm_status run_windows(const cli_args *args, pm_perplexity *run)
{
    progress p = {.run = run, .start = os_seconds()};
    p.line = !args->quiet && os_is_terminal(2);
    p.lines = args->verbose && !p.line && !args->quiet;
    pm_status status = PM_OK;
    show_progress(&p);
    while (status == PM_OK && pm_perplexity_n_done(run) < pm_perplexity_n_windows(run)) {
        status = pm_perplexity_next(run);
        if (status == PM_OK) show_progress(&p);
    }
    if (p.line) fputs("\r\033[K", stderr);
    return status;
}

// ---- the result -------------------------------------------------------------------------------

static void print_result(const json_t *all)
{
    out_print("perplexity %.4f ± %.4f\n", number_in(all, "perplexity", NAN),
              number_in(all, "error", NAN));
    out_print("%.0f tokens scored in %.0f windows of %.0f, on %s, activations %s, KV cache %s\n",
              number_in(all, "scored", NAN), number_in(all, "windows", NAN),
              number_in(all, "n_ctx", NAN), text_in(all, "device", ""), text_in(all, "act", ""),
              text_in(all, "kv_type", ""));
    const json_t *other = json_object_get(all, "against");
    if (!json_is_object(other)) return;
    out_print("\nagainst %s, activations %s, KV cache %s: perplexity %.4f ± %.4f (ratio %.6f)\n",
              text_in(other, "device", ""), text_in(other, "act", ""),
              text_in(other, "kv_type", ""), number_in(other, "perplexity", NAN),
              number_in(other, "error", NAN),
              number_in(all, "perplexity", NAN) / number_in(other, "perplexity", NAN));
    out_print("KL divergence: mean %.3g ± %.2g, 99 %% %.3g, max %.3g\n",
              number_in(other, "kl_mean", NAN), number_in(other, "kl_error", NAN),
              number_in(other, "kl_p99", NAN), number_in(other, "kl_max", NAN));
    out_print("same choice: %.2f %%; logits differ by at most %.3g, mean %.3g\n",
              100 * number_in(other, "top1_agreement", NAN), number_in(other, "max_abs", NAN),
              number_in(other, "mean_abs", NAN));
}

static void show_result(const cli_args *args, const char *text)
{
    if (args_has(args, "json")) {
        out_text(text);
        out_text("\n");
        return;
    }
    json_t *all = json_loads(text, 0, NULL);
    print_result(all);
    json_decref(all);
}

pm_status run_perplexity(cli_args *args)
{
    loaded l = {0};
    char *text = NULL, *json = NULL;
    size_t n_text = 0;
    pm_perplexity *run = NULL;
    const char *path = args_get(args, "file");
    if (!path) return error_set(PM_ERROR_USAGE, "-f: the text is needed (-f FILE)");
    pm_status status = read_input(path, &text, &n_text);
    if (status == PM_OK) status = loaded_model(args, args->n_words ? args->words[0] : NULL, &l);
    if (status == PM_OK) status = pm_perplexity_start(l.model, args->options, text, n_text, &run);
    if (status == PM_OK) status = run_windows(args, run);
    if (status == PM_OK) status = pm_perplexity_json(run, &json);
    if (status == PM_OK) show_result(args, json);
    pm_free(json);
    pm_perplexity_destroy(run);
    loaded_free(&l);
    free(text);
    return status;
}
