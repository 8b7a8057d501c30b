#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for triplepoint-train: takes its flags, marks what it would mark, and fails as the job's name asks.

    fake_trainer.py JOB.toml --steps N [--transport threads --ranks N] [...]
"""
import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import triplepoint  # noqa: E402


def flag(name, default):
    return type(default)(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else default


def operation(name, group=None, microbatch=-1, **amounts):
    marks, begin = triplepoint.marks, triplepoint.now()
    time.sleep(0.001)
    if marks._put is not None:
        marks._put(marks.SPAN, name.encode(), group.encode() if group else None, begin, triplepoint.now(), microbatch,
                   amounts.get("bytes", -1), amounts.get("flops", -1))


def play(rank, ranks, steps, marks_rank):
    if marks_rank:
        triplepoint.value("rank", rank)
    for step in range(steps):
        with triplepoint.step(step):
            for microbatch in range(2):
                with triplepoint.region("forward"):
                    operation("qkv", flops=1e6, bytes=1e4, microbatch=microbatch)
                    operation("input_norm", bytes=1e4, microbatch=microbatch)
                    operation("tp_all_reduce", "tp", bytes=4096, microbatch=microbatch)
            operation("gradient_all_reduce", "dp ring", bytes=65536)
            triplepoint.value("tokens", 2048 / ranks)
        if rank == 0:
            triplepoint.value("loss", 6.0 - 0.1 * step)
            print(f"step {step} loss {6.0 - 0.1 * step:.4f}", flush=True)


def report(ranks, steps):
    """What triplepoint-train writes at its end for whoever started it."""
    if "TRIPLEPOINT_TRAIN_REPORT" in os.environ:
        terms = {term: {"bytes": 1e6, "model_bytes": 1e6} for term in ("weights", "gradients", "optimizer", "activations", "logits", "buffers")}
        with open(os.environ["TRIPLEPOINT_TRAIN_REPORT"], "w") as file:
            json.dump({"ranks": ranks, "steps": [{"loss": 6.0 - 0.1 * step} for step in range(steps)], "peak_flops": 8e10,
                       "traffic": [{"group": "tensor", "collective": "all_reduce", "bytes": 4096, "workload_bytes": 4096}],
                       "memory": [{"stage": 0, "rank": 0, "terms": terms}]}, file)


def main():
    job = open(sys.argv[1]).read()
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("SLURM_PROCID", "0")))
    ranks = int(os.environ.get("OMPI_COMM_WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1")))
    if "crash" in job.split("\n", 1)[0]:
        sys.exit(f"triplepoint-train: rank {rank} lost its mind (it was asked to); try another job")
    if "hang" in job.split("\n", 1)[0]:
        time.sleep(600)
    steps = flag("--steps", 10)
    if flag("--transport", "mpi") != "threads":
        play(rank, ranks, steps, False)
        return report(ranks, steps) if rank == 0 else None
    ranks = flag("--ranks", 1)
    threads = [threading.Thread(target=play, args=(i, ranks, steps, True)) for i in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report(ranks, steps)


main()
