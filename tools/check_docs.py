#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a page links to what is not there or names a line of a file, or if the accuracy in README.md and docs/trust.md or the picture of the modules is stale."""
import re
import sys

import module_picture
import readme_accuracy
from repository import ROOT, files, name, report

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
HEADING = re.compile(r"^#+\s+(.*?)\s*$", re.M)
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
LINE_NUMBER = re.compile(r"\b[\w/]+\.(?:h|cpp|py|ts|cmake):\d+\b|\blines? \d+\b")


def anchors(text):
    """The anchors of a page's headings, as the common hosts of git repositories make them."""
    found = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower())
        found.add(plain.replace(" ", "-"))
    return found


def link_problem(page, text, target):
    path, _, anchor = target.partition("#")
    file = page if not path else (ROOT / path[1:] if path.startswith("/") else page.parent / path)
    if not file.exists():
        return f"there is no {target}"
    if anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
        return f"{path or 'this page'} has no heading for #{anchor}"
    return None


def problems_of(page):
    text = page.read_text()
    prose = FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
    for number, line in enumerate(prose.splitlines(), 1):
        for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z]+:", target):
                continue
            problem = link_problem(page, text, target)
            if problem:
                yield f"{name(page)}:{number}: {problem}"
        rotting = LINE_NUMBER.search(line)
        if rotting:
            yield f"{name(page)}:{number}: \"{rotting[0]}\" names a line (it moves); name the function or the heading"


problems = []
for page in files(".md"):
    problems += problems_of(page)
problems += readme_accuracy.problems()
problems += filter(None, [module_picture.problem()])
sys.exit(report(problems))
