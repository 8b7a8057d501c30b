#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits what public measurements say about power, and prints it with residuals: the numbers behind data/calibrations/*/power.toml.

  voltage     A100 80GB PCIe at five locked clocks, two kernels: energy per event against the clock
  products    GEMM tables of H200 and B200 at their power limits: joules per TFLOP
  cap         B300 under limits of 500 and 700 W: the same curve from the clock a limit leaves, and how fast the limit acts
"""
import math
import statistics

from fitting import line, rms, simplex, table

# What the fits take as given; sources in data/calibrations/.
A100_IDLE = 60.0  # W at 1410 MHz without work (56 W on the 40 GB board, 65 W in a dump)
A100_RESIDENT = 23.0  # W of a kernel that only sits there
A100_LEAKAGE = 35.6  # W at about 45 C and full voltage, part of the idle power
HOPPER = {"idle": 93.0, "waiting": 150.0, "floor": 0.45, "exponent": 1.2, "hbm": 0.085}
BLACKWELL = {"idle": 172.0, "waiting": 235.0, "floor": 0.45, "exponent": 2.2, "hbm": 0.078}


def energy_ratio(floor, exponent, clock_ratio):
    return floor + (1 - floor) * clock_ratio**exponent


def voltage():
    rows = [r for r in table("power_dvfs_calibration.csv") if r["family"] == "ucl-a100-dvfs" and r["power_cap_w"] == "300"]
    points = {}
    for row in rows:
        kernel = "stream" if row["workload"].startswith("BabelStream") else "pi" if row["workload"].startswith("pi-") else None
        if kernel:
            points.setdefault(kernel, []).append((float(row["lock_sm_mhz"]) / 1410, float(row["power_avg_w"]), float(row["perf"])))

    def lines(shape):
        for kernel, measured in points.items():
            ticking = [r * energy_ratio(*shape, r) for r, _, _ in measured]
            saved = [A100_LEAKAGE * (1 - energy_ratio(*shape, r) ** 0.5) for r, _, _ in measured]
            constant, factor = line(ticking, [p + s for (_, p, _), s in zip(measured, saved)])
            yield kernel, constant, factor, [constant + factor * t - s - p for t, s, (_, p, _) in zip(ticking, saved, measured)]

    def cost(shape):
        if not (0 <= shape[0] < 0.95 and shape[1] > 0):
            return 1e9
        fitted = list(lines(shape))
        idle = next(constant for kernel, constant, _, _ in fitted if kernel == "pi")
        return sum(e * e for _, _, _, errors in fitted for e in errors) + (idle - A100_IDLE) ** 2

    shape, _ = simplex(cost, [0.4, 5.0], [0.1, 1.0])
    print(f"voltage: energy per event = {shape[0]:.3f} + {1 - shape[0]:.3f} r^{shape[1]:.2f}")
    for kernel, constant, factor, errors in lines(shape):
        print(f"  {kernel}: {constant:.1f} W + {factor:.1f} W r v, rms {rms(errors):.1f} W")
        if kernel == "stream":
            rate = statistics.mean(p for _, _, p in points["stream"])
            in_memory, on_chip = (constant - A100_IDLE) / rate, (factor - A100_RESIDENT) / rate
            print(f"  stream: {in_memory + on_chip:.3f} J/GB, {on_chip / (in_memory + on_chip):.2f} of it follows the clock")


def joules_per_tflop(gpu, power, tflops, bytes_per_s, clock_ratio):
    v = energy_ratio(gpu["floor"], gpu["exponent"], clock_ratio)
    fixed = gpu["idle"] + (gpu["waiting"] - gpu["idle"]) * clock_ratio * v
    return (power - fixed - gpu["hbm"] * bytes_per_s / 1e9) / tflops / v


def products():
    rows = [r for r in table("gemm_power.csv") if float(r["latency_ms"]) > 0.5]
    unthrottled = {
        ("h200_sxm", "bfloat16"): statistics.median(float(r["tflops"]) for r in rows if r["system"] == "h100_sxm" and r["dtype"] == "bfloat16"),
        ("h200_sxm", "fp8_block"): statistics.median(float(r["tflops"]) for r in rows if r["system"] == "h100_sxm" and r["dtype"] == "fp8_block"),
        ("b200_sxm", "bfloat16"): 0.78 * 2250,  # the H100's share of its peak; nobody has measured a B200 without its limit
        ("b200_sxm", "fp8_block"): 0.55 * 4500,
    }
    for (system, dtype), free in unthrottled.items():
        capped = [r for r in rows if r["system"] == system and r["dtype"] == dtype and r["power_w"] and float(r["power_w"]) > 0.97 * float(r["power_limit_w"])]
        rate = statistics.median(float(r["tflops"]) for r in capped)
        power = statistics.median(float(r["power_w"]) for r in capped)
        width = 1 if dtype.startswith("fp8") else 2
        traffic = statistics.median(
            (width * (float(r["m"]) * float(r["k"]) + float(r["n"]) * float(r["k"])) + 2 * float(r["m"]) * float(r["n"])) / (1e-3 * float(r["latency_ms"]))
            for r in capped)
        clock = min(1, rate / free)
        energy = joules_per_tflop(HOPPER if system == "h200_sxm" else BLACKWELL, power, rate, traffic, clock)
        print(f"products: {system} {dtype}: {len(capped)} shapes at {power:.0f} W, {rate:.0f} of {free:.0f} TFLOP/s, clock ratio {clock:.3f}: {energy:.3f} J/TFLOP at full clock")


def cap():
    rows = {r["notes"].split(";")[0]: r for r in table("power_dvfs_calibration.csv") if r["family"] == "gpl-b300" and r["lock_sm_mhz"] == ""}
    free = next(r for r in rows.values() if "prec-bf16" in r["notes"])
    slow = next(r for r in rows.values() if "over-500w-500ms" in r["notes"])
    duty = next(r for r in rows.values() if "ramp-none" in r["notes"])
    ratio = float(slow["perf"]) / float(duty["perf"])
    idle = 183.5
    share = (500 - idle) / (float(free["power_avg_w"]) - idle)
    print(f"cap: B300 at 500 W keeps {ratio:.3f} of its rate, so r v = {share:.3f}, v = {share / ratio:.3f};"
          f" 0.45 + 0.55 r^2.2 is {energy_ratio(0.45, 2.2, ratio):.3f}")
    power = float(free["power_avg_w"])
    errors = {}
    for constant in range(10, 45, 5):
        fits = {name: reaction(row, power, idle, constant) for name, row in rows.items() if "over-" in name}
        errors[constant] = rms(fit / float(rows[name][column]) - 1 for name, both in fits.items()
                               for fit, column in zip(both, ("power_avg_w", "power_peak_instant_w")))
        print(f"  time constant {constant} ms: means and peaks of duty cycles within {100 * errors[constant]:.1f} % (rms); " + ", ".join(
            f"{name.split('over-')[1]} {mean:.0f} of {float(rows[name]['power_avg_w']):.0f} W, peak {peak:.0f} of {float(rows[name]['power_peak_instant_w']):.0f} W"
            for name, (mean, peak) in sorted(fits.items())))
    print(f"  best: {min(errors, key=errors.get)} ms")


def reaction(row, power, idle, constant):
    """Mean power, and the highest mean over 25 ms, of a load that goes on and off under a limit.

    The controller sees power through a first-order filter and lowers the clock once that is at the limit.
    """
    limit, on, off = (float(row[c]) for c in ("power_cap_w", "duty_on_ms", "duty_off_ms"))
    level = idle + (limit - idle) * math.exp(-off / constant)
    free = min(on, constant * math.log((power - level) / (power - limit)))
    mean = (free * power + (on - free) * limit + off * idle) / (on + off)
    step = 0.1
    times = [step * i for i in range(int(max(2 * (on + off), 60) / step))]
    samples = [power if t % (on + off) < free else limit if t % (on + off) < on else idle for t in times]
    window = int(25 / step)
    return mean, max(statistics.mean(samples[i:i + window]) for i in range(0, len(samples) - window, 5))


if __name__ == "__main__":
    voltage()
    products()
    cap()
