# SPDX-License-Identifier: Apache-2.0
"""The accuracy that README.md and docs/trust.md state, from the generated table of docs/models/accuracy.md."""
import re

from repository import ROOT

README = ROOT / "README.md"
TRUST = ROOT / "docs/trust.md"
PAGE = ROOT / "docs/models/accuracy.md"
SENTENCE = re.compile(r"^On [\d,]+ published training jobs from .*$", re.M)
TOTAL = "all with a left-out fit"


def numbers():
    """Sources, rows, median and 90th percentile with shipped parameters, the same with parameters fitted without the source."""
    table = PAGE.read_text().split("| source | rows |", 1)[1].split("\n\n", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    fitted_without = [row for row in rows if row[4]]
    count, *errors = next(row[1:6] for row in rows if row[0] == TOTAL)
    return len(fitted_without) - 1, f"{int(count):,}", errors


def sentence():
    sources, count, (median, p90, left_out_median, left_out_p90) = numbers()
    return (f"On {count} published training jobs from {sources} sources, fitted without the source in question: "
            f"median error of step time {left_out_median} %, 90th percentile {left_out_p90} %; with the shipped parameters {median} % and {p90} %.")


def trust_rows():
    _, count, (median, p90, left_out_median, left_out_p90) = numbers()
    return [f"| {count} | {median} % | {p90} % |", f"| {count} | {left_out_median} % | {left_out_p90} % |"]


def write():
    README.write_text(SENTENCE.sub(lambda _: sentence(), README.read_text(), count=1))


def problems():
    """Where README's sentence or the table of docs/trust.md differ from the generated table."""
    found = SENTENCE.search(README.read_text())
    if not found or found[0] != sentence():
        yield f"README.md: accuracy differs from docs/models/accuracy.md; write: {sentence()}"
    for row in trust_rows():
        if row not in TRUST.read_text():
            yield f"docs/trust.md: accuracy differs from docs/models/accuracy.md; a row should end with: {row}"
