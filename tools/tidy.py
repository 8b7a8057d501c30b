#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy 14 over the C++ files of a configured build folder, in parallel.

    tools/tidy.py BUILD [FILE...]      all files, or those whose path contains one of the words
    tools/tidy.py BUILD --library      what users run: no tests, benches and fuzz targets (those take most of the time)
    tools/tidy.py BUILD --changed      of these, what changed since the commit in tools/tidy_base, at which all were clean

A file that was clean is read again only when it, a header of ours that it includes, or the rules have changed; the memory of it lies in BUILD/tidy.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from repository import ROOT

INCLUDE = re.compile(rb'^\s*#\s*include\s+"((?:triplepoint|trainer|python|fuzz|bench|tests)/[^"]+)"', re.M)
# GCC's own warning options mean nothing to clang, and what it warns about itself is not the matter here.
COMPILER = ["--extra-arg=-Wno-everything", "--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-error"]


def clang_tidy():
    for program in ("clang-tidy-14", "clang-tidy"):
        if shutil.which(program):
            said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
            if re.search(r"version 14\.", said):
                return program
    return None


def sources_below(file, seen):
    """The file and all headers of ours it includes, directly or not."""
    if file in seen or not file.exists():
        return
    seen.add(file)
    for included in INCLUDE.findall(file.read_bytes()):
        sources_below(ROOT / included.decode(), seen)


def fingerprint(file):
    seen = set()
    sources_below(file, seen)
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for each in sorted(seen):
        digest.update(str(each).encode() + b"\0" + each.read_bytes() + b"\0")
    return digest.hexdigest()


def check(program, build, file):
    """What clang-tidy objects to; empty if nothing."""
    stamp = build / "tidy" / file.relative_to(ROOT).as_posix().replace("/", "-")
    print_now = fingerprint(file)
    if stamp.exists() and stamp.read_text() == print_now:
        return ""
    result = subprocess.run([program, "-p", str(build), "--quiet", *COMPILER, str(file)], capture_output=True, text=True)
    if result.returncode == 0:
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(print_now)
        return ""
    return result.stdout or result.stderr


def changed_files():
    """Sources that differ from the commit named in tools/tidy_base, or whose header does; None: git cannot say."""
    base = (ROOT / "tools/tidy_base").read_text().split()[0]
    said = subprocess.run(["git", "-C", str(ROOT), "diff", "--name-only", base], capture_output=True, text=True)
    if said.returncode != 0:
        print(f"git does not know commit {base}: all files are read")
        return None
    changed = {ROOT / line for line in said.stdout.splitlines()}
    if ROOT / ".clang-tidy" in changed:
        return None
    return changed | {file.with_suffix(".cpp") for file in changed}


def is_check(file):
    return file.stem.endswith("_test") or file.parts[0] in ("tests", "bench", "fuzz", "tools")


def main(build, words):
    changed = changed_files() if "--changed" in words else None
    library = "--library" in words or "--changed" in words
    words = [word for word in words if not word.startswith("--")]
    program = clang_tidy()
    if program is None:
        print("skipped: clang-tidy 14 is not installed (apt install clang-tidy-14)")
        return 0
    commands = json.loads((build / "compile_commands.json").read_text())
    # The rules are C++'s; the one C file (mark/mark.c) has a compiler's warnings and the sanitizers.
    listed = {file for file in (pathlib.Path(command["file"]) for command in commands) if file.suffix == ".cpp"}
    chosen = sorted(f for f in listed if f.exists() and f.is_relative_to(ROOT) and not f.is_relative_to(build)
                    and (not words or any(word in f.as_posix() for word in words))
                    and not (library and is_check(f.relative_to(ROOT))) and (changed is None or f in changed))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, objections in zip(chosen, pool.map(lambda f: check(program, build, f), chosen)):
            if objections:
                failed += 1
                print(f"{file.relative_to(ROOT)}:\n{objections}", flush=True)
    print(f"clang-tidy: {len(chosen)} files, {failed} with objections")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]))
