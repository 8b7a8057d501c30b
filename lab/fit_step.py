#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits joules of products on the H200 and four numbers of the stack nemo-profiled to GPT3-175B on 32 H200 (validation/micro25).

With e_i = error of scored row i over its tolerance, the fit minimizes  mean(e^2) + 100 sum max(0, |e| - 0.9)^2: the rows first have to
hold, then to lie in the middle. Kernels are those of every GPU (data/calibrations/all/kernels.toml), memory energy is given.

usage: fit_step.py MICRO25_TEST [ROUNDS]
"""
import csv
import os
import re
import subprocess
import sys
from pathlib import Path

from fitting import simplex
from trial_library import DATA, trial_library, write_values

BOUNDS = {"gemm": (0.8, 1.3), "microbatch_gap": (0, 12), "tensor_overlap_compute_loss": (0.5, 1.5), "overlap_transfer_stretch": (0, 0.3),
          "overlap_compute_loss": (0, 0.6)}
START, STEP = [1.105, 6.5, 0.97, 0.08, 0.3], [-0.02, -0.4, -0.1, -0.05, 0.05]
ROW = re.compile(r"(TP\S+)\s+(\S+)\s+(yes|no)\s+(\d+)\s+(\S+)\s+([-\d.]+)\s+([-\d.nan]+)\s")


def published():
    with open(DATA.parent / "validation/micro25/gpt3-175b-h200.csv", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def set_values(library, point):
    gemm, gap, userbuffers, stretch, loss = point
    power = library / "calibrations/h200/power.toml"
    power.write_text(re.sub(r"gemm = [\d.]+, grouped_gemm = [\d.]+", f"gemm = {gemm:.4g}, grouped_gemm = {gemm:.4g}", power.read_text()))
    write_values(library / "stacks/nemo-profiled.toml", {"microbatch_gap": f'"{gap:.4g} ms"', "tensor_overlap_compute_loss": f"{userbuffers:.4g}",
                                                         "overlap_transfer_stretch": f"{stretch:.4g}", "overlap_compute_loss": f"{loss:.4g}"})


def errors(program, library, rows):
    """Of each scored row, over its tolerance."""
    text = subprocess.run([program], env={**os.environ, "TRIPLEPOINT_DATA": str(library)}, capture_output=True, text=True, check=False).stdout
    ours = [float(found[7]) for found in map(ROW.match, text.splitlines()) if found]
    if len(ours) != len(rows):
        return [10.0] * len(rows)
    found = []
    for row, value in zip(rows, ours):
        wanted, tolerance = float(row["published"]), float(row["tolerance"])
        if row["scored"].startswith("band"):
            low, high = map(float, row["scored"].split(":")[1:])
            found.append(0 if low <= value <= high else 2)
        elif row["scored"] == "yes" and tolerance:
            found.append(((value / wanted - 1) if row["tolerance_kind"] == "relative" else value - wanted) / tolerance)
    return found


def main():
    program, rounds = str(Path(sys.argv[1]).resolve()), int(sys.argv[2]) if sys.argv[2:] else 80
    rows = published()
    with trial_library() as library:
        def cost(point):
            if any(not low <= x <= high for x, (low, high) in zip(point, BOUNDS.values())):
                return 1e3
            set_values(library, point)
            found = errors(program, library, rows)
            return sum(e * e for e in found) / len(found) + 100 * sum(max(0, abs(e) - 0.9) ** 2 for e in found)
        shipped = errors(program, DATA, rows)
        best, least = simplex(cost, START, STEP, rounds)
        print(f"shipped: worst {max(map(abs, shipped)):.2f} of a tolerance; fitted: cost {least:.3f}, " + ", ".join(f"{k} {v:.4g}" for k, v in zip(BOUNDS, best)))


if __name__ == "__main__":
    main()
