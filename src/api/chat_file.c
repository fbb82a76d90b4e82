// Conversations in files: the messages with the cache that belongs to them.
//
// A file is one line of JSON with the sizes of what follows, a JSON document, the cache
// (engine/session.h), and a checksum of everything before it in 16 hexadecimal digits with a line
// break. What version 1 saved was the document alone.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/chat.h"
#include "base/hash.h"
#include "base/os.h"

#define VERSION_KEY "pumice_chat"

enum { VERSION = 2, MAX_LINE = 256, MAX_TEXT = 1 << 28, CHECK_BYTES = 17, SAMPLE_BYTES = 64 };

// ---- which model ------------------------------------------------------------------------------

// The header's hash, and a sample of each tensor: files of the same shape differ there.
static pm_status model_hash(const model *m, char out[96])
{
    hash64 h;
    hash64_start(&h);
    for (size_t i = 0; i < gguf_n_tensors(m->file); i++) {
        const gguf_tensor *t = gguf_tensor_at(m->file, i);
        unsigned char sample[SAMPLE_BYTES];
        uint64_t n = t->bytes < SAMPLE_BYTES ? t->bytes : SAMPLE_BYTES;
        pm_status status = gguf_read(m->file, t, (t->bytes - n) / 2, sample, n);
        if (status != PM_OK) return status;
        hash64_add(&h, sample, (size_t)n);
    }
    snprintf(out, 96, "%s-%016" PRIx64, gguf_header_sha256(m->file), hash64_end(&h));
    return PM_OK;
}

// ---- saving -----------------------------------------------------------------------------------

typedef struct output {
    os_writer *w;
    hash64 hash;
} output;

static pm_status put(void *arg, const void *data, uint64_t n)
{
    output *o = arg;
    hash64_add(&o->hash, data, (size_t)n);
    return os_writer_write(o->w, data, n);
}

static pm_status document_of(const pm_chat *chat, const char *extra, uint32_t n_cached, char **text)
{
    session *s = chat->session->s;
    char hash[96];
    buf kind = {0};
    pm_status status = model_hash(chat->session->model->m, hash);
    session_cache_kind(s, &kind);
    json_error_t where;
    json_t *more = extra ? json_loads(extra, JSON_DECODE_ANY | JSON_ALLOW_NUL, &where) : NULL;
    if (status == PM_OK && extra && !more) {
        status = error_set(PM_ERROR_USAGE, "what is to be saved is no JSON: %s", where.text);
    }
    json_t *all = NULL;
    if (status == PM_OK && !kind.failed) {
        all = json_pack("{s:i, s:s, s:s, s:O, s:{s:I, s:s}, s:O*}", VERSION_KEY, VERSION,
                        "architecture", chat->session->model->m->arch->name, "model", hash,
                        "messages", conversation_messages(chat->c), "cache", "tokens",
                        (json_int_t)n_cached, "kind", kind.data, "extra", more);
    }
    // Of another context another part would be left out.
    if (all && chat->n_turns_out > 0)
        json_object_set_new(all, "left_out",
                            json_pack("{s:I, s:I}", "turns", (json_int_t)chat->n_turns_out, "ctx",
                                      (json_int_t)session_n_ctx(s)));
    *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    if (status == PM_OK && !*text) status = error_memory("a conversation", 0);
    json_decref(all);
    json_decref(more);
    buf_free(&kind);
    return status;
}

static pm_status write_all(const pm_chat *chat, output *o, const char *text, uint32_t n_cached)
{
    session *s = chat->session->s;
    char line[MAX_LINE], check[CHECK_BYTES + 1];
    int n =
        snprintf(line, sizeof line,
                 "{\"" VERSION_KEY "\": %d, \"text_bytes\": %zu, \"cache_bytes\": %" PRIu64 "}\n",
                 VERSION, strlen(text) + 1, session_cache_bytes(s, n_cached));
    pm_status status = put(o, line, (uint64_t)n);
    if (status == PM_OK) status = put(o, text, strlen(text));
    if (status == PM_OK) status = put(o, "\n", 1);
    if (status == PM_OK && n_cached) status = session_cache_save(s, put, o);
    if (status != PM_OK) return status;
    snprintf(check, sizeof check, "%016" PRIx64 "\n", hash64_end(&o->hash));
    return os_writer_write(o->w, check, CHECK_BYTES);
}

pm_status pm_chat_save(const pm_chat *chat, const char *path, int with_cache, const char *extra)
{
    uint32_t n_cached = with_cache ? session_n_past(chat->session->s) : 0;
    output o = {0};
    char *text = NULL;
    hash64_start(&o.hash);
    pm_status status = document_of(chat, extra, n_cached, &text);
    if (status == PM_OK) status = os_writer_open(path, &o.w);
    if (status == PM_OK) {
        status = write_all(chat, &o, text, n_cached);
        if (status == PM_OK) {
            status = os_writer_commit(o.w);
        } else {
            os_writer_abort(o.w);
        }
    }
    free(text);
    return status;
}

// ---- reading: the file is checked to its last byte before anything changes --------------------

typedef struct saved {
    const char *path;
    os_file *file;
    uint64_t text_at, text_bytes, cache_at, cache_bytes, at; // at: read so far
    json_t *document;
} saved;

static pm_status broken(const saved *f, const char *what)
{
    return error_set(PM_ERROR_FILE, "%s: %s (not a conversation saved with /save, or damaged)",
                     f->path, what);
}

static pm_status parse_document(saved *f, const char *text, size_t n)
{
    json_error_t where;
    f->document = json_loadb(text, n, JSON_ALLOW_NUL, &where);
    if (f->document) return PM_OK;
    return error_set(PM_ERROR_FILE,
                     "%s: line %d: %s (not a conversation saved with /save, or damaged)", f->path,
                     where.line, where.text);
}

static pm_status read_whole(saved *f)
{
    uint64_t n = os_file_size(f->file);
    if (n > MAX_TEXT) return broken(f, "is too large");
    char *text = malloc((size_t)n + 1);
    if (!text) return error_memory("a conversation", n);
    pm_status status = os_file_read(f->file, 0, text, n);
    if (status == PM_OK) status = parse_document(f, text, (size_t)n);
    free(text);
    return status;
}

static pm_status verify(saved *f)
{
    enum { PIECE = 1 << 16 };
    hash64 h;
    hash64_start(&h);
    char *piece = malloc(PIECE), check[CHECK_BYTES + 1] = "", wanted[CHECK_BYTES + 1];
    if (!piece) return error_memory("a conversation", PIECE);
    uint64_t end = f->cache_at + f->cache_bytes;
    pm_status status = PM_OK;
    for (uint64_t at = 0; at < end && status == PM_OK;) {
        uint64_t n = end - at < PIECE ? end - at : PIECE;
        status = os_file_read(f->file, at, piece, n);
        if (status == PM_OK) hash64_add(&h, piece, (size_t)n);
        at += n;
    }
    free(piece);
    if (status == PM_OK) status = os_file_read(f->file, end, check, CHECK_BYTES);
    if (status != PM_OK) return status;
    snprintf(wanted, sizeof wanted, "%016" PRIx64 "\n", hash64_end(&h));
    return strcmp(check, wanted) ? broken(f, "its checksum is wrong") : PM_OK;
}

// The first line's sizes must make up the file.
static pm_status read_line(saved *f)
{
    char line[MAX_LINE + 1];
    uint64_t size = os_file_size(f->file), n = size < MAX_LINE ? size : MAX_LINE;
    pm_status status = os_file_read(f->file, 0, line, n);
    if (status != PM_OK) return status;
    line[n] = 0;
    char *end = memchr(line, '\n', (size_t)n);
    json_t *sizes = end ? json_loadb(line, (size_t)(end - line), 0, NULL) : NULL;
    const json_t *text = json_object_get(sizes, "text_bytes");
    const json_t *cache = json_object_get(sizes, "cache_bytes");
    if (!json_is_integer(text) || !json_is_integer(cache)) { // version 1, or something else
        json_decref(sizes);
        return read_whole(f);
    }
    f->text_at = (uint64_t)(end - line) + 1;
    f->text_bytes = (uint64_t)json_integer_value(text);
    f->cache_bytes = (uint64_t)json_integer_value(cache);
    json_int_t version = json_integer_value(json_object_get(sizes, VERSION_KEY));
    json_decref(sizes);
    if (version != VERSION) {
        return error_set(PM_ERROR_FILE,
                         "%s: '" VERSION_KEY "' is %" JSON_INTEGER_FORMAT ", known is up to %d",
                         f->path, version, VERSION);
    }
    uint64_t rest = size - f->text_at;
    if (f->text_bytes > MAX_TEXT || f->text_bytes > rest || f->cache_bytes > rest - f->text_bytes ||
        rest - f->text_bytes - f->cache_bytes != CHECK_BYTES) {
        return broken(f, "has another length than it says");
    }
    f->cache_at = f->text_at + f->text_bytes;
    status = verify(f);
    if (status != PM_OK) return status;
    char *document = malloc((size_t)f->text_bytes + 1);
    if (!document) return error_memory("a conversation", f->text_bytes);
    status = os_file_read(f->file, f->text_at, document, f->text_bytes);
    if (status == PM_OK) status = parse_document(f, document, (size_t)f->text_bytes);
    free(document);
    return status;
}

// A message has a role, and a content unless it calls tools.
static bool is_message(const json_t *m)
{
    const json_t *content = json_object_get(m, "content");
    return json_is_string(json_object_get(m, "role")) &&
           (json_is_string(content) || json_is_array(content) ||
            json_is_array(json_object_get(m, "tool_calls")));
}

static pm_status check_document(const saved *f, const model *m)
{
    const json_t *version = json_object_get(f->document, VERSION_KEY);
    if (!json_is_integer(version)) return broken(f, "has no '" VERSION_KEY "'");
    json_int_t is = json_integer_value(version);
    if (is < 1 || is > VERSION || (is == 1) != (f->cache_at == 0)) {
        return error_set(PM_ERROR_FILE,
                         "%s: '" VERSION_KEY "' is %" JSON_INTEGER_FORMAT ", known is up to %d",
                         f->path, is, VERSION);
    }
    const json_t *messages = json_object_get(f->document, "messages");
    if (!json_is_array(messages)) return broken(f, "has no list 'messages'");
    for (size_t i = 0; i < json_array_size(messages); i++) {
        if (is_message(json_array_get(messages, i))) continue;
        return error_set(PM_ERROR_FILE, "%s: message %zu has no role or no content", f->path,
                         i + 1);
    }
    if (is == 1) return PM_OK;
    char hash[96];
    pm_status status = model_hash(m, hash);
    const char *its = json_string_value(json_object_get(f->document, "model"));
    if (status == PM_OK && (!its || strcmp(its, hash) != 0)) {
        const char *name = json_string_value(json_object_get(f->document, "architecture"));
        status = error_set(PM_ERROR_FILE,
                           "%s: was saved with another model (of the architecture '%.60s'; open "
                           "that one to go on with it)",
                           f->path, name ? name : "");
    }
    return status;
}

static pm_status give(void *arg, void *data, uint64_t n)
{
    saved *f = arg;
    pm_status status = os_file_read(f->file, f->cache_at + f->at, data, n);
    f->at += n;
    return status;
}

// The cache, where it can be used here; *remark says why not.
static pm_status load_cache(pm_chat *chat, saved *f, buf *remark)
{
    session *s = chat->session->s;
    const json_t *cache = json_object_get(f->document, "cache");
    const char *kind = json_string_value(json_object_get(cache, "kind"));
    json_int_t n = json_integer_value(json_object_get(cache, "tokens"));
    buf here = {0};
    session_cache_kind(s, &here);
    if (!cache || n == 0) {
        // nothing was in it
    } else if (!kind || here.failed || strcmp(kind, here.data) != 0) {
        buf_printf(remark, "%s: its cache is of other settings: the text is read again", f->path);
    } else if (n < 0 || (uint64_t)n > session_n_ctx(s)) {
        buf_printf(remark, "%s: its cache is larger than the context: the text is read again",
                   f->path);
    } else if (f->cache_bytes != session_cache_bytes(s, (uint32_t)n)) {
        buf_free(&here);
        return broken(f, "its cache has another size");
    } else {
        buf_free(&here);
        return session_cache_load(s, (uint32_t)n, give, f);
    }
    buf_free(&here);
    return PM_OK;
}

// The oldest turns that the prompt goes on without. A larger context may have room for them again.
static void leave_out(pm_chat *chat, const json_t *document)
{
    const json_t *left_out = json_object_get(document, "left_out");
    json_int_t turns = json_integer_value(json_object_get(left_out, "turns"));
    json_int_t n_ctx = json_integer_value(json_object_get(left_out, "ctx"));
    bool same = turns > 0 && n_ctx >= (json_int_t)session_n_ctx(chat->session->s);
    chat_leave_out(chat, same ? (size_t)turns : 0);
}

pm_status pm_chat_load(pm_chat *chat, const char *path, char **extra)
{
    saved f = {.path = path};
    buf remark = {0};
    char *more = NULL;
    pm_status status = os_file_open(path, false, &f.file);
    if (status == PM_OK) status = read_line(&f);
    if (status == PM_OK) status = check_document(&f, chat->session->model->m);
    const json_t *kept = json_object_get(f.document, "extra");
    if (status == PM_OK && extra && kept) status = json_take(json_deep_copy(kept), &more);
    if (status == PM_OK) status = load_cache(chat, &f, &remark);
    if (status == PM_OK) {
        conversation_replace(chat->c, json_incref(json_object_get(f.document, "messages")));
        leave_out(chat, f.document);
        if (extra) *extra = more;
        error_set(PM_OK, "%s", remark.data ? remark.data : "");
    } else {
        pm_free(more);
    }
    buf_free(&remark);
    json_decref(f.document);
    os_file_close(f.file);
    return status;
}
