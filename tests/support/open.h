// Golden models through the public interface.
#ifndef TEST_SUPPORT_OPEN_H
#define TEST_SUPPORT_OPEN_H

#include <jansson.h>

#include "pumice.h"

// Options from name, value pairs; NULL ends them. Fails the running test on a wrong one.
pm_options *test_options(const char *name, ...);
// A golden model ("llama-tied.f32") on the device of the options.
pm_model *test_golden(const char *name, const pm_options *options);
pm_session *test_session(pm_model *model, const pm_options *options);
// NAME.golden.json; the ids of one of its prompts, released with free.
json_t *test_golden_json(const char *name);
int32_t *test_prompt_ids(const json_t *golden, size_t prompt, size_t *n);
// Numbers of a JSON list.
int32_t *test_json_ids(const json_t *list, size_t *n);
// Runs a generation to its end; the text as streamed, released with free.
char *test_generate(pm_generation *g);

#endif
