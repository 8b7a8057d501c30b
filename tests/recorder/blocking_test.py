# SPDX-License-Identifier: Apache-2.0
"""Drivers, files and programs that do not answer: no command waits for them.

    blocking_test.py TRIPLEPOINT FAKE_NVML [name of a test ...]

"Within two seconds" is the promise; the tests allow for a busy machine.
"""
import contextlib
import csv
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

triplepoint, nvml = sys.argv[1:3]
LOAD = """gpus 8
gpu * power hold 500
gpu * temperature hold 64
gpu * sm_clock hold 1755
"""
LAUNCHERS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES")
WITHIN = 6  # s; two are promised


class Blocking(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        self.environment = {k: v for k, v in os.environ.items() if k not in LAUNCHERS}
        self.environment["TRIPLEPOINT_NVML"] = nvml

    def script(self, *lines):
        (self.path / "script").write_text(LOAD + "\n".join(lines) + "\n")
        self.environment["TRIPLEPOINT_FAKE_NVML"] = str(self.path / "script")

    def start(self, *words):
        process = subprocess.Popen([triplepoint, *words], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()

    def record(self, *command, code=0, within=WITHIN):
        """The command's exit code comes soon after its end."""
        begin = time.monotonic()
        process = self.start("record", "-o", str(self.path / "a.run"), "--", *command)
        self.said, self.summary = process.communicate(timeout=120)
        self.assertEqual(process.returncode, code, self.summary)
        self.assertLess(time.monotonic() - begin, within, self.summary)

    def notes(self):
        with contextlib.closing(sqlite3.connect(self.path / "a.run")) as run:
            return "\n".join(text for text, in run.execute("SELECT text FROM note"))

    def last_times(self, signal_name):
        """Of each GPU's series, by its index: the last time in s."""
        target = self.path / "csv"
        subprocess.run([triplepoint, "export", self.path / "a.run", "--csv", target], check=True, capture_output=True)
        last = {}
        with open(target / "series.csv", newline="") as file:
            for row in csv.DictReader(file):
                if row["signal"] == signal_name:
                    index = int(row["index"])
                    last[index] = max(last.get(index, 0), int(row["time_ns"]) * 1e-9)
        return last

    def ends_by(self, process, number):
        begin = time.monotonic()
        process.send_signal(number)
        process.communicate(timeout=60)
        self.assertLess(time.monotonic() - begin, WITHIN, number)


class Record(Blocking):
    def test_a_driver_that_answers_no_more(self):
        self.script("block * field_values 2")
        self.record("sh", "-c", "sleep 5; exit 4", code=4, within=5 + WITHIN)
        self.assertIn("has not answered since", self.notes())

    def test_one_gpu_of_eight(self):
        self.script("block 3 field_values 2")
        self.record("sleep", "6", within=6 + WITHIN)
        self.assertIn("GPU 3 (0000:1d:00.0) has not answered since", self.notes())
        self.assertNotIn("GPU 4", self.notes())
        last = self.last_times("power_instant_w")
        self.assertEqual(sorted(last), list(range(8)))
        self.assertLess(last.pop(3), 4)
        self.assertGreater(min(last.values()), 5)

    def test_a_call_of_a_second(self):
        self.script("block 2 field_values 2 5")
        self.record("sleep", "8", within=8 + WITHIN)
        self.assertIn("answers again after", self.notes())
        self.assertGreater(self.last_times("power_instant_w")[2], 7)

    def test_calls_of_a_second_each(self):
        self.script("slow field_values 1")
        self.record("sh", "-c", "sleep 3; exit 5", code=5, within=3 + WITHIN)

    def test_a_driver_that_does_not_begin(self):
        self.script("block * init 0")
        self.record("sh", "-c", "echo begun; exit 3", code=3)
        self.assertEqual(self.said, "begun\n")
        self.assertIn("NVIDIA GPUs: no answer", self.notes())

    def test_the_command_starts_before_the_driver_is_awake(self):
        self.script("block * init 0 3")
        self.record("sh", "-c", "date +%s.%N; sleep 6", within=6 + WITHIN)
        self.assertEqual(len(self.last_times("power_instant_w")), 8)
        with contextlib.closing(sqlite3.connect(self.path / "a.run")) as run:
            first, = run.execute("SELECT value FROM manifest WHERE key = 'recording_s'").fetchone()
        self.assertLess(float(first), 6 + WITHIN)

    def test_a_driver_that_does_not_end(self):
        self.script("block * shutdown 0")
        self.record("sh", "-c", "sleep 1; exit 6", code=6, within=1 + WITHIN)

    def test_one_gpu_that_cannot_be_listed_and_one_that_cannot_be_opened(self):
        self.script("block 1 index 0", "block 5 temperature 0")
        self.record("sleep", "8", within=8 + WITHIN)
        self.assertIn("GPU 1: no answer", self.notes())
        self.assertIn("GPU 5: no answer", self.notes())
        self.assertEqual(len(self.last_times("power_instant_w")), 6)

    def test_files_and_programs_that_do_not_answer(self):
        self.script()
        tree = self.path / "sys"
        (tree / "class/powercap/intel-rapl:0").mkdir(parents=True)
        os.mkfifo(tree / "class/powercap/intel-rapl:0/name")
        self.environment["TRIPLEPOINT_SYSFS"] = str(tree)
        self.record("sh", "-c", "sleep 2; exit 2", code=2, within=2 + WITHIN)
        self.assertEqual(len(self.last_times("power_instant_w")), 8)
        self.assertIn("board sensors", self.notes())

    def test_ipmi_that_does_not_answer(self):
        self.script()
        dev = self.path / "dev"
        dev.mkdir()
        (dev / "ipmi0").touch()
        program = self.path / "ipmitool"
        program.write_text("#!/bin/sh\nexec sleep 1000\n")
        program.chmod(0o755)
        self.environment.update({"TRIPLEPOINT_DEV": str(dev), "TRIPLEPOINT_IPMITOOL": str(program)})
        self.record("sh", "-c", "sleep 2; exit 2", code=2, within=2 + WITHIN)
        self.assertEqual(len(self.last_times("power_instant_w")), 8)

    def test_signals(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self.script("block * field_values 1")
            process = self.start("record", "-o", str(self.path / "a.run"), "--", "sleep", "60")
            time.sleep(3)
            self.ends_by(process, number)


class Others(Blocking):
    def test_signals(self):
        commands = [["snapshot", "--every", "500ms"], ["doctor", "--look", "60s"], ["exporter", "--listen", "127.0.0.1:0"]]
        for lines in (["block * init 0"], ["block * field_values 1", "block * temperature 1"]):
            for words in commands:
                for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                    with self.subTest(words=words, lines=lines, number=number):
                        self.script(*lines)
                        process = self.start(*words)
                        time.sleep(1.5)
                        self.ends_by(process, number)

    def test_snapshot_of_the_others(self):
        self.script("block 3 field_values 0", "block 3 temperature 0")
        process = self.start("snapshot", "--format", "json")
        said = json.loads(process.communicate(timeout=60)[0])
        self.assertEqual([gpu["answers"] for gpu in said["gpus"]], [number != 3 for number in range(8)])
        self.assertTrue(any(gap["what"] == "GPU 3" for gap in said["missing"]))

    def test_discover_describes_no_node_whose_gpu_does_not_answer(self):
        self.script("block 3 temperature 0", "block 3 architecture 0")
        process = self.start("discover")
        errors = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 1)
        self.assertIn("GPU 3: no answer", errors)

    def test_the_exporter_says_which_gpu_is_down(self):
        self.script("block 6 field_values 2", "block 6 temperature 2")
        process = self.start("exporter", "--listen", "127.0.0.1:0")
        address = process.stderr.readline().split()[4].removesuffix("/metrics")
        for _ in range(200):
            time.sleep(0.2)
            with urllib.request.urlopen(address + "/metrics", timeout=10) as page:
                up = {line.split('gpu="')[1].split('"')[0]: line.split()[-1] for line in page.read().decode().splitlines()
                      if line.startswith("triplepoint_gpu_up{")}
            if up.get("6") == "0":
                break
        self.assertEqual([up[str(number)] for number in range(8)], ["1"] * 6 + ["0", "1"])
        self.ends_by(process, signal.SIGTERM)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
