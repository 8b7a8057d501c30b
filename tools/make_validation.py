#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes validation/, the generated part of docs/models/accuracy.md and README.md's accuracy: make_validation.py PROGRAM FOLDER_OF_TABLES

Runs `triplepoint validate` over the training jobs of validation/*/jobs.csv (with the shipped coefficients, and with those fitted without the
source), and over every other table of measurements in the folder, as validation/normalise.py writes its rows. Each source has a folder with its errors, the rows without a prediction,
where the rows were published, and its predictions; validation/README.md lists the sources and the commands.
"""
import collections
import csv
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

import readme_accuracy
from repository import ROOT

OUT = ROOT / "validation"
PAGE = ROOT / "docs/models/accuracy.md"
LEFT_OUT = ROOT / "data/calibrations/left_out.toml"
BEGIN, END = "<!-- made by tools/make_validation.py -->", "<!-- end of what is made -->"
LARGEST = 2000  # rows of a source that are listed one by one; of more, the summary alone
COLUMNS = ["row_id", "quantity", "predicted", "error_pct", "interval_low", "interval_high"]
ERRORS = ["coefficients", "quantity", "unit", "family", "rows", "median", "mean", "p90", "max", "signed_mean", "rank"]
SPDX = "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"


def run(program, table, *flags):
    answer = subprocess.run([program, "validate", str(table), *flags, "--format", "json"], capture_output=True, text=True, check=False)
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


def error_rows(coefficients, quantity, families, unit="pct"):
    """Lines of errors.csv, one per family."""
    for name, s in families.items():
        keys = ("median_abs", "mean_abs", "p90_abs", "max_abs", "signed_mean")
        values = [number(s[f"{key}_error_{unit}"]) for key in keys]
        yield [coefficients, quantity, {"pct": "%", "c": "K"}[unit], name, s["rows"], *values, number(s["rank_correlation"], 2)]


def slug(text):
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")


def sources_of(rows):
    titles = collections.Counter(r.get("source_title") or r.get("source_loc") or "" for r in rows)
    titles.pop("", None)
    return titles.most_common(6)


def write_csv(path, header, rows):
    with open(path, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(header)
        out.writerows(rows)


def predictions_of(per_row):
    for row in per_row:
        yield [row["row_id"], row["quantity"], *(f"{row[key]:.4g}" if row.get(key) is not None else "" for key in COLUMNS[2:])]


def reasons_of(skipped):
    reasons = collections.Counter(re.sub(re.escape(s["row_id"]), "...", s["reason"]).replace(str(ROOT) + "/", "") for s in skipped)
    return [(count, reason) for reason, count in reasons.most_common(15)]


def write_source(name, answer, errors_found, sources):
    folder = OUT / slug(name)
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "errors.csv", ERRORS, errors_found)
    if answer["skipped"]:
        write_csv(folder / "not_predicted.csv", ["rows", "reason"], reasons_of(answer["skipped"]))
    if sources:
        write_csv(folder / "published_in.csv", ["source", "rows"], sources)
    if len(answer["per_row"]) <= LARGEST:
        write_csv(folder / "predictions.csv", COLUMNS, predictions_of(answer["per_row"]))
    return folder.name


def errors_of(coefficients, answer):
    yield from error_rows(coefficients, "time or power", answer["families"])
    yield from error_rows(coefficients, "memory", answer.get("memory", {}).get("families", {}))
    yield from error_rows(coefficients, "temperature", answer.get("temperature", {}).get("families", {}), "c")


def validate_tables(program, folder):
    answers = {}
    for path in sorted(folder.glob("*.csv")):
        if path.name.startswith(("train_perf", "hf_")):
            continue  # canonical rows of validation/*/jobs.csv
        with tempfile.TemporaryDirectory() as scratch:
            rows = pathlib.Path(scratch) / path.name
            subprocess.run([sys.executable, OUT / "normalise.py", path, "-o", rows], check=True, stderr=subprocess.DEVNULL)
            with open(rows, newline="") as file:
                if all(row["skip"] for row in csv.DictReader(file)):
                    continue
            answer = run(program, rows)
        with open(path, newline="") as file:
            answers[path.name] = (answer, list(csv.DictReader(file)))
        print(f"{path.name}: {answer['predicted']} of {answer['rows']} rows")
    return answers


def times(answer):
    return [row for row in answer["per_row"] if not row["quantity"].startswith("mem_") and row["error_pct"] is not None]


def errors(rows):
    sizes = [abs(row["error_pct"]) for row in rows]
    return f"{quantile(sizes, .5):.1f} | {quantile(sizes, .9):.1f}"


def inside(rows):
    """Share of measured values inside the 80 % interval."""
    found = [row["interval_low"] <= row["measured"] <= row["interval_high"] for row in rows if row.get("interval_low") is not None]
    return f"{100 * sum(found) / len(found):.0f} %" if found else ""


def validate_jobs(program):
    """Per source: the answer with the shipped coefficients, and with those fitted without it (nothing where no coefficient saw it)."""
    with open(LEFT_OUT, "rb") as file:
        fitted_without = set(tomllib.load(file)) - {"source"}
    answers = {}
    for path in sorted(OUT.glob("*/jobs.csv")):
        answer = run(program, path)
        families = {row["family"] for row in answer["per_row"]}
        without = None
        if len(families) == 1 and families <= fitted_without:
            without = run(program, path, "--leave-out", families.pop())
        answers[path.parent.name] = (answer, without)
        print(f"{path.parent.name}: {answer['predicted']} of {answer['rows']} rows", flush=True)
    return answers


def write_jobs(answers):
    index = []
    for name, (answer, without) in answers.items():
        found = list(errors_of("shipped", answer))
        if without:
            found += error_rows("left out", "time or power", without["families"])
        index.append((write_source(name, answer, found, []), "jobs.csv"))
    return index


def jobs_table(answers):
    lines = ["| source | rows | median | p90 | left out: median | p90 | inside 80 % |", "|---|---|---|---|---|---|---|"]
    shipped, left_out = [], []
    for name, (answer, without) in answers.items():
        rows = times(answer)
        judged = times(without) if without else rows
        if without:
            shipped += rows
            left_out += judged
        lines.append(f"| {name} | {len(rows)} | {errors(rows)} | {errors(judged) if without else ' | '} | {inside(judged)} |")
    lines.append(f"| all with a left-out fit | {len(shipped)} | {errors(shipped)} | {errors(left_out)} | {inside(left_out)} |")
    return "\n".join(lines) + "\n"


def page_part(answers, jobs):
    text = f"{BEGIN}\n## Every table of measurements\n\n"
    text += "`make validation` writes this part and [validation/](../../validation/README.md) from the tables in `../shared/data`; "
    text += "errors are those of the shipped parameters, 100 (predicted - measured) / measured, in per cent.\n\n"
    lines = ["| table | rows | predicted | median | p90 | signed mean | rank |", "|---|---|---|---|---|---|---|"]
    for name, (answer, _) in answers.items():
        lines.append(f"| {name} | {answer['rows']} | {answer['predicted']} | {number(answer['median_abs_error_pct'])} | "
                     f"{number(answer['p90_abs_error_pct'])} | {number(answer['signed_mean_error_pct'])} | {number(answer['rank_correlation'], 2)} |")
    text += "\n".join(lines) + "\n\n"
    text += ("### Training jobs\n\nErrors of step time or rate, in per cent. \"Left out\": with the coefficients that all other sources fit (`lab/leave_out.py`); this is the figure for a\n"
             "job of a source that no fit has seen, except that the rules that turn rows into jobs were written with these rows in sight. Blank: sources\n"
             "to which the host times of a stack were fitted, and which no other fit has seen.\n"
             "\"Inside 80 %\": share of the measured values inside the 80 % interval.\n\n")
    return text + jobs_table(jobs) + "\n" + END + "\n"


def write_page(part):
    text = PAGE.read_text()
    if BEGIN in text:
        text = text[:text.index(BEGIN)] + part + text[text.index(END) + len(END) + 1:]
    else:
        title_end = text.index("\n", text.index("# ")) + 1
        text = text[:title_end] + "\n" + part + text[title_end:]
    PAGE.write_text(text)


def write_index(index):
    jobs = ",\n".join(f"[{place}]({place}/)" for place, table in index if table == "jobs.csv")
    tables = ",\n".join(f"[{place}]({place}/) of `{table}`" for place, table in index if table != "jobs.csv")
    (OUT / "README.md").write_text(
        f"{SPDX}# Predictions beside published measurements\n\n"
        "`make validation` writes the folders below; `triplepoint validate TABLE` prints the errors of one table. "
        "[Accuracy](../docs/models/accuracy.md) sums them up, and [validation](../docs/models/validation.md) states how a published row becomes a job. "
        "[micro25](micro25/README.md) holds the figures of the MICRO'25 study. [layouts](layouts/README.md) sets "
        "public recipes beside the planner's choice.\n\n"
        "A folder contains `jobs.csv` (training jobs with their measurements; `validation/normalise.py` writes it), `errors.csv` (errors by family, "
        "with shipped coefficients and with those fitted without the source), `predictions.csv` (of sources with up to 2,000 predictions), "
        "`not_predicted.csv` (skipped rows by reason) and `published_in.csv`.\n\n"
        f"Training jobs: {jobs}.\n\nOther tables: {tables}.\n")


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    if not folder.is_dir():
        sys.exit(f"{folder}: no such folder (the tables of measurements are not part of this tree); name one")
    answers = validate_tables(program, folder)
    jobs = validate_jobs(program)
    index = write_jobs(jobs)
    for name, (answer, rows) in answers.items():
        title = pathlib.Path(name).stem.replace("_calibration", "")
        index.append((write_source(title, answer, list(errors_of("shipped", answer)), sources_of(rows)), name))
    write_index(index)
    write_page(page_part(answers, jobs))
    readme_accuracy.write()


if __name__ == "__main__":
    main()
