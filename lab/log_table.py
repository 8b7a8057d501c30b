#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `triplepoint why` reads out of logs whose disturbance is known: the log table of docs/why.md.

    python3 lab/log_table.py TRIPLEPOINT [--logs 20] [--formats megatron,nemo] [--seed 1] [--failures]

Generates logs of each kind in five formats, at random magnitudes, and counts: kind named, cost per step within 15 % (or 0.3 % of the step,
what a mean of scattering steps can tell), and of fair ones how many blame anything. Steps scatter by 0.2 to 0.8 % and resemble their
neighbours; one of a hundred is up to 5 % longer, and the first takes 5 to 40 times as long. What is planted costs 1 % of a step or more,
and a machine warms over ten steps or more. Prints a table; exit code 1 where a kind is
named in less than 95 % or a fair log is blamed.
"""
import argparse
import datetime
import json
import math
import os
import random
import subprocess
import sys
import tempfile

EPOCH = 1_740_823_200  # of the first stamp, Unix time


class Training:
    """Steps of one log: `times` in s, `pauses` behind them in s, `numbers` as logged."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.step = self.between(0.6, 5)
        self.scatter = self.between(0.002, 0.008)
        self.memory = self.between(0, 0.5)
        self.steps = self.random.randint(300, 1200)
        self.numbers = list(range(1, self.steps + 1))
        self.pauses = [0.0] * self.steps
        noise, self.times = 0.0, []
        for _ in range(self.steps):
            noise = self.memory * noise + self.random.gauss(0, self.scatter)
            tail = self.between(0, 0.05) if self.random.random() < 0.01 else 0
            self.times.append(self.step * (1 + noise + tail))
        self.times[0] *= self.between(5, 40)
        self.truth = {}  # causes that may be named -> s of all steps

    def between(self, low, high):
        return low + (high - low) * self.random.random()

    def add(self, cause, seconds):
        """`seconds(i)` longer is step i; which of these the kind is, `cause` says."""
        more = [seconds(i) for i in range(self.steps)]
        self.times = [time + extra for time, extra in zip(self.times, more)]
        self.truth[cause] = sum(more)

    def pause(self, cause, seconds):
        more = [seconds(i) for i in range(self.steps - 1)] + [0]
        self.pauses = [pause + extra for pause, extra in zip(self.pauses, more)]
        self.truth[cause] = sum(more)


def fair(_):
    pass


def drift(t, pauses=False):
    amplitude, tau = max(t.between(0.02, 0.035), 4 * t.scatter), max(t.between(20, 90), 10 * t.step)
    every, warm, more = t.random.randint(80, 150), 0.0, []
    if pauses:
        still = max(15, 15 * t.step)
        t.pause("checkpoint" if t.steps > 3 * every else "pauses", lambda i: still if (i + 1) % every == 0 else 0)
    for i in range(t.steps):
        cold = (1 - warm) * math.exp(-t.step / 2 / tau)
        more.append(t.step * amplitude * (1 - cold))
        warm = 1 - cold * math.exp(-t.step / 2 / tau)
        warm *= math.exp(-(max(0, t.times[i] - 1.2 * t.step) + t.pauses[i]) / tau)  # idle: cools
    t.add("warm_up", lambda i: more[i])
    t.time_constant = tau


def drift_after_pauses(t):
    drift(t, pauses=True)


def phases(t):
    first = t.random.randint(20, 80)
    second = first + t.random.randint(20, 80)
    slow = t.between(0.3, 2)
    slower = slow * t.between(1.3, 2)
    t.add("slowdown", lambda i: t.step * (0 if i < first else slow if i < second else slower))


def public_phases(t):
    ends = [t.random.randint(8, 20)]
    for _ in range(2):
        ends.append(ends[-1] + t.random.randint(8, 20))
    t.add("slowdown", lambda i: t.step * (131 / (131, 96, 40, 25)[sum(i >= end for end in ends)] - 1))


def collection(t):
    period, cost = t.random.randint(5, 40), t.step * t.between(0.1, 0.6)
    offset = t.random.randrange(period)
    t.add("garbage_collection", lambda i: cost if i % period == offset else 0)


def checkpoints(t):
    period, cost = t.random.randint(40, t.steps // 3), t.step * t.between(3, 12)
    t.add("checkpoint", lambda i: cost if i % period == period - 1 else 0)


def saving_between(t):
    period, cost = t.random.randint(40, t.steps // 4), t.step * t.between(4, 12) + 5
    t.pause("checkpoint", lambda i: cost if i % period == period - 1 else 0)


def tails(t):
    t.add("tails", lambda i: t.step * t.between(0.3, 3) if i > 0 and t.random.random() < 0.03 else 0)


def restarts(t):
    """Begins again from the last multiple of 50: steps are numbered, and run, twice."""
    at = t.random.randint(120, t.steps - 60)
    again = at % 50 + 1
    t.numbers = t.numbers[:at] + [n - again for n in t.numbers[at:]]
    down = t.between(120, 900)
    t.pause("restarts", lambda i: down if i == at - 1 else 0)


def spell(t):
    begin, length = t.random.randint(40, 100), t.random.randint(30, 80)
    slow = max(t.between(0.1, 0.6), 0.02 * t.steps / length)
    t.add("spell", lambda i: slow * t.step if begin <= i < begin + length else 0)


KINDS = {"fair": fair, "warm-up drift": drift, "steps after pauses": drift_after_pauses, "three phases": phases, "131, 96, 40, 25": public_phases,
         "collection every N": collection, "checkpoints in steps": checkpoints, "checkpoints between": saving_between, "tails": tails,
         "restarts": restarts, "speed that comes back": spell}
NEEDS_STAMPS = {"steps after pauses", "checkpoints between", "restarts"}


def stamp(seconds):
    return datetime.datetime.fromtimestamp(EPOCH + seconds, datetime.timezone.utc)


def megatron(number, time, end):
    return (f" [{stamp(end):%Y-%m-%d %H:%M:%S}] iteration {number:8}/   50000 | consumed samples: {256 * number:12} | "
            f"elapsed time per iteration (ms): {1000 * time:.1f} | learning rate: 1.5E-04 | global batch size:   256 | lm loss: 2.5E+00 |\n")


def nemo(number, time, _):
    return (f"Training epoch 0, iteration {number}/1999 | lr: 1e-4 | global_batch_size: 256 | global_step: {number} | "
            f"reduced_train_loss: 2.5 | train_step_timing in s: {time:.4g}\n")


def torchtitan(number, _, end):
    return (f"[titan] {stamp(end):%Y-%m-%d %H:%M:%S},{int(1000 * end) % 1000:03} - root - INFO - step: {number:3}  loss:  2.5  "
            "memory: 40.1GiB(50%)  tps: 4,000  mfu: 40%\n")


def mlperf(number, time, end):
    fields = {"namespace": "", "time_ms": int(1000 * (EPOCH + end)), "event_type": "POINT_IN_TIME", "key": "tracked_stats",
              "value": {"train_step_time": round(time, 5)}, "metadata": {"step": number}}
    return f":::MLLOG {json.dumps(fields)}\n"


def tensorboard(number, _, end):
    return f"{EPOCH + end:.3f},{number},2.5\n"


FORMATS = {"megatron": megatron, "nemo": nemo, "torchtitan": torchtitan, "mlperf": mlperf, "tensorboard": tensorboard}
ONLY_STAMPS = {"torchtitan", "tensorboard"}  # a pause is part of the step behind it


def log_of(training, form):
    text, end = ("Wall time,Step,Value\n" if form == "tensorboard" else ""), 0.0
    for number, time, pause in zip(training.numbers, training.times, training.pauses):
        end += time
        text += FORMATS[form](number, time, end)
        end += pause
    return text


def asked(program, text, folder):
    file = os.path.join(folder, "train.log")
    with open(file, "w", encoding="utf-8") as out:
        out.write(text)
    done = subprocess.run([program, "why", file, "--format", "json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


# A log that only has stamps cannot tell a pause from a long step.
SAME = {"checkpoint": {"checkpoint"}, "restarts": {"restarts", "pauses"}}


def judge(training, answer):
    """Named, right, and what else is blamed."""
    parts = [part for part in answer["parts"] if part["cause"] not in ("base", "unexplained", "start")]
    named = right = False
    for cause, seconds in training.truth.items():
        cost = sum(part["cost_s"] for part in parts if part["cause"] in SAME.get(cause, {cause}))
        truth = seconds / answer["steps"]
        named = cost > 0
        right = named and abs(cost - truth) <= max(0.15 * truth, 0.003 * training.step)
    others = [part["cause"] for part in parts if not any(part["cause"] in SAME.get(cause, {cause}) for cause in training.truth)]
    return named, right, others


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--logs", type=int, default=20)
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--kinds", default=",".join(KINDS).replace("131, 96, 40, 25", "131; 96; 40; 25"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--failures", action="store_true", help="print each")
    request = parser.parse_args()
    failed = False
    print(f"{'planted':24} {'logs':>5} {'named':>6} {'cost':>5} {'blames another':>15}")
    for kind in request.kinds.replace("; ", "\0").split(","):
        kind = kind.replace("\0", ", ")
        count = {"logs": 0, "named": 0, "right": 0, "others": 0}
        for form in request.formats.split(","):
            if kind in NEEDS_STAMPS and form == "nemo":
                continue
            for turn in range(request.logs):
                training = Training(f"{request.seed} {kind} {form} {turn}")
                KINDS[kind](training)
                with tempfile.TemporaryDirectory() as folder:
                    answer = asked(request.program, log_of(training, form), folder)
                named, right, others = judge(training, answer)
                for key, value in zip(count, (1, named, right, bool(others))):
                    count[key] += value
                if request.failures and (others or kind != "fair" and not right):
                    shown = {part["cause"]: round(part["cost_s"], 4) for part in answer["parts"]}
                    truth = {cause: round(seconds / answer["steps"], 4) for cause, seconds in training.truth.items()}
                    print(f"  {form} {turn}: {truth}, told {shown}, step {training.step:.2f} s, scatter {training.scatter:.4f}")
        is_fair = kind == "fair"
        failed |= count["others"] > 0 if is_fair else count["named"] < 0.95 * count["logs"]
        print(f"{kind:24} {count['logs']:5} {'' if is_fair else count['named']:>6} {'' if is_fair else count['right']:>5} {count['others']:15}",
              flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
