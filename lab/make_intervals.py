#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes data/calibrations/accuracy.toml: between what measured jobs lie around their predictions in 80 of 100 cases.

    for s in SOURCES: triplepoint validate validation/$s/jobs.csv --leave-out $s --format json > $s.json
    python3 lab/make_intervals.py *.json -o data/calibrations/accuracy.toml

With r = ln(measured / predicted) of a step time, a row is covered if w low <= r <= w high; w is the product of a factor for each feature of
its regime (stack, experts, bits, ...). low and high are the 10th and 90th percentile of r / w. Factors are found by proportional fitting:
each level's is scaled until 80 % of the level's rows are covered, all levels again and again; a level of few rows is drawn towards 1.

Rows of one source share an error, so a level that n sources know says little of the next source. Each factor grows by
g(n) = sqrt(1 - b + b (t(n - 1) sqrt(1 + 1/n) / z)^2), Student's t over the normal's z at 90 %: b, the share of the variance between sources, is the
smallest for which 80 % of all rows are covered by widths fitted without their source. A level of which fewer than 75 or more than 85 %
are covered so gets the factor that mends it, and then one of which fewer than 75 % are covered with their source. Printed are the coverages of each level: with the source in the fit of the widths, and without (the
last factor excepted: it has seen all sources; the third column is without it).
"""
import argparse
import json
import math
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from leave_out import quantile

COVERAGE = 0.8
FEWEST = 20  # rows of a level that has a factor of its own
DRAWN = 3  # rows that count as much as "no widening"
ROUNDS = 40
STEP = 0.3  # of the way to a level's coverage in one round: rows belong to many levels
FLOOR, CEILING = 0.75, 0.85  # coverage of a level's rows by widths fitted without their source
STUDENT_90 = [3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397, 1.383, 1.372, 1.363, 1.356, 1.350, 1.345, 1.341, 1.337]  # by degrees of freedom
NORMAL_90 = 1.2816
SMALLEST = 0.01  # of |ln| of either side: nothing is known better than to one per cent
OTHER = "other"


@dataclass
class Row:
    family: str
    sweep: str
    residual: float  # ln(measured / predicted) of a time, or of memory
    levels: dict


@dataclass
class Spread:
    low: float
    high: float
    factors: dict = field(default_factory=dict)  # (feature, level): factor

    def factor(self, feature, level):
        return self.factors.get((feature, level), self.factors.get((feature, OTHER), 1.0))

    def width(self, row):
        return math.prod(self.factor(*item) for item in row.levels.items())

    def score(self, row):
        """1 on the edge of the interval, less inside."""
        return row.residual / (self.width(row) * (self.low if row.residual < 0 else self.high))


def read_rows(files):
    """Rows of speed and rows of memory that were predicted."""
    speed, memory = [], []
    for file in files:
        with open(file, encoding="utf-8") as text:
            for row in json.load(text)["per_row"]:
                if "regime" not in row or not row["predicted"] or not row["measured"]:
                    continue
                ratio = math.log(row["measured"] / row["predicted"])
                quantity = row["quantity"]
                is_rate = not quantity.startswith(("step_time", "mem_"))
                kind = memory if quantity.startswith("mem_") else speed
                kind.append(Row(row["family"], row.get("sweep", ""), -ratio if is_rate else ratio, row["regime"]))
    return speed, memory


def with_common_levels(rows):
    """Levels of fewer rows than FEWEST are one, "other"."""
    counts = Counter(item for row in rows for item in row.levels.items())
    return [Row(row.family, row.sweep, row.residual,
                {f: level if counts[f, level] >= FEWEST else OTHER for f, level in row.levels.items()}) for row in rows]


def edges(rows, widths, spread):
    """Percentiles of the residuals where every factor is 1."""
    scaled = [row.residual / width for row, width in zip(rows, widths)]
    spread.low = min(quantile(scaled, (1 - COVERAGE) / 2), -SMALLEST)
    spread.high = max(quantile(scaled, (1 + COVERAGE) / 2), SMALLEST)


def fit(rows, by_level=True):
    rows = with_common_levels(rows)
    members = defaultdict(list)  # of each level of a feature that has several: places of its rows
    for i, row in enumerate(rows):
        for item in row.levels.items():
            members[item].append(i)
    levels_of = Counter(feature for feature, _ in members)
    varying = {item: some for item, some in members.items() if by_level and levels_of[item[0]] > 1}
    spread = Spread(-SMALLEST, SMALLEST, {item: 1.0 for item in varying})
    for _ in range(ROUNDS):
        widths = [spread.width(row) for row in rows]
        edges(rows, widths, spread)
        if not varying:
            break
        scores = [row.residual / (width * (spread.low if row.residual < 0 else spread.high)) for row, width in zip(rows, widths)]
        for item, some in varying.items():
            edge = max(SMALLEST, quantile([scores[i] for i in some], COVERAGE))
            towards_1 = len(some) / (len(some) + DRAWN)
            spread.factors[item] = (spread.factors[item] * edge**STEP) ** (1 - STEP * (1 - towards_1))
    for feature in {feature for feature, _ in varying}:
        normalise(spread, feature, varying)
    return spread


def normalise(spread, feature, members):
    """The commonest level has the factor 1; what was never measured is as uncertain as the widest."""
    levels = [item for item in members if item[0] == feature]
    if not levels:
        return
    common = spread.factors[max(levels, key=lambda item: len(members[item]))]
    for item in levels:
        spread.factors[item] /= common
    spread.low *= common
    spread.high *= common
    if (feature, OTHER) not in spread.factors:
        spread.factors[feature, OTHER] = max(spread.factors[item] for item in levels)


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
        middle = quantile(residuals, 0.5)
        correction = math.sqrt(len(residuals) / (len(residuals) - 1))
        deviations += [abs(r - middle) * correction for r in residuals]
    normal_80 = 1.2816
    return quantile(deviations, COVERAGE) / normal_80 if deviations else 0.05


def for_a_new_source(sources, between):
    """Width of an interval for the next source over that for rows of these."""
    count = max(2, sources)
    student = STUDENT_90[min(count - 1, len(STUDENT_90)) - 1] * math.sqrt(1 + 1 / count)
    return math.sqrt(1 - between + between * (student / NORMAL_90) ** 2)


def sources_of_levels(rows):
    sources = defaultdict(set)
    for row in rows:
        for item in row.levels.items():
            sources[item].add(row.family)
    return {item: len(some) for item, some in sources.items()}


def growth(rows, between):
    """Factors by which levels widen for a new source, beside that of all rows; the best known level of a feature has 1."""
    sources = sources_of_levels(rows)
    levels = Counter(feature for feature, _ in sources)
    most = {feature: max(n for (f, _), n in sources.items() if f == feature) for feature in levels}
    factors = {(f, level): for_a_new_source(n, between) / for_a_new_source(most[f], between) for (f, level), n in sources.items() if levels[f] > 1}
    least_known = {feature: for_a_new_source(1, between) / for_a_new_source(n, between) for feature, n in most.items() if levels[feature] > 1}
    return factors, least_known, for_a_new_source(len({row.family for row in rows}), between)


def grown(row, grow):
    factors, least_known, overall = grow
    return overall * math.prod(factors.get(item, least_known.get(item[0], 1)) for item in row.levels.items())


def left_out_scores(rows):
    """The score of each row where its family took no part in the fit of the widths, and the rows that did."""
    scores = {}
    for family in {row.family for row in rows}:
        others = [row for row in rows if row.family != family]
        spread = fit(others)
        scores |= {i: (spread.score(row), others) for i, row in enumerate(rows) if row.family == family}
    return [scores[i] for i in range(len(rows))]


def coverage(scores):
    return sum(score <= 1 for score in scores) / len(scores)


def widen_for_sources(rows, left_out):
    """The share of variance between sources, and the scores by it."""
    for step in range(21):
        between = step / 40
        growths = {}
        scores = []
        for row, (score, others) in zip(rows, left_out):
            if row.family not in growths:
                growths[row.family] = growth(others, between)
            scores.append(score / grown(row, growths[row.family]))
        if coverage(scores) >= COVERAGE:
            break
    return between, scores


def at_coverage(scores, share):
    """The factor of a width that covers this share."""
    places = (math.ceil if share == FLOOR else math.floor)(share * len(scores))
    return sorted(scores)[places - 1] * 1.001


def correct_levels(rows, scores, inside):
    """Factors of the levels that are covered too seldom or too often without their source, the worst first; then of those that are covered too seldom with it."""
    factors = {}
    scores, inside = list(scores), list(inside)
    levels = sorted({item for row in rows for item in row.levels.items()})
    members = {item: [i for i, row in enumerate(rows) if row.levels[item[0]] == item[1]] for item in levels}
    members = {item: some for item, some in members.items() if len(some) >= FEWEST}

    def scale(item, factor):
        factors[item] = factors.get(item, 1) * factor
        for i in members[item]:
            scores[i] /= factor
            inside[i] /= factor

    for _ in range(ROUNDS):
        found = {item: coverage([scores[i] for i in some]) for item, some in members.items()}
        worst = max(found, key=lambda item: abs(found[item] - COVERAGE))
        if FLOOR <= found[worst] <= CEILING:
            break
        scale(worst, at_coverage([scores[i] for i in members[worst]], FLOOR if found[worst] < FLOOR else CEILING))
    for item, some in members.items():
        if coverage([inside[i] for i in some]) < FLOOR:
            scale(item, at_coverage([inside[i] for i in some], FLOOR))
    return factors, scores


def apply(spread, rows, between, extra):
    factors, least_known, overall = growth(rows, between)
    for item in spread.factors:
        spread.factors[item] *= factors.get(item, least_known.get(item[0], 1)) * extra.get(item, 1)
    for item in extra.keys() - spread.factors.keys():
        sys.exit(f"{item}: no factor to widen")
    spread.low *= overall
    spread.high *= overall


def print_coverage(rows, spread, left_out, without_floor):
    groups = defaultdict(list)
    for row, outside, plain in zip(rows, left_out, without_floor):
        for group in [("all", "")] + list(row.levels.items()):
            groups[group].append((spread.score(row) <= 1, outside <= 1, plain <= 1))
    print(f"{'regime':34} rows  inside  inside, source left out  without the levels' last factor")
    for (feature, level), some in sorted(groups.items()):
        if len(some) >= FEWEST:
            inside = [100 * sum(column) / len(some) for column in zip(*some)]
            print(f"{feature + ' ' + level:34} {len(some):4}  {inside[0]:5.0f}   {inside[1]:5.0f}   {inside[2]:5.0f}")


def toml(speed, memory, time, kept, within, command):
    def table(name, spread, rows):
        text = f"[{name}]\nlow  = {math.exp(spread.low):.4g}\nhigh = {math.exp(spread.high):.4g}\n"
        return text + (f"within_job = {within:.3g}\n" if name == "step_time" else "") + f"rows = {len(rows)}\n\n"

    counts = Counter(item for row in with_common_levels(speed) for item in row.levels.items())
    text = (
        "# SPDX-License-Identifier: Apache-2.0\n"
        "# How far measured training jobs are from predictions, of sources left out of every fit. low, high: 10th and 90th percentile of\n"
        "# measured over predicted step times (memory: of memory) where every widening factor is 1; factors are exponents, and multiply.\n"
        "# within_job: standard deviation of ln(measured / predicted) within a sweep. Written by lab/make_intervals.py.\n")
    text += table("step_time", time, speed)
    for (feature, level), factor in sorted(time.factors.items()):
        text += f'[[step_time.widening]]\nfeature = "{feature}"\nlevel   = "{level}"\nfactor  = {factor:.3g}\nrows    = {counts[feature, level]}\n\n'
    text += table("memory", kept, memory)
    return text + f'[[source]]\nkeys = ["step_time.*", "memory.*"]\nkind = "measured"\ncite = "{command}"\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="output of triplepoint validate --format json, each source left out")
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    speed, memory = read_rows(options.files)
    if len(speed) < FEWEST or len(memory) < FEWEST:
        sys.exit(f"{len(speed)} rows of speed and {len(memory)} of memory are too few; name the JSON of all sources")
    time, kept = fit(speed), fit(memory, by_level=False)
    known = with_common_levels(speed)
    between, by_source = widen_for_sources(known, left_out_scores(known))
    grow = growth(known, between)
    extra, left_out = correct_levels(known, by_source, [time.score(row) / grown(row, grow) for row in known])
    apply(time, known, between, extra)
    print(f"variance between sources: {between:.3f} of all; levels corrected: {extra}")
    print_coverage(known, time, left_out, by_source)
    cite = "triplepoint validate validation/*/jobs.csv --leave-out SOURCE --format json, lab/make_intervals.py"
    with open(options.output, "w", encoding="utf-8") as out:
        out.write(toml(speed, memory, time, kept, within_sweeps(speed), cite))


if __name__ == "__main__":
    main()
