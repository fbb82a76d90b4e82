// pumice tokenize: text to ids and back.
#include <stdlib.h>
#include <string.h>

#include "cli/base64.h"
#include "cli/cli.h"

const cli_option tokenize_options[] = {
    {"model", 'm', "MODEL", "the model, instead of the first word"},
    {"ids", 0, NULL, "only the ids, on one line"},
    {"decode", 0, "IDS", "the text of these ids (1,2,3), byte for byte"},
    {"special", 0, NULL, "control tokens named in TEXT are recognised, and shown by --decode"},
    {"bos", 0, NULL, "add what the file asks for at the ends"},
    {"json", 0, NULL, "ids and pieces as one JSON document"},
    {"jsonl", 0, "FILE", "answer each line of FILE (-: standard input)"},
    {0},
};

typedef struct tokenizer {
    const pm_model *model;
    int flags; // of pm_tokenize
    bool special;
} tokenizer;

// The ids of a text, released with free.
static pm_status encode(const tokenizer *t, const char *text, size_t n_text, int32_t **ids,
                        size_t *n)
{
    size_t cap = n_text + 8, count = 0; // enough but for vocabularies that split bytes
    pm_status status = PM_OK;
    *ids = NULL;
    for (int turn = 0; turn < 2 && status == PM_OK; turn++) {
        free(*ids);
        *ids = malloc(cap * sizeof **ids);
        if (!*ids) return error_memory("the token ids", cap * sizeof **ids);
        status = pm_tokenize(t->model, text, n_text, t->flags, *ids, cap, &count);
        if (status == PM_OK && count <= cap) break;
        cap = count;
    }
    if (status == PM_OK) {
        *n = count;
        return PM_OK;
    }
    free(*ids);
    *ids = NULL;
    return status;
}

static json_t *json_ids(const int32_t *ids, size_t n)
{
    json_t *list = json_array();
    for (size_t k = 0; k < n; k++) json_array_append_new(list, json_integer(ids[k]));
    return list;
}

// ---- many texts -------------------------------------------------------------------------------

static pm_status answer_text(const tokenizer *t, const char *text, size_t n, json_t **answer)
{
    int32_t *ids = NULL;
    size_t n_ids = 0;
    pm_status status = encode(t, text, n, &ids, &n_ids);
    if (status == PM_OK) *answer = json_pack("{s:o}", "ids", json_ids(ids, n_ids));
    free(ids);
    return status;
}

static pm_status answer_bytes(const tokenizer *t, const json_t *encoded, json_t **answer)
{
    buf bytes = {0};
    pm_status status;
    if (!base64_decode(json_string_value(encoded), json_string_length(encoded), &bytes))
        status = error_set(PM_ERROR_USAGE, "bytes_b64: is not base64");
    else if (bytes.failed)
        status = error_memory("the bytes", bytes.len);
    else
        status = answer_text(t, bytes.data ? bytes.data : "", bytes.len, answer);
    buf_free(&bytes);
    return status;
}

static pm_status answer_ids(const tokenizer *t, const json_t *list, json_t **answer)
{
    size_t n = json_array_size(list), n_text = 0, k;
    int32_t *ids = malloc((n + 1) * sizeof *ids);
    char *text = NULL;
    buf encoded = {0};
    const json_t *value;
    pm_status status = ids ? PM_OK : error_memory("the token ids", n * sizeof *ids);
    if (status == PM_OK) {
        json_array_foreach(list, k, value)
        {
            json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
            ids[k] = id < 0 || id > INT32_MAX ? -1 : (int32_t)id;
        }
        status = pm_detokenize(t->model, ids, n, t->special, &text, &n_text);
    }
    if (status == PM_OK) {
        buf_str(&encoded, "");
        base64_encode(text, n_text, &encoded);
        if (encoded.failed)
            status = error_memory("the bytes", n_text);
        else
            *answer = json_pack("{s:s#}", "bytes_b64", encoded.data ? encoded.data : "",
                                (int)encoded.len);
    }
    buf_free(&encoded);
    pm_free(text);
    free(ids);
    return status;
}

static pm_status answer_line(void *context, const char *line, size_t n)
{
    const tokenizer *t = context;
    json_error_t where;
    json_t *question = json_loadb(line, n, JSON_ALLOW_NUL, &where), *answer = NULL;
    const json_t *text = json_object_get(question, "text");
    const json_t *bytes = json_object_get(question, "bytes_b64");
    const json_t *ids = json_object_get(question, "ids");
    pm_status status;
    if (!question)
        status = error_set(PM_ERROR_USAGE, "not JSON: %s", where.text);
    else if (json_is_string(text))
        status = answer_text(t, json_string_value(text), json_string_length(text), &answer);
    else if (json_is_string(bytes))
        status = answer_bytes(t, bytes, &answer);
    else if (json_is_array(ids))
        status = answer_ids(t, ids, &answer);
    else
        status = error_set(PM_ERROR_USAGE, "none of text, bytes_b64 and ids is there");
    if (status != PM_OK) {
        const char *message = pm_last_error();
        answer = json_pack("{s:o}", "error", json_of_bytes(message, strlen(message)));
    }
    out_json(answer, JSON_COMPACT);
    json_decref(answer);
    json_decref(question);
    return PM_OK;
}

// ---- one text ---------------------------------------------------------------------------------

static void print_ids(const int32_t *ids, size_t n)
{
    for (size_t k = 0; k < n; k++) out_print(k ? " %d" : "%d", (int)ids[k]);
    out_text("\n");
}

// A piece as JSON text: line breaks and bytes that are no character don't disturb the table.
static json_t *piece_of(const pm_model *model, int32_t id)
{
    size_t n = 0;
    const char *piece = pm_token_piece(model, id, 1, &n);
    return json_of_bytes(piece, piece ? n : 0);
}

static void print_table(const pm_model *model, const int32_t *ids, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        json_t *piece = piece_of(model, ids[k]);
        out_print("%8d  ", (int)ids[k]);
        out_json(piece, JSON_ENCODE_ANY);
        json_decref(piece);
    }
}

static void print_json(const pm_model *model, const int32_t *ids, size_t n)
{
    json_t *pieces = json_array();
    for (size_t k = 0; k < n; k++) json_array_append_new(pieces, piece_of(model, ids[k]));
    json_t *all = json_pack("{s:o, s:o}", "ids", json_ids(ids, n), "pieces", pieces);
    out_json(all, 0);
    json_decref(all);
}

static pm_status decode(const tokenizer *t, const char *list, bool json)
{
    int32_t *ids = NULL;
    char *text = NULL;
    size_t n = 0, n_text = 0;
    pm_status status = error_in(parse_ids(list, &ids, &n), "--decode");
    if (status == PM_OK) status = pm_detokenize(t->model, ids, n, t->special, &text, &n_text);
    if (status == PM_OK && json) {
        json_t *all =
            json_pack("{s:o, s:o}", "ids", json_ids(ids, n), "text", json_of_bytes(text, n_text));
        out_json(all, 0);
        json_decref(all);
    } else if (status == PM_OK) {
        out_bytes(text, n_text);
    }
    pm_free(text);
    free(ids);
    return status;
}

static pm_status encode_one(const cli_args *args, const tokenizer *t, const char *text, size_t n)
{
    int32_t *ids = NULL;
    size_t n_ids = 0;
    pm_status status = encode(t, text, n, &ids, &n_ids);
    if (status == PM_OK) {
        if (args_has(args, "json"))
            print_json(t->model, ids, n_ids);
        else if (args_has(args, "ids"))
            print_ids(ids, n_ids);
        else
            print_table(t->model, ids, n_ids);
    }
    free(ids);
    return status;
}

pm_status run_tokenize(cli_args *args)
{
    const char *list = args_get(args, "decode"), *lines = args_get(args, "jsonl");
    int at = args_get(args, "model") ? 0 : 1; // where TEXT stands
    const char *text = args->n_words > at ? args->words[at] : NULL;
    if (args->n_words > at + 1)
        return error_set(PM_ERROR_USAGE, "'%s': one word too many (the model is named by --model)",
                         args->words[at + 1]);
    if ((text != NULL) + (list != NULL) + (lines != NULL) > 1)
        return error_set(PM_ERROR_USAGE, "TEXT, --decode and --jsonl: only one at a time");

    loaded l = {0};
    char *input = NULL;
    size_t n = text ? strlen(text) : 0;
    pm_status status = PM_OK;
    if (!text && !list && !lines) status = read_input("-", &input, &n);
    if (status == PM_OK)
        status = loaded_vocabulary(args, args->n_words && at ? args->words[0] : NULL, &l);
    if (status == PM_OK) {
        tokenizer t = {.model = l.model, .special = args_has(args, "special")};
        t.flags = (t.special ? PM_TOKENS_SPECIAL : 0) | (args_has(args, "bos") ? PM_TOKENS_BOS : 0);
        if (lines)
            status = each_line(lines, answer_line, &t);
        else if (list)
            status = decode(&t, list, args_has(args, "json"));
        else
            status = encode_one(args, &t, text ? text : input, n);
    }
    loaded_free(&l);
    free(input);
    return status;
}
