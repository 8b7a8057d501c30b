# SPDX-License-Identifier: Apache-2.0
"""Simulates the reference cards of the standard suites anew: data/suites/*.reference.json.

They are predictions, so they follow the model and its data: a reference that is not what the
program computes today would not score 1 against itself.

usage: python3 lab/suite_references.py PROGRAM
"""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
NODES = {"training-v1": 4, "node-v1": 1}
SOURCE = ("simulated by {version} with the numbers of data/; plans as triplepoint plan found them. "
          "A prediction, not a measurement: docs/score-card.md")
KEPT = ("name", "verdict", "plan", "repeats", "values", "repeat_spread", "broken_rules")


def card(program: str, suite: str, nodes: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "bench", suite, "--cluster", "hgx-h200", "--nodes", str(nodes),
                        "-o", folder], check=True, stdout=subprocess.DEVNULL)
        (path,) = pathlib.Path(folder).glob("*.json")
        return json.loads(path.read_text())


def main() -> None:
    program = sys.argv[1]
    version = subprocess.run([program, "--version"], check=True, capture_output=True,
                             text=True).stdout.split("\n")[0].strip()
    for suite, nodes in NODES.items():
        made = card(program, suite, nodes)
        reference = {key: made[key] for key in ("schema", "suite", "name", "gpu", "num_gpus", "origin")}
        reference["source"] = SOURCE.format(version=version)
        reference["duration_s"] = made["duration_s"]
        reference["jobs"] = [{key: job[key] for key in KEPT} for job in made["jobs"]]
        path = ROOT / "data" / "suites" / f"{suite}.reference.json"
        path.write_text(json.dumps(reference, indent=2) + "\n")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
