#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The explorer stays small: what a browser is sent, as gzip packs it, and the one file.

    size.py FOLDER        as `make explore` writes it
"""
import gzip
import pathlib
import sys

MOST = {"index.html": 60_000, "core.wasm": 1_300_000, "data.pack": 120_000}  # bytes on the wire
MOST_IN_ONE_FILE = 2_000_000

folder = pathlib.Path(sys.argv[1])
failed = False
for name, most in MOST.items():
    content = (folder / name).read_bytes()
    packed = len(gzip.compress(content, 9))
    failed |= packed > most
    print(f"{name}: {len(content)} bytes, {packed} with gzip, at most {most}")
whole = (folder / "explore.html").stat().st_size
print(f"explore.html: {whole} bytes, at most {MOST_IN_ONE_FILE}")
sys.exit(failed or whole > MOST_IN_ONE_FILE)
