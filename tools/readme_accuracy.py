# SPDX-License-Identifier: Apache-2.0
"""README.md's sentence on accuracy, from the generated table of docs/models/accuracy.md."""
import re

from repository import ROOT

README = ROOT / "README.md"
PAGE = ROOT / "docs/models/accuracy.md"
SENTENCE = re.compile(r"^On [\d,]+ published training jobs from .*$", re.M)
TOTAL = "all with a left-out fit"


def sentence():
    table = PAGE.read_text().split("| source | rows |", 1)[1].split("\n\n", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    fitted_without = [row for row in rows if row[4]]
    count, median, p90, left_out_median, left_out_p90 = next(row[1:6] for row in rows if row[0] == TOTAL)
    return (f"On {int(count):,} published training jobs from {len(fitted_without) - 1} sources, fitted without the source in question: "
            f"median error of step time {left_out_median} %, 90th percentile {left_out_p90} %; with the shipped parameters {median} % and {p90} %.")


def write():
    README.write_text(SENTENCE.sub(lambda _: sentence(), README.read_text(), count=1))


def problem():
    """What is wrong with README's sentence; None if nothing is."""
    found = SENTENCE.search(README.read_text())
    if found and found[0] == sentence():
        return None
    return f"README.md: accuracy differs from docs/models/accuracy.md; write: {sentence()}"
