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
    CHAT_FAILED,      // out of memory
} chat_read;
// A message is a line; a backslash at its end adds the next one, and """ begins a text of many
// lines that the next """ ends.
chat_read chat_input_read(chat_input *in, char **text);

// ---- conversation -----------------------------------------------------------------------------

typedef struct conversation {
    const cli_args *args;
    loaded model;
    pm_chat *chat;
    char *timing;     // of the last answer; NULL: none yet
    pm_status failed; // the first failure, which a chat without a terminal ends with
    bool broken;      // an answer failed for a reason that the next one may have too
    bool left;        // /quit
    bool answer_next; // a command asks for a new answer to what is there
} conversation;

// Runs "/name rest". Failures are shown and change nothing.
void chat_command(conversation *c, const char *line);
// Shows the library's last message and remembers the first failure.
void chat_failed(conversation *c, pm_status status);

#endif
