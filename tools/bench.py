#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures speed and writes docs/performance.md: bench.py BUILD [--only TEXT ...]

BUILD is a folder of the preset `bench`. Commands run as a user runs them: CPU time (user and system, all threads) and peak memory of
the process, and what they write. Parts come from the benchmark programs (JSON in BUILD/bench/). Each number is the best of its
repetitions, because another program can only make it worse. --only measures the rows and programs whose text contains TEXT, prints
them, and writes no page. Pages are measured where a Chromium and the front end's npm packages are installed.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

from repository import ROOT

PAGE = ROOT / "docs/performance.md"
LONG_S = 20  # a command that takes longer runs once
REPETITIONS = 3

GPT3_1024 = "simulate --model gpt3-175b --cluster hgx-h100 --nodes 128 --tp 8 --pp 8 --gbs 1024 --sequence-parallel --recompute full"
GPT3_100K = "simulate --model gpt3-175b --cluster dgx-h200 --nodes 12500 --tp 8 --pp 4 --gbs 100000 --recompute full --sequence-parallel --overlap dp"
GPT3_4096 = "plan --model gpt3-175b --cluster dgx-a100 --nodes 512 --gbs 4096 --space everything"
DEEPSEEK_10240 = "plan --model deepseek-v3 --cluster dgx-h100 --nodes 1280 --gbs 30720 --space everything --threads 1"

# work, target, command; DIR is an empty folder
COMMANDS = [
    ("one paper job to thermal steady state", "50 ms", "simulate examples/paper-layout.toml"),
    ("the paper's study, 193 jobs, with pages", "4 s, 80 MB", "characterize paper/all -o DIR --threads 1"),
    ("GPT3-175B on 1,024 GPUs with individual temperatures", "1 s", GPT3_1024),
    ("ten minutes of 1,024 GPUs", "0.2 s", GPT3_1024 + " --duration 10min"),
    ("GPT3-175B on 100,000 GPUs", "10 s, 4 GB", GPT3_100K),
    ("ten minutes of 100,000 GPUs", "20 s, 1.5 GB, file 50 MB", GPT3_100K + " --duration 10min -o DIR/a.run"),
    ("plan GPT3-175B on 32 H200", "-", "plan --model gpt3-175b --cluster hgx-h200 --nodes 4 --gbs 128 --threads 1"),
    ("plan Llama3-70B on 32 H200 for energy", "-", "plan --model llama3-70b --cluster hgx-h200 --nodes 4 --gbs 128 --objective energy --threads 1"),
    ("plan GPT3-175B on 4,096 A100, everything", "6 s", GPT3_4096 + " --threads 1"),
    ("the same on two threads", "1.8 times as fast", GPT3_4096 + " --threads 2"),
    ("plan DeepSeek-V3 on 2,048 H100", "4 s", "plan --model deepseek-v3 --cluster dgx-h100 --nodes 256 --gbs 8192 --threads 1"),
    ("plan DeepSeek-V3 on 10,240 H100, everything", "-", DEEPSEEK_10240),
]

# work, target, benchmark program, benchmark, what of it
PARTS = [
    ("marker from C without a recorder", "200 ns", "mark", "without_recorder", "time"),
    ("marker from C with a recorder", "2 us", "mark", "with_recorder/threads:1", "per item"),
]
TRACES = [
    ("read from memory", "-", "trace", "read_events", "rate"),
    ("read a file", "200 MB/s", "trace", "read_file/plain", "rate"),
    ("read a gzip file", "200 MB/s", "trace", "read_file/gzip", "rate"),
    ("read a gzip file with two threads, wall clock", "300 MB/s", "trace", "read_file/gzip_two_threads/process_time/real_time", "rate"),
    ("read a zstd file", "200 MB/s", "trace", "read_file/zstd", "rate"),
]
RECORDER = [
    ("a reading of all signals, driver included, wall clock", "1 % of a core: 1 ms", "recorder", "tick_of_eight_gpus", "wall"),
]


class Bench:
    def __init__(self, build, only):
        self.build, self.only = build, only
        self.known = {}  # results of benchmark programs

    def wanted(self, *texts):
        return not self.only or any(word in text for word in self.only for text in texts)

    def program(self, name):
        """Results of a benchmark program by benchmark."""
        if name not in self.known:
            out = self.build / f"bench/{name}_bench.json"
            print(f"== {name}_bench", flush=True)
            subprocess.run([self.build / f"bench/bin/{name}_bench", f"--benchmark_out={out}", "--benchmark_out_format=json"], check=True)
            self.known[name] = {one["name"]: one for one in json.loads(out.read_text())["benchmarks"]}
        return self.known[name]

    def value(self, program, benchmark, what):
        found = self.program(program)
        if benchmark not in found:
            sys.exit(f"{program}_bench has no benchmark {benchmark}; it has {', '.join(found)}")
        one = found[benchmark]
        if "error_message" in one:
            sys.exit(f"{program}_bench, {benchmark}: {one['error_message']}")
        if what in ("time", "wall"):
            return time_text(one["cpu_time" if what == "time" else "real_time"] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[one["time_unit"]])
        if what == "rate":
            return f"{one['bytes_per_second'] / 1e6:.0f} MB/s"
        return time_text(1 / one["items_per_second"])

    def rows_of_programs(self, rows):
        return [[work, target, self.value(program, benchmark, what)] for work, target, program, benchmark, what in rows
                if self.wanted(work, program + "_bench")]

    def rows_of_commands(self):
        for work, target, command in COMMANDS:
            if self.wanted(work, command):
                print(f"== {command}", flush=True)
                yield [work, target, self.command(command)]

    def command(self, command):
        """CPU time, peak memory, and the size of what a command wrote in DIR."""
        runs = []
        while len(runs) < REPETITIONS and (not runs or runs[0]["cpu"] < LONG_S):
            with tempfile.TemporaryDirectory() as folder:
                words = [folder + word.removeprefix("DIR") if word.startswith("DIR") else word for word in command.split()]
                words.insert(0, str(self.build / "bin/triplepoint"))
                begin = time.monotonic()
                child = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                said = child.stderr.read().decode()
                _, status, used = os.wait4(child.pid, 0)
                if status != 0:
                    sys.exit(f"{command}: {said.strip()}")
                written = sum(file.stat().st_size for file in pathlib.Path(folder).rglob("*") if file.is_file())
                runs.append({"cpu": used.ru_utime + used.ru_stime, "wall": time.monotonic() - begin, "memory": 1024 * used.ru_maxrss, "written": written})
        best = min(runs, key=lambda run: run["cpu"])
        texts = [time_text(best["cpu"]), f"{best['memory'] / 1e6:.3g} MB" if best["memory"] < 1e9 else f"{best['memory'] / 1e9:.3g} GB"]
        if "--threads 2" in command:
            texts[0] += f" ({time_text(min(run['wall'] for run in runs))} of wall clock)"
        if best["written"]:
            texts.append(f"{best['written'] / 1e6:.3g} MB written")
        print("   " + ", ".join(texts), flush=True)
        return ", ".join(texts)

    def pages(self):
        """What measure_pages.mjs says of the pages of paper/all; nothing where there is no browser to measure with."""
        if not self.wanted("pages") or not (ROOT / "web/node_modules").exists() or not shutil.which("node"):
            return []
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([self.build / "bin/triplepoint", "characterize", "paper/all", "-o", folder], cwd=ROOT, check=True, capture_output=True)
            answer = subprocess.run(["node", "tests/pages/measure_pages.mjs", f"{folder}/report.html"], cwd=ROOT, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            print(f"pages are not measured: {answer.stderr.strip().splitlines()[-1]}")
            return []
        return [line.split(": ", 1)[1] for line in answer.stdout.splitlines()]

    def from_python(self):
        """Where the package is built: here, or in build/release."""
        folder = next((f for f in (self.build / "python", ROOT / "build/release/python") if list(f.glob("triplepoint/_core*"))), None)
        if not self.wanted("python_bench") or not folder:
            return []
        answer = subprocess.run([sys.executable, ROOT / "bench/python_bench.py", folder], capture_output=True, text=True, check=True)
        seconds = re.search(r"([\d.]+) s of CPU one by one from Python, ([\d.]+) s in one sweep: (\S+)", answer.stdout)
        return [["1,000 simulations one by one from Python, over one sweep of the same jobs", "+10 %",
                 f"{seconds[3]}: {seconds[1]} s, {seconds[2]} s"]]


def time_text(seconds):
    for unit, scale in (("ns", 1e9), ("us", 1e6), ("ms", 1e3)):
        if seconds * scale < 1000:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"


def table(head, rows):
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]) + "\n"


def machine():
    """The machine and the compiler, as they say themselves."""
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    compiler = subprocess.run(["c++", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    system = platform.freedesktop_os_release()["PRETTY_NAME"]
    commit = subprocess.run(["git", "log", "-1", "--format=%h"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    return f"{os.cpu_count()} cores of {cpu[1] if cpu else platform.machine()}, {system}, {compiler}, commit {commit}, {datetime.date.today()}"


def page(bench):
    commands = list(bench.rows_of_commands())
    sections = [
        ("Commands", "CPU time of all threads together, peak memory of the process; `tools/bench.py` has the commands.", table(["work", "target", "measured"], commands)),
        ("Parts", "CPU time of parts, from the benchmark programs below `bench/`.",
         table(["work", "target", "CPU time"], bench.rows_of_programs(PARTS) + bench.from_python())),
        ("Traces", "60 MB of PyTorch profiler JSON (`bench/trace_bench.cpp`), per second of CPU time. `trace_large_test` reads 4 GB of JSON within "
                   "a limit of 1 GB ([limits](traces.md#memory)).", table(["work", "target", "measured"], bench.rows_of_programs(TRACES))),
        ("Recorder", "8 GPUs, 24 signals each, a reading every 100 ms, on a test double of the driver that burns 60 us of CPU for each batch of fields. "
                     "`tests/recorder/recorder_test.py` kills recorders at random moments and holds what is lost.",
         table(["work", "target", "measured"], bench.rows_of_programs(RECORDER))),
    ]
    of_pages = bench.pages()
    if of_pages:
        sections.append(("Pages", "The page of `paper/all` in a headless Chromium without a graphics card (`node tests/pages/measure_pages.mjs FILE.html`).",
                         "\n".join(of_pages) + "\n"))
    text = ("<!-- SPDX-License-Identifier: Apache-2.0 -->\n<!-- made by `make bench` (tools/bench.py); changes by hand are lost -->\n# Performance\n\n"
            f"`make bench` measured this page: {machine()}. A number is the best of up to {REPETITIONS} runs.\n")
    return text + "".join(f"\n## {title}\n\n{about}\n\n{body}" for title, about, body in sections)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", default=[])
    asked = parser.parse_args()
    build = asked.build.resolve()
    if not (build / "bin/triplepoint").exists() or not list((build / "bench/bin").glob("*_bench")):
        sys.exit(f"{asked.build} has no programs or no benchmarks: run `make bench`, which builds both")
    text = page(Bench(build, asked.only))
    if asked.only:
        print(text)
    else:
        PAGE.write_text(text)
        print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
