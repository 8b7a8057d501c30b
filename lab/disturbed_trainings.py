#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real trainings, really disturbed: does `triplepoint why` name what was done to them, and its seconds?

    python3 lab/disturbed_trainings.py TRIPLEPOINT [--pairs 4] [--fair 200] [--only KIND] [--keep FOLDER]

Two ranks of triplepoint-train, one on each of the first two cores, train a small model for some seconds, recorded: once fairly, once disturbed. `why
DISTURBED --against FAIR` is asked. Truth is the difference of the mean step, as the trainer prints it, to that of the fair runs before and after, or
how long all ranks were stopped. A cause is named where it is the largest part, and its seconds are right within 15 % of the truth. Fair runs are
asked against each of the last four fair ones: any part of more than the first step blames somebody, unless the answer says that the machine was busy.
As root all of it runs in a control group that comes before other programs; without one (or with fewer than two cores) limits are left out. Exit code
1 where less than 95 % are named or anybody is blamed.
"""
import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

GROUPS = "/sys/fs/cgroup/cpu"
GROUP = os.path.join(GROUPS, "triplepoint_lab")
STEPS, WARMUP = 60, 5
RECENT = 4  # fair runs that a further one is asked against
JOB = """name = "small"
model = "tiny-llama"
cluster = "laptop"
stack = "triplepoint-train"
sequence_length = 64
[plan]
global_batch_size = {batch}
micro_batch_size = {micro}
precision = "fp32"
sharding = "none"
recompute = "{recompute}"
"""


def write(path, value):
    with open(path, "w", encoding="utf-8") as out:
        out.write(str(value))


class Group:
    """A control group of the lab's, or nothing where none can be made."""

    def __init__(self, name="", shares=1024):
        self.path = os.path.join(GROUP, name)
        os.makedirs(self.path, exist_ok=True)
        write(self.path + "/cpu.shares", shares)

    def limit(self, share):
        write(self.path + "/cpu.cfs_period_us", 20_000)
        write(self.path + "/cpu.cfs_quota_us", int(share * 20_000) if share else -1)

    def take(self, pid):
        for thread in os.listdir(f"/proc/{pid}/task"):
            write(self.path + "/tasks", thread)


class Training:
    """One training while it runs: its ranks' processes and the number of steps done."""

    def __init__(self, words, output):
        self.lines, self.ranks = [], {}
        environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
        self.process = subprocess.Popen([*words, "-o", output], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        env=environment)
        self.stepped = threading.Condition()
        self.over = False
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.stepped:
                self.lines.append(line)
                self.stepped.notify_all()
        with self.stepped:
            self.over = True
            self.stepped.notify_all()

    def times(self):
        """Of the steps that count, s."""
        found = (re.match(r"step +(\d+)/\d+ .* ([\d.]+) ms ", line) for line in self.lines)
        return [float(match[2]) / 1e3 for match in found if match and int(match[1]) > WARMUP]

    def steps(self):
        return sum(line.startswith("step ") for line in self.lines)

    def wait_for_step(self, number):
        with self.stepped:
            self.stepped.wait_for(lambda: self.over or self.steps() >= number)
        return not self.over

    def find_ranks(self):
        while not self.over and len(self.ranks) < 2:
            for pid in filter(str.isdigit, os.listdir("/proc")):
                with contextlib.suppress(OSError):
                    if "triplepoint-tra" not in open(f"/proc/{pid}/comm").read():
                        continue
                    environment = open(f"/proc/{pid}/environ").read().split("\0")
                    rank = [word.split("=")[1] for word in environment if word.startswith("OMPI_COMM_WORLD_RANK=")]
                    if rank and self.is_ours(int(pid)):
                        self.ranks[int(rank[0])] = int(pid)
            time.sleep(0.02)

    def is_ours(self, pid):
        while pid > 1:
            if pid == self.process.pid:
                return True
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                pid = int(file.read().rsplit(")", 1)[1].split()[1])
        return False

    def bind(self, rank, core):
        for thread in os.listdir(f"/proc/{self.ranks[rank]}/task"):
            os.sched_setaffinity(int(thread), {core})

    def stop_for(self, ranks, seconds):
        for sent in (signal.SIGSTOP, signal.SIGCONT):
            for rank in ranks:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.ranks[rank], sent)
            if sent == signal.SIGSTOP:
                time.sleep(seconds)


@contextlib.contextmanager
def load(core):
    """A program that only computes."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    try:
        yield
    finally:
        process.kill()
        process.wait()


# What is done to a training from its first step on; causes that name it; what its evidence must say.

def on_one_core(training):
    training.bind(1, 0)


def load_beside(training):
    with load(1):
        training.wait_for_step(STEPS)


def load_for_a_while(training):
    training.wait_for_step(WARMUP + 18)
    with load(1):
        training.wait_for_step(WARMUP + 40)


def stopped_in_bursts(training):
    while training.wait_for_step(training.steps()) and training.steps() < STEPS:
        training.stop_for([1], 0.04)
        time.sleep(0.08)


def limit_of_one(training):
    Group("rank1").limit(0.5)


def limit_of_all(training):
    for rank in (0, 1):
        Group(f"rank{rank}").limit(0.6)


def saving(training):
    for step in range(10, STEPS, 10):
        if training.wait_for_step(step):
            training.stop_for([0, 1], 0.4)


# s of all steps, where all ranks are stopped.
PLANTED = {"stalls every 10 steps": 0.4 * len(range(10, STEPS, 10)), "one pause": 1.5}


def one_pause(training):
    training.wait_for_step(STEPS // 2)
    training.stop_for([0, 1], 1.5)


PROCESSOR = r"for a core"
KINDS = {"two ranks on one core": (on_one_core, {}, {"processor"}, PROCESSOR),
         "a load beside rank 1": (load_beside, {}, {"processor"}, r"rank 1.*for a core"),
         "a load for a while": (load_for_a_while, {}, {"spell", "slowdown", "processor"}, ""),
         "rank 1 stopped in bursts": (stopped_in_bursts, {}, {"unknown", "host"}, r"rank 1"),
         "CPU limit of rank 1": (limit_of_one, {}, {"processor"}, r"rank 1.*for a core"),
         "CPU limit of both": (limit_of_all, {}, {"processor"}, PROCESSOR),
         "stalls every 10 steps": (saving, {}, {"checkpoint", "garbage_collection", "region"}, "every 10 steps"),
         "one pause": (one_pause, {}, {"tails", "pauses", "region"}, ""),
         "recomputation": (None, {"recompute": "full"}, {"settings", "recompute"}, "recompute"),
         "microbatches of one": (None, {"micro": 1}, {"settings"}, "micro")}
NEEDS_GROUPS = {"CPU limit of rank 1", "CPU limit of both"}


class Lab:
    def __init__(self, program, folder, has_groups):
        self.program, self.folder, self.has_groups = program, folder, has_groups
        self.recent, self.turns, self.asked, self.blamed, self.busy = [], 0, 0, 0, 0  # recent: fair ones and their steps

    @property
    def fair(self):
        return self.recent[-1] if self.recent else None

    def train_fairly(self):
        """Another fair one, which is asked against each of the last ones."""
        self.turns += 1
        fair = self.train(f"fair{self.turns % (RECENT + 1)}")
        for other, _ in self.recent:
            answer, parts = self.why(fair[0], other)
            is_busy = answer["verdict"].startswith("Other programs used")
            self.asked += 1
            self.busy += is_busy
            if parts and not is_busy:
                self.blamed += 1
                print(f"  fair, {1e3 * answer['measured_s']:.1f} ms: {told(parts)}", flush=True)
        self.recent = [*self.recent, fair][-RECENT:]

    def train(self, name, disturb=None, **settings):
        """The recording, and the mean step of it, s."""
        job, run = os.path.join(self.folder, "job.toml"), os.path.join(self.folder, name + ".run")
        write(job, JOB.format(**{"batch": 8, "micro": 4, "recompute": "none", **settings}))
        training = Training([self.program, "train", job, "--launcher", "mpirun", "--ranks", "2", "--steps", str(STEPS), "--warmup",
                             str(WARMUP), "-q"], run)
        training.find_ranks()
        if training.wait_for_step(1):  # what the launcher binds is bound
            for rank, pid in training.ranks.items():
                training.bind(rank, rank)
                if self.has_groups:
                    group = Group(f"rank{rank}")
                    group.limit(None)
                    group.take(pid)
            if disturb:
                disturb(training)
        training.reader.join()
        if training.process.wait() != 0:
            sys.exit("".join(training.lines))
        times = training.times()
        return run, sum(times) / len(times)

    def why(self, run, against):
        done = subprocess.run([self.program, "why", run, "--against", against, "--format", "json"], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        answer = json.loads(done.stdout)
        parts = [part for part in answer["parts"] if part["cause"] not in ("base", "unexplained", "start")]
        return answer, sorted(parts, key=lambda part: -part["cost_s"])


def told(parts):
    return "; ".join(f"{part['cause']} {1e3 * part['cost_s']:.1f} ms ({part['evidence']})" for part in parts)


def judge(lab, kind):
    disturb, settings, causes, evidence = KINDS[kind]
    if lab.fair is None:
        lab.train_fairly()
    before = lab.fair[1]
    run, step = lab.train("disturbed", disturb, **settings)
    answer, parts = lab.why(run, lab.fair[0])
    lab.train_fairly()
    fair_step = (before + lab.fair[1]) / 2
    truth = PLANTED[kind] / (STEPS - WARMUP) if kind in PLANTED else step - fair_step
    named = bool(parts) and parts[0]["cause"] in causes and re.search(evidence, parts[0]["evidence"], re.IGNORECASE) is not None
    cost = sum(part["cost_s"] for part in parts if part["cause"] in causes)
    right = named and abs(cost - truth) <= 0.15 * truth
    if not named or not right:
        print(f"  {kind}: {1e3 * fair_step:.1f} + {1e3 * truth:.1f} ms; told {told(parts) or 'nothing'}; unexplained "
              f"{1e3 * answer['unexplained_s']:.1f} ms", flush=True)
    return named, right


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--fair", type=int, default=200, help="how often fair runs are asked")
    parser.add_argument("--only", help="this kind, or fair")
    parser.add_argument("--keep", metavar="FOLDER", help="where recordings stay")
    request = parser.parse_args()
    if os.cpu_count() < 2:
        sys.exit(77)
    has_groups = os.access(GROUPS, os.W_OK)
    if has_groups:
        Group(shares=262_144).take(os.getpid())  # and what it starts
    failed = False
    print(f"load of the machine {os.getloadavg()[0]:.1f}, control groups {'yes' if has_groups else 'no'}")
    print(f"{'disturbed':28} {'runs':>4} {'named':>6} {'seconds':>8}")
    with tempfile.TemporaryDirectory() as temporary:
        if request.keep:
            os.makedirs(request.keep, exist_ok=True)
        lab = Lab(request.program, request.keep or temporary, has_groups)
        for kind in KINDS:
            if request.only not in (None, kind) or (kind in NEEDS_GROUPS and not has_groups):
                continue
            results = [judge(lab, kind) for _ in range(request.pairs)]
            named, right = (sum(column) for column in zip(*results))
            failed |= named < 0.95 * len(results)
            print(f"{kind:28} {len(results):4} {named:6} {right:8}", flush=True)
        while lab.asked < request.fair and request.only in (None, "fair"):
            lab.train_fairly()
        print(f"{'fair':28} {lab.turns:4}, asked {lab.asked} times; {lab.blamed} blame somebody, {lab.busy} say that the machine was busy")
        failed |= lab.blamed > 0
    sys.exit(failed)


if __name__ == "__main__":
    main()
