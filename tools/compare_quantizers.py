#!/usr/bin/env python3
"""pumice's encoders against llama.cpp's (ggml's) on the same numbers.

    tools/compare_quantizers.py [--values 262144] [--need 1.02] [MODEL.gguf...]

Numbers: made-up ones (several distributions, a fixed seed), and the first `--values` of some
matrices of each MODEL, decoded (default: the models of tools/fetch_model that are there already).
All of them go into one F32 file, which `pumice quantize` rewrites; ggml_quantize_chunk encodes the
same numbers without an importance matrix. The formats with blocks of 32 and the plain ones must
give the same bytes. Of Q4_K and Q6_K the squared errors are compared, plain and with the weights
that ggml's own search uses (Q4_K: sqrt of the block's mean square + |x|, Q6_K: x squared); the plain
ratio decides. Exit status 1 where bytes differ or a ratio is above --need. llama.cpp comes as in
tools/compare_llama.py.
"""
import argparse
import glob
import importlib.util
import os
import subprocess
import sys
import tempfile

TOOLS = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(TOOLS)
PUMICE = os.path.join(ROOT, "build", "release", "pumice")
SAME_BYTES = ("F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")
SAME_ERROR = ("Q4_K", "Q6_K")
COLUMNS = 1024


def peer_python():
    """A Python that has llama.cpp's libraries and the package gguf."""
    spec = importlib.util.spec_from_file_location("compare_llama", os.path.join(TOOLS, "compare_llama.py"))
    compare_llama = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compare_llama)
    python = compare_llama.peer_python()
    if subprocess.run([python, "-c", "import gguf"], stderr=subprocess.DEVNULL).returncode != 0:
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "-q", "gguf"]
        subprocess.run(pip, check=True)
    return python


# ---- the numbers ------------------------------------------------------------------------------


def made_up(n):
    import numpy as np

    random = np.random.default_rng(1)
    normal = random.standard_normal(n)
    index = np.arange(n)
    yield "gauss", normal / 32
    yield "heavy tails (cubes)", normal**3
    yield "uniform", random.uniform(-1, 1, n)
    yield "laplace", random.laplace(0, 0.02, n)
    yield "positive", np.abs(normal)
    yield "shifted by sub-block", normal + index // 32 % 5 - 2
    yield "uneven sub-blocks", normal * (1 + index // 16 % 13)
    yield "outliers, one of 97", np.where(index % 97 == 13, 16 * normal, normal)


def decoded(data, kind, n):
    import numpy as np
    from gguf.quants import dequantize

    rows = data.reshape(-1, data.shape[-1])
    values = dequantize(rows[: max(1, n // 64)], kind).reshape(-1)[:n]
    return np.pad(values, (0, -len(values) % COLUMNS)) if len(values) else values


def of_model(path, n, n_matrices=6):
    from gguf import GGUFReader

    matrices = [t for t in GGUFReader(path).tensors if len(t.shape) == 2 and t.shape[0] % 32 == 0]
    step = max(1, len(matrices) // n_matrices)
    for tensor in matrices[::step][: n_matrices + 1]:
        name = os.path.basename(path).split(".")[0] + " " + tensor.name.removesuffix(".weight")
        yield f"{name} ({tensor.tensor_type.name})", decoded(tensor.data, tensor.tensor_type, n)


def numbers(arguments):
    import numpy as np

    found = list(made_up(arguments.values))
    for path in arguments.model:
        found += of_model(path, arguments.values)
    return [(name, values.astype(np.float32)) for name, values in found]


# ---- both sides -------------------------------------------------------------------------------


def pumice_blocks(all_numbers, kind, folder):
    """The tensors that pumice makes of the numbers, as bytes."""
    import gguf

    source, result = os.path.join(folder, "in.gguf"), os.path.join(folder, "out.gguf")
    if not os.path.exists(source):
        writer = gguf.GGUFWriter(source, "llama")
        for i, (_, values) in enumerate(all_numbers):
            writer.add_tensor(f"t{i}.weight", values.reshape(-1, COLUMNS))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    subprocess.run([PUMICE, "quantize", source, result, kind.lower(), "-q"], check=True)
    tensors = gguf.GGUFReader(result).tensors
    assert all(t.tensor_type.name == kind for t in tensors)
    return [t.data.tobytes() for t in tensors]


def ggml():
    import ctypes

    import llama_cpp

    path = os.path.join(os.path.dirname(llama_cpp.__file__), "lib", "libggml-base.so")
    library = ctypes.CDLL(path)
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    library.ggml_quantize_chunk.argtypes = [ctypes.c_int] + 2 * [ctypes.c_void_p] + 3 * [
        ctypes.c_int64
    ] + [ctypes.c_void_p]
    return library


def ggml_blocks(library, values, kind):
    import ctypes

    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    number = GGMLQuantizationType[kind]
    block, n_bytes = GGML_QUANT_SIZES[number]
    out = ctypes.create_string_buffer(len(values) // block * n_bytes)
    source = values.ctypes.data_as(ctypes.c_void_p)
    library.ggml_quantize_chunk(int(number), source, out, 0, len(values) // COLUMNS, COLUMNS, None)
    return out.raw


def errors(values, blocks, kind):
    """Squared error, plain and weighted as ggml's search is."""
    import numpy as np
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    back = dequantize(np.frombuffer(blocks, np.uint8), GGMLQuantizationType[kind]).reshape(-1)
    x = values.astype(np.float64)
    squares = (x - back) ** 2
    if kind == "Q4_K":
        sub = x.reshape(-1, 32)
        weights = (np.sqrt((sub**2).mean(1, keepdims=True)) + np.abs(sub)).reshape(-1)
    else:
        weights = x**2
    return squares.sum(), (squares * weights).sum()


def compare(arguments):
    library = ggml()
    all_numbers = numbers(arguments)
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind in SAME_BYTES:
            ours = pumice_blocks(all_numbers, kind, folder)
            same = [a == ggml_blocks(library, v, kind) for a, (_, v) in zip(ours, all_numbers)]
            print(f"{kind}: the same bytes in {sum(same)} of {len(same)} tensors")
            bad += len(same) - sum(same)
        print(f"\n{'squared error, pumice / ggml':54}" + "".join(f"{k:>8}{'weighted':>10}" for k in SAME_ERROR))
        blocks = {kind: pumice_blocks(all_numbers, kind, folder) for kind in SAME_ERROR}
    for i, (name, values) in enumerate(all_numbers):
        line = f"{name:54}"
        for kind in SAME_ERROR:
            ours = errors(values, blocks[kind][i], kind)
            theirs = errors(values, ggml_blocks(library, values, kind), kind)
            ratio = [a / b if b else float(a > 0) for a, b in zip(ours, theirs)]
            line += f"{ratio[0]:8.4f}{ratio[1]:10.4f}"
            bad += not ratio[0] <= arguments.need
        print(line, flush=True)
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="*")
    parser.add_argument("--values", type=int, default=1 << 18)
    parser.add_argument("--need", type=float, default=1.02)
    parser.add_argument("--as-peer", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.as_peer:
        return compare(arguments)
    if not os.path.exists(PUMICE):
        sys.exit("build first: tools/quickstart, or cmake --preset release && cmake --build build/release")
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    models = arguments.model or sorted(glob.glob(os.path.join(data, "pumice", "models", "*.gguf")))
    command = [peer_python(), os.path.abspath(__file__), "--as-peer", *models]
    command += ["--values", str(arguments.values), "--need", str(arguments.need)]
    return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main())
