#include "plan/plan.h"

#include <inttypes.h>
#include <stdlib.h>

const plan *plan_for_rows(const plan_set *set, uint32_t n_rows)
{
    for (uint32_t i = 0; i < set->n_buckets; i++)
        if (n_rows <= set->buckets[i].max_rows) return &set->buckets[i];
    return NULL;
}

void plan_set_free(plan_set *set)
{
    if (!set) return;
    for (uint32_t i = 0; i < set->n_buckets; i++) free((void *)(uintptr_t)set->buckets[i].ops);
    for (uint32_t i = set->n_model_tensors; i < set->n_tensors; i++)
        free((void *)(uintptr_t)set->tensors[i].values);
    free((void *)(uintptr_t)set->tensors);
    free((void *)(uintptr_t)set->bufs);
    free(set);
}

void plan_layer_ops(const plan *p, int layer, uint32_t *first, uint32_t *count)
{
    *first = *count = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        if (p->ops[i].layer != layer) continue;
        if (*count == 0) *first = i;
        ++*count;
    }
}

// ---- what an op touches -----------------------------------------------------------------------

static void reads(plan_uses *uses, plan_view v)
{
    if (v.buf >= 0) uses->reads[uses->n_reads++] = v;
}

static void writes(plan_uses *uses, plan_view v)
{
    if (v.buf >= 0) uses->writes[uses->n_writes++] = v;
}

static plan_view whole(const plan_set *set, int buffer)
{
    return (plan_view){.buf = buffer, .col = 0, .n = set->bufs[buffer].width};
}

void plan_op_uses(const plan_set *set, const plan_op *op, plan_uses *uses)
{
    *uses = (plan_uses){0};
    switch (op->kind) {
    case PLAN_EMBED: writes(uses, op->u.embed.out); break;
    case PLAN_NORM:
        reads(uses, op->u.norm.x);
        reads(uses, op->u.norm.residual);
        writes(uses, op->u.norm.out);
        break;
    case PLAN_LINEAR:
        reads(uses, op->u.linear.x);
        reads(uses, op->u.linear.residual);
        for (uint32_t i = 0; i < (op->u.linear.gated ? 1 : op->u.linear.n_weights); i++)
            writes(uses, op->u.linear.out[i]);
        break;
    case PLAN_QUANTIZE:
        reads(uses, op->u.quantize.x);
        writes(uses, op->u.quantize.out);
        break;
    case PLAN_ROPE_KV:
        reads(uses, op->u.rope_kv.q);
        reads(uses, op->u.rope_kv.k);
        reads(uses, op->u.rope_kv.v);
        writes(uses, op->u.rope_kv.q);
        writes(uses, whole(set, op->u.rope_kv.k_cache));
        writes(uses, whole(set, op->u.rope_kv.v_cache));
        break;
    case PLAN_ATTEND:
        reads(uses, op->u.attend.q);
        reads(uses, whole(set, op->u.attend.k_cache));
        reads(uses, whole(set, op->u.attend.v_cache));
        writes(uses, op->u.attend.out);
        break;
    case PLAN_ACTIVATE:
        reads(uses, op->u.activate.x);
        reads(uses, op->u.activate.up);
        writes(uses, op->u.activate.out);
        break;
    case PLAN_ADD:
        reads(uses, op->u.add.a);
        reads(uses, op->u.add.b);
        writes(uses, op->u.add.out);
        break;
    case PLAN_LOGITS_OP:
        reads(uses, op->u.logits.x);
        writes(uses, whole(set, PLAN_LOGITS));
        break;
    case PLAN_PICK_OP:
        reads(uses, whole(set, PLAN_LOGITS));
        writes(uses, whole(set, PLAN_PICK));
        break;
    case PLAN_N_OP_KINDS: break;
    }
}

static bool overlap(const plan_view *a, uint32_t n_a, const plan_view *b, uint32_t n_b)
{
    for (uint32_t i = 0; i < n_a; i++)
        for (uint32_t j = 0; j < n_b; j++)
            if (a[i].buf == b[j].buf && a[i].col < b[j].col + b[j].n &&
                b[j].col < a[i].col + a[i].n)
                return true;
    return false;
}

bool plan_hazard(const plan_uses *a, const plan_uses *b)
{
    return overlap(a->writes, a->n_writes, b->reads, b->n_reads) ||
           overlap(a->reads, a->n_reads, b->writes, b->n_writes) ||
           overlap(a->writes, a->n_writes, b->writes, b->n_writes);
}

// ---- what an op costs -------------------------------------------------------------------------

static uint64_t view_bytes(const plan_set *set, plan_view v, uint64_t n_rows)
{
    if (v.buf < 0) return 0;
    uint64_t bytes = 0;
    if (!quant_row_bytes(set->bufs[v.buf].type, v.n, &bytes)) return 0;
    return bytes * n_rows;
}

static void cost_of_weight(const plan_set *set, plan_weight w, uint64_t n_rows, plan_cost *cost)
{
    const plan_tensor *t = &set->tensors[w.tensor];
    cost->weight_bytes += w.rows * t->row_bytes;
    cost->flops += 2 * (uint64_t)w.rows * t->cols * n_rows;
}

static void cost_of_attention(const plan_set *set, const plan_attend *a, uint64_t n_rows,
                              uint64_t n_kv, plan_cost *cost)
{
    uint64_t seen = a->window && a->window < n_kv ? a->window : n_kv;
    uint64_t row = set->bufs[a->k_cache].row_bytes;
    cost->kv_bytes = 2 * seen * a->n_head_kv * row;
    // scores and weighted sum: a multiplication and an addition for each of head_dim values
    cost->flops = 4 * n_rows * a->n_head * a->head_dim * seen;
}

plan_cost plan_op_cost(const plan_set *set, const plan_op *op, uint32_t n_rows, uint32_t n_logits,
                       uint32_t n_kv)
{
    plan_cost cost = {0};
    plan_uses uses;
    plan_op_uses(set, op, &uses);
    uint64_t n = op->kind == PLAN_LOGITS_OP || op->kind == PLAN_PICK_OP ? n_logits : n_rows;
    for (uint32_t i = 0; i < uses.n_reads; i++)
        if (uses.reads[i].buf < PLAN_KV) cost.row_bytes += view_bytes(set, uses.reads[i], n);
    for (uint32_t i = 0; i < uses.n_writes; i++)
        if (uses.writes[i].buf < PLAN_KV) cost.row_bytes += view_bytes(set, uses.writes[i], n);

    switch (op->kind) {
    case PLAN_EMBED: {
        const plan_tensor *t = &set->tensors[op->u.embed.table.tensor];
        cost.weight_bytes = t->row_bytes * n_rows;
        cost.flops = (uint64_t)t->cols * n_rows;
        break;
    }
    case PLAN_LINEAR:
        for (uint32_t i = 0; i < op->u.linear.n_weights; i++)
            cost_of_weight(set, op->u.linear.weight[i], n_rows, &cost);
        break;
    case PLAN_LOGITS_OP: cost_of_weight(set, op->u.logits.weight, n_logits, &cost); break;
    case PLAN_ROPE_KV: {
        const plan_rope_kv *r = &op->u.rope_kv;
        cost.kv_bytes = 2 * (uint64_t)n_rows * r->n_head_kv * set->bufs[r->k_cache].row_bytes;
        cost.flops = 3 * (uint64_t)n_rows * (r->n_head + r->n_head_kv) * r->n_rot;
        break;
    }
    case PLAN_ATTEND: cost_of_attention(set, &op->u.attend, n_rows, n_kv, &cost); break;
    case PLAN_NORM: cost.flops = 4 * (uint64_t)n_rows * op->u.norm.x.n; break;
    case PLAN_QUANTIZE: cost.flops = 2 * (uint64_t)n_rows * op->u.quantize.x.n; break;
    case PLAN_ACTIVATE: cost.flops = 8 * (uint64_t)n_rows * op->u.activate.x.n; break;
    case PLAN_ADD: cost.flops = (uint64_t)n_rows * op->u.add.a.n; break;
    case PLAN_PICK_OP: cost.flops = 4 * (uint64_t)n_logits * set->n_vocab; break;
    case PLAN_N_OP_KINDS: break;
    }
    return cost;
}
