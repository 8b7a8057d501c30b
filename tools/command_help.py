# SPDX-License-Identifier: Apache-2.0
"""The program's help as data: what man pages and the command reference are made from."""
import dataclasses
import re
import subprocess

COMMAND = re.compile(r"^  ([a-z]+)  +(\S.*)$")
OPTION = re.compile(r"^  (\S.*?)(?:  +(\S.*))?$")
DESCRIPTION_INDENT = " " * 10  # options begin at column 2, descriptions further right
TITLE = re.compile(r"^\S.*:$")


@dataclasses.dataclass
class Option:
    term: str
    text: str


@dataclasses.dataclass
class Help:
    about: str
    usage: str
    intro: list  # (is code, lines)
    sections: list  # (title, [Option])


def help_text(program, *command):
    return subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True).stdout


def command_groups(program):
    """[(title, [(command, about)])] in the order of the program's help."""
    groups = []
    for line in help_text(program).splitlines():
        found = COMMAND.match(line)
        if TITLE.match(line):
            groups.append((line[:-1], []))
        elif found and groups:
            groups[-1][1].append((found[1], found[2]))
    return [group for group in groups if group[1]]


def blocks(lines):
    """Paragraphs and examples (indented lines), separated by empty lines."""
    found = []
    for line in lines:
        code = line.startswith("  ")
        if not line:
            found.append(None)
        elif found and found[-1] and found[-1][0] == code:
            found[-1][1].append(line)
        else:
            found.append((code, [line]))
    return [block for block in found if block]


def options(lines):
    found = []
    for line in filter(None, lines):
        if line.startswith(DESCRIPTION_INDENT):
            found[-1].text = f"{found[-1].text} {line.strip()}".strip()
        else:
            term, text = OPTION.match(line).groups()
            found.append(Option(term, text or ""))
    return found


def parse(text):
    about, _, usage, *rest = text.splitlines()
    begins = [number for number, line in enumerate(rest) if TITLE.match(line)] + [len(rest)]
    sections = [(rest[begin][:-1], options(rest[begin + 1:end])) for begin, end in zip(begins, begins[1:])]
    return Help(about, usage.removeprefix("usage: "), blocks(rest[:begins[0]]), sections)
