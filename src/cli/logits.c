// pumice logits: what the model gives for known ids, for other programs to compare with.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

const cli_option logits_options[] = {
    {"model", 'm', "MODEL", "the model, instead of the first word"},
    {"ids", 0, "IDS", "the token ids: 1,2,3"},
    {"all", 0, NULL, "at every position, not only the last"},
    {"hidden", 0, NULL, "the residual stream of the last position after each layer, too"},
    {"json", 0, NULL, "all numbers, as one JSON document"},
    {0},
};

typedef struct result {
    const pm_session *session;
    const pm_model *model;
    const int32_t *ids;
    size_t n, first; // positions from first to n have logits
    bool hidden;
} result;

// Nine digits give every float back.
static void print_floats(const float *values, size_t n)
{
    out_text("[");
    for (size_t k = 0; k < n; k++) {
        if (k) out_text(",");
        if (isfinite(values[k]))
            out_print("%.9g", (double)values[k]);
        else
            out_text("null");
    }
    out_text("]");
}

static void print_json(const result *r)
{
    size_t n_vocab = (size_t)pm_model_n_vocab(r->model), n_embd = (size_t)pm_model_n_embd(r->model);
    out_print("{\"device\": \"%s\", \"n_vocab\": %zu, \"positions\": [", pm_model_device(r->model),
              n_vocab);
    for (size_t pos = r->first; pos < r->n; pos++) {
        out_print("%s\n{\"pos\": %zu, \"id\": %d, \"logits\": ", pos > r->first ? "," : "", pos,
                  (int)r->ids[pos]);
        print_floats(pm_session_logits(r->session, pos - r->first), n_vocab);
        out_text("}");
    }
    out_text("]");
    if (r->hidden) {
        out_text(", \"hidden\": [");
        for (int layer = -1; layer < pm_model_n_layer(r->model); layer++) {
            out_print("%s\n{\"layer\": %d, \"values\": ", layer >= 0 ? "," : "", layer);
            print_floats(pm_session_hidden(r->session, layer), n_embd);
            out_text("}");
        }
        out_text("]");
    }
    out_text("}\n");
}

enum { N_BEST = 10 };

// The highest of a position, best first.
static void print_best(const result *r, size_t pos)
{
    const float *logits = pm_session_logits(r->session, pos - r->first);
    int32_t n_vocab = pm_model_n_vocab(r->model), best[N_BEST];
    int n = 0;
    for (int32_t id = 0; id < n_vocab; id++) {
        int k = n < N_BEST ? n++ : N_BEST;
        for (; k > 0 && logits[best[k - 1]] < logits[id]; k--)
            if (k < N_BEST) best[k] = best[k - 1];
        if (k < N_BEST) best[k] = id;
    }
    out_print("position %zu, id %d\n", pos, (int)r->ids[pos]);
    for (int k = 0; k < n; k++) {
        size_t n_piece = 0;
        const char *piece = pm_token_piece(r->model, best[k], 1, &n_piece);
        json_t *text = json_of_bytes(piece, piece ? n_piece : 0);
        out_print("  %8d  %12.6f  ", (int)best[k], (double)logits[best[k]]);
        out_json(text, JSON_ENCODE_ANY);
        json_decref(text);
    }
}

static void print_text(const result *r)
{
    for (size_t pos = r->first; pos < r->n; pos++) print_best(r, pos);
    size_t n_embd = (size_t)pm_model_n_embd(r->model);
    for (int layer = -1; r->hidden && layer < pm_model_n_layer(r->model); layer++) {
        const float *x = pm_session_hidden(r->session, layer);
        double sum = 0;
        for (size_t k = 0; k < n_embd; k++) sum += (double)x[k] * (double)x[k];
        out_print("layer %3d: length %.6f, begins %.6f %.6f %.6f\n", layer, sqrt(sum), (double)x[0],
                  (double)x[n_embd > 1], (double)x[n_embd > 2 ? 2 : 0]);
    }
}

pm_status run_logits(cli_args *args)
{
    loaded l = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    const char *list = args_get(args, "ids");
    bool all = args_has(args, "all"), hidden = args_has(args, "hidden");
    if (!list) return error_set(PM_ERROR_USAGE, "--ids: is needed (--ids 1,2,3)");
    pm_status status = error_in(parse_ids(list, &ids, &n), "--ids");
    if (status == PM_OK && n == 0) status = error_set(PM_ERROR_USAGE, "--ids: holds no id");
    if (status == PM_OK) status = loaded_model(args, args->n_words ? args->words[0] : NULL, &l);
    if (status == PM_OK) status = loaded_session(args, &l);
    if (status == PM_OK) {
        pm_session_keep_hidden(l.session, hidden);
        status = pm_session_eval(l.session, ids, n, all);
    }
    if (status == PM_OK) {
        result r = {l.session, l.model, ids, n, all ? 0 : n - 1, hidden};
        if (args_has(args, "json"))
            print_json(&r);
        else
            print_text(&r);
    }
    loaded_free(&l);
    free(ids);
    return status;
}
