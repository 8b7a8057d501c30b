#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rebuilds what `triplepoint calibrate` wrote into data/, from the published tables beside the tree.

usage: make_calibrations.py PROGRAM FOLDER_OF_TABLES
"""
import subprocess
import sys
from pathlib import Path

from repository import ROOT

KERNEL_TABLES = ["gemm_power.csv", "attention_power.csv", "kernels_calibration.csv"]
OWN_KERNEL_TABLES = ["attention_h100.csv"]
FITTED_GPUS = ["a100-80gb", "h100", "b200"]
# gpu, relative, its rate as a share of this GPU's peak over the same of the relative, keys of its own, why
SIBLINGS = [
    ("a100-40gb", "a100-80gb", 1, "", "the same die"),
    ("h200", "h100", 1, "", "the same die"),
    ("gb200", "b200", 0.94, "",
     "the same die at a higher clock against a higher nominal peak; best shapes 1822 of 2500 and 1745 of 2250 TFLOP/s (stas00/ml-engineering)"),
    ("b300", "b200", 1.014, "attention_half_head_dim", "best shapes 1769 and 1745 of 2250 TFLOP/s (stas00/ml-engineering)"),
    ("gb300", "b200", 0.94, "attention_half_head_dim", "as the GB200"),
]
# what, table, GPU: coefficients that a table can tell (docs/models/power.md, thermal.md)
COEFFICIENTS = [
    ("power", "power_dvfs_calibration.csv", "a100-80gb"),
    ("power", "power_dvfs_calibration.csv", "a100-40gb"),
    ("power", "attention_power.csv", "b200"),
    ("thermal", "thermal_transients_calibration.csv", "a100-40gb"),
    ("thermal", "thermal_transients_calibration.csv", "mi300x"),
]
FITTED_CLUSTERS = ["dgx-a100", "dgx-h100", "dgx-b200", "dgx-b300"]


def run(program, *words):
    print("triplepoint " + " ".join(words), flush=True)
    subprocess.run([program, *words], check=True, stdout=subprocess.DEVNULL)


def kernels(program, tables):
    data = ROOT / "data" / "calibrations"
    files = [str(tables / name) for name in KERNEL_TABLES] + [str(data / name) for name in OWN_KERNEL_TABLES]
    for gpu in FITTED_GPUS:
        run(program, "calibrate", "kernels", "--from", ",".join(files), "--gpu", gpu, "-o", str(data / gpu / "kernels.toml"))
    for gpu, like, share, keep, reason in SIBLINGS:
        own = ["--keep", keep] if keep else []
        run(program, "calibrate", "kernels", "--gpu", gpu, "--like", like, "--peak-share", str(share), *own,
            "--reason", reason, "-o", str(data / gpu / "kernels.toml"))


def collectives(program, tables):
    for cluster in FITTED_CLUSTERS:
        run(program, "calibrate", "collectives", "--from", str(tables / "nccl.csv"), "--cluster", cluster,
            "-o", str(ROOT / "data" / "clusters" / f"{cluster}.toml"))


def coefficients(program, tables):
    for what, table, gpu in COEFFICIENTS:
        run(program, "calibrate", what, "--from", str(tables / table), "--gpu", gpu,
            "-o", str(ROOT / "data" / "calibrations" / gpu / f"{what}.toml"))


def main():
    program, tables = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2])
    if not tables.is_dir():
        print(f"skipped: no tables in {tables}; data/ stays as it is")
        return
    kernels(program, tables)
    collectives(program, tables)
    coefficients(program, tables)


main()
