// The keys of a model, in the order of converted files.
#include "make/make.h"

#include <stdio.h>
#include <string.h>

#include "quant/quant.h"

static make_key *add(make_keys *list, const char *name, gguf_type type)
{
    if (list->n == MAKE_MAX_KEYS) {
        list->full = true;
        list->n--;
    }
    make_key *k = &list->keys[list->n++];
    *k = (make_key){.type = type};
    snprintf(k->name, sizeof k->name, "%s", name);
    return k;
}

static void add_text(make_keys *list, const char *name, const char *text)
{
    add(list, name, GGUF_STRING)->text = text;
}

static void add_number(make_keys *list, const char *name, uint32_t number)
{
    add(list, name, GGUF_U32)->number = number;
}

static void add_strings(make_keys *list, const char *name, const gguf_string *strings, uint64_t n)
{
    make_key *k = add(list, name, GGUF_ARRAY);
    k->item_type = GGUF_STRING;
    k->strings = strings;
    k->n = n;
}

// "ARCH.NAME"
static void add_arch_number(make_keys *list, const make_shape *s, const char *name, uint32_t number)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", s->arch->name, name);
    add_number(list, full, number);
}

static void add_arch_real(make_keys *list, const make_shape *s, const char *name, float real)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", s->arch->name, name);
    add(list, full, GGUF_F32)->real = real;
}

// What only the published file says of itself.
static void add_description(make_keys *list)
{
    static const gguf_string tags[] = {{"unsloth", 7}};
    static const gguf_string languages[] = {{"en", 2}, {"fr", 2}, {"es", 2}, {"it", 2},
                                            {"pt", 2}, {"zh", 2}, {"ar", 2}, {"ru", 2}};
    add_text(list, "general.basename", "Smollm3-3B");
    add_text(list, "general.quantized_by", "Unsloth");
    add_text(list, "general.size_label", "3B");
    add_text(list, "general.license", "apache-2.0");
    add_text(list, "general.repo_url", "https://huggingface.co/unsloth");
    add_number(list, "general.base_model.count", 1);
    add_text(list, "general.base_model.0.name", "SmolLM3 3B");
    add_text(list, "general.base_model.0.organization", "HuggingFaceTB");
    add_text(list, "general.base_model.0.repo_url",
             "https://huggingface.co/HuggingFaceTB/SmolLM3-3B");
    add_strings(list, "general.tags", tags, 1);
    add_strings(list, "general.languages", languages, 8);
}

static void add_imatrix(make_keys *list, const make_shape *s)
{
    add_text(list, "quantize.imatrix.file", "SmolLM3-3B-GGUF/imatrix_unsloth.dat");
    add_text(list, "quantize.imatrix.dataset", "unsloth_calibration_SmolLM3-3B.txt");
    add_number(list, "quantize.imatrix.entries_count", 7 * s->n_layer); // a layer's matrices
    add_number(list, "quantize.imatrix.chunks_count", 505);
}

static void add_shape(make_keys *list, const make_shape *s)
{
    const char *name = s->arch->name;
    add_arch_number(list, s, "block_count", s->n_layer);
    add_arch_number(list, s, "context_length", s->n_ctx);
    add_arch_number(list, s, "embedding_length", s->n_embd);
    add_arch_number(list, s, "feed_forward_length", s->n_ff);
    add_arch_number(list, s, "attention.head_count", s->n_head);
    if (s->arch->has_kv_heads) add_arch_number(list, s, "attention.head_count_kv", s->n_head_kv);
    bool rotates = s->arch->freq_base > 0;
    if (rotates) add_arch_real(list, s, "rope.freq_base", s->arch->freq_base);
    add_arch_real(list, s, s->arch->eps_key, s->arch->eps);
    if ((uint64_t)s->head_dim * s->n_head != s->n_embd) {
        add_arch_number(list, s, "attention.key_length", s->head_dim);
        add_arch_number(list, s, "attention.value_length", s->head_dim);
    }
    add_arch_number(list, s, "vocab_size", s->n_vocab);
    if (rotates) add_arch_number(list, s, "rope.dimension_count", s->head_dim);

    // Windows small enough that short texts leave them.
    uint32_t window = s->n_ctx / 8 ? s->n_ctx / 8 : 1;
    if (!strcmp(name, "gemma2")) {
        add_arch_number(list, s, "attention.sliding_window", window);
        add_arch_real(list, s, "attn_logit_softcapping", 50.0f);
        add_arch_real(list, s, "final_logit_softcapping", 30.0f);
    } else if (!strcmp(name, "gemma3")) {
        add_arch_number(list, s, "attention.sliding_window", window);
        add_arch_real(list, s, "rope.freq_base_swa", 10000.0f);
    } else if (!strcmp(name, "phi3")) {
        add_arch_number(list, s, "rope.scaling.original_context_length", s->n_ctx);
    } else if (!strcmp(name, "gptneox")) {
        add(list, "gptneox.use_parallel_residual", GGUF_BOOL)->number = 1;
    }
}

static const char plain_template[] =
    "{%- for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{%- if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\\n' }}{% endif %}";

static void add_copy(make_keys *list, const gguf *from, const gguf_value *v)
{
    char name[96];
    snprintf(name, sizeof name, "%.*s", (int)(v->key.len > 95 ? 95 : v->key.len), v->key.data);
    make_key *k = add(list, name, v->type);
    k->item_type = v->item_type;
    k->n = v->n_items;
    k->from = from;
    k->copy = v;
}

static bool begins_with(gguf_string text, const char *begin)
{
    return text.len >= strlen(begin) && !memcmp(text.data, begin, strlen(begin));
}

// The published file's tokenizer keys, from `v`, where it has them, else made up.
static const char *const published_keys[] = {
    "tokenizer.ggml.model",
    "tokenizer.ggml.pre",
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.token_type",
    "tokenizer.ggml.merges",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.padding_token_id",
    "tokenizer.chat_template",
};

static void copy_tokenizer(make_keys *list, const make_shape *s, const make_vocab *v)
{
    if (!s->published) {
        for (size_t i = 0; i < gguf_n_values(v->from); i++) {
            const gguf_value *value = gguf_value_at(v->from, i);
            if (begins_with(value->key, "tokenizer.")) add_copy(list, v->from, value);
        }
        return;
    }
    for (size_t i = 0; i < sizeof published_keys / sizeof *published_keys; i++) {
        const gguf_value *value = gguf_find(v->from, published_keys[i]);
        if (value) add_copy(list, v->from, value);
    }
}

static void make_tokenizer(make_keys *list, const make_shape *s, const make_vocab *v)
{
    add_text(list, "tokenizer.ggml.model", "gpt2");
    add_text(list, "tokenizer.ggml.pre", s->arch->pre);
    add_strings(list, "tokenizer.ggml.tokens", v->tokens, v->n_tokens);
    make_key *types = add(list, "tokenizer.ggml.token_type", GGUF_ARRAY);
    types->item_type = GGUF_I32;
    types->ints = v->types;
    types->n = v->n_tokens;
    add_strings(list, "tokenizer.ggml.merges", v->merges, v->n_merges);
    if (!s->published) add_number(list, "tokenizer.ggml.bos_token_id", v->bos);
    add_number(list, "tokenizer.ggml.eos_token_id", v->eos);
    add_number(list, "tokenizer.ggml.padding_token_id", v->pad);
    if (!s->published) add(list, "tokenizer.ggml.add_bos_token", GGUF_BOOL)->number = 0;
    add_text(list, "tokenizer.chat_template", plain_template);
}

// general.file_type of files that are mostly of one tensor type.
static uint32_t file_type(uint32_t type)
{
    static const uint32_t types[][2] = {
        {QUANT_F32, 0},      {QUANT_F16, 1},     {QUANT_Q4_0, 2},     {QUANT_Q4_1, 3},
        {QUANT_Q8_0, 7},     {QUANT_Q5_0, 8},    {QUANT_Q5_1, 9},     {QUANT_Q2_K, 10},
        {QUANT_Q3_K, 12},    {QUANT_Q4_K, 15},   {QUANT_Q5_K, 17},    {QUANT_Q6_K, 18},
        {QUANT_IQ2_XXS, 19}, {QUANT_IQ2_XS, 20}, {QUANT_IQ3_XXS, 23}, {QUANT_IQ1_S, 24},
        {QUANT_IQ4_NL, 25},  {QUANT_IQ3_S, 26},  {QUANT_IQ2_S, 28},   {QUANT_IQ4_XS, 30},
        {QUANT_IQ1_M, 31},   {QUANT_BF16, 32},   {QUANT_TQ1_0, 36},   {QUANT_TQ2_0, 37},
        {QUANT_MXFP4, 38},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i][0] == type) return types[i][1];
    }
    return 1024; // "guessed"
}

void make_keys_build(make_keys *list, const make_shape *s, const make_vocab *v)
{
    *list = (make_keys){0};
    add_text(list, "general.architecture", s->arch->name);
    add_text(list, "general.type", "model");
    add_text(list, "general.name", s->published ? "Smollm3-3B" : s->name ? s->name : "random");
    if (s->published) add_description(list);
    add_shape(list, s);
    if (v->from)
        copy_tokenizer(list, s, v);
    else
        make_tokenizer(list, s, v);
    add_number(list, "general.quantization_version", 2);
    add_number(list, "general.file_type", file_type(s->type));
    if (s->published) add_imatrix(list, s);
}

void make_keys_write(const make_keys *list, gguf_writer *w)
{
    for (const make_key *k = list->keys; k < list->keys + list->n; k++) {
        if (k->copy)
            gguf_put_copy(w, k->from, k->copy);
        else if (k->type == GGUF_STRING)
            gguf_put_string(w, k->name, k->text, strlen(k->text));
        else if (k->type == GGUF_U32)
            gguf_put_u32(w, k->name, k->number);
        else if (k->type == GGUF_F32)
            gguf_put_f32(w, k->name, k->real);
        else if (k->type == GGUF_BOOL)
            gguf_put_bool(w, k->name, k->number != 0);
        else if (k->strings)
            gguf_put_strings(w, k->name, k->strings, k->n);
        else
            gguf_put_i32s(w, k->name, k->ints, k->n);
    }
}
