#!/usr/bin/env python3
"""Prints facts.h: what the Python package gguf (pip install gguf) finds in the reference files.

Usage: make_facts.py DATA_FOLDER > facts.h
"""
import glob
import hashlib
import os
import sys

from gguf import GGUFReader

root = sys.argv[1]


def text(raw):
    return '"' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else "\\%03o" % b for b in raw) + '"'


print("// Made by make_facts.py from the Python package gguf and SHA-256: keys, tensors, where data begins,")
print("// the header's hash; the last tensor; tokens, the last token, merges; n_ctx.")
print("// clang-format off")
for path in sorted(glob.glob(root + "/golden/*.gguf") + glob.glob(root + "/vocab/*.gguf")):
    r = GGUFReader(path)
    field = r.fields
    with open(path, "rb") as f:
        head = hashlib.sha256(f.read(r.data_offset)).hexdigest()
    last = r.tensors[-1] if r.tensors else None
    tokens = field["tokenizer.ggml.tokens"]
    merges = field.get("tokenizer.ggml.merges")
    arch = bytes(field["general.architecture"].parts[-1]).decode()
    ctx = field.get(arch + ".context_length")
    cells = [
        '"%s"' % os.path.relpath(path, root),
        # The reader counts three fields of the header itself as keys.
        len([k for k in field if not k.startswith("GGUF.")]),
        len(r.tensors),
        r.data_offset,
        '"%s"' % head,
        '"%s"' % last.name if last else "NULL",
        int(last.tensor_type) if last else 0,
        len(last.shape) if last else 0,
        int(last.shape[0]) if last else 0,
        int(last.data_offset) - r.data_offset if last else 0,
        int(last.n_bytes) if last else 0,
        len(tokens.data),
        text(bytes(tokens.parts[tokens.data[-1]])),
        len(merges.data) if merges else 0,
        int(ctx.parts[-1][0]) if ctx else 0,
    ]
    print("{" + ", ".join(str(c) for c in cells) + "},")
