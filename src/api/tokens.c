// Text to ids and back.
#include <string.h>

#include "api/handles.h"

static pm_status need_vocab(const pm_model *pm)
{
    if (pm->m->vocab) return PM_OK;
    return error_set(PM_ERROR_FILE, "%s: has no vocabulary", gguf_path(pm->m->file));
}

static pm_status encode(const text_vocab *v, const char *text, size_t n_text, int flags,
                        text_ids *ids)
{
    const text_specials *s = text_special_ids(v);
    bool ends = (flags & PM_TOKENS_BOS) != 0;
    pm_status status = PM_OK;
    if (ends && s->add_bos && s->bos != TEXT_NO_TOKEN) status = text_ids_add(ids, s->bos);
    if (status == PM_OK) {
        status = text_encode(v, text, n_text, (flags & PM_TOKENS_SPECIAL) != 0, ids);
    }
    if (status == PM_OK && ends && s->add_eos && s->eos != TEXT_NO_TOKEN) {
        status = text_ids_add(ids, s->eos);
    }
    return status;
}

pm_status pm_tokenize(const pm_model *pm, const char *text, size_t n_text, int flags, int32_t *ids,
                      size_t cap, size_t *n)
{
    pm_status status = need_vocab(pm);
    if (status != PM_OK) return status;
    text_ids all = {0};
    status = encode(pm->m->vocab, text, n_text, flags, &all);
    if (status == PM_OK) {
        size_t copied = all.n < cap ? all.n : cap;
        if (copied) memcpy(ids, all.ids, copied * sizeof *ids);
        *n = all.n;
    }
    text_ids_free(&all);
    return status;
}

const char *pm_token_piece(const pm_model *pm, int32_t id, int special, size_t *n)
{
    const text_vocab *v = pm->m->vocab;
    if (!v || id < 0 || id >= text_n_vocab(v)) return NULL;
    gguf_string piece = text_piece(v, id, special != 0);
    *n = piece.len;
    return piece.data ? piece.data : "";
}

pm_status pm_detokenize(const pm_model *pm, const int32_t *ids, size_t n, int special, char **text,
                        size_t *n_text)
{
    pm_status status = need_vocab(pm);
    if (status != PM_OK) return status;
    const text_vocab *v = pm->m->vocab;
    buf out = {0};
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= text_n_vocab(v)) {
            buf_free(&out);
            return error_set(PM_ERROR_USAGE, "no token %d (0 to %d)", ids[i], text_n_vocab(v) - 1);
        }
        gguf_string piece = text_piece(v, ids[i], special != 0);
        buf_add(&out, piece.data, piece.len);
    }
    if (text_has_space_prefix(v) && out.len > 0 && out.data[0] == ' ') {
        memmove(out.data, out.data + 1, out.len);
        out.len--;
    }
    return buf_take(&out, text, n_text);
}

int pm_token_is_end(const pm_model *pm, int32_t id)
{
    return pm->m->vocab && text_is_end(pm->m->vocab, id);
}

int32_t pm_token_bos(const pm_model *pm)
{
    return pm->m->vocab ? text_special_ids(pm->m->vocab)->bos : TEXT_NO_TOKEN;
}

int32_t pm_token_eos(const pm_model *pm)
{
    return pm->m->vocab ? text_special_ids(pm->m->vocab)->eos : TEXT_NO_TOKEN;
}
