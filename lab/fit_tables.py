#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits coefficients of data/ to published tables of kernels, collectives, powers and temperatures. Needs Debian's python3-scipy.

    fit_tables.py PROGRAM FOLDER_OF_TABLES [SUBJECT...] [--write]        SUBJECT as in SUBJECTS: "kernels h100", "links dgx-b200", "power b200"

Each fit starts from the shipped numbers and asks `triplepoint validate` for the predictions of a trial library. Printed: each number as shipped and as found, its bounds,
and the residuals; those held out are of rows whose fold the fit did not see. With --write the found numbers go into data/ with command, rows, bounds and residuals as
their source; with --record the shipped numbers stay and only their source is written anew; without either nothing changes.

  kernels   (and casts of quantized products)  minimize  sum_rows w c(|ln(predicted / measured)|);   w: all libraries count alike; c(e) = e, of looped products 0.04 ln(1 + e / 0.04), for some multiply zeros
  links     minimize  mean |ln(predicted / measured)|;            inside one domain, the newest library of the table, 16 bits or wider
  power     minimize  mean min(|ln(predicted / measured)|, 1/4) + 0.02 sum ((x - start) / range)^2;   what rows say nothing about stays at `start`
  thermal   minimize  mean min((predicted - measured)^2, 4 K^2)
"""
import argparse
import collections
import csv
import math
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from fit_files import record, set_number
from fitting import descend
from trial_library import DATA, trial_library, validate

ROOT = DATA.parent
FOLDS = 5
KERNEL_TABLES = ["gemm_power.csv", "attention_power.csv", "kernels_calibration.csv", str(DATA / "calibrations" / "attention_h100.csv")]


class Number:
    """One number of a fit. unit: as it is written; log: searched in its logarithm; item: its place in a list; start: what a prior pulls it to."""

    def __init__(self, key, low, high, unit="", log=False, item=None, start=None, file=None):
        self.key, self.low, self.high, self.unit, self.log, self.item, self.start, self.file = key, low, high, unit, log, item, start, file
        self.digits = 3 if log else 4

    def text(self, value):
        shown = f"{value:.{self.digits}g}"
        return f'"{shown} {self.unit}"' if self.unit else shown

    def to_unit(self, value):
        scale = math.log if self.log else float
        return (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))

    def from_unit(self, x):
        x = min(1.0, max(0.0, x))
        if self.log:
            return math.exp(math.log(self.low) + x * math.log(self.high / self.low))
        return self.low + x * (self.high - self.low)

    def shipped(self, path):
        value, item = tomllib.loads(path.read_text()), self.item
        for part in self.key.replace(".vector", ".norm").split("."):
            value = value[part]
            if isinstance(value, list):
                value = value[item]
        return float(str(value).split()[0])


KERNELS = {
    "gemm_16bit": [Number("kernels.gemm_peak_share", 0.5, 1.2), Number("kernels.gemm_half_k", 0, 400), Number("kernels.gemm_half_tile", 0, 120),
                   Number("kernels.wave_quantization", 0, 1), Number("kernels.kernel_start", 0, 10, "us")],
    "attention_forward": [Number("kernels.attention_forward_share", 0.2, 1.2), Number("kernels.attention_half_length", 0, 2000),
                          Number("kernels.attention_half_head_dim", 10, 200), Number("kernels.attention_wave_quantization", 0.1, 0.6),
                          Number("kernels.attention_start", 0, 15, "us")],
    "attention_backward": [Number("kernels.attention_backward_share", 0.2, 1.2)],
}
# What a benchmark times besides a quantized product, and the share of the peak that its library reaches.
CASTS = {"gemm_share": (0.4, 1.4, ""), "cast_bytes": (0, 20, ""), "cast_start": (0, 30, "us"), "host_time": (0, 250, "us")}
LINKS = [Number(f"cluster.scale_up.{key}", *rest) for key, *rest in (
    ("efficiency", 0.3, 1), ("all_to_all_efficiency", 0.3, 1), ("low_latency_efficiency", 0.005, 0.6), ("launch", 1, 20, "us"), ("latency", 0, 5, "us"),
    ("bulk_latency", 0, 10, "us"), ("half_size", 0, 20, "MB"), ("local_copy_factor", 0.5, 6))]
SWITCH = [Number("cluster.scale_up.nvls_efficiency", 0.5, 0.65), Number("cluster.scale_up.nvls_latency", 0, 100, "us")]
STANDING = [Number("power.waiting", 60, 300, "W", start=100), Number("power.joules_per_hbm_gb", 0.03, 0.2, start=0.09)]
POWER = {
    "a100-80gb": STANDING + [Number("power.clock_exponent", 0.5, 10, start=5), Number("power.energy_floor", 0.2, 0.8, start=0.45),
                             Number("power.hbm_clocked_share", 0, 1, start=0.6)],
    "a100-40gb": STANDING + [Number("power.joules_per_tflop.vector", 1, 10, start=4)],
    "b200": [Number("power.joules_per_tflop.attention", 0.2, 2.5, start=0.6)],
}


def ladder(rungs, known, fans=None):
    """Resistances and capacities of a package's first rungs, from the die on."""
    capacity = lambda k: (0.3, 60) if k == 0 else (200, 20000) if k + 1 == known else (2, 2000) if k == 1 else (30, 5000)
    numbers = [Number("thermal.resistances", 0.003, 0.06, "K/W", log=True, item=k) for k in range(rungs)]
    numbers += [Number("thermal.capacities", *capacity(k), "J/K", log=True, item=k) for k in range(rungs)]
    if fans:
        numbers += [Number("cluster.chassis.fan_target", 50, 90, "C", log=True, file=fans), Number("cluster.chassis.fan_slew_per_s", 0.0002, 0.05, log=True, file=fans),
                    Number("cluster.chassis.fan_floor", 0.2, 0.9, log=True, file=fans)]
    return numbers


# A trace shorter than a minute does not show the last rung, and fans have no time to move.
THERMAL = {"a100-40gb": ladder(3, 4), "mi300x": ladder(3, 3, "clusters/mi300x.toml")}
SUBJECTS = [("kernels", gpu) for gpu in ("a100-80gb", "h100", "b200")] + [("casts", gpu) for gpu in ("h100", "h200", "b200")] + [("links", name) for name in ("dgx-a100", "dgx-h100", "dgx-b200", "dgx-b300")] + \
    [("power", gpu) for gpu in POWER] + [("thermal", gpu) for gpu in THERMAL]


class Rows:
    """Canonical rows of published tables: validation/normalise.py."""

    def __init__(self, folder, scratch):
        self.folder, self.scratch, self.tables = Path(folder), scratch, {}

    def of(self, name):
        if name not in self.tables:
            path = self.scratch / "rows.csv"
            subprocess.run([sys.executable, ROOT / "validation" / "normalise.py", self.folder / name, "-o", path], check=True, stderr=subprocess.DEVNULL)
            with open(path) as file:
                self.tables[name] = [row for row in csv.DictReader(file) if not row["skip"]]
        return self.tables[name]

    def write(self, rows):
        path = self.scratch / "fit.csv"
        titles = list(dict.fromkeys(title for row in rows for title in row))
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, titles, restval="")
            writer.writeheader()
            writer.writerows(rows)
        return path


class Problem:
    """Numbers of one file, the rows that they are fitted to, and what an error costs. fold: of a prediction, by its place and row."""

    prior, unit = 0.0, "per cent"

    def __init__(self, what, subject, name, numbers, file, tables, rows, quantity):
        self.what, self.subject, self.name, self.numbers, self.file, self.tables, self.quantity = what, subject, name, numbers, file, tables, quantity
        self.rows = [dict(row, row_id=row.get("row_id") if what == "power" else str(i)) if "trace_id" not in row else row for i, row in enumerate(rows)]

    def path(self, library, number):
        return library / (number.file or self.file)

    def predict(self, program, library, table, point):
        set_numbers(library, self, point)
        return [row for row in validate(program, library, [table]) if row["quantity"] == self.quantity and self.counts(row)]

    def counts(self, row):
        return True

    def error(self, row):
        return math.log(float(row["predicted"]) / float(row["measured"]))

    def residual(self, row):
        return 100 * abs(float(row["predicted"]) / float(row["measured"]) - 1)

    def cost(self, rows, hold=None):
        used = [(i, row) for i, row in enumerate(rows) if hold is None or self.fold(i, row) != hold]
        return sum(self.price(row) * self.weight(row) for _, row in used) / sum(self.weight(row) for _, row in used)

    def weight(self, row):
        return 1.0

    def fold(self, place, row):
        return place % FOLDS

    def folds(self):
        return range(FOLDS)

    def pull(self, point):
        return self.prior * sum((x - n.to_unit(n.start)) ** 2 for n, x in zip(self.numbers, point) if n.start is not None)


def set_numbers(library, problem, point):
    for number, x in zip(problem.numbers, point):
        set_number(problem.path(library, number), number.key, number.text(number.from_unit(x)), number.item)


class Kernels(Problem):
    def __init__(self, what, subject, name, rows, numbers, file):
        super().__init__(what, subject, name, numbers, file, KERNEL_TABLES, rows, "latency_us")
        self.libraries = collections.Counter(row["kernel_source"] for row in self.rows)

    def weight(self, row):
        return 1 / self.libraries[self.rows[int(row["row_id"])]["kernel_source"]]

    def price(self, row):
        error, source = abs(self.error(row)), self.rows[int(row["row_id"])]
        return 0.04 * math.log1p(error / 0.04) if source["kind"] == "gemm" and source["power_w"] else error

    def fold(self, place, row):
        """Rows of one shape are in one fold, whatever library ran them."""
        source = self.rows[int(row["row_id"])]
        return hash(tuple(int(source.get(size) or 0) for size in ("m", "n", "k", "batch", "heads", "kv_heads", "head_dim", "seq"))) % FOLDS


class Links(Problem):
    def __init__(self, subject, rows, numbers):
        super().__init__("links", subject, "scale_up", numbers, f"clusters/{subject}.toml", ["nccl.csv"], rows, "latency_us")

    def price(self, row):
        return abs(self.error(row))

    def fold(self, place, row):
        return round(math.log2(float(self.rows[int(row["row_id"])]["msg_bytes"]))) * 7 % FOLDS


class Power(Problem):
    prior = 0.02

    def __init__(self, subject, table, rows, names):
        super().__init__("power", subject, "power", POWER[subject], f"calibrations/{subject}/power.toml", [table], rows, "power_w")
        self.names, self.sweeps = names, {}

    def counts(self, row):
        return row["row_id"] in self.names

    def price(self, row):
        return min(abs(self.error(row)), 0.25)

    def fold(self, place, row):
        """Sweeps where there are few of them, else every fifth row."""
        sweep = self.sweeps.setdefault(row["sweep"], len(self.sweeps))
        return sweep if 1 < len(self.sweeps) <= FOLDS else place % FOLDS


class Thermal(Problem):
    unit = "K"

    def __init__(self, subject, rows):
        super().__init__("thermal", subject, "thermal", THERMAL[subject], f"calibrations/{subject}/thermal.toml", ["thermal_transients_calibration.csv"], rows,
                         "temperature_c")
        self.nodes = sorted({row["node"] for row in rows})
        self.ends = {node: max(float(row["t_s"]) for row in rows if row["node"] == node) for node in self.nodes}

    def error(self, row):
        return float(row["predicted"]) - float(row["measured"])

    def residual(self, row):
        return abs(self.error(row))

    def price(self, row):
        return min(self.error(row) ** 2, 4.0)

    def fold(self, place, row):
        """Each node; of a single one its second half, or nothing that is held out."""
        node = next(node for node in self.nodes if row["family"].startswith(node))
        if len(self.nodes) > 1:
            return self.nodes.index(node)
        return 0 if float(row["row_id"].split()[-2]) > self.ends[node] / 2 else 1

    def folds(self):
        return range(len(self.nodes)) if len(self.nodes) > 1 else [0]


def matching_benchmark(row):
    """data/calibrations/benchmarks.toml: the first that fits."""
    for known in tomllib.loads((DATA / "calibrations" / "benchmarks.toml").read_text())["benchmark"]:
        agrees = lambda key, said: known.get(key, "") in ("", said) or (known.get(key) == "*" and said)
        grouped = known.get("grouped_heads")
        if agrees("gpu", row["gpu"]) and agrees("source", row["kernel_source"]) and agrees("dtype", row["dtype"]) and (
                grouped is None or (row["kind"] == "attention" and grouped == (int(row["kv_heads"]) < int(row["heads"])))):
            return known
    return {}


def kernel_class(row):
    if row["kind"] not in ("gemm", "attention") or row["precision"] not in ("bf16", "fp16", "fp32") or row.get("best_shape") or not row["latency_us"]:
        return None
    if row["kind"] == "gemm":
        # Weights of such tables were never written: zeros, which take less power and run faster.
        return "gemm_16bit" if int(row["k"]) <= 32768 and int(row["n"]) <= 32768 else None
    # A library with shares of its own is not the one that trains.
    return f"attention_{row['pass']}" if int(row["head_dim"]) <= 256 and "attention_share" not in matching_benchmark(row) else None


def kernel_problems(gpu, rows):
    mine = [row for name in KERNEL_TABLES for row in rows.of(name) if row.get("gpu") == gpu]
    for name, numbers in KERNELS.items():
        some = [row for row in mine if kernel_class(row) == name]
        # A figure of a paper tells a rate, not how blocks end; the first three numbers are the rates.
        if len(some) >= 12:
            yield Kernels("kernels", gpu, name, some, numbers if len(some) >= 200 else numbers[:3], f"calibrations/{gpu}/kernels.toml")


def cast_problems(gpu, rows):
    """The libraries of this GPU whose quantized products are in the tables, by their entries of benchmarks.toml."""
    file = "calibrations/benchmarks.toml"
    mine = [row for name in KERNEL_TABLES for row in rows.of(name) if row.get("gpu") == gpu and row["kind"] == "gemm" and row["precision"] in ("fp8", "mxfp8", "nvfp4")]
    for place, known in enumerate(tomllib.loads((DATA / file).read_text())["benchmark"]):
        some = [row for row in mine if (gpu, row["kernel_source"], row["dtype"]) == tuple(known.get(key) for key in ("gpu", "source", "dtype"))
                and int(row["k"]) <= 32768 and int(row["n"]) <= 32768]
        if len(some) > 500:
            numbers = [Number(f"benchmark.{key}", low, high, unit, item=place) for key, (low, high, unit) in CASTS.items() if key in known]
            yield Kernels("casts", gpu, f"{known['source']} {known['dtype']}", some, numbers, file)


def link_problem(name, rows):
    cluster = tomllib.loads((DATA / "clusters" / f"{name}.toml").read_text())["cluster"]
    links = cluster["scale_up"]
    mine = [row for row in rows.of("nccl.csv") if row["gpu"] == cluster["gpu"]]
    newest = max(row["software"] for row in mine)
    mine = [dict(row, cluster=name) for row in mine if row["software"] == newest and row["dtype"] != "int8" and int(row["n_gpus"]) <= links["domain_size"]]
    by_switch = any(row["op"] == "all_reduce" and int(row["n_gpus"]) > 4 and (row["nvls"] or str(links.get("nvls", False)).lower()) == "true" for row in mine)
    return Links(name, mine, LINKS + (SWITCH if by_switch else []))


def problems(what, subject, rows):
    if what == "kernels":
        return list(kernel_problems(subject, rows))
    if what == "casts":
        return list(cast_problems(subject, rows))
    if what == "links":
        return [link_problem(subject, rows)]
    if what == "thermal":
        cluster = {"a100-40gb": "dgx-a100-40gb"}.get(subject, subject)
        return [Thermal(subject, [row for row in rows.of("thermal_transients_calibration.csv") if row["cluster"] == cluster])]
    table = "attention_power.csv" if subject == "b200" else "power_dvfs_calibration.csv"
    mine = [row for row in rows.of(table) if row["gpu"] == subject]
    return [Power(subject, table, mine, {row["row_id"] for row in mine})]


def quantiles(residuals):
    ordered = sorted(residuals)
    return {"rows": len(ordered), "median": ordered[len(ordered) // 2], "p90": ordered[len(ordered) * 9 // 10]} if ordered else None


def solve(program, problem, rows, evaluations, hold_out):
    table = rows.write(problem.rows)
    with trial_library() as library:
        shipped = [number.to_unit(number.shipped(problem.path(library, number))) for number in problem.numbers]
        predict = lambda point: problem.predict(program, library, table, point)
        cost = lambda point, hold=None: problem.cost(predict(point), hold) + problem.pull(point)
        found, least = descend(cost, shipped, 0.05, evaluations)
        at_start, at_end = predict(shipped), predict(found)
        unseen = []
        for hold in problem.folds() if hold_out else []:
            point, _ = descend(lambda p, hold=hold: cost(p, hold), found, 0.05, evaluations // 4)
            unseen += [problem.residual(row) for i, row in enumerate(predict(point)) if problem.fold(i, row) == hold]
        return {"shipped": shipped, "found": found, "cost": (problem.cost(at_start) + problem.pull(shipped), least),
                "before": quantiles(map(problem.residual, at_start)), "after": quantiles(map(problem.residual, at_end)), "held_out": quantiles(unseen)}


def report(problem, fit):
    line = lambda label: f"{fit[label]['rows']} rows, median {fit[label]['median']:.2f}, p90 {fit[label]['p90']:.2f} {problem.unit}" if fit[label] else "not made"
    print(f"{problem.what} {problem.subject} {problem.name}: cost {fit['cost'][0]:.6f} as shipped, {fit['cost'][1]:.6f} as found")
    for number, old, new in zip(problem.numbers, fit["shipped"], fit["found"]):
        was, now = number.from_unit(old), float(f"{number.from_unit(new):.{number.digits}g}")
        place = "" if number.item is None else f"[{number.item}]"
        edge = "  on its bound" if not 0.005 < new < 0.995 else ""
        print(f"  {number.key + place:42} {was:10.4g} {now:10.4g}  {100 * (now / was - 1) if was else 0:+7.2f} %  of {number.low:g} to {number.high:g} {number.unit}{edge}")
    print(f"  as shipped: {line('before')}\n  as found:   {line('after')}\n  held out:   {line('held_out')}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder", type=Path)
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT")
    parser.add_argument("--evaluations", type=int, default=400, help="predictions of all rows, at most (default 400)")
    parser.add_argument("--no-hold-out", action="store_true")
    parser.add_argument("--write", action="store_true", help="write the found numbers and their source into data/")
    parser.add_argument("--record", action="store_true", help="write the source of the shipped numbers into data/, with their residuals")
    chosen = parser.parse_args()
    program = str(Path(chosen.program).resolve())
    if not chosen.folder.is_dir():
        sys.exit(f"{chosen.folder}: no such folder (the tables of measurements are not part of this tree); name one")
    with tempfile.TemporaryDirectory() as scratch:
        rows = Rows(chosen.folder.resolve(), Path(scratch))
        for what, subject in SUBJECTS:
            if chosen.subjects and f"{what} {subject}" not in chosen.subjects and what not in chosen.subjects:
                continue
            for problem in problems(what, subject, rows):
                fit = solve(program, problem, rows, chosen.evaluations, not chosen.no_hold_out)
                report(problem, fit)
                if chosen.record:
                    fit |= {"found": fit["shipped"], "after": fit["before"]}
                if what == "casts":  # benchmarks.toml has one source for all of them, written by hand
                    if chosen.write:
                        set_numbers(DATA, problem, fit["found"])
                elif chosen.write or chosen.record:
                    record(DATA / problem.file, problem, fit)


if __name__ == "__main__":
    main()
