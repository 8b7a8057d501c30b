#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans the public recipes of validation/layouts: make_layouts.py PROGRAM [--check] [--quick]

Each recipe is simulated as published, and `triplepoint plan` searches the same problem. Writes validation/layouts/results.csv and the table of
validation/layouts/README.md. --check writes nothing: it fails where a published layout does not fit in memory, or stands further behind the first plan than
results.csv says. --quick takes the recipes of a few seconds.
"""
import csv
import json
import subprocess
import sys
import tomllib

from repository import ROOT

FOLDER = ROOT / "validation/layouts"
RESULTS = FOLDER / "results.csv"
PAGE = FOLDER / "README.md"
BEGIN, END = "<!-- made by tools/make_layouts.py -->", "<!-- end of what is made -->"
COLUMNS = ["job", "gpus", "published", "step_s", "low_s", "high_s", "memory_gib", "first", "first_step_s", "first_memory_gib", "behind_pct", "rank", "why"]
SHOWN = 5  # layouts that plan simulates in full
ALLOWANCE_POINTS = 1
GIB = 2**30


def run(program, *words):
    answer = subprocess.run(["nice", program, *map(str, words), "--format", "json"], capture_output=True, text=True, check=False)
    if answer.returncode != 0 and not answer.stdout.startswith("{"):
        sys.exit(f"{' '.join(map(str, words))}: {answer.stderr.strip()}")
    return json.loads(answer.stdout)


def recipes(quick):
    with open(FOLDER / "recipes.toml", "rb") as file:
        table = tomllib.load(file)
    for recipe in table["recipe"]:
        if recipe["quick"] or not quick:
            yield recipe | {"of": table["group"][recipe["group"]]}


def why(own, first):
    """The terms of the step that make most of the difference, and memory."""
    gap = own["step_time_s"] - first["step_time_s"]
    if gap <= 0.001 * first["step_time_s"]:
        return "the published layout"
    saved = {term: own["terms_s"][term] - first["terms_s"][term] for term in own["terms_s"]}
    main = [term for term in sorted(saved, key=saved.get, reverse=True) if saved[term] > 0.2 * gap][:2]
    digits = 3 if gap < 0.1 else 2 if gap < 5 else 1
    seconds = [(term, *(f"{max(0, plan['terms_s'][term]):.{digits}f}" for plan in (own, first))) for term in main]
    terms = [f"{term} {published} to {chosen} s" for term, published, chosen in seconds]
    return "; ".join([", ".join(terms), f"{own['memory_bytes'] / GIB:.0f} to {first['memory_bytes'] / GIB:.0f} GiB"])


def row_of(program, recipe):
    job, fix = FOLDER / recipe["job"], recipe["of"]["fix"]
    run_of_it = run(program, "simulate", job)
    plans = run(program, "plan", job, "--threads", 1, "--top", SHOWN, *(["--fix", fix] if fix else []))
    own, first = plans["own"], plans["plans"][0]
    if own["missing_memory_bytes"] > 0:
        sys.exit(f"{recipe['job']}: the published layout ran, and is called out of memory by {own['missing_memory_bytes'] / GIB:.1f} GiB")
    faster = sum(plan["step_time_s"] < own["step_time_s"] * (1 - 1e-9) for plan in plans["plans"])
    values = [recipe["job"], plans["gpus"], own["plan"], f"{own['step_time_s']:.4g}", f"{run_of_it['step_time_low_s']:.4g}",
              f"{run_of_it['step_time_high_s']:.4g}", f"{own['memory_bytes'] / GIB:.1f}", first["plan"], f"{first['step_time_s']:.4g}",
              f"{first['memory_bytes'] / GIB:.1f}", f"{100 * (own['step_time_s'] / first['step_time_s'] - 1):.1f}",
              str(faster + 1) if faster < len(plans["plans"]) else f">{faster}", why(own, first)]
    return dict(zip(COLUMNS, values))


def inside(row):
    """The first plan is predicted within the interval of the published one."""
    return float(row["first_step_s"]) >= float(row["low_s"])


def table_line(recipe, row):
    cells = [recipe["title"], row["gpus"], row["published"], f"{row['step_s']} ({row['low_s']}-{row['high_s']})", row["first"], row["first_step_s"],
             ("" if inside(row) else "**") + f"{row['behind_pct']} %" + ("" if inside(row) else "**"), row["rank"], row["why"]]
    return "| " + " | ".join(map(str, cells)) + " |"


def page_table(known):
    rows = known_rows()
    lines = ["| recipe | GPUs | published layout | step, s (80 %) | first plan | step, s | behind | rank | from published to first |", "|---" * 9 + "|"]
    group = None
    for recipe in known:
        if recipe["group"] != group:
            group = recipe["group"]
            lines.append(f"| **{recipe['of']['title']}** |" + " |" * 8)
        lines.append(table_line(recipe, rows[recipe["job"]]))
    return "\n".join(lines) + "\n"


def known_rows():
    with open(RESULTS, newline="") as file:
        return {row["job"]: row for row in csv.DictReader(file)}


def write(rows):
    with open(RESULTS, "w", newline="") as file:
        out = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        out.writeheader()
        out.writerows(rows)


def write_page():
    rows = known_rows().values()
    text = PAGE.read_text()
    summary = (f"{len(rows)} recipes: none is called out of memory; the first plan is the published layout or within 1 % of it for "
               f"{sum(float(row['behind_pct']) <= 1 for row in rows)}, and inside its interval for {sum(map(inside, rows))}.\n\n")
    made = f"{BEGIN}\n{summary}{page_table(list(recipes(False)))}{END}"
    PAGE.write_text(text[:text.index(BEGIN)] + made + text[text.index(END) + len(END):])


def problems(row, known):
    """Where a recipe stands worse than results.csv says."""
    if float(row["behind_pct"]) > float(known["behind_pct"]) + ALLOWANCE_POINTS:
        yield f"{row['job']}: {row['behind_pct']} % behind the first plan ({row['first']}); results.csv says {known['behind_pct']} %"
    if inside(known) and not inside(row):
        yield f"{row['job']}: the first plan ({row['first']}, {row['first_step_s']} s) lies outside of {row['low_s']}-{row['high_s']} s"


def check(program, quick):
    known, found = known_rows(), []
    for recipe in recipes(quick):
        row = row_of(program, recipe)
        print(f"{row['job']}: {row['behind_pct']} % behind, rank {row['rank']}", flush=True)
        found += problems(row, known[row["job"]])
    sys.exit("\n".join(found) if found else 0)


def main():
    program = sys.argv[1]
    if "--check" in sys.argv:
        check(program, "--quick" in sys.argv)
    if "--page" not in sys.argv:
        rows = []
        for recipe in recipes(False):
            rows.append(row_of(program, recipe))
            print(*list(rows[-1].values()), sep=" | ", flush=True)
        write(rows)
    write_page()


if __name__ == "__main__":
    main()
