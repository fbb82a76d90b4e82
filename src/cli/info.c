// pumice info: what is in a file, from pm_info's JSON.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

const cli_option info_options[] = {
    {"model", 'm', "MODEL", "the model, instead of the first word"},
    {"full", 0, NULL, "long arrays and texts in full"},
    {"json", 0, NULL, "everything as one JSON document"},
    {"plan", 0, NULL, "the operations that run, with shapes, bytes and flops"},
    {"rows", 0, "N", "with --plan: token rows that run together (1 to 512; default 1)"},
    {0},
};

enum { VALUE_BYTES = 160 }; // how much of a value is shown without --full

static void print_value(const json_t *value, bool full)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    if (!text) return;
    size_t n = strlen(text);
    if (!full && n > VALUE_BYTES) {
        size_t cut = VALUE_BYTES;
        while (cut && ((unsigned char)text[cut] & 0xc0) == 0x80) cut--; // whole characters
        out_bytes(text, cut);
        out_print(" ... (%zu bytes, --full shows all)\n", n);
    } else {
        out_text(text);
        out_text("\n");
    }
    free(text);
}

static void print_tensors(const json_t *tensors)
{
    size_t index;
    const json_t *t, *dim;
    out_print("\nTensors (%zu)\n", json_array_size(tensors));
    json_array_foreach(tensors, index, t)
    {
        buf shape = {0};
        size_t k;
        json_array_foreach(json_object_get(t, "shape"), k, dim)
            buf_printf(&shape, "%s%" JSON_INTEGER_FORMAT, k ? " x " : "", json_integer_value(dim));
        out_print("  %-40s %-8s %-22s at %-12.0f %.0f bytes\n", text_in(t, "name", "-"),
                  text_in(t, "type", "-"), shape.data && !shape.failed ? shape.data : "",
                  number_in(t, "offset", 0), number_in(t, "bytes", 0));
        buf_free(&shape);
    }
}

static void print_text(const char *path, const json_t *info, bool full)
{
    const json_t *metadata = json_object_get(info, "metadata");
    const json_t *context = json_object_get(info, "context");
    out_print("%s\nGGUF version %.0f, architecture %s, %s parameters (%.0f)\n", path,
              number_in(info, "version", 0), text_in(info, "architecture", "-"),
              show_count(number_in(info, "parameters", 0)), number_in(info, "parameters", 0));
    if (json_is_true(json_object_get(info, "supported")))
        out_text("runs here: yes\n");
    else
        out_print("runs here: no, %s\n", text_in(info, "unsupported_reason", "-"));
    out_print("pre-tokenizer: %s\n", text_in(info, "pre_tokenizer", "-"));
    out_text("end tokens: ");
    print_value(json_object_get(info, "end_tokens"), true);
    if (json_is_object(context))
        out_print("KV cache for a context of %.0f: %s\n", number_in(context, "n_ctx", 0),
                  show_mib((uint64_t)number_in(context, "kv_bytes", 0)));

    const char *key;
    json_t *value;
    out_print("\nMetadata (%zu)\n", json_object_size(metadata));
    json_object_foreach((json_t *)metadata, key, value)
    {
        out_print("  %-44s ", key);
        print_value(value, full);
    }
    print_tensors(json_object_get(info, "tensors"));
}

static pm_status print_plan(const cli_args *args, const char *word)
{
    loaded l = {0};
    char *text = NULL;
    int64_t rows = 1;
    pm_status status = args_count(args, "rows", 1, 512, 1, &rows);
    if (status == PM_OK) status = loaded_vocabulary(args, word, &l);
    if (status == PM_OK) status = pm_model_plan(l.model, args->options, (int)rows, &text);
    if (status == PM_OK) out_text(text);
    pm_free(text);
    loaded_free(&l);
    return status;
}

pm_status run_info(cli_args *args)
{
    const char *option = args_get(args, "model");
    const char *word = option ? option : args->n_words ? args->words[0] : NULL;
    bool full = args_has(args, "full");
    if (args_get(args, "rows") && !args_has(args, "plan"))
        return error_set(PM_ERROR_USAGE, "--rows: goes with --plan");
    if (args_has(args, "plan") && args_has(args, "json"))
        return error_set(PM_ERROR_USAGE, "--plan: is text, it does not go with --json");
    if (args_has(args, "plan")) return print_plan(args, word);

    char *path = NULL, *text = NULL;
    json_t *info = NULL;
    pm_status status = model_path(word, &path);
    if (status == PM_OK) status = pm_info(path, args->options, full, &text);
    if (status != PM_OK) goto done;
    if (args_has(args, "json")) {
        out_text(text);
        out_text("\n");
        goto done;
    }
    info = json_loads(text, JSON_ALLOW_NUL, NULL);
    if (info)
        print_text(path, info, full);
    else
        status = error_memory("the description", strlen(text));

done:
    json_decref(info);
    pm_free(text);
    free(path);
    return status;
}
