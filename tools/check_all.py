#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs all checks of the house, one make target after the other, and ends in a table: a night's work.

    tools/check_all.py [TARGET...]     those named, else all of TARGETS

What passed at the same state of the sources is not run again, so an interrupted night goes on where it was.
build/check-all/TARGET.log has what a target printed; the memory of what passed lies beside it.
"""
import hashlib
import json
import subprocess
import sys
import time

from repository import ROOT

TARGETS = {"lint": {}, "test": {}, "sanitize": {}, "threads": {}, "pages": {}, "test-explore": {}, "fuzz": {"FUZZ_SECONDS": "3600"},
           "tidy-all": {}, "benches": {}, "test-arm64": {}, "docs": {}, "try-package": {}}
FOLDER = ROOT / "build" / "check-all"


def state_of_sources():
    """A digest of what is committed and of what is not."""
    git = lambda *words: subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=True).stdout
    others = git("ls-files", "-z", "--others", "--exclude-standard").decode().split("\0")[:-1]
    parts = [git("rev-parse", "HEAD^{tree}"), git("diff", "HEAD"), *((ROOT / name).read_bytes() for name in others)]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def run(target, settings, state):
    """What is known of a target: its exit code and minutes."""
    memory, log = FOLDER / f"{target}.json", FOLDER / f"{target}.log"
    if memory.exists():
        known = json.loads(memory.read_text())
        if known["state"] == state and known["code"] == 0:
            return known
    print(f"{target}: running, see {log.relative_to(ROOT)}", flush=True)
    begin = time.monotonic()
    with log.open("w") as out:
        command = ["make", "-C", str(ROOT), target, *(f"{name}={value}" for name, value in settings.items())]
        code = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT).returncode
    known = {"state": state, "code": code, "minutes": (time.monotonic() - begin) / 60}
    memory.write_text(json.dumps(known))
    return known


def main(names):
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        sys.exit(f"check_all.py: {unknown[0]} is none of {', '.join(TARGETS)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    state = state_of_sources()
    rows = {name: run(name, TARGETS[name], state) for name in names or TARGETS}
    print(f"{'check':14}{'result':10}{'minutes':>8}")
    for name, row in rows.items():
        print(f"{name:14}{'passed' if row['code'] == 0 else 'FAILED':10}{row['minutes']:8.1f}")
    return any(row["code"] for row in rows.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
