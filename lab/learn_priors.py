#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes data/learned/priors.toml: how much places differ from what is shipped, estimated from published sources.

    for s in SOURCES: triplepoint validate validation/$s/jobs.csv --sensitivities --format json > $s.json
    python3 lab/learn_priors.py *.json -o data/learned/priors.toml             # Debian's python3-numpy and python3-scipy
    python3 lab/learn_priors.py *.json --folds 4                               # scores sources by priors that have not seen them

One source's rows of one sweep stand for a user's own runs: e = J x + c + r + noise (triplepoint/learn/posterior.h). Spreads of coefficients, remainders
and weights of the distance maximise the probability (Student's t, 4 degrees of freedom) of a sweep's other rows, given none, one, three or five of
them; sources weigh equally, however many rows they have; a weak normal prior of ln(number) holds what no row tells near the start. Printed per number
of given rows: median and 90th percentile of raw and learned errors over rows, means of the sources' medians, coverage of 80 % intervals (mean over
sources) and median of high over low.
"""
import argparse
import collections
import json
import math
import random
import statistics

import numpy
from scipy.optimize import minimize

SPREAD = {"in_context": 0.12, "few_bits": 0.1, "elementwise": 0.35, "hbm": 0.15, "attention": 0.3, "layer_host": 0.8, "microbatch_gap": 1.0,
          "step_overhead": 1.0, "nic": 0.35, "link": 0.25, "start": 0.3, "moe": 0.8, "overlap": 0.6}
LARGEST_SPREAD = 1.0  # a factor of 2.7: wider, and slopes around the shipped value say nothing
REMAINDER = {"common": 0.08, "near": 0.10, "noise": 0.03}
DISTANCE = {"microbatch": 0.25, "tensor": 0.25, "pipeline": 0.25, "virtual": 0.1, "context": 0.25, "expert": 0.25, "replicas": 0.1, "nodes": 0.1,
            "sequence": 0.2, "batch": 0.1, "parameters": 0.15, "active": 0.15, "recompute": 0.25, "gpu": 0.7, "stack": 0.7, "precision": 0.6,
            "sharding": 0.5, "task": 0.7, "model": 2.0}
GIVEN = (0, 1, 3, 5)
POWER = {"energy": 0.15, "idle": 0.2, "noise": 0.05}  # sources of training power differ by 10 % (validation/power-mlperf-*/errors.csv), their rows by 5 %
TAILS, SURPRISE = 4.0, 4.0
OTHER_GPU, OTHER_MODEL = 0.5, 0.3  # lab/other_places.py
KERNELS = 0.05  # see ASSUMED
HOLD = 0.01  # weight of ln(number / start)^2
MOST_ROWS = 18  # of a sweep, in the fit
MOST_SWEEPS, MOST_KNOWN = 25, 24  # of a source, and rows of a sweep: drawn, so that large sources do not decide
NORMAL_80 = 1.2816


class Sweep:
    def __init__(self, family, rows):
        self.family, self.ids = family, [row["row_id"] for row in rows]
        self.errors = numpy.array([time_ratio(row) for row in rows])  # ln(measured / predicted time)
        slopes = [row["sensitivities"]["slopes"] for row in rows]
        self.slopes = numpy.array([[slope[name] for name in SPREAD] for slope in slopes])
        knobs = [row["sensitivities"]["knobs"] for row in rows]
        apart = lambda a, b: abs(a - b) if isinstance(a, (int, float)) else float(a != b)
        self.apart = numpy.array([[[apart(a[name], b[name]) for b in knobs] for a in knobs] for name in DISTANCE])

    def part(self, chosen):
        part = object.__new__(Sweep)
        part.family, part.ids = self.family, [self.ids[i] for i in chosen]
        part.errors, part.slopes = self.errors[chosen], self.slopes[chosen]
        part.apart = self.apart[:, chosen][:, :, chosen]
        return part

    def split(self, given, seed):
        chosen = random.Random(f"{self.family}{self.ids[0]}{given}{seed}").sample(range(len(self.ids)), given)
        return chosen, [i for i in range(len(self.ids)) if i not in chosen]


def time_ratio(row):
    ratio = math.log(row["measured"] / row["predicted"])
    return ratio if row["quantity"] == "step_time_s" else -ratio


def read_sweeps(files):
    rows = collections.defaultdict(dict)
    for file in files:
        with open(file, encoding="utf-8") as text:
            for row in json.load(text)["per_row"]:
                if row.get("sensitivities") and row["predicted"] > 0 and not row["quantity"].startswith("mem"):
                    rows[row["family"], row.get("sweep") or ""].setdefault(row["row_id"], row)
    of_family = collections.defaultdict(list)
    for (family, _), of in sorted(rows.items()):
        of_family[family].append(drawn(list(of.values()), MOST_KNOWN, family))
    return [Sweep(family, rows) for family, sweeps in of_family.items() for rows in drawn(sweeps, MOST_SWEEPS, family)]


def drawn(items, most, seed):
    """At most so many of them, in their order."""
    chosen = sorted(random.Random(seed).sample(range(len(items)), min(most, len(items))))
    return [items[i] for i in chosen]


class Priors:
    """Numbers as one vector of logarithms."""

    def __init__(self, logs):
        numbers = numpy.exp(logs)
        self.spread = numpy.minimum(numbers[:len(SPREAD)], LARGEST_SPREAD)
        self.common, self.near, self.noise = numbers[len(SPREAD):len(SPREAD) + 3]
        self.weights = numbers[len(SPREAD) + 3:]

    def covariance(self, sweep):
        scaled = sweep.slopes * self.spread
        apart = self.weights[:, None, None] * sweep.apart
        return scaled @ scaled.T + self.common**2 + self.near**2 * numpy.prod(1 + apart, 0) * numpy.exp(-apart.sum(0))

    def forecast(self, sweep, covariance, given, rest, reweightings):
        """Means and variances of the rest's errors."""
        if not given:
            return numpy.zeros(len(rest)), numpy.diag(covariance)[rest] + self.noise**2
        inner, errors = covariance[numpy.ix_(given, given)], sweep.errors[given]
        noise = numpy.full(len(given), self.noise**2)
        for _ in range(reweightings):
            explained = numpy.linalg.solve(inner + numpy.diag(noise), errors)
            noise = self.noise**2 * (TAILS + (noise * explained / self.noise) ** 2) / (TAILS + 1)
        whole = inner + numpy.diag(noise)
        across = covariance[numpy.ix_(rest, given)]
        mean = across @ numpy.linalg.solve(whole, errors)
        variance = numpy.diag(covariance)[rest] - numpy.einsum("ij,ji->i", across, numpy.linalg.solve(whole, across.T)) + self.noise**2
        return mean, numpy.maximum(variance, 1e-6)

    def surprise(self, sweep, covariance, given):
        if not given:
            return 1.0
        inner = covariance[numpy.ix_(given, given)] + numpy.eye(len(given)) * self.noise**2
        square = float(sweep.errors[given] @ numpy.linalg.solve(inner, sweep.errors[given]))
        return (SURPRISE + min(square, 6 * len(given))) / (SURPRISE + len(given))


def start():
    return numpy.log(numpy.array(list(SPREAD.values()) + list(REMAINDER.values()) + list(DISTANCE.values())))


def improbability(error, variance):
    scale = variance * (TAILS - 2) / TAILS
    return 0.5 * numpy.log(scale) + 0.5 * (TAILS + 1) * numpy.log1p(error**2 / (TAILS * scale))


def cost(logs, sweeps, splits):
    priors, of_family = Priors(logs), collections.defaultdict(list)
    for sweep, of_sweep in zip(sweeps, splits):
        covariance = priors.covariance(sweep)
        for given, rest in of_sweep:
            mean, variance = priors.forecast(sweep, covariance, given, rest, 0)
            weight = (1 if given else 0.3) * len(rest) ** 0.5
            of_family[sweep.family].append((weight, weight * float(numpy.mean(improbability(sweep.errors[rest] - mean, variance)))))
    sums = [(min(1, sum(w for w, _ in of) / 10), sum(w for w, _ in of), sum(c for _, c in of)) for of in of_family.values()]
    return sum(share * c / w for share, w, c in sums) / sum(share for share, _, _ in sums) + HOLD * float(numpy.sum((logs - start()) ** 2))


def fit(sweeps, rounds):
    sweeps = [sweep.part(sorted(random.Random(sweep.ids[0]).sample(range(len(sweep.ids)), MOST_ROWS))) if len(sweep.ids) > MOST_ROWS else sweep for sweep in sweeps]
    splits = [[sweep.split(given, 0) for given in GIVEN if len(sweep.ids) > given] for sweep in sweeps]
    found = minimize(cost, start(), args=(sweeps, splits), method="L-BFGS-B", options={"maxiter": rounds, "maxfun": 60 * rounds})
    print(f"cost {cost(start(), sweeps, splits):.4f} to {found.fun:.4f} over {len({s.family for s in sweeps})} sources")
    return found.x


def quantile(values, share):
    return 100 * sorted(values)[min(len(values) - 1, int(share * len(values)))]


def score(sweeps, priors_of, given, title):
    found = collections.defaultdict(list)
    for sweep in sweeps:
        if len(sweep.ids) < max(3, given + 2):
            continue
        priors = priors_of[sweep.family]
        covariance = priors.covariance(sweep)
        for seed in range(2):
            chosen, rest = sweep.split(given, seed)
            mean, variance = priors.forecast(sweep, covariance, chosen, rest, 6)
            variance = variance * priors.surprise(sweep, covariance, chosen)
            for error, m, v in zip(sweep.errors[rest], mean, variance):
                found[sweep.family].append((abs(math.expm1(-error)), abs(math.expm1(m - error)), abs(error - m) < NORMAL_80 * v**0.5, math.exp(2 * NORMAL_80 * v**0.5)))
    rows = [row for of in found.values() for row in of]
    medians = lambda i: 100 * statistics.mean(statistics.median(row[i] for row in of) for of in found.values())
    worse = [f for f, of in found.items() if statistics.median(r[1] for r in of) > statistics.median(r[0] for r in of) + 0.01]
    print(f"{title}, {given} given: {len(rows)} rows of {len(found)} sources; raw {quantile([r[0] for r in rows], .5):.1f} / {quantile([r[0] for r in rows], .9):.1f} %,"
          f" learned {quantile([r[1] for r in rows], .5):.1f} / {quantile([r[1] for r in rows], .9):.1f} %; means of medians {medians(0):.1f}, {medians(1):.1f} %;"
          f" worse: {', '.join(worse) or 'none'}; 80 % intervals hold {100 * statistics.mean(statistics.mean(float(r[2]) for r in of) for of in found.values()):.0f} %,"
          f" high over low {statistics.median(r[3] for r in rows):.2f}")


ROOM = {"inlet_k": 4, "slot_k": 3, "board": 0.03, "noise_k": 0.5, "power": 0.1}
ASSUMED = """[[source]]
keys = ["remainder.other_gpu"]
kind = "fitted"
cite = "lab/other_places.py: of 11 sources three rows of one GPU given, those of their others predicted; means of medians 17.9 % as shipped, 16.9 at 1, 16.1 at 0.5, 16.5 at 0.3"
[[source]]
keys = ["remainder.other_model", "distance.model"]
kind = "fitted"
cite = "lab/other_places.py: of 11 sources three rows of one model given, those of their others on that GPU predicted; means of medians 12.6 % as shipped, 16.2 at 1 and 0.5, 12.6 at 0.3 and 0.5, 12.1 at 0.3 and 2; 12.7 where a source has no part in the choice among these three"
[[source]]
keys = ["remainder.kernels"]
kind = "assumed"
cite = "seven published sums of compute kernels of one source differ from predicted ones by 4.7 % (standard deviation, as read from figure 10 of the MICRO 2025 paper), the noise of a step included"
[[source]]
keys = ["power.*"]
kind = "assumed"
cite = "mean power of training, sources differ by 10 % (standard deviation) and rows of one by 5 %: validation/power-mlperf-*/errors.csv"
[[source]]
keys = ["room.inlet_k", "room.slot_k"]
kind = "assumed"
cite = "halls are held between 18 and 27 C (ASHRAE TC 9.9, recommended range), a slot behind others is some K warmer"
[[source]]
keys = ["room.board", "room.noise_k", "room.power"]
kind = "assumed"
cite = "data/calibrations/h200/variability.toml; sensors read whole degrees, stages of a job differ in power; power as of [power]"
"""


def write(path, logs, sources, sweeps):
    priors = Priors(logs)
    rows = sum(len(sweep.ids) for sweep in sweeps)
    sections = [("spread", zip(SPREAD, priors.spread)),
                ("remainder", list(zip(REMAINDER, (priors.common, priors.near, priors.noise))) + [("kernels", KERNELS), ("noise_tails", TAILS), ("coefficient_tails", 30), ("surprise", SURPRISE), ("other_gpu", OTHER_GPU), ("other_model", OTHER_MODEL)]),
                ("distance", zip(DISTANCE, priors.weights)), ("power", POWER.items()), ("room", ROOM.items())]
    with open(path, "w", encoding="utf-8") as file:
        file.write("# SPDX-License-Identifier: Apache-2.0\n"
                   "# How much machines and software differ from what is shipped, before anything is measured on them; written by lab/learn_priors.py. spread: standard\n"
                   "# deviations of ln(factor) of each coefficient. remainder: of ln(time) that no coefficient explains: common to all runs of one place; near, shared by\n"
                   "# runs that are alike; noise of one measurement; kernels: on top of it, of seconds of kernels; tails: degrees of freedom of Student's t, of noise and of coefficients; surprise: of the scale of\n"
                   "# forecasts; other_gpu, other_model: how coefficients on GPUs of two kinds, or of two models, correlate. distance: how much less alike two runs are, per doubling of a size or for another word: near remainders correlate by the product of (1 + d) exp(-d).\n")
        for name, numbers in sections:
            file.write(f"[{name}]\n" + "".join(f"{key:17} = {value:.3g}\n" for key, value in numbers) + "\n")
        file.write('[[source]]\nkeys = ["spread.*", "remainder.*", "distance.*"]\nkind = "fitted"\n'
                   f'cite = "lab/learn_priors.py: {rows} rows of {len(sources)} published sources, {MOST_SWEEPS} sweeps of one at most (validation/*/jobs.csv), given none to five rows of a sweep, its others"\n'
                   + ASSUMED)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("files", nargs="+")
    options.add_argument("-o", "--output")
    options.add_argument("--folds", type=int, default=0)
    options.add_argument("--rounds", type=int, default=20)
    asked = options.parse_args()
    sweeps = read_sweeps(asked.files)
    sources = sorted({sweep.family for sweep in sweeps})
    if asked.folds:
        priors_of = {}
        for fold in range(asked.folds):
            left_out = set(sources[fold::asked.folds])
            logs = fit([sweep for sweep in sweeps if sweep.family not in left_out], asked.rounds)
            priors_of |= {family: Priors(logs) for family in left_out}
        for given in GIVEN[1:]:
            score(sweeps, priors_of, given, "left out")
    if asked.output or not asked.folds:
        logs = fit(sweeps, asked.rounds)
        for given in GIVEN[1:]:
            score(sweeps, dict.fromkeys(sources, Priors(logs)), given, "all seen")
        if asked.output:
            write(asked.output, logs, sources, sweeps)


if __name__ == "__main__":
    main()
