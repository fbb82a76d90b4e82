// One sequence of tokens with its KV cache: plans, executors' states, step blocks, prefill in
// chunks, decode, rewind. One thread at a time, session_interrupt aside.
#ifndef PUMICE_ENGINE_SESSION_H
#define PUMICE_ENGINE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "engine/weights.h"
#include "plan/build.h"

typedef struct session session;

// The plan's options; n_slots is 1. The weights outlive the session.
pm_status session_open(const weights *w, const plan_options *options, session **out);
void session_close(session *s); // accepts NULL

const plan_set *session_plan(const session *s);
uint64_t session_kv_bytes(const session *s);
uint32_t session_n_ctx(const session *s);
uint32_t session_n_past(const session *s);
const int32_t *session_tokens(const session *s); // [n_past]
// Another number after each call that may change the tokens, so that who goes on with a session
// sees that somebody else has used it.
uint64_t session_changes(const session *s);

// What opening took, for people; "" where there is nothing to tell.
const char *session_prepared(const session *s);

// Appends n tokens in chunks of at most n_batch rows. Logits: of the last token, or with `all` of
// each. PM_ERROR_USAGE: an id outside the vocabulary, or more tokens than the context holds.
// PM_ERROR_RUN: interrupted, or logits that are no numbers (the message names the position). After
// a failure the session holds what it held before, without logits.
pm_status session_eval(session *s, const int32_t *ids, size_t n, bool all);
// The same for who draws from the PLAN_N_TOP largest logits alone: where the executor prefers it,
// only these come from the device. *pick is what it lists, until the next call for the session, and
// no logits are kept; NULL: session_logits has them all as usual.
pm_status session_eval_pick(session *s, const int32_t *ids, size_t n, const plan_pick **pick);
// Logits [n_vocab] of row `index` of the last eval; NULL: there are none.
const float *session_logits(const session *s, size_t index);
// Greedy decoding ahead of the host (exec.h): begins with the token after those that the session
// holds. *begun: false where this session's executor can't, or something is kept that only
// session_eval keeps. At most `most` tokens are evaluated.
pm_status session_ahead_begin(session *s, int32_t id, uint64_t most, bool *begun);
// The token is part of the session now, and *id is what its logits choose: the next token. No
// logits are kept. *certain false: not all logits were finite, or something else was called for
// the session; the token is not part of it, and decoding ahead has ended: session_eval does it as
// usual. Ends also after `most`
// tokens, when the context is full, and with any failure (then as session_eval).
pm_status session_ahead_next(session *s, int32_t *id, bool *certain);
// Whatever is called for the session ends it too.
void session_ahead_end(session *s);

// Forgets the tokens from n_past on (at most session_n_past), and all logits.
void session_rewind(session *s, uint32_t n_past);
// Keeps of a prompt what the cache holds already and rewinds to it; at least the last token is left
// to evaluate. An interrupt that came before is forgotten. Returns how many tokens are kept.
uint32_t session_reuse(session *s, const int32_t *prompt, size_t n);

// The cache of the tokens that are in it, for keeping it in a file: tokens, then for each layer K
// and V of [head][position], in the stored form. `take` gets it piece by piece, in order.
uint64_t session_cache_bytes(const session *s, uint32_t n_tokens);
pm_status session_cache_save(session *s, pm_status (*take)(void *arg, const void *data, uint64_t n),
                             void *arg);
// What another session with the same words of session_cache_kind has saved; n_tokens is at most
// session_n_ctx. `give` fills in the next n bytes. After a failure the session is empty.
pm_status session_cache_load(session *s, uint32_t n_tokens,
                             pm_status (*give)(void *arg, void *data, uint64_t n), void *arg);
// What must be equal for that: shapes, type, precision, executors. Appends one line.
void session_cache_kind(const session *s, buf *out);

void session_keep_hidden(session *s, bool keep);
// [n_embd] of the last eval's last token: -1 the input of layer 0, else the output of a layer. NULL
// when nothing was kept.
const float *session_hidden(const session *s, int layer);

// Times of single ops. From session_time_ops on, evals run segment by segment with `op` called for
// every op that has run; `arg` goes to it. Set `host` for the host's clock (exec_run_timed);
// `used_host` becomes true where it was used, `implausible` where an executor's own times could not
// be right. NULL ends it.
typedef struct session_clock {
    void (*op)(void *arg, const plan_op *op, const plan_step *step, double seconds);
    void *arg;
    bool host, used_host, implausible;
} session_clock;
pm_status session_time_ops(session *s, session_clock *clock);
// Dispatches of the last step, and the most that one of its layers takes; 0: it has none.
uint32_t session_dispatches(const session *s, uint32_t *per_layer);

// Any thread, signal handlers too: the running (or next) eval ends at its next chunk.
void session_interrupt(session *s);
// Did an interrupt end the last eval?
bool session_was_interrupted(const session *s);

#endif
