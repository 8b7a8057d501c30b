# SPDX-License-Identifier: Apache-2.0
"""A result tree as the scripts of the MICRO'25 paper's artifact leave it, small and the same every time.

results/<sweep>/<model>/<model>_<index>_<variant>/ with <metric>_<rank>.csv (Unix time, value; no header) of
every GPU, system_*.csv of every node, and <job id>_kineto/rank-<N>.json of the first rank of each pipeline
stage. Counters are the low 32 bits that its sampler keeps.
"""
import json
import pathlib
import random

GPUS, PER_NODE = 32, 8
EPOCH = 1_700_000_000
PERIOD = 0.05
HOT = {0, 3, 4, 6}

# Name, stream, share of the step, how often. Of every rule of the artifact's classifier one at least.
KERNELS = [
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_cublas", 7, 0.30, 3),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x128x128", 7, 0.05, 2),
    ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT", 7, 0.04, 2),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>", 7, 0.06, 4),
    ("void transformer_engine::normalization::ln_fwd_tuned_kernel<float>", 7, 0.03, 2),
    ("triton_poi_fused_add_mul_0", 7, 0.01, 1),
    ("triton_tem_fused_gemm_1", 7, 0.02, 1),
    ("userbuffers_fp16_sum_inplace_gpu_rr_rs_oop_fp8", 9, 0.02, 2),
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, 0.05, 2),
    ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, 0.07, 2),
    ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, 0.04, 1),
    ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 24, 0.12, 5),
    ("ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 24, 0.01, 1),
]


def write(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def stamps(dice, seconds):
    """When one process samples: it sleeps what is left of a period, so it is late at times."""
    at, all = EPOCH + dice.uniform(0, 0.002), []
    for _ in range(round(seconds / PERIOD) + 1):
        all.append(at)
        at += PERIOD + dice.choice((0, 0, 0, 0.001))
    return all


def rows(times, value):
    return "".join(f"{at:.6f},{value(at - EPOCH)}\n" for at in times)


class Experiment:
    """One folder. `parts`: what the training left of samples and traces."""

    def __init__(self, root, path, seconds, power, pipeline, traced=True):
        self.folder, self.seconds, self.power = root / path, seconds, power
        self.pipeline, self.traced = pipeline, traced
        self.dice = random.Random(path)

    def write(self):
        for rank in range(GPUS):
            self.write_gpu(rank)
        for node in range(GPUS // PER_NODE):
            self.write_node(node * PER_NODE)
        if self.traced:
            for stage in range(self.pipeline):
                rank = stage * GPUS // self.pipeline
                write(self.folder / "2041_kineto" / f"rank-{rank}.json", self.trace(stage, rank))

    def write_gpu(self, rank):
        dice = self.dice
        heat = 52 + 11 * (rank % PER_NODE in HOT) + rank / PER_NODE
        clock = 1755 - 6 * (rank % PER_NODE in HOT) * (rank % 5 + 1) - 15 * dice.randrange(3)
        start = dice.randrange(1 << 32)
        per_second = dice.randrange(20, 60) << 20
        metrics = {
            "gpu_power": lambda t: round(self.power + 60 * dice.uniform(-1, 1) + 90 * (dice.random() < 0.1), 3),
            "mem_power": lambda t: round(0.1 * self.power + dice.uniform(-1, 1), 3),
            "gpu_thermal": lambda t: round(heat + dice.randrange(3)),
            "mem_thermal": lambda t: round(heat + 8),
            "sm_clock": lambda t: clock - 15 * dice.randrange(2),
            "mem_clock": lambda t: 2619,
            "gpu_util": lambda t: dice.randrange(80, 101),
            "mem_util": lambda t: dice.randrange(20, 61),
            # Low 32 bits, in bytes and in KiB.
            "pcie_rx_bytes": lambda t: (start + int(per_second * t)) % (1 << 32),
            "pcie_tx_bytes": lambda t: (start + int(per_second * t) // 2) % (1 << 32),
            "nvlink_rx_throughput": lambda t: ((1 << 32) - 4000 + int(per_second * t) // 50) % (1 << 32),
            "nvlink_tx_throughput": lambda t: int(per_second * t) // 50 % (1 << 32),
            "pcie_rx_throughput": lambda t: dice.randrange(1000),
            "pcie_tx_throughput": lambda t: dice.randrange(1000),
        }
        times = stamps(dice, self.seconds)
        for metric, value in metrics.items():
            write(self.folder / f"{metric}_{rank}.csv", rows(times, value))

    def write_node(self, rank):
        times = stamps(self.dice, self.seconds)
        files = {f"system_ib_{way}_bytes_rank_{rank}_id_{device}": lambda t: 10**9 + int(3e8 * t)
                 for way in ("rx", "tx") for device in ("ib0", "ib1")}
        files |= {f"system_cpu_temp_rank_{rank}_id_0": lambda t: 61,
                  f"system_memory_used_{rank}": lambda t: 2_000_000_000_000,
                  f"system_memory_free_{rank}": lambda t: 1_500_000_000_000}
        for name, value in files.items():
            write(self.folder / f"{name}.csv", rows(times, value))

    def trace(self, stage, rank):
        """Kernels of several streams, each spread over the step; copies and host calls count as no kernel."""
        events = []
        for stream in sorted({kernel[1] for kernel in KERNELS}):
            own = [(name, 0.8 * self.seconds * share * (1 + 0.02 * stage) / times)
                   for name, its, share, times in KERNELS if its == stream for _ in range(times)]
            gap = (0.9 * self.seconds - sum(length for _, length in own)) / len(own)
            begin = 0.05 * self.seconds
            for name, length in own:
                events.append({"ph": "X", "cat": "kernel", "name": name, "pid": rank % PER_NODE, "tid": stream,
                               "ts": round((EPOCH + begin) * 1e6, 3), "dur": round(length * 1e6, 3),
                               "args": {"device": rank % PER_NODE, "stream": stream, "correlation": len(events) + 1}})
                begin += length + gap
        begin = round((EPOCH + 0.05 * self.seconds) * 1e6, 3)
        events.append({"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoD (Device -> Device)", "pid": rank % PER_NODE,
                       "tid": 7, "ts": begin, "dur": 1000, "args": {"device": rank % PER_NODE, "stream": 7}})
        events.append({"ph": "X", "cat": "cpu_op", "name": "aten::matmul", "pid": 4000 + rank, "tid": 1, "ts": begin,
                       "dur": 2000, "args": {}})
        return json.dumps({"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": GPUS},
                           "traceEvents": events})


def write_tree(root):
    """The whole tree, then the accidents: returns what they are."""
    root = pathlib.Path(root)
    optimization, microbatch = "optimization-sweep-h200/gpt3-175b/gpt3-175b", "microbatch-sweep-h200/gpt3-175b/gpt3-175b"
    llama = "optimization-sweep-h200/llama3-70b/llama3-70b"
    fsdp = "optimization-sweep-h200-fsdp/gpt3-175b/gpt3-175b"
    for path, seconds, power, pipeline, traced in (
        (f"{optimization}_1_00000", 1.6, 610, 16, True),
        (f"{optimization}_1_01000", 2.0, 620, 16, True),
        (f"{optimization}_1_11000", 2.1, 600, 16, True),
        (f"{optimization}_2_00000", 1.5, 600, 8, True),
        (f"{optimization}_2_01000", 1.9, 615, 8, False),  # a job without the profiler
        (f"{optimization}_2_10000", 1.5, 603, 8, True),
        (f"{optimization}_3_01000", 2.8, 466, 4, True),
        (f"{optimization}_3_11000", 2.2, 470, 4, True),
        (f"{optimization}_4_01000", 2.3, 570, 32, True),
        (f"{llama}_1_00000", 1.2, 580, 2, True),
        (f"{llama}_2_01000", 1.4, 560, 4, True),
        (f"{fsdp}_5_00000", 3.0, 180, 1, True),
        (f"{fsdp}_5_01000", 3.2, 175, 1, True),
        (f"{microbatch}_1_mbs1", 2.02, 621, 16, True),
        (f"{microbatch}_1_mbs2", 2.2, 590, 16, True),
        (f"{microbatch}_1_mbs4", 2.6, 515, 16, True),
        (f"{microbatch}_3_mbs1", 2.9, 463, 4, True),
        (f"{microbatch}_3_mbs4", 1.8, 634, 4, True),
    ):
        Experiment(root, path, seconds, power, pipeline, traced).write()
    # Out of memory: folders that the launcher made and nothing was written into.
    (root / f"{optimization}_4_00000").mkdir(parents=True)
    (root / f"{microbatch}_1_mbs8").mkdir(parents=True)
    # A rank's file that was never sent back to its parent.
    (root / f"{llama}_1_00000" / "sm_clock_5.csv").unlink()
    # A file that ends in the middle of its last row.
    cut = root / f"{optimization}_2_00000" / "gpu_power_9.csv"
    cut.write_text(cut.read_text()[:-9])
    # A reading that failed.
    file = root / f"{optimization}_1_00000" / "gpu_thermal_3.csv"
    lines = file.read_text().splitlines()
    lines[4] = lines[4].split(",")[0] + ",-1"
    file.write_text("\n".join(lines) + "\n")
    # Files that are no experiment.
    write(root / "optimization-sweep-h200" / "README.txt", "runs of March\n")


if __name__ == "__main__":
    import sys

    write_tree(sys.argv[1])
