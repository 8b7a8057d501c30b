#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits latency and half size of AWS's fabrics to all-reduces over two nodes, and scores each size by a fit without it.

Two nodes tell the sum of launch and steps alone: launch is to latency as on InfiniBand.

usage: fit_efa.py PROGRAM kernels_opened.csv
"""
import csv
import math
import sys
import tempfile
from pathlib import Path

from fitting import simplex
from trial_library import canonical, summary, trial_library, validate, write_values

LAUNCH_PER_LATENCY = 11 / 4.5  # data/clusters/dgx-h100.toml
# The row's GPU, the cluster it is predicted with, where the search starts: latency in us, half size in MB.
FABRICS = {"A100-SXM-80GB": ("aws-p4d", 30, 2), "H100-SXM-80GB": ("aws-p5", 20, 1)}


def rows_of(path, gpu):
    with open(path) as file:
        rows = list(csv.DictReader(file))
    # One cluster under Kubernetes ran at half the rate of the same nodes under Slurm.
    return [r for r in rows if r["kind"] == "collective" and r["gpu"] == gpu and "EKS" not in r["interconnect"]]


class Fabric:
    def __init__(self, program, library, cluster, rows):
        self.program, self.rows = program, rows
        self.library, self.file = library, library / "clusters" / f"{cluster}.toml"
        published = library.parent / "published.csv"
        with open(published, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        self.table = canonical(published, library.parent)

    def errors(self, point):
        latency, half = map(math.exp, point)
        write_values(self.file, {"latency": f'"{latency:.4g} us"', "launch": f'"{LAUNCH_PER_LATENCY * latency:.4g} us"',
                                 "half_size": f'"{half:.4g} MB"'})
        return {r["row_id"]: float(r["error_pct"]) for r in validate(self.program, self.library, [self.table])}

    def fit(self, start, without=None):
        def cost(point):
            return sum(math.log1p(e / 100) ** 2 for row, e in self.errors(point).items() if row != without)
        return simplex(cost, start, [0.3, 0.5], rounds=40)[0]


def main():
    program, table = str(Path(sys.argv[1]).resolve()), sys.argv[2]
    for gpu, (cluster, latency, half) in FABRICS.items():
        start = [math.log(latency), math.log(half)]
        with trial_library() as library:
            fabric = Fabric(program, library, cluster, rows_of(table, gpu))
            best = fabric.fit(start)
            seen = fabric.errors(best)
            print(f"{cluster}: {len(seen)} rows, latency {math.exp(best[0]):.1f} us, launch {LAUNCH_PER_LATENCY * math.exp(best[0]):.1f} us,"
                  f" half size {math.exp(best[1]):.2f} MB; signed, median, p90: {summary(list(seen.values()))}")
            unseen = {row["row_id"]: fabric.errors(fabric.fit(best, row["row_id"]))[row["row_id"]] for row in fabric.rows}
            print(f"  held out by size: {summary(list(unseen.values()))}")
            for row in fabric.rows:
                print(f"  {int(row['msg_bytes']):12} B  fitted {seen[row['row_id']]:+6.1f} %  held out {unseen[row['row_id']]:+6.1f} %")


if __name__ == "__main__":
    main()
