# SPDX-License-Identifier: Apache-2.0
"""A copy of data/ whose numbers may be tried out, and what the program predicts with it. No packages needed."""
import csv
import io
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data"


@contextmanager
def trial_library():
    with tempfile.TemporaryDirectory() as scratch:
        library = Path(scratch) / "data"
        shutil.copytree(DATA, library)
        yield library


def read_values(path):
    """Keys of all tables of a TOML file with the text of their values."""
    return dict(re.findall(r"^(\w+)\s*=\s*(.+)$", path.read_text(), re.M))


def write_values(path, values):
    text = path.read_text()
    for key, value in values.items():
        text = re.sub(rf"^({key}\s*)=.*$", rf"\g<1>= {value}", text, flags=re.M)
    path.write_text(text)


def canonical(table, folder):
    """A published table as validation/normalise.py writes its rows, in this folder."""
    rows = Path(folder) / Path(table).name
    subprocess.run([sys.executable, DATA.parent / "validation" / "normalise.py", table, "-o", rows], check=True, stderr=subprocess.DEVNULL)
    return rows


def validate(program, library, tables):
    """One dictionary per prediction: row_id, family, quantity, measured, predicted, error_pct."""
    run = subprocess.run(
        [program, "validate", *map(str, tables), "--format", "csv"],
        env={**os.environ, "TRIPLEPOINT_DATA": str(library)}, capture_output=True, text=True, check=True)
    return [row for row in csv.DictReader(io.StringIO(run.stdout)) if row["error_pct"]]


def summary(errors):
    """Signed median, median and 90th percentile of errors in per cent."""
    sizes = sorted(map(abs, errors))
    return f"{statistics.median(errors):+6.1f} {statistics.median(sizes):6.1f} {sizes[int(0.9 * (len(sizes) - 1))]:6.1f}"
