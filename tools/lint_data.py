#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a number in data/ has no source.

Every value of a data/**/*.toml must be covered by a [[source]] entry: `keys` names dotted keys ("gpu.tdp", or "gpu.*" for all below),
`kind` is one of four, `cite` says where it comes from. Text that is no quantity (names, notes, references to other files) needs none.
A key in `keys` that names nothing is an error too, and so is a citation of one key that stands for different values in two files: what it says
of one cannot hold for the other. A data sheet may print many values, and a rule that says how to compute ("sum over the shape") gives many.
Studies and jobs are choices, not facts, and are left out.
"""
import re
import sys

from repository import ROOT, files, name, report

try:
    import tomllib
except ImportError:
    print("skipped: python 3.11 or newer is needed to read TOML")
    sys.exit(77)

KINDS = ("datasheet", "measured", "fitted", "assumed")
CHOICES = {"studies", "jobs"}
MOST_STACKS, MOST_FITTED = 10, 30  # software stacks, and numbers in them that were fitted to measured trainings
QUANTITY = re.compile(r"^[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?\s*[A-Za-zµ°%/]+[A-Za-z0-9/*]*$")


def leaves(value, key=""):
    """(dotted key, value) of all that is no table; tables in a list share the list's key."""
    if isinstance(value, dict):
        for part, below in value.items():
            yield from leaves(below, f"{key}.{part}" if key else part)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for below in value:
            yield from leaves(below, key)
    else:
        yield key, value


def is_number(value):
    if isinstance(value, list):
        return any(map(is_number, value))
    return not isinstance(value, bool) and (isinstance(value, (int, float)) or bool(QUANTITY.match(str(value))))


def numbers(data):
    """The dotted key of every number and quantity."""
    return {key for key, value in leaves(data) if is_number(value)}


def covers(pattern, key):
    if pattern.endswith("*"):
        return key.startswith(pattern[:-1])
    return key == pattern or key.startswith(pattern + ".")


def problems_of(file):
    data = tomllib.loads(file.read_text())
    sources = data.pop("source", [])
    data.pop("fit", None)  # the record of a fit
    keys = sorted(numbers(data))
    patterns = []
    for number, source in enumerate(sources, 1):
        where = f"{name(file)}: source {number}"
        if source.get("kind") not in KINDS:
            yield f"{where}: kind is {source.get('kind')!r}; it must be one of {', '.join(KINDS)}"
        if not str(source.get("cite", "")).strip():
            yield f"{where}: no cite; say where the numbers come from"
        if not source.get("keys"):
            yield f"{where}: no keys; name the numbers it is the source of"
        for pattern in source.get("keys", []):
            patterns.append(pattern)
            if not any(covers(pattern, key) for key, _ in leaves(data)):
                yield f"{where}: the key {pattern} names nothing in this file"
    for key in keys:
        if not any(covers(pattern, key) for pattern in patterns):
            yield f"{name(file)}: {key} has no source; add it to the keys of a [[source]]"


RULES = ("sum over the shape",)


def cited_values(data, sources):
    """(citation, key) and the value that it stands for in this file; of tables in a list, all values."""
    values = {}
    for key, value in leaves(data):
        values.setdefault(key, []).append(value)
    for source in sources:
        cite = str(source.get("cite", ""))
        if source.get("kind") == "datasheet" or cite.startswith(RULES):
            continue
        for key, value in values.items():
            if any(covers(pattern, key) for pattern in source.get("keys", []) if not pattern.endswith("*")):
                yield (cite, key), ", ".join(map(str, value))


def fitted_numbers(file):
    """Numbers of a stack that were fitted."""
    data = tomllib.loads(file.read_text())
    patterns = [key for source in data.pop("source", []) if source.get("kind") == "fitted" for key in source.get("keys", [])]
    return sum(any(covers(pattern, key) for pattern in patterns) for key in numbers(data))


problems = []
cited = {}  # (citation, key): value, file
stacks, fitted = 0, 0
for file in files(".toml"):
    parts = file.relative_to(ROOT).parts
    if parts[0] != "data" or parts[1] in CHOICES:
        continue
    try:
        problems += problems_of(file)
        data = tomllib.loads(file.read_text())
        for place, value in cited_values(data, data.pop("source", [])):
            other, where = cited.setdefault(place, (value, name(file)))
            if other != value:
                problems.append(f"{name(file)}: {place[1]} is {value} by a citation that gives {other} in {where}: \"{place[0]}\"; say what is particular to each")
        if parts[1] == "stacks":
            stacks, fitted = stacks + 1, fitted + fitted_numbers(file)
    except tomllib.TOMLDecodeError as problem:
        problems.append(f"{name(file)}: {problem}")
print(f"{stacks} software stacks with {fitted} fitted numbers (at most {MOST_STACKS} and {MOST_FITTED})")
if stacks > MOST_STACKS or fitted > MOST_FITTED:
    problems.append("data/stacks: too many stacks or fitted numbers; a stack says what software does, what is left over is the interval")
sys.exit(report(problems))
