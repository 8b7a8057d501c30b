# SPDX-License-Identifier: Apache-2.0
"""The kinds of tables: their columns as those of train_perf_calibration.csv."""
from .cells import Unreadable, is_nothing, number

VTRAIN = {"hidden", "heads", "layers", "seq", "gbs", "mbs", "tp", "dp", "pp", "step_time_s"}
SWEEP = {"name", "seq_len", "mbs", "batch_accum", "dp", "pp", "tp", "zero_stage", "hidden_size", "num_layers", "num_heads", "status", "tok/s/gpu"}


def kind_of(header):
    titles = set(header)
    if SWEEP <= titles:
        return "sweep"
    if {"row_id", "model"} <= titles or {"model", "n_gpus"} <= titles:
        return "training"
    if VTRAIN <= titles:
        return "vtrain"
    return "training"


def cells_of(kind, cells, index):
    return {"training": lambda row, _: row, "vtrain": of_vtrain, "sweep": of_sweep}[kind](cells, index)


def of_vtrain(cells, index):
    """One GPT on some GPUs of a node, as vTrain publishes them."""
    gpus = product(cells, "tp", "pp", "dp") or cells.get("n_gpus", "")
    sweep = f"{cells.get('family') or 'vtrain'} hidden {cells.get('hidden')} layers {cells.get('layers')} GPUs {gpus} batch {cells.get('gbs')}"
    return cells | {"row_id": cells.get("row_id") or f"vtrain-{index + 1}", "sweep": sweep, "family": cells.get("family") or "vtrain", "model": cells.get("model") or "GPT",
                    "gpu": cells.get("gpu") or "A100-SXM-80GB", "precision": "FP16", "framework": "Megatron-DeepSpeed", "workload": "pretrain",
                    "vocab": cells.get("vocab") or "51200", "n_gpus": gpus, "source_loc": cells.get("source_loc", "")}


def product(cells, *titles):
    total = 1
    for title in titles:
        text = cells.get(title) or ""
        if is_nothing(text):
            return ""
        total *= int(number(text, title))
    return str(total)


def of_sweep(cells, index):
    """One run of nanotron's sweep, out of memory or not."""
    size = cells.get("num_params") or ""
    out = {"row_id": f"{cells.get('name') or 'run'}#{index + 1}", "family": f"hf-sweep {size}B", "source_loc": "Hugging Face, Ultra-Scale Playbook, benchmark of nanotron layouts",
           "gpu": "H100-SXM-80GB", "gpu_note": "EFA 3200 Gbps inter-node", "model": f"nanotron {size}B", "params_b": size, "precision": "BF16", "framework": "nanotron",
           "workload": "pretrain", "recompute": "none", "dp_sharding": f"zero_stage={cells.get('zero_stage') or 0}", "conv": "", "status": cells.get("status") or ""}
    out["extra"] = "tp_mode=ALL_REDUCE" if "tpmodeALL" in (cells.get("name") or "") else "tp_mode=REDUCE_SCATTER"
    if cells.get("after_pp_fix") != "True":
        out["extra"] += "; before the repair of its pipeline"
    for ours, theirs in (("vocab", "vocab_size"), ("hidden", "hidden_size"), ("heads", "num_heads"), ("layers", "num_layers"), ("seq", "seq_len"), ("mbs", "mbs"), ("tp", "tp"),
                         ("pp", "pp"), ("dp", "dp"), ("tokens_per_s_per_gpu", "tok/s/gpu"), ("ffn", "interm_dim")):
        out[ours] = cells.get(theirs) or ""
    if is_nothing(out["ffn"]):
        out["ffn"] = ffn_from_size(cells)
    kv = cells.get("num_kv_heads") or ""
    if not is_nothing(kv) and number(kv, "num_kv_heads") != number(out["heads"], "num_heads"):
        out["extra"] += f"; {int(number(kv, 'num_kv_heads'))} kv heads"
    out["n_gpus"] = product(cells, "tp", "pp", "dp")
    out["sweep"] = f"{out['family']} on {out['n_gpus']} GPUs"
    out["gbs"] = product(cells, "mbs", "dp", "batch_accum")
    out["standing_gib"], out["reserved_gib"] = cells.get("Mem Alloc (GB)") or "", cells.get("Mem Res (GB)") or ""
    if "OOM" in out["status"]:
        out["tokens_per_s_per_gpu"] = out["standing_gib"] = out["reserved_gib"] = ""
    elif out["status"] and out["status"] != "Success":
        raise Unreadable(f"its run ended with '{out['status']}'")
    return out


def ffn_from_size(cells):
    """The gated MLP that makes up the printed parameters, where its width is not printed; head and embedding are two."""
    hidden, layers, vocabulary = (number(cells.get(key) or "", key) for key in ("hidden_size", "num_layers", "vocab_size"))
    size = cells.get("num_params") or ""
    if is_nothing(size):
        return str(int(4 * hidden))
    heads, groups = number(cells.get("num_heads") or "1", "num_heads"), cells.get("num_kv_heads") or ""
    share = 1 if is_nothing(groups) else number(groups, "num_kv_heads") / heads
    body = number(size, "num_params") * 1e9 - 2 * vocabulary * hidden - layers * hidden * hidden * (2 + 2 * share)
    width = body / (3 * layers * hidden)
    return str(max(256, round(width / 256) * 256))
