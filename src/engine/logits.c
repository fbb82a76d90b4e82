// Passes over all logits: check, log-sum-exp, the largest ones. Written so that one token of a
// vocabulary of 150,000 takes well under a millisecond.
#include <math.h>
#include <string.h>

#include "engine/candidates.h"
#include "engine/sampler.h"

// Floats ordered as integers: a vector loop in any compiler, where floats' NaN forbids one.
// Everything above KEY_MAX and below KEY_MIN is NaN or +infinity.
#define KEY_MAX 0x7f7fffff
#define KEY_MIN (-0x7f800001) // -infinity

// Largest of x[0..n); *bad becomes true where NaN or +infinity is among them.
static float block_max(const float *x, size_t n, bool *bad)
{
    int32_t highest = INT32_MIN, lowest = INT32_MAX;
    for (size_t i = 0; i < n; i++) {
        int32_t key;
        memcpy(&key, &x[i], sizeof key);
        key ^= (key >> 31) & 0x7fffffff;
        highest = key > highest ? key : highest;
        lowest = key < lowest ? key : lowest;
    }
    if (highest > KEY_MAX || lowest < KEY_MIN) *bad = true;
    float max;
    highest ^= (highest >> 31) & 0x7fffffff;
    memcpy(&max, &highest, sizeof max);
    return max;
}

pm_status candidates_scan(const float *logits, size_t n, float *max)
{
    bool bad = false;
    *max = block_max(logits, n, &bad);
    if (bad) {
        size_t i = 0;
        while (logits[i] < INFINITY) i++;
        return error_set(PM_ERROR_RUN, "the logit of token %zu is %s", i,
                         logits[i] == INFINITY ? "infinite" : "NaN");
    }
    if (!(*max > -INFINITY)) return error_set(PM_ERROR_RUN, "no logit is finite");
    return PM_OK;
}

pm_status logits_check(const float *logits, int32_t n_vocab)
{
    float max;
    return candidates_scan(logits, (size_t)n_vocab, &max);
}

double logits_log_sum(const float *logits, int32_t n_vocab)
{
    bool bad = false;
    double max = (double)block_max(logits, (size_t)n_vocab, &bad), sum = 0;
    for (int32_t i = 0; i < n_vocab; i++) sum += exp((double)logits[i] - max);
    return max + log(sum);
}

// ---- the k largest ----------------------------------------------------------------------------

bool candidate_before(const sampler_candidate *a, const sampler_candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

// heap[0] is the last in order of n: the one that a better candidate replaces.
static void sift_down(sampler_candidate *heap, size_t n, size_t at)
{
    sampler_candidate moved = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && candidate_before(&heap[child], &heap[child + 1])) child++;
        if (!candidate_before(&moved, &heap[child])) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static void heap_make(sampler_candidate *heap, size_t n)
{
    for (size_t i = n / 2; i-- > 0;) sift_down(heap, n, i);
}

void candidates_sort(sampler_candidate *c, size_t n)
{
    heap_make(c, n);
    for (size_t left = n; left > 1; left--) {
        sampler_candidate last = c[0];
        c[0] = c[left - 1];
        c[left - 1] = last;
        sift_down(c, left - 1, 0);
    }
}

void candidates_top(const float *logits, size_t n, size_t k, sampler_candidate *out)
{
    if (k == 0) return;
    for (size_t i = 0; i < k; i++) out[i] = (sampler_candidate){(int32_t)i, logits[i], 0};
    heap_make(out, k);
    // Ids rise, so that an equal logit never replaces an earlier one. Blocks whose largest logit
    // does not beat the k-th so far are passed over whole.
    enum { BLOCK = 256 };
    bool bad = false;
    for (size_t start = k; start < n; start += BLOCK) {
        size_t end = start + BLOCK < n ? start + BLOCK : n;
        if (!(block_max(logits + start, end - start, &bad) > out[0].logit)) continue;
        for (size_t i = start; i < end; i++) {
            if (!(logits[i] > out[0].logit)) continue;
            out[0] = (sampler_candidate){(int32_t)i, logits[i], 0};
            sift_down(out, k, 0);
        }
    }
    candidates_sort(out, k);
}

void logits_top(const float *logits, int32_t n_vocab, size_t n, int32_t *ids)
{
    // In slices of 64, so that no memory is needed: each slice takes what comes after the last of
    // the slice before.
    sampler_candidate heap[64], last = {-1, INFINITY, 0};
    for (size_t done = 0; done < n;) {
        size_t k = n - done < 64 ? n - done : 64, held = 0;
        for (int32_t i = 0; i < n_vocab; i++) {
            sampler_candidate c = {i, logits[i], 0};
            if (!candidate_before(&last, &c)) continue;
            if (held < k) {
                heap[held++] = c;
                if (held == k) heap_make(heap, k);
            } else if (candidate_before(&c, &heap[0])) {
                heap[0] = c;
                sift_down(heap, k, 0);
            }
        }
        if (held == 0) return;
        candidates_sort(heap, held);
        for (size_t i = 0; i < held; i++) ids[done + i] = heap[i].id;
        last = heap[held - 1];
        done += held;
    }
}
