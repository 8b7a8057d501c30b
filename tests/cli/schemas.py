#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`triplepoint schema`: every shipped file fits the schema of its kind, and a broken one is refused by schema and reader alike.

    schemas.py TRIPLEPOINT ROOT
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import jsonschema
    import tomllib
except ImportError:
    print("skipped: python 3.11 and its package jsonschema (python3-jsonschema) are needed")
    sys.exit(77)

PROGRAM, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
DATA = ROOT / "data"
BLOCKS = {"kernels", "power", "thermal", "governor", "sensor", "variability"}


def kind_of(file):
    """The kind of a shipped file; None for those that another reader reads."""
    parts = file.relative_to(ROOT).parts
    if parts[0] != "data":
        root = tomllib.loads(file.read_text())
        return "study" if "study" in root else "job" if "cluster" in root else None
    if parts[1] == "calibrations":
        return "calibration" if file.stem in BLOCKS else None
    folders = {"models": "model", "gpus": "gpu", "clusters": "cluster", "stacks": "stack", "optimizers": "optimizer", "records": "records", "studies": "study"}
    return folders.get(parts[1])


def run(*words, data=DATA):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, env={**os.environ, "TRIPLEPOINT_DATA": str(data)}, timeout=120)


def validator(kind):
    schema = json.loads(run("schema", kind).stdout)
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


# Of each kind a file, and edits that break it: what is replaced (a pattern), and by what.
BROKEN = {
    "job": ("examples/paper-layout.toml", [
        (r"\[plan\]", "[plan]\ntensor_paralel_size = 2", "unknown key"), (r"^recompute *=.*", 'recompute = "ful"', "unknown word"),
        (r"^cluster *=.*", "", "missing key"), (r"\Z", '\n[environment]\npower_limit = "600 K"\n', "wrong unit"),
        (r"\Z", "\n[environment]\npower_limit = 600\n", "no unit"), (r"^tensor_parallel_size *=.*", 'tensor_parallel_size = "8"', "text for a count"),
        (r"^model *=.*", "model.num_layers = 12", "a model without base or other keys"),
        (r"\Z", "\n[[environment.faults]]\ngpu = 3\n", "a fault without its kind")]),
    "study": ("examples/microbatches.toml", [
        (r"^title *=.*", "", "missing key"), (r"\[\[grid\]\]", "[[grid]]\ntensor_paralel_size = 2", "unknown key"),
        (r"\[\[grid\]\]", '[[grid]]\nrecompute = ["ful"]', "unknown word"),
        (r"\Z", '\n[[job]]\nname = "x"\nenvironment.ambient = "30 K"\n', "wrong unit")]),
    "model": ("data/models/mixtral-8x7b.toml", [
        (r"^num_layers", "num_leyers", "unknown key"), (r"^num_layers.*", "", "missing key"), (r"^num_experts.*", "", "missing key of a table"),
        (r"^activation *=.*", 'activation = "relu"', "unknown word"), (r"^biases *=.*", "biases = 0", "count for a switch"),
        (r"^kind *=.*", 'kind = "guess"', "unknown kind of source"), (r"^cite *=.*", "", "source without citation")]),
    "gpu": ("data/gpus/h200.toml", [
        (r"^tdp *=.*", 'tdp = "700 V"', "unknown unit"), (r"^tdp *=.*", 'tdp = "700 J"', "wrong unit"), (r"^title.*", "", "missing key"),
        (r"^memory\b", "memry", "unknown key")]),
    "cluster": ("data/clusters/hgx-h200.toml", [
        (r"^oversubscription.*", "", "missing key"), (r"^cooling *=.*", 'cooling = "water"', "unknown word"),
        (r"^inlet *=.*", 'inlet = "25 W"', "wrong unit"), (r"^inlet *=.*", 'inlet = "25 K"', "difference for a reading")]),
    "stack": ("data/stacks/megatron-core.toml", [
        (r"^kernel_launch.*", "", "missing key"), (r"^kernel_launch *=.*", 'kernel_launch = "4 W"', "wrong unit"),
        (r"^cuda_graphs *=.*", 'attention_kernels = "flash"', "unknown word")]),
    "optimizer": ("data/optimizers/distributed_fused_adam.toml", [
        (r"^moment_bytes.*", "", "missing key"), (r"^moment_bytes *=.*", 'moment_bytes = "8 B"', "text for a number"),
        (r"^moment_bytes *=.*", "moment_bytes = -8", "negative number")]),
    "records": ("data/records/pubmedqa.toml", [
        (r"^lengths.*", "", "missing key"), (r"^shares *=.*", 'shares = "all"', "text for a list"),
        (r"^lengths *=.*", 'lengths = ["100 B"]', "text for a count")]),
    "calibration": ("data/calibrations/h200/power.toml", [
        (r"^clock_exponent.*", "", "missing key"), (r"^idle\b", "idel", "unknown key"), (r"^idle *=.*", 'idle = "75 J"', "wrong unit")]),
}


def reader_refuses(kind, text, folder):
    """What the program says of the file, as its user gives it."""
    if kind == "calibration":  # the only kind that is read from the library alone
        data = folder / "data"
        shutil.copytree(DATA, data)
        (data / "calibrations/h200/power.toml").write_text(text)
        return run("show", "h200", data=data)
    file = folder / f"{kind}.toml"
    file.write_text(text)
    return run("characterize", str(file), "-o", str(folder / "out")) if kind == "study" else run("show", str(file))


class Schemas(unittest.TestCase):
    def test_every_shipped_file_fits_its_schema(self):
        validators, count = {}, 0
        for folder in ("data", "examples", "validation/layouts"):
            for file in sorted((ROOT / folder).rglob("*.toml")):
                kind = kind_of(file)
                if kind is None:
                    continue
                if kind not in validators:
                    validators[kind] = validator(kind)
                problems = [f"{'.'.join(map(str, error.absolute_path))}: {error.message[:300]}"
                            for error in validators[kind].iter_errors(tomllib.loads(file.read_text()))]
                self.assertEqual(problems, [], file)
                count += 1
        self.assertGreater(count, 200)
        self.assertEqual(set(validators), set(BROKEN))

    def test_broken_files_are_refused_by_schema_and_reader(self):
        for kind, (sample, edits) in BROKEN.items():
            check, text = validator(kind), (ROOT / sample).read_text()
            for pattern, instead, what in edits:
                broken, count = re.subn(pattern, instead.replace("\\", r"\\"), text, count=1, flags=re.M)
                with self.subTest(kind=kind, what=what), tempfile.TemporaryDirectory() as folder:
                    self.assertEqual(count, 1)
                    self.assertFalse(check.is_valid(tomllib.loads(broken)), broken)
                    said = reader_refuses(kind, broken, pathlib.Path(folder))
                    self.assertEqual(said.returncode, 1, said.stdout + said.stderr)

    def test_an_unbroken_copy_is_read(self):
        for kind, (sample, _) in BROKEN.items():
            if kind == "study":  # would simulate
                continue
            with self.subTest(kind=kind), tempfile.TemporaryDirectory() as folder:
                said = reader_refuses(kind, (ROOT / sample).read_text(), pathlib.Path(folder))
                self.assertEqual(said.returncode, 0, said.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
