#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a man page per command, and triplepoint.1, from the program's help.

    make_man.py TRIPLEPOINT FOLDER
"""
import pathlib
import subprocess
import sys

import command_help


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("^", "\\(ha").replace("~", "\\(ti")
    return "\\&" + text if text.startswith(".") else text


def heading(page, version, about):
    title = page.upper().replace("-", "\\-")
    return [f'.TH "{title}" "1" "" "{escaped(version)}" "Triplepoint"', ".nh", ".ad l",
            ".SH NAME", f"{escaped(page)} \\- {escaped(about.rstrip('.'))}"]


def code(lines):
    return [".PP", ".nf", ".RS 4", *(escaped(line.removeprefix("  ")) for line in lines), ".RE", ".fi"]


def entry(term, text):
    return [".TP", f"\\fB{escaped(term)}\\fR", escaped(text) or "\\&"]


def body(help_):
    lines = [".SH SYNOPSIS", escaped(help_.usage), ".SH DESCRIPTION", escaped(help_.about)]
    for is_code, text in help_.intro:
        lines += code(text) if is_code else [".PP", *map(escaped, text)]
    for title, options in help_.sections:
        lines.append(f'.SH "{escaped(title.upper())}"')
        for option in options:
            lines += entry(option.term, option.text)
    return lines


def command_page(program, version, command):
    help_ = command_help.parse(command_help.help_text(program, command))
    return [*heading(f"triplepoint-{command}", version, help_.about), *body(help_),
            ".SH SEE ALSO", ".BR triplepoint (1)"]


def overview(program, version, groups):
    about = command_help.help_text(program).splitlines()[0]
    lines = [*heading("triplepoint", version, about), ".SH SYNOPSIS", "triplepoint COMMAND [words and flags]"]
    for title, commands in groups:
        lines.append(f'.SH "{escaped(title.upper())}"')
        for command, text in commands:
            lines += [".TP", f".BR triplepoint\\-{command} (1)", escaped(text)]
    return lines + [".SH ENVIRONMENT", *entry("TRIPLEPOINT_DATA", "folder of models, GPUs and clusters to use instead of the installed one"),
                    ".SH EXIT STATUS", *entry("0", "done; also for jobs that do not fit in memory"),
                    *entry("1", "an input or the environment is wrong"), *entry("2", "the command line is wrong"),
                    *entry("130", "interrupted")]


def write(folder, page, lines):
    (folder / f"{page}.1").write_text("\n".join([".\\\" Made by tools/make_man.py from the program's help.", *lines]) + "\n")


def main(program, folder):
    folder.mkdir(parents=True, exist_ok=True)
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    groups = command_help.command_groups(program)
    write(folder, "triplepoint", overview(program, version, groups))
    for _, commands in groups:
        for command, _ in commands:
            write(folder, f"triplepoint-{command}", command_page(program, version, command))


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
