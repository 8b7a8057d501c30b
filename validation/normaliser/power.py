# SPDX-License-Identifier: Apache-2.0
"""Powers of whole jobs: nodes over a published benchmark's run, GPUs that serve requests. Each row is a job and what was measured of it."""
import re
import statistics

from . import library
from .cells import Unreadable
from .plain import board, cluster_keys, count, each, gpu, number, printed, text

AT_WORK = 0.85  # mean power over the 95th percentile of a machine that serves all the time
METER_ERROR = 1.1  # one GPU cannot draw more than its limit
BENCHMARKS = (("lora", "llama2_70b_lora"), ("gpt3", "gpt3"), ("gpt-3", "gpt3"), ("bert", "bert"), ("sd2", "stable_diffusion"), ("stable", "stable_diffusion"))
COOLINGS = (("smc|immersion", "immersion"), ("lenovo|liquid|water", "liquid"))


def meaning(rules, name, otherwise):
    return next((meaning for pattern, meaning in rules if re.search(pattern, name, re.I)), otherwise)


def flat(table, prefix=""):
    """The keys of a job file with dots; the base of a table stands under the table's own name."""
    keys = {}
    for key, value in table.items():
        name = prefix[:-1] if key == "base" else prefix + key
        keys.update(flat(value, name + ".") if isinstance(value, dict) else {name: value})
    return keys


def published_job(benchmark, gpu_name, gpus):
    """Layout and batch of the benchmark's published configuration."""
    for recipe in library.recipes("mlperf_power"):
        if recipe["benchmark"] == benchmark and recipe["gpus"] == gpus and recipe.get("gpu", gpu_name) == gpu_name:
            return flat({key: value for key, value in recipe.items() if key not in ("benchmark", "gpu", "gpus")})
    raise Unreadable(f"the benchmark '{benchmark}' on {gpus} {gpu_name} is not modelled (no configuration of it is in validation/recipes/mlperf_power.toml)")


def node_row(name, family, gpu_name, benchmark, cooling, gpus, at_dc, run_s, mean, median, energy="", energy_nodes=1):
    job = published_job(benchmark, gpu_name, gpus)
    cluster = board(gpu_name)["cluster"]
    if cooling == "immersion" and gpu_name == "h100":
        cluster = "hgx-h100-immersion"
    elif cooling and "liquid_chassis" in library.cluster(cluster):
        job["environment.cooling"] = "liquid"
    return {"row_id": name, "family": family, "benchmark": benchmark, "measured_at": "supplied" if at_dc else "wall", "run_s": run_s, "node_mean_w": mean,
            "node_p50_w": median, "energy_kwh": energy, "energy_nodes": energy_nodes} | job | cluster_keys(cluster, gpus)


def run(cells, line):
    gpus = count(cells, "n_gpus")
    name = gpu(text(cells, "gpu"))
    try:
        return node_row(text(cells, "run_id"), f"{text(cells, 'family')} {gpus} gpus", name, meaning(BENCHMARKS, text(cells, "benchmark"), text(cells, "benchmark")),
                        meaning(COOLINGS, text(cells, "cooling"), ""), gpus, "dc side" in text(cells, "measured_at").lower(), printed(cells, "run_s") or "0",
                        printed(cells, "node_mean_w"), printed(cells, "node_p50_w"), printed(cells, "energy_nodes_kwh"), count(cells, "n_nodes"))
    except Unreadable as reason:
        return {"row_id": text(cells, "run_id"), "family": text(cells, "family"), "skip": str(reason)}


def node(cells, line):
    """One node of a run named like "v4.0/smc-ac-power/64xSMC-H100-SXM-80GB/llama2_70b_lora/result_...": 64 nodes of 8."""
    name = text(cells, "run_id")
    row_id = f"{name} {text(cells, 'node')}"
    system = "/" + "/".join(name.split("/")[2:])
    said = re.search(r"/(\d+)", system)
    nodes = max(1, int(said[1]) if said else 1)
    benchmark = meaning(BENCHMARKS, name, name)
    run_s = (number(cells, "dt_s") or 0) * (number(cells, "n_samples") or 0)
    try:
        return node_row(row_id, f"nodes {benchmark} {8 * nodes} gpus", gpu(text(cells, "gpu")), benchmark, meaning(COOLINGS, name, ""), 8 * nodes,
                        "dc-power" in name.lower(), f"{run_s:.17g}", printed(cells, "mean_w"), printed(cells, "p50_w"),
                        printed(cells, "energy_kwh"))
    except Unreadable as reason:
        return {"row_id": row_id, "family": "nodes", "skip": str(reason)}


def trace(name, rows):
    """All samples of one trace, named like "llama2-70b-lora-64xH100-smc-ac-sum8": 64 GPUs, and 8 nodes added up."""
    nodes = number(rows[-1], "n_nodes") or 1
    within = [(number(cells, "t_s") or 0, number(cells, "power_w") or 0) for cells in rows if (number(cells, "t_s") or 0) >= 0]
    if not within:
        raise Unreadable("no sample lies within the run")
    said = re.search(r"(\d+) *xH", name) or re.search(r"(\d+) *xB", name)
    gpus = max(8, int(said[1]) if said else 8)
    watts = [power for _, power in within]
    mean = sum(power / nodes for power in watts) / len(watts)
    return node_row(name, "traces", gpu(name), meaning(BENCHMARKS, name, name), meaning(COOLINGS, name, ""), gpus, "-dc" in name.lower(), f"{within[-1][0]:.17g}",
                    f"{mean:.17g}", f"{statistics.median_high(watts) / nodes:.17g}")


def traces(rows, first_line):
    names, by_name = [], {}
    for cells in rows:
        name = text(cells, "trace_id")
        if name not in by_name:
            names.append(name)
        by_name.setdefault(name, []).append(cells)
    out = []
    for name in names:
        try:
            out.append(trace(name, by_name[name]))
        except Unreadable as reason:
            out.append({"row_id": name, "family": "traces", "skip": str(reason)})
    return out


def noted(cells, key):
    """The number behind a word of the notes."""
    found = re.search(re.escape(key) + r"\s*([\d.]+)", text(cells, "notes"))
    return float(found[1].rstrip(".")) if found and float(found[1].rstrip(".") or 0) > 0 else None


def nearest(value):
    return max(1, int(value + 0.5))


def check_served(cells, task):
    if re.search("text-to-image|text-to-video", task, re.I):
        raise Unreadable("a model that draws images or video is not modelled")
    if not task.startswith("inference"):
        raise Unreadable("it is no inference (trainings belong into a jobs.csv)")
    if count(cells, "batch") < 1:
        raise Unreadable("the number of sequences at a time is not stated (it decides power and speed)")
    if (number(cells, "power_mean_total_w") or 0) < AT_WORK * (number(cells, "p95_total_w") or 0):
        raise Unreadable("its mean is far below its peaks (the recording holds time without requests)")


def served_precision(words):
    if "int" in words or "mxfp4" in words:
        raise Unreadable("weights of 4 bits that are multiplied in 16 are not modelled")
    return "fp8" if "fp8" in words else "bf16"


def served_model(published):
    known = library.rules("serving")["models"]
    if published not in known:
        raise Unreadable(f"no model is called \"{published}\" (its shape is not in the library); name one in [models] of validation/rules/serving.toml")
    return known[published]


def served(cells, line):
    """Decoding of so many sequences at a time, as vLLM does it."""
    task = text(cells, "task")
    check_served(cells, task)
    lengths = next(known for known in library.rules("serving")["task"] if known["name"] in task)
    stated = noted(cells, "ctx ")
    keys = nearest(stated or lengths["prompt"] + 0.5 * lengths["answer"])
    precision = served_precision(text(cells, "precision"))
    assumptions = []
    if re.search("image|video", task, re.I):
        assumptions.append("pictures are tokens of the prompt, what turns them into tokens is left out")
    if not stated:
        assumptions.append(f"caches of {keys} tokens, as usual for the task")
    model = served_model(text(cells, "model"))
    spelled, gpus = text(cells, "gpu"), max(1, count(cells, "n_gpus"))
    name = gpu(spelled)
    replicas, experts = nearest(noted(cells, "dp ") or 1), nearest(noted(cells, "ep ") or 1)
    sequences = nearest(noted(cells, "avg_batch ") or number(cells, "batch"))
    power = number(cells, "power_mean_per_gpu_w")
    if gpus % replicas:
        raise Unreadable(f"{gpus} GPUs do not make {replicas} equal replicas")
    limit = library.gpu(name).get("tdp")
    if limit and power and power > METER_ERROR * float(limit.split()[0]):
        raise Unreadable("its power is above the GPU's limit (a figure of several GPUs)")
    short = task.rsplit(" ", 1)[-1]
    sweep = f"{text(cells, 'model')} x{gpus} {spelled} {short}"
    micro_batch = -(-sequences // replicas)
    row = {"row_id": f"{sweep}, batch {count(cells, 'batch')}", "family": f"{text(cells, 'family')} {spelled} {short}", "sweep": sweep, "task": "decode", "model": model,
           "model.sequence_length": keys, "stack": "vllm", "plan.precision": precision, "plan.tensor_parallel_size": gpus // replicas,
           "plan.micro_batch_size": micro_batch, "plan.global_batch_size": micro_batch * replicas, "prompt_tokens": lengths["prompt"], "answer_tokens": lengths["answer"],
           "sequences": sequences, "power_w": printed(cells, "power_mean_per_gpu_w"), "assumptions": "; ".join(assumptions)}
    if text(cells, "throughput_unit").startswith("output"):
        row["output_tokens_per_s"] = printed(cells, "throughput")
    if experts > 1 and "moe" in library.model(model):
        row["plan.expert_parallel_size"] = experts
        row["plan.expert_tensor_parallel_size"] = max(1, gpus // experts)
    return row | cluster_keys(board(spelled)["cluster"], gpus)


KINDS = (
    ({"run_id", "cooling", "benchmark", "n_gpus", "node_mean_w"}, each(run)),
    ({"run_id", "node", "mean_w", "dt_s", "n_samples"}, each(node)),
    ({"trace_id", "t_s", "power_w", "n_nodes"}, traces),
    ({"gpu", "task", "throughput", "power_mean_per_gpu_w"}, each(served)),
)
