# SPDX-License-Identifier: Apache-2.0
"""What the tables of benchmarks share: numbers as they are printed, GPUs by their names."""
import decimal
import re

from . import library
from .cells import Unreadable

NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def text(cells, *titles):
    """The first of these columns that says something."""
    return next((found for title in titles if (found := (cells.get(title) or "").strip())), "")


def number(cells, *titles):
    """The first number of these columns; a range or a word is none."""
    return next((float(found) for title in titles if NUMBER.fullmatch(found := text(cells, title))), None)


def printed(cells, *titles):
    """The same, as it is printed."""
    return next((found for title in titles if NUMBER.fullmatch(found := text(cells, title))), "")


def count(cells, title):
    return int(number(cells, title) or 0)


def scaled(shown, factor):
    """A printed number times a power of ten, without rounding."""
    return format(decimal.Decimal(shown) * factor, "f") if shown else ""


def board(name):
    """The board that a name means, whatever stands around it."""
    for known in library.rules("machines")["board"]:
        if re.search(known["pattern"], name, re.I):
            return known
    raise Unreadable(f"no GPU of the library is named in '{name[:60]}'")


def gpu(name):
    return board(name)["gpu"]


def row_id(cells, line):
    return text(cells, "row_id") or f"line {line}"


def cluster_keys(name, gpus):
    """The keys of a cluster cut to so many GPUs: whole nodes, or a part of one."""
    cluster = library.cluster(name)
    devices = min(cluster["gpus_per_node"], gpus)
    while gpus % devices:
        devices -= 1
    keys = {"cluster": name, "cluster.num_nodes": gpus // devices}
    if devices != cluster["gpus_per_node"]:
        keys["cluster.gpus_per_node"] = devices
        if cluster["scale_up"]["domain_size"] == cluster["gpus_per_node"]:
            keys["cluster.scale_up.domain_size"] = devices
    return keys


def skipped(cells, line, reason):
    return {"row_id": row_id(cells, line), "family": text(cells, "family"), "skip": str(reason)}


def each(read):
    """A reader of tables from a reader of rows: a row that it cannot read is kept with the reason."""
    def read_all(rows, first_line):
        out = []
        for index, cells in enumerate(rows):
            try:
                out.append(read(cells, first_line + index))
            except Unreadable as reason:
                out.append(skipped(cells, first_line + index, reason))
        return out
    return read_all
