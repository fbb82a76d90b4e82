#!/usr/bin/env python3
"""Measures every format of the weights and writes docs/formats.md.

    tools/measure_formats.py [--only Q8_0,Q4_K] [--threads 2] [--vulkan PROGRAM]

For each format make_model writes the same small model (random weights: a format's speed does not
depend on them) into build/formats. `pumice bench` and llama.cpp (as in tools/compare_llama.py) then
evaluate a prompt and generate on it, one program after the other; each figure is the best
of all runs so far, which other work on the machine disturbed least. Results are kept in
build/formats/results.json, so that a few formats at a time can be measured, and again; the page is
written from all that are there, and keeps the cells that it has where nothing is.

    --vulkan PROGRAM  also decodes on the software driver, with a pumice that was built with
                      -DPUMICE_VULKAN=ON; a format that the executor refuses is left out
    --write           only writes the page again
    --fresh           forgets earlier results of the formats that are measured
    --measured TEXT   what the page says of when and at which state its columns were measured;
                      without it that stays as it is
"""
import argparse
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys

TOOLS = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(TOOLS)
RELEASE = os.path.join(ROOT, "build", "release")
FOLDER = os.path.join(ROOT, "build", "formats")
RESULTS = os.path.join(FOLDER, "results.json")
PAGE = os.path.join(ROOT, "docs", "formats.md")
SHAPE = "--arch llama --layers 8 --embd 1024 --heads 16 --kv-heads 4 --ff 2816 --vocab 4096 --ctx 1024"
N_PROMPT, N_GEN, N_GEN_VULKAN = 128, 48, 6


def formats():
    """Names, block sizes and encoders, from the table in src/quant/quant.c."""
    row = re.compile(r"^    \{QUANT_\w+, +\"(\w+)\", +(\d+), +(\d+), \w+, +(\w+)\},$", re.M)
    with open(os.path.join(ROOT, "src", "quant", "quant.c")) as file:
        rows = row.findall(file.read())
    return {
        name: {"bits": 8 * int(size) / int(values), "encoder": encoder != "NULL"}
        for name, values, size, encoder in rows
    }


def compare_llama():
    spec = importlib.util.spec_from_file_location("compare_llama", os.path.join(TOOLS, "compare_llama.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def model_of(name):
    path = os.path.join(FOLDER, f"{name}.gguf")
    if not os.path.exists(path):
        command = [os.path.join(RELEASE, "make_model"), *SHAPE.split(), "--tied"]
        subprocess.run(command + ["--type", name, "--embd-type", "Q8_0", "-o", path], check=True)
    return path


def bench(program, model, device, n_prompt, n_gen, arguments):
    """Tokens per second by kind; None where the format is refused (status 3 or 4)."""
    command = [program, "bench", model, "--device", device, "-o", "json", "-q"]
    command += ["--prompt", str(n_prompt), "--gen", str(n_gen), "--repeat", str(arguments.repeat)]
    command += ["--threads", str(arguments.threads), "--ctx", "512"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode in (3, 4):
        return None
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return {r["kind"]: max(r["samples_tps"]) for r in json.loads(done.stdout)["results"]}


def peer(model, arguments, python):
    command = [python, os.path.join(TOOLS, "compare_llama.py"), "--as-peer", model]
    command += ["--threads", str(arguments.threads), "--prompt", str(N_PROMPT), "--gen", str(N_GEN)]
    runs = []
    for _ in range(arguments.repeat):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            return None  # it lacks the format
        runs.append(json.loads(done.stdout))
    return {kind: max(run[kind] for run in runs) for kind in runs[0]}


def best(old, new):
    """Tokens per second of both, by kind; None: refused."""
    if not old or not new:
        return new
    return {kind: max(new[kind], old.get(kind, 0)) for kind in new}


def load_results():
    if not os.path.exists(RESULTS):
        return {}
    with open(RESULTS) as file:
        return json.load(file)


def measure(names, arguments):
    python = compare_llama().peer_python()
    results = load_results()
    for name in names:
        model = model_of(name)
        row = {} if arguments.fresh else results.get(name, {})
        results[name] = row
        row["bytes"] = os.path.getsize(model)
        if arguments.vulkan:
            found = bench(arguments.vulkan, model, "vulkan:0", 0, N_GEN_VULKAN, arguments)
            row["vulkan"] = best(row.get("vulkan"), found)
        else:
            program = os.path.join(RELEASE, "pumice")
            found = bench(program, model, "cpu", N_PROMPT, N_GEN, arguments)
            row["cpu"] = best(row.get("cpu"), found)
            row["peer"] = best(row.get("peer"), peer(model, arguments, python))
        with open(RESULTS, "w") as file:
            json.dump(results, file, indent=1)
        print(name, json.dumps(row), file=sys.stderr, flush=True)


# ---- the page ---------------------------------------------------------------------------------


def figure(row, who, kind):
    return (row.get(who) or {}).get(kind)


def ratio(a, b):
    return f"{a / b:.2f}" if a and b else "–"


def number(x):
    return "–" if not x else f"{x:.0f}" if x >= 10 else f"{x:.1f}"


def page_rows():
    """The rows of the page as it is, by format, and what it says of when they were measured."""
    if not os.path.exists(PAGE):
        return {}, ""
    with open(PAGE) as page:
        text = page.read()
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in text.splitlines() if row.startswith("| ")]
    measured = re.search(r"^Measured: (.*?)\n\n", text, re.M | re.S)
    return {row[0]: row for row in rows}, measured.group(1) if measured else ""


def line(name, about, row, base, old):
    ours, theirs = (figure(row, who, "generate") for who in ("cpu", "peer"))
    gpu = figure(row, "vulkan", "generate")
    cells = [name, f"{about['bits']:.4g}", "yes" if about["encoder"] else "–"]
    cells += [number(ours), ratio(ours, figure(base, "cpu", "generate")), ratio(ours, theirs)]
    fill, their_fill = (figure(row, who, "prompt") for who in ("cpu", "peer"))
    cells += [number(fill), ratio(fill, figure(base, "cpu", "prompt")), ratio(fill, their_fill)]
    if "cpu" not in row and old:
        cells = old[:9]
    if "vulkan" not in row and old:
        cells += old[9:]
    elif "vulkan" in row and gpu is None:
        cells += ["refused", "–"]
    else:
        cells += [number(gpu), ratio(gpu, figure(base, "vulkan", "generate"))]
    return "| " + " | ".join(cells) + " |\n"


def processor():
    with open("/proc/cpuinfo") as file:
        names = re.findall(r"^model name\s*: (.*)$", file.read(), re.M)
    return names[0] if names else platform.processor()


def write_page(arguments):
    results, all_formats = load_results(), formats()
    old, measured = page_rows()
    base = results.get("Q8_0", {})
    titles = ["format", "bits a weight", "`quantize` writes it", "cpu decode, tokens/s", "to Q8_0"]
    titles += ["to llama.cpp", "cpu prefill, tokens/s", "to Q8_0", "to llama.cpp"]
    titles += ["lavapipe decode, tokens/s", "to Q8_0"]
    with open(PAGE, "w") as page:
        page.write(
            "# Formats\n\n"
            "Written by `tools/measure_formats.py`; the table of formats is `src/quant/quant.c`. All of them run on\n"
            "`reference` and `cpu`; `vulkan` refuses some, with the list of those it takes.\n\n"
            f"Decode: {N_GEN} tokens one by one; prefill: {N_PROMPT} tokens at once, both from an empty cache. The model is\n"
            "the same for all rows but for the format of its matrices: random weights, 94 million of them, 4 of these in\n"
            f"the token table, which is always Q8_0 (`make_model {SHAPE} --tied`).\n"
            f"{processor()}, {arguments.threads} threads; the best of several runs.\n\n"
            "\"To llama.cpp\" is pumice's speed over llama.cpp's (llama-cpp-python "
            f"{compare_llama().PEER_VERSION}, flash attention, see\n`docs/long-tests.md`) on the same file. "
            "Lavapipe runs Vulkan on the processor: its column says which formats work\nand what their decoding costs "
            "there, nothing about a GPU.\n\n"
            "In memory the cpu keeps weights in the order of its kernels. Of the codebooks (IQ1 to IQ3) these are\n"
            "no longer indices of whole vectors but of single values, of 3 bits (IQ1, IQ2) or 4 (IQ3): they take 3.4 to 4.4\n"
            "bits a weight there, more than in the file. The others take what they do in the file or up to 6 % more, TQ1_0 a\n"
            "quarter.\n\n"
        )
        if arguments.measured or measured:
            page.write(f"Measured: {arguments.measured or measured}\n\n")
        page.write("| " + " | ".join(titles) + " |\n|" + " --- |" + " ---: |" * (len(titles) - 1) + "\n")
        for name, about in all_formats.items():
            page.write(line(name, about, results.get(name, {}), base, old.get(name)))
    print(PAGE)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--vulkan")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--measured")
    arguments = parser.parse_args()
    names = arguments.only.split(",") if arguments.only else list(formats())
    unknown = [name for name in names if name not in formats()]
    if unknown:
        parser.error(f"no such format: {', '.join(unknown)}")
    os.makedirs(FOLDER, exist_ok=True)
    if not arguments.write:
        measure(names, arguments)
    write_page(arguments)


if __name__ == "__main__":
    main()
