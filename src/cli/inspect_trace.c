// pumice inspect trace: one token's way through every step, as a lesson.
#include <string.h>

#include "cli/inspect.h"

static pm_status ask_trace(const cli_args *args, const pm_model *model, const char **words,
                           size_t n, char **json)
{
    const char *prompt = args_get(args, "prompt");
    if (n + (prompt ? 1 : 0) != 1)
        return error_set(PM_ERROR_USAGE, "inspect trace: needs one text (--prompt TEXT)");
    return pm_inspect_trace((pm_model *)model, args->options, prompt ? prompt : words[0],
                            args_has(args, "raw"), json);
}

typedef struct lesson {
    const json_t *all;
    bool markdown;
    int step;
} lesson;

// Every step has a number, a name and a sentence that says what happens.
static void step(lesson *l, const char *name, const char *says)
{
    const char *heading = l->markdown ? "## " : "", *gap = l->markdown ? "\n" : "";
    if (l->step++) out_text("\n");
    out_print("%s%d. %s\n%s%s\n%s", heading, l->step, name, gap, says, gap);
}

static void fence(const lesson *l)
{
    if (l->markdown) out_text("```\n");
}

static void values(const json_t *first, double n)
{
    size_t i;
    const json_t *x;
    out_text("[");
    json_array_foreach(first, i, x) out_print("%s%+.4f", i ? " " : "", json_number_value(x));
    out_print("%s]", n > (double)json_array_size(first) ? " ..." : "");
}

// ---- the steps --------------------------------------------------------------------------------

static void show_prompt(lesson *l)
{
    const json_t *all = l->all;
    bool templated = json_is_string(json_object_get(all, "template"));
    step(l, "The prompt", "What the user wrote.");
    fence(l);
    out_print("%s\n", text_of(all, "prompt"));
    fence(l);
    if (!templated) return;
    step(l, "The template",
         "The model was trained on conversations in one form; its chat template puts the prompt "
         "into it.");
    fence(l);
    out_print("%s\n", text_of(all, "rendered"));
    fence(l);
}

static void show_tokens(lesson *l)
{
    size_t i;
    const json_t *token;
    double n_embd = number_of(l->all, "n_embd");
    step(l, "Pieces and ids",
         "The text is cut into the pieces of the vocabulary; each has a number.");
    fence(l);
    json_array_foreach(json_object_get(l->all, "tokens"), i, token)
    {
        out_print("%4zu  ", i);
        inspect_print_token(token);
        out_text("\n");
    }
    fence(l);
    step(l, "Embedding rows",
         "Each id picks a row of the embedding table: from here on a token is a vector.");
    fence(l);
    json_array_foreach(json_object_get(l->all, "embedding"), i, token)
    {
        out_print("%4zu  ", i);
        values(json_object_get(token, "first"), n_embd);
        out_print(" (%.0f values)  ", n_embd);
        inspect_print_token(token);
        out_text("\n");
    }
    fence(l);
}

static void show_op(const json_t *op)
{
    size_t i;
    const json_t *w;
    out_print("%4.0f %-8s %s: %s\n", number_of(op, "index"), text_of(op, "op"),
              text_of(op, "label"), text_of(op, "does"));
    json_array_foreach(json_object_get(op, "writes"), i, w)
    {
        const json_t *shape = json_object_get(w, "shape");
        double n = json_number_value(json_array_get(shape, 1));
        out_print("     %s [%.0f, %.0f] ", text_of(w, "name"),
                  json_number_value(json_array_get(shape, 0)), n);
        values(json_object_get(w, "first"), n);
        out_print(" length %.4f\n", number_of(w, "length"));
    }
}

// The residual stream behind a layer that is not shown: the last op of a layer writes it.
static void show_residual(const json_t *op)
{
    const json_t *w = json_array_get(json_object_get(op, "writes"), 0);
    out_print("     layer %2.0f: %s length %.4f\n", number_of(op, "layer"), text_of(w, "name"),
              number_of(w, "length"));
}

static void show_ops(lesson *l)
{
    size_t i;
    const json_t *op;
    double layer = number_of(l->all, "layer");
    char says[400];
    snprintf(says, sizeof says,
             "The plan's operations, in its order and with its names (pumice info --plan): [rows, "
             "values] of what each writes, the first values and the length of the last row. Layer "
             "%.0f of %.0f is shown step by step; of the others what they leave behind.",
             layer, number_of(l->all, "n_layer"));
    step(l, "Through the layers", says);
    fence(l);
    json_array_foreach(json_object_get(l->all, "ops"), i, op)
    {
        double own = number_of(op, "layer");
        if (own < 0 || own == layer)
            show_op(op);
        else
            show_residual(op);
    }
    fence(l);
}

static void show_draw(lesson *l)
{
    const json_t *drawn = json_object_get(l->all, "drawn");
    char says[300];
    snprintf(says, sizeof says,
             "One number for each of the %.0f tokens; a softmax makes probabilities of them. The "
             "highest:",
             number_of(l->all, "n_vocab"));
    step(l, "Logits", says);
    fence(l);
    inspect_print_top(json_object_get(l->all, "top"), "");
    fence(l);
    step(l, "Temperature and filters", text_of(l->all, "sampler"));
    fence(l);
    inspect_print_filters(json_object_get(l->all, "filters"), "");
    fence(l);
    step(l, "The drawn token", "Its cross entropy is -ln of its probability before the filters.");
    fence(l);
    inspect_print_token(drawn);
    out_print(": rank %.0f, probability %.4f %%, cross entropy %.4f nats\n",
              number_of(drawn, "rank"), 100 * number_of(drawn, "probability"),
              number_of(drawn, "cross_entropy"));
    fence(l);
    step(l, "Appended",
         "The token goes to the end of the text, and with this one row everything begins again.");
    fence(l);
    out_print("%s%s\n", text_of(l->all, "rendered"), text_of(drawn, "text"));
    fence(l);
}

static void print_trace(const cli_args *args, const json_t *all)
{
    lesson l = {.all = all, .markdown = args_has(args, "markdown")};
    if (l.markdown) out_text("# How a prompt becomes the next token\n\n");
    out_print("Device: %s\n\n", text_of(all, "description"));
    show_prompt(&l);
    show_tokens(&l);
    show_ops(&l);
    show_draw(&l);
}

const view view_trace = {"trace", true, ask_trace, print_trace, NULL};
