#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes validation/bounds.csv, the errors that the test validation_bounds allows, from what the program predicts now.

    triplepoint validate validation/*/jobs.csv --format json > now.json && python3 tools/write_bounds.py now.json
"""
import json
import sys

from repository import ROOT

with open(sys.argv[1], encoding="utf-8") as text:
    families = json.load(text)["families"]
lines = [f"{family},{errors['rows']},{errors['median_abs_error_pct']:.1f},{errors['p90_abs_error_pct']:.1f}" for family, errors in sorted(families.items())]
(ROOT / "validation/bounds.csv").write_text("\n".join(["family,rows,median_pct,p90_pct", *lines]) + "\n")
