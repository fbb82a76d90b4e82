// make_model: writes a GGUF model of any shape with random weights. Its text is noise; its size,
// speed and file are those of a real model.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "make/make.h"
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
    make_shape shape;
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

static make_shape published_shape(uint64_t seed)
{
    make_shape s = make_smollm3_3b();
    s.published = true;
    s.seed = seed;
    return s;
}

// Options without a value; false: not one of them.
static bool parse_flag(const char *option, options *o)
{
    make_shape *s = &o->shape;
    if (!strcmp(option, "--tied"))
        s->tied = true;
    else if (!strcmp(option, "--untied"))
        s->tied = false;
    else if (!strcmp(option, "--table"))
        o->table = true;
    else if (!strcmp(option, "--smollm3-3b"))
        *s = published_shape(s->seed);
    else
        return false;
    return true;
}

static pm_status parse_option(const char *option, const char *value, options *o)
{
    make_shape *s = &o->shape;
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
        s->arch = make_arch_named(value);
        return s->arch ? PM_OK : error_set(PM_ERROR_USAGE, "--arch %s: unknown", value);
    }
    return error_set(PM_ERROR_USAGE, "%s: unknown option", option);
}

static const uint32_t type_unset = UINT32_MAX;

static pm_status finish_shape(make_shape *s)
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
    *o = (options){.shape = {.arch = make_arch_named("llama"),
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

// ---- printing ---------------------------------------------------------------------------------

enum { SHOWN_TEXT = 60, SHOWN_ITEMS = 16 };

static void print_text(const char *text, size_t n)
{
    for (size_t i = 0; i < n && i < SHOWN_TEXT; i++)
        putchar(text[i] < 32 && text[i] >= 0 ? ' ' : text[i]);
    if (n > SHOWN_TEXT) fputs("...", stdout);
}

static void print_array(const make_key *k)
{
    static const char *const names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                        "bool", "string", "array", "u64", "i64", "f64"};
    printf("%s (%" PRIu64 ")", names[k->item_type], k->n);
    for (uint64_t i = 0; k->strings && k->n <= SHOWN_ITEMS && i < k->n; i++) {
        fputs(i ? ", " : " ", stdout);
        print_text(k->strings[i].data, k->strings[i].len);
    }
}

static void print_copy(const make_key *k)
{
    if (k->type == GGUF_STRING) {
        gguf_string text = gguf_item_string(k->from, k->copy, 0);
        print_text(text.data, text.len);
    } else {
        printf("%.9g", gguf_item_number(k->from, k->copy, 0));
    }
}

static void print_keys(const make_keys *list)
{
    for (const make_key *k = list->keys; k < list->keys + list->n; k++) {
        static const char *const names[] = {
            [GGUF_STRING] = "string", [GGUF_ARRAY] = "array", [GGUF_U32] = "u32",
            [GGUF_I32] = "i32",       [GGUF_F32] = "f32",     [GGUF_BOOL] = "bool",
        };
        const char *type = k->type <= GGUF_ARRAY && names[k->type] ? names[k->type] : "number";
        printf("key %s %s ", k->name, type);
        if (k->type == GGUF_ARRAY)
            print_array(k);
        else if (k->copy)
            print_copy(k);
        else if (k->type == GGUF_STRING)
            print_text(k->text, strlen(k->text));
        else if (k->type == GGUF_F32)
            printf("%.9g", (double)k->real);
        else
            printf("%" PRIu32, k->number);
        putchar('\n');
    }
}

static void print_tensors(const make_tensor *tensors, size_t n)
{
    for (const make_tensor *t = tensors; t < tensors + n; t++)
        printf("tensor %s %" PRIu64 " %" PRIu64 " %s %" PRIu64 "\n", t->name, t->dims[0],
               t->dims[1], quant_type_name(t->type), t->offset);
}

static pm_status write_model(const char *path, const make_parts *parts)
{
    make_file *f = NULL;
    bool done = false;
    pm_status status = make_file_start(path, parts, &f);
    while (status == PM_OK && !done) status = make_file_next(f, &done);
    make_file_close(f);
    return status;
}

static pm_status make_model(const options *o)
{
    gguf *from = NULL;
    make_parts *parts = NULL;
    pm_status status = o->vocab_from ? gguf_open(o->vocab_from, true, &from) : PM_OK;
    if (status == PM_OK) status = make_parts_new(&o->shape, from, &parts);
    if (status == PM_OK && o->table) {
        print_keys(&parts->keys);
        print_tensors(parts->tensors, parts->n_tensors);
    } else if (status == PM_OK) {
        status = write_model(o->out, parts);
    }
    make_parts_free(parts);
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
