#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes data/calibrations/accuracy.toml: between what a source that nobody has seen lies around its predictions in 80 of 100 cases.

    triplepoint validate validation/SOURCE/jobs.csv --leave-out SOURCE --format json > SOURCE.json    of each source that a fit has seen
    triplepoint validate validation/SOURCE/jobs.csv --format json > SOURCE.json                       of the others
    python3 lab/make_intervals.py *.json -o data/calibrations/accuracy.toml

With r = ln(measured / predicted) of a step time, a row is covered if w low <= r <= w high; w is the product of a factor for each of FEATURES. Rows of one source
share an error, so every source weighs the same, however many rows it has: low and high are weighted 10th and 90th percentiles of r / w, and a factor is scaled
until 80 % of its level's weight is covered, drawn towards 1 as if DRAWN further sources asked for no widening. What is left is one scale: the smallest at which the
mean over sources of the share inside is 80 %, where each source took no part in low, high and factors. Printed: that share and the width of each source.
"""
import argparse
import json
import math
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field

COVERAGE = 0.8
FEATURES = ("kernels", "experts")  # further ones (stack, bits, nodes, vendor, task) cover sources left out no better, and are wider
FEWEST = 3  # sources of a level that has a factor of its own
DRAWN = 6
ROUNDS = 25
STEP = 0.3  # of the way to a level's coverage in one round: rows belong to many levels
SMALLEST = 0.01  # of |ln| of either side: nothing is known better than to one per cent
OTHER = "other"
LARGE = 20  # GiB: of smaller jobs what every process needs is the larger part


@dataclass
class Row:
    family: str
    sweep: str
    residual: float  # ln(measured / predicted) of a time, or of memory
    levels: list  # (feature, level)
    is_large: bool = False  # memory of a plan that search writes: Megatron-Core, above LARGE


@dataclass
class Spread:
    low: float
    high: float
    factors: dict = field(default_factory=dict)  # (feature, level): factor

    def width(self, row):
        return math.prod(self.factors.get(item, self.factors.get((item[0], OTHER), 1.0)) for item in row.levels)

    def covers(self, row):
        return self.low <= row.residual / self.width(row) <= self.high

    def ratio(self, row):
        return math.exp(self.width(row) * (self.high - self.low))


def read_rows(files):
    """Rows of speed and rows of memory that were predicted."""
    speed, memory = [], []
    for file in files:
        with open(file, encoding="utf-8") as text:
            for row in json.load(text)["per_row"]:
                if "regime" not in row or not row["predicted"] or not row["measured"]:
                    continue
                residual = math.log(row["measured"] / row["predicted"])
                is_memory = row["quantity"].startswith("mem_")
                if not is_memory and not row["quantity"].startswith("step_time"):
                    residual = -residual
                levels = [(feature, row["regime"][feature]) for feature in FEATURES]
                is_large = is_memory and row["measured"] > LARGE and row.get("regime", {}).get("stack") in ("megatron-core", "megatron-graphs")
                (memory if is_memory else speed).append(Row(row["family"], row.get("sweep", ""), residual, levels, is_large))
    return speed, memory


def weights_of(rows):
    """Every source weighs one."""
    count = Counter(row.family for row in rows)
    return [1 / count[row.family] for row in rows]


def quantile(values, weights, share):
    order = sorted(range(len(values)), key=values.__getitem__)
    wanted, passed = share * sum(weights), 0.0
    for i in order:
        passed += weights[i]
        if passed >= wanted:
            return values[i]
    return values[order[-1]]


def edges(residuals, weights):
    return min(quantile(residuals, weights, (1 - COVERAGE) / 2), -SMALLEST), max(quantile(residuals, weights, (1 + COVERAGE) / 2), SMALLEST)


def fit(rows, by_level=True):
    weights = weights_of(rows)
    if not by_level:
        return Spread(*edges([row.residual for row in rows], weights))
    sources, members = defaultdict(set), defaultdict(list)
    for row in rows:
        for item in row.levels:
            sources[item].add(row.family)
    for i, row in enumerate(rows):
        for feature, level in row.levels:
            members[feature, level if len(sources[feature, level]) >= FEWEST else OTHER].append(i)
    spread = Spread(-SMALLEST, SMALLEST, {item: 1.0 for item in members})
    for _ in range(ROUNDS):
        scaled = [row.residual / spread.width(row) for row in rows]
        spread.low, spread.high = edges(scaled, weights)
        scores = [r / (spread.low if r < 0 else spread.high) for r in scaled]
        for item, some in members.items():
            edge = max(SMALLEST, quantile([scores[i] for i in some], [weights[i] for i in some], COVERAGE))
            known = len({rows[i].family for i in some})
            spread.factors[item] = (spread.factors[item] * edge**STEP) ** (1 - STEP * DRAWN / (known + DRAWN))
    for feature in FEATURES:  # what was never measured is as uncertain as the widest
        spread.factors.setdefault((feature, OTHER), max(factor for (f, _), factor in spread.factors.items() if f == feature))
    return spread


def left_out(rows, by_level=True):
    """Each source's rows, and the spread that the others give."""
    for family in sorted({row.family for row in rows}):
        yield family, [row for row in rows if row.family == family], fit([row for row in rows if row.family != family], by_level)


def scaled(spread, scale):
    return Spread(spread.low * scale, spread.high * scale, spread.factors)


def share_inside(rows, spread):
    return sum(spread.covers(row) for row in rows) / len(rows)


def scale_for_strangers(parts):
    """The smallest at which the mean over sources of the share inside is COVERAGE."""
    for step in range(100):
        scale = 0.8 * 1.01**step
        if sum(share_inside(rows, scaled(spread, scale)) for _, rows, spread in parts) / len(parts) >= COVERAGE:
            return scale
    sys.exit("no scale covers 80 % of the sources left out")


def print_coverage(parts, scale):
    ratios = sorted(scaled(spread, scale).ratio(row) for _, rows, spread in parts for row in rows)
    print(f"{'source left out':28} rows  inside  median of high over low")
    for family, rows, spread in parts:
        ratio = sorted(scaled(spread, scale).ratio(row) for row in rows)[len(rows) // 2]
        print(f"{family:28} {len(rows):4}  {100 * share_inside(rows, scaled(spread, scale)):5.0f}   {ratio:5.2f}")
    mean = sum(share_inside(rows, scaled(spread, scale)) for _, rows, spread in parts) / len(parts)
    print(f"mean over {len(parts)} sources {100 * mean:.0f} %, median of all rows {ratios[len(ratios) // 2]:.2f}, scale {scale:.3f}")


def within_sweeps(rows):
    """Standard deviation of residuals within a sweep, from the share that a normal distribution has inside 80 %."""
    sweeps = defaultdict(list)
    for row in rows:
        if row.sweep:
            sweeps[row.family, row.sweep].append(row.residual)
    deviations = []
    for residuals in sweeps.values():
        if len(residuals) < 3:
            continue
        middle = quantile(residuals, [1] * len(residuals), 0.5)
        correction = math.sqrt(len(residuals) / (len(residuals) - 1))
        deviations += [abs(r - middle) * correction for r in residuals]
    normal_80 = 1.2816
    return quantile(deviations, [1] * len(deviations), COVERAGE) / normal_80 if deviations else 0.05


def large_high(rows):
    """90th percentile of measured over predicted memory of large jobs, of Megatron-Core: plan leaves it free."""
    residuals = [row.residual for row in rows if row.is_large]
    return math.exp(quantile(residuals, [1] * len(residuals), 0.9)) if residuals else 1.0


def toml(speed, memory, time, kept, within):
    def table(name, spread, rows):
        text = f"[{name}]\nlow  = {math.exp(spread.low):.4g}\nhigh = {math.exp(spread.high):.4g}\n"
        text += f"within_job = {within:.3g}\n" if name == "step_time" else ""
        text += f"rows = {len(rows)}\n"
        return text + (f"large_high = {large_high(rows):.4g}\n" if name == "memory" else "") + "\n"

    counts = Counter(item for row in speed for item in row.levels)
    text = (
        "# SPDX-License-Identifier: Apache-2.0\n"
        "# How far measured training jobs are from predictions, for a source that nobody has seen. low, high: 10th and 90th percentile, every source\n"
        "# weighing the same, of measured over predicted step times (memory: of memory) where every widening factor is 1; factors are exponents, and\n"
        "# multiply. within_job: standard deviation of ln(measured / predicted) within a sweep. large_high: 90th percentile of Megatron-Core jobs above 20 GiB. Written by lab/make_intervals.py.\n")
    text += table("step_time", time, speed)
    for (feature, level), factor in sorted(time.factors.items()):
        text += f'[[step_time.widening]]\nfeature = "{feature}"\nlevel   = "{level}"\nfactor  = {factor:.3g}\nrows    = {counts[feature, level]}\n\n'
    text += table("memory", kept, memory)
    return text + '[[source]]\nkeys = ["step_time.*", "memory.*"]\nkind = "measured"\ncite = "triplepoint validate validation/*/jobs.csv, with --leave-out SOURCE where a fit has seen it, lab/make_intervals.py"\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="output of triplepoint validate --format json, sources left out where a fit has seen them")
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    speed, memory = read_rows(options.files)
    if min(len({row.family for row in rows}) for rows in (speed, memory)) < 2 * FEWEST:
        sys.exit("these are too few sources of speed or of memory; name the JSON of all")
    spreads = []
    for rows, by_level in ((speed, True), (memory, False)):
        parts = list(left_out(rows, by_level))
        scale = scale_for_strangers(parts)
        print_coverage(parts, scale)
        spreads.append(scaled(fit(rows, by_level), scale))
    with open(options.output, "w", encoding="utf-8") as out:
        out.write(toml(speed, memory, *spreads, within_sweeps(speed)))


if __name__ == "__main__":
    main()
