#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a module includes a header of a module it may not know about, or may know one it does not use.

The rules are the table below and nothing else; docs/architecture.md shows the same picture.
"""
import re
import sys

from repository import ROOT, files, name, report

MAY_INCLUDE = {
    "base": "",
    "spec": "base",
    "formats": "base spec run",
    "run": "base spec",
    "mark": "base",
    "workload": "base spec",
    "perf": "base spec",
    "power": "base spec",
    "thermal": "base spec",
    "clock": "base spec",
    "sim": "base spec run workload perf power thermal clock",
    "telemetry": "base spec run mark trace",
    "trace": "base spec run",
    "metrics": "base spec run workload trace",
    "calibrate": "base spec workload perf power thermal clock sim metrics",
    "search": "base spec run workload sim metrics",
    "advise": "base spec formats run workload sim metrics search",
    "report": "base spec run metrics advise",
    "tui": "base spec run telemetry metrics calibrate advise report",
    "study": "base spec formats run workload sim telemetry metrics calibrate search advise report tui",
    "cli": "*",
}
# Programs beside the library.
PROGRAMS = {"trainer": "base spec workload mark"}

INCLUDE = re.compile(r'\s*#\s*include\s+"(triplepoint|trainer)/([a-z_]+)')


def owner_of(file):
    """The module of a file, and what it may include."""
    parts = file.relative_to(ROOT).parts
    if parts[0] in PROGRAMS:
        return parts[0], PROGRAMS[parts[0]]
    if parts[0] != "triplepoint" or len(parts) < 3:
        return None
    return parts[1], MAY_INCLUDE.get(parts[1])


problems = []
used = {module: set() for module in MAY_INCLUDE}
for file in files(".h", ".cpp", ".cu"):
    owner = owner_of(file)
    if owner is None:
        continue
    module, allowed = owner
    if allowed is None:
        problems.append(f"{name(file)}: no module is called {module} (tools/check_layers.py lists them)")
        continue
    for number, line in enumerate(file.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        included = match[2] if match[1] == "triplepoint" else match[1]
        used.setdefault(module, set()).add(included)
        if included != module and allowed != "*" and included not in allowed.split():
            problems.append(f"{name(file)}:{number}: {module} must not include {included}; it may know {allowed or 'nothing'}")
for module, allowed in MAY_INCLUDE.items():
    for unused in sorted(set(allowed.split()) - used[module] - {"*"}):
        problems.append(f"tools/check_layers.py: {module} may include {unused}, and no file of it does; take it out of the table")
sys.exit(report(problems))
