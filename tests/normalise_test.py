#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows of published tables become the jobs that their authors meant, and none stops the others (validation/normalise.py)."""
import csv
import pathlib
import random
import sys
import tempfile
import time
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "validation"))
import normalise  # noqa: E402
from normaliser import jobs, library, tables  # noqa: E402
from normaliser.cells import Row, switch, number, number_after  # noqa: E402


def table(name):
    return normalise.read(ROOT / "tests" / "rows" / name)[1]


class PublishedRows(unittest.TestCase):
    def test_every_row_is_read_as_its_author_meant_it(self):
        for line, cells in enumerate(table("published.csv")):
            expect = cells.pop("expect")
            row = jobs.canonical(cells, line)
            with self.subTest(row=cells["row_id"], skip=row.get("skip")):
                if expect == "skip":
                    self.assertTrue(row.get("skip"))
                    continue
                self.assertFalse(row.get("skip"))
                for wanted in filter(None, expect.split("; ")):
                    key, value = wanted.split("=", 1)
                    self.assertEqual(normalise.cell(row.get(key, "")), value, key)

    def test_pairs_that_differ_in_one_word_differ_as_jobs(self):
        base = {"gpu": "H100-SXM-80GB", "n_gpus": "64", "model": "Llama-3-8B", "seq": "8192", "precision": "BF16", "gbs": "128", "mbs": "1", "tp": "2", "pp": "1",
                "framework": "Megatron-Core", "tokens_per_s_per_gpu": "1", "row_id": "pair"}
        moe = {**base, "model": "Mixtral 8x7B", "ep": "8"}
        torch = {**base, "tp": "1", "gbs": "", "framework": "PyTorch FSDP", "dp_sharding": "FSDP"}
        pairs = [(base, "extra", "sequence parallel", "no sequence parallel"), (base, "extra", "CUDA graphs", "no CUDA graphs"), (base, "recompute", "full", "none"),
                 (base, "extra", "flash attention", "without flash attention"), (base, "extra", "tp_comm_overlap=True", "tp_comm_overlap=False"),
                 (base, "extra", "overlap grad reduce", "overlap grad reduce: off"), (base, "precision", "FP8", "BF16"), (base, "precision", "FP8 tensorwise", "FP8 rowwise"),
                 (base, "recompute", "selective: layernorm", "selective: mlp"), (base, "extra", "grad reduce in fp32", "grad reduce in bf16"),
                 (moe, "extra", "DeepEP", "alltoall dispatcher"), (moe, "recompute", "moe_act", "layernorm"), (moe, "extra", "EP overlap", "no EP overlap"),
                 (torch, "dp_sharding", "DDP", "FSDP"), (torch, "dp_sharding", "FULL_SHARD", "SHARD_GRAD_OP"), (torch, "dp_sharding", "ZeRO-2", "ZeRO-3"),
                 (torch, "extra", "torch.compile", "no torch.compile"), (torch, "extra", "activation checkpointing", "no activation checkpointing"),
                 (torch, "recompute", "full", "selective op"), (torch, "dp_sharding", "HSDP", "FSDP"), (torch, "extra", "pure bf16", ""),
                 (torch, "extra", "fused RMSNorm", "no fused RMSNorm"), (torch, "extra", "chunked cross entropy", ""), (torch, "extra", "prefetch=2", "")]
        for cells, column, one, other in pairs:
            with self.subTest(column=column, one=one, other=other):
                made = [jobs.canonical({**cells, column: words}, 1) for words in (one, other)]
                for row in made:
                    self.assertFalse(row.get("skip"))
                    row.pop("assumptions")
                self.assertNotEqual(*made)


class HostileRows(unittest.TestCase):
    def test_hostile_cells_are_skipped_with_a_reason_or_read_without_them(self):
        for line, cells in enumerate(table("hostile.csv")):
            row = jobs.canonical(cells, line)
            with self.subTest(row=cells["row_id"]):
                self.assertNotIn("could not be read", row.get("skip", ""))
                self.assertTrue(row.get("skip") is None or len(row["skip"]) > 20)

    def test_no_mixture_of_cells_raises(self):
        rows = table("published.csv")
        odd = ["", "0", "-1", "nan", "1e300", "x", "8x8", "7", "ZeRO-3", "HSDP (0 x 0)", "(", "[", "\\", "a" * 5000, "1,2,3", None, "full", "block", "8x7B", "A0B", "tp=0",
               "grad_accum=0", "0 kv heads", "interleaved", "zero1=0", "ISP", "capacity factor 0", "rank 0"]
        chance = random.Random(1)
        begun = time.monotonic()
        for number_of_row in range(1500):
            cells = dict(chance.choice(rows))
            for _ in range(chance.randint(1, 4)):
                cells[chance.choice(list(cells))] = chance.choice(odd)
            row = jobs.canonical(cells, number_of_row)
            self.assertNotIn("could not be read", row.get("skip", ""), cells)
        self.assertLess(time.monotonic() - begun, 60)


class Words(unittest.TestCase):
    def test_what_is_switched_off_is_off(self):
        for text, expected in (("flash attention", True), ("no flash attention", False), ("flash attention: off", False), ("without flash attention", False),
                               ("flash attention=0", False), ("flash attention enabled", True), ("", None)):
            self.assertIs(switch(text, "flash.?attention"), expected, text)

    def test_numbers_are_read_as_tables_write_them(self):
        for text, value in (("16,384", 16384), ("~0.35", 0.35), ("25.3 GB", 25.3)):
            self.assertEqual(number(text, "x"), value)
        self.assertEqual(Row({"seq": "8k"}, 1).count("seq"), 8192)
        self.assertEqual(number_after("grad_accum=4; runs=10", "grad_accum"), 4)
        self.assertIsNone(number_after("TP 1-8", "tp"))

    def test_cells_that_say_nothing_say_nothing(self):
        row = Row({"tp": "n/a", "pp": "0", "mbs": "auto"}, 1)
        self.assertEqual([row.count(title) for title in ("tp", "pp", "mbs", "cp")], [None] * 4)


class Tables(unittest.TestCase):
    def test_a_sweep_without_mlp_widths_is_read(self):
        cells = dict(name="3.57G_dp8_tp1", seq_len="4096", mbs="2", batch_accum="16", dp="8", pp="1", tp="1", zero_stage="0", hidden_size="3072", num_layers="28", num_heads="24",
                     num_kv_heads="24", interm_dim="", vocab_size="131072", num_params="3.57", status="Success")
        cells["tok/s/gpu"] = "1000"
        cells["Mem Alloc (GB)"] = "25"
        self.assertEqual(tables.kind_of(list(cells)), "sweep")
        row = jobs.canonical(tables.cells_of("sweep", cells, 0), 1)
        self.assertFalse(row.get("skip"))
        self.assertEqual(row["plan.global_batch_size"], 256)
        self.assertEqual(row["mem_standing_gib"], 25)

    def test_the_file_has_one_line_a_row_and_no_unknown_column(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "jobs.csv"
            normalise.write(normalise.normalised(ROOT / "tests" / "rows" / "published.csv"), path)
            with open(path, newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), len(table("published.csv")))
        fields = (ROOT / "triplepoint" / "spec" / "fields.h").read_text(encoding="utf-8")
        for key in rows[0]:
            if key.split(".")[0] in ("model", "cluster", "stack", "plan", "environment") and "." in key:
                self.assertIn(f'visit("{key.split(".")[-1]}"', fields)


class Rules(unittest.TestCase):
    def test_no_rule_names_a_family_or_a_row(self):
        families = {path.name for path in (ROOT / "validation").iterdir() if (path / "jobs.csv").exists()} - {"torchtitan", "fms-fsdp", "megatron-llama"}  # names of software
        for file in (ROOT / "validation" / "rules").glob("*.toml"):
            text = file.read_text(encoding="utf-8")
            tomllib.loads(text)
            for family in families:
                self.assertNotIn(family, text)

    def test_all_that_rules_name_is_in_the_library(self):
        stacks = set()
        for rule in library.rules("frameworks")["framework"]:
            for part in (rule, *rule.get("when", [])):
                stacks.add(part.get("stack"))
                for key in ("optimizer", "sharded_optimizer"):
                    if key in part:
                        library.optimizer(part[key])
        self.assertLessEqual(len(stacks - {None}), 10)
        for _, name in library.rules("models")["names"]:
            self.assertIn(name, library.models())
        for board in library.rules("machines")["board"]:
            self.assertEqual(library.cluster(board["cluster"])["gpu"], board["gpu"])


if __name__ == "__main__":
    unittest.main()
