// Inside the chat command: where messages come from, and what the slash commands work on.
#ifndef PUMICE_CLI_CHAT_H
#define PUMICE_CLI_CHAT_H

#include "cli/cli.h"

// ---- input ------------------------------------------------------------------------------------

// Lines with editing and history on a terminal, plain lines otherwise.
typedef struct chat_input chat_input;
pm_status chat_input_open(chat_input **out);
void chat_input_close(chat_input *in); // accepts NULL; puts the terminal back
bool chat_input_edits(const chat_input *in);

typedef enum chat_read {
    CHAT_MESSAGE,     // *text holds one, to be released with free
    CHAT_END,         // end of the input
    CHAT_INTERRUPTED, // Ctrl-C at the prompt: what was typed is gone
    CHAT_ZERO,        // a message with a zero byte, which no text has: it is left out
    CHAT_FAILED,      // out of memory
} chat_read;
// A message is a line; a backslash at its end adds the next one, and """ begins a text of many
// lines that the next """ ends.
chat_read chat_input_read(chat_input *in, char **text);
// Shows the question and reads a line: does it begin with y?
bool chat_input_confirm(chat_input *in, const char *question);

// ---- conversation -----------------------------------------------------------------------------

typedef struct conversation {
    const cli_args *args;
    loaded model;
    pm_chat *chat;
    chat_input *in;
    json_t *branches; // lists of messages that were left by /undo, /regen, /clear or /branches
    char *timing;     // of the last answer; NULL: none yet
    pm_status failed; // the first failure, which a chat without a terminal ends with
    bool broken;      // an answer failed for a reason that the next one may have too
    bool left;        // /quit
    bool spoken;      // a message or a command came
    bool kept;        // the file of --session holds a conversation
    bool not_kept;    // it could not be written the last time
    // A command asks for an answer: in place of the one in these messages, or to what it added to
    // them. Where that fails they are what stays. NULL: none is asked for.
    json_t *again, *go_on;
} conversation;

// Runs "/name rest". Failures are shown and change nothing.
void chat_command(conversation *c, const char *line);
// Shows the library's last message and remembers the first failure.
void chat_failed(conversation *c, pm_status status);
// The conversation as a list, a new reference; NULL when it can't be had (said).
json_t *chat_messages(conversation *c);
pm_status chat_set_messages(conversation *c, const json_t *list);

// The conversation and its branches in a file (chat_keep.c), with the cache where asked for.
// Loading says what it found; a failure changes nothing.
pm_status chat_save(const conversation *c, const char *path, bool cache);
pm_status chat_load(conversation *c, const char *path);

// Branches (chat_branches.c). What is left behind is kept, unless it is kept already or is the
// beginning of what is there now.
void chat_branches_keep(conversation *c, const json_t *messages);
void chat_branches_command(conversation *c, const char *rest);

// Runs what the last message calls, after asking, and adds the results (chat_tools.c); false: there
// is nothing for the model to go on with.
bool chat_run_calls(conversation *c);
void chat_tool_command(conversation *c, const char *rest);

#endif
