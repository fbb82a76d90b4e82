// Every pre-tokenizer that pumice knows, as data. The expression that a pattern stands for is the
// comment above it.
#include <string.h>

#include "text/pretokenize.h"

#define COUNT(a)  (sizeof(a) / sizeof(a)[0])
#define RANGES(a) .ranges = a, .n_ranges = COUNT(a)
#define PATTERN(name, ...)                                                                         \
    static const alternative name##_alternatives[] = {__VA_ARGS__};                                \
    static const pattern name = {name##_alternatives, COUNT(name##_alternatives)}

static const code_range deepseek_letters[] = {
    {0x0041, 0x005a},   {0x0061, 0x007a},   {0x00b5, 0x00b5},   {0x00c0, 0x00d6},
    {0x00d8, 0x00f6},   {0x00f8, 0x01ba},   {0x01bc, 0x01bf},   {0x01c4, 0x0293},
    {0x0295, 0x02af},   {0x0370, 0x0373},   {0x0376, 0x0377},   {0x037b, 0x037d},
    {0x037f, 0x037f},   {0x0386, 0x0386},   {0x0388, 0x038a},   {0x038c, 0x038c},
    {0x038e, 0x03a1},   {0x03a3, 0x03f5},   {0x03f7, 0x0481},   {0x048a, 0x052f},
    {0x0531, 0x0556},   {0x10a0, 0x10c5},   {0x13a0, 0x13f5},   {0x13f8, 0x13fd},
    {0x1c90, 0x1cba},   {0x1cbd, 0x1cbf},   {0x1d00, 0x1d2b},   {0x1d6b, 0x1d77},
    {0x1d79, 0x1d9a},   {0x1e00, 0x1f15},   {0x1f18, 0x1f1d},   {0x1f20, 0x1f45},
    {0x1f48, 0x1f4d},   {0x1f50, 0x1f57},   {0x1f59, 0x1f59},   {0x1f5b, 0x1f5b},
    {0x1f5d, 0x1f5d},   {0x1f5f, 0x1f7d},   {0x1f80, 0x1fb4},   {0x1fb6, 0x1fbc},
    {0x1fbe, 0x1fbe},   {0x1fc2, 0x1fc4},   {0x1fc6, 0x1fcc},   {0x1fd0, 0x1fd3},
    {0x1fd6, 0x1fdb},   {0x1fe0, 0x1fec},   {0x1ff2, 0x1ff4},   {0x1ff6, 0x1ffc},
    {0x2102, 0x2102},   {0x2107, 0x2107},   {0x210a, 0x2113},   {0x2115, 0x2115},
    {0x2119, 0x211d},   {0x2124, 0x2124},   {0x2126, 0x2126},   {0x2128, 0x2128},
    {0x212a, 0x212d},   {0x212f, 0x2134},   {0x2139, 0x2139},   {0x213c, 0x213f},
    {0x2145, 0x2149},   {0x214e, 0x214e},   {0x2183, 0x2184},   {0x2c00, 0x2c7b},
    {0x2c7e, 0x2ce4},   {0x2ceb, 0x2cee},   {0x2cf2, 0x2cf3},   {0xa640, 0xa66d},
    {0xa680, 0xa69b},   {0xa722, 0xa76f},   {0xa771, 0xa787},   {0xa78b, 0xa78e},
    {0xab70, 0xabbf},   {0xfb00, 0xfb06},   {0xfb13, 0xfb17},   {0xff21, 0xff3a},
    {0xff41, 0xff5a},   {0x10400, 0x1044f}, {0x104b0, 0x104d3}, {0x104d8, 0x104fb},
    {0x10c80, 0x10cb2}, {0x10cc0, 0x10cf2}, {0x118a0, 0x118df}, {0x1e900, 0x1e943},
};
static const code_range deepseek_marks[] = {{0x0021, 0x002f}, {0x003a, 0x007e}, {0x2018, 0x201f},
                                            {0x3000, 0x3002}, {0xff01, 0xff0f}, {0xff1a, 0xff5e}};
static const code_range deepseek_cjk[] = {{0x0800, 0x9fa5}, {0xac00, 0xd7ff}};
static const code_range cjk_kana[] = {{0x3040, 0x30ff}, {0x4e00, 0x9fa5}};
static const code_range no_space_scripts[] = {
    {0x0e40, 0x0eff}, {0x1000, 0x109f}, {0x1100, 0x11ff}, {0x1780, 0x17ff}, {0x2f00, 0x2fdf},
    {0x3040, 0x30ff}, {0x3400, 0x4dbf}, {0x4e00, 0x9fff}, {0xa9e0, 0xa9ff}, {0xaa60, 0xaa7f},
    {0xac00, 0xd7af}, {0xf900, 0xfaff}, {0xff65, 0xff9f}};
static const code_range hangul[] = {{0x3131, 0x318e}, {0xac00, 0xd7a3}};
static const code_range cjk_marks[] = {{0x2014, 0x2014}, {0x2018, 0x2019}, {0x201c, 0x201d},
                                       {0x2026, 0x2026}, {0x3001, 0x303f}, {0xfe30, 0xfe4f},
                                       {0xff01, 0xff01}, {0xff0c, 0xff0c}, {0xff1a, 0xff1b}};
static const code_range bopomofo[] = {{0x3105, 0x312f}};
static const code_range bloom_marks[] = {{0x0021, 0x0021}, {0x0028, 0x0029}, {0x002c, 0x002c},
                                         {0x002e, 0x002e}, {0x003f, 0x003f}, {0x007c, 0x007c},
                                         {0x060c, 0x060c}, {0x06d4, 0x06d4}, {0x0964, 0x0964},
                                         {0x2026, 0x2026}, {0x3001, 0x3002}, {0xff0c, 0xff0c}};

// ---- alternatives that many patterns share ----------------------------------------------------

#define ONE       .min = 1, .max = 1
#define SOME      .min = 1
#define LEAD(...) .lead = {__VA_ARGS__}, .lead_max = 1
#define RUN(...)  .kind = ALT_RUN, .run = {__VA_ARGS__}
#define TAIL(...) .tail = {__VA_ARGS__}, .tail_max = UINT32_MAX
#define NOT(bits) .any = (bits), .negated = true
// ` ?X+`, `\s?X+`
#define SPACED(...)                                                                                \
    {                                                                                              \
        RUN(__VA_ARGS__), SOME, LEAD(.any = CH_SPACE)                                              \
    }
#define WHITED(...)                                                                                \
    {                                                                                              \
        RUN(__VA_ARGS__), SOME, LEAD(.any = CH_WHITE)                                              \
    }
#define CONTRACTION(how)                                                                           \
    {                                                                                              \
        .kind = ALT_CONTRACTION, .contraction = (how)                                              \
    }
// `[^\r\n\p{L}\p{N}]?`
#define ODD_LEAD LEAD(NOT(CH_CRLF | CH_L | CH_N))
#define WORD                                                                                       \
    {                                                                                              \
        RUN(.any = CH_L), SOME, ODD_LEAD                                                           \
    }
#define NUMBER                                                                                     \
    {                                                                                              \
        RUN(.any = CH_N), ONE                                                                      \
    }
#define NUMBERS_3                                                                                  \
    {                                                                                              \
        RUN(.any = CH_N), .min = 1, .max = 3                                                       \
    }
// ` ?[^\s\p{L}\p{N}]+[\r\n]*` and with [\r\n/]*
#define OTHERS                                                                                     \
    {                                                                                              \
        RUN(NOT(CH_WHITE | CH_L | CH_N)), SOME, LEAD(.any = CH_SPACE), TAIL(.any = CH_CRLF)        \
    }
#define OTHERS_SLASH                                                                               \
    {                                                                                              \
        RUN(NOT(CH_WHITE | CH_L | CH_N)), SOME, LEAD(.any = CH_SPACE),                             \
            TAIL(.any = CH_CRLF | CH_SLASH)                                                        \
    }
// `\s*[\r\n]+|\s+(?!\S)|\s+`
#define WHITE                                                                                      \
    {.kind = ALT_TO_NEWLINE}, {.kind = ALT_WHITE_TAIL},                                            \
    {                                                                                              \
        RUN(.any = CH_WHITE), SOME                                                                 \
    }
// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` and its sister, with a contraction
#define CASED(how, not )                                                                           \
    {                                                                                              \
        .kind = ALT_CASED, .run = {.any = CH_LU | CH_LT | CH_LM | CH_LO | CH_M, .except = (not )}, \
        .run2 = {.any = CH_LL | CH_LM | CH_LO | CH_M, .except = (not )}, ODD_LEAD,                 \
        .contraction = (how)                                                                       \
    }

// ---- patterns ---------------------------------------------------------------------------------

// (?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
//  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
PATTERN(llama3, CONTRACTION(ANY_CONTRACTION), WORD, NUMBERS_3, OTHERS, WHITE);
// ... with \p{N}; with \p{N}+; with [\p{L}\p{M}]; without line breaks after others; without
// contractions
PATTERN(qwen2, CONTRACTION(ANY_CONTRACTION), WORD, NUMBER, OTHERS, WHITE);
PATTERN(minicpm5, CONTRACTION(ANY_CONTRACTION), WORD, {RUN(.any = CH_N), SOME}, OTHERS, WHITE);
PATTERN(qwen35, CONTRACTION(ANY_CONTRACTION), {RUN(.any = CH_L | CH_M), SOME, ODD_LEAD}, NUMBER,
        {RUN(NOT(CH_WHITE | CH_L | CH_M | CH_N)), SOME, LEAD(.any = CH_SPACE),
         TAIL(.any = CH_CRLF)},
        WHITE);
PATTERN(seed_coder, CONTRACTION(ANY_CONTRACTION), WORD, NUMBER, SPACED(NOT(CH_WHITE | CH_L | CH_N)),
        WHITE);
PATTERN(ufakzeka, WORD, NUMBER, OTHERS, WHITE);
// ... with \s{512}(?!\S)|\s{256}(?!\S)|...|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1} at the end
PATTERN(jais2, CONTRACTION(ANY_CONTRACTION), WORD, NUMBERS_3, OTHERS, {.kind = ALT_TO_NEWLINE},
        {.kind = ALT_WHITE_CHUNK});
// ... with (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+ for words
PATTERN(exaone_moe, CONTRACTION(ANY_CONTRACTION), {.kind = ALT_WORDS, ODD_LEAD}, NUMBER,
        {RUN(NOT(CH_WHITE | CH_L | CH_N)), SOME, LEAD(.any = CH_SPACE),
         .tail = {.any = CH_CRLF | CH_SLASH}, .tail_max = 1},
        WHITE);
// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)
PATTERN(gpt2, CONTRACTION(LOWER_CONTRACTION), SPACED(.any = CH_L), SPACED(.any = CH_N),
        SPACED(NOT(CH_WHITE | CH_L | CH_N)), {.kind = ALT_WHITE_TAIL});
// Words that change from upper to lower case once: the expressions of the models themselves.
PATTERN(tekken, CASED(NO_CONTRACTION, 0), NUMBER, OTHERS_SLASH, WHITE);
PATTERN(gpt4o, CASED(FOLD_CONTRACTION, 0), NUMBERS_3, OTHERS_SLASH, WHITE);
PATTERN(youtu, CASED(ANY_CONTRACTION, 0), NUMBER, OTHERS_SLASH, WHITE);
PATTERN(tiny_aya, CASED(ANY_CONTRACTION, 0), NUMBERS_3, OTHERS_SLASH, WHITE);
PATTERN(kimi, {RUN(.any = CH_HAN), SOME}, CASED(FOLD_CONTRACTION, CH_HAN), NUMBERS_3, OTHERS,
        WHITE);
// [!"#...~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|...
#define DEEPSEEK_WORDS                                                                             \
    {RUN(.any = CH_ASCII_ALPHA), SOME, LEAD(.any = CH_ASCII_PUNCT), .lead_min = 1},                \
    {                                                                                              \
        RUN(.any = CH_L | CH_M), SOME, LEAD(NOT(CH_CRLF | CH_L | CH_P | CH_S))                     \
    }
PATTERN(deepseek3, DEEPSEEK_WORDS,
        {RUN(.any = CH_P | CH_S), SOME, LEAD(.any = CH_SPACE), TAIL(.any = CH_CRLF)}, WHITE);
PATTERN(spark, DEEPSEEK_WORDS, SPACED(.any = CH_P | CH_S), {RUN(.any = CH_CRLF), ONE},
        {.kind = ALT_WHITE_TAIL}, {RUN(.any = CH_WHITE), SOME});

PATTERN(number, NUMBER);
PATTERN(numbers, {RUN(.any = CH_N), SOME});
PATTERN(numbers_3, NUMBERS_3);
PATTERN(three_digits, {RUN(.any = CH_DIGIT), .min = 3, .max = 3});
// \d{1,3}(?=(?:\d{3})*\b); the same over \p{N} and anywhere; (?=(\d{3})+(?!\d))
PATTERN(digit_groups, {.kind = ALT_DIGIT_GROUP, .run = {.any = CH_ND}, .at_word_end = true});
PATTERN(number_groups, {.kind = ALT_DIGIT_GROUP, .run = {.any = CH_N}});
PATTERN(digit_splits, {.kind = ALT_DIGIT_SPLIT, .run = {.any = CH_ND}});
// [\p{P}\$\+<=>\^~\|]+ and with the grave accent; [\p{P}!-/:-@\[-`{-~]
PATTERN(marks, {RUN(.any = CH_P | CH_ASCII_PUNCT, .except = CH_GRAVE), SOME});
PATTERN(marks_grave, {RUN(.any = CH_P | CH_ASCII_PUNCT), SOME});
PATTERN(mark, {RUN(.any = CH_P | CH_ASCII_PUNCT), ONE});
PATTERN(line_break, {RUN(.any = CH_CRLF), ONE});
PATTERN(lines, {RUN(NOT(CH_LF)), SOME}, {RUN(.any = CH_LF), SOME});
PATTERN(not_white, {RUN(NOT(CH_WHITE)), SOME});
PATTERN(white_end, {.kind = ALT_WHITE_END});
PATTERN(white_words, WHITED(.any = CH_L));
PATTERN(white_marks, WHITED(.any = CH_P));
PATTERN(white_latin, WHITED(RANGES(deepseek_letters)));
PATTERN(white_latin_marks, WHITED(RANGES(deepseek_marks)));
PATTERN(wide_cjk, {RUN(RANGES(deepseek_cjk)), SOME});
PATTERN(kana, {RUN(RANGES(cjk_kana)), SOME});
PATTERN(unspaced, {RUN(RANGES(no_space_scripts)), SOME});
PATTERN(east_asian, {RUN(RANGES(hangul)), SOME}, {RUN(RANGES(cjk_marks)), SOME},
        {RUN(RANGES(bopomofo)), SOME}, {RUN(RANGES(cjk_kana)), SOME});
//  ?[^(\s|.,!?…。，、।۔،)]+
PATTERN(bloom, SPACED(.any = CH_WHITE, RANGES(bloom_marks), .negated = true));
PATTERN(sentinel, {.kind = ALT_SENTINEL});
PATTERN(image_code, {.kind = ALT_IMAGE_CODE});
PATTERN(indent, {.kind = ALT_INDENT});

// ---- names ------------------------------------------------------------------------------------

#define LIST(...) ((const pattern *const[MAX_PATTERNS + 1]){__VA_ARGS__})
#define USES(...) .patterns = LIST(__VA_ARGS__)
#define LLAMA3    USES(&llama3), .whole_words = true, .add_bos = true
// NFC is in the tokenizers of Qwen 2, 2.5 and 3; the others of the group are taken to be like them.
#define QWEN2     USES(&qwen2), .nfc = true
#define GPT2      USES(&gpt2)
#define SMOLLM    USES(&number, &gpt2)
#define DEEPSEEK3 USES(&numbers_3, &kana, &deepseek3)
#define LINES     USES(&lines), .raw = true, .space_mark = true

static const pretokenizer table[] = {
    {"default", USES(&marks, &gpt2, &numbers, &three_digits)},
    {"llama3", LLAMA3},
    {"llama-v3", LLAMA3},
    {"llama-bpe", LLAMA3},
    {"falcon3", LLAMA3},
    {"falcon-h1", LLAMA3},
    {"pixtral", LLAMA3},
    {"midm-2.0", LLAMA3},
    {"lfm2", LLAMA3},
    {"jina-v5-nano", LLAMA3},
    // SmolLM3's vocabulary is Llama 3's, so whole words are taken to be looked up as there: 588 of
    // its tokens can't be reached otherwise.
    {"smaug-bpe", USES(&llama3), .whole_words = true},
    {"dbrx", USES(&llama3)},
    {"glm4", USES(&llama3)},
    {"chatglm-bpe", USES(&llama3)},
    {"jais-2", USES(&jais2)},
    {"minicpm5", USES(&numbers_3, &minicpm5), .whole_words = true},
    {"qwen2", QWEN2},
    {"deepseek-r1-qwen", QWEN2},
    {"kormo", QWEN2},
    {"f2llmv2", QWEN2},
    {"megrez", QWEN2},
    {"stablelm2", QWEN2},
    {"hunyuan", QWEN2},
    {"solar-open", QWEN2},
    {"grok-2", QWEN2},
    {"qwen35", USES(&qwen35), .nfc = true},
    {"bailingmoe", USES(&qwen2)},
    {"bailingmoe2", USES(&qwen2)},
    {"llada-moe", USES(&qwen2)},
    {"seed-coder", USES(&seed_coder)},
    {"ufakzeka", USES(&ufakzeka)},
    {"laguna", USES(&lines, &qwen2)},
    {"exaone-moe", USES(&exaone_moe)},
    {"gpt-2", GPT2},
    {"phi-2", GPT2},
    {"mpt", GPT2},
    {"olmo", GPT2},
    {"jais", GPT2},
    {"exaone4", GPT2},
    {"trillion", GPT2},
    {"granite-docling", GPT2},
    {"gigachat", GPT2},
    {"a.x-4.0", GPT2},
    {"mellum", GPT2},
    {"modern-bert", GPT2},
    {"jina-es", GPT2},
    {"jina-de", GPT2},
    {"jina-v2-es", GPT2},
    {"jina-v2-de", GPT2},
    {"jina-v1-en", GPT2},
    {"jina-v2-code", GPT2},
    {"roberta-bpe", GPT2},
    {"smollm", SMOLLM},
    {"starcoder", SMOLLM},
    {"refact", SMOLLM},
    {"command-r", SMOLLM},
    {"codeshell", SMOLLM},
    {"exaone", SMOLLM},
    {"minerva-7b", SMOLLM},
    {"mellum2", SMOLLM},
    {"falcon", USES(&marks_grave, &gpt2, &three_digits)},
    {"deepseek-coder", USES(&line_break, &white_words, &white_marks, &wide_cjk, &number)},
    {"deepseek-llm",
     USES(&line_break, &white_latin, &white_latin_marks, &white_end, &wide_cjk, &numbers)},
    {"deepseek-v3", DEEPSEEK3},
    {"hunyuan-dense", DEEPSEEK3},
    {"joyai-llm", DEEPSEEK3},
    {"hy_v4", DEEPSEEK3},
    {"spark2_5", USES(&numbers_3, &kana, &spark, &number)},
    {"afmoe", USES(&number_groups, &unspaced, &deepseek3)},
    {"tekken", USES(&tekken), .whole_words = true, .add_bos = true},
    {"gpt-4o", USES(&gpt4o)},
    {"llama4", USES(&gpt4o)},
    {"kanana2", USES(&gpt4o)},
    {"talkie", USES(&gpt4o)},
    {"minimax-m2", USES(&gpt4o)},
    {"granite-embed-multi-97m", USES(&gpt4o), .whole_words = true},
    {"youtu", USES(&east_asian, &youtu), .whole_words = true},
    {"tiny_aya", USES(&digit_groups, &tiny_aya)},
    {"cohere2moe", USES(&digit_groups, &tiny_aya)},
    {"kimi-k2", USES(&kimi)},
    {"superbpe", USES(&numbers, &digit_splits)},
    {"poro-chat", USES(&bloom)},
    {"bloom", USES(&bloom)},
    {"gpt3-finnish", USES(&bloom)},
    {"viking", USES(&bloom, &number)},
    {"chameleon", USES(&sentinel, &image_code, &indent, &number, &mark, &gpt2), .add_bos = true},
    {"gemma4", LINES},
    {"granite-embed-multi-311m", LINES},
    {"sarvam-moe", LINES},
    {"whitespace", USES(&not_white), .raw = true},
};

const pretokenizer *pretokenizer_find(const char *name, size_t n)
{
    for (size_t i = 0; i < COUNT(table); i++)
        if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0) return &table[i];
    return NULL;
}

const char *pretokenizer_name(size_t index)
{
    return index < COUNT(table) ? table[index].name : NULL;
}
