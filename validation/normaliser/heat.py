# SPDX-License-Identifier: Apache-2.0
"""Temperatures and powers of boards over time and at one instant, and facts of data sheets."""
import re

from . import library
from .cells import Unreadable
from .plain import gpu, number, printed, row_id, text
from .plain import each

# The node in which a board was read, as thermal models know it.
NODES = {"a100-40gb": "dgx-a100-40gb", "a100-80gb": "dgx-a100", "h100": "hgx-h100", "h200": "hgx-h200", "b200": "dgx-b200", "b300": "dgx-b300", "gb200": "gb200-nvl72",
         "gb300": "gb300-nvl72", "mi250": "mi250", "mi250x": "frontier", "mi300x": "mi300x", "mi325x": "mi325x", "mi355x": "mi355x"}
# What the library says to a fact, by how the fact begins.
FACTS = (("TDP / TBP$", "tdp"), ("max SM clock$", "max_clock"), ("max sustained SM clock$", "max_clock"), ("shutdown temperature$", "governor.shutdown_temperature"),
         ("slowdown", "governor.slowdown_temperature"), ("max operating temperature$", "governor.target_temperature"))


def node_of(name):
    board = gpu(name)
    if board not in NODES:
        raise Unreadable(f"the library has no node of {board}")
    return NODES[board]


def transients(rows, first_line):
    """One reading a row. Traces named alike up to "-card" and a number are devices of one node."""
    out = []
    for index, cells in enumerate(rows):
        trace = text(cells, "trace_id")
        row = {"trace_id": trace, "node": re.sub(r"-card\d+$", "", trace), "t_s": printed(cells, "t_s") or "0", "power_w": printed(cells, "power_w"),
               "temperature_c": printed(cells, "temp_core_c")}
        try:
            row["cluster"] = node_of(text(cells, "gpu"))
        except Unreadable as reason:
            row = {"trace_id": trace, "row_id": f"line {first_line + index}", "skip": str(reason)}
        out.append(row)
    return out


def snapshot(cells, line):
    row = {"row_id": f"{text(cells, 'snapshot_id')} {text(cells, 'gpu_index')}", "snapshot_id": text(cells, "snapshot_id"), "gpu_index": printed(cells, "gpu_index") or "0",
           "power_w": printed(cells, "power_w"), "temperature_c": printed(cells, "temp_c")}
    if not row["power_w"] or not row["temperature_c"]:
        return row | {"skip": "temperature or power is a range or not stated"}
    try:
        row["cluster"] = node_of(text(cells, "gpu"))
    except Unreadable as reason:
        return row | {"skip": str(reason)}
    return row


def fact(cells, line):
    if text(cells, "trust") == "D":
        raise Unreadable("a mock value (trust D)")
    if number(cells, "value") is None:
        raise Unreadable("prose or a range, no number")
    name = gpu(text(cells, "gpu_or_system"))
    key = next((key for pattern, key in FACTS if re.match(pattern, text(cells, "quantity"))), None)
    if not key:
        raise Unreadable("no number of the library answers to it")
    return {"row_id": row_id(cells, line), "family": text(cells, "category"), "gpu": name, "key": key, "value": printed(cells, "value"), "unit": text(cells, "unit")}


def data_sheet(cells, line):
    raise Unreadable("a data sheet is an input of the models, not something they predict")


def paper_figure(cells, line):
    raise Unreadable("the paper's figures are scored by `triplepoint characterize paper/all` (validation/micro25)")


KINDS = (
    ({"trace_id", "gpu", "t_s", "power_w", "temp_core_c"}, transients),
    ({"snapshot_id", "gpu_index", "temp_c", "power_w", "load"}, each(snapshot)),
    ({"gpu_or_system", "category", "quantity", "value", "unit"}, each(fact)),
    ({"gpu", "form", "tdp_w"}, each(data_sheet)),
    ({"config_label", "variant", "total_s"}, each(paper_figure)),
    ({"config", "drawn_position", "total_s"}, each(paper_figure)),
    ({"config_label", "mbs", "norm_efficiency"}, each(paper_figure)),
    ({"panel", "config", "gpu0"}, each(paper_figure)),
    ({"path", "sweep", "figure_label"}, each(paper_figure)),
)
