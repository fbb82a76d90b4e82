#!/usr/bin/env python3
"""Makes the seeds: real files cut down to a few array items and tensors, and rewritten.

Usage: make_corpus_gguf.py DATA_FOLDER (writes corpus_gguf/ beside itself; needs the Python package gguf)
"""
import os
import sys

from gguf import GGUFReader, GGUFValueType, GGUFWriter

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus_gguf")
names = [
    "golden/smollm3-untied.q8_0", "golden/gemma3.q8_0", "golden/llama-mix-k", "golden/gpt2.f16",
    "golden/phi4-longrope.f32", "vocab/llama3", "vocab/mistral-spm", "vocab/gemma3",
]
for name in names:
    reader = GGUFReader(sys.argv[1] + "/" + name + ".gguf")
    arch = reader.fields["general.architecture"]
    writer = GGUFWriter(os.path.join(here, os.path.basename(name) + ".seed"),
                        bytes(arch.parts[-1]).decode())
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        value = field.contents()
        if field.types[0] == GGUFValueType.ARRAY:
            value = value[:4]
        if isinstance(value, str):
            value = value[:40]
        sub_type = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
        writer.add_key_value(key, value, field.types[0], sub_type)
    small = [t for t in reader.tensors if t.n_bytes <= 512][:3]
    for t in small:
        writer.add_tensor(t.name, t.data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
