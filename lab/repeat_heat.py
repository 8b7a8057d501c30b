#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How well equal loads of an MI300X repeat: what no model of power and heat can know.

  python3 lab/repeat_heat.py thermal_transients_calibration.csv

Takes the loads of at least 70 s of the device that works, in both runs. Each reading is predicted by the other loads at the same second
since its load began: by those of its own kind of test (same length, mean power within 2 %), and by those of all kinds, which is what the
best model that sees power alone could do. Loads are aligned where they fit each other best, by at most 6 s: power is read every 5 s.
"""
import csv
import sys

LOADED_W = 350  # no reading lies between 200 and 350 W for more than one sample
SHORTEST_S = 70
STEP_S = 1
NEAR_K = 1.5  # the target's band


def rms(values):
    return (sum(v * v for v in values) / len(values)) ** 0.5


def within(values):
    return 100 * sum(abs(v) <= NEAR_K for v in values) / len(values)


def at(readings, t):
    """Linear between readings [(s, C)]; nothing outside of them."""
    for (t0, v0), (t1, v1) in zip(readings, readings[1:]):
        if t0 <= t <= t1:
            return v0 + (v1 - v0) * (t - t0) / (t1 - t0) if t1 > t0 else v0
    return None


class Load:
    def __init__(self, name, begin, end, watts, temperatures):
        self.name, self.seconds = name, end - begin
        self.watts = sum(watts) / len(watts)
        self.readings = [(t - begin, v) for t, v in temperatures if begin <= t <= end]

    def is_kind(self, other):
        return abs(self.seconds - other.seconds) <= 6 and abs(self.watts / other.watts - 1) <= 0.02


def loads_of(name, powers, temperatures):
    loads, now, low = [], [], 0
    for t, watts in powers + [(powers[-1][0] + 5, 0), (powers[-1][0] + 10, 0)]:
        if watts > LOADED_W:
            now.append((t, watts))
            continue
        if now and now[-1][0] - now[0][0] >= SHORTEST_S:
            loads.append(Load(f"{name} at {now[0][0]:.0f} s", now[0][0], now[-1][0], [w for _, w in now], temperatures))
        now = []
    return loads


def differences(load, other):
    """The load's readings less the other's, aligned where they differ least."""
    best = None
    for shift in range(-6, 7, STEP_S):
        found = [(t, v - there) for t, v in load.readings if (there := at(other.readings, t + shift)) is not None]
        if len(found) >= 0.6 * len(load.readings) and (best is None or rms([d for _, d in found]) < rms([d for _, d in best])):
            best = found
    return dict(best or [])


def oracle(load, others):
    """The load's readings less the mean of the others."""
    every = [differences(load, other) for other in others]
    left = []
    for t, _ in load.readings:
        there = [one[t] for one in every if t in one]
        if there:
            left.append(sum(there) / len(there))
    return left


def read(path):
    devices = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["gpu"] == "MI300X" and row["trace_id"].endswith("card0"):
                powers, temperatures = devices.setdefault(row["trace_id"], ([], []))
                if row["power_w"]:
                    powers.append((float(row["t_s"]), float(row["power_w"])))
                if row["temp_core_c"]:
                    temperatures.append((float(row["t_s"]), float(row["temp_core_c"])))
    return devices


def main():
    devices = read(sys.argv[1])
    loads = [load for name, (powers, temperatures) in devices.items() for load in loads_of(name, powers, temperatures)]
    readings = sum(len(temperatures) for _, temperatures in devices.values())
    alike, all_kinds = [], []
    for load in loads:
        others = [other for other in loads if other is not load]
        kind = [other for other in others if load.is_kind(other)]
        after = at(load.readings, 30)
        print(f"{load.name}: {load.seconds:.0f} s at {load.watts:.0f} W, {after:.1f} C after 30 s, {len(kind)} repeats")
        alike += oracle(load, kind) if kind else []
        all_kinds += oracle(load, others)
    total = sum(len(load.readings) for load in loads)
    print(f"{len(loads)} loads hold {total} of {readings} readings of the working device")
    print(f"predicted by repeats of the same test: {rms(alike):.2f} K rms, {within(alike):.0f} % within {NEAR_K} K")
    print(f"predicted by all other loads: {rms(all_kinds):.2f} K rms, {within(all_kinds):.0f} % within {NEAR_K} K")


if __name__ == "__main__":
    main()
