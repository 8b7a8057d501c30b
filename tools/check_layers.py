#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a module includes a module that it may not, if the table allows what no file does, or if units of a module include
each other in a circle.

The rules are the table below and nothing else; docs/architecture.md shows the same picture. A unit is a header and the source
of its name.
"""
import graphlib
import re
import sys

from repository import ROOT, files, name, report

MAY_INCLUDE = {
    "base": "",
    "http": "base",
    "system": "base",
    "spec": "base",
    "formats": "base system spec store",
    "run": "base spec",
    "store": "base spec run",
    "mark": "base",
    "workload": "base spec",
    "perf": "base spec",
    "power": "base spec",
    "thermal": "base spec",
    "clock": "base spec",
    "sim": "base spec run workload perf power thermal clock",
    "telemetry": "base http system spec run store mark trace",
    "trace": "base spec run store",
    "metrics": "base spec run workload",
    "trace_report": "base spec run store trace metrics",
    "answers": "base spec run workload metrics",
    "learn": "base spec thermal sim metrics",
    "calibrate": "base spec workload perf power thermal clock sim metrics learn",
    "search": "base spec run workload sim metrics answers",
    "advise": "base spec formats run workload sim metrics answers search",
    "report": "base spec run sim metrics answers calibrate search advise",
    "flags": "base spec formats run workload sim metrics answers learn search",
    "tui": "base system spec run telemetry metrics answers flags",
    "app": "base http system spec formats run store workload sim telemetry trace metrics trace_report answers learn calibrate search advise report flags",
    "cli": "*",
}
# What predicts stands alone: nothing below it links a database, MPI, HTTP, YAML, sensors or a console, so that it also compiles for
# a browser.
CORE = "base spec run workload perf power thermal clock sim metrics search answers".split()
# Programs beside the library, and the module of the Python package.
PROGRAMS = {"trainer": "base spec workload mark",
            "python": "base system spec run store answers report tui app flags",
            "wasm": "base spec formats run store workload sim metrics answers report flags"}

INCLUDE = re.compile(r'^\s*#\s*include\s+"((triplepoint|trainer)/([a-z_]+)[^"]*)"')
NO_UNIT = re.compile(r"_(test|testing)\.(cpp|h)$")


def owner_of(file):
    """The module of a file, and what it may include."""
    parts = file.relative_to(ROOT).parts
    if parts[0] in PROGRAMS:
        return parts[0], PROGRAMS[parts[0]]
    if parts[0] != "triplepoint" or len(parts) < 3:
        return None
    return parts[1], MAY_INCLUDE.get(parts[1])


def unit_of(path):
    return path.rsplit(".", 1)[0]


def includes_of(file):
    """(line, path, module) of each include of ours."""
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match[1], match[3] if match[2] == "triplepoint" else match[2]


def outside_of_core():
    """What modules of the core may include and is not of the core; libraries that they link and no browser has."""
    for module in CORE:
        for other in sorted(set(MAY_INCLUDE[module].split()) - set(CORE)):
            yield f"tools/check_layers.py: {module} is of the core and may not include {other}"
        text = (ROOT / "triplepoint" / module / "CMakeLists.txt").read_text()
        for library in re.findall(r"SQLite::|PkgConfig::|ZLIB::|simdjson::|yaml-cpp|MPI::", text):
            yield f"triplepoint/{module}/CMakeLists.txt: the core links {library}"


def circle_of(arrows):
    """Units that include each other; the first circle found, or nothing."""
    try:
        graphlib.TopologicalSorter(arrows).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def problems_of_tree():
    problems, used, arrows = [*outside_of_core()], {}, {}
    for file in files(".h", ".cpp", ".cu"):
        owner = owner_of(file)
        if owner is None:
            continue
        module, allowed = owner
        if allowed is None:
            problems.append(f"{name(file)}: no module is called {module} (tools/check_layers.py lists them)")
            continue
        for number, path, included in includes_of(file):
            if included != module:
                used.setdefault(module, set()).add(included)
                if allowed != "*" and included not in allowed.split():
                    problems.append(f"{name(file)}:{number}: {module} must not include {included}; it may know {allowed or 'nothing'}")
            elif not NO_UNIT.search(name(file)) and unit_of(path) != unit_of(name(file)):
                arrows.setdefault(unit_of(name(file)), set()).add(unit_of(path))
    for module, allowed in (MAY_INCLUDE | PROGRAMS).items():
        for other in sorted(set(allowed.replace("*", "").split()) - used.get(module, set())):
            problems.append(f"tools/check_layers.py: {module} may include {other}, but no file of it does; take it out of the table")
    if circle := circle_of(arrows):
        problems.append(f"{' <- '.join(circle)}: these units include each other; move what they share into one of its own")
    return problems


if __name__ == "__main__":
    sys.exit(report(problems_of_tree()))
