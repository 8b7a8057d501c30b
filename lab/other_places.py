#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far what was learned on one GPU, or of one model, carries to others: other_gpu and other_model of data/learned/priors.toml, distance.model.

    TRIPLEPOINT_DATA=FOLDER python3 lab/other_places.py PROGRAM cluster|model validation/{nemo-mbridge,jax-toolbox,...}/jobs.csv     (FOLDER: a copy of data/)

Of every source and GPU (or model, of which five at most) three rows are given (two draws); rows of its others are predicted: all of other GPUs, at
most 40 of other models on the same GPU. Printed: median and 90th percentile of |ln error| in per cent, as shipped and learned, the share of the 80 %
intervals that hold, and the means over sources.
"""
import collections
import csv
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile


def rows_of(program, table, *more):
    """row_id: |ln error| and whether the interval holds."""
    rows = json.loads(subprocess.run([program, "validate", table, *more, "--format", "json"], capture_output=True, check=True).stdout)["per_row"]
    return {row["row_id"]: (100 * abs(math.log1p(row["error_pct"] / 100)), row["interval_low"] <= row["measured"] <= row["interval_high"])
            for row in rows if not row["quantity"].startswith("mem") and (row.get("error_pct") or -100) > -99}


def write(path, rows):
    with open(path, "w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path


def score(program, key, table, folder):
    shipped, pairs, groups = rows_of(program, table), [], collections.defaultdict(list)
    with open(table) as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            if row["row_id"] in shipped:
                groups[row["cluster"], row.get("model", "") if key == "model" else ""].append(row)
    for number, (group, rows) in enumerate(sorted(groups.items())):
        others = [row for other in groups if other != group and (key == "cluster" or other[0] == group[0]) for row in groups[other]]
        drawn = random.Random(f"{pathlib.Path(table).parent.name}{group}")
        others = drawn.sample(others, min(40, len(others))) if key == "model" else others
        for _ in range(2 if len(rows) >= 3 and others and (key == "cluster" or number < 5) else 0):
            given = write(folder / "given.csv", drawn.sample(rows, 3))
            subprocess.run([program, "calibrate", given, "-o", folder / "mine"], capture_output=True, check=True)
            learned = rows_of(program, write(folder / "others.csv", others), "--with", folder / "mine")
            pairs += [(*shipped[name], *row) for name, row in learned.items()]
    return pairs


def main(program, key, *tables):
    means = []
    for table in tables:
        with tempfile.TemporaryDirectory() as folder:
            pairs = score(program, key, table, pathlib.Path(folder))
        if pairs:
            raw, raw_holds, learned, holds = (sorted(column) for column in zip(*pairs))
            means.append([statistics.median(raw), statistics.median(learned), 100 * statistics.mean(raw_holds), 100 * statistics.mean(holds)])
            far = [column[int(0.9 * len(column))] for column in (raw, learned)]
            print(f"{pathlib.Path(table).parent.name:24}{len(pairs):6}  {means[-1][0]:5.1f} / {far[0]:5.1f}  {means[-1][1]:5.1f} / {far[1]:5.1f}"
                  f"   holds {means[-1][2]:3.0f} %  {means[-1][3]:3.0f} %", flush=True)
    print("means of sources", *(f"{statistics.mean(column):.1f}" for column in zip(*means)))


if __name__ == "__main__":
    main(*sys.argv[1:])
