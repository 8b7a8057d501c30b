#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts lines, files, flags, verbs and words; fails where there are more than tools/budget.toml allows, or a commit's subject is long.

Generated files (stubs of the Python package) and goldens do not count.
"""
import re
import subprocess
import sys
import tomllib

from repository import ROOT, files, name, report

TEST = re.compile(r"_test\.cpp$|_testing\.|(^|/)(tests|fuzz)/|^bench/")
FLAG = re.compile(r"^  (?:-\w, )?(--[a-z0-9-]+(?:, --[a-z0-9-]+)*)", re.M)
DOCS = re.compile(r"(docs/.*|README)\.md")
LAST_LONG = "b5aaa7c7"  # the last commit whose subject may be longer
LONGEST_SUBJECT = 72


def lines(paths):
    return sum(path.read_bytes().count(b"\n") for path in paths)


def counts():
    cpp = files(".c", ".cpp", ".h", ".cu")
    helps = sorted((ROOT / "tests/golden").glob("help-*.txt"))
    flags = {flag for page in helps for names in FLAG.findall(page.read_text()) for flag in names.split(", ")}
    return {
        "cpp_lines": lines(cpp),
        "cpp_lines_without_tests": lines(path for path in cpp if not TEST.search(name(path))),
        "cpp_files": len(cpp),
        "python_lines": lines(files(".py")),
        "typescript_lines": lines(files(".ts")),
        "long_flags": len(flags),
        "verbs": len(helps),
        "words_of_docs": sum(len(path.read_text().split()) for path in files(".md") if DOCS.fullmatch(name(path))),
    }


def long_subjects():
    """Nothing outside a git checkout, or in one without the history."""
    log = subprocess.run(["git", "log", "--format=%h %s", f"{LAST_LONG}..HEAD"], cwd=ROOT, capture_output=True, text=True)
    for line in log.stdout.splitlines():
        commit, subject = line.split(" ", 1)
        if len(subject) > LONGEST_SUBJECT:
            yield f'commit {commit}: a subject of {len(subject)} characters (reasons belong into the body); at most {LONGEST_SUBJECT}'


budget = tomllib.loads((ROOT / "tools/budget.toml").read_text())
problems = list(long_subjects())
for key, count in counts().items():
    wanted = budget["end_of_round"].get(key)
    print(f"{key.replace('_', ' '):24}{count:9,} of {budget[key]:9,}" + (f"; end of the round {wanted:9,}" if wanted else ""))
    if count > budget[key]:
        problems.append(f"{key} grew to {count:,}: remove something, or raise tools/budget.toml and say why in the commit's body")
sys.exit(report(problems))
