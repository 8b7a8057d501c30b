#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs data/ for the explorer, without what only other verbs read.

    pack.py DATA OUT.pack

For each file: the lengths of its name and of its content (32 bits each, little-endian), its name, its content.
"""
import pathlib
import struct
import sys

LEFT_OUT = ("studies", "suites", "rules")


def pack(data):
    for file in sorted(data.rglob("*")):
        inside = file.relative_to(data)
        if file.is_file() and inside.parts[0] not in LEFT_OUT:
            name, content = f"/data/{inside.as_posix()}".encode(), file.read_bytes()
            yield struct.pack("<II", len(name), len(content)) + name + content


if __name__ == "__main__":
    pathlib.Path(sys.argv[2]).write_bytes(b"".join(pack(pathlib.Path(sys.argv[1]))))
