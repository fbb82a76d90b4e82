// Inside the chat of the library: what chat.c and chat_file.c share.
#ifndef PUMICE_API_CHAT_H
#define PUMICE_API_CHAT_H

#include "api/handles.h"

struct pm_chat {
    pm_session *session;
    conversation *c;
    pm_options *options; // a copy: sampler and generation options of every answer
    grammar *grammar;    // of every answer; NULL: none
    pm_generation *reply;
    uint64_t n_answers; // the k-th answer draws with seed + k
    size_t n_reused, n_new;
    size_t n_turns_out; // the oldest turns, which the prompt leaves out: the context was full
};

// 0 where the conversation has not so many turns before its last one.
void chat_leave_out(pm_chat *chat, size_t n_turns);

#endif
