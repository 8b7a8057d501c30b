#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two builds of the program give the same results: every number of their JSON to 1e-12, everything else exactly (make test-arm64).

    same_numbers.py PROGRAM OTHER
"""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

TOLERANCE = 1e-12
DATA = pathlib.Path(__file__).resolve().parents[2] / "data"
GB200 = "--cluster gb200-nvl72"
COMMANDS = [
    "simulate --model llama3-8b --cluster dgx-h100 --tp 2",
    "simulate --model gpt3-175b --cluster hgx-h200 --nodes 4 --tp 8 --pp 4 --gbs 128",
    "simulate --model gpt3-175b --cluster hgx-h200 --nodes 4 --tp 8 --pp 4 --gbs 128 --duration 2min --fault gpu=3,power=0.25@30s..60s",
    f"simulate --model llama3-405b {GB200} --nodes 18 --tp 8 --pp 9 --gbs 144 --recompute full --tokens 15T",
    f"simulate --model llama3-70b {GB200} --nodes 4 --tp 4 --pp 2 --gbs 64 --precision fp8 --duration 1min",
    f"simulate --model deepseek-v3 {GB200} --nodes 18 --ep 8 --pp 9 --layers-per-stage 7,7,7,7,7,7,7,6,6 --gbs 512 --recompute full",
    f"simulate --model qwen3-30b-a3b {GB200} --nodes 2 --ep 8 --gbs 128",
    "simulate --model mixtral-8x7b --cluster mi300x --nodes 2 --ep 8 --gbs 64",
    "simulate --task decode --model llama3-70b --cluster hgx-h200 --tp 8 --mbs 64",
    f"plan --model llama3-70b {GB200} --nodes 4 --gbs 128",
    "characterize paper/h200",
]


def results(program, command):
    with tempfile.TemporaryDirectory() as folder:
        into = ["-o", folder] if command.startswith("characterize") else []
        done = subprocess.run([program, *command.split(), "--format", "json", *into], capture_output=True, text=True,
                              env={**os.environ, "TRIPLEPOINT_DATA": str(DATA)})
        if done.returncode != 0:
            sys.exit(f"{program} {command}: exit code {done.returncode}\n{done.stderr}")
        found = json.loads((pathlib.Path(folder) / "results.json").read_text() if into else done.stdout)
    if isinstance(found, dict) and found.get("verdict") == "oom":
        sys.exit(f"{command}: the job does not fit in memory; choose another")
    return found


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def pairs(one, other, path="results", scale=0):
    """(path, value, value of the other, scale) of all that is no list and no object. A term of a step is a difference of times, so the
    scale of its difference is the largest term; that of other numbers is their own size."""
    if isinstance(one, dict) and isinstance(other, dict) and list(one) == list(other):
        scale = max(map(abs, one.values())) if path.endswith("terms_s") else 0
        for key in (key for key in one if key != "job_digest"):  # of the program's file
            yield from pairs(one[key], other[key], f"{path}.{key}", scale)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, both in enumerate(zip(one, other)):
            yield from pairs(*both, f"{path}[{index}]")
    else:
        yield path, one, other, scale


def difference(one, other, scale):
    """Relative difference of numbers; of other values 0 if they are equal."""
    if one == other:
        return 0
    return abs(one - other) / max(abs(one), abs(other), scale) if is_number(one) and is_number(other) else math.inf


def compare(programs, command):
    begin = time.monotonic()
    found = [(difference(one, other, scale), path, one, other)
             for path, one, other, scale in pairs(*(results(program, command) for program in programs))]
    numbers = sum(is_number(one) for _, _, one, _ in found)
    unequal = sum(entry[0] != 0 for entry in found)
    worst = max(found, key=lambda entry: entry[0])
    print(f"{time.monotonic() - begin:6.1f} s  {numbers:6d} numbers, {unequal:4d} differ, by {worst[0]:.1e} at most  {command}", flush=True)
    return [f"{path}: {one} and {other}" for size, path, one, other in found if size > TOLERANCE]


def main(programs):
    failed = 0
    for command in COMMANDS:
        problems = compare(programs, command)
        failed += len(problems)
        print("\n".join(problems[:10]), end="\n" if problems else "")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
