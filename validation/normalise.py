#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a table of published measurements into canonical rows: one job a line, or one kernel, collective, node or reading.

    python3 validation/normalise.py TABLE.csv -o rows.csv
    python3 validation/normalise.py TABLE.csv ... --by-family validation     # validation/FAMILY/jobs.csv

Trainings: the columns of shared/data/train_perf_calibration.csv, vTrain's and the Ultra-Scale sweep's. Other kinds are recognized by their columns (KINDS of
normaliser/kernels.py, power.py, heat.py). What a row does not say is filled in by rules that are the same for all rows (rules/*.toml, recipes/*.toml); each that was
used stands in its `assumptions`. A row that cannot be predicted has its reason in `skip`.
"""
import argparse
import collections
import csv
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from normaliser import heat, jobs, kernels, power, tables  # noqa: E402
from normaliser.cells import Unreadable  # noqa: E402

FIRST = ["row_id", "family", "sweep", "source", "model"]
LAST = ["step_time_s", "tokens_per_s_per_gpu", "tokens_per_s_total", "seqs_per_s_total", "tflops_per_gpu", "mfu_pct", "flops_convention", "mem_gib", "mem_kind",
        "mem_standing_gib", "mem_reserved_gib", "kind", "ran", "assumptions", "skip"]


def read(path):
    with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        lines = [line.replace("\0", "") for line in file]
    comments = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    reader = csv.DictReader(lines[comments:])
    return [(title or "").strip() for title in reader.fieldnames or []], list(reader), comments + 2


def normalised(path):
    csv.field_size_limit(1 << 24)
    header, rows, first_line = read(path)
    for columns, canonical_rows in kernels.KINDS + power.KINDS + heat.KINDS:
        if columns <= set(header):
            return canonical_rows(rows, first_line)
    return trainings(tables.kind_of(header), rows)


def trainings(kind, rows):
    out = []
    for index, cells in enumerate(rows):
        row_id = cells.get("row_id") or f"line {index + 2}"
        try:
            out.append(jobs.canonical(tables.cells_of(kind, cells, index), index + 2))
        except Unreadable as reason:
            out.append({"row_id": row_id, "family": cells.get("family") or kind, "skip": str(reason)})
        except Exception as fault:
            out.append({"row_id": row_id, "family": cells.get("family") or kind, "skip": f"it could not be read ({type(fault).__name__}: {fault})"})
    return out


def unique(rows):
    seen = collections.Counter()
    for row in rows:
        name = row.get("row_id")
        seen[name] += 1
        if name and seen[name] > 1:
            row["row_id"] += f" ({seen[name]})"
    return rows


def cell(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, list):
        return "[" + ", ".join(map(cell, value)) + "]"
    return " ".join(str(value).split())


def write(rows, path):
    used = {key for row in rows for key in row}
    middle = sorted(used - set(FIRST) - set(LAST), key=order)
    header = [title for title in FIRST + middle + LAST if title in used or title in ("assumptions", "skip")]
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([cell(row.get(title, "")) for title in header] for row in rows)


def order(key):
    group = key.split(".")[0]
    return (["model", "cluster", "stack", "task", "plan", "environment"].index(group) if group in ("model", "cluster", "stack", "task", "plan", "environment") else 9, key.count("."), key)


def folder_of(family):
    return "hf-h100-sweep" if family.startswith("hf-sweep") else "train-perf-vtrain-single" if family == "vtrain-single" else family


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=pathlib.Path, nargs="+")
    parser.add_argument("-o", "--output", type=pathlib.Path)
    parser.add_argument("--by-family", type=pathlib.Path, metavar="FOLDER", help="write FOLDER/FAMILY/jobs.csv for each family")
    chosen = parser.parse_args()
    rows = unique([row for table in chosen.table for row in normalised(table)])
    if chosen.by_family:
        families = collections.defaultdict(list)
        for row in rows:
            families[folder_of(row["family"])].append(row)
        for family, some in families.items():
            if not all(row.get("skip") for row in some):
                write(some, chosen.by_family / family / "jobs.csv")
    if chosen.output or not chosen.by_family:
        write(rows, chosen.output or pathlib.Path("/dev/stdout"))
    skipped = [row for row in rows if row.get("skip")]
    print(f"{len(rows)} rows, {len(rows) - len(skipped)} expressed, {len(skipped)} skipped", file=sys.stderr)


if __name__ == "__main__":
    main()
