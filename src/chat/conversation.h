// A conversation: messages, the template that renders them, the token ids of the prompt.
#ifndef PUMICE_CHAT_CONVERSATION_H
#define PUMICE_CHAT_CONVERSATION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "text/text.h"

typedef struct conversation conversation;

typedef enum conversation_think { THINK_UNSET, THINK_ON, THINK_OFF } conversation_think;

typedef struct conversation_params {
    gguf_string own_template; // the model's; data NULL: it has none
    const char *replacement;  // NULL, the name of a built-in template, or a file
    conversation_think think; // the template's variables enable_thinking and thinking
    double now;               // what strftime_now shows, see tmpl_render; negative: the clock
} conversation_params;

// The vocabulary outlives the conversation. PM_ERROR_FILE: the template does not parse, or the file
// can't be read.
pm_status conversation_open(const text_vocab *vocab, const conversation_params *params,
                            conversation **out);
void conversation_close(conversation *c); // accepts NULL

// "the model's", "chatml (the file has none)", "chatml", or the file's name.
const char *conversation_template_name(const conversation *c);
void conversation_set_think(conversation *c, conversation_think think);

// A system message replaces the first message if that is one, else goes before all others. Invalid
// UTF-8 becomes U+FFFD. PM_ERROR_USAGE: a role other than system, user, assistant, tool.
pm_status conversation_add(conversation *c, const char *role, const char *content, size_t n);
// A list of objects with a role each; anything else is PM_ERROR_USAGE.
pm_status conversation_set(conversation *c, const char *json);
// What can be a member of such a list, at its end; takes no reference.
pm_status conversation_add_message(conversation *c, const json_t *message);
// The result of the call with this id (NULL: of the first call that has none yet), as a message of
// the role "tool". PM_ERROR_USAGE: there is no such call.
pm_status conversation_add_result(conversation *c, const char *id, const char *content, size_t n);
size_t conversation_n_calls(const conversation *c);         // in all messages
const json_t *conversation_messages(const conversation *c); // borrowed
size_t conversation_n_messages(const conversation *c);
void conversation_truncate(conversation *c, size_t n_messages);

// The messages without those of the oldest `n_turns` turns; a turn is a user's message and what
// follows up to the next one. The system message stays. *n_dropped: how many messages are left out.
// false: there are not that many turns before the last one.
bool conversation_without(const conversation *c, size_t n_turns, json_t **messages,
                          size_t *n_dropped);
size_t conversation_n_turns(const conversation *c); // at least 1: all before the second one is one
void conversation_replace(conversation *c, json_t *messages); // takes the reference

// What the model may call (tools_check's list, NULL: nothing); `python`: offered as functions of
// Python. PM_ERROR_USAGE: the template does not offer tools, or not in this form.
pm_status conversation_set_tools(conversation *c, const json_t *tools, bool python);
const json_t *conversation_tools(const conversation *c); // borrowed; NULL: none
// Does the template write calls that are in messages? If not, they are to stay in the content.
bool conversation_writes_calls(const conversation *c);

// The prompt as text (released with free), of `messages` or, NULL, of the conversation's own.
pm_status conversation_render(const conversation *c, const json_t *messages, bool generation_prompt,
                              char **text, size_t *n);
// The prompt's ids: control tokens come from the template's own text only; exactly one BOS where
// the file asks for one. *thinking: the template's own text ends inside a <think>, the model goes
// on with its reasoning.
pm_status conversation_ids(const conversation *c, const json_t *messages, bool generation_prompt,
                           text_ids *out, bool *thinking);

// A built-in template's source, NULL when there is none of that name; *n its length.
const char *conversation_builtin(const char *name, size_t *n);
const char *conversation_builtin_name(size_t index); // NULL past the end

#endif
