#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How well could anybody rank the rows of each sweep?

    triplepoint validate jobs.csv --format json > scores.json
    python3 tools/rank_ceiling.py scores.json jobs.csv

Rows of one sweep that print the same configuration were measured differently all the same. An oracle that knows the mean of
each printed configuration ranks the rest by chance; its Spearman correlation is the ceiling beside ours. Sweeps are weighted
by their rows, as `validate` does, and those that cost most are listed first.
"""
import collections
import csv
import json
import statistics
import sys

PRINTED = ("model", "cluster", "stack", "task", "plan", "environment")  # columns that begin with these say the job
FEWEST = 4  # rows of a sweep that is ranked


def ranks(values):
    ordered = sorted(values)
    return [(ordered.index(v) + len(ordered) - 1 - ordered[::-1].index(v)) / 2 for v in values]


def spearman(x, y):
    try:
        return statistics.correlation(ranks(x), ranks(y))
    except statistics.StatisticsError:  # all alike
        return None


def oracle(rows):
    """Of each row the mean over those that print the same."""
    alike = collections.defaultdict(list)
    for printed, measured in rows:
        alike[printed].append(measured)
    return [statistics.mean(alike[printed]) for printed, _ in rows], len(alike)


def main(scores_file, rows_file):
    with open(rows_file, newline="") as file:
        table = {row["row_id"]: row for row in csv.DictReader(file)}
    sweeps = collections.defaultdict(list)
    with open(scores_file) as file:
        for row in json.load(file)["per_row"]:
            if row.get("sweep") and not row["quantity"].startswith("mem"):
                sweeps[row["sweep"], row["quantity"]].append(row)
    found = []
    for (name, _), rows in sweeps.items():
        measured = [row["measured"] for row in rows]
        ours = spearman(measured, [row["predicted"] for row in rows])
        if len(rows) < FEWEST or ours is None:
            continue
        printed = {id_: tuple(cell for key, cell in line.items() if key.startswith(PRINTED)) for id_, line in table.items()}
        best, configurations = oracle([(printed[row["row_id"]], row["measured"]) for row in rows])
        found.append((len(rows) * (1 - ours), ours, spearman(measured, best) or 0, len(rows), configurations,
                      max(measured) / min(measured), name))
    total = sum(rows for _, _, _, rows, *_ in found)
    print(f"{'cost':>5} {'ours':>6} {'ceiling':>8} {'rows':>5} {'printed':>8} {'max/min':>8}  sweep")
    for cost, ours, ceiling, rows, printed, span, name in sorted(found, reverse=True):
        print(f"{cost:5.1f} {ours:6.2f} {ceiling:8.2f} {rows:5d} {printed:8d} {span:8.2f}  {name}")
    print(f"all: ours {sum(o * n for _, o, _, n, *_ in found) / total:.3f}, "
          f"ceiling {sum(c * n for _, _, c, n, *_ in found) / total:.3f} over {total} rows of {len(found)} sweeps")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
