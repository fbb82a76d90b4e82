#!/usr/bin/env python3
"""Writes pieces.json: how Python's `regex` cuts texts by the expressions of every pre-tokenizer.

    python3 make_pieces.py PRETOKENIZERS.json > pieces.json

PRETOKENIZERS.json (names, expressions; in the shared data) holds what llama.cpp uses. Where that only
approximates the model's own expression, the model's own is taken: letter case (tekken, gpt-4o and
those that share its expression), kimi-k2 (its file names one class, the rest is code) and afmoe (the
same, and a compatibility ideograph that was normalized away).
"""
import json
import random
import sys

import regex

FRAGMENTS = [
    "a", "B", "é", "É", "e\u0301", "\u0301", "中", "の", "ㄅ", "한", "ไทย", "1", "12", "1234567", "½",
    "٣", "Ⅷ", " ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", "\u00a0", "\u3000", "'s", "'S", "'LL",
    "'re", "'ſ", "’s", ".", "...", "!?", "$", "+", "<", "`", "|", "/", "//", "_", "—", "…", "。", "😀",
    "ABCdef", "abCD", "ǅx", "ʰ", "ª", "hello", " world", "<sentinel:12>", "IMGIMGABCZ", "\u0000",
    "\u2028", "ü", "ß", "\uf900", "ก", "ာ", "\U00020000", "(", ")", "#a", "@x",
]


def texts():
    random.seed(1)
    out = ["".join(random.choices(FRAGMENTS, k=random.randint(2, 14))) for _ in range(70)]
    out += [" " * k + end for k in (1, 2, 3, 5, 9, 33, 513, 1030) for end in ("", "a", "\n a")]
    out += ["1" * k + end for k in (2, 3, 4, 7) for end in ("", "a", " ", "½", "_")]
    return out


def kimi():
    upper = r"[[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]&&[^\p{Han}]]"
    lower = r"[[\p{Ll}\p{Lm}\p{Lo}\p{M}]&&[^\p{Han}]]"
    tail = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    lead = r"[^\r\n\p{L}\p{N}]?"
    return (rf"[\p{{Han}}]+|{lead}{upper}*{lower}+{tail}|{lead}{upper}+{lower}*{tail}|"
            r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def expressions(name, table):
    entry, gpt4o = table[name], table["gpt-4o"]
    if name == "kimi-k2":
        return [kimi()]
    if name == "granite-embed-multi-97m" or entry["regexes"] == gpt4o["regexes"]:
        return [gpt4o["original_regex"]]
    if name == "tekken":
        return [entry["original_regex"]]
    if name == "afmoe":
        return [r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
                entry["regexes"][1].replace("\u8c48", "\uf900"), entry["regexes"][2]]
    return entry["regexes"]


def cut(compiled, text):
    pieces = [text]
    for pattern in compiled:
        out = []
        for piece in pieces:
            at = 0
            for match in pattern.finditer(piece):
                if match.start() > at:
                    out.append(piece[at:match.start()])
                    at = match.start()
                if match.end() > match.start():
                    out.append(match.group())
                    at = match.end()
            if at < len(piece):
                out.append(piece[at:])
        pieces = out
    return [len(piece.encode()) for piece in pieces]


def main():
    table = json.load(open(sys.argv[1]))
    groups = {}
    for name in table:
        groups.setdefault(tuple(expressions(name, table)), []).append(name)
    lines = texts()
    out = []
    for patterns, names in groups.items():
        flags = regex.V1 if "kimi-k2" in names else regex.V0
        compiled = [regex.compile(pattern, flags) for pattern in patterns]
        out.append({"names": names, "pieces": [cut(compiled, line) for line in lines]})
    print(json.dumps({"texts": lines, "groups": out}, separators=(",", ":")))


main()
