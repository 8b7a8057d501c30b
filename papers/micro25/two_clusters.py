#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where does one cluster overtake another, each with its best plan? Here: 64 H100 and 32 H200 over the batch.

    two_clusters.py [MODEL]
"""
import sys

import triplepoint as tp

CLUSTERS = (("hgx-h200", 4), ("hgx-h100", 8))
MODEL = sys.argv[1] if len(sys.argv) > 1 else "gpt3-175b"

for batch in (32, 64, 128, 256, 512):
    jobs = (tp.Job(model=MODEL, cluster=cluster, nodes=nodes, gbs=batch, stack="nemo-profiled") for cluster, nodes in CLUSTERS)
    h200, h100 = (tp.plan(job, top=1).best for job in jobs)
    print(f"batch {batch}: {h200.step_time_s:.4g} s with {h200.plan}, {h100.step_time_s:.4g} s with {h100.plan}; "
          f"H100 is {h200.step_time_s / h100.step_time_s:.3g} times as fast")
