#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits what public measurements say about heat, and prints it with residuals: the numbers behind data/calibrations/*/thermal.toml and
the chassis of data/clusters/hgx-h200.toml.

  step     A100 PCIe, one power step at 14 ms samples: poles of the package
  response MI300X under a server's bursts, 5 s samples: poles of package and sink
  slots    eight slots of 4 HGX H200 nodes at three powers: inlet offsets, and upstream heating of the rear slots
"""
import math
from fractions import Fraction

from fitting import line, rms, simplex, table

A100_SINK = (0.02, 20.0)  # K/W and s, assumed: six seconds do not show it
H200_SINK_SHARE = 0.175  # of the resistance of a cool slot, as of the A100, assumed there as well
H200_SINK_CAPACITY = 900.0  # J/K: 2 kg of copper and aluminium, assumed
FLOW = 0.349  # m3/s through the GPU bay: two thirds of a DGX H100's 1105 cfm, assumed
AIR = 1171.0  # J/(m3 K)
FIXED_HEAT = 1500.0  # W
INLET = 25.0  # C, assumed: nobody wrote it down


def ladder_of(modes):
    """Cauer's ladder of Foster's modes [(K/W, s)]: die first, as resistances and capacities."""

    def times(a, b):
        out = [Fraction(0)] * (len(a) + len(b) - 1)
        for i, x in enumerate(a):
            for j, y in enumerate(b):
                out[i + j] += x * y
        return out

    numerator, denominator = [Fraction(0)], [Fraction(1)]
    for resistance, tau in modes:
        pole = [Fraction(1), Fraction(tau)]
        left, right = times(numerator, pole), [Fraction(resistance) * x for x in denominator]
        size = max(len(left), len(right))
        numerator = [(left[i] if i < len(left) else 0) + (right[i] if i < len(right) else 0) for i in range(size)]
        denominator = times(denominator, pole)

    def trim(p):
        while len(p) > 1 and p[-1] == 0:
            p = p[:-1]
        return p

    resistances, capacities = [], []
    numerator, denominator = trim(numerator), trim(denominator)
    for _ in modes:
        capacity = denominator[-1] / numerator[-1]  # leading coefficients: s C of the admittance
        rest = list(denominator)
        for i, x in enumerate(numerator):
            rest[i + 1] -= capacity * x
        rest = trim(rest[:-1])
        resistance = numerator[-1] / rest[-1]
        below = [n - resistance * r for n, r in zip(numerator, rest)]
        capacities.append(float(capacity))
        resistances.append(float(resistance))
        numerator, denominator = trim(below[:-1] or [Fraction(0)]), rest
    return resistances, capacities


def show(name, resistances, capacities):
    print(f"  {name} resistances = [" + ", ".join(f'"{r:.3g} K/W"' for r in resistances) + "]")
    print(f"  {name} capacities  = [" + ", ".join(f'"{c:.3g} J/K"' for c in capacities) + "]")


def step():
    rows = [(float(r["t_s"]), float(r["temp_core_c"])) for r in table("thermal_transients_calibration.csv") if r["trace_id"] == "a100-pcie40-step6s"]
    up, down = 187 - 59, 188 - 60.5  # W: means of the plateaus before, in and after the step

    def modes_of(x):
        return [(math.exp(x[i]), math.exp(x[i + 1])) for i in range(3, 9, 2)] + [A100_SINK]

    def model(x, t):
        degrees = x[0]
        for resistance, tau in modes_of(x):
            for at, watts in ((x[1], up), (x[2], -down)):
                if t > at:
                    degrees += watts * resistance * (1 - math.exp(-(t - at) / tau))
        return degrees

    def cost(x):  # a reading n means n to n + 1
        return sum(max(0, c - model(x, t), model(x, t) - c - 1) ** 2 + 0.02 * (model(x, t) - c - 0.5) ** 2 for t, c in rows[::2])

    x = [37.3, 1.51, 7.48] + [math.log(v) for v in (0.027, 0.045, 0.024, 0.37, 0.022, 3.0)]
    for _ in range(3):
        x, _ = simplex(cost, x, [0.3, 0.01, 0.01] + [0.3] * 6)
    modes = modes_of(x)
    print("step: A100 PCIe, " + ", ".join(f"{r:.4f} K/W in {tau:.3f} s" for r, tau in modes))
    print(f"  rms {rms(model(x, t) - c - 0.5 for t, c in rows):.3f} K; a reading in whole degrees alone has {1 / math.sqrt(12):.3f}")
    resistances, capacities = ladder_of(modes)
    show("a100", resistances, capacities)
    return resistances, capacities


def response():
    traces = []
    for name in ("mi300x-vllm-bs1-mem0.8-card0", "mi300x-vllm-bs1-mem0.9-card0"):
        rows = [r for r in table("thermal_transients_calibration.csv") if r["trace_id"] == name]
        traces.append(([(float(r["t_s"]), float(r["power_w"])) for r in rows if r["power_w"]],
                       [(float(r["t_s"]), float(r["temp_core_c"])) for r in rows if r["temp_core_c"]]))

    def errors(x):
        base, switch = x[0], x[1]  # power changes `switch` of the gap before the sample that shows it
        modes = [(math.exp(x[i]), math.exp(x[i + 1])) for i in range(2, len(x), 2)]
        for power, temperature in traces:
            rise, reading = [r * power[0][1] for r, _ in modes], 0
            for (t0, p0), (t1, p1) in zip(power, power[1:]):
                change = t1 - switch * (t1 - t0)
                for begin, end, watts in ((t0, change, p0), (change, t1, p1)):
                    while reading < len(temperature) and temperature[reading][0] <= end:
                        t, c = temperature[reading]
                        if t >= begin:
                            yield base + sum(r * watts + (y - r * watts) * math.exp(-(t - begin) / tau) for (r, tau), y in zip(modes, rise)) - c
                        reading += 1
                    rise = [r * watts + (y - r * watts) * math.exp(-(end - begin) / tau) for (r, tau), y in zip(modes, rise)]

    def cost(x):
        return sum(min(e * e, 25) for e in errors(x)) if 0 <= x[1] <= 1 else 1e12

    x = [37.0, 0.4] + [math.log(v) for v in (0.034, 0.3, 0.015, 17.0)]
    for _ in range(2):
        x, _ = simplex(cost, x, [0.5, 0.1] + [0.3] * 4, rounds=300)
    fast, slow = math.exp(x[2]), (math.exp(x[4]), math.exp(x[5]))
    within = sorted(abs(e) for e in errors(x))
    print(f"response: MI300X, {fast:.4f} K/W within a sample and {slow[0]:.4f} K/W in {slow[1]:.1f} s, base {x[0]:.1f} C;"
          f" half of the readings within {within[len(within) // 2]:.1f} K, nine tenths within {within[9 * len(within) // 10]:.1f} K")
    # What 5 s samples cannot resolve has the A100's shape.
    show("mi300x", *ladder_of([(0.43 * fast, 0.02), (0.57 * fast, 0.25), slow]))


def slots(package):
    power, mean = zip(*[(float(r["power_avg_W"]), float(r["temp_avg_C"])) for r in table("charllm_fig13_microbatch.csv") if r["status"] == "ok"])
    intercept, slope = line(power, mean)
    print(f"slots: mean = {intercept:.1f} C + {slope:.4f} K/W P over {len(power)} runs, rms {rms(intercept + slope * p - t for p, t in zip(power, mean)):.2f} K")
    gap = (12.3 - 9.7) / (600 - 305)  # K/W by which hot slots rise faster
    hot = (0, 3, 4, 6)
    rows = []
    for row in table("charllm_fig17_heatmap.csv"):
        if row["panel"] == "avg_temp_C":
            rows.append([sum(float(row[f"gpu{8 * node + slot}"]) for node in range(4)) / 4 for slot in range(8)])
    offsets = []
    for slot in range(8):
        own = slope + (0.5 if slot in hot else -0.5) * gap
        at_no_power = [row[slot] - own * (sum(row) / 8 - intercept) / slope for row in rows]
        offsets.append(sum(at_no_power) / len(at_no_power) - INLET - FIXED_HEAT / (AIR * FLOW))
    print("  inlet_offset = " + ", ".join(f"{o:.1f}" for o in offsets))
    print(f"  upstream heating of a hot slot by each cool slot: {gap * AIR * FLOW / 4:.2f} times")
    cool = slope - 0.5 * gap
    resistances, capacities = package
    in_package = sum(resistances[:-1])
    scale = (1 - H200_SINK_SHARE) * cool / in_package
    sink = H200_SINK_SHARE * cool * math.sqrt(0.8)  # the paper's fans ran at a share of 0.8: R goes with flow^-1/2
    print(f"  cool slot {cool:.4f} K/W: package {scale:.2f} of the A100's")
    show("h200", [scale * r for r in resistances[:-1]] + [sink], capacities[:-1] + [H200_SINK_CAPACITY])


if __name__ == "__main__":
    package = step()
    response()
    slots(package)
