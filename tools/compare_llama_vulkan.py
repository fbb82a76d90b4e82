#!/usr/bin/env python3
"""Speed of pumice's Vulkan path against llama.cpp's Vulkan backend, on the same driver and file, in
one run.

    tools/compare_llama_vulkan.py [--rounds 3] [--prompt 512] [--gen 16] [--act f32] [MODEL.gguf]

Without MODEL: SmolLM2-135M-Instruct, rewritten as Q8_0 by `pumice quantize`. llama.cpp is what the
npm package node-llama-cpp has prebuilt for Vulkan (needs node and npm; kept in build/peer/node).
The driver is lavapipe, or the one that --icd names; llama.cpp is told to use its device although it
is no real GPU, and the run ends where it does not. Each round runs one program after the other in
fresh processes, so that both see the same machine; the medians and their ratios are printed.
Prefill is --prompt tokens in batches of up to 512, decode is --gen tokens one by one, both from an
empty cache, after a warm-up of one batch and two tokens, in which drivers compile.

    --skip-peer-prefill  the peer's prefill alone takes minutes on a driver without a GPU
    --need X             exit status 1 when a ratio is below X
    --json FILE          writes every figure
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from compare_llama import PEER, PUMICE, default_model  # noqa: E402

NODE = os.path.join(PEER, "node")
PEER_VERSION = "3.22.1"  # of node-llama-cpp

PEER_SCRIPT = """
import {getLlama} from "node-llama-cpp";
const [model_path, n_prompt, n_gen] = process.argv.slice(2);
const llama = await getLlama({gpu: "vulkan", build: "never", skipDownload: true, logLevel: "error"});
const devices = await llama.getGpuDeviceNames();
const ignoreMemorySafetyChecks = true;
const model = await llama.loadModel({modelPath: model_path, gpuLayers: 999, ignoreMemorySafetyChecks});
const context = await model.createContext({contextSize: 1024, batchSize: 512, flashAttention: true,
                                           ignoreMemorySafetyChecks});
const sequence = context.getSequence();
async function seconds(n, step) {
    await sequence.clearHistory();
    const start = performance.now();
    for (let i = 0; i < n; i += step) {
        const ids = [];
        for (let k = i; k < Math.min(i + step, n); k++) ids.push(1000 + 7 * k);
        await sequence.evaluateWithoutGeneratingNewTokens(ids);
    }
    return (performance.now() - start) / 1000;
}
const result = {devices, gpu: llama.gpu, release: llama.llamaCppRelease.release};
await seconds(32, 32);
await seconds(2, 1);
if (+n_prompt) {
    result.prompt = n_prompt / await seconds(+n_prompt, 512);
}
result.generate = n_gen / await seconds(+n_gen, 1);
console.log(JSON.stringify(result));
process.exit(0);
"""


def peer_script():
    """The peer's program beside its packages, fetched on first use."""
    package = os.path.join(NODE, "node_modules", "node-llama-cpp", "package.json")
    found = json.load(open(package))["version"] if os.path.exists(package) else None
    if found != PEER_VERSION:
        os.makedirs(NODE, exist_ok=True)
        print("Fetching node-llama-cpp (once)", file=sys.stderr)
        names = ["node-llama-cpp", "@node-llama-cpp/linux-x64-vulkan"]
        command = ["npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"]
        command += ["--omit=optional", "--prefix", NODE]
        subprocess.run(command + [f"{name}@{PEER_VERSION}" for name in names], check=True)
    script = os.path.join(NODE, "peer.mjs")
    with open(script, "w") as out:
        out.write(PEER_SCRIPT)
    return script


def environment(icd):
    """That of both programs: one driver, and no choice that leaves it out."""
    return dict(os.environ, VK_DRIVER_FILES=icd, VK_ICD_FILENAMES=icd, GGML_VK_VISIBLE_DEVICES="0")


def last_json(text):
    return json.loads(text.strip().splitlines()[-1])


def peer_run(arguments, script):
    n_prompt = 0 if arguments.skip_peer_prefill else arguments.prompt
    command = ["node", script, arguments.model, str(n_prompt), str(arguments.gen)]
    done = subprocess.run(command, env=environment(arguments.icd), stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit("llama.cpp's Vulkan backend could not be run")
    result = last_json(done.stdout)
    if result["gpu"] != "vulkan" or not result["devices"]:
        sys.exit("llama.cpp did not use the Vulkan driver")
    return result


def pumice_run(arguments):
    command = [PUMICE, "bench", arguments.model, "--device", "vulkan:0", "-o", "json"]
    command += ["--repeat", "1", "--act", arguments.act]
    command += ["--prompt", str(arguments.prompt), "--gen", str(arguments.gen)]
    done = subprocess.run(command, env=environment(arguments.icd), stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit("pumice could not be run on the Vulkan driver (is it built with it?)")
    return json.loads(done.stdout)


def lavapipe():
    found = sorted(glob.glob("/usr/share/vulkan/icd.d/lvp_icd*.json"))
    return found[0] if found else sys.exit("no lavapipe here (mesa-vulkan-drivers); name a driver with --icd")


def measure(arguments, script):
    """Samples of both by kind; what the peer said about itself."""
    samples = {"pumice": {}, "llama.cpp": {}}
    for i in range(arguments.rounds):
        for result in pumice_run(arguments)["results"]:
            samples["pumice"].setdefault(result["kind"], []).append(result["median_tps"])
        about = peer_run(arguments, script)
        for kind in "prompt", "generate":
            if kind in about:
                samples["llama.cpp"].setdefault(kind, []).append(about[kind])
        print(f"round {i + 1} of {arguments.rounds}", file=sys.stderr)
    return samples, about


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--gen", type=int, default=16)
    parser.add_argument("--act", default="auto", choices=["auto", "f32", "q8"])
    parser.add_argument("--icd")
    parser.add_argument("--skip-peer-prefill", action="store_true")
    parser.add_argument("--need", type=float)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    if not os.path.exists(PUMICE):
        sys.exit("build first, with -DPUMICE_VULKAN=ON: cmake --preset release && cmake --build build/release")
    arguments.icd = arguments.icd or lavapipe()
    arguments.model = os.path.abspath(arguments.model or default_model())
    script = peer_script()
    if os.getloadavg()[0] > 0.7:
        print(
            f"The machine is busy (load {os.getloadavg()[0]:.1f}): the figures will mean little",
            file=sys.stderr,
        )
    samples, about = measure(arguments, script)

    print(f"{os.path.basename(arguments.model)}, act={arguments.act}, tokens/s (median of {arguments.rounds})")
    print(f"peer: node-llama-cpp {PEER_VERSION}, llama.cpp {about['release']}, on {', '.join(about['devices'])}")
    print(f"{'':20}{'pumice':>10}{'llama.cpp':>12}{'ratio':>8}")
    ratios = {}
    for kind, title in ("prompt", f"prefill {arguments.prompt}"), ("generate", f"decode {arguments.gen}"):
        ours = statistics.median(samples["pumice"][kind])
        if kind not in samples["llama.cpp"]:
            print(f"{title:20}{ours:10.1f}{'-':>12}")
            continue
        theirs = statistics.median(samples["llama.cpp"][kind])
        ratios[kind] = ours / theirs
        print(f"{title:20}{ours:10.1f}{theirs:12.1f}{ratios[kind]:8.2f}")
    own = statistics.median(samples["pumice"]["prompt"]) / statistics.median(samples["pumice"]["generate"])
    print(f"prefill by decode, pumice: {own:.2f}")
    if arguments.json:
        with open(arguments.json, "w") as out:
            json.dump({"samples": samples, "ratios": ratios, "peer": about}, out, indent=1)
    # A kind that the peer did not measure shows nothing: with --need that is a failure too.
    return 1 if arguments.need and (len(ratios) < 2 or min(ratios.values()) < arguments.need) else 0


if __name__ == "__main__":
    sys.exit(main())
