#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/images/modules.svg: the modules of triplepoint/ in layers, and which includes which.

A module's layer is the longest chain of includes below it. An include that follows from a longer chain is not drawn. Tests are
left out. An edge over several layers passes through a point in each; rows are ordered to have few crossings.
"""
import collections
import itertools
import re
import sys

from check_layers import NO_UNIT, includes_of, owner_of
from repository import ROOT, files

PICTURE = ROOT / "docs/images/modules.svg"
WIDTH, ROW, BOX_WIDTH, BOX_HEIGHT, POINT_WIDTH, GAP, MARGIN = 880, 72, 100, 38, 10, 14, 12
PULL_TO_CENTRE = 0.2  # of a module's neighbours, each of which counts 1
# The colours are legible on a light and on a dark page.
STYLE = ("rect{fill:#dbe7f3;stroke:#5b7ea3}path{fill:none;stroke:#6f8fb3;stroke-width:1.4}"
         "text{font:13px Helvetica,Arial,'DejaVu Sans',sans-serif;text-anchor:middle;fill:#14202c}.lines{font-size:11px;fill:#3d4d5c}")
LINES = re.compile(r'data-module="(\w+)" data-lines="(\d+)"')
ALLOWED_DRIFT = 0.1  # of a module's lines, before the picture is stale


def read_modules():
    """Modules that each module includes, and lines of each."""
    includes, lines = collections.defaultdict(set), collections.Counter()
    for file in files(".h", ".cpp", ".cu"):
        owner = owner_of(file)
        if owner is None or file.relative_to(ROOT).parts[0] != "triplepoint" or NO_UNIT.search(file.name):
            continue
        module = owner[0]
        lines[module] += file.read_text().count("\n")
        includes[module] |= {included for _, _, included in includes_of(file)} - {module}
    return dict(sorted(includes.items())), lines


def all_below(module, includes):
    return includes[module].union(*(all_below(other, includes) for other in includes[module]))


def reduced(includes):
    """Without the edges that follow from others."""
    return {module: sorted(others - set().union(*(all_below(other, includes) for other in others)))
            for module, others in includes.items()}


def layer_of(module, includes):
    return max((layer_of(other, includes) + 1 for other in includes[module]), default=0)


def rows_with_points(edges, layers):
    """Rows from the bottom, edges cut at every row, and the points of each edge."""
    rows = [[] for _ in range(max(layers.values()) + 1)]
    for module, layer in layers.items():
        rows[layer].append(module)
    chains = []
    for module, others in edges.items():
        for other in others:
            points = [f"{module}>{other}@{row}" for row in range(layers[module] - 1, layers[other], -1)]
            for row, point in zip(range(layers[module] - 1, layers[other], -1), points):
                rows[row].append(point)
            chains.append([module, *points, other])
    return rows, chains


def crossings(rows, links):
    count = 0
    for row in rows:
        at = {node: i for row_ in rows for i, node in enumerate(row_)}
        down = [(at[a], at[b]) for a in row for b in links["down"][a]]
        count += sum((a - c) * (b - d) < 0 for (a, b), (c, d) in itertools.combinations(down, 2))
    return count


def order(rows, links):
    """Each row sorted by the mean place of its neighbours, downwards and upwards, until no better order is found."""
    best, fewest = [list(row) for row in rows], crossings(rows, links)
    for sweep in range(24):
        side = "down" if sweep % 2 == 0 else "up"
        for row in rows if side == "down" else reversed(rows):
            at = {node: i / len(other) for other in rows for i, node in enumerate(other)}
            mean = {node: sum(at[n] for n in links[side][node]) / len(links[side][node]) if links[side][node] else at[node] for node in row}
            row.sort(key=mean.get)
        swap_neighbours(rows, links)
        if crossings(rows, links) < fewest:
            best, fewest = [list(row) for row in rows], crossings(rows, links)
    return best


def swap_neighbours(rows, links):
    """Swaps neighbours of a row while that leaves fewer crossings."""
    fewest, changed = crossings(rows, links), True
    while changed:
        changed = False
        for row in rows:
            for i in range(len(row) - 1):
                row[i], row[i + 1] = row[i + 1], row[i]
                count = crossings(rows, links)
                if count < fewest:
                    fewest, changed = count, True
                else:
                    row[i], row[i + 1] = row[i + 1], row[i]


def width_of(node):
    return POINT_WIDTH if "@" in node else BOX_WIDTH


def spread(row, wished):
    """Places as near to the wished ones as the widths permit."""
    places, right = {}, MARGIN - GAP
    for node in row:
        places[node] = max(wished[node], right + GAP + width_of(node) / 2)
        right = places[node] + width_of(node) / 2
    left = WIDTH - MARGIN + GAP
    for node in reversed(row):
        places[node] = min(places[node], left - GAP - width_of(node) / 2)
        left = places[node] - width_of(node) / 2
    return places


def place(rows, links):
    x = {}
    for row in rows:
        x |= spread(row, {node: WIDTH * (i + 0.5) / len(row) for i, node in enumerate(row)})
    for _ in range(60):
        for row in itertools.chain(rows, reversed(rows)):
            near = {node: [x[n] for n in links["down"][node] + links["up"][node]] for node in row}
            mean = {node: (sum(near[node]) + PULL_TO_CENTRE * WIDTH / 2) / (len(near[node]) + PULL_TO_CENTRE) for node in row}
            x |= spread(row, {node: (x[node] + mean[node]) / 2 for node in row})
    return {node: round(value) for node, value in x.items()}


def draw(includes, lines):
    layers = {module: layer_of(module, includes) for module in includes}
    rows, chains = rows_with_points(reduced(includes), layers)
    links = {"down": collections.defaultdict(list), "up": collections.defaultdict(list)}
    for upper, lower in itertools.chain.from_iterable(itertools.pairwise(chain) for chain in chains):
        links["down"][upper].append(lower)
        links["up"][lower].append(upper)
    rows = order(rows, links)
    x = place(rows, links)
    middle = {node: MARGIN + BOX_HEIGHT // 2 + ROW * (len(rows) - 1 - i) for i, row in enumerate(rows) for node in row}
    height = ROW * (len(rows) - 1) + BOX_HEIGHT + 2 * MARGIN
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img">',
           "<title>Modules in layers; each includes the modules it is joined to below, and what those include</title>",
           f"<style>{STYLE}</style>"]
    ports = ports_of(links, x)
    out += [path_of(chain, ports, middle) for chain in chains]
    out += [box_of(module, x[module], middle[module], lines[module]) for module in includes]
    return "\n".join([*out, "</svg>", ""])


def ports_of(links, x):
    """Where an edge from `node` to `other` leaves the node: side by side, in the order of the other ends."""
    ports = {}
    for side in links.values():
        for node, others in side.items():
            pitch = (width_of(node) - POINT_WIDTH) / (len(others) + 1)
            for i, other in enumerate(sorted(others, key=x.get), 1):
                ports[node, other] = round(x[node] + pitch * (i - (len(others) + 1) / 2))
    return ports


def path_of(chain, ports, middle):
    half = BOX_HEIGHT // 2
    path = f"M{ports[chain[0], chain[1]]} {middle[chain[0]] + half}"
    for upper, lower in itertools.pairwise(chain):
        begin, end, top, bottom = ports[upper, lower], ports[lower, upper], middle[upper] + half, middle[lower] - half
        bend = (top + bottom) // 2
        path += f"C{begin} {bend} {end} {bend} {end} {bottom}"
        if "@" in lower:
            path += f"V{middle[lower] + half}"
    return f'<path d="{path}"/>'


def box_of(module, x, y, lines):
    return (f'<g data-module="{module}" data-lines="{lines}">'
            f'<rect x="{x - BOX_WIDTH // 2}" y="{y - BOX_HEIGHT // 2}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="4"/>'
            f'<text x="{x}" y="{y - 2}">{module}</text><text class="lines" x="{x}" y="{y + 13}">{round(lines, -2):,} lines</text></g>')


def problem():
    """What is wrong with the picture; None if nothing is. Lines of modules may change a little."""
    includes, lines = read_modules()
    found = PICTURE.read_text() if PICTURE.exists() else ""
    drawn = {module: int(count) for module, count in LINES.findall(found)}
    near = drawn.keys() == includes.keys() and all(abs(drawn[m] - lines[m]) <= ALLOWED_DRIFT * lines[m] for m in includes)
    if near and found == draw(includes, drawn):
        return None
    return "docs/images/modules.svg: differs from the includes or the sizes of triplepoint/; run tools/module_picture.py"


if __name__ == "__main__":
    PICTURE.write_text(draw(*read_modules()))
