#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of README.md and docs/start.md on a terminal, each page's in an empty folder, and checks the names that other blocks use.

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

BLOCK = re.compile(r"^```sh\n(.*?)^```", re.S | re.M)
INSTALLS = ("apt ", "tar ", "docker ", "make ", "pip ")
PAGES = ("README.md", "docs/start.md")
LONGEST = 300  # seconds


def runnable(page):
    return [block for block in BLOCK.findall(page.read_text()) if not block.startswith(INSTALLS)]


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
    process = subprocess.Popen(["sh", "-ec", block], stdin=end, stdout=end, stderr=end, cwd=folder,
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


def written_files(block):
    return re.findall(r"-o (\S+)", block)


def problems_of(block, folder, path):
    begin = time.monotonic()
    code, text = run(block, folder, path)
    print(f"{time.monotonic() - begin:6.2f} s  exit code {code}  {block.splitlines()[0]}")
    if code != 0:
        yield f"exit code {code}:\n{text[-2000:]}"
    for file in written_files(block):
        if not (folder / file).exists():
            yield f"{file} was not written"


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
    for page in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            for block in runnable(root / page):
                problems += problems_of(block, pathlib.Path(folder), path)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    if sys.argv[1] == "--script":
        print("\n".join(runnable(pathlib.Path(sys.argv[2]) / "README.md")))
    else:
        sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]))
