# SPDX-License-Identifier: Apache-2.0
"""What the fits share: a simplex search, a straight line, the folder of public measurements. Needs Debian's python3-scipy."""
import csv
import os
import pathlib
import sys

from scipy import optimize

SHARED = pathlib.Path(os.environ.get("TPT_SHARED_DIR", pathlib.Path(__file__).resolve().parents[2] / "shared"))


def table(name):
    """Rows of ../shared/data/NAME as dictionaries; ends politely where the folder is not there."""
    path = SHARED / "data" / name
    if not path.exists():
        sys.exit(f"{path}: no such file (the public measurements are not part of the repository); set TPT_SHARED_DIR")
    with open(path) as file:
        return list(csv.DictReader(file))


def simplex(cost, start, step, rounds=600):
    """Nelder and Mead's downhill simplex from a start and a step in each direction: (point, cost)."""
    corners = [start] + [[x + (step[i] if i == j else 0) for j, x in enumerate(start)] for i in range(len(start))]
    found = optimize.minimize(cost, start, method="Nelder-Mead", options={"initial_simplex": corners, "maxiter": rounds, "maxfev": 2 * rounds, "xatol": 1e-9, "fatol": 1e-9})
    return list(found.x), found.fun


def descend(cost, start, step, evaluations):
    """The same in coordinates of 0 to 1; outside of them the nearest point inside counts, with a penalty. Never worse than the start."""
    def inside(point):
        outside = sum(max(0.0, x - 1) + max(0.0, -x) for x in point)
        return cost([min(1.0, max(0.0, x)) for x in point]) + outside

    steps = [-step if x > 0.5 else step for x in start]
    point, value = simplex(inside, list(start), steps, evaluations // 2)
    point = [min(1.0, max(0.0, x)) for x in point]
    at_start = cost(list(start))
    return (point, value) if value < at_start else (list(start), at_start)


def line(xs, ys):
    """(intercept, slope) of the least-squares line."""
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / sum((x - mean_x) ** 2 for x in xs)
    return mean_y - slope * mean_x, slope


def rms(errors):
    errors = list(errors)
    return (sum(e * e for e in errors) / len(errors)) ** 0.5
