#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every command line that README.md and docs/ show uses verbs and flags that the program has.

    documented.py TRIPLEPOINT ROOT
"""
import functools
import pathlib
import re
import shlex
import subprocess
import sys

COMMAND = re.compile(r"(?:^|[\s$(])triplepoint ((?:[^|;&>#`)]|\"[^\"]*\")*)")


def code_of(text):
    """The text's code: blocks line by line, with continued lines joined, and spans."""
    blocks = re.findall(r"^```(?:sh|bash|console)\n(.*?)^```", text, re.S | re.M)
    for block in blocks:
        yield from block.replace("\\\n", " ").splitlines()
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))


def words_of(command):
    try:
        return shlex.split(command.split(" -- ")[0])
    except ValueError:  # a quote that is not closed: prose
        return []


class Program:
    def __init__(self, path):
        self.path = path
        self.verbs = set(re.findall(r"^  ([a-z]+)  ", self.help_of(), re.M))

    @functools.cache
    def help_of(self, *verb):
        return subprocess.run([self.path, *verb, "--help"], capture_output=True, text=True, check=True).stdout

    def flags_of(self, verb):
        return set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", self.help_of(verb))) | {"--help"}


def objections(program, command):
    words = words_of(command)
    if not words or not re.fullmatch(r"[a-z]+", words[0]):
        return
    if words[0] not in program.verbs:
        yield f"no verb {words[0]}"
        return
    for word in words[1:]:
        flag = word.split("=")[0]
        if re.fullmatch(r"--?[a-z][a-z0-9-]*", flag) and flag not in program.flags_of(words[0]):
            yield f"{words[0]} has no {flag}"


def main(path, root):
    program = Program(path)
    seen = wrong = 0
    for page in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        for line in code_of(page.read_text()):
            for command in COMMAND.findall(line):
                seen += 1
                for what in objections(program, command):
                    wrong += 1
                    print(f"{page.relative_to(root)}: {what}: triplepoint {command.strip()}")
    print(f"{seen} command lines, {wrong} objections")
    return 1 if wrong or seen < 100 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2])))
