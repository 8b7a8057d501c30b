#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills a random rank of a training at a random moment, many times: all others have to end soon, with a sentence and an exit code that
is not 0.

usage: kill_ranks.py TRIPLEPOINT_TRAIN [TIMES]
"""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from launching import job_text, launcher

PATIENCE = 30  # seconds from the kill to the launcher's end


def ranks_below(process):
    """Processes of the program that this launcher has started."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as file:
                text = file.read()
            command = text[text.index("(") + 1 : text.rindex(")")]
            parent = int(text[text.rindex(")") + 2 :].split()[1])
        except (OSError, ValueError):
            continue
        if parent == process.pid and command.startswith("triplepoint-tra"):
            found.append(int(name))
    return sorted(found)


def kill_one(command, draw):
    """Starts the training, kills a rank after its first steps; what was wrong, or nothing."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for _ in range(draw.randint(1, 3)):
        if not process.stdout.readline():
            return f"it ended by itself with {process.wait()}"
    time.sleep(draw.uniform(0, 0.3))
    ranks = ranks_below(process)
    if not ranks:
        return "no ranks were found below the launcher"
    os.kill(draw.choice(ranks), signal.SIGKILL)
    try:
        said = process.communicate(timeout=PATIENCE)[0]
    except subprocess.TimeoutExpired:
        for rank in ranks_below(process):
            os.kill(rank, signal.SIGKILL)
        process.kill()
        return f"ranks hang {PATIENCE} s after one was killed"
    if process.returncode == 0:
        return "the launcher says that all is well"
    if "rank" not in said:
        return f"nobody names a rank:\n{said}"
    return None


def main():
    program, times = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 50
    start = launcher(4)
    draw = random.Random(25)
    layouts = [
        {"pipeline_parallel_size": 2},
        {"sequence_parallel": True, "sharding": "parameters"},
        {"sharding": "optimizer", "overlap_gradient": True, "overlap_parameter": True},
        {"pipeline_parallel_size": 4, "tensor_parallel_size": 1, "overlap_pipeline": True},
    ]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(times):
            layout = layouts[number % len(layouts)]
            job = os.path.join(folder, "job.toml")
            with open(job, "w") as file:
                file.write(job_text(**layout))
            command = start + [program, job, "--steps", "100000", "--timeout", "10"]
            problem = kill_one(command, draw)
            if problem:
                wrong += 1
                print(f"kill {number} ({layout}): {problem}")
    print(f"{times} kills, {wrong} of them with something wrong")
    sys.exit(1 if wrong else 0)


main()
