#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs commands of every kind with two programs and compares what they print for machines, key by key.

    same_results.py OLD NEW [--tolerance 0] [--only WORD]

OLD and NEW are programs, each beside its own data. Keys that one side lacks, and numbers that differ by more than the tolerance (relative),
are listed by command; the exit code is 1 if there are any.
"""
import argparse
import concurrent.futures
import csv
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
H200 = "--cluster hgx-h200 --nodes 4"
H100 = "--cluster hgx-h100 --nodes 8"
GPT3 = f"--model gpt3-175b {H200} --gbs 128"
SIMULATIONS = [f"simulate {job}" for job in (
    f"{GPT3} --tp 8 --pp 4", f"{GPT3} --tp 2 --pp 16", f"{GPT3} --tp 8 --pp 4 --recompute full", f"{GPT3} --tp 4 --pp 8 --vpp 2",
    f"{GPT3} --tp 8 --pp 4 --sequence-parallel --stack nemo-profiled", f"{GPT3} --tp 8 --pp 2 --sharding optimizer",
    f"{GPT3} --tp 8 --sharding parameters --recompute full", f"{GPT3} --tp 8 --pp 4 --power-limit 500W",
    f"{GPT3} --tp 8 --pp 4 --power-limit 350W --ambient 40C", f"{GPT3} --tp 8 --pp 4 --fault node=1,fan=0.5",
    f"{GPT3} --tp 8 --pp 4 --fault gpu=3,power=0.5", f"{GPT3} --tp 8 --pp 4 --duration 2min --ambient 38C",
    f"{GPT3} --tp 8 --pp 4 --steps 5", f"{GPT3} --tp 8 --pp 4 --tokens 300B", f"{GPT3} --tp 8 --pp 4 --power-profile",
    f"{GPT3} --tp 2 --pp 2", f"--model llama3-70b {H200} --gbs 128 --tp 4 --pp 4 --sequence-parallel",
    f"--model llama3-70b {H100} --gbs 256 --tp 8 --pp 2 --cp 2 --overlap tp,dp",
    f"--model llama3-8b {H100} --gbs 512 --tp 1 --sharding parameters", f"--model llama3-70b {H200} --gbs 128 --tp 4 --pp 4 --lora-rank 16",
    f"--model llama3-70b {H200} --gbs 64 --tp 8 --task prefill", f"--model llama3-70b {H200} --gbs 64 --tp 8 --task decode",
    f"--model mixtral-8x7b {H200} --gbs 128 --tp 2 --ep 8", f"--model mixtral-8x22b {H200} --gbs 128 --tp 4 --ep 8",
    f"--model mixtral-8x7b {H100} --gbs 256 --ep 8 --pp 4", "--model gpt3-30b --cluster mi250 --nodes 4 --gbs 64 --tp 4 --pp 2",
    "--model llama3-70b --cluster mi300x --nodes 2 --gbs 64 --tp 8", "--model llama3-8b --cluster dgx-a100 --nodes 4 --gbs 128 --tp 2 --pp 2",
    "--model gpt3-175b --cluster dgx-h100 --nodes 128 --gbs 1024 --tp 8 --pp 8", "--model llama3-8b --cluster dgx-b200 --nodes 2 --gbs 64 --tp 2",
    f"--model deepseek-v3 --cluster dgx-h100 --nodes 64 --gbs 1024 --ep 32", f"{GPT3} --tp 8 --pp 4 --schedule gpipe",
    f"{GPT3} --tp 8 --pp 4 --schedule zero-bubble", f"--model llama3-70b {H200} --gbs 128 --tp 8 --pp 4 --precision fp8",
    f"{GPT3} --tp 8 --pp 4 --stack eager-pytorch", f"{GPT3} --tp 8 --pp 4 --seed 7",
)]
OTHERS = [
    f"plan --model llama3-70b {H200} --gbs 128 --tokens 300B", f"plan --model mixtral-8x7b {H200} --gbs 128 --top 3",
    f"plan --model llama3-70b {H200} --gbs 128 --objective energy", "plan --model llama3-8b --cluster mi300x --nodes 2 --gbs 128",
    f"plan --model llama3-70b {H200} --gbs 128 --fix tp=8 --explain 1,2", f"place {GPT3} --tp 2 --pp 16",
    "validate validation/dgxc-h100/jobs.csv", "validate validation/torchtitan/jobs.csv", "validate validation/hf-h100-sweep/jobs.csv",
    "validate validation/nemo-2407-h100/jobs.csv", "list models", "list gpus", "list clusters", "show h200", "show gpt3-175b",
    "compare {A} {B}", "compare {A} {B} {C}", "trace breakdown {A}", "trace overlap {A}", "trace comm {A}", "trace critical-path {A}",
    "trace diff {A} {B}", "export {A} --toml", "import examples/pretrain_llama.sh",
]
STUDIES = ["what-if/inlet", "paper/lora", "what-if/links"]
# What differs by its nature: versions, folders, times.
IGNORED = re.compile(r"producer|numbers$|written|files\[|digest|revision|\.source$|page$")


def leaves(value, path=""):
    """(path, number or text) of everything below."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{index}]")
    else:
        yield path, value


def as_object(text):
    """JSON, or CSV as a list of rows; anything else as text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return list(csv.DictReader(io.StringIO(text))) if "," in text.split("\n", 1)[0] else text


def is_same(a, b, tolerance):
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and not isinstance(a, bool) and not isinstance(b, bool):
        return a == b or abs(a - b) <= tolerance * max(abs(a), abs(b))
    return a == b


def differences(old, new, tolerance):
    """(path, old, new); None where a side lacks the path."""
    left, right = dict(leaves(old)), dict(leaves(new))
    for path in sorted(left.keys() | right.keys()):
        if not IGNORED.search(path) and not is_same(left.get(path), right.get(path), tolerance):
            yield path, left.get(path), right.get(path)


def run(program, words, folder):
    done = subprocess.run([program, *words], cwd=ROOT, capture_output=True, text=True, env={**os.environ, "TMPDIR": str(folder)})
    return done.stdout if done.returncode == 0 else f"exit {done.returncode}: {done.stderr}"


def answers(program, folder):
    """What a program prints, by command."""
    runs = {letter: folder / f"{letter}.run" for letter in "ABC"}
    for letter, flags in zip("ABC", ("", "--ambient 40C", "--power-limit 450W")):
        run(program, f"simulate {GPT3} --tp 4 --pp 8 {flags} -o {runs[letter]}".split(), folder)
    commands = SIMULATIONS + [command.format(**{k: str(v) for k, v in runs.items()}) for command in OTHERS]
    found = {}
    for shape, command in zip(SIMULATIONS + OTHERS, commands):
        formats = () if shape.startswith(("export", "import")) else ("--format", "json")
        found[shape] = run(program, [*command.split(), *formats], folder).replace(str(folder), "FOLDER")
    for study in STUDIES:
        run(program, ["characterize", study, "-o", str(folder / study)], folder)
        for file in ("results.json", "results.csv"):
            path = folder / study / file
            found[f"characterize {study} {file}"] = path.read_text() if path.exists() else "no results"
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old"), parser.add_argument("new")
    parser.add_argument("--tolerance", type=float, default=0.0)
    parser.add_argument("--only", default="", help="commands that contain this word")
    parser.add_argument("--most", type=int, default=6, help="differences listed for each command")
    asked = parser.parse_args()
    for commands in (SIMULATIONS, OTHERS, STUDIES):
        commands[:] = [command for command in commands if asked.only in command]
    with tempfile.TemporaryDirectory() as a, tempfile.TemporaryDirectory() as b:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            old, new = pool.map(answers, (asked.old, asked.new), (pathlib.Path(a), pathlib.Path(b)))
    compared = differing = 0
    for command in old:
        before, after = as_object(old[command]), as_object(new[command])
        found = list(differences(before, after, asked.tolerance))
        compared += len(dict(leaves(before)))
        differing += len(found)
        if found:
            print(f"{command}: {len(found)} differ")
            for path, was, now in found[:asked.most]:
                print(f"    {path}: {str(was)[:70]} -> {str(now)[:70]}")
    print(f"{len(old)} outputs, {compared} values compared, {differing} differ")
    return differing > 0


if __name__ == "__main__":
    sys.exit(main())
