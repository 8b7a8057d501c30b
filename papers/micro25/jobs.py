# SPDX-License-Identifier: Apache-2.0
"""What the paper's figures draw of one job, from the results of a study or from the authors' result tree."""
import csv
import functools
import json
import pathlib
import re
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
MEASURED = HERE.parents[1] / "validation" / "micro25"
CLASSES = ("compute", "send_recv", "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "memory", "other")
KERNELS = tomllib.loads((HERE / "kernels.toml").read_text())


def kernel_class(name):
    """The class of a device kernel by the rules of the artifact's scripts: the first that matches."""
    name = name.lower()
    for rule in KERNELS["rule"]:
        if (all(word in name for word in rule.get("all", ())) and any(word in name for word in rule.get("any", ("",)))
                and re.search(rule.get("regex", ""), name)):
            return rule["class"]
    return KERNELS["otherwise"]


def class_of_op(name, kind, collective):
    """The same of a simulated operation, which counts as its kernels would; None: it is no kernel.

    NCCL runs an all-to-all as sends and receives, and the scripts take userbuffers for memory operations.
    """
    if kind == "compute":
        return "compute"
    if kind in ("memory", "copy"):
        return "memory"
    if kind == "communication":
        if "userbuffer" in name.lower():
            return "memory"
        return {None: "other", "all_to_all": "send_recv", "broadcast": "send_recv"}.get(collective, collective)
    return "other" if kind == "other" else None


def kernel_seconds(run, rank):
    """Seconds of a rank's kernels in the detailed step, by class."""
    import numpy
    spans = run.timeline(rank)
    names, kinds, collectives = (numpy.asarray(spans[key], dtype=object) for key in ("name", "kind", "collective"))
    lengths = numpy.asarray(spans["end_ns"]) - numpy.asarray(spans["begin_ns"])
    keys = [*zip(names, kinds, collectives)]
    number = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    sums = numpy.bincount([number[key] for key in keys], weights=lengths, minlength=len(number))
    seconds = dict.fromkeys(CLASSES, 0.0)
    for (name, kind, collective), i in number.items():
        if run.origin == "simulated":
            found = class_of_op(name, kind, collective)
        else:  # the scripts take the profiler's kernels alone, without copies
            found = kernel_class(name) if kind not in ("host", "pass", "step", "copy") else None
        if found:
            seconds[found] += sums[i] * 1e-9
    return seconds


def mean(values):
    values = list(values)
    return sum(values) / len(values)


class Job:
    """One job: `numbers` by quantity, lists `per_gpu`, and kernel seconds of each pipeline stage."""
    task = ""          # "lora", "prefill", "decode"; empty: pretraining
    sweep = ""         # of an experiment of the artifact: "optimization-sweep-h200"
    gpus_per_node = 8

    def key(self):
        return self.model, self.task, self.machine, self.layout, self.variant, self.microbatch

    @property
    def model_and_task(self):
        return f"{self.model} ({self.task})" if self.task else self.model

    def mean_kernels(self):
        """Mean over the stages."""
        return {name: mean(stage[name] for stage in self.stages.values()) for name in CLASSES} if self.stages else {}


def with_total(kernels):
    return {**kernels, "total": sum(kernels.values())} if kernels else {}


# ---- of a study

def layout_of(said):
    layout = f"EP{said['expert_parallel_size']}-" if said["expert_parallel_size"] > 1 else ""
    layout += f"TP{said['tensor_parallel_size']}"
    is_sharded = said["sharding"] == "parameters"
    if not is_sharded or said["pipeline_parallel_size"] > 1:
        layout += f"-PP{said['pipeline_parallel_size']}"
    return layout + ("-FSDP" if is_sharded else "")


def variant_of(said):
    parts = ["recompute"] * (said["recompute"] == "full") + ["overlap"] * bool(said["overlap"])
    return "+".join(parts) or "base"


class Simulated(Job):
    """A job of a study: an entry of `jobs` of its results.json, and the file of its run."""

    def __init__(self, results, file):
        self.results, self.file = results, file
        said = results["configuration"]
        self.model, self.layout, self.variant = said["model"], layout_of(said), variant_of(said)
        self.task = "" if said["task"] == "pretrain" else said["task"]
        dies = " dies" if said["gpu"] == "mi250" else ""
        self.machine = f"{said['num_gpus']} x {said['gpu'].upper()}{dies}"
        self.microbatch, self.pipeline = said["micro_batch_size"], said["pipeline_parallel_size"]
        self.gpus_per_node = said["num_gpus"] // said["num_nodes"]
        self.fits = results["verdict"] == "ok"
        self.numbers, self.per_gpu = {}, {}
        if self.fits:
            heat, power, clock, links = (results[key] for key in ("temperature_c", "power_w", "sm_clock_mhz", "links"))
            self.numbers = {"temperature_mean_c": heat["mean"], "temperature_peak_c": heat["peak"], "power_mean_w": power["mean"],
                            "power_peak_w": power["peak"], "sm_clock_mean_ghz": clock["mean"] / 1e3,
                            "efficiency_samples_per_s_mj": results["samples_per_s_mj"]}
            # Simulated jobs receive what they send; what leaves the node takes PCIe to the NICs.
            self.per_gpu = {"temperature_c": heat["per_gpu"], "sm_clock_mhz": clock["per_gpu"],
                            "nvlink_received_gib": [each / 2**30 for each in links["scale_up_per_gpu_bytes"]],
                            "pcie_received_gib": [each / 2**30 for each in links["scale_out_per_gpu_bytes"]]}

    @functools.cached_property
    def stages(self):
        """Kernel seconds by class, mean over the ranks of each stage that the run keeps."""
        if not self.fits:
            return {}
        import triplepoint
        run = triplepoint.read(self.file)
        per_stage = self.results["configuration"]["num_gpus"] // self.pipeline
        ranks = {}
        for rank in run.ranks:
            ranks.setdefault(rank // per_stage, []).append(kernel_seconds(run, rank))
        return {stage: {name: mean(each[name] for each in all) for name in CLASSES} for stage, all in sorted(ranks.items())}


def jobs_of_study(folder):
    """The jobs of a study that `triplepoint characterize STUDY -o FOLDER` wrote, by name."""
    folder = pathlib.Path(folder)
    results = json.loads((folder / "results.json").read_text())
    files = {job["name"]: folder / "runs" / job["run"] for job in json.loads((folder / "study.json").read_text())["jobs"]}
    return {job["name"]: Simulated(job, files[job["name"]]) for job in results["jobs"] if job["verdict"] != "invalid"}


# ---- what the paper published

def published_rows(name="gpt3-175b-h200.csv"):
    with open(MEASURED / name, newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def identity(row):
    """Of a published row, what a job's key() is; all are GPT3-175B on 32 H200."""
    parts = ["recompute"] * (row["recompute"] == "full") + ["overlap"] * (row["overlap"] == "yes")
    return "gpt3-175b", "", "32 x H200", row["config"], "+".join(parts) or "base", int(row["mbs"])


@functools.cache
def published():
    """Values by quantity of each job that the paper shows."""
    values = {}
    for row in published_rows():
        quantity, value = row["quantity"], float(row["published"])
        values.setdefault(identity(row), {})["sm_clock_mean_ghz" if quantity == "sm_clock_ghz" else quantity] = value
    return values
