// The plan as text: what `info --plan` shows.
#include "plan/plan.h"

#include <inttypes.h>

const char *plan_op_name(plan_op_kind kind)
{
    static const char *const names[] = {
        [PLAN_EMBED] = "EMBED",       [PLAN_NORM] = "NORM",       [PLAN_LINEAR] = "LINEAR",
        [PLAN_QUANTIZE] = "QUANTIZE", [PLAN_ROPE_KV] = "ROPE_KV", [PLAN_ATTEND] = "ATTEND",
        [PLAN_ACTIVATE] = "ACTIVATE", [PLAN_ADD] = "ADD",         [PLAN_LOGITS_OP] = "LOGITS",
        [PLAN_PICK_OP] = "PICK"};
    return kind < PLAN_N_OP_KINDS ? names[kind] : "?";
}

static void print_view(const plan_set *set, plan_view v, buf *out)
{
    const plan_buf *b = &set->bufs[v.buf];
    buf_str(out, b->name);
    if (v.col != 0 || v.n != b->width)
        buf_printf(out, "[%" PRIu32 ":%" PRIu32 "]", v.col, v.col + v.n);
    else
        buf_printf(out, "[%" PRIu32 "]", v.n);
    if (v.buf < PLAN_KV && b->type != QUANT_F32) buf_str(out, ":q8");
}

static void print_weight(const plan_set *set, plan_weight w, buf *out)
{
    const plan_tensor *t = &set->tensors[w.tensor];
    buf_str(out, t->name);
    if (w.rows != t->rows) buf_printf(out, " rows %" PRIu32 "+%" PRIu32, w.row, w.rows);
    buf_printf(out, " %s %" PRIu32 "x%" PRIu32, quant_type_name(t->type), w.rows, t->cols);
}

static const char *fn_name(plan_fn fn)
{
    static const char *const names[] = {"none", "silu", "gelu_tanh", "gelu_erf"};
    return names[fn];
}

static void print_linear(const plan_set *set, const plan_linear *l, buf *out)
{
    for (uint32_t i = 0; i < (l->gated ? 1 : l->n_weights); i++) {
        if (i) buf_str(out, ", ");
        print_view(set, l->out[i], out);
    }
    buf_str(out, " = ");
    if (l->gated) buf_printf(out, "%s_gated ", fn_name(l->fn));
    if (!l->gated && l->fn != PLAN_FN_NONE) buf_printf(out, "%s ", fn_name(l->fn));
    buf_char(out, '(');
    for (uint32_t i = 0; i < l->n_weights; i++) {
        if (i) buf_str(out, "; ");
        print_weight(set, l->weight[i], out);
        if (l->bias[i].tensor >= 0) buf_str(out, " + bias");
    }
    buf_str(out, ") ");
    if (l->norm_in.tensor >= 0) buf_str(out, "rms_norm ");
    print_view(set, l->x, out);
    if (l->residual.buf >= 0) {
        buf_str(out, " + ");
        print_view(set, l->residual, out);
    }
}

static void print_norm(const plan_set *set, const plan_norm_op *n, buf *out)
{
    print_view(set, n->out, out);
    buf_str(out, n->norm == PLAN_NORM_RMS ? " = rms_norm " : " = layer_norm ");
    print_view(set, n->x, out);
    if (n->residual.buf >= 0) {
        buf_str(out, " + ");
        print_view(set, n->residual, out);
    }
}

static void print_rope_kv(const plan_set *set, const plan_rope_kv *r, buf *out)
{
    static const char *const kinds[] = {"no rope", "interleaved", "neox"};
    buf_printf(out, "%s", kinds[r->rope]);
    if (r->rope != PLAN_ROPE_NONE)
        buf_printf(out, " on %" PRIu32 " of %" PRIu32, r->n_rot, r->head_dim);
    if (r->q_norm.tensor >= 0) buf_str(out, ", head norms");
    buf_printf(out, ", %" PRIu32 " q heads, %" PRIu32 " kv heads -> %s, %s (%s)", r->n_head,
               r->n_head_kv, set->bufs[r->k_cache].name, set->bufs[r->v_cache].name,
               quant_type_name(set->kv_type));
}

static void print_attend(const plan_set *set, const plan_attend *a, buf *out)
{
    print_view(set, a->out, out);
    buf_printf(out, " = attention, %" PRIu32 " heads of %" PRIu32 ", scale %.6g", a->n_head,
               a->head_dim, (double)a->scale);
    if (a->window) buf_printf(out, ", window %" PRIu32, a->window);
    if (a->softcap > 0) buf_printf(out, ", softcap %g", (double)a->softcap);
}

void plan_print_operands(const plan_set *set, const plan_op *op, buf *out)
{
    switch (op->kind) {
    case PLAN_EMBED:
        print_view(set, op->u.embed.out, out);
        buf_str(out, " = ");
        print_weight(set, op->u.embed.table, out);
        if (op->u.embed.scale != 1) buf_printf(out, " * %.6g", (double)op->u.embed.scale);
        if (op->u.embed.positions.tensor >= 0) buf_str(out, " + positions");
        break;
    case PLAN_NORM: print_norm(set, &op->u.norm, out); break;
    case PLAN_LINEAR: print_linear(set, &op->u.linear, out); break;
    case PLAN_QUANTIZE:
        print_view(set, op->u.quantize.out, out);
        buf_str(out, " = ");
        print_view(set, op->u.quantize.x, out);
        break;
    case PLAN_ROPE_KV: print_rope_kv(set, &op->u.rope_kv, out); break;
    case PLAN_ATTEND: print_attend(set, &op->u.attend, out); break;
    case PLAN_ACTIVATE:
        print_view(set, op->u.activate.out, out);
        buf_printf(out, " = %s ", fn_name(op->u.activate.fn));
        print_view(set, op->u.activate.x, out);
        if (op->u.activate.up.buf >= 0) {
            buf_str(out, " * ");
            print_view(set, op->u.activate.up, out);
        }
        break;
    case PLAN_ADD:
        print_view(set, op->u.add.out, out);
        buf_str(out, " = ");
        print_view(set, op->u.add.a, out);
        buf_str(out, " + ");
        print_view(set, op->u.add.b, out);
        break;
    case PLAN_LOGITS_OP:
        buf_str(out, "logits = ");
        print_weight(set, op->u.logits.weight, out);
        buf_char(out, ' ');
        if (op->u.logits.norm_in.tensor >= 0) buf_str(out, "rms_norm ");
        print_view(set, op->u.logits.x, out);
        if (op->u.logits.softcap > 0) buf_printf(out, ", softcap %g", (double)op->u.logits.softcap);
        break;
    case PLAN_PICK_OP: buf_str(out, "pick = arg max, largest, log-sum-exp of logits"); break;
    case PLAN_N_OP_KINDS: break;
    }
}

void plan_print(const plan_set *set, const plan *p, buf *out)
{
    plan_cost total = {0};
    buf_printf(out,
               "plan for up to %" PRIu32 " rows: %" PRIu32 " ops, %" PRIu32
               " layers; costs for %" PRIu32 " rows, one row of logits, %" PRIu32 " keys\n"
               "%5s %5s %-9s %-3s %-12s %12s %12s  %s\n",
               p->max_rows, p->n_ops, set->n_layer, p->max_rows, set->n_ctx, "index", "layer", "op",
               "act", "label", "bytes", "flops", "operands");
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const plan_op *op = &p->ops[i];
        plan_cost c = plan_op_cost(set, op, p->max_rows, 1, set->n_ctx);
        uint64_t bytes = c.weight_bytes + c.kv_bytes + c.row_bytes;
        bool product = op->kind == PLAN_LINEAR || op->kind == PLAN_LOGITS_OP;
        buf_printf(out, "%5" PRIu32 " ", i);
        if (op->layer >= 0)
            buf_printf(out, "%5d ", op->layer);
        else
            buf_str(out, "    - ");
        buf_printf(out, "%-9s %-3s %-12s %12" PRIu64 " %12" PRIu64 "  ", plan_op_name(op->kind),
                   !product                 ? ""
                   : op->act == PLAN_ACT_Q8 ? "q8"
                                            : "f32",
                   op->label, bytes, c.flops);
        plan_print_operands(set, op, out);
        buf_char(out, '\n');
        total.weight_bytes += c.weight_bytes;
        total.kv_bytes += c.kv_bytes;
        total.row_bytes += c.row_bytes;
        total.flops += c.flops;
    }
    buf_printf(out,
               "total: %" PRIu64 " bytes of weights, %" PRIu64 " of cache, %" PRIu64
               " of activations, %" PRIu64 " flops\n",
               total.weight_bytes, total.kv_bytes, total.row_bytes, total.flops);
}
