// The options grammar and json-schema: what generated text must be.
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/os.h"
#include "chat/schema.h"

enum { MAX_FILE_BYTES = 1 << 24 };

static pm_status parse_schema(const char *text, size_t n, grammar **out)
{
    buf source = {0};
    pm_status status = schema_grammar(text, n, &source);
    if (status == PM_OK) status = grammar_parse(source.data, source.len, out);
    buf_free(&source);
    return status;
}

pm_status params_grammar(const pm_options *o, grammar **out)
{
    bool by_schema = pm_options_is_set(o, "json-schema"), own = pm_options_is_set(o, "grammar");
    *out = NULL;
    if (!by_schema && !own) return PM_OK;
    if (by_schema && own) {
        return error_set(PM_ERROR_USAGE, "options 'grammar' and 'json-schema': only one of them");
    }
    const char *path = pm_options_get(o, own ? "grammar" : "json-schema");
    char *text = NULL;
    size_t n;
    pm_status status = os_read_whole(path, MAX_FILE_BYTES, &text, &n);
    if (status != PM_OK) return status;
    status = own ? grammar_parse(text, n, out) : parse_schema(text, n, out);
    free(text);
    return error_in(status, "%s", path);
}

pm_status session_grammar_tokens(pm_session *ps, const grammar_tokens **out)
{
    if (!ps->tokens) {
        pm_status status = grammar_tokens_make(ps->model->m->vocab, &ps->tokens);
        if (status != PM_OK) return status;
    }
    *out = ps->tokens;
    return PM_OK;
}
