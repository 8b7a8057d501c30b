#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the figures of "Characterizing the Efficiency of Distributed Training" (MICRO'25) from predictions, or from the authors'
result tree, and writes the tables of its published numbers and of its claims. `make paper` calls it; README.md says more."""
import argparse
import pathlib
import subprocess

import claims
import figures
import rows
import tree
from jobs import jobs_of_study

STUDIES = ("paper/all", "paper/lora", "paper/thermal-aware", "paper/power-fault", "what-if/messages")


def characterize(program, study, folder):
    """Simulates the study; jobs that are there already are not simulated again."""
    folder = folder / "studies" / study.replace("/", "-")
    subprocess.run([program, "characterize", study, "-o", folder, "--pages", "none"], check=True, stdout=subprocess.DEVNULL)
    return jobs_of_study(folder)


def reproduce(program, folder):
    """Everything; returns (claims, rows, pairs, numbers by figure)."""
    studies = {study: characterize(program, study, folder) for study in STUDIES}
    jobs = [*studies["paper/all"].values()]
    checked = claims.check_all({study: {name: job.results for name, job in all.items()} for study, all in studies.items()})
    (folder / "claims.md").write_text(claims.table(checked))
    by_key = {job.key(): job for job in jobs}
    scored = rows.score(by_key)
    (folder / "rows.md").write_text(rows.table(scored))
    numbers = {number: figures.write(number, jobs, folder) for number in figures.NUMBERS}
    return checked, scored, rows.pairs_in_order(by_key), numbers


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="triplepoint", help="the command (default: triplepoint)")
    parser.add_argument("--tree", metavar="FOLDER", help="draw the authors' result tree instead")
    parser.add_argument("--figure", type=int, choices=figures.NUMBERS, action="append", help="of a tree: only these figures")
    parser.add_argument("--machine", default="", help="of a tree: the machine to draw, a part of its name (default: that with most jobs)")
    parser.add_argument("--model", default="", help="of a tree: the model to draw, a part of its name")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("build/paper"), help="folder (default: build/paper)")
    asked = parser.parse_args()
    asked.output.mkdir(parents=True, exist_ok=True)
    if asked.tree:
        for number in asked.figure or figures.NUMBERS:
            try:
                figures.write(number, tree.jobs_of_tree(asked.tree), asked.output, machine=asked.machine, model=asked.model)
            except ValueError as problem:
                print(f"figure {number} is left out: {problem}")
    else:
        checked, scored, (in_order, apart), _ = reproduce(asked.program, asked.output)
        print(f"{sum(each.within for each in scored)} of {len(scored)} published numbers within their tolerance; "
              f"{in_order} of {apart} pairs in the order of their efficiency; {claims.summary(checked)}")
    print(f"figures and tables are in {asked.output}")


if __name__ == "__main__":
    main()
