#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels of GPUs without tables of their own: what was fitted on a relative, with shares of a peak scaled by what the relative's rate is of this GPU's peak.

    sibling_kernels.py            says what would change in data/calibrations/*/kernels.toml
    sibling_kernels.py --write
"""
import sys
import tomllib

from fit_files import replace_source, set_number
from trial_library import DATA

# GPU, relative, scale of shares of a peak, keys of its own, why.
SIBLINGS = [
    ("a100-40gb", "a100-80gb", 1, [], "the same die"),
    ("h200", "h100", 1, [], "the same die"),
    ("gb200", "b200", 0.94, [],
     "the same die at a higher clock against a higher nominal peak; best shapes 1822 of 2500 and 1745 of 2250 TFLOP/s (stas00/ml-engineering)"),
    ("b300", "b200", 1.014, ["attention_half_head_dim"], "best shapes 1769 and 1745 of 2250 TFLOP/s (stas00/ml-engineering)"),
    ("gb300", "b200", 0.94, ["attention_half_head_dim"], "as the GB200"),
]
SHARES_OF_PEAK = {"gemm_peak_share", "gemm_fp8_share", "gemm_mxfp8_share", "gemm_fp4_share", "attention_forward_share", "attention_backward_share"}
DERIVED = {"gemm_fp8_share", "gemm_mxfp8_share", "gemm_fp4_share", "attention_backward_share", "attention_tile"}  # from fits, by hand


def inherited(path):
    """Keys that a fit of tables wrote, and those derived from one."""
    file = tomllib.loads(path.read_text())
    fitted = {key.split(".")[1] for source in file["source"] for key in source["keys"] if "fit_tables.py kernels" in source["cite"]}
    return {key: value for key, value in file["kernels"].items() if key in fitted | DERIVED}


def main():
    for gpu, relative, scale, own, reason in SIBLINGS:
        path = DATA / "calibrations" / gpu / "kernels.toml"
        now, taken = tomllib.loads(path.read_text())["kernels"], []
        for key, value in inherited(DATA / "calibrations" / relative / "kernels.toml").items():
            if key in own:
                continue
            value = round(value * scale, 4) if key in SHARES_OF_PEAK else value
            taken.append(f"kernels.{key}")
            if now.get(key) != value:
                print(f"{gpu}: {key} is {now.get(key)}, the rule gives {value}")
            if "--write" in sys.argv and key in now:
                set_number(path, f"kernels.{key}", f'"{value}"' if isinstance(value, str) else f"{value}")
        if "--write" in sys.argv:
            replace_source(path, [key for key in taken if key.split(".")[1] in now], "assumed",
                           f"as fitted on the {relative} (its kernels.toml), shares of a peak times {scale}: {reason}")


if __name__ == "__main__":
    main()
