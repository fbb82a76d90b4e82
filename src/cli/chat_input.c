// Reading messages: libedit on a terminal, lines of a stream otherwise.
#include <errno.h>
#include <histedit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/os.h"
#include "cli/chat.h"

enum { HISTORY_LINES = 1000 };

struct chat_input {
    EditLine *edit; // NULL: not a terminal
    History *history;
    char *history_path;   // NULL: not kept
    bool more;            // the prompt is for a further line of a message
    const char *question; // the prompt instead; NULL: none
    bool plain;           // NO_COLOR: no prompt
    bool pastes;          // the terminal marks what is pasted
    bool interrupted;
    bool zero;  // a line of the message held a zero byte
    char *line; // getline's
    size_t line_cap;
};

// ---- the terminal -----------------------------------------------------------------------------

static const char *prompt(EditLine *edit)
{
    chat_input *in = NULL;
    el_get(edit, EL_CLIENTDATA, &in);
    if (in->question) return in->question;
    if (in->plain) return "";
    return in->more ? ". " : "> ";
}

// ---- pasting: the terminal says where a pasted text begins and ends, so that its lines are one
// message. In the line that is edited, signs stand for its line breaks and tabs.

#define SIGN_BREAK "\xe2\x90\xa4" // U+2424
#define SIGN_TAB   "\xe2\x90\x89" // U+2409

static void paste_mode(bool on)
{
    static const char off[] = "\033[?2004l";
    if (on) os_terminal_undo(2, off);
    fputs(on ? "\033[?2004h" : off, stderr);
    fflush(stderr);
    if (!on) os_terminal_undo(2, NULL);
}

// The bytes up to the end mark; false: interrupted or at the end of the input.
static bool read_pasted(buf *text)
{
    static const char end[] = "\033[201~";
    enum { MOST = 1 << 24 };
    while (text->len < MOST && !text->failed) {
        int byte = os_read_byte(0);
        if (byte == OS_READ_SIGNAL && os_interrupts() == 0) continue;
        if (byte < 0) return false;
        buf_char(text, (char)byte);
        size_t n = sizeof end - 1;
        if (text->len < n || memcmp(text->data + text->len - n, end, n) != 0) continue;
        text->len -= n;
        return true;
    }
    return false;
}

static void add_pasted(buf *line, const char *text, size_t n)
{
    mbstate_t state = {0};
    for (size_t i = 0; i < n;) {
        wchar_t c;
        size_t length = mbrtowc(&c, text + i, n - i, &state);
        bool valid = length != (size_t)-1 && length != (size_t)-2 && length > 0;
        if (!valid) memset(&state, 0, sizeof state);
        unsigned char byte = (unsigned char)text[i];
        if (byte == '\n' || (byte == '\r' && (i + 1 == n || text[i + 1] != '\n')))
            buf_str(line, SIGN_BREAK);
        else if (byte == '\t')
            buf_str(line, SIGN_TAB);
        else if (valid && byte >= ' ' && byte != 0x7f)
            buf_add(line, text + i, length);
        i += valid ? length : 1;
    }
}

static unsigned char paste(EditLine *edit, int key)
{
    buf text = {0}, line = {0};
    (void)key;
    bool whole = read_pasted(&text);
    if (text.len) add_pasted(&line, text.data, text.len);
    if (line.len && !line.failed) el_insertstr(edit, line.data);
    buf_free(&text);
    buf_free(&line);
    return whole ? CC_REFRESH : CC_ERROR;
}

// Line breaks and tabs in place of their signs.
static void take_signs_out(char *line)
{
    char *to = line;
    for (const char *at = line; *at; to++) {
        bool is_break = !strncmp(at, SIGN_BREAK, 3), is_tab = !strncmp(at, SIGN_TAB, 3);
        *to = is_break ? '\n' : is_tab ? '\t' : *at;
        at += is_break || is_tab ? 3 : 1;
    }
    *to = 0;
}

// After the window has another width: terminals wrap their lines anew, so the edited one begins as
// many rows above the cursor as it takes now. It is drawn again from there.
static void redraw(EditLine *edit)
{
    const LineInfo *line = el_line(edit);
    size_t n = strlen(prompt(edit)), width = (size_t)os_terminal_width();
    for (const char *at = line->buffer; at < line->cursor; at++) n += (*at & 0xc0) != 0x80;
    fputc('\r', stderr);
    if (width > 0 && n / width > 0) fprintf(stderr, "\033[%zuA", n / width);
    fputs("\033[J", stderr);
    fflush(stderr);
    el_resize(edit);
    el_set(edit, EL_REFRESH);
}

// One character from the keyboard. libedit's own reader swallows the first interrupt.
static int read_character(EditLine *edit, wchar_t *out)
{
    chat_input *in = NULL;
    el_get(edit, EL_CLIENTDATA, &in);
    mbstate_t state = {0};
    for (int n = 0; n < 8; n++) {
        int byte = os_read_byte(0);
        while (byte == OS_READ_SIGNAL && os_interrupts() == 0) {
            if (os_resized()) redraw(edit);
            if (os_continued()) { // after Ctrl-Z: the shell gave us back a terminal of its own mode
                el_set(edit, EL_PREP_TERM, 1);
                paste_mode(true);
                el_set(edit, EL_REFRESH);
            }
            byte = os_read_byte(0);
        }
        if (byte == OS_READ_END) return 0;
        if (byte == OS_READ_SIGNAL) {
            in->interrupted = true;
            errno = EINTR;
            return -1;
        }
        char c = (char)byte;
        size_t got = mbrtowc(out, &c, 1, &state);
        if (got == (size_t)-1) { // not a character of this terminal's encoding
            *out = L'?';
            return 1;
        }
        if (got != (size_t)-2) return 1;
    }
    *out = L'?';
    return 1;
}

// $XDG_STATE_HOME/pumice/history: what was typed is neither data nor cache.
static char *history_file(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    buf folder = {0}, path = {0};
    char *text = NULL;
    if (state && *state)
        buf_printf(&folder, "%s/pumice", state);
    else if (home && *home)
        buf_printf(&folder, "%s/.local/state/pumice", home);
    if (folder.len && !folder.failed && os_make_directory(folder.data) == PM_OK) {
        buf_printf(&path, "%s/history", folder.data);
        if (buf_take(&path, &text, NULL) != PM_OK) text = NULL;
    }
    buf_free(&folder);
    return text;
}

static pm_status open_editor(chat_input *in)
{
    HistEvent event;
    os_terminal_keep();
    // Echo and prompt go where remarks go: stdout holds answers and nothing else.
    in->edit = el_init("pumice", stdin, stderr, stderr);
    in->history = history_init();
    if (!in->edit || !in->history) return error_memory("the line editor", 0);
    el_set(in->edit, EL_CLIENTDATA, in);
    el_set(in->edit, EL_PROMPT, prompt);
    el_set(in->edit, EL_EDITOR, "emacs");
    el_set(in->edit, EL_GETCFN, read_character);
    el_set(in->edit, EL_HIST, history, in->history);
    el_set(in->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    in->pastes = MB_CUR_MAX > 1;
    if (in->pastes) {
        el_set(in->edit, EL_ADDFN, "pumice-paste", "inserts a pasted text", paste);
        el_set(in->edit, EL_BIND, "\\e[200~", "pumice-paste", NULL);
    }
    el_source(in->edit, NULL); // the user's ~/.editrc
    history(in->history, &event, H_SETSIZE, HISTORY_LINES);
    history(in->history, &event, H_SETUNIQUE, 1);
    in->history_path = history_file();
    if (in->history_path) history(in->history, &event, H_LOAD, in->history_path);
    return PM_OK;
}

pm_status chat_input_open(chat_input **out)
{
    chat_input *in = calloc(1, sizeof *in);
    if (!in) return error_memory("the input", sizeof *in);
    pm_status status = PM_OK;
    const char *no_color = getenv("NO_COLOR");
    in->plain = no_color && *no_color;
    if (os_is_terminal(0) && os_is_terminal(2)) status = open_editor(in);
    if (status != PM_OK) {
        chat_input_close(in);
        return status;
    }
    *out = in;
    return PM_OK;
}

void chat_input_close(chat_input *in)
{
    if (!in) return;
    HistEvent event;
    if (in->history_path) history(in->history, &event, H_SAVE, in->history_path);
    if (in->history) history_end(in->history);
    if (in->edit) el_end(in->edit);
    free(in->history_path);
    free(in->line);
    free(in);
}

bool chat_input_edits(const chat_input *in)
{
    return in->edit != NULL;
}

// ---- lines and messages -----------------------------------------------------------------------

// One line without its break; valid until the next call. NULL: none, *why says the reason.
static const char *read_line(chat_input *in, bool more, chat_read *why)
{
    in->more = more;
    in->interrupted = false;
    if (!in->edit) {
        errno = 0;
        ssize_t n = getline(&in->line, &in->line_cap, stdin);
        *why = errno == EINTR ? CHAT_INTERRUPTED : CHAT_END;
        if (n < 0) return NULL;
        if (n > 0 && in->line[n - 1] == '\n') in->line[--n] = 0;
        if (n > 0 && in->line[n - 1] == '\r') in->line[--n] = 0;
        for (char *at = in->line; (at = memchr(at, 0, (size_t)(in->line + n - at))); *at = ' ')
            in->zero = true;
        return in->line;
    }
    int n = 0;
    os_interrupts_clear();
    if (in->pastes) paste_mode(true);
    const char *line = el_gets(in->edit, &n);
    if (in->pastes) paste_mode(false);
    if (!line || n <= 0) {
        *why = in->interrupted ? CHAT_INTERRUPTED : CHAT_END;
        if (!in->plain) fputc('\n', stderr);
        el_reset(in->edit);
        return NULL;
    }
    HistEvent event;
    size_t length = strcspn(line, "\n");
    if (length && !in->question) history(in->history, &event, H_ENTER, line);
    char *copy = realloc(in->line, length + 1);
    *why = CHAT_FAILED;
    if (!copy) return NULL;
    memcpy(copy, line, length);
    copy[length] = 0;
    take_signs_out(copy);
    return in->line = copy;
}

static const char fence[] = "\"\"\"";

// What follows the opening fence, up to the closing one.
static chat_read read_fenced(chat_input *in, const char *rest, buf *message)
{
    chat_read why = CHAT_MESSAGE;
    bool first = true;
    for (const char *line = rest; line; line = read_line(in, true, &why)) {
        const char *end = strstr(line, fence);
        // A line break behind the opening fence is not part of the text.
        if (!first && message->len)
            buf_char(message, '\n');
        else if (!first && message->failed)
            return CHAT_FAILED;
        buf_add(message, line, end ? (size_t)(end - line) : strlen(line));
        first = false;
        if (end) return CHAT_MESSAGE;
    }
    return why == CHAT_END && message->len ? CHAT_MESSAGE : why;
}

static chat_read read_continued(chat_input *in, const char *line, buf *message)
{
    chat_read why = CHAT_MESSAGE;
    while (line) {
        size_t n = strlen(line);
        bool more = n > 0 && line[n - 1] == '\\';
        buf_add(message, line, more ? n - 1 : n);
        if (!more) return CHAT_MESSAGE;
        buf_char(message, '\n');
        line = read_line(in, true, &why);
    }
    return why == CHAT_END ? CHAT_MESSAGE : why;
}

chat_read chat_input_read(chat_input *in, char **text)
{
    chat_read why = CHAT_MESSAGE;
    in->zero = false;
    const char *line = read_line(in, false, &why);
    if (!line) return why;
    buf message = {0};
    buf_str(&message, "");
    if (!strncmp(line, fence, sizeof fence - 1)) {
        char *rest = strdup(line + sizeof fence - 1); // the next line overwrites this one
        why = rest ? read_fenced(in, rest, &message) : CHAT_FAILED;
        free(rest);
    } else {
        why = read_continued(in, line, &message);
    }
    if (why == CHAT_MESSAGE && in->zero)
        why = CHAT_ZERO;
    else if (why == CHAT_MESSAGE && buf_take(&message, text, NULL) != PM_OK)
        why = CHAT_FAILED;
    buf_free(&message);
    return why;
}

bool chat_input_confirm(chat_input *in, const char *question)
{
    chat_read why;
    in->question = question;
    const char *line = read_line(in, false, &why);
    in->question = NULL;
    return line && (line[0] == 'y' || line[0] == 'Y');
}
