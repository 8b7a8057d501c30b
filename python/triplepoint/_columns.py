# SPDX-License-Identifier: Apache-2.0
"""The numbers of a run by name: what their units are, and how a cell becomes a value."""
from . import _core

_TYPES = {"string": str, "integer": int, "number": float}
# Of signals over time, by the end of the name; the longest first.
_UNITS = (("_mhz", "MHz"), ("_bytes", "B"), ("_ns", "ns"), ("_s", "s"), ("_w", "W"), ("_c", "°C"), ("_j", "J"), ("_b", "B"))

_ALL = {name: (_TYPES[kind], unit, about) for name, kind, unit, about in _core.columns()}
# Every column of results.csv with what its documentation says.
COLUMNS = {name: about for name, (_, _, about) in _ALL.items()}


def unit_of(name):
    """The unit of a column, or of a signal whose name ends in it: "W" of power_instant_w; "" for counts, shares and texts."""
    if name in _ALL:
        return _ALL[name][1]
    return next((unit for end, unit in _UNITS if name.endswith(end)), "")


def type_of(name):
    """As annotations spell it."""
    return f"{_ALL[name][0].__name__} | None"


def read_cells(cells):
    """A row of results.csv as values by name; an empty cell is None."""
    return {name: _ALL[name][0](cell) if cell else None for name, cell in zip(_ALL, cells)}
