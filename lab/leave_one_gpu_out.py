#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far kernels and power of a GPU are off when none of its own tables is known.

Copies the library, gives the GPU what it would inherit (kernels, energies and voltage curve of a
relative, or the mean of all other GPUs with tables), and validates the tables of that GPU with it.
Its data sheet, its standing powers and its limits stay.

usage: leave_one_gpu_out.py PROGRAM FOLDER_OF_TABLES [GPU...]
"""
import re
import statistics
import sys
import tempfile
from pathlib import Path

from trial_library import DATA, canonical, read_values, summary, trial_library, validate, write_values

OWN_TABLE = DATA / "calibrations" / "attention_h100.csv"
# The GPU left out, and whose numbers it gets; none: the mean of the others with tables.
CASES = [
    ("h200", "h100"),
    ("h200", "b200"),
    ("h100", "a100-80gb"),
    ("h100", "b200"),
    ("b200", "h100"),
    ("gb200", "b200"),
    ("b300", "b200"),
    ("h800", "h100"),
    ("a100-80gb", None),
    ("h100", None),
    ("h200", None),
    ("b200", None),
]
GPUS_WITH_TABLES = ["a100-80gb", "h100", "b200"]
ONE_DIE = {"h200": "h100", "h800": "h100", "gb200": "b200", "b300": "b200"}
FITTED_KERNELS = [
    "gemm_peak_share", "gemm_fp8_share", "gemm_half_k", "gemm_half_tile", "wave_quantization", "attention_forward_share",
    "attention_backward_share", "attention_half_length", "attention_wave_quantization", "kernel_start", "attention_start",
]
FITTED_POWER = [
    "joules_per_tflop", "fp8_energy_share", "joules_per_hbm_gb", "hbm_clocked_share", "clock_exponent", "energy_floor",
]
# A name in a family of rows, by GPU: a B200 is no GB200.
NAMES = {
    "a100-80gb": r"a100", "h100": r"h100", "h200": r"h200", "b200": r"(?<!g)b200", "gb200": r"gb200", "b300": r"(?<!g)b300", "h800": r"h800",
}


def number(text):
    return float(re.match(r'"?([0-9.]+)', text).group(1))


def mean_of(files, keys):
    """The mean of each number over files that have it, written as the first has it."""
    means = {}
    for key in keys:
        found = [values[key] for values in map(read_values, files) if key in values]
        if found and not found[0].startswith("{"):
            unit = re.sub(r"[0-9.]+", "{}", found[0], count=1)
            means[key] = unit.format(f"{statistics.mean(map(number, found)):.4g}")
    return means


def inherit(library, gpu, relative):
    """Rewrites kernels, energies and benchmarks of the GPU in this copy of the library."""
    folders = library / "calibrations"
    relatives = [relative] if relative else [g for g in GPUS_WITH_TABLES if g not in (gpu, ONE_DIE.get(gpu))]
    kernels = mean_of([folders / g / "kernels.toml" for g in relatives], FITTED_KERNELS)
    power = mean_of([folders / g / "power.toml" for g in relatives], FITTED_POWER)
    power["joules_per_tflop"] = read_values(folders / relatives[-1] / "power.toml")["joules_per_tflop"]
    write_values(folders / gpu / "kernels.toml", kernels)
    write_values(folders / gpu / "power.toml", power)
    forget_benchmarks(folders / "benchmarks.toml", gpu, relatives[-1])


def forget_benchmarks(path, gpu, relative):
    """What benchmarks of this GPU time besides the kernel is the relative's."""
    blocks = re.split(r"(?=^\[\[)", path.read_text(), flags=re.M)
    is_of = lambda block, name: re.search(rf'^gpu\s*=\s*"{name}"', block, re.M)
    kept = [block for block in blocks if not is_of(block, gpu)]
    copies = [re.sub(r'^(gpu\s*=\s*)".*"', rf'\1"{gpu}"', b, flags=re.M) for b in blocks if is_of(b, relative)]
    narrow = [b for b in copies if re.search(r"^(source|dtype)", b, re.M)]
    wide = [b for b in copies if b not in narrow]
    sources = next(i for i, b in enumerate(kept) if b.startswith("[[source]]"))
    path.write_text("".join([kept[0], *narrow, *kept[1:sources], *wide, *kept[sources:]]))


def class_of(row):
    family = row["family"].lower()
    kind = "attention" if "attn" in family or "attention" in family or "fa3" in family else "gemm"
    if "dvfs" in family or family.startswith("gpl"):
        kind = "clocks and caps"
    if row["quantity"] in ("power_w",):
        kind = f"power, {kind}"
    elif row["quantity"] in ("rate", "sm_clock_mhz"):
        kind = f"speed, {kind}"
    size = ", 100 us and more" if family.endswith("/large") else ", shorter" if family.endswith("/small") else ""
    return kind + size


def of_gpu(rows, gpu):
    wanted = [r for r in rows if re.search(NAMES[gpu], r["family"].lower()) and not r["family"].startswith(("aic-nccl", "aws", "mleng", "dgxc"))]
    groups = {}
    for row in wanted:
        groups.setdefault(class_of(row), []).append(float(row["error_pct"]))
    return groups


def main():
    program, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    names = ["gemm_power.csv", "attention_power.csv", "kernels_calibration.csv", "kernels_opened.csv", "power_dvfs_calibration.csv"]
    tables = [folder / name for name in names if (folder / name).exists()] + [OWN_TABLE]
    scratch = tempfile.TemporaryDirectory()
    tables = [canonical(table, scratch.name) for table in tables]
    shipped = validate(program, DATA, tables)
    print(f"{'gpu':10} {'numbers of':10} {'class':42} {'rows':>6}   inherited: signed, median, p90   shipped")
    for gpu, relative in CASES:
        if sys.argv[3:] and gpu not in sys.argv[3:]:
            continue
        own = of_gpu(shipped, gpu)
        if not own:
            print(f"{gpu:10} {relative or 'all':10} no rows in these tables")
            continue
        with trial_library() as library:
            inherit(library, gpu, relative)
            left_out = of_gpu(validate(program, library, tables), gpu)
        for kind, errors in sorted(left_out.items()):
            print(f"{gpu:10} {relative or 'all':10} {kind:42} {len(errors):6}   {summary(errors)}   {summary(own[kind])}", flush=True)


if __name__ == "__main__":
    main()
