// pumice: language models from GGUF files on Vulkan GPUs and on the CPU.
//
// The one public header, C11, usable as it is from any language that can call C: opaque handles,
// plain functions, no structs by value, no callbacks. The program `pumice` is written on it alone.
//
// The shortest complete use (errors left out):
//
//     pm_options *options = pm_options_create();
//     pm_options_set(options, "ctx", "2048");
//     pm_model *model;      pm_model_open("model.gguf", options, &model);
//     pm_session *session;  pm_session_create(model, options, &session);
//     pm_chat *chat;        pm_chat_create(session, options, &chat);
//     pm_chat_add(chat, "user", "Why is the sky blue?");
//     pm_generation *reply; pm_chat_generate(chat, NULL, &reply);
//     const char *text; size_t n; int done = 0;
//     while (!done && pm_generation_next(reply, &text, &n, &done) == PM_OK) fwrite(text, 1, n,
//     stdout); pm_chat_finish(chat); // the answer is part of the conversation now, `reply` is
//     released
//
// Conventions
//   Errors     Every function that can fail returns a pm_status and leaves one line for
//              pm_last_error(). Output arguments are then untouched unless said otherwise.
//   Ownership  What a `create` or `open` returns is released by the matching `destroy` or `close`,
//              which accepts NULL. A `char **` is a zero-terminated UTF-8 text that the caller
//              releases with pm_free(). A returned `const char *` belongs to the handle.
//              A model outlives its sessions, a session its chats and generations.
//   Threads    A pm_model may be used by any number of threads at once. Every other handle belongs
//              to one thread at a time; the exceptions are marked.
//   Text       UTF-8 with a length in bytes; it may hold zero bytes.
//   Ids        Token ids are int32_t in [0, pm_model_n_vocab).
#ifndef PUMICE_H
#define PUMICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PM_API __attribute__((visibility("default")))
#else
#define PM_API
#endif

// What a call ended with. The numbers are also the exit statuses of the program.
typedef enum pm_status {
    PM_OK = 0,
    PM_ERROR_RUN = 1,    // failed while running: a template's raise_exception, NaN, I/O, memory
    PM_ERROR_USAGE = 2,  // wrong use: an option, a value, an empty or too long prompt
    PM_ERROR_FILE = 3,   // the file: missing, not GGUF, cut, or something in it is not supported
    PM_ERROR_DEVICE = 4, // the device asked for is missing, lost, or too small
    PM_ERROR_CHECK = 5,  // a check found a mismatch
} pm_status;

typedef struct pm_options pm_options;
typedef struct pm_model pm_model;
typedef struct pm_session pm_session;
typedef struct pm_sampler pm_sampler;
typedef struct pm_generation pm_generation;
typedef struct pm_chat pm_chat;
typedef struct pm_perplexity pm_perplexity;
typedef struct pm_quantization pm_quantization;
typedef struct pm_suite_model pm_suite_model;

PM_API const char *pm_version(void); // "0.1.0"
// This thread's last message: one line, "" before the first failure; valid until the next one.
PM_API const char *pm_last_error(void);
PM_API void pm_free(void *text);

// ---- options ----------------------------------------------------------------------------------

// Named values as text, the same names, ranges and defaults as on the command line ("ctx",
// "device", "temp", ...). A fresh set holds no values: every default applies. Functions read what
// concerns them and copy it; a set may be changed or destroyed afterwards.
PM_API pm_options *pm_options_create(void); // NULL when memory runs out
PM_API void pm_options_destroy(pm_options *options);
// PM_ERROR_USAGE: no such option (the message names the nearest), or the value is not in its range.
// Repeatable options (stop, logit-bias) collect their values; NULL takes all of them back.
PM_API pm_status pm_options_set(pm_options *options, const char *name, const char *value);
// The value set, else the default as text, else NULL. `options` may be NULL: the defaults.
PM_API const char *pm_options_get(const pm_options *options, const char *name);
// Was it set (and not left at its default)?
PM_API int pm_options_is_set(const pm_options *options, const char *name);

// The table behind the options, for help texts and bindings; 0 past the end. Any argument may be
// NULL. `group`: "run", "sampler", "generate", "bench", "check", "perplexity", "against", "repeat",
// "inspect", "debug", "suite". `value`: how the value is
// written in help ("N|max"), NULL for a switch (set with "true" or "false"). `range` says the
// accepted values in words.
PM_API int pm_options_describe(size_t index, const char **name, const char **group,
                               const char **value, const char **range, const char **fallback,
                               const char **help);

// ---- models -----------------------------------------------------------------------------------

// Opens a GGUF file and loads its weights for the device that the option "device" chooses.
// With the option "vocab-only" nothing but the vocabulary is loaded: enough for tokens and
// templates. PM_ERROR_FILE, PM_ERROR_DEVICE; PM_ERROR_USAGE for options that don't fit the model.
PM_API pm_status pm_model_open(const char *path, const pm_options *options, pm_model **model);
PM_API void pm_model_close(pm_model *model);

// Remarks about the file that its user should see (an assumed pre-tokenizer, ...).
PM_API size_t pm_model_n_warnings(const pm_model *model);
PM_API const char *pm_model_warning(const pm_model *model, size_t index);

PM_API const char *pm_model_architecture(const pm_model *model);
PM_API const char *pm_model_device(const pm_model *model); // "cpu": an id that "device" takes
PM_API const char *pm_model_device_description(const pm_model *model); // "cpu (AVX2, 2 threads)"
// Why that device, where a user should know: "no GPU to use (no Vulkan loader): running on the
// cpu";
// "" otherwise.
PM_API const char *pm_model_device_note(const pm_model *model);
// What came up on the device and its user should see (a GPU's kernel that had to be replaced by a
// simpler one); creating sessions can add to it. NULL past the last.
PM_API const char *pm_model_device_warning(const pm_model *model, size_t index);
PM_API int32_t pm_model_n_vocab(const pm_model *model);
PM_API int32_t pm_model_n_layer(const pm_model *model);
PM_API int32_t pm_model_n_embd(const pm_model *model);
PM_API int32_t pm_model_n_ctx_train(const pm_model *model);
PM_API double pm_model_load_seconds(const pm_model *model);
PM_API uint64_t pm_model_weight_bytes(const pm_model *model); // of the tensors in use, as stored

// Everything about a file without reading tensor data, as JSON (`pumice info --json`): works for
// any well-formed GGUF, of an unknown architecture too. `full`: long arrays are not shortened. The
// option "ctx" sizes the cache that is reported.
PM_API pm_status pm_info(const char *path, const pm_options *options, int full, char **json);

// The operations of one decode step (n_rows = 1) or a prefill chunk, one a line, with shapes,
// bytes and flops. Weights need not be loaded ("vocab-only" is enough).
PM_API pm_status pm_model_plan(const pm_model *model, const pm_options *options, int n_rows,
                               char **text);

// Rewrites a file with its matrices as `type` ("q8_0"), from any format that can be decoded; norms
// and biases are F32, metadata stays byte for byte but for general.file_type and
// general.quantization_version. Written beside and renamed. A matrix whose rows are no whole number
// of the type's blocks gets a larger format (Q5_0 for Q4_K, Q8_0 for Q6_K, else F16): then the call
// succeeds and pm_last_error() holds a remark with their number, else "". PM_ERROR_USAGE: a type
// without an encoder (the message lists those that have one), or OUT is IN.
PM_API pm_status pm_quantize(const char *in, const char *out, const char *type,
                             const pm_options *options);

// The same in pieces, for those who show progress: start, then next until *done, which is when OUT
// is there. Destroying an unfinished one leaves nothing behind.
PM_API pm_status pm_quantization_start(const char *in, const char *out, const char *type,
                                       const pm_options *options, pm_quantization **quantization);
PM_API pm_status pm_quantization_next(pm_quantization *quantization, int *done);
PM_API double pm_quantization_part(const pm_quantization *quantization); // done, from 0 to 1
PM_API void pm_quantization_destroy(pm_quantization *quantization);

// Byte-pair training: makes a vocabulary of at most n_vocab tokens from a text and writes it as a
// GGUF file that pm_model_open reads with "vocab-only". The specials become control tokens with the
// first ids, then come the 256 bytes, then merges, the most frequent first (pairs that occur less
// than min_count times are left out): the same as Hugging Face tokenizers' BpeTrainer makes with a
// ByteLevel pre-tokenizer. n_tokens, n_merges: how many there are (may be NULL).
PM_API pm_status pm_train_bpe(const char *text, size_t n, int32_t n_vocab,
                              const char *const *specials, size_t n_specials, uint64_t min_count,
                              const char *out, size_t *n_tokens, size_t *n_merges);

// The devices that can run a model, as JSON (`pumice devices --json`).
PM_API pm_status pm_devices(const pm_options *options, char **json);

// ---- tokens -----------------------------------------------------------------------------------

enum {
    PM_TOKENS_SPECIAL = 1, // control tokens named in the text are recognised
    PM_TOKENS_BOS = 2,     // add what the file asks for at the ends (BOS, EOS)
};
// Writes the first `cap` ids and the count of all to *n (n > cap: call again with more room).
PM_API pm_status pm_tokenize(const pm_model *model, const char *text, size_t n_text, int flags,
                             int32_t *ids, size_t cap, size_t *n);
// The bytes that a token stands for: whole characters only when tokens are joined. Control tokens
// give their text with `special`, nothing without. NULL for an id outside the vocabulary.
PM_API const char *pm_token_piece(const pm_model *model, int32_t id, int special, size_t *n);
// Joined pieces, without the space that a SentencePiece vocabulary put before the text.
// PM_ERROR_USAGE: an id outside the vocabulary.
PM_API pm_status pm_detokenize(const pm_model *model, const int32_t *ids, size_t n, int special,
                               char **text, size_t *n_text);
PM_API int pm_token_is_end(const pm_model *model, int32_t id); // ends a generation
PM_API int32_t pm_token_bos(const pm_model *model);            // -1: none
PM_API int32_t pm_token_eos(const pm_model *model);            // -1: none

// ---- templates --------------------------------------------------------------------------------

// Renders a chat template. `vars`: a JSON object with the template's variables ("messages", ...).
// `now`: what strftime_now shows, seconds since 1970-01-01 in local time as wall clocks show it;
// negative: the current time. PM_ERROR_FILE: does not parse; PM_ERROR_RUN: it raised (the message
// is its own) or went past a limit; PM_ERROR_USAGE: vars are not JSON.
PM_API pm_status pm_template_render(const char *source, size_t n_source, const char *vars,
                                    double now, char **text, size_t *n_text);
// The model's own template, NULL when the file has none.
PM_API const char *pm_model_template(const pm_model *model, size_t *n);
// "2025-07-08T09:05:03" to the `now` above.
PM_API pm_status pm_parse_time(const char *text, double *now);

// ---- sessions ---------------------------------------------------------------------------------

// One sequence of tokens with its KV cache on the model's device. Options: ctx, batch, kv-type,
// act. PM_ERROR_RUN or PM_ERROR_DEVICE when the cache can't be had.
PM_API pm_status pm_session_create(pm_model *model, const pm_options *options,
                                   pm_session **session);
PM_API void pm_session_destroy(pm_session *session);
// What opening it took: "41 kernels, 41 of them made in 0.52 s"; "" where there is nothing to tell.
PM_API const char *pm_session_prepared(const pm_session *session);
// What pm_session_create would make of these options, before any memory is taken. PM_ERROR_USAGE as
// there: a model without weights ("vocab-only"), options that don't fit it.
PM_API pm_status pm_session_size(const pm_model *model, const pm_options *options, int32_t *n_ctx,
                                 uint64_t *kv_bytes);

PM_API int32_t pm_session_n_ctx(const pm_session *session);
PM_API int32_t pm_session_n_past(const pm_session *session); // tokens in the cache
PM_API uint64_t pm_session_kv_bytes(const pm_session *session);
PM_API const int32_t *pm_session_tokens(const pm_session *session); // n_past of them

// Appends n tokens. Afterwards logits are there for the last token, or with `all` for each of the n
// (then n times n_vocab floats are kept). PM_ERROR_USAGE: more than the context holds (nothing was
// done). PM_ERROR_RUN: NaN in the logits (message names the position), or interrupted. A failure
// leaves the cache as it was before the call.
PM_API pm_status pm_session_eval(pm_session *session, const int32_t *ids, size_t n, int all);
// Raw logits [n_vocab] of the last eval: index 0 is the first token that has them. Valid until the
// next eval; NULL: there are none, as behind a generation on a device that chooses by itself.
PM_API const float *pm_session_logits(const pm_session *session, size_t index);
// Forgets all tokens from position n_past on (n_past <= pm_session_n_past).
PM_API pm_status pm_session_rewind(pm_session *session, int32_t n_past);
// Makes eval also keep the residual stream of its last token: [n_layer + 1][n_embd], the input of
// layer 0 first, then the output of each layer.
PM_API void pm_session_keep_hidden(pm_session *session, int keep);
PM_API const float *pm_session_hidden(const pm_session *session, int layer); // -1: layer 0's input
// Ends a running eval at its next chunk. May be called from any thread and from a signal handler;
// cleared by the eval that it ended, and when a generation starts.
PM_API void pm_session_interrupt(pm_session *session);

// ---- sampling ---------------------------------------------------------------------------------

// Options: the sampler group, in the order repeat-penalty, presence-penalty, frequency-penalty,
// temp, top-k, typical-p, top-p, min-p, draw; general.sampling.* keys of the model's file replace
// the defaults, options replace both. `model` may be NULL.
PM_API pm_status pm_sampler_create(const pm_model *model, const pm_options *options,
                                   pm_sampler **sampler);
PM_API void pm_sampler_destroy(pm_sampler *sampler);
PM_API uint64_t pm_sampler_seed(const pm_sampler *sampler);
PM_API const char *pm_sampler_describe(const pm_sampler *sampler); // effective order and values
// Tells the sampler of a token of the text (prompt tokens too): the penalties' window.
PM_API void pm_sampler_accept(pm_sampler *sampler, int32_t id);
// Draws from logits [n_vocab]; does not accept. PM_ERROR_RUN: NaN, or nothing finite.
PM_API pm_status pm_sampler_sample(pm_sampler *sampler, const float *logits, int32_t n_vocab,
                                   int32_t *id);
PM_API void pm_sampler_reset(pm_sampler *sampler); // empty window, draws from the seed again

// ---- generation -------------------------------------------------------------------------------

// A prompt and its continuation, drawn token by token. What the session's cache already holds of
// the prompt is kept (longest common prefix of ids), the rest is evaluated by the first `next`.
// A session runs one generation at a time: what else evaluates, rewinds, loads or starts another
// one there ends it, and its next `next` is PM_ERROR_USAGE.
// Options: max-tokens, stop (reasoning is text as well), logprobs, grammar, json-schema, and the
// sampler's. PM_ERROR_USAGE: an empty prompt, or one that does not fit the context (the message has
// both numbers).
PM_API pm_status pm_generation_start(pm_session *session, const pm_options *options,
                                     const int32_t *prompt, size_t n_prompt,
                                     pm_generation **generation);
PM_API void pm_generation_destroy(pm_generation *generation);
// The next piece of text: whole characters, nothing that may still become a stop text (n may be 0).
// Invalid UTF-8 of the model becomes U+FFFD. *done: no more will come. The text is valid until the
// next call. After a failure the generation is done.
PM_API pm_status pm_generation_next(pm_generation *generation, const char **text, size_t *n,
                                    int *done);
// The caller ends it (Ctrl-C): finish reason "interrupted".
PM_API void pm_generation_stop(pm_generation *generation);
// What the last pm_generation_next gave. Only a chat's answers have reasoning: what the model wrote
// between <think> and </think> (or up to </think>, where the template has opened it) at the start
// of the answer, without these markers. Anywhere else markers are text.
enum { PM_PART_ANSWER = 0, PM_PART_REASONING = 1 };
PM_API int pm_generation_part(const pm_generation *generation);
// So far, as streamed: the answer without reasoning and calls; the reasoning.
PM_API const char *pm_generation_text(const pm_generation *generation, size_t *n);
PM_API const char *pm_generation_reasoning(const pm_generation *generation, size_t *n);
// Calls of the chat's tools, complete when the generation is done, as a JSON list of
// {"id", "type": "function", "function": {"name", "arguments": {...}}}. A call that can't be read,
// or of a tool that was not offered, is text.
PM_API size_t pm_generation_n_tool_calls(const pm_generation *generation);
PM_API pm_status pm_generation_tool_calls(const pm_generation *generation, char **json);
PM_API const char *
pm_generation_finish_reason(const pm_generation *generation); // "stop", "length", "interrupted"
// Is what was generated a whole text of the option grammar or json-schema? 1 too where neither is
// set. 0: a limit came first (inside reasoning, or one too small for the shortest text), a stop
// text, or the caller.
PM_API int pm_generation_follows_grammar(const pm_generation *generation);
// What `ask --json` prints: text, finish_reason, token counts, tokens, seed, device, timings, and
// where there are any reasoning, tool_calls, logprobs.
PM_API pm_status pm_generation_json(const pm_generation *generation, char **json);

// ---- chat -------------------------------------------------------------------------------------

// A conversation that is rendered with the model's template (option "template" replaces it) and
// evaluated as far as the cache does not hold it yet. Control tokens come from the template only,
// never from a message. PM_ERROR_FILE: the template does not parse.
PM_API pm_status pm_chat_create(pm_session *session, const pm_options *options, pm_chat **chat);
PM_API void pm_chat_destroy(pm_chat *chat);
PM_API const char *
pm_chat_template_name(const pm_chat *chat); // "the model's", "chatml (the file has none)"
// role: "system", "user", "assistant", "tool". A system message replaces the first one.
PM_API pm_status pm_chat_add(pm_chat *chat, const char *role, const char *content);
// What the model may call: a JSON list of {"type": "function", "function": {"name", "description",
// "parameters": JSON schema}}, or of such functions alone; NULL: nothing. The option "tools" reads
// it from a file, "python-tools" offers the tools as functions of Python (SmolLM3). PM_ERROR_USAGE:
// not such a list, the template offers no tools, or with the option json-schema, whose answers call
// none (with "grammar" what it allows is called).
PM_API pm_status pm_chat_set_tools(pm_chat *chat, const char *json);
// What the call with this id gave (NULL: the first one without a result). With a result for each
// call the next pm_chat_generate goes on.
PM_API pm_status pm_chat_add_tool_result(pm_chat *chat, const char *id, const char *content);
// Replaces the conversation by a JSON list of messages.
PM_API pm_status pm_chat_set_messages(pm_chat *chat, const char *json);
PM_API pm_status pm_chat_messages(const pm_chat *chat, char **json);
PM_API size_t pm_chat_n_messages(const pm_chat *chat);
// Takes back the messages from index on (for undo and regenerate).
PM_API void pm_chat_truncate(pm_chat *chat, size_t n_messages);
// From the next answer on, as the options "think" and "no-think" have it for the first one.
PM_API void pm_chat_set_thinking(pm_chat *chat, int on);
// The whole prompt as text, with or without the beginning of an answer.
PM_API pm_status pm_chat_render(pm_chat *chat, int generation_prompt, char **text, size_t *n);
// Begins the answer. Where the conversation does not fit, the oldest whole turns (never the system
// message) are dropped from the prompt until a quarter of the context is free; *n_dropped (may be
// NULL) says how many messages more than before. They stay part of the conversation, and out of
// later prompts too. PM_ERROR_USAGE: not even the last turn fits. The generation belongs to the
// chat: the next one takes its place, finished or not.
PM_API pm_status pm_chat_generate(pm_chat *chat, size_t *n_dropped, pm_generation **generation);
// Appends what was generated (also after an interrupt) as the assistant's message, with
// "reasoning_content" and "tool_calls" where there are any.
PM_API pm_status pm_chat_finish(pm_chat *chat);
// Of the last pm_chat_generate: prompt tokens that the cache held, and that had to be evaluated.
PM_API size_t pm_chat_n_reused(const pm_chat *chat);
PM_API size_t pm_chat_n_new(const pm_chat *chat);

// Keeps the conversation in a file, `with_cache` with the session's: written beside and renamed.
// `extra`: JSON of the caller's that is kept with it, or NULL. PM_ERROR_RUN: it can't be written;
// what was there before is as it was.
PM_API pm_status pm_chat_save(const pm_chat *chat, const char *path, int with_cache,
                              const char *extra);
// Goes on with a saved conversation: messages and cache, so that the next answer begins at once.
// *extra (may be NULL) is what was kept with it, NULL: nothing; released with pm_free.
// PM_ERROR_FILE: not such a file, damaged, or of another model; the conversation is as it was then.
// Where the cache is of other settings (device, kv-type, act, a larger context) only the messages
// are loaded: pm_last_error() holds a remark then, else "".
PM_API pm_status pm_chat_load(pm_chat *chat, const char *path, char **extra);

// ---- inspecting -------------------------------------------------------------------------------

// What is in a model and what happens in it, as JSON; the option group "inspect" chooses what is
// shown. The first two need no weights ("vocab-only" is enough).

// Rows of the embedding table for words: the first values ("first"), dot products and cosines of
// all pairs. A word is the token with a space before it where there is one; of a word in several
// pieces the mean of their rows.
PM_API pm_status pm_inspect_embedding(const pm_model *model, const pm_options *options,
                                      const char *const *words, size_t n, char **json);
// Range, mean, deviation and histogram of the tensors whose name holds `part` (NULL: all).
PM_API pm_status pm_inspect_weights(const pm_model *model, const pm_options *options,
                                    const char *part, char **json);
// What each token looks at, in every layer and head ("layer", "head": one of them), from the
// queries and keys that the model's device computes. Row i has i + 1 probabilities.
PM_API pm_status pm_inspect_attention(pm_model *model, const pm_options *options,
                                      const int32_t *ids, size_t n, char **json);
// At each position the most likely next tokens ("top"), rank and probability of the one that
// follows, and what the sampler's filters leave. Options: the sampler group too.
PM_API pm_status pm_inspect_logits(pm_model *model, const pm_options *options, const int32_t *ids,
                                   size_t n, char **json);
// One answer's first token, step by step: the rendered prompt (with `raw` the text itself), its
// tokens and embeddings, the operations of one layer ("layer") with what they wrote, logits,
// filters, the draw. Options: the sampler group too.
PM_API pm_status pm_inspect_trace(pm_model *model, const pm_options *options, const char *prompt,
                                  int raw, char **json);

// ---- measuring --------------------------------------------------------------------------------

// Runs the option group "bench" (prompt, gen, repeat) and returns what `bench -o json` prints (its
// form: docs/bench.schema.json). PM_ERROR_RUN: configurations failed, PM_ERROR_CHECK: the device
// did not pass the check that was asked for ("checked"); *json is set all the same.
PM_API pm_status pm_bench(pm_model *model, const pm_options *options, char **json);

// The model of `bench --suite`: SmolLM3-3B's shape in Q8_0 with made-up weights (3.3 GB), the same
// bytes for everyone. Looks for it in `folder`, which is made where it is missing; a file there
// that is cut or another one is replaced. Then next until *done, which is when the file is there:
// at once where it was. Destroying an unfinished one leaves nothing behind. PM_ERROR_RUN: no room
// for it, or it can't be written. Option "suite-layers": a smaller one, for tests.
PM_API pm_status pm_suite_model_start(const char *folder, const pm_options *options,
                                      pm_suite_model **model);
PM_API pm_status pm_suite_model_next(pm_suite_model *model, int *done);
PM_API double pm_suite_model_part(const pm_suite_model *model);      // done, from 0 to 1
PM_API const char *pm_suite_model_path(const pm_suite_model *model); // of the file
PM_API uint64_t pm_suite_model_bytes(const pm_suite_model *model);   // of its weights
PM_API void pm_suite_model_destroy(pm_suite_model *model);

// Does the model's device compute what the option "against" computes? Runs the option group "check"
// and returns what `check --json` prints. PM_ERROR_CHECK: it ran and a result is past its bound, or
// nothing was compared; *json is set all the same, and the message names the first bad operation.
// PM_ERROR_USAGE: fewer than 4 tokens, more than the context holds, or no such operation to inject
// a fault in.
PM_API pm_status pm_check(pm_model *model, const pm_options *options, char **json);
// Where pm_check fails: runs it again with one feature of the device or the plan switched off at a
// time and says which of them make the difference, as JSON: baseline, check (what pm_check gave),
// switched_off[] {without, pass, reason, first_bad}, culprits[]. The model's file is opened anew
// for each. PM_ERROR_CHECK: a mismatch was there (the message names it and the features); PM_OK:
// there was none.
PM_API pm_status pm_check_bisect(pm_model *model, const pm_options *options, char **json);

// Runs the operation again that a report of a failed check names first (`check --report`: a JSON
// document {"check": what pm_check gave}), with made-up weights and inputs of the report's shapes,
// formats and seed: no model is needed. On the device of the option "device", without it (or with
// "auto") where the report's operation ran. PM_ERROR_CHECK: the device's result is past its bound
// again (*json is set); PM_ERROR_FILE: not a report, or one without such an operation.
PM_API pm_status pm_reproduce(const char *report, size_t n, const pm_options *options, char **json);

// Perplexity of a text, window by window: windows of the option ctx (default 512, or what the model
// was trained for where that is less) follow each other without overlap, an incomplete last one is
// left out, each begins with BOS where the vocabulary adds one, and of each the second half is
// scored. Option windows: only the first N. With the option against the same windows run on that
// device too, there with act=f32 and an f32 cache. The model outlives the run.
// PM_ERROR_USAGE: the text does not fill a window, or a window is too small to score a token.
PM_API pm_status pm_perplexity_start(pm_model *model, const pm_options *options, const char *text,
                                     size_t n_text, pm_perplexity **run);
PM_API void pm_perplexity_destroy(pm_perplexity *run);
PM_API size_t pm_perplexity_n_windows(const pm_perplexity *run);
PM_API size_t pm_perplexity_n_done(const pm_perplexity *run);
// Evaluates one more window. PM_ERROR_USAGE: all are done. After any other failure the run is over.
PM_API pm_status pm_perplexity_next(pm_perplexity *run);
// Of the windows so far, NaN before the first. *error (may be NULL): one standard error.
PM_API double pm_perplexity_value(const pm_perplexity *run, double *error);
// What `perplexity --json` prints, of the windows so far.
PM_API pm_status pm_perplexity_json(pm_perplexity *run, char **json);

#ifdef __cplusplus
}
#endif
#endif
