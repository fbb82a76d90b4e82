#!/usr/bin/env python3
"""Records what Hugging Face tokenizers' trainer makes of a text, for tests/text/test_train.c.

    tools/record_bpe.py TEXT N > TEXT.N.merges        # needs the package tokenizers

The first line says which version it was; then come the tokens' number and the merges in order, in
the byte alphabet.
"""
import json
import sys

import tokenizers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

with open(sys.argv[1], encoding="utf-8", newline="") as file:
    text = file.read()
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
trainer = trainers.BpeTrainer(
    vocab_size=int(sys.argv[2]),
    special_tokens=["<|endoftext|>"],
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    show_progress=False,
)
tokenizer.train_from_iterator([text], trainer)
model = json.loads(tokenizer.to_str())["model"]
print(f"# tokenizers {tokenizers.__version__}, BpeTrainer, ByteLevel, vocab_size={sys.argv[2]}")
print(len(model["vocab"]))
for left, right in model["merges"]:
    print(left, right)
