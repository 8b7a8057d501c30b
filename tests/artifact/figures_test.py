#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The numbers of the paper's figures from a result tree are those that the artifact's scripts compute.

    figures_test.py TRIPLEPOINT

The right-hand sides are computed here from the files, as scripts/visualization of CharLLM-PPT does: time-weighted
means and maxima of CSVs, trapezoids of power, 128 samples a step, sums of wrapped counters, kernel durations by
its list of substrings. Nothing of ours is used but the program's JSON and CSV.
"""
import csv
import io
import json
import pathlib
import subprocess
import sys
import tempfile

import result_tree

BATCH = 128
WRAP = 1 << 32
LAYOUTS = {"gpt3-175b": ("TP2-PP16", "TP4-PP8", "TP8-PP4", "TP1-PP32", "TP8-FSDP"),
           "llama3-70b": ("TP8-PP2", "TP4-PP4", "TP2-PP8", "TP1-PP16", "TP8-FSDP")}
VARIANTS = {"00000": "base", "10000": "overlap", "01000": "recompute", "11000": "recompute+overlap"}
CLASSES = ("compute", "send_recv", "all_gather", "reduce_scatter", "all_reduce", "memory", "other")


# ---- the artifact's quantities ------------------------------------------------------------------

def rows_of(file):
    """(time, value) of each whole row; failed readings (-1) are left out, where its scripts average them in."""
    rows = []
    for line in file.read_text().splitlines(keepends=True):
        cells = line.strip().split(",")
        if line.endswith("\n") and len(cells) == 2 and float(cells[1]) != -1:
            rows.append((float(cells[0]), float(cells[1])))
    return rows


def weighted_mean(rows):
    """A value holds until the next one."""
    held = sum(value * (after - at) for (at, value), (after, _) in zip(rows, rows[1:]))
    return held / (rows[-1][0] - rows[0][0])


def trapezoid(rows):
    return sum((value + following) / 2 * (after - at) for (at, value), (after, following) in zip(rows, rows[1:]))


def grown(rows):
    """What a 32-bit counter grew by."""
    return sum((following - value) % WRAP for (_, value), (_, following) in zip(rows, rows[1:]))


def kernel_class(name):
    """figure_10_parse.py and figure_10_1.py: the first that matches."""
    name = name.lower()
    if "nccl" in name or "communication" in name:
        for words, found in ((("allreduce",), "all_reduce"), (("reducescatter",), "reduce_scatter"),
                             (("allgather",), "all_gather"), (("sendrecv", "broadcast"), "send_recv")):
            if any(word in name for word in words):
                return found
    if any(word in name for word in ("pushsend", "pushrecv", "buffer", "userbuffer")):
        return "memory"
    if "triton_" in name and any(word in name for word in ("sum", "add", "mul", "div")):
        return "memory"
    if "triton_" in name and "gemm" in name:
        return "compute"
    if any(word in name for word in ("gemm", "sdpa", "matmul")):
        return "compute"
    if any(word in name for word in ("elementwise", "kernel", "norm")):
        return "memory"
    return "other"


class Measured:
    """One experiment's folder, read as the artifact's vistools.py reads it."""

    def __init__(self, folder):
        self.folder = folder
        self.sweep = folder.parent.parent.name
        self.model, index, variant = folder.name.rsplit("_", 2)
        self.layout = LAYOUTS[self.model][int(index) - 1]
        self.microbatch = int(variant[3:]) if variant.startswith("mbs") else 1
        self.variant = "recompute" if variant.startswith("mbs") else VARIANTS[variant]
        self.fits = any(folder.iterdir())
        self.pipeline = int(self.layout.rpartition("PP")[2]) if "PP" in self.layout else 1

    def gpus(self, metric):
        """Rows of each GPU that has the file, by rank."""
        files = {rank: self.folder / f"{metric}_{rank}.csv" for rank in range(result_tree.GPUS)}
        return {rank: rows_of(file) for rank, file in files.items() if file.exists()}

    def means(self, metric):
        return {rank: weighted_mean(rows) for rank, rows in self.gpus(metric).items()}

    def peak(self, metric):
        return max(value for rows in self.gpus(metric).values() for _, value in rows)

    def efficiency(self):
        first = self.gpus("gpu_power")[0]
        energy = sum(trapezoid(rows) for rows in self.gpus("gpu_power").values())
        return BATCH / (first[-1][0] - first[0][0]) / (energy / 1e6)

    def kernels(self):
        """Seconds by class of each traced rank."""
        ranks = {}
        for file in self.folder.glob("*_kineto/rank-*.json"):
            sums = dict.fromkeys(CLASSES, 0.0)
            for event in json.loads(file.read_text())["traceEvents"]:
                if event["cat"] == "kernel":
                    sums[kernel_class(event["name"])] += event["dur"] / 1e6
            ranks[int(file.stem.removeprefix("rank-"))] = sums
        return ranks

    def key(self):
        return self.model, self.layout, self.variant, self.microbatch


def average(values):
    values = list(values)
    return sum(values) / len(values)


# ---- what each figure shows ---------------------------------------------------------------------
# Keys: (model, layout, variant, microbatch, quantity, stage or GPU); values; None: out of memory.

def panels(experiments, normalizes):
    numbers = {}
    best = {}
    for each in experiments:
        if each.fits:
            best[each.model] = max(best.get(each.model, 0), each.efficiency())
    for each in experiments:
        if not each.fits:
            numbers[*each.key(), "out_of_memory", None] = 1
            continue
        of = {"temperature_mean_c": average(each.means("gpu_thermal").values()),
              "temperature_peak_c": each.peak("gpu_thermal"),
              "power_mean_w": average(each.means("gpu_power").values()),
              "power_peak_w": each.peak("gpu_power"),
              "sm_clock_mean_ghz": average(each.means("sm_clock").values()) / 1e3,
              "efficiency_over_best" if normalizes else "efficiency_samples_per_s_mj":
                  each.efficiency() / (best[each.model] if normalizes else 1)}
        for quantity, value in of.items():
            numbers[*each.key(), quantity, None] = value
    return numbers


def traffic(experiments):
    numbers = {}
    for each in experiments:
        if not each.fits:
            continue
        for quantity, metric, unit in (("nvlink_received_gib", "nvlink_rx_throughput", 1 << 20),
                                       ("pcie_received_gib", "pcie_rx_bytes", 1 << 30)):
            for rank, rows in each.gpus(metric).items():
                numbers[*each.key(), quantity, rank] = grown(rows) / unit
    return numbers


def heat(experiments):
    numbers = {}
    columns = {}
    for each in experiments:
        if not each.fits:
            continue
        clocks = each.means("sm_clock")
        low, high = min(clocks.values()), max(clocks.values())
        for rank, value in each.means("gpu_thermal").items():
            numbers[*each.key(), "temperature_c", rank] = value
        for rank, value in clocks.items():
            numbers[*each.key(), "clock_below_fastest", rank] = (high - value) / (high - low)
    for (*_, quantity, rank), value in numbers.items():
        columns.setdefault((quantity, rank), []).append(value)
    for (quantity, rank), values in columns.items():
        numbers["", "Per-GPU Avg.", "", None, quantity, rank] = average(values)
    return numbers


def classes(experiments):
    numbers = {}
    for each in experiments:
        if not each.fits:
            numbers[*each.key(), "out_of_memory", None] = 1
            continue
        ranks = each.kernels()
        for name in CLASSES:
            total = sum(sums[name] for sums in ranks.values())
            if total > 0:
                numbers[*each.key(), f"kernel_{name}_s", None] = total / each.pipeline
    return numbers


def stages(experiments):
    numbers = {}
    for each in experiments:
        if not each.fits:
            numbers[*each.key(), "out_of_memory", None] = 1
            continue
        for rank, sums in each.kernels().items():
            for name in CLASSES:
                if sums[name] > 0:
                    numbers[*each.key(), f"kernel_{name}_s", rank * each.pipeline // result_tree.GPUS] = sums[name]
    return numbers


def in_sweep(experiments, sweep, *variants):
    return [each for each in experiments if each.sweep.startswith(sweep) and each.variant in variants]


def expected(figure, all):
    optimization, microbatch = "optimization", "microbatch"
    match figure:
        case 3:
            return stages(in_sweep(all, optimization, "recompute+overlap"))
        case 4:
            return panels(in_sweep(all, optimization, "recompute"), False)
        case 5:
            return traffic(in_sweep(all, optimization, "base"))
        case 8:
            return panels(in_sweep(all, optimization, *VARIANTS.values()), True)
        case 10:
            return classes(in_sweep(all, optimization, "base", "recompute"))
        case 13:
            return panels(in_sweep(all, microbatch, "recompute"), True)
        case 15:
            return stages([each for each in in_sweep(all, microbatch, "recompute") if each.microbatch in (1, 4)])
        case 17:
            return heat(in_sweep(all, optimization, "base"))


# ---- what the program says ----------------------------------------------------------------------

def run(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def place_of(row):
    return next((int(row[name]) for name in ("stage", "gpu") if row.get(name) not in (None, "")), None)


def number_of(text):
    return None if text in (None, "") else float(text)


def keyed(rows):
    numbers = {}
    for row in rows:
        microbatch = row["microbatch"]
        key = (row["model"], row["layout"], row["variant"], int(microbatch) if microbatch not in (None, "") else None,
               row["quantity"], place_of(row))
        if key in numbers:
            sys.exit(f"{key} is there twice")
        numbers[key] = number_of(row["value"])
    return numbers


def said(program, figure, tree, folder):
    """As JSON and as CSV, which must say the same."""
    picture = folder / f"figure-{figure}.svg"
    words = ("report", "--figure", figure, tree, "-o", picture)
    answer = json.loads(run(program, *words, "--format", "json"))
    if not picture.exists() or answer["figure"] != figure:
        sys.exit(f"figure {figure}: no picture, or of another figure")
    table = keyed(csv.DictReader(io.StringIO(run(program, *words, "--format", "csv"))))
    numbers = keyed(answer["numbers"])
    if table.keys() != numbers.keys():
        sys.exit(f"figure {figure}: CSV and JSON have other rows: {sorted(map(str, table.keys() ^ numbers.keys()))[:5]}")
    return numbers


def tolerance(quantity):
    """Ours takes one window for all GPUs, and energy as mean power x time. GPUs end up to 10 ms apart here."""
    if quantity.startswith("efficiency_") or quantity in ("nvlink_received_gib", "pcie_received_gib"):
        return 0.015
    if quantity.startswith("kernel_"):
        return 1e-6
    return 1e-9 if quantity.endswith(("peak_w", "peak_c")) else 0.001


def differences(figure, ours, theirs):
    for key in sorted(theirs.keys() - ours.keys(), key=str):
        yield f"figure {figure}: {key} is missing"
    for key in sorted(ours.keys() - theirs.keys(), key=str):
        yield f"figure {figure}: {key} is not in the artifact's figure"
    for key in ours.keys() & theirs.keys():
        a, b = ours[key], theirs[key]
        # Scaled clocks: 0 to 1, of which the window's ends move the least.
        scale = 2 if key[4] == "clock_below_fastest" else max(abs(b or 0), 1e-12)
        if (a is None) != (b is None) or a is not None and abs(a - b) > tolerance(key[4]) * scale:
            yield f"figure {figure}: {key} is {a}, by the artifact's rules {b}"


def main(program):
    wrong, count = [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tree = folder / "results"
        result_tree.write_tree(tree)
        all = [Measured(each) for each in sorted(tree.glob("*/*/*_*_*")) if each.is_dir()]
        for figure in (3, 4, 5, 8, 10, 13, 15, 17):
            theirs = expected(figure, all)
            ours = said(program, figure, tree, folder)
            if not theirs:
                sys.exit(f"figure {figure}: nothing to compare")
            wrong += differences(figure, ours, theirs)
            count += len(theirs)
    for line in wrong[:20]:
        print(line)
    print(f"{count} numbers, {len(wrong)} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
