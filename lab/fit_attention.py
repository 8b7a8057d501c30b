#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""FlashAttention 3 on Hopper: its speed from an H100's and an H200's rows, its energy from the H200's powers.

Also what of its power the meter shows after a pause (keys of 12288 and more), from the B200's powers.

usage: fit_attention.py PROGRAM FOLDER_OF_TABLES
"""
import math
import re
import statistics
import sys
import tempfile
from pathlib import Path

from fitting import simplex, table
from trial_library import DATA, canonical, read_values, summary, trial_library, validate, write_values

SHAPE_KEYS = ["attention_share", "attention_half_length", "attention_half_head_dim"]


def set_flash_attention(library, values):
    path = library / "calibrations" / "benchmarks.toml"
    write_values(path, dict(zip(SHAPE_KEYS, (f"{v:.4g}" for v in values))))


def flash_rows(program, library, folder):
    rows = validate(program, library, [folder / "kernels_opened.csv", folder / "attention_h100.csv"])
    h200 = [r for r in rows if "attn-power-h200" in r["family"] and r["quantity"] == "latency_us"]
    names = {f"line {i}" for i, source in enumerate(FIGURE_SOURCES, 4) if source}
    h100 = [r for r in rows if "attention h100" in r["family"] and r["row_id"] in names]
    return [[float(r["error_pct"]) for r in part] for part in (h200, h100)]


def is_flash_forward(line):
    return "flash_attention_3" in line and ",fwd," in line and "fp8" not in line


FIGURE_SOURCES = [is_flash_forward(line) for line in (DATA / "calibrations" / "attention_h100.csv").read_text().splitlines()[3:]]


def fit_speed(program, folder):
    with trial_library() as library:
        def cost(point):
            set_flash_attention(library, point)
            return sum(statistics.mean(abs(math.log1p(e / 100)) for e in part) for part in flash_rows(program, library, folder))
        best, _ = simplex(cost, [0.787, 222, 89], [0.03, 40, 5], rounds=60)
        set_flash_attention(library, best)
        h200, h100 = flash_rows(program, library, folder)
        print("speed: " + ", ".join(f"{k} {v:.4g}" for k, v in zip(SHAPE_KEYS, best)) + f"; H200 {summary(h200)}; H100 {summary(h100)}")


def fit_energy(program, folder):
    with trial_library() as library:
        power = library / "calibrations" / "h200" / "power.toml"
        joules = read_values(power)["joules_per_tflop"]
        for tried in (0.27, 0.28, 0.29, 0.3, 0.31, 0.32, 0.33, 0.35):
            write_values(power, {"joules_per_tflop": re.sub(r"attention = [0-9.]+", f"attention = {tried}", joules)})
            rows = validate(program, library, [folder / "kernels_opened.csv"])
            print(f"energy: {tried} J/TFLOP  {summary([float(r['error_pct']) for r in rows if r['quantity'] == 'power_w'])}")


def median_power(rows):
    return statistics.median(float(r["power_w"]) for r in rows)


def pause():
    rows = [r for r in table("attention_power.csv") if 2048 <= int(r["seq"])]
    long = [r for r in rows if int(r["seq"]) >= 12288]
    rest = 172.0  # W, a B200 whose clocks are up and that does nothing (data/calibrations/b200/power.toml)
    share = (median_power(long) - rest) / (median_power([r for r in rows if int(r["seq"]) < 12288]) - rest)
    print(f"pause: {len(long)} kernels over 12288 keys and more show {share:.2f} of their power above rest")


def main():
    program, published = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as scratch:
        for table_of_kernels in (published / "kernels_opened.csv", DATA / "calibrations" / "attention_h100.csv"):
            canonical(table_of_kernels, scratch)
        fit_speed(program, Path(scratch))
        fit_energy(program, Path(scratch))
    pause()


if __name__ == "__main__":
    main()
