#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU time of simulations asked for one by one from Python, against the same jobs in one sweep of the compiled code.

    python_bench.py build/bench/python [JOBS]        a job of the paper at JOBS (1,000) power limits, both on one thread
"""
import sys
import time

sys.path.insert(0, sys.argv[1])
import triplepoint as tp  # noqa: E402

COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
JOB = tp.Job(model="gpt3-175b", cluster="hgx-h200", nodes=4, tp=8, pp=4, mbs=1, gbs=128, stack="nemo-profiled")
LIMITS = [400 + 300 * i / COUNT for i in range(COUNT)]


def cpu_s(work):
    begin = time.process_time()
    result = work()
    return time.process_time() - begin, result


def one_by_one():
    return [tp.simulate(JOB.replace(power_limit=limit)).step_time_s for limit in LIMITS]


def one_sweep():
    return [row["step_time_s"] for row in tp.sweep(JOB, power_limit=LIMITS, threads=1, progress=False)]


def main():
    tp.simulate(JOB)  # what is loaded once
    times = {one_by_one: [], one_sweep: []}
    results = {}
    for _ in range(3):  # in turns, so that a busy machine hits both
        for work, seconds in times.items():
            spent, results[work] = cpu_s(work)
            seconds.append(spent)
    if results[one_by_one] != results[one_sweep]:
        sys.exit("the two give different step times")
    python, sweep = min(times[one_by_one]), min(times[one_sweep])
    print(f"{COUNT} simulations: {python:.2f} s of CPU one by one from Python, {sweep:.2f} s in one sweep: {python / sweep - 1:+.1%}")


if __name__ == "__main__":
    main()
