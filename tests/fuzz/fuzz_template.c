// Any bytes as a template, rendered with a small conversation under small limits: neither parsing
// nor rendering may crash, and the runs must cover the text.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "chat/template.h"

static const char vars_text[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", "
    "\"content\": \"Hi \\u00e9 <|im_end|>\"}, {\"role\": \"assistant\", \"content\": null, "
    "\"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": 1.5}}}]}], "
    "\"tools\": [{\"type\": \"function\", \"n\": 123456789012345678901234567890}], "
    "\"bos_token\": \"<s>\", \"add_generation_prompt\": true, \"s\": \"Text\", \"n\": -3}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *const trusted[] = {"bos_token", NULL};
    const tmpl_limits limits = {.max_steps = 200000, .max_output = 1 << 20, .max_memory = 16 << 20};
    tmpl *t = NULL;
    if (tmpl_parse((const char *)data, size, &t) != PM_OK) return 0;
    json_t *vars = NULL;
    tmpl_output o = {0};
    if (tmpl_load_json(vars_text, sizeof vars_text - 1, &vars) != PM_OK) abort();
    if (tmpl_render(t, vars, 1751965503, trusted, &limits, &o) == PM_OK) {
        size_t n = 0;
        for (size_t i = 0; i < o.n_runs; i++) n += o.runs[i].n;
        if (n != o.n || o.text[n] != 0) abort();
        tmpl_output_free(&o);
    }
    json_decref(vars);
    tmpl_free(t);
    return 0;
}
