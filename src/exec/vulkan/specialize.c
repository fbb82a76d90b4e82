// Shader code for one set of specialization constants.
#include "exec/vulkan/vk.h"

#include <stdlib.h>
#include <string.h>

// Of the SPIR-V specification: instructions, and the decoration that numbers a constant.
enum {
    OP_CONSTANT_TRUE = 41,
    OP_CONSTANT_FALSE = 42,
    OP_CONSTANT = 43,
    OP_SPEC_CONSTANT_TRUE = 48,
    OP_SPEC_CONSTANT_FALSE = 49,
    OP_SPEC_CONSTANT = 50,
    OP_DECORATE = 71,
    DECORATION_SPEC_ID = 1,
    HEADER_WORDS = 5,
};

static bool is_spec_id(const uint32_t *op)
{
    return (op[0] & 0xffff) == OP_DECORATE && op[0] >> 16 == 4 && op[2] == DECORATION_SPEC_ID;
}

// The value that the key gives to the constant `id`; NULL: it keeps its own.
static const uint32_t *value_of(const vk_shader *shader, const vk_pipeline_key *key, uint32_t id)
{
    size_t n = shader->bytes / 4;
    for (size_t i = HEADER_WORDS; i < n; i += shader->code[i] >> 16) {
        const uint32_t *op = shader->code + i;
        if (is_spec_id(op) && op[1] == id) return op[3] < key->n_spec ? &key->spec[op[3]] : NULL;
    }
    return NULL;
}

static void make_plain(const vk_shader *shader, const vk_pipeline_key *key, uint32_t *op)
{
    uint32_t kind = op[0] & 0xffff, words = op[0] & 0xffff0000u;
    if (kind < OP_SPEC_CONSTANT_TRUE || kind > OP_SPEC_CONSTANT) return;
    const uint32_t *value = value_of(shader, key, op[2]);
    if (kind == OP_SPEC_CONSTANT) {
        if (value) op[3] = *value;
        op[0] = words | OP_CONSTANT;
    } else {
        bool on = value ? *value != 0 : kind == OP_SPEC_CONSTANT_TRUE;
        op[0] = words | (on ? OP_CONSTANT_TRUE : OP_CONSTANT_FALSE);
    }
}

pm_status vk_specialize(const vk_pipeline_key *key, uint32_t **code, size_t *bytes)
{
    const vk_shader *shader = key->shader;
    size_t n = shader->bytes / 4, at = HEADER_WORDS;
    uint32_t *to = malloc(shader->bytes);
    *code = to;
    if (!to) return error_memory("a shader", shader->bytes);
    memcpy(to, shader->code, HEADER_WORDS * sizeof *to);
    for (size_t i = HEADER_WORDS, words; i < n; i += words) {
        words = shader->code[i] >> 16;
        if (is_spec_id(shader->code + i)) continue;
        memcpy(to + at, shader->code + i, words * sizeof *to);
        make_plain(shader, key, to + at);
        at += words;
    }
    *bytes = at * sizeof *to;
    return PM_OK;
}
