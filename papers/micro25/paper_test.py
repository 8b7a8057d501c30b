# SPDX-License-Identifier: Apache-2.0
"""The paper is reproduced as far as it is said to be, and its claims and result tree are read as they are meant.

    paper_test.py FOLDER_OF_PACKAGE PROGRAM
"""
import csv
import json
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [sys.argv[1], str(HERE)]
try:
    import matplotlib  # noqa: F401
except ImportError:
    print("MESSAGE: skipped: matplotlib is not installed (python3-matplotlib)")
    sys.exit(0)

import claims  # noqa: E402
import figures  # noqa: E402
import reproduce  # noqa: E402
import rows  # noqa: E402
import tree  # noqa: E402
from jobs import kernel_class  # noqa: E402

PROGRAM = sys.argv[2]


class Paper(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.out = pathlib.Path(cls.folder.name)
        cls.claims, cls.rows, cls.pairs, cls.numbers = reproduce.reproduce(PROGRAM, cls.out)

    def test_the_published_numbers_come_out_within_their_tolerances_or_are_known_misses(self):
        self.assertEqual([(each.row, each.value) for each in rows.wrong_marks(self.rows)], [])
        self.assertEqual(len(self.rows), 213)
        self.assertEqual(sum(each.within for each in self.rows), 193)

    def test_pairs_of_configurations_come_out_in_the_order_of_their_efficiency(self):
        in_order, apart = self.pairs
        self.assertGreater(apart, 80)
        self.assertGreaterEqual(in_order, 0.95 * apart)

    def test_every_claim_comes_out_as_it_is_written_down(self):
        for each in self.claims:
            with self.subTest(claim=each.claim["text"]):
                self.assertEqual(each.verdict, each.claim["verdict"], each.missing)
        self.assertEqual(claims.summary(self.claims), "63 claims: 42 agree, 9 weaker, 11 opposite, 1 not asked")

    def test_tables_name_every_row_and_claim(self):
        self.assertEqual((self.out / "claims.md").read_text().count("\n| "), 1 + 63)
        self.assertGreater((self.out / "rows.md").read_text().count("\n| "), 1 + 213)

    def test_every_figure_is_drawn_and_its_numbers_are_the_results(self):
        for number, drawn in self.numbers.items():
            self.assertIn("</svg>", (self.out / f"figure-{number}.svg").read_text())
            with open(self.out / f"figure-{number}.csv", newline="") as file:
                self.assertEqual(len(drawn), len(list(csv.DictReader(file))))
        power = {each.job.key(): each.value for each in self.numbers[13] if each.quantity == "power_mean_w"}
        for each in self.numbers[13]:
            if each.quantity == "power_mean_w":
                self.assertEqual(each.value, each.job.results["power_w"]["mean"])
        self.assertIn(("gpt3-175b", "", "32 x H200", "TP8-PP4", "recompute", 4), power)
        self.assertEqual({each.job.variant for each in self.numbers[3]}, {"recompute+overlap"})
        self.assertEqual({each.job.machine for each in self.numbers[3]}, {"32 x H200", "64 x H100"})
        self.assertEqual({each.job.microbatch for each in self.numbers[15]}, {1, 4})
        self.assertEqual(len({each.gpu for each in self.numbers[17]}), 32)

    def test_stages_of_a_figure_are_those_of_the_rows(self):
        stages = {each.stage for each in self.numbers[15] if each.job.layout == "TP1-PP32"}
        self.assertEqual(stages, set(range(32)))


def study(**numbers):
    """Two layouts at two microbatches: one peak rises by a fifth, the other falls by a tenth."""
    jobs = {"a_TP8": (500, 0), "a_TP8_mbs8": (600, 0.2), "a_TP4": (1000, 0.5), "a_TP4_mbs8": (900, 0.1)}
    return {name: {"power_w": {"peak": watts, "mean": watts / 2}, "throttle": {"software_power_cap": share} if share else {},
                   "throttled_per_gpu": [share], **numbers} for name, (watts, share) in jobs.items()}


RISES = {"text": "peaks rise", "place": "abstract", "study": "s", "jobs": "a_*_mbs8", "against": "a_*", "number": "power_w.peak",
         "least": 1.1, "share": 0.5}


def checked(**changes):
    return claims.check(study(), {**RISES, **changes})


class Claims(unittest.TestCase):
    def test_names_match_patterns_with_the_text_for_each_star(self):
        self.assertEqual(claims.match("a_*_mbs8", "a_TP8_mbs8"), ("TP8",))
        self.assertEqual(claims.match("*_*", "a_b_c"), ("a", "b_c"))
        self.assertEqual(claims.match("a", "a"), ())
        self.assertIsNone(claims.match("a_*_mbs8", "a_TP8"))
        self.assertIsNone(claims.match("a", "ab"))

    def test_a_claim_agrees_is_weaker_or_opposite_by_the_pairs_within_its_bounds(self):
        half = checked()
        self.assertEqual((half.verdict, half.results, half.within), ("agree", [0.9, 1.2], 1))
        self.assertEqual(checked(least=1.3).verdict, "weaker")
        self.assertEqual(checked(share=1).verdict, "weaker")
        self.assertEqual(checked(share=1, jobs="a_TP4_mbs8", against="a_TP4").verdict, "opposite")

    def test_a_difference_a_quotient_and_the_best_of_a_pattern(self):
        shares = checked(number="throttle.software_power_cap", comparison="difference", least=0)
        self.assertAlmostEqual(shares.results[-1], 0.2)  # a reason that never occurred is 0
        self.assertEqual(checked(number="power_w.peak / power_w.mean", least=1).results, [1, 1])
        self.assertEqual(checked(against="a_TP*", pick="highest").results, [0.9])

    def test_a_number_of_one_job_is_held_against_the_bounds(self):
        self.assertEqual(checked(against="", least=550, share=1).verdict, "agree")
        self.assertEqual(checked(against="", least=700, share=1).verdict, "weaker")

    def test_what_no_job_has_is_not_asked_and_why_is_said(self):
        self.assertEqual(checked(jobs="b_*")[-1], "no job is named b_*")
        self.assertEqual(checked(number="power_w.peak / power_w.paek").missing, 'results have no number "power_w.paek"')
        self.assertEqual(claims.check(study(), {**RISES, "number": ""}).verdict, "not asked")

    def test_the_table_names_the_verdict_and_what_it_is_made_from(self):
        text = claims.table([checked()])
        self.assertIn("1 claims: 1 agree", text)
        self.assertIn("| at least 1.1 | 1.05 (0.9 to 1.2) | 1 of 2 (50 % needed) |", text)
        self.assertIn("`ratio of power_w.peak: a_*_mbs8 to a_*`", text)


class Kernels(unittest.TestCase):
    def test_names_are_classified_as_the_artifact_does(self):
        for name, wanted in (("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)", "all_reduce"), ("ncclDevKernel_SendRecv(...)", "send_recv"),
                             ("ncclDevKernel_Broadcast_RING_LL", "send_recv"), ("ncclDevKernel_Reduce_RING_LL", "memory"),
                             ("ncclDevKernel_ReduceScatter_Sum", "reduce_scatter"), ("ncclDevKernel_AllGather_RING_LL", "all_gather"),
                             ("userbuffers_fp16_sum_inplace_gpu_rr_rs", "memory"), ("triton_poi_fused_add_gemm_0", "memory"),
                             ("triton_tem_fused_gemm", "compute"), ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop", "compute"),
                             ("sm90_xmma_GEMM_bf16bf16_bf16f32", "compute"), ("flash_fwd_kernel", "memory"),  # its blind spots, kept
                             ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNT", "other")):
            self.assertEqual(kernel_class(name), wanted, name)


GEMM, SEND, COPY = "sm90_xmma_gemm_bf16", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "Memcpy DtoD (Device -> Device)"


def write_experiment(folder, watts=600, rank_of_trace=0):
    """32 GPUs for two seconds at constant readings, and a trace of one rank; counters wrap on the way."""
    folder.mkdir(parents=True)
    for rank in range(32):
        for metric, values in (("gpu_power", (watts, watts, watts)), ("gpu_thermal", (50 + rank % 8, 50 + rank % 8, -1)),
                               ("sm_clock", (1700 - rank, 1700 - rank, 1700 - rank)),
                               ("nvlink_rx_throughput", ((1 << 32) - (1 << 20), 0, 1 << 20)), ("pcie_rx_bytes", (0, 1 << 30, 3 << 29))):
            lines = "".join(f"{1_700_000_000 + i},{value}\n" for i, value in enumerate(values))
            (folder / f"{metric}_{rank}.csv").write_text(lines + "17000")  # the last row was cut off
    if rank_of_trace is None:
        return
    (folder / "1_kineto").mkdir()
    (folder / "20_kineto").mkdir()
    (folder / "1_kineto" / "rank-0.json").write_text("an older job\n")
    events = [{"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": 1_700_000_000e6 + begin, "dur": length,
               "args": {"device": 0, "stream": 7, "correlation": i + 1}}
              for i, (category, name, begin, length) in enumerate((("kernel", GEMM, 0, 3e5), ("kernel", SEND, 4e5, 1e5),
                                                                   ("gpu_memcpy", COPY, 6e5, 1e5), ("kernel", GEMM, 8e5, 2e5)))]
    (folder / "20_kineto" / f"rank-{rank_of_trace}.json").write_text(json.dumps({
        "schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank_of_trace, "world_size": 32}, "traceEvents": events}))


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def test_an_experiment_has_the_numbers_that_the_artifacts_scripts_compute(self):
        write_experiment(self.root / "optimization-sweep-h200/gpt3-175b/gpt3-175b_3_01000", rank_of_trace=9)
        job, = tree.jobs_of_tree(self.root)
        self.assertEqual(job.key(), ("gpt3-175b", "", "32 x H200", "TP8-PP4", "recompute", 1))
        self.assertEqual(job.numbers["power_mean_w"], 600)
        self.assertEqual(job.numbers["temperature_mean_c"], 53.5)  # 50 to 57 °C; the failed reading is left out
        self.assertEqual(job.numbers["temperature_peak_c"], 57)
        self.assertAlmostEqual(job.numbers["sm_clock_mean_ghz"], 1.7 - 15.5e-3)
        self.assertAlmostEqual(job.numbers["efficiency_samples_per_s_mj"], 128 / 2 / (32 * 600 * 2 / 1e6))
        self.assertEqual(job.per_gpu["nvlink_received_gib"][3], 2)
        self.assertEqual(job.per_gpu["pcie_received_gib"][3], 1.5)
        stage, = job.stages
        self.assertEqual(stage, 1)  # rank 9 of four stages with eight ranks each
        self.assertAlmostEqual(job.stages[1]["compute"], 0.5)
        self.assertAlmostEqual(job.stages[1]["send_recv"], 0.1)
        self.assertAlmostEqual(sum(job.stages[1].values()), 0.6)  # copies are no kernels

    def test_sums_of_kernels_stand_in_for_traces(self):
        folder = self.root / "microbatch-sweep-h100/llama3-70b/llama3-70b_1_mbs2"
        folder.mkdir(parents=True)
        (folder / f"{folder.name}_kernel_stats.csv").write_text("trace_file,kernel_name,count,total_duration_us,mean_duration_us\n"
                                                                f"rank-16.json,{GEMM},2,500000,250000\nrank-16.json,{SEND},1,100000,100000\n")
        job, = tree.jobs_of_tree(self.root)
        self.assertEqual(job.key(), ("llama3-70b", "", "64 x H100", "TP8-PP4", "recompute", 2))
        self.assertEqual(job.stages[1]["compute"], 0.5)

    def test_a_folder_without_files_is_a_job_out_of_memory_and_other_folders_are_none(self):
        sweep = self.root / "optimization-sweep-h200/gpt3-175b"
        for name in ("gpt3-175b_4_00000", "gpt3-175b_9_00000", "some_other_folder"):
            (sweep / name).mkdir(parents=True)
        job, = tree.jobs_of_tree(self.root)
        self.assertFalse(job.fits)

    def test_of_two_experiments_of_one_job_that_of_the_figures_sweep_is_drawn(self):
        write_experiment(self.root / "microbatch-sweep-h200/gpt3-175b/gpt3-175b_3_mbs1", 500, None)
        write_experiment(self.root / "microbatch-sweep-h200/gpt3-175b/gpt3-175b_3_mbs2", 550, None)
        write_experiment(self.root / "optimization-sweep-h200/gpt3-175b/gpt3-175b_3_01000", 600)
        jobs = tree.jobs_of_tree(self.root)
        self.assertEqual([job.numbers["power_mean_w"] for job in figures.select(4, jobs)], [600])
        self.assertEqual([job.numbers["power_mean_w"] for job in figures.select(13, jobs)], [500, 550])
        for number in (3, 4, 10, 17):
            figures.write(number, jobs, self.root)
            self.assertTrue((self.root / f"figure-{number}.svg").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
