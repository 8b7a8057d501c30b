#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every top-level key of a run is in the schema of results; those of other commands are in it or in the pages that describe them.

    documented_keys.py TRIPLEPOINT ROOT
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

JOB = "--model llama3-8b --cluster hgx-h200 --nodes 2 --tp 4 --gbs 32"
COMMANDS = [
    f"simulate {JOB}",
    f"simulate {JOB} --power-profile --tokens 1T",
    f"simulate {JOB} --pp 2 --fault gpu=3,power=0.25",
    f"simulate {JOB} --sequence-parallel --overlap pp",
    "simulate --model gpt3-175b --cluster hgx-h200 --tp 8",
    "simulate --task decode --model llama3-8b --cluster hgx-h200 --tp 8 --mbs 16 --gbs 16 -o FOLDER/a.run",
    "plan --model llama3-8b --cluster hgx-h200 --gbs 32 --fix tp=2|4,pp=1,cp=1 --explain 1,2",
    "place --model llama3-8b --cluster hgx-h200 --nodes 2 --tp 2 --pp 4 --gbs 32",
    f"steer {JOB} --fault node=1,fan=0.2@50s --duration 5min",
    "compare FOLDER/a.run FOLDER/a.run",
    "report FOLDER/a.run",
    "trace breakdown FOLDER/a.run",
    "export FOLDER/a.run --toml",
    "show models",
    "show hgx-h200",
    "snapshot",
    "doctor --look 1s",
]
PAGES = ("results-schema.md", "report.md", "traces.md", "measure/sensors.md", "glossary.md")
ANY_KEY = re.compile(r"^(models)$")  # named by what is asked for


def documented(program, root):
    schema = subprocess.run([program, "schema", "results"], capture_output=True, text=True, check=True).stdout
    text = "".join((root / "docs" / page).read_text() for page in PAGES)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))
    return {word for span in spans for word in re.findall(r"[a-z_0-9]+", span)}, json.loads(schema)["properties"].keys()


def printed(program, command, folder):
    words = command.replace("FOLDER", folder).split()
    done = subprocess.run([program, *words, "--format", "json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command}: {done.stderr}")
    return json.loads(done.stdout) if done.stdout else {}


def main(program, root):
    (words, of_runs), wrong = documented(program, root), 0
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            keys = printed(program, command, folder)
            for key in keys:
                if key not in of_runs and (command.startswith("simulate") or key not in words and not ANY_KEY.match(key)):
                    wrong += 1
                    print(f"no schema or page explains {key} of: triplepoint {command} --format json")
            if keys and "schema" not in keys:
                wrong += 1
                print(f"no schema: triplepoint {command} --format json")
    print(f"{len(COMMANDS)} commands, {wrong} objections")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2])))
