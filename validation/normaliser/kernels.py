# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of one product, attention kernel or collective, and of one kernel at set clocks and power limits."""
import re

from . import library, machines
from .cells import Unreadable
from .plain import board, count, each, gpu, number, printed, row_id, scaled, text

# The first that occurs in the spelled number format, letters and digits alone: precision, bytes of an operand's element with its block scales.
FORMATS = (("nvfp4", "nvfp4", 0.5625), ("mxfp4", "nvfp4", 0.53), ("fp4", "nvfp4", 0.5625), ("mxfp8", "mxfp8", 1.03), ("fp8", "fp8", 1), ("e4m3", "fp8", 1),
           ("bf16", "bf16", 2), ("bfloat16", "bf16", 2), ("fp16", "bf16", 2), ("float16", "bf16", 2), ("half", "bf16", 2))
COLLECTIVES = (("allreduce", "all_reduce"), ("allgather", "all_gather"), ("reducescatter", "reduce_scatter"), ("alltoall", "all_to_all"), ("broadcast", "broadcast"),
               ("sendrecv", "send_recv"), ("ptop", "send_recv"), ("bcast", "broadcast"))
BLACKWELL = ("b200", "b300", "gb200", "gb300")


def common(cells, line):
    return {"row_id": row_id(cells, line), "family": text(cells, "family"), "precision": "", "dtype": text(cells, "dtype"),
            "latency_us": scaled(printed(cells, "latency_ms"), 1000) or printed(cells, "latency_us")}


def set_format(row):
    plain = re.sub(r"[^a-z0-9]", "", row["dtype"].lower())
    found = next(((precision, size) for word, precision, size in FORMATS if word in plain), None if plain else ("bf16", 2))
    if not found:
        raise Unreadable(f"the number format '{row['dtype']}' is not known")
    row["precision"], row["operand_bytes"] = found


def kernel(cells, line, attention, family=None):
    row = common(cells, line)
    row["kind"] = "attention" if attention else "gemm"
    name = text(cells, "gpu", "system")
    row["gpu"] = gpu(name)
    row["family"] = family or f"{row['kind']} {row['gpu']} {row['dtype']}"
    set_format(row)
    said = re.search(r"kernel_source=([^; ]*)", text(cells, "notes"))
    row["kernel_source"] = text(cells, "kernel_source") or (said[1] if said else "")
    sizes = ("batch", "seq", "heads", "head_dim") if attention else ("m", "n", "k")
    for size in sizes:
        row[size] = count(cells, size)
        if row[size] <= 0:
            raise Unreadable(f"{', '.join(sizes[:-1])} or {sizes[-1]} is not stated")
    row["batch"] = max(1, count(cells, "batch"))
    if attention:
        row["kv_heads"] = count(cells, "kv_heads") or row["heads"]
        row["causal"] = text(cells, "causal") != "no"
        row["pass"] = "backward" if text(cells, "pass").startswith("bwd") else "forward"
    elif text(cells, "op").startswith("best-shape"):
        row["best_shape"] = True
    if not row["latency_us"]:
        row["tflops"] = printed(cells, "tflops")
    if not any(float(row.get(measured) or 0) > 0 for measured in ("latency_us", "tflops")):
        raise Unreadable("no latency or rate is stated")
    row["power_w"], row["power_limit_w"] = printed(cells, "power_w"), printed(cells, "power_limit_w")
    return row


def switch_reduction(cells, row, words):
    """Whether the switch added the operands; nothing: as the cluster does. aiconfigurator's runs on Blackwell did without."""
    if re.search("nvls_enable=0|algo ring", words, re.I):
        return False
    if re.search("nvls", words, re.I):
        return True
    by_aiconfigurator = row["family"].startswith("aic-") or text(cells, "nccl_version")
    return False if by_aiconfigurator and row["gpu"] in BLACKWELL else ""


def element_bytes(dtype):
    if dtype in ("int8", "uint8") or dtype.startswith("fp8"):
        return 1
    return 4 if dtype in ("float", "float32", "fp32") else 2


def payload(cells, assumptions):
    if number(cells, "msg_bytes") is not None:
        return printed(cells, "msg_bytes")
    elements = number(cells, "message_size_elements")
    if elements is not None:
        return f"{elements * element_bytes(text(cells, 'dtype').lower()):.17g}"
    assumptions.append("size not stated: 1 GiB assumed")
    return 1 << 30


def cluster_of(row, interconnect):
    fabric = re.search("efa", interconnect, re.I) is not None
    for node in library.rules("machines")["node"]:
        if fabric and node["gpu"].split("-")[0] == row["gpu"].split("-")[0] and re.search(node["pattern"], "EFA"):
            return node["cluster"]
    return board(row["gpu"])["cluster"]


def collective(cells, line):
    row = common(cells, line) | {"kind": "collective"}
    name = text(cells, "gpu", "system")
    if re.search("not stated", name, re.I):
        raise Unreadable("the source does not state the GPU")
    row["gpu"] = gpu(name)
    words = re.sub(r"[^a-z]", "", text(cells, "op").lower())
    row["op"] = next((op for word, op in COLLECTIVES if word in words), None)
    if not row["op"]:
        raise Unreadable(f"no collective is named in '{text(cells, 'op')}'")
    version = text(cells, "nccl_version")
    row["family"] = row["family"] or f"nccl {row['gpu']} {version}"
    row["software"] = f"NCCL {version}" if version else ""
    interconnect, notes, assumptions = text(cells, "interconnect"), text(cells, "notes"), []
    row["cluster"] = cluster_of(row, interconnect)
    row["nvls"] = switch_reduction(cells, row, f"{interconnect} {notes}")
    row["msg_bytes"] = payload(cells, assumptions)
    row["n_gpus"] = count(cells, "num_gpus") or count(cells, "n_gpus")
    row["n_nodes"] = max(1, count(cells, "n_nodes"))
    if row["n_nodes"] > 1:
        if re.search("algo ", notes, re.I):
            raise Unreadable("its algorithm was forced (predictions are of the one that NCCL chooses)")
        cluster = library.cluster(row["cluster"])
        gbps = machines.node_gbps(interconnect[:machines.LONGEST_NOTE], cluster["gpus_per_node"])
        if gbps:
            row["nic_bandwidth"] = f"{gbps / cluster['scale_out']['nics_per_node']:.17g} Gb/s"
    row["busbw_gb_per_s"] = printed(cells, "busbw_gbps", "gbps")
    if row["n_gpus"] < 2:
        raise Unreadable("fewer than two GPUs are stated")
    if not any(float(row[measured] or 0) > 0 for measured in ("latency_us", "busbw_gb_per_s")):
        raise Unreadable("no latency or rate is stated")
    row["assumptions"] = "; ".join(assumptions)
    return row


def of_kernels(cells, line):
    if text(cells, "kind") == "collective":
        return collective(cells, line)
    return kernel(cells, line, text(cells, "kind") == "attention", text(cells, "family"))


def without_settings(workload, cap):
    """The name of a kernel without what was set around it: "cap-300w" and "cap-400w" run the same, and so do "gemm-cap300-bf16" at 300 W and its like."""
    limit = "" if cap is None else f"{cap:.0f}"
    workload = re.sub(r"\d+[wW]", "", workload)
    workload = re.sub(r"\d+$", "", workload)
    return re.sub(r"\d+", lambda found: "" if found[0] == limit else found[0], workload)


def steady(cells, line):
    """One kernel over and over at a locked clock, under a power limit, or turned on and off."""
    name = gpu(text(cells, "gpu"))
    family, precision, cap = text(cells, "family"), text(cells, "precision"), number(cells, "power_cap_w")
    kernel_name = without_settings(text(cells, "workload"), cap)
    reached = printed(cells, "sm_clock_avg_mhz")
    return {"row_id": row_id(cells, line), "family": family, "gpu": name, "precision": precision,
            "kernel": "|".join((family, name, text(cells, "form"), text(cells, "gpu_index"), kernel_name, precision)),
            "lock_mhz": printed(cells, "lock_sm_mhz"), "cap_w": printed(cells, "power_cap_w"), "die_c": printed(cells, "temp_avg_c"),
            # Without a lock, rates that the row states were reached at the clock that it states.
            "ran_at_mhz": reached if text(cells, "mem_gbps") and not number(cells, "lock_sm_mhz") else "",
            "power_w": printed(cells, "power_avg_w" if text(cells, "power_avg_w") else "power_peak_w"), "clock_mhz": reached,
            "rate": printed(cells, "perf"), "rate_unit": text(cells, "perf_unit"), "mem_gb_per_s": printed(cells, "mem_gbps"), "fp32_gflops": printed(cells, "fp32_gflops"),
            "duty_on_ms": printed(cells, "duty_on_ms"), "duty_off_ms": printed(cells, "duty_off_ms")}


KINDS = (
    ({"row_id", "kind", "gpu", "m", "n", "k", "heads", "msg_bytes", "latency_us"}, each(of_kernels)),
    ({"system", "dtype", "m", "n", "k", "latency_ms"}, each(lambda cells, line: kernel(cells, line, False))),
    ({"system", "batch", "seq", "heads", "head_dim", "latency_ms"}, each(lambda cells, line: kernel(cells, line, True))),
    ({"system", "op", "num_gpus", "message_size_elements", "latency_ms"}, each(collective)),
    ({"lock_sm_mhz", "power_cap_w", "power_avg_w", "perf"}, each(steady)),
)
