// make_model: writes a GGUF model of any shape with random weights. Its text is noise; its size,
// speed and file are those of a real model.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "make_model/make_model.h"
#include "quant/quant.h"

static const char usage[] =
    "usage: make_model [options] -o OUT.gguf\n"
    "  --smollm3-3b        the shape and keys of the published SmolLM3-3B Q8_0 (3.3 GB)\n"
    "  --arch NAME         llama (default), smollm3, qwen2, qwen3, gemma2, gemma3, phi3, gpt2, "
    "gptneox\n"
    "  --layers N          layers (default 2)\n"
    "  --embd N            width of the residual row (default 64)\n"
    "  --heads N           attention heads (default 4)\n"
    "  --kv-heads N        key and value heads (default: as many as heads)\n"
    "  --head-dim N        width of a head (default: embd / heads)\n"
    "  --ff N              width of the feed-forward part (default 2 * embd)\n"
    "  --vocab N           tokens of a made-up vocabulary (default 512)\n"
    "  --vocab-from FILE   copies the tokenizer of a GGUF file instead\n"
    "  --ctx N             context length (default 512)\n"
    "  --type NAME         format of the matrices: Q8_0 (default), F16, Q4_K, ...\n"
    "  --embd-type NAME    format of token table and output (default: --type)\n"
    "  --tied, --untied    without (default) or with an output matrix of its own\n"
    "  --seed N            default 1\n"
    "  --table             prints keys and tensors instead of writing\n";

typedef struct options {
    shape shape;
    const char *vocab_from, *out;
    bool table;
} options;

static pm_status parse_number(const char *option, const char *text, uint64_t max, uint64_t *out)
{
    char *end;
    unsigned long long n = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || n > max)
        return error_set(PM_ERROR_USAGE, "%s %s: must be a whole number up to %" PRIu64, option,
                         text, max);
    *out = n;
    return PM_OK;
}

static pm_status parse_type(const char *option, const char *text, uint32_t *type)
{
    const quant_format *f = quant_format_named(text);
    if (!f) return error_set(PM_ERROR_USAGE, "%s %s: unknown format", option, text);
    *type = (uint32_t)f->type;
    return PM_OK;
}

// Options without a value; false: not one of them.
static bool parse_flag(const char *option, options *o)
{
    shape *s = &o->shape;
    if (!strcmp(option, "--tied"))
        s->tied = true;
    else if (!strcmp(option, "--untied"))
        s->tied = false;
    else if (!strcmp(option, "--table"))
        o->table = true;
    else if (!strcmp(option, "--smollm3-3b"))
        *s = (shape){.arch = arch_named("smollm3"),
                     .n_layer = 36,
                     .n_embd = 2048,
                     .n_head = 16,
                     .n_head_kv = 4,
                     .n_ff = 11008,
                     .n_vocab = 128256,
                     .n_ctx = 65536,
                     .type = QUANT_Q8_0,
                     .embd_type = QUANT_Q8_0,
                     .tied = true,
                     .published = true,
                     .seed = s->seed};
    else
        return false;
    return true;
}

static pm_status parse_option(const char *option, const char *value, options *o)
{
    shape *s = &o->shape;
    const struct {
        const char *name;
        uint32_t *field;
    } numbers[] = {{"--layers", &s->n_layer},    {"--embd", &s->n_embd},
                   {"--heads", &s->n_head},      {"--kv-heads", &s->n_head_kv},
                   {"--head-dim", &s->head_dim}, {"--ff", &s->n_ff},
                   {"--vocab", &s->n_vocab},     {"--ctx", &s->n_ctx}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(option, numbers[i].name) != 0) continue;
        uint64_t n = 0;
        pm_status status = parse_number(option, value, 1 << 24, &n);
        if (status == PM_OK && n == 0)
            status = error_set(PM_ERROR_USAGE, "%s 0: must be at least 1", option);
        if (status == PM_OK) *numbers[i].field = (uint32_t)n;
        return status;
    }
    if (!strcmp(option, "--type")) return parse_type(option, value, &s->type);
    if (!strcmp(option, "--embd-type")) return parse_type(option, value, &s->embd_type);
    if (!strcmp(option, "--seed")) return parse_number(option, value, UINT64_MAX, &s->seed);
    if (!strcmp(option, "--vocab-from")) {
        o->vocab_from = value;
        return PM_OK;
    }
    if (!strcmp(option, "-o")) {
        o->out = value;
        return PM_OK;
    }
    if (!strcmp(option, "--arch")) {
        s->arch = arch_named(value);
        return s->arch ? PM_OK : error_set(PM_ERROR_USAGE, "--arch %s: unknown", value);
    }
    return error_set(PM_ERROR_USAGE, "%s: unknown option", option);
}

static const uint32_t type_unset = UINT32_MAX;

static pm_status finish_shape(shape *s)
{
    if (!s->n_ff) s->n_ff = 2 * s->n_embd;
    if (!s->n_head_kv || !s->arch->has_kv_heads) s->n_head_kv = s->n_head;
    if (!s->head_dim) s->head_dim = s->n_embd / s->n_head;
    if (s->embd_type == type_unset) s->embd_type = s->type;
    if (s->n_head % s->n_head_kv)
        return error_set(PM_ERROR_USAGE,
                         "--heads %" PRIu32 " is no multiple of --kv-heads %" PRIu32, s->n_head,
                         s->n_head_kv);
    if (s->head_dim == 0 || s->head_dim % 2)
        return error_set(PM_ERROR_USAGE, "a head dimension of %" PRIu32 ": must be even",
                         s->head_dim);
    return PM_OK;
}

static pm_status parse(int argc, char **argv, options *o)
{
    *o = (options){.shape = {.arch = arch_named("llama"),
                             .n_layer = 2,
                             .n_embd = 64,
                             .n_head = 4,
                             .n_vocab = 512,
                             .n_ctx = 512,
                             .type = QUANT_Q8_0,
                             .embd_type = type_unset,
                             .tied = true,
                             .seed = 1}};
    for (int i = 1; i < argc; i++) {
        if (parse_flag(argv[i], o)) continue;
        if (i + 1 == argc)
            return error_set(PM_ERROR_USAGE, "%s: unknown, or lacks its value", argv[i]);
        pm_status status = parse_option(argv[i], argv[i + 1], o);
        if (status != PM_OK) return status;
        i++;
    }
    if (!o->out && !o->table) return error_set(PM_ERROR_USAGE, "no output file (-o OUT.gguf)");
    return finish_shape(&o->shape);
}

static void print_tensors(const tensor_spec *tensors, size_t n)
{
    for (const tensor_spec *t = tensors; t < tensors + n; t++)
        printf("tensor %s %" PRIu64 " %" PRIu64 " %s %" PRIu64 "\n", t->name, t->dims[0],
               t->dims[1], quant_type_name(t->type), t->offset);
}

enum { PIECE_BYTES = 4 << 20 };

static pm_status write_tensor(gguf_writer *w, const shape *s, const tensor_spec *t, size_t index)
{
    uint64_t row_bytes = t->bytes / t->dims[1];
    uint64_t rows = row_bytes < PIECE_BYTES ? PIECE_BYTES / row_bytes : 1;
    if (rows > t->dims[1]) rows = t->dims[1];
    weights *source;
    pm_status status = weights_create(s, t, index, &source);
    if (status != PM_OK) return status;
    uint8_t *piece = malloc((size_t)(rows * row_bytes));
    if (!piece) status = error_memory("weights", rows * row_bytes);
    for (uint64_t first = 0; status == PM_OK && first < t->dims[1]; first += rows) {
        uint64_t n = rows < t->dims[1] - first ? rows : t->dims[1] - first;
        weights_rows(source, first, n, piece);
        status = gguf_put_data(w, piece, n * row_bytes);
    }
    free(piece);
    weights_destroy(source);
    return status;
}

static pm_status write_model(const char *path, const shape *s, const key_list *keys,
                             const tensor_spec *tensors, size_t n)
{
    gguf_writer *w;
    pm_status status = gguf_writer_open(path, &w);
    if (status != PM_OK) return status;
    keys_write(keys, w);
    for (size_t i = 0; i < n; i++)
        gguf_put_tensor(w, tensors[i].name, tensors[i].type, tensors[i].n_dims, tensors[i].dims);
    status = gguf_begin_data(w);
    for (size_t i = 0; status == PM_OK && i < n; i++) status = write_tensor(w, s, &tensors[i], i);
    if (status == PM_OK) return gguf_writer_commit(w);
    gguf_writer_abort(w);
    return status;
}

static pm_status make_model(options *o)
{
    gguf *from = NULL;
    vocab v = {0};
    tensor_spec *tensors = NULL;
    size_t n = 0;
    pm_status status = PM_OK;
    key_list *keys = calloc(1, sizeof *keys);
    if (!keys) return error_memory("keys", sizeof *keys);
    if (o->vocab_from) {
        status = gguf_open(o->vocab_from, true, &from);
        if (status == PM_OK) status = vocab_copy(from, &v);
        if (status == PM_OK && o->shape.published && v.n_tokens != o->shape.n_vocab)
            status =
                error_set(PM_ERROR_USAGE, "%s: has %" PRIu32 " tokens, --smollm3-3b needs %" PRIu32,
                          o->vocab_from, v.n_tokens, o->shape.n_vocab);
        o->shape.n_vocab = v.n_tokens;
    } else {
        status = vocab_make(o->shape.n_vocab, &v);
    }
    if (status == PM_OK) status = shape_tensors(&o->shape, &tensors, &n);
    if (status == PM_OK) {
        keys_build(keys, &o->shape, &v);
        if (keys->full)
            status = error_set(PM_ERROR_FILE, "%s: has too many tokenizer keys", o->vocab_from);
    }
    if (status == PM_OK && o->table) {
        keys_print(keys);
        print_tensors(tensors, n);
    } else if (status == PM_OK) {
        status = write_model(o->out, &o->shape, keys, tensors, n);
    }
    free(tensors);
    free(keys);
    vocab_free(&v);
    gguf_close(from);
    return status;
}

int main(int argc, char **argv)
{
    if (argc == 1 || !strcmp(argv[1], "--help")) {
        fputs(usage, stdout);
        return 0;
    }
    options o;
    pm_status status = parse(argc, argv, &o);
    if (status == PM_OK) status = make_model(&o);
    if (status != PM_OK) fprintf(stderr, "make_model: %s\n", error_message());
    return (int)status;
}
