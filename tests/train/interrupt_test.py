#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, SIGTERM and SIGHUP at random moments of trainings: each one ends by itself, with 128 + signal and a sentence
that names its last step.

    interrupt_test.py TRIPLEPOINT TRAINER [TIMES]
"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE = 60  # seconds from the Ctrl-C to the end
SKIPPED = 77


def interrupt(command, folder, environment, wait, ending):
    """Starts a training in a group of its own, as a terminal does, and ends it as a terminal does; what was wrong, or nothing."""
    training = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    first = training.stdout.readline()
    time.sleep(wait)
    os.killpg(training.pid, ending)
    try:
        said, complained = training.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(training.pid, signal.SIGINT)  # the second one ends at once
        said, complained = training.communicate(timeout=PATIENCE)
        return f"it goes on {PATIENCE} s after {ending.name}:\n{said}{complained}"
    if training.returncode != 128 + ending:
        return f"it ended with {training.returncode} after {ending.name}:\n{first}{said}{complained}"
    if "stopped by" not in complained:
        return f"no sentence says that it was stopped:\n{complained}"
    lines = [line for line in (first + said).splitlines() if line.startswith("step ")]
    played = int(lines[-1].split()[1].split("/")[0])
    if f"after step {played} of" not in complained:
        return f"step {played} was trained last, and it says:\n{complained}"
    return None


def main():
    triplepoint, trainer = sys.argv[1:3]
    times = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    if trainer == "none" or shutil.which("mpirun") is None:
        print("mpirun or the trainer is missing: skipped")
        sys.exit(SKIPPED)
    draw = random.Random(7)
    environment = dict(os.environ, TRIPLEPOINT_TRAINER=trainer)
    wrong = 0
    for number in range(times):
        with tempfile.TemporaryDirectory() as folder:
            launcher = "threads" if number % 4 == 1 else "mpirun"
            ending = [signal.SIGINT, signal.SIGHUP, signal.SIGTERM][number % (3 if launcher == "threads" else 2)]
            command = [triplepoint, "train", "--launcher", launcher, "--ranks", str(draw.choice([2, 4])), "--tp", "2", "--steps", "100000"]
            if number % 4 == 3:
                command += ["-o", "a.run", "-q"]
            problem = interrupt(command, folder, environment, draw.uniform(0, 1), ending)
        if problem:
            wrong += 1
            print(f"{ending.name} {number} ({' '.join(command[2:])}): {problem}")
    print(json.dumps({"interrupted": times, "wrong": wrong}))
    sys.exit(1 if wrong else 0)


main()
