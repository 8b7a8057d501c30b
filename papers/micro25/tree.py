# SPDX-License-Identifier: Apache-2.0
"""The result tree of the paper's artifact (CharLLM-PPT): results/<sweep>/<model>/<model>_<index>_<variant>/ with

    <metric>_<rank>.csv           samples of a GPU: Unix time, value; no header
    <job id>_kineto/rank-<N>.json traces of the profiler; of several jobs the newest counts
    <experiment>_kernel_stats.csv sums per trace and kernel, from figure_10_parse.py; used where there are no traces

Any part may be missing; a folder with none of them is a job that ran out of memory, as the artifact's scripts draw it.
The whole recording is one step of 128 samples, as these scripts take it.
"""
import csv
import pathlib
import re

from jobs import CLASSES, Job, kernel_class, kernel_seconds, mean

BATCH = 128
WRAP = 1 << 32  # the sampler keeps the low 32 bits of counters
# Layouts by index, from 1. Where the scripts label Mixtral-8x7B's indices otherwise, its YAML files decide.
LAYOUTS = {
    "h200": {"gpt3-175b": "TP2-PP16 TP4-PP8 TP8-PP4 TP1-PP32 TP8-FSDP", "llama3-70b": "TP8-PP2 TP4-PP4 TP2-PP8 TP1-PP16 TP8-FSDP",
             "mixtral-8x22b": "EP8-TP1-PP4 EP8-TP2-PP2 EP8-TP4-PP1", "mixtral-8x7b": "EP8-TP1-PP1 EP4-TP2-PP1"},
    "h100": {"gpt3-175b": "TP2-PP32 TP4-PP16 TP8-PP8 - TP8-FSDP", "llama3-70b": "TP8-PP4 TP4-PP8 TP2-PP16 TP1-PP32 TP8-FSDP",
             "mixtral-8x22b": "EP8-TP8-PP1 EP8-TP4-PP2 EP8-TP2-PP4 EP8-TP1-PP8",
             "mixtral-8x7b": "EP8-TP1-PP2 EP4-TP4-PP1 EP4-TP2-PP2 EP4-TP1-PP4"},
    "adapters": {"gpt3-175b": "TP2-PP16 TP4-PP8 TP8-PP4 TP1-PP32 TP1-PP1", "llama3-70b": "TP8-PP2 TP4-PP4 TP2-PP8 TP1-PP16 TP1-PP1",
                 "mixtral-8x22b": "EP8-TP1-PP4 EP8-TP2-PP2 EP8-TP4-PP1 TP1-PP1", "mixtral-8x7b": "EP8-TP1-PP1 EP4-TP2-PP1 TP1-PP1"},
}
NAME = re.compile(r"(.+)_(\d+)_(?:mbs(\d+)|([01])([01])[01]{3})")


def samples(file):
    """(time, value) of each whole row; failed readings (-1) are left out, where the scripts average them in."""
    rows = []
    for line in file.read_text().splitlines(keepends=True):
        cells = line.strip().split(",")
        if line.endswith("\n") and len(cells) == 2 and float(cells[1]) != -1:
            rows.append((float(cells[0]), float(cells[1])))
    return rows


def weighted_mean(rows):
    """A value holds until the next one."""
    return sum(value * (after - at) for (at, value), (after, _) in zip(rows, rows[1:])) / (rows[-1][0] - rows[0][0])


def trapezoid(rows):
    return sum((value + following) / 2 * (after - at) for (at, value), (after, following) in zip(rows, rows[1:]))


def growth(rows):
    """What a counter grew by."""
    return sum((following - value) % WRAP for (_, value), (_, following) in zip(rows, rows[1:]))


def newest_traces(folder):
    """The folder of traces of the job with the highest number, or None."""
    found = {int(each.name.partition("_")[0]): each for each in folder.glob("*_kineto") if each.name.partition("_")[0].isdigit()}
    return found[max(found)] if found else None


def kernels_of_traces(folder):
    """Seconds by class of each traced rank."""
    import triplepoint
    run = triplepoint.read(*sorted(folder.glob("rank-*.json")))
    return {rank: kernel_seconds(run, rank) for rank in run.ranks}


def kernels_of_sums(file):
    """The same from sums in microseconds; columns are found by their names."""
    ranks = {}
    with open(file, newline="") as text:
        rows = csv.DictReader(text)
        trace, kernel, total = (next(name for word in words for name in rows.fieldnames if word in name.lower())
                                for words in (("rank", "trace", "file"), ("kernel", "name"), ("total",)))
        for row in rows:
            rank = int(re.findall(r"\d+", row[trace])[-1])
            ranks.setdefault(rank, dict.fromkeys(CLASSES, 0.0))[kernel_class(row[kernel])] += float(row[total]) * 1e-6
    return ranks


class Recorded(Job):
    """One experiment. Raises ValueError for a folder that is none."""

    def __init__(self, folder):
        name = NAME.fullmatch(folder.name)
        self.sweep = folder.parent.parent.name
        if self.sweep in ("lora", "inference"):
            self.task = self.sweep
        gpu = "h100" if "h100" in self.sweep else "h200"
        layouts = LAYOUTS["adapters" if self.task else gpu].get(name[1], "").split() if name else []
        if not name or not 1 <= int(name[2]) <= len(layouts) or layouts[int(name[2]) - 1] == "-":
            raise ValueError(f"{folder}: no experiment of the artifact")
        self.model, self.layout = name[1], layouts[int(name[2]) - 1]
        self.microbatch = int(name[3] or 1)
        parts = ["recompute"] * (name[5] == "1" or (name[3] is not None and not self.task)) + ["overlap"] * (name[4] == "1")
        self.variant = "+".join(parts) or "base"
        self.pipeline = int(self.layout.rpartition("PP")[2]) if "PP" in self.layout else 1
        gpus = 64 if gpu == "h100" else 32
        self.machine = f"{gpus} x {gpu.upper()}"
        traces, sums = newest_traces(folder), folder / f"{folder.name}_kernel_stats.csv"
        kernels = kernels_of_traces(traces) if traces else kernels_of_sums(sums) if sums.exists() else {}
        per_stage = max(1, gpus // self.pipeline)  # a traced rank stands for its stage
        self.stages = {stage: {key: mean(kernels[rank][key] for rank in kernels if rank // per_stage == stage) for key in CLASSES}
                       for stage in sorted({rank // per_stage for rank in kernels})}
        power = self.read(folder, "gpu_power", gpus)
        self.fits = bool(power or kernels)
        self.numbers, self.per_gpu = {}, {}
        if power:
            self.take_samples(folder, power, gpus)

    @staticmethod
    def read(folder, metric, gpus):
        """Samples of each GPU that has some, by rank."""
        found = {rank: samples(file) for rank in range(gpus) if (file := folder / f"{metric}_{rank}.csv").exists()}
        return {rank: rows for rank, rows in found.items() if len(rows) > 1}

    def take_samples(self, folder, power, gpus):
        def means(of):
            return [weighted_mean(of[rank]) if rank in of else float("nan") for rank in range(gpus)]

        def add(quantity, of, scale=1):
            if of:
                self.numbers[quantity.format("mean")] = scale * mean(map(weighted_mean, of.values()))
                self.numbers[quantity.format("peak")] = scale * max(value for rows in of.values() for _, value in rows)
        heat, clock = self.read(folder, "gpu_thermal", gpus), self.read(folder, "sm_clock", gpus)
        add("temperature_{}_c", heat)
        add("power_{}_w", power)
        add("sm_clock_{}_ghz", clock, 1e-3)
        self.numbers.pop("sm_clock_peak_ghz", None)
        first = next(iter(power.values()))
        energy = sum(map(trapezoid, power.values()))
        self.numbers["efficiency_samples_per_s_mj"] = BATCH / (first[-1][0] - first[0][0]) / (energy / 1e6)
        self.per_gpu = {"temperature_c": means(heat), "sm_clock_mhz": means(clock)}
        for quantity, metric, unit in (("nvlink_received_gib", "nvlink_rx_throughput", 1 << 20),  # in KiB
                                       ("pcie_received_gib", "pcie_rx_bytes", 1 << 30)):
            counters = self.read(folder, metric, gpus)
            self.per_gpu[quantity] = [growth(counters[rank]) / unit if rank in counters else float("nan") for rank in range(gpus)]


def jobs_of_tree(folder):
    """Every experiment in a folder and below."""
    jobs = []
    for path in sorted(each for each in pathlib.Path(folder).rglob("*_*_*") if each.is_dir()):
        if path.name.endswith(("_kineto", "_chakra")):
            continue
        try:
            jobs.append(Recorded(path))
        except ValueError:
            continue
    return jobs
