#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The explorer stays small: what a browser is sent, as gzip packs it, of the folder and of the one file.

    size.py FOLDER        as `make explore` writes it
"""
import gzip
import pathlib
import sys

MOST = 2_000_000  # bytes on the wire

folder = pathlib.Path(sys.argv[1])


def on_the_wire(name):
    content = (folder / name).read_bytes()
    packed = len(gzip.compress(content, 9))
    print(f"{name}: {len(content)} bytes, {packed} with gzip")
    return packed


parts = sum(map(on_the_wire, ("index.html", "core.wasm", "data.pack")))
print(f"the folder: {parts} with gzip, at most {MOST}")
sys.exit(max(parts, on_the_wire("explore.html")) > MOST)
