#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the coefficients that training rows teach, all sources together and each source left out.

    python3 lab/leave_out.py build/release/bin/triplepoint validation/*/jobs.csv -o data/calibrations/left_out.toml
    python3 lab/leave_out.py build/release/bin/triplepoint validation/*/jobs.csv --assumed

The coefficients are shared by all GPUs and all stacks that have the mechanism (COEFFICIENTS, with bounds and the file that holds them); no row and
no source has one of its own. Files of OF_ONE_STACK take no part, because the host times of one stack were fitted to each of them. With
e_i = ln(measured / predicted) of row i, the fit minimizes

    sum_i w_i |e_i - sum_k s_ik x_k| + prior sum_k |x_k| / range_k sum_i w_i |s_ik|,     x_k = ln(coefficient / its shipped value)

where s_ik = d ln(predicted time) / d ln(coefficient), by differences of one run of the program for each coefficient, and w_i shares one vote of each
source's square root of rows among its rows. The linear model is checked by a run with the values found. Printed: values with all sources, without
each, and the errors of the source left out.
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict

ALL = "calibrations.all.kernels."
COEFFICIENTS = {  # key: lowest, highest value
    ALL + "in_context_slowdown": (1.0, 1.2),
    ALL + "elementwise_share": (0.4, 1.0),
    ALL + "attention_flash_1_share": (0.4, 1.0),
    ALL + "scan_share": (0.2, 1.0),
    ALL + "rowwise_share": (0.4, 1.0),
    "calibrations.h100.kernels.attention_portable_share": (0.4, 1.0),
    "stacks.megatron-core.moe_layer_host": (0.05, 1.0),
    "stacks.megatron-core.moe_expert_host": (0.02, 0.3),
    "stacks.megatron-graphs.moe_layer_host": (0.05, 1.0),
    "stacks.megatron-graphs.step_overhead": (5.0, 100.0),
    "stacks.eager-pytorch.step_overhead": (5.0, 200.0),
    "stacks.compiled-pytorch.step_overhead": (5.0, 200.0),
    "stacks.compiled-pytorch.microbatch_gap": (0.05, 5.0),
}
ASSUMED = {  # what stays as assumed, because sources left out are not predicted better with it; --assumed shows what the rows would give
    "stacks.compiled-pytorch.overlap_compute_loss": (0.05, 0.9),
    "stacks.compiled-pytorch.overlap_transfer_stretch": (0.01, 0.9),
    "stacks.megatron-core.overlap_compute_loss": (0.05, 0.9),
    "stacks.megatron-core.overlap_transfer_stretch": (0.01, 0.9),
    "stacks.megatron-core.tensor_overlap_compute_loss": (0.05, 0.9),
}
LIKE = {"compiled-pytorch": ("eager-pytorch", "jax-xla"), "megatron-core": ("megatron-graphs", "megatron-apex")}  # stacks with the same assumptions
ALSO = {  # what a fit carries over to
    "calibrations.h100.kernels.attention_portable_share": [f"calibrations.{gpu}.kernels.attention_portable_share" for gpu in ("h100-96gb", "h200", "h200-nvl", "h800")],
}
ALSO |= {key: [key.replace(stack, other) for other in LIKE[stack]] for key in ASSUMED for stack in LIKE if f".{stack}." in key}
OF_ONE_STACK = {"hf-h100-sweep", "train-perf-vtrain-single"}  # folders of validation/: nanotron, megatron-apex
MILLISECONDS = ("moe_", "step_", "microbatch_")
STEP = 1.1
PRIOR = 0.02
ROUNDS = 400


def value_in(data, key):
    """The number, and its unit as the file writes it."""
    *folders, name = key.split(".")
    folder, rest = data / folders[0], folders[1:]
    path = folder.joinpath(*rest).with_suffix(".toml") if folders[0] == "calibrations" else folder / f"{rest[0]}.toml"
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.split("=")[0].strip() == name:
            return float(line.split("=")[1].split("#")[0].strip().strip('"').split()[0])
    sys.exit(f"{path}: no {name}; correct COEFFICIENTS in {__file__}")


def written(key, value):
    return f'"{value:.4g} ms"' if key.rsplit(".", 1)[1].startswith(MILLISECONDS) else f"{value:.4g}"


def toml(source, values):
    lines = [f'["{source}"]']
    for key, value in values.items():
        for each in [key] + ALSO.get(key, []):
            lines.append(".".join(f'"{part}"' if not part.replace("_", "").isalnum() else part for part in each.split(".")) + " = " + written(key, value))
    return "\n".join(lines) + "\n"


class Program:
    def __init__(self, path, data, files):
        self.path, self.files = path, files
        self.data = pathlib.Path(tempfile.mkdtemp()) / "data"
        shutil.copytree(data, self.data)

    def residuals(self, values, source="lab", files=None):
        """ln(measured / predicted) of the times of all rows that fit, of all files or of these."""
        (self.data / "calibrations" / "left_out.toml").write_text(toml(source, values), encoding="utf-8")
        done = subprocess.run([self.path, "validate", *(files or self.files), "--leave-out", source, "--format", "json"], capture_output=True, text=True,
                              env=dict(os.environ, TRIPLEPOINT_DATA=str(self.data)), check=False)
        if done.returncode:
            sys.exit(done.stderr)
        found = {}
        for row in json.loads(done.stdout)["per_row"]:
            if row["quantity"].startswith("mem_") or not row["predicted"] or not row["measured"]:
                continue
            ratio = math.log(row["measured"] / row["predicted"])
            found[row["row_id"]] = (row["family"], ratio if row["quantity"] == "step_time_s" else -ratio)
        return found


def minimize(rows, shipped):
    """Coordinate descent; a weighted median for each coefficient in turn."""
    keys = list(shipped)
    x = {key: 0.0 for key in keys}
    rest = {row: e for row, (_, e, _, _) in rows.items()}
    span = {key: math.log(COEFFICIENTS[key][1] / COEFFICIENTS[key][0]) for key in keys}
    for _ in range(ROUNDS):
        moved = 0.0
        for key in keys:
            points = [(rest[row] / s[key] + x[key], abs(s[key]) * w) for row, (_, _, s, w) in rows.items() if abs(s[key]) > 1e-4]
            if not points:
                continue
            prior = PRIOR * sum(w for _, w in points) / span[key]
            points += [(0.0, prior)]
            points.sort()
            half, run, best = sum(w for _, w in points) / 2, 0.0, 0.0
            for at, weight in points:
                run += weight
                if run >= half:
                    best = at
                    break
            low, high = (math.log(bound / shipped[key]) for bound in COEFFICIENTS[key])
            best = x[key] + 0.5 * (min(max(best, low), high) - x[key])
            for row, (_, _, s, _) in rows.items():
                rest[row] -= s[key] * (best - x[key])
            moved = max(moved, abs(best - x[key]))
            x[key] = best
        if moved < 1e-5:
            break
    return {key: shipped[key] * math.exp(x[key]) for key in keys}


def weigh(rows):
    counts = Counter(family for family, *_ in rows.values())
    return {row: (family, e, s, 1 / math.sqrt(counts[family])) for row, (family, e, s) in rows.items()}


def quantile(values, share):
    values = sorted(values)
    at = share * (len(values) - 1)
    below = int(at)
    return values[below] + (at - below) * (values[min(below + 1, len(values) - 1)] - values[below])


def errors(residuals):
    percent = [100 * abs(math.expm1(r)) for r in residuals]
    return f"{quantile(percent, 0.5):5.1f} {quantile(percent, 0.9):5.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("files", nargs="+")
    parser.add_argument("-d", "--data", default="data", type=pathlib.Path)
    parser.add_argument("-o", "--output")
    parser.add_argument("--assumed", action="store_true", help="fit what is assumed as well, with all sources, print it and stop")
    options = parser.parse_args()
    if not options.assumed and not options.output:
        parser.error("--output is missing")
    if options.assumed:
        COEFFICIENTS.update(ASSUMED)
    shipped = {key: value_in(options.data, key) for key in COEFFICIENTS}
    program = Program(options.program, options.data, [file for file in options.files if pathlib.Path(file).parent.name not in OF_ONE_STACK])
    base = program.residuals(shipped)
    slopes = defaultdict(dict)
    for key in shipped:
        moved = program.residuals(shipped | {key: shipped[key] * STEP})
        for row, (_, e) in base.items():
            slopes[row][key] = (e - moved[row][1]) / math.log(STEP) if row in moved else 0.0
    rows = weigh({row: (family, e, slopes[row]) for row, (family, e) in base.items()})
    fitted = minimize(rows, shipped)
    if options.assumed:
        print("\n".join(f"{key} {fitted[key]:.3g} (assumed {shipped[key]:.3g})" for key in ASSUMED))
        return
    print("with all sources:", ", ".join(f"{key.rsplit('.', 1)[1]} {value:.3g} (shipped {shipped[key]:.3g})" for key, value in fitted.items()))
    text = ("# SPDX-License-Identifier: Apache-2.0\n# The coefficients that training rows teach, fitted anew without each source. Written by lab/leave_out.py;\n"
            "# triplepoint validate --leave-out SOURCE reads it.\n")
    print(f"{'source':26} rows  shipped: median p90  left out: median p90  moved most")
    sources = sorted({family for family, *_ in rows.values()})
    for source in sources:
        values = minimize({row: r for row, r in rows.items() if r[0] != source}, shipped)
        text += "\n" + toml(source, values)
        own = [row for row, r in rows.items() if r[0] == source]
        after = program.residuals(values, source, [file for file in program.files if pathlib.Path(file).parent.name == source])
        most = max(values, key=lambda key: abs(math.log(values[key] / shipped[key])))
        print(f"{source:26} {len(own):4}  {errors([base[row][1] for row in own])}   {errors([after[row][1] for row in own if row in after])}"
              f"   {most.rsplit('.', 1)[1]} {values[most]:.3g}", flush=True)
    text += '\n[[source]]\nkeys = [' + ", ".join(f'"{source}.*"' for source in sources) + ']\nkind = "fitted"\ncite = "lab/leave_out.py, bounds in COEFFICIENTS there"\n'
    pathlib.Path(options.output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
