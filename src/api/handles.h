// Inside src/api: what the opaque handles of pumice.h hold, and how options become parameters.
#ifndef PUMICE_API_HANDLES_H
#define PUMICE_API_HANDLES_H

#include <jansson.h>

#include "api/options.h"
#include "chat/answer.h"
#include "chat/conversation.h"
#include "engine/generation.h"
#include "engine/sampler.h"
#include "engine/session.h"
#include "engine/weights.h"
#include "model/model.h"
#include "text/grammar.h"

struct pm_model {
    model *m;
    weights *loaded; // NULL with vocab-only
    char **warnings;
    size_t n_warnings;
    char device[32];       // an id that "device" takes
    char description[700]; // for people
    char note[512];        // on the choice of the device; "": nothing to say
    int n_threads;
    double load_seconds;
    uint64_t weight_bytes;
};

struct pm_session {
    pm_model *model;
    session *s;
    grammar_tokens *tokens; // NULL: no grammar was used yet
};

struct pm_sampler {
    sampler *s;
    buf description;
};

struct pm_generation {
    pm_session *session;
    generation *g;
    grammar *grammar; // its own; NULL: none, or a chat's
    answer *answer;   // splits the text of a chat; NULL: the text is all there is
    answer_part part;
};

// ---- options to parameters (params.c) ---------------------------------------------------------

// The context that the options ask for.
pm_status params_n_ctx(const model *m, const pm_options *o, uint32_t *n_ctx);
// The plan's options on these weights (NULL: not loaded) and this device: "reference" has defaults
// of its own.
pm_status params_plan(const model *m, const weights *loaded, const char *device,
                      const pm_options *o, plan_options *out);
// What the options say of a GPU.
exec_gpu params_gpu(const pm_options *o);
const char *params_kv_name(quant_type kv_type); // "f16": a value of the option kv-type
// Options, else the file's general.sampling.* keys (m may be NULL), else the defaults. *biases is
// released with free; out->biases points to it.
pm_status params_sampler(const model *m, const pm_options *o, sampler_params *out,
                         sampler_bias **biases);

// What a chat's answers have that others have not.
typedef struct chat_reply {
    answer_params parts;    // how the text is split into reasoning, text and calls
    uint64_t seed_step;     // is added to a given seed, so that answers differ
    const grammar *grammar; // instead of the one of the options; NULL: none
} chat_reply;
// As pm_generation_start; `reply` NULL: not of a chat.
pm_status start_generation(pm_session *session, const pm_options *o, const int32_t *prompt,
                           size_t n_prompt, const chat_reply *reply, pm_generation **out);

// ---- grammars (constraint.c) ------------------------------------------------------------------

// The grammar of the options grammar or json-schema, NULL where neither is set.
pm_status params_grammar(const pm_options *o, grammar **out);
// The vocabulary as grammars need it, made with the first use.
pm_status session_grammar_tokens(pm_session *ps, const grammar_tokens **out);

// ---- models (model.c) -------------------------------------------------------------------------

// The weights of an open model once more, on another device, to be compared with: everything else
// is shared, so `pm` outlives what is returned. No GPU layers but by the device's name.
pm_status model_load_beside(const pm_model *pm, const pm_options *o, const char *device,
                            pm_model **out);
void model_unload_beside(pm_model *other); // accepts NULL

// A copy of what concerns a check.
pm_status check_copy_options(const pm_options *o, pm_options **out);
// Does the device pass a quick check (check.c)? A check that can't be run is a failure.
pm_status check_quickly(pm_model *pm, const pm_options *o, bool *passed);

// ---- JSON (json.c) ----------------------------------------------------------------------------

json_t *json_finite(double x);                  // a number, or null when it isn't finite
json_t *json_text(const char *bytes, size_t n); // invalid UTF-8 becomes U+FFFD
json_t *json_word(const char *text);            // json_text of a C string; null for NULL
json_t *json_size(uint64_t n);
// Adds a member; false when memory ran out (value NULL too). Takes the reference.
bool json_put(json_t *object, const char *key, json_t *value);
// The document as text, to be released with pm_free; takes the reference. NULL: out of memory.
pm_status json_take(json_t *document, char **text);

#endif
