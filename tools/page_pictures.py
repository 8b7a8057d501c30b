#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the screenshots of README and docs, docs/images/*.png: first screens of pages.

usage: page_pictures.py TRIPLEPOINT [CHROMIUM]
"""
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 1440
PAGES = {  # picture: height, commands, page
    "study": (1000, [["characterize", "paper/all", "-o", "study"]], "study/report.html"),
    "run": (1300, [["simulate", str(ROOT / "examples/paper-layout.toml"), "--ambient", "38 C", "--duration", "5min", "-o", "heat.run"],
                   ["report", "heat.run", "-o", "heat.html"]], "heat.html"),
    "plan": (1040, [["plan", str(ROOT / "examples/paper-layout.toml"), "-o", "plans"]], "plans/report.html"),
    "place": (1180, [["place", str(ROOT / "examples/paper-layout.toml"), "-o", "placed"]], "placed/report.html"),
    "validation": (1060, [["validate", *map(str, sorted(ROOT.glob("validation/*/jobs.csv"))), "-o", "validation.html"]], "validation.html"),
}


def main():
    program = str(Path(sys.argv[1]).resolve())
    browser = sys.argv[2] if sys.argv[2:] else "chromium"
    with tempfile.TemporaryDirectory() as folder:
        for name, (height, commands, page) in PAGES.items():
            for command in commands:
                subprocess.run([program, *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                            "--virtual-time-budget=10000",  # the timeline paints after the page has loaded
                            f"--window-size={WIDTH},{height}", f"--screenshot={ROOT / 'docs/images' / name}.png", f"file://{folder}/{page}"], check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
