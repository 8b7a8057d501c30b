# SPDX-License-Identifier: Apache-2.0
"""Programs that annotate themselves with NVTX or roctx, run as `triplepoint record` runs them.

    ranges_test.py MARKS_DUMP LIBTRIPLEPOINT_MARK LIBTRIPLEPOINT_NVTX ROCTX_PROGRAM NVTX_PROGRAM...
"""
import json
import os
import subprocess
import sys
import tempfile

DUMP, MARK, NVTX, ROCTX_PROGRAM, *NVTX_PROGRAMS = sys.argv[1:]


def marks(program, listened=True, **environment):
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TRIPLEPOINT_MARK_LIBRARY": MARK, **environment}
        if listened:
            environment["TRIPLEPOINT_MARKS"] = folder
        subprocess.run([program], check=True, env=environment)
        said = subprocess.run([DUMP, folder], capture_output=True, text=True, check=True).stdout
        return [json.loads(line) for line in said.splitlines()]


def brief(events):
    return [" ".join(filter(None, [e["kind"], e["name"], e["group"]])) for e in events]


def expect(found, wanted):
    if found != wanted:
        sys.exit(f"found  {found}\nwanted {wanted}")


for program in NVTX_PROGRAMS:
    expect(brief(marks(program, NVTX_INJECTION64_PATH=NVTX)),
           ["region_begin outer", "region_begin NCCL/ncclAllReduce", "region_begin wide \u20ac", "region_end wide \u20ac",
            "region_end outer", "region_end NCCL/ncclAllReduce", "region_begin attributed", "region_end attributed",
            "span across threads nvtx"])
    expect(marks(program), [])
expect(brief(marks(ROCTX_PROGRAM, LD_PRELOAD=NVTX)),
       ["region_begin outer", "span started roctx", "region_end outer"])
expect(marks(ROCTX_PROGRAM, listened=False, LD_PRELOAD=NVTX), [])
print(f"fine: {len(NVTX_PROGRAMS)} programs with NVTX, one with roctx")
