# SPDX-License-Identifier: Apache-2.0
"""triplepoint snapshot: table, JSON and CSV of eight GPUs; absent is not zero; Ctrl-C ends a series."""
import csv
import io
import json
import subprocess

from live import INTERRUPT, PATIENCE_S, PROGRAM, environment, expect, run

table = run("snapshot")
expect(table.returncode == 0, table.stderr)
expect("power cap 31%" in table.stdout and "heat 12%" in table.stdout, "causes in the table:\n" + table.stdout)

snapshot = json.loads(run("snapshot", "--format", "json").stdout)
expect(len(snapshot["gpus"]) == 8, "eight GPUs")
readings = {(r.get("gpu"), r["signal"]): r for r in snapshot["readings"]}
expect(abs(readings[5, "power_instant_w"]["value"] - 699) < 1, "instant power of GPU 5")
expect(abs(readings[5, "throttle_ns_sw_power_cap"]["rate_per_s"] / 1e9 - 0.31) < 0.1, "residency of GPU 5")
expect(readings[0, "power_average_w"]["kind"] == "average", "an average is called one")
expect((None, "node_power_w") not in readings, "no sensor, no reading")
expect(all(gap["what"] and gap["why"] for gap in snapshot["missing"]), "gaps have a reason")

rows = list(csv.DictReader(io.StringIO(run("snapshot", "--format", "csv", "--devices", "2,5").stdout)))
expect({row["gpu"] for row in rows if row["gpu"]} == {"2", "5"}, "--devices chooses")
expect(all(float(row["age_s"]) < 60 for row in rows), "ages are there")

none = run("snapshot", "--devices", "none")
expect(none.returncode == 0 and "no GPU" in none.stdout, "a node without GPUs:\n" + none.stdout + none.stderr)
wrong = run("snapshot", "--devices", "17")
expect(wrong.returncode == 1 and "17" in wrong.stderr, "a GPU that is not there: " + wrong.stderr)

endless = subprocess.Popen([PROGRAM, "snapshot", "--format", "json", "--every", "200ms"], env=environment(),
                           stdout=subprocess.PIPE, text=True)
expect(len([json.loads(endless.stdout.readline()) for _ in range(2)]) == 2, "a line each")
endless.send_signal(INTERRUPT)
rest = endless.stdout.read()
expect(endless.wait(PATIENCE_S) == 0, "Ctrl-C ends a series as it should")
expect(rest == "" or rest.endswith("}\n"), "no half line")
