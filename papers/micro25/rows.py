# SPDX-License-Identifier: Apache-2.0
"""The published numbers of GPT3-175B on 32 H200, row by row, beside the predicted ones: validation/micro25."""
import collections
import itertools
import math
import statistics

from jobs import identity, mean, published_rows, with_total

Scored = collections.namedtuple("Scored", "row value within")


def slope(stages, name, first):
    """Seconds that a class of kernels gains per stage: least squares from `first` to the last but one."""
    places = range(first, len(stages) - 1)
    values = [stages[stage][name] for stage in places]
    offset, average = mean(places), mean(values)
    return sum((x - offset) * (y - average) for x, y in zip(places, values)) / sum((x - offset) ** 2 for x in places)


def value_of(row, jobs):
    """What is predicted for a row; None: the job runs out of memory."""
    job, quantity = jobs[identity(row)], row["quantity"]
    if quantity == "oom":
        return 0 if job.fits else 1
    if not job.fits:
        return None
    words = quantity.split("_")
    if words[0] == "kernel":
        return with_total(job.mean_kernels())[quantity[len("kernel_"):-len("_s")]]
    if words[0] == "stage":
        return with_total(job.stages[int(words[1])])["_".join(words[2:-1])]
    if words[0] == "slot":
        return mean(job.per_gpu["temperature_c"][int(words[1])::job.gpus_per_node])
    match quantity:
        case "send_recv_ramp_s":
            return slope(job.stages, "send_recv", 8)
        case "all_reduce_ramp_s":
            return slope(job.stages, "all_reduce", 10)
        case "step_over_mbs1":
            return job.results["step_time_s"] / jobs[identity({**row, "mbs": "1"})].results["step_time_s"]
        case "hottest_over_coolest" | "hot_over_cool":
            return job.results["temperature_c"][quantity]
        case "sm_clock_ghz":
            return job.numbers["sm_clock_mean_ghz"]
    return job.numbers[quantity]


def is_within(row, value):
    if row["scored"].startswith("band:"):
        low, high = map(float, row["scored"].split(":")[1:])
        return low <= value <= high
    published, tolerance = float(row["published"]), float(row["tolerance"])
    return abs(value - published) <= tolerance * (abs(published) if row["tolerance_kind"] == "relative" else 1)


def score(jobs):
    """jobs: by key()."""
    scored = []
    for row in published_rows():
        value = value_of(row, jobs)
        scored.append(Scored(row, value, value is not None and is_within(row, value)))
    return scored


def wrong_marks(scored):
    """Rows marked as a miss that are none any more, and other rows that are one: the list of misses stays true."""
    return [each for each in scored if each.within == (each.row["scored"] == "miss")]


def error_of(each):
    published = float(each.row["published"])
    is_relative = each.row["tolerance_kind"] == "relative"
    return 100 * (each.value / published - 1) if is_relative else each.value - published


def table(scored):
    """Every row, and the errors of each quantity."""
    lines = ["# GPT3-175B on 32 H200, published and predicted\n",
             f"{sum(each.within for each in scored)} of {len(scored)} rows lie within their tolerance.\n",
             "| layout | recompute | overlap | microbatch | quantity | published | predicted | error | |", "|" + "---|" * 9]
    errors = collections.defaultdict(list)
    for each in scored:
        row, is_relative = each.row, each.row["tolerance_kind"] == "relative"
        unit = " %" if is_relative else ""
        said = "" if each.value is None else f"{error_of(each):+.2f}{unit}"
        lines.append(f"| {row['config']} | {row['recompute']} | {row['overlap']} | {row['mbs']} | {row['quantity']} | {row['published']} | "
                     f"{'' if each.value is None else f'{each.value:.3f}'} | {said} | {'' if each.within else 'miss'} |")
        if each.value is not None and row["quantity"] != "oom" and not row["scored"].startswith("band:"):
            kind = {"slot": "slot_c", "stage": "of single stages"}.get(row["quantity"].split("_")[0], row["quantity"])
            errors[kind, "FSDP" if "FSDP" in row["config"] else "pipelines", unit].append(error_of(each))
    lines += ["\n| errors of | layouts | rows | median | largest | mean |", "|" + "---|" * 6]
    for (kind, layouts, unit), values in sorted(errors.items()):
        sizes = [abs(value) for value in values]
        lines.append(f"| {kind} | {layouts} | {len(values)} | {statistics.median(sizes):.3g}{unit} | {max(sizes):.3g}{unit} | {mean(values):+.3g}{unit} |")
    return "\n".join(lines) + "\n"


def pairs_in_order(jobs):
    """Of pairs of configurations whose published efficiencies differ by more than 10 %: how many are predicted in that order, of how many.

    Samples per second and joule of a configuration over those of another are 1 / (t^2 P). Two figures of the paper differ by up to
    10 % for the same configuration.
    """
    power = {identity(row): float(row["published"]) for row in published_rows() if row["quantity"] == "power_mean_w"}
    both = []
    for row in published_rows("gpt3-175b-h200-steps.csv"):
        key = identity({**row, "recompute": "full", "overlap": "no"})
        job = jobs[key]
        both.append((1 / (float(row["relative_step"]) ** 2 * power[key]), 1 / (job.results["step_time_s"] ** 2 * job.numbers["power_mean_w"])))
    apart = [(a, b) for a, b in itertools.combinations(both, 2) if abs(math.log(a[0] / b[0])) > math.log(1.1)]
    return sum((a[0] > b[0]) == (a[1] > b[1]) for a, b in apart), len(apart)
