#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far what was learned on one GPU carries to another: remainder.other_gpu of data/learned/priors.toml.

    TRIPLEPOINT_DATA=FOLDER python3 lab/other_gpus.py PROGRAM validation/{nemo-mbridge,mlperf-llama2lora,...}/jobs.csv     (FOLDER: a copy of data/)

Of every source and GPU three rows are given (two draws); the rows of its other GPUs are predicted. Printed: median and 90th percentile of |ln error|
in per cent, as shipped and learned, and the means of the sources' medians.
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


def errors(program, table, *more):
    rows = json.loads(subprocess.run([program, "validate", table, *more, "--format", "json"], capture_output=True, check=True).stdout)["per_row"]
    return {row["row_id"]: abs(math.log1p(row["error_pct"] / 100)) for row in rows
            if not row["quantity"].startswith("mem") and (row.get("error_pct") or -100) > -99}


def write(path, rows):
    with open(path, "w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path


def score(program, table, folder):
    shipped, pairs, gpus = errors(program, table), [], collections.defaultdict(list)
    with open(table) as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            if row["row_id"] in shipped:
                gpus[row["cluster"]].append(row)
    for gpu, rows in gpus.items():
        others = [row for other in gpus if other != gpu for row in gpus[other]]
        for draw in range(2 if len(rows) >= 3 and others else 0):
            given = write(folder / "given.csv", random.Random(f"{pathlib.Path(table).parent.name}{gpu}{draw}").sample(rows, 3))
            subprocess.run([program, "calibrate", given, "-o", folder / "mine"], capture_output=True, check=True)
            learned = errors(program, write(folder / "others.csv", others), "--with", folder / "mine")
            pairs += [(shipped[name], error) for name, error in learned.items()]
    return pairs


def main(program, *tables):
    medians = []
    for table in tables:
        with tempfile.TemporaryDirectory() as folder:
            pairs = score(program, table, pathlib.Path(folder))
        columns = [sorted(column) for column in zip(*pairs)]
        if columns:
            medians.append([100 * statistics.median(column) for column in columns])
            text = "   ".join(f"{100 * statistics.median(column):5.1f} / {100 * column[int(0.9 * len(column))]:5.1f}" for column in columns)
            print(f"{pathlib.Path(table).parent.name:24}{len(pairs):6}   {text}", flush=True)
    print("means of medians", *(f"{statistics.mean(column):.1f}" for column in zip(*medians)))


if __name__ == "__main__":
    main(*sys.argv[1:])
