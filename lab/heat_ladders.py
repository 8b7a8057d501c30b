#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/images/heat_ladders.svg: step time and hottest die as one cause of heat grows, on 32 H200.

usage: heat_ladders.py TRIPLEPOINT

Grey: the step before the temperature controller was modelled (commit dbf04fe): an arbitrary round of an undamped
iteration.
"""
import json
import subprocess
import sys
from pathlib import Path

OUT = Path(__file__).resolve().parent.parent / "docs/images/heat_ladders.svg"
LLAMA = ("--model llama3-70b --cluster hgx-h200 --nodes 4 --tp 8 --pp 4 --gbs 128 --recompute full "
         "--sequence-parallel").split()
GPT = ("--model gpt3-175b --cluster hgx-h200 --nodes 4 --tp 8 --pp 4 --gbs 128 --mbs 2 --recompute full "
       "--sequence-parallel --stack nemo-profiled").split()
LADDERS = [  # title, values, flags of a value, step before (value: seconds)
    ("Llama3-70B: thermal resistance of one heat sink, x", [1, 1.5, 1.9, 2, 2.25, 2.5, 2.75, 3, 3.5, 4],
     lambda v: LLAMA + ["--fault", f"gpu=3,heat_path={v}"], {1.9: 44.72, 2: 65.49, 2.5: 44.47, 3: 44.47, 4: 65.49}),
    ("Llama3-70B: fans of one node, % of full speed", [20, 22, 25, 28, 30, 32, 34, 36, 40],
     lambda v: LLAMA + ["--fault", f"node=0,fan={v / 100}"], {20: 65.93, 25: 44.47, 32: 65.93, 34: 44.73}),
    ("GPT3-175B: inlet air, °C", [36, 38, 40, 42, 44, 45, 46, 47, 48],
     lambda v: GPT + ["--ambient", f"{v} C"], {44: 27.94, 45: 36.34, 46: 37.10, 48: 27.94}),
]
WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 190, 56, 46, 76
NOW, BEFORE, DIE = "#0072b2", "#8c9196", "#d55e00"


def simulate(program, flags):
    run = json.loads(subprocess.run([program, "simulate", *flags, "--format", "json"], check=True, capture_output=True,
                                    text=True).stdout)
    return run["step_time_s"], max(t for t in run["temperature_c"]["per_gpu"] if t is not None)


def spread(points, position, apart):
    """Those of the points that leave room for a label between them."""
    kept = []
    for point in points:
        if not kept or position(point) - position(kept[-1]) >= apart:
            kept.append(point)
    return kept


def panel(at, title, now, before):
    """One ladder: seconds on the left axis, degrees of the hottest die as numbers above the line."""
    xs = [x for x, _, _ in now]
    top = 1.08 * max([s for _, s, _ in now] + list(before.values()))
    left = LEFT + at * (WIDTH + GAP)

    def place(x, seconds):
        return left + WIDTH * (x - xs[0]) / (xs[-1] - xs[0]), TOP + HEIGHT * (1 - seconds / top)

    def line(points, colour, dash=""):
        text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points)
        return f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="2" {dash}/>{dots}'

    parts = [f'<text x="{left}" y="{TOP - 26}" class="t">{title}</text>']
    for seconds in range(0, int(top) + 1, 20):
        y = place(xs[0], seconds)[1]
        parts.append(f'<line x1="{left}" x2="{left + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dadde1"/>'
                     f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{seconds} s</text>')
    for x in spread(xs, lambda x: place(x, 0)[0], 26):
        parts.append(f'<text x="{place(x, 0)[0]:.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{x:g}</text>')
    parts.append(line([place(x, s) for x, s in sorted(before.items())], BEFORE, 'stroke-dasharray="4 3"'))
    parts.append(line([place(x, s) for x, s, _ in now], NOW))
    for x, seconds, die in spread(now, lambda point: place(*point[:2])[0], 56):
        px, py = place(x, seconds)
        parts.append(f'<text x="{max(px, left + 20):.1f}" y="{py + 20:.1f}" text-anchor="middle" fill="{DIE}">{die:.0f} °C</text>')
    return "".join(parts)


def main():
    program = str(Path(sys.argv[1]).resolve())
    panels = []
    for at, (title, values, flags, before) in enumerate(LADDERS):
        now = [(v, *simulate(program, flags(v))) for v in values]
        falls = [b[0] for a, b in zip(now, now[1:]) if (b[1] - a[1]) * (1 if "fans" not in title else -1) < -1e-3 * a[1]]
        if falls:
            sys.exit(f"{title}: the step falls at {falls}")
        panels.append(panel(at, title, now, before))
    width = 2 * LEFT + 3 * WIDTH + 2 * GAP - 20
    height = TOP + HEIGHT + 52
    key = (f'<text x="{LEFT}" y="{height - 8}"><tspan fill="{NOW}">step now</tspan>, '
           f'<tspan fill="{DIE}">its hottest die</tspan>, <tspan fill="{BEFORE}">step before</tspan></text>')
    OUT.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
                   f'font-size="12" fill="#3c4043"><style>.t{{font-weight:bold}}</style>'
                   f'<rect width="100%" height="100%" fill="#fff"/>{"".join(panels)}{key}</svg>\n')


if __name__ == "__main__":
    main()
