#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes python/triplepoint/__init__.pyi: what editors and type checkers know of the package. Flags and columns come from the built package,
whose help has them too.

    make_stubs.py build/release/python            writes it
    make_stubs.py build/release/python --check    fails where it is stale, or lacks a public name
"""
import ast
import inspect
import pathlib
import sys
import textwrap

TARGET = pathlib.Path(__file__).resolve().parent.parent / "python/triplepoint/__init__.pyi"

TEXT = '''# SPDX-License-Identifier: Apache-2.0
# Written by tools/make_stubs.py from the help of the flags; do not edit.
import os
from contextlib import AbstractContextManager
from typing import Any, Callable, ContextManager, Iterator, Literal, Sequence, TypeVar

_File = str | os.PathLike[str]
_F = TypeVar("_F", bound=Callable[..., Any])

class Error(Exception):
    """What went wrong, why, and what to try: the sentence that the command line prints."""

class Job:
    """{Job}"""
    def __init__(self, file: _File | None = None, /, *, {job}) -> None: ...
    def replace(self, *, {job}) -> Job:
        """{Job.replace}"""
    name: str
    model: str
    cluster: str
    num_gpus: int
    notes: list[str]
    def to_toml(self) -> str:
        """{Job.to_toml}"""
    def save(self, file: _File) -> None:
        """{Job.save}"""

class Series:
    """{Series}"""
    signal: str
    device: int
    of_node: bool
    unit: str
    times_ns: Any
    times_s: Any
    values: Any
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: Any) -> Any: ...

class Run:
    """{Run}"""
{columns}
    results: dict[str, Any]
    step_time_interval_s: tuple[float, float] | None
    job: Job | None
    notes: list[str]
    findings: list[str]
    signals: list[tuple[str, int, bool]]
    ranks: list[int]
    def series(self, signal: str, device: int = 0, of_node: bool = False) -> Series:
        """{Run.series}"""
    def timeline(self, rank: int | None = 0) -> Any:
        """{Run.timeline}"""
    def to_dict(self) -> dict[str, Any]:
        """{Run.to_dict}"""
    def save(self, file: _File) -> None:
        """{Run.save}"""
    def save_page(self, file: _File) -> None:
        """{Run.save_page}"""
    def save_perfetto(self, file: _File) -> None:
        """{Run.save_perfetto}"""

def simulate(job: Job | _File, /, *, {simulate}) -> Run:
    """{simulate.doc}"""
def read(*files: _File) -> Run:
    """{read}"""
def names(kind: Literal["models", "gpus", "clusters", "stacks", "optimizers", "records"]) -> list[str]:
    """{names}"""
def version() -> str:
    """{version}"""

class Sweep:
    """{Sweep}"""
    def to_dict(self) -> dict[str, Any]:
        """{Sweep.to_dict}"""
    def to_pandas(self) -> Any:
        """{Sweep.to_pandas}"""
    def job(self, index: int) -> Job:
        """{Sweep.job}"""
    def run(self, index: int) -> Run:
        """{Sweep.run}"""
    def best(self, by: str = "step_time_s") -> dict[str, Any] | None:
        """{Sweep.best}"""
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[dict[str, Any]]: ...
    def __getitem__(self, index: int) -> dict[str, Any]: ...

def sweep(job: Job | _File, /, *, threads: int | None = None, progress: bool | None = None, {sweep}) -> Sweep:
    """{sweep.doc}"""

class Plan:
    """{Plan}"""
    job: Job
    def to_dict(self) -> dict[str, Any]:
        """{Plan.to_dict}"""
    def __getattr__(self, name: str) -> Any: ...

class Plans:
    """{Plans}"""
    results: dict[str, Any]
    best: Plan
    def to_dict(self) -> dict[str, Any]:
        """{Plans.to_dict}"""
    def to_pandas(self) -> Any:
        """{Plans.to_pandas}"""
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Plan]: ...
    def __getitem__(self, index: int) -> Plan: ...

def plan(job: Job | _File, /, *, progress: bool | None = None, {plan}) -> Plans:
    """{plan.doc}"""

class Comparison:
    """{Comparison}"""
    sentences: list[str]
    def to_dict(self) -> dict[str, Any]:
        """{Comparison.to_dict}"""
    def save_page(self, file: _File) -> None:
        """{Comparison.save_page}"""

def compare(*runs: Run | _File, names: Sequence[str] | None = None) -> Comparison:
    """{compare}"""

def calibrate(*files: _File, output: _File, job: _File | None = None, threads: int | None = None) -> dict[str, Any]:
    """{calibrate}"""

class record(AbstractContextManager[record]):
    """{record}"""
    def __init__(self, file: _File | None = None, /, *, {record.flags}) -> None: ...
    file: str | None
    run: Run
    def __enter__(self) -> record: ...
    def __exit__(self, *exception: object) -> bool: ...

class _Block(ContextManager[Any]):
    bytes: float | None
    flops: float | None
    def __call__(self, function: _F) -> _F: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *exception: object) -> bool: ...

def marking() -> bool:
    """{marking}"""
def now() -> int:
    """{now}"""
def step(number: int | None = None) -> _Block:
    """{step}"""
def step_begin(number: int | None = None) -> None: ...
def step_end(number: int | None = None) -> None: ...
def region(name: str) -> _Block:
    """{region}"""
def region_begin(name: str) -> None: ...
def region_end(name: str | None = None) -> None: ...
def span(kind: str, group: str | None = None, bytes: float | None = None, flops: float | None = None) -> _Block:
    """{span}"""
def value(name: str, number: float) -> None:
    """{value}"""
'''


def of_flags(*all_flags):
    """Keyword arguments with their types; a job may be given to record() as an object."""
    return ", ".join(f"{flag.name}: {flag.type} | None = None" for flags in all_flags for flag in flags.all)


def of_sweep(*all_flags):
    """The same, of which each may be a list of values."""
    return ", ".join(f"{flag.name}: {flag.type} | Sequence[{flag.type}] | None = None" for flags in all_flags for flag in flags.all)


def of_columns(columns, type_of):
    return "\n".join(f"    {name}: {type_of(name)}" for name in columns)


def document(thing, indent):
    """A docstring as it stands in the stub."""
    text = inspect.getdoc(thing)
    return textwrap.indent(text, " " * indent).strip() + ("\n" + " " * indent if "\n" in text else "")


def parts(tp):
    from triplepoint import _columns, _many, _predict, _record
    values = {"{job}": of_flags(_predict._job_flags), "{simulate}": of_flags(_predict._simulation_flags),
              "{plan}": of_flags(_many._plan_flags), "{sweep}": of_sweep(_predict._job_flags, _predict._simulation_flags),
              "{record.flags}": of_flags(_record._record_flags).replace("job: str", "job: Job | str"),
              "{columns}": of_columns(_columns.COLUMNS, _columns.type_of)}
    for name in ("simulate", "sweep", "plan"):
        values[f"{{{name}.doc}}"] = document(getattr(tp, name), 4)
    for name in ("Job", "Series", "Run", "read", "names", "version", "Sweep", "Plan", "Plans", "Comparison", "compare", "calibrate", "record",
                 "marking", "now", "step", "region", "span", "value"):
        thing = getattr(tp, name)
        values[f"{{{name}}}"] = document(thing, 4)
        for method in dir(thing) if isinstance(thing, type) else ():
            if not method.startswith("_") and getattr(thing, method).__doc__:
                values[f"{{{name}.{method}}}"] = document(getattr(thing, method), 8)
    return values


def stub(tp):
    text = TEXT
    for mark, value in parts(tp).items():
        text = text.replace(mark, value.replace("\\", "\\\\"))
    return text


def missing_names(tp, text):
    """Public names of the package that the stub lacks."""
    tree = {node.name: node for node in ast.parse(text).body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    for name in tp.__all__:
        if name not in tree:
            yield name
        elif isinstance(getattr(tp, name), type) and name != "Error":
            has = {getattr(node, "name", None) or node.target.id for node in tree[name].body if isinstance(node, (ast.FunctionDef, ast.AnnAssign))}
            yield from (f"{name}.{one}" for one in dir(getattr(tp, name)) if not one.startswith("_") and one not in has)


def main(folder, *options):
    sys.path.insert(0, folder)
    import triplepoint as tp
    text = stub(tp)
    missing = list(missing_names(tp, text))
    if missing:
        sys.exit(f"tools/make_stubs.py: {', '.join(missing)} missing in its text; add them")
    if "--check" not in options:
        TARGET.write_text(text, encoding="utf-8")
    elif not TARGET.exists() or TARGET.read_text(encoding="utf-8") != text:
        sys.exit(f"{TARGET.name} is stale; run tools/make_stubs.py {folder}")


if __name__ == "__main__":
    main(*sys.argv[1:])
