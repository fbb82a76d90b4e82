// pumice: the program. Finds the command, parses its words, prints its error.
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cli/cli.h"

#define RUNS "run debug"

static const cli_command commands[] = {
    {"chat", "[MODEL]", "talk with a model",
     "Ctrl-C stops an answer, twice within a second leaves. /help lists what else can be typed. "
     "Without a terminal every line of the input is a message. With -q the commands that only show "
     "something still do.",
     1, chat_options, RUNS " sampler generate", run_chat},
    {"ask", "[MODEL] PROMPT", "one question, one answer",
     "PROMPT may also come from -p, -f or the standard input. One word alone is MODEL when it "
     "names "
     "a model, else PROMPT. The default of --max-tokens is in ELELEM_GGUF_MAX_TOKENS where that is "
     "set.",
     2, ask_options, RUNS " sampler generate", run_ask},
    {"info", "[MODEL]", "what is in a model file", NULL, 1, info_options, RUNS, run_info},
    {"tokenize", "[MODEL] [TEXT]", "text to token ids and back",
     "TEXT may also come from the standard input. --jsonl answers each line of a file in order: "
     "{\"text\"} or {\"bytes_b64\"} with {\"ids\"}, {\"ids\"} alone with {\"bytes_b64\"}, what has "
     "no answer with {\"error\"}.",
     2, tokenize_options, RUNS, run_tokenize},
    {"template", "[MODEL]", "a conversation as the model's chat template renders it",
     "--jsonl answers each line of a file in order with {\"text\"} or {\"error\"} and needs no "
     "MODEL. A line holds template, messages, tools, documents and vars.",
     1, template_options, RUNS, run_template},
    {"logits", "[MODEL]", "raw logits of given token ids", NULL, 1, logits_options, RUNS,
     run_logits},
    {"inspect", "[MODEL] WHAT [...]", "look into a model: embeddings, attention, logits, weights",
     "embedding WORDS: their rows of the embedding table as a heat map, dot products, cosines. "
     "attention TEXT: what each token looks at, by layer and head. logits TEXT: the most likely "
     "next tokens at each position, and what filters leave of them. weights [PART]: range, mean, "
     "deviation and histogram of the tensors whose name holds PART. trace --prompt TEXT: how a "
     "prompt becomes the next token, step by step.",
     1000, inspect_options, RUNS " sampler inspect", run_inspect},
    {"devices", "", "the devices that can run a model", NULL, 0, devices_options, "debug",
     run_devices},
    {"check", "[MODEL]", "does a device compute what the reference computes?",
     "First each operation alone, on the reference's inputs; then whole runs of both. Ends with "
     "status 5 where something is past its bound, with 4 (skipped) where the device is missing.",
     1, check_options, RUNS " check against repeat", run_check},
    {"bench", "[MODEL]", "how fast a model runs here", NULL, 1, bench_options,
     RUNS " bench repeat suite", run_bench},
    {"perplexity", "[MODEL]", "how well a model foretells a text, with its standard error",
     "The text is cut into windows of --ctx tokens (default 512); of each the second half is "
     "scored. "
     "--against runs the same windows on another device, with act=f32 and an f32 cache, and shows "
     "how far the answers are apart.",
     1, perplexity_options, RUNS " perplexity against", run_perplexity},
    {"train-bpe", "TEXT", "train a byte-pair vocabulary on a text",
     "Makes a vocabulary file that tokenize reads. Merges are those of Hugging Face tokenizers' "
     "trainer on the same text.",
     1, train_bpe_options, NULL, run_train_bpe},
    {"compare", "A.json B.json [...]", "results of bench side by side",
     "A difference within the spread of the samples is called none. Results of different models, "
     "types, batches or caches are refused, unless forced.",
     100, compare_options, NULL, run_compare},
    {"quantize", "IN OUT TYPE", "rewrite a model file with its matrices as TYPE",
     "TYPE: f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q6_k, mxfp4, tq1_0 or tq2_0. IN "
     "may be "
     "in any format that can be decoded. Norms and biases are F32, metadata stays. OUT appears "
     "when "
     "it is complete.",
     3, NULL, RUNS, run_quantize},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static const cli_command *find_command(const char *name)
{
    for (size_t k = 0; k < N_COMMANDS; k++)
        if (!strcmp(commands[k].name, name)) return &commands[k];
    return NULL;
}

static pm_status no_such_command(const char *name)
{
    bool option = name[0] == '-';
    nearest near = {.word = name};
    for (size_t k = 0; k < N_COMMANDS && !option; k++) nearest_try(&near, commands[k].name);
    if (option) {
        nearest_try(&near, "--help");
        nearest_try(&near, "--version");
    }
    error_set(PM_ERROR_USAGE, "%s: no such %s (did you mean %s%s? 'pumice --help' lists all)", name,
              option ? "option before the command" : "command", option ? "" : "pumice ", near.best);
    say_error();
    return PM_ERROR_USAGE;
}

static pm_status run_command(const cli_command *command, int argc, char **argv, bool *interrupted)
{
    cli_args args;
    pm_status status = args_parse(command, argc, argv, &args);
    if (status == PM_OK && args.help)
        help_command(command, args.help_debug);
    else if (status == PM_OK)
        status = command->run(&args);
    if (status != PM_OK && !args.reported) say_error();
    *interrupted = args.interrupted;
    args_free(&args);
    return status;
}

int main(int argc, char **argv)
{
    os_standard_streams();
    os_pipe_errors();
    setlocale(LC_CTYPE, ""); // line editing needs the terminal's characters; numbers stay plain
    pm_status status = PM_OK;
    bool interrupted = false;
    const char *word = argc > 1 ? argv[1] : "--help";
    if (!strcmp(word, "help") && argc > 2) {
        const cli_command *command = find_command(argv[2]);
        if (command)
            help_command(command, false);
        else
            status = no_such_command(argv[2]);
    } else if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
        help_overview(commands, N_COMMANDS);
    } else if (!strcmp(word, "--version")) {
        out_print("pumice %s\n", pm_version());
    } else {
        const cli_command *command = find_command(word);
        status = command ? run_command(command, argc - 2, argv + 2, &interrupted)
                         : no_such_command(word);
    }
    out_flush();
    if (interrupted) os_die_by_interrupt();
    return (int)status;
}
