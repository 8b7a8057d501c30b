# SPDX-License-Identifier: Apache-2.0
"""Simulates the references of the standard suites anew: [[score.reference]] of data/studies/suite/*.toml.

They are predictions, so they follow the model and its data: a reference that is not what the
program computes today would not score 1 against itself.

usage: python3 lab/suite_references.py PROGRAM
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

SUITES = pathlib.Path(__file__).resolve().parent.parent / "data/studies/suite"


def jobs(program: str, suite: str) -> list:
    with tempfile.TemporaryDirectory() as folder:
        results = subprocess.run([program, "characterize", f"suite/{suite}", "--pages", "none", "--format", "json", "-o", folder],
                                 check=True, stdout=subprocess.PIPE).stdout
    return json.loads(results)["score"]["cards"][0]["jobs"]


def main() -> None:
    for path in sorted(SUITES.glob("*.toml")):
        text = path.read_text()
        for job in jobs(sys.argv[1], path.stem):
            values = ", ".join(repr(value if value > 1e-12 else 0.0) for value in job["values"].values())
            text = re.sub(rf'(job    = "{job["name"]}"\nvalues = ).*', rf"\g<1>[{values}]", text)
        path.write_text(text)
        print(path.stem)


if __name__ == "__main__":
    main()
