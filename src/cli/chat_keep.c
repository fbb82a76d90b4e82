// The conversation with its branches in a file.
#include <stdlib.h>

#include "cli/chat.h"

pm_status chat_save(const conversation *c, const char *path, bool cache)
{
    json_t *extra = json_pack("{s:O}", "branches", c->branches);
    char *text = extra ? json_dumps(extra, JSON_COMPACT) : NULL;
    json_decref(extra);
    if (!text) return error_memory("the conversation", 0);
    pm_status status = pm_chat_save(c->chat, path, cache, text);
    free(text);
    return status;
}

// What an older file, or another program's, has beside the messages is no branches.
static void take_branches(conversation *c, const char *extra)
{
    json_t *all = extra ? json_loads(extra, JSON_ALLOW_NUL, NULL) : NULL;
    const json_t *branches = json_object_get(all, "branches");
    size_t index;
    json_t *branch;
    json_array_foreach(branches, index, branch)
    {
        if (json_is_array(branch)) chat_branches_keep(c, branch);
    }
    json_decref(all);
}

pm_status chat_load(conversation *c, const char *path)
{
    char *extra = NULL;
    pm_status status = pm_chat_load(c->chat, path, &extra);
    if (status != PM_OK) return status;
    if (*pm_last_error() && !c->args->quiet) say_warning("%s", pm_last_error());
    take_branches(c, extra);
    pm_free(extra);
    say_remark(c->args, "loaded: %s (%zu messages, %d tokens in the cache)", path,
               pm_chat_n_messages(c->chat), pm_session_n_past(c->model.session));
    return PM_OK;
}
