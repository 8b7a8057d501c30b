# SPDX-License-Identifier: Apache-2.0
"""triplepoint doctor and discover: what can be measured, what is missing, and a cluster that simulate reads."""
import json
import os

from live import environment, expect, run, scratch

doctor = run("doctor", "--look", "2s")
expect(doctor.returncode == 0 and "power_instant_w" in doctor.stdout, doctor.stdout + doctor.stderr)
found = json.loads(run("doctor", "--look", "2s", "--format", "json").stdout)
power = next(one for one in found["measurable"] if one["signal"] == "power_instant_w")
expect(power["channels"] == 8 and power["kind"] == "instant" and power["scope"] == "gpu", f"instant power: {power}")
expect(all(gap["why"] for gap in found["missing"]), "gaps have a reason")
visible = run("doctor", "--look", "200ms", env=environment(CUDA_VISIBLE_DEVICES="2,3"))
expect("CUDA_VISIBLE_DEVICES=2,3" in visible.stdout, "visible devices are said")
bare = run("doctor", "--look", "200ms", env=environment(TRIPLEPOINT_NVML="none.so"))
expect(bare.returncode == 0 and "none.so" in bare.stdout, "a machine without GPUs:\n" + bare.stdout + bare.stderr)

with scratch() as folder:
    cluster = os.path.join(folder, "cluster.toml")
    drafted = run("discover", "-o", cluster, "--devices", "0-3")
    expect(drafted.returncode == 0 and "4 x NVIDIA H200" in drafted.stdout, drafted.stdout + drafted.stderr)
    simulated = run("simulate", "--cluster", cluster, "--model", "llama3-8b", "--tp", "4", "--gbs", "8", "--recompute", "full",
                    "--steps", "2", "--format", "json")
    expect(simulated.returncode == 0, "simulate reads it: " + simulated.stderr)
    printed = run("discover", "--devices", "0-3")
    with open(cluster) as file:
        expect(printed.stdout == file.read(), "without -o it is printed")
    json.loads(run("discover", "--format", "json").stdout)

nothing = run("discover", env=environment(TRIPLEPOINT_NVML="none.so"))
expect(nothing.returncode == 1 and "no driver reports a GPU" in nothing.stderr, "no GPU, no cluster: " + nothing.stderr)
