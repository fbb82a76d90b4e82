// What a model's answer consists of: reasoning, text, calls of tools. Text goes in as it is
// generated, parts come out as soon as it is sure what they are.
//
// Only what the model writes goes in here, never a prompt. Reasoning is recognised at the start of
// an answer only, a call only where it can be read and names a tool that was offered: markers
// anywhere else are text.
#ifndef PUMICE_CHAT_ANSWER_H
#define PUMICE_CHAT_ANSWER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef struct answer answer;

typedef struct answer_params {
    bool thinking;       // the prompt ends inside a <think>: the model writes only the </think>
    const json_t *tools; // a list of {"type", "function": {"name", ...}}; NULL: none. Borrowed.
    size_t n_calls;      // calls so far in the conversation: ids go on from there
} answer_params;

typedef enum answer_part { ANSWER_TEXT, ANSWER_REASONING } answer_part;

pm_status answer_open(const answer_params *params, answer **out);
void answer_close(answer *a); // accepts NULL

// Adds valid UTF-8; the end makes text of what was held back.
pm_status answer_add(answer *a, const char *text, size_t n);
pm_status answer_end(answer *a);
// The next piece that was not taken yet, of one part; false: there is none now. Valid until the
// next call of anything.
bool answer_take(answer *a, const char **text, size_t *n, answer_part *part);

// Everything so far, taken or not.
const char *answer_text(const answer *a, size_t *n);
const char *answer_reasoning(const answer *a, size_t *n);
const char *answer_raw(const answer *a, size_t *n); // text and calls as the model wrote them
// Calls as messages hold them: [{"id", "type": "function", "function": {"name", "arguments"}}].
const json_t *answer_calls(const answer *a);

// Texts of control tokens that an answer needs to see; NULL-terminated. `tools`: those of calls
// too.
const char *const *answer_markers(bool tools);

// ---- reading calls (calls.c) ------------------------------------------------------------------

typedef enum call_form {
    CALL_TAGGED, // JSON in <tool_call>: SmolLM3, Qwen
    CALL_PYTHON, // Python in <code>: SmolLM3
    CALL_LIST,   // behind [TOOL_CALLS]: Mistral, a JSON list or NAME[ARGS]JSON
    CALL_LLAMA,  // behind <|python_tag|>, JSON or NAME.call(...): Llama 3.1
    CALL_BARE,   // JSON that is the whole answer: Llama 3.1
} call_form;

// Appends the calls in `text` (without its markers) to `calls`, each with an id made of `first` and
// its place. False, and nothing appended: it is no call of these tools.
bool calls_read(call_form form, const char *text, size_t n, const json_t *tools, size_t first,
                json_t *calls);

// A list of tools as templates want it: [{"type": "function", "function": {...}}], from that or
// from a list of bare functions. PM_ERROR_USAGE says what is wrong. *out: a new reference.
pm_status tools_check(const json_t *list, json_t **out);

#endif
