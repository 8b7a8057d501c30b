#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of README.md and docs/start.md, and of guides those whose output is shown, on a terminal, each page's in an empty folder.
What a page shows of the output must be in it; names that other blocks use must exist.

    readme.py TRIPLEPOINT ROOT VERSION
    readme.py --script ROOT      prints README.md's commands, for a machine without Python (tools/try_package.sh)

The blocks that install (make, apt, tar, docker, pip) are run by .ci/run and `make try-package`; here their targets and files must have the right names.
"""
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile
import threading
import time

INSTALLS = ("apt ", "tar ", "docker ", "make ", "pip ")
PAGES = ("README.md", "docs/start.md")
GUIDES = ("docs/plan.md", "docs/heat-and-power.md", "docs/yours.md")  # these may name files of the repository
# Commands, and what is shown of their output: blocks of text, or the first column of a table of lines.
PART = re.compile(r"^```(sh|text)\n(.*?)^```|^\| line of the output \|.*?\n\n", re.S | re.M)
LONGEST = 300  # seconds


def interrupt_live(shell, done):
    """Ends `triplepoint snapshot --every 1s` as Ctrl-C does, and nothing else: a program that has taken its signals, not its shell."""
    while not done.wait(0.5):
        subprocess.run(["pkill", "-INT", "--older", "1", "-P", str(shell), "-f", "^triplepoint snapshot --every"], check=False)


def read_all(terminal):
    parts = []
    try:
        while data := os.read(terminal, 65536):
            parts.append(data)
    except OSError:  # the last process has closed its end
        pass
    return b"".join(parts).decode(errors="replace")


def run(block, folder, path):
    """Exit code and text of the block's commands; the first that fails ends it."""
    terminal, end = pty.openpty()
    process = subprocess.Popen(["sh", "-ec", "stty cols 250\n" + block], stdin=end, stdout=end, stderr=end, cwd=folder,
                               env={**os.environ, "PATH": path, "TERM": "xterm"})
    os.close(end)
    done = threading.Event()
    keys = threading.Thread(target=interrupt_live, args=(process.pid, done))
    keys.start()
    text = read_all(terminal)
    code = process.wait(LONGEST)
    done.set()
    keys.join()
    os.close(terminal)
    return code, text


def words_of(text):
    """Of each line, with those that go on indented by two, what stands between spaces; "..." stands for anything."""
    text = re.sub(r"\n  (?! )", " ", re.sub(r"\x1b\[[\d;?]*[A-Za-z]|\r", "", text))
    return [[word.rstrip(",;:.") for word in line.split() if word not in ("...", "[...]")] for line in text.splitlines()]


def stale_lines(shown, printed):
    """Of what a page shows, the lines whose words no printed line has in this order."""
    for words in words_of(shown):
        if not any(all(word in rest for word in words) for rest in map(iter, words_of(printed))):
            yield f"the page shows what is not printed: {' '.join(words)}"


def problems_of_page(page, folder, path, only_shown):
    parts, printed = list(PART.finditer(page.read_text())), ""
    for part, after in zip(parts, [*parts[1:], None]):
        kind, block = part.groups()
        if kind != "sh":
            yield from stale_lines(block or "\n".join(re.findall(r"^\| `(.*?)` \|", part[0], re.M)), printed)
        elif not block.startswith(INSTALLS) and not (only_shown and (not after or after[1] != "text")):
            begin = time.monotonic()
            code, printed = run(block, folder, path)
            print(f"{time.monotonic() - begin:6.2f} s  exit code {code}  {block.splitlines()[0]}")
            if code != 0:
                yield f"exit code {code}:\n{printed[-2000:]}"
            yield from (f"{file} was not written" for file in re.findall(r"-o (\S+)", block) if not (folder / file).exists())


def wrong_names(root, version):
    """Files of the pages that `make package` does not write, and targets of make that the Makefile lacks."""
    text = (root / "README.md").read_text() + (root / "docs/install.md").read_text()
    for file in re.findall(r"\btriplepoint[\w.-]*(?:\.deb|\.tar\.xz)", text):
        if version not in file:
            yield f"{file} is not of version {version}"
    targets = set(re.findall(r"^([a-z0-9-]+):", (root / "Makefile").read_text(), re.M))
    for target in re.findall(r"\bmake ([a-z0-9-]+)", text):
        if target not in targets:
            yield f"the Makefile has no target {target}"


def main(program, root, version):
    stand_ins = pathlib.Path(__file__).resolve().parent / "stand_ins"
    problems = list(wrong_names(root, version))
    path = f"{pathlib.Path(program).parent}:{stand_ins}:{os.environ['PATH']}"
    for page in PAGES + GUIDES:
        with tempfile.TemporaryDirectory() as folder:
            for name in ("validation", "tests") if page in GUIDES else ():
                (pathlib.Path(folder) / name).symlink_to(root / name)
            problems += problems_of_page(root / page, pathlib.Path(folder), path, page in GUIDES)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    if sys.argv[1] == "--script":
        readme = PART.findall((pathlib.Path(sys.argv[2]) / "README.md").read_text())
        print("\n".join(block for kind, block in readme if kind == "sh" and not block.startswith(INSTALLS)))
    else:
        sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]))
