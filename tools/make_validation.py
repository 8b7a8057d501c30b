#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes validation/*/README.md and the generated part of docs/models/accuracy.md: make_validation.py PROGRAM FOLDER_OF_TABLES

Runs `triplepoint validate` over validation/*/jobs.csv and every other table of measurements in the folder, and keeps per source what we predict, how far off it is, and the
command. The published numbers themselves stay where they were published; rows are named by their row_id.
"""
import collections
import csv
import json
import pathlib
import re
import statistics
import subprocess
import sys

from repository import ROOT

OUT = ROOT / "validation"
PAGE = ROOT / "docs/models/accuracy.md"
BEGIN, END = "<!-- made by tools/make_validation.py -->", "<!-- end of what is made -->"
LARGEST = 2000  # rows of a source that are listed one by one; of more, the summary alone
COLUMNS = ["row_id", "quantity", "predicted", "error_pct", "assumptions"]
TRAININGS = ("train_perf", "hf_")  # tables that validation/normalise.py turned into jobs
SPDX = "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"


def run(program, table):
    answer = subprocess.run([program, "validate", str(table), "--format", "json"], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        sys.exit(f"{table}: {answer.stderr.strip()}")
    return json.loads(answer.stdout)


def number(value, digits=1):
    return "" if value is None else f"{value:.{digits}f}"


def quantile(values, share):
    values = sorted(values)
    at = share * (len(values) - 1)
    below = int(at)
    above = min(below + 1, len(values) - 1)
    return values[below] + (at - below) * (values[above] - values[below])


def table_of(title, groups, order=None):
    """Errors (per cent) by group, as a Markdown table."""
    lines = [f"| {title} | rows | median | p90 | signed mean |", "|---|---|---|---|---|"]
    for name in order or sorted(groups):
        errors = groups.get(name)
        if not errors:
            continue
        sizes = [abs(e) for e in errors]
        lines.append(f"| {name} | {len(errors)} | {quantile(sizes, .5):.1f} | {quantile(sizes, .9):.1f} | {statistics.fmean(errors):+.1f} |")
    return "\n".join(lines) + "\n"


def summary_table(families, unit="pct"):
    lines = ["| family | rows | median | mean | p90 | max | signed mean | rank |", "|---|---|---|---|---|---|---|---|"]
    for name, s in families.items():
        keys = ("median_abs", "mean_abs", "p90_abs", "max_abs", "signed_mean")
        values = " | ".join(number(s[f"{k}_error_{unit}"]) for k in keys)
        lines.append(f"| {name} | {s['rows']} | {values} | {number(s['rank_correlation'], 2)} |")
    return "\n".join(lines) + "\n"


def slug(text):
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")


def sources_of(rows):
    titles = collections.Counter(r.get("source_title") or r.get("source_loc") or r.get("source") or "" for r in rows)
    titles.pop("", None)
    return [title for title, _ in titles.most_common(6)]


def write_rows(folder, predictions):
    with open(folder / "predictions.csv", "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(COLUMNS)
        for row in predictions:
            digits = [f"{row[key]:.4g}" if row[key] is not None else "" for key in ("predicted", "error_pct")]
            out.writerow([row["row_id"], row["quantity"], *digits, "; ".join(row["assumptions"])])


def reasons_of(skipped):
    reasons = collections.Counter(re.sub(re.escape(s["row_id"]), "...", s["reason"]).replace(str(ROOT) + "/", "") for s in skipped)
    return "".join(f"- {count} x {reason}\n" for reason, count in reasons.most_common(15))


def write_source(name, command, title, parts, predictions, skipped, sources):
    folder = OUT / slug(name)
    folder.mkdir(parents=True, exist_ok=True)
    text = f"{SPDX}# {title}\n\n"
    if sources:
        text += "Published in: " + "; ".join(sources) + ".\n\n"
    text += f"    {command}\n\n"
    for heading, table in parts:
        text += f"{heading}\n\n{table}\n"
    if skipped:
        text += f"Not predicted: {len(skipped)} rows.\n\n{reasons_of(skipped)}\n"
    if len(predictions) <= LARGEST:
        write_rows(folder, predictions)
        text += "Every prediction, its error and what it assumes: `predictions.csv`; the published numbers stand in the source under the same `row_id`.\n"
    (folder / "README.md").write_text(text.rstrip("\n") + "\n")
    return folder.name


def parts_of(answer, families=None):
    keep = lambda all_: {k: v for k, v in all_.items() if families is None or k in families}
    parts = []
    speed = keep(answer["families"])
    if speed:
        parts.append(("Errors in per cent:", summary_table(speed)))
    if keep(answer.get("memory", {}).get("families", {})):
        parts.append(("Memory, errors in per cent:", summary_table(keep(answer["memory"]["families"]))))
    if keep(answer.get("temperature", {}).get("families", {})):
        parts.append(("Temperature, errors in kelvins:", summary_table(keep(answer["temperature"]["families"]), "c")))
    return parts


def validate_tables(program, folder):
    """Answers and rows by the path that a reader of the page would type."""
    tables = {f"../shared/data/{path.name}": path for path in sorted(folder.glob("*.csv")) if not path.name.startswith(TRAININGS)}
    tables |= {str(path.relative_to(ROOT)): path for path in sorted(OUT.glob("*/jobs.csv"))}
    answers = {}
    for name, path in tables.items():
        answer = run(program, path)
        if answer["predicted"] == 0:
            continue
        with open(path, newline="") as file:
            answers[name] = (answer, list(csv.DictReader(file)))
        print(f"{name}: {answer['predicted']} of {answer['rows']} rows")
    return answers


def is_jobs(name):
    return name.endswith("/jobs.csv")


def distributions(rows):
    """Errors of training rows by what their jobs have in common."""
    text = ""
    for feature in rows[0]["regime"]:
        groups = collections.defaultdict(list)
        for row in rows:
            groups[row["regime"][feature]].append(row["error_pct"])
        text += f"By {feature}:\n\n{table_of(feature, groups)}\n"
    return text


def page_part(answers):
    text = f"{BEGIN}\n## Every table of measurements\n\n"
    text += "`make validation` writes this part and [validation/](../../validation/README.md) from the tables in `../shared/data`; "
    text += "errors are those of the shipped parameters, 100 (predicted - measured) / measured.\n\n"
    lines = ["| table | rows | predicted | median | p90 | signed mean | rank |", "|---|---|---|---|---|---|---|"]
    for name, (answer, _) in answers.items():
        lines.append(f"| {name} | {answer['rows']} | {answer['predicted']} | {number(answer['median_abs_error_pct'])} | "
                     f"{number(answer['p90_abs_error_pct'])} | {number(answer['signed_mean_error_pct'])} | {number(answer['rank_correlation'], 2)} |")
    text += "\n".join(lines) + "\n\n"
    jobs = [answer for name, (answer, _) in answers.items() if is_jobs(name)]
    rows = [row for answer in jobs for row in answer["per_row"] if not row["quantity"].startswith("mem_") and row["error_pct"] is not None]
    if rows:
        families = {name: errors for answer in jobs for name, errors in answer["families"].items()}
        text += f"### Training rows\n\nBy source:\n\n{summary_table(families)}\n{distributions(rows)}"
        text += f"{sum(len(answer['fit']['false_oom']) for answer in jobs)} of the rows that ran do not fit into memory by our estimate; "
        text += "they count as errors of 100 %.\n\n"
    return text + END + "\n"


def write_page(part):
    text = PAGE.read_text()
    if BEGIN in text:
        text = text[:text.index(BEGIN)] + part + text[text.index(END) + len(END) + 1:]
    else:
        title_end = text.index("\n", text.index("# ")) + 1
        text = text[:title_end] + "\n" + part + text[title_end:]
    PAGE.write_text(text)


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    if not folder.is_dir():
        sys.exit(f"{folder}: no such folder (the tables of measurements are not part of this tree); name one")
    answers = validate_tables(program, folder)
    index = []
    for name, (answer, rows) in answers.items():
        title = pathlib.Path(name).parent.name if is_jobs(name) else pathlib.Path(name).stem.replace("_calibration", "")
        place = write_source(title, f"triplepoint validate {name}", title, parts_of(answer), answer["per_row"], answer["skipped"], sources_of(rows))
        index.append((place, title))
    lines = "".join(f"- [{title}]({place}/README.md)\n" for place, title in index)
    (OUT / "README.md").write_text(
        f"{SPDX}# Predictions beside published measurements\n\nOne folder a source: our predictions, their errors, and the command. `make validation` writes them anew. "
        "What they add up to: [accuracy](../docs/models/accuracy.md).\n\n- [micro25](micro25/README.md): the paper's figures\n" + lines)
    write_page(page_part(answers))


if __name__ == "__main__":
    main()
