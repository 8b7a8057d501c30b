#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`triplepoint train` and `triplepoint characterize --measure` as processes.

    train_test.py TRIPLEPOINT TRAINER|none GROUP
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TRIPLEPOINT, TRAINER, *GROUPS = sys.argv[1:]
HERE = os.path.dirname(os.path.abspath(__file__))
FAKE = os.path.join(HERE, "fake_trainer.py")
SKIPPED = 77


class Case(unittest.TestCase):
    trainer = FAKE

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="triplepoint-train-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.environment = dict(os.environ, TRIPLEPOINT_TRAINER=self.trainer)

    def path(self, name):
        return os.path.join(self.folder, name)

    def call(self, *words, code=0):
        done = subprocess.run([TRIPLEPOINT, *words], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=250)
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}\n{done.stderr}")
        return done


class Train(Case):
    def test_the_job_is_written_out_without_being_run(self):
        shown = self.call("train", "--tp", "2", "--dry-run", "--launcher", "threads").stdout
        self.assertIn('model = "tiny-llama"', shown)
        self.assertIn("tensor_parallel_size = 2", shown)
        self.assertIn("--transport threads --ranks 8", shown)
        self.assertIn("OMPI_MCA_rmaps_base_oversubscribe=1", shown)

    def test_a_recorded_training_knows_its_job_steps_and_operations(self):
        self.call("train", "--launcher", "threads", "--steps", "4", "--warmup", "1", "-o", "a.run", "-q")
        self.call("report", "a.run", "-o", "a.html")
        self.assertIn("tiny-llama", open(self.path("a.html")).read())
        found = json.loads(self.call("compare", "a.run", "a.run", "--format", "json", "--all").stdout)
        rows = {row["key"]: row["values"][0] for section in found["sections"] for row in section["rows"]}
        self.assertGreater(rows["step_time_s"], 0)
        self.assertGreater(rows["tokens_per_s"], 0)
        self.assertIsNone(rows.get("power_mean_w"))
        self.assertEqual(found["runs"][0]["num_gpus"], 8)
        self.assertEqual(found["runs"][0]["origin"], "measured")

    def test_the_ranks_of_mpirun_are_ranks_of_the_run(self):
        if shutil.which("mpirun") is None:
            self.skipTest("mpirun is not installed")
        self.call("train", "--launcher", "mpirun", "--ranks", "4", "--steps", "3", "-o", "a.run", "-q")
        found = json.loads(self.call("compare", "a.run", "a.run", "--format", "json").stdout)
        self.assertEqual(found["runs"][0]["num_gpus"], 4)

    def test_a_training_that_fails_says_so(self):
        open(self.path("crash.toml"), "w").write('name = "crash"\nmodel = "tiny-gpt"\ncluster = "laptop"\nstack = "triplepoint-train"\n'
                                                 "[plan]\nglobal_batch_size = 16\n")
        failed = self.call("train", "crash.toml", "--launcher", "threads", code=1)
        self.assertIn("lost its mind", failed.stderr)

    def test_a_layout_that_cannot_be_is_refused_before_anything_starts(self):
        refused = self.call("train", "--tp", "3", code=1)
        self.assertIn("tensor_parallel_size 3", refused.stderr)

    def test_flags_behind_dashes_reach_the_trainer(self):
        shown = self.call("train", "--dry-run", "--launcher", "threads", "--", "--lr", "0.1").stdout
        self.assertIn("--lr 0.1", shown)


STUDY = """
[study]
title = "Three jobs"
[defaults]
cluster = "laptop"
stack = "triplepoint-train"
model = "tiny-llama"
[defaults.plan]
global_batch_size = 16
precision = "fp32"
[[job]]
name = "good"
tensor_parallel_size = 2
[[job]]
name = "{bad}"
pipeline_parallel_size = 2
[[job]]
name = "impossible"
tensor_parallel_size = 3
"""


class Laptop(Case):
    """Three layouts as two cores trained them (laptop/README.md): what one of them teaches predicts the two others."""

    def test_one_layout_teaches_the_two_others_within_ten_per_cent(self):
        run = lambda name: os.path.join(HERE, "laptop", f"{name}.run")
        result = lambda *words: json.loads(self.call(*words, "--format", "json").stdout)
        learned = {name: result("calibrate", run(name), "-o", name)["runs"] for name in ("dp", "tp", "pp")}
        for given, rows in learned.items():
            self.assertEqual(len(rows), 1)
            for other in learned.keys() - {given}:
                predicted = result("simulate", run(other), "--with", given)["step_time_s"]
                with self.subTest(given=given, other=other):
                    self.assertLess(abs(predicted / learned[other][0]["measured_s"] - 1), 0.10)


class Measure(Case):
    def study(self, bad):
        open(self.path("study.toml"), "w").write(STUDY.format(bad=bad))

    def measure(self, *words, code=0):
        done = self.call("characterize", "study.toml", "--measure", "--launcher", "threads", "--steps", "3", "--warmup", "1", "-o", "out",
                         "--format", "json", *words, code=code)
        return {job["name"]: job for job in json.loads(done.stdout)["jobs"]} if code == 0 else done

    def test_what_crashes_is_a_row_and_nothing_is_done_twice(self):
        self.study("crash")
        jobs = self.measure()
        self.assertEqual([jobs[name]["verdict"] for name in ("good", "crash", "impossible")], ["ok", "failed", "invalid"])
        self.assertIn("lost its mind", jobs["crash"]["diagnoses"][-1]["what"])
        self.assertEqual(jobs["good"]["origin"], "measured")
        before = os.stat(self.path("out/runs/good.run")).st_mtime_ns
        self.assertEqual(self.measure(), jobs)
        self.assertEqual(os.stat(self.path("out/runs/good.run")).st_mtime_ns, before)
        self.assertIn("lost its mind", open(self.path("out/report.html")).read())
        self.assertEqual(self.measure("--retry")["crash"]["verdict"], "failed")

    def test_what_hangs_is_ended_at_its_time(self):
        self.study("hang")
        jobs = self.measure("--timeout", "4 s")
        self.assertEqual(jobs["hang"]["verdict"], "failed")
        self.assertIn("time-out", jobs["hang"]["diagnoses"][-1]["what"])

    def test_repeats_are_kept_apart_and_the_middle_one_counts(self):
        self.study("other")
        jobs = self.measure("--repeats", "3")
        numbers = jobs["good"]["recording"]["numbers"]
        kept = [os.path.join("out/work", name) for name in os.listdir(self.path("out/work")) if name.startswith("good-") and name.endswith(".run")]
        found = json.loads(self.call("compare", *kept, "--format", "json", "--all").stdout)
        times = sorted(next(row["values"] for section in found["sections"] for row in section["rows"] if row["key"] == "step_time_s"))
        self.assertEqual(len(times), 3)
        self.assertAlmostEqual(jobs["good"]["step_time_s"] / times[1], 1, places=3)
        self.assertEqual(numbers["repeats"], 3)
        self.assertAlmostEqual(numbers["repeat_spread"], (times[2] - times[0]) / times[1], places=3)

    def test_scripts_alone_can_be_started_by_hand(self):
        self.study("other")
        self.call("characterize", "study.toml", "--measure", "--launcher", "threads", "--steps", "3", "--warmup", "1", "-o", "out",
                  "--scripts-only")
        for script in os.listdir(self.path("out/scripts")):
            subprocess.run(["bash", self.path("out/scripts/" + script)], env=self.environment, check=True, capture_output=True)
        del self.environment["TRIPLEPOINT_TRAINER"]  # nothing is started any more
        self.environment["TRIPLEPOINT_TRAINER"] = "/nonexistent"
        self.assertEqual(self.measure()["good"]["verdict"], "ok")

    def test_an_interrupt_keeps_what_is_finished_and_ends_what_runs(self):
        self.study("hang")
        words = [TRIPLEPOINT, "characterize", "study.toml", "--measure", "--launcher", "threads", "--steps", "3", "--warmup", "1", "-o", "out"]
        running = subprocess.Popen(words, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 120
        while not os.path.exists(self.path("out/runs/good.run")) and time.monotonic() < end:
            time.sleep(0.1)
        time.sleep(1)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130, said)
        self.assertIn("--measure -o out", said)
        self.assertTrue(os.path.exists(self.path("out/runs/good.run")))


class Real(Case):
    """The real trainer, where it is built."""
    trainer = TRAINER

    def setUp(self):
        if TRAINER == "none":
            self.skipTest("triplepoint-train is not built")
        super().setUp()

    def test_a_training_is_recorded_without_a_loss_of_marks(self):
        self.call("train", "--launcher", "threads", "--steps", "4", "-o", "a.run", "-q")
        found = json.loads(self.call("compare", "a.run", "a.run", "--format", "json", "--all").stdout)
        rows = {row["key"]: row["values"][0] for section in found["sections"] for row in section["rows"]}
        self.assertGreater(rows["tokens_per_s"], 0)
        self.assertEqual(found["runs"][0]["num_gpus"], 8)
        self.call("report", "a.run", "-o", "a.html")
        self.assertNotIn("marks were lost", open(self.path("a.html")).read())


    def test_numbers_that_no_training_has_are_refused(self):
        job = self.path("job.toml")
        with open(job, "w") as file:
            file.write('model = "tiny-gpt"\ncluster = "laptop"\nnodes = 1\nstack = "triplepoint-train"\n[plan]\nprecision = "fp32"\n'
                       'optimizer = "fp32_adamw"\n')
        for words in (["--steps", "99999999999999999999"], ["--seed", "-1"], ["--seed", "99999999999999999999"], ["--weight-decay", "inf"],
                      ["--warmup", "9223372036854775807"], ["--timeout", "inf"], ["--peak", "nan"], ["--steps", "1.5"]):
            done = subprocess.run([TRAINER, job, "--transport", "threads", *words], capture_output=True, text=True, timeout=60)
            self.assertIn(done.returncode, (1, 2), f"{words}: {done.stdout}")
            self.assertIn(words[0], done.stderr)
            self.assertNotIn("step 1", done.stdout)


if __name__ == "__main__":
    suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromName(group, sys.modules["__main__"]) for group in GROUPS)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.testsRun == len(result.skipped) else 0)
