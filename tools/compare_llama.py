#!/usr/bin/env python3
"""Speed of pumice's CPU path against llama.cpp's, on the same file, in one run.

    tools/compare_llama.py [--rounds 5] [--threads 2] [--prompt 512] [--gen 128] [MODEL.gguf]

Without MODEL: SmolLM2-135M-Instruct, rewritten as Q8_0 by `pumice quantize`. llama.cpp comes from
PyPI (llama-cpp-python, compiled for this machine the first time: 6 minutes on 2 cores; kept in
build/peer), without AMX. Its flash attention is on: it is off by default there. Each round
runs one program after the other in fresh processes, so that both see the same machine; the medians
and their ratios are printed. Prefill is `--prompt` tokens in batches of up to 512, decode is `--gen`
tokens one by one, both from an empty cache; a run of each warms up.

    --need X    exit status 1 when a ratio is below X
    --json FILE writes every figure
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PEER = os.path.join(ROOT, "build", "peer")
PUMICE = os.path.join(ROOT, "build", "release", "pumice")
PEER_VERSION = "0.3.36"  # of llama-cpp-python


def peer_python():
    """A Python that has llama-cpp-python, made on first use."""
    python = os.path.join(PEER, "venv", "bin", "python")
    wheels = os.path.join(PEER, "wheels")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", os.path.dirname(os.path.dirname(python))], check=True)
    check = "import importlib.metadata as m; print(m.version('llama-cpp-python'))"
    done = subprocess.run([python, "-c", check], capture_output=True, text=True)
    if done.stdout.strip() == PEER_VERSION:
        return python
    os.makedirs(wheels, exist_ok=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    package = f"llama-cpp-python=={PEER_VERSION}"
    if not any(name.startswith("llama_cpp_python-" + PEER_VERSION) for name in os.listdir(wheels)):
        print("Compiling llama.cpp (once)", file=sys.stderr)
        options = ["-DGGML_NATIVE=ON", "-DMTMD_BUILD=OFF"]
        if platform.machine() == "x86_64":
            # AMX faults on virtual machines that announce it and don't allow it.
            flags = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
            options += [f"-DCMAKE_C_FLAGS='{flags}'", f"-DCMAKE_CXX_FLAGS='{flags}'"]
        env = dict(os.environ, CMAKE_ARGS=" ".join(options))
        env.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count()))
        start = time.time()
        command = ["nice", "-n", "19"] + pip + ["wheel", "-q", "--no-deps", "-w", wheels, package]
        subprocess.run(command, check=True, env=env)
        print(f"Compiled in {time.time() - start:.0f} s", file=sys.stderr)
    subprocess.run(pip + ["install", "-q", "--find-links", wheels, package], check=True)
    return python


def peer_run(model, threads, n_prompt, n_gen):
    """Inside the peer's Python: prints its tokens per second as JSON."""
    import ctypes

    import llama_cpp as lc

    silent = lc.llama_log_callback(lambda *_: None)
    lc.llama_log_set(silent, ctypes.c_void_p(0))
    lc.llama_backend_init()
    params = lc.llama_model_default_params()
    params.n_gpu_layers = 0
    handle = lc.llama_model_load_from_file(model.encode(), params)
    options = lc.llama_context_default_params()
    options.n_ctx = max(4096, n_prompt + n_gen)
    options.n_batch = options.n_ubatch = 512
    options.n_threads = options.n_threads_batch = threads
    options.flash_attn_type = lc.LLAMA_FLASH_ATTN_TYPE_ENABLED
    context = lc.llama_init_from_model(handle, options)
    if not handle or not context:
        sys.exit("llama.cpp could not open the model")
    memory = lc.llama_get_memory(context)
    n_vocab = lc.llama_vocab_n_tokens(lc.llama_model_get_vocab(handle))

    def evaluate(ids):
        array = (lc.llama_token * len(ids))(*ids)
        if lc.llama_decode(context, lc.llama_batch_get_one(array, len(ids))) != 0:
            sys.exit("llama.cpp could not evaluate")

    def seconds(n, step):
        lc.llama_synchronize(context)
        start = time.perf_counter()
        for i in range(0, n, step):
            evaluate([(1000 + 7 * (i + k)) % n_vocab for k in range(min(step, n - i))])
        lc.llama_synchronize(context)
        return time.perf_counter() - start

    seconds(n_prompt, 512)
    seconds(8, 1)
    lc.llama_memory_clear(memory, True)
    prompt = n_prompt / seconds(n_prompt, 512)
    lc.llama_memory_clear(memory, True)
    print(json.dumps({"prompt": prompt, "generate": n_gen / seconds(n_gen, 1)}))


def pumice_run(arguments):
    command = [PUMICE, "bench", arguments.model, "--device", "cpu", "-o", "json", "--repeat", "1"]
    command += ["--threads", str(arguments.threads)]
    command += ["--prompt", str(arguments.prompt), "--gen", str(arguments.gen)]
    results = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["results"]
    return {result["kind"]: result["median_tps"] for result in results}


def llama_run(arguments, python):
    command = [python, os.path.abspath(__file__), "--as-peer", arguments.model]
    command += ["--threads", str(arguments.threads)]
    command += ["--prompt", str(arguments.prompt), "--gen", str(arguments.gen)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def default_model():
    path = os.path.join(PEER, "SmolLM2-135M-Instruct.Q8_0.gguf")
    if not os.path.exists(path):
        os.makedirs(PEER, exist_ok=True)
        fetch = [sys.executable, os.path.join(ROOT, "tools", "fetch_model"), "smollm2"]
        source = subprocess.run(fetch, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        subprocess.run([PUMICE, "quantize", source, path, "q8_0"], check=True)
    return path


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--gen", type=int, default=128)
    parser.add_argument("--need", type=float)
    parser.add_argument("--json")
    parser.add_argument("--as-peer", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.as_peer:
        return peer_run(arguments.model, arguments.threads, arguments.prompt, arguments.gen)

    if not os.path.exists(PUMICE):
        sys.exit("build first: tools/quickstart, or cmake --preset release && cmake --build build/release")
    python = peer_python()
    if os.getloadavg()[0] > 0.7:
        print(
            f"The machine is busy (load {os.getloadavg()[0]:.1f}): the figures will mean little",
            file=sys.stderr,
        )
    arguments.model = arguments.model or default_model()
    samples = {"pumice": [], "llama.cpp": []}
    for i in range(arguments.rounds):
        samples["pumice"].append(pumice_run(arguments))
        samples["llama.cpp"].append(llama_run(arguments, python))
        print(f"round {i + 1} of {arguments.rounds}", file=sys.stderr)

    print(f"{os.path.basename(arguments.model)}, {arguments.threads} threads, tokens/s (median of {arguments.rounds})")
    print(f"{'':20}{'pumice':>10}{'llama.cpp':>12}{'ratio':>8}")
    ratios = {}
    for kind, title in ("prompt", f"prefill {arguments.prompt}"), ("generate", f"decode {arguments.gen}"):
        ours, theirs = (statistics.median(s[kind] for s in samples[who]) for who in samples)
        ratios[kind] = ours / theirs
        print(f"{title:20}{ours:10.1f}{theirs:12.1f}{ratios[kind]:8.2f}")
    if arguments.json:
        with open(arguments.json, "w") as out:
            json.dump({"samples": samples, "ratios": ratios, "peer": PEER_VERSION}, out, indent=1)
    return 1 if arguments.need and min(ratios.values()) < arguments.need else 0


if __name__ == "__main__":
    sys.exit(main())
