#include "chat/answer.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

typedef enum state {
    AT_START,     // is there a <think>?
    IN_REASONING, // up to </think>
    BEHIND,       // white space behind </think> or a call is not part of the text
    IN_TEXT,
    IN_CALL, // `held` begins with white space and the call's opening marker
} state;

struct answer {
    state state;
    bool thinking;
    json_t *tools; // NULL: none
    json_t *calls;
    size_t first_call; // of the conversation

    buf held; // what it is not known of yet
    buf text, reasoning, raw;
    size_t text_taken, reasoning_taken;

    // with IN_CALL
    call_form form;
    size_t at_marker;  // bytes of white space before the marker
    size_t at_content; // behind the marker
};

static const char open_think[] = "<think>", close_think[] = "</think>";

static const struct form {
    const char *open, *close; // close NULL: the end of the answer
} forms[] = {
    [CALL_TAGGED] = {"<tool_call>", "</tool_call>"},
    [CALL_PYTHON] = {"<code>", "</code>"},
    [CALL_LIST] = {"[TOOL_CALLS]", NULL},
    [CALL_LLAMA] = {"<|python_tag|>", NULL},
    [CALL_BARE] = {"{", NULL},
};

const char *const *answer_markers(bool tools)
{
    static const char *const all[] = {
        "<think>",      "</think>",       "<tool_call>", "</tool_call>", "<code>", "</code>",
        "[TOOL_CALLS]", "<|python_tag|>", "[ARGS]",      "[CALL_ID]",    NULL};
    static const char *const thinking[] = {open_think, close_think, NULL};
    return tools ? all : thinking;
}

pm_status answer_open(const answer_params *params, answer **out)
{
    answer *a = calloc(1, sizeof *a);
    if (!a) return error_memory("an answer", sizeof *a);
    a->thinking = params->thinking;
    a->first_call = params->n_calls;
    if (json_array_size(params->tools)) a->tools = json_deep_copy(params->tools);
    a->calls = json_array();
    if (!a->calls || (json_array_size(params->tools) && !a->tools)) {
        answer_close(a);
        return error_memory("an answer", sizeof *a);
    }
    *out = a;
    return PM_OK;
}

void answer_close(answer *a)
{
    if (!a) return;
    json_decref(a->tools);
    json_decref(a->calls);
    buf_free(&a->held);
    buf_free(&a->text);
    buf_free(&a->reasoning);
    buf_free(&a->raw);
    free(a);
}

// ---- pieces of text ---------------------------------------------------------------------------

static bool is_white(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static size_t white_start(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n && is_white(text[i])) i++;
    return i;
}

// How much of the text comes before the white space at its end.
static size_t before_white_end(const char *text, size_t n)
{
    while (n > 0 && is_white(text[n - 1])) n--;
    return n;
}

static bool starts(const char *text, size_t n, const char *word)
{
    size_t len = strlen(word);
    return n >= len && !memcmp(text, word, len);
}

// May more text make it start with the word?
static bool may_start(const char *text, size_t n, const char *word)
{
    return n < strlen(word) && !memcmp(text, word, n);
}

// Place of the word, or n.
static size_t find(const char *text, size_t n, const char *word)
{
    const char *at = n ? memmem(text, n, word, strlen(word)) : NULL;
    return at ? (size_t)(at - text) : n;
}

// Bytes at the end that begin the word.
static size_t partial(const char *text, size_t n, const char *word)
{
    size_t len = strlen(word) - 1;
    for (len = len < n ? len : n; len > 0; len--) {
        if (!memcmp(text + n - len, word, len)) return len;
    }
    return 0;
}

static void drop(answer *a, size_t n)
{
    if (n == 0) return;
    memmove(a->held.data, a->held.data + n, a->held.len - n);
    a->held.len -= n;
    a->held.data[a->held.len] = 0;
}

static void to_reasoning(answer *a, size_t n)
{
    buf_add(&a->reasoning, a->held.data, n);
    drop(a, n);
}

static void to_text(answer *a, size_t n)
{
    buf_add(&a->text, a->held.data, n);
    buf_add(&a->raw, a->held.data, n);
    drop(a, n);
}

static void to_call(answer *a, size_t n)
{
    buf_add(&a->raw, a->held.data, n);
    drop(a, n);
}

// ---- the states: each returns whether another one may go on -----------------------------------

static bool at_start(answer *a, bool end)
{
    size_t white = white_start(a->held.data, a->held.len), n = a->held.len - white;
    const char *rest = a->held.data + white;
    if (starts(rest, n, open_think)) {
        drop(a, white + sizeof open_think - 1);
        a->state = IN_REASONING;
        return true;
    }
    if (!end && may_start(rest, n, open_think)) return false;
    a->state = a->thinking ? IN_REASONING : IN_TEXT;
    return true;
}

static bool in_reasoning(answer *a, bool end)
{
    if (a->reasoning.len == 0) drop(a, white_start(a->held.data, a->held.len));
    size_t n = a->held.len, at = find(a->held.data, n, close_think);
    if (at < n) {
        to_reasoning(a, before_white_end(a->held.data, at));
        drop(a, find(a->held.data, a->held.len, close_think) + sizeof close_think - 1);
        a->state = BEHIND;
        return true;
    }
    if (!end) n -= partial(a->held.data, n, close_think);
    to_reasoning(a, before_white_end(a->held.data, n));
    if (end) drop(a, a->held.len);
    return false;
}

static bool behind(answer *a)
{
    drop(a, white_start(a->held.data, a->held.len));
    if (a->held.len == 0) return false;
    a->state = IN_TEXT;
    return true;
}

// The first marker that opens a call; n where there is none. A bare one only starts an answer.
static size_t find_call(const answer *a, call_form *form)
{
    size_t first = a->held.len;
    for (call_form f = CALL_TAGGED; f <= CALL_LLAMA; f++) {
        size_t at = find(a->held.data, a->held.len, forms[f].open);
        if (at >= first) continue;
        first = at;
        *form = f;
    }
    bool nothing_yet = a->text.len == 0 && json_array_size(a->calls) == 0;
    size_t white = white_start(a->held.data, a->held.len);
    if (nothing_yet && white < first && a->held.data[white] == '{') {
        first = white;
        *form = CALL_BARE;
    }
    return first;
}

static bool in_text(answer *a, bool end)
{
    size_t n = a->held.len;
    if (!a->tools) {
        to_text(a, n);
        return false;
    }
    call_form form = CALL_TAGGED;
    size_t at = find_call(a, &form);
    if (at < n) {
        size_t shown = before_white_end(a->held.data, at);
        to_text(a, shown);
        a->form = form;
        a->at_marker = at - shown;
        a->at_content = a->at_marker + (form == CALL_BARE ? 0 : strlen(forms[form].open));
        a->state = IN_CALL;
        return true;
    }
    size_t longest = 0;
    for (call_form f = CALL_TAGGED; f <= CALL_LLAMA && !end; f++) {
        size_t some = partial(a->held.data, n, forms[f].open);
        if (some > longest) longest = some;
    }
    // White space may yet belong to a call behind it.
    to_text(a, end ? n : before_white_end(a->held.data, n - longest));
    return false;
}

// A bare call is an object whose first key is one of these.
static bool may_be_bare(const char *text, size_t n)
{
    static const char *const keys[] = {"\"name\"", "\"type\"", "\"function\"", "\"parameters\"",
                                       "\"arguments\""};
    size_t at = 1 + white_start(text + 1, n - 1);
    if (at >= n) return true;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (starts(text + at, n - at, keys[i]) || may_start(text + at, n - at, keys[i])) {
            return true;
        }
    }
    return false;
}

// Place of the closing marker, or n. Inside a string of the call's JSON it does not count.
static size_t find_close(const char *text, size_t n, const char *close)
{
    size_t at = white_start(text, n);
    if (at == n || (text[at] != '{' && text[at] != '[')) return find(text, n, close);
    bool inside = false;
    for (; at < n; at++) {
        if (inside && text[at] == '\\')
            at++;
        else if (text[at] == '"')
            inside = !inside;
        else if (!inside && starts(text + at, n - at, close))
            return at;
    }
    return n;
}

static bool in_call(answer *a, bool end)
{
    const char *content = a->held.data + a->at_content;
    size_t n = a->held.len - a->at_content, length = n;
    const char *close = forms[a->form].close;
    bool bare = a->form == CALL_BARE, closed = false;
    if (close) {
        length = find_close(content, n, close);
        if (length == n && end) length = find(content, n, close); // a string without its end
        closed = length < n;
    }
    bool possible = !bare || may_be_bare(content, n);
    if (possible && !closed && !end) return false;
    size_t first = a->first_call + json_array_size(a->calls);
    if (possible && calls_read(a->form, content, length, a->tools, first, a->calls)) {
        to_call(a, a->at_content + length + (closed ? strlen(close) : 0));
        a->state = BEHIND;
        return true;
    }
    // It is text after all; what follows the marker may still hold a call.
    to_text(a, bare ? a->at_marker + 1 : a->at_content);
    a->state = IN_TEXT;
    return true;
}

static bool step(answer *a, bool end)
{
    switch (a->state) {
    case AT_START: return at_start(a, end);
    case IN_REASONING: return in_reasoning(a, end);
    case BEHIND: return behind(a);
    case IN_TEXT: return in_text(a, end);
    case IN_CALL: return in_call(a, end);
    }
    return false;
}

static pm_status run(answer *a, bool end)
{
    while (a->held.len > 0 && step(a, end)) {
    }
    bool failed = a->held.failed || a->text.failed || a->reasoning.failed || a->raw.failed;
    return failed ? error_memory("an answer", a->text.len) : PM_OK;
}

pm_status answer_add(answer *a, const char *text, size_t n)
{
    if (n == 0) return PM_OK;
    buf_add(&a->held, text, n);
    return a->held.failed ? error_memory("an answer", n) : run(a, false);
}

pm_status answer_end(answer *a)
{
    return run(a, true);
}

// ---- what there is ----------------------------------------------------------------------------

static bool untaken(const buf *b, size_t *taken, const char **text, size_t *n)
{
    if (b->len == *taken) return false;
    *text = b->data + *taken;
    *n = b->len - *taken;
    *taken = b->len;
    return true;
}

bool answer_take(answer *a, const char **text, size_t *n, answer_part *part)
{
    *part = ANSWER_REASONING;
    if (untaken(&a->reasoning, &a->reasoning_taken, text, n)) return true;
    *part = ANSWER_TEXT;
    return untaken(&a->text, &a->text_taken, text, n);
}

static const char *all_of(const buf *b, size_t *n)
{
    *n = b->len;
    return b->data ? b->data : "";
}

const char *answer_text(const answer *a, size_t *n)
{
    return all_of(&a->text, n);
}

const char *answer_reasoning(const answer *a, size_t *n)
{
    return all_of(&a->reasoning, n);
}

const char *answer_raw(const answer *a, size_t *n)
{
    return all_of(&a->raw, n);
}

const json_t *answer_calls(const answer *a)
{
    return a->calls;
}
