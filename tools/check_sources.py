#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a source file lacks its licence line, a header its guard, a test has a name ctest cannot carry, or a comment names a file
that is not there."""
import itertools
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
FOREIGN = {"nvml.h", "kgd_pp_interface.h"}  # headers of drivers, cited as sources


# Calls of std::filesystem that throw: without an error code, and not one of the helpers of base/files.h.
THROWING = re.compile(r"(?:std::filesystem|fs)::(exists|is_directory|is_regular_file|is_symlink|file_size|absolute|canonical|"
                      r"weakly_canonical|equivalent|create_directory|create_directories|remove|remove_all|last_write_time|"
                      r"read_symlink|copy_file|rename|current_path|temp_directory_path|status)\(")


def arguments_of(text, begin):
    """How many arguments a call has whose parenthesis opens before `begin`."""
    depth, commas, end = 1, 0, begin
    while depth > 0:
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(text[end], 0)
        commas += depth == 1 and text[end] == ","
        end += 1
    return commas + 1 if text[begin:end - 1].strip() else 0


def throwing_calls(text):
    usual = {"equivalent": 2, "rename": 2, "copy_file": 2, "current_path": 0, "temp_directory_path": 0}
    for found in THROWING.finditer(text):
        if not re.match(r"std::filesystem::symlink_status|fs::symlink_status", text[found.end():]) and arguments_of(text, found.end()) <= usual.get(found[1], 1):
            yield text.count("\n", 0, found.start()) + 1, found[1]


NAMESPACE_BEGIN = re.compile(r"^\s*(?:inline )?namespace[^;{=]*\{", re.M)
NAMESPACE_END = re.compile(r"^\}  // namespace", re.M)


BINDING = re.compile(r"^( *)(for )?.*auto&{0,2} \[([\w, ]+)\]")
MESSAGE = re.compile(r"\b(?:CAPTURE|INFO|[A-Z]+_MESSAGE)\((.*)\);")


def captured_bindings(lines):
    """Names of structured bindings that doctest's messages capture, which clang before version 16 does not compile."""
    for number, line in enumerate(lines, 1):
        if found := BINDING.match(line):
            depth = len(found[1]) + bool(found[2])
            inside = itertools.takewhile(lambda later: not later or len(later) - len(later.lstrip()) >= depth, lines[number:])
            for offset, message in enumerate(map(MESSAGE.search, inside), 1):
                shown = re.sub(r'"[^"]*"', "", message[1]) if message else ""
                yield from ((number + offset, each) for each in found[3].split(", ") if re.search(rf"(?<![\w.>]){each}\b", shown))


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
    if file.suffix in (".h", ".cpp", ".cu") and len(NAMESPACE_BEGIN.findall(text)) < len(NAMESPACE_END.findall(text)):
        yield f"{name(file)}: more ends of namespaces than beginnings; a function's brace is labelled as one"
    if file.suffix in (".h", ".cpp"):
        for number, comment in comments(text):
            for other in set(NAMED_FILE.findall(comment)) - FILES - FOREIGN:
                yield f"{name(file)}:{number}: the comment names {other}, which is not there; name the file as it is called now"
    if file.suffix in (".h", ".cpp") and not re.search(r"test|scratch_folder|^(bench|fuzz)/", name(file)):
        for line, call in throwing_calls(text):
            yield f"{name(file)}:{line}: std::filesystem::{call} throws; give it an error code, or use base/files.h"
    if not file.name.endswith("_test.cpp"):
        return
    for line, captured in captured_bindings(text.splitlines()):
        yield f"{name(file)}:{line}: the message captures the structured binding {captured} (clang 14 cannot); name its value before"
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
