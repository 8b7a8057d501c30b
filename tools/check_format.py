#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a C++ file is not as clang-format 14 writes it; --fix rewrites the files.

Other versions format differently, so without this one the check is skipped (exit code 77).
"""
import re
import shutil
import subprocess
import sys

from repository import files

VERSION = 14
SKIPPED = 77


def clang_format():
    for program in (f"clang-format-{VERSION}", "clang-format"):
        if shutil.which(program):
            said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
            if re.search(rf"version {VERSION}\.", said):
                return program
    return None


program = clang_format()
if program is None:
    print(f"skipped: clang-format {VERSION} is not installed (apt install clang-format-{VERSION})")
    sys.exit(SKIPPED)

sources = [str(f) for f in files(".h", ".cpp", ".cu")]
if "--fix" in sys.argv:
    sys.exit(subprocess.run([program, "-i", *sources]).returncode)

result = subprocess.run([program, "--dry-run", "-Werror", *sources], capture_output=True, text=True)
unclean = sorted(set(re.findall(r"^(.*?):\d+:\d+: error", result.stderr, re.M)))
for file in unclean:
    print(f"{file}: not formatted; run make format")
sys.exit(bool(unclean) or result.returncode)
