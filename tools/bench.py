#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmark programs of a build folder one after the other; results also as JSON in BUILD/bench/."""
import pathlib
import subprocess
import sys

build = pathlib.Path(sys.argv[1])
programs = sorted((build / "bench" / "bin").glob("*_bench"))
if not programs:
    sys.exit(f"no benchmark program in {build}/bench/bin (build the target benches first)")
for program in programs:
    print(f"== {program.name}", flush=True)
    subprocess.run([program, f"--benchmark_out={build}/bench/{program.name}.json", "--benchmark_out_format=json", *sys.argv[2:]],
                   check=True)
