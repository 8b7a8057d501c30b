# SPDX-License-Identifier: Apache-2.0
"""The recorder as a process, against a made-up driver.

    recorder_test.py TRIPLEPOINT FAKE_NVML [--kills N] [name of a test ...]
"""
import argparse
import contextlib
import csv
import os
import pathlib
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unittest

parser = argparse.ArgumentParser()
parser.add_argument("triplepoint")
parser.add_argument("nvml")
parser.add_argument("--kills", type=int, default=6)
parser.add_argument("tests", nargs="*")
asked = parser.parse_intermixed_args()

LOAD = """gpus 8
gpu * power steps 0:650 0.41:310 0.58:480 0.67:150 every 0.73
gpu * temperature hold 64
gpu * sm_clock hold 1755
"""
LAUNCHERS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES")


class Recorded(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        self.environment = {k: v for k, v in os.environ.items() if k not in LAUNCHERS}
        self.environment["TRIPLEPOINT_NVML"] = asked.nvml
        self.script(LOAD)

    def script(self, text):
        (self.path / "script").write_text(text)
        self.environment["TRIPLEPOINT_FAKE_NVML"] = str(self.path / "script")

    def start(self, *words, name="a.run", **more):
        more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": self.environment, **more}
        flags = [] if "--interval" in words else ["--interval", "20ms"]
        at = words.index("--")
        return subprocess.Popen([asked.triplepoint, "record", "-o", str(self.path / name), *flags, *words[:at], *words[at:]], **more)

    def record(self, *words, code=0, **more):
        process = self.start(*words, **more)
        self.said, self.summary = process.communicate(timeout=120)
        self.assertEqual(process.returncode, code, self.summary)

    def tables(self, name="a.run"):
        """Of series.csv: signal, index -> list of (time in s, value)."""
        target = self.path / "csv"
        subprocess.run([asked.triplepoint, "export", self.path / name, "--csv", target], check=True, capture_output=True)
        series = {}
        with open(target / "series.csv", newline="") as file:
            for row in csv.DictReader(file):
                value = (int(row["time_ns"]) * 1e-9, float(row["value"]))
                series.setdefault((row["signal"], row["scope"] != "node", int(row["index"])), []).append(value)
        return series

    def power(self, name="a.run"):
        return self.tables(name)[("power_instant_w", True, 0)]

    def wait_until_there(self, name="a.run", seconds=30):
        """A growing run with a second of values in it."""
        for _ in range(seconds * 20):
            tail = self.path / (name + ".tail")
            if tail.exists() and tail.stat().st_size > 1000:
                return
            time.sleep(0.05)
        self.fail("nothing was recorded")


class Command(Recorded):
    def test_streams_and_exit_codes_are_the_commands(self):
        self.record("--", "sh", "-c", "echo out; echo err >&2; exit 7", code=7)
        self.assertEqual(self.said, "out\n")
        self.assertTrue(self.summary.startswith("err\n"))
        self.assertIn("8 x NVIDIA H100", self.summary)
        self.record("-q", "--", "sh", "-c", "kill -KILL $$", code=137)
        self.assertNotIn("NVIDIA", self.summary)
        self.assertTrue((self.path / "a.1.run").exists())

    def test_words_of_the_command_are_not_ours(self):
        self.record("--", "echo", "--interval", "-o", "--", "x")
        self.assertEqual(self.said, "--interval -o -- x\n")

    def test_a_command_that_is_not_there(self):
        self.record("--", "no-such-command", code=127)
        self.assertIn("no-such-command", self.summary)
        self.assertEqual(list(self.path.glob("*.run*")), [])

    def test_a_place_that_cannot_be_written(self):
        self.record("--", "touch", str(self.path / "ran"), code=1, name="no/such/folder/a.run")
        self.assertFalse((self.path / "ran").exists())

    def test_signals_reach_the_command(self):
        for name in ("TERM", "INT", "USR1"):
            process = self.start("--", "sh", "-c", f"trap 'exit 9' {name}; echo ready; while :; do sleep 0.05; done")
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.send_signal(getattr(signal, "SIG" + name))
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, 9, name)


class Content(Recorded):
    def test_energy_power_and_cost(self):
        self.record("--", "sleep", "6")
        power, counter = self.power(), self.tables()[("energy_j", True, 0)]
        mean = (650 * 0.41 + 310 * 0.17 + 480 * 0.09 + 150 * 0.06) / 0.73
        seconds = counter[-1][0] - counter[0][0]
        self.assertAlmostEqual((counter[-1][1] - counter[0][1]) / seconds / mean, 1, delta=0.06)
        # An update every 100 ms, each kept once, though there are five ticks to it.
        self.assertLessEqual(len(power), seconds / 0.1 + 3)
        self.assertIn("counter", self.summary)
        self.assertIn("of one core", self.summary)

    def test_throttling_between_two_polls_is_said(self):
        self.script(LOAD + "counters 0\ngpu 3 hw_thermal_slowdown steps 0:0 2.035:1 2.065:0\n")
        self.record("--interval", "100ms", "--", "sleep", "4")
        self.assertIn("GPU 3", self.summary)
        self.assertIn("polling the reasons missed it", self.summary)

    def test_a_gpu_that_falls_off_the_bus(self):
        self.script(LOAD + "lost 5 1.5\n")
        self.record("--", "sleep", "4")
        series = self.tables()
        self.assertLess(series[("power_instant_w", True, 5)][-1][0], 2.5)
        self.assertGreater(series[("power_instant_w", True, 4)][-1][0], 3)
        self.assertRegex(self.summary, r"GPU \d+\.?\d* kJ \+- .* of 7 of 8 GPUs; GPU 5 lost at 1\.\d s")
        with contextlib.closing(sqlite3.connect(self.path / "a.run")) as run:
            self.assertEqual(run.execute("SELECT value FROM manifest WHERE key = 'gpus_without_energy'").fetchone(), (1,))

    def test_a_command_too_short_for_energy(self):
        self.record("--", "true")
        self.assertIn("too short to measure energy", self.summary)
        self.assertNotIn("+-", self.summary)

    def test_a_machine_without_gpus(self):
        self.environment["TRIPLEPOINT_NVML"] = "no-such-library.so"
        self.record("--", "sleep", "2")
        self.assertIn("no GPU", self.summary)
        self.assertTrue(any(signal == "cpu_user_s" for signal, _, _ in self.tables()))


class Ranks(Recorded):
    """Ranks that the command starts, as torchrun does, and that mark nothing."""
    TORCHRUN = """
import os, subprocess, sys
first = int(sys.argv[1])
workers = [subprocess.Popen(["sleep", "2"], env={**os.environ, "RANK": str(first + i), "LOCAL_RANK": str(i), "WORLD_SIZE": "16",
           "LOCAL_WORLD_SIZE": "8"}) for i in range(8)]
for worker in workers:
    worker.wait()
"""

    def ranks(self):
        with contextlib.closing(sqlite3.connect(self.path / "a.run")) as run:
            facts = dict(run.execute("SELECT key, value FROM fact UNION SELECT key, value FROM manifest"))
            return dict(run.execute("SELECT local, rank FROM device")), facts

    def test_workers_are_found_by_their_environment(self):
        self.record("--", sys.executable, "-c", self.TORCHRUN, "0")
        ranks, facts = self.ranks()
        self.assertEqual(ranks, {i: i for i in range(8)})
        self.assertEqual((facts["launcher"], facts["world_size"]), ("torchrun", 16))
        self.assertEqual(len(facts["rank_processes"].split(",")), 8)

    def test_visible_devices_of_the_workers(self):
        self.environment["CUDA_VISIBLE_DEVICES"] = "7,6,5,4,3,2,GPU-5eed0001,0"
        self.record("--", sys.executable, "-c", self.TORCHRUN, "0")
        self.assertEqual(self.ranks()[0], {7 - i: i for i in range(8)})

    def test_torchrun_inside_of_srun(self):
        self.environment.update({"SLURM_JOB_ID": "4", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_NTASKS": "1",
                                 "SLURM_NNODES": "1", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_TASKS_PER_NODE": "1"})
        self.record("--", sys.executable, "-c", self.TORCHRUN, "8")
        self.assertEqual(self.ranks()[0], {i: 8 + i for i in range(8)})


    def test_the_driver_sees_who_computes_where(self):
        """MIG instances by their own UUID: nothing but the driver's list tells the GPU."""
        self.environment["CUDA_VISIBLE_DEVICES"] = ",".join(f"MIG-5f0cd0e4-7d3b-{i}" for i in range(8))
        (self.path / "proc/self/ns").mkdir(parents=True)
        os.symlink("pid:[4026531836]", self.path / "proc/self/ns/pid")
        self.environment["TRIPLEPOINT_PROC"] = str(self.path / "proc")
        self.script(LOAD + f"processes {self.path}/list\n")
        listing = self.TORCHRUN.replace("for worker in workers:", f"""
with open({str(self.path / 'list')!r}, "w") as file:
    for i, worker in enumerate(workers):
        print((i + 3) % 8, worker.pid, file=file)
for worker in workers:""").replace('"sleep", "2"', '"sleep", "8"')
        self.record("--", sys.executable, "-c", listing, "0")
        self.assertEqual(self.ranks()[0], {(i + 3) % 8: i for i in range(8)})


class Life(Recorded):
    def test_a_growing_run_is_read_by_everybody(self):
        process = self.start("--", "sleep", "8")
        self.wait_until_there()
        for words in (["report", self.path / "a.run", "-o", self.path / "a.html"], ["export", self.path / "a.run", "--csv", self.path / "csv"]):
            subprocess.run([asked.triplepoint, *words], check=True, capture_output=True, timeout=60)
        self.assertGreater((self.path / "a.html").stat().st_size, 1000)
        early = self.power()
        process.communicate(timeout=60)
        late = self.power()
        self.assertEqual(late[:len(early)], early)
        self.assertFalse((self.path / "a.run.tail").exists())

    def test_killed_at_random_moments(self):
        chosen, losses = random.Random(7), []

        def kill_one(number, seconds):
            name = f"k{number}.run"
            process = self.start("--", "sh", "-c", "echo $$; exec sleep 60", name=name)
            command = int(process.stdout.readline())
            self.wait_until_there(name)
            time.sleep(seconds)
            # The recorder, or the command; a node takes both with it.
            process.kill()
            killed = time.monotonic_ns()
            os.kill(command, signal.SIGKILL)
            process.communicate()
            ended.append((name, killed))

        ended = []
        waits = [chosen.uniform(0, 2.5) for _ in range(asked.kills)]
        for first in range(0, asked.kills, 6):
            group = [threading.Thread(target=kill_one, args=(first + i, wait)) for i, wait in enumerate(waits[first:first + 6])]
            for thread in group:
                thread.start()
            for thread in group:
                thread.join()
        self.assertEqual(len(ended), asked.kills)
        for name, killed in ended:
            power = self.power(name)
            subprocess.run([asked.triplepoint, "trace", "merge", self.path / name, "-o", self.path / "m.run"], check=True, capture_output=True)
            with contextlib.closing(sqlite3.connect(self.path / "m.run")) as run:
                epoch, = run.execute("SELECT value FROM manifest WHERE key = 'epoch_monotonic_ns'").fetchone()
                notes = " ".join(text for text, in run.execute("SELECT text FROM note"))
            self.assertIn("not finished", notes)
            losses.append((killed - int(epoch)) * 1e-9 - power[-1][0])
        losses.sort()
        print(f"{asked.kills} kills: lost {losses[len(losses) // 2]:.2f} s in the middle, {losses[-1]:.2f} s at most")

    def test_stopped_and_continued(self):
        process = self.start("--", "sleep", "6")
        self.wait_until_there()
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        process.send_signal(signal.SIGCONT)
        self.summary = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 0)
        self.assertIn("ticks lost", self.summary)
        times = [t for t, _ in self.power()]
        self.assertEqual(times, sorted(times))
        self.assertGreater(max(b - a for a, b in zip(times, times[1:])), 1)

    def test_no_room_for_the_recording(self):
        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (30000, resource.RLIM_INFINITY))
        self.record("--", "sleep", "6", preexec_fn=small_files)
        self.assertIn("free some space", self.summary)
        lost = float(self.summary.split(" s are lost")[0].split()[-1])
        power = self.power()
        self.assertGreater(len(power), 5)
        self.assertAlmostEqual(lost, 6 - power[-1][0], delta=1.5)
        self.record("-q", "--strict", "--", "sleep", "4", preexec_fn=small_files, code=1, name="b.run")
        self.record("-q", "--strict", "--", "sh", "-c", "sleep 4; exit 3", preexec_fn=small_files, code=3, name="c.run")
        self.record("-q", "--strict", "--", "sleep", "1", name="d.run")

    def test_many_ranks_at_once(self):
        ranks = 64
        processes = []
        for rank in range(ranks):
            self.environment.update({"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
                                     "OMPI_COMM_WORLD_SIZE": str(ranks), "OMPI_COMM_WORLD_LOCAL_SIZE": str(ranks),
                                     "PMIX_NAMESPACE": f"test-{os.getpid()}", "CUDA_VISIBLE_DEVICES": str(rank % 8)})
            processes.append(self.start("--", "sh", "-c", f"exit {rank % 3}"))
        for rank, process in enumerate(processes):
            process.communicate(timeout=120)
            self.assertEqual(process.returncode, rank % 3)
        self.assertEqual([f.name for f in self.path.glob("*.run*")], ["a.run"])
        self.assertGreater(len(self.power()), 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *asked.tests])
