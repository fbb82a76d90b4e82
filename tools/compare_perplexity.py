#!/usr/bin/env python3
"""Perplexity of pumice against llama.cpp's, on the same file, text and windows.

    tools/compare_perplexity.py [--device cpu] [--threads 2] [--ctx 512] [--windows N] [MODEL.gguf...]

Without MODEL: SmolLM2-135M (Q4_1), Gemma-3-270M and Qwen2.5-Coder-0.5B (Q4_K_M), brought by
tools/fetch_model; one that can't be had is left out, with the reason. The text is the first two
chapters of "Alice's Adventures in Wonderland" (tests/proof/alice.txt) unless --text says another.
llama.cpp comes as in tools/compare_llama.py. It cuts its own tokens into windows as llama-perplexity
does and evaluates them through its C interface. Exit status 1 where a ratio is off by more than
--limit (1 %), or the numbers of tokens differ; 3 where nothing was compared.

    --act f32   pumice's activations (default: the device's own)
    --markdown  the table for docs/
"""
import argparse
import importlib.util
import json
import math
import os
import subprocess
import sys

TOOLS = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(TOOLS)
PUMICE = os.path.join(ROOT, "build", "release", "pumice")
MODELS = ("smollm2", "gemma3-270m", "qwen2.5-coder-0.5b")  # of tools/fetch_model


def peer_python():
    spec = importlib.util.spec_from_file_location("compare_llama", os.path.join(TOOLS, "compare_llama.py"))
    compare_llama = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compare_llama)
    return compare_llama.peer_python()


# ---- inside the peer's Python -----------------------------------------------------------------


def peer_open(arguments):
    import ctypes

    import llama_cpp as lc

    silent = lc.llama_log_callback(lambda *_: None)
    lc.llama_log_set(silent, ctypes.c_void_p(0))
    peer_open.kept = silent  # the library calls it as long as it runs
    lc.llama_backend_init()
    params = lc.llama_model_default_params()
    params.n_gpu_layers = 0
    model = lc.llama_model_load_from_file(arguments.model[0].encode(), params)
    options = lc.llama_context_default_params()
    options.n_ctx = options.n_batch = arguments.ctx
    options.n_ubatch = min(512, arguments.ctx)
    options.n_threads = options.n_threads_batch = arguments.threads
    options.flash_attn_type = lc.LLAMA_FLASH_ATTN_TYPE_ENABLED
    context = lc.llama_init_from_model(model, options) if model else None
    if not context:
        sys.exit("llama.cpp could not open the model")
    return lc, model, context


def peer_tokens(lc, model, text):
    vocab = lc.llama_model_get_vocab(model)
    room = len(text) + 16
    ids = (lc.llama_token * room)()
    n = lc.llama_tokenize(vocab, text, len(text), ids, room, True, False)
    if n < 0:
        sys.exit("llama.cpp could not tokenize the text")
    bos = lc.llama_vocab_bos(vocab) if lc.llama_vocab_get_add_bos(vocab) else -1
    return list(ids[:n]), bos, lc.llama_vocab_n_tokens(vocab)


def peer_window(lc, context, batch, window, first, n_vocab):
    """-log p of the tokens behind `first` in one window."""
    import ctypes

    import numpy as np

    lc.llama_memory_clear(lc.llama_get_memory(context), True)
    batch.n_tokens = len(window)
    for i, token in enumerate(window):
        batch.token[i] = token
        batch.pos[i] = i
        batch.n_seq_id[i] = 1
        batch.seq_id[i][0] = 0
        batch.logits[i] = i >= first
    if lc.llama_decode(context, batch) != 0:
        sys.exit("llama.cpp could not evaluate")
    found = []
    for i in range(first, len(window) - 1):
        row = lc.llama_get_logits_ith(context, i)
        logits = np.ctypeslib.as_array(ctypes.cast(row, ctypes.POINTER(ctypes.c_float)), (n_vocab,))
        logits = logits.astype(np.float64)
        top = logits.max()
        found.append(top + math.log(np.exp(logits - top).sum()) - logits[window[i + 1]])
    return found


def peer_run(arguments):
    lc, model, context = peer_open(arguments)
    with open(arguments.text, "rb") as file:
        ids, bos, n_vocab = peer_tokens(lc, model, file.read())
    batch = lc.llama_batch_init(arguments.ctx, 0, 1)
    n_windows = len(ids) // arguments.ctx
    if arguments.windows:
        n_windows = min(n_windows, arguments.windows)
    nll = []
    for k in range(n_windows):
        window = ids[k * arguments.ctx : (k + 1) * arguments.ctx]
        if bos >= 0:
            window[0] = bos
        nll += peer_window(lc, context, batch, window, arguments.ctx // 2, n_vocab)
    mean = sum(nll) / len(nll)
    variance = sum(x * x for x in nll) / len(nll) - mean * mean
    error = math.sqrt(max(variance, 0) / (len(nll) - 1))
    result = {"tokens": len(ids), "windows": n_windows, "scored": len(nll)}
    result.update(perplexity=math.exp(mean), error=math.exp(mean) * error)
    print(json.dumps(result))


# ---- both -------------------------------------------------------------------------------------


def windows_of(arguments):
    options = ["--ctx", str(arguments.ctx), "--threads", str(arguments.threads)]
    return options + (["--windows", str(arguments.windows)] if arguments.windows else [])


def pumice_run(model, arguments):
    command = [PUMICE, "perplexity", model, "-f", arguments.text, "--json", "-q"]
    command += ["--device", arguments.device, "--act", arguments.act] + windows_of(arguments)
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def llama_run(model, arguments, python):
    command = [python, os.path.abspath(__file__), "--as-peer", model, "--text", arguments.text]
    command += windows_of(arguments)
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def default_models():
    for name in MODELS:
        fetch = [sys.executable, os.path.join(TOOLS, "fetch_model"), name]
        done = subprocess.run(fetch, stdout=subprocess.PIPE, text=True)
        if done.returncode == 0:
            yield done.stdout.strip()
        else:
            print(f"{name}: skipped: tools/fetch_model could not bring it", file=sys.stderr)


def show(path, ours, theirs, markdown):
    name = os.path.basename(path).removesuffix(".gguf")
    ratio = ours["perplexity"] / theirs["perplexity"]
    cells = [name, f"{ours['act']}, {ours['kv_type']}", str(ours["scored"])]
    cells += [f"{x['perplexity']:.3f} ± {x['error']:.3f}" for x in (ours, theirs)] + [f"{ratio:.4f}"]
    if markdown:
        print("| " + " | ".join(cells) + " |", flush=True)
    else:
        print("{:42} {:9} {:>6}  {:>18} {:>18}  {}".format(*cells), flush=True)
    return ratio


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="*")
    parser.add_argument("--text", default=os.path.join(ROOT, "tests", "proof", "alice.txt"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--act", default="auto")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--ctx", type=int, default=512)
    parser.add_argument("--windows", type=int)
    parser.add_argument("--limit", type=float, default=0.01)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--as-peer", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.as_peer:
        return peer_run(arguments)
    if not os.path.exists(PUMICE):
        sys.exit("build first: tools/quickstart, or cmake --preset release && cmake --build build/release")
    python = peer_python()
    titles = ["model", "act, KV", "scored", "pumice", "llama.cpp", "ratio"]
    if arguments.markdown:
        print("| " + " | ".join(titles) + " |\n|" + " --- |" * len(titles))
    else:
        print("{:42} {:9} {:>6}  {:>18} {:>18}  {}".format(*titles))
    n, bad = 0, 0
    for model in arguments.model or default_models():
        ours, theirs = pumice_run(model, arguments), llama_run(model, arguments, python)
        ratio = show(model, ours, theirs, arguments.markdown)
        same = all(ours[key] == theirs[key] for key in ("tokens", "windows", "scored"))
        if not same:
            print(f"{model}: {ours['tokens']} tokens, llama.cpp has {theirs['tokens']}", file=sys.stderr)
        bad += not same or not abs(ratio - 1) <= arguments.limit
        n += 1
    if n == 0:
        return 3
    print(f"{n - bad} of {n} within {arguments.limit:.1%}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
