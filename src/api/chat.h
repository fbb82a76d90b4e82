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
};

#endif
