#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training by processes has the losses of the same training by threads, bit for bit; and a bad start is said
once, with an exit code that is not 0.

usage: same_as_threads.py TRIPLEPOINT_TRAIN
"""
import json
import os
import subprocess
import sys
import tempfile

from launching import job_text, launcher


def losses(command):
    done = subprocess.run(command + ["--steps", "3", "--format", "json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    result = json.loads(done.stdout)
    for row in result["traffic"]:
        if row["bytes"] != row["workload_bytes"]:
            sys.exit(f"bytes differ from the workload's: {row}")
    return [step["loss"] for step in result["steps"]]


def main():
    program = sys.argv[1]
    start = launcher(4)
    with tempfile.TemporaryDirectory() as folder:
        job = os.path.join(folder, "job.toml")
        for plan in (
            {"pipeline_parallel_size": 2, "sequence_parallel": True},
            {"sharding": "parameters", "overlap_gradient": True},
        ):
            with open(job, "w") as file:
                file.write(job_text(**plan))
            threads = losses([program, job, "--transport", "threads"])
            processes = losses(start + [program, job])
            if processes != threads:
                sys.exit(f"{plan}: {processes} is not {threads}")
        refused = subprocess.run(start + [program, os.path.join(folder, "none.toml")], capture_output=True, text=True)
        if refused.returncode == 0 or refused.stderr.count("none.toml") != 1:
            sys.exit(f"a missing job is not said once (exit code {refused.returncode}):\n{refused.stderr}")
    print("processes train like threads")


main()
