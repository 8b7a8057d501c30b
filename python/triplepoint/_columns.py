# SPDX-License-Identifier: Apache-2.0
"""The numbers of a run by name: what their units are, and how a cell becomes a value."""
from . import _core

_TEXTS = frozenset(("name", "verdict", "origin", "fidelity", "model", "cluster", "stack", "task", "sharding", "recompute",
                    "schedule", "precision"))
# By the end of the name; the longest first.
_UNITS = (("samples_per_s_mj", "samples/(s MJ)"), ("tokens_per_s_per_gpu", "tokens/s"), ("tokens_per_s", "tokens/s"),
          ("tflops_per_gpu", "TFLOP/s"), ("joules_per_token", "J/token"), ("_gib", "GiB"), ("_mhz", "MHz"), ("_bytes", "B"),
          ("_ns", "ns"), ("_s", "s"), ("_w", "W"), ("_c", "°C"), ("_j", "J"), ("_b", "B"))


def unit_of(name):
    """The unit that a name ends in: "W" of power_mean_w; "" for counts, shares and texts."""
    return next((unit for end, unit in _UNITS if name.endswith(end)), "")


def _is_count(name):
    return name == "num_gpus" or name.endswith("_size")


def type_of(name):
    """As annotations spell it."""
    return "str | None" if name in _TEXTS else "int | None" if _is_count(name) else "float | None"


def _about(name):
    unit = unit_of(name)
    return f"{name.replace('_', ' ')}" + (f", in {unit}" if unit else "")


# Every column of results.csv with what its documentation says.
COLUMNS = {name: _about(name) for name in _core.columns()}
_READERS = [(name, str if name in _TEXTS else int if _is_count(name) else float) for name in COLUMNS]


def read_cells(cells):
    """A row of results.csv as values by name; an empty cell is None."""
    return {name: reader(cell) if cell else None for (name, reader), cell in zip(_READERS, cells)}
