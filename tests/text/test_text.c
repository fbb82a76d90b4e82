// The tokenizer on vocabularies that are small enough to see what must come out.
#include "text/small.h"

#include <time.h>
#include <utf8proc.h>

#include "text/pretokenize.h"

// Ids: bytes 0 to 255, then as listed.
enum { IM_START = 256, IM_END, THINK, AB, BC, ABC, AA, VULKAN, OVER_1, OVER_2, LONG };
static void open_byte_level(small *s, const char *pre)
{
    static const char *const more[] = {"<|im_start|>", "<|im_end|>", "<think>", "ab",
                                       "bc",           "abc",        "aa",      "vulkan",
                                       "[x|",          "|y]",        "|y]zzz"};
    static const int32_t types[] = {3, 3, 4, 1, 1, 1, 1, 1, 3, 3, 3};
    static const char *const merges[] = {"b c", "a b", "a a", "ab c", "a b"};
    add_byte_level(&s->bytes, pre, more, types, COUNT(more));
    add_strings(&s->bytes, "tokenizer.ggml.merges", merges, COUNT(merges));
    add_u32(&s->bytes, "tokenizer.ggml.bos_token_id", IM_START);
    add_u32(&s->bytes, "tokenizer.ggml.eos_token_id", IM_END);
    open_small(s);
}

static void utf8_functions(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n, whole;
        bool valid;
    } cases[] = {
        {"", 0, 0, true},
        {"abc", 3, 3, true},
        {"\xc3\xa9", 2, 2, true},
        {"a\xc3", 2, 1, false}, // held back: may become a character
        {"\xe2\x82", 2, 0, false},
        {"\xf0\x9f\x98", 3, 0, false},
        {"\xf0\x9f\x98\x80", 4, 4, true},
        {"a\x80", 2, 2, false}, // can't become one: shown
        {"\x80\x80\x80", 3, 3, false},
        {"\xc0", 1, 1, false}, // overlong
        {"\xe0\x80", 2, 2, false},
        {"\xed\xa0", 2, 2, false}, // a surrogate
        {"\xed\x9f", 2, 0, false},
        {"\xf4\x90", 2, 2, false}, // above U+10FFFF
        {"\xf5", 1, 1, false},
        {"\xf0\x9f\x98\x80\xf0", 5, 4, false},
        {"\xf4\x8f\xbf\xbf\xef\xbf\xbf", 7, 7, true},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(text_utf8_whole(cases[i].text, cases[i].n), cases[i].whole);
        assert_int_equal(text_utf8_valid(cases[i].text, cases[i].n), cases[i].valid);
    }
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c >= 0xd800 && c < 0xe000) continue;
        char text[4];
        uint8_t theirs[4];
        size_t n = text_utf8_put(c, text), length;
        assert_int_equal(n, utf8proc_encode_char((utf8proc_int32_t)c, theirs));
        assert_memory_equal(text, theirs, n);
        assert_int_equal(text_utf8_next(text, n, &length), c);
        assert_int_equal(length, n);
    }
    size_t length;
    assert_int_equal(text_utf8_next("\xed\xa0\x80", 3, &length), 0xfffd);
    assert_int_equal(length, 1);
}

static void merges_by_rank_then_leftmost(void **state)
{
    (void)state;
    small s = {0};
    open_byte_level(&s, "gpt-2");
    ENCODES(s.v, "abc", false, 'a', BC); // "b c" is the better merge, and nothing makes "a bc"
    ENCODES(s.v, "abab", false, AB, AB);
    ENCODES(s.v, "aaa", false, AA, 'a'); // leftmost first
    ENCODES(s.v, "aaab", false, AA, AB);
    ENCODES(s.v, "vulkan", false, 'v', 'u', 'l', 'k', 'a', 'n');
    close_small(&s);
    s = (small){0};
    open_byte_level(&s, "llama-bpe");
    ENCODES(s.v, "abc", false, ABC); // the whole word is a token
    ENCODES(s.v, "vulkan", false, VULKAN);
    ENCODES(s.v, "vulkans", false, 'v', 'u', 'l', 'k', 'a', 'n', 's');
    assert_true(text_special_ids(s.v)->add_bos);
    close_small(&s);
}

static void special_tokens_longest_first(void **state)
{
    (void)state;
    small s = {0};
    open_byte_level(&s, "gpt-2");
    ENCODES(s.v, "<|im_start|>a<think>", true, IM_START, 'a', THINK);
    ENCODES(s.v, "<|im_end|><think>", false, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>',
            THINK);
    // Not leftmost: the longer one farther right goes first, and cuts the other off.
    ENCODES(s.v, "[x|y]zzz", true, '[', 'x', LONG);
    ENCODES(s.v, "[x|y]", true, OVER_1, 'y', ']'); // equally long: the lower id
    ENCODES(s.v, "|y]zz", true, OVER_2, 'z', 'z');
    ENCODES(s.v, "[x|y]zz|y]zzz", true, OVER_1, 'y', ']', 'z', 'z', LONG);
    close_small(&s);
}

static void spans_keep_control_tokens_out_of_user_text(void **state)
{
    (void)state;
    small s = {0};
    open_byte_level(&s, "gpt-2");
    const struct {
        text_span spans[4];
        size_t n;
        int32_t ids[24];
        size_t n_ids;
    } cases[] = {
        {{{"<|im_start|>", 12, true}, {"ab", 2, false}, {"<|im_end|>", 10, true}},
         3,
         {IM_START, AB, IM_END},
         3},
        {{{"<|im_end|>", 10, false}}, 1, {'<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>'}, 10},
        // across a border, in either order, and with a user-defined token
        {{{"<|im_", 5, true}, {"end|>", 5, false}},
         2,
         {'<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>'},
         10},
        {{{"<|im_", 5, false}, {"end|>", 5, true}},
         2,
         {'<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>'},
         10},
        {{{"<think>", 7, false}}, 1, {THINK}, 1},
        {{{"<thi", 4, false}, {"nk>", 3, true}}, 2, {'<', 't', 'h', 'i', 'n', 'k', '>'}, 7},
        // neighbours merge; a character may be cut by a border
        {{{"a", 1, true}, {"", 0, false}, {"b", 1, false}}, 3, {AB}, 1},
        {{{"\xc3", 1, true}, {"\xa9", 1, false}}, 2, {0xc3, 0xa9}, 2},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        text_ids found = {0};
        assert_ok(text_encode_spans(s.v, cases[i].spans, cases[i].n, &found));
        expect(&found, cases[i].ids, cases[i].n_ids, (int)i);
        text_ids_free(&found);
    }
    text_ids none = {0};
    assert_ok(text_encode_spans(s.v, NULL, 0, &none));
    assert_int_equal(none.n, 0);
    close_small(&s);
}

// However a text is cut into spans that a user wrote, no control token comes out; and whatever the
// marks, the bytes stay the same.
static void no_cut_makes_a_control_token(void **state)
{
    (void)state;
    small s = {0};
    open_byte_level(&s, "llama-bpe");
    static const char text[] = "a<|im_start|>b<|im_end|><|im_<think>|im_end|>[x|y]zzz";
    size_t n = sizeof text - 1;
    for (size_t cut = 0; cut <= n; cut++) {
        text_span spans[2] = {{text, cut, false}, {text + cut, n - cut, false}};
        text_ids found = {0};
        assert_ok(text_encode_spans(s.v, spans, 2, &found));
        for (size_t i = 0; i < found.n; i++)
            assert_int_not_equal(text_type(s.v, found.ids[i]), TEXT_CONTROL);
        size_t n_back;
        char *back = decode(s.v, found.ids, found.n, false, &n_back);
        assert_int_equal(n_back, n);
        assert_memory_equal(back, text, n);
        free(back);
        text_ids_free(&found);
    }
    close_small(&s);
}

// ---- SentencePiece ----------------------------------------------------------------------------

#define MARK "\xe2\x96\x81"
enum {
    UNK,
    BOS,
    EOS,
    BYTE_0,
    SP = 259,
    LETTER_H,
    LETTER_I,
    HI,
    SP_HI,
    TWO_SP,
    LETTER_A,
    TAG,
    TAG_S
};

// `flag`: 0 or 1 for add_space_prefix, -1 for none in the file.
static void open_spm(small *s, int flag)
{
    static const char *const more[] = {MARK, "h", "i", "hi", MARK "hi", "  ", "a", "</", "s>"};
    static const float scores[] = {-5, -6, -7, -2, -1, 0, -8, -3, -4};
    enum { N_MORE = COUNT(more), N = SP + N_MORE };
    gguf_bytes *b = &s->bytes;
    add_string(b, "tokenizer.ggml.model", "llama");
    add_array(b, "tokenizer.ggml.tokens", GGUF_STRING, N);
    add_text(&b->values, "<unk>", 5);
    add_text(&b->values, "<s>", 3);
    add_text(&b->values, "</s>", 4);
    for (unsigned i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        add_text(&b->values, name, 6);
    }
    for (size_t i = 0; i < N_MORE; i++) add_text(&b->values, more[i], strlen(more[i]));
    int32_t types[N];
    float all[N] = {0};
    for (int i = 0; i < N; i++)
        types[i] = i == UNK ? 2 : i < BYTE_0 ? 3 : i < SP ? 6 : i == TWO_SP ? 4 : 1;
    for (size_t i = 0; i < N_MORE; i++) all[SP + i] = scores[i];
    add_i32s(b, "tokenizer.ggml.token_type", types, N);
    add_f32s(b, "tokenizer.ggml.scores", all, N);
    if (flag >= 0) add_bool(b, "tokenizer.ggml.add_space_prefix", flag);
    open_small(s);
}

// The prefix is there or not as the file says; before the first text and before one that follows a
// special token, as the models' own tokenizers do.
static void r38_space_prefix(void **state)
{
    (void)state;
    for (int flag = -1; flag <= 1; flag++) {
        small s = {0};
        open_spm(&s, flag);
        assert_int_equal(text_has_space_prefix(s.v), flag != 0);
        assert_true(text_special_ids(s.v)->add_bos);
        assert_int_equal(text_special_ids(s.v)->eos, EOS);
        assert_string_equal(text_pre_name(s.v), "");
        if (flag) {
            ENCODES(s.v, "hi", false, SP_HI);
            ENCODES(s.v, " hi", false, SP, SP_HI);
            ENCODES(s.v, "a hi", false, SP, LETTER_A, SP_HI);
            ENCODES(s.v, "<s>hi</s>a", true, BOS, SP_HI, EOS, SP, LETTER_A);
            ENCODES(s.v, "<s><s>", true, BOS, BOS);
        } else {
            ENCODES(s.v, "hi", false, HI);
            ENCODES(s.v, " hi", false, SP_HI);
            ENCODES(s.v, "a hi", false, LETTER_A, SP_HI);
            ENCODES(s.v, "<s>hi</s>a", true, BOS, HI, EOS, LETTER_A);
            // user-defined: with spaces, and as SentencePiece itself would see them
            ENCODES(s.v, "a  hi", false, LETTER_A, TWO_SP, HI);
            ENCODES(s.v, MARK MARK, false, TWO_SP);
            // bytes where there is no token
            ENCODES(s.v, "\xc3\xa9", false, BYTE_0 + 0xc3, BYTE_0 + 0xa9);
            // merging would lead to </s>, a control token
            ENCODES(s.v, "</s>", false, TAG, TAG_S);
        }
        gguf_string piece = text_piece(s.v, SP_HI, false);
        assert_int_equal(piece.len, 3);
        assert_memory_equal(piece.data, " hi", 3);
        assert_int_equal(text_piece(s.v, BYTE_0 + 0x0a, false).data[0], '\n');
        assert_int_equal(text_piece(s.v, BOS, false).len, 0);
        assert_int_equal(text_piece(s.v, BOS, true).len, 3);
        assert_int_equal(text_piece(s.v, -1, true).len, 0);
        assert_int_equal(text_piece(s.v, 1 << 30, true).len, 0);
        close_small(&s);
    }
}

// ---- normal form C ----------------------------------------------------------------------------

static void nfc_equals_utf8proc(void **state)
{
    (void)state;
    small s = {0};
    open_byte_level(&s, "qwen2");
    uint64_t random = 1;
    static const char *const parts[] = {
        "a",      "e",      "o",      "\u0301",     "\u0323", "\u0302", "\u0308", "\u0345",
        "\u0315", "\u212b", "\u1100", "\u1161",     "\u11a8", "\uac00", "\u0958", "\u2000",
        "\u00e9", "\u1ecd", " ",      "\U0001d15e", "\ufb01", "\u0f73", "\u0344"};
    for (int round = 0; round < 400; round++) {
        char text[512] = "";
        for (int k = 0; k < 12; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            strcat(text, parts[(random >> 33) % COUNT(parts)]);
        }
        uint8_t *theirs = utf8proc_NFC((const uint8_t *)text);
        assert_non_null(theirs);
        text_ids found = {0};
        assert_ok(text_encode(s.v, text, strlen(text), false, &found));
        size_t n;
        char *back = decode(s.v, found.ids, found.n, false, &n);
        assert_string_equal(back, (const char *)theirs);
        free(back);
        free(theirs);
        text_ids_free(&found);
    }
    close_small(&s);
}

// ---- long texts -------------------------------------------------------------------------------

// Texts that are one run: what looks ahead to the end of a run must not do so at each place in it.
static const char *const units[] = {"a",    "ab",     "A",       "aB",           " ",      "\n",
                                    " \n",  "\t",     "<",       "<|im_start|>", "<|im_",  "1",
                                    "\xff", "[x|y",   "\u0301",  "\u0301\u0323", "\u4e2d", "'s",
                                    "!",    "\u00e9", "Aa\u0301"};

static char *long_text(const char *unit, size_t n, size_t *length)
{
    size_t n_unit = strlen(unit);
    char *text = malloc(n + 1);
    assert_non_null(text);
    for (*length = 0; *length + n_unit <= n; *length += n_unit)
        memcpy(text + *length, unit, n_unit);
    text[(*length)++] = '7'; // what follows a run decides how it is cut
    return text;
}

// Quadratic time would take half a minute and more; what is asked for is far below a second.
static void soon(clock_t start, const char *unit, const char *with)
{
    double took = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (took > 8) fail_msg("%.20s... with %s took %.0f s", unit, with, took);
}

static void encodes_soon(const text_vocab *v, const char *unit)
{
    size_t n;
    char *text = long_text(unit, 200000, &n);
    clock_t start = clock();
    text_ids found = {0};
    assert_ok(text_encode(v, text, n, true, &found));
    soon(start, unit, text_pre_name(v));
    assert_true(found.n > 0);
    text_ids_free(&found);
    free(text);
}

static bool same_patterns(const pretokenizer *a, const pretokenizer *b)
{
    size_t i = 0;
    while (a->patterns[i] && a->patterns[i] == b->patterns[i]) i++;
    return a->patterns[i] == b->patterns[i];
}

static void long_runs_are_cut_in_linear_time(void **state)
{
    (void)state;
    pieces found = {0};
    for (size_t i = 0; pretokenizer_name(i); i++) {
        const char *name = pretokenizer_name(i);
        const pretokenizer *p = pretokenizer_find(name, strlen(name));
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++) {
            const char *other = pretokenizer_name(k);
            seen = same_patterns(p, pretokenizer_find(other, strlen(other)));
        }
        for (size_t k = 0; k < COUNT(units) && !seen; k++) {
            if (!text_utf8_valid(units[k], strlen(units[k]))) continue;
            size_t n;
            char *text = long_text(units[k], 150000, &n);
            clock_t start = clock();
            assert_ok(pretokenize(p, text, n, &found));
            soon(start, units[k], name);
            assert_true(found.n > 0);
            assert_int_equal(found.ends[found.n - 1], n);
            free(text);
        }
    }
    pieces_free(&found);
}

static void long_runs_are_merged_in_linear_time(void **state)
{
    (void)state;
    static const char *const names[] = {"llama-bpe", "qwen2", "gemma4"};
    for (size_t i = 0; i < COUNT(names); i++) {
        small s = {0};
        open_byte_level(&s, names[i]);
        for (size_t k = 0; k < COUNT(units); k++) encodes_soon(s.v, units[k]);
        close_small(&s);
    }
    small s = {0};
    open_spm(&s, 1);
    for (size_t k = 0; k < COUNT(units); k++) encodes_soon(s.v, units[k]);
    encodes_soon(s.v, "hi");
    close_small(&s);
}

static void long_runs_of_real_vocabularies(void **state)
{
    (void)state;
    static const char *const names[] = {"llama3", "qwen3", "gemma3"};
    for (size_t i = 0; i < COUNT(names); i++) {
        char file[64];
        snprintf(file, sizeof file, "vocab/%s.gguf", names[i]);
        vocabulary x = open_vocabulary(test_data(file), NULL);
        for (size_t k = 0; k < COUNT(units); k++) encodes_soon(x.v, units[k]);
        encodes_soon(x.v, "etaoinshrdlucmfwypvbgkjqxz");
        close_vocabulary(&x);
    }
}

// ---- round trip -------------------------------------------------------------------------------

static const char *const corpus[] = {
    "The harbour was quiet; 12 crates of herring, weren't there?",
    "Der Fluß fließt ruhig – „so“, sagte sie, „muß es sein“. Ärger, Öl, Übung: 3,14 €.",
    "L'été dernier, à Nîmes, j'ai mangé cœur d'artichaut et crème brûlée.",
    "Người Việt Nam không nhiều điều phải nói.",
    "Даже если характер трудный, мы всё равно поедем в Ярославль 9-го мая.",
    "Η Αθήνα έχει ζέστη το καλοκαίρι.",
    "人工智能正在改变世界。漢字と仮名を混ぜて書く。한국어 문장도 있습니다!",
    "नमस्ते दुनिया। সবার উপরে মানুষ সত্য। வணக்கம்",
    "สวัสดีชาวโลก ภาษาไทยไม่มีช่องว่าง",
    "مرحبا بالعالم، السنة ١٤٤٥. שלום עולם",
    "😀👩‍👩‍👧‍👦🇩🇪👍🏽 ☃️ ½ ² Ⅷ ①",
    "int main(void)\n{\n\treturn printf(\"%d\\n\", 0x7f << 3);\n}\r\n\r\n    # indented\n",
    "a  b   c    d\t\te \n \n\n   \u00a0\u2003\u3000 end   ",
    "tag <b>x</b> [INST] {{ value }} $HOME `code` ~/.x | y && z || !w",
    "\x01\x02\x7f\xc2\x85\u200b\ufeff\u2028",
};

static void round_trip(const text_vocab *v, const char *name)
{
    for (size_t i = 0; i < COUNT(corpus); i++) {
        text_ids found = {0};
        size_t n = strlen(corpus[i]), n_back;
        assert_ok(text_encode(v, corpus[i], n, false, &found));
        char *back = decode(v, found.ids, found.n, false, &n_back);
        size_t prefix = text_has_space_prefix(v);
        if (n_back != n + prefix || memcmp(back + prefix, corpus[i], n) != 0)
            fail_msg("%s: '%s' came back as '%s'", name, corpus[i], back);
        free(back);
        text_ids_free(&found);
    }
}

static void r37_round_trip_small(void **state)
{
    (void)state;
    for (size_t i = 0; pretokenizer_name(i); i++) {
        const char *name = pretokenizer_name(i);
        const pretokenizer *p = pretokenizer_find(name, strlen(name));
        if (p->raw) continue; // these vocabularies are not made of the byte alphabet
        small s = {0};
        open_byte_level(&s, name);
        assert_string_equal(text_pre_name(s.v), name);
        if (!p->nfc) round_trip(s.v, name);
        close_small(&s);
    }
    // With the prefix, a space is also put behind user-defined tokens, which this vocabulary has.
    small s = {0};
    open_spm(&s, 0);
    round_trip(s.v, "spm");
    close_small(&s);
}

static void r37_round_trip_real(void **state)
{
    (void)state;
    static const char *const names[] = {"llama3", "smollm3", "ggml-vocab-gpt-2", "gemma3",
                                        "mistral-spm"};
    for (size_t i = 0; i < COUNT(names); i++) {
        char file[64];
        snprintf(file, sizeof file, "vocab/%s.gguf", names[i]);
        vocabulary x = open_vocabulary(test_data(file), NULL);
        round_trip(x.v, names[i]);
        close_vocabulary(&x);
    }
}

// ---- pieces of every pre-tokenizer ------------------------------------------------------------

// pieces.json comes from Python's `regex` (make_pieces.py).
static void r36_pieces_of_every_pretokenizer(void **state)
{
    (void)state;
    json_error_t error;
    json_t *all = json_load_file(test_source("tests/text/pieces.json"), JSON_ALLOW_NUL, &error);
    assert_non_null(all);
    const json_t *texts = json_object_get(all, "texts"), *group, *name;
    size_t g, k, n_names = 0, n_table = 0;
    while (pretokenizer_name(n_table)) n_table++;
    pieces found = {0};
    json_array_foreach(json_object_get(all, "groups"), g, group)
    {
        json_array_foreach(json_object_get(group, "names"), k, name)
        {
            const char *s = json_string_value(name);
            const pretokenizer *p = pretokenizer_find(s, strlen(s));
            if (!p) fail_msg("%s is not known", s);
            n_names++;
            for (size_t i = 0; i < json_array_size(texts); i++) {
                const json_t *text = json_array_get(texts, i);
                const json_t *want = json_array_get(json_object_get(group, "pieces"), i);
                assert_ok(
                    pretokenize(p, json_string_value(text), json_string_length(text), &found));
                bool same = found.n == json_array_size(want);
                uint32_t start = 0;
                for (size_t j = 0; same && j < found.n; start = found.ends[j++])
                    same = found.ends[j] - start == json_integer_value(json_array_get(want, j));
                if (!same) fail_msg("%s cuts '%s' otherwise", s, json_string_value(text));
            }
        }
    }
    assert_int_equal(n_names, n_table);
    pieces_free(&found);
    json_decref(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_functions),
        cmocka_unit_test(merges_by_rank_then_leftmost),
        cmocka_unit_test(special_tokens_longest_first),
        cmocka_unit_test(spans_keep_control_tokens_out_of_user_text),
        cmocka_unit_test(no_cut_makes_a_control_token),
        cmocka_unit_test(r38_space_prefix),
        cmocka_unit_test(nfc_equals_utf8proc),
        cmocka_unit_test(long_runs_are_cut_in_linear_time),
        cmocka_unit_test(long_runs_are_merged_in_linear_time),
        cmocka_unit_test(long_runs_of_real_vocabularies),
        cmocka_unit_test(r37_round_trip_small),
        cmocka_unit_test(r37_round_trip_real),
        cmocka_unit_test(r36_pieces_of_every_pretokenizer),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
