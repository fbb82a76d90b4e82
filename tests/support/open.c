#include "support/open.h"

#include "base/buf.h"
#include "support/test.h"

pm_options *test_options(const char *name, ...)
{
    pm_options *o = pm_options_create();
    assert_non_null(o);
    va_list args;
    va_start(args, name);
    while (name) {
        const char *value = va_arg(args, const char *);
        assert_ok(pm_options_set(o, name, value));
        name = va_arg(args, const char *);
    }
    va_end(args);
    return o;
}

pm_model *test_golden(const char *name, const pm_options *options)
{
    char file[128];
    snprintf(file, sizeof file, "golden/%s.gguf", name);
    pm_model *model = NULL;
    assert_ok(pm_model_open(test_data(file), options, &model));
    return model;
}

pm_session *test_session(pm_model *model, const pm_options *options)
{
    pm_session *session = NULL;
    assert_ok(pm_session_create(model, options, &session));
    return session;
}

json_t *test_golden_json(const char *name)
{
    char file[128];
    snprintf(file, sizeof file, "golden/%s.golden.json", name);
    json_t *golden = json_load_file(test_data(file), 0, NULL);
    assert_non_null(golden);
    return golden;
}

int32_t *test_json_ids(const json_t *list, size_t *n)
{
    *n = json_array_size(list);
    int32_t *ids = malloc((*n + 1) * sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < *n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return ids;
}

int32_t *test_prompt_ids(const json_t *golden, size_t prompt, size_t *n)
{
    const json_t *p = json_array_get(json_object_get(golden, "prompts"), prompt);
    return test_json_ids(json_object_get(p, "ids"), n);
}

char *test_generate(pm_generation *g)
{
    buf text = {0};
    const char *piece;
    size_t n;
    int done = 0;
    while (!done) {
        assert_ok(pm_generation_next(g, &piece, &n, &done));
        buf_add(&text, piece, n);
    }
    char *all = NULL;
    assert_ok(buf_take(&text, &all, NULL));
    return all;
}
