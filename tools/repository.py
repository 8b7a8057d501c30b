# SPDX-License-Identifier: Apache-2.0
"""What the checking tools share: which files are ours."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILT = {"build", "node_modules", "dist", "__pycache__"}


def files(*suffixes):
    """Our files with these suffixes (all, if none are given), sorted; what git ignores is not ours."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:
        found = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:  # not a git checkout: a source archive
        found = [pathlib.Path(folder) / name for folder, below, names in os.walk(ROOT)
                 if not below.sort() and not BUILT & set(pathlib.Path(folder).relative_to(ROOT).parts) for name in names]
    return sorted(f for f in set(found) if f.is_file() and (not suffixes or f.suffix in suffixes))


def name(file):
    return file.relative_to(ROOT).as_posix()


def report(problems):
    """Prints the problems; the exit code that belongs to them."""
    for problem in problems:
        print(problem)
    return 1 if problems else 0
