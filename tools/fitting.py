# SPDX-License-Identifier: Apache-2.0
"""What the fits of heat and power share: a simplex search, a straight line, the folder of public measurements. No packages needed."""
import csv
import os
import pathlib
import sys

SHARED = pathlib.Path(os.environ.get("TPT_SHARED_DIR", pathlib.Path(__file__).resolve().parents[2] / "shared"))


def table(name):
    """Rows of ../shared/data/NAME as dictionaries; ends politely where the folder is not there."""
    path = SHARED / "data" / name
    if not path.exists():
        sys.exit(f"{path}: no such file (the public measurements are not part of the repository); set TPT_SHARED_DIR")
    with open(path) as file:
        return list(csv.DictReader(file))


def simplex(cost, start, step, rounds=600):
    """Nelder and Mead's downhill simplex: (point, cost)."""
    count = len(start)
    points = [list(start)] + [[x + (step[i] if i == j else 0) for j, x in enumerate(start)] for i in range(count)]
    costs = [cost(point) for point in points]
    for _ in range(rounds):
        order = sorted(range(count + 1), key=costs.__getitem__)
        points, costs = [points[i] for i in order], [costs[i] for i in order]
        centre = [sum(point[i] for point in points[:-1]) / count for i in range(count)]

        def along(factor):
            point = [c + factor * (x - c) for c, x in zip(centre, points[-1])]
            return cost(point), point

        reflected = along(-1)
        if reflected[0] < costs[0]:
            best = min(reflected, along(-2))
        elif reflected[0] < costs[-2]:
            best = reflected
        else:
            best = min(reflected, along(0.5 if reflected[0] >= costs[-1] else -0.5))
        if best[0] < costs[-1]:
            costs[-1], points[-1] = best
        else:
            points = [points[0]] + [[(a + b) / 2 for a, b in zip(points[0], point)] for point in points[1:]]
            costs = [costs[0]] + [cost(point) for point in points[1:]]
    best = min(range(count + 1), key=costs.__getitem__)
    return points[best], costs[best]


def line(xs, ys):
    """(intercept, slope) of the least-squares line."""
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / sum((x - mean_x) ** 2 for x in xs)
    return mean_y - slope * mean_x, slope


def rms(errors):
    errors = list(errors)
    return (sum(e * e for e in errors) / len(errors)) ** 0.5
