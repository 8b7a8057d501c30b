# SPDX-License-Identifier: Apache-2.0
"""What a launcher's test must find in the recording of tests/launchers/training.c.

    check_recording.py TRIPLEPOINT FOLDER --ranks N --nodes N --steps N
"""
import argparse
import collections
import csv
import pathlib
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("triplepoint")
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--ranks", type=int)
parser.add_argument("--nodes", type=int)
parser.add_argument("--steps", type=int)
asked = parser.parse_args()


def require(holds, sentence):
    if not holds:
        sys.exit("not so: " + sentence)


def triplepoint(*words):
    done = subprocess.run([asked.triplepoint, *map(str, words)], capture_output=True, text=True)
    require(done.returncode == 0, f"triplepoint {' '.join(map(str, words))} succeeds\n{done.stdout}{done.stderr}")
    return done.stdout


def table(name):
    with open(asked.folder / "csv" / name, newline="") as file:
        return list(csv.DictReader(file))


files = sorted(asked.folder.glob("*.run"))
require(len(files) == asked.nodes, f"{asked.nodes} nodes wrote a file each; there are {[f.name for f in files]}")
merged = files[0]
if asked.nodes > 1:
    merged = asked.folder / "all.run"
    print(triplepoint("trace", "merge", asked.folder, "-o", merged))
triplepoint("export", merged, "--csv", asked.folder / "csv")

spans = table("spans.csv")
ranks = {int(s["rank"]) for s in spans}
require(ranks == set(range(asked.ranks)), f"spans of ranks 0 to {asked.ranks - 1}; there are those of {sorted(ranks)}")
for name in ("step", "forward", "all_reduce"):
    for rank in ranks:
        count = sum(s["name"] == name and int(s["rank"]) == rank for s in spans)
        require(count == asked.steps, f"{asked.steps} spans {name} of rank {rank}; there are {count}")

# The last to come ends an all-reduce: in every step all ranks end at the same moment, whatever node they are on.
ends = collections.defaultdict(list)
for rank in ranks:
    own = sorted(int(s["end_ns"]) for s in spans if s["name"] == "all_reduce" and int(s["rank"]) == rank)
    for step, end in enumerate(own):
        ends[step].append(end)
spreads = sorted(max(e) - min(e) for e in ends.values())
print(f"ends of an all-reduce: median spread {spreads[len(spreads) // 2] / 1e3:.0f} us, largest {spreads[-1] / 1e3:.0f} us")
require(spreads[len(spreads) // 2] < 20e6, "ends of an all-reduce coincide (half of them within 20 ms, on a busy machine)")

steps = table("steps.csv")
require(0 < len(steps) <= asked.steps, f"there are steps, not more than {asked.steps}; there are {len(steps)}")
for step in steps:
    require(int(step["tokens"]) == 128 * asked.ranks, f"a step has the tokens of all ranks, not {step['tokens']}")
    require(int(step["end_ns"]) > int(step["begin_ns"]), "a step takes time")
# A GPU of every node draws 200 W, the next one 300 W, and so on; ranks own one each.
devices = {int(d["rank"]): d for d in table("devices.csv") if d["rank"]}
require(set(devices) == ranks, f"every rank has a GPU; those with one are {sorted(devices)}")
for rank, device in devices.items():
    local = rank % (asked.ranks // asked.nodes)
    require(int(device["local"]) == local and int(device["node"]) == rank // (asked.ranks // asked.nodes),
            f"rank {rank} owns GPU {local} of its node, not {device['local']} of node {device['node']}")
    power, wanted = float(device["power_mean_w"]), 200 + 100 * local
    require(abs(power - wanted) < 0.02 * wanted, f"GPU {local} drew {wanted} W, not {power}")

nodes = {s["index"] for s in table("series.csv") if s["scope"] == "node" and s["signal"].startswith("cpu")}
require(len(nodes) == asked.nodes, f"every node's processor was watched: {sorted(nodes)}")
triplepoint("report", merged, "-o", asked.folder / "page.html")
print(f"{asked.ranks} ranks on {asked.nodes} nodes: {len(spans)} spans, {len(steps)} measured steps")
