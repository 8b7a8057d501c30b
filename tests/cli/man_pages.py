#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every command has a man page that names each of its flags, and groff and mandoc (where installed) find no error in it.

    man_pages.py TRIPLEPOINT ROOT
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FLAG = re.compile(r"(?<![\w-])--?[a-z][a-z0-9-]*")
FORMATTERS = {"groff": ["groff", "-man", "-ww", "-Tutf8"], "mandoc": ["mandoc", "-Tlint", "-Wwarning"]}


def missing_flags(help_text, page):
    return sorted(set(FLAG.findall(help_text)) - set(FLAG.findall(re.sub(r"\\f[BR]", "", page.read_text()).replace("\\-", "-"))))


def formatter_messages(page):
    for name, command in FORMATTERS.items():
        if shutil.which(name):
            said = subprocess.run([*command, page], capture_output=True, text=True)
            text = said.stderr + (said.stdout if name == "mandoc" else "")
            yield from (line for line in text.splitlines() if "missing date" not in line)


def main(program, root):
    sys.path.insert(0, str(root / "tools"))
    import command_help
    commands = [command for _, group in command_help.command_groups(program) for command, _ in group]
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, root / "tools/make_man.py", program, folder], check=True)
        for command in commands:
            page = pathlib.Path(folder) / f"triplepoint-{command}.1"
            problems += [f"{page.name} lacks {flag}" for flag in missing_flags(command_help.help_text(program, command), page)]
        for page in sorted(pathlib.Path(folder).glob("*.1")):
            problems += formatter_messages(page)
    print("\n".join(problems) or f"{len(commands)} commands, no objection")
    return 1 if problems or len(commands) < 20 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2])))
