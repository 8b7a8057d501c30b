#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a source file lacks its licence line, a header its guard, a test has a name ctest cannot carry, or a comment names a file
that is not there."""
import re
import sys

from repository import files, name, report

LICENCE = "SPDX-License-Identifier: Apache-2.0"
CODE = {".h", ".cpp", ".cu", ".py", ".sh", ".ts", ".mjs", ".css", ".cmake", ".toml"}
TEST_NAME = re.compile(r'^\s*TEST_CASE(?:_FIXTURE|_TEMPLATE)?\([^"]*((?:"(?:[^"\\]|\\.)*"\s*)+)', re.M)
# ctest and doctest's filters give these a meaning of their own.
UNFIT = re.compile(r'[;*\[\]"\\]')

NAMED_FILE = re.compile(r'(?<![\w<".-])([a-z_0-9]+\.(?:h|cpp))\b')
FILES = {file.name for file in files(".h", ".cpp")}
FOREIGN = {"nvml.h", "rocm_smi.h", "kgd_pp_interface.h"}  # headers of drivers, cited as sources


def comments(text):
    for number, line in enumerate(text.splitlines(), 1):
        if "//" in line:
            yield number, line.split("//", 1)[1]


def test_names(text):
    for found in TEST_NAME.finditer(text):
        parts = re.findall(r'"((?:[^"\\]|\\.)*)"', found[1])
        yield text.count("\n", 0, found.start()) + 1, "".join(parts)


def problems_of(file, text, seen):
    head = "\n".join(text.splitlines()[:4])
    if (file.suffix in CODE or file.name == "CMakeLists.txt") and LICENCE not in head:
        yield f"{name(file)}: no licence line; put \"{LICENCE}\" into a comment at the top"
    if file.suffix == ".h" and "#pragma once" not in text:
        yield f"{name(file)}: no #pragma once"
    if file.suffix in (".h", ".cpp"):
        for number, comment in comments(text):
            for other in set(NAMED_FILE.findall(comment)) - FILES - FOREIGN:
                yield f"{name(file)}:{number}: the comment names {other}, which is not there; name the file as it is called now"
    if not file.name.endswith("_test.cpp"):
        return
    for line, title in test_names(text):
        if UNFIT.search(title):
            yield f"{name(file)}:{line}: the test name has one of ; * [ ] \" \\ in it (ctest could not run it)"
        if (file.parent, title) in seen:
            yield f"{name(file)}:{line}: a test of this folder already has this name: {title}"
        seen.add((file.parent, title))


problems, seen = [], set()
for file in files():
    if file.suffix in CODE | {".txt"}:
        problems += problems_of(file, file.read_text(errors="replace"), seen)
sys.exit(report(problems))
